/* SPDX-License-Identifier: MIT */
/*
 * Restrictions and personalities: which operations a ring allows, and with whose
 * credentials
 *
 * Restrictions: while a ring is still disabled, a client can register a list of allowed
 * opcodes of submissions and of io_uring_register(), and of allowed flags of
 * submissions. Once the ring is enabled, the list cannot change any more. If a child of
 * fork() takes the ring over, the list also restricts the child.
 *
 * Personalities: each is a number, for the credentials that a thread had when it
 * registered them. The kernel executes a request with these credentials. The library
 * executes a request with the credentials of the process, so it accepts a personality
 * only from a thread that has the same credentials now.
 *
 *   I1  Users, groups and capabilities are compared by a hash. If two hashes collide,
 *       the library accepts a wrong personality; but the request still runs with the
 *       credentials that the thread has anyway.
 *
 * Context: the thread holds the ring (ring.h, I2), unless said otherwise.
 *
 * Tested by test-uring-restrict.c.
 */
#include <errno.h>
#include <sys/mman.h>

#include "base/asked.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "uring/abi.h"
#include "uring/calls.h"
#include "uring/ring.h"

/*
 * Restrictions
 */

enum {
	/* The kernel's limit: one entry for each opcode or flag that can be allowed. */
	RESTRICTIONS_MAX = IORING_RESTRICTION_LAST + UAIO_URING_REGISTER_END +
			   UAIO_URING_OP_LAST,
};

/*
 * Add a restriction that the client has described.
 * Return: 0; -EINVAL: the kind of restriction, or the opcode, is unknown.
 */
static int add(struct uaio_uring_restrictions *to,
	       const struct io_uring_restriction *what)
{
	switch (what->opcode) {
	case IORING_RESTRICTION_REGISTER_OP:
		if (what->register_op >= UAIO_URING_REGISTER_END)
			return -EINVAL;
		to->register_ops |= 1ull << what->register_op;
		return 0;
	case IORING_RESTRICTION_SQE_OP:
		if (what->sqe_op >= UAIO_URING_OP_LAST)
			return -EINVAL;
		to->sqe_ops |= 1ull << what->sqe_op;
		return 0;
	case IORING_RESTRICTION_SQE_FLAGS_ALLOWED:
		to->sqe_flags_allowed = what->sqe_flags;
		return 0;
	case IORING_RESTRICTION_SQE_FLAGS_REQUIRED:
		to->sqe_flags_required = what->sqe_flags;
		return 0;
	default: return -EINVAL;
	}
}

long uaio_uring_restrict(struct uaio_uring *ring, const void *arg, uint32_t nr)
{
	struct uaio_uring_restrictions all = { .is_registered = true };
	struct io_uring_restriction what[RESTRICTIONS_MAX];
	int ret = 0;

	/*
	 * relaxed: if another thread enables the ring, the client orders both calls
	 */
	if (!load_relaxed(&ring->is_disabled))
		return -EBADFD;
	if (ring->restrictions.is_registered)
		return -EBUSY;
	if (!arg || nr > RESTRICTIONS_MAX)
		return -EINVAL;
	if (nr &&
	    uaio_uring_copy_in(what, (uintptr_t)arg, nr * sizeof(what[0])) < 0)
		return -EFAULT;
	for (uint32_t i = 0; i < nr && ret == 0; i++)
		ret = add(&all, &what[i]);
	if (ret == 0)
		ring->restrictions = all;
	return ret;
}

bool uaio_uring_is_allowed(const struct uaio_uring *ring,
			   const struct io_uring_sqe *raw)
{
	const struct uaio_uring_restrictions *only = &ring->restrictions;
	const uint8_t required = only->sqe_flags_required;

	return raw->opcode < UAIO_URING_OP_LAST &&
	       only->sqe_ops >> raw->opcode & 1 &&
	       (raw->flags & required) == required &&
	       !(raw->flags & ~(only->sqe_flags_allowed | required));
}

int uaio_uring_check_register(const struct uaio_uring *ring, uint32_t opcode)
{
	/*
	 * relaxed, both: if another thread enables the ring, the client orders both
	 * calls; restrictions are immutable once the ring is restricted
	 */
	const void *owner = load_relaxed(&ring->owner);

	if (owner && owner != &uaio_entry)
		return -EEXIST;
	return likely(!load_relaxed(&ring->is_restricted)) ||
			       ring->restrictions.register_ops >> opcode & 1
		       ? 0
		       : -EACCES;
}

