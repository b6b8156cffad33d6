/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A workload, its pods and what is between them, as the API server shows them now
 *
 * What there is is kept by name in a RolloutView, and is current while one waits, also for the answer to
 * a request.
 */

#include "agent/kubectl/session.h"
#include "agent/kubectl/takeover-plan.h"

typedef struct RolloutWatch {
        Session *session;
        KubePath path;       /* path of the workload; its texts are borrowed */
        char *uid;           /* uid of the workload: another one may get its name */
        char *selector;      /* selector of the workload's pods; NULL: it is a pod */
        RolloutView view;    /* owned; workload: NULL if it is gone */
        json_object *record; /* record of the workload; NULL: not read yet, or none */
        bool is_there;       /* the workload, by the list and what followed */
        SessionFollow *follow;
} RolloutWatch;

/* "deployment/web", whose text is borrowed. *ret is to be freed in any case. */
int rollout_watch_load(Session *session, const char *workload, RolloutWatch *ret, Error *reterr);
/* The same by kind and path, whose texts are borrowed. */
int rollout_watch_load_path(Session *session, WorkloadKind kind, const KubePath *path,
                            RolloutWatch *ret, Error *reterr);
/* Follows it, as session_follow_wait() does. While it is away, the view is empty. */
int rollout_watch_wait(RolloutWatch *watch, int (*is_done)(void *userdata),
                       int (*is_away)(const Error *error, void *userdata), void *userdata,
                       Error *reterr);
/* The record of the workload as it is now, as rollout_record_read(). */
int rollout_watch_record(RolloutWatch *watch, json_object **ret, Error *reterr);
/* The server's answer to a write, which the watch may show later. */
int rollout_watch_note(RolloutWatch *watch, json_object *object);
/* The same of a ReplicaSet that was created. */
int rollout_watch_add(RolloutWatch *watch, json_object *object);
/* Reads all of it anew, within a minute; refused if the workload is gone. */
int rollout_watch_list(RolloutWatch *watch, Error *reterr);
/* The next wait reads all of it anew. */
void rollout_watch_stop(RolloutWatch *watch);
void rollout_watch_done(RolloutWatch *watch);
