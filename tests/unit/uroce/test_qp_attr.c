#include "../../../uroce/core/qp_attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "../../../uroce/core/device.h"
#include "../../../uroce/wire/packet.h"

/* What the specification says of a reliable connection, written down once more. */
struct expectation {
	enum ibv_qp_type type;
	enum ibv_qp_state from;
	enum ibv_qp_state to;
	int required;
	int optional;
};

#define INIT_ATTR (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_ATTR                                                         \
	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_ATTR                                                                \
	(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
	 IBV_QP_MAX_QP_RD_ATOMIC)
#define RTS_OPTIONAL                                                                       \
	(IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | \
	 IBV_QP_PATH_MIG_STATE)
#define SQD_OPTIONAL                                                                      \
	(IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
	 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH |          \
	 IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE)

static const struct expectation reliable[] = {
	{ IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, INIT_ATTR, 0 },
	{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT, 0, INIT_ATTR },
	{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, RTR_ATTR,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, RTS_ATTR, RTS_OPTIONAL },
	{ IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, 0, RTS_OPTIONAL },
	{ IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_RTS, 0, RTS_OPTIONAL },
	{ IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, 0, SQD_OPTIONAL },
	{ IBV_QPT_RC, IBV_QPS_ERR, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPT_RC, IBV_QPS_ERR, IBV_QPS_ERR, 0, 0 },
};

#define FIRST_STATE IBV_QPS_RESET
#define LAST_STATE  IBV_QPS_ERR
#define MASK_BITS   31

/* What each half of an extended connection lacks: the attributes of the other direction. */
#define ONLY_OF_RECV (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define ONLY_OF_SEND (IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

static bool find_expectation(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
			     struct expectation *found)
{
	int lacks = type == IBV_QPT_XRC_SEND ? ONLY_OF_RECV
					     : (type == IBV_QPT_XRC_RECV ? ONLY_OF_SEND : 0);

	for (size_t i = 0; i < sizeof(reliable) / sizeof(reliable[0]); i++) {
		if (reliable[i].from != from || reliable[i].to != to)
			continue;
		*found = reliable[i];
		found->type = type;
		found->required &= ~lacks;
		found->optional &= ~lacks;
		return true;
	}
	return false;
}

static void assert_mask(const struct expectation *wanted, int mask, int error)
{
	int found = ur_qp_attr_check_mask(wanted->type, wanted->from, wanted->to, mask);

	if (found != error)
		fail_msg("type %d from state %d to %d with mask 0x%x: %d instead of %d",
			 (int)wanted->type, (int)wanted->from, (int)wanted->to, (unsigned)mask,
			 found, error);
}

/* Each attribute missing that is required, each extra that is not; each optional one alone. */
static void check_transition(const struct expectation *wanted)
{
	assert_mask(wanted, IBV_QP_STATE | wanted->required, 0);
	assert_mask(wanted, wanted->required, 0);
	assert_mask(wanted, IBV_QP_STATE | wanted->required | wanted->optional, 0);
	for (int bit = 1; bit < MASK_BITS; bit++) {
		int one = 1 << bit;
		bool allowed = (wanted->required | wanted->optional) & one;

		assert_mask(wanted, IBV_QP_STATE | wanted->required | one, allowed ? 0 : EINVAL);
		if (wanted->required & one)
			assert_mask(wanted, IBV_QP_STATE | (wanted->required & ~one), EINVAL);
	}
}

static void check_no_transition(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	const struct expectation none = { .type = type, .from = from, .to = to };

	assert_mask(&none, IBV_QP_STATE, EINVAL);
	assert_mask(&none, IBV_QP_STATE | INIT_ATTR, EINVAL);
	assert_mask(&none, IBV_QP_STATE | RTR_ATTR, EINVAL);
	assert_mask(&none, IBV_QP_STATE | RTS_ATTR, EINVAL);
	for (int bit = 1; bit < MASK_BITS; bit++)
		assert_mask(&none, IBV_QP_STATE | 1 << bit, EINVAL);
}

static void check_all_transitions(enum ibv_qp_type type)
{
	struct expectation wanted;

	for (enum ibv_qp_state from = FIRST_STATE; from <= LAST_STATE; from++) {
		for (enum ibv_qp_state to = FIRST_STATE; to <= LAST_STATE; to++) {
			if (find_expectation(type, from, to, &wanted))
				check_transition(&wanted);
			else
				check_no_transition(type, from, to);
		}
	}
}

static void test_each_transition_of_a_reliable_connection_takes_its_attributes_and_no_others(
	void **state)
{
	(void)state;
	check_all_transitions(IBV_QPT_RC);
}

static void test_each_half_of_an_extended_connection_takes_those_of_its_direction(void **state)
{
	(void)state;
	check_all_transitions(IBV_QPT_XRC_SEND);
	check_all_transitions(IBV_QPT_XRC_RECV);
}

