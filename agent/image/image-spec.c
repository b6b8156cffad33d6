/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/image-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/document/json-reader.h"

#define GROUP "apps.kruise.io"

/* Limit of the copies, for each tag, of members that the spec has once per image. */
#define SHARED_SIZE_MAX ((size_t) 8 << 20)

#define PAIRS_MAX 256 /* labels or annotations of one image */

#define ANNOTATION_COMPLETE "inplaced.io/complete"
#define BACKOFF_LIMIT_DEFAULT 3 /* OpenKruise's default for objects */

typedef struct Spec {
        DesiredImages desired_images;
        size_t n_shared;       /* bytes in copies */
        int64_t backoff_limit; /* limit of tags without their own */
        Error *skipped;        /* first skipped fault; NULL: any fault refuses the whole spec */
        bool is_own;           /* written by the agent: its parts had their limits */
} Spec;

static inline void spec_done(Spec *spec) {
        desired_images_done(&spec->desired_images);
}

static int check_item(struct json_object *item, const JsonPath *path, Error *reterr) {
        return json_object_is_type(item, json_type_object)
                       ? 0
                       : json_refuse_type(path, item, "an object", reterr);
}

static int parse_secrets(struct json_object *image, const JsonPath *path, DesiredImage *desired,
                         Error *reterr) {
        const JsonPath list_path = { .parent = path, .key = "pullSecrets" };
        struct json_object *list;
        int r;

        r = json_read_list(image, path, list_path.key, &list, reterr);

        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++) {
                const JsonPath item_path = { .parent = &list_path, .index = i };
                struct json_object *item = json_object_array_get_idx(list, i);
                const char *namespace, *name;

                r = check_item(item, &item_path, reterr)
                            ?: json_read_string(item, &item_path, "namespace", &namespace, reterr)
                            ?: json_read_string(item, &item_path, "name", &name, reterr);
                if (r < 0)
                        return r;

                if (!name || !*name)
                        return json_refuse(&item_path, reterr, "has no name");
                r = desired_image_add_secret(desired, namespace, name);
        }

        return r;
}

static int parse_pairs(struct json_object *config, const JsonPath *path, const char *key,
                       int (*add)(DesiredImage *desired, const char *key, const char *value),
                       DesiredImage *desired, Error *reterr) {
        const JsonPath pairs_path = { .parent = path, .key = key };
        struct json_object *pairs;
        int r;

        r = json_read_object(config, path, key, &pairs, reterr);
        if (r < 0 || !pairs)
                return r;

        if (json_object_object_length(pairs) > PAIRS_MAX)
                return json_refuse(&pairs_path, reterr, "more than %d members", PAIRS_MAX);

        json_object_object_foreach(pairs, name, member) {
                const char *value;

                (void) member;
                r = json_read_text(pairs, &pairs_path, name, &value, reterr);
                if (r < 0)
                        return r;

                r = add(desired, name, value ?: "");
                if (r < 0)
                        return r;
        }

        return 0;
}

/* The API server drops unknown members, but keeps annotations. */
static void read_annotations(DesiredImage *desired) {
        for (size_t i = 0; i < desired->n_annotations; i++)
                if (strcmp(desired->annotations[i].key, ANNOTATION_COMPLETE) == 0)
                        desired->is_complete = strcmp(desired->annotations[i].value, "true") == 0;
}

static int parse_sandbox_config(struct json_object *image, const JsonPath *path,
                                DesiredImage *desired, Error *reterr) {
        const JsonPath config_path = { .parent = path, .key = "sandboxConfig" };
        struct json_object *config;
        int r;

        r = json_read_object(image, path, config_path.key, &config, reterr);
        if (r < 0 || !config)
                return r;

        r = parse_pairs(config, &config_path, "labels", desired_image_add_label, desired, reterr);
        if (r < 0)
                return r;

        r = parse_pairs(config, &config_path, "annotations", desired_image_add_annotation, desired,
                        reterr);
        if (r >= 0)
                read_annotations(desired);
        return r;
}

/* Reads the members that the spec has once per image: pull secrets and sandbox config. */
static int desired_spec_read_shared(struct json_object *image, const JsonPath *path,
                                    DesiredImage *desired, Error *reterr) {
        int r;

        r = parse_secrets(image, path, desired, reterr);
        if (r < 0)
                return r;

        return parse_sandbox_config(image, path, desired, reterr);
}

