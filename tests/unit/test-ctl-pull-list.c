/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/progress-view.h"
#include "agent/ctl/pull-list.h"
#include "agent/document/json-cleanup.h"
#include "agent/view/output.h"
#include "tests/unit/unit.h"

#define ID "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define NOW_SEC 1700000000 /* the time of each event */
#define SUCCEEDED INPLACED__V1__PHASE__PHASE_SUCCEEDED
#define FAILED INPLACED__V1__PHASE__PHASE_FAILED
#define PULLING INPLACED__V1__PHASE__PHASE_PULLING

static Inplaced__V1__PreloadEvent event_about(const char *image, Inplaced__V1__Phase phase) {
        Inplaced__V1__PreloadEvent event = INPLACED__V1__PRELOAD_EVENT__INIT;

        event.request_id = "7f3a";
        event.image = (char *) image;
        event.phase = phase;
        return event;
}

static int make_list(void **state) {
        static char *const images[] = { "a:1", "b:1", "a:1", "c\x1b:1" };
        PullList *list = malloc(sizeof(*list));

        *state = list;
        return pull_list_init(list, images, 4, 0, 10 * SEC);
}

static int free_list(void **state) {
        pull_list_done(*state);
        free(*state);
        return 0;
}

static PullItem *apply(PullList *list, const Inplaced__V1__PreloadEvent *event, uint64_t now) {
        PullItem *item;

        assert_ok(pull_list_apply(list, event, now, NOW_SEC, &item));
        return item;
}

TEST_WITH(test_what_was_named_twice_is_one, make_list, free_list, PullList *list) {
        assert_int_equal(list->n_items, 3);
        assert_string_equal(list->items[2].label, "c\\x1b:1");
        assert_false(pull_list_is_finished(list));
}

TEST_WITH(test_an_event_is_taken_in, make_list, free_list, PullList *list) {
        Inplaced__V1__PreloadEvent event = event_about("b:1", PULLING);
        PullItem *item;

        event.step = INPLACED__V1__STEP__STEP_DOWNLOADING;
        event.bytes_done = 5;
        event.bytes_total = 10;
        event.attempt = 2;

        item = apply(list, &event, 11 * SEC);
        assert_ptr_equal(item, &list->items[1]);
        assert_int_equal(item->bytes_done, 5);
        assert_int_equal(item->attempt, 2);
        assert_string_equal(list->request_id, "7f3a");
}

TEST_WITH(test_an_unknown_image_is_ignored, make_list, free_list, PullList *list) {
        Inplaced__V1__PreloadEvent event = event_about("z:1", SUCCEEDED);

        assert_null(apply(list, &event, 11 * SEC));
}

TEST_WITH(test_a_verdict_is_final, make_list, free_list, PullList *list) {
        Inplaced__V1__PreloadEvent failed = event_about("a:1", FAILED);
        Inplaced__V1__PreloadEvent succeeded = event_about("a:1", SUCCEEDED);

        failed.reason = "NotFound";
        assert_non_null(apply(list, &failed, 11 * SEC));
        assert_null(apply(list, &succeeded, 12 * SEC));
        assert_string_equal(list->items[0].reason, "NotFound");

        assert_ok(pull_list_fail_rest(list, "Canceled", "", 13 * SEC));
        assert_string_equal(list->items[0].reason, "NotFound");
        assert_int_equal(list->items[0].ended_usec, 11 * SEC);
        assert_string_equal(list->items[1].reason, "Canceled");
        assert_true(pull_list_is_finished(list));
}

/* A step of one image at a time. */
static void apply_step(PullList *list, const char *image, Inplaced__V1__Step step,
                       const char *reason, const char *message, uint64_t now) {
        Inplaced__V1__PreloadEvent event = event_about(image, PULLING);

        event.step = step;
        event.reason = (char *) reason;
        event.message = (char *) message;
        assert_non_null(apply(list, &event, now));
}

TEST_WITH(test_first_turns, make_list, free_list, PullList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                apply_step(list, list->items[i].image, INPLACED__V1__STEP__STEP_QUEUED, "", "",
                           20 * SEC);
        assert_int_equal(pull_list_count_unbegun(list), list->n_items);

        list->items[0].reported_attempt = 1;
        assert_int_equal(pull_list_count_unbegun(list), list->n_items - 1);
}

