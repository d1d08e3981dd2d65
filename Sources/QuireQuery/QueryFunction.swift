/// The functions of expressions. The raw values are their names in Core Data's expressions.
///
/// - A function of a missing value is missing, except that ``count`` and ``sum`` of no values are 0.
/// - Arithmetic is by amount: integers stay integers (`7 / 2` is 3) until they overflow 64 bits, and become floating-point
///   numbers then or when one operand is one. Division by zero is missing. A date and a number of seconds give a date, two
///   dates a number of seconds.
/// - Text functions are locale-independent.
/// - Aggregates take a to-many key path, a subquery or a collection. In the columns and the `HAVING` of a request for
///   dictionaries they also take an expression with one value per object, and aggregate over the objects of each group.
public enum QueryFunction: String, Sendable, Hashable, CaseIterable {
    // MARK: Arithmetic

    /// `a + b`
    case add = "add:to:"
    /// `a - b`
    case subtract = "from:subtract:"
    /// `a * b`
    case multiply = "multiply:by:"
    /// `a / b`
    case divide = "divide:by:"
    /// `modulus:by:(a, b)`: the remainder of a division, with the sign of the first operand.
    case modulus = "modulus:by:"
    /// `a ** b`: a power, always a floating-point number.
    case power = "raise:toPower:"
    /// `sqrt(a)`
    case squareRoot = "sqrt:"
    /// `log(a)`: the logarithm to base 10.
    case logarithm = "log:"
    /// `ln(a)`: the natural logarithm.
    case naturalLogarithm = "ln:"
    /// `exp(a)`
    case exponential = "exp:"
    /// `abs(a)`
    case absolute = "abs:"
    /// `ceiling(a)`: the smallest whole number that is not less.
    case ceiling = "ceiling:"
    /// `floor(a)`: the greatest whole number that is not greater.
    case floor = "floor:"
    /// `trunc(a)`: the number without its fraction.
    case truncate = "trunc:"
    /// `random()`: a random number from 0 up to 1, different on each evaluation.
    case random = "random"
    /// `random(n)`: a whole number from 0 up to, not including, n.
    case randomBelow = "random:"

    // MARK: Bits

    /// `a & b`
    case bitwiseAnd = "bitwiseAnd:with:"
    /// `a | b`
    case bitwiseOr = "bitwiseOr:with:"
    /// `a ^ b`
    case bitwiseXor = "bitwiseXor:with:"
    /// `a << b`
    case leftShift = "leftshift:by:"
    /// `a >> b`
    case rightShift = "rightshift:by:"
    /// `~a`
    case onesComplement = "onesComplement:"

    // MARK: Texts

    /// `uppercase(a)`
    case uppercase = "uppercase:"
    /// `lowercase(a)`
    case lowercase = "lowercase:"
    /// `canonical(a)`: the text folded for case and diacritics, as `[cd]` compares it.
    case canonical = "canonical:"
    /// `length(a)`: the number of UTF-16 units, as Foundation counts.
    case length = "length:"
    /// `FUNCTION(a, "lastPathComponent")`
    case lastPathComponent = "lastPathComponent"

    // MARK: Time

    /// `now()`: the time at which the request is executed, the same for all objects.
    case now = "now"

    // MARK: Several values

    /// `a.@count`, `count(a)`: the number of non-missing values.
    case count = "count:"
    /// `a.@sum.b`, `sum(a.b)`
    case sum = "sum:"
    /// `a.@avg.b`, `average(a.b)`
    case average = "average:"
    /// `a.@min.b`, `min(a.b)`
    case minimum = "min:"
    /// `a.@max.b`, `max(a.b)`
    case maximum = "max:"
    /// `median(a.b)`
    case median = "median:"
    /// `mode(a.b)`: the most frequent value, the smallest of several.
    case mode = "mode:"
    /// `stddev(a.b)`: the standard deviation of the whole population.
    case standardDeviation = "stddev:"
    /// `a.@distinctUnionOfObjects.b`, `distinct(a.b)`: the values without duplicates.
    case distinct = "distinct:"
    /// `a UNION b`
    case union = "union:"
    /// `a INTERSECT b`
    case intersection = "intersect:"
    /// `a MINUS b`
    case difference = "minus:"
    /// `a[n]`: the value at an index, from 0.
    case element = "objectFrom:withIndex:"
    /// `a[FIRST]`
    case first = "first:"
    /// `a[LAST]`
    case last = "last:"

