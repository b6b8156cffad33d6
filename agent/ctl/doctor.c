/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/ctl/commands.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"

static const RpcMethod diagnose_method = {
        .path = "/inplaced.v1.Node/Diagnose",
        .reply = &inplaced__v1__diagnose_response__descriptor,
};

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

static int print_runtimes(const Inplaced__V1__DiagnoseResponse *reply, bool is_wide) {
        cleanup(table_free_p) Table *table = NULL;
        int r;

        r = table_new(runtime_columns, sizeof(runtime_columns) / sizeof(runtime_columns[0]),
                      is_wide, &table);
        if (r < 0)
                return r;

        for (size_t i = 0; i < reply->n_runtimes; i++) {
                const Inplaced__V1__Runtime *runtime = reply->runtimes[i];
                cleanup(free_p) char *name = NULL;

                if (asprintf(&name, "%s%s%s", runtime->name[0] ? runtime->name : "-",
                             runtime->version[0] ? " " : "", runtime->version) < 0)
                        return -ENOMEM;

                r = table_add_row(table, (const char *const[]){ runtime->endpoint, name,
                                                                yes_or_no(runtime->ready),
                                                                yes_or_no(runtime->chosen),
                                                                yes_or_no(runtime->has_progress),
                                                                runtime->state });
                if (r < 0)
                        return r;
        }

        return table_print(table);
}

static int print_facts(const Inplaced__V1__DiagnoseResponse *reply, bool is_wide) {
        cleanup(table_free_p) Table *table = NULL;
        int r;

        r = table_new(fact_columns, sizeof(fact_columns) / sizeof(fact_columns[0]), is_wide,
                      &table);
        if (r < 0)
                return r;

        for (size_t i = 0; i < reply->n_facts; i++) {
                r = table_add_row(table, (const char *const[]){ reply->facts[i]->subject,
                                                                reply->facts[i]->value });
                if (r < 0)
                        return r;
        }

        return table_print(table);
}

static int print_text(const Inplaced__V1__DiagnoseResponse *reply, bool is_wide) {
        int r;

        r = reply->n_runtimes > 0 ? print_runtimes(reply, is_wide) : 0;
        if (r < 0)
                return r;

        r = print_facts(reply, is_wide);
        if (r < 0)
                return r;

        if (reply->n_problems == 0 && reply->n_runtimes > 0)
                return print_safe("No problem was found.");

        return problems_print(reply->problems, reply->n_problems);
}

static json_object *runtime_json(const Inplaced__V1__Runtime *runtime) {
        cleanup(json_put_p) json_object *object = json_object_new_object();

        if (!object || !output_add_string(object, "endpoint", runtime->endpoint) ||
            !output_add_string(object, "name", runtime->name) ||
            !output_add_string(object, "version", runtime->version) ||
            !output_add_string(object, "state", runtime->state) ||
            !output_add_bool(object, "ready", runtime->ready) ||
            !output_add_bool(object, "chosen", runtime->chosen) ||
            !output_add_bool(object, "hasProgress", runtime->has_progress))
                return NULL;

        return take_ptr(object);
}

static json_object *fact_json(const Inplaced__V1__Fact *fact) {
        cleanup(json_put_p) json_object *object = json_object_new_object();

        if (!object || !output_add_string(object, "subject", fact->subject) ||
            !output_add_string(object, "value", fact->value))
                return NULL;

        return take_ptr(object);
}

static int print_document(const Inplaced__V1__DiagnoseResponse *reply, OutputFormat format) {
        cleanup(json_put_p) json_object *tree = json_object_new_object();
        json_object *runtimes = json_object_new_array(), *facts = json_object_new_array();

        if (!tree || !output_add(tree, "runtimes", runtimes) || !output_add(tree, "facts", facts) ||
            !output_add(tree, "problems", problems_json(reply->problems, reply->n_problems)))
                return -ENOMEM;

        for (size_t i = 0; i < reply->n_runtimes; i++)
                if (!output_append(runtimes, runtime_json(reply->runtimes[i])))
                        return -ENOMEM;

        for (size_t i = 0; i < reply->n_facts; i++)
                if (!output_append(facts, fact_json(reply->facts[i])))
                        return -ENOMEM;

        return output_tree(format, tree);
}

static int print_diagnosis(const void *message, const Options *options) {
        const Inplaced__V1__DiagnoseResponse *reply = message;
        bool has_runtime = false;
        int r;

        for (size_t i = 0; i < reply->n_runtimes; i++)
                has_runtime |= reply->runtimes[i]->chosen && reply->runtimes[i]->ready;

        r = options_wants_table(options) ? print_text(reply, options->format == OUTPUT_WIDE)
                                         : print_document(reply, options->format);
        if (r < 0)
                return r;

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

static int diagnose_alone(const Error *error, const Options *options) {
        LocalDiagnosis diagnosis;

        doctor_local_diagnose(discover_usual_sockets, error, &diagnosis);
        return print_diagnosis(&diagnosis.response, options);
}

int command_doctor(const Options *options) {
        Inplaced__V1__DiagnoseRequest request = INPLACED__V1__DIAGNOSE_REQUEST__INIT;

        return node_ask(options, &diagnose_method, &request.base, print_diagnosis, diagnose_alone);
}
