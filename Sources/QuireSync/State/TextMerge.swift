/// Merges two texts that came from one, line by line.
///
/// What one side has changed is taken; what both have changed alike is taken once. Changes that overlap, or touch where one of them
/// has nothing but new lines, have no merge: nobody knows what goes first.
enum TextMerge {
    /// The maximum size of a text, in UTF-8.
    static let maximumSize = 256 * 1024
    /// The maximum number of lines that one side may have removed and added. It bounds time and memory, which grow with its square.
    static let maximumChangeCount = 1_000

    /// The merged text; `nil` if there is none, or the texts are too large.
    static func merge(base: String, _ first: String, _ second: String) -> String? {
        guard [base, first, second].allSatisfy({ $0.utf8.count <= maximumSize }) else {
            return nil
        }
        var numbers: [ArraySlice<UInt8>: Int] = [:]
        var lines: [ArraySlice<UInt8>] = []
        func numbered(_ text: String) -> [Int] {
            Array(text.utf8).split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
                .map { line in
                    if let known = numbers[line] { return known }
                    numbers[line] = lines.count
                    lines.append(line)
                    return lines.count - 1
                }
        }
        let (base, first, second) = (numbered(base), numbered(first), numbered(second))
        guard let merged = merge(base: base, first, second) else { return nil }
        // Cut at line ends only, so it is UTF-8 as the texts were.
        let newline = CollectionOfOne(UInt8(ascii: "\n"))
        return String(
            decoding: Array(merged.map { lines[$0] }.joined(separator: newline)), as: UTF8.self)
    }

    /// Lines of the base that are replaced by others; an empty range for an insertion.
    struct Change: Equatable {
        var base: Range<Int>
        var lines: [Int]
    }

    static func merge(base: [Int], _ first: [Int], _ second: [Int]) -> [Int]? {
        guard let ours = changes(from: base, to: first),
            let theirs = changes(from: base, to: second)
        else { return nil }
        var merged: [Int] = []
        var position = 0
        var (index, other) = (0, 0)
        while index < ours.count || other < theirs.count {
            let next: Change
            if index < ours.count, other < theirs.count {
                let (own, their) = (ours[index], theirs[other])
                if own == their {
                    (index, other) = (index + 1, other + 1)
                    next = own
                } else if overlap(own, their) {
                    return nil
                } else if own.base.lowerBound < their.base.lowerBound {
                    index += 1
                    next = own
                } else {
                    other += 1
                    next = their
                }
            } else if index < ours.count {
                next = ours[index]
                index += 1
            } else {
                next = theirs[other]
                other += 1
            }
            merged += base[position..<next.base.lowerBound]
            merged += next.lines
            position = next.base.upperBound
        }
        return merged + base[position...]
    }

    private static func overlap(_ first: Change, _ second: Change) -> Bool {
        if first.base.isEmpty || second.base.isEmpty {
            return first.base.lowerBound <= second.base.upperBound
                && second.base.lowerBound <= first.base.upperBound
        }
        return first.base.overlaps(second.base)
    }

    // MARK: - Differences

    /// The changes that make one sequence of lines another; `nil` if there are too many.
    static func changes(from base: [Int], to new: [Int]) -> [Change]? {
        var start = 0
        let shorter = min(base.count, new.count)
        while start < shorter, base[start] == new[start] { start += 1 }
        var end = 0
        while end < shorter - start, base[base.count - 1 - end] == new[new.count - 1 - end] {
            end += 1
        }
        let (old, replaced) = (
            base[start..<(base.count - end)], new[start..<(new.count - end)]
        )
        if old.isEmpty, replaced.isEmpty { return [] }
        if old.isEmpty || replaced.isEmpty {
            return [Change(base: old.startIndex..<old.endIndex, lines: Array(replaced))]
        }
        return edits(from: old, to: replaced)
    }

    /// Myers' greedy algorithm: the furthest points that are reached with each number of edits, and then the way back.
    private static func edits(from old: ArraySlice<Int>, to new: ArraySlice<Int>) -> [Change]? {
        let maximum = min(old.count + new.count, maximumChangeCount)
        // The number of old lines behind the furthest point of each diagonal; that of new ones follows from it.
        var furthest = [Int32](repeating: 0, count: 2 * maximum + 3)
        let middle = maximum + 1
        // The same, before each number of edits.
        var history: [ArraySlice<Int32>] = []
        for count in 0...maximum {
            history.append(ArraySlice(Array(furthest[(middle - count)...(middle + count)])))
            for diagonal in stride(from: -count, through: count, by: 2) {
                let (below, above) = (
                    furthest[middle + diagonal - 1], furthest[middle + diagonal + 1]
                )
                let isInsertion = diagonal == -count || diagonal != count && below < above
                var x = Int(isInsertion ? above : below + 1)
                var y = x - diagonal
                while x < old.count, y < new.count,
                    old[old.startIndex + x] == new[new.startIndex + y]
                {
                    x += 1
                    y += 1
                }
                furthest[middle + diagonal] = Int32(x)
                if x >= old.count, y >= new.count { return path(history, from: old, to: new) }
            }
        }
        return nil
    }

    /// Goes back from the end to the beginning; edits with no common line between them are one change.
    private static func path(
        _ history: [ArraySlice<Int32>], from old: ArraySlice<Int>, to new: ArraySlice<Int>
    ) -> [Change] {
        var edits: [(x: Int, y: Int, isInsertion: Bool)] = []
        var (x, y) = (old.count, new.count)
        for count in stride(from: history.count - 1, to: 0, by: -1) {
            let diagonal = x - y
            func furthest(_ diagonal: Int) -> Int { Int(history[count][diagonal + count]) }
            let isInsertion =
                diagonal == -count
                || diagonal != count && furthest(diagonal - 1) < furthest(diagonal + 1)
            let previous = isInsertion ? diagonal + 1 : diagonal - 1
            x = furthest(previous)
            y = x - previous
            edits.append((x, y, isInsertion))
        }
        var changes: [Change] = []
        var end = (x: -1, y: -1)
        for edit in edits.reversed() {
            let place = old.startIndex + edit.x
            if end != (edit.x, edit.y) {
                changes.append(Change(base: place..<place, lines: []))
            }
            let last = changes.endIndex - 1
            if edit.isInsertion {
                changes[last].lines.append(new[new.startIndex + edit.y])
                end = (edit.x, edit.y + 1)
            } else {
                changes[last].base = changes[last].base.lowerBound..<(place + 1)
                end = (edit.x + 1, edit.y)
            }
        }
        return changes
    }
}
