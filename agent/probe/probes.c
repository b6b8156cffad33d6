/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/probe/probes.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/log-once.h"
#include "agent/base/loop.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/kube/resource.h"
#include "agent/kube/writer.h"

#define GROUP "apps.kruise.io"
#define RESOURCE "nodepodprobes"

#define ACCURACY_USEC ((uint64_t) 10 * 1000)

/* Time after which the agent notices by itself that a container is gone: a period of its probes. */
#define LIST_MIN_USEC USEC_PER_SEC
#define LIST_MAX_USEC (10 * USEC_PER_SEC)
#define LIST_PAUSE_USEC ((uint64_t) 200 * 1000) /* between the begins of two lists, at least */

#define WRITE_STATES_USEC USEC_PER_SEC /* between two writes; the first one is sent at once */
#define WRITE_MESSAGES_USEC (10 * USEC_PER_SEC)

/* Pause between the first runs of probes that begin at once. */
#define SPREAD_USEC ((uint64_t) 20 * 1000)

struct Probes {
        const PodContext *context;
        HttpPeer *http; /* connections of all probes by HTTP */
        PodsWatcher watcher;
        KubeResource *resource;

        Probe **items; /* by uid and name */
        size_t n_items;
        bool was_shown; /* spreads the probes of the first object over a period */
        LogOnce logged;

        KubeWriter writer;
        uint64_t written_usec; /* begin of the last write; 0: none */
        json_object *status;   /* items of the object's podProbeStatuses, or NULL */

        /* Listing of containers, one runtime after the other */
        Timer list_due;
        uint64_t list_due_usec; /* 0: the timer does not run */
        RuntimePodsCall *listing;
        size_t list_at; /* index of the runtime that is being listed */
        uint64_t listed_usec;
        Probe **unseen; /* probes whose container this list has not shown yet */
        size_t n_unseen;
        bool is_incomplete; /* not all runtimes have answered */
};

DEFINE_CLEANUP(Probes *, probes_free)

static void notify_changed(Probes *probes) {
        probes->context->on_changed(probes->context->userdata);
}

/* The status */

static int request_write(Probes *probes) {
        return kube_writer_request(&probes->writer);
}

static void set_status(Probes *probes, json_object *list) {
        json_object_get(list);
        json_object_put(probes->status);
        probes->status = list;
}

static int merge_status(Probes *probes, json_object **ret) {
        cleanup(free_p) ProbeReport *reports = calloc(probes->n_items + 1, sizeof(*reports));

        if (!reports)
                return -ENOMEM;

        for (size_t i = 0; i < probes->n_items; i++)
                reports[i] = (ProbeReport){ .spec = probe_spec(probes->items[i]),
                                            .result = probe_result(probes->items[i]) };

        return probe_status_merge(probes->status, reports, probes->n_items, ret);
}

/* States are written soon, messages alone rarely. */
static int compare_status(KubeWrite *ret_write, void *userdata) {
        Probes *probes = userdata;
        json_object *list = NULL;
        int r;

        r = merge_status(probes, &list);
        if (r < 0 || r == PROBE_STATUS_SAME)
                return r;

        if (probes->written_usec > 0)
                ret_write->not_before_usec =
                        probes->written_usec +
                        (r == PROBE_STATUS_STATES ? WRITE_STATES_USEC : WRITE_MESSAGES_USEC);
        ret_write->body = patch_wrap("status", patch_wrap("podProbeStatuses", list));
        return ret_write->body ? 0 : -ENOMEM;
}

static void on_sent(void *userdata) {
        Probes *probes = userdata;

        probes->written_usec = loop_now_usec(probes->context->event);
}

static int on_written(json_object *body, void *userdata) {
        if (body)
                set_status(userdata, probe_status_get(body));
        return 0;
}

static void on_write_changed(void *userdata) {
        notify_changed(userdata);
}

static void init_writer(Probes *probes) {
        kube_writer_init(&probes->writer,
                         &(KubeWriterOptions){
                                 .client = probes->context->client,
                                 .log = probes->context->log,
                                 .metrics = probes->context->metrics,
                                 .metric = METRIC_PROBE_WRITES,
                                 .group = GROUP,
                                 .resource = RESOURCE,
                                 .name = probes->context->node_name,
                                 .failed = "Cannot write the results of probes",
                                 .recovered = "Writing the results of probes works again",
                                 .compare = compare_status,
                                 .on_sent = on_sent,
                                 .on_written = on_written,
                                 .on_changed = on_write_changed,
                                 .userdata = probes,
                         });
}

