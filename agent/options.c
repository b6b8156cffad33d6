/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/options.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/suggest.h"
#include "agent/base/text.h"
#include "agent/base/tcp-address.h"
#include "agent/config.h"
#include "agent/kruise-flags.h"

#define NODE_NAME_MAX 253
#define TAINT_KEY_MAX 317
#define SOCKET_PATH_MAX (sizeof(((struct sockaddr_un *) NULL)->sun_path) - 1)

const char options_help[] =
        "Usage: inplaced [OPTION]...\n"
        "Preloads container images on this node, restarts containers in place, and reports "
        "what the\n"
        "runtime really has.\n"
        "\n"
        "  --config FILE              YAML; default /etc/inplaced/config.yaml, if it exists\n"
        "  --mode MODE                auto, cluster or standalone; auto is cluster if there is a\n"
        "                             kubeconfig or a service account; default auto\n"
        "  --kubeconfig FILE          access to the API server; default $KUBECONFIG, else the "
        "pod's\n"
        "                             service account\n"
        "  --kubeconfig-context NAME  default: the current context of the kubeconfig\n"
        "  --register-node            create this node's NodeImage if no controller does\n"
        "  --images-ready             tell in a condition of the Node whether the images of its sets\n"
        "                             are there\n"
        "  --images-ready-deadline SECONDS\n"
        "                             do not wait longer for an image; default 600, 0 for ever\n"
        "  --startup-taint KEY        remove this taint from the Node when they are; implies\n"
        "                             --images-ready\n"
        "  --pod-condition=false      do not write the condition inplaced.io/InPlaceVerified\n"
        "  --kubelet-health-address HOST:PORT\n"
        "                             restart nothing while the kubelet does not answer there;\n"
        "                             default 127.0.0.1:10248; \"\" asks for its Lease alone\n"
        "  --node-name NAME           default $NODE_NAME, else the host name\n"
        "  --runtime-endpoint unix://PATH\n"
        "                             may be repeated; default: all usual sockets\n"
        "  --host-root DIR            where the node's root directory is mounted, in a container\n"
        "  --images-dir DIR           NodeImage documents; default /etc/inplaced/images.d\n"
        "  --auth-dir DIR             registry credentials; default /etc/inplaced/auth.d\n"
        "  --image-credential-provider-config FILE\n"
        "  --image-credential-provider-bin-dir DIR\n"
        "                             credential provider plugins, as the kubelet's\n"
        "  --state-dir DIR            for nodeimage.json; default /var/lib/inplaced\n"
        "  --prepare-state-dir UID    create that folder, make this user its owner, and exit\n"
        "  --socket PATH              local API; default /run/inplaced/inplaced.sock\n"
        "  --socket-group GROUP       group that may use it; default inplaced, if it exists\n"
        "  --restart-group GROUP      group of these users that may restart containers; "
        "default none\n"
        "  --metrics-address HOST:PORT\n"
        "                             default 127.0.0.1:10221; \"\" to listen nowhere\n"
        "  --max-parallel-pulls N     default 5\n"
        "  --stall-timeout SECONDS    give up a pull that receives no data for this time;\n"
        "                             default 60, 0 for never\n"
        "  --yield-to-pods SECONDS    pause pulls while the kubelet pulls a pod's image, at most so\n"
        "                             long; default 600, 0 for never\n"
        "  --min-free-disk SIZE|PERCENT%\n"
        "                             keep this much free where the runtime has its images;\n"
        "                             default 15%,5GB, the lesser of both; 0 for no floor\n"
        "  --max-pinned SIZE|PERCENT% pin no more images than this; default 20%\n"
        "  --keep-images              pull removed images of a controller's NodeImage again,\n"
        "                             as the agent always does with images of the folder\n"
        "  --log-level LEVEL          error, warning, notice, info or debug; default info\n"
        "  --log-format FORMAT        auto, journal, json or text; default auto\n"
        "  --remove-pins              take the agent's pins from all images, and exit\n"
        "  --check-config             check configuration, documents and credentials, and exit\n"
        "  --version, --help\n"
        "\n"
        "See inplaced(8) and inplaced.yaml(5).\n";

