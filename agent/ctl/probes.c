/* SPDX-License-Identifier: Apache-2.0 */

#include <stdio.h>
#include <time.h>

#include "agent/ctl/ask.h"
#include "agent/ctl/commands.h"
#include "agent/ctl/message-json.h"
#include "agent/view/format.h"
#include "agent/view/output.h"
#include "agent/view/table.h"
#include "agent/view/terminal.h"
#include "proto/inplaced/v1/node.pb-c.h"

typedef Inplaced__V1__Probe Probe;

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "NAMESPACE"                    },
        { .title = "POD"                          },
        { .title = "CONTAINER"                    },
        { .title = "PROBE"                        },
        { .title = "KIND",      .is_wide = true   },
        { .title = "PERIOD",    .is_wide = true   },
        { .title = "RUNS",      .is_wide = true   },
        { .title = "STATE"                        },
        { .title = "SINCE"                        },
        { .title = "TOOK"                         },
        { .title = "MESSAGE",   .may_be_cut = true },
};
/* clang-format on */

static uint64_t age_of(const Probe *probe, int64_t now) {
        return probe->since > 0 && now > probe->since ? (uint64_t) (now - probe->since) : 0;
}

static int add_row(Table *table, const void *item, bool is_wide) {
        const Probe *probe = item;
        int64_t now = time(NULL);
        FormatBuffer period, since, took, runs, state;
        const char *cells[] = {
                probe->namespace_,
                probe->pod,
                probe->container,
                probe->name,
                probe->kind,
                format_duration(probe->period_seconds, &period),
                runs.text,
                enum_to_text(&inplaced__v1__probe_state__descriptor, (int) probe->state, &state),
                probe->since > 0 ? format_age(age_of(probe, now), &since) : "-",
                probe->runs > 0 ? format_elapsed(probe->duration_usec, &took) : "-",
                probe->message,
        };

        snprintf(runs.text, sizeof(runs.text), "%llu", (unsigned long long) probe->runs);
        return table_add_row(table, cells);
}

static int print_table(const void *message, const Options *options) {
        const Inplaced__V1__ListProbesResponse *reply = message;
        const char *namespace = options->namespace ?: "";
        int r;

        r = table_print_items(columns, sizeof(columns) / sizeof(columns[0]),
                              options->format == OUTPUT_WIDE, (const void *const *) reply->probes,
                              reply->n_probes, add_row);
        if (r >= 0 && reply->n_probes == 0 && options->n_arguments == 0)
                r = print_safe("No probes%s%s are requested on this node.",
                               namespace[0] ? " in namespace " : "", namespace);
        return r;
}

static int conclude(const void *message, const Options *options) {
        const Inplaced__V1__ListProbesResponse *reply = message;
        const char *namespace = options->namespace ?: "";

        if (reply->n_probes > 0 || options->n_arguments == 0)
                return EXIT_STATUS_DONE;

        complain("no container of pod %s%s%s is probed by this agent", options->arguments[0],
                 namespace[0] ? " in namespace " : "", namespace);
        return EXIT_STATUS_FAILED;
}

static const Question question = {
        .method = { .path = "/inplaced.v1.Node/ListProbes",
                    .reply = &inplaced__v1__list_probes_response__descriptor },
        .print = print_table,
        .conclude = conclude,
};

int command_probes(const Options *options) {
        Inplaced__V1__ListProbesRequest request = INPLACED__V1__LIST_PROBES_REQUEST__INIT;

        if (options->n_arguments > 0)
                request.pod = options->arguments[0];
        request.namespace_ = (char *) (options->namespace ?: "");
        return node_ask(&question, options, &request.base);
}
