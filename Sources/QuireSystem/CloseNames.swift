/// Suggests the names that a misspelled one may have meant.
package enum CloseNames {
    /// The longest name for which suggestions are computed, in bytes.
    private static let maximumCount = 100

    /// The names that differ only in case, or else by few letters or in being longer: the three closest, in order.
    package static func of(_ name: String, among names: [String]) -> [String] {
        if name.isEmpty || name.utf8.count > maximumCount { return [] }
        let wanted = Array(name.lowercased())
        let bound = max(1, wanted.count / 3)
        let close = names.map { candidate -> (distance: Int, name: String) in
            let letters = Array(candidate.lowercased().prefix(maximumCount))
            let distance = distance(wanted, letters)
            // “lower” for “lowercase”, but after misspellings.
            let isBeginning = wanted.count > 2 && letters.starts(with: wanted)
            return (isBeginning ? min(distance, bound) : distance, candidate)
        }
        let sorted = close.filter { $0.distance <= bound }.sorted { $0 < $1 }
        return sorted.filter { sorted[0].distance > 0 || $0.distance == 0 }.prefix(3).map(\.name)
    }

    /// The end of an error's message: a question with similar names, or else the names after an introduction such as
    /// “its entities are”, and a full stop.
    ///
    /// - Parameter none: The end of the message if there are no names at all.
    package static func advice(
        for name: String, among names: [String], _ introduction: String,
        none: String = "there are none"
    ) -> String {
        let close = of(name, among: names)
        if !close.isEmpty {
            return "did you mean \(close.map { "“\($0)”" }.joined(separator: " or "))?"
        }
        return names.isEmpty
            ? "\(none)." : "\(introduction): \(names.sorted().joined(separator: ", "))."
    }

    /// The number of letters to insert, delete, replace or exchange with their neighbour to turn one word into another.
    private static func distance(_ left: [Character], _ right: [Character]) -> Int {
        var previous: [Int] = []
        var row = Array(0...right.count)
        for (i, letter) in left.enumerated() {
            var next = [i + 1]
            for (j, other) in right.enumerated() {
                var least = min(row[j] + (letter == other ? 0 : 1), row[j + 1] + 1, next[j] + 1)
                if i > 0, j > 0, letter == right[j - 1], left[i - 1] == other {
                    least = min(least, previous[j - 1] + 1)
                }
                next.append(least)
            }
            (previous, row) = (row, next)
        }
        return row[right.count]
    }
}
