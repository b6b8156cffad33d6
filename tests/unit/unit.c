/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>

#include "tests/unit/unit.h"

/* The linker names the ends of the section in which the tests register. */
extern const UnitEntry *const __start_unit_tests[], *const __stop_unit_tests[];

static size_t count_tests(void) {
        size_t n = 0;

        for (const UnitEntry *const *i = __start_unit_tests; i < __stop_unit_tests; i++)
                n += (*i)->rows ? (*i)->n_rows : 1;
        return n;
}

static char *row_name(const UnitEntry *test, const char *row) {
        const char *text;
        char *name;

        memcpy(&text, row + test->name_offset, sizeof(text));
        if (asprintf(&name, "%s: %.100s", test->name, text ? text : "NULL") < 0)
                abort();
        for (char *c = name; *c; c++)
                if (*c < ' ' || *c > '~')
                        *c = '?'; /* a report has a line for each test */
        return name;
}

static struct CMUnitTest make_test(const UnitEntry *test, size_t index) {
        const char *row = test->rows ? (const char *) test->rows + index * test->row_size : NULL;

        return (struct CMUnitTest){
                .name = row ? row_name(test, row) : strdup(test->name),
                .test_func = test->run,
                .setup_func = test->set_up,
                .teardown_func = test->tear_down,
                .initial_state = (void *) row,
        };
}

int unit_run(void) {
        struct CMUnitTest *tests = calloc(count_tests(), sizeof(*tests));
        size_t n = 0;
        int n_failed;

        if (!tests)
                abort();
        for (const UnitEntry *const *i = __start_unit_tests; i < __stop_unit_tests; i++)
                for (size_t k = 0; k < ((*i)->rows ? (*i)->n_rows : 1); k++)
                        tests[n++] = make_test(*i, k);

        n_failed = _cmocka_run_group_tests(program_invocation_short_name, tests, n, NULL, NULL);
        for (size_t i = 0; i < n; i++)
                free((void *) tests[i].name);
        free(tests);
        return n_failed > 0;
}

__attribute__((weak)) int main(void) {
        return unit_run();
}
