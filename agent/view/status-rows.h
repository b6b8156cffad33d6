/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The images of a NodeImage object
 *
 * One row for each tag that the spec names or the status reports, sorted by image and tag. Whatever
 * is missing in the object or has another type than it should is empty.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct StatusRow {
        const char *image; /* the texts are borrowed from the object, and "" if there is none */
        const char *tag;
        const char *policy;
        const char *phase; /* "Waiting" until something is reported */
        int progress;      /* percent */
        const char *image_id;
        const char *message;
        json_object *owners; /* NULL: not known */
        int64_t created_at;  /* seconds since the epoch, 0 if unknown, as are the others */
        int64_t started_at;
        int64_t completed_at;
        int64_t changed_at; /* begin of the phase; only of waiting or missing images */
        int64_t next_attempt_at;
} StatusRow;

typedef struct StatusRows {
        StatusRow *items;
        size_t n_items;
} StatusRows;

#define STATUS_ROWS_INIT ((StatusRows){ .items = NULL })

/* By name. The object is borrowed as long as the rows live. */
int status_rows_read(json_object *node_image, StatusRows *ret);
void status_rows_done(StatusRows *rows);

bool status_rows_have(const StatusRows *rows, const char *image, const char *tag);

/* Puts images that are being pulled first, and images that are present last. */
void status_rows_sort_by_urgency(StatusRows *rows);

/* "3 pulled, 1 failed, 1 waiting"; "none" of no rows. NULL if there is no memory. */
char *status_rows_count(const StatusRows *rows);

/* Describes who requests it, as the list of images does: "folder:web.yaml", "job team/warm", "jo
 * (uid 1000, pid 4242), request 7f3a", joined with "; ". "" if unknown; NULL if there is no
 * memory. */
char *status_row_requested_by(const StatusRow *row);

/* Returns when the phase of the image began; 0 if unknown. */
int64_t status_row_since(const StatusRow *row);

/* Writes NAME:TAG or NAME@DIGEST; the caller owns *ret. */
int status_row_reference(const StatusRow *row, char **ret);

/* Whether both mean the same image, if a name without a registry is one of Docker Hub. */
bool status_reference_equal(const char *a, const char *b);
