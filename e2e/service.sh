#!/bin/sh
# Starts contrib/systemd/surefoot.service by a real systemd: one of its own, in namespaces of its own, on a throw-away copy of
# this root. Says what the service runs with, kills it once, and sees it come back. Then the controller of remedies and its agents: the one
# tells what its checks find, the other restarts a unit by order. As root; nothing stays behind.
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
    for _ in $(seq 1200); do
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
rm -rf "$root/var/lib/surefoot" "$root/etc/surefoot"
mkdir -p "$units/surefoot.service.d" "$root/var/lib"
touch "$root/result"
mount --bind "$2/result" "$root/result"
cp "$binary" "$root/usr/bin/surefoot"
cp "$here/contrib/systemd/surefoot.service" "$here/contrib/systemd/surefoot-remedy"*.service "$units/"
mkdir -p "$root/etc/surefoot"
# What the options of the test need.
cp "$here/contrib/systemd/surefoot.service.d/who.conf" "$here/contrib/systemd/surefoot.service.d/checkpoints.conf" "$units/surefoot.service.d/"
cat > "$root/etc/surefoot/policy.toml" <<POLICY
[[policy]]
service = "web"
steps = ["restart:victim.service"]
POLICY
# The first word of an agent comes after the first run of each of its checks, which comes at any time within half a minute, or its period.
for check in read-only clock bmc-log; do
    printf '[[check]]\nname = "%s"\nperiod = "2s"\n' $check
done > "$root/etc/surefoot/checks.toml"
echo "SUREFOOT_AGENT=--host n2 --service web --period 1s --checks /etc/surefoot/checks.toml --server http://127.0.0.1:17078" \
    > "$root/etc/surefoot/agent.env"
cat > "$units/victim.service" <<UNIT
[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sleep 1000
UNIT
for unit in remedy remedy-agent remedy-agent-orders; do
    mkdir "$units/surefoot-$unit.service.d"
    printf '[Unit]\nDefaultDependencies=no\nAfter=\nWants=\n' > "$units/surefoot-$unit.service.d/test.conf"
done
cat >> "$units/surefoot-remedy.service.d/test.conf" <<UNIT
[Service]
ExecStart=
ExecStart=/usr/bin/surefoot remedy serve --policy /etc/surefoot/policy.toml --store sqlite:/var/lib/surefoot-remedy/cases.db --listen 127.0.0.1:17078 --own-host '' --journal /var/lib/surefoot-remedy/deeds.jsonl
UNIT
# The checks within the limits of the unit, as its agent runs them.
cat >> "$units/surefoot-remedy-agent.service.d/test.conf" <<UNIT
[Service]
ExecStartPre=-/bin/sh -c "/usr/bin/surefoot remedy check run > /var/lib/surefoot-agent/checks"
UNIT
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
systemctl show -P StatusText surefoot | grep -q . || sleep 3
systemctl show -P StatusText surefoot | grep -q '[.]$' || { echo "FAILED: no status"; systemctl status --no-pager surefoot; exit 1; }
healthy
echo "== systemctl status"; systemctl status --no-pager -n 0 surefoot
echo "== systemctl show"
systemctl show surefoot -p Type,ActiveState,SubState,StatusText,WatchdogUSec,WatchdogTimestamp,NRestarts,MemoryCurrent,MemoryMax,TasksCurrent,NoNewPrivileges,DevicePolicy,ProtectSystem,ProtectProc,FileDescriptorStoreMax,LimitNOFILE
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

fail() { echo "FAILED: $1"; systemctl status --no-pager 'surefoot-remedy*'; curl -s http://127.0.0.1:17078/api/v1/cases/1; exit 1; }
until_so() {
    for i in $(seq 300); do eval "$2" && return; sleep 0.1; done
    fail "$1"
}
words() { curl -s http://127.0.0.1:17078/metrics | sed -n 's/^surefoot_remedy_boards_taken_total //p'; }
held() { sed -n 's/^CapBnd:\t//p' /proc/$(systemctl show -P MainPID "$1")/status; }
systemctl start surefoot-remedy surefoot-remedy-agent || fail "units of remedies do not start"
until_so "the agent tells nothing" '[ "$(words)" -gt 0 ] 2>/dev/null'
echo "== agent: $(words) words, capabilities $(held surefoot-remedy-agent); its checks:"
cat /var/lib/surefoot-agent/checks
grep -q '^clock .*\(ok\|warning\|critical\)' /var/lib/surefoot-agent/checks || fail "the check of the clock cannot ask"
[ "$(held surefoot-remedy-agent)" = 0000000000000000 ] || fail "the agent keeps a capability"
systemctl start victim surefoot-remedy-agent-orders || fail "the agent with orders does not start"
[ "$(systemctl is-active surefoot-remedy-agent)" != active ] || fail "there are two agents"
before=$(systemctl show -P InvocationID victim)
curl -s --json '{"version": "4", "alerts": [{"status": "firing", "labels": {"host": "n2", "service": "web", "alertname": "x"},
    "startsAt": "2026-11-25T10:00:00Z", "fingerprint": "00ab"}]}' http://127.0.0.1:17078/api/v1/alertmanager
until_so "the order is not done" 'curl -s http://127.0.0.1:17078/api/v1/cases/1 | grep -q "\"state\":\"returned\""'
[ "$(systemctl show -P InvocationID victim)" != "$before" ] || fail "the unit was not restarted"
echo "== agent with orders: capabilities $(held surefoot-remedy-agent-orders), victim.service restarted by case 1"
systemctl stop surefoot-remedy surefoot-remedy-agent-orders
for unit in surefoot-remedy surefoot-remedy-agent-orders; do echo "== $unit stopped: $(systemctl show -P Result $unit)"; done
echo PASSED
TEST
cat > "$base/start.sh" <<START
exec env -i container=surefoot-test PATH=/usr/sbin:/usr/bin:/sbin:/bin $systemd --unit=test.service --log-target=null --show-status=no </dev/null >/dev/null 2>&1
START
cp "$base/start.sh" "$root/start.sh"
exec chroot "$root" sh /start.sh
