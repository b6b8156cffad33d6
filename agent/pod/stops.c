/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/stops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/base/utf8.h"
#include "agent/pod/hook.h"
#include "agent/pod/runtime-pods.h"
#include "agent/pod/stop-journal.h"
#include "agent/pod/stop-plan.h"
#include "cri/client.h"

#define KUBELET_USEC USEC_PER_SEC /* between two checks whether the kubelet is back */

/* Time for which an answer of the kubelet holds. The requests by which an owner confirms a stop take
 * no longer, unless the API server or the runtime is away. */
#define KUBELET_KNOWN_USEC (30 * USEC_PER_SEC)
#define DAY_SEC (24 * 60 * 60)

/* Time between two looks whether the container of a hook still runs. */
#define LOOK_USEC (30 * USEC_PER_SEC)

#define ACCURACY_USEC 1000
#define OWNER_SIZE 64            /* bytes of the owner's kind, the label in metrics */
#define NODE_ADDRESS "127.0.0.1" /* address of pods in the host's network */

/* A record of this owner says that the hook of the container has run, although its stop has failed. */
#define HOOK_OWNER "hook"

/* The fields of each log line about a stop. */
#define STOP_FIELDS(stop)                                                          \
        LOG_FIELDS({ "POD_NAMESPACE", (stop)->namespace }, { "POD", (stop)->pod }, \
                   { "CONTAINER", (stop)->container }, { "CONTAINER_ID", (stop)->container_id })

/* Number of stops that begin at a time. One keeps containerd busy for about 60 ms, and the kubelet
 * with the restart: 16 leave both time for other work, and 110 stops, a node full of pods, have all
 * begun within 2 s. */
#define FRESH_MAX 16

/* Time that a stop keeps its slot. Most have ended by then; the others only wait for an answer, a
 * hook or a slow process. */
#define SETTLE_USEC ((uint64_t) 250 * 1000)

struct Stops {
        sd_event *event;
        Log *log;
        Runtimes *runtimes;
        Kubelet *kubelet;
        KubeEvents *events;
        Places *places;
        StopJournal *journal;
        Error journal_error; /* reason why the journal cannot be written, or unset */
        Metrics *metrics;

        Stop *first, *last; /* stops in the order in which they were added */
        size_t n_stops;
        size_t n_fresh; /* stops that hold a slot */
};

typedef enum StopAnswer {
        ANSWER_NONE, /* none, or one that has proved wrong */
        ANSWER_ACCEPTED,
        ANSWER_REFUSED,
} StopAnswer;

struct Stop {
        LIST_LINKS(Stop);
        Stops *stops;

        /* The options. */
        char *runtime;
        char *container_id;
        char *owner;
        char *cause;
        char *pod_address;
        int64_t grace_sec;
        bool needs_kubelet;
        bool is_init;
        int (*on_check)(Stop *stop, void *userdata);
        int (*on_step)(Stop *stop, StopStep step, const char *message, void *userdata);
        int (*on_done)(const StopReport *report, void *userdata);
        void *userdata;

        StopState state;
        bool has_slot;
        bool has_begun;    /* the hook or the stop has begun */
        bool has_hooked;   /* the hook has begun, perhaps in a previous run of the agent */
        bool is_overtaken; /* another stop of the container has begun since the inspection */
        bool is_resumed;   /* begun by a previous run of the agent; has no owner yet */
        StopAnswer answer; /* the runtime's last answer to the call that stops the container */
        unsigned n_refusals, n_silences; /* numbers in a row */

        /* Findings of the inspection; absent texts are NULL. */
        char *sandbox_id;
        char *container;
        char *pod;
        char *namespace;
        char *uid;
        char *address; /* IP address of the pod */
        HandlerSpec hook_spec;
        char *hook_refusal; /* why the hook cannot be run */
        int64_t found_grace_sec;

        uint64_t kubelet_usec; /* monotonic time of the last question about the kubelet */

        int64_t began_nsec; /* nanoseconds since 1970, by the node's clock */
        uint64_t began_usec;
        uint64_t deadline_usec; /* end of the grace period; both are monotonic */

        /* Pending operations. */
        StopEvent next_event; /* event to handle in that turn */
        Deferred turn;
        Timer timer;
        Timer settling; /* ends with the slot */
        RuntimePodsCall *listing;
        RpcCall *call;
        KubeletQuestion *question;
        Hook *hook;
        Place place;   /* place in the limit of hooks */
        Timer waiting; /* limits the wait for the place */

        /* Report. */
        char *message;
        char *hook_message;
        StopResult result;
        StopStep reported_step;
        char *reported_message;
        bool is_check_requested;
        bool is_wait_reported; /* the log and an event say that the stop waits */
};

static void stop_destroy(Stop *stop) {
        deferred_done(&stop->turn);
        timer_done(&stop->timer);
        timer_done(&stop->settling);
        runtime_pods_call_free(stop->listing);
        rpc_call_unref(stop->call);
        kubelet_question_free(stop->question);
        hook_free(stop->hook);
        place_release(&stop->place);
        timer_done(&stop->waiting);
        handler_spec_done(&stop->hook_spec);

        char *const texts[] = {
                stop->runtime, stop->container_id, stop->owner,
                stop->cause,   stop->pod_address,  stop->sandbox_id,
                stop->pod,     stop->container,    stop->namespace,
                stop->uid,     stop->address,      stop->hook_refusal,
                stop->message, stop->hook_message, stop->reported_message,
        };
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                free(texts[i]);
        free(stop);
}

DEFINE_CLEANUP(Stops *, stops_free)
DEFINE_CLEANUP(Stop *, stop_destroy)

static uint64_t stop_now_usec(const Stop *stop) {
        return loop_now_usec(stop->stops->event);
}

/* Handles the event in the next turn of the loop. */
static int stop_handle_later(Stop *stop, StopEvent event) {
        stop->next_event = event;
        return deferred_request(&stop->turn);
}

/* The queue */

