import Foundation
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
    ///
    /// - Parameter predecessor: The open package, if only its store has been replaced.
    func load(
        path: String, options: SQLiteStoreOptions, migrating migration: StoreMigrationOptions?,
        waiting: LockWait? = nil,
        succeeding predecessor: DocumentPackage? = nil, reading: ContentReader,
        configuring: (PersistentStoreCoordinator) throws -> Void
    ) throws -> LoadedPackage {
        let package: DocumentPackage
        if let predecessor {
            package = try predecessor.succeedingByStoreInPlace(model: model, migrating: migration)
        } else if creates {
            guard let model else {
                throw QuireError(
                    .invalidModel,
                    "“\(path)” cannot be made without a model; give one, or override managedObjectModel.",
                    subject: .init(file: path))
            }
            package = try DocumentPackage.create(at: path, model: model, options: options)
        } else {
            package = try DocumentPackage.open(
                at: path, model: model, readOnly: isReadOnly, options: options,
                migrating: migration, waiting: waiting)
        }
        let coordinator = PersistentStoreCoordinator(store: package.store)
        do {
            try configuring(coordinator)
            return LoadedPackage(
                package: package, coordinator: coordinator,
                content: try LoadedContent(package, reading: reading))
        } catch {
            if let predecessor {
                predecessor.resume(insteadOf: package)
            } else {
                // Nobody else has opened it, because the lock is given up by closing.
                if creates { DocumentPackage.takeBack(package.layout.path) }
                try? package.close()
            }
            try? coordinator.close()
            throw error
        }
    }
}

/// Reads additional content in a subclass's own way, from a folder.
typealias ContentReader = @Sendable (String) throws -> (any Sendable)?

/// An open package with what a document knows of it.
struct LoadedPackage: Sendable {
    var package: DocumentPackage
    var coordinator: PersistentStoreCoordinator
    var content: LoadedContent
    var draft: Draft
    /// When it was saved last.
    var modificationDate: Date?

    init(
        package: DocumentPackage, coordinator: PersistentStoreCoordinator, content: LoadedContent
    ) {
        self.package = package
        self.coordinator = coordinator
        self.content = content
        draft = Draft(in: package)
        modificationDate = package.modificationDate
    }
}

/// What a document knows of its package's additional content.
struct LoadedContent: Sendable {
    var generation: Int?
    var names: AdditionalContentNames
    /// What a subclass has read.
    var contents: (any Sendable)?

    init(_ package: DocumentPackage, reading: ContentReader) throws {
        generation = try package.liveGeneration()
        do {
            names = AdditionalContentNames(try package.content.files(in: generation).map(\.path))
            contents = try generation.flatMap {
                try reading(package.layout.additionalContent(generation: $0))
            }
        } catch let error as QuireError where error.code == .notFound {
            // The rows are still there to be read; reading the files will say that they are missing.
            names = AdditionalContentNames([])
        }
    }
}
