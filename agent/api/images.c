/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/calls.h"
#include "agent/base/cleanup.h"
#include "agent/base/text.h"

/* More than the calls of all users but root. Each holds the runtime's list of images once it
 * arrives. */
#define LISTINGS_MAX 256

typedef Inplaced__V1__Image ImageMessage;

/* A caller that waits until the runtime has listed its images. */
struct ImageListing {
        LIST_LINKS(ImageListing);
        Api *api;
        RpcRequest *request;
        RpcCall *call;
};

void listing_drop(ImageListing *listing) {
        list_remove(&listing->api->listings, listing);
        listing->api->n_listings--;
        rpc_call_unref(listing->call);
        rpc_request_unref(listing->request);
        free(listing);
}

/* The message borrows the words. */
typedef struct ImageEntry {
        ImageMessage message;
        RequestedBy requested;
        Inplaced__V1__OnDemand on_demand;
        char *id;
} ImageEntry;

typedef struct ImageMessages {
        ImageEntry *items;
        ImageMessage **list;
        size_t n_items;
} ImageMessages;

static void image_messages_done(ImageMessages *messages) {
        for (size_t i = 0; i < messages->n_items; i++) {
                requested_by_done(&messages->items[i].requested);
                free(messages->items[i].id);
        }
        free(messages->items);
        free(messages->list);
}

/* Adds the layers on demand and the requesters of the image by one of its names. */
static int add_known(ImageEntry *entry, const Api *api, const char *reference) {
        Image *image;
        int r;

        r = images_find_reference(api->images, reference, &image);
        if (!image)
                return r;

        if (image_id_equal(image_status(image)->image_id, entry->id))
                entry->message.on_demand =
                        on_demand_message(&image_status(image)->on_demand, &entry->on_demand);
        return requested_by_add(&entry->requested, image);
}

static bool is_ours(const Api *api, char *const *names, size_t n_names) {
        for (size_t i = 0; i < n_names; i++)
                if (pins_has(api->pins, names[i]))
                        return true;

        return false;
}

/* Adds the owners of short names that the runtime resolves to the image. */
static int add_owners_by_id(RequestedBy *requested, const Api *api, const char *id) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < images_count(api->images); i++) {
                const Image *image = images_get(api->images, i);
                const ImageStatus *status = image_status(image);

                if (status->resolved && image_id_equal(status->image_id, id))
                        r = requested_by_add(requested, image);
        }

        return r;
}

/* Moves the plain texts to the front and counts them. */
static size_t keep_plain(char **texts, size_t n) {
        size_t n_kept = 0;

        for (size_t i = 0; i < n; i++) {
                char *text = texts[i];

                if (!text_is_plain(text))
                        continue;

                texts[i] = texts[n_kept];
                texts[n_kept++] = text;
        }

        return n_kept;
}

static int image_entry_init(ImageEntry *entry, const Api *api, CriImage *image) {
        ImageMessage *message = &entry->message;
        int r = 0;

        inplaced__v1__image__init(message);
        r = image_id_normalize(plain_text(image->id), &entry->id);
        message->id = entry->id;
        message->repo_tags = image->repo_tags;
        message->n_repo_tags = keep_plain(image->repo_tags, image->n_repo_tags);
        message->repo_digests = image->repo_digests;
        message->n_repo_digests = keep_plain(image->repo_digests, image->n_repo_digests);
        message->size_bytes = image->size;
        message->pinned = image->pinned;
        message->pinned_by_inplaced =
                image->pinned && (is_ours(api, message->repo_tags, message->n_repo_tags) ||
                                  is_ours(api, message->repo_digests, message->n_repo_digests));
        for (size_t i = 0; r >= 0 && i < message->n_repo_tags; i++)
                r = add_known(entry, api, message->repo_tags[i]);
        for (size_t i = 0; r >= 0 && i < message->n_repo_digests; i++)
                r = add_known(entry, api, message->repo_digests[i]);
        if (r >= 0)
                r = add_owners_by_id(&entry->requested, api, entry->id);
        message->requested_by = entry->requested.words;
        message->n_requested_by = entry->requested.n_words;
        return r;
}

static int reply_with(const Api *api, const CriImageList *list, ImageMessages *messages) {
        int r;

        messages->items = calloc(list->n_images + 1, sizeof(messages->items[0]));
        messages->list = calloc(list->n_images + 1, sizeof(messages->list[0]));
        if (!messages->items || !messages->list)
                return -ENOMEM;

        for (size_t i = 0; i < list->n_images; i++) {
                ImageEntry *entry = &messages->items[messages->n_items++];

                messages->list[i] = &entry->message;
                r = image_entry_init(entry, api, list->images[i]);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int on_listed(const void *message, const Error *error, void *userdata) {
        cleanup(image_messages_done) ImageMessages messages = { .items = NULL };
        cleanup(free_p) char *reason = NULL;
        Inplaced__V1__ListImagesResponse reply = INPLACED__V1__LIST_IMAGES_RESPONSE__INIT;
        ImageListing *listing = userdata;
        RpcRequest *request = take_ptr(listing->request);
        Api *api = listing->api;
        int r;

        listing_drop(listing);
        if (error) {
                r = text_format(&reason, "the runtime cannot be asked: %s", error_message(error));
                return api_refuse(api, request, error->kind, r < 0 ? error_message(error) : reason);
        }

        r = reply_with(api, message, &messages);
        if (r < 0) {
                rpc_request_unref(request);
                return r;
        }

        reply.images = messages.list;
        reply.n_images = messages.n_items;
        return api_reply(api, request, &reply.base);
}

int api_list_images(RpcRequest *request, const void *message, void *userdata) {
        Api *api = userdata;
        ImageListing *listing;

        if (api->n_listings == LISTINGS_MAX)
                return api_refuse(api, request, ERROR_UNAVAILABLE,
                                  "too many callers ask at the same time; try again later");
        if (!runtimes_are_alive(api->runtimes))
                return api_refuse(api, request, ERROR_UNAVAILABLE,
                                  diagnosis_runtime_sentence(api->runtimes));

        listing = calloc(1, sizeof(*listing));
        if (!listing)
                return -ENOMEM;

        listing->api = api;
        listing->request = request;
        list_prepend(&api->listings, listing);
        api->n_listings++;
        return cri_list_images(runtimes_client(api->runtimes), on_listed, listing, &listing->call);
}
