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
#include "agent/document/json-reader.h"

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

static int read_argument(struct json_object *item, const JsonPath *path, char **ret,
                         Error *reterr) {
        const char *text;

        if (!json_object_is_type(item, json_type_string))
                return json_refuse_type(path, item, "a string (in quotes)", reterr);

        text = json_object_get_string(item);
        if (strlen(text) != (size_t) json_object_get_string_len(item))
                return json_refuse(path, reterr, "has a NUL in it");
        return text_copy(text, ret);
}

static int read_exec(struct json_object *exec, const JsonPath *parent, HandlerSpec *spec,
                     Error *reterr) {
        const JsonPath path = { .parent = parent, .key = "command" };
        struct json_object *command;
        size_t n;
        int r;

        r = json_read_list(exec, parent, path.key, &command, reterr);
        if (r < 0)
                return r;

        n = command ? json_object_array_length(command) : 0;
        if (n == 0)
                return json_refuse(&path, reterr, "is empty");

        spec->kind = HANDLER_EXEC;
        spec->command = calloc(n + 1, sizeof(*spec->command));
        if (!spec->command)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                r = read_argument(json_object_array_get_idx(command, i),
                                  &(JsonPath){ .parent = &path, .index = i }, &spec->command[i],
                                  reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Finds the number of the container port with this name; 0: none. */
static int find_port(const char *ports, const char *name, int64_t *ret, Error *reterr) {
        cleanup(json_object_put_p) struct json_object *list = NULL;
        int r;

        *ret = 0;
        if (!ports)
                return 0;

        r = parse_json(ports, "the list of the container's ports", &list, reterr);
        if (r < 0 || !json_object_is_type(list, json_type_array))
                return r;

        for (size_t i = 0; i < json_object_array_length(list); i++) {
                struct json_object *item = json_object_array_get_idx(list, i);
                struct json_object *its_name = NULL, *number = NULL;

                if (!json_object_is_type(item, json_type_object))
                        continue;
                (void) json_object_object_get_ex(item, "name", &its_name);
                (void) json_object_object_get_ex(item, "containerPort", &number);
                if (!json_object_is_type(its_name, json_type_string) ||
                    !json_object_is_type(number, json_type_int) ||
                    strcmp(json_object_get_string(its_name), name) != 0)
                        continue;

                *ret = json_object_get_int64(number);
                return 0;
        }

        return 0;
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

static int read_port(struct json_object *object, const JsonPath *parent, const char *ports,
                     HandlerSpec *spec, Error *reterr) {
        const JsonPath path = { .parent = parent, .key = "port" };
        struct json_object *value = NULL;
        int64_t number = 0;
        int r = 0;

        (void) json_object_object_get_ex(object, path.key, &value);
        if (json_object_is_type(value, json_type_int))
                number = json_object_get_int64(value);
        else if (!json_object_is_type(value, json_type_string))
                return json_refuse_type(&path, value, "a number or the name of a port", reterr);
        else if (spec->kind == HANDLER_HTTP && json_object_get_string_len(value) == 0)
                number = HTTP_PORT;
        else
                r = read_port_name(json_object_get_string(value), ports, &path, &number, reterr);
        if (r < 0)
                return r;

        if (number < 1 || number > UINT16_MAX)
                return json_refuse(&path, reterr, "%lld is not a port", (long long) number);

        spec->port = (uint16_t) number;
        return 0;
}

static bool is_host(const char *text) {
        struct in6_addr ignored;

        return strspn(text, NAME_CHARACTERS) == strlen(text) ||
               inet_pton(AF_INET6, text, &ignored) == 1;
}

static int read_host(struct json_object *object, const JsonPath *parent, HandlerSpec *spec,
                     Error *reterr) {
        const JsonPath path = { .parent = parent, .key = "host" };
        const char *text;
        int r;

        r = json_read_string(object, parent, path.key, &text, reterr);
        if (r < 0 || !text || !*text)
                return r;

        if (!is_host(text))
                return json_refuse(&path, reterr, "%s is neither a name nor an address",
                                   quote(text, (char[QUOTE_SIZE]){ 0 }));
        return text_copy(text, &spec->host);
}

static int read_scheme(struct json_object *object, const JsonPath *parent, HandlerSpec *spec,
                       Error *reterr) {
        const JsonPath path = { .parent = parent, .key = "scheme" };
        const char *text;
        int r;

        r = json_read_string(object, parent, path.key, &text, reterr);
        if (r < 0)
                return r;

        if (!text || !*text || strcasecmp(text, "http") == 0)
                return text_copy("http", &spec->scheme);
        if (strcasecmp(text, "https") == 0)
                return text_copy("https", &spec->scheme);

        return json_refuse(&path, reterr, "expected HTTP or HTTPS, got %s",
                           quote(text, (char[QUOTE_SIZE]){ 0 }));
}

/* Drops the fragment, which clients never send. */
static int read_path(struct json_object *object, const JsonPath *parent, HandlerSpec *spec,
                     Error *reterr) {
        const JsonPath path = { .parent = parent, .key = "path" };
        const char *text;
        int r;

        r = json_read_string(object, parent, path.key, &text, reterr);
        if (r < 0)
                return r;

        text = text ?: "";
        if (has_control(text))
                return json_refuse(&path, reterr, "has a control character in it");
        if (text_format(&spec->path, "%s%.*s", *text == '/' ? "" : "/", (int) strcspn(text, "#"),
                        text) < 0)
                return -ENOMEM;
        return 0;
}

static int read_header(struct json_object *item, const JsonPath *path, HandlerHeader *ret,
                       Error *reterr) {
        const char *name, *value;
        int r;

        if (!json_object_is_type(item, json_type_object))
                return json_refuse_type(path, item, "an object", reterr);

        r = json_read_string(item, path, "name", &name, reterr);
        if (r < 0)
                return r;

        r = json_read_text(item, path, "value", &value, reterr);
        if (r < 0)
                return r;

        if (!name || !*name || strspn(name, TOKEN_CHARACTERS) != strlen(name))
                return json_refuse(path, reterr, "%s is not the name of a header",
                                   quote(name ?: "", (char[QUOTE_SIZE]){ 0 }));
        if (value && has_control(value))
                return json_refuse(path, reterr, "the value has a control character in it");

        r = text_copy(name, &ret->name);
        return r < 0 ? r : text_copy(value ?: "", &ret->value);
}

static int read_headers(struct json_object *object, const JsonPath *parent, HandlerSpec *spec,
                        Error *reterr) {
        const JsonPath path = { .parent = parent, .key = "httpHeaders" };
        struct json_object *list;
        size_t n;
        int r;

        r = json_read_list(object, parent, path.key, &list, reterr);
        if (r < 0 || !list)
                return r;

        n = json_object_array_length(list);
        if (n > HEADERS_MAX)
                return json_refuse(&path, reterr, "has more than %d items", HEADERS_MAX);

        spec->headers = calloc(n + 1, sizeof(*spec->headers));
        if (!spec->headers)
                return -ENOMEM;

        while (spec->n_headers < n) {
                const JsonPath here = { .parent = &path, .index = spec->n_headers };

                r = read_header(json_object_array_get_idx(list, here.index), &here,
                                &spec->headers[spec->n_headers++], reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int read_http(struct json_object *http, const JsonPath *path, const char *ports,
                     HandlerSpec *spec, Error *reterr) {
        int r;

        spec->kind = HANDLER_HTTP;
        r = read_scheme(http, path, spec, reterr);
        if (r < 0)
                return r;

        r = read_host(http, path, spec, reterr);
        if (r < 0)
                return r;

        r = read_port(http, path, ports, spec, reterr);
        if (r < 0)
                return r;

        r = read_path(http, path, spec, reterr);
        return r < 0 ? r : read_headers(http, path, spec, reterr);
}

static int read_tcp(struct json_object *tcp, const JsonPath *path, const char *ports,
                    HandlerSpec *spec, Error *reterr) {
        int r;

        spec->kind = HANDLER_TCP;
        r = read_host(tcp, path, spec, reterr);
        return r < 0 ? r : read_port(tcp, path, ports, spec, reterr);
}

static int read_sleep(struct json_object *sleep, const JsonPath *path, HandlerSpec *spec,
                      Error *reterr) {
        int r;

        spec->kind = HANDLER_SLEEP;
        r = json_read_integer(sleep, path, "seconds", &spec->sleep_sec, reterr);
        if (r < 0)
                return r;

        if (spec->sleep_sec < 0)
                return json_refuse(path, reterr, "seconds is negative");
        return 0;
}

/* Names of ports do not exist here, as for the kubelet. */
static int read_grpc(struct json_object *grpc, const JsonPath *parent, HandlerSpec *spec,
                     Error *reterr) {
        const JsonPath path = { .parent = parent, .key = "service" };
        const char *service;
        int r;

        spec->kind = HANDLER_GRPC;
        r = json_read_string(grpc, parent, path.key, &service, reterr);
        if (r < 0)
                return r;

        r = text_copy(service ?: "", &spec->service);
        return r < 0 ? r : read_port(grpc, parent, /* ports= */ NULL, spec, reterr);
}

/* The members of core/v1 LifecycleHandler and ProbeHandler. The API server admits one per handler;
 * of several, the kubelet runs the first. */
static const char *const hook_kinds[] = { "exec", "httpGet", "sleep", "tcpSocket", NULL };
static const char *const probe_kinds[] = { "exec", "httpGet", "tcpSocket", "grpc", NULL };

static int read_handler(struct json_object *object, const JsonPath *parent,
                        const char *const *kinds, const char *ports, HandlerSpec *spec,
                        Error *reterr) {
        struct json_object *value = NULL;
        JsonPath path = { .parent = parent };
        int r;

        for (size_t i = 0; !value && kinds[i]; i++) {
                path.key = kinds[i];
                r = json_read_object(object, parent, kinds[i], &value, reterr);
                if (r < 0)
                        return r;
        }
        if (!value)
                return 0;

        switch (*path.key) {
        case 'e': return read_exec(value, &path, spec, reterr);
        case 'g': return read_grpc(value, &path, spec, reterr);
        case 'h': return read_http(value, &path, ports, spec, reterr);
        case 's': return read_sleep(value, &path, spec, reterr);
        default: return read_tcp(value, &path, ports, spec, reterr);
        }
}

int handler_spec_read_probe(struct json_object *probe, const JsonPath *path, HandlerSpec *ret,
                            Error *reterr) {
        cleanup(handler_spec_done) HandlerSpec spec = HANDLER_SPEC_INIT;
        int r;

        r = read_handler(probe, path, probe_kinds, /* ports= */ NULL, &spec, reterr);
        if (r < 0)
                return r;

        *ret = spec;
        spec = HANDLER_SPEC_INIT;
        return 0;
}

int handler_spec_parse(const char *handler, const char *ports, HandlerSpec *ret, Error *reterr) {
        cleanup(json_object_put_p) struct json_object *object = NULL;
        cleanup(handler_spec_done) HandlerSpec spec = HANDLER_SPEC_INIT;
        int r = 0;

        if (handler && *handler)
                r = parse_json(handler, "the handler", &object, reterr);
        if (r < 0)
                return r;

        if (object && !json_object_is_type(object, json_type_object))
                return json_refuse_type(NULL, object, "a handler", reterr);
        if (object)
                r = read_handler(object, NULL, hook_kinds, ports, &spec, reterr);
        if (r < 0)
                return r;

        *ret = spec;
        spec = HANDLER_SPEC_INIT;
        return 0;
}

void handler_spec_done(HandlerSpec *spec) {
        for (size_t i = 0; spec->command && spec->command[i]; i++)
                free(spec->command[i]);
        for (size_t i = 0; i < spec->n_headers; i++) {
                free(spec->headers[i].name);
                free(spec->headers[i].value);
        }
        free(spec->command);
        free(spec->headers);
        free(spec->scheme);
        free(spec->host);
        free(spec->path);
        free(spec->service);
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
