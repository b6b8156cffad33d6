/* SPDX-License-Identifier: Apache-2.0 */

/*
 * inplacectl
 *
 * The table of commands, those that are short, and the exit status.
 */

#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/suggest.h"
#include "agent/ctl/ask.h"
#include "agent/ctl/commands.h"
#include "agent/ctl/options.h"
#include "agent/document/json-patch.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"
#include "proto/inplaced/v1/node.pb-c.h"

typedef struct Command {
        const char *name;
        int n_arguments_min;
        int n_arguments_max;
        int (*run)(const Options *options);
        OptionGroup options;
        const char *usage;
        const char *help;
} Command;

static int print_versions(const void *message, const Options *options) {
        const Inplaced__V1__GetVersionResponse *reply = message;
        int r;

        r = print_safe("inplacectl  %s", INPLACED_VERSION);
        if (r < 0 || !reply)
                return r;

        r = print_safe("inplaced    %s", reply->version);
        if (r < 0)
                return r;

        if (!reply->runtime_name[0])
                return print_safe("runtime     none is ready; try: inplacectl doctor");

        return print_safe("runtime     %s %s, API %s", reply->runtime_name, reply->runtime_version,
                          reply->runtime_api_version);
}

static int add_client_version(struct json_object *document, const Options *options) {
        return patch_add_text(document, "clientVersion", INPLACED_VERSION);
}

static int print_own_version(const Error *error, const Options *options);

static const Question version_question = {
        .method = { .path = "/inplaced.v1.Node/GetVersion",
                    .reply = &inplaced__v1__get_version_response__descriptor },
        .print = print_versions,
        .add_first = add_client_version,
        .refuse = print_own_version,
};

/* Without the agent inplacectl still knows its own version. */
static int print_own_version(const Error *error, const Options *options) {
        int r;

        r = reply_print(&version_question, NULL, options);
        if (r < 0)
                return r;

        complain("%s", error_message(error));
        return EXIT_STATUS_FAILED;
}

static int command_version(const Options *options) {
        Inplaced__V1__GetVersionRequest request = INPLACED__V1__GET_VERSION_REQUEST__INIT;

        return node_ask(&version_question, options, &request.base);
}

static int command_help(const Options *options);

