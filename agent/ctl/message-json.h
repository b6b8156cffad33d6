/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Messages of the local API as documents, for -o json and -o yaml
 *
 * A member's key is its field's name: "repo_tags" becomes "repoTags", "image_id" "imageID". An enum is the
 * word behind its prefix: PHASE_BACKING_OFF becomes "BackingOff"; a value that is unspecified or unknown
 * counts as the first one, which is the neutral one of each enum. Absent messages are left out, empty texts
 * are not. The file says where a document differs from its message.
 */

#include <json-c/json_types.h>
#include <protobuf-c/protobuf-c.h>

#include "agent/view/format.h"

/* Makes an object. NULL if there is no memory. */
struct json_object *json_from_message(const void *message);

/* Adds the members to an object. */
int json_add_message(struct json_object *object, const void *message);

/* Fills the buffer with the enum's word and returns it. */
const char *enum_to_text(const ProtobufCEnumDescriptor *type, int value, FormatBuffer *buffer);
