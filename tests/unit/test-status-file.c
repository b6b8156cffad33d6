/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The next run learns from the status file what the previous one has done
 *
 * The images are real, on a node without a runtime: none is ever pulled.
 */

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
