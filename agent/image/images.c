/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/images.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/image/disk.h"
#include "agent/image/progress.h"
#include "agent/image/pull-reason.h"
#include "agent/image/queue.h"

/* Two thousand questions at once double the memory of the agent; 16 at a time are as fast. */
#define INSPECTIONS_MAX 16

/* Limit of a name or tag in the log, which may be any text. */
#define TEXT_SIZE_MAX 256

/* Time between two questions for layers on demand: as between two writes of progress. */
#define ARRIVALS_USEC (20 * USEC_PER_SEC)

/* Images in the order of their keys, borrowed. All zero: empty. */
typedef struct ImageIndex {
        Image **items;
        size_t n_items;
} ImageIndex;

struct Images {
        PullContext context;
        OnDemandContext on_demand; /* the context's on_demand points to it */
        Metrics *metrics;
        uint64_t bytes_counted;
        ImagesOutcome on_outcome;
        ImagesDone on_done;
        void *outcome_userdata;

        ImageIndex index;
        ImageIndex dirty; /* wait for on_pass(), in the order in which they became dirty */

        ImagesWatcher *watchers;
        char *pause; /* the context's; NULL: there is none */
        bool runtime_was_away;
        bool keeps_served;
        bool are_restored;
        unsigned n_awaited; /* sources of owners that were not heard yet */
        Deferred pass;
        Timer expiry;
        Timer arrivals; /* runs while an image is arriving, see image_is_arriving() */
        OnDemandAsk *layers;
        char *layers_of; /* the key of the image whose layers are asked for */
};

DEFINE_CLEANUP(Images *, images_free)

static int compare_key(const void *item, const void *key) {
        return strcmp(image_key(item), key);
}

static bool image_index_find(const ImageIndex *index, const char *key, size_t *ret_at) {
        return sorted_find(index->items, index->n_items, compare_key, key, ret_at);
}

/* images_add() has made room for it. */
static void on_dirty(Image *image, void *userdata) {
        Images *images = userdata;

        if (image_marks(image)->is_dirty)
                return;

        image_marks(image)->is_dirty = true;
        images->dirty.items[images->dirty.n_items++] = image;
        (void) deferred_request(&images->pass);
}

static int images_add(Images *images, const char *name, const char *tag, size_t at, Image **ret) {
        Image *image;
        int r;

        /* Each image is dirty once at most. */
        r = array_grow(&images->dirty.items, images->index.n_items, sizeof(image))
                    ?: image_new(name, tag, images->context.short_names, on_dirty, images, &image);
        if (r < 0)
                return r;

        r = sorted_insert(&images->index.items, &images->index.n_items, at, image);
        if (r < 0) {
                image_free(image);
                return r;
        }

        *ret = image;
        return 0;
}

static int images_find_or_add(Images *images, const char *name, const char *tag, Image **ret) {
        cleanup(free_p) char *key = NULL;
        size_t at;
        int r;

        r = image_key_of(name, tag, images->context.short_names, &key);
        if (r < 0)
                return r;

        if (!image_index_find(&images->index, key, &at))
                return images_add(images, name, tag, at, ret);

        *ret = images->index.items[at];
        return 0;
}

/* Copies the name; completes it if it is Docker Hub's, whatever the runtime makes of it. */
static int full_name(const DesiredImage *desired, char **ret) {
        ImageRef ref;

        if (!desired->is_hub ||
            image_ref_from_node_image(desired->name, desired->tag, SHORT_NAMES_HUB, &ref, NULL) < 0)
                return text_copy(desired->name, ret);

        return image_ref_canonical_name(&ref, ret);
}

static int images_find_or_add_desired(Images *images, const DesiredImage *desired, Image **ret) {
        cleanup(free_p) char *name = NULL;
        int r;

        r = full_name(desired, &name);
        return r < 0 ? r : images_find_or_add(images, name, desired->tag, ret);
}

static void images_remove(Images *images, Image *image) {
        size_t at;

        if (image_index_find(&images->index, image_key(image), &at))
                sorted_remove(images->index.items, &images->index.n_items, at);
        image_free(image);
}

