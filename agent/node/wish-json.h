/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A wish as a NodeImage shows it: the reverse of image-spec.h
 */

#include <json-c/json_types.h>

#include "agent/image/image.h"

/* An entry of spec.images.NAME.tags with everybody who wants the image. NULL: no memory. */
struct json_object *wish_tag_to_json(const ImageWish *wish, const Image *image);

/* The members that belong to all tags of a name, as text that follows the tags: ", \"pullSecrets\":
 * [...]" or "". The caller owns it. */
int wish_shared_to_text(const ImageWish *wish, char **ret);

/* A want that was served, for an annotation, without and with its outcome. NULL: no memory. */
struct json_object *served_want_to_json(const Image *image, const Want *want);
struct json_object *outcome_to_json(const Image *image, const Want *want);
