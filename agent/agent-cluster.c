/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/agent-cluster.h"

static void on_called(const char *verb, int code, uint64_t duration_usec, void *userdata) {
        AgentCluster *cluster = userdata;

        agent_metrics_on_api_call(verb, code, duration_usec, cluster->metrics);
}

static void on_watch_restart(void *userdata) {
        AgentCluster *cluster = userdata;

        agent_metrics_on_watch_restart(cluster->metrics);
}

static void on_written(const Error *error, void *userdata) {
        AgentCluster *cluster = userdata;

        agent_metrics_on_reported(error, cluster->metrics);
}

static void on_changed(void *userdata) {
        AgentCluster *cluster = userdata;

        cluster->on_changed(cluster->userdata);
}

static void on_reachable(void *userdata) {
        AgentCluster *cluster = userdata;

        cluster->on_reachable(cluster->userdata);
}

static bool is_cluster(const Options *options) {
        if (options->mode == MODE_AUTO)
                return options->kubeconfig || kube_access_is_pod(NULL);

        return options->mode == MODE_CLUSTER;
}

int agent_cluster_init(AgentCluster *cluster, sd_event *event, Log *log, const Options *options,
                       DiagnosisSubject *subject, Auth *auth, Error *reterr) {

        const KubeAccessOptions access = {
                .kubeconfig = options->kubeconfig,
                .context = options->kubeconfig_context,
        };
        const ClusterOptions cluster_options = {
                .event = event,
                .log = log,
                .node_name = options->node_name,
                .access = &access,
                .must_register = options->must_register,
                .on_called = on_called,
                .on_watch_restart = on_watch_restart,
                .on_written = on_written,
                .on_changed = on_changed,
                .on_reachable = on_reachable,
                .userdata = cluster,
        };

        int r;

        if (!is_cluster(options))
                return 0;

        r = cluster_new(&cluster_options, &cluster->cluster, reterr);
        if (r < 0)
                return r;

        auth_set_secrets(auth, cluster_secrets(cluster->cluster));
        subject->cluster = cluster_diagnosis(cluster->cluster);
        return 0;
}

void agent_cluster_on_served(const Image *image, const Want *want, void *userdata) {
        AgentCluster *cluster = userdata;

        if (cluster->cluster)
                cluster_on_served(image, want, cluster->cluster);
}

void agent_cluster_done(AgentCluster *cluster) {
        cluster->cluster = cluster_free(cluster->cluster);
}
