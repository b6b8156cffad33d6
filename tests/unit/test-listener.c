/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The socket of the local API, with real sockets
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/rpc/listener.h"
#include "tests/unit/descriptor-limit.h"
#include "tests/unit/failing-accept.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/unit.h"

#define TIMEOUT_USEC ((uint64_t) 60 * 1000000)
#define N_PEERS 300
#define N_CONNECTIONS_MAX 256 /* connections of all users */
#define N_OTHERS_MAX 192      /* connections of all users but root */
#define N_OF_USER_MAX 64      /* connections of one such user */
#define N_REFUSED_MAX 16
#define SOME_ID 12345 /* ID of a user or group that is not in use here */

/* How much faster than real time the listener's clock runs, so that the test need not wait for it. */
static uint64_t speed = 1;

/* Takes the place of libsystemd's function. */
int sd_event_add_time(sd_event *event, sd_event_source **ret, clockid_t clock, uint64_t usec,
                      uint64_t accuracy, sd_event_time_handler_t on_time, void *userdata) {
        int (*add)(sd_event *, sd_event_source **, clockid_t, uint64_t, uint64_t,
                   sd_event_time_handler_t, void *) = dlsym(RTLD_NEXT, "sd_event_add_time");
        uint64_t now;

        assert_true(sd_event_now(event, clock, &now) >= 0);
        return add(event, ret, clock, now + (usec - now) / speed, accuracy, on_time, userdata);
}

/* Runs between bind() and the next call. */
static void (*after_bind)(const char *path);

/* Takes the place of libc's function. */
int bind(int fd, const struct sockaddr *address, socklen_t size) {
        int r = (int) syscall(SYS_bind, fd, address, size);

        if (r == 0 && after_bind)
                after_bind(((const struct sockaddr_un *) address)->sun_path);
        return r;
}

/* As a filter of system calls would have it. */
static bool may_not_change_owner;

int fchownat(int fd, const char *path, uid_t user, gid_t group, int flags) {
        if (!may_not_change_owner)
                return (int) syscall(SYS_fchownat, fd, path, user, group, flags);

        errno = EPERM;
        return -1;
}

int lchown(const char *path, uid_t user, gid_t group) {
        return fchownat(AT_FDCWD, path, user, group, AT_SYMLINK_NOFOLLOW);
}

typedef struct Fixture {
        char folder[32];
        char path[64];
        sd_event *event;
        Listener *listener;
        int peers[N_PEERS];    /* our ends */
        int accepted[N_PEERS]; /* the other ends of the accepted connections */
        unsigned n_accepted;
        unsigned n_left;
        unsigned n_words; /* accepted connections that are to be refused in words */
        char words[256];
        uid_t uid; /* user of the last peer */
        pid_t pid;
        unsigned n_refused;
        unsigned refusals[_LISTENER_REFUSAL_MAX];
        int short_of; /* the last errno */
} Fixture;

static int on_accepted(int fd, Peer *peer, const Error *refusal, void **ret, void *userdata) {
        Fixture *fixture = userdata;

        fixture->uid = peer->uid;
        fixture->pid = peer->pid;
        peer_done(peer);
        if (refusal) {
                fixture->n_words++;
                snprintf(fixture->words, sizeof(fixture->words), "%s", error_message(refusal));
        }
        *ret = &fixture->accepted[fixture->n_accepted];
        fixture->accepted[fixture->n_accepted++] = fd;
        return 0;
}

static void on_left(void *connection, void *userdata) {
        Fixture *fixture = userdata;

        assert_true((int *) connection >= fixture->accepted);
        assert_true((int *) connection < fixture->accepted + fixture->n_accepted);
        fixture->n_left++;
}

static void on_short(int number, void *userdata) {
        Fixture *fixture = userdata;

        fixture->short_of = number;
}

static void on_refused(ListenerRefusal refusal, void *userdata) {
        Fixture *fixture = userdata;

        fixture->refusals[refusal]++;
        fixture->n_refused++;
}

static void open_fixture(Fixture *fixture) {
        speed = 1;
        accept_error = 0;
        after_bind = NULL;
        may_not_change_owner = false;
        scratch_make(fixture->folder);
        assert_ok(chmod(fixture->folder, 0755));
        sprintf(fixture->path, "%s/socket", fixture->folder);
        for (size_t i = 0; i < N_PEERS; i++)
                fixture->peers[i] = fixture->accepted[i] = -1;
        assert_true(sd_event_new(&fixture->event) >= 0);
}

