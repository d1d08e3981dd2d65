import Foundation
import QuireTestSupport
import Testing

@testable import QuireDocuments

@Suite struct VersionRetentionTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)
    private static let calendar: Calendar = {
        var calendar = Calendar(identifier: .iso8601)
        calendar.timeZone = .gmt
        return calendar
    }()

    private func version(
        hoursAgo: Double, name: String? = nil, reason: DocumentVersion.Reason = .periodic,
        size: Int64 = 1, isResolved: Bool = false, problem: String? = nil
    ) -> DocumentVersion {
        let date = Self.now.addingTimeInterval(-hoursAgo * 3600)
        return DocumentVersion(
            id: "\(Int64(date.timeIntervalSince1970 * 1000))", date: date, name: name,
            reason: reason, origin: nil, size: size, addedSize: size, isResolved: isResolved,
            problem: problem)
    }

    private func stay(
        _ versions: [DocumentVersion], _ retention: VersionRetention = VersionRetention()
    ) -> [DocumentVersion] {
        let gone = Set(
            retention.versionsToPrune(versions, now: Self.now, calendar: Self.calendar).map(\.id))
        return versions.filter { !gone.contains($0.id) }
    }

    @Test func allOfTheLastDayStay() {
        let versions = (0..<24).map { version(hoursAgo: Double($0)) }
        #expect(stay(versions).count == 24)
    }

    @Test func oneADayStaysForAMonthThenOneAWeek() {
        let versions = (0..<(100 * 24)).map { version(hoursAgo: Double($0) + 0.5) }
        let rest = stay(versions)
        let ages = rest.map { Self.now.timeIntervalSince($0.date) / 86_400 }
        #expect(ages.count { $0 <= 1 } == 24)
        #expect((29...30).contains(ages.count { $0 > 1 && $0 <= 30 }))
        #expect((10...11).contains(ages.count { $0 > 30 }))
        // What stays, stays: pruning again removes nothing.
        #expect(stay(rest).count == rest.count)
    }

    @Test func ofADayTheLastStays() {
        let versions = [version(hoursAgo: 50), version(hoursAgo: 49), version(hoursAgo: 48.5)]
        let day = Self.calendar.component(.day, from: versions[0].date)
        let sameDay = versions.filter { Self.calendar.component(.day, from: $0.date) == day }
        #expect(stay(sameDay) == [sameDay[sameDay.count - 1]])
    }

    @Test func countAndSizeAreLimits() {
        let versions = (0..<10).map { version(hoursAgo: Double($0), size: 100) }
        var retention = VersionRetention()
        retention.maximumCount = 3
        #expect(stay(versions, retention) == Array(versions.prefix(3)))
        retention.maximumCount = nil
        retention.maximumSize = 450
        #expect(stay(versions, retention) == Array(versions.prefix(4)))
        retention.keepsWeekly = 0
        #expect(retention.versionsToPrune([], now: Self.now) == [])
    }

    @Test func namedConflictingAndDamagedVersionsStay() {
        let versions = [
            version(hoursAgo: 10_000, name: "thesis"),
            version(hoursAgo: 10_001, reason: .conflict),
            version(hoursAgo: 10_002, problem: "damaged"),
            version(hoursAgo: 10_003, reason: .conflict, isResolved: true),
            version(hoursAgo: 0),
        ]
        var retention = VersionRetention()
        retention.maximumCount = 0
        #expect(stay(versions, retention) == Array(versions.prefix(3)))
        retention.keepsNamed = false
        #expect(stay(versions, retention) == Array(versions[1...2]))
    }

    @Test func pruningIsMonotonous() throws {
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        for _ in 0..<50 {
            let versions = (0..<Int.random(in: 0...60, using: &random)).map { _ in
                version(hoursAgo: .random(in: 0...5000, using: &random))
            }
            var retention = VersionRetention()
            if Bool.random(using: &random) { retention.maximumCount = 7 }
            let rest = stay(versions, retention)
            #expect(stay(rest, retention) == rest, "QUIRE_SEED=\(SeededRandom.baseSeed)")
            if let newest = versions.max(by: { $0.id < $1.id }) { #expect(rest.contains(newest)) }
        }
    }
}
