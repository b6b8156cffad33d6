/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The owners of images
 *
 * In the agent an owner is a string: "file/web.yaml" or "request/7f3a0c". Objects show it as a
 * reference, and people as words. A request of the local API is a "call/..." as long as its caller
 * waits for it, and a restart drops it. Pure.
 */

#include <stdbool.h>

#include "agent/image/desired-image.h"

#define OWNER_API_VERSION "inplaced.io/v1" /* apiVersion of owner references */

#define OWNER_FILE "file/"
#define OWNER_REQUEST "request/"
#define OWNER_CALL "call/"
#define OWNER_NODE_IMAGE "nodeimage/"
#define OWNER_SET "set/"

/* Makes the owner of a file; the caller owns *ret. Owners go into JSON, so a name that is no UTF-8
 * becomes "./" and the name with those bytes as "%FF", which no other file can have. */
int owner_of_file(const char *name, char **ret);

/* "file/web.yaml" → kind "File", name "web.yaml", borrowed from the owner. NULL: not one of the
 * agent's. */
const char *owner_kind(const char *owner);
const char *owner_name(const char *owner);

/* Makes the owner of a reference; the caller owns *ret. -EINVAL: not one of the agent's. */
int owner_from_reference(const OwnerRef *reference, char **ret);

/* Only nodeimage.json has the owner's requests, at least until the agent has asked the API server.
 * A call is a request, too. */
bool owner_is_request(const char *owner);
bool owner_is_file(const char *owner);
bool owner_is_call(const char *owner);
bool owner_is_node_image(const char *owner);
bool owner_is_set(const char *owner);

/* Makes the reference to an owner, whose desired image has the caller. Borrowed from both. */
OwnerRef owner_to_reference(const char *owner, const DesiredImage *desired);

/* "folder:web.yaml", "job team/warm", "jo (uid 1000, pid 4242), request 7f3a0c"; the caller owns
 * it. */
int owner_reference_to_words(const OwnerRef *reference, char **ret);