/* Returns ", 67.1 MB fetched", or "" if the runtime does not report it. */
static const char *fetched_text(const ImageStatus *status, char text[static 40]) {
        double megabytes = (double) status->bytes_fetched / 1e6;

        text[0] = '\0';
        if (!status->is_counted || status->was_present)
                return text;

        if (status->bytes_fetched == 0)
                (void) strcpy(text, ", nothing fetched");
        else
                (void) snprintf(text, 40, ", %.*f MB fetched", megabytes < 0.1 ? 3 : 1, megabytes);
        return text;
}

/* Logs a line for each image that was pulled or could not be pulled. */
static void images_log_outcome(Log *log, const Image *image, const ImageStatus *status) {
        cleanup(free_p) char *reference = NULL;
        char duration[32], bytes[32], fetched[40];

        if (image_ref_join(image_name(image), image_tag(image), &reference) < 0)
                return;

        reference[strnlen(reference, TEXT_SIZE_MAX)] = '\0';
        text_make_plain(reference);
        (void) snprintf(duration, sizeof(duration), "%.3f",
                        (double) status->duration_usec / 1000000);
        (void) snprintf(bytes, sizeof(bytes), "%" PRIu64, status->bytes_fetched);

        if (status->phase == IMAGE_FAILED)
                log_warning(log,
                            LOG_FIELDS({ "MESSAGE_ID", MESSAGE_IMAGE_FAILED },
                                       { "IMAGE", reference },
                                       { "REASON", pull_reason_to_string(status->reason) },
                                       { "DURATION_SEC", duration },
                                       { "BYTES", status->is_counted ? bytes : NULL }),
                            "Cannot pull \"%s\": %s", reference, status->message ?: "no reason");
        else
                log_info(log,
                         LOG_FIELDS({ "MESSAGE_ID", MESSAGE_IMAGE_PULLED }, { "IMAGE", reference },
                                    { "IMAGE_ID", status->image_id }, { "DURATION_SEC", duration },
                                    { "BYTES", status->is_counted ? bytes : NULL }),
                         "%s \"%s\" as %s in %s s%s%s%s.", status->was_present ? "Found" : "Pulled",
                         reference, status->image_id ?: "an unknown image", duration,
                         fetched_text(status, fetched), status->resolved ? ", " : "",
                         status->resolved ?: "");
}

static int images_notify(Images *images, Image *image) {
        ImagesWatcher *next;
        int r = 0;

        for (ImagesWatcher *watcher = images->watchers; r >= 0 && watcher; watcher = next) {
                next = watcher->next;
                r = watcher->on_image(image, watcher->userdata);
        }

        return r;
}

static const char *result_of(const ImageStatus *status) {
        if (status->phase == IMAGE_FAILED)
                return "failed";

        return status->was_present ? "present" : "succeeded";
}

static void images_count_outcome(Images *images, const ImageStatus *status) {
        const char *result = result_of(status);
        const char *reason =
                status->phase == IMAGE_FAILED ? pull_reason_to_string(status->reason) : "";

        metrics_add(images->metrics, METRIC_PULLS, METRIC_LABELS(result, reason), 1);
        metrics_observe(images->metrics, METRIC_PULL_DURATION, METRIC_LABELS(result),
                        (double) status->duration_usec / (double) USEC_PER_SEC);
}

static void images_report_outcome(Images *images, const Image *image, const ImageStatus *status) {
        images_log_outcome(images->context.log, image, status);
        images_count_outcome(images, status);
        images->on_outcome(image, images->outcome_userdata);
}

static void images_report_outcomes(Images *images, Image *image) {
        const ImageRequest *request;

        if (image_marks(image)->has_outcome) {
                image_marks(image)->has_outcome = false;
                images_report_outcome(images, image, image_status(image));
        }

        while ((request = image_take_result(image))) {
                if (request->has_own_outcome)
                        images_report_outcome(images, image,
                                              image_status_for(image, request->owner,
                                                               request->desired.name));
                images->on_done(image, request, images->outcome_userdata);
        }
}

static int images_ask_arrivals(Images *images, const char *after);

static int on_layers(const ImageOnDemand *found, const Error *error, void *userdata) {
        Images *images = userdata;
        cleanup(free_p) char *key = take_ptr(images->layers_of);
        Image *image = images_find_key(images, key);
        int r;

        r = image && !error ? image_set_on_demand(image, found) : 0;
        images->layers = on_demand_drop(images->layers);
        return r < 0 ? r : images_ask_arrivals(images, key);
}

