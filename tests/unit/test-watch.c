/* SPDX-License-Identifier: Apache-2.0 */

/*
 * List and watch, with a server that does what the test says
 *
 * What the watch reports is written down as it comes: "+ns/name uid version", "-ns/name uid",
 * "listing", "synced", "troubled KIND", "again" for a restart, "list" for a list that begins again.
 */

#include <errno.h>
#include <malloc.h>

#include "agent/kube/watch.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/kube-message.h"
#include "tests/unit/unit.h"

typedef struct Fixture {
        KubeWatch *watch;
        char reported[8192];
        const char *free_at; /* the watch is freed when this is reported */
        bool hears_of_lists;
} Fixture;

static void record(Fixture *fixture, const char *text) {
        strcat(fixture->reported, text);
        strcat(fixture->reported, "\n");
        if (fixture->free_at && strcmp(text, fixture->free_at) == 0)
                fixture->watch = kube_watch_free(fixture->watch);
}

static int on_object(const KubeObject *object, void *userdata) {
        char text[200];

        assert_true(object->json ? !object->bytes : object->n_bytes > 0);
        snprintf(text, sizeof(text), "+%s/%s %s %s", object->namespace, object->name, object->uid,
                 object->resource_version);
        record(userdata, text);
        return 0;
}

static int on_gone(const KubeObject *object, void *userdata) {
        char text[200];

        snprintf(text, sizeof(text), "-%s/%s %s", object->namespace, object->name, object->uid);
        record(userdata, text);
        return 0;
}

static int on_state(KubeWatchState state, void *userdata) {
        Fixture *fixture = userdata;
        char text[200];

        assert_int_equal(kube_watch_state(fixture->watch), state);
        assert_int_equal(kube_watch_error(fixture->watch)->kind != ERROR_NONE,
                         state == KUBE_WATCH_TROUBLED);
        if (state == KUBE_WATCH_TROUBLED)
                snprintf(text, sizeof(text), "troubled %s",
                         error_kind_to_string(kube_watch_error(fixture->watch)->kind));
        record(fixture, state == KUBE_WATCH_TROUBLED ? text
                        : state == KUBE_WATCH_SYNCED ? "synced"
                                                     : "listing");
        return 0;
}

static void on_list(void *userdata) {
        record(userdata, "list");
}

static void on_restart(void *userdata) {
        record(userdata, "again");
}

/* The call that runs; NULL: none does. */
static KubeCall *the_call(void) {
        assert_true(fake_kube.n_calls <= 1);
        return fake_kube.n_calls > 0 ? fake_kube.calls[0] : NULL;
}

/* Counts allocated bytes; 0 under a sanitizer, which has an allocator of its own. */
static size_t memory(void) {
        return mallinfo2().uordblks;
}

static int set_up(void **state) {
        fake_kube_open();
        *state = calloc(1, sizeof(Fixture));
        return 0;
}

static int tear_down(void **state) {
        Fixture *fixture = *state;

        kube_watch_free(fixture->watch);
        fake_clock_done();
        fake_kube_close();
        free(fixture);
        return 0;
}

static void start_with(Fixture *fixture, const KubeWatchOptions *options) {
        assert_ok(kube_watch_new(options, &fixture->watch));
        assert_non_null(the_call());
        assert_int_equal(kube_watch_state(fixture->watch), KUBE_WATCH_LISTING);
}

static void start(Fixture *fixture) {
        const KubeWatchOptions options = {
                .path = { .group = "apps.kruise.io",
                          .version = "v1beta1",
                          .resource = "nodeimages",
                          .fields = "metadata.name=n1" },
                .object_max = 1000,
                .on_object = on_object,
                .on_gone = on_gone,
                .on_state = on_state,
                .on_list = fixture->hears_of_lists ? on_list : NULL,
                .on_restart = on_restart,
                .userdata = fixture,
        };

        start_with(fixture, &options);
}

static void assert_reported(Fixture *fixture, const char *expected) {
        assert_string_equal(fixture->reported, expected);
        fixture->reported[0] = '\0';
}

#define assert_asked(part) assert_contains(the_call()->request.path, part)
#define assert_not_asked(part) assert_null(strstr(the_call()->request.path, part))

