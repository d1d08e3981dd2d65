import Foundation
internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Writes an XML store as Core Data does: the same elements, indented by four spaces, objects by their identifiers.
///
/// Attributes come by name backwards, those of superentities after an entity's own; relationships those of superentities
/// first, to-one before to-many, by name. Both as in the stores that have been seen.
struct XMLStoreWriter {
    private var text = XMLStoreText()
    /// By entity number less one.
    private let plans: [Plan]

    private struct Plan {
        let type: String
        var attributes: [(slot: EntityLayout.Slot, head: String)] = []
        var relationships: [(relationship: EntityLayout.Relationship, head: String)] = []
    }

    /// The version of Core Data's XML format.
    private static let version = 134_481_920

    init(_ layout: ModelLayout) {
        plans = layout.entities.map { entity in
            var plan = Plan(type: entity.name.uppercased())
            let attributes = entity.slots.filter { $0.isStored && $0.attribute != nil }
            for slot in attributes.sorted(by: {
                $0.ownerNumber != $1.ownerNumber
                    ? $0.ownerNumber > $1.ownerNumber : $0.name > $1.name
            }) {
                let type = XMLStoreValue.typeName(slot.attribute?.type ?? .string)
                plan.attributes.append(
                    (
                        slot,
                        "        <attribute name=\"\(slot.name.lowercased())\" type=\"\(type)\">"
                    ))
            }
            let relationships = entity.relationships.filter { !$0.description.isTransient }
            for relationship in relationships.sorted(by: {
                ($0.ownerNumber, $0.isToMany ? 1 : 0, $0.name)
                    < ($1.ownerNumber, $1.isToMany ? 1 : 0, $1.name)
            }) {
                let description = relationship.description
                let least = description.isOptional ? 0 : max(description.minimumCount, 1)
                let most = relationship.isToMany ? description.maximumCount : 1
                let destination = layout.destination(of: relationship).name.uppercased()
                plan.relationships.append(
                    (
                        relationship,
                        "        <relationship name=\"\(relationship.name.lowercased())\" type=\"\(least)/\(most)\" destination=\"\(destination)\""
                    ))
            }
            return plan
        }
    }

    /// The bytes of a store.
    mutating func data(of objects: AtomicStoreObjects) throws -> Data {
        writeHead(objects)
        try objects.forEach { try write($0) }
        text.write("</database>")
        return Data(text.bytes)
    }

    private mutating func writeHead(_ objects: AtomicStoreObjects) {
        var values = objects.metadata.values
        values[StoreMetadata.Key.storeType] = nil
        text.write(
            """
            <?xml version="1.0" standalone="yes"?>
            <!DOCTYPE database SYSTEM "file:///System/Library/DTDs/CoreData.dtd">

            <database>
                <databaseInfo>
                    <version>\(Self.version)</version>
                    <UUID>\(objects.metadata.storeUUID)</UUID>
                    <nextObjectID>\(objects.greatestPrimaryKey)</nextObjectID>
                    <metadata>
                        <plist version="1.0">

            """)
        XMLPropertyList.write(.dictionary(values), 4, to: &text)
        text.write("            </plist>\n        </metadata>\n    </databaseInfo>\n")
    }

    private mutating func write(_ object: AtomicStoreObject) throws {
        let plan = plans[object.entity.number - 1]
        text.write("    <object type=\"\(plan.type)\" id=\"z\(object.primaryKey)\">\n")
        for (slot, head) in plan.attributes {
            let value = try object.snapshot.value(at: slot.index)
            if value.isNull { continue }
            text.write(head)
            XMLStoreValue.write(value, of: slot.attribute?.type ?? .string, to: &text)
            text.write("</attribute>\n")
        }
        for (relationship, head) in plan.relationships {
            text.write(head)
            let keys = object.primaryKeys(of: relationship)
            if !keys.isEmpty {
                text.write(" idrefs=\"")
                for (index, key) in keys.enumerated() {
                    text.write(index == 0 ? "z\(key)" : " z\(key)")
                }
                text.write("\"")
            }
            text.write("></relationship>\n")
        }
        text.write("    </object>\n")
    }
}
