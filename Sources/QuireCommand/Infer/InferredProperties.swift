import Foundation
import Quire
import QuireDocuments

/// Names of entities and properties, made from those of files, tables and columns.
///
/// Property names begin with a lower-case letter and entity names are capitalized singulars, as in Xcode's models. A name that
/// Core Data reserves gets an underscore at its end.
enum InferredNames {
    /// The name of a property.
    static func property(_ text: String) -> String {
        let words = text.unicodeScalars.split { !$0.properties.isXIDContinue }
            .map { String(String.UnicodeScalarView($0)) }
        guard let first = words.first else { return "column" }
        var name = lowercasingStart(first) + words.dropFirst().map(SwiftNames.upperFirst).joined()
        if name.unicodeScalars.first.map({ $0 != "_" && !$0.properties.isXIDStart }) == true {
            name = "_" + name
        }
        name = shortened(name)
        return ModelNames.objection(toPropertyName: name) == nil ? name : name + "_"
    }

    /// The name of an entity.
    static func entity(_ text: String) -> String {
        let words = text.unicodeScalars
            .split { !$0.properties.isXIDContinue || $0 == "_" }
            .map { String(String.UnicodeScalarView($0)) }
            .map { $0.count > 1 && $0 == $0.uppercased() ? $0.lowercased() : $0 }
        guard let last = words.last else { return "Item" }
        let name = (words.dropLast() + [singular(last)]).map(SwiftNames.upperFirst).joined()
        let isValid = name.unicodeScalars.first?.properties.isXIDStart == true
        return shortened(isValid ? name : "Item" + name)
    }

    /// The name of a to-many relationship to an entity.
    static func plural(of entity: String) -> String {
        let name = lowercasingStart(entity)
        if name.hasSuffix("y"), let before = name.dropLast().last, !"aeiou".contains(before) {
            return name.dropLast() + "ies"
        }
        return name + (["s", "x", "ch", "sh"].contains(where: name.hasSuffix) ? "es" : "s")
    }

    /// The name of a relationship, made from the column of its foreign key: `author` from `author_id`.
    static func relationship(_ column: String, to entity: String) -> String {
        for ending in ["_id", "_ID", "Id", "ID", "_fk"]
        where column.hasSuffix(ending) && column.count > ending.count {
            return property(String(column.dropLast(ending.count)))
        }
        let key = column.lowercased().replacing("_", with: "")
        if key == "id" || key == entity.lowercased() + "id" { return lowercasingStart(entity) }
        return property(column)
    }

    /// The name without capitals at its start: `url`, `albumId`, `isbnNumber`.
    static func lowercasingStart(_ name: String) -> String {
        if name == name.uppercased() { return name.lowercased() }
        let capitals = name.prefix { $0.isUppercase }
        if capitals.count < 2 { return capitals.lowercased() + name.dropFirst(capitals.count) }
        return capitals.dropLast().lowercased() + name.dropFirst(capitals.count - 1)
    }

    private static func singular(_ word: String) -> String {
        let lower = word.lowercased()
        if ["news", "series", "species", "status", "data"].contains(lower)
            || ["ss", "us", "is"].contains(where: lower.hasSuffix) || lower.count < 4
        {
            return word
        }
        if lower.hasSuffix("ies") { return word.dropLast(3) + "y" }
        if ["sses", "xes", "ches", "shes"].contains(where: lower.hasSuffix) {
            return String(word.dropLast(2))
        }
        return lower.hasSuffix("s") ? String(word.dropLast()) : word
    }

    /// The beginning of a name that is too long for a column.
    private static func shortened(_ name: String) -> String {
        var name = name
        while name.utf8.count > 200 { name.removeLast() }
        return name
    }
}

/// Infers the type of an attribute from all its values, so that each value is kept exactly.
///
/// A text such as “007” or “+49” stays a text, and so does a number with more digits than its type keeps.
struct InferredType {
    /// The number of values.
    private(set) var count = 0
    private var integers = true
    private var numbers = true
    private var booleans = true
    private var dates = true
    private var uuids = true
    /// Whether all values are identifiers of objects, as `fetch` prints them.
    private(set) var areObjectIdentifiers = true
    /// Values that decide whether they identify an object; `nil` if they are not tracked, or are not unique.
    private var uniqueHashes: Set<Int>?

    /// The greatest number of values whose uniqueness is tested.
    private static let maximumUniqueCount = 2_000_000

    /// - Parameter name: The name of the column: values of some are tested for uniqueness.
    init(column name: String, of entity: String) {
        let key = name.lowercased().replacing("_", with: "")
        let keys = ["id", "uuid", "guid", "isbn", entity.lowercased() + "id"]
        if keys.contains(key) { uniqueHashes = [] }
    }

    /// Whether the values were tested, and no two are equal.
    var isUnique: Bool { uniqueHashes != nil && count > 0 }

    /// The type that keeps all values.
    var type: AttributeType {
        if count == 0 { return .string }
        if booleans { return .boolean }
        if integers { return .integer64 }
        if numbers { return .double }
        if dates { return .date }
        return uuids ? .uuid : .string
    }

    /// Adds a value of a JSON text that is not null, an array or an object.
    mutating func add(_ node: JSONNode) {
        switch node.content {
        case .number(let digits):
            add(text: digits)
            (booleans, dates, uuids) = (false, false, false)
        case .boolean(let truth):
            add(text: truth ? "true" : "false")
        case .string(let text):
            add(text: text)
            // A number in quotation marks is a text.
            (integers, numbers, booleans) = (false, false, false)
        case .null, .array, .object: break
        }
    }

    /// Adds the text of a value.
    mutating func add(text: String) {
        addUnique(text)
        if areObjectIdentifiers { areObjectIdentifiers = text.hasPrefix("x-coredata://") }
        let trimmed = text.trimmingCharacters(in: .whitespaces)
        if integers { integers = Self.isInteger(trimmed) }
        if numbers { numbers = Self.isNumber(trimmed) }
        if booleans { booleans = ["true", "false", "yes", "no"].contains(trimmed.lowercased()) }
        if dates { dates = (try? AttributeValue(parsing: trimmed, as: .date)) != nil }
        if uuids { uuids = trimmed.utf8.count == 36 && UUID(uuidString: trimmed) != nil }
    }

    private mutating func addUnique(_ text: String) {
        count += 1
        guard uniqueHashes != nil else { return }
        if count > Self.maximumUniqueCount
            || uniqueHashes?.insert(text.hashValue).inserted == false
        {
            uniqueHashes = nil
        }
    }

    private static func hasLeadingZero(_ text: String) -> Bool {
        let digits = text.drop { $0 == "-" }
        return digits.first == "0" && digits.dropFirst().first?.isNumber == true
    }

    private static func isInteger(_ text: String) -> Bool {
        guard let integer = Int64(text), !text.hasPrefix("+") else { return false }
        return String(integer) == text
    }

    private static func isNumber(_ text: String) -> Bool {
        guard !text.hasPrefix("+"), !hasLeadingZero(text),
            case .double(let number)? = try? AttributeValue(parsing: text, as: .double),
            number.isFinite
        else { return false }
        if text.utf8.count <= 15 { return true }
        // As many digits as a decimal number keeps must come back from the floating-point number.
        return Decimal(numberText: text) == Decimal(numberText: number.description)
            && Decimal(numberText: text) != nil
    }
}
