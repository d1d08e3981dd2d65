import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire new PATH …`
struct NewCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "new",
        abstract: "Creates a document.",
        discussion: """
            A path that ends in .sqlite, .xml or .binary creates a single-file document, any other a package.

            With --from, the model is inferred from the data, and printed: the types of columns from all \
            their values, a unique id as a constraint, objects in JSON objects as related objects, and the \
            foreign keys of a SQLite database as relationships. On a terminal you are asked before the document \
            is created. A store or another document keeps its own model. Either everything is imported, or no \
            document is created.

            EXAMPLES:
              quire new Library.quire --template Library
              quire new Recipes.quire --model Recipes.quiremodel
              quire new Diary.quire --template Notes --class complete --recovery-key
              quire new Books.quire --from books.csv --dry-run
              quire new Music.quire --from chinook.sqlite
              quire new Notes.quire --from Notes.sqlite
              quire new Recipes.sqlite --model Recipes.xcdatamodeld
            """)

    @Argument(
        help: ArgumentHelp(
            "The document to create; the name of a package ends in .quire.", valueName: "PATH"))
    var path: String

    @Option(help: ArgumentHelp("A template's name, or its folder.", valueName: "T"))
    var template: String?

    @Option(
        help: ArgumentHelp(
            "The model of an empty document, or of the data of --from.", valueName: "M.xcdatamodeld"
        ))
    var model: String?

    @OptionGroup var source: NewFromSource

    @Option(
        name: .customLong("class"),
        help: ArgumentHelp(
            "Protect the document from the start, with this class.", valueName: "CLASS"))
    var protection = FileProtection.none

    @OptionGroup(title: HelpText.keys) var keys: NewKeyOptions

    @OptionGroup var printing: JSONOption

    /// The type of a document of one file.
    private var fileType: ConvertCommand.FileType? {
        path.split(separator: ".").last.flatMap { .init(rawValue: $0.lowercased()) }
    }

    func validate() throws {
        if source.from != nil {
            if template != nil { throw ValidationError("Specify --template or --from, not both.") }
        } else if (template == nil) == (model == nil) {
            throw ValidationError("Specify one of --template, --model and --from.")
        }
        if protection == .none, keys.isGiven {
            throw ValidationError("Specify the class of protection with --class.")
        }
        if protection != .none, fileType != nil {
            throw ValidationError(
                "--class requires a package; protect a single-file document with “quire protect”.")
        }
    }

    @MainActor
    func run() async throws {
        if FileSystem.exists(path) { throw FileSystem.failure("create", path, errno: EEXIST) }
        if let from = source.from { return try await make(from: from) }
        let template = try template.map { try DocumentTemplate.named($0) }
        let origin = template.map { "the template \($0.name)" } ?? "the model \(model ?? "")"
        if fileType != nil {
            let model = try template?.model() ?? ModelSource.model(at: model ?? "")
            try create(model) { store in
                guard let template else { return }
                let context = ManagedObjectContext.mainQueue(
                    coordinator: PersistentStoreCoordinator(store: store))
                try template.insertSeed(into: context)
                try context.save()
            }
            if try template?.additionalContent().isEmpty == false {
                Output.report(
                    "The additional content of the template was omitted, because a single-file document cannot contain any."
                )
            }
            return try await report(origin)
        }
        let document = ManagedDocument(path: path)
        var words: String?
        if protection != .none {
            let options: SQLiteStoreOptions
            (options, words) = try protect()
            (document.protectionDomain, document.fileProtection) =
                (options.protectionDomain, protection)
            document.persistentStoreOptions.protectionSlots = options.protectionSlots
        }
        if let template {
            try await document.create(from: template)
        } else {
            try await document.create(model: ModelSource.model(at: model ?? ""))
        }
        if let domain = document.protectionDomain { UnlockOptions.hold(domain) }
        try await document.close()
        try await report(origin, words: words)
    }

    // MARK: - Of data

    @MainActor
    private func make(from path: String) async throws {
        switch try source.source(path, modelPath: model) {
        case .store(let file, let model):
            if source.dryRun {
                let store = try file.open(model: model)
                defer { store.closeSaved() }
                return try show(store.layout.model, notes: [])
            }
            try reportOmissions(ofDocument: path)
            try ConvertCommand.converting(file, at: path) { try convert(file, model, $0) }
            try await report(path)
        case .rows(let rows, let isInferred):
            if !printing.json { for note in rows.notes { Output.report(note) } }
            _ = try rows.model.layout()
            if source.dryRun { return try show(rows.model, notes: rows.notes) }
            if isInferred, !printing.json { try show(rows.model, notes: []) }
            if isInferred, !source.yes, Confirmation.isPossible,
                !Confirmation.ask("Create \(self.path) with this model?", default: true)
            {
                return
            }
            let words = try create(rows.model) { try rows.fill($0, path: self.path) }
            try await report(path, words: words, isInferred ? rows : nil)
        }
    }

    private func show(_ model: ManagedObjectModel, notes: [String]) throws {
        let output = Output(json: printing.json)
        if printing.json {
            try output.print(
                .object([
                    "model": .string(model.modelText()),
                    "notes": .array(notes.map { .string($0) }),
                ]), levels: 2)
        } else {
            try output.print(raw: model.modelText())
            if !source.dryRun { try output.print("") }
        }
        try output.flush()
    }

    // MARK: - Making

    /// Makes the document, which a closure fills.
    ///
    /// - Returns: The words of a new recovery key.
    @MainActor @discardableResult
    private func create(
        _ model: ManagedObjectModel, filling body: (any PersistentStore) throws -> Void
    ) throws -> String? {
        if let fileType {
            try StoreFile.create(
                at: path, type: fileType.storeType, model: model, filling: body)
            return nil
        }
        let (options, words) = try protect()
        let package = try DocumentPackage.create(at: path, model: model, options: options) {
            try body($0)
        }
        if let domain = package.store.protection?.domain { UnlockOptions.hold(domain) }
        try package.close()
        return words
    }

    /// Reports what a document has beside its store.
    private func reportOmissions(ofDocument path: String) throws {
        guard try DocumentPath.kind(of: path) == .package else { return }
        let package = try DocumentPackage.open(at: path, readOnly: true)
        defer { package.closeSaved() }
        if try !package.additionalContent().isEmpty || !package.versions().isEmpty {
            Output.report(
                "Only the objects of “\(path)” are copied, without its additional content and versions; “quire save-as” copies the additional content too."
            )
        }
    }

    /// Makes the document of a store.
    private func convert(
        _ file: StoreFile, _ model: ManagedObjectModel?, _ progress: @escaping (Progress) -> Void
    ) throws {
        if protection != .none {
            throw Failure.usage(
                "A document created from a store keeps the protection of the store; change it afterwards with “quire protect”."
            )
        }
        if let fileType {
            try DocumentPackage.checkOutside(path)
            try file.convert(
                to: path, type: fileType.storeType, model: model, progress: progress)
        } else {
            try DocumentPackage.create(at: path, from: file, model: model, progress: progress)
        }
    }

    /// The protection of a new document, and the words of a new recovery key, which are printed here unless the output is JSON.
    private func protect() throws -> (options: SQLiteStoreOptions, words: String?) {
        var options = SQLiteStoreOptions()
        if protection == .none { return (options, nil) }
        options.fileProtection = protection
        options.protectionDomain = try keys.unlock.person()
        let (slots, words) = try keys.slots()
        options.protectionSlots = slots
        if let words, !printing.json { try ProtectionListing.printWords(words) }
        return (options, words)
    }

    // MARK: - Reporting

    @MainActor
    private func report(
        _ origin: String, words: String? = nil, _ rows: InferredImport? = nil
    ) async throws {
        let made = try await DocumentSession.open(path, modelPath: nil, access: .read)
        let info = try await DocumentInfo(of: made)
        try await made.close()
        let objects = info.entities.reduce(0) { $0 + $1.count }
        // A key that could not be printed is not passed over.
        try printing.printResult(
            reportsChanges: words == nil, levels: 2,
            [
                "Created \(path) from \(origin): "
                    + "\(Count.of(info.entities.count, "entity", "entities")), "
                    + "\(Count.of(objects, "object"))."
            ]
        ) {
            var members = info.members
            if let words { members["recoveryKey"] = .string(words) }
            if let rows {
                members["model"] = .string(rows.model.modelText())
                members["notes"] = .array(rows.notes.map { .string($0) })
            }
            return .object(members)
        }
    }
}
