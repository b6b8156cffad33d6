/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/image/desired-image.h"
#include "agent/image/presence-plan.h"

struct Image {
        ImageDirty on_dirty;
        void *userdata;

        char *key;
        char *name;
        char *tag;
        Error malformed; /* reason why the reference is malformed */

        Requests requests;
        ImageMarks marks;
        DesiredImage desired; /* merged requests; without a name: there are none */

        Pull *pull;
        ImageStatus status; /* status of the last sync that ended */
        unsigned n_removals;
};

DEFINE_CLEANUP(Image *, image_free)

static int image_identify(Image *image, const char *name, const char *tag, ShortNames short_names) {
        ImageRef ref;
        int r;

        r = image_ref_from_node_image(name, tag, short_names, &ref, &image->malformed);
        if (image->malformed.kind != ERROR_NONE) {
                image->name = strdup(name);
                image->tag = strdup(tag);
                return image->name && image->tag ? 0 : -ENOMEM;
        }
        if (r < 0)
                return r;

        image->tag = strdup(image_ref_tag_or_digest(&ref));
        return image->tag ? image_ref_shown_name(&ref, short_names, &image->name) : -ENOMEM;
}

/* Reads the reference of a well-formed image: its key can be parsed whatever short names mean. */
static int image_ref_of(const Image *image, ImageRef *ret) {
        return image_ref_parse(image->key, SHORT_NAMES_SEARCHED, ret, NULL);
}

int image_rename(Image *image, ShortNames short_names) {
        ImageRef ref;
        char *name;
        int r;

        if (image->malformed.kind != ERROR_NONE)
                return 0;

        r = image_ref_of(image, &ref);
        if (r >= 0)
                r = image_ref_shown_name(&ref, short_names, &name);
        if (r < 0)
                return r;

        free(image->name);
        image->name = name;
        image->on_dirty(image, image->userdata);
        return 0;
}

int image_key_of(const char *name, const char *tag, ShortNames short_names, char **ret) {
        cleanup(error_done) Error error = ERROR_INIT;
        ImageRef ref;

        if (image_ref_from_node_image(name, tag, short_names, &ref, &error) >= 0)
                return image_ref_canonical_reference(&ref, ret);
        if (error.kind == ERROR_NONE)
                return -ENOMEM;

        return text_format(ret, " %zu %s %s", strlen(name), name, tag);
}

int image_new(const char *name, const char *tag, ShortNames short_names, ImageDirty on_dirty,
              void *userdata, Image **ret) {
        cleanup(image_free_p) Image *image = NULL;
        int r;

        image = calloc(1, sizeof(*image));
        if (!image)
                return -ENOMEM;

        image->on_dirty = on_dirty;
        image->userdata = userdata;
        r = image_key_of(name, tag, short_names, &image->key);
        if (r < 0)
                return r;

        r = image_identify(image, name, tag, short_names);
        if (r < 0)
                return r;

        *ret = take_ptr(image);
        return 0;
}

Image *image_free(Image *image) {
        if (!image)
                return NULL;

        pull_free(image->pull);
        requests_done(&image->requests);
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
        const ImageRequest *request = requests_find(&image->requests, owner, name);

        if (request && request->is_done)
                return request->outcome ?: &image->status;

        return request && request->is_syncing && image->pull ? pull_status(image->pull) : NULL;
}

bool image_is_syncing(const Image *image) {
        return image->pull;
}

ImageMarks *image_marks(Image *image) {
        return &image->marks;
}

const ImageRequest *image_requests(const Image *image) {
        return image->requests.first;
}

const ImageRequest *image_take_result(Image *image) {
        for (ImageRequest *request = image->requests.first; request; request = request->next)
                if (request->is_unreported) {
                        request->is_unreported = false;
                        return request;
                }

        return NULL;
}

bool image_is_desired(const Image *image) {
        return requests_first(&image->requests, request_is_current);
}

const DesiredImage *desired_image(const Image *image) {
        return image->desired.name ? &image->desired : NULL;
}

void image_restore_status(Image *image, ImageStatus *status) {
        image_status_done(&image->status);
        image->status = *status;
        *status = (ImageStatus){ 0 };
}

