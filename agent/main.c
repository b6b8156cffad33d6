/* SPDX-License-Identifier: Apache-2.0 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "agent/agent-files.h"
#include "agent/agent.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/components.h"
#include "agent/layer-status.h"
#include "agent/options.h"

#define EXIT_USAGE 2
#define END_SECONDS 5
#define DESCRIPTORS_WANTED 4096      /* three for each of 256 callers, and some more */
#define FREE_AT_END_MAX (128 * 1024) /* glibc's initial value */

/* State that main() shares with the signal handlers. */
typedef struct Program {
        char **argv;
        Options options;
        sd_event *event;
        Log *log;
        Agent *agent;
} Program;

static void program_done(Program *program) {
        agent_free(program->agent);
        log_free(program->log);
        sd_event_unref(program->event);
        options_done(&program->options);
}

static void notify_ready(const Program *program) {
        int r = sd_notify(false, "READY=1");

        if (r < 0)
                log_error(program->log, NULL, "Cannot send \"READY=1\" to the service manager: %s.",
                          strerror(-r));
}

static void notify_reloading(void) {
        (void) sd_notifyf(false, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_monotonic_usec());
}

static int program_apply(Program *program, Options *options) {
        cleanup(free_p) char *changed = NULL;
        int r;

        r = options_compare(&program->options, options, &changed);
        if (r < 0)
                return r;
        if (changed[0])
                log_warning(program->log, NULL, "These settings change at the next start only: %s.",
                            changed);

        log_set_level(program->log, options->log_level);
        log_set_format(program->log, options->log_format);
        r = agent_reload(program->agent, options);
        if (r < 0)
                return r;

        log_info(program->log, NULL, "Reloaded the configuration.");
        return 0;
}

/* Problems of the configuration at a reload. */
typedef struct Refusal {
        Log *log;
        bool is_refused;
} Refusal;

static int on_reload_problem(const char *subject, const char *message, const char *advice,
                             void *userdata) {
        Refusal *refusal = userdata;

        refusal->is_refused = true;
        log_error(refusal->log, NULL,
                  "Cannot reload the configuration, keeping the previous one: %s: %s.", subject,
                  message);
        return 0;
}

/* An invalid configuration changes nothing. */
static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        cleanup(options_done) Options options = { .config_path = NULL };
        Program *program = userdata;
        Refusal refusal = { .log = program->log };
        const DiagnosisVisitor visitor = { .on_problem = on_reload_problem, .userdata = &refusal };
        int r;

        notify_reloading();
        r = options_read(program->argv, &options, &visitor);
        if (r >= 0 && refusal.is_refused)
                agent_reload_failed(program->agent);
        else if (r >= 0)
                r = program_apply(program, &options);

        notify_ready(program);
        return r;
}

static int on_terminate(sd_event_source *source, const struct signalfd_siginfo *info,
                        void *userdata) {
        Program *program = userdata;

        log_info(program->log, NULL, "inplaced " INPLACED_VERSION " stops on SIG%s.",
                 sigabbrev_np((int) info->ssi_signo) ?: "?");
        (void) sd_notify(false, "STOPPING=1\nSTATUS=stopping");
        return sd_event_exit(program->event, program->options.removes_pins);
}

/* Call it before anything starts a thread, see completion_queue_new(). */
static int block_signals(void) {
        sigset_t mask;

        (void) sigemptyset(&mask);
        (void) sigaddset(&mask, SIGTERM);
        (void) sigaddset(&mask, SIGINT);
        (void) sigaddset(&mask, SIGHUP);
        (void) signal(SIGPIPE, SIG_IGN);
        (void) signal(SIGCHLD, SIG_DFL); /* else the kernel drops the exit status of plugins */
        return sigprocmask(SIG_BLOCK, &mask, NULL) < 0 ? -errno : 0;
}

static int add_signals(Program *program) {
        int r;

        r = loop_add_signal(program->event, NULL, SIGTERM, on_terminate, program);
        if (r < 0)
                return r;

        r = loop_add_signal(program->event, NULL, SIGINT, on_terminate, program);
        if (r < 0 || program->options.removes_pins) /* SIGHUP stays blocked */
                return r;

        return loop_add_signal(program->event, NULL, SIGHUP, on_reload, program);
}

/* The memory of the agent and of its plugins has tokens and passwords. If the kernel pipes cores to
 * a program, it does not check their limit, but only whether the process may be dumped. */
