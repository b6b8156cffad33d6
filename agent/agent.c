/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include "agent/agent-files.h"
#include "agent/api/api.h"
#include "agent/api/diagnosis.h"
#include "agent/auth/auth.h"
#include "agent/base/cleanup.h"
#include "agent/base/file.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/cluster/cluster.h"
#include "agent/cluster/pod-waits.h"
#include "agent/image/pins.h"
#include "agent/image/presence.h"
#include "agent/node/folder.h"
#include "agent/node/owner.h"
#include "agent/node/state-file.h"
#include "agent/observe/http.h"
#include "agent/observe/metrics.h"
#include "agent/pod/write-check.h"
#include "agent/probe/probes.h"
#include "agent/recreate/recreate.h"
#include "cri/client.h"
#include "cri/discover.h"

/* Time to wait for a runtime's answer before the agent reports that it is ready. */
#define SETTLE_USEC ((uint64_t) 40 * 1000)
#define SETTLE_AT_LAST_USEC (10 * USEC_PER_SEC)

/* Changes that come in quick succession are reported to systemd together. */
#define NOTIFY_USEC ((uint64_t) 500 * 1000)
#define TRIM_USEC ((uint64_t) 3 * 1000 * 1000)
#define SERVE_AGAIN_USEC (5 * USEC_PER_SEC)

#define DEFAULT_GROUP "inplaced"
#define RIGHTS                                                                           \
        "give the agent the rights of packaging/kubernetes/base/rbac.yaml, and without " \
        "OpenKruise those of components/registration"

/* The rights of a group at the socket. */
typedef enum SocketRight {
        RIGHT_USE,
        RIGHT_RESTART,
        _RIGHT_MAX,
} SocketRight;

struct Agent {
        sd_event *event;
        Log *log;
        AgentReady on_ready;
        void *userdata;
        char *images_path;
        char *node_name;
        DiagnosisSubject subject;
        const char *pull_reasons[_PULL_REASON_MAX]; /* the first is left out; ended by NULL */
        Metrics *metrics;
        int lock_fd; /* descriptor of the locked file in the state folder; -1: not open */

        CompletionQueue *completions;
        Runtimes *runtimes;
        AuthDir *auth_dir;
        DockerConfig *docker;
        CredentialProviders *providers;
        Auth *auth;
        AgentFiles *files;
        Cluster *cluster; /* NULL: the node stands alone */
        Images *images;
        ImagesWatcher watcher;
        Presence *presence;
        Pins *pins;
        bool removes_pins; /* there are only the parts for that */
        StateFile *state_file;
        Folder *folder; /* NULL in a cluster */
        Kubelet *kubelet;
        Stops *stops;
        Places *places;
        PodContext pod_context; /* context of the four fields after pods */
        Pods *pods;             /* these six are NULL if the node stands alone */
        InPlace *inplace;
        Recreate *recreate;
        Probes *probes;
        WriteCheck *write_check;
        PodWaits *pod_waits;
        Api *api;
        char *missing_groups[_RIGHT_MAX]; /* named by the options; NULL: the group exists */
        char *metrics_address;            /* NULL: nothing is served over HTTP */
        HttpServer *http;                 /* NULL: it cannot listen there, or not yet */
        Error http_error;                 /* reason why */
        Timer serve;                      /* runs until it can */
        Timer notify;
        Timer trim;
        Timer settle; /* runs until all runtimes were tried */
};

DEFINE_CLEANUP(Agent *, agent_free)
DEFINE_CLEANUP(FILE *, fclose)

/* Sets the text in systemctl status, some time after each change, and then returns memory that a
 * burst of work needed. */

static int on_notify(void *userdata) {
        Agent *agent = userdata;
        ImagesWork work = images_work(agent->images);

        (void) sd_notifyf(false, "STATUS=%zu images desired, %zu being pulled, %zu waiting; %s",
                          images_count(agent->images), work.n_pulling, work.n_queued,
                          diagnosis_runtime_sentence(agent->runtimes));
        if (work.n_pulling + work.n_queued > 0)
                return 0;

        (void) malloc_trim(0);
        return timer_start(&agent->trim, TRIM_USEC);
}

/* Trims once more, since gRPC's threads may free their buffers some time later. */
static int on_trim(void *userdata) {
        (void) malloc_trim(0);
        return 0;
}

static int agent_notify_later(Agent *agent) {
        return timer_is_running(&agent->notify) || agent->removes_pins
                       ? 0
                       : timer_start(&agent->notify, NOTIFY_USEC);
}

static int agent_add_notify(Agent *agent, const Options *options, Error *reterr) {
        int r;

        r = agent_notify_later(agent);
        return r < 0 ? r : sd_event_set_watchdog(agent->event, true);
}

/* Callbacks that several parts share. */

/* The readiness or its reason may have changed. */
static void on_changed(void *userdata) {
        (void) agent_notify_later(userdata);
}

