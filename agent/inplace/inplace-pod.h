/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of a pod and its containers, and the operations that are pending for them
 *
 * inplace.c holds all pods and reconciles each as a whole after every event: it restarts containers
 * (inplace-restart.c), inspects them (inplace-inspect.c) and writes annotation and conditions
 * (inplace-write.c). All of these use inplace-pod.c, and only inplace_pod_reconcile() of inplace.c,
 * which every callback calls last.
 */

#include "agent/base/log-once.h"
#include "agent/base/loop.h"
#include "agent/base/repeat.h"
#include "agent/base/time-units.h"
#include "agent/inplace/image-ids.h"
#include "agent/inplace/restart-plan.h"
#include "agent/kube/patch.h"
#include "agent/pod/context.h"
#include "agent/pod/runtime-pods.h"

typedef struct InPlace InPlace;
typedef struct InPlacePod InPlacePod;
typedef struct Inspection Inspection;

/* The newest container in the runtime; full_id NULL: unknown. Owned. Fields change only from
 * unknown to known. */
typedef struct InPlaceFact {
        char *id;
        char *full_id; /* "containerd://…" */
        char *image;   /* the pod's reference when the container was first seen */
        char *running_id;
        uint32_t restart_count;
        uint64_t kubelet_hash;
        uint32_t env_hash; /* 0: unknown */
        bool knows_env;
        bool was_running; /* the container ran at the time of the inspection */
} InPlaceFact;

/* The reason of a stop. The name of the stop's owner contains it, so that the next run of the agent
 * knows it. */
typedef struct InPlacePurpose {
        uint32_t hash;   /* hash that the pod asks for */
        unsigned number; /* number of the restart in a row for that hash; from 1 */
} InPlacePurpose;

typedef enum InPlaceRestartState {
        INPLACE_RESTART_NONE,
        INPLACE_RESTART_STOPPING, /* owns the stop; ends with its report */
        INPLACE_RESTART_STOPPED,  /* polls the runtime for a successor; ends when it has one */
        INPLACE_RESTART_REPLACED, /* ends when the successor has been inspected */
        _INPLACE_RESTART_STATE_MAX,
} InPlaceRestartState;

/* The check before a stop whether it is still requested. */
typedef enum InPlaceCheckState {
        INPLACE_CHECK_NONE,
        INPLACE_CHECK_READING, /* owns the read of the pod; ends with its reply */
        INPLACE_CHECK_PAUSING, /* the API server did not answer; ends with the pause */
        _INPLACE_CHECK_STATE_MAX,
} InPlaceCheckState;

typedef struct InPlaceCheck {
        InPlaceCheckState state;
        KubePatch read;
} InPlaceCheck;

typedef struct InPlaceRestart {
        InPlaceRestartState state;
        char *id; /* ID of the container that is or was stopped */
        InPlacePurpose purpose;
        bool has_changed; /* the pod has asked for another hash since */
        Stop *stop;
        bool is_ours;        /* the container ended because of the stop */
        uint64_t await_usec; /* end of polling for a successor */
} InPlaceRestart;

/* The restarts for the expected hash; reset when that changes. */
typedef struct InPlaceAttempts {
        unsigned n_restarts; /* number of restarts that changed nothing */
        bool has_failed;     /* a restart did not fix it, and is not repeated */
        unsigned n_failures; /* number of failed stops */
        uint64_t retry_usec; /* time of the next stop, at the earliest */
} InPlaceAttempts;

