/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/view/output.h"

#define SOCKET_PATH_DEFAULT "/run/inplaced/inplaced.sock"

/* Commands that have options of their own. */
typedef enum OptionGroup {
        OPTION_GROUP_NONE, /* all other commands */
        OPTION_GROUP_PULL,
        OPTION_GROUP_PULLS,
        OPTION_GROUP_RESTART,
        OPTION_GROUP_RETRY,
        OPTION_GROUP_STATUS,
        OPTION_GROUP_VERIFY,
        OPTION_GROUP_WAIT,
        _OPTION_GROUP_MAX,
} OptionGroup;

typedef struct Options {
        const char *socket_path; /* all strings are borrowed from argv and the environment */
        OutputFormat format;
        bool wants_help;
        bool wants_version;
        const char *command; /* NULL if none was given */
        char **arguments;    /* arguments of the command */
        int n_arguments;

        /* A given option of that group that other commands do not have; NULL: none. */
        const char *misplaced[_OPTION_GROUP_MAX];

        /* for "pull" */
        bool always_pull;
        bool complete; /* also wait for the content of layers that are fetched on demand */
        bool pin;      /* keep the images from the kubelet's garbage collection */
        bool no_wait;
        bool quiet;
        int32_t attempt_timeout_sec; /* 0: the agent's default */
        bool has_attempts;
        int32_t n_attempts; /* at most, if has_attempts; 0: until the image is there */

        /* for "pull", "pulls", "restart" and "wait": time limit of the whole command; 0: none */
        int32_t timeout_sec;

        /* for "restart" */
        bool wait;
        bool has_grace;
        int64_t grace_sec;
        const char *reason; /* NULL if none was given */

        /* for "retry" and "status" */
        bool failed; /* only images that failed */

        /* for "pulls" and "status" */
        bool watch; /* follow the changes */

        /* for "restart" and "verify" */
        const char *namespace; /* NULL if none was given */
} Options;

static inline bool options_wants_table(const Options *options) {
        return !output_is_document(options->format);
}

/* Options may stand before and after the command. Moves the options in argv to its front. */
int options_parse(int argc, char **argv, Options *ret, Error *reterr);
