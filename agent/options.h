/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The configuration: flags win over the config file, which wins over the defaults
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/diagnosis-visitor.h"
#include "agent/base/log.h"
#include "agent/image/disk-spec.h"

#define OPTIONS_ENDPOINTS_MAX 16

typedef enum AgentMode {
        MODE_AUTO, /* cluster if there is a kubeconfig, or what a pod has */
        MODE_CLUSTER,
        MODE_STANDALONE,
        _MODE_MAX,
} AgentMode;

typedef struct Options {
        char *config_path; /* NULL: none was named, the default one may be missing */
        AgentMode mode;
        char *kubeconfig;         /* NULL: as a pod */
        char *kubeconfig_context; /* NULL: its current one */
        bool must_register;
        char *node_name;
        char *endpoints[OPTIONS_ENDPOINTS_MAX];
        size_t n_endpoints; /* 0: try the usual places */
        char *host_root;
        char *images_dir;
        char *auth_dir;
        char *provider_config; /* of credential provider plugins; NULL: none */
        char *provider_bin_dir;
        char *state_dir;
        char *prepare_for_uid; /* a number: give state_dir to that user, and exit; NULL: do not */
        char *socket;
        char *socket_group;    /* NULL: the default, if there is such a group */
        char *restart_group;   /* may restart containers through it; NULL: root alone */
        int listening_fd;      /* of the socket, when it was inherited; else -1 */
        char *metrics_address; /* "": do not listen */
        char *kubelet_address; /* where it serves its health; "": do not ask */
        bool has_pod_condition;
        int max_parallel_pulls;
        int stall_timeout_sec; /* 0: never */
        DiskFloor min_free_disk;
        bool must_keep_images;
        int log_level;
        LogFormat log_format;
        char *ignored_flags; /* of kruise-daemon, "--v, --logtostderr"; NULL: none were given */
        bool wants_help;
        bool wants_version;
        bool wants_check;
} Options;

/* Reads the flags, and the config file for what they leave open. Each thing that is wrong is reported to
 * on_problem: its subject is the flag or the file, its message names the line and the key. Then *ret has
 * what is right, and the defaults for the rest. */
int options_read(char **argv, Options *ret, const DiagnosisVisitor *visitor);
void options_done(Options *options);

/* This node belongs to a cluster. is_pod: the agent runs in a pod. */
bool options_is_cluster(const Options *options, bool is_pod);

/* The names of the settings that differ and take effect only at the next start, separated by commas;
 * "" if there are none. The caller owns it. */
int options_compare(const Options *old, const Options *new, char **ret);

extern const char options_help[];
