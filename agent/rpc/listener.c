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

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/rpc/frame-spec.h"
#include "agent/rpc/guard.h"
#include "agent/rpc/room.h"

#define REFUSED_MAX 16 /* connections beyond the limits that are accepted to get the reason */
#define PAUSE_USEC ((uint64_t) 500000)

static const RoomLimits connection_limits = {
        .what = "connections",
        .for_user = 64,
        .for_others = 192,
        .for_all = 256,
};

typedef struct User User;

/* A user other than root whose budget is not full, or who has connections. */
struct User {
        LIST_LINKS(User);
        uid_t uid;
        size_t n_clients;
        FrameBudget budget;
};

typedef struct Client Client;

/* A connection that was accepted. */
struct Client {
        LIST_LINKS(Client);
        Listener *listener;
        Guard *guard;
        uid_t uid;
        User *user; /* NULL: root */
        bool is_root;
        bool is_refused;
        void *handle; /* argument of on_left */
};

/* The socket file that the listener made, by inode, since its name may be another file by now. */
typedef struct SocketFile {
        char *path; /* NULL: none */
        dev_t device;
        ino_t inode;
} SocketFile;

struct Listener {
        sd_event *event;
        sd_event_source *io;
        Timer pause;
        int fd;
        SocketFile file; /* without a path if the socket was inherited */
        gid_t group;
        ListenerAccepted on_accepted;
        ListenerLeft on_left;
        ListenerRefused on_refused;
        ListenerShort on_short;
        void *userdata;

        Client *clients;
        size_t n_clients;
        User *users;
        FrameBucket shared; /* budget of all users but root */
};

DEFINE_CLEANUP(Listener *, listener_free)

static void listener_forget_users(Listener *listener, bool all) {
        uint64_t now_usec = loop_now_usec(listener->event);
        User *next;

        for (User *user = listener->users; user; user = next) {
                next = user->next;
                if (user->n_clients == 0 &&
                    (all || frame_budget_is_full(&user->budget, now_usec))) {
                        list_remove(&listener->users, user);
                        free(user);
                }
        }
}

static User *listener_find_user(Listener *listener, uid_t uid) {
        User *user;

        for (user = listener->users; user; user = user->next)
                if (user->uid == uid)
                        return user;

        user = malloc(sizeof(*user));
        if (!user)
                return NULL;

        *user = (User){ .uid = uid };
        frame_budget_init(&user->budget, &listener->shared, loop_now_usec(listener->event));
        list_prepend(&listener->users, user);
        return user;
}

static Client *client_free(Client *client) {
        list_remove(&client->listener->clients, client);
        client->listener->n_clients--;
        if (client->user)
                client->user->n_clients--;
        guard_free(client->guard);
        free(client);
        return NULL;
}

static void client_leave(Client *client) {
        Listener *listener = client->listener;
        void *handle = client->handle;

        client_free(client);
        listener->on_left(handle, listener->userdata);
}

static int on_client_left(Guard *guard, void *userdata) {
        client_leave(userdata);
        return 0;
}

/* Sets why there is no room for one more connection. */
static int listener_check(const Listener *listener, const Peer *peer, Error *reterr) {
        RoomUse use = { 0 };

        for (const Client *client = listener->clients; client; client = client->next)
                if (!client->is_refused)
                        room_count(&use, client->is_root, client->uid == peer->uid, 1);

        return room_check(&connection_limits, &use, peer_is_root(peer), peer->uid, 1, reterr);
}

/* The time of the oldest refused connection is over. */
static void listener_end_refused(Listener *listener) {
        Client *oldest = NULL;
        size_t n = 0;

        for (Client *client = listener->clients; client; client = client->next)
                if (client->is_refused) {
                        oldest = client;
                        n++;
                }

        if (n <= REFUSED_MAX)
                return;

        client_leave(oldest);
}

/* A lack of descriptors ends only this connection. */
static int listener_drop(Listener *listener, int fd, Peer *peer, int r) {
        close_p(&fd);
        peer_done(peer);
        if (r == -ENOMEM)
                return r;

        listener->on_short(-r, listener->userdata);
        listener->on_refused(LISTENER_REFUSED_LIMIT, listener->userdata);
        return 0;
}

/* Without a word, since a server of gRPC's to say why is what costs most. */
static int listener_hang_up(Listener *listener, int fd, Peer *peer) {
        close_p(&fd);
        peer_done(peer);
        listener->on_refused(LISTENER_REFUSED_LIMIT, listener->userdata);
        return 0;
}

/* Takes fd over, unless it fails; *ret_fd is for gRPC. */
static int client_new(Listener *listener, int fd, const Peer *peer, User *user, Client **ret,
                      int *ret_fd) {
        cleanup(free_p) Client *client = NULL;
        int r;

        client = malloc(sizeof(*client));
        if (!client)
                return -ENOMEM;

        *client = (Client){
                .listener = listener,
                .uid = peer->uid,
                .is_root = peer_is_root(peer),
                .user = user,
        };
        r = guard_new(listener->event, fd, user ? &user->budget : NULL, on_client_left, client,
                      &client->guard, ret_fd);
        if (r < 0)
                return r;

        if (user) {
                user->n_clients++;
                frame_budget_pay(&user->budget, FRAME_PRICE_CONNECTION,
                                 loop_now_usec(listener->event));
        }
        list_prepend(&listener->clients, client);
        listener->n_clients++;
        *ret = take_ptr(client);
        return 0;
}

