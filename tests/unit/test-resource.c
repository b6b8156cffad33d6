/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A watched kind, with a server that does what the test says
 *
 * Discovery and watch are real. What is reported is written down as it comes: "version V" or "no
 * version", "+name version", "-name", "list", "synced" or "first synced", "changed". Of a second
 * selection names have a "2" before them.
 */

#include <errno.h>
#include <sys/random.h>

#include "agent/kube/resource.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/kube-message.h"
#include "tests/unit/metric-value.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/unit.h"

#define GROUP "{\"kind\":\"APIGroup\"}"
#define RESOURCES "{\"resources\":[{\"name\":\"things\"},{\"name\":\"things/status\"}]}"

static const char *const versions[] = { "v2", "v1", NULL };

/* The jitter of all waits is in the middle. */
ssize_t getrandom(void *buffer, size_t size, unsigned flags) {
        memset(buffer, 0x7f, size);
        return (ssize_t) size;
}

typedef struct Fixture {
        Log *log;
        Stderr captured;
        KubeResource *resource;
        char reported[4096];
        Metrics *metrics;
        int result; /* result of on_object */
} Fixture;

static void record(Fixture *f, const char *format, ...) {
        size_t size = strlen(f->reported);
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(f->reported + size, sizeof(f->reported) - size, format, arguments);
        va_end(arguments);
        strcat(f->reported, "\n");
}

static int on_object(const KubeObject *object, void *userdata) {
        Fixture *f = userdata;

        record(f, "+%s %s", object->name, object->resource_version);
        return f->result;
}

static int on_gone(const KubeObject *object, void *userdata) {
        record(userdata, "-%s", object->name);
        return 0;
}

static int on_second_object(const KubeObject *object, void *userdata) {
        record(userdata, "+2%s %s", object->name, object->resource_version);
        return 0;
}

static int on_second_gone(const KubeObject *object, void *userdata) {
        record(userdata, "-2%s", object->name);
        return 0;
}

static void on_list(void *userdata) {
        record(userdata, "list");
}

static int on_version(const char *version, void *userdata) {
        if (version)
                record(userdata, "version %s", version);
        else
                record(userdata, "no version");
        return 0;
}

static int on_synced(bool is_first, void *userdata) {
        record(userdata, is_first ? "first synced" : "synced");
        return 0;
}

static int on_changed(void *userdata) {
        record(userdata, "changed");
        return 0;
}

/* A kind with a group and one selection. */
static KubeResourceOptions get_options(Fixture *f) {
        return (KubeResourceOptions){
                .log = f->log,
                .metrics = f->metrics,
                .group = "g.io",
                .versions = versions,
                .resource = "things",
                .subject = "the things",
                .selections = { { .fields = "metadata.name=a,b",
                                  .on_object = on_object,
                                  .on_gone = on_gone,
                                  .on_list = on_list } },
                .on_version = on_version,
                .on_synced = on_synced,
                .on_changed = on_changed,
                .userdata = f,
        };
}

static void start(Fixture *f, const KubeResourceOptions *options) {
        assert_ok(kube_resource_new(options, &f->resource));
}

static KubeCall *chosen;

/* Returns the chosen call, or the oldest one that runs; NULL: there is none. */
static KubeCall *the_call(void) {
        for (size_t i = 0; i < fake_kube.n_calls; i++)
                if (fake_kube.calls[i] == chosen)
                        return chosen;

        return fake_kube.n_calls > 0 ? fake_kube.calls[0] : NULL;
}

/* Chooses the call whose path has this part to be answered next; false: there is none. */
static bool choose(const char *part) {
        KubeCall *call = fake_kube_find(NULL, part);

        chosen = call ?: chosen;
        return call;
}

static void open_fixture(Fixture *f) {
        fake_kube_open();
        stderr_pipe(&f->captured);
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_INFO, &f->log));
        f->metrics = metrics_for_test();
}

