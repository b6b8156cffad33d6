/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests questions to containerd about the layers of an image, and the use of its answers
 */

#include "agent/image/on-demand.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/unit.h"

#define REMOTE "containerd.io/snapshot/remote"
#define DIGEST "containerd.io/snapshot/cri.layer-digest"
#define LAYERS_MAX 512
#define LINE(digest, present) \
        "{\"digest\":\"" digest "\",\"size\":1000,\"fetchedSize\":" present "}\n"

static struct Fixture {
        OnDemandContext context;
        OnDemandAsk *ask;
        unsigned n_found;
        ImageOnDemand found;
        ErrorKind error; /* if there is one */
        bool is_error;
        bool drops_it; /* as soon as it is found */
} f;

static int on_found(const ImageOnDemand *found, const Error *error, void *userdata) {
        f.n_found++;
        f.found = *found;
        f.is_error = error;
        f.error = error ? error->kind : 0;
        if (f.drops_it)
                f.ask = on_demand_drop(f.ask);
        return 0;
}

static int set_up(void **state) {
        fake_runtime_reset();
        f = (struct Fixture){ .context.runtimes = (const Runtimes *) &fake_runtime };
        return 0;
}

static int tear_down(void **state) {
        f.ask = on_demand_drop(f.ask);
        assert_int_equal(fake_runtime_n_calls(), 0);
        assert_null(fake_runtime.on_files);
        return 0;
}

static void ask(void) {
        assert_int_equal(on_demand_ask(&f.context, "sha256:id", on_found, &f, &f.ask), 1);
        assert_string_equal(fake_runtime_find("Info")->target, "sha256:id");
}

/* The image's configuration has this label and another. */
static void answer_info(const char *label) {
        ContentLabel other = CONTAINERD__SERVICES__CONTENT__V1__INFO__LABELS_ENTRY__INIT;
        ContentLabel owner = CONTAINERD__SERVICES__CONTENT__V1__INFO__LABELS_ENTRY__INIT;
        ContentLabel *labels[] = { &other, &owner };
        ContentInfo config = CONTAINERD__SERVICES__CONTENT__V1__INFO__INIT;
        ContentInfoReply info = CONTAINERD__SERVICES__CONTENT__V1__INFO_RESPONSE__INIT;

        other.key = (char *) "containerd.io/distribution.source.docker.io";
        other.value = (char *) "library/nginx";
        owner.key = (char *) label;
        owner.value = (char *) "top";
        config.labels = labels;
        config.n_labels = 2;
        info.info = &config;
        fake_runtime_answer("Info", &info, NULL);
}

static void answer_remote(void) {
        answer_info("containerd.io/gc.ref.snapshot.stargz");
}

/* A layer; mark and digest may be NULL: without that label. */
static void answer_layer(const char *name, const char *mark, const char *digest,
                         const char *parent) {
        SnapshotLabel entries[2], *labels[2];
        SnapshotInfo layer = CONTAINERD__SERVICES__SNAPSHOTS__V1__INFO__INIT;
        SnapshotReply reply = CONTAINERD__SERVICES__SNAPSHOTS__V1__STAT_SNAPSHOT_RESPONSE__INIT;
        const char *const keys[] = { mark, digest ? DIGEST : NULL };
        const char *const values[] = { "", digest };

        for (size_t i = 0; i < 2; i++) {
                if (!keys[i])
                        continue;

                entries[i] = (SnapshotLabel)
                        CONTAINERD__SERVICES__SNAPSHOTS__V1__INFO__LABELS_ENTRY__INIT;
                entries[i].key = (char *) keys[i];
                entries[i].value = (char *) values[i];
                labels[layer.n_labels++] = &entries[i];
        }
        layer.labels = labels;
        layer.parent = (char *) parent;
        reply.info = &layer;
        assert_string_equal(fake_runtime_find("Stat")->target, name);
        fake_runtime_answer("Stat", &reply, NULL);
}

static void answer_files(const char *lines, const Error *error) {
        assert_non_null(fake_runtime.on_files);
        assert_int_equal(fake_runtime.on_files(lines, strlen(lines), error,
                                               fake_runtime.files_userdata),
                         0);
}

static void assert_layers(unsigned n_layers, unsigned n_layers_all) {
        assert_int_equal(f.n_found, 1);
        assert_false(f.is_error);
        assert_int_equal(f.found.n_layers, n_layers);
        assert_int_equal(f.found.n_layers_all, n_layers_all);
}

static void assert_bytes(uint64_t present, uint64_t total) {
        assert_true(f.found.is_counted);
        assert_int_equal(f.found.bytes_present, present);
        assert_int_equal(f.found.bytes_total, total);
}

/* From the topmost layer down; one of them was unpacked. */
TEST_SET_UP(test_layers) {
        ask();
        answer_remote();
        answer_layer("top", REMOTE, "sha256:a", "middle");
        answer_layer("middle", NULL, "sha256:b", "bottom");
        assert_int_equal(f.n_found, 0);
        answer_layer("bottom", REMOTE, "sha256:c", "");
        answer_files(LINE("sha256:a", "1000") LINE("sha256:b", "7") LINE("sha256:c", "1"), NULL);
        assert_layers(2, 3);
        assert_bytes(1001, 2000);
}

