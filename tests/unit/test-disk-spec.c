/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How much of a disk stays free
 */

#include "agent/image/disk-spec.h"
#include "tests/unit/unit.h"

#define MB ((uint64_t) 1000000)
#define GB (1000 * MB)

static const struct Text {
        const char *text;
        bool is_valid;
        DiskFloor floor;
} texts[] = {
        { "0", true, { 0, 0 } },
        { "1000", true, { 0, 1000 } },
        { "5GB", true, { 0, 5 * GB } },
        { "5G", true, { 0, 5 * GB } },
        { "5B", true, { 0, 5 } },
        { "7k", true, { 0, 7000 } },
        { "2T", true, { 0, 2000 * GB } },
        { "512Mi", true, { 0, (uint64_t) 512 << 20 } },
        { "512MiB", true, { 0, (uint64_t) 512 << 20 } },
        { "3Ki", true, { 0, 3072 } },
        { "1Gi", true, { 0, (uint64_t) 1 << 30 } },
        { "1Ti", true, { 0, (uint64_t) 1 << 40 } },
        { "15%", true, { 15, 0 } },
        { "90%", true, { 90, 0 } },
        { "15%,5GB", true, { 15, 5 * GB } },
        { "5GB,15%", true, { 15, 5 * GB } },
        { "", false, { 0 } },
        { "GB", false, { 0 } },
        { "%", false, { 0 } },
        { "-1", false, { 0 } },
        { " 1", false, { 0 } },
        { "1.5GB", false, { 0 } },
        { "5 GB", false, { 0 } },
        { "5XB", false, { 0 } },
        { "5GBB", false, { 0 } },
        { "91%", false, { 0 } },
        { "4294967297%", false, { 0 } },
        { "15%%", false, { 0 } },
        { "15%,", false, { 0 } },
        { ",5GB", false, { 0 } },
        { "15%,10%", false, { 0 } },
        { "5GB,6GB", false, { 0 } },
        { "15%,0", false, { 0 } },
        { "15%,5GB,1", false, { 0 } },
        { "99999999999999999999", false, { 0 } },
        { "99999999999T", false, { 0 } },
};

TEST(test_texts) {
        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                cleanup(error_done) Error error = ERROR_INIT;
                DiskFloor floor = { 77, 77 };
                int r = disk_floor_parse(texts[i].text, &floor, &error);

                if ((r >= 0) != texts[i].is_valid)
                        fail_msg("\"%s\": %d", texts[i].text, r);
                if (r < 0) {
                        assert_contains(error_message(&error), "15%,5GB");
                        assert_int_equal(floor.percent, 77);
                        continue;
                }
                if (floor.percent != texts[i].floor.percent || floor.bytes != texts[i].floor.bytes)
                        fail_msg("\"%s\": %u %% and %lu bytes", texts[i].text, floor.percent,
                                 (unsigned long) floor.bytes);
        }
}

static const struct Case {
        const char *name;
        DiskFloor floor;
        DiskSpace space;
        uint64_t bytes;
        DiskRoom room;
} cases[] = {
        { "no floor, a full disk", { 0, 0 }, { 0, 10 * GB }, 0, DISK_ROOM_ENOUGH },
        { "a small disk: its share",
          { 15, 5 * GB },
          { 2 * GB, 10 * GB },
          1500 * MB,
          DISK_ROOM_ENOUGH },
        { "a large disk: the bytes",
          { 15, 5 * GB },
          { 6 * GB, 1000 * GB },
          5 * GB,
          DISK_ROOM_ENOUGH },
        { "just enough", { 0, 3 * GB }, { 3 * GB, 10 * GB }, 3 * GB, DISK_ROOM_ENOUGH },
        { "a byte short", { 0, 3 * GB }, { 3 * GB - 1, 10 * GB }, 3 * GB, DISK_ROOM_LOW },
        { "just a third", { 0, 3 * GB }, { GB, 10 * GB }, 3 * GB, DISK_ROOM_LOW },
        { "a byte below a third", { 0, 3 * GB }, { GB - 1, 10 * GB }, 3 * GB, DISK_ROOM_CRITICAL },
        { "nothing left", { 10, 0 }, { 0, 10 * GB }, GB, DISK_ROOM_CRITICAL },
        { "a disk without a size", { 15, 5 * GB }, { 0, 0 }, 0, DISK_ROOM_ENOUGH },
        { "a floor above the disk", { 0, 20 * GB }, { 10 * GB, 10 * GB }, 20 * GB, DISK_ROOM_LOW },
};

