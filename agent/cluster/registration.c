/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/registration.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/base/random.h"
#include "agent/cluster/registration-spec.h"
#include "agent/document/documents.h"
#include "agent/document/json-cleanup.h"
#include "agent/kube/patch.h"

#define GROUP "apps.kruise.io"
#define REFUSED_USEC ((uint64_t) 60000000)
#define SEC ((uint64_t) 1000000)
#define GRACE_USEC (5 * SEC)
#define LABELS_USEC (300 * SEC)
#define CREATION ((uint64_t) 1) /* digest of the one creation that there is */
#define SHOW_USEC (60 * SEC)    /* wait for the watch to show the created object */

/*
 * Calls to the API server: read the Node, create or patch the NodeImage
 *
 * They request only metadata in return, since a whole Node is large.
 */

typedef struct RegistrationApi {
        KubeClient *client; /* borrowed */
        char *node_name;
        char *version;
} RegistrationApi;

static int get_node(const RegistrationApi *api, KubePatch *patch, KubePatchAnswered on_answered) {
        return kube_patch_send(patch, &(KubePatchRequest){
                                              .verb = KUBE_PATCH_GET,
                                              .path = { .version = "v1",
                                                        .resource = "nodes",
                                                        .name = api->node_name },
                                              .on_answered = on_answered,
                                      });
}

/* digest: see KubePatchRequest. */
static int write_node_image(const RegistrationApi *api, KubePatch *patch, KubePatchVerb verb,
                            struct json_object *body, uint64_t digest,
                            KubePatchAnswered on_answered) {
        return kube_patch_send(patch, &(KubePatchRequest){
                                              .verb = verb,
                                              .path = { .group = GROUP,
                                                        .version = api->version,
                                                        .resource = "nodeimages",
                                                        .name = verb == KUBE_PATCH_CREATE
                                                                        ? NULL
                                                                        : api->node_name },
                                              .body = body,
                                              .digest = digest,
                                              .on_answered = on_answered,
                                      });
}

/* Parses the received Node. The caller owns *ret. Fails if the text is no JSON object. */
static int read_node(const KubeReply *reply, struct json_object **ret, Error *reterr) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = documents_parse(reply->body, reply->size, &documents, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (r < 0 || documents.n_items != 1 ||
            !json_object_is_type(documents.items[0], json_type_object))
                return error_set(reterr, ERROR_INVALID, "the server sent no Node: %s",
                                 r < 0 ? error_message(&error) : "it is no JSON object");

        *ret = json_object_get(documents.items[0]);
        return 0;
}

/* Retries rarely if the cause does not end by itself. A missing Node may be about to register. */
static void rest(KubePatch *patch, KubePatchOutcome outcome) {
        if (outcome == KUBE_PATCH_REFUSED)
                kube_patch_rest(patch, REFUSED_USEC);
}

/* Explains a failure; *reterr must be unset. */
static void explain(const RegistrationApi *api, KubePatchVerb verb, const Error *error,
                    Error *reterr) {
        if (verb == KUBE_PATCH_GET && error->kind == ERROR_NOT_FOUND)
                (void) error_set(reterr, error->kind,
                                 "there is no Node \"%s\" to create a NodeImage for: %s",
                                 api->node_name, error_message(error));
        else
                (void) error_copy(reterr, error);
}

/*
 * Maintaining a NodeImage of our own
 *
 * Its labels are those of the Node, which is read from time to time; and tags whose time to live is over
 * leave its spec. Every change is of the object as it was last seen: if another writer was quicker the
 * server refuses it, and the next object decides anew.
 */

typedef struct RegistrationKeep {
        const RegistrationApi *api;
        Log *log;
        uint64_t labels_usec;

        struct json_object *object;
        bool is_outdated;    /* a patch was sent, and the watch will show the new object */
        bool are_labels_due; /* read the Node next */
        size_t n_tags; /* number of tags that the pending patch removes; 0: it changes labels */

        KubePatch write;      /* pending write, or the read of the Node */
        Timer labels;         /* the next comparison of the labels */
        sd_event_source *end; /* the next tag whose time is over; by the wall clock */
        Timer rest;           /* pause after a failure */
        KubePatchVerb failed; /* verb of the failed call */
        Error error;
} RegistrationKeep;

