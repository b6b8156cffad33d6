/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/pod/stops-internal.h"

#define USEC_PER_SEC ((uint64_t) 1000000)
#define NSEC_PER_SEC ((int64_t) 1000000000)

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

int stop_note_phase(Stop *stop, StopPhase phase) {
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
        log_info(stop->stops->log,
                 LOG_FIELDS({ "POD_NAMESPACE", stop->namespace }, { "POD", stop->pod },
                            { "CONTAINER", stop->container },
                            { "CONTAINER_ID", stop->container_id }),
                 "%s, in pod `%s/%s`.", stop->cause, stop->namespace ?: "", stop->pod ?: "");
        return send_event(stop, "Normal", "Killing", stop->cause);
}

void stop_announce_resumed(const Stop *stop) {
        log_info(stop->stops->log,
                 LOG_FIELDS({ "POD_NAMESPACE", stop->namespace }, { "POD", stop->pod },
                            { "CONTAINER", stop->container },
                            { "CONTAINER_ID", stop->container_id }),
                 "Stopping container %s, in pod `%s/%s`; this had begun before the agent was "
                 "started, for `%s`.",
                 stop->container ?: stop->container_id, stop->namespace ?: "", stop->pod ?: "",
                 stop->owner);
}

int stop_announce_wait(Stop *stop, const char *why) {
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

int stop_begin(Stop *stop, StopPhase phase) {
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

        log_warning(stop->stops->log,
                    LOG_FIELDS({ "POD_NAMESPACE", stop->namespace }, { "POD", stop->pod },
                               { "CONTAINER", stop->container },
                               { "CONTAINER_ID", stop->container_id }),
                    "%s.", event);
        free(stop->hook_message);
        stop->hook_message = take_ptr(message);
        return send_event(stop, "Warning", "FailedPreStopHook", event);
}

static int stop_note_hook_failure(Stop *stop, const char *why) {
        cleanup(free_p) char *hook = NULL;
        int r;

        if (stop->hook_trouble)
                return stop_tell_hook_failure(stop, "preStop hook", why);

        r = hook_spec_describe(&stop->hook_spec, &hook);
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

        log_warning(stop->stops->log,
                    LOG_FIELDS({ "POD_NAMESPACE", stop->namespace }, { "POD", stop->pod },
                               { "CONTAINER", stop->container },
                               { "CONTAINER_ID", stop->container_id }),
                    "Pod `%s/%s`: %s.", stop->namespace ?: "", stop->pod ?: "", message);
        return send_event_of(stop, NULL, "Warning", "LifecycleHTTPFallback", message);
}

static int on_hook_done(const Error *error, void *userdata) {
        Stop *stop = userdata;
        const char *plain_host = hook_plain_host(stop->hook);
        int r = 0;

        if (error)
                r = stop_note_hook_failure(stop, error_message(error));
        else if (plain_host)
                r = stop_tell_fallback(stop, plain_host);
        stop->hook = hook_free(stop->hook);
        return r < 0 ? r : stop_handle(stop, STOP_ON_HOOKED);
}

int stop_run_hook(Stop *stop, StopEvent *ret_event) {
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

int stop_read_hook(Stop *stop, const char *handler, const char *ports) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        hook_spec_done(&stop->hook_spec);
        free(stop->hook_trouble);
        stop->hook_trouble = NULL;
        r = hook_spec_parse(handler, ports, &stop->hook_spec, &error);
        if (r >= 0 || error.kind == ERROR_NONE)
                return r;

        stop->hook_trouble = strdup(error_message(&error));
        return stop->hook_trouble ? 0 : -ENOMEM;
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