/* clang-format off */
static const StopStep steps[_STOP_STATE_MAX] = {
        [STOP_STATE_QUEUED]           = STOP_STEP_QUEUED,
        [STOP_STATE_INSPECTING]       = STOP_STEP_INSPECTING,
        [STOP_STATE_INSPECTING_LATER] = STOP_STEP_INSPECTING,
        [STOP_STATE_PARKED]           = STOP_STEP_WAITING_FOR_RUNTIME,
        [STOP_STATE_ASKING]           = STOP_STEP_INSPECTING,
        [STOP_STATE_WAITING]          = STOP_STEP_WAITING_FOR_KUBELET,
        [STOP_STATE_ASKING_AGAIN]     = STOP_STEP_WAITING_FOR_KUBELET,
        [STOP_STATE_ADDRESSING]       = STOP_STEP_INSPECTING,
        [STOP_STATE_CHECKING]         = STOP_STEP_INSPECTING,
        [STOP_STATE_HOOK]             = STOP_STEP_HOOK,
        [STOP_STATE_STOPPING]         = STOP_STEP_STOPPING,
        [STOP_STATE_CONFIRMING]       = STOP_STEP_STOPPING,
        [STOP_STATE_RESTING]          = STOP_STEP_STOPPING,
        [STOP_STATE_LOST]             = STOP_STEP_WAITING_FOR_RUNTIME,
        [STOP_STATE_ENDED]            = STOP_STEP_ENDED,
};
/* clang-format on */

StopStep stop_step(const Stop *stop) {
        return steps[stop->state];
}

/* The stop acts on the container, or is about to. A stop that waits for its owner's confirmation
 * does not count, since that may take any time. */
static bool is_active(const Stop *stop) {
        if (stop->has_slot || stop->has_begun)
                return true;

        return stop_step(stop) == STOP_STEP_INSPECTING && stop->state != STOP_STATE_CHECKING;
}

/* Another stop of the container goes first, so this one has to wait; it then finds the container
 * ended. Resumed stops have all begun, and wait only for those before them. */
static bool is_taken(const Stop *stop) {
        for (const Stop *other = stop->stops->first; other; other = other->next) {
                if (other == stop && stop->is_resumed)
                        return false;
                if (other != stop && is_active(other) &&
                    strcmp(other->container_id, stop->container_id) == 0)
                        return true;
        }

        return false;
}

static bool stops_has_begun_other(const Stop *stop) {
        for (const Stop *other = stop->stops->first; other; other = other->next)
                if (other != stop && other->has_begun &&
                    strcmp(other->container_id, stop->container_id) == 0)
                        return true;

        return false;
}

static void stops_overtake_others(const Stop *stop) {
        for (Stop *other = stop->stops->first; other; other = other->next)
                if (other != stop && strcmp(other->container_id, stop->container_id) == 0)
                        other->is_overtaken = true;
}

static int stop_give_slot(Stop *stop) {
        int r;

        stop->has_slot = true;
        stop->stops->n_fresh++;
        r = timer_start(&stop->settling, SETTLE_USEC);
        return r < 0 ? r : stop_handle_later(stop, STOP_ON_SLOT);
}

static int stops_pump(Stops *stops) {
        int r = 0;

        for (Stop *stop = stops->first; r >= 0 && stop && stops->n_fresh < FRESH_MAX;
             stop = stop->next) {
                if (stop->state != STOP_STATE_QUEUED || stop->has_slot || is_taken(stop))
                        continue;

                r = stop_give_slot(stop);
        }

        return r;
}

static int stops_release(Stop *stop) {
        if (stop->has_slot) {
                stop->has_slot = false;
                stop->stops->n_fresh--;
                timer_stop(&stop->settling);
        }

        return stops_pump(stop->stops);
}

/* A slot limits the work of the runtime and the kubelet, which a waiting stop does not cause. */
static int on_settled(void *userdata) {
        return stops_release(userdata);
}

static void stops_unlink(Stop *stop) {
        Stops *stops = stop->stops;

        if (stops->last == stop)
                stops->last = stop->previous;
        list_remove(&stops->first, stop);
        stops->n_stops--;
}

static int stops_remove(Stop *stop) {
        stops_unlink(stop);
        return stops_release(stop);
}

static void stops_append(Stops *stops, Stop *stop) {
        stop->previous = stops->last;
        if (stops->last)
                stops->last->next = stop;
        else
                stops->first = stop;
        stops->last = stop;
        stops->n_stops++;
}

/* The life of one stop */

/* Carries out the actions that follow from the event. The caller must not touch the stop any
 * more. */
static int stop_handle(Stop *stop, StopEvent event);

static int on_timer(void *userdata) {
        return stop_handle(userdata, STOP_ON_TIMER);
}

/* The container's runtime */

static Runtime *find_runtime(const Stop *stop) {
        const Runtimes *runtimes = stop->stops->runtimes;

        return stop->runtime ? runtimes_find(runtimes, stop->runtime) : runtimes_chosen(runtimes);
}

static const char *stop_runtime_name(const Stop *stop) {
        Runtime *runtime = stop->runtime ? NULL : find_runtime(stop);

        return runtime ? runtime_name(runtime) : stop->runtime;
}

static RpcClient *stop_client(const Stop *stop) {
        Runtime *runtime = find_runtime(stop);

        return runtime && runtime_is_alive(runtime) ? runtime_client(runtime) : NULL;
}

/* The journal, events and the hook */

/* A stop goes on without its file; only after a crash the next run would miss it. */
static int stops_record(Stops *stops, const StopRecord *record) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r = stop_journal_set(stops->journal, record, &error);

        if (r < 0 && error.kind == ERROR_NONE)
                return r;

        (void) log_trouble(stops->log, LOG_ERR, &stops->journal_error,
                           error.kind != ERROR_NONE ? &error : NULL,
                           "Cannot record which containers are being stopped",
                           "Recording which containers are being stopped works again");
        return 0;
}

