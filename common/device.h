/*
 * Device: an RDMA device, found by name or as the best one for the operations wanted, and opened.
 *
 * An opened device owns the protection domain in which memory maps register and RDMA instances make
 * their queue pairs: only so can a map be made before the instance that uses it. A device and all
 * that is made on it belong to one thread.
 */
#ifndef RS_DEVICE_H
#define RS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "op.h"
#include "status.h"

struct rs_device;

/* In the order of preference. */
enum rs_device_kind {
	RS_DEVICE_HARDWARE,
	RS_DEVICE_KERNEL_SOFTWARE, /* rxe */
	RS_DEVICE_UROCE,           /* the software device in user space */
};

/* What is known of a device before it is opened for use. */
struct rs_device_info {
	char name[IBV_SYSFS_NAME_MAX];
	enum rs_device_kind kind;
	uint32_t ops; /* set of RS_OP_BIT: what it can do over reliable connections */
	bool active;  /* some port is active */
	uint8_t port; /* the first active port, else 1 */
};

/* Size of a text that rs_gid_text writes. */
#define RS_GID_TEXT_SIZE 64

/*
 * Lists the devices of this machine that may be opened, best first.
 * list: *count entries; free it with rs_device_list_free. No device is an empty list, not an error.
 * Source: man ibv_get_device_list, ibv_query_device_ex.
 */
enum rs_status rs_device_list(struct rs_device_info **list, size_t *count);
void rs_device_list_free(struct rs_device_info *list);

/* Whether the device can do the operation (DOCA asks this per task type as well). */
bool rs_device_supports(const struct rs_device_info *info, enum rs_op op);

/*
 * Opens the device called name; name NULL: the best active one that can do all of ops (set of
 * RS_OP_BIT). RS_ERR_NOT_FOUND: there is none of that name, none at all, or none active; the log
 * lists those there are. RS_ERR_NOT_SUPPORTED: it cannot do ops. The caller closes the device.
 */
enum rs_status rs_device_open(const char *name, uint32_t ops, struct rs_device **device);

/* RS_ERR_IN_USE while a map or an instance is on it. NULL is allowed. */
enum rs_status rs_device_close(struct rs_device *device);

/* What the list says of the opened device. */
const struct rs_device_info *rs_device_info(const struct rs_device *device);

/* Capabilities as verbs report them; the device keeps them. */
const struct ibv_device_attr *rs_device_attr(const struct rs_device *device);
const struct ibv_port_attr *rs_device_port_attr(const struct rs_device *device);

/* The verbs objects, for calls that this layer does not make. They stay the device's. */
struct ibv_context *rs_device_verbs(const struct rs_device *device);
struct ibv_pd *rs_device_pd(const struct rs_device *device);

/*
 * Chooses an entry of the port's GID table.
 * index -1: the first RoCE v2 GID that holds an IPv4 address, else the first RoCE v2 one, else the
 * first there is (InfiniBand); link-local IPv6 addresses come after routable ones.
 * RS_ERR_INVALID_VALUE: index is outside the table; RS_ERR_NOT_FOUND: that entry, or the whole
 * table, is empty. The log lists the entries there are. Source: man ibv_query_gid_ex.
 */
enum rs_status rs_device_choose_gid(const struct rs_device *device, int index,
				    struct ibv_gid_entry *entry);

/* A GID in the form of an IPv6 address: "::ffff:192.0.2.1". Returns text, RS_GID_TEXT_SIZE bytes.
 */
const char *rs_gid_text(const union ibv_gid *gid, char text[RS_GID_TEXT_SIZE]);

/* "ib", "rocev1" or "rocev2". gid_type: enum ibv_gid_type. */
const char *rs_gid_type_name(uint32_t gid_type);

/* It has said that it is broken; what is on it returns nothing more. */
void rs_device_set_failed(struct rs_device *device);
bool rs_device_has_failed(const struct rs_device *device);

/* For the objects made on the device: while any is held, it cannot be closed. */
void rs_device_hold(struct rs_device *device);
void rs_device_release(struct rs_device *device);

#endif
