/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The whole agent on a node of its own, without a container runtime
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/ctl/message-json.h"
#include "agent/document/json-cleanup.h"
#include "agent/rpc/client.h"
#include "proto/inplaced/v1/node.pb-c.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/stderr-capture.h"

#define FLAGS_MAX 16
#define GOOD \
        "kind: NodeImage\napiVersion: apps.kruise.io/v1alpha1\nspec:\n  images:\n    r.io/a: {tags: [{tag: \"1\"}]}\n"

static struct Fixture {
        char folder[SCRATCH_SIZE];
        char texts[FLAGS_MAX][128];
        char *argv[FLAGS_MAX + 2];
        int n_flags;
        in_port_t port;
        Options options;
        sd_event *event;
        Log *log;
        Agent *agent;
        unsigned n_ready;
        CompletionQueue *completions;
        RpcClient *client;
        RpcCall *call;
        char *answer; /* JSON, with F for the folder */
} f;

static int on_problem(const char *subject, const char *message, const char *advice,
                      void *userdata) {
        fail_msg("%s: %s", subject, message);
        return 0;
}

static void add_flag(const char *format, const char *value) {
        assert_true(f.n_flags < FLAGS_MAX);
        (void) snprintf(f.texts[f.n_flags], sizeof(f.texts[0]), format, value);
        f.argv[1 + f.n_flags] = f.texts[f.n_flags];
        f.n_flags++;
}

/* A port where nothing listens. */
static in_port_t find_port(void) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof(address);
        cleanup(close_p) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_ok(bind(fd, (struct sockaddr *) &address, size));
        assert_ok(getsockname(fd, (struct sockaddr *) &address, &size));
        return ntohs(address.sin_port);
}

static int set_up(void **state) {
        char port[16];

        f = (struct Fixture){ .argv = { (char *) "inplaced" } };
        scratch_make(f.folder);
        f.port = find_port();
        (void) snprintf(port, sizeof(port), "%u", f.port);
        add_flag("--config=%s/none.yaml", f.folder);
        scratch_write(f.folder, "none.yaml", "");
        add_flag("--mode=%s", "standalone");
        add_flag("--node-name=%s", "n1");
        add_flag("--runtime-endpoint=%s/none.sock", f.folder);
        add_flag("--images-dir=%s/images", f.folder);
        add_flag("--auth-dir=%s/auth", f.folder);
        add_flag("--state-dir=%s/var/state", f.folder);
        add_flag("--socket=%s/run/inplaced/socket", f.folder);
        add_flag("--metrics-address=127.0.0.1:%s", port);
        add_flag("--min-free-disk=%s", "0");
        assert_true(sd_event_new(&f.event) >= 0);
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_WARNING, &f.log));
        return 0;
}

static int tear_down(void **state) {
        rpc_call_unref(f.call);
        rpc_client_free(f.client);
        completion_queue_free(f.completions);
        assert_null(agent_free(f.agent));
        log_free(f.log);
        sd_event_unref(f.event);
        options_done(&f.options);
        free(f.answer);
        remove_tree(f.folder);
        return 0;
}

static void on_ready(void *userdata) {
        f.n_ready++;
}

static int start(Error *reterr) {
        static const DiagnosisVisitor visitor = { .on_problem = on_problem };

        options_done(&f.options);
        assert_ok(options_read(f.argv, &f.options, &visitor));
        f.options.listening_fd = -1;
        return agent_new(f.event, f.log, &f.options, on_ready, NULL, &f.agent, reterr);
}

static void turn(void) {
        assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
}

/* Writes F for the folder and ' for ". */
static char *shorten(const char *text) {
        char *copy = strdup(text);

        for (char *at; (at = strstr(copy, f.folder));) {
                *at = 'F';
                memmove(at + 1, at + strlen(f.folder), strlen(at + strlen(f.folder)) + 1);
        }
        for (char *at = copy; *at; at++)
                if (*at == '"')
                        *at = '\'';
        return copy;
}

static int on_done(const void *reply, const Error *error, void *userdata) {
        cleanup(json_object_put_p) json_object *json = reply ? json_from_message(reply) : NULL;

        f.call = rpc_call_unref(f.call);
        free(f.answer);
        f.answer = shorten(
                json ? json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN |
                                                                    JSON_C_TO_STRING_NOSLASHESCAPE)
                     : error_message(error));
        return 0;
}

