/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which labels a selector matches
 */

#include "agent/document/label-selector.h"
#include "agent/document/json-cleanup.h"
#include "tests/unit/unit.h"

#define LABELS "{\"pool\":\"gpu\",\"zone\":\"a\",\"empty\":\"\",\"x.io/y_z\":\"1.2-3\"}"

static const struct Row {
        const char *selector;
        bool matches;
} rows[] = {
        { "", true },
        { "  ", true },
        { "pool=gpu", true },
        { "pool==gpu", true },
        { " pool = gpu ", true },
        { "pool=cpu", false },
        { "pool=gp", false },
        { "poo=gpu", false },
        { "pool!=gpu", false },
        { "pool!=cpu", true },
        { "none!=cpu", true },
        { "none=", false },
        { "empty=", true },
        { "empty", true },
        { "pool", true },
        { "none", false },
        { "!none", true },
        { "! none", true },
        { "!pool", false },
        { "zone in (a)", true },
        { "zone in (b, a)", true },
        { "zone in (b,c)", false },
        { "none in (a)", false },
        { "zone notin (b,c)", true },
        { "zone notin (a,c)", false },
        { "none notin (a)", true },
        { "x.io/y_z=1.2-3", true },
        { "in in (a)", false },
        { "in", false },
        { "pool=gpu,zone in (a,b),!none", true },
        { "pool=gpu,zone in (b),!none", false },
        { "pool=cpu,zone in (a),!none", false },
};

TEST_ROWS(test_matches, rows, selector, const struct Row *row) {
        cleanup(json_object_put_p) json_object *labels = json_tokener_parse(LABELS);
        bool matches = !row->matches;

        assert_ok(label_selector_match(row->selector, labels, &matches, NULL));
        assert_int_equal(matches, row->matches);
}

TEST(test_no_labels) {
        bool matches = false;

        assert_ok(label_selector_match("!pool", NULL, &matches, NULL));
        assert_true(matches);
        assert_ok(label_selector_match("pool", NULL, &matches, NULL));
        assert_false(matches);
}

static const struct Fault {
        const char *selector;
} faults[] = {
        { "=gpu" },          { "," },           { "pool=gpu," },     { "pool=gpu,,zone=a" },
        { "pool=g pu" },     { "pool gpu" },    { "pool in" },       { "pool in a" },
        { "pool in (a" },    { "pool in(a))" }, { "pool=gpu;zone" }, { "!" },
        { "!pool=gpu" },     { "pool>1" },      { "poolin (a)" },    { "pool\xff" },
        { "pool is (gpu)" },
};

/* A faulty selector neither matches nor fails to: the caller's variable stays. */
TEST_ROWS(test_faults, faults, selector, const struct Fault *row) {
        cleanup(json_object_put_p) json_object *labels = json_tokener_parse(LABELS);

        for (int before = 0; before < 2; before++) {
                cleanup(error_done) Error error = ERROR_INIT;
                bool matches = before;

                assert_true(label_selector_match(row->selector, labels, &matches, &error) < 0);
                assert_int_equal(error.kind, ERROR_INVALID);
                assert_contains(error_message(&error), "is no label selector");
                assert_int_equal(matches, before);
        }
}
