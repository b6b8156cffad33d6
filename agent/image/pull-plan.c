/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/pull-plan.h"

#include <assert.h>
#include <stddef.h>

#include "agent/base/backoff.h"
#include "agent/base/time-units.h"

#define ANY_RUNNING ((PullState) -1) /* any state that is not final and has no row of its own */

/* clang-format off */
static const struct Rule {
        PullState from;
        PullEvent event;
        PullAction action;
        PullState to;
} rules[] = {
        /* in this state            when this happens         do this                   and go there */
        { PULL_QUEUED,              PULL_ON_SLOT,             PULL_DO_INSPECT,          PULL_INSPECTING          },
        { PULL_INSPECTING,          PULL_ON_PRESENT,          PULL_DO_ASSESS,           PULL_ASSESSING           },
        { PULL_INSPECTING,          PULL_ON_ABSENT,           PULL_DO_WAIT,             PULL_WAITING             },
        { PULL_WAITING,             PULL_ON_SLOT,             PULL_DO_AUTHENTICATE,     PULL_AUTHENTICATING      },
        /* A pod may have brought the image meanwhile. */
        { PULL_WAITING,             PULL_ON_LATE_SLOT,        PULL_DO_INSPECT,          PULL_CHECKING            },
        { PULL_CHECKING,            PULL_ON_PRESENT,          PULL_DO_ASSESS,           PULL_ASSESSING           },
        { PULL_CHECKING,            PULL_ON_ABSENT,           PULL_DO_AUTHENTICATE,     PULL_AUTHENTICATING      },
        { PULL_AUTHENTICATING,      PULL_ON_CREDENTIALS,      PULL_DO_PULL,             PULL_PULLING             },
        { PULL_PULLING,             PULL_ON_DENIED,           PULL_DO_PULL,             PULL_PULLING             },
        { PULL_PULLING,             PULL_ON_PULLED,           PULL_DO_COUNT,            PULL_COUNTING            },
        { PULL_COUNTING,            PULL_ON_COUNTED,          PULL_DO_IDENTIFY,         PULL_IDENTIFYING         },
        /* A pull counts as done only when the runtime shows the image. */
        { PULL_IDENTIFYING,         PULL_ON_IDENTIFIED,       PULL_DO_ASSESS,           PULL_ASSESSING           },
        { PULL_ASSESSING,           PULL_ON_ENOUGH,           PULL_DO_REPORT,           PULL_SUCCEEDED           },
        { PULL_ASSESSING,           PULL_ON_INCOMPLETE,       PULL_DO_WAIT_FOR_LAYERS,  PULL_COMPLETING          },
        { PULL_COMPLETING,          PULL_ON_TIMER,            PULL_DO_ASSESS,           PULL_ASSESSING           },

        /* A full disk refuses nothing: that is no attempt. The runtime drops fetched bytes with the
         * pull, and must not fetch them again at once. */
        { PULL_AUTHENTICATING,      PULL_ON_DISK_LOW,         PULL_DO_WAIT_FOR_ROOM,    PULL_WAITING_FOR_DISK    },
        { PULL_WAITING_FOR_DISK,    PULL_ON_ROOM,             PULL_DO_QUEUE,            PULL_QUEUED              },
        { PULL_PULLING,             PULL_ON_DISK_CRITICAL,    PULL_DO_BACK_OFF,         PULL_BACKING_OFF         },
        { PULL_PULLING,             PULL_ON_TOO_LARGE,        PULL_DO_WAIT_FOR_ROOM,    PULL_WAITING_FOR_DISK    },
        { PULL_WAITING_FOR_DISK,    PULL_ON_TIMER,            PULL_DO_QUEUE,            PULL_QUEUED              },

        /* Other nodes have their turn. It leaves the queue, as others need not wait. */
        { PULL_AUTHENTICATING,      PULL_ON_GATE_SHUT,        PULL_DO_HOLD,             PULL_HELD                },
        { PULL_HELD,                PULL_ON_GATE_OPEN,        PULL_DO_QUEUE,            PULL_QUEUED              },

        /* The kubelet pulls a pod's image first. This is no attempt, and keeps what was fetched. */
        { PULL_WAITING,             PULL_ON_PAUSE,            PULL_DO_PAUSE,            PULL_PAUSED              },
        { PULL_CHECKING,            PULL_ON_PAUSE,            PULL_DO_PAUSE,            PULL_PAUSED              },
        { PULL_AUTHENTICATING,      PULL_ON_PAUSE,            PULL_DO_PAUSE,            PULL_PAUSED              },
        { PULL_PULLING,             PULL_ON_PAUSE,            PULL_DO_PAUSE,            PULL_PAUSED              },
        { PULL_PAUSED,              PULL_ON_PAUSE,            PULL_DO_PAUSE,            PULL_PAUSED              },
        { PULL_PAUSED,              PULL_ON_RESUME,           PULL_DO_WAIT,             PULL_WAITING             },

        /* A pause goes on without the runtime, which cannot be asked. */
        { PULL_BACKING_OFF,         PULL_ON_RUNTIME_AWAY,     PULL_DO_NOTHING,          PULL_BACKING_OFF         },
        { PULL_BACKING_OFF,         PULL_ON_TIMER,            PULL_DO_QUEUE,            PULL_QUEUED              },
        { PULL_WAITING_FOR_RUNTIME, PULL_ON_RUNTIME_AWAY,     PULL_DO_NOTHING,          PULL_WAITING_FOR_RUNTIME },
        { PULL_WAITING_FOR_RUNTIME, PULL_ON_RUNTIME_BACK,     PULL_DO_QUEUE,            PULL_QUEUED              },
        /* An image that breaks the runtime must not keep it down. */
        { PULL_WAITING_FOR_RUNTIME, PULL_ON_RUNTIME_FLAPPING, PULL_DO_BACK_OFF,         PULL_BACKING_OFF         },

        { ANY_RUNNING,              PULL_ON_REFUSED,          PULL_DO_BACK_OFF,         PULL_BACKING_OFF         },
        { ANY_RUNNING,              PULL_ON_EXHAUSTED,        PULL_DO_REPORT,           PULL_FAILED              },
        { ANY_RUNNING,              PULL_ON_RUNTIME_AWAY,     PULL_DO_WAIT_FOR_RUNTIME, PULL_WAITING_FOR_RUNTIME },
        { ANY_RUNNING,              PULL_ON_DEADLINE,         PULL_DO_REPORT,           PULL_FAILED              },
};

