/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/options.h"

#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/cleanup.h"
#include "agent/base/suggest.h"
#include "agent/view/format.h"

#define UNIX_SCHEME "unix://"
#define ARGUMENT 1 /* a word that is no option, as getopt_long() returns it */
#define SPEC_VALUE \
        0x100 /* and the index in the table: what getopt_long() calls an option without a letter */
#define GRACE_SEC_MAX (24 * 3600)

static int parse_format(const char *option, const char *text, void *field, Error *reterr) {
        static const char *const names[_OUTPUT_FORMAT_MAX] = {
                [OUTPUT_TABLE] = "table",
                [OUTPUT_WIDE] = "wide",
                [OUTPUT_JSON] = "json",
                [OUTPUT_YAML] = "yaml",
        };

        OutputFormat *ret = field;

        for (OutputFormat format = 0; format < _OUTPUT_FORMAT_MAX; format++)
                if (strcmp(text, names[format]) == 0) {
                        *ret = format;
                        return 0;
                }

        return error_set(reterr, ERROR_INVALID,
                         "--output: \"%s\" is none of table, wide, json and yaml", text);
}

static int parse_policy(const char *option, const char *text, void *field, Error *reterr) {
        bool *ret_always = field;

        *ret_always = strcasecmp(text, "Always") == 0;
        if (*ret_always || strcasecmp(text, "IfNotPresent") == 0)
                return 0;

        return error_set(reterr, ERROR_INVALID,
                         "--pull-policy: \"%s\" is neither Always nor IfNotPresent", text);
}

static int parse_duration(const char *option, const char *text, int64_t max_sec, int64_t *ret,
                          Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;

        if (duration_parse(text, max_sec, ret, &error) < 0)
                return error_set(reterr, error.kind, "--%s: %s", option, error_message(&error));

        return 0;
}

static int parse_timeout(const char *option, const char *text, void *field, Error *reterr) {
        int32_t *ret = field;
        int64_t seconds;
        int r;

        r = parse_duration(option, text, INT32_MAX, &seconds, reterr);
        if (r < 0)
                return r;

        *ret = (int32_t) seconds;
        return 0;
}

static int parse_attempts(const char *option, const char *text, void *field, Error *reterr) {
        Options *options = field;
        char *end;
        long n = strtol(text, &end, 10);

        if (*text < '0' || *text > '9' || *end || n > INT32_MAX)
                return error_set(
                        reterr, ERROR_INVALID,
                        "--attempts: \"%s\" is no number of attempts, such as 3, or 0 for no "
                        "limit",
                        text);

        options->has_attempts = true;
        options->n_attempts = (int32_t) n;
        return 0;
}

/* Zero is a grace period, too. */
static int parse_grace(const char *option, const char *text, void *field, Error *reterr) {
        Options *options = field;

        options->has_grace = true;
        options->grace_sec = 0;
        return strcmp(text, "0") == 0 || strcmp(text, "0s") == 0
                       ? 0
                       : parse_duration(option, text, GRACE_SEC_MAX, &options->grace_sec, reterr);
}

static const char *strip_scheme(const char *path) {
        return strncmp(path, UNIX_SCHEME, strlen(UNIX_SCHEME)) == 0 ? path + strlen(UNIX_SCHEME)
                                                                    : path;
}

static const char *get_socket_path(void) {
        const char *path = getenv("INPLACED_SOCKET");

        return path && path[0] ? strip_scheme(path) : SOCKET_PATH_DEFAULT;
}

static int parse_socket(const char *option, const char *text, void *field, Error *reterr) {
        const char *path = strip_scheme(text), **ret = field;

        if (!path[0])
                return error_set(reterr, ERROR_INVALID, "--socket: the path is empty");

        *ret = path;
        return 0;
}

static int parse_text(const char *option, const char *text, void *field, Error *reterr) {
        const char **ret = field;

        *ret = text;
        return 0;
}

#define OF(group) (1u << OPTION_GROUP_##group)
#define OF_ALL UINT_MAX
#define FIELD(name) offsetof(Options, name)
#define FIELDS 0 /* more than one: all of Options */

typedef struct OptionSpec {
        const char *name;
        char letter;
        /* NULL: a switch, which has no value */
        int (*parse)(const char *option, const char *text, void *field, Error *reterr);
        size_t offset;
        unsigned groups; /* bits of those that know it */
} OptionSpec;