/* Targets */

static RpcClient *find_client(const Probe *probe, void *userdata) {
        const Probes *probes = userdata;
        const Runtime *runtime = probe_tag(probe);

        for (size_t i = 0; runtime && i < runtimes_count(probes->context->runtimes); i++)
                if (runtimes_get(probes->context->runtimes, i) == runtime)
                        return runtime_client(runtime);

        return NULL;
}

/* Finds the pod of this node; NULL: none. */
static const Pod *find_pod(const Probes *probes, const ProbeSpec *spec) {
        const Pod *pod = pods_find(probes->context->pods, spec->namespace, spec->pod);

        return pod && strcmp(pod->uid, spec->uid) == 0 ? pod : NULL;
}

/* Takes the address from the pod: the object's author could make the agent probe any address from
 * this node. */
static const char *find_address(const Probe *probe, void *userdata) {
        const Pod *pod = find_pod(userdata, probe_spec(probe));

        return pod && pod->ip[0] ? pod->ip : NULL;
}

/* Takes the start from the pod's status, since the runtime's lists lack it. It may still be that of
 * the container before. */
static int64_t find_started_sec(const Probe *probe, void *userdata) {
        const Pod *pod = find_pod(userdata, probe_spec(probe));
        const PodContainer *container = pod ? pod_find(pod, probe_spec(probe)->container) : NULL;
        const char *id;
        char scheme[16];

        if (!container ||
            !pod_split_container_id(container->container_id, scheme, sizeof(scheme), &id) ||
            !text_equal(id, probe_container_id(probe)))
                return 0;

        return container->started_at_sec;
}

static void count_states(const Probes *probes) {
        static const char *const labels[_PROBE_STATE_MAX] = {
                [PROBE_UNKNOWN] = "unknown",
                [PROBE_SUCCEEDED] = "succeeded",
                [PROBE_FAILED] = "failed",
        };
        size_t counts[_PROBE_STATE_MAX] = { 0 };

        for (size_t i = 0; i < probes->n_items; i++) {
                const ProbeResult *result = probe_result(probes->items[i]);

                counts[result ? result->state : PROBE_UNKNOWN]++;
        }
        for (ProbeState state = 0; state < _PROBE_STATE_MAX; state++)
                metrics_set(probes->context->metrics, METRIC_PROBES, METRIC_LABELS(labels[state]),
                            (double) counts[state]);
}

static int send_event(Probes *probes, const Probe *probe, const ProbeResult *result) {
        const ProbeSpec *spec = probe_spec(probe);
        const KubeReference pod = {
                .api_version = "v1",
                .kind = "Pod",
                .namespace = spec->namespace,
                .name = spec->pod,
                .uid = spec->uid,
        };
        bool is_success = result->state == PROBE_SUCCEEDED;
        cleanup(free_p) char *text = NULL;

        if (text_format(&text, "%s: %s", spec->name,
                        result->message[0] ? result->message
                        : is_success       ? "succeeded"
                                           : "failed") < 0)
                return -ENOMEM;

        return kube_event_send(probes->context->events, &pod, is_success ? "Normal" : "Warning",
                               is_success ? "KruiseProbeSucceeded" : "KruiseProbeFailed", text);
}

static int on_recorded(const Probe *probe, ProbeState before, void *userdata) {
        Probes *probes = userdata;
        const ProbeResult *result = probe_result(probe);
        int r = 0;

        count_states(probes);
        if (result->state != before && result->state != PROBE_UNKNOWN)
                r = send_event(probes, probe, result);
        return r < 0 ? r : request_write(probes);
}

static void on_run(const Probe *probe, HandlerOutcome outcome, void *userdata) {
        static const char *const labels[_HANDLER_OUTCOME_MAX] = {
                [HANDLER_SUCCEEDED] = "succeeded",
                [HANDLER_FAILED] = "failed",
                [HANDLER_UNKNOWN] = "unknown",
        };
        const Probes *probes = userdata;

        metrics_add(probes->context->metrics, METRIC_PROBE_RUNS,
                    METRIC_LABELS(probe_kind_to_string(probe_spec(probe)->handler.kind),
                                  labels[outcome]),
                    1);
}

/* Containers */

