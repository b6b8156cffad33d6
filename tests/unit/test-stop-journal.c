/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The journal of stops
 */

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/pod/stop-journal.h"
#include "tests/unit/failing-memory.h"
#include "tests/unit/unit.h"

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
        assert_ok(rmdir(folder)); /* so nothing temporary is left */
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

        assert_ok(stop_journal_new(folder, &journal, &error));
        if (error.kind != ERROR_NONE)
                fail_msg("%s", error_message(&error));
        return journal;
}

static void set(StopJournal *journal, const char *owner, const char *id, StopPhase phase,
                int64_t now) {
        assert_ok(stop_journal_set(journal,
                                   &(StopRecord){
                                           .owner = (char *) owner,
                                           .container_id = (char *) id,
                                           .container = (char *) "app",
                                           .runtime = (char *) "containerd",
                                           .phase = phase,
                                           .began_sec = now - 1,
                                           .deadline_sec = now + 30,
                                           .changed_sec = now,
                                           .uptime_sec = 77,
                                           .boot_id = (char *) "b-1",
                                   },
                                   NULL));
}

static int set_hook(StopJournal *journal, const char *id, Error *reterr) {
        const StopRecord record = {
                .owner = (char *) "a",
                .container_id = (char *) id,
                .phase = STOP_PHASE_HOOK,
                .deadline_sec = 5,
                .changed_sec = 5,
        };

        return stop_journal_set(journal, &record, reterr);
}

TEST_SET_UP(test_round_trip) {
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
        assert_ok(stat(path, &status));
        assert_int_equal(status.st_mode & 0777, 0600);
        stop_journal_free(journal);

        journal = open_journal();
        record = stop_journal_find(journal, "metadata", "c1");
        assert_non_null(record);
        assert_int_equal(record->phase, STOP_PHASE_STOPPING);
        assert_int_equal(record->changed_sec, now + 2);
        assert_int_equal(record->deadline_sec, now + 32);
        assert_int_equal(record->began_sec, now + 1);
        assert_int_equal(record->uptime_sec, 77);
        assert_string_equal(record->boot_id, "b-1");
        assert_string_equal(record->container, "app");
        assert_string_equal(record->runtime, "containerd");
        record = stop_journal_find(journal, "recreate/u", "c1");
        assert_int_equal(record->phase, STOP_PHASE_STOPPED);
        assert_null(stop_journal_find(journal, "metadata", "c2"));
        assert_null(stop_journal_find(journal, "recreate", "c1"));
        assert_int_equal(stop_journal_count(journal), 2);
        assert_string_equal(stop_journal_get(journal, 0)->owner, "recreate/u");
        assert_string_equal(stop_journal_get(journal, 1)->owner, "metadata");
        stop_journal_free(journal);
}

#define BOOT ((char *) "boot-1")

/* clang-format off */
static const struct Left {
        int64_t changed, deadline, uptime;
        char *boot_id;
        StopClock now;
        int64_t left;
} lefts[] = {
        /* The clock that cannot be set decides, at any time of the other one. */
        { 1000, 1030, 500, BOOT, { 1010, 510, "boot-1" }, 20 },
        { 1000, 1030, 500, BOOT, { 9999, 510, "boot-1" }, 20 },
        { 1000, 1030, 500, BOOT, { 1,    510, "boot-1" }, 20 },
        { 1000, 1030, 500, BOOT, { 1010, 529, "boot-1" }, 1 },
        { 1000, 1030, 500, BOOT, { 1010, 530, "boot-1" }, 0 },
        { 1000, 1030, 500, BOOT, { 1010, 999, "boot-1" }, 0 },
        { 1000, 1030, 500, BOOT, { 1010, 499, "boot-1" }, 30 },
        /* No stop has outlived another boot. */
        { 1000, 1030, 500, BOOT, { 1010, 510, "boot-2" }, 0 },
        /* If the boot is unknown, the other clock counts, within bounds. */
        { 1000, 1030, 500, NULL, { 1010, 510, "boot-1" }, 20 },
        { 1000, 1030, 500, BOOT, { 1010, 510, "" },       20 },
        { 1000, 1030, 500, NULL, { 1,    510, "" },       30 },
        { 1000, 1030, 500, NULL, { 9999, 510, "" },       0 },
        { 1000, 990,  500, NULL, { 1000, 510, "" },       0 },
};
/* clang-format on */

