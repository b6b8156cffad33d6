/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/slot-claim.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/random.h"
#include "agent/base/repeat.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kube/lease-spec.h"

#define SLOTS_LABEL "inplaced.io/slots" /* name of a slot without its number */
#define SLOTS_OF "inplaced.io/slots-of" /* annotation: the same, for people */
#define SLOT_DONE_BY \
        "inplaced.io/done" /* annotation of a slot: digest of the images that its holder has pulled */
#define DIGEST_SIZE 17

/* Writes after one list. Where many nodes begin together, each would try every slot that was free. */
#define TRIES_MAX 2

/* Leases that were of no use are tried once more after this time. */
#define FORGET_USEC (600 * USEC_PER_SEC)

/* Failures in a row are never so far apart: a request is sent again after 15 s, and waits 30 s for its answer. */
#define APART_USEC (120 * USEC_PER_SEC)

/* A Lease as it was listed last. */
struct Slot {
        LeaseSight sight;
        uint64_t holder; /* digest of the node that held it last; 0: none did */
        char *version;   /* NULL: there is no such Lease */
};

static uint64_t now_usec(const SlotNode *node) {
        return kube_client_now_usec(node->client);
}

static int request_pass(const SlotClaim *claim) {
        return deferred_request(claim->node->pass);
}

/* Requests */

/* NULL: there is none. */
static void note_error(SlotNode *node, const Error *error) {
        (void) log_trouble(node->log, LOG_WARNING, &node->error, error,
                           "Cannot use the Leases for which pulls of image sets wait",
                           "The Leases for which pulls of image sets wait can be used again");
}

static void forget_failures(SlotNode *node) {
        node->failed_usec = node->last_failed_usec = 0;
        node->is_reported = false;
        error_done(&node->error);
}

static void note_success(SlotNode *node) {
        note_error(node, NULL);
        forget_failures(node);
}

/* Counts the time between failures alone: a claim that ends after the first one does not try again. */
static bool is_failing(const SlotNode *node) {
        return node->last_failed_usec - node->failed_usec >= PULL_SLOTS_FAILURE_USEC;
}

/* Pulls go on without them only after a while, in which a person can grant the right. */
static void note_failure(SlotNode *node, const Error *error) {
        uint64_t now = now_usec(node);

        node->failed_usec = node->failed_usec ?: now;
        node->last_failed_usec = now;
        note_error(node, error);
}

static int64_t server_sec(const SlotNode *node) {
        int64_t usec;

        return kube_client_server_usec(node->client, &usec) ? usec / (int64_t) USEC_PER_SEC
                                                            : (int64_t) time(NULL);
}

static KubePath claim_path(const SlotClaim *claim) {
        const KubeAccess *access = kube_client_access(claim->node->client);

        return lease_path(kube_access_namespace(access) ?: "default");
}

/* Text of the images that a node that pulls first has. */
static const char *format_digest(const SlotClaim *claim, char buffer[static DIGEST_SIZE]) {
        (void) snprintf(buffer, DIGEST_SIZE, "%016" PRIx64, claim->digest);
        return buffer;
}

