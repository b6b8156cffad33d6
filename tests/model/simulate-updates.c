/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Simulated interleavings of updates in place
 *
 *     simulate-updates [--seed N] [--runs N] [--jobs N] [--trace]
 *     simulate-updates --replay RECORDING...
 *
 * Each seed is a run of a small cluster, in which the real commands of agent/kubectl update a workload, while its
 * controllers, kubelets, an autoscaler and other users act, requests and answers get lost, and the commands are killed. It
 * prints the seeds whose runs violate a property; --trace prints each step of a run.
 */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/base/clock.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/rollout-kinds.h"
#include "agent/kubectl/rollout-record.h"
#include "tests/model/tools.h"

#define STORM_STEPS 500
#define CALM_STEPS 4000
#define CALM_SEC 3000
#define SKEW_SEC 8
#define PERSONS_MAX 20 /* runs of people, half of them before all is calm */
#define RETRY_SEC 300  /* the longest pause of a controller after a failure */
#define CONTROLLER "system:serviceaccount:inplaced-system:inplaced"

/* Scenarios */

static Scenario choose_scenario(World *world) {
        static const WorkloadKind kinds[] = { WORKLOAD_DEPLOYMENT, WORKLOAD_DEPLOYMENT,
                                              WORKLOAD_STATEFUL_SET, WORKLOAD_DAEMON_SET,
                                              WORKLOAD_REPLICA_SET };
        static const char *const targets[] = { "r/app:2",     "r/app:2",      "r/app:2",
                                               "r/app:2",     "r/app:3",      "r/app:none",
                                               "r/app:crash", "r/app:unready" };
        Scenario scenario = { .kind = kinds[choose(world, 5)] };
        bool is_daemon_set = scenario.kind == WORKLOAD_DAEMON_SET;

        scenario.n_pods = is_daemon_set ? NODES_MAX : 1 + (int) choose(world, 3);
        scenario.n_containers = happens(world, 75) ? 1 : 2;
        scenario.max_unavailable = 1 + (int) happens(world, 25);
        /* By default a Deployment of up to three pods may have none unavailable. */
        if (scenario.kind == WORKLOAD_DEPLOYMENT && happens(world, 40))
                scenario.max_unavailable = 0;
        scenario.min_ready_sec = happens(world, 15) ? 5 : 0;
        scenario.history_limit = happens(world, 50) ? 10 : (int) choose(world, 3);
        scenario.has_gate = happens(world, 35);
        scenario.has_budget = !is_daemon_set && scenario.n_pods > 1 && happens(world, 25);
        scenario.is_declared = scenario.kind != WORKLOAD_REPLICA_SET && happens(world, 30);
        scenario.is_only = scenario.is_declared && happens(world, 30);
        scenario.has_older = !scenario.is_declared && scenario.kind != WORKLOAD_REPLICA_SET &&
                             happens(world, 30);
        scenario.has_hostile_users = happens(world, 25);
        scenario.has_person = scenario.is_declared && happens(world, 40);
        scenario.has_rival = happens(world, 10);
        scenario.n_edits = (int) choose(world, 4);
        scenario.n_disturbances = happens(world, 30) ? 1 + (int) choose(world, 2) : 0;
        scenario.n_crashes = (int) choose(world, 3);
        scenario.n_losses = (int) choose(world, 3);
        scenario.target = targets[choose(world, sizeof(targets) / sizeof(targets[0]))];
        scenario.is_kept = !scenario.is_declared && scenario.kind != WORKLOAD_REPLICA_SET &&
                           happens(world, 20);
        scenario.n_refusals = (int) choose(world, 3);
        scenario.start = scenario.kind == WORKLOAD_STATEFUL_SET && happens(world, 25) ? 2 : 0;
        scenario.is_parallel = scenario.kind == WORKLOAD_STATEFUL_SET && happens(world, 25);
        if (scenario.kind == WORKLOAD_STATEFUL_SET && !scenario.is_kept && happens(world, 30))
                scenario.partition = 1 + (int) choose(world, 2);
        scenario.is_recreate = scenario.kind == WORKLOAD_DEPLOYMENT && happens(world, 15);
        scenario.has_crashes = happens(world, 15);
        scenario.has_skew = happens(world, 15);
        if (happens(world, 15))
                scenario.webhook = 1 + choose(world, _WEBHOOK_MAX - 1);
        scenario.is_webhook_first = scenario.webhook != WEBHOOK_NONE && happens(world, 40);
        return scenario;
}

