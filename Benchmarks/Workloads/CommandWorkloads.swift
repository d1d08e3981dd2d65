import Foundation
import Glibc
import Quire
import QuireDocuments

/// A command that is run to its end.
struct Command {
    static let taskName = "command"

    var name: String
    var arguments: [String]

    init(_ name: String, _ arguments: String...) { self.init(name, arguments) }

    init(_ name: String, _ arguments: [String]) {
        self.name = name
        self.arguments = arguments
    }

    /// What a run has taken.
    struct Usage {
        var seconds: Double
        var processorSeconds: Double
        var megabytes: Double
    }

    /// Has a process of this program's run it. A process counts as its own the memory of the one that began it, and this one
    /// may have used much.
    func measure() throws -> Usage {
        let output = try OwnProcess.run(Self.taskName, [name] + arguments)
        let figures = output.split(whereSeparator: \.isWhitespace).compactMap { Double($0) }
        guard figures.count == 3 else {
            throw BenchmarkFailure("The process that measures “\(name)” said “\(output)”.")
        }
        return Usage(seconds: figures[0], processorSeconds: figures[1], megabytes: figures[2])
    }

    /// Runs it, and prints the seconds on the clock and of processors, and the peak in megabytes. What it prints itself is
    /// dropped.
    func run() throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        var list = ([name] + arguments).map { strdup($0) } + [nil]
        defer { for text in list { free(text) } }
        let stopwatch = Stopwatch()
        stopwatch.start()
        var process: pid_t = 0
        guard posix_spawnp(&process, name, &actions, nil, &list, environ) == 0 else {
            throw BenchmarkFailure("“\(name)” cannot be run; `make bench` installs it.")
        }
        var (status, usage) = (Int32(0), rusage())
        while wait4(process, &status, 0, &usage) == -1 && errno == EINTR {}
        stopwatch.stop()
        guard status == 0 else { throw BenchmarkFailure("“\(name)” has failed.") }
        func seconds(_ time: timeval) -> Double {
            Double(time.tv_sec) + Double(time.tv_usec) / 1e6
        }
        print(
            (stopwatch.median ?? 0) / 1_000, seconds(usage.ru_utime) + seconds(usage.ru_stime),
            Double(usage.ru_maxrss) / 1_024)
    }
}

extension Run {
    /// The command, which `make bench` builds beside this program.
    private static var quire: String {
        URL(fileURLWithPath: OwnProcess.path).deletingLastPathComponent().path + "/quire"
    }

    /// Measures the command beside those that others use.
    func measureCommand(progress: (String) -> Void) async throws -> [Comparison] {
        guard FileManager.default.isExecutableFile(atPath: Self.quire) else {
            progress("There is no command beside this program, so it is not measured.")
            return []
        }
        return try measureImport(progress: progress) + (await measureArchives(progress: progress))
    }

    private func measureImport(progress: (String) -> Void) throws -> [Comparison] {
        let file = "\(folder)/notes.csv"
        let count = 200_000
        let dataset = Dataset(count: count, inAdvance: false)
        var text = "title,body,rating,price\n"
        for number in 0..<count {
            let note = dataset[number]
            text += "\(note.title),\(note.body),\(note.rating),\(note.price)\n"
        }
        try Data(text.utf8).write(to: URL(fileURLWithPath: file))
        var (quire, sqlite): ([Command.Usage], [Command.Usage]) = ([], [])
        for round in 0..<3 {
            progress("import of \(count) rows, round \(round + 1)")
            let (store, database) = ("\(folder)/import.sqlite", "\(folder)/import.db")
            defer {
                Self.removeDocument(at: store)
                Self.removeDocument(at: database)
            }
            try QuireEngine.create(at: store).close()
            quire.append(try Command(Self.quire, "import", store, "Note", file).measure())
            sqlite.append(
                try Command(
                    "sqlite3", database, "PRAGMA journal_mode = WAL",
                    "CREATE TABLE note (title TEXT, body TEXT, rating INTEGER, price REAL)",
                    "CREATE INDEX note_title ON note (title)",
                    ".import --csv --skip 1 '\(file)' note"
                ).measure())
        }
        func middle(_ usages: [Command.Usage], _ value: (Command.Usage) -> Double) -> Double {
            usages.map(value).median ?? 0
        }
        return [
            Comparison(
                "I1", "import of 200,000 CSV rows, time of processors", unit: "s",
                quire: middle(quire, \.processorSeconds),
                others: [.init(name: "sqlite3", value: middle(sqlite, \.processorSeconds))],
                ratio: 3),
            Comparison(
                "I2", "the same, peak memory", unit: "MB", quire: middle(quire, \.megabytes),
                others: [.init(name: "sqlite3", value: middle(sqlite, \.megabytes))], most: 150),
        ]
    }

