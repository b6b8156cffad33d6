/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/agent-api.h"
#include "agent/agent-auth.h"
#include "agent/agent-cluster.h"
#include "agent/agent-files.h"
#include "agent/agent-http.h"
#include "agent/agent-log.h"
#include "agent/agent-metrics.h"
#include "agent/agent-notify.h"
#include "agent/agent-pods.h"
#include "agent/agent-runtimes.h"
#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/node/folder.h"
#include "agent/node/state-file.h"

#define USEC_PER_SEC ((uint64_t) 1000000)

/* How long the answer of a runtime is waited for before saying that we are ready. */
#define SETTLE_USEC ((uint64_t) 40 * 1000)

struct Agent {
        sd_event *event;
        Log *log;
        AgentReady on_ready;
        void *userdata;
        char *images_path;
        DiagnosisSubject subject;
        AgentMetrics metrics;

        CompletionQueue *completions;
        Runtimes *runtimes;
        AgentAuth auth;
        AgentFiles *files;
        AgentCluster cluster;
        Images *images;
        ImagesWatcher watcher;
        StateFile *state_file;
        Folder *folder; /* NULL in a cluster */
        AgentPods pods;
        AgentApi api;
        AgentHttp *http;
        AgentNotify *notify;
        sd_event_source *settle; /* runs until it is known which runtimes are there */
};

DEFINE_CLEANUP(Agent *, agent_free)

static int on_image(Image *image, void *userdata) {
        Agent *agent = userdata;

        return agent_notify_later(agent->notify);
}

static int agent_settle(Agent *agent) {
        agent->settle = sd_event_source_disable_unref(agent->settle);
        agent_log_silence(agent->log, agent->runtimes);
        agent->on_ready(agent->userdata);
        return agent_notify_later(agent->notify);
}

static int on_settle(sd_event_source *source, uint64_t usec, void *userdata) {
        return agent_settle(userdata);
}

static int on_runtime_changed(Runtime *runtime, void *userdata) {
        Agent *agent = userdata;
        int r;

        agent_log_runtime(agent->log, agent->runtimes, runtime);
        r = images_runtime_changed(agent->images);
        if (r < 0)
                return r;

        r = agent_pods_runtime_changed(&agent->pods);
        if (r < 0)
                return r;

        r = state_file_touch(agent->state_file);
        if (r < 0)
                return r;

        if (agent->settle && runtimes_are_settled(agent->runtimes))
                return agent_settle(agent);

        return agent_notify_later(agent->notify);
}

static void on_cri_call(const RpcMethod *method, uint64_t duration_usec, ErrorKind result,
                        void *userdata) {
        Agent *agent = userdata;

        agent_metrics_on_cri_call(method, duration_usec, result, &agent->metrics);
}

static int agent_add_ground(Agent *agent, const Options *options, Error *reterr) {
        int r;

        r = agent_metrics_init(&agent->metrics, &agent->subject);
        if (r < 0)
                return r;

        return completion_queue_new(agent->event, &agent->completions);
}

static int agent_add_runtimes(Agent *agent, const Options *options, Error *reterr) {
        const RuntimesOptions runtimes = {
                .on_changed = on_runtime_changed,
                .on_call = on_cri_call,
                .userdata = agent,
        };
        int r;

        r = agent_runtimes_new(agent->completions, options, &runtimes, &agent->runtimes);
        agent->subject.runtimes = agent->runtimes;
        return r;
}

static void on_outcome(const Image *image, const ImageStatus *status, void *userdata) {
        Agent *agent = userdata;

        agent_metrics_on_outcome(status, &agent->metrics);
        (void) agent_pods_image_changed(&agent->pods, image);
}

static void on_served(const Image *image, const Want *want, void *userdata) {
        Agent *agent = userdata;

        agent_cluster_on_served(image, want, &agent->cluster);
}

