/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/changes.h"
#include "tests/unit/failing-memory.h"
#include "tests/unit/unit.h"

static void set_up_changes(Changes *changes) {
}

DEFINE_FIXTURE(Changes, set_up_changes, changes_done)

TEST_F(test_only_news_count, Changes *changes) {
        assert_int_equal(changes_note(changes, "app:1", "pulling", 0), 1);
        assert_int_equal(changes_note(changes, "app:1", "pulling", 9), 0);
        assert_int_equal(changes_note(changes, "app:1", "pulling", 10), 1);
        assert_int_equal(changes_note(changes, "app:2", "pulling", 10), 1);
        assert_int_equal(changes_note(changes, "app:1", "unpacking", 10), 1);
}

TEST_F(test_what_was_forgotten_is_news, Changes *changes) {
        assert_false(changes_forget(changes, "app:1"));
        assert_int_equal(changes_note(changes, "app:1", "failed", 0), 1);
        assert_true(changes_forget(changes, "app:1"));
        assert_int_equal(changes_note(changes, "app:1", "failed", 0), 1);
}

TEST_F(test_what_is_there_no_more_is_forgotten, Changes *changes) {
        for (const char *const *key = (const char *const[]){ "a", "b", "c", NULL }; *key; key++)
                assert_int_equal(changes_note(changes, *key, "pulling", 0), 1);
        changes_forget_others(changes);
        assert_int_equal(changes->n_lines, 3);

        assert_int_equal(changes_note(changes, "b", "pulling", 0), 0);
        changes_forget_others(changes);
        assert_int_equal(changes->n_lines, 1);
        assert_string_equal(changes_key(changes, 0), "b");

        assert_int_equal(changes_note(changes, "a", "pulling", 0), 1);
        assert_int_equal(changes_note(changes, "b", "pulling", 0), 0);
}

/* A line that has no text yet is news. */
TEST_F(test_memory_is_short, Changes *changes) {
        ASSERT_WITHOUT_MEMORY(changes_note(changes, "app:1", "pulling", 0), 1,
                              assert_int_equal(changes->n_lines, 1));
        assert_int_equal(changes_note(changes, "app:1", "pulling", 0), 0);
}
