import Crypto
import Foundation
import QuireSystem
import Testing

@testable import QuireProtection

/// What is left of keys in the memory of the process.
@Suite(.serialized) struct KeyMemoryTests {
    /// How often a text that is hidden by ``mask`` is in the writable memory of this process.
    private func occurrences(of hidden: [UInt8]) throws -> Int {
        let size = 1 << 20
        // Pages of their own, which are left out below.
        let own = try #require(
            mmap(
                nil, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
        defer { munmap(own, size + 4096) }
        let needle = own + size
        for (index, byte) in hidden.enumerated() {
            needle.storeBytes(of: byte ^ Self.mask, toByteOffset: index, as: UInt8.self)
        }
        // A byte that memory is not full of.
        let rare = try #require(
            hidden.enumerated().map { (offset: $0.offset, byte: $0.element ^ Self.mask) }
                .filter { (0x80...0xFE).contains($0.byte) }.min { $0.byte < $1.byte })
        let memory = open("/proc/self/mem", O_RDONLY)
        try #require(memory >= 0)
        defer { close(memory) }
        let maps = String(
            decoding: try FileSystem.contents(of: "/proc/self/maps"), as: UTF8.self)
        try #require(!maps.isEmpty)
        var found = 0
        for line in maps.split(separator: "\n") {
            let fields = line.split(separator: " ")
            let ends = fields[0].split(separator: "-").compactMap { UInt(String($0), radix: 16) }
            guard ends.count == 2, fields[1].hasPrefix("rw") else { continue }
            var place = ends[0]
            while place < ends[1] {
                let count = pread(memory, own, min(size, Int(ends[1] - place)), off_t(place))
                // It was unmapped meanwhile.
                if count <= 0 { break }
                var start = 0
                while let hit = memchr(own + start, Int32(rare.byte), count - start) {
                    start = hit - own + 1
                    let first = hit - rare.offset
                    guard first >= own, first + hidden.count <= own + count,
                        memcmp(first, needle, hidden.count) == 0
                    else { continue }
                    let address = place + UInt(first - own)
                    let isOwn =
                        address >= UInt(bitPattern: own)
                        && address < UInt(bitPattern: own) + UInt(size + 4096)
                    if !isOwn { found += 1 }
                }
                if count <= hidden.count || place + UInt(count) >= ends[1] { break }
                // What lies across two pieces is found in the next.
                place += UInt(count - hidden.count)
            }
        }
        return found
    }

    private static let mask: UInt8 = 0x5A

    private func hidden(_ secret: SecretMemory) -> [UInt8] {
        secret.withUnsafeBytes { $0.map { $0 ^ Self.mask } }
    }

    @Test func afterALockNoKeyIsInMemory() async throws {
        let folder = try TestFolder()
        try ProtectionDomain.makeKeyFile(at: folder.path("key"))
        let domain = try ProtectionDomain.setUp(
            at: folder.path("me.keybag"), keyFile: folder.path("key"))
        try domain.addSlot(.passphrase("secret"), cost: .least)
        _ = try domain.addRecoveryKey()
        domain.lockNow()
        try domain.unlock(.passphrase("secret"))
        let keys = try #require(domain.state.withLock { $0.unlocked })
        var secrets = [hidden(keys.masterKey)]
        for classKey in keys.classKeys {
            secrets += [hidden(classKey.complete), hidden(classKey.privateKey)]
        }
        let (fileKey, wrapped) = try domain.classKey(for: .complete).makeFileKey()
        _ = try domain.classKey(for: .completeUnlessOpen).makeFileKey()
        try fileKey.withKey { key in
            secrets.append(key.withUnsafeBytes { $0.map { $0 ^ Self.mask } })
        }
        _ = try domain.classKey(for: .complete).fileKey(for: wrapped)
        // The scanner finds what is there.
        for (index, secret) in secrets.enumerated() {
            let count = try occurrences(of: secret)
            #expect(count > 0, "key \(index)")
        }
        _ = consume keys
        domain.lockNow()
        for (index, secret) in secrets.enumerated() {
            let count = try occurrences(of: secret)
            #expect(count == 0, "key \(index) is there \(count) times")
        }
    }
}
