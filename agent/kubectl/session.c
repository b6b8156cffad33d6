/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/session.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>
#include <time.h>

#include "agent/base/loop.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kube/pages.h"
#include "agent/kube/retry.h"
#include "agent/kube/watch.h"
#include "agent/kubectl/workload.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"

/* The API server takes the name before the slash as the writer's: it is not the agent's. Flux takes back what a writer whose
 * name begins with "kubectl" has added, as the record of an update. */
#define USER_AGENT "User-Agent: inplaced-kubectl/" INPLACED_VERSION

#define PAGE_OBJECTS 100u
#define FEW_OBJECTS 10u
/* Limit of an object, and of a page of few. The API server sends its store no more than 2 MiB, and writes some characters
 * in six bytes: an object that is larger than the limit would end the list of all namespaces. */
#define OBJECT_MAX ((size_t) 12 << 20)
#define ATTEMPTS_MAX 10u /* as client-go */
#define REDRAW_USEC USEC_PER_SEC
#define ANSWER_USEC (2 * USEC_PER_SEC)
#define REVIEWS_MAX 3u
#define REVIEW_PAUSE_USEC USEC_PER_SEC

/* SIGHUP: the terminal or the connection to it is gone. */
static const int signal_numbers[] = { SIGINT, SIGTERM, SIGHUP };

#define N_SIGNALS (sizeof(signal_numbers) / sizeof(signal_numbers[0]))

struct Session {
        SessionOptions options;
        sd_event *event;
        sd_event_source *signals[N_SIGNALS];
        Timer timeout;
        KubeClient *client;
        char *namespace;
        char *user;              /* NULL: not asked yet */
        json_object *discovered; /* {"/apis/GROUP/VERSION": the list of its resources, or null} */
        size_t n_troubled;       /* watches that the server does not answer */
        int code;                /* HTTP status of the last answer; 0: none came */

        bool is_ended;   /* nothing more is sent */
        bool is_leaving; /* see session_begin_leave() */
        int end_status;  /* why it ended first, as an exit status; 0: it did not */
};

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        Session *session = userdata;
        int status = EXIT_STATUS_SIGNAL + (int) info->ssi_signo;

        /* The kernel and the shell both send it, one after the other: the second one does not end the command at once. */
        if (info->ssi_signo == SIGHUP && session->end_status == status)
                return 0;
        session->is_ended = true;
        if (session->end_status == 0)
                session->end_status = status;
        return 0;
}

static int on_timeout(void *userdata) {
        Session *session = userdata;

        session->is_ended = true;
        if (session->end_status == 0)
                session->end_status = EXIT_STATUS_TIMEOUT;
        return 0;
}

/* By nohup(1), for a command that is to outlive its terminal. */
static bool is_ignored(int number) {
        struct sigaction action;

        return number == SIGHUP && sigaction(number, NULL, &action) >= 0 &&
               action.sa_handler == SIG_IGN;
}

static int watch_signal(Session *session, int number, sd_event_source **ret) {
        sigset_t blocked;

        if (is_ignored(number))
                return 0;
        sigemptyset(&blocked);
        sigaddset(&blocked, number);
        return sigprocmask(SIG_BLOCK, &blocked, NULL) < 0
                       ? -errno
                       : loop_add_signal(session->event, ret, number, on_signal, session);
}

static int watch_signals(Session *session) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < N_SIGNALS; i++)
                r = watch_signal(session, signal_numbers[i], &session->signals[i]);
        return r;
}

static int connect_with(Session *session, const char *kubeconfig, const char *list, Error *reterr) {
        const KubeAccessOptions access = {
                .kubeconfig = kubeconfig,
                .kubeconfig_list = list,
                .context = session->options.context,
                .overrides = session->options.overrides,
        };

        return kube_client_new(&(KubeClientOptions){ .event = session->event,
                                                     .access = &access,
                                                     .user_agent_header = USER_AGENT },
                               &session->client, reterr);
}

static bool has_overrides(const SessionOptions *options) {
        const KubeconfigOverrides *overrides = &options->overrides;

        return options->context || overrides->cluster || overrides->user || overrides->server ||
               overrides->token || overrides->as || overrides->as_groups;
}

