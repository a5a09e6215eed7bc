/* SPDX-License-Identifier: MIT */
/* Tests which code is patched: call sites of io_uring, not code that resembles them. */
#undef NDEBUG
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "patch/decode.h"
#include "patch/find.h"
#include "patch/patch.h"
#include "patch/scan.h"
#include "patch/test-places.h"
#include "unit.h"

static const struct {
	place_fn *function;
	const char *name;
} misses[] = {
#define ROW(name)           \
	{                   \
		name, #name \
	}
	ROW(miss_register), ROW(miss_wide),        ROW(miss_inside),
	ROW(miss_below),    ROW(miss_above),       ROW(miss_high),
	ROW(miss_16_bits),  ROW(miss_no_call),     ROW(left_relative),
	ROW(left_branch),   ROW(left_overwritten), ROW(left_target),
	ROW(left_by_table), ROW(left_either),      ROW(left_unknown),
};

enum {
	NR_SITES = 16,
	NR_LEFT = 8,
	CODE_BYTES = 24,
	ANSWER = 70000000,
};

static struct {
	unsigned nr;
	long call;
	long args[6];
	long ret;
	bool is_passed_on; /* call() lets the kernel execute the call */
} called;

static struct {
	unsigned nr_reports;
	size_t nr, nr_left; /* sites of test-places.c: patched, left */
	size_t last_nr, last_left;
	char last[256];
} reported;

/* Change vector registers, as the library's code may do. */
static void use_vectors(void)
{
	__asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n pcmpeqd %%xmm7, %%xmm7\n"
			 "pcmpeqd %%xmm15, %%xmm15\n" ::
				 : "xmm0", "xmm7", "xmm15");
	if (__builtin_cpu_supports("avx512bw"))
		__asm__ volatile("vpternlogd $255, %%zmm17, %%zmm17, %%zmm17\n"
				 "vpternlogd $255, %%zmm31, %%zmm31, %%zmm31\n"
				 "kxnorq %%k3, %%k3, %%k3\n" ::
					 :);
	if (__builtin_cpu_supports("avx2"))
		__asm__ volatile("vpcmpeqd %%ymm1, %%ymm1, %%ymm1\n"
				 "vpcmpeqd %%ymm14, %%ymm14, %%ymm14\n"
				 "vzeroupper\n" ::
					 : "xmm1", "xmm14");
}

static long call(long nr, const long args[6])
{
	called.nr++;
	called.call = nr;
	if (called.is_passed_on)
		return uaio_sys6(nr, args[0], args[1], args[2], args[3],
				 args[4], args[5]);
	memcpy(called.args, args, sizeof(called.args));
	use_vectors();
	return called.ret;
}

static void report(const char *name, size_t nr, size_t nr_left)
{
	reported.nr_reports++;
	if (strstr(name, "patch-places")) {
		reported.nr = nr;
		reported.nr_left = nr_left;
	}
	reported.last_nr = nr;
	reported.last_left = nr_left;
	snprintf(reported.last, sizeof(reported.last), "%s", name);
}

static const struct uaio_patch_ops ops = { .call = call, .report = report };

/* Tests that run before the library patches the code */

static int sweep(struct dl_phdr_info *object, size_t bytes, void *arg)
{
	unsigned *nrs = arg;

	(void)bytes;
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];
		uintptr_t at = object->dlpi_addr + ph->p_vaddr;
		uintptr_t last = at + ph->p_filesz, start, end;

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X))
			continue;
		while (at < last) {
			size_t length = 1;

			if (!uaio_find_function(object, at, &start, &end)) {
				at++;
				continue;
			}
			at = start;
			while (at < end && length) {
				length = uaio_insn_length((uint8_t *)at,
							  end - at);
				at += length;
			}
			nrs[0]++;
			nrs[1] += at != end;
			at = end;
		}
	}
	return 0;
}

