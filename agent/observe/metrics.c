/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/observe/metrics.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/error.h"
#include "agent/base/text.h"

#define MAX_LABELS 2
#define N_BUCKETS 12
#define MAX_VALUES 251

typedef enum MetricType {
        METRIC_TYPE_COUNTER,
        METRIC_TYPE_GAUGE,
        METRIC_TYPE_HISTOGRAM,
} MetricType;

/* A closed set of label values. */
typedef enum MetricLabelSet {
        METRIC_SET_PULL_RESULT,
        METRIC_SET_PHASE,
        METRIC_SET_STATE,
        METRIC_SET_WRITE_RESULT,
        METRIC_SET_REFUSED_REASON,
        METRIC_SET_VERDICT,
        METRIC_SET_STOP_CAUSE,
        METRIC_SET_STOP_RESULT,
        METRIC_SET_PROBE_STATE,
        METRIC_SET_PROBE_KIND,
        METRIC_SET_VERB,
        METRIC_SET_WRITE_KIND,
        METRIC_SET_CODE,           /* HTTP status; "none": no answer */
        METRIC_SET_REQUEST_RESULT, /* "ok" and the error kinds */
        METRIC_SET_PULL_REASON,    /* from here on from MetricsOptions */
        METRIC_SET_CRI_METHOD,
        METRIC_SET_LOCAL_API_METHOD,
        METRIC_SET_VERSION,
        _METRIC_SET_MAX,
} MetricLabelSet;

typedef struct MetricLabel {
        const char *name;
        MetricLabelSet set;
} MetricLabel;

typedef struct Metric {
        const char *name;
        MetricType type;
        const double *bounds;           /* N_BUCKETS bounds of a histogram, without +Inf */
        MetricLabel labels[MAX_LABELS]; /* unused ones have no name */
        const char *help;
        bool may_be_unknown; /* appears once it was used, though it has no labels */
} Metric;

/* NULL for a set that is not known before metrics_new(). */
static const char *const *const fixed_sets[_METRIC_SET_MAX] = {
        [METRIC_SET_PULL_RESULT] = METRIC_LABELS("succeeded", "failed", "present"),
        [METRIC_SET_PHASE] =
                METRIC_LABELS("waiting", "pulling", "backoff", "succeeded", "failed", "missing"),
        [METRIC_SET_STATE] = METRIC_LABELS("accepted", "refused"),
        [METRIC_SET_WRITE_RESULT] = METRIC_LABELS("succeeded", "failed"),
        [METRIC_SET_REFUSED_REASON] = METRIC_LABELS("limit", "denied"),
        [METRIC_SET_VERDICT] = METRIC_LABELS("unknown", "current", "stale"),
        [METRIC_SET_STOP_CAUSE] = METRIC_LABELS("metadata", "recreate", "request"),
        [METRIC_SET_STOP_RESULT] = METRIC_LABELS("stopped", "gone", "not-asked", "failed"),
        [METRIC_SET_PROBE_STATE] = METRIC_LABELS("unknown", "succeeded", "failed"),
        [METRIC_SET_PROBE_KIND] = METRIC_LABELS("exec", "httpGet", "tcpSocket", "grpc"),
        [METRIC_SET_VERB] = METRIC_LABELS("get", "list", "watch", "create", "patch", "delete"),
        [METRIC_SET_WRITE_KIND] = METRIC_LABELS("pods", "nodeimages", "nodes", "leases"),
        [METRIC_SET_CODE] = METRIC_LABELS("none", "200", "201", "400", "401", "403", "404", "409",
                                          "410", "422", "429", "500", "502", "503", "504", "other"),
};

/* Upper bounds of the buckets, in seconds. */
static const double pull_bounds[N_BUCKETS] = {
        0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800
};
static const double request_bounds[N_BUCKETS] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1,
                                                  0.5,   1,      5,     10,   60,    300 };

