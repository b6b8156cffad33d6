/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/protobuf.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

/* Pods of a usual kind need about six times their size, and small messages more. */
#define UNPACKED_RATIO ((size_t) 24)
#define UNPACKED_MIN ((size_t) 64 << 10)

#define BLOCK_SIZE_MIN ((size_t) 1 << 10)
#define BLOCK_SIZE_MAX ((size_t) 64 << 10)
#define PART_ALIGNMENT sizeof(uint64_t)

static const char magic[4] = { 'k', '8', 's', '\0' };

/* A message and its parts lie in a few blocks and are freed together: separate allocations would
 * take as long as the parsing itself. */
typedef struct Block {
        struct Block *next;
        _Alignas(max_align_t) uint8_t data[];
} Block;

typedef struct Arena {
        Block *first; /* the message itself is at its beginning */
        uint8_t *free;
        size_t n_free; /* free bytes of the newest block */
        size_t block_size;
        size_t left; /* bytes that may still be taken */
        bool is_out_of_memory;
} Arena;

static void blocks_free(Block *block) {
        while (block) {
                Block *next = block->next;

                free(block);
                block = next;
        }
}

static bool arena_grow(Arena *arena, size_t size) {
        size_t n_data = size > arena->block_size ? size : arena->block_size;
        Block *block;

        block = malloc(sizeof(*block) + n_data);
        arena->is_out_of_memory = !block;
        if (!block)
                return false;

        block->next = NULL;
        if (arena->first) {
                block->next = arena->first->next;
                arena->first->next = block;
        } else {
                arena->first = block;
        }

        arena->free = block->data;
        arena->n_free = n_data;
        if (arena->block_size < BLOCK_SIZE_MAX)
                arena->block_size *= 2;
        return true;
}

static void *arena_take(void *userdata, size_t size) {
        Arena *arena = userdata;
        void *taken;

        if (size > arena->left)
                return NULL;

        size = (size + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
        if (size > arena->n_free && !arena_grow(arena, size))
                return NULL;

        taken = arena->free;
        arena->free += size;
        arena->n_free -= size;
        arena->left -= size < arena->left ? size : arena->left;
        return taken;
}

static void arena_leave(void *userdata, void *pointer) {
}

int kube_protobuf_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size,
                         ProtobufCMessage **ret, Error *reterr) {
        Arena arena = {
                .block_size = size + BLOCK_SIZE_MIN,
                .left = size * UNPACKED_RATIO + UNPACKED_MIN,
        };
        ProtobufCAllocator allocator = {
                .alloc = arena_take,
                .free = arena_leave,
                .allocator_data = &arena,
        };
        ProtobufCMessage *message;

        message = protobuf_c_message_unpack(type, &allocator, size, bytes);
        if (!message) {
                blocks_free(arena.first);
                if (arena.is_out_of_memory)
                        return -ENOMEM;
                return error_set(reterr, ERROR_INVALID, "this is no %s, or too large",
                                 type->short_name);
        }

        assert((uint8_t *) message == arena.first->data);
        *ret = message;
        return 0;
}

void *kube_protobuf_free(void *message) {
        if (message)
                blocks_free((Block *) ((uint8_t *) message - offsetof(Block, data)));
        return NULL;
}

static bool is_set(const char *text) {
        return text && text[0];
}

int kube_protobuf_open(const uint8_t *bytes, size_t size, KubeEnvelope **ret, Error *reterr) {
        cleanup(kube_protobuf_free_p) ProtobufCMessage *message = NULL;
        KubeEnvelope *envelope;
        int r;

        if (size < sizeof(magic) || memcmp(bytes, magic, sizeof(magic)) != 0)
                return error_set(reterr, ERROR_INVALID, "this is not Kubernetes' protobuf");

        r = kube_protobuf_unpack(&kubernetes__v1__unknown__descriptor, bytes + sizeof(magic),
                                 size - sizeof(magic), &message, reterr);
        if (r < 0)
                return r;

        envelope = (KubeEnvelope *) message;
        if (is_set(envelope->contentencoding) ||
            (is_set(envelope->contenttype) &&
             strcmp(envelope->contenttype, "application/vnd.kubernetes.protobuf") != 0))
                return error_set(reterr, ERROR_INVALID, "an envelope without protobuf in it");

        *ret = (KubeEnvelope *) take_ptr(message);
        return 0;
}

int kube_protobuf_read_status(const uint8_t *bytes, size_t size, KubeStatusMessage **ret,
                              Error *reterr) {
        cleanup(kube_protobuf_free_p) KubeEnvelope *envelope = NULL;
        ProtobufCMessage *status = NULL;
        int r;

        r = kube_protobuf_open(bytes, size, &envelope, reterr);
        if (r < 0)
                return r;

        if (envelope->typemeta && is_set(envelope->typemeta->kind) &&
            strcmp(envelope->typemeta->kind, "Status") != 0)
                return error_set(reterr, ERROR_INVALID, "an object that is no Status");

        r = kube_protobuf_unpack(&kubernetes__v1__status__descriptor, envelope->raw.data,
                                 envelope->raw.len, &status, reterr);
        if (r < 0)
                return r;

        *ret = (KubeStatusMessage *) status;
        return 0;
}

const char *kube_protobuf_annotation(const KubeObjectMeta *meta, const char *key) {
        for (size_t i = 0; i < meta->n_annotations; i++)
                if (meta->annotations[i]->key && strcmp(meta->annotations[i]->key, key) == 0)
                        return meta->annotations[i]->value ?: "";

        return NULL;
}
