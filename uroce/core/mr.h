/*
 * Memory regions. A region has one key, local and remote.
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
	bool imported;    /* a handle of one that another context has registered */
	unsigned windows; /* that are bound to it, guarded by the device's lock */
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
 * and errno (EBUSY: windows are bound to it); the region is then as it was.
 */
int ur_mr_reregister(struct ur_mr *mr, int flags, struct ur_pd *pd, void *addr, size_t length,
		     unsigned access);
/*
 * ibv_import_mr: another handle of the one with that number, in the same protection domain. Its keys are
 * valid as long as that one is registered. NULL and errno: EINVAL, ENOMEM.
 */
struct ur_mr *ur_mr_import(struct ur_pd *pd, uint32_t handle);
/* Frees such a handle; does nothing to others. */
void ur_mr_unimport(struct ur_mr *mr);
/* Returns 0, EBUSY while windows are bound to it, or EINVAL if it is an imported handle. */
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
		    uint64_t address, uint64_t length, unsigned access);

#endif
