/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/complaints.h"

/* FNV-1a, with the NUL at the end. */
static uint64_t hash(uint64_t value, const char *text) {
        do
                value = (value ^ (unsigned char) *text) * UINT64_C(0x100000001b3);
        while (*text++);

        return value;
}

bool complaints_is_new(Complaints *complaints, const char *what, const char *why) {
        uint64_t value = hash(hash(UINT64_C(0xcbf29ce484222325), what), why);

        for (size_t i = 0; i < complaints->n_items; i++)
                if (complaints->items[i] == value)
                        return false;

        complaints->items[complaints->i_next] = value;
        complaints->i_next = (complaints->i_next + 1) % COMPLAINTS_MAX;
        if (complaints->n_items < COMPLAINTS_MAX)
                complaints->n_items++;
        return true;
}