static int agent_add_ground(Agent *agent, const Options *options, Error *reterr) {
        const MetricsOptions metrics = {
                .version = INPLACED_VERSION,
                .pull_reasons = agent->pull_reasons,
                .cri_methods = cri_method_names,
                .local_api_methods = api_method_names,
        };
        int r;

        for (PullReason reason = PULL_REASON_NONE + 1; reason < _PULL_REASON_MAX; reason++)
                agent->pull_reasons[reason - 1] = pull_reason_to_string(reason);
        r = metrics_new(&metrics, &agent->metrics);
        if (r < 0)
                return r;

        return completion_queue_new(agent->event, &agent->completions);
}

/* Logs changes of runtimes, but not each attempt to connect. */

/* Warns once while a runtime is away, even if the reason changes. */
static bool is_worth_a_warning(const Runtime *runtime, bool is_chosen) {
        return runtime_is_silent(runtime) || runtime_state(runtime) == RUNTIME_REFUSED ||
               (is_chosen && !runtime_is_as_before(runtime));
}

static void log_runtime(Log *log, const Runtimes *runtimes, const Runtime *runtime) {
        bool is_chosen = runtime == runtimes_chosen(runtimes);
        const char *sentence = runtime_sentence(runtime);

        if (runtime_state(runtime) == RUNTIME_READY && !runtime_is_silent(runtime))
                log_info(log,
                         LOG_FIELDS({ "MESSAGE_ID", MESSAGE_RUNTIME_READY },
                                    { "RUNTIME", runtime_path(runtime) }),
                         "The runtime %s%s.", sentence, is_chosen ? "" : " but not used");
        else if (is_worth_a_warning(runtime, is_chosen))
                log_warning(log,
                            LOG_FIELDS({ "MESSAGE_ID", MESSAGE_RUNTIME_LOST },
                                       { "RUNTIME", runtime_path(runtime) }),
                            "Waiting for a runtime: %s.", sentence);
        else
                log_debug(log, LOG_FIELDS({ "RUNTIME", runtime_path(runtime) }),
                          "Waiting for a runtime: %s.", sentence);
}

/* The refusal of a runtime is logged already. */
static bool is_silence(const Runtimes *runtimes) {
        for (size_t i = 0; i < runtimes_count(runtimes); i++)
                if (runtime_state(runtimes_get(runtimes, i)) != RUNTIME_ABSENT)
                        return false;

        return true;
}

/* All runtimes have been tried once, or the time for it is over. */
static int agent_settle(Agent *agent) {
        timer_stop(&agent->settle);
        if (agent->removes_pins && !runtimes_are_alive(agent->runtimes)) {
                log_error(agent->log, NULL, "Cannot remove the pins: %s.",
                          diagnosis_runtime_sentence(agent->runtimes));
                return sd_event_exit(agent->event, 1);
        }
        if (agent->removes_pins)
                return 0;

        if (is_silence(agent->runtimes))
                log_warning(agent->log, LOG_FIELDS({ "MESSAGE_ID", MESSAGE_RUNTIME_LOST }),
                            "Waiting for a runtime: %s.",
                            diagnosis_runtime_sentence(agent->runtimes));

        agent->on_ready(agent->userdata);
        return agent_notify_later(agent);
}

static int on_settle(void *userdata) {
        return agent_settle(userdata);
}

/* Runtimes: the endpoints of the options, or the usual places. */

static int notify_runtime_changed(Agent *agent) {
        int r;

        r = images_runtime_changed(agent->images);
        if (r >= 0)
                r = presence_runtime_changed(agent->presence);
        if (r >= 0)
                r = pins_runtime_changed(agent->pins);
        if (r >= 0 && agent->stops)
                r = stops_runtime_changed(agent->stops);
        if (r >= 0 && agent->inplace)
                r = inplace_runtime_changed(agent->inplace);
        if (r >= 0 && agent->recreate)
                r = recreate_runtime_changed(agent->recreate);
        if (r >= 0 && agent->probes)
                r = probes_runtime_changed(agent->probes);
        return r;
}

/* A runtime that has become silent, or answers again, is still the same: calls to it go on. */
static int on_runtime_changed(Runtime *runtime, void *userdata) {
        Agent *agent = userdata;
        bool is_another = runtime_state(runtime) != RUNTIME_READY || !runtime_is_as_before(runtime);
        int r;

        log_runtime(agent->log, agent->runtimes, runtime);
        r = is_another ? notify_runtime_changed(agent) : 0;
        if (r >= 0 && agent->api)
                r = api_runtime_changed(agent->api);
        if (r >= 0 && agent->state_file)
                r = state_file_touch(agent->state_file);
        if (r < 0)
                return r;

        /* Where pins are removed, nothing waits for a runtime that has gone. */
        if ((timer_is_running(&agent->settle) || agent->removes_pins) &&
            runtimes_are_settled(agent->runtimes))
                return agent_settle(agent);

        return agent_notify_later(agent);
}