/* clang-format off */
static const Metric metric_table[_METRIC_MAX] = {
        [METRIC_PULLS] = {
                "inplaced_pulls_total", METRIC_TYPE_COUNTER, NULL,
                { { "result", METRIC_SET_PULL_RESULT }, { "reason", METRIC_SET_PULL_REASON } },
                "Image pulls that ended, by how they ended and why they failed." },
        [METRIC_PULL_DURATION] = {
                "inplaced_pull_duration_seconds", METRIC_TYPE_HISTOGRAM, pull_bounds,
                { { "result", METRIC_SET_PULL_RESULT } },
                "How long image pulls took, without the time in the queue." },
        [METRIC_PULL_BYTES] = {
                "inplaced_pull_bytes_total", METRIC_TYPE_COUNTER, NULL, { { 0 } },
                "Bytes that pulls fetched, of shared layers once; containerd only.",
                .may_be_unknown = true },
        [METRIC_PULLS_QUEUED] = {
                "inplaced_pulls_queued", METRIC_TYPE_GAUGE, NULL, { { 0 } },
                "Image pulls that wait for their turn." },
        [METRIC_PULLS_RUNNING] = {
                "inplaced_pulls_running", METRIC_TYPE_GAUGE, NULL, { { 0 } },
                "Image pulls that run now." },
        [METRIC_PULLS_PAUSED] = {
                "inplaced_pulls_paused_seconds_total", METRIC_TYPE_COUNTER, NULL, { { 0 } },
                "Time for which image pulls waited because the kubelet pulled a pod's image." },
        [METRIC_IMAGES_WANTED] = {
                "inplaced_images_wanted", METRIC_TYPE_GAUGE, NULL,
                { { "phase", METRIC_SET_PHASE } },
                "Requested images, by phase." },
        [METRIC_IMAGES_REMOVED] = {
                "inplaced_images_removed_total", METRIC_TYPE_COUNTER, NULL, { { 0 } },
                "How often a requested image was found to be removed from the runtime." },
        [METRIC_RUNTIME_READY] = {
                "inplaced_runtime_ready", METRIC_TYPE_GAUGE, NULL, { { 0 } },
                "Whether the container runtime answers (1) or not (0)." },
        [METRIC_RUNTIME_RECONNECTS] = {
                "inplaced_runtime_reconnects_total", METRIC_TYPE_COUNTER, NULL, { { 0 } },
                "How often the container runtime came back after it was lost." },
        [METRIC_CRI_REQUESTS] = {
                "inplaced_cri_requests_total", METRIC_TYPE_COUNTER, NULL,
                { { "method", METRIC_SET_CRI_METHOD }, { "result", METRIC_SET_REQUEST_RESULT } },
                "Requests to the container runtime, by how they ended." },
        [METRIC_CRI_REQUEST_DURATION] = {
                "inplaced_cri_request_duration_seconds", METRIC_TYPE_HISTOGRAM, request_bounds,
                { { "method", METRIC_SET_CRI_METHOD } },
                "How long requests to the container runtime took." },
        [METRIC_DESIRED_DOCUMENTS] = {
                "inplaced_desired_documents", METRIC_TYPE_GAUGE, NULL,
                { { "state", METRIC_SET_STATE } },
                "Documents of desired state, by whether they could be used." },
        [METRIC_LOCAL_API_REQUESTS] = {
                "inplaced_local_api_requests_total", METRIC_TYPE_COUNTER, NULL,
                { { "method", METRIC_SET_LOCAL_API_METHOD },
                  { "result", METRIC_SET_REQUEST_RESULT } },
                "Requests to the local API, by how they ended." },
        [METRIC_LOCAL_API_CONNECTIONS] = {
                "inplaced_local_api_connections", METRIC_TYPE_GAUGE, NULL, { { 0 } },
                "Connections to the local API that are open now." },
        [METRIC_LOCAL_API_REFUSED] = {
                "inplaced_local_api_refused_connections_total", METRIC_TYPE_COUNTER, NULL,
                { { "reason", METRIC_SET_REFUSED_REASON } },
                "Connections to the local API that were closed without being served." },
        [METRIC_STATUS_WRITES] = {
                "inplaced_status_writes_total", METRIC_TYPE_COUNTER, NULL,
                { { "result", METRIC_SET_WRITE_RESULT } },
                "Writes of the status." },
        [METRIC_STATUS_LAST_WRITE] = {
                "inplaced_status_last_write_timestamp_seconds", METRIC_TYPE_GAUGE, NULL, { { 0 } },
                "When the status was last written, in seconds since the epoch; 0 is never." },
        [METRIC_API_SERVER_REQUESTS] = {
                "inplaced_api_server_requests_total", METRIC_TYPE_COUNTER, NULL,
                { { "verb", METRIC_SET_VERB }, { "code", METRIC_SET_CODE } },
                "Requests to the API server, by the HTTP status of the answer." },
        [METRIC_API_SERVER_REQUEST_DURATION] = {
                "inplaced_api_server_request_duration_seconds", METRIC_TYPE_HISTOGRAM,
                request_bounds, { { "verb", METRIC_SET_VERB } },
                "How long requests to the API server took; watches do not count." },
        [METRIC_WATCH_RESTARTS] = {
                "inplaced_watch_restarts_total", METRIC_TYPE_COUNTER, NULL, { { 0 } },
                "How often a list or a watch was begun again." },
        [METRIC_WRITES_LIMITED] = {
                "inplaced_writes_limited", METRIC_TYPE_GAUGE, NULL,
                { { "kind", METRIC_SET_WRITE_KIND } },
                "Whether the API server refuses writes that the agent must not do (1) or not (0)." },
        [METRIC_NODE_IMAGE_WRITES] = {
                "inplaced_nodeimage_status_writes_total", METRIC_TYPE_COUNTER, NULL,
                { { "result", METRIC_SET_WRITE_RESULT } },
                "Writes of the NodeImage's status to the API server." },
        [METRIC_NODE_IMAGE_LAST_WRITE] = {
                "inplaced_nodeimage_status_last_write_timestamp_seconds", METRIC_TYPE_GAUGE, NULL,
                { { 0 } },
                "When the NodeImage's status was last written, in seconds since the epoch; 0 is "
                "never." },
        [METRIC_PODS] = {
                "inplaced_pods", METRIC_TYPE_GAUGE, NULL, { { 0 } },
                "Pods of this node in the API server." },
        [METRIC_CONTAINERS] = {
                "inplaced_containers", METRIC_TYPE_GAUGE, NULL,
                { { "verdict", METRIC_SET_VERDICT } },
                "Running containers of pods, by whether they run the image that is asked for." },
        [METRIC_POD_WRITES] = {
                "inplaced_pod_status_writes_total", METRIC_TYPE_COUNTER, NULL,
                { { "result", METRIC_SET_WRITE_RESULT } },
                "Writes of annotation and condition of pods to the API server." },
        [METRIC_STOPS] = {
                "inplaced_container_stops_total", METRIC_TYPE_COUNTER, NULL,
                { { "cause", METRIC_SET_STOP_CAUSE }, { "result", METRIC_SET_STOP_RESULT } },
                "Stops of containers that ended, by who asked and how they ended." },
        [METRIC_STOP_DURATION] = {
                "inplaced_container_stop_duration_seconds", METRIC_TYPE_HISTOGRAM, request_bounds,
                { { "cause", METRIC_SET_STOP_CAUSE } },
                "How long stops of containers took, with their preStop hooks." },
        [METRIC_STOPS_RUNNING] = {
                "inplaced_container_stops_running", METRIC_TYPE_GAUGE, NULL, { { 0 } },
                "Stops of containers that wait or run now." },
        [METRIC_RECREATE_REQUESTS] = {
                "inplaced_recreate_requests_total", METRIC_TYPE_COUNTER, NULL,
                { { "result", METRIC_SET_WRITE_RESULT } },
                "ContainerRecreateRequests that were completed, by whether all went well." },
        [METRIC_RECREATE_REQUESTS_OPEN] = {
                "inplaced_recreate_requests_open", METRIC_TYPE_GAUGE, NULL, { { 0 } },
                "ContainerRecreateRequests for this node that are not completed." },
        [METRIC_RECREATE_WRITES] = {
                "inplaced_recreate_request_status_writes_total", METRIC_TYPE_COUNTER, NULL,
                { { "result", METRIC_SET_WRITE_RESULT } },
                "Writes of the status of ContainerRecreateRequests to the API server." },
        [METRIC_PROBES] = {
                "inplaced_probes", METRIC_TYPE_GAUGE, NULL,
                { { "state", METRIC_SET_PROBE_STATE } },
                "Probes of this node's pods, by their state." },
        [METRIC_PROBE_RUNS] = {
                "inplaced_probe_runs_total", METRIC_TYPE_COUNTER, NULL,
                { { "kind", METRIC_SET_PROBE_KIND }, { "result", METRIC_SET_PROBE_STATE } },
                "How often probes were run, by how that ended." },
        [METRIC_PROBE_WRITES] = {
                "inplaced_probe_writes_total", METRIC_TYPE_COUNTER, NULL,
                { { "result", METRIC_SET_WRITE_RESULT } },
                "Writes to the status of the NodePodProbe." },
        [METRIC_CONFIG_RELOADS] = {
                "inplaced_config_reloads_total", METRIC_TYPE_COUNTER, NULL,
                { { "result", METRIC_SET_WRITE_RESULT } },
                "How often the configuration was read again." },
        [METRIC_BUILD_INFO] = {
                "inplaced_build_info", METRIC_TYPE_GAUGE, NULL,
                { { "version", METRIC_SET_VERSION } },
                "Always 1; the version is in the label." },
};
/* clang-format on */

