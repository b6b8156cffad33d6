/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/write-check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/kube/access.h"
#include "agent/kube/lease-spec.h"
#include "agent/kube/path.h"
#include "agent/pod/write-check-spec.h"

#define GROUP "apps.kruise.io"
#define ADVICE                                                                               \
        "apply packaging/kubernetes/policy, and the policies of its components, which need " \
        "Kubernetes 1.30; they know accounts by \"inplaced\" in their names"
#define LABEL(key) "{\"metadata\":{\"labels\":{\"" key "\":\"dry-run\"}}}"
/* The plugin NodeRestriction refuses this one to kubelets, whose identity the agent may have. */
#define NODE_LABEL "node-restriction.kubernetes.io/inplaced-write-check"

struct WriteCheck {
        const PodContext *context;
        Timer timer;
        KubeCall *call;     /* pending call; NULL: none */
        WriteTarget target; /* target of the write that was tried last */
        size_t version;     /* index of the version of NodeImages that was served last */
        WriteVerdict verdicts[_WRITE_TARGET_MAX];
};

DEFINE_CLEANUP(WriteCheck *, write_check_free)

/* Newer first. */
static const char *const versions[] = { "v1beta1", "v1alpha1" };

/* Results */

static void measure(const WriteCheck *check) {
        static const char *const labels[_WRITE_TARGET_MAX] = {
                [WRITE_TARGET_POD] = "pods",
                [WRITE_TARGET_NODE_IMAGE] = "nodeimages",
                [WRITE_TARGET_NODE] = "nodes",
                [WRITE_TARGET_LEASE] = "leases",
        };

        for (WriteTarget target = 0; target < _WRITE_TARGET_MAX; target++)
                if (check->verdicts[target] != WRITE_VERDICT_UNKNOWN)
                        metrics_set(check->context->metrics, METRIC_WRITES_LIMITED,
                                    METRIC_LABELS(labels[target]),
                                    check->verdicts[target] == WRITE_VERDICT_REFUSED);
}

/* An inconclusive answer leaves the known verdict. */
static int note(WriteCheck *check, WriteTarget target, WriteVerdict verdict) {
        cleanup(free_p) char *before = NULL;
        cleanup(free_p) char *now = NULL;

        if (verdict == WRITE_VERDICT_UNKNOWN)
                return 0;

        if (write_check_describe(check->verdicts, &before) < 0)
                return -ENOMEM;
        check->verdicts[target] = verdict;
        if (write_check_describe(check->verdicts, &now) < 0)
                return -ENOMEM;
        if (text_equal(now, before))
                return 0;

        if (now)
                log_warning(check->context->log, NULL,
                            "The API server lets the agent %s, which it must not: %s.", now,
                            ADVICE);
        else
                log_info(check->context->log, NULL,
                         "The API server limits the agent to its node now.");
        check->context->on_changed(check->context->userdata);
        return 0;
}

static int finish(WriteCheck *check) {
        measure(check);
        return timer_start(&check->timer, write_check_pause_usec(check->verdicts, random_number()));
}

/* The requests, one after the other */

static int ask(WriteCheck *check, const KubePath *path, KubeRequest request) {
        cleanup(free_p) char *text = NULL;
        int r;

        r = kube_path_format(path, &text);
        if (r < 0)
                return r;

        request.path = text;
        request.userdata = check;
        return kube_call(check->context->client, &request, &check->call);
}

static int on_tried(const KubeReply *reply, const Error *error, void *userdata);

/* The server should refuse it, so it does not count among the failed requests. */
static int try_write(WriteCheck *check, WriteTarget target, const KubePath *path,
                     const char *body) {
        check->target = target;
        return ask(check, path,
                   (KubeRequest){ .method = "PATCH",
                                  .accept = KUBE_METADATA_ONLY,
                                  .content_type = KUBE_MERGE_PATCH,
                                  .body = body,
                                  .on_replied = on_tried });
}

/* Any other one in the namespace of the slots, by which other programs may be led. */
static int try_lease(WriteCheck *check) {
        const char *namespace =
                kube_access_namespace(kube_client_access(check->context->client)) ?: "default";
        KubePath path = lease_path(namespace);

        path.query = "dryRun=All";
        check->target = WRITE_TARGET_LEASE;
        return ask(check, &path,
                   (KubeRequest){ .method = "POST",
                                  .accept = KUBE_METADATA_ONLY,
                                  .content_type = KUBE_JSON,
                                  .body = "{\"apiVersion\":\"coordination.k8s.io/v1\","
                                          "\"kind\":\"Lease\","
                                          "\"metadata\":{\"name\":\"inplaced-write-check\"}}",
                                  .on_replied = on_tried });
}

