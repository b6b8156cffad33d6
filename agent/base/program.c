/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The program leads a session of its own, and so a process group, which is killed as a whole. Its process ID
 * must not go to another process before that. So the program is not reaped as soon as it ends, but only
 * after the last kill(); until then it is a zombie that keeps the ID. Processes that have left the group are
 * killed afterwards.
 */

#include "agent/base/program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/buffer.h"
#include "agent/base/child-environment.h"
#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/redact.h"
#include "agent/base/text.h"

/* How long stdout may stay open, held by a child of the program, after the program has ended. */
#define GRACE_USEC ((uint64_t) 1000000)

/* How long to wait for the program's death when this process is about to end. */
#define EXIT_MSEC 200

/* Bytes that are read of stderr, and bytes that are shown. Secrets are removed in between. */
#define PIECE_MIN 2048 /* room for each piece of the output */
#define COMPLAINT_SIZE 4096
#define LINE_SIZE 256

#define CHUNK_SIZE ((size_t) 4096)

#define STATUS_IS_LOST "ended, and its status is lost: SIGCHLD must not be ignored"

#define PROGRAMS_MAX 64 /* if more run, no process that has left its session is killed */

/*
 * Leftovers are processes that a program has started, and that outlive it. The session of the program is
 * known, but a process may have left it, and then the kernel does not show whose it is. Since
 * leftovers_adopt(), all leftovers become children of this process when their parents end. So once no other
 * program of ours runs, every child is a leftover, and is killed. While another program runs, whose child
 * it might be, only processes of the ended session are killed.
 */

/* Children that have a pidfd. */
typedef struct Programs {
        pid_t pids[PROGRAMS_MAX];
        size_t n;
} Programs;

DEFINE_CLEANUP(FILE *, fclose)
DEFINE_CLEANUP(DIR *, closedir)

