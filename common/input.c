#include "input.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

/* Of a terminal that is not the process's own, anybody may read. */
static bool is_in_background(int fd)
{
	pid_t group = tcgetpgrp(fd);

	return group >= 0 && group != getpgrp();
}

static enum rs_input_kind kind_of(int fd)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return RS_INPUT_NONE;
	if (isatty(fd))
		return is_in_background(fd) ? RS_INPUT_NONE : RS_INPUT_TERMINAL;
	return S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) ? RS_INPUT_STREAM
								    : RS_INPUT_FILE;
}

void rs_input_open(struct rs_input *input, int fd)
{
	*input = (struct rs_input){ .fd = fd, .kind = kind_of(fd) };
	input->ended = input->kind == RS_INPUT_NONE;
}

bool rs_input_is_open(const struct rs_input *input)
{
	return !input->ended;
}

void rs_input_fill(struct rs_input *input)
{
	size_t room = sizeof(input->pending) - input->used;
	ssize_t count;

	if (input->ended || room == 0)
		return;
	/*
	 * Put there since it was opened. Reading would stop the program; what is typed is not for
	 * it.
	 */
	if (input->kind == RS_INPUT_TERMINAL && is_in_background(input->fd)) {
		input->kind = RS_INPUT_NONE;
		input->ended = true;
		return;
	}
	count = read(input->fd, input->pending + input->used, room);
	if (count > 0)
		input->used += (size_t)count;
	else if (count == 0 || (errno != EAGAIN && errno != EINTR))
		input->ended = true;
}

/* Bytes of the first line, its newline included; 0 if it is not whole. */
static size_t line_length(const struct rs_input *input)
{
	const char *newline = memchr(input->pending, '\n', input->used);

	if (newline)
		return (size_t)(newline - input->pending) + 1;
	return input->ended || input->used == sizeof(input->pending) ? input->used : 0;
}

bool rs_input_take_line(struct rs_input *input, char line[RS_INPUT_LINE_SIZE + 1])
{
	size_t length = line_length(input);

	if (length == 0)
		return false;
	memcpy(line, input->pending, length);
	line[line[length - 1] == '\n' ? length - 1 : length] = '\0';
	input->used -= length;
	memmove(input->pending, input->pending + length, input->used);
	return true;
}

void rs_input_forget_typed(struct rs_input *input)
{
	if (input->kind != RS_INPUT_TERMINAL || is_in_background(input->fd))
		return;
	input->used = 0;
	input->ended = false; /* Ctrl-D ends what was typed, not the terminal */
	tcflush(input->fd, TCIFLUSH);
}
