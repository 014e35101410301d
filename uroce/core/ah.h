/*
 * Address handle: a path to a peer, for datagrams.
 */
#ifndef UR_AH_H
#define UR_AH_H

#include "pd.h"

struct ur_ah {
	struct ibv_ah verbs; /* first */
	struct ur_pd *pd;
	struct ur_path path; /* UDP port 4791 */
	bool is_own;         /* the address is one of the device's own */
	bool is_group;       /* it is a multicast group's */
};

struct ur_ah *ur_ah_create(struct ur_pd *pd, const struct ibv_ah_attr *attr);
int ur_ah_destroy(struct ur_ah *ah);

/*
 * The way back to the sender of a datagram, from its completion and the 40 bytes in front of its
 * data: an IPv6 header, or 20 bytes and an IPv4 header. Returns 0 or EINVAL.
 */
int ur_ah_attr_from_wc(const struct ur_device *device, uint8_t port, const struct ibv_wc *wc,
		       const struct ibv_grh *grh, struct ibv_ah_attr *attr);

#endif
