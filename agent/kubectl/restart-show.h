/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Restarts of pods, for a person
 *
 * On a terminal, a table that is drawn again as they go on; elsewhere a line for each beginning and end. With -o json or
 * yaml one document in the end, with -o name the names of the pods that were restarted.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/kubectl/flags.h"
#include "agent/kubectl/pod-table.h"
#include "agent/kubectl/restart-plan.h"

typedef struct PodRestart {
        char *pod;
        json_object *containers; /* a list of names */
        bool was_ready;
        json_object *before; /* the pod when it began, or was listed */
        bool has_begun;
        bool is_needless; /* another program has restarted it */
        bool is_gone;     /* since it was listed: what is in its place has new containers */
        bool is_by_request;
        char *request; /* name of the request; NULL: there is none */
        RestartEnd end;
        char *why;           /* reason of a failure; NULL: none is known */
        uint64_t since_usec; /* beginning or end of its restart, or beginning of its wait */
} PodRestart;

void pod_restart_done(PodRestart *restart);

typedef struct RestartShow {
        const Flags *flags; /* borrowed */
        bool is_dry_run;
        bool is_live; /* a table on a terminal takes the place of lines */
        PodTable table;
} RestartShow;

RestartShow restart_show_init(const Flags *flags, bool is_dry_run);
void restart_show_done(RestartShow *show);

/* Draws the table. pod, why: what the command waits for; NULL: nothing. */
void restart_show_draw(RestartShow *show, const PodRestart *items, size_t n_items, const char *pod,
                       const char *why);
/* Draws the table for the last time, and prints the failures below it. */
void restart_show_end(RestartShow *show, const PodRestart *items, size_t n_items);

/* Prints that the pod begins, and how it has ended, where there is no table. */
void restart_show_begun(const RestartShow *show, const PodRestart *restart);
void restart_show_ended(const RestartShow *show, const PodRestart *restart);

/* Complains of a pod; the table is left as it is, and the next one stands below. */
void restart_show_say(RestartShow *show, const PodRestart *restart, const char *text);

int restart_show_document(const RestartShow *show, const PodRestart *items, size_t n_items);
