import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// Reads files that are named on the command line.
enum InputFile {
    /// The content of a file.
    ///
    /// - Throws: `QuireError` with code `notFound` or `inputOutput`.
    static func read(_ path: String) throws -> Data {
        let file = try open(path)
        defer { try? file.close() }
        return try reading(path) { try file.readToEnd() ?? Data() }
    }

    /// A file that can be read from its beginning more than once. A pipe, which cannot, is copied to a temporary
    /// file first, and so is a file in another encoding, as UTF-8. `-` is standard input.
    ///
    /// - Parameters:
    ///   - encoding: The encoding, by a name that iconv knows; `nil` for UTF-8.
    ///   - progress: Counts the bytes that are copied, of an unknown number.
    /// - Throws: `QuireError` with code `notFound`, `invalidFormat`, `inputOutput` or `outOfSpace`.
    static func rereadable(
        _ path: String, encoding: String? = nil, progress: Progress? = nil
    ) throws -> RereadableFile {
        let isStandardInput = path == "-"
        let path = isStandardInput ? "standard input" : path
        let handle = isStandardInput ? FileHandle.standardInput : try open(path)
        defer { if !isStandardInput { try? handle.close() } }
        let file = try OpenFile.duplicate(of: handle.fileDescriptor)
        let converter = try encoding.map { try TextConverter(from: $0, of: path) }
        if converter == nil, try file.information().kind == .regular {
            return RereadableFile(file, path: path)
        }
        let temporary = FileSystem.path(
            FileManager.default.temporaryDirectory.path, "quire-\(UUID().uuidString)")
        let copy = try OpenFile.open(temporary, for: .creating)
        // It goes when it is closed.
        try FileSystem.removeFile(temporary)
        while let block = try reading(
            path, { try handle.read(upToCount: RereadableFile.blockSize) }),
            !block.isEmpty
        {
            if let converter {
                try copy.write(Data(converter.convert([UInt8](block))))
            } else {
                try copy.write(block)
            }
            progress?.completedUnitCount += Int64(block.count)
        }
        if let converter { try converter.finish() }
        return RereadableFile(copy, path: path)
    }

    // Not Data(contentsOf:), which does not read from pipes and devices.
    private static func open(_ path: String) throws -> FileHandle {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            throw QuireError.notFound("file", at: path)
        }
        if isFolder.boolValue {
            throw QuireError(.inputOutput, "“\(path)” is a folder, not a file.", file: path)
        }
        return try reading(path) {
            try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        }
    }

    private static func reading<Result>(
        _ path: String, _ body: () throws -> Result
    ) throws -> Result {
        do {
            return try body()
        } catch {
            throw QuireError(
                .inputOutput,
                "The file “\(path)” cannot be read: \(error.localizedDescription)",
                file: path, underlying: error)
        }
    }
}

/// A file that is read from its beginning more than once, a block at a time.
struct RereadableFile {
    /// The path that errors name.
    let path: String
    private let file: OpenFile

    static let blockSize = 1 << 16

    fileprivate init(_ file: OpenFile, path: String) {
        self.file = file
        self.path = path
    }

    /// Checks that it is not in UTF-16, whose bytes would be taken for names and values with NULs between their letters.
    ///
    /// - Throws: `QuireError` with code `invalidFormat`.
    func requireNotUTF16() throws {
        var start: [UInt8] = [1, 1]
        _ = try start.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
        if start == [0xFF, 0xFE] || start == [0xFE, 0xFF] || start.contains(0) {
            throw QuireError(
                .invalidFormat,
                "“\(path)” is in UTF-16; specify --encoding UTF-16.", file: path)
        }
    }

    /// The bytes from the first on.
    func bytes() -> ByteReader {
        var offset: Int64 = 0
        return ByteReader { [file] in
            let block = try [UInt8](unsafeUninitializedCapacity: Self.blockSize) { buffer, count in
                count = try file.read(into: UnsafeMutableRawBufferPointer(buffer), at: offset)
            }
            offset += Int64(block.count)
            return block
        }
    }
}

// MARK: - Options

