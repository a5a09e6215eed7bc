/* SPDX-License-Identifier: MIT */
/*
 * Finds asynchronous interfaces in a program's files. Tested by
 * test/run/doctor_programs.py.
 */
#include "tool/common/image.h"

#include <stdio.h>
#include <string.h>

#include "patch/find.h"
#include "patch/scan.h"

enum { SITES_MAX = 256 };

/*
 * Imported functions, and for each function the use (enum uaio_use) that its import
 * proves or suggests. An asterisk matches any ending.
 */
static const struct {
	enum uaio_use use;
	const char *name;
} functions[] = {
	{ UAIO_USE_LIBAIO, "io_setup" },
	{ UAIO_USE_LIBAIO, "io_submit" },
	{ UAIO_USE_LIBAIO, "io_getevents" },
	{ UAIO_USE_LIBAIO, "io_pgetevents" },
	{ UAIO_USE_LIBAIO, "io_queue_init" },
	{ UAIO_USE_LIBURING, "io_uring_*" },
	{ UAIO_USE_POSIX, "aio_read*" },
	{ UAIO_USE_POSIX, "aio_write*" },
	{ UAIO_USE_POSIX, "aio_fsync*" },
	{ UAIO_USE_POSIX, "lio_listio*" },
	{ UAIO_USE_SYSCALL, "syscall" },
	{ UAIO_USE_DLOPEN, "dlopen" },
	{ UAIO_USE_SANITIZER, "__asan_init" },
	{ UAIO_USE_SANITIZER, "__tsan_init" },
	{ UAIO_USE_SANITIZER, "__msan_init" },
	{ UAIO_USE_SANITIZER, "__hwasan_init" },
};

/*
 * Libraries that need not be examined: a file that uses their functions imports these
 * functions, so the file's own imports show the use.
 */
static const char *const passed_over[] = {
	"ld-linux",    "libc.so.",    "libaio.so.",   "liburing.so.",
	"libasan.so.", "libtsan.so.", "libubsan.so.", "liblsan.so.",
};

/* The program or library that is examined. */
struct object {
	struct uaio_uses *uses;
	const char *name;
	bool is_library;
};

static void add_user(struct uaio_uses *uses, enum uaio_use use,
		     const char *name)
{
	char *list = uses->users[use];
	size_t len = strlen(list);
	const char *last = strrchr(list, ' ');

	/*
	 * Objects are examined one after the other. So if the list of users has the
	 * name of this object, this name is the last one.
	 */
	if (!strcmp(last ? last + 1 : list, name))
		return;
	(void)snprintf(list + len, UAIO_USERS_MAX - len, "%s%s",
		       len ? ", " : "", name);
}

static bool is_like(const char *name, const char *pattern)
{
	size_t len = strcspn(pattern, "*");

	return !strncmp(name, pattern, len) && (pattern[len] || !name[len]);
}

static void see_import(void *arg, const char *name)
{
	const struct object *object = arg;

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		enum uaio_use use = functions[i].use;

		/*
		 * Nearly all libraries import syscall() and dlopen(), so these imports
		 * prove nothing.
		 */
		if (object->is_library &&
		    (use == UAIO_USE_SYSCALL || use == UAIO_USE_DLOPEN))
			continue;
		if (is_like(name, functions[i].name))
			add_user(object->uses, use, object->name);
	}
}

static void look_at_sites(const struct object *object,
			  const struct uaio_image *image)
{
	static const struct uaio_numbers kernel_aio[] = {
#if defined(__aarch64__)
		{ 0, 4 },     /* io_setup to io_getevents */
		{ 292, 292 }, /* io_pgetevents */
#else
		{ 206, 210 }, /* io_setup to io_cancel */
		{ 333, 333 }, /* io_pgetevents */
#endif
	};
	struct uaio_site sites[SITES_MAX];
	size_t nr_left, nr_aio = 0;
	size_t nr = uaio_find_sites(&image->object, sites, SITES_MAX, &nr_left);
	struct uaio_own_calls calls = { 0 };

	object->uses->nr_sites += (unsigned)nr;
	object->uses->nr_sites_left += (unsigned)nr_left;
	if (nr + nr_left)
		add_user(object->uses, UAIO_USE_SITES, object->name);
	for (unsigned i = 0; i < 2; i++) {
		nr_aio += uaio_find_calls(&image->object, &kernel_aio[i], sites,
					  SITES_MAX, &nr_left);
		nr_aio += nr_left;
	}
	object->uses->nr_aio_sites += (unsigned)nr_aio;
	if (!object->is_library) {
		uaio_scan_object(&image->object, &calls);
		object->uses->may_call_any = calls.has_any;
	}
	if (nr_aio)
		add_user(object->uses, UAIO_USE_AIO_SITES, object->name);
}

static int look_at(const struct object *object, const char *path)
{
	struct uaio_image image;
	int ret = uaio_image_open(path, &image);

	if (ret < 0)
		return ret;
	uaio_image_imports(&image, see_import, (void *)object);
	look_at_sites(object, &image);
	uaio_image_close(&image);
	return 0;
}

static void see_library(void *arg, const char *name, const char *path)
{
	struct object object = { .uses = arg,
				 .name = name,
				 .is_library = true };
	size_t len = strlen(object.uses->missing);

	for (size_t i = 0; i < sizeof(passed_over) / sizeof(passed_over[0]);
	     i++)
		if (!strncmp(name, passed_over[i], strlen(passed_over[i])) &&
		    path)
			return;
	if (path)
		(void)look_at(&object, path);
	else
		(void)snprintf(object.uses->missing + len, UAIO_USERS_MAX - len,
			       "%s%s", len ? ", " : "", name);
}

bool uaio_uses_show_any(const struct uaio_uses *uses)
{
	for (int use = 0; use < UAIO_USE_SYSCALL; use++)
		if (uses->users[use][0])
			return true;
	return false;
}

bool uaio_uses_want_trap(const struct uaio_uses *uses)
{
	return uses->nr_sites_left || uses->nr_aio_sites ||
	       (uses->may_call_any && !uaio_uses_show_any(uses));
}

int uaio_uses_read(const char *path, bool can_be_loaded,
		   struct uaio_uses *ret_uses)
{
	const char *slash = strrchr(path, '/');
	struct object object = {
		.uses = ret_uses,
		.name = slash ? slash + 1 : path,
	};
	int ret;

	memset(ret_uses, 0, sizeof(*ret_uses));
	ret = look_at(&object, path);
	if (!ret && can_be_loaded)
		(void)uaio_needed_list(path, see_library, ret_uses);
	return ret;
}
