import Foundation
import QuireStore

@testable import Quire

/// What a store holds, as text that is the same for stores with the same objects: identifiers, values, and what
/// relationships lead to, in their order or sorted.
enum StoreDump {
    /// One text for each object, sorted; `name` is what objects are called.
    static func lines(
        of store: any PersistentStore, versions: Bool = true,
        name: (ManagedObjectID) -> String = { $0.shortDescription }
    ) throws -> [String] {
        var lines: [String] = []
        for entity in store.layout.entities where entity.number == entity.rootNumber {
            for row in try store.rows(matching: FetchSpecification(entity.name)) {
                lines.append(try line(of: row, in: store, versions: versions, name))
            }
        }
        return lines.sorted()
    }

    private static func line(
        of row: ObjectSnapshot, in store: any PersistentStore, versions: Bool,
        _ name: (ManagedObjectID) -> String
    ) throws -> String {
        var parts = [name(row.objectID) + (versions ? " v\(row.version)" : "")]
        for slot in row.entity.slots.sorted(by: { $0.name < $1.name }) where slot.isStored {
            parts.append("\(slot.name)=\(text(try row.value(at: slot.index), name))")
        }
        for relationship in row.entity.relationships.sorted(by: { $0.name < $1.name })
        where relationship.isToMany && !relationship.description.isTransient {
            var members = try store.relatedRows(of: row.objectID, through: relationship)
                .map { name($0.objectID) }
            if !relationship.isOrdered { members.sort() }
            parts.append("\(relationship.name)=[\(members.joined(separator: ","))]")
        }
        return parts.joined(separator: " ")
    }

    private static func text(
        _ value: AttributeValue, _ name: (ManagedObjectID) -> String
    ) -> String {
        switch value {
        case .objectID(let id): name(id)
        // Not a number is a missing value; only old stores of Core Data's keep it apart.
        case .decimal(let number) where number.isNaN: "\(AttributeValue.null)"
        case .binary(let data) where data.count > 32: "\(data.count) bytes \(data.hashValue)"
        case .binary(let data): data.map { String($0) }.joined(separator: ".")
        default: "\(value)"
        }
    }
}