/* The kernel's data about this process, read for every answer. Values that cannot be read, e.g.
 * because /proc is not mounted, are negative. */
typedef struct ProcessFacts {
        int64_t resident_bytes;
        int64_t n_open_fds;
        int64_t max_fds;
        double cpu_seconds; /* user and system time of all threads */
} ProcessFacts;

DEFINE_CLEANUP(FILE *, fclose)
DEFINE_CLEANUP(DIR *, closedir)

static double clock_read(clockid_t clock) {
        struct timespec now;

        if (clock_gettime(clock, &now) < 0)
                return -1;

        return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static int64_t resident_bytes(void) {
        cleanup(fclose_p) FILE *file = fopen("/proc/self/statm", "re");
        int64_t n_pages;

        if (!file || fscanf(file, "%*d %" SCNd64, &n_pages) != 1)
                return -1;

        return n_pages * sysconf(_SC_PAGESIZE);
}

static int64_t n_open_fds(void) {
        cleanup(closedir_p) DIR *directory = opendir("/proc/self/fd");
        int64_t n = 0;

        if (!directory)
                return -1;

        for (const struct dirent *entry; (entry = readdir(directory));)
                n += entry->d_name[0] != '.';

        return n - 1; /* the descriptor that reads this */
}

static int64_t max_fds(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > INT64_MAX)
                return -1;

        return (int64_t) limit.rlim_cur;
}

