/* SPDX-License-Identifier: MIT */
#include "patch/find.h"

#include <string.h>

#include "patch/decode.h"
#include "patch/flow.h"
#include "patch/reach.h"
#include "patch/code.h"

enum {
	/* system call numbers of io_uring_setup and io_uring_register */
	SETUP = 0x1a9,
	REGISTER = 0x1ab,
};

size_t uaio_find_sites(const struct dl_phdr_info *object,
		       struct uaio_site *ret_sites, size_t max,
		       size_t *ret_nr_left)
{
	static const struct uaio_numbers numbers = { SETUP, REGISTER };

	return uaio_find_calls(object, &numbers, ret_sites, max, ret_nr_left);
}

/* Finding call sites in x86-64 code */

#if defined(__x86_64__)

enum {
	MOV = 0xb8,
	/* opcode: mov of an immediate operand to a register or to memory */
	MOV_RM = 0xc7,
	FUNCTIONS_MAX = 64,
	LEFT_MAX = 64,
};

static const uint8_t syscall_bytes[2] = { 0x0f, 0x05 };

/* Return: the address of the next two bytes that look like `syscall`; NULL: none. */
static const uint8_t *next_syscall(const uint8_t *at, const uint8_t *end)
{
	/* Search for the second byte, as it is rarer in code than the first, 0f. */
	while (++at < end &&
	       (at = memchr(at, syscall_bytes[1], (size_t)(end - at))))
		if (at[-1] == syscall_bytes[0])
			return at - 1;
	return NULL;
}

enum found {
	FOUND_NOTHING,
	FOUND_SITE,
	/* a call, or perhaps data: it must not be patched */
	FOUND_UNKNOWN
};

/* Return: whether a system call follows the mov, in a function that ends at `end`. */
static enum found look_behind(uint8_t *mov, const uint8_t *end,
			      struct uaio_site *ret_site)
{
	uint8_t *at = mov + UAIO_SITE_MOV_BYTES;
	bool is_movable = true;

	while (at < end && at - mov <= UAIO_SITE_MOVED_MAX) {
		size_t length = uaio_insn_length(at, (size_t)(end - at));

		if (!length)
			return FOUND_NOTHING;
		if (length == 2 && !memcmp(at, syscall_bytes, 2)) {
			ret_site->mov = mov;
			ret_site->syscall = at;
			ret_site->bytes = UAIO_SITE_MOV_BYTES;
			ret_site->has_more = false;
			memcpy(&ret_site->nr, mov + 1, 4);
			return is_movable ? FOUND_SITE : FOUND_UNKNOWN;
		}
		/* After a call or ret instruction, eax no longer has the mov's number. */
		if (*at == 0xe8 || *at == 0xc3)
			return FOUND_NOTHING;
		is_movable = is_movable && uaio_insn_is_movable(at, length);
		at += length;
	}
	return FOUND_NOTHING;
}

/* State of a search for call sites in one object. */
struct search {
	const struct dl_phdr_info *object;
	const struct uaio_numbers *numbers;
	struct uaio_site *sites;
	size_t nr, max;
	/*
	 * Calls that cannot be patched. Once LEFT_MAX calls are stored, a further call
	 * may be counted twice.
	 */
	uintptr_t left[LEFT_MAX];
	size_t nr_left;
	/* instructions found in the segment that was last searched */
	struct uaio_reach reach;
	/* The next members are for sites whose mov sets another register than eax. */
	struct uaio_function function; /* the current function */
	/* set if the number of each call in `function` is known */
	bool is_known;
	/* set if `function` has a call whose number is in `numbers` */
	bool has_wanted;
	struct followed {
		uintptr_t start;
		bool is_known;
	} functions[FUNCTIONS_MAX];
	size_t nr_functions;
};

/* Return: whether an instruction begins at `mov`, which no unwind entry covers. */
static enum uaio_reached reached_at(struct search *search, uint8_t *mov)
{
	struct uaio_reach *reach = &search->reach;

