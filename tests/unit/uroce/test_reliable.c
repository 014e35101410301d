/*
 * The reliable connection when all goes well, and when the network does not.
 */
#include "simulation.h"

#include <stdlib.h>
#include <string.h>

#include "../../../uroce/core/clock.h"
#include "../../../uroce/transport/credits.h"

#define SECOND UINT64_C(1000000000)

static int setup(void **state)
{
	(void)state;
	simulation_create(&simulation_defaults);
	return 0;
}

static int setup_extended(void **state)
{
	struct simulation_config config = simulation_defaults;

	(void)state;
	config.type = IBV_QPT_XRC_SEND;
	simulation_create(&config);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	simulation_destroy();
	return 0;
}

static void post(enum ibv_wr_opcode opcode, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = simulation_sge(&a, 0, length);
	struct ibv_send_wr wr = simulation_wr(opcode, &sge, wr_id);

	wr.imm_data = htobe32(0xd0ca);
	simulation_post_send(&a, &wr);
}

/* ---- Every operation, at every length around the packets' borders ---- */

static const uint32_t lengths[] = { 0, 1, 3, 4, 1023, 1024, 1025, 2047, 2048, 2049, 65536, 300001 };

#define FOR_EACH_LENGTH(length) \
	for (uint32_t i = 0, length; i < 12 && (length = lengths[i], true); i++)

static void a_send_arrives_in_the_receive(void **state)
{
	(void)state;
	FOR_EACH_LENGTH(length)
	{
		struct ibv_wc wc;

		fill_pattern(a.memory, length, i);
		simulation_post_recv(&b, 100 + i, 0, 400000);
		post(IBV_WR_SEND, length, i);
		simulation_settle();
		wc = assert_completion(a.send_cq, i, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_SEND);
		assert_int_equal(wc.qp_num, a.qp->verbs.qp_num);
		wc = assert_completion(b.recv_cq, 100 + i, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, length);
		assert_int_equal(wc.wc_flags, 0);
		assert_int_equal(wc.qp_num, b.qp->verbs.qp_num);
		assert_int_equal(wc.src_qp, a.qp->verbs.qp_num);
		assert_memory_equal(b.memory, a.memory, length);
	}
	assert_int_equal(a.device.counters.retransmitted, 0);
}

