/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/failure.h"
#include "tests/unit/unit.h"

/* clang-format off */
static const struct MessageRow {
        const char *message;
        const char *summary;
        bool is_refusal;
} messages[] = {
        { "NotFound: rpc error: code = NotFound desc = (x): not found; check the name and the tag (attempt 2 of 4)",
          "NotFound (attempt 2 of 4): check the name and the tag", true },
        { "NotFound: no; check it (attempt 12)",
          "NotFound (attempt 12): check the name and the tag", true },
        { "Unknown: one of us; check it (attempt 12)",
          "Unknown (attempt 12): check the log of the container runtime", false },
        { "DeadlineExceeded: pulling exceeds it; before that: NotFound: no (attempt 1 of 4)",
          "DeadlineExceeded after NotFound (attempt 1 of 4): check the name and the tag", false },
        { "DeadlineExceeded: pulling exceeds it; before that: RuntimeUnavailable: it is away",
          "DeadlineExceeded after RuntimeUnavailable: check that the container runtime is running", false },
        { "DeadlineExceeded: pulling exceeds it",
          "DeadlineExceeded: allow more time, or check the network between node and registry", false },
        { "Unknown: (attempt ", "Unknown: check the log of the container runtime", false },
        { "Something: else", "Something: else", false },
        { "NotFound", "NotFound", false },
        { "(attempt 1 of 4)", "(attempt 1 of 4)", false },
        { "", "", false },
};
/* clang-format on */

TEST_ROWS(test_message, messages, message, const struct MessageRow *row) {
        cleanup(free_p) char *summary = failure_summary(row->message);

        assert_string_equal(summary, row->summary);
        assert_int_equal(failure_is_refusal(row->message), row->is_refusal);
}
