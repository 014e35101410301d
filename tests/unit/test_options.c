#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"

static const struct program requester = {
	.name = "x_requester",
	.peer = "x_responder",
	.resource_owner = "x_responder",
	.summary = "Does x.",
	.groups = OPTION_EXCHANGE | OPTION_RESOURCE | OPTION_READ_STRING | OPTION_CONNECTIONS |
		  OPTION_CM,
};

static const struct program sender = {
	.name = "x_send",
	.peer = "x_receive",
	.summary = "Sends x.",
	.groups = OPTION_EXCHANGE | OPTION_SEND_STRING,
};

static const struct program writer = {
	.name = "x_write",
	.peer = "x_written",
	.summary = "Writes x.",
	.groups = OPTION_EXCHANGE | OPTION_WRITE_STRING | OPTION_IMMEDIATE,
};

static struct options options;
static int exit_status;

static int setup(void **state)
{
	(void)state;
	log_capture();
	unsetenv("XDG_RUNTIME_DIR");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rs_log_set_sink(NULL, NULL);
	return 0;
}

#define MAX_ARGUMENTS 16

static bool parse(const struct program *program, const char *const *arguments)
{
	static char *argv[MAX_ARGUMENTS + 2];
	int argc = 0;

	argv[argc++] = (char *)(uintptr_t)program->name;
	while (*arguments) {
		assert_true(argc <= MAX_ARGUMENTS);
		argv[argc++] = (char *)(uintptr_t)*arguments++;
	}
	argv[argc] = NULL;
	exit_status = -1;
	return options_parse(program, argc, argv, &options, &exit_status);
}

#define ARGUMENTS(...) ((const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })

#define assert_parsed(program, ...)                          \
	do {                                                 \
		if (!parse(program, ARGUMENTS(__VA_ARGS__))) \
			fail_msg("refused: %s", log_text()); \
	} while (0)

#define assert_usage_error(program, message, ...)                                 \
	do {                                                                      \
		log_forget();                                                     \
		assert_false(parse(program, ARGUMENTS(__VA_ARGS__)));             \
		assert_int_equal(exit_status, EXIT_STATUS_USAGE);                 \
		assert_string_equal(log_text(), "options: error: " message "\n"); \
	} while (0)

static void test_without_options_all_have_their_defaults(void **state)
{
	(void)state;
	assert_parsed(&requester);
	assert_ptr_equal(options.program, &requester);
	assert_null(options.device);
	assert_int_equal(options.gid_index, -1);
	assert_string_equal(options.local_descriptor_path, "/tmp/x_requester.conn");
	assert_string_equal(options.remote_descriptor_path, "/tmp/x_responder.conn");
	assert_string_equal(options.resource_descriptor_path, "/tmp/x_responder.resource");
	assert_true(options.default_paths[0] && options.default_paths[1] &&
		    options.default_paths[2]);
	assert_int_equal(options.transport, RS_TRANSPORT_RC);
	assert_string_equal(options.text, "Hi RDMA!");
	assert_int_equal(options.immediate, 0xD0CA);
	assert_int_equal(options.num_connections, 2);
	assert_false(options.use_rdma_cm);
	assert_int_equal(options.listen_port, 13579);
	assert_null(options.server_address);
	assert_int_equal(options.server_address_type, RS_ADDRESS_GUESSED);
	assert_int_equal(options.timeout, 0);
	assert_int_equal(options.log_level, RS_LOG_INFO);
	assert_false(options.json);
}

static void test_default_paths_lie_in_the_runtime_folder(void **state)
{
	(void)state;
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	assert_parsed(&requester);
	assert_string_equal(options.local_descriptor_path, "/run/user/7/x_requester.conn");
	/* Without a resource there is no path for one, and without -nc there is one connection. */
	assert_parsed(&sender);
	assert_int_equal(options.num_connections, 1);
	assert_string_equal(options.resource_descriptor_path, "");
}

