/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/takeover-plan.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"

/* Above the ordinal of any pod: the controller replaces none, also if it is scaled meanwhile. */
#define PARTITION_ABOVE_ALL INT32_MAX

/* The record: {"state", "mode", "by", "since", "before": {container: image}, "after": ..., "former": the part of
 * the spec that gives the workload back, "revision": of the pods before, or the name of their ReplicaSet,
 * "partition": of a StatefulSet after the update, where it is another one than before,
 * "refused": when an attempt after the end of this update was refused}. */

static const char *const states[] = { "forward", "undo", "done", "undone", "abandoned", NULL };
static const char *const modes[] = { "set-image", "rollout", NULL };

static bool is_any_of(const char *text, const char *const *texts) {
        for (; *texts; texts++)
                if (strcmp(text, *texts) == 0)
                        return true;

        return false;
}

/* {container: image}, and the other one has the same containers. */
static bool has_images(json_object *record, const char *key, const char *other) {
        json_object *images = json_get(record, key, json_type_object);

        if (!images)
                return false;
        json_object_object_foreach(images, container, image) {
                (void) image;
                if (!json_get_text(images, container) ||
                    !json_get_text(json_get(record, other, json_type_object), container))
                        return false;
        }
        return true;
}

/* The former settings are written into the workload's spec as they are: nothing else may be among them. */
static bool has_former(json_object *record) {
        json_object *former = NULL;

        if (!json_object_object_get_ex(record, "former", &former))
                return true;
        if (!json_object_is_type(former, json_type_object))
                return false;
        json_object_object_foreach(former, key, value) {
                bool is_paused = strcmp(key, "paused") == 0;

                if (!is_paused && strcmp(key, "updateStrategy") != 0)
                        return false;
                if (!json_object_is_type(value, is_paused ? json_type_boolean : json_type_object))
                        return false;
        }
        return true;
}

/* Any user who may write the workload may have written it. */
static bool is_whole(json_object *record) {
        static const char *const texts[] = { "state", "mode", "by", "since", "revision" };

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                if (!json_get_text(record, texts[i]))
                        return false;

        return has_images(record, "before", "after") && has_images(record, "after", "before") &&
               has_former(record);
}

