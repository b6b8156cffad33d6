/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/probe/probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"

#define ACCURACY_USEC ((uint64_t) 50 * 1000)
#define REDIRECTS_MAX 10
#define USER_AGENT "kube-probe/inplaced"

/* Number of equal results in a row. */
typedef struct Count {
        ProbeState state;
        unsigned n;
} Count;

struct Probe {
        ProbeOptions options;
        ProbeSpec spec;

        char *container_id; /* ID of the last known container; NULL: none */
        void *tag;
        bool is_running;
        uint64_t running_usec; /* begin of that, as far as the agent has seen */
        int64_t created_sec;
        uint64_t seen_usec; /* begin of the last complete list */

        Timer due;
        uint64_t due_usec;
        bool is_begun;    /* the initial delay is over */
        Handler *handler; /* running handler */
        Place place;      /* place of the handler */
        uint64_t started_usec;
        uint64_t duration_usec;
        uint64_t n_runs;
        Count count;

        ProbeResult candidate; /* result that waits for a list, if ended_usec is not 0 */
        uint64_t ended_usec;

        bool has_result;
        ProbeResult result;
        bool is_former; /* the result may be of another container */
        char *problem;
};

/* Results */

static int64_t now_sec(void) {
        return (int64_t) time(NULL);
}

/* Takes the message over. */
static int probe_record(Probe *probe, ProbeResult *by) {
        ProbeState before = probe->has_result ? probe->result.state : PROBE_UNKNOWN;
        bool is_transition = !probe->has_result || before != by->state;

        by->probe_sec = now_sec();
        by->transition_sec = is_transition ? by->probe_sec : probe->result.transition_sec;
        free(probe->result.message);
        probe->result = *by;
        *by = (ProbeResult){ .message = NULL };
        probe->has_result = true;
        probe->is_former = false;
        return probe->options.on_recorded(probe, before, probe->options.userdata);
}

static bool is_known(const Probe *probe, ProbeState state, const char *message) {
        return probe->has_result && !probe->is_former && probe->result.state == state &&
               text_equal(probe->result.message, message);
}

/* Records a result that follows from the container's state. */
static int probe_record_text(Probe *probe, ProbeState state, const char *message) {
        ProbeResult result = { .state = state };
        int r;

        if (is_known(probe, state, message))
                return 0;

        r = probe_result_set_message(&result, message, strlen(message));
        return r < 0 ? r : probe_record(probe, &result);
}

/* Logs a problem once as long as it lasts, since runtimes put the IDs of their attempts into the
 * reasons. A runtime that does not answer in time has not ended the problem. */
static int probe_set_problem(Probe *probe, const char *why) {
        if (why && !probe->problem)
                log_warning(probe->options.log, NULL,
                            "Cannot run probe \"%s\" of container \"%s\" of pod \"%s/%s\": %s.",
                            probe->spec.name, probe->spec.container, probe->spec.namespace,
                            probe->spec.pod, why);
        return text_set(&probe->problem, why);
}

/* Runs */

static int probe_schedule(Probe *probe, uint64_t usec) {
        probe->due_usec = usec;
        return timer_start_at(&probe->due, usec);
}

static uint64_t period_usec(const Probe *probe) {
        return probe->spec.period_sec * USEC_PER_SEC;
}

/* Drops the count, which belongs to another container or handler. */
static void probe_forget_runs(Probe *probe) {
        timer_stop(&probe->due);
        probe->handler = handler_free(probe->handler);
        place_release(&probe->place);
        probe->count = (Count){ .n = 0 };
        probe->ended_usec = 0;
        probe_result_done(&probe->candidate);
}

/* An unknown result keeps its first reason. A time to come is of a clock that was set back since. */
static bool is_worth_recording(const Probe *probe, const ProbeResult *candidate) {
        bool is_still_unknown = probe->has_result && candidate->state == PROBE_UNKNOWN &&
                                probe->result.state == PROBE_UNKNOWN && probe->result.message[0];
        int64_t age_sec = now_sec() - probe->result.probe_sec;

        if (!is_still_unknown && !is_known(probe, candidate->state, candidate->message))
                return true;

        return age_sec < 0 || age_sec >= PROBE_REFRESH_SEC;
}

static int64_t threshold(const Probe *probe, ProbeState state) {
        return state == PROBE_SUCCEEDED ? probe->spec.success_threshold
                                        : probe->spec.failure_threshold;
}

