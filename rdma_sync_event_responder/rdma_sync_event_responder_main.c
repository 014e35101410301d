#include "sample.h"

#include "rdma_sync_event_responder_sample.h"

static const struct program program = {
	.name = "rdma_sync_event_responder",
	.peer = "rdma_sync_event_requester",
	.resource_owner = "rdma_sync_event_responder",
	.resource = RS_DESCRIPTOR_EVENT,
	.summary = "Has a sync event, waits for the requester's signal on it and answers.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_RESOURCE,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_sync_event_responder, argc, argv);
}
