/*
 * Datagrams between two queue pairs.
 */
/* First: it has parameters with the names of the nodes. */
#include "../../../uroce/link/address.h"

#include "simulation.h"

#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <string.h>

#include "../../../uroce/core/ah.h"
#include "../../../uroce/transport/datagram.h"
#include "../../../uroce/transport/sender.h"

#define IPV4       0
#define IPV6       1
#define MTU        4096
#define IMM        0xd0ca
#define RECEIVE_AT 65536 /* offset of receives in b's memory */

static struct ur_ah *to_b;

static struct ur_ah *make_ah(struct node *from, const struct node *to, uint8_t gid_index)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .grh = { .dgid = to->device.gids[gid_index],
					     .sgid_index = gid_index } };
	struct ur_ah *ah = ur_ah_create(from->pd, &attr);

	assert_non_null(ah);
	return ah;
}

static void create(bool srq, uint64_t send_ops)
{
	struct simulation_config config = simulation_defaults;

	config.type = IBV_QPT_UD;
	config.srq = srq;
	config.send_ops = send_ops;
	simulation_create(&config);
	to_b = make_ah(&a, &b, IPV4);
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
	create(false, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(ur_ah_destroy(to_b), 0);
	simulation_destroy();
	return 0;
}

/* ---- Steps ---- */

static struct ibv_send_wr wr_to(struct ur_ah *ah, const struct node *to, struct ibv_sge *sge,
				uint64_t wr_id)
{
	return (struct ibv_send_wr){ .wr_id = wr_id,
				     .sg_list = sge,
				     .num_sge = 1,
				     .opcode = IBV_WR_SEND,
				     .send_flags = IBV_SEND_SIGNALED,
				     .wr.ud = { .ah = &ah->verbs,
						.remote_qpn = to->qp->verbs.qp_num,
						.remote_qkey = SIMULATION_QKEY } };
}

static void post(uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = simulation_sge(&a, offset, length);
	struct ibv_send_wr wr = wr_to(to_b, &b, &sge, wr_id);

	simulation_post_send(&a, &wr);
}

static void post_recv(uint64_t wr_id, uint32_t length)
{
	simulation_post_recv(&b, wr_id, RECEIVE_AT, length);
}

static const uint8_t *received_header(void)
{
	return b.memory + RECEIVE_AT;
}

static const uint8_t *received_data(void)
{
	return b.memory + RECEIVE_AT + UR_GRH_SIZE;
}

static int modify(struct node *node, enum ibv_qp_state state)
{
	return ur_qp_modify(node->qp, &(struct ibv_qp_attr){ .qp_state = state }, IBV_QP_STATE);
}

static void assert_state(const struct node *node, enum ibv_qp_state state)
{
	assert_int_equal(node->qp->attr.qp_state, state);
	assert_int_equal(node->qp->verbs.state, state);
}

/* The next that a sends arrives. */
static void assert_goes_on(uint64_t wr_id)
{
	post_recv(wr_id, MTU + UR_GRH_SIZE);
	post(wr_id, 0, 10);
	simulation_settle();
	assert_completion(a.send_cq, wr_id, IBV_WC_SUCCESS);
	assert_completion(b.recv_cq, wr_id, IBV_WC_SUCCESS);
}

static void unblock(void)
{
	simulation_block(false);
	a.qp->blocked = false;
	ur_qp_transmit(a.qp, simulation_now());
}

/* ---- Messages ---- */

static void a_datagram_arrives_behind_its_header(void **state)
{
	static const uint32_t lengths[] = { 0, 1, 3, 4, 5, 1000, MTU - 1, MTU };

	(void)state;
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct ibv_wc sent = { .wr_id = i,
				       .opcode = IBV_WC_SEND,
				       .byte_len = lengths[i],
				       .qp_num = a.qp->verbs.qp_num };
		struct ibv_wc received = { .wr_id = 100 + i,
					   .opcode = IBV_WC_RECV,
					   .byte_len = UR_GRH_SIZE + lengths[i],
					   .qp_num = b.qp->verbs.qp_num,
					   .src_qp = a.qp->verbs.qp_num,
					   .wc_flags = IBV_WC_GRH };
		struct ibv_wc wc;

		memset(b.memory, 0xee, MEMORY_SIZE);
		fill_pattern(a.memory, lengths[i], i);
		post_recv(100 + i, UR_GRH_SIZE + lengths[i]);
		post(i, 0, lengths[i]);
		/* That it was sent is all there is to know. */
		wc = simulation_completion(a.send_cq);
		assert_memory_equal(&wc, &sent, sizeof(wc));
		simulation_settle();
		wc = simulation_completion(b.recv_cq);
		assert_memory_equal(&wc, &received, sizeof(wc));
		assert_memory_equal(received_data(), a.memory, lengths[i]);
		assert_int_equal(received_data()[lengths[i]], 0xee);
		assert_int_equal(simulation_last(UR_UD_SEND_ONLY)->psn,
				 (simulation_defaults.psn + i) & UR_24_BITS);
	}
	assert_int_equal(simulation_count(UR_RC_ACKNOWLEDGE), 0);
}

