#include "listener.h"

#include "../link/address.h"

static bool same_scope(const union ur_sockaddr *a, const union ur_sockaddr *b)
{
	return ur_address_is_ipv4(a) || a->v6.sin6_scope_id == b->v6.sin6_scope_id;
}

/* 0: does not match. */
static int rank(const struct ur_cm_listener *listener, uint64_t service_id,
		const union ur_sockaddr *local)
{
	const union ur_sockaddr *address = &listener->address;

	if (listener->service_id != service_id)
		return 0;
	if (ur_address_is_any(address))
		return address->any.sa_family == local->any.sa_family ? 2 : 1;
	return ur_address_same_host(address, local) && same_scope(address, local) ? 3 : 0;
}

struct ur_cm_listener *ur_listener_find(struct ur_cm_listener *first, uint64_t service_id,
					const union ur_sockaddr *local)
{
	struct ur_cm_listener *best = NULL;
	int best_rank = 0;

	for (struct ur_cm_listener *l = first; l; l = l->next) {
		int this_rank = rank(l, service_id, local);

		if (this_rank > best_rank) {
			best = l;
			best_rank = this_rank;
		}
	}
	return best;
}

struct ur_cm_listener *ur_listener_find_fd(struct ur_cm_listener *first, int fd)
{
	struct ur_cm_listener *listener = first;

	while (listener && listener->fd != fd)
		listener = listener->next;
	return listener;
}

unsigned ur_listener_limit(int backlog)
{
	return backlog > 0 && backlog < UR_CM_MAX_BACKLOG ? (unsigned)backlog : UR_CM_MAX_BACKLOG;
}
