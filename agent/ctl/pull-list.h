/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The images that were asked for, and what is known of each
 *
 * Fed with the events of the agent, read by those who print. It has no terminal and no clock: the
 * caller says what time it is.
 *
 *     nginx:1.25  sha256:1a2b3c4d5e6f  67.1 MB  12s      what was fetched, and for how long
 *     nginx:1,25  failed  InvalidReference: no such thing as a tag "1,25"
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/ctl/options.h"
#include "proto/inplaced/v1/node.pb-c.h"

/* Rate of a download, smoothed over a few seconds, so that a person can read it and the time left
 * can be estimated from it. */
typedef struct Rate {
        bool has_sample;
        uint64_t at_usec;
        uint64_t bytes;
        double bytes_per_sec;
} Rate;

#define RATE_INIT ((Rate){ .has_sample = false })

/* To be called about as often as the rate is shown, also when no byte arrived. Fewer bytes than the
 * last time mean that the download began anew. */
void rate_update(Rate *rate, uint64_t now_usec, uint64_t bytes);

/* Bytes per second; 0 if it is not known or nothing arrives. */
uint64_t rate_get(const Rate *rate);

typedef struct PullItem {
        const char *image; /* as it was asked for; borrowed from the command line */
        char *label;       /* the same, safe for a terminal */
        Inplaced__V1__Phase phase;
        Inplaced__V1__Step step;
        uint32_t attempt;
        uint64_t bytes_done;
        uint64_t bytes_total;
        bool is_counted; /* bytes_fetched is known */
        uint64_t bytes_fetched;
        bool was_present;
        Inplaced__V1__OnDemand on_demand; /* without layers if none is */
        char *image_id;                   /* "" while it is not known, as are the next two */
        char *reason;
        char *message;
        const char *option; /* the time limit of ours that has ended it, "--timeout"; or NULL */
        char *cause;        /* the reason of the last attempt, where we have ended it; or "" */
        uint32_t reported_attempt; /* the last one whose failure was printed while it goes on */

        uint64_t waits_usec; /* since when no attempt can be made; 0: one can */
        uint64_t retry_usec; /* when the next attempt begins; 0: none is planned */
        uint64_t moved_usec; /* when the bytes that are there were last seen to change */
        uint64_t begun_usec; /* of CLOCK_MONOTONIC, as is now_usec below */
        uint64_t ended_usec; /* valid once it is finished */
        Rate rate;
        bool is_printed; /* its last line has been written */
} PullItem;

typedef struct PullList {
        PullItem *items;
        size_t n_items;
        int64_t timeout_sec; /* of --timeout; 0: none */
        char *request_id;    /* "" until the agent has sent it */
} PullList;

#define PULL_LIST_INIT ((PullList){ .items = NULL })

/* One item for each image; what was named twice is asked for once. */
int pull_list_init(PullList *list, char *const *images, size_t n_images, int64_t timeout_sec,
                   uint64_t now_usec);
void pull_list_done(PullList *list);

/* Takes in what the agent says; where that is the end by the time limit, in the words of
 * pull_list_end_at_timeout(). now_sec: the same time since the epoch. Sets *ret_item to the item that it is
 * about, or to NULL if it is about none or the item is finished already. */
int pull_list_apply(PullList *list, const Inplaced__V1__PreloadEvent *event, uint64_t now_usec,
                    int64_t now_sec, PullItem **ret_item);

/* Makes everything that is not finished a failure. */
int pull_list_fail_rest(PullList *list, const char *reason, const char *message, uint64_t now_usec);

/* No attempt can be made from now on: the agent is away. */
void pull_list_wait(PullList *list, uint64_t now_usec);

/* The caller was interrupted: everything that is not finished fails as Canceled, with what the last attempt
 * failed with, or what is waited for. */
int pull_list_cancel(PullList *list, uint64_t now_usec);

/* The time of --timeout is over: the same as DeadlineExceeded. */
int pull_list_end_at_timeout(PullList *list, uint64_t now_usec);

/* The same for the images that have waited for so long, the --attempt-timeout, since no attempt could be
 * made: the runtime or the agent does not answer. *ret_next_usec is when the next one will have, at the
 * latest. */
int pull_list_end_waits(PullList *list, int64_t timeout_sec, uint64_t now_usec,
                        uint64_t *ret_next_usec);

size_t pull_list_count_step(const PullList *list, Inplaced__V1__Step step);

/* The images that wait for their first turn. Between two attempts an image waits for one for a moment only. */
size_t pull_list_count_unbegun(const PullList *list);

/* In words where an image stands that has not ended: "still waiting for the container runtime". */
const char *pull_item_stage(const PullItem *item);

bool pull_item_is_finished(const PullItem *item);
size_t pull_list_count(const PullList *list, Inplaced__V1__Phase phase);
bool pull_list_is_finished(const PullList *list);

/* The status that the finished images have together; EXIT_STATUS_TIMEOUT if --timeout has ended any. */
ExitStatus pull_list_exit_status(const PullList *list);

/* When the next attempt begins, and what limits the attempts: "trying again in 5s, until it is there (--attempts,
 * --timeout)". NULL if there is no memory. */
char *pull_item_retry(const PullItem *item, const Options *options, uint64_t now_usec);

/* Why it failed: "NotFound: no such tag", safe for a terminal. NULL if there is no memory. */
char *pull_item_failure(const PullItem *item);

typedef struct PullReportStyle {
        size_t name_width; /* names are filled up to it; 0: they are not */
        bool has_full_id;
} PullReportStyle;

/* The line of an image that is finished, or was asked for without waiting. NULL if there is no
 * memory. */
char *pull_report_line(const PullItem *item, const PullReportStyle *style);

/* All images as one document. NULL if there is no memory. */
json_object *pull_report_json(const PullList *list);
