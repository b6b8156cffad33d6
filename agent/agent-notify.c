/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/agent-notify.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/node/diagnosis.h"

#define NOTIFY_USEC ((uint64_t) 500 * 1000)

struct AgentNotify {
        sd_event_source *timer;
        const Images *images;
        const Runtimes *runtimes;
};

DEFINE_CLEANUP(AgentNotify *, agent_notify_free)

static int on_time(sd_event_source *source, uint64_t usec, void *userdata) {
        AgentNotify *notify = userdata;
        ImagesWork work = images_work(notify->images);

        (void) sd_notifyf(false, "STATUS=%zu images wanted, %zu being pulled, %zu waiting; %s",
                          images_count(notify->images), work.n_pulling, work.n_queued,
                          diagnosis_runtime_sentence(notify->runtimes));
        if (work.n_pulling + work.n_queued == 0)
                (void) malloc_trim(0);
        return 0;
}

int agent_notify_later(AgentNotify *notify) {
        int enabled;

        if (!notify || sd_event_source_get_enabled(notify->timer, &enabled) < 0 ||
            enabled != SD_EVENT_OFF)
                return 0;

        (void) sd_event_source_set_time_relative(notify->timer, NOTIFY_USEC);
        return sd_event_source_set_enabled(notify->timer, SD_EVENT_ONESHOT);
}

int agent_notify_new(sd_event *event, const Images *images, const Runtimes *runtimes,
                     AgentNotify **ret) {

        cleanup(agent_notify_free_p) AgentNotify *notify = NULL;
        int r;

        notify = calloc(1, sizeof(*notify));
        if (!notify)
                return -ENOMEM;

        notify->images = images;
        notify->runtimes = runtimes;
        r = loop_add_time_relative(event, &notify->timer, CLOCK_MONOTONIC, NOTIFY_USEC, 0, on_time,
                                   notify);
        if (r < 0)
                return r;

        *ret = take_ptr(notify);
        return 0;
}

AgentNotify *agent_notify_free(AgentNotify *notify) {
        if (!notify)
                return NULL;

        sd_event_source_disable_unref(notify->timer);
        free(notify);
        return NULL;
}
