/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/kube/client-internal.h"
#include "agent/kube/status-error-spec.h"

#define REFUSAL_MAX ((size_t) 64 << 10) /* bytes of a body that is not of status 2xx */
#define ROOM_MIN ((size_t) 1024)

static bool is_success(int code) {
        return code >= 200 && code < 300;
}

/* The body may be a secret. */
static void wipe(char *text, size_t size) {
        if (text)
                explicit_bzero(text, size);
        free(text);
}

static void kube_call_forget_body(KubeCall *call) {
        wipe(call->body, call->body_size);
        call->body = NULL;
        call->body_size = call->body_room = 0;
        call->is_too_long = false;
}

static void kube_call_destroy(KubeCall *call) {
        kube_call_forget_body(call);
        free((char *) call->request.verb);
        free((char *) call->request.method);
        free((char *) call->request.path);
        free((char *) call->request.accept);
        free((char *) call->request.content_type);
        free((char *) call->request.body);
        free(call);
}

void kube_call_detach(KubeCall *call) {
        KubeClient *client = call->client;

        if (call->state == KUBE_CALL_ENDED)
                return;

        if (call->state == KUBE_CALL_SENT)
                client->n_sent--;
        call->state = KUBE_CALL_ENDED;
        call->client = NULL;
        call->transfer = http_transfer_free(call->transfer);
        call->timer = sd_event_source_disable_unref(call->timer);
        list_remove(&client->calls, call);
}

KubeCall *kube_call_unref(KubeCall *call) {
        KubeClient *client;

        if (!call)
                return NULL;

        client = call->client;
        kube_call_detach(call);
        if (client)
                (void) kube_client_kick(client); /* another one may have its place */

        call->is_dropped = true;
        if (call->n_pins == 0)
                kube_call_destroy(call);
        return NULL;
}

DEFINE_CLEANUP(KubeCall *, kube_call_unref)

static void kube_call_unpin(KubeCall *call) {
        if (--call->n_pins == 0 && call->is_dropped)
                kube_call_destroy(call);
}

/* "nodeimages/node-1/status" of "/apis/apps.kruise.io/v1beta1/nodeimages/node-1/status?x=y". */
static const char *object_of(const char *path, int *ret_size) {
        unsigned n_slashes = strncmp(path, "/apis/", strlen("/apis/")) == 0 ? 4 : 3;
        const char *object = path;

        while (n_slashes > 0 && *object && *object != '?')
                if (*object++ == '/')
                        n_slashes--;
        if (n_slashes > 0 || *object == '\0' || *object == '?')
                object = path;

        *ret_size = (int) strcspn(object, "?");
        return object;
}

/* Names the request in front of what is said about it. */
static void kube_call_set_error(const KubeCall *call, const Error *source, Error *ret) {
        int size;
        const char *object = object_of(call->request.path, &size);

        (void) error_set(ret, source->kind, "%s %.*s: %s", call->request.method, size, object,
                         error_message(source));
}

int kube_call_finish(KubeCall *call, const KubeReply *reply, const Error *error) {
        cleanup(error_done) Error named = ERROR_INIT;
        KubeClient *client = call->client;
        KubeReply complete = *reply;
        size_t size = call->body_size;
        char *body = take_ptr(call->body);
        int r;

        if (error)
                kube_call_set_error(call, error, &named);
        kube_call_detach(call);
        complete.body = body ?: "";
        complete.size = size;

        r = kube_client_kick(client);
        if (r == 0)
                r = call->request.on_replied(&complete, error ? &named : NULL,
                                             call->request.userdata);
        wipe(body, size);
        return r;
}

static void kube_call_tell(KubeCall *call, int code) {
        KubeClient *client = call->client;

        if (client->on_called && !call->is_told)
                client->on_called(call->request.verb, code,
                                  kube_client_now(client) - call->sent_usec, client->userdata);
        call->is_told = true;
}

