/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/pod-list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 16

static int compare(const Pod *pod, const char *namespace, const char *name) {
        int r = strcmp(pod->namespace, namespace);

        return r != 0 ? r : strcmp(pod->name, name);
}

/* The place of the first pod that is not before that name; whether it is the one. */
static size_t find_place(const PodList *list, const char *namespace, const char *name,
                         bool *ret_is_there) {
        size_t first = 0, end = list->n_items;

        while (first < end) {
                size_t middle = first + (end - first) / 2;

                if (compare(list->items[middle], namespace, name) < 0)
                        first = middle + 1;
                else
                        end = middle;
        }

        *ret_is_there = first < list->n_items && compare(list->items[first], namespace, name) == 0;
        return first;
}

static int list_make_room(PodList *list) {
        size_t n_room = list->n_room > 0 ? 2 * list->n_room : ROOM_MIN;
        Pod **items;

        if (list->n_items < list->n_room)
                return 0;

        items = reallocarray(list->items, n_room, sizeof(*items));
        if (!items)
                return -ENOMEM;

        list->items = items;
        list->n_room = n_room;
        return 0;
}

int pod_list_put(PodList *list, Pod **pod, Pod **ret_before) {
        Pod *before = NULL;
        bool is_there;
        size_t i;
        int r;

        i = find_place(list, (*pod)->namespace, (*pod)->name, &is_there);
        if (is_there) {
                before = list->items[i];
        } else {
                r = list_make_room(list);
                if (r < 0)
                        return r;

                memmove(&list->items[i + 1], &list->items[i],
                        (list->n_items - i) * sizeof(*list->items));
                list->n_items++;
        }

        list->items[i] = *pod;
        *pod = NULL;
        *ret_before = before;
        return 0;
}

Pod *pod_list_take(PodList *list, const char *namespace, const char *name) {
        bool is_there;
        size_t i = find_place(list, namespace, name, &is_there);
        Pod *pod;

        if (!is_there)
                return NULL;

        pod = list->items[i];
        list->n_items--;
        memmove(&list->items[i], &list->items[i + 1], (list->n_items - i) * sizeof(*list->items));
        return pod;
}

const Pod *pod_list_find(const PodList *list, const char *namespace, const char *name) {
        bool is_there;
        size_t i = find_place(list, namespace, name, &is_there);

        return is_there ? list->items[i] : NULL;
}

void pod_list_done(PodList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                pod_free(list->items[i]);
        free(list->items);
        *list = (PodList){ .n_items = 0 };
}
