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

/* Every tag gets its own copy of what is said once per image. This bounds the copies. */
#define SHARED_SIZE_MAX ((size_t) 8 << 20)

#define PAIRS_MAX 256 /* labels or annotations of one image */

typedef struct Spec {
        WishList wishes;
        size_t n_shared; /* bytes in copies */
        Error *skipped;  /* NULL: whatever is wrong with a part is wrong with the whole */
        bool is_own;     /* the agent has written it: its parts had their limits */
} Spec;

static inline void spec_done(Spec *spec) {
        wish_list_done(&spec->wishes);
}

static int check_item(struct json_object *item, const JsonPath *path, Error *reterr) {
        return json_object_is_type(item, json_type_object)
                       ? 0
                       : json_refuse_type(path, item, "an object", reterr);
}

static int parse_secrets(struct json_object *image, const JsonPath *path, ImageWish *wish,
                         Error *reterr) {
        const JsonPath list_path = { .parent = path, .key = "pullSecrets" };
        struct json_object *list;
        int r;

        r = json_read_list(image, path, list_path.key, &list, reterr);

        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++) {
                const JsonPath item_path = { .parent = &list_path, .index = i };
                struct json_object *item = json_object_array_get_idx(list, i);
                const char *namespace, *name;

                r = check_item(item, &item_path, reterr);
                if (r < 0)
                        return r;
                r = json_read_string(item, &item_path, "namespace", &namespace, reterr);
                if (r < 0)
                        return r;
                r = json_read_string(item, &item_path, "name", &name, reterr);
                if (r < 0)
                        return r;

                if (!name || !*name)
                        return json_refuse(&item_path, reterr, "has no name");
                r = image_wish_add_secret(wish, namespace, name);
        }

        return r;
}

static int parse_pairs(struct json_object *config, const JsonPath *path, const char *key,
                       int (*add)(ImageWish *wish, const char *key, const char *value),
                       ImageWish *wish, Error *reterr) {
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

                r = add(wish, name, value ?: "");
                if (r < 0)
                        return r;
        }

        return 0;
}

static int parse_sandbox_config(struct json_object *image, const JsonPath *path, ImageWish *wish,
                                Error *reterr) {
        const JsonPath config_path = { .parent = path, .key = "sandboxConfig" };
        struct json_object *config;
        int r;

        r = json_read_object(image, path, config_path.key, &config, reterr);
        if (r < 0 || !config)
                return r;

        r = parse_pairs(config, &config_path, "labels", image_wish_add_label, wish, reterr);
        if (r < 0)
                return r;

        return parse_pairs(config, &config_path, "annotations", image_wish_add_annotation, wish,
                           reterr);
}

/* What is said once per image: its pull secrets and its sandbox config. */
static int wish_spec_read_shared(struct json_object *image, const JsonPath *path, ImageWish *wish,
                                 Error *reterr) {
        int r;

        r = parse_secrets(image, path, wish, reterr);
        if (r < 0)
                return r;

        return parse_sandbox_config(image, path, wish, reterr);
}

static int parse_owner(struct json_object *item, const JsonPath *path, ImageWish *wish,
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

        return image_wish_add_owner(wish, &(OwnerRef){
                                                  .api_version = (char *) texts[0],
                                                  .kind = (char *) texts[1],
                                                  .namespace = (char *) texts[2],
                                                  .name = (char *) texts[3],
                                                  .uid = (char *) texts[4],
                                                  .resource_version = (char *) texts[5],
                                                  .field_path = (char *) texts[6],
                                          });
}

static int parse_owners(struct json_object *item, const JsonPath *path, ImageWish *wish,
                        Error *reterr) {
        const JsonPath list_path = { .parent = path, .key = "ownerReferences" };
        struct json_object *list;
        int r;

        r = json_read_list(item, path, list_path.key, &list, reterr);

        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++)
                r = parse_owner(json_object_array_get_idx(list, i),
                                &(JsonPath){ .parent = &list_path, .index = i }, wish, reterr);

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

static int parse_limits(struct json_object *item, const JsonPath *path, ImageWish *wish,
                        Error *reterr) {
        const JsonPath here = { .parent = path, .key = "pullPolicy" };
        struct json_object *policy;
        int r;

        r = json_read_object(item, path, here.key, &policy, reterr);
        if (r < 0 || !policy)
                return r;

        r = read_number(policy, &here, "timeoutSeconds", 1, WISH_TIMEOUT_SEC_DEFAULT,
                        &wish->timeout_sec, reterr);
        if (r < 0)
                return r;
        r = read_number(policy, &here, "backoffLimit", 0, WISH_BACKOFF_LIMIT_DEFAULT,
                        &wish->backoff_limit, reterr);
        if (r < 0)
                return r;
        r = read_number(policy, &here, "activeDeadlineSeconds", 0, WISH_NO_LIMIT,
                        &wish->active_deadline_sec, reterr);
        if (r < 0)
                return r;
        return read_number(policy, &here, "ttlSecondsAfterFinished", 0, WISH_NO_LIMIT,
                           &wish->ttl_sec, reterr);
}

