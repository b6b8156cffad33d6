/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/kube/client-internal.h"

#define SENT_MAX 64 /* calls, watches among them; the others wait in order */
#define REPLY_MAX ((size_t) 4 << 20)
#define TIMEOUT_USEC ((uint64_t) 30000000)

DEFINE_CLEANUP(KubeClient *, kube_client_free)
DEFINE_CLEANUP(KubeCall *, kube_call_unref)

uint64_t kube_client_now(const KubeClient *client) {
        uint64_t usec = 0;

        (void) sd_event_now(client->event, CLOCK_MONOTONIC, &usec);
        return usec;
}

int kube_client_kick(KubeClient *client) {
        return sd_event_source_set_enabled(client->sender, SD_EVENT_ONESHOT);
}

void kube_client_note_answer(KubeClient *client) {
        if (client->is_reachable)
                return;

        client->is_reachable = true;
        error_done(&client->trouble);
        if (client->on_reachable)
                client->on_reachable(NULL, client->userdata);
}

void kube_client_note_code(KubeClient *client, int code) {
        client->is_unauthorized = code == 401;
        if (code != 401)
                kube_access_accept_token(client->access);
}

void kube_client_note_trouble(KubeClient *client, const Error *error) {
        if (client->trouble.kind == error->kind &&
            strcmp(error_message(&client->trouble), error_message(error)) == 0)
                return;

        client->is_reachable = false;
        error_done(&client->trouble);
        (void) error_copy(&client->trouble, error);
        if (client->on_reachable)
                client->on_reachable(&client->trouble, client->userdata);
}

void kube_client_retire_peer(KubeClient *client) {
        client->peer = http_peer_unref(client->peer);
}

static int kube_client_set_target(KubeClient *client, const char *server) {
        char *target;

        if (asprintf(&target, "%s by %s", server, kube_access_source(client->access)) < 0)
                return -ENOMEM;

        free(client->target);
        client->target = target;
        return 0;
}

static int kube_client_set_peer(KubeClient *client, const KubeCredentials *credentials,
                                Error *reterr) {
        int r;

        kube_client_retire_peer(client);
        r = http_peer_new(client->event, credentials, &client->peer, reterr);
        if (r < 0)
                return r;

        client->generation = credentials->generation;
        return kube_client_set_target(client, http_peer_server(client->peer));
}

/* 1: there are credentials and a peer that goes with them. 0: not yet. */
static int kube_client_prepare(KubeClient *client, const KubeCredentials **ret, Error *reterr) {
        int r;

        r = kube_access_get(client->access, ret, reterr);
        if (r <= 0)
                return r;
        if (client->peer && (*ret)->generation == client->generation)
                return 1;

        r = kube_client_set_peer(client, *ret, reterr);
        return r < 0 ? r : 1;
}

static KubeCall *kube_client_next(const KubeClient *client) {
        KubeCall *oldest = NULL;

        for (KubeCall *call = client->calls; call; call = call->next)
                if (call->state == KUBE_CALL_WAITING)
                        oldest = call;

        return oldest;
}

static int kube_client_refuse(KubeClient *client, const Error *error) {
        const KubeReply reply = { .code = 0 };
        KubeCall *call;

        kube_client_note_trouble(client, error);
        call = kube_client_next(client); /* the last one may have been dropped in there */
        return call ? kube_call_finish(call, &reply, error) : 0;
}

static int on_turn(sd_event_source *source, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        const KubeCredentials *credentials;
        KubeClient *client = userdata;
        KubeCall *call = kube_client_next(client);
        int r;

        if (!call || client->n_sent >= SENT_MAX)
                return 0;

        r = kube_client_prepare(client, &credentials, &error);
        if (error.kind != ERROR_NONE)
                return kube_client_refuse(client, &error);
        if (r <= 0)
                return r;

        r = kube_call_send(call, credentials);
        if (r < 0)
                return r;

        return kube_client_kick(client);
}

static void on_access_changed(void *userdata) {
        KubeClient *client = userdata;

        (void) kube_client_kick(client);
}

static int kube_client_add_sender(KubeClient *client) {
        int r;

        r = loop_add_defer(client->event, &client->sender, on_turn, client);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(client->sender, SD_EVENT_OFF);
}

