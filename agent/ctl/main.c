/* SPDX-License-Identifier: Apache-2.0 */

/*
 * inplacectl
 *
 * Options, the table of commands, and the exit status. Each command stands in a file of its own.
 */

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/doctor.h"
#include "agent/ctl/images.h"
#include "agent/ctl/options.h"
#include "agent/ctl/pull.h"
#include "agent/ctl/status.h"
#include "agent/ctl/version.h"

typedef struct Command {
        const char *name;
        int n_arguments_min;
        int n_arguments_max;
        int (*run)(const Options *options);
        const char *usage;
        const char *help;
} Command;

static int command_help(const Options *options);

/* clang-format off */
static const Command commands[] = {
        { "pull", 1, INT_MAX, command_pull, "pull IMAGE...",
          "Gets images onto this node and shows the progress. Ctrl-C withdraws the request.\n"
          "\n"
          "  --pull-policy Always|IfNotPresent   default IfNotPresent\n"
          "  --timeout DURATION                  of one attempt, such as 30s or 10m\n"
          "  --deadline DURATION                 of all attempts together\n"
          "  --no-wait                           leave the request with the agent\n"
          "  -q, --quiet                         print nothing but image IDs\n" },
        { "status", 0, 0, command_status, "status",
          "Shows what is wanted on this node and what became of it.\n" },
        { "images", 0, 0, command_images, "images",
          "Lists the images that the runtime holds, and who asked for them.\n" },
        { "doctor", 0, 0, command_doctor, "doctor",
          "Says what is wrong on this node and how to mend it. Works without the agent, too.\n" },
        { "version", 0, 0, command_version, "version",
          "Shows the versions of this program, the agent and the runtime.\n" },
        { "help", 0, 1, command_help, "help [COMMAND]",
          "Explains a command.\n" },
};
/* clang-format on */

static const Command *command_find(const char *name) {
        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
                if (strcmp(commands[i].name, name) == 0)
                        return &commands[i];

        return NULL;
}

static void print_options(void) {
        printf("\n"
               "Options:\n"
               "  --socket PATH                       default " SOCKET_PATH_DEFAULT "\n"
               "  -o, --output table|wide|json|yaml   default table\n"
               "  -h, --help\n"
               "  --version\n"
               "\n"
               "Exit status: 0 done, 1 failed, 2 wrong usage, 3 partly done. See inplacectl(1).\n");
}

static void print_overview(void) {
        printf("Usage: inplacectl [OPTION...] COMMAND [ARGUMENT...]\n"
               "\n"
               "Talks to inplaced, the agent that gets images onto this node.\n"
               "\n"
               "Commands:\n");
        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
                printf("  %-15s %.*s\n", commands[i].usage, (int) strcspn(commands[i].help, "\n"),
                       commands[i].help);
        print_options();
}

static int print_help_of(const char *name) {
        const Command *command = command_find(name);

        if (!command) {
                complain("unknown command '%s'; try: inplacectl help", name);
                return EXIT_STATUS_USAGE;
        }

        printf("Usage: inplacectl [OPTION...] %s\n\n%s", command->usage, command->help);
        print_options();
        return EXIT_STATUS_DONE;
}

static int command_help(const Options *options) {
        if (options->n_arguments > 0)
                return print_help_of(options->arguments[0]);

        print_overview();
        return EXIT_STATUS_DONE;
}

static int check_usage(const Command *command, const Options *options) {
        if (options->n_arguments < command->n_arguments_min)
                complain("too few arguments, it is: inplacectl %s; try: inplacectl help %s",
                         command->usage, command->name);
        else if (options->n_arguments > command->n_arguments_max)
                complain("superfluous argument '%s'; try: inplacectl help %s",
                         options->arguments[command->n_arguments_max], command->name);
        else if (options->pull_option && command->run != command_pull)
                complain("--%s is an option of pull only; try: inplacectl help pull",
                         options->pull_option);
        else
                return EXIT_STATUS_DONE;

        return EXIT_STATUS_USAGE;
}

static int run_command(const Options *options) {
        const Command *command;
        int r;

        if (options->wants_version) {
                printf("inplacectl %s\n", INPLACED_VERSION);
                return EXIT_STATUS_DONE;
        }
        if (options->wants_help && !options->command)
                return command_help(options);
        if (!options->command) {
                complain("no command was given; try: inplacectl help");
                return EXIT_STATUS_USAGE;
        }
        if (options->wants_help)
                return print_help_of(options->command);

        command = command_find(options->command);
        if (!command) {
                complain("unknown command '%s'; try: inplacectl help", options->command);
                return EXIT_STATUS_USAGE;
        }

        r = check_usage(command, options);
        return r != EXIT_STATUS_DONE ? r : command->run(options);
}

int main(int argc, char **argv) {
        cleanup(error_done) Error error = ERROR_INIT;
        Options options;
        int r;

        (void) setlocale(LC_CTYPE, ""); /* which characters the terminal shows */

        if (options_parse(argc, argv, &options, &error) < 0) {
                complain("%s; try: inplacectl help", error_message(&error));
                return EXIT_STATUS_USAGE;
        }

        r = run_command(&options);
        if (r < 0) {
                complain("%s", strerror(-r));
                r = EXIT_STATUS_FAILED;
        }

        if (fflush(stdout) != 0 || ferror(stdout)) {
                complain("cannot write the output: %s", strerror(errno));
                return EXIT_STATUS_FAILED;
        }

        return r;
}
