import Foundation
package import QuireModel

/// Functions of values, with the same results in memory and in SQL: those without an SQL equivalent are called as
/// `QUIRE_…(argument, …)`, with values in their stored form.
package enum ValueFunctions {
    /// A number in its computation form.
    package enum Number {
        case integer(Int64)
        case double(Double)

        /// The number, or the seconds of a date; `nil` if the value is missing or not a number.
        package init?(_ value: AttributeValue) {
            switch value.stored {
            case .integer(let integer): self = .integer(integer)
            // Stores do not distinguish negative zero from zero.
            case .double(let number): self = .double(number == 0 ? 0 : number)
            default: return nil
            }
        }

        package var double: Double {
            switch self {
            case .integer(let integer): Double(integer)
            case .double(let number): number
            }
        }

        /// The number truncated to an integer of 64 bits.
        var integer: Int64 {
            switch self {
            case .integer(let integer): integer
            case .double(let number):
                number >= 0x1p63 ? .max : number <= -0x1p63 ? .min : Int64(number)
            }
        }

        var value: AttributeValue {
            switch self {
            case .integer(let integer): .integer(integer)
            case .double(let number): number.isNaN ? .null : .double(number)
            }
        }
    }

    /// The result of a function. A missing argument makes it missing.
    package static func value(
        of function: QueryFunction, _ arguments: [AttributeValue]
    ) -> AttributeValue {
        switch function {
        case .noIndex: return arguments[0]
        case .now: return .date(Date())
        case .random: return .double(Double.random(in: 0..<1))
        default: break
        }
        if arguments.contains(where: ValueOrder.isMissing) { return .null }
        switch function {
        case .uppercase, .lowercase, .canonical, .length, .lastPathComponent:
            return arguments[0].text.map { value(of: function, text: $0) } ?? .null
        default:
            if let decimal = decimal(of: function, arguments) { return .decimal(decimal) }
            let numbers = arguments.compactMap(Number.init)
            guard numbers.count == arguments.count else { return .null }
            return numbers.count == 2
                ? dated(value(of: function, numbers[0], numbers[1]), function, arguments)
                : value(of: function, numbers[0])
        }
    }

    // MARK: - Decimal numbers

    /// Decimal arithmetic, if one operand is a decimal number and the other a number; `nil` if it is not, or the result is beyond
    /// the range of decimal numbers.
    private static func decimal(
        of function: QueryFunction, _ arguments: [AttributeValue]
    ) -> Decimal? {
        guard function.isDecimalArithmetic, arguments.count == 2,
            let numbers = decimals(arguments)
        else { return nil }
        let (left, right) = (numbers[0], numbers[1])
        let result: Decimal
        switch function {
        case .add: result = left + right
        case .subtract: result = left - right
        case .multiply: result = left * right
        default:
            if right.isZero { return nil }
            result = left / right
        }
        return result.isNaN ? nil : result
    }

    /// Numbers as decimal numbers; `nil` unless one of them is one, and all are representable.
    fileprivate static func decimals(_ values: [AttributeValue]) -> [Decimal]? {
        guard values.contains(where: { if case .decimal = $0 { true } else { false } }) else {
            return nil
        }
        var numbers: [Decimal] = []
        for value in values {
            switch value {
            case .decimal(let number): numbers.append(number)
            case .integer(let integer): numbers.append(Decimal(integer))
            case .boolean(let truth): numbers.append(truth ? 1 : 0)
            case .double(let number):
                guard let number = Decimal(shortestOf: number) else { return nil }
                numbers.append(number)
            default: return nil
            }
        }
        return numbers
    }

    /// A date, if seconds were added to a date or subtracted from one.
    private static func dated(
        _ value: AttributeValue, _ function: QueryFunction, _ arguments: [AttributeValue]
    ) -> AttributeValue {
        guard function == .add || function == .subtract,
            arguments.filter({ if case .date = $0 { true } else { false } }).count == 1,
            let seconds = Number(value)
        else { return value }
        return .date(Date(timeIntervalSinceReferenceDate: seconds.double))
    }

    // MARK: - Texts

    private static func value(of function: QueryFunction, text: String) -> AttributeValue {
        switch function {
        case .uppercase: .string(text.uppercased())
        case .lowercase: .string(text.lowercased())
        case .canonical:
            .string(TextFolding.fold(text, [.caseInsensitive, .diacriticInsensitive]))
        case .length: .integer(Int64(text.utf16.count))
        default: .string(lastPathComponent(of: text))
        }
    }

    /// The part after the last `/`, unless it is at the end; the whole text without a `/`.
    private static func lastPathComponent(of path: String) -> String {
        let parts = path.split(separator: "/")
        return parts.last.map(String.init) ?? (path.isEmpty ? "" : "/")
    }

    // MARK: - One number

    private static func value(of function: QueryFunction, _ number: Number) -> AttributeValue {
        switch function {
        case .squareRoot: return Number.double(number.double.squareRoot()).value
        case .logarithm: return Number.double(log10(number.double)).value
        case .naturalLogarithm: return Number.double(log(number.double)).value
        case .exponential: return Number.double(exp(number.double)).value
        case .absolute: return absolute(number).value
        case .ceiling: return rounded(number, .up)
        case .floor: return rounded(number, .down)
        case .truncate: return rounded(number, .towardZero)
        case .onesComplement: return .integer(~number.integer)
        case .randomBelow:
            let bound = number.integer
            return bound > 0 ? .integer(Int64.random(in: 0..<bound)) : .null
        default: return .null
        }
    }

    private static func absolute(_ number: Number) -> Number {
        switch number {
        case .integer(.min): .double(0x1p63)
        case .integer(let integer): .integer(abs(integer))
        case .double(let number): .double(abs(number))
        }
    }

    private static func rounded(
        _ number: Number, _ rule: FloatingPointRoundingRule
    ) -> AttributeValue {
        switch number {
        case .integer: number.value
        case .double(let double): Number.double(double.rounded(rule)).value
        }
    }

    // MARK: - Two numbers

    private static func value(
        of function: QueryFunction, _ left: Number, _ right: Number
    ) -> AttributeValue {
        switch function {
        case .add:
            return computed(left, right, { $0.addingReportingOverflow($1) }, +)
        case .subtract:
            return computed(left, right, { $0.subtractingReportingOverflow($1) }, -)
        case .multiply:
            return computed(left, right, { $0.multipliedReportingOverflow(by: $1) }, *)
        case .divide:
            if right.double == 0 { return .null }
            return computed(left, right, { $0.dividedReportingOverflow(by: $1) }, /)
        case .modulus:
            if right.double == 0 { return .null }
            return computed(
                left, right, { ($0.remainderReportingOverflow(dividingBy: $1).partialValue, false) }
            ) {
                $0.truncatingRemainder(dividingBy: $1)
            }
        case .power: return Number.double(pow(left.double, right.double)).value
        case .bitwiseAnd: return .integer(left.integer & right.integer)
        case .bitwiseOr: return .integer(left.integer | right.integer)
        case .bitwiseXor: return .integer(left.integer ^ right.integer)
        case .leftShift: return .integer(left.integer << right.integer)
        case .rightShift: return .integer(left.integer >> right.integer)
        default: return .null
        }
    }

    /// Integer arithmetic as long as the result fits 64 bits, otherwise floating-point, as in SQLite.
    private static func computed(
        _ left: Number, _ right: Number,
        _ exactly: (Int64, Int64) -> (partialValue: Int64, overflow: Bool),
        _ approximately: (Double, Double) -> Double
    ) -> AttributeValue {
        if case .integer(let left) = left, case .integer(let right) = right {
            let (result, overflows) = exactly(left, right)
            if !overflows { return .integer(result) }
        }
        return Number.double(approximately(left.double, right.double)).value
    }
}

