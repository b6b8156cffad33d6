/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/calls.h"
#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/node/node-image.h"

typedef Inplaced__V1__Problem ProblemMessage;
typedef Inplaced__V1__Fact FactMessage;
typedef Inplaced__V1__Runtime RuntimeMessage;

/* A copy of the diagnosis, since the visitor's texts are borrowed. */
typedef struct Report {
        ProblemMessage **problems;
        size_t n_problems;
        FactMessage **facts;
        size_t n_facts;
} Report;

static void report_done(Report *report) {
        for (size_t i = 0; i < report->n_problems; i++)
                inplaced__v1__problem__free_unpacked(report->problems[i], NULL);
        for (size_t i = 0; i < report->n_facts; i++)
                inplaced__v1__fact__free_unpacked(report->facts[i], NULL);
        free(report->problems);
        free(report->facts);
}

/* Replaces bytes that are not plain UTF-8 by "?": a person's text may contain anything, but a
 * message is UTF-8. */
static char *copy_plain(const char *text) {
        char *copy = strdup(text);

        if (copy)
                text_make_plain(copy);
        return copy;
}

static int on_problem(const char *subject, const char *message, const char *advice,
                      void *userdata) {
        Report *report = userdata;
        ProblemMessage *problem;

        if (array_grow(&report->problems, report->n_problems, sizeof(problem)) < 0)
                return -ENOMEM;

        problem = malloc(sizeof(*problem));
        if (!problem)
                return -ENOMEM;

        inplaced__v1__problem__init(problem);
        report->problems[report->n_problems++] = problem;
        problem->subject = copy_plain(subject);
        problem->message = copy_plain(message);
        problem->advice = copy_plain(advice);
        return problem->subject && problem->message && problem->advice ? 0 : -ENOMEM;
}

static int on_fact(const char *subject, const char *value, void *userdata) {
        Report *report = userdata;
        FactMessage *fact;

        if (array_grow(&report->facts, report->n_facts, sizeof(fact)) < 0)
                return -ENOMEM;

        fact = malloc(sizeof(*fact));
        if (!fact)
                return -ENOMEM;

        inplaced__v1__fact__init(fact);
        report->facts[report->n_facts++] = fact;
        fact->subject = copy_plain(subject);
        fact->value = copy_plain(value);
        return fact->subject && fact->value ? 0 : -ENOMEM;
}

static DiagnosisVisitor report_visitor(Report *report) {
        return (DiagnosisVisitor){
                .on_problem = on_problem,
                .on_fact = on_fact,
                .userdata = report,
        };
}

void runtime_message_done(RuntimeMessage *message) {
        free(message->endpoint);
        free(message->state);
}

int runtime_message_init(RuntimeMessage *message, const Api *api, const Runtime *runtime) {
        inplaced__v1__runtime__init(message);
        message->ready = runtime_state(runtime) == RUNTIME_READY && !runtime_is_silent(runtime);
        message->name = (char *) runtime_name(runtime);
        message->version = (char *) runtime_version(runtime);
        message->chosen = runtime == runtimes_chosen(api->runtimes);
        message->has_progress =
                message->chosen && images_work(api->images).progress == PROGRESS_SUPPORTED;
        message->state = copy_plain(runtime_sentence(runtime));
        (void) text_format(&message->endpoint, "unix://%s", runtime_path(runtime));

        return message->state && message->endpoint ? 0 : -ENOMEM;
}

int api_get_status(RpcRequest *request, const void *message, void *userdata) {
        Api *api = userdata;
        Inplaced__V1__GetStatusResponse reply = INPLACED__V1__GET_STATUS_RESPONSE__INIT;
        const Runtime *runtime = runtimes_chosen(api->runtimes);
        cleanup(runtime_message_done) RuntimeMessage chosen = { .endpoint = NULL };
        cleanup(report_done) Report report = { .n_facts = 0 };
        const DiagnosisVisitor visitor = report_visitor(&report);
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *text = NULL;
        const NodeImageOptions options = {
                .images = api->images,
                .node_name = api->node_name,
                .runtime = diagnosis_runtime_sentence(api->runtimes),
        };
        int r;

        /* Checks first: many calls at once would keep the loop busy with replies that cannot be
         * sent. */
        r = rpc_request_check_reply(request, api->status_size, &error);
        if (error.kind != ERROR_NONE)
                return api_refuse(api, request, error.kind, error_message(&error));
        if (r < 0)
                return r;

        r = node_image_to_text(&options, &text);
        if (r < 0)
                return r;

        r = diagnosis_visit(api->subject, &visitor);
        if (r < 0)
                return r;

        if (runtime) {
                r = runtime_message_init(&chosen, api, runtime);
                if (r < 0)
                        return r;
                reply.runtime = &chosen;
        }

        reply.node_image_json = text;
        if (api->subject->cluster.target)
                reply.api_server =
                        (char *) api->subject->cluster.target(api->subject->cluster.source);
        reply.problems = report.problems;
        reply.n_problems = report.n_problems;
        api->status_size = protobuf_c_message_get_packed_size(&reply.base);
        return api_reply(api, request, &reply.base);
}

typedef struct RuntimeMessages {
        RuntimeMessage *items;
        RuntimeMessage **list;
        size_t n_items;
} RuntimeMessages;

static void runtime_messages_done(RuntimeMessages *messages) {
        for (size_t i = 0; i < messages->n_items; i++)
                runtime_message_done(&messages->items[i]);
        free(messages->items);
        free(messages->list);
}

static int list_runtimes(const Api *api, RuntimeMessages *messages) {
        size_t n = runtimes_count(api->runtimes);
        int r;

        messages->items = calloc(n + 1, sizeof(messages->items[0]));
        messages->list = calloc(n + 1, sizeof(messages->list[0]));
        if (!messages->items || !messages->list)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                messages->list[i] = &messages->items[messages->n_items++];
                r = runtime_message_init(messages->list[i], api, runtimes_get(api->runtimes, i));
                if (r < 0)
                        return r;
        }

        return 0;
}

int api_diagnose(RpcRequest *request, const void *message, void *userdata) {
        Api *api = userdata;
        Inplaced__V1__DiagnoseResponse reply = INPLACED__V1__DIAGNOSE_RESPONSE__INIT;
        cleanup(runtime_messages_done) RuntimeMessages runtimes = { .items = NULL };
        cleanup(report_done) Report report = { .n_facts = 0 };
        const DiagnosisVisitor visitor = report_visitor(&report);
        int r;

        r = list_runtimes(api, &runtimes);
        if (r < 0)
                return r;

        r = diagnosis_visit_all(api->subject, &visitor);
        if (r < 0)
                return r;

        reply.runtimes = runtimes.list;
        reply.n_runtimes = runtimes.n_items;
        reply.problems = report.problems;
        reply.n_problems = report.n_problems;
        reply.facts = report.facts;
        reply.n_facts = report.n_facts;
        return api_reply(api, request, &reply.base);
}

int api_get_version(RpcRequest *request, const void *message, void *userdata) {
        Api *api = userdata;
        Inplaced__V1__GetVersionResponse reply = INPLACED__V1__GET_VERSION_RESPONSE__INIT;
        const Runtime *runtime = runtimes_chosen(api->runtimes);

        reply.version = (char *) INPLACED_VERSION;
        reply.runtime_name = (char *) (runtime ? runtime_name(runtime) : "");
        reply.runtime_version = (char *) (runtime ? runtime_version(runtime) : "");
        reply.runtime_api_version = (char *) (runtime ? runtime_api_version(runtime) : "");
        return api_reply(api, request, &reply.base);
}
