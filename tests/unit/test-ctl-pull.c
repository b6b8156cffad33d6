/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The commands "pull" and "pin": the request, and what is printed as the agent reports images
 */

#include "agent/ctl/commands.h"
#include "proto/inplaced/v1/node.pb-c.h"
#include "tests/unit/played-agent.h"

#define SAYS "test-ctl-pull: "
#define ID "sha256:0123456789abcdef"
#define UNREACHABLE \
        "cannot reach inplaced at /nowhere: no such file; is it running? try: systemctl status inplaced\n"
#define REQUEST "policy=1 attempt=0 total=0 refusals=4\n"

#define PULLING INPLACED__V1__PHASE__PHASE_PULLING
#define WAITING INPLACED__V1__PHASE__PHASE_WAITING
#define SUCCEEDED INPLACED__V1__PHASE__PHASE_SUCCEEDED
#define FAILED INPLACED__V1__PHASE__PHASE_FAILED
#define QUEUED INPLACED__V1__STEP__STEP_QUEUED
#define FOR_RUNTIME INPLACED__V1__STEP__STEP_WAITING_FOR_RUNTIME
#define FOR_DISK INPLACED__V1__STEP__STEP_WAITING_FOR_DISK
#define FOR_POD INPLACED__V1__STEP__STEP_WAITING_FOR_POD
#define BACKING_OFF INPLACED__V1__STEP__STEP_BACKING_OFF

/* A step of the script; without an image the other members count. */
typedef struct Said {
        const char *image;
        Inplaced__V1__Phase phase;
        Inplaced__V1__Step step;
        const char *reason, *message;
        uint32_t attempt;
        bool was_present;
        int64_t next_at;
        PlayedStep other;
} Said;

#define DONE(name) \
        { .image = name, .phase = SUCCEEDED, .was_present = true }
#define BAD(name, why) \
        { .image = name, .phase = FAILED, .reason = why, .message = "no" }
#define PASSES(seconds)                                   \
        {                                                 \
                .other = {.passes_usec = (seconds) *SEC } \
        }
#define FAILS(kind)                       \
        {                                 \
                .other = {.fails = kind } \
        }
#define ENDS                             \
        {                                \
                .other = {.ends = true } \
        }

