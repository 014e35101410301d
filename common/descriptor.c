#define LOG_MODULE "descriptor"

#include "descriptor.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libdeflate.h>

#include "access.h"
#include "device.h"
#include "log.h"
#include "text.h"

#define MAGIC           "rdma1"
#define CRC_KEY         " crc="
#define BITS(n)         ((UINT64_C(1) << (n)) - 1)
#define LINE_MAX_LENGTH (RS_DESCRIPTOR_LINE_SIZE - 1)
#define NAME_MAX_LENGTH (RS_DESCRIPTOR_NAME_SIZE - 1)
#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789_-"

/* A value's name in the line. Lists end with a NULL name. */
struct name {
	const char *name;
	uint64_t value;
};

static const struct name transports[] = { { "rc", IBV_QPT_RC }, { NULL, 0 } };
static const struct name link_layers[] = { { "ethernet", IBV_LINK_LAYER_ETHERNET },
					   { "infiniband", IBV_LINK_LAYER_INFINIBAND },
					   { NULL, 0 } };
static const struct name gid_types[] = { { "ib", IBV_GID_TYPE_IB },
					 { "rocev1", IBV_GID_TYPE_ROCE_V1 },
					 { "rocev2", IBV_GID_TYPE_ROCE_V2 },
					 { NULL, 0 } };
static const struct name mtus[] = { { "256", 256 },   { "512", 512 },   { "1024", 1024 },
				    { "2048", 2048 }, { "4096", 4096 }, { NULL, 0 } };

/* A set is written as its members joined by "+", the empty one as the first entry. */
static const struct name accesses[] = { { "none", 0 },
					{ "remote-read", RS_ACCESS_REMOTE_READ },
					{ "remote-write", RS_ACCESS_REMOTE_WRITE },
					{ "remote-atomic", RS_ACCESS_REMOTE_ATOMIC },
					{ NULL, 0 } };

enum form { FORM_DECIMAL, FORM_HEX, FORM_NAME, FORM_SET, FORM_GID, FORM_TEXT };

struct field {
	const char *key;
	enum form form;
	size_t offset;            /* in struct rs_descriptor */
	uint64_t max;             /* FORM_DECIMAL, FORM_HEX */
	int digits;               /* FORM_HEX: written with at least so many */
	const struct name *names; /* FORM_NAME, FORM_SET */
};

#define AT(member) offsetof(struct rs_descriptor, member)

static const struct field connection_fields[] = {
	{ "name", FORM_TEXT, AT(connection.name), 0, 0, NULL },
	{ "id", FORM_DECIMAL, AT(connection.id), RS_DESCRIPTOR_MAX_ID, 0, NULL },
	{ "transport", FORM_NAME, AT(connection.transport), 0, 0, transports },
	{ "link", FORM_NAME, AT(connection.link_layer), 0, 0, link_layers },
	{ "gid", FORM_GID, AT(connection.gid), 0, 0, NULL },
	{ "gid-type", FORM_NAME, AT(connection.gid_type), 0, 0, gid_types },
	{ "lid", FORM_DECIMAL, AT(connection.lid), BITS(16), 0, NULL },
	{ "qpn", FORM_HEX, AT(connection.qpn), BITS(24), 6, NULL },
	{ "psn", FORM_HEX, AT(connection.psn), BITS(24), 6, NULL },
	{ "mtu", FORM_NAME, AT(connection.mtu), 0, 0, mtus },
	{ "reads", FORM_DECIMAL, AT(connection.reads), 255, 0, NULL },
	{ "time", FORM_DECIMAL, AT(time), UINT64_MAX, 0, NULL },
	{ NULL, 0, 0, 0, 0, NULL },
};