static void functions_end_where_their_instructions_do(void **state)
{
	unsigned nrs[2] = { 0 };

	(void)state;
	(void)dl_iterate_phdr(sweep, nrs);
	/*
	 * If all lengths of a function's instructions are right, the last instruction
	 * ends where the function ends. At most one function in 200 may have an unknown
	 * instruction.
	 */
	assert_true(nrs[0] > 1000);
	if (nrs[1] * 200 > nrs[0])
		fail_msg("%u of %u functions", nrs[1], nrs[0]);
}

static void an_instruction_that_is_cut_off_has_no_length(void **state)
{
	static const uint8_t code[] = { 0x48, 0xc7, 0x84, 0x24, 1, 2,
					3,    4,    5,    6,    7, 8 };

	(void)state;
	assert_int_equal(uaio_insn_length(code, sizeof(code)), sizeof(code));
	for (size_t room = 0; room < sizeof(code); room++)
		assert_int_equal(uaio_insn_length(code, room), 0);
}

static void only_what_does_the_same_elsewhere_may_be_moved(void **state)
{
	static const struct {
		uint8_t code[8];
		uint8_t length;
		bool is_movable;
	} rows[] = {
		{ { 0x89, 0xea }, 2, true },              /* mov %ebp,%edx */
		{ { 0x4c, 0x89, 0xc2 }, 3, true },        /* mov %r8,%rdx */
		{ { 0x41, 0x89, 0xc0 }, 3, true },        /* mov %eax,%r8d */
		{ { 0x89, 0xc8 }, 2, false },             /* mov %ecx,%eax */
		{ { 0x31, 0xc0 }, 2, false },             /* xor %eax,%eax */
		{ { 0x31, 0xd2 }, 2, true },              /* xor %edx,%edx */
		{ { 0x88, 0xcc }, 2, false },             /* mov %cl,%ah */
		{ { 0x8b, 0x05, 0, 0, 0, 0 }, 6, false }, /* mov (%rip),%eax */
		{ { 0x8b, 0x3d, 0, 0, 0, 0 }, 6, false }, /* mov (%rip),%edi */
		{ { 0x89, 0x3d, 0, 0, 0, 0 }, 6, false }, /* mov %edi,(%rip) */
		{ { 0x8b, 0x7b, 8 }, 3, true },           /* mov 8(%rbx),%edi */
		{ { 0xb8, 0, 0, 0, 0 }, 5, false },       /* mov $0,%eax */
		{ { 0x41, 0xb8, 0, 0, 0, 0 }, 6, true },  /* mov $0,%r8d */
		{ { 0xc7, 0xc0, 0, 0, 0, 0 }, 6, false }, /* mov $0,%eax */
		{ { 0x83, 0xc0, 1 }, 3, false },          /* add $1,%eax */
		{ { 0x0f, 0xb6, 0xc0 }, 3, false },       /* movzbl %al,%eax */
		{ { 0xeb, 0 }, 2, false },                /* jmp */
		{ { 0x74, 0 }, 2, false },                /* je */
		{ { 0xe8, 0, 0, 0, 0 }, 5, false },       /* call */
		{ { 0xc3 }, 1, false },                   /* ret */
		{ { 0x0f, 0x05 }, 2, false },             /* syscall */
		{ { 0x58 }, 1, false },                   /* pop %rax */
		{ { 0x53 }, 1, true },                    /* push %rbx */
		{ { 0x0f, 0xa2 }, 2, false },             /* cpuid */
	};

	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(rows); i++)
		if (uaio_insn_is_movable(rows[i].code, rows[i].length) !=
		    rows[i].is_movable)
			fail_msg("row %zu", i);
}

/* Changed code */

static uint8_t before[NR_ELEMENTS(misses)][CODE_BYTES];

struct mapping {
	uintptr_t start;
	char protection[5];
	unsigned long offset;
	char path[256];
};

