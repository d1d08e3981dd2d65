import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// The rows of a file to import, read one after the other, as often as they are asked for.
struct ImportRows {
    /// The format of a file.
    enum Format: String, ExpressibleByArgument, CaseIterable {
        case csv, tsv, json, jsonl

        /// The format for a file's extension.
        init?(path: String) {
            switch path.split(separator: ".").last?.lowercased() {
            case "csv": self = .csv
            case "tsv", "tab": self = .tsv
            case "json": self = .json
            case "jsonl", "ndjson": self = .jsonl
            default: return nil
            }
        }
    }

    let file: RereadableFile
    let format: Format
    let entity: ResolvedEntity
    let layout: ResolvedModel
    /// The byte between fields, if it is not that of the format.
    var delimiter: UInt8?
    /// The properties that columns stand for, by the names of the columns.
    var mapping: [String: String] = [:]

    /// Calls a closure with each row, of which one at a time is in memory.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` or `invalidValue`, naming file, line and column; or what the closure
    ///   throws.
    func forEach(_ body: (ImportRow) throws -> Void) throws {
        try file.requireNotUTF16()
        switch format {
        case .csv: try forEachOfCSV(delimiter ?? UInt8(ascii: ","), body)
        case .tsv: try forEachOfCSV(delimiter ?? UInt8(ascii: "\t"), body)
        case .json:
            try JSONReader.forEachElement(of: file.bytes(), file: file.path) {
                try body(row(of: $0))
            }
        case .jsonl:
            try JSONReader.forEachValue(of: file.bytes(), file: file.path) {
                try body(row(of: $0))
            }
        }
    }

    // MARK: - CSV

    private func forEachOfCSV(_ delimiter: UInt8, _ body: (ImportRow) throws -> Void) throws {
        let path = file.path
        var reader = try CSVReader(file.bytes(), file: path, delimiter: delimiter)
        guard let first = try reader.next() else {
            throw QuireError(
                .invalidFormat, "\(path), line 1: the line that names the columns is missing.",
                file: path, position: 1)
        }
        let header = CSVHeader(first, of: entity, mapping)
        if let name = mapping.keys.sorted().first(where: { !header.written.contains($0) }) {
            throw QuireError(
                .invalidFormat,
                "\(path), line 1: there is no column “\(name)” for --map; \(CloseNames.advice(for: name, among: header.written, "there are"))",
                file: path, position: 1)
        }
        var columns = [entity.number: try self.columns(header, of: entity)]
        while let fields = try reader.next() {
            let place = "\(path), line \(fields.line)"
            var row = ImportRow(entity: entity, place: place)
            if let index = header.entityIndex {
                row.entity = try concreteEntity(named: fields.fields[index].text, place: place)
            }
            let rowColumns =
                try columns[row.entity.number] ?? self.columns(header, of: row.entity)
            columns[row.entity.number] = rowColumns
            // The output of `fetch`, in which nothing is no value; elsewhere it is the default.
            let isFetched = header.identifierIndex.map {
                Self.isIdentifier(fields.fields[$0].text)
            }
            for (index, field) in fields.fields.enumerated() where index != header.entityIndex {
                if index == header.identifierIndex, isFetched == true { continue }
                let name = header.names[index]
                do {
                    let isEmpty = field.text.isEmpty && !field.isQuoted
                    if rowColumns[index] == nil, isEmpty { continue }
                    let column =
                        try rowColumns[index] ?? ImportColumn(name, in: row.entity, of: layout)
                    if isEmpty, isFetched == true, case .attribute = column {
                        try row.add(name, column, [.null])
                    } else if let values = try Self.values(of: field, for: column) {
                        try row.add(name, column, values)
                    }
                } catch {
                    throw ImportRow.locate(error, row.place, column: name)
                }
            }
            try body(row)
        }
    }

    /// The first line of a CSV file. Two of its columns may be those that `fetch` adds to properties.
    private struct CSVHeader {
        /// The names of the columns as they are written.
        let written: [String]
        /// The names that they stand for.
        let texts: [String]
        /// The names of properties.
        let names: [String]
        /// The column that names the entity of a row.
        let entityIndex: Int?
        /// The column `id`: identifiers, which are not kept, or the values of a property.
        let identifierIndex: Int?

