/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is known of a pod and its containers, and what is under way for them
 *
 * inplace.c holds all pods and reconciles each as a whole, whatever happens: it restarts containers
 * (inplace-restart.c), inspects them (inplace-inspect.c) and writes what is known of them
 * (inplace-write.c). All of these stand on inplace-pod.c, and call of inplace.c nothing but
 * inplace_pod_reconcile(), with which every callback ends.
 */

#include "agent/base/loop.h"
#include "agent/base/repeat.h"
#include "agent/inplace/image-ids.h"
#include "agent/inplace/restart-plan.h"
#include "agent/kube/patch.h"
#include "agent/pod/context.h"
#include "agent/pod/runtime-pods.h"

#define USEC_PER_SEC ((uint64_t) 1000000)

typedef struct InPlace InPlace;
typedef struct InPlacePod InPlacePod;
typedef struct Inspection Inspection;

/* The newest container of the runtime; full_id NULL: none is known. Owned. Never changes but for
 * what was not known. */
typedef struct InPlaceFact {
        char *id;
        char *full_id; /* "containerd://…" */
        char *image;   /* the reference that the pod asked for when it was first seen */
        char *running_id;
        uint32_t restart_count;
        uint64_t kubelet_hash;
        uint32_t env_hash; /* 0: unknown */
        bool knows_env;
        bool was_running; /* when the runtime was asked */
} InPlaceFact;

/* What a container is stopped for. The name of the stop's owner contains it, and so it is known in
 * the next run of the agent. */
typedef struct InPlacePurpose {
        uint32_t hash;        /* that is expected */
        uint32_t before_hash; /* that it had; 0: unknown */
        unsigned number;      /* of the restarts in a row for that hash; from 1 */
} InPlacePurpose;

typedef enum InPlaceRestartState {
        INPLACE_RESTART_NONE,
        INPLACE_RESTART_STOPPING, /* owns the stop, and ends with its report */
        INPLACE_RESTART_STOPPED,  /* the runtime is asked for a successor; ends when it has one */
        INPLACE_RESTART_REPLACED, /* ends when that one has been inspected */
        _INPLACE_RESTART_STATE_MAX,
} InPlaceRestartState;

/* Whether the stop is still requested, which it asks before it begins. */
typedef enum InPlaceCheckState {
        INPLACE_CHECK_NONE,
        INPLACE_CHECK_READING, /* owns the read of the pod, and ends with its reply */
        INPLACE_CHECK_PAUSING, /* the API server did not answer; ends when it may be asked again */
        _INPLACE_CHECK_STATE_MAX,
} InPlaceCheckState;

typedef struct InPlaceCheck {
        InPlaceCheckState state;
        KubePatch read;
} InPlaceCheck;

typedef struct InPlaceRestart {
        InPlaceRestartState state;
        char *id; /* of the container that is or was stopped */
        InPlacePurpose purpose;
        bool has_changed; /* another hash has been expected since */
        Stop *stop;
        bool is_ours;        /* the container ended because of the stop */
        uint64_t await_usec; /* the runtime is asked for a successor until then */
} InPlaceRestart;

/* The restarts for the expected hash; all begins anew with another one. */
typedef struct InPlaceAttempts {
        unsigned n_restarts; /* after which the container had the environment of before */
        bool has_failed;     /* one did not heal it */
        unsigned n_failures; /* of stops */
        uint64_t retry_usec; /* no stop before */
} InPlaceAttempts;

typedef struct InPlaceContainer {
        InPlacePod *pod;
        size_t index; /* in the pod */

        InPlaceFact fact;
        bool is_incomplete; /* the last inspection has left something open */
        char *inspected_id; /* what the pod's status named when it was inspected */
        char *asked_id;     /* the same, of the inspection that goes on */
        char *asked_image;
        bool has_asked_env; /* that inspection is for the environment, too */
        char *reference;    /* that was resolved, and what it is on the node; or NULL */
        char *reference_id;

        uint32_t expected_hash;
        RestartPlan plan;
        InPlaceRestart restart;
        InPlaceCheck check; /* of the stop */
        InPlaceAttempts attempts;
        char *refused_version; /* of the pod that did not ask for a stop, or NULL */
        uint64_t kubelet_usec; /* the kubelet may take until then; 0: it is not waited for */
        RestartPlan reported;
        uint32_t reported_hash;
} InPlaceContainer;

typedef enum InPlaceInspectionState {
        INPLACE_INSPECTION_NONE,
        INPLACE_INSPECTION_QUEUED,  /* ends when there is room */
        INPLACE_INSPECTION_LISTING, /* owns the inspection, of containers and references; ends with
                                         its answer */
        INPLACE_INSPECTION_RESOLVING, /* the same, of references alone */
        _INPLACE_INSPECTION_STATE_MAX,
} InPlaceInspectionState;

typedef struct InPlaceInspection {
        InPlaceInspectionState state;
        Inspection *pending;
        uint64_t began_usec;
        bool must_refresh;     /* the references are to be resolved again, */
        uint64_t refresh_usec; /* and then in any case */
        unsigned n_failures;   /* in a row, or inspections that brought nothing */
        uint64_t retry_usec;   /* 0: nothing failed */
        bool is_failure_logged;
} InPlaceInspection;

