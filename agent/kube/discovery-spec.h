/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the API server says of itself: meta/v1 APIGroup and APIResourceList
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

#define DISCOVERY_VERSIONS_MAX 32

/* Which of the requested versions, a list that ends with NULL, the group has: bit i is for the i-th. */
int discovery_spec_read_group(const char *text, size_t size, const char *const *versions,
                              uint32_t *ret_served, Error *reterr);

/* Whether the list has the resource, and also its subresource "status". */
int discovery_spec_read_resources(const char *text, size_t size, const char *resource,
                                  bool *ret_is_served, Error *reterr);
