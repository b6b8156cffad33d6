/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/pod-waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/cluster/pod-waits-plan.h"
#include "cri/client.h"

/* The pod's status shows only later that an image has arrived. */
#define POLL_USEC (USEC_PER_SEC / 2)

typedef enum WaitImage {
        WAIT_UNKNOWN, /* the runtime has not answered */
        WAIT_MISSING,
        WAIT_HELD,
} WaitImage;

/* A container that starts when its image is there. */
typedef struct Wait {
        LIST_LINKS(struct Wait);
        char *uid; /* UID of the pod */
        char *pod; /* "namespace/name" */
        char *key; /* canonical reference of the image */
        struct timespec since;
        WaitImage image;
        bool must_ask;
        bool is_update;  /* the container runs, and has another image */
        bool is_overdue; /* it has waited for so long that pulls do not pause for it */
        bool is_kept;    /* mark of a sweep */
} Wait;

struct PodWaits {
        PodWaitsOptions options;
        PodsWatcher watcher;
        Wait *waits;
        bool is_synced; /* the agent knows all pods: another one is new */
        RpcCall *call;  /* question for an image, */
        char *asked;    /* and its key */
        PodPause pause;
        bool is_changed;       /* the waits differ from those that images_pause() was called with */
        bool is_logged;        /* the begin of the pause is in the log */
        uint64_t counted_usec; /* time until which the pause was counted */
        Timer poll;
};

static Wait *wait_free(Wait *wait) {
        if (!wait)
                return NULL;

        free(wait->uid);
        free(wait->pod);
        free(wait->key);
        free(wait);
        return NULL;
}

DEFINE_CLEANUP(Wait *, wait_free)

static bool wait_counts(const Wait *wait) {
        return wait->image == WAIT_MISSING && !wait->is_overdue;
}

static bool wait_must_be_polled(const Wait *wait) {
        return wait->image != WAIT_HELD && !wait->is_overdue;
}

/* The first wait for which pulls pause; NULL: there is none. */
static const Wait *pod_waits_first(const PodWaits *waits) {
        for (const Wait *wait = waits->waits; wait; wait = wait->next)
                if (wait_counts(wait))
                        return wait;

        return NULL;
}

/* Calls images_pause() with the present waits, or with none after the pause. */
static int pod_waits_apply(PodWaits *waits) {
        const Wait *first = waits->pause.is_on ? pod_waits_first(waits) : NULL;
        cleanup(free_p) const char **keys = NULL;
        cleanup(free_p) char *why = NULL;
        size_t n = 0;

        if (!waits->pause.is_on)
                return images_pause(waits->options.images, NULL, NULL, 0);
        if (!first)
                return 0;

        for (const Wait *wait = waits->waits; wait; wait = wait->next)
                n++;
        keys = calloc(n + 1, sizeof(keys[0]));
        if (!keys || text_format(&why, "pod %s waits for its image", first->pod) < 0)
                return -ENOMEM;

        n = 0;
        for (const Wait *wait = waits->waits; wait; wait = wait->next)
                if (wait_counts(wait))
                        keys[n++] = wait->key;
        return images_pause(waits->options.images, why, keys, n);
}

static void pod_waits_log(PodWaits *waits, bool is_at_limit) {
        const Wait *first = pod_waits_first(waits);
        ImagesWork work = images_work(waits->options.images);

        if (work.n_queued + work.n_pulling == 0)
                return;

        if (waits->pause.is_on && first)
                log_info(waits->options.log, NULL, "Pulls pause: pod %s waits for its image.",
                         first->pod);
        else if (waits->is_logged)
                log_info(waits->options.log, NULL, "Pulls continue%s.",
                         is_at_limit ? ", though pods wait: the pause has reached its limit" : "");
        waits->is_logged = waits->pause.is_on;
}

/* Counts the time for which pulls waited. */
static void pod_waits_count(PodWaits *waits, bool was_on, uint64_t now) {
        ImagesWork work = images_work(waits->options.images);

        if (was_on && work.n_queued > 0)
                metrics_add(waits->options.metrics, METRIC_PULLS_PAUSED, NULL,
                            (double) (now - waits->counted_usec) / (double) USEC_PER_SEC);
        waits->counted_usec = now;
}

