internal import SwiftDiagnostics
public import SwiftSyntax
internal import SwiftSyntaxBuilder
public import SwiftSyntaxMacros

/// A structure marked `@Composite`, taken apart.
struct CompositeSyntax {
    /// A stored property of the structure.
    struct Element {
        /// The name as it is written, perhaps in backticks.
        let name: String
        let type: TypeSyntax
        let isOptional: Bool
        let initialValue: ExprSyntax?

        var literal: String {
            "\"\(name.first == "`" ? String(name.dropFirst().dropLast()) : name)\""
        }
    }

    let name: String
    let elements: [Element]
    let access: String

    /// Parses a structure; `nil`, with a diagnostic, if it cannot be a composite.
    init?(
        _ attribute: AttributeSyntax, _ declaration: some DeclGroupSyntax,
        in context: some MacroExpansionContext
    ) {
        guard let structure = declaration.as(StructDeclSyntax.self) else {
            Self.diagnoseKind(attribute, declaration, in: context)
            return nil
        }
        if let generics = structure.genericParameterClause {
            context.diagnose(
                generics, "genericComposite",
                "a composite has one structure, which cannot be generic")
            return nil
        }
        var elements: [Element] = []
        var isSound = true
        for member in structure.memberBlock.members {
            guard let variable = member.decl.as(VariableDeclSyntax.self),
                Self.isStored(variable)
            else { continue }
            if let element = Self.element(variable, in: context) {
                elements.append(element)
            } else {
                isSound = false
            }
        }
        guard isSound else { return nil }
        if elements.isEmpty {
            context.diagnose(
                structure.name, "noElements",
                "a composite requires an element: a stored property of the structure")
            return nil
        }
        name =
            attribute.arguments?.as(LabeledExprListSyntax.self)?.first {
                $0.label?.text == "name" && !$0.expression.is(NilLiteralExprSyntax.self)
            }?.expression.trimmedDescription ?? "\"\(structure.name.text)\""
        self.elements = elements
        let modifiers = structure.modifiers.map(\.name.text)
        access = ["public", "package"].first(where: modifiers.contains).map { $0 + " " } ?? ""
    }

    private static func diagnoseKind(
        _ attribute: AttributeSyntax, _ declaration: some DeclGroupSyntax,
        in context: some MacroExpansionContext
    ) {
        let diagnostic = MacroDiagnostic(
            "structure",
            "@Composite is for structures: a composite is a value within an object, without an identity"
        )
        guard let named = declaration.as(ClassDeclSyntax.self) else {
            context.diagnose(attribute, diagnostic)
            return
        }
        context.diagnose(
            named.classKeyword, diagnostic, fixIt: "Make it a structure",
            [.replace(named.classKeyword, by: TokenSyntax.keyword(.struct))])
    }

    /// Whether a declaration is of stored properties of values.
    private static func isStored(_ variable: VariableDeclSyntax) -> Bool {
        if variable.modifiers.contains(where: { $0.name.text == "static" }) { return false }
        return variable.bindings.contains { binding in
            guard let block = binding.accessorBlock else { return true }
            guard case .accessors(let accessors) = block.accessors else { return false }
            return accessors.allSatisfy {
                ["willSet", "didSet"].contains($0.accessorSpecifier.text)
            }
        }
    }

    private static func element(
        _ variable: VariableDeclSyntax, in context: some MacroExpansionContext
    ) -> Element? {
        guard let binding = variable.bindings.first, variable.bindings.count == 1,
            let name = binding.pattern.as(IdentifierPatternSyntax.self)?.identifier.trimmed
        else {
            context.diagnose(variable, "elements", "declare each element with a separate “var”")
            return nil
        }
        let specifier = variable.bindingSpecifier
        if specifier.tokenKind == .keyword(.let), binding.initializer != nil {
            context.diagnose(
                specifier, "constantElement",
                "“\(name.text)” is the same in all values, so it cannot be an element",
                fixIt: "Replace “let” with “var”",
                [.replace(specifier, by: TokenSyntax.keyword(.var))])
            return nil
        }
        guard let type = binding.typeAnnotation?.type else {
            var typed = binding
            typed.pattern = binding.pattern.trimmed
            typed.typeAnnotation = TypeAnnotationSyntax(
                colon: .colonToken(trailingTrivia: .space),
                type: TypeSyntax(stringLiteral: "<#type#>"), trailingTrivia: .space)
            context.diagnose(
                binding, "elementType",
                "an element requires an explicit type: “var \(name.text): …”",
                fixIt: "Add the type", [.replace(binding, by: typed)])
            return nil
        }
        guard case .one(let wrapped, let isOptional) = PropertySyntax.shape(of: type) else {
            context.diagnose(
                type, "elementValues",
                "an element has one value; for several, use a relationship of the class")
            return nil
        }
        return Element(
            name: name.text, type: wrapped, isOptional: isOptional,
            initialValue: binding.initializer?.value.trimmed)
    }

    // MARK: Generated declarations

    func conformance(of type: some TypeSyntaxProtocol) throws -> ExtensionDeclSyntax {
        let declarations = elements.map {
            "                .attribute(\($0.literal), \($0.type).self, isOptional: \($0.isOptional)),\n"
        }.joined()
        let readings = elements.map { element in
            let initial = element.isOptional ? nil : element.initialValue
            return
                "        \(element.name) = elements.value(\(element.literal)\(initial.map { ", default: \($0)" } ?? ""))\n"
        }.joined()
        let writings = elements.map {
            "        elements.set(\($0.name), for: \($0.literal))\n"
        }.joined()
        return try ExtensionDeclSyntax(
            """
            nonisolated extension \(type.trimmed): CompositeRepresentable {
                \(raw: access)static var compositeDeclaration: CompositeDeclaration {
                    CompositeDeclaration(
                        \(raw: name),
                        elements: [
            \(raw: declarations)            ])
                }

                \(raw: access)init(compositeElements elements: CompositeElements) {
            \(raw: readings)    }

                \(raw: access)var compositeElements: CompositeElements {
                    var elements = CompositeElements()
            \(raw: writings)        return elements
                }
            }
            """)
    }
}

// MARK: - Expansion

/// `@Composite`: declares the composite of a structure, and converts values.
open class CompositeExpansion: ExtensionMacro {
    /// The conformance to `CompositeRepresentable`.
    public static func expansion(
        of node: AttributeSyntax, attachedTo declaration: some DeclGroupSyntax,
        providingExtensionsOf type: some TypeSyntaxProtocol, conformingTo protocols: [TypeSyntax],
        in context: some MacroExpansionContext
    ) throws -> [ExtensionDeclSyntax] {
        guard let composite = CompositeSyntax(node, declaration, in: context) else { return [] }
        return [try composite.conformance(of: type)]
    }
}
