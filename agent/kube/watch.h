/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All objects of one kind that a selector selects, and each change to them
 *
 * Lists (streaming where the server can, else in pages), then watches from there, and again from the
 * last known version when the watch ends; a version that is too old means a new list. The user of a watch
 * sees only objects, in their newest state, each at least once, and objects that are gone. The watch keeps
 * no object, only their names, UIDs and versions. Objects are borrowed during the call; in any callback the
 * watch may be freed.
 * See kubernetes.io/docs/reference/using-api/api-concepts ("Efficient detection of changes").
 */

#include "agent/kube/client.h"
#include "agent/kube/object.h"
#include "agent/kube/path.h"

typedef struct KubeWatch KubeWatch;

/* State of the watch; for people and metrics. */
typedef enum KubeWatchState {
        KUBE_WATCH_LISTING,
        KUBE_WATCH_SYNCED,
        KUBE_WATCH_TROUBLED, /* still trying; see kube_watch_error() */
        _KUBE_WATCH_STATE_MAX,
} KubeWatchState;

typedef struct KubeWatchOptions {
        KubeClient *client;
        KubePath path;     /* group, version, namespace, resource, fields, labels; copied */
        bool is_protobuf;  /* ask for protobuf instead of JSON */
        bool is_metadata;  /* ask for the metadata of objects alone, in JSON */
        size_t object_max; /* bytes of one object; a larger one is trouble. 0: 2 MiB */

        /* The object is there, or it changed. */
        int (*on_object)(const KubeObject *object, void *userdata);
        /* The object is gone; only namespace, name and uid are set. An object that was deleted and
         * created again is gone first. */
        int (*on_gone)(const KubeObject *object, void *userdata);
        /* The state changed, or the reason of the trouble; the first KUBE_WATCH_SYNCED comes when
         * everything was shown. Later ones may follow a trouble, or a new list. */
        int (*on_state)(KubeWatchState state, void *userdata);
        /* A list begins again: the newest version that it shows is valid, even if it is lower than
         * before. May be NULL. */
        void (*on_list)(void *userdata);
        /* A list or a watch was begun again, for metrics; may be NULL. */
        void (*on_restart)(void *userdata);
        void *userdata;
} KubeWatchOptions;

/* Begins at once. */
int kube_watch_new(const KubeWatchOptions *options, KubeWatch **ret);
KubeWatch *kube_watch_free(KubeWatch *watch);

KubeWatchState kube_watch_state(const KubeWatch *watch);

/* Returns the reason of the trouble, or unset. ERROR_NOT_FOUND: the server lacks this kind. */
const Error *kube_watch_error(const KubeWatch *watch);

/* The server has refused the last request for what it asks, such as by a selector that is none. */
bool kube_watch_is_malformed(const KubeWatch *watch);

/* Lists again, because the owner knows that the shown objects are outdated. Useless without a
 * pause. Not from within a callback of the watch. */
int kube_watch_relist(KubeWatch *watch);

/* Lists like a new watch, and shows all objects, also those shown before; objects that are not
 * found any more are gone. version: the new version of the kind; NULL: as before. Not from within a
 * callback of the watch. */
int kube_watch_begin_again(KubeWatch *watch, const char *version);

/* Stops all requests until it is begun again; the state is KUBE_WATCH_LISTING. From within a
 * callback of the watch only if it is troubled. */
void kube_watch_stop(KubeWatch *watch);

/* Ends a pause, because the server is known to answer. */
int kube_watch_kick(KubeWatch *watch);
