/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A writer that keeps the status, or another part, of one watched object
 *
 * Its owner compares the wanted status with the known one, and shows the writer each object of the watch.
 * The writer does everything else: it asks for a comparison after every event and at the end of each pause,
 * sends one guarded patch at a time (see patch.h), and uses the written status until the watch shows it. It
 * logs each reason of a failure once, and the end of the failures. If conflicts repeat though the watch
 * shows nothing new, it has the object checked.
 *
 * A writer is a field of its owner. While the server is away it keeps no body: the comparison at the end of
 * the pause makes the body from the current state.
 */

#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/kube/patch.h"
#include "agent/kube/resource.h"

/* Result of a comparison. */
typedef struct KubeWrite {
        struct json_object *body; /* merge patch that the writer takes over; NULL: none is needed */
        uint64_t not_before_usec; /* time of the next comparison, if it is later than now; any body
                                   * is dropped until then */
} KubeWrite;

/* The texts are borrowed. */
typedef struct KubeWriterOptions {
        KubeClient *client;
        Log *log;
        Metrics *metrics;
        MetricId metric; /* counts the writes; conflicts that the watch explains do not count */
        const char *group;
        const char *resource;
        const char *name;
        const char *failed;     /* beginning of the log line: "Cannot write the status" */
        const char *recovered;  /* "The status is written again" */
        bool is_merged_by_keys; /* the body is a strategic merge patch */
        bool is_spec;           /* the body is of the object itself, not of its status */

        /* Runs only while the watch is synced and shows the object. */
        int (*compare)(KubeWrite *ret_write, void *userdata);
        /* The body was sent just now. */
        void (*on_sent)(void *userdata);
        /* The server has accepted the body; NULL: the watch has already shown a newer object. */
        int (*on_written)(struct json_object *body, void *userdata);
        /* The error differs. */
        void (*on_changed)(void *userdata);
        void *userdata;
} KubeWriterOptions;

typedef struct KubeWriter {
        KubeWriterOptions options;
        KubeResource *resource; /* set by the owner, as soon as there is one; borrowed */
        Error error;            /* why the status cannot be written, or unset */

        KubePatch patch;
        struct json_object *body; /* body of the pending request */
        bool is_outdated;         /* the watch has shown another version since it was sent */
        Deferred compare;
        Timer due;

        char *version; /* newest known resourceVersion, from the watch or from a write; NULL: there
                        * is no object */
        bool is_listing; /* the next object counts, whatever its version */
} KubeWriter;

void kube_writer_init(KubeWriter *writer, const KubeWriterOptions *options);
void kube_writer_done(KubeWriter *writer);

/* Compares in the next turn of the loop. */
int kube_writer_request(KubeWriter *writer);

/* The same, and ends a pause. */
int kube_writer_kick(KubeWriter *writer);

/* Notes the object that the watch shows, and requests a comparison. Returns 1; 0 if the agent's own
 * write is newer, so that the object's status does not count; a negative errno. */
int kube_writer_show(KubeWriter *writer, const KubeObject *object);

/* Notes that a list begins, which shows the newest state even if its version is lower, as after a
 * restore of the server's store. */
void kube_writer_list(KubeWriter *writer);

/* Notes that there is no object. Drops the pending write. */
void kube_writer_forget(KubeWriter *writer);
