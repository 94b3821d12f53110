#!/bin/sh
# Starts the surefoot that `make run` built (profile quick), as root where that shows more and only if the user allows it.
#
#   xtask/run.sh watch [OPTION...]
#
# SUDO is the program that gives root; empty means: never ask for it.
set -eu

cd "$(dirname "$0")/.."
surefoot=${CARGO_TARGET_DIR:-target}/quick/surefoot
sudo=${SUDO-sudo}

for argument in "$@"; do
    case $argument in
    # A recording needs no privilege.
    --replay | --replay=* | replay) exec "$surefoot" "$@" ;;
    esac
done

if [ "$(id -u)" -eq 0 ]; then
    exec "$surefoot" "$@"
fi
if [ -z "$sudo" ]; then
    echo "surefoot $1 runs without root: this is the reduced view, from kernel counters and timers"
    exec "$surefoot" "$@"
fi
if ! command -v "$sudo" >/dev/null 2>&1; then
    echo "surefoot $1 reads kernel tracepoints, which needs root, and there is no $sudo here: this is the reduced view"
    exec "$surefoot" "$@"
fi
echo "surefoot $1 reads kernel tracepoints, which needs root: using $sudo; without it: \`make run SUDO=\` gives the reduced view"
# Asked for separately, because afterwards a refusal could not be told from a failure of surefoot.
if "$sudo" -n true 2>/dev/null || "$sudo" -v; then
    exec "$sudo" "$surefoot" "$@"
fi
echo "$sudo refused: this is the reduced view, from kernel counters and timers"
exec "$surefoot" "$@"