/*
 * Personalities
 */

enum {
	NR_IDS = 1 << 16,
	GROUPS_MAX = 1 << 16, /* the kernel's NGROUPS_MAX */
};

/* Add memory to an FNV-1a hash. */
static void add_to(uint64_t *hash, const void *memory, size_t bytes)
{
	const uint64_t prime = 0x100000001b3;

	for (size_t i = 0; i < bytes; i++)
		*hash = (*hash ^ ((const uint8_t *)memory)[i]) * prime;
}

/* Hash the thread's supplementary groups. Return: 0; -errno if they cannot be read. */
static int add_groups(uint64_t *hash)
{
	size_t bytes = GROUPS_MAX * sizeof(uint32_t);
	uint32_t *groups = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS);
	int nr;

	if (sys_is_map_error(groups))
		return -ENOMEM;
	nr = sys_getgroups(GROUPS_MAX, groups);
	if (nr > 0)
		add_to(hash, groups, (size_t)nr * sizeof(*groups));
	(void)sys_munmap(groups, bytes);
	return nr < 0 ? nr : 0;
}

/* Hash the thread's capabilities. Return: 0; -errno if they cannot be read. */
static int add_capabilities(uint64_t *hash)
{
	struct {
		uint32_t version;
		int pid;
	} header = { 0x20080522, 0 };
	uint32_t capabilities[6];
	int ret = sys_capget(&header, capabilities);

	if (ret == 0)
		add_to(hash, capabilities, sizeof(capabilities));
	return ret;
}

/*
 * Hash this thread's credentials to a value that is not 0.
 * Return: 0; -errno if the credentials cannot be read.
 */
static int credentials(uint64_t *ret)
{
	uint64_t hash = 0xcbf29ce484222325;
	long files[2] = { sys_getfsuid(), sys_getfsgid() };
	uint32_t users[3], groups[3];
	int error = files[0] < 0 || files[1] < 0 ? -ENOSYS : 0;

	if (error == 0)
		error = sys_getresuid(users);
	if (error == 0)
		error = sys_getresgid(groups);
	if (error == 0)
		error = add_groups(&hash);
	if (error == 0)
		error = add_capabilities(&hash);
	if (error)
		return error;
	add_to(&hash, files, sizeof(files));
	add_to(&hash, users, sizeof(users));
	add_to(&hash, groups, sizeof(groups));
	*ret = hash | 1;
	return 0;
}

/* Allocate the array of personalities. Return: 0 or -ENOMEM. */
static int make_room(struct uaio_uring *ring)
{
	void *all;

	if (ring->personalities)
		return 0;
	all = sys_mmap(NULL, NR_IDS * sizeof(*ring->personalities),
		       PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
	if (sys_is_map_error(all))
		return -ENOMEM;
	ring->personalities = all;
	ring->next_personality = 1;
	return 0;
}

long uaio_uring_register_personality(struct uaio_uring *ring, const void *arg,
				     uint32_t nr)
{
	uint64_t now;

	if (arg || nr || credentials(&now) < 0)
		return -EINVAL;
	if (make_room(ring) < 0)
		return -ENOMEM;
	/*
	 * Give out the numbers in turn, so that a freed number is not reused soon. 0
	 * means no personality.
	 */
	for (uint32_t i = 0; i < NR_IDS; i++) {
		uint32_t id = (ring->next_personality + i) % NR_IDS;

		if (!id || ring->personalities[id])
			continue;
		ring->personalities[id] = now;
		ring->next_personality = id + 1;
		return id;
	}
	return -EBUSY;
}

long uaio_uring_unregister_personality(struct uaio_uring *ring, const void *arg,
				       uint32_t id)
{
	if (arg || id >= NR_IDS || !ring->personalities ||
	    !ring->personalities[id])
		return -EINVAL;
	ring->personalities[id] = 0;
	return 0;
}

int uaio_uring_check_personality(const struct uaio_uring *ring, uint32_t id)
{
	uint64_t now;

	if (!ring->personalities || !ring->personalities[id])
		return -EINVAL;
	return credentials(&now) < 0 || now != ring->personalities[id] ? -EACCES
								       : 0;
}

void uaio_uring_forget_personalities(struct uaio_uring *ring)
{
	if (ring->personalities)
		(void)sys_munmap(ring->personalities,
				 NR_IDS * sizeof(*ring->personalities));
	ring->personalities = NULL;
}
