/* SPDX-License-Identifier: Apache-2.0 */

/* The controller's actions on a workload that declares updates in place. */

#include "tests/unit/unit.h"

#include "agent/document/json-reader.h"
#include "agent/kubectl/controller-plan.h"
#include "agent/kubectl/rollout-record.h"
#include "tests/unit/quoted-json.h"

#define NOW 1000000
#define HASH 7

#define IF_POSSIBLE .mode = UPDATE_IN_PLACE_IF_POSSIBLE
#define ONLY .mode = UPDATE_IN_PLACE_ONLY
#define HELD .is_held = true, .is_ours = true
#define OPEN .has_open_record = true
#define FACTS(...) \
        { .template_hash = HASH, __VA_ARGS__ }
#define RUN(result, ...) \
        { .outcome = result, .template_hash = HASH, __VA_ARGS__ }
#define IMPOSSIBLE(seconds) RUN(UPDATE_IMPOSSIBLE, .ended_sec = NOW - (seconds))
#define FAILED(n, seconds) RUN(UPDATE_FAILED, .n_failures = n, .ended_sec = NOW - (seconds))

/* clang-format off */
static const struct PlanRow {
        const char *name;
        UpdateFacts facts;
        UpdateRun last;
        UpdateAction action;
} plans[] = {
        { "nothing is held", FACTS(IF_POSSIBLE), { 0 }, UPDATE_DO_NOTHING },
        { "its template has changed", FACTS(IF_POSSIBLE, HELD), { 0 }, UPDATE_DO_RUN },
        { "its template has changed again", FACTS(IF_POSSIBLE, HELD), { UPDATE_DONE, .template_hash = HASH + 1 }, UPDATE_DO_RUN },
        { "its manifest holds it", FACTS(IF_POSSIBLE, .is_held = true), { 0 }, UPDATE_DO_RUN },
        { "all pods are at its template", FACTS(IF_POSSIBLE, HELD), RUN(UPDATE_DONE), UPDATE_DO_GIVE_BACK },
        { "its manifest goes on holding it", FACTS(IF_POSSIBLE, .is_held = true), RUN(UPDATE_DONE), UPDATE_DO_NOTHING },
        { "its manifest holds it, with the reason of a failure that is over", FACTS(IF_POSSIBLE, .is_held = true, .has_status = true),
          RUN(UPDATE_DONE), UPDATE_DO_GIVE_BACK },
        { "it was taken back, and declares updates again", FACTS(IF_POSSIBLE, HELD), RUN(UPDATE_ABANDONED), UPDATE_DO_RUN },
        { "it was let go, and declares nothing any more", FACTS(HELD), RUN(UPDATE_ABANDONED), UPDATE_DO_GIVE_BACK },
        { "more than images has changed", FACTS(IF_POSSIBLE, HELD), RUN(UPDATE_IMPOSSIBLE), UPDATE_DO_GIVE_BACK },
        { "it was just impossible, and only in place", FACTS(ONLY, HELD, .has_status = true), IMPOSSIBLE(9), UPDATE_DO_NOTHING },
        { "it may be possible by now, and only in place", FACTS(ONLY, HELD, .has_status = true), IMPOSSIBLE(10), UPDATE_DO_RUN },
        { "it was just impossible, held by its manifest", FACTS(IF_POSSIBLE, .is_held = true, .has_status = true), IMPOSSIBLE(9), UPDATE_DO_NOTHING },
        { "it may be possible by now, held by its manifest", FACTS(IF_POSSIBLE, .is_held = true, .has_status = true), IMPOSSIBLE(10), UPDATE_DO_RUN },
        { "a user has removed the reason", FACTS(ONLY, HELD), IMPOSSIBLE(10), UPDATE_DO_RUN },
        { "a user has just removed the reason", FACTS(ONLY, HELD), IMPOSSIBLE(9), UPDATE_DO_NOTHING },
        { "it has just failed", FACTS(IF_POSSIBLE, HELD, OPEN), FAILED(1, 9), UPDATE_DO_NOTHING },
        { "it failed a while ago", FACTS(IF_POSSIBLE, HELD, OPEN), FAILED(1, 10), UPDATE_DO_RUN },
        { "it failed twice", FACTS(IF_POSSIBLE, HELD), FAILED(2, 19), UPDATE_DO_NOTHING },
        { "it failed often", FACTS(IF_POSSIBLE, HELD), FAILED(99, 299), UPDATE_DO_NOTHING },
        { "it failed often, long ago", FACTS(IF_POSSIBLE, HELD), FAILED(99, 300), UPDATE_DO_RUN },
        { "it failed with another template", FACTS(IF_POSSIBLE, HELD, OPEN), { UPDATE_FAILED, .template_hash = HASH + 1, .n_failures = 5, .ended_sec = NOW }, UPDATE_DO_RUN },
        { "an update was interrupted", FACTS(ONLY, .is_held = true, OPEN), { 0 }, UPDATE_DO_RUN },
        { "a person updates it", FACTS(IF_POSSIBLE, HELD, OPEN, .has_others_record = true), { 0 }, UPDATE_DO_NOTHING },
        { "it was resumed by hand", FACTS(IF_POSSIBLE, .is_ours = true), { 0 }, UPDATE_DO_GIVE_BACK },
        { "it was resumed by hand after a failure", FACTS(IF_POSSIBLE, .has_status = true), FAILED(1, 10), UPDATE_DO_GIVE_BACK },
        { "its manifest holds it after a failure", FACTS(IF_POSSIBLE, .is_held = true, .has_status = true), FAILED(1, 9), UPDATE_DO_NOTHING },
        { "it was resumed in the middle", FACTS(IF_POSSIBLE, .is_ours = true, OPEN), { 0 }, UPDATE_DO_RUN },
        { "it declares nothing any more", FACTS(HELD), { 0 }, UPDATE_DO_GIVE_BACK },
        { "it declares nothing any more, after a failure", FACTS(.is_held = true, .has_status = true), { 0 }, UPDATE_DO_GIVE_BACK },
        { "it declares nothing any more, in the middle", FACTS(HELD, OPEN), { 0 }, UPDATE_DO_RELEASE },
        { "it declares nothing any more, and a pod fails", FACTS(HELD, OPEN, .has_status = true), { 0 }, UPDATE_DO_UNDO },
        { "the way back failed, too", FACTS(HELD, OPEN, .has_status = true), FAILED(1, 10), UPDATE_DO_RELEASE },
        { "the release failed", FACTS(HELD, OPEN), FAILED(1, 0), UPDATE_DO_NOTHING },
        { "it was let go", FACTS(IF_POSSIBLE, .is_let_go = true), { 0 }, UPDATE_DO_GIVE_BACK },
        { "it was let go, and its manifest holds it", FACTS(IF_POSSIBLE, .is_held = true, .is_let_go = true), { 0 }, UPDATE_DO_GIVE_BACK },
        { "it is being deleted", FACTS(IF_POSSIBLE, HELD, .is_deleted = true), { 0 }, UPDATE_DO_NOTHING },
};

