/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/calls.h"
#include "agent/base/cleanup.h"

typedef Inplaced__V1__Probe ProbeMessage;
typedef Inplaced__V1__ListProbesRequest ListProbesMessage;

/* clang-format off */
static const Inplaced__V1__ProbeState states[_PROBE_STATE_MAX] = {
        [PROBE_UNKNOWN]   = INPLACED__V1__PROBE_STATE__PROBE_STATE_UNKNOWN,
        [PROBE_SUCCEEDED] = INPLACED__V1__PROBE_STATE__PROBE_STATE_SUCCEEDED,
        [PROBE_FAILED]    = INPLACED__V1__PROBE_STATE__PROBE_STATE_FAILED,
};
/* clang-format on */

static int compare(const void *a, const void *b) {
        const ProbeMessage *const *left = a, *const *right = b;
        int r;

        if ((r = strcmp((*left)->namespace_, (*right)->namespace_)) != 0 ||
            (r = strcmp((*left)->pod, (*right)->pod)) != 0 ||
            (r = strcmp((*left)->container, (*right)->container)) != 0)
                return r;

        return strcmp((*left)->name, (*right)->name);
}

static void message_init(ProbeMessage *message, const Probe *probe) {
        const ProbeActivity activity = probe_activity(probe);
        const ProbeResult *result = probe_result(probe);
        const ProbeSpec *spec = probe_spec(probe);
        const char *text = result ? result->message : "";

        inplaced__v1__probe__init(message);
        message->namespace_ = plain_text(spec->namespace);
        message->pod = plain_text(spec->pod);
        message->container = plain_text(spec->container);
        message->name = plain_text(spec->name);
        message->kind = (char *) probe_kind_to_string(spec->handler.kind);
        message->period_seconds = spec->period_sec;
        message->runs = activity.n_runs;
        message->duration_usec = activity.duration_usec;
        message->message = (char *) (activity.problem ?: text);
        if (result) {
                message->state = states[result->state];
                message->since = result->transition_sec;
        }
}

static bool is_asked_for(const ListProbesMessage *asked, const ProbeSpec *spec) {
        return (!asked->namespace_[0] || strcmp(asked->namespace_, spec->namespace) == 0) &&
               (!asked->pod[0] || strcmp(asked->pod, spec->pod) == 0);
}

int api_list_probes(RpcRequest *request, const void *message, void *userdata) {
        Inplaced__V1__ListProbesResponse reply = INPLACED__V1__LIST_PROBES_RESPONSE__INIT;
        Api *api = userdata;
        const size_t n = api->probes ? probes_count(api->probes) : 0;
        cleanup(free_p) ProbeMessage *items = calloc(n + 1, sizeof(items[0]));
        cleanup(free_p) ProbeMessage **list = calloc(n + 1, sizeof(list[0]));

        if (!items || !list) {
                rpc_request_unref(request);
                return -ENOMEM;
        }

        for (size_t i = 0; i < n; i++) {
                const Probe *probe = probes_get(api->probes, i);

                if (!is_asked_for(message, probe_spec(probe)))
                        continue;
                message_init(&items[i], probe);
                list[reply.n_probes++] = &items[i];
        }

        qsort(list, reply.n_probes, sizeof(list[0]), compare);
        reply.probes = list;
        return api_reply(api, request, &reply.base);
}
