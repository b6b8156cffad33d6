/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The journal of stops
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/pod/stop-journal.h"

#define WEEK (7 * 86400)

static char folder[32], path[64];

static int set_up(void **state) {
        strcpy(folder, "/tmp/stop-journal-XXXXXX");
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof(path), "%s/stops.json", folder);
        return 0;
}

static int tear_down(void **state) {
        (void) unlink(path);
        (void) rmdir(path);
        assert_int_equal(rmdir(folder), 0); /* so nothing temporary is left */
        return 0;
}

static void write_file(const char *text, size_t size) {
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        fwrite(text, 1, size, file);
        fclose(file);
}

static StopJournal *open_journal(void) {
        Error error = ERROR_INIT;
        StopJournal *journal;

        assert_int_equal(stop_journal_new(folder, &journal, &error), 0);
        if (error.kind != ERROR_NONE)
                fail_msg("%s", error_message(&error));
        return journal;
}

static void set(StopJournal *journal, const char *owner, const char *id, StopPhase phase,
                int64_t now) {
        assert_int_equal(stop_journal_set(journal, owner, id, phase, now + 30, now, NULL), 0);
}

static void test_round_trip(void **state) {
        int64_t now = time(NULL);
        StopJournal *journal = open_journal();
        const StopRecord *record;
        struct stat status;

        assert_null(stop_journal_find(journal, "metadata", "c1"));
        set(journal, "metadata", "c1", STOP_PHASE_HOOK, now);
        set(journal, "recreate/u", "c1", STOP_PHASE_STOPPED, now + 1);
        set(journal, "metadata", "c2", STOP_PHASE_STOPPED, now);
        set(journal, "metadata", "c1", STOP_PHASE_STOPPING, now + 2);
        set(journal, "metadata", "c2", STOP_PHASE_NONE, now);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
        stop_journal_free(journal);

        journal = open_journal();
        record = stop_journal_find(journal, "metadata", "c1");
        assert_non_null(record);
        assert_int_equal(record->phase, STOP_PHASE_STOPPING);
        assert_int_equal(record->changed_sec, now + 2);
        assert_int_equal(record->deadline_sec, now + 32);
        record = stop_journal_find(journal, "recreate/u", "c1");
        assert_int_equal(record->phase, STOP_PHASE_STOPPED);
        assert_null(stop_journal_find(journal, "metadata", "c2"));
        assert_null(stop_journal_find(journal, "recreate", "c1"));
        stop_journal_free(journal);
}

static void test_old_ones_go(void **state) {
        int64_t now = time(NULL);
        StopJournal *journal = open_journal();
        char id[32];

        set(journal, "a", "old", STOP_PHASE_STOPPED, now - WEEK - 100);
        set(journal, "a", "patient", STOP_PHASE_HOOK, now - WEEK - 10); /* its deadline is later */
        set(journal, "a", "new", STOP_PHASE_STOPPED, now);
        assert_null(stop_journal_find(journal, "a", "old"));
        assert_non_null(stop_journal_find(journal, "a", "patient"));

        for (int i = 0; i < 1024; i++) {
                snprintf(id, sizeof(id), "c%d", i);
                set(journal, "a", id, STOP_PHASE_STOPPED, now);
        }
        assert_null(stop_journal_find(journal, "a", "new"));
        assert_non_null(stop_journal_find(journal, "a", "c0"));
        assert_non_null(stop_journal_find(journal, "a", "c1023"));
        stop_journal_free(journal);

        journal = open_journal();
        assert_non_null(stop_journal_find(journal, "a", "c0"));
        stop_journal_free(journal);
}

#define ENTRY(owner, id, phase, times) \
        "{\"owner\":\"" owner "\",\"containerID\":\"" id "\",\"phase\":\"" phase "\"" times "}"
#define TIMES ",\"deadline\":9999999999,\"changed\":9999999999"
#define FILE_OF(entries) "{\"version\":1,\"stops\":[" entries "]}"