static void an_immediate_comes_with_its_message(void **state)
{
	(void)state;
	FOR_EACH_LENGTH(length)
	{
		struct ibv_wc wc;

		simulation_post_recv(&b, 1, 0, 400000);
		simulation_post_recv(&b, 2, 0, 0);
		post(IBV_WR_SEND_WITH_IMM, length, 1);
		post(IBV_WR_RDMA_WRITE_WITH_IMM, length, 2);
		simulation_settle();
		assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
		assert_completion(a.send_cq, 2, IBV_WC_SUCCESS);
		wc = assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
		assert_int_equal(wc.imm_data, htobe32(0xd0ca));
		wc = assert_completion(b.recv_cq, 2, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		assert_int_equal(wc.byte_len, length);
		assert_int_equal(wc.imm_data, htobe32(0xd0ca));
	}
}

static void a_write_changes_the_peers_memory_and_nothing_else(void **state)
{
	(void)state;
	FOR_EACH_LENGTH(length)
	{
		memset(b.memory, 0xee, MEMORY_SIZE);
		fill_pattern(a.memory, length, i);
		post(IBV_WR_RDMA_WRITE, length, i);
		simulation_settle();
		assert_int_equal(assert_completion(a.send_cq, i, IBV_WC_SUCCESS).opcode,
				 IBV_WC_RDMA_WRITE);
		assert_memory_equal(b.memory, a.memory, length);
		assert_all_bytes(b.memory + length, MEMORY_SIZE - length, 0xee);
		assert_no_completion(b.recv_cq);
	}
}

static void a_read_brings_the_peers_memory(void **state)
{
	(void)state;
	FOR_EACH_LENGTH(length)
	{
		struct ibv_wc wc;

		memset(a.memory, 0xee, MEMORY_SIZE);
		fill_pattern(b.memory, length, i);
		post(IBV_WR_RDMA_READ, length, i);
		simulation_settle();
		wc = assert_completion(a.send_cq, i, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
		assert_int_equal(wc.byte_len, length);
		assert_memory_equal(a.memory, b.memory, length);
		assert_int_equal(a.memory[length], 0xee);
	}
	assert_int_equal(a.qp->requester.reads, 0);
	assert_int_equal(a.qp->requester.in_flight, 0);
	/* The responses are acknowledgement enough. */
	assert_int_equal(simulation_count(UR_RC_ACKNOWLEDGE), 0);
}

static uint64_t read_u64(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static void post_atomic(enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = simulation_sge(&a, 64, 8);
	struct ibv_send_wr wr = simulation_wr(opcode, &sge, 5);

	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	simulation_post_send(&a, &wr);
	simulation_settle();
}

static void atomics_return_what_was_there(void **state)
{
	uint64_t value = UINT64_MAX - 1;

	(void)state;
	memcpy(b.memory, &value, sizeof(value));
	post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 0);
	assert_int_equal(assert_completion(a.send_cq, 5, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(read_u64(a.memory + 64), value);
	assert_int_equal(read_u64(b.memory), 1);

	post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 2, 9);
	assert_int_equal(assert_completion(a.send_cq, 5, IBV_WC_SUCCESS).opcode, IBV_WC_COMP_SWAP);
	assert_int_equal(read_u64(a.memory + 64), 1);
	assert_int_equal(read_u64(b.memory), 1);

	post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 1, 9);
	assert_completion(a.send_cq, 5, IBV_WC_SUCCESS);
	assert_int_equal(read_u64(a.memory + 64), 1);
	assert_int_equal(read_u64(b.memory), 9);
}

/* Written whole, and answered as a read of nothing. */
static void an_atomic_write_writes_a_word(void **state)
{
	uint64_t value = UINT64_C(0x0123456789abcdef);
	struct ibv_sge sge = simulation_sge(&a, 64, 8);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_ATOMIC_WRITE, &sge, 1);
	struct ibv_wc wc;

	(void)state;
	memcpy(a.memory + 64, &value, sizeof(value));
	simulation_post_send(&a, &wr);
	simulation_settle();
	wc = assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_ATOMIC_WRITE);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(read_u64(b.memory), value);
	assert_all_bytes(b.memory + 8, 8, 0);
	assert_int_equal(simulation_count(UR_RC_READ_RESPONSE_ONLY), 1);
	assert_int_equal(simulation_last(UR_RC_READ_RESPONSE_ONLY)->payload_length, 0);
	assert_int_equal(simulation_count(UR_RC_ACKNOWLEDGE), 0);
	assert_int_equal(read_u64(a.memory + 64), value);
}

static void pieces_are_gathered_and_scattered(void **state)
{
	struct ibv_sge from[3], to[3];
	struct ibv_send_wr wr, *bad;
	struct ibv_recv_wr recv = { .wr_id = 7, .sg_list = to, .num_sge = 3 }, *bad_recv;

	(void)state;
	fill_pattern(a.memory, 10000, 1);
	from[0] = simulation_sge(&a, 0, 1000);
	from[1] = simulation_sge(&a, 5000, 0);
	from[2] = simulation_sge(&a, 1000, 2500);
	to[0] = simulation_sge(&b, 2000, 1500);
	to[1] = simulation_sge(&b, 8000, 1);
	to[2] = simulation_sge(&b, 9000, 1999);
	wr = simulation_wr(IBV_WR_SEND, from, 1);
	wr.num_sge = 3;
	assert_int_equal(ur_qp_post_recv(&b.qp->verbs, &recv, &bad_recv), 0);
	assert_int_equal(ur_qp_post_send(&a.qp->verbs, &wr, &bad), 0);
	simulation_settle();
	assert_completion(b.recv_cq, 7, IBV_WC_SUCCESS);
	assert_memory_equal(b.memory + 2000, a.memory, 1500);
	assert_memory_equal(b.memory + 8000, a.memory + 1500, 1);
	assert_memory_equal(b.memory + 9000, a.memory + 1501, 1999);
}

static void inline_data_is_taken_when_it_is_posted(void **state)
{
	struct ibv_sge sge = { .addr = (uintptr_t)a.memory, .length = 200 };
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_WRITE, &sge, 1);

	(void)state;
	fill_pattern(a.memory, 200, 1);
	fill_pattern(a.memory + 1000, 200, 1);
	wr.send_flags |= IBV_SEND_INLINE;
	simulation_block(true);
	simulation_post_send(&a, &wr);
	memset(a.memory, 0, 200);
	simulation_block(false);
	ur_requester_transmit(a.qp, simulation_now());
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(b.memory, a.memory + 1000, 200);
}