TEST(test_cases) {
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                const struct Case *row = &cases[i];

                if (disk_floor_bytes(&row->floor, row->space.n_total) != row->bytes ||
                    disk_room(&row->floor, &row->space) != row->room)
                        fail_msg("%s", row->name);
        }
}

/* The floor is 30 MB; 10 MB of it are kept from running pulls. */
static const struct NeedRow {
        const char *name;
        uint64_t n_free;
        DiskNeed need;
        DiskRoom room;
} needs[] = {
        { "nothing is known", 40 * MB, { 0, 90 * MB }, DISK_ROOM_ENOUGH },
        { "just enough", 40 * MB, { 30 * MB, 0 }, DISK_ROOM_ENOUGH },
        { "a byte short", 40 * MB, { 30 * MB + 1, 0 }, DISK_ROOM_SCARCE },
        { "just enough for all", 40 * MB, { 20 * MB, 10 * MB }, DISK_ROOM_ENOUGH },
        { "others need it", 40 * MB, { 20 * MB, 10 * MB + 1 }, DISK_ROOM_SCARCE },
        { "low, and enough for one that runs", 20 * MB, { 10 * MB, 0 }, DISK_ROOM_LOW },
        { "low, and too little for it", 20 * MB, { 11 * MB, 0 }, DISK_ROOM_SCARCE },
        { "critical", 9 * MB, { 90 * MB, 0 }, DISK_ROOM_CRITICAL },
        { "a manifest that lies", 40 * MB, { UINT64_MAX, UINT64_MAX }, DISK_ROOM_SCARCE },
        { "a manifest that lies a little", 40 * MB, { UINT64_MAX, 0 }, DISK_ROOM_SCARCE },
};

TEST(test_needs) {
        const DiskFloor floor = { 0, 30 * MB };

        for (size_t i = 0; i < N_ELEMENTS(needs); i++) {
                const DiskSpace space = { needs[i].n_free, 100 * MB };

                if (disk_room_for(&floor, &space, &needs[i].need) != needs[i].room)
                        fail_msg("%s", needs[i].name);
        }
}

static void assert_need(DiskFloor floor, DiskNeed need, const char *expected) {
        const DiskSpace space = { 293 * MB, 340 * MB };
        cleanup(free_p) char *text = disk_describe_need(&floor, &space, &need, "/images");

        assert_string_equal(text, expected);
}

TEST(test_describe_need) {
        assert_need((DiskFloor){ 0 }, (DiskNeed){ 401 * MB, 0 },
                    "needs 401 MB, 293 MB of 340 MB are free in /images");
        assert_need((DiskFloor){ 0, 30 * MB }, (DiskNeed){ 290 * MB, 120 * MB },
                    "needs 290 MB, 293 MB of 340 MB are free in /images, other pulls need 120 MB, "
                    "10 MB stay free (a third of minFreeDisk)");
}

static void assert_described(DiskFloor floor, DiskSpace space, const char *expected) {
        cleanup(free_p) char *text = disk_describe(&floor, &space, "/images");

        assert_string_equal(text, expected);
}

TEST(test_describe) {
        assert_described((DiskFloor){ 15, 5 * GB }, (DiskSpace){ 1234 * MB, 20 * GB },
                         "1.2 GB of 20 GB are free in /images, less than minFreeDisk (3.0 GB)");
        assert_described((DiskFloor){ 0, 2 * GB }, (DiskSpace){ 1 * GB, 10 * GB },
                         "1.0 GB of 10 GB are free in /images, less than minFreeDisk (2.0 GB)");
        assert_described((DiskFloor){ 0, 30 * MB }, (DiskSpace){ 4 * MB, 100 * MB },
                         "4 MB of 100 MB are free in /images, less than a third of minFreeDisk "
                         "(30 MB)");
}
