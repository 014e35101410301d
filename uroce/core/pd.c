#include "pd.h"

#include <errno.h>
#include <stdlib.h>

struct ur_pd *ur_pd_alloc(struct ur_context *context)
{
	struct ur_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->verbs.context = &context->verbs.context;
	pd->context = context;
	atomic_fetch_add(&context->objects, 1);
	return pd;
}

int ur_pd_dealloc(struct ur_pd *pd)
{
	if (atomic_load(&pd->objects) > 0)
		return EBUSY;
	atomic_fetch_sub(&pd->context->objects, 1);
	free(pd);
	return 0;
}
