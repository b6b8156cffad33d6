/* SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "agent/ctl/ask.h"
#include "agent/ctl/commands.h"
#include "agent/document/json-patch.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"
#include "proto/inplaced/v1/node.pb-c.h"

#define REQUEST_ID_SIZE 16 /* hexadecimal digits */

typedef Inplaced__V1__CancelResponse Response;

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

static int print_line(const void *message, const Options *options) {
        const Response *reply = message;

        return reply->canceled > 0 ? print_safe("%s canceled", options->arguments[0]) : 0;
}

static int add_target(json_object *document, const Options *options) {
        return patch_add_text(document, "target", options->arguments[0]);
}

/* Names the requests that this command cannot cancel. */
static int conclude(const void *message, const Options *options) {
        const char *target = options->arguments[0];
        const Response *reply = message;

        for (size_t i = 0; i < reply->n_requested_by; i++)
                complain("%s is %srequested by %s; %s", target, reply->canceled > 0 ? "still " : "",
                         reply->requested_by[i], advice_for(reply->requested_by[i]));

        if (reply->canceled == 0 && reply->n_requested_by == 0)
                complain(is_image(target) ? "image %s is not requested, or is finished"
                         : is_request_id(target)
                                 ? "request %s does not exist, or is finished"
                                 : "%s is neither a request (16 hexadecimal digits) nor a "
                                   "requested image",
                         target);
        return reply->canceled > 0 ? EXIT_STATUS_DONE : EXIT_STATUS_FAILED;
}

static const Question question = {
        .method = { .path = "/inplaced.v1.Node/Cancel",
                    .reply = &inplaced__v1__cancel_response__descriptor },
        .print = print_line,
        .add_first = add_target,
        .conclude = conclude,
};

int command_cancel(const Options *options) {
        Inplaced__V1__CancelRequest request = INPLACED__V1__CANCEL_REQUEST__INIT;
        char *target = options->arguments[0];

        if (is_request_id(target))
                request.request_id = target;
        else
                request.image = target;
        return node_ask(&question, options, &request.base);
}
