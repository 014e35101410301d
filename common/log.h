/*
 * Log: leveled lines on standard error, "module: message".
 *
 * A source file names its module before it includes this header: #define LOG_MODULE "mmap".
 */
#ifndef RS_LOG_H
#define RS_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

enum rs_log_level { RS_LOG_ERROR, RS_LOG_WARNING, RS_LOG_INFO, RS_LOG_DEBUG };

/* Lines of a level above this one are dropped. Default: RS_LOG_INFO. */
void rs_log_set_level(enum rs_log_level level);

/* The level that name ("error", "warning", "info", "debug") stands for; false if it is no level. */
bool rs_log_level_from_name(const char *name, enum rs_log_level *level);

/*
 * Lines of level RS_LOG_ERROR so far, also those that the level or a sink kept from the terminal.
 */
unsigned rs_log_error_count(void);

/* Takes each line (terminated, without a newline) in place of standard error; for tests. */
typedef void (*rs_log_sink)(enum rs_log_level level, const char *line, void *user_data);

/* sink NULL: standard error again. */
void rs_log_set_sink(rs_log_sink sink, void *user_data);

/*
 * Logs one line. Control characters in it are escaped, since messages quote what came from outside.
 * A line is written by one system call, so that the lines of two programs on one terminal do not
 * mix.
 */
void rs_log(enum rs_log_level level, const char *module, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Logs a failed call once: what was called, with its arguments, why it failed, and what is the
 * likely cause. error: errno value. cause: in words, "" for none, or NULL for the one that this
 * errno usually has in verbs. Returns the status for error, never RS_OK.
 */
enum rs_status rs_log_failed_call(const char *module, int error, const char *cause,
				  const char *format, ...) __attribute__((format(printf, 4, 5)));

#define LOG_ERROR(...)   rs_log(RS_LOG_ERROR, LOG_MODULE, __VA_ARGS__)
#define LOG_WARNING(...) rs_log(RS_LOG_WARNING, LOG_MODULE, __VA_ARGS__)
#define LOG_INFO(...)    rs_log(RS_LOG_INFO, LOG_MODULE, __VA_ARGS__)
#define LOG_DEBUG(...)   rs_log(RS_LOG_DEBUG, LOG_MODULE, __VA_ARGS__)

/* A verbs call, and any other. */
#define LOG_FAILED_CALL(error, cause, ...) rs_log_failed_call(LOG_MODULE, error, cause, __VA_ARGS__)
#define LOG_FAILED_SYSTEM_CALL(error, ...) rs_log_failed_call(LOG_MODULE, error, "", __VA_ARGS__)

#endif
