package import Foundation
package import QuireSystem

/// Writes archives in the format of Foundation's `NSKeyedArchiver`.
///
/// ```swift
/// var writer = KeyedArchiveWriter()
/// let book = writer.reserve()                       // may be referred to before it is defined
/// writer.define(book, as: ["Book", "NSObject"], [
///     .init("title", writer.add("Emma")), .init("year", .integer(1815)),
/// ])
/// let data = writer.data(top: [.init("root", book)])
/// ```
///
/// `add` returns a reference to a separate object; numbers and booleans in fields may be inline, as `.integer`, `.real` and
/// `.boolean`, the archived form of primitive numbers.
package struct KeyedArchiveWriter {
    private var objects: [ArchiveValue] = [.string("$null")]
    private var classes: [[String]: ArchiveValue] = [:]
    private var scalars: [KeyedArchive.Scalar: ArchiveValue] = [:]
    private var texts: [ExactText: ArchiveValue] = [:]

    package init() {}

    // MARK: - Objects

    /// Reserves a reference to an object that is defined later.
    mutating func reserve() -> ArchiveValue {
        objects.append(.null)
        return .reference(objects.count - 1)
    }

    /// Defines a reserved object.
    ///
    /// - Parameters:
    ///   - reference: The result of ``reserve()``.
    ///   - classNames: The names of its class and superclasses, its own class first.
    ///   - fields: Its fields.
    mutating func define(
        _ reference: ArchiveValue, as classNames: [String], _ fields: [ArchiveValue.Entry]
    ) {
        guard case .reference(let number) = reference, number > 0, number < objects.count else {
            preconditionFailure("Only what reserve() gave can be defined.")
        }
        objects[number] = .dictionary(
            fields + [.init(KeyedArchive.classKey, classReference(classNames))])
    }

    /// Adds an object of a class.
    package mutating func add(
        _ classNames: [String], _ fields: [ArchiveValue.Entry]
    ) -> ArchiveValue {
        let reference = reserve()
        define(reference, as: classNames, fields)
        return reference
    }

    private mutating func classReference(_ names: [String]) -> ArchiveValue {
        if let known = classes[names] { return known }
        objects.append(
            .dictionary([
                .init(KeyedArchive.classNameKey, .string(names[0])),
                .init(KeyedArchive.classesKey, .array(names.map { .string($0) })),
            ]))
        let reference = ArchiveValue.reference(objects.count - 1)
        classes[names] = reference
        return reference
    }

    // MARK: - Values

    /// Adds a text; those with equal bytes share an object. `nil` is a nil reference.
    package mutating func add(_ text: String?) -> ArchiveValue {
        guard let text else { return .null }
        if let known = texts[ExactText(text)] { return known }
        let reference = reserve()
        texts[ExactText(text)] = reference
        set(reference, .string(text))
        return reference
    }

    /// Adds a scalar; equal ones share an object.
    package mutating func add(scalar: KeyedArchive.Scalar) -> ArchiveValue {
        if case .string(let text) = scalar { return add(text) }
        if let known = scalars[scalar] { return known }
        let reference = reserve()
        scalars[scalar] = reference
        switch scalar {
        case .null: define(reference, as: ["NSNull", "NSObject"], [])
        case .boolean(let truth): set(reference, .boolean(truth))
        case .integer(let number): set(reference, .integer(number))
        case .real(let number): set(reference, .real(number))
        case .string: break  // Added above.
        case .data(let data): set(reference, .data(data))
        case .decimal(let number): define(number, at: reference)
        case .date(let date):
            define(
                reference, as: ["NSDate", "NSObject"],
                [.init("NS.time", .real(date.timeIntervalSinceReferenceDate))])
        case .uuid(let uuid):
            define(
                reference, as: ["NSUUID", "NSObject"],
                [.init("NS.uuidbytes", .data(withUnsafeBytes(of: uuid.uuid) { Data($0) }))])
        case .url(let url):
            let text = add(url.absoluteString)
            define(
                reference, as: ["NSURL", "NSObject"],
                [.init("NS.base", .null), .init("NS.relative", text)])
        }
        return reference
    }

    private mutating func set(_ reference: ArchiveValue, _ value: ArchiveValue) {
        if case .reference(let number) = reference { objects[number] = value }
    }

    private mutating func define(_ number: Decimal, at reference: ArchiveValue) {
        // NaN has a sign and no length.
        let mantissa = number.isNaN ? 0 : UInt128(number.significand.description) ?? 0
        let length = (UInt128.bitWidth - mantissa.leadingZeroBitCount + 15) / 16
        let bytes = (0..<16).map { UInt8(truncatingIfNeeded: mantissa >> ($0 * 8)) }
        define(
            reference, as: ["NSDecimalNumber", "NSNumber", "NSValue", "NSObject"],
            [
                .init("NS.exponent", .integer(Int64(number.isNaN ? 0 : number.exponent))),
                .init("NS.length", .integer(Int64(length))),
                .init("NS.negative", .boolean(number.isNaN || number.sign == .minus)),
                .init("NS.compact", .boolean(true)),
                .init("NS.mantissa.bo", .integer(Self.littleEndian)),
                .init("NS.mantissa", .data(Data(bytes))),
            ])
    }

    /// The byte order of a decimal number's mantissa.
    private static let littleEndian: Int64 = 1

    // MARK: - Collections

    /// Adds an array.
    package mutating func add(array elements: [ArchiveValue], mutable: Bool = false) -> ArchiveValue
    {
        add(
            mutable ? ["NSMutableArray", "NSArray", "NSObject"] : ["NSArray", "NSObject"],
            [.init("NS.objects", .array(elements))])
    }

    /// Adds a set.
    mutating func add(set elements: [ArchiveValue], mutable: Bool = false) -> ArchiveValue {
        add(
            mutable ? ["NSMutableSet", "NSSet", "NSObject"] : ["NSSet", "NSObject"],
            [.init("NS.objects", .array(elements))])
    }

    /// Adds a dictionary.
    package mutating func add(
        dictionary pairs: [(key: ArchiveValue, value: ArchiveValue)], mutable: Bool = false
    ) -> ArchiveValue {
        add(
            mutable
                ? ["NSMutableDictionary", "NSDictionary", "NSObject"]
                : ["NSDictionary", "NSObject"],
            [
                .init("NS.keys", .array(pairs.map(\.key))),
                .init("NS.objects", .array(pairs.map(\.value))),
            ])
    }

    /// Adds a property list.
    package mutating func add(propertyList value: PropertyListValue) -> ArchiveValue {
        switch value {
        case .string(let text): return add(text)
        case .integer(let number): return add(scalar: .integer(number))
        case .real(let number): return add(scalar: .real(number))
        case .boolean(let truth): return add(scalar: .boolean(truth))
        case .data(let data): return add(scalar: .data(data))
        case .date(let date): return add(scalar: .date(date))
        case .array(let values):
            var elements: [ArchiveValue] = []
            for value in values { elements.append(add(propertyList: value)) }
            return add(array: elements)
        case .dictionary(let values):
            var pairs: [(key: ArchiveValue, value: ArchiveValue)] = []
            for (key, value) in values.sorted(by: { $0.key < $1.key }) {
                let name = add(key)
                pairs.append((key: name, value: add(propertyList: value)))
            }
            return add(dictionary: pairs)
        }
    }

    // MARK: - Bytes

    /// The archive.
    package func data(top: [ArchiveValue.Entry]) -> Data {
        BinaryPropertyListWriter.data(
            of: .dictionary([
                .init("$version", .integer(100_000)),
                .init("$archiver", .string("NSKeyedArchiver")),
                .init(KeyedArchive.topKey, .dictionary(top)),
                .init(KeyedArchive.objectsKey, .array(objects)),
            ]))
    }
}
