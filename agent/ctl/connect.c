/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/connect.h"

#include <errno.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/view/terminal.h"

#define ADVICE_START "is it running? try: systemctl status inplaced"
#define NO_METHOD "inplaced has no such method" /* the refusal of an agent of another version */
#define STOPPING "Cancelling all calls"         /* the farewell of gRPC for an agent that stops */
#define RECONNECT_USEC (USEC_PER_SEC / 4)
#define AWAY_SEC_MAX 30
#define SILENCE_SEC 1 /* a healthy agent answers at once */

struct NodeClient {
        const char *socket_path;
        sd_event *event;
        sd_event_source *signals[2];
        CompletionQueue *completions;
        RpcClient *rpc;
        Timer silence;
        Timer reconnect;
        uint64_t away_usec; /* time since which the agent is away; 0: it is there */
        NodeBack on_back;
        void *back_userdata;
};

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        return sd_event_exit(sd_event_source_get_event(source),
                             EXIT_STATUS_SIGNAL + (int) info->ssi_signo);
}

static int node_client_watch_signals(NodeClient *client, sd_event_signal_handler_t on_interrupt,
                                     void *userdata) {

        static const int interrupts[] = { SIGINT, SIGTERM };
        sigset_t blocked;
        int r;

        sigemptyset(&blocked);
        sigaddset(&blocked, SIGINT);
        sigaddset(&blocked, SIGTERM);
        sigaddset(&blocked, SIGWINCH);
        if (sigprocmask(SIG_BLOCK, &blocked, NULL) < 0)
                return -errno;

        for (size_t i = 0; i < sizeof(interrupts) / sizeof(interrupts[0]); i++) {
                r = loop_add_signal(client->event, &client->signals[i], interrupts[i],
                                    on_interrupt ?: on_signal, userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int on_silence(void *userdata) {
        const NodeClient *client = userdata;

        complain("waiting for an answer of inplaced at %s", client->socket_path);
        return 0;
}

static int on_reconnect(void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        NodeClient *client = userdata;
        int r;

        r = node_client_connect(client, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;

        return r == 0 ? client->on_back(NULL, client->back_userdata)
                      : node_client_reconnect(client, client->on_back, client->back_userdata);
}

int node_client_new(const char *socket_path, sd_event_signal_handler_t on_interrupt, void *userdata,
                    NodeClient **ret) {

        cleanup(node_client_free_p) NodeClient *client = NULL;
        int r;

        client = malloc(sizeof(*client));
        if (!client)
                return -ENOMEM;

        *client = (NodeClient){ .socket_path = socket_path };
        r = sd_event_new(&client->event);
        if (r < 0)
                return r;

        r = node_client_watch_signals(client, on_interrupt, userdata);
        if (r < 0)
                return r;

        timer_init(&client->reconnect, client->event, /* accuracy_usec= */ 0, on_reconnect, client);
        timer_init(&client->silence, client->event, /* accuracy_usec= */ 0, on_silence, client);
        r = completion_queue_new(client->event, &client->completions);
        if (r < 0)
                return r;

        *ret = take_ptr(client);
        return 0;
}

NodeClient *node_client_free(NodeClient *client) {
        if (!client)
                return NULL;

        timer_done(&client->silence);
        timer_done(&client->reconnect);
        rpc_client_free(client->rpc);
        completion_queue_free(client->completions);
        for (size_t i = 0; i < sizeof(client->signals) / sizeof(client->signals[0]); i++)
                sd_event_source_disable_unref(client->signals[i]);
        sd_event_unref(client->event);
        free(client);
        return NULL;
}

int socket_check(const char *path) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        cleanup(close_p) int fd = -1;
        struct stat st;

        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        strcpy(address.sun_path, path);

        if (stat(path, &st) < 0)
                return -errno;
        if (!S_ISSOCK(st.st_mode))
                return -ENOTSOCK;

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;

        return 0;
}

const char *socket_check_to_string(int result) {
        switch (-result) {
        case 0: return "it accepts connections";
        case ENOENT: return "no such file";
        case ECONNREFUSED: return "nothing listens there";
        case EACCES:
        case EPERM: return "permission denied";
        case ENOTSOCK: return "not a socket";
        case EPROTOTYPE: return "a socket of another type";
        case ENAMETOOLONG: return "the path is too long for a socket";
        case EAGAIN: return "it accepts no more connections";
        default: return strerror(-result);
        }
}

/* Users who may enter the directory see the socket and its group; for the others the directory's
 * group counts. */
static char *advise_group(const char *path) {
        cleanup(free_p) char *copy = NULL;
        const struct group *group = NULL;
        char *advice;
        struct stat st;

        copy = strdup(path);
        if (!copy)
                return NULL;

        if (stat(path, &st) == 0 || stat(dirname(copy), &st) == 0)
                group = st.st_gid == 0 ? NULL : getgrgid(st.st_gid);

        if (!group)
                return strdup("permission denied; run it as root");
        (void) text_format(&advice, "permission denied; run it as root or join the group \"%s\"",
                           group->gr_name);
        return advice;
}

char *socket_check_advise(const char *path, int result) {
        const char *advice = "try: journalctl -u inplaced";
        char *text;

        switch (-result) {
        case EACCES:
        case EPERM: return advise_group(path);
        case ENOENT:
        case ENOTDIR:
        case ECONNREFUSED: advice = ADVICE_START; break;
        case ENOTSOCK:
        case EPROTOTYPE:
        case ENAMETOOLONG: advice = "check --socket"; break;
        }

        (void) text_format(&text, "%s; %s", socket_check_to_string(result), advice);
        return text;
}

/* The advice depends on the reason, so checks the socket once more. */
static int explain(const char *path, const Error *refused, Error *reterr) {
        cleanup(free_p) char *advice = NULL;
        int result = socket_check(path);

        advice = result < 0 ? socket_check_advise(path, result) : NULL;
        return error_set(reterr, refused->kind, "cannot reach inplaced at %s: %s", path,
                         advice ?: error_message(refused));
}

int node_client_connect(NodeClient *client, Error *reterr) {
        cleanup(error_done) Error refused = ERROR_INIT;
        int r;

        client->rpc = rpc_client_free(client->rpc);
        r = rpc_client_connect(client->completions, client->socket_path, NULL, NULL, &client->rpc,
                               &refused);
        if (r < 0 && refused.kind != ERROR_NONE)
                return explain(client->socket_path, &refused, reterr);

        return r;
}

/* The agent allows root, the owner of the socket, and members of its group, as far as the file
 * shows it. */
static bool may_call(const struct stat *status) {
        gid_t groups[NGROUPS_MAX];
        int n = getgroups(NGROUPS_MAX, groups);

        if (geteuid() == 0 || geteuid() == status->st_uid || getegid() == status->st_gid)
                return true;

        for (int i = 0; i < n; i++)
                if (groups[i] == status->st_gid)
                        return true;

        return false;
}

static bool is_served(const char *path) {
        struct stat status;

        return stat(path, &status) < 0 || may_call(&status);
}

/* An agent closes the connection of a caller without the right, without an answer. */
static int explain_hang_up(const char *path, Error *reterr) {
        cleanup(free_p) char *advice = NULL;

        if (is_served(path))
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "the server at %s closed the connection without an answer; check "
                                 "--socket, or try: journalctl -u inplaced",
                                 path);

        advice = advise_group(path);
        return error_set(reterr, ERROR_DENIED, "cannot reach inplaced at %s: %s", path,
                         advice ?: "permission denied");
}

/* An agent that stops cancels its calls, or has said farewell before it got them. */
static bool is_hang_up(const NodeClient *client, const Error *error) {
        if (error->kind != ERROR_UNAVAILABLE)
                return error->kind == ERROR_CANCELED;

        return !rpc_client_is_connected(client->rpc) || strcmp(error_message(error), STOPPING) == 0;
}

bool node_client_is_lost(const NodeClient *client, const Error *error) {
        return is_hang_up(client, error) && is_served(client->socket_path);
}

int node_client_explain(const NodeClient *client, const Error *error, Error *reterr) {
        const char *path = client->socket_path, *message = error_message(error);

        if (error->kind == ERROR_UNSUPPORTED && strcmp(message, NO_METHOD) == 0)
                return error_set(reterr, error->kind,
                                 "inplaced at %s does not know this command; are both of the same "
                                 "version? try: inplacectl version",
                                 path);
        if (error->kind == ERROR_UNSUPPORTED)
                return error_set(reterr, error->kind,
                                 "the server at %s is not inplaced: %s; check --socket", path,
                                 message);
        if (error->kind == ERROR_TIMEOUT)
                return error_set(reterr, error->kind,
                                 "inplaced at %s did not answer within %d s; try: journalctl -u "
                                 "inplaced",
                                 path, CALL_TIMEOUT_SEC);
        if (is_hang_up(client, error))
                return explain_hang_up(path, reterr);

        return error_copy(reterr, error);
}

int node_client_await(NodeClient *client) {
        return timer_start(&client->silence, SILENCE_SEC * USEC_PER_SEC);
}

void node_client_heard(NodeClient *client) {
        timer_stop(&client->silence);
        client->away_usec = 0;
}

int node_client_reconnect(NodeClient *client, NodeBack on_back, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        uint64_t now_usec = clock_monotonic_usec();

        client->on_back = on_back;
        client->back_userdata = userdata;
        if (client->away_usec == 0)
                client->away_usec = now_usec;
        if (now_usec - client->away_usec <= AWAY_SEC_MAX * USEC_PER_SEC)
                return timer_start(&client->reconnect, RECONNECT_USEC);

        (void) error_set(
                &error, ERROR_UNAVAILABLE,
                "lost the connection to inplaced, and it did not come back within %d s; try: "
                "systemctl status inplaced",
                AWAY_SEC_MAX);
        return on_back(&error, userdata);
}

bool node_client_is_away(const NodeClient *client) {
        return client->away_usec > 0;
}

sd_event *node_client_event(NodeClient *client) {
        return client->event;
}

RpcClient *node_client_rpc(NodeClient *client) {
        return client->rpc;
}
