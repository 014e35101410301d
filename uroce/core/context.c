#include "context.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "command_fd.h"
#include "cq.h"
#include "event_fd.h"
#include "log.h"
#include "qp.h"
#include "srq.h"

static void set_up(struct ur_context *context, struct ur_device *device, int cmd_fd)
{
	struct ibv_context *verbs = &context->verbs.context;

	context->device = device;
	pthread_mutex_init(&context->lock, NULL);
	pthread_cond_init(&context->acknowledged, NULL);
	context->verbs.sz = sizeof(context->verbs);
	verbs->device = &device->verbs;
	verbs->cmd_fd = cmd_fd;
	verbs->num_comp_vectors = 1;
	verbs->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&verbs->mutex, NULL);
	ur_context_set_ops(&context->verbs);
}

static void free_context(struct ur_context *context)
{
	pthread_mutex_destroy(&context->verbs.context.mutex);
	pthread_cond_destroy(&context->acknowledged);
	pthread_mutex_destroy(&context->lock);
	free(context);
}

/* The context takes cmd_fd over, unless it fails. */
static struct ur_context *open_with(struct ur_device *device, int cmd_fd)
{
	struct ur_context *context = calloc(1, sizeof(*context));
	int error;

	if (!context)
		return NULL;
	set_up(context, device, cmd_fd);
	context->verbs.context.async_fd = ur_event_fd_open();
	if (context->verbs.context.async_fd < 0) {
		error = errno;
		goto err_context;
	}
	error = ur_device_get(device);
	if (error)
		goto err_async_fd;
	return context;

err_async_fd:
	close(context->verbs.context.async_fd);
err_context:
	free_context(context);
	errno = error;
	return NULL;
}

struct ur_context *ur_context_open(struct ur_device *device)
{
	int cmd_fd = ur_command_fd_open(device->if_name);
	struct ur_context *context = cmd_fd < 0 ? NULL : open_with(device, cmd_fd);
	int error = errno;

	if (!context && cmd_fd >= 0)
		close(cmd_fd);
	errno = error;
	return context;
}

struct ur_context *ur_context_import(int cmd_fd)
{
	char if_name[IFNAMSIZ];
	int error = ur_command_fd_read(cmd_fd, if_name, sizeof(if_name));
	struct ur_device *device = error ? NULL : ur_devices_find_open(if_name);

	if (device)
		return open_with(device, cmd_fd);
	errno = error ? error : ENODEV;
	return NULL;
}

int ur_context_close(struct ur_context *context)
{
	if (atomic_load(&context->objects) > 0)
		return EBUSY;
	ur_device_put(context->device);
	close(context->verbs.context.async_fd);
	close(context->verbs.context.cmd_fd);
	free_context(context);
	return 0;
}

static struct ur_qp *find_qp(const struct ur_context *context, uint16_t index)
{
	struct ur_device *device = context->device;
	struct ur_qp *qp;

	pthread_mutex_lock(&device->lock);
	qp = ur_qp_table_find(&device->qps, index);
	pthread_mutex_unlock(&device->lock);
	return qp && qp->context == context ? qp : NULL;
}

void ur_context_abandon(struct ur_context *context)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	if (context->device->inherited)
		return;
	ur_log(UR_LOG_WARNING, "%s: closed with %u objects that were not destroyed",
	       context->device->verbs.name, atomic_load(&context->objects));
	for (unsigned i = 0; i <= UINT16_MAX; i++) {
		struct ur_qp *qp = find_qp(context, (uint16_t)i);

		if (qp)
			ur_qp_modify(qp, &attr, IBV_QP_STATE);
	}
}

/* ---- Asynchronous events ---- */

static void append(struct ur_context *context, struct ur_async_event *event)
{
	event->queued = true;
	event->next = NULL;
	if (context->last_event)
		context->last_event->next = event;
	else
		context->first_event = event;
	context->last_event = event;
}

static void unlink_event(struct ur_context *context, struct ur_async_event *event)
{
	struct ur_async_event **link = &context->first_event, *before = NULL;

	for (; *link != event; link = &(*link)->next)
		before = *link;
	*link = event->next;
	if (context->last_event == event)
		context->last_event = before;
	event->queued = false;
}

void ur_async_raise(struct ur_context *context, struct ur_async_event *event)
{
	pthread_mutex_lock(&context->lock);
	if (!event->queued) {
		append(context, event);
		ur_event_fd_add(context->verbs.context.async_fd);
	}
	pthread_mutex_unlock(&context->lock);
}

void ur_async_withdraw(struct ur_context *context, struct ur_async_event *event)
{
	pthread_mutex_lock(&context->lock);
	if (event->queued) {
		unlink_event(context, event);
		ur_event_fd_withdraw(context->verbs.context.async_fd);
	}
	while (event->unacknowledged > 0)
		pthread_cond_wait(&context->acknowledged, &context->lock);
	pthread_mutex_unlock(&context->lock);
}

/* false: there is none, it was withdrawn. */
static bool take_event(struct ur_context *context, struct ibv_async_event *event)
{
	struct ur_async_event *first;

	pthread_mutex_lock(&context->lock);
	first = context->first_event;
	if (first) {
		unlink_event(context, first);
		first->unacknowledged++;
		*event = first->event;
	}
	pthread_mutex_unlock(&context->lock);
	return first;
}

int ur_async_get(struct ur_context *context, struct ibv_async_event *event)
{
	do {
		if (ur_event_fd_take(context->verbs.context.async_fd) != 0)
			return -1;
	} while (!take_event(context, event));
	return 0;
}

static struct ur_async_event *find_event(const struct ibv_async_event *event)
{
	struct ur_qp *qp = (struct ur_qp *)event->element.qp;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return &((struct ur_cq *)event->element.cq)->error_event;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return &((struct ur_srq *)event->element.srq)->limit_event;
	case IBV_EVENT_QP_FATAL:
		return &qp->fatal_event;
	case IBV_EVENT_QP_REQ_ERR:
		return &qp->request_event;
	case IBV_EVENT_QP_ACCESS_ERR:
		return &qp->access_event;
	case IBV_EVENT_COMM_EST:
		return &qp->established_event;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return &qp->last_wqe_event;
	case IBV_EVENT_SQ_DRAINED:
		return &qp->drained_event;
	default:
		return NULL;
	}
}

void ur_async_acknowledge(struct ur_context *context, const struct ibv_async_event *event)
{
	struct ur_async_event *acknowledged = find_event(event);

	if (!acknowledged)
		return;
	pthread_mutex_lock(&context->lock);
	if (acknowledged->unacknowledged > 0)
		acknowledged->unacknowledged--;
	pthread_cond_broadcast(&context->acknowledged);
	pthread_mutex_unlock(&context->lock);
}