static bool probe_count(Probe *probe, ProbeState state) {
        if (probe->count.state != state)
                probe->count = (Count){ .state = state };
        if (probe->count.n < UINT32_MAX)
                probe->count.n++;
        return probe->count.n >= threshold(probe, state);
}

/* The words of kruise-daemon, which controllers copy into conditions. */
static int format_exec(const Probe *probe, const HandlerResult *from, char **ret) {
        cleanup(free_p) char *command = NULL;
        size_t size = 1;
        char *to;

        if (!from->error || from->error->kind != ERROR_TIMEOUT)
                return text_format(ret, "%.*s", (int) from->output_size, from->output ?: "");

        for (char **argument = probe->spec.handler.command; *argument; argument++)
                size += strlen(*argument) + 1;
        to = command = malloc(size);
        if (!command)
                return -ENOMEM;

        *to = '\0';
        for (char **argument = probe->spec.handler.command; *argument; argument++)
                to = stpcpy(to != command ? stpcpy(to, " ") : to, *argument);
        return text_format(ret, "command timed out: \"%s\" timed out after %llds", command,
                           (long long) probe->spec.timeout_sec);
}

static int format_http(const HandlerResult *from, char **ret) {
        int size = (int) from->output_size;

        if (from->outcome == HANDLER_SUCCEEDED && from->status >= 300)
                return text_format(ret, "Probe terminated redirects, Response body: %.*s", size,
                                   from->output ?: "");
        if (from->outcome == HANDLER_SUCCEEDED)
                return text_format(ret, "%.*s", size, from->output ?: "");
        if (from->status != 0 && (from->status < 200 || from->status > 399))
                return text_format(ret, "HTTP probe failed with statuscode: %d", from->status);

        return text_copy(error_message(from->error), ret);
}

static int probe_format(const Probe *probe, const HandlerResult *from, char **ret) {
        if (from->outcome == HANDLER_UNKNOWN)
                return text_copy(error_message(from->error), ret);

        switch (probe->spec.handler.kind) {
        case HANDLER_EXEC: return format_exec(probe, from, ret);
        case HANDLER_HTTP: return format_http(from, ret);
        default: break;
        }

        return text_copy(from->error ? error_message(from->error) : "", ret);
}

/* Makes a result of the handler's; the message of *ret is owned. */
static int probe_read(const Probe *probe, const HandlerResult *from, ProbeResult *ret) {
        static const ProbeState states[_HANDLER_OUTCOME_MAX] = {
                [HANDLER_SUCCEEDED] = PROBE_SUCCEEDED,
                [HANDLER_FAILED] = PROBE_FAILED,
                [HANDLER_UNKNOWN] = PROBE_UNKNOWN,
        };
        ProbeResult result = { .state = states[from->outcome] };
        cleanup(free_p) char *text = NULL;
        int r;

        r = probe_format(probe, from, &text);
        if (r >= 0)
                r = probe_result_set_message(&result, text, strlen(text));
        if (r >= 0)
                *ret = result;
        return r;
}

static int on_handled(const HandlerResult *from, void *userdata) {
        Probe *probe = userdata;
        cleanup(probe_result_done) ProbeResult result = { .message = NULL };
        bool has_new_state, is_late, is_counted;
        int r;

        probe->duration_usec = clock_monotonic_usec() - probe->started_usec;
        probe->n_runs++;
        probe->options.on_run(probe, from->outcome, probe->options.userdata);
        is_late = from->error && from->error->kind == ERROR_TIMEOUT;
        r = probe_read(probe, from, &result);
        probe->handler = handler_free(probe->handler);
        place_release(&probe->place);
        if (r >= 0 && !is_late)
                r = probe_set_problem(probe, result.state == PROBE_UNKNOWN ? result.message : NULL);
        if (r < 0)
                return r;

        is_counted = probe_count(probe, result.state);
        /* Lists may take longer than a period: the next one confirms it yet. */
        if (probe->ended_usec > 0 && probe->candidate.state == result.state)
                return 0;
        probe->ended_usec = 0;
        probe_result_done(&probe->candidate);
        if (!is_counted || !is_worth_recording(probe, &result))
                return 0;

        has_new_state = !probe->has_result || probe->result.state != result.state;
        probe->candidate = result;
        result = (ProbeResult){ .message = NULL };
        probe->ended_usec = clock_monotonic_usec();
        return probe->options.on_candidate(has_new_state, probe->options.userdata);
}

