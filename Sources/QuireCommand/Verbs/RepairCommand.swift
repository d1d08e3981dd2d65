import ArgumentParser
import Quire
import QuireDocuments
import QuireRescue

/// `quire repair PATH`
struct RepairCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "repair",
        abstract: "Repairs problems that have only one possible solution.",
        discussion: """
            Repairs a copy, which replaces the document only if a check finds fewer problems. The \
            old document is kept beside it, with before-repair in its name. No process may have it \
            open. The exit code is that of a check of the result, also with --dry-run: 0 if there \
            are no problems, 4 if some cannot be repaired.

            EXAMPLES:
              quire repair Library.quire --dry-run
              quire repair Library.quire
            """)

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @Flag(help: "Print the repairs without making them.")
    var dryRun = false

    @Flag(help: "Do not keep the old document.")
    var noBackup = false

    @OptionGroup var options: DocumentOptions
    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions
    @OptionGroup var wait: WaitOption

    func run() async throws {
        try unlock.unlock(path)
        let model = try options.model.map(ModelSource.model)
        var repair = StoreRepair.Options()
        repair.isDryRun = dryRun
        repair.keepsBackup = !noBackup
        if !dryRun { repair.lockWait = wait.fileLockWait(for: path) }
        let report: StoreRepairReport
        switch try DocumentPath.kind(of: path) {
        case .package:
            report = try DocumentPackage.repair(
                at: path, model: model, options: repair, waiting: wait.lockWait(for: path))
        case .store: report = try StoreRepair.repair(path, model: model, options: repair)
        case .archive: throw DocumentPath.archiveError(path)
        }
        try print(report)
        if !report.after.isWhole {
            throw Failure(
                sentence:
                    "“\(path)” has \(Count.of(report.after.problemCount, "problem")) that cannot be repaired.",
                status: .invalidData)
        }
    }

    private func print(_ report: StoreRepairReport) throws {
        var lines = report.actions.map { dryRun ? "Would do: \($0)" : $0 }
        if lines.isEmpty { lines.append("Nothing to repair.") }
        lines += report.after.problems.map { "Not repaired: \($0.message)" }
        if let place = report.lostAndFound { lines.append("Lost and found: \(place)") }
        if let backup = report.backup { lines.append("Backup: \(backup)") }
        try Output.printResult(json: options.json, reportsChanges: !dryRun, levels: 2, lines) {
            .object([
                "dryRun": .boolean(dryRun),
                "actions": .array(report.actions.map { .string($0) }),
                "problems": .array(report.after.problems.map(\.json)),
                "backup": JSONValue(report.backup),
                "lostAndFound": JSONValue(report.lostAndFound),
            ])
        }
    }
}
