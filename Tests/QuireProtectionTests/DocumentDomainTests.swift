import Foundation
import QuireSystem
import Testing

@testable import QuireProtection

/// Domains of documents, which are unlocked through that of a person.
@Suite struct DocumentDomainTests {
    private static let classes = FileProtection.allCases.filter { $0 != .none }
    private let folder: TestFolder
    private let person: ProtectionDomain
    private let document: String

    init() throws {
        folder = try TestFolder()
        person = try folder.person()
        document = folder.path("Doc.quire")
        try FileManager.default.createDirectory(
            atPath: document, withIntermediateDirectories: true)
    }

    private var path: String { document + "/Protection.keybag" }

    private func open() throws -> ProtectionDomain {
        try ProtectionDomain.domain(of: path, beneath: document)
    }

    /// Makes the document's keybag, and holds nothing of it.
    ///
    /// - Returns: The key of its store.
    @discardableResult
    private func make(
        _ fileProtection: FileProtection, slots: [NewSlot] = [], hasParent: Bool = true
    ) throws -> Data {
        let domain = try ProtectionDomain.makeKeybag(
            protection: fileProtection, slots: slots, parent: hasParent ? person : nil)
        #expect(domain.isUnlocked && domain.path == nil)
        try domain.write(to: path, beneath: document)
        let storeKey = try #require(domain.storeKeys.first)
        #expect(storeKey.number == 1)
        return try domain.classKey().fileKey(for: storeKey.key).data
    }

    private func storeKey(_ domain: ProtectionDomain) throws -> FileKey {
        try domain.classKey().fileKey(for: try #require(domain.storeKeys.first).key)
    }

    @Test(arguments: classes) func personOpensIt(fileProtection: FileProtection) throws {
        let key = try make(fileProtection)
        let domain = try open()
        #expect(!domain.isUnlocked)
        #expect(domain.protection == fileProtection)
        #expect(domain.slots.map(\.kind) == [.domain])
        #expect(try storeKey(domain).data == key)
        #expect(domain.isUnlocked)
    }

    @Test(arguments: classes) func isLockedWithThePerson(fileProtection: FileProtection) throws {
        let key = try make(fileProtection)
        let domain = try open()
        let fileKey = try storeKey(domain)
        person.lockNow()
        #expect(!domain.isUnlocked)
        #expect(fileKey.isAvailable == (fileProtection != .complete))
        let found = code {
            let found = try storeKey(domain).data
            #expect(found == key)
        }
        let isFirst = fileProtection == .completeUntilFirstUserAuthentication
        #expect(found == (isFirst ? nil : .protectedDataUnavailable))
        try person.unlock(.keyFile(.keyFile))
        #expect(domain.isUnlocked)
        #expect(try storeKey(domain).data == key)
    }

    @Test(arguments: [true, false]) func copiesAreLockedWithIt(hasPerson: Bool) throws {
        try make(
            .complete, slots: hasPerson ? [] : [NewSlot(.keyFile(.keyFile))], hasParent: hasPerson)
        let domain = try open()
        if !hasPerson { try domain.unlock(.keyFile(.keyFile)) }
        _ = try storeKey(domain)
        let copy = try domain.writeCopy(to: document + "/Copy.keybag")
        let copyOfCopy = try copy.writeCopy(to: document + "/Second.keybag")
        let keys = try [copy, copyOfCopy].map(storeKey)
        (hasPerson ? person : domain).lockNow()
        #expect(!copy.isUnlocked && !copyOfCopy.isUnlocked)
        #expect(keys.allSatisfy { !$0.isAvailable })
        #expect(code { _ = try storeKey(copy) } == .protectedDataUnavailable)
        if hasPerson {
            try person.unlock(.keyFile(.keyFile))
            #expect(copy.isUnlocked && copyOfCopy.isUnlocked)
        }
    }

    @Test func untilFirstOpensWhenThePersonIsLockedAgain() throws {
        let key = try make(.completeUntilFirstUserAuthentication)
        person.lockNow()
        let domain = try open()
        #expect(try storeKey(domain).data == key)
        #expect(!domain.isUnlocked && domain.wasUnlockedOnce)
        // Only that: no key of another class.
        #expect(code { _ = try domain.classKey(for: .complete) } == .protectedDataUnavailable)
        #expect(code { _ = try domain.addRecoveryKey() } == .protectedDataUnavailable)
    }

    @Test func whatCanBeMadeWhileThePersonIsLocked() throws {
        person.lockNow()
        #expect(code { try make(.complete) } == .protectedDataUnavailable)
        #expect(!FileSystem.exists(path))
        let key = try make(.completeUnlessOpen)
        // It is closed: it opens when the person is unlocked.
        let domain = try open()
        #expect(code { _ = try storeKey(domain) } == .protectedDataUnavailable)
        try person.unlock(.keyFile(.keyFile))
        #expect(try storeKey(domain).data == key)
    }

    @Test func whatCanBeMadeBeforeThePersonIsFirstUnlocked() throws {
        func setUp() throws { _ = try folder.person("other.keybag") }
        try setUp()
        let other = try ProtectionDomain.domain(of: folder.path("other.keybag"))
        for fileProtection in Self.classes {
            let found = code {
                let made = try ProtectionDomain.makeKeybag(
                    protection: fileProtection, slots: [], parent: other)
                #expect(try storeKey(made).isAvailable)
            }
            let isAllowed = fileProtection == .completeUnlessOpen
            #expect(found == (isAllowed ? nil : .protectedDataUnavailable))
        }
    }

    @Test func oneThatIsNotOnDiskIsLockedAndUnlocked() throws {
        let domain = try ProtectionDomain.makeKeybag(
            protection: .complete, slots: [NewSlot(.keyFile(.keyFile))], parent: nil)
        let key = try storeKey(domain).data
        domain.lockNow()
        #expect(code { try domain.write(to: path) } == .protectedDataUnavailable)
        try domain.unlock(.keyFile(.keyFile))
        try domain.addSlot(.passphrase("more"), cost: .least)
        try domain.write(to: path, beneath: document)
        domain.lockNow()
        try open().unlock(.passphrase("more"))
        #expect(try storeKey(domain).data == key)
        let there = code { try domain.write(to: path, beneath: document) }
        #expect(there == .alreadyExists)
    }

    @Test func oneMadeWhileThePersonIsLockedIsLockedWithThem() async throws {
        person.lockNow()
        let domain = try ProtectionDomain.makeKeybag(
            protection: .completeUnlessOpen, slots: [], parent: person)
        let classKey = try domain.classKey()
        let (_, wrapped) = try classKey.makeFileKey()
        #expect(domain.isUnlocked && !person.isUnlocked)
        #expect(await person.lock(after: .seconds(10), sleep: ManualClock().sleep))
        #expect(!domain.isUnlocked)
        // What is open goes on.
        #expect(try classKey.fileKey(for: wrapped).isAvailable)
    }

    @Test func withoutAnyKeyNothingCanBeProtected() {
        #expect(
            code { _ = try person.classKey(for: FileProtection.none) } == .protectionUnavailable)
        #expect(code { try make(.complete, hasParent: false) } == .protectionUnavailable)
        #expect(code { try make(.none) } == .protectionUnavailable)
    }