/* The time limit begins now, after any wait for a place. */
static int probe_run(void *userdata) {
        Probe *probe = userdata;
        const HandlerOptions options = {
                .event = probe->options.event,
                .spec = &probe->spec.handler,
                .client = probe->options.find_client(probe, probe->options.userdata),
                .container_id = probe->container_id,
                .http = probe->options.http,
                .address = probe->options.find_address(probe, probe->options.userdata),
                .user_agent = USER_AGENT,
                .redirects_max = REDIRECTS_MAX,
                .timeout_usec = probe->spec.timeout_sec * USEC_PER_SEC,
                .on_done = on_handled,
                .userdata = probe,
        };

        probe->started_usec = clock_monotonic_usec();
        return handler_run(&options, &probe->handler);
}

static int probe_run_in_turn(Probe *probe) {
        int r;

        r = place_take(&probe->place, probe->options.places, probe->spec.uid, probe_run, probe);
        return r > 0 ? probe_run(probe) : r;
}

/* Returns the rest of the initial delay: since the container's start, if the kubelet has reported
 * it, else since its creation, which was earlier; at the latest since it was seen running, because the clock of
 * the node may have been set back. */
static uint64_t initial_rest_usec(const Probe *probe) {
        int64_t since_sec = probe->options.find_started_sec(probe, probe->options.userdata);
        int64_t age_sec = now_sec() - (since_sec > 0 ? since_sec : probe->created_sec);
        int64_t seen_sec =
                (int64_t) ((clock_monotonic_usec() - probe->running_usec) / USEC_PER_SEC);
        int64_t rest_sec =
                probe->spec.initial_delay_sec - (age_sec > seen_sec ? age_sec : seen_sec);

        return rest_sec > 0 ? (uint64_t) rest_sec * USEC_PER_SEC : 0;
}

/* A probe that takes longer than its period misses a turn. The kubelet may have reported the start only since
 * the probe was scheduled. */
static int on_due(void *userdata) {
        Probe *probe = userdata;
        uint64_t now = clock_monotonic_usec(), next = probe->due_usec + period_usec(probe);
        uint64_t rest = probe->is_begun ? 0 : initial_rest_usec(probe);
        int r;

        if (rest > 0)
                return probe_schedule(probe, now + rest);

        probe->is_begun = true;
        r = probe_schedule(probe, next > now ? next : now + period_usec(probe));
        return r < 0 || probe->handler || place_is_waiting(&probe->place)
                       ? r
                       : probe_run_in_turn(probe);
}

/* Schedules the first run, after the initial delay. */
static int probe_begin(Probe *probe) {
        uint64_t now = clock_monotonic_usec(), delay = probe->options.first_delay_usec;
        uint64_t rest = initial_rest_usec(probe);

        probe->options.first_delay_usec = 0;
        probe->is_begun = false;
        if (probe->spec.refusal)
                return probe_record_text(probe, PROBE_UNKNOWN, probe->spec.refusal);
        return probe_schedule(probe, now + (rest > delay ? rest : delay));
}

/* Lists */

static void probe_forget_container(Probe *probe) {
        probe->container_id = (free(probe->container_id), NULL);
        probe->is_running = false;
}

static int probe_on_gone(Probe *probe) {
        probe_forget_runs(probe);
        probe_forget_container(probe);
        return probe->has_result && probe->result.state != PROBE_UNKNOWN
                       ? probe_record_text(probe, PROBE_UNKNOWN, "the container is gone")
                       : 0;
}

/* A result that was written since the container was made counts as this container's: the status
 * does not name containers. */
static int probe_on_new_container(Probe *probe, const RuntimeContainer *container) {
        int r;

        probe_forget_runs(probe);
        probe->created_sec = container->created_at_nsec / NSEC_PER_SEC;
        probe->is_running = false;
        r = text_set(&probe->container_id, container->id);
        if (r < 0)
                return r;

        if (probe->is_former && probe->result.probe_sec > probe->created_sec) {
                probe->is_former = false;
                return 0;
        }

        return probe_record_text(probe, PROBE_UNKNOWN, "");
}

