/* SPDX-License-Identifier: MIT */
/*
 * select(2) and pselect(2) of descriptors that include io_uring rings of the library
 *
 * The library copies the program's sets. In the copy it replaces each ring by the
 * ring's bell, an eventfd that wakes polls of the ring (uring/bell.h).
 *
 * Tested by test/host/bells.c.
 */
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>

#include "base/check.h"
#include "base/symver.h"
#include "base/sys.h"
#include "ready/attend.h"
#include "uring/bell.h"
#include "uring/uring.h"
#include "host/host.h"

UAIO_EXPORT int select(int nr, fd_set *in, fd_set *out, fd_set *except,
		       struct timeval *timeout);
UAIO_EXPORT int pselect(int nr, fd_set *in, fd_set *out, fd_set *except,
			const struct timespec *timeout, const sigset_t *mask);

enum {
	BITS = 64,
	WORDS = UAIO_HOST_SELECTED_MAX / BITS,
	OUT = 1,
	NR_SETS = 3,
};

/* Next definitions of these functions (RTLD_NEXT); NULL until the library is loaded. */
static struct {
	int (*select)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
	int (*pselect)(int, fd_set *, fd_set *, fd_set *,
		       const struct timespec *, const sigset_t *);
} next;

void uaio_host_load_select(void)
{
	uaio_host_find("select", &next.select);
	uaio_host_find("pselect", &next.pselect);
}

/* The program's arguments: up to three sets of nr bits each. */
struct selected {
	int nr;
	/* NULL: the program passed no such set */
	uint64_t *sets[NR_SETS];
};

/* Copies of the program's sets, and the rings in them. */
struct copies {
	int nr;
	uint64_t asked[NR_SETS][WORDS]; /* the program's bits */
	/* the sets that are passed to the call: bells in place of rings */
	uint64_t words[NR_SETS][WORDS];
	unsigned nr_rings;
	struct polled {
		struct uaio_uring *ring; /* shares (ref) */
		int fd, bell;
	} rings[UAIO_HOST_SELECTED_RINGS_MAX];
};

static bool has(const uint64_t *words, int fd)
{
	return words[fd / BITS] >> fd % BITS & 1;
}

static void put(uint64_t *words, int fd)
{
	words[fd / BITS] |= 1ull << fd % BITS;
}

static void drop(uint64_t *words, int fd)
{
	words[fd / BITS] &= ~(1ull << fd % BITS);
}

static size_t nr_words(int nr)
{
	return ((size_t)nr + BITS - 1) / BITS;
}

static bool has_ring(const uint64_t *words, int nr)
{
	for (int first = 0; first < nr; first += BITS)
		for (uint64_t bits = words[first / BITS]; bits;
		     bits &= bits - 1) {
			int fd = first + __builtin_ctzll(bits);

			if (fd < nr && uaio_uring_is_known(fd))
				return true;
		}
	return false;
}

/*
 * Before a select(): make each ring's bell (uring/bell.h) readable if the ring has
 * completions, and otherwise not.
 * Return: whether the sets contain rings.
 */
static bool selects_rings(const struct selected *selected)
{
	bool has_some = false;

	uaio_uring_bells_settle();
	if (selected->nr <= 0 || selected->nr > UAIO_HOST_SELECTED_MAX)
		return false;
	for (int i = 0; i < NR_SETS; i++) {
		const uint64_t *words = selected->sets[i];

		if (!words)
			continue;
		if (!uaio_host_can_read(words, nr_words(selected->nr) *
						       sizeof(*words)))
			return false;
		has_some |= has_ring(words, selected->nr);
	}
	return has_some;
}

/* If fd is a ring, replace fd in the copied sets by the ring's bell (uring/bell.h). */
static void replace(struct copies *copies, int fd)
{
	struct uaio_uring_bell bell;

	if (copies->nr_rings == UAIO_HOST_SELECTED_RINGS_MAX)
		return;
	bell = uaio_uring_bell_get(fd);
	if (!bell.ring || bell.fd >= UAIO_HOST_SELECTED_MAX) {
		uaio_uring_bell_put(bell.ring);
		return;
	}
	copies->rings[copies->nr_rings++] = (struct polled){
		.ring = bell.ring,
		.fd = fd,
		.bell = bell.fd,
	};
	for (int i = 0; i < NR_SETS; i++) {
		if (!has(copies->asked[i], fd))
			continue;
		drop(copies->words[i], fd);
		if (i != OUT || !bell.is_full)
			put(copies->words[i], bell.fd);
	}
	if (bell.fd >= copies->nr)
		copies->nr = bell.fd + 1;
}

