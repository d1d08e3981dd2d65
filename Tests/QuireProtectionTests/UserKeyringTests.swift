import CLinux
import Foundation
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireProtection

/// Unlocking by the kernel's user keyring. Another process is played by another domain of the same keybag: that of a hard link.
@Suite(.needs(UserKeyring.isAvailable, or: "the kernel's user keyring may not be used"))
final class UserKeyringTests: Sendable {
    private let folder: TestFolder
    private let domain: ProtectionDomain

    init() throws {
        folder = try TestFolder()
        try ProtectionDomain.makeKeyFile(at: folder.path("key"))
        domain = try ProtectionDomain.setUp(
            at: folder.path("me.keybag"), keyFile: folder.path("key"))
    }

    deinit { _ = try? domain.removeFromUserKeyring() }

    /// The domain as a process has it that has not unlocked it.
    private func elsewhere() throws -> ProtectionDomain {
        let path = folder.path(UUID().uuidString)
        try FileSystem.copyFile(folder.path("me.keybag"), to: path)
        let domain = try ProtectionDomain.domain(of: path)
        #expect(!domain.isUnlocked)
        return domain
    }

    private func code(_ body: () throws -> some Any) -> QuireError.Code? {
        do { _ = try body() } catch { return (error as? QuireError)?.code }
        return nil
    }

    @Test func oneUnlockServesOthers() throws {
        let other = try elsewhere()
        #expect(try !other.unlockFromUserKeyring())
        #expect(!domain.isInUserKeyring)
        try domain.addToUserKeyring()
        #expect(domain.isInUserKeyring)
        #expect(try other.unlockFromUserKeyring())
        #expect(other.isUnlocked)
        #expect(try domain.removeFromUserKeyring())
        #expect(try !domain.removeFromUserKeyring())
        #expect(try !elsewhere().unlockFromUserKeyring())
        // What is unlocked stays so.
        #expect(other.isUnlocked)
    }

    @Test func aLockedDomainCannotBeAdded() async throws {
        await domain.lock(after: .zero)
        #expect(code { try domain.addToUserKeyring() } == .protectedDataUnavailable)
        #expect(!domain.isInUserKeyring)
    }

    @Test(arguments: [Duration.milliseconds(1), .seconds(90), .seconds(Int64.max)])
    func theKernelRemovesTheKeyAfterTheTimeout(timeout: Duration) throws {
        var fields: [Substring]?
        // One with a second to live may be gone before it is looked at.
        for _ in 0..<100 where fields == nil {
            try domain.addToUserKeyring(timeout: timeout)
            fields = try self.fields()
        }
        #expect(fields?[3] != "perm")
        #expect(fields?[4] == "3f2f0000")
        // Without one it stays.
        try domain.addToUserKeyring()
        #expect(try self.fields()?[3] == "perm")
    }

    /// The fields of the key's line in `/proc/keys`: number, flags, uses, timeout, permissions, …; `nil` if there is no key.
    private func fields() throws -> [Substring]? {
        // The file is read in pieces, between which lines come and go.
        while true {
            let number = quire_keyring_search(domain.keyringDescription)
            if number <= 0 { return nil }
            let start = String(format: "%08lx ", number)
            let lines = try String(contentsOfFile: "/proc/keys", encoding: .utf8).split(
                separator: "\n")
            if let line = lines.first(where: { $0.hasPrefix(start) }) {
                return line.split(separator: " ")
            }
        }
    }

    /// Any program of the user can write a key.
    @Test func keysOfOthersAreNotBelieved() throws {
        let description = domain.keyringDescription
        let (wrong, path) = (try SecretMemory(randomCount: 32), folder.path("me.keybag"))
        try UserKeyring.add(.init(masterKey: wrong, path: path), as: description, timeout: nil)
        #expect(try !elsewhere().unlockFromUserKeyring())
        for payload in [
            [1], [1] + [UInt8](repeating: 7, count: 32), [2] + [UInt8](repeating: 7, count: 60),
            [1] + [UInt8](repeating: 0xFF, count: 60), [UInt8](repeating: 1, count: 9000),
        ] {
            try payload.withUnsafeBytes { try UserKeyring.add($0, as: description) }
            #expect(try !elsewhere().unlockFromUserKeyring(), "\(payload.count)")
        }
        try domain.addToUserKeyring()
        #expect(try elsewhere().unlockFromUserKeyring())
    }

