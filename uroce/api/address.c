/*
 * Address handles.
 */
#include "../core/ah.h"
#include "api.h"

static struct ibv_ah *create_ah(struct ibv_pd *pd, const struct ibv_ah_attr *attr)
{
	struct ur_ah *ah = ur_ah_create((struct ur_pd *)pd, attr);

	return ah ? &ah->verbs : NULL;
}

UR_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	if (!ur_has_ours(pd->context))
		return UR_FORWARD(NULL, ibv_create_ah, pd, attr);
	return create_ah(pd, attr);
}

UR_EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	if (!ur_has_ours(ah->context))
		return UR_FORWARD(ENOSYS, ibv_destroy_ah, ah);
	return ur_ah_destroy((struct ur_ah *)ah);
}

static int init_ah(struct ibv_context *context, uint8_t port, const struct ibv_wc *wc,
		   const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	int error = ur_ah_attr_from_wc(ur_device_behind(context), port, wc, grh, attr);

	if (!error)
		return 0;
	errno = error;
	return -1;
}

UR_EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
				  struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	if (!ur_has_ours(context))
		return UR_FORWARD(-1, ibv_init_ah_from_wc, context, port, wc, grh, attr);
	return init_ah(context, port, wc, grh, attr);
}

UR_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
					       struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;

	if (!ur_has_ours(pd->context))
		return UR_FORWARD(NULL, ibv_create_ah_from_wc, pd, wc, grh, port);
	return init_ah(pd->context, port, wc, grh, &attr) == 0 ? create_ah(pd, &attr) : NULL;
}
