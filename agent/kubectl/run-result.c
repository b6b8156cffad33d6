/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/run-result.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/base/utf8.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"

#define REASON_MAX ((size_t) 4096) /* JSON may need six bytes for each of them */

int run_result(const char *outcome, const char *reason, json_object **ret) {
        cleanup(json_object_put_p) json_object *result = json_object_new_object();
        cleanup(free_p) char *cut = NULL;

        if (reason && strlen(reason) > REASON_MAX) {
                if (text_format(&cut, "%.*s...", (int) utf8_cut(reason, REASON_MAX), reason) < 0)
                        return -ENOMEM;
                reason = cut;
        }
        if (patch_add_text(result, "outcome", outcome) < 0 ||
            patch_add_filled(result, "reason", reason) < 0)
                return -ENOMEM;
        *ret = take_ptr(result);
        return 0;
}
