/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Commands of inplacectl that print what the agent answers
 */

#include "agent/ctl/commands.h"
#include "agent/document/json-cleanup.h"
#include "proto/inplaced/v1/node.pb-c.h"
#include "tests/unit/message-from-json.h"
#include "tests/unit/played-agent.h"
#include "tests/unit/quoted-json.h"

#define STEPS_MAX 7
#define SAYS "test-ctl-commands: "
#define A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

#define IMAGES inplaced__v1__list_images_response
#define VERIFY inplaced__v1__verify_response
#define CANCEL inplaced__v1__cancel_response
#define UNPIN inplaced__v1__unpin_response
#define RETRY inplaced__v1__retry_response
#define DOCTOR inplaced__v1__diagnose_response
#define STATUS inplaced__v1__get_status_response
#define WATCH inplaced__v1__watch_event
#define PULLS inplaced__v1__pulls_event

#define DESCRIPTOR(type) DESCRIPTOR_OF(type)
#define DESCRIPTOR_OF(type) &type##__descriptor

#define PART(tag, status)                                                                      \
        "{'metadata':{'name':'n1'},'spec':{'images':{'r.io/a':{'tags':[{'tag':'" tag "'}]}}}," \
        "'status':{'imageStatuses':{'r.io/a':{'tags':[{'tag':'" tag "'," status "}]}}}}"
#define NODE                                                                                                                         \
        "{'metadata':{'name':'n1'},'spec':{'images':{'r.io/a':{'tags':[{'tag':'1','version':2},{'tag':'2'},{'tag':'" A               \
        "'}]},'r.io/b':{'tags':[{'tag':'1','pullPolicy':{'backoffLimit':3}},{'tag':'2'}]}}},'status':{'desired':5,'imageStatuses':{" \
        "'r.io/a':{'tags':[{'tag':'1','phase':'Succeeded','progress':100,'imageID':'r.io/a@" A                                       \
        "','startTime':'1970-01-01T00:10:00Z','completionTime':'1970-01-01T00:11:00Z'},"                                             \
        "{'tag':'2','phase':'Pulling','progress':42,'startTime':'1970-01-01T00:10:00Z'}]},"                                          \
        "'r.io/b':{'tags':[{'tag':'1','phase':'Failed','message':'NotFound: no such tag','startTime':'1970-01-01T00:10:00Z','completionTime':'1970-01-01T00:16:00Z'}]}}}}"
#define PULL(image, more) "{'image':'" image "'," more "}"

typedef int (*Command)(const Options *options);

/* clang-format off */
/* Steps are JSON of the reply, or "ends", "fails", "denied", "gone", "passes" a second, "minute", or "interrupt";
 * the first may be "terminal", which stdout is then. */
