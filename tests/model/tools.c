/* SPDX-License-Identifier: Apache-2.0 */

#include "tests/model/tools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/program.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/document/json-cleanup.h"
#include "agent/kube/client.h"
#include "agent/kube/event.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/own-run.h"
#include "agent/kubectl/rights.h"
#include "agent/kubectl/rollout-preload.h"
#include "agent/kubectl/rollout-record.h"
#include "agent/kubectl/session.h"
#include "agent/view/output.h"

#define STACK_SIZE ((size_t) 512 * 1024)

struct Program {
        Tool *child; /* NULL: it has ended, or is killed */
        ProgramDone on_done;
        void *userdata;
        json_object *output;
        bool is_done;
};

struct Session {
        Tool *tool;
        World *world;
        const char *user;
        SessionOptions options;
        bool is_ended;
        int end_status, code;
        Program *programs[8];
        size_t n_programs;
};

struct Tool {
        World *world;
        Session session;
        Command command;
        Flags flags;
        char *words[4];
        char image[64];
        Program *program; /* the run is one of a controller; NULL: it is not, or is killed */
        json_object *output;
        ucontext_t context;
        void *stack;
        bool has_begun, has_ended, was_killed, is_child;
        bool has_closed; /* it has ended an update */
        unsigned begin_step;
        int status;
        int64_t wake_sec;            /* NEVER: it waits for a change */
        int64_t frozen_sec;          /* until then it does nothing */
        const SessionFollow *follow; /* it waits for a change of these; NULL: it does not */
};

static ucontext_t scheduler;
static Tool *running; /* the tool whose turn it is; NULL: none */
static void *free_stacks[TOOLS_MAX];
static size_t n_free_stacks;
static int64_t model_sec; /* the time of the world that runs */

/* Clocks */

int clock_gettime(clockid_t clock, struct timespec *ret) {
        if (!running)
                return (int) syscall(SYS_clock_gettime, clock, ret);
        *ret = (struct timespec){ .tv_sec = model_sec };
        return 0;
}

/* Turns */

static void give_turn_back(Tool *tool) {
        running = NULL;
        swapcontext(&tool->context, &scheduler);
        running = tool;
}

static int run_command(Tool *tool) {
        Session *session = &tool->session;

        switch (tool->command.verb) {
        case COMMAND_OF_SET_IMAGE: return kubectl_set_image(session, &tool->flags);
        case COMMAND_OF_ROLLOUT: return kubectl_rollout(session, &tool->flags);
        case COMMAND_OF_CONTROLLER: return kubectl_controller(session, &tool->flags);
        case COMMAND_OF_CARRY_OUT: return kubectl_carry_out(session, &tool->flags);
        }
        return -EINVAL;
}

static void end_program(Tool *tool) {
        if (!tool->program)
                return;
        tool->program->child = NULL;
        tool->program->is_done = true;
        tool->program->output = json_object_get(tool->output);
        tool->program = NULL;
}

static void tool_main(void) {
        Tool *tool = running;

        tool->status = run_command(tool);
        tool->has_ended = true;
        end_program(tool);
        running = NULL;
        setcontext(&scheduler);
}

void tool_step(Tool *tool) {
        model_sec = tool->world->now_sec;
        running = tool;
        if (!tool->has_begun) {
                tool->has_begun = true;
                getcontext(&tool->context);
                tool->context.uc_stack.ss_sp = tool->stack;
                tool->context.uc_stack.ss_size = STACK_SIZE;
                tool->context.uc_link = NULL;
                makecontext(&tool->context, tool_main, 0);
        }
        swapcontext(&scheduler, &tool->context);
        running = NULL;
        if (tool->has_ended && tool->stack) {
                free_stacks[n_free_stacks++] = tool->stack;
                tool->stack = NULL;
                note(tool->world, "%s: ends with %d%s%s", tool->session.user, tool->status,
                     tool->output ? " " : "",
                     tool->output ? json_object_to_json_string(tool->output) : "");
                judge_told(tool->world, &(Telling){ .output = tool->output,
                                                    .status = tool->status,
                                                    .begin_step = tool->begin_step,
                                                    .was_killed = tool->was_killed,
                                                    .has_closed = tool->has_closed });
        }
}

