/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kubectl inplace doctor
 *
 * What the cluster lacks for the other commands: kinds that are not served, rights that this user does not
 * have, nodes whose agent is missing, silent, of another version, or not ready, policies that limit agents, and
 * updates in place that have not ended.
 */

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/agents.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/doctor-plan.h"
#include "agent/kubectl/open-updates.h"
#include "agent/kubectl/rights.h"
#include "agent/view/format.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"

#define KRUISE "apps.kruise.io"
#define ADMISSION "admissionregistration.k8s.io"
#define ROLE_ADVICE \
        "the ClusterRole inplaced-user has these rights, see docs/OPERATING.md (\"Rights of users\")"
#define NODES_SHOWN 5 /* by name, of those with one problem */
#define KUBELETS_ASKED 20

typedef struct Doctor {
        Session *session;
        const Flags *flags;
        json_object *facts;    /* {"subject", "value"} */
        json_object *problems; /* {"subject", "message", "advice"} */
        json_object *absences; /* the same, of what only agents need */
        json_object *nodes;    /* {name: null} */
        bool wants_agents;     /* the server has a kind of theirs, or there is an agent */
} Doctor;

static void doctor_done(Doctor *doctor) {
        json_object_put(doctor->facts);
        json_object_put(doctor->problems);
        json_object_put(doctor->absences);
        json_object_put(doctor->nodes);
}

static int add_fact(Doctor *doctor, const char *subject, const char *value) {
        json_object *fact = json_object_new_object();

        return patch_append(doctor->facts, fact) < 0 || patch_add_text(fact, "subject", subject) < 0
                       ? -ENOMEM
                       : patch_add_text(fact, "value", value);
}

static int add_problem(json_object *list, const char *subject, const char *message,
                       const char *advice) {
        json_object *problem = json_object_new_object();

        return patch_append(list, problem) < 0 || patch_add_text(problem, "subject", subject) < 0 ||
                               patch_add_text(problem, "message", message) < 0
                       ? -ENOMEM
                       : patch_add_text(problem, "advice", advice);
}

/* Which version is served; NULL: none. */
static int check_kind(Doctor *doctor, const DoctorKind *checked, const char **ret, Error *reterr) {
        const KubeKind *kind = &checked->kind;
        char subject[128];
        int r;

        r = session_find_version(doctor->session, kind, ret, reterr);
        if (r < 0)
                return r;

        (void) snprintf(subject, sizeof(subject), "%s.%s", kind->resource, kind->group);
        if (*ret || checked->is_optional) {
                doctor->wants_agents = doctor->wants_agents || !checked->is_optional;
                return add_fact(doctor, subject, *ret ?: checked->absence);
        }

        return add_problem(doctor->absences, subject, "the API server does not serve this kind",
                           checked->absence);
}

/* OpenKruise's kinds are known to few servers. */
static int is_served(Doctor *doctor, RightsTask task, bool *ret, Error *reterr) {
        const Right *right = rights_own(task);
        const char *version = "";
        int r = 0;

        if (strcmp(right->group, KRUISE) == 0)
                r = session_find_kruise(doctor->session, right->resource, &version, reterr);
        *ret = version;
        return r;
}

/* A user who may not write a kind at all may not want to: this is no problem. */
static int report_rights(Doctor *doctor, RightsTask task, const RightsMissing *missing) {
        const char *subject = rights_task_to_string(task);
        cleanup(free_p) char *text = NULL;

        if (!missing->text[0])
                return add_fact(doctor, subject, "allowed");
        if (text_format(&text, "%sthis user lacks %s", missing->n == 0 ? "allowed in part: " : "",
                        missing->text) < 0)
                return -ENOMEM;

        return missing->has_own && missing->n > 0
                       ? add_problem(doctor->problems, subject, text, ROLE_ADVICE)
                       : add_fact(doctor, subject, text);
}

