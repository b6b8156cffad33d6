/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/problems.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "agent/base/cleanup.h"
#include "agent/ctl/output.h"
#include "agent/ctl/terminal-text.h"

int print_safe(const char *format, ...) {
        cleanup(free_p) char *text = NULL, *escaped = NULL;
        va_list args;

        va_start(args, format);
        if (vasprintf(&text, format, args) < 0)
                text = NULL;
        va_end(args);

        escaped = text ? terminal_text_escape(text) : NULL;
        if (!escaped)
                return -ENOMEM;

        puts(escaped);
        return 0;
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

static json_object *problem_json(const Inplaced__V1__Problem *problem) {
        cleanup(json_put_p) json_object *object = json_object_new_object();

        if (!object || !output_add_string(object, "subject", problem->subject) ||
            !output_add_string(object, "message", problem->message) ||
            !output_add_string(object, "advice", problem->advice))
                return NULL;

        return take_ptr(object);
}

json_object *problems_json(Inplaced__V1__Problem *const *problems, size_t n_problems) {
        cleanup(json_put_p) json_object *array = json_object_new_array();

        for (size_t i = 0; array && i < n_problems; i++)
                if (!output_append(array, problem_json(problems[i])))
                        return NULL;

        return take_ptr(array);
}