static const struct FactsRow {
        const char *name;
        WorkloadKind kind;
        const char *annotations, *spec;
        UpdateFacts facts;
} facts_rows[] = {
        { "declares nothing", WORKLOAD_DEPLOYMENT, "", "", { 0 } },
        { "another value", WORKLOAD_DEPLOYMENT, "'inplaced.io/update': 'Never'", "", { 0 } },
        { "held by admission", WORKLOAD_DEPLOYMENT, "'inplaced.io/update': 'InPlaceOnly', 'inplaced.io/held': 'paused'",
          "'paused': true", { ONLY, HELD } },
        { "let go", WORKLOAD_DEPLOYMENT, "'inplaced.io/update': 'InPlaceOnly', 'inplaced.io/held': ''", "", { ONLY, .is_let_go = true } },
        { "held by its manifest", WORKLOAD_DAEMON_SET, "'inplaced.io/update': 'InPlaceIfPossible'",
          "'updateStrategy': {'type': 'OnDelete'}", { IF_POSSIBLE, .is_held = true } },
        { "not held", WORKLOAD_STATEFUL_SET, "'inplaced.io/update': 'InPlaceIfPossible', 'inplaced.io/update-status': 'x'",
          "'updateStrategy': {'rollingUpdate': {'partition': 3}}", { IF_POSSIBLE, .has_status = true } },
        { "updated by itself", WORKLOAD_DEPLOYMENT, "'inplaced.io/rollout': '" "{\\'state\\': \\'forward\\', \\'mode\\': \\'rollout\\', "
          "\\'by\\': \\'inplaced-controller\\', \\'since\\': \\'\\', \\'revision\\': \\'\\', \\'before\\': {}, \\'after\\': {}}" "'", "'paused': true",
          { .is_held = true, .has_open_record = true } },
        { "updated by another user", WORKLOAD_DEPLOYMENT, "'inplaced.io/rollout': '" "{\\'state\\': \\'undo\\', \\'mode\\': \\'set-image\\', "
          "\\'by\\': \\'alice\\', \\'since\\': \\'\\', \\'revision\\': \\'\\', \\'before\\': {}, \\'after\\': {}}" "'", "'paused': true",
          { .is_held = true, .has_open_record = true, .has_others_record = true } },
};

