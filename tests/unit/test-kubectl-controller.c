/* SPDX-License-Identifier: Apache-2.0 */

/* When the controller acts on workloads, and on how many at a time. */

#include "tests/unit/unit.h"

#include <errno.h>

#include "agent/base/text.h"
#include "agent/kube/event.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/config-restarts.h"
#include "agent/kubectl/leader.h"
#include "agent/kubectl/own-run.h"
#include "tests/unit/quoted-json.h"

#define RUNS_MAX 64

/* A server and the programs that run; its functions stand for those of the session, see tests/CMakeLists.txt. */
static struct {
        bool is_led_by_other;
        void (*script)(void); /* shows changes before each turn */
        unsigned n_turns, n_turns_max;
        SessionWatch deployments;
        void *userdata;  /* the controller's */
        unsigned is_due; /* bits of the turns in which something was due */
        unsigned n_begun, n_patches, n_started, n_config_turns;
        ProgramDone on_done[RUNS_MAX];
        void *runs[RUNS_MAX]; /* userdata of on_done */
        const char *template; /* image of the workload that is read */
} server;

int __wrap_config_restarts_new(const ConfigRestartsOptions *options, ConfigRestarts **ret);
bool __wrap_config_restarts_is_due(const ConfigRestarts *restarts);
int __wrap_config_restarts_turn(ConfigRestarts *restarts, Error *reterr);
void __wrap_config_restarts_watches(ConfigRestarts *restarts, const char *namespace,
                                    SessionWatch *ret);
ConfigRestarts *__wrap_config_restarts_free(ConfigRestarts *restarts);
int __wrap_kube_events_new(const KubeEventsOptions *options, KubeEvents **ret);
int __wrap_kube_event_send(KubeEvents *events, const KubeReference *object, const char *type,
                           const char *reason, const char *message);
int __wrap_leader_step(Leader *leader, Error *reterr);
void __wrap_leader_resign(Leader *leader);
int __wrap_log_new(LogFormat format, int level, Log **ret);
int __wrap_own_run(Session *session, const Flags *flags, const char *const *words,
                   ProgramDone on_done, void *userdata, Program **ret);
int __wrap_own_run_guard(OwnRunGuard *guard, Session *session);
Program *__wrap_program_free(Program *program);
KubeClient *__wrap_session_client(const Session *session);
int __wrap_session_end_status(const Session *session);
int __wrap_session_fail(const Session *session, int r, const Error *error);
int __wrap_session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                              void *userdata, SessionFollow **ret);
int __wrap_session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                               int (*is_away)(const Error *error, void *userdata), void *userdata,
                               Error *reterr);
int __wrap_session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr);
const char *__wrap_session_namespace(const Session *session);
int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *body, json_object **ret, Error *reterr);
int64_t __wrap_session_server_sec(const Session *session);

int __wrap_config_restarts_new(const ConfigRestartsOptions *options, ConfigRestarts **ret) {
        *ret = (ConfigRestarts *) &server;
        return 0;
}

bool __wrap_config_restarts_is_due(const ConfigRestarts *restarts) {
        return restarts != NULL;
}

int __wrap_config_restarts_turn(ConfigRestarts *restarts, Error *reterr) {
        server.n_config_turns++;
        return 0;
}

void __wrap_config_restarts_watches(ConfigRestarts *restarts, const char *namespace,
                                    SessionWatch *ret) {
}

ConfigRestarts *__wrap_config_restarts_free(ConfigRestarts *restarts) {
        return NULL;
}

int __wrap_kube_events_new(const KubeEventsOptions *options, KubeEvents **ret) {
        return 0;
}

int __wrap_kube_event_send(KubeEvents *events, const KubeReference *object, const char *type,
                           const char *reason, const char *message) {
        server.n_started += strcmp(reason, "InPlaceUpdateStarted") == 0;
        return 0;
}

int __wrap_leader_step(Leader *leader, Error *reterr) {
        leader->is_leading = !server.is_led_by_other;
        leader->due_usec = UINT64_MAX;
        return 0;
}

void __wrap_leader_resign(Leader *leader) {
}

int __wrap_log_new(LogFormat format, int level, Log **ret) {
        return 0;
}

int __wrap_own_run(Session *session, const Flags *flags, const char *const *words,
                   ProgramDone on_done, void *userdata, Program **ret) {
        assert_true(server.n_begun < RUNS_MAX);
        server.on_done[server.n_begun] = on_done;
        server.runs[server.n_begun++] = userdata;
        *ret = (Program *) &server;
        return 0;
}

int __wrap_own_run_guard(OwnRunGuard *guard, Session *session) {
        return 0;
}

Program *__wrap_program_free(Program *program) {
        return NULL;
}

KubeClient *__wrap_session_client(const Session *session) {
        return NULL;
}

int __wrap_session_end_status(const Session *session) {
        return 0;
}

int __wrap_session_fail(const Session *session, int r, const Error *error) {
        return r;
}

int __wrap_session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                              void *userdata, SessionFollow **ret) {
        server.deployments = watches[0];
        server.userdata = userdata;
        return 0;
}