typedef int (*SetOption)(Options *options, size_t offset, const char *value, Error *reterr);

static void *member(Options *options, size_t offset) {
        return (char *) options + offset;
}

static int set_text(Options *options, size_t offset, const char *value, Error *reterr) {
        return text_set(member(options, offset), value);
}

static int refuse(Error *reterr, const char *value, const char *why) {
        char quoted[QUOTE_SIZE];

        return error_set(reterr, ERROR_INVALID, "%s %s", quote(value, quoted), why);
}

static int set_path(Options *options, size_t offset, const char *value, Error *reterr) {
        if (value[0] != '/')
                return refuse(reterr, value, "is not an absolute path");

        return set_text(options, offset, value, reterr);
}

/* Resolves a path from the working directory, as a shell user expects. */
static int set_file(Options *options, size_t offset, const char *value, Error *reterr) {
        cleanup(free_p) char *folder = NULL, *path = NULL;

        if (value[0] == '/' || !value[0])
                return set_path(options, offset, value, reterr);

        folder = getcwd(NULL, 0);
        if (!folder)
                return refuse(reterr, value,
                              "is relative to a folder that cannot be read: write the whole path");
        if (text_format(&path, "%s/%s", folder, value) < 0)
                return -ENOMEM;

        return set_text(options, offset, path, reterr);
}

static int read_number(const char *value, int min, int max, int *ret, Error *reterr) {
        char quoted[QUOTE_SIZE];
        char *end;
        long number;

        errno = 0;
        number = strtol(value, &end, 10);
        if (errno != 0 || end == value || *end || number < min || number > max)
                return error_set(reterr, ERROR_INVALID, "%s is not a number from %d to %d",
                                 quote(value, quoted), min, max);

        *ret = (int) number;
        return 0;
}

static int set_count(Options *options, size_t offset, const char *value, Error *reterr) {
        return read_number(value, 1, 1000, member(options, offset), reterr);
}

static int set_uid(Options *options, size_t offset, const char *value, Error *reterr) {
        int uid, r;

        r = read_number(value, 0, INT_MAX, &uid, reterr);
        return r < 0 ? r : set_text(options, offset, value, reterr);
}

static int set_seconds(Options *options, size_t offset, const char *value, Error *reterr) {
        return read_number(value, 0, 7 * 24 * 3600, member(options, offset), reterr);
}

static int set_floor(Options *options, size_t offset, const char *value, Error *reterr) {
        return disk_floor_parse(value, member(options, offset), reterr);
}

/* Empty: none. */
static int set_taint(Options *options, size_t offset, const char *value, Error *reterr) {
        if (strchr(value, '=') || strchr(value, ':'))
                return refuse(reterr, value, "is not the key alone, without a value and an effect");
        if (strcspn(value, " \t\n") < strlen(value) || strlen(value) > TAINT_KEY_MAX)
                return refuse(reterr, value, "is no key of a taint, such as example.com/starting");

        return set_text(options, offset, value, reterr);
}

static int set_level(Options *options, size_t offset, const char *value, Error *reterr) {
        return log_level_from_string(value, member(options, offset), reterr);
}

static int set_format(Options *options, size_t offset, const char *value, Error *reterr) {
        return log_format_from_string(value, member(options, offset), reterr);
}

static int set_socket(Options *options, size_t offset, const char *value, Error *reterr) {
        if (strlen(value) > SOCKET_PATH_MAX)
                return refuse(reterr, value,
                              "is longer than the 107 bytes of a socket's path: choose another");

        return set_path(options, offset, value, reterr);
}

