package import Foundation
public import QuireModel

/// The comparison of two values, the same in memory and in SQL.
///
/// Numbers of all types compare by amount, exactly; decimal numbers in their stored form, as integers or floating-point
/// numbers. Booleans are 0 and 1. Texts compare by their UTF-8 bytes, a URI as its text; binary data and UUIDs by their
/// bytes. NaN is a missing value, as stores have no other form for it.
package enum ValueOrder {
    /// A value in its comparison form.
    private enum Form {
        case missing
        case integer(Int64)
        case double(Double)
        case date(Double)
        case text(String)
        case bytes(Data)
        case object(ManagedObjectID)
        case incomparable
    }

    private static func form(of value: AttributeValue) -> Form {
        switch value {
        case .null: return .missing
        case .integer(let integer): return .integer(integer)
        case .boolean(let truth): return .integer(truth ? 1 : 0)
        case .double(let number): return number.isNaN ? .missing : .double(number)
        case .decimal(let number):
            switch number.storedNumber {
            case .integer(let integer)?: return .integer(integer)
            case .double(let number)?: return .double(number)
            default: return .missing
            }
        case .date(let date):
            let seconds = date.timeIntervalSinceReferenceDate
            return seconds.isNaN ? .missing : .date(seconds)
        case .string(let text): return .text(text)
        case .uri(let uri): return .text(uri.absoluteString)
        case .binary(let bytes): return .bytes(bytes)
        case .uuid(let uuid): return .bytes(withUnsafeBytes(of: uuid.uuid) { Data($0) })
        case .objectID(let id): return .object(id)
        // Requests that compare them are rejected before evaluation.
        case .composite, .external: return .incomparable
        }
    }

    /// Whether the value is missing.
    package static func isMissing(_ value: AttributeValue) -> Bool {
        switch value {
        case .null: true
        case .double(let number): number.isNaN
        case .decimal(let number): number.isNaN
        case .date(let date): date.timeIntervalSinceReferenceDate.isNaN
        default: false
        }
    }

    /// Negative, zero or positive if the left value is less than, equal to or greater than the right one; `nil` if one of
    /// them is missing or they are not comparable.
    static func compare(_ left: AttributeValue, _ right: AttributeValue) -> Int? {
        switch (left, right) {
        case (.integer(let left), .integer(let right)): return compare(left, right)
        case (.string(let left), .string(let right)): return compareBytes(left, right)
        default: return compare(form(of: left), form(of: right))
        }
    }

    private static func compare(_ left: Form, _ right: Form) -> Int? {
        switch (left, right) {
        case (.integer(let left), .integer(let right)): compare(left, right)
        case (.double(let left), .double(let right)): compare(left, right)
        case (.integer(let left), .double(let right)): compare(left, right)
        case (.double(let left), .integer(let right)): -compare(right, left)
        case (.date(let left), .date(let right)): compare(left, right)
        case (.text(let left), .text(let right)): compareBytes(left, right)
        case (.bytes(let left), .bytes(let right)):
            left.withUnsafeBytes { left in right.withUnsafeBytes { compareBytes(left, $0) } }
        case (.object(let left), .object(let right)): compareObjects(left, right)
        default: nil
        }
    }

    private static func compare<Value: Comparable>(_ left: Value, _ right: Value) -> Int {
        left < right ? -1 : left == right ? 0 : 1
    }

    /// Compares without rounding either number.
    private static func compare(_ left: Int64, _ right: Double) -> Int {
        if right >= 0x1p63 { return -1 }
        if right < -0x1p63 { return 1 }
        let whole = right.rounded(.towardZero)
        let difference = compare(left, Int64(whole))
        return difference != 0 ? difference : compare(whole, right)
    }

    /// Compares objects by primary key, new ones last.
    package static func compareObjects(_ left: ManagedObjectID, _ right: ManagedObjectID) -> Int {
        if left == right { return 0 }
        if left.isTemporaryID != right.isTemporaryID { return left.isTemporaryID ? 1 : -1 }
        if left.primaryKey != right.primaryKey { return compare(left.primaryKey, right.primaryKey) }
        let order = compare(left.entityNumber, right.entityNumber)
        return order != 0 ? order : compareBytes(left.storeUUID ?? "", right.storeUUID ?? "")
    }

    // MARK: - Bytes

    /// Compares texts by their UTF-8 bytes; `==` of String compares by canonical equivalence, so that é equals e with an
    /// accent.
    static func compareBytes(_ left: String, _ right: String) -> Int {
        var left = left
        var right = right
        return left.withUTF8 { left in
            right.withUTF8 {
                compareBytes(UnsafeRawBufferPointer(left), UnsafeRawBufferPointer($0))
            }
        }
    }

    static func compareBytes(
        _ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer
    ) -> Int {
        let common = min(left.count, right.count)
        if common > 0, let leftStart = left.baseAddress, let rightStart = right.baseAddress {
            let order = memcmp(leftStart, rightStart, common)
            if order != 0 { return Int(order) }
        }
        return left.count - right.count
    }
}

