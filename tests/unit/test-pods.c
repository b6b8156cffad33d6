/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The pods of this node, with a server that does what the test says
 *
 * What watchers are notified of is recorded as it comes: "+ns/name uid version", with "<version" of
 * what was before, "-ns/name uid", "synced", "not synced".
 */

#include <errno.h>
#include <sys/random.h>

#include "agent/kube/report.h"
#include "agent/pod/pods.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/pod-message.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/unit.h"

/* The jitter of all waits is in the middle: how long they are decides which trouble is short. */
ssize_t getrandom(void *buffer, size_t size, unsigned flags) {
        memset(buffer, 0x7f, size);
        return (ssize_t) size;
}

typedef struct Fixture {
        Log *log;
        Pods *pods;
        PodsWatcher watcher;
        char reported[8192];
        unsigned n_changed;
        bool leaves; /* at the first pod */
        int result;  /* result of on_pod */
} Fixture;

static void record(Fixture *fixture, const char *text) {
        strcat(fixture->reported, text);
        strcat(fixture->reported, "\n");
}

static int on_pod(const Pod *pod, const Pod *before, void *userdata) {
        Fixture *fixture = userdata;
        char text[200];

        assert_ptr_equal(pods_find(fixture->pods, pod->namespace, pod->name), pod);
        snprintf(text, sizeof(text), "+%s/%s %s %s%s%s", pod->namespace, pod->name, pod->uid,
                 pod->resource_version, before ? " <" : "", before ? before->resource_version : "");
        record(fixture, text);
        if (fixture->leaves)
                pods_unwatch(fixture->pods, &fixture->watcher);
        return fixture->result;
}

static int on_gone(const Pod *pod, void *userdata) {
        Fixture *fixture = userdata;
        char text[200];

        assert_null(pods_find(fixture->pods, pod->namespace, pod->name));
        snprintf(text, sizeof(text), "-%s/%s %s", pod->namespace, pod->name, pod->uid);
        record(fixture, text);
        return 0;
}

static int on_state(bool is_synced, void *userdata) {
        Fixture *fixture = userdata;

        assert_int_equal(pods_are_synced(fixture->pods), is_synced);
        if (is_synced)
                assert_int_equal(pods_error(fixture->pods)->kind, ERROR_NONE);
        record(fixture, is_synced ? "synced" : "not synced");
        return 0;
}

static void on_changed(void *userdata) {
        ((Fixture *) userdata)->n_changed++;
}

/* The call that runs; NULL: none does. */
static KubeCall *the_call(void) {
        assert_true(fake_kube.n_calls <= 1);
        return fake_kube.n_calls > 0 ? fake_kube.calls[0] : NULL;
}

static void open_fixture(Fixture *fixture) {
        fake_kube_open();
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_INFO, &fixture->log));
        assert_ok(pods_new(&(PodsOptions){ .log = fixture->log,
                                           .node_name = "node,1",
                                           .on_changed = on_changed,
                                           .userdata = fixture },
                           &fixture->pods));
        fixture->watcher = (PodsWatcher){
                .on_pod = on_pod,
                .on_gone = on_gone,
                .on_state = on_state,
                .userdata = fixture,
        };
        pods_watch(fixture->pods, &fixture->watcher);
}

static void close_fixture(Fixture *fixture) {
        assert_null(pods_free(fixture->pods));
        log_free(fixture->log);
        fake_clock_done();
        fake_kube_close();
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

static void assert_reported(Fixture *fixture, const char *expected) {
        assert_string_equal(fixture->reported, expected);
        fixture->reported[0] = '\0';
}

static int send_raw(const char *type, const Bytes *raw) {
        Bytes frame = { .size = 0 };

        bytes_pack_pod_frame(&frame, type, raw);
        return fake_kube_send(the_call(), frame.data, frame.size);
}

static int send_pod(const char *type, const char *namespace, const char *name, const char *uid,
                    const char *version) {
        static PodMessage message;
        Bytes raw = { .size = 0 };

        pod_message_init(&message, namespace, name, uid, version);
        pod_message_add_container(&message, false, "app", "i");
        bytes_pack(&raw, &message.pod);
        return send_raw(type, &raw);
}

/* A pod without a spec, which none should be. */
static int send_bad_pod(const char *name, const char *uid, const char *version) {
        Bytes raw = { .size = 0 };

        bytes_pack_object(&raw, "ns", name, uid, version);
        return send_raw("MODIFIED", &raw);
}

static void send_bookmark(const char *version) {
        Bytes raw = { .size = 0 };

        bytes_pack_object(&raw, "", "", "", version);
        assert_ok(send_raw("BOOKMARK", &raw));
}

static void refuse(int code, ErrorKind kind, const char *message) {
        const Error error = { .kind = kind, .message = (char *) message };

        assert_ok(fake_kube_end(the_call(), &(KubeReply){ .code = code, .body = "" }, &error));
}

static void start(Fixture *fixture) {
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_pod("ADDED", "ns", "b", "u2", "1"));
        assert_ok(send_pod("ADDED", "ns", "a", "u1", "2"));
        assert_false(pods_are_synced(fixture->pods));
        send_bookmark("end:5");
        assert_reported(fixture, "+ns/b u2 1\n+ns/a u1 2\nsynced\n");
        fixture->n_changed = 0;
}

