/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Looks after a NodeImage of our own
 *
 * Its labels are those of the Node, which is looked at from time to time; and tags whose time to
 * live is over leave its spec. Every change is of the object as it was last seen: when somebody else
 * was quicker the server refuses it, and the next object decides anew.
 */

#include "agent/base/log.h"
#include "agent/cluster/registration-api.h"

typedef struct RegistrationKeep RegistrationKeep;

/* api and log are borrowed. labels_usec: how often to look at the Node's labels. */
int registration_keep_new(const RegistrationApi *api, Log *log, uint64_t labels_usec,
                          RegistrationKeep **ret);
RegistrationKeep *registration_keep_free(RegistrationKeep *keep);

/* The object as it is now, of which a reference is kept; NULL: there is none, or it is not ours. The
 * labels are looked at when one appears. */
int registration_keep_set_object(RegistrationKeep *keep, struct json_object *object);

/* Why it could not be kept, or unset. */
const Error *registration_keep_error(const RegistrationKeep *keep);

/* Does not wait any longer after a failure. */
int registration_keep_kick(RegistrationKeep *keep);
