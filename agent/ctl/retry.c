/* SPDX-License-Identifier: Apache-2.0 */

#include <stdio.h>

#include "agent/ctl/ask.h"
#include "agent/ctl/commands.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"
#include "proto/inplaced/v1/node.pb-c.h"

typedef Inplaced__V1__RetryResponse Response;
typedef Inplaced__V1__RetryResult Result;

static int print_lines(const void *message, const Options *options) {
        const Response *reply = message;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < reply->n_results; i++) {
                const Result *result = reply->results[i];

                if (result->retried)
                        r = print_safe("%s is being tried again", result->image);
        }
        if (reply->n_results == 0)
                puts("No image has failed.");

        return r;
}

static int conclude(const void *message, const Options *options) {
        const Response *reply = message;
        size_t n_retried = 0;

        for (size_t i = 0; i < reply->n_results; i++) {
                const Result *result = reply->results[i];

                n_retried += result->retried;
                if (!result->retried)
                        complain("%s: %s", result->image, result->message);
        }
        return exit_status_of(n_retried != reply->n_results, n_retried > 0);
}

static const Question question = {
        .method = { .path = "/inplaced.v1.Node/Retry",
                    .reply = &inplaced__v1__retry_response__descriptor },
        .print = print_lines,
        .conclude = conclude,
};

int command_retry(const Options *options) {
        Inplaced__V1__RetryRequest request = INPLACED__V1__RETRY_REQUEST__INIT;

        if (options->failed == (options->n_arguments > 0)) {
                complain("give either images or --failed; try: inplacectl help retry");
                return EXIT_STATUS_USAGE;
        }

        request.images = options->arguments;
        request.n_images = (size_t) options->n_arguments;
        request.failed = options->failed;
        return node_ask(&question, options, &request.base);
}