int rollout_record_read(json_object *workload, json_object **ret, Error *reterr) {
        json_object *annotations = object_at(workload, "metadata.annotations");
        const char *text = annotations ? json_get_text(annotations, ROLLOUT_ANNOTATION) : NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(json_object_put_p) json_object *record = NULL;
        int r;

        if (!text) {
                *ret = NULL;
                return 0;
        }
        r = json_parse(text, strlen(text), &record, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (r < 0 || !is_whole(record))
                return error_set(reterr, ERROR_INVALID,
                                 "the annotation " ROLLOUT_ANNOTATION
                                 " of \"%s\" cannot be read; see to its strategy, and remove it",
                                 object_name(workload));
        if (!is_any_of(json_get_text(record, "state"), states) ||
            !is_any_of(json_get_text(record, "mode"), modes))
                return error_set(reterr, ERROR_UNSUPPORTED,
                                 "the annotation " ROLLOUT_ANNOTATION
                                 " of \"%s\" is of another version of this command (state \"%s\", "
                                 "mode \"%s\"): end the update with that version",
                                 object_name(workload), json_get_text(record, "state"),
                                 json_get_text(record, "mode"));

        *ret = take_ptr(record);
        return 0;
}

bool record_is_undo(json_object *record) {
        return json_is(record, "state", "undo");
}

bool rollout_record_is_open(json_object *record) {
        return json_is(record, "state", "forward") || record_is_undo(record);
}

bool record_sets_images(json_object *record) {
        return json_is(record, "mode", "set-image");
}

json_object *record_images(json_object *record, bool is_before) {
        return json_get(record, is_before ? "before" : "after", json_type_object);
}

/* The images that the pods should have. */
json_object *record_target(json_object *record) {
        return record_images(record, record_is_undo(record));
}

RolloutUndo rollout_record_undo(const RolloutView *view, json_object *record) {
        json_object *template = object_template(view->workload);
        bool is_there;

        if (!record || !json_is(record, "state", "done"))
                return ROLLOUT_UNDO_NOTHING;
        is_there = template_has_images(template, record_images(record, false));
        if (record_sets_images(record))
                return is_there ? ROLLOUT_UNDO_SET_IMAGE : ROLLOUT_UNDO_NOTHING;
        if (template_has_images(template, record_images(record, true)))
                return ROLLOUT_UNDO_FOLLOW;
        return is_there ? ROLLOUT_UNDO_TEMPLATE : ROLLOUT_UNDO_NOTHING;
}

static json_object *annotate(json_object *record) {
        return patch_wrap("annotations", patch_wrap(ROLLOUT_ANNOTATION,
                                                    json_object_new_string(json_to_text(record))));
}

/* With the version that was seen, so that nothing is written over what another client has. */
json_object *takeover_patch(json_object *workload, json_object *record) {
        cleanup(json_object_put_p) json_object *metadata = annotate(record);
        const char *version = object_text(workload, "metadata.resourceVersion");

        if (!metadata || patch_add_text(metadata, "resourceVersion", version ? version : "") < 0)
                return NULL;
        return patch_wrap("metadata", take_ptr(metadata));
}

static json_object *copy_of(json_object *value) {
        json_object *copy = NULL;

        return json_object_deep_copy(value, &copy, NULL) < 0 ? NULL : copy;
}

/* The part of the spec that gives the workload back: the partition that was asked for is for an update that
 * is not undone. */
static json_object *make_former(json_object *record) {
        cleanup(json_object_put_p) json_object *former =
                copy_of(json_get(record, "former", json_type_object));
        json_object *rolling = object_at(former, "updateStrategy.rollingUpdate");

        if (former && rolling && !record_is_undo(record) &&
            json_get(record, "partition", json_type_int) &&
            patch_add(rolling, "partition", json_object_new_int64(record_partition(record))) < 0)
                return NULL;
        return take_ptr(former);
}

/* The patch that writes the record in another state; its "former" gives the workload back. */
int takeover_patch_state(json_object *workload, json_object *record, const char *state,
                         bool gives_back, json_object **ret) {
        cleanup(json_object_put_p) json_object *changed = copy_of(record);
        cleanup(json_object_put_p) json_object *patch = NULL;
        bool has_former = gives_back && json_get(record, "former", json_type_object);

        if (!changed || patch_add_text(changed, "state", state) < 0)
                return -ENOMEM;
        patch = takeover_patch(workload, changed);
        if (!patch || (has_former && patch_add(patch, "spec", make_former(record)) < 0))
                return -ENOMEM;

        *ret = take_ptr(patch);
        return 0;
}

int takeover_patch_refused(json_object *workload, json_object *record, const char *time,
                           json_object **ret) {
        cleanup(json_object_put_p) json_object *changed = copy_of(record);

        if (!changed || (time && patch_add_text(changed, "refused", time) < 0))
                return -ENOMEM;
        if (!time)
                json_object_object_del(changed, "refused");
        *ret = takeover_patch(workload, changed);
        return *ret ? 0 : -ENOMEM;
}

int takeover_add_images(json_object *patch, json_object *workload, json_object *images) {
        json_object *spec = json_get(patch, "spec", json_type_object);

        if (!spec && patch_add(patch, "spec", spec = json_object_new_object()) < 0)
                return -ENOMEM;
        return patch_add(spec, "template",
                         patch_wrap("spec",
                                    template_image_patch(object_template(workload), images)));
}

/* The kinds of workloads */

static bool has_rolling_update(json_object *workload) {
        const char *type = object_text(workload, "spec.updateStrategy.type");

        return !type || strcmp(type, "RollingUpdate") == 0;
}

/* Whether the controller leaves the pods alone while its template changes. */
bool workload_is_held(WorkloadKind kind, json_object *workload) {
        switch (kind) {
        case WORKLOAD_DEPLOYMENT:
                return json_object_get_boolean(object_at(workload, "spec.paused"));
        case WORKLOAD_STATEFUL_SET:
                return !has_rolling_update(workload) ||
                       object_integer(workload, "spec.updateStrategy.rollingUpdate.partition") ==
                               PARTITION_ABOVE_ALL;
        case WORKLOAD_DAEMON_SET: return !has_rolling_update(workload);
        case WORKLOAD_REPLICA_SET:
        case WORKLOAD_POD:
        case WORKLOAD_CLONE_SET:
        case WORKLOAD_ADVANCED_STATEFUL_SET:
        case WORKLOAD_ADVANCED_DAEMON_SET:
        case _WORKLOAD_KIND_MAX: break;
        }
        return true;
}

static json_object *wrap_strategy(const char *type, json_object *rolling) {
        json_object *strategy = patch_wrap("type", json_object_new_string(type));

        if (!strategy || (rolling ? patch_add(strategy, "rollingUpdate", rolling)
                                  : patch_add_null(strategy, "rollingUpdate")) < 0) {
                json_object_put(strategy);
                return NULL;
        }
        return patch_wrap("updateStrategy", strategy);
}

static json_object *wrap_partition(int64_t partition) {
        return wrap_strategy("RollingUpdate",
                             patch_wrap("partition", json_object_new_int64(partition)));
}

/* The part of the spec that holds the controller, and the one that lets it go on as before. */
static int make_hold(const RolloutView *view, json_object **ret_hold, json_object **ret_former) {
        json_object *rolling = object_at(view->workload, "spec.updateStrategy.rollingUpdate");

        switch (view->kind) {
        case WORKLOAD_DEPLOYMENT:
                *ret_hold = patch_wrap("paused", json_object_new_boolean(true));
                *ret_former = patch_wrap("paused", json_object_new_boolean(false));
                break;
        case WORKLOAD_STATEFUL_SET:
                *ret_hold = wrap_partition(PARTITION_ABOVE_ALL);
                *ret_former = wrap_partition(json_get_integer(rolling, "partition"));
                break;
        case WORKLOAD_DAEMON_SET:
                *ret_hold = wrap_strategy("OnDelete", NULL);
                *ret_former = wrap_strategy("RollingUpdate", rolling ? copy_of(rolling) : NULL);
                break;
        case WORKLOAD_REPLICA_SET:
        case WORKLOAD_POD:
        case WORKLOAD_CLONE_SET:
        case WORKLOAD_ADVANCED_STATEFUL_SET:
        case WORKLOAD_ADVANCED_DAEMON_SET:
        case _WORKLOAD_KIND_MAX: break;
        }
        return *ret_hold && *ret_former ? 0 : -ENOMEM;
}

const char *object_revision(json_object *object) {
        json_object *labels = object_at(object, "metadata.labels");

        return labels ? json_get_text(labels, REVISION_LABEL) : NULL;
}

/* The object with the template of the pods as they were at the beginning; NULL: it is gone. */
json_object *view_find_revision(const RolloutView *view, const char *revision) {
        if (!revision)
                return NULL;
        json_object_object_foreach(view->owned, name, object) {
                if (view->kind == WORKLOAD_DAEMON_SET
                            ? text_equal(object_revision(object), revision)
                            : strcmp(name, revision) == 0)
                        return object;
        }
        return NULL;
}

/* Names the owner of the pods: for a Deployment a ReplicaSet. */
static const char *pods_owner(const RolloutView *view, json_object *record) {
        json_object *owner = view->workload;

        if (view->kind == WORKLOAD_DEPLOYMENT)
                owner = view_find_revision(view, json_get_text(record, "revision"));
        return object_text(owner, "metadata.uid");
}

bool view_has_pod(const RolloutView *view, json_object *record, json_object *pod) {
        if (view->kind == WORKLOAD_POD)
                return true;
        if (pod_has_ended(pod))
                return false;
        return object_owner(pod) && text_equal(object_owner(pod), pods_owner(view, record));
}

int64_t pod_ordinal(json_object *pod) {
        const char *dash = strrchr(object_name(pod), '-');

        return dash ? strtoll(dash + 1, NULL, 10) : 0;
}

int64_t record_partition(json_object *record) {
        if (json_get(record, "partition", json_type_int))
                return json_get_integer(record, "partition");
        return object_integer(record, "former.updateStrategy.rollingUpdate.partition");
}

/* Pods of a StatefulSet below it stay as they are. */
int64_t view_partition(const RolloutView *view, json_object *record) {
        if (view->kind != WORKLOAD_STATEFUL_SET)
                return 0;
        return record_partition(record) + object_integer(view->workload, "spec.ordinals.start");
}

int64_t view_kept_below(const RolloutView *view) {
        if (view->kind != WORKLOAD_STATEFUL_SET || !has_rolling_update(view->workload))
                return 0;
        return object_integer(view->workload, "spec.updateStrategy.rollingUpdate.partition") +
               object_integer(view->workload, "spec.ordinals.start");
}

json_object *view_newest_revision(const RolloutView *view) {
        json_object *newest = NULL;

        json_object_object_foreach(view->owned, name, revision) {
                (void) name;
                if (!newest ||
                    object_integer(revision, "revision") > object_integer(newest, "revision"))
                        newest = revision;
        }
        return newest;
}

/* The template's revision as pods name it; NULL: they do not name any. */
const char *view_revision(const RolloutView *view) {
        if (view->kind == WORKLOAD_STATEFUL_SET)
                return object_text(view->workload, "status.updateRevision");
        if (view->kind == WORKLOAD_DAEMON_SET && view->owned)
                return object_revision(view_newest_revision(view));
        return NULL;
}

/* The revision that the pods should say; NULL: none. */
const char *view_target_revision(const RolloutView *view, json_object *record) {
        if (workload_has_revisions(view->kind) && record_is_undo(record) &&
            !record_sets_images(record))
                return json_get_text(record, "revision");
        return view_revision(view);
}

/* Before the beginning */

static int refuse_images(json_object *template, json_object *images, Error *reterr) {
        json_object_object_foreach(images, container, image) {
                (void) image;
                if (template_ends(template, container))
                        return error_set(reterr, ERROR_INVALID,
                                         "container \"%s\" is an init container that has ended in "
                                         "running pods: its image cannot be updated in place",
                                         container);
                if (!template_image(template, container))
                        return template_refuse_container(template, container, reterr);
        }
        return 0;
}

/* The images of the present template; NULL: no memory. */
json_object *template_images(json_object *template, json_object *containers) {
        cleanup(json_object_put_p) json_object *images = json_object_new_object();

        json_object_object_foreach(containers, container, image) {
                const char *now = template_image(template, container);

                (void) image;
                if (!images || patch_add_text(images, container, now ? now : "") < 0)
                        return NULL;
        }
        return take_ptr(images);
}

/* The images of all containers of `to` that `from` has otherwise. */
static json_object *images_changed(json_object *from, json_object *to) {
        static const char *const lists[] = { "spec.containers", "spec.initContainers" };
        cleanup(json_object_put_p) json_object *images = json_object_new_object();

        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
                json_object *list = object_list(to, lists[i]);

                for (size_t n = 0; list && n < json_object_array_length(list); n++) {
                        json_object *container = json_object_array_get_idx(list, n);
                        const char *name = json_get_text(container, "name");
                        const char *image = json_get_text(container, "image");

                        json_object *same = list_find(object_at(from, lists[i]), "name", name);

                        if (name && image && !json_is(same, "image", image) &&
                            patch_add_text(images, name, image) < 0)
                                return NULL;
                }
        }
        return take_ptr(images);
}

