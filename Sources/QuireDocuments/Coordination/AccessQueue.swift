/// Decides who may read and write which items when. A value: it waits for nothing and knows no files.
///
/// Rules
/// =====
///
/// - An item is a path with everything below it.
/// - Readers of an item share it; a writer has it alone.
/// - First come, first served: a request waits for those before it that it would disturb, be they running or waiting.
///   So no writer starves behind readers, nor a reader behind writers.
/// - A request for several items gets all of them at once or none; so no two can wait for each other.
/// - A request that is asking presenters to make way lets through what those presenters ask for themselves: they save
///   before they make way.
struct AccessQueue: Sendable {
    typealias Number = UInt64
    typealias PresenterNumber = ObjectIdentifier

    /// A path, and what for.
    struct Item: Sendable, Equatable {
        var path: String
        var isWriting: Bool

        /// Whether both cannot be used at the same time.
        func disturbs(_ other: Item) -> Bool {
            (isWriting || other.isWriting) && Self.overlap(path, other.path)
        }

        /// Whether one is the other or is in it.
        static func overlap(_ path: String, _ other: String) -> Bool {
            isPath(path, in: other) || isPath(other, in: path)
        }

        static func isPath(_ path: String, in folder: String) -> Bool {
            path == folder || path.hasPrefix(folder == "/" ? "/" : folder + "/")
        }
    }

    enum Stage: Sendable, Equatable {
        case waiting
        /// It has its items as far as other requests are concerned; these presenters are being asked.
        case asking(Set<PresenterNumber>)
        case running
    }

    struct Request: Sendable {
        var number: Number
        var items: [Item]
        /// On whose behalf.
        var presenter: PresenterNumber?
        /// Who it is, for sentences.
        var name: String
        var stage = Stage.waiting
    }

    /// In the order in which they were made.
    private(set) var requests: [Request] = []
    private var lastNumber: Number = 0

    /// Adds a request.
    ///
    /// - Returns: Its number, and whether it may begin now.
    mutating func add(
        _ items: [Item], for presenter: PresenterNumber?, name: String
    ) -> (number: Number, mayBegin: Bool) {
        lastNumber += 1
        requests.append(
            Request(number: lastNumber, items: items, presenter: presenter, name: name))
        return (lastNumber, begin().contains(lastNumber))
    }

    /// A request asks presenters to make way.
    ///
    /// - Returns: Which requests may begin now.
    mutating func ask(_ presenters: Set<PresenterNumber>, for number: Number) -> [Number] {
        set(number, .asking(presenters))
        return begin()
    }

    /// A request has its items for itself.
    mutating func run(_ number: Number) { set(number, .running) }

    /// A request has ended, or was given up.
    ///
    /// - Returns: Which requests may begin now.
    mutating func remove(_ number: Number) -> [Number] {
        requests.removeAll { $0.number == number }
        return begin()
    }

    /// An item was moved: those who want it want it where it is now.
    mutating func move(_ path: String, to newPath: String) -> [Number] {
        for request in requests.indices {
            for item in requests[request].items.indices {
                let old = requests[request].items[item].path
                if Item.isPath(old, in: path) {
                    requests[request].items[item].path = newPath + old.dropFirst(path.count)
                }
            }
        }
        return begin()
    }

    /// The request of a number.
    subscript(_ number: Number) -> Request? { requests.first { $0.number == number } }

    /// For whom a request waits.
    func obstacles(of number: Number) -> [Request] {
        guard let place = requests.firstIndex(where: { $0.number == number }) else { return [] }
        return requests[..<place].filter { isInTheWay($0, of: requests[place]) }
    }

    private mutating func set(_ number: Number, _ stage: Stage) {
        guard let place = requests.firstIndex(where: { $0.number == number }) else { return }
        requests[place].stage = stage
    }

    /// Begins all that nobody stands in the way of.
    private mutating func begin() -> [Number] {
        var begun: [Number] = []
        for place in requests.indices where requests[place].stage == .waiting {
            let request = requests[place]
            if requests[..<place].contains(where: { isInTheWay($0, of: request) }) { continue }
            requests[place].stage = .asking([])
            begun.append(request.number)
        }
        return begun
    }

    private func isInTheWay(_ other: Request, of request: Request) -> Bool {
        if case .asking(let asked) = other.stage, let presenter = request.presenter,
            asked.contains(presenter)
        {
            return false
        }
        return other.items.contains { item in request.items.contains { $0.disturbs(item) } }
    }
}
