/*
 * An unreliable connection between two queue pairs.
 */
#include "simulation.h"

#include <errno.h>
#include <string.h>

#include "../../../uroce/core/clock.h"
#include "../../../uroce/core/mw.h"
#include "../../../uroce/transport/psn.h"
#include "../../../uroce/transport/sender.h"

#define MTU        1024
#define LONG       (5 * MTU + 7)
#define RECEIVE_AT 65536 /* offset of receives in b's memory */
#define IMM        0xd0ca

static struct simulation_config config;

static void create(bool srq, uint64_t send_ops)
{
	config = simulation_defaults;
	config.type = IBV_QPT_UC;
	config.srq = srq;
	config.send_ops = send_ops;
	simulation_create(&config);
	fill_pattern(a.memory, MEMORY_SIZE, 1);
}

static int setup(void **state)
{
	(void)state;
	create(false, 0);
	return 0;
}

static int setup_shared(void **state)
{
	(void)state;
	create(true, 0);
	return 0;
}

static int setup_extended(void **state)
{
	(void)state;
	create(false, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	simulation_destroy();
	return 0;
}

/* ---- Steps ---- */

static void post(enum ibv_wr_opcode opcode, uint64_t wr_id, uint32_t length)
{
	struct ibv_sge sge = simulation_sge(&a, 0, length);
	struct ibv_send_wr wr = simulation_wr(opcode, &sge, wr_id);

	wr.imm_data = htobe32(IMM);
	simulation_post_send(&a, &wr);
}

static void post_recv(uint64_t wr_id, uint32_t length)
{
	simulation_post_recv(&b, wr_id, RECEIVE_AT, length);
}

static void assert_received(uint64_t wr_id, uint32_t length)
{
	struct ibv_wc wc = assert_completion(b.recv_cq, wr_id, IBV_WC_SUCCESS);

	assert_int_equal(wc.byte_len, length);
	assert_memory_equal(b.memory + RECEIVE_AT, a.memory, length);
}

/* The next message arrives, in the receive with that id. */
static void assert_goes_on(uint64_t recv_id)
{
	memset(b.memory, 0, MEMORY_SIZE);
	post(IBV_WR_SEND, 99, LONG);
	simulation_settle();
	assert_completion(a.send_cq, 99, IBV_WC_SUCCESS);
	assert_received(recv_id, LONG);
}

/* Loses, doubles or delays the packet with that place. */
struct accident {
	unsigned at;
	enum fate fate;
};

static enum fate meet(const struct ur_packet *packet, unsigned count, void *user_data)
{
	const struct accident *accident = user_data;

	(void)packet;
	return count == accident->at ? accident->fate : DELIVER;
}

/* ---- Messages ---- */

static void messages_of_all_lengths_arrive(void **state)
{
	static const uint32_t lengths[] = { 0, 1, MTU - 1, MTU, MTU + 1, LONG, 600 * 1024 };

	(void)state;
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memset(b.memory, 0xee, MEMORY_SIZE);
		post_recv(i, lengths[i]);
		post(IBV_WR_SEND, i, lengths[i]);
		simulation_settle();
		assert_completion(a.send_cq, i, IBV_WC_SUCCESS);
		assert_received(i, lengths[i]);
		assert_int_equal(b.memory[RECEIVE_AT + lengths[i]], 0xee);

		post(IBV_WR_RDMA_WRITE, i, lengths[i]);
		simulation_settle();
		assert_int_equal(assert_completion(a.send_cq, i, IBV_WC_SUCCESS).opcode,
				 IBV_WC_RDMA_WRITE);
		assert_memory_equal(b.memory, a.memory, lengths[i]);
	}
	assert_no_completion(b.recv_cq);
	assert_int_equal(simulation_count(UR_RC_ACKNOWLEDGE), 0);
	assert_int_equal(b.device.counters.rx_out_of_sequence, 0);
	assert_int_equal(b.qp->deadline, UR_NEVER);
}

