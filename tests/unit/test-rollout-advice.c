/* SPDX-License-Identifier: Apache-2.0 */

/* Advice that a person gets after an update in place. */

#include "agent/kubectl/rollout-advice.h"

#include "tests/unit/complaint.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

static const struct ManifestRow {
        const char *name;
        const char *image;   /* in the template now */
        const char *applied; /* in the manifest that was applied last */
        bool is_other;
} manifest_rows[] = {
        { "the same", "r:5000/app:1.2", "r:5000/app:1.2", false },
        { "another tag", "app:2", "app:1", true },
        { "a tag that begins with this one", "app:1.2", "app:1.20", true },
        { "a name that ends with this one", "app:1", "team/app:1", true },
        { "without a tag", "app", "app:1", true },
        { "with a digest", "app:1", "app:1@sha256:0", true },
};

/* The next "kubectl apply" of a manifest with other images would replace the pods. */
TEST_ROWS(test_manifest, manifest_rows, name, const struct ManifestRow *row) {
        cleanup(json_object_put_p) json_object *workload = parse(
                "{'metadata':{'name':'web','annotations':"
                "{'kubectl.kubernetes.io/last-applied-configuration':'{\\'image\\':\\'%s\\'}'}},"
                "'spec':{'template':{'spec':{'containers':[{'name':'app','image':'%s'}]}}}}",
                row->applied, row->image);
        cleanup(json_object_put_p) json_object *record =
                parse("{'after':{'app':'%s'}}", row->image);
        const RolloutWatch watch = { .path = { .name = "web" },
                                     .view = { .kind = WORKLOAD_DEPLOYMENT,
                                               .workload = workload } };

        rollout_explain_manifest(&watch, record);
        assert_int_equal(said != NULL, row->is_other);
        if (row->is_other)
                assert_contains(said, "its manifest has other images");
        forget_complaint();
}
