/* SPDX-License-Identifier: Apache-2.0 */

/*
 * List and watch, with a server that does what the test says
 *
 * What the watch reports is written down as it comes: "+ns/name uid version", "-ns/name uid",
 * "listing", "synced", "troubled KIND", "again" for a restart, "list" for a list that begins again.
 */

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/kube/watch.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/kube-message.h"

#define SEC ((uint64_t) 1000000)

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

/* Bytes that are in use; 0 under a sanitizer, which has an allocator of its own. */
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
        assert_int_equal(kube_watch_new(options, &fixture->watch), 0);
        assert_non_null(the_call());
        assert_int_equal(kube_watch_state(fixture->watch), KUBE_WATCH_LISTING);
}

static void start(Fixture *fixture) {
        const KubeWatchOptions options = {
                .path = { .group = "apps.kruise.io",
                          .version = "v1beta1",
                          .resource = "nodeimages" },
                .selector = "fieldSelector=metadata.name%3Dn1",
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

#define assert_asked(part) assert_non_null(strstr(the_call()->request.path, part))
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
        assert_int_equal(fake_kube_end(the_call(), &(KubeReply){ .code = 200, .body = "" }, NULL),
                         0);
}

static void refuse(int code, ErrorKind kind) {
        const Error error = { .kind = kind, .message = (char *) "refused" };

        assert_int_equal(fake_kube_end(the_call(), &(KubeReply){ .code = code, .body = "" },
                                       &error),
                         0);
}

/* What was cut from inside ends so. */
static void end_cut(void) {
        refuse(200, ERROR_CANCELED);
}

static void reply(const char *body) {
        assert_int_equal(fake_kube_end(the_call(),
                                       &(KubeReply){
                                               .code = 200, .body = body, .size = strlen(body) },
                                       NULL),
                         0);
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
        assert_int_equal(fake_kube_accept(the_call()), 0);
        assert_int_equal(send_event("ADDED ns/a u1 1"), 0);
        assert_int_equal(send_event("ADDED ns/b u2 2"), 0);
        assert_int_equal(send_event("END 5"), 0);
        assert_reported(fixture, "+ns/a u1 1\n+ns/b u2 2\nsynced\n");
}

/* The same in a page. */
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

static void test_streams_a_list(void **state) {
        Fixture *fixture = *state;

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

        assert_int_equal(fake_kube_accept(the_call()), 0);
        assert_int_equal(send_event("ADDED ns/a u1 7"), 0);
        assert_reported(fixture, "+ns/a u1 7\n");
        assert_int_equal(send_event("END 9"), 0);
        assert_reported(fixture, "synced\n");
        assert_int_equal(send_event("MODIFIED ns/a u1 10"), 0);
        assert_int_equal(send_event("ADDED ns/b u2 11"), 0);
        assert_int_equal(send_event("DELETED ns/a u1 12"), 0);
        assert_reported(fixture, "+ns/a u1 10\n+ns/b u2 11\n-ns/a u1\n");

        fake_clock.now_usec += 400 * SEC;
        end();
        assert_reported(fixture, "again\n");
        assert_asked("&resourceVersion=12&");
        assert_not_asked("sendInitialEvents");
        assert_int_equal(fake_kube.n_begun, 2);
}

/* Servers say that they do not know it, cannot do it, or they say nothing. */
static void test_falls_back_to_pages(void **state) {
        for (unsigned way = 0; way < 6; way++) {
                Fixture *fixture;

                assert_int_equal(tear_down(state), 0);
                assert_int_equal(set_up(state), 0);
                fixture = *state;
                start(fixture);
                if (way == 0)
                        refuse(400, ERROR_INVALID);
                else if (way == 1)
                        refuse(422, ERROR_INVALID);
                else if (way == 2) {
                        assert_true(send_error(500) < 0);
                        end_cut();
                } else if (way == 3)
                        end();
                else {
                        assert_int_equal(fake_kube_accept(the_call()), 0);
                        if (way == 5)
                                assert_int_equal(send_event("ADDED ns/a u1 1"), 0);
                        assert_int_equal(fake_clock_delay(), 10 * SEC);
                        fake_clock_skip(fake_kube.event);
                }
                assert_reported(fixture, way == 5 ? "+ns/a u1 1\nagain\n" : "again\n");
                assert_asked("/nodeimages?fieldSelector=metadata.name%3Dn1&limit=500");
                assert_not_asked("continue");
                assert_string_equal(the_call()->request.verb, "list");

                reply(PAGE("5", "t/1=", ITEM("a", "u1", "1")));
                assert_asked("limit=500&continue=t%2F1%3D");
                reply(PAGE("5", "", ITEM("b", "u2", "2")));
                assert_reported(fixture, way == 5 ? "+ns/b u2 2\nsynced\nagain\n"
                                                  : "+ns/a u1 1\n+ns/b u2 2\nsynced\nagain\n");
                assert_asked("watch=true&allowWatchBookmarks=true&resourceVersion=5&");

                /* And does not try it again. */
                refuse(410, ERROR_GONE);
                assert_true(fake_clock_delay() <= SEC / 4);
                fake_clock_skip(fake_kube.event);
                assert_asked("limit=500");
        }
}

/* It may be that no server is there to know it. */
static void test_keeps_streaming_after_failures(void **state) {
        Fixture *fixture = *state;

        start(fixture);
        refuse(0, ERROR_UNAVAILABLE);
        assert_reported(fixture, "troubled unavailable\n");
        fake_clock_skip(fake_kube.event);
        assert_reported(fixture, "again\n");
        assert_asked("sendInitialEvents");
        refuse(503, ERROR_UNAVAILABLE);
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents");
        fake_clock_skip(fake_kube.event); /* not even accepted */
        assert_null(the_call());
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents");
        assert_reported(fixture, "again\ntroubled timeout\nagain\n");
        assert_int_equal(fake_kube_accept(the_call()), 0);
        assert_int_equal(send_event("END 5"), 0);
        assert_reported(fixture, "synced\n");
}

static void test_relist_reports_changes(void **state) {
        Fixture *fixture = *state;

        start_watching(fixture);
        assert_true(send_error(410) < 0);
        end_cut();
        assert_reported(fixture, "listing\n");
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents");
        assert_int_equal(fake_kube_accept(the_call()), 0);
        assert_int_equal(send_event("ADDED ns/b u2 2"), 0);
        assert_int_equal(send_event("ADDED ns/c u3 8"), 0);
        assert_reported(fixture, "again\n+ns/c u3 8\n");
        assert_int_equal(send_event("END 9"), 0);
        assert_reported(fixture, "-ns/a u1\nsynced\n");
}

static void test_relist_in_pages(void **state) {
        Fixture *fixture = *state;

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
static void test_reports_where_lists_begin(void **state) {
        Fixture *fixture = *state;

        fixture->hears_of_lists = true;
        start_watching(fixture);
        assert_true(send_error(410) < 0);
        end_cut();
        fake_clock_skip(fake_kube.event);
        assert_reported(fixture, "listing\nagain\nlist\n");
        assert_int_equal(send_event("ADDED ns/b u2 2"), 0);
        assert_int_equal(send_event("END 3"), 0);
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

static void test_created_again(void **state) {
        Fixture *fixture = *state;

        start_watching(fixture);
        assert_int_equal(send_event("ADDED ns/a u7 7"), 0);
        assert_reported(fixture, "-ns/a u1\n+ns/a u7 7\n");
        assert_int_equal(send_event("DELETED ns/a u1 8"), 0);
        assert_int_equal(send_event("DELETED ns/z u1 8"), 0);
        assert_reported(fixture, "");
        assert_int_equal(send_event("DELETED ns/a u7 9"), 0);
        assert_reported(fixture, "-ns/a u7\n");
}

/* Too old again and again: not a storm of lists. */
static void test_gone_again_backs_off(void **state) {
        Fixture *fixture = *state;
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
        assert_int_equal(fake_kube_accept(the_call()), 0);
        fake_clock.now_usec += 20 * SEC;
        end();
        assert_true(send_error(410) < 0);
        end_cut();
        assert_true(fake_clock_delay() <= SEC / 4);
}

static void test_ends_early(void **state) {
        Fixture *fixture = *state;

        start_watching(fixture);
        fake_clock.now_usec += 2 * SEC;
        end();
        assert_reported(fixture, "again\n");
        assert_non_null(the_call());
        end();
        assert_reported(fixture, "");
        assert_int_equal(fake_clock_delay(), 0);
        fake_clock_skip(fake_kube.event);
        assert_int_equal(fake_kube_accept(the_call()), 0);
        assert_reported(fixture, "again\n");
        end();
        assert_reported(fixture, "troubled unavailable\n");
        assert_true(fake_clock_delay() >= SEC / 5);
        fake_clock_skip(fake_kube.event);
        assert_int_equal(fake_kube_accept(the_call()), 0);
        assert_reported(fixture, "again\nsynced\n");
}

static void test_cut_and_again(void **state) {
        Fixture *fixture = *state;

        start_watching(fixture);
        assert_int_equal(send_event("BOOKMARK 17"), 0);
        refuse(200, ERROR_UNAVAILABLE);
        assert_reported(fixture, "troubled unavailable\n");
        assert_in_range(fake_clock_delay(), SEC / 5, SEC / 3);
        fake_clock_skip(fake_kube.event);
        assert_asked("resourceVersion=17&");
        refuse(0, ERROR_UNAVAILABLE);
        assert_reported(fixture, "again\n");
        fake_clock_skip(fake_kube.event);
        assert_asked("resourceVersion=17&");
        assert_int_equal(fake_kube_accept(the_call()), 0);
        assert_reported(fixture, "again\nsynced\n");
}

/* What the server asks for in an event. */
static void test_heeds_retry_after(void **state) {
        Fixture *fixture = *state;

        start_watching(fixture);
        assert_true(send_text("{\"type\":\"ERROR\",\"object\":{\"code\":429,\"details\":"
                              "{\"retryAfterSeconds\":40}}}\n") < 0);
        end_cut();
        assert_reported(fixture, "troubled unavailable\n");
        assert_int_equal(fake_clock_delay(), 40 * SEC);
}

/* The last line is none; only whole ones move the version. */
static void test_half_a_line(void **state) {
        Fixture *fixture = *state;

        start_watching(fixture);
        assert_int_equal(send_event("MODIFIED ns/a u1 6"), 0);
        assert_int_equal(send_text("{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":"), 0);
        fake_clock.now_usec += 20 * SEC;
        end();
        assert_reported(fixture, "+ns/a u1 6\nagain\n");
        assert_asked("resourceVersion=6&");
        assert_int_equal(send_event("MODIFIED ns/a u1 7"), 0);
        assert_reported(fixture, "+ns/a u1 7\n");
}

static void test_garbage(void **state) {
        static const char *const lines[] = {
                "this is no JSON\n",
                "{}\n",
                "[]\n",
                "null\n",
                "{\"type\":\"ADDED\",\"object\":null}\n",
                "{\"type\":\"ADDED\",\"object\":{}}\n",
                "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}\n",
                "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n",
                "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":1}}}\n",
                "{\"type\":\"EATEN\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n",
                "{\"type\":\"ERROR\",\"object\":[]}\n",
                "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{}}}\n",
                "\xff\xfe\n",
        };

        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
                Fixture *fixture;

                assert_int_equal(tear_down(state), 0);
                assert_int_equal(set_up(state), 0);
                fixture = *state;
                start_watching(fixture);
                assert_true(send_text(lines[i]) < 0);
                assert_reported(fixture, "");
                end_cut();
                assert_reported(fixture, "troubled invalid\n");
                assert_null(strchr(error_message(kube_watch_error(fixture->watch)), '\n'));
                assert_true(fake_clock_delay() >= SEC / 5);
                fake_clock_skip(fake_kube.event);
                assert_asked("sendInitialEvents");
        }
}

static void test_too_large(void **state) {
        Fixture *fixture = *state;
        char text[6000];

        start_watching(fixture);
        memset(text, 'x', sizeof(text));
        assert_true(fake_kube_send(the_call(), text, sizeof(text)) < 0);
        end_cut();
        assert_reported(fixture, "troubled invalid\n");
}

/* A page that does not fit is asked for again in parts. */
static void test_large_pages(void **state) {
        Fixture *fixture = *state;

        start(fixture);
        refuse(422, ERROR_INVALID);
        refuse(200, ERROR_INVALID);
        assert_asked("limit=50");
        refuse(200, ERROR_INVALID);
        refuse(200, ERROR_INVALID);
        assert_asked("limit=1");
        reply(PAGE("5", "x", ITEM("a", "u1", "1")));
        assert_asked("limit=1&continue=x");
        refuse(200, ERROR_INVALID);
        assert_reported(fixture, "again\nagain\nagain\nagain\n+ns/a u1 1\ntroubled invalid\n");
        fake_clock_skip(fake_kube.event);
        reply(PAGE("5", "x", ITEM("a", "u1", "1")));
        reply(PAGE("5", "x", ""));
        assert_reported(fixture, "again\ntroubled invalid\n"); /* for another reason */
        assert_null(the_call());
}

static void test_bad_pages(void **state) {
        static const char *const bodies[] = {
                "",
                "{",
                "{}",
                "[]",
                "{\"metadata\":{}}",
                "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":{}}",
                PAGE("5", "", "1"),
                PAGE("5", "", "{}"),
                PAGE("5", "", ITEM("", "u1", "1")),
                PAGE("5", "", "") "x",
        };

        for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
                Fixture *fixture;

                assert_int_equal(tear_down(state), 0);
                assert_int_equal(set_up(state), 0);
                fixture = *state;
                start(fixture);
                refuse(422, ERROR_INVALID);
                reply(bodies[i]);
                assert_reported(fixture, "again\ntroubled invalid\n");
                assert_true(fake_clock_delay() >= SEC / 5);
        }
}

