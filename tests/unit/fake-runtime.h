/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A container runtime, without a runtime
 *
 * It stands at the interface of cri/ (client.h, content.h, runtimes.h) and keeps the calls that run, for
 * the test to inspect and to answer: by hand, or from the containers and images that the runtime has.
 * Everything above is the real code. A gRPC server that a probe asks is played in the same way: a call
 * to it has the server's address as its target. To be included once.
 */

#include <time.h>
#include <unistd.h>

#include "agent/base/program.h"
#include "agent/pod/exec.h"
#include "agent/pod/runtime-pods.h"
#include "cri/client.h"
#include "cri/containerd.h"
#include "cri/runtimes.h"
#include "tests/unit/unit.h"

#define FAKE_RUNTIME_CALLS_MAX 64
#define FAKE_CONTAINERS_MAX 80
#define FAKE_IMAGES_MAX 8
#define FAKE_ANNOTATIONS_MAX 4
#define FAKE_METHODS_MAX 16

struct RpcCall {
        bool is_running;
        const char *method;  /* "PullImage" */
        char target[192];    /* a reference, or an ID; of ListContainers "KEY=VALUE KEY=VALUE" */
        char command[256];   /* ExecSync's: "program argument" */
        int64_t timeout_sec; /* timeout of StopContainer and ExecSync */
        bool is_verbose;
        char lease[192];  /* ID of PullImage's lease; "" without one */
        char expires[32]; /* expiry of the lease that Create makes */
        const char *path; /* path of a call of another service, whose request follows */
        uint8_t request[128];
        RpcMessage on_message; /* handler of a stream's messages */
        RpcDone done;
        void *userdata;
};

/* A container of a pod. Texts are borrowed; a comment names the value that NULL stands for. */
typedef struct FakeContainer {
        const char *id;         /* NULL: there is none */
        const char *name;       /* NULL: it lacks the label */
        const char *namespace;  /* "default" */
        const char *pod;        /* "web" */
        const char *uid;        /* "uid-1" */
        const char *image;      /* "" */
        const char *image_ref;  /* "" */
        const char *recorded;   /* image in its status; none */
        const char *value;      /* value of the variable VALUE; "" */
        const char *hash;       /* hash of the kubelet; none */
        const char *grace;      /* the pod's grace period; none */
        const char *pre_stop;   /* none */
        unsigned restart_count; /* 0 is not written down */
        int64_t created_at, finished_at;
        bool is_running, is_created; /* neither: it has ended */
} FakeContainer;

typedef struct FakeImage {
        const char *reference, *id;
} FakeImage;

/* An entry of the container list with its parts */
typedef struct FakeListed {
        CriContainer container;
        Runtime__V1__ContainerMetadata metadata;
        CriImageSpec image;
        Runtime__V1__Container__LabelsEntry labels[4], *label_list[4];
        Runtime__V1__Container__AnnotationsEntry annotations[FAKE_ANNOTATIONS_MAX];
        Runtime__V1__Container__AnnotationsEntry *annotation_list[FAKE_ANNOTATIONS_MAX];
        char restart_count[12];
} FakeListed;

struct FakeRuntime {
        RpcCall calls[FAKE_RUNTIME_CALLS_MAX];
        size_t order[FAKE_RUNTIME_CALLS_MAX]; /* indexes of the calls, the oldest first */
        size_t n_calls;
        unsigned n_begun;
        struct {
                const char *method;
                unsigned n; /* calls so far */
        } asked[FAKE_METHODS_MAX];
        bool is_away;
        bool has_leases; /* "Create" is to be answered by hand, else it is not known */
        unsigned n_reconnects;
        bool shows_layers;    /* "Info" is to be answered by hand */
        ProgramDone on_files; /* the snapshotter's files are to be read */
        void *files_userdata;
        bool returns;           /* as soon as that was noticed */
        const char *image_path; /* NULL: it names none */
        FakeContainer containers[FAKE_CONTAINERS_MAX];
        FakeImage images[FAKE_IMAGES_MAX];
        const char *address;   /* address of all sandboxes */
        bool refuses_status;   /* a question for a container's status fails */
        RpcMessage on_removed; /* handler of the subscriber to removed images */
        bool lacks_info;       /* a verbose status has no info, */
        bool has_other_info;   /* or has something else before that */
};