TEST_WITH(test_timeout, make_list, free_list, PullList *list) {
        list->timeout_sec = 65;
        apply_step(list, "a:1", INPLACED__V1__STEP__STEP_BACKING_OFF, "NotFound",
                   "NotFound: no such image", 20 * SEC);
        apply_step(list, "b:1", INPLACED__V1__STEP__STEP_WAITING_FOR_RUNTIME, "",
                   "no runtime is ready", 20 * SEC);
        assert_int_equal(pull_list_count_step(list, INPLACED__V1__STEP__STEP_WAITING_FOR_RUNTIME),
                         1);
        assert_ok(pull_list_end_at_timeout(list, 75 * SEC));

        assert_true(pull_list_is_finished(list));
        assert_string_equal(list->items[0].reason, "DeadlineExceeded");
        assert_string_equal(list->items[0].cause, "NotFound");
        assert_string_equal(
                list->items[0].message,
                "not pulled within the 1m05s of --timeout; the last attempt failed with "
                "NotFound: no such image");
        assert_string_equal(list->items[1].cause, "");
        assert_string_equal(list->items[1].message,
                            "not pulled within the 1m05s of --timeout; still waiting for the "
                            "container runtime: no runtime is ready");
        assert_string_equal(list->items[2].message,
                            "not pulled within the 1m05s of --timeout; still waiting for inplaced");
}

/* The reason of the wait stays while the pull waits for its turn, but no attempt has failed. */
TEST_WITH(test_timeout_after_a_wait_for_disk, make_list, free_list, PullList *list) {
        list->timeout_sec = 5;
        apply_step(list, "a:1", INPLACED__V1__STEP__STEP_QUEUED, "DiskPressure",
                   "DiskPressure: 3 MB are free", 12 * SEC);
        assert_ok(pull_list_end_at_timeout(list, 15 * SEC));
        assert_string_equal(list->items[0].cause, "");
        assert_string_equal(list->items[0].message,
                            "not pulled within the 5s of --timeout; still waiting for its turn: "
                            "DiskPressure: 3 MB are free");
}

/* The agent's message is about its own clock. One attempt that was too long is not the end. */
TEST_WITH(test_timeout_of_the_agent, make_list, free_list, PullList *list) {
        Inplaced__V1__PreloadEvent event = event_about("a:1", FAILED);

        event.reason = (char *) "DeadlineExceeded";
        event.message = (char *) "DeadlineExceeded: pulling exceeds the activeDeadlineSeconds (5)";
        list->timeout_sec = 5;
        apply_step(list, "a:1", INPLACED__V1__STEP__STEP_DOWNLOADING, "Unauthorized",
                   "Unauthorized: 401", 11 * SEC);
        apply(list, &event, 15 * SEC);
        assert_int_equal(list->items[0].phase, FAILED);
        assert_string_equal(list->items[0].message,
                            "not pulled within the 5s of --timeout; the last attempt failed with "
                            "Unauthorized: 401");

        event.image = (char *) "b:1";
        apply(list, &event, 14 * SEC);
        assert_string_equal(list->items[1].message, event.message);
}

/* An interruption keeps the reasons that were known. */
TEST_WITH(test_interrupt, make_list, free_list, PullList *list) {
        apply_step(list, "a:1", INPLACED__V1__STEP__STEP_BACKING_OFF, "NotFound",
                   "NotFound: no such image (attempt 3)", 20 * SEC);
        apply_step(list, "b:1", INPLACED__V1__STEP__STEP_DOWNLOADING, "", "", 20 * SEC);
        assert_ok(pull_list_cancel(list, 21 * SEC));
        assert_true(pull_list_is_finished(list));
        assert_string_equal(list->items[0].reason, "Canceled");
        assert_string_equal(list->items[0].cause, "NotFound");
        assert_string_equal(list->items[0].message,
                            "interrupted; the last attempt failed with NotFound: no such image "
                            "(attempt 3)");
        assert_string_equal(list->items[1].message, "interrupted; still downloading");
        assert_string_equal(list->items[2].message, "interrupted; still waiting for inplaced");
        assert_int_equal(pull_list_exit_status(list), EXIT_STATUS_FAILED);
}

