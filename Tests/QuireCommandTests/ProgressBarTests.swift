import Foundation
import Glibc
import QuireTestSupport
import Testing

@testable import QuireCommand

/// The line of a progress bar: from readings and times to text.
@Suite struct ProgressLineTests {
    private static let title = "Exporting Library.quire"

    /// A line after readings once a second.
    private func made(
        after readings: [(completed: Int64, total: Int64)], of unit: ProgressLine.Unit = .bytes,
        _ title: String = Self.title
    ) -> ProgressLine {
        var line = ProgressLine(title, of: unit)
        for (second, reading) in readings.enumerated() {
            line.update(.init(reading.completed, of: reading.total), at: Double(second))
        }
        return line
    }

    private func text(_ line: ProgressLine, columns: Int = 89) -> String {
        line.text(columns: columns, isASCII: false)
    }

    @Test func barShowsAmountRateAndTimeLeft() {
        let megabyte: Int64 = 1_000_000
        let line = made(after: (0...4).map { ($0 * 20 * megabyte, 200 * megabyte) })
        #expect(
            text(line, columns: 83)
                == "Exporting Library.quire   40 %  ▕████▍      ▏  80 MB of 200 MB, 20 MB/s, 6 s left"
        )
        #expect(
            line.text(columns: 60, isASCII: true)
                == "Exporting Library.quire   40 %  [######          ]  6 s left")
        #expect(text(line, columns: 40) == "Exporting Library.quire   40 %  ▕██▍   ▏")
        #expect(text(line, columns: 20) == "Export…y.quire  40 %")
        #expect(text(line, columns: 10) == "40 %")
        #expect(text(line, columns: 3) == "")
    }

    @Test func barOfObjectsGroupsDigits() {
        let line = made(after: (0...4).map { ($0 * 1500, 20_000) }, of: .objects)
        #expect(
            text(line, columns: 100)
                == "Exporting Library.quire   30 %  ▕██████              ▏  "
                + "6,000 of 20,000 objects, 1,500/s, 9 s left")
    }

    @Test func unknownTotalShowsAmountAndRate() {
        let line = made(after: (0...3).map { ($0 * 1000, -1) }, of: .rows)
        #expect(line.fraction == nil)
        #expect(text(line) == "Exporting Library.quire  3,000 rows, 1,000/s")
        #expect(text(line, columns: 40) == "Exporting Library.quire  3,000 rows")
        #expect(text(line, columns: 24) == "Expo…quire  3,000 rows")
        #expect(text(line, columns: 10) == "Expo…quire")
    }

    @Test(arguments: [ProgressLine.Unit.bytes, .objects, .rows, .fraction])
    func nothingCountedShowsTimePassed(_ unit: ProgressLine.Unit) {
        #expect(text(made(after: [(0, -1), (0, -1)], of: unit)) == "Exporting Library.quire  1 s")
        #expect(text(made(after: [(0, 0), (0, 0)], of: unit)) == "Exporting Library.quire  1 s")
    }

    @Test func zeroBytesOfKnownTotalHaveNoTimeLeft() {
        let line = made(after: (0...9).map { _ in (0, 5000) })
        #expect(
            text(line, columns: 62)
                == "Exporting Library.quire    0 %  ▕      ▏  0 bytes of 5.0 kB")
    }

    @Test func timeLeftWaitsForSeveralReadings() {
        #expect(!text(made(after: [(0, 100), (40, 100)])).contains("left"))
        // One step of a hundred says nothing about the next.
        #expect(!text(made(after: [(0, 100), (0, 100), (40, 100), (40, 100)])).contains("left"))
        #expect(
            text(made(after: [(0, 100), (10, 100), (20, 100), (30, 100)])).contains(", 7 s left"))
    }

    @Test func growingTotalLowersTheFraction() {
        var line = made(after: (0...4).map { ($0 * 10, 50) })
        #expect(line.fraction == 0.8)
        line.update(.init(50, of: 500), at: 5)
        #expect(line.fraction == 0.1)
        #expect(text(line).hasSuffix("50 bytes of 500 bytes, 10 bytes/s, 45 s left"))
    }

    @Test func countBeyondTheTotalIsTheTotal() {
        let line = made(after: [(0, 100), (60, 100), (120, 100)])
        #expect(line.fraction == 1)
        #expect(text(line).contains("100 %"))
        #expect(text(line).hasSuffix("▏  120 bytes of 120 bytes, finishing"))
    }

    @Test func timeGoingBackwardsKeepsTheRate() {
        var line = made(after: (0...4).map { ($0 * 10, 100) })
        line.update(.init(50, of: 100), at: -3600)
        line.update(.init(60, of: 100), at: -3599)
        #expect(text(line).hasSuffix("60 bytes of 100 bytes, 10 bytes/s, 4 s left"))
        line.update(.init(65, of: 100), at: -3599)
        #expect(text(line).contains("65 bytes of 100 bytes"))
    }

    @Test func nextPhaseBeginsAnew() {
        var line = made(after: (0...4).map { ($0 * 25, 100) })
        line.update(.init(5, of: 100), at: 5)
        #expect(text(line).hasSuffix("▏  5 bytes of 100 bytes"))
    }

    @Test func childrenCountBeforeTheyFinish() {
        var line = ProgressLine(Self.title, of: .bytes)
        line.update(.init(completed: 100, total: 1000, fraction: 0.6), at: 1)
        #expect(text(line).hasSuffix("600 bytes of 1.0 kB"))
    }

    @Test func controlsInNamesAreEscaped() {
        let line = made(after: [(0, -1)], "Checking \u{1B}[2J\n\u{202E}.quire")
        #expect(text(line) == "Checking \\u001b[2J\\u000a\\u202e.quire  0 s")
    }

    // MARK: - Widths

    /// Swift does not import it.
    private static let wcwidth = dlsym(nil, "wcwidth").map {
        unsafeBitCast($0, to: (@convention(c) (UInt32) -> Int32).self)
    }

    /// The columns that the C library counts, in the locale of the thread.
    private func columns(_ text: String) throws -> Int {
        let width = try #require(Self.wcwidth)
        return text.unicodeScalars.reduce(0) { $0 + Int(max(width($1.value), 0)) }
    }

    @Test(arguments: [
        "Exporting Library.quire", "Importing 図書館の目録.csv", "Checking 👩‍👩‍👧☀️🇩🇪.quire",
        "Checking a\u{301}\u{301}\u{301}b.quire", "", String(repeating: "long ", count: 60),
    ])
    func textFitsAllWidths(_ title: String) throws {
        let locale = newlocale(1 << LC_CTYPE, "C.UTF-8", nil)
        let former = uselocale(locale)
        defer {
            uselocale(former)
            freelocale(locale)
        }
        let amounts: [Int64] = [.min, 0, 999, 84_000_000, .max]
        let fractions = [0, 0.42, 1, 7, -1, .nan, .infinity, 1e300]
        for unit in [ProgressLine.Unit.bytes, .rows, .fraction] {
            var line = ProgressLine(title, of: unit)
            var (time, step) = (0.0, 0)
            for completed in amounts {
                for total in amounts {
                    let fraction = fractions[step % fractions.count]
                    time += [1, 0, -0.5, 100, 0.1][step % 5]
                    line.update(
                        .init(completed: completed, total: total, fraction: fraction), at: time)
                    for width in step % 12 == 8 ? Array(1...200) : [1, 10, 40, 79] {
                        let text = line.text(columns: width, isASCII: false)
                        #expect(try columns(text) <= width, "\(width): \(text)")
                        let plain = line.text(columns: width, isASCII: true).utf8
                        #expect(plain.count <= width && plain.allSatisfy { $0 < 0x7F })
                    }
                    step += 1
                }
            }
        }
    }

    @Test func numbersHaveThreeDigits() {
        let sizes: [Double: String] = [
            0: "0 bytes", 1: "1 byte", 999: "999 bytes", 999.7: "1.0 kB", 9949: "9.9 kB",
            9960: "10 kB", 999_499: "999 kB", 999_600: "1.0 MB", 51e6: "51 MB", 1.25e9: "1.3 GB",
            9.2e18: "9.2 EB",
        ]
        for (size, text) in sizes { #expect(ProgressLine.bytes(size) == text) }
        let durations: [Double: String] = [
            -1: "0 s", 3.4: "3 s", 59.6: "1 min", 125: "2 min 5 s", 3600: "1 h", 4830: "1 h 20 min",
        ]
        for (seconds, text) in durations { #expect(ProgressLine.duration(seconds) == text) }
    }
}

extension ProgressLine.Reading {
    /// A reading of a progress without children.
    fileprivate init(_ completed: Int64, of total: Int64) {
        self.init(
            completed: completed, total: total,
            fraction: total > 0 ? Double(completed) / Double(total) : 0)
    }
}

/// The bar on a terminal.
@Suite struct ProgressBarTests {
    private static let environment = ["TERM": "xterm", "LANG": "C.UTF-8"]

    @Test func onlyTerminalsHaveBars() throws {
        let terminal = try PseudoTerminal()
        let pipe = Pipe()
        let isBar = { (descriptor: Int32, environment: [String: String]) in
            ProgressTerminal(descriptor, environment: environment) != nil
        }
        #expect(isBar(terminal.device, Self.environment))
        #expect(!isBar(pipe.fileHandleForWriting.fileDescriptor, Self.environment))
        #expect(!isBar(-1, Self.environment))
        for type in ["dumb", ""] { #expect(!isBar(terminal.device, ["TERM": type])) }
        #expect(!isBar(terminal.device, [:]))
    }

    @Test(arguments: [
        (["LANG": "de_DE.UTF-8"], false), (["LC_ALL": "C", "LANG": "C.UTF-8"], true),
        (["LC_ALL": "", "LC_CTYPE": "en_US.utf8", "LANG": "C"], false), ([:], true),
    ])
    func localeDecidesAboutCharacters(_ locale: [String: String], isASCII: Bool) throws {
        let terminal = try PseudoTerminal()
        let environment = locale.merging(["TERM": "xterm"]) { $1 }
        let found = try #require(ProgressTerminal(terminal.device, environment: environment))
        #expect(found.isASCII == isASCII)
    }

    @Test func barMakesWayAndIsErased() throws {
        let terminal = try PseudoTerminal(columns: 41)
        let progress = Progress(totalUnitCount: 100)
        let bar = ProgressBar(
            "Exporting Library.quire", of: .fraction, observing: progress,
            on: try #require(ProgressTerminal(terminal.device, environment: Self.environment)),
            delay: .zero)
        progress.completedUnitCount = 50
        bar.draw()
        // Nothing has changed.
        bar.draw()
        bar.hiding {
            terminal.print("a message\n")
            bar.draw()
        }
        terminal.columns = 12
        bar.draw()
        bar.finish()
        bar.draw()
        bar.finish()
        terminal.print("end")
        #expect(
            try terminal.read(until: "end")
                == "\rExporting Library.quire   50 %  ▕███   ▏\u{1B}[K\r\u{1B}[K"
                + "a message\r\n\r50 %\u{1B}[K\r\u{1B}[Kend")
    }

    @Test func barAppearsAfterTheDelay() throws {
        let terminal = try PseudoTerminal()
        let bar = ProgressBar(
            "Exporting", of: .bytes, observing: Progress(totalUnitCount: 100),
            on: try #require(ProgressTerminal(terminal.device, environment: Self.environment)),
            delay: .seconds(3600))
        bar.draw()
        bar.finish()
        terminal.print("end")
        #expect(try terminal.read(until: "end") == "end")
    }

    // MARK: - The command

    /// An import of a pipe that does not end until it is closed, with standard error on a terminal.
    private struct Import {
        let terminal: PseudoTerminal
        let process = Process()
        let output = Pipe()
        let rows: FileHandle
        private let shell: CommandShell

        init() throws {
            shell = try CommandShell()
            _ = try shell.output("quire new L.quire --template Library; mkfifo books.csv")
            // Also for reading, so that opening it does not wait for the command, which must not have this end.
            let end = open(shell.path("books.csv"), O_RDWR | O_CLOEXEC)
            rows = FileHandle(fileDescriptor: end, closeOnDealloc: true)
            terminal = try PseudoTerminal()
            process.executableURL = URL(
                fileURLWithPath: (TestProgram.folder ?? Checkout.builtProducts) + "/quire")
            process.currentDirectoryURL = shell.folder.url
            process.arguments = ["import", "L.quire", "Book", "books.csv"]
            process.environment = ProcessInfo.processInfo.environment
                .merging(ProgressBarTests.environment) { $1 }.merging(["LC_ALL": ""]) { $1 }
            process.standardInput = FileHandle.nullDevice
            process.standardOutput = output
            process.standardError = FileHandle(fileDescriptor: terminal.device)
            try process.run()
            try rows.write(contentsOf: Data("title\nEmma\n".utf8))
        }
    }

    @Test func commandShowsBarAndErasesIt() throws {
        let command = try Import()
        #expect(try command.terminal.read(until: "Reading books.csv").first == "\r")
        try command.rows.close()
        command.process.waitUntilExit()
        command.terminal.print("end")
        #expect(try command.terminal.read(until: "end").hasSuffix("\r\u{1B}[Kend"))
        let printed = try command.output.fileHandleForReading.readToEnd() ?? Data()
        #expect(String(decoding: printed, as: UTF8.self) == "Imported 1 object of Book.\n")
        #expect(command.process.terminationStatus == 0)
    }

    @Test func signalErasesBar() throws {
        let command = try Import()
        _ = try command.terminal.read(until: "Reading books.csv")
        command.process.terminate()
        command.process.waitUntilExit()
        command.terminal.print("end")
        #expect(try command.terminal.read(until: "end").hasSuffix("\r\u{1B}[Kend"))
        #expect(command.process.terminationReason == .uncaughtSignal)
        #expect(command.process.terminationStatus == SIGTERM)
    }
}
