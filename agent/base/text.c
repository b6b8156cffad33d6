/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int text_copy(const char *text, char **ret) {
        char *copy = NULL;

        if (text) {
                copy = strdup(text);
                if (!copy)
                        return -ENOMEM;
        }

        *ret = copy;
        return 0;
}

int text_set(char **field, const char *text) {
        char *copy;
        int r;

        r = text_copy(text, &copy);
        if (r < 0)
                return r;

        free(*field);
        *field = copy;
        return 0;
}

/* Not by vasprintf(): when glibc's has no memory for the byte that ends a text of 100, it writes that one behind its room. */
int text_vformat(char **ret, const char *format, va_list arguments) {
        char *text = NULL;
        va_list measured;
        int n;

        va_copy(measured, arguments);
        n = vsnprintf(NULL, 0, format, measured);
        va_end(measured);
        if (n >= 0)
                text = malloc((size_t) n + 1);
        if (text)
                (void) vsnprintf(text, (size_t) n + 1, format, arguments);

        *ret = text;
        return text ? 0 : -ENOMEM;
}

int text_format(char **ret, const char *format, ...) {
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = text_vformat(ret, format, arguments);
        va_end(arguments);
        return r;
}

int text_list_add(char **list, const char *name) {
        bool is_empty = !*list || !(*list)[0];
        char *longer;
        int r;

        r = text_format(&longer, "%s%s%s", is_empty ? "" : *list, is_empty ? "" : ", ", name);
        if (r < 0)
                return r;

        free(*list);
        *list = longer;
        return 0;
}

/* A stream that makes a text, which ends with a NUL. */
typedef struct TextStream {
        char **text; /* the caller's */
        size_t *size;
        size_t room;
} TextStream;

static ssize_t stream_write(void *cookie, const char *bytes, size_t n) {
        TextStream *stream = cookie;
        size_t size = *stream->size;

        if (size + n >= stream->room) {
                size_t room = 2 * (size + n + 1);
                char *grown = realloc(*stream->text, room);

                if (!grown)
                        return 0; /* a failure */
                *stream->text = grown;
                stream->room = room;
        }

        memcpy(*stream->text + size, bytes, n);
        (*stream->text)[size + n] = '\0';
        *stream->size = size + n;
        return (ssize_t) n;
}

/* ftell() alone asks. */
static int stream_seek(void *cookie, off64_t *offset, int whence) {
        const TextStream *stream = cookie;

        if (whence != SEEK_CUR || *offset != 0)
                return -1;

        *offset = (off64_t) *stream->size;
        return 0;
}

static int stream_close(void *cookie) {
        free(cookie);
        return 0;
}

FILE *text_open(char **text, size_t *size) {
        static const cookie_io_functions_t functions = { .write = stream_write,
                                                         .seek = stream_seek,
                                                         .close = stream_close };
        TextStream *stream = malloc(sizeof(*stream));
        char *empty = calloc(1, 1);
        FILE *file = stream && empty ? fopencookie(stream, "w", functions) : NULL;

        if (!file) {
                free(stream);
                free(empty);
                return NULL;
        }

        *stream = (TextStream){ .text = text, .size = size, .room = 1 };
        *text = empty;
        *size = 0;
        return file;
}

int text_close(FILE *stream, char **text) {
        bool has_failed = ferror(stream) != 0;

        if (fclose(stream) == 0 && !has_failed && *text)
                return 0;

        free(*text);
        *text = NULL;
        return -ENOMEM;
}

void text_wipe(char **text) {
        if (*text)
                explicit_bzero(*text, strlen(*text));
        free(*text);
        *text = NULL;
}

bool text_is_line(const char *text) {
        for (; *text; text++)
                if ((unsigned char) *text < ' ' || *text == 0x7f)
                        return false;

        return true;
}

static bool is_printable(char c) {
        return c >= ' ' && c <= '~';
}

bool text_is_plain(const char *text) {
        while (is_printable(*text))
                text++;
        return !*text;
}

void text_make_plain(char *text) {
        for (; *text; text++)
                if (!is_printable(*text))
                        *text = '?';
}

bool text_equal(const char *a, const char *b) {
        return a && b ? strcmp(a, b) == 0 : a == b;
}

int texts_copy(char *const *texts, char ***ret) {
        cleanup(texts_free_p) char **copy = NULL;
        size_t n = 0;

        while (texts && texts[n])
                n++;
        if (texts) {
                copy = calloc(n + 1, sizeof(copy[0]));
                if (!copy)
                        return -ENOMEM;
        }
        for (size_t i = 0; i < n; i++)
                if (text_copy(texts[i], &copy[i]) < 0)
                        return -ENOMEM;

        *ret = take_ptr(copy);
        return 0;
}

char **texts_free(char **texts) {
        for (size_t i = 0; texts && texts[i]; i++)
                free(texts[i]);
        free(texts);
        return NULL;
}