static void close_fixture(Fixture *fixture) {
        fixture->listener = listener_free(fixture->listener);
        for (size_t i = 0; i < N_PEERS; i++) {
                close_p(&fixture->peers[i]);
                close_p(&fixture->accepted[i]);
        }
        sd_event_unref(fixture->event);
        (void) unlink(fixture->path);
        (void) rmdir(fixture->path);
        assert_ok(rmdir(fixture->folder));
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

static int try_to_listen(Fixture *fixture, ListenerOptions options, Error *reterr) {
        options.path = options.path ?: fixture->path;
        options.on_accepted = on_accepted;
        options.on_left = on_left;
        options.on_refused = on_refused;
        options.on_short = on_short;
        options.userdata = fixture;
        return listener_new(fixture->event, &options, &fixture->listener, reterr);
}

#define ROOT_ONLY ((ListenerOptions){ .fd = -1, .group = (gid_t) -1 })

static void start(Fixture *fixture) {
        assert_ok(try_to_listen(fixture, ROOT_ONLY, NULL));
}

static struct sockaddr_un address_of(const char *path) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        assert_true(strlen(path) < sizeof(address.sun_path));
        strcpy(address.sun_path, path);
        return address;
}

/* A socket that is bound to the path, and listens if it is of a type that does. */
static int bind_to(const char *path, int type) {
        struct sockaddr_un address = address_of(path);
        int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        assert_true(fd >= 0);
        assert_ok(bind(fd, (struct sockaddr *) &address, sizeof(address)));
        assert_true(type == SOCK_DGRAM || listen(fd, 8) == 0);
        return fd;
}

static void connect_peer(Fixture *fixture, size_t peer) {
        struct sockaddr_un address = address_of(fixture->path);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        assert_true(fd >= 0);
        fixture->peers[peer] = fd;
        assert_ok(connect(fd, (struct sockaddr *) &address, sizeof(address)));
}

static void say(Fixture *fixture, size_t peer, const char *text, size_t size) {
        assert_int_equal(send(fixture->peers[peer], text, size, MSG_NOSIGNAL), size);
}

static uint64_t now_usec(const Fixture *fixture) {
        struct timespec now;

        assert_ok(clock_gettime(CLOCK_MONOTONIC, &now));
        return (uint64_t) now.tv_sec * 1000000 + (uint64_t) now.tv_nsec / 1000;
}

/* Runs the loop until a count has this value. */
static void wait_for(Fixture *fixture, const unsigned *count, unsigned expected) {
        uint64_t end = now_usec(fixture) + TIMEOUT_USEC;

        while (*count < expected && now_usec(fixture) < end)
                assert_true(sd_event_run(fixture->event, 100000) >= 0);
        assert_int_equal(*count, expected);
}

/* Runs the loop until no event is pending. */
static void drain(Fixture *fixture) {
        while (sd_event_run(fixture->event, 0) > 0)
                ;
}

static void wait_for_connections(Fixture *fixture, size_t expected) {
        uint64_t end = now_usec(fixture) + TIMEOUT_USEC;

        while (listener_n_connections(fixture->listener) != expected && now_usec(fixture) < end)
                assert_true(sd_event_run(fixture->event, 100000) >= 0);
        assert_int_equal(listener_n_connections(fixture->listener), expected);
}

/* Whether the listener has closed the other end. */
static bool is_closed(const Fixture *fixture, size_t peer) {
        char byte;
        ssize_t n = recv(fixture->peers[peer], &byte, 1, MSG_PEEK);

        return n == 0 || (n < 0 && errno == ECONNRESET);
}

TEST_F(test_connection_is_accepted, Fixture *fixture) {
        start(fixture);
        connect_peer(fixture, 0);
        wait_for(fixture, &fixture->n_accepted, 1);
        assert_int_equal(fixture->n_refused, 0);
        assert_int_equal(listener_n_connections(fixture->listener), 1);
        assert_false(is_closed(fixture, 0));
}

/* Data from the peer is left for gRPC. */
TEST_F(test_nothing_is_swallowed, Fixture *fixture) {
        char heard[64] = "";

        start(fixture);
        connect_peer(fixture, 0);
        say(fixture, 0, "some bytes", strlen("some bytes"));
        wait_for(fixture, &fixture->n_accepted, 1);
        drain(fixture);
        assert_int_equal(recv(fixture->accepted[0], heard, sizeof(heard), 0), strlen("some bytes"));
        assert_string_equal(heard, "some bytes");

        say(fixture, 0, "!", 1);
        drain(fixture);
        assert_int_equal(recv(fixture->accepted[0], heard, sizeof(heard), 0), 1);
        assert_int_equal(recv(fixture->accepted[0], heard, sizeof(heard), 0), -1);
        assert_int_equal(errno, EAGAIN); /* and it does not block */
}

