/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A wrong clock, for a program that is started with this before the C library (LD_PRELOAD)
 *
 * It runs ahead by INPLACED_CLOCK_AHEAD seconds. As soon as the file INPLACED_CLOCK_JUMP is there, as many seconds have passed
 * for all clocks as it says, or an hour if it is empty. The file INPLACED_CLOCK_STEP has the seconds by which the time of day alone was set forward, or back. OpenSSL has it as well: the certificates of the lab are valid for longer.
 */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long read_seconds(const char *path) {
        char text[24] = "";
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return 0;

        (void) !read(fd, text, sizeof(text) - 1);
        close(fd);
        return atoll(text);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
        const char *ahead = getenv("INPLACED_CLOCK_AHEAD"), *jump = getenv("INPLACED_CLOCK_JUMP");
        const char *step = getenv("INPLACED_CLOCK_STEP");
        long r = syscall(SYS_clock_gettime, clock, time);

        if (r == 0 && clock == CLOCK_REALTIME && ahead)
                time->tv_sec += atoll(ahead);
        if (r == 0 && clock == CLOCK_REALTIME && step)
                time->tv_sec += read_seconds(step);
        if (r == 0 && jump && access(jump, F_OK) == 0)
                time->tv_sec += read_seconds(jump) ?: 3600;
        return (int) r;
}

time_t time(time_t *ret) {
        struct timespec now = { 0 };

        (void) clock_gettime(CLOCK_REALTIME, &now);
        if (ret)
                *ret = now.tv_sec;
        return now.tv_sec;
}
