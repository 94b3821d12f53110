#!/bin/sh
# Installs Surefoot below a prefix, and takes away what it installed there.
#
#   xtask/install.sh library     the C libraries, their headers, Fortran modules, pkg-config and CMake files, examples
#   xtask/install.sh all         the same, the command, its man pages and completions, the systemd units and the guides
#   xtask/install.sh uninstall   what one of these has installed, and nothing else
#
# Variables, as make passes them on:
#   PREFIX    where to install; /usr/local unless said
#   LIBDIR    the folder of libraries below it, such as lib64 or lib/x86_64-linux-gnu; lib unless said
#   DESTDIR   a folder that stands for / while a package is made
#   PROFILE   release, or dev for a build without optimisation
#   BUILT     a folder with libsurefoot.so, libsurefoot.a and surefoot; nothing is built then. The library of ports,
#             libsurefoot_nic_c.so and .a, is left out where it is not there, and that is said
#   FORCE     yes to write over files that are there and were not installed by this
#   SUDO      what root is asked by where PREFIX is not ours to write; sudo unless said, empty for nothing
#
# What is installed has no debug data: that is beside what was built, as libsurefoot.so.debug and surefoot.debug.
# share/surefoot/installed lists what was installed: one path a line, below the prefix.
# Exit codes: 0 done, 1 something failed, 2 wrong use.
set -eu

cd "$(dirname "$0")/.."
prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-lib}
root=${DESTDIR:-}$prefix
list=share/surefoot/installed
umask 022

say() {
    echo "install: $*"
}

