/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Another program that is run for its answer, with real programs
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/program.h"
#include "tests/unit/unit.h"

#define OUTPUT_MAX ((size_t) 64 * 1024)

/* Reads of output that a signal still has to interrupt. */
static unsigned n_interrupted;

/* In place of libc's. */
ssize_t read(int fd, void *buffer, size_t size) {
        if (n_interrupted == 0 || size < 1024)
                return syscall(SYS_read, fd, buffer, size);

        n_interrupted--;
        errno = EINTR;
        return -1;
}

/* Time limit of the program that was run last; borrowed. */
static sd_event_source *timer;

int sd_event_add_time(sd_event *event, sd_event_source **ret, clockid_t clock, uint64_t usec,
                      uint64_t accuracy, sd_event_time_handler_t callback, void *userdata) {
        int (*original)(sd_event *, sd_event_source **, clockid_t, uint64_t, uint64_t,
                        sd_event_time_handler_t, void *) = dlsym(RTLD_NEXT, "sd_event_add_time");
        int r = original(event, ret, clock, usec, accuracy, callback, userdata);

        timer = ret ? *ret : NULL;
        return r;
}

typedef struct Fixture {
        sd_event *event;
        Program *program;
        unsigned n_done;
        unsigned n_lines; /* taken by on_output() */
        bool is_freed_inside;
        char *output; /* NULL: it was an error */
        size_t output_size;
        Error error;
} Fixture;

static void open_fixture(Fixture *fixture) {
        assert_true(sd_event_new(&fixture->event) >= 0);
}

/* Checks that neither a child nor a zombie is left. */
static void assert_no_children(sd_event *event) {
        while (waitid(P_ALL, 0, &(siginfo_t){ 0 }, WEXITED | WNOHANG | WNOWAIT) == 0)
                assert_true(sd_event_run(event, UINT64_MAX) >= 0);
        assert_int_equal(errno, ECHILD);
}

