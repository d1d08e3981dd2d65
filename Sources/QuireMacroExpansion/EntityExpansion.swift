public import SwiftSyntax
public import SwiftSyntaxMacros

/// `@Entity`: declares the entity of a class and numbers its properties.
open class EntityExpansion: MemberMacro {
    /// The declaration of the entity and the ordinals of the properties.
    public static func expansion(
        of node: AttributeSyntax, providingMembersOf declaration: some DeclGroupSyntax,
        conformingTo protocols: [TypeSyntax], in context: some MacroExpansionContext
    ) throws -> [DeclSyntax] {
        guard let entity = EntitySyntax(node, declaration, in: context) else { return [] }
        entity.checkMembers(in: context)
        return [entity.declaration, entity.ordinals]
    }

    /// Whether a class is marked `@Entity`.
    static func isMarked(_ declaration: ClassDeclSyntax) -> Bool {
        declaration.attributes.contains {
            $0.as(AttributeSyntax.self)?.attributeName.trimmedDescription
                .split(separator: ".").last == "Entity"
        }
    }
}
