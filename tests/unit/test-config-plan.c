/* SPDX-License-Identifier: Apache-2.0 */

/* Which containers run with older configuration than there is. */

#include "tests/unit/unit.h"

#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/config-plan.h"
#include "tests/unit/failing-memory.h"
#include "tests/unit/quoted-json.h"

#define DELAY 10
#define FIRST 1000 /* when an object was noted for the first time, and then */
#define SECOND 2000
#define THIRD 3000
#define NOW 4000

static const uint8_t secret[SIPHASH_KEY_SIZE] = "0123456789abcde";

#define POD_START                                                                                  \
        "{'metadata':{'namespace':'shop','name':'%s','uid':'u','annotations':{'" CONFIG_ANNOTATION \
        "':'true'}},"

/* The members of a container and of a pod's spec. */
static ConfigPod *read_pod(const char *container, const char *spec) {
        cleanup(json_object_put_p) json_object *pod =
                parse(POD_START "'spec':{'containers':[{'name':'main'%s}]%s}}", "web-0", container,
                      spec);
        ConfigPod *read = NULL;

        assert_ok(config_pod_new(pod, &read));
        return read;
}

#define CONFIG_KEY(name, key) "'valueFrom':{'configMapKeyRef':{'name':'" name "','key':'" key "'}}"
#define FROM_MAP(name) "{'configMapRef':{'name':'" name "'}}"
#define MOUNT(path) ",'volumeMounts':[{'name':'files','mountPath':'/a','subPath':'" path "'}]"
#define VOLUME(source) ",'volumes':[{'name':'files'," source "}]"
#define ITEMS \
        "'items':[{'key':'A','path':'dir/a'},{'key':'B','path':'dir/b'},{'key':'C','path':'c'}]"

/* clang-format off */
static const struct UsesRow {
        const char *name;
        const char *container, *spec;
        const char *uses; /* uses of "main"; NULL: the pod takes no part */
} uses_rows[] = {
        { "nothing", "", "", NULL },
        { "a value in the template", ",'env':[{'name':'A','value':'1'}]", "", NULL },
        { "a key of a ConfigMap", ",'env':[{'name':'A'," CONFIG_KEY("c", "K") "}]", "", "[{'key':'K','of':'configmap/shop/c'}]" },
        { "a key of a Secret that need not be there", ",'env':[{'name':'A','valueFrom':{'secretKeyRef':{'name':'s','key':'K','optional':true}}}]", "",
          "[{'key':'K','of':'secret/shop/s','optional':true}]" },
        { "a variable that comes again", ",'env':[{'name':'A'," CONFIG_KEY("c", "K") "},{'name':'A','value':'1'}]", "", NULL },
        { "a variable that comes again with the first in it", ",'env':[{'name':'A'," CONFIG_KEY("c", "K") "},{'name':'A','value':'$(A)1'}]", "",
          "[{'key':'K','of':'configmap/shop/c'}]" },
        { "a variable that comes again with a text like the first in it", ",'env':[{'name':'A'," CONFIG_KEY("c", "K") "},{'name':'A','value':'$$(A) $(B $(A)'},{'name':'B','value':'$(A$'}]", "", NULL },
        { "a variable that comes again with the first behind others", ",'env':[{'name':'A'," CONFIG_KEY("c", "K") "},{'name':'A','value':'$$$(B)$C$(A)'}]", "",
          "[{'key':'K','of':'configmap/shop/c'}]" },
        { "a variable that comes twice", ",'env':[{'name':'A','value':'1'},{'name':'A'," CONFIG_KEY("c", "K") "}]", "", "[{'key':'K','of':'configmap/shop/c'}]" },
        { "all keys", ",'envFrom':[{'prefix':'P_','configMapRef':{'name':'c'}},{'secretRef':{'name':'s','optional':true}}]", "",
          "[{'prefix':'P_','hidden':{},'of':'configmap/shop/c'},{'prefix':'','hidden':{},'of':'secret/shop/s','optional':true}]" },
        { "all keys but one", ",'envFrom':[" FROM_MAP("c") "],'env':[{'name':'A','value':'1'},{'name':'B','value':'$(B)'}]", "",
          "[{'prefix':'','hidden':{'A':null},'of':'configmap/shop/c'}]" },
        { "all keys but one, which comes after its use", ",'envFrom':[" FROM_MAP("c") "],'env':[{'name':'B','value':'$(A)'},{'name':'A','value':'1'}]", "",
          "[{'prefix':'','hidden':{'B':null},'of':'configmap/shop/c'}]" },
        { "a whole volume", ",'volumeMounts':[{'name':'files','mountPath':'/a'}]", VOLUME("'configMap':{'name':'c'}"), NULL },
        { "a file of a ConfigMap", MOUNT("K"), VOLUME("'configMap':{'name':'c'}"), "[{'key':'K','of':'configmap/shop/c'}]" },
        { "a file of a Secret", MOUNT("K"), VOLUME("'secret':{'secretName':'s','optional':true}"), "[{'key':'K','of':'secret/shop/s','optional':true}]" },
        { "a file with another name", MOUNT("c"), VOLUME("'configMap':{'name':'c'," ITEMS "}"), "[{'key':'C','of':'configmap/shop/c'}]" },
        { "files of a folder", MOUNT("dir/"), VOLUME("'configMap':{'name':'c'," ITEMS "}"), "[{'key':'A','of':'configmap/shop/c'},{'key':'B','of':'configmap/shop/c'}]" },
        { "no file of it", MOUNT("di"), VOLUME("'configMap':{'name':'c'," ITEMS "}"), NULL },
        { "a file of several sources", MOUNT("c"), VOLUME("'projected':{'sources':[{'secret':{'name':'s'," ITEMS "}},{'downwardAPI':{}}]}"), "[{'key':'C','of':'secret/shop/s'}]" },
        { "a file of two sources", MOUNT("c"), VOLUME("'projected':{'sources':[{'secret':{'name':'s'," ITEMS "}},{'secret':{'name':'t'," ITEMS "}}]}"),
          "[{'key':'C','of':'secret/shop/s'},{'key':'C','of':'secret/shop/t'}]" },
        { "a path that is made from variables", ",'volumeMounts':[{'name':'files','subPathExpr':'$(A)'}]", VOLUME("'configMap':{'name':'c'}"), "[{'of':'configmap/shop/c'}]" },
        { "another volume", ",'volumeMounts':[{'name':'none','subPath':'K'}]", VOLUME("'configMap':{'name':'c'}"), NULL },
        { "no name, and other types", ",'env':[1,{'name':2},{'name':'A','valueFrom':{'configMapKeyRef':{'key':'K'}}}],'envFrom':[1,{'configMapRef':1}],'volumeMounts':7", "", NULL },
        { "a pod that is not started again", ",'envFrom':[" FROM_MAP("c") "]", ",'restartPolicy':'Never'", NULL },
};
/* clang-format on */

