/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/api/diagnosis.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/node/folder.h"
#include "agent/node/owner.h"

/* Below this, unpacking anything but a small image fails, and the kubelet evicts pods. */
#define FREE_PERCENT_MIN 5

#define IMAGES_MAX 100 /* images listed at most */

#define NO_RUNTIME                                                                             \
        "no container runtime was found at the usual places; start it, or name its socket in " \
        "runtimeEndpoints of the configuration, or with --runtime-endpoint"

/* Prefers a runtime that answers, but is not ready, to one that is not there. */
static const Runtime *most_telling(const Runtimes *runtimes) {
        const Runtime *best = NULL;

        for (size_t i = 0; i < runtimes_count(runtimes); i++) {
                const Runtime *runtime = runtimes_get(runtimes, i);

                if (runtime_state(runtime) == RUNTIME_REFUSED)
                        return runtime;
                if (!best)
                        best = runtime;
        }

        return runtimes_count(runtimes) == 1 ? best : NULL;
}

const char *diagnosis_runtime_sentence(const Runtimes *runtimes) {
        const Runtime *runtime = runtimes_chosen(runtimes) ?: most_telling(runtimes);

        return runtime ? runtime_sentence(runtime) : NO_RUNTIME;
}

bool diagnosis_is_ready(const DiagnosisSubject *subject, const char **ret_why) {
        const Runtime *chosen = subject->runtimes ? runtimes_chosen(subject->runtimes) : NULL;

        if (!subject->runtimes || (!subject->images_dir && !subject->cluster.is_ready)) {
                *ret_why = "starting";
                return false;
        }
        if (!chosen || runtime_state(chosen) != RUNTIME_READY || runtime_is_silent(chosen)) {
                *ret_why = diagnosis_runtime_sentence(subject->runtimes);
                return false;
        }

        if (subject->cluster.is_ready &&
            !subject->cluster.is_ready(subject->cluster.source, ret_why))
                return false;

        return !subject->pods.is_ready || subject->pods.is_ready(subject->pods.source, ret_why);
}

static const char *runtime_advice(const Runtimes *runtimes) {
        const Runtime *runtime = runtimes_chosen(runtimes) ?: most_telling(runtimes);

        if (!runtime) /* the sentence says what to do */
                return "the agent pulls images as soon as it answers";

        if (runtime_is_silent(runtime))
                return "restart it, such as: systemctl restart containerd; the agent "
                       "continues as soon as it answers";

        return runtime_state(runtime) == RUNTIME_REFUSED
                       ? "the agent pulls images as soon as it answers"
                       : "start it, such as: systemctl start containerd; the agent pulls "
                         "images as soon as it answers";
}

static const char *const progress_texts[] = {
        [PROGRESS_UNKNOWN] = "not known yet",
        [PROGRESS_SUPPORTED] = "yes",
        [PROGRESS_UNSUPPORTED] = "no, this runtime does not report it",
};

static int visit_runtime(const DiagnosisSubject *subject, const DiagnosisVisitor *visitor) {
        const Runtime *chosen = runtimes_chosen(subject->runtimes);
        const char *sentence = diagnosis_runtime_sentence(subject->runtimes);
        int r;

        if (!chosen || runtime_state(chosen) != RUNTIME_READY || runtime_is_silent(chosen))
                return visitor->on_problem("container runtime", sentence,
                                           runtime_advice(subject->runtimes), visitor->userdata);

        r = visitor->on_fact("container runtime", sentence, visitor->userdata);
        if (r < 0)
                return r;

        return visitor->on_fact("progress in bytes",
                                progress_texts[images_work(subject->images).progress],
                                visitor->userdata);
}

/* Requested images whose layers may not all be on the node. */
static int visit_on_demand(const DiagnosisSubject *subject, const DiagnosisVisitor *visitor) {
        cleanup(free_p) char *text = NULL;
        uint64_t present = 0, total = 0;
        size_t n = 0, n_hidden = 0;

        for (size_t i = 0; i < images_count(subject->images); i++) {
                const ImageStatus *status = image_status(images_get(subject->images, i));
                const ImageOnDemand *found = &status->on_demand;

                n += found->n_layers > 0;
                n_hidden += found->n_layers > 0 && !found->is_counted;
                present += found->bytes_present;
                total += found->bytes_total;
        }
        if (n == 0)
                return 0;

        if (text_format(&text,
                        "layers of %zu images: %.1f of %.1f MB are on the node, and for %zu "
                        "images the agent cannot see how much; a request with complete waits for "
                        "all",
                        n, (double) present / 1e6, (double) total / 1e6, n_hidden) < 0)
                return -ENOMEM;

        return visitor->on_fact("fetched on demand", text, visitor->userdata);
}

/* A container or a sandbox may hide the runtime's folder. The runtime is not affected. */
static int visit_hidden_disk(const char *path, int number, const DiagnosisVisitor *visitor) {
        cleanup(free_p) char *text = NULL;

        if (text_format(&text,
                        "the agent cannot read the free space of %s, so it does not keep "
                        "minFreeDisk: %s",
                        path, strerror(number)) < 0)
                return -ENOMEM;

        return visitor->on_fact("disk", text, visitor->userdata);
}

