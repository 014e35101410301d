#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <string.h>

#include "../../../uroce/core/ah.h"
#include "core_surroundings.h"

static union ibv_gid gid(const char *text)
{
	union ibv_gid gid;

	assert_int_equal(inet_pton(AF_INET6, text, gid.raw), 1);
	return gid;
}

static int set_up(void **state)
{
	int result = core_set_up(state);

	core.device.gids[0] = gid("2001:db8::1");
	core.device.gids[1] = gid("::ffff:192.0.2.1");
	core.device.gid_count = 2;
	return result;
}

static const struct ibv_wc datagram = { .wc_flags = IBV_WC_GRH };

static struct ibv_grh ipv6_header(const char *from, const char *to)
{
	return (struct ibv_grh){ .version_tclass_flow = htonl(0x66b12345),
				 .sgid = gid(from),
				 .dgid = gid(to) };
}

/* Behind 20 bytes that may be anything. */
static struct ibv_grh ipv4_header(const char *from, const char *to)
{
	struct ip header = { .ip_v = 4,
			     .ip_hl = 5,
			     .ip_tos = 0x6b,
			     .ip_src.s_addr = inet_addr(from),
			     .ip_dst.s_addr = inet_addr(to) };
	struct ibv_grh grh;

	memset(&grh, 0x66, sizeof(grh));
	memcpy((char *)&grh + 20, &header, sizeof(header));
	return grh;
}

static void test_a_handle_holds_its_path_and_its_domain(void **state)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .grh = { .dgid = gid("::ffff:192.0.2.9"), .sgid_index = 1 } };
	struct ur_ah *ah = ur_ah_create(core.pd, &attr);

	(void)state;
	assert_non_null(ah);
	assert_int_equal(ah->path.remote.v4.sin_port, htons(4791));
	assert_int_equal(ah->path.remote.v4.sin_addr.s_addr, inet_addr("192.0.2.9"));
	assert_ptr_equal(ah->verbs.pd, &core.pd->verbs);
	assert_false(ah->is_own);
	assert_int_equal(ur_pd_dealloc(core.pd), EBUSY);
	assert_int_equal(ur_ah_destroy(ah), 0);
	attr.grh.sgid_index = 0;
	assert_null(ur_ah_create(core.pd, &attr));
	assert_int_equal(errno, EINVAL);
}

static void test_addresses_of_the_device_itself_are_known(void **state)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .grh = { .dgid = gid("::ffff:192.0.2.1"), .sgid_index = 1 } };
	struct ur_ah *ah = ur_ah_create(core.pd, &attr);

	(void)state;
	assert_non_null(ah);
	assert_true(ah->is_own);
	assert_int_equal(ur_ah_destroy(ah), 0);
}

static void test_the_way_back_of_an_ipv6_datagram(void **state)
{
	struct ibv_grh grh = ipv6_header("2001:db8::9", "2001:db8::1");
	union ibv_gid sender = gid("2001:db8::9");
	struct ibv_ah_attr attr;
	struct ur_ah *ah;

	(void)state;
	assert_int_equal(ur_ah_attr_from_wc(&core.device, 1, &datagram, &grh, &attr), 0);
	assert_memory_equal(&attr.grh.dgid, &sender, sizeof(sender));
	assert_int_equal(attr.grh.sgid_index, 0);
	assert_int_equal(attr.grh.traffic_class, 0x6b);
	assert_int_equal(attr.grh.flow_label, 0x12345);
	assert_int_equal(attr.port_num, 1);
	ah = ur_ah_create(core.pd, &attr);
	assert_non_null(ah);
	assert_int_equal(ur_ah_destroy(ah), 0);
}

static void test_the_way_back_of_an_ipv4_datagram(void **state)
{
	struct ibv_grh grh = ipv4_header("192.0.2.9", "192.0.2.1");
	union ibv_gid sender = gid("::ffff:192.0.2.9");
	struct ibv_ah_attr attr;
	struct ur_ah *ah;

	(void)state;
	assert_int_equal(ur_ah_attr_from_wc(&core.device, 1, &datagram, &grh, &attr), 0);
	assert_memory_equal(&attr.grh.dgid, &sender, sizeof(sender));
	assert_int_equal(attr.grh.sgid_index, 1);
	assert_int_equal(attr.grh.traffic_class, 0x6b);
	ah = ur_ah_create(core.pd, &attr);
	assert_non_null(ah);
	assert_int_equal(ur_ah_destroy(ah), 0);
}

static void test_there_is_no_way_back_from_what_was_not_sent_to_us(void **state)
{
	struct ibv_grh to_another = ipv6_header("2001:db8::9", "2001:db8::2");
	struct ibv_grh to_another_ipv4 = ipv4_header("192.0.2.9", "192.0.2.2");
	struct ibv_grh good = ipv4_header("192.0.2.9", "192.0.2.1");
	struct ibv_wc without_header = { 0 };
	struct ibv_ah_attr attr;

	(void)state;
	assert_int_equal(ur_ah_attr_from_wc(&core.device, 1, &datagram, &to_another, &attr),
			 EINVAL);
	assert_int_equal(ur_ah_attr_from_wc(&core.device, 1, &datagram, &to_another_ipv4, &attr),
			 EINVAL);
	assert_int_equal(ur_ah_attr_from_wc(&core.device, 1, &without_header, &good, &attr),
			 EINVAL);
	assert_int_equal(ur_ah_attr_from_wc(&core.device, 2, &datagram, &good, &attr), EINVAL);
	((char *)&good)[20] = 0x46;
	assert_int_equal(ur_ah_attr_from_wc(&core.device, 1, &datagram, &good, &attr), EINVAL);
}

#define ah_test(name) cmocka_unit_test_setup_teardown(name, set_up, core_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ah_test(test_a_handle_holds_its_path_and_its_domain),
		ah_test(test_addresses_of_the_device_itself_are_known),
		ah_test(test_the_way_back_of_an_ipv6_datagram),
		ah_test(test_the_way_back_of_an_ipv4_datagram),
		ah_test(test_there_is_no_way_back_from_what_was_not_sent_to_us),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
