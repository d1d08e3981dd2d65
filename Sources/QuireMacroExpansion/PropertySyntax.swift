internal import SwiftSyntax

/// A property marked `@Attribute` or `@Relationship`, taken apart.
struct PropertySyntax {
    enum Kind: String {
        case attribute = "Attribute"
        case relationship = "Relationship"
    }

    /// What a property's type says of it.
    enum Shape {
        /// The type itself, or what is optional.
        case one(TypeSyntax, isOptional: Bool)
        /// The type of the members of a set or an array.
        case many(TypeSyntax, isOrdered: Bool)
    }

    let kind: Kind
    let declaration: VariableDeclSyntax
    let attribute: AttributeSyntax
    let binding: PatternBindingSyntax
    /// The name as it is written, perhaps in backticks.
    let name: TokenSyntax
    let type: TypeSyntax?

    /// Takes a declaration apart; `nil` if it is no property with such an attribute.
    init?(_ declaration: some SyntaxProtocol) {
        guard let variable = declaration.as(VariableDeclSyntax.self),
            let (attribute, kind) = Self.mark(of: variable),
            let binding = variable.bindings.first,
            let pattern = binding.pattern.as(IdentifierPatternSyntax.self)
        else { return nil }
        self.declaration = variable
        self.attribute = attribute
        self.kind = kind
        self.binding = binding
        name = pattern.identifier.trimmed
        type = binding.typeAnnotation?.type
    }

    private static func mark(of variable: VariableDeclSyntax) -> (AttributeSyntax, Kind)? {
        for case .attribute(let attribute) in variable.attributes {
            // `@QuireMacros.Attribute` as well.
            let name = attribute.attributeName.trimmedDescription.split(separator: ".").last
            if let kind = name.flatMap({ Kind(rawValue: String($0)) }) { return (attribute, kind) }
        }
        return nil
    }

    /// The name without backticks.
    var plainName: String {
        name.text.first == "`" ? String(name.text.dropFirst().dropLast()) : name.text
    }

    /// What the type says.
    var shape: Shape? { type.map { Self.shape(of: $0) } }

    static func shape(of type: TypeSyntax) -> Shape {
        if let optional = type.as(OptionalTypeSyntax.self) {
            return .one(optional.wrappedType.trimmed, isOptional: true)
        }
        if let array = type.as(ArrayTypeSyntax.self) {
            return .many(array.element.trimmed, isOrdered: true)
        }
        if let (name, argument) = genericParts(of: type) {
            switch name {
            case "Optional": return .one(argument, isOptional: true)
            case "Array": return .many(argument, isOrdered: true)
            case "Set": return .many(argument, isOrdered: false)
            default: break
            }
        }
        return .one(type.trimmed, isOptional: false)
    }

    /// `Set` and `Tag` of `Set<Tag>`, or of `Swift.Set<Tag>`.
    private static func genericParts(of type: TypeSyntax) -> (String, TypeSyntax)? {
        let clause: GenericArgumentClauseSyntax?
        let name: String
        if let identifier = type.as(IdentifierTypeSyntax.self) {
            (name, clause) = (identifier.name.text, identifier.genericArgumentClause)
        } else if let member = type.as(MemberTypeSyntax.self) {
            (name, clause) = (member.name.text, member.genericArgumentClause)
        } else {
            return nil
        }
        guard let clause, clause.arguments.count == 1,
            let argument = clause.arguments.first?.argument.as(TypeSyntax.self)
        else { return nil }
        return (name, argument.trimmed)
    }

    // MARK: Arguments of the attribute

    private var arguments: LabeledExprListSyntax? {
        attribute.arguments?.as(LabeledExprListSyntax.self)
    }

    /// The argument with a label; `nil` if there is none or it is `nil`.
    func argument(_ label: String) -> ExprSyntax? {
        arguments?.first {
            $0.label?.text == label && !$0.expression.is(NilLiteralExprSyntax.self)
        }?
        .expression.trimmed
    }

    /// The options, as they are written.
    var options: [String] {
        arguments?.prefix { $0.label == nil }.map { $0.expression.trimmedDescription } ?? []
    }

    /// The name of the inverse, as a literal.
    var inverse: String? {
        guard let argument = argument("inverse") else { return nil }
        guard let keyPath = argument.as(KeyPathExprSyntax.self) else {
            return argument.description
        }
        guard keyPath.components.count == 1,
            case .property(let property)? = keyPath.components.first?.component
        else { return nil }
        return "\"\(property.declName.baseName.text)\""
    }
}