static int parse_policy(struct json_object *item, const JsonPath *path, bool is_lenient,
                        ImageWish *wish, Error *reterr) {
        const JsonPath here = { .parent = path, .key = "imagePullPolicy" };
        const char *policy;
        int r;

        r = json_read_string(item, path, here.key, &policy, reterr);
        if (r < 0)
                return r;

        if (policy && strcmp(policy, "IfNotPresent") == 0)
                wish->policy = PULL_POLICY_IF_NOT_PRESENT;
        else if (!policy || !*policy || strcmp(policy, "Always") == 0 || is_lenient)
                wish->policy = PULL_POLICY_ALWAYS;
        else
                return json_refuse(&here, reterr, "expected Always or IfNotPresent, got %s",
                                   quote(policy, (char[QUOTE_SIZE]){ 0 }));
        return 0;
}

static int parse_version(struct json_object *item, const JsonPath *path, ImageWish *wish,
                         Error *reterr) {
        const JsonPath here = { .parent = path, .key = "version" };
        int r;

        r = json_read_integer(item, path, here.key, &wish->version, reterr);
        if (r < 0)
                return r;
        if (wish->version < 0)
                return json_refuse(&here, reterr, "expected zero or more, got %lld",
                                   (long long) wish->version);
        return 0;
}

/* What is said about one tag, beginning with its name. Lenient: an unknown policy is Always. What was
 * read before a refusal is in the wish. */
static int wish_spec_read_tag(struct json_object *item, const JsonPath *path, bool is_lenient,
                              ImageWish *wish, Error *reterr) {
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

        free(wish->tag);
        wish->tag = strdup(tag);
        if (!wish->tag)
                return -ENOMEM;

        /* The version and the owners are needed even if the rest has a fault, to report it. */
        r = parse_version(item, path, wish, reterr);
        if (r < 0)
                return r;
        r = parse_owners(item, path, wish, reterr);
        if (r < 0)
                return r;
        r = json_read_time(item, path, "createdAt", &wish->created_at, reterr);
        if (r < 0)
                return r;
        r = parse_policy(item, path, is_lenient, wish, reterr);
        if (r < 0)
                return r;
        return parse_limits(item, path, wish, reterr);
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

static size_t shared_size(const ImageWish *wish) {
        size_t size = sizeof(*wish) + strlen(wish->name);

        for (size_t i = 0; i < wish->n_secrets; i++)
                size += sizeof(SecretRef) + strlen(wish->secrets[i].name) +
                        strlen(wish->secrets[i].namespace ?: "");
        for (size_t i = 0; i < wish->n_labels; i++)
                size += sizeof(KeyValue) + strlen(wish->labels[i].key) +
                        strlen(wish->labels[i].value);
        for (size_t i = 0; i < wish->n_annotations; i++)
                size += sizeof(KeyValue) + strlen(wish->annotations[i].key) +
                        strlen(wish->annotations[i].value);

        return size;
}

/* Leaves out what is wrong, if that is allowed here. r is what has become of it. */
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

/* The same, but the wish is kept, so that there is something that can fail. */
static int spec_blame(Spec *spec, ImageWish *wish, int r, Error *fault, Error *reterr) {
        if (r >= 0 || fault->kind == ERROR_NONE || !spec->skipped)
                return spec_skip(spec, r, fault, reterr);

        if (!wish->fault)
                wish->fault = strdup(error_message(fault));
        return wish->fault ? 0 : -ENOMEM;
}

/* Equal tags in the order of the list. */
static int compare_tags(const void *a, const void *b) {
        const ImageWish *x = *(ImageWish *const *) a, *y = *(ImageWish *const *) b;

        return strcmp(x->tag, y->tag) ?: (x > y) - (x < y);
}

/* Of equal ones the first is left, with a fault. */
static int drop_duplicates(Spec *spec, ImageWish **sorted, size_t n, const JsonPath *path,
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

                image_wish_done(sorted[i]);
        }

        return 0;
}