static void test_states_and_types_that_do_not_exist_are_refused(void **state)
{
	(void)state;
	assert_int_equal(ur_qp_attr_check_mask(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_UNKNOWN,
					       IBV_QP_STATE),
			 EINVAL);
	assert_int_equal(ur_qp_attr_check_mask(IBV_QPT_RC, IBV_QPS_UNKNOWN, IBV_QPS_RESET,
					       IBV_QP_STATE),
			 EINVAL);
	assert_int_equal(ur_qp_attr_check_mask(IBV_QPT_RC, IBV_QPS_RTS, (enum ibv_qp_state) - 1,
					       IBV_QP_STATE),
			 EINVAL);
	assert_int_equal(ur_qp_attr_check_mask(IBV_QPT_RAW_PACKET, IBV_QPS_RTS, IBV_QPS_RESET,
					       IBV_QP_STATE),
			 EINVAL);
}

static void assert_path(enum ibv_qp_type type, const int masks[4])
{
	static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						    IBV_QPS_RTS, IBV_QPS_SQD };

	for (int i = 0; i < 4; i++) {
		assert_int_equal(ur_qp_attr_check_mask(type, states[i], states[i + 1],
						       IBV_QP_STATE | masks[i]),
				 0);
		assert_int_equal(ur_qp_attr_check_mask(type, states[i], states[i + 1],
						       IBV_QP_STATE | masks[i] | IBV_QP_CAP),
				 EINVAL);
		if (masks[i])
			assert_int_equal(ur_qp_attr_check_mask(type, states[i], states[i + 1],
							       IBV_QP_STATE),
					 EINVAL);
	}
}

static void test_the_other_services_have_their_own_attributes(void **state)
{
	(void)state;
	assert_path(IBV_QPT_UC,
		    (const int[]){ INIT_ATTR,
				   IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
				   IBV_QP_SQ_PSN, 0 });
	assert_path(IBV_QPT_UD, (const int[]){ IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0,
					       IBV_QP_SQ_PSN, 0 });
	assert_path(UR_QPT_GSI,
		    (const int[]){ IBV_QP_PKEY_INDEX | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN, 0 });
}

static void test_only_unreliable_services_come_back_from_a_send_queue_error(void **state)
{
	(void)state;
	assert_int_equal(ur_qp_attr_check_mask(IBV_QPT_UC, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_STATE),
			 0);
	assert_int_equal(ur_qp_attr_check_mask(IBV_QPT_UD, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_STATE),
			 0);
	assert_int_equal(ur_qp_attr_check_mask(IBV_QPT_RC, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_STATE),
			 EINVAL);
}

/* ---- Values ---- */

#define ALL_ATTRIBUTES (IBV_QP_STATE | INIT_ATTR | RTR_ATTR | RTS_ATTR | IBV_QP_PATH_MIG_STATE)

/* All at their limits. */
static const struct ibv_qp_attr largest = {
	.path_mtu = IBV_MTU_4096,
	.path_mig_state = IBV_MIG_MIGRATED,
	.rq_psn = UR_24_BITS,
	.sq_psn = UR_24_BITS,
	.dest_qp_num = UR_24_BITS,
	.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			   IBV_ACCESS_RELAXED_ORDERING,
	.max_rd_atomic = UR_MAX_RD_ATOMIC,
	.max_dest_rd_atomic = UR_MAX_RD_ATOMIC,
	.min_rnr_timer = 31,
	.port_num = 1,
	.timeout = 31,
	.retry_cnt = 7,
	.rnr_retry = 7,
};

/* The attribute has a value that is refused, but only if the mask names it. */
static void assert_refused(const struct ibv_qp_attr *attr, int bit, int error)
{
	assert_int_equal(ur_qp_attr_check_values(attr, ALL_ATTRIBUTES | bit, IBV_MTU_4096), error);
	assert_int_equal(ur_qp_attr_check_values(attr, ALL_ATTRIBUTES & ~bit, IBV_MTU_4096), 0);
}

static void test_values_up_to_their_limits_are_taken(void **state)
{
	const struct ibv_qp_attr smallest = { .path_mtu = IBV_MTU_256, .port_num = 1 };

	(void)state;
	assert_int_equal(ur_qp_attr_check_values(&largest, ALL_ATTRIBUTES, IBV_MTU_4096), 0);
	assert_int_equal(ur_qp_attr_check_values(&smallest, ALL_ATTRIBUTES, IBV_MTU_256), 0);
}

#define assert_value_refused(bit, field, value)     \
	do {                                        \
		struct ibv_qp_attr attr = largest;  \
                                                    \
		attr.field = (value);               \
		assert_refused(&attr, bit, EINVAL); \
	} while (0)

