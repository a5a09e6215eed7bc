/* SPDX-License-Identifier: MIT */
/*
 * trap - measures `uaio run --trap`: the time of system calls by syscall instructions
 * in the program's own code
 *
 * The trap passes the program's system calls to the library. It either replaces the
 * syscall instruction by a jump, or uses syscall user dispatch. This program is built
 * twice: as a static program, to be run plainly and under the trap; and as a dynamic
 * program, to be run with the library loaded:
 *
 *   trap places    calls by an instruction that the trap may replace by a jump, and by
 *                  an instruction that it cannot replace; and the first call by each of
 *                  many instructions
 *   trap switched  calls while syscall user dispatch is on, but exempts all addresses,
 *                  so that the kernel executes each call
 *   trap function  calls by a replaceable instruction, and by a function of the C
 *                  library
 *   trap enter     io_uring_enter of 0 requests, which the library answers without a
 *                  system call; and unshare of 0 flags, which the library answers by a
 *                  system call. The static program makes both calls by a replaceable
 *                  instruction, the dynamic program by syscall(2).
 *
 * The program prints one JSON object: median times in ns; whether the instruction was
 * replaced by a jump; and whether the library is loaded.
 */
#include <linux/io_uring.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "handles.h"

enum {
	NR_SLICES = 201,
	CALLS = 512,
	NR_PLACES = 64,
	PLACE_BYTES = 32,
	PAGE = 4096,
	/* offset of the syscall instruction in the code of the macro `place` */
	SYSCALL_AT = 7,
	SET_DISPATCH = 59, /* PR_SET_SYSCALL_USER_DISPATCH */
};

#if defined(__x86_64__)
/*
 * Both functions are syscall(2) without errno. The trap may replace the syscall
 * instruction of call_changed() by a short jump to the padding after the function. It
 * cannot replace the instruction of call_fixed(), because no padding is near.
 */
long call_changed(long nr, ...);
long call_fixed(long nr, ...);
extern const unsigned char call_changed_at[];
/*
 * Many syscall instructions, each of which calls getppid(). Those of places_in_page are
 * in one page, those of places_in_pages in a page each.
 */
extern const unsigned char places_in_page[], places_in_pages[];

__asm__(".macro arguments\n\t"
	"movq %rdi, %rax\n\t"
	"movq %rsi, %rdi\n\t"
	"movq %rdx, %rsi\n\t"
	"movq %rcx, %rdx\n\t"
	"movq %r8, %r10\n\t"
	"movq %r9, %r8\n\t"
	"movq 8(%rsp), %r9\n\t"
	".endm\n\t"
	".macro place\n\t"
	"movl $110, %eax\n\t"
	".byte 0x66, 0x90\n\t"
	"syscall\n\t"
	"ret\n\t"
	".endm\n\t"
	".text\n\t"
	".balign 64\n"
	"call_changed:\n\t"
	"arguments\n"
	"call_changed_at:\n\t"
	"syscall\n\t"
	"ret\n\t"
	".balign 64\n"
	"call_fixed:\n\t"
	"arguments\n\t"
	"syscall\n\t"
	"jmp 1f\n\t"
	".rept 80\n\t"
	"ud2\n\t"
	".endr\n"
	"1:	ret\n\t"
	".balign 4096\n"
	"places_in_page:\n\t"
	".rept 64\n\t"
	".balign 32\n\t"
	"place\n\t"
	".endr\n\t"
	".balign 4096\n"
	"places_in_pages:\n\t"
	".rept 64\n\t"
	".balign 4096\n\t"
	"place\n\t"
	".endr\n\t"
	".balign 4096\n");

static double median(double *values, unsigned nr)
{
	qsort(values, nr, sizeof(*values), compare_doubles);
	return values[nr / 2];
}

typedef long call_fn(long nr, ...);

