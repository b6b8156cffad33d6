/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/stops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/pod/stop.h"

/* So many stops are beginning at a time. One keeps containerd busy for about 60 ms, and the kubelet
 * with what follows: 16 leave both able to do something else meanwhile, and 110 stops, a node full
 * of pods, have all begun within 2 s. */
#define FRESH_MAX 16

/* A stop keeps its slot for this long: until then most are over, and what is not only waits, for an
 * answer, a hook or a process that takes its time. */
#define SETTLE_USEC ((uint64_t) 250 * 1000)

DEFINE_CLEANUP(Stops *, stops_free)
DEFINE_CLEANUP(Stop *, stop_destroy)

/* clang-format off */
static const StopStep steps[_STOP_STATE_MAX] = {
        [STOP_STATE_QUEUED]        = STOP_STEP_QUEUED,
        [STOP_STATE_LOOKING]       = STOP_STEP_LOOKING,
        [STOP_STATE_LOOKING_LATER] = STOP_STEP_LOOKING,
        [STOP_STATE_PARKED]        = STOP_STEP_WAITING_FOR_RUNTIME,
        [STOP_STATE_ASKING]        = STOP_STEP_LOOKING,
        [STOP_STATE_WAITING]       = STOP_STEP_WAITING_FOR_KUBELET,
        [STOP_STATE_ASKING_AGAIN]  = STOP_STEP_WAITING_FOR_KUBELET,
        [STOP_STATE_ADDRESSING]    = STOP_STEP_LOOKING,
        [STOP_STATE_CHECKING]      = STOP_STEP_LOOKING,
        [STOP_STATE_HOOK]          = STOP_STEP_HOOK,
        [STOP_STATE_STOPPING]      = STOP_STEP_STOPPING,
        [STOP_STATE_CONFIRMING]    = STOP_STEP_STOPPING,
        [STOP_STATE_RESTING]       = STOP_STEP_STOPPING,
        [STOP_STATE_LOST]          = STOP_STEP_WAITING_FOR_RUNTIME,
        [STOP_STATE_ENDED]         = STOP_STEP_ENDED,
};
/* clang-format on */

/* Something is being done to the container, or about to be. Nobody knows how long an owner takes to
 * say whether it still holds: others do not wait for that. */
static bool is_active(const Stop *stop) {
        if (stop->has_slot || stop->has_begun)
                return true;

        return stop_step(stop) == STOP_STEP_LOOKING && stop->state != STOP_STATE_CHECKING;
}

/* Of several stops of one container the first is the one: the others then find it ended. Those that
 * are resumed have all begun, and go on in their order. */
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

bool stops_has_begun_other(const Stop *stop) {
        for (const Stop *other = stop->stops->first; other; other = other->next)
                if (other != stop && other->has_begun &&
                    strcmp(other->container_id, stop->container_id) == 0)
                        return true;

        return false;
}

void stops_overtake_others(const Stop *stop) {
        for (Stop *other = stop->stops->first; other; other = other->next)
                if (other != stop && strcmp(other->container_id, stop->container_id) == 0)
                        other->is_overtaken = true;
}

/* The slot is for what costs the runtime and the kubelet something; waiting does not. */
static int on_settled(sd_event_source *source, uint64_t usec, void *userdata) {
        return stops_release(userdata);
}

static int stop_give_slot(Stop *stop) {
        int r;

        stop->has_slot = true;
        stop->stops->n_fresh++;
        r = loop_add_time_relative(stop->stops->event, &stop->settling, CLOCK_MONOTONIC,
                                   SETTLE_USEC, /* accuracy= */ 1000, on_settled, stop);
        return r < 0 ? r : stop_handle_later(stop, STOP_ON_SLOT);
}

int stops_pump(Stops *stops) {
        int r = 0;

        for (Stop *stop = stops->first; r >= 0 && stop && stops->n_fresh < FRESH_MAX;
             stop = stop->next) {
                if (stop->state != STOP_STATE_QUEUED || stop->has_slot || is_taken(stop))
                        continue;

                r = stop_give_slot(stop);
        }

        return r;
}

int stops_release(Stop *stop) {
        if (stop->has_slot) {
                stop->has_slot = false;
                stop->stops->n_fresh--;
                stop->settling = sd_event_source_disable_unref(stop->settling);
        }

        return stops_pump(stop->stops);
}

static void stops_unlink(Stop *stop) {
        Stops *stops = stop->stops;

        if (stops->last == stop)
                stops->last = stop->previous;
        list_remove(&stops->first, stop);
        stops->n_stops--;
}

int stops_remove(Stop *stop) {
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

static int copy_texts(Stop *stop, const StopOptions *options) {
        const struct {
                char **text;
                const char *source;
        } texts[] = {
                { &stop->runtime, options->runtime },
                { &stop->container_id, options->container_id },
                { &stop->owner, options->owner },
                { &stop->cause, options->cause },
                { &stop->pod_address, options->pod_address },
        };

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                if (!texts[i].source)
                        continue;

                *texts[i].text = strdup(texts[i].source);
                if (!*texts[i].text)
                        return -ENOMEM;
        }

        return 0;
}

static int stop_new(Stops *stops, const StopOptions *options, Stop **ret) {
        cleanup(stop_destroy_p) Stop *stop = NULL;
        int r;

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
        r = copy_texts(stop, options);
        if (r < 0)
                return r;

        *ret = take_ptr(stop);
        return 0;
}

/* Such a container cannot be there; and the journal could not name it. */
static int stop_refuse(Stop *stop) {
        int r;

        r = stop_copy_message(stop, "no container can have that ID");
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

StopStep stop_step(const Stop *stop) {
        return steps[stop->state];
}

bool stop_has_begun(const Stop *stop) {
        return stop->has_begun;
}

const char *stop_step_to_string(StopStep step) {
        static const char *const names[_STOP_STEP_MAX] = {
                [STOP_STEP_QUEUED] = "queued",
                [STOP_STEP_WAITING_FOR_RUNTIME] = "waiting-for-runtime",
                [STOP_STEP_WAITING_FOR_KUBELET] = "waiting-for-kubelet",
                [STOP_STEP_LOOKING] = "looking",
                [STOP_STEP_HOOK] = "hook",
                [STOP_STEP_STOPPING] = "stopping",
                [STOP_STEP_ENDED] = "ended",
        };

        return names[step];
}

const char *stop_result_to_string(StopResult result) {
        static const char *const names[_STOP_RESULT_MAX] = {
                [STOP_STOPPED] = "stopped",
                [STOP_GONE] = "gone",
                [STOP_NOT_ASKED] = "not-asked",
                [STOP_FAILED] = "failed",
        };

        return names[result];
}

/* One that its owner has added. */
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

        /* It has begun, before this run of the agent if its owner has not added it in this one:
         * then it may have been its hook already that ended it. */
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
                log_error(stops->log, NULL,
                          "Which containers have been stopped is not known any more: %s.",
                          error_message(&error));
        return 0;
}

/* What has begun is finished, also if nobody asks for it any more: the runtime does not end what
 * ignores SIGTERM once its caller is gone. The owner may add its stop meanwhile, which then waits
 * for this one as for any other of the container. */
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

                stop_resume(stop, record);
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
                .on_stopped = options->on_stopped,
                .userdata = options->userdata,
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
        sd_event_unref(stops->event);
        free(stops);
        return NULL;
}
