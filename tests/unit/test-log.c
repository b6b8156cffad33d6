/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The log, as a reader of stderr or of the journal sees it
 *
 * While a line is written, stderr is a pipe or a pseudo-terminal of the test. The journal is a socket of the
 * test, to which the connect() below leads.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <regex.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/unit.h"

DEFINE_CLEANUP(Log *, log_free)

/* The journal's socket while a test has one, else -1; and its last message. */
static int journal = -1;
static char entry[32768];

/* In place of libc's. */
int connect(int fd, const struct sockaddr *address, socklen_t size) {
        int (*original)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
        const struct sockaddr_un *path = (const struct sockaddr_un *) address;
        struct sockaddr_storage own;
        socklen_t own_size = sizeof(own);

        assert_string_equal(path->sun_path, "/run/systemd/journal/socket");
        assert_ok(getsockname(journal, (struct sockaddr *) &own, &own_size));
        return original(fd, (struct sockaddr *) &own, own_size);
}

/* On an address that the kernel chooses. */
static void open_journal(void) {
        const struct sockaddr_un any = { .sun_family = AF_UNIX };

        journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_ok(bind(journal, (const struct sockaddr *) &any, sizeof(any.sun_family)));
}

static size_t read_journal(void) {
        ssize_t size = recv(journal, entry, sizeof(entry) - 1, 0);

        entry[size > 0 ? size : 0] = '\0';
        return size > 0 ? (size_t) size : 0;
}

static void assert_journal(const char *expected, size_t size) {
        assert_int_equal(read_journal(), size);
        assert_memory_equal(entry, expected, size);
}

static void assert_matches(const char *text, const char *pattern) {
        regex_t regex;
        int r;

        assert_ok(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB));
        r = regexec(&regex, text, 0, NULL, 0);
        regfree(&regex);
        if (r != 0)
                fail_msg("`%s` does not match `%s`", text, pattern);
}

#define JSON_START "^\\{\"time\":\"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z\","
#define TEXT_START "^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} "

/* clang-format off */
static const struct Case {
        const char *name;
        const char *value;
        const char *json; /* how it is in JSON; NULL: as it is */
        const char *text; /* in a field of a text line; NULL: as in JSON */
} cases[] = {
        { "a plain word",          "busybox:1.36",     NULL,                    NULL },
        { "nothing",               "",                 NULL,                    "\"\"" },
        { "a space",               "two words",        NULL,                    "\"two words\"" },
        { "a quote",               "a\"b",             "a\\\"b",                "\"a\\\"b\"" },
        { "a backslash",           "a\\nb",            "a\\\\nb",               "\"a\\\\nb\"" },
        { "a line break",          "a\nb\r\nc",        "a\\nb\\u000d\\nc",      NULL },
        { "a tab",                 "a\tb",             "a\\tb",                 NULL },
        { "an escape sequence",    "\x1b[2J",          "\\u001b[2J",            NULL },
        { "the delete character",  "\x7f",             "\\u007f",               NULL },
        { "a C1 control",          "\xc2\x9b[J",       "\\u009b[J",             NULL },
        { "a line separator",      "\xe2\x80\xa8",     "\\u2028",               NULL },
        { "two bytes",             "\xc3\xa9",         NULL,                    NULL },
        { "three bytes",           "\xe2\x82\xac",     NULL,                    NULL },
        { "four bytes",            "\xf0\x9f\x90\xb3", NULL,                    NULL },
        { "the last character",    "\xf4\x8f\xbf\xbf", NULL,                    NULL },
        { "beyond the last",       "\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd", NULL },
        { "a lone continuation",   "a\x80z",           "a\\ufffdz",             NULL },
        { "a cut character",       "a\xe2\x82",        "a\\ufffd\\ufffd",       NULL },
        { "cut by another",        "\xe2z",            "\\ufffdz",              NULL },
        { "an overlong slash",     "\xc0\xaf",         "\\ufffd\\ufffd",        NULL },
        { "a long overlong slash", "\xe0\x80\xaf",     "\\ufffd\\ufffd\\ufffd", NULL },
        { "a surrogate",           "\xed\xa0\x80",     "\\ufffd\\ufffd\\ufffd", NULL },
        { "a byte that never is",  "\xff\xfe",         "\\ufffd\\ufffd",        NULL },
};
/* clang-format on */

/* Writes one line with the value in the message and as field, and returns it. */
static const char *write_line(Stderr *e, LogFormat format, const char *value) {
        cleanup(log_free_p) Log *log = NULL;

        stderr_pipe(e);
        assert_ok(log_new(format, LOG_INFO, &log));
        log_info(log, LOG_FIELDS({ "IMAGE_ID", value }), "x%sx", value);
        return stderr_restore(e);
}