/* Lists again after the pause since the last list began. */
static int list_by(Probes *probes, uint64_t usec) {
        uint64_t earliest = probes->listed_usec + LIST_PAUSE_USEC;

        if (usec < earliest)
                usec = earliest;
        if (probes->n_items == 0 || (probes->list_due_usec != 0 && probes->list_due_usec <= usec))
                return 0;

        probes->list_due_usec = usec;
        return timer_start_at(&probes->list_due, usec);
}

static int list_now(Probes *probes) {
        return list_by(probes, clock_monotonic_usec());
}

/* A change of a message can wait for the next listing. */
static int on_candidate(bool has_new_state, void *userdata) {
        return has_new_state ? list_now(userdata) : 0;
}

static uint64_t list_period_usec(const Probes *probes) {
        uint64_t period = LIST_MAX_USEC;

        for (size_t i = 0; i < probes->n_items; i++) {
                uint64_t usec = probe_spec(probes->items[i])->period_sec * USEC_PER_SEC;

                if (usec < period)
                        period = usec;
        }

        return period > LIST_MIN_USEC ? period : LIST_MIN_USEC;
}

/* Handles the probes whose container no runtime has: it is gone, unless its runtime did not
 * answer. */
static int end_listing(Probes *probes) {
        cleanup(free_p) Probe **unseen = take_ptr(probes->unseen);
        const char *why = probes->is_incomplete ? "the container runtime does not answer"
                          : pods_are_synced(probes->context->pods)
                                  ? NULL
                                  : "the pods of this node cannot be watched";
        size_t n = probes->n_unseen;
        int r = 0;

        probes->n_unseen = 0;
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = why ? probe_on_unlisted(unseen[i], why)
                        : probe_on_listed(unseen[i], NULL, NULL, probes->listed_usec);

        return r < 0 ? r : list_by(probes, probes->listed_usec + list_period_usec(probes));
}

static const RuntimeContainer *find_container(const Probes *probes, const RuntimePods *pods,
                                              const ProbeSpec *spec) {
        const Pod *pod = find_pod(probes, spec);
        const RuntimePod *found =
                pod ? runtime_pods_find(pods, spec->namespace, spec->pod, pod->runtime_uid) : NULL;

        return found ? runtime_pod_find(found, spec->container) : NULL;
}

static int show_containers(Probes *probes, const RuntimePods *pods) {
        Runtime *runtime = runtimes_get(probes->context->runtimes, probes->list_at);
        size_t n = 0;
        int r = 0;

        for (size_t i = 0; i < probes->n_unseen; i++) {
                Probe *probe = probes->unseen[i];
                const RuntimeContainer *container = find_container(probes, pods, probe_spec(probe));

                if (!container)
                        probes->unseen[n++] = probe;
                else if (r >= 0)
                        r = probe_on_listed(probe, container, runtime, probes->listed_usec);
        }

        probes->n_unseen = n;
        return r;
}

static int list_next(Probes *probes);

static int on_listed(RuntimePods *pods, const Error *error, void *userdata) {
        Probes *probes = userdata;
        int r = 0;

        if (error)
                probes->is_incomplete = true;
        else
                r = show_containers(probes, pods);

        probes->listing = runtime_pods_call_free(probes->listing);
        probes->list_at++;
        return r < 0 ? r : list_next(probes);
}

/* A runtime that is away may have containers that no list shows. */
static int list_next(Probes *probes) {
        const Runtimes *runtimes = probes->context->runtimes;

        for (; probes->list_at < runtimes_count(runtimes); probes->list_at++) {
                Runtime *runtime = runtimes_get(runtimes, probes->list_at);
                RpcClient *client = runtime_client(runtime);

                if (client)
                        return runtime_pods_list(client, &(RuntimePodsFilter){ .uid = NULL },
                                                 on_listed, probes, &probes->listing);
                if (runtime == runtimes_chosen(runtimes) || runtime_n_connects(runtime) > 0)
                        probes->is_incomplete = true;
        }

        if (!runtimes_chosen(runtimes))
                probes->is_incomplete = true;
        return end_listing(probes);
}

