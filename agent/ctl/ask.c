/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/ask.h"

#include <errno.h>
#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/base/time-units.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/message-json.h"
#include "agent/document/json-cleanup.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"

typedef struct Ask {
        const Question *question;
        const Options *options;
        NodeClient *client;
        RpcCall *call;
} Ask;

static int document_print(const Question *question, const void *reply, const Options *options) {
        cleanup(json_object_put_p) json_object *document = json_object_new_object();
        int r;

        if (!document)
                return -ENOMEM;

        r = question->add_first ? question->add_first(document, options) : 0;
        if (r >= 0 && reply)
                r = json_add_message(document, reply);
        return r < 0 ? r : output_tree(options->format, document);
}

int reply_print(const Question *question, const void *reply, const Options *options) {
        int r;

        r = options_wants_table(options) ? question->print(reply, options)
                                         : document_print(question, reply, options);
        if (r < 0)
                return r;

        return question->conclude ? question->conclude(reply, options) : EXIT_STATUS_DONE;
}

static int ask_take(const Ask *ask, const void *reply) {
        return ask->question->take ? ask->question->take(reply, ask->options)
                                   : reply_print(ask->question, reply, ask->options);
}

static int ask_refuse(const Ask *ask, const Error *error) {
        if (ask->question->refuse)
                return ask->question->refuse(error, ask->options);

        complain("%s", error_message(error));
        return error->kind == ERROR_INVALID ? EXIT_STATUS_USAGE : EXIT_STATUS_FAILED;
}

static int on_answer(const void *reply, const Error *error, void *userdata) {
        cleanup(error_done) Error explained = ERROR_INIT;
        Ask *ask = userdata;
        int r;

        ask->call = rpc_call_unref(ask->call);
        node_client_heard(ask->client);
        if (error)
                (void) node_client_explain(ask->client, error, &explained);
        r = error ? ask_refuse(ask, &explained) : ask_take(ask, reply);
        return r < 0 ? r : sd_event_exit(node_client_event(ask->client), r);
}

static int ask_run(Ask *ask, const ProtobufCMessage *request) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = node_client_connect(ask->client, &error);
        if (error.kind != ERROR_NONE)
                return ask_refuse(ask, &error);
        if (r < 0)
                return r;

        r = rpc_call_unary(node_client_rpc(ask->client), &ask->question->method, request,
                           CALL_TIMEOUT_SEC * USEC_PER_SEC, on_answer, ask, &ask->call);
        if (r < 0)
                return r;

        r = node_client_await(ask->client);
        if (r < 0)
                return r;

        r = sd_event_loop(node_client_event(ask->client));
        if (r >= 0 && ask->call) /* no answer: a signal ended the loop */
                complain("interrupted");
        ask->call = rpc_call_unref(ask->call);
        return r;
}

int node_ask(const Question *question, const Options *options, const ProtobufCMessage *request) {
        cleanup(node_client_free_p) NodeClient *client = NULL;
        int r;

        r = node_client_new(options->socket_path, NULL, NULL, &client);
        if (r < 0)
                return r;

        return ask_run(&(Ask){ .question = question, .options = options, .client = client },
                       request);
}

int problems_print(Inplaced__V1__Problem *const *problems, size_t n_problems) {
        for (size_t i = 0; i < n_problems; i++) {
                int r;

                r = print_safe("problem: %s: %s%s%s", problems[i]->subject, problems[i]->message,
                               problems[i]->advice[0] ? "; " : "", problems[i]->advice);
                if (r < 0)
                        return r;
        }

        return 0;
}