#define QUEUE    PULL_RESOURCE_INSPECTION
#define SLOT     PULL_RESOURCE_SLOT
#define KEYS     PULL_RESOURCE_CREDENTIALS
#define CALL     PULL_RESOURCE_CALL
#define REQUEST  PULL_RESOURCE_REQUEST
#define PROGRESS PULL_RESOURCE_PROGRESS
#define RETRY    PULL_RESOURCE_RETRY
#define DEADLINE PULL_RESOURCE_DEADLINE
#define DISK     PULL_RESOURCE_DISK
#define LAYERS   PULL_RESOURCE_LAYERS

static const struct StateRow {
        const char *name;
        ImageStep step;
        unsigned holds;
} states[_PULL_STATE_MAX] = {
        [PULL_QUEUED]              = { "queued",              IMAGE_STEP_QUEUED,              DEADLINE | QUEUE },
        [PULL_INSPECTING]          = { "inspecting",          IMAGE_STEP_INSPECTING,          DEADLINE | QUEUE | CALL },
        [PULL_WAITING]             = { "waiting",             IMAGE_STEP_QUEUED,              DEADLINE | SLOT },
        [PULL_PAUSED]              = { "paused",              IMAGE_STEP_WAITING_FOR_POD,     DEADLINE | SLOT },
        [PULL_CHECKING]            = { "checking",            IMAGE_STEP_INSPECTING,          DEADLINE | SLOT | CALL },
        [PULL_AUTHENTICATING]      = { "authenticating",      IMAGE_STEP_RESOLVING,           DEADLINE | SLOT | KEYS },
        [PULL_PULLING]             = { "pulling",             IMAGE_STEP_RESOLVING,           DEADLINE | SLOT | CALL | REQUEST | PROGRESS | DISK },
        [PULL_COUNTING]            = { "counting",            IMAGE_STEP_UNPACKING,           DEADLINE | SLOT | PROGRESS },
        [PULL_IDENTIFYING]         = { "identifying",         IMAGE_STEP_UNPACKING,           DEADLINE | SLOT | CALL },
        [PULL_ASSESSING]           = { "assessing",           IMAGE_STEP_UNPACKING,           DEADLINE | QUEUE | SLOT | LAYERS },
        [PULL_COMPLETING]          = { "completing",          IMAGE_STEP_DOWNLOADING,         DEADLINE | RETRY },
        [PULL_HELD]                = { "held",                IMAGE_STEP_WAITING_FOR_SLOT,    DEADLINE },
        [PULL_WAITING_FOR_DISK]    = { "waiting-for-disk",    IMAGE_STEP_WAITING_FOR_DISK,    DEADLINE | DISK | RETRY },
        [PULL_BACKING_OFF]         = { "backing-off",         IMAGE_STEP_BACKING_OFF,         DEADLINE | RETRY },
        [PULL_WAITING_FOR_RUNTIME] = { "waiting-for-runtime", IMAGE_STEP_WAITING_FOR_RUNTIME, DEADLINE },
        [PULL_SUCCEEDED]           = { "succeeded",           IMAGE_STEP_NONE,                0 },
        [PULL_FAILED]              = { "failed",              IMAGE_STEP_NONE,                0 },
};
/* clang-format on */