static void show_scenario(World *world) {
        static const char *const webhooks[_WEBHOOK_MAX] = {
                [WEBHOOK_NONE] = "",
                [WEBHOOK_INJECTS] = ", injection",
                [WEBHOOK_INJECTS_ALWAYS] = ", injection always",
                [WEBHOOK_MIRRORS] = ", mirror",
                [WEBHOOK_MIRRORS_ALWAYS] = ", mirror always",
                [WEBHOOK_DENIES] = ", denials",
        };
        const Scenario *scenario = &world->scenario;

        note(world,
             "%s of %d pods with %d containers, maxUnavailable %d, partition %d, minReadySeconds %d, %d revisions%s%s%s%s%s%s%s%s%s%s%s%s%s%s, to %s",
             workload_kind_to_string(scenario->kind), scenario->n_pods, scenario->n_containers,
             scenario->max_unavailable, scenario->partition, scenario->min_ready_sec,
             scenario->history_limit, scenario->has_gate ? ", gate" : "",
             scenario->has_budget ? ", budget" : "", scenario->has_older ? ", history" : "",
             scenario->is_only       ? ", declared only in place"
             : scenario->is_declared ? ", declared"
                                     : "",
             scenario->is_kept ? ", kept" : "",
             scenario->has_hostile_users ? ", hostile users" : "",
             scenario->start > 0 ? ", ordinals from 2" : "",
             scenario->is_parallel ? ", parallel" : "", scenario->is_recreate ? ", Recreate" : "",
             scenario->has_rival ? ", two runs" : "", scenario->has_crashes ? ", crashes" : "",
             scenario->has_skew ? ", skew" : "", webhooks[scenario->webhook],
             scenario->is_webhook_first ? " from the beginning" : "", scenario->target);
}

/* Commands of people */

typedef struct Run {
        World world;
        size_t n_persons; /* runs of people */
        Tool *controller; /* NULL: none runs */
        bool has_second;  /* a second controller has taken over from one that does not end */
} Run;

/* The controllers of revisions replace pods after a release, and so does one that admission has held. */
static void excuse_release(World *world) {
        world->judge.is_excused =
                world->judge.is_excused || world->scenario.is_declared || has_revisions(world);
}

static void start(Run *run, const Command *command) {
        if (run->n_persons == PERSONS_MAX)
                return;
        if (command->release)
                excuse_release(&run->world);
        note(&run->world, "%s runs %s%s%s%s", command->user,
             command->verb == COMMAND_OF_SET_IMAGE ? "set image " : "rollout",
             command->image ? command->image : "", command->undo ? " --undo" : "",
             command->release ? " --release" : "");
        run->n_persons++;
        (void) tool_start(&run->world, command);
}

static void start_controller(Run *run) {
        note(&run->world, "a controller begins");
        run->controller = tool_start(&run->world, &(Command){ .verb = COMMAND_OF_CONTROLLER,
                                                              .user = CONTROLLER });
}

/* The node of the controller hangs, another controller leads, and the first one goes on where it was. */
static void freeze_controller(Run *run) {
        World *world = &run->world;

        note(world, "the controller and its runs freeze");
        tool_freeze(run->controller, world->now_sec + 30 + choose(world, 60));
        run->has_second = true;
        start_controller(run);
}

static void start_first(Run *run) {
        const Scenario *scenario = &run->world.scenario;
        bool follows = scenario->is_kept && happens(&run->world, 60);
        const Command command = { .verb = follows ? COMMAND_OF_ROLLOUT : COMMAND_OF_SET_IMAGE,
                                  .user = "alice",
                                  .image = follows ? NULL : scenario->target,
                                  .first = happens(&run->world, 10) ? "1" : NULL };

        if (scenario->is_declared) {
                start_controller(run);
                if (!scenario->has_person) {
                        user_set_image(&run->world, scenario->target);
                        return;
                }
        }
        if (follows)
                user_set_image(&run->world, scenario->target);
        start(run, &command);
        if (scenario->has_rival)
                start(run, &command);
}

static size_t count_alive(const Run *run) {
        size_t n = 0;

        for (size_t i = 0; i < run->world.n_tools; i++)
                n += !tool_has_ended(run->world.tools[i]) &&
                     !tool_is_controller(run->world.tools[i]);
        return n;
}

/* Another person, or the same, goes on in some way. */
static void start_next(Run *run) {
        World *world = &run->world;
        bool is_alice = happens(world, 60);
        Command command = { .verb = COMMAND_OF_ROLLOUT,
                            .user = is_alice ? "alice" : "bob",
                            .take_over = !is_alice };

        switch (choose(world, 6)) {
        case 0: command.undo = true; break;
        case 1: command.release = happens(world, 30); break;
        case 2:
                command.verb = COMMAND_OF_SET_IMAGE;
                command.image = happens(world, 50) ? world->scenario.target : "r/app:3";
                break;
        default: break;
        }
        if (run->n_persons > PERSONS_MAX / 2)
                return;
        /* A user who releases an update runs nothing else for it. */
        if (command.release && count_alive(run) > 0) {
                command.user = "dave";
                command.take_over = true;
        }
        start(run, &command);
}

