/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A small cluster in memory, one step at a time
 *
 * An API server with resource versions, preconditions and watches, the controllers of the workloads, kubelets, agents,
 * other users, and runs of the real "kubectl inplace" (tools.h). Objects are never changed once they are stored:
 * a write makes a new one, which shares what is the same. Every choice comes from the seed, so that a seed is a run.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/base/error.h"
#include "agent/kubectl/workload.h"

#define NAMESPACE "default"
#define WORKLOAD "web"
#define NODES_MAX 3
#define PODS_MAX 4 /* pods that a workload has at most */
#define CONTAINERS_MAX 3
#define TOOLS_MAX 32
#define NEVER INT64_MAX
#define REVISION "deployment.kubernetes.io/revision"
#define DESIRED "deployment.kubernetes.io/desired-replicas"

typedef struct World World;

typedef enum Author {
        AUTHOR_TOOL,
        AUTHOR_MANAGER, /* kube-controller-manager */
        AUTHOR_KUBELET,
        AUTHOR_AGENT,
        AUTHOR_USER,
} Author;

typedef enum Resource {
        DEPLOYMENTS,
        REPLICA_SETS,
        STATEFUL_SETS,
        DAEMON_SETS,
        REVISIONS,
        PODS,
        BUDGETS,
        LEASES,
        _RESOURCE_MAX,
} Resource;

/* Objects of a resource by name. */
typedef struct Items {
        json_object *items[32];
        const char *names[32]; /* as the objects have them */
        bool is_dirty[32];     /* a controller has to look at it */
        size_t n;
} Items;

typedef struct Change {
        json_object *object;
        bool is_gone;
} Change;

typedef struct Log {
        Change *changes;
        size_t n, size;
} Log;

/* The objects that a client has been shown: kube-controller-manager's controllers share one. */
typedef struct Cache {
        Items items[_RESOURCE_MAX];
        size_t seen[_RESOURCE_MAX]; /* number of changes of the log */
} Cache;

typedef enum RuntimeState {
        RUNTIME_NONE, /* was never started */
        RUNTIME_RUNNING,
        RUNTIME_DEAD,
        RUNTIME_BACKOFF, /* waits before it is started again, or for an image */
} RuntimeState;

/* Requests of the first container, of which memory has the resizePolicy RestartContainer. */
typedef struct Resources {
        int cpu, memory;
} Resources;

typedef struct RuntimeContainer {
        RuntimeState state;
        char image[24];     /* image of the container that runs or has run */
        char tried[24];     /* image that did not start */
        const char *reason; /* why it waits; NULL: it does not */
        unsigned id, n_restarts;
        int64_t started_sec, retry_sec;
        bool is_ready;
        Resources resources; /* it was started with these, or got them since */
} RuntimeContainer;

/* A pod as its kubelet has it. */
typedef struct Runtime {
        char uid[16];
        int node;
        json_object *seen; /* the pod; owned */
        RuntimeContainer containers[CONTAINERS_MAX];
        bool has_news;    /* the status is not reported yet */
        bool has_failed;  /* the kubelet has evicted it: it ends, and stays as an object */
        bool has_crashed; /* the first container has ended by itself since the pod got its image */
        Resources allocated; /* they are the pod's, or were before its node had no room for more */
        bool is_down;        /* a tool has made it unavailable, and it has not come back */
        bool is_renewed; /* it has started the image that it should have since a user or tool has changed that */
        bool is_named;             /* a run has said of it, as it is, that it has not the images */
        unsigned n_changes;        /* changes of its containers */
        uint32_t started;          /* a set of images that "app" has had, by their hashes */
        const json_object *judged; /* the pod that the agent has acted on; only compared */
        unsigned judged_changes;
        unsigned idle_changes; /* world.n_changes at the time that idle_sec means */
        int64_t idle_sec;      /* the last time at which the kubelet had nothing to do */
} Runtime;