static const char *ask(const RpcMethod *method, const ProtobufCMessage *request) {
        if (!f.client) {
                assert_ok(completion_queue_new(f.event, &f.completions));
                assert_ok(rpc_client_connect(f.completions, f.options.socket, NULL, NULL, &f.client,
                                             NULL));
        }
        free(f.answer);
        f.answer = NULL;
        assert_ok(rpc_call_unary(f.client, method, request, WAIT_USEC, on_done, NULL, &f.call));
        while (!f.answer)
                turn();
        return f.answer;
}

static const char *diagnose(void) {
        static const RpcMethod method = { .path = "/inplaced.v1.Node/Diagnose",
                                          .reply = &inplaced__v1__diagnose_response__descriptor };
        Inplaced__V1__DiagnoseRequest request = INPLACED__V1__DIAGNOSE_REQUEST__INIT;

        return ask(&method, &request.base);
}

/* Asks over HTTP, and returns the answer. */
static char *get(const char *path) {
        static char text[65536];
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                       .sin_port = htons(f.port) };
        cleanup(close_p) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        size_t size = 0;
        ssize_t n;

        assert_ok(connect(fd, (struct sockaddr *) &address, sizeof(address)));
        assert_true(dprintf(fd, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path) >
                    0);
        while ((n = recv(fd, text + size, sizeof(text) - 1 - size, MSG_DONTWAIT)) != 0) {
                if (n < 0)
                        turn();
                else
                        size += (size_t) n;
        }
        text[size] = '\0';
        return text;
}

TEST_SET_UP(test_alone) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *file = NULL, *said = NULL;
        Agent *other = NULL;
        const char *answer;
        Stderr captured;

        scratch_folder(f.folder, "images");
        scratch_folder(f.folder, "auth");
        scratch_write(f.folder, "images/a.yaml", GOOD);
        scratch_write(f.folder, "images/b.yaml", "kind: Pod\n");
        scratch_write(f.folder, "images/c.yaml", GOOD "  nodeSelecter: x\n");
        scratch_write(f.folder, "auth/x.json", "{");
        add_flag("--socket-group=%s", "no-such-group");
        add_flag("--restart-group=%s", "neither-this");
        stderr_pipe(&captured);
        assert_ok(start(&error));
        while (f.n_ready == 0)
                turn();
        said = shorten(stderr_restore_log(&captured));
        assert_string_equal(
                said,
                "warning Cannot use 'F/images/b.yaml': has no apiVersion, but should be a NodeImage (apps.kruise.io), it has had no good content yet.\n"
                "warning In 'F/images/c.yaml', line 6: spec.nodeSelecter: unknown key, ignored; known here: images\n"
                "warning There is no group 'no-such-group', so only root may use the socket.\n"
                "warning There is no group 'neither-this', so only root may restart containers through the socket.\n"
                "warning Waiting for a runtime: no runtime at F/none.sock: no such file.\n");

        assert_true(agent_new(f.event, f.log, &f.options, on_ready, NULL, &other, &error) < 0);
        assert_null(other);
        assert_int_equal(error.kind, ERROR_UNAVAILABLE);
        assert_string_equal(
                diagnose(),
                "{'runtimes':[{'endpoint':'unix://F/none.sock','name':'','version':'','state':'no runtime at F/none.sock: no such file','ready':false,'chosen':false,'hasProgress':false}],'facts':[{'subject':'images folder','value':'F/images, 3 files'},{'subject':'registry credentials','value':'F/auth, 1 files'},{'subject':'status file','value':'F/var/state/nodeimage.json'}],'problems':[{'subject':'container runtime','message':'no runtime at F/none.sock: no such file','advice':'start it, such as: systemctl start containerd; the agent pulls images as soon as it answers'},{'subject':'F/images/b.yaml','message':'has no apiVersion, but should be a NodeImage (apps.kruise.io)','advice':'correct the file; until then it requests no images'},{'subject':'F/images/c.yaml','message':'line 6: spec.nodeSelecter: unknown key, ignored; known here: images','advice':'correct or remove it; the agent uses the rest of the file'},{'subject':'F/auth/x.json','message':'not valid JSON: it ends too early','advice':'write it like docker's config.json, with credentials, under a name in .json'},{'subject':'--socket-group','message':'there is no group \\'no-such-group\\', so only root has this right','advice':'correct the name, or make the group'},{'subject':'--restart-group','message':'there is no group \\'neither-this\\', so only root has this right','advice':'correct the name, or make the group'}]}");
        answer = get("/readyz");
        assert_contains(answer, "HTTP/1.1 503 ");
        assert_contains(answer, "/none.sock: no such file\n");
        assert_contains(get("/healthz"), "\r\n\r\nok\n");
        assert_contains(get("/metrics"), "inplaced_desired_documents{state=\"accepted\"} 2\n");
        assert_contains(get("/metrics"), "inplaced_desired_documents{state=\"refused\"} 1\n");

        file = scratch_path(f.folder, "images/b.yaml");
        assert_ok(unlink(file));
        assert_ok(agent_reload(f.agent, &f.options));
        agent_reload_failed(f.agent);
        while (!strstr(get("/metrics"), "inplaced_desired_documents{state=\"refused\"} 0\n"))
                continue;
        assert_contains(get("/metrics"), "inplaced_config_reloads_total{result=\"succeeded\"} 1\n");
        assert_contains(get("/metrics"), "inplaced_config_reloads_total{result=\"failed\"} 1\n");
        assert_int_equal(f.n_ready, 1);
}

