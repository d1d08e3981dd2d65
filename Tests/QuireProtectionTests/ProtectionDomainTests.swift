import Foundation
import QuireSystem
import Testing

@testable import QuireProtection

@Suite struct ProtectionDomainTests {
    private let folder: TestFolder
    private var keybagPath: String { folder.path("me.keybag") }

    init() throws { folder = try TestFolder() }

    /// Makes a keybag with every kind of slot, and holds nothing of it.
    private func setUp() throws -> (words: String, keyFile: String) {
        let keyFile = folder.path("key")
        try ProtectionDomain.makeKeyFile(at: keyFile)
        let domain = try ProtectionDomain.setUp(at: keybagPath, keyFile: keyFile, label: "usb")
        try domain.addSlot(.passphrase("secret"), label: "mine", cost: .least)
        return (try domain.addRecoveryKey(label: "paper"), keyFile)
    }

    private func bytes() throws -> Data { try FileSystem.contents(of: keybagPath) }

    private func overwrite(_ bytes: Data) throws {
        try AtomicFileReplace.replace(keybagPath, with: bytes)
    }

    private func asyncCode(_ body: () async throws -> Void) async -> QuireError.Code? {
        do {
            try await body()
            return nil
        } catch { return (error as? QuireError)?.code }
    }

    @Test func setUpMakesAnUnlockedDomainAndNeverOverwrites() throws {
        let domain = try folder.person("me.keybag", .completeUnlessOpen)
        #expect(domain.isUnlocked && domain.wasUnlockedOnce)
        #expect(domain.protection == .completeUnlessOpen)
        #expect(domain.path == keybagPath)
        let before = try bytes()
        #expect(code { _ = try folder.person() } == .alreadyExists)
        #expect(try bytes() == before)
        #expect(try FileSystem.information(at: keybagPath)?.permissions == 0o600)
        let none = code {
            _ = try ProtectionDomain.setUp(
                at: folder.path("none"), credential: .keyFile(.keyFile), fileProtection: .none)
        }
        #expect(none == .protectionUnavailable)
    }

    @Test func eachKindOfSlotUnlocks() async throws {
        let (words, keyFile) = try setUp()
        let domain = try ProtectionDomain.domain(of: keybagPath)
        #expect(domain.slots.map(\.kind) == [.keyFile, .passphrase, .recoveryKey])
        #expect(domain.slots.map(\.label) == ["usb", "mine", "paper"])
        #expect(!domain.isUnlocked)
        try await domain.unlock(passphrase: "secret")
        #expect(domain.isUnlocked)
        domain.lockNow()
        try await domain.unlock(keyFile: keyFile)
        #expect(domain.isUnlocked)
        domain.lockNow()
        try await domain.unlock(recoveryKey: words.uppercased())
        #expect(domain.isUnlocked)
    }

