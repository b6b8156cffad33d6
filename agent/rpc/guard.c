/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/guard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/time-units.h"

#define PIECE_SIZE ((size_t) 16 * 1024)
#define ACCURACY_USEC ((uint64_t) 10000)
/* Time for a caller to take the last bytes after gRPC has closed. */
#define END_USEC (5 * USEC_PER_SEC)
/* Time for a caller to take a piece. Meanwhile gRPC keeps what it has to say, also to further frames, and can neither
 * ask whether the caller is alive nor end the connection. */
#define UNREAD_USEC (30 * USEC_PER_SEC)
/* The kernel holds twice as much for a caller, at the agent's expense; by default it is three times that. gRPC's own
 * side keeps the default: after a write that it cannot finish at once, gRPC takes up to 10 s to shut down. */
#define BUFFER_SIZE (32 * 1024)

typedef enum PumpResult {
        PUMP_GOES_ON,
        PUMP_ENDED,  /* the side that is read has ended */
        PUMP_CLOSED, /* the other side takes nothing more */
        PUMP_REFUSED,
} PumpResult;

/* The bytes of one direction. */
typedef struct Flow {
        int from, to;
        unsigned char *unsent; /* NULL: nothing waits for the other side */
        size_t n_unsent;
} Flow;

struct Guard {
        sd_event *event;
        FrameBudget *budget;
        FrameReader reader;
        GuardEnded on_end;
        void *userdata;
        int caller, server;
        sd_event_source *caller_source, *server_source;
        Timer timer;  /* end of a pause, or of the time after gRPC has closed */
        Timer unread; /* the time for a piece that waits for the caller */
        bool is_ending;
        Flow in, out;
};

DEFINE_CLEANUP(Guard *, guard_free)

static bool is_passing(int error) {
        return error == EAGAIN || error == EINTR;
}

/* Returns how much the other side takes, or a negative errno. */
static ssize_t flow_send(const Flow *flow, const unsigned char *bytes, size_t size) {
        ssize_t n = send(flow->to, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0)
                return is_passing(errno) ? 0 : -errno;
        return n;
}

static int flow_keep(Flow *flow, const unsigned char *bytes, size_t size) {
        flow->unsent = malloc(size);
        if (!flow->unsent)
                return -ENOMEM;

        memcpy(flow->unsent, bytes, size);
        flow->n_unsent = size;
        return 0;
}

static int flow_send_rest(Flow *flow) {
        ssize_t n = flow_send(flow, flow->unsent, flow->n_unsent);

        if (n < 0)
                return (int) n;

        flow->n_unsent -= (size_t) n;
        if (flow->n_unsent > 0)
                memmove(flow->unsent, flow->unsent + n, flow->n_unsent);
        else
                free(take_ptr(flow->unsent));
        return 0;
}

/* Returns false if the caller is to be cut off. */
static bool guard_count(Guard *guard, const Flow *flow, const unsigned char *bytes, size_t size) {
        uint64_t price = 0;

        if (flow == &guard->out) {
                frame_reader_answer(&guard->reader);
                if (guard->budget)
                        frame_budget_credit(guard->budget, size);
                return true;
        }

        if (!frame_reader_read(&guard->reader, bytes, size, &price))
                return false;
        if (guard->budget)
                frame_budget_pay(guard->budget, price, loop_now_usec(guard->event));
        return true;
}

/* Passes on what is left of a piece, or one more. */
static int guard_pump(Guard *guard, Flow *flow, PumpResult *ret) {
        unsigned char bytes[PIECE_SIZE];
        ssize_t n, n_sent;

        *ret = PUMP_GOES_ON;
        if (flow->unsent) {
                if (flow_send_rest(flow) < 0)
                        *ret = PUMP_CLOSED;
                return 0;
        }

        n = recv(flow->from, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && is_passing(errno))
                return 0;
        if (n <= 0) {
                *ret = PUMP_ENDED;
                return 0;
        }
        if (!guard_count(guard, flow, bytes, (size_t) n)) {
                *ret = PUMP_REFUSED;
                return 0;
        }

        n_sent = flow_send(flow, bytes, (size_t) n);
        if (n_sent < 0)
                *ret = PUMP_CLOSED;
        return n_sent < 0 || n_sent == n ? 0
                                         : flow_keep(flow, bytes + n_sent, (size_t) (n - n_sent));
}

static int guard_end(Guard *guard) {
        timer_stop(&guard->timer);
        timer_stop(&guard->unread);
        guard->caller_source = sd_event_source_disable_unref(guard->caller_source);
        guard->server_source = sd_event_source_disable_unref(guard->server_source);
        return guard->on_end(guard, guard->userdata);
}

/* Returns how long the caller is not to be read, or 0. */
static uint64_t guard_pause_usec(const Guard *guard) {
        return guard->budget ? frame_budget_pause_usec(guard->budget, loop_now_usec(guard->event))
                             : 0;
}

