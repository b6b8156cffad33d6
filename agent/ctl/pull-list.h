/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The requested images and the state of each
 *
 * Takes the events of the agent; the code that prints reads it. It has no terminal and no clock: the
 * caller gives the time.
 *
 *     nginx:1.25  sha256:1a2b3c4d5e6f  67.1 MB  12s      bytes fetched, and duration
 *     nginx:1,25  failed  InvalidReference: no such thing as a tag "1,25"
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/rate.h"
#include "agent/ctl/options.h"
#include "proto/inplaced/v1/node.pb-c.h"

typedef struct PullItem {
        const char *image; /* the argument; borrowed from the command line */
        char *label;       /* the same, safe for a terminal */
        Inplaced__V1__Phase phase;
        Inplaced__V1__Step step;
        uint32_t attempt;
        uint64_t bytes_done;
        uint64_t bytes_total;
        bool is_counted; /* bytes_fetched is known */
        uint64_t bytes_fetched;
        bool was_present;
        Inplaced__V1__OnDemand on_demand; /* without layers: none is fetched on demand */
        char *image_id;                   /* "" while unknown, as the next two */
        char *reason;
        char *message;
        const char *option; /* option whose time limit ended it, "--timeout"; or NULL */
        char *cause; /* reason of the last attempt, if a time limit or the user ended it; or "" */
        uint32_t reported_attempt; /* last attempt whose failure was printed */

        uint64_t waits_usec; /* time since which no attempt is possible; 0: one is */
        uint64_t retry_usec; /* begin of the next attempt; 0: none is planned */
        uint64_t moved_usec; /* last change of bytes_done */
        uint64_t begun_usec; /* begin, by CLOCK_MONOTONIC as now_usec below */
        uint64_t ended_usec; /* valid once it is finished */
        Rate rate;
        bool is_printed; /* the final line has been written */
} PullItem;

typedef struct PullList {
        PullItem *items;
        size_t n_items;
        int64_t timeout_sec; /* time limit of --timeout; 0: none */
        char *request_id;    /* "" until the agent has sent it */
} PullList;

#define PULL_LIST_INIT ((PullList){ .items = NULL })

/* Makes one item for each image, without duplicates. */
int pull_list_init(PullList *list, char *const *images, size_t n_images, int64_t timeout_sec,
                   uint64_t now_usec);
void pull_list_done(PullList *list);

/* Applies an event of the agent; an end by the time limit as pull_list_end_at_timeout() does.
 * now_sec: the same time since the epoch. Sets *ret_item to its item, or to NULL if it has none or
 * the item is finished already. */
int pull_list_apply(PullList *list, const Inplaced__V1__PreloadEvent *event, uint64_t now_usec,
                    int64_t now_sec, PullItem **ret_item);

/* Fails all unfinished images. */
int pull_list_fail_rest(PullList *list, const char *reason, const char *message, uint64_t now_usec);

/* Notes that no attempt is possible from now on, since the agent is away. */
void pull_list_wait(PullList *list, uint64_t now_usec);

/* Fails all unfinished images as Canceled, since the user interrupted the command, with the last
 * attempt's error or what they wait for. */
int pull_list_cancel(PullList *list, uint64_t now_usec);

/* Fails them in the same way as DeadlineExceeded, since the time of --timeout is over. */
int pull_list_end_at_timeout(PullList *list, uint64_t now_usec);

/* Does so for images without a possible attempt for that long, the --attempt-timeout, because the
 * runtime or the agent does not answer. *ret_next_usec is the time of the next such end, at the
 * latest. */
int pull_list_end_waits(PullList *list, int64_t timeout_sec, uint64_t now_usec,
                        uint64_t *ret_next_usec);

size_t pull_list_count_step(const PullList *list, Inplaced__V1__Step step);

/* Counts images that wait for their first turn. Between two attempts an image is queued for a
 * moment only. */
size_t pull_list_count_unbegun(const PullList *list);

/* Describes the state of an unfinished image: "still waiting for the container runtime". */
const char *pull_item_stage(const PullItem *item);

bool pull_item_is_finished(const PullItem *item);
size_t pull_list_count_failed(const PullList *list);
bool pull_list_is_finished(const PullList *list);

/* Returns the exit status of all finished images; EXIT_STATUS_TIMEOUT if --timeout ended any. */
ExitStatus pull_list_exit_status(const PullList *list);

/* Describes the next attempt and the limits: "trying again in 5s, until it is there (--attempts,
 * --timeout)". NULL if there is no memory. */
char *pull_item_retry(const PullItem *item, const Options *options, uint64_t now_usec);

/* Describes the failure: "NotFound: no such tag", safe for a terminal. NULL if there is no
 * memory. */
char *pull_item_failure(const PullItem *item);

typedef struct PullReportStyle {
        size_t name_width; /* columns to pad names to; 0: no padding */
        bool has_full_id;
} PullReportStyle;

/* Makes the line of an image that is finished, or that the command does not wait for. NULL if there
 * is no memory. */
char *pull_report_line(const PullItem *item, const PullReportStyle *style);

/* Makes a document of all images. NULL if there is no memory. */
json_object *pull_report_json(const PullList *list);
