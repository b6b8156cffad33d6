/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kubectl-inplace
 *
 * The table of commands, help, and the exit status.
 */

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/suggest.h"
#include "agent/base/time-units.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/complete.h"
#include "agent/kubectl/flags.h"
#include "agent/kubectl/session.h"
#include "agent/kubectl/workload.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"

typedef struct Command {
        const char *words; /* "status", or several: "set image" */
        CommandId id;
        int n_arguments_min;
        int n_arguments_max;
        int (*run)(Session *session,
                   const Flags *flags); /* NULL: main.c does it, without a server */
        const char *usage;
        const char *help; /* the first line is its summary */
        const char *examples;
} Command;

/* clang-format off */
static const Command commands[] = {
        { "status", COMMAND_STATUS, 0, INT_MAX, kubectl_status, "status [WORKLOAD|POD...]",
          "Shows what each pod should run, what it runs, and whether that was verified.\n"
          "A workload is KIND/NAME, such as deployment/web, sts/db, ds/logs, rs/web-5d9 or pod/web-0.\n",
          "status deployment/web\n"
          "status -l app=web -o wide\n"
          "status -A --watch\n" },
        { "set image", COMMAND_SET_IMAGE, 2, INT_MAX, kubectl_set_image,
          "set image WORKLOAD CONTAINER=IMAGE...",
          "Updates the images of a workload and of its pods, without replacing the pods.\n"
          "A workload is a deployment, replicaset, statefulset or daemonset, as in deployment/web, or a pod\n"
          "without one. The container name * stands for all containers. Repeat the command to continue an update\n"
          "that was interrupted. For OpenKruise's workloads (cloneset/web, asts/db, ads/logs) it writes the images\n"
          "into the template, and follows OpenKruise's own update.\n",
          "set image deployment/web app=registry.internal/app:2\n"
          "set image sts/db db=registry.internal/db:7 --partition 2\n"
          "set image deployment/web app=registry.internal/app:2 --dry-run=server -o yaml\n" },
        { "refresh", COMMAND_REFRESH, 1, 1, kubectl_refresh, "refresh WORKLOAD",
          "Resolves the tags of a workload again, and updates its pods in place if one has moved.\n"
          "The nodes of the pods pull the tags, and their agents report the digests. Pods that do not run them get\n"
          "NAME:TAG@DIGEST, as set image does it, and so does the template. The nodes pull in a dry run as well.\n",
          "refresh deployment/web\n"
          "refresh deployment/web --dry-run\n" },
        { "rollout", COMMAND_ROLLOUT, 1, 1, kubectl_rollout, "rollout WORKLOAD [--undo|--release]",
          "Continues an update in place, undoes it, or ends it where it is.\n"
          "Without such an update, it brings the pods to a template that the controller does not roll out: the\n"
          "template of a paused Deployment, a StatefulSet or DaemonSet with OnDelete, or a ReplicaSet.\n",
          "rollout deployment/web\n"
          "rollout deployment/web --undo\n" },
        { "preload", COMMAND_PRELOAD, 1, INT_MAX, kubectl_preload, "preload IMAGE...",
          "Pulls images onto nodes before they are needed, and waits until they are there.\n"
          "Targets all nodes with a NodeImage unless --nodes, --selector or --like is given. Stopping the command\n"
          "does not stop the pulls: --watch follows them again, --withdraw takes the request back. With --set, nodes\n"
          "that come later pull the images, too; repeat it to change the set's images or its selector.\n",
          "preload nginx:1.28 --like deployment/web\n"
          "preload nginx:1.28 -l pool=edge --parallelism 10%\n"
          "preload nginx:1.28 -l pool=edge --withdraw\n"
          "preload --set gpu -l pool=gpu registry.internal/train:3\n"
          "preload --sets\n" },
        { "images", COMMAND_IMAGES, 0, INT_MAX, kubectl_images, "images [IMAGE...]",
          "Shows which images are on which nodes, by the status of their NodeImages.\n"
          "An image without tag and digest means all its tags. Labels are those of the nodes.\n",
          "images\n"
          "images nginx:1.27 -l pool=edge\n" },
        { "pulls", COMMAND_PULLS, 0, INT_MAX, kubectl_pulls, "pulls [WORKLOAD|POD...]",
          "Shows the pulls for which pods wait: how far they are, their rate, and the time left.\n"
          "The agents of the pods' nodes are asked by kubectl exec; -A, --nodes or a selector, which is of nodes,\n"
          "show all pulls of the nodes. Only containerd shows what the kubelet pulls.\n",
          "pulls deployment/web --watch\n"
          "pulls --nodes worker-1 -o wide\n" },
        { "restart", COMMAND_RESTART, 0, INT_MAX, kubectl_restart, "restart POD[/CONTAINER]...|-l SELECTOR",
          "Restarts containers in place, and waits until their pods are ready again.\n"
          "KIND/NAME stands for all pods of a workload, KIND/NAME/CONTAINER for one container of\n"
          "each. Without --containers, all main containers of a pod are restarted. The kubelet restarts\n"
          "them because the command writes the same image under another name; it pulls nothing. Restarts\n"
          "in progress continue after Ctrl-C.\n",
          "restart web-0\n"
          "restart deployment/web/app --max-unavailable 25%\n"
          "restart web-0 --label tier=gold --annotation note-\n" },
        { "controller", COMMAND_CONTROLLER, 0, 0, kubectl_controller, "controller [--release-all]",
          "Carries out the updates in place that workloads declare, until it is ended.\n"
          "A Deployment, StatefulSet or DaemonSet with the annotation inplaced.io/update gets its images in place,\n"
          "by any client that changes its template. It runs in the cluster: see docs/GITOPS.md.\n",
          "controller -A --policy inplaced-hold\n"
          "controller -A --policy inplaced-hold --release-all\n" },
        { "doctor", COMMAND_DOCTOR, 0, 0, kubectl_doctor, "doctor",
          "Shows what the cluster lacks for the other commands, and what to do about it.\n"
          "The exit status is 3 if there is a problem.\n",
          "doctor -n shop\n" },
        { "version", COMMAND_VERSION, 0, 0, NULL, "version",
          "Shows the version of this program.\n",
          "version\n" },
        { "help", COMMAND_HELP, 0, 2, NULL, "help [COMMAND]",
          "Explains a command.\n",
          "help set image\n" },
};
/* clang-format on */