/* Waits for what each direction needs next. */
static int guard_wait(Guard *guard) {
        uint64_t pause_usec = guard->is_ending ? 0 : guard_pause_usec(guard);
        bool may_read = pause_usec == 0 && !guard->in.unsent && !guard->is_ending;
        uint32_t caller = EPOLLRDHUP, server = 0;
        int r;

        caller |= may_read ? EPOLLIN : 0;
        caller |= guard->out.unsent ? EPOLLOUT : 0;
        server |= guard->out.unsent ? 0 : EPOLLIN;
        server |= guard->in.unsent ? EPOLLOUT : 0;

        r = sd_event_source_set_io_events(guard->caller_source, caller);
        if (r >= 0 && !guard->is_ending)
                r = sd_event_source_set_io_events(guard->server_source, server);
        if (r >= 0 && pause_usec > 0)
                r = timer_start(&guard->timer, pause_usec);
        if (!guard->out.unsent)
                timer_stop(&guard->unread);
        else if (r >= 0 && !timer_is_running(&guard->unread))
                r = timer_start(&guard->unread, UNREAD_USEC);
        return r < 0 ? r : 0;
}

/* gRPC has closed. Its last bytes are still to be passed on. */
static int guard_begin_end(Guard *guard) {
        guard->is_ending = true;
        (void) shutdown(guard->server, SHUT_RDWR); /* so that the bytes have an end */
        (void) sd_event_source_set_enabled(guard->server_source, SD_EVENT_OFF);
        free(take_ptr(guard->in.unsent));
        return timer_start(&guard->timer, END_USEC);
}

/* The other connections of the user may have spent the budget meanwhile. */
static bool guard_may_read(const Guard *guard) {
        return guard_pause_usec(guard) == 0;
}

/* Passes on a piece of each direction that can go on, and sees whether the connection has ended. gRPC's end may show first
 * in that it takes nothing more. */
static int guard_run(Guard *guard, bool reads_caller, bool has_server_ended) {
        PumpResult in = PUMP_GOES_ON, out = PUMP_GOES_ON;
        int r = 0;

        if (!guard->is_ending && !has_server_ended &&
            (guard->in.unsent || (reads_caller && guard_may_read(guard))))
                r = guard_pump(guard, &guard->in, &in);
        if (r >= 0 && !guard->is_ending && (has_server_ended || in == PUMP_CLOSED))
                r = guard_begin_end(guard);
        if (r >= 0)
                r = guard_pump(guard, &guard->out, &out);
        while (r >= 0 && guard->is_ending && out == PUMP_GOES_ON && !guard->out.unsent)
                r = guard_pump(guard, &guard->out, &out);
        if (r < 0)
                return r;

        return (in == PUMP_GOES_ON || in == PUMP_CLOSED) && out == PUMP_GOES_ON ? guard_wait(guard)
                                                                                : guard_end(guard);
}

static int on_caller(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        if (revents & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                return guard_end(userdata);

        return guard_run(userdata, revents & EPOLLIN, false);
}

static int on_server(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        return guard_run(userdata, false, revents & (EPOLLHUP | EPOLLERR));
}

static int on_timer(void *userdata) {
        Guard *guard = userdata;

        return guard->is_ending ? guard_end(guard) : guard_wait(guard);
}

static int on_unread(void *userdata) {
        return guard_end(userdata);
}

static int guard_open(Guard *guard, int *ret_fd) {
        int pair[2];
        int r;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return -errno;

        (void) setsockopt(guard->out.to, SOL_SOCKET, SO_SNDBUF, &(int){ BUFFER_SIZE }, sizeof(int));
        guard->server = pair[0];
        guard->in.to = guard->out.from = pair[0];
        r = loop_add_io(guard->event, &guard->server_source, guard->server, EPOLLIN, on_server,
                        guard);
        if (r >= 0)
                r = loop_add_io(guard->event, &guard->caller_source, guard->in.from,
                                EPOLLIN | EPOLLRDHUP, on_caller, guard);
        if (r < 0)
                close_p(&pair[1]);
        else
                *ret_fd = pair[1];
        return r;
}

int guard_new(sd_event *event, int fd, FrameBudget *budget, GuardEnded on_end, void *userdata,
              Guard **ret, int *ret_fd) {
        cleanup(guard_free_p) Guard *guard = NULL;
        int r;

        guard = malloc(sizeof(*guard));
        if (!guard)
                return -ENOMEM;

        *guard = (Guard){
                .event = event,
                .budget = budget,
                .on_end = on_end,
                .userdata = userdata,
                .caller = -1,
                .server = -1,
                .in = { .from = fd },
                .out = { .to = fd },
        };
        timer_init(&guard->timer, event, ACCURACY_USEC, on_timer, guard);
        timer_init(&guard->unread, event, ACCURACY_USEC, on_unread, guard);
        r = guard_open(guard, ret_fd);
        if (r < 0)
                return r;

        guard->caller = fd;
        *ret = take_ptr(guard);
        return 0;
}

/* As much as goes without waiting. */
static void guard_send_last(Guard *guard) {
        PumpResult result = PUMP_GOES_ON;

        while (result == PUMP_GOES_ON && !guard->out.unsent)
                if (guard_pump(guard, &guard->out, &result) < 0 ||
                    recv(guard->server, &(char){ 0 }, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
                        return;
}

Guard *guard_free(Guard *guard) {
        if (!guard)
                return NULL;

        if (guard->caller >= 0)
                guard_send_last(guard);
        timer_done(&guard->timer);
        timer_done(&guard->unread);
        sd_event_source_disable_unref(guard->caller_source);
        sd_event_source_disable_unref(guard->server_source);
        close_p(&guard->caller);
        close_p(&guard->server);
        free(guard->in.unsent);
        free(guard->out.unsent);
        free(guard);
        return NULL;
}
