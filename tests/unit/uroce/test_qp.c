#include "qp_surroundings.h"

#include <errno.h>
#include <string.h>

#include "../../../uroce/core/clock.h"

/* ---- Creation ---- */

static void test_a_new_queue_pair_shows_what_it_was_created_with(void **state)
{
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();
	struct ur_qp *qp = ur_qp_create(&around.context, &attr);

	(void)state;
	assert_non_null(qp);
	assert_ptr_equal(qp->verbs.context, &around.context.verbs.context);
	assert_ptr_equal(qp->verbs.qp_context, &around);
	assert_ptr_equal(qp->verbs.pd, &around.pd.verbs);
	assert_ptr_equal(qp->verbs.send_cq, &around.send_cq.verbs);
	assert_ptr_equal(qp->verbs.recv_cq, &around.recv_cq.verbs);
	assert_null(qp->verbs.srq);
	assert_int_equal(qp->verbs.state, IBV_QPS_RESET);
	assert_int_equal(qp->verbs.qp_type, IBV_QPT_RC);
	assert_int_equal(qp->verbs.events_completed, 0);
	assert_int_equal(pthread_mutex_lock(&qp->verbs.mutex), 0);
	assert_int_equal(pthread_cond_signal(&qp->verbs.cond), 0);
	assert_int_equal(pthread_mutex_unlock(&qp->verbs.mutex), 0);
	assert_int_equal(attr.cap.max_send_wr, 4);
	assert_int_equal(attr.cap.max_recv_wr, 4);
	assert_int_equal(ur_qp_destroy(qp), 0);
}

static void assert_event(const struct ur_qp *qp, const struct ur_async_event *event,
			 enum ibv_event_type type)
{
	assert_int_equal(event->event.event_type, type);
	assert_ptr_equal(event->event.element.qp, &qp->verbs);
}

