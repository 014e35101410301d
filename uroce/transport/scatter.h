/*
 * The pieces of memory that a work request names: where its bytes are.
 */
#ifndef UR_SCATTER_H
#define UR_SCATTER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "../link/carrier.h"

struct ur_device;
struct ur_pd;
struct ur_send_wqe;

/*
 * Copies length bytes to the place offset bytes into the pieces. Returns IBV_WC_SUCCESS,
 * IBV_WC_LOC_LEN_ERR (they do not fit: nothing is copied) or IBV_WC_LOC_PROT_ERR (a key does not permit
 * it).
 */
enum ibv_wc_status ur_scatter(const struct ur_device *device, const struct ur_pd *pd,
			      const struct ibv_sge *sges, unsigned count, uint64_t offset,
			      const void *data, size_t length);

/*
 * Finds length bytes that are offset bytes into the pieces. parts: room for count entries. Returns how
 * many it filled, or -1: a key does not permit it.
 */
int ur_gather(const struct ur_device *device, const struct ur_pd *pd, const struct ibv_sge *sges,
	      unsigned count, uint64_t offset, size_t length, struct iovec *parts);

/* The same for what an entry of a send queue sends, which may stand in the entry. */
int ur_gather_entry(const struct ur_device *device, const struct ur_pd *pd,
		    const struct ur_send_wqe *wqe, uint64_t offset, size_t length,
		    struct iovec parts[UR_MAX_SGE]);

#endif