/* The controller runs them: they are in no help. */
static const Command own_commands[] = {
        { .words = "__carry-out",
          .id = COMMAND_ROLLOUT,
          .n_arguments_min = 1,
          .n_arguments_max = 1,
          .run = kubectl_carry_out },
        { .words = "__restart-pods",
          .id = COMMAND_RESTART,
          .n_arguments_min = 3,
          .n_arguments_max = INT_MAX,
          .run = kubectl_restart_pods },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))
#define N_OWN_COMMANDS (sizeof(own_commands) / sizeof(own_commands[0]))

static int count_words(const char *words) {
        int n = 1;

        for (; *words; words++)
                n += *words == ' ';
        return n;
}

/* Whether the arguments begin with the words of the command. */
static bool is_called(const Command *command, char **arguments, int n_arguments) {
        const char *rest = command->words;

        for (int i = 0; i < n_arguments; i++) {
                size_t size = strcspn(rest, " ");

                if (strlen(arguments[i]) != size || strncmp(arguments[i], rest, size) != 0)
                        return false;
                if (rest[size] == '\0')
                        return true;
                rest += size + 1;
        }

        return false;
}

/* The first one of several words that begins with all of these. */
static const Command *command_find_begun(char **arguments, int n_arguments) {
        for (size_t i = 0; i < N_COMMANDS; i++) {
                const char *rest = commands[i].words;
                int n = 0;

                for (; n < n_arguments; n++) {
                        size_t size = strlen(arguments[n]);

                        if (strncmp(arguments[n], rest, size) != 0 || rest[size] != ' ')
                                break;
                        rest += size + 1;
                }
                if (n == n_arguments)
                        return &commands[i];
        }

        return NULL;
}

static const Command *command_find(char **arguments, int n_arguments) {
        for (size_t i = 0; i < N_COMMANDS; i++)
                if (is_called(&commands[i], arguments, n_arguments))
                        return &commands[i];

        for (size_t i = 0; i < N_OWN_COMMANDS; i++)
                if (is_called(&own_commands[i], arguments, n_arguments))
                        return &own_commands[i];
        return NULL;
}

/* Prints the title before the first flag. */
static void print_flags(const char *title, CommandId command, bool is_general) {
        for (size_t i = 0; i < n_flag_specs; i++) {
                const FlagSpec *spec = &flag_specs[i];
                bool is_optional = spec->type == FLAG_DRY_RUN;
                char name[64];

                if (!(spec->commands & 1u << command) ||
                    (spec->commands == FLAG_OF_ALL) != is_general)
                        continue;

                (void) fputs(title, stdout);
                title = "";
                (void) snprintf(name, sizeof(name), "%s%c%s--%s%s%s%s", spec->letter ? "-" : "",
                                spec->letter ?: ' ', spec->letter ? ", " : "   ", spec->name,
                                is_optional      ? "[="
                                : spec->argument ? " "
                                                 : "",
                                spec->argument ?: "", is_optional ? "]" : "");
                printf("  %-34s %s\n", name, spec->help);
        }
}

