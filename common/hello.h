/*
 * Hello: what two programs tell each other in the private data of a connection that is made by
 * address: who they are, and where the memory or event is that the other one works on. It is in
 * place of the descriptors, and holds as much as fits into a request:
 *
 *   | "rsh1" | kind | access | 0 | key | length | address | name, 32 bytes |
 *   0        4      5        6   8     12       16        24               56
 *
 * Numbers are in network order. kind: 0: no resource, 1: memory map, 2: sync event (without length
 * and access). access: set of enum rs_access. name: terminated, zeros behind it. What a kind is
 * without is zero.
 */
#ifndef RS_HELLO_H
#define RS_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "descriptor.h"
#include "status.h"

#define RS_HELLO_SIZE      56
#define RS_HELLO_NAME_SIZE 32

struct rs_hello {
	char name[RS_HELLO_NAME_SIZE]; /* see rs_descriptor_is_name */
	/* Line of a map or event (see descriptor.h); "": there is none. */
	char resource[RS_DESCRIPTOR_LINE_SIZE];
};

/*
 * resource: line of a map or event of this program, or NULL. RS_ERR_TOO_BIG: the name, or the map's
 * length, does not fit; RS_ERR_BAD_DESCRIPTOR: the resource is no such line.
 */
enum rs_status rs_hello_encode(const char *name, const char *resource, uint8_t data[RS_HELLO_SIZE]);

/* length: that of data, which may have more behind it. RS_ERR_BAD_DESCRIPTOR: it is no hello. */
enum rs_status rs_hello_decode(const void *data, size_t length, struct rs_hello *hello);

#endif
