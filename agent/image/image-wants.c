/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <string.h>

#include "agent/image/image-internal.h"

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
                want->is_served = false;
                want->is_expired = false;
        }

        image_wish_done(&want->wish);
        want->wish = copy;
        want->is_transient = is_transient;
        want->is_seen = true;
        if (is_new)
                wants_claim(&image->wants, want);
        if (image->malformed.kind != ERROR_NONE) {
                want->is_served = true;
                image->status.version = wish->version;
        }
        return image_update_wish(image);
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

int image_restore_served(Image *image, const char *owner, int64_t version, bool is_expired) {
        return wants_remember(&image->wants, owner, version, is_expired);
}

void image_restore_status(Image *image, ImageStatus *status) {
        image_status_done(&image->status);
        image->status = *status;
        *status = (ImageStatus){ 0 };
}

void image_restore_end(Image *image) {
        wants_forget(&image->wants);
}

int image_settle(Image *image, const char *owner, int64_t version, ImageStatus *status) {
        bool is_settled = false;

        for (Want *want = image->wants.first; want; want = want->next) {
                if (want->is_served || want->wish.version != version ||
                    strcmp(want->owner, owner) != 0)
                        continue;

                want->is_served = true;
                want->is_in_round = false;
                is_settled = true;
        }

        if (!is_settled)
                return 0;

        image_restore_status(image, status);
        image->on_dirty(image, image->userdata);
        return 1;
}

int image_expire(Image *image, int64_t now, int64_t *ret_next) {
        bool is_changed = false;
        Want *next;

        *ret_next = INT64_MAX;
        for (Want *want = image->wants.first; want; want = next) {
                int64_t end = image->status.completed_at + want->wish.ttl_sec;

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
