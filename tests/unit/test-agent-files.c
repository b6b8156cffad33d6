/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests reports about the files that direct the agent or hold secrets
 */

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent-files.h"

/* clang-format off */
static const struct Case {
        const char *name;
        mode_t images, images_file, auth, auth_file, hidden_file, config;
        const char *problems; /* their paths in the folder of the test */
} cases[] = {
        { "nothing is wrong",              0755, 0644, 0700, 0600, 0600, 0644, "" },
        { "others may list, not read",     0755, 0644, 0711, 0600, 0600, 0644, "" },
        { "a secret that others may read", 0755, 0644, 0711, 0644, 0600, 0644, "auth.d/a.json " },
        { "no secret, but others write",   0755, 0666, 0700, 0600, 0600, 0644, "images.d/i.yaml " },
        { "a folder, and not each file",   0777, 0666, 0700, 0600, 0600, 0644, "images.d " },
        { "others cannot get there",       0755, 0644, 0700, 0666, 0666, 0644, "" },
        { "a hidden file does not count",  0755, 0644, 0711, 0600, 0644, 0644, "" },
        { "the configuration",             0755, 0644, 0700, 0600, 0600, 0666, "config.yaml " },
};
/* clang-format on */

typedef struct Found {
        size_t n_skip; /* characters of the folder of the test */
        char problems[1024];
} Found;

static int on_problem(const char *subject, const char *message, const char *advice,
                      void *userdata) {
        Found *found = userdata;
        size_t used = strlen(found->problems);

        assert_true(strlen(message) > 0 && strlen(advice) > 0);
        (void) snprintf(found->problems + used, sizeof(found->problems) - used, "%s ",
                        subject + found->n_skip);
        return 0;
}

static char *make(const char *folder, const char *name, mode_t mode, bool is_folder) {
        char *path;
        int fd;

        assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
        if (is_folder) {
                assert_ok(mkdir(path, 0700));
        } else {
                fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
                assert_true(fd >= 0);
                assert_ok(close(fd));
        }

        assert_ok(chmod(path, mode)); /* whatever the umask is */
        return path;
}

static void assert_problems(const char *folder, const Options *options, const char *expected) {
        Found found = { .n_skip = strlen(folder) + 1 };
        const DiagnosisVisitor visitor = { .on_problem = on_problem, .userdata = &found };
        DockerConfig *docker = NULL;
        AgentFiles *files = NULL;
        DiagnosisSource source;

        assert_ok(docker_config_new(folder, &docker));
        assert_ok(agent_files_new(options, docker, &files));
        source = agent_files_diagnosis(files);
        assert_ok(source.visit(source.source, &visitor));
        assert_string_equal(found.problems, expected);
        agent_files_free(files);
        docker_config_free(docker);
}

TEST_ROWS(test_case, cases, name, const struct Case *c) {
        char folder[] = "/tmp/test-agent-files-XXXXXX";
        cleanup(free_p) char *images = NULL, *auth = NULL, *config = NULL;
        cleanup(free_p) char *images_file = NULL, *auth_file = NULL, *hidden_file = NULL;
        Options options = { .log_level = 0 };

        assert_non_null(mkdtemp(folder));
        assert_ok(chmod(folder, 0755));
        images = make(folder, "images.d", c->images, true);
        images_file = make(images, "i.yaml", c->images_file, false);
        auth = make(folder, "auth.d", c->auth, true);
        auth_file = make(auth, "a.json", c->auth_file, false);
        hidden_file = make(auth, ".new.json", c->hidden_file, false);
        config = make(folder, "config.yaml", c->config, false);
        options.images_dir = images;
        options.auth_dir = auth;
        options.config_path = config;
        assert_problems(folder, &options, c->problems);

        assert_int_equal(unlink(images_file) + unlink(auth_file) + unlink(hidden_file), 0);
        assert_int_equal(unlink(config) + rmdir(images) + rmdir(auth) + rmdir(folder), 0);
}

/* The kubeconfig has a token or a key; the list of plugins has no secret. */
TEST(test_kubeconfig) {
        char folder[] = "/tmp/test-agent-files-XXXXXX";
        cleanup(free_p) char *kubeconfig = NULL, *provider = NULL;
        Options options = { .log_level = 0 };

        assert_non_null(mkdtemp(folder));
        assert_ok(chmod(folder, 0755));
        kubeconfig = make(folder, "kubeconfig", 0644, false);
        provider = make(folder, "providers.yaml", 0644, false);
        options.kubeconfig = kubeconfig;
        options.provider_config = provider;
        assert_problems(folder, &options, "kubeconfig ");

        assert_int_equal(unlink(kubeconfig) + unlink(provider) + rmdir(folder), 0);
}

/* A folder without any right, as a sandbox shows in place of another one. */
TEST(test_hidden_by_a_sandbox) {
        char folder[] = "/tmp/test-agent-files-XXXXXX";
        cleanup(free_p) char *cover = NULL, *inside = NULL, *deeper = NULL, *missing = NULL;
        Options options = { .log_level = 0 };

        assert_non_null(mkdtemp(folder));
        assert_ok(chmod(folder, 0755));
        cover = make(folder, "home", 0, true);
        assert_true(asprintf(&inside, "%s/kubeconfig", cover) > 0);
        assert_true(asprintf(&deeper, "%s/a/b", cover) > 0);
        assert_true(asprintf(&missing, "%s/c/d", folder) > 0);
        options.kubeconfig = inside;
        options.auth_dir = deeper;
        options.images_dir = missing;
        assert_problems(folder, &options, "home/kubeconfig home/a/b ");

        assert_int_equal(rmdir(cover) + rmdir(folder), 0);
}

/* Plugins are found at the start, or the visitor hears why not. */
TEST(test_start_with_plugins) {
        static const char text[] =
                "apiVersion: kubelet.config.k8s.io/v1\n"
                "kind: CredentialProviderConfig\n"
                "providers:\n"
                "- {name: a, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: [x.io],"
                " defaultCacheDuration: 1s}\n";
        char folder[] = "/tmp/test-agent-files-XXXXXX";
        Found found = { .n_skip = 0 };
        const DiagnosisVisitor visitor = { .on_problem = on_problem, .userdata = &found };
        cleanup(free_p) char *config = NULL, *plugins = NULL, *plugin = NULL;
        char *argv[] = { (char *) "inplaced",
                         (char *) "--mode=standalone",
                         (char *) "--config",
                         NULL,
                         (char *) "--image-credential-provider-bin-dir",
                         folder,
                         (char *) "--image-credential-provider-config",
                         NULL,
                         NULL };
        FILE *file;

        assert_non_null(mkdtemp(folder));
        argv[3] = config = make(folder, "config.yaml", 0600, false);
        argv[7] = plugins = make(folder, "plugins.yaml", 0600, false);
        plugin = make(folder, "a", 0755, false);
        file = fopen(plugins, "we");
        assert_non_null(file);
        fputs(text, file);
        assert_ok(fclose(file));
        assert_ok(agent_files_check_start(argv, &(Options){ .log_level = 0 }, &visitor));
        assert_string_equal(found.problems, "");

        assert_ok(truncate(plugins, 9));
        assert_ok(agent_files_check_start(argv, &(Options){ .log_level = 0 }, &visitor));
        assert_string_equal(found.problems, "--image-credential-provider-config ");
        assert_int_equal(unlink(config) + unlink(plugins), 0);
        assert_int_equal(unlink(plugin) + rmdir(folder), 0);
}