static void test_an_unusable_runtime_folder_is_not_used(void **state)
{
	char *longest = calloc(1, PATH_MAX + 100);

	(void)state;
	setenv("XDG_RUNTIME_DIR", "", 1);
	assert_parsed(&sender);
	assert_string_equal(options.local_descriptor_path, "/tmp/x_send.conn");
	setenv("XDG_RUNTIME_DIR", "relative", 1);
	assert_parsed(&sender);
	assert_string_equal(options.local_descriptor_path, "/tmp/x_send.conn");
	memset(longest, '/', PATH_MAX + 50);
	setenv("XDG_RUNTIME_DIR", longest, 1);
	assert_parsed(&sender);
	assert_string_equal(options.local_descriptor_path, "/tmp/x_send.conn");
	free(longest);
}

static void test_short_forms_work(void **state)
{
	(void)state;
	assert_parsed(&requester, "-d", "rxe0", "-g", "3", "-ld", "a", "-re", "b", "-m", "c");
	assert_string_equal(options.device, "rxe0");
	assert_int_equal(options.gid_index, 3);
	assert_string_equal(options.local_descriptor_path, "a");
	assert_string_equal(options.remote_descriptor_path, "b");
	assert_string_equal(options.resource_descriptor_path, "c");
	assert_false(options.default_paths[0] || options.default_paths[1] ||
		     options.default_paths[2]);
	assert_parsed(&requester, "-tt", "RC", "-r", "text", "-nc", "7");
	assert_int_equal(options.transport, RS_TRANSPORT_RC);
	assert_string_equal(options.text, "text");
	assert_int_equal(options.num_connections, 7);
	assert_parsed(&requester, "-cm", "-lp", "70", "-sa", "::1", "-sat", "IPv6");
	assert_true(options.use_rdma_cm);
	assert_int_equal(options.listen_port, 70);
	assert_string_equal(options.server_address, "::1");
	assert_int_equal(options.server_address_type, RS_ADDRESS_IPV6);
	assert_parsed(&sender, "-s", "sent");
	assert_string_equal(options.text, "sent");
	assert_parsed(&writer, "-w", "written", "-i", "17");
	assert_string_equal(options.text, "written");
	assert_int_equal(options.immediate, 17);
}

static void test_long_forms_work(void **state)
{
	(void)state;
	assert_parsed(&requester, "--device", "rxe0", "--gid-index=0", "--local-descriptor-path",
		      "a", "--remote-descriptor-path=b", "--remote-resource-descriptor-path", "c",
		      "--transport-type", "dc");
	assert_string_equal(options.device, "rxe0");
	assert_int_equal(options.gid_index, 0);
	assert_string_equal(options.local_descriptor_path, "a");
	assert_string_equal(options.remote_descriptor_path, "b");
	assert_string_equal(options.resource_descriptor_path, "c");
	assert_int_equal(options.transport, RS_TRANSPORT_DC);
	assert_parsed(&requester, "--read-string", "", "--num-connections=1", "--use-rdma-cm",
		      "--listen-port", "65535", "--server-addr", "host", "--server-addr-type",
		      "gid");
	assert_string_equal(options.text, "");
	assert_int_equal(options.num_connections, 1);
	assert_true(options.use_rdma_cm);
	assert_int_equal(options.listen_port, 65535);
	assert_string_equal(options.server_address, "host");
	assert_int_equal(options.server_address_type, RS_ADDRESS_GID);
	assert_parsed(&requester, "--timeout", "30", "--log-level", "debug", "--json",
		      "--server-addr-type=IPV4");
	assert_int_equal(options.timeout, 30);
	assert_int_equal(options.log_level, RS_LOG_DEBUG);
	assert_true(options.json);
	assert_int_equal(options.server_address_type, RS_ADDRESS_IPV4);
	assert_parsed(&sender, "--send-string", "sent");
	assert_string_equal(options.text, "sent");
	assert_parsed(&writer, "--write-string=written", "--immediate=0x1f");
	assert_string_equal(options.text, "written");
	assert_int_equal(options.immediate, 0x1f);
}

static void test_a_client_by_address_has_one_connection(void **state)
{
	(void)state;
	assert_parsed(&requester, "-cm", "-sa", "host", "-nc", "7");
	assert_int_equal(options.num_connections, 1);
	assert_parsed(&requester, "-cm", "-nc", "7");
	assert_int_equal(options.num_connections, 7);
}

