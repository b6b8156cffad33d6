/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Restarts for changed configuration: what the controller reads and does, see config-plan.h
 *
 * Pods are watched, and of ConfigMaps and Secrets the metadata alone; one that a pod uses is read when its version changes, and
 * only keyed hashes of its values are kept. The ledger, and the key of the hashes, are in a Secret in the namespace of the
 * session, so that the next controller knows what has changed meanwhile. No container is restarted for a change that is
 * not written there.
 */

#include "agent/base/log.h"
#include "agent/kube/event.h"
#include "agent/kubectl/flags.h"
#include "agent/kubectl/own-run.h"
#include "agent/kubectl/session.h"

#define CONFIG_WATCHES 3
#define CONFIG_RUNS_MAX 4 /* at a time; each takes about 10 MB */

typedef struct ConfigRestarts ConfigRestarts;

/* All are borrowed. */
typedef struct ConfigRestartsOptions {
        Session *session;
        const Flags *flags;
        Log *log;
        KubeEvents *events;
        /* 1: the controller updates this "KIND/NAME", or is about to; 0: it does not, but a person may. */
        int (*is_updated)(const char *workload, const char *namespace, void *userdata);
        void *userdata;
} ConfigRestartsOptions;

int config_restarts_new(const ConfigRestartsOptions *options, ConfigRestarts **ret);
/* Ends the runs; what they have begun is not taken back. */
ConfigRestarts *config_restarts_free(ConfigRestarts *restarts);

/* Fills CONFIG_WATCHES watches. namespace: NULL: all; borrowed. */
void config_restarts_watches(ConfigRestarts *restarts, const char *namespace, SessionWatch *ret);

/* restarts: may be NULL. */
bool config_restarts_is_due(const ConfigRestarts *restarts);
/* Starts the restarts that are due. Call it only while the watches have synced and this controller
 * leads. Repeats later what the server refuses. */
int config_restarts_turn(ConfigRestarts *restarts, Error *reterr);

/* An update in place of this "KIND/NAME" is open, by the controller or by a person: ends a restart of its containers. restarts: may be
 * NULL. */
int config_restarts_end(ConfigRestarts *restarts, const char *workload, const char *namespace);

/* Lists the runs that are under way, and returns their number. restarts: may be NULL. */
size_t config_restarts_runs(const ConfigRestarts *restarts, OwnRun ret[static CONFIG_RUNS_MAX]);