static const struct GivenBackRow {
        const char *name;
        WorkloadKind kind;
        const char *held, *spec;
        const char *patch; /* NULL: no spec */
} given_back[] = {
        { "deployment", WORKLOAD_DEPLOYMENT, "paused", "'paused': true", "{'paused': false}" },
        { "resumed deployment", WORKLOAD_DEPLOYMENT, "paused", "'paused': false", NULL },
        { "stateful set", WORKLOAD_STATEFUL_SET, "2", "'updateStrategy': {'rollingUpdate': {'partition': 2147483647}}",
          "{'updateStrategy': {'type': 'RollingUpdate', 'rollingUpdate': {'partition': 2}}}" },
        { "stateful set with nonsense", WORKLOAD_STATEFUL_SET, "x", "'updateStrategy': {'rollingUpdate': {'partition': 2147483647}}",
          "{'updateStrategy': {'type': 'RollingUpdate', 'rollingUpdate': {'partition': 0}}}" },
        { "stateful set that its users have made OnDelete", WORKLOAD_STATEFUL_SET, "2", "'updateStrategy': {'type': 'OnDelete'}", NULL },
        { "daemon set", WORKLOAD_DAEMON_SET, "RollingUpdate", "'updateStrategy': {'type': 'OnDelete'}",
          "{'updateStrategy': {'type': 'RollingUpdate'}}" },
        { "daemon set of its manifest", WORKLOAD_DAEMON_SET, NULL, "'updateStrategy': {'type': 'OnDelete'}", NULL },
        { "the second write", WORKLOAD_DEPLOYMENT, "", "'paused': true", NULL },
};
static const struct ConcernedRow {
        const char *name;
        UpdateFacts facts;
        bool is_new, is_known;
} concerned[] = {
        { "it declares updates", FACTS(IF_POSSIBLE), true, true },
        { "it is held", FACTS(HELD), true, true },
        { "it was let go", FACTS(.is_let_go = true), true, true },
        { "an update of it is open", FACTS(OPEN), false, true },
        { "a person updates it", FACTS(OPEN, .has_others_record = true), false, false },
        { "a reason is left", FACTS(.has_status = true), true, true },
        { "a reason is left, and a person updates it", FACTS(OPEN, .has_status = true, .has_others_record = true), false, false },
        { "it is being deleted", FACTS(IF_POSSIBLE, HELD, .is_deleted = true), false, false },
};
static const struct TurnRow {
        const char *name;
        UpdateRun run, other;
        bool is_before;
} turns[] = {
        { "its first run", { 0 }, FAILED(1, 300), true },
        { "it has failed, the other was not tried", FAILED(1, 300), { 0 }, false },
        { "it failed before the other", FAILED(9, 301), FAILED(1, 300), true },
        { "it failed after the other", FAILED(1, 299), FAILED(9, 300), false },
        { "both are new", { 0 }, { 0 }, false },
};
static const struct FirstRow {
        const char *name;
        UpdateFacts facts;
        UpdateRun last;
        bool comes_first;
} firsts[] = {
        { "nothing is held", FACTS(IF_POSSIBLE), { 0 }, false },
        { "its template has changed, and the record is not written yet", FACTS(IF_POSSIBLE, HELD), { 0 }, true },
        { "the update has begun", FACTS(IF_POSSIBLE, HELD, OPEN), { 0 }, true },
        { "a person updates it", FACTS(IF_POSSIBLE, OPEN, .has_others_record = true), { 0 }, true },
        { "its images could not be pulled just now", FACTS(IF_POSSIBLE, HELD, .has_status = true), FAILED(1, 9), false },
        { "it failed in the middle just now", FACTS(IF_POSSIBLE, HELD, OPEN, .has_status = true), FAILED(1, 9), true },
        { "it is tried again", FACTS(IF_POSSIBLE, HELD, .has_status = true), FAILED(1, 10), true },
        { "it is done, and held by its manifest", FACTS(IF_POSSIBLE, .is_held = true), RUN(UPDATE_DONE), false },
};
/* clang-format on */

