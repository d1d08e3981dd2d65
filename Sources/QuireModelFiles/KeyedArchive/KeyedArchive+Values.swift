package import Foundation
package import QuireSystem

/// The values of Foundation's classes in an archive.
extension KeyedArchive {
    /// A value that is no collection.
    package enum Scalar: Sendable, Hashable {
        /// `NSNull`, which stands for no value within collections.
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

    /// A text, of whatever class.
    package func string(_ value: ArchiveValue?) throws -> String? {
        guard let scalar = try scalar(value) else { return nil }
        guard case .string(let text) = scalar else { throw unexpected("a text") }
        return text
    }

    /// An integer; truth counts as 0 or 1.
    package func integer(_ value: ArchiveValue?) throws -> Int64? {
        switch try scalar(value) {
        case nil: return nil
        case .integer(let number)?: return number
        case .boolean(let truth)?: return truth ? 1 : 0
        case .real(let number)?:
            guard let exact = Int64(exactly: number) else { throw unexpected("an integer") }
            return exact
        case .decimal(let number)?:
            // What a program has set by way of `NSDecimalNumber`.
            guard let exact = Int64(number.description) else { throw unexpected("an integer") }
            return exact
        default: throw unexpected("an integer")
        }
    }

    /// Whether a value is true; a number is if it is not 0.
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

    /// A value that is no collection; `nil` if there is none.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is a collection or of a class that is not known.
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
        default: throw damaged("it has an object of the class \(object.className) for a value")
        }
    }

    /// A value that is no object.
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
        // A length of 0 says that the number is 0, or none; without one, all of the mantissa counts.
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
        damaged("there is something else where \(wanted) should be")
    }
}