/* "ADDED ns/name uid version", and "END version" and "BOOKMARK version". */
static int send_event(const char *text) {
        char type[20] = "", namespace[20] = "", name[20] = "", uid[20] = "", version[20] = "";
        char line[500];
        int n;

        if (sscanf(text, "END %19s", version) == 1)
                n = snprintf(line, sizeof(line),
                             "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{"
                             "\"resourceVersion\":\"%s\",\"annotations\":{"
                             "\"k8s.io/initial-events-end\":\"true\"}}}}\n",
                             version);
        else if (sscanf(text, "BOOKMARK %19s", version) == 1)
                n = snprintf(line, sizeof(line),
                             "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{"
                             "\"resourceVersion\":\"%s\"}}}\n",
                             version);
        else {
                assert_int_equal(sscanf(text, "%19s %19[^/]/%19s %19s %19s", type, namespace, name,
                                        uid, version),
                                 5);
                n = snprintf(line, sizeof(line),
                             "{\"type\":\"%s\",\"object\":{\"metadata\":{\"namespace\":\"%s\","
                             "\"name\":\"%s\",\"uid\":\"%s\",\"resourceVersion\":\"%s\"}}}\n",
                             type, namespace, name, uid, version);
        }

        return fake_kube_send(the_call(), line, (size_t) n);
}

static int send_text(const char *text) {
        return fake_kube_send(the_call(), text, strlen(text));
}

static int send_error(int code) {
        char line[200];
        int n = snprintf(line, sizeof(line),
                         "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":%d,"
                         "\"message\":\"said so\"}}\n",
                         code);

        return fake_kube_send(the_call(), line, (size_t) n);
}

static void end(void) {
        assert_ok(fake_kube_end(the_call(), &(KubeReply){ .code = 200, .body = "" }, NULL));
}

static void refuse(int code, ErrorKind kind) {
        const Error error = { .kind = kind, .message = (char *) "refused" };

        assert_ok(fake_kube_end(the_call(), &(KubeReply){ .code = code, .body = "" }, &error));
}

/* Ends a call as the client does when it cuts the connection. */
static void end_cut(void) {
        refuse(200, ERROR_CANCELED);
}

static void reply(const char *body) {
        assert_ok(fake_kube_end(the_call(),
                                &(KubeReply){ .code = 200, .body = body, .size = strlen(body) },
                                NULL));
}

#define ITEM(name, uid, version)                                                         \
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"" name "\",\"uid\":\"" uid "\"," \
        "\"resourceVersion\":\"" version "\"}}"

#define PAGE(version, next, items)                                                       \
        "{\"metadata\":{\"resourceVersion\":\"" version "\",\"continue\":\"" next "\"}," \
        "\"items\":[" items "]}"

/* A streamed list of a (version 1) and b (version 2), and the watch that goes on from it. */
static void start_watching(Fixture *fixture) {
        start(fixture);
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_event("ADDED ns/a u1 1"));
        assert_ok(send_event("ADDED ns/b u2 2"));
        assert_ok(send_event("END 5"));
        assert_reported(fixture, "+ns/a u1 1\n+ns/b u2 2\nsynced\n");
}

/* Lists the same objects in a page. */
static void start_paging(Fixture *fixture) {
        start(fixture);
        refuse(422, ERROR_INVALID);
        reply(PAGE("5", "", ITEM("a", "u1", "1") "," ITEM("b", "u2", "2")));
        assert_reported(fixture, "again\n+ns/a u1 1\n+ns/b u2 2\nsynced\nagain\n");
}

static unsigned asked_seconds(void) {
        const char *text = strstr(the_call()->request.path, "timeoutSeconds=");

        assert_non_null(text);
        return (unsigned) atoi(text + strlen("timeoutSeconds="));
}

TEST_F(test_streams_a_list, Fixture *fixture) {
        start(fixture);
        assert_int_equal(strncmp(the_call()->request.path,
                                 "/apis/apps.kruise.io/v1beta1/nodeimages?fieldSelector="
                                 "metadata.name%3Dn1&watch=true&allowWatchBookmarks=true&"
                                 "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&"
                                 "timeoutSeconds=",
                                 142),
                         0);
        assert_string_equal(the_call()->request.verb, "watch");
        assert_string_equal(the_call()->request.accept, KUBE_JSON);
        assert_in_range(asked_seconds(), 300, 600);
        assert_int_equal(the_call()->request.timeout_usec, (asked_seconds() + 15) * SEC);
        assert_in_range(the_call()->request.silence_usec, 120 * SEC, 180 * SEC);

        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_event("ADDED ns/a u1 7"));
        assert_reported(fixture, "+ns/a u1 7\n");
        assert_ok(send_event("END 9"));
        assert_reported(fixture, "synced\n");
        assert_ok(send_event("MODIFIED ns/a u1 10"));
        assert_ok(send_event("ADDED ns/b u2 11"));
        assert_ok(send_event("DELETED ns/a u1 12"));
        assert_reported(fixture, "+ns/a u1 10\n+ns/b u2 11\n-ns/a u1\n");

        fake_clock.now_usec += 400 * SEC;
        end();
        assert_reported(fixture, "again\n");
        assert_asked("&resourceVersion=12&");
        assert_not_asked("sendInitialEvents");
        assert_int_equal(fake_kube.n_begun, 2);
}

static void refuse_as_unknown(void) {
        refuse(400, ERROR_INVALID);
}

static void refuse_as_invalid(void) {
        refuse(422, ERROR_INVALID);
}

