/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The commands "images" and those of image sets
 */

#include "agent/kubectl/commands.h"
#include "agent/kubectl/sets.h"
#include "tests/unit/played-cluster.h"

#define SAYS "test-kubectl-images: "
#define ID "sha256:aaaaaaaaaaaaaaaaaaaaaaaa"
#define TAG(tag, status) "{'tag':'" tag "'," status "}"
#define NODE(name, images)                                                                         \
        "{'metadata':{'name':'" name "','labels':{'pool':'a'}},'status':{'imageStatuses':{" images \
        "}}}"
#define IMAGE(name, tags) "'" name "':{'tags':[" tags "]}"
#define SET(name, annotations, images)                                                        \
        "{'metadata':{'name':'" name                                                          \
        "','resourceVersion':'7','labels':{'inplaced.io/set':''},'annotations':{" annotations \
        "}},'spec':{'images':{" images "}}}"

/* clang-format off */
static const char nodes[] =
        "{'nodeimages':[" SET("gpu", "'inplaced.io/node-selector':'pool=a','inplaced.io/parallelism':'3'", IMAGE("r.io/a", TAG("1", "'version':0"))) ","
        NODE("n1", IMAGE("r.io/a", TAG("1", "'phase':'Succeeded','progress':100,'imageID':'r.io/a@" ID "','completionTime':'1970-01-01T00:10:00Z'") "," TAG("2", "'phase':'Pulling','progress':42"))) ","
        NODE("n2", IMAGE("r.io/b", TAG("1", "'phase':'Failed','message':'NotFound: no such tag','completionTime':'1970-01-01T00:20:00Z'"))) ","
        SET("all", "'inplaced.io/node-selector':'','inplaced.io/first':'2'", IMAGE("r.io/b", TAG("1", "'version':0"))) ","
        SET("bad", "'inplaced.io/node-selector':'a b'", "") "]}";

typedef int (*Command)(Session *session, const Flags *flags);

static int sets(Session *session, const Flags *flags) {
        cleanup(json_object_put_p) json_object *secrets = json_object_new_object();

        return sets_write(session, flags, secrets);
}

