/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/discovery.h"

#include <assert.h>
#include <errno.h>
#include <json-c/json_object.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/slice.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"

#define REPLY_MAX ((size_t) 1 << 20)
#define DISCOVERY_VERSIONS_MAX 32

/* Documents of discovery: meta/v1 APIGroup and APIResourceList */

/* Parses the text and finds its list, which is NULL if it is missing. */
static int read_list(const char *text, size_t size, const char *key, json_object **ret_root,
                     json_object **ret_list, Error *reterr) {
        cleanup(json_object_put_p) json_object *root = NULL;
        int r;

        r = json_parse(text, size, &root, reterr);
        if (r < 0)
                return r;
        if (!json_object_is_type(root, json_type_object))
                return json_refuse_type(NULL, root, "an object", reterr);

        r = json_read_list(root, NULL, key, ret_list, reterr);
        if (r < 0)
                return r;

        *ret_root = take_ptr(root);
        return 0;
}

/* Reads a text member of one item. */
static int read_item(json_object *list, const char *list_key, size_t i, const char *key,
                     const char **ret, Error *reterr) {
        const JsonPath list_path = { .key = list_key };
        const JsonPath path = { .parent = &list_path, .index = i };
        json_object *item = json_object_array_get_idx(list, i);

        if (!json_object_is_type(item, json_type_object))
                return json_refuse_type(&path, item, "an object", reterr);

        return json_read_string(item, &path, key, ret, reterr);
}

static uint32_t find_version(const char *const *versions, const char *version) {
        for (size_t i = 0; version && versions[i] && i < DISCOVERY_VERSIONS_MAX; i++)
                if (strcmp(versions[i], version) == 0)
                        return (uint32_t) 1 << i;

        return 0;
}

/* Finds the requested versions, a list that ends with NULL, in the group: bit i is for the i-th. */
static int read_group(const char *text, size_t size, const char *const *versions,
                      uint32_t *ret_served, Error *reterr) {
        cleanup(json_object_put_p) json_object *root = NULL;
        json_object *list = NULL;
        uint32_t served = 0;
        int r;

        r = read_list(text, size, "versions", &root, &list, reterr);
        if (r < 0)
                return r;

        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                const char *version;

                r = read_item(list, "versions", i, "version", &version, reterr);
                if (r < 0)
                        return r;

                served |= find_version(versions, version);
        }

        *ret_served = served;
        return 0;
}

/* Whether the list has the resource, and also its subresource "status". */
static int read_resources(const char *text, size_t size, const char *resource, bool *ret_is_served,
                          Error *reterr) {
        cleanup(json_object_put_p) json_object *root = NULL;
        bool has_resource = false, has_status = false;
        json_object *list = NULL;
        int r;

        r = read_list(text, size, "resources", &root, &list, reterr);
        if (r < 0)
                return r;

        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                const char *name;

                r = read_item(list, "resources", i, "name", &name, reterr);
                if (r < 0)
                        return r;
                if (!name || !slice_starts_with(slice(name), resource))
                        continue;

                has_resource = has_resource || strcmp(name, resource) == 0;
                has_status = has_status || strcmp(name + strlen(resource), "/status") == 0;
        }

        *ret_is_served = has_resource && has_status;
        return 0;
}

/* The requests */

struct KubeDiscovery {
        KubeClient *client;
        const char *group;
        const char *const *versions;
        const char *resource;
        KubeDiscovered on_discovered;
        void *userdata;

        KubeCall *call;
        uint32_t served; /* versions of the group */
        size_t at;       /* the version that is checked */
};

DEFINE_CLEANUP(KubeDiscovery *, kube_discovery_free)

static int discovery_try_next(KubeDiscovery *discovery);

static int discovery_finish(KubeDiscovery *discovery, const char *version, const Error *error) {
        return discovery->on_discovered(version, error, discovery->userdata);
}

/* Ends with an error that names the page of the server's invalid answer. */
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
                r = read_resources(reply->body, reply->size, discovery->resource, &is_served,
                                   &refusal);
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

        r = read_group(reply->body, reply->size, discovery->versions, &discovery->served, &refusal);
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