/* The kind may come, the right may be granted: not asked for every second. A server that has just
 * started does not know rights yet. */
static void test_not_found_and_denied(void **state) {
        static const struct {
                int code;
                ErrorKind kind;
                unsigned n_passing; /* are tried again soon, as after any failure */
                const char *reported;
        } cases[] = {
                { 404, ERROR_NOT_FOUND, 0, "troubled not-found\n" },
                { 403, ERROR_DENIED, 4, "troubled denied\n" },
        };

        for (size_t i = 0; i < 2; i++) {
                Fixture *fixture;

                assert_int_equal(tear_down(state), 0);
                assert_int_equal(set_up(state), 0);
                fixture = *state;
                start(fixture);
                refuse(cases[i].code, cases[i].kind);
                assert_reported(fixture, cases[i].reported);
                for (unsigned n = 0; n < 5; n++) {
                        bool is_passing = n < cases[i].n_passing;

                        assert_in_range(fake_clock_delay(), is_passing ? 1 : 15 * SEC,
                                        is_passing ? 3 * SEC : 30 * SEC);
                        fake_clock_skip(fake_kube.event);
                        refuse(cases[i].code, cases[i].kind);
                }
                assert_reported(fixture, "again\nagain\nagain\nagain\nagain\n");

                assert_int_equal(kube_watch_kick(fixture->watch), 0);
                assert_int_equal(fake_clock_delay(), 0);
                fake_clock_skip(fake_kube.event);
                assert_int_equal(kube_watch_kick(fixture->watch), 0);
                assert_int_equal(fake_kube_accept(the_call()), 0);
                assert_int_equal(send_event("END 5"), 0);
                assert_reported(fixture, "again\nsynced\n");
        }
}

