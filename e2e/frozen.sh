#!/bin/bash
# Runs a command on a machine that stands still again and again, as a virtual machine does whose host takes its time: every
# EVERY seconds all of the command's processes are frozen for LENGTH seconds. Clocks go on. As root.
#
#   e2e/frozen.sh EVERY LENGTH COMMAND...
#   SUREFOOT_BIN=$PWD/target/debug/surefoot e2e/frozen.sh 20 4 target/debug/deps/tests-HASH --test-threads=1 service:: who::
#
# A test that fails here and holds a time against a limit is to be mended, and so is a program. Tests that freeze processes by a
# cgroup of their own (disturb::guest) take theirs out of the group that is frozen here, and fail for that.
set -eu

every=$1
length=$2
shift 2

group=
for freezer in /sys/fs/cgroup/freezer /sys/fs/cgroup /sys/fs/cgroup/unified; do
	if mkdir "$freezer/surefoot-frozen-$$" 2>/dev/null; then
		group=$freezer/surefoot-frozen-$$
		break
	fi
done
if [ -e "$group/freezer.state" ]; then
	freeze() { echo FROZEN >"$group/freezer.state"; }
	thaw() { echo THAWED >"$group/freezer.state"; }
elif [ -e "$group/cgroup.freeze" ]; then
	freeze() { echo 1 >"$group/cgroup.freeze"; }
	thaw() { echo 0 >"$group/cgroup.freeze"; }
else
	echo "there is no cgroup that can be frozen" >&2
	exit 2
fi

(
	echo "$BASHPID" >"$group/cgroup.procs"
	exec "$@"
) &
command=$!
trap 'thaw; kill "$command" 2>/dev/null || true' EXIT
while sleep "$every" && kill -0 "$command" 2>/dev/null; do
	freeze
	sleep "$length"
	thaw
done
code=0
wait "$command" || code=$?
trap - EXIT
rmdir "$group" 2>/dev/null || echo "processes are left in $group" >&2
exit "$code"
