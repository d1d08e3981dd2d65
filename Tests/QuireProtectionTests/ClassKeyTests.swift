import Crypto
import Foundation
import QuireSystem
import Testing

@testable import QuireProtection

/// The table of ``FileProtection``, cell by cell.
@Suite struct ClassKeyTests {
    enum DomainState: String, CaseIterable { case beforeFirstUnlock, unlocked, lockedAgain }
    enum Action: String, CaseIterable { case creating, opening }

    struct Cell: CustomTestStringConvertible, Sendable {
        let fileProtection: FileProtection
        let state: DomainState
        let action: Action

        var testDescription: String { "\(fileProtection) \(state) \(action)" }

        /// What issue 34 says, written out.
        var isAllowed: Bool {
            switch (fileProtection, state, action) {
            case (_, .unlocked, _): true
            case (.completeUntilFirstUserAuthentication, .lockedAgain, _): true
            case (.completeUnlessOpen, _, .creating): true
            default: false
            }
        }

        static let all = FileProtection.allCases.filter { $0 != .none }.flatMap { protection in
            DomainState.allCases.flatMap { state in
                Action.allCases.map { Cell(fileProtection: protection, state: state, action: $0) }
            }
        }
    }

    private let folder: TestFolder

    init() throws { folder = try TestFolder() }

    /// A domain in a state, and the key of a file that was made when it was unlocked.
    private func domain(
        _ fileProtection: FileProtection, _ state: DomainState
    ) throws -> (domain: ProtectionDomain, file: WrappedFileKey, key: Data) {
        func setUp() throws -> (WrappedFileKey, Data) {
            let (key, wrapped) = try folder.person("me.keybag", fileProtection).classKey()
                .makeFileKey()
            return (wrapped, try key.data)
        }
        let (wrapped, key) = try setUp()
        let domain = try ProtectionDomain.domain(of: folder.path("me.keybag"))
        #expect(!domain.isUnlocked && !domain.wasUnlockedOnce)
        if state != .beforeFirstUnlock { try domain.unlock(.keyFile(.keyFile)) }
        if state == .lockedAgain { domain.lockNow() }
        return (domain, wrapped, key)
    }

    @Test(arguments: Cell.all) func followsTheTable(cell: Cell) throws {
        let (domain, file, key) = try domain(cell.fileProtection, cell.state)
        let result = Result {
            switch cell.action {
            case .opening:
                #expect(try domain.classKey().fileKey(for: file).data == key)
            case .creating:
                let classKey = try domain.classKey(creating: true)
                let (made, wrapped) = try classKey.makeFileKey()
                // And used, also when it is opened once more by what has made it.
                #expect(try classKey.fileKey(for: wrapped).data == made.data)
                #expect(wrapped.file == made.file)
            }
        }
        if cell.isAllowed {
            try result.get()
        } else {
            let error = try #require(throws: QuireError.self) { try result.get() }
            #expect(error.code == .protectedDataUnavailable)
            #expect(error.message.contains(folder.path("me.keybag")))
        }
    }

    @Test(arguments: FileProtection.allCases.filter { $0 != .none })
    func whatIsHeldWhenItIsLocked(fileProtection: FileProtection) throws {
        let (domain, file, key) = try domain(fileProtection, .unlocked)
        let classKey = try domain.classKey()
        let fileKey = try classKey.fileKey(for: file)
        domain.lockNow()
        let goesOn = fileProtection != .complete
        #expect(fileKey.isAvailable == goesOn)
        let using = code {
            let found = try fileKey.data
            #expect(found == key)
        }
        #expect(using == (goesOn ? nil : .protectedDataUnavailable))
        let opening = code {
            let found = try classKey.fileKey(for: file).data
            #expect(found == key)
        }
        #expect(opening == (goesOn ? nil : .protectedDataUnavailable))
        let creating = code { _ = try classKey.makeFileKey() }
        #expect(creating == (goesOn ? nil : .protectedDataUnavailable))
        try domain.unlock(.keyFile(.keyFile))
        #expect(try domain.classKey().fileKey(for: file).data == key)
        // A key that was revoked is unwrapped again when it is used, and revoked again.
        #expect(try fileKey.data == key)
        domain.lockNow()
        #expect(fileKey.isAvailable == goesOn)
    }

    @Test func keyForCreatingOpensOthersWhenItIsUnlocked() throws {
        let (domain, file, key) = try domain(.completeUnlessOpen, .beforeFirstUnlock)
        let classKey = try domain.classKey(creating: true)
        let (made, wrapped) = try classKey.makeFileKey()
        #expect(code { _ = try classKey.fileKey(for: file) } == .protectedDataUnavailable)
        try domain.unlock(.keyFile(.keyFile))
        #expect(try classKey.fileKey(for: file).data == key)
        #expect(try domain.classKey().fileKey(for: wrapped).data == made.data)
    }

    @Test func fileKeysOfCompleteThatNobodyHoldsAreForgotten() throws {
        let domain = try folder.person()
        let classKey = try domain.classKey()
        for _ in 0..<200 { _ = try classKey.makeFileKey() }
        let held = try (0..<40).map { _ in try classKey.makeFileKey().key }
        #expect(domain.state.withLock { $0.fileKeys.objects.count } == 40)
        domain.lockNow()
        #expect(held.allSatisfy { !$0.isAvailable })
    }

    @Test(arguments: FileProtection.allCases.filter { $0 != .none })
    func foreignOrDamagedKeyIsInvalid(fileProtection: FileProtection) throws {
        let domain = try folder.person("me.keybag", fileProtection)
        let other = try folder.person("other.keybag", fileProtection)
        let classKey = try domain.classKey()
        let (_, wrapped) = try classKey.makeFileKey()
        #expect(code { _ = try other.classKey().fileKey(for: wrapped) } == .invalidFormat)
        var epoch = wrapped
        epoch.epoch = 2
        #expect(code { _ = try classKey.fileKey(for: epoch) } == .invalidFormat)
        for index in wrapped.bytes.indices {
            var changed = wrapped
            changed.bytes[index] ^= 1
            #expect(code { _ = try classKey.fileKey(for: changed) } == .invalidFormat)
        }
        for protection in FileProtection.allCases where protection != fileProtection {
            var changed = wrapped
            changed.fileProtection = protection
            #expect(code { _ = try classKey.fileKey(for: changed) } == .invalidFormat)
        }
        if fileProtection == .completeUnlessOpen {
            var moved = wrapped
            moved.file = UUID()
            #expect(code { _ = try classKey.fileKey(for: moved) } == .invalidFormat)
        }
    }
}

extension FileKey {
    var data: Data { get throws { try withKey { $0.withUnsafeBytes { Data($0) } } } }
}
