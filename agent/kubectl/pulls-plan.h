/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decisions of `kubectl inplace pulls`
 *
 * Which pods may wait for an image, where a document of an agent ends, and what to do about a node that does not
 * answer. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The pod is on a node, and one of its containers may wait for the kubelet to pull its image. The kubelet does not say
 * more than that a container is being created. */
bool pod_awaits_image(json_object *pod);

/* A pull that was begun for something else than pods, such as a request of the agent. */
bool pull_is_of_agent(json_object *pull);

/* The size of the first whole JSON object in the text, with the white space before it; 0: it has not ended yet,
 * -1: the text does not begin with an object. */
ssize_t json_object_end(const char *text, size_t size);

/* A line for an agent that could not be asked; reason: what its program ended with. The caller owns *ret. */
int pulls_explain(const char *node, const char *namespace, const char *reason, char **ret);
