/* SPDX-License-Identifier: Apache-2.0 */

/* Which objects the controller reads and keeps in its ledger while no pod uses them, and which restarts end early. */

#include "tests/unit/unit.h"

#include <netinet/in.h>
#include <resolv.h>
#include <time.h>

#include "agent/base/rfc3339.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/config-plan.h"
#include "agent/kubectl/config-restarts.h"
#include "agent/kubectl/rollout-record.h"
#include "tests/unit/quoted-json.h"

#define KEY "30313233343536373839616263646566"
#define C "configmap/shop/c"
#define START_SEC 1000

/* A server with a ledger and with ConfigMaps of one value, and the time; its functions stand for those of the session and of
 * the C library, see tests/CMakeLists.txt. */
static struct {
        int64_t now_sec;
        json_object *ledger;       /* NULL: the Secret's text is empty */
        unsigned version, value;   /* state of each ConfigMap */
        unsigned n_reads;          /* reads of ConfigMaps */
        unsigned n_begun, n_ended; /* runs */
        const char *budget;        /* selector of the PodDisruptionBudget; NULL: there is none */
        const char *record;        /* record of an update of the workloads; NULL: there is none */
        unsigned ledger_version;   /* version of the Secret; 0: there is none */
        char words[256];           /* command line of the last run */
} server;

int __wrap_kube_event_send(KubeEvents *events, const KubeReference *object, const char *type,
                           const char *reason, const char *message);
int __wrap_session_create(Session *session, const KubePath *path, json_object *body,
                          json_object **ret, Error *reterr);
int __wrap_session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr);
int __wrap_session_list(Session *session, const KubePath *path, SessionItem on_item, void *userdata,
                        Error *reterr);
int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *body, json_object **ret, Error *reterr);
const char *__wrap_session_namespace(const Session *session);
int __wrap_own_run(Session *session, const Flags *flags, const char *const *words,
                   ProgramDone on_done, void *userdata, Program **ret);
Program *__wrap_program_free(Program *program);
int64_t __wrap_session_server_sec(const Session *session);
bool __wrap_session_is_ended(const Session *session);

int clock_gettime(clockid_t clock, struct timespec *ret) {
        *ret = (struct timespec){ .tv_sec = server.now_sec };
        return 0;
}

static json_object *make_secret(void) {
        const char *text = server.ledger ? json_to_text(server.ledger) : "";
        char key[64], versions[4096];

        assert_true(b64_ntop((const unsigned char *) KEY, strlen(KEY), key, sizeof(key)) > 0);
        assert_true(b64_ntop((const unsigned char *) text, strlen(text), versions,
                             sizeof(versions)) >= 0);
        return parse("{'metadata':{'resourceVersion':'%u'},'data':{'key':'%s','versions':'%s'}}",
                     server.ledger_version, key, versions);
}

int __wrap_session_create(Session *session, const KubePath *path, json_object *body,
                          json_object **ret, Error *reterr) {
        json_object *texts = json_get(body, "stringData", json_type_object);

        assert_string_equal(path->resource, "secrets");
        assert_int_equal(strlen(json_get_text(texts, "key")), strlen(KEY));
        assert_string_equal(json_get_text(texts, "versions"), "{}");
        server.ledger_version++;
        return 0;
}

int __wrap_session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr) {
        if (strcmp(path->resource, "secrets") == 0) {
                if (server.ledger_version == 0)
                        return error_set(reterr, ERROR_NOT_FOUND, "no");
                *ret = make_secret();
                return 0;
        }
        if (strcmp(path->resource, "statefulsets") == 0) {
                *ret = parse("{'metadata':{'name':'%s'},'spec':{'template':{'metadata':{'labels':{"
                             "'app':'%s','part':'web'}}}}}",
                             path->name, path->name);
                if (server.record)
                        assert_ok(patch_add(json_object_object_get(*ret, "metadata"), "annotations",
                                            patch_wrap(ROLLOUT_ANNOTATION,
                                                       json_object_new_string(server.record))));
                return 0;
        }
        server.n_reads++;
        *ret = parse("{'metadata':{'resourceVersion':'%u'},'data':{'K':'%u'}}", server.version,
                     server.value);
        return 0;
}

int __wrap_session_list(Session *session, const KubePath *path, SessionItem on_item, void *userdata,
                        Error *reterr) {
        cleanup(json_object_put_p) json_object *budget =
                parse("{'spec':{'selector':{'matchLabels':%s}}}", server.budget ?: "{'app':''}");

        assert_string_equal(path->resource, "poddisruptionbudgets");
        assert_string_equal(path->namespace, "shop");
        return on_item(budget, userdata);
}

