/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A person's connection to the API server, for the length of one command
 *
 * A command is straight-line code: each function sends its request and runs the loop until it is
 * answered. What ends a command early (SIGINT, SIGTERM, --timeout) ends the function that waits with
 * ERROR_CANCELED or ERROR_TIMEOUT, and each one after it at once, so that nothing more is sent. A write that
 * was sent gets two seconds more, so that it is known whether it was done. The kinds of other errors are those of
 * agent/kube/client.h. A negative return with an unset error is a local failure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "agent/base/cleanup.h"
#include "agent/base/error.h"
#include "agent/kube/client.h"
#include "agent/kube/discovery.h"
#include "agent/kube/object.h"
#include "agent/kube/path.h"

typedef struct Session Session;

/* Texts are NULL where nothing was given. They are borrowed, and outlive the session. */
typedef struct SessionOptions {
        const char *
                kubeconfig; /* the only file; NULL: as kubectl: $KUBECONFIG, ~/.kube/config, a pod */
        const char *context;
        const char *namespace;
        KubeconfigOverrides overrides;
        uint64_t timeout_usec;         /* time limit of the command; 0: none */
        uint64_t request_timeout_usec; /* time limit of each request but watches; 0: the client's */
        bool is_dry_run;               /* writes are sent with dryRun=All */
} SessionOptions;

/* Sends nothing yet. Blocks SIGINT, SIGTERM and, unless that is ignored, SIGHUP. */
int session_new(const SessionOptions *options, Session **ret, Error *reterr);
/* Takes NULL. Returns NULL. */
Session *session_free(Session *session);

/* --namespace, else the context's, else "default"; borrowed. */
const char *session_namespace(const Session *session);

/* Asks the server how it names the user, once. A server that goes on refusing to say that is an answer as well: then it is the
 * kubeconfig's name. To be called before session_user() goes into a record: records of one user must not differ. */
int session_ask_user(Session *session, Error *reterr);

/* The user as the server names it; where it does not say, the kubeconfig's name. Borrowed. */
const char *session_user(Session *session);

/* Returns the options as they were given; borrowed. */
const SessionOptions *session_options(const Session *session);

/* "https://10.96.0.1:6443 by kubeconfig /root/.kube/config, context lab"; borrowed. */
const char *session_target(const Session *session);

bool session_is_dry_run(const Session *session);

/* The loop that runs while a function of the session waits. */
sd_event *session_event(const Session *session);

/* Returns the client for requests that run while session_wait() waits. --dry-run does not apply to
 * them. */
KubeClient *session_client(const Session *session);

/* Each sends a request. The caller owns *ret, and may pass NULL if the answer does not matter. A request that the
 * server refuses because it is busy (Retry-After) is sent again, a few times. */
int session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr);
int session_create(Session *session, const KubePath *path, json_object *body, json_object **ret,
                   Error *reterr);
/* content_type: KUBE_MERGE_PATCH ... */
int session_patch(Session *session, const KubePath *path, const char *content_type,
                  json_object *body, json_object **ret, Error *reterr);
/* Between these, requests are sent after a signal or the time-out as well, for two seconds each and until the next signal: to
 * leave things in order. A server that is busy is asked once more, within two seconds. */
void session_begin_leave(Session *session);
void session_end_leave(Session *session);
/* A session_patch() between them: to note how it ended. */
int session_patch_at_end(Session *session, const KubePath *path, const char *content_type,
                         json_object *body, Error *reterr);
/* options: a DeleteOptions, such as preconditions; NULL: none. */
int session_delete(Session *session, const KubePath *path, json_object *options, Error *reterr);

/* Each item of a collection, in pages of 100, of which one at a time is in memory, smaller ones where
 * objects are large. Items are borrowed during the
 * call; a negative return ends the list. */
typedef int (*SessionItem)(json_object *item, void *userdata);
int session_list(Session *session, const KubePath *path, SessionItem on_item, void *userdata,
                 Error *reterr);

/* The same of their metadata alone, which is little. */
int session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                          void *userdata, Error *reterr);

/* The first version in which the server has the kind; NULL: none. Asked once. */
int session_find_version(Session *session, const KubeKind *kind, const char **ret, Error *reterr);
/* The same of a resource of OpenKruise's group, v1beta1 before v1alpha1. */
int session_find_kruise(Session *session, const char *resource, const char **ret, Error *reterr);

/* A collection that is followed while session_wait() waits. Objects are JSON. on_gone may be NULL. */
typedef struct SessionWatch {
        KubePath path;      /* group, version, namespace, resource; borrowed */
        const char *fields; /* "metadata.name=web-0", or NULL */
        const char *labels; /* "app=web", or NULL */
        bool is_metadata;   /* the metadata of objects alone */
        int (*on_object)(const KubeObject *object, void *userdata);
        int (*on_gone)(const KubeObject *object, void *userdata);
        void *userdata; /* userdata of these two; NULL: that of the wait */
} SessionWatch;

typedef struct SessionWait {
        const SessionWatch *watches; /* SESSION_WATCHES_MAX at most */
        size_t n_watches;
        /* 1: the wait is over. 0: not yet. Negative: a local failure. Asked when all that is there was
         * shown, then after each change, and every second. */
        int (*is_done)(void *userdata);
        int (*is_away)(const Error *error, void *userdata); /* see session_follow_wait() */
        void *userdata;                                     /* userdata of all callbacks */
} SessionWait;

#define SESSION_WATCHES_MAX 6

/* Goes on while the server is away. Refused when the server refuses a watch, or has no such kind. */
int session_wait(Session *session, const SessionWait *wait, Error *reterr);

/* The same for several waits: between them the objects are shown as well, while requests are answered.
 * To be freed before the session. */
typedef struct SessionFollow SessionFollow;
int session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                       void *userdata, SessionFollow **ret);
SessionFollow *session_follow_free(SessionFollow *follow);
/* Has is_done asked in the next turn of the loop: something else than what is followed has changed. */
int session_follow_check(SessionFollow *follow);
/* is_away: asked every second instead of is_done while not everything was shown yet; the error says why, and is
 * unset if only the answer is missing. It may end the wait as well. May be NULL. */
int session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                        int (*is_away)(const Error *error, void *userdata), void *userdata,
                        Error *reterr);

/* The server did not answer what is followed, and is asked again. */
bool session_is_away(const Session *session);

/* The status of the answer to the last request; 0: none came. */
int session_code(const Session *session);

/* The server's time, as far as its answers have told it, in seconds since 1970. */
int64_t session_server_sec(const Session *session);

/* Waits that long; for pauses that the user asked for, and before trying again. */
int session_pause(Session *session, uint64_t usec, Error *reterr);

/* SIGINT, SIGTERM or the timeout came. */
bool session_is_ended(const Session *session);

/* Whether a write that failed in this way may have been done. */
static inline bool session_is_lost(const Session *session, const Error *error) {
        return !session_is_ended(session) && error_is_unanswered(error);
}

/* Prints the error and returns the exit status that it means: EXIT_STATUS_FAILED, EXIT_STATUS_TIMEOUT or
 * EXIT_STATUS_SIGNAL + number, or r for a local failure (the error is unset). */
int session_fail(const Session *session, int r, const Error *error);

/* The exit status that a signal or the timeout asks for; 0: none came. */
int session_end_status(const Session *session);

DEFINE_CLEANUP(Session *, session_free)
DEFINE_CLEANUP(SessionFollow *, session_follow_free)
