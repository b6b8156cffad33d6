/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/write-check-spec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/error.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"

WriteVerdict write_check_judge(int code) {
        if (code >= 200 && code < 300)
                return WRITE_VERDICT_ALLOWED;

        return code == 403 ? WRITE_VERDICT_REFUSED : WRITE_VERDICT_UNKNOWN;
}

int write_check_describe(const WriteVerdict verdicts[_WRITE_TARGET_MAX], char **ret) {
        static const char *const texts[_WRITE_TARGET_MAX] = {
                [WRITE_TARGET_POD] = "labels of pods",
                [WRITE_TARGET_NODE_IMAGE] = "NodeImages of other nodes",
                [WRITE_TARGET_NODE] = "labels of its Node",
                [WRITE_TARGET_LEASE] = "Leases of any name",
        };
        cleanup(free_p) char *text = NULL;

        for (WriteTarget target = 0; target < _WRITE_TARGET_MAX; target++) {
                char *longer;

                if (verdicts[target] != WRITE_VERDICT_ALLOWED)
                        continue;
                if (text_format(&longer, "%s%s%s", text ?: "change ", text ? ", and " : "",
                                texts[target]) < 0)
                        return -ENOMEM;
                free(text);
                text = longer;
        }
        *ret = take_ptr(text);
        return 0;
}

static bool is_well(const WriteVerdict verdicts[_WRITE_TARGET_MAX]) {
        for (WriteTarget target = 0; target < _WRITE_TARGET_MAX; target++)
                if (verdicts[target] != WRITE_VERDICT_REFUSED)
                        return false;

        return true;
}

uint64_t write_check_pause_usec(const WriteVerdict verdicts[_WRITE_TARGET_MAX], uint32_t random) {
        uint64_t pause = is_well(verdicts) ? WRITE_CHECK_LATER_USEC : WRITE_CHECK_SOON_USEC;

        return pause - pause / 10 + random % (pause / 5);
}

int write_check_find_other(const char *list, size_t size, const char *node_name, char **ret) {
        cleanup(json_object_put_p) json_object *object = NULL;
        cleanup(error_done) Error unread = ERROR_INIT;
        json_object *items = NULL;
        char *found = NULL;
        size_t n = 0;
        int r;

        r = json_parse(list, size, &object, &unread);
        if (r < 0 && unread.kind == ERROR_NONE)
                return r;
        if (r >= 0 && json_pointer_get(object, "/items", &items) == 0 &&
            json_object_is_type(items, json_type_array))
                n = json_object_array_length(items);

        for (size_t i = 0; !found && i < n; i++) {
                json_object *name = NULL;

                if (json_pointer_get(json_object_array_get_idx(items, i), "/metadata/name", &name) <
                            0 ||
                    !json_object_is_type(name, json_type_string) ||
                    strcmp(json_object_get_string(name), node_name) == 0)
                        continue;

                found = strdup(json_object_get_string(name));
                if (!found)
                        return -ENOMEM;
        }

        *ret = found;
        return 0;
}
