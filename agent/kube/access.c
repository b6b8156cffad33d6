/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/array.h"
#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/file.h"
#include "agent/base/program.h"
#include "agent/base/quote.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/document/documents.h"
#include "agent/kube/access-json.h"
#include "agent/kube/exec-credential-spec.h"
#include "agent/kube/kubeconfig-spec.h"

#define POD_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

#define BLANKS " \t\r\n"

/* Two changes within one tick of the kernel's clock cannot be distinguished. */
#define TICK_NSEC ((int64_t) 20 * 1000000)

#define VARIABLE "KUBERNETES_EXEC_INFO"
#define OUTPUT_MAX ((size_t) 1 << 20)
#define TIMEOUT_USEC ((uint64_t) 60 * 1000000)

/* A credential that the server took for this long was valid at first. */
#define PROVEN_USEC ((uint64_t) 60 * 1000000)

/* A file that access depends on, read again when it changed. Such files are rotated while they are
 * in use, often by swapping a link. If a file becomes unreadable or invalid, the old content stays
 * in force, and the trouble is kept. Replaced content is wiped. */

typedef enum AccessFileKind {
        ACCESS_FILE_PEM,
        ACCESS_FILE_TOKEN, /* token without the white space around it */
        ACCESS_FILE_DOCUMENT,
        _ACCESS_FILE_KIND_MAX,
} AccessFileKind;

typedef struct AccessFile {
        AccessFileKind kind;
        char *path; /* NULL: there is no such file */
        char *text; /* NULL: never read */
        struct stat status;
        bool is_known; /* the status belongs to the text, or to the trouble */
        Error trouble; /* reason why the file's content is not in force */
} AccessFile;

#define ACCESS_FILE_INIT ((AccessFile){ .path = NULL })

static const off_t sizes_max[_ACCESS_FILE_KIND_MAX] = {
        [ACCESS_FILE_PEM] = 1 << 20,
        [ACCESS_FILE_TOKEN] = 64 << 10,
        [ACCESS_FILE_DOCUMENT] = (off_t) DOCUMENTS_SIZE_MAX,
};

/* The path is copied; it may be NULL. */
static int access_file_init(AccessFile *file, AccessFileKind kind, const char *path) {
        *file = (AccessFile){ .kind = kind };
        return text_copy(path, &file->path);
}

static void access_file_done(AccessFile *file) {
        free(file->path);
        text_wipe(&file->text);
        error_done(&file->trouble);
        *file = ACCESS_FILE_INIT;
}

/* Whether the file may be written again without a new time of change. */
static bool is_just_changed(const struct stat *status) {
        const struct timespec *changed = &status->st_ctim;
        struct timespec now;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        if (now.tv_sec > changed->tv_sec + 1 || now.tv_sec < changed->tv_sec)
                return now.tv_sec < changed->tv_sec;

        return (now.tv_sec - changed->tv_sec) * 1000000000 + now.tv_nsec - changed->tv_nsec <
               TICK_NSEC;
}

static int refuse_file(const AccessFile *file, int number, Error *reterr) {
        return error_set(reterr, number == EACCES || number == EPERM ? ERROR_DENIED : ERROR_INVALID,
                         "%s: %s", file->path, strerror(number));
}

static int refuse_text(const AccessFile *file, const char *why, Error *reterr) {
        return error_set(reterr, ERROR_INVALID, "%s: %s", file->path, why);
}

/* Reads the file; *ret_size: its size, which may have shrunk since stat(). */
static int read_all(const AccessFile *file, int fd, size_t size, char **ret, size_t *ret_size,
                    Error *reterr) {
        char *text = calloc(size + 1, 1);
        ssize_t n;

        if (!text)
                return -ENOMEM;

        n = file_read(fd, text, size);
        if (n < 0) {
                explicit_bzero(text, size);
                free(text);
                return refuse_file(file, (int) -n, reterr);
        }

        *ret = text;
        *ret_size = (size_t) n;
        return 0;
}

