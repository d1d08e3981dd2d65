package import Foundation
package import QuireSystem

/// An archive in the format of Foundation's `NSKeyedArchiver`: an object graph of classes with named fields.
///
/// ```swift
/// let archive = try KeyedArchive(data, name: path)
/// if let root = try archive.object(archive.top["root"]) {
///     print(root.className, try archive.string(root["NSEntityName"]) ?? "")
/// }
/// ```
///
/// No class is looked up or instantiated, so untrusted archives are safe to read. References may form cycles, which callers
/// must expect. Accessors return `nil` for a nil reference, and throw `invalidFormat` for an object of another kind.
package struct KeyedArchive: Sendable {
    /// An object with a class.
    package struct Object: Sendable {
        /// Its number in the archive, which is its identity.
        let number: Int
        /// The name of its class.
        package let className: String
        /// The names of its class and superclasses.
        let classNames: [String]
        /// Its fields in the order of the archive.
        fileprivate let entries: [ArchiveValue.Entry]

        /// The value of a field.
        package subscript(key: String) -> ArchiveValue? {
            entries.first { $0.key == key }?.value
        }

        /// The values of the fields named `prefix` and a number, from 0.
        func numberedFields(_ prefix: String) -> [ArchiveValue] {
            var fields: [String: ArchiveValue] = [:]
            for entry in entries where entry.key.hasPrefix(prefix) {
                fields[entry.key] = entry.value
            }
            var result: [ArchiveValue] = []
            while let value = fields[prefix + String(result.count)] { result.append(value) }
            return result
        }

        /// The names of its fields.
        var keys: [String] { entries.map(\.key).filter { $0 != KeyedArchive.classKey } }
    }

    /// The root objects by name; usually one called `root`.
    package let top: [String: ArchiveValue]
    /// The archive's name in errors.
    package let name: String
    private let objects: [ArchiveValue]
    /// The names of a class and its superclasses, by the object number of the class.
    private let classes: [Int: [String]]

    /// The number of objects, including plain values.
    var objectCount: Int { objects.count }

    static let objectsKey = "$objects"
    static let topKey = "$top"
    static let classKey = "$class"
    static let classNameKey = "$classname"
    static let classesKey = "$classes"

    /// Parses an archive.
    ///
    /// - Parameters:
    ///   - data: A binary property list.
    ///   - name: The archive's name in errors.
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    package init(_ data: Data, name: String) throws {
        self.name = name
        var reader = try BinaryPropertyListReader(data, name: name)
        let list = try reader.value()
        guard case .array(let objects)? = list[Self.objectsKey],
            case .dictionary(let top)? = list[Self.topKey]
        else {
            throw BinaryPropertyListReader.damaged(name, "it is not a keyed archive")
        }
        self.objects = objects
        classes = Self.classes(of: objects)
        self.top = Dictionary(top.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
    }

    /// The inline or referenced value; `nil` for a nil reference.
    func resolved(_ value: ArchiveValue?) throws -> ArchiveValue? {
        guard case .reference(let number)? = value else { return value }
        if number == 0 { return nil }
        guard number < objects.count else {
            throw damaged("it refers to an object that does not exist")
        }
        let object = objects[number]
        if case .reference(let other) = object {
            if other == 0 { return nil }
            throw damaged("a reference refers to a reference")
        }
        return object
    }

    /// The referenced object, which must have a class.
    package func object(_ value: ArchiveValue?) throws -> Object? {
        guard let found = try resolved(value) else { return nil }
        guard case .reference(let number)? = value, let object = try object(number, found) else {
            throw damaged("a plain value is in the place of an object")
        }
        return object
    }

    /// The referenced object with a class; `nil` for a plain value.
    package func objectIfAny(_ value: ArchiveValue?) throws -> Object? {
        guard let found = try resolved(value), case .reference(let number)? = value else {
            return nil
        }
        return try object(number, found)
    }

    private func object(_ number: Int, _ value: ArchiveValue) throws -> Object? {
        guard case .dictionary(let entries) = value,
            let reference = entries.first(where: { $0.key == Self.classKey })?.value
        else { return nil }
        guard case .reference(let place) = reference, let names = classes[place] else {
            throw damaged("an object has no class")
        }
        return Object(number: number, className: names[0], classNames: names, entries: entries)
    }

    private static func classes(of objects: [ArchiveValue]) -> [Int: [String]] {
        var classes: [Int: [String]] = [:]
        for (number, object) in objects.enumerated() {
            guard case .string(let name)? = object[classNameKey] else { continue }
            var names = [name]
            if case .array(let list)? = object[classesKey] {
                for case .string(let other) in list where other != name { names.append(other) }
            }
            classes[number] = names
        }
        return classes
    }

    /// An error about the archive: `reason` is a clause.
    package func damaged(_ reason: String) -> QuireError {
        BinaryPropertyListReader.damaged(name, reason)
    }
}

// MARK: - Values

/// Values of Foundation's classes in an archive.
extension KeyedArchive {
    /// A value that is not a collection.
    package enum Scalar: Sendable, Hashable {
        /// `NSNull`, the null value within collections.
        case null
        case boolean(Bool)
        case integer(Int64)
        case real(Double)
        case decimal(Decimal)
        case string(String)
        case date(Date)
        case data(Data)
        case uuid(UUID)
        case url(URL)
    }

    /// A text, of any class.
    package func string(_ value: ArchiveValue?) throws -> String? {
        guard let scalar = try scalar(value) else { return nil }
        guard case .string(let text) = scalar else { throw unexpected("a text") }
        return text
    }

    /// An integer; booleans are 0 or 1.
    package func integer(_ value: ArchiveValue?) throws -> Int64? {
        switch try scalar(value) {
        case nil: return nil
        case .integer(let number)?: return number
        case .boolean(let truth)?: return truth ? 1 : 0
        case .real(let number)?:
            guard let exact = Int64(exactly: number) else { throw unexpected("an integer") }
            return exact
        case .decimal(let number)?:
            // Integers set as `NSDecimalNumber`.
            guard let exact = Int64(number.description) else { throw unexpected("an integer") }
            return exact
        default: throw unexpected("an integer")
        }
    }

    /// A boolean; a number is true if it is not 0.
    func boolean(_ value: ArchiveValue?) throws -> Bool? {
        switch try scalar(value) {
        case nil: return nil
        case .boolean(let truth)?: return truth
        case .integer(let number)?: return number != 0
        case .decimal(let number)?: return number != 0
        default: throw unexpected("true or false")
        }
    }

    /// Bytes.
    func data(_ value: ArchiveValue?) throws -> Data? {
        guard let scalar = try scalar(value) else { return nil }
        guard case .data(let data) = scalar else { throw unexpected("data") }
        return data
    }

    /// A scalar value; `nil` if missing.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is a collection or of an unknown class.
    package func scalar(_ value: ArchiveValue?) throws -> Scalar? {
        guard let found = try resolved(value) else { return nil }
        switch found {
        case .boolean(let truth): return .boolean(truth)
        case .integer(let number): return .integer(number)
        case .real(let number): return .real(number)
        case .date(let seconds): return .date(Date(timeIntervalSinceReferenceDate: seconds))
        case .data(let data): return .data(data)
        case .string(let text): return .string(text)
        case .array, .reference: throw unexpected("a single value")
        case .dictionary: break
        }
        guard let object = try object(value) else { return nil }
        return try scalar(object)
    }

    private func scalar(_ object: Object) throws -> Scalar {
        switch object.className {
        case "NSNull": return .null
        case "NSString", "NSMutableString", "NSAttributedString", "NSMutableAttributedString":
            switch try plain(object["NS.string"] ?? object["NSString"] ?? object["NS.bytes"]) {
            case .string(let text)?: return .string(text)
            case .data(let data)?: return .string(String(decoding: data, as: UTF8.self))
            default: throw unexpected("a text")
            }
        case "NSDate":
            switch try plain(object["NS.time"]) {
            case .real(let seconds)?: return .date(Date(timeIntervalSinceReferenceDate: seconds))
            case .integer(let seconds)?:
                return .date(Date(timeIntervalSinceReferenceDate: Double(seconds)))
            default: throw unexpected("a date")
            }
        case "NSData", "NSMutableData":
            guard case .data(let data)? = try plain(object["NS.data"] ?? object["NS.bytes"]) else {
                throw unexpected("data")
            }
            return .data(data)
        case "NSUUID":
            guard case .data(let data)? = try plain(object["NS.uuidbytes"]), data.count == 16 else {
                throw unexpected("a UUID")
            }
            let bytes = [UInt8](data)
            return .uuid(bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) })
        case "NSURL": return .url(try url(object, depth: 0))
        case "NSDecimalNumber", "NSDecimalNumberPlaceholder":
            return .decimal(try decimal(object))
        case "NSNumber", "NSValue":
            for key in ["NS.boolval", "NS.intval", "NS.dblval"] {
                switch try plain(object[key]) {
                case .boolean(let truth)?: return .boolean(truth)
                case .integer(let number)?:
                    return key == "NS.boolval" ? .boolean(number != 0) : .integer(number)
                case .real(let number)?: return .real(number)
                default: continue
                }
            }
            throw unexpected("a number")
        default: throw damaged("it has an object of the class \(object.className) as a value")
        }
    }

    /// A value that is not an object.
    private func plain(_ value: ArchiveValue?) throws -> ArchiveValue? {
        let found = try resolved(value)
        if case .dictionary? = found { throw unexpected("a single value") }
        return found
    }

    private func url(_ object: Object, depth: Int) throws -> URL {
        guard depth < 8, case .string(let text)? = try plain(object["NS.relative"]) else {
            throw unexpected("a URL")
        }
        let base = try self.object(object["NS.base"]).map { try url($0, depth: depth + 1) }
        guard let url = URL(string: text, relativeTo: base) else { throw unexpected("a URL") }
        return url
    }

    private func decimal(_ object: Object) throws -> Decimal {
        let exponent = try integer(object["NS.exponent"]) ?? 0
        // A length of 0 means the number 0 or NaN; without a length, the whole mantissa is used.
        guard -128...127 ~= exponent, let mantissa = try data(object["NS.mantissa"]),
            mantissa.count <= 16, mantissa.count.isMultiple(of: 2),
            case let length = try integer(object["NS.length"]) ?? Int64(mantissa.count / 2),
            0...Int64(mantissa.count / 2) ~= length
        else { throw unexpected("a decimal number") }
        let isNegative = try boolean(object["NS.negative"]) ?? false
        if length == 0 { return isNegative ? .nan : 0 }
        let isBigEndian = try integer(object["NS.mantissa.bo"]) == 2
        let bytes = [UInt8](mantissa)
        var number: UInt128 = 0
        for index in (0..<Int(length)).reversed() {
            let (first, second) = (UInt128(bytes[index * 2]), UInt128(bytes[index * 2 + 1]))
            number = number << 16 | (isBigEndian ? first << 8 | second : second << 8 | first)
        }
        guard let significand = Decimal(string: number.description) else {
            throw unexpected("a decimal number")
        }
        return Decimal(
            sign: isNegative ? .minus : .plus, exponent: Int(exponent), significand: significand)
    }

    func unexpected(_ wanted: String) -> QuireError {
        damaged("\(wanted) is missing or of the wrong type")
    }
}