static void immediates_come_with_the_last_packet(void **state)
{
	static const uint32_t lengths[] = { 0, 10, LONG };
	struct ibv_wc wc;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		post_recv(1, LONG);
		post_recv(2, LONG);
		post(IBV_WR_SEND_WITH_IMM, 1, lengths[i]);
		post(IBV_WR_RDMA_WRITE_WITH_IMM, 2, lengths[i]);
		simulation_settle();
		wc = simulation_completion(b.recv_cq);
		assert_int_equal(wc.wr_id, 1);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
		assert_int_equal(wc.imm_data, htobe32(IMM));
		wc = simulation_completion(b.recv_cq);
		assert_int_equal(wc.wr_id, 2);
		assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		assert_int_equal(wc.byte_len, lengths[i]);
		assert_int_equal(wc.imm_data, htobe32(IMM));
		assert_int_equal(wc.src_qp, a.qp->verbs.qp_num);
		assert_memory_equal(b.memory, a.memory, lengths[i]);
	}
}

static void opcodes_are_those_of_the_service(void **state)
{
	static const uint8_t opcodes[] = {
		UR_UC_SEND_FIRST, UR_UC_SEND_MIDDLE,    UR_UC_SEND_LAST,   UR_UC_SEND_LAST_IMM,
		UR_UC_SEND_ONLY,  UR_UC_SEND_ONLY_IMM,  UR_UC_WRITE_FIRST, UR_UC_WRITE_MIDDLE,
		UR_UC_WRITE_LAST, UR_UC_WRITE_LAST_IMM, UR_UC_WRITE_ONLY,  UR_UC_WRITE_ONLY_IMM,
	};
	static const enum ibv_wr_opcode operations[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
							 IBV_WR_RDMA_WRITE,
							 IBV_WR_RDMA_WRITE_WITH_IMM };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		post(operations[i], i, 10);
		post(operations[i], i, 3 * MTU);
	}
	for (unsigned i = 0; i < sizeof(opcodes); i++)
		assert_true(simulation_count(opcodes[i]) > 0);
	assert_false(simulation_last(UR_UC_SEND_LAST)->ack_request);
}

static void pieces_and_inline_data_are_gathered(void **state)
{
	struct ibv_sge from[3] = { simulation_sge(&a, 0, 7), simulation_sge(&a, 1000, 0),
				   simulation_sge(&a, 2000, 2 * MTU) };
	struct ibv_sge text = { .addr = (uintptr_t) "by value", .length = 8 };
	struct ibv_send_wr wr = simulation_wr(IBV_WR_SEND, from, 1);
	struct ibv_send_wr in_line = simulation_wr(IBV_WR_RDMA_WRITE, &text, 2);

	(void)state;
	wr.num_sge = 3;
	wr.send_flags = 0; /* nor is it signaled */
	in_line.send_flags |= IBV_SEND_INLINE;
	post_recv(1, 3 * MTU);
	simulation_post_send(&a, &wr);
	simulation_post_send(&a, &in_line);
	simulation_settle();
	assert_completion(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_no_completion(a.send_cq);
	assert_int_equal(assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS).byte_len, 2 * MTU + 7);
	assert_memory_equal(b.memory + RECEIVE_AT, a.memory, 7);
	assert_memory_equal(b.memory + RECEIVE_AT + 7, a.memory + 2000, 2 * MTU);
	assert_memory_equal(b.memory, "by value", 8);
}

static void only_the_last_packet_is_solicited(void **state)
{
	struct ibv_sge sge = simulation_sge(&a, 0, LONG);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_SEND, &sge, 1);

	(void)state;
	wr.send_flags |= IBV_SEND_SOLICITED;
	simulation_post_send(&a, &wr);
	assert_false(simulation_last(UR_UC_SEND_FIRST)->solicited);
	assert_true(simulation_last(UR_UC_SEND_LAST)->solicited);
}

static void there_are_no_other_operations(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						      IBV_WR_ATOMIC_FETCH_AND_ADD,
						      IBV_WR_SEND_WITH_INV };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct ibv_sge sge = simulation_sge(&a, 0, 8);
		struct ibv_send_wr wr = simulation_wr(opcodes[i], &sge, 1), *bad = NULL;

		assert_int_equal(ur_qp_post_send(&a.qp->verbs, &wr, &bad), EINVAL);
		assert_ptr_equal(bad, &wr);
	}
}