/* Steps */

static bool step_tools(Run *run) {
        World *world = &run->world;
        size_t first = world->n_tools ? choose(world, (uint32_t) world->n_tools) : 0;

        for (size_t i = 0; i < world->n_tools; i++) {
                Tool *tool = world->tools[(first + i) % world->n_tools];

                if (tool_is_due(tool)) {
                        tool_step(tool);
                        return true;
                }
        }
        return false;
}

static bool step_kubelets(World *world) {
        size_t n = world->n_runtimes, first = n ? choose(world, (uint32_t) n) : 0;

        for (size_t i = 0; i < n; i++)
                if (kubelet_step(world, &world->runtimes[(first + i) % n]))
                        return true;
        return false;
}

static bool step_part(Run *run, uint32_t part) {
        return part == 0   ? step_tools(run)
               : part == 1 ? manager_step(&run->world)
                           : step_kubelets(&run->world);
}

static bool step_any(Run *run) {
        static const uint8_t order[] = { 0, 0, 1, 1, 2 };
        uint32_t first = order[choose(&run->world, sizeof(order))];

        run->world.n_steps++;
        for (uint32_t i = 0; i < 3; i++)
                if (step_part(run, (first + i) % 3))
                        return true;
        return false;
}

static void pass_time(World *world, int64_t sec) {
        world->now_sec += sec;
        if (world->scenario.min_ready_sec > 0)
                manager_touch(world);
        if (nodes_are_due(world))
                nodes_step(world);
        user_drain(world);
}

static void change_webhook(World *world, bool is_there) {
        if (world->has_webhook != is_there)
                note(world, "a webhook is %s", is_there ? "there" : "gone");
        world->has_webhook = is_there;
}

/* Edits and disturbances */
static void step_outside(Run *run) {
        World *world = &run->world;
        Scenario *scenario = &world->scenario;

        if (scenario->n_edits > 0 && happens(world, 2)) {
                scenario->n_edits--;
                user_edit(world);
        }
        if (scenario->n_disturbances > 0 && happens(world, 1)) {
                scenario->n_disturbances--;
                user_disturb(world);
        }
        if (scenario->has_crashes && world->n_runtimes > 0 && happens(world, 5))
                runtime_crash_old(world,
                                  &world->runtimes[choose(world, (uint32_t) world->n_runtimes)]);
        for (int i = 0; i < NODES_MAX; i++)
                if (world->nodes[i].lost_sec != NEVER && happens(world, 1))
                        node_return(world, i);
        if (world->is_full && happens(world, 1))
                cluster_make_room(world);
        if (scenario->webhook != WEBHOOK_NONE && happens(world, 1))
                change_webhook(world, !world->has_webhook);
        if (scenario->is_declared && scenario->n_crashes > 0 && happens(world, 1)) {
                scenario->n_crashes--;
                tool_kill(run->controller);
        }
        if (scenario->is_declared && scenario->has_rival && !run->has_second && happens(world, 1))
                freeze_controller(run);
        if (run->controller && tool_has_ended(run->controller) && happens(world, 20))
                start_controller(run);
        if (happens(world, 3))
                pass_time(world, 1);
}

static void storm(Run *run) {
        World *world = &run->world;
        unsigned n_changes = 0;
        int n_idle = 0;

        for (int n = 0; n < STORM_STEPS && n_idle < 6 && !world->judge.failure[0]; n++) {
                step_outside(run);
                if (world->scenario.has_rival && happens(world, 1) &&
                    (!world->scenario.is_declared || world->scenario.has_person))
                        start_next(run);
                if (!world->scenario.is_declared && count_alive(run) == 0) {
                        if (run->n_persons > 3 || happens(world, 40))
                                break;
                        start_next(run);
                }
                if (step_any(run))
                        continue;
                n_idle = n_changes == world->n_changes ? n_idle + 1 : 0;
                n_changes = world->n_changes;
                pass_time(world, (int64_t) 1 << (n_idle < 3 ? 2 * n_idle : 6));
        }
}

