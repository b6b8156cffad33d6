/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/exec.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/pod/exec-spec.h"
#include "cri/client.h"

struct Exec {
        RpcOutside *call;
        HttpTransfer *transfer;
        GrpcEnd end;
        ExecReply reply;
        RpcDone on_done;
        void *userdata;
};

DEFINE_CLEANUP(Exec *, exec_free)

static int on_head(int code, void *userdata) {
        return 0;
}

static int on_header(const char *line, size_t size, void *userdata) {
        Exec *exec = userdata;

        grpc_end_add_header(&exec->end, line, size);
        return 0;
}

static int on_data(const char *data, size_t size, void *userdata) {
        Exec *exec = userdata;

        return exec_reply_add(&exec->reply, data, size);
}

/* The HTTP library's messages would name an HTTP server. */
static void exec_judge(const Exec *exec, const HttpEnd *end, Error *ret) {
        const GrpcEnd *said = &exec->end;

        if (end->error && end->error->kind == ERROR_CANCELED)
                (void) error_set(ret, ERROR_INTERNAL, "the reply cannot be read");
        else if (!said->has_status && (end->error || end->code == 200))
                (void) error_set(ret, ERROR_UNAVAILABLE,
                                 "the connection to the container runtime has failed");
        else if (!said->has_status)
                (void) error_set(ret, ERROR_INTERNAL,
                                 "the container runtime answered with HTTP status %d", end->code);
        else if (said->status != 0)
                (void) error_set(ret, rpc_error_kind(said->status), "%s",
                                 said->message[0] ? said->message
                                                  : grpc_status_to_string(said->status));
        else if (!exec_reply_is_complete(&exec->reply))
                (void) error_set(ret, ERROR_INTERNAL, "the reply cannot be read");
}

/* The exec may be freed in the callback. */
static int on_end(const HttpEnd *end, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        CriExec reply = RUNTIME__V1__EXEC_SYNC_RESPONSE__INIT;
        Exec *exec = userdata;

        exec_judge(exec, end, &error);
        exec->transfer = http_transfer_free(exec->transfer);
        exec->call = rpc_outside_end(exec->call, error.kind);
        reply.exit_code = exec->reply.exit_code;
        reply.stdout.data = exec->reply.stdout.data;
        reply.stdout.len = exec->reply.stdout.size;
        reply.stderr.data = exec->reply.stderr.data;
        reply.stderr.len = exec->reply.stderr.size;
        return error.kind != ERROR_NONE ? exec->on_done(NULL, &error, exec->userdata)
                                        : exec->on_done(&reply, NULL, exec->userdata);
}

static int pack_request(const ExecOptions *options, uint8_t **ret, size_t *ret_size) {
        Runtime__V1__ExecSyncRequest request = RUNTIME__V1__EXEC_SYNC_REQUEST__INIT;
        uint8_t *body;
        size_t size;

        request.container_id = (char *) options->container_id;
        request.cmd = (char **) options->command;
        while (options->command[request.n_cmd])
                request.n_cmd++;
        request.timeout = options->timeout_sec;
        size = runtime__v1__exec_sync_request__get_packed_size(&request);
        body = malloc(GRPC_PREFIX_SIZE + size);
        if (!body)
                return -ENOMEM;

        grpc_write_prefix(size, body);
        (void) runtime__v1__exec_sync_request__pack(&request, body + GRPC_PREFIX_SIZE);
        *ret = body;
        *ret_size = GRPC_PREFIX_SIZE + size;
        return 0;
}

static int exec_send(Exec *exec, const ExecOptions *options, Error *reterr) {
        static const char *const headers[] = { "TE: trailers", NULL };
        cleanup(free_p) uint8_t *body = NULL;
        HttpRequest request = {
                .server = "http://localhost",
                .socket_path = rpc_client_path(options->client),
                .method = "POST",
                .path = cri_exec_sync.path,
                .content_type = GRPC_CONTENT_TYPE,
                .headers = headers,
                .is_http2 = true,
                .on_head = on_head,
                .on_header = on_header,
                .on_data = on_data,
                .on_end = on_end,
                .userdata = exec,
        };
        int r;

        r = pack_request(options, &body, &request.body_size);
        if (r < 0)
                return r;

        request.body = (const char *) body;
        return http_send(options->http, &request, &exec->transfer, reterr);
}

int exec_run(const ExecOptions *options, Exec **ret, Error *reterr) {
        cleanup(exec_free_p) Exec *exec = NULL;
        int r;

        exec = malloc(sizeof(*exec));
        if (!exec)
                return -ENOMEM;

        *exec = (Exec){ .on_done = options->on_done, .userdata = options->userdata };
        r = rpc_outside_begin(options->client, &cri_exec_sync, &exec->call);
        if (r >= 0)
                r = exec_send(exec, options, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(exec);
        return 0;
}

Exec *exec_free(Exec *exec) {
        if (!exec)
                return NULL;

        http_transfer_free(exec->transfer);
        rpc_outside_end(exec->call, ERROR_CANCELED);
        exec_reply_done(&exec->reply);
        free(exec);
        return NULL;
}
