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
