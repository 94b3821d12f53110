#!/bin/sh
# Builds the control program three times, from one source, into the folder given (built/ beside this file by default).
set -eu
cd "$(dirname "$0")"
out=${1:-built}
mkdir -p "$out"
for build in plain detecting tolerant; do
    clang --target=riscv32-unknown-elf -march=rv32im -mabi=ilp32 -O2 -ffreestanding -fno-builtin -nostdlib \
        -Wall -Wextra -Wconversion -Wno-sign-conversion -Werror -Iinclude \
        "-DNCP_$(echo "$build" | tr '[:lower:]' '[:upper:]')" \
        -fuse-ld=lld -Wl,-T,link.ld -Wl,--build-id=none -o "$out/$build.elf" src/*.c
done
# What the built files were made of, and by which compiler, for whoever asks whether they are up to date.
{ clang --version | head -n 1 | sed 's/^/# /'; sha256sum include/*.h src/* link.ld build.sh; } >"$out/SOURCES"
