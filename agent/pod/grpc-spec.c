/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/grpc-spec.h"

#include <string.h>
#include <strings.h>

#define STATUS_MAX 16 /* the highest that gRPC has */

void grpc_write_prefix(size_t size, uint8_t prefix[static GRPC_PREFIX_SIZE]) {
        prefix[0] = 0;
        for (size_t i = 1; i < GRPC_PREFIX_SIZE; i++)
                prefix[i] = (uint8_t) (size >> (8 * (GRPC_PREFIX_SIZE - 1 - i)));
}

/* A status that is no number counts as an unknown one. */
static void read_status(GrpcEnd *end, const char *text, size_t size) {
        unsigned status = 0;

        for (size_t i = 0; i < size && status <= STATUS_MAX; i++)
                status = text[i] >= '0' && text[i] <= '9' ? status * 10 + (unsigned) (text[i] - '0')
                                                          : STATUS_MAX + 1;
        end->status = size > 0 && status <= STATUS_MAX ? status : STATUS_MAX + 1;
        end->has_status = true;
}

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
                return (c | 0x20) - 'a' + 10;

        return -1;
}

/* gRPC escapes characters that headers may not contain, as "%2F". */
static void read_message(GrpcEnd *end, const char *text, size_t size) {
        size_t n = 0;

        for (size_t i = 0; i < size && n < GRPC_MESSAGE_MAX; i++) {
                int high = text[i] == '%' && i + 2 < size ? hex_digit(text[i + 1]) : -1;
                int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
                unsigned char c = (unsigned char) text[i];

                if (low >= 0) {
                        c = (unsigned char) (high * 16 + low);
                        i += 2;
                }
                end->message[n++] = c < ' ' || c == 0x7f ? '?' : (char) c;
        }
        end->message[n] = '\0';
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void grpc_end_add_header(GrpcEnd *end, const char *line, size_t size) {
        static const struct {
                const char *name;
                void (*read)(GrpcEnd *end, const char *text, size_t size);
        } headers[] = {
                { "grpc-status:", read_status },
                { "grpc-message:", read_message },
        };

        for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
                size_t begin = strlen(headers[i].name), last = size;

                if (size < begin || strncasecmp(line, headers[i].name, begin) != 0)
                        continue;

                while (last > begin && is_blank(line[last - 1]))
                        last--;
                while (begin < last && is_blank(line[begin]))
                        begin++;
                headers[i].read(end, line + begin, last - begin);
        }
}

const char *grpc_status_to_string(unsigned status) {
        static const char *const names[STATUS_MAX + 1] = {
                "OK",
                "CANCELLED",
                "UNKNOWN",
                "INVALID_ARGUMENT",
                "DEADLINE_EXCEEDED",
                "NOT_FOUND",
                "ALREADY_EXISTS",
                "PERMISSION_DENIED",
                "RESOURCE_EXHAUSTED",
                "FAILED_PRECONDITION",
                "ABORTED",
                "OUT_OF_RANGE",
                "UNIMPLEMENTED",
                "INTERNAL",
                "UNAVAILABLE",
                "DATA_LOSS",
                "UNAUTHENTICATED",
        };

        return status <= STATUS_MAX ? names[status] : "a status that gRPC does not have";
}
