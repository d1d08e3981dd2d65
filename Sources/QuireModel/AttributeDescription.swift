import Foundation
public import QuireSystem

/// Describes an attribute of an entity.
public struct AttributeDescription: Sendable, Hashable {
    /// The attribute's name, unique among the entity's properties and those it inherits.
    public var name: String
    /// The type of the values.
    public var type: AttributeType
    /// Whether the value may be null when the object is saved.
    public var isOptional = true
    /// Whether the value is in memory only.
    public var isTransient = false
    /// The initial value of a new object.
    public var defaultValue: AttributeValue = .null
    /// The minimum number or earliest date; for a text, the minimum length.
    public var minimum: AttributeValue = .null
    /// The maximum number or latest date; for a text, the maximum length.
    public var maximum: AttributeValue = .null
    /// A regular expression that a text must match as a whole.
    public var regularExpression: String?
    /// Additional conditions on the value.
    public var validationPredicates: [ValidationPredicate] = []
    /// The name of the transformer of a transformable attribute.
    public var valueTransformerName: String?
    /// The Swift or Objective-C class of a transformable attribute's values, for generated code.
    public var customClassName: String?
    /// Whether generated code shows a number as a scalar.
    public var usesScalarValueType = false
    /// Whether large values are kept in separate files beside the store.
    public var allowsExternalBinaryDataStorage = false
    /// Whether CloudKit may encrypt the value.
    public var allowsCloudEncryption = false
    /// Whether persistent history keeps the value when the object is deleted.
    public var preservesValueInHistoryOnDeletion = false
    /// Whether Spotlight indexes the value on Apple's systems.
    public var isIndexedBySpotlight = false
    /// Whether the store should index the value (of old models; new ones use fetch indexes).
    public var isIndexed = false
    /// Whether sync services transfer the value (of old models).
    public var isSyncable = true
    /// Whether the value is stored in an external record file (of old models).
    public var isStoredInTruthFile = false
    /// The expression of a derived attribute, computed by the store.
    public var derivationExpression: String?
    /// For a composite attribute, the name of its ``CompositeDescription`` in the model.
    public var compositeName: String?
    /// The name the attribute had in an earlier version of the model.
    public var renamingIdentifier: String?
    /// The version hash modifier, which distinguishes otherwise equal version hashes.
    public var versionHashModifier: String?
    /// The user info: arbitrary keys and values.
    public var userInfo: [String: PropertyListValue] = [:]

    /// Describes an attribute with default settings.
    public init(name: String, type: AttributeType) {
        self.name = name
        self.type = type
    }
}

/// A named group of elements for composite attributes.
public struct CompositeDescription: Sendable, Hashable {
    /// The composite's name, which attributes refer to.
    public var name: String
    /// The elements, which may themselves be composite.
    public var elements: [AttributeDescription]

    /// Describes a composite.
    public init(name: String, elements: [AttributeDescription]) {
        self.name = name
        self.elements = elements
    }
}

// MARK: - Validation

