/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/pull-failure.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define TEXT_SIZE_MAX 600 /* a runtime's nested errors repeat themselves beyond that */

/* One line of printable text, of which the middle was left out if it is too long: the name is at
 * its beginning, the cause at its end. */
static int clean(const char *text, char **ret) {
        size_t size = strlen(text);
        char *line;

        if (size <= TEXT_SIZE_MAX)
                line = strdup(text);
        else if (asprintf(&line, "%.*s ... %s", TEXT_SIZE_MAX / 2, text,
                          text + size - TEXT_SIZE_MAX / 2) < 0)
                line = NULL;
        if (!line)
                return -ENOMEM;

        for (char *c = line; *c; c++)
                if ((unsigned char) *c < ' ' || (unsigned char) *c >= 0x7f)
                        *c = *c == '\n' || *c == '\t' ? ' ' : '?';

        *ret = line;
        return 0;
}

static void pull_failure_take(ImageStatus *status, PullReason reason, char *message) {
        free(status->message);
        status->message = message;
        status->reason = reason;
}

int pull_failure_describe(ImageStatus *status, PullReason reason, const char *text,
                          unsigned attempt, uint64_t n_attempts) {
        cleanup(free_p) char *line = NULL;
        char *message;
        int r;

        r = clean(text, &line);
        if (r < 0)
                return r;

        if (asprintf(&message, "%s: %s; %s (attempt %u of %" PRIu64 ")",
                     pull_reason_to_string(reason), line, pull_reason_advice(reason), attempt,
                     n_attempts) < 0)
                return -ENOMEM;

        pull_failure_take(status, reason, message);
        return 0;
}

int pull_failure_add_deadline(ImageStatus *status, int64_t deadline_sec) {
        const char *earlier = status->message;
        char *message;

        if (asprintf(&message, "%s: pulling exceeds the activeDeadlineSeconds (%" PRId64 ")%s%s",
                     pull_reason_to_string(PULL_REASON_DEADLINE), deadline_sec,
                     earlier ? "; before that: " : "", earlier ?: "") < 0)
                return -ENOMEM;

        pull_failure_take(status, PULL_REASON_DEADLINE, message);
        return 0;
}

void pull_failure_clear(ImageStatus *status) {
        pull_failure_take(status, PULL_REASON_NONE, NULL);
}
