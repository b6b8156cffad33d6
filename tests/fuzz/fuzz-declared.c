/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A workload that declares its updates in place, from an attacker
 *
 * Whatever its annotations say, there is one next action, none for a workload that is deleted, and once a workload is given
 * back nothing is left to give back, neither now nor when the controller is removed.
 */

#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/controller-plan.h"
#include "agent/kubectl/rollout-record.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/merge-patch.h"

#define NOW_SEC 1769904000

/* Whether something is left to give back: the hold, or the reason why an update does not go on. */
static bool is_left(const UpdateFacts *facts) {
        return facts->is_ours || facts->is_let_go || facts->has_status;
}

static void check_facts(const UpdateFacts *facts) {
        check(facts->mode < _UPDATE_MODE_MAX);
        for (UpdateOutcome outcome = 0; outcome < _UPDATE_OUTCOME_MAX; outcome++) {
                UpdateRun run = { .outcome = UPDATE_NOT_TRIED };
                UpdateAction action;

                update_run_begin(&run, facts);
                update_run_end(&run, outcome, NOW_SEC);
                action = update_plan(facts, &run, NOW_SEC + 1);
                check(action < _UPDATE_ACTION_MAX);
                check(!facts->is_deleted || action == UPDATE_DO_NOTHING);
                check(is_left(facts) || action != UPDATE_DO_GIVE_BACK);
        }
}

/* The workload after the write, which its controller has back. */
static json_object *give_back(WorkloadKind kind, json_object *workload, bool forgets) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        json_object *given;
        UpdateFacts facts;

        check(update_give_back_patch(kind, workload, forgets, &patch) == 0 && patch);
        given = apply_merge_patch(copy_json(workload), patch);
        check(update_facts(kind, given, &facts) == 0);
        check(!facts.is_ours && !facts.has_status);
        return given;
}

/* The second write leaves nothing. At the removal of the controller only the record of the last update may still be left,
 * where it is not to be forgotten. */
static void check_given_back(WorkloadKind kind, json_object *workload, bool forgets) {
        cleanup(json_object_put_p) json_object *given = give_back(kind, workload, forgets);
        cleanup(json_object_put_p) json_object *again = give_back(kind, given, forgets);
        bool has_record =
                json_get_text(object_at(again, "metadata.annotations"), ROLLOUT_ANNOTATION);
        UpdateFacts facts;

        check(update_facts(kind, again, &facts) == 0);
        check(!is_left(&facts));
        check(update_facts_at_removal(kind, again, &facts) == 0);
        check(!is_left(&facts) || (has_record && !forgets));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const WorkloadKind kinds[] = { WORKLOAD_DEPLOYMENT, WORKLOAD_STATEFUL_SET,
                                              WORKLOAD_DAEMON_SET };
        cleanup(json_object_put_p) json_object *workload = NULL;
        UpdateFacts facts;

        if (json_parse((const char *) data, size, &workload, NULL) < 0)
                return 0;
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                check(update_facts(kinds[i], workload, &facts) == 0);
                check_facts(&facts);
                check_given_back(kinds[i], workload, /* forgets= */ false);
                check_given_back(kinds[i], workload, /* forgets= */ true);
                check(update_facts_at_removal(kinds[i], workload, &facts) == 0);
                check_facts(&facts);
        }
        return 0;
}
