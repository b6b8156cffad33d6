/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/calls.h"
#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/base/rate.h"
#include "agent/base/text.h"
#include "agent/image/other-pulls.h"
#include "agent/image/pull-join-plan.h"

#define PODS_MAX 32 /* pods shown per pull */

/* Time that the first event waits for pulls that may be under way or not. */
#define SETTLE_USEC USEC_PER_SEC

/* A caller that follows the pulls. */
typedef struct PullsWatch {
        LIST_LINKS(struct PullsWatch);
        Api *api;
        RpcRequest *request;
        uint64_t sent; /* number of the last event that was sent; 0: none */
} PullsWatch;

/* A pull that was in the last event, for its rate and its image. */
typedef struct Known {
        LIST_LINKS(struct Known);
        char *image;
        char *digest;
        Rate rate;
        bool is_kept; /* mark of a sweep */
} Known;

struct Pulls {
        Api *api;
        OtherPulls *others;
        PullsWatch *watches;
        size_t n_watches;
        Known *known;
        uint64_t began_usec;
        uint8_t *packed; /* the last event */
        size_t packed_size;
        uint64_t n_events; /* number of the last event; 0: none yet */
};

/* An image for which pods wait. */
typedef struct Waited {
        char **pods; /* texts borrowed */
        size_t n_pods;
        bool has_pull;
} Waited;

/* A pull in an event. */
typedef struct Entry {
        Inplaced__V1__Pull message;
        char *image;
        RequestedBy requested;
} Entry;

/* An event that is being made. */
typedef struct Draft {
        Pulls *pulls;
        OtherPull *others;
        size_t n_others;
        JoinImage *images; /* images for which pods wait */
        size_t n_images;
        Waited *waited; /* more about each of these images */
        size_t n_waited;
        Entry *entries;
        size_t n_entries;
} Draft;

static void draft_done(Draft *draft) {
        for (size_t i = 0; i < draft->n_waited; i++)
                free(draft->waited[i].pods);
        for (size_t i = 0; i < draft->n_entries; i++) {
                free(draft->entries[i].image);
                requested_by_done(&draft->entries[i].requested);
        }
        free(draft->others);
        free(draft->images);
        free(draft->waited);
        free(draft->entries);
}

static void known_drop(Pulls *pulls, Known *known) {
        list_remove(&pulls->known, known);
        free(known->image);
        free(known->digest);
        free(known);
}

static void pulls_watch_drop(PullsWatch *watch) {
        Api *api = watch->api;

        list_remove(&api->pulls->watches, watch);
        rpc_request_unref(watch->request);
        free(watch);
        if (--api->pulls->n_watches == 0)
                api->pulls = pulls_free(api->pulls);
}

static void pulls_done(Pulls *pulls) {
        other_pulls_free(pulls->others);
        while (pulls->known)
                known_drop(pulls, pulls->known);
        free(pulls->packed);
        free(pulls);
}

Pulls *pulls_free(Pulls *pulls) {
        if (!pulls)
                return NULL;

        if (pulls->n_watches == 0) {
                pulls_done(pulls);
                return NULL;
        }

        for (size_t n = pulls->n_watches; n > 0; n--)
                pulls_watch_drop(pulls->watches); /* the last one frees the object */
        return NULL;
}

/* Returns the manifest with which the image was joined in the last event; NULL: none. */
static const char *manifest_of(const Pulls *pulls, const char *image) {
        for (const Known *known = pulls->known; known; known = known->next)
                if (known->digest[0] && strcmp(known->image, image) == 0)
                        return known->digest;

        return NULL;
}

/* Writes "nginx:1.25" for a canonical reference; with a digest, the name with that digest instead. */
static int shown_image(const char *key, const char *digest, char **ret) {
        cleanup(free_p) char *name = NULL;
        ImageRef ref;
        int r;

        if (image_ref_parse(key, SHORT_NAMES_HUB, &ref, NULL) < 0)
                return digest ? text_format(ret, "%s@%s", key, digest) : text_copy(key, ret);

        r = image_ref_shown_name(&ref, SHORT_NAMES_HUB, &name);
        return r < 0 ? r : image_ref_join(name, digest ?: image_ref_tag_or_digest(&ref), ret);
}

/* Returns the index of the image; draft->n_images: no pod waits for it. */
static size_t draft_find(const Draft *draft, const char *key) {
        size_t i = 0;

        while (i < draft->n_images && strcmp(draft->images[i].key, key) != 0)
                i++;
        return i;
}

