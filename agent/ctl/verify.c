/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/ctl/commands.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/format.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"
#include "proto/inplaced/v1/node.pb-c.h"

#define STALE "Stale" /* the agent's word for an environment */

typedef Inplaced__V1__VerifiedContainer Container;

static const RpcMethod verify_method = {
        .path = "/inplaced.v1.Node/Verify",
        .reply = &inplaced__v1__verify_response__descriptor,
};

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "NAMESPACE", .may_be_cut = true                    },
        { .title = "POD", .may_be_cut = true, .keeps_tail = true      },
        { .title = "CONTAINER", .may_be_cut = true                    },
        { .title = "IMAGE", .may_be_cut = true, .keeps_tail = true    },
        { .title = "NODE ID", .may_be_cut = true                      },
        { .title = "RUNNING ID", .may_be_cut = true                   },
        { .title = "VERDICT"                                          },
        { .title = "ENVIRONMENT", .may_be_cut = true                  },
        { .title = "MESSAGE", .is_wide = true                         },
};
/* clang-format on */

#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))
#define ENVIRONMENT 7 /* column that is shown only if a container has one */

static const char *verdict_to_string(Inplaced__V1__Verdict verdict) {
        switch (verdict) {
        case INPLACED__V1__VERDICT__VERDICT_CURRENT: return "Current";
        case INPLACED__V1__VERDICT__VERDICT_STALE: return STALE;
        default: return "Unknown";
        }
}

static const char *or_dash(const char *text) {
        return text[0] ? text : "-";
}

static const char *id_text(const char *id, bool is_wide, FormatBuffer *buffer) {
        return id[0] && !is_wide ? format_short_id(id, buffer) : or_dash(id);
}

/* Takes the column out of an array of columns or cells. */
static void leave_out(void *items, size_t size) {
        char *item = (char *) items + ENVIRONMENT * size;

        memmove(item, item + size, (N_COLUMNS - ENVIRONMENT - 1) * size);
}

static int add_row(Table *table, const Container *container, bool is_wide, bool has_environment) {
        FormatBuffer reference_id, running_id;
        const char *cells[N_COLUMNS] = {
                container->namespace_,
                container->pod,
                container->container,
                or_dash(container->reference),
                id_text(container->reference_id, is_wide, &reference_id),
                id_text(container->running_id, is_wide, &running_id),
                verdict_to_string(container->verdict),
                or_dash(container->environment),
                container->message,
        };

        if (!has_environment)
                leave_out(cells, sizeof(cells[0]));
        return table_add_row(table, cells);
}

static bool any_environment(const Inplaced__V1__VerifyResponse *reply) {
        for (size_t i = 0; i < reply->n_containers; i++)
                if (reply->containers[i]->environment[0])
                        return true;

        return false;
}

static int print_table(const Inplaced__V1__VerifyResponse *reply, bool is_wide) {
        bool has_environment = any_environment(reply);
        cleanup(table_free_p) Table *table = NULL;
        TableColumn shown[N_COLUMNS];
        int r;

        if (reply->n_containers == 0)
                return 0; /* a sentence says so */

        memcpy(shown, columns, sizeof(columns));
        if (!has_environment)
                leave_out(shown, sizeof(shown[0]));

        r = table_new(shown, has_environment ? N_COLUMNS : N_COLUMNS - 1, is_wide, &table);
        if (r < 0)
                return r;

        for (size_t i = 0; i < reply->n_containers; i++) {
                r = add_row(table, reply->containers[i], is_wide, has_environment);
                if (r < 0)
                        return r;
        }

        return table_print(table);
}

static json_object *container_json(const Container *container) {
        cleanup(json_put_p) json_object *object = json_object_new_object();

        if (!object || !output_add_string(object, "namespace", container->namespace_) ||
            !output_add_string(object, "pod", container->pod) ||
            !output_add_string(object, "container", container->container) ||
            !output_add_string(object, "image", container->reference) ||
            !output_add_string(object, "nodeImageID", container->reference_id) ||
            !output_add_string(object, "runningImageID", container->running_id) ||
            !output_add_string(object, "environment", container->environment) ||
            !output_add_string(object, "verdict", verdict_to_string(container->verdict)) ||
            !output_add_string(object, "message", container->message))
                return NULL;

        return take_ptr(object);
}

static int print_document(const Inplaced__V1__VerifyResponse *reply, OutputFormat format) {
        cleanup(json_put_p) json_object *tree = json_object_new_object();
        json_object *containers = json_object_new_array();

        if (!tree || !output_add(tree, "containers", containers))
                return -ENOMEM;

        for (size_t i = 0; i < reply->n_containers; i++)
                if (!output_append(containers, container_json(reply->containers[i])))
                        return -ENOMEM;

        return output_tree(format, tree);
}

/* A node without pods is fine; a named pod has to exist. */
static ExitStatus conclude_nothing(const Options *options) {
        if (options->n_arguments > 0) {
                complain("no container of pod %s runs on this node", options->arguments[0]);
                return EXIT_STATUS_FAILED;
        }

        if (options_wants_table(options))
                puts("No containers of pods run on this node.");
        return EXIT_STATUS_DONE;
}

static ExitStatus conclude(const Inplaced__V1__VerifyResponse *reply) {
        size_t n_stale = 0, n_unknown = 0;

        for (size_t i = 0; i < reply->n_containers; i++) {
                const Container *container = reply->containers[i];

                if (container->verdict == INPLACED__V1__VERDICT__VERDICT_STALE ||
                    strcmp(container->environment, STALE) == 0)
                        n_stale++;
                else if (container->verdict != INPLACED__V1__VERDICT__VERDICT_CURRENT)
                        n_unknown++;
        }

        if (n_stale > 0)
                complain("%zu of %zu containers are stale", n_stale, reply->n_containers);
        if (n_unknown > 0)
                complain("the state of %zu of %zu containers is unknown; see -o wide", n_unknown,
                         reply->n_containers);
        if (n_stale > 0)
                return EXIT_STATUS_PARTLY;
        return n_unknown > 0 ? EXIT_STATUS_FAILED : EXIT_STATUS_DONE;
}

static int print_verdicts(const void *message, const Options *options) {
        const Inplaced__V1__VerifyResponse *reply = message;
        int r;

        r = options_wants_table(options) ? print_table(reply, options->format == OUTPUT_WIDE)
                                         : print_document(reply, options->format);
        if (r < 0)
                return r;

        return (int) (reply->n_containers > 0 ? conclude(reply) : conclude_nothing(options));
}

int command_verify(const Options *options) {
        Inplaced__V1__VerifyRequest request = INPLACED__V1__VERIFY_REQUEST__INIT;

        if (options->n_arguments > 0 &&
            (!options->arguments[0][0] || strchr(options->arguments[0], '/'))) {
                complain("\"%s\" is no name of a pod; a namespace is given with --namespace",
                         options->arguments[0]);
                return EXIT_STATUS_USAGE;
        }

        if (options->n_arguments > 0)
                request.pod = options->arguments[0];
        request.namespace_ = (char *) (options->namespace ?: "");
        return node_ask(options, &verify_method, &request.base, print_verdicts, NULL);
}
