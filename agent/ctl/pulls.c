/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>

#include "agent/base/loop.h"
#include "agent/base/time-units.h"
#include "agent/ctl/commands.h"
#include "agent/ctl/message-json.h"
#include "agent/ctl/stream.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/view/format.h"
#include "agent/view/output.h"
#include "agent/view/pulls-view.h"
#include "agent/view/terminal.h"
#include "proto/inplaced/v1/node.pb-c.h"

typedef Inplaced__V1__PullsEvent Event;

typedef struct Pulls {
        const Options *options;
        NodeClient *client;
        Inplaced__V1__WatchPullsRequest request;
        Stream *stream;
        PullsView *view;
        Timer timeout;
        bool has_begun;
        bool is_over; /* the loop ends */
} Pulls;

static const RpcMethod method = {
        .path = "/inplaced.v1.Node/WatchPulls",
        .reply = &inplaced__v1__pulls_event__descriptor,
};

static int print_document(const Pulls *pulls, json_object *document) {
        if (pulls->has_begun && pulls->options->format == OUTPUT_YAML)
                puts("---");
        return output_tree(pulls->options->format, document) < 0 ? -ENOMEM
               : fflush(stdout) != 0                             ? -errno
                                                                 : 0;
}

static int pulls_end(Pulls *pulls, int status) {
        pulls->is_over = true;
        return sd_event_exit(node_client_event(pulls->client), status);
}

static int on_message(const void *message, void *userdata) {
        const Event *event = message;
        cleanup(json_object_put_p) json_object *document = NULL;
        Pulls *pulls = userdata;
        int r;

        if (pulls->is_over)
                return 0;

        document = json_from_message(event);
        if (!document)
                return -ENOMEM;
        r = options_wants_table(pulls->options)
                    ? pulls_view_show(pulls->view, json_get(document, "pulls", json_type_array))
                    : print_document(pulls, document);
        if (r < 0)
                return r;

        pulls->has_begun = true;
        if (!pulls->options->watch && (!event->runtime || !event->runtime->ready))
                complain("no container runtime is ready; try: inplacectl doctor");
        return pulls->options->watch ? 0 : pulls_end(pulls, EXIT_STATUS_DONE);
}

/* The next frame stands below the lines on stderr, where the cursor is then. */
static void on_away(void *userdata) {
        Pulls *pulls = userdata;

        pulls_view_leave(pulls->view);
}

static int on_refused(const Error *error, void *userdata) {
        complain("%s", error_message(error));
        return pulls_end(userdata, EXIT_STATUS_FAILED);
}

/* The time-out of a caller who follows the pulls is no failure; but silence must not look like an idle node. */
static int on_timeout(void *userdata) {
        Pulls *pulls = userdata;

        if (pulls->has_begun)
                return pulls_end(pulls, EXIT_STATUS_DONE);

        complain("timed out after the %s of --timeout waiting for inplaced at %s",
                 format_duration((uint64_t) pulls->options->timeout_sec, FORMAT_BUFFER),
                 pulls->options->socket_path);
        return pulls_end(pulls, EXIT_STATUS_TIMEOUT);
}

static void pulls_done(Pulls *pulls) {
        timer_done(&pulls->timeout);
        stream_free(pulls->stream);
        node_client_free(pulls->client);
        pulls_view_free(pulls->view);
}

static int start_timeout(Pulls *pulls) {
        timer_init(&pulls->timeout, node_client_event(pulls->client), /* accuracy_usec= */ 1000,
                   on_timeout, pulls);
        return pulls->options->timeout_sec > 0
                       ? timer_start(&pulls->timeout,
                                     (uint64_t) pulls->options->timeout_sec * USEC_PER_SEC)
                       : 0;
}

int command_pulls(const Options *options) {
        cleanup(pulls_done) Pulls pulls = { .options = options };
        int r;

        r = pulls_view_new(options->format, options->watch, /* has_nodes= */ false, &pulls.view);
        if (r >= 0)
                r = node_client_new(options->socket_path, /* on_interrupt= */ NULL, NULL,
                                    &pulls.client);
        if (r >= 0)
                r = start_timeout(&pulls);
        if (r < 0)
                return r;

        inplaced__v1__watch_pulls_request__init(&pulls.request);
        r = stream_new(
                &(StreamOptions){
                        .client = pulls.client,
                        .method = &method,
                        .request = &pulls.request.base,
                        .on_message = on_message,
                        .on_away = on_away,
                        .on_refused = on_refused,
                        .userdata = &pulls,
                },
                &pulls.stream);
        if (r < 0)
                return r;

        return sd_event_loop(node_client_event(pulls.client));
}