static void print_end(void) {
        printf("\n"
               "Exit status: 0 done, 1 failed, 2 wrong usage, 3 partly done, 124 timed out,\n"
               "128 + N ended by signal N. See kubectl-inplace(1).\n");
}

static int print_overview(void) {
        printf("Usage: kubectl inplace COMMAND [ARGUMENT...] [FLAG...]\n"
               "\n"
               "Updates workloads in place, preloads images, and restarts and inspects pods of a cluster.\n"
               "\n"
               "Commands:\n");
        for (size_t i = 0; i < N_COMMANDS; i++)
                printf("  %-24s %.*s\n", commands[i].words, (int) strcspn(commands[i].help, "\n"),
                       commands[i].help);
        print_flags("\nFlags of all commands:\n", COMMAND_HELP, true);
        print_end();
        return EXIT_STATUS_DONE;
}

/* "set images" is compared with the commands of two words, "statsu deployment/web" with those of one. */
static const char *find_similar(char **arguments, int n_arguments) {
        char two_words[64];
        Suggestion of_one = suggest_for(arguments[0]), of_two = suggest_for(two_words);

        (void) snprintf(two_words, sizeof(two_words), "%s %s", arguments[0],
                        n_arguments > 1 ? arguments[1] : "");
        for (size_t i = 0; i < N_COMMANDS; i++)
                suggest(strchr(commands[i].words, ' ') ? &of_two : &of_one, commands[i].words);

        return of_two.word ?: of_one.word;
}

static int refuse_command(char **arguments, int n_arguments) {
        const Command *begun = command_find_begun(arguments, 1);
        const char *word = find_similar(arguments, n_arguments) ?: (begun ? begun->words : NULL);

        if (word)
                complain("unknown command \"%s%s%s\" (did you mean \"%s\"?); try: "
                         "kubectl inplace help %s",
                         arguments[0], begun && n_arguments > 1 ? " " : "",
                         begun && n_arguments > 1 ? arguments[1] : "", word, word);
        else
                complain("unknown command \"%s\"; try: kubectl inplace help", arguments[0]);
        return EXIT_STATUS_USAGE;
}

static void print_examples(const char *examples) {
        printf("\nExamples:\n");
        while (*examples) {
                int size = (int) strcspn(examples, "\n");

                printf("  kubectl inplace %.*s\n", size, examples);
                examples += size + 1;
        }
}

static int print_help_of(char **arguments, int n_arguments) {
        const Command *command =
                command_find(arguments, n_arguments) ?: command_find_begun(arguments, n_arguments);

        if (!command || !command->help)
                return refuse_command(arguments, n_arguments);

        printf("Usage: kubectl inplace %s [FLAG...]\n\n%s", command->usage, command->help);
        print_examples(command->examples);
        print_flags("\nFlags:\n", command->id, false);
        printf("\nAll commands have flags such as -n, -o, --context and --as: kubectl inplace help\n");
        print_end();
        return EXIT_STATUS_DONE;
}

static SessionOptions session_options_of(const Flags *flags) {
        return (SessionOptions){
                .kubeconfig = flags->kubeconfig,
                .context = flags->context,
                .namespace = flags->namespace,
                .overrides = { .cluster = flags->cluster,
                               .user = flags->user,
                               .server = flags->server,
                               .token = flags->token,
                               .as = flags->as,
                               .as_groups = flags->as_groups[0] ? flags->as_groups : NULL },
                .timeout_usec = (uint64_t) flags->timeout_sec * USEC_PER_SEC,
                .request_timeout_usec = (uint64_t) flags->request_timeout_sec * USEC_PER_SEC,
                .is_dry_run = flags->is_dry_run,
        };
}

static bool begins_with(const char *text, const char *start) {
        return strncmp(text, start, strlen(start)) == 0;
}

static void complete_flags(const Command *command, const char *current) {
        for (size_t i = 0; i < n_flag_specs; i++) {
                const FlagSpec *spec = &flag_specs[i];

                if (command ? spec->commands & 1u << command->id : spec->commands == FLAG_OF_ALL)
                        if (begins_with(spec->name, current + strspn(current, "-")))
                                printf("--%s\t%s\n", spec->name, spec->help);
        }
}

