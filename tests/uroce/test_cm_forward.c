/*
 * Where there are real devices, ids are the real library's: all calls go there.
 */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../unit/uroce/network.h"
#include "other_cm.h"
#include "other_verbs.h"

#define assert_passed_on(function, ...)                            \
	do {                                                       \
		(void)function(__VA_ARGS__);                       \
		assert_string_equal(other_cm_called(), #function); \
	} while (0)

static void test_ids_and_channels_go_to_the_next_library(void **state)
{
	struct rdma_cm_id id, *created;
	struct rdma_event_channel channel;
	struct rdma_cm_event *event;

	(void)state;
	assert_passed_on(rdma_create_event_channel);
	assert_passed_on(rdma_destroy_event_channel, &channel);
	assert_passed_on(rdma_get_cm_event, &channel, &event);
	assert_passed_on(rdma_ack_cm_event, NULL);
	assert_passed_on(rdma_create_id, &channel, &created, NULL, RDMA_PS_TCP);
	assert_passed_on(rdma_create_ep, &created, NULL, NULL, NULL);
	assert_passed_on(rdma_destroy_ep, &id);
	assert_passed_on(rdma_destroy_id, &id);
	assert_passed_on(rdma_migrate_id, &id, &channel);
	assert_passed_on(rdma_bind_addr, &id, NULL);
	assert_passed_on(rdma_resolve_addr, &id, NULL, NULL, 0);
	assert_passed_on(rdma_resolve_route, &id, 0);
	assert_passed_on(rdma_create_qp, &id, NULL, NULL);
	assert_passed_on(rdma_create_qp_ex, &id, NULL);
	assert_passed_on(rdma_destroy_qp, &id);
	assert_passed_on(rdma_create_srq, &id, NULL, NULL);
	assert_passed_on(rdma_create_srq_ex, &id, NULL);
	assert_passed_on(rdma_destroy_srq, &id);
	assert_passed_on(rdma_init_qp_attr, &id, NULL, NULL);
	assert_passed_on(rdma_connect, &id, NULL);
	assert_passed_on(rdma_establish, &id);
	assert_passed_on(rdma_listen, &id, 0);
	assert_passed_on(rdma_get_request, &id, &created);
	assert_passed_on(rdma_accept, &id, NULL);
	assert_passed_on(rdma_reject, &id, NULL, 0);
	assert_passed_on(rdma_reject_ece, &id, NULL, 0);
	assert_passed_on(rdma_notify, &id, IBV_EVENT_COMM_EST);
	assert_passed_on(rdma_disconnect, &id);
	assert_passed_on(rdma_join_multicast, &id, NULL, NULL);
	assert_passed_on(rdma_join_multicast_ex, &id, NULL, NULL);
	assert_passed_on(rdma_leave_multicast, &id, NULL);
	assert_passed_on(rdma_set_option, &id, 0, 0, NULL, 0);
	assert_passed_on(rdma_set_local_ece, &id, NULL);
	assert_passed_on(rdma_get_remote_ece, &id, NULL);
	assert_passed_on(rdma_get_src_port, &id);
	assert_passed_on(rdma_get_dst_port, &id);
	assert_passed_on(rdma_get_devices, NULL);
	assert_passed_on(rdma_free_devices, NULL);
	assert_passed_on(rdma_getaddrinfo, NULL, NULL, NULL, NULL);
	assert_passed_on(rdma_freeaddrinfo, NULL);
	assert_passed_on(rsocket, 0, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids_and_channels_go_to_the_next_library),
	};

	unsetenv("UROCE_CM");
	other_list_error = 0;
	return network_enter() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