static int stop_note(Stop *stop, const char *owner, StopPhase phase) {
        uint64_t now_usec = stop_now_usec(stop), left_usec = 0;
        StopRecord record;
        StopClock now;

        stop_clock_read(&now);
        if (stop->deadline_usec > now_usec)
                left_usec = stop->deadline_usec - now_usec;

        record = (StopRecord){
                .owner = (char *) owner,
                .container_id = stop->container_id,
                .container = stop->container,
                .runtime = (char *) stop_runtime_name(stop),
                .phase = phase,
                .began_sec = stop->began_nsec / NSEC_PER_SEC,
                .deadline_sec = now.wall_sec + (int64_t) (left_usec / USEC_PER_SEC),
                .changed_sec = now.wall_sec,
                .uptime_sec = now.uptime_sec,
                .boot_id = now.boot_id,
        };
        return stops_record(stop->stops, &record);
}

static int stop_note_phase(Stop *stop, StopPhase phase) {
        return stop_note(stop, stop->owner, phase);
}

int stops_keep(Stops *stops, const char *owner, const char *container_id, const char *new_id) {
        const StopRecord *record = stop_journal_find(stops->journal, owner, container_id);
        int64_t now_sec = clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC;
        bool is_same = strcmp(container_id, new_id) == 0;
        StopRecord kept;
        int r;

        if (!record || stop_record_is_open(record) ||
            (is_same && now_sec - record->changed_sec < DAY_SEC))
                return 0;

        kept = *record;
        kept.container_id = (char *) new_id;
        kept.changed_sec = now_sec;
        r = stops_record(stops, &kept);
        return r < 0 || is_same || !stop_journal_find(stops->journal, owner, new_id)
                       ? r
                       : stops_forget(stops, owner, container_id);
}

int stops_forget(Stops *stops, const char *owner, const char *container_id) {
        const StopRecord record = {
                .owner = (char *) owner,
                .container_id = (char *) container_id,
                .changed_sec = clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC,
        };

        return stop_journal_find(stops->journal, owner, container_id) ? stops_record(stops, &record)
                                                                      : 0;
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

        if (text_format(&field_path, "spec.%s{%s}", stop->is_init ? "initContainers" : "containers",
                        stop->container ?: "") < 0)
                return -ENOMEM;

        return send_event_of(stop, field_path, type, reason, message);
}

static int stop_announce(Stop *stop) {
        log_info(stop->stops->log, STOP_FIELDS(stop), "%s, in pod \"%s/%s\".", stop->cause,
                 stop->namespace ?: "", stop->pod ?: "");
        return send_event(stop, "Normal", "Killing", stop->cause);
}

static void stop_announce_resumed(const Stop *stop) {
        log_info(stop->stops->log, STOP_FIELDS(stop),
                 "Stopping container %s, in pod \"%s/%s\"; the previous run of the agent began "
                 "this, for \"%s\".",
                 stop->container ?: stop->container_id, stop->namespace ?: "", stop->pod ?: "",
                 stop->owner);
}

static int stop_announce_wait(Stop *stop, const char *why) {
        cleanup(free_p) char *message = NULL;

        if (stop->is_wait_reported)
                return 0;

        stop->is_wait_reported = true;
        if (text_format(
                    &message,
                    "Container %s waits to be restarted, since no kubelet would start it again: %s",
                    stop->container ?: "", why) < 0)
                return -ENOMEM;

        log_warning(stop->stops->log,
                    LOG_FIELDS({ "POD_NAMESPACE", stop->namespace }, { "POD", stop->pod },
                               { "CONTAINER", stop->container }),
                    "Pod \"%s/%s\": %s.", stop->namespace ?: "", stop->pod ?: "", message);
        return send_event(stop, "Warning", "WaitingForKubelet", message);
}

static void stop_set_begun(Stop *stop, int64_t began_nsec, int64_t grace_sec) {
        stop->has_begun = true;
        stop->began_nsec = began_nsec;
        stop->began_usec = stop_now_usec(stop);
        stop->deadline_usec = stop->began_usec + (uint64_t) grace_sec * USEC_PER_SEC;
}

/* A container that has ended meanwhile does not say its name any more. */
static int stop_resume(Stop *stop, const StopRecord *record) {
        int64_t left_sec;
        StopClock now;

        stop_clock_read(&now);
        left_sec = stop_record_left_sec(record, &now);
        stop->is_resumed = true;
        stop->has_hooked = true;
        stop_set_begun(stop, record->began_sec * NSEC_PER_SEC,
                       stop_plan_grace_sec(left_sec, NULL, NULL));
        return text_set(&stop->container, record->container[0] ? record->container : NULL);
}