TEST_ROWS(test_uses, uses_rows, name, const struct UsesRow *row) {
        ConfigPod *pod = read_pod(row->container, row->spec);

        assert_true(!pod == !row->uses);
        if (pod) {
                cleanup(json_object_put_p) json_object *expected = parse("%s", row->uses);

                assert_string_equal(json_to_text(json_get(pod->uses, "main", json_type_array)),
                                    json_to_text(expected));
        }
        config_pod_free(pod);
}

/* Users make pods of any size: what is compared with each other would take minutes, and the memory of the controller. */
TEST(test_too_many_parts) {
        enum { N = 1998, SIZE = 64 }; /* beside the container and the first object */
        cleanup(free_p) char *list = malloc((size_t) N * SIZE);
        char *end = stpcpy(list, ",'envFrom':[" FROM_MAP("c"));
        ConfigPod *pod;

        for (size_t i = 0; i < N; i++)
                end = stpcpy(end, i % 2 == 0 ? "," FROM_MAP("c") : ",7");
        strcpy(end, "]");
        pod = read_pod(list, "");
        assert_non_null(pod);
        config_pod_free(pod);

        strcpy(end, ",7]");
        assert_null(read_pod(list, ""));
}

/* A mount of a whole folder uses each file of the volume. */
TEST(test_too_many_uses) {
        enum { N = 50, SIZE = 64 };
        cleanup(free_p) char *mounts = malloc(2 * N * SIZE);
        cleanup(free_p) char *spec = malloc(2 * N * SIZE);
        char *mount = stpcpy(mounts, ",'volumeMounts':[7"), *item;

        item = stpcpy(spec, ",'volumes':[{'name':'files','configMap':{'name':'c','items':[7");
        for (size_t i = 0; i < N; i++) {
                mount = stpcpy(mount, ",{'name':'files','subPathExpr':'$(A)'}");
                item = stpcpy(item, ",{'key':'K','path':'k'}");
        }
        strcpy(mount, "]");
        strcpy(item, "]}}]");
        assert_null(read_pod(mounts, spec));
}

/* No object can have such a name, and libcurl would send no request for it. */
TEST(test_too_long_name) {
        char container[400];

        snprintf(container, sizeof(container), ",'envFrom':[{'configMapRef':{'name':'%0254d'}}]",
                 0);
        assert_null(read_pod(container, ""));
}

/* clang-format off */
static const struct PartRow {
        const char *name;
        const char *pod;
        const char *workload; /* NULL: it takes no part */
        const char *containers;
} part_rows[] = {
#define USER ",'envFrom':[" FROM_MAP("c") "]"
        { "a Deployment's", "{'metadata':{'namespace':'shop','name':'web-5d9-x','labels':{'pod-template-hash':'5d9'},'annotations':{'" CONFIG_ANNOTATION "':'true'},"
          "'ownerReferences':[{'controller':true,'apiVersion':'apps/v1','kind':'ReplicaSet','name':'web-5d9'}]},'spec':{'containers':[{'name':'a'" USER "},{'name':'b'}]}}", "deployment.apps/web", "a" },
        { "a StatefulSet's", "{'metadata':{'namespace':'shop','name':'db-0','annotations':{'" CONFIG_ANNOTATION "':'true'},"
          "'ownerReferences':[{'controller':true,'apiVersion':'apps/v1','kind':'StatefulSet','name':'db'}]},'spec':{'containers':[{'name':'a'" USER "}]}}", "statefulset.apps/db", "a" },
        { "by itself, with init containers", "{'metadata':{'namespace':'shop','name':'x','annotations':{'" CONFIG_ANNOTATION "':'true'}},"
          "'spec':{'containers':[{'name':'a'}],'initContainers':[{'name':'once'" USER "},{'name':'side','restartPolicy':'Always'" USER "}]}}", "pod/x", "side" },
        { "not annotated", "{'metadata':{'namespace':'shop','name':'x'},'spec':{'containers':[{'name':'a'" USER "}]}}", NULL, NULL },
        { "annotated otherwise", "{'metadata':{'namespace':'shop','name':'x','annotations':{'" CONFIG_ANNOTATION "':'yes'}},'spec':{'containers':[{'name':'a'" USER "}]}}", NULL, NULL },
        { "deleted", "{'metadata':{'namespace':'shop','name':'x','deletionTimestamp':'2026-01-01T00:00:00Z','annotations':{'" CONFIG_ANNOTATION "':'true'}},'spec':{'containers':[{'name':'a'" USER "}]}}", NULL, NULL },
        { "ended", "{'metadata':{'namespace':'shop','name':'x','annotations':{'" CONFIG_ANNOTATION "':'true'}},'spec':{'containers':[{'name':'a'" USER "}]},'status':{'phase':'Failed'}}", NULL, NULL },
};
/* clang-format on */