static void prevent_core_dumps(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_CORE, &limit) == 0) {
                limit.rlim_cur = 0;
                (void) setrlimit(RLIMIT_CORE, &limit);
        }
        (void) prctl(PR_SET_DUMPABLE, 0);
}

/* Each thread would keep an arena of its own, but the agent's threads rarely allocate at the same
 * time. And after freeing a large block glibc would leave twice its size at the end of an arena,
 * which malloc_trim() does not return. */
static void limit_resources(void) {
        struct rlimit limit;

        (void) mallopt(M_ARENA_MAX, 2);
        (void) mallopt(M_TRIM_THRESHOLD, FREE_AT_END_MAX);
        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= DESCRIPTORS_WANTED)
                return;

        limit.rlim_cur = limit.rlim_max < DESCRIPTORS_WANTED ? limit.rlim_max : DESCRIPTORS_WANTED;
        (void) setrlimit(RLIMIT_NOFILE, &limit);
}

/* Call it before opening any file: the descriptor is only known by its number. */
static int take_listening_socket(Options *options, Error *reterr) {
        int n = sd_listen_fds(true);

        options->listening_fd = -1;
        if (n <= 0)
                return n;
        if (n > 1 || sd_is_socket_unix(SD_LISTEN_FDS_START, SOCK_STREAM, true, NULL, 0) <= 0)
                return error_set(reterr, ERROR_INVALID,
                                 "$LISTEN_FDS does not stand for one listening Unix socket");

        options->listening_fd = SD_LISTEN_FDS_START;
        return 0;
}

static void on_ready(void *userdata) {
        Program *program = userdata;

        log_info(program->log, NULL, "inplaced " INPLACED_VERSION " is ready on node \"%s\".",
                 program->options.node_name);
        notify_ready(program);
}

static int visit_configuration(const void *source, const DiagnosisVisitor *visitor) {
        const Program *program = source;

        return agent_files_check_start(program->argv, &program->options, visitor);
}

static int program_run(Program *program, Error *reterr) {
        int r;

        r = log_new(program->options.log_format, program->options.log_level, &program->log);
        if (r < 0)
                return r;

        if (program->options.ignored_flags)
                log_warning(program->log, NULL,
                            "Ignoring flags of kruise-daemon that inplaced does not have: %s.",
                            program->options.ignored_flags);

        r = sd_event_new(&program->event);
        if (r < 0)
                return r;

        r = add_signals(program);
        if (r < 0)
                return r;

        r = agent_new(program->event, program->log, &program->options, on_ready, program,
                      &program->agent, reterr);
        if (r < 0)
                return r;

        agent_set_configuration(program->agent, (DiagnosisSource){ .visit = visit_configuration,
                                                                   .source = program });
        r = sd_event_loop(program->event);
        return r > 0 ? error_set(reterr, ERROR_UNAVAILABLE, "the pins were not removed") : r;
}

static void exit_well(int number) {
        _exit(EXIT_SUCCESS);
}

static void exit_badly(int number) {
        _exit(EXIT_FAILURE);
}

/* Only freeing is left. gRPC waits for ever if it could not start one of its threads, so a time
 * limit ends this, as does another signal. */
static void limit_end(bool is_failure) {
        static const int signals[] = { SIGALRM, SIGTERM, SIGINT };
        const struct sigaction action = { .sa_handler = is_failure ? exit_badly : exit_well };
        sigset_t mask;

        (void) sigemptyset(&mask);
        for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
                (void) sigaction(signals[i], &action, NULL);
                (void) sigaddset(&mask, signals[i]);
        }
        (void) alarm(END_SECONDS);
        (void) sigprocmask(SIG_UNBLOCK, &mask, NULL);
}

DEFINE_CLEANUP(DIR *, closedir)

/* An agent that uses the folder could not write its files any more. Root may have no right but to change owners, and
 * then cannot open a file of another user. */
