/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/pod.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/text.h"

static void container_done(PodContainer *container) {
        texts_free(container->env_names);
        free(container->name);
        free(container->image);
        free(container->restart_policy);
        free(container->container_id);
        free(container->former_id);
}

Pod *pod_free(Pod *pod) {
        if (!pod)
                return NULL;

        for (size_t i = 0; i < pod->n_containers; i++)
                container_done(&pod->containers[i]);
        free(pod->containers);
        texts_free(pod->volume_images);
        free(pod->verified_message);
        free(pod->kruise_message);
        free(pod->verified_reason);
        free(pod->verified_status);
        free(pod->meta);
        free(pod->restart_on_metadata);
        free(pod->ip);
        free(pod->runtime_uid);
        free(pod->resource_version);
        free(pod->uid);
        free(pod->name);
        free(pod->namespace);
        free(pod);
        return NULL;
}

const PodContainer *pod_find(const Pod *pod, const char *container) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (strcmp(pod->containers[i].name, container) == 0)
                        return &pod->containers[i];

        return NULL;
}

bool pod_may_restart(const PodContainer *container) {
        return container->comes_back || container->rules_decide ||
               strcmp(container->restart_policy, "Never") != 0;
}

bool pod_split_container_id(const char *id, char *scheme, size_t scheme_size, const char **ret_id) {
        const char *separator = strstr(id, "://");
        size_t size;

        if (!separator || separator == id || separator[3] == '\0')
                return false;

        size = (size_t) (separator - id);
        if (size >= scheme_size)
                return false;

        memcpy(scheme, id, size);
        scheme[size] = '\0';
        *ret_id = separator + 3;
        return true;
}
