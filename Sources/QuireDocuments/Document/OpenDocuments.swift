/// The documents that are open in this process, for what concerns all of them.
@MainActor
enum OpenDocuments {
    private struct Entry {
        weak var document: ManagedDocument?
    }

    private static var entries: [ObjectIdentifier: Entry] = [:]

    /// The documents, in no order.
    static var all: [ManagedDocument] { entries.values.compactMap(\.document) }

    static func add(_ document: ManagedDocument) {
        entries[ObjectIdentifier(document)] = Entry(document: document)
    }

    static func remove(_ document: ManagedDocument) {
        entries[ObjectIdentifier(document)] = nil
        // Those that were dropped without having been closed.
        entries = entries.filter { $0.value.document != nil }
    }
}