static int check_rights(Doctor *doctor, Error *reterr) {
        cleanup(rights_done) Rights rights = { .answers = NULL };
        bool has_any = false;
        int r;

        r = rights_init(doctor->session, &rights);
        for (RightsTask task = 0; r >= 0 && task < _RIGHTS_TASK_MAX; task++) {
                cleanup(rights_missing_done) RightsMissing missing = { .text = NULL };
                bool has_kind;

                r = is_served(doctor, task, &has_kind, reterr);
                if (r < 0 || !has_kind)
                        continue;

                r = rights_check(&rights, task, NULL, &missing, reterr);
                if (r >= 0)
                        r = report_rights(doctor, task, &missing);
                has_any = has_any || missing.has_own;
        }
        if (r < 0 || has_any)
                return r;

        return add_problem(doctor->problems, "rights",
                           "this user may use none of the commands above", ROLE_ADVICE);
}

/* Checks the namespace of the agents, where the role of users has no rights. */
static int check_pulls(Doctor *doctor, Error *reterr) {
        static const Right right = {
                .verbs = "create", .group = "", .resource = "pods", .subresource = "exec"
        };
        cleanup(agents_done) Agents agents = AGENTS_INIT;
        cleanup(free_p) char *namespace = NULL;
        cleanup(free_p) char *text = NULL;
        const char *pod = NULL;
        bool is_allowed;
        int r = agents_read_pods(doctor->session, /* namespace= */ NULL, &agents, reterr);

        for (size_t i = 0; r >= 0 && !pod && i < agents.n_items; i++)
                pod = agents.items[i]->pod;
        if (r < 0 || !pod)
                return r < 0 || agents.error.kind == ERROR_NONE
                               ? r
                               : add_fact(doctor, "pulls", error_message(&agents.error));

        namespace = strndup(pod, strcspn(pod, "/"));
        if (!namespace)
                return -ENOMEM;
        r = rights_ask(doctor->session, &right, right.verbs, namespace, /* name= */ NULL,
                       &is_allowed, reterr);
        if (r >= 0 && !is_allowed)
                r = text_format(&text, "this user lacks create pods/exec in namespace %s",
                                namespace);
        return r < 0 ? r : add_fact(doctor, "pulls", text ?: "allowed");
}

static int on_node(json_object *node, void *userdata) {
        const Doctor *doctor = userdata;

        return doctor_nodes_add(doctor->nodes, node);
}

static int name_nodes(const DoctorGroup *group, char **ret) {
        cleanup(free_p) char *names = doctor_group_names(group, NODES_SHOWN);

        return names ? text_format(ret, "%zu node%s (%s)", group->n_nodes,
                                   group->n_nodes == 1 ? "" : "s", names)
                     : -ENOMEM;
}

static int report_group(Doctor *doctor, const DoctorGroup *group) {
        cleanup(free_p) char *subject = NULL;

        if (name_nodes(group, &subject) < 0)
                return -ENOMEM;

        return add_problem(doctor->absences, subject, group->message, group->advice);
}

/* Nothing tells a service of a node from an agent that was removed, unless something is requested of it. */
static int report_traces(Doctor *doctor, const DoctorGroups *groups) {
        cleanup(free_p) char *text = NULL;
        int64_t age_sec = session_server_sec(doctor->session) - groups->wrote_at;

        if (text_format(
                    &text,
                    "%zu, services of their nodes, or removed since; the oldest write was %s ago",
                    groups->n_traces,
                    format_age(age_sec > 0 ? (uint64_t) age_sec : 0, FORMAT_BUFFER)) < 0)
                return -ENOMEM;

        return add_fact(doctor, "agents known by what they wrote", text);
}

static int report_nodes(Doctor *doctor, const Agents *agents) {
        cleanup(doctor_groups_done) DoctorGroups groups = DOCTOR_GROUPS_INIT;
        char value[160], unknown[64] = "";
        int r;

        r = doctor_plan_nodes(doctor->nodes, agents, &groups);
        if (r < 0)
                return r;

        if (groups.n_of_unknown_version > 0)
                (void) snprintf(unknown, sizeof(unknown), ", %zu of unknown version",
                                groups.n_of_unknown_version);
        (void) snprintf(value, sizeof(value), "%d, %zu with an agent%s%s%s",
                        json_object_object_length(doctor->nodes), groups.n_with_agent,
                        groups.version ? ", mostly of version " : "", groups.version ?: "",
                        unknown);
        r = add_fact(doctor, "nodes", value);
        if (r >= 0 && groups.n_traces > 0)
                r = report_traces(doctor, &groups);
        for (size_t i = 0; r >= 0 && i < groups.n_items; i++)
                r = report_group(doctor, &groups.items[i]);
        return r;
}

