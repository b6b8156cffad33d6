/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/kubeconfig-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"
#include "agent/document/json-fields.h"
#include "agent/kube/access-json.h"
#include "agent/kube/exec-credential-spec.h"

#define EXTENSION "client.authentication.k8s.io/exec"

/* The files, in the order in which they count. */
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

/* Context of the hooks. */
typedef struct Place {
        const char *folder; /* folder of the file */
        const KubeconfigOverrides *overrides;
} Place;

static int read_version(const char *text, const JsonPath *path, void *ret, const void *context,
                        Error *reterr) {
        static const char *const versions[] = { EXEC_CREDENTIAL_V1, EXEC_CREDENTIAL_V1BETA1 };

        for (size_t i = 0; text && i < sizeof(versions) / sizeof(versions[0]); i++)
                if (strcmp(text, versions[i]) == 0) {
                        *(const char **) ret = versions[i];
                        return 0;
                }

        return json_refuse(path, reterr, "expected \"%s\" or \"%s\"", versions[0], versions[1]);
}

/* A relative path starts at the folder. */
static int copy_path(const char *path, const Place *place, char **ret) {
        return path && path[0] != '/' ? text_format(ret, "%s/%s", place->folder, path)
                                      : text_copy(path, ret);
}

/* Like kubectl: a name alone is looked up in PATH. */
static int read_command(const char *text, const JsonPath *path, void *ret, const void *context,
                        Error *reterr) {
        return strchr(text, '/') ? copy_path(text, context, ret) : text_copy(text, ret);
}

typedef struct Variable {
        char *name;
        char *value;
} Variable;

static const JsonField variable_fields[] = {
        { "name", JSON_TEXT, .offset = offsetof(Variable, name) },
        { "value", JSON_TEXT, .offset = offsetof(Variable, value) },
        { .key = NULL },
};

static void variable_done(Variable *variable) {
        json_fields_done(variable_fields, variable);
}

static int read_variable(struct json_object *item, const JsonPath *path, void *ret,
                         const void *context, Error *reterr) {
        const JsonPath name_path = { .parent = path, .key = "name" };
        cleanup(variable_done) Variable variable = { .name = NULL };
        int r;

        r = json_check_type(item, path, json_type_object, reterr)
                    ?: json_fields_read(variable_fields, item, path, &variable, NULL, reterr);
        if (r < 0)
                return r;

        if (!variable.name || strchr(variable.name, '='))
                return json_refuse(&name_path, reterr, "expected the name of a variable");
        return text_format(ret, "%s=%s", variable.name, variable.value ?: "");
}

static int check_mode(const char *mode, const JsonPath *path, void *ret, const void *context,
                      Error *reterr) {
        if (mode && strcmp(mode, "Always") == 0)
                return json_refuse(path, reterr, "the program needs a terminal");
        if (mode && strcmp(mode, "Never") != 0 && strcmp(mode, "IfAvailable") != 0)
                return json_refuse(path, reterr,
                                   "expected \"Never\", \"IfAvailable\" or \"Always\"");
        return 0;
}

/* clang-format off */
static const JsonField exec_fields[] = {
        { "apiVersion", JSON_WORD, .offset = offsetof(KubeconfigExec, api_version), .on_text = read_version },
        { "command", JSON_TEXT, .offset = offsetof(KubeconfigExec, command), .on_text = read_command,
          .empty = "is missing" },
        { "args", JSON_TEXTS, .offset = offsetof(KubeconfigExec, arguments) },
        { "env", JSON_TEXTS, .offset = offsetof(KubeconfigExec, environment), .on_value = read_variable },
        { "interactiveMode", JSON_WORD, .on_text = check_mode },
        { "installHint", JSON_TEXT, .offset = offsetof(KubeconfigExec, install_hint) },
        { "provideClusterInfo", JSON_BOOLEAN, .offset = offsetof(KubeconfigExec, wants_cluster) },
        { .key = NULL },
};
/* clang-format on */

static int read_exec(struct json_object *exec, const JsonPath *path, void *ret, const void *context,
                     Error *reterr) {
        return exec ? json_fields_read(exec_fields, exec, path, ret, context, reterr) : 0;
}