/* To be called before a program is started. */
static void leftovers_adopt(void) {
        (void) prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static bool has_children(void) {
        return waitid(P_ALL, 0, &(siginfo_t){ 0 }, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* The process behind a pidfd; 0 for another descriptor, -1 for one that was reaped. */
static pid_t read_pid(const char *name) {
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

/* Asks the kernel, because the owners of programs do not know each other. */
static bool read_programs(Programs *ret) {
        cleanup(closedir_p) DIR *folder = opendir("/proc/self/fdinfo");

        if (!folder)
                return false;

        for (const struct dirent *entry; (entry = readdir(folder));) {
                pid_t pid = entry->d_name[0] == '.' ? 0 : read_pid(entry->d_name);

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

static void leftovers_kill(sd_event *event, pid_t session);

/* Reaps the dead process. */
static int on_leftover_end(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        sd_event *event = sd_event_ref(sd_event_source_get_event(source));

        (void) waitid(P_PIDFD, (id_t) fd, &(siginfo_t){ 0 }, WEXITED | WNOHANG);
        (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        (void) sd_event_source_set_floating(source, false);
        leftovers_kill(event, (pid_t) (intptr_t) userdata);
        sd_event_unref(event);
        return 0;
}

/* Kills the process, also if it cannot be watched; then it is reaped when this process ends. */
static void kill_one(sd_event *event, pid_t pid, pid_t session) {
        cleanup(close_p) int fd = pidfd_open(pid, 0);
        sd_event_source *source = NULL;

        (void) kill(pid, SIGKILL);
        if (fd < 0 || loop_add_io(event, &source, fd, EPOLLIN, on_leftover_end,
                                  (void *) (intptr_t) session) < 0)
                return;

        (void) sd_event_source_set_io_fd_own(source, true);
        (void) take_fd(&fd);
        (void) sd_event_source_set_floating(source, true);
        sd_event_source_unref(source);
}

/* Kills leftovers when a program, the leader of the session, was reaped. The loop reaps them when
 * they are dead, then searches for their children. A program counts as running as long as this
 * process holds a pidfd of it. */
static void leftovers_kill(sd_event *event, pid_t session) {
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

/*
 * Start of the process. Its stdin is a file in memory rather than a pipe: the loop does not have to feed it, and
 * the program need not read it.
 */

typedef struct Spawned {
        pid_t pid;
        int life; /* a pidfd */
        int out;  /* read end of the program's stdout; non-blocking */
        int err;
} Spawned;

#define SPAWNED_INIT ((Spawned){ .life = -1, .out = -1, .err = -1 })

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

/* Returns an errno, like posix_spawn() and its kind. */
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

/* Returns 0, an errno with the reason of the refusal, or a negative errno for a local failure. */
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

static void spawned_done(Spawned *spawned) {
        close_p(&spawned->life);
        close_p(&spawned->out);
        close_p(&spawned->err);
}

/* Takes path, arguments, environment and input from the options. Returns 0, an errno that says why
 * it cannot be started, or a negative errno for a local failure. */
static int spawn(const ProgramOptions *options, Spawned *ret) {
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

struct Program {
        sd_event *event;
        pid_t pid; /* 0: it was never started, or is reaped */
        bool has_ended;
        siginfo_t status;

        sd_event_source *life; /* these three own their descriptors */
        sd_event_source *stdout_source;
        sd_event_source *stderr_source;
        Timer timer; /* deadline, and after the program's end the grace */
        Deferred not_started;

        Buffer output;
        size_t output_max;
        uint64_t timeout_usec;
        char complaint[COMPLAINT_SIZE]; /* first bytes of stderr */
        size_t complaint_size;
        Error error; /* why it was not started */

        ssize_t (*on_output)(const char *output, size_t output_size,
                             void *userdata); /* may be NULL */
        ProgramDone on_done;
        void *userdata;
};

DEFINE_CLEANUP(Program *, program_free)

static void program_quiet(Program *program) {
        program->stdout_source = sd_event_source_disable_unref(program->stdout_source);
        program->stderr_source = sd_event_source_disable_unref(program->stderr_source);
        timer_stop(&program->timer);
        deferred_cancel(&program->not_started);
}

/* Waits for the process if the loop has ended, because nothing could reap it later. */
static bool await_end(const Program *program) {
        struct pollfd life = { .fd = sd_event_source_get_io_fd(program->life), .events = POLLIN };

        return sd_event_get_state(program->event) == SD_EVENT_FINISHED &&
               poll(&life, 1, EXIT_MSEC) > 0;
}

/* Does not wait for a process that does not die at once, because it waits for a disk: the loop
 * keeps its last event source, which reaps it; see on_life(). */
static void program_kill(Program *program) {
        pid_t pid = program->pid;
        bool is_reaped = false;

        program_quiet(program);
        if (program->pid > 0) {
                (void) kill(-program->pid, SIGKILL);
                if (!program->life) {
                        is_reaped = waitpid(program->pid, NULL, 0) > 0;
                } else if (program->has_ended || await_end(program)) {
                        is_reaped = waitpid(program->pid, NULL, WNOHANG) > 0;
                } else {
                        (void) sd_event_source_set_userdata(program->life, NULL);
                        (void) sd_event_source_set_floating(program->life, true);
                        program->life = sd_event_source_unref(program->life);
                }
        }

        program->life = sd_event_source_disable_unref(program->life);
        program->pid = 0;
        if (is_reaped)
                leftovers_kill(program->event, pid);
}

/* Ends the program and its leftovers. The callback may free the program. */
int program_end(Program *program, const Error *error) {
        cleanup(buffer_done) Buffer output = program->output;

        program->output = (Buffer){ .data = NULL };
        program_kill(program);
        if (error)
                return program->on_done(NULL, 0, error, program->userdata);

        if (buffer_reserve(&output, 0) < 0)
                return -ENOMEM;
        output.data[output.size] = '\0';
        return program->on_done(output.data, output.size, NULL, program->userdata);
}

/* Returns the first line that is not empty, in ASCII, because it was written for a terminal.
 * Secrets are removed before the cut, which might make them unrecognisable. */
static const char *first_line(char *text) {
        size_t size;

        text += strspn(text, " \t\r\n");
        size = strcspn(text, "\r\n");
        while (size > 0 && text[size - 1] == ' ')
                size--;
        text[size] = '\0';
        text_make_plain(text);
        if (strlen(redact_text(text)) >= LINE_SIZE)
                text[LINE_SIZE - 1] = '\0';

        return text;
}

static ssize_t read_complaint(Program *program, int fd) {
        size_t room = sizeof(program->complaint) - 1 - program->complaint_size;
        char unwanted[CHUNK_SIZE];
        ssize_t n;

        n = room > 0 ? read(fd, program->complaint + program->complaint_size, room)
                     : read(fd, unwanted, sizeof(unwanted));
        if (n > 0 && room > 0)
                program->complaint_size += (size_t) n;
        return n;
}

static int finish_failed(Program *program) {
        cleanup(error_done) Error error = ERROR_INIT;
        const siginfo_t *status = &program->status;
        const char *line, *colon;

        /* The last bytes may still be in the pipe. */
        if (program->stderr_source)
                (void) read_complaint(program, sd_event_source_get_io_fd(program->stderr_source));
        line = first_line(program->complaint);
        colon = *line ? ": " : "";

        if (status->si_code == CLD_EXITED)
                (void) error_set(&error, ERROR_UNAVAILABLE, "ended with status %d%s%s",
                                 status->si_status, colon, line);
        else if (status->si_code == CLD_KILLED || status->si_code == CLD_DUMPED)
                (void) error_set(&error, ERROR_UNAVAILABLE, "was killed by SIG%s%s%s",
                                 sigabbrev_np(status->si_status) ?: "RT", colon, line);
        else
                (void) error_set(&error, ERROR_UNAVAILABLE, STATUS_IS_LOST);
        return program_end(program, &error);
}

static int finish_ended(Program *program) {
        if (program->status.si_code == CLD_EXITED && program->status.si_status == 0)
                return program_end(program, NULL);

        return finish_failed(program);
}

/* Shows the output so far, and drops the part that was taken. */
static int show_output(Program *program) {
        Buffer *output = &program->output;
        ssize_t n;

        if (!program->on_output)
                return 0;

        n = program->on_output(output->data, output->size, program->userdata);
        if (n < 0)
                return (int) n;

        output->size -= (size_t) n;
        memmove(output->data, output->data + n, output->size);
        return 0;
}

static int on_stdout(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Program *program = userdata;
        Buffer *output = &program->output;
        ssize_t n;
        int r;

        if (buffer_reserve(output, PIECE_MIN) < 0)
                return -ENOMEM;

        n = read(fd, output->data + output->size, output->room - output->size - 1);
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (n > 0) {
                output->size += (size_t) n;
                r = show_output(program);
                if (r < 0 || output->size <= program->output_max)
                        return r;
                (void) error_set(&error, ERROR_INVALID, "wrote more than %zu bytes",
                                 program->output_max);
                return program_end(program, &error);
        }

        program->stdout_source = sd_event_source_disable_unref(program->stdout_source);
        return program->has_ended ? finish_ended(program) : 0;
}

static int on_stderr(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Program *program = userdata;

        if (read_complaint(program, fd) == 0)
                program->stderr_source = sd_event_source_disable_unref(program->stderr_source);
        return 0;
}

/* Reaps a killed program that is dead now. */
static void reap(sd_event_source *source, int fd) {
        sd_event *event = sd_event_ref(sd_event_source_get_event(source));
        siginfo_t status = { 0 };

        (void) waitid(P_PIDFD, (id_t) fd, &status, WEXITED | WNOHANG);
        (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        (void) sd_event_source_set_floating(source, false);
        leftovers_kill(event, status.si_pid);
        sd_event_unref(event);
}

/* The program has ended; all its output is in the pipe by now. */
static int on_life(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Program *program = userdata;
        int r;

        if (!program) {
                reap(source, fd);
                return 0;
        }

        program->has_ended = true;
        if (waitid(P_PIDFD, (id_t) fd, &program->status, WEXITED | WNOHANG | WNOWAIT) < 0)
                program->pid = 0; /* reaped by the kernel, because SIGCHLD is ignored */
        if (!program->stdout_source)
                return finish_ended(program);

        r = sd_event_source_set_enabled(source, SD_EVENT_OFF);
        if (r < 0)
                return r;

        return timer_start(&program->timer, GRACE_USEC);
}

static int on_timer(void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Program *program = userdata;

        if (program->has_ended)
                return finish_ended(program);

        (void) error_set(&error, ERROR_TIMEOUT, "did not end within %g s",
                         (double) program->timeout_usec / 1000000);
        return program_end(program, &error);
}

static int on_not_started(void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Program *program = userdata;

        error = program->error;
        program->error = ERROR_INIT;
        return program_end(program, &error);
}

static int refuse_start(Program *program, int number) {
        ErrorKind kind = number == ENOENT                       ? ERROR_NOT_FOUND
                         : number == EACCES || number == EPERM  ? ERROR_DENIED
                         : number == ENOEXEC || number == E2BIG ? ERROR_INVALID
                                                                : ERROR_UNAVAILABLE;

        program_kill(program);
        if (number == ESRCH) /* it has ended already, and left no trace */
                (void) error_set(&program->error, kind, STATUS_IS_LOST);
        else
                (void) error_set(&program->error, kind, "cannot be started: %s", strerror(number));
        return deferred_request(&program->not_started);
}

/* Makes the source the owner of the descriptor. Negative: a local failure. */
static int watch(Program *program, int *fd, sd_event_io_handler_t on_ready, sd_event_source **ret) {
        int r;

        r = loop_add_io(program->event, ret, *fd, EPOLLIN, on_ready, program);
        if (r < 0)
                return r;

        r = sd_event_source_set_io_fd_own(*ret, true);
        if (r < 0)
                return r;

        (void) take_fd(fd);
        return 0;
}

/* Returns 0, or an errno that says why not, or negative for a local failure. */
static int start(Program *program, const ProgramOptions *options) {
        cleanup(spawned_done) Spawned spawned = SPAWNED_INIT;
        int r;

        r = spawn(options, &spawned);
        if (r != 0)
                return r;

        program->pid = spawned.pid;
        r = watch(program, &spawned.life, on_life, &program->life);
        if (r < 0)
                return r;
        r = watch(program, &spawned.out, on_stdout, &program->stdout_source);
        if (r < 0)
                return r;

        return watch(program, &spawned.err, on_stderr, &program->stderr_source);
}

int program_run(sd_event *event, const ProgramOptions *options, ProgramDone on_done, void *userdata,
                Program **ret) {
        cleanup(program_free_p) Program *program = NULL;
        int r;

        program = calloc(1, sizeof(*program));
        if (!program)
                return -ENOMEM;

        program->event = sd_event_ref(event);
        program->output_max = options->output_max;
        program->timeout_usec = options->timeout_usec;
        program->on_output = options->on_output;
        program->on_done = on_done;
        program->userdata = userdata;

        timer_init(&program->timer, event, /* accuracy_usec= */ 0, on_timer, program);
        deferred_init(&program->not_started, event, on_not_started, program);

        r = timer_start(&program->timer, options->timeout_usec);
        if (r < 0)
                return r;
        r = start(program, options);
        if (r > 0)
                r = refuse_start(program, r);
        if (r < 0)
                return r;

        *ret = take_ptr(program);
        return 0;
}

size_t program_memory(const Program *program) {
        cleanup(fclose_p) FILE *file = NULL;
        char path[64];
        size_t all, shared;

        if (program && program->pid <= 0)
                return 0;
        (void) snprintf(path, sizeof(path), "/proc/%d/statm",
                        (int) (program ? program->pid : getpid()));
        file = fopen(path, "re");
        if (!file || fscanf(file, "%*u %zu %zu", &all, &shared) != 2 || all < shared)
                return 0;
        return (all - shared) * (size_t) sysconf(_SC_PAGESIZE);
}

Program *program_free(Program *program) {
        if (!program)
                return NULL;

        program_kill(program);
        timer_done(&program->timer);
        deferred_done(&program->not_started);
        buffer_done(&program->output);
        error_done(&program->error);
        sd_event_unref(program->event);
        free(program);
        return NULL;
}
