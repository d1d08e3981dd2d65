import Foundation
import Quire

/// Reads a CSV text (RFC 4180) strictly: commas, rows of equal length, quotation marks only around a whole
/// field and doubled within it, lines that end in LF or CR LF, UTF-8 with or without a byte order mark.
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

    private let bytes: [UInt8]
    private let file: String
    private var position = 0
    private var line = 1

    /// Reads all rows. Empty lines at the end are left out.
    ///
    /// - Parameter file: The name to give the text in errors.
    /// - Throws: `QuireError` with code `invalidFormat`, which says the line.
    static func read(_ data: Data, file: String) throws -> [Row] {
        var reader = CSVReader(bytes: Array(data), file: file)
        if reader.bytes.starts(with: [0xEF, 0xBB, 0xBF]) { reader.position = 3 }
        var rows: [Row] = []
        while reader.position < reader.bytes.count {
            if reader.isAtBlankEnd { break }
            let row = try reader.row()
            if let first = rows.first, row.fields.count != first.fields.count {
                throw reader.error(
                    "there \(row.fields.count == 1 ? "is" : "are") "
                        + "\(Count.of(row.fields.count, "field")) where the header has "
                        + "\(first.fields.count)", line: row.line)
            }
            rows.append(row)
        }
        return rows
    }

    private init(bytes: [UInt8], file: String) {
        self.bytes = bytes
        self.file = file
    }

    private var isAtBlankEnd: Bool {
        bytes[position...].allSatisfy { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }
    }

    private func error(_ sentence: String, line: Int) -> QuireError {
        QuireError(
            .invalidFormat, "\(file), line \(line): \(sentence).",
            subject: .init(file: file, position: line))
    }

    private mutating func row() throws -> Row {
        let start = line
        var fields: [Field] = []
        while true {
            fields.append(try field(number: fields.count + 1))
            guard position < bytes.count else { return Row(fields: fields, line: start) }
            switch bytes[position] {
            case UInt8(ascii: ","): position += 1
            default:
                // `field` stops at a comma, at a line end or at the end of the text.
                position += bytes[position] == UInt8(ascii: "\r") ? 2 : 1
                line += 1
                return Row(fields: fields, line: start)
            }
        }
    }

    private mutating func field(number: Int) throws -> Field {
        if position < bytes.count, bytes[position] == UInt8(ascii: "\"") {
            return Field(text: try quoted(number: number), isQuoted: true)
        }
        let start = position
        while position < bytes.count, bytes[position] != UInt8(ascii: ","), !isAtLineEnd {
            if bytes[position] == UInt8(ascii: "\"") {
                throw error(
                    "field \(number) has a quotation mark inside; put the whole field in quotation "
                        + "marks and double this one", line: line)
            }
            if bytes[position] == UInt8(ascii: "\r") {
                throw error(
                    "field \(number) has a carriage return without a line feed", line: line)
            }
            position += 1
        }
        return Field(
            text: try text(of: Array(bytes[start..<position]), number: number, line: line),
            isQuoted: false)
    }

    private var isAtLineEnd: Bool {
        bytes[position] == UInt8(ascii: "\n")
            || bytes[position] == UInt8(ascii: "\r") && position + 1 < bytes.count
                && bytes[position + 1] == UInt8(ascii: "\n")
    }

    private mutating func quoted(number: Int) throws -> String {
        let start = line
        var content: [UInt8] = []
        position += 1
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            if byte != UInt8(ascii: "\"") {
                if byte == UInt8(ascii: "\n") { line += 1 }
                content.append(byte)
                continue
            }
            if position < bytes.count, bytes[position] == UInt8(ascii: "\"") {
                content.append(byte)
                position += 1
                continue
            }
            guard position == bytes.count || bytes[position] == UInt8(ascii: ",") || isAtLineEnd
            else {
                throw error(
                    "field \(number) goes on after its closing quotation mark", line: line)
            }
            return try text(of: content, number: number, line: start)
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
