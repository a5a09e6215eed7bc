/* SPDX-License-Identifier: MIT */
/*
 * Lets valgrind's memcheck report accesses to the memory of pending requests, by the
 * macros of valgrind.h
 *
 * While a request is in flight, the memory that the kernel may write is marked
 * inaccessible, so memcheck reports accesses by the program. memcheck also sees the
 * system calls by which the library fills this memory; `uaio check` configures it not
 * to report them (tool/check/valgrind.c).
 *
 * memcheck has its own allocator, so the library notices a free only at the completion.
 * Then it checks the following. If an allocated block began where the memory begins,
 * this block must still exist. Otherwise the byte before the memory must still be
 * accessible, as this byte belongs to the same block, mapping or stack frame. If
 * another request in flight has made this byte inaccessible, the library checks the
 * memory of that other request instead.
 *
 * memcheck records for each bit whether it is initialised (V bits). The library saves
 * and restores the V bits, as the program may have initialised bytes that a short read
 * does not write.
 *
 * Tested by test/run/checkers.py.
 */
#include "check/checker.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "check/checkint.h"
#include "check/valgrind.h"

enum {
	MAKE_NO_ACCESS = UAIO_OF_MEMCHECK | 0,
	MAKE_UNDEFINED = UAIO_OF_MEMCHECK | 1,
	MAKE_DEFINED = UAIO_OF_MEMCHECK | 2,
	CHECK_IS_ADDRESSABLE = UAIO_OF_MEMCHECK | 4,
	CHECK_IS_DEFINED = UAIO_OF_MEMCHECK | 5,
	GET_VBITS = UAIO_OF_MEMCHECK | 8,
	SET_VBITS = UAIO_OF_MEMCHECK | 9,
	MAKE_DEFINED_IF_ADDRESSABLE = UAIO_OF_MEMCHECK | 11,
};

/* GET_VBITS and SET_VBITS return this if all of the memory is addressable. */
enum { ALL_IS_ADDRESSABLE = 1 };

static bool is_here;
static size_t (*usable_size)(void *at);

void uaio_memcheck_init(void)
{
	char byte = 0, bits;

	/* Only memcheck answers the client request GET_VBITS. */
	is_here = uaio_valgrind_ask(UAIO_RUNNING_ON_VALGRIND, 0, 0, 0) &&
		  uaio_valgrind_ask(GET_VBITS, (uintptr_t)&byte,
				    (uintptr_t)&bits, 1) == 1;
	/*
	 * malloc_usable_size() of memcheck itself returns 0 for an address at which no
	 * block begins.
	 */
	if (is_here)
		*(void **)&usable_size =
			dlsym(RTLD_DEFAULT, "malloc_usable_size");
}

bool uaio_memcheck_is_here(void)
{
	return is_here;
}

enum uaio_memory uaio_memcheck_look(uintptr_t at, size_t bytes, bool is_written,
				    uintptr_t *ret_byte)
{
	*ret_byte = uaio_valgrind_ask(CHECK_IS_ADDRESSABLE, at, bytes, 0);
	if (*ret_byte)
		return UAIO_MEMORY_UNADDRESSABLE;
	if (!is_written)
		*ret_byte = uaio_valgrind_ask(CHECK_IS_DEFINED, at, bytes, 0);
	return *ret_byte ? UAIO_MEMORY_UNINITIALISED : UAIO_MEMORY_GOOD;
}

/* Return: whether all of these bits are equal. */
static bool is_uniform(const uint8_t *bits, size_t bytes)
{
	if (bits[0] && bits[0] != UINT8_MAX)
		return false;
	for (size_t i = 1; i < bytes; i++)
		if (bits[i] != bits[0])
			return false;
	return true;
}

static bool is_addressable(uintptr_t at)
{
	uint8_t bits;

	return uaio_valgrind_ask(GET_VBITS, at, (uintptr_t)&bits, 1) ==
	       ALL_IS_ADDRESSABLE;
}

/* Return: whether a block of memcheck's allocator begins at `at`. */
static bool is_block(uintptr_t at)
{
	return usable_size && usable_size((void *)at);
}

static bool is_poisoned(const void *arg, const struct uaio_check_part *part)
{
	(void)arg;
	return part->is_poisoned;
}

/* The caller holds the lock of rank CHECK. */
bool uaio_memcheck_has_ended(const struct uaio_check_part *part)
{
	if (!is_here || !part->is_poisoned)
		return false;
	do {
		if (part->is_block)
			return !is_block(part->at);
		if (!part->has_byte_before || is_addressable(part->at - 1))
			return false;
		/*
		 * If another request in flight uses the byte before the memory, check
		 * the memory of that request instead.
		 */
		part = uaio_check_index_find(part->at - 1, 1, is_poisoned,
					     NULL);
	} while (part);
	return true;
}

void uaio_memcheck_protect(struct uaio_check_part *part)
{
	uint8_t *bits;

	if (!is_here || !part->is_written)
		return;
	bits = sys_mmap(NULL, part->bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS);
	if (sys_is_map_error(bits))
		return;
	/*
	 * If another request in flight uses part of the memory, GET_VBITS fails, and
	 * the memory is not protected a second time.
	 */
	part->is_poisoned =
		uaio_valgrind_ask(GET_VBITS, part->at, (uintptr_t)bits,
				  part->bytes) == ALL_IS_ADDRESSABLE;
	part->was_undefined = part->is_poisoned && bits[0] == UINT8_MAX;
	part->bits = bits;
	if (!part->is_poisoned || is_uniform(bits, part->bytes)) {
		(void)sys_munmap(bits, part->bytes);
		part->bits = NULL;
	}
	if (!part->is_poisoned)
		return;
	part->is_block = is_block(part->at);
	part->has_byte_before = !part->is_block && is_addressable(part->at - 1);
	uaio_valgrind_ask(MAKE_NO_ACCESS, part->at, part->bytes, 0);
}

static void restore(const struct uaio_check_part *part)
{
	if (!part->bits && part->was_undefined) {
		uaio_valgrind_ask(MAKE_UNDEFINED, part->at, part->bytes, 0);
		return;
	}
	uaio_valgrind_ask(MAKE_DEFINED, part->at, part->bytes, 0);
	if (part->bits)
		uaio_valgrind_ask(SET_VBITS, part->at, (uintptr_t)part->bits,
				  part->bytes);
}

void uaio_memcheck_unprotect(struct uaio_check_part *part)
{
	if (!is_here || !part->is_poisoned)
		return;
	if (!uaio_memcheck_has_ended(part))
		restore(part);
	if (part->bits)
		(void)sys_munmap(part->bits, part->bytes);
	part->is_poisoned = false;
	part->bits = NULL;
}

void uaio_memcheck_initialised(uintptr_t at, size_t bytes)
{
	if (is_here)
		uaio_valgrind_ask(MAKE_DEFINED_IF_ADDRESSABLE, at, bytes, 0);
}
