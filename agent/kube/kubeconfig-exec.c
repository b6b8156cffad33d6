/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/kubeconfig-exec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/kube/access-json.h"
#include "agent/kube/access-text.h"
#include "agent/kube/exec-credential-spec.h"

#define EXTENSION "client.authentication.k8s.io/exec"

static int read_version(struct json_object *exec, const JsonPath *path, const char **ret,
                        Error *reterr) {
        static const char *const versions[] = { EXEC_CREDENTIAL_V1, EXEC_CREDENTIAL_V1BETA1 };
        const JsonPath here = { .parent = path, .key = "apiVersion" };
        cleanup(free_p) char *text = NULL;
        int r;

        r = access_json_read_text(exec, path, here.key, &text, reterr);
        if (r < 0)
                return r;

        for (size_t i = 0; text && i < sizeof(versions) / sizeof(versions[0]); i++)
                if (strcmp(text, versions[i]) == 0) {
                        *ret = versions[i];
                        return 0;
                }

        return json_refuse(&here, reterr, "expected \"%s\" or \"%s\"", versions[0], versions[1]);
}

/* Like kubectl: a name alone is looked up in PATH. */
static int read_command(struct json_object *exec, const JsonPath *path, const char *folder,
                        char **ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = "command" };
        cleanup(free_p) char *command = NULL;
        int r;

        r = access_json_read_text(exec, path, here.key, &command, reterr);
        if (r < 0)
                return r;
        if (!command)
                return json_refuse(&here, reterr, "is missing");

        if (command[0] == '/' || !strchr(command, '/'))
                *ret = take_ptr(command);
        else if (asprintf(ret, "%s/%s", folder, command) < 0) {
                *ret = NULL;
                return -ENOMEM;
        }
        return 0;
}

static size_t list_length(struct json_object *list) {
        return list ? json_object_array_length(list) : 0;
}

static int read_variable(struct json_object *item, const JsonPath *path, char **ret,
                         Error *reterr) {
        const JsonPath name_path = { .parent = path, .key = "name" };
        cleanup(free_p) char *name = NULL;
        cleanup(access_text_done) char *value = NULL;
        int r;

        r = access_json_check_object(item, path, reterr)
                    ?: access_json_read_text(item, path, "name", &name, reterr)
                    ?: access_json_read_text(item, path, "value", &value, reterr);
        if (r < 0)
                return r;

        if (!name || strchr(name, '='))
                return json_refuse(&name_path, reterr, "expected the name of a variable");
        if (asprintf(ret, "%s=%s", name, value ?: "") < 0) {
                *ret = NULL;
                return -ENOMEM;
        }
        return 0;
}

typedef int (*ReadItem)(struct json_object *item, const JsonPath *path, char **ret, Error *reterr);

/* A list of texts, each read from one item. */
static int read_texts(struct json_object *exec, const JsonPath *path, const char *key,
                      ReadItem read_item, char ***ret, Error *reterr) {

        const JsonPath here = { .parent = path, .key = key };
        struct json_object *list;
        int r;

        r = access_json_read_list(exec, path, key, &list, reterr);
        if (r < 0)
                return r;

        *ret = calloc(list_length(list) + 1, sizeof(**ret));
        if (!*ret)
                return -ENOMEM;

        for (size_t i = 0; i < list_length(list); i++) {
                const JsonPath item_path = { .parent = &here, .index = i };

                r = read_item(json_object_array_get_idx(list, i), &item_path, &(*ret)[i], reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int check_mode(struct json_object *exec, const JsonPath *path, Error *reterr) {
        const JsonPath here = { .parent = path, .key = "interactiveMode" };
        cleanup(free_p) char *mode = NULL;
        int r;

        r = access_json_read_text(exec, path, here.key, &mode, reterr);
        if (r < 0 || !mode)
                return r;

        if (strcmp(mode, "Always") == 0)
                return json_refuse(&here, reterr, "the program needs somebody at a terminal");
        if (strcmp(mode, "Never") != 0 && strcmp(mode, "IfAvailable") != 0)
                return json_refuse(&here, reterr,
                                   "expected \"Never\", \"IfAvailable\" or \"Always\"");
        return 0;
}

int kubeconfig_exec_read(struct json_object *user, const JsonPath *path, const char *folder,
                         KubeconfigExec *ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = "exec" };
        cleanup(kubeconfig_exec_done) KubeconfigExec exec = { .api_version = NULL };
        struct json_object *object;
        int r;

        r = access_json_read_object(user, path, here.key, &object, reterr);
        if (r < 0 || !object)
                return r;

        r = read_version(object, &here, &exec.api_version, reterr)
                    ?: read_command(object, &here, folder, &exec.command, reterr)
                    ?: read_texts(object, &here, "args", access_json_copy_text, &exec.arguments, reterr)
                    ?: read_texts(object, &here, "env", read_variable, &exec.environment, reterr)
                    ?: check_mode(object, &here, reterr)
                    ?: access_json_read_text(object, &here, "installHint", &exec.install_hint,
                                             reterr)
                    ?: access_json_read_bool(object, &here, "provideClusterInfo",
                                             &exec.wants_cluster, reterr);
        if (r < 0)
                return r;

        *ret = exec;
        exec = (KubeconfigExec){ .api_version = NULL };
        return 0;
}

static int copy_json(struct json_object *value, char **ret) {
        const char *text = json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN);

        *ret = text ? strdup(text) : NULL;
        return *ret ? 0 : -ENOMEM;
}

int kubeconfig_exec_read_cluster(struct json_object *cluster, const JsonPath *path,
                                 KubeconfigExec *exec, Error *reterr) {
        const JsonPath here = { .parent = path, .key = "extensions" };
        struct json_object *list;
        int r;

        r = access_json_read_list(cluster, path, here.key, &list, reterr);
        if (r < 0)
                return r;

        for (size_t i = 0; i < list_length(list); i++) {
                struct json_object *item = json_object_array_get_idx(list, i), *extension = NULL;
                const JsonPath item_path = { .parent = &here, .index = i };
                cleanup(free_p) char *name = NULL;

                r = access_json_check_object(item, &item_path, reterr)
                            ?: access_json_read_text(item, &item_path, "name", &name, reterr);
                if (r < 0)
                        return r;

                (void) json_object_object_get_ex(item, "extension", &extension);
                if (name && strcmp(name, EXTENSION) == 0 && extension)
                        return copy_json(extension, &exec->cluster_config);
        }

        return 0;
}

static void texts_done(char **texts) {
        for (char **text = texts; text && *text; text++)
                access_text_done(text);
        free(texts);
}

void kubeconfig_exec_done(KubeconfigExec *exec) {
        free(exec->command);
        texts_done(exec->arguments);
        texts_done(exec->environment);
        free(exec->install_hint);
        access_text_done(&exec->cluster_config);
        *exec = (KubeconfigExec){ .api_version = NULL };
}