static int agent_add_images(Agent *agent, const Options *options, Error *reterr) {
        const ImagesOptions images = {
                .completions = agent->completions,
                .log = agent->log,
                .runtimes = agent->runtimes,
                .max_parallel_pulls = (unsigned) options->max_parallel_pulls,
                .stall_usec = (uint64_t) options->stall_timeout_sec * USEC_PER_SEC,
                .keys = auth_source(agent->auth.auth),
                .on_outcome = on_outcome,
                .on_served = on_served,
                .outcome_userdata = agent,
        };
        int r;

        r = images_new(&images, &agent->images);
        if (r < 0)
                return r;

        agent->subject.images = agent->images;
        agent->watcher = (ImagesWatcher){ .on_image = on_image, .userdata = agent };
        images_watch(agent->images, &agent->watcher);
        return 0;
}

static const char *get_runtime_sentence(void *userdata) {
        return diagnosis_runtime_sentence(((const Agent *) userdata)->runtimes);
}

static void on_state_written(int result, void *userdata) {
        Agent *agent = userdata;

        agent_metrics_on_written(result, &agent->metrics);
}

static int agent_add_state_file(Agent *agent, const Options *options, Error *reterr) {
        const StateFileOptions state_file = {
                .event = agent->event,
                .log = agent->log,
                .images = agent->images,
                .directory = options->state_dir,
                .node_name = options->node_name,
                .in_cluster = agent->cluster.cluster,
                .get_runtime = get_runtime_sentence,
                .on_written = on_state_written,
                .userdata = agent,
        };
        int r;

        r = state_file_new(&state_file, &agent->state_file);
        if (r < 0)
                return r;

        agent->subject.state_file = agent->state_file;
        return 0;
}

static void on_source_changed(void *userdata) {
        Agent *agent = userdata;

        (void) agent_notify_later(agent->notify);
}

static void on_reachable(void *userdata) {
        Agent *agent = userdata;

        (void) agent_pods_kick(&agent->pods);
}

static int agent_add_files(Agent *agent, const Options *options) {
        int r;

        r = agent_files_new(options, agent->auth.docker, &agent->files);
        if (r < 0)
                return r;

        agent->subject.files = agent_files_diagnosis(agent->files);
        return agent_files_log(agent->files, agent->log);
}

static int agent_add_auth(Agent *agent, const Options *options, Error *reterr) {
        int r;

        r = agent_auth_init(&agent->auth, agent->event, agent->log, options);
        if (r < 0)
                return r;

        agent->subject.auth_dir = agent->auth.dir;
        r = agent_add_files(agent, options);
        if (r < 0)
                return r;

        agent->cluster = (AgentCluster){
                .metrics = &agent->metrics,
                .on_changed = on_source_changed,
                .on_reachable = on_reachable,
                .userdata = agent,
        };
        return agent_cluster_init(&agent->cluster, agent->event, agent->log, options,
                                  &agent->subject, agent->auth.auth, reterr);
}

static int agent_add_folder(Agent *agent, const Options *options) {
        const FolderOptions folder = {
                .event = agent->event,
                .log = agent->log,
                .images = agent->images,
                .path = options->images_dir,
                .on_changed = on_source_changed,
                .userdata = agent,
        };
        int r;

        r = folder_new(&folder, &agent->folder);
        if (r < 0)
                return r;

        agent->subject.folder = agent->folder;
        agent->subject.images_path = agent->images_path;
        images_restore_end(agent->images);
        return 0;
}

/* Where wishes come from, besides the local API. */
static int agent_add_source(Agent *agent, const Options *options, Error *reterr) {
        if (agent->cluster.cluster)
                return cluster_start(agent->cluster.cluster, agent->images);

        return agent_add_folder(agent, options);
}

static int agent_add_pods(Agent *agent, const Options *options, Error *reterr) {
        agent->pods = (AgentPods){
                .metrics = &agent->metrics,
                .on_changed = on_source_changed,
                .userdata = agent,
        };
        agent->metrics.pods = &agent->pods;
        return agent_pods_init(&agent->pods, agent->event, agent->log, options,
                               agent->cluster.cluster, agent->runtimes, &agent->subject, reterr);
}