/* The images of all containers that run. */
static json_object *images_running(json_object *template) {
        cleanup(json_object_put_p) json_object *all = images_changed(NULL, template);
        cleanup(json_object_put_p) json_object *images = json_object_new_object();

        if (!all || !images)
                return NULL;
        json_object_object_foreach(all, container, image) {
                if (!template_ends(template, container) &&
                    patch_add(images, container, json_object_get(image)) < 0)
                        return NULL;
        }
        return take_ptr(images);
}

/* *ret: the templates differ in nothing, or in images alone; *ret_has_images: not in images either. */
static int compare_templates(json_object *a, json_object *b, bool *ret, bool *ret_has_images) {
        cleanup(free_p) char *difference = NULL;
        cleanup(json_object_put_p) json_object *changed = NULL;
        int r = template_compare(a, b, &difference);

        if (r < 0)
                return r;
        changed = images_changed(a, b);
        if (!changed)
                return -ENOMEM;

        *ret = !difference;
        *ret_has_images = json_object_object_length(changed) == 0;
        return 0;
}

int view_find_twin(const RolloutView *view, json_object *replica_set, json_object **ret) {
        *ret = NULL;
        json_object_object_foreach(view->owned, name, candidate) {
                bool is_like, has_images;
                int r = compare_templates(object_template(candidate), object_template(replica_set),
                                          &is_like, &has_images);

                (void) name;
                if (r < 0)
                        return r;
                if (candidate != replica_set && is_like && has_images)
                        *ret = candidate;
        }
        return 0;
}