/* Asks for one image after the other, in the order of their keys, and again after a while. */
static int images_ask_arrivals(Images *images, const char *after) {
        size_t i;
        int r;

        if (image_index_find(&images->index, after, &i))
                i++;
        while (i < images->index.n_items && !image_is_arriving(images->index.items[i]))
                i++;
        if (i == images->index.n_items)
                return timer_start(&images->arrivals, ARRIVALS_USEC);

        images->layers_of = strdup(image_key(images->index.items[i]));
        if (!images->layers_of)
                return -ENOMEM;

        r = on_demand_ask(&images->on_demand, image_status(images->index.items[i])->image_id,
                          on_layers, images, &images->layers);
        if (r != 0)
                return r;

        free(take_ptr(images->layers_of));
        return timer_start(&images->arrivals, ARRIVALS_USEC);
}

/* Runs until all images have arrived. */
static int on_arrivals(void *userdata) {
        Images *images = userdata;

        for (size_t i = 0; i < images->index.n_items; i++)
                if (image_is_arriving(images->index.items[i]))
                        return images_ask_arrivals(images, "");

        return 0;
}

static int images_reconcile_one(Images *images, Image *image) {
        int r;

        image_marks(image)->is_dirty = false;
        r = image_reconcile(image, &images->context);
        if (r < 0)
                return r;

        images_report_outcomes(images, image);
        r = images_notify(images, image);
        if (r < 0)
                return r;

        if (image_is_arriving(image) && !images->layers && !timer_is_running(&images->arrivals))
                r = timer_start(&images->arrivals, ARRIVALS_USEC);
        if (!image_requests(image) && !image_marks(image)->is_dirty)
                images_remove(images, image);
        return r;
}

/* An image that becomes dirty meanwhile has its turn in the next pass. */
static int images_reconcile_dirty(Images *images) {
        size_t n = images->dirty.n_items;
        cleanup(free_p) Image **dirty = calloc(n + 1, sizeof(dirty[0]));
        int r = 0;

        if (!dirty)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++)
                dirty[i] = images->dirty.items[i];
        images->dirty.n_items = 0;
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = images_reconcile_one(images, dirty[i]);
        return r;
}

static int images_expire(Images *images) {
        const RequestClock now = { .wall_sec = time(NULL), .monotonic_sec = clock_monotonic_sec() };
        int64_t next = INT64_MAX;
        int r = 0;

        for (size_t i = 0; i < images->index.n_items; i++) {
                int64_t image_next;

                r = image_expire(images->index.items[i], &now, &image_next);
                if (r < 0)
                        return r;
                next = image_next < next ? image_next : next;
        }

        if (next == INT64_MAX)
                timer_stop(&images->expiry);
        else
                r = timer_start(&images->expiry,
                                next > now.monotonic_sec
                                        ? (uint64_t) (next - now.monotonic_sec) * USEC_PER_SEC
                                        : 0);
        return r;
}

static int on_expiry(void *userdata) {
        return images_expire(userdata);
}

/* Leases of the previous run keep what it fetched until all its pulls have ended. */
static void images_end_left_leases(Images *images) {
        if (!leases_has_left(images->context.leases) || !images_are_complete(images) ||
            !runtimes_are_alive(images->context.runtimes))
                return;

        for (size_t i = 0; i < images->index.n_items; i++)
                if (image_is_syncing(images->index.items[i]))
                        return;

        leases_end_left(images->context.leases);
}

static int on_leases(void *userdata) {
        Images *images = userdata;

        return deferred_request(&images->pass);
}

static int on_pass(void *userdata) {
        Images *images = userdata;
        int r;

        r = images_reconcile_dirty(images);
        if (r < 0)
                return r;

        r = pulls_serve(&images->context);
        if (r < 0)
                return r;

        if (images->dirty.n_items > 0)
                return 0;

        images_end_left_leases(images);
        return images_expire(images);
}

static void images_hint_of(const Images *images, PullRemedy remedy, const char *registry) {
        for (size_t i = 0; i < images->index.n_items; i++) {
                Pull *pull = image_pull(images->index.items[i]);

                if (pull)
                        (void) pull_hint(pull, remedy, registry);
        }
}

/* Pulls that could not reach the registry need not wait for the end of their pause. */
static void on_answered(const char *registry, void *userdata) {
        images_hint_of(userdata, PULL_REMEDY_NETWORK, registry);
}

