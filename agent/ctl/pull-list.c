/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/pull-list.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/ctl/terminal.h"

static PullItem *pull_list_find(const PullList *list, const char *image) {
        for (size_t i = 0; i < list->n_items; i++)
                if (strcmp(list->items[i].image, image) == 0)
                        return &list->items[i];

        return NULL;
}

static int replace_text(char **text, const char *by) {
        char *copy = strdup(by);

        if (!copy)
                return -ENOMEM;

        free(*text);
        *text = copy;
        return 0;
}

static void pull_item_done(PullItem *item) {
        free(item->label);
        free(item->image_id);
        free(item->reason);
        free(item->message);
}

static int pull_item_init(PullItem *item, const char *image, uint64_t now_usec) {
        *item = (PullItem){
                .image = image,
                .label = terminal_text_escape(image),
                .image_id = strdup(""),
                .reason = strdup(""),
                .message = strdup(""),
                .begun_usec = now_usec,
                .rate = RATE_INIT,
        };

        return item->label && item->image_id && item->reason && item->message ? 0 : -ENOMEM;
}

int pull_list_init(PullList *list, char *const *images, size_t n_images, uint64_t now_usec) {
        *list = (PullList){
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

int pull_list_apply(PullList *list, const Inplaced__V1__PreloadEvent *event, uint64_t now_usec,
                    PullItem **ret_item) {

        PullItem *item;
        int r;

        if (event->request_id[0]) {
                r = replace_text(&list->request_id, event->request_id);
                if (r < 0)
                        return r;
        }

        *ret_item = NULL;
        item = pull_list_find(list, event->image);
        if (!item || pull_item_is_finished(item))
                return 0;

        if (replace_text(&item->image_id, event->image_id) < 0 ||
            replace_text(&item->reason, event->reason) < 0 ||
            replace_text(&item->message, event->message) < 0)
                return -ENOMEM;

        item->phase = event->phase;
        item->step = event->step;
        item->attempt = event->attempt;
        /* The last event need not say again how much it was. */
        if (event->bytes_total > 0 || event->bytes_done > 0 || !pull_item_is_finished(item)) {
                item->bytes_done = event->bytes_done;
                item->bytes_total = event->bytes_total;
        }
        item->was_present = event->was_present;
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

                if (replace_text(&item->reason, reason) < 0 ||
                    replace_text(&item->message, message) < 0)
                        return -ENOMEM;

                item->phase = INPLACED__V1__PHASE__PHASE_FAILED;
                item->ended_usec = now_usec;
        }

        return 0;
}

size_t pull_list_count(const PullList *list, Inplaced__V1__Phase phase) {
        size_t n = 0;

        for (size_t i = 0; i < list->n_items; i++)
                n += list->items[i].phase == phase;

        return n;
}

bool pull_list_is_finished(const PullList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                if (!pull_item_is_finished(&list->items[i]))
                        return false;

        return true;
}

ExitStatus pull_list_exit_status(const PullList *list) {
        size_t n_failed = pull_list_count(list, INPLACED__V1__PHASE__PHASE_FAILED);

        if (n_failed == 0)
                return EXIT_STATUS_DONE;
        return n_failed < list->n_items ? EXIT_STATUS_PARTLY : EXIT_STATUS_FAILED;
}
