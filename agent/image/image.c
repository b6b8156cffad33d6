/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/image-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

DEFINE_CLEANUP(Image *, image_free)

static int image_identify(Image *image, const char *name, const char *tag) {
        ImageRef ref;
        int r;

        r = image_ref_from_node_image(name, tag, &ref, &image->malformed);
        if (image->malformed.kind != ERROR_NONE) {
                image->name = strdup(name);
                image->tag = strdup(tag);
                return image->name && image->tag ? 0 : -ENOMEM;
        }
        if (r < 0)
                return r;

        image->tag = strdup(image_ref_tag_or_digest(&ref));
        return image->tag ? image_ref_familiar_name(&ref, &image->name) : -ENOMEM;
}

int image_key_of(const char *name, const char *tag, char **ret) {
        cleanup(error_done) Error error = ERROR_INIT;
        ImageRef ref;

        if (image_ref_from_node_image(name, tag, &ref, &error) >= 0)
                return image_ref_canonical_reference(&ref, ret);
        if (error.kind == ERROR_NONE)
                return -ENOMEM;

        return asprintf(ret, "%s %s", name, tag) < 0 ? -ENOMEM : 0;
}

int image_new(const char *name, const char *tag, ImageDirty on_dirty, void *userdata, Image **ret) {

        cleanup(image_free_p) Image *image = NULL;
        int r;

        image = calloc(1, sizeof(*image));
        if (!image)
                return -ENOMEM;

        image->on_dirty = on_dirty;
        image->userdata = userdata;
        r = image_key_of(name, tag, &image->key);
        if (r < 0)
                return r;

        r = image_identify(image, name, tag);
        if (r < 0)
                return r;

        *ret = take_ptr(image);
        return 0;
}

Image *image_free(Image *image) {
        if (!image)
                return NULL;

        pull_free(image->pull);
        wants_done(&image->wants);
        image_wish_done(&image->wish);
        image_status_done(&image->status);
        error_done(&image->malformed);
        free(image->key);
        free(image->name);
        free(image->tag);
        free(image);
        return NULL;
}

const char *image_key(const Image *image) {
        return image->key;
}

const char *image_name(const Image *image) {
        return image->name;
}

const char *image_tag(const Image *image) {
        return image->tag;
}

const ImageStatus *image_status(const Image *image) {
        return image->pull ? pull_status(image->pull) : &image->status;
}

const ImageStatus *image_status_for(const Image *image, const char *owner, const char *name) {
        const Want *want = wants_find(&image->wants, owner, name);

        if (want && want->is_served)
                return want->outcome ?: &image->status;

        return want && want->is_in_round && image->pull ? pull_status(image->pull) : NULL;
}

bool image_has_round(const Image *image) {
        return image->pull;
}

ImageNotes *image_notes(Image *image) {
        return &image->notes;
}

const Want *image_wants(const Image *image) {
        return image->wants.first;
}

const Want *image_take_news(Image *image) {
        for (Want *want = image->wants.first; want; want = want->next)
                if (want->is_news) {
                        want->is_news = false;
                        return want;
                }

        return NULL;
}

bool image_is_wanted(const Image *image) {
        return wants_first(&image->wants, want_is_current);
}

const ImageWish *image_wish(const Image *image) {
        return image->wish.name ? &image->wish : NULL;
}

static bool is_covered(const Image *image, const Want *want) {
        return !image->pull || want->is_in_round || pull_covers(image->pull, &want->wish);
}

/* Whoever comes while the round runs is served by it, unless it asks for more. */
static int image_join_round(Image *image) {
        int r;

        for (Want *want = image->wants.first; want; want = want->next) {
                if (!want_is_due(want) || want->is_in_round || !is_covered(image, want))
                        continue;

                want->is_in_round = true;
                want->is_late = pull_status(image->pull)->started_at > 0;
                r = pull_join(image->pull, want->owner);
                if (r < 0)
                        return r;
        }

        return 0;
}

static void on_pull_changed(Pull *pull, void *userdata) {
        Image *image = userdata;

        image->on_dirty(image, image->userdata);
}

static int image_start_round(Image *image, const PullContext *context) {
        cleanup(image_wish_done) ImageWish wish = { .name = NULL };
        const Want *first = wants_first(&image->wants, want_is_due);
        ImageRef ref;
        int r;

        if (!first)
                return 0;

        r = wants_merge(&image->wants, want_is_due, &wish);
        if (r < 0)
                return r;

        r = image_ref_from_node_image(image->name, image->tag, &ref, NULL);
        if (r < 0)
                return r;

        r = pull_new(context, &wish, &ref, first->owner, on_pull_changed, image, &image->pull);
        if (r < 0)
                return r;

        for (Want *want = image->wants.first; want; want = want->next)
                want->is_in_round = want_is_due(want);
        return pull_start(image->pull);
}

static void image_stop_round(Image *image) {
        image->pull = pull_free(image->pull);
        image->must_restart = false;
        for (Want *want = image->wants.first; want; want = want->next)
                want->is_in_round = want->is_late = false;
}

/* A success is one for all in the round. A failure is not for those that have come later and would
 * have been tried with other secrets or for longer: they get a round of their own. */
static bool is_answered(const Image *image, const Want *want) {
        return want->is_in_round && (pull_status(image->pull)->phase == IMAGE_SUCCEEDED ||
                                     pull_fails_for(image->pull, &want->wish, want->is_late));
}

static int image_end_round(Image *image) {
        cleanup(image_status_done) ImageStatus status = { 0 };
        int r;

        r = image_status_copy(pull_status(image->pull), &status);
        if (r < 0)
                return r;

        r = image_set_status(image, &status);
        if (r < 0)
                return r;

        image->notes.has_outcome = true;
        for (Want *want = image->wants.first; want; want = want->next) {
                if (!is_answered(image, want))
                        continue;

                r = want_serve(want, NULL);
                if (r < 0)
                        return r;
                want->is_news = true;
        }
        image_stop_round(image);
        return 0;
}

static bool round_has_wants(const Image *image) {
        for (const Want *want = image->wants.first; want; want = want->next)
                if (want->is_in_round)
                        return true;

        return false;
}

int image_reconcile(Image *image, const PullContext *context) {
        int r;

        if (image->pull && (image->must_restart || !round_has_wants(image)))
                image_stop_round(image);

        /* The outcome is told before the next round changes the status. */
        if (image->pull && image_phase_is_final(pull_status(image->pull)->phase)) {
                r = image_end_round(image);
                image->on_dirty(image, image->userdata);
                return r;
        }

        if (image->pull)
                return image_join_round(image);

        return image_start_round(image, context);
}

int image_runtime_changed(Image *image) {
        return image->pull ? pull_on_runtime_changed(image->pull) : 0;
}
