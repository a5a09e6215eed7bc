/* SPDX-License-Identifier: MIT */
#include "tool/common/image.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/loader.h"

#define R_SYM(info) ELF64_R_SYM(info)

static_assert(sizeof(ElfW(Addr)) == 8, "relocations are those of 64 bits");

/* An open file. */
struct source {
	int fd;
	uint64_t bytes;
	ElfW(Ehdr) header;
};

enum { HEADERS_MAX = 64, BYTES_MAX = 1 << 30 };

static bool is_in_file(const struct source *source, uint64_t at, uint64_t bytes)
{
	return at <= source->bytes && bytes <= source->bytes - at;
}

/*
 * Return: whether the file has the ELF class, byte order and machine of this tool.
 */
static bool is_like_us(const ElfW(Ehdr) * header)
{
	return !memcmp(header->e_ident, ELFMAG, SELFMAG) &&
	       uaio_elf_is_ours(header);
}

static int read_headers(struct source *source, ElfW(Phdr) * headers)
{
	const ElfW(Ehdr) *header = &source->header;
	size_t bytes;

	if (pread(source->fd, &source->header, sizeof(source->header), 0) !=
		    sizeof(source->header) ||
	    !is_like_us(header) || header->e_phnum > HEADERS_MAX ||
	    header->e_phentsize != sizeof(*headers))
		return -ENOEXEC;
	bytes = header->e_phnum * sizeof(*headers);
	return pread(source->fd, headers, bytes, (off_t)header->e_phoff) ==
			       (ssize_t)bytes
		       ? 0
		       : -ENOEXEC;
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/*
 * Find the range of addresses of all segments.
 * Return: false if the file is damaged.
 */
static bool measure(const struct source *source, const ElfW(Phdr) * headers,
		    struct uaio_image *image)
{
	ElfW(Addr) start = UINT64_MAX, end = 0;

	for (unsigned i = 0; i < source->header.e_phnum; i++) {
		const ElfW(Phdr) *ph = &headers[i];

		if (ph->p_type != PT_LOAD)
			continue;
		if (!is_in_file(source, ph->p_offset, ph->p_filesz) ||
		    ph->p_memsz < ph->p_filesz || ph->p_memsz > BYTES_MAX ||
		    ph->p_vaddr > UINT64_MAX - BYTES_MAX)
			return false;
		start = ph->p_vaddr < start ? ph->p_vaddr : start;
		end = ph->p_vaddr + ph->p_memsz > end
			      ? ph->p_vaddr + ph->p_memsz
			      : end;
	}
	/*
	 * Round the start down to a page boundary. Then each address has the same
	 * offset within its page in the image and in the loaded file.
	 */
	image->start = start & ~(ElfW(Addr))(page_bytes() - 1);
	image->bytes =
		(end - image->start + page_bytes() - 1) & ~(page_bytes() - 1);
	return end > start && end - start <= BYTES_MAX;
}

/* Return: whether a segment lies within the image. */
static bool is_within(const struct uaio_image *image, const ElfW(Phdr) * ph)
{
	ElfW(Addr) at = ph->p_vaddr - image->start;

	return ph->p_vaddr >= image->start && at <= image->bytes &&
	       ph->p_filesz <= image->bytes - at &&
	       ph->p_memsz <= image->bytes - at;
}

static size_t bytes_of(const struct uaio_image *image)
{
	return image->bytes + HEADERS_MAX * sizeof(ElfW(Phdr));
}

static bool copy_part(const struct source *source,
		      const struct uaio_image *image, const ElfW(Phdr) * ph,
		      size_t from, size_t to)
{
	return pread(source->fd,
		     image->memory + (ph->p_vaddr - image->start) + from,
		     to - from,
		     (off_t)(ph->p_offset + from)) == (ssize_t)(to - from);
}

/*
 * Put a segment's file data into the image. Whole pages are mapped, because most of a
 * large program is never read. Pages with parts of several segments are copied. A
 * segment is copied as a whole if it is small, or if its file offset and address do not
 * allow a mapping.
 */
static bool place(const struct source *source, const struct uaio_image *image,
		  const ElfW(Phdr) * ph)
{
	const size_t page = page_bytes();
	size_t from = -ph->p_vaddr & (page - 1);
	size_t to = ph->p_filesz - ((ph->p_vaddr + ph->p_filesz) & (page - 1));

	if ((ph->p_vaddr - ph->p_offset) & (page - 1) ||
	    ph->p_filesz < 2 * page)
		return copy_part(source, image, ph, 0, ph->p_filesz);
	return mmap(image->memory + (ph->p_vaddr - image->start) + from,
		    to - from, PROT_READ, MAP_PRIVATE | MAP_FIXED, source->fd,
		    (off_t)(ph->p_offset + from)) != MAP_FAILED &&
	       copy_part(source, image, ph, 0, from) &&
	       copy_part(source, image, ph, to, ph->p_filesz);
}

/* Put the segments into the image, and after them a copy of the program headers. */
static int place_all(const struct source *source, const ElfW(Phdr) * headers,
		     struct uaio_image *image)
{
	ElfW(Phdr) * copied;

	image->memory =
		mmap(NULL, bytes_of(image), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (image->memory == MAP_FAILED)
		return -errno;
	copied = (void *)(image->memory + image->bytes);
	for (unsigned i = 0; i < source->header.e_phnum; i++) {
		const ElfW(Phdr) *ph = &headers[i];

		if (!is_within(image, ph))
			continue;
		copied[i] = *ph;
		if (ph->p_type == PT_LOAD && !place(source, image, ph))
			return -EIO;
	}
	image->object = (struct dl_phdr_info){
		.dlpi_addr = (uintptr_t)image->memory - image->start,
		.dlpi_phdr = copied,
		.dlpi_phnum = source->header.e_phnum,
	};
	return 0;
}

/*
 * addr: an address in the loaded file.
 * Return: pointer to this byte in the image; NULL if any of the `bytes` bytes from
 * there on is outside the image.
 */
static const void *look_at(const struct uaio_image *image, ElfW(Addr) addr,
			   size_t bytes)
{
	if (addr < image->start || addr - image->start > image->bytes ||
	    bytes > image->bytes - (addr - image->start))
		return NULL;
	return image->memory + (addr - image->start);
}

/* Like look_at(), but returns NULL also if the address is not aligned. */
static const void *look_at_words(const struct uaio_image *image,
				 ElfW(Addr) addr, size_t bytes)
{
	return addr % sizeof(ElfW(Addr)) ? NULL : look_at(image, addr, bytes);
}

static void find_dynamic(struct uaio_image *image)
{
	for (unsigned i = 0; i < image->object.dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &image->object.dlpi_phdr[i];

		if (ph->p_type != PT_DYNAMIC)
			continue;
		image->dynamic =
			look_at_words(image, ph->p_vaddr, ph->p_filesz);
		if (image->dynamic)
			image->nr_dynamic =
				ph->p_filesz / sizeof(*image->dynamic);
	}
}

int uaio_image_open(const char *path, struct uaio_image *ret_image)
{
	struct source source = { .fd = open(path, O_RDONLY | O_CLOEXEC) };
	ElfW(Phdr) headers[HEADERS_MAX];
	struct stat st;
	int ret;

	*ret_image = (struct uaio_image){ .memory = MAP_FAILED };
	if (source.fd < 0)
		return -errno;
	ret = fstat(source.fd, &st) < 0 ? -errno : 0;
	source.bytes = ret ? 0 : (uint64_t)st.st_size;
	if (!ret)
		ret = read_headers(&source, headers);
	if (!ret)
		ret = measure(&source, headers, ret_image)
			      ? place_all(&source, headers, ret_image)
			      : -ENOEXEC;
	(void)close(source.fd);
	if (ret)
		uaio_image_close(ret_image);
	else
		find_dynamic(ret_image);
	return ret;
}

void uaio_image_close(struct uaio_image *image)
{
	if (image->memory != MAP_FAILED)
		(void)munmap(image->memory, bytes_of(image));
	image->memory = MAP_FAILED;
}

/*
 * Return: the value of an entry of the dynamic section; 0 if there is no such entry.
 */
static uint64_t entry(const struct uaio_image *image, int64_t tag)
{
	for (size_t i = 0; i < image->nr_dynamic; i++)
		if (image->dynamic[i].d_tag == tag)
			return image->dynamic[i].d_un.d_val;
	return 0;
}

struct names {
	const ElfW(Sym) * symbols;
	/*
	 * upper limit of the number of symbols: how many fit between `symbols` and the
	 * image's end
	 */
	size_t nr;
	const char *strings;
	size_t bytes;
};

static bool find_names(const struct uaio_image *image, struct names *ret)
{
	ElfW(Addr) symbols = entry(image, DT_SYMTAB);

	ret->bytes = entry(image, DT_STRSZ);
	ret->strings = look_at(image, entry(image, DT_STRTAB), ret->bytes);
	ret->symbols = look_at_words(image, symbols, sizeof(*ret->symbols));
	if (!ret->symbols || !ret->strings || !ret->bytes ||
	    ret->strings[ret->bytes - 1] != '\0')
		return false;
	ret->nr = (image->bytes - (symbols - image->start)) /
		  sizeof(*ret->symbols);
	return true;
}

/*
 * Call see() for each imported symbol that an entry of this relocation table uses.
 */
static void see_relocated(const struct uaio_image *image,
			  const struct names *names, int64_t table_tag,
			  int64_t bytes_tag,
			  void (*see)(void *arg, const char *name), void *arg)
{
	size_t bytes = entry(image, bytes_tag);
	const ElfW(Rela) *table =
		look_at_words(image, entry(image, table_tag), bytes);

	for (size_t i = 0; table && i < bytes / sizeof(*table); i++) {
		size_t number = R_SYM(table[i].r_info);
		const ElfW(Sym) *symbol = names->symbols + number;

		if (number && number < names->nr &&
		    symbol->st_shndx == SHN_UNDEF &&
		    symbol->st_name < names->bytes)
			see(arg, names->strings + symbol->st_name);
	}
}

void uaio_image_imports(const struct uaio_image *image,
			void (*see)(void *arg, const char *name), void *arg)
{
	struct names names;

	if (!find_names(image, &names))
		return;
	see_relocated(image, &names, DT_JMPREL, DT_PLTRELSZ, see, arg);
	see_relocated(image, &names, DT_RELA, DT_RELASZ, see, arg);
}

bool uaio_image_needs(const struct uaio_image *image, const char *library)
{
	struct names names;

	if (!find_names(image, &names))
		return false;
	for (size_t i = 0; i < image->nr_dynamic; i++) {
		const ElfW(Dyn) *dyn = &image->dynamic[i];

		if (dyn->d_tag == DT_NEEDED && dyn->d_un.d_val < names.bytes &&
		    !strcmp(names.strings + dyn->d_un.d_val, library))
			return true;
	}
	return false;
}
