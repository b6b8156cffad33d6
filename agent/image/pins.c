/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/pins.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/image/listing.h"
#include "agent/image/pin-plan.h"
#include "agent/image/presence-plan.h"
#include "cri/client.h"
#include "cri/containerd.h"

#define DELAY_USEC (USEC_PER_SEC / 10) /* a change has several events */
#define PACE_USEC USEC_PER_SEC
#define RETRY_USEC (60 * USEC_PER_SEC)
#define INCOMPLETE_USEC (5 * USEC_PER_SEC) /* until all owners were heard */

struct Pins {
        Log *log;
        const Runtimes *runtimes;
        Images *images;
        ImagesWatcher watcher;
        DiskFloor limit;
        void (*on_round)(const Error *error, void *userdata);
        void *userdata;
        unsigned connection; /* number of the runtime's connection that sends the events; 0: none */
        RpcCall *events;
        bool has_events;

        Timer timer; /* time of the next round */
        bool is_due; /* the timer must not be put off */
        uint64_t began_usec;
        RpcCall *call;
        PinNode node;
        Pin *items; /* pins of the last round; those that are wanted come first, sorted by name */
        size_t n_items;
        size_t n_wanted;
        uint64_t n_bytes; /* size of the images that the agent pins */
        size_t next;      /* place of the next action */
        bool has_refusal;
};

static void pins_forget(Pins *pins) {
        for (size_t i = 0; i < pins->n_items; i++) {
                free(pins->items[i].name);
                free(pins->items[i].label);
                free(pins->items[i].refusal);
        }
        free(take_ptr(pins->items));
        pins->n_items = pins->n_wanted = 0;
}

static int pins_soon(Pins *pins) {
        uint64_t since_usec = clock_monotonic_usec() - pins->began_usec;
        bool is_paced = since_usec + DELAY_USEC < PACE_USEC;

        if (pins->is_due)
                return 0;

        pins->is_due = true;
        return timer_start(&pins->timer, is_paced ? PACE_USEC - since_usec : DELAY_USEC);
}

static uint64_t interval_usec(const Pins *pins) {
        if (!pins->node.is_complete)
                return INCOMPLETE_USEC;

        return pins->has_refusal ? RETRY_USEC : presence_interval_usec(pins->has_events);
}

static int pins_end(Pins *pins, const Error *error) {
        pins->has_refusal |= error != NULL;
        pins->node.has_labels |= error != NULL; /* it is not known */
        if (pins->on_round)
                pins->on_round(error, pins->userdata);
        if (pins->is_due || (!pins->node.has_labels && pins->n_wanted == 0))
                return 0;

        return timer_start(&pins->timer, interval_usec(pins));
}

/* The first name may be that of an image which is gone since. */
static int pins_note(Pins *pins, const Pin *pin) {
        const Runtime *runtime = runtimes_chosen(pins->runtimes);
        Image *image = images_find_key(pins->images, pin->name);
        cleanup(free_p) char *why = NULL;
        int r;

        if (!image)
                return 0;

        r = pin_describe(pin, &pins->node, pins->n_bytes, runtime_name(runtime),
                         runtime_version(runtime), &why);
        if (r >= 0)
                r = image_set_pin(image, why);
        if (r > 0 && why)
                log_warning(pins->log, LOG_FIELDS({ "IMAGE", pin->name }), "\"%s\" is %s.",
                            pin->name, why);
        return r < 0 ? r : 0;
}

static int pins_conclude(Pins *pins) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < pins->n_items; i++) {
                const Pin *pin = &pins->items[i];

                if (pin->is_wanted)
                        r = pins_note(pins, pin);
                if (pin->refusal && error.kind == ERROR_NONE)
                        (void) error_set(&error, ERROR_INTERNAL, "%s: %s", pin->name, pin->refusal);
        }
        return r < 0 ? r : pins_end(pins, error.kind != ERROR_NONE ? &error : NULL);
}

static int pins_act(Pins *pins);

