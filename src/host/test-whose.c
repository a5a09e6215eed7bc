/* SPDX-License-Identifier: MIT */
/*
 * Tests whether a program gets an io_uring of the kernel or of the library. A hook in
 * base/sys.h returns results in the kernel's place, and stubs replace the library's
 * rings.
 */
#undef NDEBUG
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/calls.h"
#include "base/io_uring.h"
#include "base/sys.h"
#include "host/host.h"
#include "options/config.h"
#include "uring/uring.h"
#include "unit.h"

enum {
	OUR_FD = 1000,
	/* index of a registered ring of the library in this thread */
	OUR_INDEX = 3,
	KERNELS_FD = 1001,
	OURS = 70001, /* the stubs' result */
	NR_CALLS = 3,
	FIRST = SYS_io_uring_setup,
};

static struct {
	/* what the hook returns for each of the three system calls of io_uring */
	long answers[NR_CALLS];
	unsigned nr_asked[NR_CALLS];
	unsigned nr_ours[NR_CALLS];
	/* arguments with which a stub was last called */
	long args[6];
	/* error that the stub of io_uring_setup() returns; 0: it returns OURS */
	long our_error;
	bool attaches, loses_slot;
	int ring_file;
} seen;

/* Stubs in place of the library's rings */

static long ours(long nr, const long args[6])
{
	seen.nr_ours[nr - FIRST]++;
	memcpy(seen.args, args, sizeof(seen.args));
	return OURS;
}

long uaio_uring_setup(uint32_t nr_entries, struct io_uring_params *params)
{
	long ret = ours(SYS_io_uring_setup,
			(const long[6]){ nr_entries, (long)params });

	return seen.our_error ? seen.our_error : ret;
}

long uaio_uring_enter(uint32_t fd, uint32_t to_submit, uint32_t min_complete,
		      uint32_t flags, const void *arg, size_t arg_bytes)
{
	return ours(SYS_io_uring_enter,
		    (const long[6]){ fd, to_submit, min_complete, flags,
				     (long)arg, (long)arg_bytes });
}

long uaio_uring_register(uint32_t fd, uint32_t opcode, void *arg,
			 uint32_t nr_args)
{
	return ours(SYS_io_uring_register,
		    (const long[6]){ fd, opcode, (long)arg, nr_args });
}

bool uaio_uring_owns_message(uint32_t fd, uint32_t opcode, const void *arg)
{
	(void)fd;
	(void)opcode;
	(void)arg;
	return false;
}

bool uaio_uring_owns(uint32_t fd, bool is_registered)
{
	return fd == (is_registered ? OUR_INDEX : OUR_FD);
}

bool uaio_uring_may_complete(uint32_t fd, bool is_registered)
{
	(void)fd;
	(void)is_registered;
	return false;
}

bool uaio_uring_note_kernels(long ret, const struct io_uring_params *params)
{
	(void)ret;
	(void)params;
	return !seen.loses_slot;
}

bool uaio_uring_attaches_to_ours(const struct io_uring_params *params)
{
	(void)params;
	return seen.attaches;
}

long uaio_uring_register_kernels(const long a[4])
{
	return uaio_sys6(SYS_io_uring_register, a[0], a[1], a[2], a[3], 0, 0);
}

void uaio_uring_note_mapped(int fd, const void *at, int64_t offset)
{
	(void)fd;
	(void)at;
	(void)offset;
}

int64_t uaio_uring_map_offset(int fd, int64_t offset)
{
	return fd == seen.ring_file && offset == (int64_t)IORING_OFF_CQ_RING
		       ? 0
		       : offset;
}

/*
 * mmap.c calls these functions; their own source files are not linked into this test.
 */

long uaio_host_error(long res)
{
	if ((unsigned long)res < (unsigned long)-4095)
		return res;
	errno = (int)-res;
	return -1;
}

void uaio_host_prove_identity(void)
{
}

void uaio_host_find(const char *name, void *ret_function)
{
	(void)name;
	*(void **)ret_function = NULL;
}

/*
 * The kernel
 */

static bool answer(long nr, const long args[6], long *ret_res)
{
	(void)args;
	if (nr < FIRST || nr >= FIRST + NR_CALLS)
		return false;
	seen.nr_asked[nr - FIRST]++;
	*ret_res = seen.answers[nr - FIRST];
	return true;
}

static void begin(enum uaio_uring_when when, long answer_of_all)
{
	memset(&seen, 0, sizeof(seen));
	for (unsigned i = 0; i < NR_CALLS; i++)
		seen.answers[i] = answer_of_all;
	uaio_config.uring = when;
	unit_hook(answer);
}

/*
 * Forbid the three system calls of io_uring, as a seccomp filter would.
 * Return: the set of calls allowed before.
 */
static struct uaio_call_set filter(void)
{
	struct uaio_call_set all = uaio_calls;

	uaio_call_forbid(UAIO_CALL_URING_SETUP);
	uaio_call_forbid(UAIO_CALL_URING_ENTER);
	uaio_call_forbid(UAIO_CALL_URING_REGISTER);
	return all;
}

