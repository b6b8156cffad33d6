/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A parser of Prometheus' text format 0.0.4 that is stricter than the format: one space between
 * words, no timestamps, HELP and TYPE before each metric and never without a sample, counters that
 * end in _total, histograms whose buckets rise.
 */

#include <ctype.h>
#include <math.h>

#include "tests/unit/unit.h"

/* The parser: `at` moves over what was accepted; anything else fails the test. */
typedef struct Parser {
        const char *text;
        const char *at;
        char family[128]; /* family of the last TYPE line */
        char type[16];
        char families[4096]; /* all families so far, each once */
        double last_bucket;
        double last_bound;
        size_t n_samples;
} Parser;

static inline void refuse(const Parser *parser, const char *why) {
        fail_msg("%s at `%.60s` in:\n%s", why, parser->at, parser->text);
}

static inline bool accept(Parser *parser, const char *word) {
        if (strncmp(parser->at, word, strlen(word)) != 0)
                return false;

        parser->at += strlen(word);
        return true;
}

static inline void expect(Parser *parser, const char *word) {
        if (!accept(parser, word))
                refuse(parser, word);
}

static inline void parse_name(Parser *parser, char *ret, size_t size) {
        size_t n = strspn(parser->at, "abcdefghijklmnopqrstuvwxyz"
                                      "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:");

        if (n == 0 || n >= size || isdigit((unsigned char) *parser->at))
                refuse(parser, "no name");
        memcpy(ret, parser->at, n);
        ret[n] = '\0';
        parser->at += n;
}

static inline double parse_number(Parser *parser) {
        char *end = NULL;
        double value;

        if (accept(parser, "+Inf"))
                return INFINITY;
        if (*parser->at != '-' && !isdigit((unsigned char) *parser->at))
                refuse(parser, "no number");
        value = strtod(parser->at, &end);
        parser->at = end;
        return value;
}

/* A text between quotes with the three escapes of the format. */
static inline void parse_quoted(Parser *parser, char *ret, size_t size) {
        size_t n = 0;

        expect(parser, "\"");
        for (; *parser->at != '"'; n++) {
                if (*parser->at == '\0' || *parser->at == '\n' || n == size - 1)
                        refuse(parser, "bad label value");
                if (accept(parser, "\\n"))
                        ret[n] = '\n';
                else if (accept(parser, "\\\\"))
                        ret[n] = '\\';
                else if (accept(parser, "\\\""))
                        ret[n] = '"';
                else if (*parser->at == '\\')
                        refuse(parser, "bad escape");
                else
                        ret[n] = *parser->at++;
        }
        ret[n] = '\0';
        expect(parser, "\"");
}

static inline void parse_header(Parser *parser) {
        char name[128], listed[140];

        expect(parser, "# HELP ");
        parse_name(parser, parser->family, sizeof(parser->family));
        expect(parser, " ");
        if (*parser->at == '\n')
                refuse(parser, "no help");
        parser->at += strcspn(parser->at, "\n");
        expect(parser, "\n# TYPE ");
        parse_name(parser, name, sizeof(name));
        if (strcmp(name, parser->family) != 0)
                refuse(parser, "HELP and TYPE differ");
        expect(parser, " ");
        parse_name(parser, parser->type, sizeof(parser->type));
        if (!strstr("counter gauge histogram", parser->type))
                refuse(parser, "bad type");
        if (strcmp(parser->type, "counter") == 0 && !strstr(name, "_total"))
                refuse(parser, "a counter ends in _total");
        expect(parser, "\n");

        (void) snprintf(listed, sizeof(listed), "|%s|", name);
        if (strstr(parser->families, listed))
                refuse(parser, "metric appears twice");
        (void) strncat(parser->families, listed,
                       sizeof(parser->families) - strlen(parser->families) - 1);
        if (strncmp(parser->at, name, strlen(name)) != 0)
                refuse(parser, "header without a sample");
}

/* Buckets rise and end with +Inf, which is the count. */
static inline void check_histogram(Parser *parser, const char *suffix, double bound, double value) {
        if (strcmp(suffix, "_bucket") == 0) {
                if (isnan(bound) || bound <= parser->last_bound || value < parser->last_bucket)
                        refuse(parser, "bad bucket");
                parser->last_bound = bound;
                parser->last_bucket = value;
        } else if (strcmp(suffix, "_sum") == 0) {
                if (!isinf(parser->last_bound))
                        refuse(parser, "no +Inf");
        } else if (strcmp(suffix, "_count") == 0) {
                if (value != parser->last_bucket)
                        refuse(parser, "count is not the last bucket");
                parser->last_bound = parser->last_bucket = 0;
        } else
                refuse(parser, "bad suffix");
}

static inline void parse_sample(Parser *parser) {
        char name[128], label[64], value[256];
        bool is_histogram = strcmp(parser->type, "histogram") == 0;
        const char *suffix;
        double bound = NAN, number;

        parse_name(parser, name, sizeof(name));
        if (strncmp(name, parser->family, strlen(parser->family)) != 0)
                refuse(parser, "sample of another metric");
        suffix = name + strlen(parser->family);

        if (accept(parser, "{")) {
                do {
                        parse_name(parser, label, sizeof(label));
                        expect(parser, "=");
                        parse_quoted(parser, value, sizeof(value));
                        if (strcmp(label, "le") == 0)
                                bound = strcmp(value, "+Inf") == 0 ? INFINITY : atof(value);
                } while (accept(parser, ","));
                expect(parser, "}");
        }
        expect(parser, " ");
        number = parse_number(parser);
        expect(parser, "\n");
        parser->n_samples++;

        if (is_histogram)
                check_histogram(parser, suffix, bound, number);
        else if (*suffix)
                refuse(parser, "bad suffix");
}

/* Fails the test if the text is not well-formed. Returns the number of samples. */
static inline size_t exposition_check(const char *text) {
        Parser parser = { .text = text, .at = text };

        while (*parser.at)
                if (*parser.at == '#')
                        parse_header(&parser);
                else
                        parse_sample(&parser);
        return parser.n_samples;
}