static struct mapping mapping_of(uintptr_t addr)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	struct mapping found = { 0 };
	uintptr_t end = 0;
	char line[512];

	assert_non_null(maps);
	while (end <= addr && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s %lx %*s %*s %255s", &found.start,
			   &end, found.protection, &found.offset,
			   found.path) < 4)
			end = 0;
	assert_int_equal(fclose(maps), 0);
	assert_true(found.start <= addr && addr < end);
	return found;
}

/*
 * Replace the second page of left_on_two_pages by a shared mapping of the same file,
 * opened read-only. So mprotect() cannot make the page writable.
 */
static void forbid_second_page(void)
{
	uintptr_t at = ((uintptr_t)left_on_two_pages | 4095) + 1;
	const struct mapping mapping = mapping_of(at);
	int fd = open(mapping.path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_ptr_equal(mmap((void *)at, 4096, PROT_READ | PROT_EXEC,
			      MAP_SHARED | MAP_FIXED, fd,
			      (off_t)(mapping.offset + at - mapping.start)),
			 (void *)at);
	assert_int_equal(close(fd), 0);
}

/* What uaio_patch_has_left() returned before any code was patched. */
static bool had_left, had_left_here;

static int load(void **state)
{
	int ret = unit_engine(state);

	forbid_second_page();
	had_left = uaio_patch_has_left((const void *)adjacent_enter);
	had_left_here = uaio_patch_has_left(
		dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));

	for (size_t i = 0; i < NR_ELEMENTS(misses); i++)
		memcpy(before[i], (const void *)misses[i].function, CODE_BYTES);
	uaio_patch_load(&ops);
	return ret;
}

static long make(place_fn *function, long ret)
{
	memset(&called, 0, sizeof(called));
	called.ret = ret;
	return function(1, 2, 3, 4, 5, 6);
}

static void each_place_calls_us_with_its_number(void **state)
{
	static const struct {
		place_fn *function;
		long nr;
	} sites[] = { { adjacent_setup, 425 },    { adjacent_enter, 426 },
		      { adjacent_register, 427 }, { sign_extended, 426 },
		      { far_before, 426 },        { without_table, 426 } };
	const long args[6] = { 1, 2, 3, 4, 5, 6 };

	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(sites); i++) {
		errno = ENOTTY;
		assert_int_equal(make(sites[i].function, -EBADF), -EBADF);
		assert_int_equal(make(sites[i].function, ANSWER), ANSWER);
		assert_int_equal(errno, ENOTTY);
		assert_int_equal(called.nr, 1);
		assert_int_equal(called.call, sites[i].nr);
		assert_memory_equal(called.args, args, sizeof(args));
	}
	assert_int_equal(reported.nr, NR_SITES);
	assert_int_equal(reported.nr_left, NR_LEFT);
}

static void what_is_between_is_executed_once_and_before(void **state)
{
	const long args[6] = { 2, 5, 0, 4, 7, 6 };

	(void)state;
	assert_int_equal(make(moved, ANSWER), ANSWER);
	assert_int_equal(called.nr, 1);
	assert_memory_equal(called.args, args, sizeof(args));
}

/* At these call sites, the mov of the number sets another register than eax. */
static void a_number_that_is_kept_in_a_register_is_found(void **state)
{
	const long args[6] = { 1, 2, 3, 4, 5, 6 };
	const long emptied_args[6] = { 1, 2, 0, 4, 5, 6 };

	(void)state;
	assert_int_equal(make(kept, ANSWER), ANSWER);
	assert_int_equal(called.nr, 1);
	assert_int_equal(called.call, 426);
	assert_memory_equal(called.args, args, sizeof(args));
	assert_int_equal(make(kept_low, ANSWER), ANSWER);
	assert_int_equal(called.nr, 1);
	assert_memory_equal(called.args, emptied_args, sizeof(args));
	assert_int_equal(make(kept_before, ANSWER), ANSWER);
	assert_int_equal(called.nr, 1);
	assert_memory_equal(called.args, emptied_args, sizeof(args));
}