static void trim(char *text) {
        size_t start = strspn(text, BLANKS), size = strlen(text);

        while (size > start && strchr(BLANKS, text[size - 1]))
                size--;
        memmove(text, text + start, size - start);
        explicit_bzero(text + size - start, start);
        text[size - start] = '\0';
}

static int file_check(const AccessFile *file, char *text, Error *reterr) {
        if (file->kind == ACCESS_FILE_TOKEN)
                trim(text);

        if (text[0] == '\0')
                return refuse_text(file, "is empty", reterr);
        if (file->kind == ACCESS_FILE_TOKEN && !text_is_line(text))
                return refuse_text(file, "has a control character in its token", reterr);
        if (file->kind == ACCESS_FILE_PEM && !access_text_is_pem(text))
                return refuse_text(file, "is not PEM", reterr);
        return 0;
}

static int read_now(AccessFile *file, char **ret, Error *reterr) {
        cleanup(text_wipe) char *text = NULL;
        cleanup(close_p) int fd = -1;
        size_t size = 0;
        int r;

        r = file_open(file->path, &file->status, &fd);
        if (r == -EINVAL)
                return refuse_text(file, "is not a file", reterr);
        if (r < 0)
                return refuse_file(file, -r, reterr);

        file->is_known = !is_just_changed(&file->status);
        if (file->status.st_size > sizes_max[file->kind])
                return refuse_text(file, "is too large", reterr);

        r = read_all(file, fd, (size_t) file->status.st_size, &text, &size, reterr);
        if (r < 0)
                return r;
        if (strlen(text) != size) {
                explicit_bzero(text, size);
                return refuse_text(file, "has a NUL in it", reterr);
        }
        r = file_check(file, text, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(text);
        return 0;
}

/* Refuses with the trouble only if there is no older text. */
static int file_report(const AccessFile *file, Error *reterr) {
        if (file->text || file->trouble.kind == ERROR_NONE)
                return 0;

        return error_copy(reterr, &file->trouble);
}

/* 1: there is a new text. 0: no change, or there is no such file. Refuses, naming the file, only if
 * there never was a text. Costs one stat() as long as nothing changes. */
static int access_file_read(AccessFile *file, Error *reterr) {
        cleanup(text_wipe) char *text = NULL;
        struct stat status;
        int r;

        if (!file->path)
                return 0;
        if (file->is_known && stat(file->path, &status) == 0 &&
            file_is_same(&status, &file->status))
                return file_report(file, reterr);

        file->is_known = false;
        error_done(&file->trouble);
        r = read_now(file, &text, &file->trouble);
        if (file->trouble.kind != ERROR_NONE)
                return file_report(file, reterr);
        if (r < 0)
                return r;
        if (file->text && strcmp(file->text, text) == 0)
                return 0;

        text_wipe(&file->text);
        file->text = take_ptr(text);
        return 1;
}

/* Credentials from a program, see "users[].user.exec" of a kubeconfig. The program runs when they
 * are needed, some time before they expire, and when the server has refused them. While it fails,
 * or its credentials are refused, it runs more and more rarely. */

/* Called as the last step of AccessExec, which it may free. */
typedef void (*AccessExecChanged)(void *userdata);

typedef struct AccessExec {
        sd_event *event;
        const KubeconfigExec *exec;
        AccessExecChanged on_changed;
        void *userdata;

        Program *program;
        ExecCredential credential;
        bool has_credential;
        bool is_refused;     /* refused by the server */
        unsigned generation; /* differs if the certificate does */
        Error error;         /* error of the last run; unset if it succeeded */
        unsigned n_failures; /* consecutive failures, or credentials soon refused */
        uint64_t ended_usec; /* end of the last run */
        uint64_t not_before_usec;
} AccessExec;

/* exec is borrowed until it is freed. Runs nothing yet. */
static int access_exec_new(sd_event *event, const KubeconfigExec *kubeconfig,
                           AccessExecChanged on_changed, void *userdata, AccessExec **ret) {
        AccessExec *exec;

        exec = malloc(sizeof(*exec));
        if (!exec)
                return -ENOMEM;

        *exec = (AccessExec){
                .event = sd_event_ref(event),
                .exec = kubeconfig,
                .on_changed = on_changed,
                .userdata = userdata,
        };
        *ret = exec;
        return 0;
}

/* Ends the program, if it runs. Returns NULL. */
static AccessExec *access_exec_free(AccessExec *exec) {
        if (!exec)
                return NULL;

        program_free(exec->program);
        exec_credential_done(&exec->credential);
        error_done(&exec->error);
        sd_event_unref(exec->event);
        free(exec);
        return NULL;
}

/* Counts a failure. The pause starts at the end of the last run, so a credential that lasted for
 * some time is renewed at once. */
static void exec_back_off(AccessExec *exec) {
        exec->n_failures++;
        exec->not_before_usec = exec->ended_usec + backoff_usec(exec->n_failures, random_number());
}

static void exec_adopt(AccessExec *exec, ExecCredential *credential) {
        if (!text_equal(exec->credential.certificate ?: "", credential->certificate ?: "") ||
            !text_equal(exec->credential.key ?: "", credential->key ?: ""))
                exec->generation++;
        if (!exec->is_refused)
                exec->n_failures = 0;

        exec_credential_done(&exec->credential);
        exec->credential = *credential;
        *credential = EXEC_CREDENTIAL_INIT;
        exec->has_credential = true;
        exec->is_refused = false;
}

/* If the program is missing, adds the install hint. */
static void exec_note_failure(AccessExec *exec, const char *words, const Error *error) {
        const char *hint = error->kind == ERROR_NOT_FOUND ? exec->exec->install_hint : NULL;
        ErrorKind kind = error->kind == ERROR_NOT_FOUND || error->kind == ERROR_INVALID
                                 ? ERROR_INVALID
                                 : ERROR_DENIED;
        char quoted[QUOTE_SIZE];

        (void) error_set(&exec->error, kind, "the program %s %s%s%s%s",
                         quote(exec->exec->command, quoted), words, error_message(error),
                         hint ? "; hint: " : "", hint ? quote(hint, (char[QUOTE_SIZE]){ 0 }) : "");
        exec_back_off(exec);
}

static int on_program_done(const char *output, size_t size, const Error *error, void *userdata) {
        cleanup(exec_credential_done) ExecCredential credential = EXEC_CREDENTIAL_INIT;
        cleanup(error_done) Error refusal = ERROR_INIT;
        AccessExec *exec = userdata;
        int r;

        exec->program = program_free(exec->program);
        exec->ended_usec = clock_monotonic_usec();
        error_done(&exec->error);
        if (error) {
                exec_note_failure(exec, "", error);
        } else {
                r = exec_credential_parse(output, size, exec->exec->api_version,
                                          clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC, &credential,
                                          &refusal);
                if (refusal.kind != ERROR_NONE)
                        exec_note_failure(exec, "gave an invalid answer: ", &refusal);
                else if (r < 0)
                        return r;
                else
                        exec_adopt(exec, &credential);
        }

        exec->on_changed(exec->userdata);
        return 0;
}

static int exec_start(AccessExec *exec, const ExecCredentialCluster *cluster) {
        cleanup(free_p) const char **environment = NULL;
        cleanup(text_wipe) char *request = NULL;
        cleanup(text_wipe) char *variable = NULL;
        size_t n = 0;
        int r;

        r = exec_credential_request(exec->exec->api_version,
                                    exec->exec->wants_cluster ? cluster : NULL, &request);
        if (r < 0)
                return r;
        if (text_format(&variable, VARIABLE "=%s", request) < 0)
                return -ENOMEM;

        while (exec->exec->environment[n])
                n++;
        environment = calloc(n + 2, sizeof(*environment));
        if (!environment)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                environment[i] = exec->exec->environment[i];
        environment[n] = variable;

        return program_run(exec->event,
                           &(ProgramOptions){
                                   .path = exec->exec->command,
                                   .arguments = (const char *const *) exec->exec->arguments,
                                   .environment = environment,
                                   .output_max = OUTPUT_MAX,
                                   .timeout_usec = TIMEOUT_USEC,
                           },
                           on_program_done, exec, &exec->program);
}

static int exec_refusal(const AccessExec *exec, Error *reterr) {
        char quoted[QUOTE_SIZE];

        if (exec->error.kind != ERROR_NONE)
                return error_copy(reterr, &exec->error);

        return error_set(reterr, ERROR_DENIED,
                         "the server refuses the credentials of the program %s",
                         quote(exec->exec->command, quoted));
}

/* As kube_access_get(). Passes the cluster to a program that requests it. */
static int access_exec_get(AccessExec *exec, const ExecCredentialCluster *cluster,
                           const ExecCredential **ret, Error *reterr) {
        int64_t now = clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC;
        bool is_usable =
                exec->has_credential && !exec->is_refused && now < exec->credential.expires_at;
        int r;

        if ((!is_usable || now >= exec->credential.renew_at) && !exec->program &&
            clock_monotonic_usec() >= exec->not_before_usec) {
                r = exec_start(exec, cluster);
                if (r < 0)
                        return r;
        }

        if (is_usable) {
                *ret = &exec->credential;
                return 1;
        }

        return exec->program ? 0 : exec_refusal(exec, reterr);
}

static void access_exec_refuse(AccessExec *exec) {
        if (exec->program || !exec->has_credential || exec->is_refused)
                return;

        exec->is_refused = true;
        if (clock_monotonic_usec() - exec->ended_usec >= PROVEN_USEC)
                exec->n_failures = 0;
        else
                exec_back_off(exec);
}

/* Way to the API server, from a kubeconfig or from a pod's files, with its files and program. */
typedef struct CredentialSource {
        KubeconfigSpec spec;
        AccessFile ca;
        AccessFile certificate;
        AccessFile key;
        AccessFile token;
        AccessExec *exec;
        unsigned n_changes; /* changes of anything but the token */
        bool is_refused;    /* the server refused the token, which has not changed since */
} CredentialSource;

static CredentialSource *credential_source_free(CredentialSource *source) {
        if (!source)
                return NULL;

        access_exec_free(source->exec);
        access_file_done(&source->ca);
        access_file_done(&source->certificate);
        access_file_done(&source->key);
        access_file_done(&source->token);
        kubeconfig_spec_done(&source->spec);
        free(source);
        return NULL;
}

DEFINE_CLEANUP(CredentialSource *, credential_source_free)

/* Adds the brackets that a literal IPv6 address needs. */
static int format_server(const char *host, const char *port, char **ret) {
        bool is_ipv6 = strchr(host, ':') != NULL;

        return text_format(ret, "https://%s%s%s:%s", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "",
                           port);
}

static int format_file(const char *folder, const char *name, char **ret) {
        return text_format(ret, "%s/%s", folder, name);
}

/* Reads the access of a pod. Refused if the variables of the environment are not there. */
static int credential_source_read_pod(const char *folder, KubeconfigSpec *ret, Error *reterr) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
        const char *host = getenv("KUBERNETES_SERVICE_HOST");
        const char *port = getenv("KUBERNETES_SERVICE_PORT");
        int r;

        if (!host || !host[0] || !port || !port[0])
                return error_set(reterr, ERROR_INVALID,
                                 "this is not a pod of Kubernetes: KUBERNETES_SERVICE_HOST and "
                                 "KUBERNETES_SERVICE_PORT are not set; name a kubeconfig");

        r = format_server(host, port, &spec.server)
                    ?: format_file(folder, "ca.crt", &spec.ca.file)
                    ?: format_file(folder, "token", &spec.token_file);
        if (r < 0)
                return r;

        *ret = spec;
        spec = KUBECONFIG_SPEC_INIT;
        return 0;
}