static struct FakeRuntime fake_runtime;

static inline void fake_runtime_reset(void) {
        memset(&fake_runtime, 0, sizeof(fake_runtime));
}

static inline unsigned *fake_runtime_asked(const char *method) {
        size_t i = 0;

        while (fake_runtime.asked[i].method && strcmp(fake_runtime.asked[i].method, method) != 0)
                assert_true(++i < FAKE_METHODS_MAX);
        fake_runtime.asked[i].method = method;
        return &fake_runtime.asked[i].n;
}

/* How often the runtime was asked to do that. */
static inline unsigned fake_runtime_n_asked(const char *method) {
        return *fake_runtime_asked(method);
}

static inline int fake_runtime_call(const char *method, const char *target, RpcDone done,
                                    void *userdata, RpcCall **ret) {
        for (size_t i = 0; i < FAKE_RUNTIME_CALLS_MAX; i++) {
                RpcCall *call = &fake_runtime.calls[i];

                if (call->is_running)
                        continue;

                *call = (RpcCall){
                        .is_running = true, .method = method, .done = done, .userdata = userdata
                };
                snprintf(call->target, sizeof(call->target), "%s", target);
                fake_runtime.order[fake_runtime.n_calls++] = i;
                fake_runtime.n_begun++;
                (*fake_runtime_asked(method))++;
                *ret = call;
                return 0;
        }

        fail_msg("too many calls of %s", method);
        return 0;
}

RpcCall *rpc_call_unref(RpcCall *call) {
        size_t i = 0;

        if (!call)
                return NULL;

        assert_true(call->is_running);
        call->is_running = false;
        while (&fake_runtime.calls[fake_runtime.order[i]] != call)
                i++;
        memmove(fake_runtime.order + i, fake_runtime.order + i + 1,
                (--fake_runtime.n_calls - i) * sizeof(fake_runtime.order[0]));
        return NULL;
}

int cri_image_status(RpcClient *client, const char *reference, RpcDone done, void *userdata,
                     RpcCall **ret) {
        return fake_runtime_call("ImageStatus", reference, done, userdata, ret);
}

int cri_version(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret) {
        return fake_runtime_call("Version", "", done, userdata, ret);
}

int cri_pull_image(RpcClient *client, const CriPullRequest *request, const char *lease_id,
                   uint64_t timeout_usec, RpcDone done, void *userdata, RpcCall **ret) {
        int r = fake_runtime_call("PullImage", request->image->image, done, userdata, ret);

        snprintf((*ret)->lease, sizeof((*ret)->lease), "%s", lease_id ?: "");
        return r;
}

int cri_list_containers(RpcClient *client, const CriContainerFilter *filter, RpcDone done,
                        void *userdata, RpcCall **ret) {
        char text[192];
        int size = snprintf(text, sizeof(text), "%s%s", filter && filter->id[0] ? "id=" : "",
                            filter ? filter->id : "");

        for (size_t i = 0; filter && i < filter->n_label_selector; i++)
                size += snprintf(text + size, sizeof(text) - (size_t) size, "%s%s=%s",
                                 size > 0 ? " " : "", filter->label_selector[i]->key,
                                 filter->label_selector[i]->value);
        assert_in_range(size, 0, sizeof(text) - 1);
        return fake_runtime_call("ListContainers", text, done, userdata, ret);
}

int cri_container_status(RpcClient *client, const char *id, bool is_verbose, RpcDone done,
                         void *userdata, RpcCall **ret) {
        int r = fake_runtime_call("ContainerStatus", id, done, userdata, ret);

        (*ret)->is_verbose = is_verbose;
        return r;
}

int cri_sandbox_status(RpcClient *client, const char *id, RpcDone done, void *userdata,
                       RpcCall **ret) {
        return fake_runtime_call("PodSandboxStatus", id, done, userdata, ret);
}

int exec_run(const ExecOptions *options, Exec **ret, Error *reterr) {
        RpcCall *call;
        int r = fake_runtime_call("ExecSync", options->container_id, options->on_done,
                                  options->userdata, &call);

        call->timeout_sec = options->timeout_sec;
        for (size_t i = 0; options->command[i]; i++) {
                size_t size = strlen(call->command);

                snprintf(call->command + size, sizeof(call->command) - size, "%s%s",
                         i > 0 ? " " : "", options->command[i]);
        }
        *ret = (Exec *) call;
        return r;
}

