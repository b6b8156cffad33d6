/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Snapshotters' files about layers, from an attacker
 *
 * No more is there than there is in all, and all is there only where each layer was seen.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/image/on-demand-spec.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char *digests[] = { (char *) "sha256:a", (char *) "sha256:b", (char *) "sha256:c" };
        const size_t n = sizeof(digests) / sizeof(digests[0]);
        cleanup(free_p) char *label = fuzz_text(data, size);
        const char *snapshotter = on_demand_snapshotter(label);

        check(!snapshotter || (snapshotter > label && snapshotter <= label + strlen(label)));
        check(!on_demand_is_mark(label) || !on_demand_is_digest(label));
        for (unsigned n_layers = (unsigned) n; n_layers <= n + 1; n_layers++) {
                ImageOnDemand found = { .n_layers = n_layers, .n_layers_all = n_layers };
                cleanup(free_p) char *text = NULL;

                check(on_demand_count((const char *) data, size, digests, n, &found) == 0);
                check(found.bytes_present <= found.bytes_total);
                check(!found.is_counted || (n_layers == n && found.bytes_total >= n));
                check(!on_demand_is_complete(&found) || found.is_counted);
                text = on_demand_describe(&found);
                check(text && *text);
        }
        return 0;
}
