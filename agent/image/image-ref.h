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
 * What a name without a registry means depends on the runtime. containerd and cri-dockerd take it for
 * Docker Hub's. CRI-O searches the registries of its configuration and knows aliases: there it is an
 * image of its own, without a registry, whose canonical form is as short as it was written, and that
 * is equal to none that names its registry. In a cluster it is always Docker Hub's: OpenKruise's
 * manager takes "docker.io/library/" out of the keys of a NodeImage, so that a key cannot say more.
 *
 * The ID of an image is not its name. Runtimes write the same ID as "sha256:" and 64 digits
 * (containerd) or as the digits alone (CRI-O).
 */

#include <stdbool.h>

#include "agent/base/error.h"

/* First words of a status that says what a short name or a tag stands for; full references follow, after commas. */
#define IMAGE_RESOLVED "resolved to "

/* Annotation of a request for an image: "true" asks for the digests of the tag in the status. */
#define IMAGE_ANNOTATION_RESOLVE "inplaced.io/resolve"

/* Label of a NodeImage that is an image set (cluster/image-sets.h), and annotation with its selector of nodes. */
#define IMAGE_SET_LABEL "inplaced.io/set"
#define IMAGE_SET_SELECTOR "inplaced.io/node-selector"
#define IMAGE_SET_PARALLELISM "inplaced.io/parallelism"
#define IMAGE_SET_FIRST "inplaced.io/first"
#define IMAGE_SET_LIMIT_MAX 1000 /* nodes that take turns */

#define IMAGE_NAME_SIZE 256 /* registry, slash and repository together, and the NUL */
#define IMAGE_TAG_SIZE 129
#define IMAGE_DIGEST_SIZE 136 /* "sha512:" and 128 digits */

/* How a runtime reads a name without a registry. */
typedef enum ShortNames {
        SHORT_NAMES_HUB,      /* Docker Hub's */
        SHORT_NAMES_SEARCHED, /* searched in a list of registries; the first that has it counts */
} ShortNames;

/* Returns how the runtime of that name reads them; "" (not known yet): SHORT_NAMES_HUB. */
ShortNames short_names_of(const char *runtime_name);

/* Holds its text itself: may be copied by assignment, and needs no cleaning up. */
typedef struct ImageRef {
        char registry[IMAGE_NAME_SIZE];   /* "docker.io", "reg.example.com:5000", "[::1]:5000";
                                           * empty if the runtime searches for it */
        char repository[IMAGE_NAME_SIZE]; /* "library/nginx"; as written without a registry */
        char tag[IMAGE_TAG_SIZE];         /* "latest" if the text has neither tag nor digest;
                                           * empty if it has a digest only */
        char digest[IMAGE_DIGEST_SIZE];   /* "sha256:...", or empty */
} ImageRef;

/* Refuses with ERROR_INVALID and one line about the mistake; *ret is left alone then. */
int image_ref_parse(const char *text, ShortNames short_names, ImageRef *ret, Error *reterr);

/* The same from an entry of a NodeImage: a name without tag, and a tag or a digest. */
int image_ref_from_node_image(const char *name, const char *tag, ShortNames short_names,
                              ImageRef *ret, Error *reterr);

/* Writes such an entry as one text: "nginx:1.25", "nginx@sha256:...". */
int image_ref_join(const char *name, const char *tag, char **ret);

/* The digest, or the tag if there is none: the tag field of a NodeImage. */
const char *image_ref_tag_or_digest(const ImageRef *ref);

bool image_ref_is_same_repository(const ImageRef *a, const ImageRef *b);
bool image_ref_equal(const ImageRef *a, const ImageRef *b);

/* Whether the runtime chooses the registry. Such a pull is anonymous, because each registry that the
 * runtime searches would get the password. */
bool image_ref_is_searched(const ImageRef *ref);

/* Whether a searched name may stand for this full one: its repository ends with the name, and tag
 * or digest are the same. Aliases may stand for more. */
bool image_ref_may_resolve_to(const ImageRef *searched, const ImageRef *full);

/* "docker.io/library/nginx": the key to look credentials up with. */
int image_ref_canonical_name(const ImageRef *ref, char **ret);

/* "nginx". */
int image_ref_familiar_name(const ImageRef *ref, char **ret);

/* Writes the shortest name that is read as the same image again: the familiar one, or the canonical
 * one where short names are searched. */
int image_ref_shown_name(const ImageRef *ref, ShortNames short_names, char **ret);

/* Writes "docker.io/library/nginx:1.25": the identity, and the reference for the runtime. */
int image_ref_canonical_reference(const ImageRef *ref, char **ret);

/* Whether the text is an image's ID: "sha256:..." or its digits alone. */
bool image_id_is_valid(const char *text);

/* NULL is equal to nothing. */
bool image_id_equal(const char *a, const char *b);

/* Writes an ID with "sha256:", as it is shown and kept for any runtime. Copies any other text. */
int image_id_normalize(const char *id, char **ret);