typedef struct InPlaceContainer {
        InPlacePod *pod;
        size_t index; /* index in the pod's containers */

        InPlaceFact fact;
        bool is_incomplete;    /* the last inspection left something unknown */
        char *inspected_id;    /* ID in the pod's status at the last inspection */
        char *asked_id;        /* ID in the pod's status at the pending inspection */
        char *asked_former_id; /* ID of the container before that in the same status, or NULL */
        char *asked_image;
        bool has_asked_env; /* the pending inspection includes the environment */
        char *reference;    /* reference that was resolved, with its ID on the node; or NULL */
        char *reference_id;

        uint32_t expected_hash;
        RestartPlan plan;
        InPlaceRestart restart;
        InPlaceCheck check; /* the stop's check */
        InPlaceAttempts attempts;
        char *ended_id;        /* ID of the container in the record of the last restart, or NULL */
        char *refused_version; /* version of the pod that did not ask for the stop, or NULL */
        uint64_t kubelet_usec; /* end of the wait for the kubelet; 0: no wait */
        RestartPlan reported;
        uint32_t reported_hash;
} InPlaceContainer;

typedef enum InPlaceInspectionState {
        INPLACE_INSPECTION_NONE,
        INPLACE_INSPECTION_QUEUED,    /* ends when there is room */
        INPLACE_INSPECTION_LISTING,   /* owns the inspection of containers and references */
        INPLACE_INSPECTION_RESOLVING, /* owns the inspection of references alone */
        _INPLACE_INSPECTION_STATE_MAX,
} InPlaceInspectionState;

typedef struct InPlaceInspection {
        InPlaceInspectionState state;
        Inspection *pending;
        uint64_t began_usec;
        bool must_refresh;     /* the references are to be resolved again */
        uint64_t refresh_usec; /* time at which they are resolved again in any case */
        Retry retry;           /* after a failed or a fruitless inspection */
        LogOnce logged;
} InPlaceInspection;

/* Times until which the kubelet may act on older states of the pod. */
typedef struct InPlaceKubelet {
        uint64_t busy_usec;   /* the kubelet may be handling the newest state until then, */
        uint64_t behind_usec; /* and one from before the metadata's last change until then */
        bool is_gate_last;    /* the newest of these states closed the gate */
} InPlaceKubelet;

/* The parts of a write to a pod. Each succeeds or fails alone: a server that refuses one may accept
 * the others. */
typedef enum InPlaceFieldKind {
        INPLACE_FIELD_ANNOTATION,
        INPLACE_FIELD_CONDITION,
        INPLACE_FIELD_GATE,
        _INPLACE_FIELD_MAX,
} InPlaceFieldKind;

typedef struct InPlaceField {
        Repeat repeat;
        bool is_refused;       /* the last write, for a reason that may concern other pods */
        unsigned n_refused;    /* number of refusals in a row when written alone */
        uint64_t refused_usec; /* time of the next write, at the earliest */
} InPlaceField;

/* The last write, as long as the watch shows an older pod. Owned. */
typedef struct InPlaceText {
        char *version;
        uint64_t digests[_INPLACE_FIELD_MAX]; /* digests of the content wanted */
        char *meta;
        char *status; /* status of the condition, or NULL */
        char *reason;
        char *message;
        const char *gate; /* reason to open the gate, or NULL */
} InPlaceText;

typedef enum InPlaceWriteState {
        INPLACE_WRITE_NONE,
        INPLACE_WRITE_QUEUED,  /* ends when there is room */
        INPLACE_WRITE_SENT,    /* owns the patch's call and its text; ends with the answer */
        INPLACE_WRITE_DROPPED, /* ends with the pod's next event */
        _INPLACE_WRITE_STATE_MAX,
} InPlaceWriteState;

struct InPlacePod {
        InPlace *inplace;
        const Pod *pod; /* newest state of the pod; borrowed */
        char *uid;
        InPlaceContainer *containers;
        size_t n_containers;
        Timer timer;
        uint64_t next_usec; /* time of the next reconciliation, at the latest */

        InPlaceInspection inspection;
        RuntimePodsCall *poll; /* lists the containers for successors */
        uint64_t poll_usec;
        InPlaceKubelet kubelet;

