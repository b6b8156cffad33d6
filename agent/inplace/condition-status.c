/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/condition-status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/base/utf8.h"

#define SHORT_ID_SIZE 32
#define ID_DIGITS 12

static ConditionReason reason_of(const ConditionContainer *container) {
        Verdict verdict = verdict_of(container->reference_id, container->running_id);

        if (container->is_restarting)
                return CONDITION_RESTARTING;
        if (!container->is_running)
                return CONDITION_NOT_RUNNING;
        if (!container->is_known)
                return CONDITION_UNKNOWN;
        if (container->is_environment_stale)
                return container->may_restart ? CONDITION_ENVIRONMENT_STALE
                                              : CONDITION_CANNOT_RESTART;
        if (verdict == VERDICT_STALE)
                return CONDITION_IMAGE_STALE;
        if (verdict == VERDICT_UNKNOWN ||
            (container->has_environment && !container->knows_environment))
                return CONDITION_UNKNOWN;

        return CONDITION_VERIFIED;
}

/* "sha256:0123456789ab…" */
static const char *short_id(const char *id, char buffer[static SHORT_ID_SIZE]) {
        const char *digits = strchr(id, ':');

        if (!id[0])
                return "an unknown image";

        digits = digits ? digits + 1 : id;
        (void) snprintf(buffer, SHORT_ID_SIZE, "sha256:%.*s%s", ID_DIGITS, digits,
                        strlen(digits) > ID_DIGITS ? "…" : "");
        return buffer;
}

static void describe_images(FILE *to, const ConditionContainer *container) {
        char running[SHORT_ID_SIZE], reference[SHORT_ID_SIZE];

        (void) fprintf(to, "container %s runs %s and its reference %s is ", container->name,
                       short_id(container->running_id, running), container->reference);
        (void) fputs(container->reference_id[0] ? short_id(container->reference_id, reference)
                                                : "not on this node",
                     to);
}

static void describe_environment(FILE *to, const ConditionContainer *container) {
        (void) fprintf(
                to, "container %s has the environment of labels or annotations that have changed",
                container->name);
        if (container->is_static)
                (void) fputs(", and a file on the node decides on it, since the pod is static", to);
        else if (container->is_environment_own)
                (void) fputs(", and has an annotation that changes with each restart", to);
        else if (!container->may_restart)
                (void) fputs(", and nothing would start it again", to);
        else if (container->has_failed)
                (void) fputs(", and a restart did not help", to);
}

static void describe_restart(FILE *to, const ConditionContainer *container) {
        if (container->is_environment_stale)
                (void) fprintf(to,
                               "container %s is restarted: its environment comes from labels or "
                               "annotations that have changed",
                               container->name);
        else if (verdict_of(container->reference_id, container->running_id) == VERDICT_CURRENT)
                (void) fprintf(to, "container %s is restarted", container->name);
        else
                describe_images(to, container);
}

static void describe_unknown(FILE *to, const ConditionContainer *container) {
        if (verdict_of(container->reference_id, container->running_id) == VERDICT_CURRENT)
                (void) fprintf(to, "the environment of container %s is unknown", container->name);
        else if (container->is_known)
                describe_images(to, container);
        else
                (void) fprintf(to, "the runtime does not report what container %s runs",
                               container->name);
}

static void describe(FILE *to, const ConditionContainer *container) {
        char buffer[SHORT_ID_SIZE];

        switch (reason_of(container)) {
        case CONDITION_VERIFIED:
                (void) fprintf(to, "%s runs %s as asked for by %s", container->name,
                               short_id(container->running_id, buffer), container->reference);
                break;
        case CONDITION_UNKNOWN: describe_unknown(to, container); break;
        case CONDITION_NOT_RUNNING:
                (void) fprintf(to, "container %s does not run", container->name);
                break;
        case CONDITION_IMAGE_STALE: describe_images(to, container); break;
        case CONDITION_ENVIRONMENT_STALE:
        case CONDITION_CANNOT_RESTART: describe_environment(to, container); break;
        case CONDITION_RESTARTING: describe_restart(to, container); break;
        case _CONDITION_REASON_MAX: break;
        }
}

/* Cuts at the start of a character. */
static void cut(char *text) {
        size_t size = CONDITION_MESSAGE_MAX;

        if (strlen(text) <= size)
                return;

        memcpy(text + utf8_cut(text, size - strlen("…")), "…", sizeof("…"));
}

DEFINE_CLEANUP(FILE *, fclose)

static int message_of(const ConditionContainer *containers, size_t n, ConditionReason reason,
                      char **ret) {
        cleanup(free_p) char *text = NULL;
        size_t size = 0, n_described = 0;
        /* The text is freed after the stream that writes it is closed. */
        cleanup(fclose_p) FILE *to = text_open(&text, &size);

        if (!to)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                if (reason != CONDITION_VERIFIED && reason_of(&containers[i]) == CONDITION_VERIFIED)
                        continue;

                (void) fputs(n_described++ > 0 ? "; " : "", to);
                describe(to, &containers[i]);
        }

        if (text_close(take_ptr(to), &text) < 0)
                return -ENOMEM;

        cut(text);
        *ret = take_ptr(text);
        return 0;
}

int condition_of(const ConditionContainer *containers, size_t n_containers, Condition *ret) {
        Condition condition = { .reason = CONDITION_VERIFIED };
        int r;

        for (size_t i = 0; i < n_containers; i++) {
                ConditionReason reason = reason_of(&containers[i]);

                if (reason > condition.reason)
                        condition.reason = reason;
        }

        r = message_of(containers, n_containers, condition.reason, &condition.message);
        if (r < 0)
                return r;

        *ret = condition;
        return 0;
}

void condition_done(Condition *condition) {
        free(condition->message);
        *condition = CONDITION_INIT;
}

const char *condition_status_of(ConditionReason reason) {
        switch (reason) {
        case CONDITION_VERIFIED: return "True";
        case CONDITION_UNKNOWN: return "Unknown";
        case CONDITION_NOT_RUNNING:
        case CONDITION_IMAGE_STALE:
        case CONDITION_ENVIRONMENT_STALE:
        case CONDITION_CANNOT_RESTART:
        case CONDITION_RESTARTING: return "False";
        case _CONDITION_REASON_MAX: break;
        }

        return "";
}

const char *condition_reason_to_string(ConditionReason reason) {
        switch (reason) {
        case CONDITION_VERIFIED: return "Verified";
        case CONDITION_UNKNOWN: return "Unknown";
        case CONDITION_NOT_RUNNING: return "NotRunning";
        case CONDITION_IMAGE_STALE: return "ImageStale";
        case CONDITION_ENVIRONMENT_STALE: return "EnvironmentStale";
        case CONDITION_CANNOT_RESTART: return "CannotRestart";
        case CONDITION_RESTARTING: return "Restarting";
        case _CONDITION_REASON_MAX: break;
        }

        return "";
}
