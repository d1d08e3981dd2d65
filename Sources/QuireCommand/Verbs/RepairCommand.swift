import ArgumentParser
import Quire
import QuireDocuments
import QuireRescue

/// `quire repair PATH`
struct RepairCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "repair",
        abstract: "Mends what check finds, where nothing has to be guessed.",
        discussion: """
            It works on a copy, which takes the document's place only if a check finds it better. The document as \
            it was stays beside it, with before-repair in its name. Nobody may have it open. The exit code is \
            what check says of the result, with --dry-run of what would be the result: 0 if nothing is wrong, 4 \
            if something is left that cannot be mended.

            EXAMPLES:
              quire repair Library.quire --dry-run
              quire repair Library.quire
            """)

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @Flag(help: "Say what would be done, and do nothing.")
    var dryRun = false

    @Flag(help: "Do not keep the document as it was.")
    var noBackup = false

    @OptionGroup var options: DocumentOptions
    @OptionGroup var unlock: UnlockOptions
    @OptionGroup var wait: WaitOption

    func run() async throws {
        let output = Output(json: options.json, reportsChanges: !dryRun)
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
        try print(report, output)
        try output.flush()
        if !report.after.isWhole {
            throw Failure(
                sentence:
                    "\(Count.of(report.after.problemCount, "problem")) of “\(path)” cannot be mended.",
                status: .invalidData)
        }
    }

    private func print(_ report: StoreRepairReport, _ output: Output) throws {
        if output.json {
            try output.print(
                .object([
                    "dryRun": .boolean(dryRun),
                    "actions": .array(report.actions.map { .string($0) }),
                    "problems": .array(report.after.problems.map(\.json)),
                    "backup": JSONValue(report.backup),
                    "lostAndFound": JSONValue(report.lostAndFound),
                ]), levels: 2)
            return
        }
        for action in report.actions { try output.print(dryRun ? "Would do: \(action)" : action) }
        if report.actions.isEmpty { try output.print("There is nothing to mend.") }
        for problem in report.after.problems { try output.print("Not mended: \(problem.message)") }
        if let place = report.lostAndFound { try output.print("Lost and found: \(place)") }
        if let backup = report.backup { try output.print("As it was: \(backup)") }
    }
}