/* A server that knows no streamed lists refuses these in the same way. */
TEST_F(test_malformed, Fixture *fixture) {
        start(fixture);
        refuse_as_unknown();
        assert_false(kube_watch_is_malformed(fixture->watch));
        refuse_as_unknown();
        assert_reported(fixture, "again\ntroubled invalid\n");
        assert_true(kube_watch_is_malformed(fixture->watch));

        fake_clock_skip(fake_kube.event);
        reply(PAGE("5", "t/1=", ITEM("a", "u1", "1")));
        refuse_as_unknown(); /* the continuation */
        assert_false(kube_watch_is_malformed(fixture->watch));
}

static void fail_in_the_stream(void) {
        assert_true(send_error(500) < 0);
        end_cut();
}

static void fall_silent(void) {
        assert_int_equal(fake_clock_delay(), 10 * SEC);
        fake_clock_skip(fake_kube.event);
}

static void accept_and_fall_silent(void) {
        assert_ok(fake_kube_accept(the_call()));
        fall_silent();
}

static void send_one_and_fall_silent(void) {
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_event("ADDED ns/a u1 1"));
        fall_silent();
}

static const struct Way {
        const char *name;
        void (*answer)(void);
        bool is_partly_sent;
} ways[] = {
        { "code 400", refuse_as_unknown, false },
        { "code 422", refuse_as_invalid, false },
        { "an error in the stream", fail_in_the_stream, false },
        { "an empty stream", end, false },
        { "a silent stream", accept_and_fall_silent, false },
        { "silence after an object", send_one_and_fall_silent, true },
};

/* Servers without streaming lists say that they do not know them, cannot do them, or say nothing. */
TEST_ROWS_F(test_falls_back_to_pages, ways, name, const struct Way *row, Fixture *fixture) {
        start(fixture);
        row->answer();
        assert_reported(fixture, row->is_partly_sent ? "+ns/a u1 1\nagain\n" : "again\n");
        assert_asked("/nodeimages?fieldSelector=metadata.name%3Dn1&limit=500");
        assert_not_asked("continue");
        assert_string_equal(the_call()->request.verb, "list");

        reply(PAGE("5", "t/1=", ITEM("a", "u1", "1")));
        assert_asked("limit=500&continue=t%2F1%3D");
        reply(PAGE("5", "", ITEM("b", "u2", "2")));
        assert_reported(fixture, row->is_partly_sent ? "+ns/b u2 2\nsynced\nagain\n"
                                                     : "+ns/a u1 1\n+ns/b u2 2\nsynced\nagain\n");
        assert_asked("watch=true&allowWatchBookmarks=true&resourceVersion=5&");

        /* And does not try it again. */
        refuse(410, ERROR_GONE);
        assert_true(fake_clock_delay() <= SEC / 4);
        fake_clock_skip(fake_kube.event);
        assert_asked("limit=500");
}

/* It may be that no server is there to know it. */
TEST_F(test_keeps_streaming_after_failures, Fixture *fixture) {
        start(fixture);
        refuse(0, ERROR_UNAVAILABLE);
        assert_reported(fixture, "troubled unavailable\n");
        fake_clock_skip(fake_kube.event);
        assert_reported(fixture, "again\n");
        assert_asked("sendInitialEvents");
        refuse(503, ERROR_UNAVAILABLE);
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents");
        assert_int_equal(the_call()->request.accept_usec, 60 * SEC);
        refuse(0, ERROR_TIMEOUT);
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents");
        assert_reported(fixture, "again\ntroubled timeout\nagain\n");
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_event("END 5"));
        assert_reported(fixture, "synced\n");
}

TEST_F(test_relist_reports_changes, Fixture *fixture) {
        start_watching(fixture);
        assert_true(send_error(410) < 0);
        end_cut();
        assert_reported(fixture, "listing\n");
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents");
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_event("ADDED ns/b u2 2"));
        assert_ok(send_event("ADDED ns/c u3 8"));
        assert_reported(fixture, "again\n+ns/c u3 8\n");
        assert_ok(send_event("END 9"));
        assert_reported(fixture, "-ns/a u1\nsynced\n");
}

TEST_F(test_relist_in_pages, Fixture *fixture) {
        start_paging(fixture);
        refuse(410, ERROR_GONE);
        fake_clock_skip(fake_kube.event);
        reply(PAGE("8", "x", ITEM("a", "u1", "6")));
        assert_reported(fixture, "listing\nagain\n+ns/a u1 6\n");
        refuse(410, ERROR_GONE);
        fake_clock_skip(fake_kube.event);
        assert_not_asked("continue");
        reply(PAGE("9", "", ITEM("a", "u9", "9")));
        assert_reported(fixture, "troubled gone\nagain\n-ns/a u1\n+ns/a u9 9\n-ns/b u2\nsynced\n"
                                 "again\n");
        assert_asked("resourceVersion=9&");
}