// MARK: - Collections

/// Collections of Foundation's classes in an archive.
extension KeyedArchive {
    /// The elements of an array, a set or an ordered set, of any class.
    package func list(_ value: ArchiveValue?) throws -> [ArchiveValue]? {
        guard let found = try resolved(value) else { return nil }
        if case .array(let elements) = found { return elements }
        guard let object = try object(value) else { return nil }
        guard case .array(let elements)? = object["NS.objects"] else {
            guard
                object.classNames.contains(where: {
                    ["NSArray", "NSSet", "NSOrderedSet"].contains($0)
                })
            else { throw unexpected("a list") }
            return object.numberedFields("NS.object.")
        }
        return elements
    }

    /// The keys and values of a dictionary, of any class.
    package func dictionary(_ value: ArchiveValue?) throws -> [(
        key: ArchiveValue, value: ArchiveValue
    )]? {
        guard let object = try object(value) else { return nil }
        if case .array(let keys)? = object["NS.keys"],
            case .array(let values)? = object["NS.objects"], keys.count == values.count
        {
            return Array(zip(keys, values)).map { (key: $0, value: $1) }
        }
        if let mapping = try self.object(object["searchMapping"]),
            let keys = try list(mapping["keys"]), let values = try list(object["values"]),
            keys.count == values.count
        {
            // Core Data's dictionaries with fixed key sets.
            return Array(zip(keys, values)).map { (key: $0, value: $1) }
        }
        guard object.classNames.contains("NSDictionary"), object["NS.keys"] == nil else {
            throw unexpected("a dictionary")
        }
        return []
    }

