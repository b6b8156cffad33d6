/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/registration-keep.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/repeat.h"
#include "agent/cluster/registration-spec.h"
#include "agent/cluster/tidy-spec.h"
#include "agent/document/json-cleanup.h"
#include "agent/kube/retry.h"

#define SEC ((uint64_t) 1000000)

struct RegistrationKeep {
        const RegistrationApi *api;
        Log *log;
        uint64_t labels_usec;

        struct json_object *object;
        bool is_outdated; /* a patch of the object was sent, so the watch will show another one */
        bool are_labels_due; /* for a look at the Node */
        size_t n_tags;       /* that the patch under way removes; 0: it is one of the labels */
        uint64_t digest;     /* of these */
        Repeat tidied;       /* somebody may put them back */

        KubeCall *call;          /* one at a time */
        sd_event_source *labels; /* the next look at the labels */
        sd_event_source *end;    /* the next tag whose time is over; by the wall clock */
        sd_event_source *rest;   /* after a failure: nothing is sent before */
        unsigned n_failures;     /* in a row */
        RegistrationVerb failed; /* what the error is about */
        Error error;
};

DEFINE_CLEANUP(RegistrationKeep *, registration_keep_free)

static int keep_look(RegistrationKeep *keep);

static int arm_after(sd_event_source *source, uint64_t usec) {
        int r;

        r = sd_event_source_set_time_relative(source, usec);
        return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static bool is_armed(sd_event_source *source) {
        return sd_event_source_get_enabled(source, NULL) > 0;
}

static uint64_t now_usec(RegistrationKeep *keep) {
        uint64_t usec = 0;

        (void) sd_event_now(kube_client_event(keep->api->client), CLOCK_MONOTONIC, &usec);
        return usec;
}

static int keep_labels_done(RegistrationKeep *keep) {
        keep->are_labels_due = false;
        return arm_after(keep->labels, keep->labels_usec);
}

static void keep_succeeded(RegistrationKeep *keep, RegistrationVerb verb) {
        keep->n_failures = 0;
        if (keep->failed == verb)
                error_done(&keep->error);
}

/* There is nothing to patch: a patch that failed was done after all, or is needed no more. */
static void keep_settle(RegistrationKeep *keep) {
        if (keep->failed == REGISTRATION_PATCH)
                keep_succeeded(keep, REGISTRATION_PATCH);
}

/* Says a reason once, however often it is met. */
static void keep_note(RegistrationKeep *keep, RegistrationVerb verb, const KubeReply *reply,
                      const Error *error) {
        cleanup(error_done) Error reason = ERROR_INIT;

        registration_api_explain(keep->api, verb, reply, error, &reason);
        if (strcmp(error_message(&reason), error_message(&keep->error)) != 0)
                log_warning(keep->log, NULL, "Cannot look after the NodeImage `%s`: %s, retrying.",
                            keep->api->node_name, error_message(&reason));

        error_done(&keep->error);
        keep->error = reason;
        reason = ERROR_INIT;
        keep->failed = verb;
}

static int keep_rest(RegistrationKeep *keep, const KubeReply *reply, const Error *error) {
        keep->n_failures++;
        return arm_after(keep->rest, registration_api_rest_usec(keep->n_failures, reply, error));
}

static int on_patched(const KubeReply *reply, const Error *error, void *userdata) {
        RegistrationKeep *keep = userdata;
        bool is_tidying = keep->n_tags > 0;
        int r;

        keep->call = kube_call_unref(keep->call);

        /* Somebody else was quicker, or removed it: the watch says what is true now. */
        if (error && (error->kind == ERROR_CONFLICT || error->kind == ERROR_NOT_FOUND))
                return keep_look(keep);

        if (error) {
                keep->is_outdated = false;
                keep_note(keep, REGISTRATION_PATCH, reply, error);
                return keep_rest(keep, reply, error);
        }

        keep_succeeded(keep, REGISTRATION_PATCH);
        if (is_tidying) {
                repeat_note(&keep->tidied, keep->digest, now_usec(keep));
                log_info(keep->log, NULL,
                         "Removed %zu finished tag%s from the spec of the NodeImage `%s`.",
                         keep->n_tags, keep->n_tags == 1 ? "" : "s", keep->api->node_name);
                return keep_look(keep);
        }

        log_info(keep->log, NULL, "Gave the NodeImage `%s` the labels of its Node.",
                 keep->api->node_name);
        r = keep_labels_done(keep);
        return r < 0 ? r : keep_look(keep);
}

static int keep_patch(RegistrationKeep *keep, struct json_object *patch, size_t n_tags) {
        keep->is_outdated = true;
        keep->n_tags = n_tags;
        return registration_api_call(keep->api, REGISTRATION_PATCH, patch, on_patched, keep,
                                     &keep->call);
}

static int keep_compare_labels(RegistrationKeep *keep, struct json_object *node) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        int r;

        r = registration_spec_patch_labels(keep->object, node, &patch);
        if (r < 0)
                return r;
        if (patch)
                return keep_patch(keep, patch, 0);

        r = keep_labels_done(keep);
        return r < 0 ? r : keep_look(keep);
}

