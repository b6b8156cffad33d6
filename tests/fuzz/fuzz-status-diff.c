/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The status of a NodeImage, written by an attacker
 *
 * Whatever it is, one patch makes it right, and leaves alone what is not ours.
 */

#include <json-c/json.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/cluster/status-diff.h"
#include "agent/document/json-cleanup.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/merge-patch.h"

static json_object *parse(const uint8_t *data, size_t size) {
        cleanup(json_tokener_free_p) json_tokener *tokener = json_tokener_new_ex(32);
        cleanup(free_p) char *text = fuzz_text(data, size);

        json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
        return json_tokener_parse_ex(tokener, text, (int) strlen(text) + 1);
}

static json_object *get(json_object *object, const char *key) {
        json_object *value = NULL;

        (void) json_object_object_get_ex(object, key, &value);
        return value;
}

static void check_foreign(json_object *before, json_object *after) {
        static const char *const ours[] = { "desired", "succeeded", "failed",
                                            "pulling", "waiting",   "imageStatuses" };

        if (!json_object_is_type(before, json_type_object))
                return;

        json_object_object_foreach(before, key, value) {
                bool is_ours = false;

                for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
                        is_ours = is_ours || strcmp(key, ours[i]) == 0;
                check(is_ours || json_object_equal(get(after, key), value));
        }
}

/* Each image has its entries, in the order of their tags, and what was finished stays so. */
static void check_images(json_object *before, json_object *after, const StatusEntry *entries,
                         size_t n_entries) {
        json_object *images = get(after, "imageStatuses");
        size_t n = 0;

        json_object_object_foreach(images, name, image) {
                json_object *tags = get(image, "tags");
                const char *last = "";

                (void) name;
                for (size_t i = 0; i < json_object_array_length(tags); i++, n++) {
                        json_object *entry = json_object_array_get_idx(tags, i);
                        const char *tag = json_object_get_string(get(entry, "tag"));

                        check(strcmp(last, tag) < 0);
                        last = tag;
                }
        }
        check(n == n_entries);

        for (size_t i = 0; i < n_entries; i++) {
                const StatusEntry *entry = &entries[i];
                json_object *finished =
                        status_find_finished(before, entry->name, entry->tag, entry->version);
                json_object *still =
                        status_find_finished(after, entry->name, entry->tag, entry->version);

                check(!finished || still);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const ImageStatus pulling = { .phase = IMAGE_PULLING,
                                             .started_at = 1769903999,
                                             .bytes_done = 50,
                                             .bytes_total = 99 };
        static const ImageStatus succeeded = { .phase = IMAGE_SUCCEEDED,
                                               .completed_at = 1769904059,
                                               .image_id = (char *) "sha256:1" };
        static const StatusEntry entries[] = {
                { "redis", "7", 3, &pulling, false },  { "nginx", "2", 0, &succeeded, true },
                { "nginx", "1", 0, &pulling, false },  { "nginx", "3", 1, NULL, false },
                { "", "latest", -1, &pulling, false },
        };
        const size_t n = sizeof(entries) / sizeof(entries[0]);
        cleanup(json_object_put_p) json_object *before = parse(data, size);
        cleanup(json_object_put_p) json_object *after = NULL;
        cleanup(json_object_put_p) json_object *patch = NULL, *again = NULL;
        int r;

        r = status_diff(before, entries, n, &patch);
        check(r == STATUS_SAME || r == STATUS_PROGRESS || r == STATUS_DIFFERENT);
        check((r == STATUS_SAME) == !patch);

        after = copy_json(before);
        if (patch)
                after = apply_merge_patch(after, get(patch, "status"));
        check(status_diff(after, entries, n, &again) == STATUS_SAME && !again);

        check_foreign(before, after);
        check_images(before, after, entries, n);
        return 0;
}
