#define LOG_MODULE "exchange"

#include "exchange.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "descriptor_file.h"
#include "log.h"
#include "text.h"

/* How often it looks whether files have appeared. Not every file system tells. */
#define LOOK_INTERVAL_MS 100

/*
 * How long a bad file must stay as it is before it counts as bad: it may be on its way (scp writes
 * in place).
 */
#define SETTLE_MS 1000

#define MAX_ITEMS 4

struct rs_exchange {
	const char *peer;
	struct rs_input *input;
	FILE *out;
	int cancel_fd;
	struct rs_descriptor_file *files[MAX_ITEMS]; /* published */
	size_t file_count;
	char (*own_lines)[RS_DESCRIPTOR_LINE_SIZE];
	size_t own_count;
};

enum rs_status rs_exchange_create(const char *peer, struct rs_input *input, FILE *out,
				  int cancel_fd, struct rs_exchange **exchange)
{
	struct rs_exchange *created = calloc(1, sizeof(*created));

	if (!created)
		return RS_ERR_NO_MEMORY;
	created->peer = peer;
	created->input = input;
	created->out = out;
	created->cancel_fd = cancel_fd;
	*exchange = created;
	return RS_OK;
}

void rs_exchange_destroy(struct rs_exchange *exchange)
{
	if (!exchange)
		return;
	for (size_t i = 0; i < exchange->file_count; i++)
		rs_descriptor_file_remove(exchange->files[i]);
	free(exchange->own_lines);
	free(exchange);
}

/* ---- Publish ---- */

static enum rs_status keep_own_lines(struct rs_exchange *exchange,
				     const struct rs_exchange_item *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t total = exchange->own_count + items[i].count;
		void *grown = realloc(exchange->own_lines, total * sizeof(exchange->own_lines[0]));

		if (!grown)
			return RS_ERR_NO_MEMORY;
		exchange->own_lines = grown;
		memcpy(exchange->own_lines[exchange->own_count], items[i].lines,
		       items[i].count * sizeof(items[i].lines[0]));
		exchange->own_count = total;
	}
	return RS_OK;
}

static void list_paths(const struct rs_exchange_item *items, size_t count, char *text, size_t size)
{
	text[0] = '\0';
	for (size_t i = 0; i < count; i++)
		rs_text_append(text, size, "%s%s", text[0] ? " and " : "", items[i].path);
}

static enum rs_status print_lines(struct rs_exchange *exchange,
				  const struct rs_exchange_item *items, size_t count)
{
	char paths[1024];

	list_paths(items, count, paths, sizeof(paths));
	LOG_INFO("copy this to %s; on this machine it can read it from %s", exchange->peer, paths);
	for (size_t i = 0; i < count; i++)
		for (size_t line = 0; line < items[i].count; line++)
			fprintf(exchange->out, "%s\n", items[i].lines[line]);
	if (fflush(exchange->out) != 0 || ferror(exchange->out))
		return LOG_FAILED_SYSTEM_CALL(errno, "printing the descriptors");
	return RS_OK;
}

static enum rs_status write_file(struct rs_exchange *exchange, const struct rs_exchange_item *item)
{
	enum rs_status status;

	if (exchange->file_count == MAX_ITEMS)
		return RS_ERR_FULL;
	status = rs_descriptor_file_write(item->path,
					  (const char(*)[RS_DESCRIPTOR_LINE_SIZE])item->lines,
					  item->count, &exchange->files[exchange->file_count]);
	exchange->file_count += status == RS_OK;
	return status;
}

enum rs_status rs_exchange_publish(struct rs_exchange *exchange,
				   const struct rs_exchange_item *items, size_t count)
{
	enum rs_status status = keep_own_lines(exchange, items, count);

	for (size_t i = 0; i < count && status == RS_OK; i++)
		status = write_file(exchange, &items[i]);
	if (status == RS_OK)
		status = print_lines(exchange, items, count);
	return status;
}

/* ---- Collect ---- */

/* How far one item is. */
struct progress {
	size_t got;
	bool warned;
	int64_t bad_since; /* the file was found bad then, and has not changed; 0: it was not */
	struct stat bad_file;
};

