/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/pull-list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/ctl/message-json.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/image/pull-reason.h"
#include "agent/view/failure.h"
#include "agent/view/format.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"

#define DEADLINE_EXCEEDED "DeadlineExceeded" /* reason, with the agent's spelling */
#define CANCELED "Canceled"                  /* likewise */
#define TIMEOUT "--timeout"
#define ATTEMPT_TIMEOUT "--attempt-timeout"
#define SHORT_ID_WIDTH 19 /* "sha256:" and 12 digits */

static PullItem *pull_list_find(const PullList *list, const char *image) {
        for (size_t i = 0; i < list->n_items; i++)
                if (strcmp(list->items[i].image, image) == 0)
                        return &list->items[i];

        return NULL;
}

static void pull_item_done(PullItem *item) {
        free(item->label);
        free(item->image_id);
        free(item->reason);
        free(item->message);
        free(item->cause);
}

static int pull_item_init(PullItem *item, const char *image, uint64_t now_usec) {
        *item = (PullItem){
                .image = image,
                .label = terminal_text_escape(image),
                .image_id = strdup(""),
                .reason = strdup(""),
                .message = strdup(""),
                .cause = strdup(""),
                .waits_usec = now_usec,
                .begun_usec = now_usec,
                .rate = RATE_INIT,
        };

        return item->label && item->image_id && item->reason && item->message && item->cause
                       ? 0
                       : -ENOMEM;
}

int pull_list_init(PullList *list, char *const *images, size_t n_images, int64_t timeout_sec,
                   uint64_t now_usec) {
        *list = (PullList){
                .timeout_sec = timeout_sec,
                .items = calloc(n_images ?: 1, sizeof(PullItem)),
                .request_id = strdup(""),
        };
        if (!list->items || !list->request_id)
                return -ENOMEM;

        for (size_t i = 0; i < n_images; i++) {
                int r;

                if (pull_list_find(list, images[i]))
                        continue;

                r = pull_item_init(&list->items[list->n_items++], images[i], now_usec);
                if (r < 0)
                        return r;
        }

        return 0;
}

void pull_list_done(PullList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                pull_item_done(&list->items[i]);

        free(list->items);
        free(list->request_id);
        *list = PULL_LIST_INIT;
}

bool pull_item_is_finished(const PullItem *item) {
        return item->phase == INPLACED__V1__PHASE__PHASE_SUCCEEDED ||
               item->phase == INPLACED__V1__PHASE__PHASE_FAILED;
}

/* No attempt is possible, for a reason that may last for ever. */
static bool is_waiting(Inplaced__V1__Step step) {
        return step == INPLACED__V1__STEP__STEP_WAITING_FOR_RUNTIME ||
               step == INPLACED__V1__STEP__STEP_WAITING_FOR_DISK ||
               step == INPLACED__V1__STEP__STEP_INSPECTING;
}

const char *pull_item_stage(const PullItem *item) {
        switch (item->step) {
        case INPLACED__V1__STEP__STEP_QUEUED: return "still waiting for its turn";
        case INPLACED__V1__STEP__STEP_WAITING_FOR_RUNTIME:
                return "still waiting for the container runtime";
        case INPLACED__V1__STEP__STEP_WAITING_FOR_DISK: return "still waiting for free disk space";
        case INPLACED__V1__STEP__STEP_WAITING_FOR_POD: return "still waiting for a pod";
        case INPLACED__V1__STEP__STEP_INSPECTING:
                return "still waiting for the container runtime to answer";
        case INPLACED__V1__STEP__STEP_RESOLVING: return "still resolving the reference";
        case INPLACED__V1__STEP__STEP_DOWNLOADING: return "still downloading";
        case INPLACED__V1__STEP__STEP_UNPACKING: return "still unpacking";
        default: return "still waiting for inplaced";
        }
}

/* The message may be why no attempt is made; that of a wait for disk outlasts the wait. */
static bool has_failed_attempt(const PullItem *item) {
        return item->message[0] && item->step != INPLACED__V1__STEP__STEP_WAITING_FOR_RUNTIME &&
               item->step != INPLACED__V1__STEP__STEP_WAITING_FOR_DISK &&
               item->step != INPLACED__V1__STEP__STEP_WAITING_FOR_POD &&
               pull_reason_from_string(item->reason) != PULL_REASON_DISK_PRESSURE;
}

