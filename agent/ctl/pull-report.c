/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/pull-report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/ctl/format.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"

#define SHORT_ID_WIDTH 19 /* "sha256:" and 12 digits */

static const char *phase_to_string(Inplaced__V1__Phase phase) {
        switch (phase) {
        case INPLACED__V1__PHASE__PHASE_SUCCEEDED: return "Succeeded";
        case INPLACED__V1__PHASE__PHASE_FAILED: return "Failed";
        case INPLACED__V1__PHASE__PHASE_PULLING: return "Pulling";
        default: return "Waiting";
        }
}

static const char *step_to_string(Inplaced__V1__Step step) {
        switch (step) {
        case INPLACED__V1__STEP__STEP_QUEUED: return "queued";
        case INPLACED__V1__STEP__STEP_WAITING_FOR_RUNTIME: return "waiting";
        case INPLACED__V1__STEP__STEP_LOOKING: return "looking";
        case INPLACED__V1__STEP__STEP_RESOLVING: return "resolving";
        case INPLACED__V1__STEP__STEP_DOWNLOADING: return "downloading";
        case INPLACED__V1__STEP__STEP_UNPACKING: return "unpacking";
        case INPLACED__V1__STEP__STEP_BACKING_OFF: return "retrying";
        default: return "asking";
        }
}

static uint64_t item_bytes(const PullItem *item) {
        return item->bytes_total > item->bytes_done ? item->bytes_total : item->bytes_done;
}

/* What is not known is a dash: a hole would shift the columns behind it. */
static char *succeeded_text(const PullItem *item, bool has_full_id) {
        cleanup(free_p) char *id = terminal_text_escape(item->image_id[0] ? item->image_id : "-");
        const char *size = "-";
        FormatBuffer buffer;
        char *text;

        if (item->was_present)
                size = "present";
        else if (item_bytes(item) > 0)
                size = format_size(item_bytes(item), &buffer);

        if (!id ||
            asprintf(&text, "%.*s  %s  %s", has_full_id ? (int) strlen(id) : SHORT_ID_WIDTH, id,
                     size, format_elapsed(item->ended_usec - item->begun_usec, FORMAT_BUFFER)) < 0)
                return NULL;

        return text;
}

/* A message usually begins with the reason, since a NodeImage has no other place for it. */
static bool begins_with(const char *message, const char *reason) {
        size_t size = strlen(reason);

        return strncmp(message, reason, size) == 0 && message[size] == ':';
}

static char *failed_text(const PullItem *item) {
        const char *shown = item->reason[0] ? item->reason : "Unknown";
        cleanup(free_p) char *reason = terminal_text_escape(shown);
        cleanup(free_p) char *message = terminal_text_escape(item->message);
        char *text;

        if (!reason || !message ||
            asprintf(&text, "failed  %s%s%s", begins_with(item->message, shown) ? "" : reason,
                     message[0] && !begins_with(item->message, shown) ? ": " : "", message) < 0)
                return NULL;

        return text;
}

char *pull_report_line(const PullItem *item, const PullReportStyle *style) {
        size_t used = terminal_text_width(item->label);
        cleanup(free_p) char *text = NULL;
        char *line;

        if (item->phase == INPLACED__V1__PHASE__PHASE_SUCCEEDED)
                text = succeeded_text(item, style->has_full_id);
        else if (item->phase == INPLACED__V1__PHASE__PHASE_FAILED)
                text = failed_text(item);
        else
                text = strdup("requested");

        if (!text ||
            asprintf(&line, "%s%*s  %s", item->label,
                     used < style->name_width ? (int) (style->name_width - used) : 0, "", text) < 0)
                return NULL;

        return line;
}

static BarKind bar_kind(const PullItem *item) {
        switch (item->step) {
        case INPLACED__V1__STEP__STEP_DOWNLOADING:
                return item->bytes_total > 0 ? BAR_BYTES : BAR_MOVING;
        case INPLACED__V1__STEP__STEP_UNPACKING: return BAR_UNPACKING;
        case INPLACED__V1__STEP__STEP_RESOLVING: return BAR_MOVING;
        default: return BAR_NONE;
        }
}

int pull_report_bar(const PullItem *item, bool is_agent_away, unsigned tick, Bar *ret,
                    char **ret_note) {

        char *note;

        note = terminal_text_escape(is_agent_away ? "connecting again" : item->message);
        if (!note)
                return -ENOMEM;

        *ret = (Bar){
                .kind = is_agent_away ? BAR_NONE : bar_kind(item),
                .name = item->label,
                .step = is_agent_away ? "agent away" : step_to_string(item->step),
                .note = note,
                .bytes_done = item->bytes_done,
                .bytes_total = item->bytes_total,
                .bytes_per_sec = rate_get(&item->rate),
                .tick = tick,
        };
        *ret_note = note;
        return 0;
}

/* Without a text of its own json-c would write 0.1 as 0.10000000000000001. */
static json_object *seconds_json(uint64_t usec) {
        char text[40];

        snprintf(text, sizeof(text), "%.3f", (double) usec / 1e6);
        return json_object_new_double_s((double) usec / 1e6, text);
}

static json_object *item_json(const PullItem *item) {
        cleanup(json_put_p) json_object *object = json_object_new_object();
        bool is_finished = pull_item_is_finished(item);
        uint64_t usec = is_finished ? item->ended_usec - item->begun_usec : 0;

        if (!object || !output_add_string(object, "image", item->image) ||
            !output_add_string(object, "phase", phase_to_string(item->phase)) ||
            !output_add_string(object, "imageID", item->image_id) ||
            !output_add_string(object, "reason", item->reason) ||
            !output_add_string(object, "message", item->message) ||
            !output_add_number(object, "bytes", item_bytes(item)) ||
            !output_add(object, "seconds", seconds_json(usec)) ||
            !output_add_bool(object, "wasPresent", item->was_present))
                return NULL;

        return take_ptr(object);
}

json_object *pull_report_json(const PullList *list) {
        cleanup(json_put_p) json_object *tree = json_object_new_object();
        json_object *results = json_object_new_array();

        if (!tree || !output_add(tree, "results", results) ||
            !output_add_string(tree, "requestID", list->request_id))
                return NULL;

        for (size_t i = 0; i < list->n_items; i++)
                if (!output_append(results, item_json(&list->items[i])))
                        return NULL;

        return take_ptr(tree);
}
