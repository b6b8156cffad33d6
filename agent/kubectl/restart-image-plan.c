/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/restart-image-plan.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-ref.h"
#include "agent/kubectl/pod-gate.h"
#include "agent/kubectl/workload.h"

/* Defaults of the kubelet. It forgets a container's starts when it has run that long. */
#define BACKOFF_SEC 10
#define BACKOFF_MAX_SEC 300
#define BACKOFF_FORGOTTEN_SEC 600
/* A kubelet has ended a container by then, beyond the grace period. */
#define STOP_SEC 60

#define STATIC_POD "kubernetes.io/config.mirror" /* annotation of the API server's copy */
#define TAG_UNKNOWN "restarted"                  /* beside a digest a tag has no meaning */
#define N_SPELLINGS 3

static int parse_changes(const char *flag, const char *const *texts, json_object **ret,
                         Error *reterr) {
        cleanup(json_object_put_p) json_object *map = json_object_new_object();

        if (!map)
                return -ENOMEM;

        for (; *texts; texts++) {
                const char *equals = strchr(*texts, '=');
                size_t size = equals ? (size_t) (equals - *texts) : strlen(*texts);
                bool removes = !equals && size > 0 && (*texts)[size - 1] == '-';
                cleanup(free_p) char *key = strndup(*texts, removes ? size - 1 : size);
                int r;

                if (!key)
                        return -ENOMEM;
                if (!key[0] || (!equals && !removes))
                        return error_set(reterr, ERROR_INVALID,
                                         "--%s: \"%s\": expected KEY=VALUE, or KEY- to remove it",
                                         flag, *texts);
                r = removes ? patch_add_null(map, key) : patch_add_text(map, key, equals + 1);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(map);
        return 0;
}

int restart_changes_parse(const char *const *labels, const char *const *annotations,
                          json_object **ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *changes = json_object_new_object();
        json_object *map;
        int r;

        r = parse_changes("label", labels, &map, reterr);
        if (r >= 0)
                r = patch_add(changes, "labels", map);
        if (r >= 0)
                r = parse_changes("annotation", annotations, &map, reterr);
        if (r >= 0)
                r = patch_add(changes, "annotations", map);
        if (r < 0)
                return r;

        *ret = take_ptr(changes);
        return 0;
}

int restart_changes_check(json_object *changes, json_object *pod, json_object *selector,
                          Error *reterr) {
        cleanup(json_object_put_p) json_object *labels = NULL;
        json_object *known = object_at(pod, "metadata.labels");
        int r;

        labels = json_copy(known);
        if (known && !labels)
                return -ENOMEM;
        r = json_merge_patch(&labels, object_at(changes, "labels"));
        if (r < 0)
                return r;
        if (selector_matches(selector, labels))
                return 0;

        return error_set(
                reterr, ERROR_INVALID,
                "pod/%s: --label changes a label by which its controller finds the pod, and would "
                "replace it",
                object_name(pod));
}

static bool is_same_image(const char *one, const char *other) {
        ImageRef a, b;

        return one && other && image_ref_parse(one, SHORT_NAMES_HUB, &a, NULL) >= 0 &&
               image_ref_parse(other, SHORT_NAMES_HUB, &b, NULL) >= 0 && image_ref_equal(&a, &b);
}

/* A copy of ours, {container: value}, owned by the caller; NULL: no memory. */
static json_object *copy_annotation(json_object *pod) {
        json_object *annotation = object_annotation_json(pod, RESTART_ANNOTATION);

        return annotation ? json_copy(annotation) : json_object_new_object();
}

/* This program wrote the image, and the container was started after that. */
static bool was_started_since(json_object *pod, const char *container, const char *image) {
        json_object *restarted = object_annotation_json(pod, RESTART_ANNOTATION);
        json_object *entry = json_get(restarted, container, json_type_object);
        json_object *starts = json_get(entry, "starts", json_type_object);
        int64_t at_sec = json_get_time(json_get(starts, image, json_type_object), "at");
        json_object *running = object_at(container_status(pod, container), "state.running");

        return at_sec > 0 && json_get_time(running, "startedAt") > at_sec;
}

/* Whether it runs, or ran until it ended by itself. */
static bool was_started(json_object *status) {
        json_object *waiting = object_at(status, "state.waiting");

        return waiting ? json_is(waiting, "reason", "CrashLoopBackOff")
                       : object_at(status, "state.running") ||
                                 object_at(status, "state.terminated");
}

/* The status is about the image of the spec: by its name on the node, or because the spec has never changed, or not
 * since the container was started. */
static bool is_about_spec(json_object *pod, const char *container, const char *image) {
        bool is_seen = !object_at(pod, "status.observedGeneration") || object_is_observed(pod);

        return is_seen &&
               (is_same_image(json_get_text(container_status(pod, container), "image"), image) ||
                object_integer(pod, "metadata.generation") == 1 ||
                was_started_since(pod, container, image));
}

int restart_image_check(json_object *pod, const char *container, Error *reterr) {
        json_object *updated = object_annotation_json(pod, ROLLOUT_POD_ANNOTATION);
        json_object *former = json_get(updated, container, json_type_object);
        const char *id = json_get_text(container_status(pod, container), "containerID") ?: "";
        const char *before = json_get_text(former, "image");
        const char *image = template_image(pod, container) ?: "";

        /* With another spelling of the image, no agent would open it any more. */
        if (pod_gate_awaits(pod, container))
                return error_set(reterr, ERROR_INVALID,
                                 "pod/%s: it is out of service for an update of container %s that "
                                 "is still open; continue it with rollout, or go back with rollout "
                                 "--undo, before you restart it",
                                 object_name(pod), container);
        if (!before || !json_is(former, "id", id) || strcmp(before, image) == 0)
                return 0;

        return error_set(reterr, ERROR_INVALID,
                         "pod/%s: container %s does not run \"%s\" yet: its update from \"%s\" is "
                         "still open; continue it with rollout, or go back with rollout --undo, "
                         "before you restart it",
                         object_name(pod), container, image, before);
}

static int check_status(json_object *pod, const char *container, const char *image, Error *reterr) {
        json_object *status = container_status(pod, container);
        const char *id = json_get_filled(status, "imageID");
        const char *reason = object_text(status, "state.waiting.reason");

        if (!id || !was_started(status))
                return error_set(reterr, ERROR_INVALID,
                                 "pod/%s: container %s has not been started yet with \"%s\"%s%s; "
                                 "restart it when it runs",
                                 object_name(pod), container, image, reason ? ": " : "",
                                 reason ?: "");
        if (!is_about_spec(pod, container, image))
                return error_set(
                        reterr, ERROR_INVALID,
                        "pod/%s: container %s may still run another image than \"%s\": its "
                        "node calls what runs \"%s\"; wait until it has been replaced, or "
                        "delete the pod",
                        object_name(pod), container, image, json_get_text(status, "image") ?: "");
        return 0;
}

/* The digest of the image that runs, in the repository of this image. */
static int read_digest(json_object *pod, const char *container, const char *image, ImageRef *ref,
                       Error *reterr) {
        json_object *status = container_status(pod, container);
        ImageRef running;

        if (!container_running_image(status, &running) ||
            !image_ref_is_same_repository(&running, ref))
                return error_set(
                        reterr, ERROR_INVALID,
                        "pod/%s: container %s cannot be restarted by its digest: its node has the image as "
                        "\"%s\", which is no digest of the repository of %s (it was loaded, "
                        "or pulled by another name)",
                        object_name(pod), container, json_get_text(status, "imageID") ?: "", image);

        strcpy(ref->digest, running.digest);
        return 0;
}

/* The digest that the image is written with, or the spec has by a restart, or else that of what runs. */
static int find_digest(json_object *pod, const char *container, const char *image, ImageRef *ret,
                       Error *reterr) {
        ImageRef now;
        int r;

        if (image_ref_parse(image, SHORT_NAMES_HUB, ret, NULL) < 0)
                return error_set(reterr, ERROR_INVALID, "pod/%s: \"%s\" is no name of an image",
                                 object_name(pod), image);
        if (ret->digest[0])
                return 0;
        if (image_ref_parse(template_image(pod, container), SHORT_NAMES_HUB, &now, NULL) >= 0 &&
            now.digest[0]) {
                strcpy(ret->digest, now.digest);
                return 0;
        }

        r = check_status(pod, container, image, reterr);
        return r < 0 ? r : read_digest(pod, container, image, ret, reterr);
}

/* Whether the image as it was written is known to be the one that runs: by its digest, or because
 * the runtime gives the running image this tag. */
static bool is_still_same(json_object *pod, const char *container, const char *written) {
        if (strchr(written, '@'))
                return true;
        return !json_is(template_find_container(pod, container), "imagePullPolicy", "Always") &&
               is_same_image(json_get_text(container_status(pod, container), "image"), written);
}

typedef struct Spelling {
        char *texts[N_SPELLINGS]; /* NULL: there is no such */
} Spelling;

static void spelling_done(Spelling *spelling) {
        for (size_t i = 0; i < N_SPELLINGS; i++)
                free(spelling->texts[i]);
}

/* Lists the image as it was written, if that is known to be the same, and by its digest with and
 * without the tag. */
static int list_spellings(json_object *pod, const char *container, const char *written,
                          Spelling *ret, Error *reterr) {
        int size = (int) image_name_size(written);
        ImageRef ref;
        int r = find_digest(pod, container, written, &ref, reterr);

        if (r < 0)
                return r;
        if (is_still_same(pod, container, written))
                r = text_copy(written, &ret->texts[0]);
        if (r >= 0)
                r = text_format(&ret->texts[1], "%.*s:%s@%s", size, written,
                                ref.tag[0] ? ref.tag : TAG_UNKNOWN, ref.digest);
        if (r >= 0)
                r = text_format(&ret->texts[2], "%.*s@%s", size, written, ref.digest);
        return r < 0 ? r : 0;
}

/* {spelling: {"n", "at"}}: how often one was used before the kubelet forgets it. */
static int64_t count_starts(json_object *starts, const char *spelling, int64_t now_sec) {
        json_object *start = json_get(starts, spelling, json_type_object);
        int64_t n = json_get_integer(start, "n");

        if (n <= 0 || now_sec - json_get_time(start, "at") >= BACKOFF_FORGOTTEN_SEC)
                return 0;
        return n < 16 ? n : 16;
}

static int64_t delay_after(int64_t n_starts) {
        int64_t delay_sec = BACKOFF_SEC << (n_starts > 0 ? n_starts - 1 : 0);

        if (n_starts == 0)
                return 0;
        return delay_sec < BACKOFF_MAX_SEC ? delay_sec : BACKOFF_MAX_SEC;
}

/* The spelling that the kubelet has started least often. */
static const char *choose(const Spelling *spelling, json_object *starts, const char *current,
                          int64_t now_sec, int64_t *ret_starts) {
        const char *chosen = NULL;

        for (size_t i = 0; i < N_SPELLINGS; i++) {
                const char *text = spelling->texts[i];
                int64_t n = text ? count_starts(starts, text, now_sec) : 0;

                if (!text || strcmp(text, current) == 0 || (chosen && n >= *ret_starts))
                        continue;
                chosen = text;
                *ret_starts = n;
        }
        return chosen;
}

/* The container's, or the pod's. */
static const char *policy_of(json_object *pod, const char *container) {
        return json_get_text(template_find_container(pod, container), "restartPolicy")
                       ?: object_text(pod, "spec.restartPolicy")
                       ?: "Always";
}

bool restart_image_comes_back(json_object *pod, const char *container) {
        json_object *rules =
                object_list(template_find_container(pod, container), "restartPolicyRules");

        for (size_t i = 0; rules && i < json_object_array_length(rules); i++)
                if (!json_is(json_object_array_get_idx(rules, i), "action", "Restart"))
                        return false;
        return strcmp(policy_of(pod, container), "Always") == 0;
}

/* The first container that might not; NULL: all come back. */
static const char *find_lost(json_object *pod, json_object *containers) {
        for (size_t i = 0; i < json_object_array_length(containers); i++) {
                const char *name = json_object_get_string(json_object_array_get_idx(containers, i));

                if (!restart_image_comes_back(pod, name))
                        return name;
        }
        return NULL;
}

int restart_image_check_ended(json_object *pod, const char *container, Error *reterr) {
        json_object *ended = object_at(container_status(pod, container), "state.terminated");
        const char *policy = policy_of(pod, container);
        bool is_retried =
                strcmp(policy, "Always") == 0 ||
                (strcmp(policy, "OnFailure") == 0 && json_get_integer(ended, "exitCode") != 0);

        if (!ended || is_retried)
                return 0;
        return error_set(reterr, ERROR_UNSUPPORTED,
                         "pod/%s: container %s has ended, and its restart policy or rules might "
                         "not start it again; create the pod anew",
                         object_name(pod), container);
}

bool restart_image_all_come_back(json_object *pod, json_object *containers) {
        return !find_lost(pod, containers);
}

int restart_image_check_stop(json_object *pod, json_object *containers, Error *reterr) {
        const char *lost = find_lost(pod, containers);

        return lost ? error_set(reterr, ERROR_INVALID,
                                "pod/%s: container %s would not come back: a request stops it, and "
                                "its restart policy or rules might not start it again; create the "
                                "pod anew",
                                object_name(pod), lost)
                    : 0;
}

/* If the registry did not answer, the kubelet would follow the container's restart policy and rules. */
static int check_registry(json_object *pod, const char *container, Error *reterr) {
        const char *volume = template_pulled_volume(pod);
        bool is_pulled =
                json_is(template_find_container(pod, container), "imagePullPolicy", "Always");

        if (!is_pulled && !volume)
                return 0;

        return error_set(reterr, ERROR_INVALID,
                         "pod/%s: container %s would not come back if its registry did not "
                         "answer: the kubelet asks there before each start (%s%s), and its "
                         "restart policy or rules count meanwhile",
                         object_name(pod), container,
                         is_pulled ? "imagePullPolicy Always" : "pullPolicy Always of volume ",
                         is_pulled ? "" : volume);
}

/* While the kubelet delays a start, or cannot pull, it follows the container's restart policy and rules. */
static int check_start(json_object *pod, const char *container, int64_t delay_sec, Error *reterr) {
        int r;

        if (restart_image_comes_back(pod, container))
                return 0;
        r = restart_image_check_ended(pod, container, reterr);
        if (r < 0)
                return r;
        if (delay_sec == 0)
                return check_registry(pod, container, reterr);

        return error_set(
                reterr, ERROR_INVALID,
                "pod/%s: container %s would not come back alone: the kubelet delays its start "
                "for up to %" PRId64 "s after the restarts of the last ten minutes, and "
                "its restart policy or rules count meanwhile; restart it later",
                object_name(pod), container, delay_sec);
}

/* Keeps the starts that the kubelet has not forgotten. */
static json_object *make_starts(json_object *before, const char *chosen, int64_t n_starts,
                                int64_t now_sec) {
        cleanup(json_object_put_p) json_object *starts = json_object_new_object();
        cleanup(json_object_put_p) json_object *start = json_object_new_object();
        char time[RFC3339_SIZE];

        if (before) {
                json_object_object_foreach(before, spelling, known) {
                        if (count_starts(before, spelling, now_sec) > 0 &&
                            patch_add(starts, spelling, json_object_get(known)) < 0)
                                return NULL;
                }
        }
        if (patch_add(start, "n", json_object_new_int64(n_starts + 1)) < 0 ||
            patch_add_text(start, "at", rfc3339_format(now_sec, time)) < 0 ||
            patch_add(starts, chosen, take_ptr(start)) < 0)
                return NULL;

        return take_ptr(starts);
}

/* Adds one container to the images of the patch and to the annotation. */
static int respell(json_object *pod, const char *container, int64_t now_sec, json_object *images,
                   json_object *annotation, int64_t *delay_sec, Error *reterr) {
        cleanup(json_object_put_p) json_object *entry = json_object_new_object();
        cleanup(spelling_done) Spelling spelling = { .texts = { NULL } };
        json_object *known = json_get(annotation, container, json_type_object);
        json_object *starts = json_get(known, "starts", json_type_object);
        const char *current = template_image(pod, container), *chosen;
        const char *written = template_written_image(pod, container);
        int64_t n_starts = 0;
        int r;
        bool is_spelled = current && json_is(known, "as", current);
        const char *from = json_get_text(container_status(pod, container), "containerID");
        const char *ran = is_spelled ? json_get_text(known, "ran") : from;

        if (!written)
                return error_set(reterr, ERROR_INVALID, "pod/%s: container %s has no image",
                                 object_name(pod), container);
        r = restart_image_check(pod, container, reterr);
        if (r >= 0)
                r = list_spellings(pod, container, written, &spelling, reterr);
        if (r < 0)
                return r;

        chosen = choose(&spelling, starts, current, now_sec, &n_starts);
        r = check_start(pod, container, delay_after(n_starts), reterr);
        if (r < 0)
                return r;
        if (delay_after(n_starts) > *delay_sec)
                *delay_sec = delay_after(n_starts);
        if (patch_add_text(entry, "image", written) < 0 ||
            patch_add_text(entry, "as", chosen) < 0 ||
            (ran && patch_add_text(entry, "ran", ran) < 0) ||
            (from && patch_add_text(entry, "from", from) < 0) ||
            patch_add(entry, "starts", make_starts(starts, chosen, n_starts, now_sec)) < 0 ||
            patch_add_text(images, container, chosen) < 0 ||
            patch_add(annotation, container, take_ptr(entry)) < 0)
                return -ENOMEM;

        return 0;
}

/* Makes the server refuse the patch if the name belongs to another object by now. */
static json_object *identify(json_object *pod) {
        static const char *const keys[] = { "uid", "resourceVersion" };
        cleanup(json_object_put_p) json_object *metadata = json_object_new_object();

        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
                if (patch_add_text(metadata, keys[i],
                                   json_get_text(object_at(pod, "metadata"), keys[i]) ?: "") < 0)
                        return NULL;

        return take_ptr(metadata);
}

static json_object *wrap(json_object *metadata, json_object *spec) {
        cleanup(json_object_put_p) json_object *patch = patch_wrap("metadata", metadata);

        return patch_add(patch, "spec", spec) < 0 ? NULL : take_ptr(patch);
}

static int add_metadata(json_object *metadata, json_object *changes, json_object *annotation) {
        cleanup(json_object_put_p) json_object *annotations = NULL;
        json_object *asked = object_at(changes, "annotations");
        int r = 0;

        annotations = asked ? json_copy(asked) : json_object_new_object();
        r = patch_add_text(annotations, RESTART_ANNOTATION, json_to_text(annotation));
        if (r >= 0)
                r = patch_add(metadata, "annotations", take_ptr(annotations));
        if (r >= 0 && object_at(changes, "labels"))
                r = patch_add(metadata, "labels", json_object_get(object_at(changes, "labels")));
        return r;
}

int64_t restart_image_began(json_object *pod, const char *container) {
        json_object *annotation = object_annotation_json(pod, RESTART_ANNOTATION);
        json_object *starts = json_get(json_get(annotation, container, json_type_object), "starts",
                                       json_type_object);
        const char *image = template_image(pod, container);

        return image ? json_get_time(json_get(starts, image, json_type_object), "at") : 0;
}

/* The container from before the image that the pod has now is the last one still. */
static bool is_left(json_object *pod, const char *container) {
        const char *id = json_get_filled(container_status(pod, container), "containerID");
        const char *image = template_image(pod, container);
        json_object *restarted = json_get(object_annotation_json(pod, RESTART_ANNOTATION),
                                          container, json_type_object);
        json_object *updated = json_get(object_annotation_json(pod, ROLLOUT_POD_ANNOTATION),
                                        container, json_type_object);

        if (!id || !image)
                return false;
        return (json_is(restarted, "as", image) && json_is(restarted, "from", id)) ||
               (json_is(updated, "id", id) && !json_is(updated, "image", image));
}

bool restart_image_is_awaited(json_object *pod, int64_t now_sec) {
        int64_t stop_sec = STOP_SEC + object_integer(pod, "spec.terminationGracePeriodSeconds");
        json_object *container;

        for (size_t i = 0; (container = template_container(pod, i)); i++) {
                const char *name = json_get_text(container, "name") ?: "";
                int64_t since_sec = now_sec - restart_image_began(pod, name);

                /* Any user who may write the pod may have written a time that is yet to come. */
                if (is_left(pod, name) && since_sec <= stop_sec && since_sec >= -stop_sec)
                        return true;
        }
        return false;
}

/* The server takes an image for the copy of a static pod, which no kubelet reads. */
static int check_source(json_object *pod, Error *reterr) {
        return object_annotation(pod, STATIC_POD)
                       ? error_set(
                                 reterr, ERROR_INVALID,
                                 "pod/%s cannot be restarted by its image: it is static, and its "
                                 "kubelet reads images, labels and annotations from its node alone",
                                 object_name(pod))
                       : 0;
}

int restart_image_patch(json_object *pod, json_object *containers, json_object *changes,
                        int64_t now_sec, json_object **ret, int64_t *ret_delay_sec, Error *reterr) {
        cleanup(json_object_put_p) json_object *annotation = copy_annotation(pod);
        cleanup(json_object_put_p) json_object *images = json_object_new_object();
        cleanup(json_object_put_p) json_object *metadata = identify(pod);
        int64_t delay_sec = 0;
        int r = annotation && images && metadata ? check_source(pod, reterr) : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(containers); i++)
                r = respell(pod, json_object_get_string(json_object_array_get_idx(containers, i)),
                            now_sec, images, annotation, &delay_sec, reterr);
        if (r >= 0)
                r = add_metadata(metadata, changes, annotation);
        if (r < 0)
                return r;

        *ret = wrap(take_ptr(metadata), template_image_patch(pod, images));
        *ret_delay_sec = delay_sec;
        return *ret ? 0 : -ENOMEM;
}

