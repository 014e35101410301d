#include "support.h"

#include <string.h>

#include "text.h"

static char out[RS_TEXT_ESCAPED_SIZE(1024)];

#define assert_escaped(text, expected, valid)                                                      \
	do {                                                                                       \
		assert_int_equal(rs_text_escape(text, sizeof(text) - 1, out, sizeof(out)), valid); \
		assert_string_equal(out, expected);                                                \
	} while (0)

static void test_printable_text_stays_as_it_is(void **state)
{
	(void)state;
	assert_escaped("Hi RDMA!", "Hi RDMA!", true);
	assert_escaped("", "", true);
	assert_escaped("Grüße, 世界 😀", "Grüße, 世界 😀", true);
}

static void test_control_characters_become_escapes_and_are_valid(void **state)
{
	(void)state;
	assert_escaped("a\nb\tc\rd", "a\\nb\\tc\\rd", true);
	assert_escaped("\x1b[2J", "\\x1b[2J", true);
	assert_escaped("a\0b", "a\\x00b", true);
	assert_escaped("\x7f", "\\x7f", true);
	/* C1 controls, which terminals obey as well. */
	assert_escaped("\xc2\x9b", "\\xc2\\x9b", true);
	assert_escaped("\xe2\x80\xa8", "\\xe2\\x80\\xa8", true);
}

static void test_bytes_that_are_not_utf_8_become_escapes_and_are_invalid(void **state)
{
	(void)state;
	assert_escaped("a\xff"
		       "b",
		       "a\\xffb", false);
	assert_escaped("\xc0\xaf", "\\xc0\\xaf", false);
	assert_escaped("\xed\xa0\x80", "\\xed\\xa0\\x80", false);
}

/* The C library reads such numbers, but Unicode ends at 10ffff. */
static void test_what_lies_beyond_unicode_is_invalid(void **state)
{
	(void)state;
	assert_escaped("\xf4\x8f\xbf\xbd", "\xf4\x8f\xbf\xbd", true);
	assert_escaped("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", false);
	assert_escaped("\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80", false);
}

static void test_a_character_cut_at_the_end_is_invalid(void **state)
{
	(void)state;
	assert_escaped("a\xc3", "a\\xc3", false);
	assert_escaped("a\xf0\x9f\x98", "a\\xf0\\x9f\\x98", false);
}

static void test_what_does_not_fit_is_left_out_and_never_half_a_character(void **state)
{
	static const char text[] = "aü\n😀";
	static const char *const expected[] = { "",      "a",     "a",     "aü",    "aü",
						"aü\\n", "aü\\n", "aü\\n", "aü\\n", "aü\\n😀" };

	(void)state;
	for (size_t size = 1; size <= sizeof(expected) / sizeof(expected[0]); size++) {
		memset(out, '#', sizeof(out));
		rs_text_escape(text, strlen(text), out, size);
		assert_string_equal(out, expected[size - 1]);
		assert_int_equal(out[size], '#');
	}
}

static void test_no_room_at_all_writes_nothing(void **state)
{
	(void)state;
	out[0] = '#';
	assert_false(rs_text_escape("a", 1, out, 0));
	assert_int_equal(out[0], '#');
}

static void test_the_largest_growth_fits_the_size_that_the_header_names(void **state)
{
	char text[1024];

	(void)state;
	memset(text, 1, sizeof(text));
	assert_true(rs_text_escape(text, sizeof(text), out, RS_TEXT_ESCAPED_SIZE(sizeof(text))));
	assert_int_equal(strlen(out), 4 * sizeof(text));
}

static void test_what_is_appended_beyond_the_room_is_left_out(void **state)
{
	char text[8] = "";

	(void)state;
	rs_text_append(text, sizeof(text), "%s%d", "ab", 1);
	assert_string_equal(text, "ab1");
	rs_text_append(text, sizeof(text), ", %s", "cdef");
	assert_string_equal(text, "ab1, cd");
	rs_text_append(text, sizeof(text), "g");
	assert_string_equal(text, "ab1, cd");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_printable_text_stays_as_it_is),
		cmocka_unit_test(test_control_characters_become_escapes_and_are_valid),
		cmocka_unit_test(test_bytes_that_are_not_utf_8_become_escapes_and_are_invalid),
		cmocka_unit_test(test_what_lies_beyond_unicode_is_invalid),
		cmocka_unit_test(test_a_character_cut_at_the_end_is_invalid),
		cmocka_unit_test(test_what_does_not_fit_is_left_out_and_never_half_a_character),
		cmocka_unit_test(test_no_room_at_all_writes_nothing),
		cmocka_unit_test(test_the_largest_growth_fits_the_size_that_the_header_names),
		cmocka_unit_test(test_what_is_appended_beyond_the_room_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
