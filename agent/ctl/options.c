/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/options.h"

#include <getopt.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/cleanup.h"
#include "agent/base/suggest.h"
#include "agent/view/format.h"

#define UNIX_SCHEME "unix://"
#define ARGUMENT 1 /* a word that is no option, as getopt_long() returns it */

enum {
        OPTION_SOCKET = 0x100,
        OPTION_VERSION,
        OPTION_PULL_POLICY,
        OPTION_COMPLETE,
        OPTION_PIN,
        OPTION_NO_WAIT,
        OPTION_TIMEOUT,
        OPTION_ATTEMPT_TIMEOUT,
        OPTION_ATTEMPTS,
        OPTION_WAIT,
        OPTION_GRACE,
        OPTION_REASON,
        OPTION_FAILED,
};

#define GRACE_SEC_MAX (24 * 3600)

/* clang-format off */
static const struct option long_options[] = {
        { "socket",      required_argument, NULL, OPTION_SOCKET      },
        { "output",      required_argument, NULL, 'o'                },
        { "help",        no_argument,       NULL, 'h'                },
        { "version",     no_argument,       NULL, OPTION_VERSION     },
        { "pull-policy", required_argument, NULL, OPTION_PULL_POLICY },
        { "complete",    no_argument,       NULL, OPTION_COMPLETE    },
        { "pin",         no_argument,       NULL, OPTION_PIN         },
        { "no-wait",     no_argument,       NULL, OPTION_NO_WAIT     },
        { "timeout",     required_argument, NULL, OPTION_TIMEOUT     },
        { "attempts",    required_argument, NULL, OPTION_ATTEMPTS    },
        { "attempt-timeout", required_argument, NULL, OPTION_ATTEMPT_TIMEOUT },
        { "quiet",       no_argument,       NULL, 'q'                },
        { "wait",        no_argument,       NULL, OPTION_WAIT        },
        { "grace",       required_argument, NULL, OPTION_GRACE       },
        { "reason",      required_argument, NULL, OPTION_REASON      },
        { "failed",      no_argument,       NULL, OPTION_FAILED      },
        { "watch",       no_argument,       NULL, 'w'                },
        { "namespace",   required_argument, NULL, 'n'                },
        { NULL,          0,                 NULL, 0                  },
};

/* Options of some commands only, and these commands. */
static const struct {
        int option;
        bool is_in[_OPTION_GROUP_MAX];
} owned_options[] = {
        { OPTION_PULL_POLICY, { [OPTION_GROUP_PULL]    = true } },
        { OPTION_COMPLETE,    { [OPTION_GROUP_PULL]    = true } },
        { OPTION_PIN,         { [OPTION_GROUP_PULL]    = true } },
        { OPTION_NO_WAIT,     { [OPTION_GROUP_PULL]    = true } },
        { OPTION_ATTEMPTS,    { [OPTION_GROUP_PULL]    = true } },
        { OPTION_ATTEMPT_TIMEOUT, { [OPTION_GROUP_PULL] = true } },
        { 'q',                { [OPTION_GROUP_PULL]    = true } },
        { OPTION_TIMEOUT,     { [OPTION_GROUP_PULL]    = true, [OPTION_GROUP_RESTART] = true,
                                [OPTION_GROUP_WAIT]    = true, [OPTION_GROUP_PULLS] = true } },
        { OPTION_WAIT,        { [OPTION_GROUP_RESTART] = true } },
        { OPTION_GRACE,       { [OPTION_GROUP_RESTART] = true } },
        { OPTION_REASON,      { [OPTION_GROUP_RESTART] = true } },
        { OPTION_FAILED,      { [OPTION_GROUP_STATUS]  = true, [OPTION_GROUP_RETRY] = true } },
        { 'w',                { [OPTION_GROUP_STATUS]  = true, [OPTION_GROUP_PULLS] = true } },
        { 'n',                { [OPTION_GROUP_RESTART] = true, [OPTION_GROUP_VERIFY] = true } },
};
/* clang-format on */

static int parse_format(const char *text, OutputFormat *ret, Error *reterr) {
        static const char *const names[_OUTPUT_FORMAT_MAX] = {
                [OUTPUT_TABLE] = "table",
                [OUTPUT_WIDE] = "wide",
                [OUTPUT_JSON] = "json",
                [OUTPUT_YAML] = "yaml",
        };

        for (OutputFormat format = 0; format < _OUTPUT_FORMAT_MAX; format++)
                if (strcmp(text, names[format]) == 0) {
                        *ret = format;
                        return 0;
                }

        return error_set(reterr, ERROR_INVALID, "-o: \"%s\" is none of table, wide, json and yaml",
                         text);
}

static int parse_policy(const char *text, bool *ret_always, Error *reterr) {
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
                return error_set(reterr, error.kind, "%s: %s", option, error_message(&error));

        return 0;
}

