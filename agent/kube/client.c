/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buffer.h"
#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/kube/http.h"
#include "agent/kube/server-clock.h"
#include "agent/kube/status-error-spec.h"

#define SENT_MAX 64 /* calls, watches among them; the others wait in order */
#define REPLY_MAX ((size_t) 4 << 20)
#define TIMEOUT_USEC ((uint64_t) 30000000)
#define REFUSAL_MAX ((size_t) 64 << 10) /* bytes of a body that is not of status 2xx */

struct KubeClient {
        sd_event *event;
        KubeAccess *access;
        Metrics *metrics;
        KubeReachable on_reachable;
        void *userdata;
        const char *headers[2]; /* headers of each request; ended by NULL */

        char *target;
        HttpPeer *peer;      /* peer for the next requests; NULL: to be made */
        unsigned generation; /* generation of the peer's credentials */
        unsigned n_refused;  /* number of refused tokens so far */
        Deferred sender;     /* sends what waits, one call in each turn of the loop */

        KubeCall *calls; /* calls that have not ended; the newest first */
        size_t n_sent;   /* number of calls that are sent */

        Error trouble;
        bool is_reachable;
        bool is_unauthorized; /* the last answer was 401 */
        uint64_t heard_usec;  /* time at which anything last came from the server */
        ServerClock clock;
};

typedef enum KubeCallState {
        KUBE_CALL_WAITING, /* waiting for its turn, or for credentials */
        KUBE_CALL_SENT,
        KUBE_CALL_ENDED,
        _KUBE_CALL_STATE_MAX,
} KubeCallState;

struct KubeCall {
        LIST_LINKS(KubeCall);
        KubeClient *client;
        KubeCallState state;
        KubeRequest request; /* request with copies of its texts */
        unsigned n_pins;     /* running callbacks that may drop the call */
        bool is_dropped;
        bool is_second;   /* the server has refused it with 401 once */
        bool is_counted;  /* this exchange is counted */
        bool is_too_long; /* the body is too long */
        int failure;      /* local failure inside of curl, which does not pass it on */

        HttpTransfer *transfer;
        const HttpPeer *peer; /* borrowed from the transfer */
        Timer timer;
        uint64_t deadline_usec;
        uint64_t sent_usec;
        uint64_t heard_usec; /* time at which it was sent, or something last came */
        unsigned n_refused;  /* the client's n_refused when the call was sent */
        int code;            /* 0: the answer has not begun */

        Buffer body; /* may be a secret */
};

DEFINE_CLEANUP(KubeClient *, kube_client_free)
DEFINE_CLEANUP(KubeCall *, kube_call_unref)

static uint64_t kube_client_now(const KubeClient *client) {
        return loop_now_usec(client->event);
}

/* Makes the sender check whether it can send. */
static int kube_client_kick(KubeClient *client) {
        return deferred_request(&client->sender);
}

/* Notes that the server answers. May call on_reachable, in which any call may be dropped. */
static void kube_client_note_answer(KubeClient *client) {
        if (client->is_reachable)
                return;

        client->is_reachable = true;
        error_done(&client->trouble);
        if (client->on_reachable)
                client->on_reachable(NULL, client->userdata);
}

/* Any status but 401 means that the server knows who we are. */
static void kube_client_note_code(KubeClient *client, int code) {
        client->is_unauthorized = code == 401;
        if (code != 401)
                kube_access_accept_token(client->access);
}

static void kube_client_note_trouble(KubeClient *client, const Error *error) {
        if (client->trouble.kind == error->kind &&
            strcmp(error_message(&client->trouble), error_message(error)) == 0)
                return;

        client->is_reachable = false;
        error_done(&client->trouble);
        (void) error_copy(&client->trouble, error);
        if (client->on_reachable)
                client->on_reachable(&client->trouble, client->userdata);
}

/* Gives another connection to the next requests. */
static void kube_client_retire_peer(KubeClient *client) {
        client->peer = http_peer_unref(client->peer);
}

static bool is_success(int code) {
        return code >= 200 && code < 300;
}