static void test_a_server_s_address_needs_connecting_by_address(void **state)
{
	(void)state;
	assert_usage_error(&requester,
			   "--server-addr: is for connecting by address: give "
			   "--use-rdma-cm, too",
			   "-sa", "host");
}

static void test_an_immediate_value_has_32_bits_and_two_forms(void **state)
{
	static const char *const refused[] = { "4294967296", "0x100000000", "-1", "+1",  "",
					       "0x",         "x1",          "1x", "0xg", " 1" };
	char expected[160];

	(void)state;
	assert_parsed(&writer, "-i", "0");
	assert_int_equal(options.immediate, 0);
	assert_parsed(&writer, "-i", "010");
	assert_int_equal(options.immediate, 10);
	assert_parsed(&writer, "-i", "4294967295");
	assert_int_equal(options.immediate, UINT32_MAX);
	assert_parsed(&writer, "-i", "0XFFFFFFFF");
	assert_int_equal(options.immediate, UINT32_MAX);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		log_forget();
		assert_false(parse(&writer, ARGUMENTS("-i", refused[i])));
		snprintf(expected, sizeof(expected),
			 "options: error: --immediate \"%s\": must be a number from 0 to "
			 "4294967295 (0xffffffff)\n",
			 refused[i]);
		assert_string_equal(log_text(), expected);
	}
}

static void test_a_value_may_look_like_an_option(void **state)
{
	(void)state;
	assert_parsed(&sender, "-s", "-d");
	assert_string_equal(options.text, "-d");
	assert_null(options.device);
	assert_parsed(&sender, "-s", "--help");
	assert_string_equal(options.text, "--help");
}

static void test_the_last_of_two_counts(void **state)
{
	(void)state;
	assert_parsed(&sender, "-s", "first", "-s", "second");
	assert_string_equal(options.text, "second");
}

static void test_numbers_out_of_range_name_the_range(void **state)
{
	(void)state;
	assert_usage_error(&sender, "--gid-index \"-1\": must be a number from 0 to 255", "-g",
			   "-1");
	assert_usage_error(&sender, "--gid-index \"256\": must be a number from 0 to 255", "-g",
			   "256");
	assert_parsed(&sender, "-g", "255");
	assert_usage_error(&requester, "--listen-port \"70000\": must be a number from 1 to 65535",
			   "-lp", "70000");
	assert_usage_error(&requester, "--listen-port \"0\": must be a number from 1 to 65535",
			   "-lp", "0");
	assert_usage_error(&requester, "--num-connections \"0\": must be a number from 1 to 65535",
			   "-nc", "0");
	assert_usage_error(&requester,
			   "--num-connections \"99999999999999999999\": must be a number from 1 to "
			   "65535",
			   "-nc", "99999999999999999999");
	assert_usage_error(&sender, "--timeout \"0\": must be a number from 1 to 1000000",
			   "--timeout", "0");
}

static void test_what_is_no_number_is_refused(void **state)
{
	(void)state;
	assert_usage_error(&sender, "--gid-index \"\": must be a number from 0 to 255", "-g", "");
	assert_usage_error(&sender, "--gid-index \"1x\": must be a number from 0 to 255", "-g",
			   "1x");
	assert_usage_error(&sender, "--gid-index \" 1\": must be a number from 0 to 255", "-g",
			   " 1");
	assert_usage_error(&sender, "--gid-index \"+1\": must be a number from 0 to 255", "-g",
			   "+1");
	assert_usage_error(&sender, "--gid-index \"0x1\": must be a number from 0 to 255", "-g",
			   "0x1");
}

static void test_words_that_are_none_of_the_allowed_ones_name_those(void **state)
{
	(void)state;
	assert_usage_error(&sender, "--transport-type \"UD\": must be RC or DC", "-tt", "UD");
	assert_usage_error(&requester, "--server-addr-type \"IPv5\": must be IPv4, IPv6 or GID",
			   "-sat", "IPv5");
	assert_usage_error(&sender, "--log-level \"loud\": must be error, warning, info or debug",
			   "--log-level", "loud");
	assert_usage_error(&sender, "--device: must not be empty", "-d", "");
	assert_usage_error(&requester, "--server-addr: must not be empty", "-sa", "");
}

