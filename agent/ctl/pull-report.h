/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is said about an image
 *
 *     nginx:1.25  sha256:1a2b3c4d5e6f  67.1 MB  12s
 *     nginx:1,25  failed  InvalidReference: no such thing as a tag "1,25"
 */

#include <json-c/json.h>
#include <stddef.h>

#include "agent/ctl/bar.h"
#include "agent/ctl/pull-list.h"

typedef struct PullReportStyle {
        size_t name_width; /* names are filled up to it; 0: they are not */
        bool has_full_id;
} PullReportStyle;

/* The line of an image that is finished, or was asked for without waiting. NULL if there is no
 * memory. */
char *pull_report_line(const PullItem *item, const PullReportStyle *style);

/* What the bar of an image that is not finished shows. The texts are borrowed from the item, and
 * from *note, which the caller frees. */
int pull_report_bar(const PullItem *item, bool is_agent_away, unsigned tick, Bar *ret,
                    char **ret_note);

/* All images as one document. NULL if there is no memory. */
json_object *pull_report_json(const PullList *list);
