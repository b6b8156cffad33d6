/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/kubeconfig-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"
#include "agent/document/json-reader.h"
#include "agent/kube/access-json.h"
#include "agent/kube/exec-credential-spec.h"

#define EXTENSION "client.authentication.k8s.io/exec"

/* All files, in the order in which they count. */
typedef struct KubeconfigRoots {
        const KubeconfigFile *files;
        Documents *documents; /* documents of each file */
        size_t n_files;
        size_t current; /* the file that is being read, which refusals name */
        const KubeconfigOverrides *overrides;
} KubeconfigRoots;

/* Points into itself, so it must not be copied. */
typedef struct KubeconfigEntry {
        size_t file;   /* index of its file */
        JsonPath list; /* "users" */
        JsonPath item; /* [2] */
        JsonPath path; /* .user */
        struct json_object *object;
} KubeconfigEntry;

static void texts_done(char **texts) {
        for (char **text = texts; text && *text; text++)
                access_text_done(text);
        free(texts);
}

static void texts_freep(char ***texts) {
        texts_done(*texts);
}

static void kubeconfig_exec_done(KubeconfigExec *exec) {
        free(exec->command);
        texts_done(exec->arguments);
        texts_done(exec->environment);
        free(exec->install_hint);
        access_text_done(&exec->cluster_config);
        *exec = (KubeconfigExec){ .api_version = NULL };
}

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

/* Reads a list of texts, each from one item. */
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
                return json_refuse(&here, reterr, "the program needs a terminal");
        if (strcmp(mode, "Never") != 0 && strcmp(mode, "IfAvailable") != 0)
                return json_refuse(&here, reterr,
                                   "expected \"Never\", \"IfAvailable\" or \"Always\"");
        return 0;
}

