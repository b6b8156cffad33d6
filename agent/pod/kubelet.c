/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/kubelet.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-fields.h"
#include "agent/kube/path.h"
#include "agent/pod/tcp-connect.h"

#define CONNECT_USEC ((uint64_t) 500 * 1000)
#define LEASE_USEC ((uint64_t) 1400 * 1000) /* with CONNECT_USEC less than 2 s */
#define KEEP_USEC ((uint64_t) 500 * 1000)
#define SEEK_USEC \
        ((uint64_t) 30 * 1000 * 1000) /* pause before the next connect, until one succeeds */
/* Longer than a Lease is valid: that of a kubelet that has gone with its address has expired. */
#define DOUBT_USEC ((uint64_t) 60 * 1000 * 1000)
#define REPLY_SIZE_MAX 65536
#define NEVER_SEC INT64_MIN
#define LEASE_DURATION_SEC 40 /* validity of a Lease that names no duration */

/* coordination.k8s.io/v1: a living kubelet renews it. */
typedef struct Lease {
        int64_t renewed_sec; /* seconds since 1970 */
        int64_t duration_sec;
} Lease;

struct KubeletQuestion {
        LIST_LINKS(KubeletQuestion);
        Kubelet *kubelet;
        Deferred answer; /* requested when the attempt has ended */
        KubeletAnswered on_answered;
        void *userdata;
};

struct Kubelet {
        sd_event *event;
        KubeClient *client;
        char *text; /* the address, for people */
        bool has_address;
        TcpAddress address;
        char *lease_path;      /* NULL: no address */
        bool was_alive;        /* the address has accepted a connection, once */
        uint64_t refused_usec; /* since when it accepts none any more; 0: it does, or never has */
        Timer seek;
        KubeletQuestion *questions;

        /* The attempt, if there is one. */
        TcpConnect *connect;
        KubeCall *call;

        /* The last answer. */
        KubeletState state;
        char *why;
        uint64_t answered_usec; /* 0: never */
};

DEFINE_CLEANUP(Kubelet *, kubelet_free)
DEFINE_CLEANUP(KubeletQuestion *, kubelet_question_free)

static const JsonField lease_spec_fields[] = {
        { "renewTime", JSON_TIME, .offset = offsetof(Lease, renewed_sec) },
        { "leaseDurationSeconds", JSON_INTEGER, .offset = offsetof(Lease, duration_sec) },
        { .key = NULL },
};

static const JsonField lease_fields[] = {
        { "spec", JSON_OBJECT, .fields = lease_spec_fields },
        { .key = NULL },
};

/* text: need not end with a NUL. */
static int lease_parse(const char *text, size_t size, Lease *ret, Error *reterr) {
        cleanup(json_object_put_p) struct json_object *object = NULL;
        Lease lease = { .renewed_sec = NEVER_SEC, .duration_sec = LEASE_DURATION_SEC };
        int r;

        r = json_parse(text, size, &object, reterr);
        if (r < 0)
                return r;

        if (!json_object_is_type(object, json_type_object))
                return json_refuse_type(NULL, object, "a Lease", reterr);
        r = json_fields_read(lease_fields, object, NULL, &lease, NULL, reterr);
        if (r < 0)
                return r;

        if (lease.renewed_sec == NEVER_SEC || lease.duration_sec <= 0)
                return error_set(reterr, ERROR_INVALID, "the time of its renewal is missing");

        *ret = lease;
        return 0;
}

static int on_answer(void *userdata) {
        KubeletQuestion *question = userdata;
        const Kubelet *kubelet = question->kubelet;

        return question->on_answered(kubelet->state, kubelet->why, question->userdata);
}

/* Takes over why. */
static int kubelet_answer(Kubelet *kubelet, KubeletState state, char *why) {
        int r = 0;

        free(kubelet->why);
        kubelet->why = why;
        kubelet->state = state;
        kubelet->answered_usec = loop_now_usec(kubelet->event);
        for (KubeletQuestion *question = kubelet->questions; r >= 0 && question;
             question = question->next)
                r = deferred_request(&question->answer);
        return r;
}

static int answer_away(Kubelet *kubelet) {
        char *why;

        if (text_format(&why, "nothing answers on %s", kubelet->text) < 0)
                return -ENOMEM;

        return kubelet_answer(kubelet, KUBELET_AWAY, why);
}

static int answer_by_lease(Kubelet *kubelet, const Lease *lease) {
        int64_t age_sec = (int64_t) time(NULL) - lease->renewed_sec;
        char *why;

        if (age_sec <= lease->duration_sec)
                return kubelet_answer(kubelet, KUBELET_ALIVE, NULL);
        if (text_format(&why, "the kubelet has not renewed its Lease for %lld s",
                        (long long) age_sec) < 0)
                return -ENOMEM;

        return kubelet_answer(kubelet, KUBELET_AWAY, why);
}

/* Where the address has answered before, a kubelet without a Lease is away rather than elsewhere. */
static int answer_without_lease(Kubelet *kubelet) {
        return kubelet->was_alive ? answer_away(kubelet)
                                  : kubelet_answer(kubelet, KUBELET_UNKNOWN, NULL);
}

static int on_lease(const KubeReply *reply, const Error *error, void *userdata) {
        cleanup(error_done) Error ignored = ERROR_INIT;
        Kubelet *kubelet = userdata;
        Lease lease = { .renewed_sec = NEVER_SEC };
        int r = 0;

        if (!error)
                r = lease_parse(reply->body, reply->size, &lease, &ignored);
        kubelet->call = kube_call_unref(kubelet->call);
        if (error || ignored.kind != ERROR_NONE)
                return answer_without_lease(kubelet);

        return r < 0 ? r : answer_by_lease(kubelet, &lease);
}