int __wrap_kube_event_send(KubeEvents *events, const KubeReference *object, const char *type,
                           const char *reason, const char *message) {
        return 0;
}

int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *body, json_object **ret, Error *reterr) {
        const char *text =
                json_get_text(json_get(body, "stringData", json_type_object), "versions");
        char version[16];

        (void) snprintf(version, sizeof(version), "%u", server.ledger_version++);
        assert_string_equal(json_get_text(json_get(body, "metadata", json_type_object),
                                          "resourceVersion"),
                            version);
        assert_non_null(text);
        json_object_put(server.ledger);
        server.ledger = json_tokener_parse(text);
        *ret = parse("{'metadata':{'resourceVersion':'%u'}}", server.ledger_version);
        return 0;
}

const char *__wrap_session_namespace(const Session *session) {
        return "inplaced";
}

int64_t __wrap_session_server_sec(const Session *session) {
        return server.now_sec;
}

bool __wrap_session_is_ended(const Session *session) {
        return false;
}

int __wrap_own_run(Session *session, const Flags *flags, const char *const *words,
                   ProgramDone on_done, void *userdata, Program **ret) {
        size_t size = 0;

        server.words[0] = '\0';
        for (; *words; words++)
                size += (size_t) snprintf(server.words + size, sizeof(server.words) - size, " %s",
                                          *words);
        server.n_begun++;
        *ret = (Program *) &server;
        return 0;
}

Program *__wrap_program_free(Program *program) {
        server.n_ended += program != NULL;
        return NULL;
}

typedef struct Controller {
        Flags flags;
        ConfigRestarts *restarts;
        SessionWatch watches[CONFIG_WATCHES]; /* watches of pods, ConfigMaps and Secrets */
} Controller;

static int is_updated(const char *workload, const char *namespace, void *userdata) {
        return 0;
}

static void start(Controller *controller) {
        assert_ok(config_restarts_new(&(ConfigRestartsOptions){ .flags = &controller->flags,
                                                                .is_updated = is_updated },
                                      &controller->restarts));
        config_restarts_watches(controller->restarts, NULL, controller->watches);
}

static void stop(Controller *controller) {
        controller->restarts = config_restarts_free(controller->restarts);
}

static void fill(Controller *controller) {
        server.now_sec = START_SEC;
        server.ledger = parse("{}");
        server.version = server.value = 1;
        server.n_reads = server.n_begun = server.n_ended = 0;
        server.budget = server.record = NULL;
        server.ledger_version = 1;
        start(controller);
}

static void empty(Controller *controller) {
        stop(controller);
        json_object_put(server.ledger);
}

DEFINE_FIXTURE(Controller, fill, empty)

static void turn(Controller *controller) {
        cleanup(error_done) Error error = ERROR_INIT;

        assert_ok(config_restarts_turn(controller->restarts, &error));
        assert_int_equal(error.kind, ERROR_NONE);
}

/* A pod of the StatefulSet, which uses all keys of the ConfigMap of its name, is started now, or goes. */
static void show_pod_of(Controller *controller, const char *workload, const char *name,
                        bool is_gone) {
        static const char form[] =
                "{'metadata':{'namespace':'shop','name':'%s','uid':'u',"
                "'annotations':{'" CONFIG_ANNOTATION "':'true'},'ownerReferences':["
                "{'controller':true,'apiVersion':'apps/v1','kind':'StatefulSet','name':'%s'}]},"
                "'spec':{'containers':[{'name':'main','envFrom':[{'configMapRef':{'name':'%s'}}]}]},"
                "'status':{'containerStatuses':[{'name':'main','ready':true,"
                "'state':{'running':{'startedAt':'%s'}}}]}}";
        const SessionWatch *watch = &controller->watches[0];
        char started[RFC3339_SIZE];
        cleanup(json_object_put_p) json_object *pod =
                parse(form, name, workload, name, rfc3339_format(server.now_sec, started));
        const KubeObject object = { .namespace = "shop", .name = name, .uid = "u", .json = pod };

        assert_ok((is_gone ? watch->on_gone : watch->on_object)(&object, watch->userdata));
}

static void show_pod(Controller *controller, const char *name, bool is_gone) {
        show_pod_of(controller, "web", name, is_gone);
}

static void change_map(Controller *controller, const char *name) {
        const SessionWatch *watch = &controller->watches[1];
        char version[16];

        (void) snprintf(version, sizeof(version), "%u", ++server.version);
        assert_ok(watch->on_object(&(KubeObject){ .namespace = "shop",
                                                  .name = name,
                                                  .uid = "u",
                                                  .resource_version = version },
                                   watch->userdata));
}

static json_object *entry_of(const char *of) {
        return json_get(server.ledger, of, json_type_object);
}