static const struct Bad {
        const char *text;
        const char *why;
} bad[] = {
        { "", "it is not a JSON object" },
        { "[]", "it is not a JSON object" },
        { "{\"version\":1,\"stops\":[", "it is not a JSON object" },
        { "{\"version\":2,\"stops\":[]}", "its version is not 1" },
        { "{\"version\":1}", "stops: expected a list of at most 1024 items" },
        { FILE_OF(ENTRY("a", "c", "hook", TIMES) "," ENTRY("a", "d", "odd", TIMES)),
          "stops[1]: there is no phase \"odd\"" },
        { FILE_OF(ENTRY("a", "", "hook", TIMES)),
          "stops[0]: nothing can have the containerID \"\"" },
        { FILE_OF(ENTRY("a b", "c", "hook", TIMES)),
          "stops[0]: nothing can have the owner \"a b\"" },
        { FILE_OF(ENTRY("a", "c", "hook", ",\"deadline\":1")),
          "stops[0]: a time is missing, or before 1970" },
        { FILE_OF(ENTRY("a", "c", "hook", TIMES) "," ENTRY("a", "c", "hook", TIMES)),
          "stops[1]: is there twice" },
        { FILE_OF("7"), "stops[0]: expected an object, got 7" },
};

static void assert_unusable(const char *why) {
        cleanup(error_done) Error error = ERROR_INIT;
        StopJournal *journal;
        char message[256];

        assert_int_equal(stop_journal_new(folder, &journal, &error), 0);
        snprintf(message, sizeof(message), "%s: %s", path, why);
        assert_string_equal(error_message(&error), message);
        assert_null(stop_journal_find(journal, "a", "c"));
        stop_journal_free(journal);
}

static void test_bad_files(void **state) {
        char *large = calloc(1, (1 << 20) + 1);
        StopJournal *journal;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                write_file(bad[i].text, strlen(bad[i].text));
                assert_unusable(bad[i].why);
        }
        write_file(large, (1 << 20) + 1);
        assert_unusable("larger than 1 MiB");
        free(large);

        /* It is begun anew. */
        assert_int_equal(stop_journal_new(folder, &journal, NULL), 0);
        set(journal, "a", "c", STOP_PHASE_STOPPED, time(NULL));
        stop_journal_free(journal);
        journal = open_journal();
        assert_non_null(stop_journal_find(journal, "a", "c"));
        stop_journal_free(journal);

        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_unusable("not a file");
}

/* What cannot be written is right in memory. */
static void test_no_disk(void **state) {
        cleanup(error_done) Error error = ERROR_INIT;
        StopJournal *journal;
        char missing[64];

        snprintf(missing, sizeof(missing), "%s/missing", folder);
        assert_int_equal(stop_journal_new(missing, &journal, &error), 0);
        assert_int_equal(error.kind, ERROR_NONE);
        assert_true(stop_journal_set(journal, "a", "c", STOP_PHASE_HOOK, 5, 5, &error) < 0);
        assert_non_null(strstr(error_message(&error), "cannot write it: No such file"));
        assert_int_equal(stop_journal_find(journal, "a", "c")->phase, STOP_PHASE_HOOK);
        stop_journal_free(journal);
}

static void test_names(void **state) {
        StopJournal *journal = open_journal();
        char name[258];

        memset(name, 'x', sizeof(name));
        name[257] = '\0';
        assert_false(stop_journal_can_name(name));
        assert_true(stop_journal_set(journal, "a", name, STOP_PHASE_HOOK, 5, 5, NULL) < 0);
        name[256] = '\0';
        assert_true(stop_journal_can_name(name));
        assert_false(stop_journal_can_name(""));
        assert_false(stop_journal_can_name("a\"b"));
        assert_false(stop_journal_can_name("a\nb"));
        assert_false(stop_journal_can_name("ä"));
        stop_journal_free(journal);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_old_ones_go, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_bad_files, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_no_disk, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
