/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Metrics
 *
 * Counts the agent's work, in the text format of Prometheus. A table in metrics.c lists all metrics and
 * their labels; the values of a label come from closed sets, so that no input can raise the number of
 * series. A series takes memory, and appears, once it was used; a metric without labels always appears,
 * except those that the runtime may not show.
 *
 * Counting never fails. inplaced_metrics_dropped_total counts updates that were impossible: no memory,
 * an unknown label value, a counter that would decrease.
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/error.h"

typedef struct Metrics Metrics;

typedef enum MetricId {
        METRIC_PULLS,         /* result, reason */
        METRIC_PULL_DURATION, /* result; a histogram in seconds */
        METRIC_PULL_BYTES,
        METRIC_PULLS_QUEUED,
        METRIC_PULLS_RUNNING,
        METRIC_PULLS_PAUSED,  /* seconds */
        METRIC_IMAGES_WANTED, /* phase */
        METRIC_IMAGES_REMOVED,
        METRIC_RUNTIME_READY, /* 0 or 1 */
        METRIC_RUNTIME_RECONNECTS,
        METRIC_CRI_REQUESTS,         /* method, result */
        METRIC_CRI_REQUEST_DURATION, /* method; a histogram in seconds */
        METRIC_DESIRED_DOCUMENTS,    /* state */
        METRIC_LOCAL_API_REQUESTS,   /* method, result */
        METRIC_LOCAL_API_CONNECTIONS,
        METRIC_LOCAL_API_REFUSED,           /* reason */
        METRIC_STATUS_WRITES,               /* result */
        METRIC_STATUS_LAST_WRITE,           /* seconds since the epoch */
        METRIC_API_SERVER_REQUESTS,         /* verb, code */
        METRIC_API_SERVER_REQUEST_DURATION, /* verb; a histogram in seconds */
        METRIC_WATCH_RESTARTS,
        METRIC_WRITES_LIMITED,        /* kind; 0 or 1 */
        METRIC_NODE_IMAGE_WRITES,     /* result */
        METRIC_NODE_IMAGE_LAST_WRITE, /* seconds since the epoch */
        METRIC_PODS,
        METRIC_CONTAINERS,    /* verdict */
        METRIC_POD_WRITES,    /* result */
        METRIC_STOPS,         /* cause, result */
        METRIC_STOP_DURATION, /* cause; a histogram in seconds */
        METRIC_STOPS_RUNNING,
        METRIC_RECREATE_REQUESTS, /* result */
        METRIC_RECREATE_REQUESTS_OPEN,
        METRIC_RECREATE_WRITES, /* result */
        METRIC_PROBES,          /* state */
        METRIC_PROBE_RUNS,      /* kind, result */
        METRIC_PROBE_WRITES,    /* result */
        METRIC_CONFIG_RELOADS,  /* result */
        METRIC_BUILD_INFO,      /* version; set by metrics_new() */
        _METRIC_MAX,
} MetricId;

/* Label values from other parts of the agent. The lists end with NULL, have at most 250 values, and
 * are borrowed, with their texts, until metrics_free(). A NULL list is empty. */
typedef struct MetricsOptions {
        const char *version;
        const char *const *pull_reasons; /* "" is allowed in addition */
        const char *const *cri_methods;
        const char *const *local_api_methods;
} MetricsOptions;

/* The values of a metric's labels, in the order of the table; NULL for a metric without labels.
 * metrics_add(metrics, METRIC_PULLS, METRIC_LABELS("failed", "NotFound"), 1) */
#define METRIC_LABELS(...) ((const char *const[]){ __VA_ARGS__, NULL })

int metrics_new(const MetricsOptions *options, Metrics **ret);
Metrics *metrics_free(Metrics *metrics);

/* metrics NULL: these functions do nothing. */

/* Adds to a counter or a gauge; only a gauge takes a negative value. */
void metrics_add(Metrics *metrics, MetricId id, const char *const *labels, double value);
/* Adds one to a counter whose only label is the result, success or failure. */
void metrics_count(Metrics *metrics, MetricId id, bool is_success);
/* Returns the label "result" of METRIC_CRI_REQUESTS and METRIC_LOCAL_API_REQUESTS. */
const char *metrics_result(ErrorKind kind);

/* Sets a gauge. */
void metrics_set(Metrics *metrics, MetricId id, const char *const *labels, double value);
/* Adds an observation to a histogram, in the base unit (seconds). */
void metrics_observe(Metrics *metrics, MetricId id, const char *const *labels, double value);

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Writes all current values, with those of the process from /proc. The caller owns *ret_text, which
 * is NUL-terminated; *ret_size does not count the NUL. */
int metrics_write(const Metrics *metrics, char **ret_text, size_t *ret_size);
