import Crypto
import Foundation
import QuireSystem
import Testing

@testable import QuireProtection

/// What is left of a domain's keys in the memory of the process.
@Suite struct DomainKeyMemoryTests {
    @Test func afterALockNoKeyIsInMemory() throws {
        let folder = try TestFolder()
        try ProtectionDomain.makeKeyFile(at: folder.path("key"))
        let domain = try ProtectionDomain.setUp(
            at: folder.path("me.keybag"), keyFile: folder.path("key"))
        try domain.addSlot(.passphrase("secret"), cost: .least)
        _ = try domain.addRecoveryKey()
        domain.lockNow()
        try domain.unlock(.passphrase("secret"))
        let secrets = try useKeys(of: domain)
        // What is there is found.
        for secret in secrets { #expect(try !secret.placesInMemory().isEmpty) }
        domain.lockNow()
        for (index, secret) in secrets.enumerated() {
            for part in [secret, secret.half(0), secret.half(1)] {
                #expect(try part.placesInMemory() == [], "key \(index)")
            }
        }
    }

    /// Makes and opens file keys, and gives what to look for: all keys that are taken away by a lock.
    private func useKeys(of domain: ProtectionDomain) throws -> [MaskedBytes] {
        let keys = try #require(domain.state.withLock { $0.unlocked })
        let secrets =
            [keys.masterKey] + keys.classKeys.flatMap { [$0.complete, $0.privateKey] }
        for fileProtection in [FileProtection.complete, .completeUnlessOpen] {
            let classKey = try domain.classKey(for: fileProtection)
            let (_, wrapped) = try classKey.makeFileKey()
            _ = try classKey.fileKey(for: wrapped)
        }
        return secrets.map { $0.withUnsafeBytes { MaskedBytes(of: $0) } }
    }
}
