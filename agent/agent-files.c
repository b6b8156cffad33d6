/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/agent-files.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/api/diagnosis.h"
#include "agent/auth/credential-providers.h"
#include "agent/base/cleanup.h"
#include "agent/base/exposure.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"
#include "agent/config.h"
#include "agent/image/image-ref.h"
#include "agent/kube/access.h"

#define FILES_MAX 8
#define ENTRIES_MAX 256 /* entries of a folder to check in one turn of the loop */

#define ADVICE "make root its owner, and let only root write it, and read it if it holds secrets"

#define COVER_ADVICE "move it to /etc/inplaced, or see SYSTEMD UNITS in inplaced(8)"

typedef struct File {
        char *path;
        bool is_secret; /* include the files in the folder */
} File;

struct AgentFiles {
        File items[FILES_MAX];
        size_t n_items;
};

DEFINE_CLEANUP(AgentFiles *, agent_files_free)
DEFINE_CLEANUP(DIR *, closedir)
DEFINE_CLEANUP(ImagesDir *, images_dir_free)
DEFINE_CLEANUP(AuthDir *, auth_dir_free)

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

/* A sandbox replaces a hidden folder by an empty one without any rights, so that its files seem to
 * be missing. */
static int visit_cover(const char *path, const DiagnosisVisitor *visitor) {
        cleanup(free_p) char *copy = strdup(path), *why = NULL;
        struct stat status;

        if (!copy)
                return -ENOMEM;

        while (lstat(copy, &status) < 0) {
                char *slash = strrchr(copy, '/');

                if (!slash || slash == copy)
                        return 0;
                *slash = '\0';
        }
        if (!S_ISDIR(status.st_mode) || (status.st_mode & 07777))
                return 0;

        if (text_format(
                    &why,
                    "%s has mode 0000, as systemd's ProtectHome= sets it, which hides its content",
                    copy) < 0)
                return -ENOMEM;
        return visitor->on_problem(path, why, COVER_ADVICE, visitor->userdata);
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
                if (text_format(&path, "%s/%s", file->path, entry->d_name) < 0)
                        return -ENOMEM;

                n++;
                r = visit_one(path, file->is_secret, visitor, &is_exposed);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Reports an exposed folder once, since each file in it would repeat that. */
static int visit(const void *source, const DiagnosisVisitor *visitor) {
        const AgentFiles *files = source;

        for (size_t i = 0; i < files->n_items; i++) {
                const File *file = &files->items[i];
                bool is_exposed;
                int r;

                r = visit_cover(file->path, visitor);
                if (r >= 0)
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
        log_warning(userdata, NULL, "Using \"%s\" although %s: %s.", subject, message, advice);
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

/* Content */

static int ignore_fact(const char *subject, const char *value, void *userdata) {
        return 0;
}

static int ignore_changed(ImagesDir *dir, void *userdata) {
        return 0;
}

const char *agent_files_access(const Options *options) {
        if (options->kubeconfig)
                return "--kubeconfig";

        return kube_access_is_pod(NULL) ? "the pod's service account" : "--mode";
}

static int check_kubeconfig(sd_event *event, const Options *options,
                            const DiagnosisVisitor *visitor) {
        const KubeAccessOptions access = {
                .event = event,
                .kubeconfig = options->kubeconfig,
                .context = options->kubeconfig_context,
        };
        cleanup(error_done) Error error = ERROR_INIT;
        KubeAccess *made = NULL;
        int r;

        r = kube_access_new(&access, &made, &error);
        kube_access_free(made);
        if (error.kind == ERROR_NONE)
                return r;

        return visitor->on_problem(agent_files_access(options), error_message(&error),
                                   "correct the file, or name another one", visitor->userdata);
}

static int check_providers(sd_event *event, const Options *options,
                           const DiagnosisVisitor *visitor) {
        cleanup(error_done) Error error = ERROR_INIT;
        CredentialProviders *made = NULL;
        int r;

        if (!options->provider_config && !options->provider_bin_dir)
                return 0;
        if (!options->provider_config || !options->provider_bin_dir)
                return visitor->on_problem(
                        options->provider_config ? "--image-credential-provider-config"
                                                 : "--image-credential-provider-bin-dir",
                        options->provider_config ? "needs --image-credential-provider-bin-dir, too"
                                                 : "needs --image-credential-provider-config, too",
                        "give both; until then no plugins are used", visitor->userdata);

        r = credential_providers_new(event, NULL, options->provider_config,
                                     options->provider_bin_dir, &made, &error);
        credential_providers_free(made);
        if (error.kind == ERROR_NONE)
                return r;

        return visitor->on_problem("--image-credential-provider-config", error_message(&error),
                                   "correct the file; until then no plugins are used",
                                   visitor->userdata);
}

/* A malformed reference is no reason to refuse a document: that image alone would fail. */
static int check_reference(const char *path, const DesiredImage *desired,
                           const DiagnosisVisitor *visitor) {
        cleanup(error_done) Error error = ERROR_INIT;
        ImageRef ref;

        if (image_ref_from_node_image(desired->name, desired->tag, SHORT_NAMES_HUB, &ref, &error) >=
            0)
                return 0;

        return visitor->on_problem(path, error_message(&error), "correct the name or the tag",
                                   visitor->userdata);
}

static int check_references(const ImagesDir *images, const char *folder,
                            const DiagnosisVisitor *visitor) {
        for (size_t i = 0; i < images_dir_get_n_files(images); i++) {
                const ImagesFile *file = images_dir_get_file(images, i);
                cleanup(free_p) char *path = NULL;
                int r = 0;

                if (text_format(&path, "%s/%s", folder, file->name) < 0)
                        return -ENOMEM;

                for (size_t j = 0; r >= 0 && j < file->desired_images.n_items; j++)
                        r = check_reference(path, &file->desired_images.items[j], visitor);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int check_folders(sd_event *event, const Options *options, bool is_cluster,
                         const DiagnosisVisitor *visitor) {
        const DiagnosisVisitor here = {
                .on_problem = visitor->on_problem,
                .on_fact = ignore_fact,
                .userdata = visitor->userdata,
        };
        cleanup(images_dir_free_p) ImagesDir *images = NULL;
        cleanup(auth_dir_free_p) AuthDir *auth = NULL;
        DiagnosisSubject subject = { .images_path = options->images_dir };
        int r;

        r = auth_dir_new(options->auth_dir, &auth);
        if (r >= 0 && !is_cluster)
                r = images_dir_new(event, options->images_dir, ignore_changed, NULL, &images);
        if (r < 0)
                return r;

        subject.images_dir = images;
        subject.auth_dir = auth;
        r = diagnosis_visit(&subject, &here);
        return r < 0 || !images ? r : check_references(images, options->images_dir, visitor);
}

gid_t agent_files_find_group(const char *name) {
        const struct group *group = getgrnam(name);
        char *end;
        unsigned long number;

        if (group)
                return group->gr_gid;

        number = strtoul(name, &end, 10);
        return name[0] && !*end && number < (gid_t) -1 ? (gid_t) number : (gid_t) -1;
}

int agent_files_report_group(const char *option, const char *name,
                             const DiagnosisVisitor *visitor) {
        cleanup(free_p) char *text = NULL;

        if (text_format(&text, "there is no group %s, so only root has this right",
                        quote(name, (char[QUOTE_SIZE]){ 0 })) < 0)
                return -ENOMEM;

        return visitor->on_problem(option, text, "correct the name, or make the group",
                                   visitor->userdata);
}

static int check_group(const char *option, const char *name, const DiagnosisVisitor *visitor) {
        if (!name || !name[0] || agent_files_find_group(name) != (gid_t) -1)
                return 0;

        return agent_files_report_group(option, name, visitor);
}

/* The part that uses the kubeconfig diagnoses it. */
static bool has_same_access(const Options *a, const Options *b) {
        return a->mode == b->mode && text_equal(a->kubeconfig, b->kubeconfig) &&
               text_equal(a->kubeconfig_context, b->kubeconfig_context);
}

static int on_start_problem(const char *subject, const char *message, const char *advice,
                            void *userdata) {
        const DiagnosisVisitor *visitor = userdata;

        return visitor->on_problem(subject, message,
                                   "correct it; with it, inplaced would not start again",
                                   visitor->userdata);
}

int agent_files_check_start(char **argv, const Options *running, const DiagnosisVisitor *visitor) {
        const DiagnosisVisitor here = {
                .on_problem = on_start_problem,
                .userdata = (void *) visitor,
        };
        cleanup(options_done) Options options = { .config_path = NULL };
        cleanup(sd_event_unrefp) sd_event *event = NULL;
        int r;

        r = options_read(argv, &options, &here);
        if (r >= 0)
                r = sd_event_new(&event);
        if (r >= 0 && options_is_cluster(&options, kube_access_is_pod(NULL)) &&
            !has_same_access(&options, running))
                r = check_kubeconfig(event, &options, &here);
        return r < 0 ? r : check_providers(event, &options, visitor);
}

int agent_files_check(const Options *options, const DiagnosisVisitor *visitor) {
        bool is_cluster = options_is_cluster(options, kube_access_is_pod(NULL));
        cleanup(sd_event_unrefp) sd_event *event = NULL;
        int r;

        r = sd_event_new(&event);
        if (r >= 0 && is_cluster)
                r = check_kubeconfig(event, options, visitor);
        if (r >= 0)
                r = check_providers(event, options, visitor);
        if (r >= 0)
                r = check_group("--socket-group", options->socket_group, visitor);
        if (r >= 0)
                r = check_group("--restart-group", options->restart_group, visitor);
        return r < 0 ? r : check_folders(event, options, is_cluster, visitor);
}
