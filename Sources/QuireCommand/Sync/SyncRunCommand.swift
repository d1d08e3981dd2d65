import ArgumentParser
import Foundation
import Quire
import QuireSQLite
import QuireSync

/// `quire sync run PATH`
struct SyncRunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Sends saved changes, and merges the changes of other replicas.",
        discussion: """
            Damaged and incomplete files are reported on standard error and tried again the next \
            time; the others are merged. If the shared folder is missing, the command fails with \
            exit code 1, and saved changes are sent later. Specify FOLDER only if the folder has \
            moved.

            EXAMPLES:
              quire sync run Library.quire
              quire sync run Library.quire /media/ada/Stick/Library
              quire sync run Library.quire --json
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @Argument(help: ArgumentHelp("The shared folder, if it has moved.", valueName: "FOLDER"))
    var folder: String?

    @Flag(help: "Continue until Ctrl-C, as quire sync watch does.")
    var watch = false

    @OptionGroup var options: SyncOptions

    @MainActor
    func run() async throws {
        if watch {
            return try await SyncWatch(path: path, folder: folder, options: options).run()
        }
        try await SyncRound.run(path, options, folder: folder) { try await $0.synchronize() }
    }
}

/// `quire sync watch PATH`
struct SyncWatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Synchronizes a document continuously, as it is saved and as files arrive.",
        discussion: """
            Prints a line for each round that sent or merged changes, until Ctrl-C, SIGTERM or \
            SIGHUP, which end it with exit code 0. The document is open for writing only while \
            changes are sent and merged, so that other programs can save to it; while one of them \
            has it open, synchronization waits. If the shared folder is missing, that is reported \
            once on standard error, and synchronization continues when it is back.

            EXAMPLES:
              quire sync watch Library.quire
              quire sync watch Library.quire --json | jq --unbuffered .inserted
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @Argument(help: ArgumentHelp("The shared folder, if it has moved.", valueName: "FOLDER"))
    var folder: String?

    @OptionGroup var options: SyncOptions

    @MainActor
    func run() async throws {
        try await SyncWatch(path: path, folder: folder, options: options).run()
    }
}

/// Synchronizes a document again and again: when files may have arrived, when the store was saved, and from time to time.
@MainActor
private final class SyncWatch {
    private let path: String
    private let folder: String?
    private let options: SyncOptions
    private let output: Output
    private var transport: FolderTransport?
    /// The sentence about why the last round failed; `nil` if it succeeded.
    private var failure: String?
    /// The names of the files that could not be merged in the last round.
    private var damaged: Set<String> = []
    private let events = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    private var tasks: [Task<Void, Never>] = []

    /// The time between rounds if nothing is noticed.
    private static let interval = Duration.seconds(30)
    /// The time until the next round after one that failed.
    private static let retryInterval = Duration.seconds(2)
    /// The errors that may pass by themselves.
    private static let passingErrors: Set<QuireError.Code> = [
        .storeUnavailable, .locked, .outOfSpace, .inputOutput,
    ]

    init(path: String, folder: String?, options: SyncOptions) {
        self.path = path
        self.folder = folder
        self.options = options
        output = Output(json: options.json)
    }

    /// Goes on until a signal ends it.
    func run() async throws {
        try options.unlock.unlock(path)
        if let folder { try FolderTransport.checkApart(folder, document: path) }
        let document = try await DocumentSession.open(path, modelPath: nil, access: .follow)
        try await document.untilInterrupted { [self] in try await watch(document) }
    }

    private func watch(_ document: DocumentSession) async throws {
        let folder = try await document.sharedFolder(folder)
        guard let store = document.store as? SQLiteStore else { return }
        defer { for task in tasks { task.cancel() } }
        // Before the first round, so that nothing is missed.
        follow(document.coordinator.remoteChanges)
        Output.report("Watching “\(path)” and “\(folder)”.")
        var timer: Task<Void, Never>?
        events.continuation.yield()
        for await _ in events.stream {
            timer?.cancel()
            if store.fileReplacement != nil {
                throw QuireError(
                    .storeReplaced,
                    "Another program has replaced or removed “\(path)”; synchronize it again.",
                    file: path)
            }
            do {
                try await synchronize(folder)
            } catch  where Task.isCancelled {
                // A signal has ended it.
                break
            }
            timer = Task { [events, failure] in
                try? await Task.sleep(for: failure == nil ? Self.interval : Self.retryInterval)
                if !Task.isCancelled { events.continuation.yield() }
            }
        }
        timer?.cancel()
    }

    /// Starts a round after each element of a sequence.
    private func follow<Element: Sendable>(_ changes: AsyncStream<Element>) {
        tasks.append(
            Task { [events] in
                for await _ in changes { events.continuation.yield() }
            })
    }

    private func synchronize(_ folder: String) async throws {
        let result: SyncResult
        do {
            if transport == nil {
                let opened = try FolderTransport.existing(folder)
                follow(opened.changes)
                transport = opened
            }
            guard let transport else { return }
            result = try await DocumentSession.use(
                path, .write, options.wait, reportsWaiting: false
            ) {
                document in
                let sync = try document.replica(transport, inClear: options.inClear)
                let result = try await document.synchronize(sync)
                try await sync.setTransportDescription(transport.path)
                return result
            }
        } catch let error as QuireError where Self.passingErrors.contains(error.code) {
            let sentence =
                error.code == .storeUnavailable
                ? "\(error.message) Using local storage." : error.message
            if failure != sentence { Output.report(sentence) }
            failure = sentence
            return
        }
        if failure != nil { Output.report("Synchronization of “\(path)” continues.") }
        failure = nil
        try print(result)
    }

    private func print(_ result: SyncResult) throws {
        let new = result.problems.filter { !damaged.contains($0.fileName) }
        damaged = Set(result.problems.map(\.fileName))
        for sentence in new.sentences { Output.report(sentence) }
        if result.isEmpty, new.isEmpty { return }
        let date = Date()
        let line = "\(PrintedDate.text(date))  \(result.text)"
        try output.printResult(levels: 0, result.isEmpty ? [] : [line]) {
            var members = result.members
            members["date"] = PrintedDate.json(date)
            return .object(members)
        }
        try output.flush()
    }
}