static int on_policy(json_object *policy, void *userdata) {
        return doctor_limits_add_policy(userdata, policy);
}

static int on_binding(json_object *binding, void *userdata) {
        doctor_limits_add_binding(userdata, binding);
        return 0;
}

static int list_limits(Session *session, const char *version, DoctorLimits *limits, Error *reterr) {
        KubePath path = { .group = ADMISSION,
                          .version = version,
                          .resource = "validatingadmissionpolicies" };
        int r = session_list_metadata(session, &path, on_policy, limits, reterr);

        path.resource = "validatingadmissionpolicybindings";
        return r < 0 ? r : session_list(session, &path, on_binding, limits, reterr);
}

static int on_right(json_object *binding, void *userdata) {
        doctor_limits_add_right(userdata, binding);
        return 0;
}

/* Rights of components, each of which needs a policy. Few users may list them. */
static int list_rights(Session *session, DoctorLimits *limits, Error *reterr) {
        static const char *const resources[] = { "clusterrolebindings", "rolebindings" };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < sizeof(resources) / sizeof(resources[0]); i++) {
                const KubePath path = { .group = "rbac.authorization.k8s.io",
                                        .version = "v1",
                                        .resource = resources[i],
                                        .labels = "app.kubernetes.io/part-of=inplaced" };
                cleanup(error_done) Error error = ERROR_INIT;

                r = session_list_metadata(session, &path, on_right, limits, &error);
                if (error.kind == ERROR_DENIED || error.kind == ERROR_NOT_FOUND)
                        r = 0;
                else if (error.kind != ERROR_NONE)
                        return error_copy(reterr, &error);
        }
        return r;
}

