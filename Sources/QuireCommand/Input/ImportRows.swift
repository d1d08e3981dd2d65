import Foundation
import Quire
import QuireDocuments

/// Reads files into rows to import.
enum ImportRows {
    // MARK: - CSV

    /// Reads a CSV file.
    ///
    /// - Throws: `QuireError` with code `invalidFormat`, `invalidValue` or `validation`, naming file, line and
    ///   column.
    static func csv(
        _ data: Data, file: String, entity: EntityLayout, layout: ModelLayout
    ) throws -> [ImportRow] {
        let table = try CSVReader.read(data, file: file)
        guard let header = table.first else {
            throw QuireError(
                .invalidFormat, "\(file), line 1: the line that names the columns is missing.",
                subject: .init(file: file, position: 1))
        }
        let names = header.fields.map { $0.text.trimmingCharacters(in: .whitespaces) }
        var columns: [ImportColumn] = []
        for (index, name) in names.enumerated() {
            if names[..<index].contains(name) {
                throw QuireError(
                    .invalidFormat, "\(file), line 1: there are two columns “\(name)”.",
                    subject: .init(file: file, position: 1))
            }
            do {
                columns.append(try ImportColumn(name, in: entity, of: layout))
            } catch {
                throw ImportRow.locate(error, "\(file), line 1", column: name)
            }
        }
        return try table.dropFirst().map { fields in
            var row = ImportRow(entity: entity, place: "\(file), line \(fields.line)")
            for (index, field) in fields.fields.enumerated() {
                do {
                    guard let values = try values(of: field, for: columns[index]) else { continue }
                    try row.add(names[index], columns[index], values)
                } catch {
                    throw ImportRow.locate(error, row.place, column: names[index])
                }
            }
            try row.validate()
            return row
        }
    }

    /// The values of a field, or `nil` if it is empty.
    private static func values(
        of field: CSVReader.Field, for column: ImportColumn
    ) throws -> [AttributeValue]? {
        switch column {
        case .attribute(_, let attribute):
            if field.text.isEmpty && !field.isQuoted { return nil }
            return [try AttributeValue(parsing: field.text, as: attribute.type)]
        case .relationship:
            return field.text.isEmpty ? nil : split(field.text).map { .string($0) }
        case .related(let relationship, _, let attribute):
            if field.text.isEmpty { return relationship.isToMany ? nil : [.null] }
            let texts = relationship.isToMany ? split(field.text) : [field.text]
            return try texts.map { try AttributeValue(parsing: $0, as: attribute.type) }
        }
    }

    private static func split(_ list: String) -> [String] {
        list.split(separator: ";").map { $0.trimmingCharacters(in: .whitespaces) }
            .filter { !$0.isEmpty }
    }

    // MARK: - JSON

    /// Reads a JSON file: an array of objects.
    ///
    /// - Throws: `QuireError` with code `invalidFormat`, `invalidValue` or `validation`, naming file, line and
    ///   member.
    static func json(
        _ data: Data, file: String, entity: EntityLayout, layout: ModelLayout
    ) throws -> [ImportRow] {
        let root = try JSONReader.read(data, file: file)
        guard case .array(let elements) = root.content else {
            throw QuireError(
                .invalidFormat, "\(file), line \(root.line): an array of objects must be here.",
                subject: .init(file: file, position: root.line))
        }
        return try elements.map { element in
            let place = "\(file), line \(element.line)"
            guard case .object(let members) = element.content else {
                throw QuireError(
                    .invalidFormat, "\(place): this is \(element.kind) where an object must be.",
                    subject: .init(file: file, position: element.line))
            }
            let entity = try concreteEntity(of: element, entity, layout, place: place)
            var row = ImportRow(entity: entity, place: place)
            for member in members {
                guard let name = propertyName(of: member, in: entity) else { continue }
                do {
                    if case .composite(let slots)? = entity.properties[name] {
                        try addElements(slots, of: name, from: member.value, to: &row)
                        continue
                    }
                    let column = try ImportColumn(name, in: entity, of: layout)
                    try row.add(name, column, values(of: member.value, for: column))
                } catch {
                    throw ImportRow.locate(
                        error, "\(file), line \(member.value.line)", column: name)
                }
            }
            try row.validate()
            return row
        }
    }

    /// The entity of an element: what its member `entity` says, as in the output of `fetch`, or the one given.
    private static func concreteEntity(
        of element: JSONNode, _ entity: EntityLayout, _ layout: ModelLayout, place: String
    ) throws -> EntityLayout {
        guard entity.properties["entity"] == nil,
            case .string(let name)? = element["entity"]?.content
        else { return entity }
        do {
            let named = try layout.requireConcreteEntity(named: name)
            guard entity.subtree.contains(named.number) else {
                throw QuireError(
                    .invalidValue, "\(name) is not \(entity.name) or one of its sub-entities.",
                    subject: .init(entity: name))
            }
            return named
        } catch {
            throw ImportRow.locate(error, place, column: "entity")
        }
    }

    /// The property that a member is for; none for the identifier and entity that `fetch` writes.
    private static func propertyName(
        of member: JSONNode.Member, in entity: EntityLayout
    ) -> String? {
        switch member.name {
        case "property.id": return "id"
        case "property.entity": return "entity"
        case "entity": return entity.properties["entity"] == nil ? nil : "entity"
        case "id":
            if case .string(let text) = member.value.content, text.hasPrefix("x-coredata://") {
                return nil
            }
            return "id"
        default: return member.name
        }
    }

    /// Reads a composite attribute's elements from an object, or none from null.
    private static func addElements(
        _ slots: Range<Int>, of composite: String, from node: JSONNode, to row: inout ImportRow
    ) throws {
        switch node.content {
        case .null, .object: break
        default: throw wrong(node, expected: "an object of the elements")
        }
        for slot in slots.map({ row.entity.slots[$0] }) {
            guard let attribute = slot.attribute else { continue }
            let path = slot.name.dropFirst(composite.count + 1).split(separator: ".")
            let element = path.reduce(Optional(node)) { $0?[String($1)] }
            row.attributes[slot.name] = try element.map { try AttributeValue($0, as: attribute) }
        }
    }

    private static func values(
        of node: JSONNode, for column: ImportColumn
    ) throws -> [AttributeValue] {
        switch column {
        case .attribute(_, let attribute): return [try AttributeValue(node, as: attribute)]
        case .relationship:
            return try list(node).map { node in
                guard case .string(let text) = node.content else {
                    throw wrong(node, expected: "an identifier")
                }
                return .string(text)
            }
        case .related(_, _, let attribute):
            return try list(node).map { try AttributeValue($0, as: attribute) }
        }
    }

    private static func list(_ node: JSONNode) throws -> [JSONNode] {
        switch node.content {
        case .null: []
        case .array(let elements): elements
        default: [node]
        }
    }

    private static func wrong(_ node: JSONNode, expected: String) -> QuireError {
        QuireError(.invalidValue, "This is \(node.kind) where \(expected) must be.")
    }
}
