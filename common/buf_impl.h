/*
 * What task.c knows of buffers, so that the usual task, one buffer on one device, costs no call.
 */
#ifndef RS_BUF_IMPL_H
#define RS_BUF_IMPL_H

#include "buf.h"

struct rs_buf {
	struct rs_buf_inventory *inventory;
	struct rs_mmap *mmap;
	struct rs_buf *next; /* in the chain; in the free list for a handle that is not out */
	const struct rs_device *device; /* the last that asked for the key */
	uint32_t key;                   /* for it; of a remote map: the peer's */
	uint64_t address;
	size_t length;
	uint64_t data;
	size_t data_length;
	unsigned references;
	bool remote;
	bool chained; /* behind a head */
};

/* The last reference is gone: gives the buffer, and a chain behind it, back. */
void rs_buf_give_back(struct rs_buf *head);

static inline void buf_ref(struct rs_buf *buf)
{
	if (buf)
		buf->references++;
}

static inline void buf_unref(struct rs_buf *buf)
{
	if (buf && --buf->references == 0)
		rs_buf_give_back(buf);
}

static inline size_t buf_room(const struct rs_buf *buf)
{
	return buf->length - (buf->data - buf->address) - buf->data_length;
}

static inline size_t buf_chain_room(const struct rs_buf *head)
{
	return head && !head->next ? buf_room(head) : rs_buf_chain_room(head);
}

/* Whether length bytes of it are one entry, whose key is known. */
static inline bool buf_is_simple(const struct rs_buf *buf, size_t length,
				 const struct rs_device *device)
{
	return !buf->next && buf->device == device && buf->references > 0 && length > 0 &&
	       length <= UINT32_MAX;
}

static inline void buf_list_one(const struct rs_buf *buf, uint64_t address, size_t length,
				struct rs_sge_list *list)
{
	list->sges[0] = (struct ibv_sge){ address, (uint32_t)length, buf->key };
	list->count = 1;
	list->length = length;
}

static inline enum rs_status buf_gather(struct rs_buf *head, const struct rs_device *device,
					struct rs_sge_list *list)
{
	if (!head || !buf_is_simple(head, head->data_length, device))
		return rs_buf_gather(head, device, list);
	buf_list_one(head, head->data, head->data_length, list);
	return RS_OK;
}

static inline enum rs_status buf_scatter(struct rs_buf *head, size_t length,
					 const struct rs_device *device, struct rs_sge_list *list)
{
	if (!head || !buf_is_simple(head, length, device) || length > buf_room(head))
		return rs_buf_scatter(head, length, device, list);
	buf_list_one(head, head->data + head->data_length, length, list);
	return RS_OK;
}

static inline void buf_fill(struct rs_buf *head, size_t length)
{
	if (head && length <= buf_room(head))
		head->data_length += length;
	else
		rs_buf_fill(head, length);
}

#endif