static void registers_and_the_red_zone_are_kept(void **state)
{
	static const uint8_t bytes[64] = "0123456789abcdef0123456789abcde";

	(void)state;
	assert_int_equal(make(red_zone, ANSWER), 0);
	assert_int_equal(make(registers, ANSWER), 0);
	if (__builtin_cpu_supports("avx512bw")) {
		assert_int_equal(emptied(0, 0, 0, 0, 0, 0), 0);
		assert_int_equal(widest((long)bytes, 0, 0, 0, 0, 0), 0);
	}
	if (__builtin_cpu_supports("avx2"))
		assert_int_equal(wide((long)bytes, 0, 0, 0, 0, 0), 0);
}

static void flags_are_kept(void **state)
{
	/*
	 * Bits of the flags register that a program can change: carry, parity, adjust,
	 * zero, sign, overflow, direction, identification.
	 */
	static const long bits[] = {
		1, 4, 16, 64, 128, 0x800, 0x400, 0x200000
	};
	const long usual = 0x202;

	(void)state;
	for (unsigned i = 0; i < 1u << NR_ELEMENTS(bits); i++) {
		long flags = usual;

		for (unsigned bit = 0; bit < NR_ELEMENTS(bits); bit++)
			if (i & 1u << bit)
				flags |= bits[bit];
		assert_int_equal(flagged(flags, 0, 0, 0, 0, 0), flags);
	}
}

static void what_only_looks_like_it_stays(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(misses); i++)
		if (memcmp(before[i], (const void *)misses[i].function,
			   CODE_BYTES))
			fail_msg("%s was changed", misses[i].name);
	assert_int_equal(make(miss_register, 0), getpid());
	assert_int_equal(called.nr, 0);
}

static void what_cannot_be_written_is_left_as_it_was(void **state)
{
	uintptr_t at = (uintptr_t)left_on_two_pages;

	(void)state;
	assert_string_equal(mapping_of(at).protection, "r-xp");
	assert_string_equal(mapping_of((at | 4095) + 1).protection, "r-xs");
	/* The kernel still executes the call, and refuses -1, which is no descriptor. */
	memset(&called, 0, sizeof(called));
	assert_int_equal(left_on_two_pages(-1, 0, 0, 0, 0, 0), -EBADF);
	assert_int_equal(called.nr, 0);
}

/* The patch leaves the `syscall` in place: a jump to it makes the kernel's call. */
static void a_jump_to_the_system_call_itself_reaches_the_kernel(void **state)
{
	long ret;

	(void)state;
	memset(&called, 0, sizeof(called));
	/*
	 * Call the `syscall` of adjacent_enter itself, which comes after two movs of
	 * three and five bytes.
	 */
	__asm__ volatile("call *%1"
			 : "=a"(ret)
			 : "r"((uintptr_t)adjacent_enter + 3 + 5), "a"(39l)
			 : "rcx", "r11", "memory");
	assert_int_equal(ret, getpid());
	assert_int_equal(called.nr, 0);
}

static void an_object_that_is_left_as_it_was_is_known(void **state)
{
	(void)state;
	assert_true(had_left);
	assert_false(had_left_here);
	assert_false(uaio_patch_has_left(
		dlsym(RTLD_DEFAULT, "gnu_get_libc_version")));
	/* The object of adjacent_enter also has a call site that could not be patched. */
	assert_true(uaio_patch_has_left((const void *)adjacent_enter));
}

/*
 * Return: whether the library has patched the empty function that the loader calls
 * after each dlopen() (patch.h, I1). Some loaders do not allow that.
 */
static bool is_loader_known(void)
{
	const struct r_debug *debug = dlsym(RTLD_DEFAULT, "_r_debug");

	return *(const uint8_t *)debug->r_brk == 0xe9;
}

static void *open_module(const char *path)
{
	void *module;

	memset(&called, 0, sizeof(called));
	called.ret = ANSWER;
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!module)
		fail_msg("%s", dlerror());
	return module;
}

