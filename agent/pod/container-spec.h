/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The containers of a pod, from its message: part of pod-spec.h
 */

#include "agent/base/error.h"
#include "agent/kube/protobuf.h"
#include "agent/pod/pod.h"

/* Fills pod->containers, which is empty. The message has metadata, whose labels and annotations are
 * sorted here, and a spec. What was read before something is refused stays. */
int container_spec_read(const KubePod *message, Pod *pod, Error *reterr);

/* What the status says of them. Of two that have the same name, the last one counts; of containers
 * that the spec does not have, none. */
int container_spec_read_status(const KubePod *message, Pod *pod, Error *reterr);
