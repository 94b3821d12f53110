#!/bin/sh
# Builds the packages of this version into target/package: .deb, .rpm, and the wheel for Python. What they hold is what xtask/install.sh
# installs; this only says which package gets which file.
#
#   xtask/package.sh [deb] [rpm] [wheel]     all of them unless some are named
#
# Variables:
#   BUILT        a folder with what was built already, as for xtask/install.sh
#   OUT          where the packages go; target/package unless said
#   LEVEL        how hard to compress, 0 to 9; 6 unless said
#   MAINTAINER   name and address in the .deb, such as "Ann <ann@example.org>"
# Exit codes: 0 done, 1 something failed, 2 wrong use, 3 a tool that a package needs is not there; the others are built.
set -eu

cd "$(dirname "$0")/.."
umask 022
out=${OUT:-target/package}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
deb_version=$version-1
# There is no address of a mailing list yet; RFC 2606 keeps this name from ever being one.
maintainer=${MAINTAINER:-The maintainers of Surefoot <surefoot@surefoot.invalid>}
missing=

say() {
    echo "package: $*"
}

# Since when nothing changed: two builds of one commit give one package.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)
fi
export SOURCE_DATE_EPOCH

has() {
    for program in "$@"; do
        command -v "$program" >/dev/null 2>&1 || {
            say "there is no $program: $kind is left out; install it"
            missing=yes
            return 1
        }
    done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# stage LIBDIR: everything that is installed below /usr, in $work/all.
stage() {
    rm -rf "$work/all"
    mkdir "$work/all"
    PREFIX=/usr LIBDIR=$1 DESTDIR=$work/all SUDO='' sh xtask/install.sh all
    rm "$work/all/usr/share/surefoot/installed"
    find "$work/all/usr/share/man" -type f -exec gzip -9n {} +
    # The configuration as it is by default, every line a comment.
    mkdir -p "$work/all/etc/surefoot"
    "$work/all/usr/bin/surefoot" config defaults >"$work/all/etc/surefoot/surefoot.toml"
}

# package_of PATH: which package a file belongs to; a path from the root without its first slash.
package_of() {
    case $1 in
    */libsurefoot*.so.*) echo library ;;
    usr/lib*/libsurefoot* | */pkgconfig/* | */cmake/* | usr/include/* | usr/share/surefoot/fortran/* | usr/share/surefoot/examples/*) echo development ;;
    *) echo command ;;
    esac
}

# split: $work/all into $work/command, $work/library and $work/development.
split() {
    rm -rf "$work/command" "$work/library" "$work/development"
    (cd "$work/all" && find . -type f -o -type l) | sed 's|^\./||' | LC_ALL=C sort >"$work/files"
    while IFS= read -r path; do
        to=$work/$(package_of "$path")/$path
        mkdir -p "$(dirname "$to")"
        mv "$work/all/$path" "$to"
    done <"$work/files"
}

describe() {
    case $1 in
    command)
        summary="keep a server's work going through hardware trouble"
        text="Finds what steals time from the cores and names who did it, watches memory,
drives and network interfaces that go bad, and keeps work alive: checkpoints
that repair themselves, interfaces that recover, and hosts that are taken
out, repaired and brought back. This package has the command, its systemd
units, man pages, completions for shells and the guides."
        ;;
    library)
        summary="checkpoints that repair themselves, for programs"
        text="Checkpoints to memory, to the SSD and to other ranks, each page with parity
and checksum; notes of gaps for polling threads; a modelled interface. This
package has the shared libraries."
        ;;
    development)
        summary="checkpoints that repair themselves, to build programs with"
        text="Headers, static libraries, pkg-config and CMake files, Fortran modules and
examples of the libraries for checkpoints, polling threads and the modelled
interface."
        ;;
    esac
}

# Lines of a changelog as Debian has it.
debian_changelog() {
    echo "surefoot ($deb_version) unstable; urgency=medium"
    echo
    echo "  * Release $version; the changes are in /usr/share/doc/surefoot/changelog.gz."
    echo
    echo " -- $maintainer  $(date -uR -d "@$SOURCE_DATE_EPOCH")"
}

copyright() {
    echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    echo "Upstream-Name: surefoot"
    echo
    echo "Files: *"
    echo "Copyright: the authors of Surefoot"
    echo "License: Apache-2.0 or Expat"
    echo
    echo "Files: crates/probes/bpf/*"
    echo "Copyright: the authors of Surefoot"
    echo "License: GPL-2 or BSD-2-clause"
    echo
    echo "License: Apache-2.0"
    echo " On Debian systems the text is in /usr/share/common-licenses/Apache-2.0."
    echo
    echo "License: GPL-2"
    echo " On Debian systems the text is in /usr/share/common-licenses/GPL-2."
    echo
    echo "License: Expat"
    sed 's/^$/./; s/^/ /' LICENSE-MIT
    echo
    echo "License: BSD-2-clause"
    sed 's/^$/./; s/^/ /' licences/BSD-2-Clause.txt
}

# What the programs and libraries of a package need of others, as Debian names it: with the oldest C library that has all that they use.
shared_libraries() {
    mkdir -p "$work/shlibs/debian"
    printf 'Source: surefoot\n\nPackage: surefoot\nArchitecture: any\n' >"$work/shlibs/debian/control"
    printf 'libsurefoot %s %s (>= %s)\nlibsurefoot_nic_c %s %s (>= %s)\n' "$series" "$library_name" "$version" \
        "$series" "$library_name" "$version" >"$work/shlibs/debian/shlibs.local"
    find "$1" -type f \( -path '*/bin/*' -o -name '*.so.*' \) >"$work/elves"
    set --
    while IFS= read -r elf; do set -- "$@" "-e$elf"; done <"$work/elves"
    [ $# = 0 ] || (cd "$work/shlibs" && dpkg-shlibdeps -O --ignore-missing-info "$@" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}

# build_deb PART NAME SECTION: $work/PART as a package of this name.
build_deb() {
    tree=$work/$1
    doc=$tree/usr/share/doc/$2
    mkdir -p "$doc" "$tree/DEBIAN"
    describe "$1"
    rm -f "$doc/LICENSE-APACHE" "$doc/LICENSE-MIT" "$doc/CHANGELOG.md"
    copyright >"$doc/copyright"
    debian_changelog | gzip -9n >"$doc/changelog.Debian.gz"
    gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
    depends=$(shared_libraries "$tree")
    case $1 in
    development) depends="$library_name (= $deb_version)" ;;
    esac
    find "$tree" -path "$tree/DEBIAN" -prune -o -type d -exec chmod 755 {} +
    # Debian's libraries are data for the loader.
    find "$tree" -name '*.so.*' -type f -exec chmod 644 {} +
    {
        echo "Package: $2"
        echo "Source: surefoot"
        echo "Version: $deb_version"
        echo "Architecture: $(dpkg --print-architecture)"
        echo "Maintainer: $maintainer"
        echo "Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f1)"
        [ -z "$depends" ] || echo "Depends: $depends"
        if [ "$1" = command ]; then
            echo "Recommends: ca-certificates, smartmontools"
        else
            echo "Multi-Arch: same"
        fi
        echo "Section: $3"
        echo "Priority: optional"
        echo "Description: $summary"
        echo "$text" | sed 's/^/ /'
    } >"$tree/DEBIAN/control"
    if [ "$1" = command ]; then
        for script in postinst prerm postrm; do
            cp "contrib/package/$script" "$tree/DEBIAN/$script"
            chmod 755 "$tree/DEBIAN/$script"
        done
    fi
    if [ "$1" = library ]; then
        printf 'libsurefoot %s %s (>= %s)\nlibsurefoot_nic_c %s %s (>= %s)\n' "$series" "$2" "$version" "$series" "$2" "$version" >"$tree/DEBIAN/shlibs"
        echo "activate-noawait ldconfig" >"$tree/DEBIAN/triggers"
    fi
    if [ -d "$tree/etc" ]; then
        (cd "$tree" && find etc -type f | sed 's|^|/|' | LC_ALL=C sort) >"$tree/DEBIAN/conffiles"
    fi
    (cd "$tree" && find . -path ./DEBIAN -prune -o -type f -print | sed 's|^\./||' | LC_ALL=C sort | xargs -d '\n' md5sum) >"$tree/DEBIAN/md5sums"
    dpkg-deb --root-owner-group -Zxz -z"${LEVEL:-6}" --build "$tree" "$out" >/dev/null
    say "$out/$2_${deb_version}_$(dpkg --print-architecture).deb"
}

deb() {
    kind="the .deb"
    has dpkg-deb dpkg-shlibdeps dpkg-architecture || return 0
    multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
    stage "lib/$multiarch"
    # Debian's zsh looks there.
    mkdir -p "$work/all/usr/share/zsh/vendor-completions"
    mv "$work/all/usr/share/zsh/site-functions/_surefoot" "$work/all/usr/share/zsh/vendor-completions/_surefoot"
    split
    # As bindings/soname.rs gives it to the libraries: of the name of a file and not of the version, so that it cannot differ.
    series=$(basename "$(find "$work/library" -type l -name 'libsurefoot.so.*')")
    series=${series#libsurefoot.so.}
    library_name=libsurefoot$series
    # shared_libraries looks for what the libraries need by their own names.
    build_deb library "$library_name" libs
    build_deb development libsurefoot-dev libdevel
    build_deb command surefoot admin
}

# The files of a package as a spec lists them.
spec_files() {
    (cd "$work/$1" && find . -type f -o -type l) | sed 's|^\.||' | LC_ALL=C sort | while IFS= read -r path; do
        case $path in
        /etc/*) echo "%config(noreplace) $path" ;;
        /usr/share/doc/*/LICENSE-*) echo "%license $path" ;;
        /usr/share/doc/* | /usr/share/man/*) echo "%doc $path" ;;
        *) echo "$path" ;;
        esac
    done
}

spec_package() {
    describe "$1"
    echo "Summary: $summary"
    [ "$1" != development ] || echo "Requires: libsurefoot = %{version}-%{release}"
    echo "%description${2:+ -n $2}"
    echo "$text"
}

rpm() {
    kind="the .rpm"
    has rpmbuild || return 0
    stage lib64
    split
    root=$work/root
    mkdir "$root"
    {
        echo "Name: surefoot"
        echo "Version: $version"
        echo "Release: 1"
        echo "License: (Apache-2.0 OR MIT) AND (GPL-2.0-only OR BSD-2-Clause)"
        # It is built already, and stripped.
        echo "%global debug_package %{nil}"
        echo "%global __os_install_post %{nil}"
        echo "%global _build_id_links none"
        spec_package command ""
        echo "%package -n libsurefoot"
        spec_package library libsurefoot
        echo "%package -n libsurefoot-devel"
        spec_package development libsurefoot-devel
        cat contrib/package/scriptlets.spec
        echo "%files"
        spec_files command
        echo "%files -n libsurefoot"
        spec_files library
        echo "%files -n libsurefoot-devel"
        spec_files development
    } >"$work/surefoot.spec"
    for part in command library development; do
        cp -a "$work/$part/." "$root/"
    done
    rpmbuild -bb --quiet --buildroot "$root" --define "_topdir $work/rpm" --define "_rpmdir $out" --define "_binary_payload w${LEVEL:-6}.xzdio" \
        --define "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" --define "use_source_date_epoch_as_buildtime 1" \
        --define "clamp_mtime_to_source_date_epoch 1" --define "_buildhost localhost" "$work/surefoot.spec"
    say "$out/surefoot-$version-1.$(uname -m).rpm"
}

wheel() {
    kind="the wheel"
    has python3 || return 0
    python3 -c "import pip" 2>/dev/null || {
        say "Python has no pip: the wheel is left out"
        missing=yes
        return 0
    }
    [ -z "${BUILT:-}" ] || export SUREFOOT_BUILD_LIBRARY="$BUILT/libsurefoot.so"
    python3 -m pip wheel --quiet --no-deps --wheel-dir "$out" bindings/python
    say "$(echo "$out"/surefoot-"$version"-*.whl)"
}

[ $# -gt 0 ] || set -- deb rpm wheel
for kind in "$@"; do
    case $kind in
    deb | rpm | wheel) ;;
    *)
        echo "usage: xtask/package.sh [deb] [rpm] [wheel]" >&2
        exit 2
        ;;
    esac
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
# Built once, for all of them.
if [ -z "${BUILT:-}" ]; then
    PREFIX=/usr DESTDIR=$work/first SUDO='' sh xtask/install.sh all
    target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
    BUILT=$work/built
    mkdir "$BUILT"
    ln -s "$target/release/surefoot" "$target"/library/libsurefoot*.so "$target"/library/libsurefoot*.a "$BUILT/"
fi
BUILT=$(cd "$BUILT" && pwd)
export BUILT
for kind in "$@"; do "$kind"; done
[ -z "$missing" ] || exit 3