TEST(test_left) {
        for (size_t i = 0; i < N_ELEMENTS(lefts); i++) {
                const StopRecord record = {
                        .phase = STOP_PHASE_STOPPING,
                        .changed_sec = lefts[i].changed,
                        .deadline_sec = lefts[i].deadline,
                        .uptime_sec = lefts[i].uptime,
                        .boot_id = lefts[i].boot_id,
                };

                if (stop_record_left_sec(&record, &lefts[i].now) != lefts[i].left)
                        fail_msg("row %zu", i);
        }
}

TEST(test_clock) {
        StopClock first, second;

        stop_clock_read(&first);
        stop_clock_read(&second);
        assert_in_range(first.wall_sec, time(NULL) - 60, time(NULL));
        assert_true(first.uptime_sec > 0 && second.uptime_sec >= first.uptime_sec);
        assert_int_equal(strlen(first.boot_id), 36);
        assert_true(stop_journal_can_name(first.boot_id));
        assert_string_equal(first.boot_id, second.boot_id);
}

TEST(test_open) {
        for (StopPhase phase = STOP_PHASE_NONE; phase < _STOP_PHASE_MAX; phase++)
                assert_int_equal(stop_record_is_open(&(StopRecord){ .phase = phase }),
                                 phase == STOP_PHASE_HOOK || phase == STOP_PHASE_STOPPING);
}

TEST_SET_UP(test_old_ones_go) {
        int64_t now = time(NULL);
        StopJournal *journal = open_journal();
        char id[32];

        set(journal, "a", "old", STOP_PHASE_STOPPED, now - WEEK - 100);
        /* by a clock that was wrong */
        set(journal, "a", "begun", STOP_PHASE_STOPPING, now - 9 * WEEK);
        /* also open */
        set(journal, "a", "patient", STOP_PHASE_HOOK, now - WEEK - 10);
        set(journal, "a", "new", STOP_PHASE_STOPPED, now);
        set(journal, "a", "going-on", STOP_PHASE_STOPPING, now);
        assert_null(stop_journal_find(journal, "a", "old"));
        assert_non_null(stop_journal_find(journal, "a", "patient"));
        assert_non_null(stop_journal_find(journal, "a", "begun"));
        set(journal, "a", "begun", STOP_PHASE_STOPPED, now - WEEK - 100);
        set(journal, "a", "going-on", STOP_PHASE_STOPPING, now); /* each write drops what is over */
        assert_null(stop_journal_find(journal, "a", "begun"));

        for (int i = 0; i < 1024; i++) {
                snprintf(id, sizeof(id), "c%d", i);
                set(journal, "a", id, STOP_PHASE_STOPPED, now);
        }
        assert_null(stop_journal_find(journal, "a", "new"));
        assert_null(stop_journal_find(journal, "a", "c1"));
        assert_non_null(stop_journal_find(journal, "a", "c2"));
        assert_non_null(stop_journal_find(journal, "a", "c1023"));
        stop_journal_free(journal);

        /* Running stops are not forgotten in favour of finished ones. */
        journal = open_journal();
        assert_int_equal(stop_journal_count(journal), 1024);
        assert_non_null(stop_journal_find(journal, "a", "patient"));
        assert_non_null(stop_journal_find(journal, "a", "going-on"));
        assert_non_null(stop_journal_find(journal, "a", "c2"));
        stop_journal_free(journal);
}

#define LONG_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LONG_256 LONG_64 LONG_64 LONG_64 LONG_64