    @Test func otherPeopleOpenItByThemselves() throws {
        let key = try make(
            .complete, slots: [NewSlot(.passphrase("theirs"), label: "Anna", cost: .least)])
        person.lockNow()
        let domain = try open()
        #expect(code { _ = try storeKey(domain) } == .protectedDataUnavailable)
        try domain.unlock(.passphrase("theirs"))
        #expect(try storeKey(domain).data == key)
        // It was not unlocked through the person, and is not locked with them.
        try person.unlock(.keyFile(.keyFile))
        person.lockNow()
        #expect(try storeKey(domain).data == key)
        // The person can be taken off it.
        try domain.removeSlot(domain.slots[0].id)
        domain.lockNow()
        try person.unlock(.keyFile(.keyFile))
        #expect(code { _ = try storeKey(domain) } == .protectedDataUnavailable)
    }

    @Test func aPersonCanBeAdded() throws {
        let key = try make(
            .complete, slots: [NewSlot(.passphrase("theirs"), cost: .least)], hasParent: false)
        let domain = try open()
        #expect(code { _ = try storeKey(domain) } == .protectedDataUnavailable)
        try domain.unlock(.passphrase("theirs"))
        try domain.addDomain(person)
        domain.lockNow()
        // Locked by itself, it stays so.
        #expect(code { _ = try storeKey(domain) } == .protectedDataUnavailable)
        let other = ProtectionDomain(
            try Keybag(FileSystem.contents(of: path), path: path),
            file: KeybagFile(path: path, root: document))
        #expect(try storeKey(other).data == key)
    }

