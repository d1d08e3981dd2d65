internal import QuireSystem

/// Knows the objects that texts name.
package protocol ObjectIDReading {
    func objectID(for text: String) throws -> ManagedObjectID
}

extension CodingUserInfoKey {
    /// Where a decoder finds the `PersistentStoreCoordinator` that knows the objects whose identifiers it decodes.
    public static let persistentStoreCoordinator: CodingUserInfoKey = {
        guard let key = CodingUserInfoKey(rawValue: "de.quire.persistentStoreCoordinator") else {
            preconditionFailure("Foundation has made keys of all texts so far.")
        }
        return key
    }()
}

/// Identifiers are encoded as their URIs. Foundation's predicates capture nothing that cannot be encoded.
///
/// ```swift
/// let decoder = JSONDecoder()
/// decoder.userInfo[.persistentStoreCoordinator] = container.coordinator
/// let id = try decoder.decode(ManagedObjectID.self, from: data)
/// ```
extension ManagedObjectID: Codable {
    /// Encodes the URI.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the identifier is temporary, because it means nothing
    ///   elsewhere.
    public func encode(to encoder: any Encoder) throws {
        guard !isTemporary else {
            throw QuireError(
                .invalidState,
                "\(shortDescription) is a temporary identifier; save the object before it is encoded.",
                subject: .init(entity: entityName, object: uriRepresentation))
        }
        var container = encoder.singleValueContainer()
        try container.encode(uriRepresentation)
    }

    /// Decodes a URI.
    ///
    /// - Throws: ``QuireError`` with code `invalidState` if the decoder has no coordinator under
    ///   `CodingUserInfoKey.persistentStoreCoordinator`, or what the coordinator throws for the URI.
    public init(from decoder: any Decoder) throws {
        guard let source = decoder.userInfo[.persistentStoreCoordinator] as? any ObjectIDReading
        else {
            throw QuireError(
                .invalidState,
                "Only a coordinator knows the objects of its store; set the decoder's userInfo for the key "
                    + "CodingUserInfoKey.persistentStoreCoordinator.")
        }
        self = try source.objectID(for: decoder.singleValueContainer().decode(String.self))
    }
}