TEST_ROWS(test_turns, turns, name, const struct TurnRow *row) {
        assert_int_equal(update_run_is_before(&row->run, &row->other), row->is_before);
}

TEST_ROWS(test_plan, plans, name, const struct PlanRow *row) {
        assert_int_equal(update_plan(&row->facts, &row->last, NOW), row->action);
}

TEST_ROWS(test_first, firsts, name, const struct FirstRow *row) {
        assert_int_equal(update_comes_first(&row->facts, &row->last, NOW), row->comes_first);
}

/* The removal of the controller waits for all that it is concerned with. */
TEST_ROWS(test_concerned, concerned, name, const struct ConcernedRow *row) {
        assert_int_equal(update_is_concerned(&row->facts, /* was_concerned= */ false), row->is_new);
        assert_int_equal(update_is_concerned(&row->facts, /* was_concerned= */ true),
                         row->is_known);
}

static json_object *make_workload(const char *annotations, const char *spec) {
        return parse("{'metadata': {'resourceVersion': '5', 'annotations': {%s}}, 'spec': {%s}}",
                     annotations, spec);
}

TEST_ROWS(test_facts, facts_rows, name, const struct FactsRow *row) {
        cleanup(json_object_put_p) json_object *workload =
                make_workload(row->annotations, row->spec);
        UpdateFacts facts;

        assert_ok(update_facts(row->kind, workload, &facts));
        assert_int_equal(facts.mode, row->facts.mode);
        assert_int_equal(facts.is_held, row->facts.is_held);
        assert_int_equal(facts.is_ours, row->facts.is_ours);
        assert_int_equal(facts.has_open_record, row->facts.has_open_record);
        assert_int_equal(facts.has_others_record, row->facts.has_others_record);
        assert_int_equal(facts.has_status, row->facts.has_status);
}

/* With another image or partition, a run would leave other pods as they are. */
TEST(test_template_hash) {
        static const struct {
                const char *image, *held;
        } rows[] = { { "app:1", "1" }, { "app:2", "1" }, { "app:1", "0" }, { "app:1", "1" } };
        UpdateFacts facts[N_ELEMENTS(rows)];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(json_object_put_p) json_object *workload =
                        parse("{'metadata': {'annotations': {'inplaced.io/held': '%s'}}, 'spec': "
                              "{'updateStrategy': {'rollingUpdate': {'partition': 2147483647}}, "
                              "'template': {'spec': {'containers': [{'image': '%s'}]}}}}",
                              rows[i].held, rows[i].image);

                assert_ok(update_facts(WORKLOAD_STATEFUL_SET, workload, &facts[i]));
        }
        assert_int_not_equal(facts[0].template_hash, facts[1].template_hash);
        assert_int_not_equal(facts[0].template_hash, facts[2].template_hash);
        assert_int_equal(facts[0].template_hash, facts[3].template_hash);
}

