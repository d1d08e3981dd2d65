public import Foundation
public import QuireModel
public import QuireStore
internal import QuireSystem

/// A store that has no file: what it holds goes with it.
///
/// ```swift
/// let container = PersistentContainer(store: try InMemoryStore(model: model))
/// ```
///
/// Finding objects looks at all objects of the entity; finding one by its identifier, or what a relationship leads to,
/// does not.
public final class InMemoryStore: AtomicStore, @unchecked Sendable {
    /// `InMemory`.
    public override class var storeType: StoreType { .inMemory }

    /// Makes an empty store for the objects of a model.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel`.
    public convenience init(
        model: ManagedObjectModel, options: AtomicStoreOptions = AtomicStoreOptions()
    ) throws {
        try self.init(
            layout: model.binding(classes: options.objectClasses).layout(), options: options)
    }

    /// As ``init(model:options:)``, with a model that other stores have too.
    package convenience init(layout: ModelLayout, options: AtomicStoreOptions) throws {
        self.init(try Self.opening(layout, file: nil, options: options))
    }

    /// Makes the store of an opening.
    public required init(_ opening: AtomicStoreOpening) { super.init(opening) }

    /// Fails: there is no file that could be one.
    public override class func loadMetadata(from data: Data, path: String) throws -> StoreMetadata {
        throw QuireError(
            .unsupported, "A store in memory has no file; “\(path)” cannot be one.",
            subject: .init(file: path))
    }

    /// Fails: there is no file that could be written.
    public override func save(_ objects: AtomicStoreObjects) throws -> Data {
        throw QuireError(.unsupported, "A store in memory has no file.")
    }
}
