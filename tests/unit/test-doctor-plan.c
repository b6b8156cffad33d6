/* SPDX-License-Identifier: Apache-2.0 */

/* Which nodes doctor puts together. */

#include "tests/unit/unit.h"

#include "agent/kubectl/doctor-plan.h"
#include "tests/unit/quoted-json.h"

#define AGENT(node_, version_, is_ready_, trouble_)                                        \
        {                                                                                  \
                .node = (char *) (node_), .has_pod = true, .version = (char *) (version_), \
                .is_ready = (is_ready_), .trouble = (char *) (trouble_)                    \
        }

TEST(test_nodes) {
        static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g" };
        NodeAgent agents[] = {
                AGENT("a", "2", true, NULL),
                AGENT("b", "1", true, NULL),
                AGENT("c", "2", true, NULL),
                AGENT("d", "2", false, "no runtime"),
                { .node = (char *) "e", .wrote_at = 5 },
                { .node = (char *) "f", .wrote_at = 1, .version = (char *) "1" },
        };
        NodeAgent *items[] = { &agents[0], &agents[1], &agents[2],
                               &agents[3], &agents[4], &agents[5] };
        const Agents all = { .items = items, .n_items = 6 };
        cleanup(json_object_put_p) json_object *nodes = json_object_new_object();
        cleanup(doctor_groups_done) DoctorGroups groups = DOCTOR_GROUPS_INIT;
        cleanup(free_p) char *listed = NULL;
        cleanup(free_p) char *both = NULL;
        cleanup(free_p) char *cut = NULL;

        for (size_t i = 0; i < 7; i++) {
                cleanup(json_object_put_p) json_object *node = json_object_new_object();
                json_object *metadata = json_object_new_object();

                json_object_object_add(metadata, "name", json_object_new_string(names[i]));
                json_object_object_add(node, "metadata", metadata);
                assert_ok(doctor_nodes_add(nodes, node));
        }

        assert_ok(doctor_plan_nodes(nodes, &all, &groups));
        assert_int_equal(groups.n_with_agent, 6);
        assert_string_equal(groups.version, "2");
        assert_int_equal(groups.n_of_unknown_version, 1);
        assert_int_equal(groups.n_traces, 2);
        assert_int_equal(groups.wrote_at, 1);
        assert_int_equal(groups.n_items, 3);
        assert_string_equal(groups.items[0].message,
                            "the agent is of version 1, most others are of 2");
        assert_string_equal(groups.items[1].message, "the agent is not ready: no runtime");
        assert_string_equal(groups.items[2].message, "there is no agent");
        listed = doctor_group_names(&groups.items[2], 5);
        assert_string_equal(listed, "g");
        both = doctor_group_names(&groups.items[0], 2);
        assert_string_equal(both, "b, f");
        cut = doctor_group_names(&groups.items[0], 1);
        assert_string_equal(cut, "b and 1 more");
}

/* A user who may not read all agents does not learn from that which nodes have none. */
TEST(test_agents_that_may_not_be_read) {
        NodeAgent agent = AGENT("a", "2", false, "no runtime");
        NodeAgent *items[] = { &agent };
        Agents some = { .items = items, .n_items = 1 };
        cleanup(json_object_put_p) json_object *nodes = parse("{'b':null,'a':null,'c':null}");
        cleanup(doctor_groups_done) DoctorGroups groups = DOCTOR_GROUPS_INIT;

        (void) error_set(&some.error, ERROR_DENIED, "no right");
        assert_ok(doctor_plan_nodes(nodes, &some, &groups));
        error_done(&some.error);
        assert_int_equal(groups.n_with_agent, 1);
        assert_int_equal(groups.n_items, 1);
        assert_string_equal(groups.items[0].message, "the agent is not ready: no runtime");
}

TEST(test_other_nodes) {
        static const char *const texts[] = {
                "{'metadata':{'name':'w','labels':{'kubernetes.io/os':'windows'}}}",
                "{'metadata':{'name':'v','labels':{'type':'virtual-kubelet'}}}",
        };
        cleanup(json_object_put_p) json_object *nodes = json_object_new_object();

        for (size_t i = 0; i < 2; i++) {
                cleanup(json_object_put_p) json_object *node = parse("%s", texts[i]);

                assert_ok(doctor_nodes_add(nodes, node));
        }

        assert_ok(json_object_object_length(nodes));
}

TEST(test_preloaded_private_images) {
        static const char *const policies[][2] = {
                { "{}", "any pod may run them" }, /* an older kubelet has no policy */
                { "{'imagePullCredentialsVerificationPolicy':'NeverVerify'}",
                  "any pod may run them" },
                { "{'imagePullCredentialsVerificationPolicy':'NeverVerifyPreloadedImages'}",
                  "any pod may run them" },
                { "{'imagePullCredentialsVerificationPolicy':'NeverVerifyAllowlistedImages'}",
                  "any pod may run those of the kubelet's allowlist; for others it needs pull "
                  "credentials of its own (NeverVerifyAllowlistedImages)" },
                { "{'imagePullCredentialsVerificationPolicy':'AlwaysVerify'}",
                  "a pod needs pull credentials of its own (AlwaysVerify)" },
        };
        cleanup(doctor_groups_done) DoctorGroups groups = DOCTOR_GROUPS_INIT;

        for (size_t i = 0; i < 5; i++) {
                cleanup(json_object_put_p) json_object *configz =
                        parse("{'kubeletconfig':%s}", policies[i][0]);

                assert_ok(doctor_plan_preloaded(configz, "a", &groups));
                assert_string_equal(groups.items[groups.n_items - 1].message, policies[i][1]);
        }

        assert_int_equal(groups.n_items, 3);
        assert_int_equal(groups.items[0].n_nodes, 3);
}

