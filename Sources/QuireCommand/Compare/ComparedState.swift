import ArgumentParser
import Quire
import QuireDocuments
import QuireSync

/// The options of the verbs that compare two states of a document.
struct ComparisonOptions: ParsableArguments {
    @Flag(help: "Print only the numbers of changes.")
    var stat = false

    @Option(
        help: ArgumentHelp(
            "Compare only objects of this entity and its sub-entities.", valueName: "ENTITY"))
    var entity: String?

    @Flag(help: "Exit as diff does: 0 without differences, 1 with differences, 2 on failure.")
    var exitCode = false

    @OptionGroup var color: ColorOption

    /// Prints what a body compares, and ends as the options ask for.
    @MainActor
    func run(json: Bool, _ body: (inout StateComparison) throws -> Void) throws {
        let pager = Pager()
        defer { pager?.finish() }
        var comparison = StateComparison(self, Output(json ? .json : .table, pager: pager))
        do {
            try body(&comparison)
            try comparison.finish()
        } catch is OutputClosed {
            throw OutputClosed()
        } catch {
            guard exitCode else { throw error }
            throw Failure.usage(Failure(error, of: QuireCommand.self).sentence)
        }
        // As diff has it, which is not the failure that this code otherwise means.
        if exitCode && comparison.differs { throw Failure(sentence: "", status: .failed) }
    }
}

/// One of the two states of a document that are compared.
struct ComparedState {
    let store: any PersistentStore
    let package: DocumentPackage?
    /// The name in the output.
    let title: String

    private init(_ store: any PersistentStore, _ package: DocumentPackage?, title: String) {
        (self.store, self.package, self.title) = (store, package, title)
    }

    /// Opens a document, a store or an archive.
    ///
    /// - Throws: `QuireError` with code `notFound`, `invalidFormat`, `locked`, …
    @MainActor
    init(at path: String, model modelPath: String? = nil, _ unlock: UnlockOptions) throws {
        let model = try modelPath.map(ModelSource.model)
        try unlock.unlock(path)
        switch try DocumentPath.kind(of: path) {
        case .package:
            var options = SQLiteStoreOptions()
            options.infersModel = true
            let package = try DocumentPackage.open(
                at: path, model: model, readOnly: true, options: options)
            self.init(package.store, package, title: path)
        case .store:
            let store = try StoreFile(at: path).open(model: model, isReadOnly: true)
            self.init(store, nil, title: path)
        case .archive:
            let package = try unlock.open(archive: path, model: model)
            self.init(package.store, package, title: path)
        }
        if let note = DocumentSession.modelNote(of: store, at: path) { Output.report(note) }
    }

    /// Runs a body with an extracted version of a document, and closes it.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` if the version is damaged, …, or what the body throws.
    @MainActor
    static func withVersion(
        _ version: DocumentVersion, in checkout: VersionCheckout, ofDocumentAt path: String,
        _ body: (ComparedState) throws -> Void
    ) throws {
        defer { checkout.close() }
        try checkout.reporting {
            let package = try DocumentPackage.open(at: checkout.path, readOnly: true)
            let name = version.name.map { " “\($0)”" } ?? ""
            let state = ComparedState(
                package.store, package, title: "\(path), version \(version.id)\(name)")
            defer { state.close() }
            try body(state)
        }
    }

    func close() {
        if let package { package.closeSaved() } else { store.closeSaved() }
    }
}

/// Prints the differences between two states of a document.
@MainActor
struct StateComparison {
    private let options: ComparisonOptions
    private let unreadable = UnreadableValues()
    private var listing: DifferenceListing

    fileprivate init(_ options: ComparisonOptions, _ output: Output) {
        self.options = options
        listing = DifferenceListing(
            output: output, isStatistic: options.stat, isFiltered: options.entity != nil)
    }

    /// Whether there was any difference.
    var differs: Bool { listing.differs }

    /// Prints the differences between two states.
    mutating func compare(_ old: ComparedState, _ new: ComparedState) throws {
        let comparison = StoreComparison(
            old: old.store, new: new.store,
            model: try ComparedModel(old.store.layout, new.store.layout, only: options.entity),
            includesProperties: !options.stat, unreadable: unreadable,
            commonObjects: try SyncContainer.commonObjects(old.store, new.store))
        let unmatched = try comparison.model.unmatched.map { unmatched in
            (
                unmatched,
                count: unmatched.property == nil ? try comparison.count(unmatched) : nil
            )
        }
        let files =
            options.entity == nil ? try ContentDifference.all(old.package, new.package) : []
        try listing.print(
            old: old.title, new: new.title, unmatched: unmatched, files: files,
            comparison.forEachDifference)
    }

    /// Prints what the history of a state knows since a transaction.
    mutating func compare(_ new: ComparedState, sinceTransaction number: Int64) throws {
        let comparison = HistoryComparison(
            store: new.store, number: number, entity: options.entity, unreadable: unreadable)
        try listing.print(
            old: "\(new.title), transaction \(number)", new: new.title, unmatched: [], files: [],
            comparison.forEachDifference)
    }

    /// Writes everything out.
    ///
    /// - Throws: `Failure` if values could not be read.
    fileprivate func finish() throws {
        try listing.output.flush()
        try unreadable.check()
    }
}
