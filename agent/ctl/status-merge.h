/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps a NodeImage object up to date
 *
 * The agent sends the changed images, as a NodeImage of these alone, and the names of images that are no
 * longer desired. Pure.
 */

#include <json-c/json.h>

/* Takes over metadata, counts and images of the other object, replacing images with the same name
 * and tag. The two objects share these parts. */
int status_merge(json_object *node_image, json_object *changes);

/* Removes "nginx:1.25" or "nginx@sha256:...". Ignores an unknown one. */
void status_remove(json_object *node_image, const char *reference);
