/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/pulls-plan.h"

#include <ctype.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/workload.h"

/* Reasons that are the kubelet's while it pulls, or between two attempts. */
static bool is_reason_of_image(const char *reason) {
        static const char *const reasons[] = { "ContainerCreating", "PodInitializing",
                                               "ErrImagePull", "ImagePullBackOff" };

        for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
                if (strcmp(reason, reasons[i]) == 0)
                        return true;
        return false;
}

/* A terminated container that is started again waits as well: for the image of an update in place, say. */
static bool container_awaits_image(json_object *pod, json_object *status) {
        json_object *state = json_get(status, "state", json_type_object);
        const char *reason = object_text(state, "waiting.reason");

        if (object_at(state, "running"))
                return false;
        if (object_at(state, "terminated"))
                return json_is(object_at(pod, "spec"), "restartPolicy", "Always");

        return !reason || is_reason_of_image(reason);
}

/* While it runs, the main containers wait for it, and not for images. */
static bool has_running_init_container(json_object *pod) {
        json_object *containers = object_list(pod, "spec.initContainers");
        size_t n = containers ? json_object_array_length(containers) : 0;

        for (size_t i = 0; i < n; i++) {
                json_object *container = json_object_array_get_idx(containers, i);
                const char *name = json_get_text(container, "name");
                json_object *status = name ? container_status(pod, name) : NULL;

                if (!json_is(container, "restartPolicy", "Always") &&
                    object_at(status, "state.running"))
                        return true;
        }
        return false;
}

bool pod_awaits_image(json_object *pod) {
        json_object *template = object_template(pod);

        if (!json_get_filled(object_at(pod, "spec"), "nodeName") || object_is_deleted(pod) ||
            pod_has_ended(pod) || has_running_init_container(pod))
                return false;

        for (size_t i = 0;; i++) {
                json_object *container = template_container(template, i);
                const char *name = json_get_text(container, "name");

                if (!container)
                        return false;
                if (name && !template_ends(template, name) &&
                    container_awaits_image(pod, container_status(pod, name)))
                        return true;
        }
}

bool pull_is_of_agent(json_object *pull) {
        json_object *owners = json_get(pull, "requestedBy", json_type_array);

        return owners && json_object_array_length(owners) > 0;
}

ssize_t json_object_end(const char *text, size_t size) {
        size_t depth = 0, at = 0;
        bool is_string = false;

        while (at < size && isspace((unsigned char) text[at]))
                at++;
        if (at < size && text[at] != '{')
                return -1;

        for (; at < size; at++) {
                if (is_string && text[at] == '\\')
                        at++;
                else if (text[at] == '"')
                        is_string = !is_string;
                else if (!is_string && (text[at] == '{' || text[at] == '['))
                        depth++;
                else if (!is_string && (text[at] == '}' || text[at] == ']') && --depth == 0)
                        return (ssize_t) at + 1;
        }
        return 0;
}

/* clang-format off */
static const struct {
        const char *sign, *advice;
} advices[] = {
        { "orbidden",             "it takes the right to create pods/exec there, see inplaced-pull-viewers" },
        { "unknown command",      "update its agent, which is too old" },
        { "is no option",         "update its agent, which is too old" },
        { "executable file not ", "update its agent, which is too old" },
        { "cannot be started",    "install kubectl, or add its folder to PATH" },
        { "",                     "see: kubectl inplace doctor" },
};
/* clang-format on */

int pulls_explain(const char *node, const char *namespace, const char *reason, char **ret) {
        size_t i = 0;

        while (!strstr(reason, advices[i].sign))
                i++;
        return text_format(ret, "node %s: kubectl exec in namespace %s %s; %s", node, namespace,
                           reason, advices[i].advice);
}
