/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/discovery.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/kube/discovery-spec.h"

#define REPLY_MAX ((size_t) 1 << 20)

struct KubeDiscovery {
        KubeClient *client;
        const char *group;
        const char *const *versions;
        const char *resource;
        KubeDiscovered on_discovered;
        void *userdata;

        KubeCall *call;
        uint32_t served; /* versions of the group */
        size_t at;       /* the version that is looked at */
};

DEFINE_CLEANUP(KubeDiscovery *, kube_discovery_free)

static int discovery_try_next(KubeDiscovery *discovery);

static int discovery_finish(KubeDiscovery *discovery, const char *version, const Error *error) {
        return discovery->on_discovered(version, error, discovery->userdata);
}

/* What the server says makes no sense: which of its pages it was belongs into the message. */
static int discovery_refuse(KubeDiscovery *discovery, const char *version, const Error *cause) {
        cleanup(error_done) Error error = ERROR_INIT;

        (void) error_set(&error, cause->kind, "GET /apis/%s%s%s: %s", discovery->group,
                         version ? "/" : "", version ?: "", error_message(cause));
        return discovery_finish(discovery, NULL, &error);
}

static int discovery_ask(KubeDiscovery *discovery, const char *version, KubeReplied on_replied) {
        cleanup(free_p) char *path = NULL;

        if (asprintf(&path, "/apis/%s%s%s", discovery->group, version ? "/" : "", version ?: "") <
            0) {
                path = NULL;
                return -ENOMEM;
        }

        return kube_call(discovery->client,
                         &(KubeRequest){
                                 .verb = "get",
                                 .method = "GET",
                                 .path = path,
                                 .reply_max = REPLY_MAX,
                                 .on_replied = on_replied,
                                 .userdata = discovery,
                         },
                         &discovery->call);
}

static int on_resources(const KubeReply *reply, const Error *error, void *userdata) {
        cleanup(error_done) Error refusal = ERROR_INIT;
        KubeDiscovery *discovery = userdata;
        const char *version = discovery->versions[discovery->at];
        bool is_served = false;
        int r;

        discovery->call = kube_call_unref(discovery->call);
        /* Not found: it was served a moment ago. */
        if (error && error->kind != ERROR_NOT_FOUND)
                return discovery_finish(discovery, NULL, error);

        if (!error) {
                r = discovery_spec_read_resources(reply->body, reply->size, discovery->resource,
                                                  &is_served, &refusal);
                if (r < 0 && refusal.kind == ERROR_NONE)
                        return r;
                if (r < 0)
                        return discovery_refuse(discovery, version, &refusal);
        }

        if (is_served)
                return discovery_finish(discovery, version, NULL);

        discovery->at++;
        return discovery_try_next(discovery);
}

static int discovery_try_next(KubeDiscovery *discovery) {
        for (; discovery->versions[discovery->at]; discovery->at++)
                if (discovery->served & (uint32_t) 1 << discovery->at)
                        return discovery_ask(discovery, discovery->versions[discovery->at],
                                             on_resources);

        return discovery_finish(discovery, NULL, NULL);
}

static int on_group(const KubeReply *reply, const Error *error, void *userdata) {
        cleanup(error_done) Error refusal = ERROR_INIT;
        KubeDiscovery *discovery = userdata;
        int r;

        discovery->call = kube_call_unref(discovery->call);
        /* Not found: the group is not installed. */
        if (error)
                return discovery_finish(discovery, NULL,
                                        error->kind == ERROR_NOT_FOUND ? NULL : error);

        r = discovery_spec_read_group(reply->body, reply->size, discovery->versions,
                                      &discovery->served, &refusal);
        if (r < 0 && refusal.kind == ERROR_NONE)
                return r;
        if (r < 0)
                return discovery_refuse(discovery, NULL, &refusal);

        return discovery_try_next(discovery);
}

int kube_discover(KubeClient *client, const char *group, const char *const *versions,
                  const char *resource, KubeDiscovered on_discovered, void *userdata,
                  KubeDiscovery **ret) {
        cleanup(kube_discovery_free_p) KubeDiscovery *discovery = NULL;
        int r;

        assert(group && group[0]);
        for (size_t i = 0; versions[i]; i++)
                assert(i < DISCOVERY_VERSIONS_MAX);

        discovery = malloc(sizeof(*discovery));
        if (!discovery)
                return -ENOMEM;

        *discovery = (KubeDiscovery){
                .client = client,
                .group = group,
                .versions = versions,
                .resource = resource,
                .on_discovered = on_discovered,
                .userdata = userdata,
        };
        r = discovery_ask(discovery, NULL, on_group);
        if (r < 0)
                return r;

        *ret = take_ptr(discovery);
        return 0;
}

KubeDiscovery *kube_discovery_free(KubeDiscovery *discovery) {
        if (!discovery)
                return NULL;

        discovery->call = kube_call_unref(discovery->call);
        free(discovery);
        return NULL;
}