TEST_SET_UP(test_asks) {
        const char *path = the_call()->request.path;

        assert_int_equal(strncmp(path, "/api/v1/pods?", 13), 0);
        assert_contains(path, "?fieldSelector=spec.nodeName%3Dnode%2C1&");
        assert_contains(path, "watch=true");
        assert_string_equal(the_call()->request.accept,
                            "application/vnd.kubernetes.protobuf;stream=watch");
}

TEST_F(test_keeps_the_newest, Fixture *fixture) {
        start(fixture);
        assert_int_equal(pods_count(fixture->pods), 2);
        assert_ok(send_pod("MODIFIED", "ns", "a", "u1", "6"));
        assert_ok(send_pod("ADDED", "ms", "a", "u3", "7"));
        assert_reported(fixture, "+ns/a u1 6 <2\n+ms/a u3 7\n");
        assert_int_equal(pods_count(fixture->pods), 3);
        assert_string_equal(pods_find(fixture->pods, "ms", "a")->uid, "u3");
        assert_string_equal(pods_find(fixture->pods, "ns", "a")->resource_version, "6");
        assert_null(pods_find(fixture->pods, "ms", "b"));

        assert_ok(send_pod("DELETED", "ns", "a", "u1", "8"));
        assert_reported(fixture, "-ns/a u1\n");
        assert_int_equal(pods_count(fixture->pods), 2);
        assert_string_equal(pods_get(fixture->pods, 0)->uid, "u3");
        assert_string_equal(pods_get(fixture->pods, 1)->uid, "u2");
}

TEST_F(test_created_again, Fixture *fixture) {
        start(fixture);
        assert_ok(send_pod("ADDED", "ns", "a", "u9", "6"));
        assert_reported(fixture, "-ns/a u1\n+ns/a u9 6\n");
        assert_string_equal(pods_find(fixture->pods, "ns", "a")->uid, "u9");
        assert_int_equal(pods_count(fixture->pods), 2);
}

/* The server sends nonsense: pods found by name stay right. */
TEST_F(test_same_uid, Fixture *fixture) {
        start(fixture);
        pods_unwatch(fixture->pods, &fixture->watcher);
        assert_ok(send_pod("ADDED", "ns", "c", "u1", "6"));
        assert_non_null(pods_find(fixture->pods, "ns", "a"));
        assert_ok(send_pod("DELETED", "ns", "a", "u1", "7"));
        assert_string_equal(pods_find(fixture->pods, "ns", "c")->name, "c");
        assert_null(pods_find(fixture->pods, "ns", "a"));
}

static void send_numbered(const char *type, unsigned i, const char *version) {
        char name[20], uid[20];

        snprintf(name, sizeof(name), "p%u", i);
        snprintf(uid, sizeof(uid), "u%u", 1000 - i);
        assert_ok(send_pod(type, "ns", name, uid, version));
}

/* NULL: it is not there. */
static void check_numbered(const Pods *pods, unsigned i, const char *version) {
        char name[20], uid[20];
        const Pod *pod;

        snprintf(name, sizeof(name), "p%u", i);
        snprintf(uid, sizeof(uid), "u%u", 1000 - i);
        pod = pods_find(pods, "ns", name);
        assert_int_equal(pod != NULL, version != NULL);
        if (!pod)
                return;

        assert_string_equal(pod->uid, uid);
        assert_string_equal(pod->resource_version, version);
}

TEST_F(test_many, Fixture *fixture) {
        enum { N = 500 };

        pods_unwatch(fixture->pods, &fixture->watcher);
        assert_ok(fake_kube_accept(the_call()));
        for (unsigned i = 0; i < N; i++)
                send_numbered("ADDED", i * 7919 % N, "1");
        assert_int_equal(pods_count(fixture->pods), N);
        for (unsigned i = 0; i < N; i += 3)
                send_numbered("MODIFIED", i, "2");
        for (unsigned i = 1; i < N; i += 3)
                send_numbered("DELETED", i, "3");

        for (unsigned i = 0; i < N; i++)
                check_numbered(fixture->pods, i, i % 3 == 0 ? "2" : i % 3 == 1 ? NULL : "1");
        for (size_t i = 0; i < pods_count(fixture->pods); i++)
                assert_non_null(pods_get(fixture->pods, i));
}

