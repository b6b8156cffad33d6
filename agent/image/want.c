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
        ImageStatus *outcome;
};

static ImageStatus *status_free(ImageStatus *status) {
        if (status)
                image_status_done(status);
        free(status);
        return NULL;
}

/* A copy of NULL is NULL. */
static int status_new(const ImageStatus *status, ImageStatus **ret) {
        ImageStatus *copy;

        *ret = NULL;
        if (!status)
                return 0;

        copy = calloc(1, sizeof(*copy));
        if (!copy)
                return -ENOMEM;

        if (image_status_copy(status, copy) < 0) {
                free(copy);
                return -ENOMEM;
        }

        *ret = copy;
        return 0;
}

static void served_free(Wants *wants, Served *served) {
        list_remove(&wants->served, served);
        status_free(served->outcome);
        free(served->owner);
        free(served);
}

void wants_remove(Wants *wants, Want *want) {
        list_remove(&wants->first, want);
        image_wish_done(&want->wish);
        status_free(want->outcome);
        free(want->owner);
        free(want);
}

int want_serve(Want *want, const ImageStatus *outcome) {
        ImageStatus *copy;
        int r;

        r = status_new(outcome, &copy);
        if (r < 0)
                return r;

        status_free(want->outcome);
        want->outcome = copy;
        want->is_served = true;
        want->is_in_round = false;
        return 0;
}

void want_renew(Want *want) {
        want->outcome = status_free(want->outcome);
        want->is_served = want->is_expired = want->is_news = want->is_refused = false;
}

int wants_keep_outcome(const Wants *wants, const ImageStatus *status) {
        for (Want *want = wants->first; want; want = want->next) {
                int r;

                if (!want->is_served || want->outcome)
                        continue;

                r = status_new(status, &want->outcome);
                if (r < 0)
                        return r;
        }

        return 0;
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

int wants_remember(Wants *wants, const char *owner, int64_t version, bool is_expired,
                   const ImageStatus *outcome) {
        Served *served;

        served = calloc(1, sizeof(*served));
        if (!served)
                return -ENOMEM;

        served->owner = strdup(owner);
        if (!served->owner || status_new(outcome, &served->outcome) < 0) {
                free(served->owner);
                free(served);
                return -ENOMEM;
        }

        served->version = version;
        served->is_expired = is_expired;
        list_prepend(&wants->served, served);
        return 0;
}

int wants_claim(const Wants *wants, Want *want) {
        for (const Served *served = wants->served; served; served = served->next) {
                int r;

                if (strcmp(served->owner, want->owner) != 0 ||
                    served->version != want->wish.version)
                        continue;

                want->is_expired = want->is_expired || served->is_expired;
                r = want_serve(want, served->outcome ?: want->outcome);
                if (r < 0)
                        return r;
        }

        return 0;
}
