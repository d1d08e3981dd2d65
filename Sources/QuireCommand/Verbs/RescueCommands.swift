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
    @OptionGroup var wait: WaitOption

    func run() async throws {
        try options.unlock.unlock(path)
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
            throw Failure.invalidData(
                "“\(path)” has \(Count.of(report.after.problemCount, "problem")) that cannot be repaired."
            )
        }
    }

    private func print(_ report: StoreRepairReport) throws {
        var lines = report.actions.map { dryRun ? "Would do: \($0)" : $0 }
        if lines.isEmpty { lines.append("Nothing to repair.") }
        lines += report.after.problems.map { "Not repaired: \($0.message)" }
        if let place = report.lostAndFound { lines.append("Lost and found: \(place)") }
        if let backup = report.backup { lines.append("Backup: \(backup)") }
        try options.printResult(reportsChanges: !dryRun, levels: 2, lines) {
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

/// `quire recover DAMAGED NEW`
struct RecoverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recover",
        abstract: "Recovers objects from a damaged document, page by page, into a new one.",
        discussion: """
            The damaged document is only read. Objects on intact pages are recovered; losses are \
            listed. A package becomes a package. A bare store becomes a store, or a package if NEW \
            ends in .quire.

            Exit code 0 if everything was recovered and check finds no problem in NEW; 4 if \
            something is lost, if NEW has problems, or if nothing can be recovered. In that last \
            case, and with any other exit code, NEW is not created.

            EXAMPLES:
              quire recover Library.quire Recovered.quire
              quire recover old.sqlite new.sqlite --model Old.xcdatamodeld
            """)

    @Argument(help: ArgumentHelp("A damaged document or store.", valueName: "DAMAGED"))
    var path: String

    @Argument(help: ArgumentHelp("The document or store to create.", valueName: "NEW"))
    var newPath: String

    @Flag(help: "Read freed pages too, which may recover deleted objects.")
    var deleted = false

    @OptionGroup var options: DocumentOptions

    func run() async throws {
        try options.unlock.unlock(path)
        let model = try options.model.map(ModelSource.model)
        var recovery = StoreRecovery.Options()
        recovery.includesDeletedObjects = deleted
        let kind = try DocumentPath.kind(of: path)
        if kind == .archive { throw DocumentPath.archiveError(path) }
        let isPackage = kind == .package || newPath.hasSuffix(".quire")
        try DocumentPackage.checkOutside(newPath)
        let report = try ProgressBar.showing("Recovering \(path)", of: .fraction) { progress in
            isPackage
                ? try DocumentPackage.recover(
                    path, to: newPath, model: model, options: recovery, progress: progress)
                : try StoreRecovery.recover(
                    path, to: newPath, model: model, options: recovery, progress: progress)
        }
        for omission in report.omissions { Output.report(omission) }
        try print(report)
        if !report.problems.isEmpty {
            throw Failure.invalidData(
                "“\(newPath)” has \(Count.of(report.problems.count, "problem")).")
        }
        if !report.isComplete {
            throw Failure.invalidData("Not everything in “\(path)” could be recovered.")
        }
    }

    private func print(_ report: StoreRecoveryReport) throws {
        let origin =
            switch report.modelOrigin {
            case .given, .carried: ""
            case .inferred: ", with names from its tables"
            }
        let verdict =
            "Recovered \(Count.of(report.objectCount, "object")) from \(path) into \(newPath)\(origin)."
        try options.printResult(
            levels: 2,
            report.losses + report.problems.map { "Not repaired: \($0.message)" } + [verdict]
        ) {
            .object([
                "complete": .boolean(report.isComplete),
                "model": .string(report.modelOrigin.rawValue),
                "objects": .object(report.objects.mapValues { .integer(Int64($0)) }),
                "lostPages": .integer(Int64(report.lostPages)),
                "lostRows": .integer(Int64(report.lostRows)),
                "lostValues": .integer(Int64(report.lostValues)),
                "strayRows": .integer(Int64(report.strayRows)),
                "duplicates": .integer(Int64(report.duplicates)),
                "lostTransactions": .integer(Int64(report.lostTransactions)),
                "missingFiles": .integer(Int64(report.missingFiles)),
                "losses": .array(report.losses.map { .string($0) }),
                "problems": .array(report.problems.map(\.json)),
            ])
        }
    }
}