fail() {
    echo "install: $2" >&2
    exit "$1"
}

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
major=${version%%.*}
minor=${version#*.}
minor=${minor%%.*}
# As bindings/soname.rs gives it to the libraries.
if [ "$major" = 0 ]; then series=0.$minor; else series=$major; fi
soname=libsurefoot.so.$series

# Whether a path of the list is one below the prefix that leads nowhere else.
is_plain() {
    case /$1/ in
    *//* | */./* | */../*) return 1 ;;
    esac
}

# put MODE FILE PATH: a file for the stage, at its path below the prefix.
put() {
    mkdir -p "$stage/$(dirname "$3")"
    cp "$2" "$stage/$3"
    chmod "$1" "$stage/$3"
}

# fill MODE TEMPLATE PATH: the same, with what a template leaves open.
fill() {
    up=..
    rest=$libdir/cmake
    while [ "$rest" != "${rest%/*}" ]; do
        rest=${rest%/*}
        up=$up/..
    done
    mkdir -p "$stage/$(dirname "$3")"
    sed -e "s|@PREFIX@|$prefix|g" -e "s|@LIBDIR@|$libdir|g" -e "s|@UP@|$up/..|g" -e "s|@SONAME@|$soname|g" \
        -e "s|@VERSION@|$version|g" -e "s|@MAJOR@|$major|g" -e "s|@MINOR@|$minor|g" \
        -e "s|@LIBRARY@|libsurefoot.so.$version|g" "$2" >"$stage/$3"
    chmod "$1" "$stage/$3"
}

# strip_to FILE PATH [OPTION...]: a program or a shared library without its debug data, which goes beside it.
strip_to() {
    put 755 "$1" "$2"
    debug_folder=${debug_elsewhere:-$(dirname "$1")}
    debug=$debug_folder/$(basename "$1").debug
    "${OBJCOPY:-objcopy}" --only-keep-debug "$1" "$debug"
    (cd "$debug_folder" && "${OBJCOPY:-objcopy}" --strip-unneeded --add-gnu-debuglink="$(basename "$debug")" "$stage/$2")
}

# stage_kinds NAME: a library as programs link it: shared, under its three names, and as an archive.
stage_kinds() {
    strip_to "$built_library/$1.so" "$libdir/$1.so.$version"
    [ "$series" = "$version" ] || ln -s "$1.so.$version" "$stage/$libdir/$1.so.$series"
    ln -s "$1.so.$series" "$stage/$libdir/$1.so"
    put 644 "$built_library/$1.a" "$libdir/$1.a"
    "${OBJCOPY:-objcopy}" --strip-debug "$stage/$libdir/$1.a"
}

stage_ports() {
    if [ -n "${BUILT:-}" ] && ! [ -e "$built_library/libsurefoot_nic_c.so" ]; then
        say "$BUILT has no libsurefoot_nic_c.so: the library of ports is left out"
        return
    fi
    stage_kinds libsurefoot_nic_c
    put 644 bindings/nic-c/surefoot_nic.h include/surefoot_nic.h
    put 644 bindings/nic-c/examples/exchange.c share/surefoot/examples/exchange.c
    fill 644 contrib/install/surefoot-nic.pc.in "$libdir/pkgconfig/surefoot-nic.pc"
}

stage_library() {
    stage_kinds libsurefoot
    stage_ports
    for header in bindings/c/*.h; do
        put 644 "$header" "include/$(basename "$header")"
    done
    for module in bindings/fortran/surefoot_*.f90; do
        put 644 "$module" "share/surefoot/fortran/$(basename "$module")"
    done
    for example in bindings/c/examples/* bindings/fortran/checkpoint*.f90; do
        put 644 "$example" "share/surefoot/examples/$(basename "$example")"
    done
    fill 644 contrib/install/surefoot.pc.in "$libdir/pkgconfig/surefoot.pc"
    for name in surefootConfig surefootConfigVersion; do
        fill 644 "contrib/install/$name.cmake.in" "$libdir/cmake/surefoot/$name.cmake"
    done
}

stage_command() {
    strip_to "$built/surefoot" bin/surefoot
    for adapter in contrib/adapters/*.toml; do
        put 644 "$adapter" "share/surefoot/adapters/$(basename "$adapter")"
    done
    for file in contrib/prometheus/*.yml; do
        put 644 "$file" "share/surefoot/prometheus/$(basename "$file")"
    done
    for file in contrib/grafana/*.json; do
        put 644 "$file" "share/surefoot/grafana/$(basename "$file")"
    done
    # By the command itself, from the options that it takes.
    "$built/surefoot" generate "$stage/share"
    for file in docs/guide/*.md docs/findings.md docs/defaults.md docs/glossary.md; do
        put 644 "$file" "share/doc/surefoot/${file#docs/}"
    done
    for file in LICENSE-APACHE LICENSE-MIT CHANGELOG.md; do
        put 644 "$file" "share/doc/surefoot/$file"
    done
    mkdir -p "$stage/lib/systemd/system"
    for drop_in in contrib/systemd/surefoot.service.d/*; do
        put 644 "$drop_in" "share/surefoot/surefoot.service.d/$(basename "$drop_in")"
    done
    for unit in contrib/systemd/*.service contrib/systemd/*.timer; do
        sed "s|/usr/bin/surefoot|$prefix/bin/surefoot|" "$unit" >"$stage/lib/systemd/system/$(basename "$unit")"
    done
}

target=${CARGO_TARGET_DIR:-target}

expect_cargo() {
    command -v cargo >/dev/null 2>&1 || fail 1 "there is no cargo; make setup says how to get it"
    case ${PROFILE:-release} in
    release | dev) ;;
    *) fail 2 "PROFILE is ${PROFILE}; there are release and dev" ;;
    esac
}

# All its crates become one, so that nothing is in it which none of its functions reaches. That cannot be done for one
# that Rust programs link as well, as the tests do; so its kinds are named.
build_library() {
    expect_cargo
    if [ "${PROFILE:-release}" = release ]; then
        for package in surefoot-c surefoot-nic-c; do
            cargo rustc --locked --profile library --package "$package" --lib --crate-type cdylib,staticlib
        done
        built_library=$target/library
    else
        cargo build --locked --package surefoot-c --package surefoot-nic-c
        built_library=$target/debug
    fi
}

build_command() {
    expect_cargo
    if [ "${PROFILE:-release}" = release ]; then
        cargo build --locked --release --package surefoot-cli
        built=$target/release
    else
        cargo build --locked --package surefoot-cli
        built=$target/debug
    fi
}

# What needs the rights to write there: on its own, so that only this runs as root.
as_owner() {
    existing=$root
    while ! [ -e "$existing" ]; do existing=$(dirname "$existing"); done
    if [ -w "$existing" ] || [ "$(id -u)" = 0 ]; then
        PREFIX=$prefix DESTDIR=${DESTDIR:-} sh xtask/install.sh "$@"
    elif [ -n "${SUDO-sudo}" ] && command -v "${SUDO-sudo}" >/dev/null 2>&1; then
        say "writing to $root with ${SUDO-sudo}"
        "${SUDO-sudo}" env PREFIX="$prefix" DESTDIR="${DESTDIR:-}" FORCE="${FORCE:-}" sh xtask/install.sh "$@"
    else
        fail 1 "$existing is not ours to write; choose another PREFIX, or run this as root"
    fi
}

# Whether an earlier installation put a path there.
was_ours() {
    [ -f "$root/$list" ] && grep -qxF "$1" "$root/$list"
}

# copy STAGE: puts a stage below the prefix, and takes away what an earlier version had and this one has not.
copy() {
    stage=$1
    while IFS= read -r path; do
        if { [ -e "$root/$path" ] || [ -L "$root/$path" ]; } && ! was_ours "$path"; then
            [ "${FORCE:-}" = yes ] || fail 1 "$root/$path is there and is not ours; move it away, or say FORCE=yes"
        fi
    done <"$stage/$list"
    if [ -f "$root/$list" ]; then
        while IFS= read -r path; do
            if is_plain "$path" && ! [ -e "$stage/$path" ] && ! [ -L "$stage/$path" ]; then
                case $path in
                bin/* | lib/systemd/* | share/surefoot/adapters/* | share/surefoot/prometheus/* | share/surefoot/grafana/* | \
                    share/surefoot/surefoot.service.d/* | share/man/* | share/doc/* | \
                    share/bash-completion/* | share/zsh/* | share/fish/*)
                    # Who installs the library alone keeps the command that is there.
                    if ! [ -e "$stage/bin/surefoot" ]; then
                        echo "$path" >>"$stage/kept"
                        continue
                    fi
                    ;;
                esac
                rm -f "$root/$path"
            fi
        done <"$root/$list"
    fi
    while IFS= read -r path; do
        mkdir -p "$(dirname "$root/$path")"
        # Under its name only when it is whole: programs that run keep the file that they have.
        cp -P "$stage/$path" "$root/$path.new$$"
        mv -f "$root/$path.new$$" "$root/$path"
    done <"$stage/$list"
    [ ! -f "$stage/kept" ] || cat "$stage/kept" >>"$root/$list"
    refresh
}

remove() {
    [ -f "$root/$list" ] || fail 1 "nothing is installed below $root: there is no $root/$list"
    while IFS= read -r path; do
        is_plain "$path" || fail 1 "$root/$list names $path, which is not below the prefix; nothing more is removed"
        rm -f "$root/$path"
        # The folders that are only ours go when they are empty.
        folder=$(dirname "$path")
        while case $folder in */surefoot | */surefoot/*) true ;; *) false ;; esac; do
            rmdir "$root/$folder" 2>/dev/null || break
            folder=$(dirname "$folder")
        done
    done <<LIST
$(cat "$root/$list")
LIST
    refresh
}

# The loader of a running system has a list of what libraries there are.
refresh() {
    if [ -z "${DESTDIR:-}" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null 2>&1; then
        case $prefix in /usr | /usr/local) ldconfig ;; esac
    fi
}

case $prefix$libdir in
*[!A-Za-z0-9/._+-]*) fail 2 "PREFIX and LIBDIR have letters, digits and /._+- only: $prefix, $libdir" ;;
esac
case $prefix in /*) ;; *) fail 2 "PREFIX is a path from the root, and is $prefix" ;; esac
is_plain "$libdir" || fail 2 "LIBDIR is a folder below PREFIX, and is $libdir"
case $libdir in /*) fail 2 "LIBDIR is a folder below PREFIX, and is $libdir" ;; esac

case ${1:-} in
library | all)
    if [ -n "${BUILT:-}" ]; then
        built=$BUILT
        built_library=$BUILT
    else
        build_library
        [ "$1" = library ] || build_command
    fi
    command -v "${OBJCOPY:-objcopy}" >/dev/null 2>&1 || fail 1 "there is no ${OBJCOPY:-objcopy}; install binutils"
    stage=$(mktemp -d)
    trap 'rm -rf "$stage" "$stage.list" "$stage.debug"' EXIT
    trap 'exit 1' HUP INT TERM
    debug_elsewhere=
    if [ -n "${BUILT:-}" ]; then
        # Somebody else's folder is left as it is.
        debug_elsewhere=$stage.debug
        mkdir "$debug_elsewhere"
    fi
    stage_library
    [ "$1" = library ] || stage_command
    mkdir -p "$stage/share/surefoot"
    (cd "$stage" && find . -type f -o -type l) | sed 's|^\./||' | LC_ALL=C sort >"$stage.list"
    echo "$list" >>"$stage.list"
    mv "$stage.list" "$stage/$list"
    # mktemp's folder is for its owner alone, and root may be another user.
    chmod 755 "$stage"
    as_owner copy "$stage"
    say "Surefoot $version is installed below $root"
    ;;
copy) copy "$2" ;;
uninstall)
    as_owner remove
    say "Surefoot is removed from $root"
    ;;
remove) remove ;;
*)
    echo "usage: xtask/install.sh library|all|uninstall" >&2
    exit 2
    ;;
esac
