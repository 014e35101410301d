#include "xrcd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "qp.h"
#include "srq.h"

#define NEEDED (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS)

/* ---- Life ---- */

static bool is_same_file(int a, int b)
{
	struct stat stat_a, stat_b;

	return fstat(a, &stat_a) == 0 && fstat(b, &stat_b) == 0 && stat_a.st_dev == stat_b.st_dev &&
	       stat_a.st_ino == stat_b.st_ino;
}

/* One without a file is never found again. */
static struct ur_xrc_domain *find_domain(const struct ur_device *device, int fd)
{
	struct ur_xrc_domain *domain = fd < 0 ? NULL : device->domains;

	while (domain && (domain->fd < 0 || !is_same_file(domain->fd, fd)))
		domain = domain->next;
	return domain;
}

static int create_domain(struct ur_device *device, int fd, struct ur_xrc_domain **domain)
{
	struct ur_xrc_domain *created = calloc(1, sizeof(*created));
	int error;

	if (!created)
		return ENOMEM;
	created->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd >= 0 && created->fd < 0) {
		error = errno;
		free(created);
		return error;
	}
	created->next = device->domains;
	device->domains = created;
	*domain = created;
	return 0;
}

static void destroy_domain(struct ur_device *device, struct ur_xrc_domain *domain)
{
	struct ur_xrc_domain **link = &device->domains;

	while (*link != domain)
		link = &(*link)->next;
	*link = domain->next;
	if (domain->fd >= 0)
		close(domain->fd);
	free(domain);
}

static int check_attr(const struct ibv_xrcd_init_attr *attr)
{
	if (attr->comp_mask & ~(uint32_t)NEEDED)
		return EOPNOTSUPP;
	if (attr->comp_mask != NEEDED || attr->fd < -1 || attr->oflags & ~(O_CREAT | O_EXCL))
		return EINVAL;
	return attr->fd < 0 || fcntl(attr->fd, F_GETFD) >= 0 ? 0 : EBADF;
}

static int get_domain(struct ur_device *device, const struct ibv_xrcd_init_attr *attr,
		      struct ur_xrc_domain **domain)
{
	int error = 0;

	*domain = find_domain(device, attr->fd);
	if (*domain && attr->oflags & O_EXCL)
		return EINVAL;
	if (!*domain && !(attr->oflags & O_CREAT))
		return EAGAIN;
	if (!*domain)
		error = create_domain(device, attr->fd, domain);
	if (!error)
		(*domain)->handles++;
	return error;
}

struct ur_xrcd *ur_xrcd_open(struct ur_context *context, const struct ibv_xrcd_init_attr *attr)
{
	struct ur_xrcd *xrcd;
	int error = check_attr(attr);

	if (error)
		goto err_nothing;
	error = ENOMEM;
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		goto err_nothing;
	xrcd->verbs.context = &context->verbs.context;
	xrcd->context = context;
	pthread_mutex_lock(&context->device->lock);
	error = get_domain(context->device, attr, &xrcd->domain);
	pthread_mutex_unlock(&context->device->lock);
	if (error)
		goto err_xrcd;
	atomic_fetch_add(&context->objects, 1);
	return xrcd;

err_xrcd:
	free(xrcd);
err_nothing:
	errno = error;
	return NULL;
}

int ur_xrcd_close(struct ur_xrcd *xrcd)
{
	struct ur_device *device = xrcd->context->device;

	if (atomic_load(&xrcd->objects) > 0)
		return EBUSY;
	pthread_mutex_lock(&device->lock);
	if (--xrcd->domain->handles == 0)
		destroy_domain(device, xrcd->domain);
	pthread_mutex_unlock(&device->lock);
	atomic_fetch_sub(&xrcd->context->objects, 1);
	free(xrcd);
	return 0;
}

/* ---- Shared receive queues ---- */

static struct ur_srq **bucket_of(struct ur_xrc_domain *domain, uint32_t srqn)
{
	return &domain->srqs[srqn % UR_XRC_BUCKETS];
}

static struct ur_srq *find_srq(struct ur_xrc_domain *domain, uint32_t srqn)
{
	struct ur_srq *srq = *bucket_of(domain, srqn);

	while (srq && srq->number != srqn)
		srq = srq->domain_next;
	return srq;
}

void ur_xrcd_add(struct ur_xrcd *xrcd, struct ur_srq *srq)
{
	struct ur_srq **bucket;

	/* The numbers have gone round, and an old one is still there. */
	while (find_srq(xrcd->domain, srq->number))
		srq->number = ur_srq_next_number();
	bucket = bucket_of(xrcd->domain, srq->number);
	srq->domain_next = *bucket;
	*bucket = srq;
}

static bool is_receiving(const struct ur_qp *qp, const struct ur_srq *srq)
{
	return qp->target.srq == srq && qp->responder.has_receive;
}

int ur_xrcd_remove(struct ur_xrcd *xrcd, struct ur_srq *srq)
{
	const struct ur_qp_table *qps = &xrcd->context->device->qps;
	struct ur_srq **link = bucket_of(xrcd->domain, srq->number);
	struct ur_qp *qp;

	for (unsigned i = 0; i <= UINT16_MAX; i++) {
		qp = ur_qp_table_find(qps, (uint16_t)i);
		if (qp && is_receiving(qp, srq))
			return EBUSY;
	}
	for (unsigned i = 0; i <= UINT16_MAX; i++) {
		qp = ur_qp_table_find(qps, (uint16_t)i);
		if (qp && qp->target.srq == srq)
			qp->target = (struct ur_target){ 0 };
	}
	while (*link != srq)
		link = &(*link)->domain_next;
	*link = srq->domain_next;
	return 0;
}

bool ur_xrcd_aim(struct ur_qp *qp, uint32_t srqn)
{
	struct ur_srq *srq = find_srq(qp->xrcd->domain, srqn);

	if (!srq || (qp->responder.message != UR_NO_MESSAGE && qp->target.srq != srq))
		return false;
	qp->target = (struct ur_target){ .pd = srq->pd, .srq = srq, .cq = srq->cq };
	return true;
}
