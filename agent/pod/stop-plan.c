/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/stop-plan.h"

#include <stddef.h>
#include <stdlib.h>

#include "agent/base/time-units.h"

#define GRACE_DEFAULT_SEC 30
#define GRACE_MAX_SEC ((int64_t) INT32_MAX)

/* clang-format off */
static const struct Rule {
        StopState from;
        StopEvent event;
        StopAction action;
        StopState to;
} rules[] = {
        /* in this state          when this happens        do this               and go there             */
        { STOP_STATE_QUEUED,        STOP_ON_SLOT,            STOP_DO_INSPECT,         STOP_STATE_INSPECTING       },
        { STOP_STATE_QUEUED,        STOP_ON_OVER,            STOP_DO_END,          STOP_STATE_ENDED         },

        { STOP_STATE_INSPECTING,       STOP_ON_RUNNING,         STOP_DO_ASK,          STOP_STATE_ASKING        },
        { STOP_STATE_INSPECTING,       STOP_ON_BEGUN,           STOP_DO_STOP,         STOP_STATE_STOPPING      },
        { STOP_STATE_INSPECTING,       STOP_ON_SLEEPING,        STOP_DO_RUN_HOOK,     STOP_STATE_HOOK          },
        { STOP_STATE_INSPECTING,       STOP_ON_EXITED,          STOP_DO_CONFIRM,      STOP_STATE_CONFIRMING    },
        { STOP_STATE_INSPECTING,       STOP_ON_OVER,            STOP_DO_END,          STOP_STATE_ENDED         },
        { STOP_STATE_INSPECTING,       STOP_ON_REFUSED,         STOP_DO_PAUSE,        STOP_STATE_INSPECTING_LATER },
        { STOP_STATE_INSPECTING,       STOP_ON_RUNTIME_AWAY,    STOP_DO_PARK,         STOP_STATE_PARKED        },
        { STOP_STATE_INSPECTING_LATER, STOP_ON_TIMER,           STOP_DO_INSPECT,         STOP_STATE_INSPECTING       },
        { STOP_STATE_PARKED,        STOP_ON_RUNTIME_BACK,    STOP_DO_QUEUE,        STOP_STATE_QUEUED        },
        { STOP_STATE_PARKED,        STOP_ON_TIMER,           STOP_DO_QUEUE,        STOP_STATE_QUEUED        },

        /* The container may have changed while the kubelet was away: inspect it again. */
        { STOP_STATE_ASKING,        STOP_ON_KUBELET_THERE,   STOP_DO_FIND_ADDRESS, STOP_STATE_ADDRESSING    },
        { STOP_STATE_ASKING,        STOP_ON_KUBELET_AWAY,    STOP_DO_WAIT,         STOP_STATE_WAITING       },
        { STOP_STATE_WAITING,       STOP_ON_TIMER,           STOP_DO_ASK,          STOP_STATE_ASKING_AGAIN  },
        { STOP_STATE_ASKING_AGAIN,  STOP_ON_KUBELET_AWAY,    STOP_DO_WAIT,         STOP_STATE_WAITING       },
        { STOP_STATE_ASKING_AGAIN,  STOP_ON_KUBELET_THERE,   STOP_DO_QUEUE,        STOP_STATE_QUEUED        },

        { STOP_STATE_ADDRESSING,    STOP_ON_ADDRESS,         STOP_DO_CHECK,        STOP_STATE_CHECKING      },
        { STOP_STATE_ADDRESSING,    STOP_ON_RUNTIME_AWAY,    STOP_DO_PARK,         STOP_STATE_PARKED        },

        { STOP_STATE_CHECKING,      STOP_ON_REQUESTED,           STOP_DO_STOP,         STOP_STATE_STOPPING      },
        { STOP_STATE_CHECKING,      STOP_ON_REQUESTED_WITH_HOOK, STOP_DO_RUN_HOOK,     STOP_STATE_HOOK          },
        { STOP_STATE_CHECKING,      STOP_ON_OUTDATED,        STOP_DO_QUEUE,        STOP_STATE_QUEUED        },
        { STOP_STATE_CHECKING,      STOP_ON_RUNTIME_AWAY,    STOP_DO_PARK,         STOP_STATE_PARKED        },
        { STOP_STATE_CHECKING,      STOP_ON_OVER,            STOP_DO_END,          STOP_STATE_ENDED         },

        { STOP_STATE_HOOK,          STOP_ON_TIMER,           STOP_DO_LOOK,         STOP_STATE_HOOK          },
        { STOP_STATE_HOOK,          STOP_ON_EXITED,          STOP_DO_CONFIRM,      STOP_STATE_CONFIRMING    },
        { STOP_STATE_HOOK,          STOP_ON_HOOKED,          STOP_DO_STOP,         STOP_STATE_STOPPING      },

        /* After any answer to a stop, the container's state decides. */
        { STOP_STATE_STOPPING,      STOP_ON_ANSWERED,        STOP_DO_CONFIRM,      STOP_STATE_CONFIRMING    },
        { STOP_STATE_STOPPING,      STOP_ON_RUNTIME_AWAY,    STOP_DO_PARK,         STOP_STATE_LOST          },

        { STOP_STATE_CONFIRMING,    STOP_ON_RUNNING,         STOP_DO_STOP,         STOP_STATE_STOPPING      },
        { STOP_STATE_CONFIRMING,    STOP_ON_OVER,            STOP_DO_END,          STOP_STATE_ENDED         },
        { STOP_STATE_CONFIRMING,    STOP_ON_REFUSED,         STOP_DO_PAUSE,        STOP_STATE_RESTING       },
        { STOP_STATE_CONFIRMING,    STOP_ON_RUNTIME_AWAY,    STOP_DO_PARK,         STOP_STATE_LOST          },

        { STOP_STATE_RESTING,       STOP_ON_TIMER,           STOP_DO_STOP,         STOP_STATE_STOPPING      },
        { STOP_STATE_LOST,          STOP_ON_RUNTIME_BACK,    STOP_DO_CONFIRM,      STOP_STATE_CONFIRMING    },
        { STOP_STATE_LOST,          STOP_ON_TIMER,           STOP_DO_CONFIRM,      STOP_STATE_CONFIRMING    },
};
/* clang-format on */