TEST_F(test_peer_goes_away, Fixture *fixture) {
        start(fixture);
        for (size_t i = 0; i < 3; i++) {
                connect_peer(fixture, i);
        }
        wait_for(fixture, &fixture->n_accepted, 3);
        assert_int_equal(listener_n_connections(fixture->listener), 3);

        close_p(&fixture->peers[1]);
        fixture->peers[1] = -1;
        wait_for_connections(fixture, 2);
        assert_int_equal(fixture->n_refused, 0);
}

/* The caller gets what the server said before it closed, if it reads on. */
TEST_F(test_last_words, Fixture *fixture) {
        static char said[100000];
        size_t n_heard = 0;
        ssize_t n;

        start(fixture);
        connect_peer(fixture, 0);
        wait_for(fixture, &fixture->n_accepted, 1);
        n = send(fixture->accepted[0], said, sizeof(said), MSG_NOSIGNAL);
        assert_int_equal(n, sizeof(said));
        close_p(&fixture->accepted[0]);
        fixture->accepted[0] = -1;
        drain(fixture);
        while (listener_n_connections(fixture->listener) > 0) {
                while ((n = recv(fixture->peers[0], said, sizeof(said), 0)) > 0)
                        n_heard += (size_t) n;
                assert_true(sd_event_run(fixture->event, 100000) >= 0);
        }
        while ((n = recv(fixture->peers[0], said, sizeof(said), 0)) > 0)
                n_heard += (size_t) n;
        assert_int_equal(n_heard, sizeof(said));
}

/* The same where the caller has sent something that the server does not read any more. */
TEST_F(test_last_words_for_a_caller_who_speaks, Fixture *fixture) {
        static char said[16384], heard[16384];
        uint64_t end = now_usec(fixture) + TIMEOUT_USEC;
        size_t n_said = 0, n_heard = 0;
        ssize_t n;

        start(fixture);
        connect_peer(fixture, 0);
        wait_for(fixture, &fixture->n_accepted, 1);
        while ((n = send(fixture->accepted[0], said, sizeof(said), MSG_NOSIGNAL)) > 0) {
                n_said += (size_t) n;
                drain(fixture);
        }
        say(fixture, 0, "!", 1);
        close_p(&fixture->accepted[0]);
        fixture->accepted[0] = -1;
        while (n_heard < n_said && now_usec(fixture) < end) {
                assert_true(sd_event_run(fixture->event, 0) >= 0);
                n = recv(fixture->peers[0], heard, sizeof(heard), 0);
                assert_true(n > 0 || (n < 0 && errno == EAGAIN));
                n_heard += n > 0 ? (size_t) n : 0;
        }
        assert_int_equal(n_heard, n_said);
        wait_for_connections(fixture, 0);
}

/* A caller who does not read neither fills the memory nor keeps the connection once the server has closed. */
TEST_F(test_peer_that_does_not_read, Fixture *fixture) {
        static const char said[100000];

        start(fixture);
        connect_peer(fixture, 0);
        wait_for(fixture, &fixture->n_accepted, 1);
        for (unsigned i = 0; i < 100; i++) {
                (void) send(fixture->accepted[0], said, sizeof(said), MSG_NOSIGNAL);
                drain(fixture);
        }
        assert_int_equal(send(fixture->accepted[0], said, sizeof(said), MSG_NOSIGNAL), -1);
        assert_int_equal(errno, EAGAIN);
        speed = 100;
        close_p(&fixture->accepted[0]);
        fixture->accepted[0] = -1;
        wait_for_connections(fixture, 0);
}

/* A caller who reads nothing is cut off after a while, since the server would hold ever more for the caller. */
TEST_F(test_peer_that_never_reads, Fixture *fixture) {
        static const char said[100000];
        size_t n_said = 0;
        ssize_t n;

        start(fixture);
        speed = 100;
        connect_peer(fixture, 0);
        wait_for(fixture, &fixture->n_accepted, 1);
        while ((n = send(fixture->accepted[0], said, sizeof(said), MSG_NOSIGNAL)) > 0) {
                n_said += (size_t) n;
                drain(fixture);
        }
        assert_true(n_said <= 320 * 1024);
        wait_for_connections(fixture, 0);
        assert_int_equal(fixture->n_left, 1);
}