static int try_node(WriteCheck *check) {
        return try_write(check, WRITE_TARGET_NODE,
                         &(KubePath){ .version = "v1",
                                      .resource = "nodes",
                                      .name = check->context->node_name,
                                      .subresource = "status",
                                      .query = "dryRun=All" },
                         LABEL(NODE_LABEL));
}

static int on_listed(const KubeReply *reply, const Error *error, void *userdata) {
        cleanup(free_p) char *name = NULL;
        WriteCheck *check = userdata;
        int r = 0;

        check->call = kube_call_unref(check->call);
        if (reply->code == 404)
                check->version = (check->version + 1) % (sizeof(versions) / sizeof(versions[0]));
        if (!error)
                r = write_check_find_other(reply->body, reply->size, check->context->node_name,
                                           &name);
        if (r < 0 || !name)
                return r < 0 ? r : try_node(check);

        return try_write(check, WRITE_TARGET_NODE_IMAGE,
                         &(KubePath){ .group = GROUP,
                                      .version = versions[check->version],
                                      .resource = "nodeimages",
                                      .name = name,
                                      .subresource = "status",
                                      .query = "dryRun=All" },
                         "{}");
}

/* Lists two, since one of them may be this node's. */
static int list_node_images(WriteCheck *check) {
        return ask(check,
                   &(KubePath){ .group = GROUP,
                                .version = versions[check->version],
                                .resource = "nodeimages",
                                .query = "limit=2" },
                   (KubeRequest){ .verb = "list",
                                  .method = "GET",
                                  .accept = KUBE_METADATA_LIST,
                                  .on_replied = on_listed });
}

static int on_tried(const KubeReply *reply, const Error *error, void *userdata) {
        static int (*const next[_WRITE_TARGET_MAX])(WriteCheck *) = {
                [WRITE_TARGET_POD] = list_node_images,
                [WRITE_TARGET_NODE_IMAGE] = try_node,
                [WRITE_TARGET_NODE] = try_lease,
                [WRITE_TARGET_LEASE] = finish,
        };
        WriteCheck *check = userdata;
        int r;

        check->call = kube_call_unref(check->call);
        r = note(check, check->target, write_check_judge(reply->code));
        return r < 0 ? r : next[check->target](check);
}

static int on_timer(void *userdata) {
        WriteCheck *check = userdata;
        const Pods *pods = check->context->pods;
        const Pod *pod = pods_count(pods) > 0 ? pods_get(pods, 0) : NULL;

        if (!pods_are_synced(pods))
                return timer_start(&check->timer, WRITE_CHECK_START_USEC);
        if (!pod)
                return list_node_images(check);

        return try_write(check, WRITE_TARGET_POD,
                         &(KubePath){ .version = "v1",
                                      .namespace = pod->namespace,
                                      .resource = "pods",
                                      .name = pod->name,
                                      .subresource = "status",
                                      .query = "dryRun=All" },
                         LABEL("inplaced.io/write-check"));
}

/* Life cycle */

int write_check_new(const PodContext *context, WriteCheck **ret) {
        cleanup(write_check_free_p) WriteCheck *check = NULL;
        int r;

        check = malloc(sizeof(*check));
        if (!check)
                return -ENOMEM;

        *check = (WriteCheck){ .context = context };
        timer_init(&check->timer, context->event, 0, on_timer, check);
        r = timer_start(&check->timer, WRITE_CHECK_START_USEC);
        if (r < 0)
                return r;

        *ret = take_ptr(check);
        return 0;
}

WriteCheck *write_check_free(WriteCheck *check) {
        if (!check)
                return NULL;

        kube_call_unref(check->call);
        timer_done(&check->timer);
        free(check);
        return NULL;
}

int write_check_visit(const WriteCheck *check, const DiagnosisVisitor *visitor) {
        cleanup(free_p) char *found = NULL;
        cleanup(free_p) char *text = NULL;

        if (write_check_describe(check->verdicts, &found) < 0)
                return -ENOMEM;
        if (!found)
                return 0;
        if (text_format(&text, "the API server lets the agent %s, which it must not", found) < 0)
                return -ENOMEM;

        return visitor->on_problem("limits", text, ADVICE, visitor->userdata);
}