/* Whether it was a version that was too old, or a trouble: not the watches that go on. */
TEST_F(test_reports_where_lists_begin, Fixture *fixture) {
        fixture->hears_of_lists = true;
        start_watching(fixture);
        assert_true(send_error(410) < 0);
        end_cut();
        fake_clock_skip(fake_kube.event);
        assert_reported(fixture, "listing\nagain\nlist\n");
        assert_ok(send_event("ADDED ns/b u2 2"));
        assert_ok(send_event("END 3"));
        assert_reported(fixture, "-ns/a u1\nsynced\n");

        refuse(200, ERROR_UNAVAILABLE);
        fake_clock_skip(fake_kube.event);
        assert_reported(fixture, "troubled unavailable\nagain\n");
        refuse(500, ERROR_UNAVAILABLE);
        fake_clock_skip(fake_kube.event);
        assert_reported(fixture, "again\nlist\n");
        refuse(422, ERROR_INVALID);
        assert_reported(fixture, "again\nlist\n");
        reply(PAGE("2", "x", ITEM("b", "u2", "1")));
        reply(PAGE("2", "", ""));
        assert_reported(fixture, "+ns/b u2 1\nsynced\nagain\n");
}

TEST_F(test_created_again, Fixture *fixture) {
        start_watching(fixture);
        assert_ok(send_event("ADDED ns/a u7 7"));
        assert_reported(fixture, "-ns/a u1\n+ns/a u7 7\n");
        assert_ok(send_event("DELETED ns/a u1 8"));
        assert_ok(send_event("DELETED ns/z u1 8"));
        assert_reported(fixture, "");
        assert_ok(send_event("DELETED ns/a u7 9"));
        assert_reported(fixture, "-ns/a u7\n");
}

/* Too old again and again: not a storm of lists. */
TEST_F(test_gone_again_backs_off, Fixture *fixture) {
        uint64_t wait = 0;

        start_paging(fixture);
        for (unsigned i = 0; i < 10; i++) {
                assert_true(send_error(410) < 0);
                end_cut();
                wait = fake_clock_delay();
                assert_true(i == 0 ? wait <= SEC / 4 : wait >= SEC / 5);
                fake_clock_skip(fake_kube.event);
                reply(PAGE("5", "", ""));
        }
        assert_in_range(wait, 12 * SEC, 18 * SEC);

        /* A watch that works makes up for it. */
        assert_ok(fake_kube_accept(the_call()));
        fake_clock.now_usec += 20 * SEC;
        end();
        assert_true(send_error(410) < 0);
        end_cut();
        assert_true(fake_clock_delay() <= SEC / 4);
}

TEST_F(test_ends_early, Fixture *fixture) {
        start_watching(fixture);
        fake_clock.now_usec += 2 * SEC;
        end();
        assert_reported(fixture, "again\n");
        assert_non_null(the_call());
        end();
        assert_reported(fixture, "");
        assert_int_equal(fake_clock_delay(), 0);
        fake_clock_skip(fake_kube.event);
        assert_ok(fake_kube_accept(the_call()));
        assert_reported(fixture, "again\n");
        end();
        assert_reported(fixture, "troubled unavailable\n");
        assert_true(fake_clock_delay() >= SEC / 5);
        fake_clock_skip(fake_kube.event);
        assert_ok(fake_kube_accept(the_call()));
        assert_reported(fixture, "again\nsynced\n");
}

TEST_F(test_cut_and_again, Fixture *fixture) {
        start_watching(fixture);
        assert_ok(send_event("BOOKMARK 17"));
        refuse(200, ERROR_UNAVAILABLE);
        assert_reported(fixture, "troubled unavailable\n");
        assert_in_range(fake_clock_delay(), SEC / 5, SEC / 3);
        fake_clock_skip(fake_kube.event);
        assert_asked("resourceVersion=17&");
        refuse(0, ERROR_UNAVAILABLE);
        assert_reported(fixture, "again\n");
        fake_clock_skip(fake_kube.event);
        assert_asked("resourceVersion=17&");
        assert_ok(fake_kube_accept(the_call()));
        assert_reported(fixture, "again\nsynced\n");
}

/* A load balancer that cuts idle connections does so for ever: the pauses stay short. */
TEST_F(test_cut_when_idle, Fixture *fixture) {
        start_watching(fixture);
        for (unsigned i = 0; i < 20; i++) {
                fake_clock.now_usec += 35 * SEC;
                refuse(200, ERROR_UNAVAILABLE);
                assert_in_range(fake_clock_delay(), 0, SEC / 3);
                fake_clock_skip(fake_kube.event);
                assert_ok(fake_kube_accept(the_call()));
                if (strstr(the_call()->request.path, "sendInitialEvents"))
                        assert_ok(send_event("END 5"));
                assert_int_equal(kube_watch_state(fixture->watch), KUBE_WATCH_SYNCED);
        }
}