/* Nobody answers, unless somebody else got something meanwhile. */
static void kube_call_note_trouble(KubeCall *call, const Error *error) {
        if (call->client->heard_usec <= call->sent_usec)
                kube_client_note_trouble(call->client, error);
}

static void describe_lateness(const KubeCall *call, bool is_silent, Error *ret) {
        double seconds =
                (double) (is_silent ? call->request.silence_usec : call->request.timeout_usec) /
                1000000;

        if (call->state == KUBE_CALL_WAITING)
                (void) error_set(ret, ERROR_TIMEOUT, "could not be sent within %g s", seconds);
        else if (is_silent)
                (void) error_set(ret, ERROR_TIMEOUT, "%s was silent for %g s",
                                 http_peer_server(call->peer), seconds);
        else
                (void) error_set(ret, ERROR_TIMEOUT, "%s did not answer within %g s",
                                 http_peer_server(call->peer), seconds);
}

/* The connection that it was sent over may be dead. If nothing at all comes any more, the next ones
 * must not wait for it. */
static int kube_call_time_out(KubeCall *call, bool is_silent) {
        cleanup(error_done) Error error = ERROR_INIT;
        const KubeReply reply = { .code = call->code };
        KubeClient *client = call->client;
        int r = 0;

        describe_lateness(call, is_silent, &error);
        call->n_pins++;
        if (call->state == KUBE_CALL_SENT) {
                if (call->peer == client->peer && client->heard_usec <= call->heard_usec)
                        kube_client_retire_peer(client);
                kube_call_tell(call, call->code);
                kube_call_note_trouble(call, &error);
        }
        if (!call->is_dropped)
                r = kube_call_finish(call, &reply, &error);
        kube_call_unpin(call);
        return r;
}

static uint64_t kube_call_silence_ends(const KubeCall *call) {
        if (call->code == 0 || call->request.silence_usec == 0)
                return UINT64_MAX;

        return call->heard_usec + call->request.silence_usec;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        KubeCall *call = userdata;
        uint64_t now = kube_client_now(call->client);

        if (now >= call->deadline_usec)
                return kube_call_time_out(call, /* is_silent= */ false);
        if (now >= kube_call_silence_ends(call))
                return kube_call_time_out(call, /* is_silent= */ true);

        return kube_call_arm(call);
}

/* What comes while it is armed for the end of a silence does not arm it again: it looks then. */
int kube_call_arm(KubeCall *call) {
        uint64_t silence_ends = kube_call_silence_ends(call);
        uint64_t usec = silence_ends < call->deadline_usec ? silence_ends : call->deadline_usec;
        int r;

        if (usec == UINT64_MAX)
                return 0;

        if (!call->timer) {
                return loop_add_time(call->client->event, &call->timer, CLOCK_MONOTONIC, usec,
                                     /* accuracy= */ 0, on_timer, call);
        }

        r = sd_event_source_set_time(call->timer, usec);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(call->timer, SD_EVENT_ONESHOT);
}

static void kube_call_hear(KubeCall *call) {
        call->heard_usec = call->client->heard_usec = kube_client_now(call->client);
}

static void kube_call_note_date(const KubeCall *call) {
        int64_t server_sec;

        if (server_clock_parse(http_transfer_date(call->transfer), &server_sec) >= 0)
                server_clock_note(&call->client->clock, server_sec, call->heard_usec);
}

static int on_head(int code, void *userdata) {
        KubeCall *call = userdata;
        int r;

        kube_call_hear(call);
        kube_call_note_date(call);
        call->code = code;
        if (call->request.on_data)
                kube_call_tell(call, code); /* how long it goes on says nothing */

        call->failure = kube_call_arm(call);
        if (call->failure < 0)
                return call->failure;

        call->n_pins++;
        kube_client_note_answer(call->client);
        r = call->is_dropped || !call->request.on_accepted || !is_success(code)
                    ? 0
                    : call->request.on_accepted(call->request.userdata);
        kube_call_unpin(call);
        return r;
}