static int parse_timeout(const char *option, const char *text, int32_t *ret, Error *reterr) {
        int64_t seconds;
        int r;

        r = parse_duration(option, text, INT32_MAX, &seconds, reterr);
        if (r < 0)
                return r;

        *ret = (int32_t) seconds;
        return 0;
}

static int parse_attempts(const char *text, Options *options, Error *reterr) {
        char *end;
        long n = strtol(text, &end, 10);

        if (*text < '0' || *text > '9' || *end || n > INT32_MAX)
                return error_set(reterr, ERROR_INVALID,
                                 "--attempts: \"%s\" is no number of attempts, such as 3, or 0 for "
                                 "any",
                                 text);

        options->has_attempts = true;
        options->n_attempts = (int32_t) n;
        return 0;
}

/* Zero is a grace period, too. */
static int parse_grace(const char *text, Options *options, Error *reterr) {
        options->has_grace = true;
        options->grace_sec = 0;
        return strcmp(text, "0") == 0 || strcmp(text, "0s") == 0
                       ? 0
                       : parse_duration("--grace", text, GRACE_SEC_MAX, &options->grace_sec,
                                        reterr);
}

static const char *strip_scheme(const char *path) {
        return strncmp(path, UNIX_SCHEME, strlen(UNIX_SCHEME)) == 0 ? path + strlen(UNIX_SCHEME)
                                                                    : path;
}

static const char *get_socket_path(void) {
        const char *path = getenv("INPLACED_SOCKET");

        return path && path[0] ? strip_scheme(path) : SOCKET_PATH_DEFAULT;
}

static int parse_socket(const char *text, const char **ret, Error *reterr) {
        const char *path = strip_scheme(text);

        if (!path[0])
                return error_set(reterr, ERROR_INVALID, "--socket: the path is empty");

        *ret = path;
        return 0;
}

static int parse_one(int option, const char *argument, Options *options, Error *reterr) {
        switch (option) {
        case OPTION_SOCKET: return parse_socket(argument, &options->socket_path, reterr);
        case 'o': return parse_format(argument, &options->format, reterr);
        case 'h': options->wants_help = true; return 0;
        case OPTION_VERSION: options->wants_version = true; return 0;
        case OPTION_PULL_POLICY: return parse_policy(argument, &options->always_pull, reterr);
        case OPTION_COMPLETE: options->complete = true; return 0;
        case OPTION_PIN: options->pin = true; return 0;
        case OPTION_NO_WAIT: options->no_wait = true; return 0;
        case OPTION_TIMEOUT:
                return parse_timeout("--timeout", argument, &options->timeout_sec, reterr);
        case OPTION_ATTEMPT_TIMEOUT:
                return parse_timeout("--attempt-timeout", argument, &options->attempt_timeout_sec,
                                     reterr);
        case OPTION_ATTEMPTS: return parse_attempts(argument, options, reterr);
        case 'q': options->quiet = true; return 0;
        case OPTION_WAIT: options->wait = true; return 0;
        case OPTION_GRACE: return parse_grace(argument, options, reterr);
        case OPTION_REASON: options->reason = argument; return 0;
        case OPTION_FAILED: options->failed = true; return 0;
        case 'w': options->watch = true; return 0;
        case 'n': options->namespace = argument; return 0;
        }

        return error_set(reterr, ERROR_INTERNAL, "option %d has no meaning", option);
}

static int refuse_long(const char *text, Error *reterr) {
        const char *name = text + strspn(text, "-");
        Suggestion suggestion = suggest_for(name);

        /* The name that other programs and activeDeadlineSeconds use. */
        if (strncmp(name, "deadline", strlen("deadline")) == 0)
                suggestion.word = "timeout";
        for (const struct option *o = long_options; o->name; o++)
                suggest(&suggestion, o->name);

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
        if (optopt > 0 && optopt < OPTION_SOCKET && strncmp(text, "--", 2) != 0)
                return error_set(reterr, ERROR_INVALID, "unknown option \"-%c\"", optopt);
        if (optopt > 0)
                return error_set(reterr, ERROR_INVALID, "\"%s\": the option takes no argument",
                                 text);

        return refuse_long(text, reterr);
}

static const char *name_of(int option) {
        for (const struct option *o = long_options; o->name; o++)
                if (o->val == option)
                        return o->name;

        return NULL;
}

/* The command may still be unknown. */
static void note_owned(int option, Options *options) {
        for (size_t i = 0; i < sizeof(owned_options) / sizeof(owned_options[0]); i++)
                for (OptionGroup group = 0; group < _OPTION_GROUP_MAX; group++)
                        if (owned_options[i].option == option && !owned_options[i].is_in[group])
                                options->misplaced[group] = name_of(option);
}

int options_parse(int argc, char **argv, Options *ret, Error *reterr) {
        Options options = { .socket_path = get_socket_path() };
        char **words = argv + 1; /* the command and its arguments */
        int option, n_words = 0, r;

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

                r = parse_one(option, optarg, &options, reterr);
                if (r < 0)
                        return r;

                note_owned(option, &options);
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