Tool *tool_start(World *world, const Command *command) {
        static const char *const kinds[] = { [WORKLOAD_DEPLOYMENT] = "deployment/web",
                                             [WORKLOAD_REPLICA_SET] = "replicaset/web",
                                             [WORKLOAD_STATEFUL_SET] = "statefulset/web",
                                             [WORKLOAD_DAEMON_SET] = "daemonset/web" };
        Tool *tool = calloc(1, sizeof(*tool));

        tool->world = world;
        tool->command = *command;
        tool->wake_sec = world->now_sec;
        tool->begin_step = world->n_steps;
        tool->words[0] = (char *) (uintptr_t) kinds[world->scenario.kind];
        if (command->image) {
                (void) snprintf(tool->image, sizeof(tool->image), "app=%s", command->image);
                tool->words[1] = tool->image;
        }
        tool->flags = (Flags){ .no_preload = true,
                               .format = OUTPUT_JSON,
                               .undo = command->undo,
                               .release = command->release,
                               .take_over = command->take_over,
                               .first = command->first,
                               .max_unavailable = command->max_unavailable,
                               .arguments = tool->words,
                               .n_arguments = command->image ? 2 : 1 };
        tool->session = (Session){ .tool = tool, .world = world, .user = command->user };
        tool->stack = n_free_stacks > 0 ? free_stacks[--n_free_stacks] : malloc(STACK_SIZE);
        world->tools[world->n_tools++] = tool;
        return tool;
}

void tool_kill(Tool *tool) {
        if (tool->has_ended || tool->was_killed)
                return;
        note(tool->world, "%s is killed", tool->session.user);
        tool->was_killed = true;
        tool->session.is_ended = true;
        tool->session.end_status = EXIT_STATUS_SIGNAL + 9;
        tool->wake_sec = tool->world->now_sec;
        for (size_t i = 0; i < tool->session.n_programs; i++)
                if (tool->session.programs[i]->child)
                        tool_kill(tool->session.programs[i]->child);
}

void tool_freeze(Tool *tool, int64_t until_sec) {
        tool->frozen_sec = until_sec;
        for (size_t i = 0; i < tool->session.n_programs; i++)
                if (tool->session.programs[i]->child)
                        tool_freeze(tool->session.programs[i]->child, until_sec);
}

bool tool_has_ended(const Tool *tool) {
        return tool->has_ended;
}

bool tool_is_controller(const Tool *tool) {
        return tool->command.verb == COMMAND_OF_CONTROLLER;
}

bool tool_is_child(const Tool *tool) {
        return tool->is_child;
}

int tool_status(const Tool *tool) {
        return tool->status;
}

bool tool_was_killed(const Tool *tool) {
        return tool->was_killed;
}

void tools_done(World *world) {
        for (size_t i = 0; i < world->n_tools; i++)
                tool_kill(world->tools[i]);
        for (size_t i = 0; i < world->n_tools; i++) {
                Tool *tool = world->tools[i];

                while (!tool->has_ended && tool->has_begun)
                        tool_step(tool);
                if (tool->stack)
                        free_stacks[n_free_stacks++] = tool->stack;
                json_object_put(tool->output);
        }
        for (size_t i = 0; i < world->n_tools; i++)
                free(world->tools[i]);
        world->n_tools = 0;
}

/* Waits */

/* For a change, until that time. */
static void wait_until(Session *session, int64_t sec, const SessionFollow *follow) {
        Tool *tool = session->tool;

        tool->wake_sec = sec;
        tool->follow = follow;
        if (!session->is_ended)
                give_turn_back(tool);
        tool->wake_sec = NEVER;
        tool->follow = NULL;
}

static int refuse_ended(const Session *session, Error *reterr) {
        (void) session;
        return error_set(reterr, ERROR_CANCELED, "interrupted");
}

int session_pause(Session *session, uint64_t usec, Error *reterr) {
        wait_until(session,
                   session->world->now_sec + (int64_t) ((usec + USEC_PER_SEC - 1) / USEC_PER_SEC),
                   NULL);
        return session->is_ended ? refuse_ended(session, reterr) : 0;
}

/* The worst moment for another user's edit is between what a run has seen and its write. */
static void edit_meanwhile(World *world) {
        if (world->is_calm || world->scenario.n_edits == 0 || !happens(world, 8))
                return;
        world->scenario.n_edits--;
        user_edit(world);
}

