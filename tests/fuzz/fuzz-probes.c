/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A NodePodProbe, from an attacker
 *
 * Each probe that is read has an identity of its own and a sane pace, and either a handler that stays in its
 * pod or a reason why it is not run. Merging all results into whatever status there was, and then once more,
 * changes nothing the second time.
 */

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/probe/probe-spec.h"
#include "tests/fuzz/fuzz.h"

static void check_spec(const ProbeSpec *spec) {
        check(spec->namespace[0] && spec->pod[0] && spec->uid[0]);
        check(spec->container[0] && spec->name[0]);
        check(spec->initial_delay_sec > 0 && spec->timeout_sec > 0 && spec->period_sec > 0);
        check(spec->success_threshold > 0 && spec->failure_threshold > 0);
        check(spec->refusal || (spec->handler.kind != HANDLER_NONE && !spec->handler.host));
        check(spec->handler.kind != HANDLER_SLEEP);
        check(probe_spec_runs_the_same(spec, spec));
}

static void merge(json_object *former, const ProbeSpecs *specs) {
        cleanup(free_p) ProbeReport *reports = calloc(specs->n_items + 1, sizeof(*reports));
        cleanup(json_object_put_p) json_object *first = NULL, *second = NULL;
        const ProbeResult result = { .state = PROBE_FAILED, .message = (char *) "x" };

        for (size_t i = 0; i < specs->n_items; i++)
                reports[i] = (ProbeReport){ .spec = &specs->items[i], .result = &result };
        if (probe_status_merge(former, reports, specs->n_items, &first) == PROBE_STATUS_SAME)
                first = json_object_get(former);
        check(probe_status_merge(first, reports, specs->n_items, &second) == PROBE_STATUS_SAME);
        for (size_t i = 0; i < specs->n_items; i++) {
                cleanup(probe_result_done) ProbeResult found = { .message = NULL };

                check(probe_status_find(first, specs->items[i].uid, specs->items[i].name, &found) ==
                      1);
                check(found.state == PROBE_FAILED && strcmp(found.message, "x") == 0);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(probe_specs_done) ProbeSpecs specs = PROBE_SPECS_INIT;
        cleanup(json_object_put_p) json_object *object = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        size_t n_refused;

        if (json_parse((const char *) data, size, &object, &error) < 0)
                return 0;
        if (probe_specs_read(object, &specs, &n_refused, &error) < 0) {
                check(error.kind == ERROR_INVALID && !strchr(error_message(&error), '\n'));
                check(specs.n_items == 0);
                return 0;
        }

        for (size_t i = 0; i < specs.n_items; i++) {
                check_spec(&specs.items[i]);
                check(i == 0 || probe_spec_compare(&specs.items[i - 1], specs.items[i].uid,
                                                   specs.items[i].name) < 0);
        }
        merge(probe_status_get(object), &specs);
        return 0;
}