static void only_signaled_requests_complete_visibly(void **state)
{
	struct ibv_sge sge = simulation_sge(&a, 0, 8);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_WRITE, &sge, 1);

	(void)state;
	wr.send_flags = 0;
	simulation_post_send(&a, &wr);
	simulation_post_send(&a, &wr);
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr_id = 3;
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_completion(a.send_cq, 3, IBV_WC_SUCCESS);
	assert_no_completion(a.send_cq);
	assert_int_equal(a.qp->sq.head, 3);
}

/* ---- Order ---- */

static unsigned reads_when_write_was_sent;

static enum fate note_reads(const struct ur_packet *packet, unsigned count, void *user_data)
{
	(void)count, (void)user_data;
	if (packet->opcode == UR_RC_WRITE_ONLY)
		reads_when_write_was_sent = a.qp->requester.reads;
	return DELIVER;
}

static void a_fence_waits_for_reads(void **state)
{
	struct ibv_sge sge = simulation_sge(&a, 0, 1000);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_WRITE, &sge, 2);

	(void)state;
	reads_when_write_was_sent = 77;
	simulation_set_fate(note_reads, NULL);
	post(IBV_WR_RDMA_READ, 3000, 1);
	wr.send_flags |= IBV_SEND_FENCE;
	simulation_post_send(&a, &wr);
	assert_int_equal(simulation_count(UR_RC_WRITE_ONLY), 0);
	simulation_settle();
	assert_int_equal(reads_when_write_was_sent, 0);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 2, IBV_WC_SUCCESS);
}

static void no_more_reads_are_in_flight_than_the_peer_serves(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++)
		post(IBV_WR_RDMA_READ, 100, i);
	assert_int_equal(simulation_count(UR_RC_READ_REQUEST), simulation_defaults.rd_atomic);
	simulation_settle();
	for (unsigned i = 0; i < 10; i++)
		assert_completion(a.send_cq, i, IBV_WC_SUCCESS);
}

static void mixed_operations_complete_in_order(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
						      IBV_WR_SEND, IBV_WR_RDMA_READ,
						      IBV_WR_RDMA_WRITE_WITH_IMM };

	(void)state;
	for (unsigned i = 0; i < 50; i++)
		simulation_post_recv(&b, i, 500000, 5000);
	for (unsigned i = 0; i < 100; i++)
		post(opcodes[i % 5], 100 * i % 4999, i);
	simulation_settle();
	for (unsigned i = 0; i < 100; i++)
		assert_completion(a.send_cq, i, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 40; i++)
		assert_completion(b.recv_cq, i, IBV_WC_SUCCESS);
}

static void a_long_message_keeps_within_the_window(void **state)
{
	(void)state;
	post(IBV_WR_RDMA_WRITE, 900000, 1);
	assert_true(a.qp->requester.in_flight <= SIMULATION_WINDOW);
	assert_true(a.qp->requester.in_flight > SIMULATION_WINDOW - 2048);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_true(simulation_count(UR_RC_ACKNOWLEDGE) < 900000 / 1024 / 8);
}

/* ---- A network that loses, repeats and mixes ---- */

struct one_packet {
	unsigned number;
	enum fate fate;
};

static enum fate meets_one(const struct ur_packet *packet, unsigned count, void *user_data)
{
	const struct one_packet *one = user_data;

	(void)packet;
	return count == one->number ? one->fate : DELIVER;
}

