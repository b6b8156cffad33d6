/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line
 *
 * Flags are kubectl's where kubectl has them, and are written as kubectl takes them: anywhere, and
 * "--flag=value" or "--flag value"; one that is true or false has its value only after "=". One table
 * says which there are, for the parser, the help and the completion. Texts are borrowed from argv.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/view/output.h"

typedef enum CommandId {
        COMMAND_STATUS,
        COMMAND_PRELOAD,
        COMMAND_IMAGES,
        COMMAND_PULLS,
        COMMAND_RESTART,
        COMMAND_SET_IMAGE,
        COMMAND_REFRESH,
        COMMAND_ROLLOUT,
        COMMAND_CONTROLLER,
        COMMAND_DOCTOR,
        COMMAND_VERSION,
        COMMAND_HELP,
        _FLEET_COMMAND_MAX,
} CommandId;

/* Bits of the commands that update one workload. */
#define UPDATE_COMMANDS (1u << COMMAND_SET_IMAGE | 1u << COMMAND_REFRESH | 1u << COMMAND_ROLLOUT)

#define FLAG_TEXTS_MAX 15

/* Texts are NULL, numbers 0, where nothing was given. */
typedef struct Flags {
        /* flags of all commands */
        const char *kubeconfig;
        const char *context;
        const char *namespace;
        const char *cluster, *user, *server, *token, *as;
        const char *as_groups[FLAG_TEXTS_MAX + 1]; /* ended by NULL */
        int64_t timeout_sec, request_timeout_sec;
        OutputFormat format;
        bool wants_names; /* -o name */
        bool wants_help, wants_version;

        bool all_namespaces;
        bool watch;
        bool undo;
        bool take_over; /* from another user */
        bool release;
        bool no_preload, require_preload;
        bool is_dry_run;       /* --dry-run=server */
        const char *partition; /* a number */
        const char *first;     /* a number of pods */
        int64_t grace_sec;
        const char *selector;
        const char *nodes;           /* separated by commas */
        const char *containers;      /* separated by commas */
        const char *max_unavailable; /* "2", "25%" */
        const char *labels[FLAG_TEXTS_MAX + 1],
                *annotations[FLAG_TEXTS_MAX + 1]; /* ended by NULL */
        bool request;
        const char *like; /* a workload */
        const char *parallelism, *max_failures;
        int64_t ttl_sec;
        bool withdraw;
        const char *set; /* name of an image set */
        bool sets;
        const char *policy; /* name of the policy that holds workloads */
        bool release_all;
        bool restart_on_config_change;
        int64_t config_delay_sec;
        const char *agent_namespace;

        char **arguments; /* with the words of the command */
        int n_arguments;

        uint64_t given; /* the flags of the table that were given, as bits */
} Flags;

typedef enum FlagType {
        FLAG_BOOL,
        FLAG_TEXT,
        FLAG_TEXTS,    /* may be given several times */
        FLAG_NUMBER,   /* a text, checked */
        FLAG_COUNT,    /* the same, more than none */
        FLAG_SHARE,    /* the same, "2" or "25%" */
        FLAG_PART,     /* the same, more than none */
        FLAG_DURATION, /* in seconds */
        FLAG_FORMAT,   /* wide, json, yaml, name */
        FLAG_DRY_RUN,  /* none, server, client */
} FlagType;

typedef struct FlagSpec {
        const char *name;
        char letter; /* 0: it has none */
        FlagType type;
        size_t offset;        /* offset of the flag's field in Flags */
        unsigned commands;    /* bits 1 << CommandId; FLAG_OF_ALL */
        const char *argument; /* "NAMESPACE", "a|b" where these are all there are; NULL: none */
        const char *help;
} FlagSpec;

#define FLAG_OF_ALL ((1u << _FLEET_COMMAND_MAX) - 1)

extern const FlagSpec flag_specs[];
extern const size_t n_flag_specs;

/* Moves the flags in argv to its front. */
int flags_parse(int argc, char **argv, Flags *ret, Error *reterr);

/* The flag of a word such as "-n" or "--namespace"; NULL: it is none, or, of the second, the next word is not its
 * value. */
const FlagSpec *flags_find(const char *word);
const FlagSpec *flags_find_awaiting(const char *word);

/* The flags by which another program gets the same connection to the API server, for its arguments. Borrowed; returns how
 * many there are. */
#define FLAGS_CONNECTION_MAX (2 * (7 + FLAG_TEXTS_MAX))
size_t flags_connection(const Flags *flags, const char *ret[static FLAGS_CONNECTION_MAX]);

/* Refused if a flag was given that the command does not have. */
int flags_check(const Flags *flags, CommandId command, Error *reterr);

/* Refuses flags that have no effect on OpenKruise's controller. */
int flags_check_kruise(const Flags *flags, Error *reterr);
