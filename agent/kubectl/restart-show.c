/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/restart-show.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/clock.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/kubectl/workload.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"

void pod_restart_done(PodRestart *restart) {
        free(restart->pod);
        json_object_put(restart->containers);
        json_object_put(restart->before);
        free(restart->request);
        free(restart->why);
}

RestartShow restart_show_init(const Flags *flags, bool is_dry_run) {
        return (RestartShow){ .flags = flags,
                              .table = pod_table_init(),
                              .is_dry_run = is_dry_run,
                              .is_live = !output_is_document(flags->format) &&
                                         !flags->wants_names && !is_dry_run &&
                                         pod_table_is_possible() };
}

void restart_show_done(RestartShow *show) {
        pod_table_done(&show->table);
}

typedef enum Phase {
        PHASE_FAILED,
        PHASE_RESTARTING,
        PHASE_WAITING,
        PHASE_RESTARTED,
        _PHASE_MAX,
} Phase;

static Phase phase_of(const PodRestart *restart) {
        if (restart->end == RESTART_SUCCEEDED)
                return PHASE_RESTARTED;
        if (restart->end != RESTART_RUNNING)
                return PHASE_FAILED;
        return restart->has_begun ? PHASE_RESTARTING : PHASE_WAITING;
}

/* All pods if there is room, else those that matter most. */
static int add_rows(RestartShow *show, const PodRestart *items, size_t n_items) {
        static const char *const names[_PHASE_MAX] = { "failed", "restarting", "waiting",
                                                       "restarted" };
        bool has_room = n_items <= pod_table_room(&show->table);
        uint64_t now_usec = clock_monotonic_usec();
        int r = 0;

        for (Phase phase = 0; phase < (has_room ? 1 : _PHASE_MAX); phase++)
                for (size_t i = 0; r >= 0 && i < n_items; i++) {
                        const PodRestart *restart = &items[i];

                        if (has_room || phase_of(restart) == phase)
                                r = pod_table_add(&show->table, restart->pod,
                                                  object_text(restart->before, "spec.nodeName")
                                                          ?: "-",
                                                  names[phase_of(restart)], /* image= */ "-",
                                                  (int64_t) ((now_usec - restart->since_usec) /
                                                             1000000));
                }
        return r;
}

/* The reason comes first, since the end may be cut; the table has the pod as well. */
void restart_show_draw(RestartShow *show, const PodRestart *items, size_t n_items, const char *pod,
                       const char *why) {
        cleanup(free_p) char *line = NULL;
        size_t n_done = 0;

        for (size_t i = 0; i < n_items; i++)
                n_done += items[i].end == RESTART_SUCCEEDED;

        if (pod_table_begin(&show->table) < 0 || add_rows(show, items, n_items) < 0 ||
            text_format(&line, "%zu of %zu %srestarted%s%s%s%s", n_done, n_items,
                        why ? "" : "pods ", why ? "; " : "", why ?: "", why ? ": pod " : "",
                        why ? pod : "") < 0)
                return;

        (void) pod_table_draw(&show->table, line);
}

static void complain_of(const PodRestart *restart) {
        complain("pod/%s was not restarted: %s", restart->pod, restart->why ?: "no reason given");
}

void restart_show_end(RestartShow *show, const PodRestart *items, size_t n_items) {
        bool is_drawn = pod_table_is_drawn(&show->table);

        for (size_t i = 0; i < n_items; i++)
                is_drawn = is_drawn || items[i].has_begun;
        if (!show->is_live || !is_drawn)
                return;

        restart_show_draw(show, items, n_items, /* pod= */ NULL, /* why= */ NULL);
        pod_table_leave(&show->table);
        for (size_t i = 0; i < n_items; i++)
                if (items[i].end == RESTART_FAILED)
                        complain_of(&items[i]);
}

void restart_show_begun(const RestartShow *show, const PodRestart *restart) {
        if (show->is_live || show->is_dry_run || show->flags->wants_names ||
            output_is_document(show->flags->format))
                return;

        (void) print_safe("pod/%s restarting", restart->pod);
        (void) fflush(stdout);
}

void restart_show_ended(const RestartShow *show, const PodRestart *restart) {
        if (show->is_live)
                return;
        if (restart->end == RESTART_FAILED)
                complain_of(restart);
        else if (!output_is_document(show->flags->format))
                (void) print_safe("pod/%s%s%s", restart->pod,
                                  show->flags->wants_names ? ""
                                  : restart->is_gone       ? " gone"
                                                           : " restarted",
                                  show->is_dry_run && !show->flags->wants_names
                                          ? " (server dry run)"
                                          : "");
        (void) fflush(stdout);
}

void restart_show_say(RestartShow *show, const PodRestart *restart, const char *text) {
        pod_table_leave(&show->table);
        complain("pod/%s: %s", restart->pod, text);
}

int restart_show_document(const RestartShow *show, const PodRestart *items, size_t n_items) {
        cleanup(json_object_put_p) json_object *tree = json_object_new_object();
        json_object *list = json_object_new_array();

        if (patch_add(tree, "items", list) < 0)
                return -ENOMEM;

        for (size_t i = 0; i < n_items; i++) {
                const PodRestart *restart = &items[i];
                static const char *const ends[] = { "Running", "Succeeded", "Failed" };
                const char *why = restart->is_gone ? "the pod is gone" : restart->why;
                json_object *item = json_object_new_object();

                if (patch_append(list, item) < 0 || patch_add_text(item, "pod", restart->pod) < 0 ||
                    patch_add(item, "containers", json_object_get(restart->containers)) < 0 ||
                    patch_add_text(item, "phase",
                                   restart->has_begun ? ends[restart->end] : "NotBegun") < 0 ||
                    (why && patch_add_text(item, "message", why) < 0) ||
                    (restart->request && patch_add_text(item, "request", restart->request) < 0))
                        return -ENOMEM;
        }

        return output_tree(show->flags->format, tree);
}
