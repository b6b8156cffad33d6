/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks of doctor, and groups of nodes with the same problem
 *
 * Pure. Texts are borrowed unless it says otherwise.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/kubectl/agents.h"

typedef struct DoctorKind {
        KubeKind kind;
        bool is_optional;
        const char *absence; /* consequence of the absence, or advice */
} DoctorKind;

extern const DoctorKind doctor_kinds[];
extern const size_t n_doctor_kinds;

/* Adds the name to the members of an object. Passes over nodes that run no containers of their own. node: the object, or
 * its metadata. */
int doctor_nodes_add(json_object *nodes, json_object *node);

/* Nodes with the same problem. */
typedef struct DoctorGroup {
        char *message;
        const char *advice;
        const char **nodes; /* keys of the nodes */
        size_t n_nodes;
} DoctorGroup;

typedef struct DoctorGroups {
        DoctorGroup *items;
        size_t n_items;
        size_t n_with_agent;         /* nodes whose agent answers, as far as is known */
        size_t n_traces;             /* nodes among them whose agent is known by its writes alone */
        int64_t wrote_at;            /* the oldest of these writes */
        size_t n_of_unknown_version; /* services of nodes whose NodeImage a controller has made */
        const char *version;         /* version of most agents; NULL: none is known */
} DoctorGroups;

#define DOCTOR_GROUPS_INIT ((DoctorGroups){ .items = NULL })

/* nodes: {name: null} */
int doctor_plan_nodes(json_object *nodes, const Agents *agents, DoctorGroups *ret);
void doctor_groups_done(DoctorGroups *groups);

/* Adds the node to those whose pods may run preloaded private images in the same way. configz: the answer of the kubelet. */
int doctor_plan_preloaded(json_object *configz, const char *node, DoctorGroups *groups);

/* The policies that limit agents to their nodes, see packaging/kubernetes/policy, and those of components, which come with a
 * right that needs one. */
typedef enum DoctorLimit {
        DOCTOR_LIMIT_RESOURCES,
        DOCTOR_LIMIT_PODS,
        DOCTOR_LIMIT_NODES,
        DOCTOR_LIMIT_LEASES,
        DOCTOR_LIMIT_PULL_VIEWERS,
        _DOCTOR_LIMIT_MAX,
} DoctorLimit;

typedef struct DoctorLimits {
        json_object *policies; /* {name: null} of those that are there; owned */
        bool is_there[_DOCTOR_LIMIT_MAX];
        bool is_enforced[_DOCTOR_LIMIT_MAX];
        bool is_needed[_DOCTOR_LIMIT_MAX]; /* the right of its component is granted */
} DoctorLimits;

int doctor_limits_add_policy(DoctorLimits *limits, json_object *policy);
/* Call it after all policies were added: a binding without its policy limits nothing. */
void doctor_limits_add_binding(DoctorLimits *limits, json_object *binding);
/* binding: a ClusterRoleBinding or RoleBinding, or its metadata. */
void doctor_limits_add_right(DoctorLimits *limits, json_object *binding);
/* "NodeImages", "NodeImages and pods"; NULL: all are limited. */
const char *doctor_limits_missing(const DoctorLimits *limits);
/* Name of the component that the policy comes with; NULL: none. */
const char *doctor_limit_component(DoctorLimit limit);
/* Describes a policy of a component that is missing, or is there and refuses nothing, and how to repair that. NULL: all is well.
 * The caller owns both. */
int doctor_limits_describe(const DoctorLimits *limits, DoctorLimit limit, char **ret_message,
                           char **ret_advice);

/* Adds the policy to {name: null} if it holds workloads for declared updates. */
int doctor_unbound_add_policy(json_object *unbound, json_object *policy);
/* Leaves those without a binding. Call it after all policies were added. */
void doctor_unbound_add_binding(json_object *unbound, json_object *binding);

/* "node-1, node-2 and 7 more"; the caller owns it. NULL: no memory. */
char *doctor_group_names(const DoctorGroup *group, size_t n_max);