/* All operations with several packets each; returns how many packets the network carried. */
static unsigned exchange(void)
{
	uint64_t counter = 40;
	unsigned before = simulation_packets();

	fill_pattern(a.memory, 5000, 1);
	fill_pattern(b.memory + 20000, 5000, 2);
	memcpy(b.memory + 40000, &counter, sizeof(counter));
	simulation_post_recv(&b, 1, 10000, 5000);
	simulation_post_recv(&b, 2, 0, 0);

	struct ibv_sge sges[] = { simulation_sge(&a, 0, 5000),     simulation_sge(&a, 0, 4500),
				  simulation_sge(&a, 20000, 5000), simulation_sge(&a, 40000, 8),
				  simulation_sge(&a, 0, 2500),     simulation_sge(&a, 0, 8) };
	struct ibv_send_wr wrs[] = {
		simulation_wr(IBV_WR_SEND, &sges[0], 1),
		simulation_wr(IBV_WR_RDMA_WRITE, &sges[1], 2),
		simulation_wr(IBV_WR_RDMA_READ, &sges[2], 3),
		simulation_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, &sges[3], 4),
		simulation_wr(IBV_WR_RDMA_WRITE_WITH_IMM, &sges[4], 5),
		simulation_wr(IBV_WR_ATOMIC_WRITE, &sges[5], 6),
	};
	wrs[2].wr.rdma.remote_addr += 20000;
	wrs[3].wr.atomic.remote_addr += 40000;
	wrs[3].wr.atomic.compare_add = 2;
	wrs[4].wr.rdma.remote_addr += 30000;
	wrs[5].wr.rdma.remote_addr += 50000;
	for (unsigned i = 0; i < 6; i++)
		simulation_post_send(&a, &wrs[i]);
	simulation_run(60 * SECOND);

	for (unsigned i = 1; i <= 6; i++)
		assert_completion(a.send_cq, i, IBV_WC_SUCCESS);
	assert_no_completion(a.send_cq);
	assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
	assert_completion(b.recv_cq, 2, IBV_WC_SUCCESS);
	assert_no_completion(b.recv_cq);
	assert_memory_equal(b.memory + 10000, a.memory, 5000);
	assert_memory_equal(b.memory, a.memory, 4500);
	assert_memory_equal(a.memory + 20000, b.memory + 20000, 5000);
	assert_memory_equal(b.memory + 30000, a.memory, 2500);
	assert_int_equal(read_u64(a.memory + 40000), 40);
	assert_int_equal(read_u64(b.memory + 40000), 42);
	assert_memory_equal(b.memory + 50000, a.memory, 8);
	assert_int_equal(a.qp->requester.in_flight, 0);
	assert_int_equal(a.qp->requester.reads, 0);
	assert_int_equal(a.qp->deadline, UR_NEVER);
	return simulation_packets() - before;
}

/* Does the exchange once for each packet in it, each time with another one meeting that fate. */
static void each_packet_meets(enum fate fate)
{
	unsigned count;

	simulation_create(&simulation_defaults);
	count = exchange();
	simulation_destroy();
	assert_true(count > 20);
	for (unsigned i = 0; i < count; i++) {
		struct one_packet one = { i, fate };

		simulation_create(&simulation_defaults);
		simulation_set_fate(meets_one, &one);
		exchange();
		simulation_destroy();
	}
}

static void any_packet_may_be_lost(void **state)
{
	(void)state;
	each_packet_meets(DROP);
}

static void any_packet_may_come_twice(void **state)
{
	(void)state;
	each_packet_meets(DUPLICATE);
}

static void any_packet_may_come_late(void **state)
{
	(void)state;
	each_packet_meets(HOLD);
}

static uint32_t random_state;

static unsigned random_below(unsigned limit)
{
	random_state = random_state * 1664525U + 1013904223U;
	return (random_state >> 8) % limit;
}

static enum fate meets_any(const struct ur_packet *packet, unsigned count, void *user_data)
{
	unsigned dice = random_below(100);

	(void)packet, (void)count, (void)user_data;
	if (dice < 10)
		return DROP;
	if (dice < 14)
		return DUPLICATE;
	return dice < 20 ? HOLD : DELIVER;
}

static void exchange_on_a_bad_network(const struct simulation_config *config)
{
	for (unsigned seed = 0; seed < 200; seed++) {
		random_state = seed;
		simulation_create(config);
		simulation_set_fate(meets_any, NULL);
		for (unsigned i = 0; i < 5; i++)
			exchange();
		simulation_destroy();
	}
}

static void a_bad_network_only_takes_longer(void **state)
{
	(void)state;
	exchange_on_a_bad_network(&simulation_defaults);
}

static void a_bad_network_only_takes_longer_for_an_extended_connection(void **state)
{
	struct simulation_config config = simulation_defaults;

	(void)state;
	config.type = IBV_QPT_XRC_SEND;
	exchange_on_a_bad_network(&config);
}

