/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-census.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-reader.h"

static void count(const RolloutView *view, const PodState *state, const char *revision,
                  Census *census) {
        bool is_in_flight = pod_state_is_in_flight(state);
        bool is_stuck = !state->is_member && state->is_given_up;
        bool is_surplus = view_pod_is_surplus(view, state->pod);

        census->n_concerned += state->phase != ROLLOUT_LEFT;
        census->n_by_phase[state->phase]++;
        census->n_stuck += is_stuck;
        census->n_barred += is_stuck && !is_surplus;
        if (!state->is_member)
                return;

        census->n_members += !is_surplus;
        census->n_given_up += state->is_given_up;
        census->n_foreign += state->is_foreign;
        census->n_spoiled += state->is_given_up && state->phase == ROLLOUT_FAILED;
        census->n_in_flight += is_in_flight && !state->is_given_up;
        census->n_unavailable += !state->is_given_up && (is_in_flight || !state->is_available);
        census->n_revised += text_equal(object_revision(state->pod), revision);
}

/* Takes the state over from the census before if the pod, and what was noted of it, are the same objects still. Both are in
 * the order of the view, to which pods are added at the end: *at is where the next pod is searched. */
static bool take_known(Census *before, size_t *at, const char *name, json_object *pod,
                       json_object *noted, PodState *ret) {
        while (*at < before->n_pods) {
                PodState *state = &before->pods[(*at)++];

                if (state->pod == pod && state->noted == noted) {
                        *ret = *state;
                        *state = (PodState){ .pod = NULL };
                        return true;
                }
                if (text_equal(object_name(state->pod), name))
                        return false;
        }
        return false;
}

int census_take(const RolloutView *view, json_object *record, Census *census) {
        cleanup(census_done) Census before = *census;
        const char *revision = view_revision(view);
        size_t at = 0;

        *census = CENSUS_INIT;
        census->pods =
                calloc((size_t) json_object_object_length(view->pods) + 1, sizeof(*census->pods));
        if (!census->pods || rollout_aim(view, record, &census->aim) < 0)
                return -ENOMEM;
        if (!text_equal(census->aim, before.aim))
                census_done(&before);
        json_object_object_foreach(view->pods, name, pod) {
                json_object *noted = json_get(view->noted, name, json_type_object);
                PodState *state = &census->pods[census->n_pods++];

                if (!take_known(&before, &at, name, pod, noted, state) &&
                    pod_state_read(view, record, pod, state) < 0)
                        return -ENOMEM;
                count(view, state, revision, census);
        }
        return 0;
}

const PodState *census_find(const Census *census, RolloutPhase phase) {
        for (size_t i = 0; i < census->n_pods; i++)
                if (census->pods[i].phase == phase)
                        return &census->pods[i];

        return NULL;
}

const char *census_reason(const Census *census, const char *pod) {
        for (size_t i = 0; i < census->n_pods; i++)
                if (text_equal(object_name(census->pods[i].pod), pod))
                        return census->pods[i].reason;

        return NULL;
}

void census_done(Census *census) {
        for (size_t i = 0; i < census->n_pods; i++)
                pod_state_done(&census->pods[i]);
        free(census->pods);
        free(census->aim);
        *census = CENSUS_INIT;
}
