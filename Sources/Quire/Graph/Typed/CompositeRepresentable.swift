/// A structure that a composite attribute of a typed class may have as its type. The macro `@Composite` writes the conformance.
public protocol CompositeRepresentable: AttributeRepresentable {
    /// The declaration of the composite with its elements.
    static var compositeDeclaration: CompositeDeclaration { get }
    /// Creates a value from its elements.
    init(compositeElements elements: CompositeElements)
    /// The elements.
    var compositeElements: CompositeElements { get }
}

extension CompositeRepresentable {
    /// Composites.
    public static var attributeTypes: [AttributeType] { [.composite] }
    /// The initial values of the structure's properties, and missing values of those without one.
    public static var missingValue: Self { Self(compositeElements: CompositeElements()) }
    /// Unlikely values of the elements.
    public static var unlikelyValue: Self {
        Self(compositeElements: CompositeElements(CompositeProbe(.all), at: []))
    }

    /// Converts a composite value; `nil` if all its elements are missing.
    public init?(attributeValue value: AttributeValue) {
        guard case .composite(let values) = value, value.hasElements else { return nil }
        self.init(compositeElements: CompositeElements(values))
    }

    /// A composite value.
    public var attributeValue: AttributeValue { .composite(compositeElements.values) }

    /// Reads the elements; `nil` if all are missing.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Self? {
        guard let slot = object.position(of: ordinal) else {
            return PropertyProbe.attribute(ordinal, of: object)
        }
        return Self(
            attributeValue: object[object.compositeKey(at: slot), as: AttributeValue.self])
    }
}

extension AttributeValue {
    /// Whether a composite has an element that is not missing.
    var hasElements: Bool {
        switch self {
        case .null: false
        case .composite(let values): values.values.contains(where: \.hasElements)
        default: true
        }
    }
}

extension ManagedObject {
    /// The name of the composite attribute whose first element has a slot.
    final func compositeKey(at slot: Int) -> String {
        String(resolvedEntity.slots[slot].name.prefix { $0 != "." })
    }

    /// Sets the elements of a composite attribute. A value that an element cannot represent is kept, and validating the
    /// object fails.
    public final func setAttribute<Value: CompositeRepresentable>(_ ordinal: Int, _ value: Value) {
        setComposite(ordinal, value.attributeValue)
    }

    /// Sets the elements of an optional composite attribute; all are missing for `nil`.
    public final func setAttribute<Value: CompositeRepresentable>(_ ordinal: Int, _ value: Value?) {
        setComposite(ordinal, value?.attributeValue ?? .null)
    }

    private final func setComposite(_ ordinal: Int, _ value: AttributeValue) {
        guard let slot = position(of: ordinal) else { return }
        trapping { try assign(value, forKey: compositeKey(at: slot)) }
    }
}

// MARK: - Elements

/// The elements of a composite value by name, for the code that the macro `@Composite` writes.
public struct CompositeElements {
    private(set) var values: [String: AttributeValue] = [:]
    private var probe: CompositeProbe?
    private var path: [String] = []

    /// No elements.
    public init() {}

    init(_ values: [String: AttributeValue]) { self.values = values }

    fileprivate init(_ probe: CompositeProbe, at path: [String]) {
        self.probe = probe
        self.path = path
    }

    // MARK: Reading

    /// The value of an optional element.
    public func value<Value: AttributeRepresentable>(_ name: String) -> Value? {
        if let probe { return probe.answer(path + [name], unlike: nil) }
        return values[name].flatMap { Value(attributeValue: $0) }
    }

    /// The value of an element, or another if it is missing.
    public func value<Value: AttributeRepresentable>(
        _ name: String, default value: @autoclosure () -> Value = Value.missingValue
    ) -> Value {
        if let probe { return probe.answer(path + [name], unlike: value()) ?? value() }
        return self.value(name) ?? value()
    }

    /// The value of an optional element with raw values; `nil` also for an invalid raw value.
    public func value<Value: RawRepresentable>(_ name: String) -> Value?
    where Value.RawValue: AttributeRepresentable {
        if let probe { return probe.answer(path + [name], unlike: nil) }
        return values[name].flatMap { Value.RawValue(attributeValue: $0) }
            .flatMap { Value(rawValue: $0) }
    }

