/*
 * The groups of cells.
 */
#ifndef GROUPS_H
#define GROUPS_H

#include "side.h"

/* Messages and one-sided operations of a connection: RC, UC. */
void run_reliable(struct side *side, enum family family, enum ibv_mtu mtu);
void run_unreliable(struct side *side, enum family family, enum ibv_mtu mtu);
/* Many at once, and in both directions. */
void run_load(struct side *side, enum family family, enum ibv_mtu mtu);
/* Memory windows, and what takes their keys back. */
void run_windows(struct side *side, enum family family, enum ibv_mtu mtu);
/* Datagrams, and one that is dropped. */
void run_datagrams(struct side *side, enum family family);
void run_dropped(struct side *side, enum family family);
/* What is refused, comes too late or not at all. */
void run_failures(struct side *side, enum family family, enum ibv_mtu mtu);

/* The service's name in names of cells, behind which come the path MTU and the family. */
const char *family_name(enum family family);
unsigned mtu_bytes(enum ibv_mtu mtu);

#endif