struct collection {
	const struct rs_exchange *exchange;
	struct rs_exchange_item *items;
	size_t count;
	struct progress progress[MAX_ITEMS];
};

static bool is_complete(const struct collection *collection)
{
	for (size_t i = 0; i < collection->count; i++)
		if (collection->progress[i].got < collection->items[i].count)
			return false;
	return true;
}

/* What is missing, with the files that it may come in. */
static void list_missing(const struct collection *collection, char *text, size_t size)
{
	text[0] = '\0';
	for (size_t i = 0; i < collection->count; i++) {
		const struct rs_exchange_item *item = &collection->items[i];

		if (collection->progress[i].got < item->count)
			rs_text_append(text, size, "%s\"%s\" (%s)", text[0] ? " and " : "",
				       rs_descriptor_kind_name(item->kind), item->path);
	}
}

static bool is_among(const char *line, char (*lines)[RS_DESCRIPTOR_LINE_SIZE], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(lines[i], line) == 0)
			return true;
	return false;
}

static bool is_blank(const char *line)
{
	return line[strspn(line, " \t\r")] == '\0';
}

/* The peer's line in its one form, and its kind; or the reason why it is not that. */
static enum rs_status read_line(const struct rs_exchange *exchange, const char *text,
				enum rs_descriptor_kind *kind, char line[RS_DESCRIPTOR_LINE_SIZE],
				char message[RS_DESCRIPTOR_MESSAGE_SIZE])
{
	struct rs_descriptor descriptor;
	enum rs_status status = rs_descriptor_parse(text, &descriptor, message);

	if (status != RS_OK)
		return status;
	*kind = descriptor.kind;
	rs_descriptor_format(&descriptor, line);
	if (is_among(line, exchange->own_lines, exchange->own_count)) {
		snprintf(message, RS_DESCRIPTOR_MESSAGE_SIZE,
			 "this is the program's own descriptor: give it that of %s",
			 exchange->peer);
		return RS_ERR_BAD_DESCRIPTOR;
	}
	return RS_OK;
}

static enum rs_status take_pasted_line(struct collection *collection, const char *text,
				       char message[RS_DESCRIPTOR_MESSAGE_SIZE])
{
	char line[RS_DESCRIPTOR_LINE_SIZE];
	enum rs_descriptor_kind kind;
	enum rs_status status = read_line(collection->exchange, text, &kind, line, message);

	if (status != RS_OK)
		return status;
	for (size_t i = 0; i < collection->count; i++) {
		struct rs_exchange_item *item = &collection->items[i];
		size_t *got = &collection->progress[i].got;

		if (item->kind != kind)
			continue;
		/* Pasted twice, or more than wanted: the first ones count. */
		if (*got < item->count && !is_among(line, item->lines, *got))
			strcpy(item->lines[(*got)++], line);
		return RS_OK;
	}
	snprintf(message, RS_DESCRIPTOR_MESSAGE_SIZE,
		 "this \"%s\" descriptor is of the wrong kind: this program needs none of %s",
		 rs_descriptor_kind_name(kind), collection->exchange->peer);
	return RS_ERR_BAD_DESCRIPTOR;
}

static enum rs_status take_pasted_lines(struct collection *collection)
{
	struct rs_input *input = collection->exchange->input;
	char text[RS_INPUT_LINE_SIZE + 1];
	char message[RS_DESCRIPTOR_MESSAGE_SIZE];

	/* What follows the last line wanted is not for us. */
	while (!is_complete(collection) && rs_input_take_line(input, text)) {
		enum rs_status status =
			is_blank(text) ? RS_OK : take_pasted_line(collection, text, message);

		if (status == RS_OK)
			continue;
		LOG_ERROR("bad line on standard input, %s", message);
		if (input->kind != RS_INPUT_TERMINAL)
			return status;
		LOG_INFO("paste it once more");
	}
	return RS_OK;
}

