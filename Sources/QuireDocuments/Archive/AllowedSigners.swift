import Foundation
import Quire

/// The keys whose signatures are accepted: a file as OpenSSH has it, described under ALLOWED SIGNERS in ssh-keygen(1).
///
/// ```text
/// # Comments, and lines of principals, options and a key.
/// ada@example.org ssh-ed25519 AAAAC3…
/// *@example.org,!guest@example.org namespaces="quire-archive",valid-before="20300101" ssh-ed25519 AAAAC3…
/// ```
///
/// As in OpenSSH, lines that cannot be read are skipped, and the first line that accepts a key counts. Certificates are not supported, so
/// lines of certificate authorities accept no key.
struct AllowedSigners {
    /// The path of the file.
    let path: String
    private var lines: [Line] = []
    private var unreadableLines: [Int] = []

    private static let maximumSize = 4 << 20

    /// Reads a file.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, or `invalidFormat` if it is larger than 4 MiB.
    init(path: String) throws {
        let data = try OpenFile.open(path, for: .reading).readToEnd(limit: Self.maximumSize)
        self.init(data, path: path)
    }

    /// - Parameter path: The path of the file, for errors.
    init(_ data: Data, path: String) {
        self.path = path
        let rows = Array(data).split(
            separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (index, row) in rows.enumerated() {
            var scanner = LineScanner(row)
            scanner.skipBlanks()
            if scanner.isAtEnd || scanner.next == UInt8(ascii: "#") { continue }
            if let line = Line(&scanner, number: index + 1) {
                lines.append(line)
            } else {
                unreadableLines.append(index + 1)
            }
        }
    }

    /// The principals of a key that is accepted for signatures of archives.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - identity: Who must have signed; `nil` for anyone in the list.
    ///   - date: The time at which the key must be valid.
    ///   - archive: The signed archive, for errors.
    /// - Throws: ``QuireError`` with code `untrustedSignature` if no line accepts the key.
    func principals(
        for key: SSHPublicKey, identity: String?, at date: Date, archive: String
    ) throws -> String {
        var reasons: [String] = []
        for line in lines where line.key == key {
            guard let reason = line.objection(identity: identity, at: date) else {
                return String(decoding: line.principals, as: UTF8.self)
            }
            reasons.append("line \(line.number) \(reason)")
        }
        var message =
            "“\(archive)” is signed with the key \(key.fingerprint), which “\(path)” does not"
        if reasons.isEmpty {
            message += " list"
            if let authority = lines.first(where: \.isAuthority) {
                reasons.append(
                    "line \(authority.number) is a certificate authority, and certificates are not supported"
                )
            }
            if let line = unreadableLines.first { reasons.append("line \(line) cannot be read") }
        } else {
            message += " accept"
        }
        if !reasons.isEmpty { message += ": " + reasons.prefix(3).joined(separator: "; ") }
        throw QuireError(.untrustedSignature, message + ".", file: archive)
    }
}

// MARK: - Lines

/// A key, and what it is accepted for.
private struct Line {
    let number: Int
    let principals: [UInt8]
    private(set) var isAuthority = false
    private var namespaces: [UInt8]?
    private var validAfter: Time?
    private var validBefore: Time?
    private(set) var key: SSHPublicKey?

    private struct Time {
        var text: String
        var date: Date
    }

    /// Parses a line.
    ///
    /// - Returns: `nil` if it is malformed.
    init?(_ scanner: inout LineScanner, number: Int) {
        self.number = number
        guard let principals = scanner.word() else { return nil }
        self.principals = Array(principals)
        scanner.skipBlanks()
        let start = scanner
        if let key = scanner.key() {
            self.key = key
            return
        }
        scanner = start
        guard readOptions(&scanner) else { return nil }
        scanner.skipBlanks()
        guard let key = scanner.key() else { return nil }
        if !isAuthority { self.key = key }
    }

    /// Reads options, which are separated by commas; the names are case-insensitive.
    ///
    /// - Returns: Whether they are valid.
    private mutating func readOptions(_ scanner: inout LineScanner) -> Bool {
        repeat {
            switch scanner.optionName() {
            case "cert-authority": isAuthority = true
            case "namespaces":
                guard namespaces == nil, let value = scanner.quotedValue() else { return false }
                namespaces = value
            case "valid-after":
                guard validAfter == nil, let time = Self.time(scanner.quotedValue()) else {
                    return false
                }
                validAfter = time
            case "valid-before":
                guard validBefore == nil, let time = Self.time(scanner.quotedValue()) else {
                    return false
                }
                validBefore = time
            default: return false
            }
        } while scanner.skip(UInt8(ascii: ","))
        if let validAfter, let validBefore, validBefore.date <= validAfter.date { return false }
        return scanner.isAtBlank
    }

    /// The reason why the key is not accepted, which continues “line 1 …”, or `nil`.
    func objection(identity: String?, at date: Date) -> String? {
        if let identity, !PatternList.matches(Array(identity.utf8), principals) {
            return "is for “\(String(decoding: principals, as: UTF8.self))”, not for “\(identity)”"
        }
        if let namespaces, !PatternList.matches(Array(ArchiveSignature.namespace.utf8), namespaces)
        {
            let list = String(decoding: namespaces, as: UTF8.self)
            return "is for the namespaces “\(list)”, not for “\(ArchiveSignature.namespace)”"
        }
        if let validAfter, date < validAfter.date {
            return "is valid after \(validAfter.text) only"
        }
        if let validBefore, date > validBefore.date {
            return "was valid before \(validBefore.text) only"
        }
        return nil
    }