/* Nothing happens from outside any more, until nothing is left to do. */
static void calm_down(Run *run) {
        World *world = &run->world;
        int64_t end_sec = world->now_sec + CALM_SEC;
        unsigned n_changes = 0;
        int n_idle = 0;

        for (int n = 0; n < CALM_STEPS && !world->judge.failure[0]; n++) {
                if (step_any(run))
                        continue;
                judge_quiet(world);
                judge_idle(world);
                n_idle = n_changes == world->n_changes ? n_idle + 1 : 0;
                n_changes = world->n_changes;
                if (world->now_sec > end_sec || (count_alive(run) == 0 && n_idle > 3))
                        return;
                pass_time(world, (int64_t) 1 << (n_idle < 3 ? 2 * n_idle : 6));
        }
}

static bool is_held_or_open(Run *run) {
        World *world = &run->world;
        cleanup(json_object_put_p) json_object *record = NULL;

        return workload_record(world, &record) ||
               annotation_of(api_workload(world), HELD_ANNOTATION);
}

/* The pods cannot get in place what the template has. */
static bool is_kept_only(Run *run) {
        World *world = &run->world;

        return run->controller && !world->judge.failure[0] &&
               text_equal(annotation_of(api_workload(world), UPDATE_ANNOTATION), UPDATE_ONLY) &&
               workload_held(api_workload(world)) &&
               workload_is_held(world->scenario.kind, api_workload(world));
}

/* Pods of a workload that its users hold are not at its template. */
static bool is_behind(Run *run) {
        World *world = &run->world;
        const char *image = template_image(GET(api_workload(world), "spec", "template"), "app");

        for (size_t i = 0; world->judge.is_kept && i < world->items[PODS].n; i++) {
                json_object *pod = world->items[PODS].items[i];

                if (!object_is_deleted(pod) && !pod_has_ended(pod) && image_is_good(image) &&
                    !image_is_same(world, template_image(pod, "app"), image))
                        return true;
        }
        return false;
}

/* The way back to an image that does not start ends only so, and its pods keep it. */
static bool is_stuck(Run *run) {
        cleanup(json_object_put_p) json_object *record = NULL;

        return workload_record(&run->world, &record) && json_is(record, "state", "undo") &&
               !image_is_good(json_get_text(record_images(record, true), "app"));
}

/* Ends what is open, as a person would. */
static void finish_by_hand(Run *run) {
        static const Command ways[] = {
                { .verb = COMMAND_OF_ROLLOUT, .user = "carol", .take_over = true },
                { .verb = COMMAND_OF_ROLLOUT, .user = "carol", .take_over = true, .undo = true },
                /* The undo of an update that had ended has no way back but this. */
                { .verb = COMMAND_OF_SET_IMAGE,
                  .user = "carol",
                  .take_over = true,
                  .image = "r/app:1" },
                { .verb = COMMAND_OF_ROLLOUT, .user = "carol", .take_over = true },
        };
        size_t first = image_is_good(run->world.scenario.target) ? 0 : 1;

        for (size_t i = first;
             i < sizeof(ways) / sizeof(ways[0]) && (is_held_or_open(run) || is_behind(run)); i++) {
                start(run, &ways[i]);
                calm_down(run);
        }
        if (is_stuck(run)) {
                start(run, &(Command){ .verb = COMMAND_OF_ROLLOUT,
                                       .user = "carol",
                                       .take_over = true,
                                       .release = true });
                calm_down(run);
        }
}

/* A pod that was away during an update, and is back, has the images before. As the manual page says, the same images again
 * bring them to it. A run says the same of a pod that another one, which had hung, has written after the end. */
static void update_returned(Run *run) {
        World *world = &run->world;
        const char *image = template_image(GET(api_workload(world), "spec", "template"), "app");

        if (!(world->judge.has_returned || judge_has_named(world)) || !image_is_good(image) ||
            is_held_or_open(run))
                return;
        start(run, &(Command){ .verb = COMMAND_OF_SET_IMAGE, .user = "carol", .image = image });
        calm_down(run);
}

static void finish(Run *run) {
        World *world = &run->world;

        note(world, "all is calm from now on");
        world->is_calm = true;
        for (int i = 0; i < NODES_MAX; i++)
                node_return(world, i);
        cluster_make_room(world);
        change_webhook(world, world->has_webhook && world->scenario.webhook == WEBHOOK_INJECTS);
        user_free_pods(world);
        user_free_budget(world);
        if (!api_workload(world))
                user_make_anew(world);
        if (run->controller &&
            (tool_has_ended(run->controller) || tool_was_killed(run->controller)))
                start_controller(run);
        calm_down(run);
        if (world->scenario.has_person)
                finish_by_hand(run);
        if (run->controller && is_held_or_open(run)) {
                user_free_partition(world);
                user_set_image(world, "r/app:1");
                calm_down(run);
        }
        /* A template that already had this image begins no other run. */
        if (run->controller && is_held_or_open(run)) {
                pass_time(world, RETRY_SEC);
                calm_down(run);
        }
        if (world->scenario.has_person)
                finish_by_hand(run);
        if (!run->controller || !workload_is_declared(api_workload(world)))
                finish_by_hand(run);
        update_returned(run);
        if (has_revisions(world) && is_behind(run)) {
                user_restart_lost(world);
                calm_down(run);
        }
        if (is_kept_only(run)) {
                judge_kept_only(world);
                user_allow_ordinary(world);
                pass_time(world, RETRY_SEC);
                calm_down(run);
        }
        if (!world->judge.failure[0])
                judge_end(world);
}