extension Decimal {
    /// The number in its stored form: an integer, or the nearest floating-point number; `nil` for NaN.
    var storedNumber: AttributeValue? {
        if isNaN { return nil }
        // Not through NSDecimalNumber, whose Double conversion is inexact and whose hash may not terminate.
        let text = description
        if let integer = Int64(text) { return .integer(integer) }
        return Double(text).map { .double($0) }
    }
}

extension AttributeValue {
    /// The value in its stored form: an integer, a floating-point number, a text, bytes or null. Bytes in a file stay there,
    /// because reading may fail; the statement that binds them reads them.
    package var stored: AttributeValue {
        switch self {
        case .null, .integer, .string, .binary, .external: self
        case .double(let number): number.isNaN ? .null : self
        case .boolean(let truth): .integer(truth ? 1 : 0)
        case .decimal(let number): number.storedNumber ?? .null
        case .date(let date): AttributeValue.double(date.timeIntervalSinceReferenceDate).stored
        case .uuid(let uuid): .binary(withUnsafeBytes(of: uuid.uuid) { Data($0) })
        case .uri(let uri): .string(uri.absoluteString)
        case .objectID(let id): .integer(id.primaryKey)
        case .composite: .null
        }
    }
}

// MARK: - Sort orders

extension SortOrdering {
    /// The sort key of an object: compute it once for each object and compare with ``compare(_:_:)->Int``.
    ///
    /// - Throws: As a fetch: ``QuireError`` with code `invalidQuery` if the key path traverses a to-many relationship,
    ///   `unknownKey` or `unsupported`; `notFound` if the object's context is gone; or an error reading the store.
    package func sortValue(of subject: some QuerySubject) throws -> AttributeValue {
        try ResolutionCache.ordering(self, for: subject).resolvedSortValue(of: subject)
    }

    /// The sort key of an object, for a checked ordering.
    package func resolvedSortValue(of subject: some QuerySubject) throws -> AttributeValue {
        let value = try PredicateEvaluator(subject: subject).value(of: expression)
        guard !options.isEmpty, let text = value.text else { return value }
        return .string(TextFolding.fold(text, options))
    }

    /// Negative, zero or positive if an object with the left value is ordered before, equal to or after one with the right
    /// value. Missing values are the smallest.
    public func compare(_ left: AttributeValue, _ right: AttributeValue) -> Int {
        let order =
            ValueOrder.compare(left, right)
            ?? {
                switch (ValueOrder.isMissing(left), ValueOrder.isMissing(right)) {
                case (true, false): -1
                case (false, true): 1
                default: 0
                }
            }()
        return ascending ? order : -order
    }
}

extension SortOrdering {
    /// The order of two objects.
    ///
    /// - Throws: As ``sortValue(of:)``.
    package func compare(
        _ left: some QuerySubject, _ right: some QuerySubject
    ) throws -> ComparisonResult {
        Self.result(compare(try sortValue(of: left), try sortValue(of: right)))
    }

    /// The order of two objects, for a checked ordering.
    package func resolvedCompare(
        _ left: some QuerySubject, _ right: some QuerySubject
    ) throws -> ComparisonResult {
        Self.result(compare(try resolvedSortValue(of: left), try resolvedSortValue(of: right)))
    }

    private static func result(_ order: Int) -> ComparisonResult {
        order < 0 ? .orderedAscending : order == 0 ? .orderedSame : .orderedDescending
    }
}

extension [SortOrdering] {
    /// Subjects sorted by these orderings, then by primary key, new objects last.
    ///
    /// - Throws: As ``SortOrdering/sortValue(of:)``.
    package func sorted<Subject: QuerySubject>(_ subjects: [Subject]) throws -> [Subject] {
        let keyed = try subjects.map { subject in
            (subject: subject, values: try map { try $0.sortValue(of: subject) })
        }
        return keyed.sorted { left, right in
            for (index, ordering) in enumerated() {
                let order = ordering.compare(left.values[index], right.values[index])
                if order != 0 { return order < 0 }
            }
            return ValueOrder.compareObjects(left.subject.objectID, right.subject.objectID) < 0
        }.map(\.subject)
    }
}
