#include "scatter.h"

#include <string.h>

#include "../core/mr.h"
#include "../core/send_queue.h"

static uint64_t sges_length(const struct ibv_sge *sges, unsigned count)
{
	uint64_t length = 0;

	for (unsigned i = 0; i < count; i++)
		length += sges[i].length;
	return length;
}

/*
 * Fills parts with where the bytes are, as far as the pieces reach. access: 0, or
 * IBV_ACCESS_LOCAL_WRITE. Returns their number, or -1: a key does not permit it.
 */
static int find_parts(const struct ur_device *device, const struct ur_pd *pd,
		      const struct ibv_sge *sges, unsigned count, uint64_t offset, size_t length,
		      unsigned access, struct iovec *parts)
{
	int used = 0;

	for (unsigned i = 0; i < count && length > 0; i++) {
		size_t size = sges[i].length;

		if (offset >= size) {
			offset -= size;
			continue;
		}
		size -= offset;
		if (size > length)
			size = length;
		parts[used].iov_len = size;
		parts[used].iov_base = ur_mr_resolve(device, pd, sges[i].lkey,
						     sges[i].addr + offset, size, access);
		if (!parts[used++].iov_base)
			return -1;
		length -= size;
		offset = 0;
	}
	return used;
}

int ur_gather(const struct ur_device *device, const struct ur_pd *pd, const struct ibv_sge *sges,
	      unsigned count, uint64_t offset, size_t length, struct iovec *parts)
{
	return find_parts(device, pd, sges, count, offset, length, 0, parts);
}

int ur_gather_entry(const struct ur_device *device, const struct ur_pd *pd,
		    const struct ur_send_wqe *wqe, uint64_t offset, size_t length,
		    struct iovec parts[UR_MAX_SGE])
{
	if (length == 0)
		return 0;
	if (!wqe->is_inline)
		return ur_gather(device, pd, wqe->sges, wqe->sge_count, offset, length, parts);
	parts[0].iov_base = wqe->inline_data + offset;
	parts[0].iov_len = length;
	return 1;
}

enum ibv_wc_status ur_scatter(const struct ur_device *device, const struct ur_pd *pd,
			      const struct ibv_sge *sges, unsigned count, uint64_t offset,
			      const void *data, size_t length)
{
	struct iovec parts[UR_MAX_SGE];
	const uint8_t *from = data;
	int used;

	if (offset + length > sges_length(sges, count))
		return IBV_WC_LOC_LEN_ERR;
	used = find_parts(device, pd, sges, count, offset, length, IBV_ACCESS_LOCAL_WRITE, parts);
	if (used < 0)
		return IBV_WC_LOC_PROT_ERR;
	for (int i = 0; i < used; i++) {
		memcpy(parts[i].iov_base, from, parts[i].iov_len);
		from += parts[i].iov_len;
	}
	return IBV_WC_SUCCESS;
}