static int stop_begin_first(Stop *stop) {
        stops_overtake_others(stop);
        stop_set_begun(stop, clock_nsec(CLOCK_REALTIME), stop->found_grace_sec);
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

static int stop_report_hook_failure(Stop *stop, const char *hook, const char *why) {
        cleanup(free_p) char *message = NULL;
        cleanup(free_p) char *event = NULL;

        if (text_format(&message, "%s: %s", hook, why) < 0 ||
            text_format(&event, "%s for Container \"%s\" in Pod \"%s_%s(%s)\" failed - error: %s",
                        hook, stop->container ?: "", stop->pod ?: "", stop->namespace ?: "",
                        stop->uid ?: "", why) < 0)
                return -ENOMEM;

        log_warning(stop->stops->log, STOP_FIELDS(stop), "%s.", event);
        utf8_hide_controls(message); /* a runtime may repeat what the hook has printed */
        free(stop->hook_message);
        stop->hook_message = take_ptr(message);
        return send_event(stop, "Warning", "FailedPreStopHook", event);
}

static int stop_handle_hook_failure(Stop *stop, const char *why) {
        cleanup(free_p) char *hook = NULL;
        int r;

        if (stop->hook_refusal)
                return stop_report_hook_failure(stop, "preStop hook", why);

        r = handler_spec_describe_hook(&stop->hook_spec, &hook);
        return r < 0 ? r : stop_report_hook_failure(stop, hook, why);
}

/* Reports it about the pod, as the kubelet does. */
static int stop_report_fallback(Stop *stop, const char *host) {
        cleanup(free_p) char *message = NULL;

        if (text_format(&message,
                        "request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP "
                        "succeeded",
                        host) < 0)
                return -ENOMEM;

        log_warning(stop->stops->log, STOP_FIELDS(stop), "Pod \"%s/%s\": %s.",
                    stop->namespace ?: "", stop->pod ?: "", message);
        return send_event_of(stop, NULL, "Warning", "LifecycleHTTPFallback", message);
}

static void stop_end_hook(Stop *stop) {
        stop->hook = hook_free(stop->hook);
        stop->call = rpc_call_unref(stop->call);
        timer_stop(&stop->waiting);
        place_release(&stop->place);
}

static int on_hook_done(const Error *error, const char *plain_host, void *userdata) {
        Stop *stop = userdata;
        int r = 0;

        if (error)
                r = stop_handle_hook_failure(stop, error_message(error));
        else if (plain_host)
                r = stop_report_fallback(stop, plain_host);
        if (!error)
                log_debug(stop->stops->log, STOP_FIELDS(stop),
                          "The preStop hook of container \"%s\" has ended%s%s.",
                          stop->container ?: "", stop->address ? ", at " : "", stop->address ?: "");
        stop_end_hook(stop);
        return r < 0 ? r : stop_handle(stop, STOP_ON_HOOKED);
}

static int stop_start_hook(void *userdata) {
        Stop *stop = userdata;
        const HookTarget target = {
                .client = stop_client(stop),
                .container_id = stop->container_id,
                .address = stop->address,
        };
        uint64_t now = stop_now_usec(stop);

        timer_stop(&stop->waiting);
        return hook_run(stop->stops->event, &stop->hook_spec, &target,
                        stop->deadline_usec > now ? stop->deadline_usec - now : 0, on_hook_done,
                        stop, &stop->hook);
}

static int on_waited(void *userdata) {
        Stop *stop = userdata;
        int r;

        stop_end_hook(stop);
        r = stop_handle_hook_failure(stop, "it could not be run in time: too many probes and hooks "
                                           "are under way on this node");
        return r < 0 ? r : stop_handle(stop, STOP_ON_HOOKED);
}

/* Waiting for a place is part of the grace period, as the hook itself is. */
static int stop_run_hook_in_turn(Stop *stop) {
        int r;

        if (stop->hook_spec.kind == HANDLER_SLEEP)
                return stop_start_hook(stop);

        r = place_take(&stop->place, stop->stops->places, stop->uid ?: "", stop_start_hook, stop);
        if (r < 0)
                return r;

        return r > 0 ? stop_start_hook(stop) : timer_start_at(&stop->waiting, stop->deadline_usec);
}

static int stop_run_hook(Stop *stop, StopEvent *ret_event) {
        int r;

        stop->has_hooked = true;
        r = stop_begin(stop, STOP_PHASE_HOOK);
        if (r < 0)
                return r;

        if (stop->hook_refusal) {
                *ret_event = STOP_ON_HOOKED;
                return stop_handle_hook_failure(stop, stop->hook_refusal);
        }

        r = timer_start(&stop->timer, LOOK_USEC);
        return r < 0 ? r : stop_run_hook_in_turn(stop);
}

static bool has_status_exited(const CriContainerStatus *reply) {
        return reply->status &&
               reply->status->state == RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED;
}

static int on_looked(const void *reply, const Error *error, void *userdata) {
        Stop *stop = userdata;
        bool has_exited = error ? error->kind == ERROR_NOT_FOUND : has_status_exited(reply);

        stop->call = rpc_call_unref(stop->call);
        if (!has_exited)
                return timer_start(&stop->timer, LOOK_USEC);

        stop_end_hook(stop);
        return stop_handle(stop, STOP_ON_EXITED);
}

/* A hook that does not end would keep its place after the container, for a grace period of years. */
static int stop_look(Stop *stop) {
        RpcClient *client = stop_client(stop);

        if (!client)
                return timer_start(&stop->timer, LOOK_USEC);

        return cri_container_status(client, stop->container_id, /* is_verbose= */ false, on_looked,
                                    stop, &stop->call);
}

static int stop_read_hook(Stop *stop, const char *handler, const char *ports) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        handler_spec_done(&stop->hook_spec);
        free(take_ptr(stop->hook_refusal));
        r = handler_spec_parse(handler, ports, &stop->hook_spec, &error);
        return r >= 0 || error.kind == ERROR_NONE
                       ? r
                       : text_set(&stop->hook_refusal, error_message(&error));
}

/* Calls to the runtime */

static int stop_miss_runtime(Stop *stop, StopEvent *ret_event) {
        *ret_event = STOP_ON_RUNTIME_AWAY;
        free(stop->message);
        return text_format(&stop->message, "the container runtime%s%s does not answer",
                           stop->runtime ? " " : "", stop->runtime ?: "");
}

static StopEvent event_over(Stop *stop, StopResult result) {
        stop->result = result;
        if (result != STOP_FAILED)
                free(take_ptr(stop->message));
        return STOP_ON_OVER;
}

/* A runtime that is there and refuses again and again will not do it. Where it has stopped the container,
 * and only refuses to say what became of it, its word counts. */
static StopEvent event_of_refusal(Stop *stop) {
        stop->n_refusals++;
        if (stop->n_refusals < STOP_REFUSALS_MAX)
                return STOP_ON_REFUSED;

        return event_over(stop, stop->answer == ANSWER_ACCEPTED ? STOP_STOPPED : STOP_FAILED);
}

/* For a call that changes nothing, which the agent may repeat without limit while the runtime is
 * silent. */
