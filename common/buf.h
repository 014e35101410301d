/*
 * Buffers: handles on parts of memory maps, from an inventory of fixed size.
 *
 *   address            data          data + data length          address + length
 *      |                |■■■■■■■■■■■■■■■■■■■■■|                            |
 *      |<--------------- the buffer: length bytes ---------------------->|
 *                       |<-- what is sent --->|<-- where it is received ->|
 *
 * A source is read from its data; a destination is filled behind its data, which grows when the
 * task succeeds. Buffers can be chained: a task then gathers from, or scatters into, all of them in
 * order. Operations on a chain take its head; only a chain's head is freed. A buffer over a remote
 * map stands for the peer's memory. It cannot be part of a chain.
 */
#ifndef RS_BUF_H
#define RS_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mmap.h"
#include "status.h"

struct rs_buf_inventory;
struct rs_buf;

/* An inventory of count (at least 1) handles. The caller destroys it. */
enum rs_status rs_buf_inventory_create(size_t count, struct rs_buf_inventory **inventory);

/* Buffers can be taken from it from now on. RS_ERR_BAD_STATE: it is started. */
enum rs_status rs_buf_inventory_start(struct rs_buf_inventory *inventory);

/* RS_ERR_IN_USE while buffers are out; RS_ERR_BAD_STATE: it is not started. */
enum rs_status rs_buf_inventory_stop(struct rs_buf_inventory *inventory);

/* RS_ERR_IN_USE while buffers are out. NULL is allowed. */
enum rs_status rs_buf_inventory_destroy(struct rs_buf_inventory *inventory);

/* Handles that are left. */
size_t rs_buf_inventory_available(const struct rs_buf_inventory *inventory);

/*
 * Takes an empty buffer with room (a destination): no data, length bytes free.
 * address: in the map's range (the peer's address for a remote map). The caller owns one reference.
 * RS_ERR_BAD_STATE: the inventory or the map is not started; RS_ERR_INVALID_VALUE: not within the
 * map; RS_ERR_FULL: no handle left.
 */
enum rs_status rs_buf_get_by_address(struct rs_buf_inventory *inventory, struct rs_mmap *mmap,
				     uint64_t address, size_t length, struct rs_buf **buf);

/* The same, but full (a source): its data is the length bytes. */
enum rs_status rs_buf_get_by_data(struct rs_buf_inventory *inventory, struct rs_mmap *mmap,
				  uint64_t address, size_t length, struct rs_buf **buf);

/*
 * One more reference, or one less; the last one gives the buffer, and a chain behind it, back. NULL
 * is allowed.
 */
void rs_buf_ref(struct rs_buf *buf);
void rs_buf_unref(struct rs_buf *buf);

/*
 * Appends a chain (or single buffer) to another; tail's reference passes to the chain.
 * RS_ERR_INVALID_VALUE: the same chain, a remote buffer, or tail is itself part of a chain or has
 * other references.
 */
enum rs_status rs_buf_chain(struct rs_buf *head, struct rs_buf *tail);

/* The next buffer of the chain, or NULL. */
struct rs_buf *rs_buf_next(const struct rs_buf *buf);

/* Whether it stands for the peer's memory. */
bool rs_buf_is_remote(const struct rs_buf *buf);

/* One buffer, not the chain behind it. */
uint64_t rs_buf_address(const struct rs_buf *buf);
size_t rs_buf_length(const struct rs_buf *buf);
/* Its data in this process; NULL for a remote buffer. */
void *rs_buf_data(const struct rs_buf *buf);
size_t rs_buf_data_length(const struct rs_buf *buf);
/* Sets where its data lies. RS_ERR_INVALID_VALUE: not within the buffer. */
enum rs_status rs_buf_set_data(struct rs_buf *buf, uint64_t address, size_t length);
/* Empty again: all of it is room from its address on. */
void rs_buf_reset_data_length(struct rs_buf *buf);

/* The whole chain: bytes of data, and bytes of room behind the data. */
size_t rs_buf_chain_data_length(const struct rs_buf *head);
size_t rs_buf_chain_room(const struct rs_buf *head);

/* ---- For tasks ---- */

/* Scatter-gather entries, as a work request takes them. */
struct rs_sge_list {
	struct ibv_sge *sges; /* room of them, for the caller to provide */
	int room;
	int count;     /* in use */
	size_t length; /* sum of theirs */
};

/*
 * Adds the chain's data, or length bytes of its room, to an empty list, with the keys for device.
 * RS_ERR_TOO_BIG: more entries or more room are needed; RS_ERR_INVALID_VALUE: a buffer's map is not
 * registered with device, or the chain was given back.
 */
enum rs_status rs_buf_gather(struct rs_buf *head, const struct rs_device *device,
			     struct rs_sge_list *list);
enum rs_status rs_buf_scatter(struct rs_buf *head, size_t length, const struct rs_device *device,
			      struct rs_sge_list *list);

/* length bytes were placed in the chain's room: its data grows. */
void rs_buf_fill(struct rs_buf *head, size_t length);

/* The peer's memory that a remote buffer stands for. RS_ERR_INVALID_VALUE: buf is local or NULL. */
enum rs_status rs_buf_remote_data(const struct rs_buf *buf, uint64_t *address, size_t *length,
				  uint32_t *rkey);
enum rs_status rs_buf_remote_room(const struct rs_buf *buf, uint64_t *address, size_t *length,
				  uint32_t *rkey);

#endif