extension AttributeDescription {
    /// Converts a value to the attribute's storage form.
    ///
    /// A value already in that form is returned unchanged at no cost. Accepted conversions:
    /// - an integer for a double, float or decimal that can represent it exactly, and 0 and 1 for a boolean,
    /// - external data for a binary attribute; its bytes if the attribute does not allow external storage,
    /// - a floating-point number for a decimal: the decimal of its shortest text (9.99 is 9.99).
    ///
    /// A float is rounded to its 32 bits. A date must be a number and less than 285 million years away. NaN is rejected
    /// everywhere, because SQLite stores it as NULL; infinity is accepted for a double or float. A transient attribute
    /// without a type accepts every value. The elements of a composite are not checked: each has its own description.
    ///
    /// - Parameters:
    ///   - value: The value. ``AttributeValue/null`` is always accepted; see ``validate(_:entity:)``.
    ///   - entity: The entity's name, for the error.
    /// - Throws: ``QuireError`` with code `invalidValue` if the value cannot be converted to the type.
    public func coerce(_ value: AttributeValue, entity: String? = nil) throws -> AttributeValue {
        switch (type, value) {
        case (_, .null), (.undefined, _), (.string, .string), (.integer64, .integer),
            (.boolean, .boolean), (.uuid, .uuid), (.uri, .uri), (.binary, .binary),
            (.transformable, .binary), (.objectID, .objectID), (.composite, .composite):
            return value
        case (.binary, .external(let data)):
            // Values in memory stay binary; only files are kept as external data.
            if allowsExternalBinaryDataStorage, !isTransient, data.file != nil { return value }
            return .binary(try data.data())
        case (.integer16, .integer(let integer)):
            if integer >= Int16.min && integer <= Int16.max { return value }
            throw outOfRange(value, "\(Int16.min) to \(Int16.max)", entity: entity)
        case (.integer32, .integer(let integer)):
            if integer >= Int32.min && integer <= Int32.max { return value }
            throw outOfRange(value, "\(Int32.min) to \(Int32.max)", entity: entity)
        case (.double, .double(let number)):
            if !number.isNaN { return value }
        case (.float, .double(let number)):
            let rounded = Float(number)
            if rounded.isInfinite && number.isFinite {
                throw outOfRange(
                    value, "±\(Float.greatestFiniteMagnitude)", entity: entity)
            }
            if !number.isNaN { return .double(Double(rounded)) }
        case (.date, .date(let date)):
            if abs(date.timeIntervalSinceReferenceDate) < DateText.maximumInterval { return value }
        case (.decimal, .decimal(let decimal)):
            if !decimal.isNaN { return value }
        default:
            if let widened = widen(value) { return widened }
        }
        throw wrongType(value, entity: entity)
    }

    private func widen(_ value: AttributeValue) -> AttributeValue? {
        switch (type, value) {
        case (.double, .integer(let integer)):
            Double(exactly: integer).map(AttributeValue.double)
        case (.float, .integer(let integer)):
            Float(exactly: integer).map { .double(Double($0)) }
        case (.decimal, .integer(let integer)): .decimal(Decimal(integer))
        case (.boolean, .integer(0)): .boolean(false)
        case (.boolean, .integer(1)): .boolean(true)
        case (.decimal, .double(let number)) where number.isFinite:
            try? AttributeValue(parsing: number.description, as: .decimal)
        default: nil
        }
    }

    /// The value that an accessor that cannot throw sets instead of one that ``coerce(_:entity:)`` refuses: none for NaN, as in
    /// a store, and the same number or date if the attribute cannot hold it, for validation to refuse. `nil` for a value of
    /// another kind, which is a programmer error.
    package func valueUntilValidation(_ value: AttributeValue) -> AttributeValue? {
        if derivationExpression != nil { return nil }
        switch (type, value) {
        case (.date, .date(let date)):
            return date.timeIntervalSinceReferenceDate.isNaN ? .null : value
        case (.integer16, _), (.integer32, _), (.integer64, _), (.double, _), (.float, _),
            (.decimal, _), (.boolean, _):
            switch value {
            case .integer: return value
            case .double(let number): return number.isNaN ? .null : value
            case .decimal(let number): return number.isNaN ? .null : value
            default: return nil
            }
        default: return nil
        }
    }

    /// Validates the value for saving: present if required, and in range, or a text of valid length and form.
    ///
    /// Lengths are counted in UTF-16 code units, as in Core Data.
    ///
    /// - Parameters:
    ///   - value: A value that ``coerce(_:entity:)`` returned.
    ///   - entity: The entity's name, for the error.
    /// - Throws: ``QuireError`` with code `validation`, naming the property and the rule; with code
    ///   `invalidValue` if the value is not of the attribute's type.
    public func validate(_ value: AttributeValue, entity: String? = nil) throws {
        switch value {
        case .null:
            // The store computes derived values.
            if isOptional || derivationExpression != nil { return }
            throw violation(.required, "is required, but has no value.", entity: entity)
        case .string(let text):
            guard type == .string else { break }
            if hasTextRules { try validate(text, entity: entity) }
            return
        default: break
        }
        guard matchesType(value) else { throw wrongType(value, entity: entity) }
        if !minimum.isNull, isLess(value, than: minimum) {
            throw violation(
                .minimum, "is \(value.display); the minimum is \(minimum.display).", value,
                entity: entity)
        }
        if !maximum.isNull, isLess(maximum, than: value) {
            throw violation(
                .maximum, "is \(value.display); the maximum is \(maximum.display).", value,
                entity: entity)
        }
    }

