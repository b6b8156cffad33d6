/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Image manifests, from an attacker
 *
 * What is accepted has a digest in each blob, each digest once, and a total that is their sum; what
 * is refused leaves nothing behind and says why in one line.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/image/manifest-spec.h"
#include "tests/fuzz/fuzz.h"

static void check_blobs(const Manifest *manifest) {
        uint64_t size = 0;

        check(manifest->n_blobs > 0);
        for (size_t i = 0; i < manifest->n_blobs; i++) {
                check(manifest->blobs[i].digest[0]);
                check(strcspn(manifest->blobs[i].digest, ", \"\n") ==
                      strlen(manifest->blobs[i].digest));
                check(size <= UINT64_MAX - manifest->blobs[i].size);
                size += manifest->blobs[i].size;

                for (size_t k = 0; k < i; k++)
                        check(strcmp(manifest->blobs[i].digest, manifest->blobs[k].digest) != 0);
        }
        check(size == manifest->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(manifest_done) Manifest manifest = { 0 };

        if (manifest_spec_parse((const char *) data, size, &manifest, &error) < 0) {
                check(error.kind == ERROR_INVALID && !strchr(error_message(&error), '\n'));
                check(!manifest.blobs && manifest.n_blobs == 0);
                return 0;
        }

        check(error.kind == ERROR_NONE);
        check_blobs(&manifest);
        return 0;
}