TEST_F(test_refused_pod, Fixture *fixture) {
        Stderr e;

        start(fixture);
        stderr_pipe(&e);
        assert_ok(send_bad_pod("a", "u1", "6"));
        assert_ok(send_bad_pod("a", "u1", "7"));
        assert_ok(send_bad_pod("new", "u4", "8"));
        assert_string_equal(
                stderr_restore_log(&e),
                "warning Cannot read pod \"a\" of namespace \"ns\", keeping its previous "
                "state: it has no spec.\n"
                "warning Cannot read pod \"new\" of namespace \"ns\", keeping its previous "
                "state: it has no spec.\n");
        assert_reported(fixture, "");
        assert_string_equal(pods_find(fixture->pods, "ns", "a")->resource_version, "2");
        assert_ok(send_pod("MODIFIED", "ns", "a", "u1", "9"));
        assert_reported(fixture, "+ns/a u1 9 <2\n");

        /* A pod that was never shown does not go. */
        assert_ok(send_pod("DELETED", "ns", "new", "u4", "10"));
        assert_reported(fixture, "");

        stderr_pipe(&e);
        assert_ok(send_bad_pod("a", "u1", "11"));
        assert_string_equal(stderr_restore_log(&e), "");
        assert_ok(send_pod("DELETED", "ns", "a", "u1", "12"));
        assert_reported(fixture, "-ns/a u1\n");
        stderr_pipe(&e);
        assert_ok(send_bad_pod("a", "u7", "13"));
        assert_true(strlen(stderr_restore(&e)) > 0);
}

TEST_F(test_many_refused_pods, Fixture *fixture) {
        unsigned n_lines = 0;
        Stderr e;

        start(fixture);
        stderr_pipe(&e);
        for (unsigned i = 0; i < 100; i++) {
                char name[20];

                snprintf(name, sizeof(name), "p%u", i);
                assert_ok(send_bad_pod(name, name, "6"));
        }
        for (const char *line = stderr_restore(&e); (line = strchr(line, '\n')); line++)
                n_lines++;
        assert_int_equal(n_lines, 64);
}

/* Refuses all requests for that long. */
static void refuse_for(uint64_t usec, int code, ErrorKind kind, const char *message) {
        uint64_t until_usec = fake_clock.now_usec + usec;

        while (fake_clock.now_usec < until_usec) {
                if (the_call())
                        refuse(code, kind, message);
                fake_clock_skip(fake_kube.event);
        }
}

TEST_F(test_trouble, Fixture *fixture) {
        Stderr e;

        stderr_pipe(&e);
        refuse(403, ERROR_DENIED, "no");
        assert_int_equal(pods_error(fixture->pods)->kind, ERROR_DENIED);
        refuse_for(2 * KUBE_REPORT_DELAY_USEC, 403, ERROR_DENIED, "no");
        refuse_for(KUBE_REPORT_DELAY_USEC / 2, 0, ERROR_UNAVAILABLE, "nothing there");
        refuse_for(2 * KUBE_REPORT_DELAY_USEC, 403, ERROR_DENIED, "no");
        refuse_for(2 * KUBE_REPORT_DELAY_USEC, 403, ERROR_DENIED, "never");
        assert_reported(fixture, "not synced\nnot synced\nnot synced\nnot synced\n");
        start(fixture);
        assert_string_equal(stderr_restore_log(&e),
                            "warning Cannot watch the pods of this node: no.\n"
                            "warning Cannot watch the pods of this node: never.\n"
                            "info Watching the pods of this node (v1).\n");
}

/* The pods stay; after the trouble no watcher is notified of pods that it knows. */
TEST_F(test_trouble_later, Fixture *fixture) {
        Stderr e;

        start(fixture);
        stderr_pipe(&e);
        refuse(0, ERROR_UNAVAILABLE, "cut off");
        while (!pods_error(fixture->pods)->kind) {
                fake_clock_skip(fake_kube.event);
                refuse(0, ERROR_UNAVAILABLE, "cut off");
        }
        assert_false(pods_are_synced(fixture->pods));
        assert_reported(fixture, "not synced\n");
        assert_int_equal(fixture->n_changed, 1);
        assert_int_equal(pods_count(fixture->pods), 2);
        fake_clock_skip(fake_kube.event);
        assert_ok(fake_kube_accept(the_call()));
        assert_reported(fixture, "synced\n");
        assert_true(pods_are_synced(fixture->pods));
        assert_string_equal(stderr_restore_log(&e), "");
}

TEST_F(test_watchers, Fixture *fixture) {
        Fixture other = { .pods = fixture->pods };

        other.watcher = fixture->watcher;
        other.watcher.userdata = &other;
        other.watcher.next = other.watcher.previous = NULL;
        pods_watch(fixture->pods, &other.watcher);
        other.leaves = true;
        start(fixture);
        assert_string_equal(other.reported, "+ns/b u2 1\n");

        fixture->leaves = true;
        assert_ok(send_pod("MODIFIED", "ns", "a", "u1", "6"));
        assert_ok(send_pod("MODIFIED", "ns", "a", "u1", "7"));
        assert_reported(fixture, "+ns/a u1 6 <2\n");
        assert_string_equal(pods_find(fixture->pods, "ns", "a")->resource_version, "7");
}

TEST_F(test_local_failure, Fixture *fixture) {
        const Error canceled = { .kind = ERROR_CANCELED };

        start(fixture);
        fixture->result = -ENOSPC;
        assert_true(send_pod("MODIFIED", "ns", "a", "u1", "6") < 0);
        assert_int_equal(fake_kube_end(the_call(), &(KubeReply){ .code = 200, .body = "" },
                                       &canceled),
                         -ENOSPC);
}
