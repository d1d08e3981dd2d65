internal import SwiftDiagnostics
internal import SwiftSyntax
internal import SwiftSyntaxBuilder
internal import SwiftSyntaxMacros

/// A class marked `@Entity`, taken apart.
struct EntitySyntax {
    let attribute: AttributeSyntax
    let members: MemberBlockItemListSyntax
    let name: String
    let superclass: String
    let modifiers: Set<String>
    let properties: [PropertySyntax]

    /// Takes a class apart; `nil` if it can have no entity, and the context is told why.
    init?(
        _ attribute: AttributeSyntax, _ declaration: some DeclGroupSyntax,
        in context: some MacroExpansionContext
    ) {
        guard let declaration = declaration.as(ClassDeclSyntax.self) else {
            Self.complainAboutKind(attribute, declaration, in: context)
            return nil
        }
        guard let superclass = declaration.inheritanceClause?.inheritedTypes.first else {
            var named = declaration.name
            named.trailingTrivia = []
            context.complain(
                declaration.name,
                Complaint(
                    "superclass",
                    "\(named.text) must be a subclass of ManagedObject, or of another class marked @Entity"
                ),
                remedy: "Inherit from ManagedObject",
                [
                    .replace(
                        declaration.name, by: TokenSyntax.identifier("\(named.text): ManagedObject")
                    )
                ])
            return nil
        }
        if let generics = declaration.genericParameterClause {
            context.complain(
                generics,
                Complaint("generic", "an entity has one class, so that cannot be generic"))
            return nil
        }
        self.attribute = attribute
        members = declaration.memberBlock.members
        name = declaration.name.text
        self.superclass = superclass.type.trimmedDescription
        modifiers = Set(declaration.modifiers.map(\.name.text))
        properties = members.compactMap { PropertySyntax($0.decl) }.filter { $0.isSound() }
    }

    private static func complainAboutKind(
        _ attribute: AttributeSyntax, _ declaration: some DeclGroupSyntax,
        in context: some MacroExpansionContext
    ) {
        let complaint = Complaint(
            "class", "@Entity is for classes: an object has one identity wherever it is used")
        guard let structure = declaration.as(StructDeclSyntax.self) else {
            context.complain(attribute, complaint)
            return
        }
        let keyword = structure.structKeyword
        context.complain(
            keyword, complaint, remedy: "Make it a class",
            [.replace(keyword, by: TokenSyntax.identifier("final class"))])
    }

    // MARK: What is made

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
            function = "toMany"
            parts.append("\(member).self")
            if isOrdered { parts.append("isOrdered: true") }
        case .one(let type, let isOptional):
            function = kind == .attribute ? "attribute" : "toOne"
            parts.append("\(type).self")
            if kind == .attribute { parts.append("isOptional: \(isOptional)") }
        case nil: return ""
        }
        if kind == .attribute {
            for label in ["default", "minimum", "maximum", "length", "regex"] { add(label) }
        } else {
            if let inverse { parts.append("inverse: \(inverse)") }
            add("deleteRule")
            if function == "toMany" {
                add("minimumCount")
                add("maximumCount")
            }
        }
        add("renamingIdentifier")
        if !options.isEmpty { parts.append("options: [\(options.joined(separator: ", "))]") }
        return ".\(function)(\(parts.joined(separator: ", ")))"
    }
}