/* Decides when all images were asked for. */
static int pod_waits_decide(PodWaits *waits) {
        uint64_t now = loop_now_usec(waits->options.event);
        bool was_on = waits->pause.is_on, must_poll = false, is_at_limit;
        int r = 0;

        pod_waits_count(waits, was_on, now);
        is_at_limit = pod_waits_plan_step(&waits->pause, pod_waits_first(waits),
                                          waits->options.limit_usec, now);
        if (waits->pause.is_on != was_on)
                pod_waits_log(waits, is_at_limit);
        if (waits->pause.is_on != was_on || (waits->pause.is_on && waits->is_changed))
                r = pod_waits_apply(waits);
        waits->is_changed = false;
        for (Wait *wait = waits->waits; wait; wait = wait->next) {
                wait->is_overdue |= is_at_limit;
                must_poll |= wait_must_be_polled(wait);
        }
        if (r < 0 || (!must_poll && !waits->pause.is_on) || timer_is_running(&waits->poll))
                return r;

        return timer_start(&waits->poll, POLL_USEC);
}

static int pod_waits_ask(PodWaits *waits);

static int on_image(const void *reply, const Error *error, void *userdata) {
        const CriImageStatus *found = reply;
        PodWaits *waits = userdata;
        cleanup(free_p) char *key = take_ptr(waits->asked);
        WaitImage image = error ? WAIT_UNKNOWN : found->image ? WAIT_HELD : WAIT_MISSING;

        waits->call = rpc_call_unref(waits->call);
        for (Wait *wait = waits->waits; wait; wait = wait->next) {
                if (strcmp(wait->key, key) != 0)
                        continue;

                waits->is_changed |= wait->image != image;
                wait->image = image;
                wait->must_ask = false;
        }

        return pod_waits_ask(waits);
}

/* Asks for one image after the other. */
static int pod_waits_ask(PodWaits *waits) {
        const Wait *next = waits->waits;

        if (waits->call)
                return 0;
        while (next && !next->must_ask)
                next = next->next;
        if (!next || !runtimes_are_alive(waits->options.runtimes))
                return pod_waits_decide(waits);

        waits->asked = strdup(next->key);
        if (!waits->asked)
                return -ENOMEM;

        return cri_image_status(runtimes_client(waits->options.runtimes), next->key, on_image,
                                waits, &waits->call);
}

static int on_poll(void *userdata) {
        PodWaits *waits = userdata;

        for (Wait *wait = waits->waits; wait; wait = wait->next)
                wait->must_ask |= wait_must_be_polled(wait);
        return pod_waits_ask(waits);
}

static Wait *pod_waits_find(const PodWaits *waits, const char *uid, const char *key) {
        for (Wait *wait = waits->waits; wait; wait = wait->next)
                if (strcmp(wait->uid, uid) == 0 && strcmp(wait->key, key) == 0)
                        return wait;

        return NULL;
}

static int pod_waits_add(PodWaits *waits, const Pod *pod, char **key, Wait **ret) {
        cleanup(wait_free_p) Wait *wait = calloc(1, sizeof(*wait));

        if (!wait || text_copy(pod->uid, &wait->uid) < 0 ||
            text_format(&wait->pod, "%s/%s", pod->namespace, pod->name) < 0)
                return -ENOMEM;

        if (waits->is_synced)
                (void) clock_gettime(CLOCK_REALTIME, &wait->since);
        wait->key = take_ptr(*key);
        wait->must_ask = true;
        list_prepend(&waits->waits, wait);
        *ret = take_ptr(wait);
        return 0;
}

/* Keeps or adds the wait for an image, if there is one. A name that cannot be parsed is not pulled. */
static int pod_waits_take_image(PodWaits *waits, const Pod *pod, const char *image, bool is_next,
                                bool is_update) {
        cleanup(free_p) char *key = NULL;
        ImageRef ref;
        Wait *wait;
        int r;

        if (image_ref_parse(image, images_short_names(waits->options.images), &ref, NULL) < 0)
                return 0;

        r = image_ref_canonical_reference(&ref, &key);
        if (r < 0)
                return r;

        wait = pod_waits_find(waits, pod->uid, key);
        if (!wait && (is_next || is_update)) {
                r = pod_waits_add(waits, pod, &key, &wait);
                if (r < 0)
                        return r;
                wait->is_update = is_update;
        }
        if (wait)
                wait->is_kept |= is_next || (wait->is_update && wait->image != WAIT_HELD);
        return 0;
}