/* Returns whether all properties hold. */
static bool simulate(uint64_t seed, FILE *trace, FILE *out, uint64_t *n_steps) {
        Run *run = calloc(1, sizeof(*run));
        World *world = &run->world;
        bool is_good;

        world->seed = world->random = seed;
        world->random *= UINT64_C(0xd1342543de82ef95);
        world->scenario = choose_scenario(world);
        world->trace = trace;
        cluster_make(world);
        for (int i = 0; world->scenario.has_skew && i < NODES_MAX; i++)
                world->nodes[i].skew_sec = (int) choose(world, 2 * SKEW_SEC + 1) - SKEW_SEC;
        show_scenario(world);
        start_first(run);
        storm(run);
        finish(run);
        tools_done(world);
        is_good = !world->judge.failure[0];
        if (!is_good)
                fprintf(out, "seed %" PRIu64 ": %s\n", seed, world->judge.failure);
        *n_steps += world->n_steps;
        for (size_t i = 0; i < world->n_runtimes; i++)
                json_object_put(world->runtimes[i].seen);
        free(world->judge.foreign_image);
        free(world->judge.failed_image);
        api_done(world);
        free(run);
        return is_good;
}

/* The command line */

typedef struct Options {
        uint64_t seed, n_runs, n_jobs;
        bool has_trace;
} Options;

static void parse(int argc, char **argv, Options *options) {
        *options = (Options){ .seed = 1, .n_runs = 1, .n_jobs = 1 };
        for (int i = 1; i < argc; i++) {
                uint64_t number = i + 1 < argc ? strtoull(argv[i + 1], NULL, 10) : 0;

                if (strcmp(argv[i], "--trace") == 0)
                        options->has_trace = true;
                else if (strcmp(argv[i], "--seed") == 0)
                        options->seed = number;
                else if (strcmp(argv[i], "--runs") == 0)
                        options->n_runs = number;
                else if (strcmp(argv[i], "--jobs") == 0)
                        options->n_jobs = number;
        }
}

/* The tools print as always; only a trace shows it. */
static FILE *take_output(const Options *options) {
        FILE *out = fdopen(dup(STDOUT_FILENO), "w");
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

        setvbuf(out, NULL, _IOLBF, 0);
        dup2(null, STDOUT_FILENO);
        if (!options->has_trace)
                dup2(null, STDERR_FILENO);
        close(null);
        return out;
}

static uint64_t run_share(const Options *options, uint64_t job, FILE *out) {
        uint64_t n_bad = 0, n_steps = 0;
        int64_t begin_nsec = clock_nsec(CLOCK_MONOTONIC);
        double sec;

        for (uint64_t i = job; i < options->n_runs && n_bad < 20; i += options->n_jobs)
                n_bad += !simulate(options->seed + i, options->has_trace ? out : NULL, out,
                                   &n_steps);
        sec = (double) (clock_nsec(CLOCK_MONOTONIC) - begin_nsec) / 1e9;
        fprintf(out, "%" PRIu64 " runs of %" PRIu64 " steps in %.1f s, %" PRIu64 " bad\n",
                options->n_runs / options->n_jobs, n_steps, sec, n_bad);
        return n_bad;
}

static int replay_all(char **paths) {
        bool is_good = *paths;

        for (; *paths; paths++)
                is_good = replay_recording(*paths, stdout) && is_good;
        return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
        Options options;
        FILE *out;
        int status = 0, child;

        if (argc > 1 && strcmp(argv[1], "--replay") == 0)
                return replay_all(argv + 2);
        parse(argc, argv, &options);
        (void) json_global_set_string_hash(JSON_C_STR_HASH_PERLLIKE);
        out = take_output(&options);
        for (uint64_t job = 1; job < options.n_jobs; job++)
                if (fork() == 0)
                        return run_share(&options, job, out) > 0;
        status = run_share(&options, 0, out) > 0;
        while (wait(&child) > 0)
                status = status || child != 0;
        return status;
}
