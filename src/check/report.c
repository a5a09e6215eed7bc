/* SPDX-License-Identifier: MIT */
/*
 * Writes reports: each is a few lines of text, appended to the file DIR/PID by one
 * write
 *
 * Tabs separate the fields of a line. The first field is the type of the line. A report
 * has lines of the types "report", "what", "thread", "request", "other", "stack",
 * "frame" and "end". When the process makes its first request, it writes a line of type
 * "begun"; when it ends, a line of type "summary". `uaio check` reads the file, and
 * shows it to its user. tool/check/reports.c explains the fields.
 *
 * For each place in the program, a process reports each kind of error only once.
 *
 * Tested by test-check.c.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/loader.h"
#include "base/lock.h"
#include "base/sys.h"
#include "options/config.h"
#include "options/names.h"
#include "options/variables.h"
#include "proc/append.h"
#include "check/checker.h"
#include "check/checkint.h"

enum { TEXT_MAX = 32768, PLACES = 512 };

static const char *const kinds[] = {
	[UAIO_CHECK_KIND_FREED] = "freed-in-flight",
	[UAIO_CHECK_KIND_UNMAPPED] = "unmapped-in-flight",
	[UAIO_CHECK_KIND_STACK] = "stack-in-flight",
	[UAIO_CHECK_KIND_OVERLAP] = "overlap-in-flight",
	[UAIO_CHECK_KIND_CHANGED] = "changed-in-flight",
	[UAIO_CHECK_KIND_CLOSED] = "ring-closed-in-flight",
	[UAIO_CHECK_KIND_PROVIDED] = "provided-freed",
	[UAIO_CHECK_KIND_AIOCB] = "aiocb-in-flight",
	[UAIO_CHECK_KIND_RETURN_TWICE] = "aio-return-twice",
	[UAIO_CHECK_KIND_RETURN_MISSING] = "aio-return-missing",
	[UAIO_CHECK_KIND_UNADDRESSABLE] = "unaddressable",
	[UAIO_CHECK_KIND_UNINITIALISED] = "uninitialised",
	[UAIO_CHECK_KIND_TOUCHED] = "touched-in-flight",
	[UAIO_CHECK_KIND_RACE] = "race-in-flight",
	[UAIO_CHECK_KIND_HINT_CLOSED] = "descriptor-closed-in-flight",
	[UAIO_CHECK_KIND_HINT_UNREGISTERED] = "buffers-unregistered-in-flight",
	[UAIO_CHECK_KIND_HINT_RANGES] = "file-ranges-overlap",
	[UAIO_CHECK_KIND_HINT_DATA] = "user-data-freed",
	[UAIO_CHECK_KIND_HINT_UNSUBMITTED] = "sqe-not-submitted",
	[UAIO_CHECK_KIND_HINT_OVERFLOW] = "cq-overflow",
	[UAIO_CHECK_KIND_HINT_UNSEEN] = "completion-not-seen",
	[UAIO_CHECK_KIND_MADE] = "change",
};

static struct {
	/* rank STACKS: a thread that holds this lock acquires no other */
	struct uaio_lock lock;

	/*
	 * under the lock: hashes of the places in the program for which there was a
	 * report
	 */
	uint64_t places[PLACES];
	unsigned nr_places;
} reports;

struct text {
	size_t len;
	char buf[TEXT_MAX];
};

void uaio_check_reports_init(void)
{
	reports.lock = (struct uaio_lock){ 0 };
	reports.nr_places = 0;
}

static __attribute__((format(printf, 2, 3))) void add(struct text *text,
						      const char *format, ...)
{
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text->buf + text->len, sizeof(text->buf) - text->len,
			format, args);
	va_end(args);
	if (len > 0)
		text->len += (size_t)len;
	if (text->len >= sizeof(text->buf))
		text->len = sizeof(text->buf) - 1;
}

/* The executable or shared library that contains pc, and its file name. */
struct object {
	uintptr_t pc;
	uintptr_t base;
	char path[PATH_MAX];
	bool is_found;
};

static int find_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct object *object = arg;
	ssize_t len;

	(void)bytes;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && object->pc >= begin &&
		    object->pc < begin + segment->p_memsz)
			object->is_found = true;
	}
	if (!object->is_found)
		return 0;
	object->base = info->dlpi_addr;
	if (info->dlpi_name && *info->dlpi_name) {
		(void)snprintf(object->path, sizeof(object->path), "%s",
			       info->dlpi_name);
		return 1;
	}
	len = sys_readlinkat(AT_FDCWD, "/proc/self/exe", object->path,
			     sizeof(object->path) - 1);
	object->path[len > 0 ? len : 0] = '\0';
	return 1;
}

/* Return: whether the object is one of the library's own two shared libraries. */
static bool is_ours(const struct object *object)
{
	const char *name = uaio_base_name(object->path);

	return uaio_has_prefix(name, "libuaio.so") ||
	       uaio_has_prefix(name, "libuaio-check.so");
}