/* A record that is gone needs nothing. */
static int on_acted(const void *reply, const Error *error, void *userdata) {
        Pins *pins = userdata;
        Pin *pin = &pins->items[pins->next++];
        bool is_set = pin->action == PIN_DO_SET;

        pins->call = rpc_call_unref(pins->call);
        if (error && error->kind != ERROR_NOT_FOUND) {
                if (text_copy(error_message(error), &pin->refusal) < 0)
                        return -ENOMEM;
        } else if (!error) {
                log_info(pins->log, LOG_FIELDS({ "IMAGE", pin->name }), "%s \"%s\".",
                         is_set ? "Pinned" : "Unpinned", pin->name);
                pin->is_marked = is_set;
        }
        return pins_act(pins);
}

/* A label with another value than ours is not ours. */
static int pins_act(Pins *pins) {
        ImageLabel labels[IMAGE_LABELS_MAX] = { { PIN_MARK, "" }, { PIN_LABEL, "" } };
        const Pin *pin;
        size_t n = 2;

        while (pins->next < pins->n_items && pins->items[pins->next].action == PIN_DO_NOTHING)
                pins->next++;
        if (pins->next == pins->n_items || !runtimes_are_alive(pins->runtimes))
                return pins_conclude(pins);

        pin = &pins->items[pins->next];
        if (pin->action == PIN_DO_SET) {
                labels[0].value = PIN_MARK_VALUE;
                labels[1].value = PIN_LABEL_VALUE;
        } else if (!pin_is_labeled(pin)) {
                n = 1;
        }
        return image_record_set_labels(runtimes_client(pins->runtimes), pin->name, labels, n,
                                       on_acted, pins, &pins->call);
}

/* Returns the limit in bytes. A share of a disk that the agent does not see is none. */
static int pins_limit(const Pins *pins, uint64_t *ret) {
        cleanup(free_p) char *path = NULL;
        DiskFloor limit = pins->limit;
        DiskSpace disk = { 0 };

        if (limit.percent > 0) {
                int r = disk_guard_measure(images_disk(pins->images), &disk, &path);

                if (r == -ENOMEM)
                        return r;
                if (r < 0)
                        limit.percent = 0;
        }

        *ret = limit.percent > 0 || limit.bytes > 0 ? disk_floor_bytes(&limit, disk.n_total)
                                                    : PIN_NO_LIMIT;
        return 0;
}

static int on_listed(const void *reply, const Error *error, void *userdata) {
        cleanup(listing_done) Listing listing = { .names = NULL };
        Pins *pins = userdata;
        int r;

        pins->call = rpc_call_unref(pins->call);
        if (error)
                return pins_end(pins, error);

        r = listing_init(&listing, images_short_names(pins->images), reply);
        if (r >= 0)
                r = pins_limit(pins, &pins->node.limit);
        if (r < 0)
                return r;

        for (size_t i = 0; i < pins->n_items; i++) {
                const CriImage *found = listing_find(&listing, pins->items[i].name);

                pins->items[i].id = found ? found->id : NULL;
                pins->items[i].size = found ? found->size : 0;
                pins->items[i].is_reported = found && found->pinned;
        }
        pins->n_bytes = pin_plan(&pins->node, pins->items, pins->n_items);
        for (size_t i = 0; i < pins->n_items; i++)
                pins->items[i].id = NULL; /* borrowed from the reply */
        pins->next = 0;
        return pins_act(pins);
}

static const char *label_of(const ImageRecord *record, const char *key) {
        for (size_t i = 0; i < record->n_labels; i++)
                if (strcmp(record->labels[i]->key, key) == 0)
                        return record->labels[i]->value;

        return NULL;
}

static int by_name(const void *name, const void *pin) {
        return strcmp(name, ((const Pin *) pin)->name);
}

/* Finds the pin among those that are wanted, or adds one. */
static int pins_find_or_add(Pins *pins, const char *name, Pin **ret) {
        Pin *pin = pins->n_wanted > 0
                           ? bsearch(name, pins->items, pins->n_wanted, sizeof(*pin), by_name)
                           : NULL;
        int r;

        if (!pin) {
                r = array_grow(&pins->items, pins->n_items, sizeof(*pin));
                if (r < 0)
                        return r;

                pin = &pins->items[pins->n_items];
                *pin = (Pin){ .name = strdup(name) };
                if (!pin->name)
                        return -ENOMEM;
                pins->n_items++;
        }

        *ret = pin;
        return 0;
}