/* Which state of the pod the kubelet may act on. */
typedef struct InPlaceKubelet {
        uint64_t busy_usec;   /* it may have the newest state in hand until then, */
        uint64_t behind_usec; /* and one from before the last change of the metadata until then */
        bool is_gate_last; /* the newest state it may have in hand is that of the gate being shut */
} InPlaceKubelet;

/* What is written to a pod. Each has a fate of its own: who refuses one of them may accept the
 * others. */
typedef enum InPlaceFieldKind {
        INPLACE_FIELD_ANNOTATION,
        INPLACE_FIELD_CONDITION,
        INPLACE_FIELD_GATE,
        _INPLACE_FIELD_MAX,
} InPlaceFieldKind;

typedef struct InPlaceField {
        Repeat repeat;
        bool is_refused;       /* the last time, for what may concern other pods as well */
        unsigned n_refused;    /* in a row, alone */
        uint64_t refused_usec; /* not before */
} InPlaceField;

/* What was written last, as long as the watch shows an older pod. Owned. */
typedef struct InPlaceText {
        char *version;
        uint64_t digests
                [_INPLACE_FIELD_MAX]; /* of what is to be written, whatever is there already */
        char *meta;
        char *status; /* of the condition, or NULL */
        char *reason;
        char *message;
        const char *gate; /* why it is opened, or NULL */
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
        const Pod *pod; /* its newest state; borrowed */
        char *uid;
        InPlaceContainer *containers;
        size_t n_containers;
        Timer timer;
        uint64_t next_usec; /* when it is reconciled again at the latest */

        InPlaceInspection inspection;
        RuntimePodsCall *poll; /* for successors */
        uint64_t poll_usec;
        InPlaceKubelet kubelet;

        InPlaceWriteState write_state;
        KubePatch write;
        InPlaceText writing; /* of SENT */
        InPlaceText written;
        InPlaceField fields[_INPLACE_FIELD_MAX];
        bool is_split;      /* both together were refused: each alone */
        bool has_new_image; /* another image was asked for while we watched, or is in the runtime */
        uint64_t unwritten_usec; /* since when the annotation has been held back; 0: it is not */
        uint64_t not_running_usec;
};

/* What all pods share. */
struct InPlace {
        const PodContext *context;
        bool has_condition;
        PodsWatcher watcher;
        InPlacePod **pods;
        size_t n_pods;
        size_t n_inspections, n_writes;
        bool knows_kubelet; /* its hashes are of name and image alone */
        Error error;
};

/* inplace.c */

/* Begins what is to be begun; the last statement of every callback. */
int inplace_pod_reconcile(InPlacePod *pod);

/* inplace-pod.c */
uint64_t inplace_now(const InPlace *inplace);

/* There is room again for those that are queued. */
int inplace_continue(InPlace *inplace);
void inplace_pod_wake_at(InPlacePod *pod, uint64_t usec);

int inplace_pod_new(InPlace *inplace, const Pod *pod, InPlacePod **ret);
InPlacePod *inplace_pod_free(InPlacePod *pod);
/* Its newest state. */
void inplace_pod_set(InPlacePod *pod, const Pod *state);

bool inplace_pod_is_over(const InPlacePod *pod);
/* Its environment is of interest. */
bool inplace_pod_takes_part(const InPlacePod *pod);
/* The kubelet makes it from a file of the node: what the API server has is a picture of that. */
bool inplace_pod_is_static(const InPlacePod *pod);
bool inplace_pod_is_inspecting(const InPlacePod *pod);
/* What was written last; NULL: see its state. */
const InPlaceText *inplace_pod_written(const InPlacePod *pod);
void inplace_text_done(InPlaceText *text);

const PodContainer *inplace_container_state(const InPlaceContainer *container);
bool inplace_container_has_env(const InPlaceContainer *container);
/* The container that the pod's status names is the one that is known. */
bool inplace_container_is_known(const InPlaceContainer *container);
/* The runtime has started one that the pod's status does not name yet. */
bool inplace_container_is_ahead(const InPlaceContainer *container);
/* It was stopped, and nothing of a successor is known. */
bool inplace_container_is_stopped(const InPlaceContainer *container);
/* The kubelet will restart it, since its image is another one now. */
bool inplace_container_is_kubelets(const InPlaceContainer *container);
Verdict inplace_container_verdict(const InPlaceContainer *container);

/* inplace-restart.c */
int inplace_pod_restart(InPlacePod *pod);
/* Asks the runtime for the successors of those that were stopped. */
int inplace_pod_poll(InPlacePod *pod);
/* A new container is known: what a previous run of the agent has stopped before it. */
int inplace_container_recall(InPlaceContainer *container);
/* More of the container is known: what its restart has changed. */
int inplace_container_judge(InPlaceContainer *container);

/* inplace-inspect.c */
int inplace_pod_inspect(InPlacePod *pod);
/* What there is to be known is known, as far as the runtime could be asked. */
bool inplace_pod_is_settled(const InPlacePod *pod);

/* inplace-write.c */
void inplace_pod_write_init(InPlacePod *pod);
int inplace_pod_write(InPlacePod *pod);
/* Nothing is to be written to the pod any more, or not now. */
void inplace_pod_forget_refusal(InPlacePod *pod);