/*
 * Make the three system calls of io_uring. Check that all have the same result.
 * Return: this result.
 */
static long call_all(uint32_t fd)
{
	const long args[6] = { fd };
	long ret = uaio_host_uring_setup(1, 0);

	assert_int_equal(uaio_host_uring_enter(args), ret);
	assert_int_equal(uaio_host_uring_register(args), ret);
	return ret;
}

static void expect_asked(unsigned nr)
{
	for (unsigned i = 0; i < NR_CALLS; i++)
		assert_int_equal(seen.nr_asked[i], nr);
}

static void what_the_kernel_refuses_is_ours(void **state)
{
	static const long refusals[] = { -EPERM, -ENOSYS, -EACCES };
	static const long others[] = { 7, 0, -EFAULT, -EINVAL, -EMFILE };

	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(refusals); i++) {
		begin(UAIO_URING_AUTO, refusals[i]);
		assert_int_equal(uaio_host_uring_setup(8, 64), OURS);
		assert_int_equal(seen.nr_asked[0], 1);
		assert_int_equal(seen.args[0], 8);
		assert_int_equal(seen.args[1], 64);
		assert_true(uaio_host_uring_is_ours());
	}
	for (size_t i = 0; i < NR_ELEMENTS(others); i++) {
		begin(UAIO_URING_AUTO, others[i]);
		assert_int_equal(uaio_host_uring_setup(8, 64), others[i]);
		assert_int_equal(seen.nr_ours[0], 0);
	}
	begin(UAIO_URING_AUTO, -EFAULT);
	assert_false(uaio_host_uring_is_ours());
}

static void what_a_limit_refuses_is_ours(void **state)
{
	static const long limits[] = { -ENOMEM, -EAGAIN };

	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(limits); i++) {
		begin(UAIO_URING_AUTO, limits[i]);
		assert_int_equal(uaio_host_uring_setup(8, 64), OURS);
		assert_int_equal(seen.nr_asked[0], 1);
		/*
		 * Once the limit (RLIMIT_MEMLOCK, or the number of processes) no longer
		 * refuses a ring, the kernel makes the next one.
		 */
		seen.answers[0] = 7;
		assert_int_equal(uaio_host_uring_setup(8, 64), 7);
		/*
		 * If the library fails, too, the program gets the kernel's error.
		 */
		begin(UAIO_URING_AUTO, limits[i]);
		seen.our_error = -EINVAL;
		assert_int_equal(uaio_host_uring_setup(8, 64), limits[i]);
		begin(UAIO_URING_NEVER, limits[i]);
		assert_int_equal(uaio_host_uring_setup(8, 64), limits[i]);
		assert_int_equal(seen.nr_ours[0], 0);
	}
}

static void a_ring_that_cannot_be_the_kernels_is_ours(void **state)
{
	(void)state;
	begin(UAIO_URING_AUTO, 7);
	seen.attaches = true;
	assert_int_equal(uaio_host_uring_setup(8, 64), OURS);
	assert_int_equal(seen.nr_asked[0], 0);
	begin(UAIO_URING_AUTO, 7);
	seen.loses_slot = true;
	assert_int_equal(uaio_host_uring_setup(8, 64), OURS);
	assert_int_equal(seen.nr_asked[0], 1);
}

static void a_kernel_that_may_end_the_process_is_not_asked(void **state)
{
	struct uaio_call_set all = filter();

	(void)state;
	begin(UAIO_URING_AUTO, -EFAULT);
	assert_int_equal(call_all(KERNELS_FD), OURS);
	assert_true(uaio_host_uring_is_ours());
	expect_asked(0);
	uaio_calls = all;
}

static void the_option_decides_before_the_kernel_does(void **state)
{
	struct uaio_call_set all;

	(void)state;
	begin(UAIO_URING_ALWAYS, 5);
	assert_int_equal(uaio_host_uring_setup(1, 0), OURS);
	assert_true(uaio_host_uring_is_ours());
	expect_asked(0);

	begin(UAIO_URING_NEVER, -ENOSYS);
	assert_int_equal(call_all(KERNELS_FD), -ENOSYS);
	assert_false(uaio_host_uring_is_ours());
	expect_asked(1);

	/*
	 * With --uring=never, all calls go to the kernel, even if a filter may kill the
	 * process for them.
	 */
	all = filter();
	begin(UAIO_URING_NEVER, -EPERM);
	assert_int_equal(call_all(KERNELS_FD), -EPERM);
	expect_asked(1);
	uaio_calls = all;
}

