import Foundation
internal import QuireModel
internal import QuireQuery

extension FetchComparison {
    /// `BEGINSWITH`, `ENDSWITH`, `CONTAINS`, and `IN` with a text on the right.
    ///
    /// No SQL here counts characters, because SQLite stops counting at a character U+0000: `instr` and
    /// comparisons of blobs go by bytes.
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

    /// The texts that begin with another are a range, for which an index is of use.
    private static func range(
        _ text: SQLFragment, beginningWith prefix: String
    ) -> FetchCondition {
        let lower = FetchCondition("\(text) >= \(bind: .string(prefix))", canBeNull: true)
        guard let end = endOfRange(beginningWith: prefix) else { return lower }
        return lower.and(FetchCondition("\(text) < \(bind: .string(end))", canBeNull: true))
    }

    /// The smallest text that is greater than all that begin with another; `nil` if there is none.
    ///
    /// The order of UTF-8 bytes is that of the characters' numbers.
    static func endOfRange(beginningWith prefix: String) -> String? {
        var scalars = Array(prefix.unicodeScalars)
        while let last = scalars.popLast() {
            // The surrogates, which are no characters, lie between U+D7FF and U+E000.
            let next = last.value == 0xD7FF ? 0xE000 : last.value + 1
            guard let successor = Unicode.Scalar(next) else { continue }
            var end = String.UnicodeScalarView()
            end.append(contentsOf: scalars)
            end.append(successor)
            return String(end)
        }
        return nil
    }

    /// `LIKE` and `MATCHES`, by the functions that memory uses, too. They see the options themselves.
    func textFunction(_ name: SQLFragment) -> FetchCondition {
        guard let text = unfolded(left), let pattern = unfolded(right) else { return .never }
        return FetchCondition(
            "\(name)(\(pattern), \(text), \(Int(options.rawValue)))", canBeNull: true)
    }

    /// `MATCHES TEXT` where no full-text index serves it.
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
