/* SPDX-License-Identifier: MIT */
/*
 * Part of test-patch.c and test-patch-arm.c: an object that makes a system call when it
 * is loaded.
 */

#if defined(__aarch64__)
#define CALL(nr) "mov w8, #" #nr "\n svc #0\n"
#else
#define CALL(nr) "mov $" #nr ", %eax\n syscall\n"
#endif
#define FUNCTION(name, ...)                    \
	__asm__(".text\n.globl " #name "\n"    \
		".type " #name ", %function\n" \
		".balign 16\n" #name ":\n"     \
		".cfi_startproc\n" __VA_ARGS__ \
		"ret\n.cfi_endproc\n.size " #name ", . - " #name "\n")

FUNCTION(module_setup, CALL(425));
FUNCTION(module_enter, CALL(426));

long module_setup(long nr_entries, void *params);

long module_at_start = 1;

__attribute__((constructor)) static void start(void)
{
	/*
	 * 0 entries: the kernel would refuse the call, so a positive result comes from
	 * the library.
	 */
	module_at_start = module_setup(0, &module_at_start);
}