static void kube_call_forget_body(KubeCall *call) {
        buffer_done(&call->body);
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

/* Removes the call from the client. */
static void kube_call_detach(KubeCall *call) {
        KubeClient *client = call->client;

        if (call->state == KUBE_CALL_ENDED)
                return;

        if (call->state == KUBE_CALL_SENT)
                client->n_sent--;
        call->state = KUBE_CALL_ENDED;
        call->client = NULL;
        call->transfer = http_transfer_free(call->transfer);
        timer_done(&call->timer);
        list_remove(&client->calls, call);
}

KubeCall *kube_call_unref(KubeCall *call) {
        KubeClient *client;

        if (!call)
                return NULL;

        client = call->client;
        kube_call_detach(call);
        if (client)
                (void) kube_client_kick(client); /* another call may have its place now */

        call->is_dropped = true;
        if (call->n_pins == 0)
                kube_call_destroy(call);
        return NULL;
}

static void kube_call_unpin(KubeCall *call) {
        if (--call->n_pins == 0 && call->is_dropped)
                kube_call_destroy(call);
}

/* Returns "nodeimages/node-1/status" of
 * "/apis/apps.kruise.io/v1beta1/nodeimages/node-1/status?x=y". */
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

/* Puts the name of the request before the error. */
static void kube_call_set_error(const KubeCall *call, const Error *source, Error *ret) {
        int size;
        const char *object = object_of(call->request.path, &size);

        (void) error_set(ret, source->kind, "%s %.*s: %s", call->request.method, size, object,
                         error_message(source));
}

/* Ends the call with a reply or without (code 0). The call may be gone afterwards. */
static int kube_call_finish(KubeCall *call, const KubeReply *reply, const Error *error) {
        cleanup(error_done) Error named = ERROR_INIT;
        KubeClient *client = call->client;
        KubeReply complete = *reply;
        cleanup(buffer_done) Buffer body = call->body;
        int r;

        call->body = (Buffer){ .data = NULL };
        if (error)
                kube_call_set_error(call, error, &named);
        kube_call_detach(call);
        complete.body = body.data ?: "";
        complete.size = body.size;

        r = kube_client_kick(client);
        return r == 0 ? call->request.on_replied(&complete, error ? &named : NULL,
                                                 call->request.userdata)
                      : r;
}

/* Returns "other" for a code that the table of metrics.c does not have. */
static const char *code_label(int code) {
        static const struct {
                int code;
                const char *label;
        } codes[] = { { 0, "none" },  { 200, "200" }, { 201, "201" }, { 400, "400" },
                      { 401, "401" }, { 403, "403" }, { 404, "404" }, { 409, "409" },
                      { 410, "410" }, { 422, "422" }, { 429, "429" }, { 500, "500" },
                      { 502, "502" }, { 503, "503" }, { 504, "504" } };

        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
                if (codes[i].code == code)
                        return codes[i].label;

        return "other";
}

/* code 0: no answer came. */
static void kube_call_count(KubeCall *call, int code) {
        uint64_t duration_usec = kube_client_now(call->client) - call->sent_usec;
        Metrics *metrics = call->client->metrics;
        const char *verb = call->request.verb;

        if (call->is_counted || !verb)
                return;

        call->is_counted = true;
        metrics_add(metrics, METRIC_API_SERVER_REQUESTS, METRIC_LABELS(verb, code_label(code)), 1);
        if (strcmp(verb, "watch") != 0)
                metrics_observe(metrics, METRIC_API_SERVER_REQUEST_DURATION, METRIC_LABELS(verb),
                                (double) duration_usec / 1e6);
}

/* Notes that the server does not answer, unless another call was answered meanwhile. */
static void kube_call_note_trouble(KubeCall *call, const Error *error) {
        if (call->client->heard_usec <= call->sent_usec)
                kube_client_note_trouble(call->client, error);
}

/* Time without a byte after which the call ends; 0: no limit. */
static uint64_t kube_call_silence_usec(const KubeCall *call) {
        if (call->state != KUBE_CALL_SENT)
                return 0;

        return call->code == 0 ? call->request.accept_usec : call->request.silence_usec;
}

static void describe_lateness(const KubeCall *call, bool is_silent, Error *ret) {
        double seconds =
                (double) (is_silent ? kube_call_silence_usec(call) : call->request.timeout_usec) /
                1000000;

        if (call->state == KUBE_CALL_WAITING)
                (void) error_set(ret, ERROR_TIMEOUT, "could not be sent within %g s", seconds);
        else if (is_silent && call->code != 0)
                (void) error_set(ret, ERROR_TIMEOUT, "%s was silent for %g s",
                                 http_peer_server(call->peer), seconds);
        else
                (void) error_set(ret, ERROR_TIMEOUT, "%s did not answer within %g s",
                                 http_peer_server(call->peer), seconds);
}

/* Ends the call. Its connection may be dead: if nothing arrived since, the next calls get another
 * one. */
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
                kube_call_count(call, call->code);
                kube_call_note_trouble(call, &error);
        }
        if (!call->is_dropped)
                r = kube_call_finish(call, &reply, &error);
        kube_call_unpin(call);
        return r;
}

static uint64_t kube_call_silence_ends(const KubeCall *call) {
        uint64_t usec = kube_call_silence_usec(call);

        return usec == 0 ? UINT64_MAX : call->heard_usec + usec;
}

