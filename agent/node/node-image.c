/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/node/node-image.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/node/owner.h"
#include "agent/node/wish-json.h"

#define JSON_FORMAT (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)

/* Prints one value and lets go of it. NULL: there was no memory for it. */
static int print_json(FILE *file, json_object *value) {
        const char *text;

        if (!value)
                return -ENOMEM;

        text = json_object_to_json_string_ext(value, JSON_FORMAT);
        if (text)
                (void) fputs(text, file);
        json_object_put(value);
        return text ? 0 : -ENOMEM;
}

static int print_string(FILE *file, const char *text) {
        return print_json(file, json_object_new_string(text));
}

/* What has been wanted long enough must not be done again after a restart. */
static bool is_expired(const Image *image, const Want *want) {
        return want->is_expired;
}

/* What became of it is not what the image's status says. */
static bool has_outcome(const Image *image, const Want *want) {
        return want->is_served && !want->is_expired &&
               image_status_for(image, want->owner, want->wish.name) != image_status(image);
}

/* One of the annotations that keep what a NodeImage has no place for, and which wants it is about. */
typedef struct Note {
        const char *key;
        bool (*is_noted)(const Image *image, const Want *want);
        json_object *(*to_json)(const Image *image, const Want *want);
} Note;

static const Note notes[] = {
        { NODE_IMAGE_EXPIRED, is_expired, served_want_to_json },
        { NODE_IMAGE_OUTCOMES, has_outcome, outcome_to_json },
};

static int note_collect(const Note *note, const Image *image, json_object *list) {
        for (const Want *want = image_wants(image); want; want = want->next) {
                json_object *item;

                if (!note->is_noted(image, want))
                        continue;

                item = note->to_json(image, want);
                if (!item || json_object_array_add(list, item) < 0) {
                        json_object_put(item);
                        return -ENOMEM;
                }
        }

        return 0;
}

static int note_print(const Note *note, const Images *images, FILE *file) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();
        int r = list ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < images_count(images); i++)
                r = note_collect(note, images_get(images, i), list);
        if (r < 0 || json_object_array_length(list) == 0)
                return r;

        (void) fprintf(file, ",\n      \"%s\": ", note->key);
        return print_string(file, json_object_to_json_string_ext(list, JSON_FORMAT));
}

static int print_metadata(const NodeImageOptions *options, FILE *file) {
        int r;

        (void) fputs("  \"metadata\": {\n    \"name\": ", file);
        r = print_string(file, options->node_name);
        if (r < 0)
                return r;

        (void) fputs(",\n    \"annotations\": {\n      \"inplaced.io/runtime\": ", file);
        r = print_string(file, options->runtime ?: "");
        if (r < 0)
                return r;

        for (size_t i = 0; r >= 0 && i < sizeof(notes) / sizeof(notes[0]); i++)
                r = note_print(&notes[i], options->images, file);
        (void) fputs("\n    }\n  },\n", file);
        return r;
}

static int print_spec_tag(const Image *image, FILE *file) {
        return print_json(file, wish_tag_to_json(image_wish(image), image));
}

static int print_status_tag(const Image *image, FILE *file) {
        return print_json(file, image_status_to_json(image_status(image), image_name(image),
                                                     image_tag(image)));
}

static int print_spec_rest(const Image *image, FILE *file) {
        cleanup(free_p) char *rest = NULL;
        int r;

        r = wish_shared_to_text(image_wish(image), &rest);
        if (r >= 0)
                (void) fputs(rest, file);
        return r;
}

static int print_nothing(const Image *image, FILE *file) {
        return 0;
}

typedef int (*PrintImage)(const Image *image, FILE *file);

/* An object of name → tags, of which each stands on a line of its own. rest adds members to the
 * object of a name, after its first tag is known. */