/* clang-format off */
static const struct Row {
        const char *name;
        Options options;
        Said said[8];
        const char *requests; /* a line for each call; NULL: an image without options */
        const char *out, *err;
        int status;
} rows[] = {
        { "an image", { 0 }, { DONE("a"), ENDS }, NULL, "a  " ID "  present  0.0s\n", "", EXIT_STATUS_DONE },
        { "the agent does not end the call", { 0 }, { DONE("a"), PASSES(2) }, NULL, "a  " ID "  present  0.0s\n", "", EXIT_STATUS_DONE },
        { "one is not there", { .n_arguments = 2 }, { BAD("b", "NotFound"), DONE("a"), ENDS }, "a b " REQUEST, "b  failed  NotFound: no\na  " ID "  present  0.0s\n", SAYS "cannot pull b: NotFound; check the name and the tag; --attempts 0 tries for ever\n", EXIT_STATUS_PARTLY },
        { "both are not there", { .n_arguments = 2 }, { BAD("b", "NotFound"), BAD("a", "NotFound"), ENDS }, "a b " REQUEST, "b  failed  NotFound: no\na  failed  NotFound: no\n", SAYS "2 of 2 images failed; check the name and the tag; --attempts 0 tries for ever\n", EXIT_STATUS_FAILED },
        { "two reasons", { .n_arguments = 2 }, { BAD("b", "NotFound"), BAD("a", "TLS"), ENDS }, "a b " REQUEST, "b  failed  NotFound: no\na  failed  TLS: no\n", SAYS "2 of 2 images failed; see the reason of each\n", EXIT_STATUS_FAILED },
        { "as many attempts as asked for", { .has_attempts = true, .n_attempts = 3 },
          { { .image = "a", .phase = FAILED, .reason = "NotFound", .message = "no", .attempt = 3 }, ENDS }, "a policy=1 attempt=0 total=0 attempts=2\n", "a  failed  NotFound: no\n", SAYS "cannot pull a: NotFound; check the name and the tag\n", EXIT_STATUS_FAILED },
        { "several attempts", { 0 },
          { { .image = "a", .phase = FAILED, .reason = "NotFound", .message = "no", .attempt = 2 }, ENDS }, NULL, "a  failed  NotFound: no\n", SAYS "cannot pull a: NotFound in 2 attempts; check the name and the tag; --attempts 0 tries for ever\n", EXIT_STATUS_FAILED },
        { "quiet", { .quiet = true, .n_arguments = 2 }, { DONE("a"), BAD("b", "TLS"), ENDS }, "a b " REQUEST, "sha256:0123456789abcdef\n", SAYS "b: TLS: no\n" SAYS "cannot pull b: TLS; check the registry's certificate and the runtime's settings for this registry\n", EXIT_STATUS_PARTLY },
        { "as JSON", { .format = OUTPUT_JSON }, { DONE("a"), ENDS }, NULL, "{\n  \"results\": [\n    {\n      \"image\": \"a\",\n      \"phase\": \"Succeeded\",\n      \"imageID\": \"" ID "\",\n      \"reason\": \"\",\n      \"message\": \"\",\n      \"seconds\": 0.000,\n      \"wasPresent\": true\n    }\n  ],\n  \"requestID\": \"r1\"\n}\n", "", EXIT_STATUS_DONE },
        { "not waited for", { .no_wait = true }, { { .image = "a", .phase = WAITING, .step = FOR_RUNTIME }, ENDS }, "a detach " REQUEST, "a  requested\nrequest r1; to withdraw it: inplacectl cancel r1\n", "", EXIT_STATUS_DONE },
        { "neither waited for nor shown", { .no_wait = true, .quiet = true }, { { .image = "a", .phase = WAITING }, ENDS }, "a detach " REQUEST, "", "", EXIT_STATUS_DONE },
        { "all options", { .always_pull = true, .complete = true, .pin = true, .attempt_timeout_sec = 7, .timeout_sec = 8, .has_attempts = true, .n_attempts = 3 },
          { DONE("a"), ENDS }, "a complete pin policy=2 attempt=7 total=8 attempts=2\n", "a  " ID "  present  0.0s\n", "", EXIT_STATUS_DONE },
        { "any number of attempts", { .has_attempts = true }, { DONE("a"), ENDS }, "a policy=1 attempt=0 total=0\n", "a  " ID "  present  0.0s\n", "", EXIT_STATUS_DONE },
        { "waits", { .n_arguments = 2 },
          { { .image = "a", .phase = WAITING, .step = FOR_RUNTIME, .message = "away" }, { .image = "b", .phase = WAITING, .step = FOR_RUNTIME },
            { .image = "a", .phase = WAITING, .step = FOR_DISK, .message = "full" }, { .image = "b", .phase = WAITING, .step = FOR_POD, .message = "web" },
            DONE("a"), DONE("b"), ENDS }, "a b " REQUEST, "a  " ID "  present  0.0s\nb  " ID "  present  0.0s\n", SAYS "waiting for the container runtime: away\n" SAYS "a: waiting for free disk space: full\n" SAYS "b: waiting for a pod: web\n", EXIT_STATUS_DONE },
        { "the runtime is away for a reason that is not known", { 0 }, { { .image = "a", .phase = WAITING, .step = FOR_RUNTIME }, DONE("a"), ENDS }, NULL, "a  " ID "  present  0.0s\n", SAYS "waiting for the container runtime\n", EXIT_STATUS_DONE },
        { "attempts fail", { 0 },
          { { .image = "a", .phase = WAITING, .step = BACKING_OFF, .attempt = 1, .message = "NotFound: x", .next_at = PLAYED_NOW + 5 },
            { .image = "a", .phase = WAITING, .step = BACKING_OFF, .attempt = 1, .message = "NotFound: y" },
            { .image = "a", .phase = WAITING, .step = BACKING_OFF, .attempt = 2, .message = "TLS: z" },
            DONE("a"), ENDS }, NULL, "a  " ID "  present  0.0s\n", SAYS "a: NotFound: x; trying again in 5s (--attempts, --timeout)\n" SAYS "a: TLS: z; trying again, until it is there (--attempts, --timeout)\n", EXIT_STATUS_DONE },
        { "queued", { 0 }, { { .image = "a", .phase = WAITING, .step = QUEUED }, PASSES(1), DONE("a"), ENDS }, NULL, "a  " ID "  present  1.0s\n", SAYS "1 of 1 image waits for a turn; see maxParallelPulls and: inplacectl status\n", EXIT_STATUS_DONE },
        { "both are queued", { .n_arguments = 2 },
          { { .image = "a", .phase = WAITING, .step = QUEUED }, { .image = "b", .phase = WAITING, .step = QUEUED }, PASSES(2), DONE("a"), DONE("b"), ENDS }, "a b " REQUEST, "a  " ID "  present  2.0s\nb  " ID "  present  2.0s\n", SAYS "2 of 2 images wait for a turn; see maxParallelPulls and: inplacectl status\n", EXIT_STATUS_DONE },
        { "queued, and not waited for", { .no_wait = true }, { { .image = "a", .phase = WAITING, .step = QUEUED }, PASSES(2), ENDS }, "a detach " REQUEST, "a  requested\nrequest r1; to withdraw it: inplacectl cancel r1\n", "", EXIT_STATUS_DONE },
        { "the time is over", { .timeout_sec = 3 }, { { .image = "a", .phase = PULLING }, PASSES(3), PASSES(1) }, "a policy=1 attempt=0 total=3 refusals=4\n", "a  failed  DeadlineExceeded: not pulled within the 3s of --timeout; still waiting for inplaced\n", SAYS "cannot pull a: DeadlineExceeded (--timeout), still waiting for inplaced; allow more with --timeout\n", EXIT_STATUS_TIMEOUT },
        { "the time is over, and the agent says so", { .timeout_sec = 3 },
          { { .image = "a", .phase = PULLING }, PASSES(3), BAD("a", "DeadlineExceeded"), ENDS }, "a policy=1 attempt=0 total=3 refusals=4\n", "a  failed  DeadlineExceeded: not pulled within the 3s of --timeout; still waiting for inplaced\n", SAYS "cannot pull a: DeadlineExceeded (--timeout), still waiting for inplaced; allow more with --timeout\n", EXIT_STATUS_TIMEOUT },
        { "an agent that hangs", { .timeout_sec = 3 }, { PASSES(3) }, "a policy=1 attempt=0 total=3 refusals=4\n", "a  failed  DeadlineExceeded: not pulled within the 3s of --timeout; still waiting for inplaced\n", SAYS "waiting for an answer of inplaced at /nowhere\n" SAYS "cannot pull a: DeadlineExceeded (--timeout), still waiting for inplaced; allow more with --timeout\n", EXIT_STATUS_TIMEOUT },
        { "no attempt for long", { .attempt_timeout_sec = 2, .n_arguments = 2 },
          { { .image = "a", .phase = WAITING, .step = FOR_RUNTIME, .message = "away" }, PASSES(1),
            { .image = "b", .phase = PULLING }, PASSES(1), DONE("b"), ENDS }, "a b policy=1 attempt=2 total=0 refusals=4\n", "a  failed  DeadlineExceeded: not pulled within the 2s of --attempt-timeout; still waiting for the container runtime: away\nb  " ID "  present  2.0s\n", SAYS "waiting for the container runtime: away\n" SAYS "cannot pull a: DeadlineExceeded (--attempt-timeout), still waiting for the container runtime; allow more with --attempt-timeout\n", EXIT_STATUS_PARTLY },
        { "an attempt takes too long", { .attempt_timeout_sec = 2 }, { { .image = "a", .phase = PULLING }, BAD("a", "DeadlineExceeded"), ENDS }, "a policy=1 attempt=2 total=0 refusals=4\n", "a  failed  DeadlineExceeded: no\n", SAYS "cannot pull a: DeadlineExceeded; allow more with --attempt-timeout, or check the network between node and registry\n", EXIT_STATUS_FAILED },
        { "the agent restarts", { .n_arguments = 2 },
          { DONE("a"), FAILS(ERROR_UNAVAILABLE), PASSES(1), FAILS(ERROR_CANCELED), PASSES(1), DONE("b"), ENDS }, "a b " REQUEST "b " REQUEST "b " REQUEST, "a  " ID "  present  0.0s\nb  " ID "  present  2.0s\n", SAYS "lost the connection to inplaced, connecting again\n" SAYS "waiting for an answer of inplaced at /nowhere\n", EXIT_STATUS_DONE },
        { "the agent does not come back", { 0 },
          { { .image = "a", .phase = PULLING }, FAILS(ERROR_CANCELED), { .other = { .is_gone = true } }, PASSES(60) }, NULL, "a  failed  AgentUnavailable: lost the connection to inplaced, and it did not come back within 30 s; try: systemctl status inplaced\n", SAYS "lost the connection to inplaced, connecting again\n" SAYS "lost the connection to inplaced, and it did not come back within 30 s; try: systemctl status inplaced\n", EXIT_STATUS_FAILED },
        { "refused", { 0 }, { FAILS(ERROR_INVALID) }, NULL, "", SAYS "why\n", EXIT_STATUS_USAGE },
        { "refused later", { 0 }, { { .image = "a", .phase = PULLING }, FAILS(ERROR_INTERNAL) }, NULL, "a  failed  AgentUnavailable: why\n", SAYS "why\n", EXIT_STATUS_FAILED },
        { "refused, as JSON", { .format = OUTPUT_JSON }, { FAILS(ERROR_DENIED) }, NULL, "{\n  \"results\": [\n    {\n      \"image\": \"a\",\n      \"phase\": \"Failed\",\n      \"imageID\": \"\",\n      \"reason\": \"AgentUnavailable\",\n      \"message\": \"why\",\n      \"seconds\": 0.000,\n      \"wasPresent\": false\n    }\n  ],\n  \"requestID\": \"\"\n}\n", SAYS "why\n", EXIT_STATUS_FAILED },
        { "ended early", { 0 }, { { .image = "a", .phase = PULLING }, ENDS }, NULL, "a  failed  AgentUnavailable: inplaced ended the request early; try: inplacectl status\n", SAYS "inplaced ended the request early; try: inplacectl status\n", EXIT_STATUS_FAILED },
        { "an old agent", { 0 }, { { .other = { .fails = ERROR_UNSUPPORTED, .why = "no method" } } }, NULL, "", SAYS "the server at /nowhere is not inplaced: no method; check --socket\n", EXIT_STATUS_FAILED },
        { "no answer, and then one", { 0 }, { PASSES(60), DONE("a"), ENDS }, NULL, "a  " ID "  present  1m00s\n", SAYS "waiting for an answer of inplaced at /nowhere\n", EXIT_STATUS_DONE },
        { "interrupted", { 0 }, { { .image = "a", .phase = PULLING, .step = BACKING_OFF, .attempt = 1, .message = "x" }, { .other = { .signal = SIGINT } } }, NULL, "a  failed  Canceled: interrupted; the last attempt failed with x\n", SAYS "a: x; trying again, until it is there (--attempts, --timeout)\n" SAYS "interrupted\n", EXIT_STATUS_SIGNAL + SIGINT },
        { "ended before an answer", { 0 }, { { .other = { .signal = SIGTERM } } }, NULL, "", SAYS "interrupted\n", EXIT_STATUS_SIGNAL + SIGTERM },
};
/* clang-format on */

