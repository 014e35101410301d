#include "guid.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MACHINE_ID "/etc/machine-id"

#define LOCAL 0x02 /* in the first byte: not from an assigned number */
#define GROUP 0x01

#define MARK_AT 3 /* bytes from the start */

static const uint8_t mark[] = { 'u', 'r' };

static uint64_t from_mac(const uint8_t mac[6])
{
	const uint8_t bytes[8] = { mac[0] ^ LOCAL, mac[1], mac[2], mark[0],
				   mark[1],        mac[3], mac[4], mac[5] };
	uint64_t guid;

	memcpy(&guid, bytes, sizeof(guid));
	return guid;
}

/* FNV-1a, 64 bits. */
static uint64_t hash(uint64_t value, const char *text)
{
	for (; *text; text++)
		value = (value ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return value;
}

/* What names this machine, also after it has been started anew. */
static void read_machine_id(char *id, size_t size)
{
	FILE *file = fopen(MACHINE_ID, "re");
	bool found = file && fgets(id, (int)size, file);

	if (file)
		fclose(file);
	if (!found && gethostname(id, size) != 0)
		id[0] = '\0';
	id[size - 1] = '\0';
}

static uint64_t from_machine(const char *if_name)
{
	char id[64];
	uint64_t guid;
	uint8_t bytes[8];

	read_machine_id(id, sizeof(id));
	guid = hash(hash(UINT64_C(0xcbf29ce484222325), id), if_name);
	memcpy(bytes, &guid, sizeof(bytes));
	bytes[0] = (uint8_t)((bytes[0] | LOCAL) & ~GROUP);
	memcpy(bytes + MARK_AT, mark, sizeof(mark));
	memcpy(&guid, bytes, sizeof(guid));
	return guid;
}

uint64_t ur_guid_of(const uint8_t mac[6], const char *if_name)
{
	static const uint8_t none[6];

	return memcmp(mac, none, sizeof(none)) == 0 ? from_machine(if_name) : from_mac(mac);
}

bool ur_guid_is_uroce(uint64_t guid)
{
	return (guid >> 24 & 0xffff) == ((uint64_t)mark[0] << 8 | mark[1]);
}
