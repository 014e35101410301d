#define LOG_MODULE "options"

#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "version.h"

#define DEFAULT_TEXT            "Hi RDMA!"
#define DEFAULT_IMMEDIATE       0xD0CA
#define DEFAULT_NUM_CONNECTIONS 2
#define DEFAULT_LISTEN_PORT     13579

#define MAX_CONNECTIONS 65535
#define MAX_GID_INDEX   255
#define MAX_TIMEOUT     1000000

/* What the parsing of one option's value has to go by. */
struct argument {
	const char *option; /* "--gid-index" */
	const char *value;
	struct options *options;
};

/* Of programs that are made of librdmacm's synchronous calls. */
#define SYNC (OPTION_SYNC_SERVER | OPTION_SYNC_CLIENT)

/* Of all others, which are made of the object model. */
#define OPTION_MODEL (1U << 31)

struct option_entry {
	const char *short_name; /* without its dash */
	const char *long_name;
	const char *value_name; /* NULL: it takes no value */
	unsigned groups;        /* those that have it; 0: every program takes it */
	bool (*parse)(const struct argument *argument);
	const char *help;
};

static bool refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool refuse(const char *format, ...)
{
	char message[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	LOG_ERROR("%s", message);
	return false;
}

static bool parse_number(const struct argument *argument, unsigned long min, unsigned long max,
			 unsigned long *number)
{
	char *end;

	errno = 0;
	*number = strtoul(argument->value, &end, 10);
	if (argument->value[0] < '0' || argument->value[0] > '9' || *end != '\0' || errno ||
	    *number < min || *number > max)
		return refuse("%s \"%s\": must be a number from %lu to %lu", argument->option,
			      argument->value, min, max);
	return true;
}

static bool parse_device(const struct argument *argument)
{
	if (argument->value[0] == '\0')
		return refuse("%s: must not be empty", argument->option);
	argument->options->device = argument->value;
	return true;
}

static bool parse_gid_index(const struct argument *argument)
{
	unsigned long number;

	if (!parse_number(argument, 0, MAX_GID_INDEX, &number))
		return false;
	argument->options->gid_index = (int)number;
	return true;
}

static bool parse_path(const struct argument *argument, char path[PATH_MAX],
		       enum options_path which)
{
	size_t length = strlen(argument->value);

	if (length == 0 || length >= PATH_MAX)
		return refuse("%s: must be a path of 1 to %d bytes", argument->option,
			      PATH_MAX - 1);
	memcpy(path, argument->value, length + 1);
	argument->options->default_paths[which] = false;
	return true;
}

static bool parse_local_path(const struct argument *argument)
{
	return parse_path(argument, argument->options->local_descriptor_path, OPTIONS_PATH_LOCAL);
}

static bool parse_remote_path(const struct argument *argument)
{
	return parse_path(argument, argument->options->remote_descriptor_path, OPTIONS_PATH_REMOTE);
}

static bool parse_resource_path(const struct argument *argument)
{
	return parse_path(argument, argument->options->resource_descriptor_path,
			  OPTIONS_PATH_RESOURCE);
}

static bool parse_transport(const struct argument *argument)
{
	if (strcasecmp(argument->value, "rc") == 0)
		argument->options->transport = RS_TRANSPORT_RC;
	else if (strcasecmp(argument->value, "dc") == 0)
		argument->options->transport = RS_TRANSPORT_DC;
	else
		return refuse("%s \"%s\": must be RC or DC", argument->option, argument->value);
	return true;
}

static bool parse_text(const struct argument *argument)
{
	size_t length = strlen(argument->value);

	if (length > OPTIONS_MAX_TEXT)
		return refuse("%s: the text has %zu bytes, but at most %d are allowed",
			      argument->option, length, OPTIONS_MAX_TEXT);
	argument->options->text = argument->value;
	return true;
}

/* As people write them: decimal, or hexadecimal with 0x. */
static bool parse_immediate(const struct argument *argument)
{
	const char *value = argument->value;
	int base = strncasecmp(value, "0x", 2) == 0 ? 16 : 10;
	unsigned long long number;
	char *end;

	errno = 0;
	number = strtoull(value, &end, base);
	if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno || number > UINT32_MAX)
		return refuse("%s \"%s\": must be a number from 0 to %u (0x%x)", argument->option,
			      value, UINT32_MAX, UINT32_MAX);
	argument->options->immediate = (uint32_t)number;
	return true;
}

