/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Metrics, read back by a strict parser of the text format
 */

#include <math.h>
#include <time.h>
#include <unistd.h>

#include "agent/observe/metrics.h"
#include "tests/unit/exposition.h"
#include "tests/unit/unit.h"

DEFINE_CLEANUP(Metrics *, metrics_free)

static const char *const reasons[] = { "NotFound", "NoSpace", NULL };
static const char *const methods[] = { "PullImage", "ImageStatus", NULL };

static Metrics *new_metrics(const char *version) {
        Metrics *metrics = NULL;

        assert_ok(metrics_new(
                &(MetricsOptions){
                        .version = version,
                        .pull_reasons = reasons,
                        .cri_methods = methods,
                        .local_api_methods = methods,
                },
                &metrics));
        return metrics;
}

/* Returns the text after it was found to be well-formed. */
static char *write_metrics(const Metrics *metrics) {
        char *text = NULL;
        size_t size = 0;

        assert_ok(metrics_write(metrics, &text, &size));
        assert_int_equal(size, strlen(text));
        assert_true(exposition_check(text) > 10);
        return text;
}

static void assert_has(const char *text, const char *lines) {
        const char *found = strstr(text, lines);

        if (!found || (found != text && found[-1] != '\n'))
                fail_msg("no line `%s` in:\n%s", lines, text);
}

static void assert_has_not(const char *text, const char *part) {
        if (strstr(text, part))
                fail_msg("`%s` in:\n%s", part, text);
}

/* Without labels: there from the start, unless it may be unknown. With labels: only once used. */
TEST(test_fresh) {
        cleanup(metrics_free_p) Metrics *metrics = new_metrics("1.2.3");
        cleanup(free_p) char *text = write_metrics(metrics);

        assert_has(text, "# HELP inplaced_pulls_queued Image pulls that wait for their turn.\n"
                         "# TYPE inplaced_pulls_queued gauge\n"
                         "inplaced_pulls_queued 0\n");
        assert_has(text, "inplaced_runtime_ready 0\n");
        assert_has(text, "inplaced_build_info{version=\"1.2.3\"} 1\n");
        assert_has(text, "inplaced_metrics_dropped_total 0\n");
        assert_has_not(text, "inplaced_pulls_total");
        assert_has_not(text, "inplaced_pull_bytes_total");
        assert_has_not(text, "inplaced_pull_duration_seconds");
        assert_has_not(text, "inplaced_images_wanted");
}

TEST(test_counter) {
        cleanup(metrics_free_p) Metrics *metrics = new_metrics("1");
        cleanup(free_p) char *text = NULL;

        metrics_add(metrics, METRIC_PULLS, METRIC_LABELS("failed", "NoSpace"), 1);
        metrics_add(metrics, METRIC_PULLS, METRIC_LABELS("succeeded", ""), 1);
        metrics_add(metrics, METRIC_PULLS, METRIC_LABELS("failed", "NotFound"), 1);
        metrics_add(metrics, METRIC_PULLS, METRIC_LABELS("failed", "NoSpace"), 2);
        metrics_add(metrics, METRIC_PULL_BYTES, NULL, 1e15);
        metrics_add(metrics, METRIC_PULL_BYTES, NULL, 1);
        text = write_metrics(metrics);

        assert_has(text, "# TYPE inplaced_pulls_total counter\n"
                         "inplaced_pulls_total{result=\"succeeded\",reason=\"\"} 1\n"
                         "inplaced_pulls_total{result=\"failed\",reason=\"NotFound\"} 1\n"
                         "inplaced_pulls_total{result=\"failed\",reason=\"NoSpace\"} 3\n#");
        assert_has(text, "inplaced_pull_bytes_total 1000000000000001\n");
        assert_has(text, "inplaced_metrics_dropped_total 0\n");
}

TEST(test_gauge) {
        cleanup(metrics_free_p) Metrics *metrics = new_metrics("1");
        cleanup(free_p) char *text = NULL;

        metrics_set(metrics, METRIC_IMAGES_WANTED, METRIC_LABELS("pulling"), 7);
        metrics_set(metrics, METRIC_IMAGES_WANTED, METRIC_LABELS("pulling"), 3);
        metrics_add(metrics, METRIC_LOCAL_API_CONNECTIONS, NULL, 1);
        metrics_add(metrics, METRIC_LOCAL_API_CONNECTIONS, NULL, 1);
        metrics_add(metrics, METRIC_LOCAL_API_CONNECTIONS, NULL, -1);
        metrics_set(metrics, METRIC_STATUS_LAST_WRITE, NULL, 1700000000.125);
        text = write_metrics(metrics);

        assert_has(text, "inplaced_images_wanted{phase=\"pulling\"} 3\n");
        assert_has(text, "inplaced_local_api_connections 1\n");
        assert_has(text, "inplaced_status_last_write_timestamp_seconds 1700000000.125\n");
}