static const struct Row {
        const char *name;
        Command command;
        Flags flags;
        const char *arguments[3];
        const char *missing[2];
        const char *refused;
        const char *writes, *out, *err;
        int status;
} rows[] = {
        { "all images", kubectl_images, { 0 }, { NULL }, { NULL }, NULL, "",
            "NODE  IMAGE     PHASE      PROGRESS  SINCE  MESSAGE\n"
            "n1    r.io/a:1  Succeeded      100%     6m  \n"
            "n1    r.io/a:2  Pulling         42%      -  \n"
            "n2    r.io/b:1  Failed           0%     0s  NotFound: check the name and the tag\n", "", EXIT_STATUS_DONE },
        { "wide", kubectl_images, { .format = OUTPUT_WIDE }, { NULL }, { NULL }, NULL, "",
            "NODE  IMAGE     PHASE      PROGRESS  SINCE  IMAGE ID                         MESSAGE\n"
            "n1    r.io/a:1  Succeeded      100%     6m  sha256:aaaaaaaaaaaaaaaaaaaaaaaa  \n"
            "n1    r.io/a:2  Pulling         42%      -  -                                \n"
            "n2    r.io/b:1  Failed           0%     0s  -                                NotFound: no such tag\n", "", EXIT_STATUS_DONE },
        { "as JSON", kubectl_images, { .format = OUTPUT_JSON }, { NULL }, { NULL }, NULL, "",
            "{\n"
            "  \"items\": [\n"
            "    {\n"
            "      \"node\": \"n1\",\n"
            "      \"image\": \"r.io/a:1\",\n"
            "      \"phase\": \"Succeeded\",\n"
            "      \"progress\": 100,\n"
            "      \"imageID\": \"r.io/a@sha256:aaaaaaaaaaaaaaaaaaaaaaaa\",\n"
            "      \"since\": \"1970-01-01T00:10:00Z\"\n"
            "    },\n"
            "    {\n"
            "      \"node\": \"n1\",\n"
            "      \"image\": \"r.io/a:2\",\n"
            "      \"phase\": \"Pulling\",\n"
            "      \"progress\": 42\n"
            "    },\n"
            "    {\n"
            "      \"node\": \"n2\",\n"
            "      \"image\": \"r.io/b:1\",\n"
            "      \"phase\": \"Failed\",\n"
            "      \"progress\": 0,\n"
            "      \"message\": \"NotFound: no such tag\",\n"
            "      \"since\": \"1970-01-01T00:20:00Z\"\n"
            "    }\n"
            "  ]\n"
            "}\n", "", EXIT_STATUS_DONE },
        { "names", kubectl_images, { .wants_names = true }, { "r.io/b" }, { NULL }, NULL, "", "nodeimage/n2\n", "", EXIT_STATUS_DONE },
        { "an image", kubectl_images, { 0 }, { "r.io/a:2" }, { NULL }, NULL, "",
            "NODE  IMAGE     PHASE    PROGRESS  SINCE  MESSAGE\n"
            "n1    r.io/a:2  Pulling       42%      -  \n", "", EXIT_STATUS_DONE },
        { "an image that no node has", kubectl_images, { 0 }, { "r.io/c:2" }, { NULL }, NULL, "", "", SAYS "no images found\n", EXIT_STATUS_DONE },
        { "no name of an image", kubectl_images, { 0 }, { "r.io/A:2" }, { NULL }, NULL, "", "", SAYS "invalid image reference \"r.io/A:2\": the repository must be in lower case\n", EXIT_STATUS_FAILED },
        { "two nodes", kubectl_images, { .nodes = "n2,,n1" }, { NULL }, { NULL }, NULL, "",
            "NODE  IMAGE     PHASE      PROGRESS  SINCE  MESSAGE\n"
            "n2    r.io/b:1  Failed           0%     0s  NotFound: check the name and the tag\n"
            "n1    r.io/a:1  Succeeded      100%     6m  \n"
            "n1    r.io/a:2  Pulling         42%      -  \n", "", EXIT_STATUS_DONE },
        { "a node that is not there", kubectl_images, { .nodes = "n3,n2" }, { NULL }, { NULL }, NULL, "",
            "NODE  IMAGE     PHASE   PROGRESS  SINCE  MESSAGE\n"
            "n2    r.io/b:1  Failed        0%     0s  NotFound: check the name and the tag\n", SAYS "nodeimages \"n3\" not found\n", EXIT_STATUS_PARTLY },
        { "only a node that is not there", kubectl_images, { .nodes = "n3" }, { NULL }, { NULL }, NULL, "", "", SAYS "nodeimages \"n3\" not found\n", EXIT_STATUS_FAILED },
        { "a label", kubectl_images, { .selector = "pool", .wants_names = true }, { NULL }, { NULL }, NULL, "",
            "nodeimage/n1\n"
            "nodeimage/n2\n", "", EXIT_STATUS_DONE },
        { "nodes and a label", kubectl_images, { .selector = "pool", .nodes = "n1" }, { NULL }, { NULL }, NULL, "", "", SAYS "--nodes and a selector exclude each other\n", EXIT_STATUS_USAGE },
        { "no NodeImages", kubectl_images, { 0 }, { NULL }, { "nodeimages" }, NULL, "", "", SAYS "https://k serves no NodeImages; apply the definitions of inplaced, or install OpenKruise\n", EXIT_STATUS_FAILED },
        { "no right to look for them", kubectl_images, { 0 }, { NULL }, { NULL }, "nodeimages", "", "", SAYS "no right to use nodeimages\n", EXIT_STATUS_FAILED },
        { "sets", sets_list, { 0 }, { NULL }, { "imagepulljobs" }, NULL, "",
            "SET  SELECTOR             IMAGES  NODES  READY  FAILED\n"
            "gpu  pool=a                    1      2      1       0\n"
            "all  (all nodes)               1      2      0       1\n"
            "bad  (no label selector)       0      0      0       0\n", "", EXIT_STATUS_DONE },
        { "sets, wide", sets_list, { .format = OUTPUT_WIDE }, { NULL }, { "imagepulljobs" }, NULL, "",
            "SET  SELECTOR             IMAGES  NODES  READY  FAILED  PARALLELISM  FIRST\n"
            "gpu  pool=a                    1      2      1       0            3      -\n"
            "all  (all nodes)               1      2      0       1            -      2\n"
            "bad  (no label selector)       0      0      0       0            -      -\n", "", EXIT_STATUS_DONE },
        { "sets, as JSON", sets_list, { .format = OUTPUT_JSON }, { NULL }, { "imagepulljobs" }, NULL, "",
            "{\n"
            "  \"items\": [\n"
            "    {\n"
            "      \"name\": \"gpu\",\n"
            "      \"selector\": \"pool=a\",\n"
            "      \"images\": {\n"
            "        \"r.io/a\": {\n"
            "          \"tags\": [\n"
            "            {\n"
            "              \"tag\": \"1\",\n"
            "              \"version\": 0\n"
            "            }\n"
            "          ]\n"
            "        }\n"
            "      },\n"
            "      \"parallelism\": 3,\n"
            "      \"nodes\": 2,\n"
            "      \"ready\": 1,\n"
            "      \"failed\": 0\n"
            "    },\n"
            "    {\n"
            "      \"name\": \"all\",\n"
            "      \"selector\": \"\",\n"
            "      \"images\": {\n"
            "        \"r.io/b\": {\n"
            "          \"tags\": [\n"
            "            {\n"
            "              \"tag\": \"1\",\n"
            "              \"version\": 0\n"
            "            }\n"
            "          ]\n"
            "        }\n"
            "      },\n"
            "      \"first\": 2,\n"
            "      \"nodes\": 2,\n"
            "      \"ready\": 0,\n"
            "      \"failed\": 1\n"
            "    },\n"
            "    {\n"
            "      \"name\": \"bad\",\n"
            "      \"selector\": \"a b\",\n"
            "      \"images\": {\n"
            "      },\n"
            "      \"nodes\": 0,\n"
            "      \"ready\": 0,\n"
            "      \"failed\": 0\n"
            "    }\n"
            "  ]\n"
            "}\n", "", EXIT_STATUS_DONE },
        { "names of sets", sets_list, { .wants_names = true }, { NULL }, { "imagepulljobs" }, NULL, "",
            "nodeimage.apps.kruise.io/gpu\n"
            "nodeimage.apps.kruise.io/all\n"
            "nodeimage.apps.kruise.io/bad\n", "", EXIT_STATUS_DONE },
        { "no sets beside OpenKruise", sets_list, { 0 }, { NULL }, { NULL }, NULL, "", "", SAYS "OpenKruise takes each NodeImage for a node's: create an ImagePullJob with a selector and completionPolicy.type Never instead, which serves later nodes, too\n", EXIT_STATUS_FAILED },
        { "no sets without NodeImages", sets_list, { 0 }, { NULL }, { "imagepulljobs", "nodeimages" }, NULL, "", "", SAYS "the cluster has no NodeImages (apps.kruise.io): install inplaced's definitions\n", EXIT_STATUS_FAILED },
        { "no right to look for jobs", sets_list, { 0 }, { NULL }, { NULL }, "imagepulljobs", "", "", SAYS "no right to use imagepulljobs\n", EXIT_STATUS_FAILED },
        { "a new set", sets, { .set = "new", .selector = "pool=b", .first = "1", .parallelism = "5" }, { "r.io/x:1" }, { "imagepulljobs" }, NULL, "create nodeimages {'kind':'NodeImage','metadata':{'name':'new','labels':{'inplaced.io/set':''},'annotations':{'inplaced.io/node-selector':'pool=b','inplaced.io/first':'1','inplaced.io/parallelism':'5'}},'spec':{'images':{'r.io/x':{'tags':[{'tag':'1','createdAt':'1970-01-01T00:16:40Z','imagePullPolicy':'IfNotPresent'}]}}},'apiVersion':'apps.kruise.io/v1alpha1'}\n", "set new created\n", "", EXIT_STATUS_DONE },
        { "the same name, tried", sets, { .set = "new", .wants_names = true, .parallelism = "100%" }, { "r.io/x:1" }, { "imagepulljobs" }, NULL, "create nodeimages {'kind':'NodeImage','metadata':{'name':'new','labels':{'inplaced.io/set':''},'annotations':{'inplaced.io/node-selector':''}},'spec':{'images':{'r.io/x':{'tags':[{'tag':'1','createdAt':'1970-01-01T00:16:40Z','imagePullPolicy':'IfNotPresent'}]}}},'apiVersion':'apps.kruise.io/v1alpha1'}\n", "nodeimage.apps.kruise.io/new\n", "", EXIT_STATUS_DONE },
        { "a set changes", sets, { .set = "gpu", .parallelism = "100%" }, { "r.io/a:1" }, { "imagepulljobs" }, NULL, "patch nodeimages/gpu {'spec':{'images':{'r.io/a':{'tags':[{'tag':'1','version':0}]}}},'metadata':{'annotations':{'inplaced.io/parallelism':null},'resourceVersion':'7'}}\n", "set gpu configured\n", "", EXIT_STATUS_DONE },
        { "a set stays", sets, { .set = "gpu", .selector = "pool=a" }, { "r.io/a:1" }, { "imagepulljobs" }, NULL, "", "set gpu unchanged\n", "", EXIT_STATUS_DONE },
        { "a set with the name of a node", sets, { .set = "n1" }, { "r.io/a:1" }, { "imagepulljobs" }, NULL, "", "", SAYS "the NodeImage n1 is a node's, and no set: choose another name\n", EXIT_STATUS_FAILED },
        { "a set without a name of an image", sets, { .set = "new" }, { "r.io/A:1" }, { "imagepulljobs" }, NULL, "", "", SAYS "invalid image reference \"r.io/A:1\": the repository must be in lower case\n", EXIT_STATUS_FAILED },
        { "a set is withdrawn", sets, { .set = "gpu", .withdraw = true }, { NULL }, { "imagepulljobs" }, NULL, "delete nodeimages/gpu \n", "set gpu withdrawn\n", "", EXIT_STATUS_DONE },
        { "a set that is not there is withdrawn", sets, { .set = "new", .withdraw = true }, { NULL }, { "imagepulljobs" }, NULL, "", "", SAYS "there is no set new: kubectl inplace preload --sets lists them\n", EXIT_STATUS_FAILED },
        { "a node is not withdrawn", sets, { .set = "n1", .withdraw = true }, { NULL }, { "imagepulljobs" }, NULL, "", "", SAYS "the NodeImage n1 is a node's, and no set: choose another name\n", EXIT_STATUS_FAILED },
};
/* clang-format on */

