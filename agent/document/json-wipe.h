/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * json-c's objects with secrets in them
 */

#include <json-c/json_types.h>

/* Overwrites all texts in it, however deep: what it means is lost, the object stays. */
void json_wipe(struct json_object *json);

/* Wipes it and lets go of it; nobody else may hold it. For cleanup(). */
void json_object_wipe_p(struct json_object **json);
