#!/bin/sh
# Installs the .deb in a fresh Debian, starts what its units start, upgrades it from an older version, removes and purges it: nothing may
# be left but data. As root, with a mirror of Debian that debootstrap reaches; all of it is below one folder that goes in the end.
#
#   e2e/package.sh [FOLDER]      a folder with what make package built; target/package unless another is named
#
# BASE=FOLDER keeps the fresh Debian there for the next time; LINTIAN=no leaves lintian out. The older version is this one under a lower number: a package kept as a
# file would add some 15 MB to every checkout.
# Exit codes: 0 passed, 1 failed, 2 wrong use, 3 not supported here.
# shellcheck disable=SC2016 # what is in single quotes is for dpkg-query and for the shell inside
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
packages=$(cd "${1:-$here/target/package}" && pwd)
ls "$packages"/surefoot_*.deb >/dev/null || { echo "$packages has no .deb; make package PACKAGES=deb builds it"; exit 2; }
[ "$(id -u)" = 0 ] || { echo "not run: needs root"; exit 3; }
for program in debootstrap dpkg-deb objdump unshare; do
    command -v $program >/dev/null || { echo "not run: there is no $program"; exit 3; }
done
# Its mounts and processes end with it.
[ "${SUREFOOT_INSIDE:-}" = yes ] || exec unshare --mount --pid --fork --kill-child env SUREFOOT_INSIDE=yes sh "$0" "$packages"

work=$(mktemp -d)
trap 'umount -l "$work/root/proc" "$work/root/sys" 2>/dev/null; rm -rf --one-file-system "$work"' EXIT
fail() {
    echo "FAILED: $1"
    exit 1
}

mkdir "$work/old" "$work/new"
cp "$packages"/*surefoot*.deb "$work/new/"
for package in "$work"/new/*.deb; do
    rm -rf "$work/tree"
    dpkg-deb -R "$package" "$work/tree"
    # Its own version, and that of the libraries that it depends on.
    sed -i '/^\(Version\|Depends\):/s/[0-9.]*-1\b/0.0.9-1/' "$work/tree/DEBIAN/control"
    dpkg-deb --root-owner-group -Znone --build "$work/tree" "$work/old/$(basename "$package")" >/dev/null
done
rm -rf "$work/tree"
if [ "${LINTIAN:-}" = no ]; then
    echo "not run: lintian, as LINTIAN=no says"
elif command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error --tag-display-limit 0 "$work"/new/*.deb || fail "lintian finds errors"
else
    echo "not run: lintian is not installed"
fi

# The wheel's tag is that of the glibc that its library needs.
auditwheel=$here/target/tools/auditwheel/bin/auditwheel
[ -x "$auditwheel" ] || auditwheel=$(command -v auditwheel) || true
wheel=$(find "$packages" -name 'surefoot-*.whl' | head -n 1)
if [ -z "$wheel" ]; then
    echo "not run: the test of the wheel, which is not in $packages"
elif [ -z "$auditwheel" ]; then
    echo "not run: the test of the wheel, for which auditwheel is not installed"
else
    "$auditwheel" show "$wheel" >"$work/said" 2>&1 || { cat "$work/said"; fail "auditwheel does not take the wheel"; }
    tag=$(basename "$wheel" .whl | sed 's/.*-//')
    tr '\n' ' ' <"$work/said" | grep -q "consistent with the following platform tag: \"$tag\"" || { cat "$work/said"; fail "the wheel says $tag"; }
    echo "wheel: $tag"
fi

# The package asks for a C library that has all that the command uses.
dpkg-deb -x "$work"/new/surefoot_*.deb "$work/files"
needs=$(objdump -T "$work/files/usr/bin/surefoot" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
asks=$(dpkg-deb -f "$work"/new/surefoot_*.deb Depends | sed -n 's/.*libc6 (>= \([0-9.]*\)).*/\1/p')
[ "$(printf '%s\n%s\n' "$needs" "$asks" | sort -V | tail -n 1)" = "$asks" ] || fail "it needs glibc $needs and asks for '$asks'"
echo "glibc: $needs"

root=$work/root
base=${BASE:-$work/base}
if ! [ -d "$base/usr/bin" ]; then
    # What the packages depend on is there already, so that nothing but they is installed and taken away.
    debootstrap --variant=minbase --include=ca-certificates,libelf1,zlib1g bookworm "$base" >"$work/debootstrap.log" 2>&1 || {
        tail -3 "$work/debootstrap.log"
        echo "not run: debootstrap reaches no mirror of Debian"
        exit 3
    }
fi
cp -a "$base" "$root"
mkdir "$root/packages"
cp -r "$work/old" "$work/new" "$root/packages/"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
# Every file but those of dpkg itself, of logs and of what deb-systemd-helper keeps of any package.
files() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./packages -o -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache \) -prune -o -print) | LC_ALL=C sort; }
files >"$work/before"