static int event_of_error(Stop *stop, const Error *error, StopEvent *ret_event) {
        int r;

        if (!stop_client(stop))
                return stop_miss_runtime(stop, ret_event);

        r = text_set(&stop->message, error_message(error));
        if (r < 0)
                return r;

        *ret_event =
                stop_plan_is_silence(error->kind) ? STOP_ON_RUNTIME_AWAY : event_of_refusal(stop);
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
                r = text_set(texts[i].text, texts[i].source);
        if (r < 0)
                return r;

        stop->found_grace_sec =
                stop_plan_grace_sec(stop->grace_sec,
                                    cri_container_annotation(container, ANNOTATION_DELETION_GRACE),
                                    cri_container_annotation(container,
                                                             ANNOTATION_TERMINATION_GRACE));
        return stop_read_hook(stop, cri_container_annotation(container, ANNOTATION_PRE_STOP),
                              cri_container_annotation(container, ANNOTATION_PORTS));
}

/* A sleep goes on that a previous run of the agent has begun: it does nothing twice. */
static StopEvent event_of_begun(Stop *stop) {
        const StopRecord *record =
                stop_journal_find(stop->stops->journal, stop->owner, stop->container_id);
        uint64_t now_usec = stop_now_usec(stop);
        HandlerSpec *hook = &stop->hook_spec;

        if (!record || record->phase != STOP_PHASE_HOOK || hook->kind != HANDLER_SLEEP)
                return STOP_ON_BEGUN;

        hook->sleep_sec =
                stop_plan_sleep_sec(hook->sleep_sec, record->deadline_sec - record->changed_sec,
                                    stop->deadline_usec > now_usec ? stop->deadline_usec - now_usec
                                                                   : 0);
        return hook->sleep_sec > 0 ? STOP_ON_SLEEPING : STOP_ON_BEGUN;
}

static int take_running(Stop *stop, const CriContainer *container, StopEvent *ret_event) {
        int r;

        stop->n_refusals = 0;
        r = stop_take_container(stop, container);
        if (r < 0)
                return r;

        *ret_event = stop->is_resumed ? event_of_begun(stop) : STOP_ON_RUNNING;
        if (stop->is_resumed)
                stop_announce_resumed(stop);
        return 0;
}

static int event_of_inspection(Stop *stop, const CriContainer *container, StopEvent *ret_event) {
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

static int on_inspected(const CriContainer *container, const Error *error, void *userdata) {
        Stop *stop = userdata;
        StopEvent event;
        int r;

        stop->n_silences = error ? stop->n_silences : 0;
        r = error ? event_of_error(stop, error, &event)
                  : event_of_inspection(stop, container, &event);
        stop->listing = runtime_pods_call_free(stop->listing);
        return r < 0 ? r : stop_handle(stop, event);
}

static int stop_inspect(Stop *stop, StopEvent *ret_event) {
        RpcClient *client = stop_client(stop);

        if (!client)
                return stop_miss_runtime(stop, ret_event);

        stop->is_overtaken = stops_has_begun_other(stop);
        return runtime_pods_find_container(client, stop->container_id, on_inspected, stop,
                                           &stop->listing);
}

static int event_of_sandbox(Stop *stop, const CriSandboxStatus *reply, StopEvent *ret_event) {
        const char *address = NODE_ADDRESS;

        if (reply->status && reply->status->network && *reply->status->network->ip)
                address = reply->status->network->ip;

        *ret_event = STOP_ON_ADDRESS;
        return text_set(&stop->address, address);
}

/* Without an address the hook fails, and that is reported. */
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

        return stop->found_grace_sec > 0 && !hook->host &&
               (hook->kind == HANDLER_HTTP || hook->kind == HANDLER_TCP);
}

static int stop_find_address(Stop *stop, StopEvent *ret_event) {
        RpcClient *client = stop_client(stop);

        *ret_event = STOP_ON_ADDRESS;
        if (!needs_address(stop))
                return 0;
        if (stop->pod_address)
                return text_set(&stop->address, stop->pod_address);

        if (!client)
                return stop_miss_runtime(stop, ret_event);

        *ret_event = STOP_ON_NOTHING;
        return cri_sandbox_status(client, stop->sandbox_id, on_sandbox, stop, &stop->call);
}

static int on_stopped(const void *reply, const Error *error, void *userdata) {
        StopEvent event = STOP_ON_ANSWERED;
        Stop *stop = userdata;
        int r = 0;

        stop->answer = !error                              ? ANSWER_ACCEPTED
                       : stop_plan_is_silence(error->kind) ? ANSWER_NONE
                                                           : ANSWER_REFUSED;
        if (error && !stop_client(stop)) {
                r = stop_miss_runtime(stop, &event);
        } else if (error) {
                stop->n_refusals++;
                r = text_set(&stop->message, error_message(error));
        }
        stop->call = rpc_call_unref(stop->call);
        return r < 0 ? r : stop_handle(stop, event);
}

static int stop_stop(Stop *stop, StopEvent *ret_event) {
        RpcClient *client = stop_client(stop);
        int r;

        if (!client)
                return stop_miss_runtime(stop, ret_event);

        if (stop->n_refusals == 0)
                free(take_ptr(stop->message)); /* the runtime is there again */
        r = stop_begin(stop, STOP_PHASE_STOPPING);
        if (r < 0)
                return r;

        return cri_stop_container(client, stop->container_id,
                                  stop_plan_left_sec(stop->deadline_usec, stop_now_usec(stop)),
                                  on_stopped, stop, &stop->call);
}

/* The container still runs: the runtime has refused, or has not been asked yet. */
static int event_of_survivor(Stop *stop, StopEvent *ret_event) {
        int r;

        if (stop->answer == ANSWER_ACCEPTED) {
                r = text_set(&stop->message,
                             "it still runs, although the runtime reported that it has stopped");
                if (r < 0)
                        return r;

                stop->answer = ANSWER_NONE;
                stop->n_refusals++;
        }

        *ret_event = stop->n_refusals == 0                  ? STOP_ON_RUNNING
                     : stop->n_refusals < STOP_REFUSALS_MAX ? STOP_ON_REFUSED
                                                            : event_over(stop, STOP_FAILED);
        return 0;
}