/* As Kubernetes names Nodes and NodeImages. */
static int set_node_name(Options *options, size_t offset, const char *value, Error *reterr) {
        static const char edges[] = "abcdefghijklmnopqrstuvwxyz0123456789";
        static const char all[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
        size_t size = strlen(value);

        if (size == 0 || size > NODE_NAME_MAX || value[strspn(value, all)] ||
            !strchr(edges, value[0]) || !strchr(edges, value[size - 1]))
                return refuse(reterr, value,
                              "is no name of a Node: it has lower-case letters, digits, dots and "
                              "dashes, and begins and ends with a letter or digit");

        return set_text(options, offset, value, reterr);
}

/* Empty: none. */
static int set_address(Options *options, size_t offset, const char *value, Error *reterr) {
        TcpAddress address;

        if (value[0] && !tcp_address_parse(value, &address))
                return refuse(reterr, value,
                              "is not HOST:PORT with an IP address or localhost, such as "
                              "127.0.0.1:10221 or [::1]:10221");

        return set_text(options, offset, value, reterr);
}

static int add_endpoint(Options *options, size_t offset, const char *value, Error *reterr) {
        const char *path = strncmp(value, "unix://", 7) == 0 ? value + 7 : value;

        if (path[0] != '/')
                return refuse(reterr, value,
                              "is not the path of a socket; write it as "
                              "unix:///run/containerd/containerd.sock");
        if (strlen(path) > SOCKET_PATH_MAX)
                return refuse(reterr, value, "is longer than the 107 bytes of a socket's path");
        if (options->n_endpoints == OPTIONS_ENDPOINTS_MAX)
                return error_set(reterr, ERROR_INVALID, "more than %d endpoints",
                                 OPTIONS_ENDPOINTS_MAX);

        options->endpoints[options->n_endpoints] = strdup(path);
        return options->endpoints[options->n_endpoints++] ? 0 : -ENOMEM;
}

static int set_mode(Options *options, size_t offset, const char *value, Error *reterr) {
        static const char *const modes[_MODE_MAX] = { "auto", "cluster", "standalone" };

        for (AgentMode mode = 0; mode < _MODE_MAX; mode++)
                if (strcmp(modes[mode], value) == 0) {
                        options->mode = mode;
                        return 0;
                }

        return refuse(reterr, value, "is not auto, cluster or standalone");
}

static int set_switch(Options *options, size_t offset, const char *value, Error *reterr) {
        bool *is_on = member(options, offset);

        *is_on = strcmp(value, "true") == 0;
        return *is_on || strcmp(value, "false") == 0
                       ? 0
                       : refuse(reterr, value, "is not true or false");
}

/* clang-format off */
static const struct Setting {
        const char *flag;
        const char *key; /* in the config file; NULL: not there */
        SetOption set;
        size_t offset;
        bool is_live; /* a change takes effect at a reload */
        const char *value; /* the default, NULL: none */
} settings[] = {
        { "config",             NULL,                  set_file,     offsetof(Options, config_path),        true,  NULL },
        { "mode",               "mode",                set_mode,     offsetof(Options, mode),               false, "auto" },
        { "kubeconfig",         "kubeconfig",          set_path,     offsetof(Options, kubeconfig),         false, NULL },
        { "kubeconfig-context", "kubeconfigContext",   set_text,     offsetof(Options, kubeconfig_context), false, NULL },
        { "register-node",      "registerNode",        set_switch,   offsetof(Options, must_register),      false, "false" },
        { "images-ready",       "imagesReady",         set_switch,   offsetof(Options, has_images_ready),   false, "false" },
        { "images-ready-deadline", "imagesReadyDeadlineSeconds", set_seconds, offsetof(Options, images_ready_sec), false, "600" },
        { "startup-taint",      "startupTaint",        set_taint,    offsetof(Options, startup_taint),      false, NULL },
        { "pod-condition",      "podCondition",        set_switch,   offsetof(Options, has_pod_condition),  false, "true" },
        { "kubelet-health-address", "kubeletHealthAddress", set_address, offsetof(Options, kubelet_address), false, "127.0.0.1:10248" },
        { "node-name",          "nodeName",            set_node_name,  offsetof(Options, node_name),          false, NULL },
        { "runtime-endpoint",   "runtimeEndpoints",    add_endpoint, 0,                                     false, NULL },
        { "host-root",          "hostRoot",            set_path,     offsetof(Options, host_root),          false, NULL },
        { "images-dir",         "imagesDir",           set_path,     offsetof(Options, images_dir),         false, "/etc/inplaced/images.d" },
        { "auth-dir",           "authDir",             set_path,     offsetof(Options, auth_dir),           false, "/etc/inplaced/auth.d" },
        { "image-credential-provider-config", "imageCredentialProviderConfig", set_path, offsetof(Options, provider_config), false, NULL },
        { "image-credential-provider-bin-dir", "imageCredentialProviderBinDir", set_path, offsetof(Options, provider_bin_dir), false, NULL },
        { "state-dir",          "stateDir",            set_path,     offsetof(Options, state_dir),          false, "/var/lib/inplaced" },
        { "prepare-state-dir",  NULL,                  set_uid,      offsetof(Options, prepare_for_uid),    true,  NULL },
        { "socket",             "socket",              set_socket,   offsetof(Options, socket),             false, "/run/inplaced/inplaced.sock" },
        { "socket-group",       "socketGroup",         set_text,     offsetof(Options, socket_group),       false, NULL },
        { "restart-group",      "restartGroup",        set_text,     offsetof(Options, restart_group),      false, NULL },
        { "metrics-address",    "metricsAddress",      set_address,   offsetof(Options, metrics_address),    false, "127.0.0.1:10221" },
        { "max-parallel-pulls", "maxParallelPulls",    set_count,    offsetof(Options, max_parallel_pulls), true,  "5" },
        { "stall-timeout",      "stallTimeoutSeconds", set_seconds,  offsetof(Options, stall_timeout_sec),  true,  "60" },
        { "yield-to-pods",      "yieldToPodsSeconds",  set_seconds,  offsetof(Options, yield_sec),          true,  "600" },
        { "min-free-disk",      "minFreeDisk",         set_floor,    offsetof(Options, min_free_disk),      true,  "15%,5GB" },
        { "max-pinned",         "maxPinned",           set_floor,    offsetof(Options, max_pinned),         true,  "20%" },
        { "keep-images",        "keepImages",          set_switch,   offsetof(Options, must_keep_images),   true,  "false" },
        { "log-level",          "logLevel",            set_level,    offsetof(Options, log_level),          true,  "info" },
        { "log-format",         "logFormat",           set_format,   offsetof(Options, log_format),         true,  "auto" },
};
/* clang-format on */

#define N_SETTINGS (sizeof(settings) / sizeof(settings[0]))

static bool is_text(const struct Setting *setting) {
        static const SetOption setters[] = { set_text,   set_path,    set_file,      set_uid,
                                             set_socket, set_address, set_node_name, set_taint };

        for (size_t i = 0; i < sizeof(setters) / sizeof(setters[0]); i++)
                if (setting->set == setters[i])
                        return true;

        return false;
}

void options_done(Options *options) {
        for (size_t i = 0; i < N_SETTINGS; i++)
                if (is_text(&settings[i]))
                        free(*(char **) member(options, settings[i].offset));
        for (size_t i = 0; i < options->n_endpoints; i++)
                free(options->endpoints[i]);
        free(options->ignored_flags);
        *options = (Options){ .config_path = NULL };
}

/* The state of reading flags. */
typedef struct Reading {
        Options *options;
        const DiagnosisVisitor *visitor; /* NULL: silent; a second reading reports */
} Reading;

static int report(const Reading *reading, const char *subject, const char *message) {
        return reading->visitor ? reading->visitor->on_problem(subject, message, /* advice= */ "",
                                                               reading->visitor->userdata)
                                : 0;
}

/* dashed: the flag as it is called. */
static int apply_flag(const Reading *reading, const struct Setting *setting, const char *dashed,
                      const char *value) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = setting->set(reading->options, setting->offset, value, &error);
        return error.kind == ERROR_NONE ? r : report(reading, dashed, error_message(&error));
}

