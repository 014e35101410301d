/*
 * Packets from a peer that may send anything, to a connection that has requests of its own in flight:
 * none may bring access to memory that is not registered for it, or break what the queue pair holds.
 *
 * Built with FUZZ_TYPE IBV_QPT_RC or IBV_QPT_XRC_SEND: then the queue pair is the half of an extended
 * connection that receives, and has no requests.
 *
 * Input: packets, each with one byte of what to set right in it (so that most get past the first
 * checks), one of its length, and its bytes. CONNECTION: which type of connection, IBV_QPT_RC or IBV_QPT_UC.
 */
#include "../unit/uroce/simulation.h"

#include <stdlib.h>
#include <string.h>

#include "../../uroce/core/clock.h"
#include "../../uroce/transport/psn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	RIGHT_PSN = 1,
	RIGHT_KEY = 2,
	RIGHT_ADDRESS = 4,
	NEAR_PSN = 8,
	FULL_PACKET = 16,
	LATER = 32,
	BOUND_KEY = 64,
	RIGHT_QUEUE = 128
};

#define WINDOW_OFFSET 8192
#define WINDOW_SIZE   4096
#define BOUND_OFFSET  (WINDOW_OFFSET + 1024)
#define BOUND_SIZE    1024
#define RECEIVE_SIZE  3000

static const uint8_t full_payload[4096];
static struct ur_mr *window; /* the only memory that the peer may change by writing */
static struct ur_mw *bound;  /* part of it, by a key that the peer can give back */

static const bool is_extended = FUZZ_TYPE == IBV_QPT_XRC_SEND;

static void set_up(const struct simulation_config *config)
{
	simulation_create(config);
	window = ur_mr_register(b.pd, b.memory + WINDOW_OFFSET, WINDOW_SIZE, UINT64_MAX,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
					IBV_ACCESS_MW_BIND);
	bound = ur_mw_alloc(b.pd, IBV_MW_TYPE_2);
	/* The region of all memory that others tests use would permit too much. */
	b.mr->access = IBV_ACCESS_LOCAL_WRITE;
}

static void bind_window(void)
{
	struct ibv_send_wr wr = simulation_wr(IBV_WR_BIND_MW, NULL, 9);

	wr.bind_mw.mw = &bound->verbs;
	wr.bind_mw.rkey = bound->verbs.rkey = ibv_inc_rkey(bound->verbs.rkey);
	wr.bind_mw.bind_info =
		(struct ibv_mw_bind_info){ .mr = &window->verbs,
					   .addr = (uintptr_t)b.memory + BOUND_OFFSET,
					   .length = BOUND_SIZE,
					   .mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
							      IBV_ACCESS_REMOTE_READ |
							      IBV_ACCESS_REMOTE_ATOMIC };
	simulation_post_send(&b, &wr);
	assert_completion(b.send_cq, 9, IBV_WC_SUCCESS);
}

/* The peer may have given it back. */
static void unbind_window(void)
{
	struct ibv_send_wr wr = simulation_wr(IBV_WR_LOCAL_INV, NULL, 8);

	assert_int_equal(window->windows, bound->mr ? 1 : 0);
	if (!bound->mr)
		return;
	wr.invalidate_rkey = bound->verbs.rkey;
	simulation_post_send(&b, &wr);
	assert_completion(b.send_cq, 8, IBV_WC_SUCCESS);
	assert_null(bound->mr);
}

static bool is_unreliable(void)
{
	return !ur_qp_is_reliable(b.qp);
}

static void post_requests(void)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						      IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND,
						      IBV_WR_ATOMIC_WRITE };

	for (unsigned i = 0; i < 5; i++) {
		bool is_atomic = opcodes[i] == IBV_WR_ATOMIC_FETCH_AND_ADD ||
				 opcodes[i] == IBV_WR_ATOMIC_WRITE;
		struct ibv_sge sge = simulation_sge(&b, 0, is_atomic ? 8 : RECEIVE_SIZE);
		struct ibv_send_wr wr = simulation_wr(opcodes[i], &sge, i);

		if (!is_unreliable() || i % 3 == 0)
			simulation_post_send(&b, &wr);
	}
}

/* Of those that nobody has taken; a queue pair that is reset has none left. */
static void drop_receives(void)
{
	struct ur_recv_wqe wqe;

	while (is_extended && ur_srq_take(b.srq, &wqe))
		continue;
}

static void set_right(struct ur_packet *packet, unsigned what)
{
	bool is_request = ur_opcode_flags(packet->opcode) & UR_IS_REQUEST;

	if (what & RIGHT_PSN)
		packet->psn = is_request ? b.qp->responder.epsn : b.qp->requester.una_psn;
	if (what & NEAR_PSN)
		packet->psn = ur_psn_add(b.qp->responder.epsn, (packet->psn & 31) - 16);
	if (what & RIGHT_KEY)
		packet->rkey = packet->invalidate_rkey = window->verbs.rkey;
	if (what & BOUND_KEY)
		packet->rkey = packet->invalidate_rkey = bound->verbs.rkey;
	if (what & RIGHT_ADDRESS)
		packet->va = (uintptr_t)window->verbs.addr + (packet->va & 0x1fff);
	if (what & RIGHT_QUEUE)
		packet->srqn = b.srq ? b.srq->number : 0;
	if (what & FULL_PACKET && ur_opcode_flags(packet->opcode) & UR_HAS_PAYLOAD) {
		packet->payload = full_payload;
		packet->payload_length = b.qp->mtu;
	}
}

static void give(const uint8_t *bytes, size_t length, unsigned what)
{
	/* An allocation of its own, so that reading past the end is seen. */
	uint8_t *copy = malloc(length ? length : 1);
	struct ur_packet packet;

	memcpy(copy, bytes, length);
	if (is_extended && length > 0)
		copy[0] = UR_XRC_SEND_FIRST | ur_operation(copy[0]);
	if (ur_packet_decode(copy, length, &packet) == UR_DECODED) {
		set_right(&packet, what);
		simulation_deliver(&b, &packet);
	}
	if (what & LATER && b.qp->deadline != UR_NEVER)
		ur_qp_run_timer(b.qp, b.qp->deadline);
	free(copy);
	simulation_lose_all();
}

static void check_memory(void)
{
	/* Receives and reads go to the beginning, writes and atomics to the window. */
	assert_all_bytes(b.memory + RECEIVE_SIZE, WINDOW_OFFSET - RECEIVE_SIZE, 0);
	assert_all_bytes(b.memory + WINDOW_OFFSET + WINDOW_SIZE, 65536, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct simulation_config config = simulation_defaults;

	config.type = FUZZ_TYPE;
	config.max_wr = 16;
	if (!window)
		set_up(&config);
	simulation_reconnect(&config);
	if (FUZZ_TYPE == IBV_QPT_RC)
		bind_window();
	if (!is_extended)
		post_requests();
	for (unsigned i = 0; i < 4; i++)
		simulation_post_recv(&b, i, 0, RECEIVE_SIZE);
	while (size >= 2) {
		size_t length = data[1] < size - 2 ? data[1] : size - 2;

		give(data + 2, length, data[0]);
		data += 2 + length;
		size -= 2 + length;
	}
	check_memory();
	simulation_reconnect(&config);
	drop_receives();
	if (!is_extended)
		unbind_window();
	return 0;
}
