/* SPDX-License-Identifier: Apache-2.0 */

#include <json-c/json.h>

#include "agent/ctl/message-json.h"
#include "agent/document/json-cleanup.h"
#include "proto/inplaced/v1/node.pb-c.h"
#include "tests/unit/unit.h"

static char *texts[] = { "a:1", "a:2" };
static Inplaced__V1__OnDemand counted = {
        .layers = 2, .all_layers = 3, .counted = true, .bytes_total = 9
};
static Inplaced__V1__OnDemand uncounted = { .layers = 2, .all_layers = 3, .bytes_total = 9 };
static Inplaced__V1__RetryResult retried = { .image = "a", .retried = true, .message = "" };
static Inplaced__V1__RetryResult refused = { .image = "b", .message = "no" };
static Inplaced__V1__RetryResult *results[] = { &retried, &refused };

static void assert_json(void *message, const ProtobufCMessageDescriptor *type,
                        const char *expected) {
        cleanup(json_object_put_p) json_object *object = NULL;

        ((ProtobufCMessage *) message)->descriptor = type;
        object = json_from_message(message);
        assert_non_null(object);
        assert_string_equal(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN),
                            expected);
}

/* All its fields, also empty ones, but no absent message, and no cause of a pin that is none. */
TEST(test_fields_in_order) {
        Inplaced__V1__Image image = {
                .id = "",
                .repo_tags = texts,
                .n_repo_tags = 2,
                .size_bytes = UINT64_MAX,
                .pinned = true,
        };

        assert_json(&image, &inplaced__v1__image__descriptor,
                    "{\"id\":\"\",\"repoTags\":[\"a:1\",\"a:2\"],\"repoDigests\":[],"
                    "\"sizeBytes\":18446744073709551615,\"pinned\":true,\"pinnedByInplaced\":false,"
                    "\"requestedBy\":[]}");
        image.pinned = false;
        image.n_repo_tags = image.size_bytes = 0;
        assert_json(&image, &inplaced__v1__image__descriptor,
                    "{\"id\":\"\",\"repoTags\":[],\"repoDigests\":[],\"sizeBytes\":0,"
                    "\"pinned\":false,\"requestedBy\":[]}");
}

TEST(test_members_of_the_table) {
        Inplaced__V1__Probe probe = {
                .namespace_ = "n",
                .pod = "p",
                .container = "c",
                .name = "x",
                .kind = "exec",
                .period_seconds = 5,
                .state = INPLACED__V1__PROBE_STATE__PROBE_STATE_FAILED,
                .since = -1,
                .message = "m",
                .runs = 2,
                .duration_usec = 3,
        };
        Inplaced__V1__RestartEvent event = {
                .namespace_ = "n",
                .pod = "p",
                .container = "c",
                .final = true,
                .old_container_id = "o",
                .new_container_id = "",
                .message = "",
        };

        assert_json(
                &probe, &inplaced__v1__probe__descriptor,
                "{\"namespace\":\"n\",\"pod\":\"p\",\"container\":\"c\",\"name\":\"x\",\"kind\":\"exec\","
                "\"periodSeconds\":5,\"state\":\"Failed\",\"since\":-1,\"runs\":2,"
                "\"durationMicroseconds\":3,\"message\":\"m\"}");
        assert_json(&event, &inplaced__v1__restart_event__descriptor,
                    "{\"namespace\":\"n\",\"pod\":\"p\",\"container\":\"c\",\"phase\":\"Waiting\","
                    "\"oldContainerID\":\"o\",\"newContainerID\":\"\",\"message\":\"\"}");
}

TEST(test_conditions) {
        Inplaced__V1__RetryResponse reply = { .results = results, .n_results = 2 };

        retried.base.descriptor = refused.base.descriptor = &inplaced__v1__retry_result__descriptor;
        assert_json(&counted, &inplaced__v1__on_demand__descriptor,
                    "{\"layers\":2,\"bytesPresent\":0,\"bytesTotal\":9}");
        assert_json(&uncounted, &inplaced__v1__on_demand__descriptor, "{\"layers\":2}");
        assert_json(&reply, &inplaced__v1__retry_response__descriptor,
                    "{\"results\":[{\"image\":\"a\",\"retried\":true},"
                    "{\"image\":\"b\",\"retried\":false,\"message\":\"no\"}]}");
}

static const struct WordsOfEnumsRow {
        const ProtobufCEnumDescriptor *type;
        int value;
        const char *word;
} words_of_enums_rows[] = {
        { &inplaced__v1__step__descriptor, INPLACED__V1__STEP__STEP_BACKING_OFF, "BackingOff" },
        { &inplaced__v1__verdict__descriptor, 0, "Unknown" },
        { &inplaced__v1__verdict__descriptor, 99, "Unknown" },
        { &inplaced__v1__phase__descriptor, 0, "Waiting" },
};

TEST_ROWS(test_words_of_enums, words_of_enums_rows, word, const struct WordsOfEnumsRow *row) {
        assert_string_equal(enum_to_text(row->type, row->value, FORMAT_BUFFER), row->word);
}