static bool has_pods(json_object *replica_set) {
        return object_integer(replica_set, "spec.replicas") > 0 ||
               object_integer(replica_set, "status.replicas") > 0;
}

/* The one ReplicaSet that has the Deployment's pods, or would have them. */
static int find_replica_set(const RolloutView *view, json_object **ret, Error *reterr) {
        json_object *found = NULL, *same = NULL;

        json_object_object_foreach(view->owned, name, candidate) {
                bool is_like, has_images;
                int r = compare_templates(object_template(candidate),
                                          object_template(view->workload), &is_like, &has_images);

                (void) name;
                if (r < 0)
                        return r;
                if (has_pods(candidate) && found)
                        return error_set(reterr, ERROR_CONFLICT,
                                         "it has pods of two ReplicaSets, \"%s\" and \"%s\": a "
                                         "rollout is under way; wait for its end",
                                         object_name(found), object_name(candidate));
                if (has_pods(candidate))
                        found = candidate;
                if (is_like && (has_images || !same))
                        same = candidate;
        }
        *ret = found ? found : same;
        if (*ret)
                return 0;

        return json_object_get_boolean(object_at(view->workload, "spec.paused"))
                       ? error_set(reterr, ERROR_CONFLICT,
                                   "it has no ReplicaSet yet, since it was paused before it ever "
                                   "ran: set the images by \"kubectl set image\", and resume it")
                       : error_set(reterr, ERROR_CONFLICT,
                                   "its controller has made no ReplicaSet yet; is it running?");
}

