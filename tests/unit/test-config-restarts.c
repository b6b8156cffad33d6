/* SPDX-License-Identifier: Apache-2.0 */

/* Which objects the controller reads and keeps in its ledger while no pod uses them, which restarts end early, and what it does
 * when the server or a run fails. */

#include "tests/unit/unit.h"

#include <errno.h>
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
        ProgramDone on_done;       /* callback of the last run */
        void *userdata;
        char said[2048];      /* log and events */
        int updated;          /* answer of the controller about each workload */
        ErrorKind error;      /* each read of a ConfigMap ends so, with this code */
        ErrorKind conflict;   /* the next write of the ledger ends so */
        ErrorKind unreadable; /* each read of a workload ends so */
        int code;
        bool is_ended;
        unsigned n_keys; /* keys of a ConfigMap with long names; 0: it has one */
        const char *key; /* key of the ledger; NULL: KEY */
} server;

int __wrap_kube_event_send(KubeEvents *events, const KubeReference *object, const char *type,
                           const char *reason, const char *message);
void __wrap_log_write(Log *log, int level, const LogField *fields, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
int __wrap_session_code(const Session *session);
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

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...) {
        size_t size = strlen(server.said);
        va_list arguments;

        va_start(arguments, format);
        (void) vsnprintf(server.said + size, sizeof(server.said) - size, format, arguments);
        va_end(arguments);
}

static json_object *make_secret(void) {
        const char *text = server.ledger ? json_to_text(server.ledger) : "";
        char key[64], versions[4096];

        assert_true(b64_ntop((const unsigned char *) (server.key ?: KEY), strlen(server.key ?: KEY),
                             key, sizeof(key)) >= 0);
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
        if (strcmp(path->resource, "secrets") == 0 && strcmp(path->name, "s") != 0) {
                if (server.ledger_version == 0)
                        return error_set(reterr, ERROR_NOT_FOUND, "no");
                *ret = make_secret();
                return 0;
        }
        if (strcmp(path->resource, "statefulsets") == 0) {
                if (server.unreadable)
                        return error_set(reterr, server.unreadable, "busy");
                *ret = parse(
                        "{'kind':'StatefulSet','metadata':{'name':'%s','uid':'w'},'spec':{'template':{'metadata':{'labels':{"
                        "'app':'%s','part':'web'}}}}}",
                        path->name, path->name);
                if (server.record)
                        assert_ok(patch_add(json_object_object_get(*ret, "metadata"), "annotations",
                                            patch_wrap(ROLLOUT_ANNOTATION,
                                                       json_object_new_string(server.record))));
                return 0;
        }
        server.n_reads++;
        if (server.error)
                return error_set(reterr, server.error, "no");
        *ret = parse("{'metadata':{'resourceVersion':'%u'},'data':{'K':'%u'}}", server.version,
                     server.value);
        for (unsigned i = 0; i < server.n_keys; i++) {
                char key[256];

                (void) snprintf(key, sizeof(key), "%0250u", i);
                assert_ok(patch_add_text(json_get(*ret, "data", json_type_object), key, ""));
        }
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
        say("%s %s %s/%s %s: %s\n", type, reason, object->namespace, object->name, object->uid,
            message);
        return 0;
}

void __wrap_log_write(Log *log, int level, const LogField *fields, const char *format, ...) {
        char text[1024];
        va_list arguments;

        va_start(arguments, format);
        (void) vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        say("%s%s\n", level == LOG_WARNING ? "warning: " : "", text);
}

int __wrap_session_code(const Session *session) {
        return server.code;
}

static ErrorKind take_conflict(void) {
        ErrorKind kind = server.conflict;

        server.conflict = ERROR_NONE;
        return kind;
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
        if (server.conflict) {
                server.ledger_version--;
                return error_set(reterr, take_conflict(), "another controller was first");
        }
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
        return server.is_ended;
}