/* Makes the rest of the Lease. is_done: its holder has pulled. */
static int make_metadata(const SlotClaim *claim, bool is_new, bool is_done, json_object **ret) {
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
static int claim_write(SlotClaim *claim, SlotsAct act, const char *version,
                       KubePatchAnswered on_answered) {
        cleanup(json_object_put_p) json_object *lease = NULL;
        KubePatchRequest request = { .verb = version ? KUBE_PATCH_MERGE : KUBE_PATCH_CREATE,
                                     .path = claim_path(claim),
                                     .version = version,
                                     .on_answered = on_answered };
        const char *holder = act == SLOTS_RELEASE ? "" : claim->node->name;
        char name[SLOT_PREFIX_SIZE + 24];
        json_object *metadata;

        (void) snprintf(name, sizeof(name), "%s-%zu", claim->prefix, claim->slot);
        if (lease_spec_make(holder, act == SLOTS_TAKE, server_sec(claim->node), &lease) < 0 ||
            make_metadata(claim, !version, act == SLOTS_FINISH, &metadata) < 0 ||
            patch_add(lease, "metadata", metadata) < 0 ||
            (!version && lease_spec_name(lease, name) < 0))
                return -ENOMEM;

        request.path.name = version ? name : NULL;
        request.body = lease;
        return kube_patch_send(&claim->patch, &request);
}

/* Returns whether the answer is of use: also a conflict is one. Without their namespace, Leases can be listed, but not
 * created. */
static bool claim_note(SlotClaim *claim, const KubePatchAnswer *answer) {
        bool lacks_namespace =
                answer->outcome == KUBE_PATCH_GONE && claim->patch.verb == KUBE_PATCH_CREATE;
        bool is_failure = answer->outcome == KUBE_PATCH_REFUSED ||
                          answer->outcome == KUBE_PATCH_UNKNOWN || lacks_namespace;

        if (is_failure)
                note_failure(claim->node, answer->error);
        else
                note_success(claim->node);
        claim->due_usec = is_failure ? claim->patch.rest_usec : now_usec(claim->node);
        return !is_failure;
}

/* Another node was earlier, as others may be for the other slots. */
static void claim_note_conflict(SlotClaim *claim) {
        claim->states[claim->slot] = SLOT_TAKEN;
        if (++claim->n_tries < TRIES_MAX)
                return;

        for (size_t i = 0; i < claim->n_slots; i++)
                if (claim->states[i] == SLOT_FREE)
                        claim->states[i] = SLOT_TAKEN;
}

static int on_written(const KubePatchAnswer *answer, void *userdata) {
        bool is_taken = answer->outcome == KUBE_PATCH_TAKEN;
        SlotClaim *claim = userdata;

        if (!claim_note(claim, answer)) {
                claim->is_listed = false;
                return request_pass(claim);
        }

        if (is_taken)
                claim->due_usec += LEASE_RENEW_USEC;
        else if (claim->is_listed)
                claim_note_conflict(claim);
        claim->is_lost = !is_taken && (claim->is_lost || claim->is_holding);
        claim->is_holding = is_taken;
        claim->is_listed = claim->is_listed && !is_taken;
        claim->n_lists = is_taken ? 0 : claim->n_lists;
        return text_set(&claim->version, answer->version) ?: request_pass(claim);
}

static int on_released(const KubePatchAnswer *answer, void *userdata) {
        SlotClaim *claim = userdata;

        (void) claim_note(claim, answer);
        claim->is_holding = false;
        return request_pass(claim);
}

static void slots_free(Slot *slots, size_t n_slots) {
        for (size_t i = 0; i < n_slots; i++)
                free(slots[i].version);
        free(slots);
}

static int claim_resize(SlotClaim *claim) {
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

static int take_lease(SlotClaim *claim, json_object *lease) {
        json_object *metadata = json_get(lease, "metadata", json_type_object);
        const char *name = json_get_text(metadata, "name"), *holder = lease_holder(lease);
        const char *node = claim->node->name;
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
        is_free = lease_sight_is_free(&slot->sight, lease, node, now_usec(claim->node));
        if (done_by)
                claim->states[number] =
                        strcmp(done_by, format_digest(claim, done)) == 0 ? SLOT_DONE : SLOT_FREE;
        else if (!is_free)
                claim->states[number] = SLOT_TAKEN;
        else if (text_equal(holder, node))
                claim->states[number] = SLOT_OURS;
        if (digest != 0 && slot->holder != 0 && slot->holder != digest)
                claim->moved_usec = now_usec(claim->node);
        slot->holder = digest != 0 ? digest : slot->holder;
        return text_set(&slot->version, json_get_filled(metadata, "resourceVersion"));
}

static int on_listed(const KubePatchAnswer *answer, void *userdata) {
        cleanup(json_object_put_p) json_object *list = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        SlotClaim *claim = userdata;
        json_object *items;
        int r;

        claim->due_usec = claim->patch.rest_usec;
        if (answer->error) {
                note_failure(claim->node, answer->error);
                return request_pass(claim);
        }

        r = json_parse_without(answer->reply->body, answer->reply->size, KUBE_MANAGED_FIELDS,
                               KUBE_DEPTH_LIST, &list, &error);
        if (error.kind != ERROR_NONE) {
                kube_patch_fail(&claim->patch, answer->reply);
                claim->due_usec = claim->patch.rest_usec;
                note_failure(claim->node, &error);
                return request_pass(claim);
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
        return r < 0 ? r : request_pass(claim);
}

static int claim_list(SlotClaim *claim) {
        KubePatchRequest request = { .verb = KUBE_PATCH_LIST,
                                     .path = claim_path(claim),
                                     .accept = KUBE_JSON,
                                     .on_answered = on_listed };
        char labels[sizeof(SLOTS_LABEL) + SLOT_PREFIX_SIZE];

        (void) snprintf(labels, sizeof(labels), SLOTS_LABEL "=%s", claim->prefix);
        request.path.labels = labels;
        request.path.query = "resourceVersion=0"; /* from the server's memory: writes are guarded */
        return kube_patch_send(&claim->patch, &request);
}

/* The next step */

/* An image matters more than the limit. */
static void claim_judge(SlotClaim *claim) {
        SlotNode *node = claim->node;
        bool has_failed = node->failed_usec > 0;

        if (claim->is_open || claim->is_done || claim->n_waiting == 0 || claim->is_holding ||
            (!is_failing(node) && now_usec(node) - claim->moved_usec < PULL_SLOTS_STALL_USEC))
                return;

        claim->is_open = true;
        if (!has_failed)
                log_warning(
                        node->log, NULL,
                        "Pulling without a slot of \"%s\": other nodes have held all slots for an "
                        "hour.",
                        claim->name);
        else if (!node->is_reported)
                log_warning(node->log, NULL,
                            "Pulling without a slot of \"%s\": the Leases cannot be used: %s.",
                            claim->name, error_message(&node->error));
        node->is_reported = has_failed;
}

static int claim_rest(SlotClaim *claim) {
        if (claim->is_listed) {
                note_success(claim->node);
                claim->is_listed = false;
                claim->due_usec = now_usec(claim->node) +
                                  pull_slots_pause_usec(claim->n_lists++, random_number());
        }
        return claim->due_usec > now_usec(claim->node)
                       ? timer_start_at(&claim->timer, claim->due_usec)
                       : 0;
}

int slot_claim_step(SlotClaim *claim) {
        SlotsInput input = {
                .n_slots = claim->n_wanted,
                .is_holding = claim->is_holding,
                .slot = claim->slot,
                .n_running = claim->n_running,
                .may_finish = claim->is_first && claim->is_set,
                .random = random_number(),
        };
        bool needs_none;
        SlotsAct act;

        if (claim->patch.call)
                return 0;

        claim_judge(claim);
        /* Sets may have changed since the list. */
        claim->is_listed = claim->is_listed && claim->n_slots == claim->n_wanted;
        input.states = claim->is_listed ? claim->states : NULL;
        claim->is_done = claim->is_done || (claim->is_first && pull_slots_are_done(&input));
        needs_none = !claim->is_holding && (claim->is_open || claim->is_done);
        input.n_waiting = needs_none ? 0 : claim->n_waiting;
        input.is_lost = !needs_none && claim->is_lost;
        input.is_due = now_usec(claim->node) >= claim->due_usec;
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

bool slot_claim_lets_pull(const SlotClaim *claim, size_t n_slots) {
        return claim &&
               (claim->is_open || claim->is_done || (claim->is_holding && claim->slot < n_slots));
}

bool slot_claim_is_idle(const SlotClaim *claim) {
        return !claim->is_holding && !claim->patch.call && claim->n_waiting + claim->n_running == 0;
}

SlotClaim *slot_claim_free(SlotClaim *claim) {
        timer_done(&claim->timer);
        kube_patch_cancel(&claim->patch);
        slots_free(claim->slots, claim->n_slots);
        free(claim->states);
        free(claim->name);
        free(claim->version);
        free(claim);
        return NULL;
}

static int on_timer(void *userdata) {
        return request_pass(userdata);
}

int slot_claim_new(SlotNode *node, bool is_first, const char *name, SlotClaim **ret) {
        SlotClaim *claim = calloc(1, sizeof(*claim));
        uint64_t idle_usec = now_usec(node) - node->last_failed_usec;

        if (!claim)
                return -ENOMEM;

        claim->node = node;
        claim->moved_usec = now_usec(node);
        if (idle_usec > FORGET_USEC)
                forget_failures(node);
        else if (idle_usec > APART_USEC && !is_failing(node))
                node->failed_usec = node->last_failed_usec = 0;
        claim->patch = (KubePatch){ .client = node->client, .userdata = claim };
        timer_init(&claim->timer, kube_client_event(node->client), 0, on_timer, claim);
        (void) snprintf(claim->prefix, sizeof(claim->prefix), "inplaced-%s-%016" PRIx64,
                        is_first ? "first" : "pull", repeat_digest(0, name));
        claim->is_first = is_first;
        if (text_copy(name, &claim->name) < 0) {
                slot_claim_free(claim);
                return -ENOMEM;
        }

        *ret = claim;
        return 0;
}

void slot_claim_begin_count(SlotClaim *claim) {
        if (claim->n_waiting == 0 || claim->is_holding)
                claim->moved_usec = now_usec(claim->node);
        claim->n_waiting = claim->n_running = 0;
        claim->is_set = false;
}

void slot_claim_count_waiting(SlotClaim *claim, size_t n_slots) {
        if (claim->n_waiting == 0 || claim->n_wanted > n_slots)
                claim->n_wanted = n_slots;
        claim->n_waiting++;
}

void slot_claim_set_first(SlotClaim *claim, uint64_t digest, size_t n_slots) {
        if (claim->digest != digest || claim->n_wanted != n_slots)
                claim->is_done = claim->is_listed = false;
        claim->is_set = true;
        claim->digest = digest;
        claim->n_wanted = n_slots;
}
