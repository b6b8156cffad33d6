/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/sets.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/image/image-ref.h"
#include "agent/kubectl/preload-plan.h"
#include "agent/kubectl/sets-plan.h"
#include "agent/kubectl/workload.h"
#include "agent/view/output.h"
#include "agent/view/table.h"
#include "agent/view/terminal.h"

/* OpenKruise's manager would delete the object, and jobs without a selector would wait for it as for a node. */
static int find_path(Session *session, KubePath *ret, Error *reterr) {
        KubePath path = { .group = PRELOAD_GROUP, .resource = "nodeimages" };
        const char *jobs = NULL;
        int r = session_find_kruise(session, path.resource, &path.version, reterr);

        if (r >= 0)
                r = session_find_kruise(session, "imagepulljobs", &jobs, reterr);
        if (r < 0)
                return r;
        if (!path.version)
                return error_set(reterr, ERROR_UNSUPPORTED,
                                 "the cluster has no NodeImages (" PRELOAD_GROUP
                                 "): install inplaced's definitions");
        if (jobs)
                return error_set(reterr, ERROR_UNSUPPORTED,
                                 "OpenKruise takes each NodeImage for a node's: create an "
                                 "ImagePullJob with a selector and completionPolicy.type Never "
                                 "instead, which serves later nodes, too");

        *ret = path;
        return 0;
}

/* *ret is NULL if there is no such set. */
static int find_set(Session *session, const KubePath *path, json_object **ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *found = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r = session_get(session, path, &found, &error);

        *ret = NULL;
        if (error.kind == ERROR_NOT_FOUND)
                return 0;
        if (r < 0)
                return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
        if (!set_is_set(found))
                return error_set(reterr, ERROR_CONFLICT,
                                 "the NodeImage %s is a node's, and no set: choose another name",
                                 path->name);

        *ret = take_ptr(found);
        return 0;
}

static int print_done(Session *session, const Flags *flags, const char *outcome) {
        if (flags->wants_names)
                return print_safe("nodeimage." PRELOAD_GROUP "/%s", flags->set);

        return print_safe("set %s %s%s", flags->set, outcome,
                          session_is_dry_run(session) ? " (server dry run)" : "");
}

static int create(Session *session, const KubePath *all, const SetContent *content, Error *reterr) {
        cleanup(json_object_put_p) json_object *object = NULL;
        KubePath path = *all;
        char version[64];
        int r = set_make(content, &object, reterr);

        if (r < 0)
                return r;

        (void) snprintf(version, sizeof(version), PRELOAD_GROUP "/%s", path.version);
        path.name = NULL;
        r = patch_add_text(object, "apiVersion", version);
        return r < 0 ? r : session_create(session, &path, object, /* ret= */ NULL, reterr);
}

/* Returns 0 and sets *ret_outcome, a word. */
static int write_set(Session *session, const KubePath *path, const SetContent *content,
                     const char **ret_outcome, Error *reterr) {
        cleanup(json_object_put_p) json_object *set = NULL;
        cleanup(json_object_put_p) json_object *patch = NULL;
        int r = find_set(session, path, &set, reterr);

        *ret_outcome = set ? "configured" : "created";
        if (r < 0)
                return r;
        if (!set)
                return create(session, path, content, reterr);

        r = set_change(set, content, &patch, reterr);
        if (r < 0)
                return r;
        if (patch)
                return session_patch(session, path, KUBE_MERGE_PATCH, patch, /* ret= */ NULL,
                                     reterr);

        *ret_outcome = "unchanged";
        return 0;
}

static int withdraw(Session *session, const KubePath *path, Error *reterr) {
        cleanup(json_object_put_p) json_object *set = NULL;
        int r = find_set(session, path, &set, reterr);

        if (r < 0)
                return r;
        if (!set)
                return error_set(reterr, ERROR_NOT_FOUND,
                                 "there is no set %s: kubectl inplace preload --sets lists them",
                                 path->name);
        return session_delete(session, path, /* options= */ NULL, reterr);
}

int sets_write(Session *session, const Flags *flags, json_object *secrets) {
        SetContent content = {
                .name = flags->set,
                .selector = flags->selector,
                .images = (const char *const *) flags->arguments,
                .n_images = (size_t) flags->n_arguments,
                .namespace = session_namespace(session),
                .secrets = secrets,
                .first = flags->first,
                .parallelism = text_equal(flags->parallelism, "100%") ? "" : flags->parallelism,
        };
        cleanup(error_done) Error error = ERROR_INIT;
        const char *outcome = "withdrawn";
        KubePath path;
        int r = find_path(session, &path, &error);

        path.name = flags->set;
        content.now_sec = session_server_sec(session);
        if (r >= 0)
                r = flags->withdraw ? withdraw(session, &path, &error)
                                    : write_set(session, &path, &content, &outcome, &error);
        if (r < 0)
                return session_fail(session, r, &error);

        r = print_done(session, flags, outcome);
        return r < 0 ? r : EXIT_STATUS_DONE;
}

/* The list */

typedef struct SetRow {
        json_object *set;
        SetCount count;
        bool is_faulty;
} SetRow;

typedef struct SetRows {
        SetRow *items;
        size_t n_items;
} SetRows;

static void set_rows_done(SetRows *rows) {
        for (size_t i = 0; i < rows->n_items; i++)
                json_object_put(rows->items[i].set);
        free(rows->items);
}