	/* Analyse a segment's code only once, because that takes long. */
	if (!uaio_reach_covers(reach, (uintptr_t)mov)) {
		uaio_reach_close(reach);
		(void)uaio_reach_open(reach, search->object, (uintptr_t)mov);
	}
	return uaio_reach_at(reach, (uintptr_t)mov);
}

static enum found look_at(struct search *search, uint8_t *mov,
			  const uint8_t *segment_end,
			  struct uaio_site *ret_site)
{
	const uintptr_t addr = (uintptr_t)mov;
	uintptr_t start, end;
	const bool is_in_table =
		uaio_find_function(search->object, addr, &start, &end);
	const enum found found = look_behind(
		mov, is_in_table ? (const uint8_t *)end : segment_end,
		ret_site);

	if (found == FOUND_NOTHING)
		return FOUND_NOTHING;
	/*
	 * If no known code leads to the mov, the mov may be data. But it may also be
	 * part of a call site, so count it as a site that cannot be patched.
	 */
	if (!is_in_table)
		return reached_at(search, mov) == UAIO_REACHED_FIRST
			       ? found
			       : FOUND_UNKNOWN;
	switch (uaio_flow_look_for(start, end, addr)) {
	case UAIO_IS_INSTRUCTION: return found;
	case UAIO_IS_PART: return FOUND_NOTHING;
	default: return FOUND_UNKNOWN;
	}
}

static void add_left(struct search *search, uintptr_t call)
{
	if (search->nr_left < LEFT_MAX)
		search->left[search->nr_left] = call;
	search->nr_left++;
}

static void add_found(struct search *search, enum found found,
		      const struct uaio_site *site)
{
	if (found == FOUND_SITE && search->nr < search->max)
		search->sites[search->nr++] = *site;
	else if (found != FOUND_NOTHING)
		add_left(search, (uintptr_t)site->syscall);
}

static bool is_among(const uint8_t *number, const struct uaio_numbers *numbers)
{
	uint32_t nr;

	memcpy(&nr, number, sizeof(nr));
	return nr >= numbers->first && nr <= numbers->last;
}

/* Return: the address of the next four bytes whose value is in numbers; NULL: none. */
static uint8_t *next_number(uint8_t *at, const uint8_t *end,
			    const struct uaio_numbers *numbers)
{
	for (; end - at >= (ptrdiff_t)sizeof(uint32_t); at++)
		if (is_among(at, numbers))
			return at;
	return NULL;
}

/* Finding call sites whose mov sets another register than eax */

enum {
	/* steps_to() stores at most this many instructions before a call */
	STEPS_MAX = 8,
	/* how many branches from other code into a function are recorded at most */
	ENTRIES_MAX = 256,
	/* without an unwind entry: bytes searched after a mov, or before a `syscall` */
	SWEEP_BYTES = 4096,
	REX_B = 0x41,
};

/* Return: how many of the last instructions before addr were stored in steps. */
static size_t steps_to(const struct uaio_function *function, uintptr_t addr,
		       uintptr_t steps[STEPS_MAX])
{
	uintptr_t at = function->start;
	size_t nr = 0;

	while (at < addr) {
		size_t length = uaio_insn_length((const uint8_t *)at,
						 function->end - at);

		if (!length)
			return 0;
		if (nr == STEPS_MAX)
			memmove(steps, steps + 1, --nr * sizeof(steps[0]));
		steps[nr++] = at;
		at += length;
	}
	return at == addr ? nr : 0;
}

/*
 * Return: whether the instruction may move to the trampoline, or only sets eax. The
 * trampoline itself loads the system call's number into eax.
 */
static bool is_movable_or_sets(uintptr_t at, size_t length)
{
	const uint8_t *code = (const uint8_t *)at;
	unsigned from, to;
	uint32_t nr;

	return uaio_insn_is_movable(code, length) ||
	       ((uaio_insn_copies(code, length, &from, &to) ||
		 uaio_insn_sets(code, length, &to, &nr)) &&
		to == UAIO_INSN_NUMBER_REG);
}