/* Takes over the status of a sync that ended, or an equivalent status. Done requests keep the old
 * one. */
static int image_set_status(Image *image, ImageStatus *status) {
        int r;

        r = requests_keep_outcome(&image->requests, &image->status);
        if (r < 0)
                return r;

        image_restore_status(image, status);
        return 0;
}

/* Merges the current requests. To be called after each change of them. */
static int image_update_desired(Image *image) {
        DesiredImage desired;
        int r;

        r = requests_merge(&image->requests, request_is_current, &desired);
        if (r < 0)
                return r;

        desired_image_done(&image->desired);
        image->desired = desired;
        image->on_dirty(image, image->userdata);
        return 0;
}

/* Fails the request, which cannot succeed until its owner changes it. */
static int image_refuse(Image *image, ImageRequest *request) {
        cleanup(image_status_done) ImageStatus status = { .phase = IMAGE_FAILED };
        bool is_malformed = image->malformed.kind != ERROR_NONE;
        int r;

        status.version = request->desired.version;
        status.started_at = status.completed_at = time(NULL);
        r = image_status_set_failure(
                &status, is_malformed ? PULL_REASON_INVALID_REFERENCE : PULL_REASON_INVALID_SPEC,
                is_malformed ? error_message(&image->malformed) : request->desired.fault, 1, 1);
        if (r < 0)
                return r;

        request->is_unreported = request->has_own_outcome = true;
        if (!is_malformed && (image->pull || image->status.phase != IMAGE_WAITING))
                return request_set_done(request, &status);

        r = image_set_status(image, &status);
        return r < 0 ? r : request_set_done(request, NULL);
}

static bool has_fault(const Image *image, const ImageRequest *request) {
        return image->malformed.kind != ERROR_NONE || request->desired.fault;
}

static const ImageStatus *outcome_of(const Image *image, const ImageRequest *request) {
        return request->outcome ?: &image->status;
}

/* Whether an owner has the image by a success, or had it until it was removed and is not to be pulled again. */
static bool image_has_success(const Image *image) {
        bool is_missing = image->status.phase == IMAGE_MISSING;

        if (!is_missing && image->status.phase != IMAGE_SUCCEEDED)
                return false;

        for (const ImageRequest *request = image->requests.first; request; request = request->next)
                if (request->is_done && !request->is_expired &&
                    !(is_missing && request->must_repull) &&
                    outcome_of(image, request)->phase == IMAGE_SUCCEEDED)
                        return true;

        return false;
}

/* Takes over an outcome. A failure is that of its requests alone, and 1 is returned, while an owner has the image:
 * that success remains, to be verified, since presence watches over nothing else. */
static int image_take_end(Image *image, ImageStatus *status) {
        if (status->phase != IMAGE_FAILED || !image_has_success(image))
                return image_set_status(image, status);

        image->marks.is_unverified = true;
        image->on_dirty(image, image->userdata);
        return 1;
}

/* Ends the request with an outcome. */
static int image_end_request(Image *image, ImageRequest *request, ImageStatus *status) {
        int r = image_take_end(image, status);

        return r < 0 ? r : request_set_done(request, r > 0 ? status : NULL);
}

static bool has_failed(const Image *image, const ImageRequest *request) {
        return request->is_done && !request->is_expired &&
               outcome_of(image, request)->phase == IMAGE_FAILED;
}

/* Whether a previous run gave up a request that this run does not limit. A caller has got its answer. */
static bool must_go_on(const Image *image, const ImageRequest *request) {
        return request->kind != REQUEST_EPHEMERAL && has_failed(image, request) &&
               !has_fault(image, request) &&
               request->desired.backoff_limit == DESIRED_IMAGE_NO_LIMIT &&
               request->desired.refusal_limit == DESIRED_IMAGE_NO_LIMIT &&
               request->desired.active_deadline_sec == DESIRED_IMAGE_NO_LIMIT &&
               pull_reason_remedy(outcome_of(image, request)->reason) != PULL_REMEDY_NONE;
}