static const char *const *find_usual_sockets(const Options *options) {
        return !options->host_root && access(DISCOVER_KRUISE_FOLDER, F_OK) == 0
                       ? discover_kruise_sockets
                       : discover_usual_sockets;
}

static int agent_add_runtimes(Agent *agent, const Options *options, Error *reterr) {
        const char *const *usual = find_usual_sockets(options);
        char *paths[OPTIONS_ENDPOINTS_MAX] = { NULL };
        RuntimesOptions runtimes = {
                .on_changed = on_runtime_changed,
                .metrics = agent->metrics,
                .userdata = agent,
        };
        size_t n = 0;
        int r;

        for (; options->n_endpoints == 0 && usual[n]; n++)
                if (text_format(&paths[n], "%s%s", options->host_root ?: "", usual[n]) < 0)
                        return -ENOMEM;

        runtimes.paths = (const char *const *) (n > 0 ? paths : (char **) options->endpoints);
        runtimes.n_paths = n > 0 ? n : options->n_endpoints;
        r = runtimes_new(agent->completions, &runtimes, &agent->runtimes);
        for (size_t i = 0; i < n; i++)
                free(paths[i]);

        agent->subject.runtimes = agent->runtimes;
        return r;
}

static int agent_try_runtimes(Agent *agent, const Options *options, Error *reterr) {
        int r;

        r = runtimes_try(agent->runtimes);
        if (r < 0)
                return r;

        return timer_start(&agent->settle, runtimes_are_settled(agent->runtimes) ? 0
                                           : agent->removes_pins ? SETTLE_AT_LAST_USEC
                                                                 : SETTLE_USEC);
}

/* Credentials: all sources that the options name, and the exposure of their files. */

/* A broken configuration of plugins is no reason not to start: images without credentials can still be pulled. */
static int agent_add_providers(Agent *agent, const Options *options) {
        if (!options->provider_config || !options->provider_bin_dir)
                return 0;

        return credential_providers_new(agent->event, agent->log, options->provider_config,
                                        options->provider_bin_dir, &agent->providers,
                                        /* reterr= */ NULL);
}

static int agent_add_auth(Agent *agent, const Options *options, Error *reterr) {
        AuthOptions auth = { .event = agent->event, .log = agent->log };
        int r;

        r = auth_dir_new(options->auth_dir, &agent->auth_dir);
        if (r < 0)
                return r;

        agent->subject.auth_dir = agent->auth_dir;
        r = docker_config_new(NULL, &agent->docker);
        if (r >= 0)
                r = agent_add_providers(agent, options);
        if (r < 0)
                return r;

        auth.dir = agent->auth_dir;
        auth.docker = agent->docker;
        auth.providers = agent->providers;
        return auth_new(&auth, &agent->auth);
}

static int agent_add_files(Agent *agent, const Options *options, Error *reterr) {
        int r;

        r = agent_files_new(options, agent->docker, &agent->files);
        if (r < 0)
                return r;

        agent->subject.files = agent_files_diagnosis(agent->files);
        return agent_files_log(agent->files, agent->log);
}

/* The connection to the cluster, if this node is part of one. */

static void on_reachable(void *userdata) {
        Agent *agent = userdata;
        int r;

        if (agent->images)
                images_hint(agent->images, PULL_REMEDY_NETWORK);
        r = agent->pods ? pods_kick(agent->pods) : 0;
        if (r >= 0 && agent->inplace)
                r = inplace_kick(agent->inplace);
        if (r >= 0 && agent->recreate)
                r = recreate_kick(agent->recreate);
        if (r >= 0 && agent->probes)
                r = probes_kick(agent->probes);
        loop_end_on_failure(agent->event, r);
}

/* A program that replaces no whole files leaves an empty one for a moment. */
static bool is_missing_or_empty(const char *path) {
        struct stat status;

        return stat(path, &status) < 0 || (S_ISREG(status.st_mode) && status.st_size == 0);
}

/* Names the option. A kubeconfig that is missing may be written later, as by kubeadm: the service
 * manager tries again. */
static int refuse_access(const Options *options, const Error *error, Error *reterr) {
        bool is_missing = options->kubeconfig && is_missing_or_empty(options->kubeconfig);

        return error_set(reterr, is_missing ? ERROR_NOT_FOUND : error->kind, "%s: %s",
                         agent_files_access(options), error_message(error));
}

static ImagesReadySettings get_images_ready(const Options *options) {
        const char *taint = options->startup_taint;

        return (ImagesReadySettings){
                .is_on = options_has_images_ready(options),
                .deadline_usec = (uint64_t) options->images_ready_sec * USEC_PER_SEC,
                .startup_taint = taint && taint[0] ? taint : NULL,
        };
}

