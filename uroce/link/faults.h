/*
 * Faults: what a bad network does to packets, repeatably. The same packets with the same settings
 * meet the same faults.
 *
 *   UROCE_FAULTS="drop=5%,dup=1%,reorder=1%,corrupt=0.1%,delay=2ms,seed=7"
 *
 *   drop     the packet is lost
 *   dup      it is sent twice
 *   reorder  it is sent behind the next one, but not later than 1 ms
 *   corrupt  one bit of it is wrong
 *   delay    all packets arrive that much later, in order
 *   rx_drop  a packet that has come is lost, as if it had not
 *   seed     of the generator of random numbers; default 0
 */
#ifndef UR_FAULTS_H
#define UR_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "../core/counters.h"
#include "copy.h"

/* Chances are parts of 10^9. */
#define UR_FAULTS_ALWAYS UINT32_C(1000000000)

struct ur_fault_settings {
	uint32_t drop;
	uint32_t dup;
	uint32_t reorder;
	uint32_t corrupt;
	uint32_t rx_drop;
	uint64_t delay; /* ns */
	uint64_t seed;
};

/* The longest delay, and how many packets can wait for its end; more are dropped. */
#define UR_FAULTS_MAX_DELAY UINT64_C(1000000000)
#define UR_FAULTS_QUEUE     2048

#define UR_FAULTS_REORDER_NS UINT64_C(1000000)

/* Reads settings as above. Returns 0, or EINVAL and logs what is wrong. */
int ur_fault_settings_parse(const char *text, struct ur_fault_settings *settings);

/* Called for each packet that goes out. */
typedef void (*ur_faults_emit_fn)(void *user_data, const struct ur_copy *copy);

struct ur_faults;

/* NULL: no memory. The caller frees it. */
struct ur_faults *ur_faults_create(const struct ur_fault_settings *settings,
				   struct ur_counters *counters, ur_faults_emit_fn emit,
				   void *user_data);
/* Packets that wait are lost. NULL is allowed. */
void ur_faults_free(struct ur_faults *faults);

/* Takes a packet. May change it. now: CLOCK_MONOTONIC, ns. */
void ur_faults_take(struct ur_faults *faults, struct ur_copy *copy, uint64_t now);

/* Whether a packet that has come is to be lost, and counts it. */
bool ur_faults_lose(struct ur_faults *faults);

/* When the next of those that wait is due; UINT64_MAX: none waits. */
uint64_t ur_faults_deadline(const struct ur_faults *faults);
/* Emits what is due. */
void ur_faults_run(struct ur_faults *faults, uint64_t now);

#endif