        InPlaceWriteState write_state;
        KubePatch write;
        InPlaceText writing; /* text of the write in state SENT */
        InPlaceText written;
        InPlaceField fields[_INPLACE_FIELD_MAX];
        bool is_split;      /* the server refused the fields together: write each alone */
        bool has_new_image; /* the pod's image changed while the agent ran, or in the runtime */
        uint64_t unwritten_usec; /* start of holding the annotation back; 0: it is not */
        uint64_t not_running_usec;
};

/* The state that all pods share. */
struct InPlace {
        const PodContext *context;
        bool has_condition;
        PodsWatcher watcher;
        InPlacePod **pods;
        size_t n_pods;
        size_t n_inspections, n_writes;
        bool knows_kubelet; /* the kubelet hashes name and image alone */
        Error error;
};

/* inplace.c */

/* Begins all operations that are due; the last statement of every callback. */
int inplace_pod_reconcile(InPlacePod *pod);

/* inplace-pod.c */
uint64_t inplace_now(const InPlace *inplace);

/* Goes on with the queued inspections and writes, since there is room again. */
int inplace_continue(InPlace *inplace);
void inplace_pod_wake_at(InPlacePod *pod, uint64_t usec);

int inplace_pod_new(InPlace *inplace, const Pod *pod, InPlacePod **ret);
InPlacePod *inplace_pod_free(InPlacePod *pod);
/* Sets the newest state of the pod. */
void inplace_pod_set(InPlacePod *pod, const Pod *state);

bool inplace_pod_is_over(const InPlacePod *pod);
/* The agent writes the condition InPlaceVerified. */
bool inplace_pod_wants_condition(const InPlacePod *pod);
/* The agent follows the environment of the pod's containers: a restart or the condition depends on it. */
bool inplace_pod_follows_env(const InPlacePod *pod);
/* The kubelet made the pod from a file of the node; the API server has a mirror of it. */
bool inplace_pod_is_static(const InPlacePod *pod);

/* Whether the kubelet starts the container again, whatever its exit status, and its environment is current then. */
bool inplace_container_may_restart(const InPlaceContainer *container);
bool inplace_pod_is_inspecting(const InPlacePod *pod);
/* The last write, while it is newer than the pod's state; else NULL. */
const InPlaceText *inplace_pod_written(const InPlacePod *pod);
void inplace_text_done(InPlaceText *text);

const PodContainer *inplace_container_state(const InPlaceContainer *container);
bool inplace_container_has_env(const InPlaceContainer *container);
/* The known container is the one in the pod's status. */
bool inplace_container_is_known(const InPlaceContainer *container);
/* The known container is newer than the one in the pod's status. */
bool inplace_container_is_ahead(const InPlaceContainer *container);
/* Returns whether the container was stopped and its successor is not inspected yet. */
bool inplace_container_is_stopped(const InPlaceContainer *container);
/* The kubelet will restart it, since its image has changed. */
bool inplace_container_restarted_by_kubelet(const InPlaceContainer *container);
Verdict inplace_container_verdict(const InPlaceContainer *container);

/* inplace-restart.c */
int inplace_pod_restart(InPlacePod *pod);
/* Polls the runtime for successors of stopped containers. */
int inplace_pod_poll(InPlacePod *pod);
/* Finds for a new container whether a previous run of the agent stopped the one before it. */
int inplace_container_restore_restart(InPlaceContainer *container);
/* Checks the result of a restart once the successor's environment is known. */
int inplace_container_check_result(InPlaceContainer *container);

/* inplace-inspect.c */
int inplace_pod_inspect(InPlacePod *pod);
/* Returns whether everything is known that the runtime can answer about the pod. */
bool inplace_pod_is_settled(const InPlacePod *pod);

/* inplace-write.c */
void inplace_pod_write_init(InPlacePod *pod);
int inplace_pod_write(InPlacePod *pod);
/* Forgets refused writes, since nothing is left to write to the pod. */
void inplace_pod_forget_refusal(InPlacePod *pod);
