/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/agent-files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/exposure.h"
#include "agent/config.h"

#define FILES_MAX 8
#define ENTRIES_MAX 256 /* of a folder: it is all done in one turn of the loop */

#define ADVICE "let it belong to root, and let no one else write it, or read it if it holds secrets"

typedef struct File {
        char *path;
        bool is_secret; /* and so is what is in the folder */
} File;

struct AgentFiles {
        File items[FILES_MAX];
        size_t n_items;
};

DEFINE_CLEANUP(AgentFiles *, agent_files_free)
DEFINE_CLEANUP(DIR *, closedir)

static int visit_one(const char *path, bool is_secret, const DiagnosisVisitor *visitor,
                     bool *ret_is_exposed) {
        cleanup(free_p) char *why = NULL;
        int r;

        r = exposure_find(path, is_secret, &why);
        if (r < 0)
                return r;

        *ret_is_exposed = why != NULL;
        return why ? visitor->on_problem(path, why, ADVICE, visitor->userdata) : 0;
}

static int visit_entries(const File *file, const DiagnosisVisitor *visitor) {
        cleanup(closedir_p) DIR *folder = opendir(file->path);
        const struct dirent *entry;

        for (size_t n = 0; folder && n < ENTRIES_MAX && (entry = readdir(folder));) {
                cleanup(free_p) char *path = NULL;
                bool is_exposed;
                int r;

                if (entry->d_name[0] == '.')
                        continue;
                if (asprintf(&path, "%s/%s", file->path, entry->d_name) < 0) {
                        path = NULL;
                        return -ENOMEM;
                }

                n++;
                r = visit_one(path, file->is_secret, visitor, &is_exposed);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Of a folder that is exposed as a whole, each file would say the same. */
static int visit(const void *source, const DiagnosisVisitor *visitor) {
        const AgentFiles *files = source;

        for (size_t i = 0; i < files->n_items; i++) {
                const File *file = &files->items[i];
                bool is_exposed;
                int r;

                r = visit_one(file->path, file->is_secret, visitor, &is_exposed);
                if (r >= 0 && !is_exposed)
                        r = visit_entries(file, visitor);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int on_problem(const char *subject, const char *message, const char *advice,
                      void *userdata) {
        log_warning(userdata, NULL, "Using `%s` although %s: %s.", subject, message, advice);
        return 0;
}

int agent_files_log(const AgentFiles *files, Log *log) {
        const DiagnosisVisitor visitor = { .on_problem = on_problem, .userdata = log };

        return visit(files, &visitor);
}

DiagnosisSource agent_files_diagnosis(const AgentFiles *files) {
        return (DiagnosisSource){ .visit = visit, .source = files };
}

static int add(AgentFiles *files, const char *path, bool is_secret) {
        if (!path)
                return 0;

        files->items[files->n_items] = (File){ .path = strdup(path), .is_secret = is_secret };
        return files->items[files->n_items++].path ? 0 : -ENOMEM;
}

int agent_files_new(const Options *options, const DockerConfig *docker, AgentFiles **ret) {
        cleanup(agent_files_free_p) AgentFiles *files = calloc(1, sizeof(*files));

        if (!files || add(files, options->config_path ?: CONFIG_PATH, false) < 0 ||
            add(files, options->kubeconfig, true) < 0 ||
            add(files, options->provider_config, false) < 0 ||
            add(files, options->provider_bin_dir, false) < 0 ||
            add(files, docker_config_path(docker), true) < 0 ||
            add(files, options->auth_dir, true) < 0 || add(files, options->images_dir, false) < 0 ||
            add(files, options->state_dir, false) < 0)
                return -ENOMEM;

        *ret = take_ptr(files);
        return 0;
}

AgentFiles *agent_files_free(AgentFiles *files) {
        if (!files)
                return NULL;

        for (size_t i = 0; i < files->n_items; i++)
                free(files->items[i].path);
        free(files);
        return NULL;
}
