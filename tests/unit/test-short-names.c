/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Images whose names have no registry, before it is known what the runtime makes of them and after that
 *
 * The images are real, on a node without a runtime: none is ever pulled.
 */

#include "tests/unit/failing-memory.h"
#include "tests/unit/idle-images.h"
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

/* Images without requests go with the pass that follows. */
static void turn(void) {
        while (sd_event_run(f.event, 0) > 0)
                ;
}

/* Sets the requests of an owner; names end with NULL. */
static void request(const char *owner, bool is_hub, const char *const *names) {
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;

        for (; *names; names++) {
                DesiredImage desired;

                assert_ok(desired_image_init(&desired, *names, "1"));
                desired.is_hub = is_hub;
                assert_ok(desired_images_take(&desired_images, &desired));
        }
        assert_ok(images_set_desired(f.images, owner, &desired_images, REQUEST_DESIRED));
        turn();
}

#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* All images, as "KEY (NAME): OWNER NAME, ...; ". */
static void assert_images(const char *expected) {
        cleanup(free_p) char *text = NULL;
        size_t size;
        FILE *file = open_memstream(&text, &size);

        for (size_t i = 0; i < images_count(f.images); i++) {
                const Image *image = images_get(f.images, i);

                (void) fprintf(file, "%s (%s):", image_key(image), image_name(image));
                for (const ImageRequest *request = image_requests(image); request;
                     request = request->next)
                        (void) fprintf(file, " %s/%s", request->owner, request->desired.name);
                (void) fputs("; ", file);
        }
        assert_ok(fclose(file));
        assert_string_equal(text, expected);
}

/* Checks the key of the image that the search finds or "none"; also that no image is missed when memory is short. */
#define ASSERT_FOUND(find, argument, key)                                                    \
        do {                                                                                 \
                Image *image;                                                                \
                                                                                             \
                ASSERT_WITHOUT_MEMORY(find(f.images, argument, &image), 0,                   \
                                      assert_string_equal(image ? image_key(image) : "none", \
                                                          key));                             \
        } while (0)

/* Two spellings in one folder are one image to containerd and two to CRI-O. */
TEST_SET_UP(test_two_spellings) {
        request("file/a", false, NAMES("nginx", "docker.io/library/nginx"));
        assert_images("docker.io/library/nginx:1 (nginx): file/a/nginx "
                      "file/a/docker.io/library/nginx; ");

        assert_ok(images_set_short_names(f.images, SHORT_NAMES_SEARCHED));
        turn();
        assert_images("docker.io/library/nginx:1 (docker.io/library/nginx): "
                      "file/a/docker.io/library/nginx; nginx:1 (nginx): file/a/nginx; ");

        assert_ok(images_set_short_names(f.images, SHORT_NAMES_HUB));
        turn();
        assert_images("docker.io/library/nginx:1 (nginx): file/a/docker.io/library/nginx "
                      "file/a/nginx; ");
}

TEST_SET_UP(test_known_before) {
        assert_ok(images_set_short_names(f.images, SHORT_NAMES_SEARCHED));
        request("file/a", false,
                NAMES("nginx", "docker.io/library/nginx", "index.docker.io/nginx"));
        request("request/b", false, NAMES("nginx"));
        assert_images("docker.io/library/nginx:1 (docker.io/library/nginx): "
                      "file/a/docker.io/library/nginx file/a/index.docker.io/nginx; "
                      "nginx:1 (nginx): file/a/nginx request/b/nginx; ");

        ASSERT_FOUND(images_find_reference, "nginx:1", "nginx:1");
        ASSERT_FOUND(images_find_reference, "docker.io/nginx:1", "docker.io/library/nginx:1");
        ASSERT_FOUND(images_find_reference, "library/nginx:1", "none");
        ASSERT_FOUND(images_find_reference, "no reference", "none");
}

/* An owner may still give up a request whose image got another name. */
TEST_SET_UP(test_given_up) {
        request("file/a", false, NAMES("nginx", "localhost/x"));
        assert_ok(images_set_short_names(f.images, SHORT_NAMES_SEARCHED));
        request("file/a", false, NAMES("localhost/x"));
        assert_images("localhost/x:1 (localhost/x): file/a/localhost/x; ");
}

/* The keys of a cluster's NodeImage have lost "docker.io/", which they mean nevertheless. */
TEST_SET_UP(test_cluster) {
        DesiredImage desired;

        request("nodeimage/u", true, NAMES("nginx", "foo/evil", "quay.io/x"));
        request("file/a", false, NAMES("foo/evil"));
        assert_ok(images_set_short_names(f.images, SHORT_NAMES_SEARCHED));
        turn();
        assert_images("docker.io/foo/evil:1 (docker.io/foo/evil): nodeimage/u/foo/evil; "
                      "docker.io/library/nginx:1 (docker.io/library/nginx): nodeimage/u/nginx; "
                      "foo/evil:1 (foo/evil): file/a/foo/evil; "
                      "quay.io/x:1 (quay.io/x): nodeimage/u/quay.io/x; ");

        assert_ok(desired_image_init(&desired, "foo/evil", "1"));
        ASSERT_FOUND(images_find_desired, &desired, "foo/evil:1");
        desired.is_hub = true;
        ASSERT_FOUND(images_find_desired, &desired, "docker.io/foo/evil:1");
        desired_image_done(&desired);
}
