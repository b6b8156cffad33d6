/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A command in a container, with a runtime that answers when the test says so
 */

#include "agent/pod/exec-spec.h"
#include "agent/pod/exec.h"
#include "cri/client.h"
#include "tests/unit/unit.h"

static struct {
        HttpRequest request;
        unsigned n_noted; /* ends of calls, for the metrics */
        ErrorKind noted;
        bool is_done;
        int32_t exit_code;
        char output[32], complaint[32], error[64];
} f;

int __wrap_http_send(HttpPeer *peer, const HttpRequest *request, HttpTransfer **ret, Error *reterr);
int __wrap_http_send(HttpPeer *peer, const HttpRequest *request, HttpTransfer **ret,
                     Error *reterr) {
        f.request = *request;
        *ret = (HttpTransfer *) &f;
        return 0;
}

HttpTransfer *__wrap_http_transfer_free(HttpTransfer *transfer);
HttpTransfer *__wrap_http_transfer_free(HttpTransfer *transfer) {
        return NULL;
}

const char *__wrap_rpc_client_path(const RpcClient *client);
const char *__wrap_rpc_client_path(const RpcClient *client) {
        return "/run/runtime.sock";
}

int __wrap_rpc_outside_begin(RpcClient *client, const RpcMethod *method, RpcOutside **ret);
int __wrap_rpc_outside_begin(RpcClient *client, const RpcMethod *method, RpcOutside **ret) {
        *ret = (RpcOutside *) &f;
        return 0;
}

RpcOutside *__wrap_rpc_outside_end(RpcOutside *call, ErrorKind result);
RpcOutside *__wrap_rpc_outside_end(RpcOutside *call, ErrorKind result) {
        f.n_noted += call != NULL;
        f.noted = call ? result : f.noted;
        return NULL;
}

static int on_done(const void *reply, const Error *error, void *userdata) {
        const CriExec *exec = reply;

        f.is_done = true;
        (void) snprintf(f.error, sizeof(f.error), "%s", error ? error_message(error) : "");
        if (!exec)
                return 0;

        f.exit_code = exec->exit_code;
        (void) snprintf(f.output, sizeof(f.output), "%.*s", (int) exec->stdout.len,
                        (const char *) exec->stdout.data);
        (void) snprintf(f.complaint, sizeof(f.complaint), "%.*s", (int) exec->stderr.len,
                        (const char *) exec->stderr.data);
        return 0;
}

static Exec *begin(void) {
        static char *const command[] = { (char *) "check", NULL };
        Exec *exec = NULL;

        memset(&f, 0, sizeof(f));
        assert_ok(exec_run(&(ExecOptions){ .container_id = "c1",
                                           .command = command,
                                           .timeout_sec = 1,
                                           .on_done = on_done },
                           &exec, NULL));
        return exec;
}

static void end(const char *status) {
        assert_ok(f.request.on_header(status, strlen(status), f.request.userdata));
        assert_ok(f.request.on_end(&(HttpEnd){ .code = 200 }, f.request.userdata));
        assert_true(f.is_done);
}

/* Handlers report what a command has printed to either output. */
TEST(test_outputs) {
        Exec *exec = begin();
        CriExec reply = RUNTIME__V1__EXEC_SYNC_RESPONSE__INIT;
        char body[64];
        size_t size;

        reply.stdout.data = (uint8_t *) "fine";
        reply.stdout.len = 4;
        reply.stderr.data = (uint8_t *) "but slow";
        reply.stderr.len = 8;
        reply.exit_code = 3;
        size = runtime__v1__exec_sync_response__pack(&reply, (uint8_t *) body + GRPC_PREFIX_SIZE);
        grpc_write_prefix(size, (uint8_t *) body);
        assert_ok(f.request.on_data(body, GRPC_PREFIX_SIZE + size, f.request.userdata));
        end("grpc-status: 0");
        assert_string_equal(f.error, "");
        assert_int_equal(f.exit_code, 3);
        assert_string_equal(f.output, "fine");
        assert_string_equal(f.complaint, "but slow");
        assert_int_equal(f.n_noted, 1);
        assert_int_equal(f.noted, ERROR_NONE);
        assert_null(exec_free(exec));
        assert_int_equal(f.n_noted, 1);
}

TEST(test_refused) {
        static const char message[] = "grpc-message: no such container";
        Exec *exec = begin();

        assert_ok(f.request.on_header(message, strlen(message), f.request.userdata));
        end("grpc-status: 5");
        assert_string_equal(f.error, "no such container");
        assert_int_equal(f.n_noted, 1);
        assert_int_equal(f.noted, ERROR_NOT_FOUND);
        assert_null(exec_free(exec));
}

/* Nothing is reported of a call that its owner has ended. */
TEST(test_ended_by_its_owner) {
        assert_null(exec_free(begin()));
        assert_false(f.is_done);
        assert_int_equal(f.n_noted, 1);
        assert_int_equal(f.noted, ERROR_CANCELED);
}