// MARK: - Aggregates

/// Aggregates, with the same results in memory and in SQL. Missing values are ignored. The order of the values does not
/// matter, not even to the last bit of a sum.
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
        if let numbers = ValueFunctions.decimals(present),
            let result = decimal(of: function, numbers)
        {
            return .decimal(result)
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

    /// The values without duplicates, keeping the first.
    package static func distinct(_ values: [AttributeValue]) -> [AttributeValue] {
        var result: [AttributeValue] = []
        for value in sorted(values) where result.last.map({ !isSame($0, value) }) ?? true {
            result.append(value)
        }
        return result
    }

    /// Whether two values are the same; missing values are.
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

    /// The aggregate of decimal numbers; `nil` if the function does not compute decimal numbers, or the result is out of their range.
    private static func decimal(of function: QueryFunction, _ numbers: [Decimal]) -> Decimal? {
        let result: Decimal
        switch function {
        case .sum: result = numbers.reduce(0, +)
        case .average: result = numbers.reduce(0, +) / Decimal(numbers.count)
        case .median:
            let sorted = numbers.sorted()
            let middle = sorted.count / 2
            result =
                sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
        default: return nil
        }
        return result.isNaN ? nil : result
    }

    /// Exact for integers only; then an integer if it fits 64 bits.
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
        // Sorted, so that the store's row order does not affect the last digit.
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
