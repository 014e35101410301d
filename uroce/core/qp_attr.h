/*
 * Which attributes each transition of a queue pair's state needs and allows, and which values they may
 * have (InfiniBand specification volume 1, table 91 and following; man ibv_modify_qp).
 */
#ifndef UR_QP_ATTR_H
#define UR_QP_ATTR_H

#include <infiniband/verbs.h>

/* The type of queue pair 1, which programs cannot create. */
#define UR_QPT_GSI ((enum ibv_qp_type)1)

/*
 * Returns 0; EINVAL: the transition does not exist for this type, or the mask lacks a required attribute
 * or has a forbidden one.
 */
int ur_qp_attr_check_mask(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
			  int mask);

/*
 * Of the attributes in the mask, all but the address vector's path. max_mtu: the port's. Returns 0, EINVAL
 * or EOPNOTSUPP (alternate paths).
 */
int ur_qp_attr_check_values(const struct ibv_qp_attr *attr, int mask, enum ibv_mtu max_mtu);

/*
 * Copies the attributes in the mask, but for the state. Sequence numbers are cut to 24 bits, as devices do:
 * programs hand over random numbers.
 */
void ur_qp_attr_copy(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask);

#endif