static int report_components(Doctor *doctor, const DoctorLimits *limits) {
        for (DoctorLimit limit = 0; limit < _DOCTOR_LIMIT_MAX; limit++) {
                cleanup(free_p) char *subject = NULL;
                cleanup(free_p) char *message = NULL;
                cleanup(free_p) char *advice = NULL;
                int r = doctor_limits_describe(limits, limit, &message, &advice);

                if (r >= 0 && message)
                        r = text_format(&subject, "component %s", doctor_limit_component(limit));
                if (r >= 0 && message)
                        r = add_problem(doctor->problems, subject, message, advice);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int check_limits(Doctor *doctor, Error *reterr) {
        static const char *const versions[] = { "v1", NULL };
        static const KubeKind kind = { .group = ADMISSION,
                                       .versions = versions,
                                       .resource = "validatingadmissionpolicies" };
        static const char subject[] = "limits of agents to their nodes";
        DoctorLimits limits = { .policies = json_object_new_object() };
        cleanup(json_object_put_p) json_object *policies = limits.policies;
        cleanup(free_p) char *text = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        const char *version, *missing;
        int r;

        r = session_find_version(doctor->session, &kind, &version, reterr);
        if (r < 0)
                return r;
        if (!version)
                return add_fact(doctor, subject, "none, before Kubernetes 1.30");

        r = list_limits(doctor->session, version, &limits, &error);
        if (error.kind == ERROR_DENIED)
                return add_fact(doctor, subject, error_message(&error));
        if (r < 0)
                return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
        r = list_rights(doctor->session, &limits, reterr);
        if (r >= 0)
                r = report_components(doctor, &limits);
        if (r < 0)
                return r;

        missing = doctor_limits_missing(&limits);
        if (!missing)
                return add_fact(doctor, subject, "by admission policies");
        if (text_format(&text, "no admission policy limits what agents write to %s", missing) < 0)
                return -ENOMEM;

        return add_problem(
                doctor->problems, subject, text,
                "apply packaging/kubernetes/policy, see docs/OPERATING.md (\"InplacedNotLimited\")");
}

/* Few users may ask kubelets. One that does not answer may take a while, so it is the last one asked. */
static int ask_kubelets(Doctor *doctor, const Agents *agents, DoctorGroups *groups, Error *reterr) {
        KubePath path = {
                .version = "v1", .resource = "nodes", .subresource = "proxy", .proxied = "configz"
        };
        int n = 0, r = 0;

        json_object_object_foreach(doctor->nodes, name, none) {
                cleanup(json_object_put_p) json_object *configz = NULL;
                const NodeAgent *agent = agents_find(agents, name);

                (void) none;
                if (!agent || agent->is_silent || (agent->has_pod && !agent->is_ready))
                        continue;
                if (r < 0 || n++ >= KUBELETS_ASKED)
                        break;
                path.name = name;
                r = session_get(doctor->session, &path, &configz, reterr);
                if (r >= 0)
                        r = doctor_plan_preloaded(configz, name, groups);
        }

        return r;
}

static int check_preloaded(Doctor *doctor, const Agents *agents) {
        static const char subject[] = "preloaded private images";
        cleanup(doctor_groups_done) DoctorGroups groups = DOCTOR_GROUPS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r = ask_kubelets(doctor, agents, &groups, &error);

        if (r < 0 && error.kind == ERROR_NONE)
                return r;

        r = error.kind == ERROR_NONE ? 0 : add_fact(doctor, subject, error_message(&error));
        for (size_t i = 0; r >= 0 && i < groups.n_items; i++) {
                cleanup(free_p) char *nodes = NULL;
                cleanup(free_p) char *value = NULL;

                if (name_nodes(&groups.items[i], &nodes) < 0 ||
                    text_format(&value, "%s: %s", groups.items[i].message, nodes) < 0)
                        return -ENOMEM;
                r = add_fact(doctor, subject, value);
        }
        return r;
}

static int check_nodes(Doctor *doctor, const char *node_image_version, Error *reterr) {
        static const KubePath path = { .version = "v1", .resource = "nodes" };
        cleanup(agents_done) Agents agents = AGENTS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = session_list_metadata(doctor->session, &path, on_node, doctor, &error);
        if (error.kind == ERROR_DENIED)
                return add_fact(doctor, "nodes", error_message(&error));
        if (error.kind != ERROR_NONE)
                return error_copy(reterr, &error);
        if (r < 0)
                return r;

        r = agents_read(doctor->session, node_image_version, /* must_answer= */ true, &agents,
                        reterr);
        if (r < 0)
                return r;
        if (agents.error.kind != ERROR_NONE) {
                r = add_fact(doctor, "agents", error_message(&agents.error));
                if (r < 0)
                        return r;
        }

        doctor->wants_agents = doctor->wants_agents || agents.n_items > 0;
        r = report_nodes(doctor, &agents);
        if (r >= 0 && agents.n_items > 0)
                r = check_limits(doctor, reterr);
        return r < 0 ? r : check_preloaded(doctor, &agents);
}

/* The plugin alone is a supported way. */
static int report_absences(Doctor *doctor) {
        if (!doctor->wants_agents)
                return add_fact(doctor, "agents",
                                "none, nor their kinds: updates, restarts and status work without; "
                                "to preload images and to verify what runs, see docs/INSTALL.md");

        for (size_t i = 0; i < json_object_array_length(doctor->absences); i++) {
                json_object *absence = json_object_array_get_idx(doctor->absences, i);

                if (patch_append(doctor->problems, json_object_get(absence)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int on_hold(json_object *policy, void *userdata) {
        return doctor_unbound_add_policy(userdata, policy);
}

static int on_hold_binding(json_object *binding, void *userdata) {
        doctor_unbound_add_binding(userdata, binding);
        return 0;
}

/* Few clusters have the policy, and few users may read it. */
static int check_hold(Doctor *doctor, Error *reterr) {
        KubePath path = { .group = ADMISSION,
                          .version = "v1",
                          .resource = "mutatingadmissionpolicies" };
        cleanup(json_object_put_p) json_object *unbound = json_object_new_object();
        cleanup(error_done) Error error = ERROR_INIT;
        int r = unbound ? session_list_metadata(doctor->session, &path, on_hold, unbound, &error)
                        : -ENOMEM;

        path.resource = "mutatingadmissionpolicybindings";
        if (r >= 0 && json_object_object_length(unbound) > 0)
                r = session_list(doctor->session, &path, on_hold_binding, unbound, &error);
        if (error.kind == ERROR_DENIED || error.kind == ERROR_NOT_FOUND)
                return 0;
        if (r < 0)
                return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
        if (json_object_object_length(unbound) == 0)
                return 0;
        return add_problem(doctor->problems, "declared updates",
                           "their policy has no binding, so Kubernetes replaces the pods",
                           "kubectl inplace controller makes it: does it run?");
}

static int report_updates(Doctor *doctor, Error *reterr) {
        cleanup(json_object_put_p) json_object *updates = json_object_new_array();
        int r = updates ? open_updates_of_namespace(doctor->session,
                                                    session_namespace(doctor->session),
                                                    /* labels= */ NULL, updates, reterr)
                        : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(updates); i++) {
                json_object *update = json_object_array_get_idx(updates, i);
                cleanup(free_p) char *subject = NULL;

                if (text_format(&subject, "%s/%s", json_get_text(update, "kind"),
                                json_get_text(update, "name")) < 0)
                        return -ENOMEM;
                r = add_problem(doctor->problems, subject, json_get_text(update, "text"),
                                open_update_can_go_on(update)
                                        ? "go on or back with kubectl inplace rollout, or hand it "
                                          "back with --release"
                                        : "until then kubectl inplace cannot update it");
        }
        return r;
}

static int examine(Doctor *doctor, Error *reterr) {
        const char *version, *node_image_version = NULL;
        int r;

        r = add_fact(doctor, "API server", session_target(doctor->session));
        if (r < 0)
                return r;

        for (size_t i = 0; i < n_doctor_kinds; i++) {
                r = check_kind(doctor, &doctor_kinds[i], &version, reterr);
                if (r < 0)
                        return r;
                if (strcmp(doctor_kinds[i].kind.resource, "nodeimages") == 0)
                        node_image_version = version;
        }

        r = add_fact(doctor, "user", session_user(doctor->session));
        if (r < 0)
                return r;
        r = check_rights(doctor, reterr);
        if (r >= 0)
                r = check_pulls(doctor, reterr);
        if (r >= 0)
                r = check_nodes(doctor, node_image_version, reterr);
        if (r >= 0)
                r = report_absences(doctor);
        if (r >= 0)
                r = check_hold(doctor, reterr);
        return r < 0 ? r : report_updates(doctor, reterr);
}

static int print_texts(const Doctor *doctor) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(doctor->facts); i++) {
                json_object *fact = json_object_array_get_idx(doctor->facts, i);

                r = print_safe("%-44s %s", json_get_text(fact, "subject"),
                               json_get_text(fact, "value"));
        }
        for (size_t i = 0; r >= 0 && i < json_object_array_length(doctor->problems); i++) {
                json_object *problem = json_object_array_get_idx(doctor->problems, i);

                r = print_safe("problem: %s: %s; %s", json_get_text(problem, "subject"),
                               json_get_text(problem, "message"), json_get_text(problem, "advice"));
        }

        return r;
}

static int print_document(const Doctor *doctor) {
        cleanup(json_object_put_p) json_object *tree = json_object_new_object();

        if (patch_add(tree, "facts", json_object_get(doctor->facts)) < 0 ||
            patch_add(tree, "problems", json_object_get(doctor->problems)) < 0)
                return -ENOMEM;

        return output_tree(doctor->flags->format, tree);
}

int kubectl_doctor(Session *session, const Flags *flags) {
        cleanup(doctor_done) Doctor doctor = { .session = session,
                                               .flags = flags,
                                               .nodes = json_object_new_object(),
                                               .facts = json_object_new_array(),
                                               .problems = json_object_new_array(),
                                               .absences = json_object_new_array() };
        cleanup(error_done) Error error = ERROR_INIT;
        size_t n_problems;
        int r;

        if (!doctor.nodes || !doctor.facts || !doctor.problems || !doctor.absences)
                return -ENOMEM;

        r = examine(&doctor, &error);
        if (r < 0)
                return session_fail(session, r, &error);

        r = output_is_document(flags->format) ? print_document(&doctor) : print_texts(&doctor);
        if (r < 0)
                return r;

        n_problems = json_object_array_length(doctor.problems);
        if (n_problems > 0)
                complain("%zu problem%s found", n_problems, n_problems == 1 ? " was" : "s were");
        return n_problems > 0 ? EXIT_STATUS_PARTLY : EXIT_STATUS_DONE;
}