static bool parse_num_connections(const struct argument *argument)
{
	unsigned long number;

	if (!parse_number(argument, 1, MAX_CONNECTIONS, &number))
		return false;
	argument->options->num_connections = (unsigned)number;
	return true;
}

static bool parse_use_rdma_cm(const struct argument *argument)
{
	argument->options->use_rdma_cm = true;
	return true;
}

static bool parse_listen_port(const struct argument *argument)
{
	unsigned long number;

	if (!parse_number(argument, 1, UINT16_MAX, &number))
		return false;
	argument->options->listen_port = (uint16_t)number;
	return true;
}

static bool parse_server_address(const struct argument *argument)
{
	if (argument->value[0] == '\0')
		return refuse("%s: must not be empty", argument->option);
	argument->options->server_address = argument->value;
	return true;
}

static bool parse_server_address_type(const struct argument *argument)
{
	if (strcasecmp(argument->value, "ipv4") == 0)
		argument->options->server_address_type = RS_ADDRESS_IPV4;
	else if (strcasecmp(argument->value, "ipv6") == 0)
		argument->options->server_address_type = RS_ADDRESS_IPV6;
	else if (strcasecmp(argument->value, "gid") == 0)
		argument->options->server_address_type = RS_ADDRESS_GID;
	else
		return refuse("%s \"%s\": must be IPv4, IPv6 or GID", argument->option,
			      argument->value);
	return true;
}

static bool parse_timeout(const struct argument *argument)
{
	unsigned long number;

	if (!parse_number(argument, 1, MAX_TIMEOUT, &number))
		return false;
	argument->options->timeout = (unsigned)number;
	return true;
}

static bool parse_log_level(const struct argument *argument)
{
	if (!rs_log_level_from_name(argument->value, &argument->options->log_level))
		return refuse("%s \"%s\": must be error, warning, info or debug", argument->option,
			      argument->value);
	return true;
}

static bool parse_json(const struct argument *argument)
{
	argument->options->json = true;
	return true;
}

/* --help and --version have no parser: they end the program. */
static const struct option_entry entries[] = {
	{ "d", "device", "NAME", OPTION_MODEL, parse_device,
	  "RDMA device (default: the best one that is active)" },
	{ "g", "gid-index", "N", OPTION_MODEL, parse_gid_index,
	  "entry of the port's GID table (default: RoCE v2 over IPv4, if there is one)" },
	{ "ld", "local-descriptor-path", "FILE", OPTION_EXCHANGE, parse_local_path,
	  "where to write this side's connection descriptor" },
	{ "re", "remote-descriptor-path", "FILE", OPTION_EXCHANGE, parse_remote_path,
	  "where to read the peer's connection descriptor" },
	{ "m", "remote-resource-descriptor-path", "FILE", OPTION_RESOURCE, parse_resource_path,
	  "descriptor of the responder's memory or event: it writes it, the requester reads it" },
	{ "tt", "transport-type", "RC", OPTION_MODEL, parse_transport, "transport (default: RC)" },
	{ "s", "send-string", "TEXT", OPTION_SEND_STRING, parse_text,
	  "text to send, up to 255 bytes (default: " DEFAULT_TEXT ")" },
	{ "w", "write-string", "TEXT", OPTION_WRITE_STRING, parse_text,
	  "text to write, up to 255 bytes (default: " DEFAULT_TEXT ")" },
	{ "r", "read-string", "TEXT", OPTION_READ_STRING, parse_text,
	  "text to serve, up to 255 bytes (default: " DEFAULT_TEXT ")" },
	{ "i", "immediate", "N", OPTION_IMMEDIATE, parse_immediate,
	  "32-bit value that goes with the data, decimal or 0x… (default: 0xD0CA)" },
	{ "nc", "num-connections", "N", OPTION_CONNECTIONS, parse_num_connections,
	  "number of connections (default: 2)" },
	{ "cm", "use-rdma-cm", NULL, OPTION_CM, parse_use_rdma_cm,
	  "connect by address, through the RDMA connection manager" },
	{ "lp", "listen-port", "PORT", OPTION_CM | SYNC, parse_listen_port,
	  "connection manager's port (default: 13579)" },
	{ "sa", "server-addr", "ADDR", OPTION_CM | OPTION_SYNC_CLIENT, parse_server_address,
	  "server to connect to; without it a program that can be either is the server" },
	{ "sat", "server-addr-type", "TYPE", OPTION_CM | OPTION_SYNC_CLIENT,
	  parse_server_address_type, "IPv4, IPv6 or GID (default: guessed from the address)" },
	{ NULL, "timeout", "SECONDS", OPTION_MODEL, parse_timeout,
	  "longest wait for the peer (default: none)" },
	{ NULL, "log-level", "LEVEL", 0, parse_log_level,
	  "error, warning, info or debug (default: info)" },
	{ NULL, "json", NULL, OPTION_MODEL, parse_json,
	  "print the result as one JSON object on standard output" },
	{ "h", "help", NULL, 0, NULL, "print this" },
	{ NULL, "version", NULL, 0, NULL, "print the version" },
};