/* If it will not end by itself, there is time enough until the next look at the labels: tidying does
 * not need the Node. */
static int keep_without_node(RegistrationKeep *keep, const KubeReply *reply, const Error *error) {
        int r;

        keep_note(keep, REGISTRATION_GET_NODE, reply, error);
        if (kube_is_retriable(reply, error))
                return keep_rest(keep, reply, error);

        r = keep_labels_done(keep);
        return r < 0 ? r : keep_look(keep);
}

static int on_node(const KubeReply *reply, const Error *error, void *userdata) {
        cleanup(json_object_put_p) json_object *node = NULL;
        cleanup(error_done) Error unread = ERROR_INIT;
        RegistrationKeep *keep = userdata;
        int r;

        keep->call = kube_call_unref(keep->call);
        if (error)
                return keep_without_node(keep, reply, error);

        r = registration_api_read_node(reply, &node, &unread);
        if (r < 0 && unread.kind == ERROR_NONE)
                return r;
        if (r < 0)
                return keep_without_node(keep, reply, &unread);

        keep_succeeded(keep, REGISTRATION_GET_NODE);
        return keep_compare_labels(keep, node);
}

static int keep_wait_for(RegistrationKeep *keep, int64_t at) {
        int r;

        if (at == INT64_MAX)
                return sd_event_source_set_enabled(keep->end, SD_EVENT_OFF);

        r = sd_event_source_set_time(keep->end, at > INT64_MAX / (int64_t) SEC
                                                        ? UINT64_MAX
                                                        : (uint64_t) at * SEC);
        return r < 0 ? r : sd_event_source_set_enabled(keep->end, SD_EVENT_ONESHOT);
}

/* Who puts back what has left must not have us remove it without end. */
static int keep_remove_tags(RegistrationKeep *keep, const TidyPlan *plan) {
        uint64_t now = now_usec(keep), when = repeat_when_usec(&keep->tidied, plan->digest);

        if (when > now)
                return arm_after(keep->rest, when - now);

        keep->digest = plan->digest;
        return keep_patch(keep, plan->patch, plan->n_tags);
}

static int keep_tidy(RegistrationKeep *keep) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        struct timespec now;
        TidyPlan plan;
        int r;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        r = tidy_spec_plan(keep->object, (int64_t) now.tv_sec, &plan);
        if (r < 0)
                return r;

        patch = plan.patch;
        if (patch)
                return keep_remove_tags(keep, &plan);

        keep_settle(keep);
        return keep_wait_for(keep, plan.next_at);
}

