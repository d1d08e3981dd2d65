import Quire

/// The values that could not be read while others were printed, because the files that hold them are missing or damaged.
final class UnreadableValues {
    private var count = 0
    private var first: QuireError?

    /// Takes notice of one.
    func add(_ error: QuireError) {
        count += 1
        if first == nil { first = error }
    }

    /// - Throws: `Failure` if there were any since the last call.
    func check() throws {
        guard let first else { return }
        defer { (count, self.first) = (0, nil) }
        throw Failure(
            sentence: count == 1
                ? first.message : "\(count) values cannot be read. The first: \(first.message)",
            status: .invalidData)
    }
}