static int pins_add_record(Pins *pins, const ImageRecord *record) {
        Pin *pin;
        int r;

        r = pins_find_or_add(pins, record->name, &pin);
        if (r < 0)
                return r;

        pin->is_recorded = true;
        pin->is_marked = label_of(record, PIN_MARK);
        return text_set(&pin->label, label_of(record, PIN_LABEL));
}

static bool pins_has_marks(const Pins *pins) {
        for (size_t i = 0; i < pins->n_items; i++)
                if (pins->items[i].is_marked)
                        return true;

        return false;
}

/* The list of all images is long, and only for pins that the agent has or is to have. */
static int on_records(const void *reply, const Error *error, void *userdata) {
        const ImageRecords *records = reply;
        Pins *pins = userdata;
        int r = 0;

        pins->call = rpc_call_unref(pins->call);
        pins->node.has_labels = !error;
        if (error && error->kind != ERROR_UNSUPPORTED)
                return pins_end(pins, error);

        for (size_t i = 0; !error && r >= 0 && i < records->n_images; i++)
                r = pins_add_record(pins, records->images[i]);
        if (r < 0)
                return r;
        if (pins->n_wanted == 0 && !pins_has_marks(pins))
                return pins_end(pins, NULL);

        return cri_list_images(runtimes_client(pins->runtimes), on_listed, pins, &pins->call);
}

/* Images are in the order of their keys. */
static int pins_add_wanted(Pins *pins) {
        Pin *pin;

        for (size_t i = 0; i < images_count(pins->images); i++) {
                const Image *image = images_get(pins->images, i);
                int r;

                if (!image_wants_pin(image))
                        continue;

                r = pins_find_or_add(pins, image_key(image), &pin);
                if (r < 0)
                        return r;

                pin->is_wanted = true;
                pins->n_wanted = pins->n_items;
        }

        return 0;
}

static int pins_ask(Pins *pins) {
        static const char *const labels[] = { "labels.\"" PIN_LABEL "\"",
                                              "labels.\"" PIN_MARK "\"" };
        const size_t n_labels = sizeof(labels) / sizeof(labels[0]);
        size_t n = n_labels + pins->n_wanted;
        cleanup(free_p) char **filters = calloc(n, sizeof(filters[0]));
        int r = filters ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < n; i++)
                r = i < n_labels ? text_copy(labels[i], &filters[i])
                                 : text_format(&filters[i], "name==\"%s\"",
                                               pins->items[i - n_labels].name);
        if (r >= 0)
                r = image_records_list(runtimes_client(pins->runtimes),
                                       (const char *const *) filters, n, on_records, pins,
                                       &pins->call);
        for (size_t i = 0; filters && i < n; i++)
                free(filters[i]);
        return r;
}

/* Waits for the end of a round in progress before the next one. */
static int on_timer(void *userdata) {
        Pins *pins = userdata;
        int r;

        if (!runtimes_are_alive(pins->runtimes))
                return 0;
        if (pins->call)
                return timer_start(&pins->timer, DELAY_USEC);

        pins->is_due = pins->has_refusal = false;
        pins->began_usec = clock_monotonic_usec();
        pins->node.is_complete = images_are_complete(pins->images);
        pins_forget(pins);
        r = pins_add_wanted(pins);
        return r < 0 ? r : pins_ask(pins);
}

static int on_updated(const void *message, void *userdata) {
        return pins_soon(userdata);
}

/* The stream ends with the connection, or at once if the runtime has no such events. */
static int on_events_end(const void *reply, const Error *error, void *userdata) {
        Pins *pins = userdata;

        pins->events = rpc_call_unref(pins->events);
        pins->has_events = false;
        return runtimes_are_alive(pins->runtimes) ? pins_soon(pins) : 0;
}

/* While an image is pulled, nothing can be pinned. */
static int on_image(Image *image, void *userdata) {
        bool wanted = image_marks(image)->wants_pin, wants = image_wants_pin(image);
        int r;

        image_marks(image)->wants_pin = wants;
        r = wants ? 0 : image_set_pin(image, NULL);
        if (r < 0)
                return r;

        return wants != wanted || (wants && !image_is_syncing(image)) ? pins_soon(userdata) : 0;
}