    /// The value of an element with raw values, or another if it is missing or invalid.
    public func value<Value: RawRepresentable>(
        _ name: String, default value: @autoclosure () -> Value
    ) -> Value where Value.RawValue: AttributeRepresentable {
        if let probe { return probe.answer(path + [name], unlike: value()) ?? value() }
        return self.value(name) ?? value()
    }

    /// Explains that a property needs an initial value.
    @available(
        *, unavailable,
        message:
            "the store may contain a value that this type cannot represent; give the property an initial value, or make it optional"
    )
    public func value<Value: RawRepresentable>(_ name: String) -> Value
    where Value.RawValue: AttributeRepresentable {
        preconditionFailure("Never called: it is unavailable.")
    }

    // MARK: Writing

    /// Sets an element.
    public mutating func set<Value: AttributeRepresentable>(_ value: Value?, for name: String) {
        values[name] = value?.attributeValue ?? .null
    }

    /// Sets an element with raw values.
    public mutating func set<Value: RawRepresentable>(_ value: Value?, for name: String)
    where Value.RawValue: AttributeRepresentable {
        values[name] = value?.rawValue.attributeValue ?? .null
    }
}

// MARK: - Key paths

/// Determines the element that a key path of a composite leads to.
///
/// As in ``PropertyProbe`` the names are not in the key path. It is read from values of which one element after the other has a
/// value that is unlikely to be there by chance.
private final class CompositeProbe {
    enum Target: Equatable { case none, one(Int), all }

    private let target: Target
    private(set) var names: [[String]] = []
    /// The value of the one element, unless that is the only one known.
    private(set) var answer: AttributeValue?

    init(_ target: Target) { self.target = target }

    /// Notes an element. Returns whether it has a value.
    private func note(_ name: [String]) -> Bool {
        names.append(name)
        return target == .all || target == .one(names.count - 1)
    }

    /// A value other than the one that stands for a missing value.
    func answer<Value: AttributeRepresentable>(
        _ name: [String], unlike other: Value?
    ) -> Value? {
        let composite = Value.self as? any CompositeRepresentable.Type
        if note(name) {
            let isUnlike = Value.unlikelyValue.attributeValue != other?.attributeValue
            let value = isUnlike ? Value.unlikelyValue : Value.missingValue
            if value.attributeValue != other?.attributeValue { answer = value.attributeValue }
            return value
        }
        return composite?.init(compositeElements: CompositeElements(self, at: name)) as? Value
    }

    /// A case of an enumeration other than the one that stands for a missing value.
    func answer<Value: RawRepresentable>(_ name: [String], unlike other: Value?) -> Value?
    where Value.RawValue: AttributeRepresentable {
        guard note(name), let cases = Value.self as? any CaseIterable.Type else { return nil }
        func values(of type: (some CaseIterable).Type) -> [Value] {
            type.allCases.compactMap { $0 as? Value }
        }
        let raw = other?.rawValue.attributeValue
        guard let value = values(of: cases).first(where: { $0.rawValue.attributeValue != raw })
        else { return nil }
        answer = value.rawValue.attributeValue
        return value
    }
}

extension CompositeRepresentable {
    /// The names of the element that a key path leads to, which reads it from a value; `nil` if it does more than that.
    ///
    /// Of an element whose type has no known value but one, an enumeration that is not `CaseIterable` or a type of a program's
    /// own, the name is in the key path's text, because it is stored: a computed property has none there.
    ///
    /// - Parameter owner: What the text has before the element, if it is not a computed property.
    static func elementNames(
        of keyPath: AnyKeyPath, in owner: String, _ read: (Self) -> Any?
    ) -> [String]? {
        func value(_ probe: CompositeProbe) -> AttributeValue? {
            read(Self(compositeElements: CompositeElements(probe, at: [])))
                .flatMap { AttributeValue(native: $0) }
        }
        let none = CompositeProbe(.none)
        let missing = value(none)
        var text = String(reflecting: keyPath)
        text.removeAll { $0 == "?" || $0 == "!" }
        for (index, name) in none.names.enumerated() {
            let probe = CompositeProbe(.one(index))
            let found = value(probe)
            if let answer = probe.answer {
                if found == answer, found != missing { return name }
            } else if found == missing {
                let element = "." + name.joined(separator: ".")
                if text.hasSuffix(")>\(element)") || text.hasSuffix("\(owner)\(element)") {
                    return name
                }
            }
        }
        return nil
    }
}
