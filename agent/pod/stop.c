/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/pod/stops-internal.h"

#define USEC_PER_SEC ((uint64_t) 1000000)
#define KUBELET_USEC USEC_PER_SEC /* between two questions whether it is back */
#define OWNER_SIZE 64             /* of the part that metrics are told */

uint64_t stop_now_usec(const Stop *stop) {
        uint64_t usec = 0;

        (void) sd_event_now(stop->stops->event, CLOCK_MONOTONIC, &usec);
        return usec;
}

void stop_set_message(Stop *stop, char *message) {
        free(stop->message);
        stop->message = message;
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
        char *message;

        if (state != KUBELET_AWAY) {
                stop->question = kubelet_question_free(stop->question);
                return stop_handle(stop, STOP_ON_KUBELET_THERE);
        }

        message = strdup(why ?: "there is no kubelet");
        if (!message)
                return -ENOMEM;

        stop_set_message(stop, message);
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

        return stop->hook_spec.kind != HOOK_NONE || stop->hook_trouble ? STOP_ON_ASKED_WITH_HOOK
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
        const LogField *fields = LOG_FIELDS({ "POD_NAMESPACE", stop->namespace },
                                            { "POD", stop->pod }, { "CONTAINER", stop->container },
                                            { "CONTAINER_ID", stop->container_id });

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
                         name, stop->message ?: "nobody wants it any more");
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

DEFINE_CLEANUP(Stop *, stop_destroy)

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
        char *message = NULL;

        if (stop->state != STOP_STATE_CHECKING || stop->next_event != STOP_ON_NOTHING)
                return 0;
        if (is_asked)
                return stop_handle_later(stop, STOP_ON_ASKED);

        if (why_not) {
                message = strdup(why_not);
                if (!message)
                        return -ENOMEM;
        }
        stop_set_message(stop, message);
        stop->result = STOP_NOT_ASKED;
        return stop_handle_later(stop, STOP_ON_OVER);
}

void stop_destroy(Stop *stop) {
        drop_timer(&stop->turn);
        drop_timer(&stop->timer);
        drop_timer(&stop->settling);
        rpc_call_unref(stop->call);
        kubelet_question_free(stop->question);
        hook_free(stop->hook);
        hook_spec_done(&stop->hook_spec);

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
