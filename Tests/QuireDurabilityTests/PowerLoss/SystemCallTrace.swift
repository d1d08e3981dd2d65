import Foundation

/// The calls of a traced program that succeeded, in their order.
struct SystemCallTrace {
    /// An argument as strace prints it.
    enum Argument {
        /// A string or a buffer.
        case bytes([UInt8])
        /// Anything else.
        case text(String)

        var text: String {
            switch self {
            case .bytes(let bytes): String(decoding: bytes, as: UTF8.self)
            case .text(let text): text
            }
        }

        var number: Int? { Int(text) }
    }

    /// A call.
    struct Call {
        var name: String
        var arguments: [Argument]
        var result: Int
    }

    /// The calls that open, change, synchronize or name files.
    static let calls = [
        "open", "openat", "openat2", "creat", "close", "dup", "dup2", "dup3", "lseek", "write",
        "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "truncate", "fallocate",
        "copy_file_range", "sendfile", "ioctl", "fsync", "fdatasync", "sync_file_range", "syncfs",
        "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink",
        "unlinkat", "mkdir", "mkdirat", "rmdir",
    ]

    private(set) var calls: [Call] = []
    /// The calls, and those that failed, whose result is negative.
    private(set) var attempts: [Call] = []

    /// Reads what `strace -f -qq -xx` has written.
    init(contentsOf path: String) throws {
        let data = try Data(contentsOf: URL(fileURLWithPath: path))
        data.withUnsafeBytes { bytes in
            // The beginnings of calls during which another thread's call was printed.
            var unfinished: [Int: [UInt8]] = [:]
            var start = 0
            while start < bytes.count {
                var end = start
                while end < bytes.count, bytes[end] != UInt8(ascii: "\n") { end += 1 }
                read(UnsafeRawBufferPointer(rebasing: bytes[start..<end]), &unfinished)
                start = end + 1
            }
        }
    }

    private mutating func read(
        _ line: UnsafeRawBufferPointer, _ unfinished: inout [Int: [UInt8]]
    ) {
        var scanner = TraceScanner(bytes: line)
        guard let thread = scanner.number() else { return }
        scanner.skipSpaces()
        if scanner.skip("<... ") {
            guard var head = unfinished.removeValue(forKey: thread), scanner.skip(past: ">") else {
                return
            }
            head += scanner.rest
            head.withUnsafeBytes { add($0) }
        } else if line.suffix(16).elementsEqual(" <unfinished ...>".utf8.suffix(16)) {
            let head = Array(scanner.rest.dropLast(" <unfinished ...>".utf8.count))
            // Its descriptor is free as soon as it begins: before it returns, another thread may have been given the number.
            if head.starts(with: "close(".utf8) {
                (head + ") = 0".utf8).withUnsafeBytes { add($0) }
            } else {
                unfinished[thread] = head
            }
        } else {
            add(UnsafeRawBufferPointer(rebasing: line[scanner.position...]))
        }
    }

    /// Adds a call, unless it failed or never returned.
    private mutating func add(_ bytes: UnsafeRawBufferPointer) {
        var scanner = TraceScanner(bytes: bytes)
        let name = scanner.word()
        guard scanner.skip("(") else { return }
        let arguments = scanner.arguments()
        scanner.skipSpaces()
        guard scanner.skip("= "), let result = scanner.number() else { return }
        let call = Call(name: name, arguments: arguments, result: result)
        attempts.append(call)
        if result >= 0 { calls.append(call) }
    }
}

/// Reads a line of a trace, byte by byte.
private struct TraceScanner {
    let bytes: UnsafeRawBufferPointer
    var position = 0

    init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var rest: [UInt8] { Array(bytes[position...]) }

    mutating func skipSpaces() {
        while position < bytes.count, bytes[position] == UInt8(ascii: " ") { position += 1 }
    }

    mutating func skip(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard position + count <= bytes.count else { return false }
        for index in 0..<count where bytes[position + index] != text.utf8Start[index] {
            return false
        }
        position += count
        return true
    }

    mutating func skip(past end: Character) -> Bool {
        while position < bytes.count {
            position += 1
            if bytes[position - 1] == end.asciiValue { return true }
        }
        return false
    }

    mutating func word() -> String {
        let start = position
        while position < bytes.count, bytes[position] != UInt8(ascii: "(") { position += 1 }
        return String(decoding: bytes[start..<position], as: UTF8.self)
    }

    mutating func number() -> Int? {
        let start = position
        if position < bytes.count, bytes[position] == UInt8(ascii: "-") { position += 1 }
        while position < bytes.count, (0x30...0x39).contains(bytes[position]) { position += 1 }
        return Int(String(decoding: bytes[start..<position], as: UTF8.self))
    }

    /// The arguments up to and with the closing parenthesis.
    mutating func arguments() -> [SystemCallTrace.Argument] {
        var arguments: [SystemCallTrace.Argument] = []
        var depth = 0
        var start = position
        var string: [UInt8]?
        func end() {
            if let bytes = string {
                arguments.append(.bytes(bytes))
            } else if position > start {
                arguments.append(.text(String(decoding: bytes[start..<position], as: UTF8.self)))
            }
        }
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                let read = hexString()
                // Strings within structures are not needed.
                if depth == 0 { string = read }
                continue
            case UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "("): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: ")") where depth > 0: depth -= 1
            case UInt8(ascii: ")"):
                end()
                position += 1
                return arguments
            case UInt8(ascii: ",") where depth == 0:
                end()
                string = nil
                position += 1
                skipSpaces()
                start = position
                continue
            default: break
            }
            position += 1
        }
        return arguments
    }

    /// `"\x2f\x74"`
    private mutating func hexString() -> [UInt8] {
        var result: [UInt8] = []
        position += 1
        while position + 3 < bytes.count, bytes[position] == UInt8(ascii: "\\") {
            result.append(hexDigit(bytes[position + 2]) << 4 | hexDigit(bytes[position + 3]))
            position += 4
        }
        position += 1
        return result
    }

    private func hexDigit(_ byte: UInt8) -> UInt8 { byte <= 0x39 ? byte - 0x30 : byte - 0x57 }
}
