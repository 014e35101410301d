/*
 * Stands in for a program of the suite, and misbehaves:
 *
 *   strange_peer NAME PEER BEHAVIOUR [VALUE] -- [OPTION]...
 *
 * To PEER it is NAME: by its descriptors, and by its default files. The table below has the
 * behaviours. VALUE is bytes in hexadecimal, which are sent, written or served as they are; or the
 * number that an event is set to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

#define MAX_BYTES 1024

/* Enough for a write of the default text, and not too much for who has room for two words. */
#define SIXTEEN_BYTES "00000000000000000000000000000000"

/* The word 1, as a sync event's requester sets it. */
#define WORD_1 "0100000000000000"

#define OWN RS_ACCESS_LOCAL_READ_WRITE
#define ALL RS_ACCESS_ALL

struct behaviour {
	const char *name;
	const char *value; /* NULL: the command line has it */
	uint32_t map_access;
	uint32_t instance_access;
	enum rs_op op; /* of the tasks that it may submit */
	rs_task_cb completed;
	sample_step on_starting;
	sample_step on_running;
};

struct strange_peer {
	struct sample sample; /* the first, so that a step finds the rest behind it */
	const struct behaviour *behaviour;
	const char *value;
};

static const struct strange_peer *strange(const struct sample *sample)
{
	return (const struct strange_peer *)sample;
}

/* ---- What it has for the peer ---- */

static bool has_suffix(const char *text, const char *suffix)
{
	size_t length = strlen(text), suffix_length = strlen(suffix);

	return length >= suffix_length && strcmp(text + length - suffix_length, suffix) == 0;
}

static bool owns_resource(const struct program *program)
{
	return program->resource_owner == program->name;
}

static size_t byte_count(const struct sample *sample)
{
	return strlen(strange(sample)->value) / 2;
}

/* A map of exactly the value's bytes. One of a text is as long as that with its terminator. */
static void create_mmap(struct sample *sample, struct options *options)
{
	const struct strange_peer *peer = strange(sample);
	size_t count = byte_count(sample);
	char filler[MAX_BYTES] = "";

	memset(filler, 'x', count > 0 ? count - 1 : 0);
	options->text = filler;
	sample_create_text_mmap(sample, peer->behaviour->map_access);
	options->text = "";
	for (size_t i = 0; i < count && !sample_has_failed(sample); i++)
		sscanf(peer->value + 2 * i, "%2hhx", (unsigned char *)&sample->memory[i]);
}

static void create_resource(struct sample *sample, struct options *options)
{
	const struct program *program = options->program;

	if (owns_resource(program) && program->resource == RS_DESCRIPTOR_EVENT)
		sample_create_event(sample);
	else
		create_mmap(sample, options);
}

/* ---- Steps ---- */

static void publish(struct sample *sample)
{
	if (sample->event)
		sample_export_event(sample);
	else if (owns_resource(sample->options->program))
		sample_export_mmap(sample);
	sample_connect(sample);
}

/* A write with immediate gets no further than to a missing receive; so it is there. */
static void receive_and_publish(struct sample *sample)
{
	struct rs_task *task;
	enum rs_status status =
		rs_task_alloc_receive(sample->rdma, NULL, &sample->remaining_tasks, &task);

	sample_submit(sample, status, task, NULL, NULL);
	publish(sample);
}

static void wait_for_user(struct sample *sample)
{
	sample_wait_for_user(sample, sample_stop);
}

static void answer_wrongly(struct sample *sample)
{
	sample_wait_for_event(sample, "Signalled by the requester", 0);
	if (!sample_has_failed(sample))
		rs_sync_event_set(sample->event, strtoull(strange(sample)->value, NULL, 10));
	wait_for_user(sample);
}

static void on_signalled(struct rs_task *task, void *sample_data)
{
	sample_free_task(task);
	wait_for_user(sample_data);
}

/* NULL where there are no bytes. */
static struct rs_buf *take_bytes(struct sample *sample)
{
	size_t count = byte_count(sample);

	return count > 0 ? sample_local_data(sample, 0, count) : NULL;
}

static void submit_message(struct sample *sample, struct rs_connection *connection)
{
	bool is_immediate = strange(sample)->behaviour->op == RS_OP_SEND_IMMEDIATE;
	struct rs_buf *source = take_bytes(sample);
	size_t *remaining = &sample->remaining_tasks;
	struct rs_task *task;
	enum rs_status status =
		is_immediate
			? rs_task_alloc_send_immediate(sample->rdma, connection, source,
						       sample->options->immediate, remaining, &task)
			: rs_task_alloc_send(sample->rdma, connection, source, remaining, &task);

	sample_submit(sample, status, task, source, NULL);
}

static void send_on_all(struct sample *sample)
{
	for (unsigned i = 0; i < sample->options->num_connections; i++)
		submit_message(sample, sample->connections[i]);
}

static void write_bytes(struct sample *sample)
{
	bool is_immediate = strange(sample)->behaviour->op == RS_OP_WRITE_IMMEDIATE;
	struct rs_connection *connection = sample->connections[0];
	struct rs_buf *source, *destination;
	size_t *remaining = &sample->remaining_tasks;
	struct rs_task *task;
	enum rs_status status;

	sample_import_mmap(sample);
	source = take_bytes(sample);
	destination = sample_remote_room(sample);
	status = is_immediate
			 ? rs_task_alloc_write_immediate(sample->rdma, connection, source,
							 destination, sample->options->immediate,
							 remaining, &task)
			 : rs_task_alloc_write(sample->rdma, connection, source, destination,
					       remaining, &task);
	sample_submit(sample, status, task, source, destination);
}