/* Not with realloc(), which would leave pieces of a secret behind. */
static int kube_call_make_room(KubeCall *call, size_t size) {
        size_t room = call->body_room > 0 ? call->body_room : ROOM_MIN;
        char *body;

        while (room <= size)
                room *= 2;
        if (room == call->body_room)
                return 0;

        body = malloc(room);
        if (!body)
                return -ENOMEM;

        if (call->body)
                memcpy(body, call->body, call->body_size);
        wipe(call->body, call->body_size);
        call->body = body;
        call->body_room = room;
        return 0;
}

static int on_data(const char *data, size_t size, void *userdata) {
        KubeCall *call = userdata;
        size_t max = is_success(call->code) ? call->request.reply_max : REFUSAL_MAX;

        kube_call_hear(call);
        if (is_success(call->code) && call->request.on_data)
                return call->request.on_data(data, size, call->request.userdata);

        call->is_too_long = size > max || call->body_size > max - size;
        if (call->is_too_long)
                return -EMSGSIZE;

        call->failure = kube_call_make_room(call, call->body_size + size);
        if (call->failure < 0)
                return call->failure;

        memcpy(call->body + call->body_size, data, size);
        call->body_size += size;
        call->body[call->body_size] = '\0';
        return 0;
}

/* A status other than 2xx counts, even if its body is cut. */
static void kube_call_judge(const KubeCall *call, const HttpEnd *end, Error *ret) {
        if (end->code != 0 && !is_success(end->code))
                kube_status_error(end->code, call->body ?: "", call->body_size, ret);
        else if (call->is_too_long)
                (void) error_set(ret, ERROR_INVALID, "the reply is larger than %zu bytes",
                                 call->request.reply_max);
        else if (end->error)
                (void) error_copy(ret, end->error);
}

/* A token that another call was refused with has been replaced since, and is not to blame. */
static int kube_call_send_again(KubeCall *call) {
        KubeClient *client = call->client;

        if (call->n_refused == client->n_refused) {
                client->n_refused++;
                kube_access_refuse_token(client->access);
        }

        kube_call_forget_body(call);
        call->is_second = true;
        call->code = 0;
        call->state = KUBE_CALL_WAITING;
        client->n_sent--;
        return kube_client_kick(client);
}

static int on_end(const HttpEnd *end, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        KubeCall *call = userdata;
        const KubeReply reply = { .code = end->code, .retry_after_usec = end->retry_after_usec };
        int r = 0;

        call->transfer = http_transfer_free(call->transfer);
        if (call->failure < 0)
                return call->failure;

        kube_call_tell(call, end->code);
        if (end->code == 401 && !call->is_second)
                return kube_call_send_again(call);

        kube_call_judge(call, end, &error);
        if (end->code != 0)
                kube_client_note_code(call->client, end->code);
        call->n_pins++;
        if (end->code == 0 && end->error)
                kube_call_note_trouble(call, &error);
        if (!call->is_dropped)
                r = kube_call_finish(call, &reply, error.kind != ERROR_NONE ? &error : NULL);
        kube_call_unpin(call);
        return r;
}

int kube_call_send(KubeCall *call, const KubeCredentials *credentials) {
        KubeClient *client = call->client;
        const HttpRequest request = {
                .method = call->request.method,
                .path = call->request.path,
                .token = credentials->token,
                .accept = call->request.accept ?: KUBE_JSON,
                .content_type = call->request.content_type,
                .body = call->request.body,
                .on_head = on_head,
                .on_data = on_data,
                .on_end = on_end,
                .userdata = call,
        };

        call->peer = client->peer;
        call->state = KUBE_CALL_SENT;
        call->is_told = false;
        call->n_refused = client->n_refused;
        call->sent_usec = call->heard_usec = kube_client_now(client);
        client->n_sent++;
        return http_send(client->peer, &request, &call->transfer);
}
