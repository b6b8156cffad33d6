/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/handler-spec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/redact.h"
#include "agent/base/text.h"
#include "agent/base/utf8.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-fields.h"

#define HANDLER_SIZE_MAX ((size_t) 256 << 10) /* limit of an object's annotations together */
#define TEXT_SIZE 256 /* limit of a command or path: events have room for about 1,000 bytes */
#define HEADERS_MAX 256
#define HTTP_PORT 80
#define TOKEN_CHARACTERS \
        "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define NAME_CHARACTERS "-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool has_control(const char *text) {
        for (; *text; text++)
                if (((unsigned char) *text < ' ' && *text != '\t') || *text == 0x7f)
                        return true;

        return false;
}

static int parse_json(const char *text, const char *what, struct json_object **ret, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        size_t size = strnlen(text, HANDLER_SIZE_MAX + 1);
        int r;

        if (size > HANDLER_SIZE_MAX)
                return error_set(reterr, ERROR_INVALID, "%s is larger than 256 KiB", what);

        r = json_parse(text, size, ret, &error);
        if (r < 0 && error.kind != ERROR_NONE)
                return error_set(reterr, ERROR_INVALID, "%s is not valid JSON", what);
        return r;
}

/* Finds the number of the container port with this name; 0: none. */
static int find_port(const char *ports, const char *name, int64_t *ret, Error *reterr) {
        cleanup(json_object_put_p) struct json_object *list = NULL;
        int r;

        r = ports ? parse_json(ports, "the list of the container's ports", &list, reterr) : 0;
        if (r >= 0)
                *ret = json_get_integer(json_find(list, "name", name), "containerPort");
        return r;
}

/* A name among the container's ports comes first, as for the kubelet; then it may be a number. */
static int read_port_name(const char *name, const char *ports, const JsonPath *path, int64_t *ret,
                          Error *reterr) {
        int r;

        r = find_port(ports, name, ret, reterr);
        if (r < 0 || *ret != 0)
                return r;

        if (!*name || strlen(name) > strlen("65535") || strspn(name, "0123456789") != strlen(name))
                return json_refuse(path, reterr, "the container has no port called %s",
                                   quote(name, (char[QUOTE_SIZE]){ 0 }));

        *ret = strtol(name, NULL, 10);
        return 0;
}

static int read_port(struct json_object *value, const JsonPath *path, void *ret,
                     const void *context, Error *reterr) {
        HandlerSpec *spec = ret;
        int64_t number = 0;
        int r = 0;

        if (json_object_is_type(value, json_type_int))
                number = json_object_get_int64(value);
        else if (!json_object_is_type(value, json_type_string))
                return json_refuse_type(path, value, "a number or the name of a port", reterr);
        else if (spec->kind == HANDLER_HTTP && json_object_get_string_len(value) == 0)
                number = HTTP_PORT;
        else
                r = read_port_name(json_object_get_string(value), context, path, &number, reterr);
        if (r < 0)
                return r;

        if (number < 1 || number > UINT16_MAX)
                return json_refuse(path, reterr, "%lld is not a port", (long long) number);

        spec->port = (uint16_t) number;
        return 0;
}

static bool is_host(const char *text) {
        struct in6_addr ignored;

        return strspn(text, NAME_CHARACTERS) == strlen(text) ||
               inet_pton(AF_INET6, text, &ignored) == 1;
}

static int read_host(const char *text, const JsonPath *path, void *ret, const void *context,
                     Error *reterr) {
        if (text && !is_host(text))
                return json_refuse(path, reterr, "%s is neither a name nor an address",
                                   quote(text, (char[QUOTE_SIZE]){ 0 }));
        return text_copy(text, ret);
}

static int read_scheme(const char *text, const JsonPath *path, void *ret, const void *context,
                       Error *reterr) {
        if (!text || strcasecmp(text, "http") == 0)
                return text_copy("http", ret);
        if (strcasecmp(text, "https") == 0)
                return text_copy("https", ret);

        return json_refuse(path, reterr, "expected HTTP or HTTPS, got %s",
                           quote(text, (char[QUOTE_SIZE]){ 0 }));
}

