/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/stop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "cri/client.h"

#define USEC_PER_SEC ((uint64_t) 1000000)
#define NSEC_PER_SEC ((int64_t) 1000000000)
#define KUBELET_USEC USEC_PER_SEC /* between two questions whether it is back */
#define OWNER_SIZE 64             /* of the part that metrics are told */
#define NODE_ADDRESS "127.0.0.1"  /* of a pod in the host's network, which has none of its own */

/* Of each line of the log that is about a stop. */
#define STOP_FIELDS(stop)                                                          \
        LOG_FIELDS({ "POD_NAMESPACE", (stop)->namespace }, { "POD", (stop)->pod }, \
                   { "CONTAINER", (stop)->container }, { "CONTAINER_ID", (stop)->container_id })

DEFINE_CLEANUP(Stop *, stop_destroy)

static uint64_t stop_now_usec(const Stop *stop) {
        uint64_t usec = 0;

        (void) sd_event_now(stop->stops->event, CLOCK_MONOTONIC, &usec);
        return usec;
}

/* Takes over the text. */
static void stop_set_message(Stop *stop, char *message) {
        free(stop->message);
        stop->message = message;
}

int stop_copy_message(Stop *stop, const char *text) {
        char *message = strdup(text);

        if (!message)
                return -ENOMEM;

        stop_set_message(stop, message);
        return 0;
}

static void drop_timer(sd_event_source **timer) {
        *timer = sd_event_source_disable_unref(*timer);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        return stop_handle(userdata, STOP_ON_TIMER);
}

static int stop_wait(Stop *stop, uint64_t usec) {
        return loop_add_time_relative(stop->stops->event, &stop->timer, CLOCK_MONOTONIC, usec,
                                      /* accuracy= */ 1000, on_timer, stop);
}

/* Its runtime */

static bool is_wanted(const Stop *stop, Runtime *runtime) {
        return strcmp(runtime_name(runtime), stop->runtime) == 0;
}

static Runtime *find_runtime(const Stop *stop) {
        const Runtimes *runtimes = stop->stops->runtimes;

        if (!stop->runtime)
                return runtimes_chosen(runtimes);

        for (size_t i = 0; i < runtimes_count(runtimes); i++)
                if (is_wanted(stop, runtimes_get(runtimes, i)))
                        return runtimes_get(runtimes, i);
        return NULL;
}

static const char *stop_runtime_name(const Stop *stop) {
        Runtime *runtime = stop->runtime ? NULL : find_runtime(stop);

        return runtime ? runtime_name(runtime) : stop->runtime;
}

RpcClient *stop_client(const Stop *stop) {
        Runtime *runtime = find_runtime(stop);

        return runtime && runtime_is_alive(runtime) ? runtime_client(runtime) : NULL;
}

/* The journal, what is announced, and the hook */

static int64_t now_nsec(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t) now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* A stop goes on without its file; what is lost is what a crash would want to know. */
static void stops_note_journal(Stops *stops, const Error *error) {
        bool is_broken = error->kind != ERROR_NONE;

        if (is_broken && !stops->is_journal_broken)
                log_error(stops->log, NULL,
                          "Cannot write down which containers are being stopped: %s.",
                          error_message(error));
        if (!is_broken && stops->is_journal_broken)
                log_info(stops->log, NULL,
                         "Which containers are being stopped is written down again.");
        stops->is_journal_broken = is_broken;
}