/* *ret_site: instructions up to `call`. Return: whether a jump may overwrite them. */
static bool fit(const struct search *search, const struct uaio_flow *flow,
		uintptr_t call, struct uaio_site *ret_site)
{
	uintptr_t steps[STEPS_MAX + 1], at = call, end = call + 2;
	size_t nr = steps_to(&search->function, call, steps), i = nr;

	while (end - at < UAIO_SITE_MOV_BYTES) {
		if (!i || uaio_flow_is_target(flow, at) ||
		    !is_movable_or_sets(steps[i - 1], at - steps[i - 1]))
			return false;
		at = steps[--i];
	}
	/* Overwrite the `syscall` only if the jump needs its bytes, too. */
	steps[nr] = call;
	for (size_t k = i + 1; k <= nr; k++)
		if (steps[k] - at >= UAIO_SITE_MOV_BYTES) {
			end = steps[k];
			break;
		}
	ret_site->mov = (uint8_t *)at;
	ret_site->syscall = (uint8_t *)call;
	ret_site->bytes = end - at;
	ret_site->has_more = true;
	return ret_site->bytes <= UAIO_SITE_BYTES_MAX;
}

static bool is_found(const struct search *search, uintptr_t call)
{
	for (size_t i = 0; i < search->nr; i++)
		if ((uintptr_t)search->sites[i].syscall == call)
			return true;
	for (size_t i = 0; i < search->nr_left && i < LEFT_MAX; i++)
		if (search->left[i] == call)
			return true;
	return false;
}

/* Return: whether the call is already patched: a jump to a trampoline is before it. */
static bool is_changed(const struct search *search, uintptr_t call)
{
	const uintptr_t room = call - search->function.start;
	const uintptr_t most = UAIO_SITE_MOVED_MAX + UAIO_SITE_MOV_BYTES;

	for (uintptr_t back = UAIO_SITE_MOV_BYTES; back <= room && back <= most;
	     back++) {
		uintptr_t target;
		uint32_t number;

		if (uaio_insn_flow((const uint8_t *)call - back,
				   UAIO_SITE_MOV_BYTES,
				   &target) == UAIO_FLOW_JUMP &&
		    uaio_region_number_of(target, &number))
			return true;
	}
	return false;
}

static bool is_wanted(const struct search *search, uint32_t nr)
{
	return nr >= search->numbers->first && nr <= search->numbers->last;
}

/*
 * Record whether the function makes a call whose number is in search->numbers. Branches
 * from other code into the function are not known yet, so ignore them.
 */
static void see_if_any(void *data, const struct uaio_flow *flow,
		       const struct uaio_flow_call *call)
{
	struct search *search = data;

	(void)flow;
	search->is_known &= call->is_known;
	search->has_wanted |= call->is_known && is_wanted(search, call->nr);
}

static void see_call(void *data, const struct uaio_flow *flow,
		     const struct uaio_flow_call *call)
{
	struct search *search = data;

	search->is_known &= call->is_known;
	if (!call->is_known || !is_wanted(search, call->nr) ||
	    is_found(search, call->addr) || is_changed(search, call->addr))
		return;
	if (search->nr < search->max &&
	    fit(search, flow, call->addr, &search->sites[search->nr]))
		search->sites[search->nr++].nr = call->nr;
	else
		add_left(search, call->addr);
}

/*
 * Return: the registers that the mov may set. If the byte before the mov looks like
 * REX.B, return two registers: the byte may also be the end of another instruction.
 */
static uaio_insn_regs set_by(const uint8_t *mov)
{
	const unsigned reg = (*mov == MOV_RM ? mov[1] : *mov) & 7;

	return (uaio_insn_regs)(1u << reg |
				((mov[-1] & 0xf1) == REX_B ? 256u << reg : 0));
}

/*
 * The mov sets a register to a number, and not all paths from `mov` to `end` are known.
 * Count the calls that may use this number. Assume that the register has the number again
 * after each jump, because an unknown path from the mov may lead there. If the effects of
 * an instruction are not known, assume that the register keeps the number.
 */