/* The API server is not asked yet, see agent_add_source(). */
static int agent_add_cluster(Agent *agent, const Options *options, Error *reterr) {
        const KubeAccessOptions access = {
                .kubeconfig = options->kubeconfig,
                .context = options->kubeconfig_context,
        };
        const ClusterOptions cluster = {
                .event = agent->event,
                .log = agent->log,
                .metrics = agent->metrics,
                .node_name = options->node_name,
                .access = &access,
                .must_register = options->must_register,
                .images_ready = get_images_ready(options),
                .on_changed = on_changed,
                .on_reachable = on_reachable,
                .userdata = agent,
        };
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (!options_is_cluster(options, kube_access_is_pod(NULL)))
                return 0;

        r = cluster_new(&cluster, &agent->cluster, &error);
        if (error.kind != ERROR_NONE)
                return refuse_access(options, &error, reterr);
        if (r < 0)
                return r;

        auth_set_secrets(agent->auth, cluster_secrets(agent->cluster));
        agent->subject.cluster = cluster_diagnosis(agent->cluster);
        return 0;
}

/* Images, and where they are desired and reported. */

static int on_image(Image *image, void *userdata) {
        return agent_notify_later(userdata);
}

static void on_outcome(const Image *image, void *userdata) {
        Agent *agent = userdata;

        if (agent->inplace)
                loop_end_on_failure(agent->event,
                                    inplace_image_changed(agent->inplace, image_key(image)));
}

static void on_done(const Image *image, const ImageRequest *request, void *userdata) {
        const Agent *agent = userdata;

        if (agent->cluster)
                cluster_on_done(image, request, agent->cluster);
}

static ImagesLimits get_limits(const Options *options) {
        return (ImagesLimits){
                .max_parallel_pulls = (unsigned) options->max_parallel_pulls,
                .stall_usec = (uint64_t) options->stall_timeout_sec * USEC_PER_SEC,
                .disk_floor = options->min_free_disk,
                .keeps_served = options->must_keep_images,
        };
}

static int on_credentials_changed(void *userdata) {
        images_hint(((const Agent *) userdata)->images, PULL_REMEDY_CREDENTIALS);
        return 0;
}

static int visit_pins(const void *source, const DiagnosisVisitor *visitor) {
        return pins_visit(source, visitor);
}

/* The only task of an agent that removes pins is done. */
static void on_round(const Error *error, void *userdata) {
        Agent *agent = userdata;

        if (!agent->removes_pins)
                return;

        if (error)
                log_error(agent->log, NULL, "Cannot remove the pins: %s.", error_message(error));
        (void) sd_event_exit(agent->event, error != NULL);
}

/* An agent that removes pins has no requests, and thus wants none. */
static int agent_add_pins(Agent *agent, const Options *options) {
        const PinsOptions pins = {
                .event = agent->event,
                .log = agent->log,
                .runtimes = agent->runtimes,
                .images = agent->images,
                .limit = options->max_pinned,
                .on_round = on_round,
                .userdata = agent,
        };
        int r;

        r = pins_new(&pins, &agent->pins);
        if (r < 0)
                return r;

        agent->subject.pins = (DiagnosisSource){ .visit = visit_pins, .source = agent->pins };
        if (agent->removes_pins)
                images_restore_end(agent->images);
        return 0;
}

static int agent_add_images(Agent *agent, const Options *options, Error *reterr) {
        const ImagesOptions images = {
                .completions = agent->completions,
                .log = agent->log,
                .metrics = agent->metrics,
                .runtimes = agent->runtimes,
                .limits = get_limits(options),
                .host_root = options->host_root,
                .is_pod = kube_access_is_pod(NULL),
                .keys = auth_source(agent->auth),
                .on_outcome = on_outcome,
                .on_done = on_done,
                .outcome_userdata = agent,
        };
        int r;

        r = images_new(&images, &agent->images);
        if (r < 0)
                return r;

        agent->subject.images = agent->images;
        agent->watcher = (ImagesWatcher){ .on_image = on_image, .userdata = agent };
        images_watch(agent->images, &agent->watcher);
        r = auth_watch(agent->auth, on_credentials_changed, agent);
        if (r >= 0)
                r = presence_new(agent->event, agent->runtimes, agent->images, &agent->presence);
        return r < 0 ? r : agent_add_pins(agent, options);
}

static const char *get_runtime_sentence(void *userdata) {
        return diagnosis_runtime_sentence(((const Agent *) userdata)->runtimes);
}

/* The previous run's desired images count until the API server or the file says others. */
static int lacks(const char *owner, void *userdata) {
        const Agent *agent = userdata;

        if (!agent->cluster)
                return folder_lacks(agent->folder, owner);

        return owner_is_node_image(owner) ||
               (owner_is_set(owner) && cluster_serves_sets(agent->cluster));
}

/* The kernel ends the lock with the process. Other users cannot open the file, and so cannot lock it, as they could the
 * folder. A file that cannot be locked is no reason not to start. */
int agent_lock_folder(const char *folder, int flags, int *ret_fd, Error *reterr) {
        cleanup(free_p) char *path = NULL;
        cleanup(close_p) int fd = -1;
        int r;

        r = text_format(&path, "%s/" AGENT_LOCK_FILE, folder);
        if (r < 0)
                return r;

        fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "cannot use the state folder %s: another agent does; run one "
                                 "agent on the node, or give each one its own --state-dir",
                                 folder);

        *ret_fd = take_fd(&fd);
        return 0;
}

