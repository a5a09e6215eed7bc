/* SPDX-License-Identifier: MIT */
/*
 * Running a seccomp filter in the library, to learn its answer
 *
 * A seccomp filter is a classic BPF program that sees only the number and the arguments
 * of a system call. So the library can run this BPF program itself, without making the
 * system call.
 *
 * Tested by test/sandbox/filters.py.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/calls.h"
#include "base/uaddr.h"

#if defined(__x86_64__)
static const uint32_t arch = AUDIT_ARCH_X86_64;
#else
static const uint32_t arch = AUDIT_ARCH_AARCH64;
#endif

/* The registers and memory of the BPF program while the library runs it. */
struct machine {
	struct seccomp_data data;
	uint32_t a, x;
	uint32_t memory[BPF_MEMWORDS];
	uint32_t pc;
};

static bool load(struct machine *m, const struct sock_filter *insn)
{
	uint32_t value;

	switch (BPF_MODE(insn->code)) {
	case BPF_ABS:
		if (insn->k % 4 || insn->k >= sizeof(m->data))
			return false;
		memcpy(&value, (const char *)&m->data + insn->k, 4);
		break;
	case BPF_IMM: value = insn->k; break;
	case BPF_LEN: value = sizeof(m->data); break;
	case BPF_MEM:
		if (insn->k >= BPF_MEMWORDS)
			return false;
		value = m->memory[insn->k];
		break;
	default: return false;
	}
	*(BPF_CLASS(insn->code) == BPF_LD ? &m->a : &m->x) = value;
	return true;
}

static bool store(struct machine *m, const struct sock_filter *insn)
{
	if (insn->k >= BPF_MEMWORDS)
		return false;
	m->memory[insn->k] = BPF_CLASS(insn->code) == BPF_ST ? m->a : m->x;
	return true;
}

static bool compute(struct machine *m, const struct sock_filter *insn)
{
	uint32_t by = BPF_SRC(insn->code) == BPF_X ? m->x : insn->k;

	switch (BPF_OP(insn->code)) {
	case BPF_ADD: m->a += by; return true;
	case BPF_SUB: m->a -= by; return true;
	case BPF_MUL: m->a *= by; return true;
	case BPF_DIV: m->a = by ? m->a / by : 0; return by;
	case BPF_AND: m->a &= by; return true;
	case BPF_OR: m->a |= by; return true;
	case BPF_XOR: m->a ^= by; return true;
	case BPF_LSH: m->a <<= by & 31; return true;
	case BPF_RSH: m->a >>= by & 31; return true;
	case BPF_NEG: m->a = -m->a; return true;
	default: return false;
	}
}

/* BPF can only jump forward. So every program ends. */
static bool jump(struct machine *m, const struct sock_filter *insn)
{
	uint32_t by = BPF_SRC(insn->code) == BPF_X ? m->x : insn->k;
	bool is_so;

	switch (BPF_OP(insn->code)) {
	case BPF_JA: m->pc += insn->k; return insn->k < BPF_MAXINSNS;
	case BPF_JEQ: is_so = m->a == by; break;
	case BPF_JGT: is_so = m->a > by; break;
	case BPF_JGE: is_so = m->a >= by; break;
	case BPF_JSET: is_so = m->a & by; break;
	default: return false;
	}
	m->pc += is_so ? insn->jt : insn->jf;
	return true;
}

static void move(struct machine *m, const struct sock_filter *insn)
{
	if (BPF_MISCOP(insn->code) == BPF_TAX)
		m->x = m->a;
	else
		m->a = m->x;
}

static uint32_t run(struct machine *m, const struct sock_filter *insns,
		    uint32_t nr)
{
	bool is_right = true;

	while (is_right && m->pc < nr) {
		const struct sock_filter *insn = &insns[m->pc++];

		switch (BPF_CLASS(insn->code)) {
		case BPF_LD:
		case BPF_LDX: is_right = load(m, insn); break;
		case BPF_ST:
		case BPF_STX: is_right = store(m, insn); break;
		case BPF_ALU: is_right = compute(m, insn); break;
		case BPF_JMP: is_right = jump(m, insn); break;
		case BPF_MISC: move(m, insn); break;
		default: return BPF_RVAL(insn->code) == BPF_A ? m->a : insn->k;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

static bool is_readable(const struct sock_fprog *program)
{
	uintptr_t at = (uintptr_t)program, insns;
	size_t bytes;

	if (!uaio_is_accessible(at, sizeof(*program)) ||
	    !uaio_can_read(at, sizeof(*program)) || !program->len ||
	    program->len > BPF_MAXINSNS)
		return false;
	insns = (uintptr_t)program->filter;
	bytes = program->len * sizeof(*program->filter);
	return uaio_is_accessible(insns, bytes) && uaio_can_read(insns, bytes);
}

bool uaio_filter_allows(const struct sock_fprog *program, long nr,
			const long args[6])
{
	struct machine machine = {
		.data.nr = (int)nr,
		.data.arch = arch,
		.data.instruction_pointer = (uintptr_t)&uaio_filter_allows,
	};
	uint32_t action;

	if (!is_readable(program))
		return false;
	for (unsigned i = 0; i < 6; i++)
		machine.data.args[i] = (uint64_t)args[i];
	action = run(&machine, program->filter, program->len) &
		 SECCOMP_RET_ACTION_FULL;
	return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}
