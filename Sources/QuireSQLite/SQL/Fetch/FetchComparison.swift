import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// The SQL of one comparison: one function per family of operators.
struct FetchComparison {
    /// An operand of a comparison.
    enum Operand {
        /// A constant.
        case constant(AttributeValue)
        /// The value of an attribute.
        case value(SQLFragment, ValueKind)
        /// The evaluated object, or a relationship's destination.
        case object(SelectBuilder.TableReference)
        /// A literal collection.
        case list([Operand])
    }

    let left: Operand
    let comparisonOperator: QueryComparison.Operator
    let options: QueryComparison.Options
    let right: Operand
    /// The builder of the left operand.
    let scope: SelectBuilder

    init(left: Operand, _ comparison: QueryComparison, right: Operand, scope: SelectBuilder) {
        self.left = left
        self.right = right
        self.scope = scope
        comparisonOperator = comparison.operator
        options = comparison.options
    }

    init(
        _ left: Operand, _ comparisonOperator: QueryComparison.Operator, _ right: Operand,
        options: QueryComparison.Options, scope: SelectBuilder
    ) {
        self.left = left
        self.comparisonOperator = comparisonOperator
        self.right = right
        self.options = options
        self.scope = scope
    }

    func condition() throws -> FetchCondition {
        switch comparisonOperator {
        case .equal: try equality()
        case .notEqual: try inequality()
        case .less: order("<")
        case .lessOrEqual: order("<=")
        case .greater: order(">")
        case .greaterOrEqual: order(">=")
        case .between: between()
        case .in: try membership()
        case .beginsWith, .endsWith, .contains: textPart(comparisonOperator, of: left, right)
        case .like: textFunction("QUIRE_LIKE")
        case .matches: textFunction("QUIRE_MATCHES")
        case .matchesText: wordsFunction()
        }
    }

    // MARK: - Equality

    /// Equality, or both NULL.
    private func equality() throws -> FetchCondition {
        switch (left, right) {
        case (.object(let place), _), (_, .object(let place)):
            return try objectEquality(place)
        case (_, .constant(let value)) where ValueOrder.isMissing(value):
            return isMissing(left)
        case (.constant(let value), _) where ValueOrder.isMissing(value):
            return isMissing(right)
        case (.value, .value):
            return compared("IS", canBeNull: false)
        default:
            return compared("=", canBeNull: true)
        }
    }

    private func inequality() throws -> FetchCondition {
        switch (left, right) {
        case (.object, .constant(.null)):
            return isPresent(left)
        case (.object(let place), _), (_, .object(let place)):
            return try !objectEquality(place)
        case (_, .constant(let value)) where ValueOrder.isMissing(value):
            return isPresent(left)
        case (.constant(let value), _) where ValueOrder.isMissing(value):
            return isPresent(right)
        default:
            return compared("IS NOT", canBeNull: false)
        }
    }

    func isMissing(_ operand: Operand) -> FetchCondition {
        switch operand {
        case .constant(let value): ValueOrder.isMissing(value) ? .always : .never
        case .value(let column, _): FetchCondition("\(column) IS NULL")
        case .object(let place):
            place.isOptional ? FetchCondition("\(place.key) IS NULL") : .never
        case .list: .never
        }
    }

    private func isPresent(_ operand: Operand) -> FetchCondition {
        switch operand {
        case .value(let column, _): FetchCondition("\(column) IS NOT NULL")
        case .object(let place) where place.isOptional:
            FetchCondition("\(place.key) IS NOT NULL")
        default: !isMissing(operand)
        }
    }

    private func compared(_ sign: SQLFragment, canBeNull: Bool) -> FetchCondition {
        FetchCondition("\(sql(left)) \(sign) \(sql(right))", canBeNull: canBeNull)
    }

    // MARK: - Order

    /// Ordering; false if either side is NULL.
    private func order(_ sign: SQLFragment) -> FetchCondition {
        if isAbsent(left) || isAbsent(right) { return .never }
        return compared(sign, canBeNull: true)
    }

    private func between() -> FetchCondition {
        guard case .list(let bounds) = right, bounds.count == 2, !bounds.contains(where: isAbsent)
        else { return .never }
        return FetchCondition(
            "\(sql(left)) BETWEEN \(sql(bounds[0])) AND \(sql(bounds[1]))", canBeNull: true)
    }

    private func isAbsent(_ operand: Operand) -> Bool {
        if case .constant(let value) = operand { return ValueOrder.isMissing(value) }
        return false
    }

    // MARK: - Operands in SQL

