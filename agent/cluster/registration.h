/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes and maintains a NodeImage for this node, if no controller does
 *
 * If none appears for a while, the agent creates one with the Node as its owner and the Node's labels. As
 * long as it has the agent's label, the agent keeps the labels equal, notes its version in an annotation,
 * and does what a controller would do: removes tags whose time to live is over from the spec. It never
 * changes an object of another author.
 */

#include "agent/base/log.h"
#include "agent/kube/client.h"
#include "agent/kube/object.h"

typedef struct Registration Registration;

typedef struct RegistrationOptions {
        KubeClient *client;
        Log *log;
        const char *version;   /* discovered version of apps.kruise.io; copied */
        const char *node_name; /* copied */
        uint64_t grace_usec;   /* time for a controller to make it; 0: the default, 5 s */
        uint64_t labels_usec;  /* mean period of reading the Node's labels; 0: the default, 5 min */
} RegistrationOptions;

int registration_new(const RegistrationOptions *options, Registration **ret);
Registration *registration_free(Registration *registration);

/* Takes the object from the watch, borrowed, or NULL if there is none. Only after the watch has
 * synced. */
int registration_on_object(Registration *registration, const KubeObject *object);

/* Why it could not be created or kept, or unset. */
const Error *registration_error(const Registration *registration);

/* Ends the back-off, since the server is known to answer. */
int registration_kick(Registration *registration);
