/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/document/json-cleanup.h"
#include "agent/kube/path.h"
#include "agent/kube/reply-spec.h"
#include "agent/kube/retry.h"
#include "agent/recreate/recreate-internal.h"
#include "agent/recreate/recreate-json.h"
#include "agent/recreate/recreate-manage-spec.h"

#define TEXT_MAX ((size_t) 64 << 10)

/* A request without a node: for a pod of another one, for one that is still to come, or for one
 * here that is being taken. Kept as text, which is small. */
struct RecreateOrphan {
        Recreate *recreate;
        char *namespace;
        char *name;
        char *uid;
        char *pod_name;
        char *text;
        bool is_gone; /* from the watch, while it is being taken: what comes of that is awaited */
        KubeCall *call;
        sd_event_source *retry;
        unsigned n_failures;
        LIST_LINKS(struct RecreateOrphan);
};

static RecreateOrphan *orphan_free(RecreateOrphan *orphan) {
        if (!orphan)
                return NULL;

        kube_call_unref(orphan->call);
        sd_event_source_disable_unref(orphan->retry);
        free(orphan->text);
        free(orphan->pod_name);
        free(orphan->uid);
        free(orphan->name);
        free(orphan->namespace);
        free(orphan);
        return NULL;
}

DEFINE_CLEANUP(RecreateOrphan *, orphan_free)

static void drop(RecreateOrphan *orphan) {
        list_remove(&orphan->recreate->orphans, orphan);
        orphan->recreate->n_orphans--;
        orphan_free(orphan);
}

static int orphan_look(RecreateOrphan *orphan);

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata) {
        RecreateOrphan *orphan = userdata;

        orphan->retry = sd_event_source_disable_unref(orphan->retry);
        return orphan_look(orphan);
}

static int look_later(RecreateOrphan *orphan, uint64_t usec) {
        return loop_add_time_relative(orphan->recreate->event, &orphan->retry, CLOCK_MONOTONIC,
                                      usec, 0, on_retry, orphan);
}

static int retry_later(RecreateOrphan *orphan, const KubeReply *reply) {
        uint32_t random = 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        return look_later(orphan, kube_retry_usec(++orphan->n_failures, reply, random));
}

/* Until it may be taken once more, if somebody else lets it go each time; 0: it may. */
static uint64_t get_rest_usec(const RecreateOrphan *orphan) {
        const Recreate *recreate = orphan->recreate;
        uint64_t now_usec = recreate_now_usec(recreate);
        uint64_t usec = recreate_repeats_when_usec(&recreate->repeats, orphan->uid,
                                                   RECREATE_FIELD_LABELS, 0);

        return usec > now_usec ? usec - now_usec : 0;
}

static int drop_gone(RecreateOrphan *orphan) {
        Recreate *recreate = orphan->recreate;

        drop(orphan);
        return recreate->are_orphans_overfull ? recreate_look(recreate) : 0;
}

/* Taken, or changed or gone meanwhile: the watches show what is true now, often before the answer. */
static int on_adopted(const KubeReply *reply, const Error *error, void *userdata) {
        RecreateOrphan *orphan = userdata;
        bool is_late = error && (error->kind == ERROR_CONFLICT || error->kind == ERROR_NOT_FOUND);

        orphan->call = kube_call_unref(orphan->call);
        if (!error)
                recreate_repeats_note(&orphan->recreate->repeats, orphan->uid,
                                      RECREATE_FIELD_LABELS, 0,
                                      recreate_now_usec(orphan->recreate));
        if (!is_late)
                recreate_note_written(orphan->recreate, RECREATE_RIGHT_PATCH, orphan->name,
                                      orphan->n_failures, reply, error);
        if (orphan->is_gone)
                return drop_gone(orphan);

        return error && !is_late ? retry_later(orphan, reply) : 0;
}

static int adopt(RecreateOrphan *orphan, struct json_object *patch) {
        Recreate *recreate = orphan->recreate;
        const KubePath path = {
                .group = RECREATE_GROUP,
                .version = recreate->version,
                .namespace = orphan->namespace,
                .resource = RECREATE_RESOURCE,
                .name = orphan->name,
        };
        KubeRequest call = {
                .verb = "patch",
                .method = "PATCH",
                .accept = KUBE_METADATA_ONLY,
                .content_type = KUBE_MERGE_PATCH,
                .body = recreate_json_body(patch),
                .on_replied = on_adopted,
                .userdata = orphan,
        };
        cleanup(free_p) char *text = NULL;
        int r;

        if (!call.body)
                return -ENOMEM;
        r = kube_path_format(&path, &text);
        if (r < 0)
                return r;

        call.path = text;
        return kube_call(recreate->client, &call, &orphan->call);
}