static RegistrationKeep *keep_free(RegistrationKeep *keep) {
        if (!keep)
                return NULL;

        kube_patch_cancel(&keep->write);
        timer_done(&keep->rest);
        sd_event_source_disable_unref(keep->end);
        timer_done(&keep->labels);
        json_object_put(keep->object);
        error_done(&keep->error);
        free(keep);
        return NULL;
}

DEFINE_CLEANUP(RegistrationKeep *, keep_free)

/* Agents that started together do not read their Nodes together. */
static uint64_t period_usec(uint64_t usec) {
        return backoff_between_usec(usec, usec, 1, random_number());
}

static int keep_labels_done(RegistrationKeep *keep) {
        keep->are_labels_due = false;
        return timer_start(&keep->labels, period_usec(keep->labels_usec));
}

static void keep_succeeded(RegistrationKeep *keep, KubePatchVerb verb) {
        kube_patch_succeed(&keep->write);
        if (keep->failed == verb)
                error_done(&keep->error);
}

/* Logs each reason once. */
static void keep_note(RegistrationKeep *keep, KubePatchVerb verb, const Error *error) {
        cleanup(error_done) Error reason = ERROR_INIT;

        explain(keep->api, verb, error, &reason);
        keep->failed = verb;
        if (error_update(&keep->error, &reason))
                log_warning(keep->log, NULL, "Cannot update the NodeImage \"%s\": %s, retrying.",
                            keep->api->node_name, error_message(&reason));
}

static int keep_reconcile(RegistrationKeep *keep);

static int on_patched(const KubePatchAnswer *answer, void *userdata) {
        RegistrationKeep *keep = userdata;
        bool is_tidying = keep->n_tags > 0;
        int r;

        /* Another writer was faster, or removed the object: the watch shows its new state. */
        if (answer->outcome == KUBE_PATCH_CONFLICT || answer->outcome == KUBE_PATCH_GONE) {
                kube_patch_rest(&keep->write, 0);
                return keep_reconcile(keep);
        }

        if (answer->error) {
                keep->is_outdated = false;
                keep_note(keep, KUBE_PATCH_MERGE, answer->error);
                rest(&keep->write, answer->outcome);
                return timer_start_at(&keep->rest, keep->write.rest_usec);
        }

        keep_succeeded(keep, KUBE_PATCH_MERGE);
        if (is_tidying) {
                log_info(keep->log, NULL,
                         "Removed %zu finished tag%s from the spec of the NodeImage \"%s\".",
                         keep->n_tags, keep->n_tags == 1 ? "" : "s", keep->api->node_name);
                return keep_reconcile(keep);
        }

        log_info(keep->log, NULL,
                 "Gave the NodeImage \"%s\" the labels of its Node and the version of its agent.",
                 keep->api->node_name);
        r = keep_labels_done(keep);
        return r < 0 ? r : keep_reconcile(keep);
}

static int keep_patch(RegistrationKeep *keep, struct json_object *patch, size_t n_tags,
                      uint64_t digest) {
        keep->is_outdated = true;
        keep->n_tags = n_tags;
        return write_node_image(keep->api, &keep->write, KUBE_PATCH_MERGE, patch, digest,
                                on_patched);
}

static int keep_compare_labels(RegistrationKeep *keep, struct json_object *node) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        int r;

        r = registration_spec_patch_metadata(keep->object, node, &patch);
        if (r < 0)
                return r;
        if (patch)
                return keep_patch(keep, patch, 0, 0);

        r = keep_labels_done(keep);
        return r < 0 ? r : keep_reconcile(keep);
}

/* A failure that does not end by itself waits until the next comparison of the labels: tidying does
 * not need the Node. */
