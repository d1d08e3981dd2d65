internal import QuireSystem

/// Data or schema that a migration would remove from a store: the objects of an entity, the values of a property of kept objects, or a
/// trigger or table of an index that neither model calls for.
///
/// ```swift
/// for removal in try SQLiteStore.removals(at: path, by: steps) { print(removal) }   // 3 objects of “Friend”
/// ```
public struct MigrationRemoval: Sendable, Hashable, CustomStringConvertible {
    /// The entity of the old model; for a property, the one that declares it.
    public let entityName: String
    /// The attribute or relationship, for an element of a composite attribute the names joined with dots; `nil` if the
    /// objects themselves go.
    public let propertyName: String?
    /// The number of objects, of values, or of links between objects.
    public let count: Int
    /// The trigger or the table of an index, such as “trigger Z_RT_Place_bounds_INSERT”; `nil` for data. The entity is then
    /// the one whose objects are in the trigger's table, or the name of the table.
    public let schemaPart: String?

    init(entityName: String, propertyName: String?, count: Int, schemaPart: String? = nil) {
        self.entityName = entityName
        self.propertyName = propertyName
        self.count = count
        self.schemaPart = schemaPart
    }

    /// How many of what, such as “12 values of “Book.year””.
    public var description: String {
        if let schemaPart { return "the \(schemaPart)" }
        let name = propertyName.map { "\(entityName).\($0)" } ?? entityName
        let noun = propertyName == nil ? "object" : "value"
        return "\(count) \(noun)\(count == 1 ? "" : "s") of “\(name)”"
    }
}

extension QuireError {
    /// How many removals a sentence lists; the error has all of them.
    private static let listedCount = 8

    /// The error of a migration that would remove data and may not.
    ///
    /// - Precondition: `removals` is not empty.
    static func removalDenied(_ removals: [MigrationRemoval], path: String?) -> QuireError {
        denied(removals, path: path) {
            "Migrating “\(path ?? "the store")” would remove \($0); migrate it to the right model, or allow the removal."
        }
    }

    /// The error of a migration or conversion whose result lacks what its mapping takes over.
    ///
    /// - Precondition: `losses` is not empty.
    static func lossDenied(_ losses: [MigrationRemoval], path: String?) -> QuireError {
        denied(losses, path: path) {
            "“\(path ?? "the store")” would lose \($0), so nothing was done; a relationship to many objects that several "
                + "owners share needs an inverse in the model. Or allow the removal."
        }
    }

    private static func denied(
        _ removals: [MigrationRemoval], path: String?, _ sentence: (String) -> String
    ) -> QuireError {
        func error(_ what: String, _ subject: Subject) -> QuireError {
            QuireError(.removalDenied, sentence(what), subject: subject)
        }
        let listed = removals.prefix(listedCount).map(\.description)
        let rest = removals.count > listedCount ? ", … (\(removals.count) in all)" : ""
        var result = error(
            listed.joined(separator: ", ") + rest,
            Subject(
                entity: removals.first?.entityName, property: removals.first?.propertyName,
                file: path))
        result.failures = removals.map {
            error(
                "\($0)", Subject(entity: $0.entityName, property: $0.propertyName, file: path))
        }
        return result
    }
}
