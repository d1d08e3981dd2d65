import Foundation
import Quire

/// Reads passphrases and recovery keys: a line from an open descriptor, or from the terminal without echo. They are never
/// arguments, which every user of the machine can see.
enum SecretLine {
    /// The longest one, in bytes.
    private static let greatestCount = 65_536

    /// Whether something can be read from a descriptor.
    static func canRead(_ descriptor: Int32) -> Bool {
        let flags = fcntl(descriptor, F_GETFL)
        return flags >= 0 && flags & O_ACCMODE != O_WRONLY
    }

    /// Reads up to a line end, or the end of what there is, and no byte more: what follows may be lines of a session.
    ///
    /// - Parameter name: What is read, for errors: “the passphrase”.
    /// - Throws: ``Failure`` with the status `usage` if it cannot be read, is empty, too long or no UTF-8.
    static func read(_ name: String, from descriptor: Int32) throws -> String {
        func failure(_ what: String) -> Failure {
            Failure(
                sentence: "\(name.prefix(1).uppercased())\(name.dropFirst()) \(what).",
                status: .usage)
        }
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: greatestCount, alignment: 1)
        defer {
            if let start = bytes.baseAddress { explicit_bzero(start, bytes.count) }
            bytes.deallocate()
        }
        var count = 0
        var next: UInt8 = 0
        defer { explicit_bzero(&next, 1) }
        while true {
            let result = Glibc.read(descriptor, &next, 1)
            if result < 0 {
                if errno == EINTR { continue }
                let reason = String(cString: strerror(errno))
                throw failure("cannot be read from descriptor \(descriptor): \(reason)")
            }
            if result == 0 || next == UInt8(ascii: "\n") { break }
            if count == greatestCount { throw failure("has more than \(greatestCount) bytes") }
            bytes[count] = next
            count += 1
        }
        if count == 0 { throw failure("is empty; give one that is not") }
        guard let text = String(validating: bytes[..<count], as: UTF8.self) else {
            throw failure("is not UTF-8 text")
        }
        return text
    }

    /// Asks on the terminal.
    ///
    /// - Returns: What was typed; `nil` if nobody is there to be asked.
    /// - Throws: As ``read(_:from:)``.
    static func ask(_ name: String, _ question: String) throws -> String? {
        guard isatty(STDERR_FILENO) == 1 else { return nil }
        let terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        guard terminal >= 0 else { return nil }
        defer { close(terminal) }
        var former = termios()
        guard tcgetattr(terminal, &former) == 0 else { return nil }
        var silent = former
        silent.c_lflag &= ~tcflag_t(ECHO)
        silent.c_lflag |= tcflag_t(ECHONL)
        // A signal that ends the process would leave the terminal silent.
        let cleanup = TerminationCleanup.add { [former] in
            var former = former
            tcsetattr(terminal, TCSANOW, &former)
        }
        defer {
            tcsetattr(terminal, TCSANOW, &former)
            TerminationCleanup.remove(cleanup)
        }
        guard tcsetattr(terminal, TCSAFLUSH, &silent) == 0 else { return nil }
        let prompt = Array(Output.escaped(question).utf8)
        _ = prompt.withUnsafeBytes { write(terminal, $0.baseAddress, $0.count) }
        return try read(name, from: terminal)
    }

    /// Asks twice for a passphrase that is to be a new one.
    ///
    /// - Throws: ``Failure`` if the two differ.
    static func askForNewPassphrase() throws -> String? {
        guard let passphrase = try ask("the passphrase", "New passphrase: "),
            let again = try ask("the passphrase", "The same again: ")
        else { return nil }
        if passphrase.unicodeScalars.elementsEqual(again.unicodeScalars) { return passphrase }
        throw Failure(
            sentence: "The two passphrases are not the same, and nothing was done; try again.",
            status: .failed)
    }
}