static void test_a_new_queue_pair_is_ready_to_raise_its_events_and_has_no_timer(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();

	(void)state;
	assert_event(qp, &qp->fatal_event, IBV_EVENT_QP_FATAL);
	assert_event(qp, &qp->request_event, IBV_EVENT_QP_REQ_ERR);
	assert_event(qp, &qp->access_event, IBV_EVENT_QP_ACCESS_ERR);
	assert_event(qp, &qp->established_event, IBV_EVENT_COMM_EST);
	assert_event(qp, &qp->last_wqe_event, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_event(qp, &qp->drained_event, IBV_EVENT_SQ_DRAINED);
	assert_true(qp->deadline == UR_NEVER);
	ur_qp_destroy(qp);
}

static void test_the_number_names_the_process_and_the_queue_pair_in_it(void **state)
{
	struct ur_qp *one = surroundings_create_qp();
	struct ur_qp *two = surroundings_create_qp();

	(void)state;
	assert_int_equal(one->verbs.qp_num >> 16, LINK_NUMBER);
	assert_int_equal(one->verbs.handle, one->verbs.qp_num);
	assert_int_equal(two->verbs.qp_num >> 16, LINK_NUMBER);
	assert_ptr_equal(ur_qp_table_find(&around.device.qps, (uint16_t)one->verbs.qp_num), one);
	assert_ptr_equal(ur_qp_table_find(&around.device.qps, (uint16_t)two->verbs.qp_num), two);
	ur_qp_destroy(one);
	ur_qp_destroy(two);
}

static void assert_objects_held(unsigned count)
{
	assert_int_equal(around.context.objects, count);
	assert_int_equal(around.pd.objects, count);
	assert_int_equal(around.send_cq.objects, count);
	assert_int_equal(around.recv_cq.objects, count);
	assert_int_equal(around.srq.objects, count);
}

static void test_a_queue_pair_holds_its_objects_until_it_is_destroyed(void **state)
{
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();
	struct ur_qp *one, *two;

	(void)state;
	attr.srq = &around.srq.verbs;
	one = ur_qp_create(&around.context, &attr);
	two = ur_qp_create(&around.context, &attr);
	assert_objects_held(2);
	ur_qp_destroy(one);
	assert_objects_held(1);
	ur_qp_destroy(two);
	assert_objects_held(0);
}

static void test_with_a_shared_receive_queue_there_is_no_other(void **state)
{
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();
	struct ur_qp *qp;

	(void)state;
	attr.srq = &around.srq.verbs;
	attr.cap.max_recv_wr = UR_MAX_WRS + 1;
	qp = ur_qp_create(&around.context, &attr);
	assert_non_null(qp);
	assert_ptr_equal(qp->verbs.srq, &around.srq.verbs);
	assert_int_equal(attr.cap.max_recv_wr, 0);
	assert_int_equal(attr.cap.max_recv_sge, 0);
	ur_qp_destroy(qp);
}

static void test_the_largest_capacities_are_given_and_so_is_none(void **state)
{
	const struct ibv_qp_cap largest = { .max_send_wr = UR_MAX_WRS,
					    .max_recv_wr = UR_MAX_WRS,
					    .max_send_sge = UR_MAX_SGE,
					    .max_recv_sge = UR_MAX_SGE,
					    .max_inline_data = UR_MAX_INLINE };
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();
	struct ur_qp *qp;

	(void)state;
	attr.cap = largest;
	qp = ur_qp_create(&around.context, &attr);
	assert_non_null(qp);
	assert_memory_equal(&attr.cap, &largest, sizeof(largest));
	ur_qp_destroy(qp);
	memset(&attr.cap, 0, sizeof(attr.cap));
	qp = ur_qp_create(&around.context, &attr);
	assert_non_null(qp);
	ur_qp_destroy(qp);
}

/* Some programs send as much inline without having asked for it. */
static void test_inline_data_has_the_room_of_the_pieces(void **state)
{
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();
	struct ur_qp *qp;

	(void)state;
	attr.cap.max_send_sge = 3;
	attr.cap.max_inline_data = 1;
	qp = ur_qp_create(&around.context, &attr);
	assert_non_null(qp);
	assert_int_equal(attr.cap.max_inline_data, 3 * sizeof(struct ibv_sge));
	ur_qp_destroy(qp);
}

static void test_create_flags_may_be_none(void **state)
{
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();
	struct ur_qp *qp;

	(void)state;
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	qp = ur_qp_create(&around.context, &attr);
	assert_non_null(qp);
	ur_qp_destroy(qp);
}

static void assert_not_created(const struct ibv_qp_init_attr_ex *attr, int error)
{
	struct ibv_qp_init_attr_ex copy = *attr;

	errno = 0;
	assert_null(ur_qp_create(&around.context, &copy));
	assert_int_equal(errno, error);
	assert_objects_held(0);
	assert_int_equal(around.device.qps.count, 0);
}

#define assert_init_attr_refused(error, field, value)                       \
	do {                                                                \
		struct ibv_qp_init_attr_ex attr = surroundings_init_attr(); \
                                                                            \
		attr.field = (value);                                       \
		assert_not_created(&attr, error);                           \
	} while (0)

static void test_capacities_beyond_the_limits_are_refused(void **state)
{
	(void)state;
	assert_init_attr_refused(EINVAL, cap.max_send_wr, UR_MAX_WRS + 1);
	assert_init_attr_refused(EINVAL, cap.max_recv_wr, UR_MAX_WRS + 1);
	assert_init_attr_refused(EINVAL, cap.max_send_sge, UR_MAX_SGE + 1);
	assert_init_attr_refused(EINVAL, cap.max_recv_sge, UR_MAX_SGE + 1);
	assert_init_attr_refused(EINVAL, cap.max_inline_data, UR_MAX_INLINE + 1);
}

static void test_objects_that_are_missing_or_of_another_context_are_refused(void **state)
{
	struct ibv_context *other = &around.other_context.verbs.context;
	struct ur_pd pd = { .verbs.context = other };
	struct ur_cq cq = { .verbs.context = other };
	struct ur_srq srq = { .verbs.context = other };

	(void)state;
	assert_init_attr_refused(EINVAL, pd, NULL);
	assert_init_attr_refused(EINVAL, pd, &pd.verbs);
	assert_init_attr_refused(EINVAL, send_cq, NULL);
	assert_init_attr_refused(EINVAL, send_cq, &cq.verbs);
	assert_init_attr_refused(EINVAL, recv_cq, NULL);
	assert_init_attr_refused(EINVAL, recv_cq, &cq.verbs);
	assert_init_attr_refused(EINVAL, srq, &srq.verbs);
	assert_init_attr_refused(EINVAL, comp_mask, 0);
}

static void assert_create_flags_refused(void)
{
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();

	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	assert_not_created(&attr, EOPNOTSUPP);
	/* Connections have no groups. */
	attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	assert_not_created(&attr, EOPNOTSUPP);
}

static void test_unreliable_connections_are_sought_at_their_own_port_on_this_host_only(void **state)
{
	struct ibv_qp_init_attr_ex init_attr = surroundings_init_attr();
	struct ibv_qp_attr attr = surroundings_attr;
	const int rtr_mask =
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	(void)state;
	init_attr.qp_type = IBV_QPT_UC;
	for (unsigned i = 0; i < 2; i++) {
		struct ur_qp *qp = ur_qp_create(&around.context, &init_attr);

		assert_non_null(qp);
		attr.qp_state = IBV_QPS_INIT;
		assert_int_equal(ur_qp_modify(qp, &attr, INIT_MASK), 0);
		attr.qp_state = IBV_QPS_RTR;
		/* Of this host, or not. */
		attr.ah_attr.grh.dgid.raw[0] = i == 0 ? 0 : 0xff;
		assert_int_equal(ur_qp_modify(qp, &attr, rtr_mask), 0);
		assert_int_equal(around.path_port,
				 i == 0 ? ur_link_port_of(PEER_QPN) : UR_UDP_PORT);
		ur_qp_destroy(qp);
	}
}

static void test_what_is_not_there_yet_is_not_supported(void **state)
{
	(void)state;
	assert_init_attr_refused(EOPNOTSUPP, qp_type, IBV_QPT_RAW_PACKET);
	assert_create_flags_refused();
	assert_init_attr_refused(EOPNOTSUPP, comp_mask,
				 IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER);
	assert_init_attr_refused(EOPNOTSUPP, comp_mask, IBV_QP_INIT_ATTR_PD | 1U << 31);
}

static void test_a_sending_half_has_no_receives(void **state)
{
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();
	struct ibv_recv_wr wr = { 0 }, *bad_wr = NULL;
	struct ur_qp *qp;

	(void)state;
	attr.qp_type = IBV_QPT_XRC_SEND;
	attr.srq = &around.srq.verbs;
	attr.cap.max_recv_wr = UR_MAX_WRS + 1;
	qp = ur_qp_create(&around.context, &attr);
	assert_non_null(qp);
	assert_int_equal(attr.cap.max_recv_wr, 0);
	assert_int_equal(attr.cap.max_send_wr, 4);
	assert_null(qp->verbs.recv_cq);
	assert_null(qp->verbs.srq);
	assert_int_equal(around.pd.objects, 1);
	assert_int_equal(around.send_cq.objects, 1);
	assert_int_equal(around.recv_cq.objects, 0);
	assert_int_equal(around.srq.objects, 0);
	surroundings_modify(qp, IBV_QPS_INIT, INIT_MASK);
	assert_int_equal(ur_qp_post_recv(&qp->verbs, &wr, &bad_wr), EINVAL);
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RESET, IBV_QP_STATE), 0);
	assert_int_equal(around.calls.cq_forget, 1);
	ur_qp_destroy(qp);
	assert_objects_held(0);
}

