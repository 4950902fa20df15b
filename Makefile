# pinhole: build, run, test.  `make help` lists the targets.
CC      ?= cc
AR      ?= ar
BUILD   ?= build
PREFIX  ?= /usr/local
SAN     ?=
OPT     ?= -O2 -g
WERROR  ?=
VERSION := 0.1.0

PKGS  := libjpeg libpng libwebp libpcre2-8 libutf8proc jansson
WARN   = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla \
         -Wcast-qual -Wpointer-arith -Wwrite-strings -Wformat=2 $(WERROR)
CFLAGS = -std=c11 -D_GNU_SOURCE -DPH_VERSION='"$(VERSION)"' -Isrc -Iinclude -I. -ffp-contract=off -fPIC \
         -pthread $(OPT) $(WARN) $(SAN) $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LDLIBS = $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -pthread

# The flags of a kernel folder stand in isa.def, beside its CPU features.
isa_of    = $(word 3,$(subst /, ,$1))
isa_flags = $(shell sed -n 's/^PH_ISA($1,.*"\(.*\)")$$/\1/p' src/kernels/isa.def)
# The rooms a room may use: those on lower floors, and itself (src/FLOORS).
rooms_to  = $(shell awk -v r=$1 '$$1 !~ /^\#/ && NF {f[$$2]=$$1} END {for (x in f) if (f[x] < f[r] || x == r) print x}' src/FLOORS)
sources   = $(sort $(foreach r,$1,$(wildcard src/$r/*.c src/$r/*/*.c)))
obj       = $(addprefix $(BUILD)/,$(1:.c=.o))

LIB   := $(filter-out src/cli/%,$(sort $(wildcard src/*/*.c src/*/*/*.c)))
CLI   := $(sort $(wildcard src/cli/*.c))
CHECK := $(wildcard tests/check/*.c)

all: build
build: $(BUILD)/pinhole $(BUILD)/libpinhole.so

$(BUILD)/libpinhole.a: $(call obj,$(LIB))
	@rm -f $@
	$(AR) rcs $@ $^
$(BUILD)/libpinhole.so: $(call obj,$(LIB))
	$(CC) $(SAN) -shared -Wl,-soname,libpinhole.so.0 -o $@ $^ $(LDLIBS)
$(BUILD)/pinhole: $(call obj,$(CLI)) $(BUILD)/libpinhole.a
	$(CC) $(SAN) -o $@ $^ $(LDLIBS)

$(BUILD)/src/kernels/%.o: src/kernels/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(call isa_flags,$(call isa_of,$<)) -MMD -c -o $@ $<
# All that meets untrusted bytes is compiled with -Wconversion.
$(BUILD)/src/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Wconversion -Wno-sign-conversion -MMD -c -o $@ $<
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -c -o $@ $<

# One unit program a room: tests/unit/ROOM/*.c with its own tests.def, linked with that room and the floors below.
UNITS := $(patsubst tests/unit/%/tests.def,%,$(wildcard tests/unit/*/tests.def))
define unit_rule
$(BUILD)/unit-$1: $(call obj,$(call sources,$(call rooms_to,$1)) $(wildcard tests/unit/$1/*.c)) tests/unit/main.c
	$$(CC) $$(CFLAGS) -DPH_TESTS='"tests/unit/$1/tests.def"' -o $$@ $$^ $$(LDLIBS)
unit-$1: $(BUILD)/unit-$1
	$(BUILD)/unit-$1
endef
$(foreach u,$(UNITS),$(eval $(call unit_rule,$u)))
unit: $(addprefix unit-,$(UNITS))

$(BUILD)/ph-check: $(call obj,$(call sources,$(call rooms_to,kernels)) $(CHECK))
	$(CC) $(SAN) -o $@ $^ $(LDLIBS)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.PHONY: all build unit $(addprefix unit-,$(UNITS))
