/*
 * libFuzzer target for rs_descriptor_parse.
 *
 * The first byte chooses what the rest is: an arbitrary line, or the part before a CRC that is
 * then right, without which the parsers of the values would hardly ever be reached.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libdeflate.h>

#include "descriptor.h"

/* Longer than any line, so that the limit is tested too. */
#define MAX_TEXT 1024

#define UNTOUCHED 0xa5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_parsed(const char *line, const struct rs_descriptor *descriptor)
{
	char formatted[RS_DESCRIPTOR_LINE_SIZE];
	size_t length;

	/* What was accepted is the one form of that descriptor, with blanks around it at most. */
	rs_descriptor_format(descriptor, formatted);
	length = strlen(formatted);
	line += strspn(line, " \t");
	assert(strncmp(line, formatted, length) == 0);
	assert(strspn(line + length, " \t\r\n") == strlen(line + length));
}

static void check_refused(const struct rs_descriptor *descriptor, const char *message)
{
	const uint8_t *bytes = (const uint8_t *)descriptor;
	const char *place = "at character ";

	for (size_t i = 0; i < sizeof(*descriptor); i++)
		assert(bytes[i] == UNTOUCHED);
	assert(memchr(message, '\0', RS_DESCRIPTOR_MESSAGE_SIZE));
	assert(strncmp(message, place, strlen(place)) == 0);
}

static void parse(const char *line)
{
	struct rs_descriptor descriptor;
	char message[RS_DESCRIPTOR_MESSAGE_SIZE];
	enum rs_status status;

	memset(&descriptor, UNTOUCHED, sizeof(descriptor));
	memset(message, UNTOUCHED, sizeof(message));
	status = rs_descriptor_parse(line, &descriptor, message);
	assert(status == RS_OK || status == RS_ERR_BAD_DESCRIPTOR);
	if (status == RS_OK)
		check_parsed(line, &descriptor);
	else
		check_refused(&descriptor, message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* On the heap and of the exact size, so that reading beyond it is found. */
	char *line;
	size_t length;

	if (size == 0 || size > MAX_TEXT)
		return 0;
	length = size - 1;
	line = malloc(length + sizeof(" crc=01234567"));
	assert(line);
	memcpy(line, data + 1, length);
	line[length] = '\0';
	length = strlen(line);
	if (data[0] % 2)
		sprintf(line + length, " crc=%08" PRIx32, libdeflate_crc32(0, line, length));
	parse(line);
	free(line);
	return 0;
}