#define ENTRY_COUNT (sizeof(entries) / sizeof(entries[0]))

static bool takes(const struct program *program, const struct option_entry *entry)
{
	unsigned groups = program->groups & SYNC ? program->groups : program->groups | OPTION_MODEL;

	return entry->groups == 0 || (groups & entry->groups);
}

static void print_help(const struct program *program)
{
	printf("Usage: %s [OPTION]...\n%s\nThe peer is %s.\n\nOptions:\n", program->name,
	       program->summary, program->peer);
	for (size_t i = 0; i < ENTRY_COUNT; i++) {
		char names[64];

		if (!takes(program, &entries[i]))
			continue;
		snprintf(names, sizeof(names), "%s%s%s--%s%s%s", entries[i].short_name ? "-" : "",
			 entries[i].short_name ? entries[i].short_name : "",
			 entries[i].short_name ? ", " : "", entries[i].long_name,
			 entries[i].value_name ? " " : "",
			 entries[i].value_name ? entries[i].value_name : "");
		printf("  %s\n        %s\n", names, entries[i].help);
	}
	printf("\nExit status: 0 success, 1 failure, 2 wrong usage, 128 + N ended by signal N.\n");
}

/* One letter is a short option of getopt's; longer "short" names are long ones to it. */
static void build_getopt_tables(struct option *long_options, char *letters)
{
	*letters++ = '+'; /* arguments that are no options end the options */
	*letters++ = ':'; /* a missing value is told from an unknown option */
	for (size_t i = 0; i < ENTRY_COUNT; i++) {
		int has_value = entries[i].value_name ? required_argument : no_argument;

		*long_options++ =
			(struct option){ entries[i].long_name, has_value, NULL, (int)i + 1 };
		if (entries[i].short_name && entries[i].short_name[1] == '\0') {
			*letters++ = entries[i].short_name[0];
			if (has_value)
				*letters++ = ':';
		} else if (entries[i].short_name) {
			*long_options++ = (struct option){ entries[i].short_name, has_value, NULL,
							   (int)i + 1 };
		}
	}
	*letters = '\0';
	*long_options = (struct option){ NULL, 0, NULL, 0 };
}

/* getopt gives an entry's number, from 1, for long names, and a letter for short ones. */
static const struct option_entry *find_entry(int found)
{
	if (found >= 1 && (size_t)found <= ENTRY_COUNT)
		return &entries[found - 1];
	for (size_t i = 0; i < ENTRY_COUNT; i++)
		if (entries[i].short_name && entries[i].short_name[0] == found &&
		    entries[i].short_name[1] == '\0')
			return &entries[i];
	return NULL;
}

static void set_default_path(struct options *options, enum options_path which, char path[PATH_MAX],
			     const char *owner, const char *suffix)
{
	const char *folder = getenv("XDG_RUNTIME_DIR");
	int length;

	if (!options->default_paths[which] || !owner)
		return;
	if (!folder || folder[0] != '/')
		folder = "/tmp";
	length = snprintf(path, PATH_MAX, "%s/%s.%s", folder, owner, suffix);
	/* A runtime folder with so long a name is unusable anyway. */
	if (length >= PATH_MAX)
		snprintf(path, PATH_MAX, "/tmp/%s.%s", owner, suffix);
}

static void set_default_paths(struct options *options)
{
	const struct program *program = options->program;

	set_default_path(options, OPTIONS_PATH_LOCAL, options->local_descriptor_path, program->name,
			 "conn");
	set_default_path(options, OPTIONS_PATH_REMOTE, options->remote_descriptor_path,
			 program->peer, "conn");
	set_default_path(options, OPTIONS_PATH_RESOURCE, options->resource_descriptor_path,
			 program->resource_owner, "resource");
}