static int parse_owner(struct json_object *item, const JsonPath *path, DesiredImage *desired,
                       Error *reterr) {
        const char *texts[7];
        static const char *const keys[] = { "apiVersion", "kind", "namespace",
                                            "name",       "uid",  "resourceVersion",
                                            "fieldPath" };
        int r;

        r = check_item(item, path, reterr);
        for (size_t i = 0; r >= 0 && i < sizeof(keys) / sizeof(keys[0]); i++)
                r = json_read_string(item, path, keys[i], &texts[i], reterr);
        if (r < 0)
                return r;

        return desired_image_add_owner(desired, &(OwnerRef){
                                                        .api_version = (char *) texts[0],
                                                        .kind = (char *) texts[1],
                                                        .namespace = (char *) texts[2],
                                                        .name = (char *) texts[3],
                                                        .uid = (char *) texts[4],
                                                        .resource_version = (char *) texts[5],
                                                        .field_path = (char *) texts[6],
                                                });
}

static int parse_owners(struct json_object *item, const JsonPath *path, DesiredImage *desired,
                        Error *reterr) {
        const JsonPath list_path = { .parent = path, .key = "ownerReferences" };
        struct json_object *list;
        int r;

        r = json_read_list(item, path, list_path.key, &list, reterr);

        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++)
                r = parse_owner(json_object_array_get_idx(list, i),
                                &(JsonPath){ .parent = &list_path, .index = i }, desired, reterr);

        return r;
}

/* No limit in the object may overflow once it is counted in microseconds. */
static int read_number(struct json_object *policy, const JsonPath *path, const char *key,
                       int64_t smallest, int64_t otherwise, int64_t *ret, Error *reterr) {
        int64_t number = otherwise;
        int r;

        r = json_read_integer(policy, path, key, &number, reterr);
        if (r < 0)
                return r;

        if (number < smallest)
                number = otherwise;
        *ret = number < INT32_MAX ? number : INT32_MAX;
        return 0;
}

static int parse_limits(struct json_object *item, const JsonPath *path, DesiredImage *desired,
                        Error *reterr) {
        const JsonPath here = { .parent = path, .key = "pullPolicy" };
        struct json_object *policy;
        int r;

        r = json_read_object(item, path, here.key, &policy, reterr);
        if (r < 0 || !policy)
                return r;

        return read_number(policy, &here, "timeoutSeconds", 1, DESIRED_IMAGE_TIMEOUT_SEC_DEFAULT,
                           &desired->timeout_sec, reterr)
               ?: read_number(policy, &here, "backoffLimit", 0, desired->backoff_limit,
                              &desired->backoff_limit, reterr)
               ?: read_number(policy, &here, "activeDeadlineSeconds", 0, DESIRED_IMAGE_NO_LIMIT,
                              &desired->active_deadline_sec, reterr)
               ?: read_number(policy, &here, "ttlSecondsAfterFinished", 0, DESIRED_IMAGE_NO_LIMIT,
                              &desired->ttl_sec, reterr);
}

static int parse_policy(struct json_object *item, const JsonPath *path, bool is_lenient,
                        DesiredImage *desired, Error *reterr) {
        const JsonPath here = { .parent = path, .key = "imagePullPolicy" };
        const char *policy;
        int r;

        r = json_read_string(item, path, here.key, &policy, reterr);
        if (r < 0)
                return r;

        if (policy && strcmp(policy, "IfNotPresent") == 0)
                desired->policy = PULL_POLICY_IF_NOT_PRESENT;
        else if (!policy || !*policy || strcmp(policy, "Always") == 0 || is_lenient)
                desired->policy = PULL_POLICY_ALWAYS;
        else
                return json_refuse(&here, reterr, "expected Always or IfNotPresent, got %s",
                                   quote(policy, (char[QUOTE_SIZE]){ 0 }));
        return 0;
}

static int parse_version(struct json_object *item, const JsonPath *path, DesiredImage *desired,
                         Error *reterr) {
        const JsonPath here = { .parent = path, .key = "version" };
        int r;

        r = json_read_integer(item, path, here.key, &desired->version, reterr);
        if (r < 0)
                return r;
        if (desired->version < 0)
                return json_refuse(&here, reterr, "expected zero or more, got %lld",
                                   (long long) desired->version);
        return 0;
}