static int connect_with_list(Session *session, const char *list, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = connect_with(session, /* kubeconfig= */ NULL, list, &error);
        if (error.kind == ERROR_NONE)
                return r;

        /* As kubectl: without any file it may still run in a pod. */
        if (error.kind == ERROR_NOT_FOUND && !has_overrides(&session->options) &&
            kube_access_is_pod(NULL))
                return connect_with(session, NULL, NULL, reterr);
        if (error.kind == ERROR_NOT_FOUND)
                return error_set(reterr, error.kind,
                                 "there is no kubeconfig: %s; name one by --kubeconfig or "
                                 "$KUBECONFIG",
                                 error_message(&error));

        return error_copy(reterr, &error);
}

/* --kubeconfig, else $KUBECONFIG, else ~/.kube/config, else what a pod has. */
static int session_connect(Session *session, Error *reterr) {
        const char *list = getenv("KUBECONFIG"), *home = getenv("HOME");
        cleanup(free_p) char *usual = NULL;

        if (session->options.kubeconfig)
                return connect_with(session, session->options.kubeconfig, /* list= */ NULL, reterr);

        if (text_format(&usual, "%s/.kube/config", home ?: "") < 0)
                return -ENOMEM;

        return connect_with_list(session, list && list[0] ? list : usual, reterr);
}

int session_new(const SessionOptions *options, Session **ret, Error *reterr) {
        cleanup(session_free_p) Session *session = NULL;
        int r;

        session = calloc(1, sizeof(*session));
        if (!session)
                return -ENOMEM;

        session->options = *options;
        session->discovered = json_object_new_object();
        if (!session->discovered)
                return -ENOMEM;

        r = sd_event_new(&session->event);
        if (r < 0)
                return r;

        timer_init(&session->timeout, session->event, /* accuracy_usec= */ 0, on_timeout, session);
        r = watch_signals(session);
        if (r >= 0 && options->timeout_usec > 0)
                r = timer_start(&session->timeout, options->timeout_usec);
        if (r < 0)
                return r;

        r = session_connect(session, reterr);
        if (r < 0)
                return r;
        session->namespace = strdup(
                options->namespace ?: kube_access_namespace(kube_client_access(session->client))
                                   ?: "default");
        if (!session->namespace)
                return -ENOMEM;

        *ret = take_ptr(session);
        return 0;
}

Session *session_free(Session *session) {
        if (!session)
                return NULL;

        kube_client_free(session->client);
        timer_done(&session->timeout);
        for (size_t i = 0; i < N_SIGNALS; i++)
                sd_event_source_disable_unref(session->signals[i]);
        sd_event_unref(session->event);
        free(session->namespace);
        free(session->user);
        json_object_put(session->discovered);
        free(session);
        return NULL;
}

const char *session_namespace(const Session *session) {
        return session->namespace;
}

const char *session_target(const Session *session) {
        return kube_client_target(session->client);
}

bool session_is_dry_run(const Session *session) {
        return session->options.is_dry_run;
}

const SessionOptions *session_options(const Session *session) {
        return &session->options;
}

sd_event *session_event(const Session *session) {
        return session->event;
}

KubeClient *session_client(const Session *session) {
        return session->client;
}

bool session_is_ended(const Session *session) {
        return session->is_ended;
}

int session_code(const Session *session) {
        return session->code;
}

int64_t session_server_sec(const Session *session) {
        int64_t usec;

        return kube_client_server_usec(session->client, &usec) ? usec / (int64_t) USEC_PER_SEC
                                                               : (int64_t) time(NULL);
}

int session_end_status(const Session *session) {
        return session->end_status;
}

int session_fail(const Session *session, int r, const Error *error) {
        if (error->kind == ERROR_NONE)
                return r;

        complain("%s", error_message(error));
        return session->end_status ?: EXIT_STATUS_FAILED;
}

static int refuse_ended(const Session *session, Error *reterr) {
        if (session->end_status == EXIT_STATUS_TIMEOUT)
                return error_set(reterr, ERROR_TIMEOUT, "timed out waiting");

        return error_set(reterr, ERROR_CANCELED, "interrupted");
}

static int session_step(Session *session) {
        int code, r;

        r = sd_event_run(session->event, UINT64_MAX);
        if (r < 0)
                return r;

        return sd_event_get_exit_code(session->event, &code) < 0 ? 0 : code < 0 ? code : -EIO;
}

