/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/registration.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/repeat.h"
#include "agent/cluster/registration-api.h"
#include "agent/cluster/registration-keep.h"
#include "agent/cluster/registration-spec.h"
#include "agent/document/json-cleanup.h"

#define SEC ((uint64_t) 1000000)
#define PATIENCE_USEC (5 * SEC)
#define LABELS_USEC (300 * SEC)
#define CREATION ((uint64_t) 1) /* it is always the same */
#define SHOW_USEC (60 * SEC)    /* for the watch to show what was created */

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

static uint64_t now_usec(Registration *registration) {
        uint64_t usec = 0;

        (void) sd_event_now(kube_client_event(registration->api.client), CLOCK_MONOTONIC, &usec);
        return usec;
}

/* How long somebody else has time to make one, and to leave ours alone. */
static uint64_t patience_usec(Registration *registration) {
        uint64_t when = repeat_when_usec(&registration->created, CREATION);
        uint64_t now = now_usec(registration);

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
                         "Created the NodeImage `%s`, since nobody else did.",
                         registration->api.node_name);
                repeat_note(&registration->created, CREATION, now_usec(registration));
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
        r = registration_keep_new(&registration->api, options->log, registration->labels_usec,
                                  &registration->keep);
        if (r < 0)
                return r;

        *ret = take_ptr(registration);
        return 0;
}

Registration *registration_free(Registration *registration) {
        if (!registration)
                return NULL;

        registration_keep_free(registration->keep);
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
        r = registration_keep_set_object(registration->keep, NULL);
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

        return registration_keep_set_object(registration->keep,
                                            registration->is_ours ? object->json : NULL);
}

bool registration_is_ours(const Registration *registration) {
        return registration->is_ours;
}

const Error *registration_error(const Registration *registration) {
        return registration->error.kind != ERROR_NONE ? &registration->error
                                                      : registration_keep_error(registration->keep);
}

int registration_kick(Registration *registration) {
        int r;

        r = registration_keep_kick(registration->keep);
        if (r < 0 || registration->state != REGISTRATION_RESTING)
                return r;

        r = sd_event_source_set_enabled(registration->timer, SD_EVENT_OFF);
        return r < 0 ? r : registration_ask(registration);
}
