/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Image references
 *
 * People write the same image in many ways: "nginx", "docker.io/library/nginx:latest". This reads
 * any of them by the grammar of the container world (the one of the distribution project, which
 * containerd, CRI-O and docker share) and writes the two forms that matter:
 *
 *   canonical  docker.io/library/nginx:1.25   nothing left out; the identity of what was asked for,
 *                                             and what the runtime is asked for
 *   familiar   nginx                          what Docker Hub's users write, and NodeImage keys are
 *
 * Two texts mean the same image if and only if their canonical references are equal. A digest wins
 * over a tag: the reference then is NAME@DIGEST. Each form can be read again, and is the same image
 * then. Nothing here asks a registry or a runtime.
 *
 * A name without a registry is Docker Hub's, also where a runtime has a search list of its own for
 * such names: OpenKruise's manager takes "docker.io/library/" out of the keys of a NodeImage, so that
 * a key cannot say more, and a runtime that chose the registry would be given Docker Hub's password.
 */

#include <stdbool.h>

#include "agent/base/error.h"

#define IMAGE_NAME_SIZE 256 /* registry, slash and repository together, and the NUL */
#define IMAGE_TAG_SIZE 129
#define IMAGE_DIGEST_SIZE 136 /* "sha512:" and 128 digits */

/* Holds its text itself: may be copied by assignment, and needs no cleaning up. */
typedef struct ImageRef {
        char registry[IMAGE_NAME_SIZE];   /* "docker.io", "reg.example.com:5000", "[::1]:5000" */
        char repository[IMAGE_NAME_SIZE]; /* "library/nginx" */
        char tag[IMAGE_TAG_SIZE];         /* "latest" if the text has neither tag nor digest;
                                           * empty if it has a digest only */
        char digest[IMAGE_DIGEST_SIZE];   /* "sha256:...", or empty */
} ImageRef;

/* Refuses with ERROR_INVALID and one line about what is wrong; *ret is left alone then. */
int image_ref_parse(const char *text, ImageRef *ret, Error *reterr);

/* The same from an entry of a NodeImage: a name without tag, and a tag or a digest. */
int image_ref_from_node_image(const char *name, const char *tag, ImageRef *ret, Error *reterr);

/* The digest, or the tag if there is none: the tag field of a NodeImage. */
const char *image_ref_tag_or_digest(const ImageRef *ref);

bool image_ref_equal(const ImageRef *a, const ImageRef *b);

/* "docker.io/library/nginx": the key to look credentials up with. */
int image_ref_canonical_name(const ImageRef *ref, char **ret);

/* "nginx". */
int image_ref_familiar_name(const ImageRef *ref, char **ret);

/* "docker.io/library/nginx:1.25": the identity, and what is sent to the runtime. */
int image_ref_canonical_reference(const ImageRef *ref, char **ret);