/* Drops the fragment, which clients never send. */
static int read_path(const char *text, const JsonPath *path, void *ret, const void *context,
                     Error *reterr) {
        text = text ?: "";
        if (has_control(text))
                return json_refuse(path, reterr, "has a control character in it");
        return text_format(ret, "%s%.*s", *text == '/' ? "" : "/", (int) strcspn(text, "#"), text);
}

static int read_header_name(const char *text, const JsonPath *path, void *ret, const void *context,
                            Error *reterr) {
        if (!text || strspn(text, TOKEN_CHARACTERS) != strlen(text))
                return json_refuse(path->parent, reterr, "%s is not the name of a header",
                                   quote(text ?: "", (char[QUOTE_SIZE]){ 0 }));
        return text_copy(text, ret);
}

static int read_header_value(const char *text, const JsonPath *path, void *ret, const void *context,
                             Error *reterr) {
        if (text && has_control(text))
                return json_refuse(path->parent, reterr, "the value has a control character in it");
        return text_copy(text ?: "", ret);
}

static int read_service(const char *text, const JsonPath *path, void *ret, const void *context,
                        Error *reterr) {
        return text_copy(text ?: "", ret);
}

/* clang-format off */
static const JsonField exec_fields[] = {
        { "command", JSON_TEXTS, .offset = offsetof(HandlerSpec, command), .empty = "is empty" },
        { .key = NULL },
};

static const JsonField header_fields[] = {
        { "name", JSON_STRING, .offset = offsetof(HandlerHeader, name), .on_text = read_header_name },
        { "value", JSON_TEXT, .offset = offsetof(HandlerHeader, value), .on_text = read_header_value },
        { .key = NULL },
};

static const JsonField http_fields[] = {
        { "scheme", JSON_STRING, .offset = offsetof(HandlerSpec, scheme), .on_text = read_scheme },
        { "host", JSON_STRING, .offset = offsetof(HandlerSpec, host), .on_text = read_host },
        { "port", JSON_ANY, .on_value = read_port },
        { "path", JSON_STRING, .offset = offsetof(HandlerSpec, path), .on_text = read_path },
        { "httpHeaders", JSON_LIST, .offset = offsetof(HandlerSpec, headers), .max = HEADERS_MAX,
          .fields = header_fields, .item_size = sizeof(HandlerHeader),
          .n_offset = offsetof(HandlerSpec, n_headers) },
        { .key = NULL },
};

static const JsonField sleep_fields[] = {
        { "seconds", JSON_INTEGER, .offset = offsetof(HandlerSpec, sleep_sec) },
        { .key = NULL },
};

static const JsonField tcp_fields[] = {
        { "host", JSON_STRING, .offset = offsetof(HandlerSpec, host), .on_text = read_host },
        { "port", JSON_ANY, .on_value = read_port },
        { .key = NULL },
};

static const JsonField grpc_fields[] = {
        { "service", JSON_STRING, .offset = offsetof(HandlerSpec, service), .on_text = read_service },
        { "port", JSON_ANY, .on_value = read_port },
        { .key = NULL },
};

/* The members of core/v1 LifecycleHandler and ProbeHandler. The API server admits one per handler;
 * of several, the kubelet runs the first. */
static const struct {
        const char *key;
        HandlerKind kind;
        const JsonField *fields;
        bool is_hook, is_probe;
} kinds[] = {
        { "exec",      HANDLER_EXEC,  exec_fields,  true,  true },
        { "httpGet",   HANDLER_HTTP,  http_fields,  true,  true },
        { "sleep",     HANDLER_SLEEP, sleep_fields, true,  false },
        { "tcpSocket", HANDLER_TCP,   tcp_fields,   true,  true },
        { "grpc",      HANDLER_GRPC,  grpc_fields,  false, true },
};
/* clang-format on */

