/* SPDX-License-Identifier: Apache-2.0 */

#include "cri/discover.h"

#include <stddef.h>

const char *const discover_usual_sockets[] = {
        "/run/containerd/containerd.sock",
        "/run/k3s/containerd/containerd.sock", /* RKE2 too */
        "/var/snap/microk8s/common/run/containerd.sock",
        "/run/k0s/containerd.sock",
        "/run/crio/crio.sock",
        "/run/cri-dockerd.sock",
        NULL,
};

const char *const discover_kruise_sockets[] = {
        "/hostvarrun/containerd/containerd.sock",
        "/hostvarrun/containerd.sock",
        "/hostvarrun/crio/crio.sock",
        "/hostvarrun/crio.sock",
        "/hostvarrun/cri-dockerd/cri-dockerd.sock",
        "/hostvarrun/cri-dockerd.sock",
        NULL,
};