static char requests[512];

static void note_request(const void *message) {
        const Inplaced__V1__PreloadRequest *request = message;
        FILE *file =
                fmemopen(requests + strlen(requests), sizeof(requests) - strlen(requests), "w");

        for (size_t i = 0; i < request->n_images; i++)
                (void) fprintf(file, "%s ", request->images[i]);
        (void) fprintf(file, "%s%s%spolicy=%d attempt=%d total=%d",
                       request->complete ? "complete " : "", request->pin ? "pin " : "",
                       request->detach ? "detach " : "", (int) request->pull_policy,
                       request->timeout_seconds, (int) request->active_deadline_seconds);
        if (request->refusal_limit_presence_case)
                (void) fprintf(file, " refusals=%d", request->refusal_limit);
        if (request->backoff_limit_presence_case)
                (void) fprintf(file, " attempts=%d", request->backoff_limit);
        (void) fputc('\n', file);
        (void) fclose(file);
}

static void write_script(const Said *said, Inplaced__V1__PreloadEvent *events) {
        memset(played_agent.steps, 0, sizeof(played_agent.steps));
        for (size_t i = 0; i < 8; i++) {
                Inplaced__V1__PreloadEvent *event = &events[i];

                if (!said[i].image) {
                        played_agent.steps[i] = said[i].other;
                        continue;
                }
                inplaced__v1__preload_event__init(event);
                event->request_id = (char *) "r1";
                event->image = (char *) said[i].image;
                event->phase = said[i].phase;
                event->step = said[i].step;
                event->attempt = said[i].attempt;
                event->was_present = said[i].was_present;
                event->next_attempt_time = said[i].next_at;
                event->reason = (char *) (said[i].reason ?: "");
                event->message = (char *) (said[i].message ?: "");
                event->image_id = (char *) (event->phase == SUCCEEDED ? ID : "");
                played_agent.steps[i].says = event;
        }
}

