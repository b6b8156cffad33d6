/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/document/json-cleanup.h"

#include <json-c/json.h>
#include <json-c/printbuf.h>
#include <string.h>

void json_tokener_free_p(json_tokener **tokener) {
        if (!*tokener)
                return;

        if ((*tokener)->pb && (*tokener)->pb->buf)
                explicit_bzero((*tokener)->pb->buf, (size_t) (*tokener)->pb->size);
        json_tokener_free(*tokener);
}

/* The recursion is bounded, because the reader limits the depth. */
void json_wipe(json_object *json) {
        if (json_object_is_type(json, json_type_string)) {
                explicit_bzero((char *) json_object_get_string(json),
                               (size_t) json_object_get_string_len(json));
        } else if (json_object_is_type(json, json_type_array)) {
                for (size_t i = 0; i < json_object_array_length(json); i++)
                        json_wipe(json_object_array_get_idx(json, i));
        } else if (json_object_is_type(json, json_type_object)) {
                json_object_object_foreach(json, key, value) {
                        (void) key;
                        json_wipe(value);
                }
        }
}

void json_object_wipe_p(json_object **json) {
        json_wipe(*json);
        json_object_put(*json);
        *json = NULL;
}
