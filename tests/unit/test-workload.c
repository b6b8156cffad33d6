/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Workloads: their owners, and the first difference of their templates
 */

#include "agent/document/json-cleanup.h"
#include "agent/kubectl/workload.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define OWNED(hash, kind, name)                                                                    \
        "{'metadata':{'labels':{'pod-template-hash':'" hash "'},'ownerReferences':[{'apiVersion':" \
        "'apps/v1','kind':'" kind "','name':'" name "','uid':'u','controller':true}]}}"

static const struct OwnedRow {
        const char *name;
        const char *object;
        const char *message; /* NULL: it may be updated */
} owned_rows[] = {
        { "of nothing", "{'metadata':{'labels':{'pod-template-hash':'5d9'}}}", NULL },
        { "a Deployment's", OWNED("5d9", "ReplicaSet", "web-5d9"),
          "a ReplicaSet of deployment.apps/web owns it: update that" },
        { "a Deployment's with a short name", OWNED("5d9", "ReplicaSet", "w-5d9"),
          "a ReplicaSet of deployment.apps/w owns it: update that" },
        { "with another hash", OWNED("5d9", "ReplicaSet", "web-5d8"),
          "replicaset.apps/web-5d8 owns it: update that" },
        { "a name that only ends as the hash", OWNED("5d9", "ReplicaSet", "web5d9"),
          "replicaset.apps/web5d9 owns it: update that" },
        { "a hash and no name", OWNED("5d9", "ReplicaSet", "-5d9"),
          "replicaset.apps/-5d9 owns it: update that" },
        { "a hash alone", OWNED("5d9", "ReplicaSet", "5d9"),
          "replicaset.apps/5d9 owns it: update that" },
        { "a StatefulSet's", OWNED("5d9", "StatefulSet", "db"),
          "statefulset.apps/db owns it: update that" },
};

TEST_ROWS(test_owned, owned_rows, name, const struct OwnedRow *row) {
        cleanup(json_object_put_p) json_object *object = parse("%s", row->object);
        cleanup(error_done) Error error = ERROR_INIT;

        assert_int_equal(object_refuse_owned(object, &error) < 0, row->message != NULL);
        if (row->message)
                assert_string_equal(error_message(&error), row->message);
}

static const struct KindRow {
        const char *text;
        const char *message; /* beginning of what is said, behind the workload */
} kind_rows[] = {
        { "job/a", "the pods of a Job run to their end" },
        { "jobs/a", "the pods of a Job run to their end" },
        { "jobs.batch/a", "the pods of a Job run to their end" },
        { "cronjob/a", "its next Job has the images" },
        { "node/a", "a node is no workload" },
        { "nodes/a", "a node is no workload" },
        { "jobx/a", "the kind is none of deployment" },
        { "jo/a", "the kind is none of deployment" },
        { "modes/a", "the kind is none of deployment" },
        { "nodess/a", "the kind is none of deployment" },
};

TEST_ROWS(test_kinds_that_are_not_updated, kind_rows, text, const struct KindRow *row) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *expected = NULL;
        const char *name;
        WorkloadKind kind;

        assert_true(asprintf(&expected, "workload \"%s\": %s", row->text, row->message) > 0);
        assert_true(workload_name_parse(row->text, &kind, &name, &error) < 0);
        assert_memory_equal(error_message(&error), expected, strlen(expected));
}

/* clang-format off */
static const struct TemplateRow {
        const char *name;
        const char *one, *other;
        const char *place; /* NULL: nowhere */
} template_rows[] = {
        { "nothing", "{'spec':{'x':1}}", "{'spec':{'x':1}}", NULL },
        { "two members", "{'spec':{'x':1,'y':1}}", "{'spec':{'x':2,'y':2}}", "spec.x" },
        { "two items", "{'spec':{'x':[1,{'y':1},3]}}", "{'spec':{'x':[1,{'y':2},4]}}", "spec.x[1].y" },
        { "one member more", "{'spec':{'x':1}}", "{'spec':{'x':1,'y':1}}", "spec.y" },
        { "one member less", "{'spec':{'x':1,'y':1}}", "{'spec':{'x':1}}", "spec.y" },
        { "images", "{'spec':{'containers':[{'name':'a','image':'a:1'}]}}",
          "{'spec':{'containers':[{'name':'a','image':'a:2'}]}}", NULL },
        { "the label of the controller", "{'metadata':{'labels':{'pod-template-hash':'1'}}}",
          "{'metadata':{'labels':{'pod-template-hash':'2'}}}", NULL },
};
/* clang-format on */

TEST_ROWS(test_template, template_rows, name, const struct TemplateRow *row) {
        cleanup(json_object_put_p) json_object *one = parse("%s", row->one);
        cleanup(json_object_put_p) json_object *other = parse("%s", row->other);
        cleanup(free_p) char *place = NULL;

        assert_ok(template_compare(one, other, &place));
        assert_string_equal(place ?: "", row->place ?: "");
}

/* Names of nothing, and those of other sorts of volumes, are left out. */
TEST(test_needs_of_a_pod) {
        cleanup(json_object_put_p) json_object *spec = parse(
                "{'imagePullSecrets':[{'name':'a'},{'name':''},{},{'name':'b'}],'volumes':[{'name':"
                "'x','image':{'reference':'v:1'}},{'name':'y','emptyDir':{}},{'name':'z','image':"
                "{'reference':'v:2'}}]}");
        cleanup(json_object_put_p) json_object *bare = parse("{}");
        cleanup(json_object_put_p) json_object *secrets = parse("{}");
        cleanup(json_object_put_p) json_object *images = parse("{}");

        assert_ok(pod_spec_add_secrets(bare, secrets));
        assert_ok(pod_spec_add_volume_images(bare, images));
        assert_ok(pod_spec_add_secrets(spec, secrets));
        assert_ok(pod_spec_add_volume_images(spec, images));
        assert_json(secrets, "{'a':null,'b':null}");
        assert_json(images, "{'v:1':null,'v:2':null}");
}

/* A sidecar goes on, and an init container ends. */
TEST(test_containers_that_end) {
        cleanup(json_object_put_p) json_object *template = parse(
                "{'spec':{'initContainers':[{'name':'init'},{'name':'failing','restartPolicy':"
                "'OnFailure'},{'name':'side','restartPolicy':'Always'}],'containers':"
                "[{'name':'app'}]}}");

        assert_true(template_ends(template, "init") && template_ends(template, "failing"));
        assert_false(template_ends(template, "side") || template_ends(template, "app"));
}

static const struct BackoffRow {
        const char *message;
        int64_t sec; /* 0: it says none */
} backoff_rows[] = {
        { "back-off 10s restarting failed container", 10 },
        { "back-off 2m40s restarting failed container", 160 },
        { "back-off 5m0s restarting failed container", 300 },
        { "back-off 3600s restarting", 3600 },
        { "back-off 3601s restarting", 0 },
        { "back-off 1h restarting", 0 },
        { "back-off soon", 0 },
        { "10s", 0 },
};

TEST_ROWS(test_backoff, backoff_rows, message, const struct BackoffRow *row) {
        cleanup(json_object_put_p) json_object *status =
                parse("{'state':{'waiting':{'message':'%s'}}}", row->message);

        assert_int_equal(container_backoff_sec(status), row->sec);
}