/* The word that follows those that are there; of "set image" it is "image" after "set". */
static void complete_commands(char **words, int n_words, const char *current) {
        const char *before = "";

        for (size_t i = 0; i < N_COMMANDS; i++) {
                const char *rest = commands[i].words;
                int n = 0;

                for (; n < n_words && begins_with(rest, words[n]) && rest[strlen(words[n])] == ' ';
                     n++)
                        rest += strlen(words[n]) + 1;
                if (n < n_words || !begins_with(rest, current) || strcmp(rest, before) == 0)
                        continue;

                before = rest;
                printf("%.*s\t%.*s\n", (int) strcspn(rest, " "), rest,
                       (int) strcspn(commands[i].help, "\n"), commands[i].help);
        }
}

/* "a|b|c"; false: its values are not known. */
static bool complete_values(const FlagSpec *spec, const char *current) {
        const char *rest = spec->argument;

        if (!strchr(rest, '|') || !islower((unsigned char) rest[0]))
                return false;

        for (; rest; rest = strchr(rest, '|') ? strchr(rest, '|') + 1 : NULL)
                if (begins_with(rest, current))
                        printf("%.*s\n", (int) strcspn(rest, "|"), rest);
        return true;
}

/* The flags of words which may be wrong, or not whole yet: then there are none. */
static Flags read_flags(char **words, int n_words) {
        Flags flags;

        return flags_parse(n_words, words, &flags, /* reterr= */ NULL) < 0
                       ? (Flags){ .format = OUTPUT_TABLE }
                       : flags;
}

static int complete_value(const FlagSpec *flag, CompleteRequest *request, const char **ret) {
        *ret = COMPLETE_NO_FILES;
        if (!flag->argument || complete_values(flag, request->current))
                return 0;
        if (strcmp(flag->argument, "FILE") == 0) {
                *ret = COMPLETE_FILES;
                return 0;
        }

        request->flag = flag;
        return complete_from_cluster(request, ret);
}

/* words[0] is the program, and the last one, which may be empty, is completed. */
static int complete(char **words, int n_words) {
        const char *directive = COMPLETE_NO_FILES, *current = words[n_words - 1];
        const char *equal = begins_with(current, "--") ? strchr(current, '=') : NULL;
        cleanup(free_p) char *assigned = strndup(current, equal ? (size_t) (equal - current) : 0);
        cleanup(free_p) char **before = calloc((size_t) n_words + 1, sizeof(*before));
        const FlagSpec *awaiting; /* the flag whose value the word is */
        const Command *command;
        CompleteRequest request;
        Flags flags;
        int n_before = n_words - 1, r = 0;

        if (!assigned || !before)
                return -ENOMEM;

        awaiting = equal ? flags_find(assigned) : flags_find_awaiting(words[n_before - 1]);
        memcpy(before, words, (size_t) n_before * sizeof(*before));
        flags = read_flags(before, awaiting && !equal ? n_before - 1 : n_before);
        command = command_find(flags.arguments, flags.n_arguments);
        request = (CompleteRequest){ .options = session_options_of(&flags),
                                     .current = equal ? equal + 1 : current };
        if (command) {
                request.command = command->id;
                request.arguments = flags.arguments + count_words(command->words);
                request.n_arguments = (size_t) (flags.n_arguments - count_words(command->words));
        }

        if (awaiting)
                r = complete_value(awaiting, &request, &directive);
        else if (current[0] == '-')
                complete_flags(command, current);
        else if (!command)
                complete_commands(flags.arguments, flags.n_arguments, current);
        else if (command->id == COMMAND_HELP)
                complete_commands(flags.arguments + 1, flags.n_arguments - 1, current);
        else
                r = complete_from_cluster(&request, &directive);
        puts(directive);
        return r < 0 ? r : EXIT_STATUS_DONE;
}

/* Commands whose first arguments are workloads. */
#define TAKES_WORKLOADS \
        (1u << COMMAND_STATUS | 1u << COMMAND_PULLS | 1u << COMMAND_RESTART | UPDATE_COMMANDS)

/* kubectl's users write "deployment web" as well, which becomes "deployment/web". The caller owns *ret, where
 * such arguments are. */