    private var hasTextRules: Bool {
        !minimum.isNull || !maximum.isNull || regularExpression != nil
    }

    private func validate(_ text: String, entity: String?) throws {
        if case .integer(let least) = minimum, text.utf16.count < least {
            throw violation(
                .minimumLength,
                "is too short: its length is \(text.utf16.count), the minimum is \(least)"
                    + (text.isEmpty ? "." : "; it is \(AttributeValue.shown(text))."),
                .string(text), entity: entity)
        }
        if case .integer(let most) = maximum, text.utf16.count > most {
            throw violation(
                .maximumLength,
                "is too long: its length is \(text.utf16.count), the maximum is \(most); it is "
                    + "\(AttributeValue.shown(text)).", .string(text), entity: entity)
        }
        if let pattern = regularExpression {
            let expression = try RegularExpressionCache.expression(for: pattern)
            let problem: String
            do throws(WholeTextExpression.TimeLimitExceeded) {
                if try expression.matches(text) { return }
                problem = "which does not match “\(pattern)”."
            } catch {
                problem =
                    "and matching it with “\(pattern)” takes too long; write the expression without "
                    + "nested repetitions."
            }
            throw violation(
                .regularExpression, "is \(AttributeValue.shown(text)), \(problem)",
                .string(text), entity: entity)
        }
    }

    private func matchesType(_ value: AttributeValue) -> Bool {
        switch (type, value) {
        case (.undefined, _), (.string, .string), (.boolean, .boolean), (.uuid, .uuid),
            (.uri, .uri), (.binary, .binary), (.binary, .external), (.transformable, .binary),
            (.objectID, .objectID), (.composite, .composite), (.decimal, .decimal), (.date, .date):
            true
        case (.integer16, .integer), (.integer32, .integer), (.integer64, .integer): true
        case (.double, .double), (.float, .double): true
        default: false
        }
    }

    /// Whether one value is less than another. False for values of different kinds or without an order.
    func isLess(_ left: AttributeValue, than right: AttributeValue) -> Bool {
        switch (left, right) {
        case (.integer(let left), .integer(let right)): left < right
        case (.double(let left), .double(let right)): left < right
        case (.decimal(let left), .decimal(let right)): left < right
        case (.date(let left), .date(let right)): left < right
        default: false
        }
    }

    // MARK: - Errors

    private func title(in entity: String?) -> String {
        entity.map { "“\($0).\(name)”" } ?? "“\(name)”"
    }

    @inline(never)
    private func violation(
        _ rule: QuireError.Rule, _ text: String, _ value: AttributeValue = .null, entity: String?
    ) -> QuireError {
        QuireError(
            .validation, "\(title(in: entity)) \(text)",
            entity: entity, property: name, rule: rule, value: value.isNull ? nil : value.display)
    }

    @inline(never)
    private func wrongType(_ value: AttributeValue, entity: String?) -> QuireError {
        QuireError(
            .invalidValue,
            "\(title(in: entity)) must be a \(type.title), not \(value.kind) \(value.display).",
            entity: entity, property: name)
    }

    @inline(never)
    private func outOfRange(
        _ value: AttributeValue, _ range: String, entity: String?
    ) -> QuireError {
        QuireError(
            .invalidValue,
            "\(title(in: entity)) must be a \(type.title), \(range); \(value.display) is out of range.",
            entity: entity, property: name)
    }
}

extension AttributeValue {
    /// The kind of value, for error messages.
    fileprivate var kind: String {
        switch self {
        case .null: "nothing:"
        case .integer: "the integer"
        case .double: "the floating-point number"
        case .boolean: "the Boolean value"
        case .decimal: "the decimal number"
        case .string: "the text"
        case .date: "the date"
        case .binary, .external: "a binary value of"
        case .uuid: "the UUID"
        case .uri: "the URI"
        case .objectID: "the object"
        case .composite: "the value"
        }
    }
}