static void a_gap_is_repaired_without_waiting(void **state)
{
	struct one_packet one = { 1, DROP };
	uint64_t start = simulation_now();

	(void)state;
	simulation_set_fate(meets_one, &one);
	post(IBV_WR_RDMA_WRITE, 5000, 1);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(simulation_now(), start);
	assert_int_equal(b.device.counters.naks_sent, 1);
}

static void a_lost_end_is_asked_for_long_before_the_timeout(void **state)
{
	struct one_packet one = { 4, DROP };
	uint64_t start = simulation_now();

	(void)state;
	simulation_set_fate(meets_one, &one);
	post(IBV_WR_RDMA_WRITE, 5000, 1);
	simulation_run(SECOND);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_true(simulation_now() - start < 10 * UR_NS_PER_MS);
	assert_int_equal(a.device.counters.timeouts, 0);
	assert_int_equal(a.device.counters.probes, 1);
}

static unsigned atomic_responses;

static enum fate loses_first_atomic_responses(const struct ur_packet *packet, unsigned count,
					      void *user_data)
{
	(void)count, (void)user_data;
	return packet->opcode == UR_RC_ATOMIC_ACKNOWLEDGE && atomic_responses++ < 3 ? DROP
										    : DELIVER;
}

static void an_atomic_is_executed_once_however_often_it_comes(void **state)
{
	(void)state;
	atomic_responses = 0;
	simulation_set_fate(loses_first_atomic_responses, NULL);
	post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
	simulation_run(SECOND);
	assert_completion(a.send_cq, 5, IBV_WC_SUCCESS);
	assert_int_equal(read_u64(b.memory), 1);
	assert_int_equal(read_u64(a.memory + 64), 0);
	assert_true(b.device.counters.rx_duplicate >= 3);
}

static enum fate loses_first_read_responses(const struct ur_packet *packet, unsigned count,
					    void *user_data)
{
	(void)count, (void)user_data;
	return packet->opcode == UR_RC_READ_RESPONSE_ONLY && atomic_responses++ < 3 ? DROP
										    : DELIVER;
}

/* What b writes there in the meantime stays. */
static void an_atomic_write_is_executed_once_however_often_it_comes(void **state)
{
	struct ibv_sge sge = simulation_sge(&a, 64, 8);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_ATOMIC_WRITE, &sge, 5);

	(void)state;
	atomic_responses = 0;
	simulation_set_fate(loses_first_read_responses, NULL);
	memset(a.memory + 64, 0x11, 8);
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_all_bytes(b.memory, 8, 0x11);
	memset(b.memory, 0x22, 8);
	simulation_run(SECOND);
	assert_completion(a.send_cq, 5, IBV_WC_SUCCESS);
	assert_all_bytes(b.memory, 8, 0x22);
	assert_true(b.device.counters.rx_duplicate >= 3);
}

/* A peer whose answers are lost until a time. */
static enum fate answer_from(const struct ur_packet *packet, unsigned count, void *user_data)
{
	const uint64_t *time = user_data;

	(void)count;
	return packet->opcode == UR_RC_ACKNOWLEDGE && simulation_now() < *time ? DROP : DELIVER;
}

/* Returns how long after the packet its probe would come. */
static uint64_t time_to_probe(void)
{
	struct ibv_sge sge = simulation_sge(&a, 0, 8);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_WRITE, &sge, 1);

	simulation_post_send(&a, &wr);
	return a.qp->requester.probe_deadline - simulation_now();
}

static void a_receive_that_comes_late_does_not_make_a_peer_slow(void **state)
{
	struct ibv_sge sge = simulation_sge(&a, 0, 8);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_SEND, &sge, 1);

	(void)state;
	b.qp->attr.min_rnr_timer = 20; /* 10.24 ms */
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_int_equal(b.device.counters.rnr_naks_sent, 1);
	simulation_post_recv(&b, 2, 0, 8);
	simulation_run(SECOND);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_in_range(time_to_probe(), 4 * UR_NS_PER_MS, 4 * UR_NS_PER_MS);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
}

/* The first copy of every second message is lost. */
static enum fate loses_each_second_message(const struct ur_packet *packet, unsigned count,
					   void *user_data)
{
	static uint32_t lost;

	(void)count, (void)user_data;
	if (!(ur_opcode_flags(packet->opcode) & UR_IS_REQUEST) || packet->psn % 2 != 0 ||
	    packet->psn == lost)
		return DELIVER;
	lost = packet->psn;
	return DROP;
}