    /// An operand in SQL, folded according to the options.
    func sql(_ operand: Operand) -> SQLFragment {
        switch operand {
        case .constant(let value):
            guard let text = value.text else { return "\(bind: value)" }
            return "\(bind: .string(TextFolding.fold(text, options)))"
        case .value(let column, .text): return Self.folded(column, options)
        case .value(let column, _): return column
        case .object(let place): return place.key
        case .list: return "NULL"
        }
    }

    /// A text folded according to the options.
    static func folded(_ text: SQLFragment, _ options: QueryComparison.Options) -> SQLFragment {
        options.isEmpty ? text : "QUIRE_FOLD(\(text), \(Int(options.rawValue)))"
    }
}

// MARK: - Texts

extension FetchComparison {
    /// `BEGINSWITH`, `ENDSWITH`, `CONTAINS`, and `IN` with a text on the right.
    ///
    /// None of this SQL counts characters, because SQLite stops counting at U+0000: `instr` and comparisons of blobs are
    /// bytewise.
    func textPart(
        _ part: QueryComparison.Operator, of whole: Operand, _ sought: Operand
    ) -> FetchCondition {
        if case .constant(let value) = sought {
            guard let text = value.text else { return .never }
            return constantPart(part, of: whole, TextFolding.fold(text, options))
        }
        if case .constant(let value) = whole, value.text == nil { return .never }
        let (text, other) = (sql(whole), sql(sought))
        switch part {
        case .beginsWith: return FetchCondition("instr(\(text), \(other)) = 1", canBeNull: true)
        case .endsWith:
            let bytes: SQLFragment = "CAST(\(other) AS BLOB)"
            return FetchCondition(
                """
                CASE length(\(bytes)) WHEN 0 THEN \(text) IS NOT NULL \
                ELSE substr(CAST(\(text) AS BLOB), -length(\(bytes))) = \(bytes) END
                """, canBeNull: true)
        default: return FetchCondition("instr(\(text), \(other)) > 0", canBeNull: true)
        }
    }

    private func constantPart(
        _ part: QueryComparison.Operator, of whole: Operand, _ sought: String
    ) -> FetchCondition {
        let text = sql(whole)
        if sought.isEmpty { return FetchCondition("\(text) IS NOT NULL") }
        switch part {
        case .beginsWith where options.isEmpty:
            return Self.range(text, beginningWith: sought)
        case .beginsWith:
            return FetchCondition("instr(\(text), \(bind: .string(sought))) = 1", canBeNull: true)
        case .endsWith:
            let bytes = Data(sought.utf8)
            return FetchCondition(
                "substr(CAST(\(text) AS BLOB), \(-bytes.count)) = \(bind: .binary(bytes))",
                canBeNull: true)
        default:
            return FetchCondition("instr(\(text), \(bind: .string(sought))) > 0", canBeNull: true)
        }
    }

    /// Texts with a given prefix are a range, which can use an index.
    private static func range(
        _ text: SQLFragment, beginningWith prefix: String
    ) -> FetchCondition {
        let lower = FetchCondition("\(text) >= \(bind: .string(prefix))", canBeNull: true)
        guard let end = endOfRange(beginningWith: prefix) else { return lower }
        return lower.and(FetchCondition("\(text) < \(bind: .string(end))", canBeNull: true))
    }

    /// The least text greater than all with a given prefix; `nil` if there is none.
    ///
    /// UTF-8 byte order is the order of code points.
    static func endOfRange(beginningWith prefix: String) -> String? {
        var scalars = Array(prefix.unicodeScalars)
        while let last = scalars.popLast() {
            // The surrogates, which are not scalar values, lie between U+D7FF and U+E000.
            let next = last.value == 0xD7FF ? 0xE000 : last.value + 1
            guard let successor = Unicode.Scalar(next) else { continue }
            var end = String.UnicodeScalarView()
            end.append(contentsOf: scalars)
            end.append(successor)
            return String(end)
        }
        return nil
    }

    /// `LIKE` and `MATCHES`, by the functions used in memory as well. They apply the options themselves.
    func textFunction(_ name: SQLFragment) -> FetchCondition {
        guard let text = unfolded(left), let pattern = unfolded(right) else { return .never }
        return FetchCondition(
            "\(name)(\(pattern), \(text), \(Int(options.rawValue)))", canBeNull: true)
    }

    /// `MATCHES TEXT` without a full-text index.
    func wordsFunction() -> FetchCondition {
        guard let text = unfolded(left), let query = unfolded(right) else { return .never }
        let name = SQLFragment(sql: TextFunctions.matchesTextName)
        return FetchCondition("\(name)(\(query), \(text))", canBeNull: true)
    }