static int kube_client_open_access(KubeClient *client, const KubeAccessOptions *options,
                                   Error *reterr) {
        KubeAccessOptions complete = *options;

        complete.event = client->event;
        complete.on_changed = on_access_changed;
        complete.userdata = client;
        return kube_access_new(&complete, &client->access, reterr);
}

/* So that it can be said from the start where requests will go. What is refused now is told to those
 * who ask. */
static int kube_client_look(KubeClient *client) {
        cleanup(error_done) Error ignored = ERROR_INIT;
        const KubeCredentials *credentials;
        int r;

        r = kube_client_set_target(client, "the API server");
        if (r < 0)
                return r;

        r = kube_client_prepare(client, &credentials, &ignored);
        return r < 0 && ignored.kind == ERROR_NONE ? r : 0;
}

int kube_client_new(const KubeClientOptions *options, KubeClient **ret, Error *reterr) {
        cleanup(kube_client_free_p) KubeClient *client = NULL;
        int r;

        client = malloc(sizeof(*client));
        if (!client)
                return -ENOMEM;

        *client = (KubeClient){
                .event = sd_event_ref(options->event),
                .on_called = options->on_called,
                .on_reachable = options->on_reachable,
                .userdata = options->userdata,
        };
        r = kube_client_add_sender(client);
        if (r < 0)
                return r;

        r = http_load(reterr);
        if (r < 0)
                return r;

        r = kube_client_open_access(client, options->access, reterr);
        if (r < 0)
                return r;

        r = kube_client_look(client);
        if (r < 0)
                return r;

        *ret = take_ptr(client);
        return 0;
}

KubeClient *kube_client_free(KubeClient *client) {
        if (!client)
                return NULL;

        while (client->calls)
                kube_call_detach(client->calls);
        kube_client_retire_peer(client);
        kube_access_free(client->access);
        sd_event_source_disable_unref(client->sender);
        sd_event_unref(client->event);
        error_done(&client->trouble);
        free(client->target);
        free(client);
        return NULL;
}

sd_event *kube_client_event(const KubeClient *client) {
        return client->event;
}

const Error *kube_client_trouble(const KubeClient *client) {
        return client->is_reachable ? NULL : &client->trouble;
}

bool kube_client_is_in_trouble(const KubeClient *client) {
        return (!client->is_reachable && client->trouble.kind != ERROR_NONE) ||
               client->is_unauthorized;
}

bool kube_client_server_usec(const KubeClient *client, int64_t *ret) {
        if (client->clock.is_known)
                *ret = server_clock_usec(&client->clock, kube_client_now(client));
        return client->clock.is_known;
}

const char *kube_client_target(const KubeClient *client) {
        return client->target;
}

/* What is pending, and in what order, is up to the client; the request has its limits filled in. */
static void kube_call_start(KubeCall *call, KubeClient *client) {
        KubeRequest *request = &call->request;

        if (request->reply_max == 0)
                request->reply_max = REPLY_MAX;
        if (request->timeout_usec == 0)
                request->timeout_usec = TIMEOUT_USEC;

        call->deadline_usec = UINT64_MAX;
        if (request->timeout_usec < UINT64_MAX - kube_client_now(client))
                call->deadline_usec = kube_client_now(client) + request->timeout_usec;

        call->client = client;
        call->state = KUBE_CALL_WAITING;
        list_prepend(&client->calls, call);
}

static bool copy(const char **text) {
        const char *source = *text;

        *text = source ? strdup(source) : NULL;
        return *text || !source;
}

static int kube_call_copy(KubeCall *call) {
        KubeRequest *request = &call->request;
        bool is_copied;

        /* All of them, so that none is left borrowed. */
        is_copied = copy(&request->verb) & copy(&request->method) & copy(&request->path) &
                    copy(&request->accept) & copy(&request->content_type) & copy(&request->body);

        return is_copied ? 0 : -ENOMEM;
}

int kube_call(KubeClient *client, const KubeRequest *request, KubeCall **ret) {
        cleanup(kube_call_unref_p) KubeCall *call = NULL;
        int r;

        call = malloc(sizeof(*call));
        if (!call)
                return -ENOMEM;

        *call = (KubeCall){ .state = KUBE_CALL_ENDED, .request = *request };
        r = kube_call_copy(call);
        if (r < 0)
                return r;

        kube_call_start(call, client);
        r = kube_call_arm(call);
        if (r < 0)
                return r;

        r = kube_client_kick(client);
        if (r < 0)
                return r;

        *ret = take_ptr(call);
        return 0;
}
