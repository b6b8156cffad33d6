/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the patches of the status of a NodeImage
 */

#include <time.h>

#include "agent/cluster/status-diff.h"
#include "tests/unit/merge-patch.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define N_ENTRIES_MAX 4

/* 2026-01-31T23:59:59Z and a minute later. */
#define STARTED 1769903999
#define ENDED 1769904059

static const ImageStatus pulling = { .phase = IMAGE_PULLING, .started_at = STARTED };
static const ImageStatus backing_off = { .phase = IMAGE_BACKING_OFF,
                                         .started_at = STARTED,
                                         .attempt = 3,
                                         .next_attempt_at = STARTED + 9 };
static const ImageStatus backing_off_early = { .phase = IMAGE_BACKING_OFF, .attempt = 1 };
static const ImageStatus half = {
        .phase = IMAGE_PULLING, .started_at = STARTED, .bytes_done = 50, .bytes_total = 99
};
static const ImageStatus succeeded = { .phase = IMAGE_SUCCEEDED,
                                       .started_at = STARTED,
                                       .completed_at = ENDED,
                                       .image_id = (char *) "sha256:1" };
static const ImageStatus not_pinned = { .phase = IMAGE_SUCCEEDED,
                                        .started_at = STARTED + 1,
                                        .completed_at = ENDED + 1,
                                        .pin = (char *) "not pinned: no" };
static const ImageStatus failed = { .phase = IMAGE_FAILED,
                                    .started_at = STARTED,
                                    .completed_at = ENDED,
                                    .message = (char *) "NotFound: no" };

#define NO_COUNTS "'desired':0,'succeeded':0,'failed':0,'pulling':0,'waiting':0"
#define COUNTS(d, s, f, p, w) \
        "'desired':" #d ",'succeeded':" #s ",'failed':" #f ",'pulling':" #p ",'waiting':" #w
#define ONE(tag) "'imageStatuses':{'nginx':{'tags':[" tag "]}}"
#define WAITS "{'tag':'1','phase':'Waiting'}"
#define PULLS "{'tag':'1','phase':'Pulling','startTime':'2026-01-31T23:59:59Z'}"
#define PULLS_HALF "{'tag':'1','phase':'Pulling','progress':50,'startTime':'2026-01-31T23:59:59Z'}"
#define SUCCEEDED                                                                           \
        "{'tag':'1','phase':'Succeeded','progress':100,'startTime':'2026-01-31T23:59:59Z'," \
        "'completionTime':'2026-02-01T00:00:59Z','imageID':'nginx@sha256:1'}"
#define NOT_PINNED                                                                          \
        "{'tag':'1','phase':'Succeeded','progress':100,'startTime':'2026-01-31T23:59:59Z'," \
        "'completionTime':'2026-02-01T00:00:59Z','imageID':'nginx@sha256:1','message':'not pinned: no'}"
#define FAILED_2                                                          \
        "{'tag':'2','phase':'Failed','startTime':'2026-01-31T23:59:59Z'," \
        "'completionTime':'2026-02-01T00:00:59Z','message':'NotFound: no'}"
#define TIMED_OUT                                                                        \
        "{'tag':'1','phase':'Failed','completionTime':'2020-01-01T00:00:00Z','extra':1," \
        "'message':'node has not responded for a long time'}"

/* clang-format off */

