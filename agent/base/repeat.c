/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/repeat.h"

#include "agent/base/hash.h"

uint64_t repeat_digest(uint64_t start, const char *text) {
        uint64_t digest = start != 0 ? start : HASH64_START;

        return hash64_text_or_null(digest, text);
}

uint64_t repeat_when_usec(const Repeat *repeat, uint64_t digest) {
        uint64_t usec = REPEAT_MIN_USEC;

        if (repeat->n_times == 0 || repeat->digest != digest)
                return 0;

        for (unsigned i = 1; i < repeat->n_times && usec < REPEAT_MAX_USEC; i++)
                usec *= 2;

        return repeat->sent_usec + (usec < REPEAT_MAX_USEC ? usec : REPEAT_MAX_USEC);
}

void repeat_note(Repeat *repeat, uint64_t digest, uint64_t now_usec) {
        if (repeat->digest != digest || repeat->sent_usec + REPEAT_FORGET_USEC <= now_usec)
                repeat->n_times = 0;
        if (repeat->n_times < UINT32_MAX)
                repeat->n_times++;
        repeat->digest = digest;
        repeat->sent_usec = now_usec;
}
