/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/version.h"

#include <errno.h>

#include "agent/ctl/connect.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"
#include "proto/inplaced/v1/node.pb-c.h"

static const RpcMethod version_method = {
        .path = "/inplaced.v1.Node/GetVersion",
        .reply = &inplaced__v1__get_version_response__descriptor,
};

static int print_text(const Inplaced__V1__GetVersionResponse *reply) {
        int r;

        r = print_safe("inplacectl  %s", INPLACED_VERSION);
        if (r < 0 || !reply)
                return r;

        r = print_safe("inplaced    %s", reply->version);
        if (r < 0)
                return r;

        if (!reply->runtime_name[0])
                return print_safe("runtime     none is ready; try: inplacectl doctor");

        return print_safe("runtime     %s %s, API %s", reply->runtime_name, reply->runtime_version,
                          reply->runtime_api_version);
}

static int print_document(const Inplaced__V1__GetVersionResponse *reply, OutputFormat format) {
        cleanup(json_put_p) json_object *tree = json_object_new_object();

        if (!tree || !output_add_string(tree, "clientVersion", INPLACED_VERSION))
                return -ENOMEM;

        if (reply && (!output_add_string(tree, "serverVersion", reply->version) ||
                      !output_add_string(tree, "runtimeName", reply->runtime_name) ||
                      !output_add_string(tree, "runtimeVersion", reply->runtime_version) ||
                      !output_add_string(tree, "runtimeApiVersion", reply->runtime_api_version)))
                return -ENOMEM;

        return output_tree(format, tree);
}

static int print_version(const void *reply, const Options *options) {
        int r;

        r = options_wants_table(options) ? print_text(reply)
                                         : print_document(reply, options->format);
        return r < 0 ? r : EXIT_STATUS_DONE;
}

/* What is known here is told all the same. */
static int print_refused(const Error *error, const Options *options) {
        int r;

        r = print_version(NULL, options);
        if (r < 0)
                return r;

        complain("%s", error_message(error));
        return EXIT_STATUS_FAILED;
}

int command_version(const Options *options) {
        Inplaced__V1__GetVersionRequest request = INPLACED__V1__GET_VERSION_REQUEST__INIT;

        return node_ask(options, &version_method, &request.base, print_version, print_refused);
}