    private func unfolded(_ operand: Operand) -> SQLFragment? {
        switch operand {
        case .constant(let value): value.text.map { "\(bind: .string($0))" }
        case .value(let column, _): column
        case .object, .list: nil
        }
    }
}

// MARK: - Objects

extension FetchComparison {
    /// Equality of two objects, or both nil.
    func objectEquality(_ place: SelectBuilder.TableReference) throws -> FetchCondition {
        switch (left, right) {
        case (_, .constant(let value)), (.constant(let value), _):
            guard case .objectID(let id) = value else {
                return place.isOptional ? FetchCondition("\(place.key) IS NULL") : .never
            }
            return isObject(place, id)
        case (.object(let left), .object(let right)):
            guard left.entity.rootNumber == right.entity.rootNumber else {
                // Objects of different tables are never equal, so both must be nil.
                guard left.isOptional, right.isOptional else { return .never }
                return FetchCondition("\(left.key) IS NULL").and(
                    FetchCondition("\(right.key) IS NULL"))
            }
            return FetchCondition("\(left.key) IS \(right.key)")
        default:
            throw QuireError(.invalidQuery, "An object cannot be compared with a value.")
        }
    }

    private func isObject(
        _ place: SelectBuilder.TableReference, _ id: ManagedObjectID
    ) -> FetchCondition {
        guard isPossible(id, at: place) else { return .never }
        let key = FetchCondition(
            "\(place.key) = \(bind: .integer(id.primaryKey))", canBeNull: place.isOptional)
        guard place.entity.hasSubentities else { return key }
        let number = scope.context.schema.entity(number: id.entityNumber).storeNumber
        return key.and(
            FetchCondition(
                "\(scope.entityNumber(of: place)) = \(number)", canBeNull: place.isOptional))
    }

    /// Whether an identifier is of this store and of a matching entity.
    private func isPossible(_ id: ManagedObjectID, at place: SelectBuilder.TableReference) -> Bool {
        scope.context.store.owns(id) && place.entity.subtree.contains(id.entityNumber)
    }

    /// Whether an object is in a constant list.
    func objectMembership(
        _ place: SelectBuilder.TableReference, _ elements: [AttributeValue]
    ) -> FetchCondition {
        var keysByEntity: [Int: [AttributeValue]] = [:]
        var includesMissing = false
        for element in elements {
            guard case .objectID(let id) = element else {
                includesMissing = true
                continue
            }
            guard isPossible(id, at: place) else { continue }
            keysByEntity[id.entityNumber, default: []].append(.integer(id.primaryKey))
        }
        var parts: [FetchCondition] = []
        for (entityNumber, keys) in keysByEntity.sorted(by: { $0.key < $1.key }) {
            var part = Self.isAmong(place.key, keys, canBeNull: place.isOptional)
            if place.entity.hasSubentities {
                let number = scope.context.schema.entity(number: entityNumber).storeNumber
                part = part.and(
                    FetchCondition(
                        "\(scope.entityNumber(of: place)) = \(number)",
                        canBeNull: place.isOptional))
            }
            parts.append(part)
        }
        if includesMissing, place.isOptional {
            parts.append(FetchCondition("\(place.key) IS NULL"))
        }
        return .any(of: parts)
    }
}

// MARK: - Membership

extension FetchComparison {
    /// `IN`: equality with an element; with a text on the right, substring.
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

    /// The maximum length of a list of parameters. Longer ones are bound as one JSON text if JSON represents their values
    /// exactly, so that the statement stays short and the same for every list.
    private static let maximumList = 128

    /// Whether a value is in a constant list.
    static func isAmong(
        _ value: SQLFragment, _ elements: [AttributeValue], canBeNull: Bool
    ) -> FetchCondition {
        if elements.isEmpty { return .never }
        if elements.count <= maximumList {
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
        // Padded to a power of two with a repeated element, so that few statements serve lists of all lengths.
        var marks: [SQLFragment] = elements.map { "\(bind: $0)" }
        var length = 2
        while length < marks.count { length *= 2 }
        if length <= maximumList, let last = marks.last {
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
    /// Whether JSON represents the value exactly for SQLite.
    fileprivate var isExactInJSON: Bool {
        switch self {
        case .integer: true
        // SQLite truncates JSON texts at U+0000.
        case .string(let text): !text.utf8.contains(0)
        default: false
        }
    }
}
