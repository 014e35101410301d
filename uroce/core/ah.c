#include "ah.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>

#include "interface.h"

static bool find_gid(const struct ur_device *device, const union ibv_gid *gid, uint8_t *index)
{
	for (unsigned i = 0; i < device->gid_count; i++) {
		if (memcmp(&device->gids[i], gid, sizeof(*gid)) == 0) {
			*index = (uint8_t)i;
			return true;
		}
	}
	return false;
}

static int find_path(struct ur_ah *ah, const struct ur_device *device,
		     const struct ibv_ah_attr *attr)
{
	ah->is_group = ur_gid_is_group(&attr->grh.dgid);
	if (ah->is_group)
		return ur_device_group_path(device, attr, &ah->path);
	return ur_device_path(device, attr, UR_UDP_PORT, &ah->path);
}

struct ur_ah *ur_ah_create(struct ur_pd *pd, const struct ibv_ah_attr *attr)
{
	struct ur_ah *ah = calloc(1, sizeof(*ah));
	uint8_t index;

	if (!ah)
		return NULL;
	if (find_path(ah, pd->context->device, attr) != 0)
		goto err_ah;
	ah->verbs.context = pd->verbs.context;
	ah->verbs.pd = &pd->verbs;
	ah->pd = ur_pd_protection(pd);
	ah->is_own = find_gid(pd->context->device, &attr->grh.dgid, &index);
	atomic_fetch_add(&ah->pd->objects, 1);
	return ah;

err_ah:
	free(ah);
	errno = EINVAL;
	return NULL;
}

int ur_ah_destroy(struct ur_ah *ah)
{
	atomic_fetch_sub(&ah->pd->objects, 1);
	free(ah);
	return 0;
}

/* ---- The way back ---- */

static void make_gid(struct in_addr address, union ibv_gid *gid)
{
	*gid = (union ibv_gid){ .raw = { [10] = 0xff, [11] = 0xff } };
	memcpy(&gid->raw[12], &address, sizeof(address));
}

static bool read_ipv6(const struct ur_device *device, const struct ibv_grh *grh,
		      struct ibv_global_route *route)
{
	uint32_t first = ntohl(grh->version_tclass_flow);

	if (first >> 28 != 6 || !find_gid(device, &grh->dgid, &route->sgid_index))
		return false;
	route->dgid = grh->sgid;
	route->traffic_class = (uint8_t)(first >> 20);
	route->flow_label = first & IB_GRH_FLOWLABEL_MASK;
	return true;
}

static bool read_ipv4(const struct ur_device *device, const struct ibv_grh *grh,
		      struct ibv_global_route *route)
{
	struct ip header;
	union ibv_gid to;

	memcpy(&header, (const char *)grh + sizeof(*grh) - sizeof(header), sizeof(header));
	make_gid(header.ip_dst, &to);
	if (header.ip_v != 4 || header.ip_hl != 5 || !find_gid(device, &to, &route->sgid_index))
		return false;
	make_gid(header.ip_src, &route->dgid);
	route->traffic_class = header.ip_tos;
	return true;
}

int ur_ah_attr_from_wc(const struct ur_device *device, uint8_t port, const struct ibv_wc *wc,
		       const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	*attr = (struct ibv_ah_attr){
		.is_global = 1, .sl = wc->sl, .port_num = port, .grh.hop_limit = UINT8_MAX
	};
	/* Which one it is, is not written anywhere; but only one of them was sent to us. */
	if (port != 1 || !(wc->wc_flags & IBV_WC_GRH) ||
	    (!read_ipv6(device, grh, &attr->grh) && !read_ipv4(device, grh, &attr->grh)))
		return EINVAL;
	return 0;
}
