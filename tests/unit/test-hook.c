/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a result means for a preStop hook; the handler is a function here that the test answers for
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/pod/hook.h"

struct Handler {
        HandlerOptions options;
};

static struct {
        Handler handler;
        bool is_running;
        unsigned n_done;
        ErrorKind kind;
        char message[256];
        char plain_host[64];
} the;

int handler_run(const HandlerOptions *options, Handler **ret) {
        the.handler.options = *options;
        the.is_running = true;
        *ret = &the.handler;
        return 0;
}

Handler *handler_free(Handler *handler) {
        if (handler)
                the.is_running = false;
        return NULL;
}

static int on_done(const Error *error, const char *plain_host, void *userdata) {
        Hook **hook = userdata;

        the.n_done++;
        the.kind = error ? error->kind : ERROR_NONE;
        snprintf(the.message, sizeof(the.message), "%s", error ? error_message(error) : "");
        snprintf(the.plain_host, sizeof(the.plain_host), "%s", plain_host ?: "");
        *hook = hook_free(*hook);
        return 0;
}

#define FAILED(why) ((Error){ .kind = ERROR_INVALID, .message = (char *) why })
#define LATE ((Error){ .kind = ERROR_TIMEOUT, .message = (char *) "late" })

static void test_results(void **state) {
        const struct {
                HandlerKind kind;
                HandlerOutcome outcome;
                Error error;
                int status;
                const char *output;
                ErrorKind expected;
                const char *message;
        } cases[] = {
                { HANDLER_EXEC, HANDLER_SUCCEEDED, ERROR_INIT, 0, "fine", ERROR_NONE, "" },
                { HANDLER_EXEC, HANDLER_FAILED, FAILED("status 3"), 3, "it is \"bad\"\nvery",
                  ERROR_INVALID, "status 3: \"it is \\\"bad\\\"\"" },
                { HANDLER_EXEC, HANDLER_FAILED, FAILED("status 4"), 4, "", ERROR_INVALID,
                  "status 4" },
                { HANDLER_EXEC, HANDLER_FAILED, FAILED("status 5"), 5, "\nx", ERROR_INVALID,
                  "status 5" },
                { HANDLER_EXEC, HANDLER_NOT_RUN, FAILED("no runtime"), 0, "", ERROR_INVALID,
                  "no runtime" },
                { HANDLER_EXEC, HANDLER_FAILED, LATE, 0, "", ERROR_TIMEOUT, "late" },
                { HANDLER_HTTP, HANDLER_SUCCEEDED, ERROR_INIT, 200, "", ERROR_NONE, "" },
                /* Any answer is one, also if it breaks off. */
                { HANDLER_HTTP, HANDLER_FAILED, FAILED("HTTP status 500"), 500, "", ERROR_NONE,
                  "" },
                { HANDLER_HTTP, HANDLER_FAILED, FAILED("was cut"), 200, "x", ERROR_NONE, "" },
                { HANDLER_HTTP, HANDLER_FAILED, FAILED("refused"), 0, "", ERROR_INVALID,
                  "refused" },
                { HANDLER_HTTP, HANDLER_FAILED, LATE, 0, "", ERROR_TIMEOUT, "late" },
                { HANDLER_TCP, HANDLER_FAILED, FAILED("refused"), 0, "", ERROR_INVALID, "refused" },
                { HANDLER_SLEEP, HANDLER_SUCCEEDED, ERROR_INIT, 0, "", ERROR_NONE, "" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const HandlerSpec spec = { .kind = cases[i].kind };
                const HandlerResult result = {
                        .outcome = cases[i].outcome,
                        .error = cases[i].error.kind != ERROR_NONE ? &cases[i].error : NULL,
                        .status = cases[i].status,
                        .output = cases[i].output,
                        .output_size = strlen(cases[i].output),
                };
                Hook *hook;

                the.n_done = 0;
                assert_int_equal(hook_run(NULL, &spec, &(HookTarget){ .client = NULL }, 5, on_done,
                                          &hook, &hook),
                                 0);
                assert_int_equal(the.n_done, 0);
                assert_int_equal(the.handler.options.on_done(&result, the.handler.options.userdata),
                                 0);
                assert_int_equal(the.n_done, 1);
                assert_false(the.is_running);
                if (the.kind != cases[i].expected || strcmp(the.message, cases[i].message) != 0)
                        fail_msg("case %zu: %s", i, the.message);
        }
}

/* A program may complain at length, and in bytes that are no text. */
static void test_long_complaint(void **state) {
        const HandlerSpec spec = { .kind = HANDLER_EXEC };
        const Error error = FAILED("status 1");
        HandlerResult result = {
                .outcome = HANDLER_FAILED,
                .error = &error,
                .status = 1,
                .output_size = HANDLER_OUTPUT_MAX,
        };
        char *output = malloc(HANDLER_OUTPUT_MAX);
        Hook *hook;

        memset(output, 0xff, HANDLER_OUTPUT_MAX);
        result.output = output;
        assert_int_equal(hook_run(NULL, &spec, &(HookTarget){ .client = NULL }, 5, on_done, &hook,
                                  &hook),
                         0);
        assert_int_equal(the.handler.options.on_done(&result, the.handler.options.userdata), 0);
        assert_true(strlen(the.message) < sizeof(the.message) - 1);
        assert_memory_equal(the.message, "status 1: \"", 11);
        free(output);
}

static void test_options(void **state) {
        const HandlerSpec spec = { .kind = HANDLER_HTTP };
        const HookTarget target = { .container_id = "c1", .address = "10.0.0.7" };
        const HandlerOptions *options = &the.handler.options;
        Hook *hook;

        assert_int_equal(hook_run(NULL, &spec, &target, 7, on_done, &hook, &hook), 0);
        assert_ptr_equal(options->spec, &spec);
        assert_string_equal(options->container_id, "c1");
        assert_string_equal(options->address, "10.0.0.7");
        assert_string_equal(options->user_agent, "kube-lifecycle/inplaced");
        assert_true(options->allows_plain);
        assert_int_equal(options->timeout_usec, 7);
        options->on_done(&(HandlerResult){ .status = 200, .plain_host = "10.0.0.7:80" },
                         options->userdata);
        assert_string_equal(the.plain_host, "10.0.0.7:80");

        assert_int_equal(hook_run(NULL, &spec, &target, 7, on_done, &hook, &hook), 0);
        assert_null(hook_free(hook));
        assert_false(the.is_running);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_results),
                cmocka_unit_test(test_long_complaint),
                cmocka_unit_test(test_options),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
