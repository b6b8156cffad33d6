/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A folder with the files that give access, and clocks that can be moved on
 */

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/rfc3339.h"
#include "agent/kube/access.h"
#include "agent/kube/exec-credential-spec.h"
#include "tests/unit/unit.h"

#define PEM_A "-----BEGIN A-----\n"
#define PEM_B "-----BEGIN B-----\n"

#define CONFIG(cluster, user)                                                     \
        "current-context: dev\n"                                                  \
        "contexts: [{name: dev, context: {cluster: c, user: u}}]\n"               \
        "clusters: [{name: c, cluster: {server: 'https://h:6443'" cluster "}}]\n" \
        "users: [{name: u, user: {" user "}}]\n"

static int64_t clock_offset_sec;

/* Takes the place of libc's function. */
int clock_gettime(clockid_t clock, struct timespec *ret) {
        if (syscall(SYS_clock_gettime, clock, ret) < 0)
                return -1;

        ret->tv_sec += clock_offset_sec;
        return 0;
}

typedef struct Fixture {
        char folder[32];
        char path[64]; /* see in() */
        sd_event *event;
        KubeAccess *access;
        const KubeCredentials *credentials;
        Error error;
        unsigned n_changed;
        bool is_freed_inside;
} Fixture;

static inline const char *in(Fixture *fixture, const char *name) {
        (void) snprintf(fixture->path, sizeof(fixture->path), "%s/%s", fixture->folder, name);
        return fixture->path;
}

/* Replaces the file as a whole, as programs that rotate files do. */
static inline void put(Fixture *fixture, const char *name, const char *text) {
        char temporary[64];
        FILE *file;

        (void) snprintf(temporary, sizeof(temporary), "%s/new", fixture->folder);
        file = fopen(temporary, "we");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_ok(fclose(file));
        assert_ok(rename(temporary, in(fixture, name)));
}

static inline void drop(Fixture *fixture, const char *name) {
        assert_ok(unlink(in(fixture, name)));
}

static inline int set_up(void **state) {
        Fixture *fixture = calloc(1, sizeof(*fixture));

        assert_non_null(fixture);
        clock_offset_sec = 0;
        strcpy(fixture->folder, "/tmp/access-XXXXXX");
        assert_non_null(mkdtemp(fixture->folder));
        assert_true(sd_event_new(&fixture->event) >= 0);
        *state = fixture;
        return 0;
}

static inline void remove_folder(const char *folder) {
        DIR *dir = opendir(folder);
        struct dirent *entry;

        assert_non_null(dir);
        while ((entry = readdir(dir)))
                if (entry->d_name[0] != '.')
                        assert_ok(unlinkat(dirfd(dir), entry->d_name, 0));
        closedir(dir);
        assert_ok(rmdir(folder));
}

static inline int tear_down(void **state) {
        Fixture *fixture = *state;

        kube_access_free(fixture->access);
        while (waitid(P_ALL, 0, &(siginfo_t){ 0 }, WEXITED | WNOHANG | WNOWAIT) == 0)
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        assert_int_equal(errno, ECHILD);

        sd_event_unref(fixture->event);
        error_done(&fixture->error);
        remove_folder(fixture->folder);
        free(fixture);
        return 0;
}

static inline void on_changed(void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_changed++;
        if (fixture->is_freed_inside)
                fixture->access = kube_access_free(fixture->access);
}

static inline int try_open(Fixture *fixture, bool is_pod, const char *context) {
        const KubeAccessOptions options = {
                .event = fixture->event,
                .kubeconfig = is_pod ? NULL : in(fixture, "config"),
                .context = context,
                .pod_folder = is_pod ? fixture->folder : NULL,
                .on_changed = on_changed,
                .userdata = fixture,
        };

        error_done(&fixture->error);
        return kube_access_new(&options, &fixture->access, &fixture->error);
}

static inline void open_config(Fixture *fixture, const char *config) {
        put(fixture, "config", config);
        if (try_open(fixture, false, NULL) < 0)
                fail_msg("%s", error_message(&fixture->error));
}

static inline int get(Fixture *fixture) {
        error_done(&fixture->error);
        return kube_access_get(fixture->access, &fixture->credentials, &fixture->error);
}

/* Checks that there is a token, and that it is this one. */
static inline void assert_token(Fixture *fixture, const char *token) {
        int r = get(fixture);

        if (r < 0)
                print_error("%s\n", error_message(&fixture->error));
        assert_int_equal(r, 1);
        assert_string_equal(fixture->credentials->token, token);
}

static inline unsigned generation(Fixture *fixture) {
        assert_int_equal(get(fixture), 1);
        return fixture->credentials->generation;
}

static inline void assert_error(Fixture *fixture, ErrorKind kind, const char *part) {
        assert_int_equal(fixture->error.kind, kind);
        if (!strstr(error_message(&fixture->error), part))
                fail_msg("\"%s\" is not in: %s", part, error_message(&fixture->error));
}

static inline void assert_trouble(Fixture *fixture, const char *part) {
        const Error *trouble = kube_access_trouble(fixture->access);

        assert_non_null(trouble);
        if (!strstr(error_message(trouble), part))
                fail_msg("\"%s\" is not in: %s", part, error_message(trouble));
}
