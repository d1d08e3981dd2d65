import Quire
import QuireDocuments

/// Rows, printed as they come in the format of an output.
///
/// A row has texts to read, which tables and Markdown show, and the members of a JSON object, which the other formats have. CSV
/// and TSV have a column for each member that is named, with the value as in JSON: nothing is shortened or counted.
struct RowOutput {
    private var writer: any RowWriter

    /// Begins to print rows.
    ///
    /// - Parameters:
    ///   - columns: The names and sides of the texts.
    ///   - members: The names of the columns of CSV and TSV. With a dot it is the member of a nested object.
    ///   - sentence: Printed instead of a table without rows.
    ///   - isList: Whether a table needs no header, and is read line by line, so that nothing is cut.
    init(
        _ columns: [TextTable.Column], members: [String], ifEmpty sentence: String? = nil,
        isList: Bool = false, to output: Output
    ) {
        switch output.format {
        case .table:
            writer = TableOutput(columns, ifEmpty: sentence, isList: isList, to: output)
        case .markdown: writer = MarkdownOutput(columns: columns, output: output)
        case .csv: writer = DelimitedOutput(members, delimiter: ",", to: output)
        case .tsv: writer = DelimitedOutput(members, delimiter: "\t", to: output)
        case .json: writer = JSONArrayOutput(to: output)
        case .jsonl: writer = JSONLinesOutput(output: output)
        }
    }

    /// Prints a row. Only what the format shows is computed.
    ///
    /// - Parameter fields: The values of the columns of CSV and TSV, if they need not be looked up among the members.
    mutating func add(
        _ texts: @autoclosure () throws -> [String], _ members: @autoclosure () throws -> JSONValue,
        fields: @autoclosure () throws -> [JSONValue?]? = nil
    ) throws {
        try writer.add(texts, members, fields)
    }

    /// Completes the output. Call it after the last row.
    mutating func finish() throws { try writer.finish() }
}

extension Output {
    /// Prints a row for each element of a list.
    ///
    /// - Parameters:
    ///   - columns: The names and sides of the texts; the other parameters are those of ``RowOutput``.
    ///   - row: The texts of an element, and its JSON object.
    func printRows<Element>(
        of elements: [Element], _ columns: [TextTable.Column], members: [String],
        ifEmpty sentence: String? = nil, isList: Bool = false,
        _ row: (Element) throws -> (texts: [String], members: JSONValue)
    ) throws {
        var rows = RowOutput(columns, members: members, ifEmpty: sentence, isList: isList, to: self)
        for element in elements {
            let (texts, members) = try row(element)
            try rows.add(texts, members)
        }
        try rows.finish()
    }
}

/// Prints rows in one format.
protocol RowWriter {
    typealias Texts = () throws -> [String]
    typealias Members = () throws -> JSONValue
    typealias Fields = () throws -> [JSONValue?]?

    mutating func add(_ texts: Texts, _ members: Members, _ fields: Fields) throws
    mutating func finish() throws
}

// MARK: - CSV and TSV

/// Rows as lines of values between commas or tabs (RFC 4180, but lines end in LF).
///
/// A missing value is nothing, and an empty text is `""`. A list of values is separated by semicolons, as `import` reads it; other
/// lists and objects are JSON.
private struct DelimitedOutput: RowWriter {
    let names: [String]
    let delimiter: UInt8
    let output: Output
    private var isBegun = false
    private var line: [UInt8] = []

    init(_ names: [String], delimiter: Unicode.Scalar, to output: Output) {
        self.names = names
        self.delimiter = UInt8(ascii: delimiter)
        self.output = output
    }

    mutating func add(_ texts: Texts, _ members: Members, _ fields: Fields) throws {
        try begin()
        if let fields = try fields() {
            try print(fields.lazy.map(Self.text))
        } else {
            let row = try members()
            try print(names.lazy.map { Self.text(row.member($0)) })
        }
    }

    mutating func finish() throws { try begin() }

    private mutating func begin() throws {
        if !isBegun, output.hasHeader { try print(names) }
        isBegun = true
    }

