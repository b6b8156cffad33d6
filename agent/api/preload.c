/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/api/calls.h"
#include "agent/api/request-plan.h"
#include "agent/base/cleanup.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/image/image-status.h"
#include "agent/node/owner.h"

#define IMAGES_MAX 4096
#define TTL_SEC_DEFAULT 600
#define ID_SIZE 17

/* Limit of images in all requests. Each takes at most 3 KB in the reply to GetStatus and in
 * nodeimage.json, so that they fit into both beside the images of a cluster. */
#define REQUESTED_MAX 4096
#define REQUESTED_OF_ROOT_MAX 5120 /* limit of root, with a reserved part */

typedef Inplaced__V1__PreloadRequest PreloadMessage;
typedef Inplaced__V1__CancelRequest CancelMessage;

/* An image of a request. */
typedef struct PreloadItem {
        char *asked; /* the caller's spelling */
        char *name;  /* NULL: the text is no reference, and the refusal has the reason */
        char *tag;
        ImageStatus refusal;
        const Image *image; /* NULL: it is no longer requested */
        bool is_pending;    /* the newest state was not sent yet */
        bool is_finished;   /* the end was sent */
} PreloadItem;

/* A caller that follows the images of its request. */
struct Preload {
        LIST_LINKS(Preload);
        Api *api;
        RpcRequest *request;
        char id[ID_SIZE];
        char *owner;
        char *caller; /* description of the caller */
        bool detach;
        PreloadItem *items;
        size_t n_items;
        size_t n_unfinished;
        size_t next_item; /* next item to send, so that each has its turn */
};

typedef struct RequestList {
        RequestEntry *items;
        size_t n_items;
} RequestList;

/* clang-format off */
static const Inplaced__V1__Phase phases[_IMAGE_PHASE_MAX] = {
        [IMAGE_WAITING]     = INPLACED__V1__PHASE__PHASE_WAITING,
        [IMAGE_PULLING]     = INPLACED__V1__PHASE__PHASE_PULLING,
        [IMAGE_BACKING_OFF] = INPLACED__V1__PHASE__PHASE_PULLING,
        [IMAGE_MISSING]     = INPLACED__V1__PHASE__PHASE_WAITING,
        [IMAGE_SUCCEEDED]   = INPLACED__V1__PHASE__PHASE_SUCCEEDED,
        [IMAGE_FAILED]      = INPLACED__V1__PHASE__PHASE_FAILED,
};
/* clang-format on */

static inline void preload_drop_p(Preload **preload) {
        if (*preload)
                preload_drop(*preload);
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
        free(preload->caller);
        list_remove(&preload->api->preloads, preload);
        rpc_request_unref(preload->request);
        free(preload);
}

static bool is_requested(const Preload *preload, const Image *image) {
        for (const ImageRequest *request = image_requests(image); request; request = request->next)
                if (strcmp(request->owner, preload->owner) == 0)
                        return true;

        return false;
}

static ImageStatus canceled_status(void) {
        return (ImageStatus){
                .phase = IMAGE_FAILED,
                .reason = PULL_REASON_CANCELED,
                .message = (char *) "Canceled: the image is no longer requested",
        };
}

/* Returns the status of this request: the caller does not see the image's status for other
 * requests, earlier or with other limits. */
static ImageStatus status_of(const Preload *preload, const PreloadItem *item) {
        const ImageStatus *status;

        if (!item->name)
                return item->refusal; /* borrowed for the event, as the image's status */
        if (!item->image || !is_requested(preload, item->image))
                return canceled_status();

        status = image_status_for(item->image, preload->owner, item->name);
        return status ? *status
                      : (ImageStatus){ .phase = IMAGE_WAITING, .step = IMAGE_STEP_QUEUED };
}

