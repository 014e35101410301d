/*
 * Text that came from outside, made fit for a terminal.
 */
#ifndef RS_TEXT_H
#define RS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Room that rs_text_escape needs at most for length bytes of text, the terminator included. */
#define RS_TEXT_ESCAPED_SIZE(length) (4 * (length) + 1)

/*
 * Writes the text with every character that is not printable or not visible, and every byte that is
 * not UTF-8, as an escape (\n, \t, \x1b), so that it can neither move the cursor nor change the
 * terminal's state. out: size bytes, terminated; what does not fit is left out, never half a
 * character. Returns whether the text was valid UTF-8.
 */
bool rs_text_escape(const void *text, size_t length, char *out, size_t size);

/*
 * Writes behind the text that is there, in all at most size bytes with the terminator; the rest is
 * left out.
 */
void rs_text_append(char *text, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
