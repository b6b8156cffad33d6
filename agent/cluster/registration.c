/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/registration.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/repeat.h"
#include "agent/cluster/registration-spec.h"
#include "agent/document/documents.h"
#include "agent/document/json-cleanup.h"
#include "agent/kube/path.h"
#include "agent/kube/retry.h"

#define GROUP "apps.kruise.io"
#define REFUSED_REST_USEC ((uint64_t) 60000000)
#define REGISTRATION_API_INIT ((RegistrationApi){ .client = NULL })
#define SEC ((uint64_t) 1000000)
#define PATIENCE_USEC (5 * SEC)
#define LABELS_USEC (300 * SEC)
#define CREATION ((uint64_t) 1) /* it is always the same */
#define SHOW_USEC (60 * SEC)    /* for the watch to show what was created */

/*
 * What is asked of the API server: three requests, and what it means if they are refused
 *
 * Only metadata is asked for in return: a whole Node is large.
 */

typedef enum RegistrationVerb {
        REGISTRATION_GET_NODE,
        REGISTRATION_CREATE, /* the NodeImage */
        REGISTRATION_PATCH,  /* the NodeImage; a merge patch */
        _REGISTRATION_VERB_MAX,
} RegistrationVerb;

typedef struct RegistrationApi {
        KubeClient *client; /* borrowed */
        char *node_name;
        char *version;
        char *paths[_REGISTRATION_VERB_MAX];
} RegistrationApi;

/* clang-format off */
static const struct {
        const char *verb;
        const char *method;
        const char *content_type;
        const char *resource; /* as a role names it */
} verbs[_REGISTRATION_VERB_MAX] = {
        [REGISTRATION_GET_NODE] = { "get",    "GET",   NULL,             "nodes"               },
        [REGISTRATION_CREATE]   = { "create", "POST",  KUBE_JSON,        "nodeimages." GROUP   },
        [REGISTRATION_PATCH]    = { "patch",  "PATCH", KUBE_MERGE_PATCH, "nodeimages." GROUP   },
};
/* clang-format on */

static void registration_api_done(RegistrationApi *api) {
        for (RegistrationVerb verb = 0; verb < _REGISTRATION_VERB_MAX; verb++)
                free(api->paths[verb]);
        free(api->version);
        free(api->node_name);
        *api = REGISTRATION_API_INIT;
}

