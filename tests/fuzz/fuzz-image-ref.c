/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Image references, from an attacker
 *
 * A reference that is accepted is the same image in each of its forms.
 */

#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/image/image-ref.h"
#include "tests/fuzz/fuzz.h"

static void check(bool is_right) {
        if (!is_right)
                abort();
}

static void check_form(const ImageRef *ref, int (*print)(const ImageRef *, char **)) {
        cleanup(free_p) char *text = NULL;
        ImageRef again;

        check(print(ref, &text) == 0);
        check(image_ref_parse(text, &again, NULL) == 0);
        check(image_ref_equal(ref, &again));
}

static void check_node_image(const ImageRef *ref, int (*print)(const ImageRef *, char **)) {
        cleanup(free_p) char *name = NULL;
        ImageRef again;

        check(print(ref, &name) == 0);
        check(image_ref_from_node_image(name, image_ref_tag_or_digest(ref), &again, NULL) == 0);
        check(image_ref_equal(ref, &again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *text = fuzz_text(data, size);
        ImageRef ref;

        if (image_ref_parse(text, &ref, &error) < 0) {
                check(error.kind == ERROR_INVALID && !strchr(error_message(&error), '\n'));
                return 0;
        }

        check(ref.registry[0] && ref.repository[0] && image_ref_tag_or_digest(&ref)[0]);
        check_form(&ref, image_ref_canonical_reference);
        check_node_image(&ref, image_ref_canonical_name);
        check_node_image(&ref, image_ref_familiar_name);
        return 0;
}
