/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The next run learns from the status file what the previous one has done
 *
 * The images are real, on a node without a runtime: none is ever pulled.
 */

#include "agent/image/image-spec.h"
#include "agent/node/node-image.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

static IdleNode f;

static int set_up(void **state) {
        idle_node_open(&f);
        return 0;
}

static int tear_down(void **state) {
        idle_node_close(&f);
        return 0;
}

static int lacks(const char *owner, void *userdata) {
        return 0;
}

/* Reads a file that has this annotation; ' in it stands for ". */
static void restore(const char *key, const char *value) {
        cleanup(json_object_put_p) json_object *file =
                parse("{'apiVersion':'apps.kruise.io/v1alpha1','kind':'NodeImage',"
                      "'metadata':{'annotations':{}},'spec':{'images':{}}}");
        json_object *annotations =
                json_object_object_get(json_object_object_get(file, "metadata"), "annotations");
        const char *text;

        assert_ok(json_object_object_add(annotations, key, json_object_new_string(value)));
        text = json_object_to_json_string(file);
        assert_ok(node_image_restore(f.images, text, strlen(text), lacks, NULL, NULL));
}

/* Requests an image again, in the version of the previous run, and returns the outcome. */
static const ImageStatus *repeat(const char *owner, const char *name) {
        DesiredImage desired;
        Image *image;

        assert_ok(desired_image_init(&desired, name, "1"));
        desired.version = 3;
        assert_ok(images_set_desired(f.images, owner,
                                     &(DesiredImages){ .items = &desired, .n_items = 1 },
                                     REQUEST_ONCE));
        desired_image_done(&desired);
        assert_ok(images_find(f.images, name, "1", &image));
        return image_status_for(image, owner, name);
}

/* Outcomes that are not the status of their image are kept, each of them. */
TEST_SET_UP(test_outcomes) {
        cleanup(json_object_put_p) json_object *outcomes =
                parse("[{'name':'nginx','tag':'1','owner':'nodeimage/a','version':3,'status':"
                      "{'tag':'1','phase':'Succeeded','completionTime':'2026-01-01T00:00:00Z'}},"
                      "{'name':'redis','tag':'1','owner':'nodeimage/b','version':3,'status':"
                      "{'tag':'1','phase':'Succeeded','completionTime':'2026-01-02T00:00:00Z'}}]");
        const ImageStatus *status;

        restore("inplaced.io/outcomes", json_object_to_json_string(outcomes));
        for (size_t i = 0; i < 2; i++) {
                status = repeat(i ? "nodeimage/b" : "nodeimage/a", i ? "redis" : "nginx");
                assert_non_null(status);
                assert_int_equal(status->phase, IMAGE_SUCCEEDED);
                assert_int_equal(status->completed_at, 1767225600 + i * 24 * 3600);
        }
        assert_null(repeat("nodeimage/c", "mysql"));
}

/* Before the runtime answers, names mean the images that they meant in the previous run. */
TEST_SET_UP(test_short_names) {
        assert_int_equal(images_short_names(f.images), SHORT_NAMES_HUB);
        restore("inplaced.io/short-names", "Hub");
        assert_int_equal(images_short_names(f.images), SHORT_NAMES_HUB);
        restore("inplaced.io/short-names", "Searched");
        assert_int_equal(images_short_names(f.images), SHORT_NAMES_SEARCHED);
}

/* Requests these images; ' in the text stands for ". */
static void desire(const char *owner, RequestKind kind, const char *images) {
        cleanup(json_object_put_p) json_object *document =
                parse("{'apiVersion':'apps.kruise.io/v1alpha1','kind':'NodeImage','spec':"
                      "{'images':{%s}}}",
                      images);
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;

        assert_ok(image_spec_parse(document, &desired_images, NULL));
        assert_ok(images_set_desired(f.images, owner, &desired_images, kind));
}

static void finish(const char *owner, const char *name, const char *tag, int64_t version,
                   ImageStatus status) {
        Image *image;

        assert_ok(images_find(f.images, name, tag, &image));
        assert_non_null(image);
        assert_int_equal(image_set_done(image, owner, name, version, &status), 1);
}

/* Makes ' of ", and leaves out \\ and the times at which requests began to wait. */
static void make_plain(char *text) {
        static const char time[] = ",'lastTransitionTime':'";
        char *to = text;

        for (const char *at = text; *at; at++)
                if (*at != '\\')
                        *to++ = *at == '"' ? '\'' : *at;
        *to = '\0';
        while ((text = strstr(text, time))) {
                const char *end = strchr(text + strlen(time), '\'') + 1;

                memmove(text, end, strlen(end) + 1);
        }
}

static char *write_text(void) {
        const NodeImageOptions options = { .images = f.images,
                                           .node_name = "n1",
                                           .runtime = "none" };
        char *text;

        assert_ok(node_image_to_text(&options, &text));
        return text;
}