TEST_ROWS(test_part, part_rows, name, const struct PartRow *row) {
        cleanup(json_object_put_p) json_object *json = parse("%s", row->pod);
        ConfigPod *pod;

        assert_ok(config_pod_new(json, &pod));
        assert_true(!pod == !row->workload);
        if (pod) {
                assert_string_equal(pod->workload, row->workload);
                assert_int_equal(json_object_object_length(pod->uses), 1);
                assert_non_null(json_get(pod->uses, row->containers, json_type_array));
        }
        config_pod_free(pod);
}

/* An object: its members; "-": there is none; NULL: it is not read again. */
static void note(json_object *ledger, const char *of, const char *members, int64_t now_sec) {
        cleanup(json_object_put_p) json_object *object = NULL;

        if (!members)
                return;
        if (strcmp(members, "-") != 0)
                object = parse("{%s}", members);
        assert_true(config_note(ledger,
                                &(const ConfigState){ of, object, secret, now_sec, true }) >= 0);
}

#define KEY ",'env':[{'name':'V'," CONFIG_KEY("c", "K") "}]"
#define TWO_KEYS \
        ",'env':[{'name':'V'," CONFIG_KEY("c", "K") "},{'name':'W'," CONFIG_KEY("c", "L") "}]"
#define TWO_MAPS \
        ",'env':[{'name':'V'," CONFIG_KEY("c", "K") "},{'name':'W'," CONFIG_KEY("never", "K") "}]"
#define OPTIONAL \
        ",'env':[{'name':'V','valueFrom':{'configMapKeyRef':{'name':'c','key':'K','optional':true}}}]"
#define ALL ",'envFrom':[" FROM_MAP("c") "]"
#define ALL_OPTIONAL ",'envFrom':[{'configMapRef':{'name':'c','optional':true}}]"
#define OLD "'data':{'K':'1','L':'1'}"
#define NEW "'data':{'K':'2','L':'1'}"
#define OTHER "'data':{'K':'1','L':'2'}"
#define WITHOUT "'data':{'L':'1'}"

