/*
 * Memory map: a range of memory and what may be done with it.
 *
 * A local map is created, configured (range, permissions, devices), started (registered with each
 * device), and from then on read-only until it is stopped. A remote map is made from the line that
 * the peer exported; it only says where the peer's memory is. The memory stays the caller's and
 * must outlive the map's start … stop.
 */
#ifndef RS_MMAP_H
#define RS_MMAP_H

#include <stddef.h>
#include <stdint.h>

#include "access.h"
#include "device.h"
#include "status.h"

/* Devices that one map can be registered with. */
#define RS_MMAP_MAX_DEVICES 4

struct rs_mmap;

/* A local map, not configured. The caller destroys it. */
enum rs_status rs_mmap_create(struct rs_mmap **mmap);

/* RS_ERR_IN_USE while buffers refer to it; a started map is stopped. NULL is allowed. */
enum rs_status rs_mmap_destroy(struct rs_mmap *mmap);

/* The setters are for a local map that is not started; else RS_ERR_BAD_STATE. */
enum rs_status rs_mmap_set_memrange(struct rs_mmap *mmap, void *address, size_t length);

/*
 * access: set of enum rs_access. Remote write and remote atomic need local write as well, as verbs
 * demands: RS_ERR_INVALID_VALUE without it. Source: man ibv_reg_mr.
 */
enum rs_status rs_mmap_set_permissions(struct rs_mmap *mmap, uint32_t access);

/* The device is held until the map is destroyed. RS_ERR_FULL: RS_MMAP_MAX_DEVICES were added. */
enum rs_status rs_mmap_add_device(struct rs_mmap *mmap, struct rs_device *device);

/*
 * Registers the range with every device; on failure with none. RS_ERR_INVALID_VALUE: no range or no
 * device set.
 */
enum rs_status rs_mmap_start(struct rs_mmap *mmap);

/*
 * Takes the registrations back; the map can be configured again. RS_ERR_IN_USE while buffers refer
 * to it.
 */
enum rs_status rs_mmap_stop(struct rs_mmap *mmap);

/* Any map. The range of a remote one is in the peer's address space. */
enum rs_status rs_mmap_get_memrange(const struct rs_mmap *mmap, uint64_t *address, size_t *length);

/*
 * The descriptor line (see descriptor.h) with which the peer reaches a started local map through
 * device. line: stays the map's, valid until it is stopped.
 */
enum rs_status rs_mmap_export(struct rs_mmap *mmap, const struct rs_device *device,
			      const char **line);

/*
 * A remote map from the line that the peer exported; the caller destroys it.
 * RS_ERR_BAD_DESCRIPTOR: damaged, or not a map's; the log has the reason.
 */
enum rs_status rs_mmap_create_from_export(const char *line, struct rs_mmap **mmap);

/* For tasks: the key of the map's registration with device (lkey), or of the peer's (rkey). */
enum rs_status rs_mmap_local_key(const struct rs_mmap *mmap, const struct rs_device *device,
				 uint32_t *lkey);
enum rs_status rs_mmap_remote_key(const struct rs_mmap *mmap, uint32_t *rkey);

/*
 * For buffers: while any refers to the map, it can be neither stopped nor destroyed.
 * RS_ERR_BAD_STATE: not started.
 */
enum rs_status rs_mmap_hold(struct rs_mmap *mmap);
void rs_mmap_release(struct rs_mmap *mmap);

#endif