int image_set_request(Image *image, const char *owner, const DesiredImage *desired,
                      RequestKind kind) {
        ImageRequest *request = requests_find(&image->requests, owner, desired->name);
        bool is_new = !request, is_other = request && request->kind != kind;
        DesiredImage copy;
        int r;

        if (request && desired_image_equal(&request->desired, desired)) {
                request->kind = kind;
                request->is_seen = true;
                return is_other && request->is_done;
        }

        r = desired_image_copy(desired, &copy);
        if (r < 0)
                return r;

        if (is_new) {
                r = requests_add(&image->requests, owner, &request);
                if (r < 0) {
                        desired_image_done(&copy);
                        return r;
                }
        } else if (request->desired.version != desired->version) {
                request_renew(request); /* the sync goes on for others */
        } else if (!request->is_done) {
                request->must_repull = false; /* a change does not wait because of a removal */
        }

        desired_image_done(&request->desired);
        request->desired = copy;
        request->kind = kind;
        request->is_seen = true;
        if (is_new)
                r = requests_apply_restored(&image->requests, request)
                            ?: requests_apply_respelled(&image->requests, request);
        if (r >= 0 && is_new && must_go_on(image, request))
                request_renew(request);
        if (r >= 0 && !request->is_done && has_fault(image, request))
                r = image_refuse(image, request);
        if (r >= 0)
                r = image_update_desired(image);
        return r < 0 ? r : is_other && request->is_done;
}

int image_sweep_requests(Image *image, const char *owner) {
        bool is_changed = false;
        ImageRequest *next;

        for (ImageRequest *request = image->requests.first; request; request = next) {
                next = request->next;
                if (strcmp(request->owner, owner) != 0)
                        continue;

                if (!request->is_seen) {
                        requests_remove(&image->requests, request);
                        is_changed = true;
                        continue;
                }
                request->is_seen = false;
        }

        return is_changed ? image_update_desired(image) : 0;
}

int image_move_request(Image *image, const ImageRequest *request, Image *to) {
        int r;

        r = image_set_request(to, request->owner, &request->desired, request->kind);
        if (r < 0)
                return r;

        requests_find(&to->requests, request->owner, request->desired.name)->is_seen = false;
        requests_remove(&image->requests, (ImageRequest *) request);
        return image_update_desired(image);
}

int image_withdraw(Image *image, const char *owner) {
        ImageRequest *next;
        int n = 0;
        int r;

        for (ImageRequest *request = image->requests.first; request; request = next) {
                next = request->next;
                if (request->is_done || strcmp(request->owner, owner) != 0)
                        continue;

                requests_remove(&image->requests, request);
                n++;
        }

        r = n > 0 ? image_update_desired(image) : 0;
        return r < 0 ? r : n;
}

static bool image_retry_one(Image *image, ImageRequest *request) {
        if (request->is_syncing)
                return image->pull && pull_retry(image->pull);
        if (!has_failed(image, request) || has_fault(image, request))
                return false;

        request_renew(request);
        return true;
}

int image_retry(Image *image, ImageRequestFilter filter, const void *userdata) {
        bool is_retried = false;
        int r = 0;

        for (ImageRequest *request = image->requests.first; request; request = request->next)
                if (filter(request, userdata) && image_retry_one(image, request))
                        is_retried = true;

        if (is_retried)
                r = image_update_desired(image);
        return r < 0 ? r : is_retried;
}

bool image_wants_pin(const Image *image) {
        return image->desired.name && image->desired.is_pinned &&
               image->malformed.kind == ERROR_NONE;
}

/* A request that wants to read what the tag stands for has no other place for it. */
int image_set_pin(Image *image, const char *why_not) {
        int r;

        if (image->pull || image->status.phase != IMAGE_SUCCEEDED || image->desired.is_resolved ||
            text_equal(image->status.pin, why_not))
                return 0;

        r = text_set(&image->status.pin, why_not);
        if (r < 0)
                return r;

        image->on_dirty(image, image->userdata);
        return 1;
}

