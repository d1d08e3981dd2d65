import Foundation
import QuireSystem
import Testing

@testable import QuireProtection

@Suite struct KeybagTests {
    @Test(arguments: FileProtection.allCases.filter { $0 != .none })
    func isReadAsItWasWritten(fileProtection: FileProtection) throws {
        let sample = try SampleKeybag(fileProtection)
        let read = try SampleKeybag.parse(sample.bytes)
        #expect(read.identifier == sample.keybag.identifier)
        #expect(read.fileProtection == fileProtection)
        #expect(read.slots == sample.keybag.slots)
        #expect(read.slots.map(\.label) == ["ich", "", "drawer"])
        #expect(read.storeKeys == sample.keybag.storeKeys)
        #expect(read.changeInProgress == sample.keybag.changeInProgress)
        #expect(read.encoded(sample.masterKey) == sample.bytes)
        #expect(read.classKeyDigest == sample.keybag.classKeyDigest)
    }

    @Test func eachCredentialOpensIt() throws {
        let sample = try SampleKeybag()
        let keybag = try SampleKeybag.parse(sample.bytes)
        let words = sample.recoveryKey.words
        for credential in [
            KeybagCredential.passphrase("Grüße"),
            // The same text, decomposed.
            .passphrase("Gru\u{308}ße"), .keyFile(.keyFile),
            .recoveryKey(try RecoveryKey(words: words)),
        ] {
            let masterKey = try keybag.masterKey(credential)
            #expect(masterKey.data == sample.masterKey.data)
            #expect(try keybag.unwrapClassKeys(masterKey).count == 1)
        }
    }

    @Test func wrongCredentialOpensNothing() throws {
        let keybag = try SampleKeybag.parse(try SampleKeybag().bytes)
        for credential in [
            KeybagCredential.passphrase("Grusse"), .passphrase(""), .keyFile(Data.keyFile + [0]),
            .keyFile(Data()), .recoveryKey(try RecoveryKey()),
        ] {
            #expect(code { _ = try keybag.masterKey(credential) } == .wrongKey)
        }
    }

