# Soma. `make` builds everything into build/; the other targets:
#   test      unit tests, golden files, Lua tests, samples; ends with a count
#   test-ui   the trace viewer in headless Chromium; needs node, npm and chromium
#   check     test with everything that is too slow for it, and test-ui; one count
#   bench-ui  frame times of the viewer
#   lists     LISTS random kernels (10^4) against the same with a barrier after each instruction
#   conform   conformance cases of every instruction (PATTERN=: of those whose names match; DUT=COMMAND:
#             of another implementation)
#   judge     the race check against the judges of all schedules on COUNT (100000) random programs
#             of two sorts, from number FIRST (1) on
#   pass-mutants  passes of the builder that do what they may not: its tests find each (20 minutes)
#   mutants   what the checks find in broken samples and kernels: a sample; mutants-all: all
#   advice    removes COUNT waits from right programs, does what the first findings say, and judges that
#   bench     benchmarks, as ratios within one run; bench-compare BASE=REVISION: against another
#             revision, run in turn, by processor time (BENCHES=PATTERN, ROUNDS=5)
#   timing    published times against simulated ones; DIR=FOLDER: also those of unmodified kernels
#             in a folder of checkouts (PATTERN=: of those whose name matches)
#   figures   measures the figures of the READMEs anew (FIGURES="timing checks builder policies threads mutants") and writes them
#   examples  writes anew what the listings of README.md, samples/README.md and the tutorial print
#   generated writes what is made from the tables: isa/manual.md, asm/editors
#   pictures  draws samples/pictures anew; picture-ui: the page's
#   ulp       error of every activation function against MPFR, on 2^24 points each
#   repro     the same bits from gcc and clang, each -O, each SIMD level, and aarch64 (qemu-user)
#   tsan asan-threads   what goes over several threads, under the thread and the address sanitizer
#   fuzz-smoke  fuzz harnesses under ASan and UBSan with fixed seeds; fuzz: FUZZ_COUNT of
#             them in FUZZ_JOBS processes; fuzz-guided: libFuzzer, FUZZ_SECONDS
#   debug asan ubsan   the same build with other flags, into build-debug/ and so on
#   lint      format, include rules, budgets, cppcheck
#   install   to $(DESTDIR)$(PREFIX); uninstall: removes what install wrote there
#   wheel     WHEEL (build/wheel)/soma_neuron-*.whl for pip, with libsoma inside
#   deb       DEB (build/deb)/*.deb, by debhelper
#   clean
# V=1 shows commands. CC, CFLAGS, BUILD and PREFIX may be given.

ifeq ($(origin CC),default)
CC := gcc
endif
BUILD ?= build
PREFIX ?= /usr/local
OPT ?= -O2
DEBUG_INFO ?= -g
SAN ?=
VERSION := $(shell sed -n 's/^\#define SOMA_VERSION "\(.*\)"/\1/p' vm/api/soma.h)
LUA_CFLAGS := $(shell pkg-config --cflags lua5.4 2>/dev/null || echo -I/usr/include/lua5.4)
LUA_LIBS := $(shell pkg-config --libs lua5.4 2>/dev/null || echo -llua5.4)
# For the file formats of the Lua module; libsoma needs neither.
FORMAT_LIBS := -lzip -lz -ljansson
# The command's line editing; without libedit lines are read as they come.
EDIT_LIBS := $(shell pkg-config --libs libedit 2>/dev/null)
# The sandbox's filter of system calls; without libseccomp the sandbox has its other walls only.
SECCOMP_LIBS := $(shell pkg-config --libs libseccomp 2>/dev/null)
# The recorder of kernels for Python: a module in CPython's limited API, for 3.11 and later.
PYTHON_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags python3 2>/dev/null))

WARN := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes \
        -Wmissing-prototypes -Werror
# No contraction: a fused multiply-add happens only where the source says so. No interposition:
# a function of the library cannot be replaced from outside, so calls within a file may be inlined.
override CFLAGS += -std=c11 $(OPT) $(DEBUG_INFO) $(WARN) -ffp-contract=off -fPIC -pthread \
                   -fno-semantic-interposition \
                   -D_DEFAULT_SOURCE -D_POSIX_C_SOURCE=200809L $(SAN)
override LDFLAGS += -pthread $(SAN)
Q := $(if $(V),,@)