static void test_a_receiving_half_has_nothing_but_its_domain(void **state)
{
	const uint64_t no_ops = 0;
	struct ur_xrcd xrcd = { .verbs.context = &around.context.verbs.context };
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad_wr = NULL;
	struct ur_qp *qp;

	(void)state;
	attr.qp_type = IBV_QPT_XRC_RECV;
	attr.comp_mask = IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.xrcd = &xrcd.verbs;
	attr.send_ops_flags = no_ops;
	qp = ur_qp_create(&around.context, &attr);
	assert_non_null(qp);
	assert_int_equal(attr.cap.max_send_wr, 0);
	assert_int_equal(attr.cap.max_recv_wr, 0);
	assert_null(qp->verbs.pd);
	assert_null(qp->verbs.send_cq);
	assert_null(qp->verbs.recv_cq);
	assert_int_equal(xrcd.objects, 1);
	assert_int_equal(around.context.objects, 1);
	assert_int_equal(around.pd.objects, 0);
	surroundings_modify(qp, IBV_QPS_INIT, INIT_MASK);
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RTR, RTR_MASK), 0);
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RTS,
					     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN),
			 0);
	assert_int_equal(ur_qp_post_send(&qp->verbs, &wr, &bad_wr), EINVAL);
	assert_ptr_equal(bad_wr, &wr);
	ur_qp_destroy(qp);
	assert_int_equal(xrcd.objects, 0);
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	assert_not_created(&attr, EOPNOTSUPP);
}

static void test_a_receiving_half_needs_a_domain_of_its_context(void **state)
{
	struct ur_xrcd xrcd = { .verbs.context = &around.other_context.verbs.context };
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();

	(void)state;
	attr.qp_type = IBV_QPT_XRC_RECV;
	assert_not_created(&attr, EINVAL);
	attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	assert_not_created(&attr, EINVAL);
	attr.xrcd = &xrcd.verbs;
	assert_not_created(&attr, EINVAL);
}

static void test_what_an_extended_connection_sends_names_a_queue_of_24_bits(void **state)
{
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .qp_type.xrc.remote_srqn = UR_24_BITS };
	struct ibv_send_wr *bad_wr = NULL;
	struct ur_qp *qp;

	(void)state;
	attr.qp_type = IBV_QPT_XRC_SEND;
	qp = ur_qp_create(&around.context, &attr);
	ur_qp_set_state(qp, IBV_QPS_RTS);
	assert_int_equal(ur_qp_post_send(&qp->verbs, &wr, &bad_wr), 0);
	assert_int_equal(ur_send_queue_at(&qp->sq, qp->sq.tail - 1)->srqn, UR_24_BITS);
	wr.qp_type.xrc.remote_srqn++;
	assert_int_equal(ur_qp_post_send(&qp->verbs, &wr, &bad_wr), EINVAL);
	wr.opcode = IBV_WR_LOCAL_INV;
	assert_int_equal(ur_qp_post_send(&qp->verbs, &wr, &bad_wr), 0);
	ur_qp_destroy(qp);
}

