/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/admission-plan.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-ref.h"

/* The template that the controller has made it of; NULL: it is not known, or the workload's pods may be older. An
 * update in place gives a Deployment's ReplicaSet another one: since_sec is when the last one began; 0: none. */
static json_object *find_template(const RolloutView *view, int64_t since_sec, json_object *pod) {
        bool is_deployment = view_kind(view)->has_replica_sets;
        const char *revision = is_deployment ? json_get_text(object_controller(pod), "name")
                                             : object_revision(pod);
        json_object *found = view_find_revision(view, revision);

        if (is_deployment &&
            json_get_time(object_at(pod, "metadata"), "creationTimestamp") <= since_sec)
                return NULL;
        return found ? object_template(found) : NULL;
}

/* "app:1" in "localhost:5000/app:1@sha256:..." */
static size_t short_size(const char *image) {
        return strcspn(image_short(image), "@");
}

/* Docker Hub's names may leave out the registry and "library". */
static bool is_same_image(const char *asked, const char *found) {
        ImageRef a, b;

        return strcmp(asked, found) == 0 ||
               (image_ref_parse(asked, SHORT_NAMES_HUB, &a, NULL) >= 0 &&
                image_ref_parse(found, SHORT_NAMES_HUB, &b, NULL) >= 0 && image_ref_equal(&a, &b));
}

/* Whether the registry or folder differs, or a digest was added. Another tag is another image,
 * which a person may have set. */
static bool is_other_name(const char *asked, const char *found) {
        const char *a = image_short(asked), *b = image_short(found);
        size_t name_size = strcspn(a, ":@");
        const char *digest = strchr(asked, '@'), *other_digest = strchr(found, '@');

        if (is_same_image(asked, found) ||
            (digest && other_digest && strcmp(digest, other_digest) != 0))
                return false;
        if (short_size(asked) == short_size(found) && strncmp(a, b, short_size(asked)) == 0)
                return true;
        return !digest && other_digest && name_size == strcspn(b, ":@") &&
               strncmp(a, b, name_size) == 0;
}

static int check_container(json_object *template, json_object *pod, const char *container,
                           Error *reterr) {
        const char *asked = template_image(template, container);
        const char *found = template_written_image(pod, container);

        if (!asked || !found || text_equal(asked, template_image(pod, container)) ||
            !is_other_name(asked, found))
                return 0;
        return error_set(reterr, ERROR_UNSUPPORTED,
                         "admission makes \"%s\" of the image \"%s\" for container \"%s\" of new "
                         "pods, such as \"%s\", but not when their images change: write the images "
                         "into the template as the pods get them, or use kubectl set image",
                         found, asked, container, object_name(pod));
}

int admission_check(const RolloutView *view, json_object *record, Error *reterr) {
        cleanup(json_object_put_p) json_object *last = NULL;
        int64_t since_sec;

        if (rollout_record_read(view->workload, &last, NULL) == -ENOMEM)
                return -ENOMEM;
        since_sec = json_get_time(last, "since");
        json_object_object_foreach(view->pods, name, pod) {
                json_object *template = find_template(view, since_sec, pod);

                (void) name;
                if (!template || object_is_deleted(pod) || !view_has_pod(view, record, pod))
                        continue;
                json_object_object_foreach(record_images(record, false), container, image) {
                        int r = check_container(template, pod, container, reterr);

                        (void) image;
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

/* The words are those of the API server, which has no reason of its own for it. */
int admission_copy_refusal(const Error *refusal, Error *reterr) {
        if (refusal->kind != ERROR_INVALID ||
            !strstr(error_message(refusal), "pod updates may not change fields"))
                return error_copy(reterr, refusal);
        return error_set(reterr, ERROR_UNSUPPORTED,
                         "admission changes more than the image, as AlwaysPullImages does in pods "
                         "that are older than it: only new pods get the image; \"kubectl inplace "
                         "rollout --release\" lets the controller of a workload that is held make "
                         "them, \"kubectl set image\" that of another one; the API server says: %s",
                         error_message(refusal));
}
