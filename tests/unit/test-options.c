/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The agent's settings from flags and a configuration file
 */

#include "tests/unit/unit.h"

#include <unistd.h>

#include "agent/options.h"

static int on_problem(const char *subject, const char *message, const char *advice,
                      void *userdata) {
        fail_msg("%s: %s", subject, message);
        return 0;
}

static const DiagnosisVisitor no_problems = { .on_problem = on_problem };

/* Reads the flags, with a configuration file that has this text. */
static void read_options(const char *text, const char *const flags[2], Options *ret) {
        char path[] = "/tmp/test-options-XXXXXX";
        char *argv[] = { (char *) "inplaced", (char *) "--config", path,
                         (char *) flags[0],   (char *) flags[1],   NULL };
        cleanup(close_p) int fd = mkstemp(path);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_ok(options_read(argv, ret, &no_problems));
        assert_ok(unlink(path));
}

/* A file may have comments alone, as that of the packages does, or nothing. */
TEST(test_configuration_that_sets_nothing) {
        static const char *const texts[] = { "", "# log-level: debug\n\n", "---\n" };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                cleanup(options_done) Options options = { .config_path = NULL };

                read_options(texts[i], (const char *const[2]){ NULL }, &options);
                assert_int_equal(options.log_level, LOG_INFO);
                assert_int_equal(options.max_parallel_pulls, 5);
        }
}

static const struct ImagesReadyRow {
        const char *name;
        const char *flags[2];
        bool expected;
} images_ready_rows[] = {
        { "no flag", { NULL }, false },
        { "the condition", { "--images-ready", "--register-node" }, true },
        { "the taint implies it", { "--startup-taint=x.io/starting", "--register-node" }, true },
        { "another flag", { "--register-node" }, false },
};

TEST_ROWS(test_images_ready, images_ready_rows, name, const struct ImagesReadyRow *row) {
        cleanup(options_done) Options options = { .config_path = NULL };

        read_options("", row->flags, &options);
        assert_int_equal(options_has_images_ready(&options), row->expected);
}

#define FLAGS_MAX 7

static char problems[2048];

static int note_problem(const char *subject, const char *message, const char *advice,
                        void *userdata) {
        size_t size = strlen(problems);
        const char *name = strstr(subject, "/tmp/") ? "FILE" : subject;

        (void) snprintf(problems + size, sizeof(problems) - size, "%s: %s\n", name, message);
        return 0;
}

/* Reads these flags, and notes the problems. */
static void read_flags(const char *text, const char *const flags[FLAGS_MAX], Options *ret) {
        static const DiagnosisVisitor visitor = { .on_problem = note_problem };
        char path[] = "/tmp/test-options-XXXXXX";
        char *argv[FLAGS_MAX + 4] = { (char *) "inplaced", (char *) "--config", path };
        cleanup(close_p) int fd = mkstemp(path);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        for (size_t i = 0; i < FLAGS_MAX && flags[i]; i++)
                argv[3 + i] = (char *) flags[i];
        problems[0] = '\0';
        assert_ok(options_read(argv, ret, &visitor));
        assert_ok(unlink(path));
}

