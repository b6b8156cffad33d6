/* SPDX-License-Identifier: Apache-2.0 */

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

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

/* Counts the open files, pipes and sockets of this process, and names them if there are more than so many. gRPC keeps an
 * epoll and an eventfd for as long as a process lives: what has no inode of its own does not count. */
static size_t count_open(size_t n_max) {
        DIR *directory = opendir("/proc/self/fd");
        char targets[4096] = "";
        size_t n = 0;

        if (!directory)
                abort();
        for (const struct dirent *entry; (entry = readdir(directory));) {
                char target[256] = "";
                size_t size = strlen(targets);

                if (readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1) < 0 ||
                    strncmp(target, "anon_inode:", strlen("anon_inode:")) == 0)
                        continue;
                n++;
                (void) snprintf(targets + size, sizeof(targets) - size, " %s", target);
        }
        closedir(directory);
        if (n > n_max)
                print_error("%zu descriptors more than in the beginning are open:%s\n", n - n_max,
                            targets);
        return n;
}

/* Says whether more than so many stay open. A thread of gRPC closes a socket some time after its channel has gone, and tells
 * no other thread of it. */
static bool leaks(size_t n_max) {
        for (int n_left = 500; n_left > 0; n_left--) {
                if (count_open(SIZE_MAX) <= n_max)
                        return false;
                (void) usleep(10000);
        }
        return count_open(n_max) > n_max;
}

int unit_run(void) {
        struct CMUnitTest *tests = calloc(count_tests(), sizeof(*tests));
        size_t n = 0, n_open = count_open(SIZE_MAX);
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
        return n_failed > 0 || leaks(n_open);
}

__attribute__((weak)) int main(void) {
        return unit_run();
}