static void test_no_number_left_is_a_lack_of_memory(void **state)
{
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();
	uint32_t count;

	(void)state;
	ur_qp_destroy(surroundings_create_qp()); /* so that there is a table */
	count = around.device.qps.count;
	around.device.qps.count = UR_MAX_QPS;
	errno = 0;
	assert_null(ur_qp_create(&around.context, &attr));
	assert_int_equal(errno, ENOMEM);
	assert_objects_held(0);
	around.device.qps.count = count;
}

/* ---- Modification ---- */

static struct ibv_qp_attr query(struct ur_qp *qp)
{
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;

	assert_int_equal(ur_qp_query(qp, &attr, IBV_QP_STATE, &init_attr), 0);
	return attr;
}

static void assert_state(struct ur_qp *qp, enum ibv_qp_state state)
{
	assert_int_equal(qp->verbs.state, state);
	assert_int_equal(query(qp).qp_state, state);
	assert_int_equal(query(qp).cur_qp_state, state);
}

static void test_the_way_to_ready_to_send(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();

	(void)state;
	assert_int_equal(surroundings_modify(qp, IBV_QPS_INIT, INIT_MASK), 0);
	assert_state(qp, IBV_QPS_INIT);
	assert_int_equal(around.calls.responder_start, 0);

	assert_int_equal(surroundings_modify(qp, IBV_QPS_RTR, RTR_MASK), 0);
	assert_state(qp, IBV_QPS_RTR);
	assert_int_equal(around.calls.responder_start, 1);
	assert_int_equal(around.calls.requester_start, 0);
	assert_int_equal(around.responder_epsn, 0x123456);
	assert_int_equal(around.path_port, PEER_PORT);
	assert_int_equal(qp->path.gid_index, 3);
	assert_int_equal(qp->mtu, 1024);
	assert_ptr_equal(qp->carrier, ur_link_carrier(NULL));

	assert_int_equal(surroundings_modify(qp, IBV_QPS_RTS, RTS_MASK), 0);
	assert_state(qp, IBV_QPS_RTS);
	assert_int_equal(around.calls.responder_start, 1);
	assert_int_equal(around.calls.requester_start, 1);
	assert_int_equal(around.requester_psn, 0x654321);
	ur_qp_destroy(qp);
}

static void test_datagrams_have_a_transport_of_their_own(void **state)
{
	struct ibv_qp_init_attr_ex init_attr = surroundings_init_attr();
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .wr.ud.remote_qpn = PEER_QPN }, *bad;
	struct ur_qp *qp;

	(void)state;
	init_attr.qp_type = IBV_QPT_UD;
	qp = ur_qp_create(&around.context, &init_attr);
	assert_non_null(qp);
	assert_int_equal(surroundings_modify(qp, IBV_QPS_INIT, INIT_MASK), EINVAL);
	assert_int_equal(surroundings_modify(qp, IBV_QPS_INIT,
					     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						     IBV_QP_QKEY),
			 0);
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RTR, RTR_MASK), EINVAL);
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RTR, IBV_QP_STATE), 0);
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	assert_state(qp, IBV_QPS_RTS);
	assert_int_equal(qp->mtu, 4096);
	assert_int_equal(around.requester_psn, 0x654321);
	assert_int_equal(around.calls.sender_transmit, 1);
	assert_int_equal(ur_qp_post_send(&qp->verbs, &wr, &bad), 0);
	assert_int_equal(around.calls.sender_transmit, 2);
	wr.wr.ud.remote_qpn++;
	assert_int_equal(ur_qp_post_send(&qp->verbs, &wr, &bad), EINVAL);
	assert_int_equal(around.calls.sender_transmit, 2);
	assert_int_equal(around.calls.transmit, 0);
	ur_qp_destroy(qp);
}

/* It is refused, and nothing is different from before. */
static void assert_modify_refused(struct ur_qp *qp, const struct ibv_qp_attr *attr, int mask,
				  int error)
{
	struct ibv_qp_attr copy = *attr, before = query(qp), after;
	struct ur_path path = qp->path;

	assert_int_equal(ur_qp_modify(qp, &copy, mask), error);
	after = query(qp);
	assert_memory_equal(&after, &before, sizeof(after));
	assert_memory_equal(&qp->path, &path, sizeof(path));
	assert_int_equal(qp->verbs.state, before.qp_state);
}