static const struct Case {
        const char *name;
        const char *observed;
        StatusEntry entries[N_ENTRIES_MAX];
        StatusDifference difference;
        const char *patch; /* patch of the status; NULL: none */
} cases[] = {
        { "is empty and new", "null", { { NULL } }, STATUS_DIFFERENT, "{" NO_COUNTS "}" },
        { "is empty and says so", "{" NO_COUNTS "}", { { NULL } }, STATUS_SAME, NULL },
        { "is new and has an image", "null", { { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT,
          "{" COUNTS(1,0,0,0,1) "," ONE(WAITS) "}" },
        { "waits and says so", "{" COUNTS(1,0,0,0,1) "," ONE(WAITS) "}",
          { { "nginx", "1", 0, NULL, false } }, STATUS_SAME, NULL },
        { "begins to pull", "{" COUNTS(1,0,0,0,1) "," ONE(WAITS) "}",
          { { "nginx", "1", 0, &pulling, false } }, STATUS_DIFFERENT,
          "{'pulling':1,'waiting':0," ONE(PULLS) "}" },
        { "waits between two attempts, which the others call pulling",
          "{" COUNTS(1,0,0,0,1) "," ONE(WAITS) "}",
          { { "nginx", "1", 0, &backing_off, false } }, STATUS_DIFFERENT,
          "{'pulling':1,'waiting':0," ONE(PULLS) "}" },
        { "could not even be inspected", "{" COUNTS(1,0,0,0,1) "," ONE(WAITS) "}",
          { { "nginx", "1", 0, &backing_off_early, false } }, STATUS_SAME, NULL },
        { "has progress", "{" COUNTS(1,0,0,1,0) "," ONE(PULLS) "}",
          { { "nginx", "1", 0, &half, false } }, STATUS_PROGRESS, "{" ONE(PULLS_HALF) "}" },
        { "loses progress", "{" COUNTS(1,0,0,1,0) "," ONE(PULLS_HALF) "}",
          { { "nginx", "1", 0, &pulling, false } }, STATUS_PROGRESS, "{" ONE(PULLS) "}" },
        { "has the same progress", "{" COUNTS(1,0,0,1,0) "," ONE(PULLS_HALF) "}",
          { { "nginx", "1", 0, &half, false } }, STATUS_SAME, NULL },
        { "has succeeded", "{" COUNTS(1,0,0,1,0) "," ONE(PULLS_HALF) "}",
          { { "nginx", "1", 0, &succeeded, false } }, STATUS_DIFFERENT,
          "{'succeeded':1,'pulling':0," ONE(SUCCEEDED) "}" },
        { "has succeeded for a set, after a tag of the spec had failed",
          "{" COUNTS(1,0,1,0,0) "," ONE(TIMED_OUT) "}",
          { { "nginx", "1", 0, &succeeded, true } }, STATUS_DIFFERENT,
          "{'succeeded':1,'failed':0," ONE(SUCCEEDED) "}" },
        { "is pulled for a set, which has not ended yet",
          "{" COUNTS(1,0,1,0,0) "," ONE(TIMED_OUT) "}",
          { { "nginx", "1", 0, &pulling, true } }, STATUS_SAME, NULL },
        { "has succeeded for a set and says so", "{" COUNTS(1,1,0,0,0) "," ONE(SUCCEEDED) "}",
          { { "nginx", "1", 0, &succeeded, true } }, STATUS_SAME, NULL },
        { "is not pinned, as is found out later", "{" COUNTS(1,1,0,0,0) "," ONE(SUCCEEDED) "}",
          { { "nginx", "1", 0, &not_pinned, false } }, STATUS_DIFFERENT, "{" ONE(NOT_PINNED) "}" },
        { "is still not pinned", "{" COUNTS(1,1,0,0,0) "," ONE(NOT_PINNED) "}",
          { { "nginx", "1", 0, &not_pinned, false } }, STATUS_SAME, NULL },
        { "is pinned at last", "{" COUNTS(1,1,0,0,0) "," ONE(NOT_PINNED) "}",
          { { "nginx", "1", 0, &succeeded, false } }, STATUS_DIFFERENT, "{" ONE(SUCCEEDED) "}" },
        { "is not pinned, and missing since", "{" COUNTS(1,1,0,0,0) "," ONE(NOT_PINNED) "}",
          { { "nginx", "1", 0, NULL, false } }, STATUS_SAME, NULL },
        { "is finished by another writer, and not pinned", "{" COUNTS(1,0,1,0,0) "," ONE(TIMED_OUT) "}",
          { { "nginx", "1", 0, &not_pinned, false } }, STATUS_SAME, NULL },
        { "is finished by another writer", "{" COUNTS(1,0,1,0,0) "," ONE(TIMED_OUT) "}",
          { { "nginx", "1", 0, &pulling, false } }, STATUS_SAME, NULL },
        { "is finished by a writer that cannot count", "{" COUNTS(1,0,0,1,0) "," ONE(TIMED_OUT) "}",
          { { "nginx", "1", 0, &succeeded, false } }, STATUS_DIFFERENT, "{'failed':1,'pulling':0}" },
        { "is finished, but another version is asked for",
          "{" COUNTS(1,0,1,0,0) "," ONE(TIMED_OUT) "}",
          { { "nginx", "1", 1, NULL, false } }, STATUS_DIFFERENT,
          "{'failed':0,'waiting':1," ONE("{'tag':'1','phase':'Waiting','version':1}") "}" },
        { "has a version of its own, which does not count", "null",
          { { "nginx", "1", 7, &pulling, false } }, STATUS_DIFFERENT,
          "{" COUNTS(1,0,0,1,0) ","
          ONE("{'tag':'1','phase':'Pulling','startTime':'2026-01-31T23:59:59Z','version':7}") "}" },
        { "has tags in disorder", "{" COUNTS(2,1,1,0,0) "," ONE(FAILED_2 "," SUCCEEDED) "}",
          { { "nginx", "2", 0, &failed, false }, { "nginx", "1", 0, &succeeded, false } }, STATUS_DIFFERENT,
          "{" ONE(SUCCEEDED "," FAILED_2) "}" },
        { "has entries in disorder", "{" COUNTS(2,1,1,0,0) "," ONE(SUCCEEDED "," FAILED_2) "}",
          { { "nginx", "2", 0, &failed, false }, { "nginx", "1", 0, &succeeded, false } }, STATUS_SAME, NULL },
        { "has a tag twice", "{" COUNTS(1,1,0,0,0) "," ONE(PULLS "," SUCCEEDED) "}",
          { { "nginx", "1", 0, &pulling, false } }, STATUS_DIFFERENT, "{" ONE(SUCCEEDED) "}" },
        { "has a tag that is not asked for", "{" COUNTS(1,1,0,0,0) "," ONE(SUCCEEDED "," FAILED_2) "}",
          { { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT, "{" ONE(SUCCEEDED) "}" },
        { "asks for a tag more", "{" COUNTS(1,1,0,0,0) "," ONE(SUCCEEDED) "}",
          { { "nginx", "1", 0, NULL, false }, { "nginx", "2", 0, &failed, false } }, STATUS_DIFFERENT,
          "{'desired':2,'failed':1," ONE(SUCCEEDED "," FAILED_2) "}" },
        { "no longer has an image",
          "{" COUNTS(1,1,0,0,0) ",'imageStatuses':{'a':{'tags':[]},'nginx':{'tags':[" SUCCEEDED "]},"
          "'z':null}}",
          { { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT, "{'imageStatuses':{'a':null,'z':null}}" },
        { "no longer has any image", "{" COUNTS(1,1,0,0,0) "," ONE(SUCCEEDED) "}", { { NULL } },
          STATUS_DIFFERENT, "{'desired':0,'succeeded':0,'imageStatuses':{'nginx':null}}" },
        { "writes only the image that differs",
          "{" COUNTS(2,1,0,0,1) ",'imageStatuses':{'nginx':{'tags':[" SUCCEEDED "]},"
          "'redis':{'tags':[" WAITS "]}}}",
          { { "redis", "1", 0, &pulling, false }, { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT,
          "{'pulling':1,'waiting':0,'imageStatuses':{'redis':{'tags':[" PULLS "]}}}" },
        { "keeps what others have added",
          "{" COUNTS(1,0,0,1,0) ",'firstSyncStatus':{'status':'Failed'},'imageStatuses':{'nginx':"
          "{'more':1,'tags':[{'tag':'1','phase':'Pulling','x':null,"
          "'startTime':'2026-01-31T23:59:59Z'}]}}}",
          { { "nginx", "1", 0, &pulling, false } }, STATUS_SAME, NULL },
        { "keeps what others have added to an entry, beside one that changes",
          "{" COUNTS(2,0,0,1,1) "," ONE("{'tag':'0','phase':'Waiting','x':1}," PULLS) "}",
          { { "nginx", "0", 0, NULL, false }, { "nginx", "1", 0, &half, false } }, STATUS_PROGRESS,
          "{" ONE("{'tag':'0','phase':'Waiting','x':1}," PULLS_HALF) "}" },
        { "is of an older schema", "{'desired':1,'succeeded':0,'failed':0,'pulling':0," ONE(WAITS) "}",
          { { "nginx", "1", 0, NULL, false } }, STATUS_SAME, NULL },
        { "is of an older schema and changes",
          "{'desired':1,'succeeded':0,'failed':0,'pulling':0," ONE(WAITS) "}",
          { { "nginx", "1", 0, &pulling, false } }, STATUS_DIFFERENT,
          "{'pulling':1,'waiting':0," ONE(PULLS) "}" },
        { "is a string", "'hello'", { { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT,
          "{" COUNTS(1,0,0,0,1) "," ONE(WAITS) "}" },
        { "has a string for images", "{" COUNTS(1,0,0,0,1) ",'imageStatuses':'x'}",
          { { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT, "{" ONE(WAITS) "}" },
        { "has a string for images and needs none", "{" NO_COUNTS ",'imageStatuses':'x'}",
          { { NULL } }, STATUS_DIFFERENT, "{'imageStatuses':null}" },
        { "has a list for an image", "{" COUNTS(1,0,0,0,1) ",'imageStatuses':{'nginx':[1]}}",
          { { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT, "{" ONE(WAITS) "}" },
        { "has an object for tags", "{" COUNTS(1,0,0,0,1) ",'imageStatuses':{'nginx':{'tags':{}}}}",
          { { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT, "{" ONE(WAITS) "}" },
        { "has no entries among its tags", "{" COUNTS(1,0,0,0,1) "," ONE("3,null,{},[]," WAITS) "}",
          { { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT, "{" ONE(WAITS) "}" },
        { "has strings for counts",
          "{'desired':'1','succeeded':null,'failed':0.0,'pulling':{},'waiting':'1'," ONE(WAITS) "}",
          { { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT, "{" COUNTS(1,0,0,0,1) "}" },
        { "is finished in no phase",
          "{" COUNTS(1,0,0,0,1) ","
          ONE("{'tag':'1','phase':'Done','completionTime':'2020-01-01T00:00:00Z'}") "}",
          { { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT, "{" ONE(WAITS) "}" },
        { "is finished at no time",
          "{" COUNTS(1,1,0,0,0) "," ONE("{'tag':'1','phase':'Succeeded','completionTime':'soon'}") "}",
          { { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT, "{'succeeded':0,'waiting':1," ONE(WAITS) "}" },
        { "is finished for a version that is a text",
          "{" COUNTS(1,1,0,0,0) "," ONE("{'tag':'1','phase':'Succeeded','version':'0',"
          "'completionTime':'2020-01-01T00:00:00Z'}") "}",
          { { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT, "{'succeeded':0,'waiting':1," ONE(WAITS) "}" },
        { "asks for a tag twice", "null",
          { { "nginx", "1", 0, NULL, false }, { "nginx", "1", 0, NULL, false } }, STATUS_DIFFERENT,
          "{" COUNTS(1,0,0,0,1) "," ONE(WAITS) "}" },
        { "asks for two versions of a tag", "null",
          { { "nginx", "1", 7, NULL, false }, { "nginx", "1", 3, NULL, false } }, STATUS_DIFFERENT,
          "{" COUNTS(1,0,0,0,1) "," ONE("{'tag':'1','phase':'Waiting','version':7}") "}" },
};

/* clang-format on */

static size_t count_entries(const StatusEntry *entries) {
        size_t n = 0;

        while (n < N_ENTRIES_MAX && entries[n].name)
                n++;
        return n;
}

/* Applies the patch to the object as the server does. */
static json_object *patch_status(json_object *status, json_object *patch) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        json_object *result = NULL;

        json_object_object_add(object, "status", copy_json(status));
        object = apply_merge_patch(object, patch);
        (void) json_object_object_get_ex(object, "status", &result);
        return json_object_get(result);
}

static void assert_settled(json_object *status, const StatusEntry *entries, size_t n_entries) {
        cleanup(json_object_put_p) json_object *patch = NULL;

        if (status_diff(status, entries, n_entries, &patch) != STATUS_SAME)
                fail_msg("%s is still patched with %s", json_object_to_json_string(status),
                         json_object_to_json_string(patch));
        assert_null(patch);
}

TEST_ROWS(test_case, cases, name, const struct Case *test) {
        cleanup(json_object_put_p) json_object *observed = parse("%s", test->observed);
        cleanup(json_object_put_p) json_object *before = copy_json(observed);
        cleanup(json_object_put_p) json_object *patch = NULL, *after = NULL;
        size_t n = count_entries(test->entries);
        json_object *status = NULL;
        int r;

        r = status_diff(observed, test->entries, n, &patch);
        assert_true(json_object_equal(observed, before));
        if (test->patch) {
                assert_non_null(patch);
                assert_int_equal(json_object_object_length(patch), 1);
                (void) json_object_object_get_ex(patch, "status", &status);
                assert_json(status, test->patch);
                after = patch_status(observed, patch);
                assert_settled(after, test->entries, n);
        } else {
                assert_null(patch);
        }
        assert_int_equal(r, test->difference);
}

TEST(test_finds_what_is_finished) {
        cleanup(json_object_put_p) json_object *status =
                parse("{'imageStatuses':{'nginx':{'tags':[" PULLS "," SUCCEEDED "," FAILED_2 "]},"
                      "'mixed':{'tags':[" FAILED_2 ",7," SUCCEEDED "]},'none':{'tags':[" PULLS "]},"
                      "'late':{'tags':[" SUCCEEDED ",{'tag':'0'},{'tag':'0'}]},"
                      "'odd':{'tags':'x'},'odder':3}}");
        json_object *entry;

        entry = status_find_finished(status, "nginx", "1", 0);
        assert_json(entry, SUCCEEDED);
        assert_json(status_find_finished(status, "nginx", "2", 0), FAILED_2);
        assert_json(status_find_finished(status, "mixed", "1", 0), SUCCEEDED);
        assert_json(status_find_finished(status, "mixed", "2", 0), FAILED_2);
        assert_json(status_find_finished(status, "late", "1", 0), SUCCEEDED);

        assert_null(status_find_finished(status, "nginx", "1", 1));
        assert_null(status_find_finished(status, "nginx", "0", 0));
        assert_null(status_find_finished(status, "nginx", "3", 0));
        assert_null(status_find_finished(status, "none", "1", 0));
        assert_null(status_find_finished(status, "odd", "1", 0));
        assert_null(status_find_finished(status, "odder", "1", 0));
        assert_null(status_find_finished(status, "absent", "1", 0));
        assert_null(status_find_finished(NULL, "nginx", "1", 0));
}

#define N_MANY 16384

typedef struct Many {
        StatusEntry *entries;
        char (*names)[16];
} Many;

static void many_done(Many *many) {
        free(many->entries);
        free(many->names);
}

static double cpu_sec(void) {
        return (double) clock() / CLOCKS_PER_SEC;
}

/* Work that grew with the square of the number would take far longer. */
static void check_many(bool is_one_name) {
        cleanup(many_done) Many many = { calloc(N_MANY, sizeof(StatusEntry)),
                                         calloc(N_MANY, sizeof(many.names[0])) };
        cleanup(json_object_put_p) json_object *patch = NULL, *status = NULL;
        double before = cpu_sec();

        for (size_t i = 0; i < N_MANY; i++) {
                (void) snprintf(many.names[i], sizeof(many.names[i]), "%zu", i);
                many.entries[i] = (StatusEntry){ .name = is_one_name ? "a" : many.names[i],
                                                 .tag = is_one_name ? many.names[i] : "1",
                                                 .status = i % 2 ? &succeeded : &pulling };
        }

        assert_int_equal(status_diff(NULL, many.entries, N_MANY, &patch), STATUS_DIFFERENT);
        status = patch_status(NULL, patch);
        assert_settled(status, many.entries, N_MANY);
        for (size_t i = 0; i < N_MANY; i++)
                assert_int_equal(status_find_finished(status, many.entries[i].name,
                                                      many.entries[i].tag, 0) != NULL,
                                 i % 2);

        if (cpu_sec() - before > 3)
                fail_msg("took %.1f s", cpu_sec() - before);
}

TEST(test_many_images) {
        check_many(false);
}

TEST(test_many_tags) {
        check_many(true);
}

/* The change of one of 200 images writes one image. */
TEST(test_patch_does_not_grow) {
        cleanup(json_object_put_p) json_object *first = NULL, *status = NULL, *patch = NULL;
        StatusEntry entries[200];
        char names[200][16];

        for (size_t i = 0; i < 200; i++) {
                (void) snprintf(names[i], sizeof(names[i]), "image-%zu", i);
                entries[i] = (StatusEntry){ .name = names[i], .tag = "1", .status = &pulling };
        }
        assert_int_equal(status_diff(NULL, entries, 200, &first), STATUS_DIFFERENT);
        status = patch_status(NULL, first);

        entries[77].status = &succeeded;
        assert_int_equal(status_diff(status, entries, 200, &patch), STATUS_DIFFERENT);
        assert_json(patch, "{'status':{'succeeded':1,'pulling':199,'imageStatuses':{'image-77':"
                           "{'tags':[{'tag':'1','phase':'Succeeded','progress':100,"
                           "'startTime':'2026-01-31T23:59:59Z',"
                           "'completionTime':'2026-02-01T00:00:59Z',"
                           "'imageID':'image-77@sha256:1'}]}}}}");
}