typedef struct Node {
        int64_t lost_sec; /* NEVER: it is there */
        int skew_sec;     /* how far its clock is ahead of that of the API server */
        bool is_marked;   /* the pods are shown as not ready */
        bool is_barred;   /* a DaemonSet has no pod there */
        bool is_cordoned; /* it is being drained, or was */
} Node;

/* A mutating webhook changes new pods, or "always" those as well that are written later. */
typedef enum Webhook {
        WEBHOOK_NONE,
        WEBHOOK_INJECTS, /* a container */
        WEBHOOK_INJECTS_ALWAYS,
        WEBHOOK_MIRRORS, /* images: they get the name of another registry */
        WEBHOOK_MIRRORS_ALWAYS,
        WEBHOOK_DENIES, /* other images in some pods */
        _WEBHOOK_MAX,
} Webhook;

typedef struct Scenario {
        WorkloadKind kind;
        int n_pods, n_containers;
        int max_unavailable; /* limit of the strategy */
        int min_ready_sec;
        int history_limit; /* how many old revisions are kept */
        int start;         /* the first ordinal of a StatefulSet */
        int partition;     /* a StatefulSet's */
        bool is_parallel;  /* pods need not come in order */
        bool is_recreate;  /* the strategy of a Deployment */
        bool has_gate, has_budget, has_older, is_declared;
        bool is_only;           /* declared, and never by an ordinary update */
        bool has_person;        /* a command begins the update, though it is declared */
        bool is_kept;           /* by its users from its controller: paused, or OnDelete */
        bool has_skew;          /* clocks of nodes differ */
        bool has_crashes;       /* containers of the first image end now and then */
        bool has_hostile_users; /* their edits take the workload away from the update */
        bool has_rival;         /* a second run at the same time */
        int n_edits, n_disturbances, n_crashes, n_losses;
        int n_refusals; /* requests that are denied, or refused because the server is busy */
        Webhook webhook;
        bool is_webhook_first; /* the first pods were made with it */
        const char *target;    /* image to which the first update goes */
} Scenario;

/* Facts that the properties need. */
typedef struct Judge {
        bool is_excused; /* another user lets the controller replace pods */
        bool has_begun;  /* the workload has got the record of an update */
        int n_creates,
                n_deletes; /* pods that controllers may still make and delete for other reasons */
        int64_t max_unavailable; /* the greatest that was in force */
        int64_t partition;       /* the strategy as users have it */
        int64_t own_unavailable;
        int64_t least_partition; /* no lower one was set */
        int64_t least_ready_sec; /* no lower one was in force */
        int64_t budget;          /* the greatest that was in force; INT64_MAX: none was */
        bool is_kept;            /* users hold the workload themselves */
        bool has_returned; /* a pod was given back to the workload, perhaps after its update */
        bool is_forgotten; /* a user has removed the record: a run that is under way gives back, else nothing can */
        unsigned open_step;  /* when the last update began */
        char *foreign_image; /* another user's, in the template of an open update; NULL: none */
        char *failed_image; /* the template's when the workload was to show a failure; NULL: never */
        char failure[512];  /* "": none yet */
} Judge;

typedef struct Tool Tool;

struct World {
        Scenario scenario;
        uint64_t seed, random;
        int64_t now_sec;
        unsigned n_steps, n_versions, n_uids, n_ids;
        unsigned n_changes; /* without those of Leases */
        Items items[_RESOURCE_MAX];
        Log logs[_RESOURCE_MAX];
        Cache manager;
        size_t awaited_pods; /* changes of pods that the controllers have made themselves */
        Runtime runtimes[32];
        size_t n_runtimes;
        Node nodes[NODES_MAX];
        Tool *tools[TOOLS_MAX];
        size_t n_tools;
        Judge judge;
        bool has_garbage; /* objects whose owner is gone, perhaps */
        bool has_unbound; /* pods without a node, perhaps */
        bool is_full;     /* no node has room for one more pod, or for a larger one */
        bool has_webhook; /* the scenario's */
        bool is_calm;     /* no more faults */
        FILE *trace;      /* NULL: none */
};

