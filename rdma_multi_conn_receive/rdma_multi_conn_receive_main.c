#include "sample.h"

#include "rdma_multi_conn_receive_sample.h"

static const struct program program = {
	.name = "rdma_multi_conn_receive",
	.peer = "rdma_multi_conn_send",
	.summary = "Receives a text on each of several connections and prints which it came from.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_CONNECTIONS,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_multi_conn_receive, argc, argv);
}
