internal import Foundation

/// The values of counters after a user event: of attributes whose `syncPolicy` in the model is `counter`.
///
/// Undo subtracts what the event added. Increments that were merged from other machines since then stay.
struct UndoneCounts {
    private var values: [UndoLogPosition: AttributeValue] = [:]

    init() {}

    /// - Parameter operations: Those of an event that has just ended.
    init(after operations: [UndoOperation]) {
        Self.forEachCounter(in: operations) { values[$0] = $1 }
    }

    /// The differences between the present values of the counters and those after the event.
    func differences(to operations: [UndoOperation]) -> [UndoLogPosition: AttributeValue] {
        var found: [UndoLogPosition: AttributeValue] = [:]
        if values.isEmpty { return found }
        Self.forEachCounter(in: operations) { position, present in
            guard let value = values[position], value != present else { return }
            found[position] = Self.sum(present, value, negated: true)
        }
        return found
    }

    private static func forEachCounter(
        in operations: [UndoOperation], _ body: (UndoLogPosition, AttributeValue) -> Void
    ) {
        for case .value(let object, let slot, _) in operations
        where object.resolvedEntity.slots[slot].isCounter && object.context != nil {
            if object.state.contains(.persisted) { object.realize() }
            if object.isInaccessible { continue }
            body(
                UndoLogPosition(object: ObjectIdentifier(object), slot: slot),
                object.valueWithoutLoading(at: slot))
        }
    }

    /// The sum of two numbers, with null as 0; `nil` if it overflows or a value is not a number.
    fileprivate static func sum(
        _ first: AttributeValue, _ second: AttributeValue, negated: Bool = false
    ) -> AttributeValue? {
        switch (first, second) {
        case (.double, _), (_, .double):
            guard let left = double(first), let right = double(second) else { return nil }
            return .double(left + (negated ? -right : right))
        case (.decimal, _), (_, .decimal):
            guard let left = decimal(first), let right = decimal(second) else { return nil }
            let sum = left + (negated ? -right : right)
            return sum.isNaN ? nil : .decimal(sum)
        default:
            guard let left = integer(first), let right = integer(second) else { return nil }
            let (sum, overflows) =
                negated
                ? left.subtractingReportingOverflow(right) : left.addingReportingOverflow(right)
            return overflows ? nil : .integer(sum)
        }
    }

    private static func integer(_ value: AttributeValue) -> Int64? {
        switch value {
        case .null: 0
        case .integer(let number): number
        default: nil
        }
    }

    private static func decimal(_ value: AttributeValue) -> Decimal? {
        if case .decimal(let number) = value { return number }
        return integer(value).map { Decimal($0) }
    }

    private static func double(_ value: AttributeValue) -> Double? {
        if case .double(let number) = value { return number }
        return integer(value).map { Double($0) }
    }
}

extension UndoOperation {
    /// The operation with the difference of its counter added, unless the sum is out of the attribute's range.
    func adding(_ differences: [UndoLogPosition: AttributeValue]) -> UndoOperation {
        guard !differences.isEmpty, case .value(let object, let slot, let value) = self,
            let difference = differences[
                UndoLogPosition(object: ObjectIdentifier(object), slot: slot)],
            let sum = UndoneCounts.sum(value, difference),
            let kept = try? object.resolvedEntity.slots[slot].coerce(
                sum, in: object.resolvedEntity)
        else { return self }
        return .value(object, slot: slot, value: kept)
    }
}