static void an_immediate_comes_with_it_and_wakes_who_waits_for_that(void **state)
{
	struct ibv_sge sge = simulation_sge(&a, 0, 10);
	struct ibv_send_wr wr = wr_to(to_b, &b, &sge, 1);
	struct ibv_wc wc;

	(void)state;
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htobe32(IMM);
	post_recv(1, 100);
	post_recv(2, 100);
	ur_cq_request_notification(&b.recv_cq->verbs, 1);
	simulation_post_send(&a, &wr);
	simulation_settle();
	wc = assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, htobe32(IMM));
	assert_int_equal(b.recv_cq->arm, UR_CQ_ARMED_SOLICITED);
	wr.send_flags |= IBV_SEND_SOLICITED;
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_int_equal(b.recv_cq->arm, UR_CQ_NOT_ARMED);
}

static void an_ipv4_header_has_the_addresses(void **state)
{
	static const uint8_t zeros[20];
	struct ip ip;

	(void)state;
	memset(b.memory, 0xee, MEMORY_SIZE);
	post_recv(1, 100);
	post(1, 0, 10);
	simulation_settle();
	assert_memory_equal(received_header(), zeros, sizeof(zeros));
	memcpy(&ip, received_header() + sizeof(zeros), sizeof(ip));
	assert_int_equal(ip.ip_v, 4);
	assert_int_equal(ip.ip_hl, 5);
	assert_int_equal(ip.ip_p, IPPROTO_UDP);
	/* IP, UDP, two headers of RoCE, the data with its padding, the ICRC. */
	assert_int_equal(ntohs(ip.ip_len), 20 + 8 + 12 + 8 + 12 + 4);
	assert_memory_equal(&ip.ip_src, &a.device.gids[IPV4].raw[12], 4);
	assert_memory_equal(&ip.ip_dst, &b.device.gids[IPV4].raw[12], 4);
}

static void an_ipv6_header_has_the_addresses(void **state)
{
	struct ur_ah *ah = make_ah(&a, &b, IPV6);
	struct ibv_sge sge = simulation_sge(&a, 0, 10);
	struct ibv_send_wr wr = wr_to(ah, &b, &sge, 1);
	struct ip6_hdr ip;

	(void)state;
	post_recv(1, 100);
	simulation_post_send(&a, &wr);
	simulation_settle();
	memcpy(&ip, received_header(), sizeof(ip));
	assert_int_equal(ntohl(ip.ip6_flow), 6 << 28);
	assert_int_equal(ip.ip6_nxt, IPPROTO_UDP);
	assert_int_equal(ntohs(ip.ip6_plen), 8 + 12 + 8 + 12 + 4);
	assert_memory_equal(&ip.ip6_src, &a.device.gids[IPV6], 16);
	assert_memory_equal(&ip.ip6_dst, &b.device.gids[IPV6], 16);
	assert_int_equal(ur_ah_destroy(ah), 0);
}