/* A list is what there is; what was known before a refusal is not gone because of it. */
static void test_refused_list_keeps_objects(void **state) {
        Fixture *fixture = *state;

        start_watching(fixture);
        refuse(403, ERROR_DENIED);
        assert_reported(fixture, "troubled denied\n");
        fake_clock_skip(fake_kube.event);
        assert_int_equal(send_event("ADDED ns/a u1 1"), 0);
        refuse(200, ERROR_UNAVAILABLE);
        fake_clock_skip(fake_kube.event);
        assert_reported(fixture, "again\ntroubled unavailable\nagain\n");
        assert_int_equal(send_event("ADDED ns/b u2 2"), 0);
        assert_int_equal(send_event("END 9"), 0);
        assert_reported(fixture, "-ns/a u1\nsynced\n");
}

/* Bookmarks allow for long watches; without them short ones find out what is dead. After a silence
 * what is known may be of a store that is no more: it is listed, once. */
static void test_silence(void **state) {
        Fixture *fixture = *state;

        start_watching(fixture);
        fake_clock.now_usec += 150 * SEC;
        refuse(200, ERROR_TIMEOUT);
        assert_reported(fixture, "listing\n");
        assert_in_range(fake_clock_delay(), 0, 250000);
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents=true");
        assert_in_range(asked_seconds(), 120, 150);
        assert_int_equal(the_call()->request.silence_usec, 0);
        assert_int_equal(fake_kube_accept(the_call()), 0);
        assert_int_equal(send_event("ADDED ns/a u1 1"), 0);
        assert_int_equal(send_event("END 4"), 0);
        assert_reported(fixture, "again\n-ns/b u2\nsynced\n");

        /* All is well, and nothing happens. */
        for (unsigned i = 0; i < 9; i++) {
                fake_clock.now_usec += asked_seconds() * SEC;
                end();
                assert_asked("resourceVersion=4&");
                assert_in_range(asked_seconds(), 120, 150);
                assert_int_equal(the_call()->request.silence_usec, 0);
                assert_reported(fixture, "again\n");
        }

        assert_int_equal(send_event("BOOKMARK 20"), 0);
        fake_clock.now_usec += asked_seconds() * SEC;
        end();
        assert_in_range(asked_seconds(), 300, 600);
        assert_in_range(the_call()->request.silence_usec, 120 * SEC, 180 * SEC);
        assert_asked("resourceVersion=20&");
        assert_reported(fixture, "again\n");
}

