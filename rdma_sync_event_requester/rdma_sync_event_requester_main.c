#include "sample.h"

#include "rdma_sync_event_requester_sample.h"

static const struct program program = {
	.name = "rdma_sync_event_requester",
	.peer = "rdma_sync_event_responder",
	.resource_owner = "rdma_sync_event_responder",
	.resource = RS_DESCRIPTOR_EVENT,
	.summary = "Signals the responder by its sync event and waits for its answer there.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_RESOURCE,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_sync_event_requester, argc, argv);
}
