/* SPDX-License-Identifier: MIT */
/* Part of test-patch.c: an object that makes a call when it is loaded. */

__asm__(".text\n"
	".globl module_setup\n"
	".type module_setup, @function\n"
	".balign 16\n"
	"module_setup:\n"
	".cfi_startproc\n"
	"mov $425, %eax\n"
	"syscall\n"
	"ret\n"
	".cfi_endproc\n"
	".size module_setup, . - module_setup\n");

long module_setup(long nr_entries, void *params);

long module_at_start = 1;

__attribute__((constructor)) static void start(void)
{
	/* The kernel would refuse this number. */
	module_at_start = module_setup(0, &module_at_start);
}