        init(_ row: CSVReader.Row, of entity: ResolvedEntity, _ mapping: [String: String]) {
            written = row.fields.map { $0.text.trimmingCharacters(in: .whitespaces) }
            texts = written.map { mapping[$0] ?? $0 }
            names = texts.map {
                $0 == "property.id" || $0 == "property.entity" ? String($0.dropFirst(9)) : $0
            }
            entityIndex =
                entity.properties["entity"] == nil || texts.contains("property.entity")
                ? texts.firstIndex(of: "entity") : nil
            identifierIndex = texts.firstIndex(of: "id")
        }
    }

    /// The columns, of which those that only other entities have are `nil`.
    private func columns(_ header: CSVHeader, of entity: ResolvedEntity) throws -> [ImportColumn?] {
        let place = "\(file.path), line 1"
        var known: Set<String> = []
        return try header.texts.enumerated().map { index, text in
            guard known.insert(text).inserted else {
                throw QuireError(
                    .invalidFormat, "\(place): there are two columns “\(text)”.",
                    file: file.path, position: 1)
            }
            if index == header.entityIndex { return nil }
            let name = header.names[index]
            do {
                return try ImportColumn(name, in: entity, of: layout)
            } catch {
                let isOfOther =
                    header.entityIndex != nil
                    && self.entity.subtree.contains {
                        (try? ImportColumn(name, in: layout.entity(number: $0), of: layout)) != nil
                    }
                if isOfOther || index == header.identifierIndex { return nil }
                throw ImportRow.locate(error, place, column: text)
            }
        }
    }

