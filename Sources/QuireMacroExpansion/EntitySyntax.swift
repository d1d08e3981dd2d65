internal import SwiftDiagnostics
public import SwiftSyntax
internal import SwiftSyntaxBuilder
public import SwiftSyntaxMacros

/// A class marked `@Entity`, taken apart.
struct EntitySyntax {
    let attribute: AttributeSyntax
    let members: MemberBlockItemListSyntax
    let name: String
    let superclass: String
    let modifiers: Set<String>
    let properties: [PropertySyntax]

    /// Parses a class; `nil`, with a diagnostic, if it cannot have an entity.
    init?(
        _ attribute: AttributeSyntax, _ declaration: some DeclGroupSyntax,
        in context: some MacroExpansionContext
    ) {
        guard let declaration = declaration.as(ClassDeclSyntax.self) else {
            Self.diagnoseKind(attribute, declaration, in: context)
            return nil
        }
        guard let superclass = declaration.inheritanceClause?.inheritedTypes.first else {
            var named = declaration.name
            named.trailingTrivia = []
            context.diagnose(
                declaration.name, "superclass",
                "\(named.text) must be a subclass of ManagedObject, or of another class marked @Entity",
                fixIt: "Inherit from ManagedObject",
                [
                    .replace(
                        declaration.name, by: TokenSyntax.identifier("\(named.text): ManagedObject")
                    )
                ])
            return nil
        }
        if let generics = declaration.genericParameterClause {
            context.diagnose(
                generics, "generic", "an entity has one class, which cannot be generic")
            return nil
        }
        self.attribute = attribute
        members = declaration.memberBlock.members
        name = declaration.name.text
        self.superclass = superclass.type.trimmedDescription
        modifiers = Set(declaration.modifiers.map(\.name.text))
        properties = members.compactMap { PropertySyntax($0.decl) }.filter { $0.isSound() }
    }

    private static func diagnoseKind(
        _ attribute: AttributeSyntax, _ declaration: some DeclGroupSyntax,
        in context: some MacroExpansionContext
    ) {
        let diagnostic = MacroDiagnostic(
            "class", "@Entity is for classes: an object has one identity wherever it is used")
        guard let structure = declaration.as(StructDeclSyntax.self) else {
            context.diagnose(attribute, diagnostic)
            return
        }
        let keyword = structure.structKeyword
        context.diagnose(
            keyword, diagnostic, fixIt: "Make it a class",
            [.replace(keyword, by: TokenSyntax.identifier("final class"))])
    }

    // MARK: Generated declarations

    private var access: String {
        for level in ["open", "public", "package"] where modifiers.contains(level) {
            return level + " "
        }
        return ""
    }

    /// The ordinals of the properties.
    var ordinals: DeclSyntax {
        let base = "\(superclass).PropertyOrdinals.propertyCount"
        let access = access == "open " ? "public " : access
        let inlinable = access == "public " ? "@inlinable " : ""
        let lines = properties.enumerated().map { index, property in
            "    \(inlinable)\(access)static var \(property.name.text): Int { \(base) + \(index) }\n"
        }
        return """
            nonisolated \(raw: access)enum PropertyOrdinals {
            \(raw: lines.joined())    \(raw: inlinable)\(raw: access)static var propertyCount: Int { \(raw: base) + \(raw: properties.count) }
            }
            """
    }

    /// The entity's declaration.
    var declaration: DeclSyntax {
        var arguments = [argument("name")?.description ?? "\"\(name)\"", "of: \(name).self"]
        arguments.append("inheriting: \(superclass).self")
        for (label, parameter) in [
            ("abstract", "isAbstract"), ("renamingIdentifier", "renamingIdentifier"),
            ("unique", "unique"), ("indexes", "indexes"),
        ] {
            if let value = argument(label) { arguments.append("\(parameter): \(value)") }
        }
        let list = properties.map { "            \($0.declarationExpression),\n" }.joined()
        let properties = list.isEmpty ? "[]" : "[\n\(list)        ]"
        return """
            nonisolated \(raw: access)override class var entityDeclaration: EntityDeclaration? {
                EntityDeclaration(
                    \(raw: arguments.joined(separator: ", ")),
                    properties: \(raw: properties))
            }
            """
    }

    func argument(_ label: String) -> ExprSyntax? {
        attribute.arguments?.as(LabeledExprListSyntax.self)?
            .first { $0.label?.text == label }?.expression.trimmed
    }
}

