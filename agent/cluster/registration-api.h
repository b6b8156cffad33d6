/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the registration asks of the API server
 *
 * Three requests, and what it means if they are refused. Only metadata is asked for in return: a
 * whole Node is large.
 */

#include <json-c/json_types.h>

#include "agent/kube/client.h"

typedef enum RegistrationVerb {
        REGISTRATION_GET_NODE,
        REGISTRATION_CREATE, /* the NodeImage */
        REGISTRATION_PATCH,  /* the NodeImage; a merge patch */
        _REGISTRATION_VERB_MAX,
} RegistrationVerb;

typedef struct RegistrationApi {
        KubeClient *client; /* borrowed */
        char *node_name;
        char *version;
        char *paths[_REGISTRATION_VERB_MAX];
} RegistrationApi;

#define REGISTRATION_API_INIT ((RegistrationApi){ .client = NULL })

/* The client has to outlive it; the texts are copied. */
int registration_api_init(RegistrationApi *api, KubeClient *client, const char *version,
                          const char *node_name);
void registration_api_done(RegistrationApi *api);

/* body is NULL for a GET; borrowed. See kube_call(). */
int registration_api_call(const RegistrationApi *api, RegistrationVerb verb,
                          struct json_object *body, KubeReplied on_replied, void *userdata,
                          KubeCall **ret);

/* The Node that came. The caller owns *ret. Refuses what is no JSON object. */
int registration_api_read_node(const KubeReply *reply, struct json_object **ret, Error *reterr);

/* One line for a person, with what is missing, from the error of a call; *reterr must be unset. */
void registration_api_explain(const RegistrationApi *api, RegistrationVerb verb,
                              const KubeReply *reply, const Error *error, Error *reterr);

/* How long to wait after the n-th failure in a row. What will not end by itself is tried rarely. */
uint64_t registration_api_rest_usec(unsigned n_failures, const KubeReply *reply,
                                    const Error *error);
