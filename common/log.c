#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "text.h"

#define LINE_SIZE 2048

static enum rs_log_level max_level = RS_LOG_INFO;
static rs_log_sink current_sink;
static void *current_sink_data;
static unsigned error_count;

static const char *const level_names[] = {
	[RS_LOG_ERROR] = "error",
	[RS_LOG_WARNING] = "warning",
	[RS_LOG_INFO] = "info",
	[RS_LOG_DEBUG] = "debug",
};

void rs_log_set_level(enum rs_log_level level)
{
	max_level = level;
}

bool rs_log_level_from_name(const char *name, enum rs_log_level *level)
{
	for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (strcasecmp(name, level_names[i]) == 0) {
			*level = (enum rs_log_level)i;
			return true;
		}
	}
	return false;
}

void rs_log_set_sink(rs_log_sink sink, void *user_data)
{
	current_sink = sink;
	current_sink_data = user_data;
}

unsigned rs_log_error_count(void)
{
	return error_count;
}

static void write_line(enum rs_log_level level, char *line)
{
	size_t length = strlen(line);

	if (current_sink) {
		current_sink(level, line, current_sink_data);
		return;
	}
	line[length] = '\n';
	/* Nowhere is left to report that standard error is gone. */
	if (write(STDERR_FILENO, line, length + 1) < 0)
		return;
}

static void log_message(enum rs_log_level level, const char *module, const char *message)
{
	const char *label = level == RS_LOG_ERROR     ? "error: "
			    : level == RS_LOG_WARNING ? "warning: "
						      : "";
	char line[LINE_SIZE];
	int used = snprintf(line, sizeof(line), "%s: %s", module, label);

	/* One byte stays free for write_line's newline. */
	rs_text_escape(message, strlen(message), line + used, sizeof(line) - (size_t)used - 1);
	write_line(level, line);
}

void rs_log(enum rs_log_level level, const char *module, const char *format, ...)
{
	char message[LINE_SIZE];
	va_list arguments;
	int saved_errno = errno;

	error_count += level == RS_LOG_ERROR;
	if (level > max_level)
		return;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	log_message(level, module, message);
	errno = saved_errno;
}

static const char *usual_cause(int error)
{
	switch (error) {
	case EPERM:
	case EACCES:
		return "no right to use /dev/infiniband/*, or this access is forbidden";
	case ENOMEM:
		return "out of memory, or over the limit of locked memory (see ulimit -l)";
	case EINVAL:
		return "the device does not take one of these values";
	case ENOSYS:
	case EOPNOTSUPP:
		return "the device or its driver does not have this function";
	case ENODEV:
	case EIO:
		return "the device has failed or was removed";
	case EMFILE:
	case ENFILE:
		return "too many open files (see ulimit -n)";
	default:
		return NULL;
	}
}

enum rs_status rs_log_failed_call(const char *module, int error, const char *cause,
				  const char *format, ...)
{
	enum rs_status status = rs_status_from_errno(error);
	char call[LINE_SIZE / 2];
	char reason[128];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(call, sizeof(call), format, arguments);
	va_end(arguments);
	cause = cause ? cause : usual_cause(error);
	rs_log(RS_LOG_ERROR, module, "%s failed: %s%s%s", call,
	       strerror_r(error, reason, sizeof(reason)), cause && cause[0] ? ": " : "",
	       cause ? cause : "");
	return status == RS_OK ? RS_ERR_UNKNOWN : status;
}