/* clang-format off */
static const struct StaleRow {
        const char *name;
        const char *container;
        const char *objects[3]; /* "c" at FIRST, SECOND and THIRD */
        int64_t started;
        const char *cause; /* NULL: nothing restarts */
} stale_rows[] = {
        { "nothing has changed", KEY, { OLD, OLD }, 900, NULL },
        { "its key", KEY, { OLD, NEW }, 900, "key \"K\" of ConfigMap \"c\"" },
        { "another key", KEY, { OLD, OTHER }, 900, NULL },
        { "any key", ALL, { OLD, OTHER }, 900, "key \"L\" of ConfigMap \"c\"" },
        { "before it was started", KEY, { OLD, NEW }, SECOND + DELAY, NULL },
        { "shortly before it was started", KEY, { OLD, NEW }, SECOND + DELAY - 1, "key \"K\" of ConfigMap \"c\"" },
        { "it does not run", KEY, { OLD, NEW }, 0, NULL },
        { "twice", KEY, { OLD, NEW, "'data':{'K':'3'}" }, SECOND + DELAY, "key \"K\" of ConfigMap \"c\"" },
        { "there and back", KEY, { OLD, NEW, OLD }, 900, NULL },
        { "there and back, started in between", KEY, { OLD, NEW, OLD }, SECOND + DELAY, "key \"K\" of ConfigMap \"c\"" },
        { "there and back, started at the change", KEY, { OLD, NEW, OLD }, SECOND - DELAY, "key \"K\" of ConfigMap \"c\"" },
        { "bytes", KEY, { "'binaryData':{'K':'YQ=='}", "'binaryData':{'K':'Yg=='}" }, 900, "key \"K\" of ConfigMap \"c\"" },
        { "what follows a NUL", KEY, { "'data':{'K':'a\\u0000b'}", "'data':{'K':'a\\u0000c'}" }, 900, "key \"K\" of ConfigMap \"c\"" },
        { "its key is gone", KEY, { OLD, WITHOUT }, 900, NULL },
        { "its key is back", KEY, { OLD, WITHOUT, OLD }, 900, NULL },
        { "its key is back with another value", KEY, { OLD, WITHOUT, NEW }, 900, "key \"K\" of ConfigMap \"c\"" },
        { "its object is gone", KEY, { OLD, "-" }, 900, NULL },
        { "its object is back", KEY, { OLD, "-", OLD }, 900, NULL },
        { "its object is back with another value", KEY, { OLD, "-", NEW }, 900, "key \"K\" of ConfigMap \"c\"" },
        { "its object has changed and is gone", KEY, { OLD, NEW, "-" }, 900, NULL },
        { "its key has changed and is gone", KEY, { OLD, NEW, WITHOUT }, 900, NULL },
        { "its key has changed and another one is gone", TWO_KEYS, { OLD, "'data':{'K':'2'}" }, 900, NULL },
        { "its key has changed and another one is back", TWO_KEYS, { OLD, "'data':{'K':'2'}", NEW }, 900, "key \"K\" of ConfigMap \"c\"" },
        { "its key has changed and another object is gone", TWO_MAPS, { OLD, NEW }, 900, NULL },
        { "one of all keys is gone", ALL, { OLD, WITHOUT }, 900, "key \"K\" of ConfigMap \"c\"" },
        { "one more of all keys", ALL, { WITHOUT, OLD }, 900, "key \"K\" of ConfigMap \"c\"" },
        { "all keys are gone", ALL, { OLD, "-" }, 900, NULL },
        { "all keys are back", ALL, { OLD, "-", OLD }, 900, NULL },
        { "all keys are gone, and need not be there", ALL_OPTIONAL, { OLD, "-" }, 900, "ConfigMap \"c\"" },
        { "an optional key is gone", OPTIONAL, { OLD, WITHOUT }, 900, "key \"K\" of ConfigMap \"c\"" },
        { "an optional key is there now", OPTIONAL, { WITHOUT, OLD }, 900, "key \"K\" of ConfigMap \"c\"" },
        { "an optional object is gone", OPTIONAL, { OLD, "-" }, 900, "ConfigMap \"c\"" },
        { "an optional object is there now", OPTIONAL, { "-", OLD }, 900, "ConfigMap \"c\"" },
        { "an optional object was never there", OPTIONAL, { "-", "-" }, 900, NULL },
        { "a variable hides it", ALL ",'env':[{'name':'K','value':'x'}]", { OLD, NEW }, 900, NULL },
        { "the second of two variables hides it", ALL ",'env':[{'name':'A','value':'x'},{'name':'K','value':'x'}]", { OLD, NEW }, 900, NULL },
        { "a variable with another prefix does not", ",'envFrom':[{'prefix':'P','configMapRef':{'name':'c'}}],'env':[{'name':'K','value':'x'}]", { OLD, NEW }, 900, "key \"K\" of ConfigMap \"c\"" },
        { "a later object hides it", ",'envFrom':[" FROM_MAP("c") "," FROM_MAP("later") "]", { OLD, NEW }, 900, NULL },
        { "a later object has other keys", ",'envFrom':[" FROM_MAP("c") "," FROM_MAP("later") "]", { OLD, OTHER }, 900, "key \"L\" of ConfigMap \"c\"" },
};
/* clang-format on */

/* Without memory there is no plan. */
static ConfigPlan plan_of(ConfigPod *pod, json_object *ledger, int64_t now_sec) {
        ConfigPlan plan;

        ASSERT_WITHOUT_MEMORY(config_plan(&pod, 1, ledger, DELAY, now_sec, &plan), 0,
                              assert_false(memory_has_failed));
        return plan;
}

static json_object *group_of(const ConfigPlan *plan) {
        return json_get(plan->groups, "shop pod/web-0", json_type_object);
}

static void set_status(ConfigPod *pod, const char *status) {
        assert_ok(patch_add(pod->statuses, "main", parse("%s", status)));
}

TEST_ROWS(test_stale, stale_rows, name, const struct StaleRow *row) {
        cleanup(json_object_put_p) json_object *ledger = json_object_new_object();
        cleanup(json_object_put_p) json_object *again = NULL;
        cleanup(free_p) char *status = NULL;
        ConfigPod *pod = read_pod(row->container, "");
        ConfigPlan plan;

        assert_non_null(pod);
        assert_true(asprintf(&status, "{'started':%d,'ready':true}", (int) row->started) >= 0);
        if (row->started)
                set_status(pod, status);
        note(ledger, "configmap/shop/later", "'data':{'K':'9'}", FIRST);
        note(ledger, "configmap/shop/never", "-", FIRST);
        for (int i = 0; i < 3; i++)
                note(ledger, "configmap/shop/c", row->objects[i], FIRST * (i + 1));
        /* The next controller reads it. */
        again = json_tokener_parse(json_to_text(ledger));
        plan = plan_of(pod, again, NOW);
        if (row->cause) {
                assert_string_equal(json_get_text(group_of(&plan), "cause"), row->cause);
                assert_string_equal(json_get_text(group_of(&plan), "containers"), "main");
        } else
                assert_null(group_of(&plan));
        config_plan_done(&plan);
        config_pod_free(pod);
}

static const struct LedgerRow {
        const char *text;
        bool is_ledger;
} ledger_rows[] = {
        { "{}", true },
        { "{'configmap/shop/c':{'K':{}}}", true },
        { "[]", false },
        { "{'configmap/shop/c':1}", false },
        { "{'configmap/shop/c':{'K':1}}", false },
};