static int copy_json(struct json_object *value, char **ret) {
        const char *text = json_to_text_with(value, JSON_C_TO_STRING_PLAIN);

        *ret = text ? strdup(text) : NULL;
        return *ret ? 0 : -ENOMEM;
}

/* Reads the cluster's extension for that program. */
static int read_extension(const KubeconfigEntry *cluster, KubeconfigExec *exec, Error *reterr) {
        const JsonPath here = { .parent = &cluster->path, .key = "extensions" };
        struct json_object *list;
        int r;

        r = json_read_list(cluster->object, &cluster->path, here.key, &list, reterr);
        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++) {
                struct json_object *item = json_object_array_get_idx(list, i), *extension = NULL;
                const JsonPath path = { .parent = &here, .index = i };
                const char *name;

                r = json_check_type(item, &path, json_type_object, reterr)
                            ?: json_read_text(item, &path, "name", &name, reterr);
                if (r < 0)
                        return r;

                (void) json_object_object_get_ex(item, "extension", &extension);
                if (name && strcmp(name, EXTENSION) == 0 && extension)
                        return copy_json(extension, &exec->cluster_config);
        }

        return r;
}

/* Finds an entry, of "users" and "user" say, in one file. *ret_found: there is one. */
static int kubeconfig_find_in(struct json_object *root, const char *list_key, const char *key,
                              const char *name, KubeconfigEntry *ret, bool *ret_found,
                              Error *reterr) {
        struct json_object *list = NULL;
        bool is_found = false;
        int r = 0;

        ret->list = (JsonPath){ .key = list_key, .is_secret = true };
        ret->path = (JsonPath){ .parent = &ret->item, .key = key };
        if (json_object_object_get_ex(root, list_key, &list) && list)
                r = json_check_type(list, &ret->list, json_type_array, reterr);

        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++) {
                struct json_object *item = json_object_array_get_idx(list, i);
                const JsonPath path = { .parent = &ret->list, .index = i };
                const char *its_name;

                r = json_check_type(item, &path, json_type_object, reterr)
                            ?: json_read_text(item, &path, "name", &its_name, reterr);
                if (r < 0)
                        return r;
                if (strcmp(its_name ?: "", name) != 0)
                        continue;
                if (is_found)
                        return json_refuse(&path, reterr, "there is another one of this name");

                is_found = true;
                ret->item = path;
                r = json_read_object(item, &path, key, &ret->object, reterr);
                if (r >= 0 && !ret->object)
                        return json_refuse(&ret->path, reterr, "is missing");
        }

        *ret_found = is_found;
        return r;
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

/* Finds the chosen entry, else the entry that this member of the context names. *ret_found is false
 * if there is neither. */
