/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Completions
 *
 * gRPC core makes progress only while some thread sits in grpc_completion_queue_next(), and that
 * call cannot be watched by an event loop. So one thread sits there and does nothing else: it puts
 * each finished operation on a list and wakes the loop through an eventfd. This is the only thread
 * that the agent starts, and completion.c is the only file that knows about it: every handler runs
 * on the thread of the event loop.
 */

#include <grpc/grpc.h>
#include <stdbool.h>
#include <systemd/sd-event.h>

typedef struct Completion Completion;
typedef struct CompletionQueue CompletionQueue;

/* Runs with the userdata of the completion. is_ok: the operation succeeded. A negative errno ends
 * the event loop, since local failures are fatal. */
typedef int (*CompletionHandler)(bool is_ok, void *userdata);

/* An operation, embedded in the struct that describes it. gRPC uses its address as the tag, so it
 * must not move from completion_begin() until its handler runs. */
struct Completion {
        CompletionHandler handler;
        void *userdata;
        Completion *next; /* this and the next field are private to completion.c */
        bool is_ok;
};

/* Starts gRPC; signals that the event loop handles must be blocked before, since gRPC's threads
 * inherit the mask. */
int completion_queue_new(sd_event *event, CompletionQueue **ret);

/* Waits until every pending operation has finished and its handler ran; the caller cancels them
 * first, or this takes as long as they do. No operation may begin any more, not even in these
 * handlers: completion_queue_is_closing() is true then. Returns NULL. */
CompletionQueue *completion_queue_free(CompletionQueue *queue);
bool completion_queue_is_closing(const CompletionQueue *queue);

/* Call it right before gRPC starts the operation. Returns the tag for gRPC. */
void *completion_begin(CompletionQueue *queue, Completion *completion);

/* Borrowed: they live as long as the queue. */
sd_event *completion_queue_get_event(CompletionQueue *queue);
grpc_completion_queue *completion_queue_get_grpc(CompletionQueue *queue);