static const struct Rule *find_rule(PullState from, PullEvent event) {
        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
                if (rules[i].event == event &&
                    (rules[i].from == from ||
                     (rules[i].from == ANY_RUNNING && !pull_state_is_final(from))))
                        return &rules[i];

        return NULL;
}

PullAction pull_plan_step(PullState *state, PullEvent event) {
        const struct Rule *rule;

        assert(*state >= 0 && *state < _PULL_STATE_MAX);
        assert(event >= 0 && event < _PULL_EVENT_MAX);

        rule = find_rule(*state, event);
        if (!rule)
                return PULL_DO_NOTHING;

        *state = rule->to;
        return rule->action;
}

unsigned pull_plan_release(PullState from, PullState to) {
        return states[from].holds & ~states[to].holds;
}

ImageStep pull_plan_step_shown(PullState state) {
        return states[state].step;
}

static bool is_beyond(unsigned n, int64_t limit) {
        return limit != DESIRED_IMAGE_NO_LIMIT && n > limit;
}

PullEvent pull_plan_judge(PullReason reason, PullFailures failures, const DesiredImage *limits) {
        return is_beyond(failures.n, limits->backoff_limit) ||
                               is_beyond(failures.n_refusals, limits->refusal_limit) ||
                               pull_reason_remedy(reason) == PULL_REMEDY_NONE
                       ? PULL_ON_EXHAUSTED
                       : PULL_ON_REFUSED;
}

RequestOutcome pull_plan_outcome(const PullResult *result, const PullJoin *join,
                                 const DesiredImage *desired) {
        const PullFailures before = join->failures_before_join;
        const PullFailures since = {
                .n = result->failures.n - before.n,
                .n_refusals = result->failures.n_refusals - before.n_refusals,
        };
        bool is_short = join->joined_running && result->reason == PULL_REASON_DEADLINE;
        bool has_failed;

        if (result->phase == IMAGE_SUCCEEDED || (result->is_held && !desired->is_complete))
                return REQUEST_SUCCEEDED;

        has_failed = result->phase == IMAGE_FAILED
                             ? !is_short && desired_image_is_within(desired, result->desired)
                             : since.n > 0 &&
                                       desired_image_shares_attempts(desired, result->desired) &&
                                       pull_plan_judge(result->reason, since, desired) ==
                                               PULL_ON_EXHAUSTED;
        return has_failed ? REQUEST_FAILED : REQUEST_PENDING;
}

uint64_t pull_plan_left_usec(const PullResult *result, const PullJoin *join,
                             const DesiredImage *desired) {
        int64_t limit_sec = desired->active_deadline_sec;
        int64_t pull_limit_sec = result->desired->active_deadline_sec;
        uint64_t end_usec;

        if (!result->is_timed || limit_sec == DESIRED_IMAGE_NO_LIMIT)
                return UINT64_MAX;

        end_usec = join->elapsed_before_join + (uint64_t) limit_sec * USEC_PER_SEC;
        if (pull_limit_sec != DESIRED_IMAGE_NO_LIMIT &&
            (uint64_t) pull_limit_sec * USEC_PER_SEC <= end_usec)
                return UINT64_MAX;

        return end_usec > result->elapsed_usec ? end_usec - result->elapsed_usec : 0;
}

uint64_t pull_plan_n_attempts(PullReason reason, bool is_refusal, PullFailures failures,
                              const DesiredImage *limits) {
        uint64_t n = UINT64_MAX;

        if (pull_reason_remedy(reason) == PULL_REMEDY_NONE)
                return failures.n;
        if (limits->backoff_limit != DESIRED_IMAGE_NO_LIMIT)
                n = (uint64_t) limits->backoff_limit + 1;
        if (is_refusal && limits->refusal_limit != DESIRED_IMAGE_NO_LIMIT) {
                uint64_t n_others = failures.n - failures.n_refusals;
                uint64_t n_refused = n_others + (uint64_t) limits->refusal_limit + 1;

                n = n_refused < n ? n_refused : n;
        }

        return n == UINT64_MAX ? 0 : n;
}

PullPauses pull_plan_pauses(int64_t backoff_limit) {
        return backoff_limit == DESIRED_IMAGE_NO_LIMIT
                       ? (PullPauses){ 5 * USEC_PER_SEC, 300 * USEC_PER_SEC }
                       : (PullPauses){ BACKOFF_MIN_USEC, BACKOFF_MAX_USEC };
}

bool pull_state_is_final(PullState state) {
        return state == PULL_SUCCEEDED || state == PULL_FAILED;
}

const char *pull_state_to_string(PullState state) {
        assert(state >= 0 && state < _PULL_STATE_MAX);
        return states[state].name;
}