extension PropertySyntax {
    /// The expression that declares the property.
    fileprivate var declarationExpression: String {
        var parts = ["\"\(plainName)\""]
        func add(_ label: String) {
            if let value = argument(label) { parts.append("\(label): \(value)") }
        }
        add("key")
        let function: String
        switch shape {
        case .many(let member, let isOrdered):
            function = kind == .fetched ? "fetched" : "toMany"
            parts.append("\(member).self")
            if isOrdered && kind == .relationship { parts.append("isOrdered: true") }
        case .one(let type, let isOptional):
            function = kind == .attribute ? "attribute" : "toOne"
            parts.append("\(type).self")
            if kind == .attribute { parts.append("isOptional: \(isOptional)") }
        case nil: return ""
        }
        switch kind {
        case .fetched:
            for label in [
                "predicate", "sortOrderings", "fetchLimit", "fetchOffset", "fetchBatchSize",
                "relationshipKeyPathsForPrefetching",
            ] { add(label) }
            return ".\(function)(\(parts.joined(separator: ", ")))"
        case .attribute:
            if let defaultValue { parts.append("default: \(defaultValue)") }
            for label in ["minimum", "maximum", "length", "regex", "derived"] { add(label) }
        case .relationship:
            if let inverse { parts.append("inverse: \(inverse)") }
            add("deleteRule")
            if function == "toMany" {
                add("minimumCount")
                add("maximumCount")
            }
        }
        add("renamingIdentifier")
        if kind == .attribute { add("userInfo") }
        if !options.isEmpty { parts.append("options: [\(options.joined(separator: ", "))]") }
        return ".\(function)(\(parts.joined(separator: ", ")))"
    }
}

// MARK: - Checks

extension EntitySyntax {
    /// Complains about stored properties that would keep the class from having objects, and about names that are no
    /// properties.
    func checkMembers(in context: some MacroExpansionContext) {
        for member in members { check(member.decl, in: context) }
        for property in properties { checkInverse(of: property, in: context) }
        // Those of superclasses are not known here.
        guard superclass.split(separator: ".").last == "ManagedObject" else { return }
        let known = Set(properties.map(\.plainName))
        for label in ["unique", "indexes"] {
            for literal in argument(label).map(texts(in:)) ?? [] {
                guard case .stringSegment(let segment)? = literal.segments.first,
                    !known.contains(segment.content.text)
                else { continue }
                let name = segment.content.text
                context.diagnose(
                    literal, label, "\(self.name) has no attribute or relationship “\(name)”")
            }
        }
    }

    /// Complains about relationships of the class that name each other by key paths: the compiler needs the types of both to
    /// expand either, and stops with “circular reference”. A relationship to another class cannot be checked here.
    private func checkInverse(of property: PropertySyntax, in context: some MacroExpansionContext) {
        guard let inverse = ownInverse(of: property),
            let other = properties.first(where: { "\"\($0.plainName)\"" == inverse.name }),
            ownInverse(of: other)?.name == "\"\(property.plainName)\""
        else { return }
        context.diagnose(
            inverse.keyPath, "circularInverse",
            "the compiler cannot resolve relationships that name each other by key paths; specify the inverse of "
                + "“\(property.plainName)” as a string, or on one side only",
            fixIt: "Use a string",
            [.replace(inverse.keyPath, by: ExprSyntax("\(raw: inverse.name)"))])
    }

    /// The inverse that a property names by a key path of the class itself.
    private func ownInverse(
        of property: PropertySyntax
    ) -> (keyPath: ExprSyntax, name: String)? {
        guard let argument = property.argumentInPlace("inverse"),
            let keyPath = argument.as(KeyPathExprSyntax.self),
            keyPath.root?.trimmedDescription == name, let name = property.inverse
        else { return nil }
        return (argument, name)
    }

    private func texts(in expression: ExprSyntax) -> [StringLiteralExprSyntax] {
        if let text = expression.as(StringLiteralExprSyntax.self) { return [text] }
        return expression.as(ArrayExprSyntax.self)?.elements.flatMap { texts(in: $0.expression) }
            ?? []
    }

    private func check(_ member: DeclSyntax, in context: some MacroExpansionContext) {
        guard let variable = member.as(VariableDeclSyntax.self), variable.attributes.isEmpty,
            !variable.modifiers.contains(where: {
                ["static", "class", "lazy"].contains($0.name.text)
            }),
            let binding = variable.bindings.first, variable.bindings.count == 1,
            binding.initializer == nil, binding.accessorBlock == nil,
            let name = binding.pattern.as(IdentifierPatternSyntax.self)?.identifier.text,
            let type = binding.typeAnnotation?.type, !type.is(OptionalTypeSyntax.self),
            !type.is(ImplicitlyUnwrappedOptionalTypeSyntax.self)
        else { return }
        let mark: String
        switch PropertySyntax.shape(of: type) {
        case .many: mark = "@Relationship"
        case .one: mark = "@Attribute"
        }
        var marked = variable
        marked.leadingTrivia = []
        context.diagnose(
            variable, "unmarked",
            "“\(name)” has no value when an object is created: mark it \(mark), or give it an initial value to keep it "
                + "in memory only",
            fixIt: "Mark it \(mark)",
            [.replace(variable, by: DeclSyntax("\(raw: mark) \(marked)"))])
    }
}

// MARK: - Expansion

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