/* Others act before the request arrives, or before its answer does. */
static void let_others_act(Session *session, unsigned percent) {
        if (!session->is_ended && happens(session->world, percent))
                wait_until(session, session->world->now_sec, NULL);
}

/* Requests */

static bool find_resource(const KubePath *path, Resource *ret) {
        static const char *const names[_RESOURCE_MAX] = {
                [DEPLOYMENTS] = "deployments",       [REPLICA_SETS] = "replicasets",
                [STATEFUL_SETS] = "statefulsets",    [DAEMON_SETS] = "daemonsets",
                [REVISIONS] = "controllerrevisions", [PODS] = "pods",
                [BUDGETS] = "poddisruptionbudgets",  [LEASES] = "leases",
        };

        for (Resource resource = 0; resource < _RESOURCE_MAX; resource++)
                if (text_equal(path->resource, names[resource])) {
                        *ret = resource;
                        return true;
                }
        return false;
}

static int refuse(Session *session, ErrorKind kind, Error *reterr) {
        session->code = kind == ERROR_UNAVAILABLE ? 0
                        : kind == ERROR_CONFLICT  ? 409
                        : kind == ERROR_NOT_FOUND ? 404
                        : kind == ERROR_DENIED    ? 403
                                                  : 422;
        return error_set(reterr, kind, "the model answers: %s",
                         kind == ERROR_INVALID ? "pod updates may not change fields"
                                               : error_kind_to_string(kind));
}

typedef enum Fate {
        FATE_ANSWERED,
        FATE_DENIED,      /* by a right or a webhook, for this time */
        FATE_BUSY,        /* the server does nothing, and says so */
        FATE_LOST,        /* the request */
        FATE_ANSWER_LOST, /* the answer */
        FATE_KILLED,      /* before it was sent */
        FATE_KILLED_THEN, /* after it was done */
} Fate;

static Fate choose_fate(Session *session, bool is_write) {
        World *world = session->world;
        Scenario *scenario = &world->scenario;

        if (world->is_calm)
                return FATE_ANSWERED;
        if (scenario->n_crashes > 0 && is_write && happens(world, 8)) {
                scenario->n_crashes--;
                return happens(world, 50) ? FATE_KILLED : FATE_KILLED_THEN;
        }
        if (scenario->n_refusals > 0 && happens(world, 8)) {
                scenario->n_refusals--;
                return happens(world, 50) ? FATE_DENIED : FATE_BUSY;
        }
        if (scenario->n_losses > 0 && happens(world, 8)) {
                scenario->n_losses--;
                return happens(world, 50) ? FATE_LOST : FATE_ANSWER_LOST;
        }
        return FATE_ANSWERED;
}

/* A run of a controller dies with it. */
static void die(Session *session) {
        Tool *tool = session->tool;

        tool_kill(tool);
}

static void say(Session *session, const char *verb, const KubePath *path, json_object *body,
                ErrorKind kind) {
        if (session->world->trace)
                note(session->world, "%s: %s %s/%s%s%s%s %s%s%s", session->user, verb,
                     path->resource, path->name ?: "", path->subresource ? "/" : "",
                     path->subresource ?: "", path->query ? " dry" : "",
                     kind == ERROR_NONE ? "" : error_kind_to_string(kind), body ? " " : "",
                     body ? json_object_to_json_string(body) : "");
}

typedef struct Request {
        const char *verb;
        const KubePath *path;
        const char *content_type;
        json_object *body;
        bool is_write;
} Request;

static bool closes(json_object *before, json_object *after) {
        return !text_equal(annotation_of(before, ROLLOUT_ANNOTATION),
                           annotation_of(after, ROLLOUT_ANNOTATION)) &&
               has_open_record(before) && !has_open_record(after);
}

/* Notes whether it ends the update that is open. */
static ErrorKind patch(Session *session, const Patch *patch, json_object **ret) {
        World *world = session->world;
        cleanup(json_object_put_p) json_object *before = json_object_get(api_workload(world));
        ErrorKind kind = api_patch(world, patch, ret);

        if (closes(before, api_workload(world)))
                session->tool->has_closed = true;
        return kind;
}

