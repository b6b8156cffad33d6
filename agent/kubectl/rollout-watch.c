/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/kube/patch.h"
#include "agent/kubectl/announcer.h"
#include "agent/kubectl/pod-choice.h"
#include "agent/view/terminal.h"

#define OBSERVED_USEC ((uint64_t) 10 * 1000000)
#define LIST_USEC ((uint64_t) 60 * 1000000)

static bool is_ours(const RolloutWatch *watch, json_object *object) {
        return text_equal(object_owner(object), object_text(watch->view.workload, "metadata.uid"));
}

/* Objects by name */

/* The same object, and not an older one: the answer to a write and the watch show it, in either order. */
static bool is_successor(json_object *known, json_object *object) {
        return text_equal(object_text(known, "metadata.uid"),
                          object_text(object, "metadata.uid")) &&
               !kube_version_is_older(object_text(object, "metadata.resourceVersion"),
                                      object_text(known, "metadata.resourceVersion"));
}

static int keep(json_object *map, const KubeObject *object) {
        json_object *known = json_object_object_get(map, object->name);
        bool is_same = known && text_equal(object_text(known, "metadata.uid"), object->uid);

        return is_same && !is_successor(known, object->json)
                       ? 0
                       : patch_add(map, object->name, json_object_get(object->json));
}

static void keep_workload(RolloutWatch *watch, json_object *workload) {
        json_object_put(watch->view.workload);
        watch->view.workload = json_object_get(workload);
        json_object_put(watch->record);
        watch->record = NULL;
}

static int on_workload_gone(const KubeObject *object, void *userdata) {
        RolloutWatch *watch = userdata;

        watch->is_there = false;
        keep_workload(watch, NULL);
        return 0;
}

/* Another one of that name has come in its place: nothing of the update is its. */
static int on_workload(const KubeObject *object, void *userdata) {
        RolloutWatch *watch = userdata;

        if (!text_equal(watch->uid, object->uid))
                return on_workload_gone(object, userdata);
        watch->is_there = true;
        if (!watch->view.workload || is_successor(watch->view.workload, object->json))
                keep_workload(watch, object->json);
        return 0;
}

static int on_owned(const KubeObject *object, void *userdata) {
        RolloutWatch *watch = userdata;

        return is_ours(watch, object->json) ? keep(watch->view.owned, object) : 0;
}

static int on_owned_gone(const KubeObject *object, void *userdata) {
        RolloutWatch *watch = userdata;

        json_object_object_del(watch->view.owned, object->name);
        return 0;
}

static void remove_others(json_object *object, const char *const *kept, size_t n) {
        if (!json_object_is_type(object, json_type_object))
                return;
        json_object_object_foreach(object, key, value) {
                bool is_kept = false;

                (void) value;
                for (size_t i = 0; i < n; i++)
                        is_kept = is_kept || strcmp(key, kept[i]) == 0;
                if (!is_kept)
                        json_object_object_del(object, key);
        }
}

static void shrink_containers(json_object *list) {
        static const char *const kept[] = { "name", "image", "imagePullPolicy", "restartPolicy",
                                            "restartPolicyRules" };

        for (size_t i = 0; list && i < json_object_array_length(list); i++)
                remove_others(json_object_array_get_idx(list, i), kept,
                              sizeof(kept) / sizeof(kept[0]));
}

/* Keeps the volumes that are images. */
static void shrink_volumes(json_object *list) {
        for (size_t i = list ? json_object_array_length(list) : 0; i-- > 0;)
                if (!volume_image(json_object_array_get_idx(list, i)))
                        (void) json_object_array_del_idx(list, i, 1);
}

/* A workload may have thousands of pods, and the controller a run for each of many workloads: of a pod's spec is kept what
 * plans, reports and preloads read. */
static void shrink_pod(json_object *pod) {
        static const char *const kept[] = { "containers",       "initContainers",
                                            "nodeName",         "readinessGates",
                                            "imagePullSecrets", "terminationGracePeriodSeconds",
                                            "restartPolicy",    "volumes" };
        json_object *spec = object_at(pod, "spec");

        remove_others(spec, kept, sizeof(kept) / sizeof(kept[0]));
        shrink_containers(object_list(spec, "containers"));
        shrink_containers(object_list(spec, "initContainers"));
        shrink_volumes(object_list(spec, "volumes"));
}

static int on_pod(const KubeObject *object, void *userdata) {
        RolloutWatch *watch = userdata;

        shrink_pod(object->json);
        return keep(watch->view.pods, object);
}

