/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"

/* Keeps the requests of a previous run until their owner makes them again. */
typedef struct RestoredRequest {
        LIST_LINKS(struct RestoredRequest);
        char *owner;
        char *spelling;
        int64_t version;
        bool is_done;
        bool is_expired;
        ImageStatus *outcome;
} RestoredRequest;

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

static void restored_free(Requests *requests, RestoredRequest *restored) {
        list_remove(&requests->restored, restored);
        status_free(restored->outcome);
        free(restored->spelling);
        free(restored->owner);
        free(restored);
}

void requests_remove(Requests *requests, ImageRequest *request) {
        list_remove(&requests->first, request);
        desired_image_done(&request->desired);
        status_free(request->outcome);
        free(request->owner);
        free(request);
}

int request_set_done(ImageRequest *request, const ImageStatus *outcome) {
        ImageStatus *copy;
        int r;

        r = status_new(outcome, &copy);
        if (r < 0)
                return r;

        status_free(request->outcome);
        request->outcome = copy;
        request->is_done = true;
        request->is_syncing = false;
        return 0;
}

int64_t request_ttl_sec(const ImageRequest *request, const ImageStatus *outcome) {
        bool is_for_pin = request->kind == REQUEST_EPHEMERAL &&
                          request->desired.ttl_sec == DESIRED_IMAGE_NO_LIMIT;

        return is_for_pin && outcome->phase == IMAGE_FAILED ? UNPINNED_TTL_SEC
                                                            : request->desired.ttl_sec;
}

/* An outcome of the future is one of a clock that was set back since: it counts as one of now. Both times are cut to
 * whole seconds: one second less may have passed between them, and no time to live is to be shorter than it says. */
int64_t request_end_sec(ImageRequest *request, const ImageStatus *outcome,
                        const RequestClock *now) {
        RequestAge *age = &request->age;
        int64_t passed_sec = now->wall_sec - outcome->completed_at - 1;

        if (!age->is_known || age->completed_at != outcome->completed_at)
                *age = (RequestAge){
                        .is_known = true,
                        .completed_at = outcome->completed_at,
                        .monotonic_sec = now->monotonic_sec - (passed_sec > 0 ? passed_sec : 0),
                };
        return age->monotonic_sec + request_ttl_sec(request, outcome);
}

void request_renew(ImageRequest *request) {
        request->outcome = status_free(request->outcome);
        request->is_done = request->is_expired = request->is_unreported = request->has_own_outcome =
                false;
        request->is_syncing = request->must_repull = request->age.is_known = false;
}

int requests_keep_outcome(const Requests *requests, const ImageStatus *status) {
        for (ImageRequest *request = requests->first; request; request = request->next) {
                int r;

                if (!request->is_done || request->outcome)
                        continue;

                r = status_new(status, &request->outcome);
                if (r < 0)
                        return r;
        }

        return 0;
}

void requests_forget_restored(Requests *requests) {
        while (requests->restored)
                restored_free(requests, requests->restored);
}

void requests_done(Requests *requests) {
        while (requests->first)
                requests_remove(requests, requests->first);
        requests_forget_restored(requests);
}

bool request_is_current(const ImageRequest *request) {
        return !request->is_expired;
}

bool request_is_due(const ImageRequest *request) {
        return !request->is_expired && (!request->is_done || request->must_repull);
}

bool request_is_urgent(const ImageRequest *request) {
        return request_is_due(request) && !request->must_repull;
}

const ImageRequest *requests_first(const Requests *requests, RequestFilter filter) {
        const ImageRequest *request = requests->first;

        while (request && !filter(request))
                request = request->next;
        return request;
}

int requests_merge(const Requests *requests, RequestFilter filter, DesiredImage *ret) {
        cleanup(free_p) const DesiredImage **desired_images = NULL;
        size_t n = 0;

        for (const ImageRequest *request = requests->first; request; request = request->next)
                n++;
        desired_images = calloc(n + 1, sizeof(desired_images[0]));
        if (!desired_images)
                return -ENOMEM;

        n = 0;
        for (const ImageRequest *request = requests->first; request; request = request->next)
                if (filter(request))
                        desired_images[n++] = &request->desired;

        *ret = (DesiredImage){ .name = NULL };
        return n > 0 ? desired_image_merge(desired_images, n, ret) : 0;
}