static int lacks_all(const char *owner, void *userdata) {
        return 1;
}

/* All that requests have is there again. */
TEST_SET_UP(test_next_run) {
        /* clang-format off */
        static const struct {
                const char *text;
                bool is_of_owner; /* the owner says it once more */
        } parts[] = {
                { "'inplaced.io/pins': '[{'name':'nginx','tag':'1','owner':'file/web.yaml','version':0,'timeoutSeconds':60,"
                  "'backoffLimit':3,'imagePullPolicy':'Always','complete':false}]'", false },
                { "'owner':'request/0123456789abcdef','version':0,'timeoutSeconds':600,'ttlSecondsAfterFinished':5,"
                  "'activeDeadlineSeconds':9,", false },
                { "{'tag':'1','imagePullPolicy':'Always','pullPolicy':{'timeoutSeconds':600},'pin':true,"
                  "'ownerReferences':[{'apiVersion':'inplaced.io/v1','kind':'File','name':'web.yaml'},"
                  "{'apiVersion':'inplaced.io/v1','kind':'Request','name':'0123456789abcdef','fieldPath':'uid 1000'}]}", false },
                { "{'tag':'2','createdAt':'2026-01-01T00:00:00Z','version':3,'imagePullPolicy':'Always','pullPolicy':"
                  "{'timeoutSeconds':600,'backoffLimit':0},'pullSecrets':[{'namespace':'a','name':'b'}],'sandboxConfig':"
                  "{'labels':{'c':'d'},'annotations':{'e':'f'}},'ownerReferences':[", false },
                { "{'apiVersion':'inplaced.io/v1','kind':'NodeImage','name':'u-1','resourceVersion':'3'}]}", false },
                { "{'tag':'2','phase':'Failed','completionTime':'2026-01-01T00:00:00Z','version':3}", false },
                { "'desired': 4,\n    'succeeded': 0,\n    'failed': 1,\n    'pulling': 0,\n    'waiting': 3", false },
                { "'ownerReferences':[{'apiVersion':'apps.kruise.io/v1alpha1','kind':'ImagePullJob','namespace':'g','name':'h',"
                  "'uid':'i'},", true },
                { "'name':'web.yaml','fieldPath':'docker.io/library/redis'}", true },
        };
        /* clang-format on */
        cleanup(free_p) char *text = NULL, *again = NULL;

        desire("file/web.yaml", REQUEST_DESIRED,
               "'nginx':{'tags':[{'tag':'1','imagePullPolicy':'Always','pin':true,"
               "'pullPolicy':{'timeoutSeconds':60,'backoffLimit':3}}]},"
               "'docker.io/library/redis':{'tags':[{'tag':'1'}]}");
        desire("file/db.yaml", REQUEST_DESIRED,
               "'redis':{'tags':[{'tag':'1','pullPolicy':{'backoffLimit':4}}]}");
        desire("request/0123456789abcdef", REQUEST_EPHEMERAL,
               "'nginx':{'tags':[{'tag':'1','pullPolicy':"
               "{'ttlSecondsAfterFinished':5,'activeDeadlineSeconds':9},'ownerReferences':"
               "[{'apiVersion':'inplaced.io/v1','kind':'Request','name':'0123456789abcdef',"
               "'fieldPath':'uid 1000'}]}]}");
        desire("nodeimage/u-1", REQUEST_ONCE,
               "'nginx':{'pullSecrets':[{'namespace':'a','name':'b'}],'sandboxConfig':"
               "{'labels':{'c':'d'},'annotations':{'e':'f'}},'tags':[{'tag':'2','version':3,'pullPolicy':{'backoffLimit':0},"
               "'createdAt':'2026-01-01T00:00:00Z','ownerReferences':[{'apiVersion':"
               "'apps.kruise.io/v1alpha1','kind':'ImagePullJob','namespace':'g','name':'h',"
               "'uid':'i'}]},{'tag':'3','version':4}]}");
        finish("nodeimage/u-1", "nginx", "2", 3,
               (ImageStatus){ .phase = IMAGE_FAILED, .version = 3, .completed_at = 1767225600 });
        while (sd_event_run(f.event, 0) > 0)
                ;
        text = write_text();
        idle_node_close(&f);
        idle_node_open(&f);
        assert_ok(node_image_restore(f.images, text, strlen(text), lacks_all, NULL, NULL));
        while (sd_event_run(f.event, 0) > 0)
                ;
        again = write_text();
        make_plain(text);
        make_plain(again);
        for (size_t i = 0; i < N_ELEMENTS(parts); i++) {
                assert_contains(text, parts[i].text);
                if (!parts[i].is_of_owner)
                        assert_contains(again, parts[i].text);
        }
}