Exec *exec_free(Exec *exec) {
        rpc_call_unref((RpcCall *) exec);
        return NULL;
}

int cri_stop_container(RpcClient *client, const char *id, int64_t grace_sec, RpcDone done,
                       void *userdata, RpcCall **ret) {
        int r = fake_runtime_call("StopContainer", id, done, userdata, ret);

        (*ret)->timeout_sec = grace_sec;
        return r;
}

int cri_list_images(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret) {
        return fake_runtime_call("ListImages", "", done, userdata, ret);
}

/* The test calls fake_runtime.on_removed with the call's argument. */
int events_watch_images(RpcClient *client, const char *event, RpcMessage on_removed, RpcDone done,
                        void *userdata, RpcCall **ret) {
        fake_runtime.on_removed = on_removed;
        return fake_runtime_call("Subscribe", "", done, userdata, ret);
}

int image_records_list(RpcClient *client, const char *const *filters, size_t n_filters,
                       RpcDone done, void *userdata, RpcCall **ret) {
        return fake_runtime_call("ListRecords", "", done, userdata, ret);
}

int image_record_set_labels(RpcClient *client, const char *name, const ImageLabel *labels,
                            size_t n_labels, RpcDone done, void *userdata, RpcCall **ret) {
        return fake_runtime_call("SetLabels", name, done, userdata, ret);
}

int content_list_ingests(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret) {
        return fake_runtime_call("ListIngests", "", done, userdata, ret);
}

int content_list(RpcClient *client, const char *const *filters, size_t n_filters,
                 RpcMessage on_list, RpcDone done, void *userdata, RpcCall **ret) {
        int r = fake_runtime_call("List", "", done, userdata, ret);

        (*ret)->on_message = on_list;
        return r;
}

int content_read(RpcClient *client, const char *digest, RpcMessage on_part, RpcDone done,
                 void *userdata, RpcCall **ret) {
        int r = fake_runtime_call("Read", digest, done, userdata, ret);

        (*ret)->on_message = on_part;
        return r;
}

int content_info(RpcClient *client, const char *digest, RpcDone done, void *userdata,
                 RpcCall **ret) {
        return fake_runtime_call("Info", digest, done, userdata, ret);
}

int leases_create(RpcClient *client, const char *id, const char *expires, RpcDone done,
                  void *userdata, RpcCall **ret) {
        const Error unsupported = { .kind = ERROR_UNSUPPORTED, .message = (char *) "no leases" };
        int r = fake_runtime_call("Create", id, done, userdata, ret);

        snprintf((*ret)->expires, sizeof((*ret)->expires), "%s", expires);
        return fake_runtime.has_leases ? r : done(NULL, &unsupported, userdata);
}

int leases_delete(RpcClient *client, const char *id, RpcDone done, void *userdata, RpcCall **ret) {
        return fake_runtime_call("Delete", id, done, userdata, ret);
}

int leases_list_expiring(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret) {
        return fake_runtime_call("ListLeases", "", done, userdata, ret);
}

int leases_list(RpcClient *client, const char *id, RpcDone done, void *userdata, RpcCall **ret) {
        return fake_runtime_call("ListResources", id, done, userdata, ret);
}

int snapshot_stat(RpcClient *client, const char *snapshotter, const char *name, RpcDone done,
                  void *userdata, RpcCall **ret) {
        return fake_runtime_call("Stat", name, done, userdata, ret);
}

/* Stands for the other process, which reads the snapshotter's files. */
int program_run(sd_event *event, const ProgramOptions *options, ProgramDone on_done, void *userdata,
                Program **ret) {
        assert_string_equal(options->arguments[0], "--print-layer-status");
        assert_null(fake_runtime.on_files);
        fake_runtime.on_files = on_done;
        fake_runtime.files_userdata = userdata;
        *ret = (Program *) &fake_runtime.on_files;
        return 0;
}

Program *program_free(Program *program) {
        if (program)
                fake_runtime.on_files = NULL;
        return NULL;
}

