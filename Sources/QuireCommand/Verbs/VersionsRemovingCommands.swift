import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire versions delete PATH VERSION …`
struct VersionsDeleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete", abstract: "Deletes versions.")

    @OptionGroup var document: VersionsDocument
    @OptionGroup var printing: JSONOption

    @Argument(help: ArgumentHelp("The versions.", valueName: "VERSION"))
    var versions: [String]

    func run() async throws {
        let meant = try versions.map { try document.version($0).id }
        try document.writing { package in
            for id in meant { try package.deleteVersion(id) }
            return ((), package)
        }
        try Self.report(meant, printing)
    }

    static func report(_ ids: [String], _ printing: JSONOption, would: Bool = false) throws {
        try printing.printResult(
            reportsChanges: !would, levels: 2,
            ids.isEmpty
                ? ["No versions to remove."]
                : ids.map { "\(would ? "Would remove" : "Removed") version \($0)." }
        ) { .object(["removed": .array(ids.map { .string($0) })]) }
    }
}

/// `quire versions prune PATH`
struct VersionsPruneCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prune", abstract: "Removes old versions.",
        discussion: """
            Keeps all versions of the last day, one per day for a month, and one per week before \
            that. Versions with a name, damaged versions and unresolved conflicts are always kept.
            """)

    @OptionGroup var document: VersionsDocument
    @OptionGroup var printing: JSONOption

    @Option(help: ArgumentHelp("Keep at most N versions.", valueName: "N"))
    var count: Int?

    @Option(
        help: ArgumentHelp("Keep versions with at most N added bytes in total.", valueName: "N"))
    var bytes: Int64?

    @Flag(help: "Also prune versions with a name.")
    var named = false

    @Flag(help: "Print the versions that would be removed, without removing them.")
    var dryRun = false

    func validate() throws {
        if (count ?? 0) < 0 || (bytes ?? 0) < 0 {
            throw ValidationError("--count and --bytes must be at least 0.")
        }
    }

    func run() async throws {
        var retention = VersionRetention()
        retention.maximumCount = count
        retention.maximumSize = bytes
        retention.keepsNamed = !named
        let old: [DocumentVersion]
        if dryRun {
            old = retention.versionsToPrune(try document.versions())
        } else {
            old = try document.writing { (try $0.pruneVersions(retention), $0) }
        }
        try VersionsDeleteCommand.report(old.map(\.id), printing, would: dryRun)
    }
}

/// `quire versions conflicts PATH`
struct VersionsConflictsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts",
        abstract:
            "Finds conflict copies that a synchronization tool left beside a document.",
        discussion: """
            A conflict copy is a package beside the document that is the same document, and has a \
            name like “Name (conflicted copy …)”, “Name.sync-conflict-…” or “Name (1)”.
            """)

    @OptionGroup var document: VersionsDocument
    @OptionGroup var printing: JSONOption

    @Flag(help: "Add them to the document as versions to resolve, and remove the copies.")
    var adopt = false

    func run() async throws {
        _ = try document.versions()
        let copies = try DocumentPackage.conflictingCopies(ofPackageAt: document.path)
        let adopted =
            adopt && !copies.isEmpty
            ? try document.writing { package in
                (try copies.map { try package.adopt($0).id }, package)
            } : []
        let lines = copies.enumerated().map { index, copy in
            let name = URL(fileURLWithPath: copy.path).lastPathComponent
            return adopt ? "\(name) is now version \(adopted[index])." : name
        }
        try printing.printResult(
            reportsChanges: adopt, levels: 2, lines.isEmpty ? ["No conflict copies."] : lines
        ) {
            .object([
                "copies": .array(copies.map { .string($0.path) }),
                "adopted": .array(adopted.map { .string($0) }),
            ])
        }
    }
}

/// `quire versions resolve PATH VERSION --keep SIDE`
struct VersionsResolveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resolve", abstract: "Resolves a conflict between the document and a version.",
        discussion: "The other side is kept as a version.")

    enum Side: String, ExpressibleByArgument, CaseIterable { case document, version }

    @OptionGroup var document: VersionsDocument
    @OptionGroup var printing: JSONOption

    @Argument(help: ArgumentHelp("The version.", valueName: "VERSION"))
    var version: String

    @Option(help: ArgumentHelp("The side to keep as the document.", valueName: "SIDE"))
    var keep: Side

    @Flag(help: "Migrate it even if that removes data that the document's model has no place for.")
    var allowRemoval = false

    func run() async throws {
        let version = try document.version(version)
        var migration = StoreMigrationOptions()
        migration.allowsRemoval = allowRemoval
        let side: ConflictSide = keep == .document ? .current : .other
        try document.writing {
            ((), try $0.resolveConflict(version.id, keeping: side, migrating: migration))
        }
        try printing.printResult(
            levels: 0, ["Resolved \(version.id): \(document.path) keeps the \(keep)."]
        ) { .object(["resolved": .string(version.id)]) }
    }
}