static int on_pod_gone(const KubeObject *object, void *userdata) {
        RolloutWatch *watch = userdata;

        json_object_object_del(watch->view.pods, object->name);
        return 0;
}

static int on_budget(const KubeObject *object, void *userdata) {
        RolloutWatch *watch = userdata;

        return keep(watch->view.budgets, object);
}

static int on_budget_gone(const KubeObject *object, void *userdata) {
        RolloutWatch *watch = userdata;

        json_object_object_del(watch->view.budgets, object->name);
        return 0;
}

/* A pod is shown as a workload and as its own pod. */
static int on_workload_pod(const KubeObject *object, void *userdata) {
        RolloutWatch *watch = userdata;
        int r = on_workload(object, userdata);

        return r < 0 ? r : keep(watch->view.pods, object);
}

static int follow(RolloutWatch *watch) {
        const char *namespace = watch->path.namespace;
        const RolloutKind *kind = view_kind(&watch->view);
        cleanup(free_p) char *field = NULL;
        SessionWatch watches[SESSION_WATCHES_MAX];
        size_t n = 0;

        watch->is_there = false;
        if (text_format(&field, "metadata.name=%s", watch->path.name) < 0)
                return -ENOMEM;
        if (patch_clear(&watch->view.owned) < 0 || patch_clear(&watch->view.pods) < 0 ||
            patch_clear(&watch->view.budgets) < 0)
                return -ENOMEM;

        watches[n++] = (SessionWatch){ .path = watch->path,
                                       .fields = field,
                                       .on_object = kind->is_pod ? on_workload_pod : on_workload,
                                       .on_gone = on_workload_gone };
        watches[0].path.name = NULL;
        if (!workload_is_of_kruise(watch->view.kind))
                watches[n++] = (SessionWatch){ .path = budgets_path(namespace),
                                               .on_object = on_budget,
                                               .on_gone = on_budget_gone };
        if (!kind->is_pod)
                watches[n++] = (SessionWatch){ .path = workload_path(WORKLOAD_POD, namespace, NULL),
                                               .labels = watch->selector,
                                               .on_object = on_pod,
                                               .on_gone = on_pod_gone };
        if (kind->owned)
                watches[n++] = (SessionWatch){ .path = { .group = "apps",
                                                         .version = "v1",
                                                         .namespace = namespace,
                                                         .resource = kind->owned },
                                               .labels = watch->selector,
                                               .on_object = on_owned,
                                               .on_gone = on_owned_gone };

        return session_follow_new(watch->session, watches, n, watch, &watch->follow);
}

typedef struct Asked {
        RolloutWatch *watch;
        int (*is_done)(void *userdata);
        int (*is_away)(const Error *error, void *userdata);
        void *userdata;
} Asked;

/* The new list may lack a workload that the list before had. */
static int is_done_as_listed(void *userdata) {
        const Asked *asked = userdata;

        asked->watch->view.now_sec = session_server_sec(asked->watch->session);
        if (!asked->watch->is_there)
                keep_workload(asked->watch, NULL);
        return asked->is_done(asked->userdata);
}

static int is_away_as_asked(const Error *error, void *userdata) {
        const Asked *asked = userdata;

        return asked->is_away(error, asked->userdata);
}

int rollout_watch_wait(RolloutWatch *watch, int (*is_done)(void *userdata),
                       int (*is_away)(const Error *error, void *userdata), void *userdata,
                       Error *reterr) {
        Asked asked = { watch, is_done, is_away, userdata };
        int r = watch->follow ? 0 : follow(watch);

        return r < 0 ? r
                     : session_follow_wait(watch->follow, is_done_as_listed, is_away_as_asked,
                                           &asked, reterr);
}

int rollout_watch_record(RolloutWatch *watch, json_object **ret, Error *reterr) {
        int r = watch->record ? 0
                              : rollout_record_read(watch->view.workload, &watch->record, reterr);

        if (r >= 0)
                *ret = json_object_get(watch->record);
        return r;
}

int rollout_watch_note(RolloutWatch *watch, json_object *object) {
        json_object *maps[] = { watch->view.pods, watch->view.owned };
        const char *name = object_name(object);
        int r = 0;

        watch->view.now_sec = session_server_sec(watch->session);
        if (watch->view.workload && is_successor(watch->view.workload, object))
                keep_workload(watch, object);
        for (size_t i = 0; r >= 0 && i < sizeof(maps) / sizeof(maps[0]); i++) {
                json_object *known = json_object_object_get(maps[i], name);

                if (known && is_successor(known, object))
                        r = patch_add(maps[i], name, json_object_get(object));
        }
        return r;
}

