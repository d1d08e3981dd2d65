import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire versions …`
struct VersionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "versions",
        abstract: "Keeps, shows, restores and removes versions of a document.",
        discussion: """
            A version takes only the space of the changes since the previous one. VERSION is an \
            identifier as listed, the beginning of one, a name, or “latest”.

            EXAMPLES:
              quire versions keep Thesis.quire --name 'as handed in'
              quire versions list Thesis.quire
              quire versions show Thesis.quire latest --to Old.quire
              quire versions diff Thesis.quire 'as handed in' latest
              quire versions restore Thesis.quire 'as handed in'
              quire versions prune Thesis.quire --dry-run
            """,
        subcommands: [
            VersionsListCommand.self, VersionsKeepCommand.self, VersionsShowCommand.self,
            VersionsDiffCommand.self, VersionsRestoreCommand.self, VersionsPruneCommand.self,
            VersionsDeleteCommand.self,
            VersionsConflictsCommand.self, VersionsResolveCommand.self,
        ])
}

/// The document of a command about versions.
struct VersionsDocument: ParsableArguments {
    @Argument(help: ArgumentHelp("A document package.", valueName: "PATH"))
    var path: String

    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions
    @OptionGroup var wait: WaitOption

    func versions() throws -> [DocumentVersion] {
        try checkKind()
        return try DocumentPackage.versions(at: path)
    }

    /// The version that an argument names.
    func version(_ text: String) throws -> DocumentVersion {
        try DocumentVersion.named(text, among: versions(), of: path)
    }

    /// Extracts a version, with a progress bar.
    func checkOut(_ version: DocumentVersion) throws -> VersionCheckout {
        try ProgressBar.showing("Reading version \(version.id)", of: .bytes) {
            try DocumentPackage.checkOut(version.id, at: path, progress: $0)
        }
    }

    /// Opens the document for writing and closes it again.
    func writing<Result>(
        _ body: (DocumentPackage) throws -> (Result, DocumentPackage)
    ) throws -> Result {
        try checkKind()
        let package = try DocumentPackage.open(at: path, waiting: wait.lockWait(for: path))
        defer { package.closeSaved() }
        let (result, last) = try body(package)
        if last !== package {
            package.closeSaved()
            last.removeReplacedContent()
            last.closeSaved()
        }
        return result
    }

    /// Also unlocks it, before anything is opened.
    private func checkKind() throws {
        try DocumentPath.requirePackage(path, "only packages have versions")
        try unlock.unlock(path)
    }
}

extension DocumentVersion {
    /// The version that a text names: by its identifier or the beginning of that, by its name, or as “latest”.
    ///
    /// - Parameters:
    ///   - versions: All versions, newest first.
    ///   - path: The document, for errors.
    /// - Throws: `QuireError` with code `notFound`, or `invalidValue` if there are several.
    static func named(
        _ text: String, among versions: [DocumentVersion], of path: String
    ) throws -> DocumentVersion {
        if let exact = versions.first(where: { $0.id == text }) { return exact }
        if text == "latest", let latest = versions.first { return latest }
        let meant = versions.filter { $0.name == text || !text.isEmpty && $0.id.hasPrefix(text) }
        switch meant.count {
        case 1: return meant[0]
        case 0:
            throw QuireError(
                .notFound, "“\(path)” has no version “\(text)”\(advice(text, among: versions))",
                file: path)
        default:
            throw QuireError(
                .invalidValue,
                "“\(text)” matches \(meant.count) versions of “\(path)”; specify the identifier of one.",
                subject: .init(file: path))
        }
    }

    /// The end of a sentence about a version that does not exist: one with a similar name, if there is one.
    static func advice(_ text: String, among versions: [DocumentVersion]) -> String {
        let close = CloseNames.of(text, among: versions.compactMap(\.name)).first
        return close.map { "; did you mean “\($0)”?" } ?? "."
    }

    /// The version as a command prints it.
    var json: JSONValue {
        var members: [String: JSONValue] = [
            "id": .string(id), "date": PrintedDate.json(date), "name": JSONValue(name),
            "reason": .string(reason.rawValue), "size": .integer(size),
            "addedSize": .integer(addedSize), "problem": JSONValue(problem),
        ]
        if reason == .conflict {
            members["resolved"] = .boolean(isResolved)
            members["origin"] = .object([
                "host": JSONValue(origin?.host), "process": JSONValue(origin?.process),
                "path": JSONValue(origin?.path),
                "date": PrintedDate.json(origin?.date),
            ])
        }
        return .object(members)
    }

    /// Why it was kept, and what there is to be said of it.
    var remark: String {
        if problem != nil { return "damaged" }
        return switch reason {
        case .requested: ""
        case .beforeChanges: "before changes"
        case .periodic: "automatic"
        case .beforeRestoring: "before restoring"
        case .beforeMigrating: "before migrating"
        case .conflict: isResolved ? "conflict, resolved" : "conflict"
        }
    }

}

/// `quire versions list PATH`
struct VersionsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Lists a document's versions, newest first.",
        discussion: "“added” is the number of bytes that keeping the version added to the document."
    )

    @OptionGroup var document: VersionsDocument
    @OptionGroup var printing: RowOptions

    func run() async throws {
        try Defaults.read(besideDocument: document.path)
        let versions = try document.versions()
        try printing.print {
            try $0.printRows(
                of: versions,
                [
                    ("version", .left), ("size", .right), ("added", .right), ("name", .left),
                    ("kept", .left),
                ],
                members: ["id", "date", "name", "reason", "size", "addedSize", "problem"],
                ifEmpty: "No versions."
            ) {
                (["\($0.id)", "\($0.size)", "\($0.addedSize)", $0.name ?? "", $0.remark], $0.json)
            }
        }
    }
}

/// `quire versions keep PATH`
struct VersionsKeepCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keep", abstract: "Keeps the current state of a document as a version.")

    @OptionGroup var document: VersionsDocument
    @OptionGroup var printing: JSONOption

    @Option(help: ArgumentHelp("Its name; versions with a name are not pruned.", valueName: "NAME"))
    var name: String?

    @Flag(help: "Keep nothing if the last version has the same content.")
    var ifChanged = false

    @Flag(help: "Keep a damaged document as it is.")
    var keepDamage = false

    func run() async throws {
        let before = try document.versions().map(\.id)
        let version = try document.writing { package in
            let version = try ProgressBar.showing(
                "Keeping a version of \(document.path)", of: .bytes
            ) {
                try package.keepVersion(
                    named: name, onlyIfNew: ifChanged, keepingDamage: keepDamage, progress: $0)
            }
            return (version, package)
        }
        let sentence =
            before.contains(version.id)
            ? "Nothing has changed since version \(version.id)."
            : "Kept version \(version.id): \(Count.of(Int(version.addedSize), "byte")) added."
        try printing.printResult(levels: 0, [sentence]) { version.json }
    }
}

/// `quire versions show PATH VERSION`
struct VersionsShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows the content of a version, or creates a document from it.",
        discussion: "The document itself may be open elsewhere.")

    @OptionGroup var document: VersionsDocument
    @OptionGroup var printing: JSONOption

    @Argument(help: ArgumentHelp("The version.", valueName: "VERSION"))
    var version: String

    @Option(help: ArgumentHelp("Create a document from it at this path.", valueName: "PATH"))
    var to: String?

    @Flag(help: "Create a document even from a damaged version.")
    var keepDamage = false

    func run() async throws {
        if let to { try DocumentPackage.checkOutside(to) }
        let version = try document.version(version)
        let checkout = try document.checkOut(version)
        defer { checkout.close() }
        try checkout.reporting { try show(version, of: checkout.path) }
    }

    private func show(_ version: DocumentVersion, of path: String) throws {
        let package = try DocumentPackage.open(at: path, readOnly: true)
        defer { try? package.close() }
        if let to {
            try ProgressBar.showing("Creating \(to)", of: .bytes) {
                try package.writeCopy(to: to, keepingDamage: keepDamage, progress: $0)
            }
        }
        var counts: [(entity: String, count: Int)] = []
        for entity in package.store.layout.model.entities where !entity.isAbstract {
            let request = FetchSpecification(only: entity.name)
            counts.append((entity.name, try package.store.count(matching: request)))
        }
        counts.sort { $0.entity < $1.entity }
        let files = try package.additionalContent()
        let name = version.name.map { " “\($0)”" } ?? ""
        let remark = version.remark.isEmpty ? "" : " (\(version.remark))"
        var lines = ["Version \(version.id)\(name)\(remark)", ""]
        let rows = counts.map { [$0.entity, "\($0.count)"] }
        lines += TextTable([("entity", .left), ("objects", .right)], rows: rows).lines
        lines += ContentFile.lines(files)
        if let to { lines += ["", "Created \(to) from the version."] }
        try printing.printResult(reportsChanges: to != nil, levels: 2, lines) {
            .object([
                "version": version.json, "path": JSONValue(to),
                "entities": .array(
                    counts.map {
                        .object(["name": .string($0.entity), "count": .integer(Int64($0.count))])
                    }),
                "additionalContent": .array(files.map(ContentFile.json)),
            ])
        }
    }
}

/// `quire versions diff PATH OLD [NEW]`
struct VersionsDiffCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diff",
        abstract: "Shows the changes between two versions, or from a version to the document.",
        discussion: """
            quire diff also compares documents with each other; its help describes the output.

            EXAMPLES:
              quire versions diff Thesis.quire 'as handed in' latest --stat
              quire versions diff Thesis.quire latest
            """)

    @OptionGroup var document: VersionsDocument

    @Argument(help: ArgumentHelp("The older version.", valueName: "OLD"))
    var old: String

    @Argument(
        help: ArgumentHelp(
            "The newer version; the current state by default.", valueName: "NEW"))
    var new: String?

    @OptionGroup var comparison: ComparisonOptions
    @OptionGroup var printing: JSONOption

    @MainActor
    func run() async throws {
        try comparison.run(json: printing.json) { comparison in
            let old = try document.version(old)
            guard let new = try new.map(document.version) else {
                let new = try ComparedState(at: document.path, document.unlock)
                defer { new.close() }
                return try extracting(old) { try comparison.compare($0, new) }
            }
            try extracting(old) { old in
                try extracting(new) { try comparison.compare(old, $0) }
            }
        }
    }

    @MainActor
    private func extracting(
        _ version: DocumentVersion, _ body: (ComparedState) throws -> Void
    ) throws {
        try ComparedState.withVersion(
            version, in: document.checkOut(version), ofDocumentAt: document.path, body)
    }
}

/// `quire versions restore PATH VERSION`
struct VersionsRestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Restores a version of a document.",
        discussion: """
            The current state is kept as a version first, unless a version has the same content. A \
            version with an older model is migrated; to see it unchanged, use show --to.
            """)

    @OptionGroup var document: VersionsDocument
    @OptionGroup var printing: JSONOption

    @Argument(help: ArgumentHelp("The version.", valueName: "VERSION"))
    var version: String

    @Flag(help: "Migrate it even if that removes data that the document's model has no place for.")
    var allowRemoval = false

    func run() async throws {
        let version = try document.version(version)
        var migration = StoreMigrationOptions()
        migration.allowsRemoval = allowRemoval
        try document.writing { package in
            try ProgressBar.showing("Restoring \(document.path)", of: .fraction) {
                (
                    (),
                    try package.replaceContent(
                        withVersion: version.id, migrating: migration, progress: $0)
                )
            }
        }
        try printing.printResult(
            levels: 0, ["Restored version \(version.id) of \(document.path)."]
        ) { .object(["restored": .string(version.id)]) }
    }
}