static void sweep(struct search *search, uintptr_t mov, uintptr_t end)
{
	const uaio_insn_regs at_first = set_by((const uint8_t *)mov);
	uaio_insn_regs regs = at_first;
	size_t length;

	for (uintptr_t at = mov; at < end; at += length) {
		const uint8_t *code = (const uint8_t *)at;
		uaio_insn_regs writes;
		unsigned from, to;
		uintptr_t target;

		length = uaio_insn_length(code, end - at);
		if (!length)
			return;
		if (at == mov)
			continue;
		if (uaio_insn_is_syscall(code, length) &&
		    regs & UAIO_INSN_NUMBER && !is_found(search, at) &&
		    !is_changed(search, at))
			add_left(search, at);
		writes = uaio_insn_writes(code, length);
		if (uaio_insn_copies(code, length, &from, &to) &&
		    regs >> from & 1)
			regs |= (uaio_insn_regs)(1u << to);
		else if (writes != UAIO_INSN_ALL)
			regs &= (uaio_insn_regs)~writes;
		switch (uaio_insn_flow(code, length, &target)) {
		case UAIO_FLOW_JUMP:
		case UAIO_FLOW_INDIRECT:
		case UAIO_FLOW_END: regs |= at_first; break;
		default: break;
		}
	}
}

/*
 * Find the addresses in the function to which other code branches.
 * Return: how many there are; SIZE_MAX if there are too many.
 */
static size_t find_entries(const struct search *search, const uint8_t *code,
			   size_t bytes, uintptr_t entries[ENTRIES_MAX])
{
	const struct uaio_function *function = &search->function;
	const size_t size = function->end - function->start;
	size_t nr = 0;

	for (size_t i = 2; i + 4 <= bytes; i++) {
		uintptr_t from = (uintptr_t)code + i, target;
		int32_t distance;

		if (!uaio_flow_may_branch(code + i))
			continue;
		memcpy(&distance, code + i, sizeof(distance));
		target = from + 4 + (uintptr_t)(intptr_t)distance;
		if (target - function->start >= size ||
		    target == function->start || from - function->start < size)
			continue;
		if (nr == ENTRIES_MAX)
			return SIZE_MAX;
		entries[nr++] = target;
	}
	return nr;
}

/* Find the call sites of a function. Return: whether the number of each call is known. */
static bool find_numbers(struct search *search, const uint8_t *code,
			 size_t bytes)
{
	const struct uaio_function *function = &search->function;
	uintptr_t entries[ENTRIES_MAX];
	size_t nr;

	search->is_known = true;
	search->has_wanted = false;
	if (!uaio_flow_follow(function, NULL, 0, see_if_any, search))
		return false;
	/* To search all code for branches into the function is slow: do it last. */
	if (!search->has_wanted)
		return search->is_known;
	nr = find_entries(search, code, bytes, entries);
	return nr != SIZE_MAX &&
	       uaio_flow_follow(function, entries, nr, see_call, search) &&
	       search->is_known;
}

/* Call find_numbers(), but only once for each function. */
static bool follow(struct search *search, const uint8_t *code, size_t bytes)
{
	const uintptr_t start = search->function.start;
	bool is_known;

	for (size_t i = 0; i < search->nr_functions; i++)
		if (search->functions[i].start == start)
			return search->functions[i].is_known;
	is_known = find_numbers(search, code, bytes);
	if (search->nr_functions < FUNCTIONS_MAX)
		search->functions[search->nr_functions++] =
			(struct followed){ start, is_known };
	return is_known;
}

/*
 * The bytes at `mov` look like a mov that sets a register to a wanted number. Find the
 * calls that may use this number. Most such numbers are arguments of syscall(2), in
 * functions without a `syscall`: then do nothing.
 */