static int on_list_due(void *userdata) {
        Probes *probes = userdata;

        probes->list_due_usec = 0;
        if (probes->n_items == 0)
                return 0;
        if (probes->listing)
                return list_by(probes, clock_monotonic_usec() + LIST_PAUSE_USEC);

        free(probes->unseen);
        probes->unseen = malloc(probes->n_items * sizeof(*probes->unseen));
        if (!probes->unseen)
                return -ENOMEM;

        memcpy(probes->unseen, probes->items, probes->n_items * sizeof(*probes->unseen));
        probes->n_unseen = probes->n_items;
        probes->is_incomplete = false;
        probes->list_at = 0;
        probes->listed_usec = clock_monotonic_usec();
        return list_next(probes);
}

/* The spec */

/* The pending list goes on for the others: where probes change all the time, none would ever end. */
static void remove_probe(Probes *probes, Probe *probe) {
        size_t n = 0;

        for (size_t i = 0; i < probes->n_unseen; i++)
                if (probes->unseen[i] != probe)
                        probes->unseen[n++] = probes->unseen[i];
        probes->n_unseen = n;
        probe_free(probe);
}

static int add_probe(Probes *probes, ProbeSpec *spec, size_t i_new, Probe **ret) {
        const uint64_t period = spec->period_sec * USEC_PER_SEC;
        ProbeOptions options = {
                .event = probes->context->event,
                .http = probes->http,
                .places = probes->context->places,
                .log = probes->context->log,
                .first_delay_usec = i_new * SPREAD_USEC,
                .find_client = find_client,
                .find_address = find_address,
                .find_started_sec = find_started_sec,
                .on_candidate = on_candidate,
                .on_recorded = on_recorded,
                .on_run = on_run,
                .userdata = probes,
        };
        ProbeResult known = { .message = NULL };
        int r;

        if (!probes->was_shown || options.first_delay_usec > period)
                options.first_delay_usec = period * (random_number() % 1024) / 1024;
        r = probe_status_find(probes->status, spec->uid, spec->name, &known);
        if (r < 0) {
                probe_spec_done(spec);
                return r;
        }

        return probe_new(&options, spec, r > 0 ? &known : NULL, ret);
}

static int compare_probe(const Probe *probe, const ProbeSpec *spec) {
        return probe_spec_compare(probe_spec(probe), spec->uid, spec->name);
}

/* Both lists are sorted. An unchanged probe goes on. */
static int set_specs(Probes *probes, ProbeSpecs *specs) {
        Probe **former = probes->items, **items = calloc(specs->n_items + 1, sizeof(*items));
        size_t n_former = probes->n_items, i = 0, n_new = 0;
        int r = 0;

        if (!items)
                return -ENOMEM;

        probes->items = items;
        probes->n_items = 0;
        for (size_t k = 0; k < specs->n_items && r >= 0; k++) {
                while (i < n_former && compare_probe(former[i], &specs->items[k]) < 0)
                        remove_probe(probes, former[i++]);
                if (i < n_former && compare_probe(former[i], &specs->items[k]) == 0) {
                        items[probes->n_items++] = former[i];
                        r = probe_set_spec(former[i++], &specs->items[k]);
                        continue;
                }

                r = add_probe(probes, &specs->items[k], n_new++, &items[probes->n_items]);
                if (r >= 0)
                        probes->n_items++;
        }
        while (i < n_former)
                remove_probe(probes, former[i++]);
        free(former);
        probes->was_shown = true;
        count_states(probes);
        if (r < 0)
                return r;

        return list_now(probes);
}

static void note_refused(Probes *probes, const char *why) {
        if (log_once(&probes->logged, why))
                log_warning(probes->context->log, NULL, "The NodePodProbe \"%s\": %s.",
                            probes->context->node_name, why);
}

