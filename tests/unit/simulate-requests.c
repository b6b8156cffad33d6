/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Simulated interleavings of restart requests
 *
 *     simulate-requests [--seed N] [--runs N] [--trace]
 *
 * Each seed is a run of one node: the agent's real code serves ContainerRecreateRequests, while a kubelet starts and
 * removes containers, these end by themselves, calls are answered in any order, or refused, or their answers get lost,
 * API server and runtime go and come back, and the agent dies at any moment. In the end all is calm for an hour. These
 * hold for each run:
 *
 * - No request stops containers of one name twice.
 * - A request without forceRecreate stops only the container that its statusContext names.
 * - The journal names the request of each stop before the runtime stops the container.
 * - The preStop hook of a container runs once.
 * - Once all is calm, each request is completed, and no stop is under way, in the agent or in its journal; no container
 *   runs that a request has stopped by the journal.
 *
 * It names the seeds of the runs in which one of them does not; --trace prints each step of a run, and the agent's log.
 * A seed is a run of this version of the program alone.
 */

#include <inttypes.h>
#include <sys/random.h>
#include <sys/wait.h>

#include "agent/base/time-units.h"
#include "agent/pod/stop-journal.h"
#include "tests/unit/recreate-node.h"

#define REQUESTS_MAX 6
#define CALM_USEC (3600 * SEC)
#define SCHEME "containerd://"
#define OWNER "recreate/u-r" /* owner of a request's stops, without its number */

static struct Simulation {
        uint64_t random;
        bool has_trace, is_calm;
        bool is_server_away;
        bool is_pod_outdated; /* the server does not have it as it is */
        struct {
                char id[24]; /* with its scheme */
                bool has_hooked;
        } containers[FAKE_CONTAINERS_MAX]; /* in the order of those of the runtime */
        struct {
                bool is_forced;
                const char *named[2]; /* containers of its statusContext; NULL: none */
                bool has_stopped[2];
        } requests[REQUESTS_MAX];
} simulation;

DEFINE_CLEANUP(StopJournal *, stop_journal_free)

/* Choices and clocks, which are the same in each run of a seed */

static uint32_t choose(uint32_t n) {
        uint64_t *random = &simulation.random;

        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        return (uint32_t) ((*random >> 11) % n);
}

static bool happens(uint32_t percent) {
        return choose(100) < percent;
}

ssize_t getrandom(void *data, size_t size, unsigned flags) {
        for (size_t i = 0; i < size; i++)
                ((uint8_t *) data)[i] = (uint8_t) choose(256);
        return (ssize_t) size;
}

static int64_t wall_usec(void) {
        return (int64_t) ((CREATED_SEC + 1000) * SEC + fake_clock.now_usec - FAKE_CLOCK_START_USEC);
}

int clock_gettime(clockid_t clock, struct timespec *ret) {
        *ret = (struct timespec){ .tv_sec = wall_usec() / USEC_PER_SEC,
                                  .tv_nsec = wall_usec() % USEC_PER_SEC * 1000 };
        return 0;
}

time_t time(time_t *ret) {
        return wall_usec() / USEC_PER_SEC;
}

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void note(const char *format, ...) {
        va_list arguments;

        if (!simulation.has_trace)
                return;

        va_start(arguments, format);
        fprintf(stderr, "%9.3f ",
                (double) (fake_clock.now_usec - FAKE_CLOCK_START_USEC) / (double) SEC);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
        va_end(arguments);
}

/* The agent does what it can do at once. */
static void turn(void) {
        unsigned n_hooked = 0;

        fake_kube.server_usec = wall_usec();
        fake_clock_turn(fake_kube.event);
        for (size_t i = 0; i < node.n_containers; i++) {
                const char *id = simulation.containers[i].id + strlen(SCHEME);

                for (size_t k = 0; k < fake_runtime.n_calls; k++) {
                        const RpcCall *call = &fake_runtime.calls[fake_runtime.order[k]];

                        if (strcmp(call->method, "ExecSync") == 0 && strcmp(call->target, id) == 0)
                                simulation.containers[i].has_hooked = true;
                }
                n_hooked += simulation.containers[i].has_hooked;
        }
        if (fake_runtime_n_asked("ExecSync") != n_hooked)
                fail_msg("%u containers have a hook, and %u ran", n_hooked,
                         fake_runtime_n_asked("ExecSync"));
}