    @Test func oneLockedByItselfIsUnlockedWithThePerson() throws {
        let key = try make(.complete)
        let domain = try open()
        _ = try storeKey(domain)
        domain.lockNow()
        #expect(code { _ = try storeKey(domain) } == .protectedDataUnavailable)
        #expect(person.isUnlocked)
        try person.unlock(.keyFile(.keyFile))
        #expect(try storeKey(domain).data == key)
    }

    @Test func whatIsOpenInItIsToldWithThePerson() async throws {
        try make(.complete)
        let domain = try open()
        _ = try storeKey(domain)
        var events = domain.events.makeAsyncIterator()
        let clock = ManualClock()
        #expect(await person.lock(after: .seconds(10), sleep: clock.sleep))
        #expect(await events.next() == .willBecomeUnavailable)
        #expect(await events.next() == .didBecomeUnavailable)
        try person.unlock(.keyFile(.keyFile))
        #expect(await events.next() == .didBecomeAvailable)
        #expect(domain.isUnlocked)
    }

    @Test func oneThatIsUnlockedByItselfDuringTheGracePeriodStaysOpen() async throws {
        try make(.complete, slots: [NewSlot(.passphrase("theirs"), cost: .least)])
        let domain = try open()
        let key = try storeKey(domain)
        let never = ManualClock()
        let responder = Responder(waitingFor: never)
        domain.addResponder(responder)
        let clock = ManualClock()
        let lock = Task { await person.lock(after: .seconds(10), sleep: clock.sleep) }
        #expect(await responder.next() == "will")
        try domain.unlock(.passphrase("theirs"))
        #expect(await responder.next() == "available")
        clock.fire()
        #expect(await lock.value)
        #expect(!person.isUnlocked && domain.isUnlocked && key.isAvailable)
        never.fire()
    }

    @Test func takingTheLockBackIsToldToDocuments() async throws {
        try make(.complete)
        let domain = try open()
        let key = try storeKey(domain)
        let never = ManualClock()
        let responder = Responder(waitingFor: never)
        domain.addResponder(responder)
        let clock = ManualClock()
        let lock = Task { await person.lock(after: .seconds(10), sleep: clock.sleep) }
        #expect(await responder.next() == "will")
        try person.unlock(.keyFile(.keyFile))
        #expect(await responder.next() == "available")
        #expect(await lock.value == false)
        #expect(domain.isUnlocked && key.isAvailable)
        never.fire()
        clock.fire()
    }

    @Test func anotherKeybagInItsPlaceIsRefused() throws {
        try make(.complete)
        let domain = try open()
        _ = try storeKey(domain)
        person.lockNow()
        try FileManager.default.removeItem(atPath: path)
        #expect(code { _ = try domain.classKey() } == .notFound)
        let other = try ProtectionDomain.makeKeybag(
            protection: .completeUnlessOpen, slots: [], parent: person)
        try other.write(to: path, beneath: document)
        #expect(code { _ = try domain.classKey() } == .storeReplaced)
    }

    @Test func damageIsToldFromALockedDomain() throws {
        try make(.complete)
        var bytes = try FileSystem.contents(of: path)
        bytes[36] = FileProtection.completeUnlessOpen.code
        try AtomicFileReplace.replace(path, with: bytes)
        let domain = try open()
        #expect(code { _ = try domain.classKey() } == .invalidFormat)
        #expect(!domain.isUnlocked)
    }

    @Test func keybagOfAnotherDocumentOpensNothingHere() throws {
        try make(.complete)
        let mine = try open()
        let (_, wrapped) = try mine.classKey().makeFileKey()
        let other = try ProtectionDomain.makeKeybag(
            protection: .complete, slots: [], parent: person)
        #expect(code { _ = try other.classKey().fileKey(for: wrapped) } == .invalidFormat)
    }

    @Test func domainsThatGoRoundInCirclesAreLocked() throws {
        // Each has a slot for the other, and no key is there.
        let other = try folder.person("other.keybag")
        try person.addDomain(other)
        try other.addDomain(person)
        person.lockNow()
        other.lockNow()
        #expect(code { _ = try person.classKey() } == .protectedDataUnavailable)
        #expect(code { _ = try other.classKey() } == .protectedDataUnavailable)
        try person.unlock(.keyFile(.keyFile))
        person.lockNow()
        #expect(!person.isUnlocked && !other.isUnlocked)
    }
}