static const struct Row {
        const char *name;
        Command command;
        const ProtobufCMessageDescriptor *reply;
        Options options;
        const char *arguments[3];
        const char *steps[STEPS_MAX];
        const char *out, *err;
        int status;
} rows[] = {
        { "images", command_images, DESCRIPTOR(IMAGES), { 0 }, { NULL },
          { "{'images':[{'id':'" B "','repo_tags':['r.io/b:1','r.io/c:1','r.io/d:1'],'size_bytes':10100000,'pinned':true,'requested_by':['folder:web.yaml','job a/b']},"
            "{'id':'" A "','repo_digests':['r.io/a@" A "'],'size_bytes':5,'pinned':true,'pinned_by_inplaced':true},"
            "{'id':'sha256:1'},{'id':'sha256:0'},"
            "{'id':'" A "','repo_tags':['r.io/b:1'],'size_bytes':1000000,'on_demand':{'layers':1,'all_layers':2,'counted':true,'bytes_present':100000,'bytes_total':600000}},"
            "{'id':'" B "','repo_tags':['r.io/e:1'],'size_bytes':1000000,'on_demand':{'layers':1,'all_layers':2}},"
            "{'id':'" B "','repo_tags':['r.io/f:1'],'size_bytes':1000000,'on_demand':{'counted':true,'bytes_total':2000000}}]}" },

            "ID            NAMES                                       SIZE  PINNED    REQUESTED BY\n"
            "aaaaaaaaaaaa  r.io/a@sha256:aaaaaaaaaaaa                   5 B  inplaced  -\n"
            "aaaaaaaaaaaa  r.io/b:1                    0.5/1.0 MB on demand  no        -\n"
            "bbbbbbbbbbbb  r.io/b:1 (+2)                            10.1 MB  other     folder:web.yaml,job a/b\n"
            "bbbbbbbbbbbb  r.io/e:1                      ?/1.0 MB on demand  no        -\n"
            "bbbbbbbbbbbb  r.io/f:1                    0.0/1.0 MB on demand  no        -\n"
            "0             -                                            0 B  no        -\n"
            "1             -                                            0 B  no        -\n", "", EXIT_STATUS_DONE },
        { "images, wide", command_images, DESCRIPTOR(IMAGES), { .format = OUTPUT_WIDE }, { NULL },
          { "{'images':[{'id':'" B "','repo_tags':['r.io/b:1','r.io/c:1'],'repo_digests':['r.io/b@" A "','r.io/c@" A "'],'requested_by':['x','y']},{'id':'" A "'}]}" },

            "ID                                       NAMES              DIGESTS                                                                                        SIZE  PINNED  REQUESTED BY\n"
            "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb  r.io/b:1,r.io/c:1  r.io/b@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,r.io/c@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa   0 B  no      x,y\n"
            "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa  -                  -                                                                                               0 B  no      -\n", "", EXIT_STATUS_DONE },
        { "images, as JSON", command_images, DESCRIPTOR(IMAGES), { .format = OUTPUT_JSON }, { NULL },
          { "{'images':[{'id':'2','repo_tags':['b'],'size_bytes':7},{'id':'1','repo_tags':['a'],'pinned':true}]}" },

            "{\n"
            "  \"images\": [\n"
            "    {\n"
            "      \"id\": \"1\",\n"
            "      \"repoTags\": [\n"
            "        \"a\"\n"
            "      ],\n"
            "      \"repoDigests\": [\n"
            "      ],\n"
            "      \"sizeBytes\": 0,\n"
            "      \"pinned\": true,\n"
            "      \"pinnedByInplaced\": false,\n"
            "      \"requestedBy\": [\n"
            "      ]\n"
            "    },\n"
            "    {\n"
            "      \"id\": \"2\",\n"
            "      \"repoTags\": [\n"
            "        \"b\"\n"
            "      ],\n"
            "      \"repoDigests\": [\n"
            "      ],\n"
            "      \"sizeBytes\": 7,\n"
            "      \"pinned\": false,\n"
            "      \"requestedBy\": [\n"
            "      ]\n"
            "    }\n"
            "  ]\n"
            "}\n", "", EXIT_STATUS_DONE },
        { "no images", command_images, DESCRIPTOR(IMAGES), { 0 }, { NULL }, { "{}" }, "ID  NAMES  SIZE  PINNED  REQUESTED BY\n", "", EXIT_STATUS_DONE },
        { "an agent that refuses", command_images, DESCRIPTOR(IMAGES), { 0 }, { NULL }, { "denied" }, "", SAYS "why\n", EXIT_STATUS_FAILED },
        { "an agent that finds a mistake", command_images, DESCRIPTOR(IMAGES), { 0 }, { NULL }, { "invalid" }, "", SAYS "why\n", EXIT_STATUS_USAGE },
        { "an agent that says nothing", command_images, DESCRIPTOR(IMAGES), { 0 }, { NULL }, { "passes", "passes", "passes", "interrupt" }, "", SAYS "waiting for an answer of inplaced at /nowhere\n", EXIT_STATUS_SIGNAL + SIGINT },
        { "verify", command_verify, DESCRIPTOR(VERIFY), { 0 }, { NULL },
          { "{'containers':[{'namespace':'a','pod':'web','container':'app','reference':'r.io/a:1','reference_id':'" A "','running_id':'" A "','verdict':2},"
            "{'namespace':'a','pod':'web','container':'old','reference':'r.io/b:1','reference_id':'" A "','running_id':'" B "','verdict':3,'environment':'Current','message':'runs another'},"
            "{'namespace':'a','pod':'web','container':'env','reference':'r.io/b:1','running_id':'" B "','verdict':2,'environment':'Stale'},"
            "{'namespace':'a','pod':'web','container':'why','verdict':1,'environment':'Unknown'},"
            "{'namespace':'a','pod':'web','container':'how','verdict':2,'environment':'Unknown'}]}" },

            "NAMESPACE  POD  CONTAINER  IMAGE     NODE ID       RUNNING ID    VERDICT  ENVIRONMENT\n"
            "a          web  app        r.io/a:1  aaaaaaaaaaaa  aaaaaaaaaaaa  Current  -\n"
            "a          web  old        r.io/b:1  aaaaaaaaaaaa  bbbbbbbbbbbb  Stale    Current\n"
            "a          web  env        r.io/b:1  -             bbbbbbbbbbbb  Current  Stale\n"
            "a          web  why        -         -             -             Unknown  Unknown\n"
            "a          web  how        -         -             -             Current  Unknown\n",
            SAYS "2 of 5 containers are stale\n"
            SAYS "the state of 2 of 5 containers is unknown; see -o wide\n", EXIT_STATUS_PARTLY },
        { "verify, wide", command_verify, DESCRIPTOR(VERIFY), { .format = OUTPUT_WIDE }, { "web" },
          { "{'containers':[{'namespace':'a','pod':'web','container':'app','reference':'r.io/a:1','reference_id':'" A "','running_id':'" B "','verdict':1,'message':'why'}]}" },

            "NAMESPACE  POD  CONTAINER  IMAGE     NODE ID                                  RUNNING ID                               VERDICT  ENVIRONMENT  MESSAGE\n"
            "a          web  app        r.io/a:1  sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa  sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb  Unknown  -            why\n", SAYS "the state of 1 of 1 containers is unknown; see -o wide\n", EXIT_STATUS_FAILED },
        { "verify: all is current", command_verify, DESCRIPTOR(VERIFY), { .format = OUTPUT_JSON }, { "web" },
          { "{'containers':[{'namespace':'a','pod':'web','container':'app','verdict':2,'environment':'Current'}]}" },
            "{\n"
            "  \"containers\": [\n"
            "    {\n"
            "      \"namespace\": \"a\",\n"
            "      \"pod\": \"web\",\n"
            "      \"container\": \"app\",\n"
            "      \"image\": \"\",\n"
            "      \"nodeImageID\": \"\",\n"
            "      \"runningImageID\": \"\",\n"
            "      \"environment\": \"Current\",\n"
            "      \"verdict\": \"Current\",\n"
            "      \"message\": \"\"\n"
            "    }\n"
            "  ]\n"
            "}\n", "", EXIT_STATUS_DONE },
        { "verify: nothing runs", command_verify, DESCRIPTOR(VERIFY), { 0 }, { NULL }, { "{}" }, "No containers of pods run on this node.\n", "", EXIT_STATUS_DONE },
        { "verify: nothing runs in a namespace", command_verify, DESCRIPTOR(VERIFY), { .namespace = "shop" }, { NULL }, { "{}" }, "No containers of pods in namespace shop run on this node.\n", "", EXIT_STATUS_DONE },
        { "verify: a pod does not run", command_verify, DESCRIPTOR(VERIFY), { .namespace = "shop" }, { "web" }, { "{}" }, "", SAYS "no container of pod web in namespace shop runs on this node\n", EXIT_STATUS_FAILED },
        { "verify: nothing runs, as JSON", command_verify, DESCRIPTOR(VERIFY), { .format = OUTPUT_JSON }, { NULL }, { "{}" },
            "{\n"
            "  \"containers\": [\n"
            "  ]\n"
            "}\n", "", EXIT_STATUS_DONE },
        { "verify: no name of a pod", command_verify, DESCRIPTOR(VERIFY), { 0 }, { "shop/web" }, { NULL }, "", SAYS "\"shop/web\" is no name of a pod; a namespace is given with --namespace\n", EXIT_STATUS_USAGE },
        { "verify: an empty name", command_verify, DESCRIPTOR(VERIFY), { 0 }, { "" }, { NULL }, "", SAYS "\"\" is no name of a pod; a namespace is given with --namespace\n", EXIT_STATUS_USAGE },
        { "cancel a request", command_cancel, DESCRIPTOR(CANCEL), { 0 }, { "0123456789abcdef" }, { "{'canceled':2}" }, "0123456789abcdef canceled\n", "", EXIT_STATUS_DONE },
        { "cancel what others request, too", command_cancel, DESCRIPTOR(CANCEL), { 0 }, { "a:1" },
          { "{'canceled':1,'requested_by':['folder:web.yaml','root, request 12','job a/b']}" }, "a:1 canceled\n",
            SAYS "a:1 is still requested by folder:web.yaml; remove it from that document\n"
            SAYS "a:1 is still requested by root, request 12; only root and the user who made it may cancel it\n"
            SAYS "a:1 is still requested by job a/b; withdraw it in the cluster\n", EXIT_STATUS_DONE },
        { "cancel what others request", command_cancel, DESCRIPTOR(CANCEL), { 0 }, { "a:1" }, { "{'requested_by':['job a/b']}" }, "", SAYS "a:1 is requested by job a/b; withdraw it in the cluster\n", EXIT_STATUS_FAILED },
        { "cancel an image that is not requested", command_cancel, DESCRIPTOR(CANCEL), { 0 }, { "a:1" }, { "{}" }, "", SAYS "image a:1 is not requested, or is finished\n", EXIT_STATUS_FAILED },
        { "cancel a request that has ended", command_cancel, DESCRIPTOR(CANCEL), { 0 }, { "0123456789abcdef" }, { "{}" }, "", SAYS "request 0123456789abcdef does not exist, or is finished\n", EXIT_STATUS_FAILED },
        { "cancel nothing", command_cancel, DESCRIPTOR(CANCEL), { 0 }, { "0123456789abcde" }, { "{}" }, "", SAYS "0123456789abcde is neither a request (16 hexadecimal digits) nor a requested image\n", EXIT_STATUS_FAILED },
        { "cancel, as JSON", command_cancel, DESCRIPTOR(CANCEL), { .format = OUTPUT_JSON }, { "0123456789abcdeg" }, { "{}" },
            "{\n"
            "  \"target\": \"0123456789abcdeg\",\n"
            "  \"canceled\": 0,\n"
            "  \"requestedBy\": [\n"
            "  ]\n"
            "}\n", SAYS "0123456789abcdeg is neither a request (16 hexadecimal digits) nor a requested image\n", EXIT_STATUS_FAILED },
        { "unpin", command_unpin, DESCRIPTOR(UNPIN), { 0 }, { "a", "b" },
          { "{'results':[{'image':'a','unpinned':true,'message':'others pin it'},{'image':'b','message':'no pin'}]}" }, "a unpinned\n",
            SAYS "a: others pin it\n"
            SAYS "b: no pin\n", EXIT_STATUS_PARTLY },
        { "unpin all of them", command_unpin, DESCRIPTOR(UNPIN), { 0 }, { "a" }, { "{'results':[{'image':'a','unpinned':true}]}" }, "a unpinned\n", "", EXIT_STATUS_DONE },
        { "unpin none of them", command_unpin, DESCRIPTOR(UNPIN), { 0 }, { "a" }, { "{'results':[{'image':'a','message':'no pin'}]}" }, "", SAYS "a: no pin\n", EXIT_STATUS_FAILED },
        { "retry", command_retry, DESCRIPTOR(RETRY), { 0 }, { "a", "b" },
          { "{'results':[{'image':'a','retried':true},{'image':'b','message':'is there'}]}" }, "a is being tried again\n", SAYS "b: is there\n", EXIT_STATUS_PARTLY },
        { "retry what has failed", command_retry, DESCRIPTOR(RETRY), { .failed = true }, { NULL }, { "{'results':[{'image':'a','retried':true}]}" }, "a is being tried again\n", "", EXIT_STATUS_DONE },
        { "retry what has failed, and nothing has", command_retry, DESCRIPTOR(RETRY), { .failed = true }, { NULL }, { "{}" }, "No image has failed.\n", "", EXIT_STATUS_DONE },
        { "retry none of them", command_retry, DESCRIPTOR(RETRY), { 0 }, { "a" }, { "{'results':[{'image':'a','message':'is there'}]}" }, "", SAYS "a: is there\n", EXIT_STATUS_FAILED },
        { "retry nothing", command_retry, DESCRIPTOR(RETRY), { 0 }, { NULL }, { NULL }, "", SAYS "give either images or --failed; try: inplacectl help retry\n", EXIT_STATUS_USAGE },
        { "retry too much", command_retry, DESCRIPTOR(RETRY), { .failed = true }, { "a" }, { NULL }, "", SAYS "give either images or --failed; try: inplacectl help retry\n", EXIT_STATUS_USAGE },
        { "doctor", command_doctor, DESCRIPTOR(DOCTOR), { 0 }, { NULL },
          { "{'runtimes':[{'endpoint':'unix:///c.sock','name':'containerd','version':'1.7','ready':true,'chosen':true,'has_progress':true,'state':'it answers'},"
            "{'endpoint':'unix:///d.sock','state':'no such file'}],'facts':[{'subject':'version','value':'1'}]}" },
            "RUNTIME SOCKET  RUNTIME         READY  CHOSEN  PROGRESS  STATE\n"
            "unix:///c.sock  containerd 1.7  yes    yes     yes       it answers\n"
            "unix:///d.sock  -               no     no      no        no such file\n"
            "FACT     VALUE\n"
            "version  1\n"
            "No problem was found.\n", "", EXIT_STATUS_DONE },
        { "doctor finds a problem", command_doctor, DESCRIPTOR(DOCTOR), { 0 }, { NULL },
          { "{'runtimes':[{'endpoint':'u','ready':true,'chosen':true}],'problems':[{'subject':'disk','message':'full','advice':'empty it'}]}" },
            "RUNTIME SOCKET  RUNTIME  READY  CHOSEN  PROGRESS  STATE\n"
            "u               -        yes    yes     no        \n"
            "FACT  VALUE\n"
            "problem: disk: full; empty it\n", SAYS "1 problem was found\n", EXIT_STATUS_PARTLY },
        { "doctor finds two problems", command_doctor, DESCRIPTOR(DOCTOR), { .format = OUTPUT_JSON }, { NULL },
          { "{'problems':[{'subject':'disk','message':'full'},{'subject':'b','message':'c'}]}" },
            "{\n"
            "  \"runtimes\": [\n"
            "  ],\n"
            "  \"facts\": [\n"
            "  ],\n"
            "  \"problems\": [\n"
            "    {\n"
            "      \"subject\": \"disk\",\n"
            "      \"message\": \"full\",\n"
            "      \"advice\": \"\"\n"
            "    },\n"
            "    {\n"
            "      \"subject\": \"b\",\n"
            "      \"message\": \"c\",\n"
            "      \"advice\": \"\"\n"
            "    }\n"
            "  ]\n"
            "}\n", SAYS "2 problems were found\n", EXIT_STATUS_PARTLY },
        { "doctor: the runtime is not ready", command_doctor, DESCRIPTOR(DOCTOR), { 0 }, { NULL },
          { "{'runtimes':[{'endpoint':'u','chosen':true},{'endpoint':'v','ready':true}]}" },
            "RUNTIME SOCKET  RUNTIME  READY  CHOSEN  PROGRESS  STATE\n"
            "u               -        no     yes     no        \n"
            "v               -        yes    no      no        \n"
            "FACT  VALUE\n", SAYS "no container runtime is ready\n", EXIT_STATUS_PARTLY },
        { "status", command_status, DESCRIPTOR(STATUS), { 0 }, { NULL },
          { "{'node_image_json':" NODE ",'runtime':{'name':'containerd','version':'1.7','endpoint':'unix:///c.sock','ready':true},'api_server':'https://k as node',"
            "'problems':[{'subject':'disk','message':'full','advice':'empty it'},{'subject':'b','message':'c'}]}" },
            "Node n1, containerd 1.7 at unix:///c.sock\n"
            "API server https://k as node\n"
            "Images: 1 pulled, 1 failed, 1 pulling, 2 waiting\n"
            "IMAGE   TAG                  PHASE      PROGRESS  IMAGE ID      AGE  MESSAGE\n"
            "r.io/a  1                    Succeeded         -  aaaaaaaaaaaa   5m  \n"
            "r.io/a  2                    Pulling         42%  -              6m  \n"
            "r.io/a  sha256:aaaaaaaaaaaa  Waiting           -  -               -  \n"
            "r.io/b  1                    Failed            -  -             40s  NotFound: check the name and the tag\n"
            "r.io/b  2                    Waiting           -  -               -  \n"
            "problem: disk: full; empty it\n"
            "problem: b: c\n", "", EXIT_STATUS_DONE },
        { "status, wide", command_status, DESCRIPTOR(STATUS), { .format = OUTPUT_WIDE }, { NULL },
          { "{'node_image_json':" NODE ",'runtime':{'endpoint':'u'}}" },
            "Node n1, an unknown runtime at u, not ready\n"
            "Images: 1 pulled, 1 failed, 1 pulling, 2 waiting\n"
            "IMAGE   TAG                                      POLICY  PHASE      PROGRESS  IMAGE ID                                         TIME  AGE  REQUESTED BY  MESSAGE\n"
            "r.io/a  1                                        -       Succeeded      100%  r.io/a@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa  1m00s   5m  -             \n"
            "r.io/a  2                                        -       Pulling         42%  -                                                   -   6m  -             \n"
            "r.io/a  sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa  -       Waiting           -  -                                                   -    -  -             \n"
            "r.io/b  1                                        -       Failed            -  -                                               6m00s  40s  -             NotFound: no such tag\n"
            "r.io/b  2                                        -       Waiting           -  -                                                   -    -  -             \n", "", EXIT_STATUS_DONE },
        { "status of failures", command_status, DESCRIPTOR(STATUS), { .failed = true }, { NULL }, { "{'node_image_json':" NODE "}" },
            "Node n1, no container runtime\n"
            "Images: 1 failed\n"
            "IMAGE   TAG  PHASE   IMAGE ID  AGE  MESSAGE\n"
            "r.io/b  1    Failed  -         40s  NotFound: check the name and the tag\n", "", EXIT_STATUS_DONE },
        { "status of an image, as JSON", command_status, DESCRIPTOR(STATUS), { .format = OUTPUT_JSON }, { "r.io/a:1" }, { "{'node_image_json':" NODE "}" },
            "{\n"
            "  \"metadata\": {\n"
            "    \"name\": \"n1\"\n"
            "  },\n"
            "  \"spec\": {\n"
            "    \"images\": {\n"
            "      \"r.io/a\": {\n"
            "        \"tags\": [\n"
            "          {\n"
            "            \"tag\": \"1\",\n"
            "            \"version\": 2\n"
            "          }\n"
            "        ]\n"
            "      }\n"
            "    }\n"
            "  },\n"
            "  \"status\": {\n"
            "    \"desired\": 5,\n"
            "    \"imageStatuses\": {\n"
            "      \"r.io/a\": {\n"
            "        \"tags\": [\n"
            "          {\n"
            "            \"tag\": \"1\",\n"
            "            \"phase\": \"Succeeded\",\n"
            "            \"progress\": 100,\n"
            "            \"imageID\": \"r.io/a@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\n"
            "            \"startTime\": \"1970-01-01T00:10:00Z\",\n"
            "            \"completionTime\": \"1970-01-01T00:11:00Z\"\n"
            "          }\n"
            "        ]\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "}\n", "", EXIT_STATUS_DONE },
        { "status of an image that is not requested", command_status, DESCRIPTOR(STATUS), { 0 }, { "r.io/x:1" }, { "{'node_image_json':" NODE "}" }, "", SAYS "r.io/x:1 is not among the desired images of this node; try: inplacectl status\n", EXIT_STATUS_FAILED },
        { "status that is no JSON", command_status, DESCRIPTOR(STATUS), { 0 }, { NULL }, { "{'node_image_json':'{'}" }, "", SAYS "the agent sent no JSON object: not valid JSON: it ends too early; are both of the same version? try: inplacectl version\n", EXIT_STATUS_FAILED },
        { "status is followed", command_status, DESCRIPTOR(WATCH), { .watch = true }, { NULL },
          { "{'node_image_json':" PART("1", "'phase':'Pulling','progress':10") "}",
            "{'node_image_json':" PART("2", "'phase':'Waiting'") ",'is_complete':true}",
            "{'node_image_json':" PART("1", "'phase':'Pulling','progress':12") ",'is_complete':true}",
            "{'node_image_json':" PART("1", "'phase':'Pulling','progress':60") ",'is_complete':true}",
            "{'node_image_json':'{}','removed':['r.io/a:2','r.io/a:9'],'is_complete':true}", "interrupt" },
            "IMAGE   TAG  PHASE    PROGRESS  IMAGE ID  AGE  MESSAGE\n"
            "r.io/a  1    Pulling       10%  -           -  \n"
            "r.io/a  2    Waiting         -  -           -  \n"
            "r.io/a  1    Pulling       60%  -           -  \n"
            "r.io/a  2    Removed         -  -           -  \n", "", EXIT_STATUS_SIGNAL + SIGINT },
        { "status is followed over a restart of the agent", command_status, DESCRIPTOR(WATCH), { .watch = true }, { NULL },
          { "{'node_image_json':" PART("1", "'phase':'Pulling'") "}", "{'node_image_json':" PART("2", "'phase':'Waiting'") ",'is_complete':true}",
            "fails", "passes", "{'node_image_json':" PART("2", "'phase':'Waiting'") ",'is_complete':true}", "interrupt" },
            "IMAGE   TAG  PHASE    PROGRESS  IMAGE ID  AGE  MESSAGE\n"
            "r.io/a  1    Pulling         -  -           -  \n"
            "r.io/a  2    Waiting         -  -           -  \n"
            "r.io/a  1    Removed         -  -           -  \n", SAYS "lost the connection to inplaced, connecting again\n", EXIT_STATUS_SIGNAL + SIGINT },
        { "failures are followed", command_status, DESCRIPTOR(WATCH), { .watch = true, .failed = true }, { NULL },
          { "{'node_image_json':" PART("1", "'phase':'Failed','message':'NotFound: x'") ",'is_complete':true}",
            "{'node_image_json':" PART("1", "'phase':'Pulling'") ",'is_complete':true}",
            "{'node_image_json':" PART("1", "'phase':'Failed','message':'NotFound: x'") ",'is_complete':true}",
            "{'node_image_json':" PART("1", "'phase':'Failed','message':'NotFound: x'") ",'is_complete':true}", "interrupt" },
            "IMAGE   TAG  PHASE   PROGRESS  IMAGE ID  AGE  MESSAGE\n"
            "r.io/a  1    Failed         -  -           -  NotFound: check the name and the tag\n"
            "r.io/a  1    Failed         -  -           -  NotFound: check the name and the tag\n", "", EXIT_STATUS_SIGNAL + SIGINT },
        { "an image is followed, as YAML", command_status, DESCRIPTOR(WATCH), { .watch = true, .format = OUTPUT_YAML }, { "r.io/a:1" },
          { "{'node_image_json':" PART("1", "'phase':'Pulling'") ",'is_complete':true}",
            "{'node_image_json':" PART("2", "'phase':'Pulling'") ",'is_complete':true}",
            "{'node_image_json':" PART("1", "'phase':'Succeeded'") ",'is_complete':true}", "interrupt" },
            "metadata:\n"
            "  name: n1\n"
            "spec:\n"
            "  images:\n"
            "    r.io/a:\n"
            "      tags:\n"
            "      - tag: \"1\"\n"
            "status:\n"
            "  imageStatuses:\n"
            "    r.io/a:\n"
            "      tags:\n"
            "      - tag: \"1\"\n"
            "        phase: Pulling\n"
            "---\n"
            "metadata:\n"
            "  name: n1\n"
            "spec:\n"
            "  images:\n"
            "    r.io/a:\n"
            "      tags:\n"
            "      - tag: \"1\"\n"
            "status:\n"
            "  imageStatuses:\n"
            "    r.io/a:\n"
            "      tags:\n"
            "      - tag: \"1\"\n"
            "        phase: Succeeded\n", "", EXIT_STATUS_SIGNAL + SIGINT },
        { "an image that is not requested is not followed", command_status, DESCRIPTOR(WATCH), { .watch = true }, { "r.io/b:1" },
          { "{'node_image_json':" PART("1", "'phase':'Pulling'") ",'is_complete':true}" }, "", SAYS "r.io/b:1 is not among the desired images of this node; try: inplacectl status\n", EXIT_STATUS_FAILED },
        { "what is followed is no JSON", command_status, DESCRIPTOR(WATCH), { .watch = true }, { NULL }, { "{'node_image_json':'['}" }, "", SAYS "the agent sent no JSON object: not valid JSON: it ends too early\n", EXIT_STATUS_FAILED },
        { "an agent that does not follow", command_status, DESCRIPTOR(WATCH), { .watch = true }, { NULL }, { "denied" }, "", SAYS "why\n", EXIT_STATUS_FAILED },
        { "an agent that ends", command_status, DESCRIPTOR(WATCH), { .watch = true }, { NULL }, { "ends" }, "", SAYS "inplaced ended the request early\n", EXIT_STATUS_FAILED },
        { "an agent that does not come back", command_status, DESCRIPTOR(WATCH), { .watch = true }, { NULL },
          { "{'node_image_json':" PART("1", "'phase':'Pulling'") ",'is_complete':true}", "ends", "gone", "minute" },
            "IMAGE   TAG  PHASE    PROGRESS  IMAGE ID  AGE  MESSAGE\n"
            "r.io/a  1    Pulling         -  -           -  \n",
            SAYS "lost the connection to inplaced, connecting again\n"
            SAYS "lost the connection to inplaced, and it did not come back within 30 s; try: systemctl status inplaced\n", EXIT_STATUS_FAILED },
        { "status is drawn", command_status, DESCRIPTOR(WATCH), { .watch = true }, { NULL },
          { "terminal", "{'node_image_json':" NODE ",'is_complete':true,'api_server':'k','runtime':{'name':'containerd','version':'1.7','ready':true}}",
            "{'node_image_json':{},'removed':['r.io/a:1'],'is_complete':true}", "fails", "interrupt" },
            "Node n1, containerd 1.7\n"
            "API server k\n"
            "Images: 1 pulled, 1 failed, 1 pulling, 2 waiting\n"
            "IMAGE   TAG  PHASE    PROGRESS  IMAGE ID  AGE  MESSAGE\n"
            "r.io/a  2    Pulling       42%  -          6m  \n"
            "r.io/b  1    Failed          -  -         40s  NotFound: check the name and the tag\n"
            "3 more\n"
            "\r\033[7A\033[JNode n1, no container runtime\n"
            "Images: 1 failed, 1 pulling, 2 waiting\n"
            "IMAGE   TAG                  PHASE    PROGRESS  IMAGE ID  AGE  MESSAGE\n"
            "r.io/a  2                    Pulling       42%  -          6m  \n"
            "r.io/b  1                    Failed          -  -         40s  NotFound: check the name and the tag\n"
            "r.io/a  sha256:aaaaaaaaaaaa  Waiting         -  -           -  \n"
            "r.io/b  2                    Waiting         -  -           -  \n", SAYS "lost the connection to inplaced, connecting again\n", EXIT_STATUS_SIGNAL + SIGINT },
        { "pulls", command_pulls, DESCRIPTOR(PULLS), { 0 }, { NULL },
          { "{'runtime':{'ready':true},'pulls':[" PULL("a:1", "'step':5,'pods':['x/web','x/db'],'bytes_done':1500000,'bytes_total':3000000,'bytes_per_second':500000,'seconds_left':3") ","
            PULL("b@" A, "'step':1,'requested_by':['folder:w.yaml']") "," PULL("c", "'step':0") "," PULL("d", "'step':9,'digest':'" A "'") "]}" },
            "POD            IMAGE                  STATE          PROGRESS        RATE  LEFT\n"
            "x/web (+1)     a:1                    downloading  1.5/3.0 MB  500.0 kB/s    3s\n"
            "folder:w.yaml  b@sha256:aaaaaaaaaaaa  queued                -           -     -\n"
            "-              c                      queued                -           -     -\n"
            "-              d                      paused                -           -     -\n", "", EXIT_STATUS_DONE },
        { "pulls, wide", command_pulls, DESCRIPTOR(PULLS), { .format = OUTPUT_WIDE }, { NULL },
          { "{'runtime':{'ready':true},'pulls':[" PULL("b@" A, "'step':7,'digest':'" A "'") "]}" },
            "POD  IMAGE                                      DIGEST                                   STATE     PROGRESS  RATE  LEFT\n"
            "-    b@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa  sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa  retrying         -     -     -\n", "", EXIT_STATUS_DONE },
        { "pulls, as YAML", command_pulls, DESCRIPTOR(PULLS), { .format = OUTPUT_YAML }, { NULL }, { "{'runtime':{'ready':false,'endpoint':'u'}}" },
            "pulls: []\n"
            "runtime:\n"
            "  endpoint: u\n"
            "  name: \"\"\n"
            "  version: \"\"\n"
            "  state: \"\"\n"
            "  ready: false\n"
            "  chosen: false\n"
            "  hasProgress: false\n", SAYS "no container runtime is ready; try: inplacectl doctor\n", EXIT_STATUS_DONE },
        { "no pulls, and no runtime", command_pulls, DESCRIPTOR(PULLS), { 0 }, { NULL }, { "{}" },
            "POD  IMAGE  STATE  PROGRESS  RATE  LEFT\n"
            "No image is being pulled.\n", SAYS "no container runtime is ready; try: inplacectl doctor\n", EXIT_STATUS_DONE },
        { "pulls are followed", command_pulls, DESCRIPTOR(PULLS), { .watch = true }, { NULL },
          { "{'pulls':[" PULL("a", "'step':5,'bytes_done':1,'bytes_total':10") "]}", "{'pulls':[" PULL("a", "'step':5,'bytes_done':1,'bytes_total':10") "," PULL("b", "'step':6") "]}",
            "{'pulls':[" PULL("a", "'step':5,'bytes_done':9,'bytes_total':10") "]}", "{'pulls':[" PULL("b", "'step':6") "]}", "fails", "interrupt" },
            "POD  IMAGE  STATE        PROGRESS  RATE  LEFT\n"
            "-    a      downloading    1/10 B     -     -\n"
            "-    b      unpacking           -     -     -\n"
            "-    a      downloading    9/10 B     -     -\n"
            "-    b      unpacking           -     -     -\n", SAYS "lost the connection to inplaced, connecting again\n", EXIT_STATUS_SIGNAL + SIGINT },
        { "pulls are followed, as YAML", command_pulls, DESCRIPTOR(PULLS), { .watch = true, .format = OUTPUT_YAML, .timeout_sec = 1 }, { NULL }, { "{}", "{}", "passes" },
            "pulls: []\n"
            "---\n"
            "pulls: []\n", "", EXIT_STATUS_DONE },
        { "pulls of an agent that hangs", command_pulls, DESCRIPTOR(PULLS), { .timeout_sec = 1 }, { NULL }, { "passes" }, "", SAYS "timed out after the 1s of --timeout waiting for inplaced at /nowhere\n", EXIT_STATUS_TIMEOUT },
        { "pulls that may not be seen", command_pulls, DESCRIPTOR(PULLS), { 0 }, { NULL }, { "denied" }, "", SAYS "why\n", EXIT_STATUS_FAILED },
        { "pulls are drawn", command_pulls, DESCRIPTOR(PULLS), { .watch = true }, { NULL },
          { "terminal", "{'pulls':[" PULL("a", "'step':5") "," PULL("b", "'step':6") "," PULL("c", "'step':6") "," PULL("d", "'step':6") "," PULL("e", "'step':6") "," PULL("f", "'step':6") "," PULL("g", "'step':6") "]}", "{}", "fails", "interrupt" },
            "POD  IMAGE  STATE        PROGRESS  RATE  LEFT\n"
            "-    a      downloading         -     -     -\n"
            "-    b      unpacking           -     -     -\n"
            "-    c      unpacking           -     -     -\n"
            "-    d      unpacking           -     -     -\n"
            "-    e      unpacking           -     -     -\n"
            "2 more\n"
            "\r\033[7A\033[JPOD  IMAGE  STATE  PROGRESS  RATE  LEFT\n"
            "No image is being pulled.\n", SAYS "lost the connection to inplaced, connecting again\n", EXIT_STATUS_SIGNAL + SIGINT },
};
/* clang-format on */