/* The kubelet and its containers */

/* The newest container of the pod's n-th, or one that is older by so many; NULL: there is none. */
static FakeContainer *find_container(size_t n, unsigned older) {
        for (size_t i = node.n_containers; i-- > 0;) {
                FakeContainer *container = &fake_runtime.containers[i];

                if (container->id && strcmp(container->name, node.pod.containers[n].name) == 0 &&
                    older-- == 0)
                        return container;
        }

        return NULL;
}

static char *id_of(const FakeContainer *container) {
        return container ? simulation.containers[container - fake_runtime.containers].id : NULL;
}

static void start_container(size_t n) {
        ShownContainer *shown = &node.pod.containers[n];
        FakeContainer *container = &fake_runtime.containers[node.n_containers];
        char *id = id_of(container);

        assert_true(node.n_containers < FAKE_CONTAINERS_MAX);
        (void) sprintf(id, SCHEME "%c%zu", shown->name[0], node.n_containers);
        add_container(shown->name, id + strlen(SCHEME));
        container->created_at = wall_usec() * 1000 + (int64_t) node.n_containers;
        container->restart_count = (unsigned) shown->restart_count;
        container->pre_stop = happens(50) ? "{\"exec\":{\"command\":[\"bye\"]}}" : NULL;
        simulation.is_pod_outdated = true;
        note("the kubelet starts %s", container->id);
}

static void restart_containers(void) {
        for (size_t n = 0; n < 2; n++) {
                if (find_container(n, 0)->is_running)
                        continue;

                node.pod.containers[n].restart_count++;
                start_container(n);
        }
}

static void show_pod(void) {
        for (size_t n = 0; n < 2; n++) {
                const FakeContainer *container = find_container(n, 0);
                ShownContainer *shown = &node.pod.containers[n];

                shown->container_id = id_of(container);
                shown->former_id = id_of(find_container(n, 1));
                shown->is_running = shown->is_ready = container->is_running;
        }
        if (simulation.is_pod_outdated) {
                note("the kubelet writes the pod's status");
                pod_server_show(&node.pod);
        }
        simulation.is_pod_outdated = false;
}

/* Removes ended containers; the last one of a name stays, unless the disk is full. */
static void collect_containers(void) {
        bool is_full = happens(50);

        for (size_t n = 0; n < 2; n++) {
                unsigned older = !is_full && find_container(n, 0)->is_running ? 2 : 1;

                for (FakeContainer *ended; (ended = find_container(n, older));) {
                        note("the kubelet removes %s", ended->id);
                        ended->id = NULL;
                }
        }
}

static void run_kubelet(void) {
        if (happens(60))
                restart_containers();
        if (happens(60))
                show_pod();
        if (happens(60))
                collect_containers();
}

static void end_container(FakeContainer *container) {
        fake_container_end(container);
        simulation.is_pod_outdated = true;
}

static void end_any_container(void) {
        FakeContainer *container = find_container(choose(2), 0);

        if (!container->is_running || node.n_containers > FAKE_CONTAINERS_MAX / 2)
                return;

        note("%s ends by itself", container->id);
        end_container(container);
}

/* The runtime */

/* Returns the number of the request that stops the container, as the journal has it. */
static unsigned read_owner(const FakeContainer *container) {
        cleanup(stop_journal_free_p) StopJournal *journal = NULL;

        assert_ok(stop_journal_new(node.folder, &journal, NULL));
        for (size_t i = 0; i < stop_journal_count(journal); i++) {
                const StopRecord *record = stop_journal_get(journal, i);

                if (record->phase == STOP_PHASE_STOPPING &&
                    strcmp(record->container_id, container->id) == 0)
                        return (unsigned) strtoul(record->owner + strlen(OWNER), NULL, 10);
        }

        fail_msg("the journal does not say who stops %s", container->id);
        return 0;
}

static void stop_container(FakeContainer *container) {
        unsigned i = read_owner(container);
        size_t n = container->name[0] == 'a' ? 0 : 1;
        const char *named = simulation.requests[i].named[n];

        note("the runtime stops %s for r%u", container->id, i);
        if (simulation.requests[i].has_stopped[n])
                fail_msg("r%u stops a second container, %s", i, container->id);
        if (!simulation.requests[i].is_forced && named && named != id_of(container))
                fail_msg("r%u stops %s instead of %s", i, container->id, named);
        simulation.requests[i].has_stopped[n] = true;
        end_container(container);
}