    private mutating func print(_ fields: some Sequence<String?>) throws {
        line.removeAll(keepingCapacity: true)
        for (index, field) in fields.enumerated() {
            if index > 0 { line.append(delimiter) }
            if let field { CSVField.append(field, delimiter: delimiter, to: &line) }
        }
        line.append(UInt8(ascii: "\n"))
        try output.print(exactly: line)
    }

    /// A value as a text, or `nil` for none.
    private static func text(_ value: JSONValue?) -> String? {
        switch value {
        case nil, .null: return nil
        case .string(let text): return text
        case .integer(let number): return String(number)
        case .double(let number) where !number.isFinite:
            // JSON has it as a string.
            return value.map { String($0.text().dropFirst().dropLast()) }
        case .array(let elements):
            let isList = elements.allSatisfy {
                switch $0 {
                case .array, .object, .null: false
                case .string, .integer, .double, .boolean: true
                }
            }
            if elements.isEmpty { return nil }
            return isList ? elements.compactMap(text).joined(separator: ";") : value?.text()
        case let value?: return value.text()
        }
    }
}

extension JSONValue {
    /// A member of an object, or of an object in it: `place.latitude`.
    fileprivate func member(_ name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        if let value = members[name] { return value }
        var end = name.endIndex
        while let dot = name[..<end].lastIndex(of: ".") {
            if let value = members[String(name[..<dot])] {
                return value.member(String(name[name.index(after: dot)...]))
            }
            end = dot
        }
        return nil
    }
}

// MARK: - JSON

/// Rows as an array of JSON objects, each on its line.
struct JSONArrayOutput: RowWriter {
    private let output: Output
    private let lineEnd: String
    private let ending: String
    private var isBegun = false

    init(to output: Output, indentation: Int = 0, ending: String = "\n") {
        self.output = output
        self.ending = ending
        lineEnd = output.compact ? "" : "\n" + String(repeating: " ", count: indentation)
    }

    mutating func add(_ texts: Texts, _ members: Members, _ fields: Fields) throws {
        try add(members())
    }

    mutating func add(_ element: JSONValue) throws {
        let separator = isBegun ? output.compact ? ", " : "," : "["
        isBegun = true
        try output.print(raw: separator + lineEnd + (output.compact ? "" : "  "))
        try output.print(raw: element)
    }

    mutating func finish() throws {
        try output.print(raw: (isBegun ? lineEnd : "[") + "]" + ending)
    }
}

extension Output {
    /// Prints an array of JSON objects one by one.
    func printList(
        indentation: Int = 0, ending: String = "\n",
        _ body: ((JSONValue) throws -> Void) throws -> Void
    ) throws {
        var array = JSONArrayOutput(to: self, indentation: indentation, ending: ending)
        try body { try array.add($0) }
        try array.finish()
    }
}

/// Rows as JSON objects, one a line.
private struct JSONLinesOutput: RowWriter {
    let output: Output

    mutating func add(_ texts: Texts, _ members: Members, _ fields: Fields) throws {
        try output.print(raw: members())
        try output.print(raw: "\n")
    }

    mutating func finish() {}
}

// MARK: - Markdown

/// Rows as a table of GitHub Flavored Markdown. Its columns are not aligned, because rows are printed as they come.
private struct MarkdownOutput: RowWriter {
    let columns: [TextTable.Column]
    let output: Output
    private var isBegun = false

    init(columns: [TextTable.Column], output: Output) {
        self.columns = columns
        self.output = output
    }

    mutating func add(_ texts: Texts, _ members: Members, _ fields: Fields) throws {
        try begin()
        try print(texts().map(Self.escaped))
    }

    mutating func finish() throws { try begin() }

    private mutating func begin() throws {
        if isBegun { return }
        isBegun = true
        try print(columns.map { Self.escaped($0.name) })
        try print(columns.map { $0.alignment == .right ? "---:" : "---" })
    }

    private func print(_ cells: [String]) throws {
        try output.print(raw: "| " + cells.joined(separator: " | ") + " |\n")
    }

    /// A text without what ends a cell or a line, or is HTML.
    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for character in text {
            switch character {
            case "\\", "|": escaped += "\\" + String(character)
            case "<": escaped += "&lt;"
            case "\n", "\r", "\r\n": escaped += "<br>"
            case "\t": escaped += " "
            default: escaped.append(character)
            }
        }
        return escaped
    }
}