bool restart_image_is_written(json_object *pod, json_object *patch) {
        const char *text = object_annotation(patch, RESTART_ANNOTATION);

        return text && text_equal(object_annotation(pod, RESTART_ANNOTATION), text);
}

/* Adds the starts of an image that crashes now, as many as the kubelet's back-off implies. */
static json_object *note_crashes(json_object *pod, const char *container, json_object *starts,
                                 int64_t now_sec) {
        int64_t backoff_sec = container_backoff_sec(container_status(pod, container)), n = 0;
        const char *image = template_image(pod, container);

        if (backoff_sec <= 0 || !image)
                return json_object_get(starts);
        while (delay_after(n + 1) < backoff_sec && delay_after(n + 1) < BACKOFF_MAX_SEC)
                n++;
        return make_starts(starts, image, n, now_sec);
}

/* The entry of a container in the annotation, with one more start of the image. */
static json_object *add_start(json_object *pod, const char *container, json_object *known,
                              const char *image, int64_t now_sec) {
        cleanup(json_object_put_p) json_object *entry =
                known ? json_copy(known) : json_object_new_object();
        cleanup(json_object_put_p) json_object *starts =
                note_crashes(pod, container, json_get(known, "starts", json_type_object), now_sec);

        if (patch_add(entry, "starts",
                      make_starts(starts, image, count_starts(starts, image, now_sec), now_sec)) <
            0)
                return NULL;

        return take_ptr(entry);
}

