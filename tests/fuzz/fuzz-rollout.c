/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A workload, its pods, and the record of an update in its annotation, from an attacker
 *
 * Whatever they say, each step has what it needs to be taken or to be reported. A workload that may be taken over is held
 * by that write, and its record can be read, and turned back.
 */

#include <json-c/json.h>
#include <stdbool.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/kruise-plan.h"
#include "agent/kubectl/rollout-plan.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/merge-patch.h"

#define NOW_SEC 1769904000

static const RolloutLimits limits = { .grace_sec = 1 };

static void check_error(int r, const Error *error) {
        check((r < 0) == (error->kind != ERROR_NONE));
}

/* As a watch keeps them: what has no name is not there. */
static json_object *by_name(json_object *list) {
        json_object *map = json_object_new_object();

        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                json_object *object = json_object_array_get_idx(list, i);

                if (*object_name(object))
                        json_object_object_add(map, object_name(object), json_object_get(object));
        }
        return map;
}

static void check_step(const RolloutStep *step) {
        switch (step->action) {
        case ROLLOUT_WAIT:
        case ROLLOUT_STOP: check(step->message && !step->patch); break;
        case ROLLOUT_PAUSE:
        case ROLLOUT_DONE: check(!step->patch); break;
        case ROLLOUT_PATCH_REPLICA_SET:
        case ROLLOUT_CREATE_REPLICA_SET:
        case ROLLOUT_CLOSE_GATE:
        case ROLLOUT_RETURN_POD:
        case ROLLOUT_PATCH_POD: check(step->name && *step->name && step->patch); break;
        case ROLLOUT_PATCH_WORKLOAD:
        case ROLLOUT_HAND_BACK: check(step->patch); break;
        case ROLLOUT_ABANDON: check(step->message && step->patch); break;
        case ROLLOUT_RETARGET: check(!step->message && !step->patch); break;
        case _ROLLOUT_ACTION_MAX: check(false);
        }
}

static void check_plan(const RolloutView *view, json_object *record) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(census_done) Census census = CENSUS_INIT;
        RolloutStep step = ROLLOUT_STEP_INIT;
        int r;

        check(census_take(view, record, &census) == 0);
        r = rollout_plan(view, record, &limits, &census, &step, &error);
        check_error(r, &error);
        if (r >= 0)
                check_step(&step);
        rollout_step_done(&step);
        check(rollout_plan_release(view, record, &limits, &step) >= 0);
        check(rollout_plan_return(view, record, &step) >= 0);
        if (step.action != ROLLOUT_ABANDON)
                check_step(&step);
        check(step.action == ROLLOUT_PATCH_REPLICA_SET || step.action == ROLLOUT_WAIT ||
              step.action == ROLLOUT_STOP || step.patch);
        rollout_step_done(&step);

        for (RolloutAction action = 0; action < _ROLLOUT_ACTION_MAX; action++) {
                check(rollout_rehearse(view, record, &limits, &census, action, &step) >= 0);
                check(step.action == action || step.action == ROLLOUT_WAIT);
                if (step.action != ROLLOUT_WAIT)
                        check_step(&step);
                rollout_step_done(&step);
        }
}

/* Returns the workload after a patch. */
static json_object *patched(json_object *workload, json_object *patch) {
        return apply_merge_patch(copy_json(workload), patch);
}

static void check_turned(const RolloutView *view, json_object *record) {
        cleanup(json_object_put_p) json_object *patch = NULL, *workload = NULL, *turned = NULL;
        const RolloutRequest request = { .takes_over = true, .goes_back = true, .by = "jo" };
        cleanup(free_p) char *difference = NULL;
        TemplateChange change;
        bool is_changed;

        check(view_find_change(view, record, &change, &difference) == 0);
        is_changed = change != TEMPLATE_UNCHANGED;
        check(rollout_resume(view, &request, &patch, NULL) == 0);
        if (!patch)
                return; /* as it is */
        workload = patched(view->workload, patch);
        check(rollout_record_read(workload, &turned, NULL) == 0 && turned);
        check(rollout_record_is_open(turned));
        check(is_changed ? !object_at(patch, "spec") : record_is_undo(turned));
        check(json_object_equal(record_target(turned),
                                is_changed ? record_target(record) : record_images(record, true)));
}

static void check_record(const RolloutView *view) {
        cleanup(json_object_put_p) json_object *record = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r = rollout_record_read(view->workload, &record, &error);

        check_error(r, &error);
        check(rollout_record_undo(view, record) < _ROLLOUT_UNDO_MAX);
        if (!record)
                return;
        if (rollout_record_is_open(record))
                check_turned(view, record);
        check_plan(view, record);
}

static void check_begin(const RolloutView *before, const RolloutRequest *request) {
        cleanup(json_object_put_p) json_object *patch = NULL, *workload = NULL, *record = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        RolloutView view = *before;
        int r = rollout_begin(before, request, &patch, &error);

        check_error(r, &error);
        if (!patch)
                return;
        view.workload = workload = patched(before->workload, patch);
        check(view_is_held(&view));
        check(rollout_record_read(workload, &record, NULL) == 0 && record);
        check(rollout_record_is_open(record) && !record_is_undo(record));
        check_turned(&view, record);
        check_plan(&view, record);
}

static void check_kruise(const RolloutView *view, const RolloutRequest *request) {
        cleanup(json_object_put_p) json_object *patch = NULL, *record = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(census_done) Census census = CENSUS_INIT;
        RolloutStep step = ROLLOUT_STEP_INIT;

        check_error(kruise_begin(view, request, &patch, &error), &error);
        record = kruise_record(view, NULL);
        check(record && census_take(view, record, &census) == 0);
        check(kruise_plan(view, record, &census, &step) == 0);
        check(!step.message == (step.action == ROLLOUT_DONE));
        rollout_step_done(&step);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(json_object_put_p) json_object *input = NULL, *workload = NULL, *owned = NULL,
                                               *pods = NULL, *budgets = NULL;
        cleanup(json_object_put_p) json_object *images = json_object_new_object();

        if (json_parse((const char *) data, size, &input, NULL) < 0)
                return 0;
        workload = json_object_get(json_get(input, "workload", json_type_object));
        if (!workload)
                return 0;
        owned = by_name(json_get(input, "owned", json_type_array));
        pods = by_name(json_get(input, "pods", json_type_array));
        budgets = by_name(json_get(input, "budgets", json_type_array));
        json_object_object_add(images, "app", json_object_new_string("B"));

        for (WorkloadKind kind = 0; kind < _WORKLOAD_KIND_MAX; kind++) {
                const RolloutView view = { .kind = kind,
                                           .workload = workload,
                                           .owned = owned,
                                           .pods = pods,
                                           .budgets = budgets,
                                           .noted = pods,
                                           .now_sec = NOW_SEC };
                RolloutRequest request = { .mode = ROLLOUT_SET_IMAGE,
                                           .images = images,
                                           .partition = -1,
                                           .by = "jo",
                                           .now_sec = NOW_SEC };

                if (workload_is_of_kruise(kind)) {
                        check_kruise(&view, &request);
                        continue;
                }
                check_record(&view);
                check_begin(&view, &request);
                request.mode = ROLLOUT_FOLLOW;
                request.images = NULL;
                check_begin(&view, &request);
        }
        return 0;
}
