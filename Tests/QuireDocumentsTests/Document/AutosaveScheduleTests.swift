import Quire
import Testing

@testable import QuireDocuments

@Suite struct AutosaveScheduleTests {
    private let start = ContinuousClock.now

    private func due(_ schedule: AutosaveSchedule, _ policy: AutosavePolicy = .init()) -> Duration?
    {
        schedule.due(policy).map { start.duration(to: $0) }
    }

    @Test func theFirstChangeIsSavedAfterTheDelay() {
        var schedule = AutosaveSchedule()
        #expect(due(schedule) == nil)
        schedule.didChange(at: start)
        #expect(due(schedule) == .seconds(15))
        schedule.didChange(at: start + .seconds(5))
        #expect(due(schedule) == .seconds(15))
    }

    @Test func nobodyIsInterruptedUntilTheLongestDelay() {
        var schedule = AutosaveSchedule()
        for second in 0...14 { schedule.didChange(at: start + .seconds(second)) }
        #expect(due(schedule) == .seconds(16))
        for second in 15...100 { schedule.didChange(at: start + .seconds(second)) }
        #expect(due(schedule) == .seconds(60))
    }

    @Test func failuresBackOffAndSuccessForgetsThem() {
        var schedule = AutosaveSchedule()
        schedule.didChange(at: start)
        var waits: [Duration] = []
        var now = start
        for _ in 0..<7 {
            schedule.didSave(succeeded: false, at: now)
            schedule.isUnsaved(at: now)
            let next = schedule.due(.init()) ?? now
            waits.append(now.duration(to: next))
            now = next
        }
        #expect(waits == [15, 30, 60, 120, 240, 300, 300].map { .seconds($0) })
        schedule.didSave(succeeded: true, at: now)
        #expect(schedule.due(.init()) == nil)
        schedule.didChange(at: now)
        #expect(schedule.due(.init()) == now + .seconds(15))
    }

    @Test func whatIsCleanIsNotSaved() {
        var schedule = AutosaveSchedule()
        schedule.didChange(at: start)
        schedule.isClean()
        #expect(due(schedule) == nil)
        schedule.didChange(at: start)
        #expect(due(schedule, .never) == nil)
    }

    @Test func aPolicyOfOnesOwnHasNoQuietTimeOfItself() {
        var schedule = AutosaveSchedule()
        let policy = AutosavePolicy(delay: .milliseconds(100))
        schedule.didChange(at: start)
        schedule.didChange(at: start + .milliseconds(99))
        #expect(due(schedule, policy) == .milliseconds(100))
        #expect(policy.longestDelay == .milliseconds(400))
    }
}
