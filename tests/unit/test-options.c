/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The agent's settings from flags and a configuration file
 */

#include "tests/unit/unit.h"

#include <unistd.h>

#include "agent/options.h"

static int on_problem(const char *subject, const char *message, const char *advice,
                      void *userdata) {
        fail_msg("%s: %s", subject, message);
        return 0;
}

static const DiagnosisVisitor no_problems = { .on_problem = on_problem };

/* Reads the flags, with a configuration file that has this text. */
static void read_options(const char *text, const char *const flags[2], Options *ret) {
        char path[] = "/tmp/test-options-XXXXXX";
        char *argv[] = { (char *) "inplaced", (char *) "--config", path,
                         (char *) flags[0],   (char *) flags[1],   NULL };
        cleanup(close_p) int fd = mkstemp(path);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_ok(options_read(argv, ret, &no_problems));
        assert_ok(unlink(path));
}

/* A file may have comments alone, as that of the packages does, or nothing. */
TEST(test_configuration_that_sets_nothing) {
        static const char *const texts[] = { "", "# log-level: debug\n\n", "---\n" };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                cleanup(options_done) Options options = { .config_path = NULL };

                read_options(texts[i], (const char *const[2]){ NULL }, &options);
                assert_int_equal(options.log_level, LOG_INFO);
                assert_int_equal(options.max_parallel_pulls, 5);
        }
}

static const struct ImagesReadyRow {
        const char *name;
        const char *flags[2];
        bool expected;
} images_ready_rows[] = {
        { "no flag", { NULL }, false },
        { "the condition", { "--images-ready", "--register-node" }, true },
        { "the taint implies it", { "--startup-taint=x.io/starting", "--register-node" }, true },
        { "another flag", { "--register-node" }, false },
};

TEST_ROWS(test_images_ready, images_ready_rows, name, const struct ImagesReadyRow *row) {
        cleanup(options_done) Options options = { .config_path = NULL };

        read_options("", row->flags, &options);
        assert_int_equal(options_has_images_ready(&options), row->expected);
}
