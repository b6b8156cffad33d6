/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the document at the end of an update in place
 */

#include "agent/kubectl/rollout-report.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define POD(name, more, image)                          \
        "{'metadata':{'name':'" name "'},'spec':{" more \
        "'containers':[{'name':'app','image':'" image "'}]}}"
#define PODS                                                                   \
        "[{'name':'web-0','node':'n','phase':'updated','images':{'app':'B'}}," \
        "{'name':'web-1','phase':'failed','reason':'no','images':{'app':'A'}}]"

static const struct ReportRow {
        const char *state;
        const char *metadata;
        const char *outcome, *reason;
        const char *report;
} report_rows[] = {
        { "done", "{'namespace':'d','name':'web'}", "updated", NULL,
          "{'kind':'deployment.apps','namespace':'d','name':'web','outcome':'updated','images':"
          "[{'container':'app','before':'A','after':'B'},{'container':'new','after':'N'}],"
          "'pods':" PODS "}" },
        { "undo", "{'name':'web'}", "stopped", "a node is lost",
          "{'kind':'deployment.apps','namespace':'','name':'web','outcome':'stopped','reason':"
          "'a node is lost','images':[{'container':'app','before':'B','after':'A'}],"
          "'pods':" PODS "}" },
};

TEST_ROWS(test_report, report_rows, state, const struct ReportRow *row) {
        cleanup(json_object_put_p) json_object *workload = parse("{'metadata':%s}", row->metadata);
        cleanup(json_object_put_p) json_object *record =
                parse("{'state':'%s','before':{'app':'A'},'after':{'app':'B','new':'N'}}",
                      row->state);
        cleanup(json_object_put_p) json_object *first = parse(POD("web-0", "'nodeName':'n',", "B"));
        cleanup(json_object_put_p) json_object *second = parse(POD("web-1", "", "A"));
        cleanup(json_object_put_p) json_object *report = NULL;
        const RolloutView view = { .kind = WORKLOAD_DEPLOYMENT, .workload = workload };
        PodState pods[] = { { .pod = first, .phase = ROLLOUT_UPDATED },
                            { .pod = second, .phase = ROLLOUT_FAILED, .reason = "no" } };
        const Census census = { .pods = pods, .n_pods = N_ELEMENTS(pods) };

        report = rollout_report(&view, record, &census, row->outcome, row->reason);
        assert_json(report, row->report);
}
