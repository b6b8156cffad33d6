/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An API server and a clock that do what a test says
 *
 * It takes the place of client.c, and of the timers and the clock of libsystemd: what is defined in
 * the program itself comes before what is in a library. So nothing ever waits.
 */

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>

#include "agent/base/cleanup.h"
#include "agent/kube/client.h"

#define FAKE_TIMERS_MAX 500
#define FAKE_CALLS_MAX 4

struct KubeCall {
        KubeRequest request; /* the path is owned */
};

static struct FakeKube {
        sd_event *event;
        KubeCall *call; /* the oldest that runs, or the one of fake_choose(); NULL: none */
        KubeCall *calls[FAKE_CALLS_MAX];
        size_t n_running, max_running; /* 0: one at a time */
        unsigned n_calls;
        uint64_t now_usec;
        struct {
                sd_event_source *source;
                uint64_t usec; /* from when it was set */
                uint64_t due_usec;
        } timers[FAKE_TIMERS_MAX];
        size_t n_timers;
} fake;

sd_event *kube_client_event(const KubeClient *client) {
        return fake.event;
}

bool kube_client_is_in_trouble(const KubeClient *client) {
        return false;
}

const Error *kube_client_trouble(const KubeClient *client) {
        return NULL;
}

int kube_call(KubeClient *client, const KubeRequest *request, KubeCall **ret) {
        KubeCall *call = calloc(1, sizeof(*call));

        assert_true(fake.n_running < (fake.max_running ?: 1));
        call->request = *request;
        call->request.path = strdup(request->path);
        fake.calls[fake.n_running++] = call;
        fake.call = fake.call ?: call;
        fake.n_calls++;
        *ret = call;
        return 0;
}

KubeCall *kube_call_unref(KubeCall *call) {
        size_t i = 0;

        if (!call)
                return NULL;

        while (fake.calls[i] != call)
                assert_true(++i < fake.n_running);
        memmove(fake.calls + i, fake.calls + i + 1, (--fake.n_running - i) * sizeof(fake.calls[0]));
        if (call == fake.call)
                fake.call = fake.n_running > 0 ? fake.calls[0] : NULL;
        free((char *) call->request.path);
        free(call);
        return NULL;
}

int sd_event_now(sd_event *event, clockid_t clock, uint64_t *ret) {
        *ret = fake.now_usec;
        return 0;
}

int sd_event_add_time_relative(sd_event *event, sd_event_source **ret, clockid_t clock,
                               uint64_t usec, uint64_t accuracy, sd_event_time_handler_t callback,
                               void *userdata) {
        int r = sd_event_add_time(event, ret, clock, UINT64_MAX, accuracy, callback, userdata);

        assert_true(r >= 0 && fake.n_timers < FAKE_TIMERS_MAX);
        fake.timers[fake.n_timers].source = sd_event_source_ref(*ret);
        fake.timers[fake.n_timers].usec = usec;
        fake.timers[fake.n_timers++].due_usec = fake.now_usec + usec;
        return r;
}

int sd_event_source_set_time_relative(sd_event_source *source, uint64_t usec) {
        for (size_t i = 0; i < fake.n_timers; i++)
                if (fake.timers[i].source == source) {
                        fake.timers[i].usec = usec;
                        fake.timers[i].due_usec = fake.now_usec + usec;
                }
        return sd_event_source_set_time(source, UINT64_MAX);
}

static inline void fake_set_up(void) {
        memset(&fake, 0, sizeof(fake));
        assert_true(sd_event_new(&fake.event) >= 0);
}

static inline void fake_tear_down(void) {
        for (size_t i = 0; i < fake.n_timers; i++)
                sd_event_source_unref(fake.timers[i].source);
        fake.event = sd_event_unref(fake.event);
        assert_true(!fake.call);
}

/* The number of the timer that is due first, or -1. */
static inline int fake_find_timer(void) {
        int found = -1;

        for (size_t i = 0; i < fake.n_timers; i++) {
                int enabled;

                assert_true(sd_event_source_get_enabled(fake.timers[i].source, &enabled) >= 0);
                if (enabled != SD_EVENT_OFF &&
                    (found < 0 || fake.timers[i].due_usec < fake.timers[found].due_usec))
                        found = (int) i;
        }

        return found;
}

static inline uint64_t fake_timer(void) {
        int i = fake_find_timer();

        return i < 0 ? UINT64_MAX : fake.timers[i].usec;
}

/* Lets the time pass until the timer. */
static inline void fake_pass(void) {
        int i = fake_find_timer();

        assert_true(i >= 0);
        fake.now_usec = fake.timers[i].due_usec;
        assert_true(sd_event_source_set_time(fake.timers[i].source, 0) >= 0);
        assert_true(sd_event_run(fake.event, 0) > 0);
}

/* The call whose path has this part is the one that is answered next; false: there is none. */
static inline bool fake_choose(const char *part) {
        for (size_t i = 0; i < fake.n_running; i++)
                if (strstr(fake.calls[i]->request.path, part)) {
                        fake.call = fake.calls[i];
                        return true;
                }

        return false;
}

static inline int fake_accept(void) {
        return fake.call->request.on_accepted(fake.call->request.userdata);
}

/* The memory is gone right after, as curl's would be. */
static inline int fake_send(const void *data, size_t size) {
        cleanup(free_p) char *copy = malloc(size);

        memcpy(copy, data, size);
        return fake.call->request.on_data(copy, size, fake.call->request.userdata);
}

static inline int fake_reply(const KubeReply *reply, const Error *error) {
        return fake.call->request.on_replied(reply, error, fake.call->request.userdata);
}

/* Bytes that are in use; 0 under a sanitizer, which has an allocator of its own. */
static inline size_t fake_memory(void) {
        return mallinfo2().uordblks;
}