static int agent_add_api(Agent *agent, const Options *options, Error *reterr) {
        const ApiOptions parts = {
                .completions = agent->completions,
                .log = agent->log,
                .images = agent->images,
                .runtimes = agent->runtimes,
                .stops = agent->pods.stops,
                .pods = agent->pods.pods,
                .meta = agent->pods.meta,
                .subject = &agent->subject,
                .state_file = agent->state_file,
        };

        agent->api = (AgentApi){
                .metrics = &agent->metrics,
                .on_changed = on_source_changed,
                .userdata = agent,
        };
        return agent_api_init(&agent->api, &parts, options, reterr);
}

static int agent_add_http(Agent *agent, const Options *options, Error *reterr) {
        return agent_http_new(agent->event, agent->log, options->metrics_address, &agent->metrics,
                              &agent->http);
}

static int agent_add_notify(Agent *agent, const Options *options, Error *reterr) {
        int r;

        r = agent_notify_new(agent->event, agent->images, agent->runtimes, &agent->notify);
        if (r < 0)
                return r;

        return sd_event_set_watchdog(agent->event, true);
}

static int agent_look_for_runtimes(Agent *agent, const Options *options, Error *reterr) {
        int r;

        r = runtimes_try(agent->runtimes);
        if (r < 0)
                return r;

        return loop_add_time_relative(agent->event, &agent->settle, CLOCK_MONOTONIC,
                                      runtimes_are_settled(agent->runtimes) ? 0 : SETTLE_USEC, 1,
                                      on_settle, agent);
}

/* The order is that of the dependencies; what the agent has done before is known before anybody can
 * ask for something. */
static int (*const steps[])(Agent *agent, const Options *options, Error *reterr) = {
        agent_add_ground,     agent_add_runtimes, agent_add_auth,          agent_add_images,
        agent_add_state_file, agent_add_source,   agent_add_pods,          agent_add_api,
        agent_add_http,       agent_add_notify,   agent_look_for_runtimes,
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
        agent->on_ready = on_ready;
        agent->userdata = userdata;
        agent->images_path = strdup(options->images_dir);
        if (!agent->images_path)
                return -ENOMEM;

        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
                r = steps[i](agent, options, reterr);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(agent);
        return 0;
}

Agent *agent_free(Agent *agent) {
        if (!agent)
                return NULL;

        sd_event_source_disable_unref(agent->settle);
        agent->notify = agent_notify_free(agent->notify);
        agent_http_free(agent->http);
        agent_api_done(&agent->api);
        agent_pods_done(&agent->pods);
        folder_free(agent->folder);
        state_file_free(agent->state_file);
        if (agent->cluster.cluster)
                cluster_stop(agent->cluster.cluster);
        images_free(agent->images);
        agent_cluster_done(&agent->cluster);
        agent_auth_done(&agent->auth);
        agent_files_free(agent->files);
        runtimes_free(agent->runtimes);
        completion_queue_free(agent->completions);
        agent_metrics_done(&agent->metrics);
        free(agent->images_path);
        free(agent);
        return NULL;
}

int agent_reload(Agent *agent, const Options *options) {
        int r;

        images_set_limits(agent->images, (unsigned) options->max_parallel_pulls,
                          (uint64_t) options->stall_timeout_sec * USEC_PER_SEC);
        agent_metrics_on_reload(&agent->metrics, true);
        r = agent_files_log(agent->files, agent->log);
        if (r < 0)
                return r;

        r = agent->folder ? folder_rescan(agent->folder) : 0;
        if (r < 0)
                return r;

        return runtimes_try(agent->runtimes);
}

void agent_reload_failed(Agent *agent) {
        agent_metrics_on_reload(&agent->metrics, false);
}
