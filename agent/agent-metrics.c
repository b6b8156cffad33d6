/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/agent-metrics.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cri/client.h"

#define USEC_PER_SEC 1e6

static const char *const phase_labels[_IMAGE_PHASE_MAX] = {
        [IMAGE_WAITING] = "waiting",
        [IMAGE_PULLING] = "pulling",
        [IMAGE_SUCCEEDED] = "succeeded",
        [IMAGE_FAILED] = "failed",
};

static const char *const verdict_labels[_VERDICT_MAX] = {
        [VERDICT_UNKNOWN] = "unknown",
        [VERDICT_CURRENT] = "current",
        [VERDICT_STALE] = "stale",
};

int agent_metrics_init(AgentMetrics *metrics, const DiagnosisSubject *subject) {
        const MetricsOptions options = {
                .version = INPLACED_VERSION,
                .pull_reasons = metrics->reasons,
                .cri_methods = cri_method_names,
                .local_api_methods = api_method_names,
        };

        *metrics = (AgentMetrics){ .subject = subject };
        for (PullReason reason = PULL_REASON_NONE + 1; reason < _PULL_REASON_MAX; reason++)
                metrics->reasons[reason - 1] = pull_reason_to_string(reason);
        return metrics_new(&options, &metrics->metrics);
}

void agent_metrics_done(AgentMetrics *metrics) {
        metrics->metrics = metrics_free(metrics->metrics);
}

static const char *result_of(const ImageStatus *status) {
        if (status->phase == IMAGE_FAILED)
                return "failed";

        return status->was_present ? "present" : "succeeded";
}

void agent_metrics_on_outcome(AgentMetrics *metrics, const ImageStatus *status) {
        const char *result = result_of(status);
        const char *reason =
                status->phase == IMAGE_FAILED ? pull_reason_to_string(status->reason) : "";

        metrics_add(metrics->metrics, METRIC_PULLS, METRIC_LABELS(result, reason), 1);
        metrics_observe(metrics->metrics, METRIC_PULL_DURATION, METRIC_LABELS(result),
                        (double) status->duration_usec / USEC_PER_SEC);
}

static const char *result_label(ErrorKind result) {
        return result == ERROR_NONE ? "ok" : error_kind_to_string(result);
}

void agent_metrics_on_cri_call(AgentMetrics *metrics, const RpcMethod *method,
                               uint64_t duration_usec, ErrorKind result) {
        const char *name = cri_method_name(method);

        metrics_add(metrics->metrics, METRIC_CRI_REQUESTS,
                    METRIC_LABELS(name, result_label(result)), 1);
        metrics_observe(metrics->metrics, METRIC_CRI_REQUEST_DURATION, METRIC_LABELS(name),
                        (double) duration_usec / USEC_PER_SEC);
}

void agent_metrics_on_request(AgentMetrics *metrics, const char *method, ErrorKind result) {
        metrics_add(metrics->metrics, METRIC_LOCAL_API_REQUESTS,
                    METRIC_LABELS(method, result_label(result)), 1);
}

void agent_metrics_on_refused(AgentMetrics *metrics, ListenerRefusal refusal) {
        metrics_add(metrics->metrics, METRIC_LOCAL_API_REFUSED,
                    METRIC_LABELS(listener_refusal_to_string(refusal)), 1);
}

void agent_metrics_on_written(AgentMetrics *metrics, int result) {
        metrics_count(metrics->metrics, METRIC_STATUS_WRITES, result >= 0);
        if (result >= 0)
                metrics_set(metrics->metrics, METRIC_STATUS_LAST_WRITE, NULL, (double) time(NULL));
}

static void look_at_images(AgentMetrics *metrics) {
        const Images *images = metrics->subject->images;
        ImagesWork work = images_work(images);
        size_t counts[_IMAGE_PHASE_MAX] = { 0 };

        for (size_t i = 0; i < images_count(images); i++)
                if (image_is_desired(images_get(images, i)))
                        counts[image_status(images_get(images, i))->phase]++;

        for (ImagePhase phase = 0; phase < _IMAGE_PHASE_MAX; phase++)
                metrics_set(metrics->metrics, METRIC_IMAGES_WANTED,
                            METRIC_LABELS(phase_labels[phase]), (double) counts[phase]);

        metrics_set(metrics->metrics, METRIC_PULLS_QUEUED, NULL, (double) work.n_queued);
        metrics_set(metrics->metrics, METRIC_PULLS_RUNNING, NULL, (double) work.n_pulling);
        metrics_add(metrics->metrics, METRIC_PULL_BYTES, NULL,
                    (double) (work.bytes_pulled - metrics->bytes_counted));
        metrics->bytes_counted = work.bytes_pulled;
}

static void look_at_runtime(AgentMetrics *metrics) {
        const Runtime *runtime = runtimes_chosen(metrics->subject->runtimes);
        bool is_ready = runtime && runtime_state(runtime) == RUNTIME_READY;
        unsigned connects = runtime ? runtime_n_connects(runtime) : 0;

        /* The first connection is no reconnection. */
        metrics_set(metrics->metrics, METRIC_RUNTIME_READY, NULL, is_ready);
        if (connects > metrics->connects_counted + 1)
                metrics_add(metrics->metrics, METRIC_RUNTIME_RECONNECTS, NULL,
                            connects - 1 - metrics->connects_counted);
        if (connects > 0)
                metrics->connects_counted = connects - 1;
}

static void look_at_folder(AgentMetrics *metrics) {
        const ImagesDir *dir = folder_dir(metrics->subject->folder);
        size_t n_refused = 0, n_accepted = 0;

        for (size_t i = 0; i < images_dir_get_n_files(dir); i++) {
                const ImagesFile *file = images_dir_get_file(dir, i);

                n_refused += file->error.kind != ERROR_NONE;
                n_accepted += file->n_documents;
        }

        metrics_set(metrics->metrics, METRIC_DESIRED_DOCUMENTS, METRIC_LABELS("accepted"),
                    (double) n_accepted);
        metrics_set(metrics->metrics, METRIC_DESIRED_DOCUMENTS, METRIC_LABELS("refused"),
                    (double) n_refused);
}

static void look_at_pods(AgentMetrics *metrics) {
        metrics_set(metrics->metrics, METRIC_STOPS_RUNNING, NULL,
                    (double) stops_n_running(metrics->stops));
        if (!metrics->pods)
                return;

        metrics_set(metrics->metrics, METRIC_PODS, NULL, (double) pods_count(metrics->pods));
        metrics_set(metrics->metrics, METRIC_RECREATE_REQUESTS_OPEN, NULL,
                    (double) recreate_n_open(metrics->recreate));
        for (Verdict verdict = 0; verdict < _VERDICT_MAX; verdict++)
                metrics_set(metrics->metrics, METRIC_CONTAINERS,
                            METRIC_LABELS(verdict_labels[verdict]),
                            (double) inplace_count(metrics->meta, verdict));
}

int agent_metrics_serve(HttpReply *reply, void *userdata) {
        AgentMetrics *metrics = userdata;

        look_at_images(metrics);
        look_at_runtime(metrics);
        if (metrics->subject->folder)
                look_at_folder(metrics);
        if (metrics->stops)
                look_at_pods(metrics);
        metrics_set(metrics->metrics, METRIC_LOCAL_API_CONNECTIONS, NULL,
                    (double) api_n_connections(metrics->api));

        reply->content_type = METRICS_CONTENT_TYPE;
        return metrics_write(metrics->metrics, &reply->body, &reply->size);
}