static void copy(struct copies *copies, const struct selected *selected)
{
	size_t words = nr_words(selected->nr);

	memset(copies, 0, offsetof(struct copies, rings));
	copies->nr = selected->nr;
	for (int i = 0; i < NR_SETS; i++) {
		if (!selected->sets[i])
			continue;
		memcpy(copies->asked[i], selected->sets[i],
		       words * sizeof(uint64_t));
		/* Clear the bits from nr on, which are not part of the set. */
		if (selected->nr % BITS)
			copies->asked[i][words - 1] &=
				(1ull << selected->nr % BITS) - 1;
	}
	memcpy(copies->words, copies->asked, sizeof(copies->words));
	for (int fd = 0; fd < selected->nr; fd++)
		if ((has(copies->asked[0], fd) || has(copies->asked[1], fd) ||
		     has(copies->asked[2], fd)) &&
		    uaio_uring_is_known(fd))
			replace(copies, fd);
}

/* Return: the copied set with index i; NULL if the program passed no such set. */
static fd_set *set_of(struct copies *copies, const struct selected *selected,
		      int i)
{
	return selected->sets[i] ? (fd_set *)(void *)copies->words[i] : NULL;
}

/*
 * The call has set the bits of ready bells in set i: also set the bits of their rings.
 */
static void put_rings(struct copies *copies, int i)
{
	for (unsigned nr = 0; nr < copies->nr_rings; nr++) {
		const struct polled *polled = &copies->rings[nr];

		if (has(copies->words[i], polled->bell))
			put(copies->words[i], polled->fd);
	}
}

/*
 * Write the ready descriptors to the program's sets.
 * Return: the number of bits that are set in them, the result of select().
 */
static int tell(const struct selected *selected, struct copies *copies)
{
	size_t words = nr_words(selected->nr);
	int nr_ready = 0;

	for (int i = 0; i < NR_SETS; i++) {
		uint64_t *set = selected->sets[i];

		if (!set)
			continue;
		put_rings(copies, i);
		for (size_t word = 0; word < words; word++) {
			set[word] =
				copies->words[i][word] & copies->asked[i][word];
			nr_ready += __builtin_popcountll(set[word]);
		}
	}
	return nr_ready;
}

/*
 * The call with the copied sets has returned ret.
 * Return: the result for the program.
 */
static int answer(const struct selected *selected, struct copies *copies,
		  long ret)
{
	if (ret >= 0)
		ret = tell(selected, copies);
	for (unsigned nr = 0; nr < copies->nr_rings; nr++)
		uaio_uring_bell_put(copies->rings[nr].ring);
	return (int)ret;
}

static __attribute__((noinline)) int
select_rings(const struct selected *selected, struct timeval *timeout)
{
	struct copies copies;
	int ret;

	copy(&copies, selected);
	ret = UAIO_HOST_NEXT(select)(copies.nr, set_of(&copies, selected, 0),
				     set_of(&copies, selected, 1),
				     set_of(&copies, selected, 2), timeout);
	return answer(selected, &copies, ret);
}

static __attribute__((noinline)) int
pselect_rings(const struct selected *selected, const struct timespec *timeout,
	      const sigset_t *mask)
{
	struct copies copies;
	int ret;

	copy(&copies, selected);
	ret = UAIO_HOST_NEXT(pselect)(copies.nr, set_of(&copies, selected, 0),
				      set_of(&copies, selected, 1),
				      set_of(&copies, selected, 2), timeout,
				      mask);
	return answer(selected, &copies, ret);
}

static __attribute__((noinline)) long
raw_select_rings(const struct selected *selected, long nr, const long a[6])
{
	struct copies copies;
	long ret;

	copy(&copies, selected);
	ret = uaio_sys6(nr, copies.nr, (long)set_of(&copies, selected, 0),
			(long)set_of(&copies, selected, 1),
			(long)set_of(&copies, selected, 2), a[4], a[5]);
	return answer(selected, &copies, ret);
}

static struct selected selected_of(int nr, void *in, void *out, void *except)
{
	return (struct selected){ .nr = nr, .sets = { in, out, except } };
}

long uaio_host_raw_select(long nr, const long a[6])
{
	struct selected selected = selected_of((int)a[0], (void *)a[1],
					       (void *)a[2], (void *)a[3]);

	uaio_attend_awake();
	if (unlikely(uaio_uring_has_rings()) && selects_rings(&selected))
		return raw_select_rings(&selected, nr, a);
	return uaio_sys6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int select(int nr, fd_set *in, fd_set *out, fd_set *except,
	   struct timeval *timeout)
{
	struct selected selected = selected_of(nr, in, out, except);

	uaio_attend_awake();
	if (unlikely(uaio_uring_has_rings()) && selects_rings(&selected))
		return select_rings(&selected, timeout);
	return UAIO_HOST_NEXT(select)(nr, in, out, except, timeout);
}

int pselect(int nr, fd_set *in, fd_set *out, fd_set *except,
	    const struct timespec *timeout, const sigset_t *mask)
{
	struct selected selected = selected_of(nr, in, out, except);

	uaio_attend_awake();
	if (unlikely(uaio_uring_has_rings()) && selects_rings(&selected))
		return pselect_rings(&selected, timeout, mask);
	return UAIO_HOST_NEXT(pselect)(nr, in, out, except, timeout, mask);
}