/* As many records as there can be, with names as long as they can be, are read again. */
TEST(test_largest) {
        StopEntries entries = { .items = NULL }, again = { .items = NULL };
        char name[] = LONG_256, *text;
        const StopRecord record = {
                .owner = name,
                .container_id = name,
                .container = name,
                .runtime = name,
                .phase = STOP_PHASE_STOPPING,
                .began_sec = 9999999999,
                .deadline_sec = 9999999999,
                .changed_sec = 9999999999,
                .uptime_sec = 9999999999,
                .boot_id = (char *) LONG_64,
        };
        size_t size;

        for (int i = 0; i < STOP_RECORDS_MAX; i++) {
                name[0] = (char) ('a' + i % 26);
                name[1] = (char) ('a' + i / 26 % 26);
                name[2] = (char) ('a' + i / 26 / 26);
                assert_ok(stop_entries_add(&entries, &record));
        }
        assert_ok(stop_journal_spec_format(&entries, &text, &size));
        assert_true(size <= 2 << 20);
        assert_ok(stop_journal_spec_parse(text, size, &again, NULL));
        assert_int_equal(again.n_items, STOP_RECORDS_MAX);
        stop_entries_done(&entries);
        stop_entries_done(&again);
        free(text);
}

/* As older versions have written them. */
/* Without memory it is not there, and never in part. */
TEST(test_memory_is_short) {
        StopEntries entries = { .items = NULL };
        const StopRecord record = { .owner = (char *) "a",
                                    .container_id = (char *) "b",
                                    .container = (char *) "c",
                                    .runtime = (char *) "d",
                                    .phase = STOP_PHASE_STOPPING,
                                    .boot_id = (char *) "e" };

        ASSERT_WITHOUT_MEMORY(stop_entries_add(&entries, &record), 0, );
        assert_int_equal(entries.n_items, 1);
        assert_string_equal(entries.items[0].record.boot_id, "e");
        stop_entries_done(&entries);
}

TEST_SET_UP(test_older_file) {
        const char text[] =
                "{\"version\":1,\"stops\":[{\"owner\":\"metadata\",\"containerID\":\"c1\","
                "\"phase\":\"hook\",\"deadline\":9999999999,\"changed\":9999999969}]}";
        const StopRecord *record;
        StopJournal *journal;

        write_file(text, strlen(text));
        journal = open_journal();
        record = stop_journal_find(journal, "metadata", "c1");
        assert_non_null(record);
        assert_int_equal(record->began_sec, 9999999969);
        assert_string_equal(record->container, "");
        assert_string_equal(record->runtime, "");
        assert_string_equal(record->boot_id, "");
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
        { FILE_OF(ENTRY("a", "", "hook", TIMES)), "stops[0]: containerID cannot be \"\"" },
        { FILE_OF(ENTRY("a b", "c", "hook", TIMES)), "stops[0]: owner cannot be \"a b\"" },
        { FILE_OF(ENTRY("a", "c", "hook", ",\"deadline\":1")),
          "stops[0]: a time is missing, or before 1970" },
        { FILE_OF(ENTRY("a", "c", "hook", TIMES) "," ENTRY("a", "c", "hook", TIMES)),
          "stops[1]: is there twice" },
        { FILE_OF(ENTRY("a", "c", "hook", TIMES ",\"container\":\"a b\"")),
          "stops[0]: container cannot be \"a b\"" },
        { FILE_OF(ENTRY("a", "c", "hook", TIMES ",\"runtime\":\"a b\"")),
          "stops[0]: runtime cannot be \"a b\"" },
        { FILE_OF(ENTRY("a", "c", "hook", TIMES ",\"boot\":\"a b\"")),
          "stops[0]: boot cannot be \"a b\"" },
        { FILE_OF("7"), "stops[0]: expected an object, got 7" },
};

static void assert_unusable(const char *why) {
        cleanup(error_done) Error error = ERROR_INIT;
        StopJournal *journal;
        char message[256];

        assert_ok(stop_journal_new(folder, &journal, &error));
        snprintf(message, sizeof(message), "%s: %s", path, why);
        assert_string_equal(error_message(&error), message);
        assert_null(stop_journal_find(journal, "a", "c"));
        stop_journal_free(journal);
}