/* An outcome is about the pods as its run has left them. */
TEST(test_another_template_meanwhile) {
        static const UpdateFacts before = FACTS(IF_POSSIBLE, .is_held = true),
                                 other = { IF_POSSIBLE, .template_hash = HASH + 1 };
        UpdateFacts facts = before;
        UpdateRun last = RUN(UPDATE_DONE);

        update_follow(&facts, &last, &before);
        assert_int_equal(update_plan(&facts, &last, NOW), UPDATE_DO_NOTHING);
        update_follow(&facts, &last, &other);
        assert_int_equal(facts.template_hash, other.template_hash);
        update_follow(&facts, &last, &before);
        assert_int_equal(update_plan(&facts, &last, NOW), UPDATE_DO_RUN);
}

/* A run follows the template: which one its pods have at its end is not known when that changes and comes back. */
TEST(test_another_template_during_a_run) {
        static const UpdateFacts before = FACTS(IF_POSSIBLE, .is_held = true, .is_ours = true),
                                 other = { IF_POSSIBLE, .template_hash = HASH + 1 };
        UpdateFacts facts = before;
        UpdateRun last = { 0 };

        update_run_begin(&last, &facts);
        update_follow(&facts, &last, &before);
        update_run_end(&last, UPDATE_DONE, NOW);
        assert_int_equal(update_plan(&facts, &last, NOW), UPDATE_DO_GIVE_BACK);

        update_run_begin(&last, &facts);
        update_follow(&facts, &last, &other);
        update_follow(&facts, &last, &before);
        update_run_end(&last, UPDATE_DONE, NOW);
        assert_int_equal(update_plan(&facts, &last, NOW), UPDATE_DO_RUN);
}

/* Runs that find the same are ever farther apart. */
TEST(test_impossible_again) {
        const UpdateFacts facts = FACTS(ONLY, HELD, .has_status = true);
        UpdateRun last = { 0 };

        for (int pause_sec = 10; pause_sec <= 40; pause_sec *= 2) {
                update_run_begin(&last, &facts);
                update_run_end(&last, UPDATE_IMPOSSIBLE, NOW);
                assert_int_equal(update_plan(&facts, &last, NOW + pause_sec - 1),
                                 UPDATE_DO_NOTHING);
                assert_int_equal(update_plan(&facts, &last, NOW + pause_sec), UPDATE_DO_RUN);
        }
}

TEST_ROWS(test_give_back, given_back, name, const struct GivenBackRow *row) {
        char annotation[64] = "";
        cleanup(json_object_put_p) json_object *workload = NULL;
        cleanup(json_object_put_p) json_object *patch = NULL;

        if (row->held)
                (void) snprintf(annotation, sizeof(annotation), "'inplaced.io/held': '%s'",
                                row->held);
        workload = make_workload(annotation, row->spec);
        assert_ok(update_give_back_patch(row->kind, workload, /* forgets= */ false, &patch));
        assert_json(object_at(patch, "spec"), row->patch ?: "null");
        assert_string_equal(object_text(patch, "metadata.resourceVersion"), "5");
        assert_true(json_object_object_get_ex(object_at(patch, "metadata.annotations"),
                                              HELD_ANNOTATION, NULL));
        assert_true(json_object_object_get_ex(object_at(patch, "metadata.annotations"),
                                              UPDATE_STATUS_ANNOTATION, NULL));
        assert_false(json_object_object_get_ex(object_at(patch, "metadata.annotations"),
                                               ROLLOUT_ANNOTATION, NULL));
}

