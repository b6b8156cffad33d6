/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pods from their bytes, and what can be asked of a pod
 */

#include "agent/document/json-cleanup.h"
#include "agent/pod/env-hash.h"
#include "agent/pod/gate-spec.h"
#include "agent/pod/pod-spec.h"
#include "tests/unit/container-vectors.h"
#include "tests/unit/pod-message.h"
#include "tests/unit/unit.h"

DEFINE_CLEANUP(Pod *, pod_free)

static PodMessage message;

static void begin(void) {
        pod_message_init(&message, "ns", "web", "u1", "42");
}

static int parse_message(Pod **ret, Error *reterr) {
        size_t size = protobuf_c_message_get_packed_size(&message.pod.base);
        cleanup(free_p) uint8_t *bytes = malloc(size + 1);

        protobuf_c_message_pack(&message.pod.base, bytes);
        return pod_spec_parse(bytes, size, ret, reterr);
}

static Pod *parse(void) {
        cleanup(error_done) Error error = ERROR_INIT;
        Pod *pod = NULL;

        if (parse_message(&pod, &error) < 0)
                fail_msg("%s", error_message(&error));
        return pod;
}

static void assert_refused(const char *expected) {
        cleanup(error_done) Error error = ERROR_INIT;
        Pod *pod = NULL;

        assert_true(parse_message(&pod, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        assert_string_equal(error_message(&error), expected);
        assert_null(pod);
}

typedef void (*AddEntry)(PodMessage *to, const char *key, const char *value);

static void add_entries(json_object *entries, AddEntry add) {
        if (!entries)
                return;

        json_object_object_foreach(entries, key, value) {
                add(&message, key, json_object_get_string(value));
        }
}

static void add_vector(json_object *vector) {
        json_object *metadata = vector_get(vector, "podMetadata");
        json_object *container = vector_get(vector, "container");
        ContainerMessage *to;

        begin();
        add_entries(vector_get(metadata, "labels"), pod_message_add_label);
        add_entries(vector_get(metadata, "annotations"), pod_message_add_annotation);
        to = pod_message_add_container(&message, false, vector_text(container, "name"),
                                       vector_text(container, "image"));
        for (size_t i = 0; i < vector_n_env(vector); i++) {
                json_object *env = vector_env(vector, i);
                const char *path = vector_field(env);

                container_message_add_env(to, vector_text(env, "name"), vector_text(env, "value"),
                                          vector_get(env, "valueFrom") ? (path ?: "") : NULL);
        }
}

/* The names in the text that was hashed are the container's, but for their order. */
static void check_names(json_object *vector, const PodContainer *container) {
        cleanup(json_object_put_p) json_object *canonical =
                json_tokener_parse(vector_text(vector, "canonicalEnvJSON"));
        size_t n = canonical ? json_object_array_length(canonical) : 0, n_names = 0;

        for (char **name = container->env_names; *name; name++) {
                size_t i = 0;

                while (i < n && strcmp(vector_text(json_object_array_get_idx(canonical, i), "name"),
                                       *name) != 0)
                        i++;
                assert_true(i < n);
                n_names++;
        }

        assert_int_equal(n_names, n);
}

TEST(test_vectors) {
        cleanup(json_object_put_p) json_object *vectors = vectors_read();

        for (size_t i = 0; i < json_object_array_length(vectors); i++) {
                json_object *vector = json_object_array_get_idx(vectors, i);
                cleanup(pod_free_p) Pod *pod = NULL;
                const PodContainer *container;

                add_vector(vector);
                pod = parse();
                assert_int_equal(pod->n_containers, 1);
                container = &pod->containers[0];
                if (container->env_hash != vector_hash(vector, "expectedEnvHash"))
                        fail_msg("%s: %u", vector_text(vector, "id"), container->env_hash);
                assert_int_equal(container->plain_hash,
                                 vector_hash(vector, "plainHashKubelet131plus"));
                check_names(vector, container);
        }
}

TEST(test_env_names) {
        cleanup(pod_free_p) Pod *pod = NULL;
        ContainerMessage *container;

        begin();
        container = pod_message_add_container(&message, false, "app", "i");
        container_message_add_env(container, "Z", "", "metadata.labels['z']");
        container_message_add_env(container, "NAME", "", "metadata.name");
        container_message_add_env(container, "A", NULL, "metadata.annotations['a']");
        container_message_add_env(container, "SIDECARSET_VERSION", "", "metadata.labels['z']");
        container_message_add_env(container, "Z", "", "metadata.labels['y']");
        container_message_add_env(container, NULL, NULL, "metadata.labels['z']");
        pod = parse();

        assert_string_equal(pod->containers[0].env_names[0], "Z");
        assert_string_equal(pod->containers[0].env_names[1], "A");
        assert_string_equal(pod->containers[0].env_names[2], "Z");
        assert_string_equal(pod->containers[0].env_names[3], "");
        assert_null(pod->containers[0].env_names[4]);
}

/* The first container has these variables. */
static void check_environment(const EnvValue *values, size_t n_values) {
        cleanup(pod_free_p) Pod *pod = parse();
        uint32_t hash;

        assert_ok(env_hash(values, n_values, &hash));
        assert_int_equal(pod->containers[0].env_hash, hash);
}

/* Labels may come in any order. */
TEST(test_unsorted_metadata) {
        const EnvValue values[] = { { "A", "1" }, { "B", "2" }, { "C", "3" }, { "D", "" } };
        ContainerMessage *container;

        begin();
        pod_message_add_label(&message, "b", "2");
        pod_message_add_label(&message, "ab", "3");
        pod_message_add_label(&message, "a", "1");
        pod_message_add_label(&message, NULL, NULL);
        container = pod_message_add_container(&message, false, "app", "i");
        container_message_add_env(container, "A", "", "metadata.labels['a']");
        container_message_add_env(container, "B", "", "metadata.labels['b']");
        container_message_add_env(container, "C", "", "metadata.labels['ab']");
        container_message_add_env(container, "D", "", "metadata.labels['abc']");
        check_environment(values, N_ELEMENTS(values));
}

TEST(test_two_unsorted_labels) {
        const EnvValue values[] = { { "A", "1" }, { "B", "2" } };
        ContainerMessage *container;

        begin();
        pod_message_add_label(&message, "b", "2");
        pod_message_add_label(&message, "a", "1");
        container = pod_message_add_container(&message, false, "app", "i");
        container_message_add_env(container, "A", "", "metadata.labels['a']");
        container_message_add_env(container, "B", "", "metadata.labels['b']");
        check_environment(values, N_ELEMENTS(values));
}

TEST(test_too_much_environment) {
        enum { N_ENV = 30000, SIZE = 250 << 10 };
        cleanup(pod_free_p) Pod *pod = NULL;
        cleanup(free_p) char *value = calloc(SIZE + 1, 1);
        cleanup(free_p) Kubernetes__V1__EnvVar **env = calloc(N_ENV, sizeof(*env));
        const EnvValue small[] = { { "A", "1" } };
        ContainerMessage *container;
        uint32_t hash;

        memset(value, 'v', SIZE);
        begin();
        pod_message_add_label(&message, "a", "1");
        pod_message_add_annotation(&message, "a", value);
        container = pod_message_add_container(&message, false, "before", "i");
        container_message_add_env(container, "A", "", "metadata.labels['a']");
        container = pod_message_add_container(&message, false, "large", "i");
        container_message_add_env(container, "A", "", "metadata.annotations['a']");
        for (size_t i = 0; i < N_ENV; i++)
                env[i] = &container->env[0];
        container->container.env = env;
        container->container.n_env = N_ENV;
        container = pod_message_add_container(&message, true, "after", "i");
        container_message_add_env(container, "A", "", "metadata.labels['b']");
        container_message_add_env(container, "B", "", "metadata.labels['a']");
        pod = parse();

        assert_ok(env_hash(small, 1, &hash));
        assert_int_equal(pod->containers[0].env_hash, hash);
        for (size_t i = 1; i < 3; i++) {
                assert_int_equal(pod->containers[i].env_hash, ENV_HASH_NONE);
                assert_null(pod->containers[i].env_names[0]);
        }
}

TEST(test_little) {
        cleanup(pod_free_p) Pod *pod = NULL;

        begin();
        message.pod.status = NULL;
        pod_message_add_container(&message, false, "app", NULL);
        pod = parse();
        assert_string_equal(pod->namespace, "ns");
        assert_string_equal(pod->name, "web");
        assert_string_equal(pod->uid, "u1");
        assert_string_equal(pod->runtime_uid, "u1");
        assert_string_equal(pod->resource_version, "42");
        assert_string_equal(pod->ip, "");
        assert_int_equal(pod->grace_sec, 30);
        assert_false(pod->is_deleted || pod->is_finished || pod->is_kruise || pod->has_kruise_gate);
        assert_int_equal(pod->update, POD_UPDATE_NONE);
        assert_null(pod->restart_on_metadata);
        assert_null(pod->meta);
        assert_null(pod->verified_status);
        assert_int_equal(pod->n_containers, 1);
        assert_string_equal(pod->containers[0].image, "");
        assert_string_equal(pod->containers[0].restart_policy, "Always");
        assert_true(pod->containers[0].comes_back);
        assert_int_equal(pod->containers[0].status_index, -1);
        assert_string_equal(pod->containers[0].container_id, "");
        assert_null(pod->containers[0].env_names[0]);
        assert_int_equal(pod->containers[0].env_hash, ENV_HASH_NONE);
}

TEST(test_containers) {
        cleanup(pod_free_p) Pod *pod = NULL;
        Kubernetes__V1__ContainerStateTerminated former =
                KUBERNETES__V1__CONTAINER_STATE_TERMINATED__INIT;
        Kubernetes__V1__ContainerState last = KUBERNETES__V1__CONTAINER_STATE__INIT;
        KubeContainerStatus *status;

        begin();
        pod_message_add_container(&message, true, "setup", "i0");
        pod_message_add_container(&message, true, "side", "i1")->container.restartpolicy =
                (char *) "Always";
        pod_message_add_container(&message, false, "web", "i2");
        pod_message_add_container(&message, false, "app", "i3");
        pod_message_add_status(&message, true, "setup", "x://0", 0);
        pod_message_add_status(&message, true, "side", "x://1", 7);
        pod_message_add_status(&message, false, "app", "x://3", 9);
        status = pod_message_add_status(&message, false, "web", "x://2", 8);
        status->ready = status->has_ready = status->has_restartcount = true;
        status->restartcount = 5;
        status->laststate = &last;
        last.terminated = &former;
        former.containerid = (char *) "x://1";
        pod_message_add_status(&message, false, "setup", "x://wrong", 1);
        pod_message_add_status(&message, true, "web", "x://wrong", 1);
        pod_message_add_status(&message, false, NULL, "x://wrong", 1);
        pod = parse();

        assert_int_equal(pod->n_containers, 4);
        assert_string_equal(pod->containers[0].name, "web");
        assert_int_equal(pod->containers[0].kind, POD_CONTAINER_MAIN);
        assert_int_equal(pod->containers[0].status_index, 1);
        assert_string_equal(pod->containers[0].container_id, "x://2");
        assert_string_equal(pod->containers[0].former_id, "x://1");
        assert_int_equal(pod->containers[0].restart_count, 5);
        assert_true(pod->containers[0].is_ready);
        assert_true(pod->containers[0].is_running);
        assert_int_equal(pod->containers[0].started_at_sec, 8);
        assert_int_equal(pod_find(pod, "app")->status_index, 0);
        assert_false(pod_find(pod, "app")->is_ready);
        assert_int_equal(pod->containers[2].kind, POD_CONTAINER_INIT);
        assert_false(pod->containers[2].is_running);
        assert_int_equal(pod->containers[2].started_at_sec, 0);
        assert_string_equal(pod->containers[2].container_id, "x://0");
        assert_string_equal(pod->containers[2].former_id, "");
        assert_int_equal(pod->containers[3].kind, POD_CONTAINER_SIDECAR);
        assert_int_equal(pod->containers[3].status_index, 1);
        assert_null(pod_find(pod, "none"));
}

/* The last status of a name counts, and goes to the first container. */
/* The last of several variables of one name wins. */
TEST(test_overridden) {
        static const struct {
                const char *names[3];
                const char *paths[3]; /* NULL: a plain value */
                bool is_overridden;
        } cases[] = {
                { { "A", "B", "C" },
                  { "metadata.labels['a']", "metadata.labels['b']", NULL },
                  false },
                { { "A", "B", "A" },
                  { "metadata.labels['a']", "metadata.labels['b']", NULL },
                  true },
                { { "A", "B", "A" },
                  { NULL, "metadata.labels['b']", "metadata.labels['a']" },
                  false },
                { { "A", "A", "C" },
                  { "metadata.labels['a']", "metadata.labels['b']", NULL },
                  true },
                { { "B", "A", "A" }, { "metadata.labels['a']", NULL, NULL }, false },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                cleanup(pod_free_p) Pod *pod = NULL;
                ContainerMessage *container;

                begin();
                container = pod_message_add_container(&message, false, "app", "i");
                for (size_t k = 0; k < 3; k++)
                        container_message_add_env(container, cases[i].names[k],
                                                  cases[i].paths[k] ? "" : "plain",
                                                  cases[i].paths[k]);
                pod = parse();
                assert_int_equal(pod->containers[0].is_env_overridden, cases[i].is_overridden);
        }
}

/* A variable that is made from the annotation that the agent writes. */
TEST(test_own_annotation) {
        static const struct {
                const char *paths[2];
                bool is_own;
        } cases[] = {
                { { "metadata.annotations['" POD_META_ANNOTATION "']" }, true },
                { { "metadata.labels['a']", "metadata.annotations['" POD_META_ANNOTATION "']" },
                  true },
                { { "metadata.annotations['" POD_META_ANNOTATION "']", "metadata.labels['a']" },
                  true },
                { { "metadata.labels['" POD_META_ANNOTATION "']", "metadata.labels['a']" }, false },
                { { "metadata.annotations['" POD_META_ANNOTATION "x']", "metadata.name" }, false },
                { { "metadata.annotations['apps.kruise.io/runtime-containers-met']" }, false },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                cleanup(pod_free_p) Pod *pod = NULL;
                ContainerMessage *container;

                begin();
                container = pod_message_add_container(&message, false, "app", "i");
                for (size_t k = 0; k < 2; k++)
                        container_message_add_env(container, k == 0 ? "A" : "B", "",
                                                  cases[i].paths[k]);
                (void) pod_message_add_container(&message, false, "other", "i");
                pod = parse();
                assert_int_equal(pod->containers[0].is_env_own, cases[i].is_own);
                assert_false(pod->containers[1].is_env_own);
        }
}

TEST(test_same_names) {
        cleanup(pod_free_p) Pod *pod = NULL;

        begin();
        pod_message_add_container(&message, false, "app", "i");
        pod_message_add_container(&message, false, "app", "j");
        pod_message_add_status(&message, false, "app", "x://0", 1);
        pod_message_add_status(&message, false, "app", "x://1", 0);
        pod = parse();
        assert_string_equal(pod->containers[0].container_id, "x://1");
        assert_int_equal(pod->containers[0].status_index, 1);
        assert_false(pod->containers[0].is_running);
        assert_int_equal(pod->containers[1].status_index, -1);
}

static const struct {
        const char *pod, *container, *rule;
        bool is_init;
        const char *policy;
        bool comes_back;
        PodContainerKind kind;
        bool rules_decide;
} restarts[] = {
        { NULL, NULL, NULL, false, "Always", true, POD_CONTAINER_MAIN, false },
        { "", "", NULL, false, "Always", true, POD_CONTAINER_MAIN, false },
        { "Always", NULL, NULL, false, "Always", true, POD_CONTAINER_MAIN, false },
        { "OnFailure", NULL, NULL, false, "OnFailure", false, POD_CONTAINER_MAIN, false },
        { "Never", NULL, NULL, false, "Never", false, POD_CONTAINER_MAIN, false },
        { "Never", "Always", NULL, false, "Always", true, POD_CONTAINER_MAIN, false },
        { "Always", "Never", NULL, false, "Never", false, POD_CONTAINER_MAIN, false },
        { "Always", NULL, "Restart", false, "Always", true, POD_CONTAINER_MAIN, false },
        { "Always", NULL, "RestartAllContainers", false, "Always", false, POD_CONTAINER_MAIN,
          true },
        { "Never", NULL, "Restart", false, "Never", false, POD_CONTAINER_MAIN, true },
        { "Always", NULL, NULL, true, "Always", false, POD_CONTAINER_INIT, false },
        { "Never", "Always", NULL, true, "Always", true, POD_CONTAINER_SIDECAR, false },
        { "Always", "OnFailure", NULL, true, "OnFailure", false, POD_CONTAINER_INIT, false },
};

TEST(test_restarts) {
        for (size_t i = 0; i < N_ELEMENTS(restarts); i++) {
                cleanup(pod_free_p) Pod *pod = NULL;
                ContainerMessage *container;

                begin();
                message.spec.restartpolicy = (char *) restarts[i].pod;
                container = pod_message_add_container(&message, restarts[i].is_init, "app", "i");
                container->container.restartpolicy = (char *) restarts[i].container;
                if (restarts[i].rule)
                        container_message_add_rule(container, restarts[i].rule);
                pod = parse();
                assert_string_equal(pod->containers[0].restart_policy, restarts[i].policy);
                assert_int_equal(pod->containers[0].comes_back, restarts[i].comes_back);
                assert_int_equal(pod->containers[0].rules_decide, restarts[i].rules_decide);
                assert_int_equal(pod->containers[0].kind, restarts[i].kind);
        }
}

static const struct Ended {
        const char *name, *policy, *rule;
        int32_t exit_code;
        bool stays_ended;
} endings[] = {
        { "always", "Always", NULL, 0, false },
        { "never", "Never", NULL, 1, true },
        { "never, but a rule may start it", "Never", "Restart", 0, false },
        { "on failure, and it has succeeded", "OnFailure", NULL, 0, true },
        { "on failure, and it has failed", "OnFailure", NULL, 1, false },
        { "a policy of a newer kubelet", "Sometimes", NULL, 0, false },
};

TEST_ROWS(test_stays_ended, endings, name, const struct Ended *row) {
        Kubernetes__V1__ContainerStateTerminated ended =
                KUBERNETES__V1__CONTAINER_STATE_TERMINATED__INIT;
        cleanup(pod_free_p) Pod *running = NULL, *pod = NULL;
        ContainerMessage *container;
        KubeContainerStatus *status;

        begin();
        message.spec.restartpolicy = (char *) row->policy;
        container = pod_message_add_container(&message, false, "app", "i");
        if (row->rule)
                container_message_add_rule(container, row->rule);
        status = pod_message_add_status(&message, false, "app", "x://1", 1);
        running = parse();
        assert_false(running->containers[0].stays_ended);

        status->state->running = NULL;
        status->state->terminated = &ended;
        ended.has_exitcode = true;
        ended.exitcode = row->exit_code;
        pod = parse();
        assert_int_equal(pod->containers[0].stays_ended, row->stays_ended);
}

TEST(test_second_rule) {
        cleanup(pod_free_p) Pod *pod = NULL;
        ContainerMessage *container;

        begin();
        container = pod_message_add_container(&message, false, "app", "i");
        container_message_add_rule(container, "Restart");
        container_message_add_rule(container, "RestartAllContainers");
        pod = parse();
        assert_true(pod->containers[0].rules_decide);
}

TEST(test_grace) {
        static const int64_t graces[][2] = {
                { 0, 0 }, { 5, 5 }, { -1, 1 }, { INT64_MIN, 1 }, { INT64_MAX, INT32_MAX },
        };

        for (size_t i = 0; i < N_ELEMENTS(graces); i++) {
                cleanup(pod_free_p) Pod *pod = NULL;

                begin();
                message.spec.has_terminationgraceperiodseconds = true;
                message.spec.terminationgraceperiodseconds = graces[i][0];
                pod = parse();
                assert_int_equal(pod->grace_sec, graces[i][1]);
        }
}

TEST(test_metadata) {
        cleanup(pod_free_p) Pod *pod = NULL;
        Kubernetes__V1__Time time = KUBERNETES__V1__TIME__INIT;

        begin();
        message.meta.deletiontimestamp = &time;
        pod_message_add_annotation(&message, POD_RESTART_ANNOTATION, "app,web");
        pod_message_add_annotation(&message, POD_META_ANNOTATION, "{}");
        pod_message_add_annotation(&message, "kruise.io/sidecarset-hash", "");
        pod = parse();
        assert_string_equal(pod->uid, "u1");
        assert_string_equal(pod->runtime_uid, "u1");
        assert_string_equal(pod->restart_on_metadata, "app,web");
        assert_string_equal(pod->meta, "{}");
        assert_true(pod->is_deleted);
        assert_true(pod->is_kruise);
}

/* Only a pod of a file or URL, which the kubelet has made, has another name in the runtime: every
 * author of pods can write the annotation alone. */
static const struct {
        const char *mirror, *source, *owner, *version, *uid;
} mirrors[] = {
        { "static-uid", "file", "Node", "v1", "static-uid" },
        { "static-uid", "http", "Node", "v1", "static-uid" },
        { "static-uid", "file", NULL, NULL, "u1" },
        { "static-uid", "file", "ReplicaSet", "v1", "u1" },
        { "static-uid", "file", "Node", "example.org/v1", "u1" },
        { "static-uid", "api", "Node", "v1", "u1" },
        { "static-uid", NULL, "Node", "v1", "u1" },
        { "", "file", "Node", "v1", "u1" },
        { NULL, "file", "Node", "v1", "u1" },
};

TEST(test_mirrors) {
        for (size_t i = 0; i < N_ELEMENTS(mirrors); i++) {
                cleanup(pod_free_p) Pod *pod = NULL;
                Kubernetes__V1__OwnerReference owner = KUBERNETES__V1__OWNER_REFERENCE__INIT;
                Kubernetes__V1__OwnerReference *list[] = { &owner };

                begin();
                owner.kind = (char *) mirrors[i].owner;
                owner.apiversion = (char *) mirrors[i].version;
                message.meta.ownerreferences = list;
                message.meta.n_ownerreferences = mirrors[i].owner ? 1 : 0;
                if (mirrors[i].mirror)
                        pod_message_add_annotation(&message, "kubernetes.io/config.mirror",
                                                   mirrors[i].mirror);
                if (mirrors[i].source)
                        pod_message_add_annotation(&message, "kubernetes.io/config.source",
                                                   mirrors[i].source);
                pod = parse();
                assert_string_equal(pod->uid, "u1");
                assert_string_equal(pod->runtime_uid, mirrors[i].uid);
        }
}

/* An annotation that asks for nothing is like no annotation. */
TEST(test_no_desired) {
        static const struct {
                const char *note, *desired;
        } cases[] = {
                { "false", NULL },  { "", NULL },           { " ,\n", NULL },
                { "true", "true" }, { "falsey", "falsey" }, { "false,app", "false,app" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                cleanup(pod_free_p) Pod *pod = NULL;

                begin();
                pod_message_add_annotation(&message, POD_RESTART_ANNOTATION, cases[i].note);
                pod = parse();
                if (cases[i].desired)
                        assert_string_equal(pod->restart_on_metadata, cases[i].desired);
                else
                        assert_null(pod->restart_on_metadata);
        }
}

static const struct {
        const char *version;
        bool is_controller;
        bool is_kruise;
} owners[] = {
        { "apps.kruise.io/v1alpha1", true, true },  { "apps.kruise.io/v1beta1", true, true },
        { "apps.kruise.io/v1beta1", false, false }, { "apps/v1", true, false },
        { "apps.kruise.iox/v1", true, false },      { NULL, true, false },
};

TEST(test_owners) {
        for (size_t i = 0; i < N_ELEMENTS(owners); i++) {
                cleanup(pod_free_p) Pod *pod = NULL;
                Kubernetes__V1__OwnerReference owner = KUBERNETES__V1__OWNER_REFERENCE__INIT;
                Kubernetes__V1__OwnerReference *list[] = { &owner };

                begin();
                owner.apiversion = (char *) owners[i].version;
                owner.has_controller = true;
                owner.controller = owners[i].is_controller;
                message.meta.ownerreferences = list;
                message.meta.n_ownerreferences = 1;
                pod = parse();
                assert_int_equal(pod->is_kruise, owners[i].is_kruise);
        }
}

TEST(test_conditions) {
        static const struct {
                const char *status;
                PodUpdate update;
        } updates[] = { { "False", POD_UPDATE_RUNNING },
                        { "True", POD_UPDATE_READY },
                        { "Unknown", POD_UPDATE_READY },
                        { NULL, POD_UPDATE_READY } };

        for (size_t i = 0; i < N_ELEMENTS(updates); i++) {
                cleanup(pod_free_p) Pod *pod = NULL;
                Kubernetes__V1__PodCondition *verified;

                begin();
                message.status.phase = (char *) "Running";
                (void) pod_message_add_condition(&message, "InPlaceUpdateReady", updates[i].status);
                verified = pod_message_add_condition(&message, POD_VERIFIED_CONDITION, "True");
                verified->reason = (char *) "Current";
                pod = parse();
                assert_int_equal(pod->update, updates[i].update);
                assert_string_equal(pod->verified_status, "True");
                assert_string_equal(pod->verified_reason, "Current");
                assert_string_equal(pod->verified_message, "");
                assert_false(pod->is_finished);
        }
}

TEST(test_kruise_gate) {
        static char long_text[POD_ANNOTATIONS_SIZE_MAX + 2], *longest = long_text + 1;
        const struct {
                const char *status, *message, *kept;
        } gates[] = {
                { "False", "[]", "[]" },      { "True", "[]", NULL },
                { "Unknown", "[]", NULL },    { "False", NULL, NULL },
                { "False", "", NULL },        { NULL, "[]", NULL },
                { "False", long_text, NULL }, { "False", longest, longest },
        };

        memset(long_text, 'x', sizeof(long_text) - 1);
        for (size_t i = 0; i < N_ELEMENTS(gates); i++) {
                cleanup(pod_free_p) Pod *pod = NULL;

                begin();
                pod_message_add_condition(&message, "KruisePodReady", gates[i].status)->message =
                        (char *) gates[i].message;
                pod = parse();
                if (gates[i].kept)
                        assert_string_equal(pod->kruise_message, gates[i].kept);
                else
                        assert_null(pod->kruise_message);
        }
}

/* The pod asks for app:2 and log:1. */
static const struct {
        const char *name, *status, *reason, *message;
        PodGate gate;
} own_gates[] = {
        { "none yet", NULL, NULL, NULL, POD_GATE_UNSET },
        { "open", "True", "Started", "", POD_GATE_OTHER },
        { "closed by another", "False", "Drained", "{\"images\":{\"app\":\"app:2\"}}",
          POD_GATE_OTHER },
        { "no reason", "False", NULL, "{\"images\":{\"app\":\"app:2\"}}", POD_GATE_OTHER },
        { "unknown", "Unknown", "InPlaceUpdate", "{\"images\":{\"app\":\"app:2\"}}",
          POD_GATE_OTHER },
        { "no message", "False", "InPlaceUpdate", NULL, POD_GATE_OTHER },
        { "not JSON", "False", "InPlaceUpdate", "soon", POD_GATE_CLOSED },
        { "no object", "False", "InPlaceUpdate", "[]", POD_GATE_CLOSED },
        { "no images", "False", "InPlaceUpdate", "{\"by\":\"me\"}", POD_GATE_CLOSED },
        { "empty", "False", "InPlaceUpdate", "{\"images\":{}}", POD_GATE_CLOSED },
        { "no text", "False", "InPlaceUpdate", "{\"images\":{\"app\":2}}", POD_GATE_CLOSED },
        { "not yet", "False", "InPlaceUpdate", "{\"images\":{\"app\":\"app:3\"}}",
          POD_GATE_CLOSED },
        { "one of two", "False", "InPlaceUpdate",
          "{\"images\":{\"app\":\"app:2\",\"log\":\"log:2\"}}", POD_GATE_CLOSED },
        { "no container", "False", "InPlaceUpdate", "{\"images\":{\"web\":\"app:2\"}}",
          POD_GATE_CLOSED },
        { "asked for", "False", "InPlaceUpdate", "{\"images\":{\"app\":\"app:2\"}}",
          POD_GATE_UPDATING },
        { "both", "False", "InPlaceUpdate",
          "{\"by\":\"me\",\"images\":{\"app\":\"app:2\",\"log\":\"log:1\"}}", POD_GATE_UPDATING },
};

TEST(test_gate) {
        for (size_t i = 0; i < 2 * N_ELEMENTS(own_gates); i++) {
                const __typeof__(own_gates[0]) *row = &own_gates[i / 2];
                Kubernetes__V1__PodReadinessGate gate = KUBERNETES__V1__POD_READINESS_GATE__INIT;
                Kubernetes__V1__PodReadinessGate *list[] = { &gate };
                bool has_gate = i % 2 == 0;
                cleanup(pod_free_p) Pod *pod = NULL;

                begin();
                gate.conditiontype = (char *) GATE_CONDITION;
                message.spec.readinessgates = list;
                message.spec.n_readinessgates = has_gate;
                pod_message_add_container(&message, false, "app", "app:2");
                pod_message_add_container(&message, true, "log", "log:1");
                if (row->status) {
                        Kubernetes__V1__PodCondition *condition =
                                pod_message_add_condition(&message, GATE_CONDITION, row->status);

                        condition->reason = (char *) row->reason;
                        condition->message = (char *) row->message;
                }
                pod = parse();
                if (pod->gate != (has_gate ? row->gate : POD_GATE_NONE))
                        fail_msg("%s: %d", row->name, pod->gate);
                assert_int_equal(pod->gate_digest != 0,
                                 pod->gate == POD_GATE_CLOSED || pod->gate == POD_GATE_UPDATING);
        }
}

/* The gate that was closed for a pod's images is recognised as theirs. */
TEST(test_closed_gate) {
        PodContainer containers[] = { { .name = (char *) "app", .image = (char *) "app:2" } };
        Pod pod = { .containers = containers, .n_containers = 1 };
        cleanup(json_object_put_p) json_object *images = json_tokener_parse("{\"app\":\"app:2\"}");
        cleanup(json_object_put_p) json_object *condition = NULL;
        json_object *text;
        bool is_asked_for;

        assert_ok(gate_close("me", 0, images, &condition));
        assert_true(json_object_object_get_ex(condition, "message", &text));
        assert_string_equal(json_object_get_string(text),
                            "{\"by\":\"me\",\"since\":\"1970-01-01T00:00:00Z\",\"images\":{"
                            "\"app\":\"app:2\"}}");
        assert_int_equal(gate_read(json_object_get_string(text), &pod, &is_asked_for), 0);
        assert_true(is_asked_for);
        json_object_object_del(condition, "message");
        assert_string_equal(json_object_to_json_string_ext(condition,
                                                           JSON_C_TO_STRING_PLAIN |
                                                                   JSON_C_TO_STRING_NOSLASHESCAPE),
                            "{\"type\":\"inplaced.io/Ready\",\"status\":\"False\","
                            "\"reason\":\"InPlaceUpdate\","
                            "\"lastTransitionTime\":\"1970-01-01T00:00:00Z\"}");
}

TEST(test_status) {
        static const char *const phases[] = { "Succeeded", "Failed" };
        Kubernetes__V1__PodReadinessGate gate = KUBERNETES__V1__POD_READINESS_GATE__INIT;
        Kubernetes__V1__PodReadinessGate *gates[] = { &gate };
        Kubernetes__V1__PodIP ip = KUBERNETES__V1__POD_IP__INIT, *ips[] = { &ip };

        for (size_t i = 0; i < 2; i++) {
                cleanup(pod_free_p) Pod *pod = NULL;

                begin();
                message.status.phase = (char *) phases[i];
                message.status.podip = (char *) (i == 0 ? "10.0.0.1" : "");
                ip.ip = (char *) "fd00::1";
                message.status.podips = ips;
                message.status.n_podips = 1;
                gate.conditiontype = (char *) (i == 0 ? "KruisePodReady" : "Other");
                message.spec.readinessgates = gates;
                message.spec.n_readinessgates = 1;
                pod = parse();
                assert_true(pod->is_finished);
                assert_string_equal(pod->ip, i == 0 ? "10.0.0.1" : "fd00::1");
                assert_int_equal(pod->has_kruise_gate, i == 0);
        }
}

/* The containers of a row in the order of their start: "i" an init container, "s" a sidecar, "m" a main one, and
 * their states: "-" no status yet, "c" ContainerCreating, "p" PodInitializing, "b" ImagePullBackOff, "r" running,
 * "u" running before its startup probe has succeeded, "e" ended. */
static const struct Next {
        const char *name;
        const char *kinds;
        const char *states;
        const char *next; /* "1": the kubelet starts the container next */
} nexts[] = {
        { "a pod that the kubelet has not seen", "mm", "--", "00" },
        { "a new pod", "mm", "cc", "11" },
        { "one of two runs", "mm", "rc", "01" },
        { "the registry has refused", "m", "b", "0" },
        { "it has ended", "m", "e", "0" },
        { "the first init container comes first", "iim", "ppp", "100" },
        { "and the second one when it has ended", "iim", "epp", "010" },
        { "not while it runs", "iim", "rpp", "000" },
        { "not if its image cannot be pulled", "iim", "bpp", "000" },
        { "a sidecar only has to run", "sim", "rpp", "010" },
        { "and to succeed in its startup probe", "sim", "upp", "000" },
        { "main containers when all before have ended", "simm", "repp", "0011" },
};

static void add_waiting(bool is_init, const char *name, const char *reason) {
        static Kubernetes__V1__ContainerStateWaiting waiting[8];
        static size_t n;
        KubeContainerStatus *status = pod_message_add_status(&message, is_init, name, "", 0);
        Kubernetes__V1__ContainerStateWaiting *state = &waiting[n++ % 8];

        kubernetes__v1__container_state_waiting__init(state);
        state->reason = (char *) reason;
        status->state->waiting = state;
}

static void add_in_state(bool is_init, const char *name, char state) {
        static Kubernetes__V1__ContainerStateTerminated ended;

        switch (state) {
        case '-': break;
        case 'c': add_waiting(is_init, name, "ContainerCreating"); break;
        case 'p': add_waiting(is_init, name, "PodInitializing"); break;
        case 'b': add_waiting(is_init, name, "ImagePullBackOff"); break;
        case 'r': pod_message_add_status(&message, is_init, name, "", 1); break;
        case 'u': pod_message_add_status(&message, is_init, name, "", 1)->has_started = true; break;
        case 'e':
                kubernetes__v1__container_state_terminated__init(&ended);
                pod_message_add_status(&message, is_init, name, "", 0)->state->terminated = &ended;
                break;
        default: fail();
        }
}

static void assert_next(const struct Next *row, const char *expected) {
        cleanup(pod_free_p) Pod *pod = parse();

        for (size_t i = 0; row->kinds[i]; i++) {
                const char name[] = { (char) ('a' + i), '\0' };

                assert_int_equal(pod_find(pod, name)->is_next, expected[i] == '1');
        }
}

static void begin_row(const struct Next *row) {
        static char names[8][2];

        begin();
        for (size_t i = 0; row->kinds[i]; i++) {
                bool is_init = row->kinds[i] != 'm';
                ContainerMessage *container;

                names[i][0] = (char) ('a' + i);
                container = pod_message_add_container(&message, is_init, names[i], "nginx");
                if (row->kinds[i] == 's')
                        container->container.restartpolicy = (char *) "Always";
                add_in_state(is_init, names[i], row->states[i]);
        }
}

TEST_ROWS(test_next, nexts, name, const struct Next *row) {
        Kubernetes__V1__Time deleted = KUBERNETES__V1__TIME__INIT;

        begin_row(row);
        assert_next(row, row->next);
        message.status.phase = (char *) "Failed";
        assert_next(row, "00000000");
        message.status.phase = (char *) "Pending";
        message.meta.deletiontimestamp = &deleted;
        assert_next(row, "00000000");
}

TEST(test_never_pulled) {
        cleanup(pod_free_p) Pod *pod = NULL;

        begin();
        pod_message_add_container(&message, false, "a", "nginx")->container.imagepullpolicy =
                (char *) "Never";
        pod_message_add_container(&message, false, "b", "nginx")->container.imagepullpolicy =
                (char *) "Always";
        pod = parse();
        assert_true(pod_find(pod, "a")->is_pulled_never);
        assert_false(pod_find(pod, "b")->is_pulled_never);
}

/* The images of volumes, but for those that the kubelet does not pull. */
TEST(test_volume_images) {
        static const struct {
                const char *reference, *policy;
        } sources[] = {
                { "a", "Always" },
                { "b", "Never" },
                { "", "Always" },
                { "c", NULL },
        };
        enum { N = N_ELEMENTS(sources) + 1 };
        Kubernetes__V1__Volume volumes[N], *list[N];
        Kubernetes__V1__VolumeSource holders[N];
        Kubernetes__V1__ImageVolumeSource images[N];
        cleanup(pod_free_p) Pod *none = NULL;
        cleanup(pod_free_p) Pod *pod = NULL;

        begin();
        for (size_t i = 0; i < N; i++) {
                kubernetes__v1__volume__init(&volumes[i]);
                kubernetes__v1__volume_source__init(&holders[i]);
                kubernetes__v1__image_volume_source__init(&images[i]);
                list[i] = &volumes[i];
        }
        volumes[N - 1].volumesource = &holders[N - 1]; /* another kind of volume */
        message.spec.volumes = &list[N - 1];
        message.spec.n_volumes = 1;
        none = parse();
        assert_null(none->volume_images);

        for (size_t i = 0; i < N_ELEMENTS(sources); i++) {
                images[i].reference = (char *) sources[i].reference;
                images[i].pullpolicy = (char *) sources[i].policy;
                holders[i].image = &images[i];
                volumes[i].volumesource = &holders[i];
        }
        message.spec.volumes = list;
        message.spec.n_volumes = N;
        pod = parse();
        assert_string_equal(pod->volume_images[0], "a");
        assert_string_equal(pod->volume_images[1], "c");
        assert_null(pod->volume_images[2]);
}

TEST(test_refusals) {
        static char long_text[300 << 10];

        memset(long_text, 'x', 5000);
        begin();
        message.pod.spec = NULL;
        assert_refused("it has no spec");
        begin();
        message.pod.metadata = NULL;
        assert_refused("it has no metadata");
        begin();
        message.meta.uid = NULL;
        assert_refused("metadata.uid: is missing");
        begin();
        message.meta.name = long_text;
        assert_refused("metadata.name: has more than 253 bytes");
        begin();
        pod_message_add_container(&message, false, "", "i");
        assert_refused("the name of a container: is missing");
        begin();
        pod_message_add_container(&message, false, "app", long_text);
        assert_refused("image: has more than 4096 bytes");
        begin();
        pod_message_add_container(&message, false, "app", "i");
        pod_message_add_status(&message, false, "app", long_text, 0);
        assert_refused("containerID: has more than 4096 bytes");
        begin();
        memset(long_text, 'x', sizeof(long_text) - 1);
        pod_message_add_annotation(&message, POD_META_ANNOTATION, long_text);
        assert_refused(POD_META_ANNOTATION ": has more than 262144 bytes");
}

TEST(test_too_many) {
        enum { N = 1025 };
        KubeContainer container = KUBERNETES__V1__CONTAINER__INIT, *list[N];
        Kubernetes__V1__ContainerStatus status = KUBERNETES__V1__CONTAINER_STATUS__INIT,
                                        *statuses[N];
        cleanup(pod_free_p) Pod *pod = NULL;

        begin();
        container.name = (char *) "app";
        for (size_t i = 0; i < N; i++)
                list[i] = &container;
        message.spec.containers = list;
        message.spec.n_containers = 1000;
        message.spec.initcontainers = list;
        message.spec.n_initcontainers = 25;
        assert_refused("it has more than 1024 containers");
        message.spec.n_initcontainers = 24;
        pod = parse();
        assert_int_equal(pod->n_containers, 1024);

        status.name = (char *) "app";
        for (size_t i = 0; i < N; i++)
                statuses[i] = &status;
        message.status.containerstatuses = statuses;
        message.status.n_containerstatuses = 1000;
        message.status.initcontainerstatuses = statuses;
        message.status.n_initcontainerstatuses = 25;
        assert_refused("it has more than 1024 containers");
}

TEST(test_garbage) {
        cleanup(error_done) Error error = ERROR_INIT;
        Pod *pod = NULL;

        assert_true(pod_spec_parse((const uint8_t *) "\x0a\xff", 2, &pod, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        assert_null(pod);
}

static const struct {
        const char *id, *scheme, *rest; /* scheme NULL: it is refused */
} ids[] = {
        { "containerd://0123", "containerd", "0123" },
        { "cri-o://a://b", "cri-o", "a://b" },
        { "1234567890123456://x", NULL, NULL },
        { "://x", NULL, NULL },
        { "docker://", NULL, NULL },
        { "docker:/x", NULL, NULL },
        { "0123", NULL, NULL },
        { "", NULL, NULL },
};

TEST(test_container_ids) {
        for (size_t i = 0; i < N_ELEMENTS(ids); i++) {
                const char *rest = NULL;
                char scheme[16];

                assert_int_equal(pod_split_container_id(ids[i].id, scheme, sizeof(scheme), &rest),
                                 ids[i].scheme != NULL);
                if (!ids[i].scheme)
                        continue;

                assert_string_equal(scheme, ids[i].scheme);
                assert_string_equal(rest, ids[i].rest);
        }
}

static const struct {
        const char *desired, *container;
        bool is_desired;
} desired_images[] = {
        { NULL, "app", false },     { "", "app", false },       { "true", "app", true },
        { "false", "app", false },  { "app", "app", true },     { "apps", "app", false },
        { "ap", "app", false },     { "web,app", "app", true }, { " web , app ", "app", true },
        { "web app", "app", true }, { ",,\n", "app", false },   { "true,web", "app", false },
        { "True", "app", false },
};

TEST(test_desired_images) {
        for (size_t i = 0; i < N_ELEMENTS(desired_images); i++) {
                cleanup(pod_free_p) Pod *pod = NULL;

                begin();
                if (desired_images[i].desired)
                        pod_message_add_annotation(&message, POD_RESTART_ANNOTATION,
                                                   desired_images[i].desired);
                pod_message_add_container(&message, false, "other", "i");
                pod_message_add_container(&message, true, desired_images[i].container, "i");
                pod = parse();
                if (pod->containers[1].restarts_on_metadata != desired_images[i].is_desired)
                        fail_msg("%s", desired_images[i].desired);
        }
}

/* More words than containers, and each container several times. */
TEST(test_long_list) {
        static const char words[] = "\tc0,c1 a ,, c00\n", *const names[] = { "c1", "b", "c", "c0" };
        cleanup(pod_free_p) Pod *pod = NULL;
        cleanup(free_p) char *list = calloc(POD_ANNOTATIONS_SIZE_MAX + 1, 1);

        for (size_t i = 0; i + strlen(words) <= POD_ANNOTATIONS_SIZE_MAX; i += strlen(words))
                memcpy(list + i, words, strlen(words));
        begin();
        pod_message_add_annotation(&message, POD_RESTART_ANNOTATION, list);
        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                pod_message_add_container(&message, false, names[i], "i");
        pod = parse();
        assert_true(pod->containers[0].restarts_on_metadata);
        assert_false(pod->containers[1].restarts_on_metadata);
        assert_false(pod->containers[2].restarts_on_metadata);
        assert_true(pod->containers[3].restarts_on_metadata);
}
