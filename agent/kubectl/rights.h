/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which rights the user lacks
 *
 * By a SelfSubjectAccessReview for each. Where the server refuses these, no right counts as missing.
 */

#include "agent/kubectl/rights-plan.h"
#include "agent/kubectl/session.h"

typedef struct Rights {
        Session *session;
        json_object *answers; /* {"patch pods/status": true}, to ask once */
} Rights;

int rights_init(Session *session, Rights *ret);
void rights_done(Rights *rights);

/* Asks for one verb of it. name: NULL: of all. *ret is true, too, where the server does not tell. */
int rights_ask(Session *session, const Right *right, const char *verb, const char *namespace,
               const char *name, bool *ret, Error *reterr);

typedef struct RightsMissing {
        char *text;   /* "list, watch pods; patch pods/status", "" if there are none; owned */
        size_t n;     /* number of missing rights that are not optional */
        bool has_own; /* the write on the task's own kind is allowed */
} RightsMissing;

void rights_missing_done(RightsMissing *missing);

/* name: of the workload; NULL: of all. */
int rights_check(Rights *rights, RightsTask task, const char *name, RightsMissing *ret,
                 Error *reterr);

/* Refused, with all that is missing, if set image and rollout of "deployment/web" cannot go on. */
int rights_require(Session *session, const char *workload, Error *reterr);
/* The same of another task. */
int rights_require_task(Session *session, RightsTask task, Error *reterr);
