/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-show.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/view/terminal.h"

int rollout_show_init(RolloutShow *ret) {
        *ret = (RolloutShow){ .pods = json_object_new_object(), .table = pod_table_init() };
        announcer_begin(&ret->announcer);
        return ret->pods ? 0 : -ENOMEM;
}

int64_t rollout_show_still_sec(const RolloutShow *show) {
        return announcer_still_sec(&show->announcer);
}

void rollout_show_done(RolloutShow *show) {
        json_object_put(show->pods);
        pod_table_done(&show->table);
}

/* Changes, and their times */

/* An updated pod that is not ready any more, or has got other resources, is still one that was updated. */
static int keep_notes(json_object *entry, json_object *before) {
        static const char *const kept[] = { "first", "restarts", "generation" };

        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
                json_object *value;

                if (json_object_object_get_ex(before, kept[i], &value) &&
                    patch_add(entry, kept[i], json_object_get(value)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int note_updated(json_object *entry, const PodState *state) {
        int64_t generation =
                object_integer(state->pod, "metadata.generation") - pod_is_resizing(state->pod);

        if (json_object_object_get_ex(entry, "restarts", NULL))
                return 0;
        return patch_add(entry, "restarts", json_object_new_int64(state->n_restarts))
                       ?: patch_add(entry, "generation", json_object_new_int64(generation));
}

/* before: what was noted of the pod; may be the entry itself. */
static int note_seen(json_object *entry, json_object *before, const PodState *state) {
        int64_t seen = state->is_old_seen ? object_integer(state->pod, "metadata.generation")
                                          : json_get_integer(before, "seen");

        return json_get_integer(entry, "seen") == seen
                       ? 0
                       : patch_add(entry, "seen", json_object_new_int64(seen));
}

static int note_phase(RolloutShow *show, int64_t now_sec, json_object *before,
                      const PodState *state) {
        cleanup(json_object_put_p) json_object *entry =
                patch_wrap("phase", json_object_new_string(rollout_phase_to_string(state->phase)));

        announcer_begin(&show->announcer);
        if (patch_add(entry, "first", json_object_new_int64(state->n_restarts)) < 0 ||
            (state->phase != ROLLOUT_OLD && keep_notes(entry, before) < 0) ||
            patch_add(entry, "since", json_object_new_int64(now_sec)) < 0 ||
            patch_add_bool(entry, "silent", state->is_silent) < 0 ||
            note_seen(entry, before, state) < 0 ||
            (state->phase == ROLLOUT_UPDATED && note_updated(entry, state) < 0))
                return -ENOMEM;
        return patch_add(show->pods, object_name(state->pod), take_ptr(entry));
}

/* The containers that a pod has before it gets the images may restart as they like: only restarts from then on count. */
static int note_old(json_object *entry, const PodState *state) {
        return json_get_integer(entry, "first") == state->n_restarts
                       ? 0
                       : patch_add(entry, "first", json_object_new_int64(state->n_restarts));
}

/* Whether a line is worth it; without a terminal there is one for each change. */
static bool is_news(RolloutPhase phase, const char *before) {
        return phase != ROLLOUT_LEFT && phase != ROLLOUT_OLD &&
               (before || phase != ROLLOUT_UPDATED);
}

static int note_pods(RolloutShow *show, int64_t now_sec, const Census *census, bool is_live,
                     bool *ret_has_changed) {
        for (size_t i = 0; i < census->n_pods; i++) {
                const PodState *state = &census->pods[i];
                const char *name = object_name(state->pod);
                const char *phase = rollout_phase_to_string(state->phase);
                json_object *entry = json_get(show->pods, name, json_type_object);
                const char *before = json_get_text(entry, "phase");

                if (text_equal(before, phase)) {
                        if ((state->phase == ROLLOUT_OLD && note_old(entry, state) < 0) ||
                            note_seen(entry, entry, state) < 0)
                                return -ENOMEM;
                        continue;
                }
                if (!is_live && !show->is_quiet && is_news(state->phase, before))
                        (void) print_safe("pod/%s %s%s%s", name, phase, state->reason ? ": " : "",
                                          state->reason ?: "");
                *ret_has_changed = true;
                if (note_phase(show, now_sec, entry, state) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Explains a long wait, and does so again: the text may count down. */
static void explain_wait(RolloutShow *show, const char *awaited) {
        if (!awaited || !announcer_is_due(&show->announcer))
                return;

        if (show->is_quiet)
                complain("waiting %s", awaited);
        else
                (void) print_safe("waiting %s", awaited);
}

/* The table */

/* The short forms of both images are the same. */
static bool needs_whole_images(json_object *record) {
        json_object_object_foreach(record_images(record, true), container, image) {
                const char *before = json_object_get_string(image);
                const char *after = json_get_text(record_images(record, false), container);

                if (before && after && strcmp(image_short(before), image_short(after)) == 0)
                        return true;
        }
        return false;
}

/* Lists the images that the pod requests for the updated containers. */
static int format_images(json_object *pod, json_object *record, char **ret) {
        bool is_whole = needs_whole_images(record);
        size_t size = 0;
        bool is_first = true;
        FILE *stream = text_open(ret, &size);

        if (!stream)
                return -ENOMEM;
        json_object_object_foreach(record_target(record), container, ignored) {
                const char *image = template_written_image(pod, container);

                (void) ignored;
                (void) fprintf(stream, "%s%s", is_first ? "" : ",",
                               !image     ? "-"
                               : is_whole ? image
                                          : image_short(image));
                is_first = false;
        }
        return text_close(stream, ret);
}

static int add_row(RolloutShow *show, int64_t now_sec, json_object *record, const PodState *state) {
        const char *name = object_name(state->pod);
        json_object *noted = json_get(show->pods, name, json_type_object);
        const char *node = object_text(state->pod, "spec.nodeName");
        cleanup(free_p) char *images = NULL;
        int r = format_images(state->pod, record, &images);

        if (r < 0)
                return r;
        return pod_table_add(&show->table, name, node ? node : "-",
                             rollout_phase_to_string(state->phase), images,
                             now_sec - json_get_integer(noted, "since"));
}

/* All pods if there is room, else those that matter most. */
static int add_rows(RolloutShow *show, int64_t now_sec, json_object *record, const Census *census) {
        static const RolloutPhase by_weight[] = { ROLLOUT_FAILED, ROLLOUT_UPDATING,
                                                  ROLLOUT_DRAINING, ROLLOUT_OLD, ROLLOUT_UPDATED };
        bool has_room = census->n_concerned <= pod_table_room(&show->table);
        size_t n_passes = has_room ? 1 : sizeof(by_weight) / sizeof(by_weight[0]);

        for (size_t pass = 0; pass < n_passes; pass++)
                for (size_t i = 0; i < census->n_pods; i++) {
                        const PodState *state = &census->pods[i];

                        if (state->phase == ROLLOUT_LEFT ||
                            (!has_room && state->phase != by_weight[pass]) ||
                            pod_table_room(&show->table) == 0)
                                continue;
                        if (add_row(show, now_sec, record, state) < 0)
                                return -ENOMEM;
                }
        return 0;
}

/* The reason comes first, since the end may be cut; the table has the pod as well. */
static int format_awaited(const Census *census, const char *awaited, const char *pod, char **ret) {
        const char *reason = pod ? census_reason(census, pod) : NULL;

        return reason ? text_format(ret, "; %s: pod %s", reason, pod)
                      : text_format(ret, "; waiting %s", awaited);
}

static int draw(RolloutShow *show, int64_t now_sec, json_object *record, const Census *census,
                const char *awaited, const char *pod) {
        cleanup(free_p) char *line = NULL;
        cleanup(free_p) char *rest = NULL;
        int r = pod_table_begin(&show->table);

        if (r >= 0)
                r = add_rows(show, now_sec, record, census);
        if (r >= 0 && awaited)
                r = format_awaited(census, awaited, pod, &rest);
        if (r >= 0)
                r = text_format(&line, "%zu of %zu %supdated%s",
                                census->n_by_phase[ROLLOUT_UPDATED], census->n_concerned,
                                rest ? "" : "pods ", rest ?: "");
        show->drawn_sec = now_sec;
        return r < 0 ? r : pod_table_draw(&show->table, line);
}

static bool shows_table(const RolloutShow *show) {
        return !show->is_quiet && pod_table_is_possible();
}

int rollout_show(RolloutShow *show, int64_t now_sec, json_object *record, const Census *census,
                 const char *awaited, const char *pod) {
        bool is_live = shows_table(show), has_changed = false;
        int r = note_pods(show, now_sec, census, is_live, &has_changed);

        if (r < 0)
                return r;
        if (!is_live)
                explain_wait(show, awaited);
        else if (has_changed || now_sec != show->drawn_sec)
                r = draw(show, now_sec, record, census, awaited, pod);
        (void) fflush(stdout);
        return r;
}

int rollout_show_away(RolloutShow *show, const char *awaited) {
        cleanup(free_p) char *line = NULL;
        int r = 0;

        if (!shows_table(show)) {
                explain_wait(show, awaited);
                (void) fflush(stdout);
                return 0;
        }
        r = text_format(&line, "waiting %s", awaited);
        return r < 0 ? r : pod_table_draw_line(&show->table, line);
}

int rollout_show_end(RolloutShow *show, int64_t now_sec, json_object *record,
                     const Census *census) {
        int r = 0;

        if (pod_table_is_drawn(&show->table) && record)
                r = draw(show, now_sec, record, census, /* awaited= */ NULL, /* pod= */ NULL);
        pod_table_leave(&show->table);
        return r;
}