/* A stop that began before the container ended has ended it. Where the clock was set back to before
 * the begin, times do not tell, and the stop is taken for the cause. */
static int event_of_status(Stop *stop, const CriContainerStatus *reply, StopEvent *ret_event) {
        const Runtime__V1__ContainerStatus *status = reply->status;
        bool has_stopped;

        if (status && status->state == RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING)
                return event_of_survivor(stop, ret_event);

        has_stopped = status && (status->finished_at >= stop->began_nsec ||
                                 clock_nsec(CLOCK_REALTIME) < stop->began_nsec);
        *ret_event = event_over(stop, has_stopped ? STOP_STOPPED : STOP_GONE);
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
                event = event_over(stop, stop->answer == ANSWER_REFUSED && !stop->is_resumed
                                                 ? STOP_GONE
                                                 : STOP_STOPPED);
        else
                r = event_of_error(stop, error, &event);
        stop->call = rpc_call_unref(stop->call);
        return r < 0 ? r : stop_handle(stop, event);
}

static int stop_confirm(Stop *stop, StopEvent *ret_event) {
        RpcClient *client = stop_client(stop);

        if (!client)
                return stop_miss_runtime(stop, ret_event);

        return cri_container_status(client, stop->container_id, /* is_verbose= */ false, on_status,
                                    stop, &stop->call);
}

/* Actions */

/* A runtime that is there, and silent, will not announce itself again. */
static int stop_park(Stop *stop) {
        int r;

        r = stops_release(stop);
        if (r < 0)
                return r;

        stop->n_refusals = 0;
        if (!stop_client(stop))
                return 0;

        stop->n_silences++;
        return timer_start(&stop->timer, backoff_usec(stop->n_silences, random_number()));
}

static int stop_queue(Stop *stop) {
        free(take_ptr(stop->message));
        return stops_release(stop);
}

static int stop_wait_for_kubelet(Stop *stop) {
        int r;

        r = stop_announce_wait(stop, stop->message);
        if (r < 0)
                return r;

        r = stops_release(stop);
        return r < 0 ? r : timer_start(&stop->timer, KUBELET_USEC);
}

static int on_kubelet(KubeletState state, const char *why, void *userdata) {
        Stop *stop = userdata;
        int r;

        if (state != KUBELET_AWAY) {
                stop->question = kubelet_question_free(stop->question);
                return stop_handle(stop, STOP_ON_KUBELET_THERE);
        }

        r = text_set(&stop->message, why ?: "there is no kubelet");
        if (r < 0)
                return r;

        stop->question = kubelet_question_free(stop->question);
        return stop_handle(stop, STOP_ON_KUBELET_AWAY);
}

static bool asks_kubelet(const Stop *stop) {
        return stop->needs_kubelet && stop->stops->kubelet;
}

static int stop_ask(Stop *stop, StopEvent *ret_event) {
        stop->kubelet_usec = stop_now_usec(stop);
        if (asks_kubelet(stop))
                return kubelet_ask(stop->stops->kubelet, on_kubelet, stop, &stop->question);

        *ret_event = STOP_ON_KUBELET_THERE;
        return 0;
}

/* The container or the kubelet may have changed since it was asked. */
static bool is_outdated(const Stop *stop) {
        return stop->is_overtaken ||
               (asks_kubelet(stop) &&
                stop_now_usec(stop) > stop->kubelet_usec + KUBELET_KNOWN_USEC);
}

/* An earlier stop of the container has run its hook, and has failed. */
static bool was_hooked(const Stop *stop) {
        return stop_journal_find(stop->stops->journal, HOOK_OWNER, stop->container_id);
}

static StopEvent event_of_yes(const Stop *stop) {
        if (!stop_client(stop))
                return STOP_ON_RUNTIME_AWAY;
        if (is_outdated(stop))
                return STOP_ON_OUTDATED;
        if (stop->found_grace_sec == 0 || was_hooked(stop))
                return STOP_ON_REQUESTED;

        return stop->hook_spec.kind != HANDLER_NONE || stop->hook_refusal
                       ? STOP_ON_REQUESTED_WITH_HOOK
                       : STOP_ON_REQUESTED;
}

static int stop_check(Stop *stop, StopEvent *ret_event) {
        free(take_ptr(stop->message));
        stop->is_check_requested = !stop->on_check;
        if (stop->on_check)
                return stops_pump(stop->stops);

        *ret_event = event_of_yes(stop);
        return 0;
}

/* *ret_event is the next event, or left as it is. */
static int stop_act(Stop *stop, StopAction action, StopEvent *ret_event) {
        switch (action) {
        case STOP_DO_NOTHING:
        case STOP_DO_END: return 0;
        case STOP_DO_QUEUE: return stop_queue(stop);
        case STOP_DO_INSPECT: return stop_inspect(stop, ret_event);
        case STOP_DO_PAUSE: return timer_start(&stop->timer, stop->n_refusals * USEC_PER_SEC);
        case STOP_DO_PARK: return stop_park(stop);
        case STOP_DO_ASK: return stop_ask(stop, ret_event);
        case STOP_DO_WAIT: return stop_wait_for_kubelet(stop);
        case STOP_DO_FIND_ADDRESS: return stop_find_address(stop, ret_event);
        case STOP_DO_CHECK: return stop_check(stop, ret_event);
        case STOP_DO_RUN_HOOK: return stop_run_hook(stop, ret_event);
        case STOP_DO_LOOK: return stop_look(stop);
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
                log_info(stop->stops->log, fields, "Stopped container \"%s\" after %.3f s.", name,
                         (double) duration_usec / (double) USEC_PER_SEC);
                return;
        case STOP_GONE:
                log_info(stop->stops->log, fields,
                         "Container \"%s\" is gone, or had ended already.", name);
                return;
        case STOP_NOT_REQUESTED:
                log_info(stop->stops->log, fields, "Container \"%s\" is not stopped after all: %s.",
                         name, stop->message ?: "it is no longer requested");
                return;
        case STOP_FAILED:
                log_error(stop->stops->log, fields, "Cannot stop container \"%s\": %s.", name,
                          stop->message ?: "the runtime refuses");
                return;
        case _STOP_RESULT_MAX: break;
        }

        abort();
}