static int stop_note_phase(Stop *stop, StopPhase phase) {
        cleanup(error_done) Error error = ERROR_INIT;
        uint64_t now_usec = stop_now_usec(stop), left_usec = 0;
        StopRecord record;
        StopClock now;
        int r;

        stop_clock_read(&now);
        if (stop->deadline_usec > now_usec)
                left_usec = stop->deadline_usec - now_usec;

        record = (StopRecord){
                .owner = stop->owner,
                .container_id = stop->container_id,
                .runtime = (char *) stop_runtime_name(stop),
                .phase = phase,
                .began_sec = stop->began_nsec / NSEC_PER_SEC,
                .deadline_sec = now.wall_sec + (int64_t) (left_usec / USEC_PER_SEC),
                .changed_sec = now.wall_sec,
                .uptime_sec = now.uptime_sec,
                .boot_id = now.boot_id,
        };
        r = stop_journal_set(stop->stops->journal, &record, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;

        stops_note_journal(stop->stops, &error);
        return 0;
}

int stops_forget(Stops *stops, const char *owner, const char *container_id) {
        cleanup(error_done) Error error = ERROR_INIT;
        const StopRecord record = {
                .owner = (char *) owner,
                .container_id = (char *) container_id,
                .changed_sec = now_nsec() / NSEC_PER_SEC,
        };
        int r;

        if (!stop_journal_find(stops->journal, owner, container_id))
                return 0;

        r = stop_journal_set(stops->journal, &record, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;

        stops_note_journal(stops, &error);
        return 0;
}

/* field_path: NULL if it is about the whole pod. */
static int send_event_of(Stop *stop, const char *field_path, const char *type, const char *reason,
                         const char *message) {
        const KubeReference object = {
                .api_version = "v1",
                .kind = "Pod",
                .namespace = stop->namespace,
                .name = stop->pod,
                .uid = stop->uid,
                .field_path = field_path,
        };

        if (!stop->stops->events || !stop->container || !stop->pod || !stop->namespace)
                return 0;

        return kube_event_send(stop->stops->events, &object, type, reason, message);
}

static int send_event(Stop *stop, const char *type, const char *reason, const char *message) {
        cleanup(free_p) char *field_path = NULL;

        if (asprintf(&field_path, "spec.%s{%s}", stop->is_init ? "initContainers" : "containers",
                     stop->container ?: "") < 0) {
                field_path = NULL;
                return -ENOMEM;
        }

        return send_event_of(stop, field_path, type, reason, message);
}

static int stop_announce(Stop *stop) {
        log_info(stop->stops->log, STOP_FIELDS(stop), "%s, in pod `%s/%s`.", stop->cause,
                 stop->namespace ?: "", stop->pod ?: "");
        return send_event(stop, "Normal", "Killing", stop->cause);
}

static void stop_announce_resumed(const Stop *stop) {
        log_info(stop->stops->log, STOP_FIELDS(stop),
                 "Stopping container %s, in pod `%s/%s`; this had begun before the agent was "
                 "started, for `%s`.",
                 stop->container ?: stop->container_id, stop->namespace ?: "", stop->pod ?: "",
                 stop->owner);
}

static int stop_announce_wait(Stop *stop, const char *why) {
        cleanup(free_p) char *message = NULL;

        if (stop->is_wait_told)
                return 0;

        stop->is_wait_told = true;
        if (asprintf(
                    &message,
                    "Container %s waits to be restarted, since no kubelet would start it again: %s",
                    stop->container ?: "", why) < 0) {
                message = NULL;
                return -ENOMEM;
        }

        log_warning(stop->stops->log,
                    LOG_FIELDS({ "POD_NAMESPACE", stop->namespace }, { "POD", stop->pod },
                               { "CONTAINER", stop->container }),
                    "Pod `%s/%s`: %s.", stop->namespace ?: "", stop->pod ?: "", message);
        return send_event(stop, "Warning", "WaitingForKubelet", message);
}

static void stop_set_begun(Stop *stop, int64_t began_nsec, int64_t grace_sec) {
        stop->has_begun = true;
        stop->began_nsec = began_nsec;
        stop->began_usec = stop_now_usec(stop);
        stop->deadline_usec = stop->began_usec + (uint64_t) grace_sec * USEC_PER_SEC;
}

void stop_resume(Stop *stop, const StopRecord *record) {
        int64_t left_sec;
        StopClock now;

        stop_clock_read(&now);
        left_sec = stop_record_left_sec(record, &now);
        stop->is_resumed = true;
        stop_set_begun(stop, record->began_sec * NSEC_PER_SEC,
                       stop_plan_grace_sec(left_sec, NULL, NULL));
}

static int stop_begin_first(Stop *stop) {
        stops_overtake_others(stop);
        stop_set_begun(stop, now_nsec(), stop->look_grace_sec);
        return stop_announce(stop);
}

static int stop_begin(Stop *stop, StopPhase phase) {
        const StopRecord *record =
                stop_journal_find(stop->stops->journal, stop->owner, stop->container_id);
        int r = 0;

        if (stop->has_begun && record && record->phase == phase)
                return 0;

        if (!stop->has_begun)
                r = stop_begin_first(stop);
        return r < 0 ? r : stop_note_phase(stop, phase);
}

static int stop_tell_hook_failure(Stop *stop, const char *hook, const char *why) {
        cleanup(free_p) char *message = NULL;
        cleanup(free_p) char *event = NULL;

        if (asprintf(&message, "%s: %s", hook, why) < 0)
                message = NULL;
        if (asprintf(&event, "%s for Container \"%s\" in Pod \"%s_%s(%s)\" failed - error: %s",
                     hook, stop->container ?: "", stop->pod ?: "", stop->namespace ?: "",
                     stop->uid ?: "", why) < 0)
                event = NULL;
        if (!message || !event)
                return -ENOMEM;

        log_warning(stop->stops->log, STOP_FIELDS(stop), "%s.", event);
        free(stop->hook_message);
        stop->hook_message = take_ptr(message);
        return send_event(stop, "Warning", "FailedPreStopHook", event);
}

static int stop_note_hook_failure(Stop *stop, const char *why) {
        cleanup(free_p) char *hook = NULL;
        int r;

        if (stop->hook_trouble)
                return stop_tell_hook_failure(stop, "preStop hook", why);

        r = handler_spec_describe_hook(&stop->hook_spec, &hook);
        return r < 0 ? r : stop_tell_hook_failure(stop, hook, why);
}

/* As the kubelet says it: of the pod. */
static int stop_tell_fallback(Stop *stop, const char *host) {
        cleanup(free_p) char *message = NULL;

        if (asprintf(
                    &message,
                    "request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded",
                    host) < 0) {
                message = NULL;
                return -ENOMEM;
        }

        log_warning(stop->stops->log, STOP_FIELDS(stop), "Pod `%s/%s`: %s.", stop->namespace ?: "",
                    stop->pod ?: "", message);
        return send_event_of(stop, NULL, "Warning", "LifecycleHTTPFallback", message);
}

static int on_hook_done(const Error *error, const char *plain_host, void *userdata) {
        Stop *stop = userdata;
        int r = 0;

        if (error)
                r = stop_note_hook_failure(stop, error_message(error));
        else if (plain_host)
                r = stop_tell_fallback(stop, plain_host);
        stop->hook = hook_free(stop->hook);
        return r < 0 ? r : stop_handle(stop, STOP_ON_HOOKED);
}

static int stop_run_hook(Stop *stop, StopEvent *ret_event) {
        const HookTarget target = {
                .client = stop_client(stop),
                .container_id = stop->container_id,
                .address = stop->address,
        };
        int r;

        r = stop_begin(stop, STOP_PHASE_HOOK);
        if (r < 0)
                return r;

        if (stop->hook_trouble) {
                *ret_event = STOP_ON_HOOKED;
                return stop_note_hook_failure(stop, stop->hook_trouble);
        }

        return hook_run(stop->stops->event, &stop->hook_spec, &target,
                        stop->deadline_usec - stop->began_usec, on_hook_done, stop, &stop->hook);
}

static int stop_read_hook(Stop *stop, const char *handler, const char *ports) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        handler_spec_done(&stop->hook_spec);
        free(stop->hook_trouble);
        stop->hook_trouble = NULL;
        r = handler_spec_parse(handler, ports, &stop->hook_spec, &error);
        if (r >= 0 || error.kind == ERROR_NONE)
                return r;

        stop->hook_trouble = strdup(error_message(&error));
        return stop->hook_trouble ? 0 : -ENOMEM;
}

/* What it asks of the runtime */

static int stop_miss_runtime(Stop *stop) {
        char *message;

        if (asprintf(&message, "the container runtime%s%s is not there", stop->runtime ? " " : "",
                     stop->runtime ?: "") < 0)
                return -ENOMEM;

        stop_set_message(stop, message);
        return 0;
}

static StopEvent event_over(Stop *stop, StopResult result) {
        stop->result = result;
        if (result != STOP_FAILED)
                stop_set_message(stop, NULL);
        return STOP_ON_OVER;
}

/* A runtime that is there and refuses again and again will not do it. */
static StopEvent event_of_refusal(Stop *stop) {
        stop->n_refusals++;
        return stop->n_refusals < STOP_REFUSALS_MAX ? STOP_ON_REFUSED
                                                    : event_over(stop, STOP_FAILED);
}

/* Of a question that changes nothing: it may be asked for ever while nobody answers. */
static int event_of_error(Stop *stop, const Error *error, StopEvent *ret_event) {
        int r;

        if (!stop_client(stop)) {
                *ret_event = STOP_ON_RUNTIME_AWAY;
                return stop_miss_runtime(stop);
        }

        r = stop_copy_message(stop, error_message(error));
        if (r < 0)
                return r;

        *ret_event =
                stop_plan_is_silence(error->kind) ? STOP_ON_RUNTIME_AWAY : event_of_refusal(stop);
        return 0;
}

static int replace(char **text, const char *source) {
        char *copy = source ? strdup(source) : NULL;

        if (source && !copy)
                return -ENOMEM;

        free(*text);
        *text = copy;
        return 0;
}

static int stop_take_container(Stop *stop, const CriContainer *container) {
        const struct {
                char **text;
                const char *source;
        } texts[] = {
                { &stop->sandbox_id, container->pod_sandbox_id },
                { &stop->container, cri_container_label(container, LABEL_CONTAINER_NAME) },
                { &stop->pod, cri_container_label(container, LABEL_POD_NAME) },
                { &stop->namespace, cri_container_label(container, LABEL_POD_NAMESPACE) },
                { &stop->uid, cri_container_label(container, LABEL_POD_UID) },
        };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < sizeof(texts) / sizeof(texts[0]); i++)
                r = replace(texts[i].text, texts[i].source);
        if (r < 0)
                return r;

        stop->look_grace_sec =
                stop_plan_grace_sec(stop->grace_sec,
                                    cri_container_annotation(container, ANNOTATION_DELETION_GRACE),
                                    cri_container_annotation(container,
                                                             ANNOTATION_TERMINATION_GRACE));
        return stop_read_hook(stop, cri_container_annotation(container, ANNOTATION_PRE_STOP),
                              cri_container_annotation(container, ANNOTATION_PORTS));
}

