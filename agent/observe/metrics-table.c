/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/observe/metrics-table.h"

#include <stddef.h>

const char *const *const metric_fixed_sets[_METRIC_SET_MAX] = {
        [METRIC_SET_PULL_RESULT] = METRIC_LABELS("succeeded", "failed", "canceled", "present"),
        [METRIC_SET_PHASE] = METRIC_LABELS("waiting", "pulling", "succeeded", "failed"),
        [METRIC_SET_STATE] = METRIC_LABELS("accepted", "refused"),
        [METRIC_SET_WRITE_RESULT] = METRIC_LABELS("succeeded", "failed"),
        [METRIC_SET_REFUSED_REASON] = METRIC_LABELS("limit", "junk", "silent", "denied"),
        [METRIC_SET_VERDICT] = METRIC_LABELS("unknown", "current", "stale"),
        [METRIC_SET_STOP_CAUSE] = METRIC_LABELS("metadata", "recreate", "request"),
        [METRIC_SET_STOP_RESULT] = METRIC_LABELS("stopped", "gone", "not-asked", "failed"),
        [METRIC_SET_VERB] = METRIC_LABELS("get", "list", "watch", "create", "patch", "delete"),
        [METRIC_SET_CODE] = METRIC_LABELS("none", "200", "201", "400", "401", "403", "404", "409",
                                          "410", "422", "429", "500", "502", "503", "504", "other"),
};

/* In seconds. */
static const double pull_bounds[METRIC_N_BUCKETS] = { 0.1, 0.5, 1,   2.5, 5,   10,
                                                      30,  60,  120, 300, 600, 1800 };
static const double request_bounds[METRIC_N_BUCKETS] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1,
                                                         0.5,   1,      5,     10,   60,    300 };

/* clang-format off */
const Metric metric_table[_METRIC_MAX] = {
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
                "Bytes of image content that pulls brought to this node." },
        [METRIC_PULLS_QUEUED] = {
                "inplaced_pulls_queued", METRIC_TYPE_GAUGE, NULL, { { 0 } },
                "Image pulls that wait for their turn." },
        [METRIC_PULLS_RUNNING] = {
                "inplaced_pulls_running", METRIC_TYPE_GAUGE, NULL, { { 0 } },
                "Image pulls that run now." },
        [METRIC_IMAGES_WANTED] = {
                "inplaced_images_wanted", METRIC_TYPE_GAUGE, NULL,
                { { "phase", METRIC_SET_PHASE } },
                "Images that somebody asked for, by phase." },
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
                "Pods of this node, as the API server has them." },
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
