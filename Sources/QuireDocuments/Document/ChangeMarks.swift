/// Where a document stood when snapshots of it were taken that are being saved, by their tokens.
struct ChangeMarks<Position: Sendable & Equatable>: Sendable, Equatable {
    private var positions: [Int: Position] = [:]

    /// Snapshots that nobody tells the end of are forgotten after so many others; then the document stays unsaved.
    private static var greatestCount: Int { 16 }

    mutating func add(_ token: Int, at position: Position) {
        positions[token] = position
        if positions.count > Self.greatestCount, let oldest = positions.keys.min() {
            positions[oldest] = nil
        }
    }

    /// Where the document stood, if it can get there again by undo and redo.
    mutating func take(_ token: Int) -> Position? { positions.removeValue(forKey: token) }

    /// Some positions cannot be reached any more, or have other names.
    mutating func change(_ body: (Position) -> Position?) {
        positions = positions.compactMapValues(body)
    }

    mutating func removeAll() { positions.removeAll() }
}