TEST_ROWS(test_ledger_of_any_form, ledger_rows, text, const struct LedgerRow *row) {
        cleanup(json_object_put_p) json_object *ledger = parse("%s", row->text);

        assert_int_equal(config_is_ledger(ledger), row->is_ledger);
}

TEST(test_ledger_has_no_values) {
        cleanup(json_object_put_p) json_object *ledger = json_object_new_object();
        json_object *one, *other;

        note(ledger, "secret/shop/s", "'data':{'K':'aHVudGVyMg==','L':'aHVudGVyMg=='}", FIRST);
        note(ledger, "secret/shop/t", "'data':{'K':'aHVudGVyMg=='}", FIRST);
        assert_null(strstr(json_to_text(ledger), "aHVu"));
        /* Equal values do not show that they are. */
        one = json_get(ledger, "secret/shop/s", json_type_object);
        other = json_get(ledger, "secret/shop/t", json_type_object);
        assert_string_not_equal(json_get_text(json_get(one, "K", json_type_object), "mac"),
                                json_get_text(json_get(one, "L", json_type_object), "mac"));
        assert_string_not_equal(json_get_text(json_get(one, "K", json_type_object), "mac"),
                                json_get_text(json_get(other, "K", json_type_object), "mac"));
}

/* clang-format off */
static const struct StatusRow {
        const char *name;
        const char *status; /* the key has changed at SECOND */
        int64_t now;
        bool restarts, waits;
} status_rows[] = {
        { "older", "{'started':900,'ready':true}", NOW, true, false },
        { "older and not ready", "{'started':900}", NOW, true, false },
        { "a kubelet may not know it yet", "{'started':900,'ready':true}", SECOND + DELAY, false, false },
        { "the clock may be behind", "{'started':900,'ready':true}", SECOND + DELAY + 2, false, false },
        { "from now on", "{'started':900,'ready':true}", SECOND + DELAY + 3, true, false },
        { "its restart has begun", "{'began':2010,'started':900,'ready':true}", NOW, false, false },
        { "a restart before it", "{'began':2009,'started':900,'ready':true}", NOW, true, false },
        { "newer", "{'started':2100,'ready':true}", NOW, false, false },
        { "newer and not ready", "{'started':2100}", NOW, false, true },
        { "newer, and has failed", "{'started':3900,'ready':true,'last_started':2100,'last_ended':3800}", NOW, false, true },
        { "newer, and has failed long ago", "{'started':3300,'ready':true,'last_started':2100,'last_ended':3300}", NOW, false, false },
        { "it replaced an older one", "{'started':2100,'ready':true,'last_started':900,'last_ended':2099}", 2101, false, false },
        { "it fails again and again", "{'last_started':3900,'last_ended':3901}", NOW, false, true },
};
/* clang-format on */

TEST_ROWS(test_status, status_rows, name, const struct StatusRow *row) {
        cleanup(json_object_put_p) json_object *ledger = json_object_new_object();
        ConfigPod *pod = read_pod(KEY, "");
        ConfigPlan plan;

        set_status(pod, row->status);
        note(ledger, "configmap/shop/c", OLD, FIRST);
        note(ledger, "configmap/shop/c", NEW, SECOND);
        plan = plan_of(pod, ledger, row->now);
        assert_int_equal(json_get_text(group_of(&plan), "containers") != NULL, row->restarts);
        assert_int_equal(json_get(group_of(&plan), "waits", json_type_boolean) != NULL, row->waits);
        config_plan_done(&plan);
        config_pod_free(pod);
}

TEST(test_status_of_the_pod) {
        cleanup(json_object_put_p) json_object *expected =
                parse("{'started':2100,'ready':true,'last_started':900,'last_ended':2099}");
        ConfigPod *pod = read_pod(
                KEY,
                "},'status':{'containerStatuses':[{'name':'main','ready':true,'state':{'running':{"
                "'startedAt':'1970-01-01T00:35:00Z'}},'lastState':{'terminated':{'startedAt':"
                "'1970-01-01T00:15:00Z','finishedAt':'1970-01-01T00:34:59Z'}}}]");

        assert_true(json_object_equal(json_get(pod->statuses, "main", json_type_object), expected));
        config_pod_free(pod);
}

TEST(test_first_container_is_current) {
        cleanup(json_object_put_p) json_object *ledger = json_object_new_object();
        ConfigPod *pod =
                read_pod(",'env':[{'name':'V'," CONFIG_KEY("c", "L") "}]},{'name':'side'" KEY, "");
        ConfigPlan plan;

        set_status(pod, "{'started':900,'ready':true}");
        assert_ok(patch_add(pod->statuses, "side", parse("{'started':900,'ready':true}")));
        note(ledger, "configmap/shop/c", OLD, FIRST);
        note(ledger, "configmap/shop/c", NEW, SECOND);
        plan = plan_of(pod, ledger, NOW);
        assert_string_equal(json_get_text(group_of(&plan), "containers"), "side");
        config_plan_done(&plan);
        config_pod_free(pod);
}

