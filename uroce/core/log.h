/*
 * Log: lines on standard error, "uroce: message". UROCE_LOG names the level: error, warning, info,
 * debug; default error. A program that runs on the device has its own output, so what is said
 * without being asked is only what explains a failure.
 */
#ifndef UR_LOG_H
#define UR_LOG_H

#include <stdbool.h>

enum ur_log_level { UR_LOG_ERROR, UR_LOG_WARNING, UR_LOG_INFO, UR_LOG_DEBUG };

/* Whether lines of that level are written, to keep the making of costly ones off the data path. */
bool ur_log_enabled(enum ur_log_level level);

/* One line, written by one system call, control characters escaped. Keeps errno. */
void ur_log(enum ur_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
