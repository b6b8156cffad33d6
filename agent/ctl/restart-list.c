/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/restart-list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/ctl/format.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"

#define USEC_PER_MSEC 1000
#define USEC_PER_SEC 1000000

typedef Inplaced__V1__RestartEvent Event;

static void event_free_p(Event **event) {
        inplaced__v1__restart_event__free_unpacked(*event, NULL);
}

static int event_copy(const Event *event, Event **ret) {
        size_t size = inplaced__v1__restart_event__get_packed_size(event);
        cleanup(free_p) uint8_t *packed = malloc(size + 1);
        Event *copy;

        if (!packed)
                return -ENOMEM;

        size = inplaced__v1__restart_event__pack(event, packed);
        copy = inplaced__v1__restart_event__unpack(NULL, size, packed);
        if (!copy)
                return -ENOMEM;

        *ret = copy;
        return 0;
}

static bool is_of(const RestartItem *item, const Event *event) {
        return strcmp(item->event->container, event->container) == 0 &&
               strcmp(item->event->pod, event->pod) == 0 &&
               strcmp(item->event->namespace_, event->namespace_) == 0;
}

static int find_or_add(RestartList *list, const Event *event, RestartItem **ret) {
        RestartItem *items;

        for (size_t i = 0; i < list->n_items; i++)
                if (is_of(&list->items[i], event)) {
                        *ret = &list->items[i];
                        return 0;
                }

        items = reallocarray(list->items, list->n_items + 1, sizeof(items[0]));
        if (!items)
                return -ENOMEM;

        list->items = items;
        items[list->n_items] = (RestartItem){ .event = NULL };
        *ret = &items[list->n_items];
        return 0;
}

int restart_list_apply(RestartList *list, const Event *event, uint64_t now_usec,
                       RestartItem **ret_item) {
        cleanup(event_free_p) Event *copy = NULL;
        RestartItem *item;
        Event *old;
        int r;

        r = event_copy(event, &copy);
        if (r < 0)
                return r;

        r = find_or_add(list, event, &item);
        if (r < 0)
                return r;

        if (!item->event)
                list->n_items++;
        old = item->event;
        item->event = take_ptr(copy);
        copy = old;

        if (event->phase == INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPING &&
            item->begun_usec == 0)
                item->begun_usec = now_usec;
        if (event->phase == INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPED &&
            item->stopped_usec == 0)
                item->stopped_usec = now_usec;
        *ret_item = item;
        return 0;
}

void restart_list_done(RestartList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                event_free_p(&list->items[i].event);
        free(list->items);
        *list = RESTART_LIST_INIT;
}

bool restart_list_is_finished(const RestartList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                if (!list->items[i].event->final)
                        return false;

        return list->n_items > 0;
}

ExitStatus restart_list_exit_status(const RestartList *list, bool must_run) {
        size_t n_done = 0, n_failed = 0;

        for (size_t i = 0; i < list->n_items; i++) {
                const Event *event = list->items[i].event;

                if (!event->final ||
                    event->phase == INPLACED__V1__RESTART_PHASE__RESTART_PHASE_FAILED)
                        n_failed++;
                else if (!must_run ||
                         event->phase == INPLACED__V1__RESTART_PHASE__RESTART_PHASE_RUNNING)
                        n_done++;
        }

        if (n_failed == list->n_items)
                return EXIT_STATUS_FAILED;
        return n_done == list->n_items ? EXIT_STATUS_DONE : EXIT_STATUS_PARTLY;
}

static const char *phase_to_string(Inplaced__V1__RestartPhase phase) {
        switch (phase) {
        case INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPING: return "Stopping";
        case INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPED: return "Stopped";
        case INPLACED__V1__RESTART_PHASE__RESTART_PHASE_RUNNING: return "Running";
        case INPLACED__V1__RESTART_PHASE__RESTART_PHASE_FAILED: return "Failed";
        default: return "Waiting";
        }
}

static void put_stopped(FILE *file, const RestartItem *item) {
        uint64_t usec = item->stopped_usec - item->begun_usec;

        fputs("stopped", file);
        if (item->begun_usec == 0)
                return;
        if (usec < USEC_PER_SEC)
                fprintf(file, " (%" PRIu64 " ms)", usec / USEC_PER_MSEC);
        else
                fprintf(file, " (%s)", format_elapsed(usec, FORMAT_BUFFER));
}

static void put_phase(FILE *file, const RestartItem *item, bool has_full_id) {
        const char *id = item->event->new_container_id;

        switch (item->event->phase) {
        case INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPING: fputs("stopping", file); break;
        case INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPED: put_stopped(file, item); break;
        case INPLACED__V1__RESTART_PHASE__RESTART_PHASE_RUNNING:
                fprintf(file, "running again as %s",
                        has_full_id ? id : format_short_id(id, FORMAT_BUFFER));
                break;
        case INPLACED__V1__RESTART_PHASE__RESTART_PHASE_FAILED: fputs("failed", file); break;
        default: fputs("waiting", file);
        }
}

char *restart_item_line(const RestartItem *item, bool has_full_id) {
        cleanup(free_p) char *text = NULL;
        const Event *event = item->event;
        size_t size;
        FILE *file;

        if (event->phase == INPLACED__V1__RESTART_PHASE__RESTART_PHASE_WAITING &&
            !event->message[0])
                return strdup("");

        file = open_memstream(&text, &size);
        if (!file)
                return NULL;

        fprintf(file, "%s/%s/%s  ", event->namespace_, event->pod, event->container);
        put_phase(file, item, has_full_id);
        if (event->message[0])
                fprintf(file, ": %s", event->message);
        return fclose(file) == 0 ? terminal_text_escape(text) : NULL;
}

static json_object *item_json(const Event *event) {
        cleanup(json_put_p) json_object *object = json_object_new_object();

        if (!object || !output_add_string(object, "namespace", event->namespace_) ||
            !output_add_string(object, "pod", event->pod) ||
            !output_add_string(object, "container", event->container) ||
            !output_add_string(object, "phase", phase_to_string(event->phase)) ||
            !output_add_string(object, "oldContainerID", event->old_container_id) ||
            !output_add_string(object, "newContainerID", event->new_container_id) ||
            !output_add_string(object, "message", event->message))
                return NULL;

        return take_ptr(object);
}

json_object *restart_list_json(const RestartList *list) {
        cleanup(json_put_p) json_object *tree = json_object_new_object();
        json_object *containers = json_object_new_array();

        if (!tree || !output_add(tree, "containers", containers))
                return NULL;

        for (size_t i = 0; i < list->n_items; i++)
                if (!output_append(containers, item_json(list->items[i].event)))
                        return NULL;

        return take_ptr(tree);
}
