/*
 * Extended reliable connections: what is not as in other reliable ones, since the target of a request is
 * the shared receive queue that it names. a sends, b receives.
 */
#include "simulation.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "../../../uroce/core/clock.h"

#define SECOND UINT64_C(1000000000)
#define OTHER  4096 /* where the memory of the other protection domain begins */

/* Another shared receive queue of b, with everything else different, too. */
static struct {
	struct ur_pd *pd;
	struct ur_mr *mr;
	struct ur_cq *cq;
	struct ur_xrcd *xrcd; /* NULL: of b's domain */
	struct ur_srq *srq;
} other;

static int setup(void **state)
{
	struct simulation_config config = simulation_defaults;

	(void)state;
	config.type = IBV_QPT_XRC_SEND;
	simulation_create(&config);
	memset(&other, 0, sizeof(other));
	return 0;
}

static void create_other(bool same_domain)
{
	const struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							      IBV_XRCD_INIT_ATTR_OFLAGS,
						 .fd = -1,
						 .oflags = O_CREAT };

	other.pd = ur_pd_alloc(b.context);
	other.mr = ur_mr_register(other.pd, b.memory + OTHER, 4096, UINT64_MAX,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	other.cq = ur_cq_create(b.context, 16, NULL, NULL, 0, NULL);
	if (!same_domain)
		other.xrcd = ur_xrcd_open(b.context, &attr);
	other.srq = ur_srq_create_xrc(other.pd, same_domain ? b.xrcd : other.xrcd, other.cq, NULL,
				      &(struct ibv_srq_attr){ .max_wr = 16, .max_sge = 1 });
	assert_non_null(other.srq);
}

static int teardown(void **state)
{
	(void)state;
	simulation_set_fate(NULL, NULL);
	if (other.pd) {
		assert_int_equal(ur_srq_destroy(other.srq), 0);
		if (other.xrcd)
			assert_int_equal(ur_xrcd_close(other.xrcd), 0);
		assert_int_equal(ur_cq_destroy(other.cq), 0);
		assert_int_equal(ur_mr_deregister(other.mr), 0);
		assert_int_equal(ur_pd_dealloc(other.pd), 0);
	}
	simulation_destroy();
	return 0;
}

/* To memory and receives of srq; key: of the region. */
static void post(enum ibv_wr_opcode opcode, uint32_t length, uint64_t wr_id,
		 const struct ur_srq *srq, const struct ur_mr *mr)
{
	struct ibv_sge sge = simulation_sge(&a, 0, length);
	struct ibv_send_wr wr = simulation_wr(opcode, &sge, wr_id);

	wr.qp_type.xrc.remote_srqn = srq->number;
	wr.wr.rdma.remote_addr = (uintptr_t)mr->verbs.addr;
	wr.wr.rdma.rkey = mr->verbs.rkey;
	simulation_post_send(&a, &wr);
}

static void post_other_recv(uint64_t wr_id, uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)other.mr->verbs.addr,
			       .length = length,
			       .lkey = other.mr->verbs.lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;

	assert_int_equal(ur_srq_post(&other.srq->verbs, &wr, &bad), 0);
}

static void assert_refused(enum ibv_wc_status status, enum ur_nak_code nak,
			   enum ibv_event_type event)
{
	assert_completion(a.send_cq, 1, status);
	assert_int_equal(simulation_last(UR_XRC_SEND_FIRST | UR_RC_ACKNOWLEDGE)->syndrome,
			 UR_SYNDROME_NAK | nak);
	assert_int_equal(b.qp->attr.qp_state, IBV_QPS_ERR);
	assert_event(&b, event);
	/* Whoever counts its messages learns that none comes any more. */
	assert_event(&b, IBV_EVENT_QP_LAST_WQE_REACHED);
}

/* ---- Targets ---- */

