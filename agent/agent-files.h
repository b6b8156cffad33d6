/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files with the agent's configuration and credentials
 *
 * The agent reads them whatever their owner and mode are: the administrator decides whether other users
 * may write or read them. But it reports that in a line at the start and at a reload, and by the doctor;
 * so it does if a sandbox hides them. The content can be checked without an agent.
 */

#include <sys/types.h>

#include "agent/auth/docker-config.h"
#include "agent/base/diagnosis-visitor.h"
#include "agent/base/log.h"
#include "agent/options.h"

typedef struct AgentFiles AgentFiles;

/* Everything is copied. */
int agent_files_new(const Options *options, const DockerConfig *docker, AgentFiles **ret);
AgentFiles *agent_files_free(AgentFiles *files);

int agent_files_log(const AgentFiles *files, Log *log);
DiagnosisSource agent_files_diagnosis(const AgentFiles *files);

/* Names where the access to the API server, or its error, comes from: an option, or the account of
 * the pod. */
const char *agent_files_access(const Options *options);

/* Finds the group with this name or number; (gid_t) -1: none, or the name is empty. May block. */
gid_t agent_files_find_group(const char *name);

/* Reports that there is no such group, and the consequence. */
int agent_files_report_group(const char *option, const char *name, const DiagnosisVisitor *visitor);

/* Reports the settings on disk with which a running agent would not start again, or which it would
 * ignore. argv is that of main(). */
int agent_files_check_start(char **argv, const Options *running, const DiagnosisVisitor *visitor);

/* Reads the files by the agent's own code: those that the options name, then documents and
 * credentials. Reports the problems. Contacts nothing and writes nothing. */
int agent_files_check(const Options *options, const DiagnosisVisitor *visitor);
