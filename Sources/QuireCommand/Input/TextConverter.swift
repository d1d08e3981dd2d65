import Glibc
import Quire

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