/* clang-format off */
static const Command commands[] = {
        { "pull", 1, INT_MAX, command_pull, OPTION_GROUP_PULL, "pull IMAGE...",
          "Pulls images onto this node and shows the progress. Ctrl-C withdraws the request.\n"
          "The agent tries until the image is present, or until the registry has refused it five\n"
          "times: not found, not allowed, no such host. The options set other limits.\n"
          "\n"
          "  --pull-policy Always|IfNotPresent   default IfNotPresent\n"
          "  --complete                          wait for layers that are fetched on demand\n"
          "  --pin                               keep them from the kubelet's garbage collection\n"
          "  --timeout DURATION                  limit of all attempts together, such as 30s or 10m\n"
          "  --attempts NUMBER                   limit of the attempts; 0 for no limit\n"
          "  --attempt-timeout DURATION          limit of one attempt, default 10m\n"
          "  --no-wait                           leave the request with the agent and end\n"
          "  -q, --quiet                         print nothing but image IDs\n" },
        { "pulls", 0, 0, command_pulls, OPTION_GROUP_PULLS, "pulls",
          "Shows the pulls that run on this node, also those of the kubelet, and who waits for them.\n"
          "\n"
          "  -w, --watch                         continue, and show changes\n"
          "  --timeout DURATION                  end after this time, such as 30s or 10m\n" },
        { "pin", 1, INT_MAX, command_pin, OPTION_GROUP_NONE, "pin IMAGE...",
          "Keeps images on this node until unpin: pulls those that are missing, and has the\n"
          "kubelet's garbage collection skip them. The same as pull --pin.\n" },
        { "unpin", 1, INT_MAX, command_unpin, OPTION_GROUP_NONE, "unpin IMAGE...",
          "Takes back your pins. The images stay until the kubelet removes them.\n"
          "A pin of the images folder or of the cluster is withdrawn there.\n" },
        { "cancel", 1, 1, command_cancel, OPTION_GROUP_NONE, "cancel REQUEST|IMAGE",
          "Withdraws a request, or your requests for an image, unless they are finished.\n"
          "To withdraw a request of the images folder or of the cluster, change it there.\n" },
        { "retry", 0, INT_MAX, command_retry, OPTION_GROUP_RETRY, "retry IMAGE...|--failed",
          "Tries failed images again at once, also images that wait for their next attempt.\n"
          "A failed tag of a NodeImage needs a new version instead.\n"
          "\n"
          "  --failed                            all images that failed\n" },
        { "restart", 1, 1, command_restart, OPTION_GROUP_RESTART, "restart POD[/CONTAINER]",
          "Stops containers of a pod, gracefully, so that the kubelet starts them again.\n"
          "Ctrl-C cancels the restarts that have not begun.\n"
          "\n"
          "  -n, --namespace NAMESPACE           namespace of the pod, where several have such a pod\n"
          "  --wait                              wait until they run again, not only until they end\n"
          "  --grace DURATION                    grace period, instead of the pod's own\n"
          "  --reason TEXT                       text for the event and the log\n"
          "  --timeout DURATION                  limit of the wait; restarts in progress continue\n" },
        { "verify", 0, 1, command_verify, OPTION_GROUP_VERIFY, "verify [POD]",
          "Compares the image that each container runs with the requested one.\n"
          "The exit status is 3 if any image or environment is stale. An unknown state\n"
          "is reported on standard error, and does not count as stale.\n"
          "\n"
          "  -n, --namespace NAMESPACE           only pods of this namespace\n" },
        { "probes", 0, 1, command_probes, OPTION_GROUP_VERIFY, "probes [POD]",
          "Lists the probes that OpenKruise asks this node for, and their results.\n"
          "\n"
          "  -n, --namespace NAMESPACE           only pods of this namespace\n" },
        { "status", 0, INT_MAX, command_status, OPTION_GROUP_STATUS, "status [IMAGE...]",
          "Shows the desired images of this node, or only the named ones, and their status.\n"
          "\n"
          "  --failed                            only images that failed\n"
          "  -w, --watch                         continue, and show changes\n" },
        { "wait", 1, INT_MAX, command_wait, OPTION_GROUP_WAIT, "wait IMAGE...",
          "Waits until desired images are present.\n"
          "The exit status is 0 if all are, 1 if all failed, 3 if some did, and 124 after the\n"
          "timeout.\n"
          "\n"
          "  --timeout DURATION                  limit of the wait, such as 30s or 10m\n" },
        { "images", 0, 0, command_images, OPTION_GROUP_NONE, "images",
          "Lists the images that the runtime holds, and who requests them.\n" },
        { "doctor", 0, 0, command_doctor, OPTION_GROUP_NONE, "doctor",
          "Shows the problems of this node and how to fix them. Works without the agent, too.\n" },
        { "version", 0, 0, command_version, OPTION_GROUP_NONE, "version",
          "Shows the versions of this program, the agent and the runtime.\n" },
        { "help", 0, 1, command_help, OPTION_GROUP_NONE, "help [COMMAND]",
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
               "  --socket PATH                       default $INPLACED_SOCKET, else\n"
               "                                      " SOCKET_PATH_DEFAULT "\n"
               "  -o, --output table|wide|json|yaml   default table\n"
               "  -h, --help\n"
               "  --version\n"
               "\n"
               "Exit status: 0 done, 1 failed, 2 wrong usage, 3 partly done,\n"
               "124 timed out, 128 + N ended by signal N. See inplacectl(1).\n"
               "A DURATION is a number of seconds, or such as 30s, 10m or 1h30m.\n");
}

static void print_overview(void) {
        printf("Usage: inplacectl [OPTION...] COMMAND [ARGUMENT...]\n"
               "\n"
               "Talks to inplaced, which pulls images onto this node and restarts containers in place.\n"
               "\n"
               "Commands:\n");
        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
                printf("  %-24s %.*s\n", commands[i].usage, (int) strcspn(commands[i].help, "\n"),
                       commands[i].help);
        print_options();
}

static int refuse_command(const char *name) {
        Suggestion suggestion = suggest_for(name);

        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
                suggest(&suggestion, commands[i].name);

        if (suggestion.word)
                complain("unknown command \"%s\" (did you mean \"%s\"?); try: inplacectl help",
                         name, suggestion.word);
        else
                complain("unknown command \"%s\"; try: inplacectl help", name);
        return EXIT_STATUS_USAGE;
}

static int print_help_of(const char *name) {
        const Command *command = command_find(name);

        if (!command)
                return refuse_command(name);

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
                complain("superfluous argument \"%s\"; try: inplacectl help %s",
                         options->arguments[command->n_arguments_max], command->name);
        else if (options->misplaced[command->options])
                complain("--%s is no option of %s; try: inplacectl help %s",
                         options->misplaced[command->options], command->name, command->name);
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
        if (!command)
                return refuse_command(options->command);

        r = check_usage(command, options);
        return r != EXIT_STATUS_DONE ? r : command->run(options);
}

int main(int argc, char **argv) {
        cleanup(error_done) Error error = ERROR_INIT;
        Options options;

        (void) setlocale(LC_CTYPE, ""); /* which characters the terminal shows */

        if (options_parse(argc, argv, &options, &error) < 0) {
                complain("%s; try: inplacectl help", error_message(&error));
                return EXIT_STATUS_USAGE;
        }

        return output_end(run_command(&options));
}