static void each_message_goes_to_the_queue_that_it_names(void **state)
{
	struct ibv_wc wc;

	(void)state;
	create_other(true);
	memset(a.memory, 7, 100);
	simulation_post_recv(&b, 10, 0, 100);
	post_other_recv(20, 100);
	post(IBV_WR_SEND, 100, 1, other.srq, other.mr);
	post(IBV_WR_SEND, 50, 2, b.srq, b.mr);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 2, IBV_WC_SUCCESS);
	wc = assert_completion(other.cq, 20, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 100);
	assert_int_equal(wc.qp_num, b.qp->verbs.qp_num);
	assert_int_equal(wc.src_qp, a.qp->verbs.qp_num);
	wc = assert_completion(b.recv_cq, 10, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 50);
	assert_no_completion(other.cq);
	assert_all_bytes(b.memory, 50, 7);
	assert_all_bytes(b.memory + OTHER, 100, 7);
}

static void requests_carry_the_number_and_answers_do_not(void **state)
{
	const struct ur_packet *request;

	(void)state;
	post(IBV_WR_RDMA_READ, 10, 1, b.srq, b.mr);
	simulation_settle();
	request = simulation_last(UR_XRC_SEND_FIRST | UR_RC_READ_REQUEST);
	assert_int_equal(request->srqn, b.srq->number);
	assert_int_equal(simulation_count(UR_XRC_SEND_FIRST | UR_RC_READ_RESPONSE_ONLY), 1);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
}

static void a_number_that_is_not_there_is_refused(void **state)
{
	const struct ur_srq unknown = { .number = UR_24_BITS };

	(void)state;
	simulation_post_recv(&b, 1, 0, 100);
	post(IBV_WR_SEND, 100, 1, &unknown, b.mr);
	simulation_settle();
	assert_refused(IBV_WC_REM_INV_REQ_ERR, UR_NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
	assert_no_completion(b.recv_cq);
}

static void a_queue_of_another_domain_is_refused(void **state)
{
	(void)state;
	create_other(false);
	post_other_recv(20, 100);
	post(IBV_WR_SEND, 100, 1, other.srq, other.mr);
	simulation_settle();
	assert_refused(IBV_WC_REM_INV_REQ_ERR, UR_NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
	assert_no_completion(other.cq);
}

static void a_basic_queue_is_refused(void **state)
{
	struct ur_srq *basic =
		ur_srq_create(b.pd, NULL, &(struct ibv_srq_attr){ .max_wr = 1, .max_sge = 1 });

	(void)state;
	post(IBV_WR_RDMA_WRITE, 100, 1, basic, b.mr);
	simulation_settle();
	assert_refused(IBV_WC_REM_INV_REQ_ERR, UR_NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(ur_srq_destroy(basic), 0);
}

/* ---- Memory ---- */

static const enum ibv_wr_opcode accesses[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
					       IBV_WR_ATOMIC_FETCH_AND_ADD };

static void post_access(enum ibv_wr_opcode opcode, uint64_t wr_id, const struct ur_srq *srq,
			const struct ur_mr *mr)
{
	struct ibv_sge sge = simulation_sge(&a, 0, 8);
	struct ibv_send_wr wr = simulation_wr(opcode, &sge, wr_id);

	wr.qp_type.xrc.remote_srqn = srq->number;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)mr->verbs.addr;
		wr.wr.atomic.rkey = mr->verbs.rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)mr->verbs.addr;
		wr.wr.rdma.rkey = mr->verbs.rkey;
	}
	simulation_post_send(&a, &wr);
}

static void memory_is_reached_through_a_queue_of_its_protection_domain(void **state)
{
	(void)state;
	create_other(true);
	for (uint64_t i = 0; i < 3; i++) {
		post_access(accesses[i], i, other.srq, other.mr);
		post_access(accesses[i], 10 + i, b.srq, b.mr);
		simulation_settle();
		assert_completion(a.send_cq, i, IBV_WC_SUCCESS);
		assert_completion(a.send_cq, 10 + i, IBV_WC_SUCCESS);
	}
}

