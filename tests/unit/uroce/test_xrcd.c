#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "../../../uroce/core/qp.h"
#include "core_surroundings.h"

static FILE *file;

static int set_up(void **state)
{
	file = tmpfile();
	return file ? core_set_up(state) : -1;
}

static int tear_down(void **state)
{
	fclose(file);
	return core_tear_down(state);
}

static struct ur_xrcd *open_of(struct ur_context *context, int fd, int oflags)
{
	const struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	errno = 0;
	return ur_xrcd_open(context, &attr);
}

static void assert_not_opened(int fd, int oflags, int error)
{
	assert_null(open_of(core.context, fd, oflags));
	assert_int_equal(errno, error);
}

static void assert_closed(struct ur_xrcd *xrcd)
{
	assert_int_equal(ur_xrcd_close(xrcd), 0);
}

static void test_a_domain_of_no_file_is_always_another(void **state)
{
	struct ur_xrcd *one = open_of(core.context, -1, O_CREAT);
	struct ur_xrcd *two = open_of(core.context, -1, O_CREAT | O_EXCL);

	(void)state;
	assert_non_null(one);
	assert_non_null(two);
	assert_ptr_equal(one->verbs.context, &core.context->verbs.context);
	assert_ptr_not_equal(one->domain, two->domain);
	assert_not_opened(-1, 0, EAGAIN);
	assert_closed(one);
	assert_closed(two);
}

static void test_who_opens_the_same_file_gets_the_same_domain(void **state)
{
	struct ur_context *context = ur_context_open(&core.device);
	int again = dup(fileno(file));
	struct ur_xrcd *one, *two, *three;

	(void)state;
	assert_not_opened(fileno(file), 0, EAGAIN);
	one = open_of(core.context, fileno(file), O_CREAT | O_EXCL);
	assert_non_null(one);
	assert_not_opened(fileno(file), O_CREAT | O_EXCL, EINVAL);
	two = open_of(core.context, again, O_CREAT);
	close(again);
	three = open_of(context, fileno(file), 0);
	assert_ptr_equal(one->domain, two->domain);
	assert_ptr_equal(one->domain, three->domain);
	assert_closed(one);
	assert_closed(two);
	assert_closed(three);
	assert_not_opened(fileno(file), 0, EAGAIN);
	assert_int_equal(ur_context_close(context), 0);
}

static void test_different_files_have_different_domains(void **state)
{
	FILE *other = tmpfile();
	struct ur_xrcd *one, *two;

	(void)state;
	assert_non_null(other);
	one = open_of(core.context, fileno(file), O_CREAT);
	two = open_of(core.context, fileno(other), O_CREAT);
	assert_ptr_not_equal(one->domain, two->domain);
	assert_closed(one);
	assert_closed(two);
	fclose(other);
}

static void test_a_file_that_is_closed_still_stands_for_its_domain(void **state)
{
	int fd = dup(fileno(file));
	struct ur_xrcd *one = open_of(core.context, fd, O_CREAT), *two;

	(void)state;
	close(fd);
	two = open_of(core.context, fileno(file), 0);
	assert_ptr_equal(one->domain, two->domain);
	assert_closed(one);
	assert_closed(two);
}