/* The line of a failed attempt says when the next one begins, and how to limit that. */
TEST_WITH(test_retry, make_list, free_list, PullList *list) {
        /* clang-format off */
        static const struct {
                int64_t wait_sec;
                const char *message;
                Options options;
                const char *text;
        } rows[] = {
                { 5, "TLS: x (attempt 1)", { .n_attempts = 0 },
                  "trying again in 5s, until it is there (--attempts, --timeout)" },
                { 65, "NotFound: no (attempt 1 of 5)", { .n_attempts = 0 },
                  "trying again in 1m05s (--attempts, --timeout)" },
                /* shared with a pull that has no limit */
                { 65, "NotFound: no (attempt 1)", { .n_attempts = 0 },
                  "trying again in 1m05s (--attempts, --timeout)" },
                { 65, "NotFound: no (attempt 1)", { .has_attempts = true },
                  "trying again in 1m05s, until it is there (--attempts, --timeout)" },
                { 5, "TLS: x (attempt 1)", { .has_attempts = true },
                  "trying again in 5s, until it is there (--attempts, --timeout)" },
                { 5, "TLS: x (attempt 1 of 3)", { .has_attempts = true, .n_attempts = 3 },
                  "trying again in 5s" },
                { 5, "TLS: x (attempt 1)", { .timeout_sec = 60 }, "trying again in 5s" },
                { 0, "TLS: x (attempt 1)", { .timeout_sec = 60 }, "trying again" },
                { -9, "TLS: x (attempt 1)", { .timeout_sec = 60 }, "trying again" },
        };
        /* clang-format on */

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                Inplaced__V1__PreloadEvent event = event_about("a:1", PULLING);
                cleanup(free_p) char *text = NULL;

                event.step = INPLACED__V1__STEP__STEP_BACKING_OFF;
                event.message = (char *) rows[i].message;
                event.next_attempt_time = NOW_SEC + rows[i].wait_sec;
                apply(list, &event, 20 * SEC);
                text = pull_item_retry(&list->items[0], &rows[i].options, 20 * SEC + 1);
                assert_string_equal(text, rows[i].text);
        }
}

/* On a terminal as in the status: in few words, with the time that is left. A download that stands still
 * says so. */
TEST_WITH(test_notes, make_list, free_list, PullList *list) {
        Inplaced__V1__PreloadEvent event = event_about("a:1", PULLING);
        cleanup(free_p) char *note = NULL, *still = NULL, *moving = NULL, *disk = NULL;
        Bar bar;

        event.step = INPLACED__V1__STEP__STEP_BACKING_OFF;
        event.message = (char *) "NotFound: failed to pull and unpack image \"x\": not found; "
                                 "check the name and the tag (attempt 2 of 5)";
        event.next_attempt_time = NOW_SEC + 3;
        apply(list, &event, 20 * SEC);
        assert_ok(pull_report_bar(&list->items[0], false, 0, 21 * SEC, &bar, &note));
        assert_string_equal(
                bar.note,
                "next attempt in 2s; NotFound (attempt 2 of 5): check the name and the tag");

        event.step = INPLACED__V1__STEP__STEP_WAITING_FOR_DISK;
        event.message = (char *) "DiskPressure: 3 MB are free";
        apply(list, &event, 22 * SEC);
        assert_ok(pull_report_bar(&list->items[0], false, 0, 22 * SEC, &bar, &disk));
        assert_string_equal(bar.note, "DiskPressure: 3 MB are free");

        event.step = INPLACED__V1__STEP__STEP_DOWNLOADING;
        event.bytes_done = 1;
        event.bytes_total = 9;
        apply(list, &event, 30 * SEC);
        apply(list, &event, 33 * SEC);
        assert_ok(pull_report_bar(&list->items[0], false, 0, 34 * SEC, &bar, &moving));
        assert_int_equal(bar.idle_sec, 0);
        assert_ok(pull_report_bar(&list->items[0], false, 0, 40 * SEC, &bar, &still));
        assert_int_equal(bar.idle_sec, 10);
}

TEST_WITH(test_time_out_of_waits, make_list, free_list, PullList *list) {
        uint64_t next;

        /* Neither the agent nor the runtime has answered; one image goes on. */
        apply_step(list, "a:1", INPLACED__V1__STEP__STEP_RESOLVING, "", "", 11 * SEC);
        apply_step(list, "b:1", INPLACED__V1__STEP__STEP_INSPECTING, "", "", 12 * SEC);
        assert_ok(pull_list_end_waits(list, 5, 14 * SEC, &next));
        assert_int_equal(next, 15 * SEC);
        assert_int_equal(pull_list_count_failed(list), 0);

        assert_ok(pull_list_end_waits(list, 5, 15 * SEC, &next));
        assert_int_equal(list->items[1].phase, FAILED); /* since the beginning */
        assert_int_equal(list->items[2].phase, FAILED);
        assert_string_equal(list->items[1].message,
                            "not pulled within the 5s of --attempt-timeout; still waiting for the "
                            "container runtime to answer");
        assert_int_equal(list->items[0].phase, PULLING);
        assert_int_equal(next, 20 * SEC);

        pull_list_wait(list, 30 * SEC);
        assert_ok(pull_list_end_waits(list, 5, 34 * SEC, &next));
        assert_int_equal(list->items[0].phase, PULLING);
        assert_ok(pull_list_end_waits(list, 5, 35 * SEC, &next));
        assert_true(pull_list_is_finished(list));
}