static void assert_out_of_reach(enum ibv_wr_opcode opcode, const struct ur_srq *srq,
				const struct ur_mr *mr)
{
	struct simulation_config config = simulation_defaults;

	post_access(opcode, 1, srq, mr);
	simulation_settle();
	assert_refused(IBV_WC_REM_ACCESS_ERR, UR_NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
	config.type = IBV_QPT_XRC_SEND;
	simulation_reconnect(&config);
}

static void memory_is_not_reached_through_a_queue_of_another_protection_domain(void **state)
{
	(void)state;
	create_other(true);
	memset(a.memory, 0x55, 8);
	for (unsigned i = 0; i < 3; i++) {
		assert_out_of_reach(accesses[i], other.srq, b.mr);
		assert_out_of_reach(accesses[i], b.srq, other.mr);
	}
	assert_all_bytes(b.memory, OTHER + 4096, 0);
}

/* The answers of the first are sent when the second has come already; then they are asked for again. */
static enum fate lose_responses(const struct ur_packet *packet, unsigned count, void *user_data)
{
	bool is_response = ur_operation(packet->opcode) >= UR_RC_READ_RESPONSE_FIRST &&
			   ur_operation(packet->opcode) <= UR_RC_READ_RESPONSE_ONLY;
	unsigned *left = user_data;

	(void)count;
	if (!is_response || *left == 0)
		return DELIVER;
	--*left;
	return DROP;
}

static void reads_are_answered_from_the_memory_that_they_were_for(void **state)
{
	unsigned lost = 3;

	(void)state;
	create_other(true);
	fill_pattern(b.memory, OTHER + 4096, 1);
	simulation_set_fate(lose_responses, &lost);
	post(IBV_WR_RDMA_READ, 4096, 1, other.srq, other.mr);
	post(IBV_WR_RDMA_READ, 8, 2, b.srq, b.mr);
	simulation_run(SECOND);
	assert_int_equal(lost, 0);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_memory_equal(a.memory, b.memory, 8);
	assert_memory_equal(a.memory + 8, b.memory + OTHER + 8, 4088);
}

/* ---- Receives ---- */

static void nothing_is_promised_of_receives_that_others_may_take(void **state)
{
	(void)state;
	simulation_post_recv(&b, 1, 0, 100);
	post(IBV_WR_SEND, 100, 1, b.srq, b.mr);
	simulation_settle();
	assert_int_equal(simulation_last(UR_XRC_SEND_FIRST | UR_RC_ACKNOWLEDGE)->syndrome,
			 UR_SYNDROME_ACK | UR_CREDITS_UNLIMITED);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
}

static void a_message_waits_for_a_receive_of_the_queue_that_it_is_for(void **state)
{
	(void)state;
	create_other(true);
	simulation_post_recv(&b, 1, 0, 100);
	post(IBV_WR_SEND, 100, 1, other.srq, other.mr);
	simulation_settle();
	assert_int_equal(b.device.counters.rnr_naks_sent, 1);
	assert_no_completion(b.recv_cq);
	post_other_recv(20, 100);
	simulation_run(SECOND);
	assert_completion(other.cq, 20, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
}

static struct ur_packet request(uint8_t operation, uint32_t index, const struct ur_srq *srq)
{
	return (struct ur_packet){ .opcode = UR_XRC_SEND_FIRST | operation,
				   .pkey = UR_DEFAULT_PKEY,
				   .dest_qpn = b.qp->verbs.qp_num,
				   .psn = (simulation_defaults.psn + index) & UR_24_BITS,
				   .srqn = srq->number,
				   .payload_length = b.qp->mtu };
}

static void a_message_does_not_change_its_target(void **state)
{
	const struct ur_packet begin = request(UR_RC_SEND_FIRST, 0, b.srq);
	struct ur_packet end;

	(void)state;
	create_other(true);
	end = request(UR_RC_SEND_LAST, 1, other.srq);
	simulation_post_recv(&b, 10, 0, 4096);
	simulation_inject(&begin, a.memory);
	simulation_inject(&end, a.memory);
	simulation_settle();
	assert_int_equal(b.qp->attr.qp_state, IBV_QPS_ERR);
	assert_event(&b, IBV_EVENT_QP_REQ_ERR);
	assert_event(&b, IBV_EVENT_QP_LAST_WQE_REACHED);
	/* The receive ends where it was posted. */
	assert_completion(b.recv_cq, 10, IBV_WC_WR_FLUSH_ERR);
	assert_no_completion(other.cq);
}

static void a_queue_stays_while_a_message_is_under_way_to_it(void **state)
{
	const struct ur_packet begin = request(UR_RC_SEND_FIRST, 0, b.srq);
	const struct ur_packet end = request(UR_RC_SEND_LAST, 1, b.srq);

	(void)state;
	simulation_post_recv(&b, 10, 0, 4096);
	simulation_inject(&begin, a.memory);
	simulation_settle();
	assert_int_equal(ur_srq_destroy(b.srq), EBUSY);
	simulation_inject(&end, a.memory);
	simulation_settle();
	assert_completion(b.recv_cq, 10, IBV_WC_SUCCESS);
}

static void a_queue_goes_though_queue_pairs_have_used_it(void **state)
{
	struct ur_srq gone;

	(void)state;
	create_other(true);
	simulation_post_recv(&b, 10, 0, 100);
	post(IBV_WR_SEND, 100, 1, b.srq, b.mr);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(b.recv_cq, 10, IBV_WC_SUCCESS);
	gone = *b.srq;
	assert_int_equal(ur_srq_destroy(b.srq), 0);
	b.srq = NULL;
	post_other_recv(20, 100);
	post(IBV_WR_SEND, 100, 2, other.srq, other.mr);
	simulation_settle();
	assert_completion(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_completion(other.cq, 20, IBV_WC_SUCCESS);
	post(IBV_WR_SEND, 100, 1, &gone, b.mr);
	simulation_settle();
	assert_refused(IBV_WC_REM_INV_REQ_ERR, UR_NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
}

static void what_has_completed_stays_when_the_queue_pair_goes(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	(void)state;
	simulation_post_recv(&b, 10, 0, 100);
	post(IBV_WR_SEND, 100, 1, b.srq, b.mr);
	simulation_settle();
	assert_int_equal(ur_qp_modify(b.qp, &attr, IBV_QP_STATE), 0);
	assert_completion(b.recv_cq, 10, IBV_WC_SUCCESS);
}

/* ---- Halves ---- */

static void each_half_takes_packets_of_its_direction_only(void **state)
{
	struct ur_packet packet = request(UR_RC_SEND_ONLY, 0, b.srq);

	(void)state;
	simulation_deliver(&a, &packet);
	assert_int_equal(a.device.counters.rx_unexpected, 1);
	packet.opcode = UR_XRC_SEND_FIRST | UR_RC_ACKNOWLEDGE;
	simulation_deliver(&b, &packet);
	packet.opcode = UR_RC_SEND_ONLY;
	simulation_deliver(&b, &packet);
	assert_int_equal(b.device.counters.rx_unexpected, 2);
	assert_int_equal(simulation_packets(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(each_message_goes_to_the_queue_that_it_names),
		TEST(requests_carry_the_number_and_answers_do_not),
		TEST(a_number_that_is_not_there_is_refused),
		TEST(a_queue_of_another_domain_is_refused),
		TEST(a_basic_queue_is_refused),
		TEST(memory_is_reached_through_a_queue_of_its_protection_domain),
		TEST(memory_is_not_reached_through_a_queue_of_another_protection_domain),
		TEST(reads_are_answered_from_the_memory_that_they_were_for),
		TEST(nothing_is_promised_of_receives_that_others_may_take),
		TEST(a_message_waits_for_a_receive_of_the_queue_that_it_is_for),
		TEST(a_message_does_not_change_its_target),
		TEST(a_queue_stays_while_a_message_is_under_way_to_it),
		TEST(a_queue_goes_though_queue_pairs_have_used_it),
		TEST(what_has_completed_stays_when_the_queue_pair_goes),
		TEST(each_half_takes_packets_of_its_direction_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