static void the_header_of_what_was_sent_to_a_group_names_that(void **state)
{
	const struct ur_packet packet = { .opcode = UR_UD_SEND_ONLY,
					  .qkey = SIMULATION_QKEY,
					  .payload = (const uint8_t *)"four",
					  .payload_length = 4 };
	const struct ur_group group = { .gid.raw = { 0xff, 0x0e, [15] = 0x77 } };
	struct ur_path from = { .remote.v6 = { .sin6_family = AF_INET6,
					       .sin6_addr.s6_addr = { 0xfd } } };
	struct ip6_hdr ip;

	(void)state;
	post_recv(1, 100);
	ur_datagram_receive(b.qp, &packet, &from, &group);
	assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
	memcpy(&ip, received_header(), sizeof(ip));
	assert_memory_equal(&ip.ip6_src, &from.remote.v6.sin6_addr, 16);
	assert_memory_equal(&ip.ip6_dst, &group.gid, 16);
	assert_memory_equal(received_data(), "four", 4);
}

static void what_came_leads_back_to_its_sender(void **state)
{
	(void)state;
	for (uint8_t gid_index = IPV4; gid_index <= IPV6; gid_index++) {
		struct ur_ah *there = make_ah(&a, &b, gid_index), *back;
		struct ibv_sge sge = simulation_sge(&a, 0, 10);
		struct ibv_send_wr wr = wr_to(there, &b, &sge, 1);
		struct ibv_ah_attr attr;
		struct ibv_wc wc;

		post_recv(1, 100);
		simulation_post_send(&a, &wr);
		simulation_settle();
		wc = assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
		assert_int_equal(ur_ah_attr_from_wc(&b.device, 1, &wc,
						    (const struct ibv_grh *)received_header(),
						    &attr),
				 0);
		back = ur_ah_create(b.pd, &attr);
		assert_non_null(back);
		sge = simulation_sge(&b, 0, 10);
		wr = wr_to(back, &a, &sge, 2);
		wr.wr.ud.remote_qpn = wc.src_qp;
		simulation_post_recv(&a, 2, 0, 100);
		simulation_post_send(&b, &wr);
		simulation_settle();
		wc = assert_completion(a.recv_cq, 2, IBV_WC_SUCCESS);
		assert_int_equal(wc.src_qp, b.qp->verbs.qp_num);
		assert_int_equal(ur_ah_destroy(there), 0);
		assert_int_equal(ur_ah_destroy(back), 0);
	}
}

static void a_queue_pair_can_send_to_itself(void **state)
{
	struct ur_ah *ah = make_ah(&a, &a, IPV4);
	struct ibv_sge sge = simulation_sge(&a, 0, 10);
	struct ibv_send_wr wr = wr_to(ah, &a, &sge, 1);

	(void)state;
	simulation_post_recv(&a, 2, 0, 100);
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(assert_completion(a.recv_cq, 2, IBV_WC_SUCCESS).src_qp,
			 a.qp->verbs.qp_num);
	assert_int_equal(ur_ah_destroy(ah), 0);
}

/* Processes of this host are found at ports of their own, others by the owner of the standard one. */
static void the_port_is_the_process_s_own_on_this_host_only(void **state)
{
	struct ur_ah *to_a = make_ah(&a, &a, IPV6);
	struct ibv_sge sge = simulation_sge(&a, 0, 10);
	struct ibv_send_wr wr = wr_to(to_a, &b, &sge, 1);

	(void)state;
	post(1, 0, 10);
	assert_int_equal(ur_address_port(&simulation_last_path()->remote), UR_UDP_PORT);
	assert_int_equal(simulation_last_path()->gid_index, IPV4);
	simulation_post_send(&a, &wr);
	assert_int_equal(ur_address_port(&simulation_last_path()->remote), UR_UDP_PORT + 2);
	assert_int_equal(simulation_last_path()->gid_index, IPV6);
	assert_int_equal(ur_ah_destroy(to_a), 0);
}

