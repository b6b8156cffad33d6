/* SPDX-License-Identifier: Apache-2.0 */

#include "cri/runtimes.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "cri/client.h"

/* Pauses between tries: until a runtime is chosen and for that one, and for the others. */
#define RETRY_NEEDED_USEC ((uint64_t) 250 * 1000)
#define RETRY_OTHERS_USEC ((uint64_t) 30 * 1000000)

/* Call that shows whether a runtime answers at all. */
#define QUESTION_METHOD "Version"

/* The pause between two questions to a silent runtime. */
#define SILENCE_USEC ((uint64_t) 1000000)

#define WORD_SIZE_MAX 64 /* bytes of a name or version; no runtime has longer ones */

struct Runtime {
        Runtimes *runtimes; /* owner of this runtime */
        char *path;
        uint64_t retry_usec; /* between two tries */

        RuntimeState state;
        RuntimeState previous_state; /* state at the last call of runtime_become() */
        bool is_same_state;
        ErrorKind refusal; /* kind of the peer's refusal, or unset */
        RpcClient *client;
        RpcCall *call;
        Timer retry;
        unsigned n_connects;
        struct timespec connected_at; /* time of the last of these */

        bool is_doubted; /* the last quick call was not answered in time */
        bool is_silent;  /* the question for the version was not answered either */
        bool was_silent; /* when on_changed was called last */
        Deferred news;
        Timer question; /* time of the next question to a silent runtime */
        RpcCall *asking;

        char *name;
        char *last_name; /* name of the connection before */
        char *version;
        char *api_version;
        char *image_path;
        char *sentence;
};

struct Runtimes {
        CompletionQueue *completions;
        Runtime **items;
        size_t n_items;
        Runtime *chosen;
        RuntimeChanged on_changed;
        Metrics *metrics;
        unsigned n_reconnects_counted;
        void *userdata;
};

DEFINE_CLEANUP(Runtimes *, runtimes_free)

/* Registries or containers delay these calls, so their duration says nothing about the runtime. */
static bool is_prompt(const char *method) {
        return strcmp(method, "PullImage") != 0 && strcmp(method, "StopContainer") != 0 &&
               strcmp(method, "ExecSync") != 0;
}

/* A call without an answer makes the agent ask the runtime for its version: perhaps only one image
 * or container hangs. */
static void runtime_note_answer(Runtime *runtime, const char *method, ErrorKind result) {
        bool is_answer = result != ERROR_TIMEOUT;

        if (runtime->state != RUNTIME_READY || result == ERROR_CANCELED ||
            (is_answer ? !runtime->is_doubted : !is_prompt(method)))
                return;

        /* Without memory, the next call notes it. */
        if (deferred_request(&runtime->news) < 0)
                return;

        runtime->is_doubted = !is_answer;
        runtime->is_silent =
                !is_answer && (runtime->is_silent || strcmp(method, QUESTION_METHOD) == 0);
}

static void on_call(const RpcMethod *method, uint64_t duration_usec, ErrorKind result,
                    void *userdata) {
        Runtime *runtime = userdata;
        Metrics *metrics = runtime->runtimes->metrics;
        const char *name = cri_method_name(method);

        metrics_add(metrics, METRIC_CRI_REQUESTS, METRIC_LABELS(name, metrics_result(result)), 1);
        metrics_observe(metrics, METRIC_CRI_REQUEST_DURATION, METRIC_LABELS(name),
                        (double) duration_usec / 1e6);
        runtime_note_answer(runtime, name, result);
}

/* Tries to connect. After a failure, starts the timer of the next try. */
static int runtime_try(Runtime *runtime);

/* Waits for a runtime that is being asked, because it may be the better choice. */
static Runtime *first_ready(const Runtimes *runtimes) {
        for (size_t i = 0; i < runtimes->n_items; i++)
                switch (runtimes->items[i]->state) {
                case RUNTIME_READY: return runtimes->items[i];
                case RUNTIME_CONNECTING: return NULL;
                case RUNTIME_ABSENT:
                case RUNTIME_REFUSED:
                case _RUNTIME_STATE_MAX: break;
                }

        return NULL;
}