/// The options for reading the rows of a text file.
struct RowFileOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The format: csv, tsv, json or jsonl; by default, that of the file's extension.",
            valueName: "FORMAT"))
    var format: ImportRows.Format?

    @Option(help: ArgumentHelp("Field delimiter of a CSV file, such as ';'.", valueName: "C"))
    var delimiter: String?

    @Option(
        help: ArgumentHelp(
            "Encoding of the file, such as latin1 or UTF-16; UTF-8 by default.",
            valueName: "NAME"))
    var encoding: String?

    /// Whether any of the options is specified.
    var isGiven: Bool { format != nil || delimiter != nil || encoding != nil }

    /// The byte between the fields of a CSV file, if it is specified.
    var delimiterByte: UInt8? {
        let text = delimiter == "\\t" ? "\t" : delimiter
        return text?.utf8.count == 1 ? text?.utf8.first : nil
    }

    /// The format of a file; `nil` if neither the options nor its extension determine it.
    func format(of path: String) -> ImportRows.Format? { format ?? .init(path: path) }

    /// - Throws: `ValidationError` if the delimiter cannot be used for a file.
    func validateDelimiter(for path: String) throws {
        guard delimiter != nil else { return }
        let byte = delimiterByte
        guard format(of: path) == .csv, let byte, byte < 0x80, !Array("\"\n\r".utf8).contains(byte)
        else {
            throw ValidationError(
                "--delimiter accepts one ASCII character, and only for CSV files.")
        }
    }

    /// Opens a file, with a progress bar while it is copied.
    ///
    /// - Throws: As ``InputFile/rereadable(_:encoding:progress:)``.
    func open(_ path: String) throws -> RereadableFile {
        try ProgressBar.showing("Reading \(path)", of: .bytes) {
            try InputFile.rereadable(path, encoding: encoding, progress: $0)
        }
    }
}

// MARK: - Encodings

/// Converts text from another encoding to UTF-8, piece by piece.
final class TextConverter {
    private let descriptor: iconv_t
    private let encoding: String
    private let path: String
    /// The bytes of a character that is not complete.
    private var rest: [UInt8] = []
    /// The number of bytes before them.
    private var offset = 0

    /// - Parameters:
    ///   - encoding: A name that iconv knows.
    ///   - path: The file, for errors.
    /// - Throws: `QuireError` with code `invalidValue` if the encoding is unknown.
    init(from encoding: String, of path: String) throws {
        (self.encoding, self.path) = (encoding, path)
        let descriptor = iconv_open("UTF-8", encoding)
        guard let descriptor, Int(bitPattern: descriptor) != -1 else {
            throw QuireError(
                .invalidValue,
                "The encoding “\(encoding)” is unknown; specify a name that “iconv -l” lists, such as latin1, windows-1252 or UTF-16.",
                file: path, value: encoding)
        }
        self.descriptor = descriptor
    }

    deinit { iconv_close(descriptor) }

    /// Converts the next bytes.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` if they are not of the encoding.
    func convert(_ bytes: [UInt8]) throws -> [UInt8] {
        var input = rest + bytes
        // No encoding has longer characters in UTF-8 than four bytes for one.
        var output = [UInt8](repeating: 0, count: input.count * 4 + 16)
        let (consumed, count, failure) = input.withUnsafeMutableBytes { input in
            output.withUnsafeMutableBytes { output in
                var (from, fromCount) = (
                    input.baseAddress?.assumingMemoryBound(to: CChar.self), input.count
                )
                var (to, toCount) = (
                    output.baseAddress?.assumingMemoryBound(to: CChar.self), output.count
                )
                let result = iconv(descriptor, &from, &fromCount, &to, &toCount)
                let failure = result == -1 ? errno : 0
                return (input.count - fromCount, output.count - toCount, failure)
            }
        }
        if failure == EILSEQ {
            throw QuireError(
                .invalidFormat,
                "“\(path)” is not in the encoding \(encoding): byte \(offset + consumed) is not valid.",
                file: path)
        }
        rest = Array(input[consumed...])
        offset += consumed
        return Array(output[..<count])
    }

    /// Ends the text.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` if it ends in the middle of a character.
    func finish() throws {
        if rest.isEmpty { return }
        throw QuireError(
            .invalidFormat, "“\(path)” ends in the middle of a character of \(encoding).",
            file: path)
    }
}
