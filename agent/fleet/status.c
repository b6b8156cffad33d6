/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kubectl inplace status
 */

#include <stdio.h>
#include <string.h>

#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"
#include "agent/document/json-reader.h"
#include "agent/fleet/commands.h"
#include "agent/pod/pod.h"

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "POD" },
        { .title = "IMAGE", .may_be_cut = true, .keeps_tail = true },
        { .title = "VERIFIED" },
        { .title = "NODE", .may_be_cut = true },
};
/* clang-format on */

#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

static const char *verdict_of(json_object *pod) {
        json_object *conditions =
                json_get(json_get(pod, "status", json_type_object), "conditions", json_type_array);

        for (size_t i = 0; conditions && i < json_object_array_length(conditions); i++) {
                json_object *condition = json_object_array_get_idx(conditions, i);

                if (json_is(condition, "type", POD_VERIFIED_CONDITION))
                        return json_get_filled(condition, "reason") ?: "-";
        }

        return "-";
}

static int add_pod(json_object *pod, void *userdata) {
        json_object *spec = json_get(pod, "spec", json_type_object);
        json_object *containers = json_get(spec, "containers", json_type_array);
        json_object *first = containers ? json_object_array_get_idx(containers, 0) : NULL;
        const char *cells[N_COLUMNS] = {
                json_get_text(json_get(pod, "metadata", json_type_object), "name"),
                json_get_text(first, "image"),
                verdict_of(pod),
                json_get_filled(spec, "nodeName") ?: "-",
        };

        return table_add_row(userdata, cells);
}

int command_status(Session *session, const Flags *flags) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(table_free_p) Table *table = NULL;
        cleanup(free_p) char *query = NULL;
        KubePath path = { .version = "v1",
                          .namespace = flags->all_namespaces ? NULL : session_namespace(session),
                          .resource = "pods" };
        int r;

        r = table_new(columns, N_COLUMNS, flags->format == OUTPUT_WIDE, &table);
        if (r < 0)
                return r;
        r = kube_path_select(NULL, flags->selector, &query);
        if (r < 0)
                return r;

        path.query = query;
        r = session_list(session, &path, add_pod, table, &error);
        if (r < 0)
                return session_fail(session, r, &error);

        r = table_print(table);
        return r < 0 ? r : EXIT_STATUS_DONE;
}