/* Waits that the server asks for in an event. */
TEST_F(test_heeds_retry_after, Fixture *fixture) {
        start_watching(fixture);
        assert_true(send_text("{\"type\":\"ERROR\",\"object\":{\"code\":429,\"details\":"
                              "{\"retryAfterSeconds\":40}}}\n") < 0);
        end_cut();
        assert_reported(fixture, "troubled unavailable\n");
        assert_int_equal(fake_clock_delay(), 40 * SEC);
}

/* The last line is none; only whole ones move the version. */
TEST_F(test_half_a_line, Fixture *fixture) {
        start_watching(fixture);
        assert_ok(send_event("MODIFIED ns/a u1 6"));
        assert_ok(send_text("{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":"));
        fake_clock.now_usec += 20 * SEC;
        end();
        assert_reported(fixture, "+ns/a u1 6\nagain\n");
        assert_asked("resourceVersion=6&");
        assert_ok(send_event("MODIFIED ns/a u1 7"));
        assert_reported(fixture, "+ns/a u1 7\n");
}

static const struct Garbage {
        const char *line;
} garbage[] = {
        { "this is no JSON\n" },
        { "{}\n" },
        { "[]\n" },
        { "null\n" },
        { "{\"type\":\"ADDED\",\"object\":null}\n" },
        { "{\"type\":\"ADDED\",\"object\":{}}\n" },
        { "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}\n" },
        { "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n" },
        { "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":1}}}\n" },
        { "{\"type\":\"EATEN\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n" },
        { "{\"type\":\"ERROR\",\"object\":[]}\n" },
        { "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{}}}\n" },
        { "\xff\xfe\n" },
};

TEST_ROWS_F(test_garbage, garbage, line, const struct Garbage *row, Fixture *fixture) {
        start_watching(fixture);
        assert_true(send_text(row->line) < 0);
        assert_reported(fixture, "");
        end_cut();
        assert_reported(fixture, "troubled invalid\n");
        assert_null(strchr(error_message(kube_watch_error(fixture->watch)), '\n'));
        assert_true(fake_clock_delay() >= SEC / 5);
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents");
}

#define DEEP_ITEM(version)                                                   \
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\",\"uid\":\"u3\"," \
        "\"resourceVersion\":\"" version "\",\"managedFields\":[%s]}}"

static void make_deep(char *ret) {
        ret[0] = '\0';
        for (size_t i = 0; i < 200; i++)
                strcat(ret, "{\"f\":");
        strcat(ret, "{}");
        for (size_t i = 0; i < 200; i++)
                strcat(ret, "}");
}

/* Users write the managedFields of their objects, as deep as they like: the objects are shown all the same. */
TEST_F(test_deep_managed_fields, Fixture *fixture) {
        char deep[2000], text[3000];

        make_deep(deep);
        start_watching(fixture);
        snprintf(text, sizeof(text), "{\"type\":\"ADDED\",\"object\":" DEEP_ITEM("6") "}\n", deep);
        assert_ok(send_text(text));
        assert_reported(fixture, "+ns/c u3 6\n");
}

TEST_F(test_deep_managed_fields_in_a_list, Fixture *fixture) {
        char deep[2000], text[3000];

        make_deep(deep);
        start(fixture);
        refuse(422, ERROR_INVALID);
        snprintf(text, sizeof(text), PAGE("9", "", DEEP_ITEM("8")), deep);
        reply(text);
        assert_reported(fixture, "again\n+ns/c u3 8\nsynced\nagain\n");
}

TEST_F(test_too_large, Fixture *fixture) {
        char text[6000];

        start_watching(fixture);
        memset(text, 'x', sizeof(text));
        assert_true(fake_kube_send(the_call(), text, sizeof(text)) < 0);
        end_cut();
        assert_reported(fixture, "troubled invalid\n");
}

/* A page that does not fit is asked for again in parts. */
TEST_F(test_large_pages, Fixture *fixture) {
        start(fixture);
        refuse(422, ERROR_INVALID);
        assert_int_equal(the_call()->request.reply_max, 1000 + 4096); /* room for an event */
        refuse(200, ERROR_INVALID);
        assert_asked("limit=250");
        for (unsigned size = 250; size > 1; size /= 2)
                refuse(200, ERROR_INVALID);
        assert_asked("limit=1");
        reply(PAGE("5", "x", ITEM("a", "u1", "1")));
        assert_asked("limit=1&continue=x");
        refuse(200, ERROR_INVALID);
        assert_reported(fixture, "again\nagain\nagain\nagain\nagain\nagain\nagain\nagain\nagain\n"
                                 "+ns/a u1 1\ntroubled invalid\n");
        fake_clock_skip(fake_kube.event);
        reply(PAGE("5", "x", ITEM("a", "u1", "1")));
        reply(PAGE("5", "x", ""));
        assert_reported(fixture, "again\ntroubled invalid\n"); /* for another reason */
        assert_null(the_call());
}

