/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "agent/api/calls.h"
#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/image/image-ref.h"
#include "agent/node/node-image.h"

#define IMAGES_MAX 64 /* images in an event, so that an unread one takes little memory */

/* The state of an image at the caller. */
typedef struct Entry {
        const Image *image; /* borrowed as long as it is desired */
        uint64_t shown;     /* fingerprint of the sent state; 0: none */
        ShortNames names;   /* how the image was named there */
        bool is_pending;
} Entry;

/* A caller that follows the status. */
struct Watch {
        LIST_LINKS(Watch);
        Api *api;
        RpcRequest *request;
        Entry **entries; /* sorted by address */
        size_t n_entries;
        char **removed; /* names of images to remove at the caller */
        size_t n_removed;
        bool is_complete; /* all images of the begin of the call were sent */
        bool is_dirty;    /* something else than an image has changed */
};

static void clear_removed(Watch *watch) {
        for (size_t i = 0; i < watch->n_removed; i++)
                free(watch->removed[i]);
        free(take_ptr(watch->removed));
        watch->n_removed = 0;
}

void watch_drop(Watch *watch) {
        for (size_t i = 0; i < watch->n_entries; i++)
                free(watch->entries[i]);
        free(watch->entries);
        clear_removed(watch);
        list_remove(&watch->api->watches, watch);
        rpc_request_unref(watch->request);
        free(watch);
}

static int compare_address(const void *item, const void *key) {
        uintptr_t a = (uintptr_t) ((const Entry *) item)->image, b = (uintptr_t) key;

        return (a > b) - (a < b);
}

static int watch_add(Watch *watch, const Image *image, size_t at) {
        Entry *entry;

        entry = malloc(sizeof(*entry));
        if (!entry)
                return -ENOMEM;

        *entry = (Entry){ .image = image, .is_pending = true };
        if (sorted_insert(&watch->entries, &watch->n_entries, at, entry) < 0) {
                free(entry);
                return -ENOMEM;
        }

        return 0;
}

/* Writes the name under which the image was sent. A malformed reference has one name only. */
static int entry_reference(const Entry *entry, char **ret) {
        cleanup(free_p) char *name = NULL;
        ImageRef ref;
        int r;

        if (image_ref_parse(image_key(entry->image), SHORT_NAMES_SEARCHED, &ref, NULL) < 0)
                return image_ref_join(image_name(entry->image), image_tag(entry->image), ret);

        r = image_ref_shown_name(&ref, entry->names, &name);
        return r < 0 ? r : image_ref_join(name, image_tag(entry->image), ret);
}

/* Reports an image that was sent as removed, unless another one has its name now. */
static int watch_retract(Watch *watch, Entry *entry, char *reference) {
        cleanup(free_p) char *owned = reference;
        Image *other;
        int r;

        entry->shown = 0;
        r = images_find_reference(watch->api->images, reference, &other);
        if (r < 0 || (other && other != entry->image && image_is_desired(other)))
                return r;

        r = array_grow(&watch->removed, watch->n_removed, sizeof(watch->removed[0]));
        if (r >= 0)
                watch->removed[watch->n_removed++] = take_ptr(owned);
        return r;
}

static int watch_remove(Watch *watch, size_t at) {
        cleanup(free_p) Entry *entry = watch->entries[at];
        char *reference;
        int r;

        sorted_remove(watch->entries, &watch->n_entries, at);
        if (entry->shown == 0)
                return 0;

        r = entry_reference(entry, &reference);
        return r < 0 ? r : watch_retract(watch, entry, reference);
}

static bool has_other_names(const Watch *watch, const Entry *entry) {
        return entry->shown != 0 && entry->names != images_short_names(watch->api->images);
}

static int watch_note(Watch *watch, const Image *image) {
        bool is_known;
        Entry *entry;
        size_t at;

        is_known = sorted_find(watch->entries, watch->n_entries, compare_address, image, &at);
        if (!image_is_desired(image))
                return is_known ? watch_remove(watch, at) : 0;
        if (!is_known)
                return watch_add(watch, image, at);

        entry = watch->entries[at];
        entry->is_pending =
                entry->shown != node_image_fingerprint(image) || has_other_names(watch, entry);
        return 0;
}

/* Docker Hub's images get other names once the runtime is known. */
static int watch_rename(Watch *watch, Entry *entry) {
        cleanup(free_p) char *before = NULL, *now = NULL;
        int r;

        r = entry_reference(entry, &before);
        if (r >= 0)
                r = image_ref_join(image_name(entry->image), image_tag(entry->image), &now);
        if (r < 0 || text_equal(before, now))
                return r;

        return watch_retract(watch, entry, take_ptr(before));
}

