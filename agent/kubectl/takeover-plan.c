/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/takeover-plan.h"

#include <errno.h>
#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/pod-gate.h"

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

/* The template has the images as before, or as it will be. */
static bool has_expected_images(const RolloutView *view, json_object *record) {
        json_object *template = object_template(view->workload), *written = record_written(record);

        if (!record_sets_images(record))
                return template_has_images(template, record_images(record, false));
        if (written)
                return template_has_images(template, written);
        return template_has_images(template, record_target(record)) ||
               (view_template_follows(view) &&
                template_has_images(template, record_images(record, !record_is_undo(record))));
}

int view_find_change(const RolloutView *view, json_object *record, TemplateChange *ret,
                     char **ret_difference) {
        json_object *base = view_base(view, record);
        int r = base ? template_compare(object_template(base), object_template(view->workload),
                                        ret_difference)
                     : 0;

        if (r < 0)
                return r;
        if (view_kind(view)->is_pod || (!*ret_difference && has_expected_images(view, record)))
                *ret = TEMPLATE_UNCHANGED;
        else if (!*ret_difference && workload_is_declared(view->workload))
                *ret = TEMPLATE_RETARGETED;
        else
                *ret = TEMPLATE_CHANGED;
        return 0;
}

/* Before the beginning */

int takeover_check_containers(json_object *template, json_object *images, Error *reterr) {
        json_object_object_foreach(images, container, image) {
                (void) image;
                if (!template_image(template, container))
                        return template_refuse_container(template, container, reterr);
        }
        return 0;
}

/* The images of all containers of `to` that `from` has otherwise. */
static json_object *images_changed(json_object *from, json_object *to) {
        cleanup(json_object_put_p) json_object *images = json_object_new_object();
        json_object *container;

        for (size_t i = 0; (container = template_container(to, i)); i++) {
                const char *name = json_get_text(container, "name");
                const char *image = json_get_text(container, "image");

                if (name && image && !text_equal(template_image(from, name), image) &&
                    patch_add_text(images, name, image) < 0)
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

json_object *view_find_rival(const RolloutView *view, const json_object *base) {
        json_object_object_foreach(view->owned, name, other) {
                (void) name;
                if (other != base && object_integer(other, "spec.replicas") > 0)
                        return other;
        }
        return NULL;
}

bool replica_set_is_scaled_to_zero(json_object *replica_set) {
        return json_is(object_at(replica_set, "metadata.annotations"),
                       "deployment.kubernetes.io/desired-replicas", "0");
}

int view_is_resumed(const RolloutView *view, json_object *record, bool *ret) {
        json_object *base = view_base(view, record), *twin = NULL;
        bool is_like = false, has_images = false;
        int r;

        *ret = false;
        if (!view_kind(view)->has_replica_sets || view_is_held(view) || !base)
                return 0;
        r = compare_templates(object_template(base), object_template(view->workload), &is_like,
                              &has_images);
        if (r >= 0)
                r = view_find_twin(view, base, &twin);
        if (r < 0)
                return r;
        *ret = is_like && has_images && !twin && !view_find_rival(view, base);
        return 0;
}

/* How a rollout of its controller ends, which comes before an update in place. */
static const char *end_of_rollout(const RolloutView *view) {
        if (workload_held(view->workload) && workload_is_in_place_only(view->workload))
                return "it is held before its end, and kubectl inplace rollout --release lets its "
                       "controller go on";
        return view_is_held(view) && !workload_held(view->workload)
                       ? "let its controller go on first"
                       : "wait for its end";
}

/* The one ReplicaSet that has the Deployment's pods, or would have them. NULL: no ReplicaSet has pods, or the template with
 * whatever images; a paused Deployment's controller makes none. */
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
                        return error_set(reterr, ERROR_INVALID,
                                         "it has pods of two ReplicaSets, \"%s\" and \"%s\": a "
                                         "rollout is under way; %s",
                                         object_name(found), object_name(candidate),
                                         end_of_rollout(view));
                if (has_pods(candidate))
                        found = candidate;
                if (is_like && (has_images || !same))
                        same = candidate;
        }
        if (found && !view_is_held(view) && object_integer(found, "spec.replicas") == 0 &&
            view_desired_pods(view) > 0)
                return error_set(
                        reterr, ERROR_INVALID,
                        "the pods of its ReplicaSet \"%s\" end: a rollout is under way; %s",
                        object_name(found), end_of_rollout(view));
        *ret = found ? found : same;
        return 0;
}