/* The only one there is. */
RpcClient *runtimes_client(const Runtimes *runtimes) {
        return fake_runtime.is_away ? NULL : (RpcClient *) &fake_runtime;
}

bool runtimes_are_alive(const Runtimes *runtimes) {
        bool is_away = fake_runtime.is_away;

        if (fake_runtime.returns)
                fake_runtime.is_away = false;
        return !is_away;
}

bool runtimes_are_settled(const Runtimes *runtimes) {
        return true;
}

Runtime *runtimes_chosen(const Runtimes *runtimes) {
        return (Runtime *) &fake_runtime;
}

Runtime *runtimes_find(const Runtimes *runtimes, const char *name) {
        return strcmp(runtime_name(NULL), name) == 0 ? runtimes_chosen(NULL) : NULL;
}

size_t runtimes_count(const Runtimes *runtimes) {
        return 1;
}

Runtime *runtimes_get(const Runtimes *runtimes, size_t i) {
        return (Runtime *) &fake_runtime;
}

RpcClient *runtime_client(const Runtime *runtime) {
        return runtimes_client(NULL);
}

bool runtime_is_alive(const Runtime *runtime) {
        return !fake_runtime.is_away;
}

const char *runtime_name(const Runtime *runtime) {
        return fake_runtime.is_away ? "" : "containerd";
}

const char *runtime_version(const Runtime *runtime) {
        return fake_runtime.is_away ? "" : "2.1.0";
}

const char *runtime_sentence(const Runtime *runtime) {
        return fake_runtime.is_away ? "nothing listens there" : "";
}

const char *runtime_image_path(const Runtime *runtime) {
        return fake_runtime.image_path;
}

unsigned runtime_n_connects(const Runtime *runtime) {
        return 1 + fake_runtime.n_reconnects;
}

struct timespec runtime_connected_at(const Runtime *runtime) {
        return (struct timespec){ 0 };
}

/* The oldest call of this method that runs, or NULL; NULL: of any. */
static inline RpcCall *fake_runtime_find(const char *method) {
        for (size_t i = 0; i < fake_runtime.n_calls; i++) {
                RpcCall *call = &fake_runtime.calls[fake_runtime.order[i]];

                if (!method || strcmp(call->method, method) == 0)
                        return call;
        }

        return NULL;
}

static inline unsigned fake_runtime_n_calls(void) {
        return (unsigned) fake_runtime.n_calls;
}

static inline unsigned fake_runtime_count(const char *method) {
        unsigned n = 0;

        for (size_t i = 0; i < fake_runtime.n_calls; i++)
                n += strcmp(fake_runtime.calls[fake_runtime.order[i]].method, method) == 0;
        return n;
}

/* By hand */

/* Answers the call of this method, which must be there. */
static inline void fake_runtime_answer(const char *method, const void *reply, const Error *error) {
        RpcCall *call = fake_runtime_find(method);

        if (!call)
                fail_msg("no call of %s", method);
        else
                assert_int_equal(call->done(reply, error, call->userdata), 0);
}

/* A message of a stream that goes on. */
static inline void fake_runtime_send(const char *method, const void *message) {
        RpcCall *call = fake_runtime_find(method);

        if (!call)
                fail_msg("no call of %s", method);
        else
                assert_int_equal(call->on_message(message, call->userdata), 0);
}

static inline void fake_runtime_refuse(const char *method, ErrorKind kind, const char *message) {
        Error error = { .kind = kind, .message = (char *) message };

        fake_runtime_answer(method, NULL, &error);
}

/* It does not say how it keeps the layers, if it was asked. */
static inline int fake_runtime_hide_layers(void) {
        const Error error = { .kind = ERROR_UNSUPPORTED, .message = (char *) "unknown service" };
        RpcCall *call = fake_runtime_find("Info");

        return call && !fake_runtime.shows_layers ? call->done(NULL, &error, call->userdata) : 0;
}

/* Answers that the image has one layer, which is fetched on demand, with the snapshotter's line of
 * JSON about "sha256:layer". */
