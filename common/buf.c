#include "buf_impl.h"

#include <stdlib.h>

#include "slow_path.h"

struct rs_buf_inventory {
	struct rs_buf *free;
	size_t count;
	size_t available;
	bool started;
	struct rs_buf bufs[];
};

enum rs_status rs_buf_inventory_create(size_t count, struct rs_buf_inventory **inventory)
{
	struct rs_buf_inventory *created;
	size_t size;

	if (count == 0 || __builtin_mul_overflow(count, sizeof(created->bufs[0]), &size) ||
	    __builtin_add_overflow(size, sizeof(*created), &size))
		return RS_ERR_INVALID_VALUE;
	created = calloc(1, size);
	if (!created)
		return RS_ERR_NO_MEMORY;
	created->count = count;
	created->available = count;
	while (count-- > 0) {
		created->bufs[count].inventory = created;
		created->bufs[count].next = created->free;
		created->free = &created->bufs[count];
	}
	*inventory = created;
	return RS_OK;
}

enum rs_status rs_buf_inventory_start(struct rs_buf_inventory *inventory)
{
	if (inventory->started)
		return RS_ERR_BAD_STATE;
	inventory->started = true;
	return RS_OK;
}

static bool has_bufs_out(const struct rs_buf_inventory *inventory)
{
	return inventory->available < inventory->count;
}

enum rs_status rs_buf_inventory_stop(struct rs_buf_inventory *inventory)
{
	if (!inventory->started)
		return RS_ERR_BAD_STATE;
	if (has_bufs_out(inventory))
		return RS_ERR_IN_USE;
	inventory->started = false;
	return RS_OK;
}

enum rs_status rs_buf_inventory_destroy(struct rs_buf_inventory *inventory)
{
	if (inventory && has_bufs_out(inventory))
		return RS_ERR_IN_USE;
	free(inventory);
	return RS_OK;
}

size_t rs_buf_inventory_available(const struct rs_buf_inventory *inventory)
{
	return inventory->available;
}

static bool is_within(uint64_t address, size_t length, uint64_t outer, size_t outer_length)
{
	return address >= outer && address - outer <= outer_length &&
	       length <= outer_length - (address - outer);
}

enum rs_status rs_buf_get_by_address(struct rs_buf_inventory *inventory, struct rs_mmap *mmap,
				     uint64_t address, size_t length, struct rs_buf **buf)
{
	uint64_t map_address;
	size_t map_length;
	uint32_t rkey;
	struct rs_buf *taken = inventory->free;
	enum rs_status status;

	if (!inventory->started)
		return RS_ERR_BAD_STATE;
	if (!taken)
		return RS_ERR_FULL;
	status = rs_mmap_get_memrange(mmap, &map_address, &map_length);
	if (status != RS_OK)
		return status;
	if (!is_within(address, length, map_address, map_length))
		return RS_ERR_INVALID_VALUE;
	status = rs_mmap_hold(mmap);
	if (status != RS_OK)
		return status;

	inventory->free = taken->next;
	inventory->available--;
	*taken = (struct rs_buf){ .inventory = inventory,
				  .mmap = mmap,
				  .address = address,
				  .length = length,
				  .data = address,
				  .references = 1,
				  .remote = rs_mmap_remote_key(mmap, &rkey) == RS_OK };
	if (taken->remote)
		taken->key = rkey;
	*buf = taken;
	return RS_OK;
}

enum rs_status rs_buf_get_by_data(struct rs_buf_inventory *inventory, struct rs_mmap *mmap,
				  uint64_t address, size_t length, struct rs_buf **buf)
{
	enum rs_status status = rs_buf_get_by_address(inventory, mmap, address, length, buf);

	if (status == RS_OK)
		(*buf)->data_length = length;
	return status;
}

void rs_buf_ref(struct rs_buf *buf)
{
	buf_ref(buf);
}

static void give_back(struct rs_buf *buf)
{
	struct rs_buf_inventory *inventory = buf->inventory;

	rs_mmap_release(buf->mmap);
	buf->mmap = NULL;
	buf->next = inventory->free;
	inventory->free = buf;
	inventory->available++;
}

void rs_buf_give_back(struct rs_buf *head)
{
	while (head) {
		struct rs_buf *next = head->next;

		give_back(head);
		head = next;
	}
}

void rs_buf_unref(struct rs_buf *buf)
{
	buf_unref(buf);
}

enum rs_status rs_buf_chain(struct rs_buf *head, struct rs_buf *tail)
{
	struct rs_buf *last = head;

	if (head == tail || head->remote || tail->remote || head->chained || tail->chained ||
	    tail->references != 1)
		return RS_ERR_INVALID_VALUE;
	while (last->next)
		last = last->next;
	last->next = tail;
	tail->chained = true;
	return RS_OK;
}

