/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The limits of image sets, and the problem that doctor shows of a faulty one
 *
 * The images are real, on a node without a runtime: none is ever pulled.
 */

#include "agent/cluster/image-sets.h"
#include "agent/document/json-reader.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/node-image-server.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

static struct Fixture {
        Log *log;
        CompletionQueue *completions;
        Runtimes *runtimes;
        Images *images;
        ImageSets *sets;
        unsigned version;
        char problem[256];
} f;

static int set_up(void **state) {
        fake_kube_open();
        f = (struct Fixture){ .log = NULL };
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &f.log));
        idle_images_new(fake_kube.event, f.log, &f.completions, &f.runtimes, &f.images);
        assert_ok(image_sets_new(&(ImageSetsOptions){ .log = f.log, .images = f.images }, &f.sets));
        node_image_server_discover();
        assert_ok(fake_kube_accept(fake_kube_find("GET", "watch=true")));
        assert_ok(image_sets_set_labels(f.sets, NULL));
        return 0;
}

static int tear_down(void **state) {
        assert_null(image_sets_free(f.sets));
        images_free(f.images);
        runtimes_free(f.runtimes);
        completion_queue_free(f.completions);
        log_free(f.log);
        fake_clock_done();
        fake_kube_close();
        return 0;
}

/* The watch shows the next version of a set for all nodes. */
static void show(const char *annotations, const char *tags) {
        cleanup(json_object_put_p) json_object *event = parse(
                "{'type':'MODIFIED','object':{'apiVersion':'apps.kruise.io/v1beta1','kind':"
                "'NodeImage','metadata':{'name':'gpu','uid':'u','resourceVersion':'%u',"
                "'annotations':{'inplaced.io/node-selector':''%s}},'spec':{'images':{'nginx':{"
                "'tags':[%s]}}}}}",
                ++f.version, annotations, tags);

        node_image_server_show("watch=true", event);
}

static int on_problem(const char *subject, const char *message, const char *advice,
                      void *userdata) {
        assert_string_equal(subject, "gpu");
        (void) snprintf(f.problem, sizeof(f.problem), "%s", message);
        return 0;
}

static void assert_set(unsigned parallelism, unsigned first, const char *problem) {
        const ImageSetLimits *limits = image_sets_limits(f.sets, "set/gpu");

        assert_int_equal(limits ? limits->parallelism : 0, parallelism);
        assert_int_equal(limits ? limits->first : 0, first);
        if (limits)
                assert_string_equal(limits->name ?: "", "gpu");
        f.problem[0] = '\0';
        assert_ok(image_sets_visit(f.sets, &(DiagnosisVisitor){ .on_problem = on_problem }));
        assert_string_equal(f.problem, problem);
}

#define TAG "{'tag':'1'}"
#define PARALLELISM(number) ",'inplaced.io/parallelism':'" number "'"
#define FIRST(number) ",'inplaced.io/first':'" number "'"
#define FAULT(name) "the annotation inplaced.io/" name " is no number from 1 to 1000"

/* A fault of the spec is shown before that of a limit. The other limit stays in force. */
static const struct LimitsRow {
        const char *annotations, *tags;
        unsigned parallelism, first;
        const char *problem;
} limits_rows[] = {
        { "", TAG, 0, 0, "" },
        { PARALLELISM("1") FIRST("1000"), TAG, 1, 1000, "" },
        { PARALLELISM("1000") FIRST("9"), TAG, 1000, 9, "" },
        { PARALLELISM("0") FIRST("2"), TAG, 0, 2, FAULT("parallelism") },
        { PARALLELISM("3") FIRST("0"), TAG, 3, 0, FAULT("first") },
        { PARALLELISM("1001"), TAG, 0, 0, FAULT("parallelism") },
        { FIRST("1001"), TAG, 0, 0, FAULT("first") },
        { FIRST("3x"), TAG, 0, 0, FAULT("first") },
        { FIRST("-3"), TAG, 0, 0, FAULT("first") },
        { FIRST("+3"), TAG, 0, 0, FAULT("first") },
        { FIRST(""), TAG, 0, 0, FAULT("first") },
        { FIRST("18446744073709551617"), TAG, 0, 0, FAULT("first") },
        { PARALLELISM("many") FIRST("few"), TAG, 0, 0, FAULT("parallelism") },
        { PARALLELISM("3") FIRST("0"), TAG ",{'tag':7}", 3, 0,
          "spec.images.nginx.tags[1].tag: expected a string (in quotes), got 7" },
};

TEST_ROWS_F(test_limits, limits_rows, annotations, const struct LimitsRow *row, void *unused) {
        show(row->annotations, row->tags);
        assert_set(row->parallelism, row->first, row->problem);
        assert_int_equal(image_sets_have_limits(f.sets), row->parallelism + row->first > 0);
        show("", TAG);
        assert_set(0, 0, "");
}
