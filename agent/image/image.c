/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/image/desired-image.h"

/* What a previous run of the agent has served, until its owner comes back for it. */
typedef struct Served {
        LIST_LINKS(struct Served);
        char *owner;
        int64_t version;
        bool is_expired;
        ImageStatus *outcome;
} Served;

/* All zero: nobody wants it. */
typedef struct Wants {
        Want *first; /* sorted by owner */
        Served *served;
} Wants;

typedef bool (*WantFilter)(const Want *want);

struct Image {
        ImageDirty on_dirty;
        void *userdata;

        char *key;
        char *name;
        char *tag;
        Error malformed; /* why the reference is none */

        Wants wants;
        bool must_restart;
        ImageNotes notes;
        DesiredImage desired; /* all wants together; without a name if there are none */

        Pull *pull;
        ImageStatus status; /* of the last round that ended */
};

DEFINE_CLEANUP(Image *, image_free)

/* The wants of one image */

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

static void wants_remove(Wants *wants, Want *want) {
        list_remove(&wants->first, want);
        desired_image_done(&want->desired);
        status_free(want->outcome);
        free(want->owner);
        free(want);
}

/* The want has been served, with this outcome; NULL: it is the image's status. Copied. */
static int want_serve(Want *want, const ImageStatus *outcome) {
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

/* It has to be served anew. */
static void want_renew(Want *want) {
        want->outcome = status_free(want->outcome);
        want->is_served = want->is_expired = want->is_news = want->is_refused = false;
}

/* The image's status, which so far was their outcome as well, is about to become another one. */
static int wants_keep_outcome(const Wants *wants, const ImageStatus *status) {
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

static void wants_forget(Wants *wants) {
        while (wants->served)
                served_free(wants, wants->served);
}

static void wants_done(Wants *wants) {
        while (wants->first)
                wants_remove(wants, wants->first);
        wants_forget(wants);
}

static bool want_is_current(const Want *want) {
        return !want->is_expired;
}

/* Not expired, nor served. */
static bool want_is_due(const Want *want) {
        return !want->is_expired && !want->is_served;
}

static const Want *wants_first(const Wants *wants, WantFilter filter) {
        const Want *want = wants->first;

        while (want && !filter(want))
                want = want->next;
        return want;
}

/* All that pass as one desired image; without a name if none does. */
static int wants_merge(const Wants *wants, WantFilter filter, DesiredImage *ret) {
        cleanup(free_p) const DesiredImage **desired_images = NULL;
        size_t n = 0;

        for (const Want *want = wants->first; want; want = want->next)
                n++;
        desired_images = calloc(n + 1, sizeof(desired_images[0]));
        if (!desired_images)
                return -ENOMEM;

        n = 0;
        for (const Want *want = wants->first; want; want = want->next)
                if (filter(want))
                        desired_images[n++] = &want->desired;

        *ret = (DesiredImage){ .name = NULL };
        return n > 0 ? desired_image_merge(desired_images, n, ret) : 0;
}

static Want *wants_find(const Wants *wants, const char *owner, const char *name) {
        for (Want *want = wants->first; want; want = want->next)
                if (strcmp(want->owner, owner) == 0 && strcmp(want->desired.name, name) == 0)
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

/* A want without a desired image yet. */
static int wants_add(Wants *wants, const char *owner, Want **ret) {
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

/* The owner has been served this version before; outcome is as in want_serve(). */
static int wants_remember(Wants *wants, const char *owner, int64_t version, bool is_expired,
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

/* Gives the want what is remembered for its owner. */
static int wants_claim(const Wants *wants, Want *want) {
        for (const Served *served = wants->served; served; served = served->next) {
                int r;

                if (strcmp(served->owner, want->owner) != 0 ||
                    served->version != want->desired.version)
                        continue;

                want->is_expired = want->is_expired || served->is_expired;
                r = want_serve(want, served->outcome ?: want->outcome);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* The image */

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
        desired_image_done(&image->desired);
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

const DesiredImage *desired_image(const Image *image) {
        return image->desired.name ? &image->desired : NULL;
}

void image_restore_status(Image *image, ImageStatus *status) {
        image_status_done(&image->status);
        image->status = *status;
        *status = (ImageStatus){ 0 };
}

/* Another round has ended, or something like it: takes its status over. Whom the last one has served
 * keeps what it was. */
static int image_set_status(Image *image, ImageStatus *status) {
        int r;

        r = wants_keep_outcome(&image->wants, &image->status);
        if (r < 0)
                return r;

        image_restore_status(image, status);
        return 0;
}

/* To be called after each change of the wants. */
static int image_update_desired(Image *image) {
        DesiredImage desired;
        int r;

        r = wants_merge(&image->wants, want_is_current, &desired);
        if (r < 0)
                return r;

        desired_image_done(&image->desired);
        image->desired = desired;
        image->on_dirty(image, image->userdata);
        return 0;
}

/* Nothing can be done about it before it is written differently. */
static int image_refuse(Image *image, Want *want) {
        cleanup(image_status_done) ImageStatus status = { .phase = IMAGE_FAILED };
        bool is_malformed = image->malformed.kind != ERROR_NONE;
        int r;

        status.version = want->desired.version;
        status.started_at = status.completed_at = time(NULL);
        r = image_status_set_failure(
                &status, is_malformed ? PULL_REASON_INVALID_REFERENCE : PULL_REASON_INVALID_SPEC,
                is_malformed ? error_message(&image->malformed) : want->desired.fault, 1, 1);
        if (r < 0)
                return r;

        want->is_news = want->is_refused = true;
        if (!is_malformed && (image->pull || image_phase_is_final(image->status.phase)))
                return want_serve(want, &status);

        r = image_set_status(image, &status);
        return r < 0 ? r : want_serve(want, NULL);
}

static bool is_refused(const Image *image, const Want *want) {
        return !want->is_served && (image->malformed.kind != ERROR_NONE || want->desired.fault);
}

int image_set_want(Image *image, const char *owner, const DesiredImage *desired,
                   bool is_transient) {
        Want *want = wants_find(&image->wants, owner, desired->name);
        bool is_new = !want;
        DesiredImage copy;
        int r;

        if (want && desired_image_equal(&want->desired, desired)) {
                want->is_seen = true;
                return 0;
        }

        r = desired_image_copy(desired, &copy);
        if (r < 0)
                return r;

        if (is_new) {
                r = wants_add(&image->wants, owner, &want);
                if (r < 0) {
                        desired_image_done(&copy);
                        return r;
                }
        } else if (want->desired.version != desired->version) {
                image->must_restart = image->must_restart || want->is_in_round;
                want_renew(want);
        }

        desired_image_done(&want->desired);
        want->desired = copy;
        want->is_transient = is_transient;
        want->is_seen = true;
        if (is_new)
                r = wants_claim(&image->wants, want);
        if (r >= 0 && is_refused(image, want))
                r = image_refuse(image, want);
        return r < 0 ? r : image_update_desired(image);
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

        return is_changed ? image_update_desired(image) : 0;
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

        r = n > 0 ? image_update_desired(image) : 0;
        return r < 0 ? r : n;
}

int image_restore_served(Image *image, const char *owner, int64_t version, bool is_expired,
                         const ImageStatus *outcome) {
        return wants_remember(&image->wants, owner, version, is_expired, outcome);
}

void image_restore_end(Image *image) {
        wants_forget(&image->wants);
}

int image_settle(Image *image, const char *owner, const char *name, int64_t version,
                 ImageStatus *status) {
        Want *want = wants_find(&image->wants, owner, name);
        int r;

        if (!want || want->desired.version != version || (want->is_served && !want->is_news))
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
                int64_t end = outcome->completed_at + want->desired.ttl_sec;

                next = want->next;
                if (!want->is_served || want->is_expired ||
                    want->desired.ttl_sec == DESIRED_IMAGE_NO_LIMIT)
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

        return is_changed ? image_update_desired(image) : 0;
}

/* Its rounds */

static bool is_covered(const Image *image, const Want *want) {
        return !image->pull || want->is_in_round || pull_covers(image->pull, &want->desired);
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
        cleanup(desired_image_done) DesiredImage desired = { .name = NULL };
        const Want *first = wants_first(&image->wants, want_is_due);
        ImageRef ref;
        int r;

        if (!first)
                return 0;

        r = wants_merge(&image->wants, want_is_due, &desired);
        if (r < 0)
                return r;

        r = image_ref_from_node_image(image->name, image->tag, &ref, NULL);
        if (r < 0)
                return r;

        r = pull_new(context, &desired, &ref, first->owner, on_pull_changed, image, &image->pull);
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
                                     pull_fails_for(image->pull, &want->desired, want->is_late));
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
