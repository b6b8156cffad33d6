/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/kubeconfig-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/kube/access-json.h"
#include "agent/kube/access-text.h"
#include "agent/kube/kubeconfig-entry.h"
#include "agent/kube/kubeconfig-exec.h"

static bool has_scheme(const char *address, const char *const *schemes) {
        for (; *schemes; schemes++) {
                size_t size = strlen(*schemes);

                if (strncasecmp(address, *schemes, size) == 0 &&
                    strncmp(address + size, "://", 3) == 0)
                        return address[size + 3] != '\0' && address[size + 3] != '/';
        }

        return false;
}

static int read_server(const KubeconfigEntry *cluster, char **ret, Error *reterr) {
        static const char *const schemes[] = { "https", "http", NULL };
        const JsonPath path = { .parent = &cluster->path, .key = "server" };
        int r;

        r = kubeconfig_read_line(cluster, "server", ret, reterr);
        if (r < 0)
                return r;

        if (!*ret)
                return json_refuse(&path, reterr, "is missing");
        if (!has_scheme(*ret, schemes) || strpbrk(*ret, "?#@ "))
                return json_refuse(&path, reterr,
                                   "expected an address such as https://10.0.0.1:6443");

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

static int read_cluster(const KubeconfigEntry *cluster, const char *folder, KubeconfigSpec *spec,
                        Error *reterr) {
        static const char unverified[] = "insecure-skip-tls-verify";
        const JsonPath path = { .parent = &cluster->path, .key = unverified };
        int r;

        r = read_server(cluster, &spec->server, reterr)
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

/* What would not be the access that is meant. */
static int refuse_others(const KubeconfigEntry *user, Error *reterr) {
        static const struct {
                const char *key;
                const char *words;
        } others[] = {
                { "auth-provider", "is not supported, as in kubectl since 1.26; use \"exec\"" },
                { "as", "acting as somebody else is not supported" },
                { "as-uid", "acting as somebody else is not supported" },
                { "as-groups", "acting as somebody else is not supported" },
                { "as-user-extra", "acting as somebody else is not supported" },
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

static int read_user(const KubeconfigEntry *user, const char *folder, KubeconfigSpec *spec,
                     Error *reterr) {
        int r;

        r = refuse_others(user, reterr)
                    ?: kubeconfig_read_line(user, "token", &spec->token, reterr)
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

        /* As for kubectl, the program is there for want of anything else. */
        if (spec->token || spec->token_file || spec->username || is_given(&spec->certificate))
                kubeconfig_exec_done(&spec->exec);
        return 0;
}

static int read_cluster_and_user(struct json_object *root, const KubeconfigEntry *context,
                                 const char *folder, KubeconfigSpec *spec, Error *reterr) {
        const JsonPath path = { .parent = &context->path, .key = "cluster" };
        KubeconfigEntry cluster = { .object = NULL }, user = { .object = NULL };
        bool is_found;
        int r;

        r = kubeconfig_follow(root, context, "clusters", "cluster", &cluster, &is_found, reterr);
        if (r < 0)
                return r;
        if (!is_found)
                return json_refuse(&path, reterr, "is missing");
        r = read_cluster(&cluster, folder, spec, reterr);
        if (r < 0)
                return r;

        r = kubeconfig_follow(root, context, "users", "user", &user, &is_found, reterr);
        if (r < 0)
                return r;
        if (is_found) {
                r = read_user(&user, folder, spec, reterr);
                if (r < 0)
                        return r;
        }
        if (!spec->exec.wants_cluster)
                return 0;

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

static int choose_context(struct json_object *root, const char *wish, char **ret, Error *reterr) {
        const JsonPath path = { .key = "current-context" };
        int r;

        if (wish) {
                *ret = strdup(wish);
                return *ret ? 0 : -ENOMEM;
        }

        r = access_json_read_text(root, NULL, path.key, ret, reterr);
        if (r < 0)
                return r;

        if (!*ret)
                return json_refuse(&path, reterr, "is missing, and no context was chosen");
        return 0;
}

static int read_config(struct json_object *root, const char *folder, const char *wish,
                       KubeconfigSpec *spec, Error *reterr) {
        const JsonPath path = { .key = "current-context" };
        KubeconfigEntry context = { .object = NULL };
        bool is_found;
        int r;

        r = check_kind(root, reterr) ?: choose_context(root, wish, &spec->context, reterr);
        if (r < 0)
                return r;

        r = kubeconfig_find(root, "contexts", "context", spec->context, &context, &is_found,
                            reterr);
        if (r < 0)
                return r;
        if (!is_found)
                return json_refuse(wish ? NULL : &path, reterr, "there is no context %s",
                                   quote(spec->context, (char[QUOTE_SIZE]){ 0 }));

        return read_cluster_and_user(root, &context, folder, spec, reterr);
}

int kubeconfig_spec_parse(const char *text, size_t size, const char *folder, const char *context,
                          KubeconfigSpec *ret, Error *reterr) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
        cleanup(documents_wipe) Documents documents = DOCUMENTS_INIT;
        int r;

        r = access_json_parse(text, size, &documents, reterr);
        if (r < 0)
                return r;

        r = read_config(documents.items[0], folder, context, &spec, reterr);
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
        *spec = KUBECONFIG_SPEC_INIT;
}