static ProcessFacts process_facts_read(void) {
        return (ProcessFacts){
                .resident_bytes = resident_bytes(),
                .n_open_fds = n_open_fds(),
                .max_fds = max_fds(),
                .cpu_seconds = clock_read(CLOCK_PROCESS_CPUTIME_ID),
        };
}

/* Seconds since the epoch. Reads the start once, since the result changes when the clock is set. */
static double process_start_time(void) {
        cleanup(fclose_p) FILE *file = fopen("/proc/self/stat", "re");
        char text[1024] = "";
        const char *rest;
        uint64_t ticks;

        /* The name of the program, in parentheses, may contain anything, also a parenthesis. */
        if (!file || !fgets(text, sizeof(text), file) || !(rest = strrchr(text, ')')))
                return -1;

        /* Field 22: when it started, in ticks since boot. */
        if (sscanf(rest + 1,
                   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
                   "%" SCNu64,
                   &ticks) != 1)
                return -1;

        return clock_read(CLOCK_REALTIME) - clock_read(CLOCK_BOOTTIME) +
               (double) ticks / (double) sysconf(_SC_CLK_TCK);
}

static const char *const type_names[] = {
        [METRIC_TYPE_COUNTER] = "counter",
        [METRIC_TYPE_GAUGE] = "gauge",
        [METRIC_TYPE_HISTOGRAM] = "histogram",
};

