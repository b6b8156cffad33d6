/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Hooks, as the kubelet writes them down
 */

#include "tests/unit/unit.h"
#include <json-c/json.h>

#include "agent/pod/handler-spec.h"

#define PORTS                                                              \
        "[{\"name\":\"web\",\"containerPort\":8080,\"protocol\":\"TCP\"}," \
        "{\"containerPort\":9090},{\"name\":\"81\",\"containerPort\":82}]"

/* clang-format off */
static const struct Case {
        const char *handler;
        const char *summary; /* summary of the parsed handler; NULL: it is refused */
        const char *text;    /* description of the handler, or the refusal */
} cases[] = {
        { NULL, "0", "no lifecycle hook" },
        { "", "0", "no lifecycle hook" },
        { "{}", "0", "no lifecycle hook" },
        { "{\"exec\":null}", "0", "no lifecycle hook" },
        { "{\"exec\":{\"command\":[\"sleep\",\"5\"]}}", "1 sleep|5|", "Exec lifecycle hook ([sleep 5])" },
        { "{\"exec\":{\"command\":[\"sh\",\"-c\",\"a\\nb\"]}}", "1 sh|-c|a\nb|",
          "Exec lifecycle hook ([sh -c a b])" },
        { "{\"exec\":{\"command\":[\"get\",\"http://u:P@h/?s=1\"]}}", "1 get|http://u:P@h/?s=1|",
          "Exec lifecycle hook ([get http://h/])" },
        { "{\"exec\":{\"command\":[]}}", NULL, "exec.command: is empty" },
        { "{\"exec\":{}}", NULL, "exec.command: is empty" },
        { "{\"exec\":{\"command\":[1]}}", NULL,
          "exec.command[0]: expected a string (in quotes), got 1" },
        { "{\"exec\":{\"command\":[\"a\\u0000b\"]}}", NULL, "exec.command[0]: has a NUL in it" },
        { "{\"exec\":7}", NULL, "exec: expected an object, got 7" },

        { "{\"httpGet\":{\"path\":\"/stop?x=1#y\",\"port\":8080}}", "2 http - 8080 /stop?x=1",
          "HTTP lifecycle hook (/stop)" },
        { "{\"httpGet\":{\"port\":\"web\",\"scheme\":\"HTTPS\",\"host\":\"10.0.0.9\"}}",
          "2 https 10.0.0.9 8080 /", "HTTP lifecycle hook (/)" },
        { "{\"httpGet\":{\"port\":\"81\",\"path\":\"x\"}}", "2 http - 82 /x", "HTTP lifecycle hook (/x)" },
        { "{\"httpGet\":{\"port\":\"83\",\"host\":\"fe80::1\"}}", "2 http fe80::1 83 /",
          "HTTP lifecycle hook (/)" },
        { "{\"httpGet\":{\"port\":\"\"}}", "2 http - 80 /", "HTTP lifecycle hook (/)" },
        { "{\"httpGet\":{\"port\":80,\"httpHeaders\":[{\"name\":\"A\",\"value\":\"b c\"},"
          "{\"name\":\"Host\",\"value\":\"x\"},{\"name\":\"E\"}]}}",
          "2 http - 80 / A=b c Host=x E=", "HTTP lifecycle hook (/)" },
        { "{\"httpGet\":{\"port\":\"none\"}}", NULL,
          "httpGet.port: the container has no port called \"none\"" },
        { "{\"httpGet\":{\"port\":0}}", NULL, "httpGet.port: 0 is not a port" },
        { "{\"httpGet\":{\"port\":65536}}", NULL, "httpGet.port: 65536 is not a port" },
        { "{\"httpGet\":{\"port\":\"99999\"}}", NULL, "httpGet.port: 99999 is not a port" },
        { "{\"httpGet\":{}}", NULL, "httpGet.port: expected a number or the name of a port, got nothing" },
        { "{\"httpGet\":{\"port\":80,\"scheme\":\"FTP\"}}", NULL,
          "httpGet.scheme: expected HTTP or HTTPS, got \"FTP\"" },
        { "{\"httpGet\":{\"port\":80,\"host\":\"a/b@c\"}}", NULL,
          "httpGet.host: \"a/b@c\" is neither a name nor an address" },
        { "{\"httpGet\":{\"port\":80,\"path\":\"/a\\r\\nb\"}}", NULL,
          "httpGet.path: has a control character in it" },
        { "{\"httpGet\":{\"port\":80,\"httpHeaders\":[{\"name\":\"A\",\"value\":\"b\\r\\nC: d\"}]}}", NULL,
          "httpGet.httpHeaders[0]: the value has a control character in it" },
        { "{\"httpGet\":{\"port\":80,\"httpHeaders\":[{\"name\":\"A: b\",\"value\":\"c\"}]}}", NULL,
          "httpGet.httpHeaders[0]: \"A: b\" is not the name of a header" },
        { "{\"httpGet\":{\"port\":80,\"httpHeaders\":[{\"value\":\"c\"}]}}", NULL,
          "httpGet.httpHeaders[0]: \"\" is not the name of a header" },

        { "{\"tcpSocket\":{\"port\":\"web\"}}", "3 - 8080", "TCP lifecycle hook (:8080)" },
        { "{\"tcpSocket\":{\"port\":1,\"host\":\"a.example\"}}", "3 a.example 1",
          "TCP lifecycle hook (a.example:1)" },
        { "{\"tcpSocket\":{\"port\":\"\"}}", NULL,
          "tcpSocket.port: the container has no port called \"\"" },
        { "{\"sleep\":{\"seconds\":5}}", "4 5", "Sleep lifecycle hook (5)" },
        { "{\"sleep\":{\"seconds\":-1}}", NULL, "sleep: seconds is negative" },

        /* The kubelet takes the first. */
        { "{\"sleep\":{\"seconds\":5},\"exec\":{\"command\":[\"a\"]}}", "1 a|", "Exec lifecycle hook ([a])" },
        { "{\"new\":{}}", "0", "no lifecycle hook" },
        { "[]", NULL, "expected a handler, got a list" },
        { "{\"exec\":", NULL, "the handler is not valid JSON" },
        { "exec: {command: [a]}", NULL, "the handler is not valid JSON" },
};
/* clang-format on */

