/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/inplace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/array.h"
#include "agent/base/text.h"
#include "agent/image/image-ref.h"
#include "agent/inplace/inplace-pod.h"

DEFINE_CLEANUP(InPlace *, inplace_free)

/* Stops come first, since the owner of the pod waits for them. */
int inplace_pod_reconcile(InPlacePod *pod) {
        int r;

        pod->next_usec = UINT64_MAX;
        r = inplace_pod_restart(pod);
        if (r >= 0)
                r = inplace_pod_poll(pod);
        if (r >= 0)
                r = inplace_pod_inspect(pod);
        if (r >= 0)
                r = inplace_pod_write(pod);
        if (r < 0)
                return r;

        if (pod->next_usec != UINT64_MAX)
                return timer_start_at(&pod->timer, pod->next_usec);

        timer_stop(&pod->timer);
        return 0;
}

static int inplace_reconcile_all(InPlace *inplace) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < inplace->n_pods; i++)
                r = inplace_pod_reconcile(inplace->pods[i]);

        return r;
}

static int compare_uid(const void *pod, const void *uid) {
        return strcmp(((const InPlacePod *) pod)->uid, uid);
}

/* NULL: none. A binary search, since each event of a pod calls it. */
static InPlacePod *inplace_find(const InPlace *inplace, const char *uid) {
        size_t at;

        return sorted_find(inplace->pods, inplace->n_pods, compare_uid, uid, &at)
                       ? inplace->pods[at]
                       : NULL;
}

static int inplace_add(InPlace *inplace, const Pod *pod) {
        InPlacePod *added;
        size_t at;
        int r;

        r = inplace_pod_new(inplace, pod, &added);
        if (r < 0)
                return r;

        inplace_pod_write_init(added);
        (void) sorted_find(inplace->pods, inplace->n_pods, compare_uid, added->uid, &at);
        r = sorted_insert(&inplace->pods, &inplace->n_pods, at, added);
        if (r < 0) {
                inplace_pod_free(added);
                return r;
        }

        return inplace_pod_reconcile(added);
}

static void inplace_drop(InPlace *inplace, InPlacePod *pod) {
        size_t at;

        if (sorted_find(inplace->pods, inplace->n_pods, compare_uid, pod->uid, &at))
                sorted_remove(inplace->pods, &inplace->n_pods, at);
        inplace_pod_free(pod);
}

static bool container_equal(const PodContainer *a, const PodContainer *b) {
        return a->is_running == b->is_running && a->env_hash == b->env_hash &&
               a->status_index == b->status_index && text_equal(a->container_id, b->container_id) &&
               text_equal(a->image, b->image);
}

/* Most changes of a pod do not matter here. */
static bool pod_equal(const Pod *a, const Pod *b) {
        if (a->is_deleted != b->is_deleted || a->is_finished != b->is_finished ||
            a->is_ready != b->is_ready || a->is_kruise != b->is_kruise || a->update != b->update ||
            a->gate != b->gate || a->gate_digest != b->gate_digest ||
            !text_equal(a->restart_on_metadata, b->restart_on_metadata) ||
            !text_equal(a->meta, b->meta) || !text_equal(a->verified_status, b->verified_status) ||
            !text_equal(a->verified_reason, b->verified_reason) ||
            !text_equal(a->verified_message, b->verified_message))
                return false;

        for (size_t i = 0; i < a->n_containers; i++)
                if (!container_equal(&a->containers[i], &b->containers[i]))
                        return false;

        return true;
}

/* The list of containers does not change as long as a pod lives. */
static bool has_same_containers(const Pod *a, const Pod *b) {
        if (a->n_containers != b->n_containers)
                return false;

        for (size_t i = 0; i < a->n_containers; i++)
                if (strcmp(a->containers[i].name, b->containers[i].name) != 0)
                        return false;

        return true;
}

static bool is_waiting_for_event(const InPlacePod *pod) {
        if (pod->write_state == INPLACE_WRITE_DROPPED || pod->written.version)
                return true;

        for (size_t i = 0; i < pod->n_containers; i++)
                if (pod->containers[i].refused_version)
                        return true;

        return false;
}

static int on_pod(const Pod *pod, const Pod *before, void *userdata) {
        InPlace *inplace = userdata;
        InPlacePod *known = inplace_find(inplace, pod->uid);
        bool is_news;

        if (known && !has_same_containers(known->pod, pod)) {
                inplace_pod_forget_refusal(known);
                inplace_drop(inplace, known);
                known = NULL;
        }
        if (!known)
                return inplace_add(inplace, pod);

        is_news = is_waiting_for_event(known) || !pod_equal(known->pod, pod);
        inplace_pod_set(known, pod);
        return is_news ? inplace_pod_reconcile(known) : 0;
}

static int on_gone(const Pod *pod, void *userdata) {
        InPlace *inplace = userdata;
        InPlacePod *known = inplace_find(inplace, pod->uid);

        if (!known)
                return 0;

        inplace_pod_forget_refusal(known);
        inplace_drop(inplace, known);
        return inplace_continue(inplace);
}

static int on_state(bool is_synced, void *userdata) {
        return 0;
}

int inplace_new(const PodContext *context, bool has_condition, InPlace **ret) {
        cleanup(inplace_free_p) InPlace *inplace = NULL;

        inplace = malloc(sizeof(*inplace));
        if (!inplace)
                return -ENOMEM;

        *inplace = (InPlace){
                .context = context,
                .has_condition = has_condition,
                .watcher = { .on_pod = on_pod, .on_gone = on_gone, .on_state = on_state },
                .error = ERROR_INIT,
        };
        inplace->watcher.userdata = inplace;
        pods_watch(context->pods, &inplace->watcher);
        for (size_t i = 0; i < pods_count(context->pods); i++) {
                int r = inplace_add(inplace, pods_get(context->pods, i));

                if (r < 0)
                        return r;
        }

        *ret = take_ptr(inplace);
        return 0;
}