static void add_frame(struct text *text, uintptr_t pc)
{
	struct object object = { .pc = pc - 1 };
	Dl_info info;

	/*
	 * MemorySanitizer checks the arguments of C library functions. So mark `object`
	 * as initialised.
	 */
	uaio_msan_initialised((uintptr_t)&object, sizeof(object));
	(void)dl_iterate_phdr(find_object, &object);
	uaio_msan_initialised((uintptr_t)&object, sizeof(object));
	if (is_ours(&object))
		return;
	add(text, "frame\t0x%" PRIxPTR "\t%s\t0x%" PRIxPTR, pc,
	    object.is_found ? object.path : "-", pc - object.base);
	if (object.is_found && dladdr((void *)(pc - 1), &info) &&
	    info.dli_sname)
		add(text, "\t%s+0x%" PRIxPTR, info.dli_sname,
		    pc - (uintptr_t)info.dli_saddr);
	else
		add(text, "\t-");
	add(text, "\t-\n");
}

static void add_stack(struct text *text, const char *name, uint32_t number)
{
	struct uaio_check_stack stack;

	if (!uaio_check_stack_get(number, &stack))
		return;
	add(text, "stack\t%s\n", name);
	for (uint32_t i = 0; i < stack.nr; i++)
		add_frame(text, stack.pcs[i]);
}

static void add_request(struct text *text, const char *name,
			const struct uaio_check_record *record,
			const struct uaio_check_part *part)
{
	add(text, "%s\t%s\t", name, uaio_op_names[record->op]);
	if (part->bytes)
		add(text, "address=0x%" PRIxPTR " bytes=%zu ", part->at,
		    part->bytes);
	if (record->fd >= 0)
		add(text, "fd=%d ", record->fd);
	if (record->off >= 0)
		add(text, "offset=%" PRId64 " ", record->off);
	add(text, "user_data=0x%" PRIx64 "\n", record->data);
}

struct use {
	char text[80];
};

static struct use use_of(const struct uaio_check_part *part)
{
	struct use use;

	if (part->is_control)
		(void)snprintf(use.text, sizeof(use.text),
			       "has its aiocb at 0x%" PRIxPTR, part->at);
	else
		(void)snprintf(use.text, sizeof(use.text),
			       "%s %zu bytes at 0x%" PRIxPTR,
			       part->is_written ? "writes to" : "reads from",
			       part->bytes, part->at);
	return use;
}

/*
 * Append what was found about a request in flight, and end the sentence with a full
 * stop.
 */
static void add_what_of(struct text *text,
			const struct uaio_check_report *report)
{
	const char *op = report->record.op < UAIO_NR_OPS
				 ? uaio_op_names[report->record.op]
				 : NULL;
	const struct uaio_check_part *part = &report->part;

	switch (report->kind) {
	case UAIO_CHECK_KIND_FREED:
	case UAIO_CHECK_KIND_UNMAPPED:
		add(text,
		    "%zu bytes at 0x%" PRIxPTR " are given back (%s) while a "
		    "%s in flight %s",
		    report->bytes, report->at, report->did, op,
		    use_of(part).text);
		break;
	case UAIO_CHECK_KIND_STACK:
		add(text,
		    "a %s in flight %s, in the stack frame of a function that "
		    "has returned",
		    op, use_of(part).text);
		break;
	case UAIO_CHECK_KIND_OVERLAP:
		add(text, "a %s that %s is submitted while a %s in flight %s",
		    op, use_of(part).text, uaio_op_names[report->other.op],
		    use_of(&report->other_part).text);
		break;
	case UAIO_CHECK_KIND_CHANGED:
		add(text,
		    "%zu bytes at 0x%" PRIxPTR
		    " were changed while a %s in flight read from them",
		    part->bytes, part->at, op);
		break;
	case UAIO_CHECK_KIND_PROVIDED:
		add(text,
		    "a %s has selected a provided buffer of %zu bytes at "
		    "0x%" PRIxPTR ", %s",
		    op, report->bytes, report->at, report->did);
		break;
	case UAIO_CHECK_KIND_CLOSED:
		add(text, "a ring is closed while a %s in flight there %s", op,
		    use_of(part).text);
		break;
	default: break;
	}
}

/*
 * Append what another checker in the process has found, and end the sentence with a
 * full stop.
 */
static void add_what_of_checked(struct text *text,
				const struct uaio_check_report *report)
{
	const char *op = report->record.op < UAIO_NR_OPS
				 ? uaio_op_names[report->record.op]
				 : NULL;
	const struct uaio_check_part *part = &report->part;

	switch (report->kind) {
	case UAIO_CHECK_KIND_UNADDRESSABLE:
		add(text,
		    "a %s that %s is submitted, of which the program may not "
		    "use the byte at 0x%" PRIxPTR,
		    op, use_of(part).text, report->at);
		break;
	case UAIO_CHECK_KIND_UNINITIALISED:
		add(text,
		    "a %s that %s is submitted, of which the byte at "
		    "0x%" PRIxPTR " was never initialised",
		    op, use_of(part).text, report->at);
		break;
	case UAIO_CHECK_KIND_TOUCHED:
		add(text,
		    "the program uses the byte at 0x%" PRIxPTR
		    " while a %s in flight %s",
		    report->at, op, use_of(part).text);
		break;
	case UAIO_CHECK_KIND_RACE:
		add(text,
		    "a %s %s, and the program uses the byte at 0x%" PRIxPTR
		    ": nothing orders the two",
		    op, use_of(part).text, report->at);
		break;
	default: break;
	}
}

