/*
 * Memory regions, and the table of keys. A region has one key, local and remote: the upper 24 bits
 * are its place in the table, the lower 8 change each time the place is used.
 */
#ifndef UR_MR_H
#define UR_MR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ur_device;
struct ur_pd;

struct ur_mr {
	struct ibv_mr verbs; /* first */
	struct ur_pd *pd;
	uint64_t iova; /* how peers and work requests address the first byte */
	unsigned access;
	/* Remote invalidation and the like: no more access by its remote key. */
	bool invalidated;
};

struct ur_key_place {
	struct ur_mr *mr; /* NULL: free */
	uint32_t next_free;
	uint8_t generation; /* the lower 8 bits of its key; never 0, so that no key is */
};

/* Guarded by the device's lock. */
struct ur_key_table {
	struct ur_key_place *places;
	uint32_t capacity;
	uint32_t used;
	/* Free places, in the order they became free: the first is used next. */
	uint32_t first_free;
	uint32_t last_free;
};

#define UR_NO_IOVA UINT64_MAX

/*
 * NULL and errno on failure: EINVAL, EOPNOTSUPP, ENOMEM, or EFAULT (not all of the memory is there,
 * or it is not writable though access needs that). iova: UR_NO_IOVA stands for addr.
 */
struct ur_mr *ur_mr_register(struct ur_pd *pd, void *addr, size_t length, uint64_t iova,
			     unsigned access);
/*
 * Flags, pd, addr, length, access as ibv_rereg_mr. Returns 0, or one of enum ibv_rereg_mr_err_code
 * and errno; the region is then as it was.
 */
int ur_mr_reregister(struct ur_mr *mr, int flags, struct ur_pd *pd, void *addr, size_t length,
		     unsigned access);
/* Returns 0 or an errno. */
int ur_mr_deregister(struct ur_mr *mr);

/* The region that has this key now; NULL: none. Device's lock held. */
struct ur_mr *ur_mr_find(const struct ur_device *device, uint32_t key);

/*
 * Where length bytes at address of the region with that key are in this process; NULL when there is
 * no such key in this protection domain, or the region does not hold the range, or not all of the
 * access flags. length 0 still needs the key. For a remote access pass the remote flag wanted, for
 * a local one IBV_ACCESS_LOCAL_WRITE or 0. Device's lock held.
 */
void *ur_mr_resolve(const struct ur_device *device, const struct ur_pd *pd, uint32_t key,
		    uint64_t address, uint64_t length, unsigned access, bool remote);

void ur_key_table_free(struct ur_key_table *table);

#endif