/* Creates the parts that all pulls share. */
static int images_share(Images *images, const ImagesOptions *options) {
        PullContext *context = &images->context;
        const DiskGuardOptions disk = {
                .event = context->event,
                .log = options->log,
                .runtimes = options->runtimes,
                .host_root = options->host_root,
                .is_pod = options->is_pod,
                .floor = options->limits.disk_floor,
        };

        return queue_new(INSPECTIONS_MAX, &context->inspections)
               ?: queue_new(options->limits.max_parallel_pulls, &context->pulls)
               ?: leases_new(options->runtimes, &context->leases)
               ?: progress_tracker_new(context->event, options->runtimes,
                                       options->limits.stall_usec, &context->progress)
               ?: disk_guard_new(&disk, &context->disk);
}

int images_new(const ImagesOptions *options, Images **ret) {
        cleanup(images_free_p) Images *images = NULL;
        sd_event *event = completion_queue_get_event(options->completions);
        int r;

        images = malloc(sizeof(*images));
        if (!images)
                return -ENOMEM;

        *images = (Images) {
                .keeps_served = options->limits.keeps_served,
                .on_demand = { event, options->runtimes, options->limits.stall_usec, 0 },
                .metrics = options->metrics,
                .on_outcome = options->on_outcome,
                .on_done = options->on_done,
                .outcome_userdata = options->outcome_userdata,
                .context = {
                        .event = event,
                        .log = options->log,
                        .runtimes = options->runtimes,
                        .on_demand = &images->on_demand,
                        .keys = options->keys,
                        .on_answered = on_answered,
                        .userdata = images,
                },
        };
        r = images_share(images, options);
        if (r < 0)
                return r;

        /* Starts the pass once, so that later requests need no memory. */
        timer_init(&images->expiry, event, 0, on_expiry, images);
        timer_init(&images->arrivals, event, 0, on_arrivals, images);
        deferred_init(&images->pass, event, on_pass, images);
        r = deferred_request(&images->pass);
        if (r < 0)
                return r;

        *ret = take_ptr(images);
        return 0;
}

Images *images_free(Images *images) {
        if (!images)
                return NULL;

        for (size_t i = 0; i < images->index.n_items; i++)
                image_free(images->index.items[i]);
        free(images->index.items);
        free(images->dirty.items);
        progress_tracker_free(images->context.progress);
        leases_free(images->context.leases);
        disk_guard_free(images->context.disk);
        queue_free(images->context.inspections);
        queue_free(images->context.pulls);
        deferred_done(&images->pass);
        timer_done(&images->expiry);
        timer_done(&images->arrivals);
        on_demand_drop(images->layers);
        free(images->layers_of);
        free(images->pause);
        free(images);
        return NULL;
}

void images_watch(Images *images, ImagesWatcher *watcher) {
        list_prepend(&images->watchers, watcher);
}

void images_unwatch(Images *images, ImagesWatcher *watcher) {
        list_remove(&images->watchers, watcher);
}

int images_set_desired(Images *images, const char *owner, const DesiredImages *desired_images,
                       RequestKind kind) {
        Image *image;
        int r;

        for (size_t i = 0; i < desired_images->n_items; i++) {
                const DesiredImage *desired = &desired_images->items[i];

                r = images_find_or_add_desired(images, desired, &image);
                if (r < 0)
                        return r;

                r = image_set_request(image, owner, desired, kind);
                if (r > 0)
                        r = image_pull_again(image, images->keeps_served);
                if (r < 0)
                        return r;
        }

        for (size_t i = 0; i < images->index.n_items; i++) {
                r = image_sweep_requests(images->index.items[i], owner);
                if (r < 0)
                        return r;
        }

        return 0;
}

int images_withdraw(Images *images, const char *owner, const Image *image) {
        int n = 0;
        int r;

        for (size_t i = 0; i < images->index.n_items; i++) {
                if (image && images->index.items[i] != image)
                        continue;

                r = image_withdraw(images->index.items[i], owner);
                if (r < 0)
                        return r;
                n += r;
        }

        return n;
}

int images_restore(Images *images, const char *name, const char *tag, ImageStatus *status) {
        Image *image;
        int r;

        r = images_find_or_add(images, name, tag, &image);
        if (r < 0)
                return r;

        image_restore_status(image, status);
        on_dirty(image, images);
        return 0;
}

