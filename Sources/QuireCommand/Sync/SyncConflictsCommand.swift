import ArgumentParser
import Quire
import QuireSync

/// `quire sync status PATH`
struct SyncStatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Shows the progress of synchronization.",
        discussion: """
            The document is only read, and the shared folder is not used.

            With --check every object is compared with the merged changes. Saves since the last \
            run are recorded first, so the document is opened for writing. The exit code is 4 if \
            there are differences; in that case try quire sync repair.

            EXAMPLES:
              quire sync status Library.quire
              quire sync status Library.quire --json
              quire sync status Library.quire --check
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @Flag(help: "Compare all objects with the merged changes.")
    var check = false

    @OptionGroup var options: SyncOptions

    @MainActor
    func run() async throws {
        try options.unlock.unlock(path)
        let access: DocumentSession.Access = check ? .write : .read
        let (faults, status, folder, protection) = try await DocumentSession.use(
            path, access, options.wait
        ) {
            document in
            let replica = try document.replica()
            return (
                check ? try await replica.checkInvariants() : [], try await document.syncStatus(),
                try await replica.transportDescription(),
                document.store.storeProtection?.fileProtection ?? .none
            )
        }
        var lines = ["Shared document \(status.container), replica \(status.peer)."]
        if let folder { lines.append("The folder is \(folder).") }
        if let line = ProtectionListing.line(protection, encryptedFolder: status.isEncrypted) {
            lines.append(line)
        }
        var toSend: [String] = []
        if status.outgoingCount > 0 { toSend.append(Count.of(status.outgoingCount, "file")) }
        if status.hasNewChanges || status.isPreparing {
            toSend.append("changes saved since the last run")
        }
        lines.append(
            toSend.isEmpty
                ? "Nothing to send." : "To be sent: \(toSend.joined(separator: ", ")).")
        lines += status.peers.map { $0.sentence(for: status.peer) }
        if status.conflictCount > 0 {
            lines.append("\(Count.of(status.conflictCount, "conflict")).")
        }
        if status.missingFileCount > 0 {
            lines.append(
                "\(Count.of(status.missingFileCount, "file")) with large values not yet received.")
        }
        lines += faults
        if check, faults.isEmpty { lines.append("All objects match the merged changes.") }
        try options.printResult(reportsChanges: false, levels: 2, lines) {
            .object([
                "path": .string(path), "container": .string(status.container.description),
                "peer": .string(status.peer.description), "folder": JSONValue(folder),
                "encrypted": .boolean(status.isEncrypted),
                "protection": ProtectionListing.json(protection, isLocked: false),
                "toSend": .integer(Int64(status.outgoingCount)),
                "hasNewChanges": .boolean(status.hasNewChanges || status.isPreparing),
                "conflicts": .integer(Int64(status.conflictCount)),
                "missingFiles": .integer(Int64(status.missingFileCount)),
                "peers": .array(status.peers.map(\.json)),
                "faults": check ? .array(faults.map { .string($0) }) : .null,
            ])
        }
        if !faults.isEmpty {
            throw Failure.invalidData(
                "“\(path)” differs from the merged changes (\(Count.of(faults.count, "problem"))); try “quire sync repair”."
            )
        }
    }
}

/// `quire sync conflicts PATH`
struct SyncConflictsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts",
        abstract: "Lists lost values and hidden objects.",
        discussion: """
            A conflict occurs if two replicas set a property concurrently, or one of them deletes \
            the object. All replicas keep the same value. The other one is listed here, with the \
            time at which it was set, until it is resolved on one of them.

            An object is hidden if another one has its unique values, or if a value or object that \
            it requires is missing. It is listed while it is hidden, with its values and the \
            reason.

            EXAMPLES:
              quire sync conflicts Library.quire
              quire sync conflicts Library.quire --json
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @OptionGroup var printing: RowOptions
    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions
    @OptionGroup var wait: WaitOption

    @MainActor
    func run() async throws {
        try Defaults.read(besideDocument: path)
        try unlock.unlock(path)
        let conflicts = try await DocumentSession.use(path, .read, wait) { document in
            _ = try await document.syncStatus()
            return try await document.replica().conflicts()
        }
        try printing.print {
            try $0.printRows(
                of: conflicts, SyncConflict.columns,
                members: ["number", "id", "entity", "property", "kind", "lost", "kept", "date"],
                ifEmpty: "No conflicts."
            ) { ($0.texts, $0.json) }
        }
    }
}