static const struct UnusedRow {
        const char *name;
        bool has_other_values;
} unused_rows[] = { { "other values", true }, { "other metadata", false } };

/* It is read for ten minutes after its last user, and is new to the next one. */
TEST_ROWS_F(test_unused_object_that_changes_all_the_time, unused_rows, name,
            const struct UnusedRow *row, Controller *controller) {
        show_pod(controller, "c", /* is_gone= */ false);
        turn(controller);
        assert_int_equal(server.n_reads, 1);
        assert_non_null(entry_of(C));
        show_pod(controller, "c", /* is_gone= */ true);
        for (int i = 0; i < 100; i++) {
                server.now_sec += 30;
                server.value += row->has_other_values;
                change_map(controller, "c");
                turn(controller);
        }
        assert_in_range(server.n_reads, 2, 1 + 600 / 30);
        assert_null(entry_of(C));
        assert_false(config_restarts_is_due(controller->restarts));

        server.n_reads = 0;
        show_pod(controller, "c", /* is_gone= */ false);
        turn(controller);
        assert_int_equal(server.n_reads, 1);
        assert_non_null(entry_of(C));
        assert_false(config_has_changes(server.ledger));
}

/* A pod that comes shortly after the change may have missed it, whichever controller has noted it. */
TEST_F(test_unused_object_and_the_next_controller, Controller *controller) {
        show_pod(controller, "c", /* is_gone= */ false);
        turn(controller);
        show_pod(controller, "c", /* is_gone= */ true);
        server.value++;
        change_map(controller, "c");
        turn(controller);
        assert_true(config_is_changing(entry_of(C)));

        stop(controller);
        start(controller);
        show_pod(controller, "d", /* is_gone= */ false);
        turn(controller);
        assert_non_null(entry_of("configmap/shop/d"));
        assert_true(config_is_changing(entry_of(C)));

        /* It is forgotten when all that may be started with the value before is seen. */
        server.now_sec += 100;
        turn(controller);
        turn(controller);
        assert_non_null(entry_of("configmap/shop/d"));
        assert_null(entry_of(C));
}

/* A pod that comes long after a change which no controller has seen has the value. */
TEST_F(test_unused_object_that_has_changed_unseen, Controller *controller) {
        show_pod(controller, "c", /* is_gone= */ false);
        turn(controller);
        stop(controller);
        server.value++;
        server.version++;

        start(controller);
        turn(controller);
        server.now_sec += 100;
        show_pod(controller, "c", /* is_gone= */ false);
        turn(controller);
        assert_in_range(json_get_integer(json_get(entry_of(C), "K", json_type_object), "changed"),
                        0, START_SEC);
        server.now_sec += 20;
        turn(controller);
        assert_int_equal(server.n_begun, 0);
}

/* A controller that does not lead keeps no names of what came and went. */
TEST_F(test_object_that_went_before_the_ledger_was_read, Controller *controller) {
        show_pod(controller, "c", /* is_gone= */ false);
        show_pod(controller, "d", /* is_gone= */ false);
        show_pod(controller, "c", /* is_gone= */ true);
        turn(controller);
        assert_int_equal(server.n_reads, 1);
        assert_null(entry_of(C));
        assert_non_null(entry_of("configmap/shop/d"));
}

/* A Secret that another program has written. */
TEST_F(test_keys_that_name_no_object, Controller *controller) {
        json_object_put(server.ledger);
        server.ledger = parse("{'c':{},'configmap':{},'configmap/shop':{},'configmap/shop/':{},"
                              "'configmap//c':{},'pod/shop/c':{}}");
        turn(controller);
        assert_int_equal(server.n_reads, 0);
}

/* Another program has emptied it: the controller waits until it is a ledger again. */
TEST_F(test_empty_ledger, Controller *controller) {
        json_object_put(server.ledger);
        server.ledger = NULL;
        show_pod(controller, "c", /* is_gone= */ false);
        turn(controller);
        assert_int_equal(server.n_reads, 0);

        server.ledger = parse("{}");
        turn(controller);
        assert_non_null(entry_of(C));
}

/* An update in place that a person begins, of a workload which declares none. */
TEST_F(test_restart_ends_for_an_update, Controller *controller) {
        show_pod(controller, "c", /* is_gone= */ false);
        turn(controller);
        server.value++;
        change_map(controller, "c");
        turn(controller);
        assert_int_equal(server.n_begun, 0);
        server.now_sec += 20;
        turn(controller);
        assert_int_equal(server.n_begun, 1);

        assert_ok(config_restarts_end(controller->restarts, "statefulset.apps/web", "other"));
        assert_ok(config_restarts_end(controller->restarts, "statefulset.apps/other", "shop"));
        assert_int_equal(server.n_ended, 0);
        assert_ok(config_restarts_end(controller->restarts, "statefulset.apps/web", "shop"));
        assert_int_equal(server.n_ended, 1);
        turn(controller);
        assert_int_equal(server.n_begun, 1);

        /* It is asked again later whether the update is still open. */
        server.now_sec += 60;
        turn(controller);
        assert_int_equal(server.n_begun, 2);
        assert_int_equal(server.n_ended, 1);
        stop(controller);
        assert_int_equal(server.n_ended, 2);
}

