#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "../core/log.h"
#include "faults.h"

static const char allowed[] =
	"allowed are drop, dup, reorder, corrupt, rx_drop (0% to 100%), delay (0ms to 1000ms, or in us) and seed (a number), as in drop=5%,dup=0.1%,delay=2ms,seed=7";

/* Reads a number; moves *text behind it. */
static bool read_number(const char **text, uint64_t *number)
{
	const char *at = *text;

	*number = 0;
	for (; *at >= '0' && *at <= '9'; at++) {
		if (__builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, (uint64_t)(*at - '0'), number))
			return false;
	}
	if (at == *text)
		return false;
	*text = at;
	return true;
}

/* Digits behind a point, as parts of 10^7: a percent has that many parts of 10^9. */
static bool read_fraction(const char **text, uint64_t *fraction)
{
	const char *start = *text;
	uint64_t number;
	long digits;

	if (!read_number(text, &number))
		return false;
	digits = *text - start;
	if (digits > 7)
		return false;
	for (*fraction = number; digits < 7; digits++)
		*fraction *= 10;
	return true;
}

static bool read_chance(const char *text, uint32_t *chance)
{
	uint64_t percent, fraction = 0;

	if (!read_number(&text, &percent))
		return false;
	if (*text == '.') {
		text++;
		if (!read_fraction(&text, &fraction))
			return false;
	}
	if (strcmp(text, "%") != 0 || percent > 100 || (percent == 100 && fraction > 0))
		return false;
	*chance = (uint32_t)(percent * (UR_FAULTS_ALWAYS / 100) + fraction);
	return true;
}

static bool read_delay(const char *text, uint64_t *delay)
{
	uint64_t number, unit;

	if (!read_number(&text, &number))
		return false;
	if (strcmp(text, "ms") == 0)
		unit = 1000 * 1000;
	else if (strcmp(text, "us") == 0)
		unit = 1000;
	else
		return false;
	return !__builtin_mul_overflow(number, unit, delay) && *delay <= UR_FAULTS_MAX_DELAY;
}

static bool read_seed(const char *text, uint64_t *seed)
{
	return read_number(&text, seed) && *text == '\0';
}

static bool read_setting(const char *name, const char *value, struct ur_fault_settings *settings)
{
	if (strcmp(name, "drop") == 0)
		return read_chance(value, &settings->drop);
	if (strcmp(name, "dup") == 0)
		return read_chance(value, &settings->dup);
	if (strcmp(name, "reorder") == 0)
		return read_chance(value, &settings->reorder);
	if (strcmp(name, "corrupt") == 0)
		return read_chance(value, &settings->corrupt);
	if (strcmp(name, "rx_drop") == 0)
		return read_chance(value, &settings->rx_drop);
	if (strcmp(name, "delay") == 0)
		return read_delay(value, &settings->delay);
	if (strcmp(name, "seed") == 0)
		return read_seed(value, &settings->seed);
	return false;
}

/* One "name=value"; it is cut in two. */
static bool read_item(char *item, struct ur_fault_settings *settings)
{
	char *value = strchr(item, '=');

	if (!value)
		return false;
	*value++ = '\0';
	return read_setting(item, value, settings);
}

int ur_fault_settings_parse(const char *text, struct ur_fault_settings *settings)
{
	*settings = (struct ur_fault_settings){ 0 };
	for (;;) {
		size_t length = strcspn(text, ",");
		char item[64] = "";

		if (length < sizeof(item))
			memcpy(item, text, length);
		if (!read_item(item, settings)) {
			ur_log(UR_LOG_ERROR, "UROCE_FAULTS: \"%.*s\" is not understood: %s",
			       (int)length, text, allowed);
			return EINVAL;
		}
		if (text[length] == '\0')
			return 0;
		text += length + 1;
	}
}
