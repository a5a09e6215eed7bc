/* SPDX-License-Identifier: MIT */
/* Tested by test/trap. */
#include "trap/trap.h"

#if defined(__x86_64__)
#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "base/sleepcall.h"
#include "base/sys.h"
#include "trap/call.h"
#include "trap/exec.h"
#include "trap/image.h"
#include "trap/signal.h"
#include "trap/site.h"
#include "trap/thread.h"

enum {
	/* the bit of AT_HWCAP2 that says that rdgsbase and wrgsbase may be used */
	HAS_FSGSBASE = 1 << 1,
	SET_DISPATCH = 59, /* PR_SET_SYSCALL_USER_DISPATCH */
	SET_NAME = 15,     /* PR_SET_NAME */
	LOADER_DISTANCE = 64 << 20,
	RSEQ_UNREGISTER = 1,
	RSEQ_SIGNATURE = 0x53053053,
	RSEQ_BYTES = 32,
	NR_RSEQ = 334,
};

void uaio_trap_begin(uint64_t stack, uint64_t entry,
		     struct uaio_trap_thread *self)
	__attribute__((visibility("hidden"), noreturn));

static struct uaio_trap_image program, loader;
static char exe[PATH_MAX];

static const char *check_machine(void)
{
	if (!(getauxval(AT_HWCAP2) & HAS_FSGSBASE))
		return "the kernel or the processor has no rdgsbase (Linux "
		       "5.9)";
	if (uaio_sys6(SYS_prctl, SET_DISPATCH, 0, 0, 0, 0, 0) < 0)
		return "the kernel has no syscall user dispatch (Linux 5.11), "
		       "or a filter refuses it";
	return NULL;
}

static const char *map_files(const char *path)
{
	const char *cause = uaio_trap_image_map(path, 0, &program);
	uint64_t low = program.low, high = program.high;

	if (cause)
		return cause;
	if (program.loader[0]) {
		cause = uaio_trap_image_map(program.loader,
					    program.high + LOADER_DISTANCE,
					    &loader);
		if (cause)
			return "its loader cannot be mapped";
		if (loader.low > high && loader.high - low < INT32_MAX / 2)
			high = loader.high;
	}
	return uaio_trap_slots_make(low, high)
		       ? NULL
		       : "there is no memory to execute near it";
}

