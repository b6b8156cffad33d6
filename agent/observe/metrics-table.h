/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which metrics there are
 *
 * The table behind metrics.c and nobody else: names, types, labels and help. Whoever adds a metric
 * adds it to MetricId in metrics.h and to the table; nothing else knows the names.
 */

#include "agent/observe/metrics.h"

#define METRIC_MAX_LABELS 2
#define METRIC_N_BUCKETS 12

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
        METRIC_SET_VERB,
        METRIC_SET_CODE,           /* of HTTP; "none": nobody answered */
        METRIC_SET_REQUEST_RESULT, /* "ok" and the error kinds */
        METRIC_SET_PULL_REASON,    /* from here on: given to metrics_new() */
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
        const double *bounds; /* of a histogram, METRIC_N_BUCKETS; +Inf goes without saying */
        MetricLabel labels[METRIC_MAX_LABELS]; /* unused ones have no name */
        const char *help;
} Metric;

extern const Metric metric_table[_METRIC_MAX];

/* NULL for a set that is not known before metrics_new(). */
extern const char *const *const metric_fixed_sets[_METRIC_SET_MAX];
