/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/manifest-spec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"

#define BLOBS_MAX 1024
#define BLOB_SIZE_MAX ((int64_t) 1 << 50)

void manifest_done(Manifest *manifest) {
        for (size_t i = 0; i < manifest->n_blobs; i++)
                free(manifest->blobs[i].digest);
        free(manifest->blobs);
        *manifest = (Manifest){ 0 };
}

static bool has_blob(const Manifest *manifest, const char *digest) {
        for (size_t i = 0; i < manifest->n_blobs; i++)
                if (strcmp(manifest->blobs[i].digest, digest) == 0)
                        return true;

        return false;
}

/* Whether it is a digest of the OCI image-spec (descriptor.md). Other characters would have a
 * meaning in a filter. */
static bool is_digest(json_object *value) {
        static const char algorithm_characters[] = "abcdefghijklmnopqrstuvwxyz0123456789+._-";
        const char *text = json_object_get_string(value);
        size_t algorithm, digits;

        if (!json_object_is_type(value, json_type_string) ||
            strlen(text) != (size_t) json_object_get_string_len(value))
                return false;

        algorithm = strspn(text, algorithm_characters);
        if (algorithm == 0 || text[algorithm] != ':')
                return false;

        digits = strspn(text + algorithm + 1, "0123456789abcdefABCDEF");
        return digits > 0 && !text[algorithm + 1 + digits];
}

static int add_blob(Manifest *manifest, json_object *descriptor, Error *reterr) {
        json_object *digest, *size;

        if (!json_object_object_get_ex(descriptor, "digest", &digest) || !is_digest(digest) ||
            !json_object_object_get_ex(descriptor, "size", &size) ||
            !json_object_is_type(size, json_type_int) || json_object_get_int64(size) < 0 ||
            json_object_get_int64(size) > BLOB_SIZE_MAX)
                return error_set(reterr, ERROR_INVALID, "a blob has no digest or no size");
        if (has_blob(manifest, json_object_get_string(digest)))
                return 0;

        manifest->blobs[manifest->n_blobs].digest = strdup(json_object_get_string(digest));
        if (!manifest->blobs[manifest->n_blobs].digest)
                return -ENOMEM;

        manifest->blobs[manifest->n_blobs++].size = (uint64_t) json_object_get_int64(size);
        manifest->size += (uint64_t) json_object_get_int64(size);
        return 0;
}

static int read_blobs(json_object *root, Manifest *manifest, Error *reterr) {
        json_object *config, *layers;
        size_t n_layers;
        int r;

        if (!json_object_object_get_ex(root, "config", &config) ||
            !json_object_object_get_ex(root, "layers", &layers) ||
            !json_object_is_type(layers, json_type_array))
                return error_set(reterr, ERROR_INVALID, "not the manifest of an image");

        n_layers = json_object_array_length(layers);
        if (n_layers > BLOBS_MAX)
                return error_set(reterr, ERROR_INVALID, "more than %d layers", BLOBS_MAX);

        manifest->blobs = calloc(n_layers + 1, sizeof(manifest->blobs[0]));
        if (!manifest->blobs)
                return -ENOMEM;

        r = add_blob(manifest, config, reterr);
        for (size_t i = 0; r >= 0 && i < n_layers; i++)
                r = add_blob(manifest, json_object_array_get_idx(layers, i), reterr);
        return r;
}

int manifest_spec_parse(const char *text, size_t size, Manifest *ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *root = NULL;
        cleanup(manifest_done) Manifest manifest = { 0 };
        int r;

        if (size > MANIFEST_SIZE_MAX)
                return error_set(reterr, ERROR_INVALID, "larger than a manifest may be");

        r = json_parse(text, size, &root, reterr);
        if (r < 0)
                return r;
        if (!json_object_is_type(root, json_type_object))
                return error_set(reterr, ERROR_INVALID, "not a JSON object");

        r = read_blobs(root, &manifest, reterr);
        if (r < 0)
                return r;

        *ret = manifest;
        manifest = (Manifest){ 0 };
        return 0;
}
