/*
 * Operations that programs call through the tables of a context, and that stand beside the exported
 * functions that do the same in the ordinary way.
 */
#ifndef UR_OPERATIONS_H
#define UR_OPERATIONS_H

#include <infiniband/verbs.h>

struct ibv_cq_ex *ur_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
struct ibv_qp *ur_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_srq *ur_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
struct ibv_mw *ur_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int ur_dealloc_mw(struct ibv_mw *mw);
int ur_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
struct ibv_td *ur_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int ur_dealloc_td(struct ibv_td *td);
struct ibv_pd *ur_alloc_parent_domain(struct ibv_context *context,
				      struct ibv_parent_domain_init_attr *attr);
struct ibv_xrcd *ur_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int ur_close_xrcd(struct ibv_xrcd *xrcd);
int ur_get_srq_num(struct ibv_srq *srq, uint32_t *number);

#endif
