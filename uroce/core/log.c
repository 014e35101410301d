#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_SIZE 1024

static const char *const level_names[] = {
	[UR_LOG_ERROR] = "error",
	[UR_LOG_WARNING] = "warning",
	[UR_LOG_INFO] = "info",
	[UR_LOG_DEBUG] = "debug",
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum ur_log_level max_level = UR_LOG_ERROR;

static size_t escape(char c, char *out)
{
	if (c >= ' ' && c <= '~') {
		*out = c;
		return 1;
	}
	return (size_t)sprintf(out, "\\x%02x", (unsigned char)c);
}

/* A message that is too long is cut. */
static void write_line(const char *message)
{
	char line[LINE_SIZE] = "uroce: ";
	size_t used = strlen(line);

	for (; *message && used < sizeof(line) - sizeof("\\xff\n"); message++)
		used += escape(*message, line + used);
	line[used++] = '\n';
	/* Nowhere is left to report that standard error is gone. */
	if (write(STDERR_FILENO, line, used) < 0)
		return;
}

static void read_level(void)
{
	const char *name = getenv("UROCE_LOG");
	char message[LINE_SIZE];

	if (!name || !*name)
		return;
	for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (strcmp(name, level_names[i]) == 0) {
			max_level = (enum ur_log_level)i;
			return;
		}
	}
	snprintf(message, sizeof(message),
		 "UROCE_LOG: \"%s\" is not one of error, warning, info, debug", name);
	write_line(message);
}

bool ur_log_enabled(enum ur_log_level level)
{
	pthread_once(&once, read_level);
	return level <= max_level;
}

void ur_log(enum ur_log_level level, const char *format, ...)
{
	int saved_errno = errno;
	char message[LINE_SIZE];
	va_list arguments;

	if (!ur_log_enabled(level))
		return;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	write_line(message);
	errno = saved_errno;
}