static int take_running(Stop *stop, const CriContainer *container, StopEvent *ret_event) {
        int r;

        stop->n_refusals = 0;
        r = stop_take_container(stop, container);
        if (r < 0)
                return r;

        *ret_event = stop->is_resumed ? STOP_ON_BEGUN : STOP_ON_RUNNING;
        if (stop->is_resumed)
                stop_announce_resumed(stop);
        return 0;
}

static int event_of_look(Stop *stop, const CriContainer *container, StopEvent *ret_event) {
        const StopRecord *record =
                stop_journal_find(stop->stops->journal, stop->owner, stop->container_id);

        if (container && container->state == RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING)
                return take_running(stop, container, ret_event);

        if (container && stop->is_resumed)
                *ret_event = STOP_ON_EXITED;
        else
                *ret_event = event_over(stop, record ? STOP_STOPPED : STOP_GONE);
        return 0;
}

static int on_looked(const CriContainer *container, const Error *error, void *userdata) {
        Stop *stop = userdata;
        StopEvent event;
        int r;

        stop->n_silences = error ? stop->n_silences : 0;
        r = error ? event_of_error(stop, error, &event) : event_of_look(stop, container, &event);
        stop->listing = runtime_pods_call_free(stop->listing);
        return r < 0 ? r : stop_handle(stop, event);
}

