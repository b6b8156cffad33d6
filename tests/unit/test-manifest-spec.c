/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Image manifests
 */

#include "agent/image/manifest-spec.h"
#include "tests/unit/unit.h"

#define CONFIG "\"config\":{\"digest\":\"sha256:c\",\"size\":5}"
#define LAYER(digest, size) "{\"digest\":\"" digest "\",\"size\":" size "}"
#define ONE "{" CONFIG ",\"layers\":[" LAYER("sha256:a", "7") "]}"

/* clang-format off */

/* A manifest and its blobs, as "digest=size ... total". */
static const struct Manifests {
        const char *name;
        const char *text;
        const char *blobs;
} manifests[] = {
        { "one layer", ONE, "sha256:c=5 sha256:a=7 12" },
        { "OCI",
          "{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\","
          "\"config\":{\"mediaType\":\"application/vnd.oci.image.config.v1+json\","
          "\"digest\":\"sha256:c\",\"size\":5,\"annotations\":{\"a\":\"b\"}},"
          "\"layers\":[" LAYER("sha256:a", "7") "," LAYER("sha256:b", "1") "],"
          "\"annotations\":{\"org.opencontainers.image.title\":\"x\"}}",
          "sha256:c=5 sha256:a=7 sha256:b=1 13" },
        { "Docker schema 2",
          "{\"schemaVersion\":2,\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\","
          CONFIG ",\"layers\":[{\"mediaType\":\"application/vnd.docker.image.rootfs.diff.tar.gzip\","
          "\"size\":7,\"digest\":\"sha256:a\"}]}",
          "sha256:c=5 sha256:a=7 12" },
        { "no layers at all", "{" CONFIG ",\"layers\":[]}", "sha256:c=5 5" },
        { "the same layer twice",
          "{" CONFIG ",\"layers\":[" LAYER("sha256:a", "7") "," LAYER("sha256:a", "7") "]}",
          "sha256:c=5 sha256:a=7 12" },
        { "the config as a layer",
          "{" CONFIG ",\"layers\":[" LAYER("sha256:c", "5") "]}", "sha256:c=5 5" },
        { "an empty layer",
          "{" CONFIG ",\"layers\":[" LAYER("sha256:a", "0") "]}", "sha256:c=5 sha256:a=0 5" },
        { "a petabyte",
          "{" CONFIG ",\"layers\":[" LAYER("sha256:a", "1125899906842624") "]}",
          "sha256:c=5 sha256:a=1125899906842624 1125899906842629" },
        { "white space around it", " \n" ONE "\n ", "sha256:c=5 sha256:a=7 12" },
};

static const struct Refusal {
        const char *name;
        const char *text;
} refusals[] = {
        { "nothing",                  "" },
        { "white space",              "  \n" },
        { "no JSON",                  "<html></html>" },
        { "a text",                   "\"manifest\"" },
        { "a list",                   "[" ONE "]" },
        { "null",                     "null" },
        { "an empty object",          "{}" },
        { "a cut object",             "{" CONFIG ",\"layers\":[" },
        { "two objects",              ONE ONE },
        { "something behind it",      ONE "x" },
        { "an index",                 "{\"schemaVersion\":2,\"manifests\":[" LAYER("sha256:a", "7") "]}" },
        { "schema 1",                 "{\"schemaVersion\":1,\"fsLayers\":[{\"blobSum\":\"sha256:a\"}]}" },
        { "no config",                "{\"layers\":[]}" },
        { "no layers",                "{" CONFIG "}" },
        { "a config that is null",    "{\"config\":null,\"layers\":[]}" },
        { "a config that is a text",  "{\"config\":\"sha256:c\",\"layers\":[]}" },
        { "an empty config",          "{\"config\":{},\"layers\":[]}" },
        { "layers that are null",     "{" CONFIG ",\"layers\":null}" },
        { "layers that are a number", "{" CONFIG ",\"layers\":3}" },
        { "layers that are texts",    "{" CONFIG ",\"layers\":[\"sha256:a\"]}" },
        { "a layer that is null",     "{" CONFIG ",\"layers\":[null]}" },
        { "a layer without a digest", "{" CONFIG ",\"layers\":[{\"size\":7}]}" },
        { "a layer without a size",   "{" CONFIG ",\"layers\":[{\"digest\":\"sha256:a\"}]}" },
        { "a size that is a text",    "{" CONFIG ",\"layers\":[" LAYER("sha256:a", "\"7\"") "]}" },
        { "a size below zero",        "{" CONFIG ",\"layers\":[" LAYER("sha256:a", "-1") "]}" },
        { "half a byte",              "{" CONFIG ",\"layers\":[" LAYER("sha256:a", "7.5") "]}" },
        { "more than a petabyte",     "{" CONFIG ",\"layers\":[" LAYER("sha256:a", "1125899906842625") "]}" },
        { "the largest number",       "{" CONFIG ",\"layers\":[" LAYER("sha256:a", "18446744073709551615") "]}" },
        { "beyond all numbers",       "{" CONFIG ",\"layers\":[" LAYER("sha256:a", "99999999999999999999999") "]}" },
        { "a size of 1e9",            "{" CONFIG ",\"layers\":[" LAYER("sha256:a", "1e9") "]}" },
        { "a digest that is null",    "{" CONFIG ",\"layers\":[{\"digest\":null,\"size\":7}]}" },
        { "a digest that is empty",   "{" CONFIG ",\"layers\":[" LAYER("", "7") "]}" },
        { "a digest without digits",  "{" CONFIG ",\"layers\":[" LAYER("sha256:", "7") "]}" },
        { "a digest with a comma",    "{" CONFIG ",\"layers\":[" LAYER("sha256:a,size>0", "7") "]}" },
        { "a digest with a NUL",      "{" CONFIG ",\"layers\":[" LAYER("sha256:a\\u0000b", "7") "]}" },
};