/* The first controller of a cluster makes it. */
TEST_F(test_first_ledger, Controller *controller) {
        server.ledger_version = 0;
        show_pod(controller, "c", /* is_gone= */ false);
        turn(controller);
        assert_int_equal(server.n_reads, 1);
        assert_non_null(entry_of(C));
}

static const struct SharedRow {
        const char *name;
        bool all_namespaces;
        unsigned n_reads;
} shared_rows[] = {
        { "of one namespace", false, 100 },
        { "of all namespaces, of which one leaves a quarter to the others", true, 75 },
};

/* The Lease is renewed between turns. */
TEST_ROWS_F(test_many_objects, shared_rows, name, const struct SharedRow *row,
            Controller *controller) {
        controller->flags.all_namespaces = row->all_namespaces;
        for (int i = 0; i < 120; i++) {
                char name[16];

                (void) snprintf(name, sizeof(name), "c-%d", i);
                show_pod(controller, name, /* is_gone= */ false);
        }
        turn(controller);
        assert_int_equal(server.n_reads, row->n_reads);
        turn(controller);
        assert_int_equal(server.n_reads, 120);
}

/* A ConfigMap changes, and all that may be started with the value before is seen. */
static void change_and_wait(Controller *controller) {
        show_pod(controller, "c", /* is_gone= */ false);
        turn(controller);
        server.value++;
        change_map(controller, "c");
        turn(controller);
        server.now_sec += 20;
        turn(controller);
}

/* A change of second 1000 counts for containers that were started up to ten seconds later. */
TEST_F(test_words_of_a_run, Controller *controller) {
        change_and_wait(controller);
        assert_string_equal(server.words,
                            " __restart-pods statefulset.apps/web 1010 c --containers main "
                            "--namespace shop");
}

static const struct RecordRow {
        const char *name;
        const char *state;
        bool is_open;
} record_rows[] = {
        { "goes on", "forward", true },
        { "is taken back", "undo", true },
        { "has ended", "done", false },
};

/* A restart beside an update in place that a person has begun would be a fault to it. */
TEST_ROWS_F(test_workload_with_an_update, record_rows, name, const struct RecordRow *row,
            Controller *controller) {
        cleanup(json_object_put_p) json_object *record =
                parse("{'mode':'set-image','state':'%s','by':'alice','since':'s','revision':'r',"
                      "'before':{'main':'app:1'},'after':{'main':'app:2'}}",
                      row->state);

        server.record = json_to_text(record);
        change_and_wait(controller);
        assert_int_equal(server.n_begun, row->is_open ? 0 : 1);
}

static const struct BudgetRow {
        const char *name;
        const char *budget;
        const char *first, *second; /* workloads in the order in which they restart */
        bool is_shared;
} budget_rows[] = {
        { "no budget", NULL, "db", "web", false },
        { "of one workload", "{'app':'web'}", "db", "web", false },
        { "of both", "{'part':'web'}", "db", "web", true },
        { "of both, in another order than by name", "{'part':'web'}", "web", "db", true },
};

/* A change that two workloads use: the budget would allow each of them its pod. */
TEST_ROWS_F(test_workloads_of_one_budget, budget_rows, name, const struct BudgetRow *row,
            Controller *controller) {
        char first[64];

        server.budget = row->budget;
        show_pod_of(controller, row->first, "c", /* is_gone= */ false);
        show_pod_of(controller, row->second, "d", /* is_gone= */ false);
        turn(controller);
        server.value++;
        change_map(controller, "c");
        change_map(controller, "d");
        turn(controller);
        server.now_sec += 20;
        turn(controller);
        assert_int_equal(server.n_begun, row->is_shared ? 1 : 2);
        server.now_sec += 60;
        turn(controller);
        assert_int_equal(server.n_begun, row->is_shared ? 1 : 2);

        (void) snprintf(first, sizeof(first), "statefulset.apps/%s", row->first);
        assert_ok(config_restarts_end(controller->restarts, first, "shop"));
        show_pod_of(controller, row->first, "c", /* is_gone= */ true);
        server.now_sec += 60;
        turn(controller);
        assert_int_equal(server.n_begun, 2);
}