static const struct Setting *find_setting(const char *flag, size_t size) {
        for (size_t i = 0; i < N_SETTINGS; i++)
                if (strlen(settings[i].flag) == size && strncmp(settings[i].flag, flag, size) == 0)
                        return &settings[i];

        return NULL;
}

static int note_ignored(Options *options, const char *name) {
        char *longer;

        if (text_format(&longer, "%s%s--%s", options->ignored_flags ?: "",
                        options->ignored_flags ? ", " : "", name) < 0)
                return -ENOMEM;

        free(options->ignored_flags);
        options->ignored_flags = longer;
        return 0;
}

/* The same for a flag of kruise-daemon. */
static int read_kruise_flag(char **argv, int *i, const KruiseFlag *flag, const Reading *reading) {
        const char *text = argv[*i], *equals = strchr(text, '=');
        const char *value = equals ? equals + 1 : NULL;
        cleanup(free_p) char *ours = NULL, *dashed = NULL;
        int r;

        if (!value && !flag->is_switch && argv[*i + 1])
                value = argv[++*i];
        if (!value && !flag->is_switch)
                return report(reading, text, "needs a value");
        if (!flag->flag)
                return note_ignored(reading->options, flag->name);

        r = kruise_flag_translate(flag, value, &ours);
        if (r < 0 || !ours)
                return r;
        if (text_format(&dashed, "--%s", flag->name) < 0)
                return -ENOMEM;

        return apply_flag(reading, find_setting(flag->flag, strlen(flag->flag)), dashed, ours);
}

