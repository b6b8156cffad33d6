/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Wish spec
 *
 * The members of a NodeImage that make up one wish. image-spec.c knows which objects these are.
 */

#include "agent/document/json-reader.h"
#include "agent/image/wish.h"

/* What is said once per image: its pull secrets and its sandbox config. */
int wish_spec_read_shared(struct json_object *image, const JsonPath *path, ImageWish *wish,
                          Error *reterr);

/* What is said about one tag, beginning with its name. Lenient: an unknown policy is Always. What was
 * read before a refusal is in the wish. */
int wish_spec_read_tag(struct json_object *item, const JsonPath *path, bool is_lenient,
                       ImageWish *wish, Error *reterr);