TEST(test_histogram) {
        static const double seconds[] = { 0, 0.1, 0.2, 0.5, 30, 99999 };
        cleanup(metrics_free_p) Metrics *metrics = new_metrics("1");
        cleanup(free_p) char *text = NULL;

        for (size_t i = 0; i < N_ELEMENTS(seconds); i++)
                metrics_observe(metrics, METRIC_PULL_DURATION, METRIC_LABELS("succeeded"),
                                seconds[i]);
        metrics_observe(metrics, METRIC_CRI_REQUEST_DURATION, METRIC_LABELS("ImageStatus"), 0.002);
        text = write_metrics(metrics);

        assert_has(text,
                   "inplaced_pull_duration_seconds_bucket{result=\"succeeded\",le=\"0.1\"} 2\n"
                   "inplaced_pull_duration_seconds_bucket{result=\"succeeded\",le=\"0.5\"} 4\n");
        assert_has(text,
                   "inplaced_pull_duration_seconds_bucket{result=\"succeeded\",le=\"30\"} 5\n");
        assert_has(text,
                   "inplaced_pull_duration_seconds_bucket{result=\"succeeded\",le=\"1800\"} 5\n"
                   "inplaced_pull_duration_seconds_bucket{result=\"succeeded\",le=\"+Inf\"} 6\n"
                   "inplaced_pull_duration_seconds_sum{result=\"succeeded\"} 100029.8\n"
                   "inplaced_pull_duration_seconds_count{result=\"succeeded\"} 6\n");
        assert_has(text, "inplaced_cri_request_duration_seconds_bucket{method=\"ImageStatus\","
                         "le=\"0.0025\"} 1\n");
        assert_has_not(text, "method=\"PullImage\"");
}

/* A value that is no member of a closed set, or no number, makes no series, and is counted. */
TEST(test_dropped) {
        cleanup(metrics_free_p) Metrics *metrics = new_metrics("1");
        cleanup(free_p) char *text = NULL;

        metrics_add(metrics, METRIC_PULLS, METRIC_LABELS("failed", "Surprise"), 1);
        metrics_add(metrics, METRIC_PULLS, METRIC_LABELS("exploded", ""), 1);
        metrics_add(metrics, METRIC_PULLS, METRIC_LABELS("failed"), 1);
        metrics_add(metrics, METRIC_PULLS, NULL, 1);
        metrics_add(metrics, METRIC_PULL_BYTES, NULL, -1);
        metrics_add(metrics, METRIC_PULL_BYTES, NULL, NAN);
        metrics_set(metrics, METRIC_PULLS_QUEUED, NULL, INFINITY);
        metrics_observe(metrics, METRIC_PULL_DURATION, METRIC_LABELS("failed"), -0.1);
        metrics_observe(metrics, METRIC_CRI_REQUEST_DURATION, METRIC_LABELS(""), 1);
        text = write_metrics(metrics);

        assert_has(text, "inplaced_metrics_dropped_total 9\n");
        assert_has_not(text, "inplaced_pull_bytes_total");
        assert_has(text, "inplaced_pulls_queued 0\n");
        assert_has_not(text, "inplaced_pulls_total");
        assert_has_not(text, "inplaced_pull_duration_seconds");
}

TEST(test_request_results_are_the_error_kinds) {
        cleanup(metrics_free_p) Metrics *metrics = new_metrics("1");
        cleanup(free_p) char *text = NULL;

        metrics_add(metrics, METRIC_CRI_REQUESTS, METRIC_LABELS("PullImage", "ok"), 1);
        metrics_add(metrics, METRIC_CRI_REQUESTS, METRIC_LABELS("PullImage", "internal"), 1);
        metrics_add(metrics, METRIC_LOCAL_API_REQUESTS, METRIC_LABELS("PullImage", "denied"), 1);
        metrics_add(metrics, METRIC_LOCAL_API_REQUESTS, METRIC_LABELS("PullImage", "none"), 1);
        text = write_metrics(metrics);

        assert_has(text,
                   "inplaced_cri_requests_total{method=\"PullImage\",result=\"ok\"} 1\n"
                   "inplaced_cri_requests_total{method=\"PullImage\",result=\"internal\"} 1\n");
        assert_has(text,
                   "inplaced_local_api_requests_total{method=\"PullImage\",result=\"denied\"} 1\n");
        assert_has(text, "inplaced_metrics_dropped_total 1\n");
}

