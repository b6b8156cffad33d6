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

/* Whether an APIResourceList of meta/v1 has the resource, and its subresource "status". */
static int read_resources(json_object *list, const char *resource, bool *ret_has_resource,
                          bool *ret_has_status, Error *reterr) {
        const JsonPath list_path = { .key = "resources" };
        json_object *items;
        int r;

        r = json_check_type(list, NULL, json_type_object, reterr)
                    ?: json_read_list(list, NULL, "resources", &items, reterr);
        for (size_t i = 0; r >= 0 && items && i < json_object_array_length(items); i++) {
                const JsonPath path = { .parent = &list_path, .index = i };
                json_object *item = json_object_array_get_idx(items, i);
                const char *name = NULL;

                r = json_check_type(item, &path, json_type_object, reterr)
                            ?: json_read_string(item, &path, "name", &name, reterr);
                if (r < 0 || !name || !slice_starts_with(slice(name), resource))
                        continue;

                name += strlen(resource);
                *ret_has_resource = *ret_has_resource || !name[0];
                *ret_has_status = *ret_has_status || strcmp(name, "/status") == 0;
        }

        return r;
}

const char *kube_questions_next(KubeQuestions *questions) {
        const char *version =
                questions->n_asked > 0 ? questions->kind.versions[questions->n_asked - 1] : NULL;

        if (questions->version || (questions->n_asked > 0 && !version))
                return NULL;

        questions->n_asked++;
        (void) snprintf(questions->path, sizeof(questions->path), "/apis/%s%s%s",
                        questions->kind.group, version ? "/" : "", version ?: "");
        return questions->path;
}

static int read_answer(KubeQuestions *questions, json_object *answer, Error *reterr) {
        const char *version = questions->kind.versions[questions->n_asked - 2];
        bool has_resource = false, has_status = false;
        int r;

        r = read_resources(answer, questions->kind.resource, &has_resource, &has_status, reterr);
        if (r < 0)
                return r;

        if (has_resource && (has_status || !questions->kind.needs_status))
                questions->version = version;
        return 0;
}

int kube_questions_take(KubeQuestions *questions, json_object *answer, Error *reterr) {
        static const char *const none = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        /* Without the group there are no versions. */
        if (questions->n_asked == 1 && !answer)
                questions->kind.versions = &none;
        if (questions->n_asked == 1 || !answer)
                return 0;

        r = read_answer(questions, answer, &error);
        return error.kind == ERROR_NONE ? r
                                        : error_set(reterr, error.kind, "GET %s: %s",
                                                    questions->path, error_message(&error));
}

struct KubeDiscovery {
        KubeClient *client;
        KubeQuestions questions;
        KubeDiscovered on_discovered;
        void *userdata;
        KubeCall *call;
};

DEFINE_CLEANUP(KubeDiscovery *, kube_discovery_free)

static int discovery_ask(KubeDiscovery *discovery, const char *path);

static int discovery_go_on(KubeDiscovery *discovery) {
        const char *path = kube_questions_next(&discovery->questions);

        return path ? discovery_ask(discovery, path)
                    : discovery->on_discovered(discovery->questions.version, NULL,
                                               discovery->userdata);
}

static int discovery_take(KubeDiscovery *discovery, const KubeReply *reply, Error *reterr) {
        cleanup(json_object_put_p) json_object *answer = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = json_parse(reply->body, reply->size, &answer, &error);
        if (error.kind != ERROR_NONE)
                return error_set(reterr, error.kind, "GET %s: %s", discovery->questions.path,
                                 error_message(&error));

        return r < 0 ? r : kube_questions_take(&discovery->questions, answer, reterr);
}

static int on_answered(const KubeReply *reply, const Error *error, void *userdata) {
        cleanup(error_done) Error refusal = ERROR_INIT;
        KubeDiscovery *discovery = userdata;
        int r;

        discovery->call = kube_call_unref(discovery->call);
        if (error && error->kind != ERROR_NOT_FOUND)
                return discovery->on_discovered(NULL, error, discovery->userdata);

        r = error ? kube_questions_take(&discovery->questions, NULL, &refusal)
                  : discovery_take(discovery, reply, &refusal);
        if (refusal.kind != ERROR_NONE)
                return discovery->on_discovered(NULL, &refusal, discovery->userdata);

        return r < 0 ? r : discovery_go_on(discovery);
}

static int discovery_ask(KubeDiscovery *discovery, const char *path) {
        return kube_call(discovery->client,
                         &(KubeRequest){
                                 .verb = "get",
                                 .method = "GET",
                                 .path = path,
                                 .reply_max = REPLY_MAX,
                                 .on_replied = on_answered,
                                 .userdata = discovery,
                         },
                         &discovery->call);
}

int kube_discover(KubeClient *client, const KubeKind *kind, KubeDiscovered on_discovered,
                  void *userdata, KubeDiscovery **ret) {
        cleanup(kube_discovery_free_p) KubeDiscovery *discovery = NULL;
        int r;

        assert(kind->group && kind->group[0]);

        discovery = malloc(sizeof(*discovery));
        if (!discovery)
                return -ENOMEM;

        *discovery = (KubeDiscovery){
                .client = client,
                .questions = { .kind = *kind },
                .on_discovered = on_discovered,
                .userdata = userdata,
        };
        r = discovery_go_on(discovery);
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