/* Reads the fields of one tag, first its name. Lenient: an unknown policy is Always. After a
 * refusal, the desired image has the fields that were read before. */
static int desired_spec_read_tag(struct json_object *item, const JsonPath *path, bool is_lenient,
                                 DesiredImage *desired, Error *reterr) {
        const char *tag;
        int r;

        r = check_item(item, path, reterr);
        if (r < 0)
                return r;
        r = json_read_string(item, path, "tag", &tag, reterr);
        if (r < 0)
                return r;
        if (!tag || !*tag)
                return json_refuse(path, reterr, "has no tag");

        free(desired->tag);
        desired->tag = strdup(tag);
        if (!desired->tag)
                return -ENOMEM;

        /* The version and the owners are needed even if the rest has a fault, to report it. */
        return parse_version(item, path, desired, reterr)
               ?: parse_owners(item, path, desired, reterr)
               ?: json_read_time(item, path, "createdAt", &desired->created_at, reterr)
               ?: parse_policy(item, path, is_lenient, desired, reterr)
               ?: json_read_boolean(item, path, "complete", &desired->is_complete, reterr)
               ?: parse_limits(item, path, desired, reterr);
}

static int refuse_kind(const char *kind, Error *reterr) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        bool is_word = !kind[strspn(kind, letters)] && strlen(kind) < QUOTE_SIZE;

        return json_refuse(NULL, reterr, "is a %s, not a NodeImage (%s)",
                           is_word ? kind : quote(kind, (char[QUOTE_SIZE]){ 0 }), GROUP);
}

static int check_kind(struct json_object *node_image, Error *reterr) {
        const char *api_version, *kind;
        size_t size = strlen(GROUP);
        int r;

        if (!json_object_is_type(node_image, json_type_object))
                return json_refuse(NULL, reterr, "is not an object, but should be a NodeImage (%s)",
                                   GROUP);

        r = json_read_string(node_image, NULL, "apiVersion", &api_version, reterr);
        if (r < 0)
                return r;
        r = json_read_string(node_image, NULL, "kind", &kind, reterr);
        if (r < 0)
                return r;

        if (!kind || !api_version)
                return json_refuse(NULL, reterr, "has no %s, but should be a NodeImage (%s)",
                                   kind ? "apiVersion" : "kind", GROUP);

        if (strcmp(kind, "NodeImage") != 0)
                return refuse_kind(kind, reterr);
        if (strncmp(api_version, GROUP "/", size + 1) != 0)
                return json_refuse(NULL, reterr, "is a NodeImage of %s, not of %s",
                                   quote(api_version, (char[QUOTE_SIZE]){ 0 }), GROUP);
        if (strcmp(api_version + size, "/v1alpha1") != 0 &&
            strcmp(api_version + size, "/v1beta1") != 0)
                return json_refuse(NULL, reterr,
                                   "has the apiVersion %s, not %s/v1alpha1 or v1beta1",
                                   quote(api_version, (char[QUOTE_SIZE]){ 0 }), GROUP);
        return 0;
}

static size_t shared_size(const DesiredImage *desired) {
        size_t size = sizeof(*desired) + strlen(desired->name);

        for (size_t i = 0; i < desired->n_secrets; i++)
                size += sizeof(SecretRef) + strlen(desired->secrets[i].name) +
                        strlen(desired->secrets[i].namespace ?: "");
        for (size_t i = 0; i < desired->n_labels; i++)
                size += sizeof(KeyValue) + strlen(desired->labels[i].key) +
                        strlen(desired->labels[i].value);
        for (size_t i = 0; i < desired->n_annotations; i++)
                size += sizeof(KeyValue) + strlen(desired->annotations[i].key) +
                        strlen(desired->annotations[i].value);

        return size;
}

/* Leaves out a faulty part, if that is allowed here. r is the result of reading it. */
static int spec_skip(Spec *spec, int r, Error *fault, Error *reterr) {
        Error *to = spec->skipped ?: reterr;

        if (r >= 0 || fault->kind == ERROR_NONE)
                return r;

        if (to && to->kind == ERROR_NONE) {
                *to = *fault;
                *fault = ERROR_INIT;
        }
        return spec->skipped ? 0 : r;
}

