/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * json-c's objects with the scope as their owner, see base/cleanup.h
 */

#include <json-c/json.h>

static inline void json_object_put_p(json_object **object) {
        json_object_put(*object);
}

/* Wipes the tokener, which keeps the last string it has read. */
void json_tokener_free_p(json_tokener **tokener);

/* Overwrites all texts in it, however deep, to remove secrets; the object stays, without a
 * meaning. */
void json_wipe(json_object *json);

/* Wipes the object and puts it; there must be no other reference. */
void json_object_wipe_p(json_object **json);
