/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/image/pull-failure.h"
#include "agent/node/api-internal.h"
#include "agent/node/owner.h"
#include "agent/node/preload-event.h"

#define IMAGES_MAX 4096
#define TTL_SEC_DEFAULT 600
#define ID_SIZE 17

typedef Inplaced__V1__PreloadRequest PreloadMessage;

/* One image of a request. */
typedef struct PreloadItem {
        char *asked; /* as the caller wrote it */
        char *name;  /* NULL: what was written is no reference, and the refusal says why */
        char *tag;
        ImageStatus refusal;
        const Image *image; /* NULL: nobody wants it any more */
        bool is_pending;    /* the caller does not know the newest state */
        bool is_finished;   /* and the caller knows */
} PreloadItem;

/* A caller that is being told what becomes of its images. */
struct Preload {
        LIST_LINKS(Preload);
        Api *api;
        RpcRequest *request;
        char id[ID_SIZE];
        char *owner;
        bool detach;
        PreloadItem *items;
        size_t n_items;
        size_t n_unfinished;
        size_t next_item; /* to look at, so that each has its turn */
};

static inline void preload_drop_p(Preload **preload) {
        if (*preload)
                preload_drop(*preload);
}

Preload *preload_next(const Preload *preload) {
        return preload->next;
}

const char *preload_owner(const Preload *preload) {
        return preload->owner;
}

size_t preload_n_images(const Preload *preload) {
        return preload->n_items;
}

void preload_drop(Preload *preload) {
        for (size_t i = 0; i < preload->n_items; i++) {
                free(preload->items[i].asked);
                free(preload->items[i].name);
                free(preload->items[i].tag);
                image_status_done(&preload->items[i].refusal);
        }
        free(preload->items);
        free(preload->owner);
        list_remove(&preload->api->preloads, preload);
        rpc_request_unref(preload->request);
        free(preload);
}

static bool is_wanted(const Preload *preload, const Image *image) {
        for (const Want *want = image_wants(image); want; want = want->next)
                if (strcmp(want->owner, preload->owner) == 0)
                        return true;

        return false;
}

static ImageStatus canceled_status(void) {
        return (ImageStatus){
                .phase = IMAGE_FAILED,
                .reason = PULL_REASON_CANCELED,
                .message = (char *) "Canceled: nobody wants the image any more",
        };
}

/* What becomes of the image for others, earlier or with other limits, is nothing to the caller. */
static ImageStatus status_of(const Preload *preload, const PreloadItem *item) {
        const ImageStatus *status;

        if (!item->name)
                return item->refusal; /* borrowed for the event, as is the other one */
        if (!item->image || !is_wanted(preload, item->image))
                return canceled_status();

        status = image_status_for(item->image, preload->owner, item->name);
        return status ? *status
                      : (ImageStatus){ .phase = IMAGE_WAITING, .step = IMAGE_STEP_QUEUED };
}

static int preload_end(Preload *preload) {
        RpcRequest *request = take_ptr(preload->request);

        preload->api->on_request("Preload", ERROR_NONE, preload->api->userdata);
        preload_drop(preload);
        return rpc_request_finish(request, NULL);
}

static PreloadItem *preload_find_pending(Preload *preload) {
        for (size_t i = 0; i < preload->n_items; i++) {
                PreloadItem *item = &preload->items[(preload->next_item + i) % preload->n_items];

                if (!item->is_pending)
                        continue;

                preload->next_item = (preload->next_item + i + 1) % preload->n_items;
                return item;
        }

        return NULL;
}

static int preload_send(Preload *preload, PreloadItem *item) {
        ImageStatus status = status_of(preload, item);
        Inplaced__V1__PreloadEvent event;

        preload_event_init(&event, preload->id, item->asked, &status);
        item->is_pending = false;
        if (image_phase_is_final(status.phase) || preload->detach) {
                item->is_finished = true;
                preload->n_unfinished--;
        }

        return rpc_request_send(preload->request, &event.base);
}

static int on_ready(RpcRequest *request, void *userdata) {
        Preload *preload = userdata;
        PreloadItem *item = preload_find_pending(preload);

        if (item)
                return preload_send(preload, item);
        if (preload->n_unfinished == 0)
                return preload_end(preload);

        return 0;
}