/* Runs the loop until that is true. */
static int session_run(Session *session, const bool *is_done, Error *reterr) {
        int r = 0;

        while (r >= 0 && !*is_done) {
                if (session->is_ended)
                        return refuse_ended(session, reterr);

                r = session_step(session);
        }

        return r;
}

typedef struct Pause {
        Timer timer;
        bool is_done;
} Pause;

static int on_paused(void *userdata) {
        Pause *pause = userdata;

        pause->is_done = true;
        return 0;
}

static void pause_done(Pause *pause) {
        timer_done(&pause->timer);
}

int session_pause(Session *session, uint64_t usec, Error *reterr) {
        cleanup(pause_done) Pause pause = { .is_done = false };
        int r;

        timer_init(&pause.timer, session->event, /* accuracy_usec= */ 0, on_paused, &pause);
        r = timer_start(&pause.timer, usec);
        if (r < 0)
                return r;

        return session_run(session, &pause.is_done, reterr);
}

/* The same for the answer to a write, which may be done by now: after a signal or the time-out it gets
 * a moment more, until the next signal. */
static int session_run_write(Session *session, const bool *is_done, Error *reterr) {
        cleanup(pause_done) Pause pause = { .is_done = false };
        int r = 0;

        timer_init(&pause.timer, session->event, /* accuracy_usec= */ 0, on_paused, &pause);
        while (r >= 0 && !*is_done && !session->is_ended)
                r = session_step(session);
        if (r < 0 || *is_done)
                return r;

        session->is_ended = false;
        r = timer_start(&pause.timer, ANSWER_USEC);
        while (r >= 0 && !*is_done && !pause.is_done && !session->is_ended)
                r = session_step(session);
        session->is_ended = true;
        return r < 0 || *is_done ? r : refuse_ended(session, reterr);
}

/* A request and its answer. */
typedef struct Exchange {
        KubeCall *call;
        bool is_done;
        int code;
        uint64_t retry_after_usec;
        json_object *body; /* NULL: there is none, or it does not matter */
        bool has_body;     /* it matters */
        unsigned depth;    /* depth of metadata whose managedFields are left out; 0: none are */
        Error error;
} Exchange;

static void exchange_done(Exchange *exchange) {
        kube_call_unref(exchange->call);
        json_object_put(exchange->body);
        error_done(&exchange->error);
}

static int on_replied(const KubeReply *reply, const Error *error, void *userdata) {
        Exchange *exchange = userdata;
        int r;

        exchange->is_done = true;
        exchange->code = reply->code;
        exchange->retry_after_usec = reply->retry_after_usec;
        if (error)
                return error_copy(&exchange->error, error), 0;
        if (!exchange->has_body || reply->size == 0)
                return 0;

        r = json_parse_without(reply->body, reply->size, KUBE_MANAGED_FIELDS, exchange->depth,
                               &exchange->body, &exchange->error);
        if (exchange->error.kind != ERROR_NONE)
                return 0;
        return r < 0 ? r : object_parse_notes(exchange->body);
}

/* The body of the answer is no secret: it needs no wiping. */
static int session_ask_once(Session *session, const KubeRequest *request, Exchange *exchange,
                            Error *reterr) {
        KubeRequest complete = *request;
        int r;

        if (session->is_ended)
                return refuse_ended(session, reterr);

        complete.on_replied = on_replied;
        complete.userdata = exchange;
        complete.timeout_usec =
                session->is_leaving ? ANSWER_USEC : session->options.request_timeout_usec;
        r = kube_call(session->client, &complete, &exchange->call);
        if (r < 0)
                return r;

        r = strcmp(request->method, "GET") == 0
                    ? session_run(session, &exchange->is_done, reterr)
                    : session_run_write(session, &exchange->is_done, reterr);
        exchange->call = kube_call_unref(exchange->call);
        return r;
}

/* How long it waits before the server that is busy is asked again. */
static uint64_t busy_usec(const Exchange *exchange, unsigned n_attempts) {
        const KubeReply reply = { .code = exchange->code,
                                  .retry_after_usec = exchange->retry_after_usec };

        return kube_retry_usec(n_attempts, &reply, random_number());
}

