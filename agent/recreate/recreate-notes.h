/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is noted in a request: its status, by us or a controller, and a controller's annotations
 *
 * Pure. The part of recreate-spec.h that is never refused.
 */

#include "agent/recreate/recreate-spec.h"

/* Fills what the spec has of it; its containers are there already. */
int recreate_notes_read(struct json_object *object, RecreateDialect dialect, RecreateSpec *spec);
void recreate_notes_done(RecreateSpec *spec);
