/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/pull-slots.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/random.h"
#include "agent/base/repeat.h"
#include "agent/base/text.h"
#include "agent/cluster/pull-slots-plan.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-ref.h"
#include "agent/kube/lease-spec.h"
#include "agent/kube/patch.h"

#define SLOTS_LABEL "inplaced.io/slots" /* name of a slot without its number */
#define SLOTS_OF "inplaced.io/slots-of" /* annotation: the same, for people */
#define SLOT_DONE_BY \
        "inplaced.io/done" /* annotation of a slot: digest of the images that its holder has pulled */
#define PREFIX_SIZE 40
#define DIGEST_SIZE 17

/* Writes after one list. Where many nodes begin together, each would try every slot that was free. */
#define TRIES_MAX 2

/* So many failures of an image are the end of it for the nodes that pull first. */
#define FIRST_ATTEMPTS 3

/* Leases that were of no use are tried once more after this time. */
#define FORGET_USEC (600 * USEC_PER_SEC)

/* A Lease as it was listed last. */
typedef struct Slot {
        LeaseSight sight;
        uint64_t holder; /* digest of the node that held it last; 0: none did */
        char *version;   /* NULL: there is no such Lease */
} Slot;

/* The slots of one registry, or of one set, while this node wants one. */
typedef struct Claim {
        LIST_LINKS(struct Claim);
        PullSlots *all;
        bool is_first;
        char *name; /* name of the registry, or of the set */
        char prefix[PREFIX_SIZE];
        KubePatch patch;
        Timer timer;

        Slot *slots;
        SlotState *states;
        size_t n_slots;
        bool is_listed;
        unsigned n_tries;    /* writes that met a conflict since the list */
        unsigned n_lists;    /* without a free slot, in a row */
        uint64_t due_usec;   /* time of the next list or renewal */
        uint64_t moved_usec; /* when a slot changed hands, or this node began to wait */

        bool is_holding;
        size_t slot;     /* which it holds, or is about to take */
        char *version;   /* version of the Lease that it holds */
        bool is_open;    /* this node has waited long enough */
        bool is_done;    /* the nodes that were to pull first have these images */
        bool is_set;     /* the set still says who pulls first */
        uint64_t digest; /* digest of the set's images */

        size_t n_waiting, n_running; /* see SlotsInput */
        size_t n_wanted;             /* slots; smallest number of the sets whose pulls wait */
} Claim;

struct PullSlots {
        PullSlotsOptions options;
        ImagesWatcher watcher;
        ImageSetsWatcher sets_watcher;
        Deferred pass;
        Claim *claims;
        char *why;                              /* last answer of the gate */
        Error error;                            /* last failure */
        uint64_t failed_usec, last_failed_usec; /* first and last failure in a row; 0: none */
        bool is_reported;
};

static uint64_t now_usec(const PullSlots *slots) {
        return kube_client_now_usec(slots->options.client);
}

static int request_pass(PullSlots *slots) {
        return slots->claims || image_sets_have_limits(slots->options.sets)
                       ? deferred_request(&slots->pass)
                       : 0;
}

static Claim *find_claim(const PullSlots *slots, bool is_first, const char *name) {
        Claim *claim = slots->claims;

        while (claim && (claim->is_first != is_first || strcmp(claim->name, name) != 0))
                claim = claim->next;
        return claim;
}

/* The gate */

static bool claim_lets_pull(const Claim *claim, size_t n_slots) {
        return claim &&
               (claim->is_open || claim->is_done || (claim->is_holding && claim->slot < n_slots));
}

static bool is_shut_by_first(const PullSlots *slots, const ImageSetLimits *limits) {
        return limits->first > 0 &&
               !claim_lets_pull(find_claim(slots, /* is_first= */ true, limits->name),
                                limits->first);
}

