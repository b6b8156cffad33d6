/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/log.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/utf8.h"

/*
 * Nothing here allocates memory per line. A line on stderr is at most PIPE_BUF bytes: a pipe takes
 * it whole, so that lines of several writers do not mix, and a pipe that poll() calls writable has
 * room for it, so that the write does not block. What does not fit is cut, the line stays valid.
 */
#define LINE_MAX_SIZE PIPE_BUF
#define MESSAGE_MAX_SIZE 2048
#define JOURNAL_MAX_SIZE 16384
#define JOURNAL_SOCKET "/run/systemd/journal/socket"

/* Longest time that a full pipe holds up the agent. Then lines are dropped until it moves. */
#define WRITE_TIMEOUT_MSEC 100

#define ELLIPSIS "\xe2\x80\xa6"

struct Log {
        LogFormat format; /* never LOG_FORMAT_AUTO */
        int level;
        bool is_colored;
        bool is_stuck;             /* the last line did not get through in time */
        int journal;               /* connected socket of the journal; -1: not yet */
        unsigned long long n_lost; /* lines lost since the last line that was written */
};

/* How a text is written: control characters and invalid UTF-8 are escaped in both ways. */
typedef enum Escape {
        ESCAPE_TEXT,   /* as it is */
        ESCAPE_QUOTED, /* between double quotes, as in JSON */
} Escape;

/* Appending to a line never fails, but stops at the limit, which leaves room for the end. */
typedef struct Line {
        char *data;
        size_t size;
        size_t limit;
} Line;

/* clang-format off */
static const struct {
        const char *name;
        const char *color;
} levels[] = {
        [LOG_EMERG]   = { "emergency", "\x1b[1;31m" },
        [LOG_ALERT]   = { "alert",     "\x1b[1;31m" },
        [LOG_CRIT]    = { "critical",  "\x1b[1;31m" },
        [LOG_ERR]     = { "error",     "\x1b[31m"   },
        [LOG_WARNING] = { "warning",   "\x1b[33m"   },
        [LOG_NOTICE]  = { "notice",    "\x1b[1m"    },
        [LOG_INFO]    = { "info",      ""           },
        [LOG_DEBUG]   = { "debug",     "\x1b[2m"    },
};

static const char *const formats[_LOG_FORMAT_MAX] = {
        [LOG_FORMAT_AUTO]    = "auto",
        [LOG_FORMAT_JOURNAL] = "journal",
        [LOG_FORMAT_JSON]    = "json",
        [LOG_FORMAT_TEXT]    = "text",
};
/* clang-format on */

/* Returns false, and appends nothing, if not all of it fits. */
static bool line_append(Line *line, const char *data, size_t size) {
        if (size > line->limit - line->size)
                return false;

        memcpy(line->data + line->size, data, size);
        line->size += size;
        return true;
}

static bool line_puts(Line *line, const char *text) {
        return line_append(line, text, strlen(text));
}

/* C0 and C1 steer a terminal, the two separators break lines in some viewers. */
static bool is_control(uint32_t c) {
        return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029;
}

/* Writes one character, which is `size` bytes at `text`, or invalid if that is 0. */
static bool line_put_character(Line *line, const char *text, size_t size, uint32_t c, Escape how) {
        char escaped[sizeof("\\u12345678")];

        if (size == 0)
                return line_puts(line, "\\ufffd");
        if (c == '\n')
                return line_puts(line, "\\n");
        if (c == '\t')
                return line_puts(line, "\\t");
        if (how == ESCAPE_QUOTED && (c == '"' || c == '\\'))
                return line_append(line, (const char[]){ '\\', *text }, 2);
        if (!is_control(c))
                return line_append(line, text, size);

        (void) snprintf(escaped, sizeof(escaped), "\\u%04x", (unsigned) c);
        return line_puts(line, escaped);
}