/* A combination of label values of a metric. */
typedef struct Series Series;
struct Series {
        Series *next; /* in the order of the label values in their sets */
        uint8_t labels[MAX_LABELS];
        double value;       /* value, or sum of a histogram */
        uint64_t buckets[]; /* buckets of a histogram, the last one +Inf; not cumulative */
};

struct Metrics {
        Series *series[_METRIC_MAX];
        const char *const *sets[_METRIC_SET_MAX];
        const char *request_results[_ERROR_KIND_MAX + 1];
        const char *version[2];
        const char **pull_reasons; /* owned: "", then the given ones */
        double n_dropped;
        double start_time;
};

DEFINE_CLEANUP(Metrics *, metrics_free)

/* "" stands in front of the given reasons: a pull that did not fail has none. */
static int metrics_take_pull_reasons(Metrics *metrics, const char *const *reasons) {
        size_t n = 0;

        while (reasons && reasons[n])
                n++;

        metrics->pull_reasons = calloc(n + 2, sizeof(metrics->pull_reasons[0]));
        if (!metrics->pull_reasons)
                return -ENOMEM;

        metrics->pull_reasons[0] = "";
        for (size_t i = 0; i < n; i++)
                metrics->pull_reasons[i + 1] = reasons[i];
        return 0;
}

const char *metrics_result(ErrorKind kind) {
        return kind == ERROR_NONE ? "ok" : error_kind_to_string(kind);
}

static void metrics_set_sets(Metrics *metrics, const MetricsOptions *options) {
        static const char *const empty[] = { NULL };

        memcpy(metrics->sets, fixed_sets, sizeof(metrics->sets));

        for (ErrorKind kind = ERROR_NONE; kind < _ERROR_KIND_MAX; kind++)
                metrics->request_results[kind] = metrics_result(kind);
        metrics->version[0] = options->version;

        metrics->sets[METRIC_SET_REQUEST_RESULT] = metrics->request_results;
        metrics->sets[METRIC_SET_PULL_REASON] = (const char *const *) metrics->pull_reasons;
        metrics->sets[METRIC_SET_CRI_METHOD] = options->cri_methods ?: empty;
        metrics->sets[METRIC_SET_LOCAL_API_METHOD] = options->local_api_methods ?: empty;
        metrics->sets[METRIC_SET_VERSION] = metrics->version;
}

int metrics_new(const MetricsOptions *options, Metrics **ret) {
        cleanup(metrics_free_p) Metrics *metrics = NULL;
        int r;

        metrics = calloc(1, sizeof(*metrics));
        if (!metrics)
                return -ENOMEM;

        r = metrics_take_pull_reasons(metrics, options->pull_reasons);
        if (r < 0)
                return r;

        metrics_set_sets(metrics, options);
        metrics->start_time = process_start_time();
        metrics_set(metrics, METRIC_BUILD_INFO, METRIC_LABELS(options->version), 1);

        *ret = take_ptr(metrics);
        return 0;
}

Metrics *metrics_free(Metrics *metrics) {
        if (!metrics)
                return NULL;

        for (MetricId id = 0; id < _METRIC_MAX; id++)
                while (metrics->series[id]) {
                        Series *series = metrics->series[id];

                        metrics->series[id] = series->next;
                        free(series);
                }
        free(metrics->pull_reasons);
        free(metrics);
        return NULL;
}

/* Finds the positions of the label values in their sets. */
static bool labels_resolve(const Metrics *metrics, MetricId id, const char *const *labels,
                           uint8_t ret[static MAX_LABELS]) {

        memset(ret, 0, MAX_LABELS);
        for (size_t i = 0; i < MAX_LABELS && metric_table[id].labels[i].name; i++) {
                const char *const *set = metrics->sets[metric_table[id].labels[i].set];
                size_t n = 0;

                if (!labels || !labels[i])
                        return false;
                while (n < MAX_VALUES && set[n] && strcmp(set[n], labels[i]) != 0)
                        n++;
                if (n == MAX_VALUES || !set[n])
                        return false;
                ret[i] = (uint8_t) n;
        }

        return true;
}