static void test_what_is_refused_changes_nothing(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();
	struct ibv_qp_attr attr = surroundings_attr;

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_INIT);
	attr.qp_state = IBV_QPS_RTR;
	assert_modify_refused(qp, &attr, RTR_MASK & ~IBV_QP_RQ_PSN, EINVAL);
	assert_modify_refused(qp, &attr, RTR_MASK | IBV_QP_SQ_PSN, EINVAL);
	assert_modify_refused(qp, &attr, RTR_MASK | IBV_QP_ALT_PATH, EOPNOTSUPP);
	attr.min_rnr_timer = 32;
	assert_modify_refused(qp, &attr, RTR_MASK, EINVAL);
	attr.min_rnr_timer = 0;
	around.path_error = EINVAL;
	assert_modify_refused(qp, &attr, RTR_MASK, EINVAL);
	around.path_error = 0;
	assert_int_equal(around.calls.responder_start, 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_modify_refused(qp, &attr, RTS_MASK, EINVAL);
	ur_qp_destroy(qp);
}

static void test_without_memory_for_the_responder_the_attributes_stay(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();
	struct ibv_qp_attr before, after;

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_INIT);
	before = query(qp);
	around.responder_error = ENOMEM;
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RTR, RTR_MASK), ENOMEM);
	after = query(qp);
	assert_memory_equal(&after, &before, sizeof(after));
	assert_state(qp, IBV_QPS_INIT);
	ur_qp_destroy(qp);
}

static void test_the_path_mtu_is_at_most_the_devices(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_INIT);
	around.device.mtu = IBV_MTU_512;
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RTR, RTR_MASK), EINVAL);
	around.device.mtu = IBV_MTU_1024;
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RTR, RTR_MASK), 0);
	ur_qp_destroy(qp);
}

static void test_the_current_state_that_is_named_must_be_it(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_RTR };

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_RTS);
	assert_modify_refused(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE, EINVAL);
	attr.cur_qp_state = IBV_QPS_RTS;
	assert_int_equal(ur_qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
	ur_qp_destroy(qp);
}

static void test_attributes_change_without_a_change_of_state(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();
	struct ibv_qp_attr attr = { .min_rnr_timer = 3,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_RTS);
	assert_int_equal(ur_qp_modify(qp, &attr, IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS), 0);
	assert_state(qp, IBV_QPS_RTS);
	assert_int_equal(query(qp).min_rnr_timer, 3);
	assert_int_equal(query(qp).qp_access_flags, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(query(qp).timeout, surroundings_attr.timeout);
	assert_int_equal(around.calls.requester_start, 1);
	ur_qp_destroy(qp);
}

static void test_what_a_modification_sent_goes_out_at_once(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();
	unsigned transmitted, flushed;

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_SQD);
	transmitted = around.calls.transmit;
	flushed = around.calls.flush;
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RTS, IBV_QP_STATE), 0);
	assert_int_equal(around.calls.transmit, transmitted + 1);
	assert_true(around.calls.flush > flushed);
	assert_int_equal(around.calls.requester_start, 1);
	ur_qp_destroy(qp);
}

/* ---- The send queue drains ---- */

static int drain(struct ur_qp *qp, bool notify)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = notify };

	return ur_qp_modify(qp, &attr, IBV_QP_STATE | (notify ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0));
}

static void post_send(struct ur_qp *qp)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad_wr = NULL;

	assert_int_equal(ur_qp_post_send(&qp->verbs, &wr, &bad_wr), 0);
}

static void test_an_idle_send_queue_is_drained_at_once(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_RTS);
	post_send(qp); /* which is not begun */
	assert_int_equal(drain(qp, true), 0);
	assert_state(qp, IBV_QPS_SQD);
	assert_int_equal(around.raised, 1);
	assert_int_equal(around.last_raised, IBV_EVENT_SQ_DRAINED);
	assert_false(query(qp).sq_draining);
	ur_qp_destroy(qp);
}

static void test_a_busy_send_queue_is_drained_when_the_last_entry_has_completed(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_RTS);
	post_send(qp);
	post_send(qp);
	qp->sq.next += 2; /* both begun */
	assert_int_equal(drain(qp, true), 0);
	assert_true(query(qp).sq_draining);
	qp->sq.head++;
	ur_qp_check_drained(qp);
	assert_int_equal(around.raised, 0);
	qp->sq.head++;
	ur_qp_check_drained(qp);
	assert_int_equal(around.raised, 1);
	assert_false(query(qp).sq_draining);
	ur_qp_check_drained(qp);
	assert_int_equal(around.raised, 1);
	ur_qp_destroy(qp);
}

static void test_draining_is_told_only_if_it_was_asked_for_this_time(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_RTS);
	post_send(qp);
	qp->sq.next++;
	assert_int_equal(drain(qp, true), 0);
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RTS, IBV_QP_STATE), 0);
	assert_int_equal(drain(qp, false), 0);
	qp->sq.head++;
	ur_qp_check_drained(qp);
	assert_int_equal(around.raised, 0);
	ur_qp_destroy(qp);
}