/* The command ends it before the agent does, and keeps the known error behind the reason. */
static int item_end(PullItem *item, const char *reason, const char *why, uint64_t now_usec) {
        bool has_failed = has_failed_attempt(item);
        char *message;

        if (text_format(&message, "%s; %s%s%s", why,
                        has_failed ? "the last attempt failed with " : pull_item_stage(item),
                        item->message[0] && !has_failed ? ": " : "", item->message) < 0)
                return -ENOMEM;

        free(item->message);
        item->message = message;
        if (has_failed) {
                free(item->cause);
                item->cause = take_ptr(item->reason);
        }
        free(item->reason);
        item->reason = strdup(reason);
        item->phase = INPLACED__V1__PHASE__PHASE_FAILED;
        item->ended_usec = now_usec;
        return item->reason ? 0 : -ENOMEM;
}

static int item_expire(PullItem *item, const char *option, int64_t limit_sec, uint64_t now_usec) {
        cleanup(free_p) char *why = NULL;

        if (text_format(&why, "not pulled within the %s of %s",
                        format_duration((uint64_t) limit_sec, FORMAT_BUFFER), option) < 0)
                return -ENOMEM;

        item->option = option;
        return item_end(item, DEADLINE_EXCEEDED, why, now_usec);
}

/* The agent's time limit begins later than the command's. */
static bool is_past_timeout(const PullList *list, const PullItem *item,
                            const Inplaced__V1__PreloadEvent *event, uint64_t now_usec) {
        return list->timeout_sec > 0 && event->phase == INPLACED__V1__PHASE__PHASE_FAILED &&
               strcmp(event->reason, DEADLINE_EXCEEDED) == 0 &&
               now_usec - item->begun_usec >= (uint64_t) list->timeout_sec * USEC_PER_SEC;
}

static uint64_t retry_usec_of(const Inplaced__V1__PreloadEvent *event, uint64_t now_usec,
                              int64_t now_sec) {
        if (event->next_attempt_time == 0)
                return 0;

        return now_usec + (event->next_attempt_time > now_sec
                                   ? (uint64_t) (event->next_attempt_time - now_sec) * USEC_PER_SEC
                                   : 0);
}

int pull_list_apply(PullList *list, const Inplaced__V1__PreloadEvent *event, uint64_t now_usec,
                    int64_t now_sec, PullItem **ret_item) {

        PullItem *item;
        int r;

        if (event->request_id[0]) {
                r = text_set(&list->request_id, event->request_id);
                if (r < 0)
                        return r;
        }

        *ret_item = NULL;
        item = pull_list_find(list, event->image);
        if (!item || pull_item_is_finished(item))
                return 0;
        if (is_past_timeout(list, item, event, now_usec)) {
                *ret_item = item;
                return item_expire(item, TIMEOUT, list->timeout_sec, now_usec);
        }

        if (text_set(&item->image_id, event->image_id) < 0 ||
            text_set(&item->reason, event->reason) < 0 ||
            text_set(&item->message, event->message) < 0)
                return -ENOMEM;

        item->phase = event->phase;
        item->attempt = event->attempt;
        if (!is_waiting(event->step))
                item->waits_usec = 0;
        else if (item->waits_usec == 0)
                item->waits_usec = now_usec;
        if (item->bytes_done != event->bytes_done || item->step != event->step)
                item->moved_usec = now_usec;
        item->step = event->step;
        item->retry_usec = retry_usec_of(event, now_usec, now_sec);
        item->bytes_done = event->bytes_done;
        item->bytes_total = event->bytes_total;
        item->is_counted = event->bytes_fetched_presence_case ==
                           INPLACED__V1__PRELOAD_EVENT__BYTES_FETCHED_PRESENCE_BYTES_FETCHED;
        item->bytes_fetched = item->is_counted ? event->bytes_fetched : 0;
        item->was_present = event->was_present;
        item->on_demand =
                event->on_demand ? *event->on_demand : (Inplaced__V1__OnDemand){ .layers = 0 };
        item->ended_usec = now_usec;
        *ret_item = item;
        return 0;
}

