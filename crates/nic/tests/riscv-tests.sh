#!/bin/sh
# Builds the official tests of rv32ui and rv32um in their form for physical memory (p) for an interface's 128 KiB at address 0:
#   crates/nic/tests/riscv-tests.sh CHECKOUT OUT
#   SUREFOOT_RISCV_TESTS=OUT cargo test -p surefoot-nic --test tests official -- --nocapture
# CHECKOUT is a checkout of riscv-software-src/riscv-tests with its submodule env. Their files are used as they are; only the
# addresses at which they are linked are ours.
set -eu
if [ $# -ne 2 ] || [ ! -f "$1/env/p/riscv_test.h" ]; then
    echo "usage: $0 CHECKOUT OUT: a checkout of riscv-software-src/riscv-tests with its submodule env, and a folder to build into" >&2
    exit 2
fi
checkout=$1 out=$2
mkdir -p "$out"
cat >"$out/link.ld" <<'END'
ENTRY(_start)
SECTIONS
{
    . = 0;
    .text : { *(.text.init) *(.text) }
    . = ALIGN(0x1000);
    .tohost : { *(.tohost) }
    . = ALIGN(0x1000);
    .data : { *(.data) *(.bss) }
}
END
for group in rv32ui rv32um; do
    for source in "$checkout/isa/$group"/*.S; do
        clang --target=riscv32-unknown-elf -march=rv32im -mabi=ilp32 -mno-relax -mcmodel=medany -static -nostdlib -nostartfiles \
            -Wno-unused-command-line-argument -I"$checkout/env/p" -I"$checkout/isa/macros/scalar" \
            -fuse-ld=lld -Wl,-T,"$out/link.ld" -Wl,--build-id=none \
            -o "$out/$group-p-$(basename "$source" .S)" "$source"
    done
done