    @Test func wrongCredentialsUnlockNothing() async throws {
        let (words, _) = try setUp()
        let domain = try ProtectionDomain.domain(of: keybagPath)
        #expect(await asyncCode { try await domain.unlock(passphrase: "Secret") } == .wrongKey)
        #expect(await asyncCode { try await domain.unlock(passphrase: "") } == .wrongKey)
        let other = folder.path("other")
        try ProtectionDomain.makeKeyFile(at: other)
        #expect(await asyncCode { try await domain.unlock(keyFile: other) } == .wrongKey)
        let otherWords = try RecoveryKey().words
        #expect(
            await asyncCode { try await domain.unlock(recoveryKey: otherWords) } == .wrongKey)
        let typing = words.dropLast() + "c"
        #expect(
            await asyncCode { try await domain.unlock(recoveryKey: String(typing)) }
                == .invalidValue)
        #expect(!domain.isUnlocked && !domain.wasUnlockedOnce)
    }

    @Test func unsafeKeyFilesAreRefused() async throws {
        _ = try setUp()
        let domain = try ProtectionDomain.domain(of: keybagPath)
        let path = folder.path("key")
        for permissions in [0o620, 0o602, 0o666] as [mode_t] {
            chmod(path, permissions)
            #expect(await asyncCode { try await domain.unlock(keyFile: path) } == .invalidValue)
        }
        chmod(path, 0o600)
        #expect(await asyncCode { try await domain.unlock(keyFile: path) } == nil)
        mkfifo(folder.path("fifo"), 0o600)
        try Data(count: 15).write(to: URL(fileURLWithPath: folder.path("short")))
        try Data(count: 65_537).write(to: URL(fileURLWithPath: folder.path("long")))
        chmod(folder.path("short"), 0o600)
        chmod(folder.path("long"), 0o600)
        for name in ["fifo", "short", "long", "."] {
            let found = await asyncCode { try await domain.unlock(keyFile: folder.path(name)) }
            #expect(found == .invalidValue, "\(name)")
        }
        #expect(
            await asyncCode { try await domain.unlock(keyFile: folder.path("no")) } == .notFound)
    }

    @Test func aKeybagGivesTheSameDomainWhileItIsHeld() throws {
        let domain = try folder.person()
        #expect(try ProtectionDomain.domain(of: keybagPath) === domain)
        // By another path to the same file.
        symlink(folder.path, folder.path + "/link")
        #expect(try ProtectionDomain.domain(of: folder.path("link/me.keybag")) === domain)
        // A copy has slots of its own.
        let copy = folder.path("copy.keybag")
        try FileManager.default.copyItem(atPath: keybagPath, toPath: copy)
        let copied = try ProtectionDomain.domain(of: copy)
        #expect(copied !== domain && !copied.isUnlocked)
        // One that was moved is the same.
        let moved = folder.path("moved.keybag")
        try FileManager.default.moveItem(atPath: keybagPath, toPath: moved)
        #expect(try ProtectionDomain.domain(of: moved) === domain)
        #expect(domain.path == moved)
    }

    /// The keybag may still be at its path, so that changes must go there and not to the copy.
    @Test func aCopyIsNoMovedKeybagIfThatCannotBeExamined() throws {
        let domain = try folder.person()
        try FileManager.default.moveItem(atPath: keybagPath, toPath: folder.path("copy.keybag"))
        symlink(keybagPath, keybagPath)
        #expect(try ProtectionDomain.domain(of: folder.path("copy.keybag")) !== domain)
        #expect(domain.path == keybagPath)
    }

    @Test func aCopyWithOtherKeysIsAnotherDomain() throws {
        let domain = try folder.person()
        var bytes = try bytes()
        // The public key: behind the class, the number of class keys, the epoch and two wrapped keys.
        bytes[36 + 1 + 1 + 4 + 80] ^= 1
        let path = folder.path("hostile.keybag")
        try bytes.write(to: URL(fileURLWithPath: path))
        let hostile = try ProtectionDomain.domain(of: path)
        #expect(hostile !== domain && hostile.identifier == domain.identifier)
        #expect(code { try hostile.unlock(.keyFile(.keyFile)) } == .invalidFormat)
        #expect(!hostile.isUnlocked && domain.isUnlocked)
    }

    @Test func loweredClassIsFoundWhenItIsUnlocked() throws {
        func make() throws { _ = try folder.person() }
        try make()
        var bytes = try bytes()
        bytes[36] = FileProtection.completeUntilFirstUserAuthentication.code
        try overwrite(bytes)
        let domain = try ProtectionDomain.domain(of: keybagPath)
        #expect(domain.protection == .completeUntilFirstUserAuthentication)
        #expect(code { try domain.unlock(.keyFile(.keyFile)) } == .invalidFormat)
        #expect(!domain.isUnlocked)
    }

    @Test func anotherOrAnOlderKeybagInItsPlaceIsRefused() throws {
        let domain = try folder.person()
        let old = try bytes()
        try domain.addSlot(.passphrase("new"), cost: .least)
        let new = try bytes()
        try overwrite(old)
        domain.lockNow()
        #expect(code { try domain.unlock(.keyFile(.keyFile)) } == .storeReplaced)
        try overwrite(new)
        try domain.unlock(.keyFile(.keyFile))
        try overwrite(old)
        #expect(code { _ = try domain.addRecoveryKey() } == .storeReplaced)
        #expect(try bytes() == old)
        let other = try folder.person("other.keybag")
        try overwrite(FileSystem.contents(of: folder.path("other.keybag")))
        #expect(code { try domain.unlock(.keyFile(.keyFile)) } == .storeReplaced)
        #expect(other.isUnlocked)
    }

    @Test func whatWasReadUnverifiedIsForgotten() throws {
        _ = try setUp()
        let good = try bytes()
        var forged = good
        // The revision, and the class.
        forged.replaceSubrange(28..<36, with: Data(repeating: 0xFF, count: 8))
        forged[36] = FileProtection.complete.code
        try overwrite(forged)
        let domain = try ProtectionDomain.domain(of: keybagPath)
        #expect(domain.protection == .complete)
        #expect(code { try domain.unlock(.passphrase("secret")) } == .invalidFormat)
        try overwrite(good)
        try domain.unlock(.passphrase("secret"))
        #expect(domain.protection == .completeUntilFirstUserAuthentication)
        #expect(domain.verifiedRevision == 3)
        _ = try domain.addRecoveryKey()
    }

    @Test func unlockingWhileOthersChangeItIsNoRollback() async throws {
        let domain = try folder.person()
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                group.addTask {
                    let found = code {
                        if number % 2 == 0 {
                            try domain.unlock(.keyFile(.keyFile))
                        } else {
                            try domain.removeSlot(
                                domain.addSlot(.keyFile(Data.keyFile + [1]), label: "\(number)"))
                        }
                    }
                    // There may be eight slots for a moment.
                    #expect([nil, .invalidState].contains(found))
                }
            }
        }
    }

    @Test func defaultDomainCanBeSet() throws {
        #expect(ProtectionDomain.default == nil)
        let domain = try folder.person()
        ProtectionDomain.default = domain
        #expect(ProtectionDomain.default === domain)
        ProtectionDomain.default = nil
    }

    @Test func symbolicLinkInAPackageIsNotFollowed() throws {
        _ = try folder.person()
        let package = folder.path("Doc.quire")
        try FileManager.default.createDirectory(
            atPath: package, withIntermediateDirectories: true)
        symlink(keybagPath, package + "/Protection.keybag")
        let found = code {
            _ = try ProtectionDomain.domain(
                of: package + "/Protection.keybag", beneath: package)
        }
        #expect(found == .invalidFormat)
    }
}