    /// Whether a text is the identifier of an object, as `fetch` writes it.
    private static func isIdentifier(_ text: String) -> Bool { text.hasPrefix("x-coredata://") }

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
                file: path, position: element.line)
        }
        var entity = entity
        if entity.properties["entity"] == nil,
            case .string(let name)? = element["entity"]?.content
        {
            entity = try concreteEntity(named: name, place: place)
        }
        var row = ImportRow(entity: entity, place: place)
        for member in members {
            guard let name = mapping[member.name] ?? Self.propertyName(of: member, in: entity)
            else { continue }
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
        return row
    }

    /// The entity of a row, as the output of `fetch` names it.
    private func concreteEntity(named name: String, place: String) throws -> ResolvedEntity {
        do {
            let named = try layout.requireConcreteEntity(named: name)
            guard entity.subtree.contains(named.number) else {
                throw QuireError(
                    .invalidValue, "\(name) is not \(entity.name) or one of its sub-entities.",
                    entity: name)
            }
            return named
        } catch {
            throw ImportRow.locate(error, place, column: "entity")
        }
    }

    /// The property that a member is for; none for the identifier and entity that `fetch` writes.
    private static func propertyName(
        of member: JSONNode.Member, in entity: ResolvedEntity
    ) -> String? {
        switch member.name {
        case "property.id": return "id"
        case "property.entity": return "entity"
        case "entity": return entity.properties["entity"] == nil ? nil : "entity"
        case "id":
            if case .string(let text) = member.value.content, isIdentifier(text) {
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
        let names = slots.map { row.entity.slots[$0].name }
        try requireElements(names, at: composite, of: node, in: row.entity)
        for slot in slots.map({ row.entity.slots[$0] }) {
            guard let attribute = slot.attribute else { continue }
            let path = slot.name.dropFirst(composite.count + 1).split(separator: ".")
            let element = path.reduce(Optional(node)) { $0?[String($1)] }
            row.attributes[slot.name] = try element.map { try AttributeValue($0, as: attribute) }
        }
    }

    /// Checks that an object has only members that are elements, by their dotted names, or composites of them.
    private static func requireElements(
        _ names: [String], at path: String, of node: JSONNode, in entity: ResolvedEntity
    ) throws {
        guard case .object(let members) = node.content else { return }
        for member in members {
            let name = "\(path).\(member.name)"
            if names.contains(name) { continue }
            guard names.contains(where: { $0.hasPrefix(name + ".") }) else {
                throw QuireError(
                    .unknownKey,
                    "\(entity.name) has no “\(name)”; the elements are: "
                        + names.joined(separator: ", ") + ".",
                    entity: entity.name, property: name)
            }
            switch member.value.content {
            case .null, .object: break
            default: throw wrong(member.value, expected: "an object of the elements")
            }
            try requireElements(names, at: name, of: member.value, in: entity)
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

// MARK: - A row

/// A row to import, with its columns resolved and its attributes read: nothing about it needs the document any
/// more but the objects it refers to.
struct ImportRow {
    /// The entity of the object to make.
    var entity: ResolvedEntity
    /// The position of the row: “books.csv, line 12”.
    var place: String
    /// The attributes, by name; composite elements by their dotted names.
    var attributes: [String: AttributeValue] = [:]
    /// The relationships.
    var relationships: [Related] = []

    /// The destination of a relationship of the new object.
    struct Related {
        /// The names of the objects.
        enum Objects {
            /// By identifiers, separated by commas.
            case identifiers(String)
            /// By the value of their first attribute here; the others complete them.
            case values([[(key: String, value: AttributeValue)]])
        }

        var relationship: ResolvedEntity.Relationship
        /// The column's name, for errors.
        var column: String
        var objects: Objects
    }

    /// An error of a value, with the place before it.
    static func locate(_ error: any Error, _ place: String, column: String? = nil) -> any Error {
        guard var error = error as? QuireError else { return error }
        let column = column.map { ", column “\($0)”" } ?? ""
        error.message = "\(place)\(column): \(error.message)"
        // An unknown name within a file is the file's fault, not the command line's.
        if [.unknownKey, .unknownEntity, .notFound].contains(error.code) {
            error.code = .invalidValue
        }
        return error
    }
}

/// A column of a file, resolved against an entity.
enum ImportColumn {
    case attribute(key: String, AttributeDescription)
    case relationship(ResolvedEntity.Relationship)
    /// An attribute of a relationship's destination.
    case related(ResolvedEntity.Relationship, key: String, AttributeDescription)

    /// Resolves a column's name.
    ///
    /// - Throws: `QuireError` with code `unknownKey` or `invalidValue`.
    init(_ name: String, in entity: ResolvedEntity, of layout: ResolvedModel) throws {
        if case .attribute(let slot)? = entity.properties[name],
            let attribute = entity.slots[slot].attribute
        {
            self = .attribute(key: name, attribute)
            return
        }
        let parts = name.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
            .map(String.init)
        switch try entity.requireProperty(parts[0]) {
        case .relationship(let index):
            let relationship = entity.relationships[index]
            guard parts.count == 2 else {
                self = .relationship(relationship)
                return
            }
            let destination = layout.destination(of: relationship)
            guard case .attribute(let slot) = try destination.requireProperty(parts[1]),
                let attribute = destination.slots[slot].attribute
            else {
                throw QuireError(
                    .invalidValue,
                    "“\(parts[1])” of \(destination.name) is not an attribute, so that objects cannot "
                        + "be found by it.",
                    entity: destination.name, property: parts[1])
            }
            self = .related(relationship, key: parts[1], attribute)
        case .attribute where parts.count == 2:
            throw QuireError(
                .unknownKey,
                "“\(parts[0])” of \(entity.name) is an attribute, so it has no “\(parts[1])”.",
                entity: entity.name, property: parts[0])
        case .attribute, .composite, .fetched:
            throw QuireError(
                .invalidValue, "“\(name)” of \(entity.name) cannot be imported.",
                entity: entity.name, property: name)
        }
    }

    /// The relationship it is about, if it is about one.
    var relationship: ResolvedEntity.Relationship? {
        switch self {
        case .attribute: nil
        case .relationship(let relationship), .related(let relationship, _, _): relationship
        }
    }
}

extension ImportRow {
    /// Takes in the values of a row, column by column, in order.
    ///
    /// - Parameter values: For each column with a value: its name, what it is, and its values, of which
    ///   attributes and to-one relationships have one. `nil` is no value.
    mutating func add(_ name: String, _ column: ImportColumn, _ values: [AttributeValue]) throws {
        switch column {
        case .attribute(let key, _): attributes[key] = values.first ?? .null
        case .relationship(let relationship):
            try requireOnlyColumn(name, of: relationship)
            let identifiers = values.compactMap {
                if case .string(let identifier) = $0 { identifier } else { nil }
            }
            relationships.append(
                Related(
                    relationship: relationship, column: name,
                    objects: .identifiers(identifiers.joined(separator: ","))))
        case .related(let relationship, let key, _):
            let index = relationships.firstIndex { $0.relationship.index == relationship.index }
            if let index, case .values(var objects) = relationships[index].objects,
                !relationship.isToMany
            {
                let value = values.first ?? .null
                if !objects.isEmpty {
                    objects[0].append((key, value))
                } else if !value.isNull {
                    throw QuireError(
                        .invalidValue,
                        "There is a value here, but none for “\(relationships[index].column)”, "
                            + "which identifies the \(relationship.name).",
                        entity: entity.name, property: relationship.name)
                }
                relationships[index].objects = .values(objects)
                return
            }
            try requireOnlyColumn(name, of: relationship)
            relationships.append(
                Related(
                    relationship: relationship, column: name,
                    objects: .values(values.filter { !$0.isNull }.map { [(key, $0)] })))
        }
    }

    private func requireOnlyColumn(
        _ name: String, of relationship: ResolvedEntity.Relationship
    ) throws {
        if relationships.contains(where: { $0.relationship.index == relationship.index }) {
            throw QuireError(
                .invalidValue,
                "“\(name)” is a second column for the relationship “\(relationship.name)”.",
                entity: entity.name, property: relationship.name)
        }
    }

    /// Checks the attributes by the model's rules, those that the row does not name by their defaults.
    func validate() throws {
        do { try Self.validate(attributes, of: entity) } catch { throw Self.locate(error, place) }
        for relationship in entity.relationships
        where !relationship.description.isOptional
            && (!relationship.isToMany || relationship.description.minimumCount > 0)
        {
            let isThere = relationships.contains {
                $0.leadsSomewhere && $0.relationship.index == relationship.index
            }
            if !isThere {
                throw QuireError(
                    .validation,
                    "\(place): “\(relationship.name)” of \(entity.name) is required but has "
                        + "no object.",
                    entity: entity.name, property: relationship.name)
            }
        }
    }

    /// Checks only the attributes that the row names, because it changes an object that has the others.
    func validateGiven() throws {
        do {
            for (key, value) in attributes {
                guard let attribute = slot(of: key)?.attribute else { continue }
                try attribute.validate(attribute.coerce(value), entity: entity.name)
            }
        } catch { throw Self.locate(error, place) }
    }

    /// Checks the attributes of an object that is to be made.
    static func validate(
        _ attributes: [String: AttributeValue], of entity: ResolvedEntity
    ) throws {
        for slot in entity.slots {
            guard let attribute = slot.attribute, slot.isStored else { continue }
            let value = attributes[slot.name] ?? attribute.defaultValue
            try attribute.validate(attribute.coerce(value), entity: entity.name)
        }
    }

    /// The value that an attribute of the new object gets.
    func value(of key: String) throws -> AttributeValue {
        guard let slot = slot(of: key) else { return .null }
        return try coerce(attributes[key] ?? slot.attribute?.defaultValue ?? .null, for: key)
    }

    /// A value as an attribute keeps it.
    func coerce(_ value: AttributeValue, for key: String) throws -> AttributeValue {
        try slot(of: key)?.attribute?.coerce(value) ?? value
    }

    private func slot(of key: String) -> ResolvedEntity.Slot? {
        guard case .attribute(let slot)? = entity.properties[key] else { return nil }
        return entity.slots[slot]
    }
}

extension ImportRow.Related {
    /// Whether there is at least one object.
    var leadsSomewhere: Bool {
        switch objects {
        case .identifiers(let text): !text.isEmpty
        case .values(let objects): !objects.isEmpty
        }
    }
}