static void runtimes_choose(Runtimes *runtimes) {
        if (runtimes->chosen)
                return;

        runtimes->chosen = first_ready(runtimes);
        for (size_t i = 0; runtimes->chosen && i < runtimes->n_items; i++)
                if (runtimes->items[i] != runtimes->chosen)
                        runtimes->items[i]->retry_usec = RETRY_OTHERS_USEC;
}

static void runtime_disconnect(Runtime *runtime) {
        runtime->is_doubted = runtime->is_silent = runtime->was_silent = false;
        timer_stop(&runtime->question);
        runtime->asking = rpc_call_unref(runtime->asking);
        runtime->call = rpc_call_unref(runtime->call);
        runtime->client = rpc_client_free(runtime->client);
        if (runtime->name) {
                free(runtime->last_name);
                runtime->last_name = take_ptr(runtime->name);
        }
        free(take_ptr(runtime->version));
        free(take_ptr(runtime->api_version));
        free(take_ptr(runtime->image_path));
}

/* Takes the sentence over. */
static int runtime_become(Runtime *runtime, RuntimeState state, ErrorKind refusal, char *sentence) {
        bool is_same = state == runtime->state && refusal == runtime->refusal;
        bool is_news = !is_same || !runtime->sentence || !sentence ||
                       (state != RUNTIME_REFUSED && strcmp(sentence, runtime->sentence) != 0);

        runtime->is_same_state = state == runtime->previous_state;
        runtime->previous_state = state;
        runtime->refusal = refusal;
        free(runtime->sentence);
        runtime->sentence = sentence;
        runtime->state = state;
        if (!is_news)
                return 0;

        runtimes_choose(runtime->runtimes);
        return runtime->runtimes->on_changed(runtime, runtime->runtimes->userdata);
}

static int on_retry(void *userdata) {
        return runtime_try(userdata);
}

static int runtime_try_later(Runtime *runtime) {
        return timer_start(&runtime->retry, runtime->retry_usec);
}

static int runtime_fail(Runtime *runtime, RuntimeState state, ErrorKind refusal, char *sentence) {
        int r;

        runtime_disconnect(runtime);
        r = runtime_try_later(runtime);
        if (r < 0)
                return r;

        return runtime_become(runtime, state, refusal, sentence);
}

__attribute__((format(printf, 1, 2))) static char *format(const char *pattern, ...) {
        va_list args;
        char *text;

        va_start(args, pattern);
        (void) text_vformat(&text, pattern, args);
        va_end(args);
        return text;
}

static int runtime_starts(Runtime *runtime) {
        return runtime_fail(runtime, RUNTIME_ABSENT, ERROR_UNAVAILABLE,
                            format("the runtime at %s is not ready yet", runtime->path));
}

/* containerd answers this until its CRI plugin has read its state. */
static bool is_starting(const Error *error) {
        return strstr(error_message(error), "not initialized yet") != NULL;
}

/* A peer that has answered Version is a runtime that starts: some listen before they serve. */
static int runtime_hangs_up(Runtime *runtime) {
        if (runtime->name)
                return runtime_starts(runtime);

        return runtime_fail(runtime, RUNTIME_REFUSED, ERROR_INTERNAL,
                            format("%s ends connections at once: is it a container runtime?",
                                   runtime->path));
}

/* gRPC notices by luck whether the connection is closed or the peer does not speak HTTP/2. So both
 * become the same refusal, which is not reported again when they alternate. */