/* All that a snapshotter of containerd's own unpacked is on the disk: one question is enough. */
TEST_SET_UP(test_local_snapshotter) {
        ask();
        answer_info("containerd.io/gc.ref.snapshot.overlayfs");
        assert_layers(0, 0);
        assert_int_equal(fake_runtime_n_asked("Stat"), 0);
}

/* The snapshotter is remote, but has unpacked them: no file says more. */
TEST_SET_UP(test_unpacked) {
        ask();
        answer_remote();
        answer_layer("top", NULL, "sha256:a", "");
        assert_layers(0, 1);
        assert_null(fake_runtime.on_files);
}

TEST_SET_UP(test_digest_is_not_known) {
        ask();
        answer_remote();
        answer_layer("top", REMOTE, NULL, "");
        answer_files(LINE("sha256:a", "1000"), NULL);
        assert_layers(1, 1);
        assert_false(f.found.is_counted);
}

/* Without an answer the layers are known to be fetched on demand, but not how much has arrived. */
TEST_SET_UP(test_files_fail) {
        const Error error = { .kind = ERROR_TIMEOUT, .message = (char *) "took too long" };

        ask();
        answer_remote();
        answer_layer("top", REMOTE, "sha256:a", "");
        answer_files(LINE("sha256:a", "1000"), &error);
        assert_layers(1, 1);
        assert_false(f.found.is_counted);
}

/* A snapshotter that names each snapshot as its own parent. */
TEST_SET_UP(test_endless) {
        ask();
        answer_remote();
        for (unsigned i = 0; i < LAYERS_MAX; i++)
                answer_layer("top", REMOTE, "sha256:a", "top");
        assert_null(fake_runtime_find("Stat"));
        answer_files("", NULL);
        assert_layers(LAYERS_MAX, LAYERS_MAX);
}

/* A snapshot that is gone meanwhile is no error, unlike a runtime that cannot answer. */
TEST_SET_UP(test_refused) {
        static const struct {
                ErrorKind kind;
                bool is_error;
        } rows[] = {
                { ERROR_NOT_FOUND, false },
                { ERROR_UNAVAILABLE, true },
                { ERROR_TIMEOUT, true },
        };

        for (size_t i = 0; i < 2 * N_ELEMENTS(rows); i++) {
                bool is_snapshot = i % 2 == 1;

                f.n_found = 0;
                ask();
                if (is_snapshot)
                        answer_remote();
                fake_runtime_refuse(is_snapshot ? "Stat" : "Info", rows[i / 2].kind, "no");
                assert_int_equal(f.n_found, 1);
                assert_int_equal(f.is_error, rows[i / 2].is_error);
                if (f.is_error)
                        assert_int_equal(f.error, rows[i / 2].kind);
                f.ask = on_demand_drop(f.ask);
        }
        assert_int_equal(f.context.unsupported_by, 0);
}

/* CRI-O, asked for one image; after a reconnect the runtime may be another one. */
TEST_SET_UP(test_unsupported) {
        ask();
        fake_runtime_refuse("Info", ERROR_UNSUPPORTED, "unknown service");
        assert_layers(0, 0);
        f.ask = on_demand_drop(f.ask);

        assert_ok(on_demand_ask(&f.context, "sha256:id", on_found, &f, &f.ask));
        assert_null(f.ask);
        assert_int_equal(fake_runtime_n_asked("Info"), 1);

        fake_runtime.n_reconnects++;
        ask();
        assert_int_equal(fake_runtime_n_asked("Info"), 2);
}

TEST_SET_UP(test_runtime_is_away) {
        fake_runtime.is_away = true;
        assert_ok(on_demand_ask(&f.context, "sha256:id", on_found, &f, &f.ask));
        assert_int_equal(fake_runtime_n_calls(), 0);
}

TEST_SET_UP(test_runtime_goes) {
        ask();
        fake_runtime.is_away = true;
        answer_remote();
        assert_int_equal(f.n_found, 1);
        assert_true(f.is_error);
        assert_int_equal(f.error, ERROR_UNAVAILABLE);
}

/* The question may be dropped at any step: no program runs any more that could answer. */
TEST_SET_UP(test_dropped) {
        for (unsigned n_answers = 0; n_answers < 3; n_answers++) {
                ask();
                if (n_answers > 0)
                        answer_remote();
                if (n_answers > 1)
                        answer_layer("top", REMOTE, "sha256:a", "");
                f.ask = on_demand_drop(f.ask);
                assert_int_equal(fake_runtime_n_calls(), 0);
                assert_null(fake_runtime.on_files);
        }
        assert_int_equal(f.n_found, 0);
}

TEST_SET_UP(test_dropped_when_found) {
        f.drops_it = true;
        ask();
        answer_remote();
        answer_layer("top", REMOTE, "sha256:a", "");
        answer_files(LINE("sha256:a", "1000"), NULL);
        assert_layers(1, 1);
        assert_null(f.ask);
}