static void pieces_are_gathered_and_scattered(void **state)
{
	struct ibv_sge from[3] = { simulation_sge(&a, 0, 7), simulation_sge(&a, 1000, 0),
				   simulation_sge(&a, 2000, 600) };
	struct ibv_sge into[3] = { simulation_sge(&b, 0, 33), simulation_sge(&b, 1000, 100),
				   simulation_sge(&b, 2000, 1000) };
	struct ibv_send_wr wr = wr_to(to_b, &b, from, 1);
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = into, .num_sge = 3 }, *bad;

	(void)state;
	fill_pattern(a.memory, 4096, 1);
	wr.num_sge = 3;
	assert_int_equal(ur_qp_post_recv(&b.qp->verbs, &recv, &bad), 0);
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(b.memory + 1007, a.memory, 7);
	assert_memory_equal(b.memory + 1014, a.memory + 2000, 86);
	assert_memory_equal(b.memory + 2000, a.memory + 2086, 514);
}

static void inline_data_is_taken_when_it_is_posted(void **state)
{
	uint8_t data[20], before[20];
	struct ibv_sge sge = { .addr = (uintptr_t)data, .length = sizeof(data) };
	struct ibv_send_wr wr = wr_to(to_b, &b, &sge, 1);

	(void)state;
	fill_pattern(data, sizeof(data), 1);
	memcpy(before, data, sizeof(data));
	wr.send_flags |= IBV_SEND_INLINE;
	post_recv(1, 100);
	simulation_block(true);
	simulation_post_send(&a, &wr);
	memset(data, 0, sizeof(data));
	unblock();
	simulation_settle();
	assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(received_data(), before, sizeof(before));
}

static void many_arrive_in_their_order(void **state)
{
	enum { COUNT = 200 };
	struct ibv_sge sges[COUNT];
	struct ibv_send_wr wrs[COUNT];

	(void)state;
	fill_pattern(a.memory, MEMORY_SIZE, 1);
	for (unsigned i = 0; i < COUNT; i++) {
		simulation_post_recv(&b, i, i * 1100, 1100);
		sges[i] = simulation_sge(&a, i * 1000, i * 5);
		wrs[i] = wr_to(to_b, &b, &sges[i], i);
		wrs[i].send_flags = i % 2 ? IBV_SEND_SIGNALED : 0;
		wrs[i].next = i + 1 < COUNT ? &wrs[i + 1] : NULL;
	}
	simulation_post_send(&a, wrs);
	simulation_settle();
	for (unsigned i = 0; i < COUNT; i++) {
		if (i % 2)
			assert_completion(a.send_cq, i, IBV_WC_SUCCESS);
		assert_completion(b.recv_cq, i, IBV_WC_SUCCESS);
		assert_memory_equal(b.memory + i * 1100 + UR_GRH_SIZE, a.memory + i * 1000, i * 5);
	}
	assert_no_completion(a.send_cq);
}

static void a_shared_queue_gives_the_receives(void **state)
{
	(void)state;
	simulation_post_recv(&b, 7, RECEIVE_AT, 100);
	post(1, 0, 10);
	post(2, 0, 10);
	simulation_settle();
	assert_int_equal(assert_completion(b.recv_cq, 7, IBV_WC_SUCCESS).src_qp,
			 a.qp->verbs.qp_num);
	assert_int_equal(b.device.counters.rx_no_receive, 1);
	assert_int_equal(modify(&b, IBV_QPS_ERR), 0);
	assert_event(&b, IBV_EVENT_QP_LAST_WQE_REACHED);
}

/* ---- What is not taken ---- */

static void without_its_queue_key_nothing_gets_in(void **state)
{
	struct ibv_sge sge = simulation_sge(&a, 0, 10);
	struct ibv_send_wr wr = wr_to(to_b, &b, &sge, 1);

	(void)state;
	post_recv(1, 100);
	wr.wr.ud.remote_qkey++;
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_no_completion(b.recv_cq);
	assert_int_equal(b.device.counters.rx_bad_qkey, 1);
	/* With its upper bit the own one is meant. */
	wr.wr.ud.remote_qkey = UINT32_C(0x80000000);
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(simulation_last(UR_UD_SEND_ONLY)->qkey, SIMULATION_QKEY);
}