/* Finds the next pending images. */
static int watch_take(Watch *watch, const Image **images, size_t *ret_n) {
        size_t n = 0;

        for (size_t i = 0; i < watch->n_entries && n < IMAGES_MAX; i++) {
                Entry *entry = watch->entries[i];
                int r;

                if (!entry->is_pending)
                        continue;

                r = has_other_names(watch, entry) ? watch_rename(watch, entry) : 0;
                if (r < 0)
                        return r;
                entry->is_pending = false;
                entry->shown = node_image_fingerprint(entry->image);
                entry->names = images_short_names(watch->api->images);
                images[n++] = entry->image;
        }

        *ret_n = n;
        return 0;
}

static bool has_pending(const Watch *watch) {
        for (size_t i = 0; i < watch->n_entries; i++)
                if (watch->entries[i]->is_pending)
                        return true;

        return false;
}

static int watch_send(Watch *watch) {
        Inplaced__V1__WatchEvent event = INPLACED__V1__WATCH_EVENT__INIT;
        cleanup(runtime_message_done) Inplaced__V1__Runtime chosen = { .endpoint = NULL };
        const Api *api = watch->api;
        const Runtime *runtime = runtimes_chosen(api->runtimes);
        const DiagnosisSource *cluster = &api->subject->cluster;
        cleanup(free_p) char *text = NULL;
        const Image *images[IMAGES_MAX];
        NodeImageOptions options = {
                .images = api->images,
                .node_name = api->node_name,
                .runtime = diagnosis_runtime_sentence(api->runtimes),
                .only = images,
        };
        int r;

        r = watch_take(watch, images, &options.n_only);
        if (r >= 0)
                r = node_image_to_text(&options, &text);
        if (r < 0)
                return r;

        if (runtime) {
                r = runtime_message_init(&chosen, api, runtime);
                if (r < 0)
                        return r;
                event.runtime = &chosen;
        }

        watch->is_complete = watch->is_complete || !has_pending(watch);
        event.node_image_json = text;
        event.removed = watch->removed;
        event.n_removed = watch->n_removed;
        event.is_complete = watch->is_complete;
        if (cluster->target)
                event.api_server = (char *) cluster->target(cluster->source);
        r = rpc_request_send(watch->request, &event.base);
        clear_removed(watch);
        watch->is_dirty = false;
        return r;
}

static int on_ready(RpcRequest *request, void *userdata) {
        Watch *watch = userdata;

        return watch->is_dirty || watch->n_removed > 0 || has_pending(watch) ? watch_send(watch)
                                                                             : 0;
}

static int on_gone(RpcRequest *request, void *userdata) {
        Watch *watch = userdata;

        api_count(watch->api, "Watch", ERROR_NONE);
        watch_drop(watch);
        return 0;
}

static int watch_flush(Watch *watch) {
        return rpc_request_can_send(watch->request) ? on_ready(watch->request, watch) : 0;
}

int watches_on_image(Api *api, const Image *image) {
        Watch *next;
        int r = 0;

        for (Watch *watch = api->watches; r >= 0 && watch; watch = next) {
                next = watch->next;
                r = watch_note(watch, image);
                if (r >= 0)
                        r = watch_flush(watch);
        }

        return r;
}

int watches_on_runtime(Api *api) {
        Watch *next;
        int r = 0;

        for (Watch *watch = api->watches; r >= 0 && watch; watch = next) {
                next = watch->next;
                watch->is_dirty = true;
                r = watch_flush(watch);
        }

        return r;
}

int api_watch(RpcRequest *request, const void *message, void *userdata) {
        cleanup(error_done) Error refusal = ERROR_INIT;
        RoomUse use = { .by_all = 0 };
        Api *api = userdata;
        Watch *watch;
        int r = 0;

        for (const Watch *other = api->watches; other; other = other->next)
                api_count_follower(&use, other->request, request);
        if (api_check_followers(&use, "callers that follow the status", request, &refusal) < 0)
                return api_refuse(api, request, refusal.kind, error_message(&refusal));

        watch = calloc(1, sizeof(*watch));
        if (!watch)
                return -ENOMEM;

        watch->api = api;
        watch->request = request;
        watch->is_dirty =
                true; /* an event without images also tells the caller that there are none */
        list_prepend(&api->watches, watch);
        rpc_request_open_stream(request, on_ready, on_gone, watch);
        for (size_t i = 0; r >= 0 && i < images_count(api->images); i++)
                r = watch_note(watch, images_get(api->images, i));
        return r;
}