/* Finds the series, or makes it. Returns NULL if that cannot be. */
static Series *metrics_get(Metrics *metrics, MetricId id, const char *const *labels) {
        size_t n_buckets = metric_table[id].type == METRIC_TYPE_HISTOGRAM ? N_BUCKETS + 1 : 0;
        Series **place = &metrics->series[id];
        uint8_t positions[MAX_LABELS];
        Series *series;

        if (!labels_resolve(metrics, id, labels, positions))
                return NULL;

        while (*place && memcmp((*place)->labels, positions, MAX_LABELS) < 0)
                place = &(*place)->next;
        if (*place && memcmp((*place)->labels, positions, MAX_LABELS) == 0)
                return *place;

        series = calloc(1, sizeof(*series) + n_buckets * sizeof(series->buckets[0]));
        if (!series)
                return NULL;

        memcpy(series->labels, positions, MAX_LABELS);
        series->next = *place;
        *place = series;
        return series;
}

/* Finds the series for an update, or counts that there is none. */
static Series *metrics_update(Metrics *metrics, MetricId id, const char *const *labels,
                              bool is_possible) {

        Series *series = NULL;

        if (is_possible)
                series = metrics_get(metrics, id, labels);
        if (!series)
                metrics->n_dropped++;
        return series;
}

void metrics_add(Metrics *metrics, MetricId id, const char *const *labels, double value) {
        Series *series;

        assert(metric_table[id].type != METRIC_TYPE_HISTOGRAM);
        if (!metrics)
                return;

        series = metrics_update(metrics, id, labels,
                                isfinite(value) &&
                                        (value >= 0 || metric_table[id].type == METRIC_TYPE_GAUGE));
        if (series)
                series->value += value;
}

void metrics_count(Metrics *metrics, MetricId id, bool is_success) {
        metrics_add(metrics, id, METRIC_LABELS(is_success ? "succeeded" : "failed"), 1);
}

void metrics_set(Metrics *metrics, MetricId id, const char *const *labels, double value) {
        Series *series;

        assert(metric_table[id].type == METRIC_TYPE_GAUGE);
        if (!metrics)
                return;

        series = metrics_update(metrics, id, labels, isfinite(value));
        if (series)
                series->value = value;
}

void metrics_observe(Metrics *metrics, MetricId id, const char *const *labels, double value) {
        Series *series;
        size_t i = 0;

        assert(metric_table[id].type == METRIC_TYPE_HISTOGRAM);
        if (!metrics)
                return;

        series = metrics_update(metrics, id, labels, isfinite(value) && value >= 0);
        if (!series)
                return;

        while (i < N_BUCKETS && value > metric_table[id].bounds[i])
                i++;
        series->buckets[i]++;
        series->value += value;
}

/* Uses 15 digits ("0.1") if they give the same number, else the exact 17. */
static void write_number(FILE *file, double value) {
        char text[32];

        (void) snprintf(text, sizeof(text), "%.15g", value);
        if (strtod(text, NULL) != value)
                (void) snprintf(text, sizeof(text), "%.17g", value);
        (void) fputs(text, file);
}

static void write_label(FILE *file, const char *separator, const char *name, const char *value) {
        (void) fprintf(file, "%s%s=\"", separator, name);
        for (; *value; value++)
                switch (*value) {
                case '\n': (void) fputs("\\n", file); break;
                case '\\': (void) fputs("\\\\", file); break;
                case '"': (void) fputs("\\\"", file); break;
                default: (void) fputc(*value, file); break;
                }
        (void) fputc('"', file);
}

static void write_header(FILE *file, const char *name, MetricType type, const char *help) {
        (void) fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type_names[type]);
}

