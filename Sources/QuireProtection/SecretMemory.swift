package import Foundation
import QuireSystem

/// Secret bytes in memory that is not swapped, is in no core dump and in no forked child, and is wiped when it is released.
///
/// The memory comes from pages of its own, which are mapped once and used again. Where the process may lock no more memory
/// (`RLIMIT_MEMLOCK`), the pages are not locked: they could then be swapped.
///
/// Unchecked because the bytes are written by the initializer only, and wiped when nobody has them any more.
package final class SecretMemory: @unchecked Sendable {
    /// The greatest number of bytes.
    package static let greatestCount = 64

    private let address: UnsafeMutableRawPointer
    /// The number of bytes.
    package let count: Int

    /// Takes memory, zeroed, and lets it be filled.
    ///
    /// - Throws: What the closure throws, or ``QuireError`` with code `inputOutput` if the system has no memory.
    package init(
        count: Int, filledBy fill: (UnsafeMutableRawBufferPointer) throws -> Void
    ) throws {
        precondition(count <= Self.greatestCount, "SecretMemory: \(count) bytes are too many.")
        address = try SecretPages.shared.withLock { try $0.take() }
        self.count = count
        // All properties are set, so an error of the closure runs deinit.
        try fill(UnsafeMutableRawBufferPointer(start: address, count: count))
    }

    /// Takes memory filled with bytes of the system's generator of random numbers.
    package convenience init(randomCount count: Int = 32) throws {
        try self.init(count: count) { bytes in
            // The system's generator is getrandom(2).
            var generator = SystemRandomNumberGenerator()
            for index in bytes.indices { bytes[index] = generator.next() }
        }
    }

    /// Takes a copy of bytes. Wiping those is the caller's part.
    package convenience init(copying bytes: some ContiguousBytes) throws {
        let count = bytes.withUnsafeBytes { $0.count }
        try self.init(count: count) { copy in bytes.withUnsafeBytes { copy.copyMemory(from: $0) } }
    }

    deinit { SecretPages.shared.withLock { $0.giveBack(address) } }

    /// Gives a closure the bytes.
    package func withUnsafeBytes<Result>(
        _ body: (UnsafeRawBufferPointer) throws -> Result
    ) rethrows -> Result {
        try withExtendedLifetime(self) {
            try body(UnsafeRawBufferPointer(start: address, count: count))
        }
    }
}

/// The pages that ``SecretMemory`` takes its bytes from, and which of their places are free.
///
/// Unchecked because the lock of ``shared`` is around every use.
private struct SecretPages: @unchecked Sendable {
    static let shared = Lock(SecretPages())

    private static let pageCount = 4
    private var free: [UnsafeMutableRawPointer] = []

    mutating func take() throws -> UnsafeMutableRawPointer {
        if free.isEmpty { try grow() }
        return free.removeLast()
    }

    mutating func giveBack(_ address: UnsafeMutableRawPointer) {
        explicit_bzero(address, SecretMemory.greatestCount)
        free.append(address)
    }

    private mutating func grow() throws {
        let size = Self.pageCount * Int(sysconf(Int32(_SC_PAGESIZE)))
        let mapped = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let mapped, mapped != MAP_FAILED else {
            throw QuireError(
                .inputOutput, "There is no memory for keys: \(String(cString: strerror(errno))).")
        }
        // Each is a defence more, and none is there on every system.
        _ = mlock(mapped, size)
        _ = madvise(mapped, size, MADV_DONTDUMP)
        _ = madvise(mapped, size, MADV_WIPEONFORK)
        for offset in stride(from: 0, to: size, by: SecretMemory.greatestCount) {
            free.append(mapped + offset)
        }
    }
}