/* Keeps the former probes if the object is invalid. */
static int read_specs(Probes *probes, json_object *object) {
        cleanup(probe_specs_done) ProbeSpecs specs = PROBE_SPECS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *text = NULL;
        size_t n_refused = 0;
        int r;

        r = probe_specs_read(object, &specs, &n_refused, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (r < 0) {
                note_refused(probes, error_message(&error));
                return 0;
        }

        if (n_refused > 0 &&
            text_format(&text,
                        "ignoring %zu probes that lack a pod, container or name, are given twice, "
                        "or exceed %d",
                        n_refused, PROBES_MAX) < 0)
                return -ENOMEM;

        note_refused(probes, text);
        return set_specs(probes, &specs);
}

/* The object */

static int on_object(const KubeObject *object, void *userdata) {
        Probes *probes = userdata;
        int r;

        r = kube_writer_show(&probes->writer, object);
        if (r <= 0)
                return r;

        set_status(probes, probe_status_get(object->json));
        return read_specs(probes, object->json);
}

static int on_gone(const KubeObject *object, void *userdata) {
        cleanup(probe_specs_done) ProbeSpecs none = PROBE_SPECS_INIT;
        Probes *probes = userdata;

        kube_writer_forget(&probes->writer);
        set_status(probes, NULL);
        return set_specs(probes, &none);
}

static void on_list(void *userdata) {
        Probes *probes = userdata;

        kube_writer_list(&probes->writer);
}

static int on_version(const char *version, void *userdata) {
        return version ? 0 : on_gone(NULL, userdata);
}

static int on_resource_changed(void *userdata) {
        Probes *probes = userdata;

        notify_changed(probes);
        return request_write(probes);
}

static int add_resource(Probes *probes) {
        static const char *const versions[] = { "v1alpha1", NULL };
        cleanup(free_p) char *fields = NULL;

        if (text_format(&fields, "metadata.name=%s", probes->context->node_name) < 0)
                return -ENOMEM;

        return kube_resource_new(
                &(KubeResourceOptions){
                        .client = probes->context->client,
                        .log = probes->context->log,
                        .metrics = probes->context->metrics,
                        .group = GROUP,
                        .versions = versions,
                        .resource = RESOURCE,
                        .subject = "the probes of this node",
                        .is_optional = true,
                        .selections = { { .fields = fields,
                                          .on_object = on_object,
                                          .on_gone = on_gone,
                                          .on_list = on_list } },
                        .on_version = on_version,
                        .on_changed = on_resource_changed,
                        .userdata = probes,
                },
                &probes->resource);
}

/* Pods, in which the kubelet reports changes of containers */

static bool is_probed(const Probes *probes, const Pod *pod) {
        for (size_t i = 0; i < probes->n_items; i++)
                if (strcmp(probe_spec(probes->items[i])->uid, pod->uid) == 0)
                        return true;

        return false;
}

static int on_pod(const Pod *pod, const Pod *before, void *userdata) {
        return is_probed(userdata, pod) ? list_now(userdata) : 0;
}

static int on_pod_gone(const Pod *pod, void *userdata) {
        return is_probed(userdata, pod) ? list_now(userdata) : 0;
}

static int on_pods_state(bool is_synced, void *userdata) {
        return list_now(userdata);
}

/* Life cycle */

int probes_new(const PodContext *context, Probes **ret) {
        cleanup(probes_free_p) Probes *probes = malloc(sizeof(*probes));
        int r;

        if (!probes)
                return -ENOMEM;

        *probes = (Probes){
                .context = context,
                .watcher = { .on_pod = on_pod,
                             .on_gone = on_pod_gone,
                             .on_state = on_pods_state,
                             .userdata = probes },
        };
        timer_init(&probes->list_due, context->event, ACCURACY_USEC, on_list_due, probes);
        init_writer(probes);
        pods_watch(context->pods, &probes->watcher);
        r = http_peer_new_for_any(context->event, &probes->http);
        if (r >= 0)
                r = add_resource(probes);
        if (r < 0)
                return r;

        probes->writer.resource = probes->resource;
        *ret = take_ptr(probes);
        return 0;
}

Probes *probes_free(Probes *probes) {
        if (!probes)
                return NULL;

        pods_unwatch(probes->context->pods, &probes->watcher);
        kube_resource_free(probes->resource);
        runtime_pods_call_free(probes->listing);
        free(probes->unseen);
        for (size_t i = 0; i < probes->n_items; i++)
                probe_free(probes->items[i]);
        free(probes->items);
        http_peer_unref(probes->http);
        timer_done(&probes->list_due);
        kube_writer_done(&probes->writer);
        json_object_put(probes->status);
        free(probes);
        return NULL;
}

int probes_runtime_changed(Probes *probes) {
        return list_now(probes);
}

int probes_kick(Probes *probes) {
        int r;

        r = kube_resource_kick(probes->resource);
        return r < 0 ? r : kube_writer_kick(&probes->writer);
}

const Error *probes_error(const Probes *probes) {
        return probes->writer.error.kind != ERROR_NONE ? &probes->writer.error
                                                       : kube_resource_error(probes->resource);
}

size_t probes_count(const Probes *probes) {
        return probes->n_items;
}

const Probe *probes_get(const Probes *probes, size_t i) {
        return probes->items[i];
}
