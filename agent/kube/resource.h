/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A kind of objects that is watched
 *
 * Finds out which version of the kind the API server serves, and watches the objects that one or more
 * selections choose (see watch.h). When the kind vanishes and returns, perhaps in another version, the
 * objects are shown again, and those that went meanwhile are gone. Trouble is logged once for each
 * reason (see report.h), and so are the first list and the end of trouble.
 *
 * Of its callbacks only on_list runs from within one of these functions, and none may free it.
 */

#include "agent/base/log.h"
#include "agent/kube/client.h"
#include "agent/kube/watch.h"

#define KUBE_SELECTIONS_MAX 2

typedef struct KubeResource KubeResource;

/* The callbacks are those of KubeWatchOptions; on_list may be NULL, and also runs before the first
 * list. A selection with neither fields nor labels chooses all objects. */
typedef struct KubeSelection {
        const char *fields; /* "spec.nodeName=node-1", or NULL; copied */
        const char *labels; /* "app=web,!active", or NULL; copied */
        int (*on_object)(const KubeObject *object, void *userdata);
        int (*on_gone)(const KubeObject *object, void *userdata);
        void (*on_list)(void *userdata);
} KubeSelection;

typedef struct KubeResourceOptions {
        KubeClient *client;
        Log *log;
        Metrics *metrics;  /* counts lists and watches that begin again; may be NULL */
        const char *group; /* NULL: the core; its one version needs no discovery; borrowed */
        const char *const *versions; /* versions in order of preference, ended by NULL; borrowed */
        const char *resource;        /* plural, lower case; borrowed */
        const char *subject;         /* subject for the log: "the pods of this node"; copied */
        bool is_optional;            /* a server may lack the kind, and is seldom asked again */
        bool speaks_for_all;         /* see KubeReport */
        bool is_protobuf;
        KubeSelection selections[KUBE_SELECTIONS_MAX]; /* up to the first without on_object */

        /* The served version became known, or is not served any more (NULL). Objects are shown
         * after that. on_version may be NULL. */
        int (*on_version)(const char *version, void *userdata);
        /* All objects were shown: for the first time, or again after a new list or trouble. */
        int (*on_synced)(bool is_first, void *userdata);
        /* The results of the functions below may differ; runs after the two above. May be NULL. */
        int (*on_changed)(void *userdata);
        void *userdata;
} KubeResourceOptions;

/* Begins at once. */
int kube_resource_new(const KubeResourceOptions *options, KubeResource **ret);
/* Takes NULL. Returns NULL. */
KubeResource *kube_resource_free(KubeResource *resource);

/* The version that is served; NULL: none, or not known yet. Borrowed until it changes. */
const char *kube_resource_version(const KubeResource *resource);

/* Whether all objects were shown, and changes are coming. */
bool kube_resource_is_synced(const KubeResource *resource);
/* Whether it was synced at least once. */
bool kube_resource_was_synced(const KubeResource *resource);
/* Whether the server has said what it has of this kind, or cannot say so now: nothing is to be waited for. */
bool kube_resource_is_settled(const KubeResource *resource);

/* Returns why it cannot be watched now, or unset. ERROR_NOT_FOUND: the server lacks the kind; not
 * reported if it is optional. */
const Error *kube_resource_error(const KubeResource *resource);

/*
 * Asks for one object of a selection, whatever the watch has shown, and shows it if it does not have
 * this version. For writes that meet conflicts that nothing explains: after the cluster's store was
 * restored from a backup, the server takes a watch from a version that is not there any more and shows
 * nothing. One that was not started again even lists what it remembers of the lost future. Only a GET of
 * the object is sure to be answered by the store.
 */
int kube_resource_check(KubeResource *resource, size_t selection, const char *namespace,
                        const char *name, const char *known_version);

/* Lists a selection again, and shows all its objects, also those that it has shown before. */
int kube_resource_show_again(KubeResource *resource, size_t selection);

/* Ends a pause, because the server is known to answer. */
int kube_resource_kick(KubeResource *resource);