/* Suggests the flag or the key that was meant; NULL: none is similar. */
static const char *find_likely(const char *typed, bool is_flag) {
        Suggestion suggestion = suggest_for(typed);

        for (size_t i = 0; i < N_SETTINGS; i++) {
                const char *name = is_flag ? settings[i].flag : settings[i].key;
                const char *other = is_flag ? settings[i].key : settings[i].flag;

                if (name && other && strcmp(other, typed) == 0)
                        return name;
                if (name)
                        suggest(&suggestion, name);
        }

        return suggestion.word;
}

/* The next word may be its value. */
static int refuse_flag(char **argv, int *i, const Reading *reading) {
        const char *text = argv[*i], *equals = strchr(text, '=');
        cleanup(free_p) char *typed = strndup(text, strcspn(text, "="));
        cleanup(free_p) char *message = NULL;
        const char *likely;

        if (!typed)
                return -ENOMEM;

        likely = text[0] == '-' ? find_likely(typed + strspn(typed, "-"), true) : NULL;
        if (text_format(&message, "no such option%s%s%s", likely ? "; did you mean --" : "",
                        likely ?: "", likely ? "?" : ", see --help") < 0)
                return -ENOMEM;

        if (text[0] == '-' && !equals && argv[*i + 1] && argv[*i + 1][0] != '-')
                ++*i;
        return report(reading, quote(typed, (char[QUOTE_SIZE]){ 0 }), message);
}

/* "--name=VALUE" or "--name VALUE"; *i is moved to the last word of it. */
static int read_flag(char **argv, int *i, const Reading *reading) {
        const char *text = argv[*i], *value;
        size_t size = strcspn(text, "=");
        const struct Setting *setting =
                strncmp(text, "--", 2) == 0 ? find_setting(text + 2, size - 2) : NULL;
        cleanup(free_p) char *dashed = NULL;

        if (!setting)
                return refuse_flag(argv, i, reading);

        dashed = strndup(text, size);
        if (!dashed)
                return -ENOMEM;

        value = text[size] == '=' ? text + size + 1 : NULL;
        if (!value && setting->set == set_switch)
                value = "true";
        if (!value && argv[*i + 1])
                value = argv[++*i];

        return value ? apply_flag(reading, setting, dashed, value)
                     : report(reading, dashed, "needs a value");
}

