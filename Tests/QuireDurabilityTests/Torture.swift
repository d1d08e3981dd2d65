import Foundation

/// How long the tests of this target take: seconds, or with `QUIRE_TORTURE=1` as long as it takes to try everything.
enum Torture {
    static let isOn = ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"

    /// With how many seeds everything is tried: `QUIRE_TORTURE_SEEDS`, or 100.
    static let seeds: UInt64 =
        isOn
        ? ProcessInfo.processInfo.environment["QUIRE_TORTURE_SEEDS"].flatMap { UInt64($0) } ?? 100
        : 1

    /// The only scenario to try: `QUIRE_TORTURE_SCENARIO`, or all.
    static let scenario = ProcessInfo.processInfo.environment["QUIRE_TORTURE_SCENARIO"]

    /// How many states of a scenario are tried at most: `QUIRE_TORTURE_STATES`, or all.
    static let states =
        ProcessInfo.processInfo.environment["QUIRE_TORTURE_STATES"].flatMap { Int($0) } ?? .max
}
