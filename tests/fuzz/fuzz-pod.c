/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A pod from an attacker: what is refused says why in one line; what is accepted has
 * all of its texts, which come from the input, and containers and statuses within their limits.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/pod/env-hash.h"
#include "agent/pod/pod-spec.h"
#include "tests/fuzz/fuzz.h"

#define CONTAINERS_MAX 1024

DEFINE_CLEANUP(Pod *, pod_free)

static void check_container(const PodContainer *container, size_t size) {
        const char *id = NULL;
        char scheme[16];
        size_t n_names = 0;

        check(container->name[0] && strlen(container->name) < size);
        check(strlen(container->image) < size && strlen(container->container_id) < size);
        check(container->restart_policy[0]);
        check(container->kind >= 0 && container->kind < _POD_CONTAINER_KIND_MAX);
        check(container->kind != POD_CONTAINER_INIT || !container->comes_back);
        check(container->status_index >= -1 && container->status_index < CONTAINERS_MAX);
        check(container->is_running || container->started_at_sec == 0);

        while (container->env_names[n_names])
                n_names++;
        check(n_names < size && (n_names > 0 || container->env_hash == ENV_HASH_NONE));
        if (pod_split_container_id(container->container_id, scheme, sizeof(scheme), &id))
                check(scheme[0] && id[0] && strlen(id) < strlen(container->container_id));
}

static void check_pod(const Pod *pod, size_t size) {
        check(pod->namespace[0] && pod->name[0] && pod->uid[0] && pod->runtime_uid[0]);
        check(pod->resource_version && pod->ip);
        check(pod->grace_sec >= 0 && pod->grace_sec <= INT32_MAX);
        check(pod->update >= 0 && pod->update < _POD_UPDATE_MAX);
        check(!pod->verified_status == !pod->verified_reason &&
              !pod->verified_status == !pod->verified_message);
        check(pod->n_containers <= CONTAINERS_MAX);
        for (size_t i = 0; i < pod->n_containers; i++) {
                const char *name = pod->containers[i].name;

                check_container(&pod->containers[i], size);
                check(pod_find(pod, name) <= &pod->containers[i]);
                check(!pod->containers[i].restarts_on_metadata || pod->restart_on_metadata[0]);
        }
        for (char **image = pod->volume_images; image && *image; image++)
                check((*image)[0] && strlen(*image) < size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(pod_free_p) Pod *pod = NULL;

        if (pod_spec_parse(data, size, &pod, &error) < 0)
                check(!pod && error.kind == ERROR_INVALID &&
                      !strpbrk(error_message(&error), "\r\n"));
        else
                check_pod(pod, size);
        return 0;
}