/* Uses assembly, as gcc before version 11 lacks __builtin_thread_pointer(). */
static long thread_pointer(void)
{
	long pointer;

	__asm__("mov %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

/*
 * Unregister the rseq area of the library's glibc, because the program may register its
 * own.
 */
static void leave_rseq(void)
{
	/* glibc registers an rseq area, and has these symbols, since version 2.35. */
	const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
	const unsigned *bytes = dlsym(RTLD_DEFAULT, "__rseq_size");

	if (offset && bytes && *bytes)
		(void)uaio_sys6(NR_RSEQ, thread_pointer() + *offset, RSEQ_BYTES,
				RSEQ_UNREGISTER, RSEQ_SIGNATURE, 0, 0);
}

static void take_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	(void)uaio_sys6(SYS_prctl, SET_NAME, (long)(slash ? slash + 1 : path),
			0, 0, 0, 0);
}

/* Making the program's initial stack, as the kernel does in execve() */

/*
 * Return: the auxiliary vector that the kernel passed, which is in memory after argv
 * and the environment.
 */
static const Elf64_auxv_t *auxv_behind(char **argv)
{
	char **at = argv;

	while (*at)
		at++;
	for (at++; *at; at++)
		;
	return (const Elf64_auxv_t *)(at + 1);
}

static uint64_t value_of(const Elf64_auxv_t *aux, const char *path)
{
	switch (aux->a_type) {
	case AT_PHDR: return program.headers;
	case AT_PHNUM: return program.nr_headers;
	case AT_ENTRY: return program.entry;
	case AT_BASE: return loader.low;
	case AT_EXECFN: return (uintptr_t)path;
	/*
	 * Register gs belongs to the library. So clear the bit that tells the program
	 * that it may use wrgsbase, which writes gs.
	 */
	case AT_HWCAP2: return aux->a_un.a_val & ~(uint64_t)HAS_FSGSBASE;
	default: return aux->a_un.a_val;
	}
}

static size_t count(char **vector)
{
	size_t nr = 0;

	while (vector[nr])
		nr++;
	return nr;
}

static size_t stack_words(const struct uaio_trap_start *start)
{
	size_t nr = 1 + count(start->argv) + 1 + count(start->envp) + 1;

	for (const Elf64_auxv_t *aux = auxv_behind(start->argv);
	     aux->a_type != AT_NULL; aux++)
		nr += 2;
	return nr + 2;
}

static uint64_t *put_vector(uint64_t *at, char **vector)
{
	for (; *vector; vector++)
		*at++ = (uintptr_t)*vector;
	*at++ = 0;
	return at;
}

static void fill_stack(uint64_t *at, const struct uaio_trap_start *start)
{
	*at++ = count(start->argv);
	at = put_vector(at, start->argv);
	at = put_vector(at, start->envp);
	for (const Elf64_auxv_t *aux = auxv_behind(start->argv);; aux++) {
		*at++ = aux->a_type;
		*at++ = value_of(aux, start->path);
		if (aux->a_type == AT_NULL)
			break;
	}
}

/*
 * Remove the library from LD_PRELOAD and LD_LIBRARY_PATH: otherwise the program's
 * loader, which may be of another C library, would load it again.
 */
static void hide_library(char **envp)
{
	static const char *const variables[] = { "LD_PRELOAD=",
						 "LD_LIBRARY_PATH=" };

	for (; *envp; envp++)
		for (size_t i = 0; i < 2; i++) {
			size_t length = strlen(variables[i]);
			char *value = *envp + length, *rest;

			if (strncmp(*envp, variables[i], length))
				continue;
			/*
			 * The library is the first entry of the list: keep the entries
			 * after the first colon.
			 */
			rest = value + strcspn(value, ":");
			memmove(value, rest + (*rest == ':'),
				strlen(rest) + (*rest != ':'));
		}
}

static const char *begin(const struct uaio_trap_start *start)
{
	struct uaio_trap_thread *self = uaio_trap_first_thread();
	size_t bytes = (stack_words(start) * 8 + 15) & ~15ul;
	uint64_t *stack;

	if (!self)
		return "there is no memory for its thread";
	uaio_trap_may_change(program.code_low, program.code_high);
	uaio_trap_may_change(loader.code_low, loader.code_high);
	uaio_trap_exec_begin(start->ops, start->envp);
	uaio_trap_heap_begin();
	uaio_trap_calls_begin(start->ops,
			      realpath(start->path, exe) ? exe : NULL);
	if (uaio_trap_signals_begin() < 0)
		return "SIGSYS cannot be caught";
	stack = __builtin_alloca(bytes + 15);
	stack = (uint64_t *)(((uintptr_t)stack + 15) & ~15ul);
	fill_stack(stack, start);
	if (program.loader[0]) {
		hide_library(start->envp);
		uaio_trap_environ_hidden(start->envp);
	}
	take_name(start->path);
	leave_rseq();
	uaio_sleep_stop_at = T_IS_PENDING;
	self->selector = DISPATCH_PASS;
	if (uaio_sys6(SYS_prctl, SET_DISPATCH, 1, (long)self->offset,
		      (long)self->length, (long)&self->selector, 0) < 0)
		return "syscall user dispatch is refused";
	/*
	 * The program starts with the signal mask that this thread has now, but never
	 * with SIGSYS blocked.
	 */
	uaio_trap_block(self);
	self->is_inside = 1;
	uaio_trap_begin((uintptr_t)stack,
			loader.low ? loader.entry : program.entry, self);
}

const char *uaio_trap_become(const struct uaio_trap_start *start)
{
	const char *cause = check_machine();

	if (!cause)
		cause = map_files(start->path);
	return cause ? cause : begin(start);
}

#else /* not x86-64 */

const char *uaio_trap_become(const struct uaio_trap_start *start)
{
	(void)start;
	return "--trap is for x86-64";
}

#endif