static int on_wait(const PodWait *wait, void *userdata) {
        Draft *draft = userdata;
        size_t i = draft_find(draft, wait->key);
        Waited *waited;

        if (i == draft->n_images) {
                cleanup(free_p) char *shown = NULL;

                if (array_grow(&draft->images, i, sizeof(draft->images[0])) < 0 ||
                    array_grow(&draft->waited, i, sizeof(draft->waited[0])) < 0 ||
                    shown_image(wait->key, NULL, &shown) < 0)
                        return -ENOMEM;

                draft->waited[draft->n_waited++] = (Waited){ .pods = NULL };
                draft->images[draft->n_images++] = (JoinImage){
                        .key = wait->key,
                        .since = wait->since,
                        .is_missing = wait->is_missing,
                        .manifest = manifest_of(draft->pulls, shown),
                };
        }

        waited = &draft->waited[i];
        if (waited->n_pods == PODS_MAX)
                return 0;
        if (array_grow(&waited->pods, waited->n_pods, sizeof(waited->pods[0])) < 0)
                return -ENOMEM;

        waited->pods[waited->n_pods++] = (char *) wait->pod;
        return 0;
}

static int find_known(Pulls *pulls, const Entry *entry, uint64_t now, uint64_t age, Known **ret) {
        Known *known = pulls->known;

        while (known && (strcmp(known->image, entry->image) != 0 ||
                         strcmp(known->digest, entry->message.digest) != 0))
                known = known->next;
        if (!known) {
                known = calloc(1, sizeof(*known));
                if (!known)
                        return -ENOMEM;

                list_prepend(&pulls->known, known);
                known->rate = rate_begin_with(now, entry->message.bytes_done, age);
                if (text_copy(entry->image, &known->image) < 0 ||
                    text_copy(entry->message.digest, &known->digest) < 0)
                        return -ENOMEM;
        }

        known->is_kept = true;
        *ret = known;
        return 0;
}

/* Sets the rate, and the time that is left at this rate. */
static int entry_set_rate(Entry *entry, Pulls *pulls, uint64_t began_usec) {
        uint64_t now = loop_now_usec(completion_queue_get_event(pulls->api->completions));
        uint64_t time = (uint64_t) clock_nsec(CLOCK_REALTIME) / 1000;
        Inplaced__V1__Pull *message = &entry->message;
        Known *known;
        int r;

        r = find_known(pulls, entry, now, time > began_usec ? time - began_usec : 0, &known);
        if (r < 0 || message->step != INPLACED__V1__STEP__STEP_DOWNLOADING)
                return r;

        rate_update(&known->rate, now, message->bytes_done);
        message->bytes_per_second = rate_get(&known->rate);
        if (message->bytes_per_second > 0)
                message->seconds_left = (message->bytes_total - message->bytes_done +
                                         message->bytes_per_second - 1) /
                                        message->bytes_per_second;
        return 0;
}

static Entry *draft_add(Draft *draft) {
        Entry *entry = &draft->entries[draft->n_entries++];

        inplaced__v1__pull__init(&entry->message);
        return entry;
}

static void entry_set_pods(Entry *entry, Waited *waited) {
        entry->message.pods = waited->pods;
        entry->message.n_pods = waited->n_pods;
        waited->has_pull = true;
}

/* Writes the name of a pull that no pod waits for: its repository, if the store names a single one. */
static int unknown_image(const PulledManifest *manifest, char **ret) {
        size_t n = strcspn(manifest->sources, "\n"), n_host = strcspn(manifest->sources, "=");
        cleanup(free_p) char *key = NULL;
        int r;

        if (n_host >= n || manifest->sources[n + 1] || strcspn(manifest->sources, ",") < n)
                return text_copy(manifest->digest, ret);

        r = text_format(&key, "%.*s/%.*s", (int) n_host, manifest->sources, (int) (n - n_host - 1),
                        manifest->sources + n_host + 1);
        return r < 0 ? r : shown_image(key, manifest->digest, ret);
}

static int draft_add_other(Draft *draft, const OtherPull *pull, const Join *join) {
        const JoinImage *image = join->result == JOIN_NONE ? NULL : &draft->images[join->image];
        Entry *entry = draft_add(draft);
        int r;

        r = image ? shown_image(image->key,
                                join->result == JOIN_REPOSITORY ? pull->manifest.digest : NULL,
                                &entry->image)
                  : unknown_image(&pull->manifest, &entry->image);
        if (r < 0)
                return r;

        text_make_plain(entry->image);
        if (join->result == JOIN_IMAGE)
                entry_set_pods(entry, &draft->waited[join->image]);
        entry->message.image = entry->image;
        entry->message.digest = plain_text(pull->manifest.digest);
        entry->message.step = step_message(pull->report->step);
        entry->message.bytes_done = pull->report->bytes_done;
        entry->message.bytes_total = pull->report->bytes_total;
        entry->message.started_at = pull->began.tv_sec;
        return entry_set_rate(entry, draft->pulls,
                              (uint64_t) pull->began.tv_sec * USEC_PER_SEC +
                                      (uint64_t) pull->began.tv_nsec / 1000);
}