static void test_impossible_attributes_are_refused(void **state)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1 };

	(void)state;
	assert_null(ur_xrcd_open(core.context, &attr));
	assert_int_equal(errno, EINVAL);
	attr.comp_mask =
		IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS | IBV_XRCD_INIT_ATTR_RESERVED;
	assert_null(ur_xrcd_open(core.context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_not_opened(-2, O_CREAT, EINVAL);
	assert_not_opened(-1, O_CREAT | O_TRUNC, EINVAL);
	assert_not_opened(1 << 20, O_CREAT, EBADF);
}

static void test_a_domain_and_a_completion_queue_stay_while_a_queue_uses_them(void **state)
{
	const struct ibv_srq_attr attr = { .max_wr = 1, .max_sge = 1 };
	struct ur_cq *cq = ur_cq_create(core.context, 1, NULL, NULL, 0, NULL);
	struct ur_xrcd *xrcd = open_of(core.context, -1, O_CREAT);
	struct ur_srq *srq = ur_srq_create_xrc(core.pd, xrcd, cq, NULL, &attr);

	(void)state;
	assert_non_null(srq);
	assert_int_equal(ur_xrcd_close(xrcd), EBUSY);
	assert_int_equal(ur_cq_destroy(cq), EBUSY);
	assert_int_equal(ur_pd_dealloc(core.pd), EBUSY);
	assert_int_equal(ur_srq_destroy(srq), 0);
	assert_int_equal(ur_cq_destroy(cq), 0);
	assert_closed(xrcd);
}

static struct ur_srq *create_with_number(struct ur_xrcd *xrcd, struct ur_cq *cq)
{
	const struct ibv_srq_attr attr = { .max_wr = 1, .max_sge = 1 };
	struct ur_srq *srq = ur_srq_create_xrc(core.pd, xrcd, cq, NULL, &attr);

	assert_non_null(srq);
	return srq;
}

/* More than there are buckets, taken out in another order. */
static void test_every_queue_of_a_domain_is_found_by_its_number(void **state)
{
	struct ur_cq *cq = ur_cq_create(core.context, 1, NULL, NULL, 0, NULL);
	struct ur_xrcd *xrcd = open_of(core.context, -1, O_CREAT);
	struct ur_srq *srqs[3 * UR_XRC_BUCKETS];
	struct ur_qp qp = { .xrcd = xrcd };

	(void)state;
	for (unsigned i = 0; i < 3 * UR_XRC_BUCKETS; i++)
		srqs[i] = create_with_number(xrcd, cq);
	for (unsigned i = 0; i < 3 * UR_XRC_BUCKETS; i++) {
		assert_true(ur_xrcd_aim(&qp, srqs[i]->number));
		assert_ptr_equal(qp.target.srq, srqs[i]);
		assert_ptr_equal(qp.target.pd, core.pd);
		assert_ptr_equal(qp.target.cq, cq);
	}
	for (unsigned i = 0; i < 3 * UR_XRC_BUCKETS; i += 2) {
		uint32_t number = srqs[i]->number;

		assert_int_equal(ur_srq_destroy(srqs[i]), 0);
		assert_false(ur_xrcd_aim(&qp, number));
		assert_true(ur_xrcd_aim(&qp, srqs[i + 1]->number));
	}
	for (unsigned i = 1; i < 3 * UR_XRC_BUCKETS; i += 2)
		assert_int_equal(ur_srq_destroy(srqs[i]), 0);
	assert_int_equal(ur_cq_destroy(cq), 0);
	assert_closed(xrcd);
}

static void test_numbers_that_are_in_use_are_passed_over(void **state)
{
	struct ur_cq *cq = ur_cq_create(core.context, 1, NULL, NULL, 0, NULL);
	struct ur_xrcd *xrcd = open_of(core.context, -1, O_CREAT);
	struct ur_srq *old = create_with_number(xrcd, cq);
	struct ur_srq new = { .number = old->number };

	(void)state;
	pthread_mutex_lock(&core.device.lock);
	ur_xrcd_add(xrcd, &new);
	assert_int_not_equal(new.number, old->number);
	assert_int_equal(ur_xrcd_remove(xrcd, &new), 0);
	pthread_mutex_unlock(&core.device.lock);
	assert_int_equal(ur_srq_destroy(old), 0);
	assert_int_equal(ur_cq_destroy(cq), 0);
	assert_closed(xrcd);
}

#define xrcd_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		xrcd_test(test_a_domain_of_no_file_is_always_another),
		xrcd_test(test_who_opens_the_same_file_gets_the_same_domain),
		xrcd_test(test_different_files_have_different_domains),
		xrcd_test(test_a_file_that_is_closed_still_stands_for_its_domain),
		xrcd_test(test_impossible_attributes_are_refused),
		xrcd_test(test_a_domain_and_a_completion_queue_stay_while_a_queue_uses_them),
		xrcd_test(test_every_queue_of_a_domain_is_found_by_its_number),
		xrcd_test(test_numbers_that_are_in_use_are_passed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
