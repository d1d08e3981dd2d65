# `make demo` shows what Quire does; `make test` runs all tests.

BUILD_PACKAGES := libsqlite3-dev libxml2-dev libarchive-dev libedit-dev zlib1g-dev pkg-config
TEST_PACKAGES := sqlite3 strace unzip zstd openssh-client
# For Examples/Notebook, a window, a display and keystrokes; for Examples/DocumentServer, an HTTP client.
EXAMPLE_PACKAGES := libgtk-4-dev xvfb xdotool curl unzip
# `make install` installs the command here; packagers set DESTDIR.
PREFIX ?= /usr/local
SOURCES := Sources Tests Benchmarks Examples/*/Sources Examples/*/Package.swift Package.swift

# Random tests start from a different seed for each commit, and print it; QUIRE_SEED=… repeats them.
SEED = $(or $(QUIRE_SEED),$(shell printf '%d' "0x$$(git rev-parse --short=6 HEAD 2>/dev/null || echo 1)"))

# Macros use the toolchain's swift-syntax, because building another takes minutes; see Package.swift.
export QUIRE_TOOLCHAIN_SYNTAX := 1

.PHONY: help program install uninstall
.PHONY: demo demo-sync demo-syncthing test example docs torture weaken-sync test-threads test-optimized bench guard samples format lint

help:
	@echo "make install  build the command, and install it with its manual pages and completions"
	@echo "make install PREFIX=/usr DESTDIR=folder    for /usr, below a folder"
	@echo "make uninstall    remove them"
	@echo "make demo     build, then create, fill, edit, check, pack and protect a document"
	@echo "make demo STORE=path MODEL=path    also inspect a copy of your Core Data store"
	@echo "make demo-sync    synchronize two documents through a folder, with a conflict"
	@echo "make demo-syncthing    the same, with two Syncthing processes that synchronize the folder"
	@echo "make test     run all tests"
	@echo "make test FILTER=pattern    run the tests whose names match"
	@echo "make example  build programs that depend on this package, in folders of their own, and check what they print"
	@echo "make docs     build the documentation of the libraries into .build/docs"
	@echo "make docs BASE=/quire    for a web site that serves it at /quire"
	@echo "make torture  run the fault tests in their long form; takes hours"
	@echo "make weaken-sync  weaken the rules of synchronization one by one: the simulation must detect each change"
	@echo "make test-threads  run the tests of contexts under the thread sanitizer"
	@echo "make test-optimized  run the tests of the command and of client programs in an optimized build"
	@echo "make bench    measure Quire beside SQLite's C API and GRDB"
	@echo "make bench ARGUMENTS='--against FILE'    also list what has changed since a run that --save FILE has kept"
	@echo "make guard    compare the instruction counts of some tasks with the recorded ones"
	@echo "make samples  recreate the documents in SampleDocs"
	@echo "make format   format the sources"
	@echo "make lint     check their format"

# Built the fastest where everything is built once: whole modules, without optimisation, and without debug information, which
# nobody looks at. A debug build has ArgumentParser examine its definitions whenever a command starts, for 0.2 s, and tests
# start thousands. In folders of their own, so that nothing else is compiled anew for that.
FLAGS := -c release -debug-info-format none -Xswiftc -Onone -Xswiftc -enable-testing
PLAIN := swift build --scratch-path .build/plain $(FLAGS)

# The command finds Swift's libraries beside it, and needs no toolchain. They are not linked statically, because Foundation of
# Swift 6.3 then cannot write property lists. `make program` only builds it, for an installation as root.
INSTALLED := swift build -c release --product quire -Xlinker -rpath -Xlinker '$$ORIGIN/../lib/quire'

program:
	@.ci/install-packages $(BUILD_PACKAGES)
	$(INSTALLED)

install: program
	@.ci/install "$$($(INSTALLED) --show-bin-path)/quire" "$(DESTDIR)" "$(PREFIX)"

uninstall:
	@.ci/install --remove "$(DESTDIR)" "$(PREFIX)"

# The tests use the same build.
demo:
	@.ci/install-packages $(BUILD_PACKAGES)
	$(PLAIN) --product quire
	@STORE="$(STORE)" MODEL="$(MODEL)" SampleDocs/demo.sh "$$($(PLAIN) --show-bin-path)/quire"

demo-sync:
	@.ci/install-packages $(BUILD_PACKAGES)
	$(PLAIN) --product quire
	@SampleDocs/demo-sync.sh "$$($(PLAIN) --show-bin-path)/quire"