TEST_SET_UP(test_nothing_is_there) {
        Stderr captured;

        stderr_pipe(&captured);
        assert_ok(start(NULL));
        while (f.n_ready == 0)
                turn();
        (void) stderr_restore(&captured);
        assert_string_equal(
                diagnose(),
                "{'runtimes':[{'endpoint':'unix://F/none.sock','name':'','version':'','state':'no runtime at F/none.sock: no such file','ready':false,'chosen':false,'hasProgress':false}],'facts':[{'subject':'images folder','value':'F/images does not exist, which is fine if it is not needed'},{'subject':'registry credentials','value':'F/auth, 0 files'},{'subject':'status file','value':'F/var/state/nodeimage.json'}],'problems':[{'subject':'container runtime','message':'no runtime at F/none.sock: no such file','advice':'start it, such as: systemctl start containerd; the agent pulls images as soon as it answers'}]}");
}

static const struct AccessRow {
        const char *name;
        const char *text; /* the kubeconfig; NULL: it is missing */
        ErrorKind kind;
        const char *message;
} access_rows[] = {
        { "missing", NULL, ERROR_NOT_FOUND,
          "--kubeconfig: F/kubeconfig: No such file or directory" },
        { "empty", "", ERROR_NOT_FOUND, "--kubeconfig: F/kubeconfig: is empty" },
        { "no kubeconfig", "x", ERROR_INVALID,
          "--kubeconfig: F/kubeconfig: is neither a YAML nor a JSON object" },
};

TEST_ROWS_F(test_access, access_rows, name, const struct AccessRow *row, void *state) {
        cleanup(free_p) char *path = scratch_path(f.folder, "kubeconfig"), *said = NULL;
        cleanup(error_done) Error error = ERROR_INIT;

        if (row->text)
                write_file(path, row->text);
        add_flag("--mode=%s", "cluster");
        add_flag("--kubeconfig=%s", path);
        assert_true(start(&error) < 0);
        said = shorten(error_message(&error));
        assert_string_equal(said, row->message);
        assert_int_equal(error.kind, row->kind);
        assert_null(f.agent);
}

/* Without a runtime, no pin can be removed. */
TEST_SET_UP(test_removes_no_pins) {
        cleanup(free_p) char *said = NULL;
        Stderr captured;
        int status;

        add_flag("%s", "--remove-pins");
        stderr_pipe(&captured);
        assert_ok(start(NULL));
        status = sd_event_loop(f.event);
        said = shorten(stderr_restore_log(&captured));
        assert_string_equal(
                said, "error Cannot remove the pins: no runtime at F/none.sock: no such file.\n");
        assert_int_equal(status, 1);
        assert_int_equal(f.n_ready, 0);
}