TEST_ROWS(test_pull, rows, name, const struct Row *row) {
        char *images[] = { (char *) "a", (char *) "b", NULL };
        Inplaced__V1__PreloadEvent events[8];
        Options options = row->options;
        Played played;

        options.socket_path = "/nowhere";
        options.arguments = images;
        if (options.n_arguments == 0)
                options.n_arguments = 1;
        requests[0] = '\0';
        played_agent.on_request = note_request;
        write_script(row->said, events);
        played_agent.is_gone = false;
        PLAY(&played, command_pull(&options));
        assert_string_equal(played.out.text, row->out);
        assert_string_equal(played.err.text, row->err);
        assert_int_equal(played.status, row->status);
        assert_string_equal(requests, row->requests ?: "a " REQUEST);
}

#define WAITS "a  waiting\n"
#define AWAY "a  agent away   connecting again\n"
#define AGAIN "\r\033[1A\033[J"
#define FOUR(text) text text text text

/* Eight times in a second. */
TEST(test_progress_is_drawn) {
        char *images[] = { (char *) "a", NULL };
        const Options options = { .socket_path = "/nowhere",
                                  .arguments = images,
                                  .n_arguments = 1 };
        static const Said said[8] = { { .image = "a", .phase = WAITING, .step = FOR_RUNTIME },
                                      PASSES(1),
                                      FAILS(ERROR_CANCELED),
                                      PASSES(1),
                                      DONE("a"),
                                      ENDS };
        Inplaced__V1__PreloadEvent events[8];
        Played played;

        requests[0] = '\0';
        write_script(said, events);
        played_agent.is_terminal = true;
        PLAY(&played, command_pull(&options));
        played_agent.is_terminal = false;
        assert_string_equal(played.err.text, "");
        assert_string_equal(played.out.text,
                            WAITS FOUR(AGAIN WAITS)
                                    AGAIN WAITS AGAIN WAITS AGAIN WAITS FOUR(AGAIN AWAY)
                                            FOUR(AGAIN AWAY) AGAIN
                            "a  sha256:0123456789ab  present  2.0s\n");
        assert_int_equal(played.status, EXIT_STATUS_DONE);
}

TEST(test_pin) {
        char *images[] = { (char *) "a", NULL };
        const Options options = { .socket_path = "/nowhere",
                                  .arguments = images,
                                  .n_arguments = 1 };
        static const Said said[8] = { DONE("a"), ENDS };
        Inplaced__V1__PreloadEvent events[8];
        Played played;

        requests[0] = '\0';
        played_agent.on_request = note_request;
        write_script(said, events);
        PLAY(&played, command_pin(&options));
        assert_string_equal(requests, "a pin " REQUEST);
        assert_int_equal(played.status, EXIT_STATUS_DONE);
}

TEST(test_no_agent) {
        char *images[] = { (char *) "a", NULL };
        const Options options = { .socket_path = "/nowhere",
                                  .arguments = images,
                                  .n_arguments = 1 };
        Played played;

        memset(played_agent.steps, 0, sizeof(played_agent.steps));
        played_agent.is_gone = true;
        PLAY(&played, command_pull(&options));
        played_agent.is_gone = false;
        assert_string_equal(played.out.text, "");
        assert_string_equal(played.err.text, SAYS UNREACHABLE);
        assert_int_equal(played.status, EXIT_STATUS_FAILED);
}