/* Reads the file and counts its changes. The token is not counted. */
static int read_counted(CredentialSource *source, AccessFile *file, Error *reterr) {
        int r;

        r = access_file_read(file, reterr);
        if (r > 0)
                source->n_changes++;
        return r;
}

/* Reads the certificate again after a new key: both may have been replaced since it was read. */
static int read_pair(CredentialSource *source, Error *reterr) {
        int r;

        r = read_counted(source, &source->certificate, reterr);
        if (r < 0)
                return r;

        r = read_counted(source, &source->key, reterr);
        if (r <= 0)
                return r;

        return read_counted(source, &source->certificate, reterr);
}

/* Uses the token beside the file if the file cannot be read. */
static int read_token(CredentialSource *source, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = access_file_read(&source->token, &error);
        if (error.kind != ERROR_NONE)
                return source->spec.token ? 0 : error_copy(reterr, &error);
        if (r > 0)
                source->is_refused = false;
        return r;
}

static int read_files(CredentialSource *source, Error *reterr) {
        int r;

        r = read_counted(source, &source->ca, reterr);
        if (r < 0)
                return r;

        r = read_pair(source, reterr);
        if (r < 0)
                return r;

        return read_token(source, reterr);
}

static int init_files(CredentialSource *source) {
        const KubeconfigSpec *spec = &source->spec;

        return access_file_init(&source->ca, ACCESS_FILE_PEM, spec->ca.file)
               ?: access_file_init(&source->certificate, ACCESS_FILE_PEM, spec->certificate.file)
               ?: access_file_init(&source->key, ACCESS_FILE_PEM, spec->key.file)
               ?: access_file_init(&source->token, ACCESS_FILE_TOKEN, spec->token_file);
}