static void losses_do_not_put_probes_off(void **state)
{
	const uint64_t timeout = UINT64_C(4096) << simulation_defaults.timeout;

	(void)state;
	simulation_set_fate(loses_each_second_message, NULL);
	for (unsigned i = 0; i < 40; i++) {
		assert_true(time_to_probe() <= timeout / 4);
		simulation_run(timeout / 2);
		assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	}
	assert_int_equal(a.device.counters.timeouts, 0);
}

static void a_peer_that_takes_long_is_asked_later(void **state)
{
	uint64_t usual, time = simulation_now() + 7 * UR_NS_PER_MS;

	(void)state;
	simulation_set_fate(answer_from, &time);
	usual = time_to_probe();
	simulation_run(50 * UR_NS_PER_MS);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_true(a.device.counters.probes > 0);
	assert_in_range(usual, 4 * UR_NS_PER_MS, 4 * UR_NS_PER_MS);
	assert_true(time_to_probe() >= 2 * 7 * UR_NS_PER_MS);
	/* It is fast again, which is believed after a while. */
	for (unsigned i = 0; i < 50; i++) {
		simulation_settle();
		assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
		usual = time_to_probe();
	}
	assert_in_range(usual, 4 * UR_NS_PER_MS, 4 * UR_NS_PER_MS);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
}

/* The first probe comes while a read is the last in flight, behind a write. */
static void asking_again_keeps_count_of_reads(void **state)
{
	struct ibv_sge sge = simulation_sge(&a, 0, 10);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_WRITE, &sge, 3);

	(void)state;
	post(IBV_WR_RDMA_WRITE, 5000, 1);
	post(IBV_WR_RDMA_READ, 5000, 2);
	/* Nothing is lost, all is only late. */
	ur_requester_run_timer(a.qp, a.qp->deadline);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(a.qp->requester.reads, 0);
	assert_int_equal(a.qp->requester.window, SIMULATION_WINDOW);
	wr.send_flags |= IBV_SEND_FENCE;
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_completion(a.send_cq, 3, IBV_WC_SUCCESS);
}

struct answers {
	uint32_t psns[16];
	unsigned count;
};

static enum fate note_answers(const struct ur_packet *packet, unsigned count, void *user_data)
{
	struct answers *answers = user_data;

	(void)count;
	if (packet->opcode == UR_RC_READ_RESPONSE_ONLY)
		answers->psns[answers->count++] = packet->psn;
	return DELIVER;
}

static void inject_read(unsigned index)
{
	const struct ur_packet packet = { .opcode = UR_RC_READ_REQUEST,
					  .pkey = UR_DEFAULT_PKEY,
					  .psn = (simulation_defaults.psn + index) & UR_24_BITS,
					  .va = (uintptr_t)b.memory,
					  .rkey = b.mr->verbs.rkey,
					  .dma_length = 10 };

	simulation_inject(&packet, NULL);
}

