/*
 * A read responder that forgets to permit the read: "map" or "instance" (its argument) lacks it.
 * The requester must be told so by the device.
 */
#include <stdio.h>
#include <string.h>

#include "sample.h"

#define BUFFERS 1

static const struct program program = {
	.name = "rdma_read_responder",
	.peer = "rdma_read_requester",
	.resource_owner = "rdma_read_responder",
	.groups = OPTION_EXCHANGE | OPTION_RESOURCE,
};

static void on_state_changed(struct rs_ctx *ctx, enum rs_ctx_state from, enum rs_ctx_state to,
			     void *sample_data)
{
	struct sample *sample = sample_data;

	(void)ctx;
	sample_log_state(sample, from, to);
	if (to == RS_CTX_STARTING) {
		sample_export_mmap(sample);
		sample_export_and_connect(sample);
	} else if (to == RS_CTX_RUNNING) {
		sample_wait_for_user(sample);
	}
}

int main(int argc, char **argv)
{
	const char *closed = argc > 1 ? argv[1] : "";
	uint32_t map_access = strcmp(closed, "map") == 0 ? 0 : RS_ACCESS_REMOTE_READ;
	uint32_t instance_access = strcmp(closed, "instance") == 0 ? 0 : RS_ACCESS_REMOTE_READ;
	struct options options;
	struct sample sample;
	int exit_status;

	if (map_access == instance_access) {
		fprintf(stderr, "usage: closed_read_responder map|instance\n");
		return EXIT_STATUS_USAGE;
	}
	if (!options_parse(&program, 1, argv, &options, &exit_status))
		return exit_status;
	sample_begin(&sample, &options);
	sample_open_device(&sample, RS_OP_BIT(RS_OP_READ));
	sample_create_mmap(&sample, SAMPLE_MEMORY_SIZE, map_access);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, instance_access);
	sample_start(&sample, on_state_changed, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
