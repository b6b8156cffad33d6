/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/image-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"
#include "agent/document/json-fields.h"
#include "agent/image/image-ref.h"

#define GROUP "apps.kruise.io"

/* Limit of the copies, for each tag, of members that the spec has once per image. */
#define SHARED_SIZE_MAX ((size_t) 8 << 20)

#define PAIRS_MAX 256 /* labels or annotations of one image */

#define ANNOTATION_COMPLETE "inplaced.io/complete"
#define ANNOTATION_PIN "inplaced.io/pin"
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

static int read_pairs(struct json_object *pairs, const JsonPath *path,
                      int (*add)(DesiredImage *desired, const char *key, const char *value),
                      DesiredImage *desired, Error *reterr) {
        int r = 0;

        if (!pairs)
                return 0;
        if (json_object_object_length(pairs) > PAIRS_MAX)
                return json_refuse(path, reterr, "more than %d members", PAIRS_MAX);

        json_object_object_foreach(pairs, name, member) {
                const char *value;

                (void) member;
                r = json_read_text(pairs, path, name, &value, reterr);
                r = r < 0 ? r : add(desired, name, value ?: "");
                if (r < 0)
                        return r;
        }

        return 0;
}

static int read_labels(struct json_object *labels, const JsonPath *path, void *ret,
                       const void *context, Error *reterr) {
        return read_pairs(labels, path, desired_image_add_label, ret, reterr);
}

/* The API server drops unknown members, but keeps annotations. */
static void read_annotations(DesiredImage *desired) {
        for (size_t i = 0; i < desired->n_annotations; i++) {
                const KeyValue *annotation = &desired->annotations[i];

                if (strcmp(annotation->key, ANNOTATION_COMPLETE) == 0)
                        desired->is_complete = strcmp(annotation->value, "true") == 0;
                else if (strcmp(annotation->key, ANNOTATION_PIN) == 0)
                        desired->is_pinned = strcmp(annotation->value, "true") == 0;
                else if (strcmp(annotation->key, IMAGE_ANNOTATION_RESOLVE) == 0)
                        desired->is_resolved = strcmp(annotation->value, "true") == 0;
        }
}

static int read_all_annotations(struct json_object *annotations, const JsonPath *path, void *ret,
                                const void *context, Error *reterr) {
        int r;

        r = read_pairs(annotations, path, desired_image_add_annotation, ret, reterr);
        if (r >= 0)
                read_annotations(ret);
        return r;
}

static int read_policy(const char *text, const JsonPath *path, void *ret, const void *context,
                       Error *reterr) {
        const Spec *spec = context;
        PullPolicy *policy = ret;

        if (text && strcmp(text, "IfNotPresent") == 0)
                *policy = PULL_POLICY_IF_NOT_PRESENT;
        else if (!text || strcmp(text, "Always") == 0 || spec->skipped)
                *policy = PULL_POLICY_ALWAYS;
        else
                return json_refuse(path, reterr, "expected Always or IfNotPresent, got %s",
                                   quote(text, (char[QUOTE_SIZE]){ 0 }));
        return 0;
}

static int read_version(struct json_object *value, const JsonPath *path, void *ret,
                        const void *context, Error *reterr) {
        int64_t version = value ? json_object_get_int64(value) : 0;

        if (version < 0)
                return json_refuse(path, reterr, "expected zero or more, got %lld",
                                   (long long) version);
        *(int64_t *) ret = version;
        return 0;
}

/* clang-format off */
static const JsonField secret_fields[] = {
        { "namespace", JSON_STRING, .offset = offsetof(SecretRef, namespace) },
        { "name", JSON_STRING, .offset = offsetof(SecretRef, name), .is_required = true },
        { .key = NULL },
};

static const JsonField sandbox_fields[] = {
        { "labels", JSON_OBJECT, .on_value = read_labels },
        { "annotations", JSON_OBJECT, .on_value = read_all_annotations },
        { .key = NULL },
};