/* A path that somebody named must be usable; at another one anything may lie. */
static enum rs_status reject_file(const struct rs_exchange_item *item, struct progress *progress,
				  const char *fault)
{
	if (!item->only_live) {
		LOG_ERROR("cannot read the descriptor file %s: %s", item->path, fault);
		return RS_ERR_NOT_PERMITTED;
	}
	if (!progress->warned)
		LOG_INFO("ignoring %s: %s; to use it all the same, name it with an option",
			 item->path, fault);
	progress->warned = true;
	return RS_IN_PROGRESS;
}

/* Adds a line of a file to those that it gave already. */
static enum rs_status take_file_line(const struct rs_exchange *exchange,
				     const struct rs_exchange_item *item, const char *text,
				     char (*lines)[RS_DESCRIPTOR_LINE_SIZE], size_t *got,
				     char message[RS_DESCRIPTOR_MESSAGE_SIZE])
{
	char line[RS_DESCRIPTOR_LINE_SIZE];
	const char *wanted = rs_descriptor_kind_name(item->kind);
	enum rs_descriptor_kind kind;
	enum rs_status status = read_line(exchange, text, &kind, line, message);

	if (status != RS_OK)
		return status;
	if (kind != item->kind) {
		snprintf(message, RS_DESCRIPTOR_MESSAGE_SIZE,
			 "it has a \"%s\" descriptor, which is of the wrong kind: wanted is \"%s\"",
			 rs_descriptor_kind_name(kind), wanted);
		return RS_ERR_BAD_DESCRIPTOR;
	}
	if (*got == item->count) {
		snprintf(message, RS_DESCRIPTOR_MESSAGE_SIZE,
			 "it has more \"%s\" lines than the %zu wanted", wanted, item->count);
		return RS_ERR_BAD_DESCRIPTOR;
	}
	if (is_among(line, lines, *got)) {
		snprintf(message, RS_DESCRIPTOR_MESSAGE_SIZE, "it has the same \"%s\" line twice",
			 wanted);
		return RS_ERR_BAD_DESCRIPTOR;
	}
	strcpy(lines[(*got)++], line);
	return RS_OK;
}

/* The lines of a file, as many as the item wants. text is taken apart. */
static enum rs_status parse_file(const struct rs_exchange *exchange,
				 const struct rs_exchange_item *item, char *text,
				 char (*lines)[RS_DESCRIPTOR_LINE_SIZE],
				 char message[RS_DESCRIPTOR_MESSAGE_SIZE])
{
	enum rs_status status = RS_OK;
	size_t got = 0;
	char *line;

	while (status == RS_OK && (line = strsep(&text, "\n")))
		if (!is_blank(line))
			status = take_file_line(exchange, item, line, lines, &got, message);
	if (status == RS_OK && got < item->count) {
		snprintf(message, RS_DESCRIPTOR_MESSAGE_SIZE, "%s",
			 got == 0 ? "it is empty"
				  : "it has fewer lines than the number of connections");
		return RS_ERR_BAD_DESCRIPTOR;
	}
	return status;
}