TEST_ROWS(test_case, cases, name, const struct Case *c) {
        const char *json = c->json ?: c->value;
        char expected[512];
        Stderr e;

        assert_matches(write_line(&e, LOG_FORMAT_JSON, c->value), JSON_START);
        (void) snprintf(expected, sizeof(expected),
                        ",\"level\":\"info\",\"message\":\"x%sx\",\"image_id\":\"%s\"}\n", json,
                        json);
        assert_string_equal(strchr(e.text, 'Z') + 2, expected);

        assert_matches(write_line(&e, LOG_FORMAT_TEXT, c->value), TEXT_START);
        (void) snprintf(expected, sizeof(expected), "  IMAGE_ID=%s\n", c->text ?: json);
        assert_string_equal(strstr(e.text, "  IMAGE_ID="), expected);
        assert_ptr_equal(strchr(e.text, '\n'), e.text + strlen(e.text) - 1);
}

TEST(test_text_reads_well) {
        cleanup(log_free_p) Log *log = NULL;
        Stderr e;

        stderr_pipe(&e);
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_INFO, &log));
        log_warning(log,
                    LOG_FIELDS({ "MESSAGE_ID", MESSAGE_IMAGE_FAILED }, { "IMAGE", "app:v1" },
                               { "IMAGE_ID", NULL }, { "REASON", "NoSpace" }),
                    "Pull of \"%s\" failed.", "app:v1");
        assert_matches(stderr_restore(&e),
                       TEXT_START "warning Pull of \"app:v1\" failed.  REASON=NoSpace\n$");
}

static const struct NoFieldIsRepeatedRow {
        const char *message;
        const char *value;
        bool is_repeated;
} no_field_is_repeated_rows[] = {
        { "Pulled `app:1` in 2 s.", "app:1", false },
        { "Pulled `app:1`.", "app:1", false },
        { "NotFound: no", "NotFound", false },
        { "It took 1.5 s.", "1.5", false },
        { "of 15.", "15", false },
        { "nothing", "", true },
        { "It took 1.5 s.", "5", true },
        { "It took 1.5 s.", "1", true },
        { "Unfounded", "Unfound", true },
        { "NotFound", "Found", true },
        { "11, then 1", "1", false },
};

/* A field is there unless the message says it, as a whole. */
TEST_ROWS(test_no_field_is_repeated, no_field_is_repeated_rows, message,
          const struct NoFieldIsRepeatedRow *row) {
        cleanup(log_free_p) Log *log = NULL;
        Stderr e;

        stderr_pipe(&e);
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_INFO, &log));
        log_info(log, LOG_FIELDS({ "F", row->value }), "%s", row->message);
        (void) stderr_restore(&e);
        if (!strstr(e.text, "  F=") == row->is_repeated)
                fail_msg("%s", e.text);
}

TEST(test_json_has_the_message_id_and_no_missing_field) {
        cleanup(log_free_p) Log *log = NULL;
        Stderr e;

        stderr_pipe(&e);
        assert_ok(log_new(LOG_FORMAT_AUTO, LOG_INFO, &log)); /* a pipe: JSON */
        log_error(log,
                  LOG_FIELDS({ "MESSAGE_ID", MESSAGE_IMAGE_FAILED }, { "IMAGE", NULL },
                             { "POD", "a/b" }),
                  "No.");
        assert_matches(stderr_restore(&e), JSON_START "\"level\":\"error\",\"message\":\"No.\","
                                                      "\"message_id\":\"" MESSAGE_IMAGE_FAILED
                                                      "\",\"pod\":\"a/b\"}\n$");
}

/* The fields say something even if the message does not. */
TEST(test_empty_message) {
        cleanup(log_free_p) Log *log = NULL;
        Stderr e;

        stderr_pipe(&e);
        assert_ok(log_new(LOG_FORMAT_JSON, LOG_INFO, &log));
        log_info(log, LOG_FIELDS({ "IMAGE_ID", "x" }), "%s", "");
        assert_matches(stderr_restore(&e),
                       JSON_START "\"level\":\"info\",\"message\":\"\",\"image_id\":\"x\"\\}\n$");
}

TEST(test_level) {
        cleanup(log_free_p) Log *log = NULL;
        Stderr e;

        stderr_pipe(&e);
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_WARNING, &log));
        log_info(log, NULL, "one");
        log_warning(log, NULL, "two");
        log_set_level(log, LOG_DEBUG);
        log_debug(log, NULL, "three");
        log_write(log, 99, NULL, "four");
        log_write(NULL, LOG_ERR, NULL, "five");
        assert_matches(stderr_restore(&e),
                       TEXT_START "warning two\n[-0-9]{10} [0-9:]{8} debug three\n$");
}

static size_t count(const char *text, const char *part) {
        size_t n = 0;

        for (; (text = strstr(text, part)); text++)
                n++;
        return n;
}