static const JsonField owner_fields[] = {
        { "apiVersion", JSON_STRING, .offset = offsetof(OwnerRef, api_version) },
        { "kind", JSON_STRING, .offset = offsetof(OwnerRef, kind) },
        { "namespace", JSON_STRING, .offset = offsetof(OwnerRef, namespace) },
        { "name", JSON_STRING, .offset = offsetof(OwnerRef, name) },
        { "uid", JSON_STRING, .offset = offsetof(OwnerRef, uid) },
        { "resourceVersion", JSON_STRING, .offset = offsetof(OwnerRef, resource_version) },
        { "fieldPath", JSON_STRING, .offset = offsetof(OwnerRef, field_path) },
        { .key = NULL },
};

/* A limit must not overflow when it is counted in microseconds. */
#define LIMIT(key, member, smallest) \
        { key, JSON_INTEGER, .offset = offsetof(DesiredImage, member), .min = smallest, .max = INT32_MAX }

static const JsonField policy_fields[] = {
        LIMIT("timeoutSeconds", timeout_sec, 1),
        LIMIT("backoffLimit", backoff_limit, 0),
        LIMIT("activeDeadlineSeconds", active_deadline_sec, 0),
        LIMIT("ttlSecondsAfterFinished", ttl_sec, 0),
        { .key = NULL },
};

/* The version and the owners are needed even if the rest has a fault, to report it. */
static const JsonField tag_fields[] = {
        { "tag", JSON_STRING, .offset = offsetof(DesiredImage, tag), .is_required = true },
        { "version", JSON_INTEGER, .offset = offsetof(DesiredImage, version), .on_value = read_version },
        { "ownerReferences", JSON_LIST, .offset = offsetof(DesiredImage, owners), .fields = owner_fields,
          .item_size = sizeof(OwnerRef), .n_offset = offsetof(DesiredImage, n_owners) },
        { "createdAt", JSON_TIME, .offset = offsetof(DesiredImage, created_at) },
        { "imagePullPolicy", JSON_WORD, .offset = offsetof(DesiredImage, policy), .on_text = read_policy },
        { "complete", JSON_BOOLEAN, .offset = offsetof(DesiredImage, is_complete) },
        { "pin", JSON_BOOLEAN, .offset = offsetof(DesiredImage, is_pinned) },
        { "pullPolicy", JSON_OBJECT, .fields = policy_fields },
        { .key = NULL },
};

/* Only requests through the socket have this limit; the state file keeps it. */
static const JsonField own_policy_fields[] = {
        LIMIT("refusalLimit", refusal_limit, 0),
        { .key = NULL },
};

static const JsonField own_tag_fields[] = {
        { "pullPolicy", JSON_OBJECT, .fields = own_policy_fields },
        { .key = NULL },
};

#define SHARED_FIELDS \
        { "pullSecrets", JSON_LIST, .offset = offsetof(DesiredImage, secrets), .fields = secret_fields, \
          .item_size = sizeof(SecretRef), .n_offset = offsetof(DesiredImage, n_secrets) }, \
        { "sandboxConfig", JSON_OBJECT, .fields = sandbox_fields }, \
        { .key = NULL }

static const JsonField shared_fields[] = { SHARED_FIELDS };

/* Members that the spec has once per image; tags are read one by one. */
static const JsonField image_fields[] = {
        { .key = "tags", .fields = tag_fields },
        SHARED_FIELDS,
};
/* clang-format on */

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

        if (fault->kind == ERROR_NONE)
                return r;

        if (to && to->kind == ERROR_NONE) {
                *to = *fault;
                *fault = ERROR_INIT;
        }
        return spec->skipped ? 0 : r;
}