/// `quire sync resolve PATH NUMBER…`
struct SyncResolveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resolve",
        abstract: "Resolves conflicts.",
        discussion: """
            With --lost the object gets the lost value, as a new change that the next run sends; a \
            deleted object is restored. With --kept the current value is kept, and the conflict is \
            removed from the list of this replica.

            A hidden object is shown by --lost, in place of the object with the same unique values \
            or with the object that it requires; it is deleted by --kept, and shown with another \
            value by --set.

            EXAMPLES:
              quire sync resolve Library.quire 1 --lost
              quire sync resolve Library.quire 2 3 --kept
              quire sync resolve Library.quire 4 --set isbn=978-0141439587
            """)

    @Argument(help: ArgumentHelp("A document or a SQLite store.", valueName: "PATH"))
    var path: String

    @Argument(help: ArgumentHelp("Numbers from quire sync conflicts.", valueName: "NUMBER"))
    var numbers: [Int64]

    @Flag(help: "Use the lost value.")
    var lost = false

    @Flag(help: "Keep the current value.")
    var kept = false

    @Option(
        name: .customLong("set"),
        help: ArgumentHelp(
            "Show a hidden object with another value; may be repeated.", valueName: "KEY=VALUE"))
    var words: [String] = []

    @OptionGroup var options: SyncOptions

    func validate() throws {
        guard [lost, kept, !words.isEmpty].count(where: { $0 }) == 1 else {
            throw ValidationError("Specify --lost or --kept, or --set for a hidden object.")
        }
        _ = try Assignment.all(words)
        if !words.isEmpty, numbers.count > 1 {
            throw ValidationError("--set is for one hidden object; specify one conflict.")
        }
        if Set(numbers).count != numbers.count {
            throw ValidationError("A conflict is specified twice.")
        }
    }

    @MainActor
    func run() async throws {
        try options.unlock.unlock(path)
        let resolved = try await DocumentSession.use(path, .write, options.wait) { document in
            _ = try await document.syncStatus()
            let sync = try document.replica()
            let all = try await sync.conflicts()
            // All are there, or none is resolved.
            let chosen = try numbers.map { number in
                guard let conflict = all.first(where: { $0.number == number }) else {
                    throw QuireError(
                        .notFound, "“\(path)” has no conflict \(number).",
                        file: path, value: String(number))
                }
                return conflict
            }
            for conflict in chosen {
                if words.isEmpty {
                    try await lost ? sync.choose(conflict) : sync.dismiss(conflict)
                } else {
                    let values = try values(for: conflict, in: document)
                    try await sync.show(conflict, setting: values)
                }
            }
            document.didSaveApart()
            return chosen
        }
        let lines = resolved.map {
            "\($0.objectName), \($0.propertyName): \(outcome(of: $0))"
        }
        try options.printResult(levels: 0, lines) {
            .object([
                "resolved": .array(resolved.map { .integer($0.number) }),
                "with": .string(lost ? "lost" : kept ? "kept" : "set"),
            ])
        }
    }

    /// The outcome for a conflict, as the end of a sentence.
    private func outcome(of conflict: SyncConflict) -> String {
        switch (conflict.kind, kept) {
        case (.hidden, false): "the object is shown; the next run sends the change."
        case (.hidden, true): "the object is deleted; the next run sends the change."
        case (_, false): "“\(conflict.lostText)” is restored; the next run sends it."
        case (.deletion, true): "the object remains deleted."
        case (.value, true): "“\(conflict.keptText)” is kept."
        }
    }

    /// The values of `--set`.
    @MainActor
    private func values(
        for conflict: SyncConflict, in document: DocumentSession
    ) throws -> [String: AttributeValue] {
        let entity = try document.layout.requireConcreteEntity(named: conflict.entityName)
        var values: [String: AttributeValue] = [:]
        let assigned = AssignedChanges(
            try Assignment.all(words), of: document, in: document.context)
        for change in try assigned.changes(of: entity, computed: false) {
            switch change {
            case .attribute(let key, let value): values[key] = value
            case .toOne(let relationship, let object):
                values[relationship.name] = object.map { .objectID($0.objectID) } ?? .null
            case .computed(let slot, _):
                preconditionFailure("The value of \(slot.name) is not computed here.")
            case .toMany(_, let relationship, _):
                throw QuireError(
                    .invalidValue,
                    "\(entity.name).\(relationship.name) is a to-many relationship; set it after the object is shown.",
                    entity: entity.name, property: relationship.name)
            }
        }
        return values
    }
}