#define GREETING "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define AGREEMENT "\0\0\0\4\1\0\0\0\0"

/* A header without end. */
TEST_F(test_long_header, Fixture *fixture) {
        static const char head[] = AGREEMENT "\0\x40\0\1\0\0\0\0\1";
        static const char part[9 + 16384] = "\0\x40\0\x09\0\0\0\0\1";
        char heard[16];

        start(fixture);
        connect_peer(fixture, 0);
        say(fixture, 0, GREETING, strlen(GREETING));
        wait_for(fixture, &fixture->n_accepted, 1);
        assert_int_equal(send(fixture->accepted[0], "settings", 8, MSG_NOSIGNAL), 8);
        drain(fixture);
        assert_int_equal(recv(fixture->peers[0], heard, sizeof(heard), 0), 8);
        say(fixture, 0, head, sizeof(head) - 1);
        say(fixture, 0, part + 9, sizeof(part) - 9);
        drain(fixture);
        assert_int_equal(listener_n_connections(fixture->listener), 1);
        say(fixture, 0, part, sizeof(part));
        wait_for_connections(fixture, 0);
        assert_true(is_closed(fixture, 0));
}

/* The server's end closes as well as the peer's. */
TEST_F(test_server_ends_a_connection, Fixture *fixture) {
        start(fixture);
        connect_peer(fixture, 0);
        wait_for(fixture, &fixture->n_accepted, 1);
        assert_ok(shutdown(fixture->accepted[0], SHUT_RDWR));
        wait_for_connections(fixture, 0);
}

static void open_connection(Fixture *fixture, unsigned peer) {
        connect_peer(fixture, peer);
        wait_for(fixture, &fixture->n_accepted, peer + 1);
}

static void leave(Fixture *fixture, size_t peer) {
        close_p(&fixture->peers[peer]);
        fixture->peers[peer] = -1;
}

/* A connection above the limit gets the reason, and makes room for the next one to get it. */
TEST_F(test_connections_are_limited, Fixture *fixture) {
        unsigned n_before;

        start(fixture);
        for (unsigned i = 0; i < N_CONNECTIONS_MAX; i++)
                open_connection(fixture, i);
        assert_int_equal(fixture->n_words, 0);

        for (unsigned i = 0; i < N_REFUSED_MAX; i++)
                open_connection(fixture, N_CONNECTIONS_MAX + i);
        assert_int_equal(fixture->n_words, N_REFUSED_MAX);
        assert_int_equal(fixture->refusals[LISTENER_REFUSED_LIMIT], N_REFUSED_MAX);
        assert_contains(fixture->words, "too many connections: there are 256");
        assert_int_equal(fixture->n_left, 0);

        open_connection(fixture, N_CONNECTIONS_MAX + N_REFUSED_MAX);
        assert_int_equal(fixture->n_left, 1);
        assert_true(is_closed(fixture, N_CONNECTIONS_MAX));
        assert_false(is_closed(fixture, N_CONNECTIONS_MAX + 1));
        assert_false(is_closed(fixture, 0));

        leave(fixture, 7);
        wait_for(fixture, &fixture->n_left, 2);
        n_before = fixture->n_words;
        open_connection(fixture, N_CONNECTIONS_MAX + N_REFUSED_MAX + 1);
        assert_int_equal(fixture->n_words, n_before);
}

/* Connects as another user, and lets them in or not. */
static void connect_as(Fixture *fixture, size_t peer, uid_t user, gid_t group, gid_t more) {
        assert_ok(setgroups(1, &more));
        assert_ok(setegid(group));
        assert_ok(seteuid(user));
        connect_peer(fixture, peer);
        assert_ok(seteuid(0));
        assert_ok(setegid(0));
        assert_ok(setgroups(0, NULL));
}

TEST_F(test_who_may_call, Fixture *fixture) {
        if (geteuid() != 0)
                skip(); /* only root can be another user */

        assert_ok(try_to_listen(fixture, (ListenerOptions){ .fd = -1, .group = SOME_ID }, NULL));
        assert_ok(chmod(fixture->path, 0666));
        connect_as(fixture, 0, SOME_ID, 1, 1); /* a stranger */
        wait_for(fixture, &fixture->refusals[LISTENER_REFUSED_DENIED], 1);
        assert_true(is_closed(fixture, 0));

        connect_as(fixture, 1, SOME_ID, SOME_ID, 1); /* a member of the group */
        wait_for(fixture, &fixture->n_accepted, 1);
        connect_as(fixture, 2, SOME_ID, 1, SOME_ID); /* a member of the group, beside another one */
        wait_for(fixture, &fixture->n_accepted, 2);
        assert_int_equal(fixture->n_refused, 1);
}