static inline void fake_runtime_answer_layers(const char *files) {
        ContentLabel owner = CONTAINERD__SERVICES__CONTENT__V1__INFO__LABELS_ENTRY__INIT;
        SnapshotLabel mark = CONTAINERD__SERVICES__SNAPSHOTS__V1__INFO__LABELS_ENTRY__INIT;
        SnapshotLabel digest = CONTAINERD__SERVICES__SNAPSHOTS__V1__INFO__LABELS_ENTRY__INIT;
        ContentLabel *owners[] = { &owner };
        SnapshotLabel *marks[] = { &mark, &digest };
        ContentInfo config = CONTAINERD__SERVICES__CONTENT__V1__INFO__INIT;
        SnapshotInfo layer = CONTAINERD__SERVICES__SNAPSHOTS__V1__INFO__INIT;
        ContentInfoReply info = CONTAINERD__SERVICES__CONTENT__V1__INFO_RESPONSE__INIT;
        SnapshotReply snapshot = CONTAINERD__SERVICES__SNAPSHOTS__V1__STAT_SNAPSHOT_RESPONSE__INIT;

        owner.key = (char *) "containerd.io/gc.ref.snapshot.stargz";
        owner.value = (char *) "sha256:top";
        config.labels = owners;
        config.n_labels = 1;
        info.info = &config;
        fake_runtime_answer("Info", &info, NULL);

        mark.key = (char *) "containerd.io/snapshot/remote";
        digest.key = (char *) "containerd.io/snapshot/cri.layer-digest";
        digest.value = (char *) "sha256:layer";
        layer.labels = marks;
        layer.n_labels = 2;
        snapshot.info = &layer;
        assert_string_equal(fake_runtime_find("Stat")->target, "sha256:top");
        fake_runtime_answer("Stat", &snapshot, NULL);

        assert_non_null(fake_runtime.on_files);
        assert_int_equal(fake_runtime.on_files(files, strlen(files), NULL,
                                               fake_runtime.files_userdata),
                         0);
}

/* Answers with an image of this ID; NULL: there is none. */
static inline void fake_runtime_answer_status(const char *id) {
        CriImage image = RUNTIME__V1__IMAGE__INIT;
        CriImageStatus status = RUNTIME__V1__IMAGE_STATUS_RESPONSE__INIT;

        image.id = (char *) id;
        status.image = id ? &image : NULL;
        fake_runtime_answer("ImageStatus", &status, NULL);
        assert_ok(fake_runtime_hide_layers());
}

static inline void fake_runtime_answer_pull(const char *id) {
        CriPullReply reply = RUNTIME__V1__PULL_IMAGE_RESPONSE__INIT;

        reply.image_ref = (char *) id;
        fake_runtime_answer("PullImage", &reply, NULL);
        if (fake_runtime_find("List")) /* the snapshotter does not say how much was fetched */
                fake_runtime_refuse("List", ERROR_UNSUPPORTED, "unknown service");
}

static inline void fake_runtime_answer_exec(int32_t status, const char *output,
                                            const char *complaint) {
        CriExec reply = RUNTIME__V1__EXEC_SYNC_RESPONSE__INIT;

        reply.exit_code = status;
        reply.stdout.data = (uint8_t *) output;
        reply.stdout.len = strlen(output);
        reply.stderr.data = (uint8_t *) complaint;
        reply.stderr.len = strlen(complaint);
        fake_runtime_answer("ExecSync", &reply, NULL);
}

/* Answers from the runtime's state */

static inline void fake_annotate(FakeListed *to, const char *key, const char *value) {
        size_t i = to->container.n_annotations;

        if (!value)
                return;

        assert_true(i < FAKE_ANNOTATIONS_MAX);
        runtime__v1__container__annotations_entry__init(&to->annotations[i]);
        to->annotations[i].key = (char *) key;
        to->annotations[i].value = (char *) value;
        to->annotation_list[i] = &to->annotations[i];
        to->container.n_annotations++;
}

