/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/log-once.h"

#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

/* FNV-1a, with the NUL at the end. */
static uint64_t hash(uint64_t value, const char *text) {
        do
                value = (value ^ (unsigned char) *text) * FNV_PRIME;
        while (*text++);

        return value;
}

bool log_once(LogOnce *once, const char *problem) {
        uint64_t value = problem ? hash(FNV_START, problem) : 0;
        bool is_new = value != once->last;

        once->last = value;
        return is_new && problem;
}

bool log_once_of(LogOnceMany *many, const char *subject, const char *problem) {
        uint64_t value = hash(hash(FNV_START, subject), problem);

        for (size_t i = 0; i < many->n_items; i++)
                if (many->items[i] == value)
                        return false;

        many->items[many->i_next] = value;
        many->i_next = (many->i_next + 1) % LOG_ONCE_MANY_MAX;
        if (many->n_items < LOG_ONCE_MANY_MAX)
                many->n_items++;
        return true;
}
