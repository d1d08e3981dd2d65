import ArgumentParser
import Quire
import QuireDocuments
import QuireRescue

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
    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions

    func run() async throws {
        try unlock.unlock(path)
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
            throw Failure(
                sentence: "“\(newPath)” has \(Count.of(report.problems.count, "problem")).",
                status: .invalidData)
        }
        if !report.isComplete {
            throw Failure(
                sentence: "Not everything in “\(path)” could be recovered.", status: .invalidData)
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
        try Output.printResult(
            json: options.json, reportsChanges: true, levels: 2,
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