/* Returns the container that runs and that the call stops; NULL: there is none. */
static FakeContainer *find_stopping(const RpcCall *call) {
        FakeContainer *container = fake_runtime_container(call->target);

        return container && container->is_running && strcmp(call->method, "StopContainer") == 0
                       ? container
                       : NULL;
}

/* A runtime that ends or is cut off may have done what it was asked for. */
static void stop_perhaps(const RpcCall *call) {
        if (find_stopping(call) && happens(60))
                stop_container(find_stopping(call));
}

static void fail_call(RpcCall *call, ErrorKind kind) {
        const Error error = { .kind = kind, .message = (char *) "no" };

        if (kind != ERROR_INTERNAL)
                stop_perhaps(call);
        note("%s %s fails: %d", call->method, call->target, kind);
        assert_ok(call->done(NULL, &error, call->userdata));
}

/* To stop a container that has ended succeeds, unless there is no answer. */
static ErrorKind choose_error(const RpcCall *call) {
        static const ErrorKind kinds[] = { ERROR_TIMEOUT, ERROR_UNAVAILABLE, ERROR_INTERNAL };
        bool is_stop = strcmp(call->method, "StopContainer") == 0;

        if (simulation.is_calm || !happens(is_stop ? 40 : 16))
                return ERROR_NONE;

        return kinds[choose(is_stop && !find_stopping(call) ? 2 : 3)];
}

static void answer_call(RpcCall *call) {
        static const CriExec done = RUNTIME__V1__EXEC_SYNC_RESPONSE__INIT;

        note("%s %s", call->method, call->target);
        if (find_stopping(call))
                stop_container(find_stopping(call));
        if (strcmp(call->method, "ListContainers") == 0)
                assert_ok(fake_runtime_serve_list(call));
        else if (strcmp(call->method, "ContainerStatus") == 0)
                assert_ok(fake_runtime_serve_status(call));
        else
                assert_ok(call->done(&done, NULL, call->userdata));
}

static void answer_runtime(void) {
        size_t n = fake_runtime.n_calls;
        RpcCall *call =
                n > 0 ? &fake_runtime.calls[fake_runtime.order[choose((uint32_t) n)]] : NULL;
        ErrorKind error = call ? choose_error(call) : ERROR_NONE;

        if (error != ERROR_NONE)
                fail_call(call, error);
        else if (call)
                answer_call(call);
}

static void notify_of_runtime(void) {
        assert_ok(stops_runtime_changed(node.stops));
        assert_ok(recreate_runtime_changed(node.recreate));
}

/* The agent may hear of that before or after its calls fail. */
static void lose_runtime(void) {
        bool hears_first = happens(50);
        RpcCall *call;

        note("the runtime ends");
        fake_runtime.is_away = true;
        if (hears_first)
                notify_of_runtime();
        while ((call = fake_runtime_find(NULL)))
                fail_call(call, ERROR_UNAVAILABLE);
        if (!hears_first)
                notify_of_runtime();
}

static void find_runtime(void) {
        if (!fake_runtime.is_away)
                return;

        note("the runtime is back");
        fake_runtime.is_away = false;
        fake_runtime.n_reconnects++;
        notify_of_runtime();
}

/* The API server */

/* A call that is to be answered, which a watch is not any more; NULL: there is none. */
static KubeCall *choose_call(void) {
        KubeCall *calls[FAKE_KUBE_CALLS_MAX];
        uint32_t n = 0;

        for (size_t i = 0; i < fake_kube.n_calls; i++) {
                KubeCall *call = fake_kube.calls[i];

                if (call->number != node.watches[0] && call->number != node.watches[1] &&
                    call->number != pod_server.watch)
                        calls[n++] = call;
        }
        return n > 0 ? calls[choose(n)] : NULL;
}

