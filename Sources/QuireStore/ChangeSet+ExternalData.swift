internal import QuireModel

extension ChangeSet {
    /// The same for a store that keeps no values in files: with their bytes.
    package func loadingExternalData(for store: any PersistentStore) throws -> ChangeSet {
        if store.capabilities.contains(.externalData) { return self }
        var changes = self
        for index in changes.inserted.indices { try changes.inserted[index].loadExternalData() }
        for index in changes.updated.indices { try changes.updated[index].loadExternalData() }
        return changes
    }
}

extension ObjectChange {
    fileprivate mutating func loadExternalData() throws {
        for slot in entity.slots where slot.isExternalCapable {
            if case .external(let data) = values[slot.index] {
                values[slot.index] = .binary(try data.data())
            }
        }
    }
}