static void test_a_drained_queue_pair_takes_a_new_path(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();
	struct ibv_qp_attr attr = surroundings_attr;

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_SQD);
	attr.ah_attr.grh.sgid_index = 4;
	attr.timeout = 20;
	around.path_port = 0;
	assert_int_equal(ur_qp_modify(qp, &attr, IBV_QP_AV | IBV_QP_TIMEOUT), 0);
	assert_int_equal(qp->path.gid_index, 4);
	assert_int_equal(around.path_port, PEER_PORT);
	assert_int_equal(query(qp).timeout, 20);
	ur_qp_destroy(qp);
}

static void test_the_reads_to_serve_cannot_change_while_there_may_be_some(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();
	struct ibv_qp_attr attr = surroundings_attr;

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_SQD);
	assert_int_equal(ur_qp_modify(qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC), 0);
	attr.max_dest_rd_atomic++;
	assert_modify_refused(qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC, EOPNOTSUPP);
	ur_qp_destroy(qp);
}

/* ---- Error and reset ---- */

static void test_each_state_but_reset_can_become_an_error(void **state)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
						    IBV_QPS_SQD };

	(void)state;
	for (unsigned i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		struct ur_qp *qp = surroundings_create_qp();

		surroundings_bring_to(qp, states[i]);
		assert_int_equal(surroundings_modify(qp, IBV_QPS_ERR, IBV_QP_STATE), 0);
		assert_state(qp, IBV_QPS_ERR);
		assert_int_equal(around.calls.to_error, i + 1);
		assert_int_equal(surroundings_modify(qp, IBV_QPS_ERR, IBV_QP_STATE), 0);
		assert_int_equal(around.calls.to_error, i + 1);
		ur_qp_destroy(qp);
	}
}

static void test_a_reset_queue_pair_is_empty_and_starts_anew(void **state)
{
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv = NULL;
	struct ur_qp *qp = surroundings_create_qp();
	struct ibv_qp_attr fresh = query(qp), after;

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_RTS);
	post_send(qp);
	assert_int_equal(ur_qp_post_recv(&qp->verbs, &recv, &bad_recv), 0);
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RESET, IBV_QP_STATE), 0);
	assert_state(qp, IBV_QPS_RESET);
	assert_int_equal(around.calls.forget, 1);
	assert_int_equal(around.calls.responder_free, 1);
	assert_int_equal(around.calls.qp_flush, 0);
	assert_int_equal(around.calls.cq_forget, 2);
	assert_int_equal(ur_send_queue_room(&qp->sq), 4);
	assert_int_equal(qp->rq.count, 0);
	after = query(qp);
	assert_memory_equal(&after, &fresh, sizeof(after));

	surroundings_bring_to(qp, IBV_QPS_RTS);
	assert_int_equal(around.calls.responder_start, 2);
	assert_int_equal(around.calls.requester_start, 2);
	ur_qp_destroy(qp);
}

/* ---- Query ---- */

static void test_a_query_gives_all_attributes(void **state)
{
	struct ibv_qp_init_attr_ex wanted = surroundings_init_attr();
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;
	struct ur_qp *qp;

	(void)state;
	wanted.sq_sig_all = 1;
	qp = ur_qp_create(&around.context, &wanted);
	surroundings_bring_to(qp, IBV_QPS_RTS);
	assert_int_equal(ur_qp_query(qp, &attr, 0, &init_attr), 0);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.path_mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(attr.rq_psn, 0x123456);
	assert_int_equal(attr.sq_psn, 0x654321);
	assert_int_equal(attr.dest_qp_num, PEER_QPN);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ);
	assert_memory_equal(&attr.cap, &wanted.cap, sizeof(attr.cap));
	assert_memory_equal(&attr.ah_attr, &surroundings_attr.ah_attr, sizeof(attr.ah_attr));
	assert_int_equal(attr.max_rd_atomic, 7);
	assert_int_equal(attr.max_dest_rd_atomic, 9);
	assert_int_equal(attr.min_rnr_timer, 12);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.retry_cnt, 6);
	assert_int_equal(attr.rnr_retry, 5);
	assert_ptr_equal(init_attr.qp_context, &around);
	assert_ptr_equal(init_attr.send_cq, &around.send_cq.verbs);
	assert_ptr_equal(init_attr.recv_cq, &around.recv_cq.verbs);
	assert_null(init_attr.srq);
	assert_memory_equal(&init_attr.cap, &wanted.cap, sizeof(init_attr.cap));
	assert_int_equal(init_attr.qp_type, IBV_QPT_RC);
	assert_int_equal(init_attr.sq_sig_all, 1);
	ur_qp_destroy(qp);
}

/* ---- Posting ---- */