/* clang-format off */
static const OptionSpec specs[] = {
        { "attempt-timeout", 0,   parse_timeout,  FIELD(attempt_timeout_sec), OF(PULL) },
        { "attempts",        0,   parse_attempts, FIELDS,                     OF(PULL) },
        { "complete",        0,   NULL,           FIELD(complete),            OF(PULL) },
        { "failed",          0,   NULL,           FIELD(failed),              OF(STATUS) | OF(RETRY) },
        { "grace",           0,   parse_grace,    FIELDS,                     OF(RESTART) },
        { "help",            'h', NULL,           FIELD(wants_help),          OF_ALL },
        { "namespace",       'n', parse_text,     FIELD(namespace),           OF(RESTART) | OF(VERIFY) },
        { "no-wait",         0,   NULL,           FIELD(no_wait),             OF(PULL) },
        { "output",          'o', parse_format,   FIELD(format),              OF_ALL },
        { "pin",             0,   NULL,           FIELD(pin),                 OF(PULL) },
        { "pull-policy",     0,   parse_policy,   FIELD(always_pull),         OF(PULL) },
        { "quiet",           'q', NULL,           FIELD(quiet),               OF(PULL) },
        { "reason",          0,   parse_text,     FIELD(reason),              OF(RESTART) },
        { "socket",          0,   parse_socket,   FIELD(socket_path),         OF_ALL },
        { "timeout",         0,   parse_timeout,  FIELD(timeout_sec),
          OF(PULL) | OF(RESTART) | OF(WAIT) | OF(PULLS) },
        { "version",         0,   NULL,           FIELD(wants_version),       OF_ALL },
        { "wait",            0,   NULL,           FIELD(wait),                OF(RESTART) },
        { "watch",           'w', NULL,           FIELD(watch),               OF(STATUS) | OF(PULLS) },
};
/* clang-format on */

#define N_SPECS (sizeof(specs) / sizeof(specs[0]))

static void make_long_options(struct option ret[static N_SPECS + 1]) {
        for (size_t i = 0; i < N_SPECS; i++)
                ret[i] = (struct option){
                        .name = specs[i].name,
                        .has_arg = specs[i].parse ? required_argument : no_argument,
                        .val = specs[i].letter ?: SPEC_VALUE + (int) i,
                };
        ret[N_SPECS] = (struct option){ .name = NULL };
}

static const OptionSpec *find_spec(int value) {
        const OptionSpec *spec = specs;

        if (value >= SPEC_VALUE)
                return &specs[value - SPEC_VALUE];

        while (spec->letter != value)
                spec++;
        return spec;
}

/* The command may still be unknown. */
static int take_option(const OptionSpec *spec, const char *text, Options *options, Error *reterr) {
        void *field = (char *) options + spec->offset;

        for (OptionGroup group = 0; group < _OPTION_GROUP_MAX; group++)
                if (!(spec->groups & 1u << group))
                        options->misplaced[group] = spec->name;
        if (spec->parse)
                return spec->parse(spec->name, text, field, reterr);

        *(bool *) field = true;
        return 0;
}

static int refuse_long(const char *text, Error *reterr) {
        const char *name = text + strspn(text, "-");
        Suggestion suggestion = suggest_for(name);

        /* The name that other programs and activeDeadlineSeconds use. */
        if (strncmp(name, "deadline", strlen("deadline")) == 0)
                suggestion.word = "timeout";
        for (size_t i = 0; i < N_SPECS; i++)
                suggest(&suggestion, specs[i].name);

        return suggestion.word
                       ? error_set(reterr, ERROR_INVALID,
                                   "unknown or ambiguous option \"%s\" (did you mean --%s?)", text,
                                   suggestion.word)
                       : error_set(reterr, ERROR_INVALID, "unknown or ambiguous option \"%s\"",
                                   text);
}

/* getopt_long() returns a short option that it refused, and only the position of a long one. */
static int refuse(int option, char **argv, Error *reterr) {
        const char *text = argv[optind - 1];

        if (option == ':')
                return error_set(reterr, ERROR_INVALID, "%s needs an argument", text);
        if (optopt > 0 && optopt < SPEC_VALUE && strncmp(text, "--", 2) != 0)
                return error_set(reterr, ERROR_INVALID, "unknown option \"-%c\"", optopt);
        if (optopt > 0)
                return error_set(reterr, ERROR_INVALID, "\"%s\": the option takes no argument",
                                 text);

        return refuse_long(text, reterr);
}

int options_parse(int argc, char **argv, Options *ret, Error *reterr) {
        Options options = { .socket_path = get_socket_path() };
        char **words = argv + 1; /* the command and its arguments */
        struct option long_options[N_SPECS + 1];
        int option, n_words = 0, r;

        make_long_options(long_options);
        optind = 0; /* starts again, also after earlier calls */
        opterr = 0;
        /* "-": arguments may stand before options, also with POSIXLY_CORRECT in the environment. */
        while ((option = getopt_long(argc, argv, "-:o:n:hqw", long_options, NULL)) >= 0) {
                if (option == '?' || option == ':')
                        return refuse(option, argv, reterr);
                if (option == ARGUMENT) {
                        words[n_words++] = optarg;
                        continue;
                }

                r = take_option(find_spec(option), optarg, &options, reterr);
                if (r < 0)
                        return r;
        }

        while (optind < argc) /* behind "--" */
                words[n_words++] = argv[optind++];
        words[n_words] = NULL;
        if (n_words > 0) {
                options.command = words[0];
                options.arguments = words + 1;
                options.n_arguments = n_words - 1;
        }

        *ret = options;
        return 0;
}