static void open_as(Fixture *fixture, unsigned peer, uid_t user) {
        connect_as(fixture, peer, user, SOME_ID, SOME_ID);
        wait_for(fixture, &fixture->n_accepted, peer + 1);
        assert_int_equal(fixture->uid, user);
        assert_int_equal(fixture->pid, getpid());
}

static void start_for_group(Fixture *fixture) {
        assert_ok(try_to_listen(fixture, (ListenerOptions){ .fd = -1, .group = SOME_ID }, NULL));
        assert_ok(chmod(fixture->path, 0666));
}

/* A user who has sent too many frames is not read for a while, and gets no further connection then. */
TEST_F(test_frames_of_a_user, Fixture *fixture) {
        static char frames[9 * 9000], heard[sizeof(frames)];
        const size_t n_more = 9 * 1000;
        size_t n_read = 0;
        ssize_t n;

        if (geteuid() != 0)
                skip(); /* only root can be another user */

        start_for_group(fixture);
        open_as(fixture, 0, SOME_ID);
        open_as(fixture, 1, SOME_ID + 1);
        connect_peer(fixture, 2);
        wait_for(fixture, &fixture->n_accepted, 3);
        for (size_t i = 0; i < 3; i++) {
                say(fixture, i, GREETING, sizeof(GREETING) - 1);
                drain(fixture);
                assert_int_equal(recv(fixture->accepted[i], heard, sizeof(heard), 0), 24);
        }
        /* With pings at the end the debt takes two seconds and more, however busy the machine is. */
        for (size_t i = 1; i <= 128; i++)
                frames[sizeof(frames) - 9 * i + 3] = 6;
        for (unsigned i = 0; i < 3; i++) {
                say(fixture, i == 1 ? 2 : 0, frames, i == 2 ? n_more : sizeof(frames));
                drain(fixture);
                while ((n = recv(fixture->accepted[0], heard, sizeof(heard), 0)) > 0)
                        n_read += (size_t) n;
        }
        assert_int_equal(n_read, sizeof(frames));
        assert_int_equal(recv(fixture->accepted[2], heard, sizeof(heard), 0), sizeof(frames));

        connect_as(fixture, 3, SOME_ID, SOME_ID, SOME_ID);
        wait_for(fixture, &fixture->refusals[LISTENER_REFUSED_LIMIT], 1);
        assert_true(is_closed(fixture, 3));
        close_p(&fixture->peers[3]);
        open_as(fixture, 3, SOME_ID + 1);
        say(fixture, 1, "\0\0\0\0\0\0\0\0\0", 9);
        drain(fixture);
        assert_int_equal(recv(fixture->accepted[1], heard, sizeof(heard), 0), 9);
        while (n_read < sizeof(frames) + n_more) {
                assert_true(sd_event_run(fixture->event, TIMEOUT_USEC) > 0);
                while ((n = recv(fixture->accepted[0], heard, sizeof(heard), 0)) > 0)
                        n_read += (size_t) n;
        }
}

/* Clients of gRPC measure the line with a ping for each answer, and may call often. */
TEST_F(test_pings_for_answers, Fixture *fixture) {
        static const char ping[17] = "\0\0\x08\6";
        char heard[sizeof(ping)];

        if (geteuid() != 0)
                skip();

        start_for_group(fixture);
        open_as(fixture, 0, SOME_ID);
        say(fixture, 0, GREETING, sizeof(GREETING) - 1);
        drain(fixture);
        assert_int_equal(recv(fixture->accepted[0], (char[32]){ 0 }, 32, 0), 24);
        for (unsigned i = 0; i < 600; i++) {
                assert_int_equal(send(fixture->accepted[0], "!", 1, MSG_NOSIGNAL), 1);
                drain(fixture);
                assert_int_equal(recv(fixture->peers[0], heard, sizeof(heard), 0), 1);
                say(fixture, 0, ping, sizeof(ping));
                drain(fixture);
                assert_int_equal(recv(fixture->accepted[0], heard, sizeof(heard), 0), sizeof(ping));
        }
}

