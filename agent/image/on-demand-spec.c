/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/on-demand-spec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"

#define LAYER_SIZE_MAX (INT64_C(1) << 50) /* a petabyte; sums of layers do not overflow */
#define LABEL_SNAPSHOT "containerd.io/gc.ref.snapshot."

static bool is_one_of(const char *text, const char *const *texts) {
        while (*texts && strcmp(*texts, text) != 0)
                texts++;

        return *texts;
}

const char *on_demand_snapshotter(const char *label) {
        static const char *const local[] = { "overlayfs", "native",    "btrfs", "zfs",
                                             "devmapper", "blockfile", "erofs", NULL };
        size_t prefix = strlen(LABEL_SNAPSHOT);

        if (strncmp(label, LABEL_SNAPSHOT, prefix) != 0 || is_one_of(label + prefix, local))
                return NULL;

        return label + prefix;
}

bool on_demand_is_mark(const char *label) {
        static const char *const marks[] = {
                "containerd.io/snapshot/remote",     /* stargz, SOCI, overlaybd */
                "containerd.io/snapshot/nydus-blob", /* nydus: pkg/label/label.go */
                "containerd.io/snapshot/stargz",     /* an eStargz layer in nydus */
                NULL,
        };

        return is_one_of(label, marks);
}

bool on_demand_is_digest(const char *label) {
        static const char *const digests[] = {
                "containerd.io/snapshot/cri.layer-digest",
                "containerd.io/snapshot/remote/stargz.digest", /* pulled by ctr-remote or nerdctl */
                NULL,
        };

        return is_one_of(label, digests);
}

typedef struct Layer {
        bool is_seen;
        uint64_t present, size;
} Layer;

/* Counts the bytes that all mounts of a layer have: a layer may be mounted more than once, with its
 * own content each time, also by another runtime, and the image's mount is unknown. */
static void take_line(json_object *line, char *const *digests, Layer *layers, size_t n_layers) {
        const char *digest = json_get_text(line, "digest");
        int64_t size = json_get_integer(line, "size");
        int64_t present = json_get_integer(line, "fetchedSize");

        if (!digest || size <= 0 || size > LAYER_SIZE_MAX || present < 0 || present > size)
                return;

        for (size_t i = 0; i < n_layers; i++) {
                if (strcmp(digests[i], digest) != 0)
                        continue;

                if (!layers[i].is_seen || (uint64_t) present < layers[i].present)
                        layers[i].present = (uint64_t) present;
                layers[i].is_seen = true;
                layers[i].size = (uint64_t) size;
        }
}

int on_demand_count(const char *lines, size_t size, char *const *digests, size_t n_digests,
                    ImageOnDemand *found) {
        cleanup(free_p) Layer *layers = calloc(n_digests + 1, sizeof(layers[0]));
        const char *end = lines + size;

        if (!layers)
                return -ENOMEM;

        while (lines < end) {
                cleanup(json_object_put_p) json_object *line = NULL;
                const char *stop = memchr(lines, '\n', (size_t) (end - lines)) ?: end;
                int r;

                r = json_parse(lines, (size_t) (stop - lines), &line, NULL);
                if (r == -ENOMEM)
                        return r;
                if (r >= 0)
                        take_line(line, digests, layers, n_digests);
                lines = stop + 1;
        }

        found->is_counted = n_digests > 0 && n_digests == found->n_layers;
        found->bytes_present = found->bytes_total = 0;
        for (size_t i = 0; i < n_digests; i++) {
                found->is_counted = found->is_counted && layers[i].is_seen;
                found->bytes_present += layers[i].present;
                found->bytes_total += layers[i].size;
        }
        return 0;
}

bool on_demand_is_complete(const ImageOnDemand *found) {
        return found->n_layers == 0 ||
               (found->is_counted && found->bytes_present == found->bytes_total);
}

bool on_demand_is_hidden(const ImageOnDemand *found) {
        return found->n_layers > 0 && !found->is_counted;
}

char *on_demand_describe(const ImageOnDemand *found) {
        double present = (double) found->bytes_present / 1e6;
        double total = (double) found->bytes_total / 1e6;
        char *text;
        int n;

        if (!found->is_counted)
                n = text_format(&text,
                                "%u of %u layers are fetched on demand, how much of them is on the "
                                "node cannot be seen",
                                found->n_layers, found->n_layers_all);
        else if (on_demand_is_complete(found))
                n = text_format(&text,
                                "%u of %u layers are fetched on demand, all %.1f MB of them are on "
                                "the node",
                                found->n_layers, found->n_layers_all, total);
        else
                n = text_format(
                        &text,
                        "%u of %u layers are fetched on demand, %.1f of %.1f MB of them are on "
                        "the node",
                        found->n_layers, found->n_layers_all, present, total);

        return n < 0 ? NULL : text;
}