static void what_finds_no_receive_is_lost(void **state)
{
	(void)state;
	post(1, 0, 10);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(b.device.counters.rx_no_receive, 1);
	assert_goes_on(2);
}

static void what_is_too_long_ends_the_receive_only(void **state)
{
	(void)state;
	memset(b.memory, 0xee, MEMORY_SIZE);
	post_recv(1, UR_GRH_SIZE + 9);
	post_recv(2, UR_GRH_SIZE - 1);
	post(1, 0, 10);
	post(2, 0, 0);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_completion(b.recv_cq, 1, IBV_WC_LOC_LEN_ERR);
	assert_completion(b.recv_cq, 2, IBV_WC_LOC_LEN_ERR);
	assert_all_bytes(b.memory, MEMORY_SIZE, 0xee);
	assert_state(&b, IBV_QPS_RTS);
	assert_goes_on(3);
}

static void a_receive_that_may_not_be_written_is_the_end(void **state)
{
	struct ibv_sge sge = simulation_sge(&b, 0, 100);
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	(void)state;
	sge.lkey++;
	assert_int_equal(ur_qp_post_recv(&b.qp->verbs, &recv, &bad), 0);
	post_recv(2, 100);
	post(1, 0, 10);
	simulation_settle();
	assert_completion(b.recv_cq, 1, IBV_WC_LOC_PROT_ERR);
	assert_completion(b.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_state(&b, IBV_QPS_ERR);
}

static void a_connection_takes_no_datagrams(void **state)
{
	struct ur_packet packet = { .opcode = UR_UD_SEND_ONLY };

	(void)state;
	simulation_create(&simulation_defaults);
	simulation_post_recv(&b, 1, 0, 100);
	simulation_deliver(&b, &packet);
	assert_no_completion(b.recv_cq);
	assert_int_equal(b.device.counters.rx_unexpected, 1);
	simulation_destroy();
}

/* ---- What cannot be posted ---- */

static void assert_refused(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	assert_int_equal(ur_qp_post_send(&a.qp->verbs, wr, &bad), EINVAL);
	assert_ptr_equal(bad, wr);
	simulation_settle();
	assert_int_equal(simulation_packets(), 0);
	assert_no_completion(a.send_cq);
}

static void an_address_must_be_one_of_the_domain(void **state)
{
	struct ur_pd *pd = ur_pd_alloc(a.context);
	struct ur_ah other = *to_b;
	struct ibv_sge sge = simulation_sge(&a, 0, 10);
	struct ibv_send_wr wr = wr_to(&other, &b, &sge, 1);

	(void)state;
	other.verbs.pd = &pd->verbs;
	other.pd = pd;
	assert_refused(&wr);
	wr.wr.ud.ah = NULL;
	assert_refused(&wr);
	wr.wr.ud.ah = &to_b->verbs;
	wr.wr.ud.remote_qpn = 0;
	assert_refused(&wr);
	wr.wr.ud.remote_qpn = UR_24_BITS + 1;
	assert_refused(&wr);
	assert_int_equal(ur_pd_dealloc(pd), 0);
}

static void a_message_is_one_packet(void **state)
{
	struct ibv_sge sge = simulation_sge(&a, 0, MTU + 1);
	struct ibv_send_wr wr = wr_to(to_b, &b, &sge, 1);

	(void)state;
	assert_refused(&wr);
}

static void there_are_sends_only(void **state)
{
	static const enum ibv_wr_opcode others[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						     IBV_WR_SEND_WITH_INV, IBV_WR_LOCAL_INV,
						     IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct ibv_sge sge = simulation_sge(&a, 0, 8);

	(void)state;
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct ibv_send_wr wr = wr_to(to_b, &b, &sge, 1);

		wr.opcode = others[i];
		assert_refused(&wr);
	}
}

/* ---- The carrier cannot send ---- */

static void what_the_carrier_does_not_take_is_sent_later(void **state)
{
	struct ur_ah *ah = make_ah(&a, &b, IPV4);
	struct ibv_sge sge = simulation_sge(&a, 0, 10);
	struct ibv_send_wr wr = wr_to(ah, &b, &sge, 1);

	(void)state;
	post_recv(1, 100);
	simulation_block(true);
	simulation_post_send(&a, &wr);
	/* It is not needed any more. */
	assert_int_equal(ur_ah_destroy(ah), 0);
	assert_true(a.qp->blocked);
	assert_no_completion(a.send_cq);
	unblock();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	simulation_settle();
	assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
}

/* A carrier that takes all, and of that sends so many at the flush. */
static struct {
	struct ur_carrier carrier;
	unsigned may_send;
	unsigned count;
	uint32_t psns[8];
	unsigned sent;
	uint32_t sent_psns[8];
} narrow;

static void narrow_send(struct ur_carrier *carrier, const struct ur_path *path,
			const struct ur_tx *tx)
{
	(void)carrier;
	(void)path;
	narrow.psns[narrow.count++] = tx->packet->psn;
}

static void narrow_flush(struct ur_carrier *carrier)
{
	for (unsigned i = 0; i < narrow.count; i++) {
		if (i < narrow.may_send) {
			narrow.sent_psns[narrow.sent++] = narrow.psns[i];
			continue;
		}
		carrier->blocked = true;
		ur_sender_unsent(a.qp, narrow.psns[i]);
	}
	narrow.count = 0;
}

static void go_through_narrow_carrier(unsigned may_send)
{
	memset(&narrow, 0, sizeof(narrow));
	narrow.may_send = may_send;
	narrow.carrier.send = narrow_send;
	narrow.carrier.flush = narrow_flush;
	narrow.carrier.window = SIMULATION_WINDOW;
	a.qp->carrier = &narrow.carrier;
}

static void go_on_narrow_carrier(void)
{
	narrow.carrier.blocked = false;
	a.qp->blocked = false;
	ur_qp_transmit(a.qp, simulation_now());
}

static void what_is_given_back_is_sent_again_in_its_order(void **state)
{
	struct ibv_sge sge = simulation_sge(&a, 0, 10);
	struct ibv_send_wr wrs[5];

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		wrs[i] = wr_to(to_b, &b, &sge, i);
		wrs[i].next = i < 4 ? &wrs[i + 1] : NULL;
	}
	go_through_narrow_carrier(2);
	simulation_post_send(&a, wrs);
	assert_completion(a.send_cq, 0, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_no_completion(a.send_cq);
	assert_true(a.qp->blocked);
	go_on_narrow_carrier();
	assert_completion(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 3, IBV_WC_SUCCESS);
	assert_no_completion(a.send_cq);
	go_on_narrow_carrier();
	assert_completion(a.send_cq, 4, IBV_WC_SUCCESS);
	assert_false(a.qp->blocked);
	assert_int_equal(narrow.sent, 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(narrow.sent_psns[i], (simulation_defaults.psn + i) & UR_24_BITS);
}

static void an_error_waits_for_those_before_it(void **state)
{
	struct ibv_sge sges[3] = { simulation_sge(&a, 0, 10), simulation_sge(&a, 0, 10),
				   simulation_sge(&a, 0, 10) };
	struct ibv_send_wr wrs[3];

	(void)state;
	sges[2].lkey++;
	for (unsigned i = 0; i < 3; i++) {
		wrs[i] = wr_to(to_b, &b, &sges[i], i);
		wrs[i].next = i < 2 ? &wrs[i + 1] : NULL;
	}
	go_through_narrow_carrier(1);
	simulation_post_send(&a, wrs);
	assert_completion(a.send_cq, 0, IBV_WC_SUCCESS);
	assert_no_completion(a.send_cq);
	assert_state(&a, IBV_QPS_RTS);
	go_on_narrow_carrier();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 2, IBV_WC_LOC_PROT_ERR);
	assert_state(&a, IBV_QPS_SQE);
}

/* ---- States ---- */

static void memory_that_may_not_be_read_ends_the_send_queue_only(void **state)
{
	struct ibv_sge good = simulation_sge(&a, 0, 10), bad = good;
	struct ibv_send_wr wrs[3] = { wr_to(to_b, &b, &good, 1), wr_to(to_b, &b, &bad, 2),
				      wr_to(to_b, &b, &good, 3) };
	struct ur_ah *to_a = make_ah(&b, &a, IPV4);
	struct ibv_sge sge = simulation_sge(&b, 0, 10);
	struct ibv_send_wr back = wr_to(to_a, &a, &sge, 5);

	(void)state;
	bad.lkey++;
	wrs[0].next = &wrs[1];
	wrs[1].next = &wrs[2];
	post_recv(1, 100);
	simulation_post_recv(&a, 6, 0, 100);
	simulation_post_send(&a, wrs);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 2, IBV_WC_LOC_PROT_ERR);
	assert_completion(a.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_state(&a, IBV_QPS_SQE);
	post(4, 0, 10);
	assert_completion(a.send_cq, 4, IBV_WC_WR_FLUSH_ERR);

	simulation_post_send(&b, &back);
	simulation_settle();
	assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.recv_cq, 6, IBV_WC_SUCCESS);
	assert_int_equal(simulation_count(UR_UD_SEND_ONLY), 2);

	assert_int_equal(modify(&a, IBV_QPS_RTS), 0);
	assert_goes_on(7);
	assert_int_equal(simulation_last(UR_UD_SEND_ONLY)->psn,
			 (simulation_defaults.psn + 1) & UR_24_BITS);
	assert_int_equal(ur_ah_destroy(to_a), 0);
}

