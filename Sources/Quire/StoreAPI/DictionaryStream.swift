/// The dictionaries of a request, given one after the other as they are read, without those before.
///
/// While they are given their store is being read; without a write-ahead log it cannot be saved to meanwhile.
package struct DictionaryStream {
    /// The names of the columns.
    package let names: [String]
    private let request: FetchRequest
    private let store: any PersistentStore

    /// Checks a request.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery` or `unsupported`.
    init(_ request: FetchRequest, of store: any PersistentStore) throws {
        names = try ResolvedDictionaryQuery(request, in: store.layout, store: store.identity)
            .columns.map(\.name)
        self.request = request
        self.store = store
    }

    /// Calls a closure with the values of each dictionary, in the order of the names.
    ///
    /// - Throws: What the closure throws, which ends the reading, or as ``PersistentStore/dictionaries(matching:)``.
    package func forEach(_ body: (ArraySlice<AttributeValue>) throws -> Void) throws {
        guard let source = store as? any DictionarySource else {
            for row in try store.dictionaries(matching: request) { try body(row.values) }
            return
        }
        try source.forEachDictionary(matching: request, body)
    }
}

/// A store that need not have all dictionaries of a request in memory.
protocol DictionarySource {
    /// Calls a closure with the values of each dictionary that a request asks for, in its order, within its limit and
    /// offset.
    func forEachDictionary(
        matching request: FetchRequest, _ body: (ArraySlice<AttributeValue>) throws -> Void) throws
}