static const struct BadPage {
        const char *body;
} bad_pages[] = {
        { "" },
        { "{" },
        { "{}" },
        { "[]" },
        { "{\"metadata\":{}}" },
        { "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":{}}" },
        { PAGE("5", "", "1") },
        { PAGE("5", "", "{}") },
        { PAGE("5", "", ITEM("", "u1", "1")) },
        { PAGE("5", "", "") "x" },
};

TEST_ROWS_F(test_bad_pages, bad_pages, body, const struct BadPage *row, Fixture *fixture) {
        start(fixture);
        refuse(422, ERROR_INVALID);
        reply(row->body);
        assert_reported(fixture, "again\ntroubled invalid\n");
        assert_true(fake_clock_delay() >= SEC / 5);
}

static const struct Refusal {
        int code;
        ErrorKind kind;
        unsigned n_passing; /* are tried again soon, as after any failure */
        const char *reported;
} refusals[] = {
        { 404, ERROR_NOT_FOUND, 0, "troubled not-found\n" },
        { 403, ERROR_DENIED, 4, "troubled denied\n" },
};

/* The kind may come, the right may be granted: not asked for every second. A server that has just
 * started does not know rights yet. */
TEST_ROWS_F(test_not_found_and_denied, refusals, reported, const struct Refusal *row,
            Fixture *fixture) {
        start(fixture);
        refuse(row->code, row->kind);
        assert_reported(fixture, row->reported);
        for (unsigned n = 0; n < 5; n++) {
                bool is_passing = n < row->n_passing;

                assert_in_range(fake_clock_delay(), is_passing ? 1 : 15 * SEC,
                                is_passing ? 3 * SEC : 30 * SEC);
                fake_clock_skip(fake_kube.event);
                refuse(row->code, row->kind);
        }
        assert_reported(fixture, "again\nagain\nagain\nagain\nagain\n");

        assert_ok(kube_watch_kick(fixture->watch));
        assert_int_equal(fake_clock_delay(), 0);
        fake_clock_skip(fake_kube.event);
        assert_ok(kube_watch_kick(fixture->watch));
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_event("END 5"));
        assert_reported(fixture, "again\nsynced\n");
}

/* A list replaces the known objects; a refusal leaves them. */
TEST_F(test_refused_list_keeps_objects, Fixture *fixture) {
        start_watching(fixture);
        refuse(403, ERROR_DENIED);
        assert_reported(fixture, "troubled denied\n");
        fake_clock_skip(fake_kube.event);
        assert_ok(send_event("ADDED ns/a u1 1"));
        refuse(200, ERROR_UNAVAILABLE);
        fake_clock_skip(fake_kube.event);
        assert_reported(fixture, "again\ntroubled unavailable\nagain\n");
        assert_ok(send_event("ADDED ns/b u2 2"));
        assert_ok(send_event("END 9"));
        assert_reported(fixture, "-ns/a u1\nsynced\n");
}

/* Bookmarks allow for long watches; without them short watches detect a dead connection. After a
 * silence the known objects may be of a lost store: they are listed, once. */
TEST_F(test_silence, Fixture *fixture) {
        start_watching(fixture);
        fake_clock.now_usec += 150 * SEC;
        refuse(200, ERROR_TIMEOUT);
        assert_reported(fixture, "listing\n");
        assert_in_range(fake_clock_delay(), 0, 250000);
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents=true");
        assert_in_range(asked_seconds(), 120, 150);
        assert_int_equal(the_call()->request.silence_usec, 0);
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_event("ADDED ns/a u1 1"));
        assert_ok(send_event("END 4"));
        assert_reported(fixture, "again\n-ns/b u2\nsynced\n");

        /* The connection is good, and no event comes. */
        for (unsigned i = 0; i < 9; i++) {
                fake_clock.now_usec += asked_seconds() * SEC;
                end();
                assert_asked("resourceVersion=4&");
                assert_in_range(asked_seconds(), 120, 150);
                assert_int_equal(the_call()->request.silence_usec, 0);
                assert_reported(fixture, "again\n");
        }

        assert_ok(send_event("BOOKMARK 20"));
        fake_clock.now_usec += asked_seconds() * SEC;
        end();
        assert_in_range(asked_seconds(), 300, 600);
        assert_in_range(the_call()->request.silence_usec, 120 * SEC, 180 * SEC);
        assert_asked("resourceVersion=20&");
        assert_reported(fixture, "again\n");
}