static void set_event(struct sample *sample)
{
	struct rs_buf *source;
	struct rs_task *task;
	enum rs_status status;

	sample_import_event(sample);
	source = take_bytes(sample);
	status = rs_task_alloc_event_set(sample->rdma, sample->connections[0], sample->remote_event,
					 source, &sample->remaining_tasks, &task);
	sample_submit(sample, status, task, source, NULL);
}

/* ---- Behaviours ---- */

static const struct behaviour behaviours[] = {
	/* Responders whose map, or instance, does not permit what is asked for. */
	{ "closed-map", SIXTEEN_BYTES, OWN, ALL, RS_OP_RECEIVE, sample_finish_task,
	  receive_and_publish, wait_for_user },
	{ "closed-instance", SIXTEEN_BYTES, ALL, OWN, RS_OP_RECEIVE, sample_finish_task,
	  receive_and_publish, wait_for_user },
	/* Connects, and has no receive for what is sent. */
	{ "no-receive", SIXTEEN_BYTES, ALL, ALL, RS_OP_RECEIVE, sample_finish_task, publish,
	  wait_for_user },
	/* Has these bytes for a read. */
	{ "serve", NULL, ALL, ALL, RS_OP_READ, sample_finish_task, publish, wait_for_user },
	/* Sends or writes these bytes, and ends; messages on each connection. */
	{ "send", NULL, OWN, OWN, RS_OP_SEND, sample_finish_task, publish, send_on_all },
	{ "send-immediate", NULL, OWN, OWN, RS_OP_SEND_IMMEDIATE, sample_finish_task, publish,
	  send_on_all },
	{ "write", NULL, OWN, OWN, RS_OP_WRITE, sample_finish_task, publish, write_bytes },
	{ "write-immediate", NULL, OWN, OWN, RS_OP_WRITE_IMMEDIATE, sample_finish_task, publish,
	  write_bytes },
	/* Sets its event to this number once it was signalled there. */
	{ "event", NULL, OWN, ALL, RS_OP_EVENT_GET, sample_finish_task, publish, answer_wrongly },
	/* Signals the responder's event, and says no more. */
	{ "signal", WORD_1, OWN, OWN, RS_OP_EVENT_SET, on_signalled, publish, set_event },
};

static const struct behaviour *find_behaviour(const char *name)
{
	for (size_t i = 0; i < sizeof(behaviours) / sizeof(behaviours[0]); i++)
		if (strcmp(behaviours[i].name, name) == 0)
			return &behaviours[i];
	return NULL;
}

/* Whether it works on what the peer has published. */
static bool needs_resource(const struct behaviour *behaviour)
{
	return behaviour->on_running == write_bytes || behaviour->on_running == set_event;
}

static struct program make_program(const char *name, const char *peer,
				   const struct behaviour *behaviour)
{
	struct program program = { .name = name, .peer = peer, .summary = "" };

	if (has_suffix(name, "_responder"))
		program.resource_owner = name;
	else if (needs_resource(behaviour))
		program.resource_owner = peer;
	program.resource = strstr(name, "sync_event") ? RS_DESCRIPTOR_EVENT : RS_DESCRIPTOR_MMAP;
	program.groups = OPTION_EXCHANGE | OPTION_RESOURCE | OPTION_IMMEDIATE;
	if (strstr(name, "multi_conn"))
		program.groups |= OPTION_CONNECTIONS;
	return program;
}

static int run(struct strange_peer *peer, struct options *options)
{
	const struct behaviour *behaviour = peer->behaviour;
	struct sample *sample = &peer->sample;
	unsigned count = options->num_connections;

	sample_begin(sample, options);
	sample_open_device(sample, RS_OP_BIT(behaviour->op));
	create_resource(sample, options);
	sample_create_progress_engine(sample);
	sample_create_rdma(sample, behaviour->instance_access);
	sample_configure_task(sample, behaviour->op, behaviour->completed, sample_fail_task, count);
	sample_start(sample, behaviour->on_starting, behaviour->on_running, 2 * (size_t)count);
	sample_run(sample);
	return sample_end(sample);
}

/* The arguments before "--", which takes the place of the program's name before the options. */
static bool read_arguments(int argc, char **argv, struct strange_peer *peer, int *options_begin)
{
	if (argc < 5)
		return false;
	peer->behaviour = find_behaviour(argv[3]);
	if (!peer->behaviour)
		return false;
	peer->value = peer->behaviour->value ? peer->behaviour->value : argv[4];
	*options_begin = peer->behaviour->value ? 4 : 5;
	return *options_begin < argc && strcmp(argv[*options_begin], "--") == 0 &&
	       strlen(peer->value) <= 2 * MAX_BYTES;
}

int main(int argc, char **argv)
{
	struct strange_peer peer = { 0 };
	struct program program;
	struct options options;
	int begin, exit_status;

	if (!read_arguments(argc, argv, &peer, &begin)) {
		fprintf(stderr, "usage: strange_peer NAME PEER BEHAVIOUR [VALUE] -- [OPTION]...\n");
		return EXIT_STATUS_USAGE;
	}
	program = make_program(argv[1], argv[2], peer.behaviour);
	if (!options_parse(&program, argc - begin, argv + begin, &options, &exit_status))
		return exit_status;
	return run(&peer, &options);
}
