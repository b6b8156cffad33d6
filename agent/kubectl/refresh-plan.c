/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/refresh-plan.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-ref.h"
#include "agent/kubectl/workload.h"

static int add_tag(json_object *tags, const char *container, const char *image, char **fixed,
                   Error *reterr) {
        cleanup(free_p) char *text = NULL;
        ImageRef ref;
        int r = image_ref_parse(image, SHORT_NAMES_HUB, &ref, reterr);

        if (r >= 0 && ref.tag[0])
                r = text_format(&text, "%.*s:%s", (int) image_name_size(image), image, ref.tag)
                            ?: patch_add_text(tags, container, text);
        else if (r >= 0)
                r = text_list_add(fixed, container);
        return r;
}

int refresh_find_tags(json_object *template, json_object **ret, char **ret_fixed, Error *reterr) {
        cleanup(json_object_put_p) json_object *tags = json_object_new_object();
        cleanup(free_p) char *fixed = strdup("");
        json_object *container;
        int r = tags && fixed ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && (container = template_container(template, i)); i++) {
                const char *name = json_get_text(container, "name") ?: "";
                const char *image = template_written_image(template, name);

                if (image)
                        r = add_tag(tags, name, image, &fixed, reterr);
        }
        if (r < 0)
                return r;

        *ret = take_ptr(tags);
        *ret_fixed = take_ptr(fixed);
        return 0;
}

int refresh_name_volumes(json_object *template, char **ret) {
        json_object *volumes = object_list(template, "spec.volumes");
        cleanup(free_p) char *names = strdup("");
        int r = names ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && volumes && i < json_object_array_length(volumes); i++) {
                json_object *volume = json_object_array_get_idx(volumes, i);

                if (volume_image(volume))
                        r = text_list_add(&names, json_get_text(volume, "name") ?: "");
        }
        if (r >= 0)
                *ret = take_ptr(names);
        return r;
}

/* The digests in "resolved to NAME@DIGEST, NAME@DIGEST" that are of the image's repository; known: no others; or NULL. */
static int list_digests(const char *image, const char *said, json_object *known,
                        json_object **ret) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();
        bool is_about = strncmp(said, IMAGE_RESOLVED, strlen(IMAGE_RESOLVED)) == 0;
        cleanup(free_p) char *copy = strdup(is_about ? said + strlen(IMAGE_RESOLVED) : "");
        char *rest = copy;
        ImageRef wanted, found;
        int r = list && copy ? image_ref_parse(image, SHORT_NAMES_HUB, &wanted, NULL) : -ENOMEM;

        for (const char *name; r >= 0 && (name = strsep(&rest, ", "));)
                if (image_ref_parse(name, SHORT_NAMES_HUB, &found, NULL) >= 0 && found.digest[0] &&
                    image_ref_is_same_repository(&wanted, &found) &&
                    (!known || list_has_text(known, found.digest)))
                        r = patch_append(list, json_object_new_string(found.digest));
        if (r >= 0)
                *ret = take_ptr(list);
        return r;
}

/* The digests of the image, which has this place in all answers. */
static int read_digests(const char *image, size_t at, json_object *nodes, json_object **ret,
                        Error *reterr) {
        cleanup(json_object_put_p) json_object *common = NULL;
        const char *first = "";

        for (size_t i = 0; nodes && i < json_object_array_length(nodes); i++) {
                json_object *node = json_object_array_get_idx(nodes, i);
                json_object *answers = object_list(node, "resolved");
                json_object *said = answers ? json_object_array_get_idx(answers, at) : NULL;
                const char *name = json_get_text(node, "name") ?: "";
                const char *text = said ? json_object_get_string(said) : "";
                cleanup(json_object_put_p) json_object *all = NULL;
                cleanup(json_object_put_p) json_object *list = NULL;

                if (list_digests(image, text, NULL, &all) < 0 ||
                    list_digests(image, text, common, &list) < 0)
                        return -ENOMEM;
                if (json_object_array_length(all) == 0)
                        return error_set(reterr, ERROR_UNSUPPORTED,
                                         "the agent of node %s does not report the digest of %s: "
                                         "it is older than this program, or of OpenKruise, or the "
                                         "runtime knows none",
                                         name, image);
                if (json_object_array_length(list) == 0)
                        return error_set(reterr, ERROR_CONFLICT,
                                         "the nodes disagree on %s: on node %s it is %s, which "
                                         "node %s does not have; repeat the command when the tag "
                                         "does not move any more",
                                         image, name,
                                         json_object_get_string(json_object_array_get_idx(all, 0)),
                                         first);
                first = common ? first : name;
                json_object_put(common);
                common = take_ptr(list);
        }

        *ret = take_ptr(common);
        return *ret ? 0 : error_set(reterr, ERROR_NOT_FOUND, "no node has resolved %s", image);
}