/* depth: see Exchange. */
static int session_ask(Session *session, const KubeRequest *request, unsigned depth,
                       json_object **ret, Error *reterr) {
        for (unsigned n = 1;; n++) {
                cleanup(exchange_done)
                        Exchange exchange = { .has_body = ret != NULL, .depth = depth };
                uint64_t pause_usec;
                int r;

                session->code = 0;
                r = session_ask_once(session, request, &exchange, reterr);
                if (r < 0)
                        return r;

                session->code = exchange.code;
                if (exchange.error.kind == ERROR_NONE) {
                        if (ret)
                                *ret = take_ptr(exchange.body);
                        return 0;
                }
                if (exchange.code == 0 || exchange.retry_after_usec == 0 || n >= ATTEMPTS_MAX)
                        return error_copy(reterr, &exchange.error);

                pause_usec = busy_usec(&exchange, n);
                if (session->is_leaving && (n > 1 || pause_usec > ANSWER_USEC))
                        return error_copy(reterr, &exchange.error);
                r = session_pause(session, pause_usec, reterr);
                if (r < 0)
                        return r;
        }
}

/* A write says whether it is meant. */
static int format_write(const Session *session, const KubePath *path, char **ret) {
        cleanup(free_p) char *query = NULL;
        KubePath complete = *path;

        if (session->options.is_dry_run) {
                if (text_format(&query, "%s%sdryRun=All", path->query ?: "",
                                path->query ? "&" : "") < 0)
                        return -ENOMEM;
                complete.query = query;
        }

        return kube_path_format(&complete, ret);
}

/* The request has its verb, its method and the type of its body. */
static int session_write(Session *session, KubeRequest *request, const KubePath *path,
                         json_object *body, json_object **ret, Error *reterr) {
        cleanup(free_p) char *text = NULL;
        int r;

        r = format_write(session, path, &text);
        if (r < 0)
                return r;

        request->path = text;
        request->reply_max = OBJECT_MAX;
        if (body) {
                request->body = json_to_text(body);
                if (!request->body)
                        return -ENOMEM;
        }

        return session_ask(session, request, KUBE_DEPTH_OBJECT, ret, reterr);
}

int session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr) {
        KubeRequest request = { .verb = "get", .method = "GET", .reply_max = OBJECT_MAX };
        cleanup(free_p) char *text = NULL;
        int r;

        r = kube_path_format(path, &text);
        if (r < 0)
                return r;

        request.path = text;
        return session_ask(session, &request, KUBE_DEPTH_OBJECT, ret, reterr);
}

int session_create(Session *session, const KubePath *path, json_object *body, json_object **ret,
                   Error *reterr) {
        return session_write(session,
                             &(KubeRequest){ .verb = "create",
                                             .method = "POST",
                                             .content_type = KUBE_JSON },
                             path, body, ret, reterr);
}

int session_patch(Session *session, const KubePath *path, const char *content_type,
                  json_object *body, json_object **ret, Error *reterr) {
        return session_write(session,
                             &(KubeRequest){ .verb = "patch",
                                             .method = "PATCH",
                                             .content_type = content_type },
                             path, body, ret, reterr);
}

void session_begin_leave(Session *session) {
        session->is_leaving = session->is_ended;
        session->is_ended = false;
}

void session_end_leave(Session *session) {
        session->is_ended = session->is_ended || session->is_leaving;
        session->is_leaving = false;
}

int session_patch_at_end(Session *session, const KubePath *path, const char *content_type,
                         json_object *body, Error *reterr) {
        int r;

        session_begin_leave(session);
        r = session_patch(session, path, content_type, body, /* ret= */ NULL, reterr);
        session_end_leave(session);
        return r;
}

int session_delete(Session *session, const KubePath *path, json_object *options, Error *reterr) {
        return session_write(session,
                             &(KubeRequest){ .verb = "delete",
                                             .method = "DELETE",
                                             .content_type = options ? KUBE_JSON : NULL },
                             path, options, /* ret= */ NULL, reterr);
}

/* The managedFields of NodeImages say when these were written; ordinary users write none. */
static unsigned metadata_depth(const KubePath *path) {
        return text_equal(path->resource, "nodeimages") ? 0 : KUBE_DEPTH_LIST;
}