/* The same, but keeps the desired image, so that it can fail. */
static int spec_blame(Spec *spec, DesiredImage *desired, int r, Error *fault, Error *reterr) {
        if (r >= 0 || fault->kind == ERROR_NONE || !spec->skipped)
                return spec_skip(spec, r, fault, reterr);

        if (!desired->fault)
                desired->fault = strdup(error_message(fault));
        return desired->fault ? 0 : -ENOMEM;
}

/* Sorts by tag; equal tags keep the order of the list. */
static int compare_tags(const void *a, const void *b) {
        const DesiredImage *x = *(DesiredImage *const *) a, *y = *(DesiredImage *const *) b;

        return strcmp(x->tag, y->tag) ?: (x > y) - (x < y);
}

/* Keeps the first of several equal tags, with a fault. */
static int drop_duplicates(Spec *spec, DesiredImage **sorted, size_t n, const JsonPath *path,
                           Error *reterr) {
        size_t first = 0;

        for (size_t i = 1; i < n; i++) {
                cleanup(error_done) Error fault = ERROR_INIT;
                int r;

                if (strcmp(sorted[first]->tag, sorted[i]->tag) != 0) {
                        first = i;
                        continue;
                }

                r = json_refuse(path, &fault, "the tag %s is given twice",
                                quote(sorted[i]->tag, (char[QUOTE_SIZE]){ 0 }));
                r = spec_blame(spec, sorted[first], r, &fault, reterr);
                if (r < 0)
                        return r;

                desired_image_done(sorted[i]);
        }

        return 0;
}

static int check_duplicates(Spec *spec, size_t n_before, const JsonPath *path, Error *reterr) {
        size_t n = spec->desired_images.n_items - n_before, n_left = n_before;
        cleanup(free_p) DesiredImage **sorted = NULL;
        int r;

        sorted = calloc(n + 1, sizeof(*sorted));
        if (!sorted)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++)
                sorted[i] = &spec->desired_images.items[n_before + i];
        qsort(sorted, n, sizeof(*sorted), compare_tags);
        r = drop_duplicates(spec, sorted, n, path, reterr);

        for (size_t i = n_before; i < n_before + n; i++)
                if (spec->desired_images.items[i].name)
                        spec->desired_images.items[n_left++] = spec->desired_images.items[i];
        spec->desired_images.n_items = n_left;
        return r;
}

/* Only requests through the socket have this limit; the state file keeps it. */
static int read_refusal_limit(struct json_object *item, const JsonPath *path, DesiredImage *desired,
                              Error *reterr) {
        const JsonPath here = { .parent = path, .key = "pullPolicy" };

        return read_number(json_get(item, here.key, json_type_object), &here, "refusalLimit", 0,
                           DESIRED_IMAGE_NO_LIMIT, &desired->refusal_limit, reterr);
}

static int parse_tag(Spec *spec, struct json_object *item, const JsonPath *path,
                     const DesiredImage *template, Error *reterr) {
        cleanup(desired_image_done) DesiredImage desired = { .name = NULL };
        cleanup(error_done) Error fault = ERROR_INIT;
        int r;

        r = desired_image_copy(template, &desired);
        if (r < 0)
                return r;

        r = desired_spec_read_tag(item, path, spec->skipped, &desired, &fault);
        if (r >= 0 && spec->is_own)
                r = read_refusal_limit(item, path, &desired, &fault);
        if (r < 0 && !*desired.tag)
                return spec_skip(spec, r, &fault, reterr);

        r = spec_blame(spec, &desired, r, &fault, reterr);
        if (r < 0)
                return r;

        r = desired_images_take(&spec->desired_images, &desired);
        desired = (DesiredImage){ .name = NULL };
        return r;
}

/* Makes a desired image of each tag: the template, with the fields of the tag. */
static int parse_tags(Spec *spec, struct json_object *tags, const JsonPath *path,
                      const DesiredImage *template, Error *reterr) {
        size_t n_before = spec->desired_images.n_items;

        for (size_t i = 0; i < json_object_array_length(tags); i++) {
                const JsonPath item_path = { .parent = path, .index = i };
                int r;

                r = parse_tag(spec, json_object_array_get_idx(tags, i), &item_path, template,
                              reterr);
                if (r < 0)
                        return r;
        }

        return check_duplicates(spec, n_before, path, reterr);
}