    /// The values of a dictionary with text keys.
    func namedValues(_ value: ArchiveValue?) throws -> [String: ArchiveValue]? {
        guard let pairs = try dictionary(value) else { return nil }
        var result: [String: ArchiveValue] = [:]
        result.reserveCapacity(pairs.count)
        for (key, value) in pairs {
            guard let name = try string(key) else { throw unexpected("a key") }
            result[name] = value
        }
        return result
    }

    /// A property list value: collections, numbers, texts, dates and data.
    ///
    /// Other types are converted to texts: UUIDs, URLs and decimal numbers; null becomes an empty text.
    ///
    /// - Parameter budget: The remaining number of values that may be read, as archives may reference a value repeatedly.
    package func propertyList(
        _ value: ArchiveValue?, budget: inout Int, depth: Int = 0
    ) throws -> PropertyListValue {
        budget -= 1
        guard budget > 0, depth < PropertyListValue.maximumDepth else {
            throw damaged("its values are nested too deeply, or refer to each other too often")
        }
        if case .array? = try resolved(value) {
            return try array(value, budget: &budget, depth: depth)
        }
        if let object = try objectIfAny(value) {
            if object.classNames.contains("NSDictionary") {
                var result: [String: PropertyListValue] = [:]
                for (key, value) in try dictionary(value) ?? [] {
                    guard let name = try string(key) else { continue }
                    result[name] = try propertyList(value, budget: &budget, depth: depth + 1)
                }
                return .dictionary(result)
            }
            if object.classNames.contains(where: { ["NSArray", "NSSet"].contains($0) }) {
                return try array(value, budget: &budget, depth: depth)
            }
        }
        switch try scalar(value) {
        case nil, .null?: return .string("")
        case .boolean(let truth)?: return .boolean(truth)
        case .integer(let number)?: return .integer(number)
        case .real(let number)?: return .real(number)
        case .decimal(let number)?: return .string(number.description)
        case .string(let text)?: return .string(text)
        case .date(let date)?: return .date(date)
        case .data(let data)?: return .data(data)
        case .uuid(let uuid)?: return .string(uuid.uuidString)
        case .url(let url)?: return .string(url.absoluteString)
        }
    }

    private func array(
        _ value: ArchiveValue?, budget: inout Int, depth: Int
    ) throws -> PropertyListValue {
        .array(
            try (list(value) ?? []).map {
                try propertyList($0, budget: &budget, depth: depth + 1)
            })
    }
}
