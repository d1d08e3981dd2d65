internal import QuireSystem

extension ManagedObjectID {
    /// What URIs begin with.
    package static let scheme = "x-coredata://"

    /// The identifier that a text stands for: a URI, `x-coredata://STORE-UUID/Entity/p12`, or `Entity/p12`. The
    /// object need not exist.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if it is neither, `unknownEntity` if the model has no
    ///   such entity, or `notFound` if the URI is of no store that belongs to the same coordinator.
    package init(parsing text: String, in layout: ModelLayout, store: StoreIdentity) throws {
        var rest = Substring(text)
        var place = store.numberBits
        if rest.hasPrefix(Self.scheme) {
            rest = rest.dropFirst(Self.scheme.count)
            guard let slash = rest.firstIndex(of: "/") else { throw Self.malformed(text) }
            guard let number = store.stores.number(of: rest[..<slash].uppercased()) else {
                throw QuireError(
                    .notFound,
                    "“\(text)” is an object of another store; this one is \(store.uuid).",
                    subject: .init(object: text))
            }
            place = UInt64(number) << Self.storeNumberShift
            rest = rest[rest.index(after: slash)...]
        }
        let parts = rest.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[1].first == "p", let key = Int64(parts[1].dropFirst()),
            key > 0, key <= Self.greatestPrimaryKey
        else { throw Self.malformed(text) }
        let entity = try layout.requireEntity(named: String(parts[0]))
        self.init(bits: UInt64(entity.number) << 48 | place | UInt64(key), store: store)
    }

    private static func malformed(_ text: String) -> QuireError {
        QuireError(
            .invalidValue,
            "“\(text)” is no object identifier; write x-coredata://STORE-UUID/Entity/p12 or Entity/p12.",
            subject: .init(object: text))
    }
}