/* Writes as much as fits, and an ellipsis in place of the rest. */
static void line_put_escaped(Line *line, const char *text, Escape how) {
        bool fits = true;

        line->limit -= strlen(ELLIPSIS);
        while (*text && fits) {
                uint32_t c = 0;
                size_t size = utf8_decode(text, &c);

                fits = line_put_character(line, text, size, c, how);
                text += size ?: 1;
        }
        line->limit += strlen(ELLIPSIS);

        if (!fits)
                (void) line_puts(line, ELLIPSIS);
}

static void line_put_quoted(Line *line, const char *text) {
        line->limit -= 1;
        (void) line_puts(line, "\"");
        line_put_escaped(line, text, ESCAPE_QUOTED);
        line->limit += 1;
        (void) line_puts(line, "\"");
}

/* Whether at least the name and the ends of a quoted value fit. */
static bool line_has_room(const Line *line, const char *name) {
        return line->limit - line->size >= strlen(name) + sizeof(",\"\":\"" ELLIPSIS "\"");
}

static void line_put_json_member(Line *line, const char *name, const char *value) {
        if (!line_has_room(line, name))
                return;

        (void) line_puts(line, ",\"");
        for (; *name; name++)
                (void) line_append(line, (const char[]){ (char) tolower((unsigned char) *name) },
                                   1);
        (void) line_puts(line, "\":");
        line_put_quoted(line, value);
}

/* Writes RFC 3339 in UTC for machines, the local time for a person at a terminal. */
static void line_put_time(Line *line, bool is_utc) {
        struct timespec now = { 0 };
        struct tm tm = { 0 };
        char text[48] = "";
        size_t size;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        (void) (is_utc ? gmtime_r(&now.tv_sec, &tm) : localtime_r(&now.tv_sec, &tm));
        size = strftime(text, sizeof(text), is_utc ? "%FT%T" : "%F %T ", &tm);
        if (is_utc)
                (void) sprintf(text + size, ".%03dZ", (int) (now.tv_nsec / 1000000));
        (void) line_puts(line, text);
}

static void line_put_json(Line *line, int level, const LogField *fields, const char *message) {
        line->limit -= strlen("}\n");
        (void) line_puts(line, "{\"time\":\"");
        line_put_time(line, true);
        (void) line_puts(line, "\"");
        line_put_json_member(line, "level", levels[level].name);
        line_put_json_member(line, "message", message);
        for (; fields && fields->name; fields++)
                if (fields->value)
                        line_put_json_member(line, fields->name, fields->value);
        line->limit += strlen("}\n");
        (void) line_puts(line, "}\n");
}

static void line_put_text_field(Line *line, const char *separator, const LogField *field) {
        if (!line_has_room(line, field->name))
                return;

        (void) line_puts(line, separator);
        (void) line_puts(line, field->name);
        (void) line_puts(line, "=");
        if (*field->value && !strpbrk(field->value, " \"\\"))
                line_put_escaped(line, field->value, ESCAPE_TEXT);
        else
                line_put_quoted(line, field->value);
}

/* Whether the value stands alone, not as part of another number or word. */
static bool is_whole(const char *message, const char *found, size_t size) {
        const char *end = found + size;

        if (found > message && (isalnum((unsigned char) found[-1]) ||
                                (found[-1] == '.' && isdigit((unsigned char) *found))))
                return false;

        return !isalnum((unsigned char) *end) && !(*end == '.' && isalnum((unsigned char) end[1]));
}

/* Whether the field is for machines only: people find it in the message in another form. */
static bool is_for_machines(const char *name) {
        return strcmp(name, "MESSAGE_ID") == 0 || strcmp(name, "BYTES") == 0;
}

/* Whether the message has the value of the field. */
static bool is_said(const char *message, const char *value) {
        const char *found = *value ? strstr(message, value) : NULL;

        while (found && !is_whole(message, found, strlen(value)))
                found = strstr(found + 1, value);
        return found;
}

