/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Log
 *
 * One line per outcome, a sentence with the object in ticks, plus fields that a machine can search
 * for. Where it goes is chosen once: the journal with its own fields, JSON lines on stderr (in a
 * container), or text on stderr (on a terminal), with those fields that the sentence does not say.
 * Never pass credentials or environment values.
 *
 * Writing never fails and never blocks for long, the journal not at all: a line that cannot be written is
 * dropped, and counted in the next one that can.
 */

#include <syslog.h> /* LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG ... */

#include "agent/base/error.h"

typedef struct Log Log;

typedef enum LogFormat {
        LOG_FORMAT_AUTO, /* journal if stderr is connected to it, text on a terminal, else JSON */
        LOG_FORMAT_JOURNAL,
        LOG_FORMAT_JSON,
        LOG_FORMAT_TEXT,
        _LOG_FORMAT_MAX,
} LogFormat;

/* A journal field: the name in upper case ("IMAGE", "MESSAGE_ID"), in JSON in lower case. A field
 * whose value is NULL is left out. */
typedef struct LogField {
        const char *name;
        const char *value;
} LogField;

/* LOG_FIELDS({ "IMAGE", reference }, { "IMAGE_ID", id }) */
#define LOG_FIELDS(...) ((const LogField[]){ __VA_ARGS__, { NULL, NULL } })

/* Message IDs of the outcomes that people search for (see systemd.journal-fields(7)). */
#define MESSAGE_IMAGE_PULLED "6f0c1f4f2b6b4e0f9c1d3a50c8a6e101"
#define MESSAGE_IMAGE_FAILED "6f0c1f4f2b6b4e0f9c1d3a50c8a6e102"
#define MESSAGE_RUNTIME_READY "6f0c1f4f2b6b4e0f9c1d3a50c8a6e103"
#define MESSAGE_RUNTIME_LOST "6f0c1f4f2b6b4e0f9c1d3a50c8a6e104"
#define MESSAGE_DOCUMENT_REFUSED "6f0c1f4f2b6b4e0f9c1d3a50c8a6e105"
#define MESSAGE_IMAGE_MISSING "6f0c1f4f2b6b4e0f9c1d3a50c8a6e106"
#define MESSAGE_IMAGE_STARTED "6f0c1f4f2b6b4e0f9c1d3a50c8a6e107"
#define MESSAGE_IMAGE_DELAYED "6f0c1f4f2b6b4e0f9c1d3a50c8a6e108"

/* Writes lines of this syslog level and more severe ones. */
int log_new(LogFormat format, int level, Log **ret);
Log *log_free(Log *log);

void log_set_level(Log *log, int level);
void log_set_format(Log *log, LogFormat format);

/* fields ends with a NULL name, and may be NULL. A NULL log swallows everything. */
void log_write(Log *log, int level, const LogField *fields, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

#define log_error(log, fields, ...) log_write(log, LOG_ERR, fields, __VA_ARGS__)
#define log_warning(log, fields, ...) log_write(log, LOG_WARNING, fields, __VA_ARGS__)
#define log_info(log, fields, ...) log_write(log, LOG_INFO, fields, __VA_ARGS__)
#define log_debug(log, fields, ...) log_write(log, LOG_DEBUG, fields, __VA_ARGS__)

/* Replaces *error by a copy of another one (NULL: unset). Logs "FAILED: reason." at this level once for
 * each reason, and "RECOVERED." at the end of all. Returns whether it differs from before. */
bool log_trouble(Log *log, int level, Error *error, const Error *news, const char *failed,
                 const char *recovered);

/* "error", "warning", "info", "debug" ... and "auto", "journal", "json", "text". */
int log_level_from_string(const char *text, int *ret, Error *reterr);
int log_format_from_string(const char *text, LogFormat *ret, Error *reterr);
