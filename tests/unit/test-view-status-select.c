/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Some of the images of a NodeImage object
 */

#include "agent/document/json-reader.h"
#include "agent/view/status-rows.h"
#include "agent/view/status-select.h"
#include "tests/unit/unit.h"

static const char node_image[] =
        "{\"spec\":{\"images\":{"
        "\"nginx\":{\"pullSecrets\":[{\"name\":\"s\"}],\"tags\":[{\"tag\":\"1\"},{\"tag\":\"2\"}]},"
        "\"reg.example:5000/app\":{\"tags\":[{\"tag\":\"1\"}]},"
        "\"UPPER\":{\"tags\":[{\"tag\":\"1\"}]}}},"
        "\"status\":{\"desired\":4,\"imageStatuses\":{"
        "\"nginx\":{\"tags\":[{\"tag\":\"1\",\"phase\":\"Succeeded\"},{\"tag\":\"2\",\"phase\":\"Failed\"}]},"
        "\"reg.example:5000/app\":{\"tags\":[{\"tag\":\"2\",\"phase\":\"BackOff\"}]},"
        "\"gone\":{\"tags\":[{\"tag\":\"1\",\"phase\":\"Missing\"}]},"
        "\"UPPER\":{\"tags\":[{\"tag\":\"1\",\"phase\":\"Failed\"}]}}}}";

/* clang-format off */
static const struct Row {
        const char *images[3];
        bool only_failed;
        ErrorKind refusal;    /* ERROR_NONE: it is selected */
        const char *selected; /* IMAGE:TAG PHASE, in order */
} rows[] = {
        { { "nginx" },                       false, ERROR_NONE,      "nginx:1 Succeeded,nginx:2 Failed," },
        { { "nginx:1" },                     false, ERROR_NONE,      "nginx:1 Succeeded," },
        { { "docker.io/library/nginx:2" },   false, ERROR_NONE,      "nginx:2 Failed," },
        { { "nginx" },                       true,  ERROR_NONE,      "nginx:2 Failed," },
        { { "nginx:1" },                     true,  ERROR_NONE,      "" },
        { { NULL },                          true,  ERROR_NONE,      "UPPER:1 Failed,gone:1 Missing,nginx:2 Failed,reg.example:5000/app:2 BackOff," },
        { { "reg.example:5000/app" },        false, ERROR_NONE,      "reg.example:5000/app:1 Waiting,reg.example:5000/app:2 BackOff," },
        { { "nginx:1", "reg.example:5000/app:1" }, false, ERROR_NONE, "nginx:1 Succeeded,reg.example:5000/app:1 Waiting," },
        { { "nginx:3" },                     false, ERROR_NOT_FOUND, NULL },
        { { "nginx:1", "other" },            false, ERROR_NOT_FOUND, NULL },
        { { "other.example/nginx" },         false, ERROR_NOT_FOUND, NULL },
        { { "UPPER:1" },                     false, ERROR_INVALID,   NULL },
};
/* clang-format on */

static void append(char *text, size_t size, const char *more) {
        assert_true(strlen(text) + strlen(more) < size);
        strcat(text, more);
}

static void check_rows(json_object *object, const char *expected) {
        StatusRows read = STATUS_ROWS_INIT;
        char text[256] = "";

        assert_int_equal(status_rows_read(object, &read), 0);
        for (size_t i = 0; i < read.n_items; i++) {
                append(text, sizeof(text), read.items[i].image);
                append(text, sizeof(text), ":");
                append(text, sizeof(text), read.items[i].tag);
                append(text, sizeof(text), " ");
                append(text, sizeof(text), read.items[i].phase);
                append(text, sizeof(text), ",");
        }
        assert_string_equal(text, expected);
        status_rows_done(&read);
}

TEST(test_rows) {
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(error_done) Error error = ERROR_INIT;
                json_object *object = json_tokener_parse(node_image);
                StatusSelection selection = {
                        .images = (char *const *) rows[i].images,
                        .only_failed = rows[i].only_failed,
                };

                print_message("row %zu\n", i);
                assert_non_null(object);
                while (selection.n_images < 3 && rows[i].images[selection.n_images])
                        selection.n_images++;
                (void) status_select(object, &selection, &error);
                assert_int_equal(error.kind, rows[i].refusal);
                if (rows[i].refusal == ERROR_NONE)
                        check_rows(object, rows[i].selected);
                json_object_put(object);
        }
}

/* Members beside the tags stay, and so do the counts. */
TEST(test_rest_stays) {
        json_object *object = json_tokener_parse(node_image), *images, *image;
        char *const names[] = { (char *) "nginx:2" };
        const StatusSelection selection = { .images = names, .n_images = 1 };

        assert_int_equal(status_select(object, &selection, NULL), 0);
        images = json_get(json_get(object, "spec", json_type_object), "images", json_type_object);
        assert_int_equal(json_object_object_length(images), 1);
        image = json_get(images, "nginx", json_type_object);
        assert_non_null(json_get(image, "pullSecrets", json_type_array));
        assert_int_equal(json_get_integer(json_get(object, "status", json_type_object), "desired"),
                         4);
        json_object_put(object);
}
