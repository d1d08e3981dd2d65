import Quire

/// How a document is to be opened.
struct Opening: Sendable, Equatable {
    /// The model, if it shall not be the one that the package carries; that of a new package.
    var model: ManagedObjectModel?
    /// Whether for reading only.
    var isReadOnly = false
    /// Whether the package is to be made.
    var creates = false

    /// Opens or makes a package and reads what a document needs at once. Not on the main queue.
    func load(
        path: String, options: SQLiteStoreOptions, migrating migration: StoreMigrationOptions?
    ) throws -> LoadedPackage {
        let package: DocumentPackage
        if creates, let model {
            package = try DocumentPackage.create(at: path, model: model, options: options)
        } else {
            package = try DocumentPackage.open(
                at: path, model: model, readOnly: isReadOnly, options: options, migrating: migration
            )
        }
        do {
            return try LoadedPackage(package)
        } catch {
            try? package.close()
            throw error
        }
    }
}

/// An open package with what a document knows of it.
struct LoadedPackage: Sendable {
    var package: DocumentPackage
    var generation: Int?
    var names: AdditionalContentNames
    var draft: Draft

    init(_ package: DocumentPackage) throws {
        self.package = package
        generation = try package.liveGeneration()
        draft = Draft(in: package)
        do {
            names = AdditionalContentNames(try package.content.files(in: generation).map(\.path))
        } catch let error as QuireError where error.code == .notFound {
            // The rows are still there to be read; reading the files will say that they are missing.
            names = AdditionalContentNames([])
        }
    }
}