static void test_sends_are_taken_once_it_is_ready_to_send(void **state)
{
	static const struct {
		enum ibv_qp_state state;
		int error;
	} cases[] = {
		{ IBV_QPS_RESET, EINVAL }, { IBV_QPS_INIT, EINVAL }, { IBV_QPS_RTR, EINVAL },
		{ IBV_QPS_RTS, 0 },        { IBV_QPS_SQD, 0 },       { IBV_QPS_ERR, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad_wr = NULL;
		struct ur_qp *qp = surroundings_create_qp();

		surroundings_bring_to(qp, cases[i].state);
		assert_int_equal(ur_qp_post_send(&qp->verbs, &wr, &bad_wr), cases[i].error);
		assert_ptr_equal(bad_wr, cases[i].error ? &wr : NULL);
		assert_int_equal(qp->sq.tail, !cases[i].error);
		ur_qp_destroy(qp);
	}
}

static void test_a_list_of_sends_is_begun_in_one_go(void **state)
{
	struct ibv_send_wr second = { .wr_id = 2, .opcode = IBV_WR_SEND };
	struct ibv_send_wr first = { .wr_id = 1, .next = &second, .opcode = IBV_WR_SEND };
	struct ibv_send_wr *bad_wr = NULL;
	struct ur_qp *qp = surroundings_create_qp();
	struct calls before;

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_RTS);
	before = around.calls;
	assert_int_equal(ur_qp_post_send(&qp->verbs, &first, &bad_wr), 0);
	assert_null(bad_wr);
	assert_int_equal(qp->sq.tail - qp->sq.head, 2);
	assert_int_equal(ur_send_queue_at(&qp->sq, qp->sq.head)->wr_id, 1);
	assert_int_equal(ur_send_queue_at(&qp->sq, qp->sq.head + 1)->wr_id, 2);
	assert_int_equal(around.calls.transmit, before.transmit + 1);
	assert_int_equal(around.calls.flush, before.flush + 1);
	assert_false(around.builder_locked);
	ur_qp_destroy(qp);
}

static void test_the_sends_before_a_bad_one_are_begun(void **state)
{
	struct ibv_send_wr third = { .wr_id = 3, .opcode = IBV_WR_SEND };
	struct ibv_send_wr second = { .wr_id = 2, .next = &third, .opcode = IBV_WR_BIND_MW };
	struct ibv_send_wr first = { .wr_id = 1, .next = &second, .opcode = IBV_WR_SEND };
	struct ibv_send_wr *bad_wr = NULL;
	struct ur_qp *qp = surroundings_create_qp();
	struct calls before;

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_RTS);
	before = around.calls;
	assert_int_equal(ur_qp_post_send(&qp->verbs, &first, &bad_wr), EINVAL);
	assert_ptr_equal(bad_wr, &second);
	assert_int_equal(qp->sq.tail - qp->sq.head, 1);
	assert_int_equal(around.calls.transmit, before.transmit + 1);
	assert_int_equal(around.calls.flush, before.flush + 1);
	ur_qp_destroy(qp);
}

static void test_a_full_send_queue_takes_no_more(void **state)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad_wr = NULL;
	struct ur_qp *qp = surroundings_create_qp();

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_RTS);
	for (int i = 0; i < 4; i++)
		post_send(qp);
	assert_int_equal(ur_qp_post_send(&qp->verbs, &wr, &bad_wr), ENOMEM);
	assert_ptr_equal(bad_wr, &wr);
	ur_qp_destroy(qp);
}

static void test_sends_are_signaled_if_all_are(void **state)
{
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();
	struct ur_qp *qp;

	(void)state;
	attr.sq_sig_all = 1;
	qp = ur_qp_create(&around.context, &attr);
	surroundings_bring_to(qp, IBV_QPS_RTS);
	post_send(qp);
	assert_true(ur_send_queue_at(&qp->sq, qp->sq.head)->signaled);
	ur_qp_destroy(qp);
}

static void test_what_is_posted_in_the_error_state_is_flushed(void **state)
{
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv = NULL;
	struct ur_qp *qp = surroundings_create_qp();
	unsigned transmitted;

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_ERR);
	transmitted = around.calls.transmit;
	post_send(qp);
	assert_int_equal(around.calls.qp_flush, 1);
	assert_int_equal(ur_qp_post_recv(&qp->verbs, &recv, &bad_recv), 0);
	assert_int_equal(around.calls.qp_flush, 2);
	assert_int_equal(around.calls.transmit, transmitted);
	ur_qp_destroy(qp);
}

static void test_receives_are_taken_once_it_is_initialized(void **state)
{
	struct ibv_recv_wr second = { .wr_id = 2 };
	struct ibv_recv_wr first = { .wr_id = 1, .next = &second }, *bad_wr = NULL;
	struct ur_qp *qp = surroundings_create_qp();

	(void)state;
	assert_int_equal(ur_qp_post_recv(&qp->verbs, &first, &bad_wr), EINVAL);
	assert_ptr_equal(bad_wr, &first);
	surroundings_bring_to(qp, IBV_QPS_INIT);
	assert_int_equal(ur_qp_post_recv(&qp->verbs, &first, &bad_wr), 0);
	assert_int_equal(qp->rq.count, 2);
	second.num_sge = 3;
	assert_int_equal(ur_qp_post_recv(&qp->verbs, &first, &bad_wr), EINVAL);
	assert_ptr_equal(bad_wr, &second);
	assert_int_equal(qp->rq.count, 3);
	assert_int_equal(around.calls.qp_flush, 0);
	ur_qp_destroy(qp);
}