/* The same, but keeps the desired image, so that it can fail. */
static int spec_blame(Spec *spec, DesiredImage *desired, int r, Error *fault, Error *reterr) {
        if (fault->kind == ERROR_NONE || !spec->skipped)
                return spec_skip(spec, r, fault, reterr);

        return desired->fault ? 0 : text_copy(error_message(fault), &desired->fault);
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

/* The state file has with each tag what the tags of a name share elsewhere, and in files of older versions. */
static int read_own(const Spec *spec, struct json_object *item, const JsonPath *path,
                    DesiredImage *desired, Error *reterr) {
        if (!json_object_object_get_ex(item, "pullSecrets", NULL) &&
            !json_object_object_get_ex(item, "sandboxConfig", NULL))
                return 0;
        desired_image_clear_shared(desired);
        return json_fields_read(shared_fields, item, path, desired, spec, reterr);
}

/* Members of the tag win over annotations of the sandbox. */
static int read_tag(const Spec *spec, struct json_object *item, const JsonPath *path,
                    DesiredImage *desired, Error *reterr) {
        int r = json_check_type(item, path, json_type_object, reterr);

        if (r >= 0 && spec->is_own)
                r = read_own(spec, item, path, desired, reterr);
        if (r >= 0)
                r = json_fields_read(tag_fields, item, path, desired, spec, reterr);
        if (r >= 0 && spec->is_own)
                r = json_fields_read(own_tag_fields, item, path, desired, spec, reterr);
        return r;
}

static int parse_tag(Spec *spec, struct json_object *item, const JsonPath *path,
                     const DesiredImage *template, Error *reterr) {
        cleanup(desired_image_done) DesiredImage desired = { .name = NULL };
        cleanup(error_done) Error fault = ERROR_INIT;
        int r;

        r = desired_image_copy(template, &desired);
        if (r < 0)
                return r;

        r = read_tag(spec, item, path, &desired, &fault);
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
        r = json_fields_read(image_fields, image, path, &desired, spec, &fault);
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

int image_spec_parse_set(struct json_object *node_image, DesiredImages *ret, Error *skipped,
                         Error *reterr) {
        return parse(node_image,
                     &(Spec){ .backoff_limit = DESIRED_IMAGE_NO_LIMIT, .skipped = skipped }, ret,
                     reterr);
}

int image_spec_parse_own(struct json_object *node_image, DesiredImages *ret, Error *skipped,
                         Error *reterr) {
        return parse(node_image,
                     &(Spec){ .backoff_limit = DESIRED_IMAGE_NO_LIMIT,
                              .skipped = skipped,
                              .is_own = true },
                     ret, reterr);
}

/* clang-format off */
static const JsonField any_image[] = { { .key = "*", .fields = image_fields }, { .key = NULL } };
static const JsonField spec_keys[] = { { .key = "images", .fields = any_image }, { .key = NULL } };

/* Keys of any Kubernetes object: a document may be a copy of kubectl's output. */
static const JsonField metadata_keys[] = {
        { .key = "name" }, { .key = "namespace" }, { .key = "labels" }, { .key = "annotations" },
        { .key = "creationTimestamp" }, { .key = "deletionGracePeriodSeconds" },
        { .key = "deletionTimestamp" }, { .key = "finalizers" }, { .key = "generateName" },
        { .key = "generation" }, { .key = "managedFields" }, { .key = "ownerReferences" },
        { .key = "resourceVersion" }, { .key = "selfLink" }, { .key = "uid" }, { .key = NULL },
};

static const JsonField node_image_keys[] = {
        { .key = "apiVersion" },
        { .key = "kind" },
        { .key = "metadata", .fields = metadata_keys },
        { .key = "spec", .fields = spec_keys },
        { .key = "status" },
        { .key = NULL },
};
/* clang-format on */

static const JsonField *known_in(struct json_object *document) {
        return json_is(document, "kind", "NodeImage") ? node_image_keys : NULL;
}

int image_spec_check_keys(const Documents *documents, UnknownKeys *ret) {
        return known_keys_check(documents, known_in, /* is_secret= */ false, ret);
}
