#!/bin/sh
# Starts contrib/systemd/surefoot.service by a real systemd: one of its own, in namespaces of its own, on a throw-away copy of
# this root. Says what the service runs with, kills it once, and sees it come back. As root; nothing stays behind.
#
#   e2e/service.sh [SUREFOOT]      (target/release/surefoot unless another is named)
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
binary=$(readlink -f "${1:-$here/target/release/surefoot}")
systemd=/lib/systemd/systemd
[ "$(id -u)" = 0 ] || { echo "needs root"; exit 3; }
[ -x "$systemd" ] || { echo "there is no systemd"; exit 3; }
[ -x "$binary" ] || { echo "$binary is not there; build it first"; exit 2; }

if [ "${SUREFOOT_INSIDE:-}" != yes ]; then
    group=/sys/fs/cgroup
    [ -e $group/cgroup.procs ] || group=$group/unified
    group=$group/surefoot-service-test.$$
    work=$(mktemp -d)
    result=$work/result
    mkdir "$group" "$work/base"
    touch "$result"
    SUREFOOT_INSIDE=yes sh -c 'echo $$ > "$0/cgroup.procs"; exec unshare --cgroup --pid --mount --uts --ipc --fork --kill-child "$@"' \
        "$group" "$0" "$binary" "$work" &
    inside=$!
    for _ in $(seq 600); do
        grep -q '^PASSED\|^FAILED' "$result" && break
        kill -0 $inside 2>/dev/null || break
        sleep 0.1
    done
    # Its end is that of everything in the namespaces.
    kill -KILL $inside 2>/dev/null || true
    wait $inside 2>/dev/null || true
    for _ in $(seq 50); do
        find "$group" -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null || true
        rmdir "$group" 2>/dev/null && break
        sleep 0.1
    done
    cat "$result"
    status=1
    grep -q '^PASSED' "$result" && status=0
    rm "$result"
    rmdir "$work/base" "$work"
    exit $status
fi

# The copy: this root below, memory above.
mount --make-rprivate /
base=$2/base
mount -t tmpfs none "$base"
mkdir "$base/upper" "$base/work" "$base/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" "$base/root"
root=$base/root
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount --rbind /dev "$root/dev"
for folder in run tmp; do mount -t tmpfs none "$root/$folder"; done

units=$root/etc/systemd/system
rm -rf "$units"
rm -rf "$root/var/lib/surefoot"
mkdir -p "$units/surefoot.service.d" "$root/var/lib"
touch "$root/result"
mount --bind "$2/result" "$root/result"
cp "$binary" "$root/usr/bin/surefoot"
cp "$here/contrib/systemd/surefoot.service" "$units/"
cat > "$units/surefoot.service.d/test.conf" <<UNIT
[Unit]
DefaultDependencies=no
After=
[Service]
ExecStart=
ExecStart=/usr/bin/surefoot watch --who 1 --checkpoints /dev/shm --port 0
RestartSec=1s
UNIT
cat > "$units/test.service" <<UNIT
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/sh /test.sh
StandardOutput=append:/result
StandardError=append:/result
UNIT
cat > "$root/test.sh" <<'TEST'
pid() { systemctl show -P MainPID surefoot; }
healthy() {
    for i in $(seq 300); do
        grep -q '"stall"' /run/surefoot/health.json 2>/dev/null && surefoot status | grep -q "process $(pid)," &&
            ! surefoot status | grep -q CAP_SYS_ADMIN && return
        sleep 0.1
    done
    echo "FAILED: not healthy"; systemctl status --no-pager surefoot; exit 1
}
systemctl start surefoot || { systemctl status --no-pager surefoot; exit 1; }
healthy
echo "== systemctl status"; systemctl status --no-pager -n 0 surefoot
echo "== systemctl show"
systemctl show surefoot -p ActiveState,SubState,NRestarts,MemoryCurrent,MemoryMax,TasksCurrent,NoNewPrivileges,DevicePolicy,ProtectSystem,ProtectProc,FileDescriptorStoreMax,LimitNOFILE
echo "== surefoot status"; surefoot status
echo "== who, over the socket"
curl -s --unix-socket /run/surefoot/http.sock http://localhost/api/v1/overview | head -c 700; echo
surefoot stall who --cpu 1 --duration 1s | head -5
echo "== files"; ls -la /run/surefoot /var/lib/surefoot
first=$(pid)
kill -9 "$first"
for i in $(seq 100); do second=$(pid); [ "$second" != 0 ] && [ "$second" != "$first" ] && break; sleep 0.1; done
[ "$second" != 0 ] && [ "$second" != "$first" ] || { echo "FAILED: it did not come back"; exit 1; }
healthy
echo "== killed: process $first, came back as $second, restarts: $(systemctl show -P NRestarts surefoot)"
systemctl stop surefoot
echo "== stopped: $(systemctl show -P Result surefoot), code $(systemctl show -P ExecMainStatus surefoot)"; ls -A /run/surefoot
echo PASSED
TEST
cat > "$base/start.sh" <<START
exec env -i container=surefoot-test PATH=/usr/sbin:/usr/bin:/sbin:/bin $systemd --unit=test.service --log-target=null --show-status=no </dev/null >/dev/null 2>&1
START
cp "$base/start.sh" "$root/start.sh"
exec chroot "$root" sh /start.sh