static int stop_look(Stop *stop, StopEvent *ret_event) {
        RpcClient *client = stop_client(stop);

        if (!client) {
                *ret_event = STOP_ON_RUNTIME_AWAY;
                return stop_miss_runtime(stop);
        }

        stop->is_overtaken = stops_has_begun_other(stop);
        return runtime_pods_find_container(client, stop->container_id, on_looked, stop,
                                           &stop->listing);
}

static int event_of_sandbox(Stop *stop, const CriSandboxStatus *reply, StopEvent *ret_event) {
        const char *address = NODE_ADDRESS;

        if (reply->status && reply->status->network && *reply->status->network->ip)
                address = reply->status->network->ip;

        *ret_event = STOP_ON_ADDRESS;
        return replace(&stop->address, address);
}

/* Without an address the hook fails, and says so. */
static int on_sandbox(const void *reply, const Error *error, void *userdata) {
        StopEvent event = STOP_ON_ADDRESS;
        Stop *stop = userdata;
        int r = 0;

        if (error && (!stop_client(stop) || stop_plan_is_silence(error->kind)))
                r = event_of_error(stop, error, &event);
        else if (!error)
                r = event_of_sandbox(stop, reply, &event);
        stop->call = rpc_call_unref(stop->call);
        return r < 0 ? r : stop_handle(stop, event);
}