/* Reads the user's member "exec", if there is one. */
static int kubeconfig_exec_read(struct json_object *user, const JsonPath *path, const char *folder,
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

/* Reads the cluster's extension for that program. */
static int kubeconfig_exec_read_cluster(struct json_object *cluster, const JsonPath *path,
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

/* Finds an entry, of "users" and "user" say, in one file. *ret_found: there is one. */
static int kubeconfig_find_in(struct json_object *root, const char *list_key, const char *key,
                              const char *name, KubeconfigEntry *ret, bool *ret_found,
                              Error *reterr) {
        struct json_object *list;
        bool is_found = false;
        int r;

        ret->list = (JsonPath){ .key = list_key };
        ret->path = (JsonPath){ .parent = &ret->item, .key = key };
        r = access_json_read_list(root, NULL, list_key, &list, reterr);
        if (r < 0)
                return r;

        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                struct json_object *item = json_object_array_get_idx(list, i);
                const JsonPath path = { .parent = &ret->list, .index = i };
                cleanup(free_p) char *its_name = NULL;

                r = access_json_check_object(item, &path, reterr);
                if (r < 0)
                        return r;
                r = access_json_read_text(item, &path, "name", &its_name, reterr);
                if (r < 0)
                        return r;
                if (strcmp(its_name ?: "", name) != 0)
                        continue;
                if (is_found)
                        return json_refuse(&path, reterr, "there is another one of this name");

                is_found = true;
                ret->item = path;
                r = access_json_read_object(item, &path, key, &ret->object, reterr);
                if (r < 0)
                        return r;
                if (!ret->object)
                        return json_refuse(&ret->path, reterr, "is missing");
        }

        *ret_found = is_found;
        return 0;
}

/* Finds the entry in the first file that has it. */
static int kubeconfig_find(KubeconfigRoots *roots, const char *list_key, const char *key,
                           const char *name, KubeconfigEntry *ret, bool *ret_found, Error *reterr) {
        bool is_found = false;
        size_t before = roots->current;

        for (size_t i = 0; !is_found && i < roots->n_files; i++) {
                int r;

                roots->current = ret->file = i;
                r = kubeconfig_find_in(roots->documents[i].items[0], list_key, key, name, ret,
                                       &is_found, reterr);
                if (r < 0)
                        return r;
        }

        if (!is_found)
                roots->current = before;
        *ret_found = is_found;
        return 0;
}

/* Finds the chosen entry, or else the one that the context's member of that name points to.
 * *ret_found is false if there is neither. */
static int kubeconfig_follow(KubeconfigRoots *roots, const KubeconfigEntry *context,
                             const char *list_key, const char *key, const char *chosen,
                             KubeconfigEntry *ret, bool *ret_found, Error *reterr) {
        const JsonPath path = { .parent = &context->path, .key = key };
        cleanup(free_p) char *name = NULL;
        bool is_found;
        int r;

        r = chosen ? text_copy(chosen, &name)
                   : access_json_read_text(context->object, &context->path, key, &name, reterr);
        if (r < 0)
                return r;
        if (!name) {
                *ret_found = false;
                return 0;
        }

        roots->current = context->file;
        r = kubeconfig_find(roots, list_key, key, name, ret, &is_found, reterr);
        if (r < 0)
                return r;
        if (!is_found)
                return json_refuse(chosen ? NULL : &path, reterr, "there is no %s %s", key,
                                   quote(name, (char[QUOTE_SIZE]){ 0 }));

        *ret_found = true;
        return 0;
}

/* Reads a text without control characters. */
static int kubeconfig_read_line(const KubeconfigEntry *entry, const char *key, char **ret,
                                Error *reterr) {
        const JsonPath path = { .parent = &entry->path, .key = key };
        int r;

        r = access_json_read_text(entry->object, &entry->path, key, ret, reterr);
        if (r < 0)
                return r;

        if (*ret && !access_text_is_line(*ret))
                return json_refuse(&path, reterr, "has a control character in it");
        return 0;
}

/* Reads the path of a file; a relative one starts at the folder. */
static int kubeconfig_read_file(const KubeconfigEntry *entry, const char *folder, const char *key,
                                char **ret, Error *reterr) {
        cleanup(free_p) char *file = NULL;
        int r;

        r = kubeconfig_read_line(entry, key, &file, reterr);
        if (r < 0 || !file)
                return r;

        if (file[0] == '/')
                *ret = take_ptr(file);
        else if (asprintf(ret, "%s/%s", folder, file) < 0) {
                *ret = NULL;
                return -ENOMEM;
        }
        return 0;
}

/* Decodes base64, ignoring line ends; the result has to be PEM. */
static int decode_pem(const JsonPath *path, const char *encoded, char **ret, Error *reterr) {
        cleanup(free_p) char *place = NULL;
        cleanup(access_text_done) char *text = NULL;
        size_t size = strlen(encoded) / 4 * 3 + 4;
        int n;

        place = calloc(1, size);
        if (!place)
                return -ENOMEM;

        n = b64_pton(encoded, (unsigned char *) place, size - 1);
        text = take_ptr(place);
        if (n < 0)
                return json_refuse(path, reterr, "is not base64");
        if ((size_t) n != strlen(text) || !access_text_is_pem(text)) {
                explicit_bzero(text, size);
                return json_refuse(path, reterr, "is not base64 of PEM");
        }

        *ret = take_ptr(text);
        return 0;
}

/* Reads a path from "client-key", or the content from "client-key-data". */
static int kubeconfig_read_source(const KubeconfigEntry *entry, const char *folder, const char *key,
                                  const char *data_key, KubeconfigSource *ret, Error *reterr) {
        const JsonPath path = { .parent = &entry->path, .key = data_key };
        cleanup(access_text_done) char *encoded = NULL;
        int r;

        r = kubeconfig_read_file(entry, folder, key, &ret->file, reterr);
        if (r < 0)
                return r;
        r = access_json_read_text(entry->object, &entry->path, data_key, &encoded, reterr);
        if (r < 0 || !encoded)
                return r;

        if (ret->file)
                return json_refuse(&path, reterr, "is there beside %s", key);
        return decode_pem(&path, encoded, &ret->text, reterr);
}

static bool has_scheme(const char *address, const char *const *schemes) {
        for (; *schemes; schemes++) {
                size_t size = strlen(*schemes);

                if (strncasecmp(address, *schemes, size) == 0 &&
                    strncmp(address + size, "://", 3) == 0)
                        return address[size + 3] != '\0' && address[size + 3] != '/';
        }

        return false;
}

static int read_server(const KubeconfigEntry *cluster, const char *chosen, char **ret,
                       Error *reterr) {
        static const char *const schemes[] = { "https", "http", NULL };
        const JsonPath path = { .parent = &cluster->path, .key = "server" };
        int r;

        r = chosen ? text_copy(chosen, ret) : kubeconfig_read_line(cluster, "server", ret, reterr);
        if (r < 0)
                return r;

        if (!*ret)
                return json_refuse(&path, reterr, "is missing");
        if (!has_scheme(*ret, schemes) || strpbrk(*ret, "?#@ "))
                return json_refuse(chosen ? NULL : &path, reterr,
                                   "%sexpected an address such as https://10.0.0.1:6443",
                                   chosen ? "the server that was chosen instead: " : "");

        for (size_t size = strlen(*ret); (*ret)[size - 1] == '/'; size--)
                (*ret)[size - 1] = '\0';
        return 0;
}

static int read_proxy(const KubeconfigEntry *cluster, char **ret, Error *reterr) {
        static const char *const schemes[] = { "http", "https", "socks5", "socks5h", NULL };
        const JsonPath path = { .parent = &cluster->path, .key = "proxy-url" };
        int r;

        r = kubeconfig_read_line(cluster, "proxy-url", ret, reterr);
        if (r < 0)
                return r;

        if (*ret && !has_scheme(*ret, schemes))
                return json_refuse(&path, reterr,
                                   "expected an address with http, https, socks5 or socks5h");
        return 0;
}

static int read_cluster(const KubeconfigEntry *cluster, const char *folder, const char *server,
                        KubeconfigSpec *spec, Error *reterr) {
        static const char unverified[] = "insecure-skip-tls-verify";
        const JsonPath path = { .parent = &cluster->path, .key = unverified };
        int r;

        r = read_server(cluster, server, &spec->server, reterr)
                    ?: kubeconfig_read_source(cluster, folder, "certificate-authority",
                                              "certificate-authority-data", &spec->ca, reterr)
                    ?: access_json_read_bool(cluster->object, &cluster->path, unverified,
                                             &spec->is_unverified, reterr)
                    ?: kubeconfig_read_line(cluster, "tls-server-name", &spec->tls_server_name,
                                            reterr)
                    ?: read_proxy(cluster, &spec->proxy, reterr);
        if (r < 0)
                return r;

        if (spec->is_unverified && (spec->ca.file || spec->ca.text))
                return json_refuse(&path, reterr, "is there beside a certificate authority");
        return 0;
}

static bool is_given(const KubeconfigSource *source) {
        return source->file || source->text;
}

/* Refuses members that would give another access than the intended one if they were ignored. */
static int refuse_others(const KubeconfigEntry *user, Error *reterr) {
        static const struct {
                const char *key;
                const char *words;
        } others[] = {
                { "auth-provider", "is not supported, as in kubectl since 1.26; use \"exec\"" },
                { "as-user-extra", "is not supported; \"as\", \"as-uid\" and \"as-groups\" are" },
        };

        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
                const JsonPath path = { .parent = &user->path, .key = others[i].key };
                struct json_object *value = NULL;

                (void) json_object_object_get_ex(user->object, others[i].key, &value);
                if (value)
                        return json_refuse(&path, reterr, "%s", others[i].words);
        }

        return 0;
}