@Suite struct ProtectionDomainSlotTests {
    private let folder: TestFolder
    private let domain: ProtectionDomain

    init() throws {
        folder = try TestFolder()
        domain = try folder.person()
    }

    /// What the file says, independently of the domain.
    private func keybag() throws -> Keybag {
        try Keybag(FileSystem.contents(of: folder.path("me.keybag")), path: "me.keybag")
    }

    @Test func slotsAreWrittenAtOnce() throws {
        let added = try domain.addSlot(.passphrase("one"), label: "first", cost: .least)
        let words = try domain.addRecoveryKey()
        let masterKey = try keybag().masterKey(.passphrase("one"))
        #expect(try keybag().masterKey(.recoveryKey(.init(words: words))).data == masterKey.data)
        #expect(try keybag().revision == 3)
        #expect(try domain.slots.map(\.id) == keybag().slots.map(\.identifier))
        try domain.removeSlot(added)
        #expect(code { _ = try keybag().masterKey(.passphrase("one")) } == .wrongKey)
        #expect(try FileSystem.information(at: folder.path("me.keybag"))?.permissions == 0o600)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).count == 1)
    }

    @Test func theLastSlotCannotBeRemoved() throws {
        let before = try keybag().slots
        #expect(code { try domain.removeSlot(before[0].identifier) } == .invalidState)
        #expect(code { try domain.removeSlot(UUID()) } == .notFound)
        #expect(try keybag().slots == before)
        #expect(try keybag().revision == 1)
    }

    @Test func thereAreEightSlotsAtMost() throws {
        for _ in 0..<7 { _ = try domain.addRecoveryKey() }
        #expect(code { _ = try domain.addRecoveryKey() } == .invalidState)
        #expect(try keybag().slots.count == 8)
    }

    @Test func changingAPassphraseKeepsItsPlaceAndLabel() throws {
        try domain.addSlot(.passphrase("one"), label: "first", cost: .least)
        _ = try domain.addRecoveryKey()
        domain.lockNow()
        try domain.changePassphraseNow(from: "one", to: "two", cost: .least)
        #expect(!domain.isUnlocked)
        #expect(try keybag().slots.map(\.label) == ["", "first", ""])
        #expect(code { _ = try keybag().masterKey(.passphrase("one")) } == .wrongKey)
        try domain.unlock(.passphrase("two"))
        let wrong = code { try domain.changePassphraseNow(from: "one", to: "x", cost: .least) }
        #expect(wrong == .wrongKey)
        let empty = code { try domain.changePassphraseNow(from: "two", to: "", cost: .least) }
        #expect(empty == .invalidValue)
        #expect(try keybag().masterKey(.passphrase("two")).count == 32)
    }

    @Test func changesNeedAnUnlockedDomain() throws {
        domain.lockNow()
        #expect(code { _ = try domain.addRecoveryKey() } == .protectedDataUnavailable)
        #expect(
            code { try domain.removeSlot(domain.slots[0].id) } == .protectedDataUnavailable)
    }

    @Test func changesOfSeveralAtOnceAreAllKept() async throws {
        let path = folder.path("me.keybag")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<7 {
                // As of several processes: a domain of its own each.
                let other = ProtectionDomain(try keybag(), file: KeybagFile(path: path))
                group.addTask {
                    try other.unlock(.keyFile(.keyFile))
                    try other.addSlot(.recoveryKey(RecoveryKey()), label: "\(number)")
                }
            }
            try await group.waitForAll()
        }
        #expect(try Set(keybag().slots.map(\.label)).count == 8)
        // What others have written is seen when the domain is asked for.
        #expect(try ProtectionDomain.domain(of: path).slots.count == 8)
    }

    @Test func damageIsNotWrittenOver() throws {
        let path = folder.path("me.keybag")
        var bytes = try FileSystem.contents(of: path)
        bytes[bytes.count - 1] ^= 1
        try AtomicFileReplace.replace(path, with: bytes)
        #expect(code { _ = try domain.addRecoveryKey() } == .invalidFormat)
        #expect(try FileSystem.contents(of: path) == bytes)
    }
}
