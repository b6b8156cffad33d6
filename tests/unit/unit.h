/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Unit tests
 *
 * A test is a function that registers itself; unit.c runs those of the program.
 *
 *     TEST(test_x) { ... }
 *     TEST_F(test_x, Fixture *fixture) { ... }
 *     TEST_ROWS(test_x, rows, name, const struct Row *row) { ... }
 *     TEST_ROWS_F(test_x, rows, name, const struct Row *row, Fixture *fixture) { ... }
 *
 * TEST_F() runs it between set_up() and tear_down() of the program; set_up() stores in *state what the
 * test receives. TEST_SET_UP(test_x) is for a test that does not use it, TEST_WITH() for functions of
 * other names. TEST_ROWS() makes a test of each row of a table; the member `name` names it in the report.
 *
 * DEFINE_FIXTURE() makes set_up() and tear_down() of a Fixture that is zeroed before and freed after.
 *
 * A program that prepares something for all its tests has a main() that returns unit_run().
 */

/* cmocka's own headers must stand before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Nearly every test uses these. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

/* The call succeeded. */
#define assert_ok(call) assert_int_equal(call, 0)

static inline void assert_contains(const char *text, const char *part) {
        if (!text || !strstr(text, part))
                fail_msg("no `%s` in `%s`", part, text ? text : "NULL");
}

#define MSEC ((uint64_t) 1000)
#define SEC (1000 * MSEC)
#define WAIT_USEC (60 * SEC) /* how long a test waits before it fails */

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

typedef struct UnitEntry {
        const char *name;
        void (*run)(void **state);
        int (*set_up)(void **state);
        int (*tear_down)(void **state);
        const void *rows; /* NULL: it is one test */
        size_t n_rows, row_size, name_offset;
} UnitEntry;

/* Runs all tests of the program. Returns its exit status. */
int unit_run(void);

#define UNIT_REGISTER(test, ...)                                              \
        static const UnitEntry test##_entry = { .name = #test, __VA_ARGS__ }; \
        static const UnitEntry *const test##_registered                       \
                __attribute__((section("unit_tests"), used)) = &test##_entry;

#define UNIT_ROWS(table, member)                                                    \
        .rows = table, .n_rows = N_ELEMENTS(table), .row_size = sizeof((table)[0]), \
        .name_offset = offsetof(__typeof__((table)[0]), member)

#define UNIT_TEST(test, parameter, ...)                     \
        static void test(parameter);                        \
        static void test##_run(void **state) {              \
                test(*state);                               \
        }                                                   \
        UNIT_REGISTER(test, .run = test##_run, __VA_ARGS__) \
        static void test(parameter)

#define TEST(test)                             \
        static void test(void **unused_state); \
        UNIT_REGISTER(test, .run = test)       \
        static void test(void **unused_state)

#define TEST_SET_UP(test)                                                          \
        static void test(void **unused_state);                                     \
        UNIT_REGISTER(test, .run = test, .set_up = set_up, .tear_down = tear_down) \
        static void test(void **unused_state)

/* Makes set_up() and tear_down() of functions that fill and empty what the tests of a program share. */
#define DEFINE_FIXTURE(type, fill, empty)                    \
        static int set_up(void **state) {                    \
                type *fixture = calloc(1, sizeof(*fixture)); \
                                                             \
                assert_non_null(fixture);                    \
                fill(fixture);                               \
                *state = fixture;                            \
                return 0;                                    \
        }                                                    \
        static int tear_down(void **state) {                 \
                empty(*state);                               \
                free(*state);                                \
                return 0;                                    \
        }

#define TEST_WITH(test, before, after, parameter) \
        UNIT_TEST(test, parameter, .set_up = before, .tear_down = after)

#define TEST_F(test, parameter) TEST_WITH(test, set_up, tear_down, parameter)

#define TEST_ROWS(test, table, member, row_parameter) \
        UNIT_TEST(test, row_parameter, UNIT_ROWS(table, member))

#define TEST_ROWS_F(test, table, member, row_parameter, parameter)                              \
        static void test(row_parameter, parameter);                                             \
        static const void *test##_row;                                                          \
        static int test##_set_up(void **state) {                                                \
                test##_row = *state;                                                            \
                return set_up(state);                                                           \
        }                                                                                       \
        static void test##_run(void **state) {                                                  \
                test(test##_row, *state);                                                       \
        }                                                                                       \
        UNIT_REGISTER(test, .run = test##_run, .set_up = test##_set_up, .tear_down = tear_down, \
                      UNIT_ROWS(table, member))                                                 \
        static void test(row_parameter, parameter)
