/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/calls.h"
#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/text.h"
#include "agent/node/owner.h"

#define IMAGES_MAX 4096

/* Pause between two attempts that callers force for an image: each asks its registry, with
 * credentials that are not the caller's. */
#define FORCED_PAUSE_USEC ((uint64_t) 5 * 1000000)
#define TOO_SOON "it was tried less than 5 s ago"

typedef Inplaced__V1__RetryRequest RetryMessage;
typedef Inplaced__V1__RetryResult ResultMessage;

/* The result for each image. */
typedef struct Results {
        ResultMessage **items;
        size_t n_items;
        size_t n_retried;
} Results;

static void results_done(Results *results) {
        for (size_t i = 0; i < results->n_items; i++) {
                free(results->items[i]->image);
                free(results->items[i]);
        }
        free(results->items);
}

/* A NodeImage's tag that has failed is final in its status. */
static bool may_be_retried(const ImageRequest *request, const void *userdata) {
        return !request->is_done || !owner_is_node_image(request->owner);
}

/* A request that ended while its caller waited is final as well, since that caller knows. A caller
 * that names the image requests it anew. */
static bool is_awaited(const ImageRequest *request, const void *userdata) {
        return may_be_retried(request, userdata) &&
               (!request->is_done || !owner_is_call(request->owner));
}

/* Takes the image's name over, also when it fails. The message is borrowed. */
static int results_add(Results *results, char *image, bool is_retried, const char *message) {
        ResultMessage *item = image ? malloc(sizeof(*item)) : NULL;

        if (!item || array_grow(&results->items, results->n_items, sizeof(item)) < 0) {
                free(item);
                free(image);
                return -ENOMEM;
        }

        inplaced__v1__retry_result__init(item);
        text_make_plain(image);
        item->image = image;
        item->retried = is_retried;
        item->message = (char *) message;
        results->items[results->n_items++] = item;
        results->n_retried += is_retried;
        return 0;
}

static bool is_of_call(const Image *image) {
        for (const ImageRequest *request = image_requests(image); request; request = request->next)
                if (!owner_is_call(request->owner))
                        return false;

        return true;
}

static bool is_too_soon(Image *image) {
        uint64_t forced_usec = image_marks(image)->forced_usec;

        return forced_usec != 0 && clock_monotonic_usec() - forced_usec < FORCED_PAUSE_USEC;
}

static int force(Image *image, ImageRequestFilter filter) {
        int r = is_too_soon(image) ? 0 : image_retry(image, filter, NULL);

        if (r > 0)
                image_marks(image)->forced_usec = clock_monotonic_usec();
        return r;
}

static bool is_failing(Image *image) {
        ImagePhase phase = image_status(image)->phase;

        return image_is_desired(image) &&
               (phase == IMAGE_FAILED || (phase == IMAGE_BACKING_OFF && is_too_soon(image)));
}

static const char *why_not_failed(Image *image) {
        if (diagnosis_is_of_node_image(image))
                return "its NodeImage has to request it with a new version";
        if (is_too_soon(image))
                return TOO_SOON;

        return is_of_call(image)
                       ? "its caller knows of the failure and has stopped waiting; name the "
                         "image to try it again"
                       : "it would fail again; correct what requests it";
}

/* Returns why there is no other attempt now. */
static const char *why_not(Image *image) {
        if (!image || !image_is_desired(image))
                return "it is not requested on this node; try: inplacectl pull";

        switch (image_status(image)->phase) {
        case IMAGE_FAILED: return why_not_failed(image);
        case IMAGE_SUCCEEDED: return "it is present";
        case IMAGE_MISSING: return "it was removed from the runtime; try: inplacectl pull";
        case IMAGE_BACKING_OFF:
                if (is_too_soon(image))
                        return TOO_SOON;
                break;
        case IMAGE_WAITING:
        case IMAGE_PULLING:
        case _IMAGE_PHASE_MAX: break;
        }

        return "an attempt is in progress";
}

static int retry_one(Api *api, const char *text, Results *results) {
        Image *image;
        int r;

        r = images_find_reference(api->images, text, &image);
        if (image)
                r = force(image, may_be_retried);
        if (r < 0)
                return r;

        return results_add(results, strdup(text), r > 0, r > 0 ? "" : why_not(image));
}

static int retry_named(Api *api, const RetryMessage *message, Results *results, Error *reterr) {
        ImageRef ref;
        int r = 0;

        if (message->n_images > IMAGES_MAX)
                return error_set(reterr, ERROR_INVALID, "more than %d images in one request",
                                 IMAGES_MAX);

        /* Retries all images or none. */
        for (size_t i = 0; r >= 0 && i < message->n_images; i++)
                r = image_ref_parse(message->images[i], images_short_names(api->images), &ref,
                                    reterr);
        for (size_t i = 0; r >= 0 && i < message->n_images; i++)
                r = retry_one(api, message->images[i], results);
        return r;
}

static char *reference_of(const Image *image) {
        char *text;

        return image_ref_join(image_name(image), image_tag(image), &text) < 0 ? NULL : text;
}

static int retry_failed(Api *api, Results *results) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < images_count(api->images); i++) {
                Image *image = images_get(api->images, i);
                /* The call goes on if its caller has gone. */
                bool is_shown = is_failing(image) && (is_too_soon(image) || !is_of_call(image));

                r = force(image, is_awaited);
                if (r > 0 || (r == 0 && is_shown))
                        r = results_add(results, reference_of(image), r > 0,
                                        r > 0 ? "" : why_not(image));
        }

        return r;
}

int api_retry(RpcRequest *request, const void *message, void *userdata) {
        Inplaced__V1__RetryResponse reply = INPLACED__V1__RETRY_RESPONSE__INIT;
        cleanup(results_done) Results results = { .items = NULL };
        cleanup(error_done) Error error = ERROR_INIT;
        const RetryMessage *retry = message;
        int r;

        if (retry->failed == (retry->n_images > 0))
                return api_refuse(userdata, request, ERROR_INVALID, "give either images or failed");

        r = retry->failed ? retry_failed(userdata, &results)
                          : retry_named(userdata, retry, &results, &error);
        if (error.kind != ERROR_NONE)
                return api_refuse(userdata, request, error.kind, error_message(&error));
        if (r < 0)
                return r;

        if (results.n_retried > 0) {
                r = api_log_change(userdata, request, NULL, "Trying %zu image%s again",
                                   results.n_retried, results.n_retried == 1 ? "" : "s");
                if (r < 0) {
                        rpc_request_unref(request);
                        return r;
                }
        }

        reply.results = results.items;
        reply.n_results = results.n_items;
        return api_reply(userdata, request, &reply.base);
}
