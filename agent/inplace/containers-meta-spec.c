/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/containers-meta-spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/pod/pod.h"

#define DEPTH_MAX 8
#define TEXT_MAX ((size_t) 256 * 1024) /* limit of an object's annotations together */

/* Takes a negative number as 0. */
static uint64_t get_number(json_object *object, const char *key) {
        json_object *value = json_get(object, key, json_type_int);

        return value ? json_object_get_uint64(value) : 0;
}

static int add_json(ContainersMeta *meta, json_object *json) {
        json_object *hashes = json_get(json, "hashes", json_type_object);
        uint64_t restart_count = get_number(json, "restartCount");
        const ContainersMetaEntry entry = {
                .name = (char *) (json_get_text(json, "name") ?: ""),
                .container_id = (char *) (json_get_text(json, "containerID") ?: ""),
                .restart_count = restart_count <= UINT32_MAX ? (uint32_t) restart_count : 0,
                .plain_hash = get_number(hashes, "plainHash"),
                .env_hash = get_number(hashes, "extractedEnvFromMetadataHash"),
        };

        return entry.name[0] ? containers_meta_add(meta, &entry) : 0;
}

int containers_meta_parse(const char *text, ContainersMeta *ret) {
        const JsonLimits limits = { .size = TEXT_MAX, .depth = DEPTH_MAX };
        cleanup(json_object_put_p) json_object *json = NULL;
        cleanup(containers_meta_done) ContainersMeta meta = CONTAINERS_META_INIT;
        json_object *list;
        size_t n;
        int r = text ? json_parse_any(text, strnlen(text, TEXT_MAX + 1), limits, &json) : 0;

        list = json_get(json, "containers", json_type_array);
        n = list ? json_object_array_length(list) : 0;
        for (size_t i = 0; r >= 0 && i < n && i < POD_CONTAINERS_MAX; i++)
                r = add_json(&meta, json_object_array_get_idx(list, i));
        if (r < 0)
                return r;

        *ret = meta;
        meta = CONTAINERS_META_INIT;
        return 0;
}

void containers_meta_done(ContainersMeta *meta) {
        for (size_t i = 0; i < meta->n_items; i++) {
                free(meta->items[i].name);
                free(meta->items[i].container_id);
        }
        free(meta->items);
        *meta = CONTAINERS_META_INIT;
}

int containers_meta_add(ContainersMeta *meta, const ContainersMetaEntry *entry) {
        ContainersMetaEntry *copy;

        if (array_grow(&meta->items, meta->n_items, sizeof(*copy)) < 0)
                return -ENOMEM;

        copy = &meta->items[meta->n_items];
        *copy = *entry;
        copy->name = strdup(entry->name);
        copy->container_id = strdup(entry->container_id);
        meta->n_items++;
        return copy->name && copy->container_id ? 0 : -ENOMEM;
}

const ContainersMetaEntry *containers_meta_find(const ContainersMeta *meta, const char *name) {
        for (size_t i = 0; i < meta->n_items; i++)
                if (strcmp(meta->items[i].name, name) == 0)
                        return &meta->items[i];

        return NULL;
}

static bool entry_equal(const ContainersMetaEntry *a, const ContainersMetaEntry *b) {
        return strcmp(a->name, b->name) == 0 && strcmp(a->container_id, b->container_id) == 0 &&
               a->restart_count == b->restart_count && a->plain_hash == b->plain_hash &&
               a->env_hash == b->env_hash;
}

bool containers_meta_equal(const ContainersMeta *a, const ContainersMeta *b) {
        if (a->n_items != b->n_items)
                return false;

        for (size_t i = 0; i < a->n_items; i++)
                if (!entry_equal(&a->items[i], &b->items[i]))
                        return false;

        return true;
}

static json_object *hashes_to_json(const ContainersMetaEntry *entry) {
        cleanup(json_object_put_p) json_object *json = json_object_new_object();

        if (patch_add(json, "plainHash", json_object_new_uint64(entry->plain_hash)) < 0)
                return NULL;
        if (entry->env_hash != 0 && patch_add(json, "extractedEnvFromMetadataHash",
                                              json_object_new_uint64(entry->env_hash)) < 0)
                return NULL;

        return take_ptr(json);
}

static json_object *entry_to_json(const ContainersMetaEntry *entry) {
        cleanup(json_object_put_p) json_object *json = json_object_new_object();

        if (patch_add_text(json, "name", entry->name) < 0 ||
            patch_add_text(json, "containerID", entry->container_id) < 0 ||
            patch_add_number(json, "restartCount", entry->restart_count) < 0 ||
            patch_add(json, "hashes", hashes_to_json(entry)) < 0)
                return NULL;

        return take_ptr(json);
}

int containers_meta_write(const ContainersMeta *meta, char **ret) {
        cleanup(json_object_put_p) json_object *json = json_object_new_object();
        json_object *list = json_object_new_array();

        if (patch_add(json, "containers", list) < 0)
                return -ENOMEM;

        for (size_t i = 0; i < meta->n_items; i++) {
                int r = patch_append(list, entry_to_json(&meta->items[i]));

                if (r < 0)
                        return r;
        }

        return json_copy_text(json, ret);
}