/* clang-format off */
#define OPEN_RECORD(mode) \
        "'inplaced.io/update': 'InPlaceOnly', 'inplaced.io/update-status': 'it waits', " \
        "'inplaced.io/rollout': '{\\'state\\': \\'forward\\', \\'mode\\': \\'" mode "\\', \\'by\\': \\'inplaced-controller\\', " \
        "\\'since\\': \\'\\', \\'revision\\': \\'\\', \\'before\\': {}, \\'after\\': {}}'"
/* clang-format on */

/* A manifest holds the workload, so that the reason alone shows whose update it is. */
TEST(test_removal_where_the_manifest_holds) {
        const UpdateRun none = { .outcome = UPDATE_NOT_TRIED };

        for (int sets_images = 0; sets_images < 2; sets_images++) {
                cleanup(json_object_put_p) json_object *workload =
                        make_workload(sets_images ? OPEN_RECORD("set-image")
                                                  : OPEN_RECORD("rollout"),
                                      "'paused': true");
                UpdateFacts facts;

                assert_ok(update_facts_at_removal(WORKLOAD_DEPLOYMENT, workload, &facts));
                assert_int_equal(facts.is_ours, !sets_images);
                assert_int_equal(update_is_concerned(&facts, /* was_concerned= */ true),
                                 !sets_images);
                assert_int_equal(update_plan(&facts, &none, NOW),
                                 sets_images ? UPDATE_DO_NOTHING : UPDATE_DO_UNDO);
        }
}

/* The removal forgets the record of an update that has ended, and none by which the workload is held. */
TEST(test_removal_after_the_release) {
        for (int is_open = 0; is_open < 2; is_open++) {
                cleanup(json_object_put_p) json_object *workload = make_workload(
                        is_open ? "'inplaced.io/held': '', " OPEN_RECORD("rollout")
                                : "'inplaced.io/held': '', 'inplaced.io/rollout': '{}'",
                        "'paused': true");
                cleanup(json_object_put_p) json_object *patch = NULL;

                assert_ok(update_give_back_patch(WORKLOAD_DEPLOYMENT, workload, /* forgets= */ true,
                                                 &patch));
                assert_int_equal(json_object_object_get_ex(object_at(patch, "metadata.annotations"),
                                                           ROLLOUT_ANNOTATION, NULL),
                                 !is_open);
        }
}

/* At the removal of the controller, what a person has begun stays. */
TEST(test_removal) {
        cleanup(json_object_put_p) json_object *mine =
                make_workload("'inplaced.io/held': '0', 'inplaced.io/update': 'InPlaceOnly'",
                              "'updateStrategy': {'rollingUpdate': {'partition': 2147483647}}");
        cleanup(json_object_put_p) json_object *theirs = make_workload(
                "'inplaced.io/update': 'InPlaceOnly', 'inplaced.io/rollout': '{\\'state\\': \\'undo\\', "
                "\\'mode\\': \\'set-image\\', \\'by\\': \\'alice\\', \\'since\\': \\'\\', \\'revision\\': "
                "\\'\\', \\'before\\': {}, \\'after\\': {}}'",
                "'paused': true");
        UpdateFacts facts;
        const UpdateRun none = { .outcome = UPDATE_NOT_TRIED };

        assert_ok(update_facts_at_removal(WORKLOAD_STATEFUL_SET, mine, &facts));
        assert_int_equal(update_plan(&facts, &none, NOW), UPDATE_DO_GIVE_BACK);
        assert_ok(update_facts_at_removal(WORKLOAD_DEPLOYMENT, theirs, &facts));
        assert_int_equal(update_plan(&facts, &none, NOW), UPDATE_DO_NOTHING);
        assert_false(facts.is_ours);
}