int __wrap_own_run(Session *session, const Flags *flags, const char *const *words,
                   ProgramDone on_done, void *userdata, Program **ret) {
        size_t size = 0;

        server.words[0] = '\0';
        for (; *words; words++)
                size += (size_t) snprintf(server.words + size, sizeof(server.words) - size, " %s",
                                          *words);
        server.n_begun++;
        server.on_done = on_done;
        server.userdata = userdata;
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
        assert_string_equal(namespace, "shop");
        return server.updated;
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
        memset(&server, 0, sizeof(server));
        server.now_sec = START_SEC;
        server.ledger = parse("{}");
        server.version = server.value = 1;
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
        assert_int_equal(server.n_reads, 600 / 30);
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

/* The controller before has left these. */
TEST_F(test_keys_that_name_objects, Controller *controller) {
        json_object_put(server.ledger);
        server.ledger = parse("{'configmap/shop/c':{},'secret/shop/s':{}}");
        turn(controller);
        assert_int_equal(server.n_reads, 2);
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

/* The run of the last group ends. */
static void end_run(const char *output, const char *failure) {
        cleanup(error_done) Error error = ERROR_INIT;

        server.said[0] = '\0';
        if (failure)
                error_set(&error, ERROR_INTERNAL, "%s", failure);
        assert_ok(server.on_done(output, strlen(output), failure ? &error : NULL, server.userdata));
}

#define CAUSE "key \"K\" of ConfigMap \"c\""
#define SUCCEEDED "InPlaceRestartSucceeded"
#define FAILED(reason)                                                                    \
        "warning: \"shop statefulset.apps/web\": for the changed " CAUSE ": " reason "\n" \
        "Warning InPlaceRestartFailed shop/web w: for the changed " CAUSE ": " reason "\n"

static const struct EndRow {
        const char *name;
        const char *output, *failure, *said;
        unsigned n_later; /* runs that begin after it */
} end_rows[] = {
        { "well", "{\"outcome\":\"restarted\"}", NULL,
          "\"shop statefulset.apps/web\": 1 pods have restarted with the changed " CAUSE "\n"
          "Normal " SUCCEEDED " shop/web w: 1 pods have restarted with the changed " CAUSE "\n",
          0 },
        { "with a failure", "{\"outcome\":\"failed\",\"reason\":\"it crashes\"}", NULL,
          FAILED("it crashes"), 1 },
        { "without a reason", "{}", NULL, FAILED("it was refused"), 1 },
        { "without JSON", "x", NULL, FAILED("not valid JSON at byte 0: unexpected character"), 1 },
        { "by a signal", "", "it was killed", FAILED("it was killed"), 1 },
};

/* A run that has failed is tried again after a minute; a pod that has restarted has the change, whatever the clock of its node says. */
TEST_ROWS_F(test_end_of_a_run, end_rows, name, const struct EndRow *row, Controller *controller) {
        change_and_wait(controller);
        assert_string_equal(server.said,
                            "\"shop statefulset.apps/web\": main of 1 pods restarts for the "
                            "changed " CAUSE "\n"
                            "Normal InPlaceRestartStarted shop/web w: main of 1 pods restarts for "
                            "the changed " CAUSE "\n");
        end_run(row->output, row->failure);
        assert_string_equal(server.said, row->said);
        assert_int_equal(server.n_ended, 1);
        server.now_sec += 59;
        turn(controller);
        assert_int_equal(server.n_begun, 1);
        server.now_sec += 1;
        turn(controller);
        assert_int_equal(server.n_begun, 1 + row->n_later);
}

/* Each failure in a row doubles the pause, up to ten minutes; a newer change ends it. */
TEST_F(test_pauses_between_runs, Controller *controller) {
        static const int64_t pauses_sec[] = { 60, 120, 240, 480, 600, 600, 600 };

        change_and_wait(controller);
        for (unsigned i = 0; i < N_ELEMENTS(pauses_sec); i++) {
                end_run("{}", NULL);
                server.now_sec += pauses_sec[i] - 1;
                turn(controller);
                assert_int_equal(server.n_begun, 1 + i);
                server.now_sec++;
                turn(controller);
                assert_int_equal(server.n_begun, 2 + i);
        }
        end_run("{}", NULL);
        server.value++;
        change_map(controller, "c");
        turn(controller);
        server.now_sec += 20;
        turn(controller);
        assert_int_equal(server.n_begun, 9);
}

/* The change that comes during a run may take back what that one does. */
TEST_F(test_change_during_a_run, Controller *controller) {
        change_and_wait(controller);
        server.value++;
        change_map(controller, "c");
        turn(controller);
        assert_int_equal(server.n_ended, 0);
        server.now_sec += 20;
        turn(controller);
        assert_int_equal(server.n_ended, 1);
        assert_int_equal(server.n_begun, 2);
        assert_string_equal(server.words,
                            " __restart-pods statefulset.apps/web 1030 c --containers main "
                            "--namespace shop");
}

static const struct YieldRow {
        const char *name;
        int updated;
        ErrorKind unreadable;
        unsigned n_begun;
        bool is_said; /* in an event */
} yield_rows[] = {
        { "the controller updates it", 1, ERROR_NONE, 0, false },
        { "the server is busy", 0, ERROR_UNAVAILABLE, 0, false },
        { "it is gone", 0, ERROR_NOT_FOUND, 1, false },
        { "it may not be read", 0, ERROR_DENIED, 1, false },
        { "nothing", 0, ERROR_NONE, 1, true },
};

/* It is asked again after half a minute. */
TEST_ROWS_F(test_what_comes_before_a_run, yield_rows, name, const struct YieldRow *row,
            Controller *controller) {
        server.updated = row->updated;
        server.unreadable = row->unreadable;
        change_and_wait(controller);
        assert_int_equal(server.n_begun, row->n_begun);
        assert_int_equal(strstr(server.said, "\nNormal InPlaceRestartStarted") != NULL,
                         row->is_said);
        server.updated = 0;
        server.unreadable = ERROR_NONE;
        server.now_sec += 29;
        turn(controller);
        assert_int_equal(server.n_begun, row->n_begun);
        server.now_sec++;
        turn(controller);
        assert_int_equal(server.n_begun, 1);
}

/* The update of a workload comes before its restart, and what fails in the controller ends the turn. */
TEST_F(test_update_during_a_run, Controller *controller) {
        cleanup(error_done) Error error = ERROR_INIT;

        change_and_wait(controller);
        server.updated = 1;
        turn(controller);
        assert_int_equal(server.n_ended, 1);
        server.updated = -ENOMEM;
        server.now_sec += 60;
        assert_int_equal(config_restarts_turn(controller->restarts, &error), -ENOMEM);
        assert_int_equal(server.n_begun, 1);
}

static const struct RunsRow {
        const char *name;
        bool all_namespaces;
        unsigned n_runs; /* runs at a time */
} runs_rows[] = {
        { "of one namespace", false, CONFIG_RUNS_MAX },
        { "of all namespaces, of which one leaves a quarter to the others", true,
          CONFIG_RUNS_MAX * 3 / 4 },
};

TEST_ROWS_F(test_runs, runs_rows, name, const struct RunsRow *row, Controller *controller) {
        OwnRun runs[CONFIG_RUNS_MAX];

        controller->flags.all_namespaces = row->all_namespaces;

        assert_int_equal(config_restarts_runs(NULL, runs), 0);
        assert_int_equal(config_restarts_runs(controller->restarts, runs), 0);
        for (int i = 0; i < 6; i++) {
                char name[16];

                (void) snprintf(name, sizeof(name), "c-%d", i);
                show_pod_of(controller, name, name, /* is_gone= */ false);
        }
        turn(controller);
        server.value++;
        for (int i = 0; i < 6; i++) {
                char name[16];

                (void) snprintf(name, sizeof(name), "c-%d", i);
                change_map(controller, name);
        }
        turn(controller);
        server.now_sec += 20;
        turn(controller);
        assert_int_equal(server.n_begun, row->n_runs);
        assert_int_equal(config_restarts_runs(controller->restarts, runs), row->n_runs);
        for (size_t i = 0; i < row->n_runs; i++) {
                assert_ptr_equal(runs[i].program, &server);
                assert_string_equal(runs[i].namespace, "shop");
        }
        assert_ok(config_restarts_end(controller->restarts, "statefulset.apps/c-1", "shop"));
        assert_int_equal(config_restarts_runs(controller->restarts, runs), row->n_runs - 1);
        turn(controller);
        assert_int_equal(server.n_begun, row->n_runs + 1);
}

static const struct ReadRow {
        const char *name;
        ErrorKind error;
        int code;
        const char *said;
        bool is_noted; /* as one that is not there */
        int64_t pause_sec;
} read_rows[] = {
        { "none", ERROR_NOT_FOUND, 404, "", true, 0 },
        { "no name", ERROR_INVALID, 400, "", true, 0 },
        { "no answer that can be read", ERROR_INVALID, 399,
          "warning: Containers do not restart for changes of configmap/shop/c for now: no\n", false,
          30 },
        { "a failure of the server", ERROR_UNAVAILABLE, 500,
          "warning: Containers do not restart for changes of configmap/shop/c for now: no\n", false,
          30 },
        { "no right", ERROR_DENIED, 403,
          "warning: Containers do not restart for changes of configmap/shop/c for now: no\n", false,
          30 },
        { "a server that is busy", ERROR_UNAVAILABLE, 501,
          "warning: Restarts for changed configuration wait: no\n", false, 10 },
        { "too many requests", ERROR_UNAVAILABLE, 429,
          "warning: Restarts for changed configuration wait: no\n", false, 10 },
        { "an unknown user", ERROR_DENIED, 401,
          "warning: Restarts for changed configuration wait: no\n", false, 10 },
        { "no server", ERROR_UNAVAILABLE, 0,
          "warning: Restarts for changed configuration wait: no\n", false, 10 },
};

/* It is read again after a pause, and noted then. */
TEST_ROWS_F(test_object_that_is_not_shown, read_rows, name, const struct ReadRow *row,
            Controller *controller) {
        server.error = row->error;
        server.code = row->code;
        show_pod(controller, "c", /* is_gone= */ false);
        assert_true(config_restarts_is_due(controller->restarts));
        turn(controller);
        assert_string_equal(server.said, row->said);
        assert_int_equal(entry_of(C) != NULL, row->is_noted);
        if (row->is_noted) {
                assert_false(config_restarts_is_due(controller->restarts));
                return;
        }
        server.now_sec += row->pause_sec - 1;
        assert_int_equal(config_restarts_is_due(controller->restarts), row->pause_sec > 10);
        if (row->pause_sec > 10)
                turn(controller);
        assert_int_equal(server.n_reads, 1);
        server.now_sec++;
        assert_true(config_restarts_is_due(controller->restarts));
        server.error = ERROR_NONE;
        turn(controller);
        assert_int_equal(server.n_reads, 2);
        assert_non_null(entry_of(C));
        assert_string_equal(server.said, row->said);
}

/* The same is said once, and once more after it was better. */
TEST_F(test_object_that_is_not_shown_again, Controller *controller) {
        size_t size;

        server.error = ERROR_DENIED;
        server.code = 403;
        show_pod(controller, "c", /* is_gone= */ false);
        turn(controller);
        size = strlen(server.said);
        server.now_sec += 30;
        turn(controller);
        assert_int_equal(strlen(server.said), size);
        server.error = ERROR_NONE;
        server.now_sec += 30;
        turn(controller);
        server.error = ERROR_DENIED;
        change_map(controller, "c");
        turn(controller);
        assert_int_equal(server.n_reads, 4);
        assert_int_equal(strlen(server.said), 2 * size);
}

/* The command ends, which is no trouble. */
TEST_F(test_end_of_the_controller, Controller *controller) {
        cleanup(error_done) Error error = ERROR_INIT;

        server.error = ERROR_CANCELED;
        server.is_ended = true;
        show_pod(controller, "c", /* is_gone= */ false);
        assert_true(config_restarts_turn(controller->restarts, &error) < 0);
        assert_int_equal(error.kind, ERROR_CANCELED);
        assert_string_equal(server.said, "");
}

static const struct ConflictRow {
        const char *name;
        ErrorKind error;
        unsigned n_reads; /* reads of the object, once more if the ledger may be another one */
} conflict_rows[] = {
        { "another controller", ERROR_CONFLICT, 2 },
        { "a ledger that is gone", ERROR_NOT_FOUND, 2 },
        { "a server that is busy", ERROR_UNAVAILABLE, 1 },
};

TEST_ROWS_F(test_ledger_that_is_not_written, conflict_rows, name, const struct ConflictRow *row,
            Controller *controller) {
        show_pod(controller, "c", /* is_gone= */ false);
        server.conflict = row->error;
        turn(controller);
        assert_string_equal(server.said,
                            "warning: Restarts for changed configuration wait: another "
                            "controller was first\n");
        assert_null(entry_of(C));
        server.now_sec += 9;
        assert_false(config_restarts_is_due(controller->restarts));
        server.now_sec++;
        assert_true(config_restarts_is_due(controller->restarts));
        turn(controller);
        assert_int_equal(server.n_reads, row->n_reads);
        assert_non_null(entry_of(C));
        assert_false(config_restarts_is_due(controller->restarts));
}

static const char *const damaged_keys[] = { "",
                                            "3",
                                            KEY "3",
                                            KEY "x",
                                            "3031323334353637383961626364656x",
                                            "x0313233343536373839616263646566" };

TEST_F(test_damaged_key, Controller *controller) {
        for (size_t i = 0; i < N_ELEMENTS(damaged_keys); i++) {
                server.key = damaged_keys[i];
                server.said[0] = '\0';
                turn(controller);
                assert_string_equal(server.said,
                                    "warning: Restarts for changed configuration wait: the Secret "
                                    "inplaced-config-versions is damaged: delete it, which forgets "
                                    "what has changed since\n");
        }
}

/* Two objects that are too large for the ledger are named once, and not noted again. */
TEST_F(test_ledger_without_room, Controller *controller) {
        server.n_keys = 4000;
        show_pod(controller, "c", /* is_gone= */ false);
        show_pod(controller, "d", /* is_gone= */ false);
        turn(controller);
        assert_string_equal(server.said,
                            "warning: The Secret inplaced-config-versions has no room for the keys "
                            "of configmap/shop/d and others: containers do not restart for its "
                            "changes. Let fewer pods of its namespace ask for restarts, or use "
                            "objects with fewer keys.\n");
        server.n_keys = 0;
        change_map(controller, "c");
        turn(controller);
        assert_null(entry_of(C));
        assert_int_equal(server.n_reads, 3);
}

/* An object that is gone is read, and so is one that comes back. */
TEST_F(test_object_that_is_gone, Controller *controller) {
        const KubeObject object = {
                .namespace = "shop", .name = "c", .uid = "u", .resource_version = "1"
        };

        show_pod(controller, "c", /* is_gone= */ false);
        turn(controller);
        assert_ok(controller->watches[1].on_object(&object, controller->watches[1].userdata));
        turn(controller);
        assert_int_equal(server.n_reads, 1);
        assert_ok(controller->watches[2].on_gone(&object, controller->watches[2].userdata));
        turn(controller);
        assert_int_equal(server.n_reads, 1);
        assert_ok(controller->watches[1].on_gone(&object, controller->watches[1].userdata));
        turn(controller);
        assert_int_equal(server.n_reads, 2);
}
