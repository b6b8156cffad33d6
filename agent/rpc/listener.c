/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/rpc/connection.h"
#include "agent/rpc/socket-file.h"

/* How every HTTP/2 connection begins (RFC 9113, 3.4). */
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define PREFACE_SIZE (sizeof(PREFACE) - 1)

#define CONNECTIONS_MAX 256
#define GUESTS_MAX 128 /* of them, those that have not said who they are */
#define PREFACE_USEC ((uint64_t) 5 * 1000000)
#define PAUSE_USEC ((uint64_t) 500000)
#define N_GROUPS_MAX 1024

typedef struct Guest Guest;

/* Somebody who knocked and has to say something now. */
struct Guest {
        LIST_LINKS(Guest);
        Listener *listener;
        int fd;
        sd_event_source *io;
        sd_event_source *timer;
};

typedef struct Member Member;

/* Somebody who was let in. */
struct Member {
        LIST_LINKS(Member);
        Listener *listener;
        Connection *connection;
};

struct Listener {
        sd_event *event;
        sd_event_source *io;
        sd_event_source *pause;
        int fd;
        SocketFile file; /* without a path if somebody else made the socket */
        gid_t group;
        ListenerAccepted on_accepted;
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

static int on_member_left(Connection *connection, void *userdata) {
        member_free(userdata);
        return 0;
}

/* Being short of descriptors is the guest's bad luck, not ours. */
static int listener_turn_away(Listener *listener, Member *member, int fd, int r) {
        free(member);
        close_p(&fd);
        if (r == -ENOMEM)
                return r;

        listener->on_refused(LISTENER_REFUSED_LIMIT, listener->userdata);
        return 0;
}

static int listener_let_in(Listener *listener, int fd) {
        Member *member;
        int r;

        member = calloc(1, sizeof(*member));
        if (!member)
                return listener_turn_away(listener, NULL, fd, -ENOMEM);

        r = connection_new(listener->event, fd, on_member_left, member, &member->connection);
        if (r < 0)
                return listener_turn_away(listener, member, fd, r);

        member->listener = listener;
        list_prepend(&listener->members, member);
        listener->n_members++;
        return listener->on_accepted(fd, listener->userdata);
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
        guest_free(guest);
        return listener_let_in(listener, let_in);
}

static int on_guest_silent(sd_event_source *source, uint64_t usec, void *userdata) {
        return guest_send_away(userdata, LISTENER_REFUSED_SILENT);
}

static bool has_group(int fd, gid_t primary, gid_t wanted) {
        gid_t groups[N_GROUPS_MAX];
        socklen_t size = sizeof(groups);

        if (wanted == (gid_t) -1)
                return false;
        if (primary == wanted)
                return true;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
                return false;

        for (size_t i = 0; i < size / sizeof(groups[0]); i++)
                if (groups[i] == wanted)
                        return true;

        return false;
}

static bool may_call(int fd, gid_t group) {
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return false;

        return peer.uid == 0 || peer.uid == geteuid() || has_group(fd, peer.gid, group);
}

static int listener_receive(Listener *listener, int fd) {
        Guest *guest;
        int r;

        guest = calloc(1, sizeof(*guest));
        if (!guest) {
                close_p(&fd);
                return -ENOMEM;
        }

        guest->listener = listener;
        guest->fd = fd;
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

static bool has_room(const Listener *listener) {
        return listener->n_guests < GUESTS_MAX &&
               listener->n_guests + listener->n_members < CONNECTIONS_MAX;
}

/* The guest that has been silent for longest gives way, so that a crowd of silent ones cannot lock
 * the others out. */
static void listener_make_room(Listener *listener) {
        Guest *oldest = listener->guests;

        if (has_room(listener) || !oldest)
                return;

        while (oldest->next)
                oldest = oldest->next;
        (void) guest_send_away(oldest, LISTENER_REFUSED_SILENT);
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
        cleanup(close_p) int peer = -1;

        peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (peer < 0)
                return is_passing(errno) ? 0 : listener_pause(listener);

        listener_make_room(listener);
        if (!has_room(listener))
                listener->on_refused(LISTENER_REFUSED_LIMIT, listener->userdata);
        else if (!may_call(peer, listener->group))
                listener->on_refused(LISTENER_REFUSED_DENIED, listener->userdata);
        else
                return listener_receive(listener, take_fd(&peer));

        return 0;
}

static int listener_open(Listener *listener, const ListenerOptions *options, Error *reterr) {
        if (options->fd >= 0) {
                listener->fd = options->fd;
                return 0;
        }

        return socket_file_listen(options->path, options->group, &listener->file, &listener->fd,
                                  reterr);
}

int listener_new(sd_event *event, const ListenerOptions *options, ListenerAccepted on_accepted,
                 ListenerRefused on_refused, void *userdata, Listener **ret, Error *reterr) {

        cleanup(listener_free_p) Listener *listener = NULL;
        int r;

        listener = malloc(sizeof(*listener));
        if (!listener)
                return -ENOMEM;

        *listener = (Listener){
                .event = event,
                .fd = -1,
                .group = options->group,
                .on_accepted = on_accepted,
                .on_refused = on_refused,
                .userdata = userdata,
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
