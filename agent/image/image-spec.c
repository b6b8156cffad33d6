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
#include "agent/image/wish-spec.h"

#define GROUP "apps.kruise.io"

/* Every tag gets its own copy of what is said once per image. This bounds the copies. */
#define SHARED_SIZE_MAX ((size_t) 8 << 20)

typedef struct Spec {
        WishList wishes;
        size_t n_shared; /* bytes in copies */
} Spec;

static inline void spec_done(Spec *spec) {
        wish_list_done(&spec->wishes);
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

static int compare_texts(const void *a, const void *b) {
        return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static int check_duplicates(const ImageWish *wishes, size_t n, const JsonPath *path,
                            Error *reterr) {
        cleanup(free_p) const char **tags = NULL;

        tags = calloc(n + 1, sizeof(*tags));
        if (!tags)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++)
                tags[i] = wishes[i].tag;
        qsort(tags, n, sizeof(*tags), compare_texts);

        for (size_t i = 1; i < n; i++)
                if (strcmp(tags[i - 1], tags[i]) == 0)
                        return json_refuse(path, reterr, "the tag %s is given twice",
                                           quote(tags[i], (char[QUOTE_SIZE]){ 0 }));
        return 0;
}

/* Makes a wish of each tag, which differ from the template in what is said about the tag. */
static int parse_tags(Spec *spec, struct json_object *tags, const JsonPath *path,
                      const ImageWish *template, Error *reterr) {
        size_t n_before = spec->wishes.n_items;
        int r;

        for (size_t i = 0; i < json_object_array_length(tags); i++) {
                cleanup(image_wish_done) ImageWish wish = { .name = NULL };

                r = image_wish_copy(template, &wish);
                if (r < 0)
                        return r;

                r = wish_spec_read_tag(json_object_array_get_idx(tags, i),
                                       &(JsonPath){ .parent = path, .index = i }, &wish, reterr);
                if (r < 0)
                        return r;

                r = wish_list_take(&spec->wishes, &wish);
                wish = (ImageWish){ .name = NULL };
                if (r < 0)
                        return r;
        }

        return check_duplicates(spec->wishes.items + n_before, spec->wishes.n_items - n_before,
                                path, reterr);
}

static int check_size(Spec *spec, size_t n_tags, const JsonPath *path, const ImageWish *template,
                      Error *reterr) {
        if (spec->wishes.n_items + n_tags > IMAGE_SPEC_TAGS_MAX)
                return json_refuse(path, reterr, "more than %d tags in this object",
                                   IMAGE_SPEC_TAGS_MAX);

        spec->n_shared += n_tags * shared_size(template);
        if (spec->n_shared > SHARED_SIZE_MAX)
                return json_refuse(path, reterr,
                                   "secrets, labels and annotations, once for each tag, are more "
                                   "than %zu MiB in this object",
                                   SHARED_SIZE_MAX >> 20);
        return 0;
}

static int parse_image(Spec *spec, const char *name, struct json_object *image,
                       const JsonPath *path, Error *reterr) {
        cleanup(image_wish_done) ImageWish template = { .name = NULL };
        const JsonPath tags_path = { .parent = path, .key = "tags" };
        struct json_object *tags;
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

        r = image_wish_init(&template, name, "");
        if (r < 0)
                return r;
        r = wish_spec_read_shared(image, path, &template, reterr);
        if (r < 0)
                return r;

        r = check_size(spec, json_object_array_length(tags), path, &template, reterr);
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

        if (json_object_object_length(images) > IMAGE_SPEC_IMAGES_MAX)
                return json_refuse(&images_path, reterr, "more than %d images",
                                   IMAGE_SPEC_IMAGES_MAX);

        json_object_object_foreach(images, name, image) {
                const JsonPath path = { .parent = &images_path, .key = name };

                r = parse_image(spec, name, image, &path, reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

int image_spec_parse(struct json_object *node_image, WishList *ret, Error *reterr) {
        cleanup(spec_done) Spec spec = { .wishes = WISH_LIST_INIT };
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
