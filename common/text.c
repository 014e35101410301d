#include "text.h"

#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

static size_t escape_byte(unsigned char byte, char out[5])
{
	static const char *const named[] = { ['\n'] = "\\n", ['\r'] = "\\r", ['\t'] = "\\t" };

	if (byte < sizeof(named) / sizeof(named[0]) && named[byte])
		return (size_t)sprintf(out, "%s", named[byte]);
	return (size_t)sprintf(out, "\\x%02x", byte);
}

static size_t escape_bytes(const char *bytes, size_t length, char *out)
{
	size_t used = 0;

	for (size_t i = 0; i < length; i++)
		used += escape_byte((unsigned char)bytes[i], out + used);
	return used;
}

/* Characters without a width of their own, some of which reorder the text around them. */
static bool is_invisible(wchar_t character)
{
	return (character >= 0x200b && character <= 0x200f) || /* zero width, direction marks */
	       (character >= 0x202a && character <= 0x202e) || /* embeddings, overrides */
	       (character >= 0x2060 && character <= 0x206f) || /* joiners, isolates */
	       character == 0x061c || character == 0xfeff;
}

/* Bytes of the first character, or 0 if there is none. */
static size_t decode(const char *in, size_t length, wchar_t *character)
{
	mbstate_t start = { 0 };
	size_t bytes = mbrtowc(character, in, length, &start);

	if (bytes == 0) /* NUL */
		return 1;
	/* The C library goes beyond Unicode. */
	return bytes <= length && *character <= 0x10ffff ? bytes : 0;
}

/* In a locale whose characters are UTF-8. */
static bool escape(const char *in, size_t length, char *out, size_t size)
{
	bool valid = true, full = false;
	size_t used = 0;

	while (length > 0) {
		char piece[4 * MB_LEN_MAX + 1];
		wchar_t character;
		size_t bytes = decode(in, length, &character);
		size_t piece_length;

		valid = valid && bytes > 0;
		if (bytes > 0 && iswprint((wint_t)character) && !is_invisible(character)) {
			piece_length = bytes;
			memcpy(piece, in, bytes);
		} else {
			bytes = bytes > 0 ? bytes : 1;
			piece_length = escape_bytes(in, bytes, piece);
		}
		full = full || used + piece_length >= size;
		if (!full) {
			memcpy(out + used, piece, piece_length);
			used += piece_length;
		}
		in += bytes;
		length -= bytes;
	}
	out[used] = '\0';
	return valid;
}

bool rs_text_escape(const void *text, size_t length, char *out, size_t size)
{
	locale_t utf8, previous;
	bool valid;

	if (size == 0)
		return false;
	utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	/* Without that locale only ASCII counts as printable: nothing slips through. */
	previous = utf8 ? uselocale(utf8) : (locale_t)0;
	valid = escape(text, length, out, size);
	if (utf8) {
		uselocale(previous);
		freelocale(utf8);
	}
	return valid;
}

void rs_text_append(char *text, size_t size, const char *format, ...)
{
	size_t used = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + used, size - used, format, arguments);
	va_end(arguments);
}