static int lock_for_changes(int folder, const char *path, int *ret_fd, Error *reterr) {
        struct stat lock;
        int r;

        if (fstatat(folder, AGENT_LOCK_FILE, &lock, AT_SYMLINK_NOFOLLOW) < 0 ||
            fchownat(folder, AGENT_LOCK_FILE, geteuid(), (gid_t) -1, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;

        r = agent_lock_folder(path, /* flags= */ 0, ret_fd, reterr);
        if (r < 0)
                (void) fchownat(folder, AGENT_LOCK_FILE, lock.st_uid, (gid_t) -1,
                                AT_SYMLINK_NOFOLLOW);
        return r;
}

/* For the init container of a pod whose agent is not root: the folder on the node belongs to root. */
static int prepare_state_dir(const char *path, uid_t uid, Error *reterr) {
        cleanup(closedir_p) DIR *folder = NULL;
        cleanup(close_p) int lock_fd = -1;
        struct dirent *entry;
        int r;

        if (mkdir(path, 0750) < 0 && errno != EEXIST)
                return error_set(reterr, ERROR_INVALID, "cannot make %s: %s", path,
                                 strerror(errno));

        folder = opendir(path);
        if (!folder)
                return error_set(reterr, ERROR_INVALID, "cannot open %s: %s", path,
                                 strerror(errno));

        r = lock_for_changes(dirfd(folder), path, &lock_fd, reterr);
        if (r < 0)
                return r;

        while ((entry = readdir(folder)))
                if (entry->d_name[0] != '.' && fchownat(dirfd(folder), entry->d_name, uid,
                                                        (gid_t) -1, AT_SYMLINK_NOFOLLOW) < 0)
                        return error_set(reterr, ERROR_INVALID,
                                         "cannot change the owner of %s/%s: %s", path,
                                         entry->d_name, strerror(errno));

        if (fchown(dirfd(folder), uid, (gid_t) -1) < 0)
                return error_set(reterr, ERROR_INVALID, "cannot change the owner of %s: %s", path,
                                 strerror(errno));

        return 0;
}

static int fail(const Error *error, int r) {
        fprintf(stderr, "inplaced: %s\n",
                error->kind == ERROR_NONE ? strerror(-r) : error_message(error));
        return EXIT_FAILURE;
}

/* Reports problems at the start and for --check-config. */
static int on_problem(const char *subject, const char *message, const char *advice,
                      void *userdata) {
        size_t *n_problems = userdata;

        ++*n_problems;
        fprintf(stderr, "inplaced: %s: %s\n", subject, message);
        return 0;
}

/* Distinguishes options and the configuration file from the files that they name: only the former
 * keep a running agent from reloading. */
static int check_config(const Options *options, const DiagnosisVisitor *visitor,
                        const size_t *n_problems) {
        bool is_invalid = *n_problems > 0;
        const Error none = ERROR_INIT;
        int r;

        r = agent_files_check(options, visitor);
        if (r < 0)
                return fail(&none, r);
        if (*n_problems > 0)
                return is_invalid ? EXIT_USAGE : EXIT_FAILURE;

        return puts("The configuration, the documents and the credentials are valid.") < 0
                       ? EXIT_FAILURE
                       : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(program_done) Program program = { .argv = argv };
        size_t n_problems = 0;
        const DiagnosisVisitor visitor = {
                .on_problem = on_problem,
                .userdata = &n_problems,
        };
        int r;

        if (argc == 2 && strcmp(argv[1], "--print-layer-status") == 0)
                return layer_status_print(LAYER_STATUS_MOUNTS, stdout);

        prevent_core_dumps();
        r = options_read(argv, &program.options, &visitor);
        if (r < 0)
                return fail(&error, r);
        if (program.options.wants_check)
                return check_config(&program.options, &visitor, &n_problems);
        if (n_problems > 0)
                return EXIT_USAGE;
        if (program.options.wants_help)
                return fputs(options_help, stdout) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        if (program.options.wants_version)
                return puts("inplaced " INPLACED_VERSION INPLACED_COMPONENTS) < 0 ? EXIT_FAILURE
                                                                                  : EXIT_SUCCESS;

        if (program.options.prepare_for_uid) {
                r = prepare_state_dir(program.options.state_dir,
                                      (uid_t) atoi(program.options.prepare_for_uid), &error);
                return r < 0 ? fail(&error, r) : EXIT_SUCCESS;
        }

        limit_resources();
        r = take_listening_socket(&program.options, &error);
        if (r >= 0)
                r = block_signals();
        if (r >= 0)
                r = program_run(&program, &error);

        if (r < 0)
                (void) fail(&error, r);
        limit_end(r < 0);
        return r >= 0 ? EXIT_SUCCESS : error.kind == ERROR_INVALID ? EXIT_USAGE : EXIT_FAILURE;
}
