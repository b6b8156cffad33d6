/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/doctor-local.h"

#include "agent/ctl/socket-check.h"

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

        size_t n_listening = 0;

        *ret = (LocalDiagnosis){ .response = INPLACED__V1__DIAGNOSE_RESPONSE__INIT };
        ret->response.facts = ret->fact_list;
        ret->response.problems = ret->problem_list;

        add_problem(ret, "inplaced", error_message(unreachable), "");
        for (size_t i = 0; i < DISCOVER_SOCKETS_MAX && sockets[i]; i++) {
                int result = socket_check(sockets[i]);

                add_fact(ret, sockets[i], socket_check_to_string(result));
                n_listening += result == 0;
        }

        if (n_listening == 0)
                add_problem(ret, "container runtime", "none listens on the usual sockets",
                            "start one, such as containerd, or run this as root");
}