static int draft_add_others(Draft *draft) {
        cleanup(free_p) JoinPull *pulls = calloc(draft->n_others + 1, sizeof(pulls[0]));
        cleanup(free_p) Join *joins = calloc(draft->n_others + 1, sizeof(joins[0]));
        int r;

        if (!pulls || !joins)
                return -ENOMEM;

        for (size_t i = 0; i < draft->n_others; i++)
                pulls[i] = (JoinPull){ .digest = draft->others[i].manifest.digest,
                                       .sources = draft->others[i].manifest.sources,
                                       .digests = draft->others[i].manifest.digests,
                                       .began = draft->others[i].began };

        r = pull_join_plan(pulls, draft->n_others, draft->images, draft->n_images, joins);
        for (size_t i = 0; r >= 0 && i < draft->n_others; i++)
                r = draft_add_other(draft, &draft->others[i], &joins[i]);
        return r;
}

static bool is_under_way(const Image *image) {
        const ImageStep step = image_status(image)->step;

        return image_pull(image) &&
               (step == IMAGE_STEP_RESOLVING || step == IMAGE_STEP_DOWNLOADING ||
                step == IMAGE_STEP_UNPACKING);
}

static int draft_add_own(Draft *draft, const Image *image) {
        const ImageStatus *status = image_status(image);
        const size_t waited = draft_find(draft, image_key(image));
        Entry *entry = draft_add(draft);
        int r;

        r = image_ref_join(image_name(image), image_tag(image), &entry->image);
        if (r >= 0)
                r = requested_by_add(&entry->requested, image);
        if (r < 0)
                return r;

        if (waited < draft->n_images && !draft->waited[waited].has_pull)
                entry_set_pods(entry, &draft->waited[waited]);
        entry->message.image = entry->image;
        entry->message.requested_by = entry->requested.words;
        entry->message.n_requested_by = entry->requested.n_words;
        entry->message.step = step_message(status->step);
        entry->message.bytes_done = status->bytes_done;
        entry->message.bytes_total = status->bytes_total;
        entry->message.started_at = status->started_at;
        return entry_set_rate(entry, draft->pulls, (uint64_t) status->started_at * USEC_PER_SEC);
}

static int draft_add_waited(Draft *draft, size_t i) {
        Entry *entry = draft_add(draft);
        int r;

        r = shown_image(draft->images[i].key, NULL, &entry->image);
        if (r < 0)
                return r;

        entry_set_pods(entry, &draft->waited[i]);
        entry->message.image = entry->image;
        entry->message.step = INPLACED__V1__STEP__STEP_WAITING_FOR_KUBELET;
        return 0;
}

static int draft_make(Draft *draft) {
        const Api *api = draft->pulls->api;
        const size_t n_own = images_count(api->images);
        int r;

        r = other_pulls_list(draft->pulls->others, &draft->others, &draft->n_others);
        if (r >= 0 && api->pod_waits)
                r = pod_waits_visit(api->pod_waits, on_wait, draft);
        if (r < 0)
                return r;

        draft->entries =
                calloc(draft->n_others + n_own + draft->n_images + 1, sizeof(draft->entries[0]));
        if (!draft->entries)
                return -ENOMEM;

        r = draft_add_others(draft);
        for (size_t i = 0; r >= 0 && i < n_own; i++)
                if (is_under_way(images_get(api->images, i)))
                        r = draft_add_own(draft, images_get(api->images, i));
        for (size_t i = 0; r >= 0 && i < draft->n_images; i++)
                if (draft->images[i].is_missing && !draft->waited[i].has_pull)
                        r = draft_add_waited(draft, i);
        return r;
}

/* Notes the event, and returns in *ret_is_new whether it differs from the last one. */
static int pulls_note(Pulls *pulls, const Inplaced__V1__PullsEvent *event) {
        size_t size = protobuf_c_message_get_packed_size(&event->base);
        uint8_t *packed = malloc(size + 1);

        if (!packed)
                return -ENOMEM;

        (void) protobuf_c_message_pack(&event->base, packed);
        if (pulls->n_events == 0 || size != pulls->packed_size ||
            memcmp(packed, pulls->packed, size) != 0)
                pulls->n_events++;
        free(pulls->packed);
        pulls->packed = packed;
        pulls->packed_size = size;
        return 0;
}