static bool needs_address(const Stop *stop) {
        const HandlerSpec *hook = &stop->hook_spec;

        return stop->look_grace_sec > 0 && !hook->host &&
               (hook->kind == HANDLER_HTTP || hook->kind == HANDLER_TCP);
}

static int stop_find_address(Stop *stop, StopEvent *ret_event) {
        RpcClient *client = stop_client(stop);

        *ret_event = STOP_ON_ADDRESS;
        if (!needs_address(stop))
                return 0;
        if (stop->pod_address)
                return replace(&stop->address, stop->pod_address);

        if (!client) {
                *ret_event = STOP_ON_RUNTIME_AWAY;
                return stop_miss_runtime(stop);
        }

        *ret_event = STOP_ON_NOTHING;
        return cri_sandbox_status(client, stop->sandbox_id, on_sandbox, stop, &stop->call);
}

static int on_stopped(const void *reply, const Error *error, void *userdata) {
        StopEvent event = STOP_ON_ANSWERED;
        Stop *stop = userdata;
        int r = 0;

        stop->is_accepted = !error;
        if (error && !stop_client(stop)) {
                event = STOP_ON_RUNTIME_AWAY;
                r = stop_miss_runtime(stop);
        } else if (error) {
                stop->n_refusals++;
                r = stop_copy_message(stop, error_message(error));
        }
        stop->call = rpc_call_unref(stop->call);
        return r < 0 ? r : stop_handle(stop, event);
}

static int stop_stop(Stop *stop, StopEvent *ret_event) {
        RpcClient *client = stop_client(stop);
        int r;

        if (!client) {
                *ret_event = STOP_ON_RUNTIME_AWAY;
                return stop_miss_runtime(stop);
        }

        r = stop_begin(stop, STOP_PHASE_STOPPING);
        if (r < 0)
                return r;

        return cri_stop_container(client, stop->container_id,
                                  stop_plan_left_sec(stop->deadline_usec, stop_now_usec(stop)),
                                  on_stopped, stop, &stop->call);
}

