internal import Foundation
internal import Quire
internal import QuireModel
internal import QuireSQLite

/// A number that peers count together: a first value, and what each peer has added to it.
///
/// It is the sum on every replica, whether or not its model has the policy: a replica that has not replaces the first value.
struct SyncCounter {
    private let type: AttributeType
    /// The value of the property itself.
    let first: SyncValue
    /// The totals of the peers, in their order: the sum of floating-point numbers depends on it.
    private let totals: [(peer: SyncIdentifier, value: SyncValue)]

    /// `nil` if the attribute is not a number.
    ///
    /// - Parameters:
    ///   - name: The attribute's name in records.
    ///   - otherType: The attribute's type in another model.
    init?(
        _ slot: ResolvedEntity.Slot, named name: String, of record: SyncRecord,
        as otherType: AttributeType? = nil
    ) {
        guard let attribute = slot.attribute else { return nil }
        type = otherType ?? attribute.type
        guard type.isNumber else { return nil }
        if let entry = record[.property(name)] {
            first = entry.value
        } else {
            first = (try? SyncValue(attribute.defaultValue)) ?? .null
        }
        var found: [(peer: SyncIdentifier, value: SyncValue)] = []
        for (key, entry) in record.entries {
            if case .counter(name, let peer) = key { found.append((peer, entry.value)) }
        }
        totals = found.sorted { $0.peer < $1.peer }
    }

    /// Whether anybody has counted.
    var isCounted: Bool { !totals.isEmpty }

    /// The sum, in the attribute's range; null if nobody has counted.
    var value: AttributeValue {
        guard isCounted else { return .null }
        switch type {
        case .double, .float:
            let limit =
                type == .float
                ? Double(Float.greatestFiniteMagnitude) : Double.greatestFiniteMagnitude
            return .double(min(max(floatingSum(), -limit), limit))
        case .decimal:
            let sum = exactSum()
            // With the digits that a row keeps, so that what the store has is not taken for a change.
            if case .double(let number) = SQLiteDecimal.stored(sum) {
                return .decimal(SQLiteDecimal.decimal(number) ?? sum)
            }
            return .decimal(sum)
        default:
            return .integer(Self.integer(exactSum(), in: range))
        }
    }

    /// The total of a peer with which the sum is that of a row; `nil` if the row has no number.
    func total(of peer: SyncIdentifier, for row: AttributeValue) -> SyncValue? {
        switch type {
        case .double, .float:
            guard let number = Self.floating(row) else { return nil }
            return .double(Self.finite(number - floatingSum(without: peer)))
        case .decimal:
            guard let number = Self.exact(row) else { return nil }
            let total = number - exactSum(without: peer)
            return total.isNaN ? nil : .decimal(total.description)
        default:
            guard let number = Self.exact(row) else { return nil }
            let total = number - exactSum(without: peer)
            return Int64(total.description).map { .integer($0) } ?? .decimal(total.description)
        }
    }

    /// The first value with which the sum is that of a row; `nil` if the row has no number.
    func first(for row: AttributeValue) -> SyncValue? {
        let counted = Self(type: type, first: .null, totals: totals)
        let nobody = SyncIdentifier(high: 0, low: 0)
        return counted.total(of: nobody, for: row)
    }

    private init(
        type: AttributeType, first: SyncValue, totals: [(peer: SyncIdentifier, value: SyncValue)]
    ) {
        self.type = type
        self.first = first
        self.totals = totals
    }

    // MARK: - Sums

    private func addends(without peer: SyncIdentifier?) -> [AttributeValue] {
        ([first] + totals.lazy.filter { $0.peer != peer }.map(\.value)).map {
            $0.attributeValue ?? .null
        }
    }

    /// The sum of integers and decimals: as the 38 digits of a decimal hold the sum of any number of integers, it is exact.
    private func exactSum(without peer: SyncIdentifier? = nil) -> Decimal {
        addends(without: peer).reduce(Decimal(0)) { sum, value in
            let next = sum + (Self.exact(value) ?? 0)
            // Out of all range: a file lies.
            return next.isNaN ? sum : next
        }
    }

    private func floatingSum(without peer: SyncIdentifier? = nil) -> Double {
        addends(without: peer).reduce(0) { Self.finite($0 + (Self.floating($1) ?? 0)) }
    }

    private static func exact(_ value: AttributeValue) -> Decimal? {
        switch value {
        case .null: 0
        case .integer(let number): Decimal(number)
        case .decimal(let number): number.isNaN ? nil : number
        case .double(let number): number.isFinite ? Decimal(number) : nil
        default: nil
        }
    }

    private static func floating(_ value: AttributeValue) -> Double? {
        switch value {
        case .null: 0
        case .integer(let number): Double(number)
        case .decimal(let number): number.isNaN ? nil : NSDecimalNumber(decimal: number).doubleValue
        case .double(let number): number.isFinite ? number : nil
        default: nil
        }
    }

    private static func finite(_ number: Double) -> Double {
        min(max(number, -Double.greatestFiniteMagnitude), Double.greatestFiniteMagnitude)
    }

    private var range: ClosedRange<Int64> {
        switch type {
        case .integer16: Int64(Int16.min)...Int64(Int16.max)
        case .integer32: Int64(Int32.min)...Int64(Int32.max)
        default: Int64.min...Int64.max
        }
    }

    /// The integer of a decimal, or the limit of a range that it is out of.
    private static func integer(_ number: Decimal, in range: ClosedRange<Int64>) -> Int64 {
        if number <= Decimal(range.lowerBound) { return range.lowerBound }
        if number >= Decimal(range.upperBound) { return range.upperBound }
        var (number, rounded) = (number, Decimal())
        NSDecimalRound(&rounded, &number, 0, .plain)
        // Not by a floating-point number, which would lose digits.
        return Int64(rounded.description) ?? 0
    }
}