/* Appends "Impersonate-User: jane". */
static int add_impersonation(KubeconfigSpec *spec, const char *header, const char *value) {
        size_t n = 0;
        char **grown;

        while (spec->impersonation && spec->impersonation[n])
                n++;
        grown = reallocarray(spec->impersonation, n + 2, sizeof(*grown));
        if (!grown)
                return -ENOMEM;

        spec->impersonation = grown;
        grown[n] = grown[n + 1] = NULL;
        return text_format(&grown[n], "%s: %s", header, value);
}

static int add_text(const KubeconfigEntry *user, const char *key, const char *header,
                    KubeconfigSpec *spec, Error *reterr) {
        cleanup(free_p) char *text = NULL;
        int r;

        r = kubeconfig_read_line(user, key, &text, reterr);
        return r < 0 || !text ? r : add_impersonation(spec, header, text);
}

static int add_groups(const KubeconfigEntry *user, KubeconfigSpec *spec, Error *reterr) {
        const JsonPath here = { .parent = &user->path, .key = "as-groups" };
        cleanup(texts_freep) char **groups = NULL;
        int r;

        r = read_texts(user->object, &user->path, here.key, access_json_copy_text, &groups, reterr);
        for (char **group = groups; r >= 0 && *group; group++)
                r = access_text_is_line(*group)
                            ? add_impersonation(spec, "Impersonate-Group", *group)
                            : json_refuse(&here, reterr, "has a control character in it");
        return r;
}