/* Does the next thing that is due, if nothing is under way. */
static int keep_look(RegistrationKeep *keep) {
        if (!keep->object || keep->is_outdated || keep->call || is_armed(keep->rest))
                return 0;

        if (keep->are_labels_due)
                return registration_api_call(keep->api, REGISTRATION_GET_NODE, NULL, on_node, keep,
                                             &keep->call);

        return keep_tidy(keep);
}

/* It is also when an object may be looked at again that should have changed and did not. */
static int on_labels(sd_event_source *source, uint64_t usec, void *userdata) {
        RegistrationKeep *keep = userdata;

        keep->are_labels_due = true;
        if (!keep->call)
                keep->is_outdated = false;
        return keep_look(keep);
}

static int on_end(sd_event_source *source, uint64_t usec, void *userdata) {
        return keep_look(userdata);
}

static int on_rest(sd_event_source *source, uint64_t usec, void *userdata) {
        return keep_look(userdata);
}

static int keep_add_timer(RegistrationKeep *keep, clockid_t clock, sd_event_time_handler_t handler,
                          sd_event_source **ret) {
        int r;

        r = loop_add_time(kube_client_event(keep->api->client), ret, clock, UINT64_MAX, 0, handler,
                          keep);
        if (r < 0)
                return r;
        return sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
}

int registration_keep_new(const RegistrationApi *api, Log *log, uint64_t labels_usec,
                          RegistrationKeep **ret) {
        cleanup(registration_keep_free_p) RegistrationKeep *keep = NULL;
        int r;

        keep = malloc(sizeof(*keep));
        if (!keep)
                return -ENOMEM;

        *keep = (RegistrationKeep){
                .api = api,
                .log = log,
                .labels_usec = labels_usec,
                .error = ERROR_INIT,
        };

        r = keep_add_timer(keep, CLOCK_MONOTONIC, on_labels, &keep->labels);
        if (r < 0)
                return r;
        r = keep_add_timer(keep, CLOCK_REALTIME, on_end, &keep->end);
        if (r < 0)
                return r;
        r = keep_add_timer(keep, CLOCK_MONOTONIC, on_rest, &keep->rest);
        if (r < 0)
                return r;

        *ret = take_ptr(keep);
        return 0;
}

RegistrationKeep *registration_keep_free(RegistrationKeep *keep) {
        if (!keep)
                return NULL;

        kube_call_unref(keep->call);
        sd_event_source_disable_unref(keep->rest);
        sd_event_source_disable_unref(keep->end);
        sd_event_source_disable_unref(keep->labels);
        json_object_put(keep->object);
        error_done(&keep->error);
        free(keep);
        return NULL;
}

/* There is nothing to look after any more. */
static int keep_forget(RegistrationKeep *keep) {
        sd_event_source *const timers[] = { keep->labels, keep->end, keep->rest };
        int r;

        keep->call = kube_call_unref(keep->call);
        keep->are_labels_due = false;
        keep->n_failures = 0;
        error_done(&keep->error);

        for (size_t i = 0; i < sizeof(timers) / sizeof(timers[0]); i++) {
                r = sd_event_source_set_enabled(timers[i], SD_EVENT_OFF);
                if (r < 0)
                        return r;
        }

        return 0;
}

int registration_keep_set_object(RegistrationKeep *keep, struct json_object *object) {
        if (object && !keep->object)
                keep->are_labels_due = true;

        (void) json_object_get(object); /* before the old one goes: it may be the same */
        json_object_put(keep->object);
        keep->object = object;
        keep->is_outdated = false;
        return object ? keep_look(keep) : keep_forget(keep);
}

const Error *registration_keep_error(const RegistrationKeep *keep) {
        return &keep->error;
}

int registration_keep_kick(RegistrationKeep *keep) {
        int r;

        if (!is_armed(keep->rest))
                return 0;

        r = sd_event_source_set_enabled(keep->rest, SD_EVENT_OFF);
        return r < 0 ? r : keep_look(keep);
}
