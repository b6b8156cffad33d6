/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The containers that are being restarted, and what is known of each
 *
 * Fed with the events of the agent, read by those who print. It knows neither terminal nor clock.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/ctl/options.h"
#include "proto/inplaced/v1/node.pb-c.h"

typedef struct RestartItem {
        Inplaced__V1__RestartEvent *event; /* the newest */
        uint64_t begun_usec;               /* when the stop began; 0: it has not been seen */
        uint64_t stopped_usec;             /* when it had ended; 0: not yet */
} RestartItem;

typedef struct RestartList {
        RestartItem *items;
        size_t n_items;
} RestartList;

#define RESTART_LIST_INIT ((RestartList){ .items = NULL })

/* Takes in what the agent says, which is copied. Sets *ret_item to the item that it is about. */
int restart_list_apply(RestartList *list, const Inplaced__V1__RestartEvent *event,
                       uint64_t now_usec, RestartItem **ret_item);
void restart_list_done(RestartList *list);

/* Each container has its last state. */
bool restart_list_is_finished(const RestartList *list);

/* must_run: a container that has only been stopped is done in part. Nothing known at all is a
 * failure, as is what is not finished. */
ExitStatus restart_list_exit_status(const RestartList *list, bool must_run);

/* What is to be said of it now, such as "default/web/app  stopping"; "" if that is nothing. NULL if
 * there is no memory. */
char *restart_item_line(const RestartItem *item, bool has_full_id);

/* All of them as one document. NULL if there is no memory. */
json_object *restart_list_json(const RestartList *list);
