/* SPDX-License-Identifier: Apache-2.0 */

/* Tests sentences about updates in place. */

#include "tests/unit/unit.h"

#include "agent/base/rfc3339.h"
#include "agent/kubectl/rollout-text.h"
#include "tests/unit/quoted-json.h"

#define POD_OF(owner, more, image)                                                                \
        "{'metadata':{'ownerReferences':[{'controller':true,'uid':'" owner "'}]" more "},'spec':" \
        "{'containers':[{'name':'app','image':'" image "'}]}}"
#define POD(more, image) POD_OF("u", more, image)
#define DELETED ",'deletionTimestamp':'2026-11-23T05:09:20Z'"
#define RESTARTED                                                                                    \
        ",'annotations':{'inplaced.io/restarted':'{\\u0022app\\u0022:{\\u0022image\\u0022:\\u0022v2" \
        "\\u0022,\\u0022as\\u0022:\\u0022v2@x\\u0022}}'}"

static const struct KeptRow {
        const char *pods;
        const char *text;
} kept_rows[] = {
        { "{}", "" },
        { "{'a':" POD("", "v2") ",'b':" POD("", "v2") "}", "app=v2" },
        { "{'a':" POD("", "v2") ",'b':" POD("", "v1") ",'c':" POD("", "v2") "}",
          "app=v2 (2 pods); app=v1 (1 pod)" },
        { "{'a':" POD(RESTARTED, "v2@x") ",'b':" POD("", "v2") "}", "app=v2" },
        { "{'a':" POD(DELETED, "v1") ",'b':" POD("", "v2") "}", "app=v2" },
        { "{'a':" POD("", "v2") ",'b':" POD_OF("other", "", "v1") "}", "app=v2" },
};

TEST_ROWS(test_kept, kept_rows, pods, const struct KeptRow *row) {
        cleanup(json_object_put_p) json_object *images = parse("{'app':'v3'}");
        cleanup(json_object_put_p) json_object *workload =
                parse("{'metadata':{'uid':'u'},"
                      "'spec':{'template':{'spec':{'containers':[{'name':'app','image':'v9'}]}}}}");

        cleanup(json_object_put_p) json_object *pods = parse("%s", row->pods);
        const RolloutView view = { .kind = WORKLOAD_REPLICA_SET,
                                   .workload = workload,
                                   .pods = pods };
        cleanup(free_p) char *text = NULL;

        assert_ok(rollout_text_kept(&view, images, &text));
        assert_string_equal(text, row->text);
}

static const struct TimeRow {
        const char *time;
        const char *text;
} time_rows[] = {
        { "2026-11-23T04:58:00Z", "2026-11-23T04:58:00Z (12m ago)" },
        { "2026-11-23T05:10:07Z", "2026-11-23T05:10:07Z (0s ago)" }, /* by a clock that is ahead */
        { "some day", "some day" },
};

TEST_ROWS(test_time, time_rows, time, const struct TimeRow *row) {
        cleanup(free_p) char *text = NULL;
        int64_t now_sec;

        assert_ok(rfc3339_parse("2026-11-23T05:10:00Z", &now_sec));
        assert_ok(rollout_text_time(row->time, now_sec, &text));
        assert_string_equal(text, row->text);
}