static void test_a_text_has_at_most_255_bytes_whatever_its_characters(void **state)
{
	char text[OPTIONS_MAX_TEXT + 2];

	(void)state;
	/* 127 characters of two bytes, and one of one byte. */
	for (size_t i = 0; i < 254; i += 2)
		memcpy(text + i, "ü", 2);
	strcpy(text + 254, "x");
	assert_parsed(&sender, "-s", text);
	assert_string_equal(options.text, text);
	strcpy(text + 254, "ü");
	assert_usage_error(&sender,
			   "--send-string: the text has 256 bytes, but at most 255 are "
			   "allowed",
			   "-s", text);
}

static void test_unknown_options_are_named(void **state)
{
	(void)state;
	assert_usage_error(&sender,
			   "unknown or ambiguous option \"--speed\"; --help lists those there are",
			   "--speed");
	assert_usage_error(&sender,
			   "unknown or ambiguous option \"-x\"; --help lists those there are", "-d",
			   "a", "-x");
	assert_usage_error(&sender,
			   "unknown or ambiguous option \"-xy\"; --help lists those there are",
			   "-xy");
	assert_usage_error(&sender, "--json takes no value", "--json=1");
	assert_usage_error(&sender,
			   "unknown or ambiguous option \"--l\"; --help lists those there are",
			   "--l", "a");
}

static void test_options_of_other_programs_are_refused_by_name(void **state)
{
	(void)state;
	assert_usage_error(&sender,
			   "--read-string: x_send does not take this option; --help lists those it "
			   "takes",
			   "-r", "text");
	assert_usage_error(&sender,
			   "--use-rdma-cm: x_send does not take this option; --help lists those it "
			   "takes",
			   "-cm");
	assert_usage_error(&requester,
			   "--send-string: x_requester does not take this option; --help lists "
			   "those it takes",
			   "--send-string", "text");
}

static void test_a_missing_value_is_told_from_an_unknown_option(void **state)
{
	(void)state;
	assert_usage_error(&sender, "--device: a value is missing (NAME)", "-d");
	assert_usage_error(&sender, "--device: a value is missing (NAME)", "--device");
	assert_usage_error(&sender, "--local-descriptor-path: a value is missing (FILE)", "-ld");
	assert_usage_error(&sender, "--gid-index: a value is missing (N)", "--json", "-g");
}

static void test_arguments_that_are_no_options_are_refused(void **state)
{
	(void)state;
	assert_usage_error(&sender, "unexpected argument \"rxe0\"; --help lists the options",
			   "rxe0");
	assert_usage_error(&sender, "unexpected argument \"x\"; --help lists the options", "--json",
			   "--", "x");
	assert_usage_error(&sender, "unexpected argument \"x\"; --help lists the options", "x",
			   "--json");
}

static void test_the_same_path_twice_is_refused(void **state)
{
	(void)state;
	assert_usage_error(&requester,
			   "--local-descriptor-path and --remote-descriptor-path are the same "
			   "file, a: this side writes the one, the peer the other",
			   "-ld", "a", "-re", "a");
	assert_usage_error(&requester,
			   "--remote-resource-descriptor-path is the file of a connection "
			   "descriptor, a: it needs one of its own",
			   "-ld", "a", "-m", "a");
	assert_usage_error(&requester,
			   "--remote-resource-descriptor-path is the file of a connection "
			   "descriptor, /tmp/x_responder.conn: it needs one of its own",
			   "-m", "/tmp/x_responder.conn");
	assert_usage_error(
		&sender,
		"--local-descriptor-path and --remote-descriptor-path are the same "
		"file, /tmp/x_receive.conn: this side writes the one, the peer the other",
		"-ld", "/tmp/x_receive.conn");
}

