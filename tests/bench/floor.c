/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures the cost of the libraries alone
 *
 * Does with every library of the agent the least that the agent cannot do without: a gRPC channel
 * to the runtime with one call over it, a gRPC server on a socket, an event loop, an HTTP server, a
 * YAML parser, a JSON value. Then it says READY=1 and rests, as the agent does.
 *
 *     floor SOCKET RUNTIME_SOCKET
 *
 * Built with IN_CLUSTER it also does so with what a cluster takes: it asks an API server for
 * something and keeps the connection.
 *
 *     floor SOCKET RUNTIME_SOCKET URL AUTHORITY TOKEN [PATH]
 *
 * With a path of that server it does not rest, but reads what a watch there sends, and throws it
 * away.
 */

#ifdef IN_CLUSTER
#include <curl/curl.h>
#endif
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <json-c/json.h>
#include <microhttpd.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>
#include <yaml.h>

static void fail(const char *what) {
        fprintf(stderr, "floor: %s failed\n", what);
        exit(1);
}

static enum MHD_Result serve(void *userdata, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *upload,
                             size_t *upload_size, void **state) {
        return MHD_NO;
}

static void start_small_libraries(void) {
        yaml_parser_t parser;
        sd_event *event;

        if (sd_event_default(&event) < 0)
                fail("sd_event_default");
        if (!MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, serve, NULL, MHD_OPTION_END))
                fail("MHD_start_daemon");
        if (!yaml_parser_initialize(&parser))
                fail("yaml_parser_initialize");

        yaml_parser_delete(&parser);
        json_object_put(json_object_new_object());
        (void) protobuf_c_version_number();
}

static void start_server(const char *path, grpc_completion_queue *queue) {
        grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
        grpc_server *server = grpc_server_create(NULL, NULL);
        char address[256];

        (void) snprintf(address, sizeof(address), "unix:%s", path);
        grpc_server_register_completion_queue(server, queue, NULL);
        if (!grpc_server_add_http2_port(server, address, credentials))
                fail("grpc_server_add_http2_port");

        grpc_server_credentials_release(credentials);
        grpc_server_start(server);
}

/* Asks for the version as the agent does first; the bytes are a VersionRequest { version: "v1" }. */
static void call_runtime(const char *path, grpc_completion_queue *queue) {
        static const gpr_timespec timeout = { .tv_sec = 5, .clock_type = GPR_TIMESPAN };
        grpc_slice bytes = grpc_slice_from_static_buffer("\n\2v1", 4);
        grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
        grpc_metadata_array initial, trailing;
        grpc_byte_buffer *reply = NULL;
        grpc_status_code status;
        grpc_slice details;
        char address[256];

        (void) snprintf(address, sizeof(address), "unix:%s", path);
        grpc_metadata_array_init(&initial);
        grpc_metadata_array_init(&trailing);
        grpc_op ops[] = {
                { .op = GRPC_OP_SEND_INITIAL_METADATA },
                { .op = GRPC_OP_SEND_MESSAGE,
                  .data.send_message.send_message = grpc_raw_byte_buffer_create(&bytes, 1) },
                { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
                { .op = GRPC_OP_RECV_INITIAL_METADATA,
                  .data.recv_initial_metadata.recv_initial_metadata = &initial },
                { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &reply },
                { .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                  .data.recv_status_on_client = { .trailing_metadata = &trailing,
                                                  .status = &status,
                                                  .status_details = &details } },
        };
        grpc_channel *channel = grpc_channel_create(address, credentials, NULL);
        grpc_call *call = grpc_channel_create_call(
                channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
                grpc_slice_from_static_string("/runtime.v1.RuntimeService/Version"), NULL,
                gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), timeout), NULL);

        grpc_channel_credentials_release(credentials);
        if (grpc_call_start_batch(call, ops, 6, call, NULL) != GRPC_CALL_OK)
                fail("grpc_call_start_batch");

        (void) grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (status != GRPC_STATUS_OK)
                fail("Version");
        grpc_byte_buffer_destroy(reply);
        grpc_call_unref(call);
}

#ifdef IN_CLUSTER
#define N_ARGUMENTS 5
#define N_ARGUMENTS_MAX 6

static size_t forget(char *data, size_t size, size_t n, void *userdata) {
        return n;
}

/* The headers are not freed, nor the handle, which is what keeps the connection. */
static void ask(CURL *easy, char **arguments, const char *path, const char *accept) {
        struct curl_slist *headers;
        char text[4096];

        (void) snprintf(text, sizeof(text), "Authorization: Bearer %s", arguments[2]);
        headers = curl_slist_append(NULL, text);
        (void) snprintf(text, sizeof(text), "Accept: %s", accept);
        headers = curl_slist_append(headers, text);
        (void) snprintf(text, sizeof(text), "%s%s", arguments[0], path);
        curl_easy_setopt(easy, CURLOPT_URL, text);
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_2TLS);
        curl_easy_setopt(easy, CURLOPT_CAINFO, arguments[1]);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
        curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 16384L);
        curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, forget);
        if (curl_easy_perform(easy) != CURLE_OK)
                fail(path);
}

static void *call_server(char **arguments) {
        CURL *easy;

        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(easy = curl_easy_init()))
                fail("curl_easy_init");

        ask(easy, arguments, "/readyz", "*/*");
        return easy;
}

static void watch_server(void *easy, char **arguments) {
        if (arguments[3])
                ask(easy, arguments, arguments[3],
                    "application/vnd.kubernetes.protobuf;stream=watch");
}
#else
#define N_ARGUMENTS 2
#define N_ARGUMENTS_MAX 2

static void *call_server(char **arguments) {
        return NULL;
}

static void watch_server(void *easy, char **arguments) {
}
#endif

int main(int argc, char **argv) {
        grpc_completion_queue *queue;
        void *server;

        if (argc < 1 + N_ARGUMENTS || argc > 1 + N_ARGUMENTS_MAX)
                fail("usage");

        grpc_init();
        queue = grpc_completion_queue_create_for_next(NULL);
        start_small_libraries();
        start_server(argv[1], queue);
        call_runtime(argv[2], queue);
        server = call_server(argv + 3);
        (void) sd_notify(false, "READY=1");
        watch_server(server, argv + 3);
        (void) grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        return 0;
}
