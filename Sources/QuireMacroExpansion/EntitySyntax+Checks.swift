internal import SwiftDiagnostics
internal import SwiftSyntax
internal import SwiftSyntaxBuilder
internal import SwiftSyntaxMacros

extension EntitySyntax {
    /// Complains about stored properties that would keep the class from having objects, and about names that are no
    /// properties.
    func checkMembers(in context: some MacroExpansionContext) {
        for member in members { check(member.decl, in: context) }
        // Those of superclasses are not known here.
        guard superclass.split(separator: ".").last == "ManagedObject" else { return }
        let known = Set(properties.map(\.plainName))
        for label in ["unique", "indexes"] {
            for literal in argument(label).map(texts(in:)) ?? [] {
                guard case .stringSegment(let segment)? = literal.segments.first,
                    !known.contains(segment.content.text)
                else { continue }
                let name = segment.content.text
                context.complain(
                    literal,
                    Complaint(
                        label, "\(self.name) has no attribute or relationship “\(name)”"))
            }
        }
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
        context.complain(
            variable,
            Complaint(
                "unmarked",
                "“\(name)” has no value when an object is made: mark it \(mark), or give it an initial value to keep it "
                    + "in memory only"),
            remedy: "Mark it \(mark)",
            [.replace(variable, by: DeclSyntax("\(raw: mark) \(marked)"))])
    }
}