/* Finds the switch of a flag that is no setting and has no value; NULL: another flag. */
static bool *find_action(Options *options, const char *text) {
        if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0)
                return &options->wants_help;
        if (strcmp(text, "--version") == 0)
                return &options->wants_version;

        if (strcmp(text, "--remove-pins") == 0)
                return &options->removes_pins;

        return strcmp(text, "--check-config") == 0 ? &options->wants_check : NULL;
}

static int read_flags(char **argv, const Reading *reading) {
        int r = 0;

        for (int i = 1; r >= 0 && argv[i]; i++) {
                const KruiseFlag *kruise = kruise_flag_find(argv[i]);
                bool *action = find_action(reading->options, argv[i]);

                if (action)
                        *action = true;
                else if (kruise)
                        r = read_kruise_flag(argv, &i, kruise, reading);
                else
                        r = read_flag(argv, &i, reading);
        }

        return r;
}

static const struct Setting *find_key(const char *key) {
        for (size_t i = 0; i < N_SETTINGS; i++)
                if (settings[i].key && strcmp(settings[i].key, key) == 0)
                        return &settings[i];

        return NULL;
}

static int on_config_value(const char *key, const char *value, void *userdata, Error *reterr) {
        const struct Setting *setting = find_key(key);
        cleanup(error_done) Error error = ERROR_INIT;
        const char *likely;
        int r;

        if (setting) {
                r = setting->set(userdata, setting->offset, value, &error);
                return error.kind == ERROR_NONE ? r
                                                : error_set(reterr, error.kind, "%s: %s", key,
                                                            error_message(&error));
        }

        likely = find_likely(key, false);
        return error_set(reterr, ERROR_INVALID, "%s: no such key%s%s%s",
                         quote(key, (char[QUOTE_SIZE]){ 0 }), likely ? "; did you mean " : "",
                         likely ?: "", likely ? "?" : "");
}

static bool takes_list(const char *key) {
        const struct Setting *setting = find_key(key);

        return setting && setting->set == add_endpoint;
}

static bool takes_text(const char *key) {
        const struct Setting *setting = find_key(key);

        return setting && is_text(setting);
}

/* Endpoints add up, but those of the flags replace those of the file. */
static void drop_endpoints(Options *options) {
        for (size_t i = 0; i < options->n_endpoints; i++)
                free(take_ptr(options->endpoints[i]));
        options->n_endpoints = 0;
}

/* Uses the machine's name in lower case, as the kubelet names Nodes. */
static int default_node_name(Options *options) {
        const char *name = getenv("NODE_NAME");
        char host[HOST_NAME_MAX + 1];

        if (options->node_name)
                return 0;
        if (!name || !name[0]) {
                if (gethostname(host, sizeof(host)) < 0)
                        return -errno;
                for (char *at = host; *at; at++)
                        if (*at >= 'A' && *at <= 'Z')
                                *at = (char) (*at - 'A' + 'a');
                name = host;
        }

        return text_copy(name, &options->node_name);
}

/* Reads KUBECONFIG as other clients do, kruise-daemon included. They merge several files, which the
 * agent refuses. */
static int default_kubeconfig(const Reading *reading) {
        static const char flag[] = "kubeconfig", subject[] = "$KUBECONFIG";
        const char *path = getenv("KUBECONFIG");

        if (reading->options->kubeconfig || reading->options->mode == MODE_STANDALONE || !path ||
            !path[0])
                return 0;
        if (strchr(path, ':'))
                return report(reading, subject,
                              "names several files: name one of them with --kubeconfig");

        return apply_flag(reading, find_setting(flag, strlen(flag)), subject, path);
}