int refresh_read_digests(json_object *images, json_object *nodes, json_object **ret,
                         Error *reterr) {
        cleanup(json_object_put_p) json_object *digests = json_object_new_object();
        int r = digests ? 0 : -ENOMEM;
        size_t at = 0;

        json_object_object_foreach(images, image, none) {
                json_object *list = NULL;

                (void) none;
                if (r >= 0)
                        r = read_digests(image, at++, nodes, &list, reterr);
                if (r >= 0)
                        r = patch_add(digests, image, list);
        }
        if (r >= 0)
                *ret = take_ptr(digests);
        return r;
}

/* A container of the workload, and the digests that its tag has now. */
typedef struct Subject {
        const RolloutView *view;
        int64_t partition;
        const char *container;
        const char *tag; /* "app:1" */
        json_object *digests;
} Subject;

/* Whether all pods that have started it run such a digest. *ret: what the first other one runs, by whichever repository its
 * runtime knows that digest; empty: not known. */
static bool runs_in_pods(const Subject *subject, ImageRef *ret, size_t *ret_started) {
        bool is_current = true;

        *ret = (ImageRef){ .digest = "" };
        *ret_started = 0;
        json_object_object_foreach(subject->view->pods, name, pod) {
                json_object *status = container_status(pod, subject->container);
                ImageRef running = { .digest = "" };

                (void) name;
                if (object_is_deleted(pod) || pod_has_ended(pod) ||
                    !view_owns_pod(subject->view, pod) || !json_get_filled(status, "imageID"))
                        continue;
                (*ret_started)++;
                if (pod_ordinal(pod) < subject->partition)
                        continue;
                if (container_running_image(status, &running) &&
                    list_has_text(subject->digests, running.digest))
                        continue;
                is_current = false;
                if (!ret->digest[0])
                        *ret = running;
        }
        return is_current;
}

static int add_pinned(json_object *images, const Subject *subject, const char *digest) {
        cleanup(free_p) char *text = NULL;

        return text_format(&text, "%s@%s", subject->tag, digest)
                       ?: patch_add_text(images, subject->container, text);
}

static int plan_container(const Subject *subject, json_object *images, json_object *before) {
        ImageRef written = { .digest = "" }, running;
        json_object *template = object_template(subject->view->workload);
        const char *image = template_written_image(template, subject->container);
        bool is_current, is_pinned;
        size_t n_started;
        int r;

        (void) image_ref_parse(image, SHORT_NAMES_HUB, &written, NULL);
        is_pinned = list_has_text(subject->digests, written.digest);
        is_current = runs_in_pods(subject, &running, &n_started);
        /* An init container that has ended does not run again for another image. */
        if (is_pinned && (n_started == 0 || template_ends(template, subject->container)))
                is_current = true;
        else if (n_started == 0 || (written.digest[0] && !is_pinned))
                is_current = false;
        if (is_current)
                return 0;

        r = add_pinned(images, subject,
                       is_pinned ? written.digest
                                 : json_object_get_string(
                                           json_object_array_get_idx(subject->digests, 0)));
        return r < 0 || written.digest[0] || !running.digest[0]
                       ? r
                       : add_pinned(before, subject, running.digest);
}

int refresh_plan(const RolloutView *view, int64_t partition, json_object *tags,
                 json_object *digests, json_object **ret, json_object **ret_before) {
        cleanup(json_object_put_p) json_object *images = json_object_new_object();
        cleanup(json_object_put_p) json_object *before = json_object_new_object();
        int r = images && before ? 0 : -ENOMEM;

        json_object_object_foreach(tags, container, tag) {
                const Subject subject = {
                        .view = view,
                        .partition = partition,
                        .container = container,
                        .tag = json_object_get_string(tag),
                        .digests = json_get(digests, json_object_get_string(tag), json_type_array),
                };

                r = r < 0 ? r : plan_container(&subject, images, before);
        }
        if (r < 0)
                return r;

        *ret = take_ptr(images);
        *ret_before = take_ptr(before);
        return 0;
}