static int agent_lock_state(Agent *agent, const Options *options, Error *reterr) {
        int r;

        r = file_make_folders(options->state_dir); /* not every node has systemd, which makes it */
        return r < 0 ? r : agent_lock_folder(options->state_dir, O_CREAT, &agent->lock_fd, reterr);
}

/* The pins of an agent that runs stay. A file made here would belong to another user than the agent's. */
static int agent_lock_former_state(Agent *agent, const Options *options, Error *reterr) {
        return agent_lock_folder(options->state_dir, /* flags= */ 0, &agent->lock_fd, reterr);
}

static int agent_add_state_file(Agent *agent, const Options *options, Error *reterr) {
        const StateFileOptions state_file = {
                .event = agent->event,
                .log = agent->log,
                .metrics = agent->metrics,
                .images = agent->images,
                .directory = options->state_dir,
                .node_name = options->node_name,
                .lacks = lacks,
                .get_runtime = get_runtime_sentence,
                .userdata = agent,
        };
        int r;

        r = state_file_new(&state_file, &agent->state_file);
        if (r < 0)
                return r;

        agent->subject.state_file = agent->state_file;
        return 0;
}

static int agent_add_folder(Agent *agent, const Options *options, Error *reterr) {
        const FolderOptions folder = {
                .event = agent->event,
                .log = agent->log,
                .images = agent->images,
                .path = options->images_dir,
                .on_changed = on_changed,
                .userdata = agent,
        };
        int r;

        if (agent->cluster)
                return 0;

        r = folder_new(&folder, &agent->folder);
        if (r < 0)
                return r;

        agent->subject.images_dir = folder_dir(agent->folder);
        agent->subject.images_path = agent->images_path;
        return 0;
}

/* Sources of desired images, besides the local API. */
static int agent_add_source(Agent *agent, const Options *options, Error *reterr) {
        int r;

        if (agent->cluster)
                return cluster_start(agent->cluster, agent->images);

        r = folder_reconcile(agent->folder);
        if (r < 0)
                return r;

        images_restore_end(agent->images);
        return 0;
}

/* Pods: stops of containers, and in a cluster reports and restarts. */

/* Returns the first error of a watch or a write; NULL: none. The cluster's diagnosis reports an
 * unreachable server. */
static const Error *find_trouble(const Agent *agent) {
        const Error *errors[] = { pods_error(agent->pods), recreate_error(agent->recreate),
                                  probes_error(agent->probes), inplace_error(agent->inplace) };

        for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
                if (errors[i]->kind == ERROR_DENIED || errors[i]->kind == ERROR_INVALID)
                        return errors[i];

        return NULL;
}

static bool pods_are_ready(const void *source, const char **ret_why) {
        const Error *trouble = find_trouble(source);

        if (trouble)
                *ret_why = error_message(trouble);
        return !trouble;
}

static int visit_pods(const void *source, const DiagnosisVisitor *visitor) {
        const Agent *agent = source;
        const Error *trouble = find_trouble(agent);
        cleanup(free_p) char *text = NULL;
        int r;

        r = write_check_visit(agent->write_check, visitor);
        if (r < 0)
                return r;

        if (trouble)
                return visitor->on_problem("pods", error_message(trouble),
                                           trouble->kind == ERROR_DENIED ? RIGHTS
                                                                         : "the agent tries again",
                                           visitor->userdata);

        if (text_format(&text, "%zu of this node are %s", pods_count(agent->pods),
                        pods_are_synced(agent->pods) ? "watched" : "known") < 0)
                return -ENOMEM;

        r = visitor->on_fact("pods", text, visitor->userdata);
        if (r < 0)
                return r;

        return visitor->on_fact("restart requests",
                                recreate_version(agent->recreate)
                                        ? "ContainerRecreateRequests are served"
                                        : "none; the API server has no ContainerRecreateRequests",
                                visitor->userdata);
}

static int agent_add_stops(Agent *agent, const Options *options, Error *reterr) {
        const KubeletOptions kubelet = {
                .event = agent->event,
                .address = options->kubelet_address,
                .client = agent->cluster ? cluster_client(agent->cluster) : NULL,
                .node_name = options->node_name,
        };
        StopsOptions stops = {
                .event = agent->event,
                .log = agent->log,
                .metrics = agent->metrics,
                .runtimes = agent->runtimes,
                .events = agent->cluster ? cluster_events(agent->cluster) : NULL,
                .state_dir = options->state_dir,
        };
        int r;

        r = kubelet_new(&kubelet, &agent->kubelet, reterr);
        if (r < 0)
                return r;

        r = places_new(agent->event, places_choose_max(), &agent->places);
        if (r < 0)
                return r;

        stops.kubelet = agent->kubelet;
        stops.places = agent->places;
        return stops_new(&stops, &agent->stops);
}