/* A server that does not even end the watch is dead. */
static void test_silence_again(void **state) {
        Fixture *fixture = *state;

        start_watching(fixture);
        fake_clock.now_usec += 150 * SEC;
        refuse(200, ERROR_TIMEOUT);
        fake_clock_skip(fake_kube.event);
        assert_int_equal(fake_kube_accept(the_call()), 0);
        assert_int_equal(send_event("END 4"), 0);
        assert_reported(fixture, "listing\nagain\n-ns/a u1\n-ns/b u2\nsynced\n");
        fake_clock.now_usec += 165 * SEC;
        refuse(200, ERROR_TIMEOUT);
        assert_reported(fixture, "troubled timeout\n");
}

/* Where bookmarks are not known of, a watch that broke may go on with another store, which does not
 * know the version and says nothing. */
static void test_silence_after_a_break(void **state) {
        static const struct {
                bool is_cut; /* else the server ends it, but before the time */
                unsigned n_watches;
                uint64_t each_usec;
        } cases[] = {
                { true, 1, 120 * SEC },
                { false, 1, 150 * SEC },
                { false, 2, 60 * SEC },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                Fixture *fixture = *state;

                fixture->watch = kube_watch_free(fixture->watch);
                fixture->reported[0] = '\0';
                start_paging(fixture);
                fake_clock.now_usec += 100 * SEC;
                if (cases[i].is_cut)
                        refuse(200, ERROR_UNAVAILABLE);
                else
                        end();
                if (cases[i].is_cut)
                        fake_clock_skip(fake_kube.event);
                for (unsigned n = 0; n < cases[i].n_watches; n++) {
                        assert_asked("resourceVersion=5&");
                        assert_int_equal(fake_kube_accept(the_call()), 0);
                        fixture->reported[0] = '\0';
                        fake_clock.now_usec += cases[i].each_usec;
                        end();
                }
                assert_reported(fixture, "listing\n");
                fake_clock_skip(fake_kube.event);
                assert_asked("?fieldSelector=metadata.name%3Dn1&limit=500");
                fixture->reported[0] = '\0';
        }
}

