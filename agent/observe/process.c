/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/observe/process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"

DEFINE_CLEANUP(FILE *, fclose)
DEFINE_CLEANUP(DIR *, closedir)

static double clock_read(clockid_t clock) {
        struct timespec now;

        if (clock_gettime(clock, &now) < 0)
                return -1;

        return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static int64_t resident_bytes(void) {
        cleanup(fclose_p) FILE *file = fopen("/proc/self/statm", "re");
        int64_t n_pages;

        if (!file || fscanf(file, "%*d %" SCNd64, &n_pages) != 1)
                return -1;

        return n_pages * sysconf(_SC_PAGESIZE);
}

static int64_t n_open_fds(void) {
        cleanup(closedir_p) DIR *directory = opendir("/proc/self/fd");
        int64_t n = 0;

        if (!directory)
                return -1;

        for (const struct dirent *entry; (entry = readdir(directory));)
                n += entry->d_name[0] != '.';

        return n - 1; /* the one that reads this */
}

static int64_t max_fds(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > INT64_MAX)
                return -1;

        return (int64_t) limit.rlim_cur;
}

ProcessFacts process_facts_read(void) {
        return (ProcessFacts){
                .resident_bytes = resident_bytes(),
                .n_open_fds = n_open_fds(),
                .max_fds = max_fds(),
                .cpu_seconds = clock_read(CLOCK_PROCESS_CPUTIME_ID),
        };
}

double process_start_time(void) {
        cleanup(fclose_p) FILE *file = fopen("/proc/self/stat", "re");
        char text[1024] = "";
        const char *rest;
        uint64_t ticks;

        /* The name of the program, in parentheses, may contain anything, also a parenthesis. */
        if (!file || !fgets(text, sizeof(text), file) || !(rest = strrchr(text, ')')))
                return -1;

        /* Field 22: when it started, in ticks since boot. */
        if (sscanf(rest + 1,
                   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
                   "%" SCNu64,
                   &ticks) != 1)
                return -1;

        return clock_read(CLOCK_REALTIME) - clock_read(CLOCK_BOOTTIME) +
               (double) ticks / (double) sysconf(_SC_CLK_TCK);
}