TEST_WITH(test_exit_status, make_list, free_list, PullList *list) {
        static const struct {
                Inplaced__V1__Phase phases[3];
                ExitStatus status;
        } rows[] = {
                { { SUCCEEDED, SUCCEEDED, SUCCEEDED }, EXIT_STATUS_DONE },
                { { SUCCEEDED, FAILED, SUCCEEDED }, EXIT_STATUS_PARTLY },
                { { FAILED, FAILED, FAILED }, EXIT_STATUS_FAILED },
                /* not waited for */
                { { PULLING, SUCCEEDED, PULLING }, EXIT_STATUS_DONE },
                { { PULLING, FAILED, PULLING }, EXIT_STATUS_PARTLY },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                for (size_t j = 0; j < 3; j++)
                        list->items[j].phase = rows[i].phases[j];
                assert_int_equal(pull_list_exit_status(list), rows[i].status);
        }

        list->items[1].option = "--timeout";
        assert_int_equal(pull_list_exit_status(list), EXIT_STATUS_TIMEOUT);
        list->items[1].option = "--attempt-timeout";
        assert_int_equal(pull_list_exit_status(list), EXIT_STATUS_PARTLY);
}

static void set_fetched(Inplaced__V1__PreloadEvent *event, uint64_t bytes) {
        event->bytes_fetched_presence_case =
                INPLACED__V1__PRELOAD_EVENT__BYTES_FETCHED_PRESENCE_BYTES_FETCHED;
        event->bytes_fetched = bytes;
}

static void assert_line(const PullItem *item, PullReportStyle style, const char *expected) {
        cleanup(free_p) char *line = pull_report_line(item, &style);

        assert_string_equal(line, expected);
}

TEST_WITH(test_lines, make_list, free_list, PullList *list) {
        const PullReportStyle plain = { .has_full_id = true }, aligned = { .name_width = 6 };
        Inplaced__V1__PreloadEvent event = event_about("a:1", SUCCEEDED);

        assert_line(&list->items[1], aligned, "b:1     requested");

        event.image_id = ID;
        event.bytes_done = event.bytes_total = 99100000;
        set_fetched(&event, 67100000);
        apply(list, &event, 22 * SEC);
        assert_line(&list->items[0], plain, "a:1  " ID "  67.1 MB  12s");
        assert_line(&list->items[0], aligned, "a:1     sha256:0123456789ab  67.1 MB  12s");

        event = event_about("b:1", SUCCEEDED);
        event.was_present = true;
        apply(list, &event, 10 * SEC + 50000);
        assert_line(&list->items[1], plain, "b:1  -  present  0.0s");

        event = event_about("c\x1b:1", FAILED);
        event.reason = "NotFound";
        event.message = "no \x1b[1m such\ntag";
        apply(list, &event, 11 * SEC);
        assert_line(&list->items[2], plain, "c\\x1b:1  failed  NotFound: no \\x1b[1m such\\ntag");
}

/* The agent's messages begin with the reason: it is not said twice. */
TEST_WITH(test_the_reason_is_said_once, make_list, free_list, PullList *list) {
        const PullReportStyle plain = { .has_full_id = true };
        Inplaced__V1__PreloadEvent event = event_about("b:1", FAILED);

        event.reason = "NotFound";
        event.message = "NotFound: no such tag";
        apply(list, &event, 11 * SEC);
        assert_line(&list->items[1], plain, "b:1  failed  NotFound: no such tag");
}

/* Zero is a number; a number that the runtime does not report is none. */
TEST_WITH(test_what_was_fetched, make_list, free_list, PullList *list) {
        Inplaced__V1__PreloadEvent event = event_about("a:1", SUCCEEDED);
        cleanup(json_object_put_p) json_object *tree = NULL;
        cleanup(free_p) char *text = NULL;

        set_fetched(&event, 0);
        apply(list, &event, 12 * SEC);
        assert_line(&list->items[0], (PullReportStyle){ 0 }, "a:1  -  0 B  2.0s");

        event = event_about("b:1", SUCCEEDED);
        event.bytes_done = event.bytes_total = 5000;
        apply(list, &event, 12 * SEC);
        assert_line(&list->items[1], (PullReportStyle){ 0 }, "b:1  -  -  2.0s");

        tree = pull_report_json(list);
        text = output_json(tree);
        assert_contains(text, "\"bytes\": 0,");
        assert_null(strstr(strstr(text, "\"bytes\"") + 1, "\"bytes\""));
}