static const struct field mmap_fields[] = {
	{ "addr", FORM_HEX, AT(mmap.addr), UINT64_MAX, 1, NULL },
	{ "len", FORM_DECIMAL, AT(mmap.len), UINT64_MAX, 0, NULL },
	{ "rkey", FORM_HEX, AT(mmap.rkey), BITS(32), 8, NULL },
	{ "access", FORM_SET, AT(mmap.access), 0, 0, accesses },
	{ "time", FORM_DECIMAL, AT(time), UINT64_MAX, 0, NULL },
	{ NULL, 0, 0, 0, 0, NULL },
};

static const struct field event_fields[] = {
	{ "addr", FORM_HEX, AT(event.addr), UINT64_MAX, 1, NULL },
	{ "rkey", FORM_HEX, AT(event.rkey), BITS(32), 8, NULL },
	{ "time", FORM_DECIMAL, AT(time), UINT64_MAX, 0, NULL },
	{ NULL, 0, 0, 0, 0, NULL },
};

static const struct {
	const char *name;
	const struct field *fields;
} kinds[RS_DESCRIPTOR_KIND_COUNT] = {
	[RS_DESCRIPTOR_CONNECTION] = { "conn", connection_fields },
	[RS_DESCRIPTOR_MMAP] = { "mmap", mmap_fields },
	[RS_DESCRIPTOR_EVENT] = { "event", event_fields },
};

const char *rs_descriptor_kind_name(enum rs_descriptor_kind kind)
{
	return (unsigned)kind < RS_DESCRIPTOR_KIND_COUNT ? kinds[kind].name : "unknown";
}

bool rs_descriptor_is_name(const char *name)
{
	size_t length = strspn(name, NAME_CHARACTERS);

	return length > 0 && length <= NAME_MAX_LENGTH && name[length] == '\0';
}

uint64_t rs_descriptor_now(void)
{
	return (uint64_t)time(NULL);
}

/* A line as it is being written or read, and the place in it. */
struct writer {
	char *line;
	size_t used;
};