static uint64_t get_longest_pause(const Options *options) {
        return (uint64_t) options->yield_sec * USEC_PER_SEC;
}

static int agent_add_pod_waits(Agent *agent, const Options *options) {
        const PodWaitsOptions waits = {
                .event = agent->event,
                .log = agent->log,
                .metrics = agent->metrics,
                .runtimes = agent->runtimes,
                .images = agent->images,
                .pods = agent->pods,
                .limit_usec = get_longest_pause(options),
        };

        return pod_waits_new(&waits, &agent->pod_waits);
}

static int agent_add_pods(Agent *agent, const Options *options, Error *reterr) {
        PodsOptions pods = {
                .log = agent->log,
                .metrics = agent->metrics,
                .node_name = options->node_name,
                .on_changed = on_changed,
                .userdata = agent,
        };
        int r;

        if (!agent->cluster)
                return 0;

        pods.client = cluster_client(agent->cluster);
        r = pods_new(&pods, &agent->pods);
        if (r < 0)
                return r;

        agent->pod_context = (PodContext){
                .event = agent->event,
                .log = agent->log,
                .metrics = agent->metrics,
                .client = pods.client,
                .events = cluster_events(agent->cluster),
                .pods = agent->pods,
                .runtimes = agent->runtimes,
                .stops = agent->stops,
                .places = agent->places,
                .node_name = agent->node_name,
                .on_changed = on_changed,
                .userdata = agent,
        };
        r = inplace_new(&agent->pod_context, options->has_pod_condition, &agent->inplace);
        if (r >= 0)
                r = recreate_new(&agent->pod_context, &agent->recreate);
        if (r >= 0)
                r = probes_new(&agent->pod_context, &agent->probes);
        if (r >= 0)
                r = write_check_new(&agent->pod_context, &agent->write_check);
        if (r >= 0)
                r = agent_add_pod_waits(agent, options);
        if (r < 0)
                return r;

        agent->subject.pods = (DiagnosisSource){
                .visit = visit_pods,
                .is_ready = pods_are_ready,
                .source = agent,
        };
        return 0;
}

/* The local API: where its socket is, and who may use it beside root. */

/* Packages make their groups here. Other sources of names are libraries that would stay in memory,
 * and services that may be slow, so the agent uses them only for configured names. */
static gid_t find_default_group(void) {
        cleanup(fclose_p) FILE *file = fopen("/etc/group", "re");
        const struct group *group;

        while (file && (group = fgetgrent(file)))
                if (strcmp(group->gr_name, DEFAULT_GROUP) == 0)
                        return group->gr_gid;

        return (gid_t) -1;
}

/* NULL or "": no group. Logs and remembers a group that does not exist. */
static int find_group(Agent *agent, SocketRight right, const char *name, gid_t *ret) {
        *ret = (gid_t) -1;
        if (!name || !name[0])
                return 0;

        *ret = agent_files_find_group(name);
        if (*ret != (gid_t) -1)
                return 0;

        log_warning(agent->log, NULL, "There is no group \"%s\", so only root may %s.", name,
                    right == RIGHT_USE ? "use the socket"
                                       : "restart containers through the socket");
        return text_set(&agent->missing_groups[right], name);
}

static int visit_groups(const void *source, const DiagnosisVisitor *visitor) {
        static const char *const options[_RIGHT_MAX] = { "--socket-group", "--restart-group" };
        const Agent *agent = source;
        int r = 0;

        for (SocketRight right = 0; r >= 0 && right < _RIGHT_MAX; right++)
                if (agent->missing_groups[right])
                        r = agent_files_report_group(options[right], agent->missing_groups[right],
                                                     visitor);
        return r;
}

/* systemd's RuntimeDirectory= makes it where there is systemd. */
static int make_socket_folder(const char *socket) {
        cleanup(free_p) char *parent = strdup(socket);
        char *slash = parent ? strrchr(parent, '/') : NULL;

        if (!parent)
                return -ENOMEM;
        if (!slash || slash == parent)
                return 0;

        *slash = '\0';
        return file_make_folders(parent);
}

static int agent_add_api(Agent *agent, const Options *options, Error *reterr) {
        const char *restart_group_name = options->restart_group;
        ApiOptions api = {
                .completions = agent->completions,
                .log = agent->log,
                .metrics = agent->metrics,
                .images = agent->images,
                .pins = agent->pins,
                .runtimes = agent->runtimes,
                .subject = &agent->subject,
                .stops = agent->stops,
                .pods = agent->pods,
                .pod_waits = agent->pod_waits,
                .meta = agent->inplace,
                .probes = agent->probes,
                .node_name = options->node_name,
                .listener = {
                        .path = options->socket,
                        .fd = options->listening_fd,
                },
                .restart_group_name =
                        restart_group_name && restart_group_name[0] ? restart_group_name : NULL,
                .state_file = agent->state_file,
                /* Calls leave freed memory in the heap, which on_notify() returns. */
                .on_changed = on_changed,
                .userdata = agent,
        };
        int r;

        r = find_group(agent, RIGHT_USE, options->socket_group, &api.listener.group);
        if (r >= 0)
                r = find_group(agent, RIGHT_RESTART, options->restart_group, &api.restart_group);
        if (r < 0)
                return r;

        if (!options->socket_group)
                api.listener.group = find_default_group();
        agent->subject.groups = (DiagnosisSource){ .visit = visit_groups, .source = agent };
        r = options->listening_fd < 0 ? make_socket_folder(options->socket) : 0;
        if (r < 0)
                return r;

        return api_new(&api, &agent->api, reterr);
}

