/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/pod-list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 16

static int compare_name(const Pod *a, const Pod *b) {
        int r = strcmp(a->namespace, b->namespace);

        return r != 0 ? r : strcmp(a->name, b->name);
}

static int compare_uid(const Pod *a, const Pod *b) {
        int r = strcmp(a->uid, b->uid);

        return r != 0 ? r : compare_name(a, b);
}

/* The place of the first pod that is not before the key. */
static size_t find_place(Pod *const *items, size_t n_items, const Pod *key,
                         int (*compare)(const Pod *a, const Pod *b)) {
        size_t first = 0, end = n_items;

        while (first < end) {
                size_t middle = first + (end - first) / 2;

                if (compare(items[middle], key) < 0)
                        first = middle + 1;
                else
                        end = middle;
        }

        return first;
}

static size_t find_by_name(const PodList *list, const Pod *key) {
        return find_place(list->by_name, list->n_items, key, compare_name);
}

static size_t find_by_uid(const PodList *list, const Pod *key) {
        return find_place(list->by_uid, list->n_items, key, compare_uid);
}

static void insert_at(Pod **items, size_t n_items, size_t i, Pod *pod) {
        memmove(&items[i + 1], &items[i], (n_items - i) * sizeof(*items));
        items[i] = pod;
}

static void remove_at(Pod **items, size_t n_items, size_t i) {
        memmove(&items[i], &items[i + 1], (n_items - i - 1) * sizeof(*items));
}

static int list_make_room(PodList *list) {
        size_t n_room = list->n_room > 0 ? 2 * list->n_room : ROOM_MIN;
        Pod **items;

        if (list->n_items < list->n_room)
                return 0;

        items = reallocarray(list->by_name, n_room, sizeof(*items));
        if (!items)
                return -ENOMEM;
        list->by_name = items;

        items = reallocarray(list->by_uid, n_room, sizeof(*items));
        if (!items)
                return -ENOMEM;
        list->by_uid = items;

        list->n_room = n_room;
        return 0;
}

/* The same pod as before keeps its places. Returns what it was. */
static Pod *list_replace(PodList *list, Pod *pod) {
        size_t i = find_by_name(list, pod);
        Pod *before = i < list->n_items ? list->by_name[i] : NULL;

        if (!before || compare_name(before, pod) != 0 || strcmp(before->uid, pod->uid) != 0)
                return NULL;

        list->by_uid[find_by_uid(list, before)] = pod;
        list->by_name[i] = pod;
        return before;
}

int pod_list_put(PodList *list, Pod **pod, Pod **ret_before) {
        Pod *before;
        int r;

        before = list_replace(list, *pod);
        if (!before) {
                r = list_make_room(list);
                if (r < 0)
                        return r;

                before = pod_list_take(list, (*pod)->namespace, (*pod)->name);
                insert_at(list->by_name, list->n_items, find_by_name(list, *pod), *pod);
                insert_at(list->by_uid, list->n_items, find_by_uid(list, *pod), *pod);
                list->n_items++;
        }

        *pod = NULL;
        *ret_before = before;
        return 0;
}

Pod *pod_list_take(PodList *list, const char *namespace, const char *name) {
        const Pod key = { .namespace = (char *) namespace, .name = (char *) name };
        size_t i = find_by_name(list, &key);
        Pod *pod;

        if (i == list->n_items || compare_name(list->by_name[i], &key) != 0)
                return NULL;

        pod = list->by_name[i];
        remove_at(list->by_uid, list->n_items, find_by_uid(list, pod));
        remove_at(list->by_name, list->n_items, i);
        list->n_items--;
        return pod;
}

const Pod *pod_list_find(const PodList *list, const char *namespace, const char *name) {
        const Pod key = { .namespace = (char *) namespace, .name = (char *) name };
        size_t i = find_by_name(list, &key);

        return i < list->n_items && compare_name(list->by_name[i], &key) == 0 ? list->by_name[i]
                                                                              : NULL;
}

const Pod *pod_list_find_uid(const PodList *list, const char *uid) {
        const Pod key = { .uid = (char *) uid, .namespace = (char *) "", .name = (char *) "" };
        size_t i = find_by_uid(list, &key);

        return i < list->n_items && strcmp(list->by_uid[i]->uid, uid) == 0 ? list->by_uid[i] : NULL;
}

void pod_list_done(PodList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                pod_free(list->by_name[i]);
        free(list->by_name);
        free(list->by_uid);
        *list = (PodList){ .n_items = 0 };
}