/* Writes a line. `bound` is the value of the label "le" of a bucket, or NULL. */
static void write_sample(FILE *file, const Metrics *metrics, const Metric *metric,
                         const Series *series, const char *suffix, const char *bound,
                         double value) {

        const char *separator = "{";

        (void) fprintf(file, "%s%s", metric->name, suffix);
        for (size_t i = 0; i < MAX_LABELS && metric->labels[i].name; i++) {
                const MetricLabel *label = &metric->labels[i];

                write_label(file, separator, label->name,
                            metrics->sets[label->set][series->labels[i]]);
                separator = ",";
        }
        if (bound) {
                write_label(file, separator, "le", bound);
                separator = ",";
        }
        (void) fputs(*separator == ',' ? "} " : " ", file);
        write_number(file, value);
        (void) fputc('\n', file);
}

static void write_histogram(FILE *file, const Metrics *metrics, const Metric *metric,
                            const Series *series) {

        uint64_t n = 0;

        for (size_t i = 0; i <= N_BUCKETS; i++) {
                char bound[32] = "+Inf";

                if (i < N_BUCKETS)
                        (void) snprintf(bound, sizeof(bound), "%g", metric->bounds[i]);
                n += series->buckets[i];
                write_sample(file, metrics, metric, series, "_bucket", bound, (double) n);
        }
        write_sample(file, metrics, metric, series, "_sum", NULL, series->value);
        write_sample(file, metrics, metric, series, "_count", NULL, (double) n);
}

static void write_metric(FILE *file, const Metrics *metrics, MetricId id) {
        static const Series zero = { 0 };
        const Metric *metric = &metric_table[id];
        const Series *series = metrics->series[id];

        if (!series && !metric->labels[0].name && !metric->may_be_unknown)
                series = &zero;
        if (!series)
                return;

        write_header(file, metric->name, metric->type, metric->help);
        for (; series; series = series->next)
                if (metric->type == METRIC_TYPE_HISTOGRAM)
                        write_histogram(file, metrics, metric, series);
                else
                        write_sample(file, metrics, metric, series, "", NULL, series->value);
}

/* A metric that is not in the table. A negative value is an unknown one. */
static void write_fact(FILE *file, const char *name, MetricType type, const char *help,
                       double value) {
        if (value < 0)
                return;

        write_header(file, name, type, help);
        (void) fprintf(file, "%s ", name);
        write_number(file, value);
        (void) fputc('\n', file);
}

/* These names are the same for every program that Prometheus reads. */
static void write_process(FILE *file, const Metrics *metrics) {
        ProcessFacts facts = process_facts_read();

        write_fact(file, "process_cpu_seconds_total", METRIC_TYPE_COUNTER,
                   "User and system CPU time in seconds.", facts.cpu_seconds);
        write_fact(file, "process_max_fds", METRIC_TYPE_GAUGE, "Limit of open file descriptors.",
                   (double) facts.max_fds);
        write_fact(file, "process_open_fds", METRIC_TYPE_GAUGE, "Open file descriptors.",
                   (double) facts.n_open_fds);
        write_fact(file, "process_resident_memory_bytes", METRIC_TYPE_GAUGE,
                   "Resident memory in bytes.", (double) facts.resident_bytes);
        write_fact(file, "process_start_time_seconds", METRIC_TYPE_GAUGE,
                   "When the process started, in seconds since the epoch.", metrics->start_time);
}

int metrics_write(const Metrics *metrics, char **ret_text, size_t *ret_size) {
        cleanup(free_p) char *text = NULL;
        FILE *file;
        size_t size;

        file = text_open(&text, &size);
        if (!file)
                return -ENOMEM;

        for (MetricId id = 0; id < _METRIC_MAX; id++)
                write_metric(file, metrics, id);
        write_fact(file, "inplaced_metrics_dropped_total", METRIC_TYPE_COUNTER,
                   "Increments that could not be counted in the other metrics.",
                   metrics->n_dropped);
        write_process(file, metrics);

        if (text_close(file, &text) < 0)
                return -ENOMEM;

        *ret_text = take_ptr(text);
        *ret_size = size;
        return 0;
}