/* The agent alone needs it, not what shows a text or prepares a node. */
static int check_kubeconfig(const Reading *reading) {
        const Options *options = reading->options;
        int r;

        if (options->wants_help || options->wants_version || options->removes_pins ||
            options->prepare_for_uid)
                return 0;

        r = default_kubeconfig(reading);
        if (r < 0 || !options->kubeconfig_context || options->kubeconfig)
                return r;

        return report(reading, "--kubeconfig-context", "needs --kubeconfig, too");
}

static int set_defaults(Options *options) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < N_SETTINGS; i++)
                if (settings[i].value)
                        r = settings[i].set(options, settings[i].offset, settings[i].value, NULL);
        return r;
}

bool options_has_images_ready(const Options *options) {
        return options->has_images_ready || (options->startup_taint && options->startup_taint[0]);
}

/* Where a controller makes the NodeImage, no image sets are served. */
static int check_images_ready(const Reading *reading) {
        return options_has_images_ready(reading->options) && !reading->options->must_register
                       ? report(reading,
                                reading->options->has_images_ready ? "--images-ready"
                                                                   : "--startup-taint",
                                "needs --register-node, too")
                       : 0;
}

int options_read(char **argv, Options *ret, const DiagnosisVisitor *visitor) {
        cleanup(options_done) Options flags = { .config_path = NULL };
        cleanup(options_done) Options options = { .config_path = NULL };
        const Reading reading = { .options = &options, .visitor = visitor };
        int r;

        r = read_flags(argv, &(Reading){ .options = &flags });
        if (r < 0)
                return r;

        r = set_defaults(&options);
        if (r < 0)
                return r;

        if (!flags.wants_help && !flags.wants_version) {
                r = config_read(flags.config_path,
                                &(ConfigKeys){ .takes_list = takes_list, .takes_text = takes_text },
                                on_config_value, &options, visitor);
                if (r < 0)
                        return r;
        }

        if (flags.n_endpoints > 0)
                drop_endpoints(&options);
        r = read_flags(argv, &reading);
        if (r < 0)
                return r;

        r = check_kubeconfig(&reading);
        if (r >= 0)
                r = check_images_ready(&reading);
        if (r >= 0)
                r = default_node_name(&options);
        if (r < 0)
                return r;

        *ret = options;
        options = (Options){ .config_path = NULL };
        return 0;
}

bool options_is_cluster(const Options *options, bool is_pod) {
        if (options->mode == MODE_AUTO)
                return options->kubeconfig || is_pod;

        return options->mode == MODE_CLUSTER;
}

static bool has_changed(const struct Setting *setting, const Options *old, const Options *new) {
        const char *a, *b;

        if (setting->set == add_endpoint) {
                if (old->n_endpoints != new->n_endpoints)
                        return true;
                for (size_t i = 0; i < old->n_endpoints; i++)
                        if (strcmp(old->endpoints[i], new->endpoints[i]) != 0)
                                return true;
                return false;
        }

        if (setting->set == set_mode)
                return old->mode != new->mode;
        if (setting->set == set_seconds)
                return *(const int *) ((const char *) old + setting->offset) !=
                       *(const int *) ((const char *) new + setting->offset);
        if (setting->set == set_switch)
                return *((const bool *) old + setting->offset) !=
                       *((const bool *) new + setting->offset);

        a = *(const char *const *) ((const char *) old + setting->offset);
        b = *(const char *const *) ((const char *) new + setting->offset);
        return strcmp(a ?: "", b ?: "") != 0;
}

int options_compare(const Options *old, const Options *new, char **ret) {
        cleanup(free_p) char *names = strdup("");

        for (size_t i = 0; names && i < N_SETTINGS; i++)
                if (!settings[i].is_live && has_changed(&settings[i], old, new) &&
                    text_list_add(&names, settings[i].flag) < 0)
                        return -ENOMEM;
        if (!names)
                return -ENOMEM;

        *ret = take_ptr(names);
        return 0;
}
