/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/verdict.h"

#include <string.h>

/* Some runtimes write IDs without the name of the algorithm. */
static const char *skip_algorithm(const char *id) {
        const char *name = "sha256:";

        return strncmp(id, name, strlen(name)) == 0 ? id + strlen(name) : id;
}

Verdict verdict_of(const char *reference_id, const char *running_id) {
        if (!reference_id || !reference_id[0] || !running_id || !running_id[0])
                return VERDICT_UNKNOWN;

        return strcmp(skip_algorithm(reference_id), skip_algorithm(running_id)) == 0
                       ? VERDICT_CURRENT
                       : VERDICT_STALE;
}

const char *verdict_to_string(Verdict verdict) {
        switch (verdict) {
        case VERDICT_UNKNOWN: return "Unknown";
        case VERDICT_CURRENT: return "Current";
        case VERDICT_STALE: return "Stale";
        case _VERDICT_MAX: break;
        }

        return "";
}
