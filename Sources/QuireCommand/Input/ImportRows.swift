import Foundation
import Quire
import QuireDocuments

/// The rows of a file to import, read one after the other, as often as they are asked for.
struct ImportRows {
    /// What a file is written in.
    enum Format { case csv, json }

    let file: RereadableFile
    let format: Format
    let entity: EntityLayout
    let layout: ModelLayout

    /// Calls a closure with each row, of which one at a time is in memory.
    ///
    /// - Throws: `QuireError` with code `invalidFormat`, `invalidValue` or `validation`, naming file, line and
    ///   column; or what the closure throws.
    func forEach(_ body: (ImportRow) throws -> Void) throws {
        switch format {
        case .csv: try forEachOfCSV(body)
        case .json:
            try JSONReader.forEachElement(of: file.bytes(), file: file.path) {
                try body(row(of: $0))
            }
        }
    }

    // MARK: - CSV

    private func forEachOfCSV(_ body: (ImportRow) throws -> Void) throws {
        let path = file.path
        var reader = try CSVReader(file.bytes(), file: path)
        guard let header = try reader.next() else {
            throw QuireError(
                .invalidFormat, "\(path), line 1: the line that names the columns is missing.",
                subject: .init(file: path, position: 1))
        }
        let names = header.fields.map { $0.text.trimmingCharacters(in: .whitespaces) }
        let columns = try columns(names)
        while let fields = try reader.next() {
            var row = ImportRow(entity: entity, place: "\(path), line \(fields.line)")
            for (index, field) in fields.fields.enumerated() {
                do {
                    guard let values = try Self.values(of: field, for: columns[index]) else {
                        continue
                    }
                    try row.add(names[index], columns[index], values)
                } catch {
                    throw ImportRow.locate(error, row.place, column: names[index])
                }
            }
            try row.validate()
            try body(row)
        }
    }

    private func columns(_ names: [String]) throws -> [ImportColumn] {
        let place = "\(file.path), line 1"
        var known: Set<String> = []
        return try names.map { name in
            guard known.insert(name).inserted else {
                throw QuireError(
                    .invalidFormat, "\(place): there are two columns “\(name)”.",
                    subject: .init(file: file.path, position: 1))
            }
            do {
                return try ImportColumn(name, in: entity, of: layout)
            } catch {
                throw ImportRow.locate(error, place, column: name)
            }
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

    /// The row of an element of the array.
    private func row(of element: JSONNode) throws -> ImportRow {
        let path = file.path
        let place = "\(path), line \(element.line)"
        guard case .object(let members) = element.content else {
            throw QuireError(
                .invalidFormat, "\(place): this is \(element.kind) where an object must be.",
                subject: .init(file: path, position: element.line))
        }
        let entity = try Self.concreteEntity(of: element, entity, layout, place: place)
        var row = ImportRow(entity: entity, place: place)
        for member in members {
            guard let name = Self.propertyName(of: member, in: entity) else { continue }
            do {
                if case .composite(let slots)? = entity.properties[name] {
                    try Self.addElements(slots, of: name, from: member.value, to: &row)
                    continue
                }
                let column = try ImportColumn(name, in: entity, of: layout)
                try row.add(name, column, Self.values(of: member.value, for: column))
            } catch {
                throw ImportRow.locate(
                    error, "\(path), line \(member.value.line)", column: name)
            }
        }
        try row.validate()
        return row
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
