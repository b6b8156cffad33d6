/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/path.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"

static bool is_unreserved(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               (c != '\0' && strchr("-._~", c));
}

int kube_path_escape(const char *text, char **ret) {
        char *escaped, *to;

        escaped = to = malloc(strlen(text) * 3 + 1);
        if (!escaped)
                return -ENOMEM;

        for (; *text; text++)
                if (is_unreserved(*text))
                        *to++ = *text;
                else
                        to += sprintf(to, "%%%02X", (unsigned char) *text);

        *to = '\0';
        *ret = escaped;
        return 0;
}

/* Follows client-go's rule for path segment names. */
static bool can_be_name(const char *text) {
        return *text && strcmp(text, ".") != 0 && strcmp(text, "..") != 0 && !strpbrk(text, "/%");
}

/* The server decodes a path before it splits it. So an impossible name is quoted and escaped twice,
 * to stay impossible. */
static int escape_impossible(const char *text, char **ret) {
        cleanup(free_p) char *once = NULL;
        cleanup(free_p) char *quoted = NULL;
        int r;

        r = kube_path_escape(text, &once);
        if (r < 0)
                return r;

        r = text_format(&quoted, "\"%s\"", once);
        if (r < 0)
                return r;

        return kube_path_escape(quoted, ret);
}

static int add_part(FILE *to, const char *part) {
        cleanup(free_p) char *escaped = NULL;
        int r;

        if (!part)
                return 0;

        r = can_be_name(part) ? kube_path_escape(part, &escaped)
                              : escape_impossible(part, &escaped);
        if (r < 0)
                return r;

        return fprintf(to, "/%s", escaped) < 0 ? -ENOMEM : 0;
}

static int add_query(FILE *to, char separator, const char *key, const char *value,
                     bool is_escaped) {
        cleanup(free_p) char *escaped = NULL;
        int r;

        if (!value || (is_escaped && !value[0]))
                return 0;

        r = is_escaped ? 0 : kube_path_escape(value, &escaped);
        if (r < 0)
                return r;

        return fprintf(to, "%c%s%s", separator, key, escaped ?: value) < 0 ? -ENOMEM : 0;
}

static int write_path(FILE *to, const KubePath *path) {
        bool has_group = path->group && path->group[0];
        const char *parts[] = {
                has_group ? "apis" : "api",
                has_group ? path->group : NULL,
                path->version,
                path->namespace ? "namespaces" : NULL,
                path->namespace,
                path->resource,
                path->name,
                path->subresource,
                path->proxied,
        };
        int r;

        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
                r = add_part(to, parts[i]);
                if (r < 0)
                        return r;
        }

        r = add_query(to, '?', "fieldSelector=", path->fields, /* is_escaped= */ false);
        if (r >= 0)
                r = add_query(to, path->fields ? '&' : '?', "labelSelector=", path->labels,
                              /* is_escaped= */ false);
        if (r >= 0)
                r = add_query(to, path->fields || path->labels ? '&' : '?', "", path->query,
                              /* is_escaped= */ true);
        return r;
}

int kube_path_format(const KubePath *path, char **ret) {
        cleanup(free_p) char *text = NULL;
        size_t size;
        FILE *to;
        int r;

        to = text_open(&text, &size);
        if (!to)
                return -ENOMEM;

        r = write_path(to, path);
        if (text_close(to, &text) < 0 && r == 0)
                r = -ENOMEM;
        if (r < 0)
                return r;

        *ret = take_ptr(text);
        return 0;
}
