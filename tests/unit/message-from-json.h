/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Messages of protobuf, made from JSON with the names of their fields
 */

#include <json-c/json.h>
#include <protobuf-c/protobuf-c.h>

#include "tests/unit/unit.h"

static inline ProtobufCMessage *message_from_json(const ProtobufCMessageDescriptor *descriptor,
                                                  json_object *json);

static inline size_t message_value_size(ProtobufCType type) {
        switch (type) {
        case PROTOBUF_C_TYPE_STRING:
        case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
        case PROTOBUF_C_TYPE_INT64:
        case PROTOBUF_C_TYPE_UINT64: return sizeof(uint64_t);
        case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
        default: return sizeof(uint32_t);
        }
}

static inline void message_set_value(const ProtobufCFieldDescriptor *field, void *at,
                                     json_object *value) {
        switch (field->type) {
        case PROTOBUF_C_TYPE_STRING: *(char **) at = strdup(json_object_get_string(value)); break;
        case PROTOBUF_C_TYPE_MESSAGE:
                *(ProtobufCMessage **) at = message_from_json(field->descriptor, value);
                break;
        case PROTOBUF_C_TYPE_INT64:
        case PROTOBUF_C_TYPE_UINT64: *(int64_t *) at = json_object_get_int64(value); break;
        case PROTOBUF_C_TYPE_BOOL:
                *(protobuf_c_boolean *) at = json_object_get_boolean(value);
                break;
        default: *(int32_t *) at = json_object_get_int(value);
        }
}

static inline void message_set_list(const ProtobufCFieldDescriptor *field, uint8_t *message,
                                    json_object *list) {
        size_t n = json_object_array_length(list), size = message_value_size(field->type);
        uint8_t *items = calloc(n, size);

        assert_non_null(items);
        for (size_t i = 0; i < n; i++)
                message_set_value(field, items + i * size, json_object_array_get_idx(list, i));
        *(void **) (message + field->offset) = items;
        *(size_t *) (message + field->quantifier_offset) = n;
}

/* The caller frees it with protobuf_c_message_free_unpacked(). */
static inline ProtobufCMessage *message_from_json(const ProtobufCMessageDescriptor *descriptor,
                                                  json_object *json) {
        ProtobufCMessage *message = calloc(1, descriptor->sizeof_message);

        assert_non_null(message);
        protobuf_c_message_init(descriptor, message);
        json_object_object_foreach(json, key, value) {
                const ProtobufCFieldDescriptor *field =
                        protobuf_c_message_descriptor_get_field_by_name(descriptor, key);

                assert_non_null(field);
                if (field->label == PROTOBUF_C_LABEL_REPEATED)
                        message_set_list(field, (uint8_t *) message, value);
                else
                        message_set_value(field, (uint8_t *) message + field->offset, value);
        }
        return message;
}