static inline void fake_list_container(const FakeContainer *from, FakeListed *to) {
        const char *const labels[4][2] = {
                { LABEL_POD_NAME, from->pod ?: "web" },
                { LABEL_POD_NAMESPACE, from->namespace ?: "default" },
                { LABEL_POD_UID, from->uid ?: "uid-1" },
                { LABEL_CONTAINER_NAME, from->name },
        };

        runtime__v1__container__init(&to->container);
        runtime__v1__container_metadata__init(&to->metadata);
        runtime__v1__image_spec__init(&to->image);
        for (size_t i = 0; i < 4; i++) {
                runtime__v1__container__labels_entry__init(&to->labels[i]);
                to->labels[i].key = (char *) labels[i][0];
                to->labels[i].value = (char *) labels[i][1];
                to->label_list[i] = &to->labels[i];
        }
        snprintf(to->restart_count, sizeof(to->restart_count), "%u", from->restart_count);
        to->metadata.name = (char *) from->name;
        to->image.image = (char *) (from->image ?: "");
        to->container.id = (char *) from->id;
        to->container.pod_sandbox_id = (char *) "s1";
        to->container.metadata = &to->metadata;
        to->container.image = &to->image;
        to->container.image_ref = (char *) (from->image_ref ?: "");
        to->container.created_at = from->created_at;
        to->container.state = from->is_running   ? RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING
                              : from->is_created ? RUNTIME__V1__CONTAINER_STATE__CONTAINER_CREATED
                                                 : RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED;
        to->container.labels = to->label_list;
        to->container.n_labels = from->name ? 4 : 3;
        to->container.annotations = to->annotation_list;
        fake_annotate(to, ANNOTATION_HASH, from->hash);
        fake_annotate(to, ANNOTATION_RESTART_COUNT,
                      from->restart_count > 0 ? to->restart_count : NULL);
        fake_annotate(to, ANNOTATION_TERMINATION_GRACE, from->grace);
        fake_annotate(to, ANNOTATION_PRE_STOP, from->pre_stop);
}

/* Applies the call's filter: "id=ID KEY=VALUE". An ID may be the beginning of one. */
static inline bool fake_is_listed(const FakeListed *listed, const char *filter) {
        char text[192];
        char *rest = text;

        snprintf(text, sizeof(text), "%s", filter);
        for (char *part; (part = strsep(&rest, " "));) {
                char *value = strchr(part, '=');
                const char *has;

                if (!value)
                        continue;

                *value++ = '\0';
                has = strcmp(part, "id") == 0 ? listed->container.id
                                              : cri_container_label(&listed->container, part);
                if (strncmp(has ?: "", value, strlen(value)) != 0 ||
                    (strcmp(part, "id") != 0 && strcmp(has ?: "", value) != 0))
                        return false;
        }

        return true;
}

static inline int fake_runtime_serve_list(RpcCall *call) {
        cleanup(free_p) FakeListed *listed = calloc(FAKE_CONTAINERS_MAX, sizeof(*listed));
        CriContainerList reply = RUNTIME__V1__LIST_CONTAINERS_RESPONSE__INIT;
        CriContainer *containers[FAKE_CONTAINERS_MAX];

        assert_non_null(listed);
        reply.containers = containers;
        for (size_t i = 0; i < FAKE_CONTAINERS_MAX; i++) {
                if (!fake_runtime.containers[i].id)
                        continue;

                fake_list_container(&fake_runtime.containers[i], &listed[i]);
                if (fake_is_listed(&listed[i], call->target))
                        containers[reply.n_containers++] = &listed[i].container;
        }
        return call->done(&reply, NULL, call->userdata);
}

static inline FakeContainer *fake_runtime_container(const char *id) {
        for (size_t i = 0; i < FAKE_CONTAINERS_MAX; i++)
                if (fake_runtime.containers[i].id && strcmp(fake_runtime.containers[i].id, id) == 0)
                        return &fake_runtime.containers[i];

        return NULL;
}

static inline int fake_runtime_miss(RpcCall *call) {
        const Error error = { .kind = ERROR_NOT_FOUND, .message = (char *) "there is none" };

        return call->done(NULL, &error, call->userdata);
}