/* json-c makes many times as much of a page as it has bytes. Few objects may have as many as one, so that the rest of the
 * list need not be read one by one. */
static size_t page_max(const KubePages *pages) {
        return pages->size > FEW_OBJECTS ? KUBE_PAGE_BYTES_MAX : OBJECT_MAX;
}

/* Turns to the page after it. */
static int session_get_page(Session *session, const KubePath *path, const char *accept,
                            KubePages *pages, json_object **ret, Error *reterr) {
        for (;;) {
                cleanup(error_done) Error error = ERROR_INIT;
                cleanup(free_p) char *query = NULL;
                cleanup(free_p) char *text = NULL;
                KubeRequest request = { .verb = "list",
                                        .method = "GET",
                                        .accept = accept,
                                        .reply_max = page_max(pages) };
                KubePath page = *path;
                int r;

                r = kube_pages_query(pages, &query);
                if (r < 0)
                        return r;
                page.query = query;
                r = kube_path_format(&page, &text);
                if (r < 0)
                        return r;

                request.path = text;
                r = session_ask(session, &request, metadata_depth(path), ret, &error);
                if (kube_pages_shrink(pages, session->code, &error))
                        continue;
                if (r < 0 || error.kind != ERROR_NONE)
                        return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);

                return kube_pages_turn(pages,
                                       json_get_text(json_get(*ret, "metadata", json_type_object),
                                                     "continue")
                                               ?: "",
                                       reterr);
        }
}

static int list_as(Session *session, const KubePath *path, const char *accept, SessionItem on_item,
                   void *userdata, Error *reterr) {
        cleanup(kube_pages_rewind) KubePages pages = { .size = PAGE_OBJECTS };

        do {
                cleanup(json_object_put_p) json_object *page = NULL;
                json_object *items;
                int r;

                r = session_get_page(session, path, accept, &pages, &page, reterr);
                if (r < 0)
                        return r;

                items = json_get(page, "items", json_type_array);
                for (size_t i = 0; items && i < json_object_array_length(items); i++) {
                        json_object *item = json_object_array_get_idx(items, i);

                        r = object_parse_notes(item) ?: on_item(item, userdata);
                        if (r < 0)
                                return r;
                }
        } while (pages.next);

        return 0;
}

int session_list(Session *session, const KubePath *path, SessionItem on_item, void *userdata,
                 Error *reterr) {
        return list_as(session, path, /* accept= */ NULL, on_item, userdata, reterr);
}

int session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                          void *userdata, Error *reterr) {
        return list_as(session, path, KUBE_METADATA_LIST, on_item, userdata, reterr);
}

/* Asks each question once; *ret is borrowed, and NULL if the server has no such page. */
static int session_discover(Session *session, const char *path, json_object **ret, Error *reterr) {
        KubeRequest request = { .verb = "get", .method = "GET", .path = path };
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        *ret = NULL;
        if (json_object_object_get_ex(session->discovered, path, ret))
                return 0;

        r = session_ask(session, &request, /* depth= */ 0, ret, &error);
        if (error.kind != ERROR_NONE && error.kind != ERROR_NOT_FOUND)
                return error_copy(reterr, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;

        return *ret ? patch_add(session->discovered, path, *ret)
                    : patch_add_null(session->discovered, path);
}

int session_find_version(Session *session, const KubeKind *kind, const char **ret, Error *reterr) {
        KubeQuestions questions = { .kind = *kind };
        int r = 0;

        for (const char *path; r >= 0 && (path = kube_questions_next(&questions));) {
                json_object *answer;

                r = session_discover(session, path, &answer, reterr);
                if (r >= 0)
                        r = kube_questions_take(&questions, answer, reterr);
        }

        *ret = questions.version;
        return r;
}

int session_find_kruise(Session *session, const char *resource, const char **ret, Error *reterr) {
        static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };

        return session_find_version(session,
                                    &(KubeKind){ .group = "apps.kruise.io",
                                                 .versions = versions,
                                                 .resource = resource },
                                    ret, reterr);
}

static const char *local_user(const Session *session) {
        return kube_access_user(kube_client_access(session->client)) ?: "an unknown user";
}

/* Kubernetes before 1.28 has no such API. */
static bool is_refused(const Session *session) {
        return session->code == 403 || session->code == 404 || session->code == 405;
}

