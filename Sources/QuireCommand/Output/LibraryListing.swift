import Foundation
import Quire
import QuireDocuments

/// Documents of a library, as the command prints them.
struct LibraryListing {
    let entries: [DocumentLibrary.Entry]

    init(entries: [DocumentLibrary.Entry]) {
        self.entries = entries.map { entry in
            var entry = entry
            guard entry.error == nil, entry.fileProtection == .none else { return entry }
            do { try DocumentPackage.checkIsNotSealed(at: entry.path) } catch {
                entry.error = error as? QuireError
            }
            return entry
        }
    }

    /// Prints the documents, and reports those that are broken.
    func print(_ output: Output) throws {
        var rows = RowOutput(
            [
                ("name", .left), ("title", .left), ("saved", .left), ("bytes", .right),
                ("objects", .right), ("open", .left), ("protection", .left),
            ],
            members: [
                "path", "name", "title", "uuid", "created", "modified", "bytes", "objects",
                "values",
                "thumbnail", "open", "protection", "error",
            ], to: output)
        for entry in entries { try rows.add(Self.texts(entry), Self.json(entry)) }
        if !entries.isEmpty || output.format != .table { try rows.finish() }
        if output.json { return }
        for entry in entries {
            if let error = entry.error { Output.report(error.message) }
        }
    }

    private static func texts(_ entry: DocumentLibrary.Entry) -> [String] {
        [
            FileSystem.name(of: entry.path), entry.title,
            entry.modified.map(PrintedDate.text) ?? "", String(entry.size),
            String(entry.objectCount),
            entry.error == nil ? entry.owner == nil ? "" : "open" : "broken",
            entry.fileProtection == .none ? "" : entry.fileProtection.rawValue,
        ]
    }

    static func json(_ entry: DocumentLibrary.Entry) -> JSONValue {
        .object([
            "path": .string(entry.path), "name": .string(entry.name),
            "title": .string(entry.title), "uuid": JSONValue(entry.uuid),
            "created": PrintedDate.json(entry.created),
            "modified": PrintedDate.json(entry.modified),
            "bytes": .integer(entry.size),
            "objects": .object(entry.metadata.objectCounts.mapValues { .integer(Int64($0)) }),
            "values": .object(entry.metadata.values.mapValues { .string($0) }),
            "thumbnail": JSONValue(entry.thumbnailPath), "open": OwnerListing.json(entry.owner),
            "protection": ProtectionListing.json(
                entry.fileProtection,
                isLocked: entry.fileProtection != .none && !isUnlocked(entry.path)),
            "error": JSONValue(entry.error?.message),
        ])
    }

    /// Whether a document is unlocked by the user keyring. One with a damaged keybag is not.
    private static func isUnlocked(_ path: String) -> Bool {
        (try? UnlockOptions.domain(at: path)?.unlockFromUserKeyring()) == true
    }

    static func json(_ change: DocumentLibrary.Change) -> JSONValue {
        switch change {
        case .all(let entries):
            .object(["change": .string("all"), "entries": .array(entries.map(json))])
        case .added(let entry): .object(["change": .string("added"), "entry": json(entry)])
        case .changed(let entry): .object(["change": .string("changed"), "entry": json(entry)])
        case .moved(let path, let entry):
            .object([
                "change": .string("moved"), "from": .string(path), "entry": json(entry),
            ])
        case .removed(let path):
            .object(["change": .string("removed"), "path": .string(path)])
        }
    }

    /// A line, or several, for a person.
    static func lines(_ change: DocumentLibrary.Change) -> [String] {
        switch change {
        case .all(let entries): entries.map { "Found \($0.path)" }
        case .added(let entry): ["Added \(entry.path)"]
        case .changed(let entry): ["Changed \(entry.path)"]
        case .moved(let path, let entry): ["Moved \(path) to \(entry.path)"]
        case .removed(let path): ["Removed \(path)"]
        }
    }
}

// MARK: - Owners

/// The owner of a document, as the command prints it.
enum OwnerListing {
    /// “process 12 (quire) on host”.
    static func text(_ owner: DocumentOwner) -> String {
        var text = owner.processIdentifier.map { "process \($0)" } ?? "another process"
        if let name = owner.processName { text += " (\(name))" }
        if let host = owner.hostName { text += " on \(host)" }
        if let since = owner.since { text += " since \(PrintedDate.text(since))" }
        return text
    }

    static func json(_ owner: DocumentOwner?) -> JSONValue {
        guard let owner else { return .null }
        return .object([
            "process": owner.processIdentifier.map { .integer(Int64($0)) } ?? .null,
            "name": JSONValue(owner.processName), "host": JSONValue(owner.hostName),
            "since": PrintedDate.json(owner.since),
        ])
    }
}