# ---- Sources -------------------------------------------------------------------------------
# vm/simd/level holds the numeric loops; each file is compiled once for each SIMD level.
LEVEL_SRC := $(wildcard vm/simd/level/*.c)
ifneq ($(filter x86_64%,$(shell $(CC) -dumpmachine)),)
LEVELS := plain avx2 avx512
else
LEVELS := plain
endif
# Nothing reads errno or the floating-point flags; saying so lets sqrt and selects vectorise.
KERN_OPT ?= -O3
KERN_FLAGS_plain := $(KERN_OPT) -fno-math-errno -fno-trapping-math
KERN_FLAGS_avx2 := $(KERN_FLAGS_plain) -mavx2 -mfma
KERN_FLAGS_avx512 := $(KERN_FLAGS_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl
# gcc takes the steps of several vectors in turn (level/act.c) only if it is told to; clang has no such flags.
ifeq ($(findstring clang,$(shell $(CC) --version)),)
KERN_FLAGS_avx512_act := -fschedule-insns -fsched-pressure --param=sched-pressure-algorithm=2
endif

LIB_SRC := $(filter-out asm/tools/%,$(wildcard isa/*.c isa/*/*.c asm/*/*.c kernel/*.c vm/*/*.c))
# Objects whose names match a pattern of TAKEN, such as vm/record/%, are those of the build FROM: what the
# tests build once more takes what would be the same, or what they do not run.
object = $(if $(filter $(TAKEN),$1),$(FROM),$(BUILD))/$1
LIB_OBJ := $(foreach o,$(LIB_SRC:%.c=%.o) $(foreach l,$(LEVELS),$(LEVEL_SRC:%.c=%.$l.o)),$(call object,$o))
MAINS := lua/command/main.c lua/command/ccom_main.c lua/command/mpi.c # of soma, soma-ccom, soma-mpi
MAIN_SRC := $(filter-out $(MAINS),$(wildcard lua/command/*.c))
MPICC := $(shell command -v mpicc)
LUA_SRC := $(wildcard lua/*.c lua/base/*.c lua/tensor/*.c lua/machine/*.c lua/kernel/*.c)
LUA_OBJ := $(foreach o,$(LUA_SRC:%.c=%.o),$(call object,$o))
TOOL_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out asm/tools/soma_as.c asm/tools/soma_dis.c,$(wildcard asm/tools/*.c)))

PROGRAMS := $(BUILD)/soma $(BUILD)/soma-ccom $(BUILD)/soma-as $(BUILD)/soma-dis
RECORDER := $(if $(PYTHON_CFLAGS),$(BUILD)/_soma.abi3.so)
RECORDER_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard python/recorder/*.c))
LIBS := $(BUILD)/libsoma.a $(BUILD)/libsoma.so $(BUILD)/soma.so $(RECORDER)

all: $(PROGRAMS) $(LIBS) $(BUILD)/soma-nki
	$(if $(RECORDER),,@echo "  NOTE  python3-dev is not installed: the package for Python is not built")

$(BUILD)/soma-nki: python/soma-nki
	@mkdir -p $(@D)
	$(Q)install -m 755 $< $@

# ---- Objects -------------------------------------------------------------------------------
define level_rule
$$(BUILD)/vm/simd/level/%.$(1).o: vm/simd/level/%.c
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS) $$(KERN_FLAGS_$(1)) $$(KERN_FLAGS_$(1)_$$*) -DKERN_LEVEL=$(1) -MMD -MP -c $$< -o $$@
endef
$(foreach l,$(LEVELS),$(eval $(call level_rule,$(l))))

# The files in Lua of the command and of the module as rows {"NAME", lines}.
PARTS := $(addprefix $(BUILD)/lua/,parts.inc command/parts.inc kernel/parts.inc)
$(BUILD)/lua/parts.inc: $(wildcard lua/*.lua lua/debug/*.lua)
$(BUILD)/lua/command/parts.inc: $(wildcard lua/command/*.lua)
$(BUILD)/lua/kernel/parts.inc: $(wildcard lua/kernel/*.lua)
$(PARTS):
	@mkdir -p $(@D)
	$(Q)for f in $^; do echo "{\"$$(basename $$f .lua)\", (const char *const[]){"; \
	  sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n",/' $$f; echo 'NULL}},'; done >$@
$(BUILD)/lua/parts.o: $(BUILD)/lua/parts.inc
$(BUILD)/lua/command/soma_main.o: $(BUILD)/lua/command/parts.inc
$(BUILD)/lua/kernel/kernel.o: $(BUILD)/lua/kernel/parts.inc
$(BUILD)/lua/kernel/kernel.o: override LUA_CFLAGS += -I$(BUILD)/lua/kernel
ifneq ($(EDIT_LIBS),)
$(BUILD)/lua/command/lines.o: override LUA_CFLAGS += -DSOMA_LIBEDIT
endif
ifneq ($(SECCOMP_LIBS),)
$(BUILD)/lua/command/syscalls.o: override LUA_CFLAGS += -DSOMA_SECCOMP $(shell pkg-config --cflags libseccomp)
endif
$(BUILD)/lua/command/soma_main.o: override LUA_CFLAGS += -I$(BUILD)/lua/command
$(BUILD)/lua/parts.o: override LUA_CFLAGS += -I$(BUILD)/lua

$(BUILD)/lua/%.o: lua/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LUA_CFLAGS) -MMD -MP -c $< -o $@

# The trace viewer's page, style and script as lists of byte values.
SCRIPTS := model world draw counters path panels ranks source viewer
VIEWER := $(addprefix $(BUILD)/vm/record/viewer/,viewer.html.inc viewer.css.inc script.js.inc)
$(BUILD)/vm/record/viewer/script.js.inc: $(SCRIPTS:%=vm/record/viewer/%.js)
$(BUILD)/vm/record/viewer/viewer.html.inc: vm/record/viewer/viewer.html
$(BUILD)/vm/record/viewer/viewer.css.inc: vm/record/viewer/viewer.css
$(VIEWER):
	@mkdir -p $(@D)
	$(Q)cat $^ | od -An -v -tu1 | sed 's/[0-9][0-9]*/&,/g' >$@
$(BUILD)/vm/record/html.o: $(VIEWER)
$(BUILD)/vm/record/html.o: override CFLAGS += -I$(BUILD)/vm/record/viewer

# The header of the whole is not the assembler's to include.
$(BUILD)/asm/%.o: override CFLAGS += -DSOMA_VERSION='"$(VERSION)"'
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libsoma.a: $(LIB_OBJ)
	@echo "  AR    $@"
	$(Q)rm -f $@ && ar qcs $@ $^

$(BUILD)/libsoma.so: $(LIB_OBJ) vm/api/libsoma.map
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libsoma.so.0 -Wl,--version-script=vm/api/libsoma.map \
	  -Wl,--no-undefined $(LIB_OBJ) -lm -o $@

$(BUILD)/soma.so: $(LUA_OBJ) $(BUILD)/libsoma.a lua/soma.map
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,--version-script=lua/soma.map $(LUA_OBJ) $(BUILD)/libsoma.a $(FORMAT_LIBS) -lm -o $@

# Python's types take functions as pointers to data.
$(RECORDER_OBJ): override CFLAGS += $(PYTHON_CFLAGS) -Wno-pedantic -fvisibility=hidden
$(BUILD)/_soma.abi3.so: $(RECORDER_OBJ) $(BUILD)/libsoma.so
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) -shared $(RECORDER_OBJ) -L$(BUILD) -l:libsoma.so -o $@

$(BUILD)/soma: $(BUILD)/lua/command/main.o $(MAIN_SRC:%.c=$(BUILD)/%.o) $(LUA_OBJ) $(BUILD)/libsoma.a
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $^ $(LUA_LIBS) $(FORMAT_LIBS) $(EDIT_LIBS) $(SECCOMP_LIBS) -lm -o $@
	$(if $(SECCOMP_LIBS),,@echo "  NOTE  libseccomp-dev is not installed: soma --sandbox has no filter of system calls")

$(BUILD)/soma-ccom: $(BUILD)/lua/command/ccom_main.o $(MAIN_SRC:%.c=$(BUILD)/%.o) $(LUA_OBJ) $(BUILD)/libsoma.a
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $^ $(LUA_LIBS) $(FORMAT_LIBS) $(EDIT_LIBS) $(SECCOMP_LIBS) -lm -o $@

# A process of an MPI job; mpicc takes the compiler from OMPI_CC or MPICH_CC.
mpi: $(if $(MPICC),$(BUILD)/soma-mpi)
	$(if $(MPICC),,@echo "make mpi: there is no mpicc; libopenmpi-dev has it" >&2; exit 1)
$(BUILD)/lua/command/mpi.o: override CC := OMPI_CC="$(CC)" MPICH_CC="$(CC)" mpicc
$(BUILD)/soma-mpi: $(BUILD)/lua/command/mpi.o $(MAIN_SRC:%.c=$(BUILD)/%.o) $(LUA_OBJ) $(BUILD)/libsoma.a
	@echo "  LD    $@"
	$(Q)OMPI_CC="$(CC)" MPICH_CC="$(CC)" mpicc $(LDFLAGS) $^ $(LUA_LIBS) $(FORMAT_LIBS) $(EDIT_LIBS) $(SECCOMP_LIBS) -lm -o $@

$(BUILD)/soma-as: $(BUILD)/asm/tools/soma_as.o $(TOOL_OBJ) $(BUILD)/libsoma.a
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $^ -lm -o $@

$(BUILD)/soma-dis: $(BUILD)/asm/tools/soma_dis.o $(TOOL_OBJ) $(BUILD)/libsoma.a
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $^ -lm -o $@

# ---- Tests ---------------------------------------------------------------------------------
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
BENCH := $(patsubst tests/bench/%.c,$(BUILD)/tests/%,$(wildcard tests/bench/bench_*.c))
$(BUILD)/tests/test_actfn: TEST_LIBS := -lmpfr -lgmp
$(BUILD)/tests/test_syscalls: $(BUILD)/lua/command/syscalls.o
$(BUILD)/tests/test_syscalls: TEST_OBJ := $(BUILD)/lua/command/syscalls.o
$(BUILD)/tests/test_syscalls: TEST_LIBS := $(SECCOMP_LIBS)
$(BUILD)/tests/test_manual: $(TOOL_OBJ)
$(BUILD)/tests/test_manual: TEST_OBJ := $(TOOL_OBJ)

.SECONDARY: $(UNIT:$(BUILD)/tests/%=$(BUILD)/tests/unit/%.o)
$(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(BUILD)/libsoma.a
	$(Q)$(CC) $< $(TEST_OBJ) $(BUILD)/libsoma.a $(LDFLAGS) -lcmocka $(TEST_LIBS) -lm -o $@

# The command as on a host of SOMA_CORES cores.
$(BUILD)/tests/soma-threads: tests/threads/cores.c $(BUILD)/lua/command/main.o $(MAIN_SRC:%.c=$(BUILD)/%.o) $(LUA_OBJ) $(BUILD)/libsoma.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LUA_LIBS) $(FORMAT_LIBS) $(EDIT_LIBS) $(SECCOMP_LIBS) -lm -o $@

# Plain C may use all that this host has, fused multiply-adds of the compiler's too.
# private: what it is linked with is compiled for any host, without contraction.
$(BUILD)/tests/bench_plain: private override CFLAGS += -march=native -ffp-contract=fast -DKERN_LEVEL=plain
$(BUILD)/tests/bench_%: tests/bench/bench_%.c $(BUILD)/libsoma.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -O3 -MMD -MP $< $(BUILD)/libsoma.a $(LDFLAGS) -lm -o $@

$(BUILD)/tests/ulp: tests/ulp/ulp.c $(BUILD)/libsoma.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -MMD -MP $< $(BUILD)/libsoma.a $(LDFLAGS) -lmpfr -lgmp -lm -o $@

$(BUILD)/tests/timing: tests/timing/timing.c $(BUILD)/libsoma.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -MMD -MP $< $(BUILD)/libsoma.a $(LDFLAGS) -lm -o $@

$(BUILD)/tests/page: tests/ui/page.c $(BUILD)/libsoma.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -MMD -MP $< $(BUILD)/libsoma.a $(LDFLAGS) -lm -o $@

unit: $(UNIT) $(BUILD)/tests/soma-threads $(if $(MPICC),mpi)
test: all unit fuzz-build
	$(Q)BUILD=$(BUILD) CC="$(CC)" tests/run.sh
# Random lists of the builder against the same with a barrier after each instruction.
lists: $(BUILD)/tests/test_kernel_props $(BUILD)/soma
	$(Q)SOMA_KERNEL_LISTS=$(or $(LISTS),10000) nice -n 10 $<
	$(Q)LUA_PATH="./tests/lua/?.lua;;" PAIR_RANDOM=$(or $(LISTS),10000) nice -n 10 $(BUILD)/soma tests/lua/test_kernel_pair.lua
	$(Q)LUA_PATH="./tests/lua/?.lua;;" KERNEL_RANDOM=$(or $(LISTS),10000) nice -n 10 $(BUILD)/soma tests/lua/test_kernel_random.lua
# What each pass of the builder may not do, done in a copy of the sources: its tests notice.
PASS_MUTANTS := $(or $(TMPDIR),/tmp)/soma-pass-mutants
pass-mutants:
	$(Q)rm -rf $(PASS_MUTANTS) && mkdir -p $(PASS_MUTANTS)
	$(Q)git ls-files | tar -c -T - | tar -x -C $(PASS_MUTANTS)
	$(Q)nice lua5.4 tests/mutants/passes.lua $(PASS_MUTANTS) $(if $(PATTERN),'$(PATTERN)')
	$(Q)rm -rf $(PASS_MUTANTS)
conform: all
	$(Q)LUA_PATH="./tests/?.lua;./tests/lua/?.lua;;" LUA_CPATH="./$(BUILD)/?.so;$(BUILD)/?.so;;" lua5.4 tests/conform.lua $(if $(DUT),--dut '$(DUT)') $(if $(PATTERN),'$(PATTERN)')
mutants mutants-all: all
	$(Q)LUA_PATH="./tests/?.lua;./tests/lua/?.lua;;" LUA_CPATH="./$(BUILD)/?.so;$(BUILD)/?.so;;" nice lua5.4 tests/mutants.lua $(if $(filter %-all,$@),--all) $(if $(PATTERN),'$(PATTERN)')
COUNT ?= 100000
FIRST ?= 1
judge: $(BUILD)/tests/test_judge
	$(Q)JUDGE_COUNT=$(COUNT) JUDGE_FIRST=$(FIRST) nice $<
advice: all
	$(Q)BUILD=$(BUILD) COUNT=$(COUNT) tests/advice.sh
test-ui: $(BUILD)/tests/page
	$(Q)BUILD=$(BUILD) tests/ui/run.sh
check: all unit $(BENCH) $(BUILD)/tests/page $(BUILD)/tests/timing
	$(Q)BUILD=$(BUILD) CC="$(CC)" tests/run.sh --full
bench-ui: $(BUILD)/tests/page
	$(Q)BUILD=$(BUILD) tests/ui/run.sh bench
picture-ui: $(BUILD)/tests/page
	$(Q)BUILD=$(BUILD) tests/ui/run.sh picture
bench: all $(BENCH) $(if $(MPICC),mpi)
	$(Q)for b in $(BENCH); do $$b || exit 1; done
	$(Q)$(BUILD)/soma tests/bench/check.lua
	$(Q)BUILD=$(BUILD) $(BUILD)/soma tests/bench/worlds.lua
	$(Q)for p in python3 /usr/bin/python3; do \
	  if $$p -c 'import numpy' 2>/dev/null; then $$p tests/bench/numpy_figures.py && \
	    SOMA_LIB="$(CURDIR)/$(BUILD)/libsoma.so" $$p tests/bench/nki_figures.py; exit $$?; fi; \
	done; echo "no python3 with NumPy: its figures are left out"
bench-compare: all $(BENCH)
	$(Q)BASE="$(BASE)" BENCHES="$(BENCHES)" BUILD=$(BUILD) CC="$(CC)" tests/bench/compare.sh
ulp: $(BUILD)/tests/ulp
	$(Q)$< $(POINTS) $(PATTERN)

# Public kernels, unmodified; DIR holds checkouts of their repositories (tests/README.md).
nki: all
	$(Q)SOMA_LIB="$(CURDIR)/$(BUILD)/libsoma.so" $${SOMA_PYTHON:-/usr/bin/python3} \
	  tests/nki/run.py "$(DIR)" $(if $(ONLY),"$(ONLY)")
# Random sequences of NKI calls against NumPy: COUNT of them, from FIRST.
nki-random: all
	$(Q)SOMA_LIB="$(CURDIR)/$(BUILD)/libsoma.so" SOMA_RANDOM=$(or $(COUNT),100000) \
	  SOMA_FIRST=$(or $(FIRST),0) SOMA_REFUSED=1 $${SOMA_PYTHON:-/usr/bin/python3} \
	  tests/python/run.py tests/python/test_random.py
# The same with views, masks, transposes and operands in PSUM; the last lines are a table of pairs.
nki-random-views: all
	$(Q)SOMA_LIB="$(CURDIR)/$(BUILD)/libsoma.so" SOMA_RANDOM=$(or $(COUNT),10000) \
	  SOMA_FIRST=$(or $(FIRST),0) SOMA_REFUSED=1 $${SOMA_PYTHON:-/usr/bin/python3} \
	  tests/python/run.py tests/python/test_random_views.py

repro: all
	$(Q)BUILD=$(BUILD) tests/repro.sh all $(REPRO)
THREADED := soma-threads test_threads test_work test_late
# Only what goes over several threads; the sanitizers slow the rest tenfold and more.
tsan:
	$(Q)$(MAKE) BUILD=build-tsan OPT=-O1 SAN="-fsanitize=thread -Wno-maybe-uninitialized" $(THREADED:%=build-tsan/tests/%)
	$(Q)BUILD=build-tsan tests/threads/run.sh
asan-threads:
	$(Q)$(MAKE) BUILD=build-asan OPT=-O1 SAN="$(ASAN)" $(THREADED:%=build-asan/tests/%)
	$(Q)BUILD=build-asan tests/threads/run.sh

# Each file is written whole or not at all.
generated: all
	$(Q)$(BUILD)/soma-as --manual >isa/manual.md.new && mv isa/manual.md.new isa/manual.md
	$(Q)for f in vim:soma.vim textmate:soma.tmLanguage.json; do to=asm/editors/$${f#*:}; \
	  $(BUILD)/soma-as --words | lua5.4 asm/editors/generate.lua $${f%%:*} >$$to.new && mv $$to.new $$to || exit 1; done
	$(Q)lua5.4 asm/editors/completions.lua $(BUILD) >$(BUILD)/soma.bash && cp $(BUILD)/soma.bash asm/editors/soma.bash

# Not that of nki/gpt_torch, which needs a checkout of nki-library.
pictures: all
	$(Q)for p in samples/pictures/*.svg; do \
	  [ -f samples/$$(basename $$p .svg).lua ] || continue; \
	  $(BUILD)/soma samples/$$(basename $$p .svg).lua samples/pictures >/dev/null || exit 1; done
	$(Q)for p in samples/pictures/nki_*.svg; do n=$$(basename $$p .svg); \
	  $(BUILD)/soma-nki samples/nki/$${n#nki_}.py samples/pictures >/dev/null || exit 1; done

# Measured figures of the READMEs: each is written by what measures it.
FIGURES ?= timing checks mutants
figures: all $(BUILD)/tests/timing $(BUILD)/tests/bench_kernel $(BUILD)/tests/bench_threads
	$(Q)BUILD=$(BUILD) LUA_PATH="./tests/?.lua;;" LUA_CPATH="./$(BUILD)/?.so;$(BUILD)/?.so;;" lua5.4 tests/figures.lua $(FIGURES)

examples: all
	$(Q)for f in readme samples_readme tutorial; do BUILD=$(BUILD) LUA_PATH="./tests/?.lua;;" lua5.4 tests/suites/$$f.lua --write || exit 1; done

timing: all $(BUILD)/tests/timing
	$(Q)$(BUILD)/tests/timing tests/timing
	$(Q)$(BUILD)/soma tests/timing/mlp.lua
	$(Q)$(BUILD)/soma tests/timing/collectives.lua
	$(if $(DIR),$(Q)$(BUILD)/soma-nki tests/timing/kernels.py '$(DIR)' '$(PATTERN)')

# Fuzzing: one source a harness, with a main of its own or libFuzzer's.
FUZZ_MAIN ?= tests/fuzz/standalone.c
# Clang warns of loops that the sanitizers keep from vectorising; gcc ignores the option.
FUZZ_SAN := address,undefined -fno-sanitize-recover=all -Wno-pass-failed
$(BUILD)/fuzz/%: tests/fuzz/fuzz_%.c $(wildcard tests/fuzz/*.[ch]) $(BUILD)/libsoma.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $< $(FUZZ_MAIN) $(FUZZ_OBJ) $(BUILD)/libsoma.a $(LDFLAGS) $(FUZZ_LIBS) -lm -o $@
$(BUILD)/fuzz/file: $(LUA_OBJ)
$(BUILD)/fuzz/file: override CFLAGS += $(LUA_CFLAGS)
$(BUILD)/fuzz/file: FUZZ_OBJ = $(LUA_OBJ)
$(BUILD)/fuzz/file: FUZZ_LIBS = $(LUA_LIBS) $(FORMAT_LIBS)
FUZZ_OPT ?= -O1
FUZZ_DEBUG_INFO ?= -g1
FUZZ_PARTS ?= fuzz-build
fuzz-sanitized:
	$(Q)$(MAKE) BUILD=$(BUILD) OPT=$(FUZZ_OPT) DEBUG_INFO=$(FUZZ_DEBUG_INFO) SAN="-fsanitize=$(FUZZ_SAN)" $(FUZZ_PARTS) $(BUILD)/soma
fuzz-harnesses: $(patsubst %,$(BUILD)/fuzz/%,asm sbc run save world file kernel)
fuzz-build: $(BUILD)/soma-as fuzz-harnesses
fuzz-smoke:
	$(Q)$(MAKE) BUILD=build-asan fuzz-sanitized
	$(Q)BUILD=build-asan tests/fuzz/fuzz.sh smoke
fuzz:
	$(Q)$(MAKE) BUILD=build-asan fuzz-sanitized
	$(Q)BUILD=build-asan tests/fuzz/fuzz.sh many
fuzz-guided:
	$(Q)$(MAKE) BUILD=build-fuzz OPT=-O1 CC=clang SAN="-fsanitize=fuzzer-no-link,$(FUZZ_SAN)" \
	  FUZZ_MAIN=-fsanitize=fuzzer fuzz-build
	$(Q)BUILD=build-fuzz tests/fuzz/fuzz.sh long

debug:
	$(Q)$(MAKE) BUILD=build-debug OPT="-O0"
ASAN := -fsanitize=address,undefined -fno-sanitize-recover=all
asan:
	$(Q)$(MAKE) BUILD=build-asan OPT="-O1" SAN="$(ASAN)"
ubsan:
	$(Q)$(MAKE) BUILD=build-ubsan OPT="-O1" SAN="-fsanitize=undefined -fno-sanitize-recover=all"

# ---- Lint ----------------------------------------------------------------------------------
FORMATTED := $(shell git ls-files '*.c' '*.h' 2>/dev/null)
lint:
	$(Q)tests/lint.sh
	$(Q)clang-format --dry-run -Werror $(FORMATTED)
	$(Q)cppcheck -q -j4 --std=c11 --error-exitcode=1 --enable=warning,performance,portability \
	  --inline-suppr --suppressions-list=tests/cppcheck.txt -DKERN_LEVEL=plain -I$(BUILD)/vm/record/viewer -I$(BUILD)/lua -I$(BUILD)/lua/debug -I$(BUILD)/lua/command -I$(BUILD)/lua/kernel isa asm kernel vm lua python/recorder
format:
	$(Q)clang-format -i $(FORMATTED)

# ---- Install -------------------------------------------------------------------------------
# MODE:SOURCE:TARGET, the target below PREFIX unless it begins with a slash; a link's source is what it
# says. The manuals stand as here, so that their links lead somewhere.
LIBDIR ?= $(PREFIX)/lib
LUA_CMOD ?= $(LIBDIR)/lua/5.4
MAN := asm/tools/soma-as.1 asm/tools/soma-dis.1 lua/command/soma.1 lua/command/soma-ccom.1 python/soma-nki.1 $(if $(MPICC),lua/command/soma-mpi.1)
HEADERS := $(addprefix vm/api/,soma.h soma_custom.h soma_debug.h soma_device.h soma_kernel.h soma_trace.h soma_world.h)
COMMANDS := $(PROGRAMS) $(BUILD)/soma-nki $(if $(MPICC),$(BUILD)/soma-mpi)
MANUALS := LICENSE CONTRIBUTING.md CHANGELOG.md README.md isa/manual.md vm/stats.def \
           $(sort $(shell find asm isa kernel lua python samples tests vm -name README.md -o -name reference.md)) \
           tests/golden/debug.txt $(wildcard tests/pictures/*.svg) $(shell find samples -name __pycache__ -prune -o -type f ! -name README.md -print | sort)
PACKAGE := $(shell cd python && find soma nki neuronxcc compat -name '*.py' -o -name '*.cpp' | sort)
INSTALL = $(foreach f,$(COMMANDS),755:$f:bin/$(notdir $f)) $(foreach f,$(HEADERS),644:$f:include/$(notdir $f)) \
  644:vm/stats.def:include/soma_stats.def 644:vm/checks.def:include/soma_checks.def 644:isa/view.h:include/soma_view.h 644:$(BUILD)/libsoma.a:$(LIBDIR)/libsoma.a 755:$(BUILD)/libsoma.so:$(LIBDIR)/libsoma.so.$(VERSION) \
  link:libsoma.so.$(VERSION):$(LIBDIR)/libsoma.so.0 link:libsoma.so.0:$(LIBDIR)/libsoma.so \
  644:$(BUILD)/soma.pc:$(LIBDIR)/pkgconfig/soma.pc $(if $(RECORDER),755:$(RECORDER):lib/soma/python/soma/_soma.abi3.so) 755:$(BUILD)/soma.so:$(LUA_CMOD)/soma.so \
  $(foreach f,$(PACKAGE),644:python/$f:lib/soma/python/$f) $(foreach f,python3 neuron-profile,755:python/soma/bin/$f:lib/soma/python/soma/bin/$f) \
  $(foreach f,$(MAN),644:$f:share/man/man1/$(notdir $f)) \
  $(foreach f,$(MANUALS),644:$f:share/doc/soma/$f) 644:asm/editors/soma.vim:share/vim/vimfiles/syntax/soma.vim \
  644:asm/editors/soma.tmLanguage.json:share/soma/soma.tmLanguage.json \
  644:asm/editors/soma.bash:share/bash-completion/completions/soma \
  $(foreach f,$(filter-out soma,$(notdir $(COMMANDS))),link:soma:share/bash-completion/completions/$f)
item = $(word 1,$1):$(word 2,$1):$(if $(filter /%,$(word 3,$1)),,$(PREFIX)/)$(word 3,$1)
ITEMS = $(foreach i,$(INSTALL),$(call item,$(subst :, ,$i)))
# What was written, files (f) and the folders that were not there before (d): make uninstall takes away
# that and nothing else.
LIST = $(PREFIX)/share/soma/installed

install: all $(if $(MPICC),mpi)
	$(Q)for p in '$(PREFIX)' '$(LIBDIR)'; do case "$$p" in *[[:space:]:]*|[!/]*) echo "PREFIX and LIBDIR are paths from / on without spaces, not '$$p'" >&2; exit 2;; esac; done
	$(Q)$(MAKE) -s uninstall AGAIN=1
	@echo "  INSTALL  $(DESTDIR)$(PREFIX)"
	$(Q)sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' vm/api/soma.pc.in >$(BUILD)/soma.pc
	$(Q)set -e; new=$$(mktemp); trap 'rm -f "$$new"' EXIT; for i in $(ITEMS) ::$(LIST); do \
	  t=$${i##*:}; echo "f $$t"; \
	  while t=$${t%/*} && [ -n "$$t" ]; do [ -d "$(DESTDIR)$$t" ] || echo "d $$t"; done; \
	done | sort -u >"$$new"; \
	sed -n 's/^d //p' "$$new" | while read -r t; do mkdir -p "$(DESTDIR)$$t"; done; \
	install -m 644 "$$new" "$(DESTDIR)$(LIST)"; \
	for i in $(ITEMS); do \
	  t=$${i##*:} s=$${i#*:}; s=$${s%:*}; \
	  case $$i in link:*) ln -sf "$$s" "$(DESTDIR)$$t";; *) install -m "$${i%%:*}" "$$s" "$(DESTDIR)$$t";; esac; \
	done

uninstall:
	$(Q)[ -f "$(DESTDIR)$(LIST)" ] || { [ -n "$(AGAIN)" ] || echo "nothing to remove: there is no $(DESTDIR)$(LIST)"; exit 0; }; \
	set -e; old=$$(mktemp); trap 'rm -f "$$old"' EXIT; cp "$(DESTDIR)$(LIST)" "$$old"; \
	sed -n 's/^f //p' "$$old" | while read -r t; do rm -f "$(DESTDIR)$$t"; done; \
	sed -n 's/^d //p' "$$old" | sort -r | while read -r t; do \
	  case $$t in */lib/soma/python*) rm -rf "$(DESTDIR)$$t/__pycache__";; esac; \
	  rmdir "$(DESTDIR)$$t" 2>/dev/null || true; \
	done

# ---- Packages ------------------------------------------------------------------------------
STRIP ?= strip
WHEEL ?= $(BUILD)/wheel
COMPILED := libsoma.so _soma.abi3.so
wheel: $(addprefix $(BUILD)/,$(COMPILED))
	$(Q)mkdir -p $(WHEEL) && rm -f $(WHEEL)/soma_neuron-*.whl
	$(Q)for f in $(COMPILED); do $(STRIP) --strip-unneeded -o $(WHEEL)/$$f $(BUILD)/$$f || exit 1; done
	$(Q)for p in "$$SOMA_PYTHON" /usr/bin/python3 python3; do \
	  [ -n "$$p" ] && command -v "$$p" >/dev/null && break; done; \
	"$$p" python/wheel_backend.py $(addprefix $(WHEEL)/,$(COMPILED)) $(WHEEL)
	$(Q)rm $(addprefix $(WHEEL)/,$(COMPILED))

# Debian's packages. They are built in a copy, since their files go into the folder above.
DEB ?= $(BUILD)/deb
deb:
	$(Q)command -v dpkg-buildpackage >/dev/null && command -v dh >/dev/null || { echo "make deb: debhelper and dh-python are not installed" >&2; exit 1; }
	$(Q)rm -rf $(DEB) && mkdir -p $(DEB)/soma-$(VERSION)
	$(Q)tar -cf - --exclude=./.git --exclude='./build*' --exclude=node_modules --exclude=__pycache__ . | tar -xf - -C $(DEB)/soma-$(VERSION)
	$(Q)cd $(DEB)/soma-$(VERSION) && mv .ci/debian . && unset MAKEFLAGS MAKELEVEL MFLAGS && dpkg-buildpackage -b -us -uc -j$$(nproc)
	$(Q)rm -r $(DEB)/soma-$(VERSION) && ls $(DEB)/*.deb | grep -v dbgsym

clean:
	rm -rf build build-*

.PHONY: all mpi unit test lists pass-mutants test-ui check judge advice conform mutants mutants-all bench nki nki-random nki-random-views bench-compare bench-ui picture-ui generated pictures \
        figures examples timing ulp repro tsan asan-threads fuzz fuzz-guided fuzz-smoke fuzz-build fuzz-harnesses fuzz-sanitized debug asan ubsan lint format install uninstall wheel deb clean
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