static void the_extended_interface_has_them_too(void **state)
{
	struct ibv_qp_ex *qp = &a.qp->verbs_ex;
	struct ibv_wc wc;

	(void)state;
	post_recv(1, LONG);
	ibv_wr_start(qp);
	qp->wr_id = 7;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write_imm(qp, b.mr->verbs.rkey, (uintptr_t)b.memory, htobe32(IMM));
	ibv_wr_set_sge(qp, a.mr->verbs.lkey, (uintptr_t)a.memory, LONG);
	assert_int_equal(ibv_wr_complete(qp), 0);
	simulation_settle();
	assert_completion(a.send_cq, 7, IBV_WC_SUCCESS);
	wc = assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, LONG);
	/* One that was not asked for, nor exists. */
	ibv_wr_start(qp);
	ibv_wr_rdma_read(qp, b.mr->verbs.rkey, (uintptr_t)b.memory);
	ibv_wr_set_sge(qp, a.mr->verbs.lkey, (uintptr_t)a.memory, 8);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
}

/* ---- Losses ---- */

static void a_lost_packet_loses_its_message_only(void **state)
{
	(void)state;
	for (unsigned lost = 0; lost < 6; lost++) {
		struct accident accident = { simulation_packets() + lost, DROP };

		simulation_set_fate(meet, &accident);
		post_recv(lost, LONG);
		post(IBV_WR_SEND, lost, LONG);
		simulation_settle();
		assert_completion(a.send_cq, lost, IBV_WC_SUCCESS);
		assert_no_completion(b.recv_cq);
		simulation_set_fate(NULL, NULL);
		/* The receive is there for the next. */
		assert_goes_on(lost);
	}
	assert_int_equal(b.qp->attr.qp_state, IBV_QPS_RTS);
	assert_no_event(&b);
}

static void a_lost_packet_loses_a_write_and_takes_no_receive(void **state)
{
	struct accident accident = { 2, DROP };

	(void)state;
	simulation_set_fate(meet, &accident);
	post_recv(1, LONG);
	post(IBV_WR_RDMA_WRITE_WITH_IMM, 1, LONG);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_no_completion(b.recv_cq);
	assert_memory_equal(b.memory, a.memory, 2 * MTU);
	assert_all_bytes(b.memory + 2 * MTU, LONG - 2 * MTU, 0);
	assert_int_equal(b.device.counters.rx_out_of_sequence, 1);
	assert_int_equal(b.device.counters.rx_incomplete, 3);
	assert_goes_on(1);
}

static void packets_out_of_order_or_doubled_lose_their_message(void **state)
{
	static const enum fate fates[] = { HOLD, DUPLICATE };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct accident accident = { simulation_packets() + 2, fates[i] };

		simulation_set_fate(meet, &accident);
		post_recv(i, LONG);
		post(IBV_WR_SEND, i, LONG);
		simulation_settle();
		assert_completion(a.send_cq, i, IBV_WC_SUCCESS);
		assert_no_completion(b.recv_cq);
		simulation_set_fate(NULL, NULL);
		assert_goes_on(i);
	}
}