static int preload_end(Preload *preload) {
        RpcRequest *request = take_ptr(preload->request);

        api_count(preload->api, "Preload", ERROR_NONE);
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

/* Only valid digests of the runtime; the list is the agent's, so it may be shortened. */
static size_t count_plain(char **texts) {
        size_t n = 0;

        while (texts && texts[n] && text_is_plain(texts[n]))
                n++;

        return n;
}

/* An event and the messages that it points to. */
typedef struct PreloadNews {
        Inplaced__V1__PreloadEvent event;
        Inplaced__V1__OnDemand on_demand;
} PreloadNews;

/* Borrows everything that it is given for the life of the event. */
static void preload_news_init(PreloadNews *news, const Preload *preload, const char *image,
                              const ImageStatus *status) {
        Inplaced__V1__PreloadEvent *event = &news->event;
        bool has_failed = status->reason != PULL_REASON_NONE;

        inplaced__v1__preload_event__init(event);
        event->request_id = (char *) preload->id;
        event->image = (char *) image;
        event->phase = phases[status->phase];
        event->step = step_message(status->step);
        event->attempt = status->attempt;
        event->next_attempt_time = status->next_attempt_at;
        event->bytes_done = status->bytes_done;
        event->bytes_total = status->bytes_total;
        if (status->is_counted) {
                event->bytes_fetched_presence_case =
                        INPLACED__V1__PRELOAD_EVENT__BYTES_FETCHED_PRESENCE_BYTES_FETCHED;
                event->bytes_fetched = status->bytes_fetched;
        }
        event->reason = (char *) (has_failed ? pull_reason_to_string(status->reason) : "");
        event->message = plain_text(image_status_message(status) ?: "");
        event->on_demand = on_demand_message(&status->on_demand, &news->on_demand);
        if (status->step == IMAGE_STEP_WAITING_FOR_RUNTIME)
                event->message = plain_text(diagnosis_runtime_sentence(preload->api->runtimes));
        if (status->phase != IMAGE_SUCCEEDED)
                return;

        event->image_id = status->image_id ?: (char *) "";
        event->was_present = status->was_present;
        event->repo_digests = status->repo_digests;
        event->n_repo_digests = count_plain(status->repo_digests);
}

static int preload_send(Preload *preload, PreloadItem *item) {
        ImageStatus status = status_of(preload, item);
        PreloadNews news;

        preload_news_init(&news, preload, item->asked, &status);
        item->is_pending = false;
        if (image_phase_is_final(status.phase) || preload->detach) {
                item->is_finished = true;
                preload->n_unfinished--;
        }

        return rpc_request_send(preload->request, &news.event.base);
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

/* Withdraws the request, since the caller has gone before its end. */
static int on_gone(RpcRequest *request, void *userdata) {
        Preload *preload = userdata;
        Images *images = preload->api->images;
        cleanup(free_p) char *owner = take_ptr(preload->owner);
        bool detach = preload->detach;
        int r;

        api_count(preload->api, "Preload", ERROR_CANCELED);
        preload_drop(preload);
        if (detach)
                return 0;

        r = images_withdraw(images, owner, NULL);
        return r < 0 ? r : 0;
}

static int find_item(const Preload *preload, PreloadItem *item) {
        Image *image;
        int r;

        r = images_find(preload->api->images, item->name, item->tag, &image);
        if (r >= 0)
                item->image = image;
        return r;
}

static int preload_on_image(Preload *preload, const Image *image) {
        int r;

        for (size_t i = 0; i < preload->n_items; i++) {
                PreloadItem *item = &preload->items[i];

                if (item->is_finished || item->image != image)
                        continue;

                /* The name may mean another image by now. */
                if (!is_requested(preload, image)) {
                        r = find_item(preload, item);
                        if (r < 0)
                                return r;
                }

                item->is_pending = true;
                if (item->image == image && !image_requests(image))
                        item->image = NULL; /* this was the image's last event */
        }

        return rpc_request_can_send(preload->request) ? on_ready(preload->request, preload) : 0;
}

int preloads_on_image(Api *api, const Image *image) {
        Preload *next;
        int r;

        for (Preload *preload = api->preloads; preload; preload = next) {
                next = preload->next;
                r = preload_on_image(preload, image);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* An invalid reference fails alone. */
static int item_init(PreloadItem *item, const char *asked) {
        cleanup(error_done) Error error = ERROR_INIT;
        ImageRef ref;
        int r;

        item->asked = strdup(asked);
        if (!item->asked)
                return -ENOMEM;

        item->is_pending = true;
        r = image_ref_parse(asked, SHORT_NAMES_SEARCHED, &ref, &error);
        if (error.kind != ERROR_NONE) {
                item->refusal.phase = IMAGE_FAILED;
                return image_status_set_failure(&item->refusal, PULL_REASON_INVALID_REFERENCE,
                                                error_message(&error), 1, 1);
        }
        if (r < 0)
                return r;

        item->tag = strdup(image_ref_tag_or_digest(&ref));
        return item->tag ? image_ref_canonical_name(&ref, &item->name) : -ENOMEM;
}

/* Returns the first valid image, or NULL. */
static const PreloadItem *preload_first(const Preload *preload) {
        for (size_t i = 0; i < preload->n_items; i++)
                if (preload->items[i].name)
                        return &preload->items[i];

        return NULL;
}

static int preload_read_images(Preload *preload, const PreloadMessage *message, Error *reterr) {
        int r;

        if (message->n_images == 0)
                return error_set(reterr, ERROR_INVALID, "no image was named");
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
                return image_ref_parse(message->images[0], SHORT_NAMES_SEARCHED,
                                       &(ImageRef){ .tag = "" }, reterr);
        return 0;
}

/* A caller that has computed invalid values gets an error. */
static int check_limits(const PreloadMessage *message, Error *reterr) {
        if (message->pull_policy < INPLACED__V1__PULL_POLICY__PULL_POLICY_UNSPECIFIED ||
            message->pull_policy > INPLACED__V1__PULL_POLICY__PULL_POLICY_ALWAYS)
                return error_set(reterr, ERROR_INVALID, "there is no pull policy %d",
                                 (int) message->pull_policy);
        if (message->timeout_seconds < 0 || message->active_deadline_seconds < 0 ||
            message->ttl_seconds_after_finished < 0 ||
            (message->backoff_limit_presence_case ==
                     INPLACED__V1__PRELOAD_REQUEST__BACKOFF_LIMIT_PRESENCE_BACKOFF_LIMIT &&
             message->backoff_limit < 0) ||
            (message->refusal_limit_presence_case ==
                     INPLACED__V1__PRELOAD_REQUEST__REFUSAL_LIMIT_PRESENCE_REFUSAL_LIMIT &&
             message->refusal_limit < 0))
                return error_set(reterr, ERROR_INVALID,
                                 "a number of seconds or of attempts is negative");
        return 0;
}

static void request_list_done(RequestList *list) {
        free(list->items);
}

/* Counts the images of all open calls, the new request's included. */
static size_t count_open(const Api *api) {
        size_t n = 0;

        for (const Preload *preload = api->preloads; preload; preload = preload->next)
                n += preload->n_items;
        return n;
}

static size_t count_image_requests(const Api *api) {
        size_t n = 0;

        for (size_t i = 0; i < images_count(api->images); i++)
                for (const ImageRequest *request = image_requests(images_get(api->images, i));
                     request; request = request->next)
                        n += owner_is_request(request->owner);
        return n;
}

/* A pin lasts until it is taken back; a request that has failed pins nothing. */
static bool is_over(const Image *image, const ImageRequest *request) {
        const ImageStatus *outcome = image_status_for(image, request->owner, request->desired.name);

        return request->is_done &&
               (!request->desired.is_pinned || (outcome && outcome->phase == IMAGE_FAILED));
}

static void list_image_requests(const Image *image, RequestList *list) {
        for (const ImageRequest *request = image_requests(image); request; request = request->next)
                if (owner_is_request(request->owner))
                        list->items[list->n_items++] = (RequestEntry){
                                .owner = request->owner,
                                .n_images = 1,
                                .is_finished = is_over(image, request),
                                .ended_at = image_status(image)->completed_at,
                        };
}

/* An open call has an entry for each name in it, even if two name the same image. */
static void mark_open(const Api *api, RequestList *list) {
        for (const Preload *preload = api->preloads; preload; preload = preload->next) {
                const RequestEntry key = { .owner = preload->owner };
                RequestEntry *entry = bsearch(&key, list->items, list->n_items,
                                              sizeof(list->items[0]), request_by_owner);

                if (!entry)
                        continue;

                entry->n_images = preload->n_items;
                entry->is_finished = false;
        }
}

static int drop_requests(const Api *api, const RequestList *list) {
        const DesiredImages nothing = DESIRED_IMAGES_INIT;

        for (size_t i = 0; i < list->n_items; i++) {
                cleanup(free_p) char *owner = NULL;
                int r;

                if (!list->items[i].must_go)
                        continue;

                owner = strdup(list->items[i].owner); /* the call frees the image's last request */
                r = owner ? images_set_desired(api->images, owner, &nothing, REQUEST_EPHEMERAL)
                          : -ENOMEM;
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Forgets finished requests to make room for that many images, or refuses the new request. */
static int api_make_room(Api *api, const Peer *peer, size_t n_more, Error *reterr) {
        cleanup(request_list_done) RequestList list = { .items = NULL };
        size_t limit = peer_is_root(peer) ? REQUESTED_OF_ROOT_MAX : REQUESTED_MAX;
        size_t n_requests = count_image_requests(api);

        if (n_requests + count_open(api) <= limit)
                return 0;

        list.items = calloc(n_requests + 1, sizeof(list.items[0]));
        if (!list.items)
                return -ENOMEM;

        for (size_t i = 0; i < images_count(api->images); i++)
                list_image_requests(images_get(api->images, i), &list);
        list.n_items = request_merge(list.items, list.n_items);
        mark_open(api, &list);
        if (!request_plan(list.items, list.n_items, n_more, limit))
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "too many images are requested through the socket: %zu more would "
                                 "exceed %zu; wait until some have been pulled",
                                 n_more, limit);

        return drop_requests(api, &list);
}

static int preload_new(Api *api, const PreloadMessage *message, const Peer *peer, Preload **ret,
                       Error *reterr) {
        cleanup(preload_drop_p) Preload *preload = NULL;
        int r;

        preload = calloc(1, sizeof(*preload));
        if (!preload)
                return -ENOMEM;

        preload->api = api;
        preload->detach = message->detach;
        list_prepend(&api->preloads, preload);
        (void) snprintf(preload->id, sizeof(preload->id), "%016" PRIx64, random_id());
        if (text_format(&preload->owner, "%s%s", message->detach ? OWNER_REQUEST : OWNER_CALL,
                        preload->id) < 0)
                return -ENOMEM;

        r = api_describe_caller(peer, &preload->caller)
                    ?: check_limits(message, reterr)
                    ?: preload_read_images(preload, message, reterr)
                    ?: api_make_room(api, peer, preload->n_items, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(preload);
        return 0;
}

static void read_limits(const PreloadMessage *message, DesiredImage *desired) {
        desired->created_at = time(NULL);
        desired->policy = message->pull_policy == INPLACED__V1__PULL_POLICY__PULL_POLICY_ALWAYS
                                  ? PULL_POLICY_ALWAYS
                                  : PULL_POLICY_IF_NOT_PRESENT;
        desired->is_complete = message->complete;
        desired->is_pinned = message->pin;
        if (message->timeout_seconds > 0)
                desired->timeout_sec = message->timeout_seconds;
        if (message->backoff_limit_presence_case ==
            INPLACED__V1__PRELOAD_REQUEST__BACKOFF_LIMIT_PRESENCE_BACKOFF_LIMIT)
                desired->backoff_limit = message->backoff_limit;
        if (message->refusal_limit_presence_case ==
            INPLACED__V1__PRELOAD_REQUEST__REFUSAL_LIMIT_PRESENCE_REFUSAL_LIMIT)
                desired->refusal_limit = message->refusal_limit;
        /* As of a document, since it is counted in microseconds. */
        if (message->active_deadline_seconds > INT32_MAX)
                desired->active_deadline_sec = INT32_MAX;
        else if (message->active_deadline_seconds > 0)
                desired->active_deadline_sec = message->active_deadline_seconds;
        desired->ttl_sec = message->ttl_seconds_after_finished > 0
                                   ? message->ttl_seconds_after_finished
                           : message->pin ? DESIRED_IMAGE_NO_LIMIT
                                          : TTL_SEC_DEFAULT;
}

static int by_image(const void *a, const void *b) {
        const PreloadItem *x = *(const PreloadItem *const *) a;
        const PreloadItem *y = *(const PreloadItem *const *) b;
        int order = strcmp(x->name, y->name);

        return order != 0 ? order : strcmp(x->tag, y->tag);
}

/* Stores the caller with the request: its process may be gone when an operator asks. */
static int add_caller(const Preload *preload, DesiredImage *desired) {
        char uid[16];

        (void) snprintf(uid, sizeof(uid), "%u", (unsigned) rpc_request_peer(preload->request)->uid);
        return desired_image_add_owner(desired, &(OwnerRef){
                                                        .api_version = (char *) OWNER_API_VERSION,
                                                        .kind = (char *) owner_kind(preload->owner),
                                                        .name = (char *) preload->id,
                                                        .uid = uid,
                                                        .field_path = preload->caller,
                                                });
}

/* Makes one desired image for each image, without duplicates. */
static int collect_desired(Preload *preload, const PreloadMessage *message,
                           DesiredImages *desired_images) {
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
                DesiredImage desired;

                if (i > 0 && by_image(&sorted[i - 1], &sorted[i]) == 0)
                        continue;

                r = desired_image_init(&desired, sorted[i]->name, sorted[i]->tag);
                if (r < 0)
                        return r;

                read_limits(message, &desired);
                r = add_caller(preload, &desired);
                if (r < 0) {
                        desired_image_done(&desired);
                        return r;
                }

                r = desired_images_take(desired_images, &desired);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int preload_log(const Preload *preload) {
        const char *first = preload_first(preload)->asked;

        if (preload->n_items == 1)
                return api_log_change(preload->api, preload->request, preload->id,
                                      "Accepted request %s to preload \"%s\"%s", preload->id, first,
                                      preload->detach ? ", detached," : "");

        return api_log_change(preload->api, preload->request, preload->id,
                              "Accepted request %s to preload \"%s\" and %zu more%s", preload->id,
                              first, preload->n_items - 1, preload->detach ? ", detached," : "");
}

static int preload_ask(Preload *preload, const PreloadMessage *message) {
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;
        Images *images = preload->api->images;
        int r;

        r = preload_log(preload);
        if (r < 0)
                return r;

        r = collect_desired(preload, message, &desired_images);
        if (r < 0)
                return r;

        r = images_set_desired(images, preload->owner, &desired_images, REQUEST_EPHEMERAL);
        if (r < 0)
                return r;

        for (size_t i = 0; r >= 0 && i < preload->n_items; i++)
                if (preload->items[i].name)
                        r = find_item(preload, &preload->items[i]);
        if (r < 0)
                return r;

        /* A caller that does not wait leaves once the request is accepted. */
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

/* Requests of an older agent lack the caller. */
static bool may_cancel(const Peer *peer, const OwnerRef *reference) {
        char uid[16];

        (void) snprintf(uid, sizeof(uid), "%u", (unsigned) peer->uid);
        return peer_is_root(peer) || (reference->uid && strcmp(reference->uid, uid) == 0);
}

bool may_withdraw(const Peer *peer, const ImageRequest *request) {
        const OwnerRef reference = owner_to_reference(request->owner, &request->desired);

        return may_cancel(peer, &reference);
}

/* Takes the first one each time, since a request is gone after it was withdrawn. */
static const ImageRequest *next_to_cancel(const Image *image, const Peer *peer) {
        for (const ImageRequest *request = image_requests(image); request; request = request->next)
                if (!request->is_done && owner_is_request(request->owner) &&
                    may_withdraw(peer, request))
                        return request;

        return NULL;
}

/* Cancels all local requests for an image that this caller may cancel. */
static int cancel_image(Api *api, const Peer *peer, const Image *image) {
        const ImageRequest *request;
        int n = 0, r;

        while (image && (request = next_to_cancel(image, peer))) {
                cleanup(free_p) char *owner = strdup(request->owner);

                r = owner ? images_withdraw(api->images, owner, image) : -ENOMEM;
                if (r < 0)
                        return r;
                n += r;
        }

        return n;
}

static const ImageRequest *find_request(const Api *api, const char *owner) {
        for (size_t i = 0; i < images_count(api->images); i++)
                for (const ImageRequest *request = image_requests(images_get(api->images, i));
                     request; request = request->next)
                        if (strcmp(request->owner, owner) == 0 && !request->is_done)
                                return request;

        return NULL;
}

static int cancel_request(Api *api, const Peer *peer, const char *id, Error *reterr) {
        static const char *const prefixes[] = { OWNER_REQUEST, OWNER_CALL };

        for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
                cleanup(free_p) char *owner = NULL, *words = NULL;
                const ImageRequest *request;
                OwnerRef reference;

                if (text_format(&owner, "%s%s", prefixes[i], id) < 0)
                        return -ENOMEM;

                request = find_request(api, owner);
                if (!request)
                        continue;

                reference = owner_to_reference(request->owner, &request->desired);
                if (may_cancel(peer, &reference))
                        return images_withdraw(api->images, owner, NULL);
                if (owner_reference_to_words(&reference, &words) < 0)
                        return -ENOMEM;

                return error_set(reterr, ERROR_DENIED,
                                 "only root and the user who made it may cancel it: %s", words);
        }

        return 0;
}

/* An image that was never requested has no requests. */
static int find_image(const Api *api, const char *text, Image **ret, Error *reterr) {
        ImageRef ref;
        int r;

        r = image_ref_parse(text, images_short_names(api->images), &ref, reterr);
        return r < 0 ? r : images_find_reference(api->images, text, ret);
}

static int cancel(Api *api, const Peer *peer, const CancelMessage *message, RequestedBy *requested,
                  Error *reterr) {
        Image *image = NULL;
        int n, r;

        if (!message->request_id[0] == !message->image[0])
                return error_set(reterr, ERROR_INVALID, "give either a request_id or an image");
        if (message->request_id[0])
                return cancel_request(api, peer, message->request_id, reterr);

        r = find_image(api, message->image, &image, reterr);
        if (r < 0)
                return r;

        n = cancel_image(api, peer, image);
        if (n < 0)
                return n;

        r = image ? requested_by_add(requested, image) : 0;
        return r < 0 ? r : n;
}

int api_cancel(RpcRequest *request, const void *message, void *userdata) {
        Inplaced__V1__CancelResponse reply = INPLACED__V1__CANCEL_RESPONSE__INIT;
        cleanup(requested_by_done) RequestedBy requested = { .n_words = 0 };
        cleanup(error_done) Error error = ERROR_INIT;
        const CancelMessage *what = message;
        int r;

        r = cancel(userdata, rpc_request_peer(request), what, &requested, &error);
        if (error.kind != ERROR_NONE)
                return api_refuse(userdata, request, error.kind, error_message(&error));
        if (r < 0)
                return r;

        reply.canceled = (uint32_t) r;
        reply.requested_by = requested.words;
        reply.n_requested_by = requested.n_words;
        if (r > 0) {
                r = api_log_change(userdata, request, what->image[0] ? NULL : what->request_id,
                                   "Canceled %d pull%s of %s%s", r, r == 1 ? "" : "s",
                                   what->image[0] ? "" : "request ",
                                   what->image[0] ? what->image : what->request_id);
                if (r < 0) {
                        rpc_request_unref(request);
                        return r;
                }
        }
        return api_reply(userdata, request, &reply.base);
}