int image_unpin(Image *image, ImageRequestFilter filter, const void *userdata) {
        int n = 0, r;

        for (ImageRequest *request = image->requests.first; request; request = request->next) {
                if (!request->desired.is_pinned || !filter(request, userdata))
                        continue;

                request->desired.is_pinned = false;
                if (request->desired.ttl_sec == DESIRED_IMAGE_NO_LIMIT)
                        request->desired.ttl_sec = UNPINNED_TTL_SEC;
                n++;
        }

        r = n > 0 ? image_update_desired(image) : 0;
        return r < 0 ? r : n;
}

Pull *image_pull(const Image *image) {
        return image->pull;
}

int image_restore_request(Image *image, const FormerRequest *former) {
        return requests_restore(&image->requests, former);
}

void image_restore_end(Image *image) {
        requests_forget_restored(&image->requests);
}

int image_set_done(Image *image, const char *owner, const char *name, int64_t version,
                   ImageStatus *status) {
        ImageRequest *request = requests_find(&image->requests, owner, name);
        int r;

        if (!request || request->desired.version != version ||
            (request->is_done && !request->is_unreported))
                return 0;

        r = image_end_request(image, request, status);
        if (r < 0)
                return r;

        request->is_unreported = false;
        image->marks.is_unverified = image->status.phase == IMAGE_SUCCEEDED;
        image->on_dirty(image, image->userdata);
        return 1;
}

/* Syncs of the image */

static bool is_covered(const Image *image, const ImageRequest *request) {
        return !image->pull || request->is_syncing || pull_covers(image->pull, &request->desired);
}

/* Starts the request's next attempt at once. If a few refusals end the request, the pull gets the
 * pauses of a new one, because a caller waits for that end. */
static void image_hurry(Image *image, const ImageRequest *request) {
        if (request->desired.refusal_limit == DESIRED_IMAGE_NO_LIMIT)
                (void) pull_kick(image->pull);
        else
                (void) pull_retry(image->pull);
}

/* Lets new requests join a running sync, unless they ask for more. They do not wait for the end of
 * a pause. */
static int image_join_sync(Image *image) {
        int r;

        for (ImageRequest *request = image->requests.first; request; request = request->next) {
                PullResult result;

                if (!request_is_due(request) || request->is_syncing || !is_covered(image, request))
                        continue;

                result = pull_result(image->pull);
                request->is_syncing = true;
                request->join = (PullJoin){
                        .joined_running = result.is_timed,
                        .elapsed_before_join = result.elapsed_usec,
                        .failures_before_join = result.failures,
                };
                r = pull_join(image->pull, request->owner);
                if (r < 0)
                        return r;
                image_hurry(image, request);
        }

        return 0;
}

static bool request_is_syncing(const ImageRequest *request) {
        return request->is_syncing;
}

static void on_pull_changed(Pull *pull, void *userdata) {
        Image *image = userdata;

        image->on_dirty(image, image->userdata);
}

/* Without a caller who awaits its outcome, a pull has no limit of attempts. */
static int image_merge(const Image *image, RequestFilter filter, DesiredImage *ret) {
        int r;

        r = requests_merge(&image->requests, filter, ret);
        for (const ImageRequest *request = image->requests.first; r >= 0 && request;
             request = request->next)
                if (filter(request) && request->is_done)
                        ret->backoff_limit = ret->refusal_limit = ret->active_deadline_sec =
                                DESIRED_IMAGE_NO_LIMIT;
        return r;
}

/* Does not pull a removed image again at once, unless a new request comes. */
static int image_start_pull(Image *image) {
        if (image->status.phase != IMAGE_MISSING ||
            requests_first(&image->requests, request_is_urgent))
                return pull_start(image->pull);

        return pull_start_later(image->pull, &image->status,
                                presence_pause_usec(image->n_removals, random_number()));
}

static int image_start_sync(Image *image, const PullContext *context) {
        cleanup(desired_image_done) DesiredImage desired = { .name = NULL };
        const ImageRequest *first = requests_first(&image->requests, request_is_due);
        ImageRef ref;
        int r;

        if (!first)
                return 0;

        r = image_merge(image, request_is_due, &desired);
        if (r < 0)
                return r;

        r = image_ref_of(image, &ref);
        if (r < 0)
                return r;

        r = pull_new(context, &desired, &ref, first->owner, on_pull_changed, image, &image->pull);
        if (r < 0)
                return r;

        for (ImageRequest *request = image->requests.first; request; request = request->next) {
                request->is_syncing = request_is_due(request);
                request->join = (PullJoin){ .joined_running = false };
        }
        return image_start_pull(image);
}