/* Of a container that still runs: so the runtime has refused, or it has not been told yet. */
static int event_of_survivor(Stop *stop, StopEvent *ret_event) {
        int r;

        if (stop->is_accepted) {
                r = stop_copy_message(
                        stop, "it still runs, though the runtime says that it has stopped it");
                if (r < 0)
                        return r;

                stop->is_accepted = false;
                stop->n_refusals++;
        }

        *ret_event = stop->n_refusals == 0                  ? STOP_ON_RUNNING
                     : stop->n_refusals < STOP_REFUSALS_MAX ? STOP_ON_REFUSED
                                                            : event_over(stop, STOP_FAILED);
        return 0;
}

/* It was us who ended it if it ended after we began. */
static int event_of_status(Stop *stop, const CriContainerStatus *reply, StopEvent *ret_event) {
        const Runtime__V1__ContainerStatus *status = reply->status;

        if (status && status->state == RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING)
                return event_of_survivor(stop, ret_event);

        *ret_event =
                event_over(stop, status && status->finished_at >= stop->began_nsec ? STOP_STOPPED
                                                                                   : STOP_GONE);
        return 0;
}

static int on_status(const void *reply, const Error *error, void *userdata) {
        Stop *stop = userdata;
        StopEvent event;
        int r = 0;

        stop->n_silences = error ? stop->n_silences : 0;
        if (!error)
                r = event_of_status(stop, reply, &event);
        else if (error->kind == ERROR_NOT_FOUND)
                event = event_over(stop, stop->is_accepted ? STOP_STOPPED : STOP_GONE);
        else
                r = event_of_error(stop, error, &event);
        stop->call = rpc_call_unref(stop->call);
        return r < 0 ? r : stop_handle(stop, event);
}

static int stop_confirm(Stop *stop, StopEvent *ret_event) {
        RpcClient *client = stop_client(stop);

        if (!client) {
                *ret_event = STOP_ON_RUNTIME_AWAY;
                return stop_miss_runtime(stop);
        }

        return cri_container_status(client, stop->container_id, /* is_verbose= */ false, on_status,
                                    stop, &stop->call);
}

/* What each event leads to */

/* A runtime that is there, and silent, will not announce itself again. */
static int stop_park(Stop *stop) {
        uint32_t random = 0;
        int r;

        r = stops_release(stop);
        if (r < 0)
                return r;

        stop->n_refusals = 0;
        if (!stop_client(stop))
                return 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        stop->n_silences++;
        return stop_wait(stop, backoff_usec(stop->n_silences, random));
}

static int stop_queue(Stop *stop) {
        stop_set_message(stop, NULL);
        return stops_release(stop);
}

static int stop_wait_for_kubelet(Stop *stop) {
        int r;

        r = stop_announce_wait(stop, stop->message);
        if (r < 0)
                return r;

        r = stops_release(stop);
        return r < 0 ? r : stop_wait(stop, KUBELET_USEC);
}

static int on_kubelet(KubeletState state, const char *why, void *userdata) {
        Stop *stop = userdata;
        int r;

        if (state != KUBELET_AWAY) {
                stop->question = kubelet_question_free(stop->question);
                return stop_handle(stop, STOP_ON_KUBELET_THERE);
        }

        r = stop_copy_message(stop, why ?: "there is no kubelet");
        if (r < 0)
                return r;

        stop->question = kubelet_question_free(stop->question);
        return stop_handle(stop, STOP_ON_KUBELET_AWAY);
}

static int stop_ask(Stop *stop, StopEvent *ret_event) {
        if (stop->needs_kubelet && stop->stops->kubelet)
                return kubelet_ask(stop->stops->kubelet, on_kubelet, stop, &stop->question);

        *ret_event = STOP_ON_KUBELET_THERE;
        return 0;
}

static StopEvent event_of_yes(const Stop *stop) {
        if (!stop_client(stop))
                return STOP_ON_RUNTIME_AWAY;
        if (stop->is_overtaken)
                return STOP_ON_OVERTAKEN;
        if (stop->look_grace_sec == 0)
                return STOP_ON_ASKED;

        return stop->hook_spec.kind != HANDLER_NONE || stop->hook_trouble ? STOP_ON_ASKED_WITH_HOOK
                                                                          : STOP_ON_ASKED;
}

