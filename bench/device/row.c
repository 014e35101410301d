#include "row.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

const struct row rows[ROW_COUNT] = {
	[ROW_SEND_LATENCY] = { "device: send, 8 B", SOURCE_DEVICE, UNIT_LATENCY, LATENCY_SIZE, 1,
			       IBV_WR_SEND },
	[ROW_WRITE_LATENCY] = { "device: write, 8 B", SOURCE_DEVICE, UNIT_LATENCY, LATENCY_SIZE, 1,
				IBV_WR_RDMA_WRITE },
	[ROW_WRITE_64K] = { "device: write, 64 KiB", SOURCE_DEVICE, UNIT_BANDWIDTH, 64 * KIB, 64,
			    IBV_WR_RDMA_WRITE },
	[ROW_READ_64K] = { "device: read, 64 KiB", SOURCE_DEVICE, UNIT_BANDWIDTH, 64 * KIB, 64,
			   IBV_WR_RDMA_READ },
	[ROW_SEND_64K] = { "device: send, 64 KiB", SOURCE_DEVICE, UNIT_BANDWIDTH, 64 * KIB, 64,
			   IBV_WR_SEND },
	[ROW_WRITE_1M] = { "device: write, 1 MiB", SOURCE_DEVICE, UNIT_BANDWIDTH, MIB, 16,
			   IBV_WR_RDMA_WRITE },
	[ROW_READ_1M] = { "device: read, 1 MiB", SOURCE_DEVICE, UNIT_BANDWIDTH, MIB, 16,
			  IBV_WR_RDMA_READ },
	[ROW_SEND_1M] = { "device: send, 1 MiB", SOURCE_DEVICE, UNIT_BANDWIDTH, MIB, 16,
			  IBV_WR_SEND },
	[ROW_UDP_LATENCY] = { "UDP: 60 B", SOURCE_UDP, UNIT_LATENCY, .size = 60, .depth = 1 },
	[ROW_UDP_BANDWIDTH] = { "UDP: 15 x 4112 B a call", SOURCE_UDP, UNIT_BANDWIDTH,
				.size = UDP_BATCH_SIZE, .depth = 1 },
	[ROW_IPERF3] = { "TCP: iperf3", SOURCE_IPERF3, UNIT_BANDWIDTH },
	[ROW_UCX_TAG_LATENCY] = { "UCX on TCP: tag_lat, 8 B", SOURCE_UCX, UNIT_LATENCY,
				  .size = LATENCY_SIZE, .depth = 1, .test = "tag_lat" },
	[ROW_UCX_TAG_BANDWIDTH] = { "UCX on TCP: tag_bw, 64 KiB", SOURCE_UCX, UNIT_BANDWIDTH,
				    .size = 64 * KIB, .depth = 1, .test = "tag_bw" },
	[ROW_UCX_PUT_BANDWIDTH] = { "UCX on TCP: ucp_put_bw, 64 KiB", SOURCE_UCX, UNIT_BANDWIDTH,
				    .size = 64 * KIB, .depth = 1, .test = "ucp_put_bw" },
};
