/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A client, what it says about its server, and calls that keep their replies
 */

#include "tests/unit/kube-server.h"
#include "tests/unit/metric-value.h"
#include "tests/unit/unit.h"

#define PATH "/apis/apps.kruise.io/v1beta1/nodeimages/node-1"

typedef struct Fixture {
        sd_event *event;
        Server server;
        KubeClient *client;
        unsigned n_reported; /* about the server */
        char trouble[256];
        Metrics *metrics;
} Fixture;

/* moment at which a call is dropped by its own callback */
typedef enum DropAt {
        DROP_NEVER,
        DROP_AT_ACCEPTED,
        DROP_AT_DATA,
        DROP_AT_REPLY,
} DropAt;

typedef struct Ask {
        KubeCall *call;
        DropAt drop_at;
        struct Ask *other; /* dropped together with it */
        int data_result;
        unsigned n_accepted;
        char data[256];
        unsigned n_replied;
        int code;
        uint64_t retry_after_usec;
        char body[TEXT_SIZE];
        ErrorKind kind;
        char message[256];
} Ask;

static inline void ask_drop_at(Ask *ask, DropAt now) {
        if (ask->drop_at != now)
                return;

        ask->call = kube_call_unref(ask->call);
        if (ask->other)
                ask->other->call = kube_call_unref(ask->other->call);
}

static inline int on_accepted(void *userdata) {
        Ask *ask = userdata;

        ask->n_accepted++;
        ask_drop_at(ask, DROP_AT_ACCEPTED);
        return 0;
}

static inline int on_piece(const char *data, size_t size, void *userdata) {
        Ask *ask = userdata;

        ask_drop_at(ask, DROP_AT_DATA);
        strncat(ask->data, data, size); /* still ours after the drop */
        strcat(ask->data, "|");
        return ask->data_result;
}

static inline int on_replied(const KubeReply *reply, const Error *error, void *userdata) {
        Ask *ask = userdata;

        ask_drop_at(ask, DROP_AT_REPLY);
        ask->n_replied++;
        ask->code = reply->code;
        ask->retry_after_usec = reply->retry_after_usec;
        assert_int_equal(strlen(reply->body), reply->size);
        snprintf(ask->body, sizeof(ask->body), "%s", reply->body);
        ask->kind = error ? error->kind : ERROR_NONE;
        snprintf(ask->message, sizeof(ask->message), "%s", error ? error_message(error) : "");
        return 0;
}

static inline void ask_send(Fixture *f, Ask *ask, const KubeRequest *request) {
        KubeRequest complete = *request;

        complete.verb = request->verb ?: "get";
        complete.method = request->method ?: "GET";
        complete.path = request->path ?: PATH;
        complete.on_replied = on_replied;
        complete.userdata = ask;
        assert_ok(kube_call(f->client, &complete, &ask->call));
        assert_int_equal(ask->n_replied, 0);
}

static inline void ask_done(Ask *ask) {
        ask->call = kube_call_unref(ask->call);
}

/* Requests that were counted. */
static inline int n_counted(const Fixture *f, const char *verb, const char *code) {
        char series[100];

        (void) snprintf(series, sizeof(series),
                        "inplaced_api_server_requests_total{verb=\"%s\",code=\"%s\"}", verb, code);
        return (int) metric_value(f->metrics, series);
}

static inline void on_reachable(const Error *trouble, void *userdata) {
        Fixture *f = userdata;

        f->n_reported++;
        snprintf(f->trouble, sizeof(f->trouble), "%s", trouble ? error_message(trouble) : "");
}

/* Gives access to a server without TLS; the tests for TLS set another address. */
static inline void access_reset(const Fixture *f) {
        memset(&the_access, 0, sizeof(the_access));
        snprintf(the_access.server, sizeof(the_access.server), "http://127.0.0.1:%u",
                 f->server.port);
        the_access.credentials.server = the_access.server;
        the_access.credentials.token = "first";
        the_access.result = the_access.result_after_refusal = 1;
}

static inline void client_start(Fixture *f) {
        const KubeAccessOptions access = { .pod_folder = "/nowhere" };
        const KubeClientOptions options = {
                .event = f->event,
                .access = &access,
                .metrics = f->metrics,
                .on_reachable = on_reachable,
                .userdata = f,
        };

        assert_ok(kube_client_new(&options, &f->client, NULL));
}

static inline int set_up(void **state) {
        Fixture *f = calloc(1, sizeof(*f));

        assert_ok(sd_event_new(&f->event));
        f->server.event = f->event;
        f->metrics = metrics_for_test();
        server_start(&f->server);
        access_reset(f);
        client_start(f);
        *state = f;
        return 0;
}

static inline int tear_down(void **state) {
        Fixture *f = *state;

        assert_null(kube_client_free(f->client));
        server_stop(&f->server);
        metrics_free(f->metrics);
        sd_event_unref(f->event);
        free(f);
        return 0;
}

/* Runs the loop until the condition holds. */
#define RUN_UNTIL(f, condition)                               \
        while (!(condition))                                  \
                if (sd_event_run((f)->event, WAIT_USEC) <= 0) \
        fail_msg("waited in vain for " #condition)

/* Handles pending events. */
static inline void run_dry(Fixture *f) {
        while (sd_event_run(f->event, 0) > 0)
                ;
}

/* The connection that the next request came over. */
static inline Connection *await_request(Fixture *f) {
        RUN_UNTIL(f, server_next(&f->server));
        return server_next(&f->server);
}

/* Sends a request and answers it. */
static inline void exchange(Fixture *f, Ask *ask, const char *head, const char *body) {
        ask_send(f, ask, &(KubeRequest){ .verb = "get" });
        connection_answer(await_request(f), head, body);
        RUN_UNTIL(f, ask->n_replied > 0);
        ask_done(ask);
}