static void test_an_empty_or_endless_path_is_refused(void **state)
{
	char longest[PATH_MAX + 1];

	(void)state;
	assert_usage_error(&sender, "--local-descriptor-path: must be a path of 1 to 4095 bytes",
			   "-ld", "");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_usage_error(&sender, "--remote-descriptor-path: must be a path of 1 to 4095 bytes",
			   "-re", longest);
	longest[PATH_MAX - 1] = '\0';
	assert_parsed(&sender, "-re", longest);
	assert_string_equal(options.remote_descriptor_path, longest);
}

static void test_a_long_value_does_not_overflow_the_message(void **state)
{
	char value[2000];

	(void)state;
	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	assert_false(parse(&sender, ARGUMENTS("-g", value)));
	assert_int_equal(exit_status, EXIT_STATUS_USAGE);
	assert_logged("options: error: --gid-index \"vvv");
}

/* Standard output while body runs; to be freed. */
static char *printed_by(const struct program *program, const char *argument)
{
	char *text = calloc(1, 16384);
	int saved = dup(STDOUT_FILENO);
	FILE *file = tmpfile();

	fflush(stdout);
	dup2(fileno(file), STDOUT_FILENO);
	assert_false(parse(program, ARGUMENTS(argument)));
	dup2(saved, STDOUT_FILENO);
	close(saved);
	rewind(file);
	assert_true(fread(text, 1, 16383, file) > 0);
	fclose(file);
	assert_int_equal(exit_status, EXIT_STATUS_OK);
	return text;
}

static void test_help_lists_what_the_program_takes_and_nothing_else(void **state)
{
	static const char *const forms[] = { "-h", "--help", "-help" };

	(void)state;
	for (int i = 0; i < 3; i++) {
		char *help = printed_by(&sender, forms[i]);

		assert_non_null(strstr(help, "Usage: x_send"));
		assert_non_null(strstr(help, "Sends x."));
		assert_non_null(strstr(help, "x_receive"));
		assert_non_null(strstr(help, "-ld, --local-descriptor-path FILE"));
		assert_non_null(strstr(help, "-s, --send-string TEXT"));
		assert_non_null(strstr(help, "--json\n"));
		assert_null(strstr(help, "--read-string"));
		assert_null(strstr(help, "--use-rdma-cm"));
		free(help);
	}
}

static void test_version_names_the_program_and_its_version(void **state)
{
	char *version = printed_by(&sender, "--version");

	(void)state;
	assert_true(strncmp(version, "x_send ", 7) == 0);
	assert_in_range(version[7], '0', '9');
	free(version);
}

static void test_the_log_level_counts_from_then_on(void **state)
{
	(void)state;
	assert_parsed(&sender, "--log-level", "error");
	log_forget();
	rs_log(RS_LOG_WARNING, "test", "unheard");
	assert_string_equal(log_text(), "");
}

#define options_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		options_test(test_without_options_all_have_their_defaults),
		options_test(test_default_paths_lie_in_the_runtime_folder),
		options_test(test_an_unusable_runtime_folder_is_not_used),
		options_test(test_short_forms_work),
		options_test(test_long_forms_work),
		options_test(test_a_client_by_address_has_one_connection),
		options_test(test_a_server_s_address_needs_connecting_by_address),
		options_test(test_an_immediate_value_has_32_bits_and_two_forms),
		options_test(test_a_value_may_look_like_an_option),
		options_test(test_the_last_of_two_counts),
		options_test(test_numbers_out_of_range_name_the_range),
		options_test(test_what_is_no_number_is_refused),
		options_test(test_words_that_are_none_of_the_allowed_ones_name_those),
		options_test(test_a_text_has_at_most_255_bytes_whatever_its_characters),
		options_test(test_unknown_options_are_named),
		options_test(test_options_of_other_programs_are_refused_by_name),
		options_test(test_a_missing_value_is_told_from_an_unknown_option),
		options_test(test_arguments_that_are_no_options_are_refused),
		options_test(test_the_same_path_twice_is_refused),
		options_test(test_an_empty_or_endless_path_is_refused),
		options_test(test_a_long_value_does_not_overflow_the_message),
		options_test(test_help_lists_what_the_program_takes_and_nothing_else),
		options_test(test_version_names_the_program_and_its_version),
		options_test(test_the_log_level_counts_from_then_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