static void line_put_text(const Log *log, Line *line, int level, const LogField *fields,
                          const char *message) {
        const char *color = log->is_colored ? levels[level].color : "";
        const char *separator = "  ";

        line->limit -= strlen("\n");
        line_put_time(line, false);
        (void) line_puts(line, color);
        (void) line_puts(line, levels[level].name);
        (void) line_puts(line, *color ? "\x1b[0m " : " ");
        line_put_escaped(line, message, ESCAPE_TEXT);
        for (; fields && fields->name; fields++) {
                if (!fields->value || is_for_machines(fields->name) ||
                    is_said(message, fields->value))
                        continue;
                line_put_text_field(line, separator, fields);
                separator = " ";
        }
        line->limit += strlen("\n");
        (void) line_puts(line, "\n");
}

static bool log_to_stderr(Log *log, const Line *line) {
        struct pollfd stderr_poll = { .fd = STDERR_FILENO, .events = POLLOUT };

        log->is_stuck = poll(&stderr_poll, 1, log->is_stuck ? 0 : WRITE_TIMEOUT_MSEC) <= 0;
        return !log->is_stuck &&
               TEMP_FAILURE_RETRY(write(STDERR_FILENO, line->data, line->size)) >= 0;
}

/*
 * The journal's own protocol (https://systemd.io/JOURNAL_NATIVE_PROTOCOL): sd_journal_sendv() waits for as long as
 * nothing reads the socket, and the loop with it.
 */

/* Cuts the field, or leaves it out if not even its name fits. */
static void journal_put(Line *line, const char *name, const char *value) {
        size_t room = line->limit - line->size, rest = strlen(name) + sizeof(uint64_t) + 3;
        size_t size;
        uint64_t encoded;

        if (room < rest)
                return;

        size = strnlen(value, room - rest);
        encoded = htole64(size);
        (void) line_puts(line, name);
        if (memchr(value, '\n', size)) {
                (void) line_puts(line, "\n");
                (void) line_append(line, (const char *) &encoded, sizeof(encoded));
        } else {
                (void) line_puts(line, "=");
        }
        (void) line_append(line, value, size);
        (void) line_puts(line, "\n");
}

static bool journal_connect(Log *log) {
        const struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = JOURNAL_SOCKET };

        if (log->journal < 0)
                log->journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        return log->journal >= 0 &&
               connect(log->journal, (const struct sockaddr *) &address, sizeof(address)) == 0;
}

/* A journal that was restarted may have another socket. */
static bool journal_send(Log *log, const Line *line) {
        bool is_connected = log->journal >= 0 || journal_connect(log);

        while (is_connected) {
                if (send(log->journal, line->data, line->size, MSG_NOSIGNAL) >= 0)
                        return true;
                if (errno != ECONNREFUSED && errno != ENOTCONN && errno != ECONNRESET)
                        return false;
                is_connected = journal_connect(log);
        }

        return false;
}

static bool log_to_journal(Log *log, int level, const LogField *fields, const char *message) {
        char data[JOURNAL_MAX_SIZE];
        Line line = { .data = data, .limit = sizeof(data) };
        char priority[] = { (char) ('0' + level), '\0' };

        journal_put(&line, "MESSAGE", message);
        journal_put(&line, "PRIORITY", priority);
        journal_put(&line, "SYSLOG_IDENTIFIER", "inplaced");
        for (; fields && fields->name; fields++)
                if (fields->value)
                        journal_put(&line, fields->name, fields->value);

        return journal_send(log, &line);
}

