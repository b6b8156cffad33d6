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
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kube/access-json.h"

#define KIND "ExecCredential"
#define MARGIN_MAX_SEC 30

static int add_base64(struct json_object *object, const char *key, const char *text) {
        cleanup(free_p) char *encoded = NULL;
        size_t size;

        if (!text)
                return 0;

        size = strlen(text) / 3 * 4 + 5;
        encoded = malloc(size);
        if (!encoded || b64_ntop((const unsigned char *) text, strlen(text), encoded, size) < 0)
                return -ENOMEM;

        return patch_add_text(object, key, encoded);
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

        r = patch_add_filled(object, "server", cluster->server)
                    ?: patch_add_filled(object, "tls-server-name", cluster->tls_server_name)
                    ?: add_base64(object, "certificate-authority-data", cluster->ca)
                    ?: patch_add_filled(object, "proxy-url", cluster->proxy)
                    ?: add_json(object, "config", cluster->config);
        if (r == 0 && cluster->is_unverified)
                r = patch_add_bool(object, "insecure-skip-tls-verify", true);
        if (r < 0)
                return r;

        return patch_add(spec, "cluster", take_ptr(object));
}

int exec_credential_request(const char *api_version, const ExecCredentialCluster *cluster,
                            char **ret) {
        cleanup(json_object_put_p) json_object *root = json_object_new_object();
        json_object *spec = json_object_new_object();
        int r;

        r = patch_add(root, "spec", spec)
                    ?: patch_add_text(root, "kind", KIND)
                    ?: patch_add_text(root, "apiVersion", api_version)
                    ?: patch_add_bool(spec, "interactive", false);
        if (r == 0 && cluster)
                r = add_cluster(spec, cluster);
        return r < 0 ? r : json_copy_text(root, ret);
}

typedef struct Expected {
        const char *api_version;
        int64_t now;
} Expected;

static int check_word(const char *text, const JsonPath *path, const char *expected, Error *reterr) {
        return text && strcmp(text, expected) == 0
                       ? 0
                       : json_refuse(path, reterr, "expected \"%s\"", expected);
}

static int check_kind(const char *text, const JsonPath *path, void *ret, const void *context,
                      Error *reterr) {
        return check_word(text, path, KIND, reterr);
}

static int check_version(const char *text, const JsonPath *path, void *ret, const void *context,
                         Error *reterr) {
        return check_word(text, path, ((const Expected *) context)->api_version, reterr);
}

static int read_pem(const char *text, const JsonPath *path, void *ret, const void *context,
                    Error *reterr) {
        if (text && !access_text_is_pem(text))
                return json_refuse(path, reterr, "is not PEM");
        return text_copy(text, ret);
}

/* Renews a credential when a tenth of its life is left, and at most MARGIN_MAX_SEC early. */
static int64_t choose_renewal(int64_t now, int64_t expires_at) {
        int64_t margin = (expires_at - now) / 10;

        return expires_at - (margin < MARGIN_MAX_SEC ? margin : MARGIN_MAX_SEC);
}

static int read_expiry(const char *text, const JsonPath *path, void *ret, const void *context,
                       Error *reterr) {
        const Expected *expected = context;
        ExecCredential *credential = ret;
        int64_t now = expected->now, expires_at;

        credential->expires_at = INT64_MAX;
        credential->renew_at = INT64_MAX;
        if (!text)
                return 0;

        if (rfc3339_parse(text, &expires_at) < 0)
                return json_refuse(path, reterr, "expected a time such as 2026-01-31T12:00:00Z");
        if (expires_at <= now) {
                char made[RFC3339_SIZE], here_now[RFC3339_SIZE];

                return json_refuse(path, reterr, "it expired at %s, and here it is %s",
                                   rfc3339_format(expires_at, made), rfc3339_format(now, here_now));
        }

        credential->expires_at = expires_at;
        credential->renew_at = choose_renewal(now, expires_at);
        return 0;
}

/* clang-format off */
static const JsonField status_fields[] = {
        { "token", JSON_TEXT, .offset = offsetof(ExecCredential, token), .on_text = access_json_read_line },
        { "clientCertificateData", JSON_TEXT, .offset = offsetof(ExecCredential, certificate), .on_text = read_pem },
        { "clientKeyData", JSON_TEXT, .offset = offsetof(ExecCredential, key), .on_text = read_pem },
        { "expirationTimestamp", JSON_WORD, .on_text = read_expiry },
        { .key = NULL },
};

static const JsonField root_fields[] = {
        { "kind", JSON_WORD, .on_text = check_kind, .is_secret = true },
        { "apiVersion", JSON_WORD, .on_text = check_version, .is_secret = true },
        { "status", JSON_OBJECT, .fields = status_fields, .empty = "is missing", .is_secret = true },
        { .key = NULL },
};
/* clang-format on */

int exec_credential_parse(const char *text, size_t size, const char *api_version, int64_t now,
                          ExecCredential *ret, Error *reterr) {
        cleanup(exec_credential_done) ExecCredential credential = EXEC_CREDENTIAL_INIT;
        cleanup(documents_wipe) Documents documents = DOCUMENTS_INIT;
        const JsonPath path = { .key = "status" };
        int r;

        r = access_json_parse(text, size, &documents, reterr);
        if (r < 0)
                return r;

        r = json_fields_read(root_fields, documents.items[0], NULL, &credential,
                             &(Expected){ .api_version = api_version, .now = now }, reterr);
        if (r < 0)
                return r;

        if (!credential.certificate != !credential.key)
                return json_refuse(&path, reterr, "has only one of certificate and key");
        if (!credential.token && !credential.certificate)
                return json_refuse(&path, reterr, "has neither a token nor a certificate");

        *ret = credential;
        credential = EXEC_CREDENTIAL_INIT;
        return 0;
}

void exec_credential_done(ExecCredential *credential) {
        json_fields_done(status_fields, credential);
        *credential = EXEC_CREDENTIAL_INIT;
}