static bool check_paths_differ(const struct options *options)
{
	const char *local = options->local_descriptor_path;
	const char *remote = options->remote_descriptor_path;
	const char *resource = options->resource_descriptor_path;

	if (strcmp(local, remote) == 0)
		return refuse(
			"--local-descriptor-path and --remote-descriptor-path are the same file, %s: this side writes the one, the peer the other",
			local);
	if (resource[0] && (strcmp(resource, local) == 0 || strcmp(resource, remote) == 0))
		return refuse(
			"--remote-resource-descriptor-path is the file of a connection descriptor, %s: it needs one of its own",
			resource);
	return true;
}

static bool check_server_address(const struct options *options)
{
	unsigned groups = options->program->groups;

	if ((groups & OPTION_SYNC_CLIENT) && !options->server_address)
		return refuse("--server-addr is missing: where is %s?", options->program->peer);
	if (options->server_address && !options->use_rdma_cm && (groups & OPTION_CM))
		return refuse(
			"--server-addr: is for connecting by address: give --use-rdma-cm, too");
	return true;
}

/* What getopt found wrong. */
static bool refuse_option(int found, char **argv, int index)
{
	const struct option_entry *entry = find_entry(optopt);

	if (found == ':' && entry)
		return refuse("--%s: a value is missing (%s)", entry->long_name, entry->value_name);
	if (entry && optopt <= (int)ENTRY_COUNT)
		return refuse("--%s takes no value", entry->long_name);
	return refuse("unknown or ambiguous option \"%s\"; --help lists those there are",
		      argv[index]);
}

static bool parse_option(const struct program *program, const struct option_entry *entry,
			 struct options *options)
{
	char name[64];
	struct argument argument = { .option = name, .value = optarg, .options = options };

	snprintf(name, sizeof(name), "--%s", entry->long_name);
	/* The value first: what is wrong in any program is the clearer message. */
	if (!entry->parse(&argument))
		return false;
	if (!takes(program, entry))
		return refuse("%s: %s does not take this option; --help lists those it takes", name,
			      program->name);
	return true;
}

static bool parse_arguments(int argc, char **argv, struct options *options, bool *done)
{
	struct option long_options[2 * ENTRY_COUNT + 1];
	char letters[2 * ENTRY_COUNT + 3];
	int found, index = 1;

	build_getopt_tables(long_options, letters);
	optind = 0; /* starts afresh, also for a second parse in one process */
	opterr = 0;
	while ((found = getopt_long_only(argc, argv, letters, long_options, NULL)) != -1) {
		const struct option_entry *entry = find_entry(found);

		if (found == '?' || found == ':')
			return refuse_option(found, argv, index);
		if (!entry->parse) {
			*done = true;
			if (strcmp(entry->long_name, "help") == 0)
				print_help(options->program);
			else
				printf("%s %s\n", options->program->name, RS_VERSION);
			return true;
		}
		if (!parse_option(options->program, entry, options))
			return false;
		index = optind;
	}
	if (optind < argc)
		return refuse("unexpected argument \"%s\"; --help lists the options", argv[optind]);
	return true;
}

bool options_parse(const struct program *program, int argc, char **argv, struct options *options,
		   int *exit_status)
{
	bool done = false;

	*options = (struct options){
		.program = program,
		.gid_index = -1,
		.default_paths = { true, true, true },
		.transport = RS_TRANSPORT_RC,
		.text = DEFAULT_TEXT,
		.immediate = DEFAULT_IMMEDIATE,
		.num_connections =
			program->groups & OPTION_CONNECTIONS ? DEFAULT_NUM_CONNECTIONS : 1,
		.listen_port = DEFAULT_LISTEN_PORT,
		.log_level = RS_LOG_INFO,
	};
	if (!parse_arguments(argc, argv, options, &done)) {
		*exit_status = EXIT_STATUS_USAGE;
		return false;
	}
	if (done) {
		*exit_status = fflush(stdout) == 0 ? EXIT_STATUS_OK : EXIT_STATUS_FAILURE;
		return false;
	}
	set_default_paths(options);
	/* A client has one connection, whatever the number of its server's. */
	if (options->server_address)
		options->num_connections = 1;
	if (!check_paths_differ(options) || !check_server_address(options)) {
		*exit_status = EXIT_STATUS_USAGE;
		return false;
	}
	rs_log_set_level(options->log_level);
	return true;
}