static int check_shared_size(Spec *spec, size_t n_tags, const JsonPath *path,
                             const DesiredImage *template, Error *reterr) {
        size_t size = spec->is_own ? 0 : n_tags * shared_size(template);

        if (size > SHARED_SIZE_MAX - spec->n_shared)
                return json_refuse(path, reterr,
                                   "secrets, labels and annotations, once for each tag, are more "
                                   "than %zu MiB in this object",
                                   SHARED_SIZE_MAX >> 20);

        spec->n_shared += size;
        return 0;
}

/* Reads the template for all tags. With a fault, it has nothing but its name, limit and fault. */
static int parse_template(Spec *spec, const char *name, struct json_object *image, size_t n_tags,
                          const JsonPath *path, DesiredImage *ret, Error *reterr) {
        cleanup(desired_image_done) DesiredImage desired = { .name = NULL };
        cleanup(error_done) Error fault = ERROR_INIT;
        int r;

        r = desired_image_init(&desired, name, "");
        if (r < 0)
                return r;

        desired.backoff_limit = spec->backoff_limit;
        r = desired_spec_read_shared(image, path, &desired, &fault);
        if (r >= 0)
                r = check_shared_size(spec, n_tags, path, &desired, &fault);
        if (r >= 0) {
                *ret = desired;
                desired = (DesiredImage){ .name = NULL };
                return 0;
        }

        desired_image_done(&desired);
        if (fault.kind == ERROR_NONE || desired_image_init(&desired, name, "") < 0)
                return -ENOMEM;

        desired.backoff_limit = spec->backoff_limit;
        r = spec_blame(spec, &desired, r, &fault, reterr);
        if (r < 0)
                return r;

        *ret = desired;
        desired = (DesiredImage){ .name = NULL };
        return 0;
}

static int parse_image(Spec *spec, const char *name, struct json_object *image,
                       const JsonPath *path, Error *reterr) {
        cleanup(desired_image_done) DesiredImage template = { .name = NULL };
        const JsonPath tags_path = { .parent = path, .key = "tags" };
        struct json_object *tags;
        size_t n_tags;
        int r;

        if (!*name || strlen(name) > JSON_STRING_SIZE_MAX)
                return json_refuse(path, reterr,
                                   *name ? "the name is longer than %d bytes"
                                         : "an image needs a name",
                                   JSON_STRING_SIZE_MAX);
        if (!json_object_is_type(image, json_type_object))
                return json_refuse_type(path, image, "an object", reterr);

        r = json_read_list(image, path, tags_path.key, &tags, reterr);
        if (r < 0)
                return r;
        if (!tags)
                return json_refuse(path, reterr, "has no tags");

        n_tags = json_object_array_length(tags);
        if (!spec->is_own && spec->desired_images.n_items + n_tags > IMAGE_SPEC_TAGS_MAX)
                return json_refuse(path, reterr, "more than %d tags in this object",
                                   IMAGE_SPEC_TAGS_MAX);

        r = parse_template(spec, name, image, n_tags, path, &template, reterr);
        if (r < 0)
                return r;
        return parse_tags(spec, tags, &tags_path, &template, reterr);
}