static inline int fake_runtime_serve_status(RpcCall *call) {
        const Error refusal = { .kind = ERROR_INTERNAL, .message = (char *) "no" };
        const FakeContainer *container = fake_runtime_container(call->target);
        Runtime__V1__ContainerStatusResponse__InfoEntry entries[2], *list[2];
        Runtime__V1__ContainerStatus status = RUNTIME__V1__CONTAINER_STATUS__INIT;
        CriContainerStatus reply = RUNTIME__V1__CONTAINER_STATUS_RESPONSE__INIT;
        CriImageSpec image = RUNTIME__V1__IMAGE_SPEC__INIT;
        char info[256];

        if (fake_runtime.refuses_status)
                return call->done(NULL, &refusal, call->userdata);
        if (!container)
                return fake_runtime_miss(call);

        (void) snprintf(info, sizeof(info),
                        "{\"runtimeSpec\":{\"process\":{\"env\":[\"VALUE=%s\"]}}}",
                        container->value ?: "");
        for (size_t i = 0; i < 2 && call->is_verbose; i++) {
                if (i == 0 ? !fake_runtime.has_other_info : fake_runtime.lacks_info)
                        continue;

                runtime__v1__container_status_response__info_entry__init(&entries[i]);
                entries[i].key = (char *) (i == 0 ? "other" : "info");
                entries[i].value = i == 0 ? (char *) "{}" : info;
                list[reply.n_info++] = &entries[i];
        }
        status.state = container->is_running ? RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING
                                             : RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED;
        status.finished_at = container->finished_at;
        image.image = (char *) container->recorded;
        status.image = container->recorded ? &image : NULL;
        reply.status = &status;
        reply.info = list;
        return call->done(&reply, NULL, call->userdata);
}

static inline int fake_runtime_serve_image(RpcCall *call) {
        CriImage image = RUNTIME__V1__IMAGE__INIT;
        CriImageStatus reply = RUNTIME__V1__IMAGE_STATUS_RESPONSE__INIT;

        for (size_t i = 0; i < FAKE_IMAGES_MAX; i++)
                if (fake_runtime.images[i].reference &&
                    strcmp(fake_runtime.images[i].reference, call->target) == 0) {
                        image.id = (char *) fake_runtime.images[i].id;
                        reply.image = &image;
                }

        return call->done(&reply, NULL, call->userdata) ?: fake_runtime_hide_layers();
}

static inline int fake_runtime_serve_sandbox(RpcCall *call) {
        CriSandboxStatus reply = RUNTIME__V1__POD_SANDBOX_STATUS_RESPONSE__INIT;
        Runtime__V1__PodSandboxStatus status = RUNTIME__V1__POD_SANDBOX_STATUS__INIT;
        Runtime__V1__PodSandboxNetworkStatus network =
                RUNTIME__V1__POD_SANDBOX_NETWORK_STATUS__INIT;

        if (!fake_runtime.address)
                return fake_runtime_miss(call);

        network.ip = (char *) fake_runtime.address;
        status.network = &network;
        reply.status = &status;
        return call->done(&reply, NULL, call->userdata);
}

static inline void fake_container_end(FakeContainer *container) {
        struct timespec now;

        assert_ok(clock_gettime(CLOCK_REALTIME, &now));
        container->is_running = false;
        container->finished_at = (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int fake_runtime_serve_stop(RpcCall *call) {
        FakeContainer *container = fake_runtime_container(call->target);

        if (container && container->is_running)
                fake_container_end(container);
        return call->done(&fake_runtime, NULL, call->userdata);
}

/* Answers the oldest call of this method from the state above. Returns whether there is such a call. */
static inline bool fake_runtime_serve(const char *method) {
        static const struct {
                const char *method;
                int (*serve)(RpcCall *call);
        } methods[] = {
                { "ListContainers", fake_runtime_serve_list },
                { "ContainerStatus", fake_runtime_serve_status },
                { "ImageStatus", fake_runtime_serve_image },
                { "PodSandboxStatus", fake_runtime_serve_sandbox },
                { "StopContainer", fake_runtime_serve_stop },
        };
        RpcCall *call = fake_runtime_find(method);

        for (size_t i = 0; call && i < N_ELEMENTS(methods); i++)
                if (strcmp(methods[i].method, method) == 0) {
                        assert_int_equal(methods[i].serve(call), 0);
                        return true;
                }

        return false;
}

/* Answers all questions so, and those that follow; calls that change the state are left to the
 * test. Returns whether there was any question. */
static inline bool fake_runtime_serve_questions(void) {
        bool has_served = false;

        while (fake_runtime_serve("ListContainers") || fake_runtime_serve("ContainerStatus") ||
               fake_runtime_serve("ImageStatus") || fake_runtime_serve("PodSandboxStatus"))
                has_served = true;
        return has_served;
}
