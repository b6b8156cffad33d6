/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/presence.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/image/listing.h"
#include "agent/image/presence-plan.h"
#include "cri/client.h"
#include "cri/containerd.h"

#define ACCURACY_USEC ((uint64_t) 10 * 1000) /* accuracy of the time of the next list */

struct Presence {
        const Runtimes *runtimes;
        Images *images;
        ImagesWatcher watcher;
        unsigned connection; /* number of the runtime's connection that sends the events; 0: none */
        RpcCall *events;
        bool has_events;

        Timer timer; /* time of the next list */
        uint64_t listed_usec;
        bool has_failed; /* the last list, or a question after it */
        RpcCall *call;
        char **suspects; /* keys of images, the last one is asked for next */
        size_t n_suspects;
};

static void presence_forget_suspects(Presence *presence) {
        for (size_t i = 0; i < presence->n_suspects; i++)
                free(presence->suspects[i]);
        free(take_ptr(presence->suspects));
        presence->n_suspects = 0;
}

static int presence_suspect(Presence *presence, const Listing *listing) {
        size_t n = images_count(presence->images);

        presence_forget_suspects(presence);
        presence->suspects = calloc(n + 1, sizeof(presence->suspects[0]));
        if (!presence->suspects)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                const Image *image = images_get(presence->images, i);
                const CriImage *listed = listing_find(listing, image_key(image));
                char *key;

                if (!image_is_verifiable(image) ||
                    !presence_is_suspect(image_status(image), listed ? listed->id : NULL))
                        continue;

                key = strdup(image_key(image));
                if (!key)
                        return -ENOMEM;
                presence->suspects[presence->n_suspects++] = key;
        }

        return 0;
}

static int presence_later(Presence *presence, uint64_t usec) {
        return timer_start(&presence->timer, usec);
}

static int presence_end(Presence *presence) {
        presence_forget_suspects(presence);
        return timer_is_running(&presence->timer)
                       ? 0
                       : presence_later(presence, presence_interval_usec(presence->has_events &&
                                                                         !presence->has_failed));
}

static int presence_confirm_next(Presence *presence);

/* Applies the answer only if it still matters: a request or a pull may have changed the status. An image
 * that the runtime cannot tell about, perhaps since its files are damaged, does not hide the others. */
static int on_confirmed(const void *reply, const Error *error, void *userdata) {
        const CriImageStatus *found = reply;
        Presence *presence = userdata;
        cleanup(free_p) char *key = presence->suspects[--presence->n_suspects];
        Image *image = images_find_key(presence->images, key);
        int r = 0;

        presence->call = rpc_call_unref(presence->call);
        presence->has_failed |= error != NULL;
        if (!error && image && image_is_verifiable(image)) {
                if (found->image)
                        r = image_set_present(image, found->image);
                else if (image_status(image)->phase == IMAGE_SUCCEEDED)
                        r = images_set_missing(presence->images, image);
        }

        return r < 0 ? r : presence_confirm_next(presence);
}

static int presence_confirm_next(Presence *presence) {
        if (presence->n_suspects == 0 || !runtimes_are_alive(presence->runtimes))
                return presence_end(presence);

        return cri_image_status(runtimes_client(presence->runtimes),
                                presence->suspects[presence->n_suspects - 1], on_confirmed,
                                presence, &presence->call);
}

static int on_listed(const void *reply, const Error *error, void *userdata) {
        cleanup(listing_done) Listing listing = { .names = NULL };
        Presence *presence = userdata;
        int r;

        presence->call = rpc_call_unref(presence->call);
        presence->has_failed = error != NULL;
        if (error)
                return presence_end(presence);

        r = listing_init(&listing, images_short_names(presence->images), reply);
        if (r >= 0)
                r = presence_suspect(presence, &listing);
        return r < 0 ? r : presence_confirm_next(presence);
}

static bool presence_has_work(const Presence *presence) {
        for (size_t i = 0; i < images_count(presence->images); i++)
                if (image_is_verifiable(images_get(presence->images, i)))
                        return true;

        return false;
}

/* Waits for the end of a list in progress before the next one. */
static int on_timer(void *userdata) {
        Presence *presence = userdata;

        if (!runtimes_are_alive(presence->runtimes))
                return 0;
        if (presence->call)
                return presence_later(presence, presence_delay_usec(0));
        if (!presence_has_work(presence))
                return presence_end(presence);

        presence->listed_usec = clock_monotonic_usec();
        return cri_list_images(runtimes_client(presence->runtimes), on_listed, presence,
                               &presence->call);
}

static int presence_soon(Presence *presence) {
        return presence_later(presence,
                              presence_delay_usec(clock_monotonic_usec() - presence->listed_usec));
}

static int on_removed(const void *message, void *userdata) {
        return presence_soon(userdata);
}

/* A success copied from a NodeImage's status may be outdated: the image may be gone. */
static int on_image(Image *image, void *userdata) {
        if (!image_marks(image)->is_unverified)
                return 0;

        image_marks(image)->is_unverified = false;
        return presence_soon(userdata);
}

int presence_verify(Presence *presence) {
        return presence_later(presence, 0);
}

/* The stream ends with the connection, or at once if the runtime has no such events. The next list
 * must not wait for the long interval then. */
static int on_events_end(const void *reply, const Error *error, void *userdata) {
        Presence *presence = userdata;

        presence->events = rpc_call_unref(presence->events);
        presence->has_events = false;
        return presence->call ? 0 : presence_verify(presence);
}

/* The list that follows finds the images that were removed before the subscription. */
static int presence_subscribe(Presence *presence) {
        presence->has_events = true;
        return events_watch_images(runtimes_client(presence->runtimes), EVENT_IMAGE_REMOVED,
                                   on_removed, on_events_end, presence, &presence->events);
}

int presence_runtime_changed(Presence *presence) {
        const Runtime *runtime = runtimes_chosen(presence->runtimes);
        bool is_alive = runtimes_are_alive(presence->runtimes);
        unsigned connection = is_alive ? runtime_n_connects(runtime) : 0;
        int r;

        if (connection == presence->connection)
                return 0;

        presence->connection = connection;
        presence->events = rpc_call_unref(presence->events);
        presence->call = rpc_call_unref(presence->call);
        presence_forget_suspects(presence);
        timer_stop(&presence->timer);
        if (!is_alive)
                return 0;

        r = presence_subscribe(presence);
        return r < 0 ? r : presence_verify(presence);
}

int presence_new(sd_event *event, const Runtimes *runtimes, Images *images, Presence **ret) {
        Presence *presence = calloc(1, sizeof(*presence));

        if (!presence)
                return -ENOMEM;

        presence->runtimes = runtimes;
        presence->images = images;
        timer_init(&presence->timer, event, ACCURACY_USEC, on_timer, presence);
        presence->watcher = (ImagesWatcher){ .on_image = on_image, .userdata = presence };
        images_watch(images, &presence->watcher);
        *ret = presence;
        return 0;
}

Presence *presence_free(Presence *presence) {
        if (!presence)
                return NULL;

        images_unwatch(presence->images, &presence->watcher);
        rpc_call_unref(presence->events);
        rpc_call_unref(presence->call);
        presence_forget_suspects(presence);
        timer_done(&presence->timer);
        free(presence);
        return NULL;
}
