import Foundation
import QuireSystem
import Synchronization
import Testing

@testable import QuireProtection

/// Random numbers that are the same for the same seed.
struct TestRandom: RandomNumberGenerator {
    var state: UInt64

    /// SplitMix64.
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

extension ScryptCost {
    /// As little as there can be.
    static let least = ScryptCost(logarithmOfN: 1, r: 1, p: 1)
}

extension Data {
    init(hex: String) {
        let digits = hex.filter(\.isHexDigit).compactMap(\.hexDigitValue)
        self.init(
            stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
        )
    }

    static let keyFile = Data("0123456789abcdefghijklmnopqrstuv".utf8)
}

extension SecretMemory {
    var data: Data { withUnsafeBytes { Data($0) } }
}

/// The code of the error that a body throws; `nil` if it throws none.
func code(_ body: () throws -> Void) -> QuireError.Code? {
    do {
        try body()
        return nil
    } catch {
        return (error as? QuireError)?.code ?? .init(rawValue: "\(error)")
    }
}

/// A keybag with a slot of every kind but `domain`, and a store's key.
struct SampleKeybag {
    var keybag: Keybag
    let masterKey: SecretMemory
    let recoveryKey: RecoveryKey

    init(_ fileProtection: FileProtection = .complete) throws {
        (keybag, masterKey) = try Keybag.make(
            path: "Protection.keybag", fileProtection: fileProtection)
        recoveryKey = try RecoveryKey()
        try keybag.addSlot(
            .passphrase("Grüße"), label: "ich", masterKey: masterKey, cost: .least)
        try keybag.addSlot(.keyFile(.keyFile), label: "", masterKey: masterKey)
        try keybag.addSlot(.recoveryKey(recoveryKey), label: "drawer", masterKey: masterKey)
        keybag.storeKeys = [
            .init(
                number: 1,
                key: WrappedFileKey(
                    file: UUID(), fileProtection: fileProtection, epoch: 1,
                    bytes: Data(count: WrappedFileKey.wrappedCount(for: fileProtection))))
        ]
        keybag.changeInProgress = Data("pending".utf8)
    }

    var bytes: Data { keybag.encoded(masterKey) }

    static func parse(_ bytes: Data) throws -> Keybag {
        try Keybag(bytes, path: "Protection.keybag")
    }
}

/// A folder that is removed when nothing holds it any more.
final class TestFolder: Sendable {
    let path = FileManager.default.temporaryDirectory
        .appendingPathComponent("quire-test-\(UUID().uuidString)").path

    init() throws {
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func path(_ name: String) -> String { path + "/" + name }

    /// A person's domain, unlocked, that ``Foundation/Data/keyFile`` unlocks.
    func person(
        _ name: String = "me.keybag", _ fileProtection: FileProtection = .complete
    ) throws -> ProtectionDomain {
        try ProtectionDomain.setUp(
            at: path(name), credential: .keyFile(.keyFile), fileProtection: fileProtection)
    }
}

/// A clock that stands still until it is told to go.
final class ManualClock: Sendable {
    private let (stream, continuation) = AsyncStream.makeStream(of: Void.self)

    func sleep(_: Duration) async { for await _ in stream {} }

    /// Ends the sleep, also one that has not begun.
    func fire() { continuation.finish() }
}

/// A responder that notes what it is told, and can take its time.
final class Responder: ProtectedDataResponder {
    let calls = Mutex<[String]>([])
    let told = AsyncStream.makeStream(of: String.self)
    /// What it waits for before it lets the domain be locked.
    let patience: ManualClock?

    init(waitingFor patience: ManualClock? = nil) { self.patience = patience }

    private func note(_ call: String) {
        calls.withLock { $0.append(call) }
        told.continuation.yield(call)
    }

    func protectedDataWillBecomeUnavailable() async {
        note("will")
        await patience?.sleep(.zero)
        note("closed")
    }

    func protectedDataDidBecomeAvailable() async { note("available") }

    /// Waits for the next thing that it is told.
    func next() async -> String? { await told.stream.first { _ in true } }
}
