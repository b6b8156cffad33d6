/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/images-ready-plan.h"

#include <inttypes.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/image/image-ref.h"

#define NAMED_MAX 3 /* missing images that the message names */

void ready_decision_done(ReadyDecision *decision) {
        free(decision->message);
        *decision = (ReadyDecision){ .message = NULL };
}

/* UINT64_MAX: it does not end. */
static uint64_t end_usec(const ReadyInput *input, uint64_t since_usec) {
        return input->deadline_usec > 0 ? since_usec + input->deadline_usec : UINT64_MAX;
}

typedef struct Tally {
        size_t n_there;
        size_t n_unchecked; /* and their deadlines have not ended */
        size_t n_missing;   /* known to be missing, and not given up */
        size_t n_awaited;   /* missing or unchecked, and not given up */
        uint64_t next_usec;
} Tally;

static Tally tally(const ReadyInput *input) {
        Tally found = { .next_usec = UINT64_MAX };

        for (size_t i = 0; i < input->n_images; i++) {
                const ReadyImage *image = &input->images[i];
                uint64_t end = end_usec(input, image->since_usec);
                bool is_unchecked = image->state == READY_UNCHECKED;

                found.n_there += image->state == READY_THERE;
                if (image->state == READY_THERE || end <= input->now_usec ||
                    (image->was_given_up && !is_unchecked))
                        continue;

                found.n_unchecked += is_unchecked;
                found.n_missing += !is_unchecked;
                found.n_awaited += !image->was_given_up;
                if (end < found.next_usec)
                        found.next_usec = end;
        }

        return found;
}

/* Lists the first of those that are not there: "web:1, db:2 and 3 more". */
static int name_missing(const ReadyInput *input, size_t n_missing, char **ret) {
        cleanup(free_p) char *list = NULL;
        size_t n_named = 0;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < input->n_images && n_named < NAMED_MAX; i++) {
                const ReadyImage *image = &input->images[i];
                cleanup(free_p) char *reference = NULL;

                if (image->state == READY_THERE)
                        continue;

                n_named++;
                r = image_ref_join(image->name, image->tag, &reference);
                if (r >= 0)
                        r = text_list_add(&list, reference);
        }
        if (r < 0)
                return r;

        if (n_missing > n_named)
                return text_format(ret, "%s and %zu more", list, n_missing - n_named);

        *ret = take_ptr(list);
        return 0;
}

static int describe(const ReadyInput *input, const Tally *found, ReadyDecision *ret) {
        size_t n_missing = input->n_images - found->n_there;
        cleanup(free_p) char *missing = NULL;
        int r;

        if (n_missing == 0)
                return text_format(&ret->message, "all %zu images are there", input->n_images);

        r = name_missing(input, n_missing, &missing);
        if (r < 0)
                return r;
        if (ret->is_ready)
                return text_format(&ret->message,
                                   "%zu of %zu images are there; the agent goes on to pull, but no "
                                   "longer waits for: %s",
                                   found->n_there, input->n_images, missing);

        return text_format(&ret->message, "%zu of %zu images are there; missing: %s%s%s",
                           found->n_there, input->n_images, missing, input->wait ? "; " : "",
                           input->wait ?: "");
}

/* The sets, or the labels of the Node, are not known yet: the API server may lack the kind, or a right. */
static int plan_unknown(const ReadyInput *input, ReadyDecision *ret) {
        uint64_t end = end_usec(input, input->since_usec);

        *ret = (ReadyDecision){ .is_open = true, .next_usec = UINT64_MAX };
        if (input->is_ready)
                return 0;
        if (end > input->now_usec) {
                ret->next_usec = end;
                return 0;
        }

        ret->is_open = false;
        ret->is_ready = true;
        ret->reason = "GaveUp";
        return text_format(&ret->message,
                           "after %" PRIu64 " s it is not known which images this node needs",
                           input->deadline_usec / USEC_PER_SEC);
}

int images_ready_plan(const ReadyInput *input, ReadyDecision *ret) {
        Tally found;

        if (!input->is_known)
                return plan_unknown(input, ret);

        found = tally(input);
        *ret = (ReadyDecision){ .next_usec = found.next_usec };
        if (input->n_images == 0) {
                ret->is_ready = true;
                ret->reason = "NoSets";
                return text_format(&ret->message, "no image set selects this node");
        }

        /* A set that came, or a restart of the agent, changes nothing before the runtime was asked, unless it cannot be
         * asked for a whole deadline. */
        if (input->is_ready && found.n_missing == 0 && found.n_unchecked > 0) {
                ret->is_open = true;
                return 0;
        }

        ret->is_ready = found.n_awaited == 0;
        ret->reason = !ret->is_ready                     ? "ImagesMissing"
                      : found.n_there == input->n_images ? "AllPresent"
                                                         : "GaveUp";
        return describe(input, &found, ret);
}