/* Takes the spec over, also in case of a failure. All its files have to be there. */
static int credential_source_new(sd_event *event, KubeconfigSpec *spec,
                                 AccessExecChanged on_changed, void *userdata,
                                 CredentialSource **ret, Error *reterr) {
        cleanup(credential_source_free_p) CredentialSource *source = NULL;
        int r;

        source = calloc(1, sizeof(*source));
        if (!source) {
                kubeconfig_spec_done(spec);
                return -ENOMEM;
        }

        source->spec = *spec;
        *spec = KUBECONFIG_SPEC_INIT;
        r = init_files(source);
        if (r < 0)
                return r;
        r = read_files(source, reterr);
        if (r < 0)
                return r;

        if (source->spec.exec.api_version) {
                r = access_exec_new(event, &source->spec.exec, on_changed, userdata, &source->exec);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(source);
        return 0;
}

static KubeCredentials describe(const CredentialSource *source) {
        const KubeconfigSpec *spec = &source->spec;

        return (KubeCredentials){
                .server = spec->server,
                .ca = spec->ca.text ?: source->ca.text,
                .certificate = spec->certificate.text ?: source->certificate.text,
                .key = spec->key.text ?: source->key.text,
                .token = source->token.text ?: spec->token,
                .username = spec->username,
                .password = spec->password,
                .tls_server_name = spec->tls_server_name,
                .proxy = spec->proxy,
                .impersonation = spec->impersonation,
                .is_unverified = spec->is_unverified,
                .generation = source->n_changes,
        };
}

static int add_made(CredentialSource *source, KubeCredentials *credentials, Error *reterr) {
        const ExecCredentialCluster cluster = {
                .server = credentials->server,
                .tls_server_name = credentials->tls_server_name,
                .is_unverified = credentials->is_unverified,
                .ca = credentials->ca,
                .proxy = credentials->proxy,
                .config = source->spec.exec.cluster_config,
        };
        const ExecCredential *made = NULL;
        int r;

        r = access_exec_get(source->exec, &cluster, &made, reterr);
        if (r <= 0)
                return r;

        credentials->token = made->token;
        credentials->certificate = made->certificate;
        credentials->key = made->key;
        credentials->generation += source->exec->generation;
        return 1;
}

/* As kube_access_get(); *ret->generation counts from 0. */
static int credential_source_get(CredentialSource *source, KubeCredentials *ret, Error *reterr) {
        KubeCredentials credentials;
        int r;

        r = read_files(source, reterr);
        if (r < 0)
                return r;

        credentials = describe(source);
        if (source->exec) {
                r = add_made(source, &credentials, reterr);
                if (r <= 0)
                        return r;
        }

        *ret = credentials;
        return 1;
}

static void credential_source_refuse_token(CredentialSource *source) {
        source->token.is_known = false;
        if (source->exec)
                access_exec_refuse(source->exec);
        else
                source->is_refused = true;
}

/* Returns why the content in force is older than the file, or NULL; borrowed. */
static const Error *credential_source_trouble(const CredentialSource *source) {
        const AccessFile *const files[] = {
                &source->ca,
                &source->certificate,
                &source->key,
                &source->token,
        };

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                if (files[i]->trouble.kind != ERROR_NONE)
                        return &files[i]->trouble;

        return NULL;
}

struct KubeAccess {
        sd_event *event;
        char *context; /* NULL: the current one */
        KubeconfigOverrides overrides;
        KubeAccessChanged on_changed;
        void *userdata;

        AccessFile *configs; /* none in a pod */
        size_t n_configs;
        char *config_name;      /* path for people, or all paths */
        bool is_config_waiting; /* waiting for files that it names */
        Error trouble;          /* reason why its content is not in force */

        CredentialSource *source; /* the source in force */
        char *source_name;        /* for people */
        KubeCredentials credentials;
        unsigned first_generation; /* generation of the first credentials of the source */
};

DEFINE_CLEANUP(KubeAccess *, kube_access_free)

bool kube_access_is_pod(const char *pod_folder) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;

        return credential_source_read_pod(pod_folder ?: POD_FOLDER, &spec, NULL) >= 0 &&
               access(spec.token_file, F_OK) == 0;
}

