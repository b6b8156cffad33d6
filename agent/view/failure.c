/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/failure.h"

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/image/pull-reason.h"

#define EARLIER "; before that: " /* separates the error of the attempt that a deadline ended */

/* Finds the reason at the begin of the message, as a slice of it; false if there is none. */
static bool find_reason(const char *message, PullReason *ret, int *ret_size) {
        size_t size = strcspn(message, ":");
        cleanup(free_p) char *word = strndup(message, size);

        *ret = word ? pull_reason_from_string(word) : PULL_REASON_UNKNOWN;
        *ret_size = (int) size;
        return word && message[size] && strcmp(pull_reason_to_string(*ret), word) == 0;
}

/* " (attempt 2 of 4)" at the end of the message, or "". */
static const char *attempt_of(const char *message) {
        const char *attempt = strrchr(message, '(');

        return attempt && attempt > message && strncmp(attempt, "(attempt ", 9) == 0 &&
                               message[strlen(message) - 1] == ')'
                       ? attempt - 1
                       : "";
}

bool failure_is_refusal(const char *message) {
        PullReason reason;
        int size;

        return find_reason(message, &reason, &size) && pull_reason_is_refusal(reason, message);
}

char *failure_summary(const char *message) {
        const char *earlier = strstr(message, EARLIER);
        int size, earlier_size = 0;
        PullReason reason, cause;
        char *summary;

        if (!find_reason(message, &reason, &size))
                return strdup(message);

        if (earlier)
                earlier += strlen(EARLIER);
        if (!earlier || !find_reason(earlier, &cause, &earlier_size)) {
                earlier = "";
                cause = reason;
        }
        (void) text_format(&summary, "%.*s%s%.*s%s: %s", size, message,
                           earlier_size > 0 ? " after " : "", earlier_size, earlier,
                           attempt_of(message), pull_reason_advice(cause));
        return summary;
}