TEST_ROWS(test_command, rows, name, const struct Row *row) {
        Flags flags = row->flags;
        Played played;

        flags.arguments = (char **) row->arguments;
        while (row->arguments[flags.n_arguments])
                flags.n_arguments++;
        memcpy(cluster.missing, row->missing, sizeof(cluster.missing));
        cluster.refused = row->refused;
        PLAY(&played, nodes, row->command(NULL, &flags));
        assert_string_equal(cluster.writes, row->writes);
        assert_string_equal(played.out.text, row->out);
        assert_string_equal(played.err.text, row->err);
        assert_int_equal(played.status, row->status);
}

TEST(test_dry_run) {
        static const char *const images[] = { "r.io/a:1", NULL };
        const Flags flags = { .set = "new", .arguments = (char **) images, .n_arguments = 1 };
        Played played;

        cluster.missing[0] = "imagepulljobs";
        cluster.refused = NULL;
        cluster.is_dry_run = true;
        PLAY(&played, nodes, sets(NULL, &flags));
        cluster.is_dry_run = false;
        assert_string_equal(played.out.text, "set new created (server dry run)\n");
}

TEST(test_nothing) {
        Played played;

        cluster.missing[0] = "imagepulljobs";
        cluster.refused = NULL;
        PLAY(&played, "{}", sets_list(NULL, &(const Flags){ .format = OUTPUT_JSON }));
        assert_string_equal(played.out.text, "{\n  \"items\": [\n  ]\n}\n");
        assert_string_equal(played.err.text, SAYS "no image sets found\n");
        assert_int_equal(played.status, EXIT_STATUS_DONE);
}