/* 10,000 bytes of message and of fields make one valid line that says where it was cut. */
TEST(test_long_line_is_cut) {
        static const LogFormat both[] = { LOG_FORMAT_JSON, LOG_FORMAT_TEXT };
        char value[10001] = { 0 };
        Stderr e;

        for (size_t i = 0; i < sizeof(value) - 1; i++)
                value[i] = (char) (i % 3 == 0 ? 0xe2 : i % 3 == 1 ? 0x82 : 0xac);

        for (size_t shift = 0; shift < 3; shift++)
                for (size_t i = 0; i < 2; i++) {
                        const char *text = write_line(&e, both[i], value + shift);

                        assert_true(strlen(text) > PIPE_BUF - 16);
                        assert_true(strlen(text) <= PIPE_BUF);
                        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
                        assert_contains(text, "\xe2\x80\xa6");
                        /* only the damaged part is broken: the start, in both copies */
                        assert_int_equal(count(text, "\\ufffd"), (3 - shift) % 3 * 2);
                        if (both[i] == LOG_FORMAT_JSON)
                                assert_matches(
                                        text,
                                        "\xe2\x80\xa6\",\"image_id\":\".*\xe2\x80\xa6\"\\}\n$");
                }
}

/* Each length of the first part decides differently about which parts still fit. */
TEST(test_every_length_ends_well) {
        char value[PIPE_BUF];
        Stderr e;

        for (size_t size = PIPE_BUF - 200; size < PIPE_BUF; size++) {
                cleanup(log_free_p) Log *log = NULL;

                memset(value, '"', size);
                memset(value, 'x', PIPE_BUF - 200);
                value[size] = '\0';
                stderr_pipe(&e);
                assert_ok(log_new(LOG_FORMAT_JSON, LOG_INFO, &log));
                log_info(log, LOG_FIELDS({ "A", value }, { "B", "b" }, { "C", "" }), "m");
                assert_matches(stderr_restore(&e),
                               JSON_START "\"level\":\"info\",\"message\":\"m\","
                                          "\"a\":\"x+(\\\\\")*(\xe2\x80\xa6)?\""
                                          "(,\"b\":\"(b|\xe2\x80\xa6)?\")?(,\"c\":\"\")?\\}\n$");
                assert_true(strlen(e.text) <= PIPE_BUF);
        }
}

/* A reader that stopped must not stop the agent; when it goes on, so does the log. */
TEST(test_full_pipe) {
        cleanup(log_free_p) Log *log = NULL;
        char byte[4096] = { 0 };
        Stderr e;
        int flags;

        stderr_pipe(&e);
        flags = fcntl(STDERR_FILENO, F_GETFL);
        assert_ok(fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK));
        while (write(STDERR_FILENO, byte, sizeof(byte)) > 0)
                ;
        assert_ok(fcntl(STDERR_FILENO, F_SETFL, flags));

        assert_ok(log_new(LOG_FORMAT_JSON, LOG_INFO, &log));
        for (int i = 0; i < 1000; i++) /* a tenth of a second each would time out the test */
                log_info(log, NULL, "dropped");

        assert_ok(fcntl(e.reader, F_SETFL, O_NONBLOCK));
        while (read(e.reader, byte, sizeof(byte)) > 0)
                ;
        log_info(log, NULL, "kept");
        assert_matches(stderr_restore(&e), JSON_START
                       "\"level\":\"warning\",\"message\":\"Lost 1000 lines of this log, "
                       "because its reader was too slow; check what reads it.\"}\n.*"
                       "\"level\":\"info\",\"message\":\"kept\"}\n$");
}

TEST(test_closed_stderr) {
        cleanup(log_free_p) Log *log = NULL;
        int saved = dup(STDERR_FILENO);

        close(STDERR_FILENO);
        assert_ok(log_new(LOG_FORMAT_AUTO, LOG_INFO, &log));
        errno = ENOSPC;
        log_info(log, NULL, "no reader: %m");
        assert_int_equal(errno, ENOSPC); /* logging does not disturb */
        assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
        close(saved);
}

TEST(test_terminal) {
        cleanup(log_free_p) Log *log = NULL;
        Stderr e;

        assert_ok(unsetenv("NO_COLOR"));
        stderr_terminal(&e);
        assert_ok(log_new(LOG_FORMAT_AUTO, LOG_INFO, &log));
        log_error(log, NULL, "red");
        assert_matches(stderr_restore(&e), TEXT_START "\x1b\\[31merror\x1b\\[0m red\r\n$");

        assert_ok(setenv("NO_COLOR", "1", 1));
        stderr_terminal(&e);
        log_set_format(log, LOG_FORMAT_AUTO);
        log_error(log, NULL, "plain");
        assert_matches(stderr_restore(&e), TEXT_START "error plain\r\n$");
}

