/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/want.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/image/merge.h"

struct Served {
        LIST_LINKS(Served);
        char *owner;
        int64_t version;
        bool is_expired;
};

static void served_free(Wants *wants, Served *served) {
        list_remove(&wants->served, served);
        free(served->owner);
        free(served);
}

void wants_remove(Wants *wants, Want *want) {
        list_remove(&wants->first, want);
        image_wish_done(&want->wish);
        free(want->owner);
        free(want);
}

void wants_forget(Wants *wants) {
        while (wants->served)
                served_free(wants, wants->served);
}

void wants_done(Wants *wants) {
        while (wants->first)
                wants_remove(wants, wants->first);
        wants_forget(wants);
}

bool want_is_current(const Want *want) {
        return !want->is_expired;
}

bool want_is_due(const Want *want) {
        return !want->is_expired && !want->is_served;
}

const Want *wants_first(const Wants *wants, WantFilter filter) {
        const Want *want = wants->first;

        while (want && !filter(want))
                want = want->next;
        return want;
}

int wants_merge(const Wants *wants, WantFilter filter, ImageWish *ret) {
        cleanup(free_p) const ImageWish **wishes = NULL;
        size_t n = 0;

        for (const Want *want = wants->first; want; want = want->next)
                n++;
        wishes = calloc(n + 1, sizeof(wishes[0]));
        if (!wishes)
                return -ENOMEM;

        n = 0;
        for (const Want *want = wants->first; want; want = want->next)
                if (filter(want))
                        wishes[n++] = &want->wish;

        *ret = (ImageWish){ .name = NULL };
        return n > 0 ? merge_wishes(wishes, n, ret) : 0;
}

Want *wants_find(const Wants *wants, const char *owner, const char *name) {
        for (Want *want = wants->first; want; want = want->next)
                if (strcmp(want->owner, owner) == 0 && strcmp(want->wish.name, name) == 0)
                        return want;

        return NULL;
}

static void insert_sorted(Wants *wants, Want *want) {
        Want *previous = NULL;

        for (Want *w = wants->first; w && strcmp(w->owner, want->owner) <= 0; w = w->next)
                previous = w;
        if (!previous) {
                list_prepend(&wants->first, want);
                return;
        }

        want->previous = previous;
        want->next = previous->next;
        if (want->next)
                want->next->previous = want;
        previous->next = want;
}

int wants_add(Wants *wants, const char *owner, Want **ret) {
        Want *want;

        want = calloc(1, sizeof(*want));
        if (!want)
                return -ENOMEM;

        want->owner = strdup(owner);
        if (!want->owner) {
                free(want);
                return -ENOMEM;
        }

        insert_sorted(wants, want);
        *ret = want;
        return 0;
}

int wants_remember(Wants *wants, const char *owner, int64_t version, bool is_expired) {
        Served *served;

        served = calloc(1, sizeof(*served));
        if (!served)
                return -ENOMEM;

        served->owner = strdup(owner);
        if (!served->owner) {
                free(served);
                return -ENOMEM;
        }

        served->version = version;
        served->is_expired = is_expired;
        list_prepend(&wants->served, served);
        return 0;
}

void wants_claim(const Wants *wants, Want *want) {
        for (const Served *served = wants->served; served; served = served->next) {
                if (strcmp(served->owner, want->owner) != 0)
                        continue;

                want->is_served = served->version == want->wish.version;
                want->is_expired = want->is_served && served->is_expired;
        }
}
