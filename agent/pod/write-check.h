/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks whether the API server limits this agent to its node
 *
 * Roles do not know nodes; the policies of packaging/kubernetes do, unless they are missing or do not
 * know the account. So the agent tries writes that it must not do: a minute after it was started,
 * then each day, and soon again where one was not refused. All are dry runs, which change nothing even
 * where they are allowed. What is found is logged when it changes, and is a metric.
 */

#include "agent/base/diagnosis-visitor.h"
#include "agent/pod/context.h"

typedef struct WriteCheck WriteCheck;

/* The context is borrowed. */
int write_check_new(const PodContext *context, WriteCheck **ret);
/* Takes NULL. Returns NULL. */
WriteCheck *write_check_free(WriteCheck *check);

/* A problem if a write was not refused; else nothing. */
int write_check_visit(const WriteCheck *check, const DiagnosisVisitor *visitor);