    private func measureArchives(progress: (String) -> Void) async throws -> [Comparison] {
        let package = "\(folder)/archived.quire"
        try await makeLargePackage(at: package)
        let archive = "\(folder)/quire.zip"
        // What each makes, and how; all of them unpack the same archive.
        let exports = [
            (archive, Command(Self.quire, "export", package, archive)),
            ("\(folder)/b.zip", Command("bsdtar", "-a", "-cf", "\(folder)/b.zip", package)),
            ("\(folder)/z.zip", Command("zip", "-qr", "\(folder)/z.zip", package)),
        ]
        let (one, two, three) = ("\(folder)/1.quire", "\(folder)/2", "\(folder)/3")
        let extractions = [
            (one, Command(Self.quire, "extract", archive, one)),
            (two, Command("bsdtar", "-xf", archive, "-C", two)),
            (three, Command("unzip", "-q", archive, "-d", three)),
        ]
        return try [
            measure(
                "A1", "export of a package of 200 MB", exports, ratio: 1, progress: progress),
            // What Quire has extracted is checked and on disk.
            measure(
                "A2", "extraction of its archive", extractions, ratio: 2, progress: progress),
            measure(
                "A3", "check of the document in its archive",
                [archive, package].map { ("", Command(Self.quire, "check", $0)) },
                others: ["package"], ratio: 2, progress: progress),
        ]
    }

    private func measure(
        _ id: String, _ title: String, _ commands: [(made: String, command: Command)],
        others names: [String]? = nil, ratio: Double, progress: (String) -> Void
    ) throws -> Comparison {
        var seconds = commands.map { _ in [Double]() }
        for round in 0..<3 {
            progress("\(title), round \(round + 1)")
            for (index, (made, command)) in commands.enumerated() {
                try? FileManager.default.removeItem(atPath: made)
                if command.arguments.contains("-C") || command.arguments.contains("-d") {
                    try FileManager.default.createDirectory(
                        atPath: made, withIntermediateDirectories: true)
                }
                seconds[index].append(try command.measure().seconds)
            }
        }
        let medians = seconds.map { $0.median ?? 0 }
        return Comparison(
            id, title, unit: "s", quire: medians[0],
            others: zip(names ?? commands.dropFirst().map(\.command.name), medians.dropFirst())
                .map { .init(name: $0, value: $1) }, ratio: ratio)
    }

    /// A document with fifty values of four megabytes, half of which cannot be compressed.
    @MainActor
    private func makeLargePackage(at path: String) async throws {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        try await document.create(
            model: ManagedObjectModel {
                Entity("Picture") { Attribute("data", .binary).externalStorage() }
            })
        var state: UInt64 = 1
        for _ in 0..<50 {
            var data = Data(capacity: 4 << 20)
            while data.count < 4 << 20 {
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                let word = data.count % 8_192 < 4_096 ? state >> 8 : 0x6574_7465_7220_6F66
                withUnsafeBytes(of: word) { data.append(contentsOf: $0) }
            }
            try document.managedObjectContext.insertObject(entityName: "Picture")["data"] =
                data
        }
        try await document.save()
        try await document.close()
    }
}