static int scan_module(struct dl_phdr_info *object, size_t bytes, void *calls)
{
	(void)bytes;
	if (strcmp(object->dlpi_name, PATCH_MODULE))
		return 0;
	uaio_scan_object(object, calls);
	return 1;
}

static void an_object_is_changed_before_its_constructors_run(void **state)
{
	(void)state;
	if (!is_loader_known())
		skip();
	for (int i = 0; i < 3; i++) {
		void *module = open_module(PATCH_MODULE);
		const long *at_start = dlsym(module, "module_at_start");
		struct uaio_own_calls calls;

		assert_int_equal(*at_start, ANSWER);
		assert_int_equal(called.call, 425);
		assert_int_equal(called.args[1], (long)at_start);
		assert_non_null(strstr(reported.last, "patch-module"));
		calls = (struct uaio_own_calls){ 0 };
		(void)dl_iterate_phdr(scan_module, &calls);
		assert_false(calls.has_any);
		assert_int_equal(calls.words[425 / 64], 3ul << 425 % 64);
		assert_false(uaio_patch_has_left(at_start));
		/*
		 * The next dlopen() may map the object at the same address: the library
		 * must patch it again.
		 */
		assert_int_equal(dlclose(module), 0);
	}
}

/* Return: whether the call site in the object's function `name` is patched. */
static bool calls_us(void *module, const char *name)
{
	place_fn *function;

	*(void **)&function = dlsym(module, name);
	if (!function)
		fail_msg("%s", dlerror());
	if (make(function, ANSWER) != ANSWER)
		return false;
	return called.nr == 1 && called.call == 426 && called.args[3] == 4;
}

static void code_without_a_table_is_changed_where_it_is_known(void **state)
{
	static const char *const names[] = {
		"bare_exported", "bare_called",      "bare_jumped",
		"bare_pointed",  "bare_computed",    "bare_by_table",
		"bare_beside",   "bare_by_constants"
	};
	static const uint8_t mov[] = { 0xb8, 0xaa, 1, 0, 0 };
	const uint8_t *(*get)(void);
	void *module;

	(void)state;
	if (!is_loader_known())
		skip();
	module = open_module(PATCH_BARE);
	assert_non_null(strstr(reported.last, "patch-bare"));
	for (size_t i = 0; i < NR_ELEMENTS(names); i++)
		if (!calls_us(module, names[i]))
			fail_msg("%s was not changed", names[i]);
	assert_int_equal(reported.last_nr, NR_ELEMENTS(names));
	/*
	 * The library leaves these unpatched: code to which nothing leads; data; code
	 * that jumps into an instruction; bytes inside an instruction; and calls whose
	 * number passes through another register before eax.
	 */
	assert_int_equal(reported.last_left, 6);
	*(void **)&get = dlsym(module, "bare_data");
	assert_memory_equal(get(), mov, sizeof(mov));
	*(void **)&get = dlsym(module, "bare_astray");
	assert_memory_equal(get(), mov, sizeof(mov));
	*(void **)&get = dlsym(module, "bare_inside");
	assert_int_equal((long)get(), 0x50f000001aab8);
	assert_int_equal(dlclose(module), 0);
}

/*
 * The object has no unwind table, and the number of its only call passes through r12d.
 * So this call is not patched.
 */
static void a_call_by_a_register_without_a_table_is_left(void **state)
{
	place_fn *function;
	void *module;

	(void)state;
	if (!is_loader_known())
		skip();
	module = open_module(PATCH_KEPT);
	assert_non_null(strstr(reported.last, "patch-kept"));
	assert_int_equal(reported.last_nr, 0);
	assert_int_equal(reported.last_left, 1);
	*(void **)&function = dlsym(module, "bare_kept");
	assert_true(uaio_patch_has_left((const void *)function));
	assert_int_equal(function(-1, 0, 0, 0, 0, 0), -EBADF);
	assert_int_equal(called.nr, 0);
	assert_int_equal(dlclose(module), 0);
}