static void add_what_of_aiocb(struct text *text,
			      const struct uaio_check_report *report)
{
	switch (report->kind) {
	case UAIO_CHECK_KIND_AIOCB:
		add(text,
		    "the aiocb at 0x%" PRIxPTR
		    " is submitted again while its last request is in flight",
		    report->at);
		break;
	case UAIO_CHECK_KIND_RETURN_TWICE:
		add(text,
		    "aio_return() of the aiocb at 0x%" PRIxPTR
		    " is called again",
		    report->at);
		break;
	case UAIO_CHECK_KIND_RETURN_MISSING:
		add(text,
		    "the aiocb at 0x%" PRIxPTR
		    " is submitted again without aio_return() of its last "
		    "request",
		    report->at);
		break;
	default: break;
	}
}

static void add_what(struct text *text, const struct uaio_check_report *report)
{
	add(text, "what\t");
	add_what_of(text, report);
	add_what_of_checked(text, report);
	add_what_of_aiocb(text, report);
	if (report->kind >= UAIO_CHECK_KIND_HINT_CLOSED)
		add(text, "%s", report->did);
	add(text, "\n");
}

static void add_thread(struct text *text)
{
	char name[32] = "?";
	int fd = sys_openat(AT_FDCWD, "/proc/thread-self/comm",
			    O_RDONLY | O_CLOEXEC, 0);
	ssize_t got = fd < 0 ? 0 : sys_read(fd, name, sizeof(name) - 1);

	uaio_msan_initialised((uintptr_t)name, sizeof(name));
	if (got > 0)
		name[got - 1] = '\0'; /* replaces the newline */
	for (char *at = name; *at; at++)
		if (*at == '\t' || *at == '\n')
			*at = '?';
	if (fd >= 0)
		(void)sys_close(fd);
	add(text, "thread\t%d\t%s\n", sys_gettid(), name);
}

static void append(const struct text *text)
{
	char path[UAIO_CHECK_DIRECTORY_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s/%d", uaio_check_directory,
		       sys_getpid());
	if (likely(uaio_append(path, text->buf, text->len) == 0))
		return;
	(void)snprintf(path, sizeof(path), "%s/" UAIO_CHECK_WHOLE,
		       uaio_check_directory);
	(void)sys_unlinkat(AT_FDCWD, path, 0);
}

/*
 * Return: whether no report of this kind was written for this place in the program
 * before.
 */
static bool is_new(const struct uaio_check_report *report)
{
	uint64_t place = (uint64_t)report->kind << 56 ^
			 (uint64_t)report->record.stack << 28 ^ report->now;
	bool ret = true;

	uaio_lock(&reports.lock, UAIO_RANK_STACKS);
	for (unsigned i = 0; i < reports.nr_places; i++)
		ret &= reports.places[i] != place;
	if (ret && reports.nr_places < PLACES)
		reports.places[reports.nr_places++] = place;
	uaio_unlock(&reports.lock, UAIO_RANK_STACKS);
	return ret;
}

void uaio_check_report(const struct uaio_check_report *report)
{
	struct text *text;

	if (report->kind != UAIO_CHECK_KIND_MADE && !is_new(report))
		return;
	/* Map memory for the text, as it does not fit on a small stack. */
	text = sys_mmap(NULL, sizeof(*text), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS);
	if (sys_is_map_error(text))
		return;
	add(text, "report\t%s\n", kinds[report->kind]);
	add_what(text, report);
	add_thread(text);
	if (report->record.op < UAIO_NR_OPS)
		add_request(text, "request", &report->record, &report->part);
	if (report->other.op < UAIO_NR_OPS)
		add_request(text, "other", &report->other, &report->other_part);
	add_stack(text, "now", report->now);
	add_stack(text, "submitted", report->record.stack);
	if (report->other.op < UAIO_NR_OPS)
		add_stack(text, "other", report->other.stack);
	add(text, "end\n");
	append(text);
	(void)sys_munmap(text, sizeof(*text));
}

void uaio_check_begun(void)
{
	struct text text = { .len = 0 };

	add(&text, "begun\n");
	append(&text);
}

void uaio_check_summary(uint64_t nr_requests, uint64_t nr_checked,
			const char *by)
{
	struct text text = { .len = 0 };

	add(&text,
	    "summary\trequests %" PRIu64 "\tchecked %" PRIu64 "\tby %s\n",
	    nr_requests, nr_checked, by);
	append(&text);
}
