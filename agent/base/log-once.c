/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/log-once.h"

#include "agent/base/hash.h"

bool log_once(LogOnce *once, const char *problem) {
        uint64_t value = problem ? hash64_text(HASH64_START, problem) : 0;
        bool is_new = value != once->last;

        once->last = value;
        return is_new && problem;
}

bool log_once_is_set(const LogOnce *once) {
        return once->last != 0;
}

bool log_once_of(LogOnceMany *many, const char *subject, const char *problem) {
        uint64_t value = hash64_text(hash64_text(HASH64_START, subject), problem);

        for (size_t i = 0; i < many->n_items; i++)
                if (many->items[i] == value)
                        return false;

        many->items[many->i_next] = value;
        many->i_next = (many->i_next + 1) % LOG_ONCE_MANY_MAX;
        if (many->n_items < LOG_ONCE_MANY_MAX)
                many->n_items++;
        return true;
}
