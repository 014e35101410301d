#include "inbox.h"

#include <errno.h>
#include <stdlib.h>

int ur_inbox_create(struct ur_inbox *inbox)
{
	*inbox = (struct ur_inbox){ calloc(UR_INBOX_SIZE, sizeof(*inbox->entries)), 0, 0 };
	return inbox->entries ? 0 : ENOMEM;
}

bool ur_inbox_put(struct ur_inbox *inbox, const struct ur_inbox_entry *entry)
{
	if (inbox->count == UR_INBOX_SIZE)
		return false;
	inbox->entries[(inbox->first + inbox->count) % UR_INBOX_SIZE] = *entry;
	inbox->count++;
	return true;
}

bool ur_inbox_take(struct ur_inbox *inbox, struct ur_inbox_entry *entry)
{
	if (inbox->count == 0)
		return false;
	*entry = inbox->entries[inbox->first];
	inbox->first = (inbox->first + 1) % UR_INBOX_SIZE;
	inbox->count--;
	return true;
}