/* A server that does not even end the watch is dead. */
TEST_F(test_silence_again, Fixture *fixture) {
        start_watching(fixture);
        fake_clock.now_usec += 150 * SEC;
        refuse(200, ERROR_TIMEOUT);
        fake_clock_skip(fake_kube.event);
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_event("END 4"));
        assert_reported(fixture, "listing\nagain\n-ns/a u1\n-ns/b u2\nsynced\n");
        fake_clock.now_usec += 165 * SEC;
        refuse(200, ERROR_TIMEOUT);
        assert_reported(fixture, "troubled timeout\n");
}

static const struct Break {
        const char *name;
        bool is_cut; /* else the server ends it, but before the time */
        unsigned n_watches;
        uint64_t each_usec;
} breaks[] = {
        { "cut", true, 1, 120 * SEC },
        { "ended", false, 1, 150 * SEC },
        { "ended, in two watches", false, 2, 60 * SEC },
};

/* Without bookmarks a watch that broke may go on with another store, which does not know the
 * version and sends nothing. */
TEST_ROWS_F(test_silence_after_a_break, breaks, name, const struct Break *row, Fixture *fixture) {
        start_paging(fixture);
        fake_clock.now_usec += 100 * SEC;
        if (row->is_cut) {
                refuse(200, ERROR_UNAVAILABLE);
                fake_clock_skip(fake_kube.event);
        } else
                end();
        for (unsigned n = 0; n < row->n_watches; n++) {
                assert_asked("resourceVersion=5&");
                assert_ok(fake_kube_accept(the_call()));
                fixture->reported[0] = '\0';
                fake_clock.now_usec += row->each_usec;
                end();
        }
        assert_reported(fixture, "listing\n");
        fake_clock_skip(fake_kube.event);
        assert_asked("?fieldSelector=metadata.name%3Dn1&limit=500");
}

/* A watch that has reported anything since the break is well. */
TEST_F(test_word_after_a_break, Fixture *fixture) {
        start_paging(fixture);
        fake_clock.now_usec += 100 * SEC;
        refuse(200, ERROR_UNAVAILABLE);
        fake_clock_skip(fake_kube.event);
        assert_ok(send_event("MODIFIED ns/a u1 7"));
        fake_clock.now_usec += 150 * SEC;
        fixture->reported[0] = '\0';
        end();
        assert_asked("resourceVersion=7&");
        assert_reported(fixture, "again\n");
}

TEST_F(test_relist, Fixture *fixture) {
        start_watching(fixture);
        assert_ok(kube_watch_relist(fixture->watch));
        assert_null(the_call());
        assert_reported(fixture, "listing\n");

        /* It is about to. */
        assert_ok(kube_watch_relist(fixture->watch));
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents=true");

        /* It does, but the list may be older than what its owner knows. */
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(kube_watch_relist(fixture->watch));
        assert_null(the_call());
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents=true");
        assert_ok(fake_kube_accept(the_call()));
        assert_ok(send_event("ADDED ns/a u1 3"));
        assert_ok(send_event("END 3"));
        assert_reported(fixture, "again\nagain\n+ns/a u1 3\n-ns/b u2\nsynced\n");

        /* While it waits. */
        refuse(503, ERROR_UNAVAILABLE);
        assert_reported(fixture, "troubled unavailable\n");
        assert_ok(kube_watch_relist(fixture->watch));
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents=true");
}

/* Sends a list of a and b, or as much of it as comes before the watch is freed. */
static void follow_list(Fixture *fixture, bool is_paged) {
        start(fixture);
        if (!is_paged) {
                (void) send_text("{\"type\":\"ADDED\",\"object\":" ITEM(
                        "a", "u1",
                        "1") "}\n"
                             "{\"type\":\"ADDED\",\"object\":" ITEM(
                                     "b", "u2",
                                     "2") "}\n"
                                          "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{"
                                          "\"resourceVersion\":\"5\",\"annotations\":{"
                                          "\"k8s.io/initial-events-end\":\"true\"}}}}\n");
                return;
        }

        refuse(422, ERROR_INVALID);
        if (fixture->watch)
                reply(PAGE("5", "", ITEM("a", "u1", "1") "," ITEM("b", "u2", "2")));
}

/* Then creates a again, deletes both, and sends garbage. */
static void live_on(Fixture *fixture, bool is_paged) {
        if (fixture->watch)
                (void) send_text("{\"type\":\"ADDED\",\"object\":" ITEM(
                        "a", "u9",
                        "9") "}\n"
                             "{\"type\":\"DELETED\",\"object\":" ITEM(
                                     "b", "u2",
                                     "9") "}\n"
                                          "{\"type\":\"DELETED\",\"object\":" ITEM(
                                                  "a", "u9",
                                                  "9") "}\n"
                                                       "{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n");
        if (fixture->watch)
                end_cut();
        if (fixture->watch)
                fake_clock_skip(fake_kube.event);
        if (fixture->watch && is_paged)
                reply("{");
        else if (fixture->watch) {
                assert_true(send_text("{\n") < 0);
                end_cut();
        }
}