/* The one revision of those pods that are not of the template's: they are the ones to update. */
static int find_pods_revision(const RolloutView *view, int64_t partition, const char **ret,
                              Error *reterr) {
        const char *revision = NULL;

        json_object_object_foreach(view->pods, name, pod) {
                const char *its = object_revision(pod);

                if (object_is_deleted(pod) || !view_has_pod(view, NULL, pod) ||
                    text_equal(its, view_revision(view)) ||
                    (view->kind == WORKLOAD_STATEFUL_SET && pod_ordinal(pod) < partition))
                        continue;
                if (revision && !text_equal(revision, its))
                        return error_set(reterr, ERROR_CONFLICT,
                                         "its pods are of several revisions (\"%s\" is of \"%s\", "
                                         "others of \"%s\"): a rollout is under way; wait for its "
                                         "end",
                                         name, its ? its : "", revision);
                revision = its;
        }
        *ret = revision ? revision : view_revision(view);
        return *ret ? 0 : error_set(reterr, ERROR_CONFLICT, "it has no revision yet");
}

/* The object that the pods were made from. */
static int find_base(const RolloutView *view, int64_t partition, json_object **ret, Error *reterr) {
        const char *revision = NULL;
        int r;

        if (view->kind == WORKLOAD_REPLICA_SET || view->kind == WORKLOAD_POD) {
                *ret = view->workload;
                return 0;
        }
        if (view->kind == WORKLOAD_DEPLOYMENT)
                return find_replica_set(view, ret, reterr);

        r = find_pods_revision(view, partition, &revision, reterr);
        if (r < 0)
                return r;
        *ret = view_find_revision(view, revision);
        return *ret ? 0
                    : error_set(reterr, ERROR_CONFLICT,
                                "the revision \"%s\" of its pods is gone: restart them", revision);
}

static const char *revision_name(const RolloutView *view, json_object *base) {
        return view->kind == WORKLOAD_DAEMON_SET ? object_revision(base) : object_name(base);
}

static int make_record(const RolloutView *view, const RolloutRequest *request, json_object *base,
                       json_object *before, json_object *after, json_object **ret) {
        cleanup(json_object_put_p) json_object *record = json_object_new_object();
        const char *mode = request->mode == ROLLOUT_SET_IMAGE ? "set-image" : "rollout";
        char since[RFC3339_SIZE];

        if (!record || patch_add_text(record, "state", "forward") < 0 ||
            patch_add_text(record, "mode", mode) < 0 ||
            patch_add_text(record, "by", request->by) < 0 ||
            patch_add_text(record, "since", rfc3339_format(request->now_sec, since)) < 0 ||
            patch_add(record, "before", json_object_get(before)) < 0 ||
            patch_add(record, "after", json_object_get(after)) < 0 ||
            patch_add_text(record, "revision", revision_name(view, base)) < 0)
                return -ENOMEM;

        *ret = take_ptr(record);
        return 0;
}

static int refuse_open(json_object *record, Error *reterr) {
        return error_set(reterr, ERROR_CONFLICT,
                         "\"%s\" has begun an update at %s, which has not ended",
                         json_get_text(record, "by"), json_get_text(record, "since"));
}

