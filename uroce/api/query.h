/*
 * Questions that programs ask through the tables of a context.
 */
#ifndef UR_QUERY_H
#define UR_QUERY_H

#include <infiniband/verbs.h>

int ur_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int ur_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size);
int ur_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		  size_t size);
/* As programs asked before struct ibv_port_attr grew. */
int ur_query_old_port(struct ibv_context *context, uint8_t port,
		      struct _compat_ibv_port_attr *attr);
int ur_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

#endif
