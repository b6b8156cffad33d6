/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A runtime's report of a container, and a user's text in a pod's annotation
 *
 * An environment is found or refused with a short reason. An annotation that was read is the same when
 * it is written and read again.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/inplace/containers-meta-spec.h"
#include "agent/inplace/running-env-spec.h"
#include "tests/fuzz/fuzz.h"

static void fuzz_environment(const char *text) {
        static char *const names[] = { "B", "A", NULL };
        cleanup(error_done) Error error = ERROR_INIT;
        uint32_t hash = 0;
        int r;

        r = running_env_hash(text, names, &hash, &error);
        check((r < 0) == (error.kind != ERROR_NONE));
        check(r >= 0 || (hash == 0 && strlen(error_message(&error)) < 256));
}

static void fuzz_annotation(const char *text) {
        cleanup(containers_meta_done) ContainersMeta meta = CONTAINERS_META_INIT;
        cleanup(containers_meta_done) ContainersMeta again = CONTAINERS_META_INIT;
        cleanup(free_p) char *written = NULL;

        check(containers_meta_parse(text, &meta) >= 0);
        check(containers_meta_write(&meta, &written) >= 0);
        check(containers_meta_parse(written, &again) >= 0);
        check(containers_meta_equal(&meta, &again) || strlen(written) > 256 * 1024);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(free_p) char *text = fuzz_text(data, size);

        fuzz_environment(text);
        fuzz_annotation(text);
        return 0;
}
