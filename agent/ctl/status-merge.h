/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A NodeImage object that is kept up to date
 *
 * The agent sends the images that have changed, as a NodeImage of these alone, and the names of those
 * that are desired no longer. Pure.
 */

#include <json-c/json.h>

/* Takes over from the other object what it has: metadata, counts, and its images, also in place of
 * others with the same name and tag. The two share what was taken over. */
int status_merge(json_object *node_image, json_object *changes);

/* "nginx:1.25", "nginx@sha256:...". One that is not there is ignored. */
void status_remove(json_object *node_image, const char *reference);
