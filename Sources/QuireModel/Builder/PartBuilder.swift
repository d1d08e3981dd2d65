/// What the result builders of models and of entities have in common: they collect parts, in a row, under
/// conditions and in loops.
public protocol PartBuilder {
    /// What the builder collects.
    associatedtype Part
}

extension PartBuilder {
    /// Parts that a function made.
    public static func buildExpression(_ parts: [Part]) -> [Part] { parts }

    /// Parts in a row.
    public static func buildBlock(_ parts: [Part]...) -> [Part] { parts.flatMap { $0 } }

    /// The parts of an `if` without `else`.
    public static func buildOptional(_ parts: [Part]?) -> [Part] { parts ?? [] }

    /// The parts of an `if`.
    public static func buildEither(first parts: [Part]) -> [Part] { parts }

    /// The parts of an `else`.
    public static func buildEither(second parts: [Part]) -> [Part] { parts }

    /// The parts of a loop.
    public static func buildArray(_ parts: [[Part]]) -> [Part] { parts.flatMap { $0 } }
}