/* The write of a request may have been done, although its answer is an error or lost. */
static void fail_write(KubeCall *call) {
        static const int codes[] = { 409, 429, 500, 503, 504 };
        int code = simulation.is_server_away ? 0 : codes[choose(N_ELEMENTS(codes))];
        size_t i = find_object(call->request.path);
        unsigned number = call->number;

        note("%s %s: %d", call->request.method, call->request.path, code);
        if (code != 409 && i < node.n_objects && call->request.body && happens(40)) {
                note("it is done: %s", call->request.body);
                (void) serve_patch(&call->request, i);
        }
        if (fake_kube_call_of(number))
                assert_ok(fake_kube_answer_call(call, code, "{}"));
}

static void answer_server(void) {
        KubeCall *call = choose_call();
        const char *path = call ? call->request.path : "";

        if (!call)
                return;
        if (simulation.is_server_away ||
            (!simulation.is_calm && !strstr(path, "watch=true") && happens(12))) {
                fail_write(call);
                return;
        }

        note("%s %s %s", call->request.method, path, call->request.body ?: "");
        if (strstr(path, "&resourceVersion=")) /* the server lists again what it has */
                assert_ok(fake_kube_answer_call(call, 410, "{}"));
        else if (strstr(path, "/pods?"))
                pod_server_serve();
        else if (strstr(path, "/events"))
                assert_ok(fake_kube_answer_call(call, 201, "{}"));
        else
                serve_call(call);
        while (node.n_texts > 0)
                free(node.texts[--node.n_texts]);
}

static void break_watches(void) {
        const unsigned numbers[] = { node.watches[0], node.watches[1], pod_server.watch };

        for (size_t i = 0; i < N_ELEMENTS(numbers); i++)
                if (fake_kube_call_of(numbers[i]))
                        assert_ok(fake_kube_answer_call(fake_kube_call_of(numbers[i]), 0, ""));
}

static void lose_server(void) {
        note("the API server is away");
        simulation.is_server_away = node.is_deaf = true;
        break_watches();
}

static void find_server(void) {
        if (!simulation.is_server_away)
                return;

        note("the API server is back");
        simulation.is_server_away = node.is_deaf = false;
        assert_ok(recreate_kick(node.recreate));
}

/* Requests of users */

static void begin_request(void) {
        static const bool unselected[2] = { false };
        static const char *const labels[] = { "", LABELS, LABELS ",'inplaced.io/managed':'true'" };
        size_t kind = choose(N_ELEMENTS(labels)), i = node.n_objects;
        bool is_forced = happens(50);
        char context[2][100] = { "", "" };

        if (i == REQUESTS_MAX)
                return;

        simulation.requests[i].is_forced = is_forced;
        for (size_t n = 0; n < 2 && kind > 0; n++) {
                const char *id = id_of(find_container(n, 0));

                simulation.requests[i].named[n] = id;
                (void) snprintf(context[n], sizeof(context[n]),
                                ",'statusContext':{'containerID':'%s','restartCount':%d}", id,
                                node.pod.containers[n].restart_count);
        }
        node.objects[i] =
                parse("{'metadata':{'namespace':'d','name':'r%zu','uid':'u-r%zu',"
                      "'creationTimestamp':'2026-01-31T12:00:00Z','labels':{%s}},'spec':{"
                      "'podName':'web',%s'strategy':{%s%s%s%s%s'terminationGracePeriodSeconds':5},"
                      "'containers':[{'name':'app'%s},{'name':'side'%s}]}}",
                      i, i, labels[kind], happens(20) ? "'activeDeadlineSeconds':1300," : "",
                      is_forced ? "'forceRecreate':true," : "",
                      happens(33) ? "'orderedRecreate':true," : "",
                      happens(33) ? "'failurePolicy':'Ignore'," : "",
                      happens(25) ? "'minStartedSeconds':2," : "",
                      kind != 1 && happens(25) ? "'unreadyGracePeriodSeconds':3," : "", context[0],
                      context[1]);
        node.n_objects++;
        note("a user makes %s", json_to_text(node.objects[i]));
        set_version(node.objects[i]);
        show(node.objects[i], unselected);
}

/* Steps */

/* A stop goes on, or does not reach the runtime any more. */
static void kill_agent(void) {
        note("the agent dies");
        for (size_t i = 0; i < fake_runtime.n_calls; i++)
                stop_perhaps(&fake_runtime.calls[fake_runtime.order[i]]);
        end_agent();
        start_agent();
}

