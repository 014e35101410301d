/*
 * Table: which processes of this user and network namespace use which devices, and with which
 * numbers. It keeps the choice of numbers in order and can be listed; whose a port is, binding
 * decides.
 *
 * It is a file in /dev/shm. Its lock is one that the system gives back when its holder dies
 * (flock), and nothing in the file is trusted, so no process can hold up or harm another through
 * it. Entries of dead processes are removed whenever the table is opened; the last process removes
 * the file.
 */
#ifndef UR_TABLE_H
#define UR_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UR_TABLE_CAPACITY     1024
#define UR_TABLE_DEVICE_SIZE  24
#define UR_TABLE_PROGRAM_SIZE 16

struct ur_table_entry {
	char device[UR_TABLE_DEVICE_SIZE];
	char program[UR_TABLE_PROGRAM_SIZE];
	uint64_t start_time; /* of the process: its number alone may be another's later */
	int32_t pid;
	uint8_t number;
	uint8_t owner; /* 1: of port 4791 */
	uint8_t unused[2];
};

struct ur_table;

/*
 * Opens and locks the table; the caller closes it soon. NULL: it cannot be had, or another process
 * does not give it back; the functions below take that, and then do nothing.
 */
struct ur_table *ur_table_open(void);
/* Writes what has changed. */
void ur_table_close(struct ur_table *table);

/* Adds an entry for this process. Returns false if there is no room. */
bool ur_table_add(struct ur_table *table, const char *device, uint8_t number, bool owner);
/* Removes it. */
void ur_table_remove(struct ur_table *table, const char *device, uint8_t number);
void ur_table_set_owner(struct ur_table *table, const char *device, uint8_t number);

/* The entries of all living processes; valid until close. */
const struct ur_table_entry *ur_table_list(const struct ur_table *table, size_t *count);

#endif