    @Test(arguments: 0..<5)
    func oneChangedBitNeverOpens(seed: UInt64) throws {
        let sample = try SampleKeybag()
        let bytes = sample.bytes
        var random = TestRandom(state: seed)
        for _ in 0..<100 {
            var changed = bytes
            let bit = Int.random(in: 0..<(bytes.count * 8), using: &random)
            changed[bit / 8] ^= 1 << (bit % 8)
            for credential in [
                KeybagCredential.passphrase("Grüße"), .keyFile(.keyFile),
                .recoveryKey(sample.recoveryKey),
            ] {
                let found = code { _ = try SampleKeybag.parse(changed).masterKey(credential) }
                #expect(
                    [.wrongKey, .invalidFormat, .unsupported].contains(found),
                    "bit \(bit): \(String(describing: found))")
            }
        }
    }

    @Test func cutOrExtendedOneIsInvalid() throws {
        let bytes = try SampleKeybag().bytes
        for count in 0..<bytes.count {
            let found = code { _ = try SampleKeybag.parse(bytes.prefix(count)) }
            #expect(found == .invalidFormat)
        }
        #expect(code { _ = try SampleKeybag.parse(bytes + [0]) } == .invalidFormat)
        #expect(code { _ = try SampleKeybag.parse(Data(count: 2 << 20)) } == .invalidFormat)
    }

    @Test func randomBytesAreInvalid() throws {
        let start = try SampleKeybag().bytes.prefix(12)
        var random = TestRandom(state: 3)
        for _ in 0..<500 {
            let rest = (0..<Int.random(in: 0..<900, using: &random)).map { _ in
                random.next() as UInt8
            }
            #expect(code { _ = try SampleKeybag.parse(start + rest) } == .invalidFormat)
        }
    }

    @Test func laterVersionIsUnsupported() throws {
        var bytes = try SampleKeybag().bytes
        bytes[9] = 2
        #expect(code { _ = try SampleKeybag.parse(bytes) } == .unsupported)
        bytes[9] = 0
        #expect(code { _ = try SampleKeybag.parse(bytes) } == .invalidFormat)
    }

    @Test(arguments: [
        ScryptCost(logarithmOfN: 21, r: 8, p: 1), ScryptCost(logarithmOfN: 255, r: 8, p: 1),
        ScryptCost(logarithmOfN: 0, r: 8, p: 1), ScryptCost(logarithmOfN: 20, r: 16, p: 1),
        ScryptCost(logarithmOfN: 20, r: 8, p: 16), ScryptCost(logarithmOfN: 10, r: .max, p: .max),
        ScryptCost(logarithmOfN: 10, r: 0, p: 1), ScryptCost(logarithmOfN: 10, r: 8, p: 0),
        ScryptCost(logarithmOfN: 16, r: 1, p: 1), ScryptCost(logarithmOfN: 19, r: 8, p: 1),
    ]) func passphraseThatCostsTooMuchIsNotTried(cost: ScryptCost) throws {
        let sample = try SampleKeybag()
        var bytes = sample.bytes
        let least = Data([1, 0, 0, 0, 1, 0, 0, 0, 1])
        let place = try #require(bytes.range(of: least))
        var parameters = Data([cost.logarithmOfN])
        for number in [cost.r, cost.p] {
            withUnsafeBytes(of: number.bigEndian) { parameters.append(contentsOf: $0) }
        }
        bytes.replaceSubrange(place, with: parameters)
        #expect(code { _ = try SampleKeybag.parse(bytes) } == .invalidFormat)
    }

    @Test func passphraseSlotsThatCostTooMuchTogetherAreNotTried() throws {
        // Half of the limit each.
        let half = ScryptCost(logarithmOfN: 18, r: 8, p: 4)
        let least = Data([1, 0, 0, 0, 1, 0, 0, 0, 1])
        let parameters = Data([half.logarithmOfN, 0, 0, 0, 8, 0, 0, 0, 4])
        var sample = try SampleKeybag()
        for index in 0..<2 {
            try sample.keybag.addSlot(
                .passphrase("\(index)"), label: "", masterKey: sample.masterKey, cost: .least)
        }
        var bytes = sample.bytes
        for count in 1...3 {
            let place = try #require(bytes.range(of: least))
            bytes.replaceSubrange(place, with: parameters)
            // The least cost of the third slot is beyond the limit already.
            let found = code { _ = try SampleKeybag.parse(bytes) }
            #expect(found == (count == 1 ? nil : .invalidFormat))
        }
        let full = code {
            try sample.keybag.addSlot(
                .passphrase("new"), label: "", masterKey: sample.masterKey,
                cost: ScryptCost(logarithmOfN: 18, r: 8, p: 8))
        }
        #expect(full == .invalidState && sample.keybag.slots.count == 5)
    }

    @Test func lowerClassIsFoundWhenItIsUnlocked() throws {
        let sample = try SampleKeybag(.complete)
        var bytes = sample.bytes
        // Behind magic, version, zero, identifier and revision.
        #expect(bytes[36] == FileProtection.complete.code)
        bytes[36] = FileProtection.completeUntilFirstUserAuthentication.code
        let keybag = try SampleKeybag.parse(bytes)
        #expect(keybag.fileProtection == .completeUntilFirstUserAuthentication)
        let found = code { _ = try keybag.masterKey(.keyFile(.keyFile)) }
        #expect(found == .invalidFormat)
    }

    @Test func slotOfAnUnknownKindIsKept() throws {
        let sample = try SampleKeybag()
        var bytes = sample.bytes
        // The kind of the first slot, behind count, length and identifier.
        let place = 36 + 1 + 1 + 156 + 1 + 2 + 16
        #expect(bytes[place] == 1)
        bytes[place] = 9
        var keybag = try SampleKeybag.parse(bytes)
        guard case .other(kind: 9, _) = keybag.slots[0].content else {
            Issue.record("\(keybag.slots[0].content)")
            return
        }
        // It is not what was authenticated; written by somebody who has the key, it is.
        #expect(code { _ = try keybag.masterKey(.keyFile(.keyFile)) } == .invalidFormat)
        keybag = try SampleKeybag.parse(keybag.encoded(sample.masterKey))
        #expect(try keybag.masterKey(.keyFile(.keyFile)).data == sample.masterKey.data)
        #expect(code { _ = try keybag.masterKey(.passphrase("Grüße")) } == .wrongKey)
        try keybag.removeSlot(keybag.slots[1].identifier)
        let last = code { try keybag.removeSlot(keybag.slots[1].identifier) }
        #expect(last == .invalidState)
    }

    @Test func slotsAreAddedAndRemovedButNotTheLast() throws {
        var (keybag, masterKey) = try Keybag.make(path: "k", fileProtection: .complete)
        var added: [UUID] = []
        for number in 0..<8 {
            added.append(
                try keybag.addSlot(
                    .keyFile(Data.keyFile + [UInt8(number)]), label: "\(number)",
                    masterKey: masterKey))
        }
        let ninth = code { try keybag.addSlot(.keyFile(.keyFile), label: "", masterKey: masterKey) }
        #expect(ninth == .invalidState)
        #expect(code { try keybag.removeSlot(UUID()) } == .notFound)
        for slot in added.dropLast() { try keybag.removeSlot(slot) }
        #expect(code { try keybag.removeSlot(added[7]) } == .invalidState)
        keybag = try Keybag(keybag.encoded(masterKey), path: "k")
        #expect(code { _ = try keybag.masterKey(.keyFile(Data.keyFile + [0])) } == .wrongKey)
        #expect(try keybag.masterKey(.keyFile(Data.keyFile + [7])).data == masterKey.data)
    }

    @Test func unusableCredentialsAndLabelsAreRefused() throws {
        var (keybag, masterKey) = try Keybag.make(path: "k", fileProtection: .complete)
        for credential in [
            KeybagCredential.passphrase(""), .keyFile(Data(count: 15)),
            .keyFile(Data(count: 65_537)),
        ] {
            let found = code {
                try keybag.addSlot(credential, label: "", masterKey: masterKey, cost: .least)
            }
            #expect(found == .invalidValue)
        }
        let label = String(repeating: "ü", count: 33)
        let found = code {
            try keybag.addSlot(.keyFile(.keyFile), label: label, masterKey: masterKey)
        }
        #expect(found == .invalidValue)
        #expect(keybag.slots.isEmpty)
    }
}
