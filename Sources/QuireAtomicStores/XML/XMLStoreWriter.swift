import Foundation
internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Writes an XML store as Core Data does: the same elements, indented by four spaces, objects sorted by identifiers.
///
/// Attributes are sorted by name descending, an entity's own before its superentities'; relationships superentities' first,
/// to-one before to-many, by name. Both as in known stores.
struct XMLStoreWriter {
    private var text = XMLStoreText()
    /// Indexed by entity number less one.
    private let plans: [Plan]

    private struct Plan {
        let type: String
        var attributes: [(slot: ResolvedEntity.Slot, head: String)] = []
        var relationships: [(relationship: ResolvedEntity.Relationship, head: String)] = []
    }

    /// The version of Core Data's XML format.
    private static let version = 134_481_920

    init(_ layout: ResolvedModel) {
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
                let least =
                    description.isOptional
                    ? 0
                    : relationship.isToMany
                        ? description.minimumCount : max(description.minimumCount, 1)
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
                    <nextObjectID>\(objects.maximumPrimaryKey)</nextObjectID>
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

// MARK: - Property lists

/// The property list in the head of an XML store.
enum XMLPropertyList {
    /// Reads the value whose element has just begun.
    static func read(_ name: String, _ parser: XMLStoreParser) throws -> PropertyListValue {
        switch name {
        case "string": return .string(try parser.textOfElement())
        case "integer":
            let text = try trimmed(parser)
            guard let number = Int64(text) else {
                throw parser.error("“\(text)” is not an integer")
            }
            return .integer(number)
        case "real":
            let text = try trimmed(parser)
            guard let number = Double(text) else { throw parser.error("“\(text)” is not a number") }
            return .real(number)
        case "true", "false":
            try parser.skipElement()
            return .boolean(name == "true")
        case "data":
            let text = try parser.textOfElement()
            guard let data = Data(base64Encoded: text, options: .ignoreUnknownCharacters) else {
                throw parser.error("its data is not base64")
            }
            return .data(data)
        case "date":
            let text = try trimmed(parser)
            guard case .date(let date)? = try? AttributeValue(parsing: text, as: .date) else {
                throw parser.error("“\(text)” is not a date")
            }
            return .date(date)
        case "array":
            var values: [PropertyListValue] = []
            try parser.forEachElement { values.append(try read($0, parser)) }
            return .array(values)
        case "dict":
            var values: [String: PropertyListValue] = [:]
            var key: String?
            try parser.forEachElement { name in
                if let known = key {
                    values[known] = try read(name, parser)
                    key = nil
                } else if name == "key" {
                    key = try parser.textOfElement()
                } else {
                    throw parser.error("a value has no key")
                }
            }
            if key != nil { throw parser.error("a key has no value") }
            return .dictionary(values)
        default: throw parser.error("“\(name)” is not a property list value")
        }
    }

    private static func trimmed(_ parser: XMLStoreParser) throws -> String {
        try parser.textOfElement().trimmingCharacters(in: .whitespacesAndNewlines)
    }

    // MARK: - Writing

    /// Writes a value as Foundation does, indented by so many steps.
    static func write(_ value: PropertyListValue, _ depth: Int, to text: inout XMLStoreText) {
        func line(_ content: String) {
            text.indent(depth)
            text.write(content)
            text.write("\n")
        }
        switch value {
        case .string(let string):
            text.indent(depth)
            text.write("<string>")
            text.writeEscapingXML(string)
            text.write("</string>\n")
        case .integer(let number): line("<integer>\(number)</integer>")
        case .real(let number): line("<real>\(number)</real>")
        case .boolean(let truth): line(truth ? "<true/>" : "<false/>")
        case .date(let date):
            line("<date>\(AttributeValue.date(date).text(as: .date) ?? "")</date>")
        case .data(let data):
            line("<data>")
            let encoded = Array(data.base64EncodedString().utf8)
            for start in stride(from: 0, to: encoded.count, by: 60) {
                text.write("\t\t")
                text.write(encoded[start..<min(start + 60, encoded.count)])
                text.write("\n")
            }
            text.write("\t\t</data>\n")
        case .array(let values):
            if values.isEmpty { return line("<array/>") }
            line("<array>")
            for value in values { write(value, depth + 1, to: &text) }
            line("</array>")
        case .dictionary(let values):
            if values.isEmpty { return line("<dict/>") }
            line("<dict>")
            for (key, value) in values.sorted(by: { $0.key < $1.key }) {
                text.indent(depth + 1)
                text.write("<key>")
                text.writeEscapingXML(key)
                text.write("</key>\n")
                write(value, depth + 1, to: &text)
            }
            line("</dict>")
        }
    }
}