/* Puts the lines of a file that is good as a whole into the item. */
static enum rs_status take_file_lines(const struct rs_exchange *exchange,
				      const struct rs_exchange_item *item, char *text,
				      char message[RS_DESCRIPTOR_MESSAGE_SIZE])
{
	char(*lines)[RS_DESCRIPTOR_LINE_SIZE] = calloc(item->count, sizeof(*lines));
	enum rs_status status;

	if (!lines) {
		snprintf(message, RS_DESCRIPTOR_MESSAGE_SIZE, "out of memory");
		return RS_ERR_NO_MEMORY;
	}
	status = parse_file(exchange, item, text, lines, message);
	if (status == RS_OK)
		memcpy(item->lines, lines, item->count * sizeof(*lines));
	free(lines);
	return status;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* A bad file is looked at again until it has stayed as it is for a while. */
static enum rs_status judge_bad_file(const struct rs_exchange_item *item, struct progress *progress,
				     const struct stat *file, const char *message)
{
	if (progress->bad_since == 0 || !is_same_file(file, &progress->bad_file)) {
		progress->bad_since = rs_clock_ms();
		progress->bad_file = *file;
	}
	if (rs_clock_ms() - progress->bad_since < SETTLE_MS)
		return RS_IN_PROGRESS;
	LOG_ERROR("bad descriptor file %s: %s", item->path, message);
	return RS_ERR_BAD_DESCRIPTOR;
}

/* RS_IN_PROGRESS: nothing there yet. */
static enum rs_status take_file(struct collection *collection, size_t index)
{
	struct rs_exchange_item *item = &collection->items[index];
	struct progress *progress = &collection->progress[index];
	size_t max = (item->count + 1) * RS_DESCRIPTOR_LINE_SIZE;
	char message[RS_DESCRIPTOR_MESSAGE_SIZE];
	struct stat found;
	const char *fault;
	char *text;
	enum rs_status status =
		rs_descriptor_file_read(item->path, item->only_live, max, &text, &found, &fault);

	if (status == RS_ERR_NOT_FOUND)
		return RS_IN_PROGRESS;
	if (status == RS_ERR_NOT_PERMITTED)
		return reject_file(item, progress, fault);
	if (status == RS_ERR_BAD_DESCRIPTOR)
		return judge_bad_file(item, progress, &found, fault);
	status = take_file_lines(collection->exchange, item, text, message);
	free(text);
	if (status != RS_OK)
		return judge_bad_file(item, progress, &found, message);
	progress->got = item->count;
	return RS_OK;
}

static enum rs_status take_files(struct collection *collection)
{
	for (size_t i = 0; i < collection->count; i++) {
		enum rs_status status;

		if (collection->progress[i].got == collection->items[i].count)
			continue;
		status = take_file(collection, i);
		if (status != RS_OK && status != RS_IN_PROGRESS)
			return status;
	}
	return RS_OK;
}

/* Until input, a cancellation, or the next look at the files is due. */
static enum rs_status wait_for_more(const struct rs_exchange *exchange)
{
	struct pollfd fds[] = {
		{ .fd = rs_input_is_open(exchange->input) ? exchange->input->fd : -1,
		  .events = POLLIN },
		{ .fd = exchange->cancel_fd, .events = POLLIN },
	};

	if (poll(fds, sizeof(fds) / sizeof(fds[0]), LOOK_INTERVAL_MS) < 0)
		return errno == EINTR ? RS_OK : LOG_FAILED_SYSTEM_CALL(errno, "poll()");
	if (fds[1].revents)
		return RS_ERR_INTERRUPTED;
	if (fds[0].revents)
		rs_input_fill(exchange->input);
	return RS_OK;
}

static void say_what_is_awaited(const struct collection *collection)
{
	char missing[1024];

	list_missing(collection, missing, sizeof(missing));
	LOG_INFO("waiting for %s of %s: %s", missing, collection->exchange->peer,
		 rs_input_is_open(collection->exchange->input)
			 ? "paste it here, or let it appear in that file"
			 : "let it appear in that file");
}

static enum rs_status time_out(const struct collection *collection, unsigned timeout)
{
	char missing[1024];

	list_missing(collection, missing, sizeof(missing));
	LOG_ERROR("no descriptor %s of %s came within %u s: is it running?", missing,
		  collection->exchange->peer, timeout);
	return RS_ERR_TIMED_OUT;
}

enum rs_status rs_exchange_collect(struct rs_exchange *exchange, struct rs_exchange_item *items,
				   size_t count, unsigned timeout)
{
	struct collection collection = { .exchange = exchange, .items = items, .count = count };
	int64_t deadline = rs_clock_ms() + (int64_t)timeout * 1000;
	bool announced = false;

	assert(count <= MAX_ITEMS);
	for (;;) {
		enum rs_status status = take_pasted_lines(&collection);

		if (status == RS_OK)
			status = take_files(&collection);
		if (status != RS_OK || is_complete(&collection))
			return status;
		if (!announced)
			say_what_is_awaited(&collection);
		announced = true;
		if (timeout > 0 && rs_clock_ms() >= deadline)
			return time_out(&collection, timeout);
		status = wait_for_more(exchange);
		if (status != RS_OK)
			return status;
	}
}