static void image_stop_sync(Image *image) {
        image->pull = pull_free(image->pull);
        for (ImageRequest *request = image->requests.first; request; request = request->next)
                request->is_syncing = false;
}

/* Decides for a request, which is pending if it has not joined the pull. */
static RequestOutcome request_outcome(const ImageRequest *request, const Pull *pull) {
        const PullResult result = pull_result(pull);

        return request->is_syncing ? pull_plan_outcome(&result, &request->join, &request->desired)
                                   : REQUEST_PENDING;
}

/* Ends the requests to which the end of the pull applies; the others get their own sync. */
static int image_end_sync(Image *image) {
        cleanup(image_status_done) ImageStatus status = { 0 };
        bool is_own;
        RequestOutcome outcome = pull_status(image->pull)->phase == IMAGE_SUCCEEDED
                                         ? REQUEST_SUCCEEDED
                                         : REQUEST_FAILED;
        int r;

        r = image_status_copy(pull_status(image->pull), &status);
        if (r < 0)
                return r;

        r = image_take_end(image, &status);
        if (r < 0)
                return r;

        is_own = r > 0;
        image->marks.has_outcome = !is_own;
        for (ImageRequest *request = image->requests.first; request; request = request->next) {
                if (request_outcome(request, image->pull) != outcome)
                        continue;

                request->must_repull = false;
                if (request->is_done) /* the request had its outcome before */
                        continue;

                r = request_set_done(request, is_own ? &status : NULL);
                if (r < 0)
                        return r;
                request->is_unreported = true;
                request->has_own_outcome = is_own;
        }
        image_stop_sync(image);
        return 0;
}

static bool has_syncing_requests(const Image *image) {
        for (const ImageRequest *request = image->requests.first; request; request = request->next)
                if (request->is_syncing)
                        return true;

        return false;
}

/* Whether the pull would go on without what a request has brought since it began. Nothing else would
 * end a pull without a limit of attempts. */
static int image_lacks_anything(const Image *image, bool *ret) {
        cleanup(desired_image_done) DesiredImage due = { .name = NULL };
        int r;

        *ret = false;
        if (!pull_is_backing_off(image->pull))
                return 0;

        r = image_merge(image, request_is_due, &due);
        if (r >= 0)
                *ret = due.name && pull_lacks(image->pull, &due);
        return r;
}

/* A request that has left takes with it the time that it gave the pull. */
static int image_narrow_sync(Image *image) {
        cleanup(desired_image_done) DesiredImage rest = { .name = NULL };
        int r;

        r = image_merge(image, request_is_syncing, &rest);
        return r < 0 ? r : pull_narrow(image->pull, &rest);
}

/* Makes the outcome of a pull that has ended for some requests but goes on for others. */
static int image_make_outcome(const Image *image, ImagePhase phase, ImageStatus *status) {
        int r;

        r = image_status_copy(pull_status(image->pull), status);
        if (r < 0)
                return r;

        status->phase = phase;
        status->step = IMAGE_STEP_NONE;
        status->completed_at = time(NULL);
        status->next_attempt_at = 0;
        return phase == IMAGE_SUCCEEDED ? image_status_set_success(status) : 0;
}

/* Ends the requests that have this outcome now, while the pull goes on for others or ends otherwise. */
static int image_end_some(Image *image, RequestOutcome outcome) {
        ImagePhase phase = outcome == REQUEST_SUCCEEDED ? IMAGE_SUCCEEDED : IMAGE_FAILED;
        cleanup(image_status_done) ImageStatus status = { 0 };
        bool is_taken = false, is_own = false;
        int r;

        for (ImageRequest *request = image->requests.first; request; request = request->next) {
                if (request->is_done || request_outcome(request, image->pull) != outcome)
                        continue;

                if (!is_taken) {
                        r = image_make_outcome(image, phase, &status);
                        if (r >= 0)
                                r = image_take_end(image, &status);
                        if (r < 0)
                                return r;
                        is_taken = true;
                        is_own = r > 0;
                }
                r = request_set_done(request, is_own ? &status : NULL);
                if (r < 0)
                        return r;

                request->is_unreported = request->has_own_outcome = true;
        }

        return 0;
}

