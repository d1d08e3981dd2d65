import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// The rows of a file, or of a table of a database, to import, read one after the other, as often as they are asked for.
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

    /// The source of rows.
    enum Source {
        /// - Parameter delimiter: The byte between fields, if it is not that of the format.
        case file(RereadableFile, Format, delimiter: UInt8? = nil)
        /// Columns of a table, each with a name for the import.
        ///
        /// - Parameter isJoin: Whether rows in which a column has no value are left out.
        case table(
            DatabaseTables, String, [(name: String, column: String)], isJoin: Bool = false)
    }

    let source: Source
    let entity: ResolvedEntity
    let layout: ResolvedModel
    /// The properties that columns or members stand for, by entity. For objects in other objects the empty name is the
    /// attribute of a value that is no object.
    var mappings: [String: [String: String]] = [:]
    /// The columns and members that are not imported, by entity.
    var ignored: [String: Set<String>] = [:]
    /// Whether a number or a truth value in JSON may be the value of a text.
    var readsNumbersAsTexts = false

    /// The properties that columns of the rows stand for.
    var mapping: [String: String] { mappings[entity.name] ?? [:] }

    /// The path that errors name.
    var path: String {
        switch source {
        case .file(let file, _, _): file.path
        case .table(let database, _, _, _): database.path
        }
    }

    /// Calls a closure with each row, of which one at a time is in memory.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` or `invalidValue`, naming file, line and column; or what the closure
    ///   throws.
    func forEach(_ body: (ImportRow) throws -> Void) throws {
        switch source {
        case .table(let database, let table, let columns, let isJoin):
            try forEachOfTable(database, table, columns, isJoin, body)
        case .file(let file, let format, let delimiter):
            try file.requireNotUTF16()
            switch format {
            case .tsv: try forEachOfCSV(file, delimiter ?? UInt8(ascii: "\t"), body)
            case .csv: try forEachOfCSV(file, delimiter ?? UInt8(ascii: ","), body)
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
    }

    // MARK: - Tables

    private func forEachOfTable(
        _ database: DatabaseTables, _ table: String, _ columns: [(name: String, column: String)],
        _ isJoin: Bool, _ body: (ImportRow) throws -> Void
    ) throws {
        let place = "\(database.path), table “\(table)”"
        try checkMapping(among: columns.map(\.name), place)
        let resolved = try columns.map { name, _ in
            do { return try ImportColumn(mapping[name] ?? name, in: entity, of: layout) } catch {
                throw ImportRow.locate(error, place, column: name)
            }
        }
        var number = 0
        try database.forEachRow(of: table, columns.map(\.column), isJoin: isJoin) { values in
            number += 1
            var row = ImportRow(entity: entity, place: "\(place), row \(number)")
            for (index, value) in values.enumerated() {
                do {
                    try row.add(
                        columns[index].name, resolved[index],
                        Self.values(of: value, for: resolved[index]))
                } catch {
                    throw ImportRow.locate(error, row.place, column: columns[index].name)
                }
            }
            try body(row)
        }
    }

    /// The values of a column of a table.
    private static func values(
        of value: AttributeValue, for column: ImportColumn
    ) throws -> [AttributeValue] {
        switch column {
        case .attribute(_, let attribute):
            return [try AttributeValue(column: value, as: attribute)]
        case .relationship:
            if value.isNull { return [] }
            return split(value.text(as: .string) ?? "").map { .string($0) }
        case .related(let relationship, _, let attribute):
            if value.isNull { return relationship.isToMany ? [] : [.null] }
            return [try AttributeValue(column: value, as: attribute)]
        }
    }

    /// Checks that the columns of a mapping exist.
    private func checkMapping(among names: [String], _ place: String) throws {
        guard let name = mapping.keys.sorted().first(where: { !names.contains($0) }) else { return }
        throw QuireError(
            .invalidFormat,
            "\(place): the column “\(name)” of --map does not exist; \(CloseNames.advice(for: name, among: names, "the columns are"))",
            file: path, position: 1)
    }

    // MARK: - CSV

    private func forEachOfCSV(
        _ file: RereadableFile, _ delimiter: UInt8, _ body: (ImportRow) throws -> Void
    ) throws {
        var reader = try CSVReader(file.bytes(), file: path, delimiter: delimiter)
        let header = CSVHeader(try reader.header(), of: entity, mapping)
        try checkMapping(among: header.written, "\(path), line 1")
        let ignored = ignored[entity.name] ?? []
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
                if ignored.contains(header.written[index]) { continue }
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
        let place = "\(path), line 1"
        var known: Set<String> = []
        return try header.texts.enumerated().map { index, text in
            guard known.insert(text).inserted else {
                throw QuireError(
                    .invalidFormat, "\(place): the column “\(text)” occurs twice.",
                    file: path, position: 1)
            }
            if index == header.entityIndex || ignored[self.entity.name]?.contains(text) == true {
                return nil
            }
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

    /// The row of an element of the array, or of an object in another.
    private func row(of element: JSONNode, in parent: ResolvedEntity? = nil) throws -> ImportRow {
        let place = "\(path), line \(element.line)"
        guard case .object(let members) = element.content else {
            throw QuireError(
                .invalidFormat, "\(place): expected an object, but found \(element.kind).",
                file: path, position: element.line)
        }
        var entity = parent ?? entity
        if parent == nil, entity.properties["entity"] == nil,
            case .string(let name)? = element["entity"]?.content
        {
            entity = try concreteEntity(named: name, place: place)
        }
        let mapping = mappings[entity.name] ?? (parent == nil ? self.mapping : [:])
        let ignored = ignored[entity.name] ?? []
        var row = ImportRow(entity: entity, place: place)
        for member in members where !ignored.contains(member.name) {
            guard let name = mapping[member.name] ?? Self.propertyName(of: member, in: entity)
            else { continue }
            do {
                if case .composite(let slots)? = entity.properties[name] {
                    try Self.addElements(slots, of: name, from: member.value, to: &row)
                    continue
                }
                let column = try ImportColumn(name, in: entity, of: layout)
                if case .relationship(let relationship) = column,
                    let rows = try nestedRows(of: member.value, for: relationship)
                {
                    try row.add(rows, to: relationship, name)
                } else {
                    try row.add(name, column, values(of: member.value, for: column))
                }
            } catch let error as QuireError where error.subject.file == path {
                throw error
            } catch {
                throw ImportRow.locate(
                    error, "\(path), line \(member.value.line)", column: name)
            }
        }
        return row
    }

    /// The rows of objects, and of the values that stand for objects, in a member; `nil` if it has identifiers.
    private func nestedRows(
        of node: JSONNode, for relationship: ResolvedEntity.Relationship
    ) throws -> [ImportRow]? {
        let destination = layout.destination(of: relationship)
        let value = mappings[destination.name]?[""]
        let elements = try Self.list(node)
        let hasObjects = elements.contains { if case .object = $0.content { true } else { false } }
        guard hasObjects || value != nil else { return nil }
        return try elements.compactMap { element in
            if case .null = element.content { return nil }
            guard let value else { return try row(of: element, in: destination) }
            let column = try ImportColumn(value, in: destination, of: layout)
            var row = ImportRow(entity: destination, place: "\(path), line \(element.line)")
            try row.add(value, column, values(of: element, for: column))
            return row
        }
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
        default: throw wrong(node, expected: "an object with the elements")
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
            default: throw wrong(member.value, expected: "an object with the elements")
            }
            try requireElements(names, at: name, of: member.value, in: entity)
        }
    }

    private func values(
        of node: JSONNode, for column: ImportColumn
    ) throws -> [AttributeValue] {
        switch column {
        case .attribute(_, let attribute): return [try value(of: node, as: attribute)]
        case .relationship:
            return try Self.list(node).map { node in
                guard case .string(let text) = node.content else {
                    throw Self.wrong(node, expected: "an identifier")
                }
                return .string(text)
            }
        case .related(_, _, let attribute):
            return try Self.list(node).map { try value(of: $0, as: attribute) }
        }
    }

    private func value(
        of node: JSONNode, as attribute: AttributeDescription
    ) throws -> AttributeValue {
        if readsNumbersAsTexts, attribute.type == .string {
            switch node.content {
            case .number(let digits): return .string(digits)
            case .boolean(let truth): return .string(truth ? "true" : "false")
            default: break
            }
        }
        return try AttributeValue(node, as: attribute)
    }

    private static func list(_ node: JSONNode) throws -> [JSONNode] {
        switch node.content {
        case .null: []
        case .array(let elements): elements
        default: [node]
        }
    }

    private static func wrong(_ node: JSONNode, expected: String) -> QuireError {
        QuireError(.invalidValue, "Expected \(expected), but found \(node.kind).")
    }
}