static void summarize(const HandlerSpec *spec, char *text, size_t size) {
        FILE *file = fmemopen(text, size, "w");

        fprintf(file, "%d", spec->kind);
        if (spec->kind == HANDLER_EXEC)
                fputs(" ", file);
        for (char **argument = spec->command; argument && *argument; argument++)
                fprintf(file, "%s|", *argument);
        if (spec->scheme)
                fprintf(file, " %s", spec->scheme);
        if (spec->port > 0)
                fprintf(file, " %s %u", spec->host ?: "-", spec->port);
        if (spec->path)
                fprintf(file, " %s", spec->path);
        for (size_t i = 0; i < spec->n_headers; i++)
                fprintf(file, " %s=%s", spec->headers[i].name, spec->headers[i].value);
        if (spec->kind == HANDLER_SLEEP)
                fprintf(file, " %d", (int) spec->sleep_sec);
        fclose(file);
}

TEST_ROWS(test_cases, cases, handler, const struct Case *row) {
        cleanup(handler_spec_done) HandlerSpec spec = HANDLER_SPEC_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *text = NULL;
        char summary[256];
        int r;

        r = handler_spec_parse(row->handler, PORTS, &spec, &error);
        if ((r >= 0) != !!row->summary)
                fail_msg("%s: %s", row->handler, r < 0 ? error_message(&error) : "read");
        if (r < 0) {
                assert_int_equal(error.kind, ERROR_INVALID);
                assert_string_equal(error_message(&error), row->text);
                return;
        }

        summarize(&spec, summary, sizeof(summary));
        assert_string_equal(summary, row->summary);
        assert_ok(handler_spec_describe_hook(&spec, &text));
        assert_string_equal(text, row->text);
}

