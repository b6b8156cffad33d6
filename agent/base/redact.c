/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/redact.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Limit of how often a URL was percent-encoded: "://", "%3A%2F%2F" or "%253A%252F%252F". The
 * separators inside it are encoded as often, or less. */
#define LEVEL_MAX 2

/* Text is read between `at` and `end` and written to `to`, which is never ahead of `at`. url_end is
 * the end of the current URL. */
typedef struct Redaction {
        char *start;
        char *to;
        const char *at;
        const char *end;
        const char *url_end; /* before `at` outside of a URL */
        unsigned level;
} Redaction;

static bool is_alnum(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_in(char c, const char *set) {
        return c != '\0' && strchr(set, c);
}

static bool is_blank(char c) {
        return (unsigned char) c <= ' ' || c == 0x7f;
}

/* Returns how many bytes spell the character at `at`: as it is, as in JSON, or percent-encoded at
 * most `level` times. 0: another character. */
static size_t spelled(const char *at, const char *end, char c, unsigned level) {
        static const char *const forms[] = { "\\u00%02x", "%%%02x", "%%25%02x" };
        size_t n = (size_t) (end - at);
        char text[sizeof("\\u0000")];

        if (n >= 1 && *at == c)
                return 1;
        if (n >= 2 && at[0] == '\\' && at[1] == '/' && c == '/')
                return 2;
        if (n < 3 || !is_in(*at, "\\%"))
                return 0;

        for (unsigned i = 0; i <= level; i++) {
                int size = snprintf(text, sizeof(text), forms[i], (unsigned) c);

                if (n >= (size_t) size && strncasecmp(at, text, (size_t) size) == 0)
                        return (size_t) size;
        }
        return 0;
}

static size_t spelled_any(const char *at, const char *end, const char *set, unsigned level) {
        for (size_t n; *set; set++)
                if ((n = spelled(at, end, *set, level)) > 0)
                        return n;

        return 0;
}

static const char *find_last(const char *at, const char *end, char c, unsigned level) {
        const char *last = NULL;

        while (at < end) {
                size_t n = spelled(at, end, c, level);

                at += n > 0 ? n : 1;
                if (n > 0)
                        last = at;
        }
        return last;
}

static const char *find_any(const char *at, const char *end, const char *set, unsigned level) {
        while (at < end && spelled_any(at, end, set, level) == 0)
                at++;
        return at;
}

/* Returns the size of a ":" and two "/", or 0. */
static size_t separator_size(const Redaction *text, unsigned level) {
        const char *at = text->at;
        static const char pattern[] = "://";

        for (size_t i = 0; i < strlen(pattern); i++) {
                size_t n = spelled(at, text->end, pattern[i], level);

                if (n == 0)
                        return 0;
                at += n;
        }
        return (size_t) (at - text->at);
}

/* Returns the size of the two slashes of a URL without a scheme, or 0. */
static size_t slashes_size(const Redaction *text) {
        size_t one, other;

        if (text->to > text->start && !is_blank(text->to[-1]) && !is_in(text->to[-1], "\"'`(=<"))
                return 0;

        one = spelled(text->at, text->end, '/', 0);
        other = one > 0 ? spelled(text->at + one, text->end, '/', 0) : 0;
        return other > 0 ? one + other : 0;
}

/* Returns the number of backslashes before the quote that opens the URL, whose scheme was written
 * up to `at`, or -1 without such a quote. */
static int opening_quote(const Redaction *text, const char *at) {
        int n = 0;

        while (at > text->start && (is_alnum(at[-1]) || is_in(at[-1], "+.-")))
                at--;
        if (at == text->start || at[-1] != '"')
                return -1;

        for (at--; at > text->start && at[-1] == '\\'; at--)
                n++;
        return n;
}

/* A quoted URL ends at its quote, whatever it contains. Any other ends at a blank or a quote; the
 * punctuation behind it belongs to the sentence. */
static const char *find_url_end(const char *begin, const char *limit, int quote) {
        const char *end = begin;
        int n_backslashes = 0;

        for (; end < limit; end++) {
                if (*end == '"' && (quote < 0 || n_backslashes <= quote))
                        break;
                if (quote < 0 && (is_blank(*end) || is_in(*end, "<>`")))
                        break;
                n_backslashes = *end == '\\' ? n_backslashes + 1 : 0;
        }
        if (end < limit && *end == '"')
                return end - n_backslashes;

        while (end > begin && is_in(end[-1], "'`)]},.:;!") &&
               !(end[-1] == ']' && memchr(begin, '[', (size_t) (end - begin))))
                end--;
        return end;
}

/* Whether the text can be a host and a port, unlike "user:pass" that was cut before its "@". */
static bool is_host(const char *at, const char *end, unsigned level) {
        size_t n = spelled(at, end, '[', level);

        if (n > 0) {
                at = find_any(at, end, "]", level);
                if (at == end)
                        return false;
                at += spelled(at, end, ']', level);
        }
        at = find_any(at, end, ":,;)", level);
        if (at == end || is_in(*at, ",;)"))
                return true;

        at += spelled(at, end, ':', level);
        for (n = 0; at < end && *at >= '0' && *at <= '9'; n++)
                at++;
        return n <= 5 && (at == end || is_in(*at, ",;)"));
}

/* Returns the start of the host. If the URL cannot be understood, that is its end. */
static const char *skip_user(const Redaction *text) {
        const char *end, *host;

        end = find_any(text->at, text->url_end, "/?#", text->level);
        host = find_last(text->at, end, '@', text->level) ?: text->at;
        if (is_host(host, end, text->level))
                return host;

        host = find_last(end, text->url_end, '@', text->level);
        end = host ? find_any(host, text->url_end, "/?#", text->level) : NULL;
        return host && is_host(host, end, text->level) ? host : text->url_end;
}

static void copy(Redaction *text, size_t n) {
        memmove(text->to, text->at, n);
        text->to += n;
        text->at += n;
}

/* Copies the separator before user and host. */
static bool copy_separator(Redaction *text) {
        size_t n = 0;

        for (unsigned level = 0; level <= LEVEL_MAX && n == 0; level++) {
                if (text->to > text->start && is_alnum(text->to[-1]))
                        n = separator_size(text, level);
                else if (level == 0)
                        n = slashes_size(text);
                if (n > 0)
                        text->level = level;
        }

        copy(text, n);
        return n > 0;
}

/* A URL inside the path of another one ends with that. */
static bool redact_user(Redaction *text) {
        const char *scheme_end = text->to;

        if (!copy_separator(text))
                return false;

        if (text->at >= text->url_end)
                text->url_end = find_url_end(text->at, text->end, opening_quote(text, scheme_end));
        text->at = skip_user(text);
        return true;
}

/* Whether a query begins: behind the "?" of a sentence there is no name with a "=". */
static bool begins_query(const Redaction *text) {
        const char *at = text->at;

        if (*at++ != '?')
                return false;
        while (at < text->end && (is_alnum(*at) || is_in(*at, "_.~%[]-")))
                at++;
        return at < text->end && *at == '=' && at > text->at + 1;
}

static bool redact_query(Redaction *text) {
        if (text->at < text->url_end && spelled_any(text->at, text->url_end, "?#", text->level) > 0)
                text->at = text->url_end;
        else if (begins_query(text))
                text->at = find_url_end(text->at, text->end, -1);
        else
                return false;

        return true;
}

/* Whether the text has a slash in any spelling, as each URL does. Most texts have none. */
static bool may_have_url(const char *text, size_t size) {
        return memchr(text, '/', size) || memchr(text, '%', size) || memchr(text, '\\', size);
}

size_t redact_urls(char *start, size_t size) {
        Redaction text = {
                .start = start,
                .to = start,
                .at = start,
                .end = start + size,
                .url_end = start,
        };

        if (!may_have_url(start, size))
                return size;

        while (text.at < text.end)
                if (!redact_user(&text) && !redact_query(&text))
                        copy(&text, 1);
        return (size_t) (text.to - start);
}

char *redact_text(char *text) {
        text[redact_urls(text, strlen(text))] = '\0';
        return text;
}
