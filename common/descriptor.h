/*
 * Descriptor: what one peer must know of the other's objects, as one line of text that a person can
 * read, copy between terminals, and that is checked when it arrives:
 *
 *   rdma1 conn name=rdma_send id=0 transport=rc link=ethernet gid=::ffff:192.0.2.1 gid-type=rocev2
 *         lid=0 qpn=0x000011 psn=0x5a3c01 mtu=4096 reads=16 time=1795954592 crc=7f3a0c11
 *   rdma1 mmap addr=0x7f0a12340000 len=4096 rkey=0x00001234 access=remote-read time=… crc=…
 *   rdma1 event addr=0x7f0a12340000 rkey=0x00001234 time=1795954592 crc=…
 *
 * (Each is one line.) The keys stand in this order, separated by one space. crc is the CRC-32 of
 * all before " crc=".
 */
#ifndef RS_DESCRIPTOR_H
#define RS_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "status.h"

enum rs_descriptor_kind {
	RS_DESCRIPTOR_CONNECTION, /* "conn" */
	RS_DESCRIPTOR_MMAP,       /* "mmap" */
	RS_DESCRIPTOR_EVENT,      /* "event" */
	RS_DESCRIPTOR_KIND_COUNT
};

/* Room for any line that rs_descriptor_format writes, with its terminator. */
#define RS_DESCRIPTOR_LINE_SIZE 320

/*
 * Room for a name with its terminator. A name is 1 to 47 of a-z, 0-9, "_" and "-"; that of a
 * program that gave none is "-".
 */
#define RS_DESCRIPTOR_NAME_SIZE 48
#define RS_DESCRIPTOR_NO_NAME   "-"

/* Connections are numbered from 0 to this, at most. */
#define RS_DESCRIPTOR_MAX_ID 65535

/* Room for any message of rs_descriptor_parse. */
#define RS_DESCRIPTOR_MESSAGE_SIZE 320

struct rs_descriptor {
	enum rs_descriptor_kind kind;
	uint64_t time; /* when it was made, seconds since 1970 */
	union {
		struct {
			char name[RS_DESCRIPTOR_NAME_SIZE]; /* of the program that made it */
			uint64_t id;         /* its number among its owner's: rs_connection_id */
			uint64_t transport;  /* enum ibv_qp_type: IBV_QPT_RC */
			uint64_t link_layer; /* IBV_LINK_LAYER_ETHERNET or _INFINIBAND */
			union ibv_gid gid;
			uint64_t gid_type; /* enum ibv_gid_type */
			uint64_t lid;      /* 16 bits; 0 on Ethernet */
			uint64_t qpn;      /* 24 bits */
			uint64_t psn;      /* 24 bits: the first one that its owner sends */
			uint64_t mtu;      /* bytes: 256 … 4096 */
			uint64_t reads;    /* reads and atomics that its owner serves at a time */
		} connection;
		struct {
			uint64_t addr;
			uint64_t len;    /* bytes; addr + len does not wrap around */
			uint64_t rkey;   /* 32 bits */
			uint64_t access; /* set of enum rs_access */
		} mmap;
		struct {
			uint64_t addr; /* of 8 bytes, aligned to 8 */
			uint64_t rkey; /* 32 bits */
		} event;
	};
};

/* Whether a descriptor can carry this name. */
bool rs_descriptor_is_name(const char *name);

/* "conn", "mmap", "event". Never NULL. */
const char *rs_descriptor_kind_name(enum rs_descriptor_kind kind);

/* Writes the line, terminated and without a newline. The values must be in range (asserted). */
void rs_descriptor_format(const struct rs_descriptor *descriptor,
			  char line[RS_DESCRIPTOR_LINE_SIZE]);

/*
 * Reads a line: blanks around it, a trailing CR and newline are allowed, nothing else differs from
 * the form above. Returns RS_OK, or RS_ERR_BAD_DESCRIPTOR with the reason and the place in message
 * ("at character 31: …"). descriptor is written only on success.
 */
enum rs_status rs_descriptor_parse(const char *line, struct rs_descriptor *descriptor,
				   char message[RS_DESCRIPTOR_MESSAGE_SIZE]);

/* Reads a line that must be of this kind; the reason of a failure is logged. */
enum rs_status rs_descriptor_read(const char *line, enum rs_descriptor_kind kind,
				  struct rs_descriptor *descriptor);

/* Seconds since 1970, as descriptors carry them. */
uint64_t rs_descriptor_now(void);

#endif
