/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Restarts for changed configuration: decides which containers run with an older ConfigMap or Secret than there is
 *
 * A pod takes part by CONFIG_ANNOTATION. A container uses the keys from which its environment is made, and those that it has
 * mounted by subPath: neither is refreshed while it runs. The ledger knows of each object that is used the keyed hash of
 * each key, and when it has changed. A container that was started before that, or so shortly after it that its kubelet may not
 * have known the change, runs with the older value. A change stays in the ledger until it is carried out everywhere, and a
 * key that is gone until then, or as long as a container names it. Pure.
 *
 * The ledger: {"configmap/NAMESPACE/NAME": {KEY: {"mac", "gone", "changed", "toggled", "before", "since"}}}, where the
 * key "" is the object itself. Times are in seconds; those, and what was before, are there as long as a change is.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/siphash.h"

#define CONFIG_ANNOTATION "inplaced.io/restart-on-config-change"

/* A pod that takes part, without anything that is not needed here. */
typedef struct ConfigPod {
        char *key; /* "NAMESPACE/NAME" */
        char *namespace, *name, *uid;
        char *workload;    /* "deployment.apps/web"; "pod/web-0" if it is in none of a known kind */
        char *group;       /* key of its group */
        json_object *uses; /* {container: [{"of", "key", "prefix", "hidden", "optional"}]} */
        json_object *
                statuses; /* {container: {"began", "started", "ready", "last_started", "last_ended"}} */
        json_object *served; /* {container: time of a change that was carried out} */
} ConfigPod;

/* *ret: NULL: the pod takes no part. */
int config_pod_new(json_object *json, ConfigPod **ret);
ConfigPod *config_pod_free(ConfigPod *pod);

/* Shows the keys in the ledger of each object that the pod uses, some of them several times. */
int config_pod_objects(const ConfigPod *pod, int (*on_object)(const char *of, void *userdata),
                       void *userdata);

/* Whether it is a ledger, as far as its types go. The functions below need one. */
bool config_is_ledger(json_object *ledger);

/* An object as it is now. */
typedef struct ConfigState {
        const char *of;        /* key of the object in the ledger */
        json_object *object;   /* NULL: there is none */
        const uint8_t *secret; /* SIPHASH_KEY_SIZE bytes */
        int64_t now_sec;
        bool is_watched; /* a change has come now; without this it may be older */
} ConfigState;

/* Notes the object in the ledger. Nothing is a change that is noted for the first time. Returns 1 if the ledger has changed, 0,
 * or -ENOMEM. */
int config_note(json_object *ledger, const ConfigState *state);

/* Removes objects until the text of the ledger has at most size_max bytes: the largest ones of the namespace that takes most of
 * it. Adds their keys to `removed`, a list. */
int config_trim(json_object *ledger, size_t size_max, json_object *removed);

/* The ledger has a change that is not carried out yet. */
bool config_has_changes(json_object *ledger);
/* Whether this object of the ledger, which may be NULL, is there and has such a change. */
bool config_is_changing(json_object *entry);

typedef struct ConfigPlan {
        json_object *
                groups; /* {"NAMESPACE WORKLOAD": {"namespace", "workload", "containers", "pods", "changed", "cause", "newest",
                                 "waits"}}; newest: the latest change of all its pods; waits: a pod that was restarted for it is not ready, or its container has failed.
                                 Pods of a controller of another kind are one group as well, "NAMESPACE KIND/NAME", which has one pod at a time. */
        json_object *
                pending; /* {"configmap/NAMESPACE/NAME": true}: a change is not carried out everywhere */
        json_object *named; /* {"configmap/NAMESPACE/NAME": {KEY: true}}: containers name the key */
} ConfigPlan;

/* Which containers are to be restarted now; those of a group are the same in all its pods. delay_sec: how long after a change a
 * kubelet may still start containers with the value before. */
int config_plan(ConfigPod *const *pods, size_t n_pods, json_object *ledger, int64_t delay_sec,
                int64_t now_sec, ConfigPlan *ret);
void config_plan_done(ConfigPlan *plan);

/* Removes changes that are carried out everywhere, and keys that are gone. Returns 1 if there were any, or 0. */
int config_settle(json_object *ledger, const ConfigPlan *plan, int64_t delay_sec, int64_t now_sec);
