/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/registration-api.h"

#include <assert.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/cleanup.h"
#include "agent/document/documents.h"
#include "agent/document/json-cleanup.h"
#include "agent/kube/path.h"
#include "agent/kube/retry.h"

#define GROUP "apps.kruise.io"
#define REFUSED_REST_USEC ((uint64_t) 60000000)

/* clang-format off */
static const struct {
        const char *verb;
        const char *method;
        const char *content_type;
        const char *resource; /* as a role names it */
} verbs[_REGISTRATION_VERB_MAX] = {
        [REGISTRATION_GET_NODE] = { "get",    "GET",   NULL,             "nodes"               },
        [REGISTRATION_CREATE]   = { "create", "POST",  KUBE_JSON,        "nodeimages." GROUP   },
        [REGISTRATION_PATCH]    = { "patch",  "PATCH", KUBE_MERGE_PATCH, "nodeimages." GROUP   },
};
/* clang-format on */

void registration_api_done(RegistrationApi *api) {
        for (RegistrationVerb verb = 0; verb < _REGISTRATION_VERB_MAX; verb++)
                free(api->paths[verb]);
        free(api->version);
        free(api->node_name);
        *api = REGISTRATION_API_INIT;
}

static int format_paths(RegistrationApi *api) {
        const KubePath paths[_REGISTRATION_VERB_MAX] = {
                [REGISTRATION_GET_NODE] = { .version = "v1",
                                            .resource = "nodes",
                                            .name = api->node_name },
                [REGISTRATION_CREATE] = { .group = GROUP,
                                          .version = api->version,
                                          .resource = "nodeimages" },
                [REGISTRATION_PATCH] = { .group = GROUP,
                                         .version = api->version,
                                         .resource = "nodeimages",
                                         .name = api->node_name },
        };
        int r;

        for (RegistrationVerb verb = 0; verb < _REGISTRATION_VERB_MAX; verb++) {
                r = kube_path_format(&paths[verb], &api->paths[verb]);
                if (r < 0)
                        return r;
        }

        return 0;
}

int registration_api_init(RegistrationApi *api, KubeClient *client, const char *version,
                          const char *node_name) {
        int r;

        *api = (RegistrationApi){
                .client = client,
                .node_name = strdup(node_name),
                .version = strdup(version),
        };

        r = api->node_name && api->version ? format_paths(api) : -ENOMEM;
        if (r < 0)
                registration_api_done(api);
        return r;
}

int registration_api_call(const RegistrationApi *api, RegistrationVerb verb,
                          struct json_object *body, KubeReplied on_replied, void *userdata,
                          KubeCall **ret) {
        KubeRequest request = {
                .verb = verbs[verb].verb,
                .method = verbs[verb].method,
                .path = api->paths[verb],
                .accept = KUBE_METADATA_ONLY,
                .content_type = verbs[verb].content_type,
                .on_replied = on_replied,
                .userdata = userdata,
        };

        if (body) {
                request.body =
                        json_object_to_json_string_ext(body,
                                                       JSON_C_TO_STRING_PLAIN |
                                                               JSON_C_TO_STRING_NOSLASHESCAPE);
                if (!request.body)
                        return -ENOMEM;
        }

        return kube_call(api->client, &request, ret);
}

int registration_api_read_node(const KubeReply *reply, struct json_object **ret, Error *reterr) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = documents_parse(reply->body, reply->size, &documents, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (r < 0 || documents.n_items != 1 ||
            !json_object_is_type(documents.items[0], json_type_object))
                return error_set(reterr, ERROR_INVALID, "what the server sent is no Node: %s",
                                 r < 0 ? error_message(&error) : "it is no JSON object");

        *ret = json_object_get(documents.items[0]);
        return 0;
}

void registration_api_explain(const RegistrationApi *api, RegistrationVerb verb,
                              const KubeReply *reply, const Error *error, Error *reterr) {
        const char *text = error_message(error);

        if (reply->code == 403)
                (void) error_set(reterr, error->kind, "the right to %s %s is missing: %s",
                                 verbs[verb].verb, verbs[verb].resource, text);
        else if (reply->code == 404 && verb == REGISTRATION_GET_NODE)
                (void) error_set(reterr, error->kind,
                                 "there is no Node `%s` to make a NodeImage for: %s",
                                 api->node_name, text);
        else
                (void) error_copy(reterr, error);
}

uint64_t registration_api_rest_usec(unsigned n_failures, const KubeReply *reply,
                                    const Error *error) {
        uint32_t random = 0;

        /* A node that is not there may be about to register itself. */
        if (!kube_is_retriable(reply, error) && error->kind != ERROR_NOT_FOUND)
                return REFUSED_REST_USEC;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        return kube_retry_usec(n_failures, reply, random);
}