static int refuse_without_replica_set(const RolloutView *view, Error *reterr) {
        return json_object_get_boolean(object_at(view->workload, "spec.paused"))
                       ? error_set(reterr, ERROR_CONFLICT,
                                   "no ReplicaSet has its pods or its template, and its "
                                   "controller makes none while it is paused: set the images by "
                                   "\"kubectl set image\", and resume it")
                       : error_set(reterr, ERROR_CONFLICT,
                                   "its controller has made no ReplicaSet yet: does "
                                   "kube-controller-manager run?");
}

/* A StatefulSet's controller makes pods below the partition of its current revision. */
static const char *revision_of_missing(const RolloutView *view) {
        const char *current = object_text(view->workload, "status.currentRevision");

        return current && view_kind(view)->has_ordinals && workload_is_rolling(view->workload) &&
                               view_is_held(view)
                       ? current
                       : view_revision(view);
}

/* The one revision of those pods that are not of the template's, or will not be: they are the ones to update. */
static int find_pods_revision(const RolloutView *view, int64_t partition, const char **ret,
                              Error *reterr) {
        const char *revision = NULL;
        int64_t n_pods = 0;

        json_object_object_foreach(view->pods, name, pod) {
                const char *its = object_revision(pod);

                if (object_is_deleted(pod) || !view_has_pod(view, NULL, pod))
                        continue;
                n_pods++;
                if (text_equal(its, view_revision(view)) || pod_ordinal(pod) < partition)
                        continue;
                if (revision && !text_equal(revision, its))
                        return error_set(reterr, ERROR_INVALID,
                                         "its pods are of several revisions (\"%s\" is of \"%s\", "
                                         "others of \"%s\"): a rollout is under way; %s",
                                         name, its ? its : "", revision, end_of_rollout(view));
                revision = its;
        }
        if (!revision)
                revision = n_pods < view_desired_pods(view) ? revision_of_missing(view)
                                                            : view_revision(view);
        *ret = revision;
        return *ret ? 0
                    : error_set(reterr, ERROR_CONFLICT,
                                "it has no revision yet: does kube-controller-manager run?");
}

/* The object that the pods were made from. NULL: the Deployment has no such ReplicaSet. */
static int find_base(const RolloutView *view, int64_t partition, json_object **ret, Error *reterr) {
        const char *revision = NULL;
        int r;

        if (view_kind(view)->has_replica_sets)
                return find_replica_set(view, ret, reterr);
        if (!view_kind(view)->has_revisions) {
                *ret = view->workload;
                return 0;
        }

        r = find_pods_revision(view, partition, &revision, reterr);
        if (r < 0)
                return r;
        *ret = view_find_revision(view, revision);
        return *ret ? 0
                    : error_set(reterr, ERROR_INVALID,
                                "the revision \"%s\" of its pods is gone: restart them", revision);
}

