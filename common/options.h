/*
 * Options: the command line, the same for every program of the suite.
 *
 * There is one table of options; a program names those that it takes. A long name may be written
 * with one dash, so that
 * "-ld" is a name of two letters (getopt_long_only).
 */
#ifndef RS_OPTIONS_H
#define RS_OPTIONS_H

#include <limits.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "address.h"
#include "descriptor.h"
#include "log.h"
#include "rdma.h"

/* The longest text that a sample takes, in bytes without the terminator. */
#define OPTIONS_MAX_TEXT 255

/*
 * Options beyond --log-level, --help and --version; a program's set of them is the bitwise or.
 * Those of the object model (-d, -g, -tt, --timeout, --json) every program takes but the
 * synchronous ones, which name one of the last two.
 */
enum option_group {
	OPTION_EXCHANGE = 1 << 0,     /* -ld, -re: connection descriptors */
	OPTION_RESOURCE = 1 << 1,     /* -m: the responder's memory map or sync event */
	OPTION_SEND_STRING = 1 << 2,  /* -s */
	OPTION_WRITE_STRING = 1 << 3, /* -w */
	OPTION_READ_STRING = 1 << 4,  /* -r */
	OPTION_CONNECTIONS = 1 << 5,  /* -nc */
	OPTION_IMMEDIATE = 1 << 6,    /* -i */
	OPTION_CM = 1 << 7,           /* -cm, -lp, -sa, -sat */
	OPTION_SYNC_SERVER = 1 << 8,  /* -lp */
	OPTION_SYNC_CLIENT = 1 << 9,  /* -lp, -sa (which must be there), -sat */
};

/* What a program says of itself. */
struct program {
	const char *name; /* of the executable */
	const char *peer; /* the executable that it works with */
	/* One of another pair that it can be connected with, to see what comes of it, or NULL. */
	const char *stranger;
	/* The one of the two that writes the resource descriptor, or NULL; and of which kind. */
	const char *resource_owner;
	enum rs_descriptor_kind resource;
	const char *summary; /* for --help, one or two lines */
	unsigned groups;     /* set of enum option_group */
};

enum options_path { OPTIONS_PATH_LOCAL, OPTIONS_PATH_REMOTE, OPTIONS_PATH_RESOURCE };

struct options {
	const struct program *program;
	const char *device; /* NULL: the best one */
	int gid_index;      /* -1: the best one */
	char local_descriptor_path[PATH_MAX];
	char remote_descriptor_path[PATH_MAX];
	char resource_descriptor_path[PATH_MAX];
	bool default_paths[3]; /* by enum options_path: it was not given */
	enum rs_transport transport;
	const char *text;
	uint32_t immediate;
	unsigned num_connections; /* 1 for programs without the option */
	bool use_rdma_cm;
	uint16_t listen_port;
	const char *server_address; /* NULL: this side is the server */
	enum rs_address_type server_address_type;
	unsigned timeout; /* seconds; 0: none */
	enum rs_log_level log_level;
	bool json;
};

/* Exit statuses of the programs; one that a signal ended has 128 + its number. */
enum { EXIT_STATUS_OK = 0, EXIT_STATUS_FAILURE = 1, EXIT_STATUS_USAGE = 2 };

/*
 * Reads the command line. Returns true: go on with options, whose texts belong to argv. False: end
 * with *exit_status
 * (--help and --version were answered on standard output, or a message on standard error names the
 * bad option and what is allowed). Sets the log level.
 */
bool options_parse(const struct program *program, int argc, char **argv, struct options *options,
		   int *exit_status);

#endif
