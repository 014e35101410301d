#include "group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../link/address.h"
#include "interface.h"
#include "qp.h"

/* ---- Groups ---- */

/* Its place in the table; the table's count: it is not there. */
static unsigned find(const struct ur_group_table *table, const union ibv_gid *gid)
{
	unsigned i = 0;

	while (i < table->count && memcmp(&table->groups[i]->gid, gid, sizeof(*gid)) != 0)
		i++;
	return i;
}

static int join(struct ur_device *device, const struct ur_group *group)
{
	union ur_sockaddr address;

	ur_device_gid_address(device, &group->gid, &address);
	return ur_link_join_group(device->link, &address, device->if_index, group);
}

static int add(struct ur_device *device, const union ibv_gid *gid)
{
	struct ur_group_table *table = &device->groups;
	struct ur_group *group;
	int error;

	if (table->count == UR_MAX_GROUPS)
		return ENOMEM;
	group = calloc(1, sizeof(*group));
	if (!group)
		return ENOMEM;
	group->gid = *gid;
	error = join(device, group);
	if (error)
		free(group);
	else
		table->groups[table->count++] = group;
	return error;
}

/* The last one takes its place. */
static void remove_unused(struct ur_device *device, unsigned index)
{
	struct ur_group_table *table = &device->groups;
	struct ur_group *group = table->groups[index];

	if (group->qp_count > 0)
		return;
	ur_link_leave_group(device->link, group);
	table->groups[index] = table->groups[--table->count];
	free(group->qps);
	free(group);
}

/* ---- What is sent to them ---- */

static bool is_own_address(const struct ur_device *device, const union ur_sockaddr *address)
{
	union ur_sockaddr own;

	for (unsigned i = 0; i < device->gid_count; i++) {
		ur_device_address(device, (uint8_t)i, &own);
		if (ur_address_same_host(&own, address))
			return true;
	}
	return false;
}

/* A number is that of one queue pair of all processes on an address. */
bool ur_group_is_for(const struct ur_qp *qp, const struct ur_packet *packet,
		     const union ur_sockaddr *from)
{
	return qp->hears_itself || packet->src_qpn != qp->verbs.qp_num ||
	       !is_own_address(qp->device, from);
}

/* ---- Their queue pairs ---- */

/* Its place in the group; the group's count: it is not there. */
static unsigned find_qp(const struct ur_group *group, const struct ur_qp *qp)
{
	unsigned i = 0;

	while (i < group->qp_count && group->qps[i] != qp)
		i++;
	return i;
}

static int add_qp(struct ur_group *group, struct ur_qp *qp)
{
	struct ur_qp **grown;

	if (find_qp(group, qp) < group->qp_count)
		return 0;
	if (group->qp_count == UR_MAX_GROUP_QPS)
		return ENOMEM;
	grown = realloc(group->qps, (group->qp_count + 1) * sizeof(struct ur_qp *));
	if (!grown)
		return ENOMEM;
	group->qps = grown;
	group->qps[group->qp_count++] = qp;
	qp->group_count++;
	return 0;
}

static int attach(struct ur_qp *qp, const union ibv_gid *gid)
{
	struct ur_device *device = qp->device;
	unsigned index = find(&device->groups, gid);
	int error = index == device->groups.count ? add(device, gid) : 0;

	if (error)
		return error;
	error = add_qp(device->groups.groups[index], qp);
	remove_unused(device, index);
	return error;
}

int ur_group_attach(struct ur_qp *qp, const union ibv_gid *gid)
{
	int error;

	/* The link of a device that was open before a fork is the parent's. */
	if (!ur_qp_is_datagram(qp) || !ur_gid_is_group(gid) || qp->device->inherited)
		return EINVAL;
	pthread_mutex_lock(&qp->device->lock);
	error = attach(qp, gid);
	pthread_mutex_unlock(&qp->device->lock);
	return error;
}

static int detach(struct ur_qp *qp, const union ibv_gid *gid)
{
	struct ur_device *device = qp->device;
	unsigned index = find(&device->groups, gid), place;
	struct ur_group *group;

	if (index == device->groups.count)
		return EINVAL;
	group = device->groups.groups[index];
	place = find_qp(group, qp);
	if (place == group->qp_count)
		return EINVAL;
	group->qps[place] = group->qps[--group->qp_count];
	qp->group_count--;
	remove_unused(device, index);
	return 0;
}

int ur_group_detach(struct ur_qp *qp, const union ibv_gid *gid)
{
	int error;

	if (qp->device->inherited)
		return EINVAL;
	pthread_mutex_lock(&qp->device->lock);
	error = detach(qp, gid);
	pthread_mutex_unlock(&qp->device->lock);
	return error;
}