int __wrap_session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                               int (*is_away)(const Error *error, void *userdata), void *userdata,
                               Error *reterr) {
        if (server.n_turns == server.n_turns_max)
                return -ECANCELED;
        server.script();
        server.is_due |= (unsigned) is_done(userdata) << server.n_turns++;
        return 0;
}

/* record: of an update that is open; "": there is none. */
static json_object *make_workload(const char *name, const char *image, const char *record) {
        return parse("{'metadata':{'name':'%s','namespace':'shop','uid':'u','annotations':{"
                     "'inplaced.io/update':'InPlaceOnly'%s%s}},'spec':{'paused':%s,'template':{"
                     "'spec':{'containers':[{'name':'app','image':'%s'}]}}}}",
                     name, image ? ",'inplaced.io/held':'paused'" : "", record,
                     image ? "true" : "false", image ?: "app:1");
}

int __wrap_session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr) {
        *ret = make_workload(path->name, server.template, "");
        return 0;
}

const char *__wrap_session_namespace(const Session *session) {
        return "inplaced";
}

int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *body, json_object **ret, Error *reterr) {
        server.n_patches++;
        return 0;
}

int64_t __wrap_session_server_sec(const Session *session) {
        return 1000;
}

/* image: the next one of its template, for which it is held; NULL: it is not. */
static void show(const char *name, const char *image, const char *record) {
        cleanup(json_object_put_p) json_object *workload = make_workload(name, image, record);

        assert_ok(server.deployments.on_object(
                &(KubeObject){ .namespace = "shop", .name = name, .uid = "u", .json = workload },
                server.userdata));
}

static void run_controller(const Flags *flags, void (*script)(void), unsigned n_turns) {
        server.script = script;
        server.n_turns_max = n_turns;
        assert_int_equal(kubectl_controller(NULL, flags), -ECANCELED);
}

static void begin(void) {
        memset(&server, 0, sizeof(server));
}

static void change_second(void) {
        if (server.n_turns == 0)
                show("db", NULL, "");
        show("web", server.n_turns < 2 ? NULL : "app:2", "");
}

/* The Lease is not due for a while. */
TEST(test_change) {
        begin();
        run_controller(&(const Flags){ 0 }, change_second, 3);
        assert_int_equal(server.is_due, 1u << 0 | 1u << 2);
        assert_int_equal(server.n_begun, 1);
}

static void show_record(void) {
        show("web", "app:2",
             server.n_turns < 2
                     ? ""
                     : ",'inplaced.io/rollout':'{\\'state\\':\\'forward\\',\\'mode\\':\\'rollout\\',"
                       "\\'by\\':\\'inplaced-controller\\',\\'since\\':\\'\\',\\'revision\\':\\'\\',"
                       "\\'before\\':{},\\'after\\':{}}'");
}

/* From the record on, "kubectl describe" says so. */
TEST(test_announcement) {
        begin();
        run_controller(&(const Flags){ 0 }, show_record, 4);
        assert_int_equal(server.is_due, 1u << 0 | 1u << 2);
        assert_int_equal(server.n_begun, 1);
        assert_int_equal(server.n_started, 1);
}

static void show_many(void) {
        for (int i = 0; i < 40; i++) {
                char name[16];

                (void) snprintf(name, sizeof(name), "web-%d", i);
                show(name, "app:2", "");
        }
}

/* A user with many workloads leaves the others a quarter of the places. */
TEST(test_places) {
        begin();
        run_controller(&(const Flags){ .all_namespaces = true }, show_many, 2);
        assert_int_equal(server.n_begun, 24);
        begin();
        run_controller(&(const Flags){ 0 }, show_many, 2);
        assert_int_equal(server.n_begun, 32);
}

static void end_first_run(void) {
        static const char output[] = "{\"outcome\":\"updated\"}";

        if (server.n_turns == 0)
                show("web", "app:2", "");
        else if (server.n_turns == 1)
                assert_ok(server.on_done[0](output, strlen(output), NULL, server.runs[0]));
}

static const struct GivenBackRow {
        const char *name;
        const char *template;
        bool is_given_back;
        unsigned n_begun;
} given_back_rows[] = {
        { "all pods have its images", "app:2", true, 1 },
        { "a newer template has come meanwhile", "app:3", false, 2 },
};

/* Kubernetes would replace the pods of a workload that is given back too early. */
TEST_ROWS(test_given_back, given_back_rows, name, const struct GivenBackRow *row) {
        begin();
        server.template = row->template;
        run_controller(&(const Flags){ 0 }, end_first_run, 3);
        assert_int_equal(server.n_patches > 0, row->is_given_back);
        assert_int_equal(server.n_begun, row->n_begun);
}

static void show_nothing(void) {
}

static const struct LedRow {
        const char *name;
        bool is_led_by_other;
} led_rows[] = { { "it leads", false }, { "another one leads", true } };

/* Restarts for changed configuration would begin twice. */
TEST_ROWS(test_config_restarts, led_rows, name, const struct LedRow *row) {
        begin();
        server.is_led_by_other = row->is_led_by_other;
        run_controller(&(const Flags){ .restart_on_config_change = true }, show_nothing, 2);
        assert_int_equal(server.n_config_turns, row->is_led_by_other ? 0 : 2);
}