static int runtime_refuse(Runtime *runtime, const Error *error) {
        const char *path = runtime->path;
        ErrorKind refusal = error->kind;
        char *sentence;

        if (is_starting(error))
                return runtime_starts(runtime);
        if (refusal == ERROR_UNAVAILABLE)
                return runtime_hangs_up(runtime);
        if (refusal == ERROR_UNSUPPORTED)
                sentence = format("%s does not speak CRI v1: update the runtime, or enable its CRI "
                                  "plugin",
                                  path);
        else if (refusal == ERROR_TIMEOUT)
                sentence = format("%s accepts connections but does not answer: restart the runtime",
                                  path);
        else
                sentence = format("%s answers but not as a CRI runtime: %s", path,
                                  error_message(error));

        return runtime_fail(runtime, RUNTIME_REFUSED, refusal, sentence);
}

/* Copies a short, printable word: people read it and programs compare it. */
static char *copy_word(const char *word) {
        size_t size = strnlen(word, WORD_SIZE_MAX);
        char *copy = strndup(word, size);

        for (size_t i = 0; copy && i < size; i++)
                if ((unsigned char) copy[i] < 0x21 || (unsigned char) copy[i] > 0x7e)
                        copy[i] = '?';

        return copy;
}

static int runtime_is_ready(Runtime *runtime) {
        runtime->n_connects++;
        (void) clock_gettime(CLOCK_REALTIME, &runtime->connected_at);
        return runtime_become(runtime, RUNTIME_READY, ERROR_NONE,
                              format("%s %s at %s is ready", runtime->name, runtime->version,
                                     runtime->path));
}

static int on_asked(const void *reply, const Error *error, void *userdata) {
        Runtime *runtime = userdata;

        runtime->asking = rpc_call_unref(runtime->asking);
        return 0; /* runtime_note_answer() has it */
}

static int on_question(void *userdata) {
        Runtime *runtime = userdata;

        if (runtime->asking)
                return 0;

        return cri_version(runtime->client, on_asked, runtime, &runtime->asking);
}

/* Asks a silent runtime again and again, because the agent may have no other call to it. */
static int on_news(void *userdata) {
        Runtime *runtime = userdata;
        int r = 0;

        if (runtime->state != RUNTIME_READY)
                return 0;

        if (runtime->is_doubted)
                r = runtime->is_silent ? timer_start(&runtime->question, SILENCE_USEC)
                                       : on_question(runtime);
        if (r < 0 || runtime->is_silent == runtime->was_silent)
                return r;

        runtime->was_silent = runtime->is_silent;
        return runtime_become(runtime, RUNTIME_READY, ERROR_NONE,
                              format("%s %s at %s %s", runtime->name, runtime->version,
                                     runtime->path,
                                     runtime->is_silent ? "does not answer" : "answers again"));
}

static const char *path_of(const CriImageFsInfo *info) {
        return info->n_image_filesystems > 0 && info->image_filesystems[0]->fs_id
                       ? info->image_filesystems[0]->fs_id->mountpoint
                       : "";
}

/* The runtime is ready when this call works: it answers for its version earlier. */
static int on_image_fs_info(const void *reply, const Error *error, void *userdata) {
        Runtime *runtime = userdata;

        runtime->call = rpc_call_unref(runtime->call);
        if (error && error->kind != ERROR_UNSUPPORTED)
                return runtime_refuse(runtime, error);

        if (!error) {
                runtime->image_path = strdup(path_of(reply));
                if (!runtime->image_path)
                        return -ENOMEM;
        }

        return runtime_is_ready(runtime);
}

static int on_version(const void *reply, const Error *error, void *userdata) {
        const CriVersion *version = reply;
        Runtime *runtime = userdata;

        runtime->call = rpc_call_unref(runtime->call);
        if (error)
                return runtime_refuse(runtime, error);

        runtime->name = copy_word(version->runtime_name);
        runtime->version = copy_word(version->runtime_version);
        runtime->api_version = copy_word(version->runtime_api_version);
        if (!runtime->name || !runtime->version || !runtime->api_version)
                return -ENOMEM;

        return cri_image_fs_info(runtime->client, on_image_fs_info, runtime, &runtime->call);
}