static int visit_disk(const DiagnosisSubject *subject, const DiagnosisVisitor *visitor) {
        const DiskGuard *disk = images_disk(subject->images);
        cleanup(free_p) char *path = NULL;
        cleanup(free_p) char *text = NULL;
        cleanup(free_p) char *why = NULL;
        DiskRoom room;
        DiskSpace space;
        double percent;
        int r;

        r = disk_guard_measure(disk, &space, &path);
        if (r == -ENODATA)
                return 0;
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return visit_hidden_disk(path, -r, visitor);

        r = disk_guard_room(disk, NULL, 0, &room, &why);
        if (r < 0)
                return r;
        if (why)
                return visitor->on_problem(
                        "disk", why,
                        "remove images or make the disk larger; pulls wait until "
                        "then",
                        visitor->userdata);

        percent = (double) space.n_free / (double) space.n_total * 100;
        if (text_format(&text, "%s has %.1f GB free (%.0f %%)", path, (double) space.n_free / 1e9,
                        percent) < 0)
                return -ENOMEM;

        if (percent < FREE_PERCENT_MIN)
                return visitor->on_problem("disk", text, "remove images or make the disk larger",
                                           visitor->userdata);

        return visitor->on_fact("disk", text, visitor->userdata);
}

static int visit_unknown_keys(const char *path, const ImagesFile *file,
                              const DiagnosisVisitor *visitor) {
        const char *advice = file->error.kind == ERROR_NONE
                                     ? "correct or remove it; the agent uses the rest of the file"
                                     : "correct or remove it";
        const UnknownKeys *unknown = &file->unknown;
        cleanup(free_p) char *text = NULL;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < unknown->n_texts; i++)
                r = visitor->on_problem(path, unknown->texts[i], advice, visitor->userdata);
        if (r < 0 || unknown->n_found == unknown->n_texts)
                return r;

        if (text_format(&text, "%zu more unknown keys", unknown->n_found - unknown->n_texts) < 0)
                return -ENOMEM;

        return visitor->on_problem(path, text, advice, visitor->userdata);
}

static int visit_refusal(const ImagesFile *file, const char *path, const DiagnosisSubject *subject,
                         const DiagnosisVisitor *visitor) {
        int r;

        r = folder_file_is_served(subject->images, file);
        if (r < 0)
                return r;

        return visitor->on_problem(
                path, error_message(&file->error),
                r > 0 ? "correct the file; until then the agent uses its last good content"
                      : "correct the file; until then it requests no images",
                visitor->userdata);
}

static int visit_file(const ImagesFile *file, const DiagnosisSubject *subject,
                      const DiagnosisVisitor *visitor) {
        cleanup(free_p) char *path = NULL;
        int r = 0;

        if (text_format(&path, "%s/%s", subject->images_path, file->name) < 0)
                return -ENOMEM;

        if (file->error.kind != ERROR_NONE)
                r = visit_refusal(file, path, subject, visitor);
        return r < 0 ? r : visit_unknown_keys(path, file, visitor);
}

static int visit_files(const ImagesDir *dir, const DiagnosisSubject *subject,
                       const DiagnosisVisitor *visitor) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < images_dir_get_n_files(dir); i++)
                r = visit_file(images_dir_get_file(dir, i), subject, visitor);
        return r;
}

static int visit_folder(const DiagnosisSubject *subject, const DiagnosisVisitor *visitor) {
        const ImagesDir *dir = subject->images_dir;
        const Error *error = images_dir_get_error(dir);
        cleanup(free_p) char *text = NULL;
        int r;

        if (error->kind == ERROR_NOT_FOUND)
                r = text_format(&text, "%s does not exist, which is fine if it is not needed",
                                subject->images_path);
        else
                r = text_format(&text, "%s, %zu files", subject->images_path,
                                images_dir_get_n_files(dir));
        if (r < 0)
                return -ENOMEM;

        r = error->kind == ERROR_NONE || error->kind == ERROR_NOT_FOUND
                    ? visitor->on_fact("images folder", text, visitor->userdata)
                    : visitor->on_problem(subject->images_path, error_message(error),
                                          "let inplaced read the folder", visitor->userdata);
        if (r < 0)
                return r;

        return visit_files(dir, subject, visitor);
}

typedef struct AuthVisit {
        const char *folder;
        const DiagnosisVisitor *visitor;
} AuthVisit;

/* Returns the part of the message behind the path, which the subject has already. */
static const char *behind_path(const char *message, const char *path) {
        const char *at = strstr(message, path);

        return at ? at + strlen(path) + strspn(at + strlen(path), "\": ") : message;
}

static int on_auth_problem(const char *file, const Error *error, void *userdata) {
        const AuthVisit *visit = userdata;
        cleanup(free_p) char *path = NULL;

        if (text_format(&path, "%s%s%s", file[0] == '/' ? "" : visit->folder,
                        file[0] == '/' ? "" : "/", file) < 0)
                return -ENOMEM;

        return visit->visitor->on_problem(
                path, behind_path(error_message(error), path),
                "write it like docker's config.json, with credentials, under a name in .json",
                visit->visitor->userdata);
}