static int stop_check(Stop *stop, StopEvent *ret_event) {
        stop_set_message(stop, NULL);
        stop->is_check_told = !stop->on_check;
        if (stop->on_check)
                return stops_pump(stop->stops);

        *ret_event = event_of_yes(stop);
        return 0;
}

/* *ret_event is what follows at once, or left as it is. */
static int stop_act(Stop *stop, StopAction action, StopEvent *ret_event) {
        switch (action) {
        case STOP_DO_NOTHING:
        case STOP_DO_END: return 0;
        case STOP_DO_QUEUE: return stop_queue(stop);
        case STOP_DO_LOOK: return stop_look(stop, ret_event);
        case STOP_DO_PAUSE: return stop_wait(stop, stop->n_refusals * USEC_PER_SEC);
        case STOP_DO_PARK: return stop_park(stop);
        case STOP_DO_ASK: return stop_ask(stop, ret_event);
        case STOP_DO_WAIT: return stop_wait_for_kubelet(stop);
        case STOP_DO_FIND_ADDRESS: return stop_find_address(stop, ret_event);
        case STOP_DO_CHECK: return stop_check(stop, ret_event);
        case STOP_DO_RUN_HOOK: return stop_run_hook(stop, ret_event);
        case STOP_DO_STOP: return stop_stop(stop, ret_event);
        case STOP_DO_CONFIRM: return stop_confirm(stop, ret_event);
        }

        abort();
}

static void stop_log_end(const Stop *stop, uint64_t duration_usec) {
        const char *name = stop->container ?: stop->container_id;
        const LogField *fields = STOP_FIELDS(stop);

        switch (stop->result) {
        case STOP_STOPPED:
                log_info(stop->stops->log, fields, "Stopped container `%s` after %.3f s.", name,
                         (double) duration_usec / (double) USEC_PER_SEC);
                return;
        case STOP_GONE:
                log_info(stop->stops->log, fields,
                         "Container `%s` is not there any more, or has ended by itself.", name);
                return;
        case STOP_NOT_ASKED:
                log_info(stop->stops->log, fields, "Container `%s` is not stopped after all: %s.",
                         name, stop->message ?: "it is no longer requested");
                return;
        case STOP_FAILED:
                log_error(stop->stops->log, fields, "Cannot stop container `%s`: %s.", name,
                          stop->message ?: "the runtime refuses");
                return;
        case _STOP_RESULT_MAX: break;
        }

        abort();
}

static int stop_note_result(Stop *stop) {
        const StopRecord *record =
                stop_journal_find(stop->stops->journal, stop->owner, stop->container_id);
        StopPhase phase = stop->result == STOP_STOPPED ? STOP_PHASE_STOPPED : STOP_PHASE_NONE;

        if ((record ? record->phase : STOP_PHASE_NONE) == phase)
                return 0;

        return stop_note_phase(stop, phase);
}

static void stop_count(const Stop *stop, uint64_t duration_usec) {
        const Stops *stops = stop->stops;
        char owner[OWNER_SIZE];

        (void) snprintf(owner, sizeof(owner), "%.*s", (int) strcspn(stop->owner, "/"), stop->owner);
        if (stops->on_stopped)
                stops->on_stopped(owner, stop->result, duration_usec, stops->userdata);
}

/* Whoever is told may free all stops, but this one is none of them any more. */
static int stop_finish(Stop *stop) {
        uint64_t duration_usec = stop->has_begun ? stop_now_usec(stop) - stop->began_usec : 0;
        StopReport report;
        int r;

        r = stop_note_result(stop);
        if (r < 0)
                return r;

        r = stops_remove(stop);
        if (r < 0)
                return r;

        cleanup(stop_destroy_p) Stop *ended = stop;

        report = (StopReport){
                .result = ended->result,
                .message = ended->message,
                .hook_message = ended->hook_message,
                .duration_usec = duration_usec,
        };
        stop_log_end(ended, duration_usec);
        stop_count(ended, duration_usec);
        return ended->on_done ? ended->on_done(&report, ended->userdata) : 0;
}

