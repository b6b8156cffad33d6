/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A kubelet of which the agent knows its Lease alone, with a faked API server
 *
 * Behind fake-kube.h.
 */

#include <time.h>

#include "agent/base/rfc3339.h"
#include "agent/pod/kubelet.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/unit.h"

static inline Kubelet *kubelet_with_lease(void) {
        const KubeletOptions options = {
                .event = fake_kube.event,
                .address = "",
                .client = &fake_kube,
                .node_name = "node-1",
        };
        Kubelet *kubelet;

        assert_ok(kubelet_new(&options, &kubelet, NULL));
        return kubelet;
}

/* The question whether it is there; NULL: it is not asked. */
static inline KubeCall *lease_call(void) {
        return fake_kube_find("GET", "/leases/node-1");
}

/* UNKNOWN: the Lease may not be read. */
static inline void lease_answer(KubeletState state) {
        int64_t renewed_sec = (int64_t) time(NULL) - (state == KUBELET_AWAY ? 3600 : 0);
        char at[RFC3339_SIZE], body[128];

        assert_non_null(lease_call());
        (void) snprintf(body, sizeof(body), "{\"spec\":{\"renewTime\":\"%s\"}}",
                        rfc3339_format(renewed_sec, at));
        assert_ok(fake_kube_answer_call(lease_call(), state == KUBELET_UNKNOWN ? 403 : 200, body));
}
