/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/flags.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/suggest.h"
#include "agent/base/text.h"
#include "agent/kubectl/workload.h"
#include "agent/view/format.h"

#define ARGUMENT 1       /* a word that is no flag, as getopt_long() returns it */
#define FLAG_VALUE 0x100 /* and the index in the table: what getopt_long() calls a flag */
#define FLAGS_MAX 64

#define OF(command) (1u << COMMAND_##command)
#define FIELD(name) offsetof(Flags, name)

/* clang-format off */
const FlagSpec flag_specs[] = {
        { "agent-namespace", 0, FLAG_TEXT, FIELD(agent_namespace), OF(PULLS), "NAMESPACE",
          "where the agents' pods are; default: found by their labels" },
        { "all-namespaces", 'A', FLAG_BOOL, FIELD(all_namespaces), OF(STATUS) | OF(PULLS) | OF(CONTROLLER), NULL,
          "all namespaces, instead of one" },
        { "annotation", 0, FLAG_TEXTS, FIELD(annotations), OF(RESTART), "KEY=VALUE|KEY-",
          "change this annotation of the pods as well; may be repeated" },
        { "config-delay", 0, FLAG_DURATION, FIELD(config_delay_sec), OF(CONTROLLER), "DURATION",
          "how long kubelets may not know changed configuration; default 10s" },
        { "containers", 0, FLAG_TEXT, FIELD(containers), OF(RESTART), "NAME,...",
          "restart only these containers of each pod" },
        { "dry-run", 0, FLAG_DRY_RUN, FIELD(is_dry_run), OF(RESTART) | OF(PRELOAD) | UPDATE_COMMANDS, "none|server|client",
          "let the API server check all writes and keep none" },
        { "first", 0, FLAG_COUNT, FIELD(first), OF(PRELOAD) | UPDATE_COMMANDS, "N",
          "update only this many pods for now; of a set: let N nodes pull first" },
        { "grace", 0, FLAG_DURATION, FIELD(grace_sec), UPDATE_COMMANDS, "SECONDS",
          "time between the end of a pod's readiness and its update" },
        { "label", 0, FLAG_TEXTS, FIELD(labels), OF(RESTART), "KEY=VALUE|KEY-",
          "change this label of the pods as well; may be repeated" },
        { "like", 0, FLAG_TEXT, FIELD(like), OF(PRELOAD), "WORKLOAD",
          "use the nodes and pull secrets of the pods of this workload" },
        { "max-failures", 0, FLAG_SHARE, FIELD(max_failures), OF(PRELOAD), "N|%",
          "begin on no further node after more failures; default: no limit" },
        { "max-unavailable", 0, FLAG_PART, FIELD(max_unavailable),
          OF(RESTART) | UPDATE_COMMANDS, "N|%",
          "how many pods at a time; default 1, or the workload's own" },
        { "nodes", 0, FLAG_TEXT, FIELD(nodes), OF(IMAGES) | OF(PULLS) | OF(PRELOAD), "NAME,...",
          "only these nodes" },
        { "parallelism", 0, FLAG_PART, FIELD(parallelism), OF(PRELOAD), "N|%",
          "pull on this many nodes at a time; default 10, of a set no limit" },
        { "no-preload", 0, FLAG_BOOL, FIELD(no_preload), OF(SET_IMAGE) | OF(ROLLOUT), NULL,
          "update without pulling the images first" },
        { "partition", 0, FLAG_NUMBER, FIELD(partition), OF(SET_IMAGE) | OF(REFRESH), "N",
          "leave the pods of a StatefulSet with lower ordinals as they are" },
        { "policy", 0, FLAG_TEXT, FIELD(policy), OF(CONTROLLER), "NAME",
          "name of the MutatingAdmissionPolicy to bind, which holds workloads" },
        { "release", 0, FLAG_BOOL, FIELD(release), OF(ROLLOUT), NULL,
          "end the update where it is, and hand the workload back to its controller" },
        { "request", 0, FLAG_BOOL, FIELD(request), OF(RESTART), NULL,
          "restart by ContainerRecreateRequests, which do not change the pods" },
        { "release-all", 0, FLAG_BOOL, FIELD(release_all), OF(CONTROLLER), NULL,
          "let all held workloads go, remove the binding, and end" },
        { "require-preload", 0, FLAG_BOOL, FIELD(require_preload), OF(SET_IMAGE) | OF(ROLLOUT), NULL,
          "update only if the images are pulled on all nodes" },
        { "restart-on-config-change", 0, FLAG_BOOL, FIELD(restart_on_config_change), OF(CONTROLLER), NULL,
          "restart containers whose ConfigMap or Secret has changed, where asked for" },
        { "selector", 'l', FLAG_TEXT, FIELD(selector), OF(STATUS) | OF(PRELOAD) | OF(IMAGES) | OF(PULLS) | OF(RESTART), "SELECTOR",
          "select by labels, such as app=web,tier!=test" },
        { "set", 0, FLAG_TEXT, FIELD(set), OF(PRELOAD), "NAME",
          "for all nodes of --selector, now and later, until --withdraw"},
        { "sets", 0, FLAG_BOOL, FIELD(sets), OF(PRELOAD), NULL,
          "list the image sets, and how many nodes have them"},
        { "take-over", 0, FLAG_BOOL, FIELD(take_over), UPDATE_COMMANDS, NULL,
          "continue an update that another user began" },
        { "ttl", 0, FLAG_DURATION, FIELD(ttl_sec), OF(PRELOAD), "DURATION",
          "keep the finished request for this time; default 1h" },
        { "undo", 0, FLAG_BOOL, FIELD(undo), OF(ROLLOUT), NULL,
          "go back to the images before the update" },
        { "watch", 'w', FLAG_BOOL, FIELD(watch), OF(STATUS) | OF(PULLS) | OF(PRELOAD), NULL,
          "show changes until Ctrl-C; preload: follow an earlier request" },
        { "withdraw", 0, FLAG_BOOL, FIELD(withdraw), OF(PRELOAD), NULL,
          "withdraw the request: its pulls end, images stay" },

        { "namespace", 'n', FLAG_TEXT, FIELD(namespace), FLAG_OF_ALL, "NAMESPACE",
          "default: the namespace of the context" },
        { "output", 'o', FLAG_FORMAT, FIELD(format), FLAG_OF_ALL, "wide|json|yaml|name",
          "default: a table" },
        { "timeout", 0, FLAG_DURATION, FIELD(timeout_sec), FLAG_OF_ALL, "DURATION",
          "limit of the whole command, such as 30s or 10m; default: none" },
        { "kubeconfig", 0, FLAG_TEXT, FIELD(kubeconfig), FLAG_OF_ALL, "FILE",
          "default: $KUBECONFIG, else ~/.kube/config" },
        { "context", 0, FLAG_TEXT, FIELD(context), FLAG_OF_ALL, "NAME",
          "context of the kubeconfig; default: its current one" },
        { "cluster", 0, FLAG_TEXT, FIELD(cluster), FLAG_OF_ALL, "NAME",
          "cluster of the kubeconfig, instead of the context's" },
        { "user", 0, FLAG_TEXT, FIELD(user), FLAG_OF_ALL, "NAME",
          "user of the kubeconfig, instead of the context's" },
        { "server", 's', FLAG_TEXT, FIELD(server), FLAG_OF_ALL, "ADDRESS",
          "address of the API server, instead of the cluster's" },
        { "token", 0, FLAG_TEXT, FIELD(token), FLAG_OF_ALL, "TOKEN",
          "bearer token, instead of the user's credentials" },
        { "as", 0, FLAG_TEXT, FIELD(as), FLAG_OF_ALL, "USER",
          "act as another user, such as system:serviceaccount:shop:ci" },
        { "as-group", 0, FLAG_TEXTS, FIELD(as_groups), FLAG_OF_ALL, "GROUP",
          "act as a member of this group; may be repeated" },
        { "request-timeout", 0, FLAG_DURATION, FIELD(request_timeout_sec), FLAG_OF_ALL, "DURATION",
          "limit of each request; default 30s" },
        { "help", 'h', FLAG_BOOL, FIELD(wants_help), FLAG_OF_ALL, NULL,
          "show this text" },
        { "version", 0, FLAG_BOOL, FIELD(wants_version), FLAG_OF_ALL, NULL,
          "show the version of this program" },
};
/* clang-format on */