/* A caller that reads slowly misses events, and gets the newest one later. */
static int pulls_send(Pulls *pulls, const Inplaced__V1__PullsEvent *event) {
        int r = pulls_note(pulls, event);

        for (PullsWatch *watch = pulls->watches; r >= 0 && watch; watch = watch->next) {
                if (watch->sent == pulls->n_events || !rpc_request_can_send(watch->request))
                        continue;

                watch->sent = pulls->n_events;
                r = rpc_request_send(watch->request, &event->base);
        }

        return r;
}

static int compare(const void *a, const void *b) {
        const Inplaced__V1__Pull *const *left = a, *const *right = b;

        return strcmp((*left)->image, (*right)->image) ?: strcmp((*left)->digest, (*right)->digest);
}

static int pulls_send_draft(Pulls *pulls, Draft *draft) {
        Inplaced__V1__PullsEvent event = INPLACED__V1__PULLS_EVENT__INIT;
        cleanup(runtime_message_done) Inplaced__V1__Runtime chosen = { .endpoint = NULL };
        cleanup(free_p) Inplaced__V1__Pull **list = calloc(draft->n_entries + 1, sizeof(list[0]));
        const Runtime *runtime = runtimes_chosen(pulls->api->runtimes);
        int r;

        if (!list)
                return -ENOMEM;

        for (size_t i = 0; i < draft->n_entries; i++)
                list[i] = &draft->entries[i].message;
        qsort(list, draft->n_entries, sizeof(list[0]), compare);
        event.pulls = list;
        event.n_pulls = draft->n_entries;
        if (runtime) {
                r = runtime_message_init(&chosen, pulls->api, runtime);
                if (r < 0)
                        return r;
                event.runtime = &chosen;
        }

        return pulls_send(pulls, &event);
}

static int on_asked(void *userdata) {
        Pulls *pulls = userdata;
        cleanup(draft_done) Draft draft = { .pulls = pulls };
        uint64_t now = loop_now_usec(completion_queue_get_event(pulls->api->completions));
        Known *next;
        int r;

        if (pulls->n_events == 0 && !other_pulls_are_settled(pulls->others) &&
            now - pulls->began_usec < SETTLE_USEC)
                return 0;

        r = draft_make(&draft);
        if (r >= 0)
                r = pulls_send_draft(pulls, &draft);
        for (Known *known = pulls->known; known; known = next) {
                next = known->next;
                if (!known->is_kept)
                        known_drop(pulls, known);
                else
                        known->is_kept = false;
        }
        return r;
}

static int pulls_new(Api *api, Pulls **ret) {
        sd_event *event = completion_queue_get_event(api->completions);
        Pulls *pulls = calloc(1, sizeof(*pulls));
        int r;

        if (!pulls)
                return -ENOMEM;

        pulls->api = api;
        pulls->began_usec = loop_now_usec(event);
        r = other_pulls_new(
                &(OtherPullsOptions){
                        .event = event,
                        .runtimes = api->runtimes,
                        .on_asked = on_asked,
                        .userdata = pulls,
                },
                &pulls->others);
        if (r < 0) {
                pulls_done(pulls);
                return r;
        }

        *ret = pulls;
        return 0;
}

/* The next event is made when the runtime was asked. */
static int on_ready(RpcRequest *request, void *userdata) {
        return 0;
}

static int on_gone(RpcRequest *request, void *userdata) {
        PullsWatch *watch = userdata;

        api_count(watch->api, "WatchPulls", ERROR_NONE);
        pulls_watch_drop(watch);
        return 0;
}

int api_watch_pulls(RpcRequest *request, const void *message, void *userdata) {
        cleanup(error_done) Error refusal = ERROR_INIT;
        RoomUse use = { .by_all = 0 };
        Api *api = userdata;
        PullsWatch *watch;
        int r;

        for (watch = api->pulls ? api->pulls->watches : NULL; watch; watch = watch->next)
                api_count_follower(&use, watch->request, request);
        if (api_check_followers(&use, "callers that follow the pulls", request, &refusal) < 0)
                return api_refuse(api, request, refusal.kind, error_message(&refusal));

        watch = calloc(1, sizeof(*watch));
        r = !watch ? -ENOMEM : api->pulls ? 0 : pulls_new(api, &api->pulls);
        if (r < 0) {
                free(watch);
                rpc_request_unref(request);
                return r;
        }

        watch->api = api;
        watch->request = request;
        list_prepend(&api->pulls->watches, watch);
        api->pulls->n_watches++;
        rpc_request_open_stream(request, on_ready, on_gone, watch);
        return 0;
}