int pull_list_fail_rest(PullList *list, const char *reason, const char *message,
                        uint64_t now_usec) {

        for (size_t i = 0; i < list->n_items; i++) {
                PullItem *item = &list->items[i];

                if (pull_item_is_finished(item))
                        continue;

                if (text_set(&item->reason, reason) < 0 || text_set(&item->message, message) < 0)
                        return -ENOMEM;

                item->phase = INPLACED__V1__PHASE__PHASE_FAILED;
                item->ended_usec = now_usec;
        }

        return 0;
}

int pull_list_cancel(PullList *list, uint64_t now_usec) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < list->n_items; i++)
                if (!pull_item_is_finished(&list->items[i]))
                        r = item_end(&list->items[i], CANCELED, "interrupted", now_usec);
        return r;
}

void pull_list_wait(PullList *list, uint64_t now_usec) {
        for (size_t i = 0; i < list->n_items; i++)
                if (list->items[i].waits_usec == 0)
                        list->items[i].waits_usec = now_usec;
}

int pull_list_end_at_timeout(PullList *list, uint64_t now_usec) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < list->n_items; i++)
                if (!pull_item_is_finished(&list->items[i]))
                        r = item_expire(&list->items[i], TIMEOUT, list->timeout_sec, now_usec);
        return r;
}

int pull_list_end_waits(PullList *list, int64_t timeout_sec, uint64_t now_usec,
                        uint64_t *ret_next_usec) {
        uint64_t timeout_usec = (uint64_t) timeout_sec * USEC_PER_SEC;
        uint64_t next_usec = now_usec + timeout_usec;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < list->n_items; i++) {
                PullItem *item = &list->items[i];
                uint64_t end_usec = item->waits_usec + timeout_usec;

                if (pull_item_is_finished(item) || item->waits_usec == 0)
                        continue;
                if (end_usec <= now_usec)
                        r = item_expire(item, ATTEMPT_TIMEOUT, timeout_sec, now_usec);
                else if (end_usec < next_usec)
                        next_usec = end_usec;
        }

        *ret_next_usec = next_usec;
        return r;
}

size_t pull_list_count_step(const PullList *list, Inplaced__V1__Step step) {
        size_t n = 0;

        for (size_t i = 0; i < list->n_items; i++)
                n += !pull_item_is_finished(&list->items[i]) && list->items[i].step == step;

        return n;
}

size_t pull_list_count_unbegun(const PullList *list) {
        size_t n = 0;

        for (size_t i = 0; i < list->n_items; i++)
                n += !pull_item_is_finished(&list->items[i]) &&
                     list->items[i].reported_attempt == 0 &&
                     list->items[i].step == INPLACED__V1__STEP__STEP_QUEUED;

        return n;
}

size_t pull_list_count_failed(const PullList *list) {
        size_t n = 0;

        for (size_t i = 0; i < list->n_items; i++)
                n += list->items[i].phase == INPLACED__V1__PHASE__PHASE_FAILED;

        return n;
}

bool pull_list_is_finished(const PullList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                if (!pull_item_is_finished(&list->items[i]))
                        return false;

        return true;
}

ExitStatus pull_list_exit_status(const PullList *list) {
        size_t n_failed = pull_list_count_failed(list);

        for (size_t i = 0; i < list->n_items; i++)
                if (list->items[i].option && strcmp(list->items[i].option, TIMEOUT) == 0)
                        return EXIT_STATUS_TIMEOUT;

        return exit_status_of(n_failed > 0, n_failed < list->n_items);
}

/* Prints a dash for an unknown value, since a gap would shift the columns behind it. */
static char *succeeded_text(const PullItem *item, bool has_full_id) {
        cleanup(free_p) char *id = terminal_text_escape(item->image_id[0] ? item->image_id : "-");
        cleanup(free_p) char *note = terminal_text_escape(item->message);
        const char *size = "-";
        FormatBuffer buffer;
        char *text;

        if (item->was_present)
                size = "present";
        else if (item->is_counted)
                size = format_size(item->bytes_fetched, &buffer);

        if (!id || !note ||
            text_format(&text, "%.*s  %s  %s%s%s", has_full_id ? (int) strlen(id) : SHORT_ID_WIDTH,
                        id, size,
                        format_elapsed(item->ended_usec - item->begun_usec, FORMAT_BUFFER),
                        note[0] ? "  " : "", note) < 0)
                return NULL;

        return text;
}

