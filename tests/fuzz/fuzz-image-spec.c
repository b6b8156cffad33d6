/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Node images, from somebody who means harm: every wish can be carried out as it is
 */

#include <json-c/json_object.h>
#include <json-c/json_tokener.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/image/image-spec.h"
#include "tests/fuzz/fuzz.h"

DEFINE_CLEANUP(struct json_object *, json_object_put)
DEFINE_CLEANUP(struct json_tokener *, json_tokener_free)

static struct json_object *parse(const uint8_t *data, size_t size) {
        cleanup(json_tokener_free_p) struct json_tokener *tokener = json_tokener_new();

        return json_tokener_parse_ex(tokener, (const char *) data, (int) size);
}

static bool is_limit(int64_t value, int64_t smallest) {
        return value >= smallest && value <= INT32_MAX;
}

static void check_wish(const ImageWish *wish) {
        if (!*wish->name || !*wish->tag)
                abort();
        if (wish->fault) {
                if (strpbrk(wish->fault, "\r\n"))
                        abort();
                return;
        }
        if (wish->version < 0)
                abort();
        if (wish->policy < 0 || wish->policy >= _PULL_POLICY_MAX)
                abort();
        if (!is_limit(wish->timeout_sec, 1) || !is_limit(wish->backoff_limit, 0) ||
            !is_limit(wish->active_deadline_sec, WISH_NO_LIMIT) ||
            !is_limit(wish->ttl_sec, WISH_NO_LIMIT))
                abort();
        for (size_t i = 0; i < wish->n_secrets; i++)
                if (!*wish->secrets[i].name)
                        abort();
}

/* One that is refused nowhere says the same in both ways. */
static void check_each(struct json_object *object, bool is_refused, size_t n_wishes) {
        cleanup(wish_list_done) WishList wishes = WISH_LIST_INIT;
        cleanup(error_done) Error skipped = ERROR_INIT, error = ERROR_INIT;
        int r;

        r = image_spec_parse_each(object, &wishes, &skipped, &error);
        if ((r < 0) != (error.kind == ERROR_INVALID) || (r < 0 && !is_refused))
                abort();
        if (!is_refused && (wishes.n_items != n_wishes || skipped.kind != ERROR_NONE))
                abort();

        for (size_t i = 0; i < wishes.n_items; i++)
                check_wish(&wishes.items[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(json_object_put_p) struct json_object *object = parse(data, size);
        cleanup(wish_list_done) WishList wishes = WISH_LIST_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = image_spec_parse(object, &wishes, &error);
        if ((r < 0) != (error.kind == ERROR_INVALID))
                abort();
        if (r < 0 && (wishes.n_items > 0 || strpbrk(error_message(&error), "\r\n")))
                abort();

        for (size_t i = 0; i < wishes.n_items; i++)
                check_wish(&wishes.items[i]);
        check_each(object, r < 0, wishes.n_items);
        return 0;
}
