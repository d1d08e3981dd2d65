import Foundation
internal import QuireModel
internal import QuireQuery

extension FetchComparison {
    /// `IN`: equal to one of the elements; with a text on the right, part of it.
    func membership() throws -> FetchCondition {
        guard case .list(let operands) = right else {
            return textPart(.contains, of: right, left)
        }
        let elements = operands.compactMap { operand -> AttributeValue? in
            if case .constant(let value) = operand { value } else { nil }
        }
        guard elements.count == operands.count else {
            return .any(
                of: try operands.map {
                    try FetchComparison(left, .equal, $0, options: options, scope: scope)
                        .condition()
                })
        }
        if case .object(let place) = left { return objectMembership(place, elements) }

        let present = elements.filter { !ValueOrder.isMissing($0) }
        let folded = present.map { value in
            value.text.map { .string(TextFolding.fold($0, options)) } ?? value.stored
        }
        var condition = Self.isAmong(sql(left), folded, canBeNull: true)
        if present.count < elements.count { condition = condition.or(isMissing(left)) }
        return condition
    }

    /// A list longer than this is bound as one JSON text if its values have an exact form in JSON, so that the
    /// statement stays short and the same for every list.
    private static let greatestList = 128

    /// Whether a value is among constant ones.
    static func isAmong(
        _ value: SQLFragment, _ elements: [AttributeValue], canBeNull: Bool
    ) -> FetchCondition {
        if elements.isEmpty { return .never }
        if elements.count <= greatestList {
            return listed(value, elements, canBeNull: canBeNull)
        }
        let json = elements.filter(\.isExactInJSON)
        let others = elements.filter { !$0.isExactInJSON }
        var parts: [FetchCondition] = []
        if !json.isEmpty {
            parts.append(
                FetchCondition(
                    "\(value) IN (SELECT value FROM json_each(\(bind: .string(jsonArray(json)))))",
                    canBeNull: canBeNull))
        }
        if !others.isEmpty { parts.append(listed(value, others, canBeNull: canBeNull)) }
        return .any(of: parts)
    }

    private static func listed(
        _ value: SQLFragment, _ elements: [AttributeValue], canBeNull: Bool
    ) -> FetchCondition {
        if elements.count == 1 {
            return FetchCondition("\(value) = \(bind: elements[0])", canBeNull: canBeNull)
        }
        // Filled up to a power of two with one of them, so that few statements serve lists of all lengths.
        var marks: [SQLFragment] = elements.map { "\(bind: $0)" }
        var length = 2
        while length < marks.count { length *= 2 }
        if length <= greatestList, let last = marks.last {
            marks += Array(repeating: last, count: length - marks.count)
        }
        return FetchCondition("\(value) IN (\(marks.joined(by: ", ")))", canBeNull: canBeNull)
    }

    private static func jsonArray(_ elements: [AttributeValue]) -> String {
        var json = "["
        for (index, element) in elements.enumerated() {
            if index > 0 { json += "," }
            switch element {
            case .integer(let integer): json += String(integer)
            case .string(let text): append(text, to: &json)
            default: continue
            }
        }
        return json + "]"
    }

    private static func append(_ text: String, to json: inout String) {
        json += "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": json += "\\\""
            case "\\": json += "\\\\"
            case _ where scalar.value < 0x20:
                json += "\\u00" + (scalar.value < 0x10 ? "0" : "") + String(scalar.value, radix: 16)
            default: json.unicodeScalars.append(scalar)
            }
        }
        json += "\""
    }
}

extension AttributeValue {
    /// Whether SQLite reads the same value from its JSON form.
    fileprivate var isExactInJSON: Bool {
        switch self {
        case .integer: true
        // In JSON, SQLite's texts end at a character U+0000.
        case .string(let text): !text.utf8.contains(0)
        default: false
        }
    }
}