/* A message usually begins with the reason, since a NodeImage has no other place for it. */
static bool begins_with(const char *message, const char *reason) {
        size_t size = strlen(reason);

        return strncmp(message, reason, size) == 0 && message[size] == ':';
}

char *pull_item_failure(const PullItem *item) {
        const char *shown = item->reason[0] ? item->reason : "Unknown";
        cleanup(free_p) char *reason = terminal_text_escape(shown);
        cleanup(free_p) char *message = terminal_text_escape(item->message);
        char *text;

        if (!reason || !message ||
            text_format(&text, "%s%s%s", begins_with(item->message, shown) ? "" : reason,
                        message[0] && !begins_with(item->message, shown) ? ": " : "", message) < 0)
                return NULL;

        return text;
}

char *pull_item_retry(const PullItem *item, const Options *options, uint64_t now_usec) {
        const char *limit = "";
        FormatBuffer wait;
        char *text;

        if (!options->n_attempts && !options->timeout_sec)
                limit = !options->has_attempts && failure_is_refusal(item->message)
                                ? " (--attempts, --timeout)"
                                : ", until it is there (--attempts, --timeout)";

        if (item->retry_usec <= now_usec)
                (void) text_format(&text, "trying again%s", limit);
        else
                (void) text_format(&text, "trying again in %s%s",
                                   format_duration((item->retry_usec - now_usec + USEC_PER_SEC -
                                                    1) / USEC_PER_SEC,
                                                   &wait),
                                   limit);
        return text;
}

static char *failed_text(const PullItem *item) {
        cleanup(free_p) char *failure = pull_item_failure(item);
        char *text;

        return failure && text_format(&text, "failed  %s", failure) >= 0 ? text : NULL;
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

        if (!text || text_format(&line, "%s%*s  %s", item->label,
                                 used < style->name_width ? (int) (style->name_width - used) : 0,
                                 "", text) < 0)
                return NULL;

        return line;
}

/* Without a text of its own json-c would write 0.1 as 0.10000000000000001. */
static json_object *seconds_json(uint64_t usec) {
        char text[40];

        snprintf(text, sizeof(text), "%.3f", (double) usec / 1e6);
        return json_object_new_double_s((double) usec / 1e6, text);
}

static json_object *item_json(const PullItem *item) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        bool is_finished = pull_item_is_finished(item);
        FormatBuffer phase;
        uint64_t usec = is_finished ? item->ended_usec - item->begun_usec : 0;

        if (patch_add_text(object, "image", item->image) < 0 ||
            patch_add_text(object, "phase",
                           enum_to_text(&inplaced__v1__phase__descriptor, (int) item->phase,
                                        &phase)) < 0 ||
            patch_add_text(object, "imageID", item->image_id) < 0 ||
            patch_add_text(object, "reason", item->reason) < 0 ||
            patch_add_text(object, "message", item->message) < 0 ||
            (item->is_counted && patch_add_number(object, "bytes", item->bytes_fetched) < 0) ||
            patch_add(object, "seconds", seconds_json(usec)) < 0 ||
            patch_add_bool(object, "wasPresent", item->was_present) < 0 ||
            (item->on_demand.layers > 0 &&
             patch_add(object, "onDemand", json_from_message(&item->on_demand)) < 0))
                return NULL;

        return take_ptr(object);
}

json_object *pull_report_json(const PullList *list) {
        cleanup(json_object_put_p) json_object *tree = json_object_new_object();
        json_object *results = json_object_new_array();

        if (patch_add(tree, "results", results) < 0 ||
            patch_add_text(tree, "requestID", list->request_id) < 0)
                return NULL;

        for (size_t i = 0; i < list->n_items; i++)
                if (patch_append(results, item_json(&list->items[i])) < 0)
                        return NULL;

        return take_ptr(tree);
}