/* The clock of a node may be wrong: what was carried out is not carried out again. */
TEST(test_served) {
        cleanup(json_object_put_p) json_object *ledger = json_object_new_object();
        ConfigPod *pod = read_pod(KEY, "");
        ConfigPlan plan;

        set_status(pod, "{'started':900,'ready':true}");
        note(ledger, "configmap/shop/c", OLD, FIRST);
        note(ledger, "configmap/shop/c", NEW, SECOND);
        assert_ok(patch_add_nonzero(pod->served, "main", SECOND));
        plan = plan_of(pod, ledger, NOW);
        assert_null(group_of(&plan));
        config_plan_done(&plan);
        note(ledger, "configmap/shop/c", "'data':{'K':'3'}", THIRD);
        plan = plan_of(pod, ledger, NOW);
        assert_non_null(group_of(&plan));
        config_plan_done(&plan);
        config_pod_free(pod);
}

/* A change is forgotten when all have it, and not before that. */
TEST(test_settle) {
        cleanup(json_object_put_p) json_object *ledger = json_object_new_object();
        ConfigPod *pod = read_pod(KEY, "");
        ConfigPlan plan;

        set_status(pod, "{'started':900,'ready':true}");
        note(ledger, "configmap/shop/c", OLD, FIRST);
        assert_false(config_has_changes(ledger));
        assert_false(config_is_changing(json_object_object_get(ledger, "configmap/shop/c")));
        assert_false(config_is_changing(NULL));
        note(ledger, "configmap/shop/c", NEW, SECOND);
        assert_true(config_has_changes(ledger));
        assert_true(config_is_changing(json_object_object_get(ledger, "configmap/shop/c")));
        plan = plan_of(pod, ledger, NOW);
        assert_int_equal(config_settle(ledger, &plan, DELAY, NOW), 0);
        config_plan_done(&plan);

        set_status(pod, "{'started':2100,'ready':true}");
        plan = plan_of(pod, ledger, NOW);
        assert_int_equal(config_settle(ledger, &plan, DELAY, SECOND + 70), 0);
        note(ledger, "configmap/shop/c", "-", SECOND);
        assert_false(config_is_changing(json_object_object_get(ledger, "configmap/shop/c")));
        assert_int_equal(config_settle(ledger, &plan, DELAY, NOW), 0);
        note(ledger, "configmap/shop/c", NEW, SECOND);
        assert_int_equal(config_settle(ledger, &plan, DELAY, NOW), 1);
        assert_false(config_has_changes(ledger));
        config_plan_done(&plan);
        config_pod_free(pod);
}

/* A change that waits until the container can start again is not forgotten meanwhile. */
TEST(test_change_that_waits_for_a_key) {
        cleanup(json_object_put_p) json_object *ledger = json_object_new_object();
        ConfigPod *pod = read_pod(TWO_KEYS, "");
        ConfigPlan plan;

        set_status(pod, "{'started':900,'ready':true}");
        note(ledger, "configmap/shop/c", OLD, FIRST);
        note(ledger, "configmap/shop/c", "'data':{'K':'2'}", SECOND);
        plan = plan_of(pod, ledger, NOW);
        assert_null(group_of(&plan));
        assert_int_equal(config_settle(ledger, &plan, DELAY, NOW), 0);
        config_plan_done(&plan);
        note(ledger, "configmap/shop/c", NEW, NOW);
        plan = plan_of(pod, ledger, NOW);
        assert_string_equal(json_get_text(group_of(&plan), "cause"),
                            "key \"K\" of ConfigMap \"c\"");
        config_plan_done(&plan);
        config_pod_free(pod);
}

/* Pods of a group restart the same containers, at most 250 in one run. */
TEST(test_groups) {
        cleanup(json_object_put_p) json_object *ledger = json_object_new_object();
        ConfigPod *pods[300];
        ConfigPlan plan;

        for (size_t i = 0; i < N_ELEMENTS(pods); i++) {
                cleanup(json_object_put_p) json_object *json = parse(
                        POD_START
                        "'spec':{'containers':[{'name':'main'" KEY "},{'name':'side'%s}]},"
                        "'status':{'containerStatuses':[{'name':'main','state':{'running':"
                        "{'startedAt':'1970-01-01T00:15:00Z'}}},{'name':'side','state':{'running':"
                        "{'startedAt':'1970-01-01T00:15:00Z'}}}]}}",
                        "web-0", i == 1 ? KEY : "");

                assert_ok(config_pod_new(json, &pods[i]));
        }
        note(ledger, "configmap/shop/c", OLD, FIRST);
        note(ledger, "configmap/shop/c", NEW, SECOND);
        assert_ok(config_plan(pods, 2, ledger, DELAY, NOW, &plan));
        assert_int_equal(json_object_array_length(
                                 json_get(group_of(&plan), "pods", json_type_array)),
                         1);
        config_plan_done(&plan);
        assert_ok(config_plan(pods + 1, 1, ledger, DELAY, NOW, &plan));
        assert_string_equal(json_get_text(group_of(&plan), "containers"), "main,side");
        config_plan_done(&plan);
        assert_ok(config_plan(pods, N_ELEMENTS(pods), ledger, DELAY, NOW, &plan));
        assert_int_equal(json_object_array_length(
                                 json_get(group_of(&plan), "pods", json_type_array)),
                         250);
        config_plan_done(&plan);
        for (size_t i = 0; i < N_ELEMENTS(pods); i++)
                config_pod_free(pods[i]);
}