/* The paths of the HTTP server: /metrics, /healthz and /readyz. */

static void measure_folder(const Agent *agent) {
        const ImagesDir *dir = folder_dir(agent->folder);
        size_t n_refused = 0, n_accepted = 0;

        for (size_t i = 0; i < images_dir_get_n_files(dir); i++) {
                const ImagesFile *file = images_dir_get_file(dir, i);

                n_refused += file->error.kind != ERROR_NONE;
                n_accepted += file->n_documents;
        }

        metrics_set(agent->metrics, METRIC_DESIRED_DOCUMENTS, METRIC_LABELS("accepted"),
                    (double) n_accepted);
        metrics_set(agent->metrics, METRIC_DESIRED_DOCUMENTS, METRIC_LABELS("refused"),
                    (double) n_refused);
}

static void measure_pods(const Agent *agent) {
        static const char *const labels[_VERDICT_MAX] = {
                [VERDICT_UNKNOWN] = "unknown",
                [VERDICT_CURRENT] = "current",
                [VERDICT_STALE] = "stale",
        };

        metrics_set(agent->metrics, METRIC_PODS, NULL, (double) pods_count(agent->pods));
        metrics_set(agent->metrics, METRIC_RECREATE_REQUESTS_OPEN, NULL,
                    (double) recreate_n_open(agent->recreate));
        for (Verdict verdict = 0; verdict < _VERDICT_MAX; verdict++)
                metrics_set(agent->metrics, METRIC_CONTAINERS, METRIC_LABELS(labels[verdict]),
                            (double) inplace_count(agent->inplace, verdict));
}

/* The parts count their work; the gauges are set at each request. */
static int serve_metrics(HttpReply *reply, void *userdata) {
        Agent *agent = userdata;

        images_measure(agent->images);
        runtimes_measure(agent->runtimes);
        api_measure(agent->api);
        metrics_set(agent->metrics, METRIC_STOPS_RUNNING, NULL,
                    (double) stops_n_running(agent->stops));
        if (agent->folder)
                measure_folder(agent);
        if (agent->pods)
                measure_pods(agent);

        reply->content_type = METRICS_CONTENT_TYPE;
        return metrics_write(agent->metrics, &reply->body, &reply->size);
}

/* An answer shows that the loop runs. */
static int serve_health(HttpReply *reply, void *userdata) {
        reply->body = strdup("ok\n");
        reply->size = strlen("ok\n");
        return reply->body ? 0 : -ENOMEM;
}

static int serve_readiness(HttpReply *reply, void *userdata) {
        const Agent *agent = userdata;
        const char *why = "ok";

        if (!diagnosis_is_ready(&agent->subject, &why))
                reply->status = 503;
        if (text_format(&reply->body, "%s\n", why) < 0)
                return -ENOMEM;

        reply->size = strlen(reply->body);
        return 0;
}

/* Where the address cannot be used, the agent works without metrics, and tries again: at a boot, the node may get its
 * address after the agent was started. */
static int agent_serve(Agent *agent) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = http_server_new(agent->event, agent->metrics_address, &agent->http, &error);
        (void) log_trouble(agent->log, LOG_ERR, &agent->http_error,
                           error.kind == ERROR_NONE ? NULL : &error,
                           "Cannot serve metrics and health, trying again every 5 s",
                           "Metrics and health are served now");
        if (error.kind != ERROR_NONE)
                return timer_start(&agent->serve, SERVE_AGAIN_USEC);
        if (r < 0)
                return r;

        r = http_server_add(agent->http, "/metrics", serve_metrics, agent);
        if (r >= 0)
                r = http_server_add(agent->http, "/healthz", serve_health, agent);

        return r < 0 ? r : http_server_add(agent->http, "/readyz", serve_readiness, agent);
}

static int on_serve(void *userdata) {
        return agent_serve(userdata);
}

static int agent_add_http(Agent *agent, const Options *options, Error *reterr) {
        if (!options->metrics_address[0])
                return 0;

        agent->metrics_address = strdup(options->metrics_address);
        return agent->metrics_address ? agent_serve(agent) : -ENOMEM;
}

typedef int (*Step)(Agent *agent, const Options *options, Error *reterr);

/* The order is that of dependencies: for example, the previous run's state is restored before a caller
 * can request anything. */
