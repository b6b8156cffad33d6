/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a patch is bound to
 */

#include <json-c/json_types.h>

/* Metadata with the uid and the resourceVersion of the object, owned by the caller; NULL: no memory.
 * The server refuses a patch with them if the object has changed since, or is another one. */
struct json_object *patch_guard(struct json_object *object);
