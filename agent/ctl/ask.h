/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Commands that make one call and print its reply
 *
 * The functions of a question return an ExitStatus, 0, or a negative errno for a local failure.
 */

#include <json-c/json_types.h>
#include <stddef.h>

#include "agent/base/error.h"
#include "agent/ctl/options.h"
#include "agent/rpc/client.h"
#include "proto/inplaced/v1/node.pb-c.h"

typedef struct Question {
        RpcMethod method;

        /* Prints the reply for people. Other formats print the message as a document. */
        int (*print)(const void *reply, const Options *options);

        /* Adds members before those of the reply; NULL: none. */
        int (*add_first)(struct json_object *document, const Options *options);

        /* Complains after the output, and returns the exit status. NULL: done. */
        int (*conclude)(const void *reply, const Options *options);

        /* Takes the reply instead of all these; NULL: reply_print() does. */
        int (*take)(const void *reply, const Options *options);

        /* Takes the error that came instead of a reply; NULL: it is printed to stderr. */
        int (*refuse)(const Error *error, const Options *options);
} Question;

/* Connects, asks, waits and prints. */
int node_ask(const Question *question, const Options *options, const ProtobufCMessage *request);

/* Prints a reply in the format that the options say. NULL: there is none, for a question that can print
 * without one. */
int reply_print(const Question *question, const void *reply, const Options *options);

/* Prints "problem: SUBJECT: MESSAGE; ADVICE" for each, to stdout. */
int problems_print(Inplaced__V1__Problem *const *problems, size_t n_problems);