/* One that has reported anything since is well. */
static void test_word_after_a_break(void **state) {
        Fixture *fixture = *state;

        start_paging(fixture);
        fake_clock.now_usec += 100 * SEC;
        refuse(200, ERROR_UNAVAILABLE);
        fake_clock_skip(fake_kube.event);
        assert_int_equal(send_event("MODIFIED ns/a u1 7"), 0);
        fake_clock.now_usec += 150 * SEC;
        fixture->reported[0] = '\0';
        end();
        assert_asked("resourceVersion=7&");
        assert_reported(fixture, "again\n");
}

static void test_relist(void **state) {
        Fixture *fixture = *state;

        start_watching(fixture);
        assert_int_equal(kube_watch_relist(fixture->watch), 0);
        assert_null(the_call());
        assert_reported(fixture, "listing\n");

        /* It does already. */
        assert_int_equal(kube_watch_relist(fixture->watch), 0);
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents=true");
        assert_int_equal(kube_watch_relist(fixture->watch), 0);
        assert_int_equal(fake_kube_accept(the_call()), 0);
        assert_int_equal(send_event("ADDED ns/a u1 3"), 0);
        assert_int_equal(send_event("END 3"), 0);
        assert_reported(fixture, "again\n+ns/a u1 3\n-ns/b u2\nsynced\n");

        /* While it waits. */
        refuse(503, ERROR_UNAVAILABLE);
        assert_reported(fixture, "troubled unavailable\n");
        assert_int_equal(kube_watch_relist(fixture->watch), 0);
        fake_clock_skip(fake_kube.event);
        assert_asked("sendInitialEvents=true");
}

