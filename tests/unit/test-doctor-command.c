/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command "doctor" on clusters that lack something
 */

#include "agent/kubectl/agents.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/rights.h"
#include "agent/kubectl/workload.h"

#define PLAYED_CREATE
#include "tests/unit/played-cluster.h"

#define SAYS "test-doctor-command: "
#define NODE(name, policy) "{'metadata':{'name':'" name "'},'kubeletconfig':{" policy "}}"
#define AGENT(node, image, ready, more)                                                                             \
        "{'metadata':{'name':'agent-" node                                                                          \
        "','namespace':'inplaced-system','labels':{'app.kubernetes.io/name':'inplaced'}},'spec':{'nodeName':'" node \
        "','containers':[{'name':'inplaced','image':'" image "'}]},"                                                \
        "'status':{'conditions':[{'type':'Ready','status':'" ready                                                  \
        "','reason':'ContainersNotReady','message':'not yet'}]" more "}}"
#define IMAGE(node, wrote, asked, images)                                                                                                    \
        "{'metadata':{'name':'" node                                                                                                         \
        "','annotations':{'inplaced.io/agent-version':'1.0.0'},'managedFields':[{'manager':'inplaced','subresource':'status','time':'" wrote \
        "'},{'manager':'x','time':'" asked "'}]},'spec':{'images':{" images "}},'status':{}}"
#define EARLY "1970-01-01T00:01:00Z"
#define LATE "1970-01-01T00:02:00Z"
#define OPEN "'r.io/a':{'tags':[{'tag':'1','version':1}]}"
#define LIMITS                                                                                                              \
        "'validatingadmissionpolicies':[{'metadata':{'name':'inplaced-resources'}},{'metadata':{'name':'inplaced-pods'}}]," \
        "'validatingadmissionpolicybindings':[{'spec':{'policyName':'inplaced-resources','validationActions':['Deny']}},{'spec':{'policyName':'inplaced-pods','validationActions':['Deny']}}]"