/* A user cannot take the places of another one, and all users together cannot take root's. */
TEST_F(test_places_of_others, Fixture *fixture) {
        unsigned n = 0;

        if (geteuid() != 0)
                skip();

        start_for_group(fixture);
        for (uid_t user = 1; user <= N_OTHERS_MAX / N_OF_USER_MAX; user++)
                for (unsigned i = 0; i < N_OF_USER_MAX; i++)
                        open_as(fixture, n++, SOME_ID + user);
        assert_int_equal(fixture->n_words, 0);

        open_as(fixture, n++, SOME_ID + 1);
        assert_int_equal(fixture->n_words, 1);
        assert_contains(fixture->words, "user 12346 has too many connections: 64");
        open_as(fixture, n++, SOME_ID);
        assert_int_equal(fixture->n_words, 2);
        assert_contains(fixture->words, "all users but root have 192");
        open_as(fixture, n++, 0);
        assert_int_equal(fixture->n_words, 2);
}

TEST_F(test_others_may_not_call, Fixture *fixture) {
        if (geteuid() != 0)
                skip();

        start(fixture);
        assert_ok(chmod(fixture->path, 0666));
        connect_as(fixture, 0, SOME_ID, 1, 1);
        wait_for(fixture, &fixture->refusals[LISTENER_REFUSED_DENIED], 1);
        connect_as(fixture, 1, SOME_ID, 0, 0); /* root's group is not root */
        wait_for(fixture, &fixture->refusals[LISTENER_REFUSED_DENIED], 2);
        assert_int_equal(fixture->n_accepted, 0);
}

/* A client that connects while there are no descriptors waits, without keeping the loop busy. */
TEST_F(test_out_of_descriptors, Fixture *fixture) {
        struct rlimit limit;
        unsigned n_turns = 0;

        start(fixture);
        speed = 10;
        connect_peer(fixture, 0);
        limit = lower_limit(0);
        while (sd_event_run(fixture->event, 0) > 0 && n_turns < 100)
                n_turns++;
        assert_ok(setrlimit(RLIMIT_NOFILE, &limit));
        assert_true(n_turns < 100);
        assert_int_equal(fixture->n_accepted, 0);

        wait_for(fixture, &fixture->n_accepted, 1);
        assert_int_equal(fixture->n_refused, 0);
}

/* As long as no connection can be accepted, for any reason of ours, the loop does other things. */
TEST_F(test_accept_that_fails, Fixture *fixture) {
        static const int errors[] = { ENOMEM, ENOBUFS, ENFILE, EMFILE, EIO };

        start(fixture);
        speed = 10;
        for (unsigned i = 0; i < N_ELEMENTS(errors); i++) {
                accept_error = errors[i];
                n_accepts = 0;
                connect_peer(fixture, i);
                for (unsigned n_turns = 0; n_turns < 20; n_turns++)
                        assert_true(sd_event_run(fixture->event, 0) >= 0);
                assert_true(n_accepts <= 2);

                accept_error = 0;
                assert_int_equal(fixture->short_of, errors[i]);
                wait_for(fixture, &fixture->n_accepted, i + 1);
        }
        assert_int_equal(fixture->n_refused, 0);
}

/* A connection that gets no second descriptor gives its first one back. */
TEST_F(test_out_of_descriptors_for_a_second_one, Fixture *fixture) {
        struct rlimit limit;

        start(fixture);
        connect_peer(fixture, 0);
        limit = lower_limit(1);
        for (unsigned i = 0; i < 10; i++)
                (void) sd_event_run(fixture->event, 0);
        assert_ok(setrlimit(RLIMIT_NOFILE, &limit));

        assert_int_equal(fixture->n_accepted, 0);
        assert_int_equal(fixture->refusals[LISTENER_REFUSED_LIMIT], 1);
        assert_int_equal(fixture->short_of, EMFILE);
        assert_true(is_closed(fixture, 0));
}

TEST_F(test_mode, Fixture *fixture) {
        mode_t masks[] = { 0, 022, 0777 };

        for (size_t i = 0; i < N_ELEMENTS(masks); i++) {
                mode_t before = umask(masks[i]);
                struct stat status;

                start(fixture);
                umask(before);
                assert_ok(lstat(fixture->path, &status));
                assert_true(S_ISSOCK(status.st_mode));
                assert_int_equal(status.st_mode & 07777, 0660);
                fixture->listener = listener_free(fixture->listener);
                assert_int_equal(lstat(fixture->path, &status), -1); /* removed */
        }
}