static void add_limit(DoctorLimits *limits, const char *policy, const char *bound_to,
                      const char *action) {
        char text[256];

        (void) snprintf(text, sizeof(text), "{'metadata':{'name':'%s'}}", policy);
        cleanup(json_object_put_p) json_object *made = parse("%s", text);
        (void) snprintf(text, sizeof(text),
                        "{'spec':{'policyName':'%s','validationActions':['%s']}}", bound_to,
                        action);
        cleanup(json_object_put_p) json_object *binding = parse("%s", text);

        assert_ok(doctor_limits_add_policy(limits, made));
        doctor_limits_add_binding(limits, binding);
}

TEST(test_limits) {
        DoctorLimits limits = { .policies = json_object_new_object() };
        cleanup(json_object_put_p) json_object *policies = limits.policies;

        assert_string_equal(doctor_limits_missing(&limits), "NodeImages and pods");
        add_limit(&limits, "inplaced-resources", "my-inplaced-resources", "Deny");
        add_limit(&limits, "inplaced-pods", "inplaced-pods", "Audit");
        assert_string_equal(doctor_limits_missing(&limits), "NodeImages and pods");
        add_limit(&limits, "my-inplaced-pods-2", "my-inplaced-pods-2", "Deny");
        assert_string_equal(doctor_limits_missing(&limits), "NodeImages");
        add_limit(&limits, "inplaced-resources", "inplaced-resources", "Deny");
        assert_null(doctor_limits_missing(&limits));
}

static const struct ComponentRow {
        const char *name;
        const char *policy, *action; /* NULL: there is none; it has no binding */
        const char *right;           /* name of a binding of a role */
        DoctorLimit limit;
        const char *message; /* NULL: all is well */
} components[] = {
        { "not installed", NULL, NULL, "inplaced", DOCTOR_LIMIT_NODES, NULL },
        { "bound", "my-inplaced-nodes", "Deny", "my-inplaced-images-ready", DOCTOR_LIMIT_NODES,
          NULL },
        { "missing", NULL, NULL, "inplaced-images-ready", DOCTOR_LIMIT_NODES,
          "the policy \"inplaced-nodes\" is missing, so nothing limits what agents write to Nodes" },
        { "missing for the end of the taint", NULL, NULL, "inplaced-startup-taint",
          DOCTOR_LIMIT_NODES,
          "the policy \"inplaced-nodes\" is missing, so nothing limits what agents write to Nodes" },
        { "of another component", "inplaced-nodes", "Deny", "inplaced-pull-slots",
          DOCTOR_LIMIT_LEASES,
          "the policy \"inplaced-leases\" is missing, so nothing limits what agents write to Leases" },
        { "not bound", "inplaced-leases", NULL, "inplaced-pull-slots", DOCTOR_LIMIT_LEASES,
          "the policy \"inplaced-leases\" has no binding that denies, so nothing limits what agents write to Leases" },
        { "not bound, and the rights are not known", "inplaced-leases", "Audit", "",
          DOCTOR_LIMIT_LEASES,
          "the policy \"inplaced-leases\" has no binding that denies, so nothing limits what agents write to Leases" },
        { "missing for viewers", NULL, NULL, "inplaced-pull-viewers", DOCTOR_LIMIT_PULL_VIEWERS,
          "the policy \"inplaced-pull-viewers\" is missing, so nothing limits what the group inplaced:pull-viewers runs in the "
          "pods of agents" },
        { "no component", NULL, NULL, "inplaced", DOCTOR_LIMIT_PODS, NULL },
};

TEST_ROWS(test_limits_of_components, components, name, const struct ComponentRow *row) {
        DoctorLimits limits = { .policies = json_object_new_object() };
        cleanup(json_object_put_p) json_object *policies = limits.policies;
        cleanup(json_object_put_p) json_object *right =
                parse("{'metadata':{'name':'%s'}}", row->right);
        cleanup(free_p) char *message = NULL;
        cleanup(free_p) char *advice = NULL;

        if (row->policy)
                add_limit(&limits, row->policy, row->action ? row->policy : "other",
                          row->action ?: "Deny");
        doctor_limits_add_right(&limits, right);
        assert_ok(doctor_limits_describe(&limits, row->limit, &message, &advice));
        if (!row->message) {
                assert_null(message);
                return;
        }
        assert_string_equal(message, row->message);
        assert_contains(advice, doctor_limit_component(row->limit));
}

TEST(test_policy_of_declared_updates) {
        cleanup(json_object_put_p) json_object *unbound = json_object_new_object();
        cleanup(json_object_put_p) json_object *hold =
                parse("{'metadata':{'name':'my-inplaced-hold-2'}}");
        cleanup(json_object_put_p) json_object *mirror = parse("{'metadata':{'name':'mirror'}}");
        cleanup(json_object_put_p) json_object *other = parse("{'spec':{'policyName':'mirror'}}");
        cleanup(json_object_put_p) json_object *binding =
                parse("{'spec':{'policyName':'my-inplaced-hold-2'}}");

        assert_ok(doctor_unbound_add_policy(unbound, mirror));
        assert_int_equal(json_object_object_length(unbound), 0);
        assert_ok(doctor_unbound_add_policy(unbound, hold));
        doctor_unbound_add_binding(unbound, other);
        assert_int_equal(json_object_object_length(unbound), 1);
        doctor_unbound_add_binding(unbound, binding);
        assert_int_equal(json_object_object_length(unbound), 0);
}
