/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/pull-slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/cluster/slot-claim.h"
#include "agent/image/image-ref.h"

/* So many failures of an image are the end of it for the nodes that pull first. */
#define FIRST_ATTEMPTS 3

struct PullSlots {
        PullSlotsOptions options;
        ImagesWatcher watcher;
        ImageSetsWatcher sets_watcher;
        Deferred pass;
        SlotNode node;
        SlotClaim *claims;
        char *why; /* last answer of the gate */
};

static int request_pass(PullSlots *slots) {
        return slots->claims || image_sets_have_limits(slots->options.sets)
                       ? deferred_request(&slots->pass)
                       : 0;
}

static SlotClaim *find_claim(const PullSlots *slots, bool is_first, const char *name) {
        SlotClaim *claim = slots->claims;

        while (claim && (claim->is_first != is_first || strcmp(claim->name, name) != 0))
                claim = claim->next;
        return claim;
}

/* The gate */

static bool is_shut_by_first(const PullSlots *slots, const ImageSetLimits *limits) {
        return limits->first > 0 &&
               !slot_claim_lets_pull(find_claim(slots, /* is_first= */ true, limits->name),
                                     limits->first);
}

static bool is_shut_by_registry(const PullSlots *slots, const ImageSetLimits *limits,
                                const char *registry) {
        return limits->parallelism > 0 &&
               !slot_claim_lets_pull(find_claim(slots, /* is_first= */ false, registry),
                                     limits->parallelism);
}

static bool read_registry(const char *key, ImageRef *ret) {
        return image_ref_parse(key, SHORT_NAMES_SEARCHED, ret, NULL) >= 0;
}

static const char *why_shut(const char *key, void *userdata) {
        PullSlots *slots = userdata;
        const Image *image = images_find_key(slots->options.images, key);
        const ImageSetLimits *shut = NULL;
        bool is_first = false;
        ImageRef ref;

        if (!image || !read_registry(key, &ref))
                return NULL;

        for (const ImageRequest *request = image_requests(image); request;
             request = request->next) {
                const ImageSetLimits *limits =
                        image_sets_limits(slots->options.sets, request->owner);

                if (!request_is_due(request))
                        continue;
                is_first = limits && is_shut_by_first(slots, limits);
                if (!limits || (!is_first && !is_shut_by_registry(slots, limits, ref.registry)))
                        return NULL;
                shut = limits;
        }
        if (!shut)
                return NULL;

        free(take_ptr(slots->why));
        if ((is_first ? text_format(&slots->why,
                                    "this node waits until %u nodes have the images of set %s",
                                    shut->first, shut->name)
                      : text_format(&slots->why,
                                    "this node waits for one of %u slots of registry %s",
                                    shut->parallelism, ref.registry)) < 0)
                return "this node waits for others";

        return slots->why;
}

/* The pulls of each claim */

/* Whether the pull has begun, or may begin without a pause. */
static bool is_running(ImageStep step) {
        return step == IMAGE_STEP_QUEUED || step == IMAGE_STEP_INSPECTING ||
               step == IMAGE_STEP_RESOLVING || step == IMAGE_STEP_DOWNLOADING ||
               step == IMAGE_STEP_UNPACKING;
}

/* Counts a pull that waits, and makes the claim with the first one. */
static int count_waiting(PullSlots *slots, bool is_first, const char *name, unsigned n_slots) {
        SlotClaim *claim = find_claim(slots, is_first, name);
        int r;

        if (!claim) {
                r = slot_claim_new(&slots->node, is_first, name, &claim);
                if (r < 0)
                        return r;
                list_prepend(&slots->claims, claim);
        }
        slot_claim_count_waiting(claim, n_slots);
        return 0;
}

/* An image that cannot be pulled is over after a few attempts: it must not hold up the other nodes. */
static bool is_over(const ImageRequest *request, const ImageStatus *status) {
        return request->is_done || status->phase == IMAGE_FAILED ||
               status->attempt > FIRST_ATTEMPTS ||
               (status->attempt == FIRST_ATTEMPTS && status->phase == IMAGE_BACKING_OFF);
}