static int visit_auth(const DiagnosisSubject *subject, const DiagnosisVisitor *visitor) {
        AuthVisit visit = { .folder = auth_dir_path(subject->auth_dir), .visitor = visitor };
        cleanup(free_p) char *text = NULL;
        size_t n_files;
        int r;

        r = auth_dir_check(subject->auth_dir, on_auth_problem, &visit, &n_files);
        if (r < 0)
                return r;

        if (text_format(&text, "%s, %zu files", auth_dir_path(subject->auth_dir), n_files) < 0)
                return -ENOMEM;

        return visitor->on_fact("registry credentials", text, visitor->userdata);
}

static int visit_state(const DiagnosisSubject *subject, const DiagnosisVisitor *visitor) {
        const Error *error = state_file_get_error(subject->state_file);
        const char *path = state_file_path(subject->state_file);

        if (error->kind == ERROR_NONE)
                return visitor->on_fact("status file", path, visitor->userdata);

        return visitor->on_problem(path, error_message(error),
                                   "make room, or let inplaced write there", visitor->userdata);
}

int diagnosis_visit(const DiagnosisSubject *subject, const DiagnosisVisitor *visitor) {
        int r = 0;

        if (subject->runtimes && subject->images)
                r = visit_runtime(subject, visitor);
        if (r >= 0 && subject->images)
                r = visit_disk(subject, visitor);
        if (r >= 0 && subject->images)
                r = visit_on_demand(subject, visitor);
        if (r >= 0 && subject->pins.visit)
                r = subject->pins.visit(subject->pins.source, visitor);
        if (r >= 0 && subject->cluster.visit)
                r = subject->cluster.visit(subject->cluster.source, visitor);
        if (r >= 0 && subject->pods.visit)
                r = subject->pods.visit(subject->pods.source, visitor);
        if (r >= 0 && subject->images_dir)
                r = visit_folder(subject, visitor);
        if (r >= 0 && subject->auth_dir)
                r = visit_auth(subject, visitor);
        if (r >= 0 && subject->state_file)
                r = visit_state(subject, visitor);
        if (r >= 0 && subject->files.visit)
                r = subject->files.visit(subject->files.source, visitor);
        if (r >= 0 && subject->groups.visit)
                r = subject->groups.visit(subject->groups.source, visitor);
        return r;
}

/* Returns the error of the last attempt. NULL: none. */
static const char *image_problem(const Image *image) {
        const ImageStatus *status = image_status(image);

        return image_is_desired(image) && status->phase != IMAGE_SUCCEEDED ? status->message : NULL;
}

bool diagnosis_is_of_node_image(const Image *image) {
        for (const ImageRequest *request = image_requests(image); request; request = request->next)
                if (!owner_is_node_image(request->owner))
                        return false;

        return true;
}

/* A wrong reference or specification fails whenever it is tried. */
static bool has_fault(const ImageStatus *status) {
        return status->reason == PULL_REASON_INVALID_REFERENCE ||
               status->reason == PULL_REASON_INVALID_SPEC;
}

static const char *image_advice(const Image *image) {
        ImagePhase phase = image_status(image)->phase;

        if (image_phase_is_final(phase) && has_fault(image_status(image)))
                return "nothing tries it again before that";
        if (image_phase_is_final(phase))
                return diagnosis_is_of_node_image(image)
                               ? "then give its tag in the NodeImage a new version"
                               : "then try: inplacectl retry IMAGE";

        return phase == IMAGE_MISSING && !image_is_syncing(image) ? "try: inplacectl pull"
                                                                  : "the agent tries again";
}

static int visit_image(const Image *image, const DiagnosisVisitor *visitor) {
        cleanup(free_p) char *reference = NULL;
        int r;

        r = image_ref_join(image_name(image), image_tag(image), &reference);
        if (r < 0)
                return r;

        return visitor->on_problem(reference, image_problem(image), image_advice(image),
                                   visitor->userdata);
}

static int visit_images(const DiagnosisSubject *subject, const DiagnosisVisitor *visitor) {
        cleanup(free_p) char *text = NULL;
        size_t n = 0;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < images_count(subject->images); i++) {
                const Image *image = images_get(subject->images, i);

                if (image_problem(image) && n++ < IMAGES_MAX)
                        r = visit_image(image, visitor);
        }
        if (r < 0 || n <= IMAGES_MAX)
                return r;

        if (text_format(&text, "%zu more have failed", n - IMAGES_MAX) < 0)
                return -ENOMEM;

        return visitor->on_problem("images", text, "see inplacectl status --failed",
                                   visitor->userdata);
}

int diagnosis_visit_all(const DiagnosisSubject *subject, const DiagnosisVisitor *visitor) {
        int r;

        r = diagnosis_visit(subject, visitor);
        if (r >= 0 && subject->images)
                r = visit_images(subject, visitor);
        if (r >= 0 && subject->configuration.visit)
                r = subject->configuration.visit(subject->configuration.source, visitor);
        return r;
}