int images_restore_request(Images *images, const char *name, const char *tag,
                           const FormerRequest *former) {
        Image *image;
        int r;

        r = images_find_or_add(images, name, tag, &image);
        if (r < 0)
                return r;

        on_dirty(image, images);
        return image_restore_request(image, former);
}

void images_await(Images *images) {
        images->n_awaited++;
}

void images_heard(Images *images) {
        images->n_awaited--;
        (void) deferred_request(&images->pass);
}

bool images_are_complete(const Images *images) {
        return images->are_restored && images->n_awaited == 0;
}

void images_restore_end(Images *images) {
        images->are_restored = true;
        for (size_t i = 0; i < images->index.n_items; i++)
                image_restore_end(images->index.items[i]);
}

int images_retry(Images *images, ImageRequestFilter filter, const void *userdata) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < images->index.n_items; i++)
                r = image_retry(images->index.items[i], filter, userdata);
        return r < 0 ? r : 0;
}

void images_hint(Images *images, PullRemedy remedy) {
        images_hint_of(images, remedy, NULL);
}

ShortNames images_short_names(const Images *images) {
        return images->context.short_names;
}

static int images_move_requests(Images *images, Image *image) {
        const ImageRequest *next;
        int r = 0;

        for (const ImageRequest *request = image_requests(image); r >= 0 && request;
             request = next) {
                Image *to;

                next = request->next;
                r = images_find_or_add_desired(images, &request->desired, &to);
                if (r >= 0 && to != image)
                        r = image_move_request(image, request, to);
        }
        return r < 0 ? r : image_rename(image, images->context.short_names);
}

int images_set_short_names(Images *images, ShortNames short_names) {
        cleanup(free_p) Image **before = NULL;
        size_t n = images->index.n_items;
        int r = 0;

        if (images->context.short_names == short_names)
                return 0;

        before = calloc(n + 1, sizeof(before[0]));
        if (!before)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++)
                before[i] = images->index.items[i];
        images->context.short_names = short_names;
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = images_move_requests(images, before[i]);
        return r;
}

int images_runtime_changed(Images *images) {
        const Runtime *runtime = runtimes_chosen(images->context.runtimes);
        bool is_away = !runtimes_are_alive(images->context.runtimes);
        bool is_back = images->runtime_was_away && !is_away;
        int r;

        images->runtime_was_away = is_away;
        r = progress_tracker_runtime_changed(images->context.progress);
        if (r >= 0 && !is_away)
                r = images_set_short_names(images, short_names_of(runtime_name(runtime)));
        if (r >= 0 && !is_away)
                r = leases_find_left(images->context.leases, on_leases, images);
        for (size_t i = 0; r >= 0 && i < images->index.n_items; i++) {
                Image *image = images->index.items[i];

                if (is_back && image_pull(image))
                        (void) pull_hint_runtime(image_pull(image));
                r = image_runtime_changed(image);
        }
        return r;
}

int images_set_limits(Images *images, const ImagesLimits *limits) {
        int r = 0;

        queue_set_slots(images->context.pulls, limits->max_parallel_pulls);
        progress_tracker_set_stall(images->context.progress, limits->stall_usec);
        images->on_demand.stall_usec = limits->stall_usec;
        disk_guard_set_floor(images->context.disk, &limits->disk_floor);
        (void) deferred_request(&images->pass);
        images->keeps_served = limits->keeps_served;
        for (size_t i = 0; r >= 0 && i < images->index.n_items; i++)
                r = image_pull_again(images->index.items[i], images->keeps_served);
        return r;
}

static bool is_among(const char *key, const char *const *keys, size_t n_keys) {
        for (size_t i = 0; i < n_keys; i++)
                if (strcmp(keys[i], key) == 0)
                        return true;

        return false;
}

int images_pause(Images *images, const char *why, const char *const *keys, size_t n_keys) {
        int r;

        r = text_set(&images->pause, why);
        images->context.pause = images->pause;
        for (size_t i = 0; r >= 0 && i < images->index.n_items; i++) {
                Image *image = images->index.items[i];

                if (image_pull(image))
                        r = pull_on_pause_changed(image_pull(image),
                                                  is_among(image_key(image), keys, n_keys));
        }
        return r < 0 ? r : deferred_request(&images->pass);
}