int pins_runtime_changed(Pins *pins) {
        const Runtime *runtime = runtimes_chosen(pins->runtimes);
        bool is_alive = runtimes_are_alive(pins->runtimes);
        unsigned connection = is_alive ? runtime_n_connects(runtime) : 0;
        int r;

        if (connection == pins->connection)
                return 0;

        pins->connection = connection;
        pins->events = rpc_call_unref(pins->events);
        pins->call = rpc_call_unref(pins->call);
        pins->is_due = false;
        timer_stop(&pins->timer);
        if (!is_alive)
                return 0;

        pins->has_events = true;
        r = events_watch_images(runtimes_client(pins->runtimes), EVENT_IMAGE_UPDATED, on_updated,
                                on_events_end, pins, &pins->events);
        return r < 0 ? r : pins_soon(pins);
}

int pins_set_limit(Pins *pins, const DiskFloor *limit) {
        pins->limit = *limit;
        return runtimes_are_alive(pins->runtimes) ? pins_soon(pins) : 0;
}

bool pins_has(const Pins *pins, const char *name) {
        for (size_t i = 0; i < pins->n_items; i++)
                if (pins->items[i].is_marked && strcmp(pins->items[i].name, name) == 0)
                        return true;

        return false;
}

static int visit_ineffective(const Pins *pins, const DiagnosisVisitor *visitor) {
        const Runtime *runtime = runtimes_chosen(pins->runtimes);
        cleanup(free_p) char *first = NULL, *text = NULL;
        const char *name = NULL;
        size_t n = 0;

        for (size_t i = 0; i < pins->n_wanted; i++) {
                cleanup(free_p) char *why = NULL;

                if (pin_describe(&pins->items[i], &pins->node, pins->n_bytes, runtime_name(runtime),
                                 runtime_version(runtime), &why) < 0)
                        return -ENOMEM;
                if (why && n++ == 0) {
                        name = pins->items[i].name;
                        first = take_ptr(why);
                }
        }
        if (n == 0)
                return 0;
        if (text_format(&text, "%zu of %zu pins are not in effect; \"%s\" is %s", n, pins->n_wanted,
                        name, first) < 0)
                return -ENOMEM;

        return visitor->on_problem("pins", text, "until then the kubelet may remove such images",
                                   visitor->userdata);
}

static int visit_mistyped(const Pin *pin, const DiagnosisVisitor *visitor) {
        cleanup(free_p) char *text = NULL, *advice = NULL;

        if (text_format(&text,
                        "its label " PIN_LABEL " is \"%s\", not \"" PIN_LABEL_VALUE
                        "\", and pins nothing",
                        pin->label) < 0 ||
            text_format(&advice, "correct it: ctr -n k8s.io images label %s %s=%s", pin->name,
                        PIN_LABEL, PIN_LABEL_VALUE) < 0)
                return -ENOMEM;

        return visitor->on_problem(pin->name, text, advice, visitor->userdata);
}

int pins_visit(const Pins *pins, const DiagnosisVisitor *visitor) {
        int r;

        if (!runtimes_are_alive(pins->runtimes))
                return 0;

        r = visit_ineffective(pins, visitor);
        for (size_t i = 0; r >= 0 && i < pins->n_items; i++)
                if (pins->items[i].label && !pins->items[i].is_marked &&
                    !pin_is_labeled(&pins->items[i]))
                        r = visit_mistyped(&pins->items[i], visitor);
        return r;
}

int pins_new(const PinsOptions *options, Pins **ret) {
        Pins *pins = calloc(1, sizeof(*pins));

        if (!pins)
                return -ENOMEM;

        pins->log = options->log;
        pins->runtimes = options->runtimes;
        pins->images = options->images;
        pins->limit = options->limit;
        pins->on_round = options->on_round;
        pins->userdata = options->userdata;
        timer_init(&pins->timer, options->event, /* accuracy_usec= */ 10000, on_timer, pins);
        pins->watcher = (ImagesWatcher){ .on_image = on_image, .userdata = pins };
        images_watch(pins->images, &pins->watcher);
        *ret = pins;
        return 0;
}

Pins *pins_free(Pins *pins) {
        if (!pins)
                return NULL;

        images_unwatch(pins->images, &pins->watcher);
        rpc_call_unref(pins->events);
        rpc_call_unref(pins->call);
        pins_forget(pins);
        timer_done(&pins->timer);
        free(pins);
        return NULL;
}
