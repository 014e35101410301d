/*
 * Extended completion queues: a program goes from completion to completion (start, next, end) and
 * reads the fields of the current one by calls.
 */
#include <errno.h>

#include "cq.h"
#include "engine.h"
#include "pd.h"

#define TIMESTAMP_FLAGS \
	(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct ur_cq *cq_of(struct ibv_cq_ex *verbs)
{
	return (struct ur_cq *)verbs;
}

static const struct ibv_wc *current(struct ibv_cq_ex *verbs)
{
	return &cq_of(verbs)->current.wc;
}

static int advance(struct ur_cq *cq)
{
	if (!ur_cq_take(cq, &cq->current))
		return ENOENT;
	cq->verbs_ex.wr_id = cq->current.wc.wr_id;
	cq->verbs_ex.status = cq->current.wc.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *verbs, struct ibv_poll_cq_attr *attr)
{
	struct ur_cq *cq = cq_of(verbs);
	int error;

	if (attr && attr->comp_mask)
		return EINVAL;
	pthread_mutex_lock(&cq->poll_lock);
	error = advance(cq);
	if (error) {
		ur_engine_poll(cq->context->device);
		error = advance(cq);
	}
	if (error)
		pthread_mutex_unlock(&cq->poll_lock);
	return error;
}

static int next_poll(struct ibv_cq_ex *verbs)
{
	return advance(cq_of(verbs));
}

static void end_poll(struct ibv_cq_ex *verbs)
{
	pthread_mutex_unlock(&cq_of(verbs)->poll_lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *verbs)
{
	return current(verbs)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *verbs)
{
	return current(verbs)->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *verbs)
{
	return current(verbs)->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *verbs)
{
	return current(verbs)->imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *verbs)
{
	return current(verbs)->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *verbs)
{
	return current(verbs)->src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *verbs)
{
	return current(verbs)->wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *verbs)
{
	return current(verbs)->slid;
}

static uint8_t read_sl(struct ibv_cq_ex *verbs)
{
	return current(verbs)->sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *verbs)
{
	return current(verbs)->dlid_path_bits;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *verbs)
{
	return cq_of(verbs)->current.timestamp;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *verbs)
{
	return cq_of(verbs)->current.wallclock;
}

static int check(const struct ur_cq *cq, const struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;

	if (attr->comp_mask & ~known ||
	    attr->wc_flags & ~(uint64_t)(IBV_WC_STANDARD_FLAGS | TIMESTAMP_FLAGS))
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
	    attr->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
		return EOPNOTSUPP;
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD &&
			       (!attr->parent_domain ||
				attr->parent_domain->context != cq->verbs.context)
		       ? EINVAL
		       : 0;
}

int ur_cq_extend(struct ur_cq *cq, const struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *verbs = &cq->verbs_ex;
	int error = check(cq, attr);

	if (error)
		return error;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		cq->owner = ur_pd_owner((struct ur_pd *)attr->parent_domain);
	cq->timestamps = attr->wc_flags & TIMESTAMP_FLAGS;
	verbs->start_poll = start_poll;
	verbs->next_poll = next_poll;
	verbs->end_poll = end_poll;
	verbs->read_opcode = read_opcode;
	verbs->read_vendor_err = read_vendor_err;
	verbs->read_byte_len = read_byte_len;
	verbs->read_imm_data = read_imm_data;
	verbs->read_qp_num = read_qp_num;
	verbs->read_src_qp = read_src_qp;
	verbs->read_wc_flags = read_wc_flags;
	verbs->read_slid = read_slid;
	verbs->read_sl = read_sl;
	verbs->read_dlid_path_bits = read_dlid_path_bits;
	verbs->read_completion_ts = read_completion_ts;
	verbs->read_completion_wallclock_ns = read_completion_wallclock_ns;
	return 0;
}
