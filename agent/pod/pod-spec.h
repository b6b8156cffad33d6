/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A pod from the bytes that the API server sends (core/v1 Pod as protobuf, without its envelope)
 *
 * Tenants write annotations: the one with the UID of a static pod counts only if a Node owns the pod and its
 * source is a file or a URL.
 */

#include "agent/base/error.h"
#include "agent/pod/pod.h"

/* Kubernetes' limit of all annotations together; a longer text is refused. */
#define POD_ANNOTATIONS_SIZE_MAX ((size_t) 256 << 10)

/* The caller owns *ret. */
int pod_spec_parse(const uint8_t *bytes, size_t size, Pod **ret, Error *reterr);