static int keep_without_node(RegistrationKeep *keep, KubePatchOutcome outcome, const Error *error) {
        int r;

        keep_note(keep, KUBE_PATCH_GET, error);
        if (outcome == KUBE_PATCH_UNKNOWN)
                return timer_start_at(&keep->rest, keep->write.rest_usec);

        kube_patch_rest(&keep->write, 0);
        r = keep_labels_done(keep);
        return r < 0 ? r : keep_reconcile(keep);
}

static int on_node_for_labels(const KubePatchAnswer *answer, void *userdata) {
        cleanup(json_object_put_p) json_object *node = NULL;
        cleanup(error_done) Error unread = ERROR_INIT;
        RegistrationKeep *keep = userdata;
        int r;

        if (answer->error)
                return keep_without_node(keep, answer->outcome, answer->error);

        r = read_node(answer->reply, &node, &unread);
        if (r < 0 && unread.kind == ERROR_NONE)
                return r;
        if (r < 0)
                return keep_without_node(keep, KUBE_PATCH_REFUSED, &unread);

        keep_succeeded(keep, KUBE_PATCH_GET);
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

/* Slows down, since another writer may put the tags back every time. */
static int keep_remove_tags(RegistrationKeep *keep, const TidyPlan *plan) {
        uint64_t when = kube_patch_when_usec(&keep->write, plan->digest);

        return when > kube_client_now_usec(keep->api->client)
                       ? timer_start_at(&keep->rest, when)
                       : keep_patch(keep, plan->patch, plan->n_tags, plan->digest);
}

static int keep_tidy(RegistrationKeep *keep) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        TidyPlan plan;
        int r;

        r = tidy_spec_plan(keep->object, clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC, &plan);
        if (r < 0)
                return r;

        patch = plan.patch;
        if (patch)
                return keep_remove_tags(keep, &plan);

        /* A failed patch has succeeded after all, or is no longer needed. */
        if (keep->failed == KUBE_PATCH_MERGE)
                keep_succeeded(keep, KUBE_PATCH_MERGE);
        return keep_wait_for(keep, plan.next_at);
}

/* Begins the next operation that is due, if none is pending. */
static int keep_reconcile(RegistrationKeep *keep) {
        if (!keep->object || keep->is_outdated || keep->write.call || timer_is_running(&keep->rest))
                return 0;

        return keep->are_labels_due ? get_node(keep->api, &keep->write, on_node_for_labels)
                                    : keep_tidy(keep);
}

/* Reads the labels, and the object if the watch has not shown an expected change. */
static int on_labels(void *userdata) {
        RegistrationKeep *keep = userdata;

        keep->are_labels_due = true;
        if (!keep->write.call)
                keep->is_outdated = false;
        return keep_reconcile(keep);
}

static int on_end(sd_event_source *source, uint64_t usec, void *userdata) {
        return keep_reconcile(userdata);
}

static int on_rest(void *userdata) {
        return keep_reconcile(userdata);
}

/* api and log are borrowed. labels_usec: how often the Node's labels are compared. */
static int keep_new(const RegistrationApi *api, Log *log, uint64_t labels_usec,
                    RegistrationKeep **ret) {
        cleanup(keep_free_p) RegistrationKeep *keep = NULL;
        sd_event *event = kube_client_event(api->client);
        int r;

        keep = malloc(sizeof(*keep));
        if (!keep)
                return -ENOMEM;

        *keep = (RegistrationKeep){
                .api = api,
                .log = log,
                .labels_usec = labels_usec,
                .write = { .client = api->client, .userdata = keep },
                .error = ERROR_INIT,
        };
        timer_init(&keep->labels, event, 0, on_labels, keep);
        timer_init(&keep->rest, event, 0, on_rest, keep);
        r = loop_add_time(event, &keep->end, CLOCK_REALTIME, UINT64_MAX, 0, on_end, keep);
        if (r >= 0)
                r = sd_event_source_set_enabled(keep->end, SD_EVENT_OFF);
        if (r < 0)
                return r;

        *ret = take_ptr(keep);
        return 0;
}