static int count_first(PullSlots *slots, const ImageSetLimits *limits, const ImageRequest *request,
                       const ImageStatus *status) {
        bool is_waiting = status->step == IMAGE_STEP_WAITING_FOR_SLOT;
        SlotClaim *claim;
        int r = 0;

        if (is_waiting && request_is_due(request))
                r = count_waiting(slots, /* is_first= */ true, limits->name, limits->first);
        claim = find_claim(slots, /* is_first= */ true, limits->name);
        if (r < 0 || !claim)
                return r;

        slot_claim_set_first(claim, limits->digest, limits->first);
        if (!is_waiting && !is_over(request, status))
                claim->n_running++;
        return 0;
}

/* A node that waits for others to be first takes no slot of the registry meanwhile. */
static int count_parallel(PullSlots *slots, const ImageSetLimits *limits, const char *registry,
                          ImageStep step) {
        SlotClaim *claim = find_claim(slots, /* is_first= */ false, registry);

        if (is_running(step) && claim)
                claim->n_running++;
        return step == IMAGE_STEP_WAITING_FOR_SLOT && !is_shut_by_first(slots, limits)
                       ? count_waiting(slots, /* is_first= */ false, registry, limits->parallelism)
                       : 0;
}

static int count_image(PullSlots *slots, const Image *image) {
        const ImageStatus *status = image_status(image);
        ImageRef ref;
        int r = 0;

        if (!read_registry(image_key(image), &ref))
                return 0;

        for (const ImageRequest *request = image_requests(image); r >= 0 && request;
             request = request->next) {
                const ImageSetLimits *limits =
                        image_sets_limits(slots->options.sets, request->owner);

                if (limits && limits->first > 0)
                        r = count_first(slots, limits, request, status);
                if (r >= 0 && limits && limits->parallelism > 0 && image_pull(image) &&
                    request_is_due(request))
                        r = count_parallel(slots, limits, ref.registry, status->step);
        }
        return r;
}

static int step_claims(PullSlots *slots) {
        SlotClaim *next;
        int r = 0;

        for (SlotClaim *claim = slots->claims; r >= 0 && claim; claim = next) {
                next = claim->next;
                if (slot_claim_is_idle(claim)) {
                        list_remove(&slots->claims, claim);
                        slot_claim_free(claim);
                } else {
                        r = slot_claim_step(claim);
                }
        }
        return r;
}

/* Counts the pulls anew, and lets those begin that have a slot. */
static int on_pass(void *userdata) {
        PullSlots *slots = userdata;
        const PullGate gate = { why_shut, slots };
        int r = 0;

        for (SlotClaim *claim = slots->claims; claim; claim = claim->next)
                slot_claim_begin_count(claim);
        for (size_t i = 0; r >= 0 && i < images_count(slots->options.images); i++)
                r = count_image(slots, images_get(slots->options.images, i));
        if (r >= 0)
                r = step_claims(slots);
        return r < 0 ? r : images_set_gate(slots->options.images, &gate);
}

static int on_image(Image *image, void *userdata) {
        return request_pass(userdata);
}

/* Without limits, pulls that wait begin. */
static int on_sets_changed(void *userdata) {
        return deferred_request(&((PullSlots *) userdata)->pass);
}

int pull_slots_new(const PullSlotsOptions *options, PullSlots **ret) {
        PullSlots *slots = calloc(1, sizeof(*slots));
        int r;

        if (!slots)
                return -ENOMEM;

        slots->options = *options;
        slots->node = (SlotNode){ .client = options->client,
                                  .log = options->log,
                                  .name = options->node_name,
                                  .pass = &slots->pass };
        slots->watcher = (ImagesWatcher){ .on_image = on_image, .userdata = slots };
        slots->sets_watcher =
                (ImageSetsWatcher){ .on_changed = on_sets_changed, .userdata = slots };
        deferred_init(&slots->pass, kube_client_event(options->client), on_pass, slots);
        images_watch(options->images, &slots->watcher);
        image_sets_watch(options->sets, &slots->sets_watcher);
        r = on_sets_changed(slots);
        *ret = slots;
        return r;
}

PullSlots *pull_slots_free(PullSlots *slots) {
        if (!slots)
                return NULL;

        (void) images_set_gate(slots->options.images, NULL);
        images_unwatch(slots->options.images, &slots->watcher);
        image_sets_unwatch(slots->options.sets, &slots->sets_watcher);
        deferred_done(&slots->pass);
        while (slots->claims) {
                SlotClaim *claim = slots->claims;

                list_remove(&slots->claims, claim);
                slot_claim_free(claim);
        }
        error_done(&slots->node.error);
        free(slots->why);
        free(slots);
        return NULL;
}