/* An update that has begun meanwhile keeps its record: it alone has what gives the workload back. */
static int check_no_record(const RolloutView *view, Error *reterr) {
        cleanup(json_object_put_p) json_object *record = NULL;
        int r = rollout_record_read(view->workload, &record, reterr);

        if (r < 0 || !rollout_record_is_open(record))
                return r;
        return refuse_open(record, reterr);
}

/* A StatefulSet's or DaemonSet's controller makes pods of the newest revision alone. Its template is written
 * with the record, so that each later change of it is another client's. */
static int add_template(const RolloutView *view, json_object *record, json_object *patch) {
        if (!record_sets_images(record) || !workload_has_revisions(view->kind))
                return 0;
        return takeover_add_images(patch, view->workload, record_target(record));
}

static int take_over(const RolloutView *view, const RolloutRequest *request, json_object *record,
                     json_object **ret) {
        int64_t partition =
                json_get(request->undone, "partition", json_type_int)
                        ? object_integer(request->undone,
                                         "former.updateStrategy.rollingUpdate.partition")
                        : request->partition;
        cleanup(json_object_put_p) json_object *hold = NULL;
        cleanup(json_object_put_p) json_object *former = NULL;
        cleanup(json_object_put_p) json_object *patch = NULL;

        if (!workload_is_held(view->kind, view->workload)) {
                if (make_hold(view, &hold, &former) < 0 ||
                    patch_add(record, "former", take_ptr(former)) < 0)
                        return -ENOMEM;
        }
        if (partition >= 0 && partition != record_partition(record) &&
            patch_add(record, "partition", json_object_new_int64(partition)) < 0)
                return -ENOMEM;
        patch = takeover_patch(view->workload, record);
        if (!patch || (hold && patch_add(patch, "spec", take_ptr(hold)) < 0) ||
            add_template(view, record, patch) < 0)
                return -ENOMEM;

        *ret = take_ptr(patch);
        return 0;
}

int rollout_resume(const RolloutView *view, const RolloutRequest *request, json_object **ret,
                   Error *reterr) {
        cleanup(json_object_put_p) json_object *record = NULL;
        cleanup(json_object_put_p) json_object *changed = NULL;
        cleanup(json_object_put_p) json_object *patch = NULL;
        int r = rollout_record_read(view->workload, &record, reterr);

        if (r < 0)
                return r;
        if (!rollout_record_is_open(record))
                return error_set(reterr, ERROR_CONFLICT, "its update has ended meanwhile");
        if (!request->takes_over && !json_is(record, "by", request->by))
                return refuse_open(record, reterr);

        changed = copy_of(record);
        if (!changed || patch_add_text(changed, "by", request->by) < 0 ||
            (request->goes_back && patch_add_text(changed, "state", "undo") < 0))
                return -ENOMEM;
        if (json_object_equal(record, changed)) {
                *ret = NULL;
                return 0;
        }
        patch = takeover_patch(view->workload, changed);
        if (!patch || add_template(view, changed, patch) < 0)
                return -ENOMEM;

        *ret = take_ptr(patch);
        return 0;
}

static int check_can_begin(const RolloutView *view, const RolloutRequest *request, Error *reterr) {
        int r = check_no_record(view, reterr);

        if (r >= 0)
                r = object_refuse_owned(view->workload, reterr);
        if (r < 0)
                return r;
        if (object_is_deleted(view->workload))
                return error_set(reterr, ERROR_CONFLICT, "it is being deleted");
        if (view->kind == WORKLOAD_POD && pod_has_ended(view->workload))
                return error_set(reterr, ERROR_CONFLICT,
                                 "it has ended, and its containers are not started again");
        if (view->kind != WORKLOAD_POD && !object_is_observed(view->workload))
                return error_set(reterr, ERROR_CONFLICT,
                                 "its controller has not seen its last change yet; is it running?");
        if (view->kind == WORKLOAD_STATEFUL_SET && has_rolling_update(view->workload) &&
            workload_is_held(view->kind, view->workload))
                return error_set(
                        reterr, ERROR_CONFLICT,
                        "its partition is that of an update in place whose record is gone: set "
                        "spec.updateStrategy.rollingUpdate.partition to what it was first, 0 for "
                        "none");
        if (request->partition >= 0 && view->kind != WORKLOAD_STATEFUL_SET)
                return error_set(reterr, ERROR_INVALID, "only a StatefulSet has a partition");
        if (request->partition >= 0 && !has_rolling_update(view->workload))
                return error_set(reterr, ERROR_INVALID,
                                 "with OnDelete a StatefulSet has no partition");
        if (request->mode == ROLLOUT_FOLLOW && view->kind == WORKLOAD_POD)
                return error_set(reterr, ERROR_INVALID,
                                 "no update is under way, and a pod has no template to follow");
        if (request->mode == ROLLOUT_FOLLOW && !workload_is_held(view->kind, view->workload))
                return error_set(
                        reterr, ERROR_INVALID,
                        "no update is under way, and its controller itself brings pods to the "
                        "template: only a Deployment that is paused, a StatefulSet or "
                        "DaemonSet with OnDelete, and a ReplicaSet leave that to this "
                        "command");
        return 0;
}