int images_set_gate(Images *images, const PullGate *gate) {
        int r = 0;

        images->context.gate = gate ? *gate : (PullGate){ .why_shut = NULL };
        for (size_t i = 0; r >= 0 && i < images->index.n_items; i++)
                if (image_pull(images->index.items[i]))
                        r = pull_on_gate_changed(image_pull(images->index.items[i]));
        return r < 0 ? r : deferred_request(&images->pass);
}

static void images_log_missing(Images *images, const Image *image) {
        const ImageStatus *status = image_status(image);

        metrics_add(images->metrics, METRIC_IMAGES_REMOVED, NULL, 1);
        log_warning(images->context.log,
                    LOG_FIELDS({ "MESSAGE_ID", MESSAGE_IMAGE_MISSING },
                               { "IMAGE", image_key(image) },
                               { "REASON", pull_reason_to_string(status->reason) }),
                    "Missing \"%s\": %s.", image_key(image), status->message ?: "removed");
}

int images_set_missing(Images *images, Image *image) {
        int r;

        r = image_set_missing(image, images->keeps_served);
        if (r >= 0)
                images_log_missing(images, image);
        return r;
}

const DiskGuard *images_disk(const Images *images) {
        return images->context.disk;
}

size_t images_count(const Images *images) {
        return images->index.n_items;
}

Image *images_get(const Images *images, size_t i) {
        return images->index.items[i];
}

int images_find(const Images *images, const char *name, const char *tag, Image **ret) {
        cleanup(free_p) char *key = NULL;
        int r;

        r = image_key_of(name, tag, images->context.short_names, &key);
        *ret = r < 0 ? NULL : images_find_key(images, key);
        return r;
}

int images_find_desired(const Images *images, const DesiredImage *desired, Image **ret) {
        cleanup(free_p) char *name = NULL;
        int r;

        *ret = NULL;
        r = full_name(desired, &name);
        return r < 0 ? r : images_find(images, name, desired->tag, ret);
}

int images_find_reference(const Images *images, const char *text, Image **ret) {
        cleanup(free_p) char *key = NULL;
        ImageRef ref;
        int r;

        *ret = NULL;
        if (image_ref_parse(text, images->context.short_names, &ref, NULL) < 0)
                return 0;

        r = image_ref_canonical_reference(&ref, &key);
        if (r >= 0)
                *ret = images_find_key(images, key);
        return r;
}

Image *images_find_key(const Images *images, const char *key) {
        size_t at;

        return image_index_find(&images->index, key, &at) ? images->index.items[at] : NULL;
}

ImagesWork images_work(const Images *images) {
        return (ImagesWork){
                .n_queued = queue_n_waiting(images->context.pulls) +
                            disk_guard_n_waiting(images->context.disk),
                .n_pulling = queue_n_served(images->context.pulls),
                .bytes_pulled = progress_tracker_bytes(images->context.progress),
                .progress = progress_tracker_support(images->context.progress),
        };
}

static const char *const phase_labels[_IMAGE_PHASE_MAX] = {
        [IMAGE_WAITING] = "waiting",     [IMAGE_PULLING] = "pulling",
        [IMAGE_BACKING_OFF] = "backoff", [IMAGE_SUCCEEDED] = "succeeded",
        [IMAGE_FAILED] = "failed",       [IMAGE_MISSING] = "missing",
};

void images_measure(Images *images) {
        ImagesWork work = images_work(images);
        size_t counts[_IMAGE_PHASE_MAX] = { 0 };

        for (size_t i = 0; i < images->index.n_items; i++)
                if (image_is_desired(images->index.items[i]))
                        counts[image_status(images->index.items[i])->phase]++;
        for (ImagePhase phase = 0; phase < _IMAGE_PHASE_MAX; phase++)
                metrics_set(images->metrics, METRIC_IMAGES_WANTED,
                            METRIC_LABELS(phase_labels[phase]), (double) counts[phase]);

        metrics_set(images->metrics, METRIC_PULLS_QUEUED, NULL, (double) work.n_queued);
        metrics_set(images->metrics, METRIC_PULLS_RUNNING, NULL, (double) work.n_pulling);
        if (work.progress == PROGRESS_SUPPORTED)
                metrics_add(images->metrics, METRIC_PULL_BYTES, NULL,
                            (double) (work.bytes_pulled - images->bytes_counted));
        images->bytes_counted = work.bytes_pulled;
}