static void a_drained_queue_pair_sends_no_more(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	(void)state;
	simulation_block(true);
	post_recv(1, 100);
	post(1, 0, 10);
	assert_int_equal(ur_qp_modify(a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_event(&a, IBV_EVENT_SQ_DRAINED);
	unblock();
	assert_no_completion(a.send_cq);
	assert_int_equal(modify(&a, IBV_QPS_RTS), 0);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	simulation_settle();
	assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
}

static void a_reset_forgets_all(void **state)
{
	(void)state;
	simulation_block(true);
	post(1, 0, 10);
	simulation_post_recv(&a, 2, 0, 100);
	assert_int_equal(modify(&a, IBV_QPS_RESET), 0);
	unblock();
	simulation_settle();
	assert_no_completion(a.send_cq);
	assert_no_completion(a.recv_cq);
	assert_int_equal(simulation_packets(), 0);
	assert_int_equal(a.qp->rq.count, 0);
}

static void an_error_flushes_all(void **state)
{
	(void)state;
	simulation_block(true);
	post(1, 0, 10);
	post(2, 0, 10);
	simulation_post_recv(&a, 3, 0, 100);
	assert_int_equal(modify(&a, IBV_QPS_ERR), 0);
	assert_completion(a.send_cq, 1, IBV_WC_WR_FLUSH_ERR);
	assert_completion(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_completion(a.recv_cq, 3, IBV_WC_WR_FLUSH_ERR);
	unblock();
	post(4, 0, 10);
	assert_completion(a.send_cq, 4, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(simulation_packets(), 0);
}

static void the_attributes_are_those_of_datagrams(void **state)
{
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;

	(void)state;
	assert_int_equal(ur_qp_query(a.qp, &attr, IBV_QP_STATE | IBV_QP_QKEY, &init_attr), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.qkey, SIMULATION_QKEY);
	assert_int_equal(attr.sq_psn, simulation_defaults.psn);
	assert_int_equal(init_attr.qp_type, IBV_QPT_UD);
	/* It may change while messages come. */
	attr.qkey = SIMULATION_QKEY + 1;
	assert_int_equal(ur_qp_modify(b.qp, &attr, IBV_QP_QKEY), 0);
	post_recv(1, 100);
	post(1, 0, 10);
	simulation_settle();
	assert_int_equal(b.device.counters.rx_bad_qkey, 1);
}

/* ---- The extended interface ---- */

static void work_requests_can_come_in_parts(void **state)
{
	struct ibv_qp_ex *ex = &a.qp->verbs_ex;
	struct ibv_wc wc;

	(void)state;
	fill_pattern(a.memory, 100, 1);
	simulation_post_recv(&b, 1, RECEIVE_AT, 200);
	simulation_post_recv(&b, 2, 0, 200);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, &to_b->verbs, b.qp->verbs.qp_num, SIMULATION_QKEY);
	ibv_wr_set_sge(ex, a.mr->verbs.lkey, (uintptr_t)a.memory, 100);
	ex->wr_id = 2;
	ibv_wr_send_imm(ex, htobe32(IMM));
	ibv_wr_set_inline_data(ex, a.memory, 9);
	ibv_wr_set_ud_addr(ex, &to_b->verbs, b.qp->verbs.qp_num, SIMULATION_QKEY);
	assert_int_equal(ibv_wr_complete(ex), 0);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
	wc = assert_completion(b.recv_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(wc.imm_data, htobe32(IMM));
	assert_int_equal(wc.byte_len, UR_GRH_SIZE + 9);
	assert_memory_equal(received_data(), a.memory, 100);
}

static void assert_parts_refused(struct ibv_ah *ah, uint32_t length)
{
	struct ibv_qp_ex *ex = &a.qp->verbs_ex;

	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, a.mr->verbs.lkey, (uintptr_t)a.memory, length);
	if (ah)
		ibv_wr_set_ud_addr(ex, ah, b.qp->verbs.qp_num, SIMULATION_QKEY);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	simulation_settle();
	assert_int_equal(simulation_packets(), 0);
}

static void parts_that_are_not_right_are_refused(void **state)
{
	struct ibv_ah foreign = { .pd = &b.pd->verbs };

	(void)state;
	assert_parts_refused(&foreign, 10);
	assert_parts_refused(NULL, 10);
	assert_parts_refused(&to_b->verbs, MTU + 1);
	/* Nor has the place in the queue kept an address from before. */
	assert_parts_refused(NULL, 10);
}

static void there_are_no_other_operations(void **state)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = &a.pd->verbs,
		.send_cq = &a.send_cq->verbs,
		.recv_cq = &a.recv_cq->verbs,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};

	(void)state;
	errno = 0;
	assert_null(ur_qp_create(a.context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name)          cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_SHARED(name)   cmocka_unit_test_setup_teardown(name, setup_shared, teardown)
#define TEST_EXTENDED(name) cmocka_unit_test_setup_teardown(name, setup_extended, teardown)
		TEST(a_datagram_arrives_behind_its_header),
		TEST(an_immediate_comes_with_it_and_wakes_who_waits_for_that),
		TEST(an_ipv4_header_has_the_addresses),
		TEST(an_ipv6_header_has_the_addresses),
		TEST(the_header_of_what_was_sent_to_a_group_names_that),
		TEST(what_came_leads_back_to_its_sender),
		TEST(a_queue_pair_can_send_to_itself),
		TEST(the_port_is_the_process_s_own_on_this_host_only),
		TEST(pieces_are_gathered_and_scattered),
		TEST(inline_data_is_taken_when_it_is_posted),
		TEST(many_arrive_in_their_order),
		TEST_SHARED(a_shared_queue_gives_the_receives),
		TEST(without_its_queue_key_nothing_gets_in),
		TEST(what_finds_no_receive_is_lost),
		TEST(what_is_too_long_ends_the_receive_only),
		TEST(a_receive_that_may_not_be_written_is_the_end),
		cmocka_unit_test(a_connection_takes_no_datagrams),
		TEST(an_address_must_be_one_of_the_domain),
		TEST(a_message_is_one_packet),
		TEST(there_are_sends_only),
		TEST(what_the_carrier_does_not_take_is_sent_later),
		TEST(what_is_given_back_is_sent_again_in_its_order),
		TEST(an_error_waits_for_those_before_it),
		TEST(memory_that_may_not_be_read_ends_the_send_queue_only),
		TEST(a_drained_queue_pair_sends_no_more),
		TEST(a_reset_forgets_all),
		TEST(an_error_flushes_all),
		TEST(the_attributes_are_those_of_datagrams),
		TEST_EXTENDED(work_requests_can_come_in_parts),
		TEST_EXTENDED(parts_that_are_not_right_are_refused),
		TEST_EXTENDED(there_are_no_other_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