static int kubelet_ask_lease(Kubelet *kubelet) {
        const KubeRequest request = {
                .verb = "get",
                .method = "GET",
                .path = kubelet->lease_path,
                .reply_max = REPLY_SIZE_MAX,
                .timeout_usec = LEASE_USEC,
                .on_replied = on_lease,
                .userdata = kubelet,
        };

        if (!kubelet->lease_path)
                return answer_without_lease(kubelet);

        return kube_call(kubelet->client, &request, &kubelet->call);
}

static int on_refused(Kubelet *kubelet) {
        uint64_t now_usec = loop_now_usec(kubelet->event);
        int r = 0;

        if (kubelet->was_alive && kubelet->refused_usec == 0) {
                kubelet->refused_usec = now_usec;
                r = timer_start(&kubelet->seek, SEEK_USEC);
        }
        if (r < 0 || !kubelet->questions)
                return r;

        /* An address that never accepted a connection, or has not for long, may be the wrong one. */
        return kubelet->was_alive && now_usec - kubelet->refused_usec < DOUBT_USEC
                       ? answer_away(kubelet)
                       : kubelet_ask_lease(kubelet);
}

static int on_connected(int number, void *userdata) {
        Kubelet *kubelet = userdata;

        kubelet->connect = tcp_connect_free(kubelet->connect);
        if (number != 0)
                return on_refused(kubelet);

        kubelet->was_alive = true;
        kubelet->refused_usec = 0;
        return kubelet_answer(kubelet, KUBELET_ALIVE, NULL);
}

static int kubelet_try(Kubelet *kubelet) {
        if (kubelet->connect || kubelet->call)
                return 0;
        if (!kubelet->has_address)
                return kubelet_ask_lease(kubelet);

        return tcp_connect(kubelet->event, &kubelet->address, CONNECT_USEC, on_connected, kubelet,
                           &kubelet->connect);
}

/* If the address accepts no connection, the kubelet may be down or serve its health elsewhere. So the agent tries to
 * connect before the first question, and until it succeeds. */
static int on_seek(void *userdata) {
        Kubelet *kubelet = userdata;
        int r;

        if (kubelet->was_alive && kubelet->refused_usec == 0)
                return 0;

        r = timer_start(&kubelet->seek, SEEK_USEC);
        return r < 0 ? r : kubelet_try(kubelet);
}

int kubelet_ask(Kubelet *kubelet, KubeletAnswered on_answered, void *userdata,
                KubeletQuestion **ret) {
        cleanup(kubelet_question_free_p) KubeletQuestion *question = NULL;
        bool is_known = kubelet->answered_usec > 0 &&
                        loop_now_usec(kubelet->event) - kubelet->answered_usec < KEEP_USEC;
        int r;

        question = malloc(sizeof(*question));
        if (!question)
                return -ENOMEM;

        *question = (KubeletQuestion){
                .kubelet = kubelet,
                .on_answered = on_answered,
                .userdata = userdata,
        };
        deferred_init(&question->answer, kubelet->event, on_answer, question);
        list_prepend(&kubelet->questions, question);
        r = is_known ? deferred_request(&question->answer) : kubelet_try(kubelet);
        if (r < 0)
                return r;

        *ret = take_ptr(question);
        return 0;
}

KubeletQuestion *kubelet_question_free(KubeletQuestion *question) {
        if (!question)
                return NULL;

        list_remove(&question->kubelet->questions, question);
        deferred_done(&question->answer);
        free(question);
        return NULL;
}

static int format_lease_path(const char *node_name, char **ret) {
        const KubePath path = {
                .group = "coordination.k8s.io",
                .version = "v1",
                .namespace = "kube-node-lease",
                .resource = "leases",
                .name = node_name,
        };

        return kube_path_format(&path, ret);
}

int kubelet_new(const KubeletOptions *options, Kubelet **ret, Error *reterr) {
        cleanup(kubelet_free_p) Kubelet *kubelet = NULL;
        int r = 0;

        kubelet = malloc(sizeof(*kubelet));
        if (!kubelet)
                return -ENOMEM;

        *kubelet = (Kubelet){
                .event = sd_event_ref(options->event),
                .client = options->client,
                .text = strdup(options->address),
                .has_address = *options->address,
        };
        if (!kubelet->text)
                return -ENOMEM;
        if (kubelet->has_address && (!tcp_address_parse(options->address, &kubelet->address) ||
                                     kubelet->address.v4.sin_port == 0))
                return error_set(reterr, ERROR_INVALID,
                                 "the kubelet's address is not one such as 127.0.0.1:10248: %s",
                                 quote(options->address, (char[QUOTE_SIZE]){ 0 }));

        timer_init(&kubelet->seek, kubelet->event, /* accuracy_usec= */ 0, on_seek, kubelet);
        if (options->client && options->node_name)
                r = format_lease_path(options->node_name, &kubelet->lease_path);
        if (r >= 0 && kubelet->has_address)
                r = timer_start(&kubelet->seek, 0);
        if (r < 0)
                return r;

        *ret = take_ptr(kubelet);
        return 0;
}

Kubelet *kubelet_free(Kubelet *kubelet) {
        if (!kubelet)
                return NULL;

        timer_done(&kubelet->seek);
        tcp_connect_free(kubelet->connect);
        kube_call_unref(kubelet->call);
        free(kubelet->lease_path);
        free(kubelet->text);
        free(kubelet->why);
        sd_event_unref(kubelet->event);
        free(kubelet);
        return NULL;
}