static int get_folder(const char *path, char **ret) {
        const char *slash = strrchr(path, '/');

        *ret = slash ? strndup(path, (size_t) (slash - path)) : strdup(".");
        return *ret ? 0 : -ENOMEM;
}

static int set_source(KubeAccess *access, KubeconfigSpec *spec, Error *reterr) {
        cleanup(free_p) char *name = NULL;
        CredentialSource *source;
        int r;

        if (access->n_configs == 0)
                name = strdup("the pod's service account");
        else
                (void) text_format(&name, "kubeconfig %s, context %s", access->config_name,
                                   spec->context);
        if (!name)
                return -ENOMEM;

        r = credential_source_new(access->event, spec, access->on_changed, access->userdata,
                                  &source, reterr);
        if (r < 0)
                return r;

        credential_source_free(access->source);
        access->source = source;
        access->first_generation = access->credentials.generation + 1;
        free(access->source_name);
        access->source_name = take_ptr(name);
        return 0;
}

static int parse_configs(const KubeAccess *access, KubeconfigSpec *ret, Error *reterr) {
        cleanup(free_p) KubeconfigFile *files = NULL;
        cleanup(texts_free_p) char **folders = NULL;

        files = calloc(access->n_configs, sizeof(*files));
        folders = calloc(access->n_configs + 1, sizeof(*folders));
        if (!files || !folders)
                return -ENOMEM;

        for (size_t i = 0; i < access->n_configs; i++) {
                const AccessFile *config = &access->configs[i];
                int r;

                r = get_folder(config->path, &folders[i]);
                if (r < 0)
                        return r;

                files[i] = (KubeconfigFile){ .text = config->text,
                                             .size = strlen(config->text),
                                             .folder = folders[i],
                                             .path = config->path };
        }

        return kubeconfig_spec_parse(files, access->n_configs, access->context, &access->overrides,
                                     ret, reterr);
}

