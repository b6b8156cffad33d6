/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Node images, from an attacker: every desired image can be carried out as it is
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

static void check_desired(const DesiredImage *desired) {
        if (!*desired->name || !*desired->tag)
                abort();
        if (desired->fault) {
                if (strpbrk(desired->fault, "\r\n"))
                        abort();
                return;
        }
        if (desired->version < 0)
                abort();
        if (desired->policy < 0 || desired->policy >= _PULL_POLICY_MAX)
                abort();
        if (!is_limit(desired->timeout_sec, 1) ||
            !is_limit(desired->backoff_limit, DESIRED_IMAGE_NO_LIMIT) ||
            !is_limit(desired->active_deadline_sec, DESIRED_IMAGE_NO_LIMIT) ||
            !is_limit(desired->ttl_sec, DESIRED_IMAGE_NO_LIMIT))
                abort();
        for (size_t i = 0; i < desired->n_secrets; i++)
                if (!*desired->secrets[i].name)
                        abort();
}

/* Each is one line. */
static void check_unknown_keys(const uint8_t *data, size_t size) {
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;

        if (documents_parse((const char *) data, size, &documents, NULL) < 0)
                return;
        if (image_spec_check_keys(&documents, &unknown) < 0 || unknown.n_texts > unknown.n_found)
                abort();
        for (size_t i = 0; i < unknown.n_texts; i++)
                if (strpbrk(unknown.texts[i], "\r\n"))
                        abort();
}

/* A document that is refused nowhere says the same in both ways. */
static void check_each(struct json_object *object, bool is_refused, size_t n_desired) {
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;
        cleanup(error_done) Error skipped = ERROR_INIT, error = ERROR_INIT;
        int r;

        r = image_spec_parse_each(object, &desired_images, &skipped, &error);
        if ((r < 0) != (error.kind == ERROR_INVALID) || (r < 0 && !is_refused))
                abort();
        if (!is_refused && (desired_images.n_items != n_desired || skipped.kind != ERROR_NONE))
                abort();

        for (size_t i = 0; i < desired_images.n_items; i++)
                check_desired(&desired_images.items[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(json_object_put_p) struct json_object *object = parse(data, size);
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        check_unknown_keys(data, size);
        r = image_spec_parse(object, &desired_images, &error);
        if ((r < 0) != (error.kind == ERROR_INVALID))
                abort();
        if (r < 0 && (desired_images.n_items > 0 || strpbrk(error_message(&error), "\r\n")))
                abort();

        for (size_t i = 0; i < desired_images.n_items; i++)
                check_desired(&desired_images.items[i]);
        check_each(object, r < 0, desired_images.n_items);
        return 0;
}