TEST_F(test_group, Fixture *fixture) {
        struct stat status;

        if (geteuid() != 0)
                skip();

        assert_ok(try_to_listen(fixture, (ListenerOptions){ .fd = -1, .group = SOME_ID }, NULL));
        assert_ok(lstat(fixture->path, &status));
        assert_int_equal(status.st_gid, SOME_ID);
}

/* The group is right already, and changing it is not allowed. */
TEST_F(test_group_that_is_right, Fixture *fixture) {
        may_not_change_owner = true;
        assert_ok(try_to_listen(fixture, (ListenerOptions){ .fd = -1, .group = getegid() }, NULL));
        fixture->listener = listener_free(fixture->listener);
        assert_true(try_to_listen(fixture, (ListenerOptions){ .fd = -1, .group = SOME_ID }, NULL) <
                    0);
        assert_int_equal(access(fixture->path, F_OK), -1);
}

#define VICTIM "victim" /* in the same folder */

static void make_victim(const char *path) {
        char victim[64];

        snprintf(victim, sizeof(victim), "%.*s/" VICTIM, (int) (strrchr(path, '/') - path), path);
        close(open(victim, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void put_link(const char *path) {
        assert_ok(unlink(path));
        assert_ok(symlink(VICTIM, path));
}

static void put_hard_link(const char *path) {
        char victim[64];

        snprintf(victim, sizeof(victim), "%.*s/" VICTIM, (int) (strrchr(path, '/') - path), path);
        assert_ok(unlink(path));
        assert_ok(link(victim, path));
}

static void put_socket(const char *path) {
        struct sockaddr_un address = address_of(path);
        cleanup(close_p) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char victim[64];

        snprintf(victim, sizeof(victim), "%.*s/" VICTIM, (int) (strrchr(path, '/') - path), path);
        assert_ok(unlink(path));
        assert_ok(unlink(victim));
        strcpy(address.sun_path, victim);
        assert_ok(syscall(SYS_bind, fd, &address, sizeof(address)));
        assert_ok(chmod(victim, 0600));
        assert_ok(link(victim, path));
}

/* Another user who may write to the folder puts a file of ours in the place of the socket. */
TEST_F(test_file_put_in_place_of_the_socket, Fixture *fixture) {
        static void (*const tricks[])(const char *path) = { put_link, put_hard_link, put_socket };
        char victim[64];

        snprintf(victim, sizeof(victim), "%s/" VICTIM, fixture->folder);
        for (size_t i = 0; i < N_ELEMENTS(tricks); i++) {
                struct stat status;

                make_victim(fixture->path);
                after_bind = tricks[i];
                assert_true(try_to_listen(fixture, (ListenerOptions){ .fd = -1, .group = SOME_ID },
                                          NULL) < 0);
                assert_ok(lstat(victim, &status));
                assert_int_equal(status.st_mode & 07777, 0600);
                assert_int_equal(status.st_gid, getegid());
                assert_ok(unlink(victim));
                assert_ok(unlink(fixture->path));
        }
}

/* The socket of the agent that comes after us stays. */
TEST_F(test_successors_socket_is_left_alone, Fixture *fixture) {
        cleanup(close_p) int fd = -1;
        struct stat before, after;

        start(fixture);
        assert_ok(unlink(fixture->path));
        fd = bind_to(fixture->path, SOCK_STREAM);
        assert_ok(lstat(fixture->path, &before));
        fixture->listener = listener_free(fixture->listener);
        assert_ok(lstat(fixture->path, &after));
        assert_int_equal(after.st_ino, before.st_ino);
}

TEST_F(test_stale_socket_is_replaced, Fixture *fixture) {
        close(bind_to(fixture->path, SOCK_STREAM));
        start(fixture);
        connect_peer(fixture, 0);
        wait_for(fixture, &fixture->n_accepted, 1);
}

/* Refuses to listen, and leaves the file in the way alone. */
static void assert_conflict(Fixture *fixture, const char *words) {
        cleanup(error_done) Error error = ERROR_INIT;
        struct stat before, after;

        assert_ok(lstat(fixture->path, &before));
        assert_true(try_to_listen(fixture, ROOT_ONLY, &error) < 0);
        assert_int_equal(error.kind, ERROR_CONFLICT);
        assert_contains(error_message(&error), fixture->path);
        assert_contains(error_message(&error), words);
        assert_ok(lstat(fixture->path, &after));
        assert_int_equal(after.st_ino, before.st_ino);
}

TEST_F(test_served_socket_is_left_alone, Fixture *fixture) {
        static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM };

        for (size_t i = 0; i < N_ELEMENTS(types); i++) {
                cleanup(close_p) int fd = bind_to(fixture->path, types[i]);

                assert_conflict(fixture, "another process");
                assert_ok(unlink(fixture->path));
        }
}

/* A listener that is too busy to answer is still a listener. */
TEST_F(test_busy_socket_is_left_alone, Fixture *fixture) {
        cleanup(close_p) int fd = bind_to(fixture->path, SOCK_STREAM);

        assert_ok(listen(fd, 0));
        connect_peer(fixture, 0);
        assert_conflict(fixture, "another process");
}

TEST_F(test_two_listeners, Fixture *fixture) {
        Listener *first;

        start(fixture);
        first = fixture->listener;
        assert_conflict(fixture, "another process");
        fixture->listener = first;
        connect_peer(fixture, 0);
        wait_for(fixture, &fixture->n_accepted, 1);
}

TEST_F(test_file_is_left_alone, Fixture *fixture) {
        close(open(fixture->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        assert_conflict(fixture, "is not a socket");
}

TEST_F(test_folder_is_left_alone, Fixture *fixture) {
        assert_ok(mkdir(fixture->path, 0700));
        assert_conflict(fixture, "is not a socket");
}

TEST_F(test_link_is_left_alone, Fixture *fixture) {
        assert_ok(symlink("elsewhere", fixture->path));
        assert_conflict(fixture, "is not a socket");
}

TEST_F(test_path_too_long, Fixture *fixture) {
        cleanup(error_done) Error error = ERROR_INIT;
        ListenerOptions options = ROOT_ONLY;
        char path[sizeof(((struct sockaddr_un *) NULL)->sun_path) + 1];

        memset(path, 'x', sizeof(path));
        memcpy(path, fixture->folder, strlen(fixture->folder));
        path[strlen(fixture->folder)] = '/';
        path[sizeof(path) - 1] = '\0'; /* path that is one byte too long */
        options.path = path;
        assert_true(try_to_listen(fixture, options, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        assert_contains(error_message(&error), "107 bytes");

        path[sizeof(path) - 2] = '\0';
        assert_ok(try_to_listen(fixture, options, NULL));
}

TEST_F(test_no_folder, Fixture *fixture) {
        cleanup(error_done) Error error = ERROR_INIT;
        ListenerOptions options = ROOT_ONLY;
        char path[64];

        sprintf(path, "%s/none/socket", fixture->folder);
        options.path = path;
        assert_true(try_to_listen(fixture, options, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        assert_contains(error_message(&error), path);
        assert_contains(error_message(&error), strerror(ENOENT));
}

/* A socket that systemd has made stays where it is. */
TEST_F(test_socket_that_was_given, Fixture *fixture) {
        ListenerOptions options = ROOT_ONLY;

        options.fd = bind_to(fixture->path, SOCK_STREAM);
        assert_ok(try_to_listen(fixture, options, NULL));
        connect_peer(fixture, 0);
        wait_for(fixture, &fixture->n_accepted, 1);

        fixture->listener = listener_free(fixture->listener);
        assert_ok(access(fixture->path, F_OK));
        assert_int_equal(fcntl(options.fd, F_GETFD), -1); /* taken over, so closed */
}

/* The listener passes on what gRPC has said by then. */
TEST_F(test_listener_ends, Fixture *fixture) {
        static char last[50000], heard[sizeof(last) + 1]; /* more than it passes on at a time */

        start(fixture);
        open_connection(fixture, 0);
        assert_int_equal(send(fixture->accepted[0], last, sizeof(last), MSG_NOSIGNAL),
                         sizeof(last));
        fixture->listener = listener_free(fixture->listener);
        assert_int_equal(recv(fixture->peers[0], heard, sizeof(heard), MSG_WAITALL), sizeof(last));
        assert_true(is_closed(fixture, 0));
        assert_int_equal(fixture->n_left, 0);
        assert_int_equal(access(fixture->path, F_OK), -1);
        assert_null(listener_free(NULL));
}

TEST(test_refusals_have_names) {
        for (ListenerRefusal a = 0; a < _LISTENER_REFUSAL_MAX; a++) {
                assert_non_null(listener_refusal_to_string(a));
                for (ListenerRefusal b = 0; b < a; b++)
                        assert_string_not_equal(listener_refusal_to_string(a),
                                                listener_refusal_to_string(b));
        }
}