/* The record of an update that has ended is forgotten; a workload without one stays as it is. */
TEST(test_removal_of_a_record) {
        for (int has_record = 0; has_record < 2; has_record++) {
                cleanup(json_object_put_p) json_object *workload = make_workload(
                        has_record
                                ? "'inplaced.io/update': 'InPlaceOnly', 'inplaced.io/rollout': '{}'"
                                : "'inplaced.io/update': 'InPlaceOnly'",
                        "");
                UpdateFacts facts;

                assert_ok(update_facts_at_removal(WORKLOAD_DEPLOYMENT, workload, &facts));
                assert_int_equal(facts.is_ours, has_record);
        }
}

/* Another workload of the same name may have come in its place, which has not failed. */
TEST(test_reason_is_for_one_workload) {
        static const char *const reasons[] = { "no such image", NULL };

        for (size_t i = 0; i < N_ELEMENTS(reasons); i++) {
                cleanup(json_object_put_p) json_object *status = NULL;
                cleanup(json_object_put_p) json_object *condition = NULL;
                json_object *annotations, *first;

                assert_ok(update_status_patch("u", reasons[i], &status));
                assert_string_equal(object_text(status, "metadata.uid"), "u");
                annotations = object_at(status, "metadata.annotations");
                assert_true(json_object_object_get_ex(annotations, UPDATE_STATUS_ANNOTATION, NULL));
                assert_int_equal(json_is(annotations, UPDATE_STATUS_ANNOTATION, "no such image"),
                                 reasons[i] != NULL);

                assert_ok(update_condition_patch("u", reasons[i], NOW, &condition));
                assert_string_equal(object_text(condition, "metadata.uid"), "u");
                first = json_object_array_get_idx(object_list(condition, "status.conditions"), 0);
                assert_int_equal(json_is(first, "reason", "ProgressDeadlineExceeded"),
                                 reasons[i] != NULL);
                assert_int_equal(json_get_time(first, "lastUpdateTime"), NOW);
                assert_int_equal(json_get_time(first, "lastTransitionTime"), NOW);
        }
}

static const struct PlaceRow {
        const char *name;
        size_t n_running, n_of_namespace;
        bool is_shared, has_place;
} places[] = {
        { "nothing runs", 0, 0, true, true },
        { "all places are taken", 32, 0, true, false },
        { "the last place", 31, 23, true, true },
        { "its namespace has three quarters", 24, 24, true, false },
        { "its namespace has more, and there is one namespace", 31, 31, false, true },
        { "there is one namespace, and all places are taken", 32, 32, false, false },
};

TEST_ROWS(test_places, places, name, const struct PlaceRow *row) {
        assert_int_equal(update_has_place(row->n_running, row->n_of_namespace, 32, row->is_shared),
                         row->has_place);
}

static const struct LoadRow {
        const char *name;
        size_t max;
        UpdateLoad loads[4];
        size_t n;
        const char *worst; /* namespace of that run; NULL: none ends */
        size_t worst_size;
} load_rows[] = {
        { "nothing runs", 0, { { 0 } }, 0, NULL, 0 },
        { "they have as much as they may", 60, { { "a", 10 }, { "b", 50 } }, 2, NULL, 0 },
        { "one is too large", 59, { { "a", 10 }, { "b", 50 } }, 2, "b", 50 },
        { "many of one namespace", 100, { { "a", 30 }, { "b", 50 }, { "a", 35 } }, 3, "a", 35 },
        { "as much in each", 99, { { "a", 25 }, { "b", 50 }, { "a", 25 } }, 3, "b", 50 },
        { "there is no room for any", 0, { { "a", 10 } }, 1, "a", 10 },
};

TEST_ROWS(test_loads, load_rows, name, const struct LoadRow *row) {
        size_t worst = update_over_memory(row->loads, row->n, row->max);

        if (!row->worst) {
                assert_int_equal(worst, row->n);
                return;
        }
        assert_true(worst < row->n);
        assert_string_equal(row->loads[worst].namespace, row->worst);
        assert_int_equal(row->loads[worst].size, row->worst_size);
}
