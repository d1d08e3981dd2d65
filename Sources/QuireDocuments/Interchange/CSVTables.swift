import Foundation
import Quire
import QuireSQLite

/// Writes tables as CSV files, of the rows of a plain database (``DatabaseExport``), which is built in the same folder first:
/// so they have its keys, names, positions and join tables.
///
/// - `Book.csv` has the objects of the entity `Book` itself, in the order of `id`; those of sub-entities are in their own files.
///   `Book_tags.csv` is a join table.
/// - The files are UTF-8 without byte order mark, their lines end in CR LF, and the first one has the names of the columns. A
///   missing value is nothing; an empty text is `""`.
/// - Truth values are `true` and `false`, infinities `INF` and `-INF`. Other values are the texts of the database.
/// - A foreign key to an entity whose objects are in several files is not declared in the description.
struct CSVTables {
    private let export: TableExport
    private let folder: String

    init(_ export: TableExport, folder: String) {
        self.export = export
        self.folder = folder
    }

    /// Writes the files.
    ///
    /// - Returns: Their descriptions.
    func write() throws -> [JSONValue] {
        let path = FileSystem.path(folder, "tables.sqlite")
        var database = DatabaseExport(
            store: export.store, destination: export.destination, progress: export.progress)
        database.passes = 2
        try database.write(to: path)
        defer { _ = try? FileSystem.removeFileIfPresent(path) }
        do {
            let connection = try SQLiteConnection(path: path, mode: .immutable)
            defer { connection.close() }
            return try writeFiles(from: connection)
        } catch let failure as SQLiteFailure {
            throw failure.error(path: path)
        }
    }

    private func writeFiles(from connection: SQLiteConnection) throws -> [JSONValue] {
        let schema = try RelationalSchema(export.store)
        var names = UniqueNames()
        let files = try export.files(&names)
        let joins = schema.joinTables.map { ($0, names.add($0.name)) }
        let resources = TableDescription.resourceNames(files.map(\.name) + joins.map(\.1))
        let entities = Dictionary(
            uniqueKeysWithValues: files.map { ($0.entity.number, resources[$0.name] ?? "") })
        var descriptions: [JSONValue] = []
        for (entity, file) in files {
            let table = schema.table(of: entity)
            var columns = [Column(name: "id", source: "id", kind: .integer)]
            columns += schema.ownColumns(of: entity).map {
                Column(named: $0.name, table.columns[$0.column])
            }
            try write(
                columns, file: file, table: table.name,
                condition: table.hasEntityColumn ? "WHERE \"entity\" = '\(entity.name)'" : "",
                order: ["id"], countsProgress: true, from: connection)
            descriptions.append(
                TableDescription.resource(
                    resources[file] ?? "", file: file, format: .csv, title: entity.name,
                    fields: columns.map(\.field), primaryKey: .string("id"),
                    foreignKeys: columns.compactMap { column in
                        column.destination.flatMap {
                            TableDescription.foreignKey(column.name, to: $0, entities)
                        }
                    }))
        }
        for (join, file) in joins {
            let keys = [(join.ownerColumn, join.entity), (join.memberColumn, join.destination)]
            let positions = [join.ownerPositionColumn, join.memberPositionColumn]
                .compactMap(\.self)
            let columns = (keys.map(\.0) + positions).map {
                Column(name: $0, source: $0, kind: .integer)
            }
            try write(
                columns, file: file, table: join.name, condition: "",
                order: [join.ownerColumn, join.ownerPositionColumn, join.memberColumn]
                    .compactMap(\.self), countsProgress: false, from: connection)
            descriptions.append(
                TableDescription.resource(
                    resources[file] ?? "", file: file, format: .csv,
                    title: "\(join.entity.name).\(join.relationship.name)",
                    fields: columns.map(\.field),
                    primaryKey: .array(keys.map { .string($0.0) }),
                    foreignKeys: keys.compactMap {
                        TableDescription.foreignKey($0.0, to: $0.1, entities)
                    }))
        }
        return descriptions
    }

    // MARK: - Files

