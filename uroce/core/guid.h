/*
 * GUID: the number of 64 bits that names a device (node and system image) all over the world. Its
 * two bytes in the middle say that the device is uroce's:
 *
 *   of the interface's MAC m   | m0 ^ 2 | m1 | m2 | 'u' | 'r' | m3 | m4 | m5 |
 *   where there is none (lo)   | a hash of the machine's id and the interface's name, 'u' and 'r' in
 *                                the same place |
 *
 * An EUI-64 made of a MAC, as IPv6 and the kernel's rxe make it, has 0xff and 0xfe there. So the GUID is
 * another than that of rxe on the same interface, by which librdmacm tells devices apart; and the
 * connection manager sees that a peer is a process with uroce, whose kernel says nothing when it is
 * killed (see endpoint.h).
 */
#ifndef UR_GUID_H
#define UR_GUID_H

#include <stdbool.h>
#include <stdint.h>

/* Of an interface, in network order. mac: zeros: it has none. */
uint64_t ur_guid_of(const uint8_t mac[6], const char *if_name);

/* Whether it is of a uroce device. guid: host order. */
bool ur_guid_is_uroce(uint64_t guid);

#endif