static void close_fixture(Fixture *f) {
        assert_null(kube_resource_free(f->resource));
        log_free(f->log);
        metrics_free(f->metrics);
        fputs(stderr_restore(&f->captured), stderr); /* messages of a check that failed, too */
        fake_clock_done();
        fake_kube_close();
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

static void assert_reported(Fixture *f, const char *expected) {
        assert_string_equal(f->reported, expected);
        f->reported[0] = '\0';
}

/* All that was logged since the last time. */
static void assert_logged(Fixture *f, const char *expected) {
        char text[sizeof(f->captured.text)];

        strcpy(text, stderr_restore_log(&f->captured));
        stderr_pipe(&f->captured);
        assert_string_equal(text, expected);
}

static void answer(const char *path, const char *body) {
        assert_true(choose(path));
        assert_ok(fake_kube_end(the_call(),
                                &(KubeReply){ .code = 200, .body = body, .size = strlen(body) },
                                NULL));
}

static void refuse(int code, ErrorKind kind) {
        const Error error = { .kind = kind, .message = (char *) "no" };

        assert_ok(fake_kube_end(the_call(), &(KubeReply){ .code = code, .body = "" }, &error));
}

static void discover(void) {
        answer("/apis/g.io", GROUP);
        answer("/apis/g.io/v2", RESOURCES);
}

static int send_object(const char *type, const char *name, const char *version) {
        char line[500];
        int n = snprintf(line, sizeof(line),
                         "{\"type\":\"%s\",\"object\":{\"metadata\":{\"namespace\":\"\","
                         "\"name\":\"%s\",\"uid\":\"u-%s\",\"resourceVersion\":\"%s\"}}}\n",
                         type, name, name, version);

        return fake_kube_send(the_call(), line, (size_t) n);
}

static void end_list(void) {
        static const char line[] =
                "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\","
                "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n";

        assert_ok(fake_kube_send(the_call(), line, strlen(line)));
}

/* The list of the watch that is being answered: a in version 1 and b in version 2. */
static void list_both(void) {
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_object("ADDED", "a", "1"));
        assert_ok(send_object("ADDED", "b", "2"));
        end_list();
}

static void start_synced(Fixture *f, const KubeResourceOptions *options) {
        start(f, options);
        discover();
        list_both();
        assert_true(kube_resource_is_synced(f->resource));
        f->reported[0] = '\0';
}

/* Refuses the watch as if there were no such kind, until it gives up. */
static void vanish(Fixture *f) {
        while (kube_resource_version(f->resource)) {
                while (!the_call())
                        fake_clock_skip(fake_kube.event);
                refuse(404, ERROR_NOT_FOUND);
        }
}

static void assert_asked(const char *part) {
        assert_non_null(the_call());
        assert_contains(the_call()->request.path, part);
}

/* Refuses all requests for that long. */
static void refuse_for(uint64_t usec, int code, ErrorKind kind) {
        uint64_t until_usec = fake_clock.now_usec + usec;

        while (fake_clock.now_usec < until_usec) {
                if (the_call())
                        refuse(code, kind);
                fake_clock_skip(fake_kube.event);
        }
}

TEST_F(test_discovers_and_watches, Fixture *f) {
        const KubeResourceOptions options = get_options(f);

        start(f, &options);
        assert_null(kube_resource_version(f->resource));
        discover();
        assert_string_equal(kube_resource_version(f->resource), "v2");
        assert_reported(f, "version v2\nlist\nchanged\n");
        assert_asked("/apis/g.io/v2/things?fieldSelector=metadata.name%3Da%2Cb&watch=true");
        assert_false(kube_resource_was_synced(f->resource));
        list_both();
        assert_reported(f, "+a 1\n+b 2\nfirst synced\nchanged\n");
        assert_true(kube_resource_was_synced(f->resource));
        assert_ok(send_object("DELETED", "b", "10"));
        assert_reported(f, "-b\n");
        assert_logged(f, "info Watching the things (v2).\n");
}

/* Objects that went while the kind was away are gone, the others are shown again unchanged. */
TEST_F(test_vanishes_and_returns, Fixture *f) {
        const KubeResourceOptions options = get_options(f);

        start_synced(f, &options);
        assert_ok(fake_kube_end(the_call(), &(KubeReply){ .code = 200, .body = "" }, NULL));
        vanish(f);
        assert_reported(f, "no version\nchanged\n");
        assert_false(kube_resource_is_synced(f->resource));
        assert_true(kube_resource_was_synced(f->resource));
        assert_int_equal(kube_resource_error(f->resource)->kind, ERROR_NOT_FOUND);

        /* The kind is asked for after a pause, and for ever. */
        for (unsigned i = 0; i < 3; i++) {
                assert_null(the_call());
                fake_clock_skip(fake_kube.event);
                refuse(404, ERROR_NOT_FOUND);
        }
        assert_string_equal(error_message(kube_resource_error(f->resource)),
                            "the API server has no things.g.io");
        f->reported[0] = '\0';

        fake_clock_skip(fake_kube.event);
        answer("/apis/g.io", GROUP);
        refuse(404, ERROR_NOT_FOUND);
        answer("/apis/g.io/v1", RESOURCES);
        assert_asked("/apis/g.io/v1/things?");
        assert_int_equal(kube_resource_error(f->resource)->kind, ERROR_NONE);
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_object("ADDED", "b", "2"));
        end_list();
        assert_reported(f, "version v1\nlist\nchanged\n+b 2\n-a\nsynced\nchanged\n");
        assert_true(metric_value(f->metrics, "inplaced_watch_restarts_total") > 1);
        assert_logged(f, "info Watching the things (v2).\n"
                         "warning Cannot watch the things: no.\n"
                         "warning Cannot watch the things: the API server has no things.g.io.\n"
                         "info Watching the things again.\n");
}