/* An authorizer that does not answer refuses this for a moment. By another name, users would not know their updates again. */
static int review_user(Session *session, json_object **ret, Error *reterr) {
        static const KubePath path = { .group = "authentication.k8s.io",
                                       .version = "v1",
                                       .resource = "selfsubjectreviews" };
        cleanup(json_object_put_p) json_object *review = json_parse_known(
                "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"SelfSubjectReview\"}");

        if (!review)
                return -ENOMEM;
        for (unsigned n = 1;; n++) {
                cleanup(error_done) Error error = ERROR_INIT;
                int r = session_create(session, &path, review, ret, &error);

                if (r >= 0 || session->code != 403 || n >= REVIEWS_MAX)
                        return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
                r = session_pause(session, REVIEW_PAUSE_USEC, reterr);
                if (r < 0)
                        return r;
        }
}

int session_ask_user(Session *session, Error *reterr) {
        cleanup(json_object_put_p) json_object *answer = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        const char *name;
        int r;

        if (session->user)
                return 0;

        r = review_user(session, &answer, &error);
        if (r < 0 && (session->is_ended || !is_refused(session)))
                return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);

        name = json_get_filled(json_get(json_get(answer, "status", json_type_object), "userInfo",
                                        json_type_object),
                               "username");
        return text_copy(name ?: local_user(session), &session->user);
}

const char *session_user(Session *session) {
        cleanup(error_done) Error error = ERROR_INIT;

        (void) session_ask_user(session, &error);
        return session->user ?: local_user(session);
}

typedef struct FollowedWatch {
        SessionFollow *follow;
        KubeWatch *watch;
        int (*on_object)(const KubeObject *object, void *userdata);
        int (*on_gone)(const KubeObject *object, void *userdata); /* may be NULL */
        void *userdata;
        bool was_synced, is_troubled;
} FollowedWatch;

struct SessionFollow {
        Session *session;
        FollowedWatch watches[SESSION_WATCHES_MAX];
        size_t n_watches;
        void *userdata;
        int (*is_done_asked)(void *userdata);                     /* NULL: there is no wait now */
        int (*is_away_asked)(const Error *error, void *userdata); /* may be NULL */
        void *asked_userdata;
        Deferred check; /* once for all that comes in one turn of the loop */
        Timer redraw;
        bool is_done;
        Error error; /* why it cannot go on */
};

SessionFollow *session_follow_free(SessionFollow *follow) {
        if (!follow)
                return NULL;

        for (size_t i = 0; i < follow->n_watches; i++) {
                follow->session->n_troubled -= follow->watches[i].is_troubled;
                kube_watch_free(follow->watches[i].watch);
        }
        deferred_done(&follow->check);
        timer_done(&follow->redraw);
        error_done(&follow->error);
        free(follow);
        return NULL;
}

/* A watch that has not shown yet all that there is; NULL: all have. */
static const FollowedWatch *follow_find_unsynced(const SessionFollow *follow) {
        for (size_t i = 0; i < follow->n_watches; i++)
                if (!follow->watches[i].was_synced)
                        return &follow->watches[i];

        return NULL;
}

static int on_check(void *userdata) {
        SessionFollow *follow = userdata;
        const FollowedWatch *unsynced = follow_find_unsynced(follow);
        int r;

        if (!follow->is_done_asked || follow->is_done || (unsynced && !follow->is_away_asked))
                return 0;

        r = unsynced ? follow->is_away_asked(kube_watch_error(unsynced->watch),
                                             follow->asked_userdata)
                     : follow->is_done_asked(follow->asked_userdata);
        if (r > 0)
                follow->is_done = true;
        return r < 0 ? r : 0;
}

static int on_redraw(void *userdata) {
        SessionFollow *follow = userdata;
        int r;

        r = on_check(follow);
        if (r < 0)
                return r;

        return timer_start(&follow->redraw, REDRAW_USEC);
}

static int on_object(const KubeObject *object, void *userdata) {
        FollowedWatch *followed = userdata;
        int r = object_parse_notes(object->json) ?: followed->on_object(object, followed->userdata);

        return r < 0 ? r : deferred_request(&followed->follow->check);
}

