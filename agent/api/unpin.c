/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>

#include "agent/api/calls.h"
#include "agent/base/cleanup.h"
#include "agent/node/owner.h"

#define IMAGES_MAX 4096

typedef Inplaced__V1__UnpinRequest UnpinMessage;
typedef Inplaced__V1__UnpinResult ResultMessage;

/* The result for each image; texts are borrowed from the request. */
typedef struct Results {
        ResultMessage *items;
        ResultMessage **list;
        size_t n_unpinned;
} Results;

static void results_done(Results *results) {
        free(results->items);
        free(results->list);
}

static bool may_unpin(const ImageRequest *request, const void *userdata) {
        return owner_is_request(request->owner) && may_withdraw(userdata, request);
}

static const char *describe(const Image *image, bool is_unpinned) {
        if (image && image_wants_pin(image))
                return is_unpinned ? "other requests still pin it, see: inplacectl images"
                                   : "no request of this user pins it, but others do, see: "
                                     "inplacectl images";

        return is_unpinned ? "" : "no request pins it";
}

static int unpin_one(Api *api, const Peer *peer, char *text, ResultMessage *result) {
        Image *image;
        int r;

        r = images_find_reference(api->images, text, &image);
        if (image)
                r = image_unpin(image, may_unpin, peer);
        if (r < 0)
                return r;

        inplaced__v1__unpin_result__init(result);
        result->image = plain_text(text);
        result->unpinned = r > 0;
        result->message = (char *) describe(image, r > 0);
        return 0;
}

/* Unpins all images or none. */
static int check(const Api *api, const UnpinMessage *message, Error *reterr) {
        ImageRef ref;
        int r = 0;

        if (message->n_images == 0 || message->n_images > IMAGES_MAX)
                return error_set(reterr, ERROR_INVALID, "give 1 to %d images", IMAGES_MAX);

        for (size_t i = 0; r >= 0 && i < message->n_images; i++)
                r = image_ref_parse(message->images[i], images_short_names(api->images), &ref,
                                    reterr);
        return r;
}

static int unpin(Api *api, const Peer *peer, const UnpinMessage *message, Results *results,
                 Error *reterr) {
        int r;

        r = check(api, message, reterr);
        if (r < 0)
                return r;

        results->items = calloc(message->n_images, sizeof(results->items[0]));
        results->list = calloc(message->n_images, sizeof(results->list[0]));
        if (!results->items || !results->list)
                return -ENOMEM;

        for (size_t i = 0; r >= 0 && i < message->n_images; i++) {
                results->list[i] = &results->items[i];
                r = unpin_one(api, peer, message->images[i], results->list[i]);
                results->n_unpinned += results->list[i]->unpinned;
        }

        /* As an accepted request: after a crash the pin must not come back. */
        return r >= 0 && results->n_unpinned > 0 ? state_file_write_now(api->state_file) : r;
}

int api_unpin(RpcRequest *request, const void *message, void *userdata) {
        Inplaced__V1__UnpinResponse reply = INPLACED__V1__UNPIN_RESPONSE__INIT;
        cleanup(results_done) Results results = { .items = NULL };
        cleanup(error_done) Error error = ERROR_INIT;
        const UnpinMessage *what = message;
        int r;

        r = unpin(userdata, rpc_request_peer(request), what, &results, &error);
        if (error.kind != ERROR_NONE)
                return api_refuse(userdata, request, error.kind, error_message(&error));
        if (r >= 0 && results.n_unpinned > 0)
                r = api_log_change(userdata, request, NULL, "Took the pin from %zu image%s",
                                   results.n_unpinned, results.n_unpinned == 1 ? "" : "s");
        if (r < 0) {
                rpc_request_unref(request);
                return r;
        }

        reply.results = results.list;
        reply.n_results = what->n_images;
        return api_reply(userdata, request, &reply.base);
}
