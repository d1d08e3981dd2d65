package import QuireModel
package import QuireQuery

/// The dictionaries of a request, given one after the other as they are read, without those before.
///
/// While they are given their store is being read; without a write-ahead log it cannot be saved to meanwhile.
package struct DictionaryStream {
    /// Takes the values of a dictionary, in the order of the names.
    package typealias Body = (ArraySlice<AttributeValue>) throws -> Void

    /// The names of the columns.
    package let names: [String]
    private let read: (Body) throws -> Void

    /// A stream of the dictionaries that a closure reads.
    package init(names: [String], reading read: @escaping (Body) throws -> Void) {
        self.names = names
        self.read = read
    }

    /// A stream of the dictionaries of a request. A store that gives them all at once does so here.
    ///
    /// - Throws: ``QuireError`` with code `unknownEntity`, `unknownKey`, `invalidQuery` or `unsupported`, or as
    ///   ``PersistentStore/dictionaries(matching:)``.
    package init(_ request: FetchRequest, of store: any PersistentStore) throws {
        if let source = store as? any DictionarySource {
            self = try source.dictionaryStream(matching: request)
        } else {
            self.init(try store.dictionaries(matching: request))
        }
    }

    /// A stream of dictionaries that have been read.
    package init(_ fetched: FetchedDictionaries) {
        self.init(names: fetched.names) { body in for row in fetched { try body(row.values) } }
    }

    /// Calls a closure with the values of each dictionary, in the order of the names.
    ///
    /// - Throws: What the closure throws, which ends the reading, or as ``PersistentStore/dictionaries(matching:)``.
    package func forEach(_ body: (ArraySlice<AttributeValue>) throws -> Void) throws {
        try read(body)
    }
}

/// A store that need not have all dictionaries of a request in memory.
package protocol DictionarySource {
    /// Checks a request, and gives a stream of its dictionaries, in its order, within its limit and offset.
    func dictionaryStream(matching request: FetchRequest) throws -> DictionaryStream
}
