import Quire
import QuireTestSupport

/// A disk that a power loss could leave, with what must be on it.
struct CrashState {
    /// What is durable, and the changes that arrived beyond that. The disk is made of them each time it is asked for: a
    /// scenario has thousands of states, of megabytes each.
    fileprivate let durable: Disk
    fileprivate let arrived: [(change: DiskChange, number: Int, tear: Disk.Tear?)]
    /// The saves that each package may stand at.
    var allowed: [String: Set<Int?>]
    /// Where the power was lost, and what was lost with it.
    let story: String

    var disk: Disk {
        var disk = durable
        for (change, number, tear) in arrived { disk.apply(change, number: number, torn: tear) }
        return disk
    }
}

/// The states that a power loss at any time could leave, of what a recording tells.
///
/// A change is durable when its file or folder has been synchronized. Of those that are not, any may have arrived, in any
/// order. All combinations are too many; those that are looked at are: none, all, each alone, all but each, those
/// until each, some at random, and all with one write torn.
struct CrashStates {
    let recording: DiskRecording
    /// What is known before the recording begins.
    let progress: CrashProgress
    /// A kind of synchronizations that are taken for not having happened.
    var ignored: String?

    /// Where the recording is interrupted, with what is durable then.
    private struct Interruption {
        var disk: Disk
        var pending: [Int]
        var allowed: [String: Set<Int?>]
        var after: String
        /// Whether something has just been said.
        var followsLine: Bool
    }

    /// The states, without repetitions, in a random order; first those after something was said where nothing, or all but
    /// one change, arrived that had not been synchronized.
    ///
    /// - Parameter limit: How many at most.
    func states(limit: Int, random: inout SeededRandom) -> [CrashState] {
        let interruptions = interruptions()
        var order = interruptions.indices.filter { interruptions[$0].followsLine }
        order += interruptions.indices.filter { !interruptions[$0].followsLine }
            .shuffled(using: &random)
        var known: [Int: Int] = [:]
        var states: [CrashState] = []
        for index in order {
            // More than are wanted, to choose from.
            if limit < Int.max / 4, states.count > limit * 4 { break }
            let interruption = interruptions[index]
            for choice in choices(interruption.pending, &random) {
                let state = CrashState(
                    durable: interruption.disk,
                    arrived: choice.kept.compactMap { number in
                        guard case .change(let change, _) = recording.operations[number] else {
                            return nil
                        }
                        return (change, number, choice.torn == number ? choice.tear : nil)
                    },
                    allowed: interruption.allowed, story: story(interruption, choice))
                let fingerprint = state.disk.fingerprint
                if let same = known[fingerprint] {
                    for (name, stands) in interruption.allowed {
                        states[same].allowed[name] =
                            states[same].allowed[name]?.intersection(stands) ?? stands
                    }
                    continue
                }
                known[fingerprint] = states.count
                states.append(state)
            }
        }
        return Array(states.shuffled(using: &random).prefix(limit))
    }

    // MARK: - Interruptions

    private func interruptions() -> [Interruption] {
        var disk = recording.start
        var pending: [Int] = []
        var progress = progress
        var covered: [Int: Set<Int>] = [:]
        var interruptions: [Interruption] = []
        for (number, operation) in recording.operations.enumerated() {
            var after = ""
            var followsLine = false
            switch operation {
            case .change(_, let description):
                pending.append(number)
                after = description
            case .line(let line):
                progress.note(line)
                after = "“\(line)”"
                followsLine = true
            case .synchronize(let node, let thing):
                if thing == ignored { continue }
                after = "synchronize \(thing)"
                pending = pending.filter { earlier in
                    guard case .change(let change, _) = recording.operations[earlier] else {
                        return false
                    }
                    covered[earlier, default: []].insert(node)
                    guard isDurable(change, after: covered[earlier] ?? []) else { return true }
                    disk.apply(change, number: earlier)
                    return false
                }
            }
            interruptions.append(
                Interruption(
                    disk: disk, pending: pending, allowed: progress.allowed,
                    after: "\(number), \(after)", followsLine: followsLine))
        }
        return interruptions
    }

    private func isDurable(_ change: DiskChange, after synchronized: Set<Int>) -> Bool {
        switch change {
        case .write(let node, _, _), .resize(let node, _): synchronized.contains(node)
        // What moves from one folder to another is there when the other has been synchronized: no file system forgets the
        // one half of a renaming.
        case .names(let changes):
            changes.filter { $0.node != nil || changes.count == 1 }
                .allSatisfy { synchronized.contains($0.folder) }
        }
    }

    // MARK: - Choices

    private struct Choice {
        var kept: [Int]
        var torn: Int?
        var tear: Disk.Tear?
    }

    private func choices(_ pending: [Int], _ random: inout SeededRandom) -> [Choice] {
        if pending.isEmpty { return [Choice(kept: [])] }
        var choices = [Choice(kept: []), Choice(kept: pending)]
        for index in pending.indices {
            choices.append(Choice(kept: [pending[index]]))
            choices.append(Choice(kept: pending.filter { $0 != pending[index] }))
            choices.append(Choice(kept: Array(pending[..<index])))
            guard case .change(.write, _) = recording.operations[pending[index]] else { continue }
            for tear in Disk.Tear.allCases {
                choices.append(Choice(kept: pending, torn: pending[index], tear: tear))
            }
        }
        for _ in 0..<min(pending.count, 12) {
            choices.append(Choice(kept: pending.filter { _ in Bool.random(using: &random) }))
        }
        return choices
    }

    private func story(_ interruption: Interruption, _ choice: Choice) -> String {
        let kept = Set(choice.kept)
        func describe(_ number: Int) -> String {
            guard case .change(_, let description) = recording.operations[number] else { return "" }
            return "\(number) \(description)"
        }
        let lost = interruption.pending.filter { !kept.contains($0) }.map(describe)
        var story = "power lost after \(interruption.after)"
        if !lost.isEmpty { story += "; lost: \(lost.joined(separator: ", "))" }
        if let torn = choice.torn, let tear = choice.tear {
            story += "; only the \(tear) of \(describe(torn))"
        }
        return story
    }
}