/* Choices */

uint32_t choose(World *world, uint32_t n); /* 0 ... n - 1 */
bool happens(World *world, unsigned percent);

void note(World *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the run: a property does not hold. */
void fail(World *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Documents: each returns a new one, which shares what is the same with the old one, which stays */

/* Replaces *document, of which the caller has one reference. value: taken over; NULL: the member is removed. */
void set_at(json_object **document, json_object *value, const char *const *keys);
#define SET(document, value, ...) \
        set_at(document, value, (const char *const[]){ __VA_ARGS__, NULL })
#define SET_TEXT(document, text, ...) SET(document, json_object_new_string(text), __VA_ARGS__)
#define SET_NUMBER(document, number, ...) SET(document, json_object_new_int64(number), __VA_ARGS__)
/* A new one with the members of `object`, which may be NULL, and with these numbers; keys: up to NULL. */
json_object *with_numbers(json_object *object, const char *const *keys, const int64_t *values);
json_object *copy_list(json_object *list);
/* The value there; NULL: none. */
json_object *get_at(json_object *document, const char *const *keys);
#define GET(document, ...) get_at(document, (const char *const[]){ __VA_ARGS__, NULL })
json_object *time_text(int64_t sec);
const char *annotation_of(json_object *object, const char *name);
json_object *merge_patch(json_object *document, json_object *patch, bool is_strategic);
/* The template of a workload or ReplicaSet, or that of a ControllerRevision. */
json_object *template_of(json_object *object);
/* Templates but for the controller's label. */
bool templates_equal(json_object *a, json_object *b);

/* The API server */

json_object *items_find(const Items *items, const char *name);
json_object *api_get(World *world, Resource resource, const char *name);
json_object *api_workload(World *world);
Resource workload_resource(const World *world);
bool has_revisions(const World *world); /* the workload, whose pods name them */

typedef struct Patch {
        Author author;
        Resource resource;
        const char *name;
        bool is_status, is_strategic, is_dry_run;
        json_object *body;
} Patch;

/* ret: owned by the caller; may be NULL. */
ErrorKind api_patch(World *world, const Patch *patch, json_object **ret);
ErrorKind api_create(World *world, Author author, Resource resource, json_object *object,
                     bool is_dry_run, json_object **ret);
/* Writes the whole object under its resource version; it is taken over. */
ErrorKind api_update(World *world, Author author, Resource resource, bool is_status,
                     json_object *object);
/* A pod ends when its kubelet has ended it. */
ErrorKind api_delete(World *world, Author author, Resource resource, const char *name);
void api_remove(World *world, Resource resource, const char *name);
/* Shows the next change to a client. */
void cache_advance(World *world, Cache *cache, Resource resource);
bool cache_is_behind(const World *world, const Cache *cache, Resource resource);
void api_done(World *world);

/* The parts that act; each step returns whether there was something to do */

void cluster_make(World *world); /* a workload whose pods all are ready */
void cluster_make_workload(World *world, const char *image);
void cluster_make_budget(World *world, const char *limit, int64_t n);
void cluster_settle(World *world); /* controllers and kubelets act until nothing is left */
void cluster_make_room(World *world);
/* Whether the model does what the real controllers have done. Writes to `out` what differs. */
bool replay_recording(const char *path, FILE *out);
bool manager_step(World *world);
void manager_touch(World *world); /* time has passed */
int64_t history_limit(json_object *workload);
void deployment_sync(World *world, json_object *deployment);
void replica_set_sync(World *world, json_object *replica_set);
void stateful_set_sync(World *world, json_object *set);
void daemon_set_sync(World *world, json_object *set);
int daemons_wanted(const World *world);
void budget_sync(World *world, json_object *budget);
/* A pod of this owner and template, as controllers make it. node: -1: the scheduler chooses one. */
json_object *make_pod(World *world, json_object *owner, json_object *template, const char *kind,
                      const char *name, int node);
json_object *make_owners(json_object *owner, const char *kind);
ErrorKind manager_create_pod(World *world, json_object *pod); /* taken over */
ErrorKind manager_delete_pod(World *world, json_object *pod);
int pod_node(json_object *pod);   /* -1: it has none */
int pod_target(json_object *pod); /* the only node that it may have; -1: any */
bool pod_is_owned(json_object *pod, json_object *owner);
/* The owner's controller counts it, and adopts it where it has no other. */
bool pod_is_claimed(json_object *pod, json_object *owner);
/* Releases pods whose labels match no more, and adopts others. */
void manager_claim_pods(World *world, json_object *owner, const char *kind);
bool pod_is_available(const World *world, json_object *pod, int64_t min_ready_sec);

void runtime_add(World *world, json_object *pod);
Runtime *runtime_find(World *world, json_object *pod);
/* A container of the image has run in the pod at some time. */
bool runtime_has_started(const Runtime *runtime, const char *image);
void runtime_crash_old(World *world, Runtime *runtime); /* if it runs the first image */
void runtime_fail(World *world, Runtime *runtime);      /* all containers end, and stay so */
bool kubelet_step(World *world, Runtime *runtime);
bool nodes_are_due(const World *world);
void nodes_step(World *world);
void node_return(World *world, int number);
/* When something is due that waits for the time. */
int64_t kubelet_next_sec(const World *world);

bool image_is_good(const char *image); /* containers of it start, run on and become ready */
/* Or one is the other in the registry of the webhook. */
bool image_is_same(const World *world, const char *image, const char *other);
void user_edit(World *world);
void user_disturb(World *world);
void user_drain(World *world); /* goes on with what is being drained */
void user_set_image(World *world, const char *image);
void user_allow_ordinary(World *world);                     /* updates of a declared workload */
void user_make_anew(World *world);                          /* the workload, which was deleted */
void user_keep(World *world);                               /* holds the workload */
bool pod_has_lost_revision(World *world, json_object *pod); /* which its controller has deleted */
void user_restart_lost(World *world);   /* restarts the pods whose revision is gone */
void user_free_pods(World *world);      /* returns pods that were taken, or deletes them */
void user_free_budget(World *world);    /* lets a pod be unavailable */
void user_free_partition(World *world); /* lets an update that is under way get to all pods */

/* The properties */

void judge_begin(World *world);
void judge_write(World *world, Author author, Resource resource, json_object *old,
                 json_object *new);
void judge_pod_made(World *world);
void judge_pod_ended(World *world);
void judge_pod_lost(World *world);     /* a controller may make another one */
void judge_pod_replaced(World *world); /* and may replace that, or another, in the end */
void judge_impossible(World *world);   /* a controller says that an ordinary update follows */
void judge_quiet(World *world);        /* controllers have nothing left to do */
void judge_idle(World *world);         /* no program has anything to do now */
void judge_kept_only(World *world);    /* a workload that waits for updates in place shows why */
/* The words of a run at its end. output: its document; NULL: none. */
typedef struct Telling {
        json_object *output;
        int status;
        unsigned begin_step;
        bool was_killed, has_closed;
} Telling;

void judge_told(World *world, const Telling *telling);
/* Runs have named all pods that have other images than their template, and there are some. */
bool judge_has_named(World *world);
void judge_end(World *world);
void judge_intent(World *world, json_object *workload); /* a user has written its strategy */
void judge_scaled_down(World *world, int64_t n);        /* by so many pods */
void judge_cleaned_up(World *world,
                      const char *replica_set);        /* by the controller of its Deployment */
void judge_budget(World *world);                       /* a user has written it */
bool workload_record(World *world, json_object **ret); /* an update is open */
bool has_open_record(json_object *workload);