static int format_paths(RegistrationApi *api) {
        const KubePath paths[_REGISTRATION_VERB_MAX] = {
                [REGISTRATION_GET_NODE] = { .version = "v1",
                                            .resource = "nodes",
                                            .name = api->node_name },
                [REGISTRATION_CREATE] = { .group = GROUP,
                                          .version = api->version,
                                          .resource = "nodeimages" },
                [REGISTRATION_PATCH] = { .group = GROUP,
                                         .version = api->version,
                                         .resource = "nodeimages",
                                         .name = api->node_name },
        };
        int r;

        for (RegistrationVerb verb = 0; verb < _REGISTRATION_VERB_MAX; verb++) {
                r = kube_path_format(&paths[verb], &api->paths[verb]);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* The client has to outlive it; the texts are copied. */
static int registration_api_init(RegistrationApi *api, KubeClient *client, const char *version,
                                 const char *node_name) {
        int r;

        *api = (RegistrationApi){
                .client = client,
                .node_name = strdup(node_name),
                .version = strdup(version),
        };

        r = api->node_name && api->version ? format_paths(api) : -ENOMEM;
        if (r < 0)
                registration_api_done(api);
        return r;
}

/* body is NULL for a GET; borrowed. See kube_call(). */
static int registration_api_call(const RegistrationApi *api, RegistrationVerb verb,
                                 struct json_object *body, KubeReplied on_replied, void *userdata,
                                 KubeCall **ret) {
        KubeRequest request = {
                .verb = verbs[verb].verb,
                .method = verbs[verb].method,
                .path = api->paths[verb],
                .accept = KUBE_METADATA_ONLY,
                .content_type = verbs[verb].content_type,
                .on_replied = on_replied,
                .userdata = userdata,
        };

        if (body) {
                request.body =
                        json_object_to_json_string_ext(body,
                                                       JSON_C_TO_STRING_PLAIN |
                                                               JSON_C_TO_STRING_NOSLASHESCAPE);
                if (!request.body)
                        return -ENOMEM;
        }

        return kube_call(api->client, &request, ret);
}

/* The Node that came. The caller owns *ret. Refuses what is no JSON object. */
static int registration_api_read_node(const KubeReply *reply, struct json_object **ret,
                                      Error *reterr) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = documents_parse(reply->body, reply->size, &documents, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (r < 0 || documents.n_items != 1 ||
            !json_object_is_type(documents.items[0], json_type_object))
                return error_set(reterr, ERROR_INVALID, "what the server sent is no Node: %s",
                                 r < 0 ? error_message(&error) : "it is no JSON object");

        *ret = json_object_get(documents.items[0]);
        return 0;
}

/* One line for a person, with what is missing, from the error of a call; *reterr must be unset. */
static void registration_api_explain(const RegistrationApi *api, RegistrationVerb verb,
                                     const KubeReply *reply, const Error *error, Error *reterr) {
        const char *text = error_message(error);

        if (reply->code == 403)
                (void) error_set(reterr, error->kind, "the right to %s %s is missing: %s",
                                 verbs[verb].verb, verbs[verb].resource, text);
        else if (reply->code == 404 && verb == REGISTRATION_GET_NODE)
                (void) error_set(reterr, error->kind,
                                 "there is no Node `%s` to make a NodeImage for: %s",
                                 api->node_name, text);
        else
                (void) error_copy(reterr, error);
}

/* How long to wait after the n-th failure in a row. What will not end by itself is tried rarely. */
static uint64_t registration_api_rest_usec(unsigned n_failures, const KubeReply *reply,
                                           const Error *error) {
        uint32_t random = 0;

        /* A node that is not there may be about to register itself. */
        if (!kube_is_retriable(reply, error) && error->kind != ERROR_NOT_FOUND)
                return REFUSED_REST_USEC;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        return kube_retry_usec(n_failures, reply, random);
}

static uint64_t now_usec(const RegistrationApi *api) {
        uint64_t usec = 0;

        (void) sd_event_now(kube_client_event(api->client), CLOCK_MONOTONIC, &usec);
        return usec;
}

/*
 * Looking after a NodeImage of our own
 *
 * Its labels are those of the Node, which is looked at from time to time; and tags whose time to live is
 * over leave its spec. Every change is of the object as it was last seen: when somebody else was quicker
 * the server refuses it, and the next object decides anew.
 */

typedef struct RegistrationKeep {
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
} RegistrationKeep;

static RegistrationKeep *keep_free(RegistrationKeep *keep) {
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

DEFINE_CLEANUP(RegistrationKeep *, keep_free)

static int arm_after(sd_event_source *source, uint64_t usec) {
        int r;

        r = sd_event_source_set_time_relative(source, usec);
        return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static bool is_armed(sd_event_source *source) {
        return sd_event_source_get_enabled(source, NULL) > 0;
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

static int keep_look(RegistrationKeep *keep);

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
                repeat_note(&keep->tidied, keep->digest, now_usec(keep->api));
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

static int on_node_for_labels(const KubeReply *reply, const Error *error, void *userdata) {
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
        uint64_t now = now_usec(keep->api), when = repeat_when_usec(&keep->tidied, plan->digest);

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
                return registration_api_call(keep->api, REGISTRATION_GET_NODE, NULL,
                                             on_node_for_labels, keep, &keep->call);

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

/* api and log are borrowed. labels_usec: how often to look at the Node's labels. */
static int keep_new(const RegistrationApi *api, Log *log, uint64_t labels_usec,
                    RegistrationKeep **ret) {
        cleanup(keep_free_p) RegistrationKeep *keep = NULL;
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

/* The object as it is now, of which a reference is kept; NULL: there is none, or it is not ours. The
 * labels are looked at when one appears. */
static int keep_set_object(RegistrationKeep *keep, struct json_object *object) {
        if (object && !keep->object)
                keep->are_labels_due = true;

        (void) json_object_get(object); /* before the old one goes: it may be the same */
        json_object_put(keep->object);
        keep->object = object;
        keep->is_outdated = false;
        return object ? keep_look(keep) : keep_forget(keep);
}

static const Error *keep_error(const RegistrationKeep *keep) {
        return &keep->error;
}

/* Does not wait any longer after a failure. */
static int keep_kick(RegistrationKeep *keep) {
        int r;

        if (!is_armed(keep->rest))
                return 0;

        r = sd_event_source_set_enabled(keep->rest, SD_EVENT_OFF);
        return r < 0 ? r : keep_look(keep);
}

/* Creating it */

typedef enum RegistrationState {
        REGISTRATION_UNTOLD,  /* the watch has not told anything */
        REGISTRATION_PRESENT, /* there is an object, whoever made it */
        REGISTRATION_WAITING, /* for somebody else, for the watch, or until the Node is real */
        REGISTRATION_ASKING,
        REGISTRATION_RESTING, /* after a failure */
} RegistrationState;

struct Registration {
        RegistrationApi api;
        Log *log;
        uint64_t patience_usec;
        uint64_t labels_usec;

        RegistrationState state;
        bool is_ours;
        KubeCall *call;         /* while asking; if creating, until its end or the next */
        bool is_creating;       /* that is what the call is for */
        sd_event_source *timer; /* while waiting or resting */
        unsigned n_failures;    /* in a row */
        Error error;            /* why it could not be created */
        Repeat created;         /* somebody may delete it each time */
        RegistrationKeep *keep; /* it has the object if that is ours */
};

DEFINE_CLEANUP(Registration *, registration_free)

static int registration_wait(Registration *registration, RegistrationState state, uint64_t usec) {
        int r;

        registration->state = state;
        r = sd_event_source_set_time_relative(registration->timer, usec);
        return r < 0 ? r : sd_event_source_set_enabled(registration->timer, SD_EVENT_ONESHOT);
}

/* How long somebody else has time to make one, and to leave ours alone. */
static uint64_t patience_usec(Registration *registration) {
        uint64_t when = repeat_when_usec(&registration->created, CREATION);
        uint64_t now = now_usec(&registration->api);

        return when > now + registration->patience_usec ? when - now : registration->patience_usec;
}

static void registration_succeeded(Registration *registration) {
        registration->n_failures = 0;
        error_done(&registration->error);
}

/* Says a reason once, however often it is met. */
static int registration_failed(Registration *registration, RegistrationVerb verb,
                               const KubeReply *reply, const Error *error) {
        cleanup(error_done) Error reason = ERROR_INIT;

        registration_api_explain(&registration->api, verb, reply, error, &reason);
        if (strcmp(error_message(&reason), error_message(&registration->error)) != 0)
                log_warning(registration->log, NULL,
                            "Cannot create the NodeImage `%s`: %s, retrying.",
                            registration->api.node_name, error_message(&reason));

        error_done(&registration->error);
        registration->error = reason;
        reason = ERROR_INIT;
        registration->n_failures++;
        return registration_wait(registration, REGISTRATION_RESTING,
                                 registration_api_rest_usec(registration->n_failures, reply,
                                                            error));
}

static int on_created(const KubeReply *reply, const Error *error, void *userdata) {
        Registration *registration = userdata;

        registration->call = kube_call_unref(registration->call);
        registration->is_creating = false;
        if (!error) {
                log_info(registration->log, NULL,
                         "Created the NodeImage `%s`, since no controller did.",
                         registration->api.node_name);
                repeat_note(&registration->created, CREATION, now_usec(&registration->api));
        }

        /* The watch was faster than the answer. */
        if (registration->state == REGISTRATION_PRESENT)
                return 0;
        if (error && error->kind != ERROR_CONFLICT)
                return registration_failed(registration, REGISTRATION_CREATE, reply, error);

        registration_succeeded(registration);
        return registration_wait(registration, REGISTRATION_WAITING, SHOW_USEC);
}

static int registration_create(Registration *registration, struct json_object *node,
                               Error *reterr) {
        cleanup(json_object_put_p) json_object *body = NULL;
        int r;

        r = registration_spec_body(node, registration->api.version, &body, reterr);
        if (r < 0)
                return r;

        registration->is_creating = true;
        return registration_api_call(&registration->api, REGISTRATION_CREATE, body, on_created,
                                     registration, &registration->call);
}

static int registration_skip_virtual(Registration *registration) {
        registration_succeeded(registration);
        return registration_wait(registration, REGISTRATION_WAITING, registration->labels_usec);
}

static int on_node(const KubeReply *reply, const Error *error, void *userdata) {
        cleanup(json_object_put_p) json_object *node = NULL;
        cleanup(error_done) Error refusal = ERROR_INIT;
        Registration *registration = userdata;
        int r;

        registration->call = kube_call_unref(registration->call);
        if (error)
                return registration_failed(registration, REGISTRATION_GET_NODE, reply, error);

        r = registration_api_read_node(reply, &node, &refusal);
        if (r >= 0 && registration_spec_is_virtual(node))
                return registration_skip_virtual(registration);
        if (r >= 0)
                r = registration_create(registration, node, &refusal);
        if (refusal.kind != ERROR_NONE)
                return registration_failed(registration, REGISTRATION_GET_NODE, reply, &refusal);

        return r;
}

/* One that was creating may still run, if the object appeared and went before the answer. */
static int registration_ask(Registration *registration) {
        registration->state = REGISTRATION_ASKING;
        registration->is_creating = false;
        registration->call = kube_call_unref(registration->call);
        return registration_api_call(&registration->api, REGISTRATION_GET_NODE, NULL, on_node,
                                     registration, &registration->call);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        return registration_ask(userdata);
}

static int registration_add_timer(Registration *registration) {
        int r;

        r = loop_add_time(kube_client_event(registration->api.client), &registration->timer,
                          CLOCK_MONOTONIC, UINT64_MAX, 0, on_timer, registration);
        if (r < 0)
                return r;
        return sd_event_source_set_enabled(registration->timer, SD_EVENT_OFF);
}

int registration_new(const RegistrationOptions *options, Registration **ret) {
        cleanup(registration_free_p) Registration *registration = NULL;
        int r;

        registration = malloc(sizeof(*registration));
        if (!registration)
                return -ENOMEM;

        *registration = (Registration){
                .api = REGISTRATION_API_INIT,
                .log = options->log,
                .patience_usec = options->patience_usec ?: PATIENCE_USEC,
                .labels_usec = options->labels_usec ?: LABELS_USEC,
                .error = ERROR_INIT,
        };

        r = registration_api_init(&registration->api, options->client, options->version,
                                  options->node_name);
        if (r < 0)
                return r;
        r = registration_add_timer(registration);
        if (r < 0)
                return r;
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
        kube_call_unref(registration->call);
        sd_event_source_disable_unref(registration->timer);
        error_done(&registration->error);
        registration_api_done(&registration->api);
        free(registration);
        return NULL;
}

static int registration_on_gone(Registration *registration) {
        int r;

        registration->is_ours = false;
        r = keep_set_object(registration->keep, NULL);
        if (r < 0)
                return r;

        /* Being told so again must not put off what is under way. */
        if (registration->state != REGISTRATION_UNTOLD &&
            registration->state != REGISTRATION_PRESENT)
                return 0;

        return registration_wait(registration, REGISTRATION_WAITING, patience_usec(registration));
}

int registration_on_object(Registration *registration, const KubeObject *object) {
        int r;

        if (!object)
                return registration_on_gone(registration);

        registration->state = REGISTRATION_PRESENT;
        registration->is_ours = registration_spec_is_ours(object->json);
        if (!registration->is_creating)
                registration->call = kube_call_unref(registration->call);
        registration_succeeded(registration);
        r = sd_event_source_set_enabled(registration->timer, SD_EVENT_OFF);
        if (r < 0)
                return r;

        return keep_set_object(registration->keep, registration->is_ours ? object->json : NULL);
}

bool registration_is_ours(const Registration *registration) {
        return registration->is_ours;
}

const Error *registration_error(const Registration *registration) {
        return registration->error.kind != ERROR_NONE ? &registration->error
                                                      : keep_error(registration->keep);
}

int registration_kick(Registration *registration) {
        int r;

        r = keep_kick(registration->keep);
        if (r < 0 || registration->state != REGISTRATION_RESTING)
                return r;

        r = sd_event_source_set_enabled(registration->timer, SD_EVENT_OFF);
        return r < 0 ? r : registration_ask(registration);
}