StopAction stop_plan_step(StopState *state, StopEvent event) {
        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
                if (rules[i].from == *state && rules[i].event == event) {
                        *state = rules[i].to;
                        return rules[i].action;
                }

        return STOP_DO_NOTHING;
}

bool stop_plan_is_silence(ErrorKind kind) {
        return kind == ERROR_TIMEOUT || kind == ERROR_UNAVAILABLE || kind == ERROR_CANCELED;
}

/* False if it is not a number; a larger one becomes the largest. */
static bool read_seconds(const char *text, int64_t *ret) {
        char *end;

        if (!text || *text < '0' || *text > '9')
                return false;

        *ret = strtoll(text, &end, 10);
        return !*end;
}

int64_t stop_plan_grace_sec(int64_t asked_sec, const char *deletion, const char *termination) {
        int64_t seconds = asked_sec;

        if (seconds < 0 && !read_seconds(deletion, &seconds) &&
            !read_seconds(termination, &seconds))
                seconds = GRACE_DEFAULT_SEC;

        return seconds < GRACE_MAX_SEC ? seconds : GRACE_MAX_SEC;
}

int64_t stop_plan_sleep_sec(int64_t sleep_sec, int64_t grace_sec, uint64_t left_usec) {
        int64_t left_sec = (int64_t) (left_usec / USEC_PER_SEC);
        int64_t slept_sec = grace_sec - (int64_t) ((left_usec + USEC_PER_SEC - 1) / USEC_PER_SEC);
        int64_t rest_sec = slept_sec >= 0 && sleep_sec > slept_sec ? sleep_sec - slept_sec : 0;

        return rest_sec < left_sec ? rest_sec : left_sec;
}

int64_t stop_plan_left_sec(uint64_t deadline_usec, uint64_t now_usec) {
        uint64_t left_usec = deadline_usec > now_usec ? deadline_usec - now_usec : 0;
        int64_t left_sec = (int64_t) ((left_usec + USEC_PER_SEC - 1) / USEC_PER_SEC);

        return left_sec > STOP_GRACE_MIN_SEC ? left_sec : STOP_GRACE_MIN_SEC;
}
