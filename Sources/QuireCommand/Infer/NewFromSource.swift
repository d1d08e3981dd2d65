import ArgumentParser
import Foundation
import Quire

/// The options of `quire new` for a document of data that exist: `--from` and what belongs to it.
struct NewFromSource: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Create the document from a CSV, TSV, JSON or JSON lines file, a SQLite database, a store or a document.",
            valueName: "SOURCE"),
        completion: .file())
    var from: String?

    @Option(help: ArgumentHelp("The entity of the rows of a file.", valueName: "NAME"))
    var entity: String?

    @OptionGroup var reading: RowFileOptions

    @Flag(name: .shortAndLong, help: "Do not ask for confirmation of the model.")
    var yes = false

    @Flag(help: "Print the model, without creating the document.")
    var dryRun = false

    func validate() throws {
        guard let from else {
            if entity == nil, !reading.isGiven, !yes, !dryRun { return }
            throw ValidationError(
                "--entity, --format, --delimiter, --encoding, --yes and --dry-run require --from.")
        }
        try reading.validateDelimiter(for: from)
    }

    /// Data for a new document.
    enum Source {
        /// Objects of a store.
        case store(StoreFile, ManagedObjectModel?)
        /// Rows, with the model for them.
        case rows(InferredImport, isInferred: Bool)
    }

    /// Finds out what the source is, and infers a model if it has none.
    ///
    /// - Parameter modelPath: The model to use.
    /// - Throws: `QuireError` with code `notFound`, `invalidFormat`, `unsupported`, …
    func source(_ path: String, modelPath: String?) throws -> Source {
        let model = try modelPath.map(ModelSource.model)
        if let format = reading.format(of: path) {
            let file = try reading.open(path)
            if let model { return .rows(try rows(of: file, format, model), isInferred: false) }
            let inferred = try ProgressBar.showing("Reading \(path)", of: .rows) {
                try RecordInference.infer(
                    from: file, format, delimiter: reading.delimiterByte,
                    entity: entity, progress: $0)
            }
            return .rows(inferred, isInferred: true)
        }
        if path == "-" {
            throw Failure.usage("Specify the format of standard input with --format.")
        }
        if try DocumentPath.kind(of: path) == .store, DatabaseTables.isDatabase(path),
            try !DatabaseTables.isStore(path)
        {
            if model != nil {
                throw Failure.usage(
                    "--model cannot be combined with a database of tables. Create the document with --model only, and import each table of “\(path)” with “quire import --table”."
                )
            }
            return .rows(try DatabaseInference.infer(from: path), isInferred: true)
        }
        return .store(try ConvertCommand.store(at: path), model)
    }

    /// The rows of a file for a given model.
    private func rows(
        of file: RereadableFile, _ format: ImportRows.Format, _ model: ManagedObjectModel
    ) throws -> InferredImport {
        let layout = try model.layout()
        let concrete = layout.entities.filter { !$0.isAbstract }.map(\.name)
        let named = InferredNames.entity(ModelSource.versionName(of: file.path))
        let found =
            try entity.map { try layout.requireConcreteEntity(named: $0).name }
            ?? (concrete.contains(named) ? named : concrete.count == 1 ? concrete[0] : nil)
        guard let found else {
            throw Failure.usage(
                "Specify the entity of the rows with --entity: \(concrete.joined(separator: ", "))."
            )
        }
        var result = InferredImport(model: model)
        result.passes = [
            InferredImport.Pass(
                entity: found,
                source: .file(file, format, delimiter: reading.delimiterByte))
        ]
        return result
    }
}

extension InferredImport {
    /// Imports the rows into a new store.
    @MainActor
    func fill(_ store: any PersistentStore, path: String) throws {
        for pass in passes {
            let document = DocumentSession(filling: store, path: path)
            let rows = try rows(of: pass, in: document.layout)
            let matching = pass.key.map {
                var matching = ImportMatching(keys: [$0], conflict: .update)
                matching.insertsOthers = false
                return matching
            }
            try ProgressBar.showing("Importing \(rows.path)", of: .rows) {
                _ = try ObjectImport(
                    document: document, matching: matching, makesRelated: pass.makesRelated,
                    progress: $0
                ).run(rows)
            }
            try document.context.save()
        }
    }
}

/// A model for data without one, and the way to import the data.
struct InferredImport {
    /// Rows to import, after those before.
    struct Pass {
        var entity: String
        var source: ImportRows.Source
        /// The properties of columns, by entity and column.
        var mappings: [String: [String: String]] = [:]
        /// The columns that are not imported, by entity.
        var ignored: [String: Set<String>] = [:]
        /// The attributes that find the objects that the rows complete; `nil` if each row makes an object.
        var key: String?

        /// Whether objects that rows refer to, and that do not exist, are made: those of foreign keys have rows.
        var makesRelated: Bool { if case .file = source { true } else { false } }
    }

    var model = ManagedObjectModel()
    var passes: [Pass] = []
    /// Sentences about what the model does not have as the data have it.
    var notes: [String] = []

    /// The greatest numbers of entities and of columns of one.
    static let (maximumEntityCount, maximumColumnCount) = (1000, 1900)

    /// The rows of a pass, for a document with the model.
    func rows(of pass: Pass, in layout: ResolvedModel) throws -> ImportRows {
        var rows = ImportRows(
            source: pass.source, entity: try layout.requireEntity(named: pass.entity),
            layout: layout)
        rows.mappings = pass.mappings
        rows.ignored = pass.ignored
        rows.readsNumbersAsTexts = true
        return rows
    }
}
