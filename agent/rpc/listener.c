/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/rpc/connection.h"
#include "agent/rpc/room.h"

/* How every HTTP/2 connection begins (RFC 9113, 3.4). */
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define PREFACE_SIZE (sizeof(PREFACE) - 1)

#define SILENT_MAX 128 /* connections that have said nothing */
#define REFUSED_MAX 16 /* connections beyond the limits, which are let in to learn that */
#define PREFACE_USEC ((uint64_t) 5 * 1000000)
#define PAUSE_USEC ((uint64_t) 500000)

static const RoomLimits connection_limits = {
        .what = "connections",
        .for_user = 64,
        .for_others = 192,
        .for_all = 256,
};

typedef struct Guest Guest;

/* Somebody who knocked and has to say something now. */
struct Guest {
        LIST_LINKS(Guest);
        Listener *listener;
        int fd;
        Peer peer;
        sd_event_source *io;
        sd_event_source *timer;
};

typedef struct Member Member;

/* Somebody who was let in. */
struct Member {
        LIST_LINKS(Member);
        Listener *listener;
        Connection *connection;
        uid_t uid;
        bool is_root;
        bool is_refused;
        void *handle; /* what on_left gets */
};

/* The file that was made, whatever has its name by now. */
typedef struct SocketFile {
        char *path; /* NULL: none */
        dev_t device;
        ino_t inode;
} SocketFile;

struct Listener {
        sd_event *event;
        sd_event_source *io;
        sd_event_source *pause;
        int fd;
        SocketFile file; /* without a path if somebody else made the socket */
        gid_t group;
        ListenerAccepted on_accepted;
        ListenerLeft on_left;
        ListenerRefused on_refused;
        void *userdata;

        Guest *guests;
        size_t n_guests;
        Member *members;
        size_t n_members;
};

DEFINE_CLEANUP(Listener *, listener_free)

static Guest *guest_free(Guest *guest) {
        list_remove(&guest->listener->guests, guest);
        guest->listener->n_guests--;
        sd_event_source_disable_unref(guest->io);
        sd_event_source_disable_unref(guest->timer);
        close_p(&guest->fd);
        peer_done(&guest->peer);
        free(guest);
        return NULL;
}

static Member *member_free(Member *member) {
        list_remove(&member->listener->members, member);
        member->listener->n_members--;
        connection_free(member->connection);
        free(member);
        return NULL;
}

static void member_leave(Member *member) {
        Listener *listener = member->listener;
        void *handle = member->handle;

        member_free(member);
        listener->on_left(handle, listener->userdata);
}

static int on_member_left(Connection *connection, void *userdata) {
        member_leave(userdata);
        return 0;
}

/* Why there is no room for one more, or unset. */
static int listener_check(const Listener *listener, const Peer *peer, Error *reterr) {
        RoomUse use = { 0 };

        for (const Member *member = listener->members; member; member = member->next)
                if (!member->is_refused)
                        room_count(&use, member->is_root, member->uid == peer->uid, 1);

        return room_check(&connection_limits, &use, peer_is_root(peer), peer->uid, 1, reterr);
}

/* The oldest of those that were refused has had its time. */
static void listener_end_refused(Listener *listener) {
        Member *oldest = NULL;
        size_t n = 0;

        for (Member *member = listener->members; member; member = member->next)
                if (member->is_refused) {
                        oldest = member;
                        n++;
                }

        if (n <= REFUSED_MAX)
                return;

        connection_shut_down(oldest->connection);
        member_leave(oldest);
}

/* Being short of descriptors is the guest's bad luck, not ours. */
static int listener_turn_away(Listener *listener, int fd, Peer *peer, int r) {
        close_p(&fd);
        peer_done(peer);
        if (r == -ENOMEM)
                return r;

        listener->on_refused(LISTENER_REFUSED_LIMIT, listener->userdata);
        return 0;
}

static int member_new(Listener *listener, int fd, const Peer *peer, Member **ret) {
        Member *member;
        int r;

        member = malloc(sizeof(*member));
        if (!member)
                return -ENOMEM;

        *member = (Member){
                .listener = listener,
                .uid = peer->uid,
                .is_root = peer_is_root(peer),
        };
        r = connection_new(listener->event, fd, on_member_left, member, &member->connection);
        if (r < 0) {
                free(member);
                return r;
        }

        list_prepend(&listener->members, member);
        listener->n_members++;
        *ret = member;
        return 0;
}