static bool is_told(const Stop *stop, StopStep step) {
        return step == stop->told_step &&
               strcmp(stop->message ?: "", stop->told_message ?: "") == 0;
}

static int stop_tell_step(Stop *stop, StopStep step) {
        char *message = stop->message ? strdup(stop->message) : NULL;

        if (stop->message && !message)
                return -ENOMEM;

        free(stop->told_message);
        stop->told_message = message;
        stop->told_step = step;
        return stop->on_step ? stop->on_step(stop, step, message, stop->userdata) : 0;
}

/* At most one of the owner's functions is called, and then the stop may be gone. */
static int stop_tell(Stop *stop) {
        StopStep step = stop_step(stop);

        if (stop->state == STOP_STATE_ENDED)
                return stop_finish(stop);
        if (stop->state == STOP_STATE_CHECKING && !stop->is_check_told) {
                stop->is_check_told = true;
                return stop->on_check(stop, stop->userdata);
        }

        return is_told(stop, step) ? 0 : stop_tell_step(stop, step);
}

int stop_handle(Stop *stop, StopEvent event) {
        bool is_news = false;
        int r;

        while (event != STOP_ON_NOTHING) {
                StopAction action = stop_plan_step(&stop->state, event);

                event = STOP_ON_NOTHING;
                if (action == STOP_DO_NOTHING)
                        break;

                is_news = true;
                drop_timer(&stop->timer);
                r = stop_act(stop, action, &event);
                if (r < 0)
                        return r;
        }

        return is_news ? stop_tell(stop) : 0;
}

static int on_turn(sd_event_source *source, void *userdata) {
        Stop *stop = userdata;
        StopEvent event = stop->next_event;

        stop->next_event = STOP_ON_NOTHING;
        return stop_handle(stop, event == STOP_ON_ASKED ? event_of_yes(stop) : event);
}

int stop_handle_later(Stop *stop, StopEvent event) {
        int r;

        stop->next_event = event;
        if (stop->turn) {
                r = sd_event_source_set_enabled(stop->turn, SD_EVENT_ONESHOT);
                return r < 0 ? r : 0;
        }

        return loop_add_defer(stop->stops->event, &stop->turn, on_turn, stop);
}

int stop_answer(Stop *stop, bool is_asked, const char *why_not) {
        int r;

        if (stop->state != STOP_STATE_CHECKING || stop->next_event != STOP_ON_NOTHING)
                return 0;
        if (is_asked)
                return stop_handle_later(stop, STOP_ON_ASKED);

        if (why_not) {
                r = stop_copy_message(stop, why_not);
                if (r < 0)
                        return r;
        } else {
                stop_set_message(stop, NULL);
        }
        stop->result = STOP_NOT_ASKED;
        return stop_handle_later(stop, STOP_ON_OVER);
}

void stop_destroy(Stop *stop) {
        drop_timer(&stop->turn);
        drop_timer(&stop->timer);
        drop_timer(&stop->settling);
        runtime_pods_call_free(stop->listing);
        rpc_call_unref(stop->call);
        kubelet_question_free(stop->question);
        hook_free(stop->hook);
        handler_spec_done(&stop->hook_spec);

        char *const texts[] = {
                stop->runtime,     stop->container_id, stop->owner,        stop->cause,
                stop->pod_address, stop->sandbox_id,   stop->pod,          stop->container,
                stop->namespace,   stop->uid,          stop->address,      stop->hook_trouble,
                stop->message,     stop->hook_message, stop->told_message,
        };
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                free(texts[i]);
        free(stop);
}