    /// Parses `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`: local time, or with a Z at the end UTC.
    private static func time(_ value: [UInt8]?) -> Time? {
        guard let value else { return nil }
        var digits = value[...]
        let isUTC = [UInt8(ascii: "Z"), UInt8(ascii: "z")].contains(digits.last)
        if isUTC { digits.removeLast() }
        guard [8, 12, 14].contains(digits.count),
            digits.allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        func number(_ start: Int, _ count: Int) -> Int32 {
            digits.dropFirst(start).prefix(count).reduce(0) { $0 * 10 + Int32($1 - 0x30) }
        }
        var time = tm()
        time.tm_year = number(0, 4) - 1900
        time.tm_mon = number(4, 2) - 1
        time.tm_mday = number(6, 2)
        time.tm_hour = number(8, 2)
        time.tm_min = number(10, 2)
        time.tm_sec = number(12, 2)
        guard (0...11).contains(time.tm_mon), (1...31).contains(time.tm_mday), time.tm_hour < 24,
            time.tm_min < 60, time.tm_sec <= 60
        else { return nil }
        let seconds = isUTC ? timegm(&time) : mktime(&time)
        return Time(
            text: String(decoding: value, as: UTF8.self),
            date: Date(timeIntervalSince1970: TimeInterval(seconds)))
    }
}

/// Reads a line from left to right.
private struct LineScanner {
    private var rest: ArraySlice<UInt8>
    private static let quote = UInt8(ascii: "\"")

    init(_ line: ArraySlice<UInt8>) { rest = line }

    private static func isBlank(_ byte: UInt8) -> Bool {
        [UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r")].contains(byte)
    }

    var isAtEnd: Bool { rest.isEmpty }
    var next: UInt8? { rest.first }
    var isAtBlank: Bool { rest.first.map(Self.isBlank) ?? true }

    mutating func skipBlanks() { rest = rest.drop(while: Self.isBlank) }

    mutating func skip(_ byte: UInt8) -> Bool {
        guard rest.first == byte else { return false }
        rest.removeFirst()
        return true
    }

    private mutating func take(while predicate: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        let taken = rest.prefix(while: predicate)
        rest = rest.dropFirst(taken.count)
        return taken
    }

    /// A word, which may be within quotation marks.
    mutating func word() -> ArraySlice<UInt8>? {
        let isQuoted = skip(Self.quote)
        let word = take { isQuoted ? $0 != Self.quote : !Self.isBlank($0) && $0 != Self.quote }
        guard !word.isEmpty, !isQuoted || skip(Self.quote), isAtBlank else { return nil }
        return word
    }

    /// A key: its type, and its bytes in base64, which begin with the type. A comment may follow.
    mutating func key() -> SSHPublicKey? {
        let type = take { !Self.isBlank($0) }
        skipBlanks()
        let text = take { !Self.isBlank($0) }
        guard let bytes = Data(base64Encoded: Data(text)), let key = SSHPublicKey(bytes),
            key.type.utf8.elementsEqual(type)
        else { return nil }
        return key
    }

    /// The name of an option, in lower case.
    mutating func optionName() -> String {
        let name = take { !Self.isBlank($0) && $0 != UInt8(ascii: "=") && $0 != UInt8(ascii: ",") }
        return String(decoding: name, as: UTF8.self).lowercased()
    }

    /// The value of an option: an equals sign, and a text within quotation marks, in which `\"` is a quotation mark.
    mutating func quotedValue() -> [UInt8]? {
        guard skip(UInt8(ascii: "=")), skip(Self.quote) else { return nil }
        var value: [UInt8] = []
        while let byte = rest.popFirst() {
            if byte == Self.quote { return value }
            let isEscape = byte == UInt8(ascii: "\\") && rest.first == Self.quote
            value.append(isEscape ? rest.removeFirst() : byte)
        }
        return nil
    }
}

// MARK: - Patterns

/// OpenSSH's lists of patterns, described under PATTERNS in ssh_config(5).
enum PatternList {
    /// Whether a text matches a pattern of a list, and none that begins with `!`.
    static func matches(_ text: [UInt8], _ list: [UInt8]) -> Bool {
        var isMatched = false
        for pattern in list.split(separator: UInt8(ascii: ",")) {
            let isNegated = pattern.first == UInt8(ascii: "!")
            if matches(text[...], pattern: pattern.dropFirst(isNegated ? 1 : 0)) {
                if isNegated { return false }
                isMatched = true
            }
        }
        return isMatched
    }

    /// Whether a text matches a pattern, in which `*` is any number of bytes and `?` is one.
    private static func matches(_ text: ArraySlice<UInt8>, pattern: ArraySlice<UInt8>) -> Bool {
        let star = UInt8(ascii: "*")
        var (text, pattern) = (text, pattern)
        // What follows the last star, and the text from which it is tried next: earlier stars need no other try.
        var retry: (pattern: ArraySlice<UInt8>, text: ArraySlice<UInt8>)?
        while true {
            if pattern.first == star {
                pattern.removeFirst()
                retry = (pattern, text)
            } else if let byte = text.first, let expected = pattern.first,
                expected == byte || expected == UInt8(ascii: "?")
            {
                pattern.removeFirst()
                text.removeFirst()
            } else if text.isEmpty && pattern.isEmpty {
                return true
            } else if let last = retry, !last.text.isEmpty {
                retry = (last.pattern, last.text.dropFirst())
                (pattern, text) = (last.pattern, last.text.dropFirst())
            } else {
                return false
            }
        }
    }
}