/* clang-format off */
static const struct Row {
        const char *name;
        OutputFormat format;
        const char *objects;
        const char *denied; /* beginning of verbs and resources that this user may not use, "*" of all; NULL: none */
        const char *missing[2];
        const char *unserved; /* kind that is not served at all; NULL: none */
        const char *refused;
        const char *out, *err;
        int status;
} rows[] = {
        { "nothing", OUTPUT_TABLE, "{}", NULL, { NULL }, NULL, NULL,
            "API server                                   https://k\n"
            "nodeimages.apps.kruise.io                    v1\n"
            "containerrecreaterequests.apps.kruise.io     v1\n"
            "imagepulljobs.apps.kruise.io                 v1\n"
            "clonesets.apps.kruise.io                     v1\n"
            "user                                         alice\n"
            "set image of Deployments                     allowed\n"
            "set image of ReplicaSets                     allowed\n"
            "set image of StatefulSets                    allowed\n"
            "set image of DaemonSets                      allowed\n"
            "set image of pods                            allowed\n"
            "set image of CloneSets                       allowed\n"
            "set image of Advanced StatefulSets           allowed\n"
            "set image of Advanced DaemonSets             allowed\n"
            "status                                       allowed\n"
            "restart                                      allowed\n"
            "restart --request                            allowed\n"
            "images                                       allowed\n"
            "preload                                      allowed\n"
            "preload                                      allowed\n"
            "nodes                                        0, 0 with an agent\n", "", EXIT_STATUS_DONE },
        { "all is well", OUTPUT_TABLE,
          "{'nodes':[" NODE("n1", "") "],'pods':[" AGENT("n1", "r.io/inplaced:1.0.0", "True", "") "],'nodeimages':[" IMAGE("n1", LATE, EARLY, OPEN) "]," LIMITS "}",
          NULL, { NULL }, NULL, NULL,
            "API server                                   https://k\n"
            "user                                         alice\n"
            "nodes                                        1, 1 with an agent, mostly of version 1.0.0\n"
            "limits of agents to their nodes              by admission policies\n"
            "preloaded private images                     any pod may run them: 1 node (n1)\n", "", EXIT_STATUS_DONE },
        { "as JSON", OUTPUT_JSON,
          "{'nodes':[" NODE("n1", "'imagePullCredentialsVerificationPolicy':'AlwaysVerify'") "," NODE("n2", "") "],'pods':[" AGENT("n1", "r.io/inplaced:1.0.0@sha256:aa", "False", "") "]," LIMITS "}",
          NULL, { NULL }, NULL, NULL,
            "{\n"
            "  \"facts\": [\n"
            "    {\n"
            "      \"subject\": \"API server\",\n"
            "      \"value\": \"https://k\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"nodeimages.apps.kruise.io\",\n"
            "      \"value\": \"v1\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"containerrecreaterequests.apps.kruise.io\",\n"
            "      \"value\": \"v1\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"imagepulljobs.apps.kruise.io\",\n"
            "      \"value\": \"v1\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"clonesets.apps.kruise.io\",\n"
            "      \"value\": \"v1\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"user\",\n"
            "      \"value\": \"alice\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"set image of Deployments\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"set image of ReplicaSets\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"set image of StatefulSets\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"set image of DaemonSets\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"set image of pods\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"set image of CloneSets\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"set image of Advanced StatefulSets\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"set image of Advanced DaemonSets\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"status\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"restart\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"restart --request\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"images\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"preload\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"preload\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"pulls\",\n"
            "      \"value\": \"allowed\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"nodes\",\n"
            "      \"value\": \"2, 1 with an agent, mostly of version 1.0.0\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"limits of agents to their nodes\",\n"
            "      \"value\": \"by admission policies\"\n"
            "    }\n"
            "  ],\n"
            "  \"problems\": [\n"
            "    {\n"
            "      \"subject\": \"1 node (n1)\",\n"
            "      \"message\": \"the agent is not ready: ContainersNotReady: not yet\",\n"
            "      \"advice\": \"its log says more: kubectl logs -n NAMESPACE POD\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"1 node (n2)\",\n"
            "      \"message\": \"there is no agent\",\n"
            "      \"advice\": \"install inplaced there, or let the DaemonSet run there\"\n"
            "    }\n"
            "  ]\n"
            "}\n", SAYS "2 problems were found\n", EXIT_STATUS_PARTLY },
        { "agents in trouble", OUTPUT_TABLE,
          "{'nodes':[" NODE("n1", "") "," NODE("n2", "") "," NODE("n3", "") "," NODE("n4", "") "," NODE("n5", "") "],'pods':["
          AGENT("n1", "r.io/inplaced:1.0.0", "True", "") "," AGENT("n2", "r.io/inplaced:1.0.0", "True", "") "," AGENT("n3", "r.io/inplaced:0.9.0", "True", "") ","
          AGENT("n4", "r.io/inplaced@sha256:aa", "False", ",'containerStatuses':[{'name':'inplaced','state':{'waiting':{'reason':'CrashLoopBackOff','message':'back-off'}},'lastState':{'terminated':{'message':'no right'}}}]")
          "],'nodeimages':[" IMAGE("n1", EARLY, LATE, OPEN) "," IMAGE("n2", EARLY, LATE, "") "]," LIMITS "}",
          NULL, { NULL }, NULL, NULL,
            "API server                                   https://k\n"
            "user                                         alice\n"
            "nodes                                        5, 3 with an agent, mostly of version 1.0.0, 1 of unknown version\n"
            "limits of agents to their nodes              by admission policies\n"
            "preloaded private images                     any pod may run them: 2 nodes (n2, n3)\n"
            "problem: 1 node (n1): the agent does not answer: its NodeImage has requests that it has not taken up; start it; if it was removed, delete the NodeImage of that name\n"
            "problem: 1 node (n3): the agent is of version 0.9.0, most others are of 1.0.0; finish the update of the agents\n"
            "problem: 1 node (n4): the agent is not ready: CrashLoopBackOff: no right; its log says more: kubectl logs -n NAMESPACE POD\n"
            "problem: 1 node (n5): there is no agent; install inplaced there, or let the DaemonSet run there\n", SAYS "4 problems were found\n", EXIT_STATUS_PARTLY },
        { "services of nodes", OUTPUT_TABLE, "{'nodes':[" NODE("n1", "") "," NODE("n2", "") "],'nodeimages':[" IMAGE("n1", EARLY, EARLY, "") "," IMAGE("n2", LATE, EARLY, "") "]," LIMITS "}",
          NULL, { NULL }, NULL, NULL,
            "API server                                   https://k\n"
            "user                                         alice\n"
            "nodes                                        2, 2 with an agent, mostly of version 1.0.0\n"
            "agents known by what they wrote              2, services of their nodes, or removed since; the oldest write was 15m ago\n"
            "limits of agents to their nodes              by admission policies\n"
            "preloaded private images                     any pod may run them: 2 nodes (n1, n2)\n", "", EXIT_STATUS_DONE },
        { "no limits", OUTPUT_TABLE, "{'pods':[" AGENT("n1", "r.io/inplaced:1.0.0", "True", "") "],'validatingadmissionpolicies':[{'metadata':{'name':'inplaced-pods'}}],'validatingadmissionpolicybindings':[{'spec':{'policyName':'inplaced-pods','validationActions':['Audit']}}]}",
          NULL, { NULL }, NULL, NULL,
            "API server                                   https://k\n"
            "user                                         alice\n"
            "nodes                                        0, 0 with an agent, mostly of version 1.0.0\n"
            "problem: limits of agents to their nodes: no admission policy limits what agents write to NodeImages and pods; apply packaging/kubernetes/policy, see docs/OPERATING.md (\"InplacedNotLimited\")\n", SAYS "1 problem was found\n", EXIT_STATUS_PARTLY },
        { "components without limits", OUTPUT_TABLE,
          "{'pods':[" AGENT("n1", "r.io/inplaced:1.0.0", "True", "") "]," LIMITS ",'clusterrolebindings':[{'metadata':{'name':'inplaced-controller','labels':{'app.kubernetes.io/part-of':'inplaced'}},'roleRef':{'name':'inplaced-controller'}},"
          "{'metadata':{'name':'inplaced-config','labels':{'app.kubernetes.io/part-of':'inplaced'}},'roleRef':{'name':'inplaced-config'}}]}",
          NULL, { NULL }, NULL, NULL,
            "API server                                   https://k\n"
            "user                                         alice\n"
            "nodes                                        0, 0 with an agent, mostly of version 1.0.0\n"
            "limits of agents to their nodes              by admission policies\n", "", EXIT_STATUS_DONE },
        { "no rights", OUTPUT_TABLE, "{'nodes':[" NODE("n1", "") "]," LIMITS "}", "*", { NULL }, NULL, NULL,
            "API server                                   https://k\n"
            "user                                         alice\n"
            "set image of Deployments                     this user lacks get, list, watch, patch deployments.apps; list, watch pods; patch pods; list, watch, patch replicasets.apps; list, watch poddisruptionbudgets.policy; patch pods/status; create replicasets.apps\n"
            "set image of ReplicaSets                     this user lacks get, list, watch, patch replicasets.apps; list, watch pods; patch pods; list, watch poddisruptionbudgets.policy; patch pods/status\n"
            "set image of StatefulSets                    this user lacks get, list, watch, patch statefulsets.apps; list, watch pods; patch pods; list, watch controllerrevisions.apps; list, watch poddisruptionbudgets.policy; patch pods/status\n"
            "set image of DaemonSets                      this user lacks get, list, watch, patch daemonsets.apps; list, watch pods; patch pods; list, watch controllerrevisions.apps; list, watch poddisruptionbudgets.policy; patch pods/status\n"
            "set image of pods                            this user lacks get, list, watch, patch pods; list, watch poddisruptionbudgets.policy; patch pods/status\n"
            "set image of CloneSets                       this user lacks get, list, watch, patch clonesets.apps.kruise.io; list, watch pods\n"
            "set image of Advanced StatefulSets           this user lacks get, list, watch, patch statefulsets.apps.kruise.io; list, watch pods\n"
            "set image of Advanced DaemonSets             this user lacks get, list, watch, patch daemonsets.apps.kruise.io; list, watch pods\n"
            "status                                       this user lacks list, watch pods\n"
            "restart                                      this user lacks get, patch pods; list, watch pods; list, watch poddisruptionbudgets.policy; list replicasets.apps\n"
            "restart --request                            this user lacks list, watch, create containerrecreaterequests.apps.kruise.io; list, watch pods; list, watch poddisruptionbudgets.policy; list replicasets.apps\n"
            "images                                       this user lacks list nodeimages.apps.kruise.io; get nodeimages.apps.kruise.io\n"
            "preload                                      this user lacks list, watch, patch nodeimages.apps.kruise.io\n"
            "preload                                      this user lacks list, watch, create imagepulljobs.apps.kruise.io; list, watch nodeimages.apps.kruise.io; delete imagepulljobs.apps.kruise.io\n"
            "nodes                                        1, 0 with an agent\n"
            "problem: rights: this user may use none of the commands above; the ClusterRole inplaced-user has these rights, see docs/OPERATING.md (\"Rights of users\")\n"
            "problem: 1 node (n1): there is no agent; install inplaced there, or let the DaemonSet run there\n", SAYS "2 problems were found\n", EXIT_STATUS_PARTLY },
        { "no right to patch", OUTPUT_TABLE, "{" LIMITS "}", "patch ", { NULL }, NULL, NULL,
            "API server                                   https://k\n"
            "user                                         alice\n"
            "set image of Deployments                     this user lacks patch deployments.apps; patch pods; patch replicasets.apps; patch pods/status\n"
            "set image of ReplicaSets                     this user lacks patch replicasets.apps; patch pods; patch pods/status\n"
            "set image of StatefulSets                    this user lacks patch statefulsets.apps; patch pods; patch pods/status\n"
            "set image of DaemonSets                      this user lacks patch daemonsets.apps; patch pods; patch pods/status\n"
            "set image of pods                            this user lacks patch pods; patch pods/status\n"
            "set image of CloneSets                       this user lacks patch clonesets.apps.kruise.io\n"
            "set image of Advanced StatefulSets           this user lacks patch statefulsets.apps.kruise.io\n"
            "set image of Advanced DaemonSets             this user lacks patch daemonsets.apps.kruise.io\n"
            "restart                                      this user lacks patch pods\n"
            "preload                                      this user lacks patch nodeimages.apps.kruise.io\n"
            "nodes                                        0, 0 with an agent\n", "", EXIT_STATUS_DONE },
        { "no right to watch pods", OUTPUT_TABLE, "{" LIMITS "}", "watch pods", { NULL }, NULL, NULL,
            "API server                                   https://k\n"
            "user                                         alice\n"
            "status                                       this user lacks watch pods\n"
            "nodes                                        0, 0 with an agent\n"
            "problem: set image of Deployments: this user lacks watch pods; the ClusterRole inplaced-user has these rights, see docs/OPERATING.md (\"Rights of users\")\n"
            "problem: set image of ReplicaSets: this user lacks watch pods; the ClusterRole inplaced-user has these rights, see docs/OPERATING.md (\"Rights of users\")\n"
            "problem: set image of StatefulSets: this user lacks watch pods; the ClusterRole inplaced-user has these rights, see docs/OPERATING.md (\"Rights of users\")\n"
            "problem: set image of DaemonSets: this user lacks watch pods; the ClusterRole inplaced-user has these rights, see docs/OPERATING.md (\"Rights of users\")\n"
            "problem: set image of pods: this user lacks watch pods; the ClusterRole inplaced-user has these rights, see docs/OPERATING.md (\"Rights of users\")\n"
            "problem: set image of CloneSets: this user lacks watch pods; the ClusterRole inplaced-user has these rights, see docs/OPERATING.md (\"Rights of users\")\n"
            "problem: set image of Advanced StatefulSets: this user lacks watch pods; the ClusterRole inplaced-user has these rights, see docs/OPERATING.md (\"Rights of users\")\n"
            "problem: set image of Advanced DaemonSets: this user lacks watch pods; the ClusterRole inplaced-user has these rights, see docs/OPERATING.md (\"Rights of users\")\n"
            "problem: restart: this user lacks watch pods; the ClusterRole inplaced-user has these rights, see docs/OPERATING.md (\"Rights of users\")\n"
            "problem: restart --request: this user lacks watch pods; the ClusterRole inplaced-user has these rights, see docs/OPERATING.md (\"Rights of users\")\n", SAYS "10 problems were found\n", EXIT_STATUS_PARTLY },
        { "no right to run programs in pods", OUTPUT_TABLE, "{'pods':[" AGENT("n1", "r.io/inplaced:1.0.0", "True", "") "]," LIMITS "}", "create pods", { NULL }, NULL, NULL,
            "API server                                   https://k\n"
            "user                                         alice\n"
            "pulls                                        this user lacks create pods/exec in namespace inplaced-system\n"
            "nodes                                        0, 0 with an agent, mostly of version 1.0.0\n"
            "limits of agents to their nodes              by admission policies\n", "", EXIT_STATUS_DONE },
        { "no kinds of OpenKruise", OUTPUT_TABLE, "{" LIMITS "}", NULL, { "nodeimages", "containerrecreaterequests" }, "nodeimages", NULL,
            "API server                                   https://k\n"
            "user                                         alice\n"
            "nodes                                        0, 0 with an agent\n"
            "problem: nodeimages.apps.kruise.io: the API server does not serve this kind; apply the definitions of inplaced, or install OpenKruise\n", SAYS "1 problem was found\n", EXIT_STATUS_PARTLY },
        { "an old cluster", OUTPUT_TABLE, "{'pods':[" AGENT("n1", "r.io/inplaced:1.0.0", "True", "") "]}", NULL, { NULL }, "validatingadmissionpolicies", NULL,
            "API server                                   https://k\n"
            "user                                         alice\n"
            "nodes                                        0, 0 with an agent, mostly of version 1.0.0\n"
            "limits of agents to their nodes              none, before Kubernetes 1.30\n", "", EXIT_STATUS_DONE },
        { "no right to list nodes", OUTPUT_TABLE, "{" LIMITS "}", NULL, { NULL }, NULL, "nodes",
            "API server                                   https://k\n"
            "user                                         alice\n"
            "nodes                                        no right to use nodes\n", "", EXIT_STATUS_DONE },
        { "no right to list pods", OUTPUT_TABLE, "{'nodes':[" NODE("n1", "") "]," LIMITS "}", NULL, { NULL }, NULL, "pods",
            "API server                                   https://k\n"
            "user                                         alice\n"
            "pulls                                        no right to use pods\n"
            "agents                                       no right to use pods\n"
            "nodes                                        1, 0 with an agent\n", "", EXIT_STATUS_DONE },
        { "no right to list policies", OUTPUT_TABLE, "{'pods':[" AGENT("n1", "r.io/inplaced:1.0.0", "True", "") "]}", NULL, { NULL }, NULL, "validatingadmissionpolicies",
            "API server                                   https://k\n"
            "user                                         alice\n"
            "nodes                                        0, 0 with an agent, mostly of version 1.0.0\n"
            "limits of agents to their nodes              no right to use validatingadmissionpolicies\n", "", EXIT_STATUS_DONE },
        { "no right to list bindings of roles", OUTPUT_TABLE, "{'pods':[" AGENT("n1", "r.io/inplaced:1.0.0", "True", "") "]," LIMITS "}", NULL, { NULL }, NULL, "clusterrolebindings",
            "API server                                   https://k\n"
            "user                                         alice\n"
            "nodes                                        0, 0 with an agent, mostly of version 1.0.0\n"
            "limits of agents to their nodes              by admission policies\n", "", EXIT_STATUS_DONE },
};
/* clang-format on */

