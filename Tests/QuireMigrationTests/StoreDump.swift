import Foundation

@testable import Quire

/// What a store holds, as text that is the same for stores with the same objects: identifiers, values, and what
/// relationships lead to, in their order or sorted.
enum StoreDump {
    /// One text for each object, sorted.
    static func lines(of store: any PersistentStore, versions: Bool = true) throws -> [String] {
        var lines: [String] = []
        for entity in store.layout.entities where entity.number == entity.rootNumber {
            for row in try store.rows(matching: FetchRequest(entity.name)) {
                lines.append(try line(of: row, in: store, versions: versions))
            }
        }
        return lines.sorted()
    }

    private static func line(
        of row: ObjectSnapshot, in store: any PersistentStore, versions: Bool
    ) throws -> String {
        var parts = [row.objectID.shortDescription + (versions ? " v\(row.version)" : "")]
        for slot in row.entity.slots.sorted(by: { $0.name < $1.name }) where slot.isStored {
            parts.append("\(slot.name)=\(text(try row.value(at: slot.index)))")
        }
        for relationship in row.entity.relationships.sorted(by: { $0.name < $1.name })
        where relationship.isToMany && !relationship.description.isTransient {
            var members = try store.relatedRows(of: row.objectID, through: relationship)
                .map(\.objectID.shortDescription)
            if !relationship.isOrdered { members.sort() }
            parts.append("\(relationship.name)=[\(members.joined(separator: ","))]")
        }
        return parts.joined(separator: " ")
    }

    private static func text(_ value: AttributeValue) -> String {
        switch value {
        case .objectID(let id): id.shortDescription
        case .binary(let data) where data.count > 32: "\(data.count) bytes \(data.hashValue)"
        case .binary(let data): data.map { String($0) }.joined(separator: ".")
        default: "\(value)"
        }
    }
}