static int kubeconfig_follow(KubeconfigRoots *roots, const KubeconfigEntry *context,
                             const char *list_key, const char *key, const char *chosen,
                             KubeconfigEntry *ret, bool *ret_found, Error *reterr) {
        const JsonPath path = { .parent = &context->path, .key = key };
        const char *name = chosen;
        bool is_found;
        int r = 0;

        if (!chosen)
                r = json_read_text(context->object, &context->path, key, &name, reterr);
        if (r < 0)
                return r;
        if (!name || !*name) {
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

static int read_file(const char *text, const JsonPath *path, void *ret, const void *context,
                     Error *reterr) {
        cleanup(free_p) char *file = NULL;
        int r;

        r = access_json_read_line(text, path, &file, NULL, reterr);
        return r < 0 ? r : copy_path(file, context, ret);
}

/* Decodes base64, ignoring line ends; the result has to be PEM. */
static int decode_pem(const JsonPath *path, const char *encoded, char **ret, Error *reterr) {
        cleanup(free_p) char *place = NULL;
        cleanup(text_wipe) char *text = NULL;
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

/* Reads the content from "client-key-data", where there may be no path in "client-key". */
static int read_data(const char *text, const JsonPath *path, void *ret, const void *context,
                     Error *reterr) {
        const KubeconfigSource *source =
                (KubeconfigSource *) ((char *) ret - offsetof(KubeconfigSource, text));

        if (!text)
                return 0;
        if (source->file)
                return json_refuse(path, reterr, "is there beside %.*s",
                                   (int) (strlen(path->key) - strlen("-data")), path->key);
        return decode_pem(path, text, ret, reterr);
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

static int read_server(const char *text, const JsonPath *path, void *ret, const void *context,
                       Error *reterr) {
        static const char *const schemes[] = { "https", "http", NULL };
        const char *chosen = ((const Place *) context)->overrides->server;
        char **server = ret;
        int r;

        r = chosen ? text_copy(chosen, server)
                   : access_json_read_line(text, path, server, NULL, reterr);
        if (r < 0)
                return r;

        if (!*server)
                return json_refuse(path, reterr, "is missing");
        if (!has_scheme(*server, schemes) || strpbrk(*server, "?#@ "))
                return json_refuse(chosen ? NULL : path, reterr,
                                   "%sexpected an address such as https://10.0.0.1:6443",
                                   chosen ? "the server that was chosen instead: " : "");

        for (size_t size = strlen(*server); (*server)[size - 1] == '/'; size--)
                (*server)[size - 1] = '\0';
        return 0;
}

static int read_proxy(const char *text, const JsonPath *path, void *ret, const void *context,
                      Error *reterr) {
        static const char *const schemes[] = { "http", "https", "socks5", "socks5h", NULL };
        int r;

        r = access_json_read_line(text, path, ret, NULL, reterr);
        if (r < 0)
                return r;

        if (text && !has_scheme(text, schemes))
                return json_refuse(path, reterr,
                                   "expected an address with http, https, socks5 or socks5h");
        return 0;
}

/* Members that would give another access than the intended one if they were ignored are refused. */
static int refuse_provider(struct json_object *value, const JsonPath *path, void *ret,
                           const void *context, Error *reterr) {
        return value ? json_refuse(path, reterr,
                                   "is not supported, as in kubectl since 1.26; use \"exec\"")
                     : 0;
}

static int refuse_extra(struct json_object *value, const JsonPath *path, void *ret,
                        const void *context, Error *reterr) {
        return value ? json_refuse(path, reterr,
                                   "is not supported; \"as\", \"as-uid\" and \"as-groups\" are")
                     : 0;
}

static int read_group(struct json_object *item, const JsonPath *path, void *ret,
                      const void *context, Error *reterr) {
        return json_check_text(item, path, SIZE_MAX, reterr)
                       ?: access_json_read_line(json_object_get_string(item), path->parent, ret,
                                                NULL, reterr);
}

static int check_kind(const char *kind, const JsonPath *path, void *ret, const void *context,
                      Error *reterr) {
        return kind && strcmp(kind, "Config") != 0
                       ? json_refuse(path, reterr, "expected \"Config\"")
                       : 0;
}

typedef struct Impersonation {
        char *user;
        char *uid;
        char **groups;
} Impersonation;

/* clang-format off */
#define LINE(key, member) \
        { key, JSON_TEXT, .offset = offsetof(KubeconfigSpec, member), .on_text = access_json_read_line }
#define PATH(key, member) \
        { key, JSON_TEXT, .offset = offsetof(KubeconfigSpec, member), .on_text = read_file }
#define SOURCE(key, member) \
        PATH(key, member.file), \
        { key "-data", JSON_TEXT, .offset = offsetof(KubeconfigSpec, member.text), .on_text = read_data }

static const JsonField kind_fields[] = {
        { "kind", JSON_WORD, .on_text = check_kind, .is_secret = true },
        { .key = NULL },
};

static const JsonField root_fields[] = {
        { "current-context", JSON_TEXT, .offset = offsetof(KubeconfigSpec, context), .is_secret = true },
        { .key = NULL },
};

static const JsonField context_fields[] = {
        LINE("namespace", namespace),
        LINE("user", user),
        { .key = NULL },
};

static const JsonField cluster_fields[] = {
        { "server", JSON_TEXT, .offset = offsetof(KubeconfigSpec, server), .on_text = read_server },
        SOURCE("certificate-authority", ca),
        { "insecure-skip-tls-verify", JSON_BOOLEAN, .offset = offsetof(KubeconfigSpec, is_unverified) },
        LINE("tls-server-name", tls_server_name),
        { "proxy-url", JSON_TEXT, .offset = offsetof(KubeconfigSpec, proxy), .on_text = read_proxy },
        { .key = NULL },
};

static const JsonField refused_fields[] = {
        { "auth-provider", JSON_ANY, .on_value = refuse_provider },
        { "as-user-extra", JSON_ANY, .on_value = refuse_extra },
        { .key = NULL },
};

static const JsonField user_fields[] = {
        LINE("token", token),
        PATH("tokenFile", token_file),
        SOURCE("client-certificate", certificate),
        SOURCE("client-key", key),
        LINE("username", username),
        LINE("password", password),
        { "exec", JSON_OBJECT, .offset = offsetof(KubeconfigSpec, exec), .on_value = read_exec, .fields = exec_fields },
        { .key = NULL },
};

static const JsonField impersonation_fields[] = {
        { "as", JSON_TEXT, .offset = offsetof(Impersonation, user), .on_text = access_json_read_line },
        { "as-uid", JSON_TEXT, .offset = offsetof(Impersonation, uid), .on_text = access_json_read_line },
        { "as-groups", JSON_TEXTS, .offset = offsetof(Impersonation, groups), .on_value = read_group },
        { .key = NULL },
};
/* clang-format on */

static int read_cluster(const KubeconfigEntry *cluster, const Place *place, KubeconfigSpec *spec,
                        Error *reterr) {
        const JsonPath path = { .parent = &cluster->path, .key = "insecure-skip-tls-verify" };
        int r;

        r = json_fields_read(cluster_fields, cluster->object, &cluster->path, spec, place, reterr);
        if (r < 0)
                return r;

        if (spec->is_unverified && (spec->ca.file || spec->ca.text))
                return json_refuse(&path, reterr, "is there beside a certificate authority");
        return 0;
}

static bool is_given(const KubeconfigSource *source) {
        return source->file || source->text;
}

/* Appends "Impersonate-User: jane"; nothing for NULL. */
static int add_impersonation(KubeconfigSpec *spec, const char *header, const char *value) {
        size_t n = 0;
        char **grown;

        if (!value)
                return 0;

        while (spec->impersonation && spec->impersonation[n])
                n++;
        grown = reallocarray(spec->impersonation, n + 2, sizeof(*grown));
        if (!grown)
                return -ENOMEM;

        spec->impersonation = grown;
        grown[n] = grown[n + 1] = NULL;
        return text_format(&grown[n], "%s: %s", header, value);
}

static void impersonation_done(Impersonation *from) {
        json_fields_done(impersonation_fields, from);
}

static int read_impersonation(const KubeconfigEntry *user, const KubeconfigOverrides *overrides,
                              KubeconfigSpec *spec, Error *reterr) {
        cleanup(impersonation_done) Impersonation from = { .user = NULL };
        const char *const *groups = overrides->as_groups;
        int r = 0;

        if (!overrides->as)
                r = json_fields_read(impersonation_fields, user->object, &user->path, &from, NULL,
                                     reterr);
        if (r < 0)
                return r;
        if (!groups)
                groups = (const char *const *) from.groups;

        if (!overrides->as && !from.user && (from.uid || (groups && *groups)))
                return json_refuse(user->object ? &user->path : NULL, reterr,
                                   "names a group or UID to act as, and no user");

        r = add_impersonation(spec, "Impersonate-User", overrides->as ?: from.user)
                    ?: add_impersonation(spec, "Impersonate-Uid", from.uid);
        for (; r >= 0 && groups && *groups; groups++)
                r = add_impersonation(spec, "Impersonate-Group", *groups);
        return r;
}

static int read_user(const KubeconfigEntry *user, const Place *place, KubeconfigSpec *spec,
                     Error *reterr) {
        int r;

        r = json_fields_read(user_fields, user->object, &user->path, spec, place, reterr);
        if (r < 0)
                return r;

        if (is_given(&spec->certificate) != is_given(&spec->key))
                return json_refuse(&user->path, reterr, "has only one of certificate and key");
        if ((spec->token || spec->token_file) && (spec->username || spec->password))
                return json_refuse(&user->path, reterr, "has both a token and a user name");

        /* The program is used only without other credentials, as in kubectl. */
        if (spec->token || spec->token_file || spec->username || is_given(&spec->certificate)) {
                json_fields_done(exec_fields, &spec->exec);
                spec->exec = (KubeconfigExec){ .api_version = NULL };
        }
        return 0;
}

static int read_cluster_and_user(KubeconfigRoots *roots, const KubeconfigEntry *context,
                                 KubeconfigSpec *spec, Error *reterr) {
        const JsonPath path = { .parent = &context->path, .key = "cluster" };
        const KubeconfigOverrides *overrides = roots->overrides;
        Place place = { .overrides = overrides };
        KubeconfigEntry cluster = { .object = NULL }, user = { .object = NULL };
        bool is_found;
        int r;

        r = kubeconfig_follow(roots, context, "clusters", "cluster", overrides->cluster, &cluster,
                              &is_found, reterr);
        if (r < 0)
                return r;
        if (!is_found)
                return json_refuse(&path, reterr, "is missing");
        place.folder = roots->files[cluster.file].folder;
        r = read_cluster(&cluster, &place, spec, reterr);
        if (r < 0)
                return r;

        r = kubeconfig_follow(roots, context, "users", "user", overrides->user, &user, &is_found,
                              reterr);
        if (r >= 0 && is_found)
                r = json_fields_read(refused_fields, user.object, &user.path, spec, NULL, reterr);
        if (r >= 0 && overrides->token)
                r = text_copy(overrides->token, &spec->token);
        else if (r >= 0 && is_found) {
                place.folder = roots->files[user.file].folder;
                r = read_user(&user, &place, spec, reterr);
        }
        if (r >= 0)
                r = read_impersonation(&user, overrides, spec, reterr);
        if (r < 0)
                return r;
        if (!spec->exec.wants_cluster)
                return 0;

        roots->current = cluster.file;
        return read_extension(&cluster, &spec->exec, reterr);
}

/* Finds the current context in the first file that names one. */
static int choose_context(KubeconfigRoots *roots, const char *name, KubeconfigSpec *spec,
                          Error *reterr) {
        const JsonPath path = { .key = "current-context" };
        int r = text_copy(name, &spec->context);

        for (size_t i = 0; r >= 0 && !spec->context && i < roots->n_files; i++) {
                roots->current = i;
                r = json_fields_read(root_fields, roots->documents[i].items[0], NULL, spec, NULL,
                                     reterr);
        }

        if (r >= 0 && !spec->context) {
                roots->current = 0;
                return json_refuse(&path, reterr, "is missing, and no context was chosen");
        }
        return r;
}

static int read_config(KubeconfigRoots *roots, const char *name, KubeconfigSpec *spec,
                       Error *reterr) {
        const JsonPath path = { .key = "current-context" };
        KubeconfigEntry context = { .object = NULL };
        bool is_found;
        int r;

        r = choose_context(roots, name, spec, reterr);
        if (r < 0)
                return r;

        r = kubeconfig_find(roots, "contexts", "context", spec->context, &context, &is_found,
                            reterr);
        if (r < 0)
                return r;
        if (!is_found)
                return json_refuse(name ? NULL : &path, reterr, "there is no context %s",
                                   quote(spec->context, (char[QUOTE_SIZE]){ 0 }));

        r = json_fields_read(context_fields, context.object, &context.path, spec, NULL, reterr);
        if (r >= 0 && roots->overrides->user)
                r = text_set(&spec->user, roots->overrides->user);
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
                r = json_fields_read(kind_fields, roots->documents[i].items[0], NULL, roots, NULL,
                                     reterr);
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

void kubeconfig_spec_done(KubeconfigSpec *spec) {
        static const JsonField *const tables[] = { root_fields, context_fields, cluster_fields,
                                                   user_fields };

        for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
                json_fields_done(tables[i], spec);
        text_wipe(&spec->exec.cluster_config);
        for (char **header = spec->impersonation; header && *header; header++)
                text_wipe(header);
        free(spec->impersonation);
        *spec = KUBECONFIG_SPEC_INIT;
}
