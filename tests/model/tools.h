/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs of the real "kubectl inplace" in the model
 *
 * The commands of agent/kubectl run as they are; what is below agent/kubectl/session.h is the model's. Each run has a
 * stack of its own, and gives the turn back wherever it would wait for the server or for time. A run that is killed ends
 * as if its session had ended, so that it frees what it has, and sends nothing any more.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/kubectl/flags.h"
#include "tests/model/world.h"

typedef struct Command {
        enum {
                COMMAND_OF_SET_IMAGE,
                COMMAND_OF_ROLLOUT,
                COMMAND_OF_CONTROLLER,
                COMMAND_OF_CARRY_OUT
        } verb;
        const char *user;
        const char *image; /* image to set */
        bool undo, release, take_over;
        const char *first;           /* number of pods; NULL: all */
        const char *max_unavailable; /* NULL: the strategy's */
} Command;

/* Begins a run. It is freed with the world. */
Tool *tool_start(World *world, const Command *command);
/* It has something to do now. */
bool tool_is_due(const Tool *tool);
/* Lets it go on to its next request or wait. */
void tool_step(Tool *tool);
/* Kills it: it sends nothing more. */
void tool_kill(Tool *tool);
/* Lets it, and the runs that it has begun, do nothing until that time. */
void tool_freeze(Tool *tool, int64_t until_sec);
bool tool_has_ended(const Tool *tool);
bool tool_is_controller(const Tool *tool);
/* A run that a controller has begun, not a person. */
bool tool_is_child(const Tool *tool);
/* The exit status, negative for a local failure. */
int tool_status(const Tool *tool);
bool tool_was_killed(const Tool *tool);
/* When it goes on by itself; NEVER: not before something changes. */
int64_t tool_next_sec(const Tool *tool);
void tools_done(World *world);