static int on_closed(void *userdata) {
        Runtime *runtime = userdata;

        if (runtime->state == RUNTIME_READY)
                return runtime_fail(runtime, RUNTIME_ABSENT, ERROR_NONE,
                                    format("the runtime at %s has ended the connection",
                                           runtime->path));

        return runtime_hangs_up(runtime);
}

/* Tries to connect now, unless it has. */
static int runtime_try(Runtime *runtime) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (runtime->client)
                return 0;

        timer_stop(&runtime->retry);
        r = rpc_client_connect(runtime->runtimes->completions, runtime->path, on_closed, runtime,
                               &runtime->client, &error);
        if (error.kind == ERROR_DENIED)
                return runtime_fail(runtime, RUNTIME_REFUSED, ERROR_DENIED,
                                    format("inplaced may not connect to %s: let its user join the "
                                           "group of the socket",
                                           runtime->path));
        if (error.kind != ERROR_NONE)
                return runtime_fail(runtime, RUNTIME_ABSENT, ERROR_NONE,
                                    format("no runtime at %s", error_message(&error)));
        if (r < 0)
                return r;

        rpc_client_set_observer(runtime->client, on_call, runtime);
        if (runtime->refusal == ERROR_NONE) {
                free(runtime->sentence);
                runtime->sentence = format("asking the runtime at %s", runtime->path);
                runtime->state = RUNTIME_CONNECTING;
        }
        return cri_version(runtime->client, on_version, runtime, &runtime->call);
}

static Runtime *runtime_free(Runtime *runtime) {
        if (!runtime)
                return NULL;

        runtime_disconnect(runtime);
        timer_done(&runtime->retry);
        timer_done(&runtime->question);
        deferred_done(&runtime->news);
        free(runtime->last_name);
        free(runtime->sentence);
        free(runtime->path);
        free(runtime);
        return NULL;
}

DEFINE_CLEANUP(Runtime *, runtime_free)

static int runtime_new(Runtimes *runtimes, const char *path, Runtime **ret) {
        cleanup(runtime_free_p) Runtime *runtime = NULL;

        runtime = malloc(sizeof(*runtime));
        if (!runtime)
                return -ENOMEM;

        *runtime = (Runtime){
                .runtimes = runtimes,
                .path = strdup(path),
                .retry_usec = RETRY_NEEDED_USEC,
                .state = RUNTIME_ABSENT,
                .sentence = format("%s was not tried yet", path),
        };
        timer_init(&runtime->retry, completion_queue_get_event(runtimes->completions),
                   /* accuracy_usec= */ 0, on_retry, runtime);
        timer_init(&runtime->question, completion_queue_get_event(runtimes->completions),
                   /* accuracy_usec= */ 0, on_question, runtime);
        deferred_init(&runtime->news, completion_queue_get_event(runtimes->completions), on_news,
                      runtime);
        if (!runtime->path || !runtime->sentence)
                return -ENOMEM;

        *ret = take_ptr(runtime);
        return 0;
}

RuntimeState runtime_state(const Runtime *runtime) {
        return runtime->state;
}

RpcClient *runtime_client(const Runtime *runtime) {
        return runtime->state == RUNTIME_READY ? runtime->client : NULL;
}

bool runtime_is_alive(const Runtime *runtime) {
        return runtime->state == RUNTIME_READY && rpc_client_is_connected(runtime->client);
}

bool runtime_is_silent(const Runtime *runtime) {
        return runtime->state == RUNTIME_READY && runtime->was_silent;
}

bool runtime_is_as_before(const Runtime *runtime) {
        return runtime->is_same_state;
}

const char *runtime_path(const Runtime *runtime) {
        return runtime->path;
}

const char *runtime_name(const Runtime *runtime) {
        return runtime->name ?: "";
}

const char *runtime_version(const Runtime *runtime) {
        return runtime->version ?: "";
}

const char *runtime_api_version(const Runtime *runtime) {
        return runtime->api_version ?: "";
}

const char *runtime_image_path(const Runtime *runtime) {
        return runtime->image_path && runtime->image_path[0] ? runtime->image_path : NULL;
}