/* clang-format on */

static void print(const Manifest *manifest, char *to) {
        for (size_t i = 0; i < manifest->n_blobs; i++)
                to += sprintf(to, "%s=%lu ", manifest->blobs[i].digest, manifest->blobs[i].size);
        sprintf(to, "%lu", manifest->size);
}

TEST_ROWS(test_manifest, manifests, name, const struct Manifests *row) {
        cleanup(manifest_done) Manifest manifest = { 0 };
        char blobs[256];

        assert_ok(manifest_spec_parse(row->text, strlen(row->text), &manifest, NULL));
        print(&manifest, blobs);
        assert_string_equal(blobs, row->blobs);
}

static void assert_refused(const char *text, size_t size) {
        cleanup(error_done) Error error = ERROR_INIT;
        Manifest manifest = { .size = 42 };

        assert_true(manifest_spec_parse(text, size, &manifest, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        assert_null(strchr(error_message(&error), '\n'));
        assert_int_equal(manifest.size, 42);
        assert_null(manifest.blobs);
}

TEST_ROWS(test_refusal, refusals, name, const struct Refusal *row) {
        assert_refused(row->text, strlen(row->text));
}

/* A part of a manifest is never taken for a whole one. */
TEST(test_every_part_is_refused) {
        for (size_t size = 0; size < strlen(ONE); size++)
                assert_refused(ONE, size);
}

/* The text need not end with a NUL. */
TEST(test_size_counts) {
        cleanup(manifest_done) Manifest manifest = { 0 };
        cleanup(free_p) char *text = malloc(strlen(ONE));

        memcpy(text, ONE, strlen(ONE));
        assert_ok(manifest_spec_parse(text, strlen(ONE), &manifest, NULL));
        assert_int_equal(manifest.n_blobs, 2);
}

static size_t make_layers(char *text, size_t n_layers) {
        size_t n = (size_t) sprintf(text, "{" CONFIG ",\"layers\":[");

        for (size_t i = 0; i < n_layers; i++)
                n += (size_t) sprintf(text + n, "%s" LAYER("sha256:%zx", "1125899906842624"),
                                      i ? "," : "", i + 0x1000);
        return n + (size_t) sprintf(text + n, "]}");
}

TEST(test_many_layers) {
        cleanup(manifest_done) Manifest manifest = { 0 };
        cleanup(free_p) char *text = malloc(1 << 20);
        size_t size;

        size = make_layers(text, 1024);
        assert_ok(manifest_spec_parse(text, size, &manifest, NULL));
        assert_int_equal(manifest.n_blobs, 1025);
        assert_int_equal(manifest.size, ((uint64_t) 1 << 60) + 5);

        size = make_layers(text, 1025);
        assert_refused(text, size);
}

TEST(test_too_large) {
        cleanup(free_p) char *text = malloc(MANIFEST_SIZE_MAX + 1);
        cleanup(manifest_done) Manifest manifest = { 0 };

        memset(text, ' ', MANIFEST_SIZE_MAX + 1);
        memcpy(text, ONE, strlen(ONE));
        assert_ok(manifest_spec_parse(text, MANIFEST_SIZE_MAX, &manifest, NULL));
        assert_refused(text, MANIFEST_SIZE_MAX + 1);
}

TEST(test_deep) {
        cleanup(free_p) char *text = malloc(1 << 20);

        memset(text, '[', 1 << 20);
        assert_refused(text, 1 << 20);
}
