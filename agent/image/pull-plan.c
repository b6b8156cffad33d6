/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/pull-plan.h"

#include <assert.h>
#include <stddef.h>

/* clang-format off */
static const struct Rule {
        PullState from;
        PullEvent event;
        PullAction action;
        PullState to;
} rules[] = {
        /* in this state       when this happens     do this               and go there        */
        { PULL_QUEUED,         PULL_ON_SLOT,         PULL_DO_LOOK,         PULL_LOOKING        },
        { PULL_QUEUED,         PULL_ON_RUNTIME_AWAY, PULL_DO_PARK,         PULL_PARKED         },
        { PULL_QUEUED,         PULL_ON_DEADLINE,     PULL_DO_REPORT,       PULL_FAILED         },

        { PULL_LOOKING,        PULL_ON_PRESENT,      PULL_DO_REPORT,       PULL_SUCCEEDED      },
        { PULL_LOOKING,        PULL_ON_ABSENT,       PULL_DO_WAIT,         PULL_WAITING        },
        { PULL_LOOKING,        PULL_ON_REFUSED,      PULL_DO_BACK_OFF,     PULL_BACKING_OFF    },
        { PULL_LOOKING,        PULL_ON_EXHAUSTED,    PULL_DO_REPORT,       PULL_FAILED         },
        { PULL_LOOKING,        PULL_ON_RUNTIME_AWAY, PULL_DO_PARK,         PULL_PARKED         },
        { PULL_LOOKING,        PULL_ON_DEADLINE,     PULL_DO_REPORT,       PULL_FAILED         },

        { PULL_WAITING,        PULL_ON_SLOT,         PULL_DO_AUTHENTICATE, PULL_AUTHENTICATING },
        { PULL_WAITING,        PULL_ON_RUNTIME_AWAY, PULL_DO_PARK,         PULL_PARKED         },
        { PULL_WAITING,        PULL_ON_DEADLINE,     PULL_DO_REPORT,       PULL_FAILED         },

        { PULL_AUTHENTICATING, PULL_ON_KEYS,         PULL_DO_PULL,         PULL_PULLING        },
        { PULL_AUTHENTICATING, PULL_ON_REFUSED,      PULL_DO_BACK_OFF,     PULL_BACKING_OFF    },
        { PULL_AUTHENTICATING, PULL_ON_EXHAUSTED,    PULL_DO_REPORT,       PULL_FAILED         },
        { PULL_AUTHENTICATING, PULL_ON_RUNTIME_AWAY, PULL_DO_PARK,         PULL_PARKED         },
        { PULL_AUTHENTICATING, PULL_ON_DEADLINE,     PULL_DO_REPORT,       PULL_FAILED         },

        { PULL_PULLING,        PULL_ON_PULLED,       PULL_DO_IDENTIFY,     PULL_IDENTIFYING    },
        { PULL_PULLING,        PULL_ON_DENIED,       PULL_DO_PULL,         PULL_PULLING        },
        { PULL_PULLING,        PULL_ON_REFUSED,      PULL_DO_BACK_OFF,     PULL_BACKING_OFF    },
        { PULL_PULLING,        PULL_ON_EXHAUSTED,    PULL_DO_REPORT,       PULL_FAILED         },
        { PULL_PULLING,        PULL_ON_RUNTIME_AWAY, PULL_DO_PARK,         PULL_PARKED         },
        { PULL_PULLING,        PULL_ON_DEADLINE,     PULL_DO_REPORT,       PULL_FAILED         },

        /* Nothing counts as pulled before the runtime shows it. */
        { PULL_IDENTIFYING,    PULL_ON_IDENTIFIED,   PULL_DO_REPORT,       PULL_SUCCEEDED      },
        { PULL_IDENTIFYING,    PULL_ON_REFUSED,      PULL_DO_BACK_OFF,     PULL_BACKING_OFF    },
        { PULL_IDENTIFYING,    PULL_ON_EXHAUSTED,    PULL_DO_REPORT,       PULL_FAILED         },
        { PULL_IDENTIFYING,    PULL_ON_RUNTIME_AWAY, PULL_DO_PARK,         PULL_PARKED         },
        { PULL_IDENTIFYING,    PULL_ON_DEADLINE,     PULL_DO_REPORT,       PULL_FAILED         },

        { PULL_BACKING_OFF,    PULL_ON_TIMER,        PULL_DO_QUEUE,        PULL_QUEUED         },
        { PULL_BACKING_OFF,    PULL_ON_DEADLINE,     PULL_DO_REPORT,       PULL_FAILED         },

        { PULL_PARKED,         PULL_ON_RUNTIME_BACK, PULL_DO_QUEUE,        PULL_QUEUED         },
        /* An image that breaks the runtime must not keep it down. */
        { PULL_PARKED,         PULL_ON_RUNTIME_SICK, PULL_DO_BACK_OFF,     PULL_BACKING_OFF    },
        { PULL_PARKED,         PULL_ON_DEADLINE,     PULL_DO_REPORT,       PULL_FAILED         },
};
/* clang-format on */

PullAction pull_plan_step(PullState *state, PullEvent event) {
        assert(*state >= 0 && *state < _PULL_STATE_MAX);
        assert(event >= 0 && event < _PULL_EVENT_MAX);

        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
                if (rules[i].from == *state && rules[i].event == event) {
                        *state = rules[i].to;
                        return rules[i].action;
                }

        return PULL_DO_NOTHING;
}

ImageStep pull_plan_step_shown(PullState state, ImageStep transfer) {
        switch (state) {
        case PULL_QUEUED:
        case PULL_WAITING: return IMAGE_STEP_QUEUED;
        case PULL_LOOKING: return IMAGE_STEP_LOOKING;
        case PULL_AUTHENTICATING: return IMAGE_STEP_RESOLVING;
        case PULL_PULLING: return transfer;
        case PULL_IDENTIFYING: return IMAGE_STEP_UNPACKING;
        case PULL_BACKING_OFF: return IMAGE_STEP_BACKING_OFF;
        case PULL_PARKED: return IMAGE_STEP_WAITING_FOR_RUNTIME;
        case PULL_SUCCEEDED:
        case PULL_FAILED:
        case _PULL_STATE_MAX: break;
        }

        return IMAGE_STEP_NONE;
}

bool pull_state_is_final(PullState state) {
        return state == PULL_SUCCEEDED || state == PULL_FAILED;
}

const char *pull_state_to_string(PullState state) {
        static const char *const names[_PULL_STATE_MAX] = {
                [PULL_QUEUED] = "queued",
                [PULL_LOOKING] = "looking",
                [PULL_WAITING] = "waiting",
                [PULL_PULLING] = "pulling",
                [PULL_AUTHENTICATING] = "authenticating",
                [PULL_IDENTIFYING] = "identifying",
                [PULL_BACKING_OFF] = "backing-off",
                [PULL_PARKED] = "parked",
                [PULL_SUCCEEDED] = "succeeded",
                [PULL_FAILED] = "failed",
        };

        assert(state >= 0 && state < _PULL_STATE_MAX);
        return names[state];
}