TEST_SET_UP(test_bad_files) {
        char *large = calloc(1, (2 << 20) + 1);
        StopJournal *journal;

        for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
                write_file(bad[i].text, strlen(bad[i].text));
                assert_unusable(bad[i].why);
        }
        write_file(large, (2 << 20) + 1);
        assert_unusable("larger than 2 MiB");
        free(large);

        /* It is begun anew. */
        assert_ok(stop_journal_new(folder, &journal, NULL));
        set(journal, "a", "c", STOP_PHASE_STOPPED, time(NULL));
        stop_journal_free(journal);
        journal = open_journal();
        assert_non_null(stop_journal_find(journal, "a", "c"));
        stop_journal_free(journal);

        assert_ok(unlink(path));
        assert_ok(mkdir(path, 0700));
        assert_unusable("not a file");
}

/* A process that can write the journal decides which containers are stopped. */
TEST_SET_UP(test_foreign_file) {
        const char good[] = FILE_OF(ENTRY("a", "c", "stopped", TIMES));
        StopJournal *journal;

        write_file(good, strlen(good));
        for (mode_t mode = 0600; mode <= 0644; mode += 044) {
                assert_ok(chmod(path, mode));
                journal = open_journal();
                assert_non_null(stop_journal_find(journal, "a", "c"));
                stop_journal_free(journal);
        }
        assert_ok(chmod(path, 0620));
        assert_unusable("users other than its owner may write to it (mode 0620)");
        assert_ok(chmod(path, 0602));
        assert_unusable("users other than its owner may write to it (mode 0602)");
        assert_ok(chmod(path, 0600));
        if (geteuid() == 0) {
                assert_ok(chown(path, 65534, 0));
                assert_unusable("belongs to user 65534, neither to root nor to the agent");
        }

        /* A link is none of ours, either. */
        assert_ok(unlink(path));
        assert_ok(symlink("/dev/zero", path));
        assert_unusable("Too many levels of symbolic links");
}

/* A file in the way of the journal, or of its successor, neither blocks nor is written to. */
TEST_SET_UP(test_fifos) {
        char temporary[64];
        StopJournal *journal;
        struct stat status;

        snprintf(temporary, sizeof(temporary), "%s/.stops.json.new", folder);
        assert_ok(mkfifo(path, 0600));
        assert_ok(mkfifo(temporary, 0600));
        assert_unusable("not a file");

        assert_ok(stop_journal_new(folder, &journal, NULL));
        set(journal, "a", "c", STOP_PHASE_STOPPED, time(NULL));
        stop_journal_free(journal);
        assert_ok(lstat(path, &status));
        assert_true(S_ISREG(status.st_mode));
        journal = open_journal();
        assert_non_null(stop_journal_find(journal, "a", "c"));
        stop_journal_free(journal);
}

/* Records that cannot be written are right in memory. */
TEST_SET_UP(test_no_disk) {
        cleanup(error_done) Error error = ERROR_INIT;
        StopJournal *journal;
        char missing[64];

        snprintf(missing, sizeof(missing), "%s/missing", folder);
        assert_ok(stop_journal_new(missing, &journal, &error));
        assert_int_equal(error.kind, ERROR_NONE);
        assert_true(set_hook(journal, "c", &error) < 0);
        assert_contains(error_message(&error), "cannot write it: No such file");
        assert_int_equal(stop_journal_find(journal, "a", "c")->phase, STOP_PHASE_HOOK);
        stop_journal_free(journal);
}

TEST_SET_UP(test_names) {
        StopJournal *journal = open_journal();
        char name[258];

        memset(name, 'x', sizeof(name));
        name[257] = '\0';
        assert_false(stop_journal_can_name(name));
        assert_true(set_hook(journal, name, NULL) < 0);
        name[256] = '\0';
        assert_true(stop_journal_can_name(name));
        assert_false(stop_journal_can_name(""));
        assert_false(stop_journal_can_name("a\"b"));
        assert_false(stop_journal_can_name("a\nb"));
        assert_false(stop_journal_can_name("ä"));
        stop_journal_free(journal);
}