/* The caller has gone before everything was done: then it is not wanted any more. */
static int on_gone(RpcRequest *request, void *userdata) {
        Preload *preload = userdata;
        Images *images = preload->api->images;
        cleanup(free_p) char *owner = take_ptr(preload->owner);
        bool detach = preload->detach;
        int r;

        preload->api->on_request("Preload", ERROR_CANCELED, preload->api->userdata);
        preload_drop(preload);
        if (detach)
                return 0;

        r = images_withdraw(images, owner, NULL);
        return r < 0 ? r : 0;
}

int preload_on_image(Preload *preload, const Image *image) {
        for (size_t i = 0; i < preload->n_items; i++) {
                PreloadItem *item = &preload->items[i];

                if (item->is_finished || item->image != image)
                        continue;

                item->is_pending = true;
                if (!image_wants(image))
                        item->image = NULL; /* this is the last that is heard of it */
        }

        return rpc_request_can_send(preload->request) ? on_ready(preload->request, preload) : 0;
}

/* What is no reference fails alone. */
static int item_init(PreloadItem *item, const char *asked) {
        cleanup(error_done) Error error = ERROR_INIT;
        ImageRef ref;
        int r;

        item->asked = strdup(asked);
        if (!item->asked)
                return -ENOMEM;

        item->is_pending = true;
        r = image_ref_parse(asked, &ref, &error);
        if (error.kind != ERROR_NONE) {
                item->refusal.phase = IMAGE_FAILED;
                return pull_failure_describe(&item->refusal, PULL_REASON_INVALID_REFERENCE,
                                             error_message(&error), 1, 1);
        }
        if (r < 0)
                return r;

        item->tag = strdup(image_ref_tag_or_digest(&ref));
        return item->tag ? image_ref_familiar_name(&ref, &item->name) : -ENOMEM;
}

/* The first image that can be asked for, or NULL. */
static const PreloadItem *preload_first(const Preload *preload) {
        for (size_t i = 0; i < preload->n_items; i++)
                if (preload->items[i].name)
                        return &preload->items[i];

        return NULL;
}

static int preload_read_images(Preload *preload, const PreloadMessage *message, Error *reterr) {
        int r;

        if (message->n_images == 0)
                return error_set(reterr, ERROR_INVALID, "no image was asked for");
        if (message->n_images > IMAGES_MAX)
                return error_set(reterr, ERROR_INVALID, "more than %d images in one request",
                                 IMAGES_MAX);

        preload->items = calloc(message->n_images, sizeof(preload->items[0]));
        if (!preload->items)
                return -ENOMEM;

        for (size_t i = 0; i < message->n_images; i++) {
                preload->n_items++;
                r = item_init(&preload->items[i], message->images[i]);
                if (r < 0)
                        return r;
        }

        preload->n_unfinished = preload->n_items;
        if (!preload_first(preload))
                return image_ref_parse(message->images[0], &(ImageRef){ .tag = "" }, reterr);
        return 0;
}

/* A caller that has computed nonsense should hear of it. */
static int check_limits(const PreloadMessage *message, Error *reterr) {
        if (message->pull_policy < INPLACED__V1__PULL_POLICY__PULL_POLICY_UNSPECIFIED ||
            message->pull_policy > INPLACED__V1__PULL_POLICY__PULL_POLICY_ALWAYS)
                return error_set(reterr, ERROR_INVALID, "there is no pull policy %d",
                                 (int) message->pull_policy);
        if (message->timeout_seconds < 0 || message->active_deadline_seconds < 0 ||
            message->ttl_seconds_after_finished < 0 ||
            (message->backoff_limit_presence_case ==
                     INPLACED__V1__PRELOAD_REQUEST__BACKOFF_LIMIT_PRESENCE_BACKOFF_LIMIT &&
             message->backoff_limit < 0))
                return error_set(reterr, ERROR_INVALID,
                                 "a number of seconds or of attempts is "
                                 "below zero");
        return 0;
}