static int print_images(const Images *images, PrintImage print_tag, PrintImage print_rest,
                        FILE *file) {
        const Image *first = NULL; /* of the name that is being printed */
        int r = 0;

        for (size_t i = 0; r >= 0 && i < images_count(images); i++) {
                const Image *image = images_get(images, i);
                bool is_same = first && strcmp(image_name(first), image_name(image)) == 0;

                if (!image_is_wanted(image))
                        continue;
                if (!is_same) {
                        if (first) {
                                (void) fputs("\n      ]", file);
                                r = print_rest(first, file);
                                (void) fputs("},", file);
                        }
                        if (r >= 0) {
                                (void) fputs("\n      ", file);
                                r = print_string(file, image_name(image));
                        }
                        (void) fputs(": {\"tags\": [", file);
                        first = image;
                }
                if (r >= 0) {
                        (void) fputs(is_same ? ",\n        " : "\n        ", file);
                        r = print_tag(image, file);
                }
        }
        if (first && r >= 0) {
                (void) fputs("\n      ]", file);
                r = print_rest(first, file);
                (void) fputs("}\n    ", file);
        }

        return r;
}

static void print_counts(const Images *images, FILE *file) {
        size_t counts[_IMAGE_PHASE_MAX] = { 0 }, desired = 0;

        for (size_t i = 0; i < images_count(images); i++) {
                const Image *image = images_get(images, i);

                if (!image_is_wanted(image))
                        continue;
                counts[image_status(image)->phase]++;
                desired++;
        }

        (void) fprintf(file,
                       "    \"desired\": %zu,\n    \"succeeded\": %zu,\n    \"failed\": %zu,\n"
                       "    \"pulling\": %zu,\n    \"waiting\": %zu",
                       desired, counts[IMAGE_SUCCEEDED], counts[IMAGE_FAILED],
                       counts[IMAGE_PULLING], counts[IMAGE_WAITING]);
}

/* FNV-1a, 64 bit (http://www.isthe.com/chongo/tech/comp/fnv/). */
static uint64_t hash(uint64_t so_far, const void *data, size_t size) {
        const unsigned char *bytes = data;

        for (size_t i = 0; i < size; i++)
                so_far = (so_far ^ bytes[i]) * 1099511628211u;

        return so_far;
}

static uint64_t hash_text(uint64_t so_far, const char *text) {
        return text ? hash(so_far, text, strlen(text) + 1) : hash(so_far, "\1", 1);
}

static uint64_t hash_number(uint64_t so_far, int64_t number) {
        return hash(so_far, &number, sizeof(number));
}

uint64_t node_image_fingerprint(const Image *image) {
        const ImageStatus *status = image_status(image);
        uint64_t sum = 14695981039346656037u;

        sum = hash_number(sum, status->phase);
        sum = hash_number(sum, image_status_progress(status));
        sum = hash_number(sum, status->started_at);
        sum = hash_number(sum, status->completed_at);
        sum = hash_number(sum, status->version);
        sum = hash_text(sum, status->message);
        sum = hash_text(sum, status->image_id);
        for (const Want *want = image_wants(image); want; want = want->next) {
                sum = hash_text(sum, want->owner);
                sum = hash_number(sum, want->wish.version);
                sum = hash_number(sum, want->wish.policy);
                sum = hash_number(sum, want->is_expired);
                sum = hash_number(sum, want->is_served);
                sum = hash_number(sum, want->outcome ? want->outcome->completed_at : 0);
        }

        return sum > 0 ? sum : 1;
}

int node_image_write(const NodeImageOptions *options, FILE *file) {
        int r;

        (void) fputs("{\n  \"apiVersion\": \"apps.kruise.io/v1alpha1\",\n"
                     "  \"kind\": \"NodeImage\",\n",
                     file);
        r = print_metadata(options, file);
        if (r < 0)
                return r;

        (void) fputs("  \"spec\": {\n    \"images\": {", file);
        r = print_images(options->images, print_spec_tag, print_spec_rest, file);
        if (r < 0)
                return r;

        (void) fputs("}\n  },\n  \"status\": {\n", file);
        print_counts(options->images, file);
        (void) fputs(",\n    \"imageStatuses\": {", file);
        r = print_images(options->images, print_status_tag, print_nothing, file);
        if (r < 0)
                return r;

        (void) fputs("}\n  }\n}\n", file);
        return ferror(file) ? -EIO : 0;
}

int node_image_to_text(const NodeImageOptions *options, char **ret) {
        cleanup(free_p) char *text = NULL;
        size_t size;
        FILE *file;
        int r;

        file = open_memstream(&text, &size);
        if (!file)
                return -ENOMEM;

        r = node_image_write(options, file);
        if (fclose(file) != 0 && r >= 0)
                r = -ENOMEM;
        if (r < 0)
                return r;

        *ret = take_ptr(text);
        return 0;
}
