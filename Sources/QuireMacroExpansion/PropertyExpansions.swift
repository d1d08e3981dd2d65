public import SwiftSyntax
internal import SwiftSyntaxBuilder
public import SwiftSyntaxMacros

/// `@Attribute`: reads and writes by ordinal.
open class AttributeExpansion: AccessorMacro {
    /// The property's accessors.
    public static func expansion(
        of node: AttributeSyntax, providingAccessorsOf declaration: some DeclSyntaxProtocol,
        in context: some MacroExpansionContext
    ) throws -> [AccessorDeclSyntax] {
        guard let property = PropertySyntax.checked(declaration, node, context),
            case .one(_, let isOptional)? = property.shape
        else { return [] }
        let ordinal = "PropertyOrdinals.\(property.name.text)"
        let standIn =
            isOptional ? "" : property.argument("default").map { ", default: \($0)" } ?? ""
        return [
            "get { attribute(\(raw: ordinal)\(raw: standIn)) }",
            "set { setAttribute(\(raw: ordinal), newValue) }",
        ]
    }
}

/// `@Relationship`: reads and writes by ordinal.
open class RelationshipExpansion: AccessorMacro {
    /// The property's accessors.
    public static func expansion(
        of node: AttributeSyntax, providingAccessorsOf declaration: some DeclSyntaxProtocol,
        in context: some MacroExpansionContext
    ) throws -> [AccessorDeclSyntax] {
        guard let property = PropertySyntax.checked(declaration, node, context) else { return [] }
        let ordinal = "PropertyOrdinals.\(property.name.text)"
        return [
            "get { related(\(raw: ordinal)) }",
            "set { setRelated(\(raw: ordinal), newValue) }",
        ]
    }
}

extension PropertySyntax {
    /// The property that a macro is attached to, if accessors can be made for it; else the context is told why not.
    fileprivate static func checked(
        _ declaration: some DeclSyntaxProtocol, _ node: AttributeSyntax,
        _ context: some MacroExpansionContext
    ) -> PropertySyntax? {
        guard let property = PropertySyntax(declaration) else {
            context.complain(
                node, Complaint("noProperty", "this is for a property with a name of its own"))
            return nil
        }
        let owner = context.lexicalContext.first?.as(ClassDeclSyntax.self)
        guard let owner, EntityExpansion.isMarked(owner) else {
            context.complain(
                node,
                Complaint(
                    "noEntity",
                    "@\(property.kind.rawValue) is for properties of a class marked @Entity"
                        + (owner.map { "; mark \($0.name.text) so" } ?? "")))
            return nil
        }
        return property.isSound(in: context) ? property : nil
    }
}
