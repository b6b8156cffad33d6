/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is known of a pod and its containers, and what is under way for them; between the files of
 * meta
 *
 * Whatever happens, the pod is looked at as a whole again by inplace_pod_step(), which begins what is
 * to be begun. It is the last statement of every callback.
 */

#include "agent/base/repeat.h"
#include "agent/kube/patch.h"
#include "agent/inplace/inplace.h"
#include "agent/inplace/restart-plan.h"
#include "agent/pod/runtime-pods.h"

#define USEC_PER_SEC ((uint64_t) 1000000)

typedef struct InPlacePod InPlacePod;
typedef struct PodLook PodLook;

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

/* What a container is stopped for. The name of the stop's owner says it, and so it is known in the
 * next run of the agent. */
typedef struct InPlaceRestart {
        uint32_t hash;        /* that is expected */
        uint32_t before_hash; /* that it had; 0: unknown */
        unsigned number;      /* of the restarts in a row for that hash; from 1 */
} InPlaceRestart;

/* A container of a runtime that has been stopped. */
typedef struct InPlaceStopped {
        char *id; /* NULL: none */
        InPlaceRestart restart;
        bool is_ours;
        bool has_changed; /* another hash has been expected since */
} InPlaceStopped;

typedef struct InPlaceContainer {
        InPlacePod *pod;
        size_t index; /* in the pod */

        InPlaceFact fact;
        bool is_incomplete; /* the last look has left something open */
        char *looked_id;    /* what the pod's status said when it was looked at */
        char *asked_id;     /* the same, of the look that goes on */
        char *asked_image;
        bool has_asked_env; /* that look is for the environment, too */
        char *reference;    /* that was looked up, and what it is on the node; or NULL */
        char *reference_id;

        uint32_t expected_hash;
        RestartPlan plan;
        Stop *stop;
        char *stop_id;
        InPlaceRestart stop_for;
        KubeCall *check;
        uint64_t check_usec; /* when it is asked again; 0: it is not */
        unsigned n_check_failures;
        char *refused_version; /* of the pod that did not ask for a stop, or NULL */
        InPlaceStopped stopped;
        uint64_t await_usec; /* for so long the runtime is asked for its successor */
        bool has_successor;  /* the runtime has one, of which nothing else is known */
        bool has_failed;     /* a restart for the expected hash did not heal it */
        unsigned n_restarts; /* for the expected hash, after which it had the one of before */
        RestartPlan reported;
        uint32_t reported_hash;
        uint64_t kubelet_usec; /* for so long the kubelet may take; 0: it is not waited for */
        uint64_t retry_usec;
        unsigned n_failures;
} InPlaceContainer;

/* What is written to a pod. Each has a fate of its own: who refuses one of them may accept the
 * other. */
typedef enum InPlaceFieldKind {
        INPLACE_FIELD_ANNOTATION,
        INPLACE_FIELD_CONDITION,
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
        uint64_t digests[_INPLACE_FIELD_MAX]; /* of what is to be said, whatever is there already */
        char *meta;
        char *status; /* of the condition, or NULL */
        char *reason;
        char *message;
} InPlaceText;

struct InPlacePod {
        InPlace *meta;
        const Pod *pod; /* its newest state; borrowed */
        char *uid;
        InPlaceContainer *containers;
        size_t n_containers;
        sd_event_source *timer;
        uint64_t next_usec; /* when it is looked at again at the latest */

        PodLook *look;
        bool is_listing; /* the look that goes on */
        bool wants_look; /* as soon as there is room */
        bool must_refresh;
        uint64_t look_usec;       /* when it began */
        uint64_t look_retry_usec; /* 0: nothing failed */
        unsigned n_look_failures; /* in a row, or looks that brought nothing */
        bool is_look_trouble_told;
        uint64_t refresh_usec;

        RuntimePodsCall *poll; /* for successors */
        uint64_t poll_usec;

        uint64_t busy_usec;   /* for so long the kubelet may have the newest state in hand */
        uint64_t behind_usec; /* for so long one from before the last change of the metadata */
        bool is_gate_last; /* the newest state it may have in hand is that of the gate being shut */

        KubePatch write;
        InPlaceText writing;
        InPlaceText written;
        bool wants_write;   /* as soon as there is room */
        bool is_dropped;    /* no write before its next event */
        bool has_new_image; /* another image was asked for while we watched */
        InPlaceField fields[_INPLACE_FIELD_MAX];
        bool is_split;           /* both together were refused: each alone */
        uint64_t unwritten_usec; /* since when the annotation has been held back; 0: it is not */
        uint64_t not_running_usec;
};

struct InPlace {
        InPlaceOptions options;
        PodsWatcher watcher;
        InPlacePod **pods;
        size_t n_pods;
        size_t n_looks, n_writes;
        bool knows_kubelet; /* its hashes are of name and image alone */
        Error error;
};

uint64_t inplace_now(const InPlace *meta);
uint32_t inplace_random(void);

/* There is room again for those that wait for it. */
int inplace_continue(InPlace *meta);

int inplace_pod_step(InPlacePod *pod);
void inplace_pod_wake_at(InPlacePod *pod, uint64_t usec);

bool inplace_pod_is_over(const InPlacePod *pod);
/* Its environment is of interest. */
bool inplace_pod_takes_part(const InPlacePod *pod);

const PodContainer *inplace_container_state(const InPlaceContainer *container);
bool inplace_container_has_env(const InPlaceContainer *container);
/* The container that the pod's status names is the one that is known. */
bool inplace_container_is_known(const InPlaceContainer *container);
/* The runtime has started one that the pod's status does not name yet. */
bool inplace_container_is_ahead(const InPlaceContainer *container);
/* The kubelet makes it from a file of the node: what the API server has is a picture of that. */
bool inplace_pod_is_static(const InPlacePod *pod);
/* The kubelet will restart it, since its image is another one now. */
bool inplace_container_is_kubelets(const InPlaceContainer *container);
Verdict inplace_container_verdict(const InPlaceContainer *container);

/* meta-look.c */
int inplace_pod_look(InPlacePod *pod);
PodLook *pod_look_free(PodLook *look);
/* What there is to be known is known, as far as the runtime could be asked. */
bool inplace_pod_is_settled(const InPlacePod *pod);

/* meta-restart.c */
int inplace_pod_restart(InPlacePod *pod);
/* Asks the runtime for the successors of those that were stopped. */
int inplace_pod_watch(InPlacePod *pod);
int inplace_container_judge(InPlaceContainer *container);
/* What a container was stopped for, in an earlier run of the agent, if that was the hash. */
bool inplace_stop_find(const InPlace *meta, uint32_t hash, const char *id, InPlaceRestart *ret);

/* meta-write.c */
const InPlaceText *inplace_pod_written(const InPlacePod *pod); /* NULL: see its state */
void inplace_pod_write_init(InPlacePod *pod);
int inplace_pod_write(InPlacePod *pod);
void inplace_text_done(InPlaceText *text);
/* Nothing is to be written to the pod any more, or not now. */
void inplace_pod_forget_refusal(InPlacePod *pod);
