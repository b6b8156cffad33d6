/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/agent-pods.h"

#include <errno.h>
#include <stdio.h>

#include "agent/base/cleanup.h"

#define RIGHTS "give the agent the rights of packaging/kubernetes/rbac.yaml"

static void on_stopped(const char *owner, StopResult result, uint64_t duration_usec,
                       void *userdata) {
        AgentPods *pods = userdata;

        agent_metrics_on_stopped(owner, result, duration_usec, pods->metrics);
}

static void on_watch_restart(void *userdata) {
        AgentPods *pods = userdata;

        agent_metrics_on_watch_restart(pods->metrics);
}

static void on_changed(void *userdata) {
        AgentPods *pods = userdata;

        pods->on_changed(pods->userdata);
}

static void on_pod_written(const Error *error, void *userdata) {
        AgentPods *pods = userdata;

        agent_metrics_on_pod_written(error, pods->metrics);
        on_changed(pods);
}

static void on_request_written(const Error *error, void *userdata) {
        AgentPods *pods = userdata;

        agent_metrics_on_request_written(error, pods->metrics);
}

static void on_completed(bool is_success, void *userdata) {
        AgentPods *pods = userdata;

        agent_metrics_on_recreated(is_success, pods->metrics);
}

/* The first thing that is wrong with what is watched or written; NULL: nothing. That nobody answers
 * at all is said elsewhere. */
static const Error *find_trouble(const AgentPods *pods) {
        const Error *errors[] = { pods_error(pods->pods), recreate_error(pods->recreate),
                                  meta_error(pods->meta) };

        for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
                if (errors[i]->kind == ERROR_DENIED || errors[i]->kind == ERROR_INVALID)
                        return errors[i];

        return NULL;
}

static bool is_ready(const void *source, const char **ret_why) {
        const Error *trouble = find_trouble(source);

        if (trouble)
                *ret_why = error_message(trouble);
        return !trouble;
}

static int visit(const void *source, const DiagnosisVisitor *visitor) {
        const AgentPods *pods = source;
        const Error *trouble = find_trouble(pods);
        cleanup(free_p) char *text = NULL;
        int r;

        if (trouble)
                return visitor->on_problem("pods", error_message(trouble),
                                           trouble->kind == ERROR_DENIED ? RIGHTS
                                                                         : "it is tried again",
                                           visitor->userdata);

        if (asprintf(&text, "%zu of this node are %s", pods_count(pods->pods),
                     pods_are_synced(pods->pods) ? "watched" : "known") < 0) {
                text = NULL;
                return -ENOMEM;
        }

        r = visitor->on_fact("pods", text, visitor->userdata);
        if (r < 0)
                return r;

        return visitor->on_fact("restart requests",
                                recreate_version(pods->recreate)
                                        ? "ContainerRecreateRequests are served"
                                        : "none; the API server has no ContainerRecreateRequests",
                                visitor->userdata);
}

static int add_stops(AgentPods *pods, sd_event *event, Log *log, const Options *options,
                     Cluster *cluster, Runtimes *runtimes, Error *reterr) {
        const KubeletOptions kubelet = {
                .event = event,
                .address = options->kubelet_address,
                .client = pods->client,
                .node_name = options->node_name,
        };
        StopsOptions stops = {
                .event = event,
                .log = log,
                .runtimes = runtimes,
                .events = cluster ? cluster_events(cluster) : NULL,
                .state_dir = options->state_dir,
                .on_stopped = on_stopped,
                .userdata = pods,
        };
        int r;

        r = kubelet_new(&kubelet, &pods->kubelet, reterr);
        if (r < 0)
                return r;

        stops.kubelet = pods->kubelet;
        return stops_new(&stops, &pods->stops);
}

static int add_pods(AgentPods *pods, Log *log, const Options *options) {
        const PodsOptions watched = {
                .client = pods->client,
                .log = log,
                .node_name = options->node_name,
                .on_restart = on_watch_restart,
                .on_changed = on_changed,
                .userdata = pods,
        };

        return pods_new(&watched, &pods->pods);
}

static int add_meta(AgentPods *pods, sd_event *event, Log *log, const Options *options,
                    Cluster *cluster, Runtimes *runtimes) {
        const MetaOptions meta = {
                .event = event,
                .log = log,
                .client = pods->client,
                .events = cluster_events(cluster),
                .pods = pods->pods,
                .runtimes = runtimes,
                .stops = pods->stops,
                .has_condition = options->has_pod_condition,
                .on_written = on_pod_written,
                .on_changed = on_changed,
                .userdata = pods,
        };

        return meta_new(&meta, &pods->meta);
}

static int add_recreate(AgentPods *pods, sd_event *event, Log *log, const Options *options,
                        Cluster *cluster, Runtimes *runtimes) {
        const RecreateOptions recreate = {
                .event = event,
                .log = log,
                .client = pods->client,
                .events = cluster_events(cluster),
                .pods = pods->pods,
                .runtimes = runtimes,
                .stops = pods->stops,
                .node_name = options->node_name,
                .on_restart = on_watch_restart,
                .on_written = on_request_written,
                .on_completed = on_completed,
                .on_changed = on_changed,
                .userdata = pods,
        };

        return recreate_new(&recreate, &pods->recreate);
}

int agent_pods_init(AgentPods *pods, sd_event *event, Log *log, const Options *options,
                    Cluster *cluster, Runtimes *runtimes, DiagnosisSubject *subject,
                    Error *reterr) {
        int r;

        pods->client = cluster ? cluster_client(cluster) : NULL;
        r = add_stops(pods, event, log, options, cluster, runtimes, reterr);
        if (r < 0 || !cluster)
                return r;

        r = add_pods(pods, log, options);
        if (r < 0)
                return r;

        r = add_meta(pods, event, log, options, cluster, runtimes);
        if (r < 0)
                return r;

        r = add_recreate(pods, event, log, options, cluster, runtimes);
        if (r < 0)
                return r;

        subject->pods = (DiagnosisSource){ .visit = visit, .is_ready = is_ready, .source = pods };
        return 0;
}

void agent_pods_done(AgentPods *pods) {
        pods->recreate = recreate_free(pods->recreate);
        pods->meta = meta_free(pods->meta);
        pods->pods = pods_free(pods->pods);
        pods->stops = stops_free(pods->stops);
        pods->kubelet = kubelet_free(pods->kubelet);
}

int agent_pods_runtime_changed(AgentPods *pods) {
        int r;

        r = pods->stops ? stops_runtime_changed(pods->stops) : 0;
        if (r >= 0 && pods->meta)
                r = meta_runtime_changed(pods->meta);
        if (r >= 0 && pods->recreate)
                r = recreate_runtime_changed(pods->recreate);
        return r;
}

int agent_pods_image_changed(AgentPods *pods, const Image *image) {
        return pods->meta ? meta_image_changed(pods->meta, image_key(image)) : 0;
}

int agent_pods_kick(AgentPods *pods) {
        int r;

        r = pods->pods ? pods_kick(pods->pods) : 0;
        if (r >= 0 && pods->meta)
                r = meta_kick(pods->meta);
        if (r >= 0 && pods->recreate)
                r = recreate_kick(pods->recreate);
        return r;
}