static int join_names(const Command *command, Flags *flags, char **ret) {
        char **arguments = flags->arguments, *end;
        size_t size = 0;
        int n = 1;

        if (!(TAKES_WORKLOADS & 1u << command->id) || flags->n_arguments < 2 ||
            !workload_is_kind(arguments[0]))
                return 0;

        for (; n < flags->n_arguments && !strchr(arguments[n], '='); n++)
                size += strlen(arguments[0]) + strlen("/") + strlen(arguments[n]) + 1;
        if (n == 1)
                return 0;
        *ret = end = malloc(size);
        if (!end)
                return -ENOMEM;

        for (int i = 1; i < n; i++) {
                int length = sprintf(end, "%s/%s", arguments[0], arguments[i]);

                arguments[i] = end;
                end += length + 1;
        }
        flags->arguments++;
        flags->n_arguments--;
        return 0;
}

/* An update is of one workload; status and pulls take the names of pods as well. */
static int check_workloads(const Command *command, const Flags *flags, Error *reterr) {
        WorkloadKind kind;
        const char *name;
        int r = 0;

        if (UPDATE_COMMANDS & 1u << command->id)
                return workload_name_parse(flags->arguments[0], &kind, &name, reterr);
        if (command->id != COMMAND_STATUS && command->id != COMMAND_PULLS)
                return 0;
        for (int i = 0; r >= 0 && i < flags->n_arguments; i++)
                if (strchr(flags->arguments[i], '/'))
                        r = workload_name_parse(flags->arguments[i], &kind, &name, reterr);
        return r;
}

static int check_usage(const Command *command, const Flags *flags) {
        cleanup(error_done) Error error = ERROR_INIT;

        if (flags->n_arguments < command->n_arguments_min && !flags->sets &&
            !(flags->set && flags->withdraw))
                complain(
                        "too few arguments, it is: kubectl inplace %s; try: kubectl inplace help %s",
                        command->usage, command->words);
        else if (flags->n_arguments > command->n_arguments_max)
                complain("superfluous argument \"%s\"; try: kubectl inplace help %s",
                         flags->arguments[command->n_arguments_max], command->words);
        else if (flags_check(flags, command->id, &error) < 0 ||
                 check_workloads(command, flags, &error) < 0)
                complain("%s; try: kubectl inplace help %s", error_message(&error), command->words);
        else
                return EXIT_STATUS_DONE;

        return EXIT_STATUS_USAGE;
}

/* A reader that goes away does not end them in the middle, which would leave a workload held without a word. */
#define OUTLIVES_READERS (1u << COMMAND_RESTART | UPDATE_COMMANDS)

static int run_with_server(const Command *command, const Flags *flags) {
        const SessionOptions options = session_options_of(flags);
        cleanup(session_free_p) Session *session = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (OUTLIVES_READERS & 1u << command->id)
                (void) signal(SIGPIPE, SIG_IGN);
        r = session_new(&options, &session, &error);
        if (error.kind != ERROR_NONE) {
                complain("%s", error_message(&error));
                return EXIT_STATUS_FAILED;
        }

        return r < 0 ? r : command->run(session, flags);
}

static int print_version(void) {
        printf("kubectl-inplace %s\n", INPLACED_VERSION);
        return EXIT_STATUS_DONE;
}

static int run_alone(const Command *command, const Flags *flags) {
        if (command->id == COMMAND_HELP)
                return flags->n_arguments > 0 ? print_help_of(flags->arguments, flags->n_arguments)
                                              : print_overview();

        return print_version();
}

static int run(Flags *flags) {
        cleanup(free_p) char *names = NULL;
        const Command *command;
        int r;

        if (flags->wants_version)
                return print_version();
        if (flags->n_arguments == 0)
                return print_overview();
        if (flags->wants_help)
                return print_help_of(flags->arguments, flags->n_arguments);

        command = command_find(flags->arguments, flags->n_arguments);
        if (!command)
                return refuse_command(flags->arguments, flags->n_arguments);

        flags->arguments += count_words(command->words);
        flags->n_arguments -= count_words(command->words);
        r = join_names(command, flags, &names);
        if (r < 0)
                return r;
        r = check_usage(command, flags);
        if (r != EXIT_STATUS_DONE)
                return r;

        return command->run ? run_with_server(command, flags) : run_alone(command, flags);
}

int main(int argc, char **argv) {
        cleanup(error_done) Error error = ERROR_INIT;
        Flags flags;

        (void) setlocale(LC_CTYPE, ""); /* which characters the terminal shows */

        if (argc > 2 && strcmp(argv[1], "__complete") == 0)
                return output_end(complete(argv + 1, argc - 1));
        if (flags_parse(argc, argv, &flags, &error) < 0) {
                complain("%s; try: kubectl inplace help", error_message(&error));
                return EXIT_STATUS_USAGE;
        }

        return output_end(run(&flags));
}