/* Takes fd and peer over. */
static int listener_accept(Listener *listener, int fd, Peer *peer) {
        cleanup(error_done) Error error = ERROR_INIT;
        User *user = NULL;
        Client *client;
        int r, grpc_fd;

        listener_forget_users(listener, false);
        if (!peer_is_root(peer)) {
                user = listener_find_user(listener, peer->uid);
                if (!user)
                        return listener_drop(listener, fd, peer, -ENOMEM);
                if (frame_budget_pause_usec(&user->budget, loop_now_usec(listener->event)) > 0)
                        return listener_hang_up(listener, fd, peer);
        }

        r = listener_check(listener, peer, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return listener_drop(listener, fd, peer, -ENOMEM);

        r = client_new(listener, fd, peer, user, &client, &grpc_fd);
        if (r < 0)
                return listener_drop(listener, fd, peer, r);

        client->is_refused = error.kind != ERROR_NONE;
        if (client->is_refused) {
                listener_end_refused(listener);
                listener->on_refused(LISTENER_REFUSED_LIMIT, listener->userdata);
        }
        return listener->on_accepted(grpc_fd, peer, client->is_refused ? &error : NULL,
                                     &client->handle, listener->userdata);
}

static bool may_call(const Peer *peer, gid_t group) {
        return peer_is_root(peer) || peer_has_group(peer, group);
}

static int on_pause_over(void *userdata) {
        Listener *listener = userdata;

        return sd_event_source_set_enabled(listener->io, SD_EVENT_ON);
}

/* The error concerns this connection alone. After any other, such as a lack of descriptors or
 * memory, the next accept() would fail as well, and the loop would do nothing else. */
static bool is_passing(int error) {
        return error == EAGAIN || error == EINTR || error == ECONNABORTED;
}

/* Leaves new connections in the backlog until descriptors or memory may be free. */
static int listener_pause(Listener *listener, int number) {
        listener->on_short(number, listener->userdata);
        (void) sd_event_source_set_enabled(listener->io, SD_EVENT_OFF);
        return timer_start(&listener->pause, PAUSE_USEC);
}

static int on_connection(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Listener *listener = userdata;
        cleanup(peer_done) Peer who = { .groups = NULL };
        cleanup(close_p) int peer = -1;
        Peer given;
        int r;

        peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (peer < 0)
                return is_passing(errno) ? 0 : listener_pause(listener, errno);

        r = peer_read(peer, &who);
        if (r == -ENOMEM)
                return r;

        if (r < 0 || !may_call(&who, listener->group)) {
                listener->on_refused(LISTENER_REFUSED_DENIED, listener->userdata);
                return 0;
        }
        given = who;
        who = (Peer){ .groups = NULL };
        return listener_accept(listener, take_fd(&peer), &given);
}

/* A process listens there, perhaps too busy to answer, or of another kind. */
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

/* Refuses a file that another user may have put in place of the socket: one of the agent's files,
 * hard-linked here, has two names. */
static int check_file(const struct stat *status) {
        return S_ISSOCK(status->st_mode) && status->st_uid == geteuid() && status->st_nlink == 1
                       ? 0
                       : -EEXIST;
}

/* Changes the group only if needed, since a system call filter may forbid it. */
static int give_to_group(int fd, const struct stat *status, gid_t group) {
        if (group == (gid_t) -1 || status->st_gid == group)
                return 0;

        return fchownat(fd, "", (uid_t) -1, group, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* From here on uses the descriptor rather than the name. */
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
        bool is_invalid = r == -ENOENT || r == -ENOTDIR;

        return r == -ENOMEM ? r
                            : error_set(reterr, is_invalid ? ERROR_INVALID : ERROR_DENIED,
                                        "cannot listen on %s: %s; choose another path with "
                                        "--socket",
                                        path, strerror(-r));
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
                .on_short = options->on_short,
                .userdata = options->userdata,
        };
        timer_init(&listener->pause, event, /* accuracy_usec= */ 0, on_pause_over, listener);
        frame_budget_init_shared(&listener->shared, loop_now_usec(event));
        r = listener_open(listener, options, reterr);
        if (r < 0)
                return r;

        r = loop_add_io(event, &listener->io, listener->fd, EPOLLIN, on_connection, listener);
        if (r < 0)
                return r;

        /* Makes the clock's descriptor now, since the timer is for when none are left. */
        r = timer_start(&listener->pause, PAUSE_USEC);
        if (r < 0)
                return r;
        timer_stop(&listener->pause);

        *ret = take_ptr(listener);
        return 0;
}

Listener *listener_free(Listener *listener) {
        if (!listener)
                return NULL;

        while (listener->clients)
                client_free(listener->clients);
        listener_forget_users(listener, true);
        sd_event_source_disable_unref(listener->io);
        timer_done(&listener->pause);
        socket_file_remove(&listener->file);
        close_p(&listener->fd);
        free(listener);
        return NULL;
}

size_t listener_n_connections(const Listener *listener) {
        return listener->n_clients;
}

const char *listener_refusal_to_string(ListenerRefusal refusal) {
        static const char *const names[_LISTENER_REFUSAL_MAX] = {
                [LISTENER_REFUSED_LIMIT] = "limit",
                [LISTENER_REFUSED_DENIED] = "denied",
        };

        return names[refusal];
}