static void check_freed_at(Fixture *fixture, const char *moment, bool is_paged) {
        const char *last;

        fixture->free_at = moment;
        fixture->hears_of_lists = true;
        follow_list(fixture, is_paged);
        live_on(fixture, is_paged);
        assert_null(fixture->watch);
        assert_null(the_call());
        assert_int_equal(fake_clock_delay(), UINT64_MAX);

        fixture->reported[strlen(fixture->reported) - 1] = '\0';
        last = strrchr(fixture->reported, '\n');
        assert_string_equal(last ? last + 1 : fixture->reported, moment);
}

static const struct Moment {
        const char *moment;
        bool is_paged;
} moments[] = {
#define BOTH_WAYS(moment)    \
        { moment, false }, { \
                moment, true \
        }
        BOTH_WAYS("+ns/a u1 1"), BOTH_WAYS("synced"),     BOTH_WAYS("-ns/b u2"),
        BOTH_WAYS("-ns/a u1"),   BOTH_WAYS("+ns/a u9 9"), BOTH_WAYS("listing"),
        BOTH_WAYS("again"),      BOTH_WAYS("list"),       BOTH_WAYS("troubled invalid"),
};

/* The watch may be freed in each of its reports. */
TEST_ROWS_F(test_freed_inside, moments, moment, const struct Moment *row, Fixture *fixture) {
        check_freed_at(fixture, row->moment, row->is_paged);
}

TEST_F(test_freed_at_any_time, Fixture *fixture) {
        start(fixture);
        fixture->watch = kube_watch_free(fixture->watch);
        assert_null(the_call());
        start(fixture);
        refuse(0, ERROR_UNAVAILABLE);
        fixture->watch = kube_watch_free(fixture->watch);
        assert_int_equal(fake_clock_delay(), UINT64_MAX);
        assert_null(kube_watch_free(NULL));
}

static int on_object_fails(const KubeObject *object, void *userdata) {
        return -ENOMEM;
}

/* A local failure ends the loop, through the caller, which checks what the last callback returns. */
TEST_F(test_local_failure, Fixture *fixture) {
        const KubeWatchOptions options = {
                .path = { .version = "v1", .resource = "pods" },
                .on_object = on_object_fails,
                .on_gone = on_gone,
                .on_state = on_state,
                .userdata = fixture,
        };
        const Error canceled = { .kind = ERROR_CANCELED };

        start_with(fixture, &options);
        assert_true(send_event("ADDED ns/a u1 1") < 0);
        assert_int_equal(fake_kube_end(the_call(), &(KubeReply){ .code = 200, .body = "" },
                                       &canceled),
                         -ENOMEM);
}

TEST_F(test_protobuf, Fixture *fixture) {
        const KubeWatchOptions options = {
                .path = { .version = "v1", .resource = "pods" },
                .is_protobuf = true,
                .on_object = on_object,
                .on_gone = on_gone,
                .on_state = on_state,
                .userdata = fixture,
        };
        Bytes bytes = { .size = 0 };

        start_with(fixture, &options);
        assert_int_equal(strncmp(the_call()->request.path, "/api/v1/pods?watch=true&", 24), 0);
        assert_string_equal(the_call()->request.accept, KUBE_PROTOBUF ";stream=watch");
        bytes_pack_frame(&bytes, "ADDED", "ns", "a", "u1", "1");
        bytes_pack_frame(&bytes, "ADDED", "ns", "b", "u2", "2");
        bytes_pack_frame(&bytes, "BOOKMARK", "", "", "", "end:5");
        bytes_pack_frame(&bytes, "DELETED", "ns", "a", "u1", "6");
        for (size_t i = 0; i < bytes.size; i++)
                assert_ok(fake_kube_send(the_call(), bytes.data + i, 1));
        assert_reported(fixture, "+ns/a u1 1\n+ns/b u2 2\nsynced\n-ns/a u1\n");

        assert_true(send_text("{\"kind\":\"Status\"}\n") < 0);
        end_cut();
        assert_reported(fixture, "troubled invalid\n");
        fake_clock_skip(fake_kube.event);
        refuse(422, ERROR_INVALID);
        assert_string_equal(the_call()->request.accept, KUBE_PROTOBUF);
        assert_int_equal(the_call()->request.reply_max, 8 << 20);
}

/* Only the name of an event's object is kept. */
TEST_F(test_memory, Fixture *fixture) {
        size_t before = 0;

        start_watching(fixture);
        for (unsigned i = 0; i < 20000; i++) {
                char text[100];

                snprintf(text, sizeof(text), "MODIFIED ns/a u1 %u", 100000 + i);
                assert_ok(send_event(text));
                fixture->reported[0] = '\0';
                if (i == 100)
                        before = memory();
        }
        assert_true(memory() <= before + 1000);
}