    // MARK: Hints

    /// `noindex(a)`: the value, without use of an index on it.
    case noIndex = "noindex:"
}

extension QueryFunction {
    /// The number of arguments.
    public var argumentCount: Int {
        switch self {
        case .random, .now: 0
        case .add, .subtract, .multiply, .divide, .modulus, .power, .bitwiseAnd, .bitwiseOr,
            .bitwiseXor, .leftShift, .rightShift, .union, .intersection, .difference, .element:
            2
        default: 1
        }
    }

    /// Whether it aggregates several values into one.
    public var isAggregate: Bool {
        switch self {
        case .count, .sum, .average, .minimum, .maximum, .median, .mode, .standardDeviation: true
        default: false
        }
    }

    /// Whether its result is a decimal number if an operand is one and all are numbers. Others compute decimal numbers as
    /// floating-point numbers.
    package var isDecimalArithmetic: Bool {
        switch self {
        case .add, .subtract, .multiply, .divide, .sum, .average, .median: true
        default: false
        }
    }
}

// MARK: - Format

extension QueryFunction {
    /// The infix operator and its binding strength.
    var infix: (word: String, binding: Int)? {
        switch self {
        case .union: ("UNION", 1)
        case .intersection: ("INTERSECT", 1)
        case .difference: ("MINUS", 1)
        case .bitwiseOr: ("|", 2)
        case .bitwiseXor: ("^", 3)
        case .bitwiseAnd: ("&", 4)
        case .leftShift: ("<<", 5)
        case .rightShift: (">>", 5)
        case .add: ("+", 6)
        case .subtract: ("-", 6)
        case .multiply: ("*", 7)
        case .divide: ("/", 7)
        case .power: ("**", Self.powerBinding)
        default: nil
        }
    }

    /// The binding strength of a prefix sign.
    static let prefixBinding = 8
    /// The binding strength of `**`, the only right-associative operator.
    static let powerBinding = 9

    /// The printed name: Core Data's, without a single trailing colon.
    var callName: String {
        argumentCount == 1 && rawValue.hasSuffix(":") ? String(rawValue.dropLast()) : rawValue
    }

    /// The function with a name: Core Data's, or one without colons; case-insensitive.
    static func named(_ name: String) -> QueryFunction? { byName[name.lowercased()] }

    /// The names of functions, for suggestions.
    static let names: [String] = allCases.map(\.callName) + shortNames.keys.sorted()

    /// Aliases that are parsed but not printed.
    private static let shortNames: [String: QueryFunction] = [
        "modulus": .modulus, "bitwiseAnd": .bitwiseAnd, "bitwiseOr": .bitwiseOr,
        "bitwiseXor": .bitwiseXor, "leftshift": .leftShift, "rightshift": .rightShift,
        "randomn": .randomBelow,
    ]

    private static let byName: [String: QueryFunction] = {
        var names: [String: QueryFunction] = ["randomn:": .randomBelow]
        for function in allCases {
            names[function.rawValue.lowercased()] = function
            if function != .randomBelow { names[function.callName.lowercased()] = function }
        }
        for (name, function) in shortNames { names[name.lowercased()] = function }
        return names
    }()
}

/// The method in `FUNCTION(value, "selector")`: methods of Foundation's classes with an equivalent here.
enum FunctionSelector {
    case function(QueryFunction)
    case cast(QueryCast)
    /// The value of the key path given as argument.
    case keyPath

    /// The number of arguments after the selector.
    var argumentCount: Int {
        switch self {
        case .function(let function): function.argumentCount - 1
        case .cast: 0
        case .keyPath: 1
        }
    }

    /// The known selectors.
    static let named: [String: FunctionSelector] = [
        "uppercaseString": .function(.uppercase), "lowercaseString": .function(.lowercase),
        "length": .function(.length), "lastPathComponent": .function(.lastPathComponent),
        "dateByAddingTimeInterval:": .function(.add),
        "timeIntervalSinceDate:": .function(.subtract),
        "timeIntervalSinceReferenceDate": .cast(.number), "doubleValue": .cast(.number),
        "stringValue": .cast(.string), "absoluteString": .cast(.string),
        "UUIDString": .cast(.string), "count": .function(.count),
        "firstObject": .function(.first), "lastObject": .function(.last),
        "objectAtIndex:": .function(.element), "valueForKey:": .keyPath,
        "valueForKeyPath:": .keyPath,
    ]
}
