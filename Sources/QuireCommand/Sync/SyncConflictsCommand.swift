import ArgumentParser
import Quire
import QuireSync

/// `quire sync status PATH`
struct SyncStatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Says how far a replica has come.",
        discussion: """
            The document is only read, and the shared folder is not looked into.

            EXAMPLES:
              quire sync status Library.quire
              quire sync status Library.quire --json
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @OptionGroup var options: SyncOptions

    @MainActor
    func run() async throws {
        try options.unlock.unlock(path)
        let (status, folder) = try await DocumentSession.use(path, .read, options) { document in
            (try await document.syncStatus(), try await document.replica().transportDescription())
        }
        let output = Output(json: options.json)
        if options.json {
            try output.print(
                .object([
                    "path": .string(path), "container": .string(status.container.description),
                    "peer": .string(status.peer.description), "folder": JSONValue(folder),
                    "encrypted": .boolean(status.isEncrypted),
                    "toSend": .integer(Int64(status.outgoingCount)),
                    "hasNewChanges": .boolean(status.hasNewChanges || status.isPreparing),
                    "conflicts": .integer(Int64(status.conflictCount)),
                    "missingFiles": .integer(Int64(status.missingFileCount)),
                    "peers": .array(status.peers.map(\.json)),
                ]), levels: 2)
        } else {
            try output.print("Shared document \(status.container), replica \(status.peer).")
            if let folder { try output.print("The folder is \(folder).") }
            try output.print("What is sent is \(status.isEncrypted ? "" : "not ")encrypted.")
            var toSend: [String] = []
            if status.outgoingCount > 0 { toSend.append(Count.of(status.outgoingCount, "file")) }
            if status.hasNewChanges || status.isPreparing {
                toSend.append("what was saved since the last run")
            }
            try output.print(
                toSend.isEmpty
                    ? "Nothing is to be sent." : "To be sent: \(toSend.joined(separator: ", ")).")
            for peer in status.peers { try output.print(peer.sentence(for: status.peer)) }
            if status.conflictCount > 0 {
                try output.print("\(Count.of(status.conflictCount, "conflict")).")
            }
            if status.missingFileCount > 0 {
                try output.print(
                    "\(Count.of(status.missingFileCount, "file")) of large values not there yet.")
            }
        }
        try output.flush()
    }
}

/// `quire sync conflicts PATH`
struct SyncConflictsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts",
        abstract: "Lists the values that have lost against others.",
        discussion: """
            Two replicas set a property without knowing of each other, or one of them deleted the object. All replicas keep the \
            same value; the other one is listed here, with the time at which it was set, until it is resolved on one of them.

            EXAMPLES:
              quire sync conflicts Library.quire
              quire sync conflicts Library.quire --json
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @OptionGroup var options: SyncOptions

    @MainActor
    func run() async throws {
        try options.unlock.unlock(path)
        let conflicts = try await DocumentSession.use(path, .read, options) { document in
            _ = try await document.syncStatus()
            return try await document.replica().conflicts()
        }
        let output = Output(json: options.json)
        if options.json {
            try output.print(.array(conflicts.map(\.json)), levels: 1)
        } else if conflicts.isEmpty {
            try output.print("No conflicts.")
        } else {
            var table = TableOutput(SyncConflict.columns, to: output)
            for conflict in conflicts { try table.add(conflict.cells) }
            try table.finish()
        }
        try output.flush()
    }
}

/// `quire sync resolve PATH NUMBER…`
struct SyncResolveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resolve",
        abstract: "Resolves conflicts.",
        discussion: """
            With --lost the object gets the value that has lost, as a new change, which the next run sends; an object that was \
            deleted comes back. With --kept the value that it has stays, and the conflict is dropped from the list of this \
            replica.

            EXAMPLES:
              quire sync resolve Library.quire 1 --lost
              quire sync resolve Library.quire 2 3 --kept
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @Argument(help: ArgumentHelp("The conflicts' numbers, as listed.", valueName: "NUMBER"))
    var numbers: [Int64]

    @Flag(help: "Take the value that has lost.")
    var lost = false

    @Flag(help: "Leave the value that was kept.")
    var kept = false

    @OptionGroup var options: SyncOptions

    func validate() throws {
        if lost == kept { throw ValidationError("Say either --lost or --kept.") }
        if Set(numbers).count != numbers.count {
            throw ValidationError("A conflict is named twice.")
        }
    }

    @MainActor
    func run() async throws {
        let output = Output(json: options.json, reportsChanges: true)
        try options.unlock.unlock(path)
        let resolved = try await DocumentSession.use(path, .write, options) { document in
            _ = try await document.syncStatus()
            let sync = try document.replica()
            let all = try await sync.conflicts()
            // All are there, or none is resolved.
            let chosen = try numbers.map { number in
                guard let conflict = all.first(where: { $0.number == number }) else {
                    throw QuireError(
                        .notFound, "“\(path)” has no conflict \(number).",
                        subject: .init(file: path, value: String(number)))
                }
                return conflict
            }
            for conflict in chosen {
                try await lost ? sync.choose(conflict) : sync.dismiss(conflict)
            }
            document.didSaveApart()
            return chosen
        }
        if options.json {
            try output.print(
                .object([
                    "resolved": .array(resolved.map { .integer($0.number) }),
                    "with": .string(lost ? "lost" : "kept"),
                ]), levels: 0)
        } else {
            for conflict in resolved {
                let value = PrintedValue(lost ? conflict.lost : conflict.kept).text
                let name = "\(conflict.objectName), \(conflict.propertyName)"
                try output.print(
                    lost
                        ? "\(name): “\(value)” is back; the next run sends it."
                        : conflict.kind == .deletion
                            ? "\(name): it stays deleted." : "\(name): “\(value)” stays.")
            }
        }
        try output.flush()
    }
}
