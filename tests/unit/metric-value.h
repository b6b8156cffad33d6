/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Metrics for a part that counts, and what it has counted
 */

#include "agent/observe/metrics.h"
#include "tests/unit/unit.h"

static inline Metrics *metrics_for_test(void) {
        Metrics *metrics;

        assert_ok(metrics_new(&(MetricsOptions){ .version = "test" }, &metrics));
        return metrics;
}

/* "inplaced_x_total", "inplaced_y_total{result=\"failed\"}". 0: there is no such series yet. */
static inline double metric_value(const Metrics *metrics, const char *series) {
        char line[256];
        double value = 0;
        const char *at;
        size_t size;
        char *text;

        assert_ok(metrics_write(metrics, &text, &size));
        (void) snprintf(line, sizeof(line), "\n%s ", series);
        at = strstr(text, line);
        if (at)
                value = strtod(at + strlen(line), NULL);
        free(text);
        return value;
}