static ErrorKind carry_out(Session *session, const Request *request, json_object **ret) {
        World *world = session->world;
        const KubePath *path = request->path;
        Resource resource;

        if (!find_resource(path, &resource))
                return ERROR_NOT_FOUND;
        if (text_equal(request->verb, "create"))
                return api_create(world, AUTHOR_TOOL, resource, request->body, path->query != NULL,
                                  ret);
        if (text_equal(request->verb, "patch"))
                return patch(session,
                             &(Patch){ .author = AUTHOR_TOOL,
                                       .resource = resource,
                                       .name = path->name,
                                       .is_status = path->subresource != NULL,
                                       .is_strategic = text_equal(request->content_type,
                                                                  KUBE_STRATEGIC_MERGE_PATCH),
                                       .is_dry_run = path->query != NULL,
                                       .body = request->body },
                             ret);
        *ret = json_object_get(api_get(world, resource, path->name));
        return *ret ? ERROR_NONE : ERROR_NOT_FOUND;
}

static void follow_some(Session *session);

static int ask(Session *session, const Request *request, json_object **ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *answer = NULL;
        Fate fate;
        ErrorKind kind;

        session->code = 0;
        let_others_act(session, request->is_write ? 60 : 20);
        if (session->is_ended)
                return refuse_ended(session, reterr);
        if (request->is_write)
                edit_meanwhile(session->world);
        fate = choose_fate(session, request->is_write);
        if (fate == FATE_KILLED)
                die(session);
        if (fate == FATE_KILLED)
                return refuse_ended(session, reterr);
        if (fate == FATE_DENIED || fate == FATE_BUSY) {
                note(session->world, "%s: %s is %s", session->user, request->verb,
                     fate == FATE_DENIED ? "denied" : "refused, the server is busy");
                session->code = fate == FATE_DENIED ? 403 : 429;
                return error_set(reterr, fate == FATE_DENIED ? ERROR_DENIED : ERROR_UNAVAILABLE,
                                 "the model refuses");
        }
        if (fate == FATE_LOST) {
                note(session->world, "%s: a request is lost", session->user);
                return refuse(session, ERROR_UNAVAILABLE, reterr);
        }
        kind = carry_out(session, request, &answer);
        say(session, request->verb, request->path, request->body, kind);
        if (fate == FATE_KILLED_THEN)
                die(session);
        let_others_act(session, request->is_write ? 30 : 10);
        if (session->is_ended)
                return refuse_ended(session, reterr);
        if (fate == FATE_ANSWER_LOST) {
                note(session->world, "%s: an answer is lost", session->user);
                return refuse(session, ERROR_UNAVAILABLE, reterr);
        }
        follow_some(session);
        if (kind != ERROR_NONE)
                return refuse(session, kind, reterr);
        session->code = 200;
        if (ret)
                *ret = take_ptr(answer);
        return 0;
}

int session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr) {
        return ask(session, &(Request){ .verb = "get", .path = path }, ret, reterr);
}

int session_create(Session *session, const KubePath *path, json_object *body, json_object **ret,
                   Error *reterr) {
        return ask(session,
                   &(Request){ .verb = "create", .path = path, .body = body, .is_write = true },
                   ret, reterr);
}

int session_patch(Session *session, const KubePath *path, const char *content_type,
                  json_object *body, json_object **ret, Error *reterr) {
        return ask(session,
                   &(Request){ .verb = "patch",
                               .path = path,
                               .content_type = content_type,
                               .body = body,
                               .is_write = true },
                   ret, reterr);
}

/* A killed run leaves nothing in order. */
void session_begin_leave(Session *session) {
        (void) session;
}

void session_end_leave(Session *session) {
        (void) session;
}

int session_patch_at_end(Session *session, const KubePath *path, const char *content_type,
                         json_object *body, Error *reterr) {
        return session_patch(session, path, content_type, body, NULL, reterr);
}

int session_delete(Session *session, const KubePath *path, json_object *options, Error *reterr) {
        (void) path;
        (void) options;
        return refuse(session, ERROR_NOT_FOUND, reterr);
}

int session_list(Session *session, const KubePath *path, SessionItem on_item, void *userdata,
                 Error *reterr) {
        (void) path;
        (void) on_item;
        (void) userdata;
        return refuse(session, ERROR_NOT_FOUND, reterr);
}

int session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                          void *userdata, Error *reterr) {
        return session_list(session, path, on_item, userdata, reterr);
}

