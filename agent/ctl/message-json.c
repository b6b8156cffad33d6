/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/message-json.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "proto/inplaced/v1/node.pb-c.h"

#define N_MEMBERS_MAX 12

/* The members of a document that are not simply the fields of its message, in order: "field", "key=field",
 * or "field?condition", which is left out while the condition's field is empty. */
/* clang-format off */
static const struct Shape {
        const ProtobufCMessageDescriptor *message;
        const char *members[N_MEMBERS_MAX];
} shapes[] = {
        { &inplaced__v1__diagnose_response__descriptor, { "runtimes", "facts", "problems" } },
        { &inplaced__v1__get_version_response__descriptor,
          { "serverVersion=version", "runtime_name", "runtime_version", "runtime_api_version" } },
        { &inplaced__v1__image__descriptor,
          { "id", "repo_tags", "repo_digests", "size_bytes", "pinned", "pinned_by_inplaced?pinned",
            "requested_by", "on_demand" } },
        { &inplaced__v1__on_demand__descriptor,
          { "layers", "bytes_present?counted", "bytes_total?counted" } },
        { &inplaced__v1__probe__descriptor,
          { "namespace", "pod", "container", "name", "kind", "period_seconds", "state", "since", "runs",
            "durationMicroseconds=duration_usec", "message" } },
        { &inplaced__v1__restart_event__descriptor,
          { "namespace", "pod", "container", "phase", "old_container_id", "new_container_id", "message" } },
        { &inplaced__v1__retry_result__descriptor, { "image", "retried", "message?message" } },
        { &inplaced__v1__unpin_result__descriptor, { "image", "unpinned", "message?message" } },
        { &inplaced__v1__runtime__descriptor,
          { "endpoint", "name", "version", "state", "ready", "chosen", "has_progress" } },
        { &inplaced__v1__verified_container__descriptor,
          { "namespace", "pod", "container", "image=reference", "nodeImageID=reference_id",
            "runningImageID=running_id", "environment", "verdict", "message" } },
};
/* clang-format on */

/* Joins the words of a name: "REPO_TAGS" as "RepoTags", or as "repoTags". */
static const char *join_words(const char *name, bool begins_small, FormatBuffer *buffer) {
        bool begins_word = !begins_small;
        size_t n = 0;

        for (; *name && n < sizeof(buffer->text) - 1; name++) {
                if (*name != '_')
                        buffer->text[n++] = (char) (begins_word ? toupper(*name) : tolower(*name));
                begins_word = *name == '_';
        }

        buffer->text[n] = '\0';
        return buffer->text;
}

const char *enum_to_text(const ProtobufCEnumDescriptor *type, int value, FormatBuffer *buffer) {
        const char *zero = protobuf_c_enum_descriptor_get_value(type, 0)->name;
        const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);

        if (!found || value == 0)
                found = protobuf_c_enum_descriptor_get_value(type, 1);

        return join_words(found->name + strlen(zero) - strlen("UNSPECIFIED"), false, buffer);
}

static const char *key_of(const char *field, FormatBuffer *buffer) {
        char *id = strrchr(join_words(field, true, buffer), 'I');

        if (id && strcmp(id, "Id") == 0)
                id[1] = 'D';
        return buffer->text;
}

/* NULL if there is no memory. */
static json_object *value_new(const ProtobufCFieldDescriptor *field, const void *value) {
        FormatBuffer text;

        switch (field->type) {
        case PROTOBUF_C_TYPE_BOOL:
                return json_object_new_boolean(*(const protobuf_c_boolean *) value);
        case PROTOBUF_C_TYPE_INT32: return json_object_new_int64(*(const int32_t *) value);
        case PROTOBUF_C_TYPE_UINT32: return json_object_new_int64(*(const uint32_t *) value);
        case PROTOBUF_C_TYPE_INT64: return json_object_new_int64(*(const int64_t *) value);
        case PROTOBUF_C_TYPE_UINT64: return json_object_new_uint64(*(const uint64_t *) value);
        case PROTOBUF_C_TYPE_STRING: return json_object_new_string(*(const char *const *) value);
        case PROTOBUF_C_TYPE_MESSAGE: return json_from_message(*(const void *const *) value);
        case PROTOBUF_C_TYPE_ENUM:
                return json_object_new_string(
                        enum_to_text(field->descriptor, *(const int *) value, &text));
        default: return NULL; /* the local API has no other types */
        }
}

/* The local API has lists of texts and of messages. NULL if there is no memory. */
static json_object *list_new(const ProtobufCFieldDescriptor *field, const void *const *values,
                             size_t n) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        for (size_t i = 0; list && i < n; i++)
                if (patch_append(list, value_new(field, &values[i])) < 0)
                        return NULL;

        return take_ptr(list);
}

static int add_field(json_object *object, const char *key, const ProtobufCFieldDescriptor *field,
                     const char *message) {
        const void *value = message + field->offset;
        FormatBuffer buffer;

        if (!key)
                key = key_of(field->name, &buffer);
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
                return patch_add(object, key,
                                 list_new(field, *(const void *const *const *) value,
                                          *(const size_t *) (message + field->quantifier_offset)));
        if (field->type == PROTOBUF_C_TYPE_MESSAGE && !*(const void *const *) value)
                return 0;

        return patch_add(object, key, value_new(field, value));
}

/* Returns whether a text or a truth value is not empty. */
static bool is_filled(const ProtobufCFieldDescriptor *field, const char *message) {
        const void *value = message + field->offset;

        return field->type == PROTOBUF_C_TYPE_STRING ? (*(const char *const *) value)[0]
                                                     : *(const protobuf_c_boolean *) value;
}

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *type,
                                                const char *name, size_t size) {
        FormatBuffer buffer;

        (void) snprintf(buffer.text, sizeof(buffer.text), "%.*s", (int) size, name);
        return protobuf_c_message_descriptor_get_field_by_name(type, buffer.text);
}

/* The member as the shapes write it. */
static int add_member(json_object *object, const char *member, const ProtobufCMessage *message) {
        const char *equals = strchr(member, '='), *name = equals ? equals + 1 : member;
        const char *condition = strchr(name, '?');
        cleanup(free_p) char *key = equals ? strndup(member, (size_t) (equals - member)) : NULL;

        if (equals && !key)
                return -ENOMEM;
        if (condition &&
            !is_filled(field_of(message->descriptor, condition + 1, strlen(condition + 1)),
                       (const char *) message))
                return 0;

        return add_field(object, key, field_of(message->descriptor, name, strcspn(name, "?")),
                         (const char *) message);
}

int json_add_message(json_object *object, const void *message) {
        const ProtobufCMessageDescriptor *type = ((const ProtobufCMessage *) message)->descriptor;
        int r = 0;

        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
                const char *const *member = shapes[i].members;

                if (shapes[i].message != type)
                        continue;
                for (; r >= 0 && *member; member++)
                        r = add_member(object, *member, message);
                return r;
        }

        for (unsigned i = 0; r >= 0 && i < type->n_fields; i++)
                r = add_field(object, /* key= */ NULL, &type->fields[i], message);
        return r;
}

json_object *json_from_message(const void *message) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();

        return object && json_add_message(object, message) >= 0 ? take_ptr(object) : NULL;
}
