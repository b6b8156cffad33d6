/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/observe/metrics.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/error.h"
#include "agent/observe/metrics-table.h"
#include "agent/observe/process.h"

#define MAX_VALUES 251

static const char *const type_names[] = {
        [METRIC_TYPE_COUNTER] = "counter",
        [METRIC_TYPE_GAUGE] = "gauge",
        [METRIC_TYPE_HISTOGRAM] = "histogram",
};

/* One combination of label values of one metric. */
typedef struct Series Series;
struct Series {
        Series *next; /* in the order of the label values in their sets */
        uint8_t labels[METRIC_MAX_LABELS];
        double value;       /* of a histogram: the sum */
        uint64_t buckets[]; /* only of a histogram; the last one is +Inf; not cumulative */
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

static void metrics_set_sets(Metrics *metrics, const MetricsOptions *options) {
        static const char *const empty[] = { NULL };

        memcpy(metrics->sets, metric_fixed_sets, sizeof(metrics->sets));

        metrics->request_results[0] = "ok";
        for (ErrorKind kind = ERROR_NONE + 1; kind < _ERROR_KIND_MAX; kind++)
                metrics->request_results[kind] = error_kind_to_string(kind);
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
                           uint8_t ret[static METRIC_MAX_LABELS]) {

        memset(ret, 0, METRIC_MAX_LABELS);
        for (size_t i = 0; i < METRIC_MAX_LABELS && metric_table[id].labels[i].name; i++) {
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
        size_t n_buckets =
                metric_table[id].type == METRIC_TYPE_HISTOGRAM ? METRIC_N_BUCKETS + 1 : 0;
        Series **place = &metrics->series[id];
        uint8_t positions[METRIC_MAX_LABELS];
        Series *series;

        if (!labels_resolve(metrics, id, labels, positions))
                return NULL;

        while (*place && memcmp((*place)->labels, positions, METRIC_MAX_LABELS) < 0)
                place = &(*place)->next;
        if (*place && memcmp((*place)->labels, positions, METRIC_MAX_LABELS) == 0)
                return *place;

        series = calloc(1, sizeof(*series) + n_buckets * sizeof(series->buckets[0]));
        if (!series)
                return NULL;

        memcpy(series->labels, positions, METRIC_MAX_LABELS);
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

        while (i < METRIC_N_BUCKETS && value > metric_table[id].bounds[i])
                i++;
        series->buckets[i]++;
        series->value += value;
}

/* 15 digits are what people wrote ("0.1"), 17 are what the machine meant. */
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

/* One line. `bound` is the value of the label "le" of a bucket, or NULL. */
static void write_sample(FILE *file, const Metrics *metrics, const Metric *metric,
                         const Series *series, const char *suffix, const char *bound,
                         double value) {

        const char *separator = "{";

        (void) fprintf(file, "%s%s", metric->name, suffix);
        for (size_t i = 0; i < METRIC_MAX_LABELS && metric->labels[i].name; i++) {
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

        for (size_t i = 0; i <= METRIC_N_BUCKETS; i++) {
                char bound[32] = "+Inf";

                if (i < METRIC_N_BUCKETS)
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

        if (!series && !metric->labels[0].name)
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
        int r;

        file = open_memstream(&text, &size);
        if (!file)
                return -ENOMEM;

        for (MetricId id = 0; id < _METRIC_MAX; id++)
                write_metric(file, metrics, id);
        write_fact(file, "inplaced_metrics_dropped_total", METRIC_TYPE_COUNTER,
                   "What could not be counted in the other metrics.", metrics->n_dropped);
        write_process(file, metrics);

        r = ferror(file);
        if (fclose(file) != 0 || r)
                return -ENOMEM;

        *ret_text = take_ptr(text);
        *ret_size = size;
        return 0;
}
