/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/commands.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/format.h"
#include "agent/ctl/view.h"
#include "proto/inplaced/v1/node.pb-c.h"

static const RpcMethod images_method = {
        .path = "/inplaced.v1.Node/ListImages",
        .reply = &inplaced__v1__list_images_response__descriptor,
};

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "ID"                                            },
        { .title = "NAMES",     .may_be_cut = true, .keeps_tail = true },
        { .title = "DIGESTS",   .is_wide = true                    },
        { .title = "SIZE",      .is_right = true                   },
        { .title = "PINNED"                                        },
        { .title = "REQUESTED BY", .may_be_cut = true                 },
};
/* clang-format on */

/* Texts joined with commas; "" if there are none. NULL if there is no memory. */
static char *text_join(char *const *texts, size_t n) {
        size_t size = 1;
        char *joined, *end;

        for (size_t i = 0; i < n; i++)
                size += strlen(texts[i]) + 1;

        joined = end = malloc(size);
        if (!joined)
                return NULL;

        *end = '\0';
        for (size_t i = 0; i < n; i++) {
                if (i > 0)
                        end = stpcpy(end, ",");
                end = stpcpy(end, texts[i]);
        }

        return joined;
}

/* Makes a name for people: a tag, else a digest, and the number of the others. NULL: no memory. */
static char *short_names(const Inplaced__V1__Image *image) {
        const char *name = image->n_repo_tags > 0      ? image->repo_tags[0]
                           : image->n_repo_digests > 0 ? image->repo_digests[0]
                                                       : "-";
        cleanup(free_p) char *shorter = format_short_digest(name);
        char *names;

        if (!shorter || image->n_repo_tags < 2)
                return take_ptr(shorter);
        if (asprintf(&names, "%s (+%zu)", shorter, image->n_repo_tags - 1) < 0)
                return NULL;

        return names;
}

/* "10.1 MB", or, if only a part may be there, "0.1/10.1 MB on demand". NULL: no memory. */
static char *size_text(const Inplaced__V1__Image *image) {
        const Inplaced__V1__OnDemand *on_demand = image->on_demand;
        uint64_t size = image->size_bytes, missing;
        char *text;

        if (!on_demand)
                return strdup(format_size(size, FORMAT_BUFFER));

        missing = on_demand->bytes_total - on_demand->bytes_present;
        missing = missing < size ? missing : size;
        return asprintf(&text, "%s%s on demand", on_demand->counted ? "" : "?/",
                        on_demand->counted ? format_share(size - missing, size, FORMAT_BUFFER)
                                           : format_size(size, FORMAT_BUFFER)) < 0
                       ? NULL
                       : text;
}

static int add_row(Table *table, const Inplaced__V1__Image *image, bool is_wide) {
        cleanup(free_p) char *names =
                is_wide ? text_join(image->repo_tags, image->n_repo_tags) : short_names(image);
        cleanup(free_p) char *digests = text_join(image->repo_digests, image->n_repo_digests);
        cleanup(free_p) char *requested_by = text_join(image->requested_by, image->n_requested_by);
        cleanup(free_p) char *size = size_text(image);
        FormatBuffer id;

        if (!names || !digests || !requested_by || !size)
                return -ENOMEM;

        return table_add_row(table, (const char *const[]){
                                            is_wide ? image->id : format_short_id(image->id, &id),
                                            names[0] ? names : "-",
                                            digests[0] ? digests : "-",
                                            size,
                                            image->pinned ? "yes" : "no",
                                            requested_by[0] ? requested_by : "-",
                                    });
}

static int print_table(const Inplaced__V1__ListImagesResponse *reply, bool is_wide) {
        cleanup(table_free_p) Table *table = NULL;
        int r;

        r = table_new(columns, sizeof(columns) / sizeof(columns[0]), is_wide, &table);
        if (r < 0)
                return r;

        for (size_t i = 0; i < reply->n_images; i++) {
                r = add_row(table, reply->images[i], is_wide);
                if (r < 0)
                        return r;
        }

        return table_print(table);
}

static json_object *image_json(const Inplaced__V1__Image *image) {
        cleanup(json_put_p) json_object *object = json_object_new_object();

        if (!object || !output_add_string(object, "id", image->id) ||
            !output_add_strings(object, "repoTags", image->repo_tags, image->n_repo_tags) ||
            !output_add_strings(object, "repoDigests", image->repo_digests,
                                image->n_repo_digests) ||
            !output_add_number(object, "sizeBytes", image->size_bytes) ||
            !output_add_bool(object, "pinned", image->pinned) ||
            !output_add_strings(object, "requestedBy", image->requested_by,
                                image->n_requested_by) ||
            !output_add_on_demand(object, image->on_demand))
                return NULL;

        return take_ptr(object);
}

static int print_document(const Inplaced__V1__ListImagesResponse *reply, OutputFormat format) {
        cleanup(json_put_p) json_object *tree = json_object_new_object();
        json_object *images = json_object_new_array();

        if (!tree || !output_add(tree, "images", images))
                return -ENOMEM;

        for (size_t i = 0; i < reply->n_images; i++)
                if (!output_append(images, image_json(reply->images[i])))
                        return -ENOMEM;

        return output_tree(format, tree);
}

/* Returns the name to sort by; images without one come last. */
static const char *name_of(const Inplaced__V1__Image *image) {
        return image->n_repo_tags > 0      ? image->repo_tags[0]
               : image->n_repo_digests > 0 ? image->repo_digests[0]
                                           : "\x7F";
}

static int compare_images(const void *a, const void *b) {
        const Inplaced__V1__Image *const *x = a, *const *y = b;
        int order = strcmp(name_of(*x), name_of(*y));

        return order != 0 ? order : strcmp((*x)->id, (*y)->id);
}

static int print_images(const void *message, const Options *options) {
        const Inplaced__V1__ListImagesResponse *reply = message;
        int r;

        if (reply->n_images > 0)
                qsort(reply->images, reply->n_images, sizeof(reply->images[0]), compare_images);
        r = options_wants_table(options) ? print_table(reply, options->format == OUTPUT_WIDE)
                                         : print_document(reply, options->format);
        return r < 0 ? r : EXIT_STATUS_DONE;
}

int command_images(const Options *options) {
        Inplaced__V1__ListImagesRequest request = INPLACED__V1__LIST_IMAGES_REQUEST__INIT;

        return node_ask(options, &images_method, &request.base, print_images, NULL);
}
