#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../../uroce/core/device.h"
#include "../../../uroce/core/qp_table.h"

/* A queue pair for each number; what it is does not matter. */
static char marks[UINT16_MAX + 1];
static struct ur_qp_table table;

static struct ur_qp *qp(unsigned i)
{
	return (struct ur_qp *)&marks[i];
}

static int tear_down(void **state)
{
	(void)state;
	ur_qp_table_free(&table);
	return 0;
}

static void test_a_queue_pair_is_found_by_its_number(void **state)
{
	uint16_t first, second;

	(void)state;
	assert_null(ur_qp_table_find(&table, 5));
	first = ur_qp_table_add(&table, qp(1));
	second = ur_qp_table_add(&table, qp(2));
	assert_ptr_equal(ur_qp_table_find(&table, first), qp(1));
	assert_ptr_equal(ur_qp_table_find(&table, second), qp(2));
	ur_qp_table_remove(&table, first);
	assert_null(ur_qp_table_find(&table, first));
	assert_ptr_equal(ur_qp_table_find(&table, second), qp(2));
	assert_null(ur_qp_table_find(&table, UINT16_MAX));
}

static void test_a_number_is_not_given_again_before_all_others(void **state)
{
	uint16_t first = ur_qp_table_add(&table, qp(0));

	(void)state;
	ur_qp_table_remove(&table, first);
	for (unsigned i = 1; i < UINT16_MAX - 2; i++) {
		uint16_t index = ur_qp_table_add(&table, qp(i));

		assert_int_not_equal(index, first);
		assert_int_not_equal(index, UINT16_MAX); /* in the 256th process, that of groups */
		ur_qp_table_remove(&table, index);
	}
	assert_int_equal(ur_qp_table_add(&table, qp(0)), first);
}

static void test_management_numbers_are_not_given_and_the_table_ends(void **state)
{
	uint16_t index = 0;

	(void)state;
	for (unsigned i = 0; i < UR_MAX_QPS; i++) {
		index = ur_qp_table_add(&table, qp(i));
		assert_true(index >= 2);
	}
	assert_int_equal(ur_qp_table_add(&table, qp(0)), 0);
	ur_qp_table_remove(&table, index);
	assert_true(ur_qp_table_add(&table, qp(0)) >= 2);
	assert_int_equal(ur_qp_table_add(&table, qp(0)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_a_queue_pair_is_found_by_its_number, tear_down),
		cmocka_unit_test_teardown(test_a_number_is_not_given_again_before_all_others,
					  tear_down),
		cmocka_unit_test_teardown(test_management_numbers_are_not_given_and_the_table_ends,
					  tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