static int on_gone(const KubeObject *object, void *userdata) {
        FollowedWatch *followed = userdata;
        int r = 0;

        if (followed->on_gone)
                r = followed->on_gone(object, followed->userdata);
        return r < 0 ? r : deferred_request(&followed->follow->check);
}

/* Waiting does not turn the server's refusal into a grant, nor a text into a selector. Once the server has taken the request
 * it may be the version that it refuses. */
static bool is_final(const FollowedWatch *followed) {
        const Error *error = kube_watch_error(followed->watch);

        return error->kind == ERROR_DENIED || error->kind == ERROR_NOT_FOUND ||
               (kube_watch_is_malformed(followed->watch) && !followed->was_synced);
}

static int on_state(KubeWatchState state, void *userdata) {
        FollowedWatch *followed = userdata;
        SessionFollow *follow = followed->follow;

        follow->session->n_troubled -= followed->is_troubled;
        followed->is_troubled = state == KUBE_WATCH_TROUBLED;
        follow->session->n_troubled += followed->is_troubled;
        if (state == KUBE_WATCH_SYNCED)
                followed->was_synced = true;
        if (state == KUBE_WATCH_TROUBLED && followed->watch && is_final(followed)) {
                if (follow->error.kind == ERROR_NONE)
                        (void) error_copy(&follow->error, kube_watch_error(followed->watch));
                follow->is_done = true;
        }

        return deferred_request(&follow->check);
}

static int follow_add(SessionFollow *follow, const SessionWatch *watch) {
        FollowedWatch *followed = &follow->watches[follow->n_watches];
        KubePath path = watch->path;

        *followed = (FollowedWatch){ .follow = follow,
                                     .on_object = watch->on_object,
                                     .on_gone = watch->on_gone,
                                     .userdata = watch->userdata ?: follow->userdata };
        path.fields = watch->fields;
        path.labels = watch->labels;
        follow->n_watches++;
        return kube_watch_new(&(KubeWatchOptions){ .client = follow->session->client,
                                                   .path = path,
                                                   .is_metadata = watch->is_metadata,
                                                   .object_max = OBJECT_MAX,
                                                   .on_object = on_object,
                                                   .on_gone = on_gone,
                                                   .on_state = on_state,
                                                   .userdata = followed },
                              &followed->watch);
}

int session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                       void *userdata, SessionFollow **ret) {
        cleanup(session_follow_free_p) SessionFollow *follow = calloc(1, sizeof(*follow));
        int r = 0;

        if (!follow)
                return -ENOMEM;

        follow->session = session;
        follow->userdata = userdata;
        deferred_init(&follow->check, session->event, on_check, follow);
        timer_init(&follow->redraw, session->event, /* accuracy_usec= */ 0, on_redraw, follow);
        for (size_t i = 0; r >= 0 && i < n_watches; i++)
                r = follow_add(follow, &watches[i]);
        if (r < 0)
                return r;

        *ret = take_ptr(follow);
        return 0;
}

int session_follow_check(SessionFollow *follow) {
        return deferred_request(&follow->check);
}

int session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                        int (*is_away)(const Error *error, void *userdata), void *userdata,
                        Error *reterr) {
        int r;

        follow->is_done_asked = is_done;
        follow->is_away_asked = is_away;
        follow->asked_userdata = userdata;
        follow->is_done = follow->error.kind != ERROR_NONE;
        r = on_redraw(follow);
        if (r >= 0)
                r = session_run(follow->session, &follow->is_done, reterr);
        follow->is_done_asked = NULL;
        timer_stop(&follow->redraw);
        if (r < 0)
                return r;

        return follow->error.kind == ERROR_NONE ? 0 : error_copy(reterr, &follow->error);
}

bool session_is_away(const Session *session) {
        return session->n_troubled > 0;
}

int session_wait(Session *session, const SessionWait *wait, Error *reterr) {
        cleanup(session_follow_free_p) SessionFollow *follow = NULL;
        int r;

        if (session->is_ended)
                return refuse_ended(session, reterr);

        r = session_follow_new(session, wait->watches, wait->n_watches, wait->userdata, &follow);
        return r < 0 ? r
                     : session_follow_wait(follow, wait->is_done, wait->is_away, wait->userdata,
                                           reterr);
}
