/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Updates in place that have begun and have not ended
 *
 * Workloads that this user may not list are left out.
 */

#include <json-c/json_types.h>
#include <stdbool.h>

#include "agent/kubectl/session.h"

/* labels: a selector; only updates of workloads with such a pod; NULL: all. A workload that is held for an update which has
 * not begun has the state "held", one whose record cannot be read "unreadable"; both have neither user nor images.
 * Appends {"kind", "namespace", "name", "by", "since", "state", "reason", "before", "after", "updated", "pods", "text"} of
 * each workload of the namespace, NULL: of all, to the list. The last but one two are missing where this user
 * may not read the pods; the reason is there where a declared update does not go on. */
int open_updates_of_namespace(Session *session, const char *namespace, const char *labels,
                              json_object *list, Error *reterr);
/* The same of one workload, "deployment/web". */
int open_updates_of_workload(Session *session, const char *workload, json_object *list,
                             Error *reterr);
/* A run of the command can go on with this item of the list. */
bool open_update_can_go_on(json_object *update);