static PlayedStep make_step(const struct Row *row, const char *text) {
        cleanup(json_object_put_p) json_object *json = NULL;

        if (strcmp(text, "ends") == 0)
                return (PlayedStep){ .ends = true };
        if (strcmp(text, "fails") == 0)
                return (PlayedStep){ .fails = ERROR_UNAVAILABLE };
        if (strcmp(text, "denied") == 0)
                return (PlayedStep){ .fails = ERROR_DENIED };
        if (strcmp(text, "invalid") == 0)
                return (PlayedStep){ .fails = ERROR_INVALID };
        if (strcmp(text, "gone") == 0)
                return (PlayedStep){ .is_gone = true };
        if (strcmp(text, "passes") == 0)
                return (PlayedStep){ .passes_usec = 1000000 };
        if (strcmp(text, "minute") == 0)
                return (PlayedStep){ .passes_usec = 60000000 };
        if (strcmp(text, "interrupt") == 0)
                return (PlayedStep){ .signal = SIGINT };

        json = parse("%s", text);
        return (PlayedStep){ .says = message_from_json(row->reply, json) };
}

TEST_ROWS(test_command, rows, name, const struct Row *row) {
        Options options = row->options;
        size_t n_steps = 0;
        Played played;

        options.socket_path = "/nowhere";
        options.arguments = (char **) row->arguments;
        while (row->arguments[options.n_arguments])
                options.n_arguments++;
        memset(played_agent.steps, 0, sizeof(played_agent.steps));
        played_agent.is_terminal = row->steps[0] && strcmp(row->steps[0], "terminal") == 0;
        assert_ok(setenv("COLUMNS", "60", /* overwrite= */ 1));
        assert_ok(setenv("LINES", "8", /* overwrite= */ 1));
        for (size_t i = played_agent.is_terminal; i < STEPS_MAX && row->steps[i]; i++)
                played_agent.steps[n_steps++] = make_step(row, row->steps[i]);
        played_agent.is_gone = false;
        PLAY(&played, row->command(&options));
        for (size_t i = 0; i < n_steps; i++)
                if (played_agent.steps[i].says)
                        protobuf_c_message_free_unpacked(
                                (ProtobufCMessage *) played_agent.steps[i].says, NULL);
        assert_string_equal(played.out.text, row->out);
        assert_string_equal(played.err.text, row->err);
        assert_int_equal(played.status, row->status);
}
