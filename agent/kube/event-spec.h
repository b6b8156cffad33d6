/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Events as the API wants them (core/v1 Event)
 */

#include <stdbool.h>

#include "agent/kube/event-record.h"

#define EVENT_NAME_SIZE 254

typedef struct EventSource {
        const char *component;
        const char *node_name;
} EventSource;

/* "node-1.18a4c5b2f01e3d77": valid whatever the object is called. */
const char *event_spec_name(const EventRecord *record, char buffer[static EVENT_NAME_SIZE]);

/* Where it goes: the namespace of its object, or "default". */
const char *event_spec_namespace(const EventRecord *record);

/* The whole of it, and what changes when it happens again. The caller owns *ret. */
int event_spec_create(const EventRecord *record, const EventSource *source, char **ret);
int event_spec_patch(const EventRecord *record, char **ret);

/* The namespace is being deleted: what the server's refusal (a Status) says. */
bool event_spec_is_terminating(const char *text, size_t size);
