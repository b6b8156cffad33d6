/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A diagnosis of the node without the agent
 */

#include "agent/base/error.h"
#include "cri/discover.h"
#include "proto/inplaced/v1/node.pb-c.h"

/* A diagnosis in the form of the agent's: the sockets of runtimes are facts, and the unreachable
 * agent is a problem. */
typedef struct LocalDiagnosis {
        Inplaced__V1__DiagnoseResponse response; /* borrows from the next fields */
        Inplaced__V1__Fact facts[DISCOVER_SOCKETS_MAX];
        Inplaced__V1__Fact *fact_list[DISCOVER_SOCKETS_MAX];
        Inplaced__V1__Problem problems[2];
        Inplaced__V1__Problem *problem_list[2];
} LocalDiagnosis;

/* sockets ends with NULL; it and the error are borrowed. *ret must stay where it is. */
void doctor_local_diagnose(const char *const *sockets, const Error *unreachable,
                           LocalDiagnosis *ret);
