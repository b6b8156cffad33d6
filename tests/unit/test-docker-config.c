/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Credentials that lie on the node: docker's own configuration, and the folder of files
 */

#include <unistd.h>

#include "agent/auth/docker-config.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/unit.h"

#define SECRET "hunter2"

DEFINE_CLEANUP(AuthDir *, auth_dir_free)
DEFINE_CLEANUP(DockerConfig *, docker_config_free)
DEFINE_CLEANUP(Keyring *, keyring_free)

static char folder[64];

static int set_up(void **state) {
        scratch_make(folder);
        return 0;
}

static int tear_down(void **state) {
        remove_tree(folder);
        return 0;
}

/* The users for r.io, as "one two". */
static void print_users(const Keyring *keyring, char *to, size_t size) {
        cleanup(credential_list_done) CredentialList list = CREDENTIAL_LIST_INIT;
        size_t n = 0;

        to[0] = '\0';
        assert_ok(keyring_lookup(keyring, "r.io/a", &list));
        for (size_t i = 0; i < list.n_items; i++)
                n += (size_t) snprintf(to + n, size - n, "%s%s", i ? " " : "",
                                       list.items[i]->username);
}

static void assert_docker(DockerConfig *config, const char *file, const char *users) {
        cleanup(keyring_free_p) Keyring *keyring = NULL;
        cleanup(free_p) char *path = file ? scratch_path(folder, file) : NULL;
        char found[64];

        assert_ok(keyring_new(&keyring));
        assert_ok(docker_config_add(config, keyring, NULL));
        print_users(keyring, found, sizeof(found));
        assert_string_equal(found, users);

        if (path)
                assert_string_equal(docker_config_path(config), path);
}

static void assert_docker_refused(DockerConfig *config, const char *file, const char *words) {
        cleanup(keyring_free_p) Keyring *keyring = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        char found[64];

        assert_ok(keyring_new(&keyring));
        assert_true(docker_config_add(config, keyring, &error) < 0);
        assert_contains(error_message(&error), file);
        assert_contains(error_message(&error), words);
        assert_null(strstr(error_message(&error), SECRET));
        print_users(keyring, found, sizeof(found));
        assert_string_equal(found, "");
}

#define ENTRY(user) "{\"r.io\":{\"username\":\"" user "\",\"password\":\"p\"}}"

/* A change of the files counts at the next call. */
TEST_SET_UP(test_docker_places) {
        cleanup(docker_config_free_p) DockerConfig *config = NULL;
        cleanup(free_p) char *path = scratch_path(folder, ".docker/config.json");

        assert_ok(docker_config_new(folder, &config));
        assert_docker(config, NULL, "");

        scratch_write(folder, ".dockercfg", ENTRY("old"));
        assert_docker(config, ".dockercfg", "old");

        scratch_folder(folder, ".docker");
        assert_docker(config, ".dockercfg", "old");
        scratch_write(folder, ".docker/config.json", "{\"auths\":" ENTRY("new") "}");
        assert_docker(config, ".docker/config.json", "new");
        scratch_write(folder, ".docker/config.json", "{\"auths\":" ENTRY("newer") "}");
        assert_docker(config, ".docker/config.json", "newer");

        assert_ok(unlink(path));
        assert_docker(config, ".dockercfg", "old");
}

/* docker keeps more than credentials there. */
TEST_SET_UP(test_docker_without_auths) {
        cleanup(docker_config_free_p) DockerConfig *config = NULL;

        scratch_folder(folder, ".docker");
        scratch_write(folder, ".docker/config.json",
                      "{\"psFormat\":\"table\",\"x\":" ENTRY("u") "}");
        assert_ok(docker_config_new(folder, &config));
        assert_docker(config, ".docker/config.json", "");
}

TEST_SET_UP(test_docker_broken) {
        cleanup(docker_config_free_p) DockerConfig *config = NULL;
        cleanup(free_p) char *path = scratch_path(folder, ".docker/config.json");

        scratch_folder(folder, ".docker");
        assert_ok(docker_config_new(folder, &config));
        scratch_write(folder, ".docker/config.json",
                      "{\"auths\":{\"r.io\":{\"password\":\"" SECRET "\"}");
        assert_docker_refused(config, path, "it ends too early");
        scratch_write(folder, ".docker/config.json", "{\"auths\":{\"r.io\":\"" SECRET "\"}}");
        assert_docker_refused(config, path, "is not an object");
        scratch_write(folder, ".docker/config.json", "{\"credsStore\":\"desktop\"}");
        assert_docker_refused(config, path, "kept by a helper program");
        scratch_write(folder, ".docker/config.json", "");
        assert_docker_refused(config, path, "empty");

        assert_ok(unlink(path));
        scratch_folder(folder, ".docker/config.json");
        assert_docker_refused(config, path, "not a file");
}