static const struct PortsRow {
        const char *ports;
        const char *message;
} ports_rows[] = {
        { NULL, "tcpSocket.port: the container has no port called \"web\"" },
        { "{}", "tcpSocket.port: the container has no port called \"web\"" },
        { "[1,{\"name\":1,\"containerPort\":2},{\"name\":\"web\"}]",
          "tcpSocket.port: the container has no port called \"web\"" },
        { "[{\"name\":\"web\",\"containerPort\":70000}]", "tcpSocket.port: 70000 is not a port" },
        { "[", "the list of the container's ports is not valid JSON" },
};

TEST_ROWS(test_ports, ports_rows, ports, const struct PortsRow *row) {
        static const char handler[] = "{\"tcpSocket\":{\"port\":\"web\"}}";

        cleanup(error_done) Error error = ERROR_INIT;
        HandlerSpec spec = HANDLER_SPEC_INIT;

        assert_true(handler_spec_parse(handler, row->ports, &spec, &error) < 0);
        assert_string_equal(error_message(&error), row->message);
}

TEST(test_long) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(handler_spec_done) HandlerSpec spec = HANDLER_SPEC_INIT;
        cleanup(free_p) char *handler = NULL;
        cleanup(free_p) char *text = NULL;
        size_t size = 300 << 10;

        handler = malloc(size + 1);
        memset(handler, ' ', size);
        handler[size] = '\0';
        assert_true(handler_spec_parse(handler, NULL, &spec, &error) < 0);
        assert_string_equal(error_message(&error), "the handler is larger than 256 KiB");

        /* A long description is cut between two characters. */
        memcpy(handler, "{\"exec\":{\"command\":[\"", 21);
        for (size_t i = 21; i < 1001; i += 2)
                memcpy(handler + i, "ä", 2);
        strcpy(handler + 1001, "\"]}}");
        assert_ok(handler_spec_parse(handler, NULL, &spec, NULL));
        assert_ok(handler_spec_describe_hook(&spec, &text));
        assert_true(strlen(text) < 300);
        assert_string_equal(text + strlen(text) - 7, "ä...])");
}

static const struct ProbesRow {
        const char *probe;
        HandlerKind kind;
        const char *service;
        const char *refusal;
} probes_rows[] = {
        { "{}", HANDLER_NONE, NULL, NULL },
        { "{\"exec\":{\"command\":[\"true\"]}}", HANDLER_EXEC, NULL, NULL },
        { "{\"tcpSocket\":{\"port\":1}}", HANDLER_TCP, NULL, NULL },
        { "{\"grpc\":{\"port\":65535}}", HANDLER_GRPC, "", NULL },
        { "{\"grpc\":{\"port\":1,\"service\":\"a.B\"}}", HANDLER_GRPC, "a.B", NULL },
        { "{\"sleep\":{\"seconds\":1}}", HANDLER_NONE, NULL, NULL },
        { "{\"grpc\":{}}", HANDLER_NONE, NULL,
          "probe.grpc.port: expected a number or the name of a port, got nothing" },
        { "{\"grpc\":{\"port\":0}}", HANDLER_NONE, NULL, "probe.grpc.port: 0 is not a port" },
        { "{\"tcpSocket\":{\"port\":65536}}", HANDLER_NONE, NULL,
          "probe.tcpSocket.port: 65536 is not a port" },
        { "{\"tcpSocket\":{\"port\":\"web\"}}", HANDLER_NONE, NULL,
          "probe.tcpSocket.port: the container has no port called \"web\"" },
        { "{\"grpc\":{\"port\":1,\"service\":7}}", HANDLER_NONE, NULL,
          "probe.grpc.service: expected a string (in quotes), got 7" },
};

/* A probe has a gRPC server's health in place of a sleep, and ports have no names. */
TEST_ROWS(test_probes, probes_rows, probe, const struct ProbesRow *row) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(handler_spec_done) HandlerSpec spec = HANDLER_SPEC_INIT;
        json_object *probe = json_tokener_parse(row->probe);
        int r = handler_spec_read_probe(probe, &(JsonPath){ .key = "probe" }, &spec, &error);

        json_object_put(probe);
        assert_int_equal(r < 0, row->refusal != NULL);
        if (r < 0)
                assert_string_equal(error_message(&error), row->refusal);
        assert_int_equal(spec.kind, row->kind);
        if (row->service)
                assert_string_equal(spec.service, row->service);
}
