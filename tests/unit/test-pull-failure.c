/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a failed pull is put into words
 */

#include "agent/image/image-status.h"
#include "tests/unit/unit.h"

#define LINE_SIZE_MAX 1000

/* clang-format off */
static const struct Line {
        const char *name;
        PullReason reason;
        const char *text;
        unsigned attempt;
        uint64_t n_attempts;
        const char *message;
} lines[] = {
        { "the name and the advice of the class", PULL_REASON_NOT_FOUND,
          "nginx:9 is not there", 2, 4,
          "NotFound: nginx:9 is not there; check the name and the tag (attempt 2 of 4)" },
        { "no text", PULL_REASON_NO_SPACE, "", 1, 1,
          "NoSpace: ; free disk space on the node (attempt 1 of 1)" },
        { "more lines than one", PULL_REASON_NO_SPACE, "a\nb\tc\r\n", 1, 1,
          "NoSpace: a b c? ; free disk space on the node (attempt 1 of 1)" },
        { "what a terminal would obey", PULL_REASON_NO_SPACE, "\033[2Jx\a\177", 1, 1,
          "NoSpace: ?[2Jx??; free disk space on the node (attempt 1 of 1)" },
        { "bytes that are no ASCII", PULL_REASON_NO_SPACE, "\303\251\377", 1, 1,
          "NoSpace: ???; free disk space on the node (attempt 1 of 1)" },
        { "what printf would obey", PULL_REASON_NO_SPACE, "%s%n%1$s", 1, 1,
          "NoSpace: %s%n%1$s; free disk space on the node (attempt 1 of 1)" },
        { "any number of attempts", PULL_REASON_NO_SPACE, "x", 7, 0,
          "NoSpace: x; free disk space on the node (attempt 7)" },
        { "as many attempts as there can be", PULL_REASON_NO_SPACE, "x", UINT32_MAX,
          (uint64_t) INT64_MAX + 1,
          "NoSpace: x; free disk space on the node (attempt 4294967295 of 9223372036854775808)" },
};
/* clang-format on */

static void describe(ImageStatus *status, PullReason reason, const char *text) {
        assert_int_equal(image_status_set_failure(status, reason, text, 1, 4), 0);
}

TEST_ROWS(test_line, lines, name, const struct Line *line) {
        cleanup(image_status_done) ImageStatus status = { .phase = IMAGE_PULLING };

        assert_int_equal(image_status_set_failure(&status, line->reason, line->text, line->attempt,
                                                  line->n_attempts),
                         0);
        assert_string_equal(status.message, line->message);
        assert_int_equal(status.reason, line->reason);
        assert_int_equal(status.phase, IMAGE_PULLING);
}

/* The newest failure counts, also when it quotes the one before. */
TEST(test_replaces) {
        cleanup(image_status_done) ImageStatus status = { .phase = IMAGE_PULLING };

        describe(&status, PULL_REASON_NOT_FOUND, "first");
        describe(&status, PULL_REASON_TLS, "second");
        assert_int_equal(status.reason, PULL_REASON_TLS);
        assert_null(strstr(status.message, "first"));

        describe(&status, PULL_REASON_UNKNOWN, status.message);
        assert_contains(status.message, "TLS: second");
}

/* The name stands at the beginning of a long text, the cause at its end. */
TEST(test_long_text) {
        for (size_t size = 500; size < 100000; size += size < 700 ? 1 : 9973) {
                cleanup(image_status_done) ImageStatus status = { .phase = IMAGE_PULLING };
                cleanup(free_p) char *text = malloc(size + 1);

                memset(text, 'x', size);
                memcpy(text, "begin", 5);
                memcpy(text + size - 3, "end", 4);
                describe(&status, PULL_REASON_UNKNOWN, text);
                assert_true(strlen(status.message) < LINE_SIZE_MAX);
                assert_contains(status.message, "Unknown: begin");
                assert_contains(status.message, "end; check");
        }
}

/* Any text becomes one line of printable text whose class can be found again. */
TEST(test_random_text) {
        for (unsigned seed = 0; seed < 5000; seed++) {
                cleanup(image_status_done) ImageStatus status = { .phase = IMAGE_PULLING };
                char text[1500];
                size_t size;

                srandom(seed);
                size = (size_t) random() % (sizeof(text) - 1);
                for (size_t i = 0; i < size; i++)
                        text[i] = (char) (1 + random() % 255);
                text[size] = '\0';

                describe(&status, (PullReason) (1 + random() % (_PULL_REASON_MAX - 1)), text);
                for (const char *c = status.message; *c; c++)
                        if (*c < ' ' || *c > '~')
                                fail_msg("seed %u: byte %d", seed, *c);
                if (strncmp(status.message, pull_reason_to_string(status.reason),
                            strcspn(status.message, ":")) != 0)
                        fail_msg("seed %u: %s", seed, status.message);
        }
}

TEST(test_deadline) {
        cleanup(image_status_done) ImageStatus status = { .phase = IMAGE_PULLING };

        assert_int_equal(image_status_set_past_deadline(&status, 90), 0);
        assert_int_equal(status.reason, PULL_REASON_DEADLINE);
        assert_string_equal(status.message,
                            "DeadlineExceeded: pulling exceeds the activeDeadlineSeconds (90), "
                            "which inplacectl calls --timeout");
}

/* Why it took that long is still worth knowing. */
TEST(test_deadline_after_a_failure) {
        cleanup(image_status_done) ImageStatus status = { .phase = IMAGE_PULLING };

        describe(&status, PULL_REASON_TLS, "no certificate");
        assert_int_equal(image_status_set_past_deadline(&status, 90), 0);
        assert_int_equal(status.reason, PULL_REASON_DEADLINE);
        assert_contains(status.message, "DeadlineExceeded: pulling exceeds");
        assert_contains(status.message, "; before that: TLS: no certificate;");
}

TEST(test_clear) {
        cleanup(image_status_done) ImageStatus status = { .phase = IMAGE_PULLING };

        describe(&status, PULL_REASON_TLS, "no certificate");
        image_status_clear_failure(&status);
        image_status_clear_failure(&status);
        assert_int_equal(status.reason, PULL_REASON_NONE);
        assert_null(status.message);
}
