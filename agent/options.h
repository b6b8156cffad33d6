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
        MODE_AUTO, /* cluster if there is a kubeconfig or a pod's account */
        MODE_CLUSTER,
        MODE_STANDALONE,
        _MODE_MAX,
} AgentMode;

typedef struct Options {
        char *config_path; /* NULL: not set; the default file may be missing */
        AgentMode mode;
        char *kubeconfig;         /* NULL: the pod's account */
        char *kubeconfig_context; /* NULL: the current context */
        bool must_register;
        bool has_images_ready; /* write the condition of the Node */
        int images_ready_sec;  /* deadline of an image; 0: none */
        char *startup_taint;   /* key of the taint to remove; NULL or "": none */
        char *node_name;
        char *endpoints[OPTIONS_ENDPOINTS_MAX];
        size_t n_endpoints; /* 0: try the usual places */
        char *host_root;
        char *images_dir;
        char *auth_dir;
        char *provider_config; /* configuration of credential provider plugins; NULL: none */
        char *provider_bin_dir;
        char *state_dir;
        char *prepare_for_uid; /* UID to give state_dir to, and then exit; NULL: do not */
        char *socket;
        char *socket_group;    /* NULL: the default, if there is such a group */
        char *restart_group;   /* group that may restart containers; NULL: root alone */
        int listening_fd;      /* inherited socket, or -1 */
        char *metrics_address; /* "": do not listen */
        char *kubelet_address; /* address of the kubelet's health server; "": none */
        bool has_pod_condition;
        int max_parallel_pulls;
        int stall_timeout_sec; /* 0: never */
        int yield_sec;         /* longest pause of pulls for pods; 0: none */
        DiskFloor min_free_disk;
        DiskFloor max_pinned; /* the most that the agent pins; all zero: no limit */
        bool must_keep_images;
        int log_level;
        LogFormat log_format;
        char *ignored_flags; /* flags of kruise-daemon, "--v, --logtostderr"; NULL: none */
        bool wants_help;
        bool wants_version;
        bool wants_check;
        bool removes_pins; /* instead of running */
} Options;

/* Reads the flags, then the config file for all others. Reports each problem to the visitor, with
 * the flag or the file as subject, the line and the key in the message, and no advice. Then *ret has
 * the valid values, and defaults for the rest. */
int options_read(char **argv, Options *ret, const DiagnosisVisitor *visitor);
void options_done(Options *options);

/* The node belongs to a cluster. is_pod: the agent runs in a pod. */
bool options_is_cluster(const Options *options, bool is_pod);

/* The agent writes the condition of its Node. */
bool options_has_images_ready(const Options *options);

/* Lists the settings that differ and take effect only at the next start, separated by commas; "" if
 * there are none. The caller owns it. */
int options_compare(const Options *old, const Options *new, char **ret);

extern const char options_help[];
