/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/history-plan.h"

#include <errno.h>
#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/base/hash.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/controller-plan.h"

#define HASH_LABEL "pod-template-hash"
#define HASH_SIZE 11
#define REVISION_ANNOTATION "deployment.kubernetes.io/revision"

static int set_images(json_object *template, json_object *images) {
        json_object *container;

        for (size_t i = 0; (container = template_container(template, i)); i++) {
                const char *name = json_get_text(container, "name");
                const char *image = name ? json_get_text(images, name) : NULL;

                if (image && patch_add_text(container, "image", image) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* In the letters of the controller's own. The time of the update keeps it apart from the name of a ReplicaSet that
 * had this template when it was made, and has another one now. */
static int hash_template(json_object *template, const char *since, char ret[static HASH_SIZE]) {
        static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
        const char *text = json_to_text(template);
        uint64_t hash;

        if (!text)
                return -ENOMEM;

        hash = hash64_text(hash64_text(HASH64_START, text), since);
        for (size_t i = 0; i < HASH_SIZE - 1; i++, hash /= sizeof(letters) - 1)
                ret[i] = letters[hash % (sizeof(letters) - 1)];
        ret[HASH_SIZE - 1] = '\0';
        return 0;
}

static json_object *annotations_of(json_object *object) {
        return json_get(object_at(object, "metadata"), "annotations", json_type_object);
}

/* The annotations that the controller would copy, but for those of an update: kubectl rollout undo copies them back. */
static json_object *make_annotations(json_object *deployment, json_object *replica_set) {
        static const char *const others[] = {
                ROLLOUT_ANNOTATION,
                HELD_ANNOTATION,
                UPDATE_STATUS_ANNOTATION,
                REVISION_ANNOTATION,
                "deployment.kubernetes.io/revision-history",
                "deployment.kubernetes.io/desired-replicas",
                "deployment.kubernetes.io/max-replicas",
                "deprecated.deployment.rollback.to",
                "kubectl.kubernetes.io/last-applied-configuration",
        };
        json_object *own = annotations_of(deployment);
        cleanup(json_object_put_p) json_object *annotations =
                own ? json_copy(own) : json_object_new_object();
        const char *revision = json_get_text(annotations_of(replica_set), REVISION_ANNOTATION);

        for (size_t i = 0; annotations && i < sizeof(others) / sizeof(others[0]); i++)
                json_object_object_del(annotations, others[i]);
        if (!annotations ||
            (revision && patch_add_text(annotations, REVISION_ANNOTATION, revision) < 0))
                return NULL;
        return take_ptr(annotations);
}

/* Leaves out blockOwnerDeletion, for which a server may ask for further rights. */
static json_object *make_owners(json_object *deployment) {
        cleanup(json_object_put_p) json_object *owners = json_object_new_array();
        json_object *owner = json_object_new_object();

        if (patch_append(owners, owner) < 0 || patch_add_text(owner, "apiVersion", "apps/v1") < 0 ||
            patch_add_text(owner, "kind", "Deployment") < 0 ||
            patch_add_text(owner, "name", object_name(deployment)) < 0 ||
            patch_add_text(owner, "uid", object_text(deployment, "metadata.uid") ?: "") < 0 ||
            patch_add_bool(owner, "controller", true) < 0)
                return NULL;
        return take_ptr(owners);
}

static json_object *make_metadata(json_object *deployment, json_object *replica_set,
                                  json_object *labels, const char *hash) {
        cleanup(json_object_put_p) json_object *metadata = json_object_new_object();
        const char *namespace = object_text(deployment, "metadata.namespace");
        cleanup(free_p) char *name = NULL;

        if (!metadata || text_format(&name, "%s-%s", object_name(deployment), hash) < 0 ||
            patch_add_text(metadata, "name", name) < 0 ||
            (namespace && patch_add_text(metadata, "namespace", namespace) < 0) ||
            patch_add(metadata, "labels", json_copy(labels)) < 0 ||
            patch_add(metadata, "annotations", make_annotations(deployment, replica_set)) < 0 ||
            patch_add(metadata, "ownerReferences", make_owners(deployment)) < 0)
                return NULL;
        return take_ptr(metadata);
}

/* The member of this key, made if there is none. */
static json_object *member_of(json_object *object, const char *key) {
        json_object *member = json_get(object, key, json_type_object);

        if (!member && (!object || patch_add(object, key, member = json_object_new_object()) < 0))
                return NULL;
        return member;
}

static json_object *make_spec(json_object *deployment, json_object *template, const char *hash) {
        cleanup(json_object_put_p) json_object *spec = json_object_new_object();
        json_object *wait = object_at(deployment, "spec.minReadySeconds");
        json_object *labels;

        if (!spec ||
            patch_add(spec, "selector", json_copy(object_at(deployment, "spec.selector"))) < 0 ||
            patch_add(spec, "replicas", json_object_new_int(0)) < 0 ||
            (wait && patch_add(spec, "minReadySeconds", json_copy(wait)) < 0) ||
            patch_add(spec, "template", json_object_get(template)) < 0)
                return NULL;
        labels = member_of(object_at(spec, "selector"), "matchLabels");
        if (patch_add_text(labels, HASH_LABEL, hash) < 0)
                return NULL;
        return take_ptr(spec);
}

int history_make(const RolloutView *view, json_object *record, bool is_before,
                 json_object *replica_set, json_object **ret) {
        json_object *spec = object_at(view->workload, "spec"), *labels;
        json_object *limit = object_at(spec, "revisionHistoryLimit");
        cleanup(json_object_put_p) json_object *template = NULL;
        cleanup(json_object_put_p) json_object *made = NULL;
        char hash[HASH_SIZE];

        *ret = NULL;
        if ((limit && json_object_get_int64(limit) == 0) ||
            !json_get(spec, "template", json_type_object) ||
            !json_get(spec, "selector", json_type_object))
                return 0;

        template = json_copy(object_template(view->workload));
        made = json_object_new_object();
        if (!template || !made || set_images(template, record_images(record, is_before)) < 0 ||
            hash_template(template, json_get_text(record, "since"), hash) < 0)
                return -ENOMEM;
        labels = member_of(member_of(template, "metadata"), "labels");
        if (patch_add_text(labels, HASH_LABEL, hash) < 0 ||
            patch_add_text(made, "apiVersion", "apps/v1") < 0 ||
            patch_add_text(made, "kind", "ReplicaSet") < 0 ||
            patch_add(made, "metadata", make_metadata(view->workload, replica_set, labels, hash)) <
                    0 ||
            patch_add(made, "spec", make_spec(view->workload, template, hash)) < 0)
                return -ENOMEM;

        *ret = take_ptr(made);
        return 0;
}
