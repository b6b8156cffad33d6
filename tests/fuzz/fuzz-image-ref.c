/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Image references, from an attacker
 *
 * A reference that is accepted is the same image in each of its forms.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/image/image-ref.h"
#include "tests/fuzz/fuzz.h"

static void check_form(const ImageRef *ref, ShortNames short_names,
                       int (*print)(const ImageRef *, char **)) {
        cleanup(free_p) char *text = NULL;
        ImageRef again;

        check(print(ref, &text) == 0);
        check(image_ref_parse(text, short_names, &again, NULL) == 0);
        check(image_ref_equal(ref, &again));
}

static void check_node_image(const ImageRef *ref, ShortNames short_names,
                             int (*print)(const ImageRef *, char **)) {
        cleanup(free_p) char *name = NULL;
        ImageRef again;

        check(print(ref, &name) == 0);
        check(image_ref_from_node_image(name, image_ref_tag_or_digest(ref), short_names, &again,
                                        NULL) == 0);
        check(image_ref_equal(ref, &again));
}

static void check_text(const char *text, ShortNames short_names) {
        cleanup(error_done) Error error = ERROR_INIT;
        ImageRef ref;

        if (image_ref_parse(text, short_names, &ref, &error) < 0) {
                check(error.kind == ERROR_INVALID && !strchr(error_message(&error), '\n'));
                return;
        }

        check(ref.repository[0] && image_ref_tag_or_digest(&ref)[0]);
        check(short_names == SHORT_NAMES_SEARCHED || ref.registry[0]);
        check_form(&ref, SHORT_NAMES_SEARCHED, image_ref_canonical_reference);
        check_node_image(&ref, SHORT_NAMES_SEARCHED, image_ref_canonical_name);
        if (short_names == SHORT_NAMES_HUB) {
                check_form(&ref, SHORT_NAMES_HUB, image_ref_canonical_reference);
                check_node_image(&ref, SHORT_NAMES_HUB, image_ref_familiar_name);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(free_p) char *text = fuzz_text(data, size);

        check_text(text, SHORT_NAMES_HUB);
        check_text(text, SHORT_NAMES_SEARCHED);
        return 0;
}