int rollout_watch_add(RolloutWatch *watch, json_object *object) {
        const char *name = object_name(object);

        if (json_object_object_get(watch->view.owned, name))
                return rollout_watch_note(watch, object);
        return patch_add(watch->view.owned, name, json_object_get(object));
}

typedef struct List {
        const RolloutView *view;
        uint64_t observed_usec; /* when the workload's controller need not be waited for any more */
        uint64_t late_usec;
        Announcer announcer;
        Error error; /* why there was none in time */
} List;

static void list_done(List *list) {
        error_done(&list->error);
}

/* A pod may be seen before the revision that it was made of. */
static bool are_revisions_known(const RolloutView *view) {
        json_object_object_foreach(view->pods, name, pod) {
                (void) name;
                if (!object_is_deleted(pod) && view_has_pod(view, /* record= */ NULL, pod) &&
                    !view_find_revision(view, object_revision(pod)))
                        return false;
        }
        return true;
}

/* The controller may still have to see the end of an update before this one. */
static int is_listed(void *userdata) {
        List *list = userdata;
        const RolloutView *view = list->view;
        bool is_complete;

        if (!view->workload || workload_is_of_kruise(view->kind) ||
            clock_monotonic_usec() >= list->observed_usec)
                return 1;
        is_complete = !view_kind(view)->has_revisions || are_revisions_known(view);
        if (view_is_observed(view) && is_complete)
                return 1;
        if (announcer_is_due(&list->announcer))
                complain(is_complete ? "waiting for its controller to see its last change"
                                     : "waiting for the revisions of its pods");
        return 0;
}

static int is_late(const Error *error, void *userdata) {
        List *list = userdata;

        if (announcer_is_due(&list->announcer))
                complain("waiting for the API server: %s",
                         error->kind == ERROR_NONE ? "no answer yet" : error_message(error));
        if (clock_monotonic_usec() < list->late_usec)
                return 0;
        (void) error_set(&list->error, ERROR_TIMEOUT,
                         "the API server has not listed it in time%s%s",
                         error->kind == ERROR_NONE ? "" : ": ",
                         error->kind == ERROR_NONE ? "" : error_message(error));
        return 1;
}

int rollout_watch_list(RolloutWatch *watch, Error *reterr) {
        cleanup(list_done) List list = {
                .view = &watch->view,
                .observed_usec = clock_monotonic_usec() + OBSERVED_USEC,
                .late_usec = clock_monotonic_usec() + LIST_USEC,
        };
        int r;

        announcer_begin(&list.announcer);
        rollout_watch_stop(watch);
        r = rollout_watch_wait(watch, is_listed, is_late, &list, reterr);
        if (r >= 0 && list.error.kind != ERROR_NONE)
                return error_copy(reterr, &list.error);
        if (r >= 0 && !watch->view.workload)
                return error_set(reterr, ERROR_NOT_FOUND, "it is gone");
        return r;
}

void rollout_watch_stop(RolloutWatch *watch) {
        watch->follow = session_follow_free(watch->follow);
}

static int load_pods(RolloutWatch *watch, Error *reterr) {
        int r = text_copy(object_text(watch->view.workload, "metadata.uid"), &watch->uid);

        if (r >= 0 && !view_kind(&watch->view)->is_pod)
                r = selector_format(object_at(watch->view.workload, "spec.selector"),
                                    &watch->selector);

        return r < 0 ? r : rollout_watch_list(watch, reterr);
}

int rollout_watch_load(Session *session, const char *workload, RolloutWatch *ret, Error *reterr) {
        const char *name;
        int r = workload_name_parse(workload, &ret->view.kind, &name, reterr);

        ret->session = session;
        if (r >= 0)
                r = workload_find(session, ret->view.kind, name, &ret->path, &ret->view.workload,
                                  reterr);
        return r < 0 ? r : load_pods(ret, reterr);
}

int rollout_watch_load_path(Session *session, WorkloadKind kind, const KubePath *path,
                            RolloutWatch *ret, Error *reterr) {
        int r;

        ret->session = session;
        ret->view.kind = kind;
        ret->path = *path;
        r = session_get(session, path, &ret->view.workload, reterr);
        return r < 0 ? r : load_pods(ret, reterr);
}

void rollout_watch_done(RolloutWatch *watch) {
        rollout_watch_stop(watch);
        free(watch->selector);
        free(watch->uid);
        json_object_put(watch->view.workload);
        json_object_put(watch->record);
        json_object_put(watch->view.owned);
        json_object_put(watch->view.pods);
        json_object_put(watch->view.budgets);
}