static void put(struct writer *writer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void put(struct writer *writer, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(writer->line + writer->used, RS_DESCRIPTOR_LINE_SIZE - writer->used,
			   format, arguments);
	va_end(arguments);
	assert(length >= 0 && (size_t)length < RS_DESCRIPTOR_LINE_SIZE - writer->used);
	writer->used += (size_t)length;
}

static void put_set(struct writer *writer, const struct name *names, uint64_t value)
{
	const char *separator = "";
	uint64_t known = 0;

	for (const struct name *name = names; name->name; name++)
		known |= name->value;
	assert((value & ~known) == 0);
	if (value == names->value) {
		put(writer, "%s", names->name);
		return;
	}
	for (names++; names->name; names++) {
		if (!(value & names->value))
			continue;
		put(writer, "%s%s", separator, names->name);
		separator = "+";
	}
}

static const char *name_of(const struct name *names, uint64_t value)
{
	while (names->name && names->value != value)
		names++;
	assert(names->name);
	return names->name;
}

static void put_value(struct writer *writer, const struct field *field, const void *at)
{
	char gid[RS_GID_TEXT_SIZE];
	uint64_t value;

	/* Of a GID or a text, which are longer, it is not used. */
	memcpy(&value, at, sizeof(value));
	assert((field->form != FORM_DECIMAL && field->form != FORM_HEX) || value <= field->max);
	switch (field->form) {
	case FORM_DECIMAL:
		put(writer, "%" PRIu64, value);
		break;
	case FORM_HEX:
		put(writer, "0x%0*" PRIx64, field->digits, value);
		break;
	case FORM_NAME:
		put(writer, "%s", name_of(field->names, value));
		break;
	case FORM_SET:
		put_set(writer, field->names, value);
		break;
	case FORM_GID:
		put(writer, "%s", rs_gid_text(at, gid));
		break;
	case FORM_TEXT:
		assert(rs_descriptor_is_name(at));
		put(writer, "%s", (const char *)at);
		break;
	}
}

void rs_descriptor_format(const struct rs_descriptor *descriptor,
			  char line[RS_DESCRIPTOR_LINE_SIZE])
{
	struct writer writer = { .line = line };
	const struct field *field;

	put(&writer, MAGIC " %s", kinds[descriptor->kind].name);
	for (field = kinds[descriptor->kind].fields; field->key; field++) {
		put(&writer, " %s=", field->key);
		put_value(&writer, field, (const char *)descriptor + field->offset);
	}
	put(&writer, CRC_KEY "%08" PRIx32, libdeflate_crc32(0, line, writer.used));
}

/*
 * A line (without blanks around it) that is being read, what it gave so far, and where to put the
 * reason of a failure.
 */
struct reader {
	const char *line;
	const char *at;
	char *message;
};

/* Where: the place of the error, in the line. */
static enum rs_status bad(const struct reader *reader, const char *where, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static enum rs_status bad(const struct reader *reader, const char *where, const char *format, ...)
{
	va_list arguments;
	int used = snprintf(reader->message, RS_DESCRIPTOR_MESSAGE_SIZE,
			    "at character %td: ", where - reader->line + 1);

	va_start(arguments, format);
	vsnprintf(reader->message + used, RS_DESCRIPTOR_MESSAGE_SIZE - (size_t)used, format,
		  arguments);
	va_end(arguments);
	return RS_ERR_BAD_DESCRIPTOR;
}

/* The next word's length: up to the next blank or the end. */
static size_t word_length(const char *at)
{
	return strcspn(at, " ");
}

static bool word_is(const char *word, size_t length, const char *text)
{
	return strlen(text) == length && memcmp(word, text, length) == 0;
}

static enum rs_status list_names(const struct reader *reader, const struct field *field,
				 size_t length)
{
	char list[128] = "";

	for (const struct name *name = field->names; name->name; name++)
		rs_text_append(list, sizeof(list), "%s%s", list[0] ? ", " : "", name->name);
	return bad(reader, reader->at, "%s is \"%.*s\", but must be one of: %s", field->key,
		   (int)length, reader->at, list);
}

static const struct name *find_name(const struct name *names, const char *word, size_t length)
{
	for (; names->name; names++)
		if (word_is(word, length, names->name))
			return names;
	return NULL;
}

static enum rs_status read_name(struct reader *reader, const struct field *field, size_t length,
				uint64_t *value)
{
	const struct name *name = find_name(field->names, reader->at, length);

	if (!name)
		return list_names(reader, field, length);
	*value = name->value;
	return RS_OK;
}

static enum rs_status read_set(struct reader *reader, const struct field *field, size_t length,
			       uint64_t *value)
{
	size_t used = 0;

	*value = 0;
	while (used <= length) {
		size_t member_length = strcspn(reader->at + used, "+ ");
		const struct name *name = find_name(field->names, reader->at + used, member_length);

		if (!name)
			return list_names(reader, field, length);
		*value |= name->value;
		used += member_length + 1;
	}
	return RS_OK;
}

static enum rs_status read_number(struct reader *reader, const struct field *field, size_t length,
				  uint64_t *value)
{
	int base = field->form == FORM_HEX ? 16 : 10;
	char digits[24];
	char *end;

	if (length == 0 || length >= sizeof(digits))
		return bad(reader, reader->at, "%s is not a number", field->key);
	memcpy(digits, reader->at, length);
	digits[length] = '\0';
	errno = 0;
	*value = strtoull(digits, &end, base);
	if (*end != '\0' || digits[0] < '0' || digits[0] > '9')
		return bad(reader, reader->at, "%s is \"%s\", which is not a number", field->key,
			   digits);
	if (errno || *value > field->max)
		return bad(reader, reader->at,
			   field->form == FORM_HEX ? "%s is %s, but 0x%" PRIx64 " at most"
						   : "%s is %s, but %" PRIu64 " at most",
			   field->key, digits, field->max);
	return RS_OK;
}

static enum rs_status read_gid(struct reader *reader, const struct field *field, size_t length,
			       union ibv_gid *gid)
{
	char text[RS_GID_TEXT_SIZE];

	if (length >= sizeof(text))
		return bad(reader, reader->at, "%s is not a GID", field->key);
	memcpy(text, reader->at, length);
	text[length] = '\0';
	if (inet_pton(AF_INET6, text, gid->raw) != 1)
		return bad(reader, reader->at, "%s is \"%s\", which is not a GID", field->key,
			   text);
	return RS_OK;
}

static enum rs_status read_text(struct reader *reader, const struct field *field, size_t length,
				char text[RS_DESCRIPTOR_NAME_SIZE])
{
	if (length == 0)
		return bad(reader, reader->at, "%s is empty", field->key);
	if (length > NAME_MAX_LENGTH)
		return bad(reader, reader->at, "%s has %zu characters, but may have %d at most",
			   field->key, length, NAME_MAX_LENGTH);
	memcpy(text, reader->at, length);
	text[length] = '\0';
	if (!rs_descriptor_is_name(text))
		return bad(reader, reader->at,
			   "%s is \"%s\", but may have only a-z, 0-9, \"_\" and \"-\"", field->key,
			   text);
	return RS_OK;
}

static enum rs_status read_field(struct reader *reader, const struct field *field, void *value)
{
	size_t key_length = strlen(field->key);
	size_t length;
	enum rs_status status;

	if (strncmp(reader->at, field->key, key_length) != 0 || reader->at[key_length] != '=')
		return bad(reader, reader->at, "missing key \"%s\"", field->key);
	reader->at += key_length + 1;
	length = word_length(reader->at);
	switch (field->form) {
	case FORM_NAME:
		status = read_name(reader, field, length, value);
		break;
	case FORM_SET:
		status = read_set(reader, field, length, value);
		break;
	case FORM_GID:
		status = read_gid(reader, field, length, value);
		break;
	case FORM_TEXT:
		status = read_text(reader, field, length, value);
		break;
	default:
		status = read_number(reader, field, length, value);
		break;
	}
	reader->at += length;
	reader->at += *reader->at == ' ';
	return status;
}

static enum rs_status read_kind(struct reader *reader, enum rs_descriptor_kind *kind)
{
	size_t length = word_length(reader->at);

	if (!word_is(reader->at, length, MAGIC))
		return bad(reader, reader->at, "a descriptor begins with \"" MAGIC "\"");
	reader->at += length;
	reader->at += *reader->at == ' ';
	length = word_length(reader->at);
	for (*kind = 0; *kind < RS_DESCRIPTOR_KIND_COUNT; (*kind)++) {
		if (word_is(reader->at, length, kinds[*kind].name)) {
			reader->at += length;
			reader->at += *reader->at == ' ';
			return RS_OK;
		}
	}
	return bad(reader, reader->at, "unknown kind \"%.*s\" (conn, mmap, event)",
		   (int)(length < 32 ? length : 32), reader->at);
}

/* Before the values are looked at: a damaged line would be blamed for what it does not say. */
static enum rs_status check_crc(const struct reader *reader)
{
	const char *crc_at = NULL;
	char expected[sizeof("01234567")];

	for (const char *at = reader->line; (at = strstr(at, CRC_KEY)) != NULL; at++)
		crc_at = at;
	if (!crc_at)
		return bad(reader, reader->line + strlen(reader->line),
			   "no crc= at its end: was the line cut while copying?");
	snprintf(expected, sizeof(expected), "%08" PRIx32,
		 libdeflate_crc32(0, reader->line, (size_t)(crc_at - reader->line)));
	if (strcmp(crc_at + strlen(CRC_KEY), expected) != 0)
		return bad(reader, crc_at + 1,
			   "CRC mismatch: was the line cut or changed while copying?");
	return RS_OK;
}

/* What no single field can tell. */
static enum rs_status check_whole(const struct reader *reader,
				  const struct rs_descriptor *descriptor)
{
	uint64_t last;

	if (descriptor->kind == RS_DESCRIPTOR_MMAP &&
	    __builtin_add_overflow(descriptor->mmap.addr, descriptor->mmap.len, &last))
		return bad(reader, strstr(reader->line, "len="), "addr + len is beyond 64 bits");
	if (descriptor->kind == RS_DESCRIPTOR_EVENT && descriptor->event.addr % sizeof(uint64_t))
		return bad(reader, strstr(reader->line, "addr="), "addr is not a multiple of 8");
	return RS_OK;
}

/* One descriptor has one form: what formatting gives back must be what was read. */
static enum rs_status check_form(const struct reader *reader,
				 const struct rs_descriptor *descriptor)
{
	char canonical[RS_DESCRIPTOR_LINE_SIZE];
	size_t same = 0;

	rs_descriptor_format(descriptor, canonical);
	while (canonical[same] && canonical[same] == reader->line[same])
		same++;
	if (canonical[same] != reader->line[same])
		return bad(reader, reader->line + same,
			   "not written as a descriptor is; expected \"%.20s\"", canonical + same);
	return RS_OK;
}

static enum rs_status read_fields(struct reader *reader, struct rs_descriptor *descriptor)
{
	const struct field *field;

	for (field = kinds[descriptor->kind].fields; field->key; field++) {
		enum rs_status status =
			read_field(reader, field, (char *)descriptor + field->offset);

		if (status != RS_OK)
			return status;
	}
	return RS_OK;
}

static enum rs_status read_descriptor(struct reader *reader, struct rs_descriptor *descriptor)
{
	enum rs_status status = read_kind(reader, &descriptor->kind);

	if (status == RS_OK)
		status = check_crc(reader);
	if (status == RS_OK)
		status = read_fields(reader, descriptor);
	if (status == RS_OK)
		status = check_whole(reader, descriptor);
	if (status == RS_OK)
		status = check_form(reader, descriptor);
	return status;
}

enum rs_status rs_descriptor_parse(const char *line, struct rs_descriptor *descriptor,
				   char message[RS_DESCRIPTOR_MESSAGE_SIZE])
{
	char trimmed[RS_DESCRIPTOR_LINE_SIZE];
	struct reader reader = { .line = trimmed, .at = trimmed, .message = message };
	struct rs_descriptor parsed = { 0 };
	enum rs_status status;
	size_t length;

	line += strspn(line, " \t");
	length = strlen(line);
	while (length > 0 && strchr(" \t\r\n", line[length - 1]))
		length--;
	if (length > LINE_MAX_LENGTH) {
		reader.line = line;
		return bad(&reader, line + LINE_MAX_LENGTH, "longer than any descriptor");
	}
	memcpy(trimmed, line, length);
	trimmed[length] = '\0';
	status = read_descriptor(&reader, &parsed);
	if (status == RS_OK)
		*descriptor = parsed;
	return status;
}

enum rs_status rs_descriptor_read(const char *line, enum rs_descriptor_kind kind,
				  struct rs_descriptor *descriptor)
{
	char message[RS_DESCRIPTOR_MESSAGE_SIZE];
	struct rs_descriptor parsed;
	enum rs_status status = rs_descriptor_parse(line, &parsed, message);

	if (status != RS_OK) {
		LOG_ERROR("%s", message);
		return status;
	}
	if (parsed.kind != kind) {
		LOG_ERROR("this is a \"%s\" descriptor, wanted is a \"%s\" descriptor",
			  rs_descriptor_kind_name(parsed.kind), rs_descriptor_kind_name(kind));
		return RS_ERR_BAD_DESCRIPTOR;
	}
	*descriptor = parsed;
	return RS_OK;
}