/* clang-format off */
static const struct ProblemRow {
        const char *name;
        const char *flags[FLAGS_MAX];
        const char *text;
        const char *problems;
} problem_rows[] = {
        { "none", { NULL }, "", "" },
        { "no such flag", { "--log-levle", "debug" }, "", "\"--log-levle\": no such option; did you mean --log-level?\n" },
        { "no such flag at all", { "--xyzxyzxyz=1" }, "", "\"--xyzxyzxyz\": no such option, see --help\n" },
        { "a key as a flag", { "--maxParallelPulls=1" }, "", "\"--maxParallelPulls\": no such option; did you mean --max-parallel-pulls?\n" },
        { "a word", { "run", "--max-parallel-pulls=2" }, "", "\"run\": no such option, see --help\n" },
        { "a flag without its value", { "--socket" }, "", "--socket: needs a value\n" },
        { "a switch with another value", { "--register-node=yes" }, "", "--register-node: \"yes\" is not true or false\n" },
        { "no number", { "--max-parallel-pulls=x" }, "", "--max-parallel-pulls: \"x\" is not a number from 1 to 1000\n" },
        { "a number that is too small", { "--max-parallel-pulls=0" }, "", "--max-parallel-pulls: \"0\" is not a number from 1 to 1000\n" },
        { "the smallest and the largest number", { "--max-parallel-pulls=1", "--max-parallel-pulls=1000" }, "", "" },
        { "a number that is too large", { "--max-parallel-pulls=1001" }, "", "--max-parallel-pulls: \"1001\" is not a number from 1 to 1000\n" },
        { "a number and more", { "--stall-timeout=1s" }, "", "--stall-timeout: \"1s\" is not a number from 0 to 604800\n" },
        { "the shortest and the longest time", { "--stall-timeout=0", "--stall-timeout=604800" }, "", "" },
        { "a time that is too long", { "--stall-timeout=604801" }, "", "--stall-timeout: \"604801\" is not a number from 0 to 604800\n" },
        { "a mode", { "--mode=none" }, "", "--mode: \"none\" is not auto, cluster or standalone\n" },
        { "a relative path", { "--state-dir=x" }, "", "--state-dir: \"x\" is not an absolute path\n" },
        { "a long path", { "--socket=/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" }, "", "--socket: \"/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"... is longer than the 107 bytes of a socket's path: choose another\n" },
        { "the longest path", { "--socket=/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" }, "", "" },
        { "no socket of a runtime", { "--runtime-endpoint=tcp://x" }, "", "--runtime-endpoint: \"tcp://x\" is not the path of a socket; write it as unix:///run/containerd/containerd.sock\n" },
        { "a long socket of a runtime", { "--runtime-endpoint=/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" }, "", "--runtime-endpoint: \"/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"... is longer than the 107 bytes of a socket's path\n" },
        { "no address", { "--metrics-address=x:1" }, "", "--metrics-address: \"x:1\" is not HOST:PORT with an IP address or localhost, such as 127.0.0.1:10221 or [::1]:10221\n" },
        { "no address at all", { "--metrics-address=", "--kubelet-health-address=" }, "", "" },
        { "names of a node", { "--node-name=a.b-1", "--node-name=A", "--node-name=a-", "--node-name=.a", "--node-name=" }, "", "--node-name: \"A\" is no name of a Node: it has lower-case letters, digits, dots and dashes, and begins and ends with a letter or digit\n--node-name: \"a-\" is no name of a Node: it has lower-case letters, digits, dots and dashes, and begins and ends with a letter or digit\n--node-name: \".a\" is no name of a Node: it has lower-case letters, digits, dots and dashes, and begins and ends with a letter or digit\n--node-name: \"\" is no name of a Node: it has lower-case letters, digits, dots and dashes, and begins and ends with a letter or digit\n" },
        { "a taint with an effect", { "--startup-taint=a:NoSchedule" }, "", "--startup-taint: \"a:NoSchedule\" is not the key alone, without a value and an effect\n" },
        { "a taint with a value", { "--startup-taint=a=b" }, "", "--startup-taint: \"a=b\" is not the key alone, without a value and an effect\n" },
        { "a taint with a blank", { "--startup-taint=a b" }, "", "--startup-taint: \"a b\" is no key of a taint, such as example.com/starting\n" },
        { "a taint alone", { "--startup-taint=a" }, "", "--startup-taint: needs --register-node, too\n" },
        { "a context alone", { "--kubeconfig-context=a" }, "", "--kubeconfig-context: needs --kubeconfig, too\n" },
        { "a condition alone", { "--images-ready" }, "", "--images-ready: needs --register-node, too\n" },
        { "plugins without a folder", { "--image-credential-provider-config=/a" }, "", "" },
        { "plugins without a configuration", { "--image-credential-provider-bin-dir=/a" }, "", "" },
        { "no user", { "--prepare-state-dir=-1" }, "", "--prepare-state-dir: \"-1\" is not a number from 0 to 2147483647\n" },
        { "no level and no format", { "--log-level=x", "--log-format=y" }, "", "--log-level: \"x\" is not a log level: use error, warning, notice, info or debug\n--log-format: \"y\" is not a log format: use auto, journal, json or text\n" },
        { "no size", { "--min-free-disk=x" }, "", "--min-free-disk: \"x\" is no amount of disk space: write 5GB, 10%, or 15%,5GB for the lesser of both; at most 90%; 0 for none\n" },
        { "flags of kruise-daemon", { "--v=5", "-v", "5", "--logtostderr", "--max-workers-for-pull-image=0" }, "", "" },
        { "a flag of kruise-daemon without its value", { "--max-workers-for-pull-image" }, "", "--max-workers-for-pull-image: needs a value\n" },
        { "a flag of kruise-daemon with a value that is too large", { "--max-workers-for-pull-image=2000" }, "", "--max-workers-for-pull-image: \"2000\" is not a number from 1 to 1000\n" },
        { "no such key", { NULL }, "logLevle: debug\n", "FILE: line 1: \"logLevle\": no such key; did you mean logLevel?\n" },
        { "a flag as a key", { NULL }, "log-level: debug\n", "FILE: line 1: \"log-level\": no such key; did you mean logLevel?\n" },
        { "a key with another value", { NULL }, "logLevel: x\nmode: cluster\nmaxParallelPulls: 0\n", "FILE: line 1: logLevel: \"x\" is not a log level: use error, warning, notice, info or debug\nFILE: line 3: maxParallelPulls: \"0\" is not a number from 1 to 1000\n" },
        { "a list for a text", { NULL }, "logLevel: [debug]\n", "FILE: line 1: logLevel: expected one value, got a list\n" },
        { "a text for a list", { NULL }, "runtimeEndpoints: x\n", "FILE: line 1: runtimeEndpoints: \"x\" is not the path of a socket; write it as unix:///run/containerd/containerd.sock\n" },
        { "a key twice", { NULL }, "mode: cluster\nmode: auto\n", "FILE: line 2, column 1: the key \"mode\" is given twice\n" },
        { "no mapping", { NULL }, "- mode\n", "FILE: expected one mapping of keys to values\n" },
        { "no YAML", { NULL }, "mode: [\n", "FILE: line 2, column 1: did not find expected node content\n" },
};
/* clang-format on */

TEST_ROWS(test_problems, problem_rows, name, const struct ProblemRow *row) {
        cleanup(options_done) Options options = { .config_path = NULL };

        read_flags(row->text, row->flags, &options);
        assert_string_equal(problems, row->problems);
}

/* clang-format off */
static const struct CompareRow {
        const char *name;
        const char *flags[FLAGS_MAX];
        const char *text;
        const char *names; /* settings that need a restart */
} compare_rows[] = {
        { "nothing differs", { NULL }, "", "" },
        { "the same as the default", { "--mode=auto", "--socket=/run/inplaced/inplaced.sock" }, "podCondition: true\n", "" },
        { "what takes effect at once", { "--max-parallel-pulls=7", "--stall-timeout=1", "--min-free-disk=1GB", "--keep-images", "--log-level=debug", "--yield-to-pods=0" }, "", "" },
        { "texts", { "--socket=/x", "--socket-group=a", "--restart-group=b", "--metrics-address=", "--startup-taint=c", "--register-node", "--kubeconfig=/y" }, "", "kubeconfig, register-node, startup-taint, socket, socket-group, restart-group, metrics-address" },
        { "folders", { "--state-dir=/x", "--images-dir=/y", "--auth-dir=/z", "--host-root=/h", "--kubeconfig=/k", "--kubeconfig-context=c", "--node-name=other" }, "", "kubeconfig, kubeconfig-context, node-name, host-root, images-dir, auth-dir, state-dir" },
        { "others", { "--mode=standalone", "--register-node", "--images-ready-deadline=1", "--pod-condition=false", "--images-ready=true" }, "", "mode, register-node, images-ready, images-ready-deadline, pod-condition" },
        { "an endpoint", { "--runtime-endpoint=unix:///a" }, "", "runtime-endpoint" },
        { "an endpoint of the file", { NULL }, "runtimeEndpoints: [/a]\nmode: cluster\n", "mode, runtime-endpoint" },
        { "a flag is before the file", { "--mode=auto" }, "mode: cluster\n", "" },
};
/* clang-format on */

TEST_ROWS(test_compare, compare_rows, name, const struct CompareRow *row) {
        static const char *const none[FLAGS_MAX] = { NULL };
        cleanup(options_done) Options old = { .config_path = NULL }, new = { .config_path = NULL };
        cleanup(free_p) char *names = NULL, *back = NULL;

        read_flags("", none, &old);
        read_flags(row->text, row->flags, &new);
        assert_string_equal(problems, "");
        assert_ok(options_compare(&old, &new, &names));
        assert_string_equal(names, row->names);
        assert_ok(options_compare(&new, &old, &back));
        assert_string_equal(back, row->names);
}

TEST(test_endpoints) {
        static const char *const two[FLAGS_MAX] = { "--runtime-endpoint=/a", "--runtime-endpoint",
                                                    "unix:///b" };
        static const char *const others[FLAGS_MAX] = { "--runtime-endpoint=/a",
                                                       "--runtime-endpoint=/c" };
        cleanup(options_done) Options options = { .config_path = NULL },
                                      other = { .config_path = NULL };
        cleanup(free_p) char *names = NULL;

        read_flags("runtimeEndpoints: [/x, /y]\n", two, &options);
        assert_int_equal(options.n_endpoints, 2);
        assert_string_equal(options.endpoints[0], "/a");
        assert_string_equal(options.endpoints[1], "/b");
        read_flags("", others, &other);
        assert_ok(options_compare(&options, &other, &names));
        assert_string_equal(names, "runtime-endpoint");
}

TEST(test_flags_of_kruise) {
        static const char *const flags[FLAGS_MAX] = { "--v", "5", "--max-workers-for-pull-image=7",
                                                      "--logtostderr", "--addr=:10221" };
        cleanup(options_done) Options options = { .config_path = NULL };

        read_flags("", flags, &options);
        assert_string_equal(problems, "");
        assert_string_equal(options.ignored_flags, "--v, --logtostderr");
        assert_int_equal(options.max_parallel_pulls, 7);
}

/* A file is relative to the folder of the one who calls. */
TEST(test_relative_file) {
        char *argv[] = { (char *) "inplaced", (char *) "--config=none.yaml", NULL };
        static const DiagnosisVisitor visitor = { .on_problem = note_problem };
        cleanup(options_done) Options options = { .config_path = NULL };
        cleanup(free_p) char *folder = getcwd(NULL, 0), *path = NULL;

        problems[0] = '\0';
        assert_ok(options_read(argv, &options, &visitor));
        assert_true(asprintf(&path, "%s/none.yaml", folder) > 0);
        assert_string_equal(options.config_path, path);
        assert_contains(problems, "No such file");
}

static const struct ModeRow {
        const char *name;
        const char *flags[FLAGS_MAX];
        bool is_pod, is_cluster;
} mode_rows[] = {
        { "alone", { NULL }, false, false },
        { "in a pod", { NULL }, true, true },
        { "with a kubeconfig", { "--kubeconfig=/x" }, false, true },
        { "alone in a pod", { "--mode=standalone" }, true, false },
        { "in a cluster", { "--mode=cluster" }, false, true },
};

TEST_ROWS(test_mode, mode_rows, name, const struct ModeRow *row) {
        cleanup(options_done) Options options = { .config_path = NULL };

        read_flags("", row->flags, &options);
        assert_int_equal(options_is_cluster(&options, row->is_pod), row->is_cluster);
}