/* The hook's record is written before the other one goes: the agent may die between the two. */
static int stop_note_result(Stop *stop) {
        const StopRecord *record =
                stop_journal_find(stop->stops->journal, stop->owner, stop->container_id);
        StopPhase phase = stop->result == STOP_STOPPED ? STOP_PHASE_STOPPED : STOP_PHASE_NONE;
        bool is_news = (record ? record->phase : STOP_PHASE_NONE) != phase;
        int r = 0;

        if (stop->result == STOP_FAILED && (stop->has_hooked || was_hooked(stop)))
                r = stop_note(stop, HOOK_OWNER, STOP_PHASE_STOPPED);
        return r < 0 || !is_news ? r : stop_note_phase(stop, phase);
}

/* The part of the owner before "/" is the cause. */
static void stop_count(const Stop *stop, uint64_t duration_usec) {
        static const char *const results[_STOP_RESULT_MAX] = {
                [STOP_STOPPED] = "stopped",
                [STOP_GONE] = "gone",
                [STOP_NOT_REQUESTED] = "not-asked",
                [STOP_FAILED] = "failed",
        };
        Metrics *metrics = stop->stops->metrics;
        char cause[OWNER_SIZE];

        (void) snprintf(cause, sizeof(cause), "%.*s", (int) strcspn(stop->owner, "/"), stop->owner);
        metrics_add(metrics, METRIC_STOPS, METRIC_LABELS(cause, results[stop->result]), 1);
        if (stop->result == STOP_STOPPED)
                metrics_observe(metrics, METRIC_STOP_DURATION, METRIC_LABELS(cause),
                                (double) duration_usec / 1e6);
}

/* The owner may free all stops when it is notified, but this one has left the list already. */
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
        };
        stop_log_end(ended, duration_usec);
        stop_count(ended, duration_usec);
        return ended->on_done ? ended->on_done(&report, ended->userdata) : 0;
}

static bool is_reported(const Stop *stop, StopStep step) {
        return step == stop->reported_step && text_equal(stop->message, stop->reported_message);
}

static int stop_report_step(Stop *stop, StopStep step) {
        int r = text_set(&stop->reported_message, stop->message);

        if (r < 0)
                return r;

        stop->reported_step = step;
        return stop->on_step ? stop->on_step(stop, step, stop->reported_message, stop->userdata)
                             : 0;
}

/* At most one of the owner's functions is called, and then the stop may be gone. */
static int stop_notify(Stop *stop) {
        StopStep step = stop_step(stop);

        if (stop->state == STOP_STATE_ENDED)
                return stop_finish(stop);
        if (stop->state == STOP_STATE_CHECKING && !stop->is_check_requested) {
                stop->is_check_requested = true;
                return stop->on_check(stop, stop->userdata);
        }

        return is_reported(stop, step) ? 0 : stop_report_step(stop, step);
}

static int stop_handle(Stop *stop, StopEvent event) {
        bool is_news = false;
        int r;

        while (event != STOP_ON_NOTHING) {
                StopAction action = stop_plan_step(&stop->state, event);

                event = STOP_ON_NOTHING;
                if (action == STOP_DO_NOTHING)
                        break;

                is_news = true;
                timer_stop(&stop->timer);
                r = stop_act(stop, action, &event);
                if (r < 0)
                        return r;
        }

        return is_news ? stop_notify(stop) : 0;
}

static int on_turn(void *userdata) {
        Stop *stop = userdata;
        StopEvent event = stop->next_event;

        stop->next_event = STOP_ON_NOTHING;
        return stop_handle(stop, event == STOP_ON_REQUESTED ? event_of_yes(stop) : event);
}

int stop_answer(Stop *stop, bool is_asked, const char *why_not) {
        int r;

        if (stop->state != STOP_STATE_CHECKING || stop->next_event != STOP_ON_NOTHING)
                return 0;
        if (is_asked)
                return stop_handle_later(stop, STOP_ON_REQUESTED);

        r = text_set(&stop->message, why_not);
        if (r < 0)
                return r;

        stop->result = STOP_NOT_REQUESTED;
        return stop_handle_later(stop, STOP_ON_OVER);
}

/* All stops */

static int stop_new(Stops *stops, const StopOptions *options, Stop **ret) {
        cleanup(stop_destroy_p) Stop *stop = NULL;

        stop = malloc(sizeof(*stop));
        if (!stop)
                return -ENOMEM;

        *stop = (Stop){
                .stops = stops,
                .grace_sec = options->grace_sec,
                .needs_kubelet = options->needs_kubelet,
                .is_init = options->is_init,
                .on_check = options->on_check,
                .on_step = options->on_step,
                .on_done = options->on_done,
                .userdata = options->userdata,
                .hook_spec = HANDLER_SPEC_INIT,
        };
        deferred_init(&stop->turn, stops->event, on_turn, stop);
        timer_init(&stop->timer, stops->event, ACCURACY_USEC, on_timer, stop);
        timer_init(&stop->settling, stops->event, ACCURACY_USEC, on_settled, stop);
        timer_init(&stop->waiting, stops->event, ACCURACY_USEC, on_waited, stop);
        if (text_copy(options->runtime, &stop->runtime) < 0 ||
            text_copy(options->container_id, &stop->container_id) < 0 ||
            text_copy(options->owner, &stop->owner) < 0 ||
            text_copy(options->cause, &stop->cause) < 0 ||
            text_copy(options->pod_address, &stop->pod_address) < 0)
                return -ENOMEM;

        *ret = take_ptr(stop);
        return 0;
}

