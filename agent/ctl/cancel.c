/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <string.h>

#include "agent/ctl/commands.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"
#include "proto/inplaced/v1/node.pb-c.h"

#define REQUEST_ID_SIZE 16 /* hexadecimal digits */

typedef Inplaced__V1__CancelResponse Response;

static const RpcMethod cancel_method = {
        .path = "/inplaced.v1.Node/Cancel",
        .reply = &inplaced__v1__cancel_response__descriptor,
};

static bool is_request_id(const char *text) {
        return strlen(text) == REQUEST_ID_SIZE &&
               strspn(text, "0123456789abcdef") == REQUEST_ID_SIZE;
}

/* Returns whether the text is an image for sure; otherwise it may be a short name, or a part of a
 * request's ID. */
static bool is_image(const char *text) {
        return strpbrk(text, ":/@") != NULL;
}

static const char *advice_for(const char *requested_by) {
        if (strncmp(requested_by, "folder:", strlen("folder:")) == 0)
                return "remove it from that document";
        if (strstr(requested_by, "request "))
                return "only root and the user who made it may cancel it";

        return "withdraw it in the cluster";
}

/* Names the requests that this command cannot cancel. */
static void complain_of_rest(const Response *reply, const char *target) {
        for (size_t i = 0; i < reply->n_requested_by; i++)
                complain("%s is %srequested by %s; %s", target, reply->canceled > 0 ? "still " : "",
                         reply->requested_by[i], advice_for(reply->requested_by[i]));

        if (reply->canceled == 0 && reply->n_requested_by == 0)
                complain(is_image(target)        ? "image %s is not requested, or is finished"
                         : is_request_id(target) ? "request %s is not there, or is finished"
                                                 : "%s is no request, which has 16 hexadecimal "
                                                   "digits, and no image of this name is requested",
                         target);
}

static int print_document(const Response *reply, const char *target, OutputFormat format) {
        cleanup(json_put_p) json_object *tree = json_object_new_object();

        if (!tree || !output_add_string(tree, "target", target) ||
            !output_add_number(tree, "canceled", reply->canceled) ||
            !output_add_strings(tree, "requestedBy", reply->requested_by, reply->n_requested_by))
                return -ENOMEM;

        return output_tree(format, tree);
}

static int print_result(const void *message, const Options *options) {
        const char *target = options->arguments[0];
        const Response *reply = message;
        int r = 0;

        if (!options_wants_table(options))
                r = print_document(reply, target, options->format);
        else if (reply->canceled > 0)
                r = print_safe("%s canceled", target);
        if (r < 0)
                return r;

        complain_of_rest(reply, target);
        return reply->canceled > 0 ? EXIT_STATUS_DONE : EXIT_STATUS_FAILED;
}

int command_cancel(const Options *options) {
        Inplaced__V1__CancelRequest request = INPLACED__V1__CANCEL_REQUEST__INIT;
        char *target = options->arguments[0];

        if (is_request_id(target))
                request.request_id = target;
        else
                request.image = target;
        return node_ask(options, &cancel_method, &request.base, print_result, NULL);
}