int session_find_version(Session *session, const KubeKind *kind, const char **ret, Error *reterr) {
        (void) session;
        (void) kind;
        (void) reterr;
        *ret = NULL;
        return 0;
}

int session_find_kruise(Session *session, const char *resource, const char **ret, Error *reterr) {
        (void) resource;
        return session_find_version(session, NULL, ret, reterr);
}

/* Watches */

typedef struct FollowedWatch {
        SessionWatch watch;
        Resource resource;
        char name[16]; /* name of the only object; "": all */
        size_t seen;
        bool is_synced;
} FollowedWatch;

struct SessionFollow {
        Session *session;
        FollowedWatch watches[SESSION_WATCHES_MAX];
        size_t n_watches;
        void *userdata;
};

static SessionFollow *following[TOOLS_MAX]; /* watches of all tools */
static size_t n_following;

int session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                       void *userdata, SessionFollow **ret) {
        SessionFollow *follow = calloc(1, sizeof(*follow));

        follow->session = session;
        follow->userdata = userdata;
        for (size_t i = 0; i < n_watches; i++) {
                FollowedWatch *followed = &follow->watches[follow->n_watches];

                followed->watch = watches[i];
                if (!find_resource(&watches[i].path, &followed->resource))
                        continue;
                if (watches[i].fields)
                        (void) snprintf(followed->name, sizeof(followed->name), "%s",
                                        strchr(watches[i].fields, '=') + 1);
                follow->n_watches++;
        }
        following[n_following++] = follow;
        *ret = follow;
        return 0;
}

SessionFollow *session_follow_free(SessionFollow *follow) {
        for (size_t i = 0; i < n_following; i++)
                if (following[i] == follow)
                        following[i] = following[--n_following];
        free(follow);
        return NULL;
}

static bool watch_is_behind(const SessionFollow *follow, const FollowedWatch *followed) {
        return !followed->is_synced ||
               followed->seen < follow->session->world->logs[followed->resource].n;
}

static bool follow_is_behind(const SessionFollow *follow) {
        for (size_t i = 0; i < follow->n_watches; i++)
                if (watch_is_behind(follow, &follow->watches[i]))
                        return true;
        return false;
}

/* text: "app=web", or NULL. The model's workloads select by no others. */
static bool has_labels(json_object *object, const char *text) {
        return !text ||
               text_equal(object_text(object, "metadata.labels.app"), strchr(text, '=') + 1);
}

static bool has_more_than_images(json_object *pod) {
        json_object *first = json_object_array_get_idx(GET(pod, "spec", "containers"), 0);

        return GET(pod, "spec", "nodeSelector") || json_object_object_length(first) > 2;
}

/* Commands remove from pods that a watch shows what they do not read. */
static json_object *copy_for_command(Resource resource, json_object *object) {
        json_object *copy = json_object_get(object), *spec = NULL;

        if (resource != PODS || !has_more_than_images(object))
                return copy;
        (void) json_object_deep_copy(GET(object, "spec"), &spec, NULL);
        SET(&copy, spec, "spec");
        return copy;
}

static int show(const SessionFollow *follow, const FollowedWatch *followed, json_object *object,
                bool is_gone) {
        cleanup(json_object_put_p) json_object *copy = copy_for_command(followed->resource, object);
        const SessionWatch *watch = &followed->watch;
        void *userdata = watch->userdata ? watch->userdata : follow->userdata;
        const KubeObject shown = {
                .namespace = NAMESPACE,
                .name = object_name(object),
                .uid = object_text(object, "metadata.uid"),
                .resource_version = object_text(object, "metadata.resourceVersion"),
                .json = copy,
        };

        if (followed->name[0] && strcmp(followed->name, shown.name) != 0)
                return 0;
        if (is_gone || !has_labels(object, watch->labels))
                return watch->on_gone ? watch->on_gone(&shown, userdata) : 0;
        return watch->on_object(&shown, userdata);
}

static int list(const SessionFollow *follow, FollowedWatch *followed) {
        World *world = follow->session->world;
        const Items *items = &world->items[followed->resource];
        int r = 0;

        for (size_t i = 0; r >= 0 && i < items->n; i++)
                r = show(follow, followed, items->items[i], false);
        followed->is_synced = true;
        followed->seen = world->logs[followed->resource].n;
        return r;
}

