#define LOG_MODULE "exchange"

#include "exchange.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
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

/* What this side has published. */
struct own_lines {
	enum rs_descriptor_kind kind;
	size_t count;
	char (*lines)[RS_DESCRIPTOR_LINE_SIZE];
	struct rs_descriptor_file *file;
};

struct rs_exchange {
	struct rs_exchange_peer peer;
	struct rs_input *input;
	FILE *out;
	int cancel_fd;
	struct own_lines own[MAX_ITEMS];
	size_t own_count;
};

enum rs_status rs_exchange_create(const struct rs_exchange_peer *peer, struct rs_input *input,
				  FILE *out, int cancel_fd, struct rs_exchange **exchange)
{
	struct rs_exchange *created = calloc(1, sizeof(*created));

	if (!created)
		return RS_ERR_NO_MEMORY;
	created->peer = *peer;
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
	for (size_t i = 0; i < exchange->own_count; i++) {
		rs_descriptor_file_remove(exchange->own[i].file);
		free(exchange->own[i].lines);
	}
	free(exchange);
}

/* ---- Publish ---- */

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
	LOG_INFO("copy this to %s; on this machine it can read it from %s", exchange->peer.name,
		 paths);
	for (size_t i = 0; i < count; i++)
		for (size_t line = 0; line < items[i].count; line++)
			fprintf(exchange->out, "%s\n", items[i].lines[line]);
	if (fflush(exchange->out) != 0 || ferror(exchange->out))
		return LOG_FAILED_SYSTEM_CALL(errno, "printing the descriptors");
	return RS_OK;
}

/* Writes an item's file and remembers its lines. */
static enum rs_status publish(struct rs_exchange *exchange, const struct rs_exchange_item *item)
{
	struct own_lines own = { .kind = item->kind, .count = item->count };
	enum rs_status status;

	if (exchange->own_count == MAX_ITEMS)
		return RS_ERR_FULL;
	own.lines = calloc(item->count, sizeof(*own.lines));
	if (!own.lines)
		return RS_ERR_NO_MEMORY;
	memcpy(own.lines, item->lines, item->count * sizeof(*own.lines));
	status = rs_descriptor_file_write(item->path,
					  (const char(*)[RS_DESCRIPTOR_LINE_SIZE])item->lines,
					  item->count, &own.file);
	if (status != RS_OK) {
		free(own.lines);
		return status;
	}
	exchange->own[exchange->own_count++] = own;
	return RS_OK;
}

enum rs_status rs_exchange_publish(struct rs_exchange *exchange,
				   const struct rs_exchange_item *items, size_t count)
{
	enum rs_status status = RS_OK;

	for (size_t i = 0; i < count && status == RS_OK; i++)
		status = publish(exchange, &items[i]);
	if (status == RS_OK)
		status = print_lines(exchange, items, count);
	return status;
}

/* ---- Collect ---- */

/* Lines of one item that are there. An empty line is a place that is free. */
struct harvest {
	enum rs_descriptor_kind kind;
	size_t count; /* places */
	size_t got;
	bool has_stranger;
	char (*lines)[RS_DESCRIPTOR_LINE_SIZE];
};

/* How far one item is. */
struct progress {
	struct harvest harvest;
	bool warned;
	int64_t bad_since; /* the file was found bad then, and has not changed; 0: it was not */
	struct stat bad_file;
	char fault[RS_DESCRIPTOR_MESSAGE_SIZE];
};

struct collection {
	const struct rs_exchange *exchange;
	struct rs_exchange_item *items;
	size_t count;
	struct progress progress[MAX_ITEMS];
	bool warned_of_stranger;
};

/* A line of the peer in its one form, and what decides where it goes. */
struct peer_line {
	enum rs_descriptor_kind kind;
	size_t id; /* of a connection */
	bool is_stranger;
	char text[RS_DESCRIPTOR_LINE_SIZE];
};

static bool is_whole(const struct harvest *harvest)
{
	return harvest->got == harvest->count;
}

static bool is_complete(const struct collection *collection)
{
	for (size_t i = 0; i < collection->count; i++)
		if (!is_whole(&collection->progress[i].harvest))
			return false;
	return true;
}

/* Lines of items that are there in part. */
static size_t count_partial(const struct collection *collection)
{
	size_t partial = 0;

	for (size_t i = 0; i < collection->count; i++)
		if (!is_whole(&collection->progress[i].harvest))
			partial += collection->progress[i].harvest.got;
	return partial;
}