# Requires Syncthing, which it does not install.
demo-syncthing:
	@.ci/install-packages $(BUILD_PACKAGES)
	$(PLAIN) --product quire
	@SampleDocs/demo-syncthing.sh "$$($(PLAIN) --show-bin-path)/quire"

test:
	@.ci/install-packages $(BUILD_PACKAGES) $(TEST_PACKAGES)
	$(PLAIN) --build-tests
	@QUIRE_SEED=$(SEED) Tests/run.sh "$$($(PLAIN) --show-bin-path)/quirePackageTests.xctest" '$(FILTER)'

# Packages that depend on this one, as a user's do.
example:
	@.ci/install-packages $(BUILD_PACKAGES) $(EXAMPLE_PACKAGES)
	@.ci/example $(FLAGS)

# The reference and articles of the libraries. BASE=/path is for a web server that serves them below that path.
docs:
	@.ci/install-packages $(BUILD_PACKAGES)
	$(PLAIN)
	@.ci/docs "$$($(PLAIN) --show-bin-path)" .build/docs $(BASE)

# Tests/README.md describes the long forms.
weaken-sync:
	@.ci/install-packages $(BUILD_PACKAGES) $(TEST_PACKAGES)
	@Tests/weaken-sync.sh .build/plain/release/quirePackageTests.xctest "$(PLAIN) --build-tests" $(RULE)

torture:
	@.ci/install-packages $(BUILD_PACKAGES) $(TEST_PACKAGES)
	$(PLAIN) --build-tests
	@QUIRE_TORTURE=1 QUIRE_SEED=$(SEED) Tests/run.sh "$$($(PLAIN) --show-bin-path)/quirePackageTests.xctest" \
		QuireDurabilityTests

# Only the concurrency tests; see Package.swift. Backtraces are off, because Swift forks to print them, which can crash the
# sanitizer.
test-threads:
	@.ci/install-packages $(BUILD_PACKAGES) $(TEST_PACKAGES)
	QUIRE_THREAD_SANITIZER=1 swift build --sanitize=thread --scratch-path .build/threads $(FLAGS) \
		--product quirePackageTests
	SWIFT_BACKTRACE=enable=no QUIRE_CONCURRENCY_DEBUG=1 QUIRE_THREAD_SANITIZER=1 \
		swift test --skip-build --sanitize=thread \
		--scratch-path .build/threads $(FLAGS) --experimental-maximum-parallelization-width 10

# The command, and programs that use the library, as users build them: optimized code can fail where the plain build does not.
test-optimized:
	@.ci/install-packages $(BUILD_PACKAGES) $(TEST_PACKAGES)
	QUIRE_BENCHMARKS=1 swift build -c release --product quire
	$(PLAIN) --build-tests
	@QUIRE_SEED=$(SEED) QUIRE_PROGRAMS="$$(QUIRE_BENCHMARKS=1 swift build -c release --show-bin-path)" \
		Tests/run.sh "$$($(PLAIN) --show-bin-path)/quirePackageTests.xctest" \
		'QuireCommandTests\.(Transcript|Session|HostileTarget|Streaming)'
	QUIRE_BENCHMARKS=1 QUIRE_CLIENT_TESTS=1 swift build -c release --product quirePackageTests
	@Tests/run.sh "$$(QUIRE_BENCHMARKS=1 swift build -c release --show-bin-path)/quirePackageTests.xctest" \
		'^(ClientTests|QuireMacrosTests)\.'

# The quick form measures no commands.
bench:
	@.ci/install-packages $(BUILD_PACKAGES)
ifeq ($(findstring --quick,$(ARGUMENTS)),)
	@.ci/install-packages sqlite3 zip unzip libarchive-tools
	QUIRE_BENCHMARKS=1 swift build -c release --product quire
endif
	QUIRE_BENCHMARKS=1 swift run -c release Benchmarks $(ARGUMENTS)

guard:
	@.ci/install-packages $(BUILD_PACKAGES) valgrind binutils
	QUIRE_BENCHMARKS=1 swift run -c release Benchmarks --guard Benchmarks/instructions.json $(ARGUMENTS)

samples:
	@.ci/install-packages $(BUILD_PACKAGES)
	$(PLAIN) --product quire
	@SampleDocs/make.sh "$$($(PLAIN) --show-bin-path)/quire"

format:
	swift format -i -r $(SOURCES)

lint:
	swift format lint --strict -r $(SOURCES)