/* Puts the kubeconfig in force as a whole, with the files that it names. */
static int adopt_config(KubeAccess *access, Error *reterr) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        access->is_config_waiting = false;
        r = parse_configs(access, &spec, reterr);
        if (r < 0)
                return r;

        r = set_source(access, &spec, &error);
        if (error.kind == ERROR_NONE)
                return r;

        access->is_config_waiting = true;
        return error_set(reterr, error.kind, "%s: %s", access->config_name, error_message(&error));
}

/* 1: one of the files is new. As access_file_read(). */
static int read_configs(KubeAccess *access, Error *reterr) {
        bool is_new = false;

        for (size_t i = 0; i < access->n_configs; i++) {
                int r;

                r = access_file_read(&access->configs[i], reterr);
                if (r < 0)
                        return r;
                is_new = is_new || r > 0;
        }

        return is_new;
}

/* Follows the kubeconfig, but not while its program runs, for which calls wait. */
static int follow_config(KubeAccess *access) {
        int r;

        if (access->n_configs == 0 || (access->source->exec && access->source->exec->program))
                return 0;

        r = read_configs(access, NULL);
        if (r < 0 || (r == 0 && !access->is_config_waiting))
                return r;

        error_done(&access->trouble);
        r = adopt_config(access, &access->trouble);
        return access->trouble.kind != ERROR_NONE ? 0 : r;
}