/* A budget that allows one pod would allow each of several runs one: pods of a controller of another kind restart one by one. */
TEST(test_group_of_another_kind) {
        static const char key[] = "shop StrimziPodSet/kafka";
        cleanup(json_object_put_p) json_object *ledger = json_object_new_object();
        ConfigPod *pods[2];
        json_object *group;
        ConfigPlan plan;

        note(ledger, "configmap/shop/c", OLD, FIRST);
        note(ledger, "configmap/shop/c", NEW, SECOND);
        for (int i = 0; i < 2; i++) {
                cleanup(json_object_put_p) json_object *json = parse(
                        "{'metadata':{'namespace':'shop','name':'kafka-%d','annotations':{"
                        "'" CONFIG_ANNOTATION "':'true'},'ownerReferences':[{'controller':true,"
                        "'apiVersion':'core.strimzi.io/v1','kind':'StrimziPodSet','name':'kafka'}]},"
                        "'spec':{'containers':[{'name':'main'" KEY "}]}}",
                        i);

                assert_ok(config_pod_new(json, &pods[i]));
                set_status(pods[i], "{'started':900,'ready':true}");
        }
        for (int i = 0; i < 2; i++) {
                char names[32], workload[32];

                (void) snprintf(names, sizeof(names), "[\"kafka-%d\"]", i);
                (void) snprintf(workload, sizeof(workload), "pod/kafka-%d", i);
                assert_ok(config_plan(pods, 2, ledger, DELAY, NOW, &plan));
                assert_int_equal(json_object_object_length(plan.groups), 1);
                group = json_get(plan.groups, key, json_type_object);
                assert_string_equal(json_to_text(json_get(group, "pods", json_type_array)), names);
                assert_string_equal(json_get_text(group, "workload"), workload);
                assert_null(json_get(group, "waits", json_type_boolean));
                config_plan_done(&plan);
                set_status(pods[i], "{'started':2100,'ready':true}");
        }

        /* A pod that is not ready comes first. */
        set_status(pods[0], "{'started':900,'ready':true}");
        set_status(pods[1], "{'started':900,'ready':false}");
        assert_ok(config_plan(pods, 2, ledger, DELAY, NOW, &plan));
        group = json_get(plan.groups, key, json_type_object);
        assert_string_equal(json_get_text(group, "workload"), "pod/kafka-1");
        config_plan_done(&plan);

        /* The next one waits while the last one is not ready. */
        set_status(pods[1], "{'started':2100,'ready':false}");
        assert_ok(config_plan(pods, 2, ledger, DELAY, NOW, &plan));
        group = json_get(plan.groups, key, json_type_object);
        assert_non_null(json_get(group, "waits", json_type_boolean));
        config_plan_done(&plan);
        for (size_t i = 0; i < N_ELEMENTS(pods); i++)
                config_pod_free(pods[i]);
}

/* A run is not ended by a change that waits for the next one, as it restarts other containers. */
TEST(test_newest_change_of_a_group) {
        cleanup(json_object_put_p) json_object *ledger = json_object_new_object();
        ConfigPod *pods[2];
        ConfigPlan plan;

        for (size_t i = 0; i < N_ELEMENTS(pods); i++) {
                pods[i] = read_pod(KEY
                                   "},{'name':'side','env':[{'name':'V'," CONFIG_KEY("d", "K") "}]",
                                   "");
                set_status(pods[i], "{'started':900,'ready':true}");
                assert_ok(patch_add(pods[i]->statuses, "side",
                                    parse("{'started':%d,'ready':true}", i == 0 ? NOW : 900)));
        }
        note(ledger, "configmap/shop/c", OLD, FIRST);
        note(ledger, "configmap/shop/d", OLD, FIRST);
        note(ledger, "configmap/shop/c", NEW, SECOND);
        note(ledger, "configmap/shop/d", NEW, THIRD);
        assert_ok(config_plan(pods, 2, ledger, DELAY, NOW, &plan));
        assert_string_equal(json_get_text(group_of(&plan), "containers"), "main");
        assert_int_equal(json_get_integer(group_of(&plan), "changed"), SECOND);
        assert_int_equal(json_get_integer(group_of(&plan), "newest"), THIRD);
        config_plan_done(&plan);
        for (size_t i = 0; i < N_ELEMENTS(pods); i++)
                config_pod_free(pods[i]);
}

/* A ledger that has changed and is not reported is not saved: a change would be forgotten with the process. */
TEST(test_note_says_what_has_changed) {
        static const struct {
                const char *members; /* NULL: there is no such object */
                int is_changed;
        } notes[] = {
                { OLD, 1 },
                { OLD, 0 },
                { NEW, 1 },
                { NEW, 0 },
                { "'data':{'K':'2'}", 1 },
                { "'data':{'K':'2'}", 0 },
                { "'data':{'K':'2'},'binaryData':{'L':'MQ=='}", 1 },
                { "'data':{'K':'2'},'binaryData':{'L':'Mg=='}", 1 },
                { NULL, 1 },
                { NULL, 0 },
                { "'data':{}", 1 },
                { "'data':{}", 0 },
                { NULL, 1 },
        };
        cleanup(json_object_put_p) json_object *ledger = json_object_new_object();

        for (size_t i = 0; i < N_ELEMENTS(notes); i++) {
                cleanup(json_object_put_p) json_object *object =
                        notes[i].members ? parse("{%s}", notes[i].members) : NULL;
                int r = config_note(ledger,
                                    &(const ConfigState){ "configmap/shop/c", object, secret,
                                                          FIRST + (int64_t) i, true });

                if (r != notes[i].is_changed)
                        fail_msg("note %zu: %d", i, r);
        }
}

