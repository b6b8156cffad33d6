/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/ctl/ask.h"
#include "agent/ctl/commands.h"
#include "agent/view/format.h"
#include "agent/view/output.h"
#include "agent/view/table.h"
#include "proto/inplaced/v1/node.pb-c.h"

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
        (void) text_format(&names, "%s (+%zu)", shorter, image->n_repo_tags - 1);
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
        (void) text_format(&text, "%s%s on demand", on_demand->counted ? "" : "?/",
                           on_demand->counted ? format_share(size - missing, size, FORMAT_BUFFER)
                                              : format_size(size, FORMAT_BUFFER));
        return text;
}

static int add_row(Table *table, const void *item, bool is_wide) {
        const Inplaced__V1__Image *image = item;
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
                                            !image->pinned              ? "no"
                                            : image->pinned_by_inplaced ? "inplaced"
                                                                        : "other",
                                            requested_by[0] ? requested_by : "-",
                                    });
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

static int print_table(const void *message, const Options *options) {
        const Inplaced__V1__ListImagesResponse *reply = message;

        return table_print_items(columns, sizeof(columns) / sizeof(columns[0]),
                                 options->format == OUTPUT_WIDE,
                                 (const void *const *) reply->images, reply->n_images, add_row);
}

static int sort_and_print(const void *message, const Options *options);

static const Question question = {
        .method = { .path = "/inplaced.v1.Node/ListImages",
                    .reply = &inplaced__v1__list_images_response__descriptor },
        .take = sort_and_print,
        .print = print_table,
};

static int sort_and_print(const void *message, const Options *options) {
        const Inplaced__V1__ListImagesResponse *reply = message;

        if (reply->n_images > 0)
                qsort(reply->images, reply->n_images, sizeof(reply->images[0]), compare_images);
        return reply_print(&question, reply, options);
}

int command_images(const Options *options) {
        Inplaced__V1__ListImagesRequest request = INPLACED__V1__LIST_IMAGES_REQUEST__INIT;

        return node_ask(&question, options, &request.base);
}