static void close_fixture(Fixture *fixture) {
        program_free(fixture->program);
        assert_no_children(fixture->event);
        sd_event_unref(fixture->event);
        error_done(&fixture->error);
        free(fixture->output);
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

static int on_done(const char *output, size_t output_size, const Error *error, void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_done++;
        if (fixture->is_freed_inside)
                fixture->program = program_free(fixture->program);

        if (error) {
                assert_null(output);
                assert_int_not_equal(error->kind, ERROR_NONE);
                (void) error_copy(&fixture->error, error);
        } else {
                assert_int_equal(output[output_size], '\0');
                fixture->output_size = output_size;
                fixture->output = malloc(output_size + 1);
                assert_non_null(fixture->output);
                memcpy(fixture->output, output, output_size + 1);
        }

        return 0;
}

static void start(Fixture *fixture, const ProgramOptions *options) {
        assert_ok(program_run(fixture->event, options, on_done, fixture, &fixture->program));
        assert_int_equal(fixture->n_done, 0);
}

static void run(Fixture *fixture, const ProgramOptions *options) {
        start(fixture, options);
        while (fixture->n_done == 0)
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        assert_int_equal(fixture->n_done, 1);
}

#define SHELL(script, ...)                                                              \
        (&(ProgramOptions){ .path = "sh",                                               \
                            .arguments = (const char *const[]){ "-c", (script), NULL }, \
                            .output_max = OUTPUT_MAX,                                   \
                            __VA_ARGS__ })

static void run_shell(Fixture *fixture, const char *script) {
        run(fixture, SHELL(script, .timeout_usec = 20 * SEC));
}

static void assert_refused(const Fixture *fixture, ErrorKind kind, const char *message) {
        assert_null(fixture->output);
        assert_string_equal(error_kind_to_string(fixture->error.kind), error_kind_to_string(kind));
        assert_string_equal(error_message(&fixture->error), message);
}

#define ANSWERS ERROR_NONE, NULL

/* clang-format off */

/* Programs, and how they end. */
static const struct Ending {
        const char *name;
        const char *script;
        const char *output; /* NULL: the error says... */
        ErrorKind kind;
        const char *message;
} endings[] = {
        { "it answers",                       "echo yes; echo no >&2",          "yes\n", ANSWERS },
        { "it says nothing",                  ":",                              "", ANSWERS },
        { "it answers after it closed stderr", "exec 2>&-; echo yes",           "yes\n", ANSWERS },
        { "it closes stdout early",           "echo yes; exec >&-; sleep 0.1",    "yes\n", ANSWERS },
        { "a background process closed all",  "sleep 1000 >&- 2>&- & echo yes", "yes\n", ANSWERS },
        { "it fails",                         "echo yes; echo ' no profile ' >&2; exit 3", NULL,
          ERROR_UNAVAILABLE, "ended with status 3: no profile" },
        { "it fails in silence",              "exit 1",                         NULL,
          ERROR_UNAVAILABLE, "ended with status 1" },
        { "only its first line counts",       "printf '\\n\\n first\\nsecond\\n' >&2; exit 1", NULL,
          ERROR_UNAVAILABLE, "ended with status 1: first" },
        { "it complains in colour",           "printf '\\033[1mBad\\t\\303\\251\\n' >&2; exit 1", NULL,
          ERROR_UNAVAILABLE, "ended with status 1: ?[1mBad???" },
        { "it complains about a URL",         "echo Get https://u:P@host/?s=1: 403 >&2; exit 1", NULL,
          ERROR_UNAVAILABLE, "ended with status 1: Get https://host/: 403" },
        { "it is killed",                     "kill -9 $$",                     NULL,
          ERROR_UNAVAILABLE, "was killed by SIGKILL" },
        { "it aborts, and says why",          "ulimit -c 0; echo why >&2; kill -ABRT $$", NULL,
          ERROR_UNAVAILABLE, "was killed by SIGABRT: why" },
};
/* clang-format on */

TEST_ROWS_F(test_ending, endings, name, const struct Ending *ending, Fixture *fixture) {
        run_shell(fixture, ending->script);
        if (!ending->output) {
                assert_refused(fixture, ending->kind, ending->message);
                return;
        }

        if (!fixture->output)
                print_error("%s\n", error_message(&fixture->error));
        assert_non_null(fixture->output);
        assert_string_equal(fixture->output, ending->output);
}

TEST_F(test_input, Fixture *fixture) {
        static const char *const arguments[] = { "-c", "cat; cat /dev/stdin | wc -c", NULL };

        run(fixture, &(ProgramOptions){
                             .path = "/bin/sh",
                             .arguments = arguments,
                             .input = "a\0b\nc",
                             .input_size = 5,
                             .output_max = OUTPUT_MAX,
                             .timeout_usec = 20 * SEC,
                     });
        assert_memory_equal(fixture->output, "a\0b\nc5\n", 7);
        assert_int_equal(fixture->output_size, 7);
}

/* Far more than a pipe takes; and it need not be read. */
TEST_F(test_large_input, Fixture *fixture) {
        cleanup(free_p) char *input = malloc(1 << 20);

        assert_non_null(input);
        memset(input, 'x', 1 << 20);
        run(fixture,
            SHELL("head -c 3", .input = input, .input_size = 1 << 20, .timeout_usec = 20 * SEC));
        assert_string_equal(fixture->output, "xxx");
}

TEST_F(test_no_input, Fixture *fixture) {
        run_shell(fixture, "wc -c");
        assert_string_equal(fixture->output, "0\n");
}

TEST_F(test_output_as_large_as_allowed, Fixture *fixture) {
        run_shell(fixture, "head -c 65536 /dev/zero");
        assert_int_equal(fixture->output_size, OUTPUT_MAX);
}

/* Takes whole lines, and notes how many there were before the program's end. */
static ssize_t on_output(const char *output, size_t output_size, void *userdata) {
        const char *end = memrchr(output, '\n', output_size);
        Fixture *fixture = userdata;

        assert_int_equal(fixture->n_done, 0);
        for (const char *at = output; end && at <= end; at++)
                fixture->n_lines += *at == '\n';
        return end ? end + 1 - output : 0;
}

static void run_shown(Fixture *fixture, const char *script) {
        run(fixture, SHELL(script, .timeout_usec = 20 * SEC, .on_output = on_output));
}

/* A signal in the middle of a read is not the end of the output. */
TEST_F(test_interrupted_read, Fixture *fixture) {
        start(fixture, SHELL("echo yes", .timeout_usec = 20 * SEC));
        n_interrupted = 1;
        while (fixture->n_done == 0)
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        assert_int_equal(n_interrupted, 0);
        assert_string_equal(fixture->output, "yes\n");
}

/* The program waits until its first line was taken, which ends the loop's turn. */
TEST_F(test_output_as_it_comes, Fixture *fixture) {
        start(fixture,
              SHELL("echo a; exec sleep 1000", .timeout_usec = 20 * SEC, .on_output = on_output));
        while (fixture->n_lines == 0)
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        assert_int_equal(fixture->n_done, 0);
}

/* It is known how much a program has while it runs, and a program that has too much ends for that reason. */
TEST_F(test_memory, Fixture *fixture) {
        cleanup(error_done) Error error = ERROR_INIT;

        start(fixture,
              SHELL("x=$(head -c 8000000 /dev/zero | tr '\\0' x); echo a; sleep 1000; echo $x",
                    .timeout_usec = 20 * SEC, .on_output = on_output));
        while (fixture->n_lines == 0)
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        assert_true(program_memory(fixture->program) > 8000000);
        assert_true(program_memory(NULL) > 0);

        (void) error_set(&error, ERROR_UNAVAILABLE, "takes too much");
        assert_ok(program_end(fixture->program, &error));
        assert_int_equal(fixture->n_done, 1);
        assert_refused(fixture, ERROR_UNAVAILABLE, "takes too much");
        assert_int_equal(program_memory(fixture->program), 0);
}

/* Lines that were taken count no more, so that there may be any number of lines; the rest is there at the end. */
TEST_F(test_much_output_is_taken, Fixture *fixture) {
        run_shown(fixture, "yes | head -n 200000; printf rest");
        assert_int_equal(fixture->n_lines, 200000);
        assert_string_equal(fixture->output, "rest");
}

TEST_F(test_output_that_is_not_taken, Fixture *fixture) {
        run_shown(fixture, "echo a; head -c 65537 /dev/zero; sleep 1000");
        assert_refused(fixture, ERROR_INVALID, "wrote more than 65536 bytes");
        assert_int_equal(fixture->n_lines, 1);
}

TEST_F(test_output_larger_than_allowed, Fixture *fixture) {
        run_shell(fixture, "head -c 65537 /dev/zero; sleep 1000");
        assert_refused(fixture, ERROR_INVALID, "wrote more than 65536 bytes");
}

/* The program's end does not wait for stderr, and only the first line of it is kept. */
TEST_F(test_much_on_stderr, Fixture *fixture) {
        run_shell(fixture, "head -c 10000000 /dev/zero | tr '\\0' x >&2; echo yes");
        assert_string_equal(fixture->output, "yes\n");
}

TEST_F(test_long_complaint, Fixture *fixture) {
        run_shell(fixture, "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1");
        assert_int_equal(fixture->error.kind, ERROR_UNAVAILABLE);
        assert_true(strlen(fixture->error.message) < 300);
}

/* A cut in the middle of a URL does not leave a part of its secret. */
TEST_F(test_long_complaint_with_secret, Fixture *fixture) {
        run_shell(fixture, "printf '%0220d https://%0300d@host/' 0 7 >&2; exit 1");
        assert_contains(fixture->error.message, "0 https://");
        assert_null(strchr(strstr(fixture->error.message, "//"), '0'));
}

TEST_F(test_environment, Fixture *fixture) {
        static const char *const environment[] = { "ADDED=1 2", "CHANGED=new", "EMPTY=", NULL };

        assert_ok(setenv("CHANGED", "old", 1));
        assert_ok(setenv("KEPT", "kept", 1));
        run(fixture, &(ProgramOptions){
                             .path = "env",
                             .environment = environment,
                             .output_max = OUTPUT_MAX,
                             .timeout_usec = 20 * SEC,
                     });
        assert_contains(fixture->output, "ADDED=1 2\n");
        assert_contains(fixture->output, "CHANGED=new\n");
        assert_contains(fixture->output, "EMPTY=\n");
        assert_contains(fixture->output, "KEPT=kept\n");
        assert_null(strstr(fixture->output, "CHANGED=old"));
}

/* Two signals that glibc keeps to itself, and has ignored in the programs that it spawns. */
#define GLIBC_SIGNALS ((uint64_t) 3 << 31)

static uint64_t ignored_signals(const char *status) {
        const char *line = strstr(status, "SigIgn:\t");

        assert_non_null(line);
        return strtoull(line + strlen("SigIgn:\t"), NULL, 16);
}

/* The child's state according to the kernel is clean, whatever the parent has done. */
TEST_F(test_clean_child, Fixture *fixture) {
        sigset_t all, before;
        int fd;

        fd = open("/dev/null", O_RDONLY); /* without O_CLOEXEC */
        assert_true(fd >= 0);
        assert_true(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
        assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
        assert_ok(sigfillset(&all));
        assert_ok(sigprocmask(SIG_BLOCK, &all, &before));
        run_shell(fixture, "exec cat /proc/self/status");
        assert_contains(fixture->output, "SigBlk:\t0000000000000000\n");
        assert_int_equal(ignored_signals(fixture->output) & ~GLIBC_SIGNALS, 0);

        program_free(fixture->program);
        fixture->program = NULL;
        free(fixture->output);
        fixture->n_done = 0;
        run_shell(fixture, "cd /proc/self/fd; echo *");
        assert_string_equal(fixture->output, "0 1 2 3\n"); /* 3: the folder */

        assert_ok(sigprocmask(SIG_SETMASK, &before, NULL));
        assert_true(signal(SIGUSR1, SIG_DFL) != SIG_ERR);
        assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
        close(fd);
}

/* The exit status cannot be had then; the error says so, and the program does not hang. */
TEST_F(test_ignored_sigchld, Fixture *fixture) {
        assert_true(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
        run_shell(fixture, "cat");
        assert_true(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
        assert_refused(fixture, ERROR_UNAVAILABLE,
                       "ended, and its status is lost: SIGCHLD must not be ignored");
}

static void check_no_start(Fixture *fixture, const char *path, ErrorKind kind,
                           const char *message) {
        run(fixture, &(ProgramOptions){
                             .path = path,
                             .output_max = OUTPUT_MAX,
                             .timeout_usec = 20 * SEC,
                     });
        assert_refused(fixture, kind, message);
}

TEST_F(test_missing, Fixture *fixture) {
        check_no_start(fixture, "/nonexistent/program", ERROR_NOT_FOUND,
                       "cannot be started: No such file or directory");
}

TEST_F(test_missing_in_path, Fixture *fixture) {
        check_no_start(fixture, "no-program-has-this-name", ERROR_NOT_FOUND,
                       "cannot be started: No such file or directory");
}

TEST_F(test_not_a_program, Fixture *fixture) {
        check_no_start(fixture, "/etc/passwd", ERROR_DENIED,
                       "cannot be started: Permission denied");
}

TEST_F(test_not_started_and_freed, Fixture *fixture) {
        start(fixture, &(ProgramOptions){ .path = "/nonexistent/program", .timeout_usec = 1 });
        fixture->program = program_free(fixture->program);
        assert_ok(sd_event_run(fixture->event, 0));
        assert_int_equal(fixture->n_done, 0);
}

/* Runs the loop until all processes have closed the other end of the pipe. */
static int on_closed(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        return sd_event_exit(sd_event_source_get_event(source), 0);
}

typedef struct Lifeline {
        char script[256];
        int fd; /* hangs up when all of the script's processes are gone */
        char folder[32];
        char path[64];
} Lifeline;

/* The script's first part keeps a named pipe open in everything that it starts. */
static void lifeline_make(Lifeline *line, const char *script) {
        strcpy(line->folder, "/tmp/program-XXXXXX");
        assert_non_null(mkdtemp(line->folder));
        (void) snprintf(line->path, sizeof(line->path), "%s/pipe", line->folder);
        assert_ok(mkfifo(line->path, 0600));
        line->fd = open(line->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        assert_true(line->fd >= 0);
        (void) snprintf(line->script, sizeof(line->script), "exec 9>%s; echo >&9; %s", line->path,
                        script);
}

/* The program has started; the first line is here. */
static void lifeline_wait(Lifeline *line) {
        char c = '\0';

        while (read(line->fd, &c, 1) != 1)
                (void) usleep(1000);
        assert_int_equal(c, '\n');
}

static void lifeline_check(Lifeline *line) {
        sd_event *event;

        assert_true(sd_event_new(&event) >= 0);
        assert_true(sd_event_add_io(event, NULL, line->fd, 0, on_closed, NULL) >= 0);
        assert_true(sd_event_loop(event) >= 0);
        sd_event_unref(event);
        close(line->fd);
        assert_ok(unlink(line->path));
        assert_ok(rmdir(line->folder));
}

TEST_F(test_freed_while_it_runs, Fixture *fixture) {
        Lifeline line;

        lifeline_make(&line, "sleep 1000 & sleep 1000");
        start(fixture, SHELL(line.script, .timeout_usec = 1000 * SEC));
        lifeline_wait(&line);
        fixture->program = program_free(fixture->program);
        lifeline_check(&line);
        assert_int_equal(fixture->n_done, 0);
}

TEST_F(test_too_slow, Fixture *fixture) {
        Lifeline line;

        lifeline_make(&line, "trap '' TERM INT HUP; sleep 1000 & sleep 1000");
        fixture->is_freed_inside = true;
        run(fixture, SHELL(line.script, .timeout_usec = 2 * SEC));
        assert_refused(fixture, ERROR_TIMEOUT, "did not end within 2 s");
        lifeline_check(&line);
}

/* The time limit ends with the program, whether its owner frees it soon or not. */
TEST_F(test_quick_enough, Fixture *fixture) {
        run_shell(fixture, "echo yes");
        assert_non_null(timer);
        assert_int_equal(sd_event_source_get_enabled(timer, NULL), 0);
}

/* It has answered, so that counts; who keeps the pipe open has a second. */
TEST_F(test_grandchild_with_stdout, Fixture *fixture) {
        Lifeline line;

        lifeline_make(&line, "sleep 1000 & echo yes");
        fixture->is_freed_inside = true;
        run_shell(fixture, line.script);
        assert_string_equal(fixture->output, "yes\n");
        lifeline_check(&line);
}

TEST_F(test_left_behind, Fixture *fixture) {
        Lifeline line;

        lifeline_make(&line, "sleep 1000 >/dev/null & echo yes");
        run_shell(fixture, line.script);
        assert_string_equal(fixture->output, "yes\n");
        lifeline_check(&line);
}

/* `script`, a command that leaves the program's session, and has left it when it goes on. */
#define IN_ANOTHER_SESSION                \
        "setsid sleep 1000 >/dev/null & " \
        "while read -r a b c d e session f </proc/$!/stat && [ $session != $! ]; do :; done; "

static bool lifeline_is_cut(const Lifeline *line) {
        struct pollfd fd = { .fd = line->fd };

        assert_true(poll(&fd, 1, 0) >= 0);
        return fd.revents & POLLHUP;
}

/* It may take a turn of the loop until all are found. */
static void lifeline_wait_cut(Lifeline *line, sd_event *event) {
        while (!lifeline_is_cut(line))
                assert_true(sd_event_run(event, SEC / 100) >= 0);
        lifeline_check(line);
}

TEST_F(test_left_session, Fixture *fixture) {
        Lifeline line;

        lifeline_make(&line, IN_ANOTHER_SESSION "echo yes");
        run_shell(fixture, line.script);
        assert_string_equal(fixture->output, "yes\n");
        lifeline_wait_cut(&line, fixture->event);
}

TEST_F(test_left_group, Fixture *fixture) {
        Lifeline line;

        lifeline_make(&line, "bash -c 'set -m; sleep 1000 >/dev/null &'; echo yes");
        run_shell(fixture, line.script);
        assert_string_equal(fixture->output, "yes\n");
        lifeline_wait_cut(&line, fixture->event);
}

TEST_F(test_too_slow_in_another_session, Fixture *fixture) {
        Lifeline line;

        lifeline_make(&line, IN_ANOTHER_SESSION "sleep 1000");
        fixture->is_freed_inside = true;
        run(fixture, SHELL(line.script, .timeout_usec = 2 * SEC));
        assert_refused(fixture, ERROR_TIMEOUT, "did not end within 2 s");
        lifeline_wait_cut(&line, fixture->event);
}

/* The loop has no source left after the end. */
TEST_F(test_freed_at_the_end, Fixture *fixture) {
        struct pollfd fd;
        Lifeline line;

        lifeline_make(&line, IN_ANOTHER_SESSION "echo >&9; sleep 1000");
        start(fixture, SHELL(line.script, .timeout_usec = 1000 * SEC));
        lifeline_wait(&line);
        lifeline_wait(&line);
        assert_ok(sd_event_exit(fixture->event, 0));
        assert_ok(sd_event_loop(fixture->event));
        fixture->program = program_free(fixture->program);

        fd = (struct pollfd){ .fd = line.fd };
        assert_int_equal(poll(&fd, 1, 20000), 1);
        assert_true(fd.revents & POLLHUP);
        lifeline_check(&line);
        while (waitpid(-1, NULL, 0) > 0)
                ;
}

/* Processes that may belong to a running program are left alone as long as it runs. */
TEST_F(test_beside_another, Fixture *fixture) {
        Fixture other = { .event = fixture->event };
        Lifeline line;

        lifeline_make(&line, "(" IN_ANOTHER_SESSION "echo >&9); sleep 1000");
        start(&other, SHELL(line.script, .timeout_usec = 1000 * SEC));
        lifeline_wait(&line);
        lifeline_wait(&line);
        run_shell(fixture, "echo yes");
        assert_string_equal(fixture->output, "yes\n");
        assert_false(lifeline_is_cut(&line));
        assert_int_equal(other.n_done, 0);

        program_free(other.program);
        lifeline_wait_cut(&line, fixture->event);
}

/* All at once, none of which knows of the others. */
TEST_F(test_many, Fixture *fixture) {
        Fixture others[20] = { 0 };

        for (size_t i = 0; i < 20; i++) {
                others[i].event = fixture->event;
                start(&others[i], SHELL("cat", .input = (const char *) &i, .input_size = sizeof(i),
                                        .timeout_usec = 20 * SEC));
        }

        for (size_t i = 0; i < 20; i++) {
                while (others[i].n_done == 0)
                        assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
                assert_memory_equal(others[i].output, &i, sizeof(i));
                program_free(others[i].program);
                free(others[i].output);
        }
}