/* There is nothing to maintain any more. */
static int keep_forget(RegistrationKeep *keep) {
        kube_patch_cancel(&keep->write);
        kube_patch_succeed(&keep->write);
        keep->are_labels_due = false;
        error_done(&keep->error);
        timer_stop(&keep->labels);
        timer_stop(&keep->rest);
        return sd_event_source_set_enabled(keep->end, SD_EVENT_OFF);
}

/* Takes the current object and keeps a reference; NULL: there is none, or another author made it.
 * Compares the labels when one appears. */
static int keep_set_object(RegistrationKeep *keep, struct json_object *object) {
        if (object && !keep->object)
                keep->are_labels_due = true;

        (void) json_object_get(object); /* before the old one goes: it may be the same */
        json_object_put(keep->object);
        keep->object = object;
        keep->is_outdated = false;
        return object ? keep_reconcile(keep) : keep_forget(keep);
}

/* Ends the pause after a failure. */
static int keep_kick(RegistrationKeep *keep) {
        if (!timer_is_running(&keep->rest))
                return 0;

        timer_stop(&keep->rest);
        kube_patch_rest(&keep->write, 0);
        return keep_reconcile(keep);
}

/* Creation */

typedef enum RegistrationState {
        REGISTRATION_UNSYNCED, /* the watch is not synced */
        REGISTRATION_PRESENT,  /* there is an object, of any author */
        REGISTRATION_WAITING,  /* waits for a controller, for the watch, or for the Node */
        REGISTRATION_ASKING,
        REGISTRATION_RESTING, /* pauses after a failure */
} RegistrationState;

struct Registration {
        RegistrationApi api;
        Log *log;
        uint64_t grace_usec;
        uint64_t labels_usec;

        RegistrationState state;
        KubePatch write;        /* pending while asking, or a creation until its end or the next */
        Timer timer;            /* runs while waiting or resting */
        Error error;            /* why it could not be created */
        RegistrationKeep *keep; /* maintains the object if the agent made it */
};

DEFINE_CLEANUP(Registration *, registration_free)

static int registration_wait(Registration *registration, uint64_t usec) {
        registration->state = REGISTRATION_WAITING;
        return timer_start(&registration->timer, usec);
}

/* Returns the time for a controller to make one, and for other writers to leave the agent's
 * alone. */
static uint64_t grace_usec(Registration *registration) {
        uint64_t when = repeat_when_usec(&registration->write.repeat, CREATION);
        uint64_t now = kube_client_now_usec(registration->api.client);

        return when > now + registration->grace_usec ? when - now : registration->grace_usec;
}

static void registration_succeeded(Registration *registration) {
        kube_patch_succeed(&registration->write);
        error_done(&registration->error);
}

/* Logs each reason once. */
static int registration_failed(Registration *registration, KubePatchVerb verb,
                               KubePatchOutcome outcome, const Error *error) {
        cleanup(error_done) Error reason = ERROR_INIT;

        explain(&registration->api, verb, error, &reason);
        if (error_update(&registration->error, &reason))
                log_warning(registration->log, NULL,
                            "Cannot create the NodeImage \"%s\": %s, retrying.",
                            registration->api.node_name, error_message(&reason));

        rest(&registration->write, outcome);
        registration->state = REGISTRATION_RESTING;
        return timer_start_at(&registration->timer, registration->write.rest_usec);
}

static int on_created(const KubePatchAnswer *answer, void *userdata) {
        Registration *registration = userdata;

        if (!answer->error)
                log_info(registration->log, NULL,
                         "Created the NodeImage \"%s\", since no controller did.",
                         registration->api.node_name);

        /* The watch has shown the object before the answer. */
        if (registration->state == REGISTRATION_PRESENT)
                return 0;
        if (answer->error && answer->outcome != KUBE_PATCH_CONFLICT)
                return registration_failed(registration, KUBE_PATCH_CREATE, answer->outcome,
                                           answer->error);

        registration_succeeded(registration);
        return registration_wait(registration, SHOW_USEC);
}

static int registration_create(Registration *registration, struct json_object *node,
                               Error *reterr) {
        cleanup(json_object_put_p) json_object *body = NULL;
        int r;

        r = registration_spec_body(node, registration->api.version, &body, reterr);
        if (r < 0)
                return r;

        return write_node_image(&registration->api, &registration->write, KUBE_PATCH_CREATE, body,
                                CREATION, on_created);
}