TEST(test_label_is_escaped) {
        cleanup(metrics_free_p) Metrics *metrics = new_metrics("a\"b\\c\nd");
        cleanup(free_p) char *text = write_metrics(metrics);

        assert_has(text, "inplaced_build_info{version=\"a\\\"b\\\\c\\nd\"} 1\n");
}

/* Every metric that has labels can be used with every value. */
TEST(test_everything_at_once) {
        static const char *const results[] = { "succeeded", "failed", "present", NULL };
        static const char *const refusals[] = { "limit", "denied", NULL };
        static const char *const phases[] = { "waiting", "pulling", "succeeded", "failed", NULL };
        cleanup(metrics_free_p) Metrics *metrics = new_metrics("1");
        cleanup(free_p) char *text = NULL;

        for (size_t i = 0; results[i]; i++) {
                metrics_add(metrics, METRIC_PULLS, METRIC_LABELS(results[i], ""), 1);
                metrics_observe(metrics, METRIC_PULL_DURATION, METRIC_LABELS(results[i]), 1);
        }
        for (size_t i = 0; refusals[i]; i++)
                metrics_add(metrics, METRIC_LOCAL_API_REFUSED, METRIC_LABELS(refusals[i]), 1);
        for (size_t i = 0; phases[i]; i++)
                metrics_set(metrics, METRIC_IMAGES_WANTED, METRIC_LABELS(phases[i]), 1);
        metrics_set(metrics, METRIC_DESIRED_DOCUMENTS, METRIC_LABELS("accepted"), 1);
        metrics_set(metrics, METRIC_DESIRED_DOCUMENTS, METRIC_LABELS("refused"), 1);
        metrics_add(metrics, METRIC_STATUS_WRITES, METRIC_LABELS("succeeded"), 1);
        metrics_add(metrics, METRIC_STATUS_WRITES, METRIC_LABELS("failed"), 1);
        metrics_add(metrics, METRIC_CONFIG_RELOADS, METRIC_LABELS("failed"), 1);
        metrics_add(metrics, METRIC_RUNTIME_RECONNECTS, NULL, 1);
        metrics_set(metrics, METRIC_RUNTIME_READY, NULL, 1);
        metrics_set(metrics, METRIC_PULLS_RUNNING, NULL, 1);
        text = write_metrics(metrics);

        assert_has(text, "inplaced_metrics_dropped_total 0\n");
}

static double value_of(const char *text, const char *name) {
        const char *line = strstr(text, name);

        while (line && (line[-1] != '\n' || line[strlen(name)] != ' '))
                line = strstr(line + 1, name);
        assert_non_null(line);
        return strtod(line + strlen(name), NULL);
}

TEST(test_process) {
        cleanup(metrics_free_p) Metrics *metrics = new_metrics("1");
        cleanup(free_p) char *before = write_metrics(metrics);
        cleanup(free_p) char *after = NULL;
        int fd = dup(STDOUT_FILENO);
        double age;

        after = write_metrics(metrics);
        close(fd);

        assert_true(value_of(after, "process_open_fds") ==
                    value_of(before, "process_open_fds") + 1);
        assert_true(value_of(after, "process_max_fds") > value_of(after, "process_open_fds"));
        assert_true(value_of(after, "process_resident_memory_bytes") > 500e3);
        assert_true(value_of(after, "process_resident_memory_bytes") < 500e6);
        assert_true(value_of(after, "process_cpu_seconds_total") > 0);
        assert_true(value_of(after, "process_cpu_seconds_total") < 60);
        age = (double) time(NULL) - value_of(after, "process_start_time_seconds");
        assert_true(age > -2 && age < 60);
}

TEST(test_no_metrics) {
        metrics_add(NULL, METRIC_PULL_BYTES, NULL, 1);
        metrics_set(NULL, METRIC_PULLS_QUEUED, NULL, 1);
        metrics_observe(NULL, METRIC_PULL_DURATION, METRIC_LABELS("failed"), 1);
        assert_null(metrics_free(NULL));
}
