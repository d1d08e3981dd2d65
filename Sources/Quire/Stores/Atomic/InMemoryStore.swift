public import Foundation

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
        let layout = try model.binding(classes: options.objectClasses).layout()
        let uuid = UUID().uuidString
        self.init(
            AtomicStoreOpening(
                contents: AtomicContents(
                    layout: layout,
                    metadata: StoreMetadata(storeUUID: uuid, type: .inMemory, model: layout.model),
                    identity: StoreIdentity(uuid: uuid, entityNames: layout.entities.map(\.name))),
                file: nil, isReadOnly: options.isReadOnly,
                configuration: options.configuration))
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
