/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The owners of images on a node without an API server
 *
 * Inside, an owner is one string: "file/web.yaml" or "request/7f3a0c". Outside it is an object
 * reference, or words for a person. A request of the local API is a "call/..." as long as its caller
 * waits for it, and is not requested again after a restart. Pure.
 */

#include <stdbool.h>

#include "agent/image/desired-image.h"

#define OWNER_API_VERSION "inplaced.io/v1" /* of an object reference */

#define OWNER_FILE "file/"
#define OWNER_REQUEST "request/"
#define OWNER_CALL "call/"
#define OWNER_NODE_IMAGE "nodeimage/"

/* The owner that a file is; the caller owns *ret. Owners go into JSON, so a name that is no UTF-8
 * becomes "./" and the name with those bytes as "%FF", which no other file can be called. */
int owner_of_file(const char *name, char **ret);

/* "file/web.yaml" → kind "File", name "web.yaml", borrowed from the owner. NULL: it is neither. */
const char *owner_kind(const char *owner);
const char *owner_name(const char *owner);

/* The reverse; the caller owns *ret. -EINVAL: this is not one of ours. */
int owner_from_reference(const OwnerRef *reference, char **ret);

/* What an owner requests is in nodeimage.json alone, or at least until the API server has been asked.
 * A call is a request, too. */
bool owner_is_request(const char *owner);
bool owner_is_call(const char *owner);
bool owner_is_node_image(const char *owner);

/* The reference to an owner, whose desired image says who called. Borrowed from both. */
OwnerRef owner_to_reference(const char *owner, const DesiredImage *desired);

/* "folder:web.yaml", "job team/warm", "jo (uid 1000, pid 4242), request 7f3a0c"; the caller owns
 * it. */
int owner_reference_to_words(const OwnerRef *reference, char **ret);
