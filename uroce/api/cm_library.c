/*
 * Which library's ids a program uses, and what ours do not have.
 */
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"

static bool ours;

static bool has_real_device(void)
{
	int count = 0;
	struct ibv_device **real = UR_FORWARD(NULL, ibv_get_device_list, &count);

	if (real)
		UR_FORWARD_VOID(ibv_free_device_list, real);
	return count > 0;
}

static void decide(void)
{
	const char *wish = getenv("UROCE_CM");

	ours = (wish && strcmp(wish, "1") == 0) || !has_real_device();
}

bool ur_cm_is_ours(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, decide);
	return ours;
}

/* ---- Refused ---- */

/*
 * The other functions of rsockets take what this one returns. They would call our functions, and
 * then look behind our ids.
 */
UR_EXPORT int rsocket(int domain, int type, int protocol)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rsocket, domain, type, protocol);
	return ur_cm_result(EOPNOTSUPP);
}

/* ---- Enhanced connection establishment: a peer that is offered none does without ---- */

UR_EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_set_local_ece, id, ece);
	return ur_cm_result(id && ece && ece->comp_mask == 0 ? 0 : EINVAL);
}

UR_EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_get_remote_ece, id, ece);
	if (!id || !ece || ece->comp_mask)
		return ur_cm_result(EINVAL);
	*ece = (struct ibv_ece){ 0 };
	return 0;
}
