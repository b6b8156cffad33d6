/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-record.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/workload.h"

/* The record: {"state", "mode", "by", "since", "before": {container: image}, "after": ..., "former": the part of
 * the spec that gives the workload back, "revision": of the pods before, or the name of their ReplicaSet,
 * "uid": of that, empty if its controller had not seen it yet,
 * "partition": of a StatefulSet after the update, where it is another one than before,
 * "first": the number of pods after which it waits,
 * "written": "before" or "after", the images that the template of a Deployment or ReplicaSet has got,
 * "undoes": true if it undoes an update that had ended before,
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
                json_object *rolling = object_at(value, "rollingUpdate");

                if (!is_paused && strcmp(key, "updateStrategy") != 0)
                        return false;
                if (!json_object_is_type(value, is_paused ? json_type_boolean : json_type_object) ||
                    (rolling && !json_object_is_type(rolling, json_type_object)))
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
        const char *text = object_annotation(workload, ROLLOUT_ANNOTATION);
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
                                 " of \"%s\" cannot be read: restore its strategy, and "
                                 "remove the annotation",
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

bool record_undoes(json_object *record) {
        return json_object_get_boolean(json_get(record, "undoes", json_type_boolean));
}

bool rollout_record_is_open(json_object *record) {
        return json_is(record, "state", "forward") || record_is_undo(record);
}

bool record_leads_back(json_object *record) {
        return record_is_undo(record) || json_is(record, "state", "undone");
}

bool record_sets_images(json_object *record) {
        return json_is(record, "mode", "set-image");
}

json_object *record_images(json_object *record, bool is_before) {
        return json_get(record, is_before ? "before" : "after", json_type_object);
}

json_object *record_target(json_object *record) {
        return record_images(record, record_leads_back(record));
}

int64_t record_first(json_object *record) {
        int64_t first = json_get_integer(record, "first");

        return first > 0 ? first : 0;
}

int64_t record_former_partition(json_object *record) {
        return object_integer(record, "former.updateStrategy.rollingUpdate.partition");
}

int64_t record_partition(json_object *record) {
        if (json_get(record, "partition", json_type_int))
                return json_get_integer(record, "partition");
        return record_former_partition(record);
}

json_object *record_written(json_object *record) {
        const char *written = json_get_text(record, "written");

        return written ? record_images(record, strcmp(written, "before") == 0) : NULL;
}

static json_object *annotate(json_object *record) {
        const char *text = json_to_text(record);

        return patch_wrap("annotations", patch_wrap(ROLLOUT_ANNOTATION,
                                                    text ? json_object_new_string(text) : NULL));
}

/* Names the version that was seen, so that it overwrites no other client's change. */
json_object *takeover_patch(json_object *workload, json_object *record) {
        cleanup(json_object_put_p) json_object *metadata = annotate(record);
        const char *version = object_text(workload, "metadata.resourceVersion");

        if (patch_add_text(metadata, "resourceVersion", version ? version : "") < 0)
                return NULL;
        return patch_wrap("metadata", take_ptr(metadata));
}

json_object *takeover_patch_written(json_object *workload, json_object *record, bool is_before) {
        cleanup(json_object_put_p) json_object *changed = json_copy(record);

        if (patch_add_text(changed, "written", is_before ? "before" : "after") < 0)
                return NULL;
        return takeover_patch(workload, changed);
}

/* The part of the spec that gives the workload back: the partition that was asked for is for an update that
 * is not undone. */
static json_object *make_former(json_object *record) {
        cleanup(json_object_put_p) json_object *former =
                json_copy(json_get(record, "former", json_type_object));
        json_object *rolling = object_at(former, "updateStrategy.rollingUpdate");

        if (former && rolling && !record_is_undo(record) &&
            json_get(record, "partition", json_type_int) &&
            patch_add(rolling, "partition", json_object_new_int64(record_partition(record))) < 0)
                return NULL;
        return take_ptr(former);
}

/* A StatefulSet is held by its partition: another user has chosen since that its pods wait until they are deleted. */
static bool has_another_strategy(json_object *workload, json_object *former) {
        return object_at(former, "updateStrategy.rollingUpdate.partition") &&
               json_is(object_at(workload, "spec.updateStrategy"), "type", "OnDelete");
}

/* The patch that writes the record in another state; its "former" gives the workload back. */
int takeover_patch_state(json_object *workload, json_object *record, const char *state,
                         bool gives_back, json_object **ret) {
        cleanup(json_object_put_p) json_object *changed = json_copy(record);
        cleanup(json_object_put_p) json_object *patch = NULL;
        json_object *former = json_get(record, "former", json_type_object);
        bool has_former = gives_back && former && !has_another_strategy(workload, former);

        if (patch_add_text(changed, "state", state) < 0)
                return -ENOMEM;
        patch = takeover_patch(workload, changed);
        if (!patch || (has_former && patch_add(patch, "spec", make_former(record)) < 0))
                return -ENOMEM;

        *ret = take_ptr(patch);
        return 0;
}

int takeover_patch_refused(json_object *workload, json_object *record, const char *time,
                           json_object **ret) {
        cleanup(json_object_put_p) json_object *changed = json_copy(record);

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