static void a_shared_receive_stays_with_the_connection(void **state)
{
	struct accident accident = { 3, DROP };

	(void)state;
	simulation_set_fate(meet, &accident);
	post_recv(1, LONG);
	post_recv(2, LONG);
	post(IBV_WR_SEND, 1, LONG);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_no_completion(b.recv_cq);
	assert_goes_on(1);
	assert_goes_on(2);
	/* The end gives back what is not used. */
	post_recv(3, LONG);
	accident.at = simulation_packets() + 3;
	post(IBV_WR_SEND, 3, LONG);
	simulation_settle();
	ur_qp_modify(b.qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE);
	assert_completion(b.recv_cq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_event(&b, IBV_EVENT_QP_LAST_WQE_REACHED);
}

/* ---- What is refused ---- */

static void without_a_receive_a_message_is_dropped(void **state)
{
	(void)state;
	post(IBV_WR_SEND, 1, LONG);
	post(IBV_WR_RDMA_WRITE_WITH_IMM, 2, 10);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(b.device.counters.rx_no_receive, 2);
	assert_int_equal(b.device.counters.rx_incomplete, 5);
	assert_all_bytes(b.memory, MEMORY_SIZE, 0);
	post_recv(3, LONG);
	assert_goes_on(3);
}

static void a_receive_that_is_too_small_ends_and_nothing_else(void **state)
{
	(void)state;
	post_recv(1, LONG - 1);
	post_recv(2, LONG);
	post(IBV_WR_SEND, 1, LONG);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(b.recv_cq, 1, IBV_WC_LOC_LEN_ERR);
	assert_goes_on(2);
}

static void memory_of_a_receive_that_may_not_be_written_is_the_end(void **state)
{
	struct ibv_sge sge = simulation_sge(&b, RECEIVE_AT, LONG);
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	(void)state;
	sge.lkey++;
	assert_int_equal(ur_qp_post_recv(&b.qp->verbs, &wr, &bad), 0);
	post_recv(2, LONG);
	post(IBV_WR_SEND, 1, LONG);
	simulation_settle();
	assert_completion(b.recv_cq, 1, IBV_WC_LOC_PROT_ERR);
	assert_completion(b.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(b.qp->attr.qp_state, IBV_QPS_ERR);
}

static void a_write_goes_where_both_permit_it_only(void **state)
{
	struct ibv_sge sge = simulation_sge(&a, 0, LONG);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_WRITE, &sge, 1);
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_READ };

	(void)state;
	wr.wr.rdma.rkey++;
	simulation_post_send(&a, &wr);
	wr.wr.rdma.rkey--;
	wr.wr.rdma.remote_addr += MEMORY_SIZE - LONG + 1;
	simulation_post_send(&a, &wr);
	wr.wr.rdma.remote_addr -= MEMORY_SIZE - LONG + 1;
	simulation_settle();
	assert_int_equal(b.device.counters.rx_refused, 2);
	b.mr->access &= ~(unsigned)IBV_ACCESS_REMOTE_WRITE;
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_int_equal(b.device.counters.rx_refused, 3);
	b.mr->access |= IBV_ACCESS_REMOTE_WRITE;
	assert_int_equal(ur_qp_modify(b.qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_int_equal(b.device.counters.rx_refused, 4);
	assert_all_bytes(b.memory, MEMORY_SIZE, 0);
	assert_no_event(&b);
	post_recv(1, LONG);
	post(IBV_WR_SEND, 2, 10);
	simulation_settle();
	assert_received(1, 10);
}

static void a_write_of_another_length_than_it_said_is_dropped(void **state)
{
	struct ur_packet packet = { .opcode = UR_UC_WRITE_ONLY,
				    .pkey = UR_DEFAULT_PKEY,
				    .dest_qpn = b.qp->verbs.qp_num,
				    .psn = config.psn,
				    .va = (uintptr_t)b.memory,
				    .rkey = b.mr->verbs.rkey,
				    .dma_length = 11,
				    .payload_length = 10 };

	(void)state;
	simulation_inject(&packet, a.memory);
	packet.opcode = UR_UC_WRITE_FIRST;
	simulation_inject(&packet, a.memory);
	simulation_settle();
	assert_int_equal(b.device.counters.rx_refused, 2);
	assert_all_bytes(b.memory, MEMORY_SIZE, 0);
}

static void packets_of_a_reliable_connection_are_not_taken(void **state)
{
	struct ur_packet packet = { .opcode = UR_RC_SEND_ONLY,
				    .pkey = UR_DEFAULT_PKEY,
				    .dest_qpn = b.qp->verbs.qp_num,
				    .psn = config.psn };

	(void)state;
	post_recv(1, LONG);
	simulation_inject(&packet, NULL);
	simulation_settle();
	assert_int_equal(b.device.counters.rx_unexpected, 1);
	assert_goes_on(1);
}

/* ---- Sending ---- */

static void memory_that_may_not_be_read_ends_the_send_queue_only(void **state)
{
	struct ibv_sge pieces[2] = { simulation_sge(&a, 0, 2 * MTU), simulation_sge(&a, 0, MTU) };
	struct ibv_send_wr wr = simulation_wr(IBV_WR_SEND, pieces, 1);

	(void)state;
	/* After the first packets. */
	pieces[1].lkey++;
	wr.num_sge = 2;
	post_recv(1, LONG);
	simulation_post_send(&a, &wr);
	assert_completion(a.send_cq, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(a.qp->attr.qp_state, IBV_QPS_SQE);
	post(IBV_WR_SEND, 2, 10);
	assert_completion(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ur_qp_modify(a.qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS },
				      IBV_QP_STATE),
			 0);
	/* Its first packet ends the message that was not finished. */
	assert_goes_on(1);
}

static void a_message_that_is_too_long_is_not_sent(void **state)
{
	struct ibv_sge sge = simulation_sge(&a, 0, UR_MAX_MESSAGE + 1);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_WRITE, &sge, 1);

	(void)state;
	simulation_post_send(&a, &wr);
	assert_completion(a.send_cq, 1, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(a.qp->attr.qp_state, IBV_QPS_SQE);
}

static void unblock(void)
{
	simulation_block(false);
	a.qp->blocked = false;
	ur_qp_transmit(a.qp, simulation_now());
}

static void what_is_given_back_is_sent_again_in_its_order(void **state)
{
	uint32_t second;

	(void)state;
	post_recv(1, LONG);
	post_recv(2, LONG);
	post(IBV_WR_SEND, 1, LONG);
	simulation_lose_all();
	/* From the middle of the first: as if it had been among what the system did not take. */
	a.qp->sq.head--;
	second = ur_psn_add(config.psn, 2);
	ur_sender_unsent(a.qp, second);
	ur_sender_unsent(a.qp, ur_psn_add(second, 1));
	assert_int_equal(a.qp->requester.next_psn, second);
	assert_int_equal(a.qp->requester.offset, 2);
	assert_true(a.qp->blocked);
	unblock();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(a.qp->requester.next_psn, ur_psn_add(config.psn, 6));
	simulation_settle();
	assert_int_equal(b.device.counters.rx_incomplete, 4);
	assert_goes_on(1);
}

static void a_blocked_carrier_holds_all_back(void **state)
{
	(void)state;
	post_recv(1, LONG);
	simulation_block(true);
	post(IBV_WR_SEND, 1, LONG);
	assert_true(a.qp->blocked);
	assert_no_completion(a.send_cq);
	unblock();
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_received(1, LONG);
}

static void a_burst_ends_and_the_queue_pair_goes_on(void **state)
{
	(void)state;
	post(IBV_WR_RDMA_WRITE, 1, MEMORY_SIZE);
	assert_no_completion(a.send_cq);
	assert_true(a.qp->scheduled);
	assert_in_range(ur_psn_diff(a.qp->requester.next_psn, config.psn), 1,
			SIMULATION_WINDOW / MTU);
	/* What has been begun is finished, and then the send queue is drained. */
	assert_int_equal(ur_qp_modify(a.qp,
				      &(struct ibv_qp_attr){ .qp_state = IBV_QPS_SQD,
							     .en_sqd_async_notify = 1 },
				      IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 0);
	post(IBV_WR_RDMA_WRITE, 2, 10);
	assert_no_event(&a);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_no_completion(a.send_cq);
	assert_event(&a, IBV_EVENT_SQ_DRAINED);
	assert_memory_equal(b.memory, a.memory, MEMORY_SIZE);
}

/* The queue pair's deadline is the system's clock's, as it was set when posting. */
static void run_timer(void)
{
	assert_int_not_equal(a.qp->deadline, UR_NEVER);
	ur_qp_run_timer(a.qp, a.qp->deadline);
}

static void a_peer_without_room_is_waited_for(void **state)
{
	unsigned sent;

	(void)state;
	simulation_fill(true);
	post(IBV_WR_RDMA_WRITE, 1, 300 * 1024);
	a.qp->scheduled = false;
	assert_false(ur_qp_go_on(a.qp));
	sent = simulation_count(UR_UC_WRITE_MIDDLE);
	run_timer();
	/* Posting more does not make it ask earlier. */
	post(IBV_WR_RDMA_WRITE, 2, 10);
	assert_int_equal(simulation_count(UR_UC_WRITE_MIDDLE), sent);
	simulation_fill(false);
	run_timer();
	assert_int_equal(a.qp->deadline, UR_NEVER);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 2, IBV_WC_SUCCESS);
}

static void a_peer_that_never_has_room_is_sent_to_in_the_end(void **state)
{
	unsigned waits = 0;

	(void)state;
	simulation_fill(true);
	post(IBV_WR_RDMA_WRITE, 1, 300 * 1024);
	a.qp->scheduled = false;
	ur_qp_go_on(a.qp);
	for (; a.qp->deadline != UR_NEVER; waits++)
		run_timer();
	assert_in_range(waits, 1, UR_ROOM_PATIENCE / UR_ROOM_INTERVAL + 1);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
}

/* ---- Windows ---- */

static struct {
	struct ur_mr *mr; /* all of b's memory, for windows only */
	struct ur_mw *mw; /* of type 2 */
} window;

static int setup_window(void **state)
{
	setup(state);
	window.mr = ur_mr_register(b.pd, b.memory, MEMORY_SIZE, UR_NO_IOVA,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	window.mw = ur_mw_alloc(b.pd, IBV_MW_TYPE_2);
	return window.mr && window.mw ? 0 : -1;
}

static int teardown_window(void **state)
{
	assert_int_equal(ur_mw_dealloc(window.mw), 0);
	assert_int_equal(ur_mr_deregister(window.mr), 0);
	return teardown(state);
}

/* Returns the window's key. */
static uint32_t post_bind(uint64_t wr_id)
{
	struct ibv_send_wr wr = simulation_wr(IBV_WR_BIND_MW, NULL, wr_id);

	wr.bind_mw.mw = &window.mw->verbs;
	wr.bind_mw.rkey = ibv_inc_rkey(window.mw->verbs.rkey);
	wr.bind_mw.bind_info =
		(struct ibv_mw_bind_info){ .mr = &window.mr->verbs,
					   .addr = (uintptr_t)b.memory + RECEIVE_AT,
					   .length = LONG,
					   .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	simulation_post_send(&b, &wr);
	return wr.bind_mw.rkey;
}

static void post_invalidate(uint32_t key, uint64_t wr_id)
{
	struct ibv_send_wr wr = simulation_wr(IBV_WR_LOCAL_INV, NULL, wr_id);

	wr.invalidate_rkey = key;
	simulation_post_send(&b, &wr);
}

/* a writes, and is never told whether it could. Returns whether it has come. */
static bool writes_by(uint32_t key, uint64_t offset)
{
	struct ibv_sge sge = simulation_sge(&a, 0, LONG);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_WRITE, &sge, 1);
	uint8_t *target = b.memory + RECEIVE_AT + offset;

	memset(target, 0, LONG);
	wr.wr.rdma.remote_addr = (uintptr_t)target;
	wr.wr.rdma.rkey = key;
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	if (memcmp(target, a.memory, LONG) == 0)
		return true;
	assert_all_bytes(target, LONG, 0);
	return false;
}

static void a_window_is_bound_and_taken_back(void **state)
{
	uint32_t key = post_bind(5);

	(void)state;
	assert_int_equal(assert_completion(b.send_cq, 5, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	assert_true(writes_by(key, 0));
	assert_false(writes_by(key, 1));
	assert_int_equal(b.device.counters.rx_refused, 1);
	post_invalidate(key, 6);
	assert_int_equal(assert_completion(b.send_cq, 6, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);
	assert_false(writes_by(key, 0));
	assert_int_equal(b.qp->requester.next_psn, config.psn);
}

static void a_bind_that_fails_ends_the_send_queue_only(void **state)
{
	uint32_t key = post_bind(5);

	(void)state;
	assert_completion(b.send_cq, 5, IBV_WC_SUCCESS);
	/* Type 2 is taken back before it is bound anew. */
	post_bind(6);
	assert_int_equal(assert_completion(b.send_cq, 6, IBV_WC_MW_BIND_ERR).opcode,
			 IBV_WC_BIND_MW);
	assert_int_equal(b.qp->attr.qp_state, IBV_QPS_SQE);
	post_invalidate(key, 7);
	assert_completion(b.send_cq, 7, IBV_WC_WR_FLUSH_ERR);
	assert_true(writes_by(key, 0));
}

static void a_window_waits_for_its_turn_and_is_bound_once(void **state)
{
	struct ibv_sge sge = simulation_sge(&b, 0, LONG);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_WRITE, &sge, 4);

	(void)state;
	simulation_block(true);
	simulation_post_send(&b, &wr);
	post_bind(5);
	assert_null(window.mw->mr);
	simulation_block(false);
	ur_qp_transmit(b.qp, simulation_now());
	assert_completion(b.send_cq, 4, IBV_WC_SUCCESS);
	assert_completion(b.send_cq, 5, IBV_WC_SUCCESS);
	/* The write goes back, as if it had been among what the system did not take. */
	b.qp->sq.head -= 2;
	ur_sender_unsent(b.qp, ur_psn_add(config.psn, 2));
	ur_qp_transmit(b.qp, simulation_now());
	assert_completion(b.send_cq, 4, IBV_WC_SUCCESS);
	assert_completion(b.send_cq, 5, IBV_WC_SUCCESS);
	assert_int_equal(b.qp->requester.next_psn, ur_psn_add(config.psn, 6));
	simulation_settle();
}

/* ---- States ---- */

static void the_first_message_establishes_the_connection(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	(void)state;
	assert_int_equal(ur_qp_modify(b.qp, &attr, IBV_QP_STATE), 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1 };
	assert_int_equal(ur_qp_modify(b.qp, &attr,
				      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					      IBV_QP_ACCESS_FLAGS),
			 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = a.qp->verbs.qp_num,
		.rq_psn = config.psn,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh.dgid = a.device.gids[0] }
	};
	/* What only a reliable connection has is refused. */
	assert_int_equal(ur_qp_modify(b.qp, &attr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN | IBV_QP_MIN_RNR_TIMER),
			 EINVAL);
	assert_int_equal(ur_qp_modify(b.qp, &attr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN),
			 0);
	post_recv(1, LONG);
	assert_goes_on(1);
	assert_event(&b, IBV_EVENT_COMM_EST);
}

#define uc_test(test)        cmocka_unit_test_setup_teardown(test, setup, teardown)
#define window_test(test)    cmocka_unit_test_setup_teardown(test, setup_window, teardown_window)
#define with_setup(test, by) cmocka_unit_test_setup_teardown(test, by, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		uc_test(messages_of_all_lengths_arrive),
		uc_test(immediates_come_with_the_last_packet),
		uc_test(opcodes_are_those_of_the_service),
		uc_test(pieces_and_inline_data_are_gathered),
		uc_test(only_the_last_packet_is_solicited),
		uc_test(there_are_no_other_operations),
		with_setup(the_extended_interface_has_them_too, setup_extended),
		uc_test(a_lost_packet_loses_its_message_only),
		uc_test(a_lost_packet_loses_a_write_and_takes_no_receive),
		uc_test(packets_out_of_order_or_doubled_lose_their_message),
		with_setup(a_shared_receive_stays_with_the_connection, setup_shared),
		uc_test(without_a_receive_a_message_is_dropped),
		uc_test(a_receive_that_is_too_small_ends_and_nothing_else),
		uc_test(memory_of_a_receive_that_may_not_be_written_is_the_end),
		uc_test(a_write_goes_where_both_permit_it_only),
		uc_test(a_write_of_another_length_than_it_said_is_dropped),
		uc_test(packets_of_a_reliable_connection_are_not_taken),
		uc_test(memory_that_may_not_be_read_ends_the_send_queue_only),
		uc_test(a_message_that_is_too_long_is_not_sent),
		uc_test(what_is_given_back_is_sent_again_in_its_order),
		uc_test(a_blocked_carrier_holds_all_back),
		uc_test(a_burst_ends_and_the_queue_pair_goes_on),
		uc_test(a_peer_without_room_is_waited_for),
		uc_test(a_peer_that_never_has_room_is_sent_to_in_the_end),
		window_test(a_window_is_bound_and_taken_back),
		window_test(a_bind_that_fails_ends_the_send_queue_only),
		window_test(a_window_waits_for_its_turn_and_is_bound_once),
		uc_test(the_first_message_establishes_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
