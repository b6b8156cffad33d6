/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A pod, the objects that it uses, and the ledger of a controller, from an attacker
 *
 * Whatever they say, an object that is noted twice is no change the second time, and all that changes can be carried out and
 * is forgotten then. The ledger stays one.
 */

#include <json-c/json.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/config-plan.h"
#include "tests/fuzz/fuzz.h"

#define NOW 1769904000

static const uint8_t secret[SIPHASH_KEY_SIZE] = "0123456789abcde";

typedef struct Noted {
        json_object *ledger, *object;
} Noted;

static int note(const char *of, void *userdata) {
        const Noted *noted = userdata;
        const ConfigState state = {
                .of = of, .object = noted->object, .secret = secret, .now_sec = NOW
        };

        check(config_note(noted->ledger, &state) >= 0);
        check(config_note(noted->ledger, &state) == 0);
        return 0;
}

static void check_plan(ConfigPod *pod, json_object *ledger) {
        cleanup(config_plan_done) ConfigPlan plan;

        check(config_plan(&pod, 1, ledger, 10, NOW + 11, &plan) == 0);
        json_object_object_foreach(plan.groups, key, group) {
                (void) key;
                check(json_get_text(group, "namespace") && json_get_text(group, "workload"));
                check(json_object_array_length(json_get(group, "pods", json_type_array)) == 0 ||
                      (json_get_text(group, "containers") && json_get_text(group, "cause")));
        }
        check(config_settle(ledger, &plan, 10, INT64_C(1) << 60) >= 0);
}

static void check_trim(json_object *ledger) {
        cleanup(json_object_put_p) json_object *removed = json_object_new_array();
        size_t half = strlen(json_to_text(ledger)) / 2;

        check(config_trim(ledger, half, removed) == 0);
        check(strlen(json_to_text(ledger)) <= half || json_object_object_length(ledger) == 0);
}

static void note_all(ConfigPod *pod, json_object *ledger, json_object *objects) {
        check(config_is_ledger(ledger));
        for (size_t i = 0; objects && i < json_object_array_length(objects); i++) {
                Noted noted = { ledger, json_object_array_get_idx(objects, i) };

                check(config_pod_objects(pod, note, &noted) == 0);
                check_plan(pod, ledger);
                check(config_is_ledger(ledger));
        }
        check_plan(pod, ledger);
        check_trim(ledger);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(json_object_put_p) json_object *whole = NULL;
        cleanup(json_object_put_p) json_object *made = json_object_new_object();
        json_object *ledger;
        ConfigPod *pod = NULL;

        if (json_parse((const char *) data, size, &whole, /* reterr= */ NULL) < 0)
                return 0;
        ledger = json_get(whole, "ledger", json_type_object);
        check(config_pod_new(json_get(whole, "pod", json_type_object), &pod) == 0);
        if (pod)
                note_all(pod, config_is_ledger(ledger) ? ledger : made,
                         json_get(whole, "objects", json_type_array));
        config_pod_free(pod);
        return 0;
}
