/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"

#define PROGRAMS_MAX 64 /* with more of them running, none that has left its session is killed */

/* Children that have a pidfd. */
typedef struct Programs {
        pid_t pids[PROGRAMS_MAX];
        size_t n;
} Programs;

DEFINE_CLEANUP(FILE *, fclose)
DEFINE_CLEANUP(DIR *, closedir)

void leftovers_adopt(void) {
        (void) prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static bool has_children(void) {
        return waitid(P_ALL, 0, &(siginfo_t){ 0 }, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* The process behind a pidfd; 0 for another descriptor, -1 for one that was reaped. */
static pid_t read_pid(DIR *folder, const char *name) {
        cleanup(fclose_p) FILE *file = NULL;
        char path[sizeof("/proc/self/fdinfo/") + NAME_MAX];
        char line[256];
        int pid;

        (void) snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", name);
        file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file))
                if (sscanf(line, "Pid: %d", &pid) == 1)
                        return pid;

        return 0;
}

/* Asked of the kernel, since those who run programs know nothing of each other. */
static bool read_programs(Programs *ret) {
        cleanup(closedir_p) DIR *folder = opendir("/proc/self/fdinfo");

        if (!folder)
                return false;

        for (const struct dirent *entry; (entry = readdir(folder));) {
                pid_t pid = entry->d_name[0] == '.' ? 0 : read_pid(folder, entry->d_name);

                if (pid > 0 && ret->n == PROGRAMS_MAX)
                        return false;
                if (pid > 0)
                        ret->pids[ret->n++] = pid;
        }

        return true;
}

static bool is_program(const Programs *programs, pid_t pid) {
        for (size_t i = 0; i < programs->n; i++)
                if (programs->pids[i] == pid)
                        return true;

        return false;
}

/* It is dead. */
static int on_end(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        sd_event *event = sd_event_ref(sd_event_source_get_event(source));

        (void) waitid(P_PIDFD, (id_t) fd, &(siginfo_t){ 0 }, WEXITED | WNOHANG);
        (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        (void) sd_event_source_set_floating(source, false);
        leftovers_kill(event, (pid_t) (intptr_t) userdata);
        sd_event_unref(event);
        return 0;
}

/* What cannot be watched is killed nevertheless, and reaped when this process ends. */
static void kill_one(sd_event *event, pid_t pid, pid_t session) {
        cleanup(close_p) int fd = pidfd_open(pid, 0);
        sd_event_source *source = NULL;

        (void) kill(pid, SIGKILL);
        if (fd < 0 ||
            loop_add_io(event, &source, fd, EPOLLIN, on_end, (void *) (intptr_t) session) < 0)
                return;

        (void) sd_event_source_set_io_fd_own(source, true);
        (void) take_fd(&fd);
        (void) sd_event_source_set_floating(source, true);
        sd_event_source_unref(source);
}

void leftovers_kill(sd_event *event, pid_t session) {
        cleanup(fclose_p) FILE *children = NULL;
        Programs programs = { .n = 0 };
        char path[64];
        bool are_all_ours;
        int pid;

        if (!has_children())
                return;

        are_all_ours = read_programs(&programs) && programs.n == 0;
        (void) snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int) getpid());
        children = fopen(path, "re");
        while (children && fscanf(children, "%d", &pid) == 1)
                if (!is_program(&programs, pid) && (are_all_ours || getsid(pid) == session))
                        kill_one(event, pid, session);
}