    @Test func keysAreListedWhateverElseIsThere() throws {
        let odd = "quire:ärger;\(UUID().uuidString)"
        try [1].withUnsafeBytes { try UserKeyring.add($0, as: odd, seconds: 60) }
        defer { _ = try? UserKeyring.remove(odd) }
        try domain.addToUserKeyring()
        #expect(Set(UserKeyring.descriptions).isSuperset(of: [odd, domain.keyringDescription]))
        // `quire lock` removes all; here only those of this test may go.
        #expect(try UserKeyring.removeAll(withPrefix: odd) == 1)
        #expect(!UserKeyring.contains(odd))
        #expect(domain.isInUserKeyring)
    }

    /// As a process has it that was started by another login, or by a service manager.
    @Test func aSessionThatHasNoLinkToTheKeyringUsesIt() async throws {
        let other = try elsewhere()
        // Keyrings are those of a thread.
        let result = await withCheckedContinuation { done in
            Thread.detachNewThread { [domain] in
                _ = quire_keyring_join_session()
                done.resume(
                    returning: Result {
                        try domain.addToUserKeyring(timeout: .seconds(60))
                        try domain.addToUserKeyring()
                        #expect(try other.unlockFromUserKeyring())
                    })
            }
        }
        try result.get()
        #expect(try elsewhere().unlockFromUserKeyring())
        #expect(try domain.removeFromUserKeyring())
    }

    @Test func documentsOfAPersonAreUnlockedByTheKeyOfThePerson() async throws {
        // The person's domain is not in the process: what is made through another one of the same keybag belongs to it.
        let keybag = folder.path("document.keybag")
        var person: ProtectionDomain? = try elsewhere()
        try person?.unlock(.keyFile(KeyFile.read(folder.path("key"))))
        try ProtectionDomain.makeKeybag(protection: .complete, slots: [], parent: person)
            .write(to: keybag)
        try person?.addToUserKeyring()
        person = nil
        await domain.lock(after: .zero)
        let document = try ProtectionDomain.domain(of: keybag)
        #expect(code { try document.classKey() } == .protectedDataUnavailable)
        #expect(try document.unlockFromUserKeyring())
        _ = try document.classKey()
        // Locked by itself it is not unlocked by use, but by a call.
        await document.lock(after: .zero)
        #expect(code { try document.classKey() } == .protectedDataUnavailable)
        #expect(try document.unlockFromUserKeyring())
        _ = try document.classKey()
    }

    @Test func aDomainFollowsTheKeyring() async throws {
        let (turns, next) = AsyncStream.makeStream(of: Void.self)
        let (looked, look) = AsyncStream.makeStream(of: Void.self)
        try domain.addToUserKeyring()
        let other = try elsewhere()
        try other.unlockFromUserKeyring()
        let following = Task {
            try await other.followUserKeyring(grace: .zero) {
                look.yield()
                for await _ in turns { break }
                try Task.checkCancellation()
            }
        }
        for await _ in looked { break }
        func again() async {
            next.yield()
            for await _ in looked { break }
        }
        await again()
        #expect(other.isUnlocked)
        try domain.removeFromUserKeyring()
        await again()
        #expect(!other.isUnlocked)
        await again()
        #expect(!other.isUnlocked)
        try domain.addToUserKeyring()
        await again()
        #expect(other.isUnlocked)
        following.cancel()
        next.yield()
        await #expect(throws: CancellationError.self) { try await following.value }
    }

    @Test func anOlderKeybagIsNotUnlocked() throws {
        let other = try elsewhere()
        let path = try #require(other.path)
        let older = try Data(contentsOf: URL(fileURLWithPath: path))
        try other.unlock(.keyFile(KeyFile.read(folder.path("key"))))
        try other.addSlot(.recoveryKey(RecoveryKey()), label: "")
        other.lockNow()
        try domain.addToUserKeyring()
        try older.write(to: URL(fileURLWithPath: path))
        #expect(code { try other.unlockFromUserKeyring() } == .storeReplaced)
    }
}
