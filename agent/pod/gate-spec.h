/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The readiness gate inplaced.io/Ready: who takes a pod out of service for an update, and who returns it
 *
 * A pod whose spec.readinessGates list it is ready only while its condition of that type is True. The
 * agent of the node does no more than open it: once there is no such condition and all containers run,
 * and then after each update. A program that is about to change images closes it before, by a patch of
 * the pod's status: False, with the reason InPlaceUpdate and a message that names the images which
 * containers are to have. It stays closed until the pod asks for all of those and runs them, whatever
 * happens to the agent or to that program, which goes on by patching the images, or gives up by closing
 * it again for the images that the pod has. A condition that is False for another reason belongs to
 * another author, and stays as it is. Pure.
 *
 * The message is {"by":"alice","since":"2026-11-22T20:15:00Z","images":{"app":"example.org/app:2"}}. Only
 * "images" matters here; with a message that names none nothing opens the gate.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/pod/pod.h"

#define GATE_CONDITION "inplaced.io/Ready"
#define GATE_REASON_STARTED "Started"      /* True: its containers run for the first time */
#define GATE_REASON_UPDATE "InPlaceUpdate" /* False */
#define GATE_REASON_UPDATED "Updated"      /* True: the images that it was closed for run */

/* The condition that closes it, for a patch, owned by the caller. images has the references by the
 * containers' names, and is borrowed. */
int gate_close(const char *by, int64_t now_sec, struct json_object *images,
               struct json_object **ret);

/* Reads the message of a gate that was closed, and marks the containers that it names. *ret: the pod asks for all images in
 * it; false if that names none. */
int gate_read(const char *message, Pod *pod, bool *ret);