/* It is named among the kinds that are served, but is not. */
TEST_F(test_kind_is_broken, Fixture *f) {
        const KubeResourceOptions options = get_options(f);
        uint64_t waits_usec[4];

        start(f, &options);
        for (unsigned i = 0; i < 4; i++) {
                discover();
                assert_asked("/apis/g.io/v2/things?");
                if (i == 3)
                        list_both(); /* it works, so the next failure is the first one */
                vanish(f);
                assert_null(the_call());
                waits_usec[i] = fake_clock_delay();
                fake_clock_skip(fake_kube.event);
        }
        assert_true(waits_usec[0] < waits_usec[1] && waits_usec[1] < waits_usec[2]);
        assert_int_equal(waits_usec[3], waits_usec[0]);
        assert_logged(f, "warning Cannot watch the things: no.\n"
                         "info Watching the things (v2).\n"
                         "warning Cannot watch the things: no.\n");
}

/* A missing optional kind is asked for once a minute, and is no trouble. */
TEST_F(test_absent_optional, Fixture *f) {
        KubeResourceOptions options = get_options(f);

        options.is_optional = true;
        start(f, &options);
        for (unsigned i = 0; i < 3; i++) {
                refuse(404, ERROR_NOT_FOUND);
                assert_null(the_call());
                assert_in_range(fake_clock_delay(), 48 * SEC, 72 * SEC);
                fake_clock_skip(fake_kube.event);
        }
        assert_int_equal(kube_resource_error(f->resource)->kind, ERROR_NONE);

        /* A failed discovery is an error. */
        refuse(500, ERROR_INTERNAL);
        assert_int_equal(kube_resource_error(f->resource)->kind, ERROR_INTERNAL);
        assert_in_range(fake_clock_delay(), 1, SEC);
        assert_logged(f, "warning Cannot watch the things: no.\n");
}

TEST_F(test_kick_discovers, Fixture *f) {
        KubeResourceOptions options = get_options(f);

        options.is_optional = true;
        start(f, &options);
        assert_ok(kube_resource_kick(f->resource));
        assert_int_equal(fake_kube.n_begun, 1);
        refuse(404, ERROR_NOT_FOUND);
        assert_ok(kube_resource_kick(f->resource));
        assert_int_equal(fake_clock_delay(), 0);
        fake_clock_skip(fake_kube.event);
        discover();
        refuse(503, ERROR_UNAVAILABLE);
        assert_null(the_call());
        assert_ok(kube_resource_kick(f->resource));
        assert_int_equal(fake_clock_delay(), 0);
}

/* A kind of the core has no discovery: a watch that is refused goes on. */
TEST_F(test_core, Fixture *f) {
        static const char *const core[] = { "v1", NULL };
        KubeResourceOptions options = get_options(f);

        options.group = NULL;
        options.versions = core;
        options.is_optional = true;
        start(f, &options);
        assert_string_equal(kube_resource_version(f->resource), "v1");
        assert_asked("/api/v1/things?");
        assert_reported(f, "list\n");
        refuse_for(60 * SEC, 404, ERROR_NOT_FOUND);
        assert_string_equal(kube_resource_version(f->resource), "v1");
        assert_int_equal(kube_resource_error(f->resource)->kind, ERROR_NOT_FOUND);
        f->reported[0] = '\0';
        while (!the_call())
                fake_clock_skip(fake_kube.event);
        list_both();
        assert_reported(f, "+a 1\n+b 2\nfirst synced\nchanged\n");
        assert_logged(f, "info Watching the things (v1).\n");
        /* Watches that work are not begun again. */
        assert_true(metric_value(f->metrics, "inplaced_watch_restarts_total") == 0);
}

