/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/child-environment.h"
#include "agent/base/cleanup.h"
#include "agent/base/leftovers.h"

/* The child's ends. */
typedef struct Ends {
        int in, out, err;
} Ends;

static void ends_done(Ends *ends) {
        close_p(&ends->in);
        close_p(&ends->out);
        close_p(&ends->err);
}

static size_t count(const char *const *texts) {
        size_t n = 0;

        while (texts && texts[n])
                n++;
        return n;
}

static const char **make_arguments(const ProgramOptions *options) {
        size_t n = count(options->arguments);
        const char **arguments;

        arguments = calloc(n + 2, sizeof(*arguments));
        if (!arguments)
                return NULL;

        arguments[0] = options->path;
        for (size_t i = 0; i < n; i++)
                arguments[i + 1] = options->arguments[i];
        return arguments;
}

/* Returns an errno, as the functions of its kind do. */
static int set_descriptors(posix_spawn_file_actions_t *actions, const Ends *ends) {
        return posix_spawn_file_actions_adddup2(actions, ends->in, STDIN_FILENO)
               ?: posix_spawn_file_actions_adddup2(actions, ends->out, STDOUT_FILENO)
               ?: posix_spawn_file_actions_adddup2(actions, ends->err, STDERR_FILENO)
               ?: posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
}

static int set_attributes(posix_spawnattr_t *attributes) {
        sigset_t none, all;

        (void) sigemptyset(&none);
        (void) sigfillset(&all);
        return posix_spawnattr_setsigmask(attributes, &none)
               ?: posix_spawnattr_setsigdefault(attributes, &all)
               ?: posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                               POSIX_SPAWN_SETSIGDEF);
}

/* 0, or an errno that says why it cannot be started, or negative for a local failure. */
static int spawn_process(const ProgramOptions *options, const Ends *ends, pid_t *ret) {
        cleanup(free_p) const char **arguments = NULL;
        cleanup(free_p) const char **environment = NULL;
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        int number;

        arguments = make_arguments(options);
        environment = child_environment_new(environ, options->environment);
        if (!arguments || !environment)
                return -ENOMEM;
        if (posix_spawn_file_actions_init(&actions) != 0)
                return -ENOMEM;
        if (posix_spawnattr_init(&attributes) != 0) {
                (void) posix_spawn_file_actions_destroy(&actions);
                return -ENOMEM;
        }

        number = set_descriptors(&actions, ends)
                         ?: set_attributes(&attributes)
                         ?: posix_spawnp(ret, options->path, &actions, &attributes,
                                         (char *const *) arguments, (char *const *) environment);

        (void) posix_spawnattr_destroy(&attributes);
        (void) posix_spawn_file_actions_destroy(&actions);
        return number;
}

/* Returns 0 or an errno, as above. */
static int make_input(const ProgramOptions *options, int *ret) {
        cleanup(close_p) int fd = -1;
        size_t size = options->input ? options->input_size : 0;

        fd = memfd_create("input", MFD_CLOEXEC);
        if (fd < 0)
                return errno;

        for (size_t at = 0; at < size;) {
                ssize_t n = pwrite(fd, options->input + at, size - at, (off_t) at);

                if (n < 0)
                        return errno;
                at += (size_t) n;
        }

        *ret = take_fd(&fd);
        return 0;
}

/* Returns 0 or an errno. */
static int make_pipe(int *ret_reader, int *ret_writer) {
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return errno;

        *ret_reader = fds[0];
        *ret_writer = fds[1];
        return fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0 ? errno : 0;
}

int spawn(const ProgramOptions *options, Spawned *ret) {
        cleanup(ends_done) Ends ends = { .in = -1, .out = -1, .err = -1 };
        cleanup(spawned_done) Spawned spawned = SPAWNED_INIT;
        int r;

        leftovers_adopt();
        r = make_input(options, &ends.in)
                    ?: make_pipe(&spawned.out, &ends.out)
                    ?: make_pipe(&spawned.err, &ends.err)
                    ?: spawn_process(options, &ends, &spawned.pid);
        if (r != 0)
                return r;

        spawned.life = pidfd_open(spawned.pid, 0);
        if (spawned.life < 0) {
                r = errno;
                (void) kill(-spawned.pid, SIGKILL);
                (void) waitpid(spawned.pid, NULL, 0);
                return r;
        }

        *ret = spawned;
        spawned = SPAWNED_INIT;
        return 0;
}

void spawned_done(Spawned *spawned) {
        close_p(&spawned->life);
        close_p(&spawned->out);
        close_p(&spawned->err);
}