static int probe_on_stopped(Probe *probe) {
        cleanup(free_p) char *text = NULL;

        probe_forget_runs(probe);
        probe->is_running = false;
        if (text_format(&text, "Container(%s) is Non-running", probe->spec.container) < 0)
                return -ENOMEM;

        return probe_record_text(probe, PROBE_FAILED, text);
}

static int probe_on_running(Probe *probe, uint64_t usec) {
        if (!probe->is_running) {
                probe->is_running = true;
                probe->running_usec = clock_monotonic_usec();
                return probe_begin(probe);
        }
        if (probe->ended_usec == 0 || usec < probe->ended_usec)
                return 0;

        probe->ended_usec = 0;
        return probe_record(probe, &probe->candidate);
}

int probe_on_listed(Probe *probe, const RuntimeContainer *container, void *tag, uint64_t usec) {
        int r;

        probe->seen_usec = usec;
        if (!container)
                return probe_on_gone(probe);

        probe->tag = tag;
        if (!text_equal(probe->container_id, container->id)) {
                r = probe_on_new_container(probe, container);
                if (r < 0)
                        return r;
        }

        if (container->is_running)
                return probe_on_running(probe, usec);

        return container->is_exited ? probe_on_stopped(probe) : 0;
}

int probe_on_unlisted(Probe *probe, const char *why) {
        if (!probe->has_result || probe->result.state == PROBE_UNKNOWN ||
            clock_monotonic_usec() - probe->seen_usec < PROBE_UNSEEN_USEC)
                return 0;

        return probe_record_text(probe, PROBE_UNKNOWN, why);
}

/* Life cycle */

int probe_new(const ProbeOptions *options, ProbeSpec *spec, ProbeResult *known, Probe **ret) {
        Probe *probe = malloc(sizeof(*probe));

        if (!probe) {
                probe_spec_done(spec);
                if (known)
                        probe_result_done(known);
                return -ENOMEM;
        }

        *probe = (Probe){
                .options = *options,
                .spec = *spec,
                .seen_usec = clock_monotonic_usec(),
                .has_result = known,
                .is_former = known,
        };
        *spec = (ProbeSpec){ .namespace = NULL };
        if (known) {
                probe->result = *known;
                *known = (ProbeResult){ .message = NULL };
        }
        timer_init(&probe->due, options->event, ACCURACY_USEC, on_due, probe);
        *ret = probe;
        return 0;
}

Probe *probe_free(Probe *probe) {
        if (!probe)
                return NULL;

        probe_forget_runs(probe);
        timer_done(&probe->due);
        probe_result_done(&probe->result);
        probe_spec_done(&probe->spec);
        free(probe->container_id);
        free(probe->problem);
        free(probe);
        return NULL;
}

int probe_set_spec(Probe *probe, ProbeSpec *spec) {
        bool is_same = probe_spec_runs_the_same(&probe->spec, spec);
        bool is_of_another = !text_equal(probe->spec.container, spec->container);
        bool is_paced_the_same = probe->spec.period_sec == spec->period_sec &&
                                 probe->spec.initial_delay_sec == spec->initial_delay_sec;
        int r;

        probe_spec_done(&probe->spec);
        probe->spec = *spec;
        *spec = (ProbeSpec){ .namespace = NULL };
        if (is_same && is_paced_the_same)
                return 0;

        if (!is_same) {
                probe_forget_runs(probe);
                if (is_of_another) /* which only a list finds */
                        probe_forget_container(probe);
                r = probe_set_problem(probe, NULL);
                if (r >= 0 && probe->has_result)
                        r = probe_record_text(probe, PROBE_UNKNOWN, "");
                if (r < 0)
                        return r;
        }

        return probe->is_running ? probe_begin(probe) : 0;
}

const ProbeSpec *probe_spec(const Probe *probe) {
        return &probe->spec;
}

const char *probe_container_id(const Probe *probe) {
        return probe->container_id;
}

void *probe_tag(const Probe *probe) {
        return probe->tag;
}

const ProbeResult *probe_result(const Probe *probe) {
        return probe->has_result ? &probe->result : NULL;
}

ProbeActivity probe_activity(const Probe *probe) {
        return (ProbeActivity){
                .n_runs = probe->n_runs,
                .duration_usec = probe->duration_usec,
                .problem = probe->spec.refusal ?: probe->problem,
        };
}
