/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs of credential provider plugins
 *
 * Those who ask one plugin for one image at the same time share a run; a few runs go on at once, the
 * others wait for their turn. A run that nobody waits for any more is ended. What was answered goes
 * into the cache. That a plugin fails is logged when it begins to, and when the reason changes.
 */

#include <systemd/sd-event.h>

#include "agent/auth/credential-cache.h"
#include "agent/auth/credential-provider-spec.h"
#include "agent/base/list.h"
#include "agent/base/log.h"

typedef struct CredentialRuns CredentialRuns;
typedef struct CredentialRun CredentialRun;
typedef struct CredentialWaiter CredentialWaiter;

/* The answer, or NULL and an error; both borrowed during the call. Must not join, leave or free. */
typedef void (*CredentialRunDone)(CredentialAnswer *answer, const Error *error, void *userdata);

/* Part of whoever waits, and stays where it is meanwhile. All zero: it does not. */
struct CredentialWaiter {
        CredentialRun *run; /* NULL: it does not wait */
        CredentialRunDone on_done;
        void *userdata;
        LIST_LINKS(CredentialWaiter);
};

typedef struct CredentialRunsOptions {
        sd_event *event;
        Log *log;
        const char *bin_dir; /* copied; the rest is borrowed */
        const CredentialProvidersSpec *spec;
        CredentialCache *cache;
} CredentialRunsOptions;

int credential_runs_new(const CredentialRunsOptions *options, CredentialRuns **ret);

/* Nobody waits any more. */
CredentialRuns *credential_runs_free(CredentialRuns *runs);

/* The waiter's handler runs once, not from within. */
int credential_runs_join(CredentialRuns *runs, size_t i_plugin, const char *canonical_name,
                         CredentialWaiter *waiter);

/* The handler does not run any more. Does nothing to one who does not wait. */
void credential_runs_leave(CredentialWaiter *waiter);