/* A change that came while no controller watched: some containers may have been started with it. */
TEST(test_taken_back_after_an_absence) {
        static const struct ConfigRow {
                bool is_watched;
                bool restarts;
        } rows[] = { { true, false }, { false, true } };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(json_object_put_p) json_object *ledger = json_object_new_object();
                cleanup(json_object_put_p) json_object *new = parse("{" NEW "}");
                ConfigPod *pod = read_pod(KEY, "");
                ConfigPlan plan;

                set_status(pod, "{'started':1500,'ready':true}");
                note(ledger, "configmap/shop/c", OLD, FIRST);
                assert_int_equal(config_note(ledger,
                                             &(const ConfigState){ "configmap/shop/c", new, secret,
                                                                   SECOND, rows[i].is_watched }),
                                 1);
                note(ledger, "configmap/shop/c", OLD, THIRD);
                plan = plan_of(pod, ledger, NOW);
                assert_true(rows[i].restarts == (group_of(&plan) != NULL));
                config_plan_done(&plan);
                config_pod_free(pod);
        }
}

/* Keys that come and go do not fill the ledger; one that a container names is kept, as it may come back. */
TEST(test_keys_that_are_gone) {
        static const char *const containers[] = { ALL, KEY };

        for (size_t i = 0; i < N_ELEMENTS(containers); i++) {
                cleanup(json_object_put_p) json_object *ledger = json_object_new_object();
                ConfigPod *pod = read_pod(containers[i], "");
                json_object *entry;
                ConfigPlan plan;

                set_status(pod, "{'started':900,'ready':true}");
                note(ledger, "configmap/shop/c", OLD, FIRST);
                note(ledger, "configmap/shop/c", "'data':{}", SECOND);
                entry = json_get(ledger, "configmap/shop/c", json_type_object);
                plan = plan_of(pod, ledger, NOW);
                assert_int_equal(config_settle(ledger, &plan, DELAY, NOW), i);
                config_plan_done(&plan);
                set_status(pod, "{'started':2100,'ready':true}");
                plan = plan_of(pod, ledger, NOW);
                assert_int_equal(config_settle(ledger, &plan, DELAY, SECOND + 70), 0);
                assert_int_equal(config_settle(ledger, &plan, DELAY, NOW), 1 - i);
                assert_true((i == 1) == (json_get(entry, "K", json_type_object) != NULL));
                assert_null(json_get(entry, "L", json_type_object));
                assert_non_null(json_get(entry, "", json_type_object));
                config_plan_done(&plan);
                config_pod_free(pod);
        }
}

/* A copy is, also when memory is short: an object does not get larger than the API server takes. */
static void assert_trimmed(json_object *ledger, size_t size_max) {
        bool has_failed;

        do {
                cleanup(json_object_put_p) json_object *copy = json_copy(ledger);
                cleanup(json_object_put_p) json_object *removed = json_object_new_array();
                int r;

                failing_memory_begin();
                r = config_trim(copy, size_max, removed);
                has_failed = failing_memory_end();
                if (r < 0)
                        assert_true(has_failed && r == -ENOMEM);
                else
                        assert_true(strlen(json_to_text(copy)) <= size_max);
        } while (has_failed);
}

/* A namespace that fills the ledger harms itself alone. */
TEST(test_full_ledger) {
        cleanup(json_object_put_p) json_object *ledger = json_object_new_object();
        cleanup(json_object_put_p) json_object *removed = json_object_new_array();
        size_t size;

        note(ledger, "configmap/shop/c", OLD, FIRST);
        note(ledger, "secret/shop/large", "'data':{'a':'','b':'','c':'','d':''}", FIRST);
        size = strlen(json_to_text(ledger));
        for (int i = 0; i < 9; i++) {
                cleanup(free_p) char *of = NULL;

                assert_true(asprintf(&of, "%s/greedy/%d", i % 2 ? "secret" : "configmap", i) >= 0);
                note(ledger, of, i == 5 ? "'data':{'a':'','b':''}" : "'data':{'a':''}", FIRST);
        }
        assert_ok(config_trim(ledger, strlen(json_to_text(ledger)), removed));
        assert_int_equal(json_object_array_length(removed), 0);
        assert_ok(config_trim(ledger, strlen(json_to_text(ledger)) - 1, removed));
        assert_string_equal(json_to_text(removed), "[\"secret/greedy/5\"]");
        assert_trimmed(ledger, 2 * size + 60);
        assert_ok(config_trim(ledger, 2 * size + 60, removed));
        assert_true(strlen(json_to_text(ledger)) <= 2 * size + 60);
        assert_non_null(json_get(ledger, "configmap/shop/c", json_type_object));
        assert_non_null(json_get(ledger, "secret/shop/large", json_type_object));
        assert_ok(config_trim(ledger, 2, removed));
        assert_int_equal(json_object_object_length(ledger), 0);
        assert_int_equal(json_object_array_length(removed), 11);
}
