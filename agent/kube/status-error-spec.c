/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/status-error-spec.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/redact.h"
#include "agent/base/slice.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"

#define LINE_SIZE 512 /* more is not worth reading */

/* Field numbers of runtime.Unknown and of metav1.Status. */
#define UNKNOWN_TYPE 1
#define UNKNOWN_RAW 2
#define TYPE_KIND 2
#define STATUS_MESSAGE 3

#define PROTOBUF_MAGIC "k8s"
#define PROTOBUF_MAGIC_SIZE 4 /* size with the NUL */

ErrorKind kube_status_kind(int code) {
        switch (code) {
        case 401:
        case 403: return ERROR_DENIED;
        case 404: return ERROR_NOT_FOUND;
        case 405:
        case 406:
        case 415: return ERROR_UNSUPPORTED;
        case 408:
        case 504: return ERROR_TIMEOUT;
        case 409: return ERROR_CONFLICT;
        case 410: return ERROR_GONE;
        case 429: return ERROR_UNAVAILABLE;
        default: return code >= 500 ? ERROR_UNAVAILABLE : ERROR_INVALID;
        }
}

static bool read_varint(Slice *text, uint64_t *ret) {
        uint64_t value = 0;

        for (unsigned shift = 0; shift < 64 && text->size > 0; shift += 7) {
                unsigned char byte = (unsigned char) text->data[0];

                *text = slice_skip(*text, 1);
                value |= (uint64_t) (byte & 0x7f) << shift;
                if (!(byte & 0x80)) {
                        *ret = value;
                        return true;
                }
        }

        return false;
}

/* Takes a field off the message; *ret is its content if that is bytes. */
static bool read_field(Slice *message, uint64_t *ret_number, Slice *ret) {
        uint64_t tag, size = 0;

        if (!read_varint(message, &tag))
                return false;

        *ret = (Slice){ .data = NULL };
        *ret_number = tag >> 3;
        switch (tag & 7) {
        case 0: return read_varint(message, &size);
        case 1: size = 8; break;
        case 5: size = 4; break;
        case 2:
                if (!read_varint(message, &size))
                        return false;
                break;
        default: return false;
        }
        if (size > message->size)
                return false;

        if ((tag & 7) == 2)
                *ret = (Slice){ .data = message->data, .size = size };
        *message = slice_skip(*message, size);
        return true;
}

static Slice find_field(Slice message, uint64_t wanted) {
        uint64_t number;
        Slice field;

        while (message.size > 0 && read_field(&message, &number, &field))
                if (number == wanted && field.data)
                        return field;

        return (Slice){ .data = NULL };
}

/* Returns an empty slice if there is no message. */
static Slice message_of_protobuf(Slice body) {
        Slice unknown = slice_skip(body, PROTOBUF_MAGIC_SIZE);
        Slice kind = find_field(find_field(unknown, UNKNOWN_TYPE), TYPE_KIND);

        if (!slice_equal(kind, "Status"))
                return (Slice){ .data = NULL };

        return find_field(find_field(unknown, UNKNOWN_RAW), STATUS_MESSAGE);
}

/* Borrowed from *ret_object, which the caller owns. */
static Slice message_of_json(Slice body, json_object **ret_object) {
        const char *message;

        if (json_parse(body.data, body.size, ret_object, NULL) < 0)
                return (Slice){ .data = NULL };

        message = json_get_text(*ret_object, "message");
        return message && json_is(*ret_object, "kind", "Status") ? slice(message)
                                                                 : (Slice){ .data = NULL };
}

/* Returns the first line of a text. A page or another object would not be understood as a line. */
static Slice message_of_text(Slice body) {
        const char *end;

        if (body.size == 0 || strchr("<{[", body.data[0]))
                return (Slice){ .data = NULL };

        end = slice_find(body, '\n');
        if (end)
                body.size = (size_t) (end - body.data);
        return body;
}

/* Writes the first characters of a text as one line, without a full stop, since it becomes a part of a sentence;
 * secrets are removed before it is cut. */
static void write_line(Slice text, char line[static LINE_SIZE]) {
        cleanup(free_p) char *copy = malloc(text.size + 1);
        size_t size = copy && text.size > 0 ? text.size : 0;

        if (size > 0)
                size = redact_urls(memcpy(copy, text.data, size), size);
        if (size >= LINE_SIZE) {
                size = LINE_SIZE - 1;
                while (size > 0 && ((unsigned char) copy[size] & 0xc0) == 0x80)
                        size--;
        }

        for (size_t i = 0; i < size; i++) {
                unsigned char c = (unsigned char) copy[i];

                line[i] = c < ' ' || c == 0x7f ? ' ' : (char) c;
        }
        while (size > 0 && strchr(" .", line[size - 1]))
                size--;
        line[size] = '\0';
}

void kube_status_error(int code, const char *body, size_t size, Error *ret) {
        cleanup(json_object_put_p) json_object *object = NULL;
        const Slice text = { .data = body, .size = size };
        char line[LINE_SIZE];
        Slice message;

        if (size >= PROTOBUF_MAGIC_SIZE && memcmp(body, PROTOBUF_MAGIC, PROTOBUF_MAGIC_SIZE) == 0)
                message = message_of_protobuf(text);
        else {
                message = message_of_json(text, &object);
                if (message.size == 0)
                        message = message_of_text(text);
        }

        write_line(message, line);
        if (line[0])
                (void) error_set(ret, kube_status_kind(code), "%s", line);
        else
                (void) error_set(ret, kube_status_kind(code), "the server answered %d", code);
}
