/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/presence-plan.h"

#include <limits.h>

#include "agent/base/backoff.h"
#include "agent/base/text.h"
#include "agent/image/image-ref.h"

#define SEC ((uint64_t) 1000000)

#define PAUSE_MIN_USEC (5 * SEC)
#define PAUSE_MAX_USEC (3600 * SEC)

#define INTERVAL_USEC (60 * SEC)
#define INTERVAL_WITH_EVENTS_USEC (3600 * SEC) /* period that finds removals whose event was lost */

/* A collector removes many images at a time. */
#define EVENT_DELAY_USEC (SEC / 5)
#define EVENT_PACE_USEC (5 * SEC)

bool presence_is_suspect(const ImageStatus *status, const char *listed_id) {
        switch (status->phase) {
        case IMAGE_SUCCEEDED:
                return !listed_id ||
                       (status->image_id && !image_id_equal(status->image_id, listed_id));
        case IMAGE_MISSING: return listed_id;
        case IMAGE_WAITING:
        case IMAGE_PULLING:
        case IMAGE_BACKING_OFF:
        case IMAGE_FAILED:
        case _IMAGE_PHASE_MAX: break;
        }

        return false;
}

unsigned presence_n_removals(unsigned n_removals, uint64_t stayed_usec) {
        if (stayed_usec >= PRESENCE_STAYED_USEC)
                return 1;

        return n_removals < UINT_MAX ? n_removals + 1 : n_removals;
}

uint64_t presence_pause_usec(unsigned n_removals, uint32_t random) {
        return backoff_between_usec(PAUSE_MIN_USEC, PAUSE_MAX_USEC, n_removals, random);
}

uint64_t presence_interval_usec(bool has_events) {
        return has_events ? INTERVAL_WITH_EVENTS_USEC : INTERVAL_USEC;
}

uint64_t presence_delay_usec(uint64_t since_list_usec) {
        if (since_list_usec + EVENT_DELAY_USEC >= EVENT_PACE_USEC)
                return EVENT_DELAY_USEC;

        return EVENT_PACE_USEC - since_list_usec;
}

char *presence_describe(unsigned n_removals, bool is_pulled_again) {
        static const char *const again[] = {
                "it is pulled again",
                "it is pulled again only with keepImages",
        };
        char *text;

        if (n_removals > 1)
                (void) text_format(
                        &text,
                        "removed %u times by something else than inplaced, probably by the "
                        "kubelet's garbage collector for lack of disk space; %s",
                        n_removals, again[!is_pulled_again]);
        else
                (void) text_format(&text, "removed by something else than inplaced; %s",
                                   again[!is_pulled_again]);

        return text;
}
