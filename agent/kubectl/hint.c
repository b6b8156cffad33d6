/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/hint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/view/terminal.h"

#define PLAIN                                                            \
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" \
        "%+,-./:=@_"

static void add_word(FILE *stream, const char *word) {
        if (word[0] && !word[strspn(word, PLAIN)]) {
                (void) fprintf(stream, " %s", word);
                return;
        }

        (void) fputs(" '", stream);
        for (; *word; word++)
                (void) (*word == '\'' ? fputs("'\\''", stream) : fputc(*word, stream));
        (void) fputc('\'', stream);
}

static void add_flag(FILE *stream, const char *flag, const char *value) {
        if (!value)
                return;

        (void) fprintf(stream, " %s", flag);
        add_word(stream, value);
}

int hint_format(const SessionOptions *options, const char *command, const char *const *words,
                char **ret) {
        cleanup(free_p) char *text = NULL;
        size_t size = 0;
        FILE *stream;

        stream = text_open(&text, &size);
        if (!stream)
                return -ENOMEM;

        (void) fputs(command, stream);
        for (; *words; words++)
                add_word(stream, *words);
        add_flag(stream, "-n", options->namespace);
        add_flag(stream, "--context", options->context);
        add_flag(stream, "--kubeconfig", options->kubeconfig);
        add_flag(stream, "--cluster", options->overrides.cluster);
        add_flag(stream, "--user", options->overrides.user);
        add_flag(stream, "--server", options->overrides.server);
        add_flag(stream, "--as", options->overrides.as);
        for (const char *const *group = options->overrides.as_groups; group && *group; group++)
                add_flag(stream, "--as-group", *group);
        if (text_close(stream, &text) < 0)
                return -ENOMEM;

        *ret = take_ptr(text);
        return 0;
}

void hint(const Session *session, const char *namespace, const char *command,
          const char *const *words) {
        cleanup(free_p) char *text = NULL;
        cleanup(free_p) char *safe = NULL;
        SessionOptions options = *session_options(session);

        options.namespace = namespace ?: session_namespace(session);
        if (hint_format(&options, command, words, &text) >= 0)
                safe = terminal_text_escape(text);

        (void) fflush(stdout);
        (void) fprintf(stderr, "  %s\n", safe ?: command);
}