/* Shows the next changes, or some of them. Returns whether there were any. */
static int watch_advance(const SessionFollow *follow, FollowedWatch *followed) {
        World *world = follow->session->world;
        const Log *log = &world->logs[followed->resource];
        size_t end = log->n;
        int r = 0;

        if (!followed->is_synced)
                return list(follow, followed);
        if (end > followed->seen && happens(world, 30))
                end = followed->seen + choose(world, (uint32_t) (end - followed->seen) + 1);
        for (; r >= 0 && followed->seen < end; followed->seen++)
                r = show(follow, followed, log->changes[followed->seen].object,
                         log->changes[followed->seen].is_gone);
        return r;
}

static int follow_advance(SessionFollow *follow) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < follow->n_watches; i++)
                if (watch_is_behind(follow, &follow->watches[i]) &&
                    !happens(follow->session->world, 15))
                        r = watch_advance(follow, &follow->watches[i]);
        return r;
}

/* While a request is answered, the watches go on. */
static void follow_some(Session *session) {
        for (size_t i = 0; i < n_following; i++)
                if (following[i]->session == session)
                        (void) follow_advance(following[i]);
}

static bool follow_is_synced(const SessionFollow *follow) {
        for (size_t i = 0; i < follow->n_watches; i++)
                if (!follow->watches[i].is_synced)
                        return false;
        return true;
}

/* Calls the controller back for its runs that have ended, while it waits. */
static int report_programs(Session *session) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < session->n_programs; i++) {
                Program *program = session->programs[i];
                cleanup(json_object_put_p) json_object *output = NULL;
                const char *text;
                Error error = ERROR_INIT;

                if (!program->is_done)
                        continue;
                output = json_object_get(program->output);
                text = output ? json_object_to_json_string(output) : "";
                if (!output)
                        (void) error_set(&error, ERROR_UNAVAILABLE, "killed");
                r = program->on_done(text, strlen(text), output ? NULL : &error, program->userdata);
                error_done(&error);
                i = (size_t) -1; /* it is freed by now */
        }
        return r;
}

int session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                        int (*is_away)(const Error *error, void *userdata), void *userdata,
                        Error *reterr) {
        Session *session = follow->session;

        for (;;) {
                int r = session->is_ended ? refuse_ended(session, reterr) : follow_advance(follow);

                if (r >= 0)
                        r = report_programs(session);
                if (r >= 0 && follow_is_synced(follow))
                        r = is_done(userdata);
                else if (r >= 0 && is_away)
                        r = is_away(&ERROR_INIT, userdata);
                if (r != 0)
                        return r < 0 ? r : 0;
                wait_until(session, session->world->now_sec + 1, follow);
        }
}

int session_wait(Session *session, const SessionWait *wait, Error *reterr) {
        (void) wait;
        return refuse(session, ERROR_NOT_FOUND, reterr);
}

bool session_is_away(const Session *session) {
        (void) session;
        return false;
}

static bool has_ended_program(const Session *session) {
        for (size_t i = 0; i < session->n_programs; i++)
                if (session->programs[i]->is_done)
                        return true;
        return false;
}

bool tool_is_due(const Tool *tool) {
        if (tool->has_ended || tool->world->now_sec < tool->frozen_sec)
                return false;
        return tool->session.is_ended || tool->wake_sec <= tool->world->now_sec ||
               (tool->follow &&
                (follow_is_behind(tool->follow) || has_ended_program(&tool->session)));
}

int64_t tool_next_sec(const Tool *tool) {
        return tool->has_ended ? NEVER : tool->wake_sec;
}

/* The state of a session */

int session_ask_user(Session *session, Error *reterr) {
        (void) session, (void) reterr;
        return 0;
}

const char *session_user(Session *session) {
        return session->user;
}

const char *session_namespace(const Session *session) {
        (void) session;
        return NAMESPACE;
}

const char *session_target(const Session *session) {
        (void) session;
        return "the model";
}

const SessionOptions *session_options(const Session *session) {
        return &session->options;
}

bool session_is_dry_run(const Session *session) {
        (void) session;
        return false;
}

sd_event *session_event(const Session *session) {
        (void) session;
        return NULL;
}

KubeClient *session_client(const Session *session) {
        (void) session;
        return NULL;
}

bool session_is_ended(const Session *session) {
        return session->is_ended;
}