InPlace *inplace_free(InPlace *inplace) {
        if (!inplace)
                return NULL;

        pods_unwatch(inplace->context->pods, &inplace->watcher);
        while (inplace->n_pods > 0)
                inplace_pod_free(inplace->pods[--inplace->n_pods]);
        error_done(&inplace->error);
        free(inplace->pods);
        free(inplace);
        return NULL;
}

/* The images may have changed while the runtime was away. */
int inplace_runtime_changed(InPlace *inplace) {
        for (size_t i = 0; i < inplace->n_pods; i++) {
                timer_stop(&inplace->pods[i]->inspection.retry.timer);
                inplace->pods[i]->inspection.must_refresh = true;
        }

        return inplace_reconcile_all(inplace);
}

/* A short name, for which the runtime searches registries, may mean any image of that
 * repository. */
static bool may_mean(const char *text, ShortNames short_names, const ImageRef *image) {
        ImageRef ref;

        return image_ref_parse(text, short_names, &ref, NULL) >= 0 &&
               (image_ref_is_searched(&ref) ? image_ref_may_resolve_to(&ref, image)
                                            : image_ref_equal(&ref, image));
}

static bool pod_has_image(const InPlacePod *pod, ShortNames short_names, const ImageRef *image) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (may_mean(pod->pod->containers[i].image, short_names, image))
                        return true;

        return false;
}

int inplace_image_changed(InPlace *inplace, const char *canonical) {
        const Runtime *runtime = runtimes_chosen(inplace->context->runtimes);
        ShortNames short_names = short_names_of(runtime ? runtime_name(runtime) : "");
        ImageRef image;

        if (image_ref_parse(canonical, SHORT_NAMES_SEARCHED, &image, NULL) < 0)
                return 0;

        for (size_t i = 0; i < inplace->n_pods; i++) {
                int r;

                if (!pod_has_image(inplace->pods[i], short_names, &image))
                        continue;

                inplace->pods[i]->inspection.must_refresh = true;
                r = inplace_pod_reconcile(inplace->pods[i]);
                if (r < 0)
                        return r;
        }

        return 0;
}

int inplace_kick(InPlace *inplace) {
        for (size_t i = 0; i < inplace->n_pods; i++) {
                InPlacePod *pod = inplace->pods[i];

                if (pod->write.n_failures > 0)
                        kube_patch_rest(&pod->write, 0);
                for (size_t k = 0; k < _INPLACE_FIELD_MAX; k++)
                        pod->fields[k].refused_usec = 0;
                for (size_t k = 0; k < pod->n_containers; k++)
                        kube_patch_rest(&pod->containers[k].check.read, 0);
        }

        return inplace_reconcile_all(inplace);
}

static const InPlaceContainer *find_container(const InPlace *inplace, const char *namespace,
                                              const char *pod_name, const char *uid,
                                              const char *name) {
        for (size_t i = 0; i < inplace->n_pods; i++) {
                const InPlacePod *pod = inplace->pods[i];

                if (strcmp(pod->pod->runtime_uid, uid) != 0 ||
                    strcmp(pod->pod->name, pod_name) != 0 ||
                    strcmp(pod->pod->namespace, namespace) != 0)
                        continue;

                for (size_t k = 0; k < pod->n_containers; k++)
                        if (strcmp(pod->pod->containers[k].name, name) == 0)
                                return &pod->containers[k];
        }

        return NULL;
}

InPlaceEnvironment inplace_environment(const InPlace *inplace, const char *namespace,
                                       const char *pod, const char *runtime_uid, const char *name) {
        const InPlaceContainer *container =
                find_container(inplace, namespace, pod, runtime_uid, name);

        if (!container || !inplace_pod_follows_env(container->pod) ||
            !inplace_container_has_env(container))
                return INPLACE_ENVIRONMENT_NONE;
        if (!container->fact.knows_env)
                return INPLACE_ENVIRONMENT_UNKNOWN;

        return container->fact.env_hash == container->expected_hash ? INPLACE_ENVIRONMENT_CURRENT
                                                                    : INPLACE_ENVIRONMENT_STALE;
}

const char *inplace_environment_to_string(InPlaceEnvironment environment) {
        switch (environment) {
        case INPLACE_ENVIRONMENT_NONE: return "None";
        case INPLACE_ENVIRONMENT_UNKNOWN: return "Unknown";
        case INPLACE_ENVIRONMENT_CURRENT: return "Current";
        case INPLACE_ENVIRONMENT_STALE: return "Stale";
        case _INPLACE_ENVIRONMENT_MAX: break;
        }

        return "";
}

size_t inplace_count(const InPlace *inplace, Verdict verdict) {
        size_t n = 0;

        for (size_t i = 0; i < inplace->n_pods; i++) {
                const InPlacePod *pod = inplace->pods[i];

                for (size_t k = 0; !inplace_pod_is_over(pod) && k < pod->n_containers; k++)
                        if (pod->pod->containers[k].is_running &&
                            pod->pod->containers[k].kind != POD_CONTAINER_INIT &&
                            inplace_container_verdict(&pod->containers[k]) == verdict)
                                n++;
        }

        return n;
}

const Error *inplace_error(const InPlace *inplace) {
        return &inplace->error;
}