TEST_SET_UP(test_docker_home) {
        cleanup(docker_config_free_p) DockerConfig *config = NULL;

        scratch_write(folder, ".dockercfg", ENTRY("old"));
        assert_ok(setenv("HOME", folder, 1));
        assert_ok(docker_config_new(NULL, &config));
        assert_ok(unsetenv("HOME"));
        assert_docker(config, ".dockercfg", "old");
        config = docker_config_free(config);

        assert_ok(docker_config_new(NULL, &config));
        assert_docker(config, NULL, "");
}

/* The agent's own folder is no place for its credentials. */
TEST_SET_UP(test_docker_relative_home) {
        cleanup(docker_config_free_p) DockerConfig *config = NULL;

        scratch_folder(folder, ".docker");
        scratch_write(folder, ".docker/.dockercfg", ENTRY("old"));
        assert_ok(chdir(folder));
        assert_ok(docker_config_new(".docker", &config));
        assert_docker(config, NULL, "");
        assert_ok(chdir("/"));
}

static int count_problem(const char *file, const Error *error, void *userdata) {
        unsigned *n = userdata;

        assert_contains(error_message(error), file);
        (*n)++;
        return 0;
}

TEST_SET_UP(test_dir_all) {
        cleanup(auth_dir_free_p) AuthDir *dir = NULL;
        cleanup(keyring_free_p) Keyring *keyring = NULL;
        unsigned n_problems = 0;
        size_t n_files = 0;
        char found[64];

        assert_ok(keyring_new(&keyring));
        assert_ok(auth_dir_new(folder, &dir));
        assert_string_equal(auth_dir_path(dir), folder);
        scratch_write(folder, "b.json", ENTRY("b"));
        scratch_write(folder, "a.json", ENTRY("a"));
        scratch_write(folder, "c.json", "{");
        scratch_write(folder, "d.json", "");
        scratch_write(folder, ".hidden.json", ENTRY("hidden"));
        scratch_write(folder, "e.yaml", ENTRY("e"));
        scratch_write(folder, ".json", ENTRY("none"));
        scratch_folder(folder, "f.json");

        assert_ok(auth_dir_add_all(dir, keyring, count_problem, &n_problems));
        assert_int_equal(n_problems, 3);
        print_users(keyring, found, sizeof(found));
        assert_string_equal(found, "a b");

        assert_ok(auth_dir_check(dir, count_problem, &n_problems, &n_files));
        assert_int_equal(n_problems, 6);
        assert_int_equal(n_files, 5);
        assert_ok(auth_dir_add_all(dir, keyring, NULL, NULL));
}

TEST_SET_UP(test_dir_missing) {
        cleanup(auth_dir_free_p) AuthDir *dir = NULL;
        cleanup(keyring_free_p) Keyring *keyring = NULL;
        size_t n_files = 7;

        assert_ok(keyring_new(&keyring));
        assert_ok(auth_dir_new("/nowhere/at/all", &dir));
        assert_ok(auth_dir_add_all(dir, keyring, NULL, NULL));
        assert_ok(auth_dir_check(dir, NULL, NULL, &n_files));
        assert_int_equal(n_files, 0);
}

static void assert_named_refused(AuthDir *dir, const char *name, const char *words) {
        cleanup(keyring_free_p) Keyring *keyring = NULL;
        cleanup(error_done) Error error = ERROR_INIT;

        assert_ok(keyring_new(&keyring));
        assert_true(auth_dir_add_named(dir, name, keyring, &error) < 0);
        if (!strstr(error_message(&error), words))
                fail_msg("'%s' is refused as '%s'", name, error_message(&error));
}

TEST_SET_UP(test_dir_named) {
        cleanup(auth_dir_free_p) AuthDir *dir = NULL;
        cleanup(keyring_free_p) Keyring *keyring = NULL;
        char found[64];

        assert_ok(auth_dir_new(folder, &dir));
        scratch_write(folder, "a.json", ENTRY("a"));
        scratch_write(folder, "b.json", ENTRY("b"));
        scratch_write(folder, "bad.json", "{\"r.io\":\"" SECRET "\"}");

        assert_ok(keyring_new(&keyring));
        assert_ok(auth_dir_add_named(dir, "b", keyring, NULL));
        print_users(keyring, found, sizeof(found));
        assert_string_equal(found, "b");

        assert_named_refused(dir, "c", "c.json: No such file");
        assert_named_refused(dir, "bad", "bad.json\": the entry \"r.io\" is not an object");
        assert_named_refused(dir, "", "\"\" cannot be the name of a pull secret");
        assert_named_refused(dir, ".", "cannot be the name");
        assert_named_refused(dir, "../a", "cannot be the name");
        assert_named_refused(dir, "x/../a", "cannot be the name");
        assert_named_refused(dir, "a\nb/", "\"a?b/\" cannot be the name");
}