static int parse_images(Spec *spec, struct json_object *node_image, Error *reterr) {
        const JsonPath spec_path = { .key = "spec" };
        const JsonPath images_path = { .parent = &spec_path, .key = "images" };
        struct json_object *object, *images = NULL;
        int r;

        r = json_read_object(node_image, NULL, spec_path.key, &object, reterr);
        if (r < 0)
                return r;
        r = json_read_object(object, &spec_path, images_path.key, &images, reterr);
        if (r < 0 || !images)
                return r;

        if (!spec->is_own && json_object_object_length(images) > IMAGE_SPEC_IMAGES_MAX)
                return json_refuse(&images_path, reterr, "more than %d images",
                                   IMAGE_SPEC_IMAGES_MAX);

        json_object_object_foreach(images, name, image) {
                const JsonPath path = { .parent = &images_path, .key = name };
                cleanup(error_done) Error fault = ERROR_INIT;

                r = parse_image(spec, name, image, &path, &fault);
                r = spec_skip(spec, r, &fault, reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int parse(struct json_object *node_image, const Spec *kind, DesiredImages *ret,
                 Error *reterr) {
        cleanup(spec_done) Spec spec = *kind;
        int r;

        r = check_kind(node_image, reterr);
        if (r < 0)
                return r;

        r = parse_images(&spec, node_image, reterr);
        if (r < 0)
                return r;

        *ret = spec.desired_images;
        spec.desired_images = DESIRED_IMAGES_INIT;
        return 0;
}

int image_spec_parse(struct json_object *node_image, DesiredImages *ret, Error *reterr) {
        return parse(node_image, &(Spec){ .backoff_limit = DESIRED_IMAGE_NO_LIMIT }, ret, reterr);
}

int image_spec_parse_each(struct json_object *node_image, DesiredImages *ret, Error *skipped,
                          Error *reterr) {
        return parse(node_image,
                     &(Spec){ .backoff_limit = BACKOFF_LIMIT_DEFAULT, .skipped = skipped }, ret,
                     reterr);
}

int image_spec_parse_own(struct json_object *node_image, DesiredImages *ret, Error *reterr) {
        return parse(node_image, &(Spec){ .backoff_limit = DESIRED_IMAGE_NO_LIMIT, .is_own = true },
                     ret, reterr);
}

/* clang-format off */
static const KnownKey owner_keys[] = {
        { .name = "apiVersion" }, { .name = "kind" }, { .name = "namespace" }, { .name = "name" },
        { .name = "uid" }, { .name = "resourceVersion" }, { .name = "fieldPath" }, { .name = NULL },
};

static const KnownKey policy_keys[] = {
        { .name = "timeoutSeconds" },
        { .name = "backoffLimit" },
        { .name = "activeDeadlineSeconds" },
        { .name = "ttlSecondsAfterFinished" },
        { .name = NULL },
};

static const KnownKey tag_keys[] = {
        { .name = "tag" },
        { .name = "version" },
        { .name = "imagePullPolicy" },
        { .name = "pullPolicy", policy_keys },
        { .name = "complete" },
        { .name = "createdAt" },
        { .name = "ownerReferences", owner_keys },
        { .name = NULL },
};

static const KnownKey secret_keys[] = { { .name = "namespace" }, { .name = "name" }, { .name = NULL } };
static const KnownKey sandbox_keys[] = { { .name = "labels" }, { .name = "annotations" }, { .name = NULL } };

static const KnownKey image_keys[] = {
        { .name = "tags", tag_keys },
        { .name = "pullSecrets", secret_keys },
        { .name = "sandboxConfig", sandbox_keys },
        { .name = NULL },
};

static const KnownKey any_image[] = { { .name = "*", image_keys }, { .name = NULL } };
static const KnownKey spec_keys[] = { { .name = "images", any_image }, { .name = NULL } };

/* Keys of any Kubernetes object: a document may be a copy of kubectl's output. */
static const KnownKey metadata_keys[] = {
        { .name = "name" }, { .name = "namespace" }, { .name = "labels" }, { .name = "annotations" },
        { .name = "creationTimestamp" }, { .name = "deletionGracePeriodSeconds" },
        { .name = "deletionTimestamp" }, { .name = "finalizers" }, { .name = "generateName" },
        { .name = "generation" }, { .name = "managedFields" }, { .name = "ownerReferences" },
        { .name = "resourceVersion" }, { .name = "selfLink" }, { .name = "uid" }, { .name = NULL },
};

static const KnownKey node_image_keys[] = {
        { .name = "apiVersion" },
        { .name = "kind" },
        { .name = "metadata", metadata_keys },
        { .name = "spec", spec_keys },
        { .name = "status" },
        { .name = NULL },
};
/* clang-format on */

static const KnownKey *known_in(struct json_object *document) {
        return json_is(document, "kind", "NodeImage") ? node_image_keys : NULL;
}

int image_spec_check_keys(const Documents *documents, UnknownKeys *ret) {
        return known_keys_check(documents, known_in, /* is_secret= */ false, ret);
}
