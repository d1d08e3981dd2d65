import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire library …`
struct LibraryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "library",
        abstract: "Lists and manages the documents in a folder.",
        discussion: """
            Documents are listed without opening them. No command replaces an existing document.

            EXAMPLES:
              quire library list Documents
              quire library new Documents Books --template Library
              quire library rename Documents/Books.quire "Old books"
              quire library trash Documents/Books.quire
              quire library watch Documents --json
            """,
        subcommands: [
            List.self, New.self, Rename.self, Duplicate.self, Trashing.self, Trashed.self,
            Restore.self, Watching.self,
        ])

    /// The folder, and the extensions of documents.
    struct FolderOptions: ParsableArguments {
        @Argument(help: ArgumentHelp("The folder of the documents.", valueName: "FOLDER"))
        var folder: String

        @Flag(name: .shortAndLong, help: "Include subfolders.")
        var recursive = false

        var library: DocumentLibrary { DocumentLibrary(folder: folder, isRecursive: recursive) }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists the documents without opening them.",
            discussion: """
                EXAMPLES:
                  quire library list Documents
                  quire library list Documents --recursive --json
                """)

        @OptionGroup var folder: FolderOptions
        @OptionGroup var printing: RowOptions

        func run() async throws {
            let listing = try await LibraryListing(entries: folder.library.entries())
            try printing.print { try listing.print($0) }
        }
    }

    struct New: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "Creates a document from a template; adds a number to a name that already exists.",
            discussion: """
                EXAMPLES:
                  quire library new Documents Books --template Library
                """)

        @OptionGroup var folder: FolderOptions
        @Argument(help: ArgumentHelp("The name, without .quire.", valueName: "NAME"))
        var name: String
        @Option(help: ArgumentHelp("A template's name, or its folder.", valueName: "T"))
        var template: String
        @OptionGroup var options: JSONOption

        func run() async throws {
            let path = try await folder.library.create(named: name, from: .named(template))
            try options.printResult("Created \(path).", path: path)
        }
    }

    struct Rename: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Renames a document.",
            discussion: """
                A document that is open for writing elsewhere is not renamed.

                EXAMPLES:
                  quire library rename Documents/Books.quire "Old books"
                """)

        @Argument(help: ArgumentHelp("The document.", valueName: "PATH"))
        var path: String
        @Argument(help: ArgumentHelp("The new name, without .quire.", valueName: "NAME"))
        var name: String
        @OptionGroup var options: JSONOption
        @OptionGroup var wait: WaitOption

        func run() async throws {
            let new = try await DocumentLibrary(ofDocument: path)
                .rename(path, to: name, waiting: wait.lockWait(for: path))
            try options.printResult("Renamed \(path) to \(new).", path: new)
        }
    }

    struct Duplicate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Copies a document beside itself, as “NAME 2”.",
            discussion: """
                EXAMPLES:
                  quire library duplicate Documents/Books.quire
                """)

        @Argument(help: ArgumentHelp("The document.", valueName: "PATH"))
        var path: String
        @Option(help: ArgumentHelp("The copy's name, without .quire.", valueName: "NAME"))
        var name: String?
        @OptionGroup var options: JSONOption
        @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions

        func run() async throws {
            try unlock.unlock(path)
            let copy = try await DocumentLibrary(ofDocument: path).duplicate(path, named: name)
            try options.printResult("Copied \(path) to \(copy).", path: copy)
        }
    }

    struct Trashing: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "trash",
            abstract: "Moves a document to the user's trash.",
            discussion: """
                A document that is open for writing is not moved.

                EXAMPLES:
                  quire library trash Documents/Books.quire
                """)

        @Argument(help: ArgumentHelp("The document.", valueName: "PATH"))
        var path: String
        @OptionGroup var options: JSONOption
        @OptionGroup var wait: WaitOption

        func run() async throws {
            let item = try await DocumentLibrary(ofDocument: path)
                .trash(path, waiting: wait.lockWait(for: path))
            try options.printResult(["Moved \(path) to the trash."]) {
                LibraryCommand.json(item, withDate: false)
            }
        }
    }

    struct Trashed: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists the documents in the user's trash, latest first.",
            discussion: """
                EXAMPLES:
                  quire library trashed
                """)

        @Argument(
            help: ArgumentHelp(
                "Also list the trash of the file system of this folder.",
                valueName: "FOLDER"))
        var folder: String?
        @OptionGroup var printing: RowOptions

        func run() async throws {
            let items = Trash().items(besides: folder)
            try printing.print {
                try $0.printRows(
                    of: items, [("path", .left)], members: ["originalPath", "path", "deleted"],
                    isList: true
                ) { ([$0.originalPath], LibraryCommand.json($0, withDate: true)) }
            }
        }
    }

    struct Restore: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Restores a document from the trash.",
            discussion: """
                If several documents had that path, the one trashed last is restored.

                EXAMPLES:
                  quire library restore Documents/Books.quire
                """)

        @Argument(help: ArgumentHelp("Its original path.", valueName: "PATH"))
        var path: String
        @OptionGroup var options: JSONOption

        func run() async throws {
            let wanted = URL(fileURLWithPath: path).standardizedFileURL.path
            guard
                let item = Trash().items(besides: path).first(where: {
                    FileName($0.originalPath) == FileName(wanted)
                })
            else {
                throw QuireError(
                    .notFound, "“\(path)” is not in the trash.", file: path)
            }
            let restored = try Trash().restore(item)
            try options.printResult("Restored \(path) from the trash.", path: restored)
        }
    }

    struct Watching: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "watch",
            abstract: "Prints the documents, and then each change, until it is interrupted.",
            discussion: """
                EXAMPLES:
                  quire library watch Documents
                """)

        @OptionGroup var folder: FolderOptions
        @OptionGroup var options: JSONOption

        func run() async throws {
            _ = try await folder.library.entries()  // Reports a missing folder.
            let output = Output(json: options.json, compact: true)
            for await change in folder.library.changes() {
                try output.printResult(levels: 0, LibraryListing.lines(change)) {
                    LibraryListing.json(change)
                }
                try output.flush()
            }
        }
    }

    private static func json(_ item: Trash.Item, withDate: Bool) -> JSONValue {
        var members: [String: JSONValue] = [
            "path": .string(item.path), "originalPath": .string(item.originalPath),
        ]
        if withDate { members["deleted"] = PrintedDate.json(item.deleted) }
        return .object(members)
    }
}

extension DocumentLibrary {
    /// The library of the folder that a document is in.
    fileprivate init(ofDocument path: String) {
        self.init(folder: URL(fileURLWithPath: path).deletingLastPathComponent().path)
    }
}

// MARK: - Printing

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