static void calls_go_to_whom_the_descriptor_belongs(void **state)
{
	const long enter[6] = { OUR_FD, 2, 3, 4, 64, 8 };
	const long reg[6] = { OUR_FD, 5, 64, 9 };
	const long theirs[6] = { KERNELS_FD };

	(void)state;
	begin(UAIO_URING_AUTO, 7);
	assert_int_equal(uaio_host_uring_enter(enter), OURS);
	assert_memory_equal(seen.args, enter, sizeof(enter));
	assert_int_equal(uaio_host_uring_register(reg), OURS);
	assert_memory_equal(seen.args, reg, sizeof(reg));
	expect_asked(0);
	assert_int_equal(uaio_host_uring_enter(theirs), 7);
	assert_int_equal(uaio_host_uring_register(theirs), 7);
	assert_int_equal(seen.nr_ours[1] + seen.nr_ours[2], 2);

	/*
	 * The program gets the errors of calls on a kernel ring, even EPERM, for which
	 * io_uring_setup() would make a ring of the library.
	 */
	begin(UAIO_URING_AUTO, -EPERM);
	assert_int_equal(uaio_host_uring_enter(theirs), -EPERM);
	assert_int_equal(uaio_host_uring_register(theirs), -EPERM);
	/*
	 * If the kernel returns ENOSYS for a call on a kernel ring, the library
	 * executes the call.
	 */
	begin(UAIO_URING_AUTO, -ENOSYS);
	assert_int_equal(uaio_host_uring_enter(theirs), OURS);
	assert_int_equal(uaio_host_uring_register(theirs), OURS);
}

static void a_registered_ring_is_looked_up_by_its_index(void **state)
{
	const long by_index = 1l << 31;

	(void)state;
	begin(UAIO_URING_AUTO, 7);
	assert_int_equal(
		uaio_host_uring_enter((const long[6]){
			OUR_INDEX, 0, 0, IORING_ENTER_REGISTERED_RING }),
		OURS);
	assert_int_equal(uaio_host_uring_enter((const long[6]){ OUR_INDEX }),
			 7);
	assert_int_equal(uaio_host_uring_enter((const long[6]){
				 OUR_FD, 0, 0, IORING_ENTER_REGISTERED_RING }),
			 7);
	assert_int_equal(uaio_host_uring_register(
				 (const long[6]){ OUR_INDEX, 8 | by_index }),
			 OURS);
	assert_int_equal(
		uaio_host_uring_register((const long[6]){ OUR_INDEX, 8 }), 7);
}

/*
 * Map the file fd at this offset, by the library's mmap() or mmap64().
 * Return: the first mapped byte.
 */
static int map(bool is_64, int fd, long offset)
{
	char *at = is_64 ? mmap64(NULL, 4096, PROT_READ, MAP_SHARED, fd, offset)
			 : mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, offset);
	int first;

	assert_ptr_not_equal(at, MAP_FAILED);
	first = *at;
	assert_int_equal(munmap(at, 4096), 0);
	return first;
}

static void a_completion_ring_is_mapped_where_it_is(void **state)
{
	const long off = (long)IORING_OFF_CQ_RING;
	long raw[6] = { 0, 4096, PROT_READ, MAP_SHARED, 0, off };
	int ring = unit_file(true), other = unit_file(true);
	void *at;

	(void)state;
	begin(UAIO_URING_AUTO, 0);
	for (int i = 0; i < 2; i++) {
		int fd = i ? other : ring;

		assert_int_equal(pwrite(fd, "0", 1, 0), 1);
		assert_int_equal(pwrite(fd, "1", 1, 4096), 1);
		assert_int_equal(pwrite(fd, "C", 1, off), 1);
	}
	seen.ring_file = ring;
	for (int is_64 = 0; is_64 < 2 && !UNIT_IS_SANITIZED; is_64++) {
		assert_int_equal(map(is_64, ring, 0), '0');
		assert_int_equal(map(is_64, ring, 4096), '1');
		assert_int_equal(map(is_64, ring, off), '0');
		assert_int_equal(map(is_64, other, off), 'C');
	}
	raw[4] = ring;
	at = (void *)uaio_host_raw_mmap(raw);
	assert_int_equal(*(char *)at, '0');
	assert_int_equal(munmap(at, 4096), 0);

	/* The library's mmap() fails with the kernel's errors. */
	assert_ptr_equal(mmap(NULL, 0, PROT_READ, MAP_SHARED, ring, off),
			 MAP_FAILED);
	assert_int_equal(errno, EINVAL);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ, MAP_SHARED, ring, 1),
			 MAP_FAILED);
	assert_int_equal(errno, EINVAL);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ, MAP_SHARED, -1, off),
			 MAP_FAILED);
	assert_int_equal(errno, EBADF);
	unit_close(ring);
	unit_close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(what_the_kernel_refuses_is_ours),
		UNIT_TEST(what_a_limit_refuses_is_ours),
		UNIT_TEST(a_ring_that_cannot_be_the_kernels_is_ours),
		UNIT_TEST(a_kernel_that_may_end_the_process_is_not_asked),
		UNIT_TEST(the_option_decides_before_the_kernel_does),
		UNIT_TEST(calls_go_to_whom_the_descriptor_belongs),
		UNIT_TEST(a_registered_ring_is_looked_up_by_its_index),
		UNIT_TEST(a_completion_ring_is_mapped_where_it_is),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