static void reads_that_come_again_are_answered_in_their_order(void **state)
{
	struct answers answers = { .count = 0 };

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		inject_read(i);
	simulation_settle();
	simulation_set_fate(note_answers, &answers);
	for (unsigned i = 0; i < 4; i++)
		inject_read(i);
	simulation_settle();
	assert_int_equal(answers.count, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(answers.psns[i], (simulation_defaults.psn + i) & UR_24_BITS);
}

/* The first answers were only late: the peer goes on while they are still being given again. */
static void new_reads_do_not_suffer_from_those_that_came_again(void **state)
{
	struct answers answers = { .count = 0 };

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		inject_read(i);
	simulation_settle();
	simulation_set_fate(note_answers, &answers);
	for (unsigned i = 0; i < 8; i++)
		inject_read(i);
	simulation_settle();
	assert_int_equal(b.device.counters.naks_sent, 0);
	assert_int_equal(answers.count, 4);
	assert_int_equal(answers.psns[3], (simulation_defaults.psn + 7) & UR_24_BITS);
}

static void what_the_carrier_does_not_take_is_sent_later(void **state)
{
	(void)state;
	fill_pattern(a.memory, 50000, 3);
	simulation_block(true);
	post(IBV_WR_RDMA_WRITE, 50000, 1);
	assert_true(a.qp->blocked);
	assert_int_equal(simulation_packets(), 0);
	simulation_block(false);
	ur_requester_transmit(a.qp, simulation_now());
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(b.memory, a.memory, 50000);
	assert_int_equal(a.device.counters.timeouts, 0);
}

/* ---- Credits ---- */

static void credits_never_promise_more_than_there_is(void **state)
{
	(void)state;
	for (uint32_t receives = 0; receives < 40000; receives++) {
		uint32_t promised = ur_credits_decode(ur_credits_encode(receives));

		assert_true(promised <= receives);
		assert_true(promised * 2 > receives || receives == 0 || receives > 32768);
	}
	assert_int_equal(ur_credits_decode(30), 32768);
}

static void a_read_in_several_requests_is_counted_as_the_peer_does(void **state)
{
	(void)state;
	post(IBV_WR_RDMA_READ, 300001, 1);
	post(IBV_WR_RDMA_WRITE, 10, 2);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(simulation_count(UR_RC_READ_REQUEST), 5);
	assert_int_equal(a.qp->requester.ssn, b.qp->responder.msn);
}

static void without_credits_one_message_at_a_time_is_sent(void **state)
{
	(void)state;
	simulation_post_recv(&b, 1, 0, 10);
	post(IBV_WR_SEND, 10, 1);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_true(a.qp->requester.limited);
	for (unsigned i = 2; i <= 5; i++) {
		simulation_post_recv(&b, i, 0, 10);
		post(IBV_WR_SEND, 10, i);
	}
	/* The peer's last word was that no receive was there. */
	assert_int_equal(simulation_count(UR_RC_SEND_ONLY), 2);
	simulation_settle();
	for (unsigned i = 2; i <= 5; i++)
		assert_completion(a.send_cq, i, IBV_WC_SUCCESS);
	assert_int_equal(b.device.counters.rnr_naks_sent, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_send_arrives_in_the_receive),
		TEST(an_immediate_comes_with_its_message),
		TEST(a_write_changes_the_peers_memory_and_nothing_else),
		TEST(a_read_brings_the_peers_memory),
		TEST(atomics_return_what_was_there),
		TEST(an_atomic_write_writes_a_word),
		TEST(pieces_are_gathered_and_scattered),
		TEST(inline_data_is_taken_when_it_is_posted),
		TEST(only_signaled_requests_complete_visibly),
		TEST(a_fence_waits_for_reads),
		TEST(no_more_reads_are_in_flight_than_the_peer_serves),
		TEST(mixed_operations_complete_in_order),
		TEST(a_long_message_keeps_within_the_window),
		cmocka_unit_test(any_packet_may_be_lost),
		cmocka_unit_test(any_packet_may_come_twice),
		cmocka_unit_test(any_packet_may_come_late),
		cmocka_unit_test(a_bad_network_only_takes_longer),
		cmocka_unit_test(a_bad_network_only_takes_longer_for_an_extended_connection),
		TEST(a_gap_is_repaired_without_waiting),
		TEST(a_lost_end_is_asked_for_long_before_the_timeout),
		TEST(a_peer_that_takes_long_is_asked_later),
		TEST(a_receive_that_comes_late_does_not_make_a_peer_slow),
		TEST(losses_do_not_put_probes_off),
		TEST(an_atomic_is_executed_once_however_often_it_comes),
		TEST(an_atomic_write_is_executed_once_however_often_it_comes),
		TEST(asking_again_keeps_count_of_reads),
		TEST(reads_that_come_again_are_answered_in_their_order),
		TEST(new_reads_do_not_suffer_from_those_that_came_again),
		TEST(what_the_carrier_does_not_take_is_sent_later),
		cmocka_unit_test(credits_never_promise_more_than_there_is),
		TEST(a_read_in_several_requests_is_counted_as_the_peer_does),
		TEST(without_credits_one_message_at_a_time_is_sent),
/* The same for extended connections, whose packets only differ in a header. */
#define EXTENDED(name) cmocka_unit_test_setup_teardown(name, setup_extended, teardown)
		EXTENDED(a_send_arrives_in_the_receive),
		EXTENDED(an_immediate_comes_with_its_message),
		EXTENDED(a_write_changes_the_peers_memory_and_nothing_else),
		EXTENDED(a_read_brings_the_peers_memory),
		EXTENDED(atomics_return_what_was_there),
		EXTENDED(mixed_operations_complete_in_order),
		EXTENDED(a_long_message_keeps_within_the_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