static void look_into(struct search *search, uintptr_t mov, const uint8_t *code,
		      size_t bytes)
{
	struct uaio_function *function = &search->function;
	const uintptr_t code_end = (uintptr_t)code + bytes;
	const bool is_in_table = uaio_find_function(
		search->object, mov, &function->start, &function->end);

	if (!is_in_table) {
		function->start = mov;
		function->end = code_end - mov < SWEEP_BYTES
					? code_end
					: mov + SWEEP_BYTES;
	}
	if (!next_syscall((const uint8_t *)function->start,
			  (const uint8_t *)function->end))
		return;
	if (!is_in_table || !follow(search, code, bytes))
		sweep(search, mov, function->end);
}

/*
 * Return: the mov that may set a register to the four-byte value at `number`; NULL:
 * none.
 */
static uint8_t *mov_of(uint8_t *number)
{
	if ((number[-1] & 0xf8) == MOV)
		return number - 1;
	return number[-2] == MOV_RM && (number[-1] & 0xf8) == 0xc0 ? number - 2
								   : NULL;
}

/* A range of code. */
struct code {
	uint8_t *start, *end;
};

/* Find sites whose mov sets eax. Return: whether a mov loads a wanted call number. */
static bool find_plain(struct search *search, const struct code *code,
		       const struct code *part)
{
	uint8_t *at = part->start;
	bool has_mov = false;

	for (; (at = next_number(at, part->end, search->numbers)); at++) {
		struct uaio_site site;

		has_mov |= mov_of(at) != NULL;
		if (at[-1] == MOV)
			add_found(search,
				  look_at(search, at - 1, code->end, &site),
				  &site);
	}
	return has_mov;
}

/*
 * Find the call sites that find_plain() does not find: the mov loads the system call's
 * number into another register than eax.
 */
static bool find_kept(struct search *search, const struct code *code,
		      const struct code *part)
{
	uint8_t *at = part->start;

	for (; (at = next_number(at, part->end, search->numbers)); at++) {
		uint8_t *mov = mov_of(at);
		struct uaio_site site;

		if (mov && (*mov != MOV || look_at(search, mov, code->end,
						   &site) == FOUND_NOTHING))
			look_into(search, (uintptr_t)mov, code->start,
				  (size_t)(code->end - code->start));
	}
	return true;
}

/*
 * Call find() for each part of the code in which a system call's number may be loaded.
 * A part is a function with a `syscall`, or the SWEEP_BYTES before a `syscall` that is
 * in no known function. Most code is in no part, so it is not searched.
 * Return: whether find() has returned true for any part.
 */
static bool for_parts(struct search *search, const struct code *code,
		      bool (*find)(struct search *search,
				   const struct code *code,
				   const struct code *part))
{
	/* Skip three bytes: mov_of() and set_by() read bytes before a number. */
	struct code part = { .end = code->start + 3 };
	const uint8_t *call = code->start;
	bool has_found = false;

	while ((call = next_syscall(call, code->end))) {
		uintptr_t start, end;

		if (uaio_find_function(search->object, (uintptr_t)call, &start,
				       &end)) {
			part.start = (uint8_t *)start;
		} else {
			part.start = call - code->start < SWEEP_BYTES
					     ? code->start
					     : (uint8_t *)call - SWEEP_BYTES;
			end = (uintptr_t)call + sizeof(syscall_bytes);
		}
		/* Parts come in ascending order; skip bytes of earlier parts. */
		if (part.start < part.end)
			part.start = part.end;
		if ((uint8_t *)end > part.end)
			part.end = (uint8_t *)end;
		has_found |= find(search, code, &part);
		call++;
	}
	return has_found;
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
		uint8_t *start = (uint8_t *)(object->dlpi_addr + ph->p_vaddr);
		const struct code code = { start, start + ph->p_filesz };

		if (ph->p_type == PT_LOAD &&
		    (ph->p_flags & (PF_R | PF_W | PF_X)) == (PF_R | PF_X) &&
		    ph->p_filesz > UAIO_SITE_MOV_BYTES &&
		    for_parts(&search, &code, find_plain))
			(void)for_parts(&search, &code, find_kept);
	}
	uaio_reach_close(&search.reach);
	*ret_nr_left = search.nr_left;
	return search.nr;
}

#endif