/* What is missing, with the files that it may come in. */
static void list_missing(const struct collection *collection, char *text, size_t size)
{
	text[0] = '\0';
	for (size_t i = 0; i < collection->count; i++) {
		const struct rs_exchange_item *item = &collection->items[i];
		size_t got = collection->progress[i].harvest.got;

		if (got == item->count)
			continue;
		rs_text_append(text, size, "%s\"%s\" (", text[0] ? " and " : "",
			       rs_descriptor_kind_name(item->kind));
		if (got > 0)
			rs_text_append(text, size, "%zu of %zu so far; ", got, item->count);
		rs_text_append(text, size, "%s)", item->path);
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

static enum rs_status refuse(char message[RS_DESCRIPTOR_MESSAGE_SIZE], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static enum rs_status refuse(char message[RS_DESCRIPTOR_MESSAGE_SIZE], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(message, RS_DESCRIPTOR_MESSAGE_SIZE, format, arguments);
	va_end(arguments);
	return RS_ERR_BAD_DESCRIPTOR;
}

/* Connections are in the order of their numbers, so that there is but one to compare with. */
static bool is_in(const struct own_lines *own, const struct peer_line *line)
{
	if (own->kind != line->kind)
		return false;
	if (line->kind == RS_DESCRIPTOR_CONNECTION)
		return line->id < own->count && strcmp(own->lines[line->id], line->text) == 0;
	return is_among(line->text, own->lines, own->count);
}

static bool is_own(const struct rs_exchange *exchange, const struct peer_line *line)
{
	for (size_t i = 0; i < exchange->own_count; i++)
		if (is_in(&exchange->own[i], line))
			return true;
	return false;
}

/* Whether it is the descriptor of a program that this one can, but was not made to, work with. */
static bool is_stranger(const struct rs_exchange_peer *peer, const struct rs_descriptor *descriptor)
{
	return descriptor->kind == RS_DESCRIPTOR_CONNECTION && peer->stranger &&
	       strcmp(descriptor->connection.name, peer->stranger) == 0;
}

/* Only connections carry a name. */
static bool is_of_peer(const struct rs_exchange_peer *peer, const struct rs_descriptor *descriptor)
{
	return descriptor->kind != RS_DESCRIPTOR_CONNECTION ||
	       strcmp(descriptor->connection.name, peer->name) == 0 ||
	       strcmp(descriptor->connection.name, RS_DESCRIPTOR_NO_NAME) == 0;
}

/* Reads the peer's line, or tells why it is not that. */
static enum rs_status read_line(const struct rs_exchange *exchange, const char *text,
				struct peer_line *line, char message[RS_DESCRIPTOR_MESSAGE_SIZE])
{
	const struct rs_exchange_peer *peer = &exchange->peer;
	struct rs_descriptor descriptor;
	enum rs_status status = rs_descriptor_parse(text, &descriptor, message);

	if (status != RS_OK)
		return status;
	line->kind = descriptor.kind;
	line->id = line->kind == RS_DESCRIPTOR_CONNECTION ? (size_t)descriptor.connection.id : 0;
	line->is_stranger = is_stranger(peer, &descriptor);
	rs_descriptor_format(&descriptor, line->text);
	if (is_own(exchange, line))
		return refuse(message, "this is the program's own descriptor: give it that of %s",
			      peer->name);
	if (!line->is_stranger && !is_of_peer(peer, &descriptor))
		return refuse(message,
			      "this is the descriptor of %s, but this program works with %s",
			      descriptor.connection.name, peer->name);
	return RS_OK;
}

static enum rs_status check_number(const struct harvest *harvest, const struct peer_line *line,
				   char message[RS_DESCRIPTOR_MESSAGE_SIZE])
{
	if (line->kind != RS_DESCRIPTOR_CONNECTION || line->id < harvest->count)
		return RS_OK;
	return refuse(
		message,
		"this is connection %zu, but there are to be %zu, numbered from 0: is the number of connections the same on both sides?",
		line->id, harvest->count);
}

/* Where the line goes; NULL: it, or another one in its place, is there already. */
static char *place_of(const struct harvest *harvest, const struct peer_line *line)
{
	bool is_numbered = line->kind == RS_DESCRIPTOR_CONNECTION;
	size_t place = is_numbered ? line->id : harvest->got;

	if (is_whole(harvest) || harvest->lines[place][0] != '\0')
		return NULL;
	if (!is_numbered && is_among(line->text, harvest->lines, harvest->got))
		return NULL;
	return harvest->lines[place];
}

/* Adds a line whose number has been checked. False: its place is taken. */
static bool put_line(struct harvest *harvest, const struct peer_line *line)
{
	char *place = place_of(harvest, line);

	if (!place)
		return false;
	strcpy(place, line->text);
	harvest->got++;
	harvest->has_stranger = harvest->has_stranger || line->is_stranger;
	return true;
}

static void warn_of_stranger(struct collection *collection, const struct harvest *harvest)
{
	if (!harvest->has_stranger || collection->warned_of_stranger)
		return;
	LOG_WARNING(RS_EXCHANGE_STRANGER_WARNING, collection->exchange->peer.stranger);
	collection->warned_of_stranger = true;
}

/* NULL: no lines of this kind are wanted. */
static struct harvest *harvest_of(struct collection *collection, enum rs_descriptor_kind kind)
{
	for (size_t i = 0; i < collection->count; i++)
		if (collection->items[i].kind == kind)
			return &collection->progress[i].harvest;
	return NULL;
}

static enum rs_status take_pasted_line(struct collection *collection, const char *text,
				       char message[RS_DESCRIPTOR_MESSAGE_SIZE])
{
	struct peer_line line;
	struct harvest *harvest;
	enum rs_status status = read_line(collection->exchange, text, &line, message);

	if (status != RS_OK)
		return status;
	harvest = harvest_of(collection, line.kind);
	if (!harvest)
		return refuse(
			message,
			"this \"%s\" descriptor is of the wrong kind: this program needs none of %s",
			rs_descriptor_kind_name(line.kind), collection->exchange->peer.name);
	status = check_number(harvest, &line, message);
	if (status != RS_OK)
		return status;
	/* Pasted twice, or more than wanted: the first ones count. */
	if (put_line(harvest, &line))
		warn_of_stranger(collection, harvest);
	return RS_OK;
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

/* Why a file's line has no place among those that it gave already. */
static enum rs_status refuse_surplus(const struct harvest *harvest, const struct peer_line *line,
				     char message[RS_DESCRIPTOR_MESSAGE_SIZE])
{
	const char *kind = rs_descriptor_kind_name(harvest->kind);

	if (line->kind == RS_DESCRIPTOR_CONNECTION)
		return refuse(message, "it has connection %zu twice", line->id);
	if (is_whole(harvest))
		return refuse(message, "it has more \"%s\" lines than the %zu wanted", kind,
			      harvest->count);
	return refuse(message, "it has the same \"%s\" line twice", kind);
}

/* Adds a line of a file to those that it gave already. */
static enum rs_status take_file_line(const struct rs_exchange *exchange, const char *text,
				     struct harvest *harvest,
				     char message[RS_DESCRIPTOR_MESSAGE_SIZE])
{
	struct peer_line line;
	enum rs_status status = read_line(exchange, text, &line, message);

	if (status != RS_OK)
		return status;
	if (line.kind != harvest->kind)
		return refuse(
			message,
			"it has a \"%s\" descriptor, which is of the wrong kind: wanted is \"%s\"",
			rs_descriptor_kind_name(line.kind), rs_descriptor_kind_name(harvest->kind));
	status = check_number(harvest, &line, message);
	if (status != RS_OK)
		return status;
	return put_line(harvest, &line) ? RS_OK : refuse_surplus(harvest, &line, message);
}

/* The lines of a file, as many as are wanted. text is taken apart. */
static enum rs_status parse_file(const struct rs_exchange *exchange, char *text,
				 struct harvest *harvest, char message[RS_DESCRIPTOR_MESSAGE_SIZE])
{
	enum rs_status status = RS_OK;
	char *line;

	while (status == RS_OK && (line = strsep(&text, "\n")))
		if (!is_blank(line))
			status = take_file_line(exchange, line, harvest, message);
	if (status != RS_OK || is_whole(harvest))
		return status;
	if (harvest->got == 0)
		return refuse(message, "it is empty");
	return refuse(message, "it has fewer lines than the number of connections: %zu of %zu",
		      harvest->got, harvest->count);
}

/* Takes the lines of a file that is good as a whole, in the place of any that are there. */
static enum rs_status take_file_lines(const struct rs_exchange *exchange, char *text,
				      struct harvest *harvest,
				      char message[RS_DESCRIPTOR_MESSAGE_SIZE])
{
	struct harvest read = { .kind = harvest->kind, .count = harvest->count };
	enum rs_status status;

	read.lines = calloc(read.count, sizeof(*read.lines));
	if (!read.lines) {
		snprintf(message, RS_DESCRIPTOR_MESSAGE_SIZE, "out of memory");
		return RS_ERR_NO_MEMORY;
	}
	status = parse_file(exchange, text, &read, message);
	if (status == RS_OK) {
		memcpy(harvest->lines, read.lines, read.count * sizeof(*read.lines));
		harvest->got = read.got;
		harvest->has_stranger = read.has_stranger;
	}
	free(read.lines);
	return status;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static enum rs_status judge(const struct rs_exchange_item *item, const struct progress *progress,
			    const char *remark)
{
	if (rs_clock_ms() - progress->bad_since < SETTLE_MS)
		return RS_IN_PROGRESS;
	LOG_ERROR("bad descriptor file %s: %s%s", item->path, progress->fault, remark);
	return RS_ERR_BAD_DESCRIPTOR;
}

/* A bad file is looked at again until it has stayed as it is for a while. */
static enum rs_status judge_bad_file(const struct rs_exchange_item *item, struct progress *progress,
				     const struct stat *file, const char *message)
{
	if (progress->bad_since == 0 || !is_same_file(file, &progress->bad_file)) {
		progress->bad_since = rs_clock_ms();
		progress->bad_file = *file;
	}
	snprintf(progress->fault, sizeof(progress->fault), "%s", message);
	return judge(item, progress, "");
}

/*
 * No file that counts is there. If a bad one was, nobody will finish it any more: told nothing, a
 * person would wait for ever.
 */
static enum rs_status judge_absence(const struct rs_exchange_item *item,
				    const struct progress *progress)
{
	return progress->bad_since == 0 ? RS_IN_PROGRESS
					: judge(item, progress, " (it is gone now)");
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

	if (status == RS_ERR_NOT_PERMITTED)
		status = reject_file(item, progress, fault);
	if (status == RS_ERR_NOT_FOUND || status == RS_IN_PROGRESS)
		return judge_absence(item, progress);
	if (status == RS_ERR_NOT_PERMITTED)
		return status;
	if (status == RS_ERR_BAD_DESCRIPTOR)
		return judge_bad_file(item, progress, &found, fault);
	status = take_file_lines(collection->exchange, text, &progress->harvest, message);
	free(text);
	if (status != RS_OK)
		return judge_bad_file(item, progress, &found, message);
	warn_of_stranger(collection, &progress->harvest);
	return RS_OK;
}

static enum rs_status take_files(struct collection *collection)
{
	for (size_t i = 0; i < collection->count; i++) {
		enum rs_status status;

		if (is_whole(&collection->progress[i].harvest))
			continue;
		status = take_file(collection, i);
		if (status != RS_OK && status != RS_IN_PROGRESS)
			return status;
	}
	return RS_OK;
}

/* Until input, a cancellation, or the next look at the files is due. is_quiet: it is only that. */
static enum rs_status wait_for_more(const struct rs_exchange *exchange, bool *is_quiet)
{
	struct pollfd fds[] = {
		{ .fd = rs_input_is_open(exchange->input) ? exchange->input->fd : -1,
		  .events = POLLIN },
		{ .fd = exchange->cancel_fd, .events = POLLIN },
	};
	int ready = poll(fds, sizeof(fds) / sizeof(fds[0]), LOOK_INTERVAL_MS);

	*is_quiet = ready == 0;
	if (ready < 0)
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
	LOG_INFO("waiting for %s of %s: %s", missing, collection->exchange->peer.name,
		 rs_input_is_open(collection->exchange->input)
			 ? "paste it here, or let it appear in that file"
			 : "let it appear in that file");
}

static enum rs_status time_out(const struct collection *collection, unsigned timeout)
{
	char missing[1024];

	list_missing(collection, missing, sizeof(missing));
	LOG_ERROR("no descriptor %s of %s came within %u s: is it running?", missing,
		  collection->exchange->peer.name, timeout);
	return RS_ERR_TIMED_OUT;
}

/* Nothing is there yet. */
static void start_harvest(struct harvest *harvest, const struct rs_exchange_item *item)
{
	*harvest =
		(struct harvest){ .kind = item->kind, .count = item->count, .lines = item->lines };
	memset(item->lines, 0, item->count * sizeof(*item->lines));
}

enum rs_status rs_exchange_collect(struct rs_exchange *exchange, struct rs_exchange_item *items,
				   size_t count, unsigned timeout)
{
	struct collection collection = { .exchange = exchange, .items = items, .count = count };
	int64_t deadline = rs_clock_ms() + (int64_t)timeout * 1000;
	size_t announced = SIZE_MAX; /* what was there in part when that was said last */
	bool is_quiet = true;

	assert(count <= MAX_ITEMS);
	for (size_t i = 0; i < count; i++)
		start_harvest(&collection.progress[i].harvest, &items[i]);
	for (;;) {
		enum rs_status status = take_pasted_lines(&collection);

		if (status == RS_OK)
			status = take_files(&collection);
		if (status != RS_OK || is_complete(&collection))
			return status;
		/* Not in the middle of what is being pasted. */
		if (is_quiet && announced != count_partial(&collection)) {
			say_what_is_awaited(&collection);
			announced = count_partial(&collection);
		}
		if (timeout > 0 && rs_clock_ms() >= deadline)
			return time_out(&collection, timeout);
		status = wait_for_more(exchange, &is_quiet);
		if (status != RS_OK)
			return status;
	}
}
