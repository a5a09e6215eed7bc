/* SPDX-License-Identifier: MIT */
/*
 * Destroying and cancelling for a thread whose descriptor table is not the
 * engine's: the agent does it (table.h).
 */
#include "proc/table.h"
#include "aio/handle.h"

struct target {
	uint64_t handle;
	uint64_t obj;
};

static long destroy_for_other(const void *arg)
{
	return uaio_ctx_destroy(*(const uint64_t *)arg);
}

int uaio_ctx_destroy_parted(uint64_t handle)
{
	return (int)uaio_table_call(destroy_for_other, &handle, true);
}

static long cancel_for_other(const void *arg)
{
	const struct target *target = arg;

	return uaio_ctx_cancel(target->handle, target->obj);
}

int uaio_ctx_cancel_parted(uint64_t handle, uint64_t obj)
{
	const struct target target = { handle, obj };

	return (int)uaio_table_call(cancel_for_other, &target, true);
}

static long cancel_one_for_other(const void *arg)
{
	const struct target *target = arg;

	return uaio_ctx_cancel_one(target->handle, target->obj);
}

int uaio_ctx_cancel_one_parted(uint64_t handle, uint64_t obj)
{
	const struct target target = { handle, obj };

	return (int)uaio_table_call(cancel_one_for_other, &target, true);
}

static long cancel_all_for_other(const void *arg)
{
	return uaio_ctx_cancel_all(*(const uint64_t *)arg);
}

int uaio_ctx_cancel_all_parted(uint64_t handle)
{
	return (int)uaio_table_call(cancel_all_for_other, &handle, true);
}
