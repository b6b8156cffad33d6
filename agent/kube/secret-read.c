/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/secret-read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/kube/path.h"
#include "agent/kube/retry.h"

#define BODY_MAX ((size_t) 2 << 20)
#define BODY_MIN ((size_t) 4 << 10)
#define RETRIES_MAX 3
#define BUDGET_USEC ((uint64_t) 10 * 1000000)

struct SecretRead {
        KubeClient *client;
        const char *namespace;
        const char *name;
        SecretReadDone on_done;
        void *userdata;

        KubeCall *call;
        char *body; /* taken piece by piece, so that it is ours to wipe */
        size_t body_size;
        size_t body_room;
        bool is_too_large;

        sd_event_source *retry;
        unsigned n_failures;
        uint64_t give_up_usec;
};

DEFINE_CLEANUP(SecretRead *, secret_read_free)

static void read_forget_body(SecretRead *read) {
        if (read->body)
                explicit_bzero(read->body, read->body_size);
        free(read->body);
        read->body = NULL;
        read->body_size = read->body_room = 0;
        read->is_too_large = false;
}

/* Not realloc(), which may leave a copy behind. */
static int read_make_room(SecretRead *read, size_t size) {
        size_t room = read->body_room ?: BODY_MIN;
        char *grown;

        while (room < size)
                room *= 2;
        if (room == read->body_room)
                return 0;

        grown = malloc(room);
        if (!grown)
                return -ENOMEM;

        if (read->body) {
                memcpy(grown, read->body, read->body_size);
                explicit_bzero(read->body, read->body_size);
                free(read->body);
        }
        read->body = grown;
        read->body_room = room;
        return 0;
}

static int on_body(const char *data, size_t size, void *userdata) {
        SecretRead *read = userdata;
        int r;

        if (size > BODY_MAX - read->body_size) {
                read->is_too_large = true;
                return -EMSGSIZE;
        }

        r = read_make_room(read, read->body_size + size);
        if (r < 0)
                return r;

        memcpy(read->body + read->body_size, data, size);
        read->body_size += size;
        return 0;
}

static int read_finish(SecretRead *read) {
        cleanup(secret_text_done) SecretText text = SECRET_TEXT_INIT;
        cleanup(error_done) Error cause = ERROR_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = secret_spec_parse(read->body ?: "", read->body_size, &text, &cause);
        read_forget_body(read);
        if (r < 0 && cause.kind == ERROR_NONE)
                return r;
        if (r < 0)
                (void) error_set(&error, cause.kind, "secret %s/%s: %s", read->namespace,
                                 read->name, error_message(&cause));

        return read->on_done(r < 0 ? NULL : &text, r < 0 ? &error : NULL, read->userdata);
}

static int read_refuse(SecretRead *read, ErrorKind kind, const char *what, const char *why) {
        cleanup(error_done) Error error = ERROR_INIT;

        (void) error_set(&error, kind, "secret %s/%s: %s%s%s", read->namespace, read->name, what,
                         why ? ": " : "", why ?: "");
        return read->on_done(NULL, &error, read->userdata);
}

static int read_fail(SecretRead *read, const Error *error, bool is_too_large) {
        if (is_too_large)
                return read_refuse(read, ERROR_INVALID, "it is larger than 2 MiB", NULL);
        if (error->kind == ERROR_NOT_FOUND)
                return read_refuse(read, error->kind, "it does not exist", NULL);
        if (error->kind == ERROR_DENIED)
                return read_refuse(read, error->kind, "it may not be read", error_message(error));

        return read_refuse(read, error->kind, "it cannot be read", error_message(error));
}

static int read_ask(SecretRead *read, uint64_t now_usec);

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata) {
        SecretRead *read = userdata;
        uint64_t now_usec;

        read->retry = sd_event_source_unref(read->retry);
        (void) sd_event_now(kube_client_event(read->client), CLOCK_MONOTONIC, &now_usec);
        return read_ask(read, now_usec);
}

static int read_retry_or_give_up(SecretRead *read, const KubeReply *reply, const Error *error) {
        sd_event *event = kube_client_event(read->client);
        uint64_t now_usec, wait_usec;
        uint32_t random = 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        (void) sd_event_now(event, CLOCK_MONOTONIC, &now_usec);
        wait_usec = kube_retry_usec(++read->n_failures, reply, random);
        if (read->n_failures > RETRIES_MAX || now_usec + wait_usec >= read->give_up_usec)
                return read_refuse(read, ERROR_UNAVAILABLE,
                                   reply->code == 0 ? "the API server does not answer"
                                                    : "the API server cannot answer now",
                                   error_message(error));

        return loop_add_time_relative(event, &read->retry, CLOCK_MONOTONIC, wait_usec, 0, on_retry,
                                      read);
}

static int on_replied(const KubeReply *reply, const Error *error, void *userdata) {
        SecretRead *read = userdata;
        bool is_too_large = read->is_too_large;

        read->call = kube_call_unref(read->call);
        if (!error)
                return read_finish(read);

        read_forget_body(read);
        if (!is_too_large && kube_is_retriable(reply, error))
                return read_retry_or_give_up(read, reply, error);

        return read_fail(read, error, is_too_large);
}

static int read_ask(SecretRead *read, uint64_t now_usec) {
        cleanup(free_p) char *path = NULL;
        int r;

        r = kube_path_format(
                &(KubePath){
                        .version = "v1",
                        .namespace = read->namespace,
                        .resource = "secrets",
                        .name = read->name,
                },
                &path);
        if (r < 0)
                return r;

        return kube_call(read->client,
                         &(KubeRequest){
                                 .verb = "get",
                                 .method = "GET",
                                 .path = path,
                                 .timeout_usec = now_usec < read->give_up_usec
                                                         ? read->give_up_usec - now_usec
                                                         : 1,
                                 .on_data = on_body,
                                 .on_replied = on_replied,
                                 .userdata = read,
                         },
                         &read->call);
}

int secret_read_start(KubeClient *client, const char *namespace, const char *name,
                      SecretReadDone on_done, void *userdata, SecretRead **ret) {
        cleanup(secret_read_free_p) SecretRead *read = NULL;
        uint64_t now_usec;
        int r;

        read = malloc(sizeof(*read));
        if (!read)
                return -ENOMEM;

        (void) sd_event_now(kube_client_event(client), CLOCK_MONOTONIC, &now_usec);
        *read = (SecretRead){
                .client = client,
                .namespace = namespace,
                .name = name,
                .on_done = on_done,
                .userdata = userdata,
                .give_up_usec = now_usec + BUDGET_USEC,
        };
        r = read_ask(read, now_usec);
        if (r < 0)
                return r;

        *ret = take_ptr(read);
        return 0;
}

SecretRead *secret_read_free(SecretRead *read) {
        if (!read)
                return NULL;

        read->call = kube_call_unref(read->call);
        read->retry = sd_event_source_unref(read->retry);
        read_forget_body(read);
        free(read);
        return NULL;
}