/* Adds the images of the other object, or replaces those of the same containers. */
static int add_all(json_object *images, json_object *others) {
        json_object_object_foreach(others, container, image) {
                if (patch_add(images, container, json_object_get(image)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* A ReplicaSet that its controller has never seen is unknown to the Deployment's as well, which sees it in the same list. */
static const char *uid_if_seen(json_object *replica_set) {
        const char *uid = object_text(replica_set, "metadata.uid");

        return uid && object_integer(replica_set, "status.observedGeneration") > 0 ? uid : "";
}

static int make_record(const RolloutView *view, const RolloutRequest *request, json_object *base,
                       json_object *before, json_object *after, json_object **ret) {
        cleanup(json_object_put_p) json_object *record = json_object_new_object();
        const char *mode = request->mode == ROLLOUT_SET_IMAGE ? "set-image" : "rollout";
        const char *revision = view_name_revision(view, base);
        char since[RFC3339_SIZE];

        if (patch_add_text(record, "state", "forward") < 0 ||
            patch_add_text(record, "mode", mode) < 0 ||
            patch_add_text(record, "by", request->by) < 0 ||
            patch_add_text(record, "since", rfc3339_format(request->now_sec, since)) < 0 ||
            patch_add(record, "before", json_object_get(before)) < 0 ||
            patch_add(record, "after", json_object_get(after)) < 0 ||
            patch_add_text(record, "revision", revision) < 0 ||
            (view_kind(view)->has_replica_sets &&
             patch_add_text(record, "uid", uid_if_seen(base)) < 0) ||
            (request->undone && patch_add_bool(record, "undoes", true) < 0))
                return -ENOMEM;

        *ret = take_ptr(record);
        return 0;
}

static int refuse_open(json_object *record, Error *reterr) {
        return error_set(reterr, ERROR_CONFLICT, "\"%s\" has begun an update, which has not ended",
                         json_get_text(record, "by"));
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
 * with the record, so that each later change of it is another client's. Any other template has the images before until a pod
 * runs the new ones, also where the record spells them otherwise. */
static int add_template(const RolloutView *view, const RolloutRequest *request, json_object *record,
                        json_object *patch) {
        if (!record_sets_images(record))
                return 0;
        if (view_kind(view)->has_revisions)
                return takeover_add_images(patch, view->workload, record_target(record));
        if (!request->before || !view_template_follows(view))
                return 0;
        return takeover_add_images(patch, view->workload, record_images(record, true));
}

/* Each run says how far it goes. The way back is for all pods, and so is an update of as many as there are. */
static int set_first(const RolloutView *view, const RolloutRequest *request, json_object *record) {
        int64_t n_pods = view_desired_pods(view) - view_record_partition(view, record);

        json_object_object_del(record, "first");
        if (request->first == 0 || request->first >= n_pods || record_is_undo(record))
                return 0;
        return patch_add(record, "first", json_object_new_int64(request->first));
}

/* Adds to the record the part of the spec that gives the workload back. *ret: the part that holds its controller. */
static int hold(const RolloutView *view, json_object *record, json_object **ret) {
        cleanup(json_object_put_p) json_object *former = NULL;

        return view_kind(view)->hold(view->workload, ret, &former) < 0
                       ? -ENOMEM
                       : patch_add(record, "former", take_ptr(former));
}

/* The same images with a lower partition go on with the update that has ended: the way back leads to its beginning. */
static int continue_ended(const RolloutView *view, const RolloutRequest *request,
                          json_object *record) {
        json_object *rolling = object_at(record, "former.updateStrategy.rollingUpdate");
        cleanup(json_object_put_p) json_object *ended = NULL;
        int r = rollout_record_read(view->workload, &ended, NULL);

        if (r == -ENOMEM)
                return r;
        if (r < 0 || !view_kind(view)->has_ordinals || !rolling || request->undone ||
            request->partition < 0 || request->partition >= record_partition(ended) ||
            !json_is(ended, "state", "done") || !record_sets_images(ended) ||
            record_undoes(ended) ||
            record_partition(ended) != json_get_integer(rolling, "partition") ||
            !json_object_equal(record_images(ended, true), record_images(record, true)) ||
            !json_object_equal(record_images(ended, false), record_images(record, false)))
                return 0;
        return patch_add_text(record, "since", json_get_text(ended, "since")) < 0
                       ? -ENOMEM
                       : patch_add(rolling, "partition",
                                   json_object_new_int64(record_former_partition(ended)));
}

/* The partition after the update; an undo brings the one before back, unless pods that have to go back are below it. */
static int64_t partition_after(const RolloutRequest *request) {
        int64_t now, former = record_former_partition(request->undone);

        if (!json_get(request->undone, "partition", json_type_int))
                return request->partition;
        now = record_partition(request->undone);
        return former < now ? former : now;
}

static int take_over(const RolloutView *view, const RolloutRequest *request, json_object *record,
                     json_object **ret) {
        int64_t partition = partition_after(request);
        cleanup(json_object_put_p) json_object *held = NULL;
        cleanup(json_object_put_p) json_object *patch = NULL;

        if (!view_is_held(view) &&
            (hold(view, record, &held) < 0 || continue_ended(view, request, record) < 0))
                return -ENOMEM;
        if (partition >= 0 && partition != view_record_partition(view, record) &&
            patch_add(record, "partition", json_object_new_int64(partition)) < 0)
                return -ENOMEM;
        if (set_first(view, request, record) < 0)
                return -ENOMEM;
        patch = takeover_patch(view->workload, record);
        if (!patch || (held && patch_add(patch, "spec", take_ptr(held)) < 0) ||
            add_template(view, request, record, patch) < 0)
                return -ENOMEM;

        *ret = take_ptr(patch);
        return 0;
}

/* With other images a template that follows the pods, and has got those of the update already, has those before again:
 * it is as at the beginning, until a pod runs the other ones. */
static int reset_template(const RolloutView *view, json_object *record, json_object *changed,
                          json_object *patch) {
        json_object *before = record_images(changed, /* is_before= */ true);

        if (!view_template_follows(view) || !record_sets_images(record) ||
            json_object_equal(record_images(record, false), record_images(changed, false)) ||
            template_has_images(object_template(view->workload), before))
                return 0;
        return takeover_add_images(patch, view->workload, before);
}

/* The images of the request come to those of the update, or replace them; those before stay. */
static int aim(json_object *template, json_object *images, json_object *record) {
        json_object *before = record_images(record, true), *after = record_images(record, false);

        json_object_object_foreach(images, container, image) {
                const char *now = template_image(template, container);

                if ((!json_get_text(before, container) &&
                     patch_add_text(before, container, now ? now : "") < 0) ||
                    patch_add(after, container, json_object_get(image)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* The template is the one before again: the way back leads to the images that the update was to bring, and to their revision. */
static int lead_back_to(const RolloutView *view, json_object *record, json_object *images) {
        json_object *template = object_template(view->workload);

        if (!view_kind(view)->has_revisions)
                return 0;
        json_object_object_foreach(view->owned, name, revision) {
                bool is_like, has_images;
                int r = compare_templates(object_template(revision), template, &is_like,
                                          &has_images);

                (void) name;
                if (r < 0)
                        return r;
                if (is_like && template_has_images(object_template(revision), images) &&
                    patch_add_text(record, "revision", view_name_revision(view, revision)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Leads to the images of the template, which another client has written: the update writes no others from then on. On the
 * way back, pods have the images that the update was to bring. */
static int retarget(const RolloutView *view, json_object *record) {
        json_object *template = object_template(view->workload), *base = view_base(view, record);
        json_object *from = base ? object_template(base) : template;
        json_object *old_after = record_images(record, false);
        cleanup(json_object_put_p) json_object *after = images_changed(from, template);
        cleanup(json_object_put_p) json_object *kept = template_images(template, old_after);
        cleanup(json_object_put_p) json_object *before = NULL;

        if (!after || !kept || add_all(after, kept) < 0)
                return -ENOMEM;
        before = template_images(from, after);
        if (!before || add_all(before, record_images(record, true)) < 0 ||
            (json_object_equal(before, after) &&
             (add_all(before, old_after) < 0 || lead_back_to(view, record, old_after) < 0)))
                return -ENOMEM;
        json_object_object_del(record, "undoes");
        json_object_object_del(record, "written");
        return patch_add_text(record, "state", "forward") < 0 ||
                               patch_add_text(record, "mode", "rollout") < 0 ||
                               patch_add(record, "before", take_ptr(before)) < 0
                       ? -ENOMEM
                       : patch_add(record, "after", take_ptr(after));
}

/* The template leads from now on, and the way back leaves it: the hold becomes that of admission, which outlasts the way back.
 * *ret: its annotation; NULL: it stays as it is. */
static int hold_for_template(const RolloutView *view, json_object *record, char **ret) {
        const char *held = view_kind(view)->held;
        int64_t partition = record_former_partition(record);

        if (!json_get(record, "former", json_type_object) || workload_held(view->workload))
                return 0;
        json_object_object_del(record, "former");
        return held ? text_copy(held, ret) : text_format(ret, "%lld", (long long) partition);
}

/* Changes the record as the request wants it, but for the user. With other images it undoes nothing any more. */
static int turn(const RolloutView *view, const RolloutRequest *request, json_object *record) {
        cleanup(json_object_put_p) json_object *target = json_copy(record_target(record));

        if ((request->images &&
             aim(object_template(view->workload), request->images, record) < 0) ||
            (request->goes_back && patch_add_text(record, "state", "undo") < 0))
                return -ENOMEM;
        if (request->images)
                json_object_object_del(record, "written");
        if (!json_object_equal(record_target(record), target))
                json_object_object_del(record, "undoes");
        return set_first(view, request, record);
}

/* It would replace the pods once more, by those with the other images. */
static int refuse_let_go(Error *reterr) {
        return error_set(
                reterr, ERROR_CONFLICT,
                "another client has let its controller go on, which brings its pods to its "
                "template: end the update with \"rollout\", and then set the images");
}

int rollout_resume(const RolloutView *view, const RolloutRequest *request, json_object **ret,
                   Error *reterr) {
        cleanup(json_object_put_p) json_object *record = NULL;
        cleanup(json_object_put_p) json_object *changed = NULL;
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(json_object_put_p) json_object *held = NULL;
        cleanup(free_p) char *difference = NULL;
        cleanup(free_p) char *annotation = NULL;
        TemplateChange change;
        bool is_resumed = false;
        int r = rollout_record_read(view->workload, &record, reterr);

        if (r < 0)
                return r;
        if (!rollout_record_is_open(record))
                return error_set(reterr, ERROR_CONFLICT,
                                 "its update has ended meanwhile: see kubectl inplace status");
        if ((!request->takes_over && !json_is(record, "by", request->by)) ||
            (request->images && record_is_undo(record)))
                return refuse_open(record, reterr);
        if (request->images) {
                r = takeover_check_containers(object_template(view->workload), request->images,
                                              reterr);
                if (r < 0)
                        return r;
        }

        r = view_find_change(view, record, &change, &difference);
        if (r >= 0 && change == TEMPLATE_UNCHANGED)
                r = view_is_resumed(view, record, &is_resumed);
        if (r < 0)
                return r;
        if (request->images && change == TEMPLATE_UNCHANGED && !is_resumed && !view_is_held(view))
                return refuse_let_go(reterr);
        changed = json_copy(record);
        if (!changed)
                return -ENOMEM;
        /* Where its users have let its controller go on, the strategy that it has now is theirs. */
        if (!is_resumed && !view_is_held(view))
                json_object_object_del(changed, "former");
        if (patch_add_text(changed, "by", request->by) < 0 ||
            (change == TEMPLATE_RETARGETED &&
             (retarget(view, changed) < 0 || set_first(view, request, changed) < 0 ||
              hold_for_template(view, changed, &annotation) < 0)) ||
            (is_resumed && hold(view, changed, &held) < 0) ||
            (change == TEMPLATE_UNCHANGED && turn(view, request, changed) < 0))
                return -ENOMEM;
        if (!is_resumed && json_object_equal(record, changed)) {
                *ret = NULL;
                return 0;
        }
        patch = takeover_patch(view->workload, changed);
        if (!patch || (held && patch_add(patch, "spec", take_ptr(held)) < 0) ||
            (annotation && patch_add_text(object_at(patch, "metadata.annotations"), HELD_ANNOTATION,
                                          annotation) < 0) ||
            (change == TEMPLATE_UNCHANGED && (add_template(view, request, changed, patch) < 0 ||
                                              reset_template(view, record, changed, patch) < 0)))
                return -ENOMEM;

        *ret = take_ptr(patch);
        return 0;
}

static int check_can_begin(const RolloutView *view, const RolloutRequest *request, Error *reterr) {
        const RolloutKind *kind = view_kind(view);
        int r = check_no_record(view, reterr);

        if (r >= 0)
                r = object_refuse_owned(view->workload, reterr);
        if (r < 0)
                return r;
        if (object_is_deleted(view->workload))
                return error_set(reterr, ERROR_CONFLICT, "it is being deleted");
        if (!view_is_observed(view))
                return error_set(reterr, ERROR_CONFLICT,
                                 "its controller has not observed its last change yet: does "
                                 "kube-controller-manager run?");
        r = kind->check ? kind->check(view->workload, reterr) : 0;
        if (r < 0)
                return r;
        if (request->partition >= 0 && !kind->has_ordinals)
                return error_set(reterr, ERROR_INVALID,
                                 "only a StatefulSet has a partition: --first updates some pods of "
                                 "any workload");
        if (request->partition >= 0 && !workload_is_rolling(view->workload))
                return error_set(reterr, ERROR_INVALID,
                                 "with OnDelete a StatefulSet has no partition: --first updates "
                                 "some pods of any workload");
        if (request->mode == ROLLOUT_FOLLOW && kind->is_pod)
                return error_set(reterr, ERROR_INVALID,
                                 "no update is under way, and a pod has no template to follow: "
                                 "\"set image\" begins one");
        if (request->mode == ROLLOUT_FOLLOW && !view_is_held(view))
                return error_set(
                        reterr, ERROR_INVALID,
                        "no update is under way, and its controller itself brings pods to the "
                        "template: only a Deployment that is paused, a StatefulSet or "
                        "DaemonSet with OnDelete, and a ReplicaSet leave that to this "
                        "command; \"set image\" begins an update");
        return 0;
}

/* Pods that do not have the template's images, although that has not changed, or whose gates wait for others. *ret_before: the
 * images of all pods, if these agree, otherwise those of the template. NULL: there are no such pods. */
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
                    pod_ordinal(pod) < partition)
                        continue;
                images = template_has_images(pod, after) ? json_object_get(after)
                                                         : template_images(pod, after);
                if (!images)
                        return -ENOMEM;
                is_lagging = is_lagging || !json_object_equal(images, after) ||
                             pod_gate_awaits_others(pod, after);
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

/* A bare ReplicaSet replaces no pods: those of another template may lack containers, which no update brings. So may pods below
 * a partition, which stay as they are. */
static int check_pods(const RolloutView *view, int64_t partition, json_object *base,
                      json_object *after, Error *reterr) {
        cleanup(json_object_put_p) json_object *owner =
                patch_wrap("revision", json_object_new_string(object_name(base)));

        json_object_object_foreach(view->pods, name, pod) {
                if (object_is_deleted(pod) || !view_has_pod(view, owner, pod) ||
                    pod_ordinal(pod) < partition)
                        continue;
                json_object_object_foreach(after, container, image) {
                        (void) image;
                        if (!template_image(pod, container))
                                return error_set(reterr, ERROR_INVALID,
                                                 "pod \"%s\" has no container \"%s\", unlike its "
                                                 "template: only images of containers change in "
                                                 "place; delete that pod first",
                                                 name, container);
                }
        }
        return 0;
}

int64_t takeover_partition(const RolloutView *view, const RolloutRequest *request) {
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
                r = takeover_check_containers(template, request->images, reterr);
        if (r >= 0)
                r = find_base(view, takeover_partition(view, request), &base, reterr);
        if (r >= 0 && !base) {
                *ret = NULL;
                return request->mode == ROLLOUT_FOLLOW && workload_held(view->workload)
                               ? 0
                               : refuse_without_replica_set(view, reterr);
        }
        if (r >= 0)
                r = template_compare(object_template(base), template, &difference);
        if (r < 0)
                return r;
        if (difference)
                return error_set(
                        reterr, ERROR_INVALID,
                        "its template differs from its pods in %s: only images of containers "
                        "change in place; let its controller replace the pods first, or put that "
                        "back",
                        difference);

        after = request->images ? json_object_get(request->images)
                                : images_changed(object_template(base), template);
        if (after && json_object_object_length(after) == 0) {
                json_object_put(after);
                after = images_changed(NULL, template);
        }
        before = after ? template_images(object_template(base), after) : NULL;
        if (!before)
                return -ENOMEM;
        r = check_pods(view, takeover_partition(view, request), base, after, reterr);
        if (r < 0)
                return r;
        /* The controller of a Deployment that is not held brings its pods to those after already, by another ReplicaSet, which
         * may not have been seen yet. */
        if (request->mode == ROLLOUT_SET_IMAGE && !template_has_images(template, before) &&
            (!template_has_images(template, after) ||
             (view_kind(view)->has_replica_sets && !view_is_held(view))))
                return error_set(reterr, ERROR_CONFLICT,
                                 "its pods do not have the images of its template yet: use "
                                 "\"rollout\", or wait for its controller");
        if (json_object_equal(before, after)) {
                json_object_put(before);
                before = NULL;
                r = find_lagging(view, takeover_partition(view, request), base, after, &before);
                *ret = NULL;
                if (r < 0 || !before)
                        return r;
        }
        if (request->before && add_all(before, request->before) < 0)
                return -ENOMEM;
        r = make_record(view, request, base, before, after, &record);
        return r < 0 ? r : take_over(view, request, record, ret);
}