/* The kubelet answers to another text of the image; init containers that have ended do not run again. */
static bool is_started_by(json_object *pod, const char *container, const char *image) {
        return !template_ends(pod, container) && !text_equal(template_image(pod, container), image);
}

int restart_image_note(json_object *pod, json_object *images, int64_t now_sec,
                       json_object *annotations) {
        cleanup(json_object_put_p) json_object *annotation = copy_annotation(pod);
        bool has_start = false;

        json_object_object_foreach(images, container, image) {
                json_object *known = json_get(annotation, container, json_type_object);
                const char *text = json_object_get_string(image);

                if (!is_started_by(pod, container, text))
                        continue;
                has_start = true;
                if (patch_add(annotation, container,
                              add_start(pod, container, known, text, now_sec)) < 0)
                        return -ENOMEM;
        }
        return has_start ? patch_add_text(annotations, RESTART_ANNOTATION, json_to_text(annotation))
                         : 0;
}

int64_t restart_image_delay(json_object *pod, json_object *images, int64_t now_sec) {
        json_object *annotation = object_annotation_json(pod, RESTART_ANNOTATION);
        int64_t longest_sec = 0;

        json_object_object_foreach(images, container, image) {
                json_object *known = json_get(annotation, container, json_type_object);
                json_object *starts = json_get(known, "starts", json_type_object);
                json_object *status = container_status(pod, container);
                const char *text = json_object_get_string(image);
                int64_t delay_sec = is_started_by(pod, container, text)
                                            ? delay_after(count_starts(starts, text, now_sec))
                                            : 0;

                /* It counts from the end of the container before. */
                if (delay_sec > 0 && !object_at(status, "state.running"))
                        delay_sec -=
                                now_sec - json_get_time(object_at(status, "lastState.terminated"),
                                                        "finishedAt");
                if (delay_sec > longest_sec)
                        longest_sec = delay_sec;
        }
        return longest_sec;
}

/* Whether the text of the image is still that of the restart. */
static bool is_respelled(json_object *before, json_object *pod, const char *container) {
        json_object *annotation = object_annotation_json(pod, RESTART_ANNOTATION);
        json_object *entry = json_get(annotation, container, json_type_object);
        const char *written = template_written_image(before, container);

        return written && json_is(entry, "image", written) &&
               json_is(entry, "as", template_image(pod, container));
}

int restart_image_unpatch(json_object *before, json_object *pod, json_object *containers,
                          json_object **ret) {
        cleanup(json_object_put_p) json_object *images = json_object_new_object();
        int r = images ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(containers); i++) {
                const char *name = json_object_get_string(json_object_array_get_idx(containers, i));

                if (is_respelled(before, pod, name))
                        r = patch_add_text(images, name, template_image(before, name) ?: "");
        }
        *ret = NULL;
        if (r < 0 || json_object_object_length(images) == 0)
                return r;
        *ret = wrap(identify(pod), template_image_patch(pod, images));
        return *ret ? 0 : -ENOMEM;
}
