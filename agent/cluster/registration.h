/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A NodeImage of our own, where no controller makes them
 *
 * When none appears for this node for a while, one is created, with the Node as its owner and the
 * Node's labels. As long as it is ours (it carries our label) the labels are kept the same, an
 * annotation says which version of the agent keeps it, and what a controller would do is done: tags whose time to live is over leave the spec. An object that
 * another author made is never changed.
 */

#include "agent/base/log.h"
#include "agent/kube/client.h"
#include "agent/kube/object.h"

typedef struct Registration Registration;

typedef struct RegistrationOptions {
        KubeClient *client;
        Log *log;
        const char *version;   /* of apps.kruise.io, as discovered; copied */
        const char *node_name; /* copied */
        uint64_t grace_usec;   /* how long a controller has time to make it; 0: the default, 5 s */
        uint64_t labels_usec;  /* how often the Node's labels are read; 0: the default, 5 min */
} RegistrationOptions;

int registration_new(const RegistrationOptions *options, Registration **ret);
Registration *registration_free(Registration *registration);

/* What the watch says: the object, borrowed, or NULL if there is none. Only after the watch has
 * shown everything. */
int registration_on_object(Registration *registration, const KubeObject *object);

/* The object is one that we made. */
bool registration_is_ours(const Registration *registration);

/* Why it could not be created or kept, or unset. */
const Error *registration_error(const Registration *registration);

/* Does not wait any longer if it is backing off: the server is known to answer. */
int registration_kick(Registration *registration);
