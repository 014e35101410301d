#define LOG_MODULE "hello"

#include "hello.h"

#include <endian.h>
#include <string.h>

#include "access.h"
#include "log.h"

static const char magic[4] = { 'r', 's', 'h', '1' };

enum { NO_RESOURCE, MEMORY_MAP, SYNC_EVENT };

/* As it is on the way. */
struct layout {
	char magic[sizeof(magic)];
	uint8_t kind;
	uint8_t access;
	uint8_t zero[2];
	uint32_t key;
	uint32_t length;
	uint64_t address;
	char name[RS_HELLO_NAME_SIZE];
};
_Static_assert(sizeof(struct layout) == RS_HELLO_SIZE, "no padding");

static enum rs_status put_resource(struct layout *layout, const struct rs_descriptor *resource)
{
	if (resource->kind == RS_DESCRIPTOR_EVENT) {
		layout->kind = SYNC_EVENT;
		layout->key = htobe32((uint32_t)resource->event.rkey);
		layout->address = htobe64(resource->event.addr);
		return RS_OK;
	}
	if (resource->kind != RS_DESCRIPTOR_MMAP)
		return RS_ERR_BAD_DESCRIPTOR;
	if (resource->mmap.len > UINT32_MAX)
		return RS_ERR_TOO_BIG;
	layout->kind = MEMORY_MAP;
	layout->access = (uint8_t)resource->mmap.access;
	layout->key = htobe32((uint32_t)resource->mmap.rkey);
	layout->length = htobe32((uint32_t)resource->mmap.len);
	layout->address = htobe64(resource->mmap.addr);
	return RS_OK;
}

enum rs_status rs_hello_encode(const char *name, const char *resource, uint8_t data[RS_HELLO_SIZE])
{
	char message[RS_DESCRIPTOR_MESSAGE_SIZE];
	struct layout layout = { .kind = NO_RESOURCE };
	struct rs_descriptor descriptor;
	enum rs_status status = RS_OK;

	if (strlen(name) >= sizeof(layout.name))
		return RS_ERR_TOO_BIG;
	memcpy(layout.magic, magic, sizeof(magic));
	strcpy(layout.name, name);
	if (resource)
		status = rs_descriptor_parse(resource, &descriptor, message);
	if (status == RS_OK && resource)
		status = put_resource(&layout, &descriptor);
	memcpy(data, &layout, sizeof(layout));
	return status;
}

static bool is_zero(const char *data, size_t length)
{
	while (length > 0 && data[length - 1] == '\0')
		length--;
	return length == 0;
}

static bool has_name(const struct layout *layout)
{
	size_t length = strnlen(layout->name, sizeof(layout->name));

	return length < sizeof(layout->name) &&
	       is_zero(layout->name + length, sizeof(layout->name) - length) &&
	       rs_descriptor_is_name(layout->name);
}

/* What its kind has no use for is zero. */
static bool has_kind(const struct layout *layout)
{
	bool no_map = layout->access == 0 && layout->length == 0;

	if (layout->zero[0] || layout->zero[1])
		return false;
	if (layout->kind == NO_RESOURCE)
		return no_map && layout->key == 0 && layout->address == 0;
	return layout->kind == MEMORY_MAP || (layout->kind == SYNC_EVENT && no_map);
}

/* False: it says what cannot be. */
static bool get_resource(const struct layout *layout, struct rs_descriptor *resource)
{
	uint64_t address = be64toh(layout->address), last;
	uint32_t length = be32toh(layout->length), key = be32toh(layout->key);

	*resource = (struct rs_descriptor){ .time = rs_descriptor_now() };
	if (layout->kind == SYNC_EVENT) {
		resource->kind = RS_DESCRIPTOR_EVENT;
		resource->event.addr = address;
		resource->event.rkey = key;
		return address % sizeof(uint64_t) == 0;
	}
	resource->kind = RS_DESCRIPTOR_MMAP;
	resource->mmap.addr = address;
	resource->mmap.len = length;
	resource->mmap.rkey = key;
	resource->mmap.access = layout->access;
	return (layout->access & ~(RS_ACCESS_ALL & ~RS_ACCESS_LOCAL_READ_WRITE)) == 0 &&
	       !__builtin_add_overflow(address, (uint64_t)length, &last);
}

enum rs_status rs_hello_decode(const void *data, size_t length, struct rs_hello *hello)
{
	struct rs_descriptor resource;
	struct layout layout;

	if (length < sizeof(layout))
		return RS_ERR_BAD_DESCRIPTOR;
	memcpy(&layout, data, sizeof(layout));
	if (memcmp(layout.magic, magic, sizeof(magic)) != 0 || !has_name(&layout) ||
	    !has_kind(&layout))
		return RS_ERR_BAD_DESCRIPTOR;
	*hello = (struct rs_hello){ 0 };
	strcpy(hello->name, layout.name);
	if (layout.kind == NO_RESOURCE)
		return RS_OK;
	if (!get_resource(&layout, &resource))
		return RS_ERR_BAD_DESCRIPTOR;
	rs_descriptor_format(&resource, hello->resource);
	return RS_OK;
}