static int orphan_look(RecreateOrphan *orphan) {
        cleanup(json_object_put_p) json_object *object = NULL, *patch = NULL;
        cleanup(error_done) Error ignored = ERROR_INIT;
        const Recreate *recreate = orphan->recreate;
        const Pod *pod = pods_find(recreate->pods, orphan->namespace, orphan->pod_name);
        uint64_t rest_usec = get_rest_usec(orphan);
        int r;

        if (!pod || orphan->call || orphan->is_gone || orphan->retry || !recreate->version)
                return 0;
        if (rest_usec > 0)
                return look_later(orphan, rest_usec);

        r = reply_spec_parse(orphan->text, strlen(orphan->text), &object, &ignored);
        if (r < 0)
                return ignored.kind == ERROR_NONE ? r : 0;
        r = recreate_manage_adopt(object, pod, recreate->node_name, &patch);
        return r < 0 ? r : adopt(orphan, patch);
}

static RecreateOrphan *find(const Recreate *recreate, const char *uid) {
        RecreateOrphan *orphan = recreate->orphans;

        while (orphan && (orphan->is_gone || strcmp(orphan->uid, uid) != 0))
                orphan = orphan->next;

        return orphan;
}

static void tell_overfull(Recreate *recreate) {
        if (!recreate->are_orphans_overfull)
                log_warning(recreate->log, NULL,
                            "There are more than %d restart requests that nobody has prepared: the "
                            "others wait.",
                            RECREATE_REQUESTS_MAX);
        recreate->are_orphans_overfull = true;
}

static int add(Recreate *recreate, const RecreateSpec *spec, struct json_object *object) {
        cleanup(orphan_free_p) RecreateOrphan *orphan = NULL;
        const char *text;

        if (recreate->n_orphans >= RECREATE_REQUESTS_MAX) {
                tell_overfull(recreate);
                return 0;
        }
        text = recreate_json_body(object);
        if (!text)
                return -ENOMEM;
        if (strlen(text) > TEXT_MAX) {
                log_warning(recreate->log, NULL,
                            "The restart request `%s/%s` is too large to be prepared.",
                            spec->namespace, spec->name);
                return 0;
        }

        orphan = malloc(sizeof(*orphan));
        if (!orphan)
                return -ENOMEM;
        *orphan = (RecreateOrphan){
                .recreate = recreate,
                .namespace = strdup(spec->namespace),
                .name = strdup(spec->name),
                .uid = strdup(spec->uid),
                .pod_name = strdup(spec->pod_name),
                .text = strdup(text),
        };
        if (!orphan->namespace || !orphan->name || !orphan->uid || !orphan->pod_name ||
            !orphan->text)
                return -ENOMEM;

        list_prepend(&recreate->orphans, orphan);
        recreate->n_orphans++;
        return orphan_look(take_ptr(orphan));
}

int recreate_orphan_show(Recreate *recreate, const KubeObject *object) {
        cleanup(error_done) Error ignored = ERROR_INIT;
        RecreateSpec *spec = NULL;
        int r;

        r = recreate_orphan_gone(recreate, object->uid);
        if (r < 0)
                return r;
        r = recreate_spec_parse(object->json, recreate->dialect, &spec, &ignored);
        if (r < 0)
                return ignored.kind == ERROR_NONE ? r : 0;

        /* Without the name of a pod it is nobody's. */
        if (spec->pod_name && !spec->is_deleted && !spec->status.is_completed)
                r = add(recreate, spec, object->json);
        recreate_spec_free(spec);
        return r;
}

int recreate_orphan_gone(Recreate *recreate, const char *uid) {
        RecreateOrphan *orphan = find(recreate, uid);

        if (!orphan)
                return 0;

        orphan->is_gone = true;
        return orphan->call ? 0 : drop_gone(orphan);
}

int recreate_orphans_list_those_without_place(Recreate *recreate) {
        if (!recreate->are_orphans_overfull || !recreate->orphaned.watch ||
            recreate->n_orphans > RECREATE_REQUESTS_MAX / 2)
                return 0;

        recreate->are_orphans_overfull = false;
        return recreate_list_orphans_again(recreate);
}

int recreate_orphans_look(Recreate *recreate, const Pod *pod) {
        int r = 0;

        for (RecreateOrphan *orphan = recreate->orphans; orphan && r >= 0; orphan = orphan->next)
                if (strcmp(orphan->pod_name, pod->name) == 0 &&
                    strcmp(orphan->namespace, pod->namespace) == 0)
                        r = orphan_look(orphan);

        return r;
}

int recreate_orphans_kick(Recreate *recreate) {
        int r = 0;

        for (RecreateOrphan *orphan = recreate->orphans; orphan && r >= 0; orphan = orphan->next)
                if (orphan->retry) {
                        orphan->retry = sd_event_source_disable_unref(orphan->retry);
                        r = orphan_look(orphan);
                }

        return r;
}

void recreate_orphans_drop(Recreate *recreate) {
        while (recreate->orphans)
                drop(recreate->orphans);
}
