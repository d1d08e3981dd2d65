import Quire
import Testing

// Most programs about relationships have objects with names, and lists of them.
extension ManagedObjectContext {
    func insertNamed(
        _ entity: String, _ name: String, _ values: [String: Any] = [:]
    ) throws -> ManagedObject {
        let object = try insertObject(entityName: entity)
        object["name"] = name
        for (key, value) in values { try object.setValue(value, forKey: key) }
        return object
    }

    func findNamed(_ entity: String, _ name: String) throws -> ManagedObject {
        let request = FetchRequest<ManagedObject>(
            entity, predicate: try QueryPredicate(format: "name == %@", name))
        return try #require(try fetch(request).first)
    }

    /// The sorted names of the objects that a predicate finds.
    func foundNames(
        _ entity: String, _ format: String = "TRUEPREDICATE", _ arguments: (any QueryArgument)?...
    )
        throws -> String
    {
        let request = FetchRequest<ManagedObject>(
            entity, predicate: try QueryPredicate(format: format, arguments: arguments))
        return try fetch(request).map { $0["name"] as? String ?? "-" }.sorted().joined()
    }
}

extension ManagedObject {
    /// The names of the objects of a to-many relationship, in its order or, if it has none, sorted.
    func memberNames(_ key: String) -> String {
        let names = objects(key).map { $0["name"] as? String ?? "-" }
        let isOrdered = entity.relationshipsByName[key]?.isOrdered ?? false
        return (isOrdered ? names : names.sorted()).joined()
    }

    /// The name of the object of a to-one relationship.
    func destinationName(_ key: String) -> String? { object(key)?["name"] as? String }
}
