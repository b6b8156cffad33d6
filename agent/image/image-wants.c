/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/image/image-internal.h"
#include "agent/image/pull-failure.h"

/* To be called after each change of the wants. */
static int image_update_wish(Image *image) {
        ImageWish wish;
        int r;

        r = wants_merge(&image->wants, want_is_current, &wish);
        if (r < 0)
                return r;

        image_wish_done(&image->wish);
        image->wish = wish;
        image->on_dirty(image, image->userdata);
        return 0;
}

/* Nothing can be done about it before it is written differently. */
static int image_refuse(Image *image, Want *want) {
        cleanup(image_status_done) ImageStatus status = { .phase = IMAGE_FAILED };
        bool is_malformed = image->malformed.kind != ERROR_NONE;
        int r;

        status.version = want->wish.version;
        status.started_at = status.completed_at = time(NULL);
        r = pull_failure_describe(
                &status, is_malformed ? PULL_REASON_INVALID_REFERENCE : PULL_REASON_INVALID_SPEC,
                is_malformed ? error_message(&image->malformed) : want->wish.fault, 1, 1);
        if (r < 0)
                return r;

        want->is_news = want->is_refused = true;
        if (!is_malformed && (image->pull || image_phase_is_final(image->status.phase)))
                return want_serve(want, &status);

        r = image_set_status(image, &status);
        return r < 0 ? r : want_serve(want, NULL);
}

static bool is_refused(const Image *image, const Want *want) {
        return !want->is_served && (image->malformed.kind != ERROR_NONE || want->wish.fault);
}

int image_set_want(Image *image, const char *owner, const ImageWish *wish, bool is_transient) {
        Want *want = wants_find(&image->wants, owner, wish->name);
        bool is_new = !want;
        ImageWish copy;
        int r;

        if (want && image_wish_equal(&want->wish, wish)) {
                want->is_seen = true;
                return 0;
        }

        r = image_wish_copy(wish, &copy);
        if (r < 0)
                return r;

        if (is_new) {
                r = wants_add(&image->wants, owner, &want);
                if (r < 0) {
                        image_wish_done(&copy);
                        return r;
                }
        } else if (want->wish.version != wish->version) {
                image->must_restart = image->must_restart || want->is_in_round;
                want_renew(want);
        }

        image_wish_done(&want->wish);
        want->wish = copy;
        want->is_transient = is_transient;
        want->is_seen = true;
        if (is_new)
                r = wants_claim(&image->wants, want);
        if (r >= 0 && is_refused(image, want))
                r = image_refuse(image, want);
        return r < 0 ? r : image_update_wish(image);
}

int image_sweep_wants(Image *image, const char *owner) {
        bool is_changed = false;
        Want *next;

        for (Want *want = image->wants.first; want; want = next) {
                next = want->next;
                if (strcmp(want->owner, owner) != 0)
                        continue;

                if (!want->is_seen) {
                        wants_remove(&image->wants, want);
                        is_changed = true;
                        continue;
                }
                want->is_seen = false;
        }

        return is_changed ? image_update_wish(image) : 0;
}

int image_withdraw(Image *image, const char *owner) {
        Want *next;
        int n = 0;
        int r;

        for (Want *want = image->wants.first; want; want = next) {
                next = want->next;
                if (want->is_served || strcmp(want->owner, owner) != 0)
                        continue;

                wants_remove(&image->wants, want);
                n++;
        }

        r = n > 0 ? image_update_wish(image) : 0;
        return r < 0 ? r : n;
}

int image_restore_served(Image *image, const char *owner, int64_t version, bool is_expired,
                         const ImageStatus *outcome) {
        return wants_remember(&image->wants, owner, version, is_expired, outcome);
}

void image_restore_status(Image *image, ImageStatus *status) {
        image_status_done(&image->status);
        image->status = *status;
        *status = (ImageStatus){ 0 };
}

int image_set_status(Image *image, ImageStatus *status) {
        int r;

        r = wants_keep_outcome(&image->wants, &image->status);
        if (r < 0)
                return r;

        image_restore_status(image, status);
        return 0;
}

void image_restore_end(Image *image) {
        wants_forget(&image->wants);
}

int image_settle(Image *image, const char *owner, const char *name, int64_t version,
                 ImageStatus *status) {
        Want *want = wants_find(&image->wants, owner, name);
        int r;

        if (!want || want->wish.version != version || (want->is_served && !want->is_news))
                return 0;

        r = image_set_status(image, status);
        if (r < 0)
                return r;

        r = want_serve(want, NULL);
        if (r < 0)
                return r;

        want->is_news = false;
        image->on_dirty(image, image->userdata);
        return 1;
}

int image_expire(Image *image, int64_t now, int64_t *ret_next) {
        bool is_changed = false;
        Want *next;

        *ret_next = INT64_MAX;
        for (Want *want = image->wants.first; want; want = next) {
                const ImageStatus *outcome = want->outcome ?: &image->status;
                int64_t end = outcome->completed_at + want->wish.ttl_sec;

                next = want->next;
                if (!want->is_served || want->is_expired || want->wish.ttl_sec == WISH_NO_LIMIT)
                        continue;
                if (end > now) {
                        *ret_next = end < *ret_next ? end : *ret_next;
                        continue;
                }

                is_changed = true;
                want->is_expired = true;
                if (want->is_transient)
                        wants_remove(&image->wants, want);
        }

        return is_changed ? image_update_wish(image) : 0;
}