static int kube_call_arm(KubeCall *call);

static int on_timer(void *userdata) {
        KubeCall *call = userdata;
        uint64_t now = kube_client_now(call->client);

        if (now >= call->deadline_usec)
                return kube_call_time_out(call, /* is_silent= */ false);
        if (now >= kube_call_silence_ends(call))
                return kube_call_time_out(call, /* is_silent= */ true);

        return kube_call_arm(call);
}

/* Arms the timer. Data that arrives does not move it: on_timer() checks the silence then. */
static int kube_call_arm(KubeCall *call) {
        uint64_t silence_ends = kube_call_silence_ends(call);
        uint64_t usec = silence_ends < call->deadline_usec ? silence_ends : call->deadline_usec;

        return usec == UINT64_MAX ? 0 : timer_start_at(&call->timer, usec);
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
                kube_call_count(call, code); /* the duration of a watch says nothing */

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

static int on_data(const char *data, size_t size, void *userdata) {
        KubeCall *call = userdata;
        size_t max = is_success(call->code) ? call->request.reply_max : REFUSAL_MAX;

        kube_call_hear(call);
        if (is_success(call->code) && call->request.on_data)
                return call->request.on_data(data, size, call->request.userdata);

        call->is_too_long = size > max || call->body.size > max - size;
        if (call->is_too_long)
                return -EMSGSIZE;

        call->failure = buffer_add(&call->body, data, size);
        return call->failure;
}

/* A status other than 2xx counts, even if its body is cut. */
static void kube_call_judge(const KubeCall *call, const HttpEnd *end, Error *ret) {
        if (end->code != 0 && !is_success(end->code))
                kube_status_error(end->code, call->body.data ?: "", call->body.size, ret);
        else if (call->is_too_long)
                (void) error_set(ret, ERROR_INVALID, "the reply is larger than %zu bytes",
                                 call->request.reply_max);
        else if (end->error)
                (void) error_copy(ret, end->error);
}

/* Refuses the token, unless it was replaced after another call had been refused. */
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

        kube_call_count(call, end->code);
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

static int kube_call_send(KubeCall *call, const KubeCredentials *credentials) {
        KubeClient *client = call->client;
        const HttpRequest request = {
                .method = call->request.method,
                .path = call->request.path,
                .token = credentials->token,
                .accept = call->request.accept ?: KUBE_JSON,
                .content_type = call->request.content_type,
                .body = call->request.body,
                .headers = client->headers,
                .on_head = on_head,
                .on_data = on_data,
                .on_end = on_end,
                .userdata = call,
        };
        int r;

        call->peer = client->peer;
        call->state = KUBE_CALL_SENT;
        call->is_counted = false;
        call->n_refused = client->n_refused;
        call->sent_usec = call->heard_usec = kube_client_now(client);
        client->n_sent++;
        r = kube_call_arm(call);
        if (r < 0)
                return r;

        return http_send(client->peer, &request, &call->transfer, /* reterr= */ NULL);
}

static int kube_client_set_target(KubeClient *client, const char *server) {
        char *target;

        if (text_format(&target, "%s by %s", server, kube_access_source(client->access)) < 0)
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

/* 1: the credentials and their peer are ready. 0: not yet. */
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
        call = kube_client_next(client); /* the callback may have dropped the last one */
        return call ? kube_call_finish(call, &reply, error) : 0;
}

static int on_turn(void *userdata) {
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

static int kube_client_open_access(KubeClient *client, const KubeAccessOptions *options,
                                   Error *reterr) {
        KubeAccessOptions complete = *options;

        complete.event = client->event;
        complete.on_changed = on_access_changed;
        complete.userdata = client;
        return kube_access_new(&complete, &client->access, reterr);
}

/* Finds out the target of requests at the start. A refusal is reported to later callers. */
static int kube_client_try_access(KubeClient *client) {
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
                .metrics = options->metrics,
                .on_reachable = options->on_reachable,
                .userdata = options->userdata,
                .headers = { options->user_agent_header },
        };
        deferred_init(&client->sender, client->event, on_turn, client);
        r = http_load(reterr);
        if (r < 0)
                return r;

        r = kube_client_open_access(client, options->access, reterr);
        if (r < 0)
                return r;

        r = kube_client_try_access(client);
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
        deferred_done(&client->sender);
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

const KubeAccess *kube_client_access(const KubeClient *client) {
        return client->access;
}

const char *kube_client_target(const KubeClient *client) {
        return client->target;
}

/* Prepares the call. The client decides what is pending, and in what order. */
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

        /* Copies all texts, so that none is left borrowed. */
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

        timer_init(&call->timer, client->event, /* accuracy_usec= */ 0, on_timer, call);
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