static int add_config(KubeAccess *access, const char *path) {
        if (array_grow(&access->configs, access->n_configs, sizeof(access->configs[0])) < 0)
                return -ENOMEM;

        return access_file_init(&access->configs[access->n_configs++], ACCESS_FILE_DOCUMENT, path);
}

/* As for kubectl, a file without a byte is none. */
static bool is_there(const char *path) {
        struct stat status;

        if (stat(path, &status) < 0)
                return errno != ENOENT;

        return !S_ISREG(status.st_mode) || status.st_size > 0;
}

/* Adds the listed files that exist. */
static int add_listed_configs(KubeAccess *made, const char *list, Error *reterr) {
        cleanup(free_p) char *copy = strdup(list);
        char *rest = copy;

        if (!copy)
                return -ENOMEM;

        for (char *path; (path = strsep(&rest, ":"));) {
                int r;

                if (!path[0] || !is_there(path))
                        continue;

                r = add_config(made, path);
                if (r < 0)
                        return r;
        }

        return made->n_configs > 0
                       ? 0
                       : error_set(reterr, ERROR_NOT_FOUND, "%s: %s", list, strerror(ENOENT));
}

/* The kubeconfig is valid, and waits for files that it names: tokens and certificates may be written later than it,
 * as at each boot by a program that keeps them in memory. */
static bool is_to_come(const KubeAccess *access, const Error *error) {
        return access->is_config_waiting && error->kind == ERROR_INVALID;
}

static int start_with_config(KubeAccess *access, const KubeAccessOptions *options, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        access->config_name = strdup(options->kubeconfig ?: options->kubeconfig_list);
        if (!access->config_name)
                return -ENOMEM;

        r = options->kubeconfig ? add_config(access, options->kubeconfig)
                                : add_listed_configs(access, options->kubeconfig_list, reterr);
        if (r < 0)
                return r;

        r = read_configs(access, reterr);
        if (r < 0)
                return r;

        r = adopt_config(access, &error);
        if (error.kind == ERROR_NONE)
                return r;

        return error_set(reterr, is_to_come(access, &error) ? ERROR_UNAVAILABLE : error.kind, "%s",
                         error_message(&error));
}

