extension QueryFunction {
    /// How it is written between its two values, and how tightly that binds.
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

    /// How tightly a sign before a value binds.
    static let prefixBinding = 8
    /// How tightly `**` binds, which groups from the right, unlike the others.
    static let powerBinding = 9

    /// The name it is printed with: Core Data's, without the colon if that is at the end only.
    var callName: String {
        argumentCount == 1 && rawValue.hasSuffix(":") ? String(rawValue.dropLast()) : rawValue
    }

    /// The function of a name: Core Data's, or one without colons; letters' case does not matter.
    static func named(_ name: String) -> QueryFunction? { byName[name.lowercased()] }

    /// The names of functions, to suggest one.
    static let names: [String] = allCases.map(\.callName) + shortNames.keys.sorted()

    /// Names beside those that are printed.
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

/// What `FUNCTION(value, "selector")` computes: the methods of Foundation's classes that have a counterpart here.
enum FunctionSelector {
    case function(QueryFunction)
    case cast(QueryCast)
    /// What stands at the key path that is the argument.
    case keyPath

    /// How many arguments there are behind the selector.
    var argumentCount: Int {
        switch self {
        case .function(let function): function.argumentCount - 1
        case .cast: 0
        case .keyPath: 1
        }
    }

    /// What a selector computes.
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