ImageRequest *requests_find(const Requests *requests, const char *owner, const char *name) {
        for (ImageRequest *request = requests->first; request; request = request->next)
                if (strcmp(request->owner, owner) == 0 && strcmp(request->desired.name, name) == 0)
                        return request;

        return NULL;
}

static void insert_sorted(Requests *requests, ImageRequest *request) {
        ImageRequest *previous = NULL;

        for (ImageRequest *w = requests->first; w && strcmp(w->owner, request->owner) <= 0;
             w = w->next)
                previous = w;
        if (!previous) {
                list_prepend(&requests->first, request);
                return;
        }

        request->previous = previous;
        request->next = previous->next;
        if (request->next)
                request->next->previous = request;
        previous->next = request;
}

int requests_add(Requests *requests, const char *owner, ImageRequest **ret) {
        ImageRequest *request;

        request = calloc(1, sizeof(*request));
        if (!request)
                return -ENOMEM;

        request->owner = strdup(owner);
        if (!request->owner) {
                free(request);
                return -ENOMEM;
        }

        insert_sorted(requests, request);
        *ret = request;
        return 0;
}

int requests_restore(Requests *requests, const FormerRequest *former) {
        RestoredRequest *restored;

        restored = calloc(1, sizeof(*restored));
        if (!restored)
                return -ENOMEM;

        restored->version = former->version;
        restored->is_done = former->is_done;
        restored->is_expired = former->is_expired;
        list_prepend(&requests->restored, restored);
        if (text_copy(former->owner, &restored->owner) < 0 ||
            text_copy(former->spelling, &restored->spelling) < 0 ||
            status_new(former->outcome, &restored->outcome) < 0) {
                restored_free(requests, restored);
                return -ENOMEM;
        }

        return 0;
}

static bool is_same_owner(const RestoredRequest *restored, const ImageRequest *request) {
        return strcmp(restored->owner, request->owner) == 0;
}

static bool is_same_spelling(const RestoredRequest *restored, const ImageRequest *request) {
        return text_equal(restored->spelling, request->desired.name);
}

static bool had_spelling(const Requests *requests, const ImageRequest *request) {
        for (const RestoredRequest *restored = requests->restored; restored;
             restored = restored->next)
                if (is_same_owner(restored, request) && is_same_spelling(restored, request))
                        return true;

        return false;
}

int requests_apply_restored(const Requests *requests, ImageRequest *request) {
        bool is_spelled = had_spelling(requests, request);

        for (const RestoredRequest *restored = requests->restored; restored;
             restored = restored->next) {
                int r;

                if (!restored->is_done || !is_same_owner(restored, request) ||
                    restored->version != request->desired.version ||
                    (is_spelled && restored->spelling && !is_same_spelling(restored, request)))
                        continue;

                request->is_expired = request->is_expired || restored->is_expired;
                r = request_set_done(request, restored->outcome ?: request->outcome);
                if (r < 0)
                        return r;
        }

        return 0;
}

int requests_apply_respelled(const Requests *requests, ImageRequest *request) {
        for (const ImageRequest *other = requests->first; other; other = other->next) {
                if (!other->is_done || other->is_seen || request->is_done ||
                    strcmp(other->owner, request->owner) != 0 ||
                    other->desired.version != request->desired.version)
                        continue;

                request->is_expired = other->is_expired;
                request->is_unreported = other->is_unreported;
                request->has_own_outcome = other->has_own_outcome;
                request->must_repull = other->must_repull;
                return request_set_done(request, other->outcome);
        }

        return 0;
}

void requests_share_outcome(const Requests *requests) {
        for (ImageRequest *request = requests->first; request; request = request->next)
                if (request->kind == REQUEST_DESIRED && request->outcome &&
                    request->outcome->phase == IMAGE_SUCCEEDED)
                        request->outcome = status_free(request->outcome);
}