/* Reads the pod's namespace; an old pod may not have the file. */
static int read_pod_namespace(const char *folder, KubeconfigSpec *spec) {
        cleanup(access_file_done) AccessFile file = ACCESS_FILE_INIT;
        cleanup(error_done) Error ignored = ERROR_INIT;
        cleanup(free_p) char *path = NULL;
        int r;

        r = format_file(folder, "namespace", &path)
                    ?: access_file_init(&file, ACCESS_FILE_TOKEN, path);
        if (r < 0)
                return r;

        r = access_file_read(&file, &ignored);
        if (r < 0)
                return ignored.kind == ERROR_NONE ? r : 0;

        spec->namespace = take_ptr(file.text);
        return 0;
}

static int start_as_pod(KubeAccess *access, const char *folder, Error *reterr) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
        int r;

        r = credential_source_read_pod(folder, &spec, reterr) ?: read_pod_namespace(folder, &spec);
        if (r < 0)
                return r;

        return set_source(access, &spec, reterr);
}

int kube_access_new(const KubeAccessOptions *options, KubeAccess **ret, Error *reterr) {
        cleanup(kube_access_free_p) KubeAccess *access = NULL;
        int r;

        access = calloc(1, sizeof(*access));
        if (!access)
                return -ENOMEM;

        access->event = sd_event_ref(options->event);
        access->on_changed = options->on_changed;
        access->userdata = options->userdata;
        access->overrides = options->overrides;
        if (text_copy(options->context, &access->context) < 0)
                return -ENOMEM;

        r = options->kubeconfig || options->kubeconfig_list
                    ? start_with_config(access, options, reterr)
                    : start_as_pod(access, options->pod_folder ?: POD_FOLDER, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(access);
        return 0;
}

KubeAccess *kube_access_free(KubeAccess *access) {
        if (!access)
                return NULL;

        credential_source_free(access->source);
        for (size_t i = 0; i < access->n_configs; i++)
                access_file_done(&access->configs[i]);
        free(access->configs);
        error_done(&access->trouble);
        free(access->source_name);
        free(access->config_name);
        free(access->context);
        sd_event_unref(access->event);
        free(access);
        return NULL;
}

int kube_access_get(KubeAccess *access, const KubeCredentials **ret, Error *reterr) {
        KubeCredentials credentials;
        const Error *trouble;
        int r;

        r = follow_config(access);
        if (r < 0)
                return r;

        r = credential_source_get(access->source, &credentials, reterr);
        if (r <= 0)
                return r;

        trouble = kube_access_trouble(access);
        if (trouble && access->source->is_refused)
                return error_copy(reterr, trouble);

        access->credentials = credentials;
        access->credentials.generation += access->first_generation;
        *ret = &access->credentials;
        return 1;
}

void kube_access_refuse_token(KubeAccess *access) {
        for (size_t i = 0; i < access->n_configs; i++)
                access->configs[i].is_known = false; /* a new file may look like the old one */
        credential_source_refuse_token(access->source);
}

void kube_access_accept_token(KubeAccess *access) {
        access->source->is_refused = false;
}

const Error *kube_access_trouble(const KubeAccess *access) {
        for (size_t i = 0; i < access->n_configs; i++)
                if (access->configs[i].trouble.kind != ERROR_NONE)
                        return &access->configs[i].trouble;
        if (access->trouble.kind != ERROR_NONE)
                return &access->trouble;

        return credential_source_trouble(access->source);
}

const char *kube_access_source(const KubeAccess *access) {
        return access->source_name;
}

const char *kube_access_namespace(const KubeAccess *access) {
        return access->source->spec.namespace;
}

const char *kube_access_user(const KubeAccess *access) {
        return access->source->spec.user;
}