    private func write(
        _ columns: [Column], file name: String, table: String, condition: String, order: [String],
        countsProgress: Bool, from connection: SQLiteConnection
    ) throws {
        let file = try TableFile(at: FileSystem.path(folder, name + ".csv"))
        try file.write { bytes in
            for (index, column) in columns.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                CSVField.append(column.name, to: &bytes)
            }
            bytes += "\r\n".utf8
        }
        let selection = columns.map(\.selection).joined(separator: ", ")
        let ordering = order.map(RelationalSchema.quoted).joined(separator: ", ")
        var count: Int64 = 0
        try connection.forEachRow(
            "SELECT \(selection) FROM \(RelationalSchema.quoted(table)) \(condition) ORDER BY \(ordering)"
        ) { row in
            count += 1
            if count & 0x7F == 0 {
                try export.checkCancelled()
                if countsProgress { export.progress?.completedUnitCount += 0x80 }
            }
            try file.write { bytes in
                var index: Int32 = 0
                for (position, column) in columns.enumerated() {
                    if position > 0 { bytes.append(UInt8(ascii: ",")) }
                    if case .binary = column.kind {
                        try appendBytes(of: column, row, at: index, table, name, connection, &bytes)
                        index += 1
                    } else if !row.isNull(index) {
                        Self.append(column.kind, row, at: index, to: &bytes)
                    }
                    index += 1
                }
                bytes += "\r\n".utf8
            }
        }
        try file.finish()
        if countsProgress { export.progress?.completedUnitCount += count & 0x7F }
    }

    private static func append(
        _ kind: Column.Kind, _ row: SQLiteStatement, at index: Int32, to bytes: inout [UInt8]
    ) {
        switch kind {
        case .integer: bytes += String(row.integer(index)).utf8
        case .boolean: bytes += (row.integer(index) == 0 ? "false" : "true").utf8
        case .number(let type):
            let number = row.double(index)
            let text = AttributeValue.double(number).text(as: type) ?? ""
            bytes += (number.isInfinite ? (number < 0 ? "-INF" : "INF") : text).utf8
        case .text: CSVField.append(row.text(index), to: &bytes)
        case .binary: break
        }
    }

    /// Adds a binary value, or the path of its file.
    private func appendBytes(
        of column: Column, _ row: SQLiteStatement, at index: Int32, _ table: String, _ file: String,
        _ connection: SQLiteConnection, _ bytes: inout [UInt8]
    ) throws {
        if row.isNull(index + 1) { return }
        guard row.isNull(index) else {
            return CSVField.append(row.data(index).base64EncodedString(), to: &bytes)
        }
        let key = row.integer(0)
        let path = try export.writeValue(
            of: column.name, row: key, table: file, in: folder
        ) { write in
            try SQLiteBlob(connection, table: table, column: column.source, row: key)
                .forEachBlock(write)
        }
        CSVField.append(path, to: &bytes)
    }
}

// MARK: - Fields

/// A field of a CSV file.
package enum CSVField {
    /// Adds a field, within quotation marks if it is empty, or has a character that means something in CSV, or a space at an end.
    ///
    /// - Parameter delimiter: The byte between fields.
    package static func append(
        _ text: String, delimiter: UInt8 = UInt8(ascii: ","), to bytes: inout [UInt8]
    ) {
        var text = text
        text.withUTF8 { text in
            guard let first = text.first, let last = text.last, first > 0x20, last > 0x20,
                !text.contains(where: {
                    $0 == delimiter || $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\n")
                        || $0 == UInt8(ascii: "\r")
                })
            else {
                bytes.append(UInt8(ascii: "\""))
                for byte in text {
                    if byte == UInt8(ascii: "\"") { bytes.append(byte) }
                    bytes.append(byte)
                }
                bytes.append(UInt8(ascii: "\""))
                return
            }
            bytes += text
        }
    }
}

// MARK: - Columns

extension CSVTables {
    /// A column of a file.
    private struct Column {
        enum Kind {
            case integer, boolean, text, binary
            case number(AttributeType)
        }

        var name: String
        /// The name in the database.
        var source: String
        var kind: Kind
        var type: AttributeType?
        var destination: ResolvedEntity?

        init(name: String, source: String, kind: Kind) {
            self.name = name
            self.source = source
            self.kind = kind
        }

        init(named name: String, _ column: RelationalSchema.Column) {
            self.name = name
            source = column.name
            type = column.attributeType
            destination = column.destination
            kind =
                switch column.storage {
                case .integer: column.attributeType == .boolean ? .boolean : .integer
                case .real: .number(column.attributeType ?? .double)
                case .text: .text
                case .blob: .binary
                }
        }

        /// The column in a query: of a binary value two, its bytes if they are not large, and its size.
        var selection: String {
            let name = RelationalSchema.quoted(source)
            guard case .binary = kind else { return name }
            let limit = TableExport.maximumInlineSize
            return "CASE WHEN length(\(name)) <= \(limit) THEN \(name) END, length(\(name))"
        }

        /// The description of the field.
        var field: JSONValue {
            switch type {
            case nil, .integer16, .integer32, .integer64: TableDescription.field(name, "integer")
            case .decimal, .double, .float: TableDescription.field(name, "number")
            case let type?: TableDescription.field(name, type)
            }
        }
    }
}
