#include "block.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pd.h"

static void *ask_program(struct ur_pd *pd, enum ur_block_use use, size_t size)
{
	void *memory = pd->alloc(&pd->verbs, pd->pd_context, size, UR_BLOCK_ALIGNMENT, use);

	if (memory && memory != IBV_ALLOCATOR_USE_DEFAULT)
		memset(memory, 0, size);
	return memory;
}

int ur_block_init(struct ur_block *block, struct ur_pd *pd, enum ur_block_use use, size_t size)
{
	*block = (struct ur_block){ .memory = IBV_ALLOCATOR_USE_DEFAULT, .use = use };
	size = size ? size : 1;
	if (pd && pd->alloc)
		block->memory = ask_program(pd, use, size);
	if (block->memory == IBV_ALLOCATOR_USE_DEFAULT)
		block->memory = calloc(1, size);
	else
		block->pd = pd;
	return block->memory ? 0 : ENOMEM;
}

void ur_block_free(struct ur_block *block)
{
	struct ur_pd *pd = block->pd;

	if (!pd)
		free(block->memory);
	else if (block->memory)
		pd->free(&pd->verbs, pd->pd_context, block->memory, block->use);
	*block = (struct ur_block){ 0 };
}
