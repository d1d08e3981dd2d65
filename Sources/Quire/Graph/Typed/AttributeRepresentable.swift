/// A type that an attribute of a typed class may have, optional or not: the integers, `Double`, `Float`, `Decimal`,
/// `String`, `Bool`, `Date`, `Data`, `UUID` and `URL`. Enumerations whose raw values are of one of these may be
/// used without conforming.
///
/// A type of your own conforms by saying which attributes it can be kept in and how:
///
/// ```swift
/// struct Price: AttributeRepresentable {
///     var cents: Int64
///     static let attributeTypes = [AttributeType.integer64]
///     static let missingValue = Price(cents: 0)
///     init(cents: Int64) { self.cents = cents }
///     init?(attributeValue value: AttributeValue) {
///         guard case .integer(let cents) = value else { return nil }
///         self.init(cents: cents)
///     }
///     var attributeValue: AttributeValue { .integer(cents) }
/// }
/// ```
public protocol AttributeRepresentable: SendableMetatype {
    /// The types of attributes whose every value the type can hold. A model made of a class uses the first.
    static var attributeTypes: [AttributeType] { get }
    /// What a property that is not optional gives if there is no value, nor a default value in class or model.
    static var missingValue: Self { get }
    /// A value that a computation is unlikely to give by chance; key paths are told apart by it.
    static var unlikelyValue: Self { get }
    /// The value of a property of an object; `nil` if there is none.
    static func value(of object: ManagedObject, at ordinal: Int) -> Self?
    /// Takes the value out of an attribute's; `nil` if it is none of this type.
    init?(attributeValue value: AttributeValue)
    /// The value as an attribute keeps it.
    var attributeValue: AttributeValue { get }
}

extension AttributeRepresentable {
    /// ``missingValue``; only the tests of key paths against computed properties get weaker by it.
    public static var unlikelyValue: Self { missingValue }

    /// Reads the attribute's value and makes one of this type of it.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Self? {
        guard let slot = object.position(of: ordinal) else {
            return PropertyProbe.attribute(ordinal, of: object)
        }
        return Self(attributeValue: object.value(at: slot))
    }
}