const size_t n_flag_specs = sizeof(flag_specs) / sizeof(flag_specs[0]);

static_assert(sizeof(flag_specs) / sizeof(flag_specs[0]) <= FLAGS_MAX, "Flags.given has 64 bits");

static int refuse_value(const FlagSpec *spec, const char *text, Error *reterr) {
        return error_set(reterr, ERROR_INVALID, "--%s: \"%s\" is none of %s", spec->name, text,
                         spec->argument ?: "true|false");
}

/* The other flags have a value only after "=", as for kubectl. */
static bool needs_value(const FlagSpec *spec) {
        return spec->type != FLAG_BOOL && spec->type != FLAG_DRY_RUN;
}

static int parse_bool(const FlagSpec *spec, const char *text, bool *ret, Error *reterr) {
        if (text && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
                return refuse_value(spec, text, reterr);

        *ret = !text || strcmp(text, "true") == 0;
        return 0;
}

/* No message repeats the value, which may be a token. */
static int parse_text(const FlagSpec *spec, const char *text, const char **ret, Error *reterr) {
        if (!text[0])
                return error_set(reterr, ERROR_INVALID, "--%s: the value is empty", spec->name);
        if (!text_is_line(text))
                return error_set(reterr, ERROR_INVALID,
                                 "--%s: the value has a control character in it", spec->name);

        *ret = text;
        return 0;
}

static int parse_further_text(const FlagSpec *spec, const char *text, const char **texts,
                              Error *reterr) {
        size_t n = 0;

        while (texts[n])
                n++;
        if (n == FLAG_TEXTS_MAX)
                return error_set(reterr, ERROR_INVALID, "--%s: given more than %d times",
                                 spec->name, FLAG_TEXTS_MAX);

        return parse_text(spec, text, &texts[n], reterr);
}

static int parse_share(const FlagSpec *spec, const char *text, const char **ret, Error *reterr) {
        const char *expected = spec->type == FLAG_COUNT    ? "a number of at least 1"
                               : spec->type == FLAG_NUMBER ? "a number"
                                                           : NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int64_t share = 0;
        int r = share_parse(text, 100, SHARE_ROUNDED_UP, &share, &error);

        if (expected && (r < 0 || strchr(text, '%') || (spec->type == FLAG_COUNT && share == 0)))
                return error_set(reterr, ERROR_INVALID, "--%s: \"%s\": expected %s", spec->name,
                                 text, expected);
        if (r < 0)
                return error_set(reterr, error.kind, "--%s: %s", spec->name, error_message(&error));
        if (spec->type == FLAG_PART && share == 0)
                return error_set(reterr, ERROR_INVALID, "--%s: \"%s\": expected at least 1",
                                 spec->name, text);

        *ret = text;
        return 0;
}

static int parse_format(const FlagSpec *spec, const char *text, Flags *flags, Error *reterr) {
        flags->wants_names = strcmp(text, "name") == 0;
        if (strcmp(text, "wide") == 0)
                flags->format = OUTPUT_WIDE;
        else if (strcmp(text, "json") == 0)
                flags->format = OUTPUT_JSON;
        else if (strcmp(text, "yaml") == 0)
                flags->format = OUTPUT_YAML;
        else if (flags->wants_names)
                flags->format = OUTPUT_TABLE;
        else
                return refuse_value(spec, text, reterr);

        return 0;
}

static int parse_dry_run(const FlagSpec *spec, const char *text, bool *ret, Error *reterr) {
        if (text && strcmp(text, "server") != 0 && strcmp(text, "client") != 0 &&
            strcmp(text, "none") != 0)
                return refuse_value(spec, text, reterr);

        *ret = !text || strcmp(text, "none") != 0;
        return 0;
}

static int parse_duration(const FlagSpec *spec, const char *text, int64_t *ret, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;

        if (duration_parse(text, INT32_MAX, ret, &error) < 0)
                return error_set(reterr, error.kind, "--%s: %s", spec->name, error_message(&error));

        return 0;
}

static int parse_one(const FlagSpec *spec, const char *text, Flags *flags, Error *reterr) {
        void *field = (char *) flags + spec->offset;

        flags->given |= UINT64_C(1) << (spec - flag_specs);
        switch (spec->type) {
        case FLAG_BOOL: return parse_bool(spec, text, field, reterr);
        case FLAG_TEXT: return parse_text(spec, text, field, reterr);
        case FLAG_TEXTS: return parse_further_text(spec, text, field, reterr);
        case FLAG_NUMBER:
        case FLAG_COUNT:
        case FLAG_SHARE:
        case FLAG_PART: return parse_share(spec, text, field, reterr);
        case FLAG_DURATION: return parse_duration(spec, text, field, reterr);
        case FLAG_FORMAT: return parse_format(spec, text, flags, reterr);
        case FLAG_DRY_RUN: return parse_dry_run(spec, text, field, reterr);
        }

        return error_set(reterr, ERROR_INTERNAL, "--%s has no meaning", spec->name);
}

/* A letter may have its value after "=", too, which getopt_long() takes for a part of it. */
static const char *skip_equal(int value, const char *text, const char *word) {
        return value < FLAG_VALUE && text && text != word && *text == '=' ? text + 1 : text;
}

/* The tables that getopt_long() reads. */
typedef struct Tables {
        char letters[2 * FLAGS_MAX + 3];
        struct option options[FLAGS_MAX + 1];
} Tables;

static void tables_init(Tables *tables) {
        char *letter = tables->letters;

        *tables = (Tables){ .letters = "" };
        /* Arguments may stand before flags, also with POSIXLY_CORRECT in the environment. */
        *letter++ = '-';
        *letter++ = ':';
        for (size_t i = 0; i < n_flag_specs; i++) {
                const FlagSpec *spec = &flag_specs[i];

                tables->options[i] = (struct option){
                        .name = spec->name,
                        .has_arg = needs_value(spec) ? required_argument : optional_argument,
                        .val = FLAG_VALUE + (int) i,
                };
                if (!spec->letter)
                        continue;
                *letter++ = spec->letter;
                if (needs_value(spec))
                        *letter++ = ':';
        }
}

static const FlagSpec *spec_of(int value) {
        if (value >= FLAG_VALUE)
                return &flag_specs[value - FLAG_VALUE];

        for (size_t i = 0; i < n_flag_specs; i++)
                if (flag_specs[i].letter == value)
                        return &flag_specs[i];

        return NULL;
}

/* The message leaves out the value, which may be a token. */
static int refuse_long(const char *text, Error *reterr) {
        cleanup(free_p) char *name = strndup(text, strcspn(text, "="));
        Suggestion suggestion;

        if (!name)
                return -ENOMEM;

        suggestion = suggest_for(name + strspn(name, "-"));

        for (size_t i = 0; i < n_flag_specs; i++)
                suggest(&suggestion, flag_specs[i].name);

        return suggestion.word ? error_set(reterr, ERROR_INVALID,
                                           "unknown flag \"%s\" (did you mean --%s?)", name,
                                           suggestion.word)
                               : error_set(reterr, ERROR_INVALID, "unknown flag \"%s\"", name);
}

/* getopt_long() returns a letter that it refused, and only the position of a long flag. */
static int refuse(int value, char **argv, Error *reterr) {
        const char *text = argv[optind - 1];

        if (value == ':')
                return error_set(reterr, ERROR_INVALID, "%s needs a value", text);
        if (optopt > 0 && optopt < FLAG_VALUE && strncmp(text, "--", 2) != 0)
                return error_set(reterr, ERROR_INVALID, "unknown flag \"-%c\"", optopt);

        return refuse_long(text, reterr);
}

int flags_parse(int argc, char **argv, Flags *ret, Error *reterr) {
        Flags flags = { .format = OUTPUT_TABLE, .arguments = argv + 1 };
        Tables tables;
        int value, r;

        tables_init(&tables);
        optind = 0; /* read anew, also when something was read before */
        opterr = 0;
        while ((value = getopt_long(argc, argv, tables.letters, tables.options, NULL)) >= 0) {
                if (value == '?' || value == ':')
                        return refuse(value, argv, reterr);
                if (value == ARGUMENT) {
                        flags.arguments[flags.n_arguments++] = optarg;
                        continue;
                }

                r = parse_one(spec_of(value), skip_equal(value, optarg, argv[optind - 1]), &flags,
                              reterr);
                if (r < 0)
                        return r;
        }

        while (optind < argc) /* behind "--" */
                flags.arguments[flags.n_arguments++] = argv[optind++];
        flags.arguments[flags.n_arguments] = NULL;
        *ret = flags;
        return 0;
}

const FlagSpec *flags_find(const char *word) {
        for (size_t i = 0; i < n_flag_specs; i++) {
                const FlagSpec *spec = &flag_specs[i];
                bool is_long = strncmp(word, "--", 2) == 0 && strcmp(word + 2, spec->name) == 0;
                bool is_letter =
                        spec->letter && word[0] == '-' && word[1] == spec->letter && !word[2];

                if (is_long || is_letter)
                        return spec;
        }

        return NULL;
}

const FlagSpec *flags_find_awaiting(const char *word) {
        const FlagSpec *spec = flags_find(word);

        return spec && needs_value(spec) ? spec : NULL;
}

int flags_check(const Flags *flags, CommandId command, Error *reterr) {
        for (size_t i = 0; i < n_flag_specs; i++)
                if ((flags->given & UINT64_C(1) << i) && !(flag_specs[i].commands & 1u << command))
                        return error_set(reterr, ERROR_INVALID, "--%s is no flag of this command",
                                         flag_specs[i].name);

        return 0;
}

size_t flags_connection(const Flags *flags, const char *ret[static FLAGS_CONNECTION_MAX]) {
        const struct {
                const char *name, *text;
        } options[] = {
                { "--kubeconfig", flags->kubeconfig },
                { "--context", flags->context },
                { "--cluster", flags->cluster },
                { "--user", flags->user },
                { "--server", flags->server },
                { "--token", flags->token },
                { "--as", flags->as },
        };
        size_t n = 0;

        for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
                if (options[i].text) {
                        ret[n++] = options[i].name;
                        ret[n++] = options[i].text;
                }
        for (const char *const *group = flags->as_groups; *group; group++) {
                ret[n++] = "--as-group";
                ret[n++] = *group;
        }
        return n;
}

int flags_check_kruise(const Flags *flags, Error *reterr) {
        const char *flag = flags->partition         ? "--partition"
                           : flags->max_unavailable ? "--max-unavailable"
                           : flags->grace_sec > 0   ? "--grace"
                           : flags->first           ? "--first"
                                                    : NULL;

        if (flag)
                return error_set(reterr, ERROR_INVALID,
                                 "%s has no effect on OpenKruise's controller, which follows the "
                                 "workload's spec.updateStrategy: set it there",
                                 flag);
        if (flags->undo)
                return error_set(reterr, ERROR_INVALID,
                                 "there is no record of what its images were: set them with \"set "
                                 "image\" instead");
        if (flags->release)
                return error_set(reterr, ERROR_INVALID,
                                 "--release has no effect on OpenKruise's controller, which goes "
                                 "on by itself: set paused in spec.updateStrategy to stop it");
        return 0;
}
