/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Hashes over parts of a container, as Kubernetes and OpenKruise compute them
 *
 * Both are FNV-1a (32 bit) over a JSON text in the spelling of Go's encoding/json, each byte of it
 * written in decimal as Go prints a slice of bytes. They end up in the annotation
 * apps.kruise.io/runtime-containers-meta, where controllers compare them, so each bit counts.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/slice.h"

/* The hash of a container without variables that are made from labels or annotations. */
#define ENV_HASH_NONE ((uint32_t) 86995377)

typedef struct EnvValue {
        const char *name;
        const char *value; /* "" if it is not set */
} EnvValue;

/* In the order of the names; values of the same name keep theirs. */
int env_hash(const EnvValue *values, size_t n_values, uint32_t *ret);

/* "metadata.labels['app']" → label, app. False for any other field: the controllers' hash leaves it
 * out as well. The key is borrowed from the path. */
bool env_hash_parse_field(const char *path, bool *ret_is_label, Slice *ret_key);

/* Variables of these names never count. */
bool env_hash_skips(const char *name);

/* Hashes name and image, as kubelets since 1.31 do for io.kubernetes.container.hash. */
uint32_t plain_hash(const char *name, const char *image);
