/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>

#include "agent/ctl/commands.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"
#include "proto/inplaced/v1/node.pb-c.h"

typedef Inplaced__V1__RetryResponse Response;
typedef Inplaced__V1__RetryResult Result;

static const RpcMethod retry_method = {
        .path = "/inplaced.v1.Node/Retry",
        .reply = &inplaced__v1__retry_response__descriptor,
};

static int print_lines(const Response *reply) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < reply->n_results; i++) {
                const Result *result = reply->results[i];

                if (result->retried)
                        r = print_safe("%s is being tried again", result->image);
                else
                        complain("%s: %s", result->image, result->message);
        }
        if (reply->n_results == 0)
                puts("No image has failed.");

        return r;
}

static json_object *result_json(const Result *result) {
        cleanup(json_put_p) json_object *object = json_object_new_object();

        if (!object || !output_add_string(object, "image", result->image) ||
            !output_add_bool(object, "retried", result->retried) ||
            (result->message[0] && !output_add_string(object, "message", result->message)))
                return NULL;

        return take_ptr(object);
}

static int print_document(const Response *reply, OutputFormat format) {
        cleanup(json_put_p) json_object *tree = json_object_new_object();
        json_object *results = json_object_new_array();

        if (!tree || !output_add(tree, "results", results))
                return -ENOMEM;

        for (size_t i = 0; i < reply->n_results; i++)
                if (!output_append(results, result_json(reply->results[i])))
                        return -ENOMEM;

        return output_tree(format, tree);
}

static int print_results(const void *message, const Options *options) {
        const Response *reply = message;
        size_t n_retried = 0;
        int r;

        r = options_wants_table(options) ? print_lines(reply)
                                         : print_document(reply, options->format);
        if (r < 0)
                return r;

        for (size_t i = 0; i < reply->n_results; i++)
                n_retried += reply->results[i]->retried;
        if (n_retried == reply->n_results)
                return EXIT_STATUS_DONE;

        return n_retried > 0 ? EXIT_STATUS_PARTLY : EXIT_STATUS_FAILED;
}

int command_retry(const Options *options) {
        Inplaced__V1__RetryRequest request = INPLACED__V1__RETRY_REQUEST__INIT;

        if (options->failed == (options->n_arguments > 0)) {
                complain("give either images or --failed; try: inplacectl help retry");
                return EXIT_STATUS_USAGE;
        }

        request.images = options->arguments;
        request.n_images = (size_t) options->n_arguments;
        request.failed = options->failed;
        return node_ask(options, &retry_method, &request.base, print_results, NULL);
}
