import ArgumentParser
import Quire
import QuireDocuments

/// `quire status PATH`
struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Shows who has a document open, and its state.",
        discussion: """
            The document is only read, and open programs are not disturbed. Processes that have it \
            open read-only are not listed, because they leave no trace. No key is needed; for a \
            protected document only information that is readable without one is shown.

            EXAMPLES:
              quire status Library.quire
              quire status Library.quire --json
            """)

    @Argument(help: ArgumentHelp("A document package.", valueName: "PATH"))
    var path: String

    @OptionGroup var printing: JSONOption

    func run() async throws {
        let status = try await Self.status(at: path)
        try printing.printResult(reportsChanges: false, Self.lines(status)) {
            Self.json(status, path: path)
        }
    }

    /// Waits for the disk, and perhaps for another process, on no queue that others need.
    @concurrent
    private static func status(at path: String) async throws -> PackageStatus {
        let kind = try DocumentPath.kind(of: path)
        if kind == .archive { throw DocumentPath.archiveError(path) }
        guard kind == .package else {
            throw QuireError(
                .invalidFormat,
                "“\(path)” is not a document package; only packages have a status.", file: path)
        }
        return try DocumentPackage.status(at: path)
    }

    private static func lines(_ status: PackageStatus) -> [String] {
        var lines: [String] = []
        if let owner = status.owner {
            lines.append("Open for writing by \(OwnerListing.text(owner)).")
            switch status.ownerHasUnsavedChanges {
            case true?: lines.append("That process has unsaved changes.")
            case false?: lines.append("That process has no unsaved changes.")
            case nil: break
            }
        } else {
            lines.append("Not open for writing.")
        }
        if let date = status.lastSaved { lines.append("Last saved \(PrintedDate.text(date)).") }
        if status.fileProtection != .none {
            let state = status.isLocked ? " and locked" : ""
            lines.append("Protected (\(status.fileProtection.rawValue))\(state).")
        }
        if status.hasDraft == true {
            lines.append("It contains a draft of changes that could not be saved.")
        }
        if let generation = status.generation {
            lines.append("Generation \(generation) of the additional content.")
        }
        if status.versionCount > 0 {
            lines.append("\(Count.of(status.versionCount, "version")) kept.")
        }
        if let leftovers = status.leftovers, !leftovers.isEmpty {
            let files = Count.of(leftovers.count, "file")
            lines.append(
                status.owner == nil
                    ? "\(files) left by interrupted saves; opening the document removes them."
                    : "\(files) being written or no longer needed.")
        }
        return lines
    }

    private static func json(_ status: PackageStatus, path: String) -> JSONValue {
        .object([
            "path": .string(path), "open": OwnerListing.json(status.owner),
            "unsavedChanges": status.ownerHasUnsavedChanges.map { .boolean($0) } ?? .null,
            "draft": status.hasDraft.map { .boolean($0) } ?? .null,
            "protection": ProtectionListing.json(status.fileProtection, isLocked: status.isLocked),
            "lastSaved": PrintedDate.json(status.lastSaved),
            "generation": status.generation.map { .integer(Int64($0)) } ?? .null,
            "versions": .integer(Int64(status.versionCount)),
            "leftovers": status.leftovers.map { .array($0.map { .string($0) }) } ?? .null,
        ])
    }
}
