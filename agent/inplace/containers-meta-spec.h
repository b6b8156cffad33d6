/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The annotation apps.kruise.io/runtime-containers-meta
 *
 * It maps the names of a pod's containers to the runtime's IDs and the hashes of what they were made
 * with. Controllers read it and compare the hashes, so the agent writes it byte for byte as they do.
 * Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ContainersMetaEntry {
        char *name;         /* owned */
        char *container_id; /* "containerd://…"; owned */
        uint32_t restart_count;
        uint64_t plain_hash;
        uint64_t env_hash; /* 0: unknown */
} ContainersMetaEntry;

typedef struct ContainersMeta {
        ContainersMetaEntry *items;
        size_t n_items;
} ContainersMeta;

#define CONTAINERS_META_INIT ((ContainersMeta){ .items = NULL })

/* NULL or a text of another kind gives no entries; an odd one gives those that make sense, up to
 * the limit of containers in a pod. */
int containers_meta_parse(const char *text, ContainersMeta *ret);
void containers_meta_done(ContainersMeta *meta);

/* Copies the texts. */
int containers_meta_add(ContainersMeta *meta, const ContainersMetaEntry *entry);

/* NULL: none of that name. */
const ContainersMetaEntry *containers_meta_find(const ContainersMeta *meta, const char *name);

/* Returns whether both have the same entries in the same order. */
bool containers_meta_equal(const ContainersMeta *a, const ContainersMeta *b);

/* Compact JSON; the caller owns *ret. */
int containers_meta_write(const ContainersMeta *meta, char **ret);