int session_code(const Session *session) {
        return session->code;
}

int64_t session_server_sec(const Session *session) {
        return session->world->now_sec;
}

int session_end_status(const Session *session) {
        return session->end_status;
}

int session_fail(const Session *session, int r, const Error *error) {
        if (error->kind == ERROR_NONE)
                return r;
        note(session->world, "%s: %s", session->user, error_message(error));
        return session->end_status ? session->end_status : EXIT_STATUS_FAILED;
}

/* Runs of a controller */

static void forget_ended_children(World *world) {
        for (size_t i = world->n_tools; i > 0; i--) {
                Tool *tool = world->tools[i - 1];

                if (!tool->is_child || !tool->has_ended)
                        continue;
                json_object_put(tool->output);
                free(tool);
                world->tools[i - 1] = world->tools[--world->n_tools];
        }
}

int own_run(Session *session, const Flags *flags, const char *const *words, ProgramDone on_done,
            void *userdata, Program **ret) {
        Program *program = calloc(1, sizeof(*program));
        Command command = { .verb = COMMAND_OF_CARRY_OUT,
                            .user = session->user,
                            .take_over = true };

        (void) flags;
        for (size_t i = 0; words[i]; i++) {
                command.undo = command.undo || strcmp(words[i], "--undo") == 0;
                command.release = command.release || strcmp(words[i], "--release") == 0;
        }
        forget_ended_children(session->world);
        if (session->world->n_tools == TOOLS_MAX)
                return -EAGAIN;
        note(session->world, "%s begins a run%s", session->user,
             command.undo      ? " --undo"
             : command.release ? " --release"
                               : "");
        program->on_done = on_done;
        program->userdata = userdata;
        program->child = tool_start(session->world, &command);
        program->child->program = program;
        program->child->is_child = true;
        session->programs[session->n_programs++] = program;
        *ret = program;
        return 0;
}

int own_run_guard(OwnRunGuard *guard, Session *session) {
        (void) guard;
        (void) session;
        return 0;
}

Program *program_free(Program *program) {
        if (!program)
                return NULL;
        for (size_t i = 0; running && i < running->session.n_programs; i++)
                if (running->session.programs[i] == program)
                        running->session.programs[i] =
                                running->session.programs[--running->session.n_programs];
        if (program->child) {
                program->child->program = NULL;
                tool_kill(program->child);
        }
        json_object_put(program->output);
        free(program);
        return NULL;
}

int output_tree(OutputFormat format, json_object *tree) {
        (void) format;
        json_object_put(running->output);
        running->output = json_object_get(tree);
        return 0;
}

/* Parts that matter not here: rights, events, and the state of the connection */

int rights_require(Session *session, const char *workload, Error *reterr) {
        (void) session;
        (void) workload;
        (void) reterr;
        return 0;
}

int rollout_preload(const RolloutWatch *watch, json_object *record, const Census *census,
                    const RolloutPreload *preload, RolloutPreloaded *ret, Error *reterr) {
        (void) watch;
        (void) record;
        (void) census;
        (void) preload;
        (void) reterr;
        *ret = (RolloutPreloaded){ .is_done = false };
        return 0;
}

int kube_events_new(const KubeEventsOptions *options, KubeEvents **ret) {
        (void) options;
        *ret = NULL;
        return 0;
}

KubeEvents *kube_events_free(KubeEvents *events) {
        (void) events;
        return NULL;
}

int kube_event_send(KubeEvents *events, const KubeReference *object, const char *type,
                    const char *reason, const char *message) {
        (void) events;
        (void) object;
        if (running && strcmp(reason, "InPlaceUpdateImpossible") == 0)
                judge_impossible(running->world);
        if (running)
                note(running->world, "event: %s %s: %s", type, reason, message);
        return 0;
}

const Error *kube_client_trouble(const KubeClient *client) {
        (void) client;
        return NULL;
}

/* Parts that are linked for a function beside them, and are never called */

int kube_call(KubeClient *client, const KubeRequest *request, KubeCall **ret) {
        (void) client;
        (void) request;
        (void) ret;
        return -ENOTSUP;
}

KubeCall *kube_call_unref(KubeCall *call) {
        (void) call;
        return NULL;
}

sd_event *kube_client_event(const KubeClient *client) {
        (void) client;
        return NULL;
}
