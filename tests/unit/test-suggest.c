/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Suggestions for mistyped words
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/base/suggest.h"

/* clang-format off */
static const struct Row {
        const char *typed;
        const char *suggested; /* NULL: nothing */
} rows[] = {
        { "statsu",   "status"  }, /* two neighbours swapped */
        { "stat",     "status"  },
        { "sttus",    "status"  },
        { "statuus",  "status"  },
        { "images",   "images"  },
        { "image",    "images"  },
        { "restrt",   "restart" },
        { "pul",      "pull"    },
        { "pulll",    "pull"    },
        { "jump",     NULL      }, /* "pull" needs three changes */
        { "",         NULL      },
        { "x",        NULL      },
        { "ps",       NULL      },
        { "delete",   NULL      },
        { "pullpullpullpullpullpullpullpullpull", NULL },
};
/* clang-format on */

static void test_rows(void **state) {
        static const char *const words[] = { "pull",   "restart", "verify",
                                             "status", "images",  "doctor" };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                Suggestion suggestion = suggest_for(rows[i].typed);

                print_message("%s\n", rows[i].typed);
                for (size_t j = 0; j < sizeof(words) / sizeof(words[0]); j++)
                        suggest(&suggestion, words[j]);
                if (rows[i].suggested)
                        assert_string_equal(suggestion.word ?: "nothing", rows[i].suggested);
                else
                        assert_null(suggestion.word);
        }
}

/* The nearest one, wherever it stands; of two that are equally near the first. */
static void test_nearest(void **state) {
        Suggestion suggestion = suggest_for("abcd");

        suggest(&suggestion, "abxy");
        assert_string_equal(suggestion.word, "abxy");
        suggest(&suggestion, "abcx");
        assert_string_equal(suggestion.word, "abcx");
        suggest(&suggestion, "abcy");
        assert_string_equal(suggestion.word, "abcx");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_nearest),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
