#include "counters.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_asked_for(void)
{
	const char *value = getenv("UROCE_COUNTERS");

	return value && *value && strcmp(value, "0") != 0;
}

static void print(const char *device_name, const char *text, uint64_t value)
{
	if (value > 0)
		fprintf(stderr, "%s: %s: %" PRIu64 "\n", device_name, text, value);
}

void ur_counters_print(const char *device_name, const struct ur_counters *counters)
{
	if (!is_asked_for())
		return;
#define PRINT(name, text) print(device_name, text, counters->name);
	UR_COUNTERS(PRINT)
#undef PRINT
}
