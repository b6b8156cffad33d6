/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/exec-credential-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kube/access-json.h"

#define KIND "ExecCredential"
#define MARGIN_MAX_SEC 30

static int add_text(struct json_object *object, const char *key, const char *text) {
        return text ? patch_add_text(object, key, text) : 0;
}

static int add_base64(struct json_object *object, const char *key, const char *text) {
        cleanup(free_p) char *encoded = NULL;
        size_t size;

        if (!text)
                return 0;

        size = strlen(text) / 3 * 4 + 5;
        encoded = malloc(size);
        if (!encoded || b64_ntop((const unsigned char *) text, strlen(text), encoded, size) < 0)
                return -ENOMEM;

        return add_text(object, key, encoded);
}

/* The text was written by json-c, so it can be read. */
static int add_json(struct json_object *object, const char *key, const char *text) {
        struct json_object *json = NULL;
        int r;

        if (!text)
                return 0;

        r = json_parse(text, strlen(text), &json, NULL);
        return r < 0 ? r : patch_add(object, key, json);
}

static int add_cluster(struct json_object *spec, const ExecCredentialCluster *cluster) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        int r;

        if (!object)
                return -ENOMEM;

        r = add_text(object, "server", cluster->server)
                    ?: add_text(object, "tls-server-name", cluster->tls_server_name)
                    ?: add_base64(object, "certificate-authority-data", cluster->ca)
                    ?: add_text(object, "proxy-url", cluster->proxy)
                    ?: add_json(object, "config", cluster->config);
        if (r == 0 && cluster->is_unverified)
                r = patch_add(object, "insecure-skip-tls-verify", json_object_new_boolean(true));
        if (r < 0)
                return r;

        return patch_add(spec, "cluster", take_ptr(object));
}

int exec_credential_request(const char *api_version, const ExecCredentialCluster *cluster,
                            char **ret) {
        cleanup(json_object_put_p) json_object *root = json_object_new_object();
        json_object *spec = json_object_new_object();
        const char *text;
        char *copy;
        int r;

        if (!root) {
                json_object_put(spec);
                return -ENOMEM;
        }

        r = patch_add(root, "spec", spec)
                    ?: add_text(root, "kind", KIND)
                    ?: add_text(root, "apiVersion", api_version)
                    ?: patch_add(spec, "interactive", json_object_new_boolean(false));
        if (r == 0 && cluster)
                r = add_cluster(spec, cluster);
        if (r < 0)
                return r;

        text = json_to_text(root);
        copy = text ? strdup(text) : NULL;
        if (!copy)
                return -ENOMEM;

        *ret = copy;
        return 0;
}

static int check_word(struct json_object *root, const char *key, const char *expected,
                      Error *reterr) {
        const JsonPath path = { .key = key };
        cleanup(access_text_done) char *text = NULL;
        int r;

        r = access_json_read_text(root, NULL, key, &text, reterr);
        if (r < 0)
                return r;

        if (!text || strcmp(text, expected) != 0)
                return json_refuse(&path, reterr, "expected \"%s\"", expected);
        return 0;
}

static int read_pem(struct json_object *status, const JsonPath *path, const char *key, char **ret,
                    Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };
        int r;

        r = access_json_read_text(status, path, key, ret, reterr);
        if (r < 0)
                return r;

        if (*ret && !access_text_is_pem(*ret))
                return json_refuse(&here, reterr, "is not PEM");
        return 0;
}

/* Renews a credential when a tenth of its life is left, and at most MARGIN_MAX_SEC early. */
static int64_t choose_renewal(int64_t now, int64_t expires_at) {
        int64_t margin = (expires_at - now) / 10;

        return expires_at - (margin < MARGIN_MAX_SEC ? margin : MARGIN_MAX_SEC);
}

static int read_expiry(struct json_object *status, const JsonPath *path, int64_t now,
                       ExecCredential *credential, Error *reterr) {
        static const char key[] = "expirationTimestamp";
        const JsonPath here = { .parent = path, .key = key };
        cleanup(access_text_done) char *text = NULL;
        int64_t expires_at;
        int r;

        credential->expires_at = INT64_MAX;
        credential->renew_at = INT64_MAX;
        r = access_json_read_text(status, path, key, &text, reterr);
        if (r < 0 || !text)
                return r;

        if (rfc3339_parse(text, &expires_at) < 0)
                return json_refuse(&here, reterr, "expected a time such as 2026-01-31T12:00:00Z");
        if (expires_at <= now) {
                char made[RFC3339_SIZE], here_now[RFC3339_SIZE];

                return json_refuse(&here, reterr, "it expired at %s, and here it is %s",
                                   rfc3339_format(expires_at, made), rfc3339_format(now, here_now));
        }

        credential->expires_at = expires_at;
        credential->renew_at = choose_renewal(now, expires_at);
        return 0;
}

static int read_status(struct json_object *root, int64_t now, ExecCredential *credential,
                       Error *reterr) {
        const JsonPath path = { .key = "status" };
        const JsonPath token_path = { .parent = &path, .key = "token" };
        struct json_object *status;
        int r;

        r = access_json_read_object(root, NULL, path.key, &status, reterr);
        if (r < 0)
                return r;
        if (!status)
                return json_refuse(&path, reterr, "is missing");

        r = access_json_read_text(status, &path, "token", &credential->token, reterr)
                    ?: read_pem(status, &path, "clientCertificateData", &credential->certificate,
                                reterr)
                    ?: read_pem(status, &path, "clientKeyData", &credential->key, reterr)
                    ?: read_expiry(status, &path, now, credential, reterr);
        if (r < 0)
                return r;

        if (credential->token && !access_text_is_line(credential->token))
                return json_refuse(&token_path, reterr, "has a control character in it");
        if (!credential->certificate != !credential->key)
                return json_refuse(&path, reterr, "has only one of certificate and key");
        if (!credential->token && !credential->certificate)
                return json_refuse(&path, reterr, "has neither a token nor a certificate");
        return 0;
}

int exec_credential_parse(const char *text, size_t size, const char *api_version, int64_t now,
                          ExecCredential *ret, Error *reterr) {
        cleanup(exec_credential_done) ExecCredential credential = EXEC_CREDENTIAL_INIT;
        cleanup(documents_wipe) Documents documents = DOCUMENTS_INIT;
        int r;

        r = access_json_parse(text, size, &documents, reterr);
        if (r < 0)
                return r;

        r = check_word(documents.items[0], "kind", KIND, reterr)
                    ?: check_word(documents.items[0], "apiVersion", api_version, reterr)
                    ?: read_status(documents.items[0], now, &credential, reterr);
        if (r < 0)
                return r;

        *ret = credential;
        credential = EXEC_CREDENTIAL_INIT;
        return 0;
}

void exec_credential_done(ExecCredential *credential) {
        access_text_done(&credential->token);
        access_text_done(&credential->certificate);
        access_text_done(&credential->key);
        *credential = EXEC_CREDENTIAL_INIT;
}
