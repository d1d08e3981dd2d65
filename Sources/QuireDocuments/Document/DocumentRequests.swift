import Quire

/// Those who wait for answers, and what the numbers stand for by which the state machine knows things it need not know
/// more of.
@MainActor
struct DocumentRequests {
    /// Work that has the package to itself for as long as it takes. What it does at once, when its turn comes, is a snapshot
    /// of the document as it is then; the rest is what it gives.
    typealias Work = @MainActor (OpenDocument) throws -> @MainActor () async throws -> Void

    private var openings: [Opening] = []
    private var waiters: [Int: @MainActor (QuireError?) -> Void] = [:]
    private var work: [Int: Work] = [:]
    private var lastNumber = 0

    /// A number for somebody who waits.
    mutating func addWaiter(_ answer: @escaping @MainActor (QuireError?) -> Void) -> Int {
        lastNumber += 1
        waiters[lastNumber] = answer
        return lastNumber
    }

    /// Who waits under a number; they are answered once.
    mutating func takeWaiter(_ number: Int) -> (@MainActor (QuireError?) -> Void)? {
        waiters.removeValue(forKey: number)
    }

    /// A number for work.
    mutating func addWork(_ body: @escaping Work) -> Int {
        lastNumber += 1
        work[lastNumber] = body
        return lastNumber
    }

    /// The work of a number, which is done once.
    mutating func takeWork(_ number: Int) -> Work? { work.removeValue(forKey: number) }

    /// The machine's name for a way of opening.
    mutating func name(of opening: Opening) -> DocumentStateMachine.Opening {
        var named = DocumentStateMachine.Opening(isReadOnly: opening.isReadOnly)
        if opening.creates || opening.model != nil {
            named.isCreation = opening.creates
            if !opening.creates, let known = openings.firstIndex(of: opening) {
                named.number = known + 1
            } else {
                openings.append(opening)
                named.number = openings.count
            }
        }
        return named
    }

    /// The way of opening that the machine names.
    func opening(_ named: DocumentStateMachine.Opening) -> Opening {
        named.number == 0 ? Opening(isReadOnly: named.isReadOnly) : openings[named.number - 1]
    }
}
