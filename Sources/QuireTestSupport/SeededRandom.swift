import Foundation

/// Random numbers that a seed repeats: SplitMix64.
public struct SeededRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// Starts a sequence.
    public init(seed: UInt64) { state = seed }

    /// The next number.
    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// The seed that random tests start from: `QUIRE_SEED` of the environment, or 1. Tests that draw from it
    /// print the seed of a failure.
    public static let baseSeed: UInt64 =
        ProcessInfo.processInfo.environment["QUIRE_SEED"].flatMap { UInt64($0) } ?? 1

    /// The seeds of a random test, from ``baseSeed`` on: as many as given with `QUIRE_TORTURE=1`, and else a sixth, because
    /// those of each commit are others.
    public static func seeds(_ count: UInt64) -> [UInt64] {
        (0..<(isTorture ? count : max(count / 6, 1))).map { baseSeed &+ $0 }
    }

    /// Some of the cases of a test that is not random but dear, drawn by ``baseSeed`` and the test's name: others with each
    /// commit. All of them with `QUIRE_TORTURE=1`.
    public static func sample<Case>(of cases: [Case], _ count: Int, for name: String) -> [Case] {
        if isTorture { return cases }
        var random = SeededRandom(
            seed: name.utf8.reduce(baseSeed) { $0 &* 31 &+ UInt64($1) })
        return Array(cases.shuffled(using: &random).prefix(count))
    }

    private static let isTorture = ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"
}
