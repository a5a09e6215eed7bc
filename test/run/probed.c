/* SPDX-License-Identifier: MIT */
/*
 * probed REQUESTS POINT...: makes reads, and prints what a tracer of the library's
 * probes (USDT) sees
 *
 * Each POINT is NAME LOCATION ARGUMENT ARGUMENT ARGUMENT, as readelf prints it for the
 * preloaded library. As a tracer does, the program replaces the no-op at each LOCATION
 * by a breakpoint. The handler prints the probe's name and arguments. x86-64 only.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <link.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { POINTS_MAX = 64, NR_ARGUMENTS = 3, NOP = 0x90, BREAKPOINT = 0xcc };

static struct point {
	const char *name;
	const char *const *arguments;
	uint8_t *at;
} points[POINTS_MAX];
static int nr_points;

/*
 * Registers: the index in mcontext_t, and the names of the register and its parts.
 */
static const struct {
	int number;
	const char *names;
} registers[] = {
	{ REG_RAX, " rax eax ax al " },
	{ REG_RBX, " rbx ebx bx bl " },
	{ REG_RCX, " rcx ecx cx cl " },
	{ REG_RDX, " rdx edx dx dl " },
	{ REG_RSI, " rsi esi si sil " },
	{ REG_RDI, " rdi edi di dil " },
	{ REG_RBP, " rbp ebp bp bpl " },
	{ REG_RSP, " rsp " },
	{ REG_R8, " r8 r8d r8w r8b " },
	{ REG_R9, " r9 r9d r9w r9b " },
	{ REG_R10, " r10 r10d r10w r10b " },
	{ REG_R11, " r11 r11d r11w r11b " },
	{ REG_R12, " r12 r12d r12w r12b " },
	{ REG_R13, " r13 r13d r13w r13b " },
	{ REG_R14, " r14 r14d r14w r14b " },
	{ REG_R15, " r15 r15d r15w r15b " },
};

/*
 * text: begins with %NAME.
 * Return: the value of the register NAME.
 */
static int64_t value_of(const char *text, const ucontext_t *context)
{
	char name[8];

	assert(sscanf(text, "%%%5[a-z0-9]", name + 1) == 1);
	name[0] = ' ';
	strcat(name, " ");
	for (size_t i = 0; i < sizeof(registers) / sizeof(*registers); i++)
		if (strstr(registers[i].names, name))
			return context->uc_mcontext.gregs[registers[i].number];
	fprintf(stderr, "no register: %s\n", text);
	abort();
}

static int64_t cut(uint64_t value, long bytes)
{
	unsigned shift = 64 - 8 * (unsigned)labs(bytes);

	return bytes < 0 ? (int64_t)(value << shift) >> shift
			 : (int64_t)(value << shift >> shift);
}

/*
 * text: (%REGISTER), (%REGISTER,%REGISTER) or (%REGISTER,%REGISTER,NUMBER), as in
 * assembly.
 * Return: the address.
 */
static int64_t address(const char *text, const ucontext_t *context)
{
	int64_t sum = value_of(text, context), scale = 1;
	const char *index = strchr(text, ',');

	if (!index)
		return sum;
	if (strchr(index + 1, ','))
		scale = atoi(strchr(index + 1, ',') + 1);
	return sum + value_of(index + 1, context) * scale;
}

/*
 * text: BYTES@%REGISTER, BYTES@$NUMBER, or BYTES@OFFSET and an address, as in an ELF
 * note of a probe.
 * Return: the argument's value.
 */
static int64_t argument(const char *text, const ucontext_t *context)
{
	char *at;
	long bytes = strtol(text, &at, 10), offset;
	uint64_t value = 0;

	assert(*at++ == '@');
	if (*at == '$')
		return strtol(at + 1, NULL, 0);
	if (*at == '%')
		return cut((uint64_t)value_of(at, context), bytes);
	offset = strtol(at, &at, 10);
	assert(*at++ == '(');
	memcpy(&value, (const void *)(address(at, context) + offset),
	       (size_t)labs(bytes));
	return cut(value, bytes);
}

static void handle(int signal, siginfo_t *info, void *data)
{
	const ucontext_t *context = data;
	const uint8_t *at =
		(const uint8_t *)context->uc_mcontext.gregs[REG_RIP];

	(void)signal;
	(void)info;
	for (int i = 0; i < nr_points; i++)
		if (points[i].at + 1 == at) {
			char line[128];
			int len = snprintf(
				line, sizeof(line), "%s %lld %lld %lld\n",
				points[i].name,
				(long long)argument(points[i].arguments[0],
						    context),
				(long long)argument(points[i].arguments[1],
						    context),
				(long long)argument(points[i].arguments[2],
						    context));
			assert(write(1, line, (size_t)len) == len);
			return;
		}
	abort();
}

static int find(struct dl_phdr_info *object, size_t bytes, void *base)
{
	(void)bytes;
	if (!strstr(object->dlpi_name, "libuaio.so"))
		return 0;
	*(uintptr_t *)base = object->dlpi_addr;
	return 1;
}

static void set_breakpoint(uint8_t *at)
{
	uint8_t *page = (uint8_t *)((uintptr_t)at & ~4095ul);

	assert(*at == NOP);
	assert(mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
	*at = BREAKPOINT;
	assert(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
}

static void read_once(aio_context_t ctx, int fd, unsigned number)
{
	char buf[512];
	struct iocb iocb = { .aio_data = number,
			     .aio_lio_opcode = IOCB_CMD_PREAD,
			     .aio_fildes = (uint32_t)fd,
			     .aio_buf = (uintptr_t)buf,
			     .aio_nbytes = sizeof(buf) },
		    *list = &iocb;
	struct io_event event;

	assert(syscall(SYS_io_submit, ctx, 1l, &list) == 1);
	assert(syscall(SYS_io_getevents, ctx, 1l, 1l, &event, NULL) == 1);
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_sigaction = handle,
					  .sa_flags = SA_SIGINFO };
	unsigned nr = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	aio_context_t ctx = 0;
	uintptr_t base = 0;

	assert(file >= 0);
	assert(dl_iterate_phdr(find, &base) == 1);
	assert(syscall(SYS_io_setup, 8l, &ctx) == 0);
	assert(sigaction(SIGTRAP, &action, NULL) == 0);
	for (int i = 2; i + 4 < argc && nr_points < POINTS_MAX; i += 5) {
		points[nr_points].name = argv[i];
		points[nr_points].at =
			(uint8_t *)base + strtoul(argv[i + 1], NULL, 16);
		points[nr_points].arguments = (const char **)&argv[i + 2];
		nr_points++;
	}
	for (int i = 0; i < nr_points; i++)
		set_breakpoint(points[i].at);
	printf("file %d\n", file);
	fflush(stdout);
	for (unsigned i = 1; i <= nr; i++)
		read_once(ctx, file, i);
	return 0;
}
