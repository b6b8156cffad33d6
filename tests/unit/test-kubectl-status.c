/* SPDX-License-Identifier: Apache-2.0 */

/* The pulls that "kubectl inplace status" shows, and when --watch reads and shows the updates again. */

#include "tests/unit/unit.h"

#include <time.h>

#include "agent/document/json-reader.h"
#include "agent/kubectl/agents.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/open-updates.h"
#include "agent/kubectl/pod-choice.h"
#include "agent/kubectl/pod-pulls.h"
#include "agent/view/output.h"
#include "tests/unit/quoted-json.h"

#define UPDATE                                                                                  \
        "{'kind': 'ReplicaSet', 'namespace': 'shop', 'name': 'web', 'state': 'forward', 'by': " \
        "'alice', 'text': 'open'}"

/* The server; its functions stand for those of the session and of what asks it, see tests/CMakeLists.txt. */
static struct {
        const char *updates; /* updates that are open */
        int64_t now_sec, wait_sec;
        unsigned n_asked; /* questions to agents */
        unsigned n_waits, n_read, n_shown;
        json_object *shown; /* the last document */
} server;

int __wrap_agents_read(Session *session, const char *node_image_version, bool must_answer,
                       Agents *ret, Error *reterr);
int __wrap_open_updates_of_namespace(Session *session, const char *namespace, const char *labels,
                                     json_object *list, Error *reterr);
int __wrap_output_tree(OutputFormat format, json_object *tree);
int __wrap_pod_choice_list(Session *session, const PodChoice *choice, const char *namespace,
                           SessionItem on_pod, void *userdata, size_t *ret_n, Error *reterr);
int __wrap_pod_pulls_new(Session *session, const Flags *flags, PodPulls **ret);
PodPulls *__wrap_pod_pulls_free(PodPulls *pulls);
int __wrap_pod_pulls_ask(PodPulls *pulls, const NodeAgent *agent);
int __wrap_pod_pulls_wait(PodPulls *pulls, Error *reterr);
json_object *__wrap_pod_pulls_find(const PodPulls *pulls, const char *namespace, const char *name);
int __wrap_session_end_status(const Session *session);
int __wrap_session_find_kruise(Session *session, const char *resource, const char **ret,
                               Error *reterr);
int __wrap_session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                              void *userdata, SessionFollow **ret);
int __wrap_session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                               int (*is_away)(const Error *error, void *userdata), void *userdata,
                               Error *reterr);
const char *__wrap_session_namespace(const Session *session);

int __wrap_agents_read(Session *session, const char *node_image_version, bool must_answer,
                       Agents *ret, Error *reterr) {
        return 0;
}

int clock_gettime(clockid_t clock, struct timespec *ret) {
        *ret = (struct timespec){ .tv_sec = server.now_sec };
        return 0;
}

int __wrap_open_updates_of_namespace(Session *session, const char *namespace, const char *labels,
                                     json_object *list, Error *reterr) {
        server.n_read++;
        if (server.updates)
                json_object_array_add(list, parse("%s", server.updates));
        return 0;
}

int __wrap_output_tree(OutputFormat format, json_object *tree) {
        server.n_shown++;
        json_object_put(server.shown);
        server.shown = json_object_get(tree);
        return 0;
}

/* The one waits for its image, and the other runs. */
int __wrap_pod_choice_list(Session *session, const PodChoice *choice, const char *namespace,
                           SessionItem on_pod, void *userdata, size_t *ret_n, Error *reterr) {
        static const char *const states[] = { "'waiting': {'reason': 'ImagePullBackOff'}",
                                              "'running': {}" };

        for (*ret_n = 0; *ret_n < N_ELEMENTS(states); ++*ret_n) {
                cleanup(json_object_put_p) json_object *pod =
                        parse("{'metadata': {'name': 'web-%zu', 'namespace': 'shop'}, 'spec': "
                              "{'nodeName': 'n', 'containers': [{'name': 'app', 'image': 'A'}]}, "
                              "'status': {'containerStatuses': [{'name': 'app', 'state': {%s}}]}}",
                              *ret_n, states[*ret_n]);

                assert_ok(on_pod(pod, userdata));
        }
        return 0;
}

int __wrap_pod_pulls_new(Session *session, const Flags *flags, PodPulls **ret) {
        *ret = (PodPulls *) &server;
        return 0;
}

PodPulls *__wrap_pod_pulls_free(PodPulls *pulls) {
        return NULL;
}

int __wrap_pod_pulls_ask(PodPulls *pulls, const NodeAgent *agent) {
        server.n_asked++;
        return 0;
}

int __wrap_pod_pulls_wait(PodPulls *pulls, Error *reterr) {
        return 0;
}

json_object *__wrap_pod_pulls_find(const PodPulls *pulls, const char *namespace, const char *name) {
        static json_object *pull;

        if (!pull)
                pull = parse("{'image': 'A'}");
        return pull;
}

int __wrap_session_end_status(const Session *session) {
        return EXIT_STATUS_TIMEOUT;
}

int __wrap_session_find_kruise(Session *session, const char *resource, const char **ret,
                               Error *reterr) {
        *ret = NULL;
        return 0;
}

int __wrap_session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                              void *userdata, SessionFollow **ret) {
        *ret = NULL;
        return 0;
}

/* The time-out comes after two looks. */
int __wrap_session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                               int (*is_away)(const Error *error, void *userdata), void *userdata,
                               Error *reterr) {
        while (server.n_waits++ < 2) {
                server.now_sec += server.wait_sec;
                if (is_done(userdata) > 0)
                        return 0;
        }
        return error_set(reterr, ERROR_TIMEOUT, "timed out");
}

const char *__wrap_session_namespace(const Session *session) {
        return "shop";
}

static int run(Flags flags) {
        flags.format = OUTPUT_JSON;
        return kubectl_status(NULL, &flags);
}

static void reset(void) {
        json_object_put(server.shown);
        memset(&server, 0, sizeof(server));
}

/* Only the agent of a pod that waits for an image knows of a pull for it. */
TEST(test_pulls) {
        json_object *items;

        reset();
        assert_int_equal(run((Flags){ .watch = false }), EXIT_STATUS_DONE);
        assert_int_equal(server.n_asked, 1);
        items = json_object_object_get(server.shown, "items");
        assert_int_equal(json_object_array_length(items), 2);
        assert_json(json_object_object_get(json_object_array_get_idx(items, 0), "pull"),
                    "{'image': 'A'}");
        assert_null(json_object_object_get(json_object_array_get_idx(items, 1), "pull"));
        reset();
}

static const struct AgainRow {
        const char *name;
        const char *updates;
        int64_t wait_sec;
        unsigned n_read, n_shown;
} again_rows[] = {
        { "an update is open: it may have ended meanwhile", UPDATE, 5, 3, 1 },
        { "it was read just now", UPDATE, 1, 1, 1 },
        { "none is open, and no pod has changed", NULL, 5, 1, 0 },
};

/* With --watch the server is asked again where there may be something new, and an update is shown again if it has changed. */
TEST_ROWS(test_again, again_rows, name, const struct AgainRow *row) {
        reset();
        server.updates = row->updates;
        server.wait_sec = row->wait_sec;
        assert_int_equal(run((Flags){ .watch = true }), EXIT_STATUS_TIMEOUT);
        assert_int_equal(server.n_read, row->n_read);
        assert_int_equal(server.n_shown, row->n_shown);
        reset();
}