/* systemd says in JOURNAL_STREAM which stream is the journal; stderr may have been redirected. */
static bool stderr_is_journal(void) {
        const char *text = getenv("JOURNAL_STREAM");
        unsigned long long device, inode;
        struct stat st;
        char end;

        return text && sscanf(text, "%llu:%llu%c", &device, &inode, &end) == 2 &&
               fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_set_format(Log *log, LogFormat format) {
        const char *no_color = getenv("NO_COLOR");

        if (!log)
                return;

        log->is_colored = isatty(STDERR_FILENO) && !(no_color && *no_color);
        if (format == LOG_FORMAT_AUTO)
                format = stderr_is_journal()     ? LOG_FORMAT_JOURNAL
                         : isatty(STDERR_FILENO) ? LOG_FORMAT_TEXT
                                                 : LOG_FORMAT_JSON;
        log->format = format;
}

void log_set_level(Log *log, int level) {
        if (log)
                log->level = level;
}

int log_new(LogFormat format, int level, Log **ret) {
        Log *log;

        log = malloc(sizeof(*log));
        if (!log)
                return -ENOMEM;

        *log = (Log){ .journal = -1 };
        log_set_level(log, level);
        log_set_format(log, format);
        *ret = log;
        return 0;
}

Log *log_free(Log *log) {
        if (log)
                close_p(&log->journal);
        free(log);
        return NULL;
}

/* A message that was cut must not end in the middle of a character. */
static void end_with_ellipsis(char *message, size_t size) {
        memcpy(message + utf8_cut(message, size - sizeof(ELLIPSIS)), ELLIPSIS, sizeof(ELLIPSIS));
}

static bool log_put(Log *log, int level, const LogField *fields, const char *message) {
        char data[LINE_MAX_SIZE];
        Line line = { .data = data, .limit = sizeof(data) };

        if (log->format == LOG_FORMAT_JOURNAL)
                return log_to_journal(log, level, fields, message);

        if (log->format == LOG_FORMAT_JSON)
                line_put_json(&line, level, fields, message);
        else
                line_put_text(log, &line, level, fields, message);
        return log_to_stderr(log, &line);
}

/* Reports lost lines before the next line that gets through. */
static bool log_put_lost(Log *log) {
        char message[128];

        if (log->n_lost == 0)
                return true;

        (void) snprintf(message, sizeof(message),
                        "Lost %llu lines of this log, because its reader was too slow; check what "
                        "reads it.",
                        log->n_lost);
        if (!log_put(log, LOG_WARNING, NULL, message))
                return false;

        log->n_lost = 0;
        return true;
}

void log_write(Log *log, int level, const LogField *fields, const char *format, ...) {
        char message[MESSAGE_MAX_SIZE];
        int saved_errno = errno;
        va_list args;
        int size;

        if (!log || level < 0 || level > LOG_DEBUG || level > log->level)
                return;

        va_start(args, format);
        size = vsnprintf(message, sizeof(message), format, args);
        va_end(args);
        if (size < 0)
                return;
        if ((size_t) size >= sizeof(message))
                end_with_ellipsis(message, sizeof(message));

        if (!log_put_lost(log) || !log_put(log, level, fields, message))
                log->n_lost++;
        errno = saved_errno;
}

bool log_trouble(Log *log, int level, Error *error, const Error *news, const char *failed,
                 const char *recovered) {
        bool was_failing = error->kind != ERROR_NONE;
        bool is_news = error_update(error, news) || was_failing != !!news;

        if (is_news && news)
                log_write(log, level, NULL, "%s: %s.", failed, error_message(news));
        else if (is_news)
                log_info(log, NULL, "%s.", recovered);
        return is_news;
}

int log_level_from_string(const char *text, int *ret, Error *reterr) {
        for (int i = 0; i <= LOG_DEBUG; i++)
                if (strcmp(text, levels[i].name) == 0) {
                        *ret = i;
                        return 0;
                }

        return error_set(reterr, ERROR_INVALID,
                         "\"%s\" is not a log level: use error, warning, notice, info or debug",
                         text);
}

int log_format_from_string(const char *text, LogFormat *ret, Error *reterr) {
        for (LogFormat i = LOG_FORMAT_AUTO; i < _LOG_FORMAT_MAX; i++)
                if (strcmp(text, formats[i]) == 0) {
                        *ret = i;
                        return 0;
                }

        return error_set(reterr, ERROR_INVALID,
                         "\"%s\" is not a log format: use auto, journal, json or text", text);
}