/* Returns the rest of the request's own time in a pull that runs; UINT64_MAX: there is no end. */
static uint64_t request_left_usec(const Image *image, const ImageRequest *request) {
        PullResult result;

        if (request->is_done || !request->is_syncing)
                return UINT64_MAX;

        result = pull_result(image->pull);
        return image_phase_is_final(result.phase)
                       ? UINT64_MAX
                       : pull_plan_left_usec(&result, &request->join, &request->desired);
}

/* Ends the requests whose own time is over, while the pull goes on for more patient ones. */
static int image_end_late(Image *image) {
        int r = 0;

        for (ImageRequest *request = image->requests.first; r >= 0 && request;
             request = request->next) {
                cleanup(image_status_done) ImageStatus status = { 0 };

                if (request_left_usec(image, request) > 0)
                        continue;

                r = image_make_outcome(image, IMAGE_FAILED, &status)
                            ?: image_status_set_past_deadline(&status,
                                                              request->desired.active_deadline_sec);
                if (r >= 0)
                        r = image_end_request(image, request, &status);
                request->is_unreported = request->has_own_outcome = true;
        }

        return r;
}

/* The outcome is reported before the next sync changes the status. */
static int image_settle(Image *image) {
        ImagePhase phase = pull_status(image->pull)->phase;
        int r;

        r = phase == IMAGE_SUCCEEDED ? 0 : image_end_some(image, REQUEST_SUCCEEDED);
        if (r < 0)
                return r;
        if (!image_phase_is_final(phase)) {
                r = image_end_some(image, REQUEST_FAILED);
                return r < 0 ? r : image_end_late(image);
        }
        if (!has_syncing_requests(image))
                return 0;

        image->on_dirty(image, image->userdata);
        return image_end_sync(image);
}

int image_reconcile(Image *image, const PullContext *context) {
        int r;

        if (image->pull) {
                bool lacks;

                r = image_settle(image);
                if (r < 0 || !image->pull)
                        return r;
                r = image_lacks_anything(image, &lacks);
                if (r < 0)
                        return r;
                if (!has_syncing_requests(image) || lacks)
                        image_stop_sync(image);
        }
        if (!image->pull)
                return image_start_sync(image, context);

        r = image_narrow_sync(image);
        return r < 0 ? r : image_join_sync(image);
}

int image_expire(Image *image, const RequestClock *now, int64_t *ret_next) {
        bool is_changed = false;
        ImageRequest *next;

        *ret_next = INT64_MAX;
        for (ImageRequest *request = image->requests.first; request; request = next) {
                const ImageStatus *outcome = outcome_of(image, request);
                uint64_t left_usec = request_left_usec(image, request);
                int64_t end;

                next = request->next;
                if (left_usec == 0)
                        image->on_dirty(image, image->userdata);
                if (left_usec > 0 && left_usec != UINT64_MAX) {
                        end = now->monotonic_sec + (int64_t) (left_usec / USEC_PER_SEC) + 1;
                        *ret_next = end < *ret_next ? end : *ret_next;
                }
                if (!request->is_done || request->is_expired ||
                    request_ttl_sec(request, outcome) == DESIRED_IMAGE_NO_LIMIT)
                        continue;

                end = request_end_sec(request, outcome, now);
                if (end > now->monotonic_sec) {
                        *ret_next = end < *ret_next ? end : *ret_next;
                        continue;
                }

                is_changed = true;
                request->is_expired = true;
                request->is_syncing = false;
                if (request->kind == REQUEST_EPHEMERAL)
                        requests_remove(&image->requests, request);
        }

        return is_changed ? image_update_desired(image) : 0;
}

int image_runtime_changed(Image *image) {
        return image->pull ? pull_on_runtime_changed(image->pull) : 0;
}

/* Presence of the image */

