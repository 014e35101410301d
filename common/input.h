/*
 * Input: lines from standard input, whatever that is: a terminal, a pipe, a file, /dev/null,
 * nothing.
 */
#ifndef RS_INPUT_H
#define RS_INPUT_H

#include <stdbool.h>
#include <stddef.h>

enum rs_input_kind {
	RS_INPUT_NONE,     /* closed, or a terminal of which this is a background job: never read */
	RS_INPUT_TERMINAL, /* a person: can be asked again; its end (Ctrl-D) is an answer */
	RS_INPUT_STREAM,   /* a pipe or socket: its end is an answer */
	RS_INPUT_FILE,     /* a file or /dev/null: may hold lines; its end says nothing */
};

/* Longer lines come in pieces of this. */
#define RS_INPUT_LINE_SIZE 1024

struct rs_input {
	int fd;
	enum rs_input_kind kind;
	bool ended; /* nothing more will come */
	size_t used;
	char pending[RS_INPUT_LINE_SIZE];
};

/* Finds out what fd is. The descriptor stays the caller's and as it is. */
void rs_input_open(struct rs_input *input, int fd);

/* Whether it makes sense to wait for fd. */
bool rs_input_is_open(const struct rs_input *input);

/* Reads what is there; call it when fd is readable. An error counts as the end. */
void rs_input_fill(struct rs_input *input);

/*
 * Takes the next whole line (at the end also an unfinished one), terminated, without its newline.
 * False: none.
 */
bool rs_input_take_line(struct rs_input *input, char line[RS_INPUT_LINE_SIZE + 1]);

/* Forgets what a person typed ahead, Ctrl-D included; does nothing for other kinds. */
void rs_input_forget_typed(struct rs_input *input);

#endif