static bool is_shut_by_registry(const PullSlots *slots, const ImageSetLimits *limits,
                                const char *registry) {
        return limits->parallelism > 0 &&
               !claim_lets_pull(find_claim(slots, /* is_first= */ false, registry),
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

/* Requests */

static void note_success(PullSlots *slots) {
        slots->failed_usec = 0;
        slots->is_reported = false;
}

static void note_failure(PullSlots *slots, const Error *error) {
        uint64_t now = now_usec(slots);

        slots->failed_usec = slots->failed_usec ?: now;
        slots->last_failed_usec = now;
        (void) error_update(&slots->error, error);
}

static int64_t server_sec(const PullSlots *slots) {
        int64_t usec;

        return kube_client_server_usec(slots->options.client, &usec) ? usec / (int64_t) USEC_PER_SEC
                                                                     : (int64_t) time(NULL);
}

static KubePath claim_path(const Claim *claim) {
        const KubeAccess *access = kube_client_access(claim->all->options.client);

        return lease_path(kube_access_namespace(access) ?: "default");
}

/* Text of the images that a node that pulls first has. */
static const char *format_digest(const Claim *claim, char buffer[static DIGEST_SIZE]) {
        (void) snprintf(buffer, DIGEST_SIZE, "%016" PRIx64, claim->digest);
        return buffer;
}

/* Makes the rest of the Lease. is_done: its holder has pulled. */
static int make_metadata(const Claim *claim, bool is_new, bool is_done, json_object **ret) {
        cleanup(json_object_put_p) json_object *metadata = json_object_new_object();
        json_object *annotations = patch_wrap(SLOTS_OF, json_object_new_string(claim->name));
        char digest[DIGEST_SIZE];
        int r;

        r = patch_add(metadata, "annotations", annotations)
                    ?: patch_add(metadata, "labels",
                                 patch_wrap(SLOTS_LABEL, json_object_new_string(claim->prefix)));
        if (r >= 0 && is_done)
                r = patch_add_text(annotations, SLOT_DONE_BY, format_digest(claim, digest));
        else if (r >= 0 && claim->is_first && !is_new)
                r = patch_add_null(annotations, SLOT_DONE_BY);
        if (r >= 0)
                *ret = take_ptr(metadata);
        return r;
}

/* Writes the slot. version: of its Lease; NULL: it is created. */
static int claim_write(Claim *claim, SlotsAct act, const char *version,
                       KubePatchAnswered on_answered) {
        cleanup(json_object_put_p) json_object *lease = NULL;
        KubePatchRequest request = { .verb = version ? KUBE_PATCH_MERGE : KUBE_PATCH_CREATE,
                                     .path = claim_path(claim),
                                     .version = version,
                                     .on_answered = on_answered };
        const char *holder = act == SLOTS_RELEASE ? "" : claim->all->options.node_name;
        char name[PREFIX_SIZE + 24];
        json_object *metadata;

        (void) snprintf(name, sizeof(name), "%s-%zu", claim->prefix, claim->slot);
        if (lease_spec_make(holder, act == SLOTS_TAKE, server_sec(claim->all), &lease) < 0 ||
            make_metadata(claim, !version, act == SLOTS_FINISH, &metadata) < 0 ||
            patch_add(lease, "metadata", metadata) < 0 ||
            (!version && lease_spec_name(lease, name) < 0))
                return -ENOMEM;

        request.path.name = version ? name : NULL;
        request.body = lease;
        return kube_patch_send(&claim->patch, &request);
}

/* Returns whether the answer is of use: also a conflict is one. */
static bool claim_note(Claim *claim, const KubePatchAnswer *answer) {
        bool is_failure =
                answer->outcome == KUBE_PATCH_REFUSED || answer->outcome == KUBE_PATCH_UNKNOWN;

        if (is_failure)
                note_failure(claim->all, answer->error);
        else
                note_success(claim->all);
        claim->due_usec = is_failure ? claim->patch.rest_usec : now_usec(claim->all);
        return !is_failure;
}

/* Another node was earlier, as others may be for the other slots. */
static void claim_note_conflict(Claim *claim) {
        claim->states[claim->slot] = SLOT_TAKEN;
        if (++claim->n_tries < TRIES_MAX)
                return;

        for (size_t i = 0; i < claim->n_slots; i++)
                if (claim->states[i] == SLOT_FREE)
                        claim->states[i] = SLOT_TAKEN;
}

static int on_written(const KubePatchAnswer *answer, void *userdata) {
        bool is_taken = answer->outcome == KUBE_PATCH_TAKEN;
        Claim *claim = userdata;

        if (!claim_note(claim, answer)) {
                claim->is_listed = false;
                return request_pass(claim->all);
        }

        if (is_taken)
                claim->due_usec += LEASE_RENEW_USEC;
        else if (claim->is_listed)
                claim_note_conflict(claim);
        claim->is_holding = is_taken;
        claim->is_listed = claim->is_listed && !is_taken;
        claim->n_lists = is_taken ? 0 : claim->n_lists;
        return text_set(&claim->version, answer->version) ?: request_pass(claim->all);
}

static int on_released(const KubePatchAnswer *answer, void *userdata) {
        Claim *claim = userdata;

        (void) claim_note(claim, answer);
        claim->is_holding = false;
        return request_pass(claim->all);
}

static void slots_free(Slot *slots, size_t n_slots) {
        for (size_t i = 0; i < n_slots; i++)
                free(slots[i].version);
        free(slots);
}

static int claim_resize(Claim *claim) {
        Slot *slots = calloc(claim->n_wanted, sizeof(*slots));
        SlotState *states = calloc(claim->n_wanted, sizeof(*states));

        if (!slots || !states) {
                free(slots);
                free(states);
                return -ENOMEM;
        }

        for (size_t i = 0; i < claim->n_slots && i < claim->n_wanted; i++) {
                slots[i] = claim->slots[i];
                claim->slots[i].version = NULL;
        }
        slots_free(claim->slots, claim->n_slots);
        free(claim->states);
        claim->slots = slots;
        claim->states = states;
        claim->n_slots = claim->n_wanted;
        return 0;
}

static int take_lease(Claim *claim, json_object *lease) {
        json_object *metadata = json_get(lease, "metadata", json_type_object);
        const char *name = json_get_text(metadata, "name"), *holder = lease_holder(lease);
        const char *node = claim->all->options.node_name;
        size_t length = strlen(claim->prefix);
        uint64_t digest = holder ? repeat_digest(0, holder) : 0;
        const char *done_by;
        unsigned long number;
        char done[DIGEST_SIZE];
        bool is_free;
        Slot *slot;

        if (!name || strncmp(name, claim->prefix, length) != 0 || name[length] != '-')
                return 0;
        number = strtoul(name + length + 1, NULL, 10);
        if (number >= claim->n_slots)
                return 0;

        slot = &claim->slots[number];
        done_by = claim->is_first
                          ? json_get_text(json_get(metadata, "annotations", json_type_object),
                                          SLOT_DONE_BY)
                          : NULL;
        is_free = lease_sight_is_free(&slot->sight, lease, node, now_usec(claim->all));
        if (done_by)
                claim->states[number] =
                        strcmp(done_by, format_digest(claim, done)) == 0 ? SLOT_DONE : SLOT_FREE;
        else if (!is_free)
                claim->states[number] = SLOT_TAKEN;
        else if (text_equal(holder, node))
                claim->states[number] = SLOT_OURS;
        if (digest != 0 && slot->holder != 0 && slot->holder != digest)
                claim->moved_usec = now_usec(claim->all);
        slot->holder = digest != 0 ? digest : slot->holder;
        return text_set(&slot->version, json_get_filled(metadata, "resourceVersion"));
}

static int on_listed(const KubePatchAnswer *answer, void *userdata) {
        cleanup(json_object_put_p) json_object *list = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        Claim *claim = userdata;
        json_object *items;
        int r;

        claim->due_usec = claim->patch.rest_usec;
        if (answer->error) {
                note_failure(claim->all, answer->error);
                return request_pass(claim->all);
        }

        r = json_parse(answer->reply->body, answer->reply->size, &list, &error);
        if (error.kind != ERROR_NONE) {
                kube_patch_fail(&claim->patch, answer->reply);
                claim->due_usec = claim->patch.rest_usec;
                note_failure(claim->all, &error);
                return request_pass(claim->all);
        }

        if (r >= 0)
                r = claim_resize(claim);
        for (size_t i = 0; r >= 0 && i < claim->n_slots; i++)
                r = text_set(&claim->slots[i].version, NULL);
        items = json_get(list, "items", json_type_array);
        for (size_t i = 0; r >= 0 && items && i < json_object_array_length(items); i++)
                r = take_lease(claim, json_object_array_get_idx(items, i));
        claim->is_listed = true;
        claim->n_tries = 0;
        return r < 0 ? r : request_pass(claim->all);
}

static int claim_list(Claim *claim) {
        KubePatchRequest request = { .verb = KUBE_PATCH_LIST,
                                     .path = claim_path(claim),
                                     .accept = KUBE_JSON,
                                     .on_answered = on_listed };
        char labels[sizeof(SLOTS_LABEL) + PREFIX_SIZE];

        (void) snprintf(labels, sizeof(labels), SLOTS_LABEL "=%s", claim->prefix);
        request.path.labels = labels;
        request.path.query = "resourceVersion=0"; /* from the server's memory: writes are guarded */
        return kube_patch_send(&claim->patch, &request);
}

/* The next step of a claim */

/* An image matters more than the limit. */
static void claim_judge(Claim *claim) {
        PullSlots *slots = claim->all;
        uint64_t now = now_usec(slots);
        bool is_failing =
                slots->failed_usec > 0 && now - slots->failed_usec >= PULL_SLOTS_FAILURE_USEC;

        if (claim->is_open || claim->is_done || claim->n_waiting == 0 || claim->is_holding ||
            (!is_failing && now - claim->moved_usec < PULL_SLOTS_STALL_USEC))
                return;

        claim->is_open = true;
        if (!is_failing)
                log_warning(
                        slots->options.log, NULL,
                        "Pulling without a slot of \"%s\": other nodes have held all slots for an "
                        "hour.",
                        claim->name);
        else if (!slots->is_reported)
                log_warning(slots->options.log, NULL,
                            "Pulling without a slot of \"%s\": the Leases cannot be used: %s.",
                            claim->name, error_message(&slots->error));
        slots->is_reported = is_failing;
}

static int claim_rest(Claim *claim) {
        if (claim->is_listed) {
                note_success(claim->all);
                claim->is_listed = false;
                claim->due_usec = now_usec(claim->all) +
                                  pull_slots_pause_usec(claim->n_lists++, random_number());
        }
        return claim->due_usec > now_usec(claim->all)
                       ? timer_start_at(&claim->timer, claim->due_usec)
                       : 0;
}

static int claim_step(Claim *claim) {
        SlotsInput input = {
                .n_slots = claim->n_wanted,
                .is_holding = claim->is_holding,
                .slot = claim->slot,
                .n_running = claim->n_running,
                .may_finish = claim->is_first && claim->is_set,
                .random = random_number(),
        };
        SlotsAct act;

        if (claim->patch.call)
                return 0;

        claim_judge(claim);
        /* Sets may have changed since the list. */
        claim->is_listed = claim->is_listed && claim->n_slots == claim->n_wanted;
        input.states = claim->is_listed ? claim->states : NULL;
        claim->is_done = claim->is_done || (claim->is_first && pull_slots_are_done(&input));
        input.n_waiting =
                !claim->is_holding && (claim->is_open || claim->is_done) ? 0 : claim->n_waiting;
        input.is_due = now_usec(claim->all) >= claim->due_usec;
        act = pull_slots_plan(&input, &claim->slot);
        switch (act) {
        case SLOTS_REST: return claim_rest(claim);
        case SLOTS_LIST: return claim_list(claim);
        case SLOTS_TAKE:
                return claim_write(claim, act, claim->slots[claim->slot].version, on_written);
        case SLOTS_RENEW: return claim_write(claim, act, claim->version, on_written);
        case SLOTS_RELEASE:
        case SLOTS_FINISH: return claim_write(claim, act, claim->version, on_released);
        }

        abort();
}

/* Claims */

static Claim *claim_free(Claim *claim) {
        timer_done(&claim->timer);
        kube_patch_done(&claim->patch);
        slots_free(claim->slots, claim->n_slots);
        free(claim->states);
        free(claim->name);
        free(claim->version);
        free(claim);
        return NULL;
}

static int on_timer(void *userdata) {
        return request_pass(((Claim *) userdata)->all);
}

static int add_claim(PullSlots *slots, bool is_first, const char *name, Claim **ret) {
        Claim *claim = calloc(1, sizeof(*claim));

        if (!claim)
                return -ENOMEM;

        claim->all = slots;
        claim->moved_usec = now_usec(slots);
        if (claim->moved_usec - slots->last_failed_usec > FORGET_USEC)
                note_success(slots);
        claim->patch = (KubePatch){ .client = slots->options.client, .userdata = claim };
        timer_init(&claim->timer, kube_client_event(slots->options.client), 0, on_timer, claim);
        (void) snprintf(claim->prefix, sizeof(claim->prefix), "inplaced-%s-%016" PRIx64,
                        is_first ? "first" : "pull", repeat_digest(0, name));
        claim->is_first = is_first;
        if (text_copy(name, &claim->name) < 0) {
                claim_free(claim);
                return -ENOMEM;
        }

        list_prepend(&slots->claims, claim);
        *ret = claim;
        return 0;
}

/* Whether the pull has begun, or may begin without a pause. */
static bool is_running(ImageStep step) {
        return step == IMAGE_STEP_QUEUED || step == IMAGE_STEP_INSPECTING ||
               step == IMAGE_STEP_RESOLVING || step == IMAGE_STEP_DOWNLOADING ||
               step == IMAGE_STEP_UNPACKING;
}

/* Counts a pull that waits, and makes the claim with the first one. */
static int count_waiting(PullSlots *slots, bool is_first, const char *name, unsigned n_slots) {
        Claim *claim = find_claim(slots, is_first, name);
        int r = claim ? 0 : add_claim(slots, is_first, name, &claim);

        if (r < 0)
                return r;

        if (claim->n_waiting == 0 || claim->n_wanted > n_slots)
                claim->n_wanted = n_slots;
        claim->n_waiting++;
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
        Claim *claim;
        int r = 0;

        if (is_waiting && request_is_due(request))
                r = count_waiting(slots, /* is_first= */ true, limits->name, limits->first);
        claim = find_claim(slots, /* is_first= */ true, limits->name);
        if (r < 0 || !claim)
                return r;

        if (claim->digest != limits->digest || claim->n_wanted != limits->first)
                claim->is_done = claim->is_listed = false;
        claim->is_set = true;
        claim->digest = limits->digest;
        claim->n_wanted = limits->first;
        if (!is_waiting && !is_over(request, status))
                claim->n_running++;
        return 0;
}

/* A node that waits for others to be first takes no slot of the registry meanwhile. */
static int count_parallel(PullSlots *slots, const ImageSetLimits *limits, const char *registry,
                          ImageStep step) {
        Claim *claim = find_claim(slots, /* is_first= */ false, registry);

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

static bool is_idle(const Claim *claim) {
        return !claim->is_holding && !claim->patch.call && claim->n_waiting + claim->n_running == 0;
}

static int step_claims(PullSlots *slots) {
        Claim *next;
        int r = 0;

        for (Claim *claim = slots->claims; r >= 0 && claim; claim = next) {
                next = claim->next;
                if (is_idle(claim)) {
                        list_remove(&slots->claims, claim);
                        claim_free(claim);
                } else {
                        r = claim_step(claim);
                }
        }
        return r;
}

/* Counts the pulls anew, and lets those begin that have a slot. */
static int on_pass(void *userdata) {
        PullSlots *slots = userdata;
        const PullGate gate = { why_shut, slots };
        int r = 0;

        for (Claim *claim = slots->claims; claim; claim = claim->next) {
                if (claim->n_waiting == 0 || claim->is_holding)
                        claim->moved_usec = now_usec(slots);
                claim->n_waiting = claim->n_running = 0;
                claim->is_set = false;
        }
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
                Claim *claim = slots->claims;

                list_remove(&slots->claims, claim);
                claim_free(claim);
        }
        error_done(&slots->error);
        free(slots->why);
        free(slots);
        return NULL;
}
