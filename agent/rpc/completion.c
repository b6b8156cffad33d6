/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/completion.h"

#include <assert.h>
#include <errno.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"

#define GRPC_TIMER_SLACK_NSEC (100ul * 1000 * 1000)

struct CompletionQueue {
        grpc_completion_queue *grpc;
        sd_event_source *wakeup;
        pthread_t thread;
        bool has_thread;
        bool is_closing;
        int fd;

        pthread_mutex_t lock; /* protects the next fields */
        Completion *first;
        Completion **last;
        size_t n_begun;
};

DEFINE_CLEANUP(CompletionQueue *, completion_queue_free)

static void completion_queue_push(CompletionQueue *queue, Completion *completion, bool is_ok) {
        bool was_empty;

        pthread_mutex_lock(&queue->lock);
        completion->is_ok = is_ok;
        completion->next = NULL;
        was_empty = !queue->first;
        *queue->last = completion;
        queue->last = &completion->next;
        pthread_mutex_unlock(&queue->lock);

        /* Wakes the loop only if the list was empty. */
        if (was_empty)
                (void) eventfd_write(queue->fd, 1);
}

static Completion *completion_queue_take_all(CompletionQueue *queue) {
        Completion *first;

        pthread_mutex_lock(&queue->lock);
        first = queue->first;
        queue->first = NULL;
        queue->last = &queue->first;
        for (Completion *c = first; c; c = c->next)
                queue->n_begun--;
        pthread_mutex_unlock(&queue->lock);

        return first;
}

static int completion_queue_dispatch(CompletionQueue *queue) {
        Completion *next;
        int r = 0;

        for (Completion *c = completion_queue_take_all(queue); c; c = next) {
                int k;

                next = c->next; /* the handler may free what c is part of */
                k = c->handler(c->is_ok, c->userdata);
                if (k < 0 && r == 0)
                        r = k;
        }

        return r;
}

static int on_wakeup(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        eventfd_t ignored;

        (void) eventfd_read(fd, &ignored);
        return completion_queue_dispatch(userdata);
}

static void *completion_thread(void *userdata) {
        CompletionQueue *queue = userdata;

        for (;;) {
                grpc_event event;

                event = grpc_completion_queue_next(queue->grpc, gpr_inf_future(GPR_CLOCK_MONOTONIC),
                                                   NULL);
                if (event.type == GRPC_QUEUE_SHUTDOWN)
                        return NULL;

                assert(event.type == GRPC_OP_COMPLETE);
                completion_queue_push(queue, event.tag, event.success);
        }
}

/* gRPC's own threads check their timers several times a second, for ever. They inherit this timer
 * slack, so that the kernel can wake them together; none of their timers needs more precision.
 *
 * gRPC would write to stderr what is wrong in a peer's header, with the peer's bytes as they are, and wait there. */
static void start_grpc(void) {
        int slack_nsec = prctl(PR_GET_TIMERSLACK);

        (void) setenv("GRPC_VERBOSITY", "none", /* overwrite= */ 0);
        (void) prctl(PR_SET_TIMERSLACK, GRPC_TIMER_SLACK_NSEC);
        grpc_init();
        (void) prctl(PR_SET_TIMERSLACK, slack_nsec > 0 ? (unsigned long) slack_nsec : 0);
}

int completion_queue_new(sd_event *event, CompletionQueue **ret) {
        cleanup(completion_queue_free_p) CompletionQueue *queue = NULL;
        int r;

        queue = malloc(sizeof(*queue));
        if (!queue)
                return -ENOMEM;

        start_grpc();
        *queue = (CompletionQueue){
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .last = &queue->first,
                .grpc = grpc_completion_queue_create_for_next(NULL),
                .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
        };
        if (queue->fd < 0)
                return -errno;

        r = loop_add_io(event, &queue->wakeup, queue->fd, EPOLLIN, on_wakeup, queue);
        if (r < 0)
                return r;

        (void) sd_event_source_set_description(queue->wakeup, "rpc-completions");

        r = -pthread_create(&queue->thread, NULL, completion_thread, queue);
        if (r < 0)
                return r;

        queue->has_thread = true;
        (void) pthread_setname_np(queue->thread, "rpc-completion");

        *ret = take_ptr(queue);
        return 0;
}

CompletionQueue *completion_queue_free(CompletionQueue *queue) {
        if (!queue)
                return NULL;

        queue->is_closing = true;
        grpc_completion_queue_shutdown(queue->grpc);
        if (queue->has_thread)
                pthread_join(queue->thread, NULL);
        (void) completion_queue_dispatch(queue);
        assert(queue->n_begun == 0);

        sd_event_source_disable_unref(queue->wakeup);
        close_p(&queue->fd);
        grpc_completion_queue_destroy(queue->grpc);
        pthread_mutex_destroy(&queue->lock);
        free(queue);
        grpc_shutdown();
        return NULL;
}

bool completion_queue_is_closing(const CompletionQueue *queue) {
        return queue->is_closing;
}

void *completion_begin(CompletionQueue *queue, Completion *completion) {
        pthread_mutex_lock(&queue->lock);
        queue->n_begun++;
        pthread_mutex_unlock(&queue->lock);

        return completion;
}

sd_event *completion_queue_get_event(CompletionQueue *queue) {
        return sd_event_source_get_event(queue->wakeup);
}

grpc_completion_queue *completion_queue_get_grpc(CompletionQueue *queue) {
        return queue->grpc;
}
