/* SPDX-License-Identifier: MIT */
/*
 * A program that prints which libuaio is loaded into it: the file's name, for example
 * "libuaio.so.0", or "none".
 */
#include <link.h>
#include <stdio.h>
#include <string.h>

static int show(struct dl_phdr_info *info, size_t size, void *data)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	int *nr = data;

	(void)size;
	if (slash && !strncmp(slash + 1, "libuaio", 7)) {
		printf("%s\n", slash + 1);
		++*nr;
	}
	return 0;
}

int main(void)
{
	int nr = 0;

	dl_iterate_phdr(show, &nr);
	if (!nr)
		puts("none");
	return 0;
}