static int pod_waits_take(PodWaits *waits, const Pod *pod, const PodContainer *container,
                          const PodContainer *before) {
        bool is_update =
                container->is_running && before && strcmp(before->image, container->image) != 0;

        if (container->is_pulled_never ||
            !(container->is_next || is_update || (container->is_running && waits->waits)))
                return 0;

        return pod_waits_take_image(waits, pod, container->image, container->is_next, is_update);
}

/* The kubelet pulls the images of volumes before it starts a container. */
static int pod_waits_take_volumes(PodWaits *waits, const Pod *pod) {
        bool is_next = false;
        int r = 0;

        for (size_t i = 0; i < pod->n_containers; i++)
                is_next |= pod->containers[i].is_next;
        for (char **image = pod->volume_images; r >= 0 && is_next && image && *image; image++)
                r = pod_waits_take_image(waits, pod, *image, is_next, /* is_update= */ false);
        return r;
}

static void pod_waits_sweep(PodWaits *waits, const char *uid) {
        Wait *next;

        for (Wait *wait = waits->waits; wait; wait = next) {
                next = wait->next;
                if (strcmp(wait->uid, uid) != 0)
                        continue;
                if (wait->is_kept) {
                        wait->is_kept = false;
                        continue;
                }

                waits->is_changed = true;
                list_remove(&waits->waits, wait);
                wait_free(wait);
        }
}

static int on_pod(const Pod *pod, const Pod *before, void *userdata) {
        PodWaits *waits = userdata;
        bool is_over = pod->is_deleted || pod->is_finished;
        int r = 0;

        if (before && strcmp(before->uid, pod->uid) != 0) {
                pod_waits_sweep(waits, before->uid);
                before = NULL;
        }
        for (size_t i = 0; r >= 0 && i < pod->n_containers && !is_over; i++)
                r = pod_waits_take(waits, pod, &pod->containers[i],
                                   before ? pod_find(before, pod->containers[i].name) : NULL);
        if (r >= 0 && !is_over)
                r = pod_waits_take_volumes(waits, pod);
        pod_waits_sweep(waits, pod->uid);
        return r < 0 || !waits->waits ? r : pod_waits_ask(waits);
}

static int on_gone(const Pod *pod, void *userdata) {
        pod_waits_sweep(userdata, pod->uid);
        return 0;
}

static int on_state(bool is_synced, void *userdata) {
        ((PodWaits *) userdata)->is_synced = is_synced;
        return 0;
}

int pod_waits_new(const PodWaitsOptions *options, PodWaits **ret) {
        PodWaits *waits = calloc(1, sizeof(*waits));

        if (!waits)
                return -ENOMEM;

        waits->options = *options;
        waits->watcher = (PodsWatcher){
                .on_pod = on_pod,
                .on_gone = on_gone,
                .on_state = on_state,
                .userdata = waits,
        };
        timer_init(&waits->poll, options->event, POLL_USEC / 10, on_poll, waits);
        pods_watch(options->pods, &waits->watcher);
        *ret = waits;
        return 0;
}

PodWaits *pod_waits_free(PodWaits *waits) {
        if (!waits)
                return NULL;

        pods_unwatch(waits->options.pods, &waits->watcher);
        rpc_call_unref(waits->call);
        free(waits->asked);
        timer_done(&waits->poll);
        while (waits->waits) {
                Wait *wait = waits->waits;

                list_remove(&waits->waits, wait);
                wait_free(wait);
        }
        free(waits);
        return NULL;
}

int pod_waits_visit(const PodWaits *waits, int (*visit)(const PodWait *wait, void *userdata),
                    void *userdata) {
        int r = 0;

        for (const Wait *wait = waits->waits; r >= 0 && wait; wait = wait->next)
                r = visit(&(PodWait){ .pod = wait->pod,
                                      .key = wait->key,
                                      .since = wait->since,
                                      .is_missing = wait->image == WAIT_MISSING },
                          userdata);
        return r;
}

int pod_waits_set_limit(PodWaits *waits, uint64_t limit_usec) {
        waits->options.limit_usec = limit_usec;
        return pod_waits_ask(waits);
}