static int listener_let_in(Listener *listener, int fd, Peer *peer) {
        cleanup(error_done) Error error = ERROR_INIT;
        Member *member;
        int r;

        r = listener_check(listener, peer, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return listener_turn_away(listener, fd, peer, -ENOMEM);

        r = member_new(listener, fd, peer, &member);
        if (r < 0)
                return listener_turn_away(listener, fd, peer, r);

        member->is_refused = error.kind != ERROR_NONE;
        if (member->is_refused) {
                listener_end_refused(listener);
                listener->on_refused(LISTENER_REFUSED_LIMIT, listener->userdata);
        }
        return listener->on_accepted(fd, peer, member->is_refused ? &error : NULL, &member->handle,
                                     listener->userdata);
}

static int guest_send_away(Guest *guest, ListenerRefusal refusal) {
        Listener *listener = guest->listener;

        guest_free(guest);
        listener->on_refused(refusal, listener->userdata);
        return 0;
}

/* Looks at the first bytes and leaves them for gRPC. */
static int on_guest_speaks(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Guest *guest = userdata;
        Listener *listener = guest->listener;
        char said[PREFACE_SIZE];
        ssize_t n;

        n = recv(fd, said, sizeof(said), MSG_PEEK);
        if (n < 0 && errno == EAGAIN)
                return 0;
        if (n <= 0)
                return guest_send_away(guest, LISTENER_REFUSED_SILENT);
        if (memcmp(said, PREFACE, (size_t) n) != 0)
                return guest_send_away(guest, LISTENER_REFUSED_JUNK);
        if ((size_t) n < PREFACE_SIZE)
                return revents & EPOLLRDHUP ? guest_send_away(guest, LISTENER_REFUSED_SILENT) : 0;

        int let_in = take_fd(&guest->fd);
        Peer peer = guest->peer;
        guest->peer = (Peer){ .groups = NULL };
        guest_free(guest);
        return listener_let_in(listener, let_in, &peer);
}

static int on_guest_silent(sd_event_source *source, uint64_t usec, void *userdata) {
        return guest_send_away(userdata, LISTENER_REFUSED_SILENT);
}

static bool may_call(const Peer *peer, gid_t group) {
        return peer_is_root(peer) || peer_has_group(peer, group);
}

/* Takes fd and peer over. */
static int listener_receive(Listener *listener, int fd, Peer *peer) {
        Guest *guest;
        int r;

        guest = calloc(1, sizeof(*guest));
        if (!guest) {
                close_p(&fd);
                peer_done(peer);
                return -ENOMEM;
        }

        guest->listener = listener;
        guest->fd = fd;
        guest->peer = *peer;
        list_prepend(&listener->guests, guest);
        listener->n_guests++;

        /* On the edge: bytes that were looked at and left there must not wake us again. */
        r = loop_add_io(listener->event, &guest->io, fd, EPOLLIN | EPOLLRDHUP | EPOLLET,
                        on_guest_speaks, guest);
        if (r < 0)
                return r;

        return loop_add_time_relative(listener->event, &guest->timer, CLOCK_MONOTONIC, PREFACE_USEC,
                                      0, on_guest_silent, guest);
}

/* The one that has been silent for longest gives way, so that a crowd of silent ones cannot lock the
 * others out: to root one of another user, if there is any, to others only one that is not root's. */
static Guest *listener_find_silent(const Listener *listener, bool is_for_root) {
        Guest *oldest = NULL, *of_root = NULL;

        for (Guest *guest = listener->guests; guest; guest = guest->next)
                if (peer_is_root(&guest->peer))
                        of_root = guest;
                else
                        oldest = guest;

        return oldest || !is_for_root ? oldest : of_root;
}

static bool listener_make_room(Listener *listener, const Peer *peer) {
        Guest *silent;

        if (listener->n_guests < SILENT_MAX)
                return true;

        silent = listener_find_silent(listener, peer_is_root(peer));
        if (silent)
                (void) guest_send_away(silent, LISTENER_REFUSED_SILENT);
        return silent;
}

static int on_pause_over(sd_event_source *source, uint64_t usec, void *userdata) {
        Listener *listener = userdata;

        return sd_event_source_set_enabled(listener->io, SD_EVENT_ON);
}

/* The connection, and not we, is the reason. With whatever else, such as no descriptors or memory, the
 * next one would fail as well, and the loop would do nothing else. */
static bool is_passing(int error) {
        return error == EAGAIN || error == EINTR || error == ECONNABORTED;
}

/* The ones who knock wait outside until there is what was missing. */
static int listener_pause(Listener *listener) {
        listener->pause = sd_event_source_disable_unref(listener->pause);
        (void) sd_event_source_set_enabled(listener->io, SD_EVENT_OFF);
        return loop_add_time_relative(listener->event, &listener->pause, CLOCK_MONOTONIC,
                                      PAUSE_USEC, 0, on_pause_over, listener);
}

static int on_knock(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Listener *listener = userdata;
        cleanup(peer_done) Peer who = { .groups = NULL };
        cleanup(close_p) int peer = -1;
        Peer given;
        int r;

        peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (peer < 0)
                return is_passing(errno) ? 0 : listener_pause(listener);

        r = peer_read(peer, &who);
        if (r == -ENOMEM)
                return r;

        if (r < 0 || !may_call(&who, listener->group)) {
                listener->on_refused(LISTENER_REFUSED_DENIED, listener->userdata);
                return 0;
        }
        if (!listener_make_room(listener, &who)) {
                listener->on_refused(LISTENER_REFUSED_LIMIT, listener->userdata);
                return 0;
        }

        given = who;
        who = (Peer){ .groups = NULL };
        return listener_receive(listener, take_fd(&peer), &given);
}

/* Whether a process answers there, even if it is in another way, or too busy. */
static bool is_served(const struct sockaddr_un *address) {
        cleanup(close_p) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        return fd >= 0 && (connect(fd, (const struct sockaddr *) address, sizeof(*address)) == 0 ||
                           errno == EAGAIN || errno == EPROTOTYPE);
}

static int make_way(const struct sockaddr_un *address, Error *reterr) {
        const char *path = address->sun_path;
        struct stat status;

        if (lstat(path, &status) < 0)
                return 0;
        if (!S_ISSOCK(status.st_mode))
                return error_set(reterr, ERROR_CONFLICT,
                                 "%s exists and is not a socket; move it away or choose another "
                                 "path with --socket",
                                 path);
        if (is_served(address))
                return error_set(reterr, ERROR_CONFLICT,
                                 "%s is served by another process; stop that one or choose another "
                                 "path with --socket",
                                 path);
        if (unlink(path) < 0)
                return error_set(reterr, ERROR_DENIED, "cannot remove the stale socket %s: %s",
                                 path, strerror(errno));
        return 0;
}

/* The umask gives the mode with the file: a chmod() after it might change a file that another user
 * has put there meanwhile. gRPC's threads, which share the umask, make no files. */
static int bind_private(int fd, const struct sockaddr_un *address) {
        mode_t before = umask(0117);
        int r = bind(fd, (const struct sockaddr *) address, sizeof(*address));
        int error = errno;

        umask(before);
        return r < 0 ? -error : 0;
}

/* Refuses what another user may have put in place of the socket: a file that is ours, but hard-linked
 * here, has two names. */
static int check_file(const struct stat *status) {
        return S_ISSOCK(status->st_mode) && status->st_uid == geteuid() && status->st_nlink == 1
                       ? 0
                       : -EEXIST;
}

/* Changes the group only where it has to: a filter of system calls may not let us. */
static int give_to_group(int fd, const struct stat *status, gid_t group) {
        if (group == (gid_t) -1 || status->st_gid == group)
                return 0;

        return fchownat(fd, "", (uid_t) -1, group, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* From here on the file is known by its descriptor and not by its name. */
static int take_file(const char *path, gid_t group, SocketFile *ret) {
        cleanup(close_p) int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        struct stat status;
        int r;

        if (fd < 0 || fstat(fd, &status) < 0)
                return -errno;

        r = check_file(&status);
        if (r < 0)
                return r;

        ret->path = strdup(path);
        ret->device = status.st_dev;
        ret->inode = status.st_ino;
        return ret->path ? give_to_group(fd, &status, group) : -ENOMEM;
}

static int refuse(const char *path, int r, Error *reterr) {
        return r == -ENOMEM ? r
                            : error_set(reterr, ERROR_DENIED, "cannot listen on %s: %s", path,
                                        strerror(-r));
}

/* Makes the socket with mode 0660 and that group; (gid_t) -1: the one that it gets by itself. The
 * socket file of a process that does not listen any more is replaced; a file that is not a socket, or
 * a socket that is served, is left alone and refused in words. The caller owns both results, the file
 * also after a failure. The folder may be one in which other users can put files: none of these is
 * followed, changed or removed. */
static int socket_file_listen(const char *path, gid_t group, SocketFile *ret, int *ret_fd,
                              Error *reterr) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        cleanup(close_p) int fd = -1;
        int r;

        if (strlen(path) >= sizeof(address.sun_path))
                return error_set(reterr, ERROR_INVALID,
                                 "%s is longer than the %zu bytes that a socket's path may have; "
                                 "choose a shorter one with --socket",
                                 path, sizeof(address.sun_path) - 1);
        strcpy(address.sun_path, path);

        r = make_way(&address, reterr);
        if (r < 0)
                return r;

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;

        r = bind_private(fd, &address);
        if (r < 0)
                return refuse(path, r, reterr);

        r = take_file(path, group, ret);
        if (r < 0)
                return refuse(path, r, reterr);

        if (listen(fd, SOMAXCONN) < 0)
                return refuse(path, -errno, reterr);

        *ret_fd = take_fd(&fd);
        return 0;
}

/* Removes the file, unless another process has replaced it. To be called before the socket is closed:
 * as long as it is open no other file gets its inode. */
static void socket_file_remove(SocketFile *file) {
        struct stat status;

        if (file->path && lstat(file->path, &status) == 0 && status.st_dev == file->device &&
            status.st_ino == file->inode)
                (void) unlink(file->path);
        free(take_ptr(file->path));
}

static int listener_open(Listener *listener, const ListenerOptions *options, Error *reterr) {
        if (options->fd >= 0) {
                listener->fd = options->fd;
                return 0;
        }

        return socket_file_listen(options->path, options->group, &listener->file, &listener->fd,
                                  reterr);
}

int listener_new(sd_event *event, const ListenerOptions *options, Listener **ret, Error *reterr) {
        cleanup(listener_free_p) Listener *listener = NULL;
        int r;

        listener = malloc(sizeof(*listener));
        if (!listener)
                return -ENOMEM;

        *listener = (Listener){
                .event = event,
                .fd = -1,
                .group = options->group,
                .on_accepted = options->on_accepted,
                .on_left = options->on_left,
                .on_refused = options->on_refused,
                .userdata = options->userdata,
        };
        r = listener_open(listener, options, reterr);
        if (r < 0)
                return r;

        r = loop_add_io(event, &listener->io, listener->fd, EPOLLIN, on_knock, listener);
        if (r < 0)
                return r;

        *ret = take_ptr(listener);
        return 0;
}

Listener *listener_free(Listener *listener) {
        if (!listener)
                return NULL;

        while (listener->guests)
                guest_free(listener->guests);
        while (listener->members)
                member_free(listener->members);
        sd_event_source_disable_unref(listener->io);
        sd_event_source_disable_unref(listener->pause);
        socket_file_remove(&listener->file);
        close_p(&listener->fd);
        free(listener);
        return NULL;
}

size_t listener_n_connections(const Listener *listener) {
        return listener->n_members;
}

const char *listener_refusal_to_string(ListenerRefusal refusal) {
        static const char *const names[_LISTENER_REFUSAL_MAX] = {
                [LISTENER_REFUSED_LIMIT] = "limit",
                [LISTENER_REFUSED_JUNK] = "junk",
                [LISTENER_REFUSED_SILENT] = "silent",
                [LISTENER_REFUSED_DENIED] = "denied",
        };

        return names[refusal];
}
