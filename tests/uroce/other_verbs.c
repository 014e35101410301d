#include "other_verbs.h"

#include <errno.h>
#include <string.h>

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct ibv_device other_devices[2] = { { .name = "other_0" }, { .name = "other_1" } };
int other_list_error;
struct ibv_device **other_freed_list;

static const char *called = "";

const char *other_verbs_called(void)
{
	const char *name = called;

	called = "";
	return name;
}

/* A function of libibverbs. */
#define OTHER(type, name, ...)  \
	type name(__VA_ARGS__); \
	type name(__VA_ARGS__)  \
	{                       \
		called = #name; \
		return (type)0; \
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define CONTEXT struct ibv_context *context
#define PD      struct ibv_pd *pd
#define QP      struct ibv_qp *qp

OTHER(const char *, ibv_get_device_name, struct ibv_device *device)
OTHER(int, ibv_get_device_index, struct ibv_device *device)
OTHER(__be64, ibv_get_device_guid, struct ibv_device *device)
OTHER(struct ibv_context *, ibv_open_device, struct ibv_device *device)
OTHER(int, ibv_close_device, CONTEXT)
OTHER(int, ibv_query_device, CONTEXT, struct ibv_device_attr *attr)
OTHER(int, ibv_query_port, CONTEXT, uint8_t port, struct _compat_ibv_port_attr *attr)
OTHER(int, ibv_query_gid, CONTEXT, uint8_t port, int index, union ibv_gid *gid)
OTHER(int, _ibv_query_gid_ex, CONTEXT, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
      uint32_t flags, size_t size)
OTHER(ssize_t, _ibv_query_gid_table, CONTEXT, struct ibv_gid_entry *entries, size_t max,
      uint32_t flags, size_t size)
OTHER(int, ibv_query_gid_type, CONTEXT, uint8_t port, unsigned index, unsigned *type)
OTHER(int, ibv_query_pkey, CONTEXT, uint8_t port, int index, __be16 *pkey)
OTHER(int, ibv_get_pkey_index, CONTEXT, uint8_t port, __be16 pkey)
OTHER(int, ibv_read_sysfs_file, const char *folder, const char *file, char *text, size_t size)

OTHER(struct ibv_pd *, ibv_alloc_pd, CONTEXT)
OTHER(int, ibv_dealloc_pd, PD)
OTHER(struct ibv_mr *, ibv_reg_mr, PD, void *addr, size_t length, int access)
OTHER(struct ibv_mr *, ibv_reg_mr_iova, PD, void *addr, size_t length, uint64_t iova, int access)
OTHER(struct ibv_mr *, ibv_reg_mr_iova2, PD, void *addr, size_t length, uint64_t iova,
      unsigned access)
OTHER(struct ibv_mr *, ibv_reg_dmabuf_mr, PD, uint64_t offset, size_t length, uint64_t iova, int fd,
      int access)
OTHER(int, ibv_rereg_mr, struct ibv_mr *mr, int flags, PD, void *addr, size_t length, int access)
OTHER(int, ibv_dereg_mr, struct ibv_mr *mr)
OTHER(struct ibv_context *, ibv_import_device, int cmd_fd)
OTHER(struct ibv_pd *, ibv_import_pd, CONTEXT, uint32_t handle)
OTHER(void, ibv_unimport_pd, PD)
OTHER(struct ibv_mr *, ibv_import_mr, PD, uint32_t handle)
OTHER(void, ibv_unimport_mr, struct ibv_mr *mr)
OTHER(struct ibv_dm *, ibv_import_dm, CONTEXT, uint32_t handle)
OTHER(void, ibv_unimport_dm, struct ibv_dm *dm)

OTHER(struct ibv_comp_channel *, ibv_create_comp_channel, CONTEXT)
OTHER(int, ibv_destroy_comp_channel, struct ibv_comp_channel *channel)
OTHER(int, ibv_get_cq_event, struct ibv_comp_channel *channel, struct ibv_cq **cq,
      void **cq_context)
OTHER(void, ibv_ack_cq_events, struct ibv_cq *cq, unsigned count)
OTHER(struct ibv_cq *, ibv_create_cq, CONTEXT, int cqe, void *cq_context,
      struct ibv_comp_channel *channel, int vector)
OTHER(int, ibv_resize_cq, struct ibv_cq *cq, int cqe)
OTHER(int, ibv_destroy_cq, struct ibv_cq *cq)
OTHER(int, ibv_get_async_event, CONTEXT, struct ibv_async_event *event)
OTHER(void, ibv_ack_async_event, struct ibv_async_event *event)

OTHER(struct ibv_qp *, ibv_create_qp, PD, struct ibv_qp_init_attr *attr)
OTHER(struct ibv_qp_ex *, ibv_qp_to_qp_ex, QP)
OTHER(int, ibv_modify_qp, QP, struct ibv_qp_attr *attr, int mask)
OTHER(int, ibv_query_qp, QP, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init_attr)
OTHER(int, ibv_query_qp_data_in_order, QP, enum ibv_wr_opcode op, uint32_t flags)
OTHER(int, ibv_destroy_qp, QP)
OTHER(int, ibv_query_ece, QP, struct ibv_ece *ece)
OTHER(int, ibv_set_ece, QP, struct ibv_ece *ece)
OTHER(int, ibv_attach_mcast, QP, const union ibv_gid *gid, uint16_t lid)
OTHER(int, ibv_detach_mcast, QP, const union ibv_gid *gid, uint16_t lid)
OTHER(struct ibv_srq *, ibv_create_srq, PD, struct ibv_srq_init_attr *attr)
OTHER(int, ibv_modify_srq, struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
OTHER(int, ibv_query_srq, struct ibv_srq *srq, struct ibv_srq_attr *attr)
OTHER(int, ibv_destroy_srq, struct ibv_srq *srq)

OTHER(struct ibv_ah *, ibv_create_ah, PD, struct ibv_ah_attr *attr)
OTHER(struct ibv_ah *, ibv_create_ah_from_wc, PD, struct ibv_wc *wc, struct ibv_grh *grh,
      uint8_t port)
OTHER(int, ibv_init_ah_from_wc, CONTEXT, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
      struct ibv_ah_attr *attr)
OTHER(int, ibv_destroy_ah, struct ibv_ah *ah)
OTHER(int, ibv_resolve_eth_l2_from_gid, CONTEXT, struct ibv_ah_attr *attr, uint8_t mac[6],
      uint16_t *vid)

struct ibv_device **ibv_get_device_list(int *count)
{
	static struct ibv_device *list[] = { &other_devices[0], &other_devices[1], NULL };

	called = __func__;
	if (other_list_error) {
		errno = other_list_error;
		return NULL;
	}
	*count = 2;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	called = __func__;
	other_freed_list = list;
}