/* All do what is to be done. */
static void settle(void) {
        size_t n = 0;

        while (fake_runtime.n_calls > 0 || choose_call() || simulation.is_pod_outdated) {
                assert_true(n++ < 1000);
                answer_runtime();
                answer_server();
                run_kubelet();
                turn();
        }
}

static void pass(uint64_t usec) {
        uint64_t end_usec = fake_clock.now_usec + usec;
        const FakeTimer *timer;

        while ((timer = fake_clock_find()) && timer->due_usec <= end_usec) {
                fake_clock_skip(fake_kube.event);
                turn();
                if (simulation.is_calm)
                        settle();
        }
        fake_clock.now_usec = end_usec;
}

static void pass_some(void) {
        pass(happens(66) ? choose(20) * 100 * MSEC : choose(happens(33) ? 200 : 15) * SEC);
}

static void step(void) {
        static void (*const steps[])(void) = {
                answer_runtime, answer_runtime,    answer_runtime, answer_runtime, answer_runtime,
                answer_runtime, answer_runtime,    answer_server,  answer_server,  answer_server,
                answer_server,  answer_server,     answer_server,  answer_server,  run_kubelet,
                run_kubelet,    run_kubelet,       pass_some,      pass_some,      pass_some,
                begin_request,  end_any_container, kill_agent,     lose_runtime,   find_runtime,
                find_runtime,   lose_server,       find_server,    find_server,
        };

        steps[choose(N_ELEMENTS(steps))]();
        turn();
}

static void judge_end(void) {
        cleanup(stop_journal_free_p) StopJournal *journal = NULL;

        assert_ok(stop_journal_new(node.folder, &journal, NULL));
        for (size_t i = 0; i < node.n_objects; i++)
                if (strcmp(phase(i), "Completed") != 0)
                        fail_msg("r%zu is %s: %s", i, phase(i), states(i));
        for (size_t i = 0; i < stop_journal_count(journal); i++) {
                const StopRecord *record = stop_journal_get(journal, i);
                const FakeContainer *container = fake_runtime_container(record->container_id);

                if (stop_record_is_open(record))
                        fail_msg("the stop of %s is left in the journal", record->container_id);
                if (container && container->is_running &&
                    strncmp(record->owner, OWNER, strlen(OWNER)) == 0)
                        fail_msg("%s runs, although it was stopped", record->container_id);
        }
        assert_int_equal(stops_n_running(node.stops), 0);
        assert_int_equal(recreate_n_open(node.recreate), 0);
}

static void simulate(uint64_t seed, bool has_trace) {
        simulation = (struct Simulation){ .random = seed * UINT64_C(0x9e3779b97f4a7c15),
                                          .has_trace = has_trace };
        node_open(has_trace ? LOG_INFO : LOG_EMERG);
        node.n_containers = 0;
        for (size_t n = 0; n < 2; n++)
                start_container(n);
        show_pod();
        start_agent();
        for (uint32_t n = 50 + choose(450); n > 0; n--)
                step();

        note("all is calm");
        simulation.is_calm = simulation.is_pod_outdated = true;
        find_server();
        find_runtime();
        turn();
        settle();
        pass(CALM_USEC);
        judge_end();
        node_close();
}

/* It has a process of its own, so that the seed is named however it ends. */
static bool run(uint64_t seed, bool has_trace) {
        int status = 0;

        if (fork() == 0) {
                simulate(seed, has_trace);
                exit(EXIT_SUCCESS);
        }
        (void) wait(&status);
        if (status != 0)
                fprintf(stderr, "seed %" PRIu64 " fails; --seed %" PRIu64 " --trace shows how\n",
                        seed, seed);
        return status == 0;
}

int main(int argc, char **argv) {
        uint64_t seed = 1, n_runs = 1, n_bad = 0;
        bool has_trace = false;

        for (int i = 1; i < argc; i++)
                if (strcmp(argv[i], "--trace") == 0) {
                        has_trace = true;
                } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
                        seed = strtoull(argv[++i], NULL, 10);
                } else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
                        n_runs = strtoull(argv[++i], NULL, 10);
                } else {
                        fprintf(stderr,
                                "usage: simulate-requests [--seed N] [--runs N] [--trace]\n");
                        return 2;
                }
        for (uint64_t i = 0; i < n_runs && n_bad < 20; i++)
                n_bad += !run(seed + i, has_trace);
        return n_bad > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