/* The journal is taken only if stderr is the very stream that systemd made. */
TEST(test_journal) {
        static const char expected[] = "MESSAGE=It failed.\nPRIORITY=3\n"
                                       "SYSLOG_IDENTIFIER=inplaced\nMESSAGE_ID=6f\n"
                                       "IMAGE\n\3\0\0\0\0\0\0\0a\nb\n";
        cleanup(log_free_p) Log *log = NULL;
        char stream[64];
        struct stat st;
        Stderr e;

        stderr_pipe(&e);
        assert_ok(fstat(STDERR_FILENO, &st));
        (void) snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long) st.st_dev,
                        (unsigned long long) st.st_ino);
        assert_ok(setenv("JOURNAL_STREAM", stream, 1));
        open_journal();
        assert_ok(log_new(LOG_FORMAT_AUTO, LOG_INFO, &log));
        log_error(log, LOG_FIELDS({ "MESSAGE_ID", "6f" }, { "IMAGE", "a\nb" }, { "POD", NULL }),
                  "It %s.", "failed");
        assert_string_equal(stderr_restore(&e), "");
        assert_journal(expected, sizeof(expected) - 1);

        stderr_pipe(&e); /* now it is another pipe */
        log_set_format(log, LOG_FORMAT_AUTO);
        log_error(log, NULL, "elsewhere");
        assert_matches(stderr_restore(&e), JSON_START);
        assert_ok(unsetenv("JOURNAL_STREAM"));
        close(journal);
}

TEST(test_journal_takes_what_fits) {
        cleanup(log_free_p) Log *log = NULL;
        LogField fields[64] = { 0 };
        char value[20000] = { 0 };

        for (size_t i = 0; i < 63; i++)
                fields[i] = (LogField){ "F", "v" };
        memset(value, 'x', sizeof(value) - 1);
        fields[3].value = value;

        open_journal();
        assert_ok(log_new(LOG_FORMAT_JOURNAL, LOG_INFO, &log));
        log_info(log, fields, "m");
        assert_true(read_journal() > 16000);
        assert_contains(entry, "\nF=v\nF=v\nF=v\nF=xxx");

        fields[3].value = "v";
        log_info(log, fields, "m");
        assert_true(read_journal() < 400);
        close(journal);
}

/* It does not stop the agent; when it is read again, it says how much is missing. */
TEST(test_journal_that_is_not_read) {
        static const char lost[] = "MESSAGE=Lost ";
        cleanup(log_free_p) Log *log = NULL;
        unsigned n_kept = 0, n_lost = 0;

        open_journal();
        assert_ok(log_new(LOG_FORMAT_JOURNAL, LOG_INFO, &log));
        for (unsigned i = 0; i < 20000; i++)
                log_info(log, NULL, "line");
        while (read_journal() > 0)
                n_kept++;
        assert_in_range(n_kept, 1, 19999);
        log_info(log, NULL, "kept");
        assert_true(read_journal() > 0);
        assert_memory_equal(entry, lost, sizeof(lost) - 1);
        assert_int_equal(sscanf(entry + sizeof(lost) - 1, "%u lines", &n_lost), 1);
        assert_int_equal(n_kept + n_lost, 20000);
        assert_true(read_journal() > 0);
        assert_contains(entry, "MESSAGE=kept\n");
        assert_ok(read_journal());
        close(journal);
}

/* Another one takes its place. */
TEST(test_journal_that_is_restarted) {
        cleanup(log_free_p) Log *log = NULL;

        open_journal();
        assert_ok(log_new(LOG_FORMAT_JOURNAL, LOG_INFO, &log));
        log_info(log, NULL, "one");
        close(journal);
        open_journal();
        log_info(log, NULL, "two");
        assert_true(read_journal() > 0);
        assert_contains(entry, "MESSAGE=two\n");
        close(journal);
}

TEST(test_words) {
        Error error = ERROR_INIT;
        LogFormat format = LOG_FORMAT_AUTO;
        int level = -1;

        assert_ok(log_level_from_string("debug", &level, NULL));
        assert_int_equal(level, LOG_DEBUG);
        assert_ok(log_level_from_string("error", &level, NULL));
        assert_int_equal(level, LOG_ERR);
        assert_true(log_level_from_string("loud", &level, &error) < 0);
        assert_string_equal(
                error_message(&error),
                "\"loud\" is not a log level: use error, warning, notice, info or debug");
        error_done(&error);
        assert_int_equal(level, LOG_ERR); /* left alone */

        assert_ok(log_format_from_string("json", &format, NULL));
        assert_int_equal(format, LOG_FORMAT_JSON);
        assert_true(log_format_from_string("xml", &format, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        error_done(&error);
}

int main(void) {
        assert_ok(unsetenv("JOURNAL_STREAM"));
        return unit_run();
}