static double time_calls(call_fn *call, long nr, long arg)
{
	static double slices[NR_SLICES];

	for (unsigned s = 0; s < NR_SLICES; s++) {
		uint64_t start = now_ns();

		for (unsigned i = 0; i < CALLS; i++)
			(void)call(nr, arg, 0l, 0l, 0l, 0l, 0l);
		slices[s] = (double)(now_ns() - start) / CALLS;
	}
	return median(slices, NR_SLICES);
}

/*
 * Return: the median time of the first call at each instruction. The first instruction
 * does not count, because its call takes longer: if the trap writes a jump there, the
 * kernel first copies the page, which is still shared with the file.
 */
static double time_first(const unsigned char *places, size_t bytes)
{
	double took[NR_PLACES];

	for (unsigned i = 0; i < NR_PLACES; i++) {
		long (*place)(void) = (long (*)(void))(places + i * bytes);
		volatile unsigned char touch = places[i * bytes];
		uint64_t start;

		(void)touch;
		start = now_ns();
		(void)place();
		took[i] = (double)(now_ns() - start);
	}
	return median(took + 1, NR_PLACES - 1);
}

static int is_jump(const unsigned char *at)
{
	return *(const volatile unsigned char *)at == 0xeb;
}

static void time_places(void)
{
	double near = time_first(places_in_page, PLACE_BYTES);
	double far = time_first(places_in_pages, PAGE);

	printf("{\"first\": %.1f, \"first_in_page\": %.1f, ", near, far);
	printf("\"changed\": %.2f, ", time_calls(call_changed, SYS_getppid, 0));
	printf("\"fixed\": %.1f, ", time_calls(call_fixed, SYS_getppid, 0));
	printf("\"jumps\": %d, ",
	       is_jump(call_changed_at) + is_jump(places_in_page + SYSCALL_AT) +
		       is_jump(places_in_pages + SYSCALL_AT));
}

static int time_switched(void)
{
	static unsigned char selector;

	/*
	 * Turn on syscall user dispatch, but exempt all addresses, so that no call
	 * causes SIGSYS.
	 */
	if (prctl(SET_DISPATCH, 1, 0l, 0x7ffffffff000l, &selector) < 0) {
		perror("prctl");
		return 1;
	}
	printf("{\"changed\": %.2f, ",
	       time_calls(call_changed, SYS_getppid, 0));
	return 0;
}

static long call_getppid(long nr, ...)
{
	(void)nr;
	return getppid();
}

static void time_function(void)
{
	printf("{\"changed\": %.2f, ",
	       time_calls(call_changed, SYS_getppid, 0));
	printf("\"function\": %.2f, ", time_calls(call_getppid, 0, 0));
	printf("\"jumps\": %d, ", is_jump(call_changed_at));
}

static int time_enter(void)
{
	struct io_uring_params params;
#ifdef BY_SYSCALL
	call_fn *call = syscall;
#else
	call_fn *call = call_changed;
#endif
	long fd;

	memset(&params, 0, sizeof(params));
	fd = call(SYS_io_uring_setup, 4l, &params, 0l, 0l, 0l, 0l);
	if (fd < 0) {
		fprintf(stderr, "io_uring_setup: %ld\n", fd);
		return 1;
	}
	printf("{\"changed\": %.2f, ",
	       time_calls(call, SYS_io_uring_enter, fd));
	printf("\"made\": %.2f, ", time_calls(call, SYS_unshare, 0));
	printf("\"jumps\": %d, ", is_jump(call_changed_at));
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "places"))
		time_places();
	else if (!strcmp(what, "function"))
		time_function();
	else if (!strcmp(what, "switched")) {
		if (time_switched())
			return 1;
	} else if (!strcmp(what, "enter")) {
		if (time_enter())
			return 1;
	} else
		return 2;
	printf("\"libraries\": %zu}\n", nr_mapped("/libuaio.so"));
	return 0;
}

#else

int main(void)
{
	fprintf(stderr, "the trap is for x86-64\n");
	return 1;
}
#endif