static void test_values_beyond_their_limits_are_refused(void **state)
{
	(void)state;
	assert_value_refused(IBV_QP_PKEY_INDEX, pkey_index, 1);
	assert_value_refused(IBV_QP_PORT, port_num, 0);
	assert_value_refused(IBV_QP_PORT, port_num, 2);
	assert_value_refused(IBV_QP_ACCESS_FLAGS, qp_access_flags, 1U << 10);
	assert_value_refused(IBV_QP_ACCESS_FLAGS, qp_access_flags, 1U << 31);
	assert_value_refused(IBV_QP_PATH_MTU, path_mtu, IBV_MTU_4096 + 1);
	assert_value_refused(IBV_QP_PATH_MTU, path_mtu, 0);
	assert_value_refused(IBV_QP_DEST_QPN, dest_qp_num, UR_24_BITS + 1);
	assert_value_refused(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic, UR_MAX_RD_ATOMIC + 1);
	assert_value_refused(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, UR_MAX_RD_ATOMIC + 1);
	assert_value_refused(IBV_QP_MIN_RNR_TIMER, min_rnr_timer, 32);
	assert_value_refused(IBV_QP_TIMEOUT, timeout, 32);
	assert_value_refused(IBV_QP_RETRY_CNT, retry_cnt, 8);
	assert_value_refused(IBV_QP_RNR_RETRY, rnr_retry, 8);
}

static void test_the_path_mtu_is_at_most_the_ports(void **state)
{
	const struct ibv_qp_attr attr = { .path_mtu = IBV_MTU_2048 };

	(void)state;
	assert_int_equal(ur_qp_attr_check_values(&attr, IBV_QP_PATH_MTU, IBV_MTU_2048), 0);
	assert_int_equal(ur_qp_attr_check_values(&attr, IBV_QP_PATH_MTU, IBV_MTU_1024), EINVAL);
}

static void test_alternate_paths_are_not_supported(void **state)
{
	struct ibv_qp_attr attr = largest;

	(void)state;
	assert_refused(&attr, IBV_QP_ALT_PATH, EOPNOTSUPP);
	attr.path_mig_state = IBV_MIG_REARM;
	assert_refused(&attr, IBV_QP_PATH_MIG_STATE, EOPNOTSUPP);
	attr.path_mig_state = IBV_MIG_ARMED;
	assert_refused(&attr, IBV_QP_PATH_MIG_STATE, EOPNOTSUPP);
}

static void test_only_what_the_mask_names_is_copied(void **state)
{
	struct ibv_qp_attr from, to;

	(void)state;
	memset(&from, 0x55, sizeof(from));
	for (int bit = 0; bit < MASK_BITS; bit++) {
		memset(&to, 0, sizeof(to));
		ur_qp_attr_copy(&to, &from, 1 << bit);
		assert_int_equal(to.en_sqd_async_notify == 0x55,
				 1 << bit == IBV_QP_EN_SQD_ASYNC_NOTIFY);
		assert_int_equal(to.qp_access_flags == 0x55555555, 1 << bit == IBV_QP_ACCESS_FLAGS);
		assert_int_equal(to.pkey_index == 0x5555, 1 << bit == IBV_QP_PKEY_INDEX);
		assert_int_equal(to.port_num == 0x55, 1 << bit == IBV_QP_PORT);
		assert_int_equal(to.qkey == 0x55555555, 1 << bit == IBV_QP_QKEY);
		assert_int_equal(to.ah_attr.sl == 0x55, 1 << bit == IBV_QP_AV);
		assert_int_equal((unsigned)to.path_mtu == 0x55555555, 1 << bit == IBV_QP_PATH_MTU);
		assert_int_equal(to.timeout == 0x55, 1 << bit == IBV_QP_TIMEOUT);
		assert_int_equal(to.retry_cnt == 0x55, 1 << bit == IBV_QP_RETRY_CNT);
		assert_int_equal(to.rnr_retry == 0x55, 1 << bit == IBV_QP_RNR_RETRY);
		assert_int_equal(to.rq_psn == 0x555555, 1 << bit == IBV_QP_RQ_PSN);
		assert_int_equal(to.max_rd_atomic == 0x55, 1 << bit == IBV_QP_MAX_QP_RD_ATOMIC);
		assert_int_equal(to.min_rnr_timer == 0x55, 1 << bit == IBV_QP_MIN_RNR_TIMER);
		assert_int_equal(to.sq_psn == 0x555555, 1 << bit == IBV_QP_SQ_PSN);
		assert_int_equal(to.max_dest_rd_atomic == 0x55,
				 1 << bit == IBV_QP_MAX_DEST_RD_ATOMIC);
		assert_int_equal((unsigned)to.path_mig_state == 0x55555555,
				 1 << bit == IBV_QP_PATH_MIG_STATE);
		assert_int_equal(to.dest_qp_num == 0x55555555, 1 << bit == IBV_QP_DEST_QPN);
		assert_int_equal(to.qp_state, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_each_transition_of_a_reliable_connection_takes_its_attributes_and_no_others),
		cmocka_unit_test(
			test_each_half_of_an_extended_connection_takes_those_of_its_direction),
		cmocka_unit_test(test_states_and_types_that_do_not_exist_are_refused),
		cmocka_unit_test(test_the_other_services_have_their_own_attributes),
		cmocka_unit_test(test_only_unreliable_services_come_back_from_a_send_queue_error),
		cmocka_unit_test(test_values_up_to_their_limits_are_taken),
		cmocka_unit_test(test_values_beyond_their_limits_are_refused),
		cmocka_unit_test(test_the_path_mtu_is_at_most_the_ports),
		cmocka_unit_test(test_alternate_paths_are_not_supported),
		cmocka_unit_test(test_only_what_the_mask_names_is_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