struct rs_buf *rs_buf_next(const struct rs_buf *buf)
{
	return buf->next;
}

bool rs_buf_is_remote(const struct rs_buf *buf)
{
	return buf->remote;
}

uint64_t rs_buf_address(const struct rs_buf *buf)
{
	return buf->address;
}

size_t rs_buf_length(const struct rs_buf *buf)
{
	return buf->length;
}

void *rs_buf_data(const struct rs_buf *buf)
{
	return buf->remote ? NULL : (void *)(uintptr_t)buf->data;
}

size_t rs_buf_data_length(const struct rs_buf *buf)
{
	return buf->data_length;
}

enum rs_status rs_buf_set_data(struct rs_buf *buf, uint64_t address, size_t length)
{
	if (!is_within(address, length, buf->address, buf->length))
		return RS_ERR_INVALID_VALUE;
	buf->data = address;
	buf->data_length = length;
	return RS_OK;
}

void rs_buf_reset_data_length(struct rs_buf *buf)
{
	buf->data = buf->address;
	buf->data_length = 0;
}

size_t rs_buf_chain_data_length(const struct rs_buf *head)
{
	size_t total = 0;

	for (; head; head = head->next)
		total += head->data_length;
	return total;
}

size_t rs_buf_chain_room(const struct rs_buf *head)
{
	size_t total = 0;

	for (; head; head = head->next)
		total += buf_room(head);
	return total;
}

static bool was_given_back(const struct rs_buf *head)
{
	return head && head->references == 0;
}

/* The key of the buffer's memory for device; asked for once, as a map stays as it is while held. */
static RS_SLOW_PATH enum rs_status find_key(struct rs_buf *buf, const struct rs_device *device)
{
	enum rs_status status = rs_mmap_local_key(buf->mmap, device, &buf->key);

	if (status == RS_OK)
		buf->device = device;
	return status;
}

/* Adds an entry for part of a buffer; none for an empty part. */
static enum rs_status add_sge(struct rs_buf *buf, const struct rs_device *device, uint64_t address,
			      size_t length, struct rs_sge_list *list)
{
	if (length == 0)
		return RS_OK;
	if (list->count == list->room || length > UINT32_MAX)
		return RS_ERR_TOO_BIG;
	if (buf->device != device) {
		enum rs_status status = find_key(buf, device);

		if (status != RS_OK)
			return status;
	}
	list->sges[list->count].addr = address;
	list->sges[list->count].length = (uint32_t)length;
	list->sges[list->count].lkey = buf->key;
	list->count++;
	list->length += length;
	return RS_OK;
}

enum rs_status rs_buf_gather(struct rs_buf *head, const struct rs_device *device,
			     struct rs_sge_list *list)
{
	enum rs_status status = RS_OK;

	if (was_given_back(head))
		return RS_ERR_INVALID_VALUE;
	for (; head && status == RS_OK; head = head->next)
		status = add_sge(head, device, head->data, head->data_length, list);
	return status;
}

enum rs_status rs_buf_scatter(struct rs_buf *head, size_t length, const struct rs_device *device,
			      struct rs_sge_list *list)
{
	if (was_given_back(head))
		return RS_ERR_INVALID_VALUE;
	for (; head && length > 0; head = head->next) {
		size_t room = buf_room(head);
		size_t part = room < length ? room : length;
		enum rs_status status =
			add_sge(head, device, head->data + head->data_length, part, list);

		if (status != RS_OK)
			return status;
		length -= part;
	}
	return length > 0 ? RS_ERR_TOO_BIG : RS_OK;
}

void rs_buf_fill(struct rs_buf *head, size_t length)
{
	for (; head && length > 0; head = head->next) {
		size_t room = buf_room(head);
		size_t part = room < length ? room : length;

		head->data_length += part;
		length -= part;
	}
}

enum rs_status rs_buf_remote_data(const struct rs_buf *buf, uint64_t *address, size_t *length,
				  uint32_t *rkey)
{
	if (!buf || !buf->remote || was_given_back(buf))
		return RS_ERR_INVALID_VALUE;
	*address = buf->data;
	*length = buf->data_length;
	*rkey = buf->key;
	return RS_OK;
}

enum rs_status rs_buf_remote_room(const struct rs_buf *buf, uint64_t *address, size_t *length,
				  uint32_t *rkey)
{
	if (!buf || !buf->remote || was_given_back(buf))
		return RS_ERR_INVALID_VALUE;
	*address = buf->data + buf->data_length;
	*length = buf_room(buf);
	*rkey = buf->key;
	return RS_OK;
}
