#include "sample.h"

#include "rdma_multi_conn_send_sample.h"

static const struct program program = {
	.name = "rdma_multi_conn_send",
	.peer = "rdma_multi_conn_receive",
	.summary = "Sends a text on each of several connections.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_SEND_STRING | OPTION_CONNECTIONS,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_multi_conn_send, argc, argv);
}
