/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What it takes to read a configuration of Kubernetes strictly
 *
 * More than agent/document/json-reader.h: a field that nobody knows is an error.
 */

#include <stdbool.h>

#include "agent/document/json-reader.h"

/* Refuses a field of the object that is not among the names, which end with NULL. */
int strict_check_fields(struct json_object *object, const JsonPath *path, const char *const *names,
                        Error *reterr);

/* It is the group, such as "kubelet.config.k8s.io/" with its slash, and v1, v1beta1 or v1alpha1. */
bool strict_is_known_version(const char *api_version, const char *group);

/* Copies a list of texts, whose values are in no error; *ret ends with NULL, also if there is no such
 * list, and is set on failure, too, with what was read. */
int strict_read_texts(struct json_object *object, const JsonPath *parent, const char *key,
                      char ***ret, size_t *ret_n, Error *reterr);
