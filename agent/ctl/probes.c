/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/ctl/commands.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/format.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"

typedef Inplaced__V1__Probe Probe;

static const RpcMethod list_probes_method = {
        .path = "/inplaced.v1.Node/ListProbes",
        .reply = &inplaced__v1__list_probes_response__descriptor,
};

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

static const char *state_to_string(Inplaced__V1__ProbeState state) {
        switch (state) {
        case INPLACED__V1__PROBE_STATE__PROBE_STATE_SUCCEEDED: return "Succeeded";
        case INPLACED__V1__PROBE_STATE__PROBE_STATE_FAILED: return "Failed";
        default: return "Unknown";
        }
}

static uint64_t age_of(const Probe *probe, int64_t now) {
        return probe->since > 0 && now > probe->since ? (uint64_t) (now - probe->since) : 0;
}

static int add_row(Table *table, const Probe *probe, int64_t now) {
        FormatBuffer period, since, took, runs;
        const char *cells[] = {
                probe->namespace_,
                probe->pod,
                probe->container,
                probe->name,
                probe->kind,
                format_duration(probe->period_seconds, &period),
                runs.text,
                state_to_string(probe->state),
                probe->since > 0 ? format_age(age_of(probe, now), &since) : "-",
                probe->runs > 0 ? format_elapsed(probe->duration_usec, &took) : "-",
                probe->message,
        };

        snprintf(runs.text, sizeof(runs.text), "%llu", (unsigned long long) probe->runs);
        return table_add_row(table, cells);
}

static int print_table(const Inplaced__V1__ListProbesResponse *reply, bool is_wide) {
        cleanup(table_free_p) Table *table = NULL;
        int64_t now = time(NULL);
        int r;

        r = table_new(columns, sizeof(columns) / sizeof(columns[0]), is_wide, &table);
        if (r < 0)
                return r;

        for (size_t i = 0; i < reply->n_probes; i++) {
                r = add_row(table, reply->probes[i], now);
                if (r < 0)
                        return r;
        }

        return table_print(table);
}

static json_object *probe_json(const Probe *probe) {
        cleanup(json_put_p) json_object *object = json_object_new_object();

        if (!object || !output_add_string(object, "namespace", probe->namespace_) ||
            !output_add_string(object, "pod", probe->pod) ||
            !output_add_string(object, "container", probe->container) ||
            !output_add_string(object, "name", probe->name) ||
            !output_add_string(object, "kind", probe->kind) ||
            !output_add_number(object, "periodSeconds", probe->period_seconds) ||
            !output_add_string(object, "state", state_to_string(probe->state)) ||
            !output_add_number(object, "since", (uint64_t) probe->since) ||
            !output_add_number(object, "runs", probe->runs) ||
            !output_add_number(object, "durationMicroseconds", probe->duration_usec) ||
            !output_add_string(object, "message", probe->message))
                return NULL;

        return take_ptr(object);
}

static int print_document(const Inplaced__V1__ListProbesResponse *reply, OutputFormat format) {
        cleanup(json_put_p) json_object *tree = json_object_new_object();
        json_object *probes = json_object_new_array();

        if (!tree || !output_add(tree, "probes", probes))
                return -ENOMEM;

        for (size_t i = 0; i < reply->n_probes; i++)
                if (!output_append(probes, probe_json(reply->probes[i])))
                        return -ENOMEM;

        return output_tree(format, tree);
}

static int print_probes(const void *message, const Options *options) {
        const Inplaced__V1__ListProbesResponse *reply = message;
        int r;

        r = options_wants_table(options) ? print_table(reply, options->format == OUTPUT_WIDE)
                                         : print_document(reply, options->format);
        if (r < 0)
                return r;

        if (reply->n_probes == 0 && options->n_arguments > 0) {
                complain("no container of pod %s is probed by this agent", options->arguments[0]);
                return EXIT_STATUS_FAILED;
        }
        if (reply->n_probes == 0 && options_wants_table(options))
                puts("No probes are requested on this node.");
        return EXIT_STATUS_DONE;
}

int command_probes(const Options *options) {
        Inplaced__V1__ListProbesRequest request = INPLACED__V1__LIST_PROBES_REQUEST__INIT;

        if (options->n_arguments > 0)
                request.pod = options->arguments[0];
        request.namespace_ = (char *) (options->namespace ?: "");
        return node_ask(options, &list_probes_method, &request.base, print_probes, NULL);
}
