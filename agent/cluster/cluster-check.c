/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether the NodeImage is what the watch has shown
 *
 * After the cluster's store was restored from a backup, the server takes a watch from a version that is
 * not there any more and shows nothing. One that was not started again even lists what it remembers of
 * the lost future. Only a GET of the object is sure to be answered by the store.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/cluster/cluster-internal.h"
#include "agent/kube/path.h"
#include "agent/kube/watch-message.h"

static int cluster_take_object(Cluster *cluster, const KubeObject *object) {
        const char *known = desired_resource_version(cluster->desired);
        int r;

        if (known && strcmp(object->resource_version, known) == 0)
                return 0;

        log_info(cluster->log, NULL,
                 "The NodeImage `%s` is not what the watch has shown: listing it anew.",
                 cluster->node_name);
        desired_on_list(cluster->desired);
        r = cluster_on_object(cluster, object);
        return r < 0 ? r : kube_watch_relist(cluster->watch);
}

/* A refusal is met again by the next write, which asks again. */
static int on_checked(const KubeReply *reply, const Error *error, void *userdata) {
        cleanup(watch_reader_done) WatchReader reader = WATCH_READER_INIT(false);
        cleanup(watch_event_done) WatchEvent event = WATCH_EVENT_INIT;
        cleanup(error_done) Error unread = ERROR_INIT;
        Cluster *cluster = userdata;
        int r;

        cluster->check = kube_call_unref(cluster->check);
        if (error)
                return error->kind == ERROR_NOT_FOUND ? kube_watch_relist(cluster->watch) : 0;

        r = watch_object_read(&reader, (Slice){ .data = reply->body, .size = reply->size }, &event,
                              &unread);
        if (r < 0)
                return unread.kind == ERROR_NONE ? r : 0;

        return cluster_take_object(cluster, &event.object);
}

int cluster_check_object(Cluster *cluster) {
        const KubePath path = {
                .group = CLUSTER_GROUP,
                .version = cluster->version,
                .resource = "nodeimages",
                .name = cluster->node_name,
        };
        KubeRequest request = {
                .verb = "get",
                .method = "GET",
                .on_replied = on_checked,
                .userdata = cluster,
        };
        cleanup(free_p) char *text = NULL;
        int r;

        if (cluster->check)
                return 0;

        r = kube_path_format(&path, &text);
        if (r < 0)
                return r;

        request.path = text;
        return kube_call(cluster->client, &request, &cluster->check);
}