static void functions_that_overlap_are_not_known(void **state)
{
	void *module;

	(void)state;
	if (!is_loader_known())
		skip();
	module = open_module(PATCH_OVERLAPPING);
	assert_non_null(strstr(reported.last, "patch-overlapping"));
	assert_int_equal(reported.last_nr, 0);
	assert_int_equal(reported.last_left, 1);
	assert_int_equal(dlclose(module), 0);
}

/* The calls inside liburing.so are patched, and still reach rings of the kernel. */
static void liburing_works_when_its_calls_come_to_us(void **state)
{
	enum { RING_BYTES = 216, NR = 3, NOPS = 8 };
	void *lib = dlopen("liburing.so.2", RTLD_NOW | RTLD_LOCAL), *cqes[NOPS];
	int (*init)(unsigned, void *, unsigned);
	void *(*get_sqe)(void *);
	int (*submit)(void *, unsigned);
	unsigned (*peek)(void *, void **, unsigned);
	int (*sparse)(void *, unsigned);
	int (*unregister)(void *);
	void (*leave)(void *);
	uint64_t ring[RING_BYTES / 8];

	(void)state;
	if (!lib || !is_loader_known())
		skip();
	*(void **)&init = dlsym(lib, "io_uring_queue_init");
	*(void **)&get_sqe = dlsym(lib, "io_uring_get_sqe");
	*(void **)&submit = dlsym(lib, "io_uring_submit_and_wait");
	*(void **)&peek = dlsym(lib, "io_uring_peek_batch_cqe");
	*(void **)&sparse = dlsym(lib, "io_uring_register_files_sparse");
	*(void **)&unregister = dlsym(lib, "io_uring_unregister_files");
	*(void **)&leave = dlsym(lib, "io_uring_queue_exit");
	memset(&called, 0, sizeof(called));
	called.is_passed_on = true;
	if (init(NOPS, ring, 0) < 0 || !sparse) {
		(void)dlclose(lib);
		skip();
	}
	assert_int_equal(called.call, 425);
	for (unsigned i = 0; i < NR; i++)
		memset(get_sqe(ring), 0, 64);
	assert_int_equal(submit(ring, NR), NR);
	assert_int_equal(called.call, 426);
	assert_int_equal(peek(ring, cqes, NOPS), NR);
	assert_int_equal(sparse(ring, 4), 0);
	assert_int_equal(sparse(ring, 4), -EBUSY);
	assert_int_equal(called.call, 427);
	assert_int_equal(unregister(ring), 0);
	assert_int_equal(called.nr, 5);
	leave(ring);
	assert_int_equal(dlclose(lib), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(each_place_calls_us_with_its_number),
		UNIT_TEST(what_is_between_is_executed_once_and_before),
		UNIT_TEST(a_number_that_is_kept_in_a_register_is_found),
		UNIT_TEST(registers_and_the_red_zone_are_kept),
		UNIT_TEST(flags_are_kept),
		UNIT_TEST(what_only_looks_like_it_stays),
		UNIT_TEST(what_cannot_be_written_is_left_as_it_was),
		UNIT_TEST(an_object_that_is_left_as_it_was_is_known),
		UNIT_TEST(a_jump_to_the_system_call_itself_reaches_the_kernel),
		UNIT_TEST(an_object_is_changed_before_its_constructors_run),
		UNIT_TEST(code_without_a_table_is_changed_where_it_is_known),
		UNIT_TEST(a_call_by_a_register_without_a_table_is_left),
		UNIT_TEST(functions_that_overlap_are_not_known),
		UNIT_TEST(liburing_works_when_its_calls_come_to_us),
		UNIT_TEST(functions_end_where_their_instructions_do),
		UNIT_TEST(an_instruction_that_is_cut_off_has_no_length),
		UNIT_TEST(only_what_does_the_same_elsewhere_may_be_moved),
	};

	return cmocka_run_group_tests(tests, load, NULL);
}
