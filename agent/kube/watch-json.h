/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The JSON half of watch-message.h: objects are parsed already, and stay with the caller
 */

#include "agent/kube/watch-message.h"

#define WATCH_LIST_END_ANNOTATION "k8s.io/initial-events-end"

int watch_json_event(struct json_object *json, WatchEvent *event, Error *reterr);
int watch_json_list(struct json_object *json, WatchList *list, Error *reterr);
int watch_json_object(struct json_object *json, KubeObject *object, Error *reterr);

/* "ADDED", "MODIFIED"... */
int watch_event_type_from_string(const char *text, WatchEventType *ret, Error *reterr);