/* A list of a and b, or as much of it as comes before the watch is freed. */
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

/* Then a is created again, both are deleted, and in the end there is garbage. */
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

/* Whatever is reported, the watch may be freed while it is. */
static void test_freed_inside(void **state) {
        static const char *const moments[] = { "+ns/a u1 1", "synced",     "-ns/b u2",
                                               "-ns/a u1",   "+ns/a u9 9", "listing",
                                               "again",      "list",       "troubled invalid" };

        for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++)
                for (int is_paged = 0; is_paged < 2; is_paged++) {
                        assert_int_equal(tear_down(state), 0);
                        assert_int_equal(set_up(state), 0);
                        check_freed_at(*state, moments[i], is_paged);
                }
}

static void test_freed_at_any_time(void **state) {
        Fixture *fixture = *state;

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
static void test_local_failure(void **state) {
        Fixture *fixture = *state;
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

static void test_protobuf(void **state) {
        Fixture *fixture = *state;
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
                assert_int_equal(fake_kube_send(the_call(), bytes.data + i, 1), 0);
        assert_reported(fixture, "+ns/a u1 1\n+ns/b u2 2\nsynced\n-ns/a u1\n");

        assert_true(send_text("{\"kind\":\"Status\"}\n") < 0);
        end_cut();
        assert_reported(fixture, "troubled invalid\n");
        fake_clock_skip(fake_kube.event);
        refuse(422, ERROR_INVALID);
        assert_string_equal(the_call()->request.accept, KUBE_PROTOBUF);
}

/* Nothing is kept of an event but who it was about. */
static void test_memory(void **state) {
        Fixture *fixture = *state;
        size_t before = 0;

        start_watching(fixture);
        for (unsigned i = 0; i < 20000; i++) {
                char text[100];

                snprintf(text, sizeof(text), "MODIFIED ns/a u1 %u", 100000 + i);
                assert_int_equal(send_event(text), 0);
                fixture->reported[0] = '\0';
                if (i == 100)
                        before = memory();
        }
        assert_true(memory() <= before + 1000);
}

int main(void) {
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
                TEST(test_streams_a_list),
                TEST(test_falls_back_to_pages),
                TEST(test_keeps_streaming_after_failures),
                TEST(test_relist_reports_changes),
                TEST(test_relist_in_pages),
                TEST(test_reports_where_lists_begin),
                TEST(test_created_again),
                TEST(test_gone_again_backs_off),
                TEST(test_ends_early),
                TEST(test_cut_and_again),
                TEST(test_heeds_retry_after),
                TEST(test_half_a_line),
                TEST(test_garbage),
                TEST(test_too_large),
                TEST(test_large_pages),
                TEST(test_bad_pages),
                TEST(test_not_found_and_denied),
                TEST(test_refused_list_keeps_objects),
                TEST(test_silence),
                TEST(test_silence_again),
                TEST(test_silence_after_a_break),
                TEST(test_word_after_a_break),
                TEST(test_relist),
                TEST(test_freed_inside),
                TEST(test_freed_at_any_time),
                TEST(test_local_failure),
                TEST(test_protobuf),
                TEST(test_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
