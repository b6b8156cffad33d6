/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Suggestions for mistyped words
 */

#include "agent/base/suggest.h"
#include "tests/unit/unit.h"

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

TEST_ROWS(test_rows, rows, typed, const struct Row *row) {
        static const char *const words[] = { "pull",   "restart", "verify",
                                             "status", "images",  "doctor" };
        Suggestion suggestion = suggest_for(row->typed);

        print_message("%s\n", row->typed);
        for (size_t j = 0; j < N_ELEMENTS(words); j++)
                suggest(&suggestion, words[j]);
        if (row->suggested)
                assert_string_equal(suggestion.word ?: "nothing", row->suggested);
        else
                assert_null(suggestion.word);
}

/* It is compared with nothing, however near it is. */
TEST(test_long_words) {
        static const char long_word[] = "imagesimagesimagesimagesimagesimagesimages";
        Suggestion of_short = suggest_for("images"), of_long = suggest_for(long_word);

        suggest(&of_short, long_word);
        assert_null(of_short.word);
        suggest(&of_long, long_word);
        assert_null(of_long.word);
}

/* The nearest one, wherever it stands; of two that are equally near the first. */
TEST(test_nearest) {
        Suggestion suggestion = suggest_for("abcd");

        suggest(&suggestion, "abxy");
        assert_string_equal(suggestion.word, "abxy");
        suggest(&suggestion, "abcx");
        assert_string_equal(suggestion.word, "abcx");
        suggest(&suggestion, "abcy");
        assert_string_equal(suggestion.word, "abcx");
}
