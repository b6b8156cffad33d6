/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What status prints, once or again and again
 */

#include <json-c/json.h>

#include "agent/ctl/status-rows.h"
#include "agent/ctl/view.h"

int status_table_new(bool is_wide, Table **ret);

/* The row as it is now. */
int status_table_add(Table *table, const StatusRow *row, bool is_wide);

/* Two or three lines about the node. Without a runtime none is chosen; the address of the API server
 * may be "". */
int status_print_header(json_object *node_image, const Inplaced__V1__Runtime *runtime,
                        const char *api_server);

/* Leaves what the options name. An image that is not in the object is refused, unless the object has
 * only some of the images. */
int status_select_for(json_object *node_image, const Options *options, bool is_partial,
                      Error *reterr);

/* Prints the status, and then what changes, until a signal ends it. */
int status_watch(const Options *options);