static int registration_skip_virtual(Registration *registration) {
        registration_succeeded(registration);
        return registration_wait(registration, period_usec(registration->labels_usec));
}

static int on_node(const KubePatchAnswer *answer, void *userdata) {
        cleanup(json_object_put_p) json_object *node = NULL;
        cleanup(error_done) Error refusal = ERROR_INIT;
        Registration *registration = userdata;
        int r;

        if (answer->error)
                return registration_failed(registration, KUBE_PATCH_GET, answer->outcome,
                                           answer->error);

        r = read_node(answer->reply, &node, &refusal);
        if (r >= 0 && registration_spec_is_virtual(node))
                return registration_skip_virtual(registration);
        if (r >= 0)
                r = registration_create(registration, node, &refusal);
        if (refusal.kind != ERROR_NONE)
                return registration_failed(registration, KUBE_PATCH_GET, KUBE_PATCH_REFUSED,
                                           &refusal);

        return r;
}

/* A creation may still be pending, if the object appeared and went before the answer. */
static int registration_ask(Registration *registration) {
        registration->state = REGISTRATION_ASKING;
        kube_patch_cancel(&registration->write);
        return get_node(&registration->api, &registration->write, on_node);
}

static int on_timer(void *userdata) {
        return registration_ask(userdata);
}

int registration_new(const RegistrationOptions *options, Registration **ret) {
        cleanup(registration_free_p) Registration *registration = NULL;
        int r;

        registration = malloc(sizeof(*registration));
        if (!registration)
                return -ENOMEM;

        *registration = (Registration){
                .api = { .client = options->client,
                         .node_name = strdup(options->node_name),
                         .version = strdup(options->version) },
                .log = options->log,
                .grace_usec = options->grace_usec ?: GRACE_USEC,
                .labels_usec = options->labels_usec ?: LABELS_USEC,
                .write = { .client = options->client, .userdata = registration },
                .error = ERROR_INIT,
        };
        timer_init(&registration->timer, kube_client_event(options->client), 0, on_timer,
                   registration);
        if (!registration->api.node_name || !registration->api.version)
                return -ENOMEM;

        r = keep_new(&registration->api, options->log, registration->labels_usec,
                     &registration->keep);
        if (r < 0)
                return r;

        *ret = take_ptr(registration);
        return 0;
}

Registration *registration_free(Registration *registration) {
        if (!registration)
                return NULL;

        keep_free(registration->keep);
        kube_patch_cancel(&registration->write);
        timer_done(&registration->timer);
        error_done(&registration->error);
        free(registration->api.version);
        free(registration->api.node_name);
        free(registration);
        return NULL;
}

static int registration_on_gone(Registration *registration) {
        int r = keep_set_object(registration->keep, NULL);

        if (r < 0)
                return r;

        /* Another such event must not delay the pending operation. */
        if (registration->state != REGISTRATION_UNSYNCED &&
            registration->state != REGISTRATION_PRESENT)
                return 0;

        return registration_wait(registration, grace_usec(registration));
}

int registration_on_object(Registration *registration, const KubeObject *object) {
        if (!object)
                return registration_on_gone(registration);

        registration->state = REGISTRATION_PRESENT;
        if (registration->write.verb != KUBE_PATCH_CREATE)
                kube_patch_cancel(&registration->write);
        registration_succeeded(registration);
        timer_stop(&registration->timer);
        return keep_set_object(registration->keep,
                               registration_spec_is_ours(object->json) ? object->json : NULL);
}

const Error *registration_error(const Registration *registration) {
        return registration->error.kind != ERROR_NONE ? &registration->error
                                                      : &registration->keep->error;
}

int registration_kick(Registration *registration) {
        int r;

        r = keep_kick(registration->keep);
        if (r < 0 || registration->state != REGISTRATION_RESTING)
                return r;

        timer_stop(&registration->timer);
        return registration_ask(registration);
}