/* A container with such an ID cannot exist, and the journal could not name it. */
static int stop_refuse(Stop *stop) {
        int r;

        r = text_set(&stop->message, "this is not the ID of a container");
        if (r < 0)
                return r;

        stop->result = STOP_FAILED;
        return stop_handle_later(stop, STOP_ON_OVER);
}

int stops_add(Stops *stops, const StopOptions *options, Stop **ret) {
        Stop *stop;
        int r;

        r = stop_new(stops, options, &stop);
        if (r < 0)
                return r;

        stops_append(stops, stop);
        if (stop_journal_can_name(stop->container_id) && stop_journal_can_name(stop->owner))
                r = stops_pump(stops);
        else
                r = stop_refuse(stop);
        if (r < 0) {
                stops_unlink(stop);
                stop_destroy(stop);
                return r;
        }

        *ret = stop;
        return 0;
}

void stop_leave(Stop *stop) {
        stop->on_check = NULL;
        stop->on_step = NULL;
        stop->on_done = NULL;
        if (stop->has_begun)
                return;

        (void) stops_remove(stop);
        stop_destroy(stop);
}

bool stop_has_begun(const Stop *stop) {
        return stop->has_begun;
}

/* The owner has added a stop of that container in this run. */
static bool has_stop(const Stops *stops, const char *owner, const char *container_id) {
        for (const Stop *stop = stops->first; stop; stop = stop->next)
                if (!stop->is_resumed && strcmp(stop->owner, owner) == 0 &&
                    strcmp(stop->container_id, container_id) == 0)
                        return true;

        return false;
}

bool stops_has_stopped(const Stops *stops, const char *owner, const char *container_id) {
        const StopRecord *record = stop_journal_find(stops->journal, owner, container_id);

        if (!record)
                return false;

        /* A stop has begun, in a previous run of the agent unless the owner has added it in this
         * one: the container may have ended by its hook already. */
        return record->phase == STOP_PHASE_STOPPED || !has_stop(stops, owner, container_id);
}

const char *stops_find_owner(const Stops *stops, const char *owner, const char *container_id) {
        size_t size = strlen(owner);

        for (size_t i = stop_journal_count(stops->journal); i-- > 0;) {
                const StopRecord *record = stop_journal_get(stops->journal, i);

                if (strcmp(record->container_id, container_id) == 0 &&
                    strncmp(record->owner, owner, size) == 0 &&
                    (record->owner[size] == '/' || !record->owner[size]) &&
                    stops_has_stopped(stops, record->owner, container_id))
                        return record->owner;
        }

        return NULL;
}

const char *stops_find_stopped(const Stops *stops, const char *owner, const char *container) {
        for (size_t i = stop_journal_count(stops->journal); i-- > 0;) {
                const StopRecord *record = stop_journal_get(stops->journal, i);

                if (strcmp(record->container, container) == 0 &&
                    strcmp(record->owner, owner) == 0 &&
                    stops_has_stopped(stops, owner, record->container_id))
                        return record->container_id;
        }

        return NULL;
}

static bool is_waiting_for_runtime(const Stop *stop) {
        return stop->state == STOP_STATE_PARKED || stop->state == STOP_STATE_LOST;
}

int stops_runtime_changed(Stops *stops) {
        int r = 0;

        for (Stop *stop = stops->first; r >= 0 && stop; stop = stop->next)
                if (is_waiting_for_runtime(stop) && stop_client(stop))
                        r = stop_handle_later(stop, STOP_ON_RUNTIME_BACK);
        return r;
}

size_t stops_n_running(const Stops *stops) {
        return stops->n_stops;
}

static int stops_open_journal(Stops *stops, const char *state_dir) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = stop_journal_new(state_dir, &stops->journal, &error);
        if (r < 0)
                return r;

        if (error.kind != ERROR_NONE)
                log_error(stops->log, NULL, "The record of stopped containers is lost: %s.",
                          error_message(&error));
        return 0;
}

/* Finishes the stops of the previous run, even if no owner requests them any more: when its caller
 * is gone, the runtime does not kill a process that ignores SIGTERM. The owner may add its stop
 * meanwhile, which waits for this one as for any other of the container. */
static int stops_resume(Stops *stops) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < stop_journal_count(stops->journal); i++) {
                const StopRecord *record = stop_journal_get(stops->journal, i);
                const StopOptions options = {
                        .runtime = record->runtime[0] ? record->runtime : NULL,
                        .container_id = record->container_id,
                        .owner = record->owner,
                        .grace_sec = STOP_GRACE_OF_POD,
                };
                Stop *stop;

                if (!stop_record_is_open(record))
                        continue;

                r = stop_new(stops, &options, &stop);
                if (r < 0)
                        return r;

                r = stop_resume(stop, record);
                stops_append(stops, stop);
        }

        return r < 0 ? r : stops_pump(stops);
}

int stops_new(const StopsOptions *options, Stops **ret) {
        cleanup(stops_free_p) Stops *stops = NULL;
        int r;

        stops = malloc(sizeof(*stops));
        if (!stops)
                return -ENOMEM;

        *stops = (Stops){
                .event = sd_event_ref(options->event),
                .log = options->log,
                .runtimes = options->runtimes,
                .kubelet = options->kubelet,
                .events = options->events,
                .metrics = options->metrics,
                .places = options->places,
        };
        r = stops_open_journal(stops, options->state_dir);
        if (r < 0)
                return r;

        r = stops_resume(stops);
        if (r < 0)
                return r;

        *ret = take_ptr(stops);
        return 0;
}

Stops *stops_free(Stops *stops) {
        if (!stops)
                return NULL;

        while (stops->first) {
                Stop *stop = stops->first;

                stops_unlink(stop);
                stop_destroy(stop);
        }
        stop_journal_free(stops->journal);
        error_done(&stops->journal_error);
        sd_event_unref(stops->event);
        free(stops);
        return NULL;
}