bool image_is_verifiable(const Image *image) {
        const ImageStatus *status = image_status(image);

        return image_is_desired(image) && image->malformed.kind == ERROR_NONE &&
               (status->phase == IMAGE_MISSING ||
                (status->phase == IMAGE_SUCCEEDED && !image->pull));
}

unsigned image_n_removals(const Image *image) {
        return image->n_removals;
}

static bool request_stays(const ImageRequest *request, bool keeps_served) {
        switch (request->kind) {
        case REQUEST_ONCE: return keeps_served;
        case REQUEST_EPHEMERAL: return false;
        case REQUEST_RESTORE:
        case REQUEST_DESIRED: return true;
        }

        abort();
}

/* Marks the requests that need the image again, and returns their number. */
static int image_lose_requests(Image *image, bool keeps_served) {
        int n = 0;

        for (ImageRequest *request = image->requests.first; request; request = request->next) {
                if (!request->is_done || request->is_expired ||
                    outcome_of(image, request)->phase == IMAGE_FAILED ||
                    !request_stays(request, keeps_served))
                        continue;

                if (request->kind == REQUEST_DESIRED)
                        request_renew(request);
                request->must_repull = true;
                n++;
        }

        return n;
}

static int image_describe_missing(Image *image, bool is_pulled_again) {
        cleanup(free_p) char *text = presence_describe(image->n_removals, is_pulled_again);

        if (!text)
                return -ENOMEM;

        image->on_dirty(image, image->userdata);
        return image_status_set_pause(&image->status, PULL_REASON_REMOVED, text);
}

int image_pull_again(Image *image, bool keeps_served) {
        if (image->pull || image->status.phase != IMAGE_MISSING)
                return 0;

        return image_describe_missing(image, image_lose_requests(image, keeps_served) > 0);
}

int image_set_missing(Image *image, bool keeps_served) {
        cleanup(image_status_done) ImageStatus status = { 0 };
        int64_t stayed_sec = time(NULL) - image->status.completed_at;
        int r;

        r = image_status_copy(&image->status, &status);
        if (r < 0)
                return r;

        status.phase = IMAGE_MISSING;
        status.waiting_at = time(NULL);
        r = image_set_status(image, &status);
        if (r < 0)
                return r;

        image->n_removals =
                presence_n_removals(image->n_removals,
                                    stayed_sec > 0 ? (uint64_t) stayed_sec * USEC_PER_SEC : 0);
        return image_pull_again(image, keeps_served);
}

int image_set_present(Image *image, const CriImage *found) {
        cleanup(image_status_done) ImageStatus status = { 0 };
        cleanup(error_done) Error refusal = ERROR_INIT;
        ImageRef ref;
        int r;

        if (image->pull) {
                (void) pull_kick(image->pull);
                return 0;
        }
        if (!presence_is_suspect(&image->status, found->id))
                return 0;

        r = image_ref_of(image, &ref);
        if (r >= 0)
                r = image_status_copy(&image->status, &status);
        if (r >= 0)
                r = pull_verify_take(found, &ref, image->desired.is_resolved, NULL, &status,
                                     &refusal);
        if (refusal.kind != ERROR_NONE || r < 0)
                return refusal.kind != ERROR_NONE ? 0 : r;

        status.phase = IMAGE_SUCCEEDED;
        image_status_clear_failure(&status);
        r = image_set_status(image, &status);
        if (r < 0)
                return r;

        requests_share_outcome(&image->requests);
        image->on_dirty(image, image->userdata);
        return 0;
}

bool image_is_arriving(const Image *image) {
        return !image->pull && image_is_desired(image) && image->status.phase == IMAGE_SUCCEEDED &&
               image->status.on_demand.is_counted &&
               !on_demand_is_complete(&image->status.on_demand);
}

/* Other outcomes than the image's status do not change. */
int image_set_on_demand(Image *image, const ImageOnDemand *found) {
        if (!image_is_arriving(image) || on_demand_is_hidden(found) ||
            found->bytes_present == image->status.on_demand.bytes_present)
                return 0;

        image->status.on_demand = *found;
        image->on_dirty(image, image->userdata);
        return image_status_set_success(&image->status);
}