TEST_WITH(test_document, make_list, free_list, PullList *list) {
        Inplaced__V1__PreloadEvent event = event_about("a:1", SUCCEEDED);
        cleanup(json_object_put_p) json_object *tree = NULL;
        cleanup(free_p) char *text = NULL;

        event.image_id = "sha256:01";
        set_fetched(&event, 7);
        apply(list, &event, 10 * SEC + 100000);
        assert_ok(pull_list_fail_rest(list, "Canceled", "\xFF", 12 * SEC));

        tree = pull_report_json(list);
        text = output_json(tree);
        assert_contains(text, "\"requestID\": \"7f3a\"");
        assert_contains(text, "\"image\": \"a:1\",\n"
                              "      \"phase\": \"Succeeded\",\n"
                              "      \"imageID\": \"sha256:01\",\n"
                              "      \"reason\": \"\",\n"
                              "      \"message\": \"\",\n"
                              "      \"bytes\": 7,\n"
                              "      \"seconds\": 0.100,\n"
                              "      \"wasPresent\": false\n");
        assert_contains(text, "\"image\": \"c\\u001b:1\",\n"
                              "      \"phase\": \"Failed\",\n"
                              "      \"imageID\": \"\",\n"
                              "      \"reason\": \"Canceled\",\n");
        assert_contains(strstr(text, "c\\u001b:1"), "\"seconds\": 2.000,");
}

TEST_WITH(test_bars, make_list, free_list, PullList *list) {
        static const struct {
                Inplaced__V1__Step step;
                uint64_t total;
                BarKind kind;
                const char *word;
        } rows[] = {
                { INPLACED__V1__STEP__STEP_UNSPECIFIED, 0, BAR_NONE, "asking" },
                { INPLACED__V1__STEP__STEP_QUEUED, 0, BAR_NONE, "queued" },
                { INPLACED__V1__STEP__STEP_WAITING_FOR_RUNTIME, 0, BAR_NONE, "waiting" },
                { INPLACED__V1__STEP__STEP_RESOLVING, 0, BAR_MOVING, "resolving" },
                { INPLACED__V1__STEP__STEP_DOWNLOADING, 0, BAR_SIZE_UNKNOWN, "downloading" },
                { INPLACED__V1__STEP__STEP_DOWNLOADING, 1, BAR_BYTES, "downloading" },
                { INPLACED__V1__STEP__STEP_DOWNLOADING, 9, BAR_BYTES, "downloading" },
                { INPLACED__V1__STEP__STEP_UNPACKING, 9, BAR_UNPACKING, "unpacking" },
                { INPLACED__V1__STEP__STEP_BACKING_OFF, 9, BAR_NONE, "retrying" },
                { (Inplaced__V1__Step) 4711, 9, BAR_NONE, "asking" }, /* a step of a newer agent */
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(free_p) char *note = NULL;
                Bar bar;

                list->items[0].step = rows[i].step;
                list->items[0].bytes_total = rows[i].total;
                assert_ok(pull_report_bar(&list->items[0], false, 0, SEC, &bar, &note));
                assert_int_equal(bar.kind, rows[i].kind);
                assert_string_equal(bar.step, rows[i].word);
        }
}

TEST(test_rate_is_smooth) {
        Rate rate = RATE_INIT;
        uint64_t now = SEC, bytes = 0;

        assert_ok(rate_get(&rate));
        for (int i = 0; i < 100; i++, now += SEC / 10, bytes += 1000000)
                rate_update(&rate, now, bytes);
        assert_in_range(rate_get(&rate), 9900000, 10100000);

        /* The rate outlasts a second without a byte, but not a minute. */
        bytes -= 1000000;
        for (int i = 0; i < 10; i++, now += SEC / 10)
                rate_update(&rate, now, bytes);
        assert_in_range(rate_get(&rate), 4000000, 9000000);
        for (int i = 0; i < 600; i++, now += SEC / 10)
                rate_update(&rate, now, bytes);
        assert_ok(rate_get(&rate));
}

TEST(test_rate_begins_anew) {
        Rate rate = RATE_INIT;

        rate_update(&rate, SEC, 0);
        rate_update(&rate, 2 * SEC, 5000000);
        assert_int_equal(rate_get(&rate), 5000000);

        rate_update(&rate, 3 * SEC, 100); /* the next attempt */
        assert_ok(rate_get(&rate));
        rate_update(&rate, 4 * SEC, 1000100);
        assert_int_equal(rate_get(&rate), 1000000);
}