static int read_impersonation(const KubeconfigEntry *user, const KubeconfigOverrides *overrides,
                              KubeconfigSpec *spec, Error *reterr) {
        int r = overrides->as ? add_impersonation(spec, "Impersonate-User", overrides->as)
                              : add_text(user, "as", "Impersonate-User", spec, reterr);
        bool has_user = spec->impersonation;

        if (r >= 0 && !overrides->as)
                r = add_text(user, "as-uid", "Impersonate-Uid", spec, reterr);
        if (r >= 0 && !overrides->as && !overrides->as_groups)
                r = add_groups(user, spec, reterr);
        for (const char *const *group = overrides->as_groups; r >= 0 && group && *group; group++)
                r = add_impersonation(spec, "Impersonate-Group", *group);
        if (r >= 0 && spec->impersonation && !has_user)
                return json_refuse(user->object ? &user->path : NULL, reterr,
                                   "names a group or UID to act as, and no user");
        return r;
}

static int read_user(const KubeconfigEntry *user, const char *folder, KubeconfigSpec *spec,
                     Error *reterr) {
        int r;

        r = kubeconfig_read_line(user, "token", &spec->token, reterr)
                    ?: kubeconfig_read_file(user, folder, "tokenFile", &spec->token_file, reterr)
                    ?: kubeconfig_read_source(user, folder, "client-certificate",
                                              "client-certificate-data", &spec->certificate, reterr)
                    ?: kubeconfig_read_source(user, folder, "client-key", "client-key-data",
                                              &spec->key, reterr)
                    ?: kubeconfig_read_line(user, "username", &spec->username, reterr)
                    ?: kubeconfig_read_line(user, "password", &spec->password, reterr)
                    ?: kubeconfig_exec_read(user->object, &user->path, folder, &spec->exec, reterr);
        if (r < 0)
                return r;

        if (is_given(&spec->certificate) != is_given(&spec->key))
                return json_refuse(&user->path, reterr, "has only one of certificate and key");
        if ((spec->token || spec->token_file) && (spec->username || spec->password))
                return json_refuse(&user->path, reterr, "has both a token and a user name");

        /* The program is used only without other credentials, as in kubectl. */
        if (spec->token || spec->token_file || spec->username || is_given(&spec->certificate))
                kubeconfig_exec_done(&spec->exec);
        return 0;
}

static int read_cluster_and_user(KubeconfigRoots *roots, const KubeconfigEntry *context,
                                 KubeconfigSpec *spec, Error *reterr) {
        const JsonPath path = { .parent = &context->path, .key = "cluster" };
        const KubeconfigOverrides *overrides = roots->overrides;
        KubeconfigEntry cluster = { .object = NULL }, user = { .object = NULL };
        bool is_found;
        int r;

        r = kubeconfig_follow(roots, context, "clusters", "cluster", overrides->cluster, &cluster,
                              &is_found, reterr);
        if (r < 0)
                return r;
        if (!is_found)
                return json_refuse(&path, reterr, "is missing");
        r = read_cluster(&cluster, roots->files[cluster.file].folder, overrides->server, spec,
                         reterr);
        if (r < 0)
                return r;

        r = kubeconfig_follow(roots, context, "users", "user", overrides->user, &user, &is_found,
                              reterr);
        if (r >= 0 && is_found)
                r = refuse_others(&user, reterr);
        if (r >= 0 && overrides->token)
                r = text_copy(overrides->token, &spec->token);
        else if (r >= 0 && is_found)
                r = read_user(&user, roots->files[user.file].folder, spec, reterr);
        if (r >= 0)
                r = read_impersonation(&user, overrides, spec, reterr);
        if (r < 0)
                return r;
        if (!spec->exec.wants_cluster)
                return 0;

        roots->current = cluster.file;
        return kubeconfig_exec_read_cluster(cluster.object, &cluster.path, &spec->exec, reterr);
}

static int check_kind(struct json_object *root, Error *reterr) {
        const JsonPath path = { .key = "kind" };
        cleanup(free_p) char *kind = NULL;
        int r;

        r = access_json_read_text(root, NULL, "kind", &kind, reterr);
        if (r < 0)
                return r;

        if (kind && strcmp(kind, "Config") != 0)
                return json_refuse(&path, reterr, "expected \"Config\"");
        return 0;
}

