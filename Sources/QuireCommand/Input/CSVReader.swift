import Quire
import QuireDocuments

/// Reads a CSV text (RFC 4180) strictly: one delimiter, rows of equal length, quotation marks only around a whole
/// field and doubled within it, lines that end in LF or CR LF, UTF-8 with or without a byte order mark. One row at a
/// time is in memory.
///
/// SwiftCSV (0.10) was considered. It takes rows of any length and a text without its closing quotation mark,
/// drops spaces at the start of a field, and its errors do not say where they are; an import has to name the
/// line.
struct CSVReader {
    /// A field and where it stands.
    struct Field: Equatable {
        var text: String
        /// Whether it was within quotation marks, which tells an empty text from no value.
        var isQuoted: Bool
    }

    /// A row and where it begins.
    struct Row: Equatable {
        var fields: [Field]
        /// The line of its first character, from 1. A field may hold line ends.
        var line: Int
    }

    private var bytes: ByteReader
    private let file: String
    private let delimiter: UInt8
    private var line = 1
    /// The number of fields in the first row.
    private var width: Int?

    /// Reads rows from the first byte on.
    ///
    /// - Parameters:
    ///   - file: The name to give the text in errors.
    ///   - delimiter: The byte between fields, an ASCII character.
    init(_ bytes: ByteReader, file: String, delimiter: UInt8 = UInt8(ascii: ",")) throws {
        self.bytes = bytes
        self.file = file
        self.delimiter = delimiter
        try self.bytes.skipByteOrderMark()
    }

    /// The first row, which names the columns.
    ///
    /// - Throws: As ``next()``, and if the file is empty.
    mutating func header() throws -> Row {
        if let row = try next() { return row }
        throw error("the line with the column names is missing", line: 1)
    }

    /// The next row; `nil` after the last. Empty lines at the end are left out.
    ///
    /// - Throws: `QuireError` with code `invalidFormat`, which says the line.
    mutating func next() throws -> Row? {
        if emptyLines > 0 {
            emptyLines -= 1
            return try checked(Row(fields: [Self.emptyField], line: line - emptyLines - 1))
        }
        let start = line
        // Empty lines are rows if anything comes after them.
        while try takeLineEnd() {}
        if try bytes.peek() == nil { return nil }
        if line > start {
            emptyLines = line - start - 1
            return try checked(Row(fields: [Self.emptyField], line: start))
        }
        return try checked(row())
    }

    /// Empty lines that have been passed over and are yet to be given as rows.
    private var emptyLines = 0
    private static let emptyField = Field(text: "", isQuoted: false)

    private mutating func checked(_ row: Row) throws -> Row {
        let width = self.width ?? row.fields.count
        self.width = width
        guard row.fields.count == width else {
            throw error(
                "the row has \(Count.of(row.fields.count, "field")), but the header has \(width)",
                line: row.line)
        }
        return row
    }

    private func error(_ sentence: String, line: Int) -> QuireError {
        QuireError(
            .invalidFormat, "\(file), line \(line): \(sentence).", file: file, position: line)
    }

    /// Takes a line end, LF or CR LF, if one is here.
    ///
    /// - Throws: If there is a carriage return without a line feed.
    private mutating func takeLineEnd(number: Int = 1) throws -> Bool {
        switch try bytes.peek() {
        case UInt8(ascii: "\n"): bytes.skip()
        case UInt8(ascii: "\r"):
            bytes.skip()
            guard try bytes.peek() == UInt8(ascii: "\n") else {
                throw error(
                    "field \(number) has a carriage return without a line feed", line: line)
            }
            bytes.skip()
        default: return false
        }
        line += 1
        return true
    }

    private mutating func row() throws -> Row {
        let start = line
        var fields: [Field] = []
        size = 0
        while true {
            let number = fields.count + 1
            if number > Self.maximumCount {
                throw error("the row has more than \(Self.maximumCount) fields", line: start)
            }
            fields.append(try field(number: number))
            // `field` stops at a delimiter, at a line end or at the end of the text.
            if try bytes.peek() == delimiter {
                bytes.skip()
            } else {
                _ = try takeLineEnd(number: number)
                return Row(fields: fields, line: start)
            }
        }
    }

    private mutating func field(number: Int) throws -> Field {
        if try bytes.peek() == UInt8(ascii: "\"") {
            return Field(text: try quoted(number: number), isQuoted: true)
        }
        var content: [UInt8] = []
        while let byte = try bytes.peek(), byte != delimiter, byte != UInt8(ascii: "\n"),
            byte != UInt8(ascii: "\r")
        {
            if byte == UInt8(ascii: "\"") {
                throw error(
                    "field \(number) has a quotation mark inside; put the whole field in quotation "
                        + "marks and double this one", line: line)
            }
            bytes.skip()
            try append(byte, to: &content, number: number)
        }
        return Field(text: try text(of: content, number: number, line: line), isQuoted: false)
    }

    /// The limits on the bytes of a row, the bytes of a column's name, and the number of columns: a file without line ends must not
    /// fill the memory.
    private static let (maximumSize, maximumNameSize, maximumCount) = (1 << 30, 1000, 32_767)
    /// The number of bytes in the row.
    private var size = 0

    private mutating func append(_ byte: UInt8, to content: inout [UInt8], number: Int) throws {
        size += 1
        if width == nil, content.count == Self.maximumNameSize {
            throw error(
                "the name of column \(number) is longer than \(Self.maximumNameSize) bytes; check the format and the delimiter",
                line: line)
        }
        if size > Self.maximumSize { throw error("the row is longer than 1 GiB", line: line) }
        content.append(byte)
    }

    private mutating func quoted(number: Int) throws -> String {
        let start = line
        var content: [UInt8] = []
        bytes.skip()
        while let byte = try bytes.peek() {
            bytes.skip()
            if byte != UInt8(ascii: "\"") {
                if byte == UInt8(ascii: "\n") { line += 1 }
                try append(byte, to: &content, number: number)
                continue
            }
            switch try bytes.peek() {
            case UInt8(ascii: "\""):
                bytes.skip()
                try append(byte, to: &content, number: number)
            case nil, delimiter, UInt8(ascii: "\n"), UInt8(ascii: "\r"):
                return try text(of: content, number: number, line: start)
            default:
                throw error(
                    "field \(number) continues after its closing quotation mark", line: line)
            }
        }
        throw error("field \(number) has no closing quotation mark", line: start)
    }

    private func text(of bytes: [UInt8], number: Int, line: Int) throws -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw error("field \(number) is not valid UTF-8", line: line)
        }
        return text
    }
}