static int check_duplicates(Spec *spec, size_t n_before, const JsonPath *path, Error *reterr) {
        size_t n = spec->wishes.n_items - n_before, n_left = n_before;
        cleanup(free_p) ImageWish **sorted = NULL;
        int r;

        sorted = calloc(n + 1, sizeof(*sorted));
        if (!sorted)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++)
                sorted[i] = &spec->wishes.items[n_before + i];
        qsort(sorted, n, sizeof(*sorted), compare_tags);
        r = drop_duplicates(spec, sorted, n, path, reterr);

        for (size_t i = n_before; i < n_before + n; i++)
                if (spec->wishes.items[i].name)
                        spec->wishes.items[n_left++] = spec->wishes.items[i];
        spec->wishes.n_items = n_left;
        return r;
}

static int parse_tag(Spec *spec, struct json_object *item, const JsonPath *path,
                     const ImageWish *template, Error *reterr) {
        cleanup(image_wish_done) ImageWish wish = { .name = NULL };
        cleanup(error_done) Error fault = ERROR_INIT;
        int r;

        r = image_wish_copy(template, &wish);
        if (r < 0)
                return r;

        r = wish_spec_read_tag(item, path, spec->skipped, &wish, &fault);
        if (r < 0 && !*wish.tag)
                return spec_skip(spec, r, &fault, reterr);

        r = spec_blame(spec, &wish, r, &fault, reterr);
        if (r < 0)
                return r;

        r = wish_list_take(&spec->wishes, &wish);
        wish = (ImageWish){ .name = NULL };
        return r;
}

/* Makes a wish of each tag, which differ from the template in what is said about the tag. */
static int parse_tags(Spec *spec, struct json_object *tags, const JsonPath *path,
                      const ImageWish *template, Error *reterr) {
        size_t n_before = spec->wishes.n_items;

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
                             const ImageWish *template, Error *reterr) {
        size_t size = spec->is_own ? 0 : n_tags * shared_size(template);

        if (size > SHARED_SIZE_MAX - spec->n_shared)
                return json_refuse(path, reterr,
                                   "secrets, labels and annotations, once for each tag, are more "
                                   "than %zu MiB in this object",
                                   SHARED_SIZE_MAX >> 20);

        spec->n_shared += size;
        return 0;
}

/* What is said once for all tags. If it has a fault, that is all that is left of it. */
static int parse_template(Spec *spec, const char *name, struct json_object *image, size_t n_tags,
                          const JsonPath *path, ImageWish *ret, Error *reterr) {
        cleanup(image_wish_done) ImageWish wish = { .name = NULL };
        cleanup(error_done) Error fault = ERROR_INIT;
        int r;

        r = image_wish_init(&wish, name, "");
        if (r < 0)
                return r;

        r = wish_spec_read_shared(image, path, &wish, &fault);
        if (r >= 0)
                r = check_shared_size(spec, n_tags, path, &wish, &fault);
        if (r >= 0) {
                *ret = wish;
                wish = (ImageWish){ .name = NULL };
                return 0;
        }

        image_wish_done(&wish);
        if (fault.kind == ERROR_NONE || image_wish_init(&wish, name, "") < 0)
                return -ENOMEM;

        r = spec_blame(spec, &wish, r, &fault, reterr);
        if (r < 0)
                return r;

        *ret = wish;
        wish = (ImageWish){ .name = NULL };
        return 0;
}

static int parse_image(Spec *spec, const char *name, struct json_object *image,
                       const JsonPath *path, Error *reterr) {
        cleanup(image_wish_done) ImageWish template = { .name = NULL };
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
        if (!spec->is_own && spec->wishes.n_items + n_tags > IMAGE_SPEC_TAGS_MAX)
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

static int parse(struct json_object *node_image, bool is_own, WishList *ret, Error *skipped,
                 Error *reterr) {
        cleanup(spec_done) Spec spec = {
                .wishes = WISH_LIST_INIT,
                .skipped = skipped,
                .is_own = is_own,
        };
        int r;

        r = check_kind(node_image, reterr);
        if (r < 0)
                return r;

        r = parse_images(&spec, node_image, reterr);
        if (r < 0)
                return r;

        *ret = spec.wishes;
        spec.wishes = WISH_LIST_INIT;
        return 0;
}

int image_spec_parse(struct json_object *node_image, WishList *ret, Error *reterr) {
        return parse(node_image, false, ret, NULL, reterr);
}

int image_spec_parse_each(struct json_object *node_image, WishList *ret, Error *skipped,
                          Error *reterr) {
        return parse(node_image, false, ret, skipped, reterr);
}

int image_spec_parse_own(struct json_object *node_image, WishList *ret, Error *reterr) {
        return parse(node_image, true, ret, NULL, reterr);
}
