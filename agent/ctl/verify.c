/* SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "agent/ctl/ask.h"
#include "agent/ctl/commands.h"
#include "agent/ctl/message-json.h"
#include "agent/view/format.h"
#include "agent/view/output.h"
#include "agent/view/table.h"
#include "agent/view/terminal.h"
#include "proto/inplaced/v1/node.pb-c.h"

#define STALE "Stale" /* the agent's words for an environment */
#define UNKNOWN "Unknown"

typedef Inplaced__V1__VerifiedContainer Container;

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "NAMESPACE", .may_be_cut = true                    },
        { .title = "POD", .may_be_cut = true, .keeps_tail = true      },
        { .title = "CONTAINER", .may_be_cut = true                    },
        { .title = "IMAGE", .may_be_cut = true, .keeps_tail = true    },
        { .title = "NODE ID", .may_be_cut = true                      },
        { .title = "RUNNING ID", .may_be_cut = true                   },
        { .title = "VERDICT"                                          },
        { .title = "ENVIRONMENT", .may_be_cut = true, .is_optional = true },
        { .title = "MESSAGE", .is_wide = true                         },
};
/* clang-format on */

static const char *or_dash(const char *text) {
        return text[0] ? text : "-";
}

static const char *id_text(const char *id, bool is_wide, FormatBuffer *buffer) {
        return id[0] && !is_wide ? format_short_id(id, buffer) : or_dash(id);
}

static int add_row(Table *table, const void *item, bool is_wide) {
        const Container *container = item;
        FormatBuffer reference_id, running_id, verdict;

        return table_add_row(table,
                             (const char *const[]){
                                     container->namespace_,
                                     container->pod,
                                     container->container,
                                     or_dash(container->reference),
                                     id_text(container->reference_id, is_wide, &reference_id),
                                     id_text(container->running_id, is_wide, &running_id),
                                     enum_to_text(&inplaced__v1__verdict__descriptor,
                                                  (int) container->verdict, &verdict),
                                     or_dash(container->environment),
                                     container->message,
                             });
}

/* Without containers a sentence says so. */
static int print_table(const void *message, const Options *options) {
        const Inplaced__V1__VerifyResponse *reply = message;

        return reply->n_containers == 0
                       ? 0
                       : table_print_items(columns, sizeof(columns) / sizeof(columns[0]),
                                           options->format == OUTPUT_WIDE,
                                           (const void *const *) reply->containers,
                                           reply->n_containers, add_row);
}

/* A node without pods is fine; a named pod has to exist. */
static int conclude_nothing(const Options *options) {
        const char *namespace = options->namespace ?: "";
        const char *in = namespace[0] ? " in namespace " : "";
        int r = 0;

        if (options->n_arguments > 0) {
                complain("no container of pod %s%s%s runs on this node", options->arguments[0], in,
                         namespace);
                return EXIT_STATUS_FAILED;
        }

        if (options_wants_table(options))
                r = print_safe("No containers of pods%s%s run on this node.", in, namespace);
        return r < 0 ? r : EXIT_STATUS_DONE;
}

static int conclude(const void *message, const Options *options) {
        const Inplaced__V1__VerifyResponse *reply = message;
        size_t n_stale = 0, n_unknown = 0;

        if (reply->n_containers == 0)
                return conclude_nothing(options);

        for (size_t i = 0; i < reply->n_containers; i++) {
                const Container *container = reply->containers[i];

                if (container->verdict == INPLACED__V1__VERDICT__VERDICT_STALE ||
                    strcmp(container->environment, STALE) == 0)
                        n_stale++;
                else if (container->verdict != INPLACED__V1__VERDICT__VERDICT_CURRENT ||
                         strcmp(container->environment, UNKNOWN) == 0)
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

static const Question question = {
        .method = { .path = "/inplaced.v1.Node/Verify",
                    .reply = &inplaced__v1__verify_response__descriptor },
        .print = print_table,
        .conclude = conclude,
};

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
        return node_ask(&question, options, &request.base);
}
