/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/ask.h"
#include "agent/ctl/commands.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"
#include "proto/inplaced/v1/node.pb-c.h"

typedef Inplaced__V1__UnpinResponse Response;

static int print_lines(const void *message, const Options *options) {
        const Response *reply = message;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < reply->n_results; i++) {
                const Inplaced__V1__UnpinResult *result = reply->results[i];

                if (result->unpinned)
                        r = print_safe("%s unpinned", result->image);
        }
        return r;
}

static int conclude(const void *message, const Options *options) {
        const Response *reply = message;
        size_t n_unpinned = 0;

        for (size_t i = 0; i < reply->n_results; i++) {
                const Inplaced__V1__UnpinResult *result = reply->results[i];

                n_unpinned += result->unpinned;
                if (result->message[0])
                        complain("%s: %s", result->image, result->message);
        }
        return exit_status_of(n_unpinned != reply->n_results, n_unpinned > 0);
}

static const Question question = {
        .method = { .path = "/inplaced.v1.Node/Unpin",
                    .reply = &inplaced__v1__unpin_response__descriptor },
        .print = print_lines,
        .conclude = conclude,
};

int command_unpin(const Options *options) {
        Inplaced__V1__UnpinRequest request = INPLACED__V1__UNPIN_REQUEST__INIT;

        request.images = options->arguments;
        request.n_images = (size_t) options->n_arguments;
        return node_ask(&question, options, &request.base);
}
