# Compiles the C++ files of googletest (a Debian package that holds its source) with make -j. Set before: source, jobs, parts (names
# of files, or nothing for all), core (a list for taskset). The objects lie in memory and vanish with this.
# shellcheck shell=sh disable=SC2154
set -eu
mount -t tmpfs -o size=256m none /tmp
cd /tmp
cat >Makefile <<'MAKE'
TEST := $(SOURCE)/googletest
MOCK := $(SOURCE)/googlemock
ALL := $(notdir $(wildcard $(TEST)/src/*.cc $(MOCK)/src/*.cc))
PARTS ?= $(filter-out %-all.cc,$(ALL))
vpath %.cc $(TEST)/src $(MOCK)/src
all: $(PARTS:.cc=.o)
%.o: %.cc
	$(CXX) -O0 -c -I$(TEST) -I$(TEST)/include -I$(MOCK) -I$(MOCK)/include -o $@ $<
MAKE
began=$(date +%s%N)
taskset -c "$core" make -s "-j$jobs" "SOURCE=$source" ${parts:+"PARTS=$parts"} CXX=c++
ended=$(date +%s%N)
echo "{\"compile_ns\":$((ended - began))}"
