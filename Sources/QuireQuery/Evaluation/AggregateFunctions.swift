import Foundation
package import QuireModel

/// What is computed of several values, the same in memory and in SQL. Missing values do not count. The order of the
/// values does not matter, not even to the last bit of a sum.
package enum AggregateFunctions {
    package static func value(
        of function: QueryFunction, _ values: [AttributeValue]
    ) -> AttributeValue {
        let present = values.filter { !ValueOrder.isMissing($0) }
        switch function {
        case .count: return .integer(Int64(present.count))
        case .minimum: return extreme(present) { $0 < 0 }
        case .maximum: return extreme(present) { $0 > 0 }
        case .mode: return mode(of: present)
        default: break
        }
        let numbers = present.compactMap(ValueFunctions.Number.init)
        switch function {
        case .sum: return sum(of: numbers).value
        case .average where !numbers.isEmpty:
            return finite(sum(of: numbers).double / Double(numbers.count))
        case .median where !numbers.isEmpty: return median(of: numbers)
        case .standardDeviation where !numbers.isEmpty: return standardDeviation(of: numbers)
        default: return .null
        }
    }

    /// The values without repetition; of equal ones the first.
    package static func distinct(_ values: [AttributeValue]) -> [AttributeValue] {
        var result: [AttributeValue] = []
        for value in sorted(values) where result.last.map({ !isSame($0, value) }) ?? true {
            result.append(value)
        }
        return result
    }

    /// Whether two values are the same; missing ones are.
    static func isSame(_ left: AttributeValue, _ right: AttributeValue) -> Bool {
        if ValueOrder.isMissing(left) { return ValueOrder.isMissing(right) }
        return ValueOrder.compare(left, right) == 0
    }

    private static func sorted(_ values: [AttributeValue]) -> [AttributeValue] {
        let ordering = SortOrdering("SELF")
        return values.enumerated().sorted { left, right in
            let order = ordering.compare(left.element, right.element)
            return order != 0 ? order < 0 : left.offset < right.offset
        }.map(\.element)
    }

    private static func extreme(
        _ values: [AttributeValue], _ isBetter: (Int) -> Bool
    ) -> AttributeValue {
        guard var best = values.first else { return .null }
        for value in values.dropFirst()
        where ValueOrder.compare(value, best).map(isBetter) ?? false { best = value }
        return best
    }

    private static func mode(of values: [AttributeValue]) -> AttributeValue {
        var best: (value: AttributeValue, count: Int) = (.null, 0)
        var current: (value: AttributeValue, count: Int) = (.null, 0)
        for value in sorted(values) {
            current = isSame(value, current.value) ? (current.value, current.count + 1) : (value, 1)
            if current.count > best.count { best = current }
        }
        return best.value
    }

    // MARK: - Numbers

    /// Exact as long as all are integers; then an integer if it has 64 bits.
    private static func sum(of numbers: [ValueFunctions.Number]) -> ValueFunctions.Number {
        var whole: Int128 = 0
        var others: [Double] = []
        for number in numbers {
            switch number {
            case .integer(let integer): whole += Int128(integer)
            case .double(let double): others.append(double)
            }
        }
        if others.isEmpty {
            return Int64(exactly: whole).map { .integer($0) } ?? .double(Double(whole))
        }
        // By size, so that the order in which a store finds them does not show in the last digit.
        return .double(others.sorted().reduce(Double(whole), +))
    }

    private static func median(of numbers: [ValueFunctions.Number]) -> AttributeValue {
        let sorted = numbers.map(\.double).sorted()
        let middle = sorted.count / 2
        return finite(
            sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2)
    }

    private static func standardDeviation(of numbers: [ValueFunctions.Number]) -> AttributeValue {
        let mean = sum(of: numbers).double / Double(numbers.count)
        let squares = numbers.map { ($0.double - mean) * ($0.double - mean) }.sorted()
        return finite((squares.reduce(0, +) / Double(numbers.count)).squareRoot())
    }

    private static func finite(_ number: Double) -> AttributeValue {
        number.isNaN ? .null : .double(number)
    }
}
