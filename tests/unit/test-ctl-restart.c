/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The end of the command "restart", with an agent's answers that the test gives
 */

#include "agent/ctl/commands.h"
#include "agent/ctl/connect.h"
#include "proto/inplaced/v1/node.pb-c.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/unit.h"

#define RUNNING INPLACED__V1__RESTART_PHASE__RESTART_PHASE_RUNNING
#define STOPPED INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPED
#define FAILED INPLACED__V1__RESTART_PHASE__RESTART_PHASE_FAILED

int __wrap_node_client_connect(NodeClient *client, Error *reterr);
int __wrap_node_client_await(NodeClient *client);
int __wrap_rpc_call_stream(RpcClient *client, const RpcMethod *method,
                           const ProtobufCMessage *request, uint64_t timeout_usec,
                           RpcMessage on_message, RpcDone done, void *userdata, RpcCall **ret);

static const struct Row {
        const char *name;
        Inplaced__V1__RestartPhase phases[3]; /* last phases of the containers */
        bool wait;
        ExitStatus expected;
        const char *complaint; /* "": none */
} rows[] = {
        { "all run", { RUNNING, RUNNING, RUNNING }, true, EXIT_STATUS_DONE, "" },
        { "two are not started again",
          { STOPPED, RUNNING, STOPPED },
          true,
          EXIT_STATUS_PARTLY,
          "2 of 3 containers have ended and are not started again" },
        { "they need not be", { STOPPED, RUNNING, STOPPED }, false, EXIT_STATUS_DONE, "" },
        { "one has failed",
          { STOPPED, FAILED, RUNNING },
          true,
          EXIT_STATUS_PARTLY,
          "container b: why" },
        { "two have failed",
          { FAILED, RUNNING, FAILED },
          true,
          EXIT_STATUS_PARTLY,
          "2 of 3 containers failed; see the message of each" },
};

static const struct Row *shown;

int __wrap_node_client_connect(NodeClient *client, Error *reterr) {
        return 0;
}

int __wrap_node_client_await(NodeClient *client) {
        return 0;
}

int __wrap_rpc_call_stream(RpcClient *client, const RpcMethod *method,
                           const ProtobufCMessage *request, uint64_t timeout_usec,
                           RpcMessage on_message, RpcDone done, void *userdata, RpcCall **ret) {
        static const char *const containers[] = { "a", "b", "c" };

        for (size_t i = 0; i < N_ELEMENTS(containers); i++) {
                Inplaced__V1__RestartEvent event = INPLACED__V1__RESTART_EVENT__INIT;

                event.container = (char *) containers[i];
                event.phase = shown->phases[i];
                event.final = true;
                event.message = (char *) (event.phase == FAILED ? "why" : "");
                assert_ok(on_message(&event, userdata));
        }
        *ret = NULL;
        return done(NULL, NULL, userdata);
}

TEST_ROWS(test_end, rows, name, const struct Row *row) {
        char *arguments[] = { (char *) "pod", NULL };
        const Options options = { .socket_path = "/nowhere",
                                  .arguments = arguments,
                                  .n_arguments = 1,
                                  .wait = row->wait };
        Stderr captured;
        int status;

        shown = row;
        stderr_pipe(&captured);
        status = command_restart(&options);
        (void) stderr_restore(&captured);
        assert_int_equal(status, row->expected);
        if (row->complaint[0])
                assert_contains(captured.text, row->complaint);
        else
                assert_string_equal(captured.text, "");
}
