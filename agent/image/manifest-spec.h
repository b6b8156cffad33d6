/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Image manifests
 *
 * What a pull has to fetch: the config and the layers that a manifest lists, with their sizes (OCI
 * image-spec, manifest.md; Docker's schema 2 has the same members).
 */

#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

#define MANIFEST_SIZE_MAX (4 * 1024 * 1024) /* the limit of the distribution spec */

typedef struct ManifestBlob {
        char *digest; /* "sha256:..." */
        uint64_t size;
} ManifestBlob;

#define MANIFEST_CONFIG 0 /* the place of the config among the blobs */

typedef struct Manifest {
        ManifestBlob *blobs; /* the config and the layers, each digest once */
        size_t n_blobs;
        uint64_t size; /* size of all blobs */
} Manifest;

/* Refuses everything but the manifest of one image, such as an index. *ret is left alone then. */
int manifest_spec_parse(const char *text, size_t size, Manifest *ret, Error *reterr);
void manifest_done(Manifest *manifest);
