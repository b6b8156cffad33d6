/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/doctor.h"

#include <errno.h>
#include <stdio.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/ctl/ask.h"
#include "agent/ctl/commands.h"
#include "agent/ctl/connect.h"
#include "agent/view/output.h"
#include "agent/view/table.h"
#include "agent/view/terminal.h"

/* clang-format off */
static const TableColumn runtime_columns[] = {
        { .title = "RUNTIME SOCKET", .may_be_cut = true, .keeps_tail = true },
        { .title = "RUNTIME"                          },
        { .title = "READY"                            },
        { .title = "CHOSEN"                           },
        { .title = "PROGRESS"                         },
        { .title = "STATE",          .may_be_cut = true },
};

static const TableColumn fact_columns[] = {
        { .title = "FACT"  },
        { .title = "VALUE", .may_be_cut = true },
};
/* clang-format on */

static const char *yes_or_no(bool value) {
        return value ? "yes" : "no";
}

static int add_runtime(Table *table, const void *item, bool is_wide) {
        const Inplaced__V1__Runtime *runtime = item;
        cleanup(free_p) char *name = NULL;

        if (text_format(&name, "%s%s%s", runtime->name[0] ? runtime->name : "-",
                        runtime->version[0] ? " " : "", runtime->version) < 0)
                return -ENOMEM;

        return table_add_row(table, (const char *const[]){
                                            runtime->endpoint, name, yes_or_no(runtime->ready),
                                            yes_or_no(runtime->chosen),
                                            yes_or_no(runtime->has_progress), runtime->state });
}

static int add_fact_row(Table *table, const void *item, bool is_wide) {
        const Inplaced__V1__Fact *fact = item;

        return table_add_row(table, (const char *const[]){ fact->subject, fact->value });
}

static bool has_ready_runtime(const Inplaced__V1__DiagnoseResponse *reply) {
        for (size_t i = 0; i < reply->n_runtimes; i++)
                if (reply->runtimes[i]->chosen && reply->runtimes[i]->ready)
                        return true;

        return false;
}

static int print_text(const void *message, const Options *options) {
        const Inplaced__V1__DiagnoseResponse *reply = message;
        bool is_wide = options->format == OUTPUT_WIDE;
        int r = 0;

        if (reply->n_runtimes > 0)
                r = table_print_items(runtime_columns,
                                      sizeof(runtime_columns) / sizeof(runtime_columns[0]), is_wide,
                                      (const void *const *) reply->runtimes, reply->n_runtimes,
                                      add_runtime);
        if (r >= 0)
                r = table_print_items(fact_columns, sizeof(fact_columns) / sizeof(fact_columns[0]),
                                      is_wide, (const void *const *) reply->facts, reply->n_facts,
                                      add_fact_row);
        if (r < 0)
                return r;

        if (reply->n_problems == 0 && has_ready_runtime(reply))
                return print_safe("No problem was found.");

        return problems_print(reply->problems, reply->n_problems);
}

static int conclude(const void *message, const Options *options) {
        const Inplaced__V1__DiagnoseResponse *reply = message;
        bool has_runtime = has_ready_runtime(reply);

        if (reply->n_problems > 0)
                complain("%zu problem%s found", reply->n_problems,
                         reply->n_problems == 1 ? " was" : "s were");
        else if (!has_runtime)
                complain("no container runtime is ready");
        return reply->n_problems > 0 || !has_runtime ? EXIT_STATUS_PARTLY : EXIT_STATUS_DONE;
}

static void add_problem(LocalDiagnosis *diagnosis, const char *subject, const char *message,
                        const char *advice) {

        size_t i = diagnosis->response.n_problems++;

        diagnosis->problems[i] = (Inplaced__V1__Problem) INPLACED__V1__PROBLEM__INIT;
        diagnosis->problems[i].subject = (char *) subject;
        diagnosis->problems[i].message = (char *) message;
        diagnosis->problems[i].advice = (char *) advice;
        diagnosis->problem_list[i] = &diagnosis->problems[i];
}

static void add_fact(LocalDiagnosis *diagnosis, const char *subject, const char *value) {
        size_t i = diagnosis->response.n_facts++;

        diagnosis->facts[i] = (Inplaced__V1__Fact) INPLACED__V1__FACT__INIT;
        diagnosis->facts[i].subject = (char *) subject;
        diagnosis->facts[i].value = (char *) value;
        diagnosis->fact_list[i] = &diagnosis->facts[i];
}

void doctor_local_diagnose(const char *const *sockets, const Error *unreachable,
                           LocalDiagnosis *ret) {

        size_t n_listening = 0, n_denied = 0;

        *ret = (LocalDiagnosis){ .response = INPLACED__V1__DIAGNOSE_RESPONSE__INIT };
        ret->response.facts = ret->fact_list;
        ret->response.problems = ret->problem_list;

        add_problem(ret, "inplaced", error_message(unreachable), "");
        for (size_t i = 0; i < DISCOVER_SOCKETS_MAX && sockets[i]; i++) {
                int result = socket_check(sockets[i]);

                add_fact(ret, sockets[i], socket_check_to_string(result));
                n_listening += result == 0;
                n_denied += result == -EACCES || result == -EPERM;
        }

        if (n_listening == 0 && n_denied > 0)
                add_problem(ret, "container runtime", "this user may not connect to its socket",
                            "run this as root");
        else if (n_listening == 0)
                add_problem(ret, "container runtime", "none listens on the usual sockets",
                            "start one, such as containerd");
}

static int diagnose_alone(const Error *error, const Options *options);

static const Question question = {
        .method = { .path = "/inplaced.v1.Node/Diagnose",
                    .reply = &inplaced__v1__diagnose_response__descriptor },
        .print = print_text,
        .conclude = conclude,
        .refuse = diagnose_alone,
};

static int diagnose_alone(const Error *error, const Options *options) {
        LocalDiagnosis diagnosis;

        doctor_local_diagnose(discover_usual_sockets, error, &diagnosis);
        return reply_print(&question, &diagnosis.response, options);
}

int command_doctor(const Options *options) {
        Inplaced__V1__DiagnoseRequest request = INPLACED__V1__DIAGNOSE_REQUEST__INIT;

        return node_ask(&question, options, &request.base);
}
