/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/cluster/cluster-internal.h"

/* What stands between this node and the API server; NULL: nothing. */
static const char *find_obstacle(const Cluster *cluster) {
        const Error *trouble = kube_client_trouble(cluster->client);

        if (trouble && trouble->kind != ERROR_NONE)
                return error_message(trouble);
        if (cluster->absence.kind != ERROR_NONE)
                return error_message(&cluster->absence);
        if (!cluster->watch)
                return "waiting for the API server";
        if (kube_watch_state(cluster->watch) == KUBE_WATCH_TROUBLED)
                return error_message(kube_watch_error(cluster->watch));
        if (!cluster->was_synced)
                return "waiting for the list of NodeImages";

        return NULL;
}

static bool is_ready(const void *source, const char **ret_why) {
        const Cluster *cluster = source;
        const char *obstacle = find_obstacle(cluster);
        const Error *error = cluster->writer ? status_writer_error(cluster->writer) : NULL;

        if (!obstacle && error && error->kind != ERROR_NONE)
                obstacle = error_message(error);
        if (obstacle)
                *ret_why = obstacle;
        return !obstacle;
}

static const char *advice_for(const Cluster *cluster) {
        const Error *trouble = kube_client_trouble(cluster->client);

        if (trouble && trouble->kind == ERROR_DENIED)
                return "check the credentials and the certificate authority";
        if (cluster->absence.kind == ERROR_NOT_FOUND)
                return "install OpenKruise, or the CRDs of packaging/kubernetes/crds";
        if (cluster->watch && kube_watch_error(cluster->watch)->kind == ERROR_DENIED)
                return "give the agent the rights of packaging/kubernetes/rbac.yaml";

        return "pulls go on meanwhile, and are reported when it is there";
}

static int visit_server(const Cluster *cluster, const DiagnosisVisitor *visitor) {
        const char *obstacle = find_obstacle(cluster);

        if (obstacle)
                return visitor->on_problem("API server", obstacle, advice_for(cluster),
                                           visitor->userdata);

        return visitor->on_fact("API server", kube_client_target(cluster->client),
                                visitor->userdata);
}

static int visit_node_image(const Cluster *cluster, const DiagnosisVisitor *visitor) {
        const Error *error = desired_error(cluster->desired);
        cleanup(free_p) char *text = NULL;
        int n;

        if (error->kind != ERROR_NONE)
                return visitor->on_problem("NodeImage", error_message(error),
                                           "correct its spec; until then the rest of it "
                                           "counts, or the last good one",
                                           visitor->userdata);
        if (!cluster->was_synced)
                return 0;
        if (!desired_uid(cluster->desired))
                return visitor->on_fact("NodeImage",
                                        cluster->must_register
                                                ? "none yet, will be made"
                                                : "none yet; a controller or --register-node makes "
                                                  "it",
                                        visitor->userdata);

        n = asprintf(&text, "%s (%s), tags: %zu", desired_name(cluster->desired),
                     cluster->version ?: "?", desired_n_images(cluster->desired));
        if (n < 0) {
                text = NULL;
                return -ENOMEM;
        }

        return visitor->on_fact("NodeImage", text, visitor->userdata);
}

static int visit_error(const DiagnosisVisitor *visitor, const char *subject, const Error *error) {
        if (error->kind == ERROR_NONE)
                return 0;

        return visitor->on_problem(subject, error_message(error),
                                   error->kind == ERROR_DENIED ? "give the agent the rights of "
                                                                 "packaging/kubernetes/rbac.yaml"
                                                               : "it is tried again",
                                   visitor->userdata);
}

static int visit(const void *source, const DiagnosisVisitor *visitor) {
        const Cluster *cluster = source;
        int r;

        r = visit_server(cluster, visitor);
        if (r < 0)
                return r;

        r = visit_node_image(cluster, visitor);
        if (r >= 0 && cluster->writer)
                r = visit_error(visitor, "status of the NodeImage",
                                status_writer_error(cluster->writer));
        if (r >= 0 && cluster->registration)
                r = visit_error(visitor, "registration of the node",
                                registration_error(cluster->registration));
        return r;
}

static const char *target(const void *source) {
        const Cluster *cluster = source;

        return kube_client_target(cluster->client);
}

DiagnosisSource cluster_diagnosis(const Cluster *cluster) {
        return (DiagnosisSource){
                .visit = visit,
                .is_ready = is_ready,
                .target = target,
                .source = cluster,
        };
}