/* Finds the current context in the first file that names one. */
static int choose_context(KubeconfigRoots *roots, const char *name, char **ret, Error *reterr) {
        const JsonPath path = { .key = "current-context" };
        int r;

        if (name) {
                *ret = strdup(name);
                return *ret ? 0 : -ENOMEM;
        }

        for (size_t i = 0; !*ret && i < roots->n_files; i++) {
                roots->current = i;
                r = access_json_read_text(roots->documents[i].items[0], NULL, path.key, ret,
                                          reterr);
                if (r < 0)
                        return r;
        }

        if (!*ret) {
                roots->current = 0;
                return json_refuse(&path, reterr, "is missing, and no context was chosen");
        }
        return 0;
}

static int read_context(const KubeconfigEntry *context, const KubeconfigOverrides *overrides,
                        KubeconfigSpec *spec, Error *reterr) {
        int r = kubeconfig_read_line(context, "namespace", &spec->namespace, reterr);

        if (r < 0)
                return r;

        return overrides->user ? text_copy(overrides->user, &spec->user)
                               : kubeconfig_read_line(context, "user", &spec->user, reterr);
}

static int read_config(KubeconfigRoots *roots, const char *name, KubeconfigSpec *spec,
                       Error *reterr) {
        const JsonPath path = { .key = "current-context" };
        KubeconfigEntry context = { .object = NULL };
        bool is_found;
        int r;

        r = choose_context(roots, name, &spec->context, reterr);
        if (r < 0)
                return r;

        r = kubeconfig_find(roots, "contexts", "context", spec->context, &context, &is_found,
                            reterr);
        if (r < 0)
                return r;
        if (!is_found)
                return json_refuse(name ? NULL : &path, reterr, "there is no context %s",
                                   quote(spec->context, (char[QUOTE_SIZE]){ 0 }));

        r = read_context(&context, roots->overrides, spec, reterr);
        return r < 0 ? r : read_cluster_and_user(roots, &context, spec, reterr);
}

static void roots_done(KubeconfigRoots *roots) {
        for (size_t i = 0; roots->documents && i < roots->n_files; i++)
                documents_wipe(&roots->documents[i]);
        free(roots->documents);
}

static int roots_init(KubeconfigRoots *roots, Error *reterr) {
        roots->documents = calloc(roots->n_files, sizeof(*roots->documents));
        if (!roots->documents)
                return -ENOMEM;

        for (size_t i = 0; i < roots->n_files; i++) {
                const KubeconfigFile *file = &roots->files[i];
                int r;

                roots->current = i;
                r = access_json_parse(file->text, file->size, &roots->documents[i], reterr);
                if (r < 0)
                        return r;
                r = check_kind(roots->documents[i].items[0], reterr);
                if (r < 0)
                        return r;
        }

        roots->current = 0;
        return 0;
}

/* Names the file in the error. */
static int refuse_file(const KubeconfigRoots *roots, const Error *error, Error *reterr) {
        const char *path = roots->files[roots->current].path;

        return path ? error_set(reterr, error->kind, "%s: %s", path, error_message(error))
                    : error_copy(reterr, error);
}

int kubeconfig_spec_parse(const KubeconfigFile *files, size_t n_files, const char *context,
                          const KubeconfigOverrides *overrides, KubeconfigSpec *ret,
                          Error *reterr) {
        cleanup(roots_done) KubeconfigRoots roots = {
                .files = files,
                .n_files = n_files,
                .overrides = overrides ?: &(const KubeconfigOverrides){ .user = NULL },
        };
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = roots_init(&roots, &error) ?: read_config(&roots, context, &spec, &error);
        if (error.kind != ERROR_NONE)
                return refuse_file(&roots, &error, reterr);
        if (r < 0)
                return r;

        *ret = spec;
        spec = KUBECONFIG_SPEC_INIT;
        return 0;
}

static void source_done(KubeconfigSource *source) {
        free(source->file);
        access_text_done(&source->text);
}

void kubeconfig_spec_done(KubeconfigSpec *spec) {
        free(spec->context);
        free(spec->namespace);
        free(spec->user);
        free(spec->server);
        source_done(&spec->ca);
        free(spec->tls_server_name);
        access_text_done(&spec->proxy);
        access_text_done(&spec->token);
        free(spec->token_file);
        source_done(&spec->certificate);
        source_done(&spec->key);
        access_text_done(&spec->username);
        access_text_done(&spec->password);
        kubeconfig_exec_done(&spec->exec);
        texts_done(spec->impersonation);
        *spec = KUBECONFIG_SPEC_INIT;
}