/* Pods that do not have the template's images, although that has not changed. *ret_before: the images of all
 * pods, if these agree, otherwise those of the template. NULL: there are no such pods. */
static int find_lagging(const RolloutView *view, int64_t partition, json_object *base,
                        json_object *after, json_object **ret_before) {
        cleanup(json_object_put_p) json_object *owner =
                patch_wrap("revision", json_object_new_string(object_name(base)));
        cleanup(json_object_put_p) json_object *before = NULL;
        bool is_lagging = false;

        json_object_object_foreach(view->pods, name, pod) {
                cleanup(json_object_put_p) json_object *images = NULL;

                (void) name;
                if (object_is_deleted(pod) || !view_has_pod(view, owner, pod) ||
                    (view->kind == WORKLOAD_STATEFUL_SET && pod_ordinal(pod) < partition))
                        continue;
                images = template_has_images(pod, after) ? json_object_get(after)
                                                         : template_images(pod, after);
                if (!images)
                        return -ENOMEM;
                is_lagging = is_lagging || !json_object_equal(images, after);
                if (!before)
                        before = take_ptr(images);
                else if (!json_object_equal(before, images)) {
                        json_object_put(before);
                        before = json_object_get(after);
                }
        }
        *ret_before = is_lagging ? take_ptr(before) : NULL;
        return 0;
}

static int64_t partition_at_begin(const RolloutView *view, const RolloutRequest *request) {
        if (request->partition >= 0)
                return request->partition + object_integer(view->workload, "spec.ordinals.start");
        return view_kept_below(view);
}

int rollout_begin(const RolloutView *view, const RolloutRequest *request, json_object **ret,
                  Error *reterr) {
        cleanup(json_object_put_p) json_object *before = NULL;
        cleanup(json_object_put_p) json_object *after = NULL;
        cleanup(json_object_put_p) json_object *record = NULL;
        cleanup(free_p) char *difference = NULL;
        json_object *template = object_template(view->workload), *base = NULL;
        int r = check_can_begin(view, request, reterr);

        if (r >= 0 && request->images)
                r = refuse_images(template, request->images, reterr);
        if (r >= 0)
                r = find_base(view, partition_at_begin(view, request), &base, reterr);
        if (r >= 0)
                r = template_compare(object_template(base), template, &difference);
        if (r < 0)
                return r;
        if (difference)
                return error_set(reterr, ERROR_INVALID,
                                 "its template differs from its pods in %s: only images change in "
                                 "place",
                                 difference);

        after = request->images ? json_object_get(request->images)
                                : images_changed(object_template(base), template);
        if (after && json_object_object_length(after) == 0) {
                json_object_put(after);
                after = images_running(template);
        }
        before = after ? template_images(object_template(base), after) : NULL;
        if (!before)
                return -ENOMEM;
        r = refuse_images(template, after, reterr);
        if (r < 0)
                return r;
        if (request->mode == ROLLOUT_SET_IMAGE && !template_has_images(template, before) &&
            !template_has_images(template, after))
                return error_set(reterr, ERROR_CONFLICT,
                                 "its pods do not have the images of its template yet: use "
                                 "\"rollout\", or wait for its controller");
        if (json_object_equal(before, after)) {
                json_object_put(before);
                before = NULL;
                r = find_lagging(view, partition_at_begin(view, request), base, after, &before);
                *ret = NULL;
                if (r < 0 || !before)
                        return r;
        }
        r = make_record(view, request, base, before, after, &record);
        return r < 0 ? r : take_over(view, request, record, ret);
}
