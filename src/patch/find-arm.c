/* SPDX-License-Identifier: MIT */
/*
 * Finds call sites (find.h) in code of aarch64
 *
 * Tested by test-patch-arm.c.
 */
#include "patch/find.h"

#if defined(__aarch64__)
#include "patch/decode.h"
#include "patch/flow.h"
#include "patch/reach.h"

enum {
	/*
	 * The search follows all paths in at most this many functions. In further
	 * functions it finds an svc only if no branch is between the mov of the number
	 * and the svc.
	 */
	FUNCTIONS_MAX = 64,
};

struct search {
	const struct dl_phdr_info *object;
	const struct uaio_numbers *numbers;
	struct uaio_site *sites;
	size_t nr, max, nr_left;
	uintptr_t functions[FUNCTIONS_MAX];
	size_t nr_functions;
	/* start of the function for which follow() was called last */
	uintptr_t last;
	/* where instructions begin in the code segment that is_reached() analysed last */
	struct uaio_reach reach;
};

static bool is_among(const struct search *search, uint32_t nr)
{
	return nr >= search->numbers->first && nr <= search->numbers->last;
}

/* Add the call to the call sites, unless the search has found this call before. */
static void add_site(struct search *search, uintptr_t call, uint32_t nr)
{
	for (size_t i = 0; i < search->nr; i++)
		if ((uintptr_t)search->sites[i].syscall == call)
			return;
	if (search->nr == search->max) {
		search->nr_left++;
		return;
	}
	search->sites[search->nr++] = (struct uaio_site){
		.mov = (uint8_t *)call,
		.syscall = (uint8_t *)call,
		.bytes = UAIO_SITE_SYSCALL_BYTES,
		.nr = nr,
	};
}

static void see_call(void *data, const struct uaio_flow *flow,
		     const struct uaio_flow_call *call)
{
	struct search *search = data;

	(void)flow;
	if (call->is_known && is_among(search, call->nr))
		add_site(search, call->addr, call->nr);
}

static bool has_call(const struct uaio_function *function)
{
	for (uintptr_t at = function->start; function->end - at >= 4; at += 4)
		if (uaio_insn_is_syscall((const uint8_t *)at, 4))
			return true;
	return false;
}

/*
 * Find the system calls in a function, even if a number passes through another register
 * before w8.
 */
static void follow(struct search *search, const struct uaio_function *function)
{
	/*
	 * The search calls follow() for each mov in a function, so several times in a
	 * row for the same function: then return early.
	 */
	if (search->last == function->start)
		return;
	search->last = function->start;
	for (size_t i = 0; i < search->nr_functions; i++)
		if (search->functions[i] == function->start)
			return;
	if (search->nr_functions == FUNCTIONS_MAX || !has_call(function))
		return;
	search->functions[search->nr_functions++] = function->start;
	/*
	 * NULL: ignore branches into the function from other code. Such a branch may
	 * bring another system call number, but the trampoline checks the number.
	 */
	(void)uaio_flow_follow(function, NULL, 0, see_call, search);
}

/* Return: the address of the system call that follows a mov to w8; 0: none. */
static uintptr_t call_behind(uintptr_t mov, uintptr_t end)
{
	uintptr_t at = mov + UAIO_SITE_MOV_BYTES;

	while (at < end && at - mov <= UAIO_SITE_MOVED_MAX) {
		const uint8_t *code = (const uint8_t *)at;
		const size_t length = uaio_insn_length(code, end - at);

		if (uaio_insn_is_syscall(code, length))
			return at;
		if (!length || !uaio_insn_is_movable(code, length))
			return 0;
		at += length;
	}
	return 0;
}

static bool is_reached(struct search *search, uintptr_t addr)
{
	struct uaio_reach *reach = &search->reach;

	/*
	 * Analyse the code of a segment only once, because the analysis takes long.
	 */
	if (!uaio_reach_covers(reach, addr)) {
		uaio_reach_close(reach);
		(void)uaio_reach_open(reach, search->object, addr);
	}
	return uaio_reach_at(reach, addr) == UAIO_REACHED_FIRST;
}

/*
 * Find the call that uses the number nr. mov: an instruction that sets reg to nr, or
 * data that looks like one.
 */
static void look_at(struct search *search, uintptr_t mov, unsigned reg,
		    uint32_t nr, uintptr_t segment_end)
{
	struct uaio_function function;
	const bool is_in_table = uaio_find_function(
		search->object, mov, &function.start, &function.end);
	uintptr_t call;

	if (is_in_table)
		follow(search, &function);
	if (reg != UAIO_INSN_NUMBER_REG)
		return;
	call = call_behind(mov, is_in_table ? function.end : segment_end);
	if (!call)
		return;
	if (is_in_table || is_reached(search, mov))
		add_site(search, call, nr);
	else
		search->nr_left++;
}

static void look_through(struct search *search, uintptr_t at, uintptr_t end)
{
	for (at = (at + 3) & ~3ul; at < end && end - at >= UAIO_SITE_MOV_BYTES;
	     at += UAIO_SITE_MOV_BYTES) {
		unsigned reg;
		uint32_t nr;

		if (uaio_insn_sets((const uint8_t *)at, UAIO_SITE_MOV_BYTES,
				   &reg, &nr) &&
		    is_among(search, nr))
			look_at(search, at, reg, nr, end);
	}
}

size_t uaio_find_calls(const struct dl_phdr_info *object,
		       const struct uaio_numbers *numbers,
		       struct uaio_site *ret_sites, size_t max,
		       size_t *ret_nr_left)
{
	struct search search = { .object = object,
				 .numbers = numbers,
				 .sites = ret_sites,
				 .max = max };

	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];
		const uintptr_t start = object->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_LOAD &&
		    (ph->p_flags & (PF_R | PF_W | PF_X)) == (PF_R | PF_X))
			look_through(&search, start, start + ph->p_filesz);
	}
	uaio_reach_close(&search.reach);
	*ret_nr_left = search.nr_left;
	return search.nr;
}

#endif
