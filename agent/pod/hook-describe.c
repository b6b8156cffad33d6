/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/redact.h"
#include "agent/pod/hook-spec.h"

#define TEXT_SIZE 256 /* of a command or path: events have room for about 1,000 bytes */

/* One line without secrets, and cut if it is long, between two characters. */
static void shorten(char *text) {
        size_t size = strlen(redact_text(text));

        for (char *c = text; *c; c++)
                if ((unsigned char) *c < ' ' || *c == 0x7f)
                        *c = ' ';
        if (size < TEXT_SIZE)
                return;

        size = TEXT_SIZE - sizeof("...");
        while (size > 0 && ((unsigned char) text[size] & 0xc0) == 0x80)
                size--;
        strcpy(text + size, "...");
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
        return asprintf(ret, format, text) < 0 ? -ENOMEM : 0;
}

static int describe_exec(const HookSpec *spec, char **ret) {
        cleanup(free_p) char *text = NULL;
        int r;

        r = join(spec->command, &text);
        return r < 0 ? r : describe_text("Exec lifecycle hook ([%s])", text, ret);
}

static int describe_http(const HookSpec *spec, char **ret) {
        cleanup(free_p) char *text = strdup(spec->path);

        return text ? describe_text("HTTP lifecycle hook (%s)", text, ret) : -ENOMEM;
}

int hook_spec_describe(const HookSpec *spec, char **ret) {
        char *text = NULL;
        int r = 0;

        switch (spec->kind) {
        case HOOK_EXEC: r = describe_exec(spec, &text); break;
        case HOOK_HTTP: r = describe_http(spec, &text); break;
        case HOOK_TCP:
                r = asprintf(&text, "TCP lifecycle hook (%s:%u)", spec->host ?: "", spec->port);
                break;
        case HOOK_SLEEP:
                r = asprintf(&text, "Sleep lifecycle hook (%lld)", (long long) spec->sleep_sec);
                break;
        case HOOK_NONE:
        case _HOOK_KIND_MAX: r = asprintf(&text, "no lifecycle hook"); break;
        }
        if (r < 0)
                return -ENOMEM;

        *ret = text;
        return 0;
}
