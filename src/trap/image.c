/* SPDX-License-Identifier: MIT */
#include "trap/image.h"

#if defined(__x86_64__)
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"

enum {
	PAGE = 4096,
	HEADERS_MAX = 64,
};

struct file {
	int fd;
	Elf64_Ehdr elf;
	Elf64_Phdr headers[HEADERS_MAX];
};

static uint64_t page_of(uint64_t addr)
{
	return addr & ~(PAGE - 1ull);
}

static uint64_t page_behind(uint64_t addr)
{
	return page_of(addr + PAGE - 1);
}

static bool is_ours(const Elf64_Ehdr *elf)
{
	return !memcmp(elf->e_ident, ELFMAG, SELFMAG) &&
	       elf->e_ident[EI_CLASS] == ELFCLASS64 &&
	       elf->e_machine == EM_X86_64 &&
	       (elf->e_type == ET_EXEC || elf->e_type == ET_DYN) &&
	       elf->e_phentsize == sizeof(Elf64_Phdr) && elf->e_phnum &&
	       elf->e_phnum <= HEADERS_MAX;
}

static const char *read_headers(struct file *file)
{
	size_t bytes;

	if (sys_pread(file->fd, &file->elf, sizeof(file->elf), 0) !=
		    sizeof(file->elf) ||
	    !is_ours(&file->elf))
		return "it is not a program of this processor";
	bytes = file->elf.e_phnum * sizeof(Elf64_Phdr);
	if (sys_pread(file->fd, file->headers, bytes,
		      (int64_t)file->elf.e_phoff) != (ssize_t)bytes)
		return "its program headers cannot be read";
	return NULL;
}

/*
 * Find the range of addresses and the alignment of all segments, as the file gives them
 * (before the file is relocated).
 */
static const char *measure(const struct file *file, uint64_t *ret_low,
			   uint64_t *ret_high, uint64_t *ret_align)
{
	*ret_low = UINT64_MAX;
	*ret_high = 0;
	*ret_align = PAGE;
	for (unsigned i = 0; i < file->elf.e_phnum; i++) {
		const Elf64_Phdr *ph = &file->headers[i];

		if (ph->p_type == PT_GNU_STACK && ph->p_flags & PF_X)
			return "it wants to execute code on its stack";
		if (ph->p_type != PT_LOAD || !ph->p_memsz)
			continue;
		if (ph->p_filesz > ph->p_memsz ||
		    ph->p_vaddr % PAGE != ph->p_offset % PAGE ||
		    ph->p_vaddr > INT64_MAX || ph->p_memsz > INT64_MAX)
			return "its segments are malformed";
		if (page_of(ph->p_vaddr) < *ret_low)
			*ret_low = page_of(ph->p_vaddr);
		if (page_behind(ph->p_vaddr + ph->p_memsz) > *ret_high)
			*ret_high = page_behind(ph->p_vaddr + ph->p_memsz);
		if (ph->p_align > *ret_align &&
		    !(ph->p_align & (ph->p_align - 1)))
			*ret_align = ph->p_align;
	}
	return *ret_high ? NULL : "it has no segments";
}

static const char *reserve(const struct file *file, uint64_t hint,
			   struct uaio_trap_image *image)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	uint64_t low, high, align, bytes, at;
	const char *cause = measure(file, &low, &high, &align);
	void *memory;

	if (cause)
		return cause;
	bytes = high - low;
	if (file->elf.e_type == ET_EXEC) {
		memory = sys_mmap((void *)low, bytes, PROT_NONE,
				  flags | MAP_FIXED_NOREPLACE);
		if (memory != (void *)low)
			return "its addresses are not free, or lower than "
			       "vm.mmap_min_addr";
		image->bias = 0;
	} else {
		memory =
			sys_mmap((void *)hint, bytes + align, PROT_NONE, flags);
		if (sys_is_map_error(memory))
			return "there is no memory for it";
		at = ((uintptr_t)memory + align - 1) & ~(align - 1);
		if (at > (uintptr_t)memory)
			(void)sys_munmap(memory, at - (uintptr_t)memory);
		(void)sys_munmap((void *)(at + bytes),
				 (uintptr_t)memory + align - at);
		image->bias = at - low;
	}
	image->low = low + image->bias;
	image->high = high + image->bias;
	return NULL;
}