TEST_F(test_trouble_is_logged_once, Fixture *f) {
        const KubeResourceOptions options = get_options(f);

        start(f, &options);
        discover();
        refuse_for(60 * SEC, 403, ERROR_DENIED);
        assert_int_equal(kube_resource_error(f->resource)->kind, ERROR_DENIED);
        while (!the_call())
                fake_clock_skip(fake_kube.event);
        list_both();
        assert_int_equal(kube_resource_error(f->resource)->kind, ERROR_NONE);
        assert_logged(f, "warning Cannot watch the things: no.\n"
                         "info Watching the things (v2).\n");
}

static KubeResourceOptions get_two(Fixture *f) {
        KubeResourceOptions options = get_options(f);

        options.selections[0] =
                (KubeSelection){ .labels = "x=1", .on_object = on_object, .on_gone = on_gone };
        options.selections[1] = (KubeSelection){ .labels = "!x",
                                                 .on_object = on_second_object,
                                                 .on_gone = on_second_gone };
        return options;
}

TEST_F(test_two_selections, Fixture *f) {
        const KubeResourceOptions options = get_two(f);

        start(f, &options);
        discover();
        assert_true(choose("labelSelector=%21x&"));
        list_both();
        assert_reported(f, "version v2\nchanged\n+2a 1\n+2b 2\nchanged\n");
        assert_false(kube_resource_is_synced(f->resource));
        assert_true(choose("labelSelector=x%3D1&"));
        refuse(403, ERROR_DENIED);
        assert_int_equal(kube_resource_error(f->resource)->kind, ERROR_DENIED);
        while (!choose("labelSelector=x%3D1&"))
                fake_clock_skip(fake_kube.event);
        end_list();
        assert_reported(f, "changed\nfirst synced\nchanged\n");
        assert_true(kube_resource_is_synced(f->resource));

        /* Both end when the kind does, and both begin again. */
        refuse(404, ERROR_NOT_FOUND);
        while (kube_resource_version(f->resource)) {
                while (!choose("labelSelector=x%3D1&"))
                        fake_clock_skip(fake_kube.event);
                refuse(404, ERROR_NOT_FOUND);
        }
        assert_int_equal(fake_kube.n_calls, 0);
        fake_clock_skip(fake_kube.event);
        discover();
        assert_int_equal(fake_kube.n_calls, 2);
}

TEST_F(test_show_again, Fixture *f) {
        const KubeResourceOptions options = get_two(f);

        start(f, &options);
        discover();
        assert_true(choose("labelSelector=%21x&"));
        list_both();
        assert_true(choose("labelSelector=x%3D1&"));
        end_list();
        f->reported[0] = '\0';

        assert_ok(kube_resource_show_again(f->resource, 1));
        assert_false(kube_resource_is_synced(f->resource));
        assert_true(choose("labelSelector=%21x&"));
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_object("ADDED", "a", "1"));
        end_list();
        assert_reported(f, "+2a 1\n-2b\nsynced\nchanged\n");
        assert_logged(f, "info Watching the things (v2).\n");
}

static void check(Fixture *f, const char *version) {
        assert_ok(kube_resource_check(f->resource, 0, NULL, "a", version));
        assert_true(choose("/apis/g.io/v2/things/a"));
        assert_string_equal(the_call()->request.method, "GET");
}

#define GOT(version) \
        "{\"metadata\":{\"name\":\"a\",\"uid\":\"u-a\",\"resourceVersion\":\"" version "\"}}"

static const struct CheckFindsNothingNewRow {
        int code;
        ErrorKind error;
        const char *body;
} check_finds_nothing_new_rows[] = {
        { 200, ERROR_NONE, GOT("1") }, { 200, ERROR_NONE, "{" },     { 200, ERROR_NONE, "{}" },
        { 403, ERROR_DENIED, "" },     { 0, ERROR_UNAVAILABLE, "" },
};

TEST_ROWS_F(test_check_finds_nothing_new, check_finds_nothing_new_rows, body,
            const struct CheckFindsNothingNewRow *row, Fixture *f) {
        const KubeResourceOptions options = get_options(f);

        start_synced(f, &options);

        check(f, "1");
        /* Only one check runs at a time. */
        assert_ok(kube_resource_check(f->resource, 0, NULL, "b", "1"));
        assert_int_equal(fake_kube.n_calls, 2);
        if (row->error == ERROR_NONE)
                answer("/things/a", row->body);
        else
                refuse(row->code, row->error);
        assert_reported(f, "");
        assert_true(kube_resource_is_synced(f->resource));
        assert_int_equal(fake_kube.n_calls, 1);
}

