/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Restart requests, from an attacker
 *
 * What is accepted has an identity and, unless there is a problem, containers with different names;
 * whatever is planned for it is about one of them; and the patch of its status leaves nothing to
 * patch.
 */

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/recreate/recreate-controller-spec.h"
#include "agent/recreate/recreate-plan.h"
#include "agent/recreate/recreate-status.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/merge-patch.h"

DEFINE_CLEANUP(RecreateSpec *, recreate_spec_free)

static json_object *parse(const uint8_t *data, size_t size) {
        cleanup(json_tokener_free_p) json_tokener *tokener = json_tokener_new_ex(32);
        cleanup(free_p) char *text = fuzz_text(data, size);

        json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
        return json_tokener_parse_ex(tokener, text, (int) strlen(text) + 1);
}

static void check_spec(const RecreateSpec *spec) {
        check(spec->namespace && spec->name && spec->uid && spec->version);
        check(spec->problem || spec->pod_name);
        check(!spec->problem || spec->n_containers == 0);
        check(spec->status.n_states == spec->n_containers);
        check(spec->n_containers <= RECREATE_CONTAINERS_MAX);
        for (size_t i = 0; i < spec->n_containers; i++) {
                check(strcmp(spec->containers[i].name, spec->status.states[i].name) == 0);
                for (size_t k = 0; k < i; k++)
                        check(strcmp(spec->containers[i].name, spec->containers[k].name) != 0);
        }
        check(!spec->status.message || strlen(spec->status.message) <= RECREATE_TEXT_MAX);
}

static void check_plan(const RecreateSpec *spec, const RecreateFact *shape,
                       RecreateStatus *status) {
        cleanup(free_p) RecreateFact *facts = calloc(spec->n_containers + 1, sizeof(facts[0]));
        char scheme[RECREATE_SCHEME_SIZE];
        cleanup(free_p) char *problem = NULL;
        RecreateStep step;

        for (size_t i = 0; i < spec->n_containers; i++)
                facts[i] = *shape;

        check(recreate_plan_runtime(spec, facts, scheme, &problem) >= 0);
        check(recreate_plan_step(spec, facts, status, &step) >= 0);
        if (step.kind == RECREATE_STEP_STOP) {
                check(step.index < spec->n_containers);
                check(facts[step.index].is_here);
                check(status->states[step.index].phase == RECREATE_PENDING);
        }
        for (size_t i = 0; i < spec->n_containers; i++)
                check(status->states[i].phase != RECREATE_NONE);
}

static json_object *get(json_object *object, const char *key) {
        json_object *value = NULL;

        (void) json_object_object_get_ex(object, key, &value);
        return value;
}

/* Once it is written it is the desired status. To copy the object and read it again takes longer than all
 * the rest, so an input does it for one shape. */
static void check_patch(json_object *object, RecreateDialect dialect, const RecreateSpec *spec,
                        const RecreateStatus *desired) {
        cleanup(json_object_put_p) json_object *patch = NULL, *again = NULL, *after = NULL;
        cleanup(recreate_spec_free_p) RecreateSpec *read = NULL;

        check(recreate_status_diff(&spec->status, desired, NULL, &patch) >= 0);
        after = copy_json(object);
        if (patch)
                after = apply_merge_patch(after, patch);
        check(json_object_is_type(get(after, "metadata"), json_type_object));
        check(recreate_spec_parse(after, dialect, &read, NULL) >= 0);
        check(recreate_status_diff(&read->status, desired, NULL, &again) >= 0);
        check(!again);
}

static void check_dialect(json_object *object, RecreateDialect dialect, size_t choice) {
        static const RecreateFact shapes[] = {
                { .is_pod_known = true },
                { .is_here = true, .is_running = true, .id = "a1", .age_usec = UINT64_MAX / 2 },
                { .is_here = true, .is_exited = true, .id = "a2", .was_killed = true },
                { .is_here = true, .is_running = true, .id = "a2", .is_ready = true },
        };
        cleanup(recreate_spec_free_p) RecreateSpec *spec = NULL;
        cleanup(recreate_status_done) RecreateStatus desired = RECREATE_STATUS_INIT;
        cleanup(json_object_put_p) json_object *adoption = NULL, *drain = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        Pod pod = { .uid = (char *) "p-1", .grace_sec = 30 };

        if (recreate_spec_parse(object, dialect, &spec, &error) < 0) {
                check(error.kind == ERROR_INVALID && !spec);
                return;
        }

        check_spec(spec);
        (void) recreate_controller_plan(spec, &(RecreateView){ .now_sec = 1769904000 });
        if (spec->unready_sec >= 0)
                check(recreate_plan_drained_usec(spec, 1769904000000000, UINT64_MAX) <=
                      (uint64_t) spec->unready_sec * 1000000);
        check(recreate_controller_adopt(json_get(object, "spec", json_type_object), spec->version,
                                        &pod, "node-1", spec->status.phase != RECREATE_NONE,
                                        &adoption) >= 0 &&
              adoption);
        check(recreate_controller_drain(spec, dialect, 1769904000, &drain) >= 0 && drain);

        check(recreate_status_copy(&spec->status, &desired) >= 0);
        if (desired.phase == RECREATE_NONE)
                desired.phase = RECREATE_RECREATING;
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
                check_plan(spec, &shapes[i], &desired);
                if (i == choice % (sizeof(shapes) / sizeof(shapes[0])))
                        check_patch(object, dialect, spec, &desired);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(json_object_put_p) json_object *object = parse(data, size);

        for (RecreateDialect dialect = 0; dialect < _RECREATE_DIALECT_MAX; dialect++)
                check_dialect(object, dialect, size);
        return 0;
}
