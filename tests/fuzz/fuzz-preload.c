/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A NodeImage into which a request is to be written, from an attacker
 *
 * Whatever it says, the request has a version that is about nothing else, and what is written or taken back is guarded
 * by the version of the object.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/preload-plan.h"
#include "tests/fuzz/fuzz.h"

static void check(bool is_right) {
        if (!is_right)
                abort();
}

/* The first step fails where the object has changed. */
static void check_patch(int r, json_object *patch) {
        check(r == 0);
        check(!patch ||
              json_is(json_object_array_get_idx(patch, 0), "path", "/metadata/resourceVersion"));
        check(!patch || json_object_array_length(patch) > 1);
}

static void check_reasons(const PreloadEntry *entry) {
        cleanup(preload_reasons_done) PreloadReasons reasons = PRELOAD_REASONS_INIT;
        cleanup(free_p) char *text = NULL;

        for (size_t i = 0; entry->message && i < 8; i++)
                check(preload_reasons_add(&reasons, "node", entry->message) == 0);
        check(preload_reasons_format(&reasons, &text) == 0);
        check(!entry->message == !*text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const secrets[] = { "pull", "other" };
        const PreloadTerms terms = { "team", secrets, 2, 3600, 1769904000 };
        const PreloadImage images[] = { { (char *) "nginx", (char *) "1" },
                                        { (char *) "nginx", (char *) "2" },
                                        { (char *) "quay.io/a~b/c", (char *) "sha256:1" } };
        const size_t n = sizeof(images) / sizeof(images[0]);
        PreloadEntry entries[sizeof(images) / sizeof(images[0])] = { 0 };
        cleanup(json_object_put_p) json_object *object = NULL, *request = NULL, *withdrawal = NULL;

        if (json_parse((const char *) data, size, &object, NULL) < 0)
                return 0;

        for (size_t i = 0; i < n; i++) {
                PreloadEntry *entry = &entries[i];

                check(preload_entry_read(object, &images[i], &terms, entry) == 0);
                check(entry->phase < _PRELOAD_PHASE_MAX);
                check(entry->phase == PRELOAD_ABSENT || entry->tag_index < entry->n_tags);
                check(entry->next_version != entry->version || entry->phase == PRELOAD_ABSENT);
                check_reasons(entry);
        }
        check_patch(preload_patch_request(images, entries, n, &terms, "7", &request), request);
        check_patch(preload_patch_withdraw(images, entries, n, "7", &withdrawal), withdrawal);
        for (size_t i = 0; i < n; i++)
                preload_entry_done(&entries[i]);
        return 0;
}