static const struct Row *shown;

int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr);
int __wrap_session_find_version(Session *session, const KubeKind *kind, const char **ret,
                                Error *reterr);
const char *__wrap_session_user(Session *session);
int __wrap_session_end_status(const Session *session);
bool __wrap_session_is_ended(const Session *session);

int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr) {
        return __wrap_session_list(session, path, on_item, userdata, reterr);
}

int __wrap_session_find_version(Session *session, const KubeKind *kind, const char **ret,
                                Error *reterr) {
        *ret = shown->unserved && strcmp(shown->unserved, kind->resource) == 0 ? NULL : "v1";
        return 0;
}

const char *__wrap_session_user(Session *session) {
        return "alice";
}

int __wrap_session_end_status(const Session *session) {
        return 0;
}

bool __wrap_session_is_ended(const Session *session) {
        return false;
}

/* Answers whether the user has a right. */
int __wrap_session_create(Session *session, const KubePath *path, json_object *body,
                          json_object **ret, Error *reterr) {
        json_object *asked = object_at(body, "spec.resourceAttributes");
        char right[128];

        assert_string_equal(path->resource, "selfsubjectaccessreviews");
        (void) snprintf(right, sizeof(right), "%s %s", json_get_text(asked, "verb"),
                        json_get_text(asked, "resource"));
        *ret = parse("{'status':{'allowed':%s}}",
                     shown->denied && (shown->denied[0] == '*' ||
                                       strncmp(right, shown->denied, strlen(shown->denied)) == 0)
                             ? "false"
                             : "true");
        return 0;
}

/* Leaves out the lines about what is served and allowed. */
static void shorten(char *text) {
        char *to = text;

        for (char *line = text, *end; *line; line = end) {
                end = strchr(line, '\n') + 1;
                if (strncmp(end - 9, " allowed\n", 9) == 0 || strncmp(end - 5, "  v1\n", 5) == 0)
                        continue;
                memmove(to, line, (size_t) (end - line));
                to += end - line;
        }
        *to = '\0';
}

TEST_ROWS(test_doctor, rows, name, const struct Row *row) {
        Flags flags = { .format = row->format };
        Played played;

        shown = row;
        memcpy(cluster.missing, row->missing, sizeof(cluster.missing));
        cluster.refused = row->refused;
        PLAY(&played, row->objects, kubectl_doctor(NULL, &flags));
        if (row != rows)
                shorten(played.out.text);
        assert_string_equal(cluster.writes, "");
        assert_string_equal(played.out.text, row->out);
        assert_string_equal(played.err.text, row->err);
        assert_int_equal(played.status, row->status);
}
