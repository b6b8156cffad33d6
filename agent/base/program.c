/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The program leads a session, and so a process group, of its own, which is what gets killed. Its
 * process ID must not go to somebody else before that. So it is not reaped as soon as it ends, but
 * only behind the last kill(); until then it is a zombie that keeps the ID. What has left the group
 * is killed when it was reaped, see leftovers.h.
 */

#include "agent/base/program.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/leftovers.h"
#include "agent/base/loop.h"
#include "agent/base/redact.h"
#include "agent/base/spawn.h"

/* For what the program started, and what still holds its stdout when it has ended. */
#define GRACE_USEC ((uint64_t) 1000000)

/* For its death, when this process is about to end. */
#define EXIT_MSEC 200

/* Of what it complains about, what is read and what is shown: secrets are taken out in between. */
#define COMPLAINT_SIZE 4096
#define LINE_SIZE 256

#define CHUNK_SIZE ((size_t) 4096)

#define STATUS_IS_LOST "ended, and its status is lost: SIGCHLD must not be ignored"

typedef struct Buffer {
        char *data; /* with room for a NUL */
        size_t size;
        size_t room;
} Buffer;

struct Program {
        sd_event *event;
        pid_t pid; /* 0: it was never started, or is reaped */
        bool has_ended;
        siginfo_t status;

        sd_event_source *life; /* these three own their descriptors */
        sd_event_source *stdout_source;
        sd_event_source *stderr_source;
        sd_event_source *timer; /* the deadline, and once it has ended the grace */
        sd_event_source *not_started;

        Buffer output;
        size_t output_max;
        uint64_t timeout_usec;
        char complaint[COMPLAINT_SIZE]; /* what came first on stderr */
        size_t complaint_size;
        Error error; /* why it was not started */

        ProgramDone on_done;
        void *userdata;
};

DEFINE_CLEANUP(Program *, program_free)

static void buffer_done(Buffer *buffer) {
        if (buffer->data)
                explicit_bzero(buffer->data, buffer->room);
        free(buffer->data);
        *buffer = (Buffer){ .data = NULL };
}

/* realloc() might leave a copy behind. */
static int buffer_grow(Buffer *buffer) {
        Buffer larger = { .size = buffer->size, .room = buffer->room ? 2 * buffer->room : 4096 };

        larger.data = malloc(larger.room);
        if (!larger.data)
                return -ENOMEM;

        if (buffer->size > 0)
                memcpy(larger.data, buffer->data, buffer->size);
        buffer_done(buffer);
        *buffer = larger;
        return 0;
}

static void program_quiet(Program *program) {
        program->stdout_source = sd_event_source_disable_unref(program->stdout_source);
        program->stderr_source = sd_event_source_disable_unref(program->stderr_source);
        program->timer = sd_event_source_disable_unref(program->timer);
        program->not_started = sd_event_source_disable_unref(program->not_started);
}

/* When the loop has ended, nothing is left that could reap it later. */
static bool await_end(const Program *program) {
        struct pollfd life = { .fd = sd_event_source_get_io_fd(program->life), .events = POLLIN };

        return sd_event_get_state(program->event) == SD_EVENT_FINISHED &&
               poll(&life, 1, EXIT_MSEC) > 0;
}

/* One that does not die at once, as it waits for a disk, is not waited for: its last event source
 * stays behind alone, in the care of the loop, and reaps it; see on_life(). */
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

/* Whatever it has left behind goes with it. The callback may free the program. */
static int program_finish(Program *program, const Error *error) {
        cleanup(buffer_done) Buffer output = program->output;

        program->output = (Buffer){ .data = NULL };
        program_kill(program);
        if (error)
                return program->on_done(NULL, 0, error, program->userdata);

        if (!output.data && buffer_grow(&output) < 0)
                return -ENOMEM;
        output.data[output.size] = '\0';
        return program->on_done(output.data, output.size, NULL, program->userdata);
}

/* The first line that is not empty, in ASCII, since it was written for a terminal, and without the
 * secrets of its URLs, which the cut might make unrecognisable. */
static const char *first_line(char *text) {
        size_t size;

        text += strspn(text, " \t\r\n");
        size = strcspn(text, "\r\n");
        while (size > 0 && text[size - 1] == ' ')
                size--;
        text[size] = '\0';
        for (char *at = text; *at; at++)
                if ((unsigned char) *at < ' ' || (unsigned char) *at >= 0x7f)
                        *at = '?';
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

        /* It may have been written at the last moment. */
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
        return program_finish(program, &error);
}

static int finish_ended(Program *program) {
        if (program->status.si_code == CLD_EXITED && program->status.si_status == 0)
                return program_finish(program, NULL);

        return finish_failed(program);
}

static int on_stdout(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Program *program = userdata;
        Buffer *output = &program->output;
        ssize_t n;

        if (output->size + 1 >= output->room && buffer_grow(output) < 0)
                return -ENOMEM;

        n = read(fd, output->data + output->size, output->room - output->size - 1);
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (n > 0) {
                output->size += (size_t) n;
                if (output->size <= program->output_max)
                        return 0;
                (void) error_set(&error, ERROR_INVALID, "wrote more than %zu bytes",
                                 program->output_max);
                return program_finish(program, &error);
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

/* It was killed, and is dead now. */
static void reap(sd_event_source *source, int fd) {
        sd_event *event = sd_event_ref(sd_event_source_get_event(source));
        siginfo_t status = { 0 };

        (void) waitid(P_PIDFD, (id_t) fd, &status, WEXITED | WNOHANG);
        (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        (void) sd_event_source_set_floating(source, false);
        leftovers_kill(event, status.si_pid);
        sd_event_unref(event);
}

/* It ended; all that it wrote is in the pipe by now. */
static int on_life(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Program *program = userdata;
        int r;

        if (!program) {
                reap(source, fd);
                return 0;
        }

        program->has_ended = true;
        if (waitid(P_PIDFD, (id_t) fd, &program->status, WEXITED | WNOHANG | WNOWAIT) < 0)
                program->pid = 0; /* reaped by the kernel, because somebody ignores SIGCHLD */
        if (!program->stdout_source)
                return finish_ended(program);

        r = sd_event_source_set_enabled(source, SD_EVENT_OFF);
        if (r < 0)
                return r;

        return sd_event_source_set_time_relative(program->timer, GRACE_USEC);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Program *program = userdata;

        if (program->has_ended)
                return finish_ended(program);

        (void) error_set(&error, ERROR_TIMEOUT, "did not end within %g s",
                         (double) program->timeout_usec / 1000000);
        return program_finish(program, &error);
}

static int on_not_started(sd_event_source *source, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Program *program = userdata;

        error = program->error;
        program->error = ERROR_INIT;
        return program_finish(program, &error);
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
        return loop_add_defer(program->event, &program->not_started, on_not_started, program);
}

/* The source is then the owner of the descriptor. Negative: a local failure. */
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
        program->on_done = on_done;
        program->userdata = userdata;

        r = loop_add_time_relative(event, &program->timer, CLOCK_MONOTONIC, options->timeout_usec,
                                   0, on_timer, program);
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

Program *program_free(Program *program) {
        if (!program)
                return NULL;

        program_kill(program);
        buffer_done(&program->output);
        error_done(&program->error);
        sd_event_unref(program->event);
        free(program);
        return NULL;
}