static void test_receives_go_to_the_shared_queue_if_there_is_one(void **state)
{
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad_wr = NULL;
	struct ur_qp *qp;

	(void)state;
	attr.srq = &around.srq.verbs;
	qp = ur_qp_create(&around.context, &attr);
	surroundings_bring_to(qp, IBV_QPS_RTS);
	assert_int_equal(ur_qp_post_recv(&qp->verbs, &wr, &bad_wr), EINVAL);
	assert_ptr_equal(bad_wr, &wr);
	ur_qp_destroy(qp);
}

/* ---- End ---- */

static void test_a_destroyed_queue_pair_is_known_to_nobody(void **state)
{
	struct ur_qp *qp = surroundings_create_qp();
	uint16_t index = (uint16_t)qp->verbs.qp_num;

	(void)state;
	surroundings_bring_to(qp, IBV_QPS_RTS);
	assert_int_equal(drain(qp, true), 0);
	assert_int_equal(around.raised, 1);
	assert_int_equal(ur_qp_destroy(qp), 0);
	assert_null(ur_qp_table_find(&around.device.qps, index));
	assert_int_equal(around.calls.forget, 1);
	assert_int_equal(around.calls.responder_free, 1);
	assert_int_equal(around.withdrawn, 6); /* each kind of event */
	assert_true(around.is_last_raised_withdrawn);
}

#define qp_test(name) \
	cmocka_unit_test_setup_teardown(name, surroundings_set_up, surroundings_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		qp_test(test_a_new_queue_pair_shows_what_it_was_created_with),
		qp_test(test_a_new_queue_pair_is_ready_to_raise_its_events_and_has_no_timer),
		qp_test(test_the_number_names_the_process_and_the_queue_pair_in_it),
		qp_test(test_a_queue_pair_holds_its_objects_until_it_is_destroyed),
		qp_test(test_with_a_shared_receive_queue_there_is_no_other),
		qp_test(test_the_largest_capacities_are_given_and_so_is_none),
		qp_test(test_inline_data_has_the_room_of_the_pieces),
		qp_test(test_create_flags_may_be_none),
		qp_test(test_capacities_beyond_the_limits_are_refused),
		qp_test(test_objects_that_are_missing_or_of_another_context_are_refused),
		qp_test(test_unreliable_connections_are_sought_at_their_own_port_on_this_host_only),
		qp_test(test_what_is_not_there_yet_is_not_supported),
		qp_test(test_a_sending_half_has_no_receives),
		qp_test(test_a_receiving_half_has_nothing_but_its_domain),
		qp_test(test_a_receiving_half_needs_a_domain_of_its_context),
		qp_test(test_what_an_extended_connection_sends_names_a_queue_of_24_bits),
		qp_test(test_no_number_left_is_a_lack_of_memory),
		qp_test(test_the_way_to_ready_to_send),
		qp_test(test_datagrams_have_a_transport_of_their_own),
		qp_test(test_what_is_refused_changes_nothing),
		qp_test(test_without_memory_for_the_responder_the_attributes_stay),
		qp_test(test_the_path_mtu_is_at_most_the_devices),
		qp_test(test_the_current_state_that_is_named_must_be_it),
		qp_test(test_attributes_change_without_a_change_of_state),
		qp_test(test_what_a_modification_sent_goes_out_at_once),
		qp_test(test_an_idle_send_queue_is_drained_at_once),
		qp_test(test_a_busy_send_queue_is_drained_when_the_last_entry_has_completed),
		qp_test(test_draining_is_told_only_if_it_was_asked_for_this_time),
		qp_test(test_a_drained_queue_pair_takes_a_new_path),
		qp_test(test_the_reads_to_serve_cannot_change_while_there_may_be_some),
		qp_test(test_each_state_but_reset_can_become_an_error),
		qp_test(test_a_reset_queue_pair_is_empty_and_starts_anew),
		qp_test(test_a_query_gives_all_attributes),
		qp_test(test_sends_are_taken_once_it_is_ready_to_send),
		qp_test(test_a_list_of_sends_is_begun_in_one_go),
		qp_test(test_the_sends_before_a_bad_one_are_begun),
		qp_test(test_a_full_send_queue_takes_no_more),
		qp_test(test_sends_are_signaled_if_all_are),
		qp_test(test_what_is_posted_in_the_error_state_is_flushed),
		qp_test(test_receives_are_taken_once_it_is_initialized),
		qp_test(test_receives_go_to_the_shared_queue_if_there_is_one),
		qp_test(test_a_destroyed_queue_pair_is_known_to_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