static int protection(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0) |
	       (flags & PF_W ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0);
}

/*
 * Map the part of a segment that has no data in the file, filled with zeros.
 * Return: whether that succeeded.
 */
static bool map_zeros(const Elf64_Phdr *ph, uint64_t start, uint64_t end)
{
	/*
	 * If the segment has no data in the file at all, its first page must be mapped,
	 * too.
	 */
	uint64_t behind = ph->p_filesz ? page_behind(start) : page_of(start);

	if (end > behind &&
	    sys_is_map_error(sys_mmap((void *)behind, page_behind(end) - behind,
				      protection(ph->p_flags),
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)))
		return false;
	/*
	 * Like the kernel, clear the rest of the last page with data, because glibc's
	 * loader relies on this. In a read-only page the bytes of the file stay.
	 */
	if (start < behind && ph->p_flags & PF_W)
		memset((void *)start, 0, behind - start);
	return true;
}

static bool map_segment(const struct file *file, const Elf64_Phdr *ph,
			uint64_t bias)
{
	uint64_t start = ph->p_vaddr + bias;
	uint64_t bytes = page_behind(start + ph->p_filesz) - page_of(start);
	void *memory;

	if (ph->p_filesz) {
		memory = (void *)uaio_sys6(SYS_mmap, (long)page_of(start),
					   (long)bytes, protection(ph->p_flags),
					   MAP_PRIVATE | MAP_FIXED, file->fd,
					   (long)page_of(ph->p_offset));
		if (sys_is_map_error(memory))
			return false;
	}
	return ph->p_filesz == ph->p_memsz ||
	       map_zeros(ph, start + ph->p_filesz, start + ph->p_memsz);
}

static const char *read_loader(const struct file *file, const Elf64_Phdr *ph,
			       char loader[PATH_MAX])
{
	if (ph->p_filesz < 2 || ph->p_filesz > PATH_MAX ||
	    sys_pread(file->fd, loader, ph->p_filesz, (int64_t)ph->p_offset) !=
		    (ssize_t)ph->p_filesz ||
	    loader[ph->p_filesz - 1])
		return "its PT_INTERP is malformed";
	return NULL;
}

static const char *map_all(const struct file *file,
			   struct uaio_trap_image *image)
{
	const char *cause = NULL;

	image->code_low = UINT64_MAX;
	for (unsigned i = 0; i < file->elf.e_phnum && !cause; i++) {
		const Elf64_Phdr *ph = &file->headers[i];
		uint64_t start = ph->p_vaddr + image->bias;

		if (ph->p_type == PT_INTERP)
			cause = read_loader(file, ph, image->loader);
		if (ph->p_type != PT_LOAD || !ph->p_memsz)
			continue;
		if (!map_segment(file, ph, image->bias))
			return "a segment cannot be mapped";
		if (file->elf.e_phoff >= ph->p_offset &&
		    file->elf.e_phoff < ph->p_offset + ph->p_filesz)
			image->headers =
				start + file->elf.e_phoff - ph->p_offset;
		if (!(ph->p_flags & PF_X) || ph->p_flags & PF_W)
			continue;
		if (start < image->code_low)
			image->code_low = start;
		if (start + ph->p_filesz > image->code_high)
			image->code_high = start + ph->p_filesz;
	}
	return cause;
}

const char *uaio_trap_image_check(int fd)
{
	struct file file = { .fd = fd };
	uint64_t low, high, align;
	const char *cause = read_headers(&file);

	return cause ? cause : measure(&file, &low, &high, &align);
}

const char *uaio_trap_image_map(const char *path, uint64_t hint,
				struct uaio_trap_image *ret_image)
{
	struct file file;
	const char *cause;

	memset(ret_image, 0, sizeof(*ret_image));
	file.fd = (int)uaio_sys6(SYS_openat, AT_FDCWD, (long)path,
				 O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (file.fd < 0)
		return "it cannot be read";
	cause = read_headers(&file);
	if (!cause)
		cause = reserve(&file, hint, ret_image);
	if (!cause)
		cause = map_all(&file, ret_image);
	(void)uaio_sys6(SYS_close, file.fd, 0, 0, 0, 0, 0);
	ret_image->entry = file.elf.e_entry + ret_image->bias;
	ret_image->nr_headers = file.elf.e_phnum;
	return cause;
}
#endif
