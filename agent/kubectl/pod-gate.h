/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A pod's readiness gate as an update in place uses it, see agent/pod/gate-spec.h. Pure. */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>

/* For an update. */
bool pod_gate_is_closed(json_object *pod);
/* The agent opens it when this container, maybe among others, has the very text of its image. */
bool pod_gate_awaits(json_object *pod, const char *container);
/* The agent opens it when these images run. */
bool pod_gate_is_closed_for(json_object *pod, json_object *images);
/* Whether it has to be closed, or closed again, before the pod gets these images, so that the agent opens it when they run. */
bool pod_gate_must_close(json_object *pod, json_object *images);
/* Whether it is closed for other images than these, and so does not open when these run. */
bool pod_gate_awaits_others(json_object *pod, json_object *images);
int64_t pod_gate_closed_sec(json_object *pod);
/* The images of these for whose containers it is closed: not of init containers that have ended. NULL: no memory. */
json_object *pod_gate_images(json_object *pod, json_object *images);