/* Only a hook can name its port: a probe's port is a number. */
static int read_handler(struct json_object *object, const JsonPath *parent, bool is_hook,
                        const char *ports, HandlerSpec *ret, Error *reterr) {
        cleanup(handler_spec_done) HandlerSpec spec = HANDLER_SPEC_INIT;
        int r;

        for (size_t i = 0; spec.kind == HANDLER_NONE && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                const JsonPath path = { .parent = parent, .key = kinds[i].key };
                struct json_object *value = NULL;

                if (!(is_hook ? kinds[i].is_hook : kinds[i].is_probe))
                        continue;
                r = json_read_object(object, parent, path.key, &value, reterr);
                if (r < 0)
                        return r;
                if (!value)
                        continue;

                spec.kind = kinds[i].kind;
                r = json_fields_read(kinds[i].fields, value, &path, &spec, ports, reterr);
                if (r < 0)
                        return r;
                if (spec.sleep_sec < 0)
                        return json_refuse(&path, reterr, "seconds is negative");
        }

        *ret = spec;
        spec = HANDLER_SPEC_INIT;
        return 0;
}

int handler_spec_read_probe(struct json_object *probe, const JsonPath *path, HandlerSpec *ret,
                            Error *reterr) {
        return read_handler(probe, path, /* is_hook= */ false, /* ports= */ NULL, ret, reterr);
}

int handler_spec_parse(const char *handler, const char *ports, HandlerSpec *ret, Error *reterr) {
        cleanup(json_object_put_p) struct json_object *object = NULL;
        int r = 0;

        if (handler && *handler)
                r = parse_json(handler, "the handler", &object, reterr);
        if (r < 0)
                return r;

        if (object && !json_object_is_type(object, json_type_object))
                return json_refuse_type(NULL, object, "a handler", reterr);
        return read_handler(object, NULL, /* is_hook= */ true, ports, ret, reterr);
}

void handler_spec_done(HandlerSpec *spec) {
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                json_fields_done(kinds[i].fields, spec);
        *spec = HANDLER_SPEC_INIT;
}

/* Makes it one line without secrets, and cuts a long one between two characters. */
static void shorten(char *text) {
        size_t size = strlen(redact_text(text));

        for (char *c = text; *c; c++)
                if ((unsigned char) *c < ' ' || *c == 0x7f)
                        *c = ' ';
        if (size < TEXT_SIZE)
                return;

        strcpy(text + utf8_cut(text, TEXT_SIZE - sizeof("...")), "...");
}

static int join(char *const *command, char **ret) {
        cleanup(free_p) char *text = NULL;
        size_t size = 1;
        char *to;

        for (size_t i = 0; command[i]; i++)
                size += strlen(command[i]) + 1;

        text = malloc(size);
        if (!text)
                return -ENOMEM;

        *text = '\0';
        to = text;
        for (size_t i = 0; command[i]; i++)
                to = stpcpy(i > 0 ? stpcpy(to, " ") : to, command[i]);

        *ret = take_ptr(text);
        return 0;
}

static int describe_text(const char *format, char *text, char **ret) {
        shorten(text);
        return text_format(ret, format, text);
}

static int describe_exec(const HandlerSpec *spec, char **ret) {
        cleanup(free_p) char *text = NULL;
        int r;

        r = join(spec->command, &text);
        return r < 0 ? r : describe_text("Exec lifecycle hook ([%s])", text, ret);
}

static int describe_http(const HandlerSpec *spec, char **ret) {
        cleanup(free_p) char *text = strdup(spec->path);

        return text ? describe_text("HTTP lifecycle hook (%s)", text, ret) : -ENOMEM;
}

int handler_spec_describe_hook(const HandlerSpec *spec, char **ret) {
        switch (spec->kind) {
        case HANDLER_EXEC: return describe_exec(spec, ret);
        case HANDLER_HTTP: return describe_http(spec, ret);
        case HANDLER_TCP:
                return text_format(ret, "TCP lifecycle hook (%s:%u)", spec->host ?: "", spec->port);
        case HANDLER_SLEEP:
                return text_format(ret, "Sleep lifecycle hook (%lld)", (long long) spec->sleep_sec);
        case HANDLER_NONE:
        case HANDLER_GRPC: /* no hook is */
        case _HANDLER_KIND_MAX: break;
        }

        return text_copy("no lifecycle hook", ret);
}