/* The watch shows nothing, since its version is gone. */
TEST_F(test_check_finds_another_version, Fixture *f) {
        const KubeResourceOptions options = get_options(f);

        start_synced(f, &options);
        check(f, "7");
        answer("/things/a", GOT("3"));
        assert_reported(f, "list\n+a 3\nchanged\n");
        assert_int_equal(fake_kube.n_calls, 0);

        /* A server that was not started again lists objects from its memory: that is no news. */
        fake_clock_skip(fake_kube.event);
        assert_reported(f, "list\n");
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_object("ADDED", "a", "1"));
        end_list();
        assert_reported(f, "-b\nsynced\nchanged\n");
        assert_logged(f, "info Watching the things (v2).\n"
                         "info The server has another version of \"a\" than the watch reported: "
                         "listing the things again.\n");
}

/* A list that has begun before the check shows an older version, which must not come after the newer one. */
TEST_F(test_check_overtakes_a_list, Fixture *f) {
        const KubeResourceOptions options = get_options(f);

        start_synced(f, &options);
        check(f, "1");
        assert_true(choose("watch=true"));
        refuse(410, ERROR_GONE);
        fake_clock_skip(fake_kube.event);
        assert_true(choose("sendInitialEvents=true"));
        assert_ok(fake_kube_accept(the_call()));
        f->reported[0] = '\0';
        answer("/things/a", GOT("5"));
        assert_reported(f, "list\n+a 5\n");
        assert_null(the_call());

        fake_clock_skip(fake_kube.event);
        assert_true(choose("sendInitialEvents=true"));
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_object("ADDED", "a", "5"));
        assert_ok(send_object("ADDED", "b", "2"));
        end_list();
        assert_reported(f, "list\n+a 5\nsynced\nchanged\n");
}

TEST_F(test_check_finds_it_gone, Fixture *f) {
        const KubeResourceOptions options = get_options(f);

        start_synced(f, &options);
        check(f, "1");
        refuse(404, ERROR_NOT_FOUND);
        fake_clock_skip(fake_kube.event);
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_object("ADDED", "b", "2"));
        end_list();
        assert_reported(f, "changed\nlist\n-a\nsynced\nchanged\n");
}

TEST_F(test_check_in_protobuf, Fixture *f) {
        static const char *const core[] = { "v1", NULL };
        KubeResourceOptions options = get_options(f);
        Bytes object = { .size = 0 }, body = { .size = 0 };

        options.group = NULL;
        options.versions = core;
        options.is_protobuf = true;
        start(f, &options);
        f->reported[0] = '\0';
        assert_ok(kube_resource_check(f->resource, 0, "n", "a", "1"));
        assert_true(choose("/api/v1/namespaces/n/things/a"));
        assert_string_equal(the_call()->request.accept, KUBE_PROTOBUF);
        bytes_pack_object(&object, "n", "a", "u-a", "2");
        bytes_pack_envelope(&body, "Thing", &object);
        assert_ok(fake_kube_end(
                the_call(),
                &(KubeReply){ .code = 200, .body = (const char *) body.data, .size = body.size },
                NULL));
        assert_reported(f, "list\n+a 2\n");
}

/* Neither a call nor a timer outlives the resource. */
TEST_F(test_free_at_any_time, Fixture *f) {
        const KubeResourceOptions options = get_two(f);

        for (unsigned i = 0; i < 4; i++) {
                start(f, &options);
                if (i == 1)
                        refuse(404, ERROR_NOT_FOUND);
                if (i > 1)
                        discover();
                if (i == 3)
                        assert_ok(kube_resource_check(f->resource, 0, NULL, "a", "1"));
                f->resource = kube_resource_free(f->resource);
                assert_int_equal(fake_kube.n_calls, 0);
                assert_null(fake_clock_find());
        }
}

TEST_F(test_local_failure, Fixture *f) {
        const Error canceled = { .kind = ERROR_CANCELED };
        const KubeResourceOptions options = get_options(f);

        start_synced(f, &options);
        f->result = -ENOSPC;
        assert_true(send_object("MODIFIED", "a", "10") < 0);
        assert_int_equal(fake_kube_end(the_call(), &(KubeReply){ .code = 200, .body = "" },
                                       &canceled),
                         -ENOSPC);
}
