#include "sample_impl.h"

#include <stdlib.h>
#include <string.h>

void sample_export_mmap(struct sample *sample)
{
	if (sample_has_failed(sample))
		return;
	sample_record(sample, rs_mmap_export(sample->mmap, sample->device, &sample->resource_line));
}

void sample_export_event(struct sample *sample)
{
	if (sample_has_failed(sample))
		return;
	sample->resource_line = rs_sync_event_export(sample->event);
}

bool sample_peer_has_resource(const struct program *program)
{
	return program->resource_owner && strcmp(program->resource_owner, program->peer) == 0;
}

/* Lines for all connections. */
static char (*alloc_lines(struct sample *sample))[RS_DESCRIPTOR_LINE_SIZE]
{
	char(*lines)[RS_DESCRIPTOR_LINE_SIZE] =
		calloc(sample->options->num_connections, sizeof(*lines));

	if (!lines)
		sample_record(sample, RS_ERR_NO_MEMORY);
	return lines;
}

static void export_connections(struct sample *sample, char (*lines)[RS_DESCRIPTOR_LINE_SIZE])
{
	for (unsigned i = 0; i < sample->options->num_connections; i++) {
		const char *line;

		sample_record(sample, rs_rdma_export(sample->rdma, &line, &sample->connections[i]));
		if (sample_has_failed(sample))
			return;
		strcpy(lines[i], line);
	}
}

static void publish(struct sample *sample, char (*lines)[RS_DESCRIPTOR_LINE_SIZE])
{
	const struct options *options = sample->options;
	char resource[1][RS_DESCRIPTOR_LINE_SIZE];
	struct rs_exchange_item items[] = {
		{ RS_DESCRIPTOR_CONNECTION, options->local_descriptor_path, false,
		  options->num_connections, lines },
		{ options->program->resource, options->resource_descriptor_path, false, 1,
		  resource },
	};

	if (sample_has_failed(sample))
		return;
	if (sample->resource_line)
		strcpy(resource[0], sample->resource_line);
	sample_record(sample,
		      rs_exchange_publish(sample->exchange, items, sample->resource_line ? 2 : 1));
}

static void export_and_publish(struct sample *sample)
{
	char(*lines)[RS_DESCRIPTOR_LINE_SIZE] = alloc_lines(sample);

	if (!lines)
		return;
	export_connections(sample, lines);
	publish(sample, lines);
	free(lines);
}

static void collect(struct sample *sample)
{
	const struct options *options = sample->options;
	const struct program *program = options->program;
	struct rs_exchange_item items[] = {
		{ RS_DESCRIPTOR_CONNECTION, options->remote_descriptor_path,
		  options->default_paths[OPTIONS_PATH_REMOTE], options->num_connections,
		  sample->peer_lines },
		{ program->resource, options->resource_descriptor_path,
		  options->default_paths[OPTIONS_PATH_RESOURCE], 1, sample->peer_resource },
	};
	enum rs_status status;

	if (sample_has_failed(sample))
		return;
	status = rs_exchange_collect(sample->exchange, items,
				     sample_peer_has_resource(program) ? 2 : 1, options->timeout);
	if (status == RS_ERR_INTERRUPTED)
		sample_on_signal(sample->signal_fd, sample);
	sample_record(sample, status);
}

static void connect_all(struct sample *sample)
{
	for (unsigned i = 0; i < sample->options->num_connections; i++) {
		if (sample_has_failed(sample))
			return;
		sample_record(sample, rs_rdma_connect(sample->rdma, sample->peer_lines[i],
						      sample->connections[i]));
	}
}

static void connect_by_descriptors(struct sample *sample)
{
	if (sample_has_failed(sample))
		return;
	sample->peer_lines = alloc_lines(sample);
	export_and_publish(sample);
	collect(sample);
	connect_all(sample);
}

void sample_connect(struct sample *sample)
{
	if (sample->options->use_rdma_cm)
		sample_connect_by_address(sample);
	else
		connect_by_descriptors(sample);
}

void sample_import_mmap(struct sample *sample)
{
	if (sample_has_failed(sample))
		return;
	sample_record(sample,
		      rs_mmap_create_from_export(sample->peer_resource[0], &sample->remote_mmap));
}

void sample_import_event(struct sample *sample)
{
	if (sample_has_failed(sample))
		return;
	sample_record(sample, rs_sync_event_remote_create_from_export(sample->peer_resource[0],
								      &sample->remote_event));
}
