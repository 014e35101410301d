#include "sample_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "text.h"
#include "version.h"

#define MAX_LABEL 64

#define DEL 0x7f

/* A text as it is, and as it is fit for a terminal. */
struct text {
	const char *bytes;
	size_t length;
	char printable[RS_TEXT_ESCAPED_SIZE(SAMPLE_TEXT_SIZE)];
	bool is_utf8;
};

static struct text text_of(const char *bytes, size_t length)
{
	struct text text = { .bytes = bytes, .length = length };

	text.is_utf8 = rs_text_escape(bytes, length, text.printable, sizeof(text.printable));
	return text;
}

/* The C library forgets a failure once it has reported it. */
void sample_flush_output(struct sample *sample)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		sample_record(sample, LOG_FAILED_SYSTEM_CALL(errno, "printing the result"));
	clearerr(stdout);
}

/* ---- JSON ---- */

/* value's reference is taken; NULL, as jansson gives when memory is short, is an error. */
static void put_result(struct sample *sample, const char *key, json_t *value)
{
	if (json_object_set_new(sample->result, key, value) != 0)
		sample_record(sample, RS_ERR_NO_MEMORY);
}

static void append_result(struct sample *sample, const char *key, json_t *value)
{
	if (!json_object_get(sample->result, key))
		put_result(sample, key, json_array());
	if (json_array_append_new(json_object_get(sample->result, key), value) != 0)
		sample_record(sample, RS_ERR_NO_MEMORY);
}

/* JSON knows no text but UTF-8. */
static json_t *json_text(const struct text *text)
{
	return text->is_utf8 ? json_stringn(text->bytes, text->length)
			     : json_string(text->printable);
}

/*
 * In ASCII, so that a terminal, too, can have it: of the characters that do something there, jansson
 * escapes all but DEL.
 */
static bool print_object(const json_t *object)
{
	char *text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII);

	for (const char *at = text; at && *at; at++)
		printf(*at == DEL ? "\\u%04x" : "%c", *at);
	free(text);
	return text && printf("\n") > 0;
}

void sample_print_json(struct sample *sample, int exit_status)
{
	json_t *object =
		json_pack("{s:s, s:s, s:s?, s:s, s:s, s:i, s:n}", "program",
			  sample->options->program->name, "version", RS_VERSION, "device",
			  sample->device_name[0] ? sample->device_name : NULL, "status",
			  rs_status_name(sample->first_error), "message",
			  rs_status_text(sample->first_error), "exit_status", exit_status, "text");

	if (!object || (sample->result && json_object_update(object, sample->result) != 0) ||
	    !print_object(object))
		sample_record(sample, LOG_FAILED_SYSTEM_CALL(errno, "printing the result"));
	json_decref(object);
}

/* ---- Texts ---- */

/* What the peer has put into length bytes. False: it is no text; that is recorded. */
static bool read_text(struct sample *sample, const char *bytes, size_t length, struct text *text)
{
	const char *end = memchr(bytes, '\0', length);

	if (!end) {
		LOG_ERROR("the peer's data is no text: it is not terminated within %zu bytes",
			  length);
		sample_record(sample, RS_ERR_BAD_DATA);
		return false;
	}
	*text = text_of(bytes, (size_t)(end - bytes));
	if (!text->is_utf8) {
		LOG_ERROR("the peer's text is not valid UTF-8: \"%s\"", text->printable);
		sample_record(sample, RS_ERR_BAD_DATA);
	}
	return text->is_utf8;
}

static void print_line(struct sample *sample, const char *label, const char *value)
{
	printf("%s: %s\n", label, value);
	sample_flush_output(sample); /* at once, also through a pipe */
}

static void print_text(struct sample *sample, const char *label, const struct text *text)
{
	if (sample->result)
		put_result(sample, "text", json_text(text));
	else
		print_line(sample, label, text->printable);
}

static void print_text_on(struct sample *sample, const char *label,
			  const struct rs_connection *connection, const struct text *text)
{
	unsigned id = rs_connection_id(connection);
	char whole_label[MAX_LABEL];

	if (sample->result) {
		append_result(sample, "messages",
			      json_pack("{s:i, s:o}", "connection", (int)id, "text",
					json_text(text)));
		return;
	}
	snprintf(whole_label, sizeof(whole_label), "%s connection %u", label, id);
	print_line(sample, whole_label, text->printable);
}

static struct text own_text(const struct sample *sample)
{
	return text_of(sample->options->text, strlen(sample->options->text));
}

void sample_print_own_text(struct sample *sample, const char *label)
{
	struct text text = own_text(sample);

	if (!sample_has_failed(sample))
		print_text(sample, label, &text);
}

void sample_print_own_text_on(struct sample *sample, const char *label,
			      const struct rs_connection *connection)
{
	struct text text = own_text(sample);

	if (!sample_has_failed(sample))
		print_text_on(sample, label, connection, &text);
}

static void print_peer_bytes(struct sample *sample, const char *label, const char *bytes,
			     size_t length)
{
	struct text text;

	if (!sample_has_failed(sample) && read_text(sample, bytes, length, &text))
		print_text(sample, label, &text);
}

void sample_print_received(struct sample *sample, const char *label, const struct rs_buf *buf)
{
	print_peer_bytes(sample, label, rs_buf_data(buf), rs_buf_data_length(buf));
}

/* As sample_create_room_mmap has left it. */
static bool is_unwritten(const char *memory, size_t length)
{
	return (unsigned char)memory[0] == SAMPLE_UNWRITTEN &&
	       memcmp(memory, memory + 1, length - 1) == 0;
}

void sample_print_written(struct sample *sample, const char *label, size_t length)
{
	if (!sample_has_failed(sample) && length > 0 && is_unwritten(sample->memory, length)) {
		LOG_ERROR("%s has written nothing", sample->options->program->peer);
		sample_record(sample, RS_ERR_BAD_DATA);
	}
	print_peer_bytes(sample, label, sample->memory, length);
}

void sample_print_received_on(struct sample *sample, const char *label,
			      const struct rs_connection *connection, const struct rs_buf *buf)
{
	struct text text;

	if (!sample_has_failed(sample) &&
	    read_text(sample, rs_buf_data(buf), rs_buf_data_length(buf), &text))
		print_text_on(sample, label, connection, &text);
}

/* ---- Other results ---- */

void sample_check_opcode(struct sample *sample, const struct rs_task *receive,
			 enum rs_receive_opcode expected)
{
	enum rs_receive_opcode opcode = rs_task_result_opcode(receive);

	if (sample_has_failed(sample) || opcode == expected)
		return;
	LOG_ERROR("wrong opcode: the peer's message is a %s, but this program expects a %s",
		  rs_receive_opcode_name(opcode), rs_receive_opcode_name(expected));
	sample_record(sample, RS_ERR_BAD_DATA);
}

void sample_print_immediate(struct sample *sample, uint32_t immediate)
{
	char text[sizeof("0x01234567")];

	if (sample_has_failed(sample))
		return;
	snprintf(text, sizeof(text), "0x%" PRIx32, immediate);
	if (sample->result)
		put_result(sample, "immediate", json_integer(immediate));
	else
		print_line(sample, "Immediate value", text);
}

void sample_print_value(struct sample *sample, const char *label, uint64_t value)
{
	char text[sizeof("18446744073709551615")];

	if (sample_has_failed(sample))
		return;
	snprintf(text, sizeof(text), "%" PRIu64, value);
	/* As a text, since JSON's readers know numbers of 53 bits. */
	if (sample->result)
		append_result(sample, "values", json_string(text));
	else
		print_line(sample, label, text);
}