inside sh -c 'dpkg -i /packages/old/*.deb' >"$work/said" 2>&1 || { cat "$work/said"; fail "the older version does not install"; }
[ "$(inside dpkg-query -W -f '${Version}' surefoot)" = 0.0.9-1 ] || fail "the older version is not there"
[ -L "$root/etc/systemd/system/multi-user.target.wants/surefoot.service" ] || fail "the watch is not enabled"
[ "$(find "$root/etc/systemd/system" -name 'surefoot*' | wc -l)" = 1 ] || fail "something that acts is enabled"

# Every command that a unit starts is there, and knows its options.
for unit in "$root"/usr/lib/systemd/system/surefoot*.service; do
    line=$(sed -n 's/^ExecStart=//p' "$unit" | tail -n 1)
    command=$(echo "$line" | sed 's/ --.*//; s/ \$.*//')
    # shellcheck disable=SC2086 # the words of a command
    inside $command --help >/dev/null || fail "$unit: $command does not run"
done
watched() {
    rm -rf "$root/run/surefoot"
    inside surefoot watch --source counters --no-page --duration 3s >"$work/said" 2>&1 &
    watch=$!
    for _ in $(seq 300); do
        grep -q '"stall"' "$root/run/surefoot/health.json" 2>/dev/null && break
        kill -0 $watch 2>/dev/null || break
        sleep 0.1
    done
    grep -q '"stall"' "$root/run/surefoot/health.json" || { cat "$work/said"; fail "the watch publishes nothing"; }
    wait $watch || fail "the watch fails"
}
watched
[ -f "$root/var/lib/surefoot/history.db" ] || fail "there is no history"
before=$(stat -c %i "$root/var/lib/surefoot/history.db")

# An upgrade keeps data, and the configuration as somebody changed it.
for file in $(inside dpkg-query -W -f '${Conffiles}' surefoot | awk '{ print $1 }'); do
    echo "# changed by the operator" >>"$root$file"
done
inside sh -c 'dpkg -i --force-confold /packages/new/*.deb' >"$work/said" 2>&1 || { cat "$work/said"; fail "the upgrade fails"; }
[ "$(inside dpkg-query -W -f '${Version}' surefoot)" != 0.0.9-1 ] || fail "it is not upgraded"
[ "$(stat -c %i "$root/var/lib/surefoot/history.db")" = "$before" ] || fail "the upgrade replaced the history"
for file in $(inside dpkg-query -W -f '${Conffiles}' surefoot | awk '{ print $1 }'); do
    grep -q "changed by the operator" "$root$file" || fail "the upgrade overwrote $file"
done
watched

inside dpkg --remove surefoot libsurefoot-dev >"$work/said" 2>&1 || { cat "$work/said"; fail "it cannot be removed"; }
[ ! -e "$root/usr/bin/surefoot" ] || fail "the command is left after its removal"
inside sh -c 'dpkg --purge surefoot libsurefoot-dev $(dpkg-query -W -f "\${Package} " "libsurefoot*")' >"$work/said" 2>&1 ||
    { cat "$work/said"; fail "it cannot be purged"; }
rm -rf "$root/run/surefoot"
files >"$work/after"
left=$(comm -13 "$work/before" "$work/after" | grep -v '^\./var/lib/surefoot\(/.*\)\?$' || true)
gone=$(comm -23 "$work/before" "$work/after")
[ -z "$left" ] || fail "left after a purge: $left"
[ -z "$gone" ] || fail "files of others are gone: $gone"
[ -f "$root/var/lib/surefoot/history.db" ] || fail "the purge removed the history"

# The steps of the image, each in a fresh Debian: no engine runs here that would build it.
image=$work/image
cp -a "$base" "$image"
cp /etc/resolv.conf "$image/etc/resolv.conf"
user=0:0
while IFS= read -r line; do
    step=${line%% *}
    what=${line#* }
    case $step in
    "" | "#"*) continue ;;
    FROM)
        [ "$what" = debian:12-slim ] || fail "the image is of $what, and its steps are tried on Debian 12"
        grep -qx 'VERSION_ID="12"' "$image/etc/os-release" || fail "the fresh Debian is not Debian 12"
        ;;
    RUN)
        chroot "$image" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -ec "$what" >"$work/said" 2>&1 || { tail -5 "$work/said"; fail "the image: $line"; }
        ;;
    COPY)
        from=${what% *}
        # image/ is where make install puts what the package has as well.
        cp "$work/files/${from#image/}" "$image/${what##* }" || fail "the image: $line"
        ;;
    USER) user=$what ;;
    *) fail "the image: '$step' is not known here" ;;
    esac
done <"$here/contrib/kubernetes/Dockerfile"
[ "$user" != 0:0 ] || fail "the image runs as root"
chroot --userspec="$user" "$image" env -i /usr/bin/surefoot --version || fail "the command of the image does not run"
chroot --userspec="$user" "$image" env -i /usr/bin/surefoot remedy serve --help >/dev/null || fail "the command of the image does not run"
echo "image: each step ran in a fresh Debian 12; no container engine ran"
echo PASSED