const char *runtime_sentence(const Runtime *runtime) {
        return runtime->sentence ?: "out of memory";
}

unsigned runtime_n_connects(const Runtime *runtime) {
        return runtime->n_connects;
}

struct timespec runtime_connected_at(const Runtime *runtime) {
        return runtime->connected_at;
}

int runtimes_new(CompletionQueue *queue, const RuntimesOptions *options, Runtimes **ret) {
        cleanup(runtimes_free_p) Runtimes *runtimes = NULL;
        int r;

        runtimes = malloc(sizeof(*runtimes));
        if (!runtimes)
                return -ENOMEM;

        *runtimes = (Runtimes){
                .completions = queue,
                .items = calloc(options->n_paths + 1, sizeof(runtimes->items[0])),
                .on_changed = options->on_changed,
                .metrics = options->metrics,
                .userdata = options->userdata,
        };
        if (!runtimes->items)
                return -ENOMEM;

        for (size_t i = 0; i < options->n_paths; i++) {
                r = runtime_new(runtimes, options->paths[i], &runtimes->items[i]);
                if (r < 0)
                        return r;

                runtimes->n_items++;
        }

        *ret = take_ptr(runtimes);
        return 0;
}

Runtimes *runtimes_free(Runtimes *runtimes) {
        if (!runtimes)
                return NULL;

        for (size_t i = 0; i < runtimes->n_items; i++)
                runtime_free(runtimes->items[i]);
        free(runtimes->items);
        free(runtimes);
        return NULL;
}

void runtimes_measure(Runtimes *runtimes) {
        const Runtime *runtime = runtimes->chosen;
        unsigned n_reconnects = runtime && runtime->n_connects > 0 ? runtime->n_connects - 1 : 0;

        metrics_set(runtimes->metrics, METRIC_RUNTIME_READY, NULL,
                    runtime && runtime->state == RUNTIME_READY && !runtime_is_silent(runtime));
        if (n_reconnects > runtimes->n_reconnects_counted) {
                metrics_add(runtimes->metrics, METRIC_RUNTIME_RECONNECTS, NULL,
                            n_reconnects - runtimes->n_reconnects_counted);
                runtimes->n_reconnects_counted = n_reconnects;
        }
}

Runtime *runtimes_chosen(const Runtimes *runtimes) {
        return runtimes->chosen;
}

/* The same name means nothing: a distribution's containerd may run beside that of k3s. */
Runtime *runtimes_find(const Runtimes *runtimes, const char *name) {
        Runtime *chosen = runtimes->chosen;

        if (chosen && strcmp(chosen->name ?: chosen->last_name ?: "", name) == 0)
                return chosen;

        for (size_t i = 0; i < runtimes->n_items; i++)
                if (runtime_client(runtimes->items[i]) &&
                    strcmp(runtime_name(runtimes->items[i]), name) == 0)
                        return runtimes->items[i];
        return NULL;
}

RpcClient *runtimes_client(const Runtimes *runtimes) {
        return runtimes->chosen ? runtime_client(runtimes->chosen) : NULL;
}

bool runtimes_are_alive(const Runtimes *runtimes) {
        return runtimes->chosen && runtime_is_alive(runtimes->chosen);
}

bool runtimes_are_settled(const Runtimes *runtimes) {
        for (size_t i = 0; i < runtimes->n_items; i++)
                if (runtime_state(runtimes->items[i]) == RUNTIME_CONNECTING)
                        return false;

        return true;
}

size_t runtimes_count(const Runtimes *runtimes) {
        return runtimes->n_items;
}

Runtime *runtimes_get(const Runtimes *runtimes, size_t i) {
        return runtimes->items[i];
}

int runtimes_try(Runtimes *runtimes) {
        int r;

        for (size_t i = 0; i < runtimes->n_items; i++) {
                r = runtime_try(runtimes->items[i]);
                if (r < 0)
                        return r;
        }

        return 0;
}