static int add_set(json_object *object, void *userdata) {
        SetRows *rows = userdata;

        if (!set_is_set(object))
                return 0;
        if (array_grow(&rows->items, rows->n_items, sizeof(SetRow)) < 0)
                return -ENOMEM;

        rows->items[rows->n_items++] = (SetRow){ .set = json_object_get(object) };
        return 0;
}

static int count_node(json_object *object, void *userdata) {
        SetRows *rows = userdata;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < rows->n_items && !set_is_set(object); i++) {
                cleanup(error_done) Error error = ERROR_INIT;

                r = set_count(rows->items[i].set, object, &rows->items[i].count, &error);
                if (error.kind != ERROR_NONE) {
                        rows->items[i].is_faulty = true;
                        r = 0;
                }
        }
        return r;
}

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "SET" },
        { .title = "SELECTOR", .may_be_cut = true },
        { .title = "IMAGES", .is_right = true },
        { .title = "NODES", .is_right = true },
        { .title = "READY", .is_right = true },
        { .title = "FAILED", .is_right = true },
        { .title = "PARALLELISM", .is_right = true, .is_wide = true },
        { .title = "FIRST", .is_right = true, .is_wide = true },
};
/* clang-format on */

#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

static void show_limit(const SetRow *row, const char *annotation, char text[static 24]) {
        int64_t limit = set_limit(row->set, annotation);

        (void) snprintf(text, 24, limit > 0 ? "%" PRId64 : "-", limit);
}

static int add_row(Table *table, const SetRow *row) {
        const char *selector = set_selector(row->set);
        char images[24], nodes[24], ready[24], failed[24], parallelism[24], first[24];
        const char *cells[N_COLUMNS] = {
                object_name(row->set),
                row->is_faulty ? "(no label selector)"
                : selector[0]  ? selector
                               : "(all nodes)",
                images,
                nodes,
                ready,
                failed,
                parallelism,
                first,
        };

        (void) snprintf(images, sizeof(images), "%zu", set_n_images(row->set));
        (void) snprintf(nodes, sizeof(nodes), "%zu", row->count.n_nodes);
        (void) snprintf(ready, sizeof(ready), "%zu", row->count.n_ready);
        (void) snprintf(failed, sizeof(failed), "%zu", row->count.n_failed);
        show_limit(row, IMAGE_SET_PARALLELISM, parallelism);
        show_limit(row, IMAGE_SET_FIRST, first);
        return table_add_row(table, cells);
}

static int print_table(const Flags *flags, const SetRows *rows) {
        cleanup(table_free_p) Table *table = NULL;
        int r = table_new(columns, N_COLUMNS, flags->format == OUTPUT_WIDE, &table);

        for (size_t i = 0; r >= 0 && i < rows->n_items; i++)
                r = add_row(table, &rows->items[i]);
        return r < 0 ? r : table_print(table);
}

static int add_item(json_object *items, const SetRow *row) {
        json_object *item = json_object_new_object();
        json_object *images = object_at(row->set, "spec.images"); /* NULL: it has none */
        int r = patch_append(items, item);

        return r    ?: patch_add_text(item, "name", object_name(row->set))
                    ?: patch_add_text(item, "selector", set_selector(row->set))
                    ?: patch_add(item, "images",
                                 images ? json_object_get(images) : json_object_new_object())
                    ?: patch_add_nonzero(item, "parallelism", set_limit(row->set, IMAGE_SET_PARALLELISM))
                    ?: patch_add_nonzero(item, "first", set_limit(row->set, IMAGE_SET_FIRST))
                    ?: patch_add_number(item, "nodes", row->count.n_nodes)
                    ?: patch_add_number(item, "ready", row->count.n_ready)
                    ?: patch_add_number(item, "failed", row->count.n_failed);
}

static int print_tree(const Flags *flags, const SetRows *rows) {
        cleanup(json_object_put_p) json_object *items = json_object_new_array();
        cleanup(json_object_put_p) json_object *tree = NULL;

        for (size_t i = 0; i < rows->n_items; i++)
                if (add_item(items, &rows->items[i]) < 0)
                        return -ENOMEM;
        tree = patch_wrap("items", take_ptr(items));
        return tree ? output_tree(flags->format, tree) : -ENOMEM;
}

static int print_sets(const Flags *flags, const SetRows *rows) {
        int r = 0;

        if (output_is_document(flags->format))
                return print_tree(flags, rows);
        if (!flags->wants_names)
                return print_table(flags, rows);

        for (size_t i = 0; r >= 0 && i < rows->n_items; i++)
                r = print_safe("nodeimage." PRELOAD_GROUP "/%s", object_name(rows->items[i].set));
        return r;
}

int sets_list(Session *session, const Flags *flags) {
        cleanup(set_rows_done) SetRows rows = { .items = NULL };
        cleanup(error_done) Error error = ERROR_INIT;
        KubePath path;
        int r = find_path(session, &path, &error);

        if (r >= 0) {
                path.labels = IMAGE_SET_LABEL;
                r = session_list(session, &path, add_set, &rows, &error);
        }
        if (r >= 0 && rows.n_items > 0) {
                path.labels = NULL;
                r = session_list(session, &path, count_node, &rows, &error);
        }
        if (r < 0)
                return session_fail(session, r, &error);

        r = print_sets(flags, &rows);
        if (r >= 0 && rows.n_items == 0)
                complain("no image sets found");
        return r < 0 ? r : EXIT_STATUS_DONE;
}