static int preload_new(Api *api, const PreloadMessage *message, const Peer *peer, Preload **ret,
                       Error *reterr) {
        cleanup(preload_drop_p) Preload *preload = NULL;
        uint64_t random = 0;
        int r;

        preload = calloc(1, sizeof(*preload));
        if (!preload)
                return -ENOMEM;

        preload->api = api;
        preload->detach = message->detach;
        list_prepend(&api->preloads, preload);
        (void) getrandom(&random, sizeof(random), 0);
        (void) snprintf(preload->id, sizeof(preload->id), "%016" PRIx64, random);
        if (asprintf(&preload->owner, OWNER_REQUEST "%s", preload->id) < 0) {
                preload->owner = NULL;
                return -ENOMEM;
        }

        r = check_limits(message, reterr);
        if (r < 0)
                return r;

        r = preload_read_images(preload, message, reterr);
        if (r < 0)
                return r;

        r = api_make_room(api, peer, preload->n_items, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(preload);
        return 0;
}

static void read_limits(const PreloadMessage *message, ImageWish *wish) {
        wish->created_at = time(NULL);
        wish->policy = message->pull_policy == INPLACED__V1__PULL_POLICY__PULL_POLICY_ALWAYS
                               ? PULL_POLICY_ALWAYS
                               : PULL_POLICY_IF_NOT_PRESENT;
        if (message->timeout_seconds > 0)
                wish->timeout_sec = message->timeout_seconds;
        if (message->backoff_limit_presence_case ==
            INPLACED__V1__PRELOAD_REQUEST__BACKOFF_LIMIT_PRESENCE_BACKOFF_LIMIT)
                wish->backoff_limit = message->backoff_limit;
        if (message->active_deadline_seconds > 0)
                wish->active_deadline_sec = message->active_deadline_seconds;
        wish->ttl_sec = message->ttl_seconds_after_finished > 0
                                ? message->ttl_seconds_after_finished
                                : TTL_SEC_DEFAULT;
}

static int by_image(const void *a, const void *b) {
        const PreloadItem *x = *(const PreloadItem *const *) a;
        const PreloadItem *y = *(const PreloadItem *const *) b;
        int order = strcmp(x->name, y->name);

        return order != 0 ? order : strcmp(x->tag, y->tag);
}

/* One wish for each image, however often it is asked for. */
static int collect_wishes(Preload *preload, const PreloadMessage *message, WishList *wishes) {
        cleanup(free_p) const PreloadItem **sorted = NULL;
        size_t n = 0;
        int r;

        sorted = calloc(preload->n_items, sizeof(sorted[0]));
        if (!sorted)
                return -ENOMEM;

        for (size_t i = 0; i < preload->n_items; i++)
                if (preload->items[i].name)
                        sorted[n++] = &preload->items[i];
        qsort(sorted, n, sizeof(sorted[0]), by_image);

        for (size_t i = 0; i < n; i++) {
                ImageWish wish;

                if (i > 0 && by_image(&sorted[i - 1], &sorted[i]) == 0)
                        continue;

                r = image_wish_init(&wish, sorted[i]->name, sorted[i]->tag);
                if (r < 0)
                        return r;

                read_limits(message, &wish);
                r = wish_list_take(wishes, &wish);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int preload_log(const Preload *preload) {
        const char *first = preload_first(preload)->asked;

        if (preload->n_items == 1)
                return api_log_change(preload->api, preload->request, preload->id,
                                      "Took request %s to preload `%s`%s", preload->id, first,
                                      preload->detach ? ", detached," : "");

        return api_log_change(preload->api, preload->request, preload->id,
                              "Took request %s to preload `%s` and %zu more%s", preload->id, first,
                              preload->n_items - 1, preload->detach ? ", detached," : "");
}

static int preload_ask(Preload *preload, const PreloadMessage *message) {
        cleanup(wish_list_done) WishList wishes = WISH_LIST_INIT;
        Images *images = preload->api->images;
        int r;

        r = preload_log(preload);
        if (r < 0)
                return r;

        r = collect_wishes(preload, message, &wishes);
        if (r < 0)
                return r;

        r = images_set_wishes(images, preload->owner, &wishes, true);
        if (r < 0)
                return r;

        for (size_t i = 0; i < preload->n_items; i++)
                if (preload->items[i].name)
                        preload->items[i].image =
                                images_find(images, preload->items[i].name, preload->items[i].tag);

        /* The caller leaves when it is told that the request is accepted. */
        return preload->detach ? state_file_write_now(preload->api->state_file) : 0;
}

int api_preload(RpcRequest *request, const void *message, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Preload *preload;
        int r;

        r = preload_new(userdata, message, rpc_request_peer(request), &preload, &error);
        if (error.kind != ERROR_NONE)
                return api_refuse(userdata, request, error.kind, error_message(&error));
        if (r < 0)
                return r;

        preload->request = request;
        rpc_request_open_stream(request, on_ready, on_gone, preload);
        return preload_ask(preload, message);
}
