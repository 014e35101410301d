#include "faults.h"

#include <stdlib.h>
#include <string.h>

#include "../core/clock.h"

struct waiting {
	uint64_t due;
	struct ur_copy copy;
};

struct ur_faults {
	struct ur_fault_settings settings;
	struct ur_counters *counters;
	ur_faults_emit_fn emit;
	void *user_data;
	uint64_t state; /* of the generator for what goes out */
	uint64_t rx_state;

	bool holds; /* one that is to go behind the next */
	struct waiting held;

	/* Ring of packets whose delay has not ended, oldest first. */
	unsigned head;
	unsigned count;
	struct waiting queue[]; /* UR_FAULTS_QUEUE, if there is a delay */
};

struct ur_faults *ur_faults_create(const struct ur_fault_settings *settings,
				   struct ur_counters *counters, ur_faults_emit_fn emit,
				   void *user_data)
{
	size_t queue_size = settings->delay > 0 ? UR_FAULTS_QUEUE * sizeof(struct waiting) : 0;
	struct ur_faults *faults = malloc(sizeof(*faults) + queue_size);

	if (!faults)
		return NULL;
	*faults = (struct ur_faults){ .settings = *settings,
				      .counters = counters,
				      .emit = emit,
				      .user_data = user_data,
				      .state = settings->seed,
				      .rx_state = settings->seed };
	return faults;
}

void ur_faults_free(struct ur_faults *faults)
{
	free(faults);
}

/* A counter, its bits well mixed. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);

	mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
	return mixed ^ mixed >> 31;
}

static bool happens(uint64_t *state, uint32_t chance)
{
	return next_random(state) % UR_FAULTS_ALWAYS < chance;
}

static void copy_into(struct waiting *waiting, const struct ur_copy *copy, uint64_t due)
{
	waiting->due = due;
	memcpy(&waiting->copy, copy, offsetof(struct ur_copy, data) + copy->size);
}

/* The end of the way: out, or into the queue. */
static void pass(struct ur_faults *faults, const struct ur_copy *copy, uint64_t now)
{
	if (faults->settings.delay == 0) {
		faults->emit(faults->user_data, copy);
		return;
	}
	if (faults->count == UR_FAULTS_QUEUE) {
		faults->counters->fault_dropped++;
		return;
	}
	copy_into(&faults->queue[(faults->head + faults->count) % UR_FAULTS_QUEUE], copy,
		  now + faults->settings.delay);
	faults->count++;
	faults->counters->fault_delayed++;
}

static void release_held(struct ur_faults *faults, uint64_t now)
{
	faults->holds = false;
	pass(faults, &faults->held.copy, now);
}

static void flip_bit(struct ur_copy *copy, uint64_t random)
{
	uint64_t bit = random % (copy->size * UINT64_C(8));

	copy->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

void ur_faults_take(struct ur_faults *faults, struct ur_copy *copy, uint64_t now)
{
	/* Each packet takes as many random numbers, so that one fault's chance changes no other. */
	bool drop = happens(&faults->state, faults->settings.drop);
	bool dup = happens(&faults->state, faults->settings.dup);
	bool reorder = happens(&faults->state, faults->settings.reorder);
	bool corrupt = happens(&faults->state, faults->settings.corrupt);
	uint64_t bit = next_random(&faults->state);

	if (drop) {
		faults->counters->fault_dropped++;
		return;
	}
	if (corrupt) {
		faults->counters->fault_corrupted++;
		flip_bit(copy, bit);
	}
	if (reorder && !faults->holds) {
		faults->holds = true;
		copy_into(&faults->held, copy, now + UR_FAULTS_REORDER_NS);
		return;
	}
	pass(faults, copy, now);
	if (dup) {
		faults->counters->fault_duplicated++;
		pass(faults, copy, now);
	}
	if (faults->holds) {
		faults->counters->fault_reordered++;
		release_held(faults, now);
	}
}

bool ur_faults_lose(struct ur_faults *faults)
{
	/* Numbers of their own, so that what comes changes nothing for what goes out. */
	bool lost = happens(&faults->rx_state, faults->settings.rx_drop);

	faults->counters->fault_rx_dropped += lost;
	return lost;
}

uint64_t ur_faults_deadline(const struct ur_faults *faults)
{
	uint64_t held = faults->holds ? faults->held.due : UR_NEVER;
	uint64_t queued = faults->count > 0 ? faults->queue[faults->head].due : UR_NEVER;

	return held < queued ? held : queued;
}

void ur_faults_run(struct ur_faults *faults, uint64_t now)
{
	if (faults->holds && faults->held.due <= now)
		release_held(faults, now);
	while (faults->count > 0 && faults->queue[faults->head].due <= now) {
		const struct ur_copy *copy = &faults->queue[faults->head].copy;

		faults->head = (faults->head + 1) % UR_FAULTS_QUEUE;
		faults->count--;
		faults->emit(faults->user_data, copy);
	}
}