static const Step steps[] = {
        agent_lock_state,
        agent_add_ground,
        agent_add_runtimes,
        agent_add_auth,
        agent_add_files,
        agent_add_cluster,
        agent_add_images,
        agent_add_folder,
        agent_add_state_file,
        agent_add_source,
        agent_add_stops,
        agent_add_pods,
        agent_add_api,
        agent_add_http,
        agent_add_notify,
        agent_try_runtimes,
        NULL,
};

static const Step steps_to_remove_pins[] = {
        agent_lock_former_state,
        agent_add_ground,
        agent_add_runtimes,
        agent_add_auth,
        agent_add_images,
        agent_try_runtimes,
        NULL,
};

int agent_new(sd_event *event, Log *log, const Options *options, AgentReady on_ready,
              void *userdata, Agent **ret, Error *reterr) {
        cleanup(agent_free_p) Agent *agent = NULL;
        int r;

        agent = calloc(1, sizeof(*agent));
        if (!agent)
                return -ENOMEM;

        agent->event = event;
        agent->log = log;
        agent->lock_fd = -1;
        timer_init(&agent->notify, event, /* accuracy_usec= */ 0, on_notify, agent);
        timer_init(&agent->serve, event, /* accuracy_usec= */ USEC_PER_SEC, on_serve, agent);
        timer_init(&agent->trim, event, /* accuracy_usec= */ 0, on_trim, agent);
        timer_init(&agent->settle, event, /* accuracy_usec= */ 1, on_settle, agent);
        agent->on_ready = on_ready;
        agent->userdata = userdata;
        if (text_copy(options->images_dir, &agent->images_path) < 0 ||
            text_copy(options->node_name, &agent->node_name) < 0)
                return -ENOMEM;

        agent->removes_pins = options->removes_pins;
        for (const Step *step = agent->removes_pins ? steps_to_remove_pins : steps; *step; step++) {
                r = (*step)(agent, options, reterr);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(agent);
        return 0;
}

Agent *agent_free(Agent *agent) {
        if (!agent)
                return NULL;

        http_server_free(agent->http);
        timer_done(&agent->serve);
        error_done(&agent->http_error);
        free(agent->metrics_address);
        agent->api = api_free(agent->api);
        agent->write_check = write_check_free(agent->write_check);
        agent->probes = probes_free(agent->probes);
        agent->recreate = recreate_free(agent->recreate);
        agent->inplace = inplace_free(agent->inplace);
        agent->pod_waits = pod_waits_free(agent->pod_waits);
        agent->pods = pods_free(agent->pods);
        agent->stops = stops_free(agent->stops);
        agent->places = places_free(agent->places);
        agent->kubelet = kubelet_free(agent->kubelet);
        folder_free(agent->folder);
        state_file_free(agent->state_file);
        if (agent->cluster)
                cluster_stop(agent->cluster);
        agent->presence = presence_free(agent->presence);
        agent->pins = pins_free(agent->pins);
        images_free(agent->images);
        agent->cluster = cluster_free(agent->cluster);
        auth_free(agent->auth);
        credential_providers_free(agent->providers);
        docker_config_free(agent->docker);
        auth_dir_free(agent->auth_dir);
        agent_files_free(agent->files);
        runtimes_free(agent->runtimes);
        completion_queue_free(agent->completions);
        timer_done(&agent->settle); /* the parts may have started them until now */
        timer_done(&agent->notify);
        timer_done(&agent->trim);
        metrics_free(agent->metrics);
        for (SocketRight right = 0; right < _RIGHT_MAX; right++)
                free(agent->missing_groups[right]);
        free(agent->images_path);
        free(agent->node_name);
        close_p(&agent->lock_fd);
        free(agent);
        return NULL;
}

void agent_set_configuration(Agent *agent, DiagnosisSource configuration) {
        agent->subject.configuration = configuration;
}

static bool is_open(const ImageRequest *request, const void *userdata) {
        return !request->is_done;
}

/* Ends all back-offs, since a person may have repaired the cause. */
int agent_reload(Agent *agent, const Options *options) {
        const ImagesLimits limits = get_limits(options);
        int r;

        r = images_set_limits(agent->images, &limits);
        if (r >= 0)
                r = presence_verify(agent->presence);
        if (r >= 0)
                r = pins_set_limit(agent->pins, &options->max_pinned);
        if (r >= 0 && agent->pod_waits)
                r = pod_waits_set_limit(agent->pod_waits, get_longest_pause(options));
        if (r < 0)
                return r;

        metrics_count(agent->metrics, METRIC_CONFIG_RELOADS, true);
        r = agent_files_log(agent->files, agent->log);
        if (r < 0)
                return r;

        r = agent->folder ? folder_rescan(agent->folder) : 0;
        if (r < 0)
                return r;

        r = images_retry(agent->images, is_open, NULL);
        if (r < 0)
                return r;

        return runtimes_try(agent->runtimes);
}

void agent_reload_failed(Agent *agent) {
        metrics_count(agent->metrics, METRIC_CONFIG_RELOADS, false);
}
